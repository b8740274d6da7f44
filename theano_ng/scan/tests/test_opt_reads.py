"""Tests of the rows that an index reads, and of rules for sums of products, single rows and steps with branches."""

import itertools
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.scan.opt import outer_graph, reads
from theano_ng.scan.tests.test_opt import Case, loops, ops_of_step
from theano_ng.tensor.extra_ops import CumOp, cumsum
from theano_ng.tensor.opt.shape import Shape_i

ENDS = (None, *range(-4, 5))


class TestReads(unittest.TestCase):
    def test_what_reads_nothing(self):
        """A client that needs only the lengths of rows reads no rows.

        A client that needs the number of rows counts as a reader of all rows.
        """
        out = T.dmatrix("out")
        rest = out[1:]
        outputs = [out[-1], rest[-1], Shape_i(1)(out), Shape_i(1)(rest)]
        for more, known in (([], True), ([Shape_i(0)(out)], False), ([T.exp(rest)], False)):
            fgraph = theano.gof.FunctionGraph([out], outputs + more, clone=True)
            found = reads.reads(fgraph.inputs[0])
            self.assertEqual(all(read.last == 1 for read in found), known)
            if known:
                self.assertEqual(len(found), 2)

    def test_parts_of_a_rest(self):
        """Each index into ``out[2:]`` is a separate read, unless another client reads all of ``out[2:]``."""
        out = T.dmatrix("out")
        rest = out[2:]
        for outputs, wanted in (
            ([rest[1]], [(None, 4)]),
            ([rest[-1]], [(1, None)]),
            ([rest[:3]], [(None, 5)]),
            ([rest[-2:], rest[0]], [(2, None), (None, 3)]),
            ([rest[0], T.exp(rest)], [(None, None)]),
        ):
            fgraph = theano.gof.FunctionGraph([out], outputs, clone=True)
            found = reads.reads(fgraph.inputs[0])
            self.assertEqual(sorted([(r.last, r.first) for r in found], key=str), sorted(wanted, key=str))


class TestFirstSlices(unittest.TestCase):
    def test_forms(self):
        """`_first_slice` recognizes a slice with a constant start and consecutive rows, one for each step."""
        x, n, five = T.dmatrix("x"), T.lscalar("n"), T.constant(5)
        for v, steps, start in (
            (x[:n], n, 0),
            (x[2 : n + 2], n, 2),
            (x[3:8], five, 3),
            (x[2 : n + 2 : 1], n, 2),
            (x[2 : n + 2 : 2], n, None),
            (x[:n:-1], n, None),
            (x[2 : n + 1], n, None),
            (x[3:9], five, None),
            (x[-1 : n - 1], n, None),
            (x[n], n, None),
            (x[2:], n, None),
            (x, n, None),
        ):
            self.assertEqual(outer_graph._first_slice(v, steps), None if start is None else (x, start), v)


