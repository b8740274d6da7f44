/* Row-wise softmax arithmetic for one floating-point type; nnet.c includes this file once for each type, with REAL,
 * EXP, LOG, LANES and NAME(f) defined.
 *
 * The loops are written so that the compiler vectorizes them: sums and extremes have LANES accumulators. EXP takes
 * arguments up to 0. */

/* Return the largest element of x + b (b may be NULL). NaN is skipped here; it reaches the result through the
 * exponentials. */
VECTORISED static REAL NAME(row_max)(npy_intp n, const REAL *restrict x, const REAL *restrict b)
{
    REAL best[LANES], most = -INFINITY;
    npy_intp i = 0;
    if (n >= LANES) {
        for (int k = 0; k < LANES; ++k)
            best[k] = -INFINITY;
        for (; i + LANES <= n; i += LANES)
            for (int k = 0; k < LANES; ++k) {
                REAL v = b == NULL ? x[i + k] : x[i + k] + b[i + k];
                best[k] = v > best[k] ? v : best[k];
            }
        for (int half = LANES / 2; half > 0; half /= 2)
            for (int k = 0; k < half; ++k)
                best[k] = best[k + half] > best[k] ? best[k + half] : best[k];
        most = best[0];
    }
    for (; i < n; ++i) {
        REAL v = b == NULL ? x[i] : x[i] + b[i];
        most = v > most ? v : most;
    }
    return most;
}

/* Return the sum of exp(x + b - max). Store the exponentials in `out` if it is not NULL; `out` may be x. */
VECTORISED static REAL NAME(row_exp)(npy_intp n, const REAL *x, const REAL *b, REAL max, REAL *out)
{
    REAL sums[LANES] = {0}, values[LANES];
    npy_intp i = 0;
    for (; i + LANES <= n; i += LANES) {
        if (b == NULL)
            for (int k = 0; k < LANES; ++k)
                values[k] = EXP(x[i + k] - max);
        else
            for (int k = 0; k < LANES; ++k)
                values[k] = EXP(x[i + k] + b[i + k] - max);
        for (int k = 0; k < LANES; ++k)
            sums[k] += values[k];
        if (out != NULL)
            memcpy(out + i, values, sizeof values);
    }
    int left = (int)(n - i);
    for (int k = 0; k < left; ++k)
        values[k] = b == NULL ? x[i + k] - max : x[i + k] + b[i + k] - max;
    for (int k = left; k < LANES; ++k)
        values[k] = -INFINITY;
    if (left > 0) {
        for (int k = 0; k < LANES; ++k)
            values[k] = EXP(values[k]);
        for (int k = 0; k < left; ++k)
            sums[k] += values[k];
        if (out != NULL)
            memcpy(out + i, values, (size_t)left * sizeof(REAL));
    }
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int k = 0; k < half; ++k)
            sums[k] += sums[k + half];
    return sums[0];
}

VECTORISED static void NAME(row_scale)(npy_intp n, REAL factor, REAL *restrict out)
{
    for (npy_intp i = 0; i < n; ++i)
        out[i] *= factor;
}

/* out = (x - max) - log_sum. If x - (max + log_sum) were computed, rounding would remove log_sum from the sum for a
 * large max. out may be x. */
VECTORISED static void NAME(row_log)(npy_intp n, const REAL *x, REAL max, REAL log_sum, REAL *out)
{
#pragma GCC ivdep
    for (npy_intp i = 0; i < n; ++i)
        out[i] = (x[i] - max) - log_sum;
}

/* Compute the softmax of short rows (n <= SHORT_ROWS), LANES rows at a time, element by element. Strides are in
 * elements. If `log_sums` is not NULL, `maxima` and `log_sums` each receive one value for each row: the largest element
 * (NaN ignored), and the logarithm of the sum of exp(x + b - max). */
