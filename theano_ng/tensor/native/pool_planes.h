/* Pooling of whole planes, for one type; pool.c includes this once per type with REAL, ACC (in which sums are formed) and NAME(f) defined.
 *
 * The lines that a line of the output is made of are reduced to one, all columns side by side; then the windows of that line. NaN is the
 * greatest of all numbers. */
#define GREATER(m, v) ((v) > (m) || (v) != (v) ? (v) : (m))
#define INLINE static inline __attribute__((always_inline))

/* Maximum of `count` lines; a single line is not copied. */
INLINE const REAL *NAME(greatest_lines)(npy_intp n, const REAL *x, const npy_intp *rows, npy_intp count, REAL *restrict line)
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

/* Windows of constant size, each inside the line. */
INLINE void NAME(greatest_of)(npy_intp count, const int window, const int stride, const REAL *restrict line, REAL *restrict z)
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

/* The usual sizes, for compilers to unroll. */
#define USUAL_SIZES(F, count, window, stride, line, z)   \
    if (stride == 2 && window == 2)                      \
        F(count, 2, 2, line, z);                         \
    else if (stride == 2 && window == 3)                 \
        F(count, 3, 2, line, z);                         \
    else if (stride == 1 && window == 1)                 \
        F(count, 1, 1, line, z);                         \
    else if (stride == 1 && window == 2)                 \
        F(count, 2, 1, line, z);                         \
    else if (stride == 1 && window == 3)                 \
        F(count, 3, 1, line, z);                         \
    else if (stride == 3 && window == 3)                 \
        F(count, 3, 3, line, z);                         \
    else if (stride == 4 && window == 4)                 \
        F(count, 4, 4, line, z);

INLINE void NAME(greatest_in_windows)(const Axis *a, const REAL *restrict line, REAL *restrict z)
{
    const REAL *from = line + a->whole_begin * a->stride - a->pad;
    REAL *to = z + a->whole_begin;
    npy_intp count = a->whole_end - a->whole_begin, stride = a->stride, window = a->window;
    USUAL_SIZES(NAME(greatest_of), count, window, stride, from, to)
    else
        for (npy_intp o = 0; o < count; ++o) {
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
    USUAL_SIZES(NAME(sum_of), count, window, stride, from, to)
    else
        for (npy_intp o = 0; o < count; ++o) {
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

/* What the sums along the last axis are divided by. */
INLINE void NAME(divisors_of)(const Axis *a, int mode, ACC *divisors)
{
    for (npy_intp o = 0; o < a->out; ++o)
        divisors[o] = (ACC)(mode == POOL_INC_PAD ? a->room[o] : a->last[o] - a->first[o]);
}

/* scratch: a line of n and two of out numbers. */
VECTORISED static void NAME(pool)(const Windows *w, const PoolArrays *arrays, npy_intp begin, npy_intp end, npy_intp *rows, char *scratch)
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
        npy_intp index[NPY_MAXDIMS] = {0};
        for (npy_intp r = 0; r < w->out_rows; ++r, z += out, next_row(w, index)) {
            npy_intp count = window_rows(w, index, rows);
            if (mode == POOL_MAX) {
                NAME(greatest_in_windows)(a, NAME(greatest_lines)(n, x, rows, count, (REAL *)line), z);
                continue;
            }
            NAME(sum_lines)(n, x, rows, count, line);
            NAME(sum_in_windows)(a, line, totals);
            if (mode == POOL_SUM)
                for (npy_intp o = 0; o < out; ++o)
                    z[o] = (REAL)totals[o];
            else {
                ACC lines = (ACC)outer_count(w, index, mode == POOL_INC_PAD);
                for (npy_intp o = 0; o < out; ++o)
                    z[o] = (REAL)(totals[o] / (lines * divisors[o]));
            }
        }
    }
}
