"""Elementwise operations.

==============  ======================================================================
`op`            the Ops: `Elemwise`, which lifts a scalar op, and `DimShuffle`, which aligns dimensions
`functions`     what users call: `exp`, `add`, casts, comparisons ...
`inplace`       the same, into the memory of the first argument
`xlogx`         x log(x) and x log(y)
`kernel`        the C loop of a scalar expression, and the words that its driver `native/elemwise.c` reads
`perform`       the same in Python
`cgen`          classic helpers for C loops over arrays, for Ops of users
==============  ======================================================================

The names of the classic module `theano.tensor.elemwise` are found here.
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
