"""Which inputs of an elementwise node are integer divisors that may be zero: `integer_divisors`."""

from typing import NamedTuple

from theano_ng.gof.graph import Constant
from theano_ng.scalar.divisors import divides, divisions, keeps_from_zero, known_of
from theano_ng.scalar.ops_arith import RealDivision

# As in native/divisors.h.
OPERATIONS = {None: 0, "division": 1, "modulo": 2}

# So many operations are walked back from a divisor to learn what it is; idioms that keep it from being zero are shorter.
_MAX_DEPTH = 3


class Divisors(NamedTuple):
    """The integer divisors of a node that may be zero.

    Attributes
    ----------
    inputs : dict
        Number of an input -> "division" or "modulo".
    computed : {None, "division", "modulo"}
        What the scalar op does with a divisor that it computes itself. Whether that is zero is known only when all is done, so nothing may be
        overwritten.
    """

    inputs: dict
    computed: str

    def __bool__(self):
        return bool(self.inputs or self.computed)


_NONE = Divisors({}, None)


def integer_divisors(node):
    """Return the `Divisors` of an Elemwise node. Constants without zeros, and what a maximum, a clip or a switch keeps from zero, are none."""
    op = node.op.scalar_op
    if not divides(op):
        return _NONE
    found, _ = _divisions(node, _MAX_DEPTH)
    inputs = {division.divisor: division.operation for division in found if division.divisor < len(node.inputs)}
    computed = [division.operation for division in found if division.divisor not in inputs]
    return Divisors(inputs, computed[0] if computed else None)


def _divisions(node, depth):
    op = node.op.scalar_op
    # Nothing else counts in a division by itself; what goes into a Composite may be much.
    counts = (1,) if isinstance(op, RealDivision) else range(len(node.inputs))
    known = [_known(x, depth) if i in counts else None for i, x in enumerate(node.inputs)]
    return divisions(op, [x.type.dtype for x in node.inputs], node.outputs[0].type.dtype, known, node.inputs)


def _known(variable, depth):
    """What is known of the elements of a variable, as in scalar/divisors.py."""
    node = variable.owner
    if isinstance(variable, Constant):
        return known_of(variable.data)
    if node is None or depth == 0:
        return None
    if hasattr(node.op, "new_order"):  # a DimShuffle
        return _known(node.inputs[0], depth - 1)
    if not hasattr(node.op, "inplace_pattern"):  # no Elemwise
        return None
    if keeps_from_zero(node.op.scalar_op):
        return _divisions(node, depth - 1)[1][0]
    # Of a Composite's inputs, which may be many, only constants are known.
    return _divisions(node, 0)[1][variable.index] if hasattr(node.op.scalar_op, "_program") else None
