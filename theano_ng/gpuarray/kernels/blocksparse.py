"""Kernels of products of selected blocks: vectors times blocks of a matrix, and outer products added to blocks.

Each element of a result is computed by one thread, which adds the products in the order of the Ops for the host. So the
same input gives the same result. On processors a thread computes several elements together, so that the compiler can use
vectors.
"""

from theano_ng.gpuarray.kernels import snippets
from theano_ng.gpuarray.kernels.device_kernel import DeviceKernel, flags_of, sample
from theano_ng.gpuarray.kernels.snippets import SIZE, SSIZE

DTYPES = ("float16", "float32", "float64")


def lanes(context):
    """Return the number of adjacent elements that a thread computes together."""
    return 16 if context is not None and context.vector_bytes else 1


# A loop over the elements `l` of a tile. If the tile is whole and has unit strides, the loop has a constant number of
# iterations and no multiplication, so that compilers use vectors.
_TILE = """if (count == %(lanes)d && %(stride)s == 1)
                        for (int l = 0; l < %(lanes)d; ++l) { %(unit)s }
                    else
                        for (int l = 0; l < count; ++l) { %(any)s }"""


def _tile(lanes, stride, body):
    """Return a loop over the elements of a tile.

    Parameters
    ----------
    lanes : int
    stride : str
        The name of a stride, in elements.
    body : str
        A statement in which ``%(at)s`` is the offset of element ``l`` along this stride.
    """
    return _TILE % dict(
        lanes=lanes, stride=stride, unit=body % dict(at="l"), any=body % dict(at="(ga_ssize)l * %s" % stride)
    )


def _strided(name, rank):
    """Return the declarations of an array: its memory, and its strides in elements."""
    strides = ", ".join("ga_ssize %s%d" % (name, d) for d in range(rank))
    return "GLOBAL_MEM char *%s_data, ga_size %s_at, %s" % (name, name, strides)


def _pointer(kind, name):
    return "GLOBAL_MEM %s *%s = (GLOBAL_MEM %s *)(%s_data + %s_at)" % (kind, name, kind, name, name)


def _types(*ranks):
    return tuple([kind for rank in ranks for kind in ("*", SIZE, *(SSIZE,) * rank)])


_GEMV = """
KERNEL void KERNEL_NAME(%(o)s, %(w)s, %(h)s,
    GLOBAL_MEM const ga_long *rows, GLOBAL_MEM const ga_long *columns, ga_size items, ga_size tiles, ga_size windows,
    ga_size inputs, ga_size m, ga_size n)
{
    for (ga_size item = (ga_size)GID_0 * LDIM_0 + LID_0; item < items; item += (ga_size)LDIM_0 * GDIM_0) {
        ga_size rest = item;
        const ga_size tile = ga_split(&rest, tiles), j = ga_split(&rest, windows);
        const int count = n - tile * %(lanes)d < %(lanes)d ? (int)(n - tile * %(lanes)d) : %(lanes)d;
        %(o_pointer)s + (ga_ssize)rest * o0 + (ga_ssize)j * o1 + (ga_ssize)(tile * %(lanes)d) * o2;
        %(number)s sums[%(lanes)d];
        for (int l = 0; l < count; ++l)
            sums[l] = %(load_o)s;
        for (ga_size i = 0; i < inputs; ++i) {
            const ga_ssize row = (ga_ssize)rows[rest * inputs + i], column = (ga_ssize)columns[rest * windows + j];
            if (row < 0 || column < 0) /* an index that is out of bounds, see `indexing.NO_OFFSET` */
                continue;
            %(w_pointer)s + row * w0 + column * w1 + (ga_ssize)(tile * %(lanes)d) * w3;
            %(h_pointer)s + (ga_ssize)rest * h0 + (ga_ssize)i * h1;
            for (ga_size k = 0; k < m; ++k, w += w2, h += h2) {
                const %(number)s x = %(load_h)s;
                    %(add)s
            }
        }
        for (int l = 0; l < count; ++l) {
            %(store_o)s
        }
    }
}
"""


def gemv(dtype, lanes, context):
    """Return the kernel of `GpuSparseBlockGemv`.

    Parameters
    ----------
    dtype : str
        One of `DTYPES`. float16 products are summed in float32.
    lanes : int
        See `lanes`.
    context : GpuContext or None
    """
    kind, at = snippets.element(dtype), "o + (ga_ssize)l * o2"
    source = _GEMV % dict(
        o=_strided("o", 3),
        w=_strided("w", 4),
        h=_strided("h", 3),
        o_pointer=_pointer(kind, "o"),
        w_pointer=_pointer(kind, "w"),
        h_pointer=_pointer(kind, "h"),
        lanes=lanes,
        number=snippets.number(dtype),
        load_o=snippets.load(dtype, at),
        load_h=snippets.load(dtype, "h"),
        add=_tile(lanes, "w3", "sums[l] = x * %s + sums[l];" % snippets.load(dtype, "w + %(at)s")),
        store_o=snippets.store(dtype, at, "sums[l]"),
    )
    return DeviceKernel(source, (*_types(3, 4, 3), "*", "*", *(SIZE,) * 6), context, flags_of(dtype))


