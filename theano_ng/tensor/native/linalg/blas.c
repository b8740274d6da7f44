/* Products of matrices and vectors, through a table of BLAS function pointers.
 *
 * theano_ng.tensor.blas.table fills the table on the first call, from SciPy's BLAS or from the library given in
 * blas.ldflags. */
#include "blas_views.h"

enum { FN_GEMM, FN_GEMV, FN_GER, N_FUNCTIONS };

typedef void (*gemm_fn)(char *, char *, int *, int *, int *, void *, void *, int *, void *, int *, void *, void *,
                        int *);
typedef void (*gemv_fn)(char *, int *, int *, void *, void *, int *, void *, int *, void *, void *, int *);
typedef void (*ger_fn)(int *, int *, void *, void *, int *, void *, int *, void *, int *);

static void *table[N_FUNCTIONS][N_TYPES];
static int table_is_filled = 0;
static long blas_threads = 1; /* number of threads that the library may use */

static int fill(void)
{
    static const char *const names[N_FUNCTIONS * N_TYPES] = {"sgemm", "dgemm", "cgemm", "zgemm", "sgemv", "dgemv",
                                                             "cgemv", "zgemv", "sger",  "dger",  "cgeru", "zgeru"};
    if (fill_table("theano_ng.tensor.blas.table", N_FUNCTIONS * N_TYPES, names, &table[0][0]) < 0)
        return -1;
    PyObject *module = PyImport_ImportModule("theano_ng.tensor.blas.table");
    PyObject *threads = module == NULL ? NULL : PyObject_CallMethod(module, "threads", NULL);
    Py_XDECREF(module);
    if (threads == NULL)
        return -1;
    blas_threads = PyLong_AsLong(threads);
    Py_DECREF(threads);
    if (blas_threads == -1 && PyErr_Occurred())
        return -1;
    table_is_filled = 1;
    return 0;
}

static inline int ready(void)
{
    return table_is_filled ? 0 : fill();
}

static int check_same(int nin, PyObject **in, int type, int first, int last)
{
    for (int i = first; i <= last && i < nin; ++i) {
        if (!PyArray_Check(in[i]) || blas_type((PyArrayObject *)in[i]) != type) {
            if (!PyErr_Occurred())
                PyErr_Format(PyExc_TypeError, "the dtype of input %d differs from the dtype of input %d", i, first);
            return -1;
        }
    }
    return 0;
}

static int check_rank(PyObject *array, int nd, const char *name)
{
    if (PyArray_NDIM((PyArrayObject *)array) != nd) {
        PyErr_Format(PyExc_NotImplementedError, "rank(%s) != %d. rank(%s) is %d.", name, nd, name,
                     PyArray_NDIM((PyArrayObject *)array));
        return -1;
    }
    for (int i = 0; i < nd; ++i)
        if (PyArray_DIM((PyArrayObject *)array, i) > INT_MAX) {
            PyErr_Format(PyExc_ValueError, "%s has a dimension that is too large for the index type of BLAS", name);
            return -1;
        }
    return 0;
}

/* A vector in the form that BLAS reads. For a negative increment, BLAS takes the address of the last element, but
 * NumPy's data pointer is the address of the first. */
typedef struct {
    void *data;
    int inc;
    PyArrayObject *owned;
} BlasVector;

static int fits_blas_vector(PyArrayObject *a, BlasVector *v)
{
    npy_intp size = PyArray_ITEMSIZE(a), n = PyArray_DIM(a, 0), stride = PyArray_STRIDE(a, 0);
    if (!PyArray_ISBEHAVED_RO(a))
        return 0;
    v->data = PyArray_DATA(a);
    if (n <= 1) {
        v->inc = 1;
        return 1;
    }
    if (stride == 0 || stride % size != 0 || stride / size > INT_MAX || stride / size < -INT_MAX)
        return 0;
    v->inc = (int)(stride / size);
    if (stride < 0)
        v->data = (char *)v->data + (n - 1) * stride;
    return 1;
}

static int as_blas_vector(PyArrayObject *a, BlasVector *v)
{
    v->owned = NULL;
    if (fits_blas_vector(a, v))
        return 0;
    v->owned = (PyArrayObject *)PyArray_NewCopy(a, NPY_CORDER);
    if (v->owned == NULL)
        return -1;
    fits_blas_vector(v->owned, v);
    return 0;
}

