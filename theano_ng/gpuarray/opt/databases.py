"""Databases of the device rules, and the decorators that register rules in them.

`gpu_seqopt` is one optimizer of `optdb`. Its position 48.5 is after the rules that simplify host graphs, and before
fusion. A mode includes `gpu_seqopt` if a device is used (`gpuarray.use` adds it to ``fast_run`` and ``fast_compile``),
or if the mode includes the tag ``gpuarray``. The parts of `gpu_seqopt` are:

-0.5  ``gpuarray_graph_optimization``: move as many nodes as possible, in one pass (`graph_to_gpu`)
0     ``InputToGpuArrayOptimizer``: transfer the inputs that the first pass did not transfer
1     ``gpuarray_local_optimizations``: apply rules for single nodes, until none applies
2     ``gpuarray_cut_transfers``: remove transfers that cancel each other
3     ``gpuarray_keep_movement_on_host``: move elements on the host if they come from the host and return to it (`movement`)
4     ``gpuarray_keep_numbers_on_host``: compute with numbers from the host on the host
"""

from theano_ng.compile.mode import optdb
from theano_ng.gof.optdb import EquilibriumDB, LocalGroupDB, SequenceDB
from theano_ng.gof.rewriting import GraphToGPULocalOptGroup, TopoOptimizer, copy_stack_trace, local_optimizer
from theano_ng.gpuarray.basic_ops import GpuFromHost, HostFromGpu, as_gpuarray_variable, host_from_gpu
from theano_ng.gpuarray.opt.graph_to_gpu import GraphToGPUDB, rule_outputs, was_sent
from theano_ng.gpuarray.transfers import moving_to
from theano_ng.gpuarray.type import GpuArrayType, get_context, gpu_supported
from theano_ng.tensor.type import TensorType

REGISTERS_FOR_CALLERS = True
"""See `gof.provenance.is_registered_by_package`."""

gpu_optimizer = EquilibriumDB()
gpu_cut_copies = EquilibriumDB()
gpu_optimizer2 = GraphToGPUDB()
gpu_seqopt = SequenceDB()

gpu_seqopt.register("gpuarray_graph_optimization", gpu_optimizer2, -0.5, "fast_compile", "fast_run", "gpuarray")
gpu_seqopt.register(
    "gpuarray_local_optimizations",
    gpu_optimizer,
    1,
    "fast_compile",
    "fast_run",
    "gpuarray",
    "gpuarray_local_optimiziations",
)
gpu_seqopt.register("gpuarray_cut_transfers", gpu_cut_copies, 2, "fast_compile", "fast_run", "gpuarray")

# This optimizer lacks the tag fast_run. Modes include it only if a device is used, or by the tag ``gpuarray``.
optdb.register("gpuarray_opt", gpu_seqopt, 48.5, "gpuarray")


def register_opt(*tags, **kwargs):
    """Return a decorator that registers a rule for single nodes, with the tags ``fast_run``, ``gpuarray`` and `tags`.

    Parameters
    ----------
    *tags : str
    name : str, keyword
        The name of the rule. Default: the name of the function.
    """

    def decorator(rule):
        name = kwargs.get("name") or rule.__name__
        gpu_optimizer.register(name, rule, "fast_run", "gpuarray", *tags)
        return rule

    return decorator


def register_opt2(tracks, *tags, **kwargs):
    """Return a decorator that registers a rule for the pass over the whole graph.

    Parameters
    ----------
    tracks : list of Op classes or instances
    *tags : str
    name : str, keyword

    The decorated function is called as ``f(op, context_name, inputs, outputs)``. `inputs` are the inputs of the new
    node, which are on the device if they could be moved. `outputs` are the outputs of the old node. The function
    returns an Op, variables, or False.
    """

    def decorator(f):
        name = kwargs.get("name") or f.__name__
        rule = f if not callable(f) or hasattr(f, "transform") else local_optimizer(tracks)(f)
        gpu_optimizer2.register(name, rule, "fast_run", "gpuarray", *tags)
        return f

    return decorator


