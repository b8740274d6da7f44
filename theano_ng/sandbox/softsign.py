"""Former path of `theano_ng.tensor.nnet.softsign`."""

import warnings

from theano_ng.tensor.nnet.activations import softsign  # noqa: F401

warnings.warn("softsign was moved from sandbox to theano_ng.tensor.nnet.softsign", DeprecationWarning, stacklevel=2)