VECTORISED static void NAME(short_rows)(npy_intp rows, npy_intp n, const REAL *x, npy_intp row_stride, npy_intp stride,
                                        const REAL *b, REAL *out, int logarithm, REAL *maxima, REAL *log_sums)
{
    REAL v[SHORT_ROWS * LANES], max[LANES], sum[LANES], rest[LANES];
    for (npy_intp r = 0; r < rows; r += LANES, out += LANES * n) {
        npy_intp m = rows - r < LANES ? rows - r : LANES;
        for (npy_intp j = 0; j < n; ++j) {
            REAL shift = b == NULL ? 0 : b[j];
            const REAL *from = x + r * row_stride + j * stride;
            for (npy_intp k = 0; k < m; ++k)
                v[j * LANES + k] = b == NULL ? from[k * row_stride] : from[k * row_stride] + shift;
            for (npy_intp k = m; k < LANES; ++k)
                v[j * LANES + k] = 0;
        }
        for (int k = 0; k < LANES; ++k) {
            max[k] = -INFINITY;
            sum[k] = 0;
        }
        for (npy_intp j = 0; j < n; ++j)
            for (int k = 0; k < LANES; ++k) {
                REAL value = v[j * LANES + k];
                max[k] = value > max[k] ? value : max[k];
            }
        for (npy_intp j = 0; j < n; ++j)
            for (int k = 0; k < LANES; ++k) {
                REAL d = v[j * LANES + k] - max[k], e = EXP(d);
                sum[k] += e;
                v[j * LANES + k] = logarithm ? d : e;
            }
        if (log_sums != NULL) {
            for (int k = 0; k < LANES; ++k)
                rest[k] = LOG(sum[k]);
            memcpy(log_sums + r, rest, (size_t)m * sizeof(REAL));
            memcpy(maxima + r, max, (size_t)m * sizeof(REAL));
        }
        for (int k = 0; k < LANES; ++k)
            rest[k] = logarithm ? LOG(sum[k]) : 1 / sum[k];
        for (npy_intp j = 0; j < n; ++j)
            for (int k = 0; k < LANES; ++k)
                v[j * LANES + k] = logarithm ? v[j * LANES + k] - rest[k] : v[j * LANES + k] * rest[k];
        for (npy_intp k = 0; k < m; ++k)
            for (npy_intp j = 0; j < n; ++j)
                out[k * n + j] = v[j * LANES + k];
    }
}

/* Copy rows with any strides to contiguous rows. */
static void NAME(bring_rows)(npy_intp rows, npy_intp n, const REAL *x, npy_intp row_stride, npy_intp stride,
                             REAL *restrict out)
{
    for (npy_intp j = 0; j < n; j += 16)
        for (npy_intp r = 0; r < rows; ++r)
            for (npy_intp i = j; i < (n - j < 16 ? n : j + 16); ++i)
                out[r * n + i] = x[r * row_stride + i * stride];
}

/* out = softmax(x + b), or its logarithm (`logarithm`), row by row; b may be NULL. Strides of x are in elements. */
static void NAME(softmax)(npy_intp rows, npy_intp n, const void *x_, npy_intp row_stride, npy_intp stride,
                          const void *b_, void *out_, int logarithm)
{
    const REAL *x = x_, *b = b_;
    REAL *out = out_;
    if (n <= SHORT_ROWS) {
        NAME(short_rows)(rows, n, x, row_stride, stride, b, out, logarithm, NULL, NULL);
        return;
    }
    for (npy_intp r = 0; r < rows; ++r, x += row_stride, out += n) {
        const REAL *row = x;
        if (stride != 1) {
            if (r % 16 == 0)
                NAME(bring_rows)(rows - r < 16 ? rows - r : 16, n, x, row_stride, stride, out);
            row = out;
        }
        REAL max = NAME(row_max)(n, row, b), sum = NAME(row_exp)(n, row, b, max, logarithm ? NULL : out);
        if (logarithm)
            NAME(row_log)(n, row, max, LOG(sum), out);
        else
            NAME(row_scale)(n, 1 / sum, out);
    }
}

/* dx = (dy - sum(dy sm)) sm, row by row. */
static void NAME(softmax_grad)(npy_intp rows, npy_intp n, const void *dy_, const void *sm_, void *dx_)
{
    const REAL *dy = dy_, *sm = sm_;
    REAL *dx = dx_;
    for (npy_intp r = 0; r < rows; ++r, dy += n, sm += n, dx += n) {
        REAL sum = 0;
        for (npy_intp i = 0; i < n; ++i)
            sum += dy[i] * sm[i];
        for (npy_intp i = 0; i < n; ++i)
            dx[i] = (dy[i] - sum) * sm[i];
    }
}

