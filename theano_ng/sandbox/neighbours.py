"""Former path of `theano_ng.tensor.nnet.neighbours`."""

import warnings

from theano_ng.tensor.nnet.neighbours import Images2Neibs, images2neibs, neibs2images  # noqa: F401

warnings.warn("neighbours was moved from sandbox to theano_ng.tensor.nnet.neighbours", DeprecationWarning, stacklevel=2)
