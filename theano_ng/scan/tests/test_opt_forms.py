"""Tests of the properties that loop rules find in a graph: lengths, buffers, names, constants and factors."""

import types
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.ops import Shape_i
from theano_ng.scan.args import scan_args
from theano_ng.scan.op import Scan
from theano_ng.scan.opt import common, outer_graph
from theano_ng.scan.opt.merge import ScanMerge
from theano_ng.scan.opt.unused import leave_out_unused_inputs
from theano_ng.scan.tests.test_opt import Case, loops, ops_of_step
from theano_ng.tensor.linalg.products import Dot
from theano_ng.tensor.shaping.allocation import AllocEmpty


class TestForms(unittest.TestCase):
    def test_numbers(self):
        """Two integer variables are equal numbers if they are one variable or equal constants."""
        n, m = T.lscalars("n", "m")
        values = {T.constant(k): k for k in (0, 1, 3)}
        values |= {T.constant(k): k for k in (0, 3)} | {n: "n", m: "m"}
        for a, of_a in values.items():
            for b, of_b in values.items():
                self.assertEqual(common.same_int(a, b), of_a == of_b, (a, b))

    def test_lengths(self):
        x, y, n = T.dmatrix("x"), T.dmatrix("y"), T.lscalar("n")
        for v, is_length in (
            (x.shape[0], True),
            (Shape_i(0)(x), True),
            (x.shape[1], False),
            (Shape_i(1)(x), False),
            (y.shape[0], False),
            (Shape_i(0)(y), False),
            (x.shape[:1], False),
            (x.shape[-1], False),
            (x.shape[n], False),
            (T.lvector()[0], False),
            (x.shape[0] + 0, False),
            (n, False),
            (T.constant(3), False),
        ):
            self.assertEqual(outer_graph.is_length_of(v, x), is_length, theano.pp(v))
            if not v.ndim:
                self.assertEqual(outer_graph.rows_of(x, v) is x, is_length, theano.pp(v))

    def test_slices_from_what_is_no_constant(self):
        """If a slice has a start that is not constant, `_first_slice` returns None, and `rows_of` slices the slice."""
        x, n, m = T.dmatrix("x"), T.lscalar("n"), T.lscalar("m")
        for v in (x[n:], x[n:n], x[m : n + m], x[m:n], x[m:5], x[n : n + n : 1]):
            self.assertIsNone(outer_graph._first_slice(v, n))
            self.assertIsNone(outer_graph._first_slice(v, T.constant(5)))
            self.assertIsNot(outer_graph.rows_of(v, n), v)

    def test_buffers(self):
        """An allocated variable is recognized as a buffer, also if its first rows are set.

        It is not recognized if other rows are set, or if something is added to its rows.
        """
        n, rows = T.lscalar("n"), T.dmatrix("rows")
        for make in (lambda: AllocEmpty("float64")(n, 3), lambda: T.alloc(rows[0], n, 3)):
            buffer = make()
            for v, wanted in (
                (buffer, (buffer.owner, None)),
                *[
                    (v, (buffer.owner, v.owner))
                    for v in (T.set_subtensor(buffer[:2], rows), T.set_subtensor(buffer[0:2], rows))
                ],
                *[
                    (v, (buffer.owner, v.owner))
                    for v in (T.set_subtensor(buffer[:n], rows), T.set_subtensor(buffer[:], rows))
                ],
                (T.set_subtensor(buffer[1:], rows), None),
                (T.set_subtensor(buffer[-2:], rows), None),
                (T.set_subtensor(buffer[n:], rows), None),
                (T.set_subtensor(buffer[::2], rows), None),
                (T.set_subtensor(buffer[0:4:2], rows), None),
                (T.set_subtensor(buffer[0], rows[0]), None),
                (T.set_subtensor(buffer[:2, :1], rows[:2, :1]), None),
                (T.inc_subtensor(buffer[:2], rows), None),
                (buffer + 1, None),
                (rows, None),
            ):
                self.assertEqual(outer_graph.allocated(v), wanted, theano.pp(v))
                self.assertIs(outer_graph.length_of_buffer(v), n if wanted else None)


class TestNames(Case):
    def loop_named(self, name, **entries):
        a, h = T.dscalars("a", "h")
        info = dict(
            n_seqs=1, n_mit_mot=0, n_mit_mot_outs=0, n_mit_sot=0, n_sit_sot=1, n_shared_outs=0, n_nit_sot=0,
            tap_array=[[-1]], mit_mot_out_slices=[], as_while=False, name=name, **entries,
        )  # fmt: skip
        return Scan([a, h], [h * 2 + a], info)

    def test_of_merged_loops(self):
        """A merged loop has the names of all its loops; loops without a name do not contribute."""
        x, first = T.dvector("x"), T.dvector("first")
        for names, wanted in ((["a", "b"], "a&b"), (["a", "b", "a"], "a&b&a"), (["a", None], "a"), ([None, "b"], None)):
            nodes = [self.loop_named(name)(x.shape[0], x, first).owner for name in names]
            pairs = ScanMerge().merge(nodes)
            (node,) = {new.owner for _, new in pairs}
            self.assertEqual(node.op.name, wanted)
            self.assertEqual(node.op.n_sit_sot, len(names))

    def test_loops_in_place_stay(self):
        """Loops that overwrite their buffers are not merged."""
        x, first = T.dvector("x"), T.dvector("first")
        n = x.shape[0]
        for in_place in ((), (0,), (0, 1), (0, 1, 2)):
            ops = [self.loop_named("l", **({"destroy_map": {0: [2]}} if i in in_place else {})) for i in range(3)]
            buffers = [T.set_subtensor(AllocEmpty("float64")(n + 1)[:1], first[i : i + 1]) for i in range(3)]
            outputs = [op(n, x, buffer) for op, buffer in zip(ops, buffers)]
            fgraph = theano.gof.FunctionGraph([x, first], outputs, clone=True)
            ScanMerge().optimize(fgraph)
            counts = sorted(node.op.n_sit_sot for node in fgraph.apply_nodes if isinstance(node.op, Scan))
            free = 3 - len(in_place)
            self.assertEqual(counts, [1] * (3 - free) + [free] * bool(free))


