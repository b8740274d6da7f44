"""Pieces of kernels: reductions and softmax by the threads of a group, with local memory.

All are in the dialect of ``cluda.h``, so they work on all devices. Every thread of the group has to come by: there are barriers in them.
"""

from theano_ng.gpuarray.fp16_help import work_dtype
from theano_ng.gpuarray.pygpu.gpuarray import dtype_to_ctype

__all__ = [
    "UNVERSIONED",
    "code_version",
    "inline_reduce",
    "inline_reduce_fixed_shared",
    "inline_reduce_fixed_shared_max",
    "inline_reduce_max",
    "inline_reduce_min",
    "inline_reduce_prod",
    "inline_reduce_sum",
    "inline_softmax",
    "inline_softmax_fixed_shared",
    "nvcc_kernel",
]

# The version of what is not to be cached.
UNVERSIONED = ()
# Elements of the buffers of fixed length: CUDA's warpSize.
_WARP = 32


def code_version(version):
    """Decorator that gives a generator of code the attribute `code_version`, for keys of caches.

    Parameters
    ----------
    version : tuple
        Changes when the code does; UNVERSIONED for code that is not to be cached.

    Raises
    ------
    TypeError
        For another type.
    """
    if not isinstance(version, tuple):
        raise TypeError("a version is a tuple, such as (1,), not %r" % (version,))

    def mark(generator):
        generator.code_version = version
        return generator

    return mark


@code_version((1,))
def nvcc_kernel(name, params, body):
    """The text of a kernel.

    Parameters
    ----------
    name : str
    params : str or sequence of str
        Its parameters.
    body : str or sequence
        Statements, in sequences as deep as one likes; they are separated by semicolons.

    Returns
    -------
    str
    """
    parameters = params if isinstance(params, str) else ", ".join(params)
    return "KERNEL void %s (%s)\n{\n%s;\n}\n" % (name, parameters, ";\n".join("    " + line for line in _flat(body)))


def _flat(body):
    found, stack = [], [body]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            found.append(item)
        else:
            stack.extend(reversed(list(item)))
    return found


@code_version((1,))
def inline_reduce(N, buf, pos, count, manner_fn):
    """Code that reduces a buffer in local memory, whose first element is the result then; the others are lost.

    Parameters
    ----------
    N : str
        Length of the buffer, at least 1.
    buf : str
        The buffer.
    pos, count : str
        Number of this thread, and how many there are.
    manner_fn : callable
        ``manner_fn(a, b)`` returns the C expression of how two numbers are combined, for example ``"%s + %s" % (a, b)``.

    Returns
    -------
    str
    """
    return """
    {
        local_barrier();
        /* Each thread one of the first elements with all that follow it at distances of the number of threads. */
        for (unsigned int tng_i = (%(pos)s) + (%(count)s); tng_i < (unsigned int)(%(N)s); tng_i += (%(count)s))
            %(buf)s[%(pos)s] = %(first)s;
        unsigned int tng_n = (unsigned int)(%(N)s) < (unsigned int)(%(count)s) ? (%(N)s) : (%(count)s);
        local_barrier();
        while (tng_n > 1) {
            const unsigned int tng_low = (tng_n + 1) / 2;
            if ((%(pos)s) + tng_low < tng_n)
                %(buf)s[%(pos)s] = %(second)s;
            tng_n = tng_low;
            local_barrier();
        }
    }
    """ % dict(
        N=N,
        buf=buf,
        pos=pos,
        count=count,
        first=manner_fn("%s[%s]" % (buf, pos), "%s[tng_i]" % buf),
        second=manner_fn("%s[%s]" % (buf, pos), "%s[(%s) + tng_low]" % (buf, pos)),
    )


def _sum(a, b):
    return "%s + %s" % (a, b)


def _product(a, b):
    return "%s * %s" % (a, b)


# NaN, as in reductions of arrays, whichever of the two it is.
def _maximum(a, b):
    return "((%(a)s > %(b)s) | (%(a)s != %(a)s) ? %(a)s : %(b)s)" % dict(a=a, b=b)


