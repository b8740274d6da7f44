"""Kernels of correlations of images with kernels, and of their gradients.

All of them are one sum with different lengths, steps and strides::

    out[g, p, m, u, v] = sum of a[g, p, m, q, t] * image[g, u, q, start + p * p_step + v * v_step + t * t_step] over q and t

The indices p, v, t and the coordinates in brackets have three components; coordinates outside of the image give 0. In a
correlation, m are filters, u the images of the batch, v positions of the output, q channels and t positions (taps) in the
kernel. In a gradient with respect to the kernels, v are taps and t positions. p are positions, if each position has its own
kernel. native/correlation.c computes the arguments.

Such a sum is a product of a matrix with the rows m and a matrix with the columns (u, v), which would contain each element of
the image many times. A kernel never stores this matrix. It copies small pieces of it to private memory (processors) or local
memory (GPUs), and multiplies them like the kernels of `kernels.product`.
"""

from theano_ng.gof.native import NativeCode
from theano_ng.gpuarray.kernels import snippets
from theano_ng.gpuarray.kernels.device_kernel import DeviceKernel, flags_of, sample
from theano_ng.gpuarray.kernels.product import (
    DEPTH,
    DTYPES,
    GROUP,
    group_of_threads,
    local_memory,
    packed,
    read,
    read_vector,
    rows_of_tile,
    stored,
    tiles,
    update,
    vector_type,
    work_dtype,
)
from theano_ng.gpuarray.kernels.snippets import SIZE, SSIZE

# Sums are divided into parts to keep this number of processors busy. 0: the processors of the device
_PROCESSORS = 0

# Processors: the number of products that are summed between two copies, and the number of rows that use the same copy
COPIED, ROWS = 128, 64

# The arguments of a kernel: names and types. {} is replaced by the three components of an index. The strides are in
# elements. `parts`: the sum is divided into this number of parts, which are stored one after another, as numbers.
# `sparse`: omit the products with elements outside of the image; all columns must have the same coordinates. `b_size`: the
# number of elements of the memory of the image.
_PARAMETERS = """groups m u v{} q t{} p{} n{} parts b_size|size
sparse|uint32
start{} v_step{} t_step{} p_step{}|ssize
a_data|*
a_at|size
a_g a_m a_q a_t{} a_p{}|ssize
b_data|*
b_at|size
b_g b_u b_q b_s{}|ssize
out_data|*
out_at|size
out_part out_g out_m out_u out_v{} out_p{}|ssize"""


def _parameters():
    """Return the declarations and the types of the arguments of a kernel."""
    declarations = {"size": "ga_size ", "ssize": "ga_ssize ", "uint32": "ga_uint ", "*": "GLOBAL_MEM char *"}
    declared, types = [], []
    for line in _PARAMETERS.splitlines():
        names, kind = line.split("|")
        for name in names.split():
            for one in [name[:-2] + digit for digit in "012"] if name.endswith("{}") else [name]:
                declared.append(declarations[kind] + one)
                types.append({"size": SIZE, "ssize": SSIZE}.get(kind, kind))
    return ",\n    ".join(declared), tuple(types)


_BEGIN = """KERNEL void KERNEL_NAME(%(parameters)s)
{
    %(local)s
    const ga_size n = u * v0 * v1 * %(length)s, k = q * t0 * t1 * t2, of_part = %(of_part)s;
    const ga_size row_tiles = (m + %(rows)d - 1) / %(rows)d, column_tiles = (n + %(columns)d - 1) / %(columns)d;
    for (ga_size tile = GID_0; tile < parts * groups * p0 * p1 * p2 * row_tiles * column_tiles; tile += GDIM_0) {
        ga_size which = tile;
        const ga_size i0 = ga_split(&which, row_tiles) * %(rows)d, j0 = ga_split(&which, column_tiles) * %(columns)d;
        const ga_size part = ga_split(&which, parts), first = part * of_part, last = first + of_part < k ? first + of_part : k;
        const ga_ssize y2 = (ga_ssize)ga_split(&which, p2), y1 = (ga_ssize)ga_split(&which, p1),
                       y0 = (ga_ssize)ga_split(&which, p0), group = (ga_ssize)which;
        const ga_ssize x0 = start0 + y0 * p_step0, x1 = start1 + y1 * p_step1, x2 = start2 + y2 * p_step2;
        const ga_uint rows = m - i0 < %(rows)d ? (ga_uint)(m - i0) : %(rows)d;
        const ga_uint columns = n - j0 < %(columns)d ? (ga_uint)(n - j0) : %(columns)d;
        GLOBAL_MEM const %(element)s *a = (GLOBAL_MEM const %(element)s *)(a_data + a_at)
            + group * a_g + y0 * a_p0 + y1 * a_p1 + y2 * a_p2 + (ga_ssize)i0 * a_m;
        GLOBAL_MEM const %(element)s *b = (GLOBAL_MEM const %(element)s *)b_data;
        const ga_ssize b_begin = (ga_ssize)(b_at / sizeof(%(element)s)) + group * b_g;
        const ga_ssize out_begin = (ga_ssize)part * out_part + group * out_g + y0 * out_p0 + y1 * out_p1 + y2 * out_p2
            + (ga_ssize)i0 * out_m;
"""

