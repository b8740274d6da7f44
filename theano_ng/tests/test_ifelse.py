import pickle
import sys
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import ifelse as module
from theano_ng.compile.mode import optdb
from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.gof.optdb import Query
from theano_ng.gof.rewriting import in2out
from theano_ng.gradient import DisconnectedInputError, verify_grad
from theano_ng.ifelse import IfElse, ifelse
from theano_ng.raise_op import Assert, CheckAndRaise, Raise


class Counted(Op):
    """An Op that doubles a vector and counts its calls."""

    __props__ = ("tag",)

    def __init__(self, tag):
        self.tag = tag
        self.calls = 0

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        self.calls += 1
        outputs[0][0] = 2 * inputs[0]


def mode(linker, optimizer=None):
    return theano.Mode(linker, optimizer)


LAZY, EAGER = ("vm", "cvm", "vm_nogc", "cvm_nogc"), ("py", "c|py", "c|py_nogc")


class TestConstruction(unittest.TestCase):
    def setUp(self):
        self.c, self.x, self.y = T.bscalar("c"), T.dvector("x"), T.dvector("y")

    def test_containers(self):
        """`ifelse` returns a variable, a list or a tuple, like its `then` branch."""
        c, x, y = self.c, self.x, self.y
        self.assertIsInstance(ifelse(c, x, y), T.TensorVariable)
        for make in (list, tuple):
            pair = ifelse(c, make((x, y)), [y, x])
            self.assertEqual((type(pair), len(pair), pair[0].owner is pair[1].owner), (make, 2, True))
            self.assertEqual(type(ifelse(c, make((x,)), make((y,)))), make)
        f = theano.function([c, x, y], list(ifelse(c, (x, y.sum()), (x[::-1], x[0]))), mode=mode("cvm"))
        self.assertEqual([v.tolist() for v in f(0, [1, 2], [5, 6])], [[2, 1], 1])
        self.assertEqual([v.tolist() for v in f(1, [1, 2], [5, 6])], [[1, 2], 11])

    def test_literals(self):
        """`ifelse` converts numbers and arrays in branches to constants, and both branches to a common dtype."""
        c, x = self.c, self.x
        self.assertEqual(ifelse(1, 5, 4).dtype, "int8")
        self.assertEqual(theano.function([], ifelse(0, 5, 400), mode=mode("vm"))(), 400)
        self.assertEqual(
            [ifelse(c, x.sum(), 5).dtype, ifelse(c, 5, T.fscalar()).dtype, ifelse(c, x, np.zeros(2, "f4")).dtype],
            ["float64", "float32", "float64"],
        )
        f = theano.function([c, x], [ifelse(c, x, np.zeros(1)), ifelse(c, np.ones(3), x)], mode=mode("cvm"))
        self.assertEqual([v.tolist() for v in f(0, [7, 8])], [[0], [7, 8]])
        self.assertEqual([v.tolist() for v in f(1, [7, 8])], [[7, 8], [1, 1, 1]])

    def test_conditions(self):
        """The condition may have any scalar type; 0 is false, all other values are true."""
        x, y = self.x, self.y
        for dtype, true, false in (
            ("bool", True, False),
            ("int8", -1, 0),
            ("uint64", 2**63, 0),
            ("float32", 1e-40, -0.0),
            ("float64", np.nan, 0.0),
            ("complex64", 1j, 0j),
            ("float16", 0.5, 0),
        ):
            c = T.scalar(dtype=dtype)
            for linker in ("cvm", "vm", "py"):
                f = theano.function([c, x, y], ifelse(c, x, y), mode=mode(linker))
                self.assertEqual(
                    (f(np.asarray(true, dtype), [1], [2]), f(np.asarray(false, dtype), [1], [2])),
                    (1, 2),
                    (dtype, linker),
                )
        for literal, want in ((True, 1), (False, 2), (np.bool_(1), 1), (np.asarray(0), 2), (0.5, 1)):
            self.assertEqual(theano.function([x, y], ifelse(literal, x, y), mode=mode("cvm"))([1], [2]), want)

    def test_broadcastable(self):
        """An axis that is broadcastable in one branch only may have any length in the result."""
        self.assertEqual(ifelse(self.c, T.drow(), T.dmatrix()).broadcastable, (False, False))
        self.assertEqual(ifelse(self.c, T.drow(), T.dcol()).broadcastable, (False, False))
        self.assertEqual(ifelse(self.c, T.drow(), T.drow()).broadcastable, (True, False))
        r, m = T.drow(), T.dmatrix()
        gradients = T.grad(ifelse(self.c, r * 2, m * 3).sum(), [r, m])
        self.assertEqual([g.type for g in gradients], [r.type, m.type])
        f = theano.function([self.c, r, m], gradients, mode=mode("cvm"))
        for choice in (0, 1):
            gr, gm = f(choice, np.ones((1, 2)), np.ones((3, 2)))
            self.assertEqual((gr.tolist(), gm.tolist()), ([[2.0 * choice] * 2], [[3.0 * (1 - choice)] * 2] * 3))

    def test_errors(self):
        c, x, y = self.c, self.x, self.y
        for t, f in ((x, T.dmatrix()), (x, T.fvector()), (x, 5), (x, theano.gof.generic())):
            with self.assertRaisesRegex(TypeError, "The two branches should have identical types|Cannot convert"):
                ifelse(c, t, f)
        for t, f in (([x, x], [x]), ((x, y), y), (x, [x, y])):
            with self.assertRaisesRegex(
                ValueError,
                r"variables on `then` %d, variables on `else` %d"
                % (len(t) if isinstance(t, (list, tuple)) else 1, len(f) if isinstance(f, list) else 1),
            ):
                ifelse(c, t, f)
        for condition in (x, np.zeros(2)):
            with self.assertRaisesRegex(TypeError, "Condition given to the op has to be a scalar.*vector"):
                ifelse(condition, x, y)
        self.assertRaises(TypeError, ifelse, None, x, y)
        with self.assertRaisesRegex(ValueError, "expected 4, got 2"):
            IfElse(2)(c, x, y)
        with self.assertRaisesRegex(TypeError, "same types"):
            IfElse(1)(c, x, T.fvector())

    def test_op(self):
        """The name of an `IfElse` is used for printing only: Ops that differ only in their names are equal."""
        self.assertEqual(
            [str(IfElse(1)), str(IfElse(2, as_view=True, name="n")), str(IfElse(1, gpu=True))],
            ["if{}", "if{n,inplace}", "if{gpu}"],
        )
        self.assertEqual(str(ifelse(self.c, self.x, self.y, name="foo").owner), "if{foo}(c, x, y)")
        self.assertEqual((IfElse(1, name="a"), hash(IfElse(1, name="a"))), (IfElse(1), hash(IfElse(1))))
        self.assertTrue(
            IfElse(1) != IfElse(1, as_view=True) and IfElse(1) != IfElse(2) and IfElse(1) != IfElse(1, gpu=True)
        )
        self.assertEqual((IfElse(2, as_view=True).view_map, getattr(IfElse(2), "view_map", {})), ({0: [1], 1: [2]}, {}))
        self.assertEqual(pickle.loads(pickle.dumps(IfElse(2, True))), IfElse(2, True))
        node = ifelse(self.c, (self.x, self.y), (self.y, self.x))[0].owner
        self.assertEqual(
            node.op.connection_pattern(node), [[True, True], [True, False], [False, True], [True, False], [False, True]]
        )

    def test_other_types(self):
        """A conditional returns deep copies of values that are not arrays."""
        c, g, h = self.c, theano.gof.generic(), theano.gof.generic()
        value = {"a": [1]}
        for linker in ("cvm", "vm", "py"):
            f = theano.function([c, g, h], ifelse(c, g, h), mode=mode(linker))
            for choice in (0, 1):
                got = f(choice, value, value)
                self.assertTrue(got == value and got is not value and got["a"] is not value["a"])

    def test_test_values(self):
        """With `compute_test_value`, building the graph computes the test values of both branches."""
        with theano.config.change_flags(compute_test_value="raise"):
            then, other = Counted("t"), Counted("f")
            c, x = T.bscalar(), T.dvector()
            c.tag.test_value, x.tag.test_value = np.int8(0), np.array([1.0, 2.0])
            z = ifelse(c, then(x), other(x) + 1)
        self.assertEqual((then.calls, other.calls, z.tag.test_value.tolist()), (1, 1, [3, 5]))


