"""The steps of a program for the interpreter of elementwise operations: what scalar ops become, in the order in which kernels compute."""

import numpy as np

from theano_ng.scalar.basic import mul
from theano_ng.scalar.op import is_complex, is_discrete
from theano_ng.scalar.ops_arith import Identity, IntDiv, Maximum, Minimum, Mod, Second, Switch
from theano_ng.scalar.ops_compare import IsInf, IsNan
from theano_ng.scalar.ops_complex import Cast
from theano_ng.scalar.ops_math import Deg2Rad, Rad2Deg
from theano_ng.tensor.elemwise.chains import chained
from theano_ng.tensor.elemwise.complex_steps import COMPLEX_RULES, OF_PARTS, Parts
from theano_ng.tensor.elemwise.primitives import BRANCHING, PARTS, conversion, library, name_of, operand_dtype

_COMPLEX = {part: dtype for dtype, part in PARTS.items()}


class Unsupported(Exception):
    """A scalar op has no instructions."""


class Writer:
    """Values and steps, as they are written down.

    Values are ``(kind, number)`` with kinds "operand", "constant" and "result", or `Parts` of such; results are numbered as they are computed,
    and get registers when all is known.
    """

    def __init__(self, dtypes):
        self.dtypes = {("operand", k): dtype for k, dtype in enumerate(dtypes)}
        self.constants = {}
        self.steps = []  # name of the instruction, its result, its operands
        self.exact = True  # whether the compiled kernel gives the same bits
        self.known = set()  # results that depend on constants alone

    def emit(self, name, dtype, *operands):
        value = ("result", len(self.steps))
        self.dtypes[value] = dtype
        self.steps.append((name, value, operands))
        if all(map(self.is_known, operands)):
            self.known.add(value)
        return value

    def is_known(self, value):
        return value[0] == "constant" or value in self.known

    def dtype_of(self, value):
        return _COMPLEX[self.dtypes[value.re]] if isinstance(value, Parts) else self.dtypes[value]

    def operand(self, k):
        """The value of an operand: of float16 floats, of complex numbers their parts."""
        value, dtype = ("operand", k), self.dtypes["operand", k]
        if is_complex(dtype):
            return self.split(value, dtype)
        return self.convert(value, "float32") if dtype == "float16" else value

    def split(self, value, dtype):
        return Parts(*[self.emit("%s_%s" % (part, dtype), PARTS[dtype], value) for part in ("Real", "Imag")])

    def join(self, value):
        """The complex number that the parts are of, as it lies in memory."""
        dtype = self.dtype_of(value)
        return self.emit("Complex_" + dtype, dtype, *value)

    def constant(self, dtype, data):
        """A constant; of float16 the float of the same value."""
        if is_complex(dtype):
            data = np.asarray(data, dtype=dtype)
            return Parts(self.constant(PARTS[dtype], data.real), self.constant(PARTS[dtype], data.imag))
        dtype = "float32" if dtype == "float16" else dtype
        data = np.asarray(data, dtype=dtype)
        value = self.constants.setdefault((dtype, data.tobytes()), ("constant", len(self.constants)))
        self.dtypes[value] = dtype
        return value

    def convert(self, value, dtype):
        if is_complex(dtype):
            parts = value if isinstance(value, Parts) else Parts(value, self.constant(PARTS[dtype], 0))
            return Parts(*[self.convert(part, PARTS[dtype]) for part in parts])
        if isinstance(value, Parts):
            if dtype != "bool":
                return self.convert(value.re, dtype)
            return self.emit("OR_bool", "bool", *[self.convert(part, "bool") for part in value])
        source = self.dtypes[value]
        return value if source == dtype else self.emit(conversion(source, dtype), dtype, value)

    def apply(self, op, operands, dtypes, out):
        """Emit what computes a scalar op.

        Parameters
        ----------
        op : ScalarOp
        operands : list of values
            Where the dtype of the op is float16 they are float32.
        dtypes : list of str
            Those that the op has.
        out : str

        Returns
        -------
        value
            float32 for float16, rounded.
        """
        wide = [self.dtype_of(v) for v in operands]
        target = "float32" if out == "float16" else out
        computed = op._c_dtype(dtypes, out)
        computed = "float32" if computed == "float16" else computed
        kind = type(op)
        # A compiler evaluates the package's own functions of constants itself, and rounds each product there; of complex numbers it fuses products.
        of_constants = all(self.is_known(part) for v in operands for part in single(v))
        folded = op.c_helpers or op.c_float_helpers or any(map(is_complex, (*wide, computed)))
        divides = kind in (IntDiv, Mod) and not is_discrete(computed)
        # A selection of complex numbers moves products of their parts into branches.
        selects = kind in (Switch, Maximum, Minimum) and is_complex(computed)
        if kind in BRANCHING or divides or selects or of_constants and folded:
            self.exact = False
        if kind in (Cast, Identity, Second):
            if out == "float16" and wide[-1] not in ("float32",):
                raise Unsupported  # rounded once, by way of float64
            result = self.convert(operands[-1], target)
        elif kind in COMPLEX_RULES and (kind in OF_PARTS or any(map(is_complex, (*wide, computed)))):
            result = self.convert(COMPLEX_RULES[kind](self, op, operands, computed), target)
        elif any(map(is_complex, (*wide, computed))):
            result = self.convert(self.of_complex(op, operands, computed), target)
        elif kind in (IsNan, IsInf) and is_discrete(wide[0]):
            result = self.convert(self.constant("bool", False), target)
        else:
            dtype = operand_dtype(op, wide, computed)
            if kind in (Deg2Rad, Rad2Deg):
                # Compilers see a product here, and fuse it with a sum.
                op, operands = mul, [*operands, self.constant(dtype, op.factor)]
            name = dtype and name_of(op, dtype)
            if name is None or not (name in library().instructions):
                raise Unsupported
            result = self._instruction(op, name, dtype, operands, computed, target)
        if out == "float16" and (kind not in (Identity, Second) or wide[-1] != "float32" or "float16" not in dtypes):
            result = self.emit("round_to_half", "float32", result)
        return result

    def of_complex(self, op, operands, computed):
        """What an instruction on numbers that are put together computes."""
        name = name_of(op, computed)
        if not is_complex(computed) or name not in library().instructions:
            raise Unsupported
        return self.split(
            self.emit(name, computed, *[self.join(self.convert(v, computed)) for v in operands]), computed
        )

    def _instruction(self, op, name, dtype, operands, computed, target):
        if isinstance(op, Switch):
            operands = [self.convert(operands[0], "bool"), *[self.convert(v, dtype) for v in operands[1:]]]
        else:
            operands = [self.convert(v, dtype) for v in operands]
        # What an instruction gives is of its dtype, or bool.
        given = "bool" if computed == "bool" else dtype
        if op.nin < 0:
            result = operands[0]
            for other in operands[1:]:
                result = self.emit(name, given, result, other)
        else:
            result = self.emit(name, given, *operands)
        return self.convert(self.convert(result, computed), target)


