import copy
import itertools
import pickle
import threading
import time
import unittest
import warnings

from theano_ng.compile.functions import maker as function_module
from theano_ng.compile.functions.maker import Function, UnusedInputError, convert_function_input, get_info_on_inputs
from theano_ng.compile.io import In, Out
from theano_ng.compile.mode import Mode
from theano_ng.compile.pfunc import pfunc
from theano_ng.compile.profiling import ProfileStats
from theano_ng.compile.sharedvalue import SharedVariable
from theano_ng.configdefaults import config
from theano_ng.gof import link, vm
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.graph import Apply, Constant
from theano_ng.gof.op import Op
from theano_ng.gof.tests.floats import Compute, add, buffer, div, mul, number, shift, shift_inplace, view

LINKERS = {
    "cvm": vm.VM_Linker(use_cloop=True),
    "cvm_nogc": vm.VM_Linker(use_cloop=True, allow_gc=False),
    "vm": vm.VM_Linker(),
    "stack": vm.VM_Linker(lazy=True),
    "py": link.PerformLinker(),
}


def mode(linker="cvm"):
    return Mode(linker=LINKERS[linker], optimizer=None)


def shared(value, name, type=number):
    return SharedVariable(name, type, value, False)


def function(inputs, outputs=None, linker="cvm", **kwargs):
    return pfunc(inputs, outputs, mode=mode(linker), **kwargs)


