"""Rules for writing into parts of tensors: useless writes, sums of increments, work in place."""

import itertools
import unittest

import numpy as np

import theano_ng
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.gof.optdb import Query
from theano_ng.tensor.tests.rewriting import RewriteCase, shown

QUERY = Query(["fast_run"], exclude=["inplace", "fusion", "BlasOpt"])


class TestUseless(RewriteCase):
    query = QUERY

    def test_nothing_or_everything(self):
        x, y, s, n = T.dmatrix("x"), T.dmatrix("y"), T.dscalar("s"), T.lscalar("n")
        rows = T.lvector("rows")
        two = {"x": np.ones((4, 2)), "y": np.ones((1, 2)), "rows": [0, 2, 2]}
        for out, expected in [
            (T.inc_subtensor(x[1:], 0) * 2, "mul(2.0, x)"),
            (T.inc_subtensor(x[rows], 0) * 2, None),
            (T.set_subtensor(x[:], T.exp(x)), "exp(x)"),
            (T.set_subtensor(x[::-1], T.exp(x)), "exp(Subtensor{::int64}(x, -1))"),
            (T.inc_subtensor(T.zeros_like(x)[:, :], T.exp(x)), "exp(x)"),
            (T.set_subtensor(T.zeros((4, n))[1:2], 0), "Alloc(0.0, 4, n)"),
            (T.inc_subtensor(T.zeros((4, n))[1:2], s), None),
            (T.set_subtensor(x[:], y), None),
            (T.set_subtensor(T.zeros((n, y.shape[1]))[:, :], y), None),
            (T.inc_subtensor(T.zeros((n, y.shape[1]))[:, :], y), None),
            (T.set_subtensor(x[:], s), None),
            (T.inc_subtensor(x[:], T.exp(x)), None),
        ]:
            f = self.check(out, expected, dict(two, n=2))
            if expected is None and out.owner.inputs[0] is x:
                self.assertIn("IncSubtensor", shown(f.maker.fgraph))
        f = self.check(T.inc_subtensor(T.zeros((4, n))[1:2], s), None, {"n": 3})
        self.assertIn("IncSubtensor{Set;int64:int64:}", shown(f.maker.fgraph))

    def test_dimensions_added_to_a_repeated_value(self):
        """A value that Alloc repeats is written directly, also if dimensions are added or forgotten in between."""
        x, s, n = T.dtensor3("x"), T.dscalar("s"), T.lscalar("n")
        repeated = T.alloc(s, n, 2)
        outs = [
            T.set_subtensor(x[:1], T.unbroadcast(T.shape_padleft(repeated), 0)),
            T.inc_subtensor(x[1:], T.shape_padleft(repeated)),
            T.set_subtensor(x[1:], repeated),
            T.set_subtensor(x[:, :, :], T.unbroadcast(T.alloc(s, 1, n, 2), 0)),
        ]
        given = {x: np.arange(18.0).reshape(3, 3, 2), s: 5.0}
        for out in outs:
            f = theano_ng.function([x, s, n], out, mode=Mode("py", self.query))
            self.assertNotIn("Alloc", shown(f.maker.fgraph))
            expected = given[x].copy()
            expected[:1] = 5 if out is outs[0] or out is outs[3] else expected[:1]
            if out is outs[1]:
                expected[1:] += 5
            elif out is not outs[0]:
                expected[1:] = 5
            np.testing.assert_array_equal(f(given[x], 5.0, 3), expected)
            with self.assertRaises((AssertionError, ValueError)):
                f(given[x], 5.0, 2)
        # Values that do not fit raise an error as before.
        for value in (T.alloc(s, n, 3).T, T.addbroadcast(T.alloc(s, n, n, 2), 0)):
            f = theano_ng.function([x, s, n], T.set_subtensor(x[:1], value), mode=Mode("py", self.query))
            self.assertRaises(ValueError, f, given[x], 5.0, 3)

    def test_memory_of_its_own(self):
        """Writes into equal allocations without values work in place, each in an allocation of its own."""
        x, n = T.dvector("x"), T.lscalar("n")
        empty = T.AllocEmpty("float64")(n)
        parts = [T.set_subtensor(T.set_subtensor(empty[:2], x[:2] * k)[2:], x[2:]) for k in range(3)]
        f = theano_ng.function([x, n], parts)
        nodes = [node for node in f.maker.fgraph.toposort() if isinstance(node.op, T.IncSubtensor)]
        self.assertTrue(all(node.op.inplace for node in nodes))
        value = np.arange(5.0) + 1
        for k, found in enumerate(f(value, 5)):
            np.testing.assert_array_equal(found, np.r_[value[:2] * k, value[2:]])

    def test_what_is_in_place_stays(self):
        """Rules for useless writes keep an in-place write into a mutable input, because the caller sees the change."""
        x = T.dmatrix("x")
        for index in (slice(None), slice(None, None, -1), (slice(0, None), slice(None))):
            out = T.set_subtensor(x[index], T.exp(x), inplace=True)
            mode = Mode("py", self.query)
            f = theano_ng.function([theano_ng.In(x, mutable=True)], out, mode=mode, accept_inplace=True)
            given = np.arange(6.0).reshape(3, 2)
            want = given.copy()
            want[index] = np.exp(given)
            np.testing.assert_allclose(f(given), want)
            np.testing.assert_allclose(given, want)

    def test_what_destroy_handlers_tolerate(self):
        """If a rule turns an increment into an assignment, the new Op keeps `destroyhandler_tolerate_aliased`."""
        node = T.inc_subtensor(T.zeros(5)[1:3], T.dvector("y")).owner
        for tolerated in ((), [(0, 1)]):
            op = T.IncSubtensor(node.op.idx_list, destroyhandler_tolerate_aliased=tolerated)
            # Ops that differ only in the tolerated aliases are equal, so a cached graph could contain the other Op.
            with theano_ng.config.change_flags(cache_graphs=False):
                f = self.check(op(*node.inputs), None, {"y": [2.0, 3.0]})
            (made,) = [n.op for n in f.maker.fgraph.apply_nodes if isinstance(n.op, T.IncSubtensor)]
            self.assertTrue(made.set_instead_of_inc)
            self.assertEqual(list(made.destroyhandler_tolerate_aliased), list(tolerated))

    def test_parts_of_zeros(self):
        """Increments of zeros become assignments if the incremented parts are known to be disjoint.

        A part that may overlap another part is incremented.
        """
        v, n = T.dvector("v"), T.lscalar("n")
        values = {"v": np.array([1.0, 2.0]), "n": 1}
        zeros = T.zeros(6)
        for first, second, kind in [
            (slice(0, 2), slice(2, 4), "Set"),
            (slice(2, 4), slice(0, 2), "Set"),
            (slice(4, None), slice(2, 4), "Set"),
            (slice(0, 2), slice(1, 3), "Inc"),
            (slice(-2, None), slice(0, 2), "Inc"),  # if the vector is shorter, the slices may overlap
            (slice(0, 4, 2), slice(4, 6), "Inc"),
            (slice(n, n + 2), slice(4, 6), "Inc"),
        ]:
            with self.subTest(first=first, second=second):
                out = T.inc_subtensor(T.inc_subtensor(zeros[first], v)[second], 3 * v)
                f = self.check(out, None, values)
                self.assertIn("IncSubtensor{%s;" % kind, str(f.maker.fgraph.outputs[0].owner))
        out = T.zeros((3, 4))
        for k in range(4):
            out = T.inc_subtensor(out[:2, k], v * k)
        f = self.check(out, None, values)
        self.assertNotIn("Inc;", shown(f.maker.fgraph))

    def test_alloc(self):
        x, s, v, n = T.dmatrix("x"), T.dscalar("s"), T.dvector("v"), T.lscalar("n")
        values = {"x": np.ones((3, 2)), "v": np.ones(2), "n": 2}
        for out in (
            T.inc_subtensor(x[:n], T.alloc(s, n, 2)),
            T.set_subtensor(x[1:], T.alloc(v, 2, 2)),
            T.inc_subtensor(x[[0, 2]], T.alloc(s, 2, n)),
            T.inc_subtensor(x[[0, 1], [1, 1]], T.alloc(s, n)),
        ):
            f = self.check(out, None, values)
            self.assertNotIn("Alloc(", shown(f.maker.fgraph))
        f = theano_ng.function([x, s, n], T.inc_subtensor(x[:2], T.alloc(s, n, 2)))
        self.assertEqual(f(np.ones((3, 2)), 1, 1).tolist(), [[2, 2], [2, 2], [1, 1]])
        self.assertRaises((AssertionError, ValueError), f, np.ones((3, 2)), 1, 3)
        for m in (2, n):
            f = theano_ng.function([x, v, n], T.inc_subtensor(x[:2], T.alloc(v, m, n)))
            self.assertEqual(f(np.ones((3, 2)), [1, 2], 2).tolist(), [[2, 3], [2, 3], [1, 1]])
            self.assertRaises((AssertionError, ValueError), f, np.ones((3, 3)), [1, 2, 3], 2)

    def test_rows(self):
        x, y = T.dmatrix("x"), T.dmatrix("y")
        values = {"x": np.arange(8.0).reshape(4, 2), "y": np.ones((3, 2))}
        unique, twice = np.array([2, 0, 1]), np.array([2, 0, 2])
        f = self.check(T.set_subtensor(x[unique], x[unique] + y), None, values)
        self.assertIn("AdvancedIncSubtensor1{no_inplace,inc}", shown(f.maker.fgraph))
        f = self.check(T.set_subtensor(x[twice], x[twice] + y), None, values)
        self.assertIn("AdvancedIncSubtensor1{no_inplace,set}", shown(f.maker.fgraph))
        f = self.check(T.set_subtensor(x[unique], y)[unique], None, values)
        self.assertFalse([n for n in f.maker.fgraph.apply_nodes if "Inc" in type(n.op).__name__])
        for dtype in ("float32", "int8"):
            narrow = T.matrix("narrow", dtype=dtype)
            for out in (
                T.set_subtensor(x[unique], narrow)[unique],
                T.inc_subtensor(T.zeros_like(x)[unique], narrow)[unique],
            ):
                f = self.check(out, None, {**values, "narrow": np.full((3, 2), 3)})
                self.assertFalse([n for n in f.maker.fgraph.apply_nodes if "Inc" in type(n.op).__name__])
        f = theano_ng.function([x, y], T.set_subtensor(x[unique], y)[unique] * 1.0)
        self.assertRaises((AssertionError, IndexError), f, np.ones((2, 2)), np.ones((3, 2)))
        f = self.check(T.inc_subtensor(T.zeros_like(x)[unique], y)[unique], None, values)
        self.assertFalse([n for n in f.maker.fgraph.apply_nodes if "Inc" in type(n.op).__name__])
        self.check(T.inc_subtensor(T.zeros_like(x)[twice], y)[twice], None, values)
        self.check(T.inc_subtensor(x[unique], y)[unique], None, values)
        for rows in (twice, np.array([0, -1, 1])):
            f = self.check(T.set_subtensor(x[rows], y)[rows], None, values)
            self.assertIn("IncSubtensor", shown(f.maker.fgraph))


