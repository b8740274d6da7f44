"""All Ops and functions on sparse matrices, imported from the modules that define them.

The list `__all__` of each of these modules contains the names that it defines.
"""

from theano_ng.configdefaults import config
from theano_ng.sparse.arithmetic import *
from theano_ng.sparse.comparisons import *
from theano_ng.sparse.conversion import *
from theano_ng.sparse.from_rows import *
from theano_ng.sparse.indexing import *
from theano_ng.sparse.products import *
from theano_ng.sparse.reductions import *
from theano_ng.sparse.shaping import *
from theano_ng.sparse.structured import *
from theano_ng.sparse.type import SparseType, _is_sparse
from theano_ng.sparse.utils import hash_from_sparse
from theano_ng.sparse.var import *

integer_types = (int,)

__all__ = ["SparseType", "_is_sparse", "config", "hash_from_sparse", "integer_types"]