_END = """    }
}
"""


def _is_outside(*coordinates):
    """Return the condition that the element with these coordinates is outside of the image."""
    return "(%s)" % " || ".join("(ga_size)(%s) >= n%d" % (c, d) for d, c in enumerate(coordinates))


def _place(prefix, *indices):
    """Return the sum of indices times strides, ``<index> * <prefix><digit>``."""
    return " + ".join("%s * %s%d" % (index, prefix, d) for d, index in enumerate(indices))


def _store(dtype, value, place):
    """Return the statement that stores a sum at the index `place` of the result. Parts of sums are stored as numbers."""
    at = "(GLOBAL_MEM %s *)(out_data + out_at) + " + place
    whole = stored(dtype, value, at % snippets.element(dtype))
    if dtype != "float16":
        return whole
    return "if (parts > 1) { %s } else { %s }" % (stored("float32", value, at % "ga_float"), whole)


# ---- processors ----

# A kernel copies pieces of the matrix with the columns (u, v) in one of two ways.
# - In general, it copies a row of the matrix for each product. The columns are consecutive.
# - If `sliding`, it copies the parts of the lines of the image that the products need. Neighbouring taps read the same copy
#   from different places. Each line of results begins with a new vector, so this way is not used for short lines.
_SLIDING = """const ga_size steps = (ga_size)(t_step2 < 0 ? -t_step2 : t_step2), taps = t1 * t2;
    const ga_size of_line = %(width)d + (t2 - 1) * steps, padded = (v2 + %(width)d - 1) / %(width)d * %(width)d;
    /* The number of places from which a vector of neighbouring elements of the image can be read */
    const ga_size readable = v_step2 == 1 && b_s2 == 1 && b_size >= %(width)d ? b_size - %(width)d + 1 : 0;
    const int sliding = readable > 0 && !sparse && t2 > 1 && taps <= %(copied)d && 3 * v2 >= 2 * padded
        && t2 * steps < %(apart)d && t1 * of_line + %(width)d <= %(apart)d;
    const ga_uint apart = sliding ? %(apart)d : %(width)d; /* distance between the copies of two vectors of columns */
    ga_ssize a_tap[%(copied)d];
    ga_uint where_tap[%(copied)d]; /* places in the copy of the lines of one (q, t0) */
    for (ga_uint l = 0; sliding && l < taps; ++l) {
        const ga_ssize e1 = (ga_ssize)(l / t2), e2 = (ga_ssize)(l %% t2);
        a_tap[l] = e1 * a_t1 + e2 * a_t2;
        where_tap[l] = (ga_uint)(e1 * (ga_ssize)of_line + (t_step2 < 0 ? (ga_ssize)t2 - 1 - e2 : e2) * (ga_ssize)steps);
    }
    %(lane)s masks[%(masks)d];
    for (int l = 0; l < %(masks)d; ++l)
        masks[l] = -(l >= %(width)d && l < 2 * %(width)d);"""

