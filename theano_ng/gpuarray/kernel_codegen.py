"""Source code of kernels: reductions and softmax by the threads of a group.

The code is in the dialect of ``cluda.h``. It has barriers, so all threads of a group must execute it. It does not rely
on threads that run in lockstep.
"""

from theano_ng.gpuarray.fp16_help import load_w, work_dtype, write_w
from theano_ng.gpuarray.kernels.samples import KernelSample
from theano_ng.gpuarray.pygpu.gpuarray import USE_HALF, USE_SMALL, dtype_to_ctype

UNVERSIONED = ()


def code_version(version):
    """Return a decorator that sets the attribute `code_version` of a function that writes code.

    Ops that use the function include this version in their `c_code_cache_version`.

    Parameters
    ----------
    version : tuple
        With `UNVERSIONED`, the code is not cached.
    """

    def decorator(function):
        function.code_version = version
        return function

    return decorator


def nvcc_kernel(name, params, body):
    """Return the source code of a kernel.

    Parameters
    ----------
    name : str
    params : str or sequence of str
        Declarations of the parameters.
    body : sequence of str, or of such sequences
        Statements, possibly nested. A semicolon is added to each statement.

    Returns
    -------
    str

    Examples
    --------
    >>> print(nvcc_kernel("one", ["GLOBAL_MEM ga_float *x"], ["ga_size i = LID_0", ["x[i] = 1"]]))
    KERNEL void one(GLOBAL_MEM ga_float *x) {
        ga_size i = LID_0;
        x[i] = 1;
    }
    <BLANKLINE>
    """
    statements, todo = [], list(reversed(body))
    while todo:
        part = todo.pop()
        if isinstance(part, (list, tuple)):
            todo.extend(reversed(part))
        else:
            statements.append("    %s;\n" % part)
    return "KERNEL void %s(%s) {\n%s}\n" % (
        name,
        ", ".join([params] if isinstance(params, str) else params),
        "".join(statements),
    )


def _tree(n, buf, pos, manner_fn):
    """Return code that combines the first `n` elements of a buffer. Each step uses half as many threads as the previous
    step. `n` is a C expression.
    """
    return """
        for (ga_uint __left = (ga_uint)(%(n)s), __half; __left > 1; __left = __half) {
            __half = (__left + 1) / 2;
            if ((ga_uint)(%(pos)s) + __half < __left) {
                %(buf)s[%(pos)s] = %(combined)s;
            }
            local_barrier();
        }
""" % dict(n=n, pos=pos, buf=buf, combined=manner_fn("%s[%s]" % (buf, pos), "%s[(%s) + __half]" % (buf, pos)))


@code_version((1,))
def inline_reduce(N, buf, pos, count, manner_fn):
    """Return code that reduces a buffer.

    Parameters
    ----------
    N : str
        Length of the buffer.
    buf : str
        Name of the buffer. It should be in local memory, because it is read many times.
    pos, count : str
        Index of this thread, and number of threads.
    manner_fn : callable
        ``manner_fn("a", "b")`` returns a C expression that combines two values, such as ``"a + b"``.

    Returns
    -------
    str
        The code leaves the result in element 0 of the buffer. The other elements are undefined.
    """
    return """
    {
        local_barrier();
        for (ga_uint __k = (ga_uint)(%(pos)s) + (ga_uint)(%(count)s); __k < (ga_uint)(%(N)s); __k += (ga_uint)(%(count)s)) {
            %(buf)s[%(pos)s] = %(combined)s;
        }
        local_barrier();%(tree)s    }
""" % dict(
        pos=pos,
        count=count,
        N=N,
        buf=buf,
        combined=manner_fn("%s[%s]" % (buf, pos), "%s[__k]" % buf),
        tree=_tree(_smaller(N, count), buf, pos, manner_fn),
    )


def _smaller(a, b):
    return "((ga_uint)(%s) < (ga_uint)(%s) ? (ga_uint)(%s) : (ga_uint)(%s))" % (a, b, a, b)


def _sum(a, b):
    return "(%s + %s)" % (a, b)


def _product(a, b):
    return "(%s * %s)" % (a, b)


def _largest(a, b):
    return "(%s < %s ? %s : %s)" % (a, b, b, a)


def _smallest(a, b):
    return "(%s < %s ? %s : %s)" % (b, a, b, a)


@code_version(inline_reduce.code_version)
def inline_reduce_sum(N, buf, pos, count):
    """Return code that sums up a buffer, see `inline_reduce`."""
    return inline_reduce(N, buf, pos, count, _sum)


@code_version(inline_reduce.code_version)
def inline_reduce_prod(N, buf, pos, count):
    """Return code that multiplies the elements of a buffer, see `inline_reduce`."""
    return inline_reduce(N, buf, pos, count, _product)


