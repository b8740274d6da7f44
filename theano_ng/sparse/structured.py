"""Elementwise functions of a sparse matrix that are applied to its entries only. All have a structured gradient."""

import functools

from theano_ng.sparse.common import compressed
from theano_ng.sparse.conversion import CSM, csm_properties
from theano_ng.sparse.type import SparseType
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.elemwise import functions as T
from theano_ng.tensor.nnet.sigmoids import sigmoid

__all__ = (
    "arcsin arcsinh arctan arctanh ceil conj deg2rad expm1 floor log1p rad2deg rint sgn sin sinh sqr sqrt structured_add structured_exp"
    " structured_log structured_maximum structured_minimum structured_monoid structured_pow structured_sigmoid tan tanh trunc"
).split()


def structured_monoid(tensor_op):
    """Return a decorator that makes a function of sparse matrices from an elementwise function of tensors.

    Parameters
    ----------
    tensor_op : callable
        An elementwise function of a vector, and possibly of scalars.

    Returns
    -------
    callable
        The decorator. It returns a function that applies `tensor_op` to the entries of its first argument, a sparse
        matrix. Further arguments are the scalars of `tensor_op`. Only the name and the docstring of the decorated
        function are used.

    Examples
    --------
    >>> from theano_ng import sparse
    >>> import theano_ng.tensor as T
    >>> @sparse.structured_monoid(T.exp)
    ... def exp(x):
    ...     "The exponential of the entries."
    >>> x = sparse.csr_matrix("x")
    >>> exp(x).eval({x: [[0.0, 1.0]]}).toarray()
    array([[0.        , 2.71828183]])
    """

    def decorator(described):
        @functools.wraps(described)
        def wrapper(*args):
            x = compressed(args[0], described.__name__)
            numbers = []
            for arg in args[1:]:
                number = as_tensor_variable(arg)
                if number.ndim != 0:
                    raise TypeError(
                        "%s: expected a sparse matrix and numbers, got %s of type %s"
                        % (described.__name__, number, number.type)
                    )
                numbers.append(number)
            data, indices, indptr, shape = csm_properties(x)
            return CSM(x.format)(tensor_op(data, *numbers), indices, indptr, shape)

        return wrapper

    return decorator


def _structured(name, tensor_op, what):
    takes_number = name in ("structured_pow", "structured_minimum", "structured_maximum", "structured_add")
    described = (lambda x, y: None) if takes_number else (lambda x: None)
    described.__name__ = described.__qualname__ = name
    described.__doc__ = (
        "%s of the stored elements of a sparse matrix; elements that are not stored remain zero. The gradient "
        "is structured.\n\n    Parameters\n    ----------\n    x : SparseVariable\n        In format csr or "
        "csc.%s\n\n    Returns\n    -------\n    SparseVariable\n        In the format of the matrix.\n    "
    ) % (what, "\n    y : scalar" if takes_number else "")
    return structured_monoid(tensor_op)(described)


structured_sigmoid = _structured("structured_sigmoid", sigmoid, "The logistic function")
structured_exp = _structured("structured_exp", T.exp, "The exponential")
structured_log = _structured("structured_log", T.log, "The logarithm")
structured_pow = _structured("structured_pow", T.pow, "A power")
structured_minimum = _structured("structured_minimum", T.minimum, "The minimum, with a number,")
structured_maximum = _structured("structured_maximum", T.maximum, "The maximum, with a number,")
structured_add = _structured("structured_add", T.add, "The sum, with a number,")

# These functions map zero to zero. So their results equal the results for the dense matrix.
sin = _structured("sin", T.sin, "The sine")
arcsin = _structured("arcsin", T.arcsin, "The inverse sine")
tan = _structured("tan", T.tan, "The tangent")
arctan = _structured("arctan", T.arctan, "The inverse tangent")
sinh = _structured("sinh", T.sinh, "The hyperbolic sine")
arcsinh = _structured("arcsinh", T.arcsinh, "The inverse hyperbolic sine")
tanh = _structured("tanh", T.tanh, "The hyperbolic tangent")
arctanh = _structured("arctanh", T.arctanh, "The inverse hyperbolic tangent")
rint = _structured("rint", T.round_half_to_even, "The nearest integer, an even one from the middle of two,")
sgn = _structured("sgn", T.sgn, "The sign")
ceil = _structured("ceil", T.ceil, "The least integer that is not less")
floor = _structured("floor", T.floor, "The greatest integer that is not greater")
trunc = _structured("trunc", T.trunc, "The integer part")
log1p = _structured("log1p", T.log1p, "The logarithm of 1 plus the operand")
expm1 = _structured("expm1", T.expm1, "The exponential minus 1")
deg2rad = _structured("deg2rad", T.deg2rad, "The angle in radians")
rad2deg = _structured("rad2deg", T.rad2deg, "The angle in degrees")
sqr = _structured("sqr", T.sqr, "The square")
sqrt = _structured("sqrt", T.sqrt, "The square root")
conj = _structured("conj", T.conj, "The complex conjugate")
real = _structured("real", T.real, "The real part")


def conj_if_complex(x):
    """Return the complex conjugate of a complex variable, sparse or dense. Return any other variable unchanged."""
    if not x.dtype.startswith("complex"):
        return x
    return (conj if isinstance(x.type, SparseType) else T.conj)(x)
