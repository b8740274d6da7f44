"""The Ops of the manual's chapter on GPU Ops, as it prints them.

There are four differences: line breaks of the page are removed, `xrange` is `range`, GpuKernel_error gets the address
of the kernel, and imports that the text leaves to the reader are added. `GpuPyDouble` is the manual's Op that computes
with a library of the user; here this library is pygpu instead of PyCUDA.
"""

import theano_ng as theano
from theano_ng import config, tensor
from theano_ng.gof import Apply, Op, ParamsType
from theano_ng.gpuarray import pygpu
from theano_ng.gpuarray.basic_ops import (
    CGpuKernelBase,
    GpuKernelBase,
    Kernel,
    as_gpuarray_variable,
    gpu_contiguous,
    infer_context_name,
)
from theano_ng.gpuarray.fp16_help import write_w
from theano_ng.gpuarray.pygpu import gpuarray
from theano_ng.gpuarray.type import GpuArrayType, get_context, gpu_context_type
from theano_ng.gradient import grad_undefined
from theano_ng.scalar import int_t


class GpuEye(GpuKernelBase, Op):
    """
    Eye for GPU.

    """

    __props__ = ("dtype", "context_name")
    _f16_ok = True

    def __init__(self, dtype=None, context_name=None):
        if dtype is None:
            dtype = config.floatX
        self.dtype = dtype
        self.context_name = context_name

    def get_params(self, node):
        return get_context(self.context_name)

    def make_node(self, n, m, k):
        n = tensor.as_tensor_variable(n)
        m = tensor.as_tensor_variable(m)
        k = tensor.as_tensor_variable(k)
        assert n.ndim == 0
        assert m.ndim == 0
        assert k.ndim == 0
        otype = GpuArrayType(dtype=self.dtype, broadcastable=(False, False), context_name=self.context_name)

        return Apply(self, [n, m, k], [otype()])

    def infer_shape(self, node, in_shapes):
        out_shape = [node.inputs[0], node.inputs[1]]
        return [out_shape]

    def grad(self, inp, grads):
        return [grad_undefined(self, i, inp[i]) for i in range(3)]

    def gpu_kernels(self, node, name):
        code = """#include "cluda.h"

KERNEL void eye(GLOBAL_MEM %(ctype)s *a, ga_size a_off,
                ga_size n, ga_size m, ga_ssize k) {
    a = (GLOBAL_MEM %(ctype)s *)(((GLOBAL_MEM char *)a) + a_off);
    ga_ssize coff = max(k, (ga_ssize) 0);
    ga_ssize roff = -min(k, (ga_ssize) 0);
    ga_size nb = (ga_size) min(n - roff, m - coff);
    for (ga_size i = LID_0; i < nb; i += LDIM_0) {
        a[(i + roff)*m + i + coff] = %(write_a)s(1);
    }
}""" % dict(ctype=pygpu.gpuarray.dtype_to_ctype(self.dtype), name=name, write_a=write_w(self.dtype))
        return [
            Kernel(
                code=code,
                name="eye",
                params=[gpuarray.GpuArray, gpuarray.SIZE, gpuarray.SIZE, gpuarray.SIZE, gpuarray.SSIZE],
                flags=Kernel.get_flags(self.dtype),
                objvar="k_eye_" + name,
            )
        ]

    def c_code(self, node, name, inp, out, sub):
        if len(inp) == 2:
            n, m = inp
            k = 0
        elif len(inp) == 3:
            n, m, k = inp

        (z,) = out
        fail = sub["fail"]
        ctx = sub["params"]
        typecode = pygpu.gpuarray.dtype_to_typecode(self.dtype)
        kname = self.gpu_kernels(node, name)[0].objvar
        s = """
        size_t dims[2] = {0, 0};
        size_t ls, gs;
        ssize_t k;
        size_t col_off;
        size_t row_off;
        int err;

        dims[0] = ((dtype_%(n)s*)PyArray_DATA(%(n)s))[0];
        dims[1] = ((dtype_%(m)s*)PyArray_DATA(%(m)s))[0];
        k = ((dtype_%(k)s*)PyArray_DATA(%(k)s))[0];

        Py_CLEAR(%(z)s);

        %(z)s = pygpu_zeros(2, dims,
                            %(typecode)s,
                            GA_C_ORDER,
                            %(ctx)s, Py_None);

        if (%(z)s == NULL) {
            %(fail)s
        }

        ls = 1;
        gs = 256;
        col_off = (size_t) (k > 0?k:0);
        row_off = (size_t) (k < 0?-k:0);
        if (row_off < dims[0] && col_off < dims[1]) {
            err = eye_call(1, &gs, &ls, 0, %(z)s->ga.data, %(z)s->ga.offset,
                          dims[0], dims[1], k);
            if (err != GA_NO_ERROR) {
                PyErr_Format(PyExc_RuntimeError,
                             "gpuarray error: kEye: %%s. n%%lu, m%%lu.",
                             GpuKernel_error(&%(kname)s, err),
                             (unsigned long)dims[0], (unsigned long)dims[1]);
                %(fail)s;
            }
        }
            """ % locals()

        return s

    def c_code_cache_version(self):
        return (10,)