# What compilers make of the negative of a product and sum that are rounded once. Where the sum is zero, its sign is another one.
_NEGATIVE = {"mul_add": "neg_mul_sub", "mul_sub": "sub_mul", "sub_mul": "mul_sub", "neg_mul_sub": "mul_add"}


# Operations without a selection: they compile to code without branches. So do conversions.
_STRAIGHT = frozenset(
    "Add Sub Mul Sqr Neg Abs TrueDiv Sqrt Inv LT GT LE GE EQ NEQ AND OR XOR Invert IsNan IsInf Real Imag Complex Ceil Floor Trunc "
    "Exp Exp2 Expm1 Log Log2 Log10 Log1p Sin Cos Tan ArcSin ArcCos ArcTan ArcTan2 Sinh Cosh Erf Erfc "
    "mul_add mul_sub sub_mul round_to_half negative".split()
)


def _is_straight(name):
    operation = name.rpartition("_")[0]
    return operation in _STRAIGHT or "_to_" in name


def contract(writer, outputs, first, invariant):
    """Make one step of a product and the sum or difference that it goes into, as compilers do in kernels.

    That is done with a product all of whose uses are sums or differences, with something else, of its dtype; in the order of the products, and in
    all the uses. So the bits are those of kernels. What nobody uses, parts of complex numbers, is left out.

    Parameters
    ----------
    writer : Writer
    outputs : list of values
        What is used by others.
    first : int
        The step where this begins: in loops nodes are kernels of their own.
    invariant : set of values
        Operands that are one value for all elements: what compilers compute of them before the loop they round.

    Returns
    -------
    list of values
        The outputs, as they are called now.
    """
    kept = {v for output in outputs for v in single(output)}
    steps, gone, uses, before = _simplified(writer, first, kept), set(), {}, {}
    for k in range(len(steps) - 1, -1, -1):
        _, value, operands = steps[k]
        if value not in kept and value not in uses and not is_discrete(writer.dtypes[value]):
            gone.add(value)
            continue
        for operand in operands:
            uses.setdefault(operand, []).append(k)
    # What is computed before the loop, and what by the compiler.
    fixed, known = set(invariant), set()
    for _, value, operands in steps:
        if all([v in known or v[0] == "constant" for v in operands]):
            known.add(value)
        if all([v in fixed or v[0] == "constant" for v in operands]):
            fixed.add(value)
    place_of = {step[1]: k for k, step in enumerate(steps)}
    for name, value, operands in list(steps):
        operation, _, dtype = name.partition("_")
        if value in known:
            continue
        if operation not in ("Mul", "Sqr") or dtype not in ("float32", "float64") or value in kept or value in gone:
            continue
        x, y = operands * 2 if operation == "Sqr" else operands
        # The sums that the product goes into, and what it is called there: itself, or its negative, which nothing else reads.
        sums = {}
        for at in uses[value]:
            negative = steps[at][1]
            if steps[at][0] == "Neg_" + dtype and negative not in kept and len(uses[negative]) == 1:
                sums[uses[negative][0]] = negative
            else:
                sums[at] = value
        if any((steps[at][1] in fixed) != (value in fixed) for at in sums):
            continue
        if len(sums) < len(uses[value]) or any(steps[at][0] not in ("Add_" + dtype, "Sub_" + dtype) for at in sums):
            continue
        # The last elements of an array, and scalars, are computed with branches: a product before a branch is not fused with a sum after it.
        between = steps[place_of[value] + 1 : max(sums)]
        if not all(_is_straight(step[0]) for step in between):
            writer.exact = False
        for at, term in sums.items():
            _, result, (left, right) = steps[at]
            if steps[at][0].startswith("Add"):
                steps[at] = ("mul_add_" + dtype, result, (x, y, right if left == term else left))
            elif left != term:
                steps[at] = ("sub_mul_" + dtype, result, (x, y, left))
            elif term == value:
                steps[at] = ("mul_sub_" + dtype, result, (x, y, right))
            else:
                steps[at] = ("neg_mul_sub_" + dtype, result, (x, y, right))
            gone.add(term)
        gone.add(value)
    place = {value: k for k, (_, value, _) in enumerate(steps)}
    for k, (name, value, operands) in enumerate(steps):
        if value in gone or not name.startswith("Neg_float") or operands[0] in kept or len(uses[operands[0]]) > 1:
            continue
        contracted, _, dtype = steps[place.get(operands[0], k)][0].rpartition("_")
        if contracted in _NEGATIVE:
            steps[k] = ("%s_%s" % (_NEGATIVE[contracted], dtype), value, steps[place[operands[0]]][2])
            gone.add(operands[0])
    for k, (name, value, operands) in enumerate(steps):
        if name.startswith("neg_mul_sub_"):
            dtype = writer.dtypes[value]
            before[k] = ("Neg_" + dtype, ("negative", k), operands[2:])
            writer.dtypes["negative", k] = dtype
            steps[k] = ("sub_mul_" + dtype, value, (*operands[:2], ("negative", k)))
    steps = [step for k, step in enumerate(steps) for step in ((before[k], step) if k in before else (step,))]
    return _numbered(writer, [step for step in steps if step[1] not in gone], outputs, first)


