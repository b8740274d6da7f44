"""Device code of indexing: kernels that increment views, gather elements, scatter elements, and read index arrays.

native/subtensor.c launches the kernels.
"""

import numpy as np

from theano_ng.gpuarray.kernels import index_errors, snippets
from theano_ng.gpuarray.kernels.device_kernel import DeviceKernel, flags_of, sample
from theano_ng.gpuarray.kernels.snippets import SIZE, SSIZE

# The offset of an element whose index is out of bounds: zeros are read there, and nothing is written.
NO_OFFSET = "(-(ga_long)0x7fffffffffffffff - 1)"

# dtype -> letter in the name of the device function ``atom_add_<letter>g``.
_ATOMIC = {"int32": "i", "uint32": "I", "int64": "l", "uint64": "L", "float16": "e", "float32": "f", "float64": "d"}


def has_atomic_add(dtype, context):
    """Return True if the device of a context can add values of this dtype atomically. Some OpenCL devices cannot if the
    values have 8 bytes.
    """
    return dtype in _ATOMIC and (np.dtype(dtype).itemsize < 8 or context.has_long_atomics)


def _add(dtype, to, value):
    """Return the statement that adds the element `value` to the element `to`. The sum of bools is a logical or."""
    if dtype == "complex64":
        pair = "GLOBAL_MEM ga_cfloat *to = (GLOBAL_MEM ga_cfloat *)(%s); GLOBAL_MEM const ga_cfloat *from = (GLOBAL_MEM const ga_cfloat *)(%s);"
        return "{ %s to->x += from->x; to->y += from->y; }" % (pair % (to, value))
    a, b = snippets.load(dtype, to), snippets.load(dtype, value)
    if dtype == "bool":
        return snippets.store(dtype, to, "(%s) || (%s)" % (a, b))
    return snippets.store(dtype, to, "%s + %s" % (a, b))


def _set(dtype, to, value):
    kind = snippets.element(snippets.bits(dtype))
    return "*(GLOBAL_MEM %s *)(%s) = *(GLOBAL_MEM const %s *)(%s);" % (kind, to, kind, value)


def _atomic_add(dtype, to, value):
    return "atom_add_%sg((GLOBAL_MEM %s *)(%s), *(GLOBAL_MEM const %s *)(%s));" % (
        _ATOMIC[dtype],
        snippets.element(dtype),
        to,
        snippets.element(dtype),
        value,
    )


def increment(dtype, axes, context):
    """Return the kernel of ``z += y`` for arrays with this number of axes."""
    declared, types = snippets.axes("d", axes, ("z", "y"))
    source = """
KERNEL void KERNEL_NAME(GLOBAL_MEM char *z, ga_size z_at, GLOBAL_MEM const char *y, ga_size y_at, ga_size n%(declared)s)
{
    %(every)s {
        ga_size rest = i, k;
        GLOBAL_MEM char *t = z + z_at;
        GLOBAL_MEM const char *f = y + y_at;
        %(walk)s
        %(add)s
    }
}
""" % dict(
        declared=declared,
        every=snippets.GRID_STRIDE_LOOP,
        walk=snippets.walk("d", axes, {"z": "t", "y": "f"}, True),
        add=_add(dtype, "t", "f"),
    )
    return DeviceKernel(source, ("*", SIZE, "*", SIZE, SIZE, *types), context, flags_of(dtype))


