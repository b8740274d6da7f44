"""The rules of the phase `uncanonicalize`, under their module path in Theano 1.0."""

from theano_ng.tensor.opt.uncanonicalize import (
    local_alloc_dimshuffle,
    local_dimshuffle_alloc,
    local_dimshuffle_subtensor,
    local_max_and_argmax,
    local_max_to_min,
    local_reshape_dimshuffle,
)
