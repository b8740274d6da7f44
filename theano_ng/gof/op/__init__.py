"""Ops, which define the computations of Apply nodes, and test values of graphs under construction.

`base` contains the class Op, `c_files` Ops whose C code is in separate files, and `openmp` Ops whose C code uses
several threads.
"""

from theano_ng.configdefaults import config
from theano_ng.gof import graph, utils
from theano_ng.gof.c_interface import CLinkerObject, CLinkerOp
from theano_ng.gof.graph import Apply
from theano_ng.gof.op.base import (
    Op,
    PureOp,
    compute_test_value,
    debug_assert,
    debug_error_message,
    get_debug_values,
    get_test_value,
    has_c_implementation,
    has_perform,
    missing_test_message,
    ops_with_inner_function,
)
from theano_ng.gof.op.c_files import COp, apply_meth, simple_meth
from theano_ng.gof.op.openmp import OpenMPOp

__docformat__ = "restructuredtext en"
PY3 = True

for _thing in (
    CLinkerObject,
    CLinkerOp,
    COp,
    Op,
    OpenMPOp,
    PureOp,
    apply_meth,
    compute_test_value,
    debug_assert,
    debug_error_message,
    get_debug_values,
    get_test_value,
    has_c_implementation,
    has_perform,
    missing_test_message,
    simple_meth,
):
    # Pickles and reprs show the documented path.
    _thing.__module__ = __name__
del _thing

__all__ = [
    "Apply",
    "CLinkerObject",
    "CLinkerOp",
    "COp",
    "Op",
    "OpenMPOp",
    "PY3",
    "PureOp",
    "apply_meth",
    "compute_test_value",
    "config",
    "debug_assert",
    "debug_error_message",
    "get_debug_values",
    "get_test_value",
    "graph",
    "has_c_implementation",
    "has_perform",
    "missing_test_message",
    "ops_with_inner_function",
    "simple_meth",
    "utils",
]
