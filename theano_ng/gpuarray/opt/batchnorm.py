"""Rules that move the abstract Ops of batch normalization to a device.

`abstract_batch_norm_db` contains the rules for single nodes, and `abstract_batch_norm_db2` the rules for the pass over
the graph.
"""

from theano_ng.gof.graph import Constant
from theano_ng.gof.optdb import LocalGroupDB
from theano_ng.gof.rewriting import GraphToGPULocalOptGroup, local_optimizer
from theano_ng.gpuarray.basic_ops import as_gpuarray_variable
from theano_ng.gpuarray.batchnorm import GpuBatchNormTrain, GpuBatchNormTrainGrad
from theano_ng.gpuarray.elemwise import GpuElemwise
from theano_ng.gpuarray.kernels.batchnorm import DTYPES
from theano_ng.gpuarray.opt.arrays import with_pattern
from theano_ng.gpuarray.opt.databases import gpu_optimizer2, op_lifter, register_opt
from theano_ng.gpuarray.twin import host_variable
from theano_ng.scalar import basic as scalar
from theano_ng.tensor.constant import NotScalarConstantError, constant, get_scalar_constant_value
from theano_ng.tensor.nnet.bn_ops import (
    AbstractBatchNormInference,
    AbstractBatchNormTrain,
    AbstractBatchNormTrainGrad,
    correction,
    in_dtype,
)

abstract_batch_norm_db = LocalGroupDB()
abstract_batch_norm_db.__name__ = "abstract_batch_norm_db"
register_opt("fast_compile", name="abstract_batch_norm_db")(abstract_batch_norm_db)

# A group without rules of the package. Other packages may register rules in it.
abstract_batch_norm_groupopt = LocalGroupDB()
abstract_batch_norm_groupopt.__name__ = "gpuarray_batchnorm_opts"
register_opt("fast_compile", name="gpuarray_batchnorm_opts")(abstract_batch_norm_groupopt)

abstract_batch_norm_db2 = LocalGroupDB(local_opt=GraphToGPULocalOptGroup)
abstract_batch_norm_db2.__name__ = "abstract_batch_norm_db2"
gpu_optimizer2.register("abstract_batch_norm_db2", abstract_batch_norm_db2, "fast_run", "gpuarray", "fast_compile")


def _lifts(track, position):
    """Return a decorator that registers a function in both databases. See `databases.lifts`."""

    def decorator(f):
        tags = "fast_compile", "fast_run", "gpuarray"
        abstract_batch_norm_db2.register(f.__name__, local_optimizer([track])(f), *tags, position=position)
        rule = op_lifter([track])(f)
        abstract_batch_norm_db.register(f.__name__, rule, *tags, position=position)
        return rule

    return decorator


def _of_arrays(op, count, context_name, inputs):
    """Apply an Op to arrays on the device, the first `count` inputs, and to a number on the host, the next input."""
    arrays = [as_gpuarray_variable(v, context_name) for v in inputs[:count]]
    return op(*arrays, host_variable(inputs[count]), return_list=True)


def _cast(value, dtype):
    """Return a number on the host, cast to a dtype. Cast constants now, because later rules do not fold them."""
    value = host_variable(value)
    try:
        return constant(get_scalar_constant_value(value), dtype=dtype)
    except NotScalarConstantError:
        return in_dtype(value, dtype)


def _number(value, ndim, context_name):
    """Return a 0-d variable on the host as an array of `ndim` dimensions on the device."""
    value = _cast(value, value.dtype)
    if isinstance(value, Constant):
        value = constant(value.data.reshape((1,) * ndim))
    else:
        value = value.dimshuffle(["x"] * ndim)
    return as_gpuarray_variable(value, context_name)


_add, _sub, _mul, _div, _sqrt = [
    GpuElemwise(op) for op in (scalar.add, scalar.sub, scalar.mul, scalar.true_div, scalar.sqrt)
]


@_lifts(AbstractBatchNormTrain, 2)
def local_abstract_batch_norm_train(op, context_name, inputs, outputs):
    """Normalize by one kernel. Compute running averages by elementwise operations.

    AbstractBatchNormTrain((0,))(host(A), host(row), host(row))[:3]  ->
        [host(v) for v in GpuBatchNormTrain((0,))(A, row, row, T.constant(1e-4))[:3]]
    """
    if outputs[0].dtype not in DTYPES:
        return False
    *results, variance = _of_arrays(GpuBatchNormTrain(op.axes), 3, context_name, inputs)
    if len(inputs) == 5:
        return results
    x, factor = results[0], _cast(inputs[4], outputs[0].dtype)
    keep = _number(1 - factor, x.ndim, context_name)
    weights = factor, factor * correction(as_gpuarray_variable(inputs[0], context_name), op.axes)
    for k, (new, weight) in enumerate(zip((results[1], variance), weights)):
        old = as_gpuarray_variable(inputs[5 + k], context_name)
        average = _add(_mul(old, keep), _mul(new, _number(weight, x.ndim, context_name)))
        results.append(with_pattern(average, outputs[3 + k]))
    return results


@_lifts(AbstractBatchNormTrainGrad, 3)
def local_abstract_batch_norm_train_grad(op, context_name, inputs, outputs):
    """Compute the gradient by one kernel.

    AbstractBatchNormTrainGrad((0,))(host(A), host(B), host(row), host(row), host(row))  ->
        [host(v) for v in GpuBatchNormTrainGrad((0,))(A, B, row, row, row, T.constant(1e-4))]
    """
    if outputs[0].dtype not in DTYPES:
        return False
    return _of_arrays(GpuBatchNormTrainGrad(op.axes), 5, context_name, inputs)


@_lifts(AbstractBatchNormInference, 4)
def local_abstract_batch_norm_inference(op, context_name, inputs, outputs):
    """Compute the normalization with given statistics by elementwise operations, which can be fused.

    AbstractBatchNormInference((0,))(host(A), host(row), host(row), host(row), host(row))  ->
        host(add(mul(sub(A, row), true_div(row, sqrt(add(row, gpu(T.constant([[1e-4]])))))), row))
    """
    x, scale, bias, mean, variance = [as_gpuarray_variable(v, context_name) for v in inputs[:5]]
    epsilon = _number(_cast(inputs[5], x.dtype), x.ndim, context_name)
    result = _add(_mul(_sub(x, mean), _div(scale, _sqrt(_add(variance, epsilon)))), bias)
    return [with_pattern(result, outputs[0])]