/* Return the position of the first NaN in a row of x + b. If there is no NaN, return the position of the first element
 * that equals `max`. */
static npy_intp NAME(place_of)(npy_intp n, const REAL *x, const REAL *b, REAL max)
{
    npy_intp best = -1;
    for (npy_intp i = 0; i < n; ++i) {
        REAL v = x[i] + b[i];
        if (v != v)
            return i;
        if (best < 0 && v == max)
            best = i;
    }
    return best;
}

/* Compute for each row nll = -log softmax(x + b)[y], softmax, and the position of the largest element. Return the first
 * row with a bad label, or -1. */
static npy_intp NAME(crossentropy)(npy_intp rows, npy_intp n, const void *x_, const void *b_, const npy_int64 *y,
                                   void *nll_, void *sm_, npy_int64 *am)
{
    const REAL *x = x_, *b = b_;
    REAL *nll = nll_, *sm = sm_;
    enum { BLOCK = 64 };
    REAL maxima[BLOCK], log_sums[BLOCK];
    for (npy_intp r = 0; r < rows; ++r, x += n, sm += n) {
        if (y[r] < 0 || y[r] >= n)
            return r;
        npy_intp k = r % BLOCK;
        if (n <= SHORT_ROWS) {
            if (k == 0)
                NAME(short_rows)(rows - r < BLOCK ? rows - r : BLOCK, n, x, n, 1, b, sm, 0, maxima, log_sums);
        }
        else {
            maxima[k] = NAME(row_max)(n, x, b);
            REAL sum = NAME(row_exp)(n, x, b, maxima[k], sm);
            log_sums[k] = LOG(sum);
            NAME(row_scale)(n, 1 / sum, sm);
        }
        nll[r] = log_sums[k] - (x[y[r]] + b[y[r]] - maxima[k]);
        am[r] = NAME(place_of)(n, x, b, maxima[k]);
    }
    return -1;
}

/* dx = dy (sm - onehot(y)), row by row; dy steps by dy_step elements (0: one value for all rows). */
static npy_intp NAME(crossentropy_dx)(npy_intp rows, npy_intp n, const void *dy_, npy_intp dy_step, const void *sm_,
                                      const npy_int64 *y, void *dx_)
{
    const REAL *dy = dy_, *sm = sm_;
    REAL *dx = dx_;
    for (npy_intp r = 0; r < rows; ++r, dy += dy_step, sm += n, dx += n) {
        if (y[r] < 0 || y[r] >= n)
            return r;
        REAL d = *dy;
        if (d == 0) { /* a zero gradient stays zero, even if sm is NaN or infinite */
            memset(dx, 0, n * sizeof(REAL));
            continue;
        }
        for (npy_intp i = 0; i < n; ++i)
            dx[i] = d * sm[i];
        dx[y[r]] -= d;
    }
    return -1;
}

/* nll = -log q[y], row by row. */
static npy_intp NAME(onehot_crossentropy)(npy_intp rows, npy_intp n, const void *q_, const npy_int64 *y, void *nll_)
{
    const REAL *q = q_;
    REAL *nll = nll_;
    for (npy_intp r = 0; r < rows; ++r, q += n) {
        if (y[r] < 0 || y[r] >= n)
            return r;
        nll[r] = -LOG(q[y[r]]);
    }
    return -1;
}

/* g = 0 except g[y] = -dy / q[y], row by row. */
static npy_intp NAME(onehot_crossentropy_grad)(npy_intp rows, npy_intp n, const void *dy_, const void *q_,
                                               const npy_int64 *y, void *g_)
{
    const REAL *dy = dy_, *q = q_;
    REAL *g = g_;
    memset(g, 0, rows * n * sizeof(REAL));
    for (npy_intp r = 0; r < rows; ++r, q += n, g += n) {
        if (y[r] < 0 || y[r] >= n)
            return r;
        g[y[r]] = -dy[r] / q[y[r]];
    }
    return -1;
}
