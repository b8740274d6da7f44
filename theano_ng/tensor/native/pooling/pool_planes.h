/* Pooling of whole planes, for one type. pool.c includes this file once for each type, with REAL, ACC (the type of
 * sums) and NAME(f) defined.
 *
 * The image lines from which an output line is computed are first reduced to a single line, all columns in parallel.
 * Then each window of the single line is reduced. NaN is greater than all numbers. */
#define GREATER(m, v) ((v) > (m) || (v) != (v) ? (v) : (m))

/* Return a line with the maximum of each column of `count` lines. If there is only one line, return the line itself. */
INLINE const REAL *NAME(greatest_lines)(npy_intp n, const REAL *x, const npy_intp *rows, npy_intp count,
                                        REAL *restrict line)
{
    const REAL *a = x + rows[0];
    if (count == 1)
        return a;
    const REAL *b = x + rows[1];
    if (count == 2) {
        for (npy_intp i = 0; i < n; ++i)
            line[i] = GREATER(a[i], b[i]);
        return line;
    }
    const REAL *c = x + rows[2];
    for (npy_intp i = 0; i < n; ++i) {
        REAL m = GREATER(a[i], b[i]);
        line[i] = GREATER(m, c[i]);
    }
    for (npy_intp k = 3; k < count; ++k) {
        a = x + rows[k];
        for (npy_intp i = 0; i < n; ++i)
            line[i] = GREATER(line[i], a[i]);
    }
    return line;
}

INLINE void NAME(sum_lines)(npy_intp n, const REAL *x, const npy_intp *rows, npy_intp count, ACC *restrict line)
{
    const REAL *a = x + rows[0];
    if (count == 1) {
        for (npy_intp i = 0; i < n; ++i)
            line[i] = a[i];
        return;
    }
    const REAL *b = x + rows[1];
    if (count == 2) {
        for (npy_intp i = 0; i < n; ++i)
            line[i] = (ACC)a[i] + (ACC)b[i];
        return;
    }
    const REAL *c = x + rows[2];
    for (npy_intp i = 0; i < n; ++i)
        line[i] = (ACC)a[i] + (ACC)b[i] + (ACC)c[i];
    for (npy_intp k = 3; k < count; ++k) {
        a = x + rows[k];
        for (npy_intp i = 0; i < n; ++i)
            line[i] += a[i];
    }
}

/* Compute the maxima of windows of constant size, which are all inside the line. */
INLINE void NAME(greatest_of)(npy_intp count, const int window, const int stride, const REAL *restrict line,
                              REAL *restrict z)
{
    for (npy_intp o = 0; o < count; ++o) {
        REAL m = line[o * stride];
        for (int k = 1; k < window; ++k)
            m = GREATER(m, line[o * stride + k]);
        z[o] = m;
    }
}

INLINE void NAME(sum_of)(npy_intp count, const int window, const int stride, const ACC *restrict line, ACC *restrict z)
{
    for (npy_intp o = 0; o < count; ++o) {
        ACC total = line[o * stride];
        for (int k = 1; k < window; ++k)
            total += line[o * stride + k];
        z[o] = total;
    }
}

/* Compute the maxima of windows with stride 1: for each k, combine element k of all windows. */
INLINE void NAME(greatest_of_dense)(npy_intp count, npy_intp window, const REAL *restrict line, REAL *restrict z)
{
    memcpy(z, line, (size_t)count * sizeof(REAL));
    for (npy_intp k = 1; k < window; ++k)
        for (npy_intp o = 0; o < count; ++o)
            z[o] = GREATER(z[o], line[o + k]);
}

INLINE void NAME(sum_of_dense)(npy_intp count, npy_intp window, const ACC *restrict line, ACC *restrict z)
{
    memcpy(z, line, (size_t)count * sizeof(ACC));
    for (npy_intp k = 1; k < window; ++k)
        for (npy_intp o = 0; o < count; ++o)
            z[o] += line[o + k];
}

/* For the usual window sizes and strides, call f with these numbers as constants, so that compilers unroll the loops.
 * Stride 2 is missing, because pool_stride2.h handles it for floating-point types. */
