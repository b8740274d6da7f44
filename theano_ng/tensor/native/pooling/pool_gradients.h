/* Gradients of pooling, for one floating-point type; pool.c includes this file once for each type, after pool_planes.h.
 *
 * The values of windows (maxima, gradients) are spread over a line: for stride s, the value of each window becomes a
 * block of s equal entries, at the positions of the first s elements of the window. In layer l
 * (pool_windows.h), element i belongs to window (i + pad) / s - l. A spread line that is shifted by l blocks has, at
 * each element, the value of the element's window in layer l, so all columns can be computed in parallel. In a spread
 * line, `before` entries precede the entry of element 0. Entries without a window are zero. */
/* Return g if the element x equals the maximum, else 0. g is passed by value, because a conditional load would prevent
 * vectorization. */
INLINE REAL NAME(at)(REAL x, REAL maximum, REAL g)
{
    return x == maximum ? g : 0;
}

INLINE void NAME(spread_by)(npy_intp count, const npy_intp stride, const REAL *restrict from, REAL *restrict to)
{
    for (npy_intp o = 0; o < count; ++o)
        for (npy_intp r = 0; r < stride; ++r)
            to[o * stride + r] = from[o];
}

static void NAME(spread)(const Windows *w, const REAL *from, REAL *line)
{
    const Axis *a = last_axis(w);
    REAL *to = line + w->before - a->pad;
    if (a->stride == 1)
        memcpy(to, from, (size_t)a->out * sizeof(REAL));
    else if (a->stride == 2)
        NAME(spread_by)(a->out, 2, from, to);
    else if (a->stride == 3)
        NAME(spread_by)(a->out, 3, from, to);
    else
        NAME(spread_by)(a->out, a->stride, from, to);
}

/* Spread values over the first `rest` entries of each block; the other entries are zero already. */
static void NAME(spread_rest)(const Windows *w, const REAL *restrict from, REAL *restrict line)
{
    const Axis *a = last_axis(w);
    npy_intp stride = a->stride;
    REAL *to = line + w->before - a->pad;
    if (stride == 2 && w->rest == 1)
        for (npy_intp o = 0; o < a->out; ++o) {
            to[2 * o] = from[o];
            to[2 * o + 1] = 0;
        }
    else
        for (npy_intp o = 0; o < a->out; ++o)
            for (npy_intp r = 0; r < w->rest; ++r)
                to[o * stride + r] = from[o];
}

/* Compute the gradients of the elements of a line: each element gets the gradients of the windows whose maximum it
 * equals. The values of layer l are `stride` entries before the values of layer l - 1. */
INLINE void NAME(gradient_at_maxima)(const Windows *w, const int add, const REAL *restrict x, const REAL *maxima,
                                     const REAL *g, const REAL *g_rest, REAL *restrict gx)
{
    npy_intp n = last_axis(w)->n, s = last_axis(w)->stride;
    const REAL *z = maxima + w->before;
    g += w->before, g_rest += w->before;
    if (w->layers == 2) {
        const REAL *z2 = z - s, *g2 = g_rest - s;
        for (npy_intp i = 0; i < n; ++i) {
            REAL total = NAME(at)(x[i], z[i], g[i]) + NAME(at)(x[i], z2[i], g2[i]);
            gx[i] = add ? gx[i] + total : total;
        }
    }
    else if (w->layers == 3) {
        const REAL *z2 = z - s, *g2 = g - s, *z3 = z2 - s, *g3 = g_rest - 2 * s;
        for (npy_intp i = 0; i < n; ++i) {
            REAL total = NAME(at)(x[i], z[i], g[i]) + NAME(at)(x[i], z2[i], g2[i]) + NAME(at)(x[i], z3[i], g3[i]);
            gx[i] = add ? gx[i] + total : total;
        }
    }
    else
        for (npy_intp l = 0; l < w->layers; ++l) {
            const REAL *zl = z - l * s, *gl = (l == w->layers - 1 ? g_rest : g) - l * s;
            if (l == 0 && !add)
                for (npy_intp i = 0; i < n; ++i)
                    gx[i] = NAME(at)(x[i], zl[i], gl[i]);
            else
                for (npy_intp i = 0; i < n; ++i)
                    gx[i] += NAME(at)(x[i], zl[i], gl[i]);
        }
}

