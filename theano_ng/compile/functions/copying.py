"""Copies of compiled functions. Each copy has a separate graph, and may have other shared variables than the original.

The copied graph is not rewritten again.
"""

import copy

from theano_ng.compile.functions.aliasing import destroyed_roots, infer_reuse_pattern, insert_deepcopy
from theano_ng.compile.ops import deep_copy_op
from theano_ng.compile.profiling import ProfileStats
from theano_ng.compile.sharedvalue import SharedVariable
from theano_ng.configdefaults import config
from theano_ng.gof import graph, link
from theano_ng.gof.destroy.handler import DestroyHandler
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.utils import fewer_collections


@fewer_collections()
def copy_function(function, share_memory=False, swap=None, delete_updates=False, name=None, profile=None):
    """Copy a function. See `Function.copy` for the parameters."""
    maker = function.maker
    swap = dict(swap or {})
    variables = {spec.variable: spec for spec in maker.inputs}
    for old, new in swap.items():
        if old not in variables or not isinstance(variables[old].value, link.Container):
            raise ValueError("SharedVariable: %s not found: it is not a shared variable of this function" % old)
        if not isinstance(new, SharedVariable):
            raise TypeError("swap: %s cannot be replaced by %r, which is not a shared variable" % (old, new))
        if old.type != new.type:
            raise TypeError("swap: %s has type %s, but %s has type %s" % (old, old.type, new, new.type))
    if swap and len(set(swap.values()) | (set(variables) - set(swap))) != len(variables):
        raise ValueError("swap: a variable would occur twice among the inputs of the copy")

    specs = []
    for spec in maker.inputs:
        spec = copy.copy(spec)
        if delete_updates:
            spec.update = None
        if spec.variable in swap:
            spec.variable = swap[spec.variable]
            spec.value = spec.variable.container
        specs.append(spec)

    fgraph = maker.fgraph
    n_outputs = len(maker.outputs)
    kept_outputs = fgraph.outputs[:n_outputs] if delete_updates else fgraph.outputs
    memo = graph.clone_get_equiv(fgraph.inputs, kept_outputs, copy_inputs=True, copy_orphans=True)
    # `memo` contains copies of the constants, because constants may have other clients. The inputs are new variables.
    new_fgraph = FunctionGraph(
        [memo[r] for r in fgraph.inputs],
        [memo[r] for r in kept_outputs],
        clone=False,
        update_mapping={} if delete_updates else fgraph.update_mapping,
    )
    for old, new, spec in zip(fgraph.inputs, new_fgraph.inputs, specs):
        if old.name is not None and spec.variable.name is not None:
            new.name = spec.variable.name
    if any(getattr(node.op, "destroy_map", None) for node in new_fgraph.apply_nodes):
        new_fgraph.attach_feature(DestroyHandler())
    if delete_updates:
        _protect_former_updates(maker, new_fgraph)
        insert_deepcopy(new_fgraph, specs, maker.outputs)

    if name is None:
        name = (function.name or "") + " copy"
    if profile is None:
        profile = config.profile
    if profile is True or isinstance(profile, str):
        profile = ProfileStats(message=profile if isinstance(profile, str) else name)
    new_maker = type(maker)(
        inputs=specs,
        outputs=[copy.copy(spec) for spec in maker.outputs],
        mode=maker.mode,
        accept_inplace=maker.accept_inplace,
        function_builder=maker.function_builder,
        profile=profile or None,
        on_unused_input="ignore",
        fgraph=new_fgraph,
        output_keys=maker.output_keys,
        name=name,
    )

    values = []
    for spec, container in zip(specs, function.input_storage):
        if isinstance(spec.value, link.Container):
            values.append(spec.value)
        elif spec.value is None:
            values.append(None)
        else:
            current = container.storage[0]
            values.append(copy.deepcopy(current) if spec.mutable else current)
    storage_map = None
    if share_memory and getattr(function.fn, "storage_map", None):
        # Exclude variables whose memory an output or an update of this function may use, because the copy would
        # overwrite this memory.
        apart = {*fgraph.inputs, *fgraph.outputs, *infer_reuse_pattern(fgraph, fgraph.outputs)}
        storage_map = {
            memo[r]: cell
            for r, cell in function.fn.storage_map.items()
            if r in memo and r not in apart and r.owner is not None
        }
    new = new_maker.create(values, trustme=True, storage_map=storage_map)
    if storage_map:
        new.share_gate(function)
    new.trust_input = function.trust_input
    return new


def _protect_former_updates(maker, fgraph):
    """Copy the inputs that had updates in the original function, so that in-place nodes overwrite only the copies."""
    destroyed = destroyed_roots(fgraph)
    for spec, variable in zip(maker.inputs, fgraph.inputs):
        if spec.update is not None and variable in destroyed:
            clients = list(variable.clients)
            twin = deep_copy_op(variable)
            for client, i in clients:
                fgraph.change_input(client, i, twin, reason="copy without updates")