static const double ZERO[2] = {0.0, 0.0};
static const double ONE_Z[2] = {1.0, 0.0};
static const float ONE_C[2] = {1.0f, 0.0f};

static void *one(int type)
{
    return type == TYPE_D || type == TYPE_Z ? (void *)ONE_Z : (void *)ONE_C;
}

/* z <- beta z + alpha x y for matrices that BLAS can read; z is written in place. */
static void blas_gemm(int type, void *alpha, const BlasMatrix *x, const BlasMatrix *y, void *beta, const BlasMatrix *z,
                      npy_intp rows, npy_intp inner, npy_intp cols)
{
    gemm_fn gemm = (gemm_fn)table[FN_GEMM][type];
    int m = (int)rows, k = (int)inner, n = (int)cols;
    int ld_x = x->ld, ld_y = y->ld, ld_z = z->ld;
    char no = 'N', yes = 'T';
    if (!z->transposed) /* compute the transposes: z' = y' x' */
        gemm(y->transposed ? &yes : &no, x->transposed ? &yes : &no, &n, &m, &k, alpha, y->data, &ld_y, x->data, &ld_x,
             beta, z->data, &ld_z);
    else
        gemm(x->transposed ? &no : &yes, y->transposed ? &no : &yes, &m, &n, &k, alpha, x->data, &ld_x, y->data, &ld_y,
             beta, z->data, &ld_z);
}

static int check_product(PyArrayObject *x, PyArrayObject *y)
{
    if (PyArray_DIM(x, 1) != PyArray_DIM(y, 0)) {
        PyErr_Format(PyExc_ValueError,
                     "Shape mismatch: x has %zd cols (and %zd rows) but y has %zd rows (and %zd cols)",
                     (Py_ssize_t)PyArray_DIM(x, 1), (Py_ssize_t)PyArray_DIM(x, 0), (Py_ssize_t)PyArray_DIM(y, 0),
                     (Py_ssize_t)PyArray_DIM(y, 1));
        return -1;
    }
    return 0;
}

static int is_zero_factor(int type, const void *factor)
{
    const npy_float32 *s = factor;
    const npy_float64 *d = factor;
    if (type == TYPE_S || type == TYPE_C)
        return s[0] == 0 && (type == TYPE_S || s[1] == 0);
    return d[0] == 0 && (type == TYPE_D || d[1] == 0);
}

/* Products with few columns use separate loops if the processor has wide registers and fused multiply-add. */
#if defined(__x86_64__) && defined(__GNUC__)
#define HAS_SKINNY (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
#define WIDEST __attribute__((target("avx2,fma")))
#define REAL npy_float32
#define NAME(f) f##_f32
#include "skinny.h"
#include "gemv.h"
#undef REAL
#undef NAME
#define REAL npy_float64
#define NAME(f) f##_f64
#include "skinny.h"
#include "gemv.h"
#undef REAL
#undef NAME

/* Multiply with the loops of skinny.h and return 1 if they suit the product. Return 0 if BLAS must multiply, or -1 with
 * an exception set. */
static int multiply_skinny(int type, const void *alpha, PyArrayObject *x, PyArrayObject *y, const void *beta,
                           PyArrayObject *z)
{
    if (type > TYPE_D || !HAS_SKINNY || !PyArray_ISBEHAVED_RO(x) || !PyArray_ISBEHAVED_RO(y) || !PyArray_ISBEHAVED(z))
        return 0;
    return (type == TYPE_S ? multiply_skinny_f32 : multiply_skinny_f64)(alpha, x, y, beta, z);
}

/* Compute y <- beta y + alpha A x with the loops of gemv.h, and return 1. Return 0 if BLAS must compute the product: if
 * the loops do not support the type or the layout, if the matrix is large and BLAS has several threads, or if alpha =
 * 0, because A and x must not be read then. */
static int multiply_vector(int type, npy_intp m, npy_intp n, const void *alpha, const BlasMatrix *a,
                           const BlasVector *x, const void *beta, const BlasVector *y)
{
    if (type > TYPE_D || !HAS_SKINNY || (blas_threads > 1 && m * n > 131072) || is_zero_factor(type, alpha))
        return 0;
    return (type == TYPE_S ? multiply_vector_f32 : multiply_vector_f64)(m, n, alpha, a, x, beta, y);
}
#else
#define multiply_vector(type, m, n, alpha, a, x, beta, y) 0
#define multiply_skinny(type, alpha, x, y, beta, z) 0
#endif