/* A spread line of the output: maxima, gradients, and gradients for the last layer, with layer_length entries each. */
typedef struct {
    REAL *maxima, *g, *g_rest;
} NAME(Spread);

INLINE NAME(Spread) NAME(spread_in)(const Windows *w, REAL *memory)
{
    npy_intp length = layer_length(w);
    REAL *g = memory + length;
    return (NAME(Spread)){memory, g, w->rest == last_axis(w)->stride ? g : g + length};
}

INLINE void NAME(spread_all)(const Windows *w, const REAL *z, const REAL *gz, const NAME(Spread) * s)
{
    NAME(spread)(w, z, s->maxima);
    if (s->g != s->g_rest)
        NAME(spread_rest)(w, gz, s->g_rest);
    if (w->layers > 1 || s->g == s->g_rest)
        NAME(spread)(w, gz, s->g);
}

/* Compute the gradients of a plane with overlapping windows, one image line at a time. The spread output lines that are
 * still needed are kept. The next output line is spread in advance: a read of data that has just been written in pieces
 * of another size would have to wait. */
INLINE void NAME(max_grad_by_lines)(const Windows *w, const REAL *x, const REAL *z, const REAL *gz, REAL *gx,
                                    REAL *memory)
{
    const Axis *a = &w->axes[0];
    npy_intp n = last_axis(w)->n, out = last_axis(w)->out, length = layer_length(w), ready = 0, low = 0, high = 0;
    for (npy_intp y = 0; y < a->n; ++y, x += n, gx += n) {
        while (high < a->out && a->first[high] <= y)
            ++high;
        while (low < high && a->last[low] <= y)
            ++low;
        for (; ready <= high && ready < a->out; ++ready) {
            NAME(Spread) line = NAME(spread_in)(w, memory + ready % w->kept * 3 * length);
            NAME(spread_all)(w, z + ready * out, gz + ready * out, &line);
        }
        memset(gx, 0, (size_t)n * sizeof(REAL));
        for (npy_intp o = low; o < high; ++o) {
            NAME(Spread) line = NAME(spread_in)(w, memory + o % w->kept * 3 * length);
            NAME(gradient_at_maxima)(w, 1, x, line.maxima, line.g, line.g_rest, gx);
        }
    }
}

/* Compute the gradients in the columns of a line that are left over: those outside the pairs of columns that
 * pool_stride2.h handles. The pairs pairs[0] to pairs[1] - 1 are inside the image. */
INLINE void NAME(single_columns)(const Axis *a, const int window, const int two, const npy_intp *pairs, const REAL *x,
                                 const REAL *z, const REAL *g, const REAL *z2, const REAL *g2, REAL *gx)
{
    npy_intp from = 2 * pairs[0] - a->pad, to = 2 * pairs[1] - a->pad;
    for (npy_intp i = from > 0 ? 0 : to; i < a->n; ++i) {
        if (i == from)
            i = to;
        if (i == a->n)
            break;
        npy_intp o = (i + a->pad) / 2, shared = window == 3 && (i + a->pad) % 2 == 0 && o > 0;
        REAL total = 0, second = 0;
        if (o < a->out) {
            total += NAME(at)(x[i], z[o], g[o]);
            second += two ? NAME(at)(x[i], z2[o], g2[o]) : 0;
        }
        if (shared) {
            total += NAME(at)(x[i], z[o - 1], g[o - 1]);
            second += two ? NAME(at)(x[i], z2[o - 1], g2[o - 1]) : 0;
        }
        gx[i] = total + second;
    }
}

/* Compute the gradients of a plane with windows of width 2 and stride 2, if each image line belongs to exactly one
 * window. */