class TestTrustedRows(RewriteCase):
    query = Query(["fast_run", "local_adv_sub1_adv_inc_sub1_of_trusted_rows"])

    def test_rows_that_are_trusted(self):
        for dtype, kind in itertools.product(("int8", "float32", "complex128"), ("int64", "uint8", "int32")):
            x, y, r = T.matrix("x", dtype), T.matrix("y", dtype), T.vector("r", kind)
            values = {"x": np.arange(8).reshape(4, 2), "y": np.ones((3, 2)), "r": [3, 0, 1]}
            for out, used in (
                (T.set_subtensor(x[r], y)[r], (x, y, r)),
                (T.inc_subtensor(T.zeros_like(x)[r], y)[r], (x, y, r)),
            ):
                f = self.check(out, None, values)
                self.assertFalse([n for n in f.maker.fgraph.apply_nodes if "Inc" in type(n.op).__name__])
                g = theano_ng.function(used, out, mode=Mode("py", self.query))
                for wrong in ({"r": [3, 0]}, {"r": [3, 0, 4]}, {"x": np.ones((2, 2))}, {"y": np.ones((3, 3))}):
                    given = {**values, **wrong}
                    given = [np.asarray(given[i.name], i.dtype) for i in used]
                    self.assertRaises((AssertionError, IndexError), g, *given)
            # Not rewritten: rows that are read in another order, increments of a tensor that is not zero, and
            # compilations without the tag of the rule.
            f = self.check(T.set_subtensor(x[r], y)[r[::-1]], None, values)
            self.assertTrue([n for n in f.maker.fgraph.apply_nodes if "Inc" in type(n.op).__name__])
            f = self.check(T.inc_subtensor(x[r], y)[r], None, values)
            self.assertTrue([n for n in f.maker.fgraph.apply_nodes if "Inc" in type(n.op).__name__])
            f = self.check(T.set_subtensor(x[r], y)[r], None, {**values, "r": [3, 0, 3]}, query=Query(["fast_run"]))
            self.assertTrue([n for n in f.maker.fgraph.apply_nodes if "Inc" in type(n.op).__name__])


