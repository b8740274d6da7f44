"""Kernels of matrix products: ``out = alpha * a @ b + beta * c``, for stacks of matrices with any strides.

A kernel computes the product in tiles of `Tile.rows` times `Tile.columns` elements. On processors one thread computes a
tile, with its sums in vector registers. On GPUs a group of threads computes a tile; it copies pieces of the factors to
local memory. The order of the sums depends only on the kernel, so the same input gives the same result.
"""

import logging
from typing import NamedTuple

import numpy as np

from theano_ng import scalar
from theano_ng.configdefaults import config
from theano_ng.gof.native import NativeCode, obtain_kernels
from theano_ng.gpuarray.kernels import snippets
from theano_ng.gpuarray.kernels.device_kernel import DeviceKernel, flags_of, sample
from theano_ng.gpuarray.kernels.product_ending import Ending
from theano_ng.gpuarray.kernels.snippets import SIZE, SSIZE
from theano_ng.gpuarray.pygpu import gpuarray
from theano_ng.gpuarray.pygpu.tools import per_context

_logger = logging.getLogger(__name__)

DTYPES = ("float16", "float32", "float64")

# Number of threads in a group on GPUs, in two dimensions, and the number of products that are summed between two copies
# to local memory
GROUP, DEPTH = (16, 16), 16


class Tile(NamedTuple):
    """The part of the result that one thread (processors) or one group (GPUs) computes.

    Attributes
    ----------
    rows, columns : int
    width : int
        Number of elements of a vector register. 0 on GPUs.
    along : bool
        If True, the elements of a vector are consecutive along the summed axis, in both factors. Otherwise, they are
        consecutive elements of a row of b.
    """

    rows: int
    columns: int
    width: int = 0
    along: bool = False


