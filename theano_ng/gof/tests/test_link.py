import copy
import io
import unittest
from functools import partial

import numpy as np

from theano_ng.configdefaults import config
from theano_ng.gof import link, vm
from theano_ng.gof.codegen import clinker as cc
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.tests.floats import Compute, add, as_number, choose, div, mul, number
from theano_ng.gof.utils import MethodNotDefined


class Array:
    """A stand-in for an array with the attributes that error messages use."""

    def __init__(self, shape, strides):
        self.shape, self.strides = shape, strides
        self.size = 1
        for n in shape:
            self.size *= n

    def __repr__(self):
        return "Array%s" % (self.shape,)


class TestContainer(unittest.TestCase):
    def test_filter(self):
        cell = [None]
        c = link.Container(number("x"), cell)
        c.value = 3
        self.assertIs(type(cell[0]), float)
        self.assertEqual((c.data, c.name, str(c)), (3.0, "x", "<3.0>"))
        with self.assertRaises(TypeError) as error:
            c.value = "3"
        self.assertEqual(error.exception.args[-1], 'Container name "x"')
        self.assertEqual(c.value, 3.0)
        c.value = None
        self.assertIsNone(cell[0])
        with self.assertRaises(TypeError):
            link.Container(number, [None], strict=True).value = 3
        with self.assertRaisesRegex(Exception, "Cannot set readonly storage: x"):
            link.Container(number("x"), cell, readonly=True).value = 1.0
        self.assertRaises(TypeError, link.Container, number, (None,))
        self.assertRaises(TypeError, link.Container, number, [])

    def test_deepcopy(self):
        cell = [2.5]
        pair = [link.Container(number("x"), cell), link.Container(number("y"), cell, allow_downcast=True)]
        a, b = copy.deepcopy(pair)
        self.assertIs(a.storage, b.storage)
        self.assertIsNot(a.storage, cell)
        self.assertEqual((a.value, a.name, b.allow_downcast), (2.5, "x", True))


class TestPerformLinker(unittest.TestCase):
    def test_function(self):
        x, y = number("x"), number("y")
        for allow_gc in (True, False):
            linker = link.PerformLinker(allow_gc=allow_gc).accept(FunctionGraph([x, y], [div(add(x, y), 2), mul(x, 3)]))
            f = linker.make_function()
            self.assertEqual(f(1, 2), [1.5, 3.0])
            self.assertEqual(f(3, 4), [3.5, 9.0])
            self.assertRaisesRegex(TypeError, r"takes exactly 2 arguments \(1 given\)", f, 1)
            inner = f.thunk.nodes[0].outputs[0] if str(f.thunk.nodes[0].op) == "add" else f.thunk.nodes[1].outputs[0]
            self.assertEqual(f.thunk.storage_map[inner][0], None if allow_gc else 7.0)
        single = FunctionGraph([x], [add(x, 1)])
        self.assertEqual(link.PerformLinker().accept(single).make_function()(1), 2.0)
        self.assertEqual(link.PerformLinker().accept(single).make_function(unpack_single=False)(1), [2.0])

    def test_lazy_and_constants(self):
        c, x = number("c"), number("x")
        f = (
            link.PerformLinker()
            .accept(FunctionGraph([c, x], [choose(c, add(x, 1), as_number(7)), as_number(5)]))
            .make_function()
        )
        self.assertEqual(f(1, 1), [2.0, 5.0])
        self.assertEqual(f(0, 1), [7.0, 5.0])

    def test_storage(self):
        x = number("x")
        fgraph = FunctionGraph([x], [add(x, 1)])
        cell_in, cell_out = [4.0], [None]
        f, ins, outs = link.PerformLinker().accept(fgraph).make_all([cell_in], [cell_out])[:3]
        f()
        self.assertEqual(cell_out[0], 5.0)
        self.assertIs(ins[0].storage, cell_in)
        self.assertTrue(outs[0].readonly)
        self.assertRaises(ValueError, link.map_storage, fgraph, fgraph.toposort(), [], None)
        self.assertRaises(ValueError, link.map_storage, fgraph, fgraph.toposort(), None, [])
        given = {fgraph.outputs[0]: cell_out}
        self.assertIs(link.map_storage(fgraph, fgraph.toposort(), None, None, given)[1][0], cell_out)
        self.assertRaises(ValueError, link.streamline, fgraph, [], fgraph.toposort())

    def test_make_thunk_error_names_node(self):
        class Broken(Compute):
            def make_thunk(self, node, storage_map, compute_map, no_recycling):
                raise RuntimeError("no code")

        x = number("x")
        linker = link.PerformLinker().accept(FunctionGraph([x], [Broken("broken", None)(x)]))
        with self.assertRaises(RuntimeError) as error:
            linker.make_thunk()
        self.assertEqual(error.exception.args[0], "The following error happened while compiling the node")
        self.assertEqual(error.exception.args[-1], "no code")