INLINE void NAME(max_grad_apart)(const Windows *w, const int lanes, const npy_intp *pairs, const REAL *x, const REAL *z,
                                 const REAL *gz, REAL *gx, npy_intp *rows)
{
    const Axis *a = last_axis(w);
    npy_intp index[NPY_MAXDIMS], begin = pairs[0], count = pairs[1] - begin, from = 2 * begin - a->pad, n = a->n;
    int whole = 2 * count == n;
    first_row(w, index);
    for (npy_intp r = 0; r < w->out_rows; ++r, z += a->out, gz += a->out, next_row(w, index)) {
        npy_intp lines = window_rows(w, index, rows);
        for (npy_intp k = 0; k < lines;) {
            const REAL *xk = x + rows[k] + from;
            REAL *to = gx + rows[k] + from;
            int two = k + 1 < lines && rows[k + 1] == rows[k] + n;
            if (lanes == MAX_LANES && two)
                NAME(most_gradients_apart)(count, 2, n, xk, z + begin, gz + begin, to);
            else if (lanes == MAX_LANES)
                NAME(most_gradients_apart)(count, 1, n, xk, z + begin, gz + begin, to);
            else
                NAME(half_gradients_apart)(count, two + 1, n, xk, z + begin, gz + begin, to);
            k += two + 1;
        }
        if (!whole)
            for (npy_intp k = 0; k < lines; ++k)
                NAME(single_columns)(a, 2, 0, pairs, x + rows[k], z, gz, z, gz, gx + rows[k]);
    }
}

/* Compute the gradients of a line whose windows have stride 2. If `two`, windows of two output lines contain the line,
 * otherwise windows of one output line. */
INLINE void NAME(line_by_twos)(const Axis *a, const int lanes, const int window, const int two, const npy_intp *pairs,
                               const REAL *x, const REAL *z, const REAL *g, const REAL *z2, const REAL *g2, REAL *gx)
{
    npy_intp begin = pairs[0], count = pairs[1] - begin, from = 2 * begin - a->pad;
    if (lanes == MAX_LANES)
        NAME(most_gradients)(count, window, two, x + from, z + begin, g + begin, z2 + begin, g2 + begin, gx + from);
    else
        NAME(half_gradients)(count, window, two, x + from, z + begin, g + begin, z2 + begin, g2 + begin, gx + from);
    if (2 * count < a->n)
        NAME(single_columns)(a, window, two, pairs, x, z, g, z2, g2, gx);
}

INLINE void NAME(copy_line)(npy_intp n, const int lanes, const REAL *from, REAL *to)
{
    if (lanes == MAX_LANES && n >= MAX_LANES)
        NAME(most_copy)(n, from, to);
    else if (lanes < MAX_LANES && n >= MAX_LANES / 2)
        NAME(half_copy)(n, from, to);
    else
        for (npy_intp i = 0; i < n; ++i)
            to[i] = from[i];
}

/* Compute the gradients of a plane with windows of stride 2, one image line at a time. The output lines that are still
 * needed are kept, with a zero on each side for windows that overlap. The next line is copied in advance: a read of
 * data that has just been written in pieces of another size would have to wait. */
INLINE void NAME(max_grad_overlapping)(const Windows *w, const int lanes, const int window, const npy_intp *pairs,
                                       const REAL *x, const REAL *z, const REAL *gz, REAL *gx, REAL *memory)
{
    const Axis *a = &w->axes[0], *b = last_axis(w);
    npy_intp n = b->n, out = b->out, length = out + 2, last = w->kept > 1 ? 3 : 1, ready = 0, low = 0, high = 0;
    for (npy_intp y = 0; y < a->n; ++y, x += n, gx += n) {
        while (high < a->out && a->first[high] <= y)
            ++high;
        while (low < high && a->last[low] <= y)
            ++low;
        for (; ready <= high && ready < a->out; ++ready) {
            REAL *line = memory + (ready & last) * 2 * length + 1;
            NAME(copy_line)(out, lanes, z + ready * out, line);
            NAME(copy_line)(out, lanes, gz + ready * out, line + length);
        }
        const REAL *one = memory + (low & last) * 2 * length + 1, *two = memory + ((low + 1) & last) * 2 * length + 1;
        if (low == high)
            memset(gx, 0, (size_t)n * sizeof(REAL));
        else if (high - low == 1)
            NAME(line_by_twos)(b, lanes, window, 0, pairs, x, one, one + length, one, one + length, gx);
        else
            NAME(line_by_twos)(b, lanes, window, 1, pairs, x, one, one + length, two, two + length, gx);
    }
}

