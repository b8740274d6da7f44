"""Scalar types and ops: what Elemwise, Composite and reductions are made of."""

from theano_ng.scalar.basic import *  # noqa: F401,F403
from theano_ng.scalar.basic_scipy import *  # noqa: F401,F403


def __getattr__(name):
    # printing and gradient sit above this package; what they lend to it is reached on first use.
    if name == "pprint":
        from theano_ng.printing import pprint

        return pprint
    if name == "sharedvar":
        import importlib

        return importlib.import_module("theano_ng.scalar.sharedvar")
    raise AttributeError("module %r has no attribute %r" % (__name__, name))
