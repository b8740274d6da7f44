"""Tests that rules for indexed reads and writes of results of other operations keep the values and errors."""

import itertools
import unittest

import numpy as np

import theano_ng
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.compile.ops import Rebroadcast
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.optdb import Query
from theano_ng.tensor.opt import incsubtensor, subtensor
from theano_ng.tensor.opt.subtensor import subtensor_of
from theano_ng.tensor.subtensor import AdvancedIncSubtensor
from theano_ng.tensor.tests.rewriting import RewriteCase

PLAIN = Mode("py", None)
FAST = Mode("py", "fast_run")


class BothModes(unittest.TestCase):
    """A test case that compares a graph with its rewritten form, errors included; it fails if a rule raises."""

    def setUp(self):
        self.policy = theano_ng.config.on_opt_error
        theano_ng.config.on_opt_error = "raise"

    def tearDown(self):
        theano_ng.config.on_opt_error = self.policy

    def check(self, inputs, out, *calls, wanted=None):
        """Compile `out` in both modes, and check all calls.

        `wanted` contains the expected array of each call, or None where an error is expected.
        """
        made = [theano_ng.function(inputs, out, mode=mode, on_unused_input="ignore") for mode in (FAST, PLAIN)]
        for k, values in enumerate(calls):
            expected = wanted[k]
            for f in made:
                if expected is None:
                    self.assertRaises((ValueError, IndexError, AssertionError, TypeError), f, *values)
                else:
                    np.testing.assert_allclose(f(*values), expected, rtol=1e-12)
        return made[0]


class TestWritten(BothModes):
    def test_zeros_are_set_or_added(self):
        """Rules drop increments by zero, and keep assignments of zero, for every Op that writes at an index."""
        x, i = T.dmatrix("x"), T.lvector("i")
        value = np.arange(1.0, 13).reshape(4, 3)
        index = np.array([0, 2])
        for symbolic, numeric in (
            (slice(1, None), slice(1, None)),
            ((slice(None), 1), (slice(None), 1)),
            (i, index),
            ((i, i), (index, index)),
            ((slice(None), i), (slice(None), index)),
        ):
            for zero in (0, 0.0, np.float32(0), np.zeros((1,)), T.zeros_like(x[symbolic])):
                without = value.copy()
                without[numeric] = 0
                self.check([x, i], T.set_subtensor(x[symbolic], zero) * 2, (value, index), wanted=[2 * without])
                self.check([x, i], T.inc_subtensor(x[symbolic], zero) * 2, (value, index), wanted=[2 * value])
        rule = incsubtensor.local_incsubtensor_of_zeros
        for of in (x[1:], x[i], x[i, i]):
            zero = T.constant(np.zeros((1,) * of.ndim))
            for write, changes in ((T.set_subtensor, True), (T.inc_subtensor, False)):
                out = FunctionGraph([x, i], [write(of, zero)]).outputs[0]
                self.assertEqual(not rule.transform(out.owner), changes)

    def test_repeated_values_of_a_wrong_shape(self):
        """Writing an Alloc raises an error if its shape does not fit the part, as in NumPy.

        The value that the Alloc repeats has rank 0, 1 or 2.
        """
        x, n, m = T.dmatrix("x"), T.lscalar("n"), T.lscalar("m")
        values = {
            "scalar": (T.dscalar("v"), np.float64(2)),
            "vector": (T.dvector("v"), np.array([1.0, 2, 3])),
            "row": (T.drow("v"), np.array([[1.0, 2, 3]])),
            "col": (T.dcol("v"), np.array([[1.0], [2]])),
            "one": (T.TensorType("float64", (True, True))("v"), np.array([[2.0]])),
        }
        base = np.arange(12.0).reshape(4, 3)
        for name, (v, value) in values.items():
            for write in (T.inc_subtensor, T.set_subtensor):
                for symbolic, numeric in ((slice(0, 2), slice(0, 2)), ([1, 3], [1, 3])):
                    out = write(x[symbolic], T.alloc(v, n, m))
                    calls, wanted = [], []
                    for size in ((2, 3), (3, 3), (4, 3), (2, 2), (2, 4), (1, 3), (2, 1), (1, 1)):
                        if any(one not in (1, many) for one, many in zip(value.shape[::-1], size[::-1])):
                            continue
                        calls.append((base, value, *size))
                        new, repeated = base.copy(), np.broadcast_to(value, size)
                        try:
                            new[numeric] = repeated if write is T.set_subtensor else new[numeric] + repeated
                        except ValueError:
                            new = None
                        wanted.append(new)
                    with self.subTest(name=name, write=write.__name__):
                        self.check([x, v, n, m], out, *calls, wanted=wanted)

    def test_transposed_increments_of_repeated_rows(self):
        """A transposed write into an Alloc has NumPy's values.

        The rule replaces such a write by a write along another axis only if the Alloc repeats one number.
        """
        i, b, n, m = T.lvector("i"), T.dmatrix("b"), T.lscalar("n"), T.lscalar("m")
        index, given = np.array([2, 0]), np.arange(6.0).reshape(3, 2)
        for v, value in (
            (T.dscalar("v"), np.float64(2)),
            (T.dvector("v"), np.array([1.0, 2, 3])),
            (T.drow("v"), np.array([[1.0, 2, 3]])),
            (T.dcol("v"), np.array([[1.0], [2], [4], [8]])),
            (T.TensorType("float64", (True, True))("v"), np.array([[2.0]])),
        ):
            for write in (T.inc_subtensor, T.set_subtensor):
                out = write(T.alloc(v, n, m)[i], b.T).T
                wanted = np.broadcast_to(value, (4, 3)).copy()
                wanted[index] = given.T if write is T.set_subtensor else wanted[index] + given.T
                f = self.check([v, n, m, i, b], out, (value, 4, 3, index, given), wanted=[wanted.T])
                along_axis = any(isinstance(node.op, AdvancedIncSubtensor) for node in f.maker.fgraph.apply_nodes)
                self.assertEqual(along_axis, np.size(value) == 1)


