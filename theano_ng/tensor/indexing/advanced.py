"""Indexing of tensors by integer arrays and boolean masks, and increments of the indexed elements."""

import numpy as np

import theano_ng.scalar as scal
from theano_ng.configdefaults import config
from theano_ng.gof import ports
from theano_ng.gof.derivative import disconnected_gradients
from theano_ng.gof.graph import Apply, Constant
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.gof.params_type import ParamsType
from theano_ng.tensor.constant import as_tensor_variable, constant
from theano_ng.tensor.dtypes import DISCRETE, INTEGERS
from theano_ng.tensor.elemwise.functions import eq, switch
from theano_ng.tensor.exceptions import ShapeError
from theano_ng.tensor.indexing.index_lists import (
    AdvancedBooleanIndexingError,
    adv_index_broadcastable_pattern,
    advanced_layout,
    as_index_variable,
    check_advanced_indexing_dimensions,
    check_increment_dtypes,
    is_mask,
    slice_length,
    slice_of,
)
from theano_ng.tensor.shaping.allocation import sum_over_repeated
from theano_ng.tensor.shaping.creation import arange, zeros
from theano_ng.tensor.type import TensorType

__all__ = [
    "AdvancedBooleanIncSubtensor",
    "AdvancedBooleanSubtensor",
    "AdvancedIncSubtensor",
    "AdvancedIncSubtensor1",
    "AdvancedSubtensor",
    "AdvancedSubtensor1",
    "BaseAdvancedIncSubtensor",
    "BaseAdvancedSubtensor",
    "_sum_grad_over_bcasted_dims",
    "advanced_boolean_inc_subtensor",
    "advanced_boolean_set_subtensor",
    "advanced_boolean_subtensor",
    "advanced_inc_subtensor",
    "advanced_inc_subtensor1",
    "advanced_set_subtensor",
    "advanced_set_subtensor1",
    "advanced_subtensor",
    "advanced_subtensor1",
]


def _sum_grad_over_bcasted_dims(x, gx):
    """Return gx, summed over the dimensions in which x was broadcast. The result has the shape of x."""
    return sum_over_repeated(gx, x)


def _check_dtypes(x, y, set_instead_of_inc):
    check_increment_dtypes(x, y, set_instead_of_inc)


def _target(x, y, inplace):
    """Return the array to which `perform` writes, and the value that it writes."""
    if not inplace:
        return x.copy(), y
    if not x.flags.writeable:
        raise ValueError("the input of an in-place increment is read-only")
    return x, y.copy() if np.may_share_memory(x, y) else y


def _write(x, index, y, set_instead_of_inc):
    """Execute ``x[index] = y`` or ``x[index] += y``. The elements of the indexed part are written in C order.

    If several elements are written to one position, ``x[index] = y`` keeps the last, and ``x[index] += y`` adds all.
    """
    index = tuple(np.array(entry, order="C") if isinstance(entry, np.ndarray) else entry for entry in index)
    # Broadcast y here, because np.add.at gives a wrong result if x and y are vectors and the index is a matrix.
    y = np.broadcast_to(y, x[index].shape)
    if set_instead_of_inc:
        x[index] = y
    else:
        np.add.at(x, index, y.astype(x.dtype, copy=False))


def zeros_for_gradient(x):
    """Return zeros with the shape of x, to which the gradient with respect to a part of x is added.

    The tag `takes_whole_parts` records that the added value has the shape of the part, so it is not broadcast.
    """
    zeros = x.zeros_like()
    zeros.tag.takes_whole_parts = True
    return zeros


def gradient_by_value(gy, x, y):
    """Return the gradient with respect to y, the value that increments or sets a part of x.

    `gy` is the gradient with respect to the part after the operation. The function sums `gy` over the dimensions of y
    that the operation repeats.
    """
    return gy if getattr(x.tag, "takes_whole_parts", False) else sum_over_repeated(gy, y)


