"""Elementwise kernels of a C expression."""

import numpy as np

from theano_ng.gpuarray.kernels.samples import KernelSample
from theano_ng.gpuarray.pygpu import gpuarray
from theano_ng.gpuarray.pygpu.dtypes import dtype_to_ctype
from theano_ng.gpuarray.pygpu.gpuarray import SIZE, SSIZE, GpuArray, number_fits
from theano_ng.gpuarray.pygpu.tools import check_args, copy_overlapping, per_context

__all__ = ["GpuElemwise", "arg", "flags_of", "work_type"]


class arg:
    """An argument of a `GpuElemwise`.

    Parameters
    ----------
    name : str
        The name of the argument in the expression. Names that begin with ``elem_`` are reserved for the kernel.
    dtype : dtype
    read, write : bool
        Whether the kernel reads the array, and whether the kernel writes to the array.
    scalar : bool
        Whether the argument is a scalar.
    """

    def __init__(self, name, dtype, read=False, write=False, scalar=False):
        if scalar and write:
            raise ValueError("argument %s is a scalar, which cannot be written" % name)
        if not (read or write or scalar):
            raise ValueError("argument %s is neither read nor written" % name)
        if not name.isidentifier() or name.startswith("elem_"):
            raise ValueError(
                "%r is no name for an argument: expected a C identifier that does not begin with elem_" % name
            )
        self.name, self.dtype = name, np.dtype(dtype)
        self.read, self.write, self.scalar = read or scalar, write, scalar

    def __repr__(self):
        return "arg(%r, %r, read=%r, write=%r, scalar=%r)" % (
            self.name,
            self.dtype.name,
            self.read,
            self.write,
            self.scalar,
        )

    def _key(self):
        return self.name, self.dtype, self.read, self.write, self.scalar

    def __eq__(self, other):
        return type(other) is arg and self._key() == other._key()

    def __hash__(self):
        return hash(self._key())


def flags_of(dtypes):
    """Return the capabilities that a kernel on elements of these dtypes needs, as keyword arguments of `GpuKernel`."""
    names = {np.dtype(dtype).name for dtype in dtypes}
    return {
        "have_double": bool(names & {"float64", "complex128"}),
        "have_small": bool(names & {"int8", "uint8", "bool", "int16", "uint16", "float16"}),
        "have_complex": bool(names & {"complex64", "complex128"}),
        "have_half": "float16" in names,
    }


class GpuElemwise:
    """A kernel that computes an expression for each element of arrays.

    Parameters
    ----------
    ctx : GpuContext
    expr : str
        A C expression with assignments to the arguments that are written: ``"z = a * x + y"``.
    args : sequence of arg
    preamble : str
        Source code in front of the kernel.
    convert_f16 : bool
        Ignored, accepted for old code. Kernels always compute float16 elements in float32.
    """

    def __init__(self, ctx, expr, args, preamble="", convert_f16=True):
        self.context, self.expr, self.args, self.preamble = ctx, expr, tuple(args), preamble
        if not any(a.write for a in self.args):
            raise ValueError("the expression %r has no result: it writes no argument" % expr)
        names = [a.name for a in self.args]
        if len(set(names)) < len(names):
            raise ValueError("several arguments have the same name: %s" % ", ".join(names))

    def __call__(self, *values, broadcast=True, **unused):
        """Compute the expression.

        Parameters
        ----------
        *values : GpuArray and numbers
            The values, in the order of the arguments.
        broadcast : bool
            If True, axes of length 1 are broadcast. Axes of arrays that are written are not broadcast.

        Raises
        ------
        ValueError
            If the shapes cannot be broadcast together, or differ and `broadcast` is False, or if an array that is
            written does not have the broadcast shape. If an array is in another context than the kernel.
        TypeError
            If the number of values is wrong, an array has a wrong dtype, an array is given instead of a number, or the
            dtype of an argument cannot represent the kind of a number.
        """
        if len(values) != len(self.args):
            raise TypeError(
                "got %d arguments for the expression %r, which has %d" % (len(values), self.expr, len(self.args))
            )
        for a, value in zip(self.args, values):
            if a.scalar == isinstance(value, GpuArray) or not a.scalar and value.dtype != a.dtype:
                what = "a number" if a.scalar else "an array of %s" % a.dtype
                raise TypeError(
                    "argument %s of %r must be %s, not %s"
                    % (a.name, self.expr, what, getattr(value, "dtype", type(value).__name__))
                )
            if not a.scalar and value.context is not self.context:
                raise ValueError(
                    "argument %s of %r is in another context than the kernel: transfer() it first" % (a.name, self.expr)
                )
        values = [_scalar(a, value) if a.scalar else value for a, value in zip(self.args, values)]
        values = copy_overlapping(values, [a.write for a in self.args])
        n, nd, dims, strides, offsets = check_args(values, collapse=True, broadcast=broadcast)
        shape = np.broadcast_shapes(*[v.shape for v in values if isinstance(v, GpuArray)])
        for a, value in zip(self.args, values):
            if a.write and value.shape != shape:
                raise ValueError("the result %s has shape %s, expected %s" % (a.name, value.shape, shape))
        if n == 0:
            return
        kernel = _kernel(self.context, self.expr, self.args, self.preamble, nd)
        given = [n, *dims]
        for value, offset, steps in zip(values, offsets, strides):
            given.extend([value] if offset is None else [value, offset, *steps])
        kernel(*given, n=n)