def gather(dtype, before, after, context):
    """Return the kernel that copies the elements of x at given offsets to a result in C order. The axes of the result
    are `before` axes of x, one axis for the offsets, and `after` axes of x.
    """
    first, types = snippets.axes("b", before, ("x",))
    second, more = snippets.axes("a", after, ("x",))
    source = """
KERNEL void KERNEL_NAME(GLOBAL_MEM char *z, ga_size z_at, GLOBAL_MEM const char *x, ga_size x_at, GLOBAL_MEM const ga_long *offsets, ga_size n,
    ga_size count%(first)s%(second)s)
{
    %(every)s {
        ga_size rest = i, k;
        GLOBAL_MEM const char *f = x + x_at;
        %(after)s
        %(which)s
        const ga_long offset = offsets[k];
        %(before)s
        ((GLOBAL_MEM %(type)s *)(z + z_at))[i] = offset == %(no_offset)s ? 0 : *(GLOBAL_MEM const %(type)s *)(f + offset);
    }
}
""" % dict(
        first=first,
        second=second,
        every=snippets.GRID_STRIDE_LOOP,
        after=snippets.walk("a", after, {"x": "f"}, False),
        which="k = ga_split(&rest, count);" if before else "k = rest;",
        before=snippets.walk("b", before, {"x": "f"}, True),
        type=snippets.element(snippets.bits(dtype)),
        no_offset=NO_OFFSET,
    )
    return DeviceKernel(
        source, ("*", SIZE, "*", SIZE, "*", SIZE, SIZE, *types, *more), context, flags_of(snippets.bits(dtype))
    )


def scatter(dtype, axes, how, context):
    """Return the kernel that writes elements to offsets.

    Parameters
    ----------
    dtype : str
    axes : int
        Number of axes that no array indexes.
    how : {"set", "add", "atomic"}
    context : GpuContext or None

    Notes
    -----
    The kernel divides the offsets into classes. A thread writes the values of one class, at one position along the
    axes. If the argument `by_target` of the kernel is nonzero, a class contains all offsets with the same value of
    ``offset / unit`` modulo the number of classes, and the thread writes in the order of the offsets. So if an offset
    occurs several times, the result is the same in every run. If `by_target` is 0, the order does not matter, and class
    c contains the offsets numbered c, c + classes, c + 2 * classes, ...
    """
    declared, types = snippets.axes("d", axes, ("z", "y"))
    effect = {"set": _set, "add": _add, "atomic": _atomic_add}[how]
    source = """
KERNEL void KERNEL_NAME(GLOBAL_MEM char *z, ga_size z_at, GLOBAL_MEM const char *y, ga_size y_at, GLOBAL_MEM const ga_long *offsets, ga_size n,
    ga_size count, ga_size classes, ga_size by_target, ga_ssize unit, ga_ssize y_step%(declared)s)
{
    %(every)s {
        ga_size rest = i, k;
        GLOBAL_MEM char *t = z + z_at;
        GLOBAL_MEM const char *f = y + y_at;
        %(walk)s
        for (k = by_target ? 0 : rest; k < count; k += by_target ? 1 : classes) {
            ga_long offset = offsets[k];
            if (offset == %(no_offset)s)
                continue;
            if (by_target && classes > 1 && (ga_size)(offset / unit) %% classes != rest)
                continue;
            %(effect)s
        }
    }
}
""" % dict(
        declared=declared,
        every=snippets.GRID_STRIDE_LOOP,
        walk=snippets.walk("d", axes, {"z": "t", "y": "f"}, False),
        effect=effect(dtype, "t + offset", "f + (ga_ssize)k * y_step"),
        no_offset=NO_OFFSET,
    )
    types = ("*", SIZE, "*", SIZE, "*", SIZE, SIZE, SIZE, SIZE, SSIZE, SSIZE, *types)
    return DeviceKernel(source, types, context, flags_of(snippets.bits(dtype) if how == "set" else dtype))


