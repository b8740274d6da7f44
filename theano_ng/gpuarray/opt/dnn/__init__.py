"""Rules that use cuDNN. The base module says when they apply."""

from theano_ng.gpuarray.opt.dnn import base, conv, conv_elemwise, dropout, normalization, pool, reduction, rnn, softmax