/* z <- beta z + alpha x y. If BLAS cannot write z, it writes a C-contiguous temporary that is copied back. */
static int multiply_into(int type, void *alpha, PyArrayObject *x, PyArrayObject *y, void *beta, PyArrayObject *z)
{
    BlasMatrix mx, my, mz;
    mz.owned = NULL;
    /* If alpha is zero, the inner dimension passed to BLAS is zero: x and y are not read, even if they contain NaN. */
    int zero = is_zero_factor(type, alpha);
    int done = zero ? 0 : multiply_skinny(type, alpha, x, y, beta, z);
    if (done != 0)
        return done < 0 ? -1 : 0;
    if (as_blas(x, &mx) < 0)
        return -1;
    if (as_blas(y, &my) < 0 || as_blas(z, &mz) < 0) {
        Py_XDECREF(mx.owned);
        return -1;
    }
    int status = 0;
    if (PyArray_SIZE(z) > 0)
        blas_gemm(type, alpha, &mx, &my, beta, &mz, PyArray_DIM(x, 0), zero ? 0 : PyArray_DIM(x, 1), PyArray_DIM(y, 1));
    if (mz.owned != NULL)
        status = PyArray_CopyInto(z, mz.owned);
    Py_XDECREF(mx.owned);
    Py_XDECREF(my.owned);
    Py_XDECREF(mz.owned);
    return status;
}

/* out = x y. Inputs: x (m, k), y (k, n), same dtype. */
static int tng_dot22(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    PyArrayObject *x = (PyArrayObject *)in[0], *y = (PyArrayObject *)in[1];
    int type = blas_type(x);
    if (type < 0 || ready() < 0 || check_same(nin, in, type, 0, 1) < 0 || check_rank(in[0], 2, "x") < 0
        || check_rank(in[1], 2, "y") < 0 || check_product(x, y) < 0)
        return -1;
    npy_intp dims[2] = {PyArray_DIM(x, 0), PyArray_DIM(y, 1)};
    PyArrayObject *z = native_alloc(out, 2, dims, PyArray_TYPE(x));
    return z == NULL ? -1 : multiply_into(type, one(type), x, y, (void *)ZERO, z);
}

/* out = scalar x y. Inputs: x, y, scalar (0-d), same dtype. */
static int tng_dot22scalar(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    PyArrayObject *x = (PyArrayObject *)in[0], *y = (PyArrayObject *)in[1];
    int type = blas_type(x);
    if (type < 0 || ready() < 0 || check_same(nin, in, type, 0, 2) < 0 || check_rank(in[0], 2, "x") < 0
        || check_rank(in[1], 2, "y") < 0 || check_rank(in[2], 0, "scalar") < 0 || check_product(x, y) < 0)
        return -1;
    npy_intp dims[2] = {PyArray_DIM(x, 0), PyArray_DIM(y, 1)};
    PyArrayObject *z = native_alloc(out, 2, dims, PyArray_TYPE(x));
    return z == NULL ? -1 : multiply_into(type, PyArray_DATA((PyArrayObject *)in[2]), x, y, (void *)ZERO, z);
}

/* Put into *out the array that an operation such as z <- b z + a x y updates: the input itself if the operation works
 * in place, otherwise a copy of the input. If the values are not needed, the array only has the input's shape. Return a
 * borrowed reference, or NULL with an exception set. */
static PyArrayObject *accumulator(PyObject *input, PyObject **out, int inplace, int needs_values)
{
    PyArrayObject *z = (PyArrayObject *)input;
    if (inplace) {
        if (PyArray_FailUnlessWriteable(z, "the matrix or vector that BLAS updates in place") < 0)
            return NULL;
        Py_INCREF(input);
        native_set(out, input);
        return z;
    }
    PyArrayObject *target = native_alloc(out, PyArray_NDIM(z), PyArray_DIMS(z), PyArray_TYPE(z));
    if (target != NULL && needs_values && PyArray_CopyInto(target, z) < 0)
        return NULL;
    return target;
}

static int is_zero(PyArrayObject *scalar)
{
    static const char zeros[16] = {0};
    return memcmp(PyArray_DATA(scalar), zeros, PyArray_ITEMSIZE(scalar)) == 0;
}

