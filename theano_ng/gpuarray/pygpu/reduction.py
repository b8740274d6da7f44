"""Reductions of a C expression along axes of arrays."""

import numpy as np

from theano_ng.gpuarray.kernels.samples import KernelSample
from theano_ng.gpuarray.pygpu import gpuarray
from theano_ng.gpuarray.pygpu._elemwise import flags_of
from theano_ng.gpuarray.pygpu.dtypes import dtype_to_ctype, parse_c_arg_backend
from theano_ng.gpuarray.pygpu.gpuarray import SIZE, SSIZE, GpuArray, number_fits
from theano_ng.gpuarray.pygpu.tools import ArrayArg, ScalarArg, broadcast_strides, copy_overlapping, per_context

__all__ = ["ReductionKernel", "extreme", "parse_c_args", "reduce1"]


def parse_c_args(arguments):
    """Parse a list of C declarations: ``"float *x, float a"``."""
    return tuple([parse_c_arg_backend(text, ScalarArg, ArrayArg) for text in arguments.split(",")])


def _work(dtype):
    return "float" if np.dtype(dtype) == np.float16 else dtype_to_ctype(dtype)


class ReductionKernel:
    """A kernel that reduces a C expression.

    Parameters
    ----------
    context : GpuContext
    dtype_out : dtype
    neutral : str
        C expression of the initial value.
    reduce_expr : str
        C expression that combines the values ``a`` and ``b``.
    redux : sequence of bool
        One flag for each axis. True means that the axis is reduced.
    map_expr : str, optional
        C expression of the values to reduce, in terms of the arguments. Elements of an array `x` are written ``x[i]``.
        By default, the elements of the first array are reduced.
    arguments : str or sequence of Argument, optional
        The arguments of the kernel. A str contains their C declarations; see `parse_c_args`. By default, the kernel
        has one argument, an array of `dtype_out`.
    preamble : str
        Source code in front of the kernel.
    """

    def __init__(
        self, context, dtype_out, neutral, reduce_expr, redux, map_expr=None, arguments=None, preamble="", init_nd=None
    ):
        self.context, self.neutral, self.reduce_expr = context, neutral, reduce_expr
        self.dtype_out = np.dtype(dtype_out)
        self.redux = tuple([bool(flag) for flag in redux])
        if not any(self.redux):
            raise ValueError("at least one axis must be reduced")
        if arguments is None:
            arguments = [ArrayArg(self.dtype_out, "reduced")]
        self.arguments = parse_c_args(arguments) if isinstance(arguments, str) else tuple(arguments)
        arrays = [a for a in self.arguments if a.isarray()]
        if not arrays:
            raise ValueError("at least one argument must be an array")
        self.map_expr = "%s[i]" % arrays[0].name if map_expr is None else map_expr
        self.preamble = preamble
        self.nd = len(self.redux)

    def __call__(self, *args, out=None, broadcast=False):
        """Reduce arrays of the same shape.

        Parameters
        ----------
        *args : GpuArray and numbers
        out : GpuArray, optional
            The array for the result. Arguments that overlap it are copied first.
        broadcast : bool
            If True, the arrays are broadcast to one shape first.

        Returns
        -------
        GpuArray

        Raises
        ------
        TypeError
            If the number of arguments or a dtype is wrong, or if a number would be cut.
        ValueError
            If a shape is wrong, or `out` is not a writeable array of the result's dtype in C order.
        """
        self._check_types(args)
        arrays = [a for a in args if isinstance(a, GpuArray)]
        shapes = [a.shape for a in arrays]
        shape = np.broadcast_shapes(*shapes) if broadcast else shapes[0]
        if len(shape) != self.nd or not broadcast and any(other != shape for other in shapes):
            raise ValueError("expected arrays of %d axes and one shape, got %s" % (self.nd, shapes))
        kept = tuple([n for n, reduced in zip(shape, self.redux) if not reduced])
        if out is None:
            out = gpuarray.empty(kept, self.dtype_out, context=self.context, cls=type(arrays[0]))
        else:
            _check_result(out, kept, self.dtype_out)
            out, *args = copy_overlapping((out, *args), (True, *[False] * len(args)))
        n = out.size
        if n == 0:
            return out
        group = 1
        most = min(self.context.maxlsize, 128)
        if self.context.kind != b"stub" and not self._serial:
            while group * 2 <= most:
                group *= 2
        given = [
            n,
            int(np.prod([m for m, reduced in zip(shape, self.redux) if reduced], dtype=np.int64)),
            *shape,
            out,
            out.offset,
        ]
        for value in args:
            if isinstance(value, GpuArray):
                given.extend([value, value.offset, *broadcast_strides(value, shape)])
            else:
                given.append(value)
        kernel = _kernel(
            self.context,
            self.dtype_out,
            self.neutral,
            self.reduce_expr,
            self.redux,
            self.map_expr,
            self.arguments,
            self.preamble,
            group,
        )
        group = min(group, kernel.maxlsize)
        kernel(*given, gs=min(n, 65535), ls=group if group & (group - 1) == 0 else 1 << (group.bit_length() - 1))
        return out

    def _check_types(self, args):
        if len(args) != len(self.arguments):
            names = ", ".join([a.name for a in self.arguments])
            raise TypeError("expected %d arguments (%s), got %d" % (len(self.arguments), names, len(args)))
        for a, value in zip(self.arguments, args):
            on_device = isinstance(value, GpuArray)
            fits = (
                on_device and value.dtype == a.dtype if a.isarray() else not on_device and number_fits(value, a.dtype)
            )
            if not fits:
                dtype = getattr(value, "dtype", None)
                given = type(value).__name__ if dtype is None else "%s of %s" % (type(value).__name__, dtype)
                what = "an array on the device" if a.isarray() else "a number"
                raise TypeError(
                    "argument %s of the reduction must be %s of dtype %s, got %s: convert it first"
                    % (a.name, what, a.dtype, given)
                )

    @property
    def _serial(self):
        """Return True if one thread per group is best.

        This is the case on a CPU, where a group is a loop: one thread sums faster than several threads that share the
        elements.
        """
        return self.context.numprocs < 256 and self.context.kind == b"opencl"