class TestCall(unittest.TestCase):
    def test_documented_state_sequence(self):
        # The inputs are u, x with default 3, and s with default 10.0 and update s + x*u.
        for linker in LINKERS:
            u, x, s = number("u"), number("x"), number("s")
            inc = function([u, In(x, value=3), In(s, value=10.0, update=add(s, mul(x, u)))], [], linker=linker)
            self.assertEqual(inc(5), [])
            self.assertEqual(inc[s], 25.0)
            inc(3, 4)
            self.assertEqual((inc[s], inc[x]), (37.0, 3.0))
            inc(3, 4, 7)
            self.assertEqual(inc["s"], 19.0)
            inc[s] = 10
            self.assertEqual((inc[s], inc.value[2], inc.container["s"].value), (10.0, 10.0, 10.0))
            self.assertIs(inc["s"], inc.value[s])
            self.assertIn("s", inc)
            self.assertNotIn("q", inc)
            self.assertIs(inc.inv_finder[inc.container[s]].variable, s)

    def test_documented_errors(self):
        for linker in LINKERS:
            x, y, z, w = number(), number("y"), number("z"), number("w")
            fn = function([x, y, In(z, value=42), In(w, value=0, update=add(w, x))], add(x, y, z), linker=linker)
            for call, text in (
                (lambda: fn(1), "Missing required input: y"),
                (
                    lambda: fn(1, 2, x=3),
                    "Unknown input or state: x. The function has 3 named inputs (y, z, w), and 1 unnamed input "
                    "which thus cannot be accessed through keyword argument (use 'name=...' in a variable's constructor to give it a "
                    "name).",
                ),
                (lambda: fn(1, 2, y=3), "Multiple values for input: y"),
                (
                    lambda: fn(1, 2, 3, 4, 5),
                    "Too many parameter passed to theano function: it takes at most 4, and 5 were given",
                ),
            ):
                with self.assertRaises(TypeError) as error:
                    call()
                self.assertEqual(str(error.exception), text)
            results = [fn(1, 2), fn(1, y=2), fn(1, 2, 3), fn(1, z=3, y=2), fn(1, 2, w=400), fn(1, 2)]
            self.assertEqual(results, [45.0, 45.0, 6.0, 6.0, 45.0, 45.0])
            self.assertEqual(fn[w], 402.0)

    def test_arguments_whose_memory_matters(self):
        x, y = number("x"), number("y")
        for given, expected in (
            (x, False),
            (In(x, borrow=True), True),
            (In(x, mutable=True), True),
            (In(x, strict=True), False),
        ):
            self.assertIs(function([given, y], add(x, y))._check_for_aliased_inputs, expected)

    def test_bad_argument(self):
        x, s = number("x"), shared(1.0, "s")
        f = function([x], x, updates=[(s, add(s, x))], name="file.py:12")
        with self.assertRaises(TypeError) as error:
            f("1")
        (text,) = error.exception.args
        self.assertRegex(
            text,
            r'(?s)^Bad input argument to theano function with name "file.py:12" at index 0 \(0-based\), the input x.*\na float is wanted, 1$',
        )
        self.assertEqual(s.get_value(), 1.0)
        with self.assertRaisesRegex(TypeError, "Tried to provide value for implicit input: s"):
            f(1, s=2)
        self.assertRaises(TypeError, function([In(x, strict=True)], add(x, 1)), 1)

    def test_failure_changes_nothing(self):
        for linker in LINKERS:
            with self.subTest(linker):
                x, y, w, s = number("x"), number("y"), number("w"), shared(5.0, "s")
                f = function(
                    [x, In(y, value=2), In(w, value=10, update=add(w, x))],
                    div(x, y),
                    updates=[(s, add(s, 1))],
                    linker=linker,
                )
                for call in (lambda: f(1, 0), lambda: f(1, 0, 77), lambda: f(1, 2, "no"), lambda: f("no", 2, 77)):
                    self.assertRaises((ZeroDivisionError, TypeError), call)
                    self.assertEqual((s.get_value(), f[w], f[y], f[x]), (5.0, 10.0, 2.0, None))
                self.assertEqual(f(1), 0.5)
                self.assertEqual((s.get_value(), f[w]), (6.0, 11.0))

    def test_node_error(self):
        x, y = number("x"), number("y")
        for linker in LINKERS:
            f = function([x, y], div(add(x, 1), y), linker=linker)
            with self.assertRaises(ZeroDivisionError) as error:
                f(1, 0)
            self.assertIn("Apply node that caused the error: div(add.0, y)", str(error.exception))
            self.assertIn("Inputs scalar values: [2.0, 0.0]", str(error.exception))
            if linker == "cvm":
                self.assertIs(f.fn.thunks[f.fn.position_of_error].inputs[1], f.container[y].storage)

    def test_output_forms(self):
        x = number("x")
        two = [add(x, 1), mul(x, 2)]
        for linker in LINKERS:
            self.assertEqual(function([x], two, linker=linker)(3), [4.0, 6.0])
            self.assertEqual(function([x], two[:1], linker=linker)(3), [4.0])
            self.assertEqual(function([x], Out(two[0], borrow=True), linker=linker)(3), 4.0)
            self.assertEqual(function([], [], linker=linker)(), [])
            self.assertIsNone(function_module.orig_function([], None, mode(linker))())
            keyed = function([x], two, output_keys=["a", "b"], linker=linker)
            self.assertEqual(keyed(3), {"a": 4.0, "b": 6.0})
            self.assertEqual(keyed(3, output_subset=["b"]), {"b": 6.0})
            self.assertRaises(ValueError, keyed, 3, output_subset=["c"])

    def test_output_subset(self):
        for linker in LINKERS:
            log = []
            x, s = number("x"), shared(0.0, "s")
            ops = [Compute(name, lambda a: a + 1, log) for name in "abc"]
            f = function([x], [ops[0](x), ops[1](x)], updates=[(s, ops[2](s))], linker=linker)
            self.assertEqual(f(1, output_subset=[1]), [2.0])
            self.assertEqual(s.get_value(), 1.0)
            if linker in ("cvm", "cvm_nogc", "stack"):
                self.assertEqual(sorted(log), ["b", "c"])
            self.assertEqual(f(1, output_subset=[]), [])
            self.assertEqual(f(1), [2.0, 2.0])
            self.assertRaises(ValueError, f, 1, output_subset=[2])
            self.assertEqual(s.get_value(), 3.0)

    def test_updates_read_old_values(self):
        for linker in LINKERS:
            a, b = shared(1.0, "a"), shared(2.0, "b")
            f = function([], [a, b, add(a, b)], updates=[(a, b), (b, a)], linker=linker)
            self.assertEqual(f(), [1.0, 2.0, 3.0])
            self.assertEqual((a.get_value(), b.get_value()), (2.0, 1.0))

    def test_names_that_occur_twice(self):
        x, y = number("x"), number("x")
        f = function([x, y], div(x, y))
        self.assertEqual(f(1, 2), 0.5)
        self.assertRaisesRegex(TypeError, "Ambiguous name: x", f, 1, x=2)
        self.assertRaisesRegex(TypeError, "Ambiguous name: x", lambda: f["x"])

    def test_trust_input(self):
        x = number("x")
        f = function([x], Compute("same", lambda a: a)(x))
        self.assertRaises(TypeError, f, "text")
        f.trust_input = True
        self.assertEqual((f("text"), f(x="text")), ("text", "text"))

    def test_references(self):
        # a function holds no references to arguments and results after the call
        for linker in LINKERS:
            x = buffer("x")
            f = function([x], [shift(x, 1)], linker=linker)
            value = [1.0]
            result = f(value)[0]
            self.assertEqual((value, result), ([1.0], [2.0]))
            self.assertIsNone(f.container[x].value)
            self.assertIsNone(f.output_storage[0].value)


