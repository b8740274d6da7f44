"""The table of operations that programs are made of.

An operation is a pair of texts: an expression of variables, and the expression of NumPy arrays that computes the same. Both are what a program
prints as, so what is printed is what runs. The fields of a text are the operands by number, the parameters by name, and ``{out}``, the dtype of the result.
A chapter is a module that puts operations into the table.
"""

from dataclasses import dataclass
from typing import Callable

OPERATIONS = {}


@dataclass(frozen=True)
class Operation:
    """A row of the table.

    Attributes
    ----------
    name, chapter : str
    graph, twin : str
        Templates of the expression of variables, and of that of arrays. The twin has ``np`` and the names of `twins`; it converts with ``cast``, which keeps
        the longer precision where the twin is evaluated in that.
    operands : tuple of callables
        A predicate of a `Value` for each operand.
    fits : callable, optional
        A predicate of all operands together.
    domain : callable, optional
        A predicate of the operands' arrays, which holds for those of ordinary programs; special values may be outside.
    strict : bool
        Whether the domain holds for special values, too: integers cannot be divided by zero.
    parameters : callable, optional
        ``(draw, *values)`` -> a dict, or None where the operation does not apply.
    exact : bool
        Whether the result has no rounding error: moves, selections, integers.
    ulps : float
        The error of a single application.
    scale : str, optional
        Template of the magnitude that rounding errors are relative to; that of the result where it is missing. It is larger where terms cancel.
    kink : callable, optional
        A predicate of the operands' arrays: the derivative there is a matter of convention.
    weight : float
        How often it is drawn.
    loops : bool
        Whether it is drawn for the steps of loops.
    stateful : bool
        Whether it gives other numbers at each call.
    undefined : bool
        Whether no derivative is defined: `grad` says so, and `Rop` takes the result for a constant.
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
        """The lines that define the variable of a node."""
        return ["%s = %s" % (node.name, self.filled(self.graph, node))]

    def twin_lines(self, node, render):
        """The lines that define the array of a node."""
        return ["%s = %s" % (node.name, render.settled(node, self.filled(self.twin, node, render.dtype(node)), self))]

    def filled(self, template, node, out=None):
        return template.format(*node.operands, **dict(node.parameters), out=repr(out))

    def pick(self, draw):
        """Draw what a node needs: its operands, parameters and body; None where nothing fits."""
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
        """Whether the arrays of all operands lie in the domain, as far as it holds for the values of a program."""
        return self.domain is None or special and not self.strict or self.domain(*arrays)


@dataclass(frozen=True)
class Pick:
    """The operands (`Value`), parameters and body that were drawn for a node."""

    values: list
    parameters: dict
    body: object = None


def register(operation):
    """Put an operation into the table."""
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
    """Floats that LAPACK takes."""
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
    """Whether the operands of an elementwise operation fit: lengths are equal, or those of axes that are known to be broadcast."""
    for axis in range(1, max([v.array.ndim for v in values]) + 1):
        present = [v for v in values if v.array.ndim >= axis]
        lengths = {v.array.shape[-axis] for v in present if not v.broadcastable[-axis]}
        if len(lengths) > 1:
            return False
    return True


register(Operation("item", "parts", "{0}[{k}]", "{0}[{k}]", (lambda value: value.kind == "list",), exact=True))
