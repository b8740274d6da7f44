"""Which inputs of an elementwise node are integer divisors that may be zero: `integer_divisors`."""

from typing import NamedTuple

from theano_ng.gof.graph import Constant
from theano_ng.scalar.divisors import divides, divisions, known_of

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
    dtypes = [i.type.dtype for i in node.inputs]
    known = [_known(i, depth) for i in node.inputs]
    return divisions(node.op.scalar_op, dtypes, node.outputs[0].type.dtype, known, node.inputs)


def _known(variable, depth):
    """What is known of the elements of a variable, as in scalar/divisors.py."""
    node = variable.owner
    if isinstance(variable, Constant):
        return known_of(variable.data)
    if node is None or depth == 0:
        return None
    if hasattr(node.op, "scalar_op") and hasattr(node.op, "inplace_pattern"):
        return _divisions(node, depth - 1)[1][variable.index]
    return _known(node.inputs[0], depth - 1) if hasattr(node.op, "new_order") else None
