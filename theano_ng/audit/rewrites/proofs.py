"""Proofs that an elementwise graph has the same values before and after a rule.

Three theories: integers and booleans as bit vectors and float16 as IEEE numbers, both by z3 and bit for bit; real numbers by sympy. Each
has the Ops that its table names. z3 works up to a number of steps, not of seconds, so that the same run gives the same answers.
"""

import functools

import numpy as np

from theano_ng.audit.rewrites.special import FLOATS, INTEGERS
from theano_ng.gof.graph import Constant
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.shaping.allocation import Alloc

try:
    import sympy
    import z3
except ImportError:  # proofs are left out
    sympy = z3 = None

#: Steps of z3 for one equation: some seconds.
STEPS = 3_000_000

#: Nodes of a graph that sympy is asked about.
MOST_NODES = 24


class Unknown(Exception):
    """A graph that a theory does not describe, or an equation that was not decided."""


def _kind(dtype):
    return {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex"}[np.dtype(dtype).kind]


class _Theory:
    """Translates a graph node by node; subclasses have `leaf`, `number` and the methods of Ops, named after the class of the scalar Op."""

    def __init__(self):
        self.leaves = {}

    def translate(self, fgraph, names):
        """The terms of the outputs; `names` are those of the inputs, which have the same terms in all graphs."""
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
        if isinstance(node.op, (DimShuffle, Alloc)):  # the same element
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
    """Integers and booleans as vectors of bits, which wrap around."""

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
        """By a constant, rounded down."""
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


class HalfFloats(_Theory):
    """Float16 with all its roundings, infinities and zeros; every NaN is the same."""

    def _check(self, dtype):
        if dtype != "float16":
            raise Unknown(dtype)

    def leaf(self, name, dtype):
        if dtype == "bool":
            return z3.Bool(name)
        self._check(dtype)
        return z3.FP(name, z3.Float16())

    def number(self, value, dtype):
        if dtype == "bool":
            return z3.BoolVal(bool(value))
        value = float(value)
        if dtype not in FLOATS + INTEGERS or np.float16(value) != value and value == value:
            raise Unknown(dtype)
        return z3.fpToFP(z3.BitVecVal(int(np.float16(value).view("uint16")), 16), z3.Float16())

    def converted(self, term, dtype, to):
        # A small whole number is the same in all dtypes.
        if (
            to not in ("float16", dtype)
            or dtype not in ("float16", to)
            and z3.is_expr(term)
            and not z3.is_fp_value(term)
        ):
            raise Unknown(to)
        return term

    def equal(self, a, b):
        return a == b

    def Add(self, node, *terms):
        self._check(node.outputs[0].dtype)
        return self._fold(node, terms, lambda a, b: z3.fpAdd(z3.RNE(), a, b))

    def Mul(self, node, *terms):
        self._check(node.outputs[0].dtype)
        return self._fold(node, terms, lambda a, b: z3.fpMul(z3.RNE(), a, b))

    def Sub(self, node, x, y):
        self._check(node.outputs[0].dtype)
        return self._fold(node, (x, y), lambda a, b: z3.fpSub(z3.RNE(), a, b))

    def TrueDiv(self, node, x, y):
        self._check(node.outputs[0].dtype)
        return self._fold(node, (x, y), lambda a, b: z3.fpDiv(z3.RNE(), a, b))

    def Inv(self, node, x):
        return z3.fpDiv(z3.RNE(), self.number(1, "float16"), x)

    def Neg(self, node, x):
        return z3.fpNeg(x)

    def Abs(self, node, x):
        return z3.fpAbs(x)

    def Sqr(self, node, x):
        return z3.fpMul(z3.RNE(), x, x)

    def Sqrt(self, node, x):
        return z3.fpSqrt(z3.RNE(), x)

    def Switch(self, node, c, x, y):
        return z3.If(c if node.inputs[0].dtype == "bool" else z3.Not(z3.fpIsZero(c)), x, y)

    def EQ(self, node, x, y):
        return z3.fpEQ(x, y)

    def NEQ(self, node, x, y):
        return z3.Not(z3.fpEQ(x, y))

    def LT(self, node, x, y):
        return z3.fpLT(x, y)

    def LE(self, node, x, y):
        return z3.fpLEQ(x, y)

    def GT(self, node, x, y):
        return z3.fpGT(x, y)

    def GE(self, node, x, y):
        return z3.fpGEQ(x, y)

    def IsNan(self, node, x):
        return z3.fpIsNaN(x)

    def IsInf(self, node, x):
        return z3.fpIsInf(x)


class Reals(_Theory):
    """Real numbers, or positive ones, by sympy."""

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
        if abs(value - float(np.log(2))) < 1e-12:  # of `log(exp(x) + exp(x))`
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
        """With a constant condition."""
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


# -- equations ----------------------------------------------------------------------------------------------------------------


def _by_z3(theory, before, after, names):
    """True or False, or `Unknown`: whether two graphs have the same outputs."""
    olds, news = theory.translate(before, names), theory.translate(after, names)
    solver = z3.Solver()
    solver.set("rlimit", STEPS)
    solver.add(z3.Or(*[z3.Not(theory.equal(a, b)) for a, b in zip(olds, news)]))
    answer = solver.check()
    if answer == z3.unknown:
        raise Unknown(solver.reason_unknown())
    return answer == z3.unsat


def _by_sympy(theory, before, after, names):
    if len(before.apply_nodes) + len(after.apply_nodes) > MOST_NODES:
        raise Unknown("large")
    for a, b in zip(theory.translate(before, names), theory.translate(after, names)):
        difference = theory.equal(a, b)
        if difference != 0 and sympy.simplify(sympy.expand(sympy.logcombine(sympy.expand_log(difference)))) != 0:
            raise Unknown("not simplified to zero")
    return True


def prove(change, names):
    """By which theory both graphs of a `Rewriting` are equal, each element of which depends on one element of each input.

    Parameters
    ----------
    change : Rewriting
    names : list of str
        One for each input.

    Returns
    -------
    str
        "bits", "float16", "reals" or "positive reals"; "" where no theory proves it.
    """
    if z3 is None:
        return ""
    kinds = {_kind(v.dtype) for v in change.before.inputs}
    dtypes = {v.dtype for v in change.before.inputs}
    if kinds <= {"bool", "int", "uint"}:
        attempts = [("bits", Bits(), _by_z3)]
    elif dtypes <= {"bool", "float16"}:
        attempts = [("float16", HalfFloats(), _by_z3)]
    else:
        attempts = [("reals", Reals(), _by_sympy), ("positive reals", Reals(positive=True), _by_sympy)]
    for name, theory, decide in attempts:
        try:
            if decide(theory, change.before, change.after, names):
                return name
        except (Unknown, z3.Z3Exception, TypeError, ValueError, NotImplementedError, AttributeError):
            continue
    return ""
