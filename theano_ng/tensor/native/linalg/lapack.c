/* Factorizations and linear systems through a table of LAPACK and BLAS function pointers: cholesky, solve, det,
 * inverse, eigvalsh.
 *
 * LAPACK reads matrices in column-major order: it reads a C-contiguous matrix A as A^T. The code does not transpose
 * matrices for LAPACK. Instead, it uses two facts: the lower triangle of A is the upper triangle of the matrix that
 * LAPACK reads, and a system with A is a system with the transpose of this matrix. The right-hand sides B, which are
 * C-contiguous too, are solved from the right: A X = B is X^T A^T = B^T. `upper`, `U` and `L` refer to the matrix that
 * LAPACK reads. */
#include "blas_views.h"
#include "common/linalg_error.h"
#include <math.h>

enum { FN_POTRF, FN_GETRF, FN_GETRI, FN_EVD, FN_GVD, FN_TRSV, FN_TRSM, N_FUNCTIONS };

typedef void (*potrf_fn)(char *uplo, int *n, void *a, int *lda, int *info);
typedef void (*getrf_fn)(int *m, int *n, void *a, int *lda, int *pivots, int *info);
typedef void (*getri_fn)(int *n, void *a, int *lda, int *pivots, void *work, int *lwork, int *info);
typedef void (*evd_fn)(char *job, char *uplo, int *n, void *a, int *lda, void *w, void *work, int *lwork, int *iwork,
                       int *liwork, int *info);
typedef void (*evd_complex_fn)(char *job, char *uplo, int *n, void *a, int *lda, void *w, void *work, int *lwork,
                               void *rwork, int *lrwork, int *iwork, int *liwork, int *info);
typedef void (*gvd_fn)(int *kind, char *job, char *uplo, int *n, void *a, int *lda, void *b, int *ldb, void *w,
                       void *work, int *lwork, int *iwork, int *liwork, int *info);
typedef void (*gvd_complex_fn)(int *kind, char *job, char *uplo, int *n, void *a, int *lda, void *b, int *ldb, void *w,
                               void *work, int *lwork, void *rwork, int *lrwork, int *iwork, int *liwork, int *info);
typedef void (*trsv_fn)(char *uplo, char *trans, char *diag, int *n, void *a, int *lda, void *x, int *incx);
typedef void (*trsm_fn)(char *side, char *uplo, char *trans, char *diag, int *m, int *n, void *alpha, void *a, int *lda,
                        void *b, int *ldb);

static void *table[N_FUNCTIONS][N_TYPES];
static int table_is_filled = 0;

static int ready(void)
{
    static const char *const names[N_FUNCTIONS * N_TYPES] = {
        "spotrf", "dpotrf", "cpotrf", "zpotrf", "sgetrf", "dgetrf", "cgetrf", "zgetrf", "sgetri", "dgetri",
        "cgetri", "zgetri", "ssyevd", "dsyevd", "cheevd", "zheevd", "ssygvd", "dsygvd", "chegvd", "zhegvd",
        "strsv",  "dtrsv",  "ctrsv",  "ztrsv",  "strsm",  "dtrsm",  "ctrsm",  "ztrsm"};
    if (table_is_filled)
        return 0;
    table_is_filled = fill_table("theano_ng.tensor.linalg.lapack", N_FUNCTIONS * N_TYPES, names, &table[0][0]) == 0;
    return table_is_filled - 1;
}

/* Return the column of `table` for a square matrix's dtype. Return -1 with an exception set for any other array. */
static int check_square(PyObject *object, const char *who)
{
    if (!PyArray_Check(object) || PyArray_NDIM((PyArrayObject *)object) != 2) {
        PyErr_Format(PyExc_TypeError, "%s needs a matrix", who);
        return -1;
    }
    PyArrayObject *a = (PyArrayObject *)object;
    int type = blas_type(a);
    if (type < 0)
        return -1;
    if (PyArray_DIM(a, 0) != PyArray_DIM(a, 1))
        return linalg_error("%s needs a square matrix, but its shape is (%zd, %zd)", who, (Py_ssize_t)PyArray_DIM(a, 0),
                            (Py_ssize_t)PyArray_DIM(a, 1));
    /* The number of rows always fits into LAPACK's index type: larger square matrices do not fit into memory. */
    return ready() < 0 ? -1 : type;
}

