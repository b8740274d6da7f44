"""Detection of inputs of an elementwise node that are integer divisors and may be zero. See `integer_divisors`."""

from typing import NamedTuple

from theano_ng.gof.graph import Constant
from theano_ng.scalar.divisors import divides, divisions, keeps_from_zero, known_of
from theano_ng.scalar.ops_arith import RealDivision

# These numbers must be the same as in native/elementwise/divisors.h.
OPERATIONS = {None: 0, "division": 1, "modulo": 2}

# The search for a proof that a divisor is not zero examines at most this number of nodes in a chain of nodes that ends
# in the divisor. Longer proofs are rare.
_MAX_DEPTH = 3


class Divisors(NamedTuple):
    """The integer divisors of a node that may be zero.

    Attributes
    ----------
    inputs : dict
        Index of an input -> "division" or "modulo".
    computed : {None, "division", "modulo"}
        The operation for which the scalar op itself computes the divisor, or None if there is none. The loop may have
        written elements when it finds a zero in such a divisor, so the node must not overwrite an input.
    """

    inputs: dict
    computed: str | None

    def __bool__(self):
        return bool(self.inputs or self.computed)


_NONE = Divisors({}, None)


def integer_divisors(node):
    """Return the `Divisors` of an Elemwise node.

    A constant without zeros is not included. A divisor is not included if a maximum, a clip or a switch keeps it from
    being zero.
    """
    op = node.op.scalar_op
    if not divides(op):
        return _NONE
    found, _ = _divisions(node, _MAX_DEPTH)
    inputs = {division.divisor: division.operation for division in found if division.divisor < len(node.inputs)}
    computed = [division.operation for division in found if division.divisor not in inputs]
    return Divisors(inputs, computed[0] if computed else None)


def _divisions(node, depth):
    op = node.op.scalar_op
    # For a division, only facts about the divisor (input 1) are needed. A Composite may divide by any of its inputs.
    counts = (1,) if isinstance(op, RealDivision) else range(len(node.inputs))
    known = [_known(x, depth) if i in counts else None for i, x in enumerate(node.inputs)]
    return divisions(op, [x.type.dtype for x in node.inputs], node.outputs[0].type.dtype, known, node.inputs)


def _known(variable, depth):
    """Return facts about the elements of a variable, in the representation that scalar/divisors.py uses.

    Return None if nothing is known.
    """
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
    # A Composite may have many inputs. Examine only the constants among them.
    return _divisions(node, 0)[1][variable.index] if hasattr(node.op.scalar_op, "_program") else None
