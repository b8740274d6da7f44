"""Proofs that an elementwise graph has the same values before and after a rule.

z3 proves that values are equal bit for bit: integers and booleans as bit vectors, floats as IEEE numbers. sympy proves
that values are equal in exact arithmetic. It treats integers as polynomials, whose equations hold for all widths, and
it supports real and complex numbers. A theory supports the Ops for which its class has a method. z3 stops after a
number of steps, not of seconds, so that repeated runs give the same answers.
"""

import functools

import numpy as np

from theano_ng.audit.rewrites.special_values import COMPLEX, FLOATS, INTEGERS
from theano_ng.gof.graph import Constant
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.shaping.allocation import Alloc

try:
    import sympy
    import z3
except ImportError:  # without these packages nothing is proved
    sympy = z3 = None

#: The maximum numbers of steps of z3 for one equation. STEPS applies if all inputs have one-byte dtypes or float16, and
#: takes about one second. FEWER_STEPS applies to graphs with other inputs.
STEPS, FEWER_STEPS = 1_000_000, 100_000

#: The maximum number of nodes in both graphs together. sympy is not called for larger graphs.
MAX_NODES = 24


class Unknown(Exception):
    """The exception for a graph that a theory does not describe, or for an equation that it does not decide."""


class Undecided(Unknown):
    """The exception for an equation for which z3 would need more steps."""


