"""The basic tensor functions: a facade over the modules that define them.

========================  ====================================================
`constructors`            `dscalar`, `vector`, `matrices` ...
`constant`                wrapping values, reading constants back
`elemwise.functions`      elementwise operations, casts, comparisons
`shaping`                 `zeros`, `diag`, `reshape`, `join`, `alloc` ...
`indexing`                `nonzero`, `choose`, `set_subtensor` ...
`reductions`              `sum`, `max`, `mean` ...
`linalg.products`         `dot`, `tensordot` ...
========================  ====================================================
"""

# The order of the imports matters: each module needs modules that are imported before it.
from builtins import all as python_all, any as python_any, complex as python_complex

from theano_ng import scalar as scal
from theano_ng.configdefaults import config
from theano_ng.gof.graph import Apply, Constant, Variable
from theano_ng.gof.op import Op
from theano_ng.gof.params_type import ParamsType
from theano_ng.gof.type import Generic, Type
from theano_ng.gof.utils import MethodNotDefined, hashtype
from theano_ng.lazy import CLASSIC_IMPORTS as _CLASSIC_IMPORTS, lazy_names as _lazy_names
from theano_ng.printing import min_informative_str, pprint
from theano_ng.scalar import int32, int32 as int32_t

from theano_ng.tensor.type import TensorType, values_eq_approx_always_true
from theano_ng.tensor.exceptions import *
from theano_ng.tensor.type_other import NoneConst
from theano_ng.tensor.var import (
    AsTensorError,
    TensorConstant,
    TensorConstantSignature,
    TensorVariable,
    _tensor_py_operators,
)
from theano_ng.tensor.constant import *
from theano_ng.tensor.constructors import *
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.reductions.careduce import CAReduce, Sum
from theano_ng.tensor.elemwise.functions import *
from theano_ng.compile.ops import Rebroadcast, Shape, SpecifyShape, shape, specify_shape
from theano_ng.tensor.shaping.creation import *
from theano_ng.tensor.shaping.diagonals import *
from theano_ng.tensor.indexing.selecting import *
from theano_ng.tensor.shaping.allocation import *
from theano_ng.tensor.shaping.broadcasting import *
from theano_ng.tensor.shaping.joining import *
from theano_ng.tensor.shaping.reshaping import *
from theano_ng.tensor.shaping.joining import _permute_row_elements
from theano_ng.tensor.reductions.axes import *
from theano_ng.tensor.reductions.extremes import *
from theano_ng.tensor.reductions.statistics import *
from theano_ng.tensor.reductions.sums import *
from theano_ng.tensor.linalg.batches import *
from theano_ng.tensor.linalg.products import *
from theano_ng.tensor.transfer import register_transfer, transfer
from theano_ng.tensor.indexing.subtensor import *

integer_types = (int,)

# Each variable contains the dtype names of one family. The values are lists, because user programs add lists to them.
int_dtypes = [str(t.dtype) for t in scal.int_types]
uint_dtypes = [str(t.dtype) for t in scal.uint_types]
float_dtypes = [str(t.dtype) for t in scal.float_types]
complex_dtypes = [str(t.dtype) for t in scal.complex_types]
discrete_dtypes = [str(t.dtype) for t in scal.discrete_types]
continuous_dtypes = float_dtypes + complex_dtypes
integer_dtypes = int_dtypes + uint_dtypes
all_dtypes = discrete_dtypes + continuous_dtypes

# These functions are also methods of variables.
from theano_ng.tensor.extra_ops import (  # noqa: E402, in the order of the names
    compress,
    cumprod,
    cumsum,
    repeat,
    searchsorted,
    squeeze,
)
from theano_ng.tensor.sort import argsort, sort  # noqa: E402, in the order of the names


# Third-party Ops import the following names from this module, and the documentation lists some of the functions here.
# The modules that define the names are imported when a name is first used.
__getattr__, __dir__, _ = _lazy_names(
    __name__,
    {
        **_CLASSIC_IMPORTS,
        "theano_ng.gradient_check": "numeric_grad verify_grad",
        "theano_ng.tensor": "elemwise",
        "theano_ng.tensor.shaping.creation": "_arange",
        "theano_ng.tensor.type": "Tensor=TensorType",
    },
)


def _pack(x):
    """Return a list of the elements of `x`. Return ``[x]`` if `x` is not iterable."""
    try:
        return list(x)
    except TypeError:
        return [x]


def constructor(f):
    """Mark a function as a constructor of variables. This is a decorator, which returns the function unchanged."""
    return f
