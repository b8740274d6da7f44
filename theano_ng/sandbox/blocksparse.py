"""Former path of `theano_ng.tensor.nnet.blocksparse`."""

import warnings

from theano_ng.tensor.nnet.blocksparse import (  # noqa: F401
    SparseBlockGemv,
    SparseBlockOuter,
    sparse_block_dot,
    sparse_block_gemv,
    sparse_block_gemv_inplace,
    sparse_block_outer,
    sparse_block_outer_inplace,
)

warnings.warn(
    "blocksparse was moved from sandbox to theano_ng.tensor.nnet.blocksparse", DeprecationWarning, stacklevel=2
)
