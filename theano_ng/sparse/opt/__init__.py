"""Rules for sparse matrices; imported with the first function that is rewritten after `theano_ng.sparse`.

`products` and `elementwise` replace Ops on matrices by Ops on their parts, which have C code; `conversion` removes what is undone at once.
"""

from theano_ng.sparse.conversion import CSC, CSR, csm_properties
from theano_ng.sparse.fields import *  # noqa: F401,F403
from theano_ng.sparse.opt.conversion import *  # noqa: F401,F403
from theano_ng.sparse.opt.elementwise import *  # noqa: F401,F403
from theano_ng.sparse.opt.products import *  # noqa: F401,F403
from theano_ng.sparse.products import usmm

__all__ = ["CSC", "CSR", "csm_properties", "usmm"]
