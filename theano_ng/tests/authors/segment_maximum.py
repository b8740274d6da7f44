"""Maxima of the segments of a vector, and their positions."""

import math

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.gof import ParamsType
from theano_ng.gradient import DisconnectedType
from theano_ng.scalar import Scalar


class SegmentMaximum(theano.Op):
    """Find the maximum of all values with the same segment number.

    Inputs are the values, their segment numbers (int32 or int64), and the number of segments (an int64 of rank 0).
    Outputs are the maximum and its position in `values`, for each segment. The position is the first one if the maximum
    occurs several times. A NaN counts as the maximum. A segment without values has the maximum `empty` and the position
    -1.

    Parameters
    ----------
    empty : float
    """

    __props__ = ("empty",)
    params_type = ParamsType(empty=Scalar("float64"))

    def __init__(self, empty=-math.inf):
        self.empty = float(empty) + 0.0  # -0.0 becomes 0.0, because the two are equal as props
        if math.isnan(self.empty):
            raise ValueError("empty must be a number, not NaN")  # NaN is not equal to itself

    def make_node(self, values, segments, count):
        values, segments = T.as_tensor_variable(values), T.as_tensor_variable(segments)
        if isinstance(count, int):
            count = np.asarray(count, "int64")
        count = T.as_tensor_variable(count)
        if values.ndim != 1 or values.dtype not in ("float32", "float64"):
            raise TypeError("SegmentMaximum needs values of float32 or float64 in a vector, not %s" % values.type)
        if segments.ndim != 1 or segments.dtype not in ("int32", "int64"):
            raise TypeError("SegmentMaximum needs segments of int32 or int64 in a vector, not %s" % segments.type)
        if count.ndim != 0 or count.dtype != "int64":
            raise TypeError("SegmentMaximum needs the number of segments as an int64 of rank 0, not %s" % count.type)
        return theano.Apply(self, [values, segments, count], [T.vector(dtype=values.dtype), T.lvector()])

    def perform(self, node, inputs, output_storage, params):
        values, segments, count = inputs[0], inputs[1], int(inputs[2])
        if len(values) != len(segments):
            raise ValueError("SegmentMaximum: %d values, but %d segment numbers" % (len(values), len(segments)))
        if count < 0:
            raise ValueError("SegmentMaximum: %d segments" % count)
        with np.errstate(over="ignore"):
            maximum = np.full(count, self.empty).astype(values.dtype)
        position = np.full(count, -1, "int64")
        for i, (value, segment) in enumerate(zip(values, segments)):
            if not 0 <= segment < count:
                raise IndexError("SegmentMaximum: segment number %d is not in 0 .. %d" % (segment, count - 1))
            best = maximum[segment]
            if position[segment] < 0 or value > best or (np.isnan(value) and not np.isnan(best)):
                maximum[segment], position[segment] = value, i
        output_storage[0][0], output_storage[1][0] = maximum, position

    def c_code(self, node, name, inputs, outputs, sub):
        return """
        {
            typedef %(dtype)s number;
            const npy_intp size = PyArray_DIM(%(values)s, 0);
            npy_intp count = (npy_intp)*(const npy_int64 *)PyArray_DATA(%(count)s);
            if (PyArray_DIM(%(segments)s, 0) != size) {
                PyErr_Format(PyExc_ValueError, "SegmentMaximum: %%zd values, but %%zd segment numbers",
                             (Py_ssize_t)size, (Py_ssize_t)PyArray_DIM(%(segments)s, 0));
                %(fail)s
            }
            if (count < 0) {
                PyErr_Format(PyExc_ValueError, "SegmentMaximum: %%zd segments", (Py_ssize_t)count);
                %(fail)s
            }
            if (%(maximum)s == NULL || PyArray_DIM(%(maximum)s, 0) != count) {
                Py_XDECREF(%(maximum)s);
                %(maximum)s = (PyArrayObject *)PyArray_SimpleNew(1, &count, PyArray_TYPE(%(values)s));
                if (%(maximum)s == NULL) {
                    %(fail)s
                }
            }
            if (%(position)s == NULL || PyArray_DIM(%(position)s, 0) != count) {
                Py_XDECREF(%(position)s);
                %(position)s = (PyArrayObject *)PyArray_SimpleNew(1, &count, NPY_INT64);
                if (%(position)s == NULL) {
                    %(fail)s
                }
            }
            for (npy_intp k = 0; k < count; k++) {
                *(number *)PyArray_GETPTR1(%(maximum)s, k) = (number)%(params)s->empty;
                *(npy_int64 *)PyArray_GETPTR1(%(position)s, k) = -1;
            }
            for (npy_intp i = 0; i < size; i++) {
                const number value = *(const number *)PyArray_GETPTR1(%(values)s, i);
                const npy_int64 segment = *(const %(itype)s *)PyArray_GETPTR1(%(segments)s, i);
                if (segment < 0 || segment >= count) {
                    PyErr_Format(PyExc_IndexError, "SegmentMaximum: segment number %%lld is not in 0 .. %%zd",
                                 (long long)segment, (Py_ssize_t)(count - 1));
                    %(fail)s
                }
                number *best = (number *)PyArray_GETPTR1(%(maximum)s, segment);
                npy_int64 *at = (npy_int64 *)PyArray_GETPTR1(%(position)s, segment);
                if (*at < 0 || value > *best || (value != value && *best == *best)) {
                    *best = value;
                    *at = i;
                }
            }
        }
        """ % dict(
            values=inputs[0],
            segments=inputs[1],
            count=inputs[2],
            maximum=outputs[0],
            position=outputs[1],
            dtype=node.inputs[0].type.dtype_specs()[1],
            itype=node.inputs[1].type.dtype_specs()[1],
            params=sub["params"],
            fail=sub["fail"],
        )

    def c_code_cache_version(self):
        return (1,)

    def infer_shape(self, node, shapes):
        return [(node.inputs[2],), (node.inputs[2],)]

    def connection_pattern(self, node):
        return [[True, False], [False, False], [False, False]]

    def L_op(self, inputs, outputs, output_grads):
        values, position = inputs[0], outputs[1]
        found = T.ge(position, 0).nonzero()[0]
        gradient = T.inc_subtensor(T.zeros_like(values)[position[found]], output_grads[0][found])
        return [gradient, DisconnectedType()(), DisconnectedType()()]

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None, None]
        position = self(*inputs)[1]
        found = T.ge(position, 0).nonzero()[0]
        tangent = T.zeros(position.shape, dtype=inputs[0].dtype)
        return [T.set_subtensor(tangent[found], eval_points[0][position[found]]), None]


def audit_cases():
    """Return pairs of an Op and example inputs."""
    values, segments = np.array([0.5, -1.0, 2.5, 4.0, -3.5, 1.0]), np.array([2, 0, 2, 1, 0, 1])
    count = np.array(4)
    return [
        (SegmentMaximum(), [values, segments, count]),
        (SegmentMaximum(-1.5), [values.astype("float32"), segments.astype("int32"), count]),
    ]