/* Work space: on the stack if it is small, otherwise in recycled memory of a NumPy array. */
#define SMALL 4096

typedef struct {
    _Alignas(64) char small[SMALL];
    PyArrayObject *large;
} Memory;

static char *acquire_memory(Memory *memory, npy_intp rows, npy_intp cols, npy_intp size)
{
    memory->large = NULL;
    if (rows == 0 || cols == 0 || cols <= SMALL / size / rows)
        return memory->small;
    /* Allocate an array whose elements have `size` bytes: 16 bytes (complex128) at most. */
    npy_intp dims[2] = {rows, cols};
    int type = size == 4 ? NPY_FLOAT : size == 8 ? NPY_DOUBLE : NPY_CDOUBLE;
    memory->large = native_new(2, dims, type, 0);
    return memory->large == NULL ? NULL : PyArray_BYTES(memory->large);
}

static void release_memory(Memory *memory)
{
    Py_CLEAR(memory->large);
}

/* Copy one element. `size` is the element's size in bytes: 4, 8 or 16. */
#define MOVE(dst, src, size) \
    (size == 4 ? (void)memcpy(dst, src, 4) : size == 8 ? (void)memcpy(dst, src, 8) : (void)memcpy(dst, src, 16))

/* Copy in tiles, because one side is walked along columns and the other along rows. */
static inline __attribute__((always_inline)) void copy_tiled(char *dst, const char *src, npy_intp rows, npy_intp cols,
                                                             npy_intp s0, npy_intp s1, const npy_intp size)
{
    enum { TILE = 16 };
    for (npy_intp i0 = 0; i0 < rows; i0 += TILE)
        for (npy_intp j0 = 0; j0 < cols; j0 += TILE) {
            npy_intp i1 = i0 + TILE < rows ? i0 + TILE : rows, j1 = j0 + TILE < cols ? j0 + TILE : cols;
            for (npy_intp i = i0; i < i1; ++i)
                for (npy_intp j = j0; j < j1; ++j)
                    MOVE(dst + (i * cols + j) * size, src + i * s0 + j * s1, size);
        }
}

/* Copy rows x cols elements with any strides to a C-contiguous block. */
static void copy_dense(char *dst, const char *src, npy_intp rows, npy_intp cols, npy_intp s0, npy_intp s1,
                       npy_intp size)
{
    if (s1 == size || cols == 1) {
        if (s0 == cols * size || rows == 1)
            memcpy(dst, src, (size_t)(rows * cols * size));
        else if (cols == 1 && size == 8)
            for (npy_intp i = 0; i < rows; ++i)
                memcpy(dst + i * 8, src + i * s0, 8);
        else
            for (npy_intp i = 0; i < rows; ++i)
                memcpy(dst + i * cols * size, src + i * s0, (size_t)(cols * size));
    }
    else if (size == 4)
        copy_tiled(dst, src, rows, cols, s0, s1, 4);
    else if (size == 8)
        copy_tiled(dst, src, rows, cols, s0, s1, 8);
    else
        copy_tiled(dst, src, rows, cols, s0, s1, 16);
}

static void copy_matrix(char *dst, PyArrayObject *a)
{
    copy_dense(dst, PyArray_BYTES(a), PyArray_DIM(a, 0), PyArray_DIM(a, 1), PyArray_STRIDE(a, 0), PyArray_STRIDE(a, 1),
               PyArray_ITEMSIZE(a));
}

/* Copy a square matrix in the order in which its elements lie in memory, by rows or by columns. Return 1 if LAPACK
 * reads the copy as the matrix itself, 0 if LAPACK reads the copy as the transpose. */
static int copy_as_it_lies(char *dst, PyArrayObject *a)
{
    npy_intp n = PyArray_DIM(a, 0), s0 = PyArray_STRIDE(a, 0), s1 = PyArray_STRIDE(a, 1), size = PyArray_ITEMSIZE(a);
    int columns = s1 != size && s0 == size;
    copy_dense(dst, PyArray_BYTES(a), n, n, columns ? s1 : s0, columns ? s0 : s1, size);
    return columns;
}

