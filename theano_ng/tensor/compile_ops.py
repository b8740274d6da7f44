"""What `compile.ops` does not know about tensors and numbers: the native code of its Ops for TensorType and Scalar."""

import theano_ng.compile.ops as ops
from theano_ng.gof import ports
from theano_ng.gof.native import NativeCode, register_native_code
from theano_ng.scalar import Scalar
from theano_ng.tensor.type import TensorType

_FAMILY = "theano_ng.tensor.native.shape:"


def _fixed(name):
    code = NativeCode(_FAMILY + name)
    return lambda op, node: code


def _rebroadcast(op, node):
    return NativeCode(_FAMILY + "rebroadcast", axes=[axis for axis, flag in op.axis.items() if flag])


def _shape_i(op, node):
    return NativeCode(_FAMILY + "shape_i", axis=op.i)


def register(type_class):
    """Give the Ops of `compile.ops` their native code for a Type class whose values are NumPy arrays."""
    for op_class, make in (
        (ops.ViewOp, _fixed("view")),
        (ops.OutputGuard, _fixed("view")),
        (ops.DeepCopyOp, _fixed("deep_copy")),
        (ops.Shape, _fixed("shape")),
        (ops.Shape_i, _shape_i),
        (ops.SpecifyShape, _fixed("specify_shape")),
        (ops.Rebroadcast, _rebroadcast),
    ):
        register_native_code(op_class, type_class, make)


register(TensorType)
ops.expandable_types += (TensorType,)

# NumPy scalars: the same object in Python, an assignment inside a compiled module.
ops.value_types += (Scalar,)
for _op_class in (ops.ViewOp, ops.OutputGuard, ops.DeepCopyOp):
    register_native_code(_op_class, Scalar, _fixed("view"))

_size_types = {ndim: TensorType("int64", (False,) * ndim) for ndim in (0, 1)}
ports.size_type.fill(_size_types.__getitem__)
ports.shape_feature.fill("theano_ng.tensor.opt.shape:ShapeFeature")
