"""Positions of the methods of Ops in source files, for messages that tell authors where to look."""

import inspect
import os

from theano_ng.gof.provenance import is_from_package

# Method of an Op such as Elemwise or CAReduce -> names of the corresponding methods of its scalar Op. The first defined
# method counts.
_OF_SCALAR_OP = {
    "perform": ("impl",),
    "c_code": ("c_expression", "c_code"),
    "grad": ("gradient", "L_op", "grad"),
    "L_op": ("gradient", "L_op", "grad"),
    "R_op": ("R_op", "gradient", "L_op", "grad"),
    "c_code_cache_version": ("c_code_cache_version",),
}
# The modules of the methods that are made from __props__.
_BASES_OF_PROPS = ("theano_ng.gof.utils", "theano_ng.gof.op", "theano_ng.gof.op.base", "theano_ng.scalar.op")
_BASES = ("theano_ng.scalar.op", "theano_ng.gof.op")


def location_of(op, method):
    """Return ``file:line`` of the definition of a method of an Op, or "" if it is unknown.

    An Op that applies a `scalar_op` to the elements of tensors has the same methods for all scalar Ops. Therefore the
    result is the position of the method of the scalar Op, or of the class of the scalar Op if the class inherits the
    method.
    """
    if (
        method in ("__eq__", "__hash__", "__str__")
        and getattr(getattr(type(op), method), "__module__", None) in _BASES_OF_PROPS
    ):
        return _location_of_props(op)
    if method in _OF_SCALAR_OP and getattr(op, "scalar_op", None) is not None:
        return _location_in_scalar_op(op.scalar_op, _OF_SCALAR_OP[method]) or _location(op, method)
    return _location(op, method)


def _location_of_props(op):
    """Return the position of the author's ``__props__``, or of the class of the Op if there are none."""
    for cls in type(op).__mro__:
        if "__props__" in vars(cls) or cls is type(op) and not hasattr(cls, "__props__"):
            try:
                lines, first = inspect.getsourcelines(cls)
                file = inspect.getsourcefile(cls)
            except (OSError, TypeError):  # no source
                return ""
            offset = next((k for k, line in enumerate(lines) if line.lstrip().startswith("__props__")), 0)
            return place(file, first + offset)
    return ""


def _location_in_scalar_op(op, names):
    for name in names:
        owner = next((cls for cls in type(op).__mro__ if name in vars(cls)), None)
        if name in vars(op) or owner is not None and owner.__module__ not in _BASES:
            return _location(op, name)
    try:
        return place(inspect.getsourcefile(type(op)), inspect.getsourcelines(type(op))[1])
    except (OSError, TypeError):  # no source
        return ""


def _location(op, method):
    if method == "c_code" and hasattr(op, "native_code"):
        method = "native_code"
    found = vars(op).get(method) if hasattr(op, "__dict__") else None
    found = found if found is not None else getattr(type(op), method, None)
    if method == "c_code" and getattr(op, "func_files", None):
        return "%s:1" % op.func_files[0]
    try:
        found = inspect.unwrap(found)
        code = getattr(found, "__func__", found).__code__
    except (AttributeError, TypeError, ValueError):
        return ""
    return place(code.co_filename, code.co_firstlineno)


def place(file, line):
    """Return ``file:line``. A file below the current folder is given by its relative path."""
    return "%s:%d" % (os.path.relpath(file) if file.startswith(os.getcwd() + os.sep) else file, line)


def scalar_ops_of_authors(op):
    """Return the scalar Ops that an Op applies and that this package does not define, also those inside a Composite.

    Parameters
    ----------
    op : Op

    Returns
    -------
    list of ScalarOp
    """
    found, todo = [], [getattr(op, "scalar_op", None)]
    while todo:
        inner = todo.pop()
        if inner is None:
            continue
        graph = getattr(inner, "fgraph", None)
        if graph is not None:
            todo += [node.op for node in graph.toposort()]
        elif not is_from_package(type(inner)) and inner not in found:
            found.append(inner)
    return found