/* out = b z + a x y. Inputs: z (m, n), a (0-d), x (m, k), y (k, n), b (0-d). */
NATIVE_FUNCTION(gemm, in_place)
static int tng_gemm(int nin, int nout, PyObject **in, PyObject **out, const struct gemm_params *params)
{
    PyArrayObject *z = (PyArrayObject *)in[0], *x = (PyArrayObject *)in[2], *y = (PyArrayObject *)in[3];
    int type = blas_type(z);
    if (type < 0 || ready() < 0 || check_same(nin, in, type, 0, 4) < 0 || check_rank(in[0], 2, "z") < 0
        || check_rank(in[1], 0, "a") < 0 || check_rank(in[2], 2, "x") < 0 || check_rank(in[3], 2, "y") < 0
        || check_rank(in[4], 0, "b") < 0 || check_product(x, y) < 0)
        return -1;
    if (PyArray_DIM(z, 0) != PyArray_DIM(x, 0) || PyArray_DIM(z, 1) != PyArray_DIM(y, 1)) {
        PyErr_Format(PyExc_ValueError,
                     "Shape mismatch: z has shape (%zd, %zd) but the product of x and y has shape (%zd, %zd)",
                     (Py_ssize_t)PyArray_DIM(z, 0), (Py_ssize_t)PyArray_DIM(z, 1), (Py_ssize_t)PyArray_DIM(x, 0),
                     (Py_ssize_t)PyArray_DIM(y, 1));
        return -1;
    }
    PyArrayObject *b = (PyArrayObject *)in[4];
    PyArrayObject *target = accumulator(in[0], out, params->in_place != 0, !is_zero(b));
    if (target == NULL)
        return -1;
    return multiply_into(type, PyArray_DATA((PyArrayObject *)in[1]), x, y, PyArray_DATA(b), target);
}

/* y <- beta y + alpha a x. */
static int gemv_into(int type, void *alpha, PyArrayObject *a, PyArrayObject *x, void *beta, PyArrayObject *y)
{
    BlasMatrix ma;
    BlasVector vx, vy;
    vx.owned = vy.owned = NULL;
    if (as_blas(a, &ma) < 0)
        return -1;
    if (as_blas_vector(x, &vx) < 0 || as_blas_vector(y, &vy) < 0) {
        Py_XDECREF(ma.owned);
        Py_XDECREF(vx.owned);
        return -1;
    }
    int m = (int)PyArray_DIM(a, 0), n = (int)PyArray_DIM(a, 1), status = 0;
    char no = 'N', yes = 'T';
    if (m > 0) {
        if (n == 0) { /* BLAS would not change y, but the result is beta y */
            /* scale y by beta: gemm reads y as a matrix with one row, and adds an empty product */
            int none = 0, unit = 1, ld = vy.inc > 0 ? vy.inc : -vy.inc;
            char *start = (char *)vy.data;
            ((gemm_fn)table[FN_GEMM][type])(&no, &no, &unit, &m, &none, alpha, start, &unit, start, &unit, beta, start,
                                            &ld);
        }
        else if (multiply_vector(type, m, n, alpha, &ma, &vx, beta, &vy))
            ;
        else if (!ma.transposed)
            ((gemv_fn)table[FN_GEMV][type])(&yes, &n, &m, alpha, ma.data, &ma.ld, vx.data, &vx.inc, beta, vy.data,
                                            &vy.inc);
        else
            ((gemv_fn)table[FN_GEMV][type])(&no, &m, &n, alpha, ma.data, &ma.ld, vx.data, &vx.inc, beta, vy.data,
                                            &vy.inc);
    }
    if (vy.owned != NULL)
        status = PyArray_CopyInto(y, vy.owned);
    Py_XDECREF(ma.owned);
    Py_XDECREF(vx.owned);
    Py_XDECREF(vy.owned);
    return status;
}