@code_version(inline_reduce.code_version)
def inline_reduce_max(N, buf, pos, count):
    """Return code that finds the maximum of a buffer, see `inline_reduce`."""
    return inline_reduce(N, buf, pos, count, _largest)


@code_version(inline_reduce.code_version)
def inline_reduce_min(N, buf, pos, count):
    """Return code that finds the minimum of a buffer, see `inline_reduce`."""
    return inline_reduce(N, buf, pos, count, _smallest)


def _element(x, stride_x, load_x, b, stride_b, load_b, i):
    """Return a C expression for element `i` of the row `x`, plus element `i` of the row `b` if `b` is not empty."""
    text = "%s(%s[(%s) * (%s)])" % (load_x, x, i, stride_x)
    return "(%s + %s(%s[(%s) * (%s)]))" % (text, load_b, b, i, stride_b) if b else text


@code_version((1, *inline_reduce.code_version))
def inline_reduce_fixed_shared(
    N, buf, x, stride_x, load_x, pos, count, manner_fn, manner_init, b="", stride_b="", load_b="", dtype="float32"
):
    """Return code that reduces a row of any length, with a small buffer.

    Parameters
    ----------
    N : str
        Length of the row.
    buf : str
        Local memory for ``GA_WARP_SIZE`` elements.
    x, stride_x, load_x : str
        The row, the stride in elements, and the function that reads an element (`load_w`). "" means no function.
    pos, count, manner_fn
        See `inline_reduce`.
    manner_init : callable
        ``manner_init("a")`` returns a C expression that is applied to each element before the reduction.
    b, stride_b, load_b : str, optional
        A row that is added to `x`, with its stride and its function.
    dtype : str
        Dtype of the result.

    Returns
    -------
    str
        The code leaves the result in element 0 of the buffer. The other elements are undefined.
    """
    element = _element(x, stride_x, load_x, b, stride_b, load_b, "__k")
    return """
    {
        %(ctype)s __red = 0;
        ga_uint __n = %(n)s;
        if ((ga_uint)(%(pos)s) < __n) {
            ga_uint __k = (ga_uint)(%(pos)s);
            __red = %(first)s;
            for (__k += (ga_uint)(%(count)s); __k < (ga_uint)(%(N)s); __k += (ga_uint)(%(count)s)) {
                __red = %(combined)s;
            }
        }
        local_barrier();
        if ((ga_uint)(%(pos)s) < GA_WARP_SIZE) {
            %(buf)s[%(pos)s] = __red;
        }
        local_barrier();
        for (ga_uint __first = GA_WARP_SIZE; __first < __n; __first += GA_WARP_SIZE) {
            ga_uint __slot = (ga_uint)(%(pos)s) - __first;
            if ((ga_uint)(%(pos)s) >= __first && __slot < GA_WARP_SIZE && (ga_uint)(%(pos)s) < __n) {
                %(buf)s[__slot] = %(met)s;
            }
            local_barrier();
        }%(tree)s    }
""" % dict(
        ctype=dtype_to_ctype(work_dtype(dtype)),
        n=_smaller(N, count),
        N=N,
        pos=pos,
        count=count,
        buf=buf,
        first=manner_init(element),
        combined=manner_fn("__red", manner_init(element)),
        met=manner_fn("%s[__slot]" % buf, "__red"),
        tree=_tree(_smaller("__n", "GA_WARP_SIZE"), buf, pos, manner_fn),
    )


@code_version(inline_reduce_fixed_shared.code_version)
def inline_reduce_fixed_shared_max(
    N, buf, x, stride_x, load_x, pos, count, b="", stride_b="", load_b="", dtype="float32"
):
    """Return code that finds the maximum of a row, see `inline_reduce_fixed_shared`."""
    return inline_reduce_fixed_shared(
        N, buf, x, stride_x, load_x, pos, count, _largest, lambda a: a, b, stride_b, load_b, dtype
    )


@code_version((1, *inline_reduce.code_version))
def inline_softmax(N, buf, buf2, threadPos, threadCount, dtype="float32"):
    """Return code that computes a softmax.

    Parameters
    ----------
    N : str
        Length of the row.
    buf, buf2 : str
        Local memory. Both contain the row at the beginning. At the end, `buf` contains the softmax, and `buf2` the
        values before the division by their sum.
    threadPos, threadCount : str
        Index of this thread, and number of threads.
    dtype : str
        Dtype of the result's elements.

    Returns
    -------
    str
        The code uses ``__i`` as the variable of its loops, so the arguments must not use this name.
    """
    ctype = dtype_to_ctype(work_dtype(dtype))
    loop = "for (int __i = %s; __i < %s; __i += %s)" % (threadPos, N, threadCount)
    return """
    {%(largest)s
        %(ctype)s __row_max = %(buf)s[0];
        local_barrier();
        %(loop)s {
            %(buf)s[__i] = exp(%(buf2)s[__i] - __row_max);
            %(buf2)s[__i] = %(buf)s[__i];
        }%(sum)s
        %(ctype)s __row_sum = %(buf)s[0];
        local_barrier();
        %(loop)s {
            %(buf)s[__i] = %(buf2)s[__i] / __row_sum;
        }
        local_barrier();
    }
""" % dict(
        ctype=ctype,
        loop=loop,
        buf=buf,
        buf2=buf2,
        largest=inline_reduce_max(N, buf, threadPos, threadCount),
        sum=inline_reduce_sum(N, buf, threadPos, threadCount),
    )


