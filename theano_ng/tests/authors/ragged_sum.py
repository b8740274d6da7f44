"""The sum of rows of unequal lengths, which are a Python object."""

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.gof import Generic


class RaggedSum(theano.Op):
    """Add rows of unequal lengths, and list their lengths.

    The input is a tuple of rows. A row is a tuple or list of Python numbers (float or int), or None. The outputs are
    the sum, as long as the longest row (the others are continued by zeros), and a tuple of the lengths, with None where
    the input has None. Other values raise a TypeError.

    Parameters
    ----------
    dtype : {'float64', 'float32'}
        The dtype of the sum. Numbers are always added as float64.
    """

    __props__ = ("dtype",)

    def __init__(self, dtype="float64"):
        if dtype not in ("float32", "float64"):
            raise ValueError("dtype must be 'float32' or 'float64', not %r" % (dtype,))
        self.dtype = dtype

    def make_node(self, rows):
        if not isinstance(rows, theano.Variable):
            rows = Generic().make_constant(rows)
        if rows.type != Generic():
            raise TypeError("RaggedSum needs a variable of type Generic, not %s" % rows.type)
        return theano.Apply(self, [rows], [T.vector(dtype=self.dtype), Generic()()])

    def perform(self, node, inputs, output_storage):
        (rows,) = inputs
        if not isinstance(rows, tuple):
            raise TypeError("RaggedSum: expected a tuple of rows, got %s" % type(rows).__name__)
        for row in rows:
            if row is not None and not isinstance(row, (tuple, list)):
                raise TypeError("RaggedSum: a row is a %s, not a tuple, a list or None" % type(row).__name__)
        lengths = tuple(None if row is None else len(row) for row in rows)
        total = [0.0] * max((length for length in lengths if length is not None), default=0)
        for row in rows:
            for i, number in enumerate(row or ()):
                if not isinstance(number, (float, int)):
                    raise TypeError("RaggedSum: expected a number, got %s" % type(number).__name__)
                total[i] += float(number)
        with np.errstate(over="ignore", under="ignore"):
            output_storage[0][0] = np.array(total, "float64").astype(self.dtype)
        output_storage[1][0] = lengths

    def c_code(self, node, name, inputs, outputs, sub):
        return """
        {
            typedef %(dtype)s number;
            if (!PyTuple_Check(%(rows)s)) {
                PyErr_Format(PyExc_TypeError, "RaggedSum: expected a tuple of rows, got %%s",
                             Py_TYPE(%(rows)s)->tp_name);
                %(fail)s
            }
            const Py_ssize_t count = PyTuple_GET_SIZE(%(rows)s);
            npy_intp longest = 0;
            for (Py_ssize_t k = 0; k < count; k++) {
                PyObject *row = PyTuple_GET_ITEM(%(rows)s, k);
                if (row == Py_None)
                    continue;
                if (!PyTuple_Check(row) && !PyList_Check(row)) {
                    PyErr_Format(PyExc_TypeError, "RaggedSum: a row is a %%s, not a tuple, a list or None",
                                 Py_TYPE(row)->tp_name);
                    %(fail)s
                }
                if (PySequence_Fast_GET_SIZE(row) > longest)
                    longest = PySequence_Fast_GET_SIZE(row);
            }
            PyObject *counts = PyTuple_New(count);
            double *sums = (double *)calloc(longest + 1, sizeof(double));
            if (counts == NULL || sums == NULL) {
                if (counts != NULL)
                    PyErr_NoMemory();
                Py_XDECREF(counts);
                free(sums);
                %(fail)s
            }
            for (Py_ssize_t k = 0; k < count; k++) {
                PyObject *row = PyTuple_GET_ITEM(%(rows)s, k);
                PyObject *entry = Py_None;
                if (row == Py_None) {
                    Py_INCREF(entry);
                }
                else {
                    entry = PyLong_FromSsize_t(PySequence_Fast_GET_SIZE(row));
                    for (Py_ssize_t i = 0; entry != NULL && i < PySequence_Fast_GET_SIZE(row); i++) {
                        PyObject *item = PySequence_Fast_GET_ITEM(row, i);
                        double value = -1;
                        if (PyFloat_Check(item) || PyLong_Check(item))
                            value = PyFloat_AsDouble(item);
                        else
                            PyErr_Format(PyExc_TypeError, "RaggedSum: expected a number, got %%s",
                                         Py_TYPE(item)->tp_name);
                        if (value == -1 && PyErr_Occurred()) {
                            Py_CLEAR(entry);
                        }
                        else {
                            sums[i] += value;
                        }
                    }
                }
                if (entry == NULL) {
                    Py_DECREF(counts);
                    free(sums);
                    %(fail)s
                }
                PyTuple_SET_ITEM(counts, k, entry);
            }
            if (%(total)s == NULL || PyArray_DIM(%(total)s, 0) != longest) {
                Py_XDECREF(%(total)s);
                %(total)s = (PyArrayObject *)PyArray_SimpleNew(1, &longest, %(typenum)s);
                if (%(total)s == NULL) {
                    Py_DECREF(counts);
                    free(sums);
                    %(fail)s
                }
            }
            for (npy_intp i = 0; i < longest; i++)
                *(number *)PyArray_GETPTR1(%(total)s, i) = (number)sums[i];
            free(sums);
            Py_XDECREF(%(lengths)s);
            %(lengths)s = counts;
        }
        """ % dict(
            rows=inputs[0],
            total=outputs[0],
            lengths=outputs[1],
            dtype=node.outputs[0].type.dtype_specs()[1],
            typenum=node.outputs[0].type.dtype_specs()[2],
            fail=sub["fail"],
        )

    def c_headers(self):
        return ["<cstdlib>"]

    def c_code_cache_version(self):
        return (1,)


def audit_cases():
    """Return pairs of an Op and example inputs."""
    rows = ((0.5, -1.0, 2.5), None, [1.25, 4])
    return [(RaggedSum(), [(Generic(), rows)]), (RaggedSum("float32"), [(Generic(), rows[:1] + rows)])]
