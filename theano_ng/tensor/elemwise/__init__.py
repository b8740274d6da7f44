"""Elementwise operations.

==============  ======================================================================
`op`            the Ops: `Elemwise`, which lifts a scalar op, and `DimShuffle`, which aligns dimensions
`functions`     the functions for users: `exp`, `add`, casts, comparisons ...
`inplace`       operations that overwrite the memory of their first argument
`xlogx`         x log(x) and x log(y)
`kernel`        the loop programs of Elemwise nodes, and the tables of operands for `native/elementwise/elemwise.c`
`divisors`      the detection of integer divisors that may be zero
`perform`       the evaluation of scalar ops on arrays in Python
`cgen`          the helpers of Theano 1.0 for C loops over arrays, for Ops of users
==============  ======================================================================

This package exports the names of the Theano 1.0 module `theano.tensor.elemwise`.
"""

from theano_ng.lazy import CLASSIC_IMPORTS, lazy_names

_NAMES = {
    "theano_ng.tensor.elemwise.op": "DimShuffle DimShufflePrinter Elemwise scalar_continuous scalar_one",
    "theano_ng.tensor.reductions.careduce": (
        "All Any CAReduce CAReduceDtype MulWithoutZeros Prod ProdWithoutZeros Sum mul_without_zeros"
    ),
}
__all__ = lazy_names(__name__, _NAMES)[2]
__getattr__, __dir__, _ = lazy_names(
    __name__,
    {
        **CLASSIC_IMPORTS,
        **_NAMES,
        "theano_ng.tensor.constant": "as_tensor_variable",
        "theano_ng.tensor.type": "TensorType",
        "theano_ng.tensor.var": "TensorConstant TensorVariable",
    },
    modules="cgen",
)
