/* Loops of batch normalization for one floating-point type; batchnorm.c includes this file once for each type, with
 * REAL and NAME(f) defined.
 *
 * Sums are computed in double with LANES accumulators, so that the compiler vectorizes the loops. The rounding error of
 * a sum is then as small as for a sum of LANES times fewer elements. */

/* Add a run of elements to LANES sums. The last elements, fewer than FEW, are added to sums[LANES]. */
INLINE void NAME(add_run)(npy_intp n, const REAL *restrict x, double *restrict sums)
{
    double total[LANES];
    npy_intp i = 0;
    memcpy(total, sums, sizeof total);
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; ++k)
            total[k] += (double)x[i + k];
    for (; i + FEW <= n; i += FEW)
        for (int k = 0; k < FEW; ++k)
            total[k] += (double)x[i + k];
    memcpy(sums, total, sizeof total);
    for (; i < n; ++i)
        sums[LANES] += (double)x[i];
}

/* Add the squared distances of a run of elements from the mean to `sums`. */
INLINE void NAME(add_squares)(npy_intp n, const REAL *restrict x, double mean, double *restrict sums)
{
    double total[LANES];
    npy_intp i = 0;
    memcpy(total, sums, sizeof total);
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; ++k) {
            double d = (double)x[i + k] - mean;
            total[k] += d * d;
        }
    for (; i + FEW <= n; i += FEW)
        for (int k = 0; k < FEW; ++k) {
            double d = (double)x[i + k] - mean;
            total[k] += d * d;
        }
    memcpy(sums, total, sizeof total);
    for (; i < n; ++i)
        sums[LANES] += ((double)x[i] - mean) * ((double)x[i] - mean);
}

/* Add dy to `sums`, and dy times the distance of x from the mean to `products`. */
INLINE void NAME(add_products)(npy_intp n, const REAL *restrict x, const REAL *restrict dy, double mean,
                               double *restrict sums, double *restrict products)
{
    double total[LANES], weighted[LANES];
    npy_intp i = 0;
    memcpy(total, sums, sizeof total);
    memcpy(weighted, products, sizeof weighted);
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; ++k) {
            double g = (double)dy[i + k];
            total[k] += g;
            weighted[k] += g * ((double)x[i + k] - mean);
        }
    for (; i + FEW <= n; i += FEW)
        for (int k = 0; k < FEW; ++k) {
            double g = (double)dy[i + k];
            total[k] += g;
            weighted[k] += g * ((double)x[i + k] - mean);
        }
    memcpy(sums, total, sizeof total);
    memcpy(products, weighted, sizeof weighted);
    for (; i < n; ++i) {
        sums[LANES] += (double)dy[i];
        products[LANES] += (double)dy[i] * ((double)x[i] - mean);
    }
}

/* out = (x - mean) * factor + shift */
INLINE void NAME(normalize_run)(npy_intp n, const REAL *restrict x, REAL mean, REAL factor, REAL shift,
                                REAL *restrict out)
{
    for (npy_intp i = 0; i < n; ++i)
        out[i] = (x[i] - mean) * factor + shift;
}

/* dx = factor * (dy - average - (x - mean) * slope) */
INLINE void NAME(differentiate_run)(npy_intp n, const REAL *restrict x, const REAL *restrict dy, REAL mean, REAL factor,
                                    REAL average, REAL slope, REAL *restrict dx)
{
    for (npy_intp i = 0; i < n; ++i)
        dx[i] = factor * ((dy[i] - average) - (x[i] - mean) * slope);
}

/* Variants of normalize_run and differentiate_run that compute in double, for factors that overflow in REAL. */
static void NAME(normalize_wide)(npy_intp n, const REAL *x, double mean, double factor, double shift, REAL *out)
{
    for (npy_intp i = 0; i < n; ++i)
        out[i] = (REAL)(((double)x[i] - mean) * factor + shift);
}

static void NAME(differentiate_wide)(npy_intp n, const REAL *x, const REAL *dy, double mean, double factor,
                                     double average, double slope, REAL *dx)
{
    for (npy_intp i = 0; i < n; ++i)
        dx[i] = (REAL)(factor * (((double)dy[i] - average) - ((double)x[i] - mean) * slope));
}

/* The next functions are variants of the functions above for a row in which each element belongs to a separate mean. */
INLINE void NAME(add_row)(npy_intp n, const REAL *restrict x, double *restrict sums)
{
    for (npy_intp i = 0; i < n; ++i)
        sums[i] += (double)x[i];
}

INLINE void NAME(add_row_squares)(npy_intp n, const REAL *restrict x, const double *restrict mean,
                                  double *restrict sums)
{
    for (npy_intp i = 0; i < n; ++i) {
        double d = (double)x[i] - mean[i];
        sums[i] += d * d;
    }
}