class TestAliasing(unittest.TestCase):
    def test_outputs_are_separate(self):
        for linker in LINKERS:
            x, s = buffer("x"), shared([1.0], "s", buffer)
            v = shift(x, 1)
            f = function(
                [x, In(number("n"), value=0)], [v, view(v), x, view(x), s], linker=linker, on_unused_input="ignore"
            )
            arg = [5.0]
            results = f(arg)
            self.assertEqual(results, [[6.0], [6.0], [5.0], [5.0], [1.0]])
            owners = [*results, arg, s.container.value]
            self.assertEqual(len({id(o) for o in owners}), len(owners))

    def test_borrowed_outputs_may_alias(self):
        x = buffer("x")
        arg = [5.0]
        self.assertIs(function([In(x, borrow=True)], Out(view(x), borrow=True))(arg), arg)
        self.assertIsNot(function([In(x, borrow=True)], Out(view(x)))(arg), arg)
        self.assertIsNot(function([x], Out(view(x), borrow=True))(arg), arg)
        c = Constant(buffer, [1.0])
        self.assertIsNot(function([], c)(), c.data)

    def test_updated_value_is_handed_out(self):
        s = shared([1.0], "s", buffer)
        old = s.container.value
        f = function([], s, updates=[(s, shift(s, 1))])
        self.assertIs(f(), old)
        self.assertEqual((old, s.get_value()), ([1.0], [2.0]))
        self.assertEqual(f(), [2.0])

    def test_in_place_update_and_old_value(self):
        for linker in LINKERS:
            s = shared([1.0], "s", buffer)
            f = function([], [s, view(s)], updates=[(s, shift_inplace(s, 1))], accept_inplace=True, linker=linker)
            value = s.container.value
            a, b = f()
            self.assertEqual((a, b, s.get_value()), ([1.0], [1.0], [2.0]))
            self.assertIs(s.container.value, value)
            self.assertEqual(len({id(a), id(b), id(value)}), 3)

    def test_mutable_input(self):
        x, y = buffer("x"), buffer("y")
        self.assertRaises(TypeError, function, [In(x, mutable=True)], shift_inplace(x, 1))
        f = function([In(x, mutable=True), y], [shift_inplace(x, 1), shift(y, 10)], accept_inplace=True)
        a, b = [1.0], [2.0]
        self.assertEqual(f(a, b), [[2.0], [12.0]])
        self.assertEqual((a, b), ([2.0], [2.0]))
        # If both inputs are the same list, the input that is only read is copied first.
        a = [1.0]
        self.assertEqual(f(a, a), [[2.0], [11.0]])

    def test_argument_that_is_a_shared_value(self):
        x, s = buffer("x"), shared([1.0], "s", buffer)
        f = function([x], shift(x, 0), updates=[(s, shift_inplace(s, 1))], accept_inplace=True)
        self.assertEqual(f(s.get_value(borrow=True)), [1.0])
        self.assertEqual(s.get_value(), [2.0])
        g = function([In(x, mutable=True)], shift_inplace(x, 1), updates=[(s, shift(s, 0))], accept_inplace=True)
        self.assertEqual(g(s.get_value(borrow=True)), [3.0])
        self.assertEqual(s.get_value(), [2.0])

    def test_default_survives_in_place(self):
        x = buffer("x")
        f = function([In(x, value=[1.0], mutable=True)], shift_inplace(x, 1), accept_inplace=True)
        self.assertEqual([f(), f(), f([5.0]), f()], [[2.0], [2.0], [6.0], [2.0]])

    def test_kept_values_are_not_results(self):
        # With this linker, intermediate values are kept after a call, and the next call reuses their memory. The
        # call must not reuse the memory of a result that the caller has received.
        class Reuse(Op):
            __props__ = ()

            def make_node(self, x):
                return Apply(self, [x], [buffer()])

            def perform(self, node, inputs, outputs):
                if outputs[0][0] is None:
                    outputs[0][0] = []
                outputs[0][0][:] = [2 * e for e in inputs[0]]

        twice = Reuse()
        x = buffer("x")
        f = function([x], view(twice(twice(x))), linker="cvm_nogc")
        first, second = f([1.0]), f([2.0])
        self.assertEqual((first, second), ([4.0], [8.0]))
        inner = [cell[0] for r, cell in f.fn.storage_map.items() if r.owner is not None]
        self.assertIn([4.0], inner)
        f.free()
        self.assertEqual([cell[0] for r, cell in f.fn.storage_map.items() if r.owner is not None], [None] * 3)

    def test_helpers(self):
        x = buffer("x")
        a = shift(x, 1)
        b = view(a)
        c = shift_inplace(b, 1)
        d = shift(c, 1)
        fgraph = FunctionGraph([x], [d, c], clone=False)
        self.assertIs(function_module.alias_root(c), a)
        self.assertIs(function_module.alias_root(d), d)
        tree = set()
        function_module.view_tree_set(a, tree)
        self.assertEqual(tree, {a, b, c})
        self.assertEqual(set(function_module.infer_reuse_pattern(fgraph, [c])), {a, b, c})
        self.assertEqual(function_module.infer_reuse_pattern(fgraph, [d]), [d])


