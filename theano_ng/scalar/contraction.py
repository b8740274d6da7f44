"""Contraction: a product and the sum or difference that uses it are rounded only once, together.

Processors have one instruction for both operations (fused multiply-add). If the compiler chose the pairs of operations,
its choice would depend on the other operations of the loop. Therefore `contracted` chooses the pairs in the program of
a Composite. Compiled kernels and the interpreter use the same pairs, and compiler flags forbid other pairs.
"""

import copy
from collections import Counter

import numpy as np

from theano_ng.gof.utils import MethodNotDefined
from theano_ng.scalar.instances import ops
from theano_ng.scalar.op import ScalarOp
from theano_ng.scalar.ops_arith import Add, Mul, Sub, TrueDiv
from theano_ng.scalar.ops_unary import Neg, Sqr
from theano_ng.scalar.out_types import upcast_out
from theano_ng.scalar.program import Instruction

_DTYPES = ("float32", "float64")


class _Contracted(ScalarOp):
    """The base class of the ops that compute ``x * y + z``, with various signs, for three floats of one dtype.

    In C, the result is rounded once if the processor has an instruction for the op. The Python function `impl` rounds
    twice. Only programs for which code is generated contain these ops.
    """

    nin = 3
    output_types_preference = staticmethod(upcast_out)
    signs = ("", "")  # "-" or "": the signs of the product and of z

    def impl(self, x, y, z):
        with np.errstate(all="ignore"):
            product = x * y if not self.signs[0] else -(x * y)
            return product - z if self.signs[1] else product + z

    def c_expression(self, args, dtypes, out):
        if out not in _DTYPES:
            raise MethodNotDefined("c_code", type(self), out)
        return self.c_text(args, out)

    @classmethod
    def c_text(cls, args, dtype):
        """Return a C expression that computes the op."""
        factor, term = ["-(%s)" % arg if sign else arg for sign, arg in zip(cls.signs, (args[0], args[2]))]
        return "%s(%s, %s, %s)" % ("TNG_MUL_ADDF" if dtype == "float32" else "TNG_MUL_ADD", factor, args[1], term)


class MulAdd(_Contracted):
    """The op ``x * y + z``."""


class MulSub(_Contracted):
    """The op ``x * y - z``."""

    signs = ("", "-")


class SubMul(_Contracted):
    """The op ``z - x * y``."""

    signs = ("-", "")


mul_add, mul_sub, sub_mul = MulAdd(name="mul_add"), MulSub(name="mul_sub"), SubMul(name="sub_mul")
ops.define(dict(mul_add=mul_add, mul_sub=mul_sub, sub_mul=sub_mul))


def contracted(program):
    """Return an equivalent program in which a product and the sum that uses it are one instruction.

    A product is combined with a sum or difference if both are float32 or both are float64, and if nothing else uses the
    product. The negative of such a product is combined in the same way. If two products are added, the first product is
    combined. The result of a combined sum is never negated: gcc would replace the negative of ``x * y + z`` by ``-(x *
    y) - z``, which has the other sign if the sum is zero.

    Parameters
    ----------
    program : Program

    Returns
    -------
    Program
        `program` itself if it contains no such products.
    """
    found = _Pairs(program)
    if not found.taken:
        return program
    result = copy.copy(program)
    result.instructions = found.instructions()
    return result


