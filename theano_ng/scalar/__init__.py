"""Scalar types and ops: what Elemwise, Composite and reductions are made of."""

import importlib

from theano_ng.gof import ports
from theano_ng.scalar.basic import *  # noqa: F401,F403
from theano_ng.scalar.basic_scipy import *  # noqa: F401,F403

ports.cdata_op.fill("theano_ng.scalar.cdata_op:MakeCData")


def __getattr__(name):
    if name == "sharedvar":
        # Shared variables come with functions, a floor above.
        return importlib.import_module("theano_ng.scalar.sharedvar")
    raise AttributeError("module %r has no attribute %r" % (__name__, name))