class TestWrapLinker(unittest.TestCase):
    def test_steps(self):
        x = number("x")
        seen = []

        def wrapper(i, node, *thunks):
            for thunk in thunks:
                thunk()
            seen.append((i, str(node.op), [t.outputs[0][0] for t in thunks]))

        pair = [link.PerformLinker(allow_gc=False), link.PerformLinker(allow_gc=False)]
        both = link.WrapLinkerMany(pair, [wrapper, lambda i, node, *thunks: seen.append("second")])
        both.accept(FunctionGraph([x], [mul(add(x, 1), 2)]))
        f, ins, outs = both.make_thunk()
        ins[0].value = 2
        f()
        self.assertEqual(seen, [(0, "add", [3.0, 3.0]), "second", (1, "mul", [6.0, 6.0]), "second"])
        self.assertEqual(outs[0].value, 6.0)
        self.assertIsNot(copy.copy(both).linkers[0], both.linkers[0])
        self.assertIsNone(both.clone().fgraph)

    def test_pre_and_errors(self):
        """WrapLinker calls `pre` before each run, with the values of the inputs.

        An error in a wrapper names the node.
        """

        class Watched(link.WrapLinker):
            def pre(self, f, inputs, order, thunk_groups):
                seen.append(
                    (f is self, inputs, [str(node.op) for node in order], [len(group) for group in thunk_groups])
                )

        seen = []
        x, y, c = number("x"), number("y"), number("c")

        def wrapper(i, node, *thunks):
            for thunk in thunks:
                thunk()

        linker = Watched([link.PerformLinker(), cc.OpWiseCLinker()], wrapper).accept(
            FunctionGraph([x, y], [div(add(x, 1), y)])
        )
        f = linker.make_function()
        self.assertEqual(f(1, 2), 1.0)
        self.assertEqual(seen, [(True, [1.0, 2.0], ["add", "div"], [2, 2])])
        with self.assertRaisesRegex(ZeroDivisionError, "Apply node that caused the error: div"):
            f(1, 0)
        self.assertEqual(f(3, 2), 2.0)
        # every node runs, also lazy ones
        for options in (dict(use_cloop=True), dict(use_cloop=True, lazy=True), dict()):
            fgraph = FunctionGraph([c, x], [choose(c, add(x, 1), mul(x, 5))])
            f = link.WrapLinker([vm.VM_Linker(**options)], wrapper).accept(fgraph).make_function()
            self.assertEqual([f(1, 3), f(0, 3), f(1, 4)], [4.0, 15.0, 5.0])