/* out = b y + a A x. Inputs: y (m), a (0-d), A (m, n), x (n), b (0-d). */
NATIVE_FUNCTION(gemv, in_place)
static int tng_gemv(int nin, int nout, PyObject **in, PyObject **out, const struct gemv_params *params)
{
    PyArrayObject *y = (PyArrayObject *)in[0], *a = (PyArrayObject *)in[2], *x = (PyArrayObject *)in[3];
    int type = blas_type(y);
    if (type < 0 || ready() < 0 || check_same(nin, in, type, 0, 4) < 0 || check_rank(in[0], 1, "y") < 0
        || check_rank(in[1], 0, "alpha") < 0 || check_rank(in[2], 2, "A") < 0 || check_rank(in[3], 1, "x") < 0
        || check_rank(in[4], 0, "beta") < 0)
        return -1;
    if (PyArray_DIM(a, 0) != PyArray_DIM(y, 0)) {
        PyErr_Format(PyExc_ValueError, "Shape mismatch: A.shape[0] != y.shape[0] (%zd, %zd)",
                     (Py_ssize_t)PyArray_DIM(a, 0), (Py_ssize_t)PyArray_DIM(y, 0));
        return -1;
    }
    if (PyArray_DIM(a, 1) != PyArray_DIM(x, 0)) {
        PyErr_Format(PyExc_ValueError, "Shape mismatch: A.shape[1] != x.shape[0] (%zd, %zd)",
                     (Py_ssize_t)PyArray_DIM(a, 1), (Py_ssize_t)PyArray_DIM(x, 0));
        return -1;
    }
    PyArrayObject *b = (PyArrayObject *)in[4];
    PyArrayObject *target = accumulator(in[0], out, params->in_place != 0, !is_zero(b));
    if (target == NULL)
        return -1;
    return gemv_into(type, PyArray_DATA((PyArrayObject *)in[1]), a, x, PyArray_DATA(b), target);
}

/* out = A + alpha x y'. Inputs: A (m, n), alpha (0-d), x (m), y (n). */
NATIVE_FUNCTION(ger, in_place)
static int tng_ger(int nin, int nout, PyObject **in, PyObject **out, const struct ger_params *params)
{
    PyArrayObject *a = (PyArrayObject *)in[0], *x = (PyArrayObject *)in[2], *y = (PyArrayObject *)in[3];
    int type = blas_type(a);
    if (type < 0 || ready() < 0 || check_same(nin, in, type, 0, 3) < 0 || check_rank(in[0], 2, "A") < 0
        || check_rank(in[1], 0, "alpha") < 0 || check_rank(in[2], 1, "x") < 0 || check_rank(in[3], 1, "y") < 0)
        return -1;
    if (PyArray_DIM(a, 0) != PyArray_DIM(x, 0)) {
        PyErr_SetString(PyExc_ValueError, "Shape mismatch: A.shape[0] != x.shape[0]");
        return -1;
    }
    if (PyArray_DIM(a, 1) != PyArray_DIM(y, 0)) {
        PyErr_SetString(PyExc_ValueError, "Shape mismatch: A.shape[1] != y.shape[0]");
        return -1;
    }
    PyArrayObject *target = accumulator(in[0], out, params->in_place != 0, 1);
    if (target == NULL)
        return -1;
    BlasMatrix m = {0};
    BlasVector vx = {0}, vy = {0};
    int status = -1;
    if (as_blas(target, &m) == 0 && as_blas_vector(x, &vx) == 0 && as_blas_vector(y, &vy) == 0) {
        int rows = (int)PyArray_DIM(a, 0), cols = (int)PyArray_DIM(a, 1);
        ger_fn ger = (ger_fn)table[FN_GER][type];
        void *alpha = PyArray_DATA((PyArrayObject *)in[1]);
        if (rows > 0 && cols > 0) {
            if (!m.transposed)
                ger(&cols, &rows, alpha, vy.data, &vy.inc, vx.data, &vx.inc, m.data, &m.ld);
            else
                ger(&rows, &cols, alpha, vx.data, &vx.inc, vy.data, &vy.inc, m.data, &m.ld);
        }
        status = m.owned != NULL ? PyArray_CopyInto(target, m.owned) : 0;
    }
    Py_XDECREF(m.owned);
    Py_XDECREF(vx.owned);
    Py_XDECREF(vy.owned);
    return status;
}

/* Return a view of a vector as a matrix with one row. */
static PyArrayObject *as_row(PyArrayObject *v)
{
    npy_intp dims[2] = {1, PyArray_DIM(v, 0)}, strides[2] = {PyArray_ITEMSIZE(v), PyArray_STRIDE(v, 0)};
    Py_INCREF(PyArray_DESCR(v));
    return (PyArrayObject *)PyArray_NewFromDescr(&PyArray_Type, PyArray_DESCR(v), 2, dims, strides, PyArray_DATA(v),
                                                 PyArray_FLAGS(v) & ~(NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_F_CONTIGUOUS),
                                                 NULL);
}

static PyArrayObject *as_transposed(PyArrayObject *a)
{
    return (PyArrayObject *)PyArray_Transpose(a, NULL);
}