class TestCopies(unittest.TestCase):
    def setUp(self):
        self.s, self.x = shared(0.0, "s"), number("x")
        self.f = function([self.x], self.s, updates=[(self.s, add(self.s, self.x))], name="acc")

    def test_swap_and_updates(self):
        f, s = self.f, self.s
        self.assertEqual((f(10), s.get_value()), (0.0, 10.0))
        new = shared(0.0, "t")
        g = f.copy(swap={s: new})
        self.assertEqual((g(100), new.get_value(), s.get_value()), ([0.0], 100.0, 10.0))
        null = f.copy(delete_updates=True)
        self.assertEqual((null(9000), s.get_value()), ([10.0], 10.0))
        self.assertEqual((g.name, f.copy(name="n").name), ("acc copy", "n"))
        self.assertIsNot(g.maker, f.maker)
        self.assertIsNot(g.maker.fgraph, f.maker.fgraph)
        self.assertEqual(g.get_shared(), [new])
        self.assertRaises(ValueError, f.copy, swap={new: s})
        self.assertRaises(TypeError, f.copy, swap={s: shared([1.0], "b", buffer)})
        self.assertRaisesRegex(TypeError, "3, which is not a shared variable", f.copy, swap={s: 3})

    def test_every_combination(self):
        f, s, t = self.f, self.s, shared(0.0, "t")
        profile = ProfileStats(atexit_print=False)
        for memory, swap, frozen, name, profiled in itertools.product(
            (False, True), (None, {s: t}), (False, True), (None, "n"), (None, False, profile)
        ):
            with self.subTest(share_memory=memory, swap=swap, delete_updates=frozen, name=name, profile=profiled):
                s.set_value(1.0), t.set_value(2.0)
                calls = profile.fct_callcount
                g = f.copy(share_memory=memory, swap=swap, delete_updates=frozen, name=name, profile=profiled)
                target, other = (t, s) if swap else (s, t)
                before, untouched = target.get_value(), other.get_value()
                self.assertEqual(g(10), [before])
                self.assertEqual((target.get_value(), other.get_value()), (before + (0 if frozen else 10), untouched))
                self.assertEqual(
                    (g.name, g.profile, profile.fct_callcount - calls),
                    (name or "acc copy", profiled or None, bool(profiled)),
                )
                before = s.get_value()
                self.assertEqual((f(5), s.get_value()), (before, before + 5))

    def test_default_update_in_place_without_updates(self):
        s = shared([1.0], "s", buffer)
        changed = shift_inplace(s, 1)
        f = function([], shift(changed, 4), updates=[(s, changed)], accept_inplace=True)
        g = f.copy(delete_updates=True)
        self.assertEqual((g(), g(), s.get_value()), ([[6.0]], [[6.0]], [1.0]))
        self.assertEqual((f(), s.get_value()), ([6.0], [2.0]))

    def test_outputs_without_updates(self):
        """A copy without updates returns no memory of the state. With the update, the caller gets the old memory."""
        for kept in (lambda v: v, view):
            s = shared([1.0], "s", buffer)
            f = function([], kept(s), updates=[(s, shift(s, 4))])
            g = f.copy(delete_updates=True)
            (result,) = g()
            result[0] = 9.0
            self.assertEqual((s.get_value(), f(), s.get_value()), ([1.0], [1.0], [5.0]))

    def test_share_memory(self):
        x = number("x")
        f = function([x], mul(add(x, 1), 2), linker="cvm_nogc")
        g, h = f.copy(share_memory=True), f.copy()

        def inner(fn):
            return [cell for r, cell in fn.fn.storage_map.items() if r.owner is not None and str(r.owner.op) == "add"][
                0
            ]

        self.assertIs(inner(f), inner(g))
        self.assertIsNot(inner(f), inner(h))
        self.assertEqual((f(1), g(2), h(3), f(1)), (4.0, [6.0], [8.0], 4.0))

    def test_state_is_copied(self):
        w, x = number("w"), number("x")
        f = function([x, In(w, value=10, update=add(w, x)), In(number("d"), value=1)], self.s, on_unused_input="ignore")
        f(1)
        for g in (copy.copy(f), f.copy()):
            g(5)
            self.assertEqual((f[w], g[w]), (11.0, 16.0))
            self.s.set_value(3.0)
            self.assertIn(g(0), (3.0, [3.0]))
        self.assertIs(copy.copy(f).maker, f.maker)
        self.assertEqual(len({f, copy.copy(f)}), 2)

    def test_pickle(self):
        w, x, s = number("w"), number("x"), self.s
        f = function([x, In(w, value=10, update=Add2()(w, x))], Add2()(x, s), updates=[(s, Add2()(s, x))], name="p")
        f(1)
        f.trust_input = True
        for reoptimize in (False, True):
            text = pickle.dumps((f, s), pickle.HIGHEST_PROTOCOL)
            with config.change_flags(reoptimize_unpickled_function=reoptimize):
                g, t = pickle.loads(text)
            self.assertEqual((g(2), t.get_value(), s.get_value(), g["w"], f[w]), (3.0, 3.0, 1.0, 13.0, 11.0))
            self.assertEqual((g.name, g.trust_input), ("p", True))
        with config.change_flags(unpickle_function=False):
            self.assertIsNone(pickle.loads(text)[0])
        both = copy.deepcopy(f)
        self.assertEqual((both(1), s.get_value()), (2.0, 1.0))