def _check_result(out, shape, dtype):
    if out.shape != shape or out.dtype != dtype or not out.flags.c_contiguous or not out.flags.writeable:
        raise ValueError(
            "the result must be a writeable array of shape %s and dtype %s in C order, got shape %s and dtype %s"
            % (shape, dtype, out.shape, out.dtype)
        )


@per_context
def _kernel(context, dtype_out, neutral, reduce_expr, redux, map_expr, arguments, preamble, group):
    text, types = kernel_text(dtype_out, neutral, reduce_expr, redux, map_expr, arguments, preamble, group)
    dtypes = [dtype_out, *[a.dtype for a in arguments]]
    return gpuarray.GpuKernel(text, "reduce_", types, context, **flags_of(dtypes))


def kernel_text(dtype_out, neutral, reduce_expr, redux, map_expr, arguments, preamble, group):
    """Return the source code of a kernel for groups of `group` threads, and the types of its arguments. For the other
    parameters, see `ReductionKernel`.
    """
    nd = len(redux)
    parameters = ["ga_size n", "ga_size m"] + ["ga_size d%d" % i for i in range(nd)]
    parameters.append("GLOBAL_MEM %s *out, ga_size out_offset" % dtype_to_ctype(dtype_out))
    types = [SIZE] * (2 + nd) + [GpuArray, SIZE]
    text_map = map_expr
    for a in arguments:
        if not a.isarray():
            parameters.append("%s %s" % (_work(a.dtype), a.name))
            types.append(np.dtype("float32") if a.dtype == np.float16 else a.dtype)
            continue
        parameters.append("GLOBAL_MEM char *%s_data, ga_size %s_offset" % (a.name, a.name))
        parameters += ["ga_ssize %s_s%d" % (a.name, i) for i in range(nd)]
        types += [GpuArray, SIZE] + [SSIZE] * nd
        pointer = "((GLOBAL_MEM %s *)(%s_p + %s_q))" % (dtype_to_ctype(a.dtype), a.name, a.name)
        value = "load_half(%s)" % pointer if a.dtype == np.float16 else "(*%s)" % pointer
        text_map = text_map.replace("%s[i]" % a.name, value)

    def walk(which, number, target, start):
        lines = ["ga_size rest_%s = %s;" % (target, number)]
        names = [a.name for a in arguments if a.isarray()]
        lines += [
            "GLOBAL_MEM char *%s_p = %s_data + %s_offset;" % (x, x, x) if start else "ga_ssize %s_q = 0;" % x
            for x in names
        ]
        axes = [i for i in range(nd) if redux[i] == which]
        for i in reversed(axes):
            lines.append("{ ga_size k = ga_split(&rest_%s, d%d);" % (target, i))
            lines += ["%s_%s += (ga_ssize)k * %s_s%d;" % (x, "p" if start else "q", x, i) for x in names]
            lines.append("}")
        return "\n            ".join(lines)

    out_t = _work(dtype_out)
    store = "store_half(&out[o], %s)" if dtype_out == np.float16 else "out[o] = %s"
    text = """#include "cluda.h"
#define REDUCE(a, b) (%(reduce)s)
%(preamble)s
KERNEL void reduce_(%(parameters)s)
{
    LOCAL_MEM %(out_t)s shared_[%(group)d];
    out = (GLOBAL_MEM %(store_t)s *)((GLOBAL_MEM char *)out + out_offset);
    for (ga_size o = GID_0; o < n; o += GDIM_0) {
            %(outer)s
        %(out_t)s acc = %(neutral)s;
        for (ga_size j = LID_0; j < m; j += LDIM_0) {
            %(inner)s
            %(out_t)s value = %(map)s;
            acc = REDUCE(acc, value);
        }
        shared_[LID_0] = acc;
        local_barrier();
        for (ga_size half_ = LDIM_0 / 2; half_ > 0; half_ /= 2) {
            if (LID_0 < half_)
                shared_[LID_0] = REDUCE(shared_[LID_0], shared_[LID_0 + half_]);
            local_barrier();
        }
        if (LID_0 == 0)
            %(store)s;
        local_barrier();
    }
}
""" % dict(
        reduce=reduce_expr,
        preamble=preamble,
        parameters=",\n    ".join(parameters),
        out_t=out_t,
        store_t=dtype_to_ctype(dtype_out),
        group=group,
        outer=walk(False, "o", "o", True),
        inner=walk(True, "j", "j", False),
        neutral=neutral,
        map=text_map,
        store=store % "shared_[0]",
    )
    return text, types