class TestLaziness(unittest.TestCase):
    def setUp(self):
        self.c, self.x, self.y = T.bscalar("c"), T.dvector("x"), T.dvector("y")
        self.ops = [Counted(name) for name in "abcd"]

    def calls(self):
        """Return the number of calls of each Op since the last call of this method."""
        counts = [op.calls for op in self.ops]
        for op in self.ops:
            op.calls = 0
        return counts

    def functions(self, inputs, outputs, linkers=LAZY, **kwargs):
        for linker in linkers:
            for optimizer in (None, "fast_run"):
                try:
                    yield theano.function(inputs, outputs, mode=mode(linker, optimizer), **kwargs)
                except GeneratorExit:
                    print("That was linker %s, optimizer %s." % (linker, optimizer))  # the test failed
                    raise

    def test_one_branch(self):
        """Lazy linkers compute only the chosen branch, and other linkers compute both branches.

        All linkers return equal values.
        """
        a, b, *_ = self.ops
        for linkers, other in ((LAZY, 0), (EAGER, 1)):
            for f in self.functions([self.c, self.x, self.y], ifelse(self.c, a(self.x), b(self.y)), linkers):
                for _ in range(2):
                    self.assertEqual(f(7, [1, 2], [3]).tolist(), [2, 4])
                    self.assertEqual(self.calls()[:2], [1, other])
                    self.assertEqual(f(0, [1, 2], [3]).tolist(), [6])
                    self.assertEqual(self.calls()[:2], [other, 1])

    def test_several_outputs(self):
        """A node on which several outputs depend is computed once. All values of the chosen branch are computed."""
        a, b, c, d = self.ops
        shared = a(self.x)
        outputs = ifelse(self.c, [shared, b(shared)], [c(shared), d(self.x)])
        for f in self.functions([self.c, self.x], [*outputs, shared]):
            self.assertEqual([v.tolist() for v in f(1, [1])], [[2], [4], [2]])
            self.assertEqual(self.calls(), [1, 1, 0, 0])
            self.assertEqual([v.tolist() for v in f(0, [1])], [[4], [2], [2]])
            self.assertEqual(self.calls(), [1, 0, 1, 1])

    def test_nested(self):
        """A conditional may be inside a branch, or be the condition of another conditional."""
        a, b, c, d = self.ops
        n = T.lscalar("n")
        nested = ifelse(n > 0, a(self.x), ifelse(n < 0, b(self.x), c(self.x)) + d(self.x))
        for f in self.functions([n, self.x], nested):
            for value, want, calls in ((1, 2, [1, 0, 0, 0]), (-1, 4, [0, 1, 0, 1]), (0, 4, [0, 0, 1, 1])):
                self.assertEqual((f(value, [1]).tolist(), self.calls()), ([want], calls))
        condition = ifelse(n > 0, a(self.x)[0] > 5, b(self.x)[0] > 50)
        for f in self.functions([n, self.x], ifelse(condition, c(self.x), d(self.x) + 1)):
            for value, x, want, calls in (
                (1, 3, 6, [1, 0, 1, 0]),
                (1, 1, 3, [1, 0, 0, 1]),
                (0, 3, 7, [0, 1, 0, 1]),
                (0, 30, 60, [0, 1, 1, 0]),
            ):
                self.assertEqual((f(value, [x]).tolist(), self.calls()), ([want], calls))

    def test_deep(self):
        """A chain of a thousand conditionals needs no recursion."""
        x = T.dscalar()
        z = x
        for i in range(1000):
            z = ifelse(x > i, z + 1, z - 1)
        f = theano.function([x], z, mode=mode("cvm"))
        self.assertEqual(f(250.5), 250.5 + 251 - 749)

    def test_updates(self):
        """Lazy linkers compute only the chosen new value of a state, although nodes that work in place run last."""
        a, b, *_ = self.ops
        for linker in (*LAZY, *EAGER):
            for optimizer in (None, "fast_run"):
                with self.subTest(linker=linker, optimizer=optimizer):
                    s, n = theano.shared(np.ones(2)), theano.shared(0)
                    f = theano.function(
                        [],
                        s.sum(),
                        updates=[(s, ifelse(T.eq(n % 2, 0), T.inc_subtensor(s[:1], 10.0), a(s))), (n, n + 1)],
                        mode=mode(linker, optimizer),
                    )
                    self.assertEqual([f().tolist() for _ in range(4)], [2, 12, 24, 34])
                    self.assertEqual((s.get_value().tolist(), n.get_value()), ([64, 4], 4))
                    self.assertEqual(self.calls()[0], 2 if linker in LAZY else 4)
                    # also update, in every call, a variable that a branch reads
                    s = theano.shared(np.ones(2))
                    f = theano.function(
                        [self.c],
                        ifelse(self.c, a(s), b(s)),
                        updates=[(s, T.inc_subtensor(s[:1], 1.0))],
                        mode=mode(linker, optimizer),
                    )
                    self.assertEqual([f(i).tolist() for i in (1, 0, 0, 1)], [[2 * k, 2] for k in (1, 2, 3, 4)])
                    self.assertEqual(self.calls()[:2], [2, 2] if linker in LAZY else [4, 4])

    def test_output_subset(self):
        a, b, *_ = self.ops
        for f in self.functions([self.c, self.x], [ifelse(self.c, a(self.x), self.x), b(self.x)]):
            self.assertEqual(f(0, [1], output_subset=[0])[0], [1])
            self.assertEqual(self.calls()[:2], [0, 0])
            self.assertEqual(f(1, [1], output_subset=[1])[0], [2])
            self.assertEqual(self.calls()[:2], [0, 1])

    def test_errors_leave_the_function_usable(self):
        """An error in a branch names the failing node. The next calls of the function can compute either branch."""
        for f in self.functions([self.c, self.x, self.y], ifelse(self.c, T.dot(self.x, self.y), T.sum(self.y)) * 2):
            for _ in range(2):
                with self.assertRaisesRegex(
                    ValueError, "Apply node that caused the error: (dot|InnerDot|CDot|Dot|Inner)"
                ):
                    f(1, [1, 2], [1, 2, 3])
                self.assertEqual(f(0, [1, 2], [1, 2, 3]), 12)
                self.assertEqual(f(1, [1, 2], [1, 2]), 10)

    def test_checking_modes(self):
        """DebugMode and MonitorMode compute both branches, and NanGuardMode computes only the chosen branch."""
        from theano_ng.compile import MonitorMode

        a, b, *_ = self.ops
        seen = []
        for m, lazy in (
            ("DebugMode", False),
            (MonitorMode(post_func=lambda i, node, fn: seen.append(str(node.op))), False),
            ("NanGuardMode", True),
        ):
            f = theano.function([self.c, self.x, self.y], ifelse(self.c, a(self.x), b(self.y)) + 1, mode=m)
            self.calls()
            self.assertEqual((f(1, [1], [2]).tolist(), f(0, [1], [2]).tolist()), ([3], [5]))
            counts = self.calls()[:2]
            self.assertTrue(counts == [1, 1] if lazy else min(counts) >= 2, (m, counts))
        self.assertEqual([seen.count(str(op)) for op in self.ops[:2]], [2, 2])

    def test_profile(self):
        """A profile counts only the nodes that ran."""
        a, b, *_ = self.ops
        profile = theano.ProfileStats(atexit_print=False)
        f = theano.function([self.c, self.x], ifelse(self.c, a(self.x), b(self.x)), mode=mode("cvm"), profile=profile)
        for choice in (1, 1, 0):
            f(choice, [1])
        counts = {str(node.op): n for node, n in profile.apply_callcount.items()}
        self.assertEqual(counts, {str(a): 2, str(b): 1, "if{}": 3})

    def test_pickle_and_copy(self):
        a, b, *_ = self.ops
        f = theano.function([self.c, self.x], ifelse(self.c, a(self.x), b(self.x)), mode=mode("cvm", "fast_run"))
        g = pickle.loads(pickle.dumps(f))
        counted = {node.op.tag: node.op for node in g.maker.fgraph.toposort() if hasattr(node.op, "calls")}
        self.assertEqual(g(1, [1]).tolist(), [2])
        self.assertEqual((counted["a"].calls, counted["b"].calls, self.calls()[:2]), (1, 0, [0, 0]))
        self.assertEqual(f.copy()(0, [1]), [2])
        self.assertEqual(self.calls()[:2], [0, 1])

    def test_shape_only(self):
        """The shape of a conditional is computed from the shape of the chosen branch.

        The value of the branch is computed only if the shape cannot be inferred without it.
        """

        class Shaped(Counted):
            def infer_shape(self, node, shapes):
                return shapes

        a, b, c, _ = self.ops = [Shaped("a"), Shaped("b"), Counted("c"), Counted("d")]
        f = theano.function(
            [self.c, self.x, self.y], ifelse(self.c, a(self.x), b(self.y)).shape[0], mode=mode("cvm", "fast_run")
        )
        self.assertEqual((f(1, [1, 2], [3]), f(0, [1, 2], [3]), self.calls()), (2, 1, [0, 0, 0, 0]))
        f = theano.function(
            [self.c, self.x, self.y], ifelse(self.c, c(self.x), b(self.y)).shape[0], mode=mode("cvm", "fast_run")
        )
        self.assertEqual(
            (f(1, [1, 2], [3]), self.calls(), f(0, [1, 2], [3]), self.calls()), (2, [0, 0, 1, 0], 1, [0, 0, 0, 0])
        )