/* The names of triangles refer to the matrix that LAPACK reads, the transpose of a block in C order. So the upper
 * triangle consists of the elements from the start of each row of the block to the diagonal. */

/* Write zeros to the triangle that the factor does not use, in a block with leading dimension ld. */
static void clear_other_triangle(char *data, npy_intp n, npy_intp ld, int upper, npy_intp size)
{
    for (npy_intp i = 0; i < n; ++i) {
        if (upper)
            memset(data + (i * ld + i + 1) * size, 0, (size_t)((n - i - 1) * size));
        else
            memset(data + i * ld * size, 0, (size_t)(i * size));
    }
}

/* Copy a matrix whose rows are `line` bytes apart. If each row is contiguous, copy only the triangle that LAPACK reads
 * later. */
static void copy_triangle(char *dst, const char *src, npy_intp n, npy_intp line, npy_intp step, npy_intp size,
                          int upper)
{
    if (step != size) {
        copy_dense(dst, src, n, n, line, step, size);
        return;
    }
    for (npy_intp i = 0; i < n; ++i) {
        npy_intp begin = upper ? 0 : i, end = upper ? i + 1 : n;
        memcpy(dst + (i * n + begin) * size, src + i * line + begin * size, (size_t)((end - begin) * size));
    }
}

static void fill_nan(char *data, npy_intp count, int type)
{
    npy_intp parts = type >= TYPE_C ? 2 * count : count;
    if (type == TYPE_S || type == TYPE_C)
        for (npy_intp i = 0; i < parts; ++i)
            ((npy_float32 *)data)[i] = NAN;
    else
        for (npy_intp i = 0; i < parts; ++i)
            ((npy_float64 *)data)[i] = NAN;
}

/* Compute the Cholesky factor of a Hermitian positive definite matrix. Only one triangle of the matrix is read; the
 * other triangle of the factor is zero. Input: a (n, n). */
NATIVE_FUNCTION(cholesky, lower, in_place, nan_for_error)
static int tng_cholesky(int nin, int nout, PyObject **in, PyObject **out, const struct cholesky_params *params)
{
    int type = check_square(in[0], "cholesky");
    if (type < 0)
        return -1;
    PyArrayObject *a = (PyArrayObject *)in[0];
    int n = (int)PyArray_DIM(a, 0), ld = n, upper = params->lower != 0, info = 0;
    npy_intp size = PyArray_ITEMSIZE(a);
    BlasMatrix m;
    char *data;
    if (params->in_place && PyArray_FailUnlessWriteable(a, "the matrix that cholesky overwrites") < 0)
        return -1;
    if (params->in_place && fits_blas(a, &m)) {
        Py_INCREF(a);
        native_set(out, (PyObject *)a);
        data = m.data;
        ld = m.ld;
        upper ^= m.transposed;
    }
    else {
        PyArrayObject *factor = native_alloc(out, 2, PyArray_DIMS(a), PyArray_TYPE(a));
        if (factor == NULL)
            return -1;
        data = PyArray_BYTES(factor);
        copy_triangle(data, PyArray_BYTES(a), n, PyArray_STRIDE(a, 0), PyArray_STRIDE(a, 1), size, upper);
    }
    if (n == 0)
        return 0;
    ((potrf_fn)table[FN_POTRF][type])(upper ? "U" : "L", &n, data, &ld, &info);
    /* Not every LAPACK detects NaN. A NaN in the triangle that is read always reaches the diagonal of the factor, so
     * check this diagonal. */
    for (int i = 0; i < n && info == 0; ++i) {
        const char *element = data + (npy_intp)i * (ld + 1) * size;
        if (size == 4 || type == TYPE_C ? isnan(*(const npy_float32 *)element) : isnan(*(const npy_float64 *)element))
            info = i + 1;
    }
    if (info > 0) {
        if (!params->nan_for_error)
            return linalg_error(
                "Matrix is not positive definite: of the %d leading minors, that of order %d is not positive", n, info);
        for (npy_intp i = 0; i < n; ++i)
            fill_nan(data + i * ld * size, n, type);
        return 0;
    }
    clear_other_triangle(data, n, ld, upper, size);
    return 0;
}

/* Compute the LU factors of a block, in place. Return 0. If the matrix is exactly singular, return the number of the
 * first zero pivot, counted from one. */
