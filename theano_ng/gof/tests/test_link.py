import copy
import io
import unittest

from theano_ng.configdefaults import config
from theano_ng.gof import link
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.tests.floats import Compute, add, as_number, choose, div, mul, number


class Array:
    """What an array shows of itself, for error messages."""

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
        f = link.PerformLinker().accept(FunctionGraph([c, x], [choose(c, add(x, 1), as_number(7)), as_number(5)])).make_function()
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
            node, [Array((3,), (8,)), 2.0], ValueError("Input dimension mis-match."), optimizer="fast_run", exception_verbosity="low")
        self.assertEqual(str(error), """Input dimension mis-match.
Apply node that caused the error: add(x, <Float>)
Inputs types: [Float, Float]
Inputs shapes: [(3,), 'No shapes']
Inputs strides: [(8,), 'No strides']
Inputs scalar values: ['not scalar', 2.0]

HINT: Re-running with most Theano optimization disabled could give you a back-traces when this node was created. This can be done with \
by setting the Theano flags 'optimizer=fast_compile'. If that does not work, Theano optimization can be disabled with 'optimizer=None'.
HINT: Use the Theano flag 'exception_verbosity=high' for a debugprint of this apply node.""")
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
        error = self.failure(fgraph.outputs[0].owner, [1.0, 1.0], ValueError("no"), storage_map, exception_verbosity="high")
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
        frame, = [f for f in frames if f.f_code.co_name == "raise_with_op"]
        self.assertEqual(frame.f_locals["thunk"].inputs[0][0], 5.0)
        self.assertIs(frame.f_locals["node"], node)


if __name__ == "__main__":
    unittest.main()
