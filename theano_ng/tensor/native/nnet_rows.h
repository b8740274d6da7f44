/* Row-wise softmax arithmetic for one floating-point type; nnet.c includes this once per type with REAL, EXP, LOG and NAME(f) defined.
 *
 * Rows are contiguous. The loops over a row are written so that the compiler vectorises them, exp included (glibc's vector library). */

/* The largest element of x + b (b may be NULL); NaN is skipped and comes back through the exponentials. */
VECTORISED static REAL NAME(row_max)(npy_intp n, const REAL *restrict x, const REAL *restrict b)
{
    REAL best = -INFINITY;
    if (b == NULL)
        for (npy_intp i = 0; i < n; ++i)
            best = x[i] > best ? x[i] : best;
    else
        for (npy_intp i = 0; i < n; ++i) {
            REAL v = x[i] + b[i];
            best = v > best ? v : best;
        }
    return best;
}

/* out = exp(x + b - max); returns the sum. */
VECTORISED static REAL NAME(row_exp)(npy_intp n, const REAL *restrict x, const REAL *restrict b, REAL max, REAL *restrict out)
{
    if (b == NULL)
        for (npy_intp i = 0; i < n; ++i)
            out[i] = EXP(x[i] - max);
    else
        for (npy_intp i = 0; i < n; ++i)
            out[i] = EXP(x[i] + b[i] - max);
    REAL sums[4] = {0, 0, 0, 0};
    npy_intp i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; ++k)
            sums[k] += out[i + k];
    for (; i < n; ++i)
        sums[0] += out[i];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

VECTORISED static void NAME(row_scale)(npy_intp n, REAL factor, REAL *restrict out)
{
    for (npy_intp i = 0; i < n; ++i)
        out[i] *= factor;
}

static void NAME(softmax)(npy_intp rows, npy_intp n, const void *x_, const void *b_, void *out_)
{
    const REAL *x = x_, *b = b_;
    REAL *out = out_;
    for (npy_intp r = 0; r < rows; ++r, x += n, out += n) {
        REAL sum = NAME(row_exp)(n, x, b, NAME(row_max)(n, x, b), out);
        NAME(row_scale)(n, 1 / sum, out);
    }
}

static void NAME(log_softmax)(npy_intp rows, npy_intp n, const void *x_, void *out_)
{
    const REAL *x = x_;
    REAL *out = out_;
    for (npy_intp r = 0; r < rows; ++r, x += n, out += n) {
        REAL max = NAME(row_max)(n, x, NULL);
        REAL log_sum = LOG(NAME(row_exp)(n, x, NULL, max, out));
        for (npy_intp i = 0; i < n; ++i)
            out[i] = (x[i] - max) - log_sum;        /* max + log_sum would lose log_sum where max is large */
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

/* Per row: nll = -log softmax(x + b)[y], softmax, and the position of the largest element. Returns the first row with a bad label, or -1. */
static npy_intp NAME(crossentropy)(npy_intp rows, npy_intp n, const void *x_, const void *b_, const npy_int64 *y, void *nll_,
                                   void *sm_, npy_int64 *am)
{
    const REAL *x = x_, *b = b_;
    REAL *nll = nll_, *sm = sm_;
    for (npy_intp r = 0; r < rows; ++r, x += n, sm += n) {
        if (y[r] < 0 || y[r] >= n)
            return r;
        npy_intp best = 0;
        REAL max = x[0] + b[0];
        for (npy_intp i = 1; i < n; ++i) {
            REAL v = x[i] + b[i];
            if (v > max || (v != v && max == max)) {    /* the first NaN is the largest, as NumPy has it */
                max = v;
                best = i;
            }
        }
        REAL sum = NAME(row_exp)(n, x, b, max, sm);
        nll[r] = LOG(sum) - (x[y[r]] + b[y[r]] - max);
        am[r] = best;
        NAME(row_scale)(n, 1 / sum, sm);
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
        if (d == 0) {       /* also where sm is NaN or infinite: no gradient comes in, none goes out */
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
static npy_intp NAME(onehot_crossentropy_grad)(npy_intp rows, npy_intp n, const void *dy_, const void *q_, const npy_int64 *y,
                                               void *g_)
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