static int factor(int type, int n, char *data, int ld, int *pivots)
{
    int info = 0;
    ((getrf_fn)table[FN_GETRF][type])(&n, &n, data, &ld, pivots, &info);
    return info;
}

static void swap_rows(char *x, npy_intp i, npy_intp j, npy_intp bytes)
{
    char tmp[512];
    char *a = x + i * bytes, *b = x + j * bytes;
    for (; i != j && bytes > 0; bytes -= sizeof tmp, a += sizeof tmp, b += sizeof tmp) {
        size_t part = bytes < (npy_intp)sizeof tmp ? (size_t)bytes : sizeof tmp;
        memcpy(tmp, a, part);
        memcpy(a, b, part);
        memcpy(b, tmp, part);
    }
}

/* Solve a triangular system, with a triangle of the matrix that LAPACK reads or with the transpose of this triangle. x
 * is C-contiguous with the shape (n, k); it contains B and is overwritten by X. */
static void substitute(int type, int upper, int transpose, int unit, int n, int k, char *a, int ld, char *x)
{
    /* Up to FEW right-hand sides are solved one by one. Other right-hand sides are solved from the right, in place:
     * trsm then handles many of them at once. Up to SOME right-hand sides of a large system (LONG) are solved faster
     * from the left, in a column-major copy, if the triangle is not transposed. */
    enum { FEW = 4, SOME = 32, LONG = 64 };
    static const npy_float32 one_f[2] = {1, 0};
    static const npy_float64 one_d[2] = {1, 0};
    static const npy_intp sizes[N_TYPES] = {4, 8, 8, 16};
    void *one = type == TYPE_S || type == TYPE_C ? (void *)one_f : (void *)one_d;
    char *uplo = upper ? "U" : "L", *diagonal = unit ? "U" : "N";
    npy_intp size = sizes[type];
    Memory memory;
    char *columns;
    if (k <= FEW)
        for (int j = 0; j < k; ++j)
            ((trsv_fn)table[FN_TRSV][type])(uplo, transpose ? "T" : "N", diagonal, &n, a, &ld, x + j * size, &k);
    else if (!transpose && k <= SOME && n >= LONG && (columns = acquire_memory(&memory, k, n, size)) != NULL) {
        copy_dense(columns, x, k, n, size, k * size, size);
        ((trsm_fn)table[FN_TRSM][type])("L", uplo, "N", diagonal, &n, &k, one, a, &ld, columns, &n);
        copy_dense(x, columns, n, k, size, n * size, size);
        release_memory(&memory);
    }
    else {
        PyErr_Clear(); /* clears the error if there was no memory for the copy */
        ((trsm_fn)table[FN_TRSM][type])("R", uplo, transpose ? "N" : "T", diagonal, &k, &n, one, a, &ld, x, &k);
    }
}

/* Solve a system with a full matrix. LAPACK reads `lu` as A if `columns`, else as A^T; the factors overwrite `lu`. x is
 * C-contiguous with the shape (n, k); it contains B and is overwritten by X. */
static int solve_full(int type, int n, int k, char *lu, int ld, int columns, char *x, npy_intp size)
{
    Memory pivot_memory;
    int *pivots = (int *)acquire_memory(&pivot_memory, n, 1, sizeof(int));
    if (pivots == NULL)
        return -1;
    int info = factor(type, n, lu, ld, pivots);
    if (info == 0 && columns) {
        /* A = P L U */
        for (int i = 0; i < n; ++i)
            swap_rows(x, i, pivots[i] - 1, k * size);
        substitute(type, 0, 0, 1, n, k, lu, ld, x);
        substitute(type, 1, 0, 0, n, k, lu, ld, x);
    }
    else if (info == 0) {
        /* LAPACK has factorized A^T = P L U, so A = U^T L^T P^T */
        substitute(type, 1, 1, 0, n, k, lu, ld, x);
        substitute(type, 0, 1, 1, n, k, lu, ld, x);
        for (int i = n - 1; i >= 0; --i)
            swap_rows(x, i, pivots[i] - 1, k * size);
    }
    release_memory(&pivot_memory);
    return info > 0 ? linalg_error("Singular matrix: pivot %d of %d of its LU factors is zero", info, n) : 0;
}

