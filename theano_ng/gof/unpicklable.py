"""A search for the part of an object that cannot be pickled."""

import copyreg

from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.graph import Apply, Variable
from theano_ng.gof.pickling import ancestor_nodes


def unpicklable_part(obj, dumps):
    """Find the part of an object that cannot be pickled.

    Parameters
    ----------
    obj : object
        An object that `dumps` refuses.
    dumps : callable
        A function that pickles an object, or raises an error.

    Returns
    -------
    (list of str, object)
        The path to the part (one description for each level), and the part.
    """
    way = []
    done = set()
    while id(obj) not in done and len(way) < 10:  # a longer path does not make the message clearer
        done.add(id(obj))
        for name, part in _parts(obj):
            if id(part) in done or part is None:
                continue
            try:
                dumps(part)
            except Exception:
                way.append(name)
                obj = part
                break
    return way, obj


def _parts(obj):
    """Generate pairs (name, part) for the parts of an object's pickle.

    The parts of a graph are listed without nesting.
    """
    if isinstance(obj, dict):
        for key, value in obj.items():
            yield "key %.60r" % (key,), key
            yield "[%.60r]" % (key,), value
    elif isinstance(obj, (list, tuple, set, frozenset)):
        for i, item in enumerate(obj):
            yield "[%d]" % i, item
    elif isinstance(obj, (Apply, Variable, FunctionGraph)):
        if isinstance(obj, FunctionGraph):
            nodes, leaves = obj.toposort(), list(obj.inputs)
        else:
            node = obj if isinstance(obj, Apply) else obj.owner
            nodes = ancestor_nodes((node,)) if node is not None else []
            leaves = [obj] if node is None else []
        for node in nodes:
            yield "the Op of %.100s" % (node,), node.op
            yield "the tag of %.100s" % (node,), node.tag.__dict__
            leaves.extend(v for v in [*node.inputs, *node.outputs] if v.owner in (None, node))
        for v in dict.fromkeys(leaves):
            if isinstance(v, Variable):
                for name, part in v.__dict__.items():
                    if name not in ("owner", "clients", "fgraph", "tag"):
                        yield "%s of the variable %.60s" % (name, v), part
                for name, part in v.tag.__dict__.items():
                    yield "tag.%s of the variable %.60s" % (name, v), part
    elif not isinstance(obj, type) and not hasattr(obj, "__code__"):
        registered = copyreg.dispatch_table.get(type(obj))
        try:
            reduced = obj.__reduce_ex__(4) if registered is None else registered(obj)
        except Exception:
            return
        if isinstance(reduced, str):
            return
        for arguments in reduced[1:2]:
            for i, part in enumerate(arguments):
                if not isinstance(part, type):
                    yield _label(obj, part, i), part
        state = reduced[2] if len(reduced) > 2 else None
        for part in state if isinstance(state, tuple) else (state,):
            if isinstance(part, dict):
                for name, value in part.items():
                    yield "attribute %s of the %s" % (name, type(obj).__name__), value
            elif part is not None:
                yield "the state of the %s" % type(obj).__name__, part


def _label(obj, part, i):
    return "%s of the %s" % (
        type(part).__name__ if part.__class__.__module__ != "builtins" else "argument %d" % i,
        type(obj).__name__,
    )