/* out = dot(x, y) for ranks (1, 1), (1, 2), (2, 1), (2, 2), same dtype. */
static int tng_dot(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    PyArrayObject *x = (PyArrayObject *)in[0], *y = (PyArrayObject *)in[1];
    int nx = PyArray_NDIM(x), ny = PyArray_NDIM(y), type = blas_type(x);
    if (nx == 2 && ny == 2)
        return tng_dot22(nin, nout, in, out, NULL);
    if (type < 0 || ready() < 0 || check_same(nin, in, type, 0, 1) < 0 || check_rank(in[0], nx, "x") < 0
        || check_rank(in[1], ny, "y") < 0)
        return -1;
    if (nx < 1 || nx > 2 || ny < 1 || ny > 2) {
        PyErr_Format(PyExc_ValueError, "dot: ranks %d and %d", nx, ny);
        return -1;
    }
    if (PyArray_DIM(x, nx - 1) != PyArray_DIM(y, 0)) {
        PyErr_Format(PyExc_ValueError, "Shape mismatch: the last dimension of x has length %zd but the first of y %zd",
                     (Py_ssize_t)PyArray_DIM(x, nx - 1), (Py_ssize_t)PyArray_DIM(y, 0));
        return -1;
    }
    npy_intp dims[1] = {nx == 2 ? PyArray_DIM(x, 0) : ny == 2 ? PyArray_DIM(y, 1) : 1};
    PyArrayObject *z = native_alloc(out, nx + ny - 2, dims, PyArray_TYPE(x));
    if (z == NULL)
        return -1;
    PyArrayObject *matrix, *vector = nx == 2 ? y : x, *target = z;
    if (nx == 2) {
        matrix = x;
        Py_INCREF(matrix);
    }
    else
        matrix = ny == 2 ? as_transposed(y) : as_row(y);
    if (matrix == NULL)
        return -1;
    if (nx == 1 && ny == 1) { /* gemv writes a vector: wrap the 0-d result as a vector */
        npy_intp length = 1;
        target = (PyArrayObject *)PyArray_SimpleNewFromData(1, &length, PyArray_TYPE(z), PyArray_DATA(z));
        if (target == NULL) {
            Py_DECREF(matrix);
            return -1;
        }
    }
    int status = gemv_into(type, one(type), matrix, vector, (void *)ZERO, target);
    if (target != z)
        Py_DECREF(target);
    Py_DECREF(matrix);
    return status;
}

/* Return a view of the first matrix of a stack. */
static PyArrayObject *first_matrix(PyArrayObject *stack)
{
    Py_INCREF(PyArray_DESCR(stack));
    return (PyArrayObject *)PyArray_NewFromDescr(
        &PyArray_Type, PyArray_DESCR(stack), 2, PyArray_DIMS(stack) + 1, PyArray_STRIDES(stack) + 1,
        PyArray_DATA(stack), PyArray_FLAGS(stack) & (NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE), NULL);
}

/* A stack of matrices in the form that BLAS reads: its first matrix, and the bytes from one matrix to the next. */
typedef struct {
    BlasMatrix first;
    npy_intp step;
    PyArrayObject *owned;
} BlasStack;

static int as_blas_stack(PyArrayObject *stack, BlasStack *s)
{
    s->owned = NULL;
    PyArrayObject *matrix = first_matrix(stack);
    if (matrix == NULL)
        return -1;
    int fits = fits_blas(matrix, &s->first) && PyArray_ISBEHAVED_RO(stack);
    Py_DECREF(matrix);
    if (!fits) {
        s->owned = stack = (PyArrayObject *)PyArray_NewCopy(stack, NPY_CORDER);
        if (stack == NULL || (matrix = first_matrix(stack)) == NULL) {
            Py_CLEAR(s->owned);
            return -1;
        }
        fits_blas(matrix, &s->first);
        Py_DECREF(matrix);
    }
    s->step = PyArray_STRIDE(stack, 0);
    return 0;
}

/* Compute products of small matrices, for which a call of BLAS costs more than the product: z[b] = x[b] y[b]. z is
 * contiguous; the rows of y have unit stride. Strides are in elements. */