class TestTensors(unittest.TestCase):
    """The fast check of arguments accepts exactly the arrays that TensorType.filter returns unchanged."""

    def setUp(self):
        import numpy

        import theano_ng.tensor as T

        self.np, self.T = numpy, T

    def test_arguments(self):
        np, T = self.np, self.T
        x, row = T.dmatrix("x"), T.drow("row")
        f = function([In(x, borrow=True), In(row, borrow=True)], [Out(x, borrow=True), Out(row, borrow=True)])
        r = np.ones((1, 3))
        good = np.arange(6.0).reshape(2, 3)
        odd = [good, good.T, good[::-1], good[:, :0], np.asfortranarray(good)]
        good.flags.writeable = False
        for value in odd:
            out = f(value, r)[0]
            self.assertIs(type(out), np.ndarray)
            self.assertEqual((out.tolist(), out.ctypes.data), (value.tolist(), value.ctypes.data))
        unaligned = np.frombuffer(b"\0" + np.arange(6.0).tobytes(), dtype="float64", count=6, offset=1).reshape(2, 3)
        swapped = good.astype(">f8")
        for value in (unaligned, swapped, good.astype("float32"), good.astype("int8"), good.tolist()):
            out = f(value, r)[0]
            self.assertEqual((out.dtype, out.flags.aligned, out.dtype.isnative), (np.dtype("float64"), True, True))
            self.assertEqual(out.tolist(), np.asarray(value).tolist())
        for bad in (np.ones(3), np.ones((1, 1, 1)), good.astype("complex128"), "text", None):
            self.assertRaises((TypeError, ValueError), f, bad, r)
        self.assertRaisesRegex(TypeError, r"at index 1 \(0-based\)", f, good, np.ones((2, 3)))
        f.trust_input = True
        self.assertIsNotNone(f(good, np.ones((2, 3))))

    def test_scalars(self):
        np, T = self.np, self.T
        d, i, s = T.dscalar("d"), T.lscalar("i"), T.fscalar("s")
        f = function([d, i], [d * 1.0, i * 1])
        for a, b in ((2.0, 3), (np.float64(2), np.int8(3)), (np.array(2.0), np.array(3)), (2, np.int64(3))):
            out = f(a, b)
            self.assertEqual([(o.dtype.name, o.ndim, float(o)) for o in out], [("float64", 0, 2.0), ("int64", 0, 3.0)])
        self.assertRaises(TypeError, f, 2.0, 3.5)
        self.assertRaises(TypeError, function([In(d, strict=True)], d * 1.0), 2.0)
        self.assertRaises(TypeError, function([s], s * 1), np.float64(0.1))

    def test_state_and_memory(self):
        np, T = self.np, self.T
        from theano_ng.compile import shared as make_shared

        for linker in LINKERS:
            s, x = make_shared(np.zeros(3), "s"), T.dvector("x")
            f = function([x], [s * 2, x.sum()], updates=[(s, s + x)], linker=linker)
            first = f([1.0, 2.0, 3.0])
            held = s.get_value(borrow=True)
            second = f(held)
            self.assertEqual([first[0].tolist(), second[0].tolist(), held.tolist()], [[0, 0, 0], [2, 4, 6], [1, 2, 3]])
            self.assertEqual(s.get_value().tolist(), [2.0, 4.0, 6.0])
            with self.assertRaises(ValueError) as error:
                f([1.0, 2.0])
            self.assertIn("Inputs shapes: [(3,), (2,)]", str(error.exception))
            self.assertEqual(s.get_value().tolist(), [2.0, 4.0, 6.0])
            g = pickle.loads(pickle.dumps(f))
            self.assertEqual(g([1.0, 1.0, 1.0])[1], 3.0)
            self.assertEqual((g.get_shared()[0].get_value().tolist(), s.get_value().tolist()), ([3, 5, 7], [2, 4, 6]))