class TestMemory(unittest.TestCase):
    def test_outputs_are_copies(self):
        c, x, y = T.bscalar(), T.dvector(), T.dvector()
        for linker in LAZY + EAGER:
            f = theano.function(
                [c, theano.In(x, borrow=True), theano.In(y, borrow=True)], ifelse(c, x, y), mode=mode(linker)
            )
            for choice in (0, 1):
                v, w = np.ones(2), np.zeros(2)
                self.assertFalse(any(np.shares_memory(f(choice, v, w), a) for a in (v, w)))

    def test_results_are_moved(self):
        """With garbage collection, `ifelse` does not copy the array of a branch if nothing else refers to it."""
        made = []

        class Make(Counted):
            def perform(self, node, inputs, outputs):
                outputs[0][0] = 2 * inputs[0]
                made.append(outputs[0][0].__array_interface__["data"][0])

        c, x = T.bscalar(), T.dvector()
        a, b = Make("a")(x), Make("b")(x)
        where = lambda v: v.__array_interface__["data"][0]
        for linker, outputs, moved in (
            ("cvm", ifelse(c, a, b), True),
            ("cvm_nogc", ifelse(c, a, b), False),
            ("cvm", ifelse(c, a[::-1], b[1:]), False),
        ):
            f = theano.function([c, x], outputs, mode=mode(linker))
            for choice in (0, 1):
                del made[:]
                got = f(choice, np.arange(40.0))
                self.assertEqual(where(got) in [made[-1], made[-1] + 8, made[-1] + 39 * 8], moved)
        # If two outputs have the same value, or a branch is itself an output, the returned arrays share no memory.
        for outputs in (ifelse(c, [a, a], [b, a]), [ifelse(c, a, b), a, b]):
            f = theano.function([c, x], outputs, mode=mode("cvm"))
            for choice in (0, 1):
                got = f(choice, np.arange(4.0))
                self.assertEqual([v.tolist() for v in got], [[0, 2, 4, 6]] * len(got))
                self.assertFalse(any(np.shares_memory(u, v) for i, u in enumerate(got) for v in got[:i]))

    def test_freeing(self):
        """With garbage collection, no computed value remains in the storage after a call of either branch."""
        c, x = T.bscalar(), T.dvector()
        shared = Counted("s")(x)
        z = Counted("u")(ifelse(c, Counted("a")(shared), Counted("b")(shared)))
        for linker, gc in (("cvm", True), ("vm", True), ("cvm_nogc", False), ("vm_nogc", False)):
            f = theano.function([c, x], z, mode=mode(linker))
            for choice in (0, 1):
                f(choice, [1])
                full = [
                    str(r.owner.op)
                    for r, cell in f.fn.storage_map.items()
                    if r.owner is not None and cell[0] is not None
                ]
                self.assertEqual(bool(full), not gc)

    def test_references(self):
        """Calls of conditionals that return copies or views do not change the reference counts of their arguments."""
        c, g, x = T.bscalar(), theano.gof.generic(), T.dvector()
        for outputs in (ifelse(c, g, g), [ifelse(c, x, x[::-1]), T.exp(ifelse(c, x, x + 1))]):
            f = theano.function(
                [c, theano.In(x, borrow=True)] if isinstance(outputs, list) else [c, g],
                outputs,
                mode=mode("cvm", "fast_run"),
            )
            value = np.arange(3.0) if isinstance(outputs, list) else [1]
            before = sys.getrefcount(value)
            for i in range(20):
                f(i % 2, value)
            self.assertEqual(sys.getrefcount(value), before)


