"""Sparse matrices: variables, operations and gradients that do not compute what is zero. ``import theano_ng.sparse`` is needed to use them.

Formats are csr and csc of `scipy.sparse`, whose matrices are the values. A gradient is either regular, as that of the dense operation, or
structured: computed for stored entries alone, as if nothing else were there. The description of each function says which.
"""

from numpy.lib.stride_tricks import as_strided

from theano_ng.gof.derivative import DisconnectedType, grad_not_implemented, grad_undefined
from theano_ng.gof.optdb import register_loader as _register_loader
from theano_ng.lazy import lazy_names as _lazy_names
from theano_ng.sparse import basic, methods, sharedvar
from theano_ng.sparse.basic import *  # noqa: F401,F403
from theano_ng.sparse.arithmetic import *  # noqa: F401,F403
from theano_ng.sparse.comparisons import *  # noqa: F401,F403
from theano_ng.sparse.conversion import *  # noqa: F401,F403
from theano_ng.sparse.indexing import *  # noqa: F401,F403
from theano_ng.sparse.products import *  # noqa: F401,F403
from theano_ng.sparse.reductions import *  # noqa: F401,F403
from theano_ng.sparse.rows import *  # noqa: F401,F403
from theano_ng.sparse.shaping import *  # noqa: F401,F403
from theano_ng.sparse.sharedvar import sparse_constructor as shared
from theano_ng.sparse.structured import *  # noqa: F401,F403
from theano_ng.sparse.type import SparseType, _is_sparse, imported_scipy, string_types
from theano_ng.sparse.utils import hash_from_sparse
from theano_ng.sparse.var import *  # noqa: F401,F403

# SciPy is a requirement of the package.
enable_sparse = True

_register_loader("theano_ng.sparse.opt")

# Modules that are attributes without having been imported.
__getattr__, __dir__, _lazy = _lazy_names(__name__, {}, modules="opt sandbox tests")