def chain(writer, outputs, fixed):
    """Make one step of two where there is an instruction for both.

    Parameters
    ----------
    writer : Writer
    outputs : list of values
        What is used by others.
    fixed : set of values
        Operands that are one value for all elements.

    Returns
    -------
    list of values
        The outputs, as they are called now.
    """
    kept = {v for output in outputs for v in single(output)}
    return _numbered(writer, chained(writer.steps, kept, lambda v: v[0] == "constant" or v in fixed), outputs)


def _numbered(writer, steps, outputs, first=0):
    """Replace the steps of a writer from `first` on, and number the results by their new steps."""
    replaced = [value for _, value, _ in (*writer.steps[first:], *steps)]
    del writer.steps[first:]
    names = {}
    for name, value, operands in steps:
        names[value] = ("result", len(writer.steps))
        writer.steps.append((name, names[value], tuple([names.get(v, v) for v in operands])))
    dtypes = {new: writer.dtypes[old] for old, new in names.items()}
    known = {new for old, new in names.items() if old in writer.known}
    for value in replaced:
        writer.dtypes.pop(value, None)
    writer.dtypes.update(dtypes)
    writer.known.difference_update(replaced)
    writer.known |= known
    return [renamed(v, names) for v in outputs]


def _simplified(writer, first, kept):
    """Return the steps from `first` on as compilers simplify them.

    Compilers replace the addition of a negative by a subtraction, and the subtraction of a negative by an addition. They double a value instead of
    adding it to itself, compute equal products once, and leave out the absolute value of a square.
    """
    made, negated, products, same, squares, signed = [], {}, {}, {}, set(), set()
    for name, value, operands in writer.steps[first:]:
        operation, _, dtype = name.partition("_")
        operands = tuple([same.get(v, v) for v in operands])
        if dtype in ("float32", "float64") and operation in ("Add", "Sub"):
            left, right = operands
            if right in negated:
                operation, operands = "Sub" if operation == "Add" else "Add", (left, negated[right])
            elif left in negated and operation == "Add":
                operation, operands = "Sub", (right, negated[left])
            if operation == "Add" and operands[0] == operands[1]:
                operation, operands = "Mul", (operands[0], writer.constant(dtype, 2))
            name = "%s_%s" % (operation, dtype)
        if dtype in ("float32", "float64") and operation == "Neg":
            if operands[0] in negated and value not in kept:
                same[value] = negated[operands[0]]
            negated[value] = operands[0]
        elif dtype in ("float32", "float64") and operation in ("Mul", "Sqr"):
            factors = dtype, tuple(sorted(operands * (2 if operation == "Sqr" else 1)))
            if factors in products and value in kept:
                kept.add(products[factors])
            elif factors in products:
                same[value] = products[factors]
            products.setdefault(factors, value)
            if operation == "Sqr" or operands[0] == operands[1]:
                squares.add(value)
        elif operation == "Abs" and operands[0] in squares and value not in kept:
            same[value] = operands[0]
        elif operation == "Abs" and operands[0] in signed:
            writer.exact = False  # some compilers drop the signs inside, and then find a square
        if operation in ("Abs", "Neg") or operation in ("Mul", "TrueDiv") and not signed.isdisjoint(operands):
            signed.add(value)
        made.append((name, value, operands))
    return made


def single(value):
    """The values that one is made of: its parts, or itself."""
    return value if isinstance(value, Parts) else (value,)


def renamed(value, names):
    return Parts(*[names.get(v, v) for v in value]) if isinstance(value, Parts) else names.get(value, value)