class TestGradient(unittest.TestCase):
    def test_both_branches(self):
        """The chosen branch gets the gradient, and the other branch gets zeros of its own shape."""
        c, x, y = T.bscalar(), T.dvector(), T.dvector()
        z = ifelse(c, x**2, 3 * y)
        gx, gy = T.grad(z.sum(), [x, y])
        rx = T.Rop(z, x, x)
        size = z.owner.op.infer_shape(z.owner, [(), (x.shape[0],), (y.shape[0],)])[0][0]
        for linker in ("cvm", "py"):
            f = theano.function([c, x, y], [gx, gy, rx, size], mode=mode(linker))
            for choice, want in ((1, ([2, 4], [0, 0, 0], [2, 8], 2)), (0, ([0, 0], [3, 3, 3], [0, 0, 0], 3))):
                for a, b in zip(f(choice, [1, 2], [1, 2, 3]), want):
                    np.testing.assert_array_equal(a, b)

    def test_finite_differences(self):
        rng = np.random.RandomState(0)
        for limit in (-100, 100):
            verify_grad(
                lambda a, b: sum(ifelse(T.gt(a.sum(), limit), (a**2, T.exp(b)), (T.sin(b), a * b))),
                [rng.rand(3), rng.rand(3)],
                rng=rng,
            )

    def test_condition(self):
        """The gradient of the condition is connected and 0: a small change of the condition changes no output."""
        c, x = T.dscalar(), T.dvector()
        g = T.grad(ifelse(c, x, 2 * x).sum(), c)
        self.assertEqual(theano.function([c, x], g, on_unused_input="ignore")(3.0, [1, 2]), 0)
        self.assertEqual(T.grad(ifelse(T.bscalar(), x, x).sum(), x).dtype, "float64")

    def test_some_outputs(self):
        """If a cost uses one output of a conditional, inputs that affect only the other output are disconnected."""
        c, x, y = T.bscalar(), T.dvector(), T.dvector()
        first, second = ifelse(c, [x * 2, y], [x * 3, y * 5])
        f = theano.function([c, x, y], T.grad(first.sum(), x), mode=mode("cvm"))
        self.assertEqual((f(1, [1], [1]), f(0, [1], [1])), (2, 3))
        self.assertRaises(DisconnectedInputError, T.grad, first.sum(), y)
        self.assertEqual(T.grad(second.sum(), y).eval({c: 0, x: [1.0], y: [1.0, 1.0]}).tolist(), [5, 5])

    def test_rop(self):
        """Rop of a conditional uses the directions of variables in both branches.

        `R_op` returns None for an output if no input on which the output depends has a direction.
        """
        c, x, y, u, v = T.bscalar(), *T.dvectors(4)
        z = ifelse(c, [x**2, y], [y**3, y])
        both = T.Rop(z[0], [x, y], [u, v])
        f = theano.function([c, x, y, u, v], both, mode=mode("cvm"))
        self.assertEqual((f(1, [3], [2], [10], [100]), f(0, [3], [2], [10], [100])), (60, 1200))
        self.assertIsNone(z[0].owner.op.R_op(z[0].owner.inputs, [None, None, v, None, None])[0])

    def test_gradients_of_the_branch_that_is_taken(self):
        """A branch that is a gradient is computed only if it is chosen.

        With the tag ifelse, gradients through a conditional are computed only for the chosen branch, too.
        """
        c, x, y = T.bscalar("c"), T.dvector("x"), T.dvector("y")

        class Square(Counted):
            def perform(self, node, inputs, outputs):
                self.calls += 1
                outputs[0][0] = inputs[0] ** 2

            def grad(self, inputs, grads):
                self.slope = Square.last = Counted("slope" + self.tag)
                return [self.slope(inputs[0]) * grads[0]]

            def infer_shape(self, node, shapes):
                return shapes

        a, b = Square("a"), Square("b")
        f = theano.function(
            [c, x, y], ifelse(c, T.grad(a(x).sum(), x), T.grad(b(y).sum(), y)), mode=mode("cvm", "fast_run")
        )
        for choice, want in ((1, [2, 4]), (0, [6])):
            a.slope.calls = b.slope.calls = 0
            self.assertEqual(f(choice, [1, 2], [3]).tolist(), want)
            self.assertEqual((a.slope.calls, b.slope.calls, a.calls, b.calls), (choice, 1 - choice, 0, 0))

        w = T.dmatrix("w")
        hidden = T.tanh(T.dot(x, w))
        gradient = T.grad(ifelse(c, hidden.sum(), y.sum()), w)
        for tags, lazy in (((), False), (("ifelse",), True)):
            profile = theano.ProfileStats(atexit_print=False)
            f = theano.function(
                [c, x, y, w],
                gradient,
                mode=mode("cvm", "fast_run").including(*tags),
                profile=profile,
                on_unused_input="ignore",
            )
            self.assertEqual(f(0, [1, 2], [3], np.ones((2, 3))).tolist(), [[0] * 3] * 2)
            ran = [str(node.op) for node, n in profile.apply_callcount.items() if n]
            self.assertEqual(any("anh" in name or "ger" in name.lower() for name in ran), not lazy, ran)
            np.testing.assert_allclose(
                f(1, [1, 2], [3], np.ones((2, 3))), np.outer([1, 2], 3 * [1 - np.tanh(3) ** 2]), rtol=1e-12
            )


