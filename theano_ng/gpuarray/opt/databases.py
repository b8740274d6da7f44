"""Where rules of devices are registered, and the decorators that do it.

`gpu_seqopt` is one optimizer of `optdb`, at 48.5, when graphs of the host have their final form. It is part of a mode when a device is used
(`gpuarray.use` adds it to ``fast_run`` and ``fast_compile``), or when its tag ``gpuarray`` is included. In it:

-0.5  ``gpuarray_graph_optimization``: what can be moved is moved, in one pass (`graph_to_gpu`)
0     ``InputToGpuArrayOptimizer``: inputs are transferred where that pass did not
1     ``gpuarray_local_optimizations``: rules for single nodes, until none applies
2     ``gpuarray_cut_transfers``: transfers there and back go
"""

from theano_ng.compile.mode import optdb
from theano_ng.gof.optdb import EquilibriumDB, SequenceDB
from theano_ng.gof.rewriting import TopoOptimizer, copy_stack_trace, local_optimizer
from theano_ng.gpuarray.basic_ops import GpuFromHost, HostFromGpu, as_gpuarray_variable, host_from_gpu
from theano_ng.gpuarray.opt.graph_to_gpu import GraphToGPUDB, made, was_sent
from theano_ng.gpuarray.type import GpuArrayType, get_context, gpu_supported
from theano_ng.tensor.type import TensorType

gpu_optimizer = EquilibriumDB()
gpu_cut_copies = EquilibriumDB()
gpu_optimizer2 = GraphToGPUDB()
gpu_seqopt = SequenceDB()

gpu_seqopt.register(
    "gpuarray_graph_optimization", gpu_optimizer2, -0.5, "fast_compile", "fast_run", "gpuarray", own=True
)
gpu_seqopt.register(
    "gpuarray_local_optimizations",
    gpu_optimizer,
    1,
    "fast_compile",
    "fast_run",
    "gpuarray",
    "gpuarray_local_optimiziations",
    own=True,
)
gpu_seqopt.register("gpuarray_cut_transfers", gpu_cut_copies, 2, "fast_compile", "fast_run", "gpuarray", own=True)

# No fast_run: only with a device, or when asked for.
optdb.register("gpuarray_opt", gpu_seqopt, 48.5, "gpuarray", own=True)


def register_opt(*tags, **kwargs):
    """Decorator that registers a rule for single nodes, with ``fast_run``, ``gpuarray`` and the given tags.

    Parameters
    ----------
    *tags : str
    name : str, keyword
        Instead of the name of the function.
    """

    def decorator(rule):
        name = kwargs.get("name") or rule.__name__
        gpu_optimizer.register(name, rule, "fast_run", "gpuarray", *tags, own=kwargs.get("own", False))
        return rule

    return decorator


def register_opt2(tracks, *tags, **kwargs):
    """Decorator that registers a rule of the pass over the whole graph.

    Parameters
    ----------
    tracks : list of Op classes or instances
    *tags : str
    name : str, keyword

    The decorated function is called as ``f(op, context_name, inputs, outputs)``: `inputs` are those of the new node, on the device where they could
    be moved; `outputs` those of the old one. It returns an Op, variables, or False.
    """

    def decorator(f):
        name = kwargs.get("name") or f.__name__
        rule = f if not callable(f) or hasattr(f, "transform") else local_optimizer(tracks)(f)
        gpu_optimizer2.register(name, rule, "fast_run", "gpuarray", *tags, own=kwargs.get("own", False))
        return f

    return decorator


def register_inplace(*tags, **kwargs):
    """Decorator that registers a rule of the phase `inplace` (60), for nodes that may overwrite their inputs on a device."""

    def decorator(rule):
        name = kwargs.get("name") or rule.__name__
        optdb.register(
            name,
            TopoOptimizer(rule, failure_callback=TopoOptimizer.warn_inplace),
            60,
            "fast_run",
            "inplace",
            "gpuarray",
            *tags,
            own=kwargs.get("own", False),
        )
        return rule

    return decorator


def safe_to_gpu(x, ctx_name):
    """A tensor transferred to a device; other variables as they are."""
    return GpuFromHost(ctx_name)(x) if isinstance(x.type, TensorType) else x


def safe_to_cpu(x):
    """A variable on a device transferred to the host; others as they are."""
    return host_from_gpu(x) if isinstance(x.type, GpuArrayType) else x


def context_of(node):
    """The context that a node of the host should be moved to: ``(name,)``, or None.

    That of an input that comes from a device; otherwise that of the device that all outputs go to.
    """
    there = [v.owner.inputs[0] for v in node.inputs if v.owner is not None and isinstance(v.owner.op, HostFromGpu)]
    if there:
        return (min(there, key=was_sent).type.context_name,)
    clients = [client for v in node.outputs for client, _ in v.clients]
    if clients and all(client != "output" and isinstance(client.op, GpuFromHost) for client in clients):
        return (clients[0].op.context_name,)
    return None


def op_lifter(OP, cuda_only=False):
    """Decorator that makes a rule for nodes of the host, where a neighbour is on a device.

    Parameters
    ----------
    OP : list of Op classes or instances
    cuda_only : bool
        Only CUDA's devices.

    The decorated function is that of `register_opt2`. Its inputs are as they are; Ops on devices transfer them.
    """

    def decorator(maker):
        @local_optimizer(OP)
        def rule(node):
            found = context_of(node) if all(map(_can_move, node.outputs)) else None
            if found is None:
                return False
            (context_name,) = found
            if cuda_only and get_context(context_name).kind != b"cuda":
                return False
            inputs = [
                as_gpuarray_variable(v, context_name)
                if v.owner is not None and isinstance(v.owner.op, HostFromGpu)
                else v
                for v in node.inputs
            ]
            outputs = made(maker(node.op, context_name, inputs, node.outputs), inputs)
            if outputs is None or any(a.owner is not None and _same_on_host(a.owner, node) for a in outputs):
                return False
            return copy_stack_trace(node.outputs, [safe_to_cpu(v) for v in outputs])

        rule.__name__ = maker.__name__
        rule.fn.__doc__ = rule.__doc__ = maker.__doc__
        return rule

    return decorator


def _on_device(v):
    return isinstance(v.type, GpuArrayType)


def _can_move(v):
    """Whether an output is on the host, and not because devices cannot hold it."""
    return not _on_device(v) and (not isinstance(v.type, TensorType) or gpu_supported(v))


def _same_on_host(new, node):
    """Whether a rule has made the same node again."""
    return new.op == node.op and not any(_on_device(v) for v in [*new.inputs, *new.outputs])


def lifts(*tracks, tags=("fast_compile",), name=None):
    """Decorator of the package's rules that move an Op to a device: registered for the pass over the graph, and for single nodes.

    Parameters
    ----------
    *tracks : Op classes or instances
    tags : sequence of str
    name : str, optional
        Instead of the function's.

    Returns
    -------
    callable
        Of ``f(op, context_name, inputs, outputs)``; gives the rule for single nodes.
    """

    def decorator(f):
        f.__name__ = name or f.__name__
        register_opt2(list(tracks), *tags, own=True)(f)
        return register_opt(*tags, own=True)(op_lifter(list(tracks))(f))

    return decorator
