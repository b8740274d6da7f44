"""Kernels of single scalar ops, for tests that compare C with Python."""

import ctypes

import numpy as np

from theano_ng.gof.native import Kernel
from theano_ng.scalar.types import c_type


def op_kernel(node, language):
    """Return a Kernel ``void f(int64_t n, char **ptr)`` that applies a scalar node to n contiguous elements.

    The kernel does not check the divisors of integer divisions.

    Parameters
    ----------
    node : Apply
    language : {'c', 'c++'}
    """
    inputs = ["x%d" % k for k in range(len(node.inputs))]
    outputs = ["z%d" % k for k in range(len(node.outputs))]
    lines = []
    for k, v in enumerate(node.inputs):
        lines.append("const %s x%d = ((const %s *)ptr[%d])[i];" % (c_type(v.type.dtype), k, c_type(v.type.dtype), k))
    for k, v in enumerate(node.outputs):
        lines.append("%s z%d;" % (c_type(v.type.dtype), k))
    lines.append(node.op.c_code(node, "node", inputs, outputs, {"fail": "return;", "zeros": None}))
    for k, v in enumerate(node.outputs):
        lines.append("((%s *)ptr[%d])[i] = z%d;" % (c_type(v.type.dtype), len(inputs) + k, k))
    source = (
        '__attribute__((optimize("O1"))) void KERNEL(int64_t n, char **ptr)\n{\n for (int64_t i = 0; i < n; i++) {\n%s\n }\n}'
        % ("\n".join(lines))
    )
    support = node.op.c_support_code() + node.op.c_support_code_apply(node, "node")
    return Kernel(source=source, language=language, support=support)


def call_kernel(address, node, arrays):
    """Run the kernel at `address` on arrays of one length; return the output arrays."""
    n = len(arrays[0])
    arrays = [np.ascontiguousarray(a, dtype=v.type.dtype) for a, v in zip(arrays, node.inputs)]
    outputs = [np.empty(n, dtype=v.type.dtype) for v in node.outputs]
    pointers = (ctypes.c_void_p * (len(arrays) + len(outputs)))(*[a.ctypes.data for a in arrays + outputs])
    ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(address)(n, ctypes.addressof(pointers))
    return outputs