class TestThunks(unittest.TestCase):
    """Tests of the objects that an Op's `make_thunk` may return."""

    def run_with(self, make, **op):
        class Custom(Compute):
            make_thunk = make

        x = number("x")
        for linker in (
            link.PerformLinker(),
            cc.OpWiseCLinker(),
            vm.VM_Linker(),
            vm.VM_Linker(use_cloop=True),
            vm.VM_Linker(lazy=True),
            vm.VM_Linker(use_cloop=True, allow_gc=False),
            vm.VM_Linker(use_cloop=True, lazy=True),
        ):
            fgraph = FunctionGraph([x], [mul(Custom("custom", None)(add(x, 1)), 10)])
            f = linker.accept(fgraph).make_function()
            self.assertEqual([f(1), f(2)], [40.0, 60.0])
            yield f

    def test_plain_callables(self):
        """A thunk may be a function, a bound method, an object with slots or a `functools.partial`.

        The method `make_thunk` may lack the parameter `impl`.
        """

        class Slots:
            __slots__ = ("cells",)

            def __init__(self, cells):
                self.cells = cells

            def run(self):
                self.cells[1][0] = 2 * self.cells[0][0]

            __call__ = run

        def double(source, target):
            target[0] = 2 * source[0]

        def without_impl(make):
            return lambda self, node, storage_map, compute_map, no_recycling: make(
                storage_map[node.inputs[0]], storage_map[node.outputs[0]]
            )

        def with_impl(make):
            return lambda self, node, storage_map, compute_map, no_recycling, impl=None: make(
                storage_map[node.inputs[0]], storage_map[node.outputs[0]]
            )

        for make in (
            lambda a, b: Slots([a, b]),
            lambda a, b: Slots([a, b]).run,
            lambda a, b: lambda: double(a, b),
            lambda a, b: partial(double, a, b),
        ):
            for signature in (with_impl, without_impl):
                for f in self.run_with(signature(make)):
                    thunks = f.thunk.thunks
                    self.assertEqual([len(t.inputs) for t in thunks], [2, 1, 2])
                    self.assertEqual([t.lazy for t in thunks], [False] * 3)

    def test_own_buffer(self):
        """A thunk may compute into its own buffer and put the buffer into the output storage."""

        def make_thunk(self, node, storage_map, compute_map, no_recycling):
            buffer, (a,), (b,) = [None], [storage_map[r] for r in node.inputs], [storage_map[r] for r in node.outputs]

            def thunk():
                buffer[0] = 2 * a[0]
                b[0] = buffer[0]
                compute_map[node.outputs[0]][0] = True
                return "anything"

            return thunk

        self.assertEqual(len(list(self.run_with(make_thunk))), 7)

    def test_errors(self):
        for make, text in (
            (lambda *args: None, "has to return a callable without arguments, not None"),
            (lambda self, node, storage_map: None, "positional argument"),
        ):
            with self.assertRaises(TypeError) as error:
                list(self.run_with(make))
            self.assertIn(text, str(error.exception))
            self.assertEqual(error.exception.args[0], "The following error happened while compiling the node")