@code_version((1, *inline_reduce_fixed_shared.code_version))
def inline_softmax_fixed_shared(
    N,
    buf,
    x,
    stride_x,
    load_x,
    sm,
    sm_stride,
    write_sm,
    threadPos,
    threadCount,
    b="",
    stride_b="",
    load_b="",
    dtype="float32",
):
    """Return code that computes the softmax of a row of any length, with a small buffer.

    Parameters
    ----------
    N : str
        Length of the row.
    buf : str
        Local memory for ``GA_WARP_SIZE`` elements.
    x, stride_x, load_x, b, stride_b, load_b, dtype : str
        See `inline_reduce_fixed_shared`.
    sm, sm_stride, write_sm : str
        The result, the stride in elements, and the function that is applied to each value before it is stored
        (`write_w`). "" means no function.
    threadPos, threadCount : str
        Index of this thread, and number of threads.

    Returns
    -------
    str
        The code uses ``tx`` as the variable of its loop, so the arguments must not use this name.
    """
    row = (x, stride_x, load_x)
    bias = (b, stride_b, load_b)
    return """
    {%(largest)s
        %(ctype)s __row_max = %(buf)s[0];
        local_barrier();%(sum)s
        %(ctype)s __row_sum = %(buf)s[0];
        local_barrier();
        for (int tx = %(pos)s; tx < %(N)s; tx += %(count)s) {
            %(sm)s[tx * (%(sm_stride)s)] = %(write_sm)s(exp(%(element)s - __row_max) / __row_sum);
        }
        local_barrier();
    }
""" % dict(
        ctype=dtype_to_ctype(work_dtype(dtype)),
        buf=buf,
        pos=threadPos,
        N=N,
        count=threadCount,
        sm=sm,
        sm_stride=sm_stride,
        write_sm=write_sm,
        element=_element(*row, *bias, "tx"),
        largest=inline_reduce_fixed_shared_max(N, buf, *row, threadPos, threadCount, *bias, dtype),
        sum=inline_reduce_fixed_shared(
            N, buf, *row, threadPos, threadCount, _sum, lambda a: "exp(%s - __row_max)" % a, *bias, dtype
        ),
    )


def kernel_samples():
    """Return samples of the kernel source code, which tests compile; see `kernels.samples`.

    The samples are reductions of ``n`` elements of `x`, the softmax of `x`, and the softmax of the sum of `b` and every
    second element of `x`.
    """
    row = ["GLOBAL_MEM const ga_float *x", "GLOBAL_MEM ga_float *z", "ga_uint n"]
    local = ["LOCAL_MEM ga_float buf[64]", "LOCAL_MEM ga_float buf2[64]"]
    each = "for (int i = LID_0; i < n; i += LDIM_0) %s"
    made = []
    for reduction in (inline_reduce_sum, inline_reduce_prod, inline_reduce_max, inline_reduce_min):
        name = reduction.__name__[len("inline_") :]
        body = [each % "buf[i] = x[i]", reduction("n", "buf", "LID_0", "LDIM_0"), "if (LID_0 == 0) z[0] = buf[0]"]
        made.append(KernelSample(name, nvcc_kernel(name, row, [local[0], body])))
    body = [
        each % "buf[i] = buf2[i] = x[i]",
        inline_softmax("n", "buf", "buf2", "LID_0", "LDIM_0"),
        each % "z[i] = buf[i]",
    ]
    made.append(KernelSample("softmax", nvcc_kernel("softmax", row, [local, body])))
    for dtype in ("float32", "float16"):
        name, ctype, load = "softmax_fixed_" + dtype, dtype_to_ctype(dtype), load_w(dtype)
        body = inline_softmax_fixed_shared(
            "n", "buf", "x", "2", load, "z", "1", write_w(dtype), "LID_0", "LDIM_0", "b", "1", load, dtype
        )
        params = [*("GLOBAL_MEM const %s *%s" % (ctype, v) for v in "xb"), "GLOBAL_MEM %s *z" % ctype, "ga_uint n"]
        flags = USE_SMALL | USE_HALF if dtype == "float16" else 0
        made.append(
            KernelSample(name, nvcc_kernel(name, params, ["LOCAL_MEM ga_float buf[GA_WARP_SIZE]", body]), flags)
        )
    return made
