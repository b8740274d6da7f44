"""Rewriting rules for sparse matrices.

The package is imported when the first function is rewritten after `theano_ng.sparse` has been imported. The rules
in `products` and `elementwise` replace Ops on sparse matrices by Ops on the parts of the matrices. The latter Ops have
C code. The rules in `conversion` remove pairs of inverse conversions.
"""

from theano_ng.sparse.conversion import CSC, CSR, csm_properties
from theano_ng.sparse.fields import *
from theano_ng.sparse.opt.conversion import *
from theano_ng.sparse.opt.elementwise import *
from theano_ng.sparse.opt.products import *
from theano_ng.sparse.products import usmm

__all__ = ["CSC", "CSR", "csm_properties", "usmm"]