#define SMALL_PRODUCTS(name, real)                                                                                \
    static inline __attribute__((always_inline)) void name##_of(                                                  \
        npy_intp batch, npy_intp m, npy_intp k, const npy_intp n, const real *x, npy_intp x_step, npy_intp x_row, \
        npy_intp x_col, const real *y, npy_intp y_step, npy_intp y_row, real *z)                                  \
    {                                                                                                             \
        for (npy_intp b = 0; b < batch; ++b, x += x_step, y += y_step)                                            \
            for (npy_intp i = 0; i < m; ++i, z += n) {                                                            \
                real sums[SMALL] = {0};                                                                           \
                for (npy_intp p = 0; p < k; ++p) {                                                                \
                    real factor = x[i * x_row + p * x_col];                                                       \
                    for (npy_intp j = 0; j < n; ++j)                                                              \
                        sums[j] += factor * y[p * y_row + j];                                                     \
                }                                                                                                 \
                memcpy(z, sums, n * sizeof(real));                                                                \
            }                                                                                                     \
    }                                                                                                             \
    static void name(npy_intp batch, npy_intp m, npy_intp k, npy_intp n, const void *x, npy_intp x_step,          \
                     npy_intp x_row, npy_intp x_col, const void *y, npy_intp y_step, npy_intp y_row, void *z)     \
    {                                                                                                             \
        switch (n) {                                                                                              \
        case 1: name##_of(batch, m, k, 1, x, x_step, x_row, x_col, y, y_step, y_row, z); break;                   \
        case 2: name##_of(batch, m, k, 2, x, x_step, x_row, x_col, y, y_step, y_row, z); break;                   \
        case 3: name##_of(batch, m, k, 3, x, x_step, x_row, x_col, y, y_step, y_row, z); break;                   \
        case 4: name##_of(batch, m, k, 4, x, x_step, x_row, x_col, y, y_step, y_row, z); break;                   \
        case 8: name##_of(batch, m, k, 8, x, x_step, x_row, x_col, y, y_step, y_row, z); break;                   \
        default: name##_of(batch, m, k, n, x, x_step, x_row, x_col, y, y_step, y_row, z);                         \
        }                                                                                                         \
    }
#define SMALL 8
SMALL_PRODUCTS(small_products_f32, npy_float32)
SMALL_PRODUCTS(small_products_f64, npy_float64)

/* Return a stack of vectors (b, k) as a view: a stack of rows (b, 1, k) if `rows`, otherwise a stack of columns (b, k,
 * 1). If `a` is already a stack of matrices, return `a`. The result is a new reference. */
static PyArrayObject *as_matrices(PyArrayObject *a, int rows)
{
    if (PyArray_NDIM(a) == 3) {
        Py_INCREF(a);
        return a;
    }
    int along = rows ? 2 : 1;
    npy_intp dims[3] = {PyArray_DIM(a, 0), 1, 1}, strides[3] = {PyArray_STRIDE(a, 0), 0, 0};
    dims[along] = PyArray_DIM(a, 1);
    strides[along] = PyArray_STRIDE(a, 1);
    strides[3 - along] = PyArray_ITEMSIZE(a);
    Py_INCREF(PyArray_DESCR(a));
    PyArrayObject *view =
        (PyArrayObject *)PyArray_NewFromDescr(&PyArray_Type, PyArray_DESCR(a), 3, dims, strides, PyArray_DATA(a),
                                              PyArray_FLAGS(a) & (NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE), NULL);
    if (view == NULL)
        return NULL;
    Py_INCREF(a);
    if (PyArray_SetBaseObject(view, (PyObject *)a) < 0) {
        Py_DECREF(view);
        return NULL;
    }
    return view;
}

