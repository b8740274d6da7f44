"""Sums or averages of windows that move along the rows of a matrix."""

import operator

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.gof import ParamsType
from theano_ng.scalar import Scalar


class WindowedSum(theano.Op):
    """Sum the elements of each window of a row.

    Window j of a row contains the elements from ``j * step`` to ``j * step + width - 1``. Windows that are not
    completely inside the row are left out, so a row that is shorter than `width` has no window.

    Parameters
    ----------
    width : int
        The number of elements of a window.
    step : int
        The distance between the beginnings of neighbouring windows.
    average : bool
        Whether to divide the sums by `width`.
    """

    __props__ = ("width", "step", "average")
    params_type = ParamsType(width=Scalar("int64"), step=Scalar("int64"), average=Scalar("bool"))

    def __init__(self, width, step=1, average=False):
        self.width, self.step = operator.index(width), operator.index(step)
        if not 1 <= self.width < 2**31 or not 1 <= self.step < 2**31:
            raise ValueError("width and step must be positive and below 2**31, not %r and %r" % (width, step))
        self.average = bool(average)

    def make_node(self, x):
        x = T.as_tensor_variable(x)
        if x.ndim != 2 or x.dtype not in ("float32", "float64"):
            raise TypeError("WindowedSum needs a matrix of float32 or float64, not %s" % x.type)
        return theano.Apply(self, [x], [T.TensorType(x.dtype, (x.broadcastable[0], False))()])

    def perform(self, node, inputs, output_storage, params):
        (x,) = inputs
        windows = max((x.shape[1] - self.width) // self.step + 1, 0)
        if windows == 0:
            output_storage[0][0] = np.zeros((x.shape[0], 0), x.dtype)
            return
        end = (windows - 1) * self.step + 1
        # The terms are added in the same order and precision as in C.
        with np.errstate(over="ignore", invalid="ignore"):
            total = x[:, 0 : end : self.step].astype("float64")
            for k in range(1, self.width):
                total += x[:, k : k + end : self.step]
            if self.average:
                total /= self.width
            output_storage[0][0] = total.astype(x.dtype)

    def c_code(self, node, name, inputs, outputs, sub):
        return """
        {
            typedef %(dtype)s number;
            const npy_intp width = %(params)s->width, step = %(params)s->step;
            const npy_intp rows = PyArray_DIM(%(x)s, 0), columns = PyArray_DIM(%(x)s, 1);
            const npy_intp jump = PyArray_STRIDE(%(x)s, 1);
            npy_intp shape[2] = {rows, columns < width ? 0 : (columns - width) / step + 1};
            if (%(y)s == NULL || PyArray_DIM(%(y)s, 0) != shape[0] || PyArray_DIM(%(y)s, 1) != shape[1]) {
                Py_XDECREF(%(y)s);
                %(y)s = (PyArrayObject *)PyArray_SimpleNew(2, shape, PyArray_TYPE(%(x)s));
                if (%(y)s == NULL) {
                    %(fail)s
                }
            }
            for (npy_intp i = 0; i < rows; i++) {
                for (npy_intp j = 0; j < shape[1]; j++) {
                    const char *from = (const char *)PyArray_GETPTR2(%(x)s, i, j * step);
                    double total = *(const number *)from;
                    for (npy_intp k = 1; k < width; k++)
                        total += *(const number *)(from + k * jump);
                    if (%(params)s->average)
                        total /= width;
                    *(number *)PyArray_GETPTR2(%(y)s, i, j) = (number)total;
                }
            }
        }
        """ % dict(
            x=inputs[0],
            y=outputs[0],
            dtype=node.inputs[0].type.dtype_specs()[1],
            params=sub["params"],
            fail=sub["fail"],
        )

    def c_code_cache_version(self):
        return (1,)

    def infer_shape(self, node, shapes):
        rows, columns = shapes[0]
        return [(rows, T.maximum((columns - self.width) // self.step + 1, 0))]

    def grad(self, inputs, output_grads):
        (x,), (g,) = inputs, output_grads
        # An element is in the windows that begin at most width - 1 elements before it: the gradients of the windows
        # are put at the ends of their windows, and summed over windows again.
        rows, columns = x.shape
        windows = T.maximum((columns - self.width) // self.step + 1, 0)
        first = self.width - 1
        spread = T.zeros((rows, columns + first), dtype=g.dtype)
        spread = T.set_subtensor(spread[:, first : first + windows * self.step : self.step], g)
        gradient = WindowedSum(self.width, 1, self.average)(spread)
        return [T.patternbroadcast(gradient, x.broadcastable)]

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None]
        return [self(eval_points[0])]


def audit_cases():
    """Return pairs of an Op and example inputs."""
    matrix = np.arange(14.0).reshape(2, 7) ** 2 - 5
    return [(WindowedSum(3), [matrix]), (WindowedSum(2, step=2, average=True), [matrix.astype("float32")])]