class TestLinkers(unittest.TestCase):
    """Tests of the behavior that is common to all linkers with one thunk per node."""

    LINKERS = [
        (link.PerformLinker, {}),
        (cc.OpWiseCLinker, {}),
        (vm.VM_Linker, {}),
        (vm.VM_Linker, {"use_cloop": True}),
        (cc.DualLinker, {}),
        (link.WrapLinker, {"linkers": [link.PerformLinker()], "wrapper": lambda i, node, thunk: thunk()}),
    ]

    def test_accept_and_clone(self):
        """If a linker has a graph, `accept` of another graph returns a new linker. A clone of a linker has no graph.

        With allow_gc=None, config.allow_gc is read when a function is compiled.
        """
        x = number("x")
        one, two = FunctionGraph([x], [add(x, 1)]), FunctionGraph([x], [add(x, 2)])
        for kind, options in self.LINKERS:
            with self.subTest(kind.__name__):
                linker = kind(**options)
                self.assertIs(linker.accept(one), linker)
                self.assertIs(linker.accept(one), linker)
                other = linker.accept(two)
                self.assertIsNot(other, linker)
                self.assertEqual((linker.make_function()(1), other.make_function()(1)), (2.0, 3.0))
                self.assertEqual((linker.fgraph, other.fgraph, linker.clone().fgraph), (one, two, None))
                if kind is not link.WrapLinker:
                    self.assertIs(linker.clone(allow_gc=False).allow_gc, False)
                    with config.change_flags(allow_gc=not config.allow_gc):
                        self.assertEqual(linker.clone(allow_gc=None).allow_gc, config.allow_gc)
                else:
                    self.assertIs(linker.clone(allow_gc=False).linkers[0].allow_gc, False)

    def test_storage_from_outside(self):
        """Storage of inputs, outputs and inner variables can be passed to make_thunk."""
        x = number("x")
        for kind, options in self.LINKERS:
            with self.subTest(kind.__name__, **options):
                fgraph = FunctionGraph([x], [mul(add(x, 1), 2)])
                inner = fgraph.outputs[0].owner.inputs[0]
                cells = [[5.0], [None], [None]]
                thunk, (ci,), (co,) = (
                    kind(**options)
                    .accept(fgraph)
                    .make_thunk(input_storage=cells[:1], output_storage=cells[1:2], storage_map={inner: cells[2]})
                )
                self.assertIs(ci.storage, cells[0])
                self.assertIs(co.storage, cells[1])
                thunk()
                self.assertEqual(co.value, 12.0)
                with self.assertRaisesRegex(Exception, "readonly"):
                    co.value = 1.0
                if kind in (cc.DualLinker, link.WrapLinker):
                    self.assertEqual(cells[2][0], 6.0)

    def test_no_recycling(self):
        """The storage of `no_recycling` variables is empty when a run starts.

        Therefore an Op cannot reuse their old values as buffers.
        """
        x = number("x")
        seen = []

        class Peek(Compute):
            def perform(self, node, inputs, outputs):
                seen.append(outputs[0][0])
                outputs[0][0] = inputs[0] + 1

        peek = Peek("peek", None)
        for kind, options in self.LINKERS:
            for recycled in (False, True, None):
                if kind is not link.WrapLinker and kind is not cc.DualLinker:
                    options = dict(options, allow_gc=False)
                with self.subTest(kind.__name__, recycled=recycled):
                    fgraph = FunctionGraph([x], [peek(peek(x))])
                    del seen[:]
                    no_recycling = True if recycled is None else [] if recycled else [fgraph.outputs[0]]
                    f = kind(**options).accept(fgraph, no_recycling=no_recycling).make_function()
                    f(1)
                    if kind is not cc.DualLinker:
                        self.assertEqual(f(2), 4.0)
                        self.assertEqual(seen[:2], [None, None])
                        self.assertEqual(seen[2:], {False: [2.0, None], True: [2.0, 3.0], None: [None, None]}[recycled])

    def test_clear_storage(self):
        x = number("x")
        for kind, options in self.LINKERS[:4]:
            f = kind(allow_gc=False, **options).accept(FunctionGraph([x], [mul(add(x, 1), 2)])).make_function()
            f(1)
            f.thunk.clear_storage()
            self.assertEqual([cell[0] for r, cell in f.thunk.storage_map.items() if r.owner is not None], [None, None])
            self.assertEqual(f(2), 6.0)

    def test_schedule(self):
        """A linker accepts a custom schedule. WrapLinker refuses linkers with different schedules."""
        x = number("x")
        a, b = add(x, 1), mul(x, 2)
        log = []
        for backwards in (False, True):

            def schedule(fgraph, backwards=backwards):
                order = fgraph.toposort()
                return order[::-1] if backwards else order

            for kind in (link.PerformLinker, cc.OpWiseCLinker, vm.VM_Linker):
                fgraph = FunctionGraph([x], [a, b])
                self.assertEqual(kind(schedule=schedule).accept(fgraph).make_all()[4], schedule(fgraph))
                if backwards:
                    mixed = link.WrapLinker([link.PerformLinker(), kind(schedule=schedule)], log.append).accept(fgraph)
                    self.assertRaisesRegex(Exception, "execute operations in the same order", mixed.make_thunk)


