"""The scalar Ops of the package, for the audit: ``theano_ng-audit theano_ng.scalar.tests.audit_cases``.

Each Op is audited inside Elemwise, on points in its domain; the audit adds points outside the domain.
"""

import numpy as np

import theano_ng.scalar as scalar
from theano_ng.audit.records import Case
from theano_ng.scalar import basic_scipy
from theano_ng.tensor.elemwise import Elemwise

X = np.array([[0.3, -0.7, 1.2], [0.9, -1.4, 0.15]])
Y = np.array([[1.1, 0.4, -0.6], [-0.8, 0.25, 1.7]])
SMALL = X / 2  # inside (-1, 1)
POSITIVE = np.abs(X) + 0.25
ABOVE_ONE = np.abs(X) + 1.25
INTS = np.array([[3, -7, 12], [9, -4, 1]])
MORE_INTS = np.array([[2, 5, -3], [-6, 4, 8]])
SHIFTED = np.array([[0.35, 1.2, 2.6], [3.15, 0.8, 1.45]])
Z = X + 1j * Y

# Name of the example input -> names of the functions in theano_ng.scalar that are tested with it.
UNARY = {
    "X": "abs_ sgn neg sqr inv identity exp exp2 expm1 sin cos tan sinh cosh tanh arctan arcsinh deg2rad rad2deg ceil floor trunc "
    "round_half_to_even round_half_away_from_zero isnan isinf conj real imag angle",
    "POSITIVE": "log log2 log10 sqrt",
    "SMALL": "log1p arcsin arccos arctanh",
    "ABOVE_ONE": "arccosh",
    "INTS": "invert",
    "Z": "real imag angle conj abs_ sgn exp",
}
BINARY = {
    (
        "X",
        "Y",
    ): "add sub mul true_div maximum maximum_from_nothing minimum second arctan2 eq neq lt le gt ge complex mod int_div",
    ("POSITIVE", "Y"): "pow complex_from_polar",
    ("INTS", "MORE_INTS"): "and_ or_ xor int_div mod add mul sub maximum minimum eq lt",
    ("Z", "Z"): "add mul sub true_div eq",
}
TERNARY = {"X Y SHIFTED": "add mul clip inclosedrange inopenrange", "INTS X Y": "switch"}
SPECIAL_UNARY = {
    "X": "erf erfc j0 j1 i0 i1",
    "POSITIVE": "erfcx gamma gammaln psi tri_gamma erfcinv",
    "SMALL": "erfinv",
}
SPECIAL_BINARY = {("SHIFTED", "POSITIVE"): "chi2sf gammainc gammaincc gammau gammal jv iv"}


def _bounds_apart(values):
    """Return False if an element and both bounds of clip are equal: the gradient at such a point is a convention."""
    return (np.less(values[1], values[2]) | np.not_equal(values[0], values[1])).all()


def _not_both_zero(values):
    """Return False for 0 ** 0: the documented gradient of x ** y, y * x ** (y - 1), is NaN there."""
    return not (np.equal(values[0], 0) & np.equal(values[1], 0)).any()


#: (name of an Op, names of its example inputs) -> the condition that generated input values must satisfy.
TIED = {("pow", ("POSITIVE", "Y")): _not_both_zero, ("clip", ("X", "Y", "SHIFTED")): _bounds_apart}


class Fits:
    """A condition: values are in the range of an integer dtype.

    C and NumPy do not define conversions of other values.
    """

    def __init__(self, dtype):
        self.info = np.iinfo(dtype)

    def __call__(self, values):
        x = np.real(values[0])
        return x.dtype.kind in "biu" or bool(((x > self.info.min - 1.0) & (x < self.info.max + 1.0)).all())


def _case(op, names, label=None, tied=None):
    label = label or op.name or type(op).__name__
    values = [globals()[name] for name in names]
    return Case(
        Elemwise(op), values, name="%s(%s)" % (label, ", ".join(names)), tied=tied or TIED.get((label, tuple(names)))
    )


def audit_cases():
    """Return one case for each scalar Op and kind of example, and cases of conversions and Composites."""
    found = []
    for table in (UNARY, SPECIAL_UNARY):
        module = basic_scipy if table is SPECIAL_UNARY else scalar
        found += [
            _case(getattr(module, name), [example], name) for example, names in table.items() for name in names.split()
        ]
    for table in (BINARY, SPECIAL_BINARY):
        module = basic_scipy if table is SPECIAL_BINARY else scalar
        found += [
            _case(getattr(module, name), examples, name) for examples, names in table.items() for name in names.split()
        ]
    for examples, names in TERNARY.items():
        found += [_case(getattr(scalar, name), examples.split(), name) for name in names.split()]
    for dtype in ("bool", "int8", "int64", "uint8", "uint32", "float16", "float32", "float64", "complex64"):
        op = getattr(scalar.basic, "convert_to_" + dtype)
        found.append(_case(op, ["INTS"], "convert_to_" + dtype, Fits(dtype) if dtype.startswith(("i", "u")) else None))
        if not dtype.startswith(("b", "i", "u")):
            found.append(_case(op, ["X"], "convert_to_" + dtype))
    x, y = scalar.float64("x"), scalar.float64("y")
    found.append(_case(scalar.Composite([x, y], [x * y + scalar.exp(x)]), ["X", "Y"], "Composite"))
    found.append(_case(scalar.Composite([x, y], [x + y, scalar.tanh(x) * y]), ["X", "Y"], "Composite of two outputs"))
    return found