class TestRowsOfAnIndex(unittest.TestCase):
    def indices(self):
        yield from (i for i in ENDS if i is not None)
        for start, stop, step in itertools.product(ENDS, ENDS, (None, 1, 2, -1, -2)):
            yield slice(start, stop, step)

    def rows(self, index, length):
        """Return the rows that an index reads; return None for an index out of bounds."""
        try:
            found = range(length)[index]
        except IndexError:
            return None
        return [found] if isinstance(found, int) else list(found)

    def test_no_row_is_outside_of_what_is_said_to_be_read(self):
        for index in self.indices():
            last, first = reads._by_form(index)
            for length in range(9):
                for row in self.rows(index, length) or ():
                    with self.subTest(index=index, length=length, row=row):
                        self.assertGreaterEqual(row, 0 if last is None else length - last)
                        self.assertLess(row, length if first is None else first)

    def test_slices_of_fewer_rows_are_the_same(self):
        """A read that does not use rows at an end of a buffer returns the same rows after these rows are removed.

        If one bound counts from the first row and the other bound from the last row, no row can be removed.
        """
        for index in self.indices():
            if isinstance(index, int):
                continue
            last, first = reads._by_form(index)
            for length in range(9):
                rows = range(length)
                with self.subTest(index=index, length=length):
                    for kept in range(length if last is None else min(last, length), length + 1):
                        self.assertEqual(list(rows[length - kept :][index]), list(rows[index]))
                    for kept in range(length if first is None else min(first, length), length + 1):
                        self.assertEqual(list(rows[:kept][index]), list(rows[index]))

    def test_slices_from_both_ends(self):
        x = T.matrix()
        value = np.arange(8.0).reshape(4, 2)
        for index in (slice(-1, 1), slice(-2, 3), slice(2, -3, -1)):
            rows, _ = theano.scan(lambda row, total: total + row, x, T.zeros_like(x[0]))
            with theano.config.change_flags(on_opt_error="raise"):
                f = theano.function([x], rows[index])
            np.testing.assert_array_equal(f(value), np.cumsum(value, axis=0)[index])

    def test_no_more_rows_than_are_read(self):
        for index in self.indices():
            last, first = reads._by_form(index)
            rows = self.rows(index, 20)
            if rows and (isinstance(index, int) or index.step in (None, 1, -1)):
                with self.subTest(index=index):
                    self.assertIn(last, (None, 20 - min(rows)))
                    self.assertIn(first, (None, max(rows) + 1))

    def test_lengths_of_rows_that_only_the_loop_knows(self):
        x = T.matrix()
        value = np.arange(-1.0, 11).reshape(4, 3)
        for n_steps, read, lengths_of in itertools.product(
            (None, 4),
            (lambda v: v[:2], lambda v: v[-1], lambda v: v[1:][0], lambda v: v[1:][-1]),
            (lambda v: v, lambda v: v[1:]),
        ):
            with self.subTest(n_steps=n_steps):
                rows, _ = theano.scan(lambda row: row[(row > -5).nonzero()[0]], sequences=x, n_steps=n_steps)
                with theano.config.change_flags(on_opt_error="raise"):
                    f = theano.function([x], [read(rows), lengths_of(rows).shape[1]])
                found, length = f(value)
                np.testing.assert_array_equal(found, read(value))
                self.assertEqual(length, 3)

    def test_no_row(self):
        self.assertEqual(reads._by_form(slice(None, 0)), (None, 0))

    def test_one_row_of_a_known_number(self):
        for index in range(-6, 6):
            for length in range(6):
                last, first = reads._range(index, length)
                rows = self.rows(index, length)
                if rows is not None:
                    self.assertEqual((length - last, first - 1), (rows[0], rows[0]))
                else:
                    self.assertEqual((last, first), reads._by_form(index))

    def test_what_is_no_constant_reads_any_row(self):
        n = T.lscalar("n")
        for index in (n, Ellipsis, slice(n, None), slice(None, n), slice(None, None, n)):
            self.assertEqual(reads._range(index, 5), (None, None))


class TestSums(Case):
    def test_products_of_vectors(self):
        x, y, start = T.dmatrix("x"), T.dmatrix("y"), T.dscalar("start")
        values = [self.rng.rand(4, 3), self.rng.rand(4, 3), 0.5]
        for term, expected in [
            (lambda a, b: T.dot(a, b), (values[0] * values[1]).sum()),
            (lambda a, b: T.dot(a, b) + T.dot(b, b), ((values[0] + values[1]) * values[1]).sum()),
        ]:
            (out,) = self.loop(lambda a, b, s: s + term(a, b), [x, y], start)
            fn = self.check([x, y, start], [out[-1]], values)
            self.assertEqual(loops(fn), [])
            np.testing.assert_allclose(fn(*values)[0], 0.5 + expected)

    def test_dtypes_of_sums(self):
        for dtype in ("int8", "uint8", "int32", "float32", "bool"):
            x = T.matrix("x", dtype=dtype)
            value = self.rng.randint(0, 100, size=(6, 3)).astype(dtype)
            (out,) = self.loop(lambda a, s: s + a, x, T.zeros_like(x[0]))
            fn = self.check([x], [out[-1]], [value], rtol=1e-6)
            self.assertEqual(fn(value)[0].dtype, dtype)
            np.testing.assert_array_equal(fn(value)[0], value.sum(axis=0, dtype=dtype))