# The columns of a tile in pieces, each at most as long as a vector: columns that belong to one line of the image. For each
# piece: the first column, the number of columns, and the coordinates and the index of the first element for the first tap.
_PIECES = """        ga_ssize from[%(columns)d], c0[%(columns)d], c1[%(columns)d], c2[%(columns)d], place[%(columns)d];
        ga_uint column[%(columns)d], length[%(columns)d], pieces = 0;
        const ga_size of_row = sliding ? padded : v2;
        ga_size rest = j0, w2 = ga_split(&rest, of_row), w1 = ga_split(&rest, v1), w0 = ga_split(&rest, v0);
        for (ga_uint j = 0; j < columns; ++pieces) {
            ga_uint run = columns - j < %(width)d ? columns - j : %(width)d;
            run = v2 - w2 < run ? (ga_uint)(v2 - w2) : run;
            column[pieces] = j;
            length[pieces] = run;
            c0[pieces] = x0 + (ga_ssize)w0 * v_step0;
            c1[pieces] = x1 + (ga_ssize)w1 * v_step1;
            c2[pieces] = x2 + (ga_ssize)w2 * v_step2;
            from[pieces] = b_begin + (ga_ssize)rest * b_u + %(first)s;
            place[pieces] = out_begin + (ga_ssize)rest * out_u + %(result)s;
            run = sliding ? %(width)d : run;
            j += run;
            w2 += run;
            if (w2 == of_row) {
                w2 = 0;
                if (++w1 == v1) {
                    w1 = 0;
                    if (++w0 == v0) {
                        w0 = 0;
                        ++rest;
                    }
                }
            }
        }
"""

# Copy a vector of the image to `line`, or only `count` elements if memory behind the image would be read. `at`: the index of
# the first element. `x`: its last coordinate. `inside`: whether the other coordinates are inside of the image. The first
# element has `places` coordinates for which all elements that are needed are inside of the image.
_COPY_VECTOR = """if ((ga_size)at < readable) {
                        const %(vector)s y = %(read_vector)s;
                        if (inside && (ga_size)x < places)
                            vstore%(width)d(y, 0, line);
                        else {
                            /* The lanes outside of the image, before `first_lane` and from `end_lane` on, become 0. */
                            const ga_ssize first_lane = min(max(-x, (ga_ssize)0), (ga_ssize)%(width)d);
                            const ga_ssize end_lane = min(max(inside ? (ga_ssize)n2 - x : 0, (ga_ssize)0), (ga_ssize)%(width)d);
                            vstore%(width)d(as_%(vector)s(as_%(mask)s(y) & vload%(width)d(0, masks + %(width)d - first_lane)
                                & vload%(width)d(0, masks + 2 * %(width)d - end_lane)), 0, line);
                        }
                    }
                    else
                        for (ga_uint j = 0; j < count; ++j)
                            line[j] = inside && (ga_size)(x + j * v_step2) < n2 ? %(read)s : 0;"""

# The next products, and the lines of the image that they need. `where`: the place of the copy for a product.
_COPY_LINES = """if (sliding)
                for (ga_uint used = 0; p < last && depth + taps <= %(copied)d && used + t1 * of_line + %(width)d <= %(apart)d;
                     p += taps) {
                    ga_size outer = p / taps;
                    const ga_ssize e0 = (ga_ssize)ga_split(&outer, t0), z = e0 * t_step0;
                    const ga_ssize a_begin = (ga_ssize)outer * a_q + e0 * a_t0;
                    for (ga_uint l = 0; l < taps; ++l, ++depth) {
                        a_place[depth] = a_begin + a_tap[l];
                        where[depth] = used + where_tap[l];
                    }
                    for (ga_ssize e1 = 0; e1 < (ga_ssize)t1; ++e1, used += of_line) {
                        for (ga_uint s = 0; s < pieces; ++s) {
                            const int inside = (ga_size)(c0[s] + z) < n0 && (ga_size)(c1[s] + e1 * t_step1) < n1;
                            const ga_ssize before = t_step2 < 0 ? ((ga_ssize)t2 - 1) * t_step2 : 0;
                            const ga_ssize count = %(width)d;
                            const ga_size places = n2 < %(width)d ? 0 : n2 - %(width)d + 1;
                            ga_ssize at = from[s] + before + (ga_ssize)outer * b_q + z * b_s0 + e1 * t_step1 * b_s1;
                            ga_ssize x = c2[s] + before;
                            %(number)s *line = copy + s * apart + used;
                            for (ga_size l = 0; l < of_line; l += %(width)d, at += %(width)d, x += %(width)d, line += %(width)d) {
                                %(copy_vector)s
                            }
                        }
                    }
                }
            else """

