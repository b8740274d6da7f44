"""The geometry of pooling windows: parameters `ws`, `stride` and `pad`, lengths of outputs, ranges of elements."""

import numpy as np

from theano_ng.gof.graph import Constant, Variable
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import DISCRETE
from theano_ng.tensor.elemwise.functions import eq, ge, maximum, switch
from theano_ng.tensor.shaping.joining import stack


def as_window(value, ndim, name):
    """Return `ws`, `stride` or `pad` as a vector of integers.

    Parameters
    ----------
    value : int, sequence of ints or of integer scalars, or symbolic integer scalar or vector
        The value of the parameter. A single number applies to all axes.
    ndim : int
        The number of pooled axes.
    name : str
        The name of the parameter, for error messages.

    Raises
    ------
    TypeError
        If the values are not integers.
    ValueError
        If the number of values is known and is not `ndim`.
    """
    if not isinstance(value, Variable) and isinstance(value, (list, tuple)) and len(value) != ndim:
        raise ValueError("%s must be a vector of size %d, got %s" % (name, ndim, value))
    value = as_tensor_variable(value)
    if value.dtype not in DISCRETE or value.dtype == "bool":
        raise TypeError("Pool downsample parameters must be ints: %s is of type %s" % (name, value.type))
    if value.ndim == 0:
        value = stack([value] * ndim)
    if value.ndim != 1 or (isinstance(value, Constant) and value.data.shape != (ndim,)):
        raise ValueError("%s must be a vector of size %d, got %s" % (name, ndim, value))
    return value


def known(value):
    """Return the elements of a constant vector as a list of ints. Return None for a variable."""
    return [int(i) for i in value.data] if isinstance(value, Constant) else None


def check(ws, stride, pad, ignore_border):
    """Raise ValueError if the windows are invalid.

    Parameters
    ----------
    ws, stride, pad : sequence of int
    ignore_border : bool

    Raises
    ------
    ValueError
        If a value is too small, `pad` is used without `ignore_border`, or `pad` is not smaller than `ws`.
    """
    for name, values, least in (("ws", ws, 1), ("stride", stride, 1), ("pad", pad, 0)):
        if min(values) < least:
            raise ValueError("Pool: %s must be at least %d for every axis, got %s" % (name, least, tuple(values)))
    if max(pad) > 0 and not ignore_border:
        raise ValueError("Pool: pad works only with ignore_border=True, got pad=%s" % (tuple(pad),))
    if any(p >= w for p, w in zip(pad, ws)):
        raise ValueError("Pool: pad must be smaller than ws, got pad=%s and ws=%s" % (tuple(pad), tuple(ws)))


def output_length(n, window, stride, pad, ignore_border):
    """Return the number of windows along an axis. The arguments are numbers or variables.

    With `ignore_border`, only complete windows count: ``(n + 2 pad - window) // stride + 1``. Without `ignore_border`,
    the windows continue until one reaches the end of the axis, or the next one would begin beyond the end. The last
    window may be cut. An axis of length 0 has no windows.
    """
    if not any(isinstance(i, Variable) for i in (n, window, stride, pad)):
        if n == 0:
            return 0
        if ignore_border:
            return max((n + 2 * pad - window) // stride + 1, 0)
        return (n - 1) // stride + 1 if stride >= window else max(0, (n - 1 - window + stride) // stride) + 1
    if ignore_border:
        if isinstance(pad, Variable) or pad:
            return switch(eq(n, 0), 0, maximum((n + 2 * pad - window) // stride + 1, 0))
        return maximum((n - window) // stride + 1, 0)
    apart = (n - 1) // stride + 1
    if stride is window:
        return apart
    overlapping = switch(eq(n, 0), 0, maximum(0, (n - 1 - window + stride) // stride) + 1)
    if isinstance(stride, Variable) or isinstance(window, Variable):
        return switch(ge(stride, window), apart, overlapping)
    return apart if stride >= window else overlapping


def ranges(n, count, window, stride, pad):
    """Return for each window along an axis the range of its elements, and its length in the padded image.

    Returns
    -------
    list of (int, int, int)
        The index of the first element, the index after the last element, and the divisor for an average that includes
        the padding.
    """
    result = []
    for i in range(count):
        first = i * stride - pad
        last = min(first + window, n + pad)
        result.append((max(first, 0), min(last, n), last - first))
    return result


def shape_of_output(shape, ws, stride, pad, ignore_border):
    """Return the shape of the output, given the shape of the input. The last axes are pooled.

    Lengths may be variables.
    """
    before = len(shape) - len(ws)
    return [
        *shape[:before],
        *[output_length(n, *w, ignore_border) for n, w in zip(shape[before:], zip(ws, stride, pad))],
    ]


def windows(shape, ws, stride, pad, ignore_border):
    """Iterate over all windows.

    Parameters
    ----------
    shape : tuple of int
        The lengths of the pooled axes.

    Yields
    ------
    position : tuple
        The index of the window in the output, ``(Ellipsis, i, j)``.
    region : tuple
        The index of the elements of the window in the input: Ellipsis, and a slice for each pooled axis.
    room : int
        The divisor for an average that includes the padding.
    """
    along = [ranges(n, output_length(n, w, s, p, ignore_border), w, s, p) for n, w, s, p in zip(shape, ws, stride, pad)]
    for position in np.ndindex(*[len(axis) for axis in along]):
        parts = [axis[i] for axis, i in zip(along, position)]
        room = 1
        for part in parts:
            room *= part[2]
        yield (Ellipsis, *position), (Ellipsis, *[slice(first, last) for first, last, _ in parts]), room
