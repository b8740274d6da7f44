"""Tests of every predefined linker of `Mode` on the same functions: values, state, aliasing, and thunks of users."""

import unittest
from functools import partial

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.ifelse import ifelse

LINKERS = ("py", "c", "c|py", "c|py_nogc", "c&py", "vm", "cvm", "vm_nogc", "cvm_nogc")


class Thunked(Op):
    """An Op that triples a vector with its own thunk; `kind` is the kind of thunk."""

    __props__ = ("kind",)

    def __init__(self, kind):
        self.kind = kind

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def make_thunk(self, node, storage_map, compute_map, no_recycling):
        source, target = storage_map[node.inputs[0]], storage_map[node.outputs[0]]
        buffer = [np.zeros(0)]

        def triple():
            target[0] = 3 * source[0]

        def held():
            # write into the same array at each call, without reading the storage cell
            if buffer[0].shape != source[0].shape:
                buffer[0] = np.empty_like(source[0])
            np.multiply(source[0], 3, out=buffer[0])
            target[0] = buffer[0]

        def recycling():
            # write into the array in the storage cell
            if target[0] is None or target[0].shape != source[0].shape:
                target[0] = np.empty_like(source[0])
            np.multiply(source[0], 3, out=target[0])

        return {
            "function": triple,
            "held": held,
            "recycling": recycling,
            "partial": partial(triple),
            "method": triple.__call__,
        }[self.kind]


class ThunkedWithImpl(Thunked):
    def make_thunk(self, node, storage_map, compute_map, no_recycling, impl=None):
        return super().make_thunk(node, storage_map, compute_map, no_recycling)


class Counting(Op):
    """An Op that doubles a vector and counts its calls."""

    __props__ = ("name",)

    def __init__(self, name):
        self.name, self.calls = name, 0

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        self.calls += 1
        outputs[0][0] = 2 * inputs[0]


class NoCType(theano.gof.Type):
    def filter(self, value, strict=False, allow_downcast=None):
        return value

    def __str__(self):
        return "a length"