# The next products, without those that are omitted, and the rows of the matrix. A vector is copied whole, even if the piece
# is shorter: the next piece overwrites the elements behind it.
_COPY_ROWS = """{
                ga_size outer = p, e2 = ga_split(&outer, t2), e1 = ga_split(&outer, t1), e0 = ga_split(&outer, t0);
                for (; p < last && depth < %(copied)d; ++p) {
                    d0[depth] = (ga_ssize)e0 * t_step0;
                    d1[depth] = (ga_ssize)e1 * t_step1;
                    d2[depth] = (ga_ssize)e2 * t_step2;
                    shift[depth] = (ga_ssize)outer * b_q + %(shift)s;
                    a_place[depth] = (ga_ssize)outer * a_q + %(a_place)s;
                    where[depth] = depth * %(pitch)d;
                    if (!(sparse && %(nothing)s))
                        ++depth;
                    if (++e2 == t2) {
                        e2 = 0;
                        if (++e1 == t1) {
                            e1 = 0;
                            if (++e0 == t0) {
                                e0 = 0;
                                ++outer;
                            }
                        }
                    }
                }
                for (ga_uint s = 0; s < pieces; ++s) {
                    const ga_ssize line0 = c0[s], line1 = c1[s], begin = c2[s], source = from[s], count = length[s];
                    const ga_size places = (ga_ssize)n2 < count ? 0 : n2 - count + 1;
                    %(number)s *line = copy + column[s];
                    for (ga_uint l = 0; l < depth; ++l, line += %(pitch)d) {
                        const ga_ssize at = source + shift[l], x = begin + d2[l];
                        const int inside = ((ga_size)(line0 + d0[l]) < n0) & ((ga_size)(line1 + d1[l]) < n1);
                        %(copy_vector)s
                    }
                }
            }
"""