def _axes(ary, axis):
    if axis is None:
        return [True] * ary.ndim
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    redux = [False] * ary.ndim
    for i in axes:
        if not -ary.ndim <= i < ary.ndim:
            raise ValueError("axis %d is out of bounds for an array with %d axes" % (i, ary.ndim))
        if redux[i]:
            raise ValueError("duplicate value in 'axis': axis %d occurs twice in %s" % (i % ary.ndim, axis))
        redux[i] = True
    return redux


def reduce1(ary, op, neutral, out_type, axis=None, out=None, oper=None):
    """Reduce one array.

    Parameters
    ----------
    ary : GpuArray
    op : str
        A C operator.
    neutral : str
        C expression of the initial value.
    out_type : dtype
    axis : int or sequence of int, optional
        By default, all axes. If the sequence is empty, the result is a copy.
    out : GpuArray, optional
    oper : str, optional
        A C expression of ``a`` and ``b`` that replaces the operator.

    Returns
    -------
    GpuArray
    """
    redux = _axes(ary, axis)
    if not any(redux):
        result = ary.astype(out_type)
        if out is None:
            return result
        _check_result(out, result.shape, result.dtype)
        out[...] = result
        return out
    kernel = ReductionKernel(
        ary.context, out_type, neutral, oper or "(a) %s (b)" % op, redux, arguments=[ArrayArg(ary.dtype, "ary")]
    )
    return kernel(ary, out=out)


def extreme(ary, op, axis=None, out=None):
    """Return the largest (`op` is ">") or smallest ("<") elements. The result is NaN if a reduced element is NaN.

    Raises
    ------
    ValueError
        If there are no elements.
    """
    redux = _axes(ary, axis)
    if any(n == 0 for n, reduced in zip(ary.shape, redux) if reduced):
        raise ValueError("there is no %s of zero elements" % ("largest" if op == ">" else "smallest"))
    dtype = ary.dtype
    if dtype.kind == "f":
        first = "-INFINITY" if op == ">" else "INFINITY"
    elif dtype.kind == "b":
        first = "0" if op == ">" else "1"
    else:
        info = np.iinfo(dtype)
        number = info.min if op == ">" else info.max
        first = "((%s)%s)" % (dtype_to_ctype(dtype), "(-%dL - 1)" % (-(number + 1)) if number < 0 else "%dUL" % number)
    oper = "(a) != (a) || (a) %s (b) ? (a) : (b)" % op if dtype.kind == "f" else "(a) %s (b) ? (a) : (b)" % op
    return reduce1(ary, None, first, dtype, axis, out, oper)


def kernel_samples():
    """Return samples of the source code of kernels for the tests that compile them; see `kernels.samples`."""
    return [
        KernelSample(
            "ReductionKernel, %s" % dtype,
            kernel_text(
                dtype,
                "0",
                "a + b",
                (True, False, True),
                "x[i] * s",
                (ArrayArg(dtype, "x"), ScalarArg(dtype, "s")),
                "",
                64,
            )[0],
        )
        for dtype in map(np.dtype, ("float16", "float32", "int64"))
    ]
