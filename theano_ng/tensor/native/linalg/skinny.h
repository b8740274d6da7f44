/* Matrix products with few columns, for one floating-point type. blas.c includes this file once for each type, with
 * REAL and NAME(f) defined.
 *
 * BLAS first packs its operands. Packing takes longer than the product if one operand is large and the other operand
 * has only a few columns (the output layer of a classifier). The loops of this file read the large operand in place: a
 * training step with 128 x 784 times 784 x 10 takes 0.10 ms instead of 0.13 ms. The limits in `multiply_skinny` select
 * the sizes for which measurements showed a gain. All sizes and strides are in elements. */
typedef REAL NAME(vec) __attribute__((vector_size(32), aligned(sizeof(REAL)), may_alias));
#define VEC NAME(vec)
#define LANES ((npy_intp)(32 / sizeof(REAL)))

static inline __attribute__((always_inline)) REAL NAME(lanes_sum)(VEC v)
{
    REAL total = 0;
    for (int i = 0; i < (int)LANES; ++i)
        total += v[i];
    return total;
}

/* z <- beta z + value; z is not read if beta is 0. */
static inline __attribute__((always_inline)) void NAME(accumulate)(REAL *z, REAL beta, REAL value)
{
    *z = beta == 0 ? value : beta * *z + value;
}

/* Compute the dot products of two rows of x with `count` rows of yt: 2 x count sums in registers. */
static inline __attribute__((always_inline)) void NAME(row_pair)(npy_intp inner, const REAL *x0, const REAL *x1,
                                                                 const REAL *yt, const int count, REAL alpha, REAL beta,
                                                                 REAL *z0, REAL *z1, npy_intp z_col)
{
    VEC a[5] = {{0}}, b[5] = {{0}};
    REAL tail_a[5] = {0}, tail_b[5] = {0};
    npy_intp k = 0;
    for (; k + LANES <= inner; k += LANES) {
        VEC u = *(const VEC *)(x0 + k), v = *(const VEC *)(x1 + k);
        for (int j = 0; j < count; ++j) {
            VEC w = *(const VEC *)(yt + j * inner + k);
            a[j] += u * w;
            b[j] += v * w;
        }
    }
    for (; k < inner; ++k)
        for (int j = 0; j < count; ++j) {
            tail_a[j] += x0[k] * yt[j * inner + k];
            tail_b[j] += x1[k] * yt[j * inner + k];
        }
    for (int j = 0; j < count; ++j) {
        NAME(accumulate)(z0 + j * z_col, beta, alpha * (NAME(lanes_sum)(a[j]) + tail_a[j]));
        if (z1 != z0)
            NAME(accumulate)(z1 + j * z_col, beta, alpha * (NAME(lanes_sum)(b[j]) + tail_b[j]));
    }
}

/* z <- beta z + alpha x y. The rows of x have unit stride; yt is the contiguous transpose of y. */
WIDEST static void NAME(few_columns)(npy_intp rows, npy_intp inner, npy_intp cols, REAL alpha, const REAL *x,
                                     npy_intp x_row, const REAL *yt, REAL beta, REAL *z, npy_intp z_row, npy_intp z_col)
{
    for (npy_intp r = 0; r < rows; r += 2) {
        const REAL *x0 = x + r * x_row, *x1 = r + 1 < rows ? x0 + x_row : x0;
        REAL *z0 = z + r * z_row, *z1 = r + 1 < rows ? z0 + z_row : z0;
        for (npy_intp j = 0; j < cols; j += 5) {
            const REAL *w = yt + j * inner;
            REAL *p = z0 + j * z_col, *q = z1 + j * z_col;
            switch (cols - j) {
            case 1: NAME(row_pair)(inner, x0, x1, w, 1, alpha, beta, p, q, z_col); break;
            case 2: NAME(row_pair)(inner, x0, x1, w, 2, alpha, beta, p, q, z_col); break;
            case 3: NAME(row_pair)(inner, x0, x1, w, 3, alpha, beta, p, q, z_col); break;
            case 4: NAME(row_pair)(inner, x0, x1, w, 4, alpha, beta, p, q, z_col); break;
            default: NAME(row_pair)(inner, x0, x1, w, 5, alpha, beta, p, q, z_col);
            }
        }
    }
}

/* zt <- zt + x' d for up to eight rows of x. zt (cols, rows of x') is contiguous; the rows of x (8, rows) have unit
 * stride. */