class TestRead(BothModes):
    def test_step_zero(self):
        """A slice with step zero raises an error in the call, not in the compilation, in any dimension."""
        v, n = T.dvector("v"), T.lscalar("n")
        for filled in (T.alloc(1.5, 3, n), T.alloc(v, 3, n), T.alloc(T.exp(v), 3, n) * 2):
            for index in (
                (slice(None, None, 0),),
                (slice(None, None, 0), slice(1, None)),
                (slice(1, None), slice(None, None, 0)),
                (1, slice(None, None, 0)),
                (slice(None, None, 0), 1),
                (slice(None, None, 0), slice(None, None, 0)),
            ):
                self.check([v, n], filled[index], ([1.0, 2], 2), wanted=[None])

    def test_parts_of_repeated_values(self):
        """Integers and slices select the same elements of an Alloc as in NumPy.

        The value that the Alloc repeats has rank 0, 1 or 2.
        """
        entries = (0, 2, -1, -3, slice(None), slice(1, None), slice(None, None, -1))
        i, n = T.lscalar("i"), T.lscalar("n")
        for v, value in (
            (T.dscalar("v"), np.float64(2)),
            (T.dvector("v"), np.array([1.0, 2, 3])),
            (T.drow("v"), np.array([[1.0, 2, 3]])),
            (T.dcol("v"), np.array([[1.0], [2], [4]])),
        ):
            whole = np.broadcast_to(value, (3, 3))
            for sizes in ((3, 3), (n, 3), (n, n)):
                outputs, wanted = [], []
                for first, second in itertools.product(entries, (*entries, None)):
                    index = (first,) if second is None else (first, second)
                    outputs.append(T.alloc(v, *sizes)[index])
                    wanted.append(whole[index])
                f = theano_ng.function([v, n], outputs, mode=FAST, on_unused_input="ignore")
                for got, want in zip(f(value, 3), wanted):
                    np.testing.assert_array_equal(got, want)
            out = T.alloc(v, n, n)[i]
            calls = [(value, 3, k) for k in (0, 2, -3, 3, -4)]
            self.check([v, n, i], out, *calls, wanted=[*whole[[0, 2, 0]], None, None])

    def test_steps_that_are_variables(self):
        """Two successive slices with one symbolic field select the same elements as in NumPy.

        This holds whether or not the rule merges the slices.
        """
        x, k = T.dvector("x"), T.lscalar("k")
        value = np.arange(20.0)
        places = [(j, place) for j in range(2) for place in range(3)]
        for fields in (((1, 15, 2), (1, 5, 2)), ((2, None, None), (1, 5, None)), ((None, None, -1), (None, 7, 2))):
            outputs, numbers = [], []
            for j, place in places:
                symbolic = [list(f) for f in fields]
                symbolic[j][place] = k
                first, second = (slice(*f) for f in symbolic)
                outputs.append(x[first][second])
                numbers.append(symbolic)
            f = theano_ng.function([x, k], outputs, mode=FAST)
            for given in (1, 3, -2):
                for got, symbolic in zip(f(value, given), numbers):
                    first, second = (slice(*[given if field is k else field for field in s]) for s in symbolic)
                    np.testing.assert_array_equal(got, value[first][second])

    def test_lengths_that_must_be_one(self):
        """A Rebroadcast raises an error if the dimension that it declares as broadcastable is longer than one.

        This holds also if its output is indexed, before and after rewriting.
        """
        x, i = T.dmatrix("x"), T.lscalar("i")
        ok, wrong = np.array([[1.0, 2, 3]]), np.arange(6.0).reshape(2, 3)
        column, wide = np.array([[1.0], [2]]), np.arange(6.0).reshape(2, 3)
        whole = slice(None)
        for index in (0, -1, slice(0, 1), whole, (0, slice(1, None)), (whole, 1), (0, 1)):
            out = Rebroadcast((0, True))(x)[index]
            self.check([x], out * 2, (ok,), (wrong,), wanted=[2 * ok[index], None])
        for index in (0, whole, (0, 0), (whole, 0), (slice(1, None), whole)):
            out = Rebroadcast((1, True))(x)[index]
            self.check([x], out * 2, (column,), (wide,), wanted=[2 * column[index], None])
        for index in (i, slice(i, None), (i, whole), (i, slice(i, None))):
            out = Rebroadcast((0, True))(x)[index]
            wanted = 2 * (ok[0] if index is i or isinstance(index, tuple) else ok)
            self.check([x, i], out * 2, (ok, 0), (wrong, 0), wanted=[wanted, None])

    def test_indices_that_become_numbers(self):
        """Functions of parts have NumPy's values if rewriting turns a symbolic index into a number.

        The part may then have length one although its type does not declare it.
        """
        for pattern in itertools.product((True, False), repeat=2):
            x, i = T.TensorType("float64", pattern)("x"), T.lscalar("i")
            value = np.arange(1.0, 5).reshape(2, 2)[tuple(slice(0, 1) if b else slice(None) for b in pattern)]
            zero, one = i * 0, i * 0 + 1
            for symbolic, number in (
                (slice(zero, None), slice(0, None)),
                (slice(zero, one), slice(0, 1)),
                (slice(None, one), slice(None, 1)),
                ((slice(None), slice(zero, None)), slice(None)),
                ((slice(zero, None), slice(zero, one)), (slice(0, None), slice(0, 1))),
            ):
                for function, numeric in ((T.exp, np.exp), (lambda v: T.exp(T.sin(v)), lambda v: np.exp(np.sin(v)))):
                    self.check([x, i], function(x)[symbolic], (value, 5), wanted=[numeric(value)[number]])

    def test_indices_replaced_by_numbers(self):
        """If a symbolic index became a constant, a replacement by `local_subtensor_lift` keeps the type of the node.

        This type was made for the symbolic index, so it may not declare that the part has length one. The rule may
        also make no replacement.
        """
        for pattern in ((True,), (True, False), (True, True)):
            x, i = T.TensorType("float64", pattern)("x"), theano_ng.scalar.int64("i")
            for index in (slice(i, None), slice(None, i), slice(i, None, i)):
                for number in (0, 1):
                    fgraph = FunctionGraph([x, i], [T.exp(T.sin(x))[index]])
                    node = fgraph.outputs[0].owner
                    fgraph.replace(fgraph.inputs[1], theano_ng.scalar.constant(np.int64(number)))
                    result = subtensor.local_subtensor_lift.transform(node)
                    for new in result or ():
                        self.assertEqual(new.type, node.outputs[0].type)

    def test_what_was_written_into_one_element(self):
        """If y is written into the only element of x, the rule replaces a read of this element by y.

        The types declare that the lengths are one, so the rule needs no inferred shapes.
        """
        for ndim in (1, 2, 3):
            x, y = (T.TensorType("float64", (True,) * ndim)(name) for name in "xy")
            fgraph = FunctionGraph([x, y], [T.set_subtensor(x[0:1], y)[0:1]])
            (new,) = subtensor.local_subtensor_inc_subtensor.transform(fgraph.outputs[0].owner)
            self.assertIs(new, fgraph.inputs[1])

    def test_indices_of_all_kinds(self):
        """`subtensor_of` accepts 0-d tensors, constants, scalars and integers."""
        x, i = T.dvector("x"), T.lscalar("i")
        value = np.arange(5.0)
        for field in (i, T.constant(2), T.constant(np.int8(2)), T.scalar_from_tensor(i), 2, np.int64(2), i + 0):
            for index, number in (
                (field, 2),
                (slice(field, None), slice(2, None)),
                (slice(None, field), slice(2)),
                (slice(field, None, field), slice(2, None, 2)),
            ):
                f = theano_ng.function([x, i], subtensor_of(x, [index]), mode=PLAIN, on_unused_input="ignore")
                np.testing.assert_array_equal(f(value, 2), value[number])


class TestViews(RewriteCase):
    query = Query(["fast_run"], exclude=["inplace", "fusion", "BlasOpt"])

    def test_dimensions_that_are_kept_and_dropped(self):
        """A dimension of length one that a DimShuffle drops gets the index 0, whatever slice the dimension had."""
        row, i = T.drow("row"), T.lscalar("i")
        dropped = "InplaceDimShuffle{0}(Subtensor{int64, int64::}(row, 0, ScalarFromTensor(i)))"
        for out, expected in (
            (row[:, i:].dimshuffle(1), dropped),
            (row[0:1, i:].dimshuffle(1), dropped),
            (row[0:, i:].dimshuffle(1), dropped),
            (row[:1, i:].dimshuffle(1), dropped),
            (row[:, i:].dimshuffle(1, "x"), None),
        ):
            self.check(out, expected, {"row": [[1.0, 2, 3]], "i": 1})


if __name__ == "__main__":
    unittest.main()
