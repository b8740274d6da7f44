"""Functions that derive the shape of a sample from `size`, `ndim` and the parameters of a distribution."""

import operator

import numpy as np

from theano_ng.gof.graph import Constant, Variable
from theano_ng.tensor.constant import as_tensor_variable, extract_constant, get_vector_length
from theano_ng.tensor.dtypes import INTEGERS
from theano_ng.tensor.elemwise.functions import add, cast, maximum
from theano_ng.tensor.shaping.joining import stack

__all__ = ["infer_ndim_bcast", "broadcasting_indices"]


def _element(size, i):
    """Return the length that an entry of `size` specifies, as an int or a variable.

    Raise TypeError if the entry is not an integer, and ValueError if it is less than -1.
    """
    if isinstance(size, Variable):
        if size.type.dtype not in INTEGERS:
            raise TypeError("shape must be an integer vector or list", size.type.dtype)
        if getattr(size.type, "ndim", 0):
            raise TypeError("shape must be an integer vector or list", "element %d is %s" % (i, size.type))
        value = extract_constant(size)
        return size if isinstance(value, Variable) else int(value)
    try:
        size = operator.index(size)
    except TypeError:
        raise TypeError("shape must be an integer vector or list", "%r of %s" % (size, type(size).__name__)) from None
    if size < -1:
        raise ValueError("Negative shape", "element %d is %d" % (i, size))
    return size


def _taken_from(args, axis):
    """Return the length to which `args` are broadcast along the negative `axis`, and whether it is known to be 1."""
    there = [arg for arg in args if arg.ndim >= -axis]
    if not there:
        raise ValueError("Auto-shape of -1 must overlap with the shape of one of the broadcastable inputs")
    lengths = [arg.shape[arg.ndim + axis] for arg in there if not arg.broadcastable[arg.ndim + axis]]
    if not lengths:
        return 1, True
    length = lengths[0]
    for other in lengths[1:]:
        length = maximum(length, other)
    return length, False


def infer_ndim_bcast(ndim, shape, *args):
    """Return the rank, shape and broadcast pattern of a sample.

    Parameters
    ----------
    ndim : int or None
        The rank. None means the length of `shape`, which must then be known.
    shape : sequence of int and integer scalars, integer vector, or None
        A length of -1 means the length of the parameters along the same axis. Axes are counted from the last axis.
        None means the shape to which the parameters are broadcast.
    *args : TensorVariable
        The parameters.

    Returns
    -------
    ndim : int
    shape : TensorVariable
        An int64 vector.
    bcast : tuple of bool
        One flag for each axis: True if the length is known to be 1.

    Raises
    ------
    TypeError
        If the shape is not a vector of integers, or if neither a shape nor parameters are given.
    ValueError
        If `ndim` contradicts `shape`, is less than the rank of a parameter, or cannot be determined. Also if a length
        is less than -1, or if a length of -1 has no corresponding axis in a parameter.
    """
    args_ndim = max([arg.ndim for arg in args], default=0)
    if isinstance(shape, np.ndarray) and shape.ndim == 1 and shape.dtype.kind in "iu":
        shape = shape.tolist()
    if isinstance(shape, (tuple, list)):
        if ndim is None:
            ndim = len(shape)
        elif ndim != len(shape):
            raise ValueError(
                "ndim should be equal to len(shape), but\n",
                "ndim = %s, len(shape) = %s, shape = %s" % (ndim, len(shape), shape),
            )
        lengths, bcast = [], []
        for i, size in enumerate(shape):
            length = _element(size, i)
            ones = isinstance(length, int) and length == 1
            if isinstance(length, int) and length == -1:
                length, ones = _taken_from(args, i - ndim)
            lengths.append(length if isinstance(length, int) or not isinstance(size, Variable) else size)
            bcast.append(ones)
        if all(isinstance(length, int) for length in lengths):
            # Build the same graph as Theano 1.0, because users may print the graph: a vector of the smallest dtype, and
            # a cast.
            vector = (
                stack([as_tensor_variable(length) for length in lengths])
                if lengths
                else as_tensor_variable(np.zeros(0, "int8"))
            )
        else:
            vector = stack([cast(as_tensor_variable(length), "int64") for length in lengths])
        vector = cast(vector, "int64")
    elif shape is None:
        if not args:
            raise TypeError("_infer_ndim_bcast cannot infer shape without either shape or args")
        template = args[0] if len(args) == 1 else add(*args)
        if ndim is not None and ndim != template.ndim:
            raise ValueError(
                "ndim is %s, but the parameters have %d dimension(s), and size is not given" % (ndim, template.ndim)
            )
        ndim, vector, bcast = template.ndim, template.shape, template.broadcastable
    else:
        vector = as_tensor_variable(shape)
        if vector.ndim != 1:
            raise TypeError("shape must be a vector or list of scalar, got '%s'" % vector)
        if vector.dtype not in INTEGERS:
            raise TypeError("shape must be an integer vector or list", vector.dtype)
        if ndim is None:
            ndim = get_vector_length(vector)
        elif isinstance(vector, Constant) and len(vector.data) != ndim:
            raise ValueError(
                "ndim should be equal to len(shape), but\n",
                "ndim = %s, len(shape) = %s, shape = %s" % (ndim, len(vector.data), vector.data),
            )
        bcast = [bool(length == 1) for length in vector.data] if isinstance(vector, Constant) else [False] * ndim
        vector = cast(vector, "int64")
    if args_ndim > ndim:
        raise ValueError("ndim should be at least as big as required by args value", (ndim, args_ndim), args)
    return ndim, vector, tuple(bcast)


def broadcasting_indices(out_shape, *shapes):
    """Return the index tuples of arrays that are broadcast against `out_shape`.

    Parameters
    ----------
    out_shape : tuple of int
    *shapes : tuple of int
        The shapes of the arrays. Each shape has the rank of `out_shape`. Along each axis, its length is 1 or the length
        in `out_shape`.

    Returns
    -------
    list of list of tuple of int
        The first list contains all index tuples of `out_shape`, in C order. It is followed by one list for each shape
        in `shapes`, with the corresponding index tuples of the array.

    Raises
    ------
    ValueError
        If the rank or a length does not fit.
    """
    for shape in shapes:
        if len(shape) != len(out_shape):
            raise ValueError("shapes have different lengths", shape, out_shape, shapes)
        for i, (length, wanted) in enumerate(zip(shape, out_shape)):
            if length not in (1, wanted):
                raise ValueError(
                    "shape[%i] (%i) should be equal to out_shape[%i] (%i) or to 1" % (i, length, i, wanted),
                    shape,
                    out_shape,
                    shapes,
                )
    every = list(np.ndindex(*out_shape))
    return [every] + [[tuple(k if n > 1 else 0 for k, n in zip(index, shape)) for index in every] for shape in shapes]
