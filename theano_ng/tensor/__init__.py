"""Symbolic n-d arrays and what can be computed with them.

Conventionally imported as ``T``::

    import theano_ng.tensor as T
    x = T.dmatrix('x')
    y = T.exp(x).sum(axis=0)

The basic functions are here at once.  Subpackages (`nnet`, `signal`,
`nlinalg`, ...), gradients, input and output are loaded when they are first
asked for.
"""

from theano_ng import moved as _moved
from theano_ng.gof.optdb import register_loader as _register_loader
from theano_ng.lazy import lazy_names as _lazy_names
from theano_ng.tensor.basic import *  # noqa: F401,F403
from theano_ng.tensor import basic  # noqa: F401
from theano_ng.tensor import methods as _methods, shortcuts as _shortcuts  # noqa: F401
from theano_ng.tensor.constant_rules import get_scalar_constant_value_elemwises  # noqa: F401
from theano_ng.compile.sharedvalue import shared as _shared  # noqa: F401
from theano_ng.tensor.var import _tensor_py_operators  # noqa: F401
from theano_ng.tensor.type_other import *  # noqa: F401,F403
from theano_ng.tensor.sharedvar import tensor_constructor  # noqa: F401
from theano_ng.tensor.extra_ops import (  # noqa: F401
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

# `sort` and `var` are functions here, although there are modules of that name;
# these are reached by `import theano_ng.tensor.sort` or `from ... import`.
from theano_ng.tensor.sort import (  # noqa: F401
    argsort,
    argtopk,
    sort,
    topk,
    topk_and_argtopk,
)
from theano_ng.tensor.reductions.statistics import var  # noqa: F401

# Old name of the type.
Tensor = TensorType  # noqa: F405

# The rules on the Ops that are there from the start.
for _module in ("", ".uncanonicalize", ".blas"):
    _register_loader("theano_ng.tensor.opt" + _module)
del _module

_moved.keep_names(__name__)

# Names, and modules, that are loaded when they are asked for.
__getattr__, __dir__, _lazy = _lazy_names(
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
            "python_complex sys theano warnings xrange"
        ),
    },
    modules=(
        "blas blas_c blas_headers blas_scipy elemwise_cgen fft fourier inplace io nlinalg nnet opt opt_uncanonicalize "
        "raw_random shared_randomstreams signal slinalg subtensor utils xlogx"
    ),
)

# What `from theano_ng.tensor import *` gives is what Theano 1.0 gave: programs that import everything have names of their own, which
# later ones would replace. Modules of chapters that are missing are left out.
_LATER = (
    "Argmin MakeVector NumpyAutocaster as_index_constant assert_op autocast_float autocast_float_as autocast_int compile_ops "
    "complex_col_types complex_row_types complex_tensor3_types complex_tensor4_types complex_tensor5_types "
    "complex_tensor6_types complex_tensor7_types compress constant_or_value constant_rules constructors counting diff dtypes "
    "exceptions float_col_types float_row_types float_tensor3_types float_tensor4_types float_tensor5_types "
    "float_tensor6_types float_tensor7_types hashing index_variable indexing int_col_types int_row_types int_tensor3_types "
    "int_tensor4_types int_tensor5_types int_tensor6_types int_tensor7_types linalg make_vector matmul methods moveaxis "
    "reductions register_scalar_constant rollaxis searchsorted shaping tensor_constructor"
)
_MODULES = (
    "blas_c blas_headers blas_scipy elemwise_cgen io nlinalg nnet opt opt_uncanonicalize raw_random shared_randomstreams "
    "subtensor utils xlogx"
)
__all__ = sorted(
    ({name for name in globals() if not name.startswith("_")} | set(_lazy) | set(_MODULES.split()).intersection(__dir__()))
    - set(_LATER.split())
)