class TestRules(Case):
    def test_constants_without_rows(self):
        """A constant sequence may be empty; if its rows are equal, it becomes a constant of the step."""
        h = T.dvector("h")
        for rows in ([], [[1.5, -1.0]], [[1.5, -1.0]] * 4, [[1.5, -1.0], [2.0, 0.5]]):
            value = np.array(rows, "float64").reshape(-1, 2)
            out, seen = self.loop(lambda a, h: [T.tanh(h * a), h.sum() * a], T.constant(value), [h, None])
            fn = self.check([h], [out, seen], [np.array([0.25, 0.75])])
            want, state = [], np.array([0.25, 0.75])
            for row in value:
                state = np.tanh(state * row)
                want.append(state)
            np.testing.assert_allclose(fn([0.25, 0.75])[0], np.reshape(want, (-1, 2)), rtol=1e-14)

    def test_unused_inputs_of_a_deep_step(self):
        """Each variable of a step is visited once, although 60 nodes with doubled inputs have 2 ** 60 paths."""
        looked_at = []

        class Node:
            def __init__(self, below):
                self.below = below

            @property
            def inputs(self):
                looked_at.append(self)
                if len(looked_at) > 1000:
                    raise AssertionError("looked at again and again")
                return [self.below, self.below]

        class Variable:
            def __init__(self, owner=None):
                self.owner = owner

        v = read = Variable()
        unread = Variable()
        for _ in range(60):
            v = Variable(Node(v))
        kept = {}
        args = types.SimpleNamespace(
            inner_outputs=[v], inner_in_seqs=[unread], inner_in_non_seqs=[read], keep=kept.__setitem__
        )
        self.assertTrue(leave_out_unused_inputs(args))
        self.assertEqual(kept, {"seqs": [False], "non_seqs": [True]})
        self.assertEqual(len(looked_at), 60)

    def test_cheap_factors_of_products(self):
        """A cheap operation on a product of matrices is computed for all steps at once, together with the product."""
        x, w, h0 = T.dmatrix("x"), T.dmatrix("w"), T.dvector("h0")
        values = [self.rng.rand(4, 3), self.rng.rand(3, 3), self.rng.rand(3)]
        for factor, nodes in (
            (lambda a: 1 - T.dot(a, w), 1),
            (lambda a: T.maximum(T.dot(a, w), a), 1),
            (lambda a: T.sqr(a), 2),
        ):
            (out,) = self.loop(lambda a, h: h * factor(a), [x], h0)
            fn = self.check([x, w, h0], [out], values)
            self.assertNotIn(Dot, ops_of_step(self.only_loop(fn)))
            self.assertEqual(len(ops_of_step(self.only_loop(fn))), nodes)

    def test_lengths_of_rows_that_are_repeated(self):
        """A scalar that fills a row stays in the step. Lengths of the row other than 1 become inputs of the step."""
        x, y, h0 = T.dtensor3("x"), T.TensorType("float64", (False, True, False))("y"), T.dmatrix("h0")
        values = [self.rng.rand(4, 2, 3), self.rng.rand(4, 1, 3), self.rng.rand(2, 3)]
        for step in (
            lambda a, b, h: h + T.tanh(h * T.inc_subtensor(T.zeros_like(a * 2)[:1], h[:1])),
            lambda a, b, h: h + T.tanh(h * T.inc_subtensor(T.zeros_like(b * 2)[:, 1:], h[:1, 1:])),
            lambda a, b, h: h + T.tanh(h * T.inc_subtensor(T.ones_like(T.exp(b))[:, :2], h[1:, 1:])),
        ):
            (out,) = self.loop(step, [x, y], h0)
            fn = self.check([x, y, h0], [out], values)
            (node,) = loops(fn)
            args = scan_args.of(node)
            self.assertTrue(all(isinstance(v, theano.Variable) for v in args.inner_in_non_seqs))
            self.assertEqual(len(set(args.inner_in_non_seqs)), len(args.inner_in_non_seqs))

    def test_products_of_stacked_matrices(self):
        """Products of vectors and matrices are computed for all steps at once, with as many rows as there are steps."""
        n = T.lscalar("n")
        for rank in (1, 2):
            for other in (1, 2):
                x = T.TensorType("float64", (False,) * (rank + 1))("x")
                w = T.TensorType("float64", (False,) * other)("w")
                value, factor = self.rng.rand(*((5, 2, 3) if rank == 2 else (5, 3))), self.rng.rand(*(3, 4)[:other])
                (out,) = self.loop(lambda a: T.dot(a, w) * 2, [x], n_steps=n)
                fn = self.check([x, w, n], [out], [value, factor, 3])
                self.assertEqual(loops(fn), [])
                np.testing.assert_allclose(fn(value, factor, 3)[0], np.dot(value[:3], factor) * 2)
                with self.assertRaises((AssertionError, ValueError, IndexError)):
                    fn(value, factor, 6)


if __name__ == "__main__":
    unittest.main()