class TestOpWiseAndDual(unittest.TestCase):
    def test_fallback(self):
        """OpWiseCLinker runs an Op without C code in Python.

        If fallback_on_perform is False, it raises an error that names the node.
        """
        x = number("x")
        fgraph = FunctionGraph([x], [add(x, 1)])
        for compiler in (config.cxx, ""):
            with config.change_flags(cxx=compiler):
                self.assertEqual(cc.OpWiseCLinker().accept(fgraph).make_function()(1), 2.0)
                with self.assertRaises((MethodNotDefined, NotImplementedError)) as error:
                    cc.OpWiseCLinker(fallback_on_perform=False).accept(fgraph).make_thunk()
            self.assertEqual(
                error.exception.args[:2],
                ("The following error happened while compiling the node", fgraph.outputs[0].owner),
            )

    def test_nice_errors(self):
        x, y = number("x"), number("y")
        for nice in (True, False):
            f = cc.OpWiseCLinker(nice_errors=nice).accept(FunctionGraph([x, y], [div(x, y)])).make_function()
            with self.assertRaises(ZeroDivisionError) as error:
                f(1, 0)
            self.assertEqual("Apply node that caused the error: div(x, y)" in str(error.exception), nice)

    def test_profiler(self):
        """The argument `profiler` of make_all gets the compiled function. make_all returns the result of `profiler`."""
        x = number("x")
        given = []

        def profiler(function, thunks, order):
            given.append((len(thunks), order))
            return lambda: given.append(function())

        f, ins, outs, thunks, order = (
            cc.OpWiseCLinker().accept(FunctionGraph([x], [add(x, 1)])).make_all(profiler=profiler)
        )
        ins[0].value = 1
        f()
        self.assertEqual((given, outs[0].value), ([(1, order), None], 2.0))

    def test_dual(self):
        """DualLinker runs both implementations on equal values, and returns the Python values.

        The error for a difference names the node.
        """

        class Two(Compute):
            """An Op with different implementations for C and for Python."""

            def make_thunk(self, node, storage_map, compute_map, no_recycling, impl=None):
                (a,), (b,) = [storage_map[r] for r in node.inputs], [storage_map[r] for r in node.outputs]

                def thunk():
                    b[0] = self.function[impl == "py"](a[0])

                return thunk

        x = number("x")
        same, other = Two("same", [lambda a: a + 1] * 2), Two("other", [lambda a: a + 2, lambda a: a + 3])
        seen = []
        f = cc.DualLinker().accept(FunctionGraph([x], [same(same(x))])).make_function()
        self.assertEqual((f(1), f(5)), (3.0, 7.0))
        f = (
            cc.DualLinker(checker=lambda a, b: seen.append((a[0], b[0])))
            .accept(FunctionGraph([x], [same(other(x))]))
            .make_function()
        )
        self.assertEqual((f(1), seen), (5.0, [(4.0, 3.0), (5.0, 4.0)]))
        with self.assertRaises(Exception) as error:
            cc.DualLinker().accept(FunctionGraph([x], [same(other(x))])).make_function()(1)
        for text in (
            "Output mismatch.",
            "'performlinker': 4.0, 'clinker': 3.0",
            "output 0 of other(x)",
            "Apply node that caused the error: other(x)",
        ):
            self.assertIn(text, str(error.exception))

        def strict(a, b):
            raise KeyError("my own words")

        with self.assertRaisesRegex(KeyError, "my own words.*'clinker': 3.0.*output 0 of other"):
            cc.DualLinker(checker=strict).accept(FunctionGraph([x], [other(x)])).make_function()(1)
        nan = Two("nan", [lambda a: np.array([np.nan, a])] * 2)
        self.assertEqual(cc.DualLinker().accept(FunctionGraph([x], [nan(x)])).make_function()(2)[1], 2)