class TestSerialize(RewriteCase):
    query = QUERY

    def test_gradients(self):
        a, i = T.dvector("a"), T.lscalar("i")
        f = self.check(T.grad(T.exp(a[0]) * a[1] + a[2:].sum(), a), None, {"a": np.arange(5.0)})
        self.assertEqual(shown(f.maker.fgraph).count("Alloc(0.0"), 1)
        self.assertFalse([n for n in f.maker.fgraph.apply_nodes if n.op == T.add])
        m = T.dmatrix("m")
        self.check(T.grad((m[1:] * m[:-1]).sum(), m), None)
        self.check(T.grad((m[1:] * m[:-1]).sum(), m), None, {"m": np.ones((0, 2))})
        self.check(T.grad((m[[0, 1, 1]] * m[2]).sum(), m), None)
        rows = T.lvector("rows")
        self.check(
            T.grad((m[rows] ** 2).sum() + (m[rows, rows] ** 3).sum() + (m**2).sum(), m), None, {"rows": [0, 2, 2]}
        )
        f = self.check(T.inc_subtensor(a[i], 1.0) + T.inc_subtensor(a[:2], 2.0) + a, None, {"i": 2})
        self.assertEqual(shown(f.maker.fgraph).count("IncSubtensor{Inc"), 2)
        b = T.inc_subtensor(a[i], 1.0)
        f = theano_ng.function([a, i], [b, b + a])
        self.assertEqual([v.tolist() for v in f([1, 2, 3], 0)], [[2, 2, 3], [3, 4, 6]])

    def test_increments_that_others_read_stay(self):
        """`local_IncSubtensor_serialize` does not move an increment that other nodes than the sum read."""
        a, i, j = T.dvector("a"), T.lscalar("i"), T.lvector("j")
        for one in (T.inc_subtensor(a[i], 1.0), T.inc_subtensor(a[:2], 2.0), T.inc_subtensor(a[j], 1.0)):
            for others in ([one], [T.exp(one)], [one[::-1], one * a]):
                f = theano_ng.function([a, i, j], [one + a, *others], on_unused_input="ignore", mode=Mode("py", QUERY))
                increments = [n for n in f.maker.fgraph.apply_nodes if n.op == one.owner.op]
                self.assertEqual(len(increments), 1, shown(f.maker.fgraph))
                want = theano_ng.function(
                    [a, i, j], [one + a, *others], on_unused_input="ignore", mode=Mode("py", None)
                )
                for got, w in zip(f([1, 2, 3], 0, [2, 2]), want([1, 2, 3], 0, [2, 2])):
                    np.testing.assert_allclose(got, w)