static int diagonal_is_positive(int type, int n, const char *data, npy_intp size)
{
    for (npy_intp i = 0; i < n; ++i) {
        const char *element = data + (i * n + i) * size;
        if (!(type == TYPE_S ? *(const npy_float32 *)element > 0 : *(const npy_float64 *)element > 0))
            return 0;
    }
    return 1;
}

static int is_zero(int type, const char *element)
{
    const npy_float32 *f = (const npy_float32 *)element;
    const npy_float64 *d = (const npy_float64 *)element;
    if (type == TYPE_S || type == TYPE_C)
        return f[0] == 0 && (type == TYPE_S || f[1] == 0);
    return d[0] == 0 && (type == TYPE_D || d[1] == 0);
}

static int solve_triangular(int type, PyArrayObject *a, int k, int lower, char *x)
{
    int n = (int)PyArray_DIM(a, 0);
    npy_intp step = PyArray_STRIDE(a, 0) + PyArray_STRIDE(a, 1);
    for (int i = 0; i < n; ++i)
        if (is_zero(type, PyArray_BYTES(a) + i * step))
            return linalg_error("Singular matrix: element (%d, %d) of the triangular matrix is zero", i, i);
    BlasMatrix m = {0};
    if (as_blas(a, &m) < 0)
        return -1;
    substitute(type, lower != m.transposed, !m.transposed, 0, n, k, m.data, m.ld, x);
    Py_XDECREF(m.owned);
    return 0;
}

static int solve_general(int type, PyArrayObject *a, int k, int overwrite, char *x)
{
    int n = (int)PyArray_DIM(a, 0);
    npy_intp size = PyArray_ITEMSIZE(a);
    BlasMatrix m;
    if (overwrite && PyArray_ISWRITEABLE(a) && fits_blas(a, &m))
        return solve_full(type, n, k, m.data, m.ld, m.transposed, x, size);
    Memory memory;
    char *data = acquire_memory(&memory, n, n, size);
    if (data == NULL)
        return -1;
    int columns = copy_as_it_lies(data, a), status = solve_full(type, n, k, data, n, columns, x, size);
    release_memory(&memory);
    return status;
}

/* Return 1 if a contiguous n x n matrix equals its transpose. A matrix with NaN off the diagonal is not equal to its
 * transpose. */
static int is_symmetric(int type, npy_intp n, const char *data)
{
    enum { TILE = 16 };
    for (npy_intp i0 = 0; i0 < n; i0 += TILE)
        for (npy_intp j0 = 0; j0 <= i0; j0 += TILE)
            for (npy_intp i = i0; i < i0 + TILE && i < n; ++i)
                for (npy_intp j = j0; j < j0 + TILE && j < i; ++j)
                    if (type == TYPE_S
                            ? ((const npy_float32 *)data)[i * n + j] != ((const npy_float32 *)data)[j * n + i]
                            : ((const npy_float64 *)data)[i * n + j] != ((const npy_float64 *)data)[j * n + i])
                        return 0;
    return 1;
}

/* Solve a system whose matrix is declared symmetric. If the matrix is symmetric, real and positive definite, this takes
 * half the work of LU factors. Otherwise the system is solved with LU factors. */
static int solve_symmetric(int type, PyArrayObject *a, int k, int overwrite, char *x)
{
    int n = (int)PyArray_DIM(a, 0), info = 1;
    npy_intp size = PyArray_ITEMSIZE(a);
    if (type > TYPE_D)
        return solve_general(type, a, k, overwrite, x);
    Memory memory;
    char *data = acquire_memory(&memory, n, n, size);
    if (data == NULL)
        return -1;
    copy_as_it_lies(data, a);
    if (diagonal_is_positive(type, n, data, size) && is_symmetric(type, n, data))
        ((potrf_fn)table[FN_POTRF][type])("L", &n, data, &n, &info);
    if (info == 0) {
        substitute(type, 0, 0, 0, n, k, data, n, x);
        substitute(type, 0, 1, 0, n, k, data, n, x);
    }
    release_memory(&memory);
    return info == 0 ? 0 : solve_general(type, a, k, overwrite, x);
}