INLINE void NAME(add_row_products)(npy_intp n, const REAL *restrict x, const REAL *restrict dy,
                                   const REAL *restrict mean, double *restrict sums, double *restrict products)
{
    for (npy_intp i = 0; i < n; ++i) {
        double g = (double)dy[i];
        sums[i] += g;
        products[i] += g * ((double)x[i] - (double)mean[i]);
    }
}

INLINE void NAME(normalize_row)(npy_intp n, const REAL *restrict x, const REAL *restrict mean,
                                const REAL *restrict factor, const REAL *restrict shift, REAL *restrict out)
{
    for (npy_intp i = 0; i < n; ++i)
        out[i] = (x[i] - mean[i]) * factor[i] + shift[i];
}

INLINE void NAME(differentiate_row)(npy_intp n, const REAL *restrict x, const REAL *restrict dy,
                                    const REAL *restrict mean, const REAL *restrict factor,
                                    const REAL *restrict average, const REAL *restrict slope, REAL *restrict dx)
{
    for (npy_intp i = 0; i < n; ++i)
        dx[i] = factor[i] * ((dy[i] - average[i]) - (x[i] - mean[i]) * slope[i]);
}

INLINE double NAME(total)(const double *sums)
{
    double total = sums[LANES];
    for (int k = 0; k < LANES; ++k)
        total += sums[k];
    return total;
}

/* Compute element k of the outputs mean, invstd and var from the mean and the sum of squared distances. Also compute
 * the factor and the shift with which x is normalized: (x - mean_out[k]) * factor + shift. The shift compensates for
 * the rounding of the mean to REAL. */
static inline void NAME(finish)(double mean, double squares, double count, double epsilon, npy_intp k,
                                const REAL *scale, const REAL *bias, REAL *mean_out, REAL *invstd_out, REAL *var_out,
                                double *factor, double *shift)
{
    double var = squares / count, invstd = 1 / sqrt(var + epsilon), slope = (double)scale[k] * invstd, lost;
    REAL near = (REAL)mean;
    mean_out[k] = near;
    invstd_out[k] = (REAL)invstd;
    var_out[k] = (REAL)var;
    *factor = slope;
    lost = (mean - (double)near) * slope;
    *shift = (double)bias[k] - (isfinite(lost) ? lost : 0);
}

VECTORISED static void NAME(train)(const Layout *l, double epsilon, const void *x_, const void *scale, const void *bias,
                                   void *out_, void *mean_out, void *invstd_out, void *var_out)
{
    const REAL *x = x_;
    REAL *out = out_;
    double count = (double)l->count;
    npy_intp from, at, index[NPY_MAXDIMS], inner[NPY_MAXDIMS];
    npy_intp n = l->inner;
    if (l->inner_is_averaged) {
        npy_intp k = 0;
        FOR_EACH (l->kept, index, from) {
            double sums[LANES + 1] = {0}, squares[LANES + 1] = {0}, mean;
            double factor, shift;
            FOR_EACH (l->averaged, inner, at)
                NAME(add_run)(n, x + from + at, sums);
            mean = NAME(total)(sums) / count;
            FOR_EACH (l->averaged, inner, at)
                NAME(add_squares)(n, x + from + at, mean, squares);
            NAME(finish)(mean, NAME(total)(squares), count, epsilon, k, scale, bias, mean_out, invstd_out, var_out,
                         &factor, &shift);
            REAL near = ((REAL *)mean_out)[k];
            int wide = OVERFLOWS(factor) || OVERFLOWS(shift);
            FOR_EACH (l->averaged, inner, at)
                if (wide)
                    NAME(normalize_wide)(n, x + from + at, (double)near, factor, shift, out + from + at);
                else
                    NAME(normalize_run)(n, x + from + at, near, (REAL)factor, (REAL)shift, out + from + at);
            ++k;
        }
        return;
    }
    npy_intp block = columns_at_once(l, sizeof(REAL)), first = 0;
    FOR_EACH (l->kept, index, from) {
        for (npy_intp c = 0; c < n; c += block) {
            npy_intp width = n - c < block ? n - c : block, k = first + c;
            double mean[COLUMNS], squares[COLUMNS];
            double factor[COLUMNS], shift[COLUMNS];
            REAL factors[COLUMNS], shifts[COLUMNS];
            memset(mean, 0, (size_t)width * sizeof *mean);
            memset(squares, 0, (size_t)width * sizeof *squares);
            FOR_EACH (l->averaged, inner, at)
                NAME(add_row)(width, x + from + at + c, mean);
            for (npy_intp i = 0; i < width; ++i)
                mean[i] /= count;
            FOR_EACH (l->averaged, inner, at)
                NAME(add_row_squares)(width, x + from + at + c, mean, squares);
            for (npy_intp i = 0; i < width; ++i)
                NAME(finish)(mean[i], squares[i], count, epsilon, k + i, scale, bias, mean_out, invstd_out, var_out,
                             factor + i, shift + i);
            for (npy_intp i = 0; i < width; ++i) {
                factors[i] = (REAL)factor[i];
                shifts[i] = (REAL)shift[i];
            }
            FOR_EACH (l->averaged, inner, at)
                NAME(normalize_row)(width, x + from + at + c, (REAL *)mean_out + k, factors, shifts,
                                    out + from + at + c);
            for (npy_intp i = 0; i < width; ++i)
                if (OVERFLOWS(factor[i]) || OVERFLOWS(shift[i]))
                    FOR_EACH (l->averaged, inner, at)
                        NAME(normalize_wide)(1, x + from + at + c + i, (double)((REAL *)mean_out)[k + i], factor[i],
                                             shift[i], out + from + at + c + i);
        }
        first += n;
    }
}

