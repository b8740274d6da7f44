"""Rules that remove operations that change no values: views, conversions back and forth, unused outputs."""

from theano_ng import scalar
from theano_ng.compile.ops import OutputGuard, ViewOp
from theano_ng.gof.rewriting import copy_stack_trace, local_optimizer
from theano_ng.tensor.elemwise.op import Elemwise
from theano_ng.tensor.opt.common import computes
from theano_ng.tensor.opt.patterns import names, rule, terms
from theano_ng.tensor.opt.registration import register_canonicalize, register_specialize, register_useless
from theano_ng.tensor.shaping.reshaping import ScalarFromTensor, TensorFromScalar
from theano_ng.tensor.sort import TopKOp

s, number = names("s", "number")
tensor_from_scalar, scalar_from_tensor = terms(TensorFromScalar, ScalarFromTensor)


@register_canonicalize("fast_compile")
@local_optimizer(None)
def local_view_op(node):
    """Remove views that matter only while gradients are taken, such as `consider_constant`.

    consider_constant(x)  ->  x          [canonicalize, fast_run, fast_compile]

    The rule also applies to subclasses of ViewOp that users define. Therefore the rule tracks no class of Ops, and is
    called with every node.
    """
    if not isinstance(node.op, ViewOp) or isinstance(node.op, OutputGuard):
        return False
    x, out = node.inputs[0], node.outputs[0]
    return [x] if x.type == out.type else False


@register_specialize
@register_canonicalize
@rule((tensor_from_scalar(scalar_from_tensor(s)), s))
def local_tensor_scalar_tensor():
    """Remove the conversion of a 0-d tensor to a scalar and back."""


@register_specialize
@register_canonicalize
@rule((scalar_from_tensor(tensor_from_scalar(number)), number))
def local_scalar_tensor_scalar():
    """Remove the conversion of a scalar to a 0-d tensor and back."""


@register_canonicalize
@local_optimizer([Elemwise], when=computes(scalar.Composite))
def local_useless_composite(node):
    """Remove the outputs of a Composite that have no clients.

    Elemwise(Composite([number], [number + number, number * number]))(x, return_list=True)[0]  ->
        Elemwise(Composite([number], [number + number]))(x)          [canonicalize, fast_run]
    """
    if len(node.outputs) == 1:
        return False
    if node.op.inplace_pattern:
        return False
    used = [i for i, o in enumerate(node.outputs) if o.clients]
    if len(used) in (0, len(node.outputs)):
        return False
    composite = node.op.scalar_op
    new = Elemwise(scalar.Composite(composite.inputs, [composite.outputs[i] for i in used]))(
        *node.inputs, return_list=True
    )
    copy_stack_trace([node.outputs[i] for i in used], new)
    return dict(zip([node.outputs[i] for i in used], new))


@register_useless("fast_compile")
@register_specialize
@local_optimizer([TopKOp])
def local_useless_topk(node):
    """Compute only the values or only the indices if the other output has no clients.

    topk_and_argtopk(x, 2)[0]  ->  topk(x, 2)          [specialize, fast_run, fast_compile]

    The rule runs in the phase `useless` and again in `specialize`, because the values in a gradient may lose their last
    client only when the gradient is canonicalized.
    """
    op = node.op
    if not (op.return_values and op.return_indices):
        return False
    values, indices = node.outputs
    if bool(values.clients) == bool(indices.clients):
        return False
    keep = values if values.clients else indices
    new = TopKOp(
        axis=op.axis,
        sorted=op.sorted,
        idx_dtype=op.idx_dtype,
        return_values=keep is values,
        return_indices=keep is indices,
    )(*node.inputs)
    if new.type != keep.type:
        return False
    copy_stack_trace(keep, new)
    return {keep: new}
