"""Tests of native code with arrays of every memory layout: the code returns correct results or raises an error.

The code never crashes, and never writes to memory that it must not change.
"""

import itertools
import unittest
import warnings

import numpy as np

import theano_ng as theano
from theano_ng.gof.compiler import MissingGXX
from theano_ng.gof.graph import Constant
from theano_ng.gof.native import make_native_thunk
from theano_ng.tests import odd_arrays, odd_arrays_python
from theano_ng.tests.odd_arrays import FORMS, SubArray, misaligned_strides, read_only, strided, swapped


def destroyed_by(node):
    return {i for inputs in (getattr(node.op, "destroy_map", None) or {}).values() for i in inputs}


class Runner:
    """A callable that runs the native code of a case's node with values for the inputs of the case."""

    def __init__(self, case):
        self.node = node = case.output.owner
        self.numbers = []  # for each input of the node, the position of the case's input from which it is computed
        self.cells = []
        self.is_scalar = []
        for variable in node.inputs:
            scalar = variable not in case.inputs and variable.owner is not None
            source = variable.owner.inputs[0] if scalar else variable
            self.is_scalar.append(scalar)
            self.numbers.append(None if isinstance(source, Constant) else case.inputs.index(source))
            self.cells.append([variable.data if isinstance(source, Constant) else None])
        self.out = [[None] for _ in node.outputs]
        self.thunk = make_native_thunk(node, node.op.native_code(node), self.cells, self.out)

    def __call__(self, values, previous=None):
        for number, cell, scalar in zip(self.numbers, self.cells, self.is_scalar):
            if number is not None:
                cell[0] = (
                    values[number].astype(values[number].dtype.newbyteorder("="))[()] if scalar else values[number]
                )
        for k, cell in enumerate(self.out):
            cell[0] = None if previous is None else previous[k]
        self.thunk()
        return [cell[0] for cell in self.out]

    def destroyed(self):
        return {self.numbers[i] for i in destroyed_by(self.node)}

    def perform(self, values):
        """Return the results of the Op's Python code for these values."""
        ins = [
            cell[0] if number is None else values[number][()] if scalar else values[number].copy()
            for number, cell, scalar in zip(self.numbers, self.cells, self.is_scalar)
        ]
        out = [[None] for _ in self.node.outputs]
        self.node.op.perform(self.node, ins, out)
        return [cell[0] for cell in out]


