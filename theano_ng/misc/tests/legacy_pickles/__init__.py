"""Pickles written by Theano 1.0; see README."""