def _minimum(a, b):
    return "((%(a)s < %(b)s) | (%(a)s != %(a)s) ? %(a)s : %(b)s)" % dict(a=a, b=b)


@code_version(inline_reduce.code_version)
def inline_reduce_sum(N, buf, pos, count):
    """`inline_reduce` to the sum."""
    return inline_reduce(N, buf, pos, count, _sum)


@code_version(inline_reduce.code_version)
def inline_reduce_prod(N, buf, pos, count):
    """`inline_reduce` to the product."""
    return inline_reduce(N, buf, pos, count, _product)


@code_version(inline_reduce.code_version)
def inline_reduce_max(N, buf, pos, count):
    """`inline_reduce` to the maximum; NaN if there is one."""
    return inline_reduce(N, buf, pos, count, _maximum)


@code_version(inline_reduce.code_version)
def inline_reduce_min(N, buf, pos, count):
    """`inline_reduce` to the minimum; NaN if there is one."""
    return inline_reduce(N, buf, pos, count, _minimum)


@code_version((1,) + inline_reduce.code_version)
def inline_softmax(N, buf, buf2, threadPos, threadCount, dtype="float32"):
    """Statements of a softmax of a buffer in local memory.

    `buf` and `buf2` hold the same numbers before it. After it `buf` is the softmax, and `buf2` the exponentials that it is made of. A loop
    uses the variable ``__i``.

    Parameters
    ----------
    N : str
        Length of both buffers.
    buf, buf2 : str
    threadPos, threadCount : str
        Number of this thread, and how many there are.
    dtype : str
        Of what is computed.

    Returns
    -------
    list of str
        For `nvcc_kernel`.
    """
    kind = dtype_to_ctype(work_dtype(dtype))
    loop = "for (int __i = %s; __i < %s; __i += %s)" % (threadPos, N, threadCount)
    return [
        "{",
        inline_reduce_max(N, buf, threadPos, threadCount),
        "%s tng_most = %s[0]" % (kind, buf),
        "local_barrier()",
        "%s { %s[__i] = exp(%s[__i] - tng_most); %s[__i] = %s[__i]; }" % (loop, buf2, buf2, buf, buf2),
        inline_reduce_sum(N, buf, threadPos, threadCount),
        "%s tng_sum = %s[0]" % (kind, buf),
        "local_barrier()",
        "%s %s[__i] = %s[__i] / tng_sum" % (loop, buf, buf2),
        "local_barrier()",
        "}",
    ]


@code_version((1,) + inline_reduce.code_version)
def inline_reduce_fixed_shared(
    N, buf, x, stride_x, load_x, pos, count, manner_fn, manner_init, b="", stride_b="", load_b="", dtype="float32"
):
    """Code that reduces numbers in global memory, with a buffer of 32 elements whatever their number; its first element is the result then.

    Parameters
    ----------
    N : str
        How many numbers there are, at least 1.
    buf : str
        A buffer of 32 elements (CUDA's warpSize) in local memory.
    x, stride_x : str
        The first number, and the step from one to the next, in elements.
    load_x : str
        Function that numbers are read by, see `fp16_help.load_w`; "": none.
    pos, count : str
        Number of this thread, and how many there are.
    manner_fn, manner_init : callable
        ``manner_fn(a, b)`` combines two numbers, ``manner_init(a)`` is applied to each of them first; they return C expressions.
    b, stride_b, load_b : str, optional
        A bias, which is added to the numbers before.
    dtype : str
        Of the result.

    Returns
    -------
    str
    """

    def number(i):
        text = "%s(%s[(%s) * %s])" % (load_x, x, i, stride_x)
        return manner_init("%s + %s(%s[(%s) * %s])" % (text, load_b, b, i, stride_b) if b else text)

    return """
    {
        %(kind)s tng_red = 0;
        if ((%(pos)s) < (%(N)s)) {
            tng_red = %(first)s;
            for (int tng_i = (%(pos)s) + (%(count)s); tng_i < (%(N)s); tng_i += (%(count)s))
                tng_red = %(next)s;
        }
        /* The results of the first %(warp)d threads, then those of the next onto them. */
        unsigned int tng_n = (unsigned int)(%(N)s) < (unsigned int)(%(count)s) ? (%(N)s) : (%(count)s);
        for (unsigned int tng_from = 0; tng_from < tng_n; tng_from += %(warp)d) {
            local_barrier();
            if ((%(pos)s) >= tng_from && (%(pos)s) < tng_from + %(warp)d && (%(pos)s) < tng_n) {
                if (tng_from > 0)
                    tng_red = %(onto)s;
                %(buf)s[(%(pos)s) - tng_from] = tng_red;
            }
        }
        if (tng_n > %(warp)d)
            tng_n = %(warp)d;
        local_barrier();
        while (tng_n > 1) {
            const unsigned int tng_low = (tng_n + 1) / 2;
            if ((%(pos)s) + tng_low < tng_n)
                %(buf)s[%(pos)s] = %(half)s;
            tng_n = tng_low;
            local_barrier();
        }
    }
    """ % dict(
        kind=dtype_to_ctype(work_dtype(dtype)),
        N=N,
        buf=buf,
        pos=pos,
        count=count,
        warp=_WARP,
        first=number(pos),
        next=manner_fn("tng_red", number("tng_i")),
        onto=manner_fn("tng_red", "%s[(%s) - tng_from]" % (buf, pos)),
        half=manner_fn("%s[%s]" % (buf, pos), "%s[(%s) + tng_low]" % (buf, pos)),
    )