class TestReadsOfOneRow(Case):
    def test_a_row_that_exists_is_read_from_the_end(self):
        """If the number of steps is known, a single Subtensor node reads the last row of a loop.

        If the number is not known, two Subtensor nodes compute ``buffer[1:][-1]``, which raises an error if the loop
        makes no step.
        """
        x, n = T.dvector("x"), T.lscalar("n")
        for n_steps, reads_of_rows in ((5, 1), (n, 2)):
            rows, _ = theano.scan(lambda h: T.tanh(h), outputs_info=x, n_steps=n_steps)
            fn = theano.function([x, n], rows[-1], on_unused_input="ignore")
            found = [node for node in fn.maker.fgraph.apply_nodes if isinstance(node.op, T.Subtensor)]
            self.assertEqual(len(found), reads_of_rows)
            expected = value = np.array([0.3, -2.0])
            for _ in range(5):
                expected = np.tanh(expected)
            np.testing.assert_allclose(fn(value, 5), expected, rtol=1e-14)
        with self.assertRaises(IndexError):
            fn([1.0], 0)

    def test_rows_inside_and_outside(self):
        """An index of a row that the loop does not have raises IndexError, also if the number of steps is known.

        The function also reads the last two rows.
        """
        x = T.dscalar("x")
        expected = 0.5 + np.arange(1, 5)
        rows, _ = theano.scan(lambda h: h + 1, outputs_info=x, n_steps=4)
        for index in range(-6, 6):
            fn = theano.function([x], [rows[index], rows[-2:]])
            if -4 <= index < 4:
                for value, wanted in zip(fn(0.5), (expected[index], expected[-2:])):
                    np.testing.assert_array_equal(value, wanted)
            else:
                self.assertRaises(IndexError, fn, 0.5)

    def test_a_gradient_has_one_accumulator(self):
        """The gradient of a loop has one accumulator for each non-sequence, however often the step uses it."""
        x, w = T.dvector("x"), T.dvector("w")

        def step(h, w):
            for _ in range(3):
                h = T.tanh(h * w + 0.5) * w
            return h

        cost = theano.scan(step, outputs_info=[x], non_sequences=[w], n_steps=2)[0][-1].sum()
        fn = theano.function([x, w], T.grad(cost, [x, w]))
        _, backwards = loops(fn)
        self.assertLessEqual(len(backwards.outputs), 2)
        values = [np.array([0.3, -0.2]), np.array([0.9, 1.1])]
        evaluate = theano.function([x, w], cost)
        for got, k in zip(fn(*values), range(2)):
            for i in range(2):
                above, below = [[v.copy() for v in values] for _ in range(2)]
                above[k][i] += 1e-6
                below[k][i] -= 1e-6
                np.testing.assert_allclose(got[i], (evaluate(*above) - evaluate(*below)) / 2e-6, rtol=1e-6)


class TestStepsWithBranches(Case):
    def test_what_every_step_computes_is_computed_once(self):
        u, h, flag = T.dvector("u"), T.dvector("h"), T.lscalar("flag")
        values = [self.rng.rand(3), self.rng.rand(3)]
        for step, stay in (
            (lambda h, u, flag: theano.ifelse.ifelse(flag, h * 0.5, h + 1) + cumsum(u), 0),
            (lambda h, u, flag: theano.ifelse.ifelse(flag, h * 0.5, h + cumsum(u)), 1),
        ):
            (out,) = self.loop(step, None, h, [u, flag], n_steps=3)
            for taken in (0, 1):
                with self.subTest(stay=stay, taken=taken):
                    fn = self.check([u, h, flag], [out], [*values, taken])
                    inside = [cls for node in loops(fn) for cls in ops_of_step(node)]
                    self.assertEqual(inside.count(CumOp), stay)


if __name__ == "__main__":
    unittest.main()
