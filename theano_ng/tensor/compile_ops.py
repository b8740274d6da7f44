"""Native code of the Ops of `compile.ops` for the Types `TensorType` and `Scalar`."""

import theano_ng.compile.ops as ops
from theano_ng.gof import ports
from theano_ng.gof.native import NativeCode, register_native_code
from theano_ng.scalar import Scalar
from theano_ng.tensor.type import TensorType

_FAMILY = "theano_ng.tensor.native.shape:"


def _fixed(name, family=_FAMILY):
    code = NativeCode(family + name)
    return lambda op, node: code


def register(type_class, family=_FAMILY):
    """Register the native code of the Ops of `compile.ops` for a Type class.

    Parameters
    ----------
    type_class : class
    family : str
        The name of the module with the functions `deep_copy`, `shape`, `shape_i`, `specify_shape` and `rebroadcast`,
        followed by ":". The default is the module for NumPy arrays.
    """

    def rebroadcast(op, node):
        return NativeCode(family + "rebroadcast", axes=[axis for axis, flag in op.axis.items() if flag])

    def shape_i(op, node):
        return NativeCode(family + "shape_i", axis=op.i)

    for op_class, make in (
        (ops.ViewOp, _fixed("view")),
        (ops.OutputGuard, _fixed("view")),
        (ops.DeepCopyOp, _fixed("deep_copy", family)),
        (ops.Shape, _fixed("shape", family)),
        (ops.Shape_i, shape_i),
        (ops.SpecifyShape, _fixed("specify_shape", family)),
        (ops.Rebroadcast, rebroadcast),
    ):
        register_native_code(op_class, type_class, make)


register(TensorType)
ops.expandable_types += (TensorType,)

# NumPy scalars are immutable, so the native code of the following Ops returns its input, even for `DeepCopyOp`.
# Generated C code copies a scalar by assignment.
ops.value_types += (Scalar,)
for _op_class in (ops.ViewOp, ops.OutputGuard, ops.DeepCopyOp):
    register_native_code(_op_class, Scalar, _fixed("view"))

_size_types = {ndim: TensorType("int64", (False,) * ndim) for ndim in (0, 1)}
ports.size_type.fill(_size_types.__getitem__)
ports.shape_feature.fill("theano_ng.tensor.opt.shape:ShapeFeature")
