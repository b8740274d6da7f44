"""Shared scalars: mutable numbers that several functions may use.

Shared scalars are an example of shared variables that are not tensors. `shared` of this module makes them. By contrast,
`theano_ng.shared` makes a 0-d tensor from a number.
"""

import numpy as np

from theano_ng.compile import SharedVariable
from theano_ng.scalar.types import convert, get_scalar_type
from theano_ng.scalar.variables import _scalar_py_operators

integer_types = (int,)


class ScalarSharedVariable(_scalar_py_operators, SharedVariable):
    """A shared variable of type `Scalar`."""


def shared(value, name=None, strict=False, allow_downcast=None):
    """Return a shared scalar initialized with `value`.

    Parameters
    ----------
    value : int, float, complex or NumPy scalar
        The initial value. A Python int is stored as int64, a Python float as float64.
    name : str, optional
    strict : bool
        If True, later values must have exactly the dtype of the shared scalar.
    allow_downcast : bool, optional
        If True, later values are converted to this dtype even if they lose precision.

    Raises
    ------
    TypeError
        If `value` is not one number.
    """
    if not isinstance(value, (np.number, np.bool_, float, int, complex)):
        raise TypeError("scalar.shared expected a number, got %r of type %s" % (value, type(value)))
    array = np.asarray(value) if isinstance(value, (int, float, complex)) else convert(value)
    type_ = get_scalar_type(array.dtype.name)
    return ScalarSharedVariable(type=type_, value=array[()], name=name, strict=strict, allow_downcast=allow_downcast)
