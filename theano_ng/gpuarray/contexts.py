"""The registry of contexts by name."""

from theano_ng.gof import optdb
from theano_ng.gpuarray.pygpu import gpuarray as pygpu


class ContextNotDefined(ValueError):
    """The exception for a context name that is not registered."""


_contexts = {}  # name -> GpuContext
_names = {}  # address of a context -> its first name


def reg_context(name, ctx):
    """Register a context under a name.

    Parameters
    ----------
    name : hashable
        None is the name of the context of the flag ``device``.
    ctx : pygpu.gpuarray.GpuContext

    Raises
    ------
    ValueError
        If the name is taken.
    TypeError
        If `ctx` is not a context.
    """
    if name in _contexts:
        raise ValueError("context name %r is already registered, for %r" % (name, _contexts[name]))
    if not isinstance(ctx, pygpu.GpuContext):
        raise TypeError("context %r is not a GpuContext: %s" % (name, type(ctx).__name__))
    _contexts[name] = ctx
    _names.setdefault(ctx.ptr, name)
    optdb.depends_on("context", repr(name), ctx.bin_id)  # the device's capabilities influence rewriting


def get_context(name):
    """Return the context with a given name.

    Raises
    ------
    ContextNotDefined
    """
    try:
        return _contexts[name]
    except KeyError:
        raise ContextNotDefined(
            "context name %r is not defined; defined are: %s. The flags device and contexts define names"
            % (name, ", ".join(map(repr, _contexts)) or "none")
        ) from None


def list_contexts():
    """Return the names of all contexts."""
    return _contexts.keys()


def name_of_context(ctx):
    """Return the first name of a context. Raise ContextNotDefined if the context has no name."""
    try:
        return _names[ctx.ptr]
    except KeyError:
        raise ContextNotDefined("the context %r has no name; define one with reg_context" % (ctx,)) from None


def unregister(name):
    """Remove a name from the registry."""
    ctx = _contexts.pop(name)
    if _names.get(ctx.ptr) == name:
        del _names[ctx.ptr]
        for other, its in _contexts.items():
            if its is ctx:
                _names.setdefault(ctx.ptr, other)


_in_use = {}  # address of a GpuContext -> the GpuContext


def context_address(context):
    """Return the packed parameter that passes a context to native code. After this call, the context lives as long as
    the process, because thunks contain its address.
    """
    _in_use[id(context)] = context
    return id(context)