class TestErrors(unittest.TestCase):
    def failure(self, node, values, error, storage_map=None, **flags):
        def thunk():
            raise error

        thunk.inputs, thunk.outputs = [[v] for v in values], [[None]]
        with config.change_flags(**flags):
            try:
                thunk()
            except Exception:
                try:
                    link.raise_with_op(node, thunk, storage_map=storage_map)
                except Exception as again:
                    return again

    def test_text(self):
        with config.change_flags({"traceback.limit": 0}):
            x, y = number("x"), number()
            node = add(x, y).owner
        node.outputs[0].tag.trace = ()
        error = self.failure(
            node,
            [Array((3,), (8,)), 2.0],
            ValueError("Input dimension mis-match."),
            optimizer="fast_run",
            exception_verbosity="low",
        )
        self.assertEqual(
            str(error),
            """Input dimension mis-match.
Apply node that caused the error: add(x, <Float>)
Inputs types: [Float, Float]
Inputs shapes: [(3,), 'No shapes']
Inputs strides: [(8,), 'No strides']
Inputs scalar values: ['not scalar', 2.0]

HINT: Re-running with most Theano optimization disabled could give you a back-traces when this node was created. This can be done with \
by setting the Theano flags 'optimizer=fast_compile'. If that does not work, Theano optimization can be disabled with 'optimizer=None'.
HINT: Use the Theano flag 'exception_verbosity=high' for a debugprint of this apply node.""",
        )
        self.assertIs(error.__op_instance__, node)
        self.assertIs(type(error), ValueError)

    def test_trace(self):
        x = number("x")
        node = add(x, 1).owner
        error = self.failure(node, [1.0, 1.0], ValueError("no"), optimizer="fast_compile")
        self.assertIn("Backtrace when the node is created:", str(error))
        self.assertIn("node = add(x, 1).owner", str(error))
        self.assertNotIn("optimizer=fast_compile", str(error))
        out = io.StringIO()
        link.log_thunk_trace(error, out)
        self.assertIn("test_link.py", out.getvalue())
        quiet = io.StringIO()
        link.log_thunk_trace(ValueError("foreign"), quiet)
        self.assertEqual(quiet.getvalue(), "")

    def test_high(self):
        x = number("x")
        fgraph = FunctionGraph([x], [add(x, 1)], clone=False)
        storage_map = {x: [Array((4,), (8,))], fgraph.outputs[0]: [None]}
        error = self.failure(
            fgraph.outputs[0].owner, [1.0, 1.0], ValueError("no"), storage_map, exception_verbosity="high"
        )
        self.assertIn("Debugprint of the apply node:", str(error))
        self.assertIn("Storage map footprint:\n - x, Input, Shape: (4,)", str(error))
        self.assertNotIn("exception_verbosity=high", str(error))
        self.assertEqual(error.__applynode_index__, 0)

    def test_odd_exceptions(self):
        class TwoArguments(Exception):
            def __init__(self, a, b):
                super().__init__(a, b)

        node = add(number("x"), 1).owner
        error = self.failure(node, [1.0, 1.0], TwoArguments(1, 2))
        self.assertEqual(error.args, (1, 2))
        self.assertIn("Apply node that caused the error", "".join(error.__notes__))
        error = self.failure(node, [1.0, 1.0], KeyError("k"))
        self.assertEqual((type(error), error.args), (KeyError, ("k",)))
        self.assertIn("Apply node that caused the error", "".join(error.__notes__))
        with self.assertRaises(KeyboardInterrupt) as stop:
            try:
                raise KeyboardInterrupt("now")
            except BaseException:
                link.raise_with_op(node)
        self.assertEqual(stop.exception.args, ("now",))

    def test_values_stay_for_debuggers(self):
        node = add(number("x"), 1).owner
        cell = [5.0]

        def thunk():
            raise ValueError("no")

        thunk.inputs, thunk.outputs = [cell], [[None]]
        try:
            try:
                thunk()
            except ValueError:
                link.raise_with_op(node, thunk)
        except ValueError as error:
            cell[0] = None
            frames = []
            trace = error.__traceback__
            while trace is not None:
                frames.append(trace.tb_frame)
                trace = trace.tb_next
        (frame,) = [f for f in frames if f.f_code.co_name == "raise_with_op"]
        self.assertEqual(frame.f_locals["thunk"].inputs[0][0], 5.0)
        self.assertIs(frame.f_locals["node"], node)


if __name__ == "__main__":
    unittest.main()