def _kind(dtype):
    return {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex"}[np.dtype(dtype).kind]


class _Theory:
    """A translator of graphs into terms.

    Subclasses define `leaf`, `number`, `converted`, `equal`, and methods with the names of scalar Ops.
    """

    def __init__(self):
        self.leaves = {}

    def translate(self, fgraph, names):
        """Return the terms of the outputs. Inputs with equal names and dtypes have the same term in all graphs."""
        terms = {}
        for v, name in zip(fgraph.inputs, names):
            key = name, v.dtype
            if key not in self.leaves:
                self.leaves[key] = self.leaf(name, v.dtype)
            terms[v] = self.leaves[key]
        for node in fgraph.toposort():
            for v in node.inputs:
                if v not in terms:
                    terms[v] = self._constant(v)
            terms[node.outputs[0]] = self._node(node, [terms[v] for v in node.inputs])
        for v in fgraph.outputs:
            if v not in terms:
                terms[v] = self._constant(v)
        return [terms[v] for v in fgraph.outputs]

    def _constant(self, v):
        if not isinstance(v, Constant) or np.size(v.data) != 1 or not hasattr(v, "dtype"):
            raise Unknown(v)
        return self.number(np.asarray(v.data).reshape(-1)[0], v.dtype)

    def _node(self, node, inputs):
        if isinstance(node.op, (DimShuffle, Alloc)):  # these Ops do not change the values of elements
            return inputs[0]
        if not isinstance(node.op, Elemwise) or len(node.outputs) != 1:
            raise Unknown(node.op)
        name = type(node.op.scalar_op).__name__
        method = getattr(self, name, None)
        if method is None:
            raise Unknown(name)
        return method(node, *inputs)

    def Second(self, node, x, y):
        return self.converted(y, node.inputs[1].dtype, node.outputs[0].dtype)

    def Identity(self, node, x):
        return x

    def Cast(self, node, x):
        return self.converted(x, node.inputs[0].dtype, node.outputs[0].dtype)

    def _operands(self, node, terms, dtype=None):
        dtype = dtype or node.outputs[0].dtype
        return [self.converted(t, v.dtype, dtype) for t, v in zip(terms, node.inputs)]

    def _fold(self, node, terms, function):
        return functools.reduce(function, self._operands(node, terms))


class Bits(_Theory):
    """The theory of integers and booleans as bit vectors. Integers wrap around."""

    def leaf(self, name, dtype):
        if dtype == "bool":
            return z3.Bool(name)
        self._check(dtype)
        return z3.BitVec(name, 8 * np.dtype(dtype).itemsize)

    def _check(self, dtype):
        if dtype not in INTEGERS:
            raise Unknown(dtype)

    def number(self, value, dtype):
        if dtype == "bool":
            return z3.BoolVal(bool(value))
        self._check(dtype)
        return z3.BitVecVal(int(value), 8 * np.dtype(dtype).itemsize)

    def converted(self, term, dtype, to):
        if dtype == to:
            return term
        self._check(dtype) if dtype != "bool" else None
        if to == "bool":
            return term != 0
        self._check(to)
        width = 8 * np.dtype(to).itemsize
        if dtype == "bool":
            return z3.If(term, z3.BitVecVal(1, width), z3.BitVecVal(0, width))
        more = width - term.size()
        if more <= 0:
            return z3.Extract(width - 1, 0, term)
        return z3.SignExt(more, term) if dtype[0] == "i" else z3.ZeroExt(more, term)

    def equal(self, a, b):
        return a == b

    def Add(self, node, *terms):
        return self._arithmetic(node, terms, lambda a, b: a + b, z3.Or)

    def Mul(self, node, *terms):
        return self._arithmetic(node, terms, lambda a, b: a * b, z3.And)

    def _arithmetic(self, node, terms, function, of_bools):
        return self._fold(node, terms, of_bools if node.outputs[0].dtype == "bool" else function)

    def Sub(self, node, x, y):
        self._check(node.outputs[0].dtype)
        return self._fold(node, (x, y), lambda a, b: a - b)

    def Neg(self, node, x):
        self._check(node.outputs[0].dtype)
        return -x

    def IntDiv(self, node, x, y):
        """Return the quotient of `x` and a constant `y`, rounded down."""
        self._check(node.outputs[0].dtype)
        x, y = self._operands(node, (x, y))
        if not z3.is_bv_value(z3.simplify(y)) or z3.simplify(y).as_long() == 0:
            raise Unknown("a divisor that may be zero")
        if node.outputs[0].dtype[0] == "u":
            return z3.UDiv(x, y)
        quotient = x / y
        rest = x - quotient * y
        return z3.If(z3.And(rest != 0, (rest < 0) != (y < 0)), quotient - 1, quotient)

    def Sqr(self, node, x):
        return x if node.outputs[0].dtype == "bool" else x * x

    def Abs(self, node, x):
        return z3.If(x < 0, -x, x) if node.inputs[0].dtype[0] == "i" else x

    def Sgn(self, node, x):
        self._check(node.inputs[0].dtype)
        one, zero = z3.BitVecVal(1, x.size()), z3.BitVecVal(0, x.size())
        positive = z3.If(x == 0, zero, one)
        return z3.If(x < 0, -one, positive) if node.inputs[0].dtype[0] == "i" else positive

    def Invert(self, node, x):
        return z3.Not(x) if node.inputs[0].dtype == "bool" else ~x

    def AND(self, node, *terms):
        return self._arithmetic(node, terms, lambda a, b: a & b, z3.And)

    def OR(self, node, *terms):
        return self._arithmetic(node, terms, lambda a, b: a | b, z3.Or)

    def XOR(self, node, *terms):
        return self._arithmetic(node, terms, lambda a, b: a ^ b, z3.Xor)

    def Switch(self, node, c, x, y):
        c = c if node.inputs[0].dtype == "bool" else c != 0
        out = node.outputs[0].dtype
        return z3.If(c, self.converted(x, node.inputs[1].dtype, out), self.converted(y, node.inputs[2].dtype, out))

    def _compared(self, node, x, y, signed, unsigned):
        dtype = str(np.result_type(*[v.dtype for v in node.inputs]))
        if dtype == "bool":
            dtype = "uint8"
        self._check(dtype)
        x, y = self._operands(node, (x, y), dtype)
        return signed(x, y) if dtype[0] == "i" else unsigned(x, y)

    def EQ(self, node, x, y):
        return self._compared(node, x, y, lambda a, b: a == b, lambda a, b: a == b)

    def NEQ(self, node, x, y):
        return self._compared(node, x, y, lambda a, b: a != b, lambda a, b: a != b)

    def LT(self, node, x, y):
        return self._compared(node, x, y, lambda a, b: a < b, z3.ULT)

    def LE(self, node, x, y):
        return self._compared(node, x, y, lambda a, b: a <= b, z3.ULE)

    def GT(self, node, x, y):
        return self._compared(node, x, y, lambda a, b: a > b, z3.UGT)

    def GE(self, node, x, y):
        return self._compared(node, x, y, lambda a, b: a >= b, z3.UGE)

    def Maximum(self, node, x, y):
        return self._chosen(node, x, y, self.GT)

    def Minimum(self, node, x, y):
        return self._chosen(node, x, y, self.LT)

    def _chosen(self, node, x, y, first):
        a, b = self._operands(node, (x, y))
        return z3.If(first(node, x, y), a, b)


class Ieee(_Theory):
    """The theory of floats with all roundings, infinities and signed zeros. All NaN are equal."""

    def leaf(self, name, dtype):
        return z3.Bool(name) if dtype == "bool" else z3.FP(name, self._sort(dtype))

    def _sort(self, dtype):
        if dtype not in FLOATS:
            raise Unknown(dtype)
        return {"float16": z3.Float16, "float32": z3.Float32, "float64": z3.Float64}[dtype]()

    def number(self, value, dtype):
        if dtype == "bool":
            return z3.BoolVal(bool(value))
        if dtype in INTEGERS:
            return z3.IntVal(int(value))
        sort, bits = self._sort(dtype), 8 * np.dtype(dtype).itemsize
        return z3.fpToFP(z3.BitVecVal(int(value.view("u%d" % value.itemsize)), bits), sort)

    def converted(self, term, dtype, to):
        if dtype == to:
            return term
        sort = self._sort(to)
        if dtype == "bool":
            return z3.If(term, z3.FPVal(1, sort), z3.FPVal(0, sort))
        if z3.is_int_value(term):
            value = np.asarray(term.as_long()).astype(to)
            return self.number(value[()], to)
        return z3.fpToFP(z3.RNE(), term, sort)

    def equal(self, a, b):
        return a == b

    def Add(self, node, *terms):
        return self._fold(node, terms, lambda a, b: z3.fpAdd(z3.RNE(), a, b))

    def Mul(self, node, *terms):
        return self._fold(node, terms, lambda a, b: z3.fpMul(z3.RNE(), a, b))

    def Sub(self, node, x, y):
        return self._fold(node, (x, y), lambda a, b: z3.fpSub(z3.RNE(), a, b))

    def TrueDiv(self, node, x, y):
        return self._fold(node, (x, y), lambda a, b: z3.fpDiv(z3.RNE(), a, b))

    def Inv(self, node, x):
        dtype = node.outputs[0].dtype
        return z3.fpDiv(z3.RNE(), z3.FPVal(1, self._sort(dtype)), self._one(node, x))

    def _one(self, node, x):
        """Return the only operand, converted to the dtype of the result."""
        return self._operands(node, [x])[0]

    def Neg(self, node, x):
        return z3.fpNeg(self._one(node, x))

    def Abs(self, node, x):
        return z3.fpAbs(self._one(node, x))

    def Sqr(self, node, x):
        x = self._one(node, x)
        return z3.fpMul(z3.RNE(), x, x)

    def Sqrt(self, node, x):
        return z3.fpSqrt(z3.RNE(), self._one(node, x))

    def Switch(self, node, c, x, y):
        x, y = [self.converted(t, v.dtype, node.outputs[0].dtype) for t, v in zip((x, y), node.inputs[1:])]
        dtype = node.inputs[0].dtype
        if dtype in INTEGERS:
            c = z3.BoolVal(c.as_long() != 0)
        return z3.If(c if dtype in INTEGERS or dtype == "bool" else z3.Not(z3.fpIsZero(c)), x, y)

    def _compared(self, node, x, y, function):
        dtype = str(np.result_type(*[v.dtype for v in node.inputs]))
        return function(*self._operands(node, (x, y), dtype))

    def EQ(self, node, x, y):
        return self._compared(node, x, y, z3.fpEQ)

    def NEQ(self, node, x, y):
        return z3.Not(self._compared(node, x, y, z3.fpEQ))

    def LT(self, node, x, y):
        return self._compared(node, x, y, z3.fpLT)

    def LE(self, node, x, y):
        return self._compared(node, x, y, z3.fpLEQ)

    def GT(self, node, x, y):
        return self._compared(node, x, y, z3.fpGT)

    def GE(self, node, x, y):
        return self._compared(node, x, y, z3.fpGEQ)

    def IsNan(self, node, x):
        return z3.fpIsNaN(x)

    def IsInf(self, node, x):
        return z3.fpIsInf(x)

    def Invert(self, node, x):
        return self._of_bools(node, [x], z3.Not)

    def AND(self, node, *terms):
        return self._of_bools(node, terms, z3.And)

    def OR(self, node, *terms):
        return self._of_bools(node, terms, z3.Or)

    def XOR(self, node, *terms):
        return self._of_bools(node, terms, z3.Xor)

    def _of_bools(self, node, terms, function):
        if any(v.dtype != "bool" for v in node.inputs):
            raise Unknown(node)
        return function(*terms)


class Polynomials(_Theory):
    """The theory of integers of one dtype that are added and multiplied.

    An equation that holds for all integers also holds with wraparound.
    """

    def leaf(self, name, dtype):
        if dtype not in INTEGERS:
            raise Unknown(dtype)
        return sympy.Symbol(name)

    def number(self, value, dtype):
        return sympy.Integer(int(value))

    def converted(self, term, dtype, to):
        if dtype != to and not (term.is_number and dtype in INTEGERS and to in INTEGERS):
            raise Unknown(to)
        return term

    def equal(self, a, b):
        return a - b

    def _all(self, node, terms, function):
        if node.outputs[0].dtype not in INTEGERS:
            raise Unknown(node)
        return function(*self._operands(node, terms))

    def Add(self, node, *terms):
        return self._all(node, terms, sympy.Add)

    def Mul(self, node, *terms):
        return self._all(node, terms, sympy.Mul)

    def Sub(self, node, x, y):
        return self._all(node, (x, y), lambda a, b: a - b)

    def Neg(self, node, x):
        return self._all(node, (x,), lambda a: -a)

    def Sqr(self, node, x):
        return self._all(node, (x,), lambda a: a**2)


class Reals(_Theory):
    """The theory of real numbers, or of positive numbers, in sympy."""

    def __init__(self, **assumptions):
        super().__init__()
        self.assumptions = assumptions

    def leaf(self, name, dtype):
        if dtype not in FLOATS:
            raise Unknown(dtype)
        return sympy.Symbol(name, real=True, **self.assumptions)

    def number(self, value, dtype):
        value = value.item()
        if isinstance(value, complex) or not np.isfinite(value):
            raise Unknown(value)
        if abs(value - float(np.log(2))) < 1e-12:  # the constant in rewrites of `log(exp(x) + exp(x))`
            return sympy.log(2)
        return sympy.nsimplify(value, rational=True)

    def converted(self, term, dtype, to):
        if to not in FLOATS:
            raise Unknown(to)
        return term

    def equal(self, a, b):
        return a - b

    def Second(self, node, x, y):
        return y

    def _float(self, node):
        if node.outputs[0].dtype not in FLOATS:
            raise Unknown(node.outputs[0].dtype)

    def Add(self, node, *terms):
        self._float(node)
        return sympy.Add(*terms)

    def Mul(self, node, *terms):
        self._float(node)
        return sympy.Mul(*terms)

    def Sub(self, node, x, y):
        self._float(node)
        return x - y

    def TrueDiv(self, node, x, y):
        return x / y

    def Pow(self, node, x, y):
        self._float(node)
        return x**y

    def Switch(self, node, c, x, y):
        """Return the operand that a constant condition selects."""
        self._float(node)
        if not c.is_number:
            raise Unknown("a condition")
        return x if c != 0 else y


def _real_function(function):
    def method(self, node, *terms):
        self._float(node)
        return function(*terms)

    return method


def _erfcx(x):
    return sympy.exp(x**2) * sympy.erfc(x)


if sympy is not None:
    _REAL = {
        "Neg": lambda x: -x,
        "Abs": sympy.Abs,
        "Sgn": sympy.sign,
        "Inv": lambda x: 1 / x,
        "Sqr": lambda x: x**2,
        "Sqrt": sympy.sqrt,
        "Exp": sympy.exp,
        "Expm1": lambda x: sympy.exp(x) - 1,
        "Log": sympy.log,
        "Log1p": lambda x: sympy.log(1 + x),
        "Sinh": sympy.sinh,
        "Cosh": sympy.cosh,
        "Tanh": sympy.tanh,
        "ArcSinh": sympy.asinh,
        "ArcCosh": sympy.acosh,
        "ArcTanh": sympy.atanh,
        "Deg2Rad": lambda x: x * sympy.pi / 180,
        "Rad2Deg": lambda x: x * 180 / sympy.pi,
        "Erf": sympy.erf,
        "Erfc": lambda x: 1 - sympy.erf(x),
        "Erfcx": lambda x: sympy.exp(x**2) * (1 - sympy.erf(x)),
        "ScalarSigmoid": lambda x: 1 / (1 + sympy.exp(-x)),
        "ScalarSoftplus": lambda x: sympy.log(1 + sympy.exp(x)),
        "Maximum": sympy.Max,
        "Minimum": sympy.Min,
    }
    for _name, _function in _REAL.items():
        setattr(Reals, _name, _real_function(_function))


class Complexes(Reals):
    """The theory of complex numbers, mixed with real numbers. Only single-valued functions are translated."""

    _KNOWN = frozenset("Add Mul Sub TrueDiv Neg Inv Sqr Exp Abs Conj Second Identity Cast".split())

    def leaf(self, name, dtype):
        return sympy.Symbol(name) if dtype in COMPLEX else super().leaf(name, dtype)

    def number(self, value, dtype):
        if dtype not in COMPLEX:
            return super().number(value, dtype)
        return super().number(value.real, dtype) + sympy.I * super().number(value.imag, dtype)

    def converted(self, term, dtype, to):
        if to not in FLOATS + COMPLEX or dtype in COMPLEX and to in FLOATS:
            raise Unknown(to)
        return term

    def _float(self, node):
        if node.outputs[0].dtype not in FLOATS + COMPLEX:
            raise Unknown(node)

    def _node(self, node, inputs):
        if isinstance(node.op, Elemwise) and type(node.op.scalar_op).__name__ not in self._KNOWN:
            raise Unknown(node.op)
        return super()._node(node, inputs)

    def Conj(self, node, x):
        return sympy.conjugate(x)


# -- equations ----------------------------------------------------------------------------------------------------------------


def _by_z3(theory, before, after, names):
    """Return True if two graphs have equal outputs for all inputs, and False if z3 finds a counterexample.

    Raise `Undecided` if z3 reaches its limit.
    """
    olds, news = theory.translate(before, names), theory.translate(after, names)
    solver = z3.Solver()
    small = all(np.dtype(v.dtype).itemsize == 1 or v.dtype == "float16" for v in before.inputs)
    solver.set("rlimit", STEPS if small else FEWER_STEPS)
    solver.add(z3.Or(*[z3.Not(theory.equal(a, b)) for a, b in zip(olds, news)]))
    answer = solver.check()
    if answer == z3.unknown:
        raise Undecided(solver.reason_unknown())
    return answer == z3.unsat


def _by_sympy(theory, before, after, names):
    if len(before.apply_nodes) + len(after.apply_nodes) > MAX_NODES:
        raise Unknown("large")
    olds, news = theory.translate(before, names), theory.translate(after, names)
    return all(_is_zero(theory.equal(a, b)) for a, b in zip(olds, news))


@functools.cache
def _is_zero(difference):
    """Return True if sympy simplifies a term to zero. False does not prove that the term is not zero."""
    return difference == 0 or sympy.simplify(sympy.expand(sympy.logcombine(sympy.expand_log(difference)))) == 0


def _theories(dtypes):
    """Return triples (name, theory, function that decides its equations) for graphs of some dtypes."""
    kinds = {_kind(dtype) for dtype in dtypes}
    if kinds <= {"bool", "int", "uint"}:
        return [("bits", Bits(), _by_z3), ("polynomials", Polynomials(), _by_sympy)]
    if "complex" in kinds:
        return [("complex numbers", Complexes(), _by_sympy)]
    found = [("IEEE", Ieee(), _by_z3)] if kinds <= {"bool", "float"} else []
    return [*found, ("reals", Reals(), _by_sympy), ("positive reals", Reals(positive=True), _by_sympy)]


def prove(change, names, hopeless=None):
    """Return the name of a theory that proves that both graphs of a `Rewriting` compute equal values.

    The graphs must be pointwise.

    Parameters
    ----------
    change : Rewriting
    names : list of str
        The names of the inputs.
    hopeless : set, optional
        Names of theories that are skipped. If z3 reaches its limit with a theory, this function adds the name of the
        theory, because z3 would reach the limit for other dtypes of the same rule, too.

    Returns
    -------
    str
        "bits", "polynomials", "IEEE", "reals", "positive reals" or "complex numbers". It is "" if no theory proves the
        equation, or if z3 or sympy is not installed.
    """
    if z3 is None:
        return ""
    hopeless = set() if hopeless is None else hopeless
    for name, theory, decide in _theories([v.dtype for v in change.before.inputs]):
        try:
            if name not in hopeless and decide(theory, change.before, change.after, names):
                return name
        except Undecided:
            hopeless.add(name)
        except (Unknown, z3.Z3Exception, TypeError, ValueError, NotImplementedError, AttributeError):
            continue
    return ""