def _increment_grads(op, inputs, gz, part):
    """Return the gradients of an increment. `part` is an Op that reads the elements that `op` writes."""
    x, y, rest = inputs[0], inputs[1], inputs[2:]
    if x.dtype in DISCRETE:
        gx, gy = x.zeros_like(dtype=config.floatX), y.zeros_like(dtype=config.floatX)
    else:
        gx = gz
        if op.set_instead_of_inc:
            gx = type(op)(set_instead_of_inc=True)(gz, y.zeros_like(dtype=gz.dtype), *rest)
        if y.dtype in DISCRETE:
            gy = y.zeros_like(dtype=config.floatX)
        else:
            gy = part(gz, *rest)
            if op.set_instead_of_inc and _may_repeat(rest):
                gy = switch(_is_kept(op, part, x, gy, rest), gy, np.zeros((), dtype=gy.dtype))
            gy = gradient_by_value(gy, x, y)
    return [gx, gy, *disconnected_gradients(len(rest))]


def _may_repeat(index):
    """Return True if an index may contain the same position twice.

    Only arrays of integers can contain a position twice.
    """
    arrays = [entry for entry in index if isinstance(entry.type, TensorType)]
    integers = [entry for entry in arrays if not is_mask(entry)]
    if all(all(entry.broadcastable) for entry in integers):
        return False
    if len(integers) == len(arrays) and all(isinstance(entry, Constant) for entry in integers):
        places = np.stack([data.ravel() for data in np.broadcast_arrays(*[entry.data for entry in integers])])
        # Compare the indices only if the signs along each axis agree: a negative and a non-negative index may refer to
        # the same position.
        if ((places >= 0).all(1) | (places < 0).all(1)).all():
            return np.unique(places, axis=1).shape != places.shape
    return True


def _is_kept(op, part, x, values, index):
    """Return a mask of the values that remain after ``x[index] = values``.

    If several values are written to one position, only the last value remains.
    """
    if part is advanced_subtensor1:
        # Write numbers instead of `values`: a value remains if its number is read back at its position. The index
        # selects whole rows, so number the rows.
        numbers, order = arange(values.shape[0]), [0, *["x"] * (x.ndim - 1)]
        written = type(op)(set_instead_of_inc=True)(zeros(x.shape[:1], dtype="int64"), numbers, *index)
    else:
        numbers, order = arange(values.size).reshape(values.shape, ndim=values.ndim), range(values.ndim)
        written = type(op)(set_instead_of_inc=True)(zeros(x.shape, dtype="int64"), numbers, *index)
    return eq(part(written, *index), numbers).dimshuffle(*order)


def _increment_R_op(op, inputs, eval_points):
    if eval_points[0] is None and eval_points[1] is None:
        return [None]
    points = [x.zeros_like() if point is None else point for x, point in zip(inputs[:2], eval_points[:2])]
    return op(*points, *inputs[2:], return_list=True)


def _check_unsigned(index):
    """Raise IndexError for uint64 indices that NumPy would convert to negative numbers."""
    for entry in index:
        if (
            isinstance(entry, np.ndarray)
            and entry.dtype == "uint64"
            and entry.size
            and entry.max() > np.iinfo("int64").max
        ):
            raise IndexError("index out of bounds: index %d is larger than any axis" % entry.max())


# ---------------------------------------------------------------- selecting rows by an integer vector


def _row_indices(ilist):
    ilist = as_tensor_variable(ilist)
    if ilist.type.dtype not in INTEGERS:
        raise TypeError("index must be integers, got a variable of type %s" % (ilist.type,))
    if ilist.type.ndim != 1:
        raise TypeError("index must be vector, got a variable of type %s" % (ilist.type,))
    return ilist