enum { GENERAL, SYMMETRIC, LOWER_TRIANGULAR, UPPER_TRIANGULAR };

/* Solve A X = B. Inputs: a (n, n), b (n) or (n, k), same dtype. `overwrite_a`: a may be overwritten; `overwrite_b`: X
 * overwrites b. */
NATIVE_FUNCTION(solve, structure, overwrite_a, overwrite_b)
static int tng_solve(int nin, int nout, PyObject **in, PyObject **out, const struct solve_params *params)
{
    int type = check_square(in[0], "solve");
    if (type < 0)
        return -1;
    PyArrayObject *a = (PyArrayObject *)in[0], *b = (PyArrayObject *)in[1];
    if (!PyArray_Check(in[1]) || PyArray_TYPE(b) != PyArray_TYPE(a) || PyArray_NDIM(b) < 1 || PyArray_NDIM(b) > 2) {
        PyErr_SetString(PyExc_TypeError, "solve: b must be a vector or a matrix with the dtype of A");
        return -1;
    }
    npy_intp n = PyArray_DIM(a, 0), size = PyArray_ITEMSIZE(a), k = PyArray_NDIM(b) == 1 ? 1 : PyArray_DIM(b, 1);
    if (PyArray_DIM(b, 0) != n) {
        PyErr_Format(PyExc_ValueError, "solve: A has %zd rows, but b has %zd; A.shape is (%zd, %zd)", (Py_ssize_t)n,
                     (Py_ssize_t)PyArray_DIM(b, 0), (Py_ssize_t)n, (Py_ssize_t)n);
        return -1;
    }
    if (k > INT_MAX) {
        PyErr_Format(PyExc_ValueError, "solve: %zd right-hand sides are too many for the index type of LAPACK",
                     (Py_ssize_t)k);
        return -1;
    }
    if (params->overwrite_b && PyArray_FailUnlessWriteable(b, "the right-hand side that solve overwrites") < 0)
        return -1;
    PyArrayObject *x = b;
    if (params->overwrite_b && native_has_c_strides(b) && PyArray_ISBEHAVED(b)) {
        Py_INCREF(b);
        native_set(out, (PyObject *)b);
    }
    else {
        x = native_alloc(out, PyArray_NDIM(b), PyArray_DIMS(b), PyArray_TYPE(b));
        if (x == NULL)
            return -1;
        if (n > 0 && k > 0)
            copy_dense(PyArray_BYTES(x), PyArray_BYTES(b), n, k, PyArray_STRIDE(b, 0),
                       PyArray_NDIM(b) == 1 ? size : PyArray_STRIDE(b, 1), size);
    }
    if (n == 0)
        return 0;
    char *data = PyArray_BYTES(x);
    switch (params->structure) {
    case SYMMETRIC: return solve_symmetric(type, a, (int)k, params->overwrite_a != 0, data);
    case LOWER_TRIANGULAR: return solve_triangular(type, a, (int)k, 1, data);
    case UPPER_TRIANGULAR: return solve_triangular(type, a, (int)k, 0, data);
    default: return solve_general(type, a, (int)k, params->overwrite_a != 0, data);
    }
}

/* A product of many factors, with separate mantissa and exponent. It overflows or underflows only if its value does. */
typedef struct {
    double re, im;
    int64_t exponent;
} Product;

static void multiply(Product *p, double re, double im)
{
    int exponent = 0, factor_exponent = 0;
    double largest = fmax(fabs(re), fabs(im));
    if (largest > 0 && isfinite(largest)) {
        frexp(largest, &factor_exponent);
        re = ldexp(re, -factor_exponent);
        im = ldexp(im, -factor_exponent);
    }
    double product_re = p->im == 0 && im == 0 ? p->re * re : p->re * re - p->im * im;
    double product_im = p->im == 0 && im == 0 ? 0 : p->re * im + p->im * re;
    largest = fmax(fabs(product_re), fabs(product_im));
    if (largest > 0 && isfinite(largest)) {
        frexp(largest, &exponent);
        product_re = ldexp(product_re, -exponent);
        product_im = ldexp(product_im, -exponent);
    }
    p->re = product_re;
    p->im = product_im;
    p->exponent += exponent + factor_exponent;
}

