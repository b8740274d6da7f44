"""The table of operations of which programs consist.

An operation is a pair of source templates: an expression of variables, and an equivalent expression of NumPy arrays.
Programs are printed with these expressions, so that the printed code is the code that runs. The fields of a template
are the operands by number, the parameters by name, and ``{out}``, the dtype of the result. A chapter is a module that
adds operations to the table.
"""

from collections.abc import Callable
from dataclasses import dataclass

OPERATIONS = {}


@dataclass(frozen=True)
class Operation:
    """A row of the table.

    Attributes
    ----------
    name, chapter : str
    graph, twin : str
        Templates of the expression of variables, and of the expression of arrays. The twin may use ``np`` and the names
        in `twins`. It converts dtypes with ``cast``. In extended precision, ``cast`` keeps this precision.
    operands : tuple of callables
        For each operand, a predicate of a `Value`.
    fits : callable, optional
        A predicate of all operands together.
    domain : callable, optional
        A predicate of the arrays of the operands. It is true in ordinary programs. Special values may be outside of the
        domain.
    strict : bool
        Whether special values must be in the domain, too, for instance because integers cannot be divided by zero.
    parameters : callable, optional
        A function of (draw, *values) that returns a dict. It returns None if the operation does not apply.
    exact : bool
        Whether the result has no rounding error: moved or selected elements, or integers.
    ulps : float
        The error of a single application, in units in the last place.
    scale : str, optional
        A template of the magnitude to which rounding errors are relative. It is larger than the result if terms cancel.
        Default: the magnitude of the result.
    kink : callable, optional
        A predicate of the arrays of the operands. It is true if the derivative at this point is a convention.
    weight : float
        The relative frequency with which the operation is drawn.
    loops : bool
        Whether the operation is drawn for the steps of loops.
    stateful : bool
        Whether the result differs from call to call.
    undefined : bool
        Whether the derivative is undefined. Then `grad` reports this, and `Rop` treats the result as a constant.
    """

    name: str
    chapter: str
    graph: str
    twin: str
    operands: tuple = ()
    fits: Callable | None = None
    domain: Callable | None = None
    strict: bool = False
    parameters: Callable | None = None
    exact: bool = False
    ulps: float = 2.0
    scale: str | None = None
    kink: Callable | None = None
    weight: float = 1.0
    loops: bool = False
    stateful: bool = False
    undefined: bool = False

    def graph_lines(self, node, render):
        """Return the source lines that define the variable of a node."""
        return ["%s = %s" % (node.name, self.filled(self.graph, node))]

    def twin_lines(self, node, render):
        """Return the source lines that define the array of a node."""
        return ["%s = %s" % (node.name, render.settled(node, self.filled(self.twin, node, render.dtype(node)), self))]

    def filled(self, template, node, out=None):
        return template.format(*node.operands, **dict(node.parameters), out=repr(out))

    def pick(self, draw):
        """Draw the operands, parameters and body of a node. Return None if no operands fit."""
        values = []
        for predicate in self.operands:
            value = draw.value(predicate)
            if value is None:
                return None
            values.append(value)
        if self.fits is not None and not self.fits(*values):
            return None
        if not self.takes([v.array for v in values], draw.special):
            return None
        parameters = self.parameters(draw, *values) if self.parameters is not None else {}
        return None if parameters is None else Pick(values, parameters)

    def takes(self, arrays, special):
        """Return True if all arrays are in the domain, or if the program may use values outside of it."""
        return self.domain is None or special and not self.strict or self.domain(*arrays)


@dataclass(frozen=True)
class Pick:
    """The operands (`Value`), parameters and body that were drawn for a node."""

    values: list
    parameters: dict
    body: object = None


def register(operation):
    """Add an operation to the table."""
    if operation.name in OPERATIONS:
        raise ValueError("there is an operation %r already" % operation.name)
    OPERATIONS[operation.name] = operation
    return operation


# --- predicates of operands --------------------------------------------------------------------------------------------------


def dense(value):
    return value.kind == "dense"


def of_ndim(*ndims):
    return lambda value: value.kind == "dense" and value.array.ndim in ndims


def floats(value):
    return value.kind == "dense" and value.array.dtype.kind == "f"


def doubles(value):
    """Return True if an operand has a float dtype that LAPACK supports."""
    return floats(value) and value.array.dtype.itemsize >= 4


def inexact(value):
    return value.kind == "dense" and value.array.dtype.kind in "fc"


def integers(value):
    return value.kind == "dense" and value.array.dtype.kind in "iu"


def reals(value):
    return value.kind == "dense" and value.array.dtype.kind in "iuf"


def numbers(value):
    return value.kind == "dense" and value.array.dtype.kind in "iufc"


def booleans(value):
    return value.kind == "dense" and value.array.dtype.kind == "b"


def both(*predicates):
    return lambda value: all(predicate(value) for predicate in predicates)


def broadcast_together(*values):
    """Return True if operands can be broadcast together: non-broadcastable lengths on an axis are equal."""
    for axis in range(1, max([v.array.ndim for v in values]) + 1):
        present = [v for v in values if v.array.ndim >= axis]
        lengths = {v.array.shape[-axis] for v in present if not v.broadcastable[-axis]}
        if len(lengths) > 1:
            return False
    return True


register(Operation("item", "parts", "{0}[{k}]", "{0}[{k}]", (lambda value: value.kind == "list",), exact=True))
