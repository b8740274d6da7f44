/* Products of a matrix and a vector, for one floating-point type; blas.c includes this file once for each type, with
 * REAL and NAME(f) defined.
 *
 * Such a product reads each element of the matrix once, so the speed of memory is the limit. The loops of this file
 * reach the limit. BLAS libraries, which are built for many processors, do not always reach it: 3200 x 3200 in float64
 * takes 3.5 ms instead of 4.3 ms with SciPy's BLAS. Sizes and strides are in elements. */
typedef REAL NAME(wide) __attribute__((vector_size(64), aligned(sizeof(REAL)), may_alias));
#define VEC NAME(wide)
#define LANES ((npy_intp)(64 / sizeof(REAL)))

static inline __attribute__((always_inline)) REAL NAME(sum_wide)(VEC v)
{
    REAL total = 0;
    for (int i = 0; i < (int)LANES; ++i)
        total += v[i];
    return total;
}

/* sums[i] = the dot product of row i of `a` with x, for `count` rows. */
static inline __attribute__((always_inline)) void NAME(dot_rows)(npy_intp n, const REAL *a, npy_intp row, const REAL *x,
                                                                 const int count, REAL *sums)
{
    VEC even[4] = {{0}}, odd[4] = {{0}};
    npy_intp k = 0;
    for (; k + 2 * LANES <= n; k += 2 * LANES) {
        VEC u = *(const VEC *)(x + k), v = *(const VEC *)(x + k + LANES);
        for (int i = 0; i < count; ++i) {
            even[i] += *(const VEC *)(a + i * row + k) * u;
            odd[i] += *(const VEC *)(a + i * row + k + LANES) * v;
        }
    }
    for (; k + LANES <= n; k += LANES) {
        VEC u = *(const VEC *)(x + k);
        for (int i = 0; i < count; ++i)
            even[i] += *(const VEC *)(a + i * row + k) * u;
    }
    for (int i = 0; i < count; ++i) {
        REAL tail = 0;
        for (npy_intp j = k; j < n; ++j)
            tail += a[i * row + j] * x[j];
        sums[i] = NAME(sum_wide)(even[i] + odd[i]) + tail;
    }
}

/* y <- beta y + alpha a x. x and the rows of a (m, n) have unit stride; y is not read if beta is 0. */
static inline __attribute__((always_inline)) void NAME(rows_by_vector)(npy_intp m, npy_intp n, REAL alpha,
                                                                       const REAL *a, npy_intp row, const REAL *x,
                                                                       REAL beta, REAL *y, npy_intp y_step)
{
    REAL sums[4];
    for (npy_intp r = 0; r < m; r += 4) {
        npy_intp count = m - r < 4 ? m - r : 4;
        if (count == 4)
            NAME(dot_rows)(n, a + r * row, row, x, 4, sums);
        else
            for (npy_intp i = 0; i < count; ++i)
                NAME(dot_rows)(n, a + (r + i) * row, row, x, 1, sums + i);
        for (npy_intp i = 0; i < count; ++i) {
            REAL *to = y + (r + i) * y_step;
            *to = beta == 0 ? alpha * sums[i] : beta * *to + alpha * sums[i];
        }
    }
}

/* y <- y + x a for `count` rows of a. y and the rows of a have unit stride. */
static inline __attribute__((always_inline)) void NAME(add_rows)(npy_intp n, const REAL *a, npy_intp row, const REAL *x,
                                                                 const int count, REAL *y)
{
    npy_intp k = 0;
    for (; k + LANES <= n; k += LANES) {
        VEC total = *(VEC *)(y + k);
        for (int i = 0; i < count; ++i)
            total += x[i] * *(const VEC *)(a + i * row + k);
        *(VEC *)(y + k) = total;
    }
    for (; k < n; ++k)
        for (int i = 0; i < count; ++i)
            y[k] += x[i] * a[i * row + k];
}

/* y <- beta y + alpha x a. y and the rows of a (m, n) have unit stride. */
static inline __attribute__((always_inline)) void NAME(vector_by_rows)(npy_intp m, npy_intp n, REAL alpha,
                                                                       const REAL *a, npy_intp row, const REAL *x,
                                                                       npy_intp x_step, REAL beta, REAL *y)
{
    const npy_intp block = 16384 / sizeof(REAL); /* this part of y stays in the first-level cache */
    for (npy_intp from = 0; from < n; from += block) {
        npy_intp width = n - from < block ? n - from : block;
        for (npy_intp k = from; k < from + width; ++k)
            y[k] = beta == 0 ? 0 : beta * y[k];
        REAL factors[8];
        for (npy_intp r = 0; r < m; r += 8) {
            npy_intp count = m - r < 8 ? m - r : 8;
            for (npy_intp i = 0; i < count; ++i)
                factors[i] = alpha * x[(r + i) * x_step];
            if (count == 8)
                NAME(add_rows)(width, a + r * row + from, row, factors, 8, y + from);
            else
                for (npy_intp i = 0; i < count; ++i)
                    NAME(add_rows)(width, a + (r + i) * row + from, row, factors + i, 1, y + from);
        }
    }
}

#define FOR_MACHINE(suffix, isa)                                                                                       \
    __attribute__((target(isa))) static void NAME(rows_by_vector_##suffix)(npy_intp m, npy_intp n, REAL alpha,         \
                                                                           const REAL *a, npy_intp row, const REAL *x, \
                                                                           REAL beta, REAL *y, npy_intp y_step)        \
    {                                                                                                                  \
        NAME(rows_by_vector)(m, n, alpha, a, row, x, beta, y, y_step);                                                 \
    }                                                                                                                  \
    __attribute__((target(isa))) static void NAME(vector_by_rows_##suffix)(npy_intp m, npy_intp n, REAL alpha,         \
                                                                           const REAL *a, npy_intp row, const REAL *x, \
                                                                           npy_intp x_step, REAL beta, REAL *y)        \
    {                                                                                                                  \
        NAME(vector_by_rows)(m, n, alpha, a, row, x, x_step, beta, y);                                                 \
    }
FOR_MACHINE(avx2, "avx2,fma")
FOR_MACHINE(avx512, "avx512f,fma")
#undef FOR_MACHINE

/* y <- beta y + alpha A x for a matrix in the form that BLAS reads. Return 1, or 0 if the loops of this file do not
 * support the layout. */
static int NAME(multiply_vector)(npy_intp m, npy_intp n, const void *alpha_, const BlasMatrix *a, const BlasVector *x,
                                 const void *beta_, const BlasVector *y)
{
    REAL alpha = *(const REAL *)alpha_, beta = *(const REAL *)beta_;
    int wide = __builtin_cpu_supports("avx512f");
    if (!a->transposed) {
        if (x->inc != 1 || y->inc < 0)
            return 0;
        (wide ? NAME(rows_by_vector_avx512) : NAME(rows_by_vector_avx2))(m, n, alpha, a->data, a->ld, x->data, beta,
                                                                         y->data, y->inc);
    }
    else {
        if (y->inc != 1 || x->inc < 0)
            return 0;
        (wide ? NAME(vector_by_rows_avx512) : NAME(vector_by_rows_avx2))(n, m, alpha, a->data, a->ld, x->data, x->inc,
                                                                         beta, y->data);
    }
    return 1;
}
#undef VEC
#undef LANES