def _products(dtype, tile):
    """Return statements that add `depth` products to ``sums``, for the rows from ``r`` on, `tile.rows` at a time."""
    width, number = tile.width, snippets.number(dtype)
    each = [(i, j) for i in range(tile.rows) for j in range(tile.columns // width)]
    places = ["total + %d" % (i * tile.columns + j * width) for i, j in each]
    return [
        "const ga_uint left = rows - r; %s *total = sums + r * %d;" % (number, tile.columns),
        "GLOBAL_MEM const %s *row = a + (ga_ssize)r * a_m;" % snippets.element(dtype),
        *rows_of_tile(tile, "left"),
        *[
            "%s s%d_%d = vload%d(0, %s);" % (vector_type(dtype, width), i, j, width, at)
            for (i, j), at in zip(each, places)
        ],
        "for (ga_uint l = 0; l < depth; ++l) {",
        *[
            "const %s y%d = vload%d(0, copy + where[l] + %d * apart);" % (vector_type(dtype, width), j, width, j)
            for j in range(tile.columns // width)
        ],
        *update(dtype, tile, "row + a_place[l]"),
        "}",
        *["vstore%d(s%d_%d, 0, %s);" % (width, i, j, at) for (i, j), at in zip(each, places)],
    ]


def _rows_at_a_time(dtype, tile):
    """Return a loop over the next rows, `tile.rows` at a time, while it is faster than a loop with fewer rows at a time."""
    least = (tile.rows + 1) // 2
    return [
        "for (; r + %d < rows; r += %d) {" % (least if tile.rows > 1 else 0, tile.rows),
        *_products(dtype, tile),
        "}",
    ]


def _for_processors(dtype, tile):
    """Return the code of a kernel in which one thread computes ROWS rows of a tile."""
    heights = [height for height in (8, 4, 1) if height <= tile.rows]
    number, element, width = snippets.number(dtype), snippets.element(dtype), tile.width
    lane = "long" if number == "ga_double" else "int"
    pitch = tile.columns + width  # a vector may reach beyond the last column
    size = COPIED * pitch
    fields = dict(
        parameters=_parameters()[0],
        length="(sliding ? padded : v2)",
        of_part="sliding ? (q * t0 + parts - 1) / parts * taps : (k + parts - 1) / parts",
        rows=ROWS,
        columns=tile.columns,
        pitch=pitch,
        apart=size // (tile.columns // width),
        width=width,
        masks=3 * width,
        element=element,
        number=number,
        vector=vector_type(dtype, width),
        lane=lane,
        mask="%s%d" % (lane, width),
        copied=COPIED,
        first=_place("b_s", *["%s[pieces]" % c for c in ("c0", "c1", "c2")]),
        result=_place("out_v", *["(ga_ssize)%s" % w for w in ("w0", "w1", "w2")]),
        nothing=_is_outside(*["c%d[0] + d%d[depth]" % (d, d) for d in range(3)]),
        shift=_place("b_s", *["d%d[depth]" % d for d in range(3)]),
        a_place=_place("a_t", *["(ga_ssize)%s" % e for e in ("e0", "e1", "e2")]),
        read_vector=read_vector(dtype, width, "b + at"),
        read=read(dtype, "b + at + j * v_step2 * b_s2"),
    )
    fields["local"] = _SLIDING % fields
    fields["copy_vector"] = _COPY_VECTOR % fields
    memory = "%s sums[%d], copy[%d]; ga_uint where[%d]; ga_ssize a_place[%d], d0[%d], d1[%d], d2[%d], shift[%d];" % (
        number,
        ROWS * tile.columns,
        size,
        *[COPIED] * 6,
    )
    return "\n".join(
        [
            _BEGIN % fields,
            _PIECES % fields,
            memory,
            "for (ga_uint s = 0; s < (rows + %d) / %d * %d; ++s) sums[s] = 0;"
            % (tile.rows - 1, tile.rows, tile.rows * tile.columns),
            "for (ga_size p = first; p < last;) {",
            "ga_uint depth = 0;",
            _COPY_LINES % fields,
            _COPY_ROWS % fields,
            "ga_uint r = 0;",
            *[line for height in heights for line in _rows_at_a_time(dtype, tile._replace(rows=height))],
            "}",
            "for (ga_uint i = 0; i < rows; ++i) for (ga_uint s = 0; s < pieces; ++s) {",
            "const ga_ssize begin = place[s] + (ga_ssize)i * out_m; %s *total = sums + i * %d + column[s];"
            % (number, tile.columns),
            "if (out_v2 == 1) for (ga_uint l = 0; l < length[s]; ++l) {",
            _store(dtype, "total[l]", "begin + l"),
            "} else for (ga_uint l = 0; l < length[s]; ++l) {",
            _store(dtype, "total[l]", "begin + l * out_v2"),
            "}",
            "}",
            _END,
        ]
    )


# ---- GPUs ----

_COLUMN = """        /* The column that this thread copies */
        const ga_uint mine = (LID_1 * %(across)d + LID_0) %% %(columns)d;
        ga_size rest = j0 + mine;
        const ga_ssize w2 = (ga_ssize)ga_split(&rest, v2), w1 = (ga_ssize)ga_split(&rest, v1), w0 = (ga_ssize)ga_split(&rest, v0);
        const ga_ssize c0 = x0 + w0 * v_step0, c1 = x1 + w1 * v_step1, c2 = x2 + w2 * v_step2;
        const ga_ssize from = b_begin + (ga_ssize)rest * b_u + %(first)s;
        local_barrier();
        place[mine] = out_begin + (ga_ssize)rest * out_u + %(result)s;
        local_barrier();
"""

_PREPARE = """if (thread < %(depth)d) {
                ga_size outer = p0 + thread;
                const ga_ssize e2 = (ga_ssize)ga_split(&outer, t2), e1 = (ga_ssize)ga_split(&outer, t1),
                               e0 = (ga_ssize)ga_split(&outer, t0);
                d0[thread] = e0 * t_step0;
                d1[thread] = e1 * t_step1;
                d2[thread] = e2 * t_step2;
                shift[thread] = (ga_ssize)outer * b_q + %(shift)s;
                a_place[thread] = (ga_ssize)outer * a_q + %(a_place)s;
            }
            local_barrier();"""


def _for_gpus(dtype, tile):
    """Return the code of a kernel in which a group of threads computes a tile."""
    here = ["d%d[p]" % d for d in range(3)]
    local = "%s LOCAL_MEM ga_ssize place[%d], d0[%d], d1[%d], d2[%d], shift[%d], a_place[%d];" % (
        local_memory(dtype, tile),
        tile.columns,
        *[DEPTH] * 5,
    )
    fields = dict(
        parameters=_parameters()[0],
        local=local,
        length="v2",
        of_part="(k + parts - 1) / parts",
        rows=tile.rows,
        columns=tile.columns,
        element=snippets.element(dtype),
        across=GROUP[0],
        depth=DEPTH,
        first=_place("b_s", "c0", "c1", "c2"),
        result=_place("out_v", "w0", "w1", "w2"),
        shift=_place("b_s", *["d%d[thread]" % d for d in range(3)]),
        a_place=_place("a_t", "e0", "e1", "e2"),
    )
    inside = "%s ? 0 : " % _is_outside(*["c%d + %s" % (d, text) for d, text in enumerate(here)])
    omitted = "sparse && %s ? 0 : " % _is_outside(*["x%d + %s" % (d, text) for d, text in enumerate(here)])
    body = group_of_threads(
        dtype,
        tile,
        first="first",
        last="last",
        prepare=_PREPARE % fields,
        read_a="(%s)" % (omitted + read(dtype, "a + (ga_ssize)i * a_m + a_place[p]")),
        read_b="(%s)" % (inside + read(dtype, "b + from + shift[p]")),
        along="0",
        store=_store(dtype, "sums[i][j]", "place[column] + (ga_ssize)row * out_m"),
    )
    return _BEGIN % fields + _COLUMN % fields + body + _END


def correlation(dtype, tile, context):
    """Return the kernel that computes correlations in tiles.

    Parameters
    ----------
    dtype : str
        One of `DTYPES`. float16 products are summed in float32.
    tile : Tile
        One of the first three results of `tiles`.
    context : GpuContext or None
    """
    text = _for_processors(dtype, tile) if tile.width else _for_gpus(dtype, tile)
    return DeviceKernel(text, _parameters()[1], context, flags_of(dtype))


_SUM = """KERNEL void KERNEL_NAME(ga_size n, ga_size parts, GLOBAL_MEM char *x, ga_size x_at, GLOBAL_MEM char *out, ga_size out_at)
{
    GLOBAL_MEM const %(number)s *part = (GLOBAL_MEM const %(number)s *)(x + x_at);
    %(every)s {
        %(number)s total = 0;
        for (ga_size k = 0; k < parts; ++k)
            total += part[k * n + i];
        %(store)s
    }
}
"""


def sum_of_parts(dtype, context):
    """Return the kernel that adds the parts of sums."""
    source = _SUM % dict(
        number=snippets.number(dtype),
        every=snippets.GRID_STRIDE_LOOP,
        store=snippets.store(dtype, "out + out_at + i * sizeof(%s)" % snippets.element(dtype), "total"),
    )
    return DeviceKernel(source, (SIZE, SIZE, "*", SIZE, "*", SIZE), context, flags_of(dtype, work_dtype(dtype)))


def correlation_code(dtype, typecode, context, **options):
    """Return the native code of a correlation or of one of its gradients.

    Parameters
    ----------
    dtype : str
        One of `DTYPES`.
    typecode : int
    context : GpuContext
    **options
        kind, n_dims, pads, stride, dilation, groups, unshared: see native/convolution/conv_shapes.h.
    """
    forms = tiles(dtype, context.vector_bytes)[:3]
    on_gpu = not forms[0].width
    if not on_gpu:
        forms = forms[:1] * 3
    large, medium, small = [correlation(dtype, tile, context) for tile in forms]
    return NativeCode(
        "theano_ng.gpuarray.native.correlation:correlate",
        typecode=typecode,
        large=large,
        medium=medium,
        small=small,
        rows=packed([tile.rows if on_gpu else ROWS for tile in forms]),
        columns=packed([tile.columns for tile in forms]),
        on_gpu=on_gpu,
        processors=_PROCESSORS,
        sum_of_parts=sum_of_parts(dtype, context),
        **options,
    )


def kernel_samples():
    """Return samples of the kernel source code, which tests compile; see `kernels.samples`."""
    return [
        sample(
            "correlation, %s" % dtype,
            [*[correlation(dtype, tile, None) for tile in tiles(dtype, 0)], sum_of_parts(dtype, None)],
        )
        for dtype in DTYPES
    ]