class Add2(Op):
    __props__ = ()

    def make_node(self, *inputs):
        return Apply(self, inputs, [number()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = sum(inputs)


class TestThreads(unittest.TestCase):
    def test_one_call_at_a_time(self):
        def slow(a):
            time.sleep(0.002)
            return a * 2

        x = number("x")
        f = function([x], Compute("slow", slow)(add(x, 1)))
        failures = []

        def work(k):
            for i in range(10):
                value = float(100 * k + i)
                if f(value) != 2 * (value + 1):
                    failures.append(value)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(30)
        self.assertFalse(any(t.is_alive() for t in threads))
        self.assertEqual(failures, [])

    def test_call_of_itself(self):
        x = number("x")
        calls = []

        def recurse(a):
            calls.append(a)
            return f(a)

        f = function([x], Compute("recurse", recurse)(x))
        self.assertRaisesRegex(RuntimeError, "called while it is running", f, 1)
        self.assertEqual(calls, [1.0])
        self.assertRaises(RuntimeError, f, 2)

    def test_calls_in_a_circle(self):
        """A single thread can call functions whose Ops call each other in a circle.

        If three threads call them at once, one thread gets an error instead of a deadlock.
        """
        x = number("x")
        ready = threading.Barrier(3)
        functions, results = {}, {}

        def calls(name):
            def op(a):
                if a < 0:
                    return a
                ready.wait(20)
                return functions[name](-1)

            return op

        for name, other in ("fg", "gh", "hf"):
            functions[name] = function([x], Compute(name, calls(other))(x))

        def work(name):
            try:
                results[name] = functions[name](1)
            except RuntimeError as failure:
                results[name] = str(failure)

        threads = [threading.Thread(target=work, args=(name,), daemon=True) for name in functions]
        for t in threads:
            t.start()
        for t in threads:
            t.join(30)
        self.assertFalse(any(t.is_alive() for t in threads))
        told = [result for result in results.values() if result != -1.0]
        self.assertEqual(len(told), 1)
        self.assertIn("both threads would wait forever", told[0])
        self.assertEqual([f(-3) for f in functions.values()], [-3.0] * 3)


class TestMaking(unittest.TestCase):
    def test_bad_modes(self):
        x = number("x")
        for wrong in (3, object()):
            self.assertRaisesRegex(TypeError, "the name of a mode or a Mode", pfunc, [x], x, mode=wrong)
        self.assertRaisesRegex(Exception, "No predefined mode exist for string: FAST", pfunc, [x], x, mode="FAST")

    def test_unused_inputs(self):
        x, y = number("x"), number("y")
        with self.assertRaisesRegex(
            UnusedInputError, "input variable at index 1 is not part of the computational graph"
        ):
            function([x, y], add(x, 1))
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            function([x, y], add(x, 1), on_unused_input="warn")
            function([x, y], add(x, 1), on_unused_input="ignore")
        self.assertEqual(len(seen), 1)
        self.assertRaises(ValueError, function, [x], add(x, 1), on_unused_input="no")
        self.assertRaises(TypeError, function, [Constant(number, 1.0)], [])

    def test_shortcuts(self):
        x, u = number("x"), number("u")
        for given, expected in (
            (x, (x, "x", None, None)),
            (("n", x), (x, "n", None, None)),
            ((x, 3), (x, "x", 3, None)),
            (((x, u), 3), (x, "x", 3, u)),
            (("n", x, 3), (x, "n", 3, None)),
            (("n", (x, u), 3), (x, "n", 3, u)),
        ):
            spec = convert_function_input(given)
            self.assertEqual((spec.variable, spec.name, spec.value, spec.update), expected)
        for bad in (3, (), ("n",), (3, x), ("n", x, 1, 2), Constant(number, 1.0), ((x, 3), 1), ((x, u),)):
            self.assertRaises(TypeError, convert_function_input, bad)

    def test_info(self):
        self.assertEqual(get_info_on_inputs([], 0), "The function is supposed to have no input.")
        self.assertIn("single input", get_info_on_inputs([], 1))
        self.assertIn("2 inputs, but none", get_info_on_inputs([], 2))
        self.assertEqual(get_info_on_inputs(["x"], 0), "The function has 1 named input (x).")

    def test_container_default(self):
        x = number("x")
        c = link.Container(x, [4.0])
        f = function([In(x, value=c, implicit=False, update=mul(x, 2))], x)
        self.assertEqual((f(), c.value, f(1), c.value), (4.0, 8.0, 1.0, 2.0))

    def test_checkers(self):
        def checker(a, b):
            if not isinstance(a, list):
                raise TypeError
            return len(a) == len(b)

        function_module.register_checker(checker)
        try:
            self.assertTrue(function_module.check_equal([1], [2]))
            self.assertFalse(function_module.check_equal(1, 2))
        finally:
            function_module._checkers.remove(checker)

    def test_optimizer_and_maker(self):
        x = number("x")
        f = function([x], mul(x, 2))
        self.assertIsInstance(f, Function)
        self.assertEqual([str(n.op) for n in f.maker.fgraph.toposort()], ["mul"])
        again = f.maker.create()
        self.assertEqual((again(3), again is f), (6.0, False))


if __name__ == "__main__":
    unittest.main()