static void NAME(find_pairs)(const Windows *w, npy_intp *pairs)
{
    const Axis *a = last_axis(w);
    npy_intp most = a->window == 3 ? a->out + 1 : a->out;
    pairs[0] = (a->pad + 1) / 2;
    pairs[1] = (a->n + a->pad) / 2 < most ? (a->n + a->pad) / 2 : most;
}

static int NAME(is_apart)(const Windows *w)
{
    return w->all_rows_once && last_axis(w)->window == 2;
}

/* Compute the gradients of the planes begin..end, for windows with stride 2. scratch: as for max_grad. */
ONLY_V3 static void NAME(max_grad_by_twos)(const Windows *w, const PoolArrays *arrays, npy_intp begin, npy_intp end,
                                           npy_intp *rows, char *scratch)
{
    const Axis *a = last_axis(w);
    REAL *memory = (REAL *)scratch;
    npy_intp pairs[2];
    NAME(find_pairs)(w, pairs);
    int lanes = NAME(lanes)(a, pairs[1] - pairs[0]), apart = NAME(is_apart)(w);
    memset(scratch, 0, (size_t)w->kept * 3 * (size_t)layer_length(w) * sizeof(REAL));
    for (npy_intp plane = begin; plane < end; ++plane) {
        const REAL *x = (const REAL *)arrays->x + plane * w->in_size;
        const REAL *z = (const REAL *)arrays->maxima + plane * w->out_size,
                   *gz = (const REAL *)arrays->gradient + plane * w->out_size;
        REAL *gx = (REAL *)arrays->result + plane * w->in_size;
        if (apart && lanes == MAX_LANES)
            NAME(max_grad_apart)(w, MAX_LANES, pairs, x, z, gz, gx, rows);
        else if (apart)
            NAME(max_grad_apart)(w, MAX_LANES / 2, pairs, x, z, gz, gx, rows);
        else if (a->window == 2 && lanes == MAX_LANES)
            NAME(max_grad_overlapping)(w, MAX_LANES, 2, pairs, x, z, gz, gx, memory);
        else if (a->window == 2)
            NAME(max_grad_overlapping)(w, MAX_LANES / 2, 2, pairs, x, z, gz, gx, memory);
        else if (lanes == MAX_LANES)
            NAME(max_grad_overlapping)(w, MAX_LANES, 3, pairs, x, z, gz, gx, memory);
        else
            NAME(max_grad_overlapping)(w, MAX_LANES / 2, 3, pairs, x, z, gz, gx, memory);
    }
}

/* Compute the gradients of the planes begin..end. scratch: three lines of layer_length elements for each line that is
 * kept. */
