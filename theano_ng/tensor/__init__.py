"""Symbolic n-dimensional arrays and the functions that compute with them.

This package is conventionally imported as ``T``::

    import theano_ng.tensor as T
    x = T.dmatrix('x')
    y = T.exp(x).sum(axis=0)

The import of this package loads the basic functions. Subpackages (`nnet`, `signal`, `nlinalg`, ...), gradients and the
functions of `io` are imported when they are first used.
"""

import sys as _sys

from theano_ng import moved as _moved
from theano_ng.gof import ports as _ports
from theano_ng.gof.optdb import register_loader as _register_loader
from theano_ng.lazy import lazy_names as _lazy_names
from theano_ng.tensor.basic import *
from theano_ng.tensor import basic
from theano_ng.tensor import methods as _methods, shortcuts as _shortcuts
from theano_ng.tensor.constant_rules import get_scalar_constant_value_elemwises
from theano_ng.tensor import numpy_protocols as _numpy_protocols
from theano_ng.compile.sharedvalue import shared as _shared
from theano_ng.tensor.var import _tensor_py_operators
from theano_ng.tensor.type_other import *
from theano_ng.tensor.sharedvar import tensor_constructor
from theano_ng.tensor.extra_ops import (
    DiffOp,
    bartlett,
    bincount,
    cumprod,
    cumsum,
    diff,
    fill_diagonal,
    fill_diagonal_offset,
    ravel_multi_index,
    repeat,
    squeeze,
    unravel_index,
)

# In this namespace, `sort` and `var` are functions, although modules have the same names. The modules can be imported
# by `import theano_ng.tensor.sort` or `from theano_ng.tensor.sort import ...`.
from theano_ng.tensor.sort import argsort, argtopk, sort, topk, topk_and_argtopk
from theano_ng.tensor.reductions.statistics import var

# `Tensor` is the former name of `TensorType`.
Tensor = TensorType

# `numpy_protocols` looks up the counterparts of NumPy's functions in this namespace.
_numpy_protocols.namespace = _sys.modules[__name__]

# These modules contain the rewriting rules for the Ops of this package. They are imported when rules are first queried.
for _module in ("", ".uncanonicalize", ".blas"):
    _register_loader("theano_ng.tensor.opt" + _module)
del _module

# `logarithms` calls softplus by this port. The port imports the function from `nnet` at the first call.
_ports.softplus.fill("theano_ng.tensor.nnet.sigmoids:softplus")

_moved.keep_names(__name__)

# These names and modules are imported when they are first used.
__getattr__, __dir__, _ = _lazy_names(
    __name__,
    {
        "theano_ng.gradient": (
            "DisconnectedType Lop Rop consider_constant grad grad_not_implemented grad_undefined hessian jacobian "
            "numeric_grad verify_grad"
        ),
        "theano_ng.tensor.io": (
            "LoadFromDisk MPIRecv MPIRecvWait MPISend MPISendWait irecv isend load mpi_cmps mpi_enabled mpi_keys "
            "mpi_send_wait_cmp mpi_send_wait_key mpi_tag_cmp mpi_tag_key recv send"
        ),
        "theano_ng.gof.sched": "key_to_cmp",
        "theano_ng.tensor.indexing.inc_code": "inc_code",
        "theano_ng.tensor.star_names": (
            "Iterable builtins compile dedent gof izip logging np numbers partial printing python_all python_any "
            "python_complex sys theano warnings xrange __all__=names"
        ),
    },
    modules=(
        "blas blas_c blas_headers blas_scipy elemwise_cgen fft fourier inplace io nlinalg nnet opt opt_uncanonicalize "
        "raw_random shared_randomstreams signal slinalg subtensor utils xlogx"
    ),
)