class AdvancedSubtensor1(NativeOp, Op):
    """An Op that selects rows of a tensor by an integer vector: ``AdvancedSubtensor1()(x, ilist)``.

    Parameters
    ----------
    sparse_grad : bool
        Whether the gradient with respect to x is a sparse matrix.
    """

    check_input = False
    __props__ = ()
    _f16_ok = True

    def __init__(self, sparse_grad=False):
        self.sparse_grad = sparse_grad

    def make_node(self, x, ilist):
        x, ilist = as_tensor_variable(x), _row_indices(ilist)
        if x.type.ndim == 0:
            raise TypeError("cannot index into a scalar")
        pattern = (ilist.broadcastable[0], *x.broadcastable[1:])
        return Apply(self, [x, ilist], [TensorType(x.dtype, pattern)()])

    def native_code(self, node):
        return NativeCode("theano_ng.tensor.native.subtensor:take")

    def perform(self, node, inp, out_):
        x, rows = inp
        _check_unsigned([rows])
        out_[0][0] = np.asarray(x[rows], order="C")

    def connection_pattern(self, node):
        return [[True], *[[False] for _ in node.inputs[1:]]]

    def infer_shape(self, node, ishapes):
        x, ilist = ishapes
        return [(*ilist, *x[1:])]

    def grad(self, inputs, grads):
        x, ilist = inputs
        (gz,) = grads
        if self.sparse_grad:
            if x.type.ndim != 2:
                raise TypeError(
                    "AdvancedSubtensor1: you can't take the sparse grad from a tensor with ndim != 2. ndim is %d"
                    % x.type.ndim
                )
            gx = ports.sparse_from_rows(x, gz, ilist)
        elif x.dtype in DISCRETE:
            gx = x.zeros_like(dtype=config.floatX)
        else:
            gx = advanced_inc_subtensor1(zeros_for_gradient(x), gz, ilist)
        return [gx, *disconnected_gradients(1)]

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None]
        return self(eval_points[0], *inputs[1:], return_list=True)


advanced_subtensor1 = AdvancedSubtensor1()


def _inc_code(op):
    """Return the native code of an Op that writes indexed elements, either into its input (in place) or into a copy."""
    return NativeCode(
        "theano_ng.tensor.native.subtensor:inc",
        in_place=bool(op.inplace),
        set_instead_of_inc=bool(op.set_instead_of_inc),
    )


class AdvancedIncSubtensor1(NativeOp, Op):
    """An Op that increments or sets rows: for ``(x, y, ilist)``, it returns x with y added to ``x[ilist]``.

    If an index occurs several times, its row is incremented several times.

    Parameters
    ----------
    inplace : bool
        Whether to change x itself instead of a copy.
    set_instead_of_inc : bool
        Whether to set the rows to y. If an index occurs several times, its row gets the last value.
    """

    check_input = False
    __props__ = ("inplace", "set_instead_of_inc")
    params_type = ParamsType(inplace=scal.bool, set_instead_of_inc=scal.bool)

    def __init__(self, inplace=False, set_instead_of_inc=False):
        self.inplace = bool(inplace)
        self.set_instead_of_inc = bool(set_instead_of_inc)
        if inplace:
            self.destroy_map = {0: [0]}

    def clone_inplace(self):
        """Return the variant of this Op that works in place."""
        return type(self)(inplace=True, set_instead_of_inc=self.set_instead_of_inc)

    def __str__(self):
        return "%s{%s,%s}" % (
            type(self).__name__,
            "inplace" if self.inplace else "no_inplace",
            "set" if self.set_instead_of_inc else "inc",
        )

    def make_node(self, x, y, ilist):
        x, y, ilist = as_tensor_variable(x), as_tensor_variable(y), _row_indices(ilist)
        if x.type.ndim == 0:
            raise TypeError("cannot index into a scalar")
        if y.type.ndim > x.type.ndim:
            raise TypeError(
                "cannot %s x subtensor with ndim=%s by y with ndim=%s."
                % ("set" if self.set_instead_of_inc else "increment", x.type.ndim, y.type.ndim)
            )
        _check_dtypes(x, y, self.set_instead_of_inc)
        return Apply(self, [x, y, ilist], [x.type()])

    def native_code(self, node):
        return _inc_code(self)

    def copy_of_x(self, x):
        """Return a C expression for a copy of the array `x`."""
        return "(PyArrayObject *)PyArray_FromAny((PyObject *)%s, NULL, 0, 0, NPY_ARRAY_ENSURECOPY, NULL)" % x

    def perform(self, node, inp, out_, params=None):
        x, y, rows = inp
        _check_unsigned([rows])
        x, y = _target(x, y, self.inplace)
        _write(x, (rows,), y, self.set_instead_of_inc)
        out_[0][0] = x

    def infer_shape(self, node, ishapes):
        return [ishapes[0]]

    def connection_pattern(self, node):
        return [[True], [True], [False]]

    def grad(self, inputs, grads):
        return _increment_grads(self, inputs, grads[0], advanced_subtensor1)

    def R_op(self, inputs, eval_points):
        return _increment_R_op(self, inputs, eval_points)