class GpuEyeOfFile(CGpuKernelBase, Op):
    """
    Eye for GPU.

    """

    __props__ = ("dtype", "context_name")
    params_type = ParamsType(typecode=int_t, context=gpu_context_type)

    def __init__(self, dtype=None, context_name=None):
        if dtype is None:
            dtype = config.floatX
        self.dtype = dtype
        self.context_name = context_name
        CGpuKernelBase.__init__(self, ["c_code/tstgpueye.c"], "APPLY_SPECIFIC(tstgpueye)")

    def get_params(self, node):
        from theano_ng.gpuarray.pygpu.gpuarray import dtype_to_typecode

        return self.params_type.get_params(
            typecode=dtype_to_typecode(self.dtype), context=get_context(self.context_name)
        )

    def c_headers(self):
        return ["<gpuarray/types.h>", "<gpuarray/kernel.h>"]

    def make_node(self, n, m):
        n = tensor.as_tensor_variable(n)
        m = tensor.as_tensor_variable(m)
        assert n.ndim == 0
        assert m.ndim == 0
        otype = GpuArrayType(dtype=self.dtype, broadcastable=(False, False), context_name=self.context_name)

        return Apply(self, [n, m], [otype()])

    def infer_shape(self, node, in_shapes):
        out_shape = [node.inputs[0], node.inputs[1]]
        return [out_shape]

    def grad(self, inp, grads):
        return [grad_undefined(self, i, inp[i]) for i in range(2)]


class GpuPyDouble(theano.Op):
    """Double the input with a kernel that `make_thunk` builds."""

    __props__ = ()

    def make_node(self, inp):
        inp = gpu_contiguous(as_gpuarray_variable(inp, infer_context_name(inp)))
        assert inp.dtype == "float32"
        return theano.Apply(self, [inp], [inp.type()])

    def make_thunk(self, node, storage_map, _, _2, impl=None):
        context = node.inputs[0].type.context
        my_fct = gpuarray.GpuKernel(
            """
            KERNEL void my_fct(GLOBAL_MEM ga_float *i0, GLOBAL_MEM ga_float *o0, ga_size size) {
                ga_size i = GID_0 * LDIM_0 + LID_0;
                if (i < size)
                    o0[i] = i0[i] * 2;
            }
            """,
            "my_fct",
            [gpuarray.GpuArray, gpuarray.GpuArray, gpuarray.SIZE],
            context=context,
        )
        inputs = [storage_map[v] for v in node.inputs]
        outputs = [storage_map[v] for v in node.outputs]

        def thunk():
            z = outputs[0]
            if z[0] is None or z[0].shape != inputs[0][0].shape:
                z[0] = gpuarray.empty(inputs[0][0].shape, dtype="float32", context=context)
            my_fct(inputs[0][0], z[0], inputs[0][0].size, n=inputs[0][0].size)

        return thunk