class _Pairs:
    """The products of a program that are combined with sums. Each product and its sum become one instruction.

    Attributes
    ----------
    taken : dict
        The keys are the slots of products, or of negatives of products, that are combined with a sum. The value is True
        for a negative.
    sums : set
        Slots of the combined sums.
    """

    def __init__(self, program):
        self.program = program
        self.types = program.slot_types()
        self.maker = {o: i for i in program.instructions for o in i.outs}
        self.uses = Counter([a for i in program.instructions for a in i.args] + list(program.outputs))
        negated = {a for i in program.instructions if self._may_negate(i) for a in i.args}
        self.taken, self.sums = {}, set()
        for instruction in program.instructions:
            result = instruction.outs[0]
            for slot in () if result in negated else self._chosen(instruction):
                negative = self._is(slot, Neg)
                self.taken[slot] = negative
                self.sums.add(result)
                if negative:
                    self.taken[self.maker[slot].args[0]] = False

    def _may_negate(self, instruction):
        """Return True if a compiler may transform this instruction so that it negates an operand."""
        if isinstance(instruction.op, Neg):
            return True
        constants = [self.program.constants[a][1] for a in instruction.args if a in self.program.constants]
        return isinstance(instruction.op, (Mul, TrueDiv, Sub)) and any(
            [np.any(c == -1) or np.any(c == 0) for c in constants]
        )

    def _is(self, slot, *kinds):
        """Return True if an op of the given classes computes a slot, and the op works on floats of one dtype."""
        instruction = self.maker.get(slot)
        if instruction is None or type(instruction.op) not in kinds:
            return False
        dtypes = {self.types[s].dtype for s in (slot, *instruction.args)}
        return len(dtypes) == 1 and dtypes <= set(_DTYPES)

    def _is_product(self, slot):
        """Return True if a slot holds a product that only one instruction uses."""
        return self.uses[slot] == 1 and (self._is(slot, Sqr) or self._is(slot, Mul) and len(self.maker[slot].args) > 1)

    def _can_be_taken(self, slot, subtracted=False):
        """Return True if a slot holds a product, or the negative of a product, that can be combined with a sum.

        If the product is subtracted, it needs a factor that can be negated.
        """
        negative = self._is(slot, Neg)
        product = self.maker[slot].args[0] if negative else slot
        if not self._is_product(product) or negative and self.uses[slot] != 1:
            return False
        args = self.maker[product].args
        # If there are three or more factors, `_factors` multiplies all of them except the last one. The result is the
        # first factor. It can be negated, because it is not a combined sum.
        return negative == subtracted or len(args) > 2 or not self.sums.issuperset(args)

    def _chosen(self, instruction):
        """Return the operands that are combined with a sum or difference: products, or negatives of products."""
        (slot, *_), args = instruction.outs, instruction.args
        if self._is(slot, Sub):
            x, y = args
            if self._is_product(x) and y not in self.sums:
                return [x]
            return [y] if self._can_be_taken(y, subtracted=True) else []
        if not self._is(slot, Add) or len(args) < 2:
            return []
        first = next((a for a in args[:2] if self._can_be_taken(a)), None)
        return [a for a in args if a == first or a in args[2:] and self._can_be_taken(a)]

    def instructions(self):
        """Return the instructions of the program, in which the chosen pairs are combined."""
        self._written, self._next = [], max(self.types) + 1
        factors = {}
        for instruction in self.program.instructions:
            slot, *others = instruction.outs
            taken = [a for a in instruction.args if a in self.taken]
            if slot in self.taken and not self.taken[slot]:
                factors[slot] = self._factors(instruction)
            elif slot in self.taken:
                factors[slot] = factors[instruction.args[0]]
            elif not taken or others:
                self._written.append(instruction)
            elif type(instruction.op) is Sub:
                self._difference(instruction, factors)
            else:
                self._sum(instruction, factors)
        return self._written

    def _new(self, op, args, type_):
        self._written.append(Instruction(op, tuple(args), (self._next,), (type_,)))
        self._next += 1
        return self._next - 1

    def _factors(self, instruction):
        """Return the two factors of a product. The first factor can be negated."""
        args = instruction.args
        if type(instruction.op) is Sqr:
            return args * 2
        first = args[0] if len(args) == 2 else self._new(ops.mul, args[:-1], instruction.types[0])
        return (args[-1], first) if first in self.sums else (first, args[-1])

    def _difference(self, instruction, factors):
        x, y = instruction.args
        if y in self.taken:
            op, args = mul_add if self.taken[y] else sub_mul, (*factors[y], x)
        else:
            op, args = mul_sub, (*factors[x], y)
        self._written.append(Instruction(op, args, instruction.outs, instruction.types))

    def _sum(self, instruction, factors):
        total, *rest = instruction.args
        if total in self.taken:
            total, rest[0] = rest[0], total
        for k, term in enumerate(rest):
            op, args = ops.add, (total, term)
            if term in self.taken:
                op, args = sub_mul if self.taken[term] else mul_add, (*factors[term], total)
            if k == len(rest) - 1:
                self._written.append(Instruction(op, args, instruction.outs, instruction.types))
            else:
                total = self._new(op, args, instruction.types[0])
