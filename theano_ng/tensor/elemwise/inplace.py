"""Elementwise operations that overwrite their first argument.

``add_inplace(x, y)`` computes ``add(x, y)`` and stores the result in the memory of `x`. Rewriting rules insert such
operations where they are safe. A user who calls such an operation must pass a temporary or a mutable input as its first
argument.
"""

from theano_ng.tensor.elemwise.functions import _scal_elemwise_with_nfunc
from theano_ng.tensor.elemwise.op import DimShuffle

# name -> (NumPy name or None, number of inputs)
_OPERATIONS = {
    "lt": ("less", 2),
    "gt": ("greater", 2),
    "le": ("less_equal", 2),
    "ge": ("greater_equal", 2),
    "eq": ("equal", 2),
    "neq": ("not_equal", 2),
    "and_": ("bitwise_and", 2),
    "or_": ("bitwise_or", 2),
    "xor": ("bitwise_xor", 2),
    "invert": ("invert", 1),
    "abs_": ("abs", 1),
    "exp": ("exp", 1),
    "exp2": ("exp2", 1),
    "expm1": ("expm1", 1),
    "neg": ("negative", 1),
    "inv": ("reciprocal", 1),
    "log": ("log", 1),
    "log1p": ("log1p", 1),
    "log2": ("log2", 1),
    "log10": ("log10", 1),
    "sgn": ("sign", 1),
    "ceil": ("ceil", 1),
    "floor": ("floor", 1),
    "trunc": ("trunc", 1),
    "round_half_to_even": ("around", 1),
    "round_half_away_from_zero": (None, 1),
    "sqr": ("square", 1),
    "sqrt": ("sqrt", 1),
    "deg2rad": ("deg2rad", 1),
    "rad2deg": ("rad2deg", 1),
    "cos": ("cos", 1),
    "arccos": ("arccos", 1),
    "sin": ("sin", 1),
    "arcsin": ("arcsin", 1),
    "tan": ("tan", 1),
    "arctan": ("arctan", 1),
    "arctan2": ("arctan2", 2),
    "cosh": ("cosh", 1),
    "arccosh": ("arccosh", 1),
    "sinh": ("sinh", 1),
    "arcsinh": ("arcsinh", 1),
    "tanh": ("tanh", 1),
    "arctanh": ("arctanh", 1),
    "erf": (None, 1),
    "erfc": (None, 1),
    "erfcx": (None, 1),
    "gamma": (None, 1),
    "gammaln": (None, 1),
    "psi": (None, 1),
    "tri_gamma": (None, 1),
    "chi2sf": (None, 2),
    "j0": (None, 1),
    "j1": (None, 1),
    "jv": (None, 2),
    "i0": (None, 1),
    "i1": (None, 1),
    "iv": (None, 2),
    "second": (None, 2),
    "maximum": ("maximum", 2),
    "minimum": ("minimum", 2),
    "add": ("add", 2),
    "sub": ("subtract", 2),
    "mul": ("multiply", 2),
    "true_div": ("true_divide", 2),
    "int_div": ("floor_divide", 2),
    "mod": ("mod", 2),
    "pow": ("power", 2),
    "conj": ("conj", 1),
}


def _scal_inplace(symbol):
    """Return the in-place Elemwise that replaces the decorated function `symbol` and has its name."""
    return _scal_elemwise_with_nfunc(None, None, None)(symbol)


def _define(namespace):
    for name, (nfunc, nin) in _OPERATIONS.items():

        def symbol():
            pass

        symbol.__name__ = name + "_inplace"
        symbol.__module__ = __name__
        symbol.__doc__ = "`%s`, computed into the storage of the first argument, whose dtype the result has." % name
        namespace[symbol.__name__] = _scal_elemwise_with_nfunc(nfunc, nin, 1 if nfunc else None)(symbol)


_define(globals())
fill_inplace = second_inplace  # type: ignore[name-defined]  # noqa: F821, defined by the call above


def transpose_inplace(x, **kwargs):
    """Return the transpose of a tensor, as a view.

    Parameters
    ----------
    x : TensorVariable
    **kwargs
        Passed to the call of the Op.
    """
    return DimShuffle(x.broadcastable, list(range(x.ndim - 1, -1, -1)), inplace=True)(x, **kwargs)
