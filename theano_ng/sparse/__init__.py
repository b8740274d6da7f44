"""Sparse matrices: variables, operations and gradients. Computations skip elements that are known to be zero.

To use sparse matrices, ``import theano_ng.sparse``. Values are matrices of `scipy.sparse`, in the formats csr and csc.
A few operations also support the format bsr.

A gradient is either regular or structured. A regular gradient is the gradient of the dense operation. A structured
gradient is computed for stored entries only, as if the matrix had no other elements. The description of each function
names the kind of its gradient.
"""

from numpy.lib.stride_tricks import as_strided

from theano_ng.gof.derivative import DisconnectedType, grad_not_implemented, grad_undefined
from theano_ng.gof.optdb import register_loader as _register_loader
from theano_ng.lazy import lazy_names as _lazy_names
from theano_ng.sparse import basic, methods, sharedvar
from theano_ng.sparse.basic import *
from theano_ng.sparse.arithmetic import *
from theano_ng.sparse.comparisons import *
from theano_ng.sparse.conversion import *
from theano_ng.sparse.indexing import *
from theano_ng.sparse.products import *
from theano_ng.sparse.reductions import *
from theano_ng.sparse.from_rows import *
from theano_ng.sparse.shaping import *
from theano_ng.sparse.sharedvar import sparse_constructor as shared
from theano_ng.sparse.structured import *
from theano_ng.sparse.type import SparseType, _is_sparse, imported_scipy, string_types
from theano_ng.sparse.utils import hash_from_sparse
from theano_ng.sparse.var import *

# This classic flag is always True, because the package requires SciPy.
enable_sparse = True

_register_loader("theano_ng.sparse.opt")

# Modules that are imported when they are first accessed as attributes.
__getattr__, __dir__, _lazy = _lazy_names(__name__, {}, modules="opt sandbox tests")