def register_inplace(*tags, **kwargs):
    """Return a decorator that registers a rule of the phase `inplace` (60), for nodes that may overwrite their inputs
    on a device.
    """

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
        )
        return rule

    return decorator


def safe_to_gpu(x, ctx_name):
    """Transfer a tensor to a device. Return other variables unchanged."""
    return GpuFromHost(ctx_name)(x) if isinstance(x.type, TensorType) else x


def safe_to_cpu(x):
    """Transfer a device variable to the host. Return other variables unchanged."""
    return host_from_gpu(x) if isinstance(x.type, GpuArrayType) else x


def context_of(node):
    """Return the context that a node on the host should be moved to, as ``(name,)``, or None.

    If an input comes from a device, return the context of this input. Inputs that were computed on a device take
    precedence over inputs that were copied to the device from the host. If no input comes from a device, return the
    context to which all outputs are transferred.
    """
    there = [v.owner.inputs[0] for v in node.inputs if v.owner is not None and isinstance(v.owner.op, HostFromGpu)]
    if there:
        return (min(there, key=was_sent).type.context_name,)
    clients = [client for v in node.outputs for client, _ in v.clients]
    if clients and all(client != "output" and isinstance(client.op, GpuFromHost) for client in clients):
        return (clients[0].op.context_name,)
    return None


def op_lifter(OP, cuda_only=False):
    """Return a decorator that makes a rule for nodes on the host that have an input or output on a device.

    Parameters
    ----------
    OP : list of Op classes or instances
    cuda_only : bool
        If True, the rule applies only to CUDA devices.

    The decorated function is called as in `register_opt2`. Inputs that do not come from a device are passed unchanged.
    The Ops for devices transfer them.
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
            with moving_to(context_name):
                outputs = rule_outputs(maker(node.op, context_name, inputs, node.outputs), inputs)
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
    """Return True if an output is on the host and a device could hold it."""
    return not _on_device(v) and (not isinstance(v.type, TensorType) or gpu_supported(v))


def _same_on_host(new, node):
    """Return True if a rule has only made a node of the same Op again, without any variable on a device."""
    return new.op == node.op and not any(_on_device(v) for v in [*new.inputs, *new.outputs])


def lifts(*tracks, tags=("fast_compile",), name=None, group=None, position=1):
    """Return a decorator for the package's rules that move an Op to a device. The decorator registers the function for
    the pass over the graph, and as a rule for single nodes.

    Parameters
    ----------
    *tracks : Op classes or instances
    tags : sequence of str
    name : str, optional
        The name of the rule. Default: the name of the function.
    group : pair of LocalGroupDB, optional
        The groups of rules of which the rule is a part, as `rule_groups` returns them. By default, it is in no group.
    position : float
        The position in the groups.

    Returns
    -------
    callable
        The decorator of ``f(op, context_name, inputs, outputs)``. It returns the rule for single nodes.
    """

    def decorator(f):
        f.__name__ = name or f.__name__
        if group is None:
            register_opt2(list(tracks), *tags)(f)
            return register_opt(*tags)(op_lifter(list(tracks))(f))
        rule = op_lifter(list(tracks))(f)
        for database, one in zip(group, (rule, local_optimizer(list(tracks))(f))):
            database.register(f.__name__, one, "fast_run", "gpuarray", *tags, position=position)
        return rule

    return decorator


def rule_groups(name, *tags):
    """Make and register two groups of rules: for single nodes, and, with "2" behind its name, for the pass over the graph.

    The first rule of a group that applies is used.

    Parameters
    ----------
    name : str
    *tags : str

    Returns
    -------
    LocalGroupDB, LocalGroupDB
    """
    groups = LocalGroupDB(), LocalGroupDB(local_opt=GraphToGPULocalOptGroup)
    for group, database, end in zip(groups, (gpu_optimizer, gpu_optimizer2), ("", "2")):
        group.__name__ = name + end
        database.register(name + end, group, "fast_run", "fast_compile", "gpuarray", *tags)
    return groups