@code_version(inline_reduce_fixed_shared.code_version)
def inline_reduce_fixed_shared_max(
    N, buf, x, stride_x, load_x, pos, count, b="", stride_b="", load_b="", dtype="float32"
):
    """`inline_reduce_fixed_shared` to the maximum; NaN if there is one."""
    return inline_reduce_fixed_shared(
        N, buf, x, stride_x, load_x, pos, count, _maximum, lambda a: "(%s)" % a, b, stride_b, load_b, dtype
    )


@code_version((1,) + inline_reduce_fixed_shared.code_version)
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
    """Statements of a softmax of numbers in global memory, with a buffer of 32 elements. A loop uses the variable ``tx``.

    Parameters
    ----------
    N : str
        How many numbers there are.
    buf : str
        A buffer of 32 elements (CUDA's warpSize) in local memory; what is in it is lost.
    x, stride_x, load_x : str
        The numbers, see `inline_reduce_fixed_shared`.
    sm, sm_stride : str
        Where the results go, and the step between them, in elements.
    write_sm : str
        Function that converts results to what is stored, see `fp16_help.write_w`; "": none.
    threadPos, threadCount : str
        Number of this thread, and how many there are.
    b, stride_b, load_b : str, optional
        A bias, which is added to the numbers before.
    dtype : str
        Of the results.

    Returns
    -------
    list of str
        For `nvcc_kernel`.
    """
    kind = dtype_to_ctype(work_dtype(dtype))
    number = "%s(%s[tx * %s])" % (load_x, x, stride_x)
    if b:
        number += " + %s(%s[tx * %s])" % (load_b, b, stride_b)
    bias = (b, stride_b, load_b)
    return [
        "{",
        inline_reduce_fixed_shared_max(N, buf, x, stride_x, load_x, threadPos, threadCount, *bias, dtype=dtype),
        "%s tng_most = %s[0]" % (kind, buf),
        "local_barrier()",
        inline_reduce_fixed_shared(
            N,
            buf,
            x,
            stride_x,
            load_x,
            threadPos,
            threadCount,
            _sum,
            lambda a: "exp(%s - tng_most)" % a,
            *bias,
            dtype=dtype,
        ),
        "%s tng_sum = %s[0]" % (kind, buf),
        "local_barrier()",
        "for (int tx = %s; tx < %s; tx += %s) { %s[tx * %s] = %s(exp(%s - tng_most) / tng_sum); }"
        % (threadPos, N, threadCount, sm, sm_stride, write_sm, number),
        "local_barrier()",
        "}",
    ]