advanced_inc_subtensor1 = AdvancedIncSubtensor1()
advanced_set_subtensor1 = AdvancedIncSubtensor1(set_instead_of_inc=True)


# ---------------------------------------------------------------- any index


def _check_index(x, index):
    """Raise IndexError if a mask does not have the shape of the indexed dimensions, or if an index is too large.

    The function is needed because NumPy accepts empty masks of any shape.
    """
    _check_unsigned(index)
    axis = 0
    for entry in index:
        mask = isinstance(entry, np.ndarray) and entry.dtype == bool
        length = entry.ndim if mask else 0 if entry is None else 1
        for k in range(entry.ndim if mask else 0):
            if entry.shape[k] != x.shape[axis + k]:
                raise IndexError(
                    "boolean index did not match indexed array along axis %d; size of axis is %d but size of corresponding "
                    "boolean axis is %d" % (axis + k, x.shape[axis + k], entry.shape[k])
                )
        axis += length


class BaseAdvancedSubtensor(NativeOp, Op):
    """The base class of Ops that index by any mix of integer arrays, masks, slices and None."""

    __props__ = ()

    def make_node(self, x, *index):
        x = as_tensor_variable(x)
        index = [as_index_variable(idx) for idx in index]
        check_advanced_indexing_dimensions(x, index)
        pattern = adv_index_broadcastable_pattern(x, index)
        return Apply(self, [x, *index], [TensorType(x.type.dtype, pattern)()])

    def native_code(self, node):
        return NativeCode("theano_ng.tensor.native.subtensor:take")

    def perform(self, node, inputs, out_):
        _check_index(inputs[0], inputs[1:])
        result = inputs[0][tuple(inputs[1:])]
        # Return a C-contiguous array with its own memory. NumPy returns a scalar for a single element, a view for an
        # index without arrays, and in general any memory layout.
        result = np.asarray(result, order="C")
        out_[0][0] = result.copy() if result.base is not None and np.may_share_memory(result, inputs[0]) else result

    def infer_shape(self, node, ishapes):
        x, index = node.inputs[0], node.inputs[1:]
        rest, position, arrays = advanced_layout(x.ndim, index)
        one = constant(1, dtype="int64")
        sizes = []
        for axis, entry in rest:
            if axis is None:
                sizes.append(one)
            elif entry is None:
                sizes.append(ishapes[0][axis])
            else:
                fields = slice_of(entry)
                if fields is None:
                    raise ShapeError("the length of the slice %s is known only at run time" % (entry,))
                sizes.append(as_tensor_variable(slice_length(fields, ishapes[0][axis])))
        shapes = {id(inp): shp for inp, shp in zip(index, ishapes[1:])}
        # The index arrays are broadcast against each other. In each dimension, the first array whose type is not
        # broadcastable determines the length. If this length is 1 at run time, the next such array determines it.
        known = [
            ((False,), (a.sum(dtype="int64"),)) if is_mask(a) else (a.broadcastable, shapes[id(a)]) for a in arrays
        ]
        ndim = max((len(flags) for flags, _ in known), default=0)
        joint = []
        for i in range(ndim):
            size = None
            for flags, shape in known:
                k = i - (ndim - len(flags))
                if k >= 0 and not flags[k] and shape[k] is not size:
                    size = shape[k] if size is None else switch(eq(size, 1), shape[k], size)
            joint.append(one if size is None else size)
        return [(*sizes[:position], *joint, *sizes[position:])]

    def connection_pattern(self, node):
        return [[True], *[[False] for _ in node.inputs[1:]]]

    def _grad(self, inputs, grads, increment):
        x, rest = inputs[0], inputs[1:]
        if x.dtype in DISCRETE:
            gx = x.zeros_like(dtype=config.floatX)
        else:
            gx = increment(zeros_for_gradient(x), grads[0], *rest)
        return [gx, *disconnected_gradients(len(rest))]

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None]
        return self(eval_points[0], *inputs[1:], return_list=True)


