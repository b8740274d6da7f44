"""Tests of `theano_ng.gpuarray`."""