class TestRewrites(unittest.TestCase):
    def rewritten(self, rule, inputs, outputs):
        fgraph = theano.gof.FunctionGraph(inputs, outputs, clone=False)
        (rule if hasattr(rule, "optimize") else in2out(rule)).optimize(fgraph)
        return fgraph

    def setUp(self):
        self.c, self.x, self.y, self.z = T.bscalar("c"), T.dvector("x"), T.dvector("y"), T.dvector("z")

    def test_nested(self):
        """ifelse(c, ifelse(c, x, y), z)  ->  ifelse(c, x, z), and the same in the else branch."""
        c, x, y, z = self.c, self.x, self.y, self.z
        fgraph = self.rewritten(module.cond_merge_ifs_true, [c, x, y, z], [ifelse(c, ifelse(c, x, y), z)])
        self.assertEqual(fgraph.outputs[0].owner.inputs, [c, x, z])
        c, x, y, z = T.bscalar(), T.dvector(), T.dvector(), T.dvector()
        fgraph = self.rewritten(module.cond_merge_ifs_false, [c, x, y, z], [ifelse(c, x, ifelse(c, y, z))])
        self.assertEqual(fgraph.outputs[0].owner.inputs, [c, x, z])

    def test_identical_and_merge(self):
        c, x, y, z = self.c, self.x, self.y, self.z
        fgraph = self.rewritten(module.cond_remove_identical, [c, x, y], ifelse(c, [x, x], [y, y]))
        self.assertEqual(fgraph.outputs[0].owner.inputs, [c, x, y])
        c, x, y, z = T.bscalar(), T.dvector(), T.dvector(), T.dvector()
        fgraph = self.rewritten(module.CondMerge(), [c, x, y, z], [ifelse(c, x, y), ifelse(c, y, z)])
        self.assertIs(fgraph.outputs[0].owner, fgraph.outputs[1].owner)
        self.assertEqual(theano.function([c, x, y, z], fgraph.outputs, mode=mode("vm"))(1, [1], [2], [3]), [[1], [2]])
        c, x, y, z = T.bscalar(), T.dvector(), T.dvector(), T.dvector()
        fgraph = self.rewritten(module.cond_merge_random_op, [c, x, y, z], [ifelse(c, x, y) + ifelse(c, y, z)])
        self.assertEqual(len({inp.owner for inp in fgraph.outputs[0].owner.inputs}), 1)

    def test_merge_levels(self):
        """Conditionals with equal conditions are merged, except those that depend on each other; names are joined."""
        c, x, y, z = self.c, self.x, self.y, self.z
        first, second = ifelse(c, x, y, name="a"), ifelse(c, y, z)
        outputs = [ifelse(c, first + second, x), ifelse(c, z, first), second, ifelse(T.neg(c), x, y)]
        fgraph = self.rewritten(module.CondMerge(), [c, x, y, z], outputs)
        nodes = [node for node in fgraph.toposort() if isinstance(node.op, IfElse)]
        self.assertEqual(
            sorted((str(node.op), node.op.n_outs) for node in nodes), [("if{?&a}", 2), ("if{}", 1), ("if{}", 2)]
        )
        f = theano.function([c, x, y, z], fgraph.outputs, mode=mode("cvm"))
        self.assertEqual([[int(v[0]) for v in f(i, [1], [2], [3])] for i in (1, 0)], [[3, 3, 2, 1], [1, 2, 3, 2]])

    def test_lift(self):
        """exp(ifelse(c, x, y))  ->  ifelse(c, exp(x), exp(y))"""
        c, x, y = self.c, self.x, self.y
        fgraph = self.rewritten(
            module.ifelse_lift_single_if_through_acceptable_ops, [c, x, y], [T.exp(ifelse(c, x, y))]
        )
        self.assertIsInstance(fgraph.outputs[0].owner.op, IfElse)
        self.assertEqual([v.owner.op for v in fgraph.outputs[0].owner.inputs[1:]], [T.exp, T.exp])
        # The rule does not apply if the conditional has another client, if an Op has two conditionals as inputs, or if
        # the Op is not in the list of the rule.
        z, w = ifelse(self.c, self.x, self.y), ifelse(self.c, self.y, self.x)
        for outputs in ([T.exp(z), z], [z + w], [Counted("a")(z)]):
            inputs = [self.c, self.x, self.y]
            fgraph = theano.gof.FunctionGraph(inputs, outputs)
            in2out(module.ifelse_lift_single_if_through_acceptable_ops).optimize(fgraph)
            self.assertFalse(any(isinstance(v.owner.op, IfElse) for v in fgraph.outputs[:1]), outputs)

    def test_registered(self):
        """cond_make_inplace runs in FAST_RUN at position 95; the tag ifelse adds rules before canonicalization."""
        registered = {name: optdb.__position__[name] for name in ("cond_make_inplace", "ifelse_equilibrium")}
        self.assertEqual(registered, {"cond_make_inplace": 95, "ifelse_equilibrium": 0.5})
        for tags, name, found in (
            (("fast_run",), "cond_make_inplace", True),
            (("inplace",), "cond_make_inplace", True),
            (("fast_compile",), "cond_make_inplace", False),
            (("fast_run",), "ifelse_equilibrium", False),
            (("ifelse",), "ifelse_equilibrium", True),
        ):
            self.assertEqual(name in [o.name for o in optdb.query(Query(include=tags))], found, (tags, name))
        self.assertEqual(
            sorted(o.name for o in module.ifelse_equilibrium.__query__(Query(include=["ifelse"]))),
            [
                "cond_merge",
                "cond_merge_ifs_false",
                "cond_merge_ifs_true",
                "cond_merge_random_op",
                "cond_remove_identical",
                "ifelse_lift_single_if_through_acceptable_ops",
            ],
        )
        # With the tag ifelse, all rules together keep the values of a graph, and reduce the number of conditionals.
        c, x, y = self.c, self.x, self.y
        z = T.exp(ifelse(c, x, y)) * ifelse(c, ifelse(c, y, x), 2 * x) + ifelse(c, x, 0 * y)
        f, g = (
            theano.function([c, x, y], z, mode=mode("cvm", "fast_run").including(*tags)) for tags in ((), ("ifelse",))
        )
        for choice in (0, 1):
            np.testing.assert_allclose(f(choice, [1, 2], [3, 4]), g(choice, [1, 2], [3, 4]), rtol=1e-12)
        count = [sum(isinstance(node.op, IfElse) for node in h.maker.fgraph.toposort()) for h in (f, g)]
        self.assertLess(count[1], count[0])

    def test_inplace(self):
        """cond_make_inplace lets a conditional return a view, unless an input would then be returned or overwritten."""
        c, x, y = self.c, self.x, self.y
        fgraph = self.rewritten(module.cond_make_inplace, [c, x, y], [T.exp(ifelse(c, x, y))])
        self.assertTrue(fgraph.outputs[0].owner.inputs[0].owner.op.as_view)
        c, x, y = T.bscalar(), T.dvector(), T.dvector()
        fgraph = self.rewritten(module.cond_make_inplace, [c, x, y], [ifelse(c, T.exp(x), y)])
        self.assertFalse(fgraph.outputs[0].owner.op.as_view)
        c, x, y = T.bscalar(), T.dvector(), T.dvector()
        overwritten = T.set_subtensor(ifelse(c, x, y)[:1], y[:1], inplace=True)
        fgraph = self.rewritten(module.cond_make_inplace, [c, x, y], [overwritten])
        self.assertFalse(fgraph.outputs[0].owner.inputs[0].owner.op.as_view)


class TestRaising(unittest.TestCase):
    def test_raise(self):
        x = T.dvector()
        f = theano.function([x], Raise("no way", KeyError)(x), mode=mode("vm"))
        with self.assertRaisesRegex(KeyError, "no way"):
            f([1])
        self.assertEqual(hash(Raise("a", KeyError)), hash(Raise("a", KeyError)))

    def test_conditions(self):
        x = T.dvector()
        for op, kind, text in (
            (Assert("vector too long: \u00e9"), AssertionError, "vector too long: \u00e9"),
            (CheckAndRaise(KeyError, "short"), KeyError, "short"),
        ):
            z = op(x, x.shape[0] < 3, T.all(T.gt(x, 0)))
            for linker in ("cvm", "py"):
                f = theano.function([x], [z, T.grad(z.sum(), x)], mode=mode(linker))
                self.assertEqual([v.tolist() for v in f([1, 2])], [[1, 2], [1, 1]])
                for bad in ([1, 2, 3], [0.0]):
                    with self.assertRaisesRegex(kind, text):
                        f(bad)
            self.assertRaises(TypeError, op, x, x)
        self.assertEqual(str(Assert("m")), "Assert{msg='m'}")


if __name__ == "__main__":
    unittest.main()