static inline __attribute__((always_inline)) void NAME(outer_rows)(npy_intp rows, npy_intp cols, const REAL *x,
                                                                   npy_intp x_row, const REAL *d, const int count,
                                                                   REAL *zt)
{
    npy_intp k = 0;
    for (; k + LANES <= rows; k += LANES) {
        VEC u[8];
        for (int i = 0; i < count; ++i)
            u[i] = *(const VEC *)(x + i * x_row + k);
        for (npy_intp j = 0; j < cols; ++j) {
            VEC total = *(VEC *)(zt + j * rows + k);
            for (int i = 0; i < count; ++i)
                total += u[i] * d[i * cols + j];
            *(VEC *)(zt + j * rows + k) = total;
        }
    }
    for (; k < rows; ++k)
        for (npy_intp j = 0; j < cols; ++j)
            for (int i = 0; i < count; ++i)
                zt[j * rows + k] += x[i * x_row + k] * d[i * cols + j];
}

/* z <- beta z + alpha x' d. The rows of x (inner, rows) have unit stride; d (inner, cols) is contiguous; zt has room
 * for cols * rows elements. */
WIDEST static void NAME(few_columns_of_transposed)(npy_intp rows, npy_intp inner, npy_intp cols, REAL alpha,
                                                   const REAL *x, npy_intp x_row, const REAL *d, REAL beta, REAL *z,
                                                   npy_intp z_row, npy_intp z_col, REAL *zt)
{
    npy_intp r = 0;
    memset(zt, 0, rows * cols * sizeof(REAL));
    for (; r + 8 <= inner; r += 8)
        NAME(outer_rows)(rows, cols, x + r * x_row, x_row, d + r * cols, 8, zt);
    for (; r < inner; ++r)
        NAME(outer_rows)(rows, cols, x + r * x_row, x_row, d + r * cols, 1, zt);
    for (npy_intp j = 0; j < cols; ++j)
        for (npy_intp k = 0; k < rows; ++k)
            NAME(accumulate)(z + k * z_row + j * z_col, beta, alpha * zt[j * rows + k]);
}

/* Copy a (rows, cols) array with strides in bytes to a contiguous array, transposed if `transpose`. */
static void NAME(pack)(npy_intp rows, npy_intp cols, const char *a, npy_intp row, npy_intp col, int transpose,
                       REAL *out)
{
    if (transpose)
        for (npy_intp c = 0; c < cols; ++c)
            for (npy_intp r = 0; r < rows; ++r)
                *out++ = *(const REAL *)(a + r * row + c * col);
    else
        for (npy_intp r = 0; r < rows; ++r)
            for (npy_intp c = 0; c < cols; ++c)
                *out++ = *(const REAL *)(a + r * row + c * col);
}

/* Compute z <- beta z + alpha x y, if the loops of this file suit the shapes and layouts. Return 1 after the product, 0
 * if the loops do not suit, -1 with an exception set. */
static int NAME(multiply_skinny)(const void *alpha_, PyArrayObject *x, PyArrayObject *y, const void *beta_,
                                 PyArrayObject *z)
{
    const npy_intp size = sizeof(REAL);
    npy_intp rows = PyArray_DIM(x, 0), inner = PyArray_DIM(x, 1), cols = PyArray_DIM(y, 1);
    npy_intp x0 = PyArray_STRIDE(x, 0), x1 = PyArray_STRIDE(x, 1), z0 = PyArray_STRIDE(z, 0), z1 = PyArray_STRIDE(z, 1);
    if (cols < 2 || cols > 10 || rows < 16 || inner < 16 || rows * inner < 65536 || z0 % size || z1 % size)
        return 0;
    int straight = x1 == size && x0 % size == 0, transposed = x0 == size && x1 % size == 0;
    npy_intp room = cols * (straight ? inner : inner + rows);
    if (!(straight || transposed) || room > 32768)
        return 0;
    REAL *work = PyMem_Malloc(room * sizeof(REAL));
    if (work == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    REAL alpha = *(const REAL *)alpha_, beta = *(const REAL *)beta_;
    NAME(pack)(inner, cols, PyArray_BYTES(y), PyArray_STRIDE(y, 0), PyArray_STRIDE(y, 1), straight, work);
    if (straight)
        NAME(few_columns)(rows, inner, cols, alpha, PyArray_DATA(x), x0 / size, work, beta, PyArray_DATA(z), z0 / size,
                          z1 / size);
    else
        NAME(few_columns_of_transposed)(rows, inner, cols, alpha, PyArray_DATA(x), x1 / size, work, beta,
                                        PyArray_DATA(z), z0 / size, z1 / size, work + cols * inner);
    PyMem_Free(work);
    return 1;
}
#undef VEC
#undef LANES