class TestInplace(RewriteCase):
    def test_table(self):
        table, rows, y = theano_ng.shared(np.zeros((6, 2))), T.lvector("rows"), T.dmatrix("y")
        part = table[rows]
        cost = ((part - y) ** 2).sum()
        f = theano_ng.function([rows, y], cost, updates=[(table, T.inc_subtensor(part, -T.grad(cost, part)))])
        ops = [n.op for n in f.maker.fgraph.toposort()]
        self.assertIn(T.subtensor.AdvancedIncSubtensor1(inplace=True), ops)
        self.assertNotIn("Alloc", [type(op).__name__ for op in ops])
        memory = table.get_value(borrow=True).ctypes.data
        self.assertEqual(f([1, 3, 1], np.ones((3, 2))), 6)
        self.assertEqual(table.get_value().tolist(), [[0, 0], [4, 4], [0, 0], [2, 2], [0, 0], [0, 0]])
        self.assertEqual(table.get_value(borrow=True).ctypes.data, memory)

    def test_all_kinds(self):
        x, mask = theano_ng.shared(np.arange(6.0).reshape(3, 2)), T.TensorType("bool", (False, False))("mask")
        i = T.lvector("i")
        for new, expected in [
            (T.set_subtensor(x[1:, 0], 7), [[0, 1], [7, 3], [7, 5]]),
            (T.inc_subtensor(x[i, i], 1), [[1, 1], [2, 5], [4, 5]]),
            (T.set_subtensor(x[mask], 0.0), [[0, 1], [2, 3], [4, 0]]),
        ]:
            x.set_value(np.arange(6.0).reshape(3, 2))
            f = theano_ng.function([i, mask], [], updates=[(x, new)], on_unused_input="ignore")
            node = f.maker.fgraph.outputs[0].owner
            self.assertTrue(node.op.inplace, node.op)
            f([0, 1, 1], np.array([[True, False], [False, False], [False, True]]))
            self.assertEqual(x.get_value().tolist(), expected)
        # Neither an input of the user nor a variable that is read later is overwritten.
        v = T.dvector("v")
        f = theano_ng.function([v], [T.set_subtensor(v[0], 5), v + 1])
        given = np.arange(3.0)
        self.assertEqual([r.tolist() for r in f(given)], [[5, 1, 2], [1, 2, 3]])
        self.assertEqual(given.tolist(), [0, 1, 2])
        f = theano_ng.function([v], T.set_subtensor((v * 2)[1:], v[:-1]), mode=Mode("cvm", "fast_run"))
        self.assertIn("InplaceSet", str(f.maker.fgraph))
        self.assertEqual(f(given).tolist(), [0, 0, 1])


if __name__ == "__main__":
    unittest.main()
