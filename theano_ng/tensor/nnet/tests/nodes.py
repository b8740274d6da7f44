"""Helper of the tests of row Ops: run the native code and `perform` of one node on the same values."""

import numpy as np

from theano_ng import tensor as T
from theano_ng.gof.native import make_native_thunk

REFERENCE = {"float16": "float32", "float32": "float64", "float64": "float64"}
TOL = {"float16": 2e-3, "float32": 2e-6, "float64": 1e-13}


def both(op, *values):
    """Return the outputs of `perform` and, if the dtype has native code, of the native code: a list of lists of arrays."""
    node = op.make_node(*[T.TensorType(v.dtype, (False,) * v.ndim)() for v in values])
    results = []
    native = op.native_code(node)
    cells = [[None] for _ in node.outputs]
    with np.errstate(all="ignore"):
        op.perform(node, list(values), cells)
    results.append([c[0] for c in cells])
    if native is not None:
        cells = [[None] for _ in node.outputs]
        thunk = make_native_thunk(node, native, [[v] for v in values], cells)
        thunk()
        first = [c[0] for c in cells]
        thunk()  # the second call reuses the outputs of the first call
        results.append([c[0] for c in cells])
        for a, b in zip(first, results[-1]):
            np.testing.assert_array_equal(a, b)
    return results


def layouts(a):
    """Yield the array contiguous, in Fortran order, strided, with reversed axes, and read-only."""
    yield a
    yield np.asfortranarray(a)
    wide = np.zeros([3 * n for n in a.shape], a.dtype)[(slice(1, None, 3),) * a.ndim]
    wide[...] = a
    yield wide
    back = (slice(None, None, -1),) * a.ndim
    yield a[back].copy()[back]
    locked = a.copy()
    locked.flags.writeable = False
    yield locked


def softmax(x):
    """Return the softmax of the rows of a float64 array."""
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)