def read_indices(dtypes, axes, context):
    """Return the kernel that computes offsets from integer arrays, which are broadcast together. If an index is out of
    bounds, the kernel reports it, and the offset is `NO_OFFSET`.

    Parameters
    ----------
    dtypes : sequence of str
        Dtypes of the arrays.
    axes : int
        Number of axes of the result.
    context : GpuContext or None
    """
    names = [str(i) for i in range(len(dtypes))]
    declared, types = snippets.axes("d", axes, names)
    arrays = "".join(
        ",\n    GLOBAL_MEM const char *x%s, ga_size x%s_at, ga_size size%s, ga_ssize stride%s" % (i, i, i, i)
        for i in names
    )
    start = " ".join("GLOBAL_MEM const char *p%s = x%s + x%s_at;" % (i, i, i) for i in names)
    read = []
    for i, dtype in zip(names, dtypes):
        unsigned = dtype.startswith("u")
        read.append("given = (ga_long)%s;" % snippets.load(dtype, "p" + i))
        read.append("j = given;" if unsigned else "j = given < 0 ? given + (ga_long)size%s : given;" % i)
        # A uint64 that is too large for an int64 is reported as the largest int64.
        shown = "given < 0 ? 0x7fffffffffffffff : given" if unsigned else "given"
        report = index_errors.report("i * %d + %s" % (len(names), i), int(i), shown, "size" + i)
        read.append("if ((ga_ulong)j >= (ga_ulong)size%s) { %s wrong = 1; }" % (i, report))
        read.append("offset += j * stride%s;" % i)
    source = """
KERNEL void KERNEL_NAME(GLOBAL_MEM ga_long *offsets, %(report)s, ga_size n%(arrays)s%(declared)s)
{
    %(every)s {
        ga_size rest = i, k;
        ga_long offset = 0, given, j;
        ga_bool wrong = 0;
        %(start)s
        %(walk)s
        %(read)s
        offsets[i] = wrong ? %(no_offset)s : offset;
    }
}
""" % dict(
        report=index_errors.PARAMETERS,
        no_offset=NO_OFFSET,
        arrays=arrays,
        declared=declared,
        every=snippets.GRID_STRIDE_LOOP,
        start=start,
        walk=snippets.walk("d", axes, {i: "p" + i for i in names}, True),
        read="\n        ".join(read),
    )
    kinds = ("*", *index_errors.TYPES, SIZE, *(kind for _ in names for kind in ("*", SIZE, SIZE, SSIZE)), *types)
    return DeviceKernel(source, kinds, context, flags_of(*dtypes), (index_errors.SUPPORT,))


def check_labels(dtype, context):
    """Return the kernel that reports labels (a vector of this dtype) that are not in ``range(classes)``."""
    source = """
KERNEL void KERNEL_NAME(%(report)s, GLOBAL_MEM const char *labels, ga_size labels_at, ga_ssize stride, ga_size n, ga_size classes)
{
    %(every)s {
        const ga_long given = (ga_long)%(load)s;
        if ((ga_ulong)given >= (ga_ulong)classes)
            %(wrong)s
    }
}
""" % dict(
        report=index_errors.PARAMETERS,
        every=snippets.GRID_STRIDE_LOOP,
        load=snippets.load(
            dtype, "labels + labels_at + (ga_ssize)i * stride * (ga_ssize)sizeof(%s)" % snippets.element(dtype)
        ),
        wrong=index_errors.report("i", 0, "given", "classes"),
    )
    types = (*index_errors.TYPES, "*", SIZE, SSIZE, SIZE, SIZE)
    return DeviceKernel(source, types, context, flags_of(dtype), (index_errors.SUPPORT,))


def kernel_samples():
    """Return samples of the kernel source code, which tests compile; see `kernels.samples`."""
    gathers = [("float16", 0, 1), ("float64", 2, 2), ("int8", 0, 0)]
    adds = [scatter(dtype, 1, "add", None) for dtype in snippets.TYPES]
    sets = [scatter(dtype, axes, "set", None) for dtype, axes in (("float64", 2), ("int8", 0))]
    return [
        sample("increment", [increment(dtype, 2, None) for dtype in snippets.TYPES]),
        sample("gather", [gather(*case, None) for case in gathers]),
        sample("scatter", adds + sets),
        sample("scatter, atomic", [scatter(dtype, 1, "atomic", None) for dtype in _ATOMIC]),
        sample("check_labels", [check_labels(dtype, None) for dtype in ("int32", "uint8")]),
        sample("read_indices", [read_indices(("int64", "uint8", "uint64", "int16"), 2, None)]),
    ]
