"""Scalar types and ops, from which Elemwise, Composite and reductions are built."""

from theano_ng.gof import ports
from theano_ng.lazy import CLASSIC_IMPORTS, lazy_names
from theano_ng.scalar.basic import *
from theano_ng.scalar.basic_scipy import *

ports.cdata_op.fill("theano_ng.scalar.cdata_op:MakeCData")

# `sharedvar` needs `theano_ng.compile`, a higher layer, so it is imported when it is first used.
__getattr__, __dir__, _ = lazy_names(
    __name__,
    {
        **CLASSIC_IMPORTS,
        "builtins": "builtin_bool=bool builtin_complex=complex builtin_float=float builtin_int=int",
        "theano_ng": "gof printing",
    },
    modules="sharedvar",
)