VECTORISED static void NAME(train_grad)(const Layout *l, const void *x_, const void *dy_, const void *scale_,
                                        const void *mean_, const void *invstd_, void *dx_, void *dscale_, void *dbias_)
{
    const REAL *x = x_, *dy = dy_, *scale = scale_, *mean = mean_, *invstd = invstd_;
    REAL *dx = dx_, *dscale = dscale_, *dbias = dbias_;
    double count = (double)l->count;
    npy_intp from, at, index[NPY_MAXDIMS], inner[NPY_MAXDIMS];
    npy_intp n = l->inner;
    if (l->inner_is_averaged) {
        npy_intp k = 0;
        FOR_EACH (l->kept, index, from) {
            double sums[LANES + 1] = {0}, products[LANES + 1] = {0}, r = (double)invstd[k];
            FOR_EACH (l->averaged, inner, at)
                NAME(add_products)(n, x + from + at, dy + from + at, (double)mean[k], sums, products);
            double sum = NAME(total)(sums), product = NAME(total)(products);
            dscale[k] = (REAL)(product * r);
            dbias[k] = (REAL)sum;
            double factor = (double)scale[k] * r, average = sum / count, slope = product * r * r / count;
            int wide = OVERFLOWS(factor) || OVERFLOWS(average) || OVERFLOWS(slope);
            FOR_EACH (l->averaged, inner, at)
                if (wide)
                    NAME(differentiate_wide)(n, x + from + at, dy + from + at, (double)mean[k], factor, average, slope,
                                             dx + from + at);
                else
                    NAME(differentiate_run)(n, x + from + at, dy + from + at, mean[k], (REAL)factor, (REAL)average,
                                            (REAL)slope, dx + from + at);
            ++k;
        }
        return;
    }
    npy_intp block = columns_at_once(l, 2 * sizeof(REAL)), first = 0;
    FOR_EACH (l->kept, index, from) {
        for (npy_intp c = 0; c < n; c += block) {
            npy_intp width = n - c < block ? n - c : block, k = first + c;
            double sums[COLUMNS], products[COLUMNS];
            REAL factor[COLUMNS], average[COLUMNS], slope[COLUMNS];
            memset(sums, 0, (size_t)width * sizeof *sums);
            memset(products, 0, (size_t)width * sizeof *products);
            FOR_EACH (l->averaged, inner, at)
                NAME(add_row_products)(width, x + from + at + c, dy + from + at + c, mean + k, sums, products);
            for (npy_intp i = 0; i < width; ++i) {
                double r = (double)invstd[k + i];
                dscale[k + i] = (REAL)(products[i] * r);
                dbias[k + i] = (REAL)sums[i];
                factor[i] = (REAL)((double)scale[k + i] * r);
                average[i] = (REAL)(sums[i] / count);
                slope[i] = (REAL)(products[i] * r * r / count);
            }
            FOR_EACH (l->averaged, inner, at)
                NAME(differentiate_row)(width, x + from + at + c, dy + from + at + c, mean + k, factor, average, slope,
                                        dx + from + at + c);
            for (npy_intp i = 0; i < width; ++i) {
                double r = (double)invstd[k + i],
                       wide[] = {(double)scale[k + i] * r, sums[i] / count, products[i] * r * r / count};
                if (OVERFLOWS(wide[0]) || OVERFLOWS(wide[1]) || OVERFLOWS(wide[2]))
                    FOR_EACH (l->averaged, inner, at)
                        NAME(differentiate_wide)(1, x + from + at + c + i, dy + from + at + c + i, (double)mean[k + i],
                                                 wide[0], wide[1], wide[2], dx + from + at + c + i);
            }
        }
        first += n;
    }
}
