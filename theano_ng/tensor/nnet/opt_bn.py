"""Rules that replace the abstract Ops of batch normalization by implementations on the CPU."""

from theano_ng.gof.optdb import LocalGroupDB
from theano_ng.tensor.elemwise.functions import cast, sqrt
from theano_ng.tensor.nnet.bn_ops import (
    AbstractBatchNormInference,
    AbstractBatchNormTrain,
    AbstractBatchNormTrainGrad,
    BatchNormTrain,
    BatchNormTrainGrad,
    correction,
)
from theano_ng.tensor.opt.patterns import Rest, names, rule, terms
from theano_ng.tensor.opt.registration import register_specialize_device

bn_groupopt = LocalGroupDB()
bn_groupopt.__name__ = "batchnorm_opts"
register_specialize_device(bn_groupopt, "fast_compile")


abstract_train, abstract_grad, abstract_inference = terms(
    AbstractBatchNormTrain, AbstractBatchNormTrainGrad, AbstractBatchNormInference
)


@rule(abstract_train(*names("x", "scale", "bias", "epsilon", "factor"), Rest("running")))
def local_abstract_batch_norm_train(op, x, scale, bias, epsilon, factor, running):
    """Normalize by native code. Compute running averages by expressions of the statistics that the native code returns.

    AbstractBatchNormTrain((0,))(A, row, row)[0]  ->  BatchNormTrain((0,))(A, row, row, T.constant(1e-4))[0]
                                                               [30, batchnorm_opts, fast_run, fast_compile]
    """
    out, mean, invstd, var = BatchNormTrain(op.axes)(x, scale, bias, epsilon)
    results = [out, mean, invstd]
    if running:
        weight = cast(factor, x.dtype)
        news = (mean, correction(x, op.axes) * var)
        results += [old * (1 - weight) + new * weight for old, new in zip(running, news)]
    return results


@rule(abstract_grad(Rest("inputs")))
def local_abstract_batch_norm_train_grad(op, inputs):
    """Compute the gradient by native code.

    AbstractBatchNormTrainGrad((0,))(A, B, row, row, row)[0]  ->
        BatchNormTrainGrad((0,))(A, B, row, row, row, T.constant(1e-4))[0]
                                                               [30, batchnorm_opts, fast_run, fast_compile]
    """
    return BatchNormTrainGrad(op.axes)(*inputs)


@rule(abstract_inference(*names("x", "scale", "bias", "mean", "var", "epsilon")))
def local_abstract_batch_norm_inference(x, scale, bias, mean, var, epsilon):
    """Compute the normalization with given statistics by elementwise operations, which can be fused.

    AbstractBatchNormInference((0,))(A, row, row, row, row)  ->
        (A - row) * (row / T.sqrt(row + T.constant(1e-4))) + row   [30, batchnorm_opts, fast_run, fast_compile]
    """
    return (x - mean) * (scale / sqrt(var + cast(epsilon, x.dtype))) + bias


for _position, _rule in enumerate(
    (local_abstract_batch_norm_train, local_abstract_batch_norm_train_grad, local_abstract_batch_norm_inference)
):
    bn_groupopt.register(_rule.__name__, _rule, "30", "fast_compile", "fast_run", position=_position)
del _position, _rule