class TestOddArrays(unittest.TestCase):
    table = staticmethod(odd_arrays.cases)

    @classmethod
    def setUpClass(cls):
        cls.cases, cls.runners = [], []
        for case in cls.table():
            try:
                cls.runners.append(Runner(case))
            except MissingGXX:  # without a compiler, this Op runs in Python only
                continue
            cls.cases.append(case)

    def assert_results(self, case, got, want, what):
        for g, w in zip(got, want, strict=True):
            self.assertIsInstance(g, np.ndarray, (case.name, what))
            # A result may be a view of an array in the other byte order, with correct elements.
            self.assertEqual((g.dtype.newbyteorder("="), g.shape), (w.dtype, w.shape), (case.name, what))
            if case.exact:
                np.testing.assert_array_equal(g, w, err_msg="%s %s" % (case.name, what))
            else:
                single = w.dtype == np.float32
                np.testing.assert_allclose(
                    g, w, 1e-5 if single else 1e-10, 1e-6 if single else 1e-12, err_msg="%s %s" % (case.name, what)
                )

    def test_every_form_as_input(self):
        # First all inputs have the same form, then only one input has this form. An input must not change if it is
        # read-only or if the Op does not destroy it.
        for case, run in zip(self.cases, self.runners):
            want, destroyed = case.results(), run.destroyed()
            for form, only in itertools.product(FORMS, [None, *range(len(case.values))]):
                values = [form(v) if only in (None, i) else v.copy() for i, v in enumerate(case.values)]
                with self.subTest(case=case.name, form=form.__name__, only=only):
                    try:
                        self.assert_results(case, run(values), want, form.__name__)
                    except ValueError as refusal:  # an in-place Op whose target is read-only
                        self.assertIn("read-only", str(refusal))
                        self.assertFalse(all(values[i].flags.writeable for i in destroyed))
                    for i, (value, before) in enumerate(zip(values, case.values)):
                        if i not in destroyed or not value.flags.writeable:
                            np.testing.assert_array_equal(value, before, err_msg="input %d was changed" % i)

    def test_every_kind_of_previous_output(self):
        # Before a call, the storage cell of an output may contain a value from an earlier call, another function or
        # DebugMode. The native code reuses or replaces this value.
        makers = [
            strided,
            swapped,
            misaligned_strides,
            lambda w: read_only(np.zeros_like(w)),
            lambda w: w.copy().view(SubArray),
            lambda w: np.zeros((2,) * (w.ndim + 1), "int16"),
            lambda w: np.zeros([n + 1 for n in w.shape], w.dtype),
            lambda w: "no array",
        ]
        for case, run in zip(self.cases, self.runners):
            want = case.results()
            for number, maker in enumerate(makers):
                previous = [maker(np.asarray(w)) for w in want]
                with self.subTest(case=case.name, maker=number):
                    self.assert_results(case, run([v.copy() for v in case.values], previous), want, number)
                    for p in previous:
                        if isinstance(p, np.ndarray) and not p.flags.writeable:
                            self.assertFalse(p.any(), "a read-only array was written")

    def test_zero_size(self):
        for case, run in zip(self.cases, self.runners):
            values = odd_arrays.emptied(case)
            if "boolean" in case.name:
                values[0] = values[0][:, :0]  # NumPy accepts an empty mask for any array; C code requires equal shapes
                values[1] = values[1][:, :0]
                self.same_as_perform(case, run, values)
                continue
            self.same_as_perform(case, run, values)
            for i in range(len(values)):
                self.same_as_perform(
                    case, run, [v if i == k else w for k, (v, w) in enumerate(zip(values, case.values))]
                )

    def test_other_lengths(self):
        # For shapes that may not match, C code raises an error if and only if Python code does.
        for case, run in zip(self.cases, self.runners):
            for i, value in enumerate(case.values):
                for axis, step in itertools.product(range(value.ndim), (-1, 1)):
                    shape = list(value.shape)
                    shape[axis] += step
                    other = np.resize(value, shape)
                    self.same_as_perform(case, run, [other if i == k else v for k, v in enumerate(case.values)])

    def same_as_perform(self, case, run, values):
        with self.subTest(case=case.name, shapes=[v.shape for v in values]), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings of NumPy about empty reductions
            try:
                want = run.perform(values)
            except Exception:
                with self.assertRaises(Exception):
                    run([v.copy() for v in values])
                return
            self.assert_results(
                case, run([v.copy() for v in values]), [np.asarray(w) for w in want], "zero-size or other length"
            )

    def test_values_of_another_kind(self):
        # Native code refuses values of a wrong type. A node may get such values from a call with trust_input, or from a
        # node whose `perform` returns them.
        for case, run in zip(self.cases, self.runners):
            for number, variable in enumerate(run.node.inputs):
                if not hasattr(variable.type, "broadcastable") or run.numbers[number] is None:
                    continue
                i, good = run.numbers[number], case.values[run.numbers[number]]
                for bad in (
                    None,
                    2.5,
                    "text",
                    [1, 2],
                    good[None],
                    good.astype("complex64"),
                    good.astype(object),
                    np.zeros(good.shape, "S3"),
                ):
                    with self.subTest(case=case.name, input=i, bad=bad):
                        values = [bad if k == i else v.copy() for k, v in enumerate(case.values)]
                        if number in getattr(run.node.op, "native_unchecked", ()):
                            # the native code checks this input itself: None is valid, all other values are refused
                            if bad is not None:
                                with self.assertRaises(TypeError):
                                    run(values)
                            continue
                        error = TypeError if isinstance(bad, np.ndarray) else ValueError
                        with self.assertRaisesRegex(error, "expected an (ndarray|array)"):
                            run(values)

    def test_through_a_function(self):
        cases = [c for c in self.cases if not destroyed_by(c.output.owner)]
        inputs = [v for c in cases for v in c.inputs]
        f = theano.function(inputs, [o for c in cases for o in c.output.owner.outputs], on_unused_input="ignore")
        for form in FORMS:
            with self.subTest(form=form.__name__):
                arguments = [form(v) for c in cases for v in c.values]
                got = iter(f(*arguments))
                for c in cases:
                    self.assert_results(
                        c, list(itertools.islice(got, len(c.output.owner.outputs))), c.results(), form.__name__
                    )
                for given, before in zip(arguments, (v for c in cases for v in c.values)):
                    np.testing.assert_array_equal(given, before)


class TestOddArraysOfPython(TestOddArrays):
    table = staticmethod(odd_arrays_python.cases)


if __name__ == "__main__":
    unittest.main()
