"""A table of the Ops that belong to no subpackage, for the command ``theano_ng-audit theano_ng.tests.audit_cases``."""

import numpy as np

import theano_ng as theano
from theano_ng import gradient
from theano_ng import tensor as tt
from theano_ng.audit.records import Case
from theano_ng.breakpoint import PdbBreakpoint
from theano_ng.compile.ops import as_op
from theano_ng.ifelse import ifelse
from theano_ng.misc.doubleop import DoubleOp
from theano_ng.printing import Print
from theano_ng.raise_op import CheckAndRaise

X = np.array([[0.3, -0.7, 1.2], [0.9, -1.4, 0.15]])
Y = np.array([[1.1, 0.4, -0.6], [-0.8, 0.25, 1.7]])
OTHER_GRADIENT = "its gradient is not that of its value: this is what the Op is for"


@as_op(itypes=[tt.dmatrix, tt.dmatrix], otypes=[tt.dmatrix], infer_shape=lambda node, shapes: [shapes[0]])
def sum_of_squares(x, y):
    if x.shape != y.shape:
        raise ValueError("shapes %s and %s differ" % (x.shape, y.shape))
    return x**2 + y**2


def graph(inline):
    """Return an Op made from a graph."""
    x, y = tt.dmatrices("x", "y")
    return theano.OpFromGraph([x, y], [tt.exp(x) * y, x + y], inline=inline)


def quiet(op, xin):
    """Replace the function with which `Print` prints a value: print nothing."""


def audit_cases():
    """Return one case for each Op."""
    other = {"grad": OTHER_GRADIENT, "R_op": OTHER_GRADIENT}
    return [
        Case(DoubleOp(), [X]),
        Case(theano.compile.ops.OutputGuard(), [X], name="OutputGuard"),
        Case(sum_of_squares, [X, Y], name="FromFunctionOp"),
        Case(graph(False), [X, Y], name="OpFromGraph"),
        Case(graph(True), [X, Y], name="OpFromGraph inline"),
        Case(gradient.ConsiderConstant(), [X], name="ConsiderConstant", skip=other),
        Case(gradient.ZeroGrad(), [X], name="ZeroGrad", skip=other),
        Case(gradient.UndefinedGrad(), [X], name="UndefinedGrad", skip=other),
        Case(
            gradient.DisconnectedGrad(),
            [X],
            name="DisconnectedGrad",
            skip=dict(other, connection_pattern="the value passes, which is what the Op is for"),
        ),
        Case(gradient.GradClip(-0.1, 0.1), [X], name="GradClip", skip=other),
        Case(gradient.GradScale(2.0), [X], name="GradScale", skip=other),
        Case(lambda c, x, y: ifelse(c, x, y), [np.int8(1), X, Y], name="IfElse"),
        Case(lambda c, x, y: ifelse(c, (x, y), (y, x)), [np.int8(0), X, Y], name="IfElse of two values"),
        Case(Print("seen", global_fn=quiet), [X], name="Print"),
        Case(PdbBreakpoint("never"), [tt.constant(np.int8(0)), X], name="PdbBreakpoint"),
        Case(CheckAndRaise(ValueError, "refused"), [X, np.int8(1)], name="CheckAndRaise"),
    ]
