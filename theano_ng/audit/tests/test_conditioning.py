"""Tests that the audit distinguishes rounding noise from errors."""

import unittest

import numpy as np

import theano_ng as theano
from theano_ng import tensor
from theano_ng.audit import audit
from theano_ng.audit.conditioning import explained_by_rounding


def _explained(function, value, other):
    """Return an array of booleans: True for elements whose difference is explained by rounding errors.

    The difference is ``function(value)`` minus `other`.
    """
    return explained_by_rounding(
        lambda values: [function(*values)], [value], 0, function(value), np.asarray(other, value.dtype)
    )


class TestExplained(unittest.TestCase):
    def test_terms_that_cancel(self):
        x = np.array([[1.0, 1e300, -1e300], [1.0, 2.0, -2.0]])

        def total(x):
            return x[:, 0] + (x[:, 1] + x[:, 2])

        self.assertEqual(total(x).tolist(), [1.0, 1.0])
        self.assertEqual(_explained(total, x, [0.0, 1.0]).tolist(), [True, True])  # from left to right, row 0 sums to 0
        # One unit in the last place of 1e300 is 1.5e284. The second row has no huge terms: its error of 0.001 is not
        # explained.
        self.assertEqual(_explained(total, x, [1e284, 1.001]).tolist(), [True, False])
        self.assertEqual(_explained(total, x, [1e288, 1 + 1e-15]).tolist(), [False, True])

    def test_jumps_explain_nothing(self):
        # The functions jump at these inputs. The smallest change of an input crosses the jump, and a larger change has
        # the same effect, so rounding errors do not explain the difference.
        x = np.array([1.0, -3.0, 0.0])
        self.assertEqual(_explained(np.floor, x, [0.0, -4.0, 1.0]).tolist(), [False, False, False])
        self.assertEqual(_explained(lambda x: (x >= 1) * 1.0, x, [0.0, 1.0, 1.0]).tolist(), [False, False, False])

    def test_what_is_not_finite_explains_nothing(self):
        x = np.array([np.inf, 1e308, np.nan, 1.0])
        with np.errstate(all="ignore"):
            found = _explained(lambda x: x * 2, x, [1.0, 1e308, 2.0, np.nan])
        self.assertEqual(found.tolist(), [False] * 4)

    def test_nothing_to_compare(self):
        ints = np.array([1, 2])
        self.assertIsNone(explained_by_rounding(lambda values: values, [ints], 0, ints, ints + 1))
        self.assertIsNone(explained_by_rounding(lambda values: values, [np.ones(2)], 0, np.ones(2), np.ones(3)))

        def refuses(values):
            raise ValueError("not these")

        self.assertIsNone(explained_by_rounding(refuses, [np.ones(2)], 0, np.ones(2), np.zeros(2)))


class _Total(theano.Op):
    """The sum of a vector.

    `perform` adds the elements from left to right. The C code adds them from right to left, and adds `wrong` to the
    result.
    """

    __props__ = ("wrong",)

    def __init__(self, wrong="0"):
        self.wrong = wrong

    def make_node(self, x):
        if x.type != tensor.dvector:
            raise TypeError("a vector of float64 was expected, not %s" % (x.type,))
        return theano.Apply(self, [x], [tensor.dscalar()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.asarray(np.add.accumulate(np.append(0.0, inputs[0]))[-1])

    def c_code(self, node, name, inputs, outputs, sub):
        return """
        double total = 0;
        for (npy_intp i = PyArray_DIM(%(x)s, 0); i-- > 0;)
            total += *(npy_float64*) PyArray_GETPTR1(%(x)s, i);
        Py_XDECREF(%(z)s);
        %(z)s = (PyArrayObject*) PyArray_SimpleNew(0, NULL, NPY_FLOAT64);
        if (!%(z)s) %(fail)s
        *(npy_float64*) PyArray_DATA(%(z)s) = total + %(wrong)s;
        """ % dict(x=inputs[0], z=outputs[0], fail=sub["fail"], wrong=self.wrong)

    def c_code_cache_version(self):
        return (1,)


@unittest.skipUnless(theano.config.cxx, "needs a C++ compiler")
class TestInTheAudit(unittest.TestCase):
    VALUE = np.array([3.0, 1e200, -1e200, 1.0])

    def test_sums_in_another_order(self):
        self.assertEqual((self.VALUE.cumsum()[-1], self.VALUE[::-1].cumsum()[-1]), (1.0, 3.0))
        report = audit(_Total(), self.VALUE, checks="c_code", max_examples=10)
        self.assertTrue(report.ok, report.findings)

    def test_errors_are_found_all_the_same(self):
        report = audit(_Total("1e-3 * total"), self.VALUE, checks="c_code", max_examples=10)
        self.assertEqual([f.error for f in report.findings], ["BadThunkOutput"])