def tiles(dtype, vector_bytes):
    """Return the tiles of a device: three tiles, from the most to the least efficient, and for processors one more tile
    with vectors along the summed axis.

    Parameters
    ----------
    dtype : str
    vector_bytes : int
        Size of the vectors of a processor; 0 for GPUs. See `GpuContext.vector_bytes`.
    """
    if not vector_bytes:
        return Tile(128, 128), Tile(64, 64), Tile(32, 32)
    # AVX-512 has 32 vector registers, and smaller vectors have 16. The sums of the largest tile fill half of them.
    width = max(vector_bytes // np.dtype(work_dtype(dtype)).itemsize, 2)
    rows = 8 if vector_bytes >= 64 else 4
    return (
        Tile(rows, 2 * width, width),
        Tile(rows, width, width),
        Tile(1, 4 * width, width),
        Tile(4, 1, width, along=True),
    )


def work_dtype(dtype):
    """Return the dtype of the sums."""
    return "float32" if dtype == "float16" else dtype


# One argument of a kernel per line: C declaration, and type for `DeviceKernel`. `k_whole`: number of rows of b that can
# be read beyond the last column without leaving the memory. The strides are in elements. `scalars`: bit 0 is set if
# alpha is the element of a device array, and bit 1 is set if beta is.
_PARAMETERS = """ga_size batch|size
ga_size m|size
ga_size n|size
ga_size k|size
ga_size k_whole|size
NUMBER alpha|number
NUMBER beta|number
ga_uint scalars|uint32
GLOBAL_MEM char *alpha_data|*
ga_size alpha_at|size
GLOBAL_MEM char *beta_data|*
ga_size beta_at|size
GLOBAL_MEM char *a_data|*
ga_size a_at|size
ga_ssize a_batch|ssize
ga_ssize a_m|ssize
ga_ssize a_k|ssize
GLOBAL_MEM char *b_data|*
ga_size b_at|size
ga_ssize b_batch|ssize
ga_ssize b_k|ssize
ga_ssize b_n|ssize
GLOBAL_MEM char *c_data|*
ga_size c_at|size
ga_ssize c_batch|ssize
ga_ssize c_m|ssize
ga_ssize c_n|ssize
GLOBAL_MEM char *out_data|*
ga_size out_at|size
ga_ssize out_batch|ssize
ga_ssize out_m|ssize
ga_ssize out_n|ssize"""


def _parameters(dtype, ending=None):
    """Return the declarations and the types of the arguments of a kernel."""
    types = {"size": SIZE, "ssize": SSIZE, "number": work_dtype(dtype)}
    rows = [row.split("|") for row in _PARAMETERS.splitlines()] + list(ending.parameters() if ending else ())
    declared = ",\n    ".join([row[0] for row in rows]).replace("NUMBER", snippets.number(dtype))
    return declared, tuple([types.get(row[1], row[1]) for row in rows])


_BEGIN = """KERNEL void KERNEL_NAME(%(parameters)s)
{
    %(local)s
    const ga_size row_tiles = (m + %(rows)d - 1) / %(rows)d, column_tiles = (n + %(columns)d - 1) / %(columns)d;
    if (scalars & 1)
        alpha = %(alpha)s;
    if (scalars & 2)
        beta = %(beta)s;
    for (ga_size tile = GID_0; tile < batch * row_tiles * column_tiles; tile += GDIM_0) {
        ga_size which = tile;
        const ga_size i0 = ga_split(&which, row_tiles) * %(rows)d, j0 = ga_split(&which, column_tiles) * %(columns)d;
        const ga_uint rows = m - i0 < %(rows)d ? (ga_uint)(m - i0) : %(rows)d;
        const ga_uint columns = n - j0 < %(columns)d ? (ga_uint)(n - j0) : %(columns)d;
        GLOBAL_MEM const %(element)s *a = (GLOBAL_MEM const %(element)s *)(a_data + a_at)
            + (ga_ssize)which * a_batch + (ga_ssize)i0 * a_m;
        GLOBAL_MEM const %(element)s *b = (GLOBAL_MEM const %(element)s *)(b_data + b_at)
            + (ga_ssize)which * b_batch + (ga_ssize)j0 * b_n;
        GLOBAL_MEM const %(element)s *c = (GLOBAL_MEM const %(element)s *)(c_data + c_at)
            + (ga_ssize)which * c_batch + (ga_ssize)i0 * c_m + (ga_ssize)j0 * c_n;
        GLOBAL_MEM %(out_element)s *out = (GLOBAL_MEM %(out_element)s *)(out_data + out_at)
            + (ga_ssize)which * out_batch + (ga_ssize)i0 * out_m + (ga_ssize)j0 * out_n;
        %(operands)s
"""

_END = """    }
}
"""

# The value of an element from its sum. As in BLAS, factors are not read if alpha is 0, and c is not read if beta is 0.
_SCALED = "(alpha == 0 ? 0 : alpha * (%s))"
_RESULT = _SCALED % "%(sum)s" + " + (beta == 0 ? 0 : beta * (%(c)s))"


def _fields(dtype, tile, ending):
    def scalar(name):
        return snippets.load(dtype, "%s_data + %s_at" % (name, name))

    parameters, _ = _parameters(dtype, ending)
    return dict(
        parameters=parameters,
        rows=tile.rows,
        columns=tile.columns,
        element=snippets.element(dtype),
        out_element=snippets.element(ending.out_dtype if ending else dtype),
        operands=ending.pointers() if ending else "",
        number=snippets.number(dtype),
        alpha=scalar("alpha"),
        beta=scalar("beta"),
    )


def read(dtype, pointer):
    return "load_half(%s)" % pointer if dtype == "float16" else "*(%s)" % pointer


def _write(dtype, pointer, value):
    return "store_half(%s, %s);" % (pointer, value) if dtype == "float16" else "*(%s) = %s;" % (pointer, value)


def stored(dtype, value, out):
    """Return the statement that stores an element of a result: `value`, a number, at the pointer `out`."""
    return _write(dtype, out, value)


def _stored(dtype, ending, sum_, at):
    """Return the statements that store an element of the result, given its sum. ``at(name)`` is the expression of a
    pointer to the element of an array.
    """
    value = _RESULT % dict(sum=sum_, c=read(dtype, at("c")))
    return ending.store(value, at) if ending else stored(dtype, value, at("out"))


def _for_processors(dtype, tile, ending):
    """Return the code of a kernel in which one thread computes a tile, for OpenCL devices that are processors."""
    sums = (_sums_along if tile.along else _sums_across)(dtype, tile)
    local = ending.private(tile, snippets.number(dtype)) if ending else ""
    lines = [_BEGIN % dict(_fields(dtype, tile, ending), local=local), *sums]
    if ending:
        value = lambda sum_, c: _RESULT % dict(sum=sum_, c=read(dtype, "&" + c)) if c else _SCALED % sum_
        lines.append(ending.store_tile(tile, value))
    else:
        lines.append("for (ga_uint i = 0; i < rows; ++i, c += c_m, out += out_m)")
        for unit in (True, False):
            lines.append("if (out_n == 1 && c_n == 1)" if unit else "else")
            lines.append("for (ga_uint j = 0; j < columns; ++j) {")
            at = (lambda name: name + " + j") if unit else (lambda name: "%s + (ga_ssize)j * %s_n" % (name, name))
            lines += [_stored(dtype, None, "sums[i * %d + j]" % tile.columns, at), "}"]
    lines.append(_END)
    return "\n".join(lines)


def vector_type(dtype, width):
    return "%s%d" % ({"float64": "double"}.get(dtype, "float"), width)


def read_vector(dtype, width, pointer):
    if dtype == "float16":
        return "vload_half%d(0, (GLOBAL_MEM const half *)(%s))" % (width, pointer)
    return "vload%d(0, %s)" % (width, pointer)


def rows_of_tile(tile, rows="rows"):
    """Return statements that define where the rows of a tile of a begin. A row beyond the last one reads the elements
    of the last row again; its sums are not stored.

    Parameters
    ----------
    tile : Tile
    rows : str
        The variable with the number of rows.
    """
    text = "const ga_ssize r%(i)d = (ga_ssize)(%(i)d < %(rows)s ? %(i)d : %(rows)s - 1) * a_m;"
    return [text % dict(i=i, rows=rows) for i in range(tile.rows)]


def update(dtype, tile, a):
    """Return statements that add products to the sums ``s<row>_<vector>`` of a tile: of an element of each row of a, at the
    pointers ``<a> + r<row>``, and the vectors ``y<vector>``.
    """
    vector, result = vector_type(dtype, tile.width), []
    for i in range(tile.rows):
        products = " ".join("s%d_%d = x * y%d + s%d_%d;" % (i, j, j, i, j) for j in range(tile.columns // tile.width))
        result.append("{ const %s x = %s; %s }" % (vector, read(dtype, "%s + r%d" % (a, i)), products))
    return result


def copied_vectors(dtype, tile, row):
    """Return statements that define the vectors ``y<vector>``, which are read from the copy `row` of a row of b."""
    vector, width = vector_type(dtype, tile.width), tile.width
    places = ["vload%d(0, %s + %d)" % (width, row, at) for at in range(0, tile.columns, width)]
    return ["const %s y%d = %s;" % (vector, j, place) for j, place in enumerate(places)]


def _sums_across(dtype, tile):
    """Return statements that compute ``sums``. Vectors are parts of the rows of b, which have unit strides."""
    width, vectors = tile.width, tile.columns // tile.width
    vector, number = vector_type(dtype, width), snippets.number(dtype)
    each = [(i, j) for i in range(tile.rows) for j in range(vectors)]
    pieces = [read_vector(dtype, width, "b + %d" % (j * width)) for j in range(vectors)]
    return [
        "%s %s;" % (vector, ", ".join("s%d_%d = 0" % place for place in each)),
        *rows_of_tile(tile),
        "const ga_size whole = columns == %d ? k : k_whole < k ? k_whole : k;" % tile.columns,
        "ga_size p = 0;",
        "if (alpha != 0) for (; p < whole; ++p, a += a_k, b += b_k) {",
        *["const %s y%d = %s;" % (vector, j, piece) for j, piece in enumerate(pieces)],
        *update(dtype, tile, "a"),
        "}",
        "if (alpha != 0) for (; p < k; ++p, a += a_k, b += b_k) {",
        "%s part[%d];" % (number, tile.columns),
        "for (ga_uint j = 0; j < %d; ++j)" % tile.columns,
        "part[j] = j < columns ? %s : 0;" % read(dtype, "b + j"),
        *copied_vectors(dtype, tile, "part"),
        *update(dtype, tile, "a"),
        "}",
        "%s sums[%d];" % (number, tile.rows * tile.columns),
        *["vstore%d(s%d_%d, 0, sums + %d);" % (width, i, j, i * tile.columns + j * width) for i, j in each],
    ]


def _sums_along(dtype, tile):
    """Return statements that compute ``sums``, a column. Vectors are parts of the summed axis, along which both factors
    have unit strides.
    """
    width, number, each = tile.width, snippets.number(dtype), range(tile.rows)
    vector = vector_type(dtype, width)
    products = [
        "s%d_%d = %s * y%d + s%d_%d;" % (i, u, read_vector(dtype, width, "a + r%d + p + %d" % (i, u * width)), u, i, u)
        for u in range(2)
        for i in each
    ]
    pieces = [read_vector(dtype, width, "b + p + %d" % (u * width)) for u in range(2)]
    return [
        "%s %s;" % (vector, ", ".join("s%d_%d = 0" % (i, u) for i in each for u in range(2))),
        *rows_of_tile(tile),
        "ga_size p = alpha == 0 ? k : 0;",
        "for (; p + %d <= k; p += %d) {" % (2 * width, 2 * width),
        *["const %s y%d = %s;" % (vector, u, piece) for u, piece in enumerate(pieces)],
        *products,
        "}",
        "%s sums[%d], part[%d];" % (number, tile.rows, width),
        *[
            "vstore%d(s%d_0 + s%d_1, 0, part); sums[%d] = 0; for (int l = 0; l < %d; ++l) sums[%d] += part[l];"
            % (width, i, i, i, width, i)
            for i in each
        ],
        "for (; p < k; ++p) {",
        "const %s y = %s;" % (number, read(dtype, "b + p")),
        *["sums[%d] = %s * y + sums[%d];" % (i, read(dtype, "a + r%d + p" % i), i) for i in each],
        "}",
    ]


_LOCAL = "LOCAL_MEM %(number)s xs[%(depth)d][%(rows)d + 1], ys[%(depth)d][%(columns)d + 1];"

_GROUP_OF_THREADS = """        const ga_uint thread = LID_1 * %(across)d + LID_0;
        %(number)s sums[%(high)d][%(wide)d];
        for (int i = 0; i < %(high)d; ++i)
            for (int j = 0; j < %(wide)d; ++j)
                sums[i][j] = 0;
        for (ga_size p0 = %(first)s; p0 < %(last)s; p0 += %(depth)d) {
            const ga_uint depth = %(last)s - p0 < %(depth)d ? (ga_uint)(%(last)s - p0) : %(depth)d;
            %(prepare)s
            /* Neighbouring threads copy neighbouring elements. */
            for (ga_uint at = thread; at < %(rows)d * %(depth)d; at += %(threads)d) {
                const ga_uint i = a_m == 1 ? at %% %(rows)d : at / %(depth)d, p = a_m == 1 ? at / %(rows)d : at %% %(depth)d;
                xs[p][i] = i < rows && p < depth ? %(read_a)s : 0;
            }
            for (ga_uint at = thread; at < %(columns)d * %(depth)d; at += %(threads)d) {
                const ga_uint j = %(along)s ? at / %(depth)d : at %% %(columns)d, p = %(along)s ? at %% %(depth)d : at / %(columns)d;
                ys[p][j] = j < columns && p < depth ? %(read_b)s : 0;
            }
            local_barrier();
            for (ga_uint p = 0; p < %(depth)d; ++p) {
                %(number)s x[%(high)d], y[%(wide)d];
                for (int i = 0; i < %(high)d; ++i)
                    x[i] = xs[p][LID_1 + i * %(down)d];
                for (int j = 0; j < %(wide)d; ++j)
                    y[j] = ys[p][LID_0 + j * %(across)d];
                for (int i = 0; i < %(high)d; ++i)
                    for (int j = 0; j < %(wide)d; ++j)
                        sums[i][j] = x[i] * y[j] + sums[i][j];
            }
            local_barrier();
        }
        for (int i = 0; i < %(high)d; ++i)
            for (int j = 0; j < %(wide)d; ++j) {
                const ga_uint row = LID_1 + i * %(down)d, column = LID_0 + j * %(across)d;
                if (row < rows && column < columns) {
                    %(store)s
                }
            }
"""


def group_of_threads(dtype, tile, **loader):
    """Return statements with which a group of threads computes a tile of ``rows`` times ``columns`` elements.

    Parameters
    ----------
    dtype : str
    tile : Tile
    **loader : str
        first, last: the range of the summed axis. prepare: statements before each copy of DEPTH products to local memory.
        read_a, read_b: the element of a in row ``i``, or of b in column ``j``, for the product ``p0 + p``. along: whether
        neighbouring elements of b are consecutive along the summed axis. store: the statement that stores
        ``sums[i][j]`` in row ``row`` and column ``column``.
    """
    across, down = GROUP
    return _GROUP_OF_THREADS % dict(
        loader,
        number=snippets.number(dtype),
        rows=tile.rows,
        columns=tile.columns,
        depth=DEPTH,
        across=across,
        down=down,
        threads=across * down,
        high=tile.rows // down,
        wide=tile.columns // across,
    )


def local_memory(dtype, tile):
    """Return the declaration of the local memory of `group_of_threads`."""
    return _LOCAL % dict(number=snippets.number(dtype), depth=DEPTH, rows=tile.rows, columns=tile.columns)


def _for_gpus(dtype, tile, ending):
    """Return the code of a kernel in which a group of threads computes a tile."""
    at = lambda name: "{0} + (ga_ssize)row * {0}_m + (ga_ssize)column * {0}_n".format(name)
    body = group_of_threads(
        dtype,
        tile,
        first="0",
        last="(alpha == 0 ? 0 : k)",
        prepare="",
        read_a=read(dtype, "a + (ga_ssize)i * a_m + (ga_ssize)(p0 + p) * a_k"),
        read_b=read(dtype, "b + (ga_ssize)j * b_n + (ga_ssize)(p0 + p) * b_k"),
        along="b_k == 1",
        store=_stored(dtype, ending, "sums[i][j]", at),
    )
    return _BEGIN % dict(_fields(dtype, tile, ending), local=local_memory(dtype, tile)) + body + _END


def product(dtype, tile, context, ending=None):
    """Return the kernel that computes products in tiles.

    Parameters
    ----------
    dtype : str
        One of `DTYPES`. float16 products are summed in float32.
    tile : Tile
        One of the results of `tiles`.
    context : GpuContext or None
    ending : Ending, optional
        The elementwise operation on the product.
    """
    text = (_for_processors if tile.width else _for_gpus)(dtype, tile, ending)
    types = _parameters(dtype, ending)[1]
    if ending is None:
        return DeviceKernel(text, types, context, flags_of(dtype))
    flags = flags_of(dtype, *ending.in_dtypes, ending.out_dtype) | ending.flags
    return DeviceKernel(text, types, context, flags, ending.support)


# The forms of products, as in native/product.c
DOT22, GEMM, GEMV, GER, BATCH, IN_ROW = range(6)


def product_code(kind, dtype, context, in_place, ending=None, operands=(), row=0):
    """Return the native code of a product.

    Parameters
    ----------
    kind : int
        DOT22 (inputs x, y), GEMM (c, alpha, a, b, beta), GEMV (y, alpha, a, x, beta), GER (a, alpha, x, y), BATCH, which
        is GEMM for stacks of matrices, or IN_ROW (c, x, y).
    dtype : str
        One of `DTYPES`.
    context : GpuContext
    in_place : bool
        Whether the result overwrites the first input.
    ending : Ending, optional
        An elementwise operation on the product. Then the caller ensures that the context outlives the native code
        (`contexts.context_address`).
    operands : sequence of dict
        The inputs of the operation that follow the inputs of the product: rows of native/product.c.
    row : int
        For IN_ROW, the index of the matrix of c that the product overwrites.

    Returns
    -------
    NativeCode
    """
    forms = tiles(dtype, context.vector_bytes)
    ended = _ended_kernels(context, dtype, ending) if ending else None
    large, medium, small, *along = [0 if ending else product(dtype, tile, context) for tile in forms]
    return NativeCode(
        "theano_ng.gpuarray.native.product:product",
        kind=kind,
        row=row,
        in_place=in_place,
        typecode=gpuarray.dtype_to_typecode(dtype),
        out_typecode=gpuarray.dtype_to_typecode(ending.out_dtype if ending else dtype),
        has_ending=ending is not None,
        large=large,
        medium=medium,
        small=small,
        along=along[0] if along else 0,
        ended=id(ended) if ending else 0,
        addresses=ended.addresses.ctypes.data if ending else 0,
        rows=packed([tile.rows for tile in forms[:3]]),
        columns=packed([tile.columns for tile in forms[:3]]),
        library=_use_of_library(context, ending),
        tf32=config.gpuarray.allow_tf32,
        operands=list(operands),
    )


class EndedKernels:
    """The kernels of a product with an elementwise operation. Each ending needs separate kernels, building one takes a
    fifth of a second on PoCL, and most products need only one of them. Therefore native code calls this object when it
    needs a kernel for the first time.

    Attributes
    ----------
    addresses : numpy.ndarray
        The addresses of the kernels that were built, in the order of `tiles`. 0 for the others.
    """

    def __init__(self, kernels):
        self.kernels = kernels
        self.addresses = np.zeros(len(kernels), np.int64)

    def __call__(self, number):
        """Build the kernel of a tile.

        Raises
        ------
        GpuArrayException
        """
        (kernel,) = obtain_kernels(self.kernels[number : number + 1])
        self.addresses[number] = kernel.address


@per_context
def _ended_kernels(context, dtype, ending):
    """Return the `EndedKernels` of an ending, which live as long as the context."""
    return EndedKernels([product(dtype, tile, context, ending) for tile in tiles(dtype, context.vector_bytes)])


# The products for which native code uses cuBLASLt: none, all, or large products only, as in native/product.c
NEVER, ALWAYS, IF_LARGE = range(3)


def _use_of_library(context, ending):
    if not has_library(context) or (ending and config.gpuarray.epilogue == "on"):
        return NEVER
    return IF_LARGE if ending else ALWAYS


@per_context
def has_library(context):
    """Return True if cuBLASLt computes the products on a device. If a CUDA device has no usable cuBLASLt, write the reason
    to the log, once: then the kernels of this module compute all products.
    """
    try:
        return bool(context.cublas)
    except gpuarray.UnsupportedException:
        return False
    except (gpuarray.GpuArrayException, MemoryError) as error:
        _logger.warning("%s: products of matrices run without cuBLASLt: %s", context.devname, error)
        return False


def packed(sizes):
    """Return one number with one size in each byte, the first in the lowest byte."""
    return sum(size << 8 * i for i, size in enumerate(sizes))


def kernel_samples():
    """Return samples of the kernel source code, which tests compile; see `kernels.samples`."""
    found = []
    for dtype in DTYPES:
        ending = Ending(scalar.mul, (dtype, "float32", dtype), "float64" if dtype == "float64" else "float32", 1, (2,))
        kernels = [product(dtype, tile, None, end) for tile in tiles(dtype, 0) for end in (None, ending)]
        found.append(sample("product, %s" % dtype, kernels))
    return found