/* Compute the determinant. Input: a (n, n). Output: a 0-d array of the same dtype. */
static int tng_det(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    int type = check_square(in[0], "det");
    if (type < 0)
        return -1;
    PyArrayObject *a = (PyArrayObject *)in[0];
    int n = (int)PyArray_DIM(a, 0);
    npy_intp size = PyArray_ITEMSIZE(a);
    PyArrayObject *det = native_alloc(out, 0, NULL, PyArray_TYPE(a));
    if (det == NULL)
        return -1;
    Product p = {1, 0, 0};
    if (n > 0) {
        Memory memory, pivot_memory;
        char *lu = acquire_memory(&memory, n, n, size);
        int *pivots = (int *)acquire_memory(&pivot_memory, n, 1, sizeof(int));
        if (lu == NULL || pivots == NULL) {
            release_memory(&memory);
            release_memory(&pivot_memory);
            return -1;
        }
        copy_as_it_lies(lu, a); /* LAPACK may read the transpose, which has the same determinant */
        /* If a pivot is zero, the determinant is zero. The product of the diagonal would be NaN if a later pivot is
         * infinite or NaN. */
        if (factor(type, n, lu, n, pivots) > 0)
            p.re = 0;
        else
            for (npy_intp i = 0; i < n; ++i) {
                const char *element = lu + (i * n + i) * size;
                double sign = pivots[i] == i + 1 ? 1 : -1;
                switch (type) {
                case TYPE_S: multiply(&p, sign * *(const npy_float32 *)element, 0); break;
                case TYPE_D: multiply(&p, sign * *(const npy_float64 *)element, 0); break;
                case TYPE_C:
                    multiply(&p, sign * ((const npy_float32 *)element)[0], sign * ((const npy_float32 *)element)[1]);
                    break;
                default:
                    multiply(&p, sign * ((const npy_float64 *)element)[0], sign * ((const npy_float64 *)element)[1]);
                }
            }
        release_memory(&memory);
        release_memory(&pivot_memory);
    }
    int exponent = p.exponent > 100000 ? 100000 : p.exponent < -100000 ? -100000 : (int)p.exponent;
    double value[2] = {ldexp(p.re, exponent), ldexp(p.im, exponent)};
    void *target = PyArray_DATA(det);
    if (type == TYPE_S || type == TYPE_C) {
        ((npy_float32 *)target)[0] = (npy_float32)value[0];
        if (type == TYPE_C)
            ((npy_float32 *)target)[1] = (npy_float32)value[1];
    }
    else
        memcpy(target, value, (size_t)size);
    return 0;
}

/* Compute the inverse. Input: a (n, n). */
static int tng_inverse(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    int type = check_square(in[0], "inverse");
    if (type < 0)
        return -1;
    PyArrayObject *a = (PyArrayObject *)in[0];
    int n = (int)PyArray_DIM(a, 0);
    npy_intp size = PyArray_ITEMSIZE(a);
    PyArrayObject *inverse = native_alloc(out, 2, PyArray_DIMS(a), PyArray_TYPE(a));
    if (inverse == NULL)
        return -1;
    if (n == 0)
        return 0;
    /* The inverse of the transpose is the transpose of the inverse, so neither matrix needs a transposition. */
    char *data = PyArray_BYTES(inverse);
    copy_matrix(data, a);
    enum { BLOCK = 64 }; /* approximately LAPACK's block size for getri */
    int block = n < INT_MAX / BLOCK ? BLOCK : 1, work_size = n * block, info = 0;
    Memory pivot_memory, work_memory;
    int *pivots = (int *)acquire_memory(&pivot_memory, n, 1, sizeof(int));
    char *work = acquire_memory(&work_memory, n, block, size);
    int status = pivots == NULL || work == NULL ? -1 : 0;
    if (status == 0) {
        info = factor(type, n, data, n, pivots);
        if (info == 0)
            ((getri_fn)table[FN_GETRI][type])(&n, data, &n, pivots, work, &work_size, &info);
        if (info > 0)
            status = linalg_error("Singular matrix: pivot %d of %d of its LU factors is zero", info, n);
    }
    release_memory(&pivot_memory);
    release_memory(&work_memory);
    return status;
}

