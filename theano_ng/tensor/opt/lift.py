"""Helpers of rules that move views towards the inputs through chains of functions, all views of a chain at once.

In f(view(g(view(h(view(x)))))) every view has to be moved past all functions that are nearer to x. If one view were
moved at a time, all these functions would be rebuilt for each view.
"""

from theano_ng.gof.rewriting import copy_stack_trace
from theano_ng.gof.toolbox import AlreadyThere, Feature
from theano_ng.tensor.elemwise.op import Elemwise

MAX_WAITING = 16
"""The maximum number of consecutive views that are passed in the search for a function before them.

In a stack of views, the search starts from each view, and passes all views before it.
"""


class LiftedViews(Feature):
    """A feature that records the classes of Ops that the active rules lift.

    Attributes
    ----------
    classes : dict
        The classes of Ops, as the keys of a dict. All values are None. Other modules read the dict as
        ``fgraph.lifted_views.classes``.
    """

    pickle_rm_attr = ["lifted_views"]

    def __init__(self):
        self.classes = {}

    def on_attach(self, fgraph):
        if hasattr(fgraph, "lifted_views"):
            raise AlreadyThere("This FunctionGraph already has a LiftedViews feature")
        self.unpickle(fgraph)

    def unpickle(self, fgraph):
        """Set the attribute `lifted_views` of the graph after unpickling."""
        fgraph.lifted_views = self

    def clone_for(self, fgraph):
        """Return a feature for a copy of the graph."""
        clone = type(self)()
        clone.classes.update(self.classes)
        return clone

    def on_detach(self, fgraph):
        del fgraph.lifted_views


def lifts(op_class):
    """Return a function that records in a given graph that a rule lifts Ops of the class `op_class`.

    The function is an entry of `requirements` in ``local_optimizer(..., requirements=[...])``.
    """

    def announce(fgraph):
        fgraph.attach_feature(LiftedViews())
        fgraph.lifted_views.classes[op_class] = None

    return announce


def is_function_of_one(node):
    """Return True if a node is an elementwise function of one variable, and its result has at most one client."""
    return (
        isinstance(node.op, Elemwise)
        and len(node.inputs) == 1
        and len(node.outputs) == 1
        and not node.op.inplace_pattern
        and len(getattr(node.outputs[0], "clients", ())) <= 1
    )


def lifted_through_functions(node):
    """Move a view through functions of one variable, so that it is applied to their input instead of their result.

    view(f(g(x)))  ->  f(g(view(x)));  view1(f(view2(g(x))))  ->  f(g(view1(view2(x)))), where view2 is lifted, too

    Parameters
    ----------
    node : Apply
        A node whose output is a view of its first input. The view is not moved through a function whose result has
        other clients, because the function would be computed twice.

    Returns
    -------
    Variable or None
        The new variable. None if no function precedes the view.
    """
    classes = getattr(getattr(getattr(node, "fgraph", None), "lifted_views", None), "classes", ())
    views, functions, waiting = [node], [], []
    x = source = node.inputs[0]
    while x.owner is not None and len(getattr(x, "clients", ())) <= 1:
        inner = x.owner
        if is_function_of_one(inner):
            functions.append(inner)
            views += waiting
            waiting = []
            x = source = inner.inputs[0]
        elif type(inner.op) in classes and len(waiting) < MAX_WAITING:
            waiting.append(inner)  # Move this view, too, if a function precedes it.
            x = inner.inputs[0]
        else:
            break
    if not functions:
        return None
    out = node.outputs[0]
    lifted = source
    for view in reversed(views):
        lifted = view.op(lifted, *view.inputs[1:])
        copy_stack_trace(view.outputs[0], lifted)
    for function in reversed(functions):
        lifted = function.op(lifted)
        copy_stack_trace([function.outputs[0], out], lifted)
    return lifted if lifted.type == out.type else None
