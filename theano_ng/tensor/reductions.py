"""Reductions: sum, prod, mean, var, max, argmax, all, any and their Ops."""
from theano_ng.tensor.extremes import Argmax, Argmin, MaxAndArgmax, argmax, argmin, max, max_and_argmax, min
from theano_ng.tensor.reduction_axes import check_and_normalize_axes, makeKeepDims
from theano_ng.tensor.statistics import Mean, cov, mean, ptp, std, var
from theano_ng.tensor.sums import all, any, prod, sum

__all__ = [
    'check_and_normalize_axes', 'makeKeepDims', 'MaxAndArgmax', 'Argmax', 'Argmin',
    'max_and_argmax', 'max', 'min', 'argmax', 'argmin', 'sum', 'prod', 'Mean',
    'mean', 'var', 'std', 'all', 'any', 'ptp', 'cov',
]
