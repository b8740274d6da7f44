"""Trimmed means of the rows of a matrix, computed by several threads."""

import operator

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.gof import OpenMPOp, ParamsType
from theano_ng.scalar import Scalar


class TrimmedMean(OpenMPOp):
    """The mean of each row without its `trim` smallest and its `trim` largest elements.

    The mean of a row with a NaN is NaN. Rows must have more than ``2 * trim`` elements.

    Parameters
    ----------
    trim : int
    openmp : bool, optional
        Whether several threads share the rows. By default, ``config.openmp``.
    """

    __props__ = ("trim", "openmp")
    params_type = ParamsType(trim=Scalar("int64"))

    def __init__(self, trim, openmp=None):
        super().__init__(openmp=openmp)
        self.trim = operator.index(trim)
        if not 0 <= self.trim < 2**31:
            raise ValueError("trim must be in 0 .. 2**31 - 1, not %r" % (trim,))

    def make_node(self, x):
        x = T.as_tensor_variable(x)
        if x.ndim != 2 or x.dtype not in ("float32", "float64"):
            raise TypeError("TrimmedMean needs a matrix of float32 or float64, not %s" % x.type)
        return theano.Apply(self, [x], [T.TensorType(x.dtype, (x.broadcastable[0],))()])

    def perform(self, node, inputs, output_storage, params):
        (x,) = inputs
        columns = x.shape[1]
        if columns <= 2 * self.trim:
            raise ValueError("TrimmedMean: rows of %d elements are too short for trim=%d" % (columns, self.trim))
        ordered = np.sort(x, axis=1)  # NaN is last
        kept = ordered[:, self.trim : columns - self.trim]
        with np.errstate(over="ignore", invalid="ignore"):
            # The sum begins with 0.0, because the order of 0.0 and -0.0 is arbitrary.
            mean = (np.add.accumulate(kept, axis=1, dtype="float64")[:, -1] + 0.0) / kept.shape[1]
            mean[np.isnan(ordered[:, -1])] = np.nan
            output_storage[0][0] = mean.astype(x.dtype)

    def c_headers(self):
        return super().c_headers() + ["<algorithm>", "<cmath>", "<cstdlib>"]

    def c_code(self, node, name, inputs, outputs, sub):
        parallel = "#pragma omp parallel for num_threads(threads) schedule(static)" if self.openmp else ""
        return """
        {
            typedef %(dtype)s number;
            const npy_intp trim = %(params)s->trim;
            npy_intp rows = PyArray_DIM(%(x)s, 0);
            const npy_intp columns = PyArray_DIM(%(x)s, 1);
            if (columns <= 2 * trim) {
                PyErr_Format(PyExc_ValueError, "TrimmedMean: rows of %%zd elements are too short for trim=%%zd",
                             (Py_ssize_t)columns, (Py_ssize_t)trim);
                %(fail)s
            }
            if (%(y)s == NULL || PyArray_DIM(%(y)s, 0) != rows) {
                Py_XDECREF(%(y)s);
                %(y)s = (PyArrayObject *)PyArray_SimpleNew(1, &rows, PyArray_TYPE(%(x)s));
                if (%(y)s == NULL) {
                    %(fail)s
                }
            }
            const int threads = %(threads)s;
            number *scratch = (number *)malloc(threads * columns * sizeof(number));
            if (scratch == NULL) {
                PyErr_NoMemory();
                %(fail)s
            }
            %(parallel)s
            for (npy_intp i = 0; i < rows; i++) {
                number *row = scratch + %(thread)s * columns;
                bool nan = false;
                for (npy_intp j = 0; j < columns; j++) {
                    row[j] = *(const number *)PyArray_GETPTR2(%(x)s, i, j);
                    nan = nan || std::isnan(row[j]);
                }
                double total = 0;
                if (nan) {
                    total = NPY_NAN;
                }
                else {
                    std::sort(row, row + columns);
                    for (npy_intp j = trim; j < columns - trim; j++)
                        total += row[j];
                }
                *(number *)PyArray_GETPTR1(%(y)s, i) = (number)(total / (columns - 2 * trim));
            }
            free(scratch);
        }
        """ % dict(
            x=inputs[0],
            y=outputs[0],
            dtype=node.inputs[0].type.dtype_specs()[1],
            params=sub["params"],
            fail=sub["fail"],
            parallel=parallel,
            threads="omp_get_max_threads()" if self.openmp else "1",
            thread="omp_get_thread_num()" if self.openmp else "0",
        )

    def c_code_cache_version(self):
        return (1, self.openmp)

    def infer_shape(self, node, shapes):
        return [(shapes[0][0],)]

    def kept(self, x):
        """Return the row and column indices of the elements that are not left out, and their number in a row."""
        count = x.shape[1] - 2 * self.trim
        columns = T.argsort(x, axis=1)[:, self.trim : self.trim + count]
        return T.arange(x.shape[0]).dimshuffle(0, "x"), columns, T.cast(count, x.dtype)

    def grad(self, inputs, output_grads):
        (x,), (g,) = inputs, output_grads
        rows, columns, count = self.kept(x)
        shares = (g / count).dimshuffle(0, "x")
        return [T.inc_subtensor(T.zeros_like(x)[rows, columns], shares)]

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None]
        rows, columns, count = self.kept(inputs[0])
        return [eval_points[0][rows, columns].sum(axis=1) / count]


def audit_cases():
    """Return pairs of an Op and example inputs."""
    matrix = np.array([[0.5, -1.25, 2.0, 3.5, -7.0], [9.0, -0.75, 1.5, -3.0, 0.25], [2.5, 6.0, -4.0, 1.0, 8.0]])
    return [(TrimmedMean(1, openmp=True), [matrix]), (TrimmedMean(0, openmp=False), [matrix.astype("float32")])]