VECTORISED_V3 static void NAME(max_grad)(const Windows *w, const PoolArrays *arrays, npy_intp begin, npy_intp end,
                                         npy_intp *rows, char *scratch)
{
    const Axis *a = last_axis(w);
    npy_intp out = a->out;
    REAL *memory = (REAL *)scratch;
    NAME(Spread) line = NAME(spread_in)(w, memory);
    memset(scratch, 0, (size_t)w->kept * 3 * (size_t)layer_length(w) * sizeof(REAL));
    for (npy_intp plane = begin; plane < end; ++plane) {
        const REAL *x = (const REAL *)arrays->x + plane * w->in_size;
        const REAL *z = (const REAL *)arrays->maxima + plane * w->out_size,
                   *gz = (const REAL *)arrays->gradient + plane * w->out_size;
        REAL *gx = (REAL *)arrays->result + plane * w->in_size;
        npy_intp index[NPY_MAXDIMS];
        first_row(w, index);
        if (w->kept > 1) {
            NAME(max_grad_by_lines)(w, x, z, gz, gx, memory);
            continue;
        }
        if (!w->all_rows_once || w->direct)
            memset(gx, 0, (size_t)w->in_size * sizeof(REAL));
        for (npy_intp r = 0; r < w->out_rows; ++r, z += out, gz += out, next_row(w, index)) {
            npy_intp count = window_rows(w, index, rows);
            if (w->direct) {
                for (npy_intp o = 0; o < out; ++o)
                    for (npy_intp k = 0; k < count; ++k)
                        for (npy_intp i = a->first[o]; i < a->last[o]; ++i)
                            gx[rows[k] + i] += x[rows[k] + i] == z[o] ? gz[o] : 0;
                continue;
            }
            NAME(spread_all)(w, z, gz, &line);
            if (w->all_rows_once)
                for (npy_intp k = 0; k < count; ++k)
                    NAME(gradient_at_maxima)(w, 0, x + rows[k], line.maxima, line.g, line.g_rest, gx + rows[k]);
            else
                for (npy_intp k = 0; k < count; ++k)
                    NAME(gradient_at_maxima)(w, 1, x + rows[k], line.maxima, line.g, line.g_rest, gx + rows[k]);
        }
    }
}

static planes_fn NAME(max_grad_for)(const Windows *w)
{
    npy_intp pairs[2];
    NAME(find_pairs)(w, pairs);
    if (w->direct || !NAME(lanes)(last_axis(w), pairs[1] - pairs[0]))
        return NAME(max_grad);
    if (NAME(is_apart)(w) || (w->nd == 2 && w->axes[0].window <= 2 * w->axes[0].stride))
        return NAME(max_grad_by_twos);
    return NAME(max_grad);
}

/* Return the gradient of an image line, given the gradients `shares` of an output line of sums or averages. */
INLINE const REAL *NAME(shares_of_line)(const Windows *w, const REAL *shares, REAL *g, REAL *g_rest,
                                        REAL *restrict total)
{
    const Axis *a = last_axis(w);
    npy_intp n = a->n, s = a->stride;
    if (w->direct) {
        memset(total, 0, (size_t)n * sizeof(REAL));
        for (npy_intp o = 0; o < a->out; ++o)
            for (npy_intp i = a->first[o]; i < a->last[o]; ++i)
                total[i] += shares[o];
        return total;
    }
    if (g != g_rest)
        NAME(spread_rest)(w, shares, g_rest);
    if (w->layers > 1 || g == g_rest)
        NAME(spread)(w, shares, g);
    const REAL *first = g + w->before, *last = g_rest + w->before - (w->layers - 1) * s;
    if (w->layers == 1)
        return last;
    for (npy_intp i = 0; i < n; ++i)
        total[i] = first[i] + last[i];
    for (npy_intp l = 1; l < w->layers - 1; ++l)
        for (npy_intp i = 0; i < n; ++i)
            total[i] += first[i - l * s];
    return total;
}

/* Compute the gradients of sums or averages. scratch: three lines of layer_length elements and two lines of `out`
 * elements. */