/* z[i] = x[i] y[i] for stacks of matrices of one dtype; z is contiguous. */
static int multiply_stacks(int type, PyArrayObject *x, PyArrayObject *y, PyArrayObject *z)
{
    const npy_intp *dims = PyArray_DIMS(z);
    if (PyArray_SIZE(z) == 0)
        return 0;
    BlasStack sx, sy, sz;
    if (as_blas_stack(x, &sx) < 0)
        return -1;
    if (as_blas_stack(y, &sy) < 0) {
        Py_XDECREF(sx.owned);
        return -1;
    }
    /* as_blas_stack does not copy z, because z is contiguous. It can still fail if there is no memory for a view. */
    int status = as_blas_stack(z, &sz);
    npy_intp inner = PyArray_DIM(x, 2), size = PyArray_ITEMSIZE(x);
    if (status < 0)
        ;
    else if (type <= TYPE_D && !sy.first.transposed && dims[1] <= SMALL && dims[2] <= SMALL && inner <= SMALL
             && sx.step % size == 0 && sy.step % size == 0)
        (type == TYPE_S ? small_products_f32 : small_products_f64)(
            dims[0], dims[1], inner, dims[2], sx.first.data, sx.step / size, sx.first.transposed ? 1 : sx.first.ld,
            sx.first.transposed ? sx.first.ld : 1, sy.first.data, sy.step / size, sy.first.ld, PyArray_DATA(z));
    else
        for (npy_intp i = 0; i < dims[0]; ++i) {
            blas_gemm(type, one(type), &sx.first, &sy.first, (void *)ZERO, &sz.first, dims[1], inner, dims[2]);
            sx.first.data = (char *)sx.first.data + sx.step;
            sy.first.data = (char *)sy.first.data + sy.step;
            sz.first.data = (char *)sz.first.data + sz.step;
        }
    Py_XDECREF(sx.owned);
    Py_XDECREF(sy.owned);
    return status;
}

static int mismatch(const char *what, PyArrayObject *x, PyArrayObject *y)
{
    PyObject *xs = PyArray_IntTupleFromIntp(PyArray_NDIM(x), PyArray_DIMS(x)),
             *ys = PyArray_IntTupleFromIntp(PyArray_NDIM(y), PyArray_DIMS(y));
    if (xs != NULL && ys != NULL)
        PyErr_Format(PyExc_TypeError, "Shape mismatch: %s unequal. x.shape is %R, y.shape is %R.", what, xs, ys);
    Py_XDECREF(xs);
    Py_XDECREF(ys);
    return -1;
}

/* out[i] = x[i] y[i]. Inputs: x (b, m, k) or (b, k), y (b, k, n) or (b, k), same dtype. */
static int tng_batched_dot(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    PyArrayObject *x = (PyArrayObject *)in[0], *y = (PyArrayObject *)in[1];
    int type = blas_type(x), x_nd = PyArray_NDIM(x), y_nd = PyArray_NDIM(y);
    if (type < 0 || ready() < 0 || check_same(nin, in, type, 0, 1) < 0 || (x_nd != 2 && check_rank(in[0], 3, "x") < 0)
        || (y_nd != 2 && check_rank(in[1], 3, "y") < 0))
        return -1;
    if (PyArray_DIM(x, 0) != PyArray_DIM(y, 0))
        return mismatch("batch sizes", x, y);
    if (PyArray_DIM(x, x_nd - 1) != PyArray_DIM(y, 1))
        return mismatch("summation axis sizes", x, y);
    npy_intp dims[3] = {PyArray_DIM(x, 0)};
    int nd = 1;
    if (x_nd == 3)
        dims[nd++] = PyArray_DIM(x, 1);
    if (y_nd == 3)
        dims[nd++] = PyArray_DIM(y, 2);
    for (int i = 1; i < 3; ++i)
        if ((x_nd > i && PyArray_DIM(x, i) > INT_MAX) || (y_nd > i && PyArray_DIM(y, i) > INT_MAX)) {
            PyErr_SetString(PyExc_ValueError, "batched_dot: a dimension is too large for the index type of BLAS");
            return -1;
        }
    PyArrayObject *z = native_alloc(out, nd, dims, PyArray_TYPE(x));
    if (z == NULL)
        return -1;
    npy_intp stack[3] = {dims[0], x_nd == 3 ? dims[1] : 1, y_nd == 3 ? dims[nd - 1] : 1};
    PyArray_Dims shape = {stack, 3};
    PyArrayObject *xs = as_matrices(x, 1), *ys = as_matrices(y, 0),
                  *zs = (PyArrayObject *)PyArray_Newshape(z, &shape, NPY_CORDER);
    int status = xs == NULL || ys == NULL || zs == NULL ? -1 : multiply_stacks(type, xs, ys, zs);
    Py_XDECREF(xs);
    Py_XDECREF(ys);
    Py_XDECREF(zs);
    return status;
}

static const NativeEntry entries[] = {{"dot22", tng_dot22},
                                      {"dot22scalar", tng_dot22scalar},
                                      NATIVE_ENTRY(gemm),
                                      NATIVE_ENTRY(gemv),
                                      NATIVE_ENTRY(ger),
                                      {"dot", tng_dot},
                                      {"batched_dot", tng_batched_dot},
                                      {NULL}};

NATIVE_MODULE(blas, entries)