class OfNoCType(Op):
    """An Op that returns the length of a vector. The Op has C code, but the Type of its output has none."""

    __props__ = ()

    def make_node(self, x):
        return Apply(self, [x], [NoCType()()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = len(inputs[0])

    def c_code(self, node, name, inputs, outputs, sub):
        return "%s = PyLong_FromLong(PyArray_DIM(%s, 0));" % (*outputs, *inputs)


class OfGeneric(OfNoCType):
    def make_node(self, x):
        return Apply(self, [x], [theano.gof.generic()])

    def c_code(self, node, name, inputs, outputs, sub):
        return "Py_XDECREF(%s);\n" % outputs[0] + super().c_code(node, name, inputs, outputs, sub)


class TestLinkers(unittest.TestCase):
    def functions(self, build, linkers=LINKERS):
        """Yield the function of `build()` for every linker, with and without rewriting.

        The linker `c` is left out without a compiler.
        """
        for linker in linkers:
            if linker == "c" and not theano.config.cxx:
                continue
            for optimizer in (None, "fast_run"):
                inputs, outputs, updates, *state = build()
                try:
                    yield theano.function(inputs, outputs, updates=updates, mode=theano.Mode(linker, optimizer)), *state
                except GeneratorExit:
                    print("That was linker %s, optimizer %s." % (linker, optimizer))  # the test failed
                    raise

    def test_values(self):
        """With every linker, outputs may be repeated, or be inputs or constants, and a function may have no inputs."""

        def build():
            x, y = T.dvectors("x", "y")
            z = T.sqr(x) * 2 + y  # without rounding errors, because `c|py` may compute z both in C and in Python
            return [x, y], [z, z.sum(), z, x, T.constant(2.5), T.dot(x, y)], {}

        for (f,) in self.functions(build):
            for n in (3, 1, 0, 3):
                x, y = np.arange(n) / 4, np.arange(n) - 1.0
                z = x**2 * 2 + y
                for got, want in zip(f(x, y), (z, z.sum(), z, x, 2.5, x.dot(y))):
                    np.testing.assert_allclose(got, want, rtol=1e-13)
        for (f,) in self.functions(lambda: ([], [T.constant(3.0), T.constant(2.0) + 1], {})):
            self.assertEqual(f(), [3.0, 3.0])

    def test_state(self):
        """With every linker, updates read the old values of all states, even if the updates swap two states.

        A failed call leaves the states unchanged.
        """

        def build():
            s, t, x = theano.shared(np.zeros(3)), theano.shared(np.ones(3)), T.dvector("x")
            return [x], [T.dot(s, x), t * 1], [(s, t), (t, T.inc_subtensor(t[:2], x[:2]))], s, t

        for f, s, t in self.functions(build):
            a, b = np.zeros(3), np.ones(3)
            for k in range(4):
                x = np.arange(3.0) + k
                got = f(x)
                np.testing.assert_array_equal(got[0], a.dot(x))
                np.testing.assert_array_equal(got[1], b)
                a, b = b, b + [x[0], x[1], 0]
                np.testing.assert_array_equal([s.get_value(), t.get_value()], [a, b])
                self.assertRaises(ValueError, f, np.ones(4))
                np.testing.assert_array_equal([s.get_value(), t.get_value()], [a, b])

    def test_borrow(self):
        """Outputs are new arrays unless they are borrowed; mutable inputs may be overwritten."""

        def build():
            x, y = T.dvectors("x", "y")
            return [theano.In(x, borrow=True, mutable=True), y], [theano.Out(x + 1, borrow=True), y * 2], {}

        for (f,) in self.functions(build):
            x, y = np.arange(3.0), np.ones(3)
            first = f(x.copy(), y)
            kept = [v.copy() for v in first]
            second = f(x + 5, y + 1)
            np.testing.assert_array_equal(second, [x + 6, [4, 4, 4]])
            np.testing.assert_array_equal(first[1], kept[1])
            self.assertFalse(np.shares_memory(first[1], second[1]))

    def test_users_thunks(self):
        """A user's `make_thunk` need not have a parameter `impl`, and may return any kind of callable."""
        for op in (Thunked, ThunkedWithImpl):
            for kind in ("function", "held", "recycling", "partial", "method"):

                def build():
                    x = T.dvector("x")
                    return [x], [op(kind)(x + 1) + op(kind)(x * 2), op(kind)(x)], {}

                for (f,) in self.functions(build, [linker for linker in LINKERS if linker != "c"]):
                    for x in (np.arange(3.0), np.ones(3), np.zeros(5)):
                        a, b = f(x)
                        np.testing.assert_array_equal(a, 3 * (x + 1) + 6 * x)
                        np.testing.assert_array_equal(b, 3 * x)

    def test_conditionals(self):
        def build():
            x, s = T.dvector("x"), theano.shared(np.ones(2))
            return [x], ifelse(x[0] > 1, [x * 2, x[0]], [x[::-1], s.sum()]), [(s, ifelse(x[0] > 1, s * 2, s))], s

        for f, s in self.functions(build, [linker for linker in LINKERS if linker != "c"]):
            a, b = f([1, 5])
            self.assertEqual((a.tolist(), b, s.get_value().tolist()), ([5, 1], 2, [1, 1]))
            a, b = f([2, 5])
            self.assertEqual((a.tolist(), b, s.get_value().tolist()), ([4, 10], 2, [2, 2]))

    def test_output_subset(self):
        """Requested outputs are returned in the requested order; only some virtual machines skip the other outputs."""
        from theano_ng.gof.vm import VM_Linker

        x = T.dvector("x")
        for linker in (
            *LINKERS,
            *[VM_Linker(use_cloop=c, allow_partial_eval=p) for c in (True, False) for p in (True, False)],
        ):
            ops = [Counting(name) for name in "abc"]
            if linker == "c":
                continue
            s = theano.shared(0)
            f = theano.function([x], [op(x) for op in ops], updates=[(s, s + 1)], mode=theano.Mode(linker, None))
            self.assertEqual([v.tolist() for v in f([1, 2], output_subset=[2, 0])], [[2, 4], [2, 4]])
            partial_eval = linker.startswith("cvm") if isinstance(linker, str) else linker.allow_partial_eval
            each = 2 if linker == "c&py" else 1
            self.assertEqual([op.calls for op in ops], [each, 0 if partial_eval else each, each], linker)
            self.assertEqual(len(f([1])), 3)
            self.assertEqual(s.get_value(), 2)

    def test_failures_in_lazy_functions(self):
        """A failed call of a lazy function changes no state, because nodes that overwrite state run last."""
        i, x, c = T.lscalar("i"), T.dvector("x"), T.bscalar("c")
        for linker in LINKERS[5:]:
            s, t = theano.shared(np.zeros(3)), theano.shared(0.0)
            f = theano.function(
                [c, i, x],
                [],
                updates=[(s, T.inc_subtensor(s[:1], 1.0)), (t, t + ifelse(c, x[i], x[i + 1]))],
                mode=theano.Mode(linker, "fast_run"),
            )
            f(1, 0, [1, 2, 3])
            self.assertRaises(IndexError, f, 1, 7, [1, 2, 3])
            self.assertEqual((s.get_value().tolist(), t.get_value()), ([1, 0, 0], 1), linker)
            f(0, 0, [1, 2, 3])
            self.assertEqual((s.get_value().tolist(), t.get_value()), ([2, 0, 0], 3), linker)

    def test_only_c(self):
        """The linker c needs C code for all nodes.

        The error names the node without C code, and suggests other linkers.
        """
        x = T.dvector("x")
        generic = theano.compile.as_op([T.dvector], theano.gof.generic)(len)
        inner = theano.OpFromGraph([x], [x * 2])
        for z, name in (
            (Thunked("function")(x), "Thunked"),
            (ifelse(x[0], x, x + 1), "IfElse"),
            (inner(x) + 1, "OpFromGraph"),
            (generic(x), "FromFunctionOp"),
            (OfNoCType()(x), "Type a length of output 0"),
        ):
            with self.assertRaises(theano.gof.utils.MethodNotDefined) as caught:
                theano.function([x], z, mode=theano.Mode("c", None))
            for text in (name, "Linker 'c'", "'c|py'", "'cvm'"):
                self.assertIn(text, str(caught.exception))
            for linker in ("c|py", "cvm"):
                theano.function([x], z, mode=theano.Mode(linker, None))([1.0, 2.0])

    @unittest.skipUnless(theano.config.cxx, "needs a C++ compiler")
    def test_generic_output_in_c(self):
        x = T.dvector("x")
        f = theano.function([x], OfGeneric()(x), mode=theano.Mode("c", None))
        self.assertEqual([f([1.0, 2.0]), f([1.0]), f([])], [2, 1, 0])

    def test_names(self):
        """`Mode` raises ValueError for an unknown linker name, and accepts the name of a registered linker."""
        self.assertRaisesRegex(ValueError, "unknown linker 'cpy'", theano.Mode, "cpy", None)
        from theano_ng.compile.mode import predefined_linkers, register_linker

        self.assertEqual(set(LINKERS), set(predefined_linkers))
        self.assertRaisesRegex(ValueError, "already taken", register_linker, "py", theano.gof.PerformLinker())
        register_linker("test_names", theano.gof.PerformLinker(allow_gc=False))
        self.addCleanup(predefined_linkers.pop, "test_names")
        x = T.dscalar()
        self.assertEqual(theano.function([x], x + 1, mode=theano.Mode("test_names", None))(1), 2)

    def test_inside_of_a_function(self):
        """`f.fn` has nodes, thunks and storage cells, with which users can step through a function."""
        x = T.dvector("x")
        for linker in ("vm", "cvm", "vm_nogc", "cvm_nogc", "py", "c|py"):
            f = theano.function([x], T.exp(x).sum() * 2, mode=theano.Mode(linker, None))
            np.testing.assert_allclose(f([0, 1]), 2 + 2 * np.e)
            nodes = f.fn.nodes
            self.assertEqual(list(nodes), f.maker.fgraph.toposort())
            self.assertEqual(len(f.fn.thunks), len(nodes))
            f.input_storage[0].value = np.zeros(3)
            for node, thunk in zip(nodes, f.fn.thunks):
                self.assertEqual([len(thunk.inputs), len(thunk.outputs)], [len(node.inputs), len(node.outputs)])
                for r, cell in zip((*node.inputs, *node.outputs), (*thunk.inputs, *thunk.outputs)):
                    self.assertIs(f.fn.storage_map[r], cell)
                thunk()
                self.assertIsNotNone(thunk.outputs[0][0])
            self.assertEqual(f.output_storage[0].value, 6)
            self.assertEqual(f([0]), 2)
            f.fn.clear_storage()
            self.assertTrue(all(f.fn.storage_map[r][0] is None for node in nodes for r in node.outputs))


if __name__ == "__main__":
    unittest.main()