def _scalar(argument, value):
    """Convert a number to the dtype of an argument.

    Raise TypeError if the number would lose its fraction or its imaginary part.
    """
    if not number_fits(value, argument.dtype):
        raise TypeError(
            "argument %s is a number of dtype %s, which cannot represent %r" % (argument.name, argument.dtype, value)
        )
    return np.asarray(np.asarray(value).item(), dtype=argument.dtype)


@per_context
def _kernel(ctx, expr, args, preamble, nd):
    text, types = kernel_text(expr, args, preamble, nd)
    return gpuarray.GpuKernel(text, "elem", types, ctx, **flags_of([a.dtype for a in args]))


def work_type(dtype):
    """Return the C type of a variable of a dtype. C converts values to the type bool by comparing them with 0."""
    return {"float16": "float", "bool": "bool"}.get(dtype.name) or dtype_to_ctype(dtype)


def kernel_text(expr, args, preamble, nd):
    """Return the source code of a kernel for `nd` axes, and the types of its arguments.

    The names of all variables of the kernel, except those of `args`, begin with ``elem_``.
    """
    parameters = ["ga_size elem_n"] + ["ga_size elem_d%d" % i for i in range(nd)]
    types = [SIZE] * (1 + nd)
    begin, load, store, steps = [], [], [], [[] for _ in range(nd)]
    for number, a in enumerate(args):
        ctype = dtype_to_ctype(a.dtype)
        half = a.dtype == np.float16
        if a.scalar:
            parameters.append("%s elem_in%d" % ("float" if half else ctype, number))
            types.append(np.dtype("float32") if half else a.dtype)
            load.append("%s %s = elem_in%d;" % (work_type(a.dtype), a.name, number))
            continue
        parameters.append("GLOBAL_MEM char *elem_data%d, ga_size elem_offset%d" % (number, number))
        parameters += ["ga_ssize elem_s%d_%d" % (number, i) for i in range(nd)]
        types += [GpuArray, SIZE] + [SSIZE] * nd
        begin.append("GLOBAL_MEM char *elem_p%d = elem_data%d + elem_offset%d;" % (number, number, number))
        for i in range(nd):
            steps[i].append("elem_p%d += (ga_ssize)elem_k * elem_s%d_%d;" % (number, number, i))
        pointer = "((GLOBAL_MEM %s *)elem_p%d)" % (ctype, number)
        value = "load_half(%s)" % pointer if half else "*%s" % pointer
        load.append("%s %s%s;" % (work_type(a.dtype), a.name, " = %s" % value if a.read else ""))
        if a.write:
            store.append("store_half(%s, %s);" % (pointer, a.name) if half else "*%s = %s;" % (pointer, a.name))
    loop = []
    for i in reversed(range(nd)):
        loop.append("elem_k = elem_rest;" if i == 0 else "elem_k = ga_split(&elem_rest, elem_d%d);" % i)
        loop += steps[i]
    body = "\n        ".join([*begin, *loop, *load, expr + ";", *store])
    return (
        """#include "cluda.h"
%s
KERNEL void elem(%s)
{
    for (ga_size elem_i = GID_0 * LDIM_0 + LID_0; elem_i < elem_n; elem_i += LDIM_0 * GDIM_0) {
        ga_size elem_rest = elem_i, elem_k = 0;
        (void)elem_rest; (void)elem_k;
        %s
    }
}
"""
        % (preamble, ",\n    ".join(parameters), body),
        types,
    )


def kernel_samples():
    """Return samples of the kernel source code, which tests compile; see `kernels.samples`."""
    found = []
    for dtype in ("float16", "float32", "int8", "float64"):
        args = (arg("z", dtype, write=True), arg("x", dtype, read=True), arg("a", dtype, scalar=True))
        found += [KernelSample("elemwise, %s" % dtype, kernel_text("z = a * x", args, "", rank)[0]) for rank in (0, 2)]
    return found