class AdvancedSubtensor(BaseAdvancedSubtensor):
    """An Op that indexes by integer arrays, slices and None: ``AdvancedSubtensor()(x, *index)``. It returns a copy.

    Raises
    ------
    AdvancedBooleanIndexingError
        If an index is a mask.
    """

    def make_node(self, x, *index):
        index = [as_index_variable(idx) for idx in index]
        if any(is_mask(idx) for idx in index):
            raise AdvancedBooleanIndexingError("AdvancedSubtensor takes no boolean masks; use AdvancedBooleanSubtensor")
        return super().make_node(x, *index)

    def grad(self, inputs, grads):
        return self._grad(inputs, grads, advanced_inc_subtensor)


class AdvancedBooleanSubtensor(BaseAdvancedSubtensor):
    """An Op that indexes by boolean masks, integer arrays, slices and None. It returns a copy."""

    def grad(self, inputs, grads):
        return self._grad(inputs, grads, advanced_boolean_inc_subtensor)


class BaseAdvancedIncSubtensor(NativeOp, Op):
    """The base class of Ops that increment or set the elements at an advanced index. The inputs are ``(x, y, *index)``.

    An element that is indexed twice is incremented twice.

    Parameters
    ----------
    inplace : bool
        Whether to change x itself instead of a copy.
    set_instead_of_inc : bool
        Whether to set the elements to y.
    """

    __props__ = ("inplace", "set_instead_of_inc")

    def __init__(self, inplace=False, set_instead_of_inc=False):
        self.inplace = bool(inplace)
        self.set_instead_of_inc = bool(set_instead_of_inc)
        if inplace:
            self.destroy_map = {0: [0]}

    def __str__(self):
        return "%s{inplace=%s,  set_instead_of_inc=%s}" % (type(self).__name__, self.inplace, self.set_instead_of_inc)

    def make_node(self, x, y, *inputs):
        x, y = as_tensor_variable(x), as_tensor_variable(y)
        index = [as_index_variable(idx) for idx in inputs]
        check_advanced_indexing_dimensions(x, index)
        part = len(adv_index_broadcastable_pattern(x, index))
        if y.ndim > part:
            raise TypeError(
                "cannot %s a %d-dimensional part of x by y with ndim=%d"
                % ("set" if self.set_instead_of_inc else "increment", part, y.ndim)
            )
        _check_dtypes(x, y, self.set_instead_of_inc)
        return Apply(self, [x, y, *index], [x.type()])

    def native_code(self, node):
        return _inc_code(self)

    def perform(self, node, inputs, out_):
        _check_index(inputs[0], inputs[2:])
        x, y = _target(inputs[0], inputs[1], self.inplace)
        _write(x, inputs[2:], y, self.set_instead_of_inc)
        out_[0][0] = x

    def infer_shape(self, node, ishapes):
        return [ishapes[0]]

    def connection_pattern(self, node):
        return [[True], [True], *[[False] for _ in node.inputs[2:]]]

    def R_op(self, inputs, eval_points):
        return _increment_R_op(self, inputs, eval_points)


class AdvancedIncSubtensor(BaseAdvancedIncSubtensor):
    """An Op that increments or sets the elements at an index of integer arrays, slices and None."""

    def make_node(self, x, y, *inputs):
        inputs = [as_index_variable(idx) for idx in inputs]
        if any(is_mask(idx) for idx in inputs):
            raise AdvancedBooleanIndexingError(
                "AdvancedIncSubtensor takes no boolean masks; use AdvancedBooleanIncSubtensor"
            )
        return super().make_node(x, y, *inputs)

    def grad(self, inpt, output_gradients):
        return _increment_grads(self, inpt, output_gradients[0], advanced_subtensor)


class AdvancedBooleanIncSubtensor(BaseAdvancedIncSubtensor):
    """An Op that increments or sets the elements at an index with boolean masks."""

    def grad(self, inpt, output_gradients):
        return _increment_grads(self, inpt, output_gradients[0], advanced_boolean_subtensor)


advanced_subtensor = AdvancedSubtensor()
advanced_boolean_subtensor = AdvancedBooleanSubtensor()
advanced_inc_subtensor = AdvancedIncSubtensor()
advanced_set_subtensor = AdvancedIncSubtensor(set_instead_of_inc=True)
advanced_boolean_inc_subtensor = AdvancedBooleanIncSubtensor()
advanced_boolean_set_subtensor = AdvancedBooleanIncSubtensor(set_instead_of_inc=True)
