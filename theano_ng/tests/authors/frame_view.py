"""Frames of an axis, as a view of the input."""

import operator

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.gof import ParamsType
from theano_ng.scalar import Scalar


class FrameView(theano.Op):
    """Cut an axis into frames of equal lengths. The result is a view of the input.

    The axis is replaced by two axes: the number of the frame, and the position in the frame. Only complete frames are
    part of the result. Frames do not overlap, so that an Op that works in place may overwrite the view.

    Parameters
    ----------
    width : int
        The number of elements of a frame.
    gap : int
        The number of elements between two frames, which are left out.
    axis : int
        A negative number counts from the last axis.
    newest_first : bool
        If True, the first frame is at the end of the axis and the others precede it. The order of the elements in a
        frame does not change.
    """

    __props__ = ("width", "gap", "axis", "newest_first")
    view_map = {0: [0]}
    params_type = ParamsType(
        width=Scalar("int64"), gap=Scalar("int64"), axis=Scalar("int64"), newest_first=Scalar("bool")
    )
    _f16_ok = True  # the C code does not read elements

    def __init__(self, width, gap=0, axis=-1, newest_first=False):
        self.width, self.gap, self.axis = operator.index(width), operator.index(gap), operator.index(axis)
        if not 1 <= self.width < 2**31 or not 0 <= self.gap < 2**31:
            raise ValueError("width must be in 1 .. 2**31 - 1 and gap in 0 .. 2**31 - 1, not %r and %r" % (width, gap))
        self.newest_first = bool(newest_first)

    def make_node(self, x):
        x = T.as_tensor_variable(x)
        if not -x.ndim <= self.axis < x.ndim:
            raise ValueError("FrameView: axis %d does not exist in %s" % (self.axis, x.type))
        axis, pattern = self.axis % x.ndim, x.broadcastable
        return theano.Apply(self, [x], [T.TensorType(x.dtype, (*pattern[:axis], False, False, *pattern[axis + 1 :]))()])

    def perform(self, node, inputs, output_storage, params):
        (x,) = inputs
        axis, step = self.axis % x.ndim, self.width + self.gap
        length, stride = x.shape[axis], x.strides[axis]
        count = (length - self.width) // step + 1 if length >= self.width else 0
        if self.newest_first and count:
            x = x[(slice(None),) * axis + (slice(length - self.width, None),)]
            step = -step
        output_storage[0][0] = np.lib.stride_tricks.as_strided(
            x,
            (*x.shape[:axis], count, self.width, *x.shape[axis + 1 :]),
            (*x.strides[:axis], step * stride, stride, *x.strides[axis + 1 :]),
        )

    def c_code(self, node, name, inputs, outputs, sub):
        return """
        {
            const int ndim = PyArray_NDIM(%(x)s);
            const int axis = (int)(%(params)s->axis < 0 ? %(params)s->axis + ndim : %(params)s->axis);
            const npy_intp width = %(params)s->width, step = width + %(params)s->gap;
            const npy_intp length = PyArray_DIM(%(x)s, axis), stride = PyArray_STRIDE(%(x)s, axis);
            npy_intp shape[NPY_MAXDIMS], strides[NPY_MAXDIMS];
            for (int i = 0; i < ndim; i++) {
                shape[i < axis ? i : i + 1] = PyArray_DIM(%(x)s, i);
                strides[i < axis ? i : i + 1] = PyArray_STRIDE(%(x)s, i);
            }
            shape[axis] = length < width ? 0 : (length - width) / step + 1;
            shape[axis + 1] = width;
            strides[axis] = %(params)s->newest_first ? -step * stride : step * stride;
            strides[axis + 1] = stride;
            char *first = PyArray_BYTES(%(x)s);
            if (%(params)s->newest_first && shape[axis] > 0)
                first += (length - width) * stride;
            PyArray_Descr *descr = PyArray_DESCR(%(x)s);
            const int flags = PyArray_FLAGS(%(x)s) & NPY_ARRAY_WRITEABLE;
            Py_INCREF(descr);
            PyObject *view = PyArray_NewFromDescr(&PyArray_Type, descr, ndim + 1, shape, strides, first, flags, NULL);
            if (view == NULL) {
                %(fail)s
            }
            Py_INCREF(%(x)s);
            if (PyArray_SetBaseObject((PyArrayObject *)view, (PyObject *)%(x)s) < 0) {
                Py_DECREF(view);
                %(fail)s
            }
            Py_XDECREF(%(y)s);
            %(y)s = (PyArrayObject *)view;
        }
        """ % dict(x=inputs[0], y=outputs[0], params=sub["params"], fail=sub["fail"])

    def c_code_cache_version(self):
        return (1,)

    def count(self, length):
        """Return the number of frames of an axis, as an expression."""
        return T.maximum((length - self.width) // (self.width + self.gap) + 1, 0)

    def infer_shape(self, node, shapes):
        axis = self.axis % node.inputs[0].ndim
        (shape,) = shapes
        return [(*shape[:axis], self.count(shape[axis]), self.width, *shape[axis + 1 :])]

    def grad(self, inputs, output_grads):
        (x,), (g,) = inputs, output_grads
        if x.dtype in T.discrete_dtypes:
            return [x.zeros_like(dtype=theano.config.floatX)]
        axis = self.axis % x.ndim
        others = [i for i in range(x.ndim) if i != axis]
        moved = x.dimshuffle(axis, *others)
        length = moved.shape[0]
        starts = T.arange(self.count(length)) * (self.width + self.gap)
        if self.newest_first:
            starts = length - self.width - starts
        positions = starts.dimshuffle(0, "x") + T.arange(self.width)
        frames = g.dimshuffle(axis, axis + 1, *[i if i < axis else i + 1 for i in others])
        spread = T.set_subtensor(T.zeros_like(moved)[positions], frames)
        order = list(range(1, x.ndim))
        order.insert(axis, 0)
        return [T.patternbroadcast(spread.dimshuffle(*order), x.broadcastable)]

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None]
        return [self(eval_points[0])]


def audit_cases():
    """Return pairs of an Op and example inputs."""
    vector, matrix = np.array([0.5, -1.0, 2.5, 4.0, -3.5, 1.0, 7.0]), np.arange(14.0).reshape(7, 2) ** 2 - 5
    return [(FrameView(2), [vector]), (FrameView(2, 1, 0, newest_first=True), [matrix.astype("float32")])]