VECTORISED_V3 static void NAME(average_grad)(const Windows *w, const PoolArrays *arrays, npy_intp begin, npy_intp end,
                                             npy_intp *rows, char *scratch)
{
    const Axis *a = last_axis(w);
    npy_intp n = a->n, out = a->out, length = layer_length(w);
    REAL *g = (REAL *)scratch, *g_rest = w->rest == a->stride ? g : g + length, *total = (REAL *)scratch + 2 * length;
    REAL *shares = total + length, *divisors = shares + out;
    int mode = arrays->mode;
    memset(scratch, 0, 3 * (size_t)length * sizeof(REAL));
    if (mode > POOL_SUM)
        NAME(divisors_of)(a, mode, divisors);
    for (npy_intp plane = begin; plane < end; ++plane) {
        const REAL *gz = (const REAL *)arrays->gradient + plane * w->out_size;
        REAL *gx = (REAL *)arrays->result + plane * w->in_size;
        npy_intp index[NPY_MAXDIMS];
        first_row(w, index);
        if (!w->all_rows_once)
            memset(gx, 0, (size_t)w->in_size * sizeof(REAL));
        for (npy_intp r = 0; r < w->out_rows; ++r, gz += out, next_row(w, index)) {
            npy_intp count = window_rows(w, index, rows);
            const REAL *from = gz;
            if (mode > POOL_SUM) {
                REAL lines = (REAL)outer_count(w, index, mode == POOL_INC_PAD);
                for (npy_intp o = 0; o < out; ++o)
                    shares[o] = gz[o] / (lines * divisors[o]);
                from = shares;
            }
            const REAL *line = NAME(shares_of_line)(w, from, g, g_rest, total);
            for (npy_intp k = 0; k < count; ++k) {
                REAL *restrict to = gx + rows[k];
                if (w->all_rows_once)
                    memcpy(to, line, (size_t)n * sizeof(REAL));
                else
                    for (npy_intp i = 0; i < n; ++i)
                        to[i] += line[i];
            }
        }
    }
}

/* For each window, sum the elements of the direction (of the R-operator) at the positions where x equals the maximum.
 * scratch: 1 + layers lines of layer_length elements. */
VECTORISED_V3 static void NAME(sums_at_maxima)(const Windows *w, const PoolArrays *arrays, npy_intp begin, npy_intp end,
                                               npy_intp *rows, char *scratch)
{
    const Axis *a = last_axis(w);
    npy_intp n = a->n, out = a->out, s = a->stride, length = layer_length(w);
    REAL *maxima = (REAL *)scratch, *sums = maxima + length;
    memset(scratch, 0, (1 + (size_t)w->layers) * (size_t)length * sizeof(REAL));
    for (npy_intp plane = begin; plane < end; ++plane) {
        const REAL *x = (const REAL *)arrays->x + plane * w->in_size,
                   *e = (const REAL *)arrays->gradient + plane * w->in_size;
        const REAL *z = (const REAL *)arrays->maxima + plane * w->out_size;
        REAL *result = (REAL *)arrays->result + plane * w->out_size;
        npy_intp index[NPY_MAXDIMS];
        first_row(w, index);
        for (npy_intp r = 0; r < w->out_rows; ++r, result += out, next_row(w, index)) {
            npy_intp count = window_rows(w, index, rows);
            const REAL *top = z + r * out;
            if (w->direct) {
                for (npy_intp o = 0; o < out; ++o) {
                    REAL total = 0;
                    for (npy_intp k = 0; k < count; ++k)
                        for (npy_intp i = a->first[o]; i < a->last[o]; ++i)
                            total += x[rows[k] + i] == top[o] ? e[rows[k] + i] : 0;
                    result[o] = total;
                }
                continue;
            }
            NAME(spread)(w, top, maxima);
            for (npy_intp l = 0; l < w->layers; ++l) {
                const REAL *restrict m = maxima + w->before - l * s;
                REAL *restrict to = sums + l * length + w->before;
                memset(to, 0, (size_t)n * sizeof(REAL));
                for (npy_intp k = 0; k < count; ++k) {
                    const REAL *restrict xk = x + rows[k], *restrict ek = e + rows[k];
                    for (npy_intp i = 0; i < n; ++i)
                        to[i] += NAME(at)(xk[i], m[i], ek[i]);
                }
            }
            for (npy_intp o = 0; o < out; ++o) {
                REAL total = 0;
                for (npy_intp l = 0; l < w->layers; ++l) {
                    const REAL *from = sums + l * length + w->before - a->pad + (o + l) * s;
                    for (npy_intp k = 0; k < (l == w->layers - 1 ? w->rest : s); ++k)
                        total += from[k];
                }
                result[o] = total;
            }
        }
    }
}