#ifdef WORD
#define USUAL_SIZES(f, count, window, stride, line, z) \
    if (stride == 1)                                   \
        NAME(f##_of_dense)(count, window, line, z);    \
    else if (stride == 3 && window == 3)               \
        NAME(f##_of)(count, 3, 3, line, z);            \
    else if (stride == 4 && window == 4)               \
        NAME(f##_of)(count, 4, 4, line, z);
#else
#define USUAL_SIZES(f, count, window, stride, line, z) \
    if (stride == 1)                                   \
        NAME(f##_of_dense)(count, window, line, z);
#endif

INLINE void NAME(greatest_in_windows)(const Axis *a, const REAL *restrict line, REAL *restrict z)
{
    const REAL *from = line + a->whole_begin * a->stride - a->pad;
    REAL *to = z + a->whole_begin;
    npy_intp count = a->whole_end - a->whole_begin, stride = a->stride, window = a->window;
    USUAL_SIZES(greatest, count, window, stride, from, to)
    else for (npy_intp o = 0; o < count; ++o)
    {
        REAL m = from[o * stride];
        for (npy_intp k = 1; k < window; ++k)
            m = GREATER(m, from[o * stride + k]);
        to[o] = m;
    }
    for (npy_intp o = 0; o < a->out; ++o) {
        if (o == a->whole_begin && count > 0)
            o = a->whole_end;
        if (o == a->out)
            break;
        REAL m = line[a->first[o]];
        for (npy_intp i = a->first[o] + 1; i < a->last[o]; ++i)
            m = GREATER(m, line[i]);
        z[o] = m;
    }
}

INLINE void NAME(sum_in_windows)(const Axis *a, const ACC *restrict line, ACC *restrict z)
{
    const ACC *from = line + a->whole_begin * a->stride - a->pad;
    ACC *to = z + a->whole_begin;
    npy_intp count = a->whole_end - a->whole_begin, stride = a->stride, window = a->window;
    USUAL_SIZES(sum, count, window, stride, from, to)
    else for (npy_intp o = 0; o < count; ++o)
    {
        ACC total = from[o * stride];
        for (npy_intp k = 1; k < window; ++k)
            total += from[o * stride + k];
        to[o] = total;
    }
    for (npy_intp o = 0; o < a->out; ++o) {
        if (o == a->whole_begin && count > 0)
            o = a->whole_end;
        if (o == a->out)
            break;
        ACC total = line[a->first[o]];
        for (npy_intp i = a->first[o] + 1; i < a->last[o]; ++i)
            total += line[i];
        z[o] = total;
    }
}

#ifdef WORD
/* Return the number of lanes of the vectors that compute `count` windows or pairs of columns. Return 0 if no vectors
 * can be used: too few windows or pairs, a stride other than 2, windows of other widths than 2 and 3, or no AVX2. */
INLINE int NAME(lanes)(const Axis *a, npy_intp count)
{
    if (a->stride != 2 || (a->window != 2 && a->window != 3) || !has_v3())
        return 0;
    return count >= MAX_LANES ? MAX_LANES : count >= MAX_LANES / 2 ? MAX_LANES / 2 : 0;
}

/* Compute those windows of a line that extend beyond an end of the image. In each window, first reduce each column,
 * then combine the columns. */
INLINE void NAME(cut_windows)(const Axis *a, const int adds, npy_intp lines, const npy_intp *rows, const REAL *x,
                              REAL *z)
{
    for (npy_intp o = a->whole_begin > 0 ? 0 : a->whole_end; o < a->out; ++o) {
        if (o == a->whole_begin)
            o = a->whole_end;
        if (o == a->out)
            break;
        REAL result = 0;
        for (npy_intp i = a->first[o]; i < a->last[o]; ++i) {
            REAL column = x[rows[0] + i];
            for (npy_intp k = 1; k < lines; ++k)
                column = adds ? column + x[rows[k] + i] : GREATER(column, x[rows[k] + i]);
            result = i == a->first[o] ? column : adds ? result + column : GREATER(result, column);
        }
        z[o] = result;
    }
}

/* Compute a line of windows with stride 2. `flat`: the image lines are adjacent. */
INLINE void NAME(windows_by_twos)(const Axis *a, const int adds, const int lanes, const int window, const int flat,
                                  npy_intp lines, const npy_intp *rows, const REAL *x, REAL *z)
{
    npy_intp count = a->whole_end - a->whole_begin, n = a->n;
    const REAL *from = x + 2 * a->whole_begin - a->pad, *first = from + rows[0];
    REAL *to = z + a->whole_begin;
    if (flat && lines == 2 && lanes == MAX_LANES)
        NAME(most_windows)(count, adds, window, 2, n, NULL, first, to);
    else if (flat && lines == 2)
        NAME(half_windows)(count, adds, window, 2, n, NULL, first, to);
    else if (flat && lines == 3 && lanes == MAX_LANES)
        NAME(most_windows)(count, adds, window, 3, n, NULL, first, to);
    else if (flat && lines == 3)
        NAME(half_windows)(count, adds, window, 3, n, NULL, first, to);
    else if (lanes == MAX_LANES)
        NAME(most_windows)(count, adds, window, (int)lines, n, rows, from, to);
    else
        NAME(half_windows)(count, adds, window, (int)lines, n, rows, from, to);
    if (count < a->out)
        NAME(cut_windows)(a, adds, lines, rows, x, z);
}
#endif

/* Compute the divisors of the sums along the last axis. */
INLINE void NAME(divisors_of)(const Axis *a, int mode, ACC *divisors)
{
    for (npy_intp o = 0; o < a->out; ++o)
        divisors[o] = (ACC)(mode == POOL_INC_PAD ? a->room[o] : a->last[o] - a->first[o]);
}

/* Turn a line of sums into the result: sums or averages. */
INLINE void NAME(divide_line)(const Windows *w, const npy_intp *index, int mode, const ACC *totals, const ACC *divisors,
                              REAL *z)
{
    npy_intp out = last_axis(w)->out;
    ACC lines = mode == POOL_SUM ? 1 : (ACC)outer_count(w, index, mode == POOL_INC_PAD);
    if (mode == POOL_SUM)
        for (npy_intp o = 0; o < out; ++o)
            z[o] = (REAL)totals[o];
    else
        for (npy_intp o = 0; o < out; ++o)
            z[o] = (REAL)(totals[o] / (lines * divisors[o]));
}

/* Pool the planes begin..end. scratch: a line of n elements, and two lines of `out` elements. */
VECTORISED_V3 static void NAME(pool)(const Windows *w, const PoolArrays *arrays, npy_intp begin, npy_intp end,
                                     npy_intp *rows, char *scratch)
{
    const Axis *a = last_axis(w);
    npy_intp n = a->n, out = a->out;
    ACC *line = (ACC *)scratch, *totals = line + n, *divisors = totals + out;
    int mode = arrays->mode;
    if (mode > POOL_SUM)
        NAME(divisors_of)(a, mode, divisors);
    for (npy_intp plane = begin; plane < end; ++plane) {
        const REAL *x = (const REAL *)arrays->x + plane * w->in_size;
        REAL *z = (REAL *)arrays->result + plane * w->out_size;
        npy_intp index[NPY_MAXDIMS];
        first_row(w, index);
        for (npy_intp r = 0; r < w->out_rows; ++r, z += out, next_row(w, index)) {
            npy_intp count = window_rows(w, index, rows);
            if (mode == POOL_MAX) {
                NAME(greatest_in_windows)(a, NAME(greatest_lines)(n, x, rows, count, (REAL *)line), z);
                continue;
            }
            NAME(sum_lines)(n, x, rows, count, line);
            NAME(sum_in_windows)(a, line, totals);
            NAME(divide_line)(w, index, mode, totals, divisors, z);
        }
    }
}

#ifdef WORD
INLINE void NAME(pool_plane)(const Windows *w, const int adds, const int lanes, const int window, int mode,
                             const REAL *x, REAL *z, npy_intp *rows, ACC *totals, const ACC *divisors)
{
    const Axis *a = last_axis(w);
    npy_intp index[NPY_MAXDIMS];
    first_row(w, index);
    for (npy_intp r = 0; r < w->out_rows; ++r, z += a->out, next_row(w, index)) {
        npy_intp count = window_rows(w, index, rows);
        NAME(windows_by_twos)(a, adds, lanes, window, w->nd == 2, count, rows, x, adds ? totals : z);
        if (adds)
            NAME(divide_line)(w, index, mode, totals, divisors, z);
    }
}

/* Pool the planes begin..end, for windows with stride 2. */
ONLY_V3 static void NAME(pool_by_twos)(const Windows *w, const PoolArrays *arrays, npy_intp begin, npy_intp end,
                                       npy_intp *rows, char *scratch)
{
    const Axis *a = last_axis(w);
    ACC *totals = (ACC *)scratch, *divisors = totals + a->out;
    int mode = arrays->mode, lanes = NAME(lanes)(a, a->whole_end - a->whole_begin);
    if (mode > POOL_SUM)
        NAME(divisors_of)(a, mode, divisors);
    for (npy_intp plane = begin; plane < end; ++plane) {
        const REAL *x = (const REAL *)arrays->x + plane * w->in_size;
        REAL *z = (REAL *)arrays->result + plane * w->out_size;
#define PLANE(adds, lanes, window) NAME(pool_plane)(w, adds, lanes, window, mode, x, z, rows, totals, divisors)
        if (mode == POOL_MAX) {
            if (lanes == MAX_LANES)
                a->window == 2 ? PLANE(0, MAX_LANES, 2) : PLANE(0, MAX_LANES, 3);
            else
                a->window == 2 ? PLANE(0, MAX_LANES / 2, 2) : PLANE(0, MAX_LANES / 2, 3);
        }
        else if (lanes == MAX_LANES)
            a->window == 2 ? PLANE(1, MAX_LANES, 2) : PLANE(1, MAX_LANES, 3);
        else
            a->window == 2 ? PLANE(1, MAX_LANES / 2, 2) : PLANE(1, MAX_LANES / 2, 3);
#undef PLANE
    }
}

static planes_fn NAME(pool_for)(const Windows *w)
{
    const Axis *a = last_axis(w);
    return NAME(lanes)(a, a->whole_end - a->whole_begin) ? NAME(pool_by_twos) : NAME(pool);
}
#endif
#undef USUAL_SIZES