/* Compute the eigenvalues of a Hermitian matrix, or the generalized eigenvalues of a pair of Hermitian matrices, in
 * ascending order. Inputs: a (n, n), and optionally b (n, n), positive definite. Output: a real vector. */
NATIVE_FUNCTION(eigvalsh, lower)
static int tng_eigvalsh(int nin, int nout, PyObject **in, PyObject **out, const struct eigvalsh_params *params)
{
    PyArrayObject *matrices[2] = {(PyArrayObject *)in[0], (PyArrayObject *)in[nin - 1]};
    int type = check_square(in[0], "eigvalsh");
    if (type < 0)
        return -1;
    int n = (int)PyArray_DIM(matrices[0], 0), other = check_square(in[nin - 1], "eigvalsh");
    if (other < 0)
        return -1;
    if (other != type || PyArray_DIM(matrices[1], 0) != n)
        return linalg_error("eigvalsh needs two matrices of the same shape, but these have %d and %zd rows", n,
                            (Py_ssize_t)PyArray_DIM(matrices[1], 0));
    npy_intp size = PyArray_ITEMSIZE(matrices[0]), dims[1] = {n};
    int is_complex = type >= TYPE_C, real_size = (int)size / (is_complex ? 2 : 1);
    PyArrayObject *w = native_alloc(out, 1, dims, real_size == 4 ? NPY_FLOAT : NPY_DOUBLE);
    if (w == NULL)
        return -1;
    if (n == 0)
        return 0;
    /* The transposes, which LAPACK reads, have the same eigenvalues. */
    int upper = params->lower != 0, kind = 1, info = 0;
    char *uplo = upper ? "U" : "L", *values = PyArray_DATA(w);
    /* Without eigenvectors, the drivers need n * (64 + 2) elements of work space for blocks of 64 rows. */
    enum { BLOCK = 66 };
    int work_size = n < INT_MAX / BLOCK ? n * BLOCK : INT_MAX, real_work_size = n, int_work_size = 1, int_work = 0;
    Memory memories[4];
    char *a = acquire_memory(&memories[0], n, n, size), *b = nin == 1 ? a : NULL;
    memories[1].large = NULL;
    if (nin > 1)
        b = acquire_memory(&memories[1], n, n, size);
    char *work = acquire_memory(&memories[2], BLOCK, n, size),
         *real_work = acquire_memory(&memories[3], n, 1, real_size);
    int status = a == NULL || b == NULL || work == NULL || real_work == NULL ? -1 : 0;
    if (status == 0) {
        for (int i = 0; i < nin; ++i)
            copy_triangle(i ? b : a, PyArray_BYTES(matrices[i]), n, PyArray_STRIDE(matrices[i], 0),
                          PyArray_STRIDE(matrices[i], 1), size, upper);
        if (nin == 1 && is_complex)
            ((evd_complex_fn)table[FN_EVD][type])("N", uplo, &n, a, &n, values, work, &work_size, real_work,
                                                  &real_work_size, &int_work, &int_work_size, &info);
        else if (nin == 1)
            ((evd_fn)table[FN_EVD][type])("N", uplo, &n, a, &n, values, work, &work_size, &int_work, &int_work_size,
                                          &info);
        else if (is_complex)
            ((gvd_complex_fn)table[FN_GVD][type])(&kind, "N", uplo, &n, a, &n, b, &n, values, work, &work_size,
                                                  real_work, &real_work_size, &int_work, &int_work_size, &info);
        else
            ((gvd_fn)table[FN_GVD][type])(&kind, "N", uplo, &n, a, &n, b, &n, values, work, &work_size, &int_work,
                                          &int_work_size, &info);
        if (info > n)
            status = linalg_error(
                "Matrix b is not positive definite: of its %d leading minors, that of order %d is not positive", n,
                info - n);
        else if (info != 0)
            status = linalg_error("Eigenvalues did not converge");
    }
    for (int i = 0; i < 4; ++i)
        release_memory(&memories[i]);
    return status;
}

static const NativeEntry entries[] = {NATIVE_ENTRY(cholesky),   NATIVE_ENTRY(solve),    {"det", tng_det},
                                      {"inverse", tng_inverse}, NATIVE_ENTRY(eigvalsh), {NULL}};

NATIVE_MODULE(lapack, entries)
