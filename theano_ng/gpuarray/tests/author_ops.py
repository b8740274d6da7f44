"""GPU Ops as users write them, in the three documented ways: kernels and C code in Python strings (`GpuChecker`), kernels
and C code in a file (`GpuFrame`), and a thunk that computes with a library of the user (`GpuCube`).
"""

from theano_ng import config, tensor
from theano_ng.gof import Apply, Op, ParamsType
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


class _Pattern(Op):
    """A base class of Ops that make a matrix from integers. The first two integers are its lengths."""

    __props__ = ("dtype", "context_name")
    count = 2

    def __init__(self, dtype=None, context_name=None):
        self.dtype = dtype or config.floatX
        self.context_name = context_name

    def make_node(self, *numbers):
        numbers = [tensor.as_tensor_variable(number) for number in numbers]
        if [v.ndim for v in numbers] != [0] * self.count:
            raise TypeError("expected %d integers" % self.count)
        return Apply(self, numbers, [GpuArrayType(self.dtype, (False, False), self.context_name)()])

    def infer_shape(self, node, shapes):
        return [node.inputs[:2]]

    def grad(self, inputs, output_gradients):
        return [grad_undefined(self, i, v) for i, v in enumerate(inputs)]


class GpuChecker(GpuKernelBase, _Pattern):
    """A matrix with ones where the sum of row and column is divisible by `period`: ``GpuChecker()(rows, columns, period)``."""

    count = 3
    _f16_ok = True

    def get_params(self, node):
        return get_context(self.context_name)

    def gpu_kernels(self, node, name):
        source = """#include "cluda.h"
KERNEL void checker(GLOBAL_MEM %(element)s *board, ga_size start, ga_size rows, ga_size columns, ga_ssize period)
{
    board = (GLOBAL_MEM %(element)s *)((GLOBAL_MEM char *)board + start);
    for (ga_size row = GID_0; row < rows; row += GDIM_0)
        for (ga_size column = LID_0; column < columns; column += LDIM_0)
            if ((row + column) %% (ga_size)period == 0)
                board[row * columns + column] = %(one)s;
}
""" % dict(element=gpuarray.dtype_to_ctype(self.dtype), one=write_w(self.dtype) + "(1)")
        types = [gpuarray.GpuArray, gpuarray.SIZE, gpuarray.SIZE, gpuarray.SIZE, gpuarray.SSIZE]
        return [Kernel(source, types, "checker", Kernel.get_flags(self.dtype), objvar="checker_of_" + name)]

    def c_code(self, node, name, inputs, outputs, sub):
        (kernel,) = self.gpu_kernels(node, name)
        return """
        {
            const size_t lengths[] = {(size_t)*(dtype_%(rows)s *)PyArray_DATA(%(rows)s),
                                      (size_t)*(dtype_%(columns)s *)PyArray_DATA(%(columns)s)};
            const ssize_t period = (ssize_t)*(dtype_%(period)s *)PyArray_DATA(%(period)s);
            size_t threads = 32, groups = 4;
            if (period < 1) {
                PyErr_SetString(PyExc_ValueError, "the period must be positive");
                %(fail)s
            }
            Py_CLEAR(%(board)s);
            %(board)s = pygpu_zeros(2, lengths, %(typecode)s, GA_C_ORDER, %(context)s, Py_None);
            if (%(board)s == NULL) {
                %(fail)s
            }
            int status = checker_call(1, &groups, &threads, 0, %(board)s->ga.data, %(board)s->ga.offset, lengths[0],
                                      lengths[1], period);
            if (status != GA_NO_ERROR) {
                PyErr_Format(PyExc_RuntimeError, "no board: %%s", GpuKernel_error(&%(kernel)s, status));
                %(fail)s
            }
        }
        """ % dict(
            zip(("rows", "columns", "period"), inputs),
            board=outputs[0],
            context=sub["params"],
            fail=sub["fail"],
            typecode=gpuarray.dtype_to_typecode(self.dtype),
            kernel=kernel.objvar,
        )

    def c_code_cache_version(self):
        return (1,)


class GpuFrame(CGpuKernelBase, _Pattern):
    """A matrix with twos along its border: ``GpuFrame()(rows, columns)``. The C code is in the file c_code/frame.c."""

    params_type = ParamsType(typecode=int_t, context=gpu_context_type)

    def __init__(self, dtype=None, context_name=None):
        _Pattern.__init__(self, dtype, context_name)
        CGpuKernelBase.__init__(self, ["c_code/frame.c"], "APPLY_SPECIFIC(frame)")

    def get_params(self, node):
        context = get_context(self.context_name)
        return self.params_type.get_params(typecode=gpuarray.dtype_to_typecode(self.dtype), context=context)

    def c_headers(self):
        return ["<gpuarray/kernel.h>", "<gpuarray/types.h>"]


class GpuCube(Op):
    """The third powers of float32 numbers. A thunk computes them with a kernel that it builds."""

    __props__ = ()

    def make_node(self, x):
        x = gpu_contiguous(as_gpuarray_variable(x, infer_context_name(x)))
        if x.dtype != "float32":
            raise TypeError("expected float32")
        return Apply(self, [x], [x.type()])

    def make_thunk(self, node, storage_map, compute_map, no_recycling, impl=None):
        (x,), (y,) = [[storage_map[v] for v in variables] for variables in (node.inputs, node.outputs)]
        context = node.inputs[0].type.context
        source = """#include "cluda.h"
KERNEL void cube(ga_size count, GLOBAL_MEM ga_float *to, GLOBAL_MEM ga_float *from)
{
    for (ga_size k = GID_0 * LDIM_0 + LID_0; k < count; k += GDIM_0 * LDIM_0)
        to[k] = from[k] * from[k] * from[k];
}
"""
        kernel = gpuarray.GpuKernel(source, "cube", [gpuarray.SIZE, gpuarray.GpuArray, gpuarray.GpuArray], context)

        def thunk():
            given = x[0]
            if y[0] is None or y[0].shape != given.shape:
                y[0] = gpuarray.empty(given.shape, "float32", context=context)
            kernel(given.size, y[0], given, n=given.size)

        return thunk