# The blocks are divided into classes. On GPUs a thread adds all products to one element (k, tile) of the blocks of its
# class, and on processors to whole blocks. So no two threads write to the same element.
_OUTER = """
KERNEL void KERNEL_NAME(%(o)s, %(x)s, %(y)s,
    GLOBAL_MEM const ga_long *rows, GLOBAL_MEM const ga_long *columns, %(number)s alpha, ga_uint has_factor,
    GLOBAL_MEM char *factor, ga_size factor_at, ga_size items, ga_size x_classes, ga_size y_classes,
    ga_size batch, ga_size x_windows, ga_size y_windows, ga_size m, ga_size n)
{
    if (has_factor)
        alpha = %(load_factor)s;
    for (ga_size item = (ga_size)GID_0 * LDIM_0 + LID_0; item < items; item += (ga_size)LDIM_0 * GDIM_0) {
        ga_size rest = item;
        %(which)s
        const ga_size y_class = ga_split(&rest, y_classes);
        for (ga_size b = 0; b < batch; ++b)
            for (ga_size i = 0; i < x_windows; ++i) {
                const ga_size row = (ga_size)rows[b * x_windows + i];
                if ((ga_ssize)row < 0) /* an index that is out of bounds */
                    continue;
                if (x_classes > 1 && row %% x_classes != rest)
                    continue;
                for (ga_size j = 0; j < y_windows; ++j) {
                    const ga_size column = (ga_size)columns[b * y_windows + j];
                    if ((ga_ssize)column < 0)
                        continue;
                    if (y_classes > 1 && column %% y_classes != y_class)
                        continue;
                    %(x_pointer)s + (ga_ssize)b * x0 + (ga_ssize)i * x1;
                    %(y_pointer)s + (ga_ssize)b * y0 + (ga_ssize)j * y1;
                    %(o_pointer)s + (ga_ssize)row * o0 + (ga_ssize)column * o1;
                    %(add)s
                }
            }
    }
}
"""

_ADD_ELEMENT = "o[(ga_ssize)k * o2 + (ga_ssize)l * o3] += alpha * %(load_x)s * %(load_y)s;"

_ADD_BLOCK = """for (ga_size k = 0; k < m; ++k, o += o2) {
                        const %(number)s left = alpha * %(load_x)s;
                        if (o3 == 1 && y2 == 1)
                            for (ga_size l = 0; l < n; ++l)
                                o[l] += left * %(load_unit)s;
                        else
                            for (ga_size l = 0; l < n; ++l)
                                o[(ga_ssize)l * o3] += left * %(load_y)s;
                    }"""


def outer(dtype, lanes, context):
    """Return the kernel of `GpuSparseBlockOuter`.

    Parameters
    ----------
    dtype : str
        One of `DTYPES`: the dtype of the factors. For float16, the result is float32.
    lanes : int
        See `lanes`. If it is greater than 1, a thread computes whole blocks.
    context : GpuContext or None
    """
    kind, number = snippets.element(dtype), snippets.number(dtype)
    fields = dict(
        number=number,
        load_x=snippets.load(dtype, "x + (ga_ssize)k * x2"),
        load_y=snippets.load(dtype, "y + (ga_ssize)l * y2"),
        load_unit=snippets.load(dtype, "y + l"),
    )
    source = _OUTER % dict(
        o=_strided("o", 4),
        x=_strided("x", 3),
        y=_strided("y", 3),
        o_pointer=_pointer(number, "o"),
        x_pointer=_pointer(kind, "x"),
        y_pointer=_pointer(kind, "y"),
        number=number,
        load_factor=snippets.load(dtype, "factor + factor_at"),
        which="" if lanes > 1 else "const ga_size l = ga_split(&rest, n), k = ga_split(&rest, m);",
        add=(_ADD_BLOCK if lanes > 1 else _ADD_ELEMENT) % fields,
    )
    scalar = "float32" if dtype == "float16" else dtype
    types = (*_types(4, 3, 3), "*", "*", scalar, "uint32", "*", *(SIZE,) * 9)
    return DeviceKernel(source, types, context, flags_of(dtype))


def kernel_samples():
    """Return samples of the kernel source code, which tests compile; see `kernels.samples`."""
    return [
        sample("products of blocks, %s" % dtype, [made(dtype, 1, None) for made in (gemv, outer)]) for dtype in DTYPES
    ]
