/* Linear systems and factorizations on CUDA devices, by cuSOLVER and cuBLAS (device/cusolver.c, device/cublas_solve.c).
 *
 * The libraries store matrices by columns, so they read a matrix in C order as its transpose. The code rarely transposes
 * matrices for them. It uses that the lower triangle of a matrix is the upper triangle of its transpose, and that a
 * system with a matrix is a system with the transpose of its transpose.
 *
 * The routines report singular matrices by numbers on the device. A node reads them in one transfer, after its last
 * routine. The kernels of kernels/linalg.py find what the routines do not report. */
#include <limits.h>

#include "common/linalg_error.h"
#include "context.h"
#include "cublas_solve.h"
#include "cusolver.h"
#include "gpu_axes.h"

/* The conditions and the group of `check_diagonal` in kernels/linalg.py */
enum condition { ZERO, NOT_POSITIVE, NOT_A_NUMBER };
enum { GROUP = 256 };

/* ---- numbers that routines and kernels report ---- */

/* The places of the numbers. A negative number means that an argument of a routine is wrong. */
enum { FACTORED, CHECKED, SOLVED, N_REPORTS };

typedef struct {
    gpucontext *ctx;
    gpudata *memory;
    int32_t numbers[N_REPORTS];
} Reports;

/* Allocate the numbers on the device, and set them to 0. */
static int reports_begin(Reports *reports, PyGpuContextObject *ctx, const char *who)
{
    int code = GA_NO_ERROR;
    *reports = (Reports){.ctx = ctx->ctx};
    reports->memory = gpudata_alloc(ctx->ctx, sizeof reports->numbers, NULL, 0, &code);
    if (code == GA_NO_ERROR)
        code = gpudata_memset(reports->memory, 0, 0);
    return code == GA_NO_ERROR ? 0 : gpu_failed(ctx->ctx, code, who);
}

static device_memory report_at(const Reports *reports, int place)
{
    return reports->memory->memory + (size_t)place * sizeof *reports->numbers;
}

/* Wait for the device, and read the numbers. */
static int reports_read(Reports *reports, const char *who)
{
    int code;
    Py_BEGIN_ALLOW_THREADS code = gpudata_read(reports->numbers, reports->memory, 0, sizeof reports->numbers);
    Py_END_ALLOW_THREADS if (code != GA_NO_ERROR) return gpu_failed(reports->ctx, code, who);
    for (int i = 0; i < N_REPORTS; ++i)
        if (reports->numbers[i] < 0) {
            PyErr_Format(PyExc_RuntimeError, "%s: cuSOLVER refuses argument %d of a routine", who,
                         -reports->numbers[i]);
            return -1;
        }
    return 0;
}

static void reports_end(Reports *reports)
{
    gpudata_release(reports->memory);
}

/* ---- matrices ---- */

static device_memory address_of(const PyGpuArrayObject *a)
{
    return a->ga.data->memory + a->ga.offset;
}

/* Return a device array of float32 or float64 with `nd` axes that a library can read, or NULL with an exception set. */
static PyGpuArrayObject *real_input(PyObject *value, int64_t typecode, int nd, const char *who)
{
    PyGpuArrayObject *a = gpu_input(value, (int)typecode, nd);
    return a == NULL || gpu_aligned(&a->ga, who) < 0 ? NULL : a;
}

static int check_lengths(const PyGpuArrayObject *a, const char *who)
{
    for (unsigned i = 0; i < a->ga.nd; ++i)
        if (a->ga.dimensions[i] > INT_MAX) {
            PyErr_Format(PyExc_ValueError, "%s: %zu elements along an axis are too many for the index type of cuSOLVER",
                         who, a->ga.dimensions[i]);
            return -1;
        }
    return 0;
}

static int check_square(const PyGpuArrayObject *a, const char *who)
{
    if (a->ga.dimensions[0] != a->ga.dimensions[1])
        return linalg_error("%s needs a square matrix, but its shape is (%zd, %zd)", who,
                            (Py_ssize_t)a->ga.dimensions[0], (Py_ssize_t)a->ga.dimensions[1]);
    return check_lengths(a, who);
}

/* Return 1 if elements along axis `row` are adjacent, and if the lines along this axis do not overlap. Their distance is
 * then *leading. The stride of an axis of length 1 has no meaning. */
static int has_columns(const GpuArray *a, int row, int column, size_t *leading)
{
    size_t size = gpuarray_get_elsize(a->typecode), least = a->dimensions[row];
    ssize_t step = a->strides[column];
    *leading = least > 0 ? least : 1;
    if (a->dimensions[row] > 1 && a->strides[row] != (ssize_t)size)
        return 0;
    if (a->dimensions[column] <= 1)
        return 1;
    *leading = (size_t)step / size;
    return step > 0 && (size_t)step % size == 0 && *leading >= least && *leading <= INT_MAX;
}

/* The way in which a library reads a matrix */
typedef struct {
    PyGpuArrayObject *array; /* owned */
    int transposed;          /* the library reads the transpose */
    size_t leading;          /* elements between its columns */
} Matrix;

/* Describe a matrix. Return 0 if the library cannot read it. */
static int describe(Matrix *m, PyGpuArrayObject *a)
{
    m->array = a;
    m->transposed = !has_columns(&a->ga, 0, 1, &m->leading);
    return !m->transposed || has_columns(&a->ga, 1, 0, &m->leading);
}

/* Copy a matrix in the order in which it lies in memory. */
static int copy_matrix(Matrix *m, PyGpuArrayObject *a)
{
    ssize_t size = (ssize_t)gpuarray_get_elsize(a->ga.typecode);
    int by_columns = a->ga.strides[0] == size && a->ga.strides[1] != size;
    PyGpuArrayObject *copy = pygpu_copy(a, by_columns ? GA_F_ORDER : GA_C_ORDER);
    if (copy == NULL)
        return -1;
    describe(m, copy);
    return 0;
}

/* Describe a matrix that is read, or its copy. */
static int readable(Matrix *m, PyGpuArrayObject *a)
{
    if (!describe(m, a))
        return copy_matrix(m, a);
    Py_INCREF(a);
    return 0;
}

/* Describe a matrix that is overwritten: the matrix itself if `in_place` and if that is possible, otherwise a copy. */
static int writable(Matrix *m, PyGpuArrayObject *a, int64_t in_place)
{
    if (in_place && GpuArray_ISWRITEABLE(&a->ga) && describe(m, a)) {
        Py_INCREF(a);
        return 0;
    }
    return copy_matrix(m, a);
}

/* Return an output array in Fortran order; see gpu_alloc(). */
static PyGpuArrayObject *alloc_columns(PyObject **out, PyGpuContextObject *ctx, unsigned nd, const size_t *dims,
                                       int typecode)
{
    PyGpuArrayObject *old = (PyGpuArrayObject *)*out;
    if (old != NULL && PyGpuArray_CheckExact(old) && old->context == ctx && old->ga.typecode == typecode
        && old->ga.nd == nd && GpuArray_IS_F_CONTIGUOUS(&old->ga) && GpuArray_ISBEHAVED(&old->ga)
        && memcmp(old->ga.dimensions, dims, nd * sizeof *dims) == 0)
        return old;
    Py_CLEAR(*out);
    *out = (PyObject *)pygpu_empty(nd, dims, typecode, GA_F_ORDER, ctx, Py_None);
    return (PyGpuArrayObject *)*out;
}

/* Return new memory for n elements that is used only during this call. */
static gpudata *scratch(PyGpuContextObject *ctx, size_t n, size_t size, const char *who)
{
    int code = GA_NO_ERROR;
    gpudata *made = gpudata_alloc(ctx->ctx, n * size, NULL, 0, &code);
    if (code != GA_NO_ERROR)
        gpu_failed(ctx->ctx, code, who);
    return code == GA_NO_ERROR ? made : NULL;
}

/* ---- kernels ---- */

/* Let a kernel look for an element with a condition among the first n elements of a diagonal, or of a vector. */
static int check_elements(int64_t kernel, const PyGpuArrayObject *a, size_t n, enum condition condition,
                          const Reports *reports, const char *who)
{
    size_t place = CHECKED * sizeof *reports->numbers;
    ssize_t step = a->ga.strides[0] + (a->ga.nd == 2 ? a->ga.strides[1] : 0);
    uint32_t which = condition;
    Arguments args = {0};
    args_array(&args, &a->ga, &a->ga.offset);
    args_push(&args, &n);
    args_push(&args, &step);
    args_push(&args, reports->memory);
    args_push(&args, &place);
    args_push(&args, &which);
    return gpu_run_groups((gpukernel *)(intptr_t)kernel, 1, 1, GROUP, args.at, who);
}

/* Set the elements above the diagonal to 0, or those below it. Threads with adjacent numbers write adjacent elements. */
static int clear_triangle(int64_t kernel, const PyGpuArrayObject *a, int above, const char *who)
{
    int column = labs(a->ga.strides[0]) > labs(a->ga.strides[1]);
    size_t n = gpu_size(&a->ga);
    uint32_t side = column ? above : !above;
    Arguments args = {0};
    args_array(&args, &a->ga, &a->ga.offset);
    args_push(&args, &n);
    args_push(&args, &a->ga.dimensions[column]);
    args_push(&args, &a->ga.strides[!column]);
    args_push(&args, &a->ga.strides[column]);
    args_push(&args, &side);
    return gpu_run((gpukernel *)(intptr_t)kernel, n, args.at, who);
}

/* Write an identity matrix in C order. */
static int write_identity(int64_t kernel, const PyGpuArrayObject *a, const char *who)
{
    size_t n = gpu_size(&a->ga);
    ssize_t diagonal = 0;
    Arguments args = {0};
    args_array(&args, &a->ga, &a->ga.offset);
    args_push(&args, &n);
    args_push(&args, &a->ga.dimensions[1]);
    args_push(&args, &diagonal);
    return gpu_run((gpukernel *)(intptr_t)kernel, n, args.at, who);
}

/* ---- Cholesky factors ---- */

/* Input: a (n, n). `clear` and `check`: kernels. */
NATIVE_FUNCTION(cholesky, typecode, lower, in_place, clear, check)

static int factorize(Matrix *m, const struct cholesky_params *params, Reports *reports)
{
    static const char who[] = "cholesky";
    gpucontext *ctx = m->array->context->ctx;
    size_t n = m->array->ga.dimensions[0];
    int upper = (params->lower != 0) == m->transposed;
    int code = cusolver_cholesky(ctx, (int)params->typecode, upper, n, address_of(m->array), m->leading,
                                 report_at(reports, FACTORED));
    if (code != GA_NO_ERROR)
        return gpu_failed(ctx, code, who);
    /* Not every version detects NaN. A NaN in the triangle that is read always reaches the diagonal of the factor. */
    if (check_elements(params->check, m->array, n, NOT_POSITIVE, reports, who) < 0
        || clear_triangle(params->clear, m->array, params->lower != 0, who) < 0 || reports_read(reports, who) < 0)
        return -1;
    int minor = reports->numbers[FACTORED] ? reports->numbers[FACTORED] : reports->numbers[CHECKED];
    if (minor == 0)
        return 0;
    return linalg_error("Matrix is not positive definite: of the %zd leading minors, that of order %d is not positive",
                        (Py_ssize_t)n, minor);
}

static int tng_cholesky(int nin, int nout, PyObject **in, PyObject **out, const struct cholesky_params *params)
{
    (void)nin, (void)nout;
    static const char who[] = "cholesky";
    PyGpuArrayObject *a = real_input(in[0], params->typecode, 2, who);
    Matrix m;
    Reports reports;
    if (a == NULL || check_square(a, who) < 0)
        return -1;
    if (params->in_place && GpuArray_ISWRITEABLE(&a->ga) && describe(&m, a))
        native_set(out, Py_NewRef((PyObject *)a));
    else {
        gpu_not_shared(out, &a->ga);
        PyGpuArrayObject *factor = gpu_alloc(out, a->context, 2, a->ga.dimensions, a->ga.typecode);
        if (factor == NULL || gpu_assign(factor, &a->ga, who) < 0)
            return -1;
        describe(&m, factor);
    }
    if (a->ga.dimensions[0] == 0)
        return 0;
    int status = reports_begin(&reports, a->context, who);
    if (status == 0)
        status = factorize(&m, params, &reports);
    reports_end(&reports);
    return status;
}

/* ---- linear systems ---- */

/* Check a system A X = B. Return the number of right-hand sides, or -1 with an exception set. */
static ssize_t check_system(PyGpuArrayObject *a, PyGpuArrayObject *b, const char *who)
{
    if (!gpu_same_context(a, b) || check_square(a, who) < 0 || check_lengths(b, who) < 0)
        return -1;
    if (b->ga.nd < 1 || b->ga.nd > 2) {
        PyErr_Format(PyExc_TypeError, "%s: b must be a vector or a matrix", who);
        return -1;
    }
    size_t n = a->ga.dimensions[0];
    if (b->ga.dimensions[0] != n) {
        PyErr_Format(PyExc_ValueError, "solve: A has %zu rows, but b has %zu; A.shape is (%zu, %zu)", n,
                     b->ga.dimensions[0], n, n);
        return -1;
    }
    return b->ga.nd == 1 ? 1 : (ssize_t)b->ga.dimensions[1];
}

static int singular(int pivot, size_t n)
{
    return linalg_error("Singular matrix: pivot %d of %zd of its LU factors is zero", pivot, (Py_ssize_t)n);
}

/* Factorize a matrix in place, and solve systems with it or with its transpose. `x` contains B by columns, and becomes
 * X. Return 0, or -1 with an exception set. */
static int solve_by_lu(const Matrix *m, int transposed, size_t count, device_memory x, Reports *reports,
                       const char *who)
{
    PyGpuContextObject *ctx = m->array->context;
    size_t n = m->array->ga.dimensions[0];
    gpudata *pivots = scratch(ctx, n, sizeof(int32_t), who);
    if (pivots == NULL)
        return -1;
    int code = cusolver_lu(ctx->ctx, m->array->ga.typecode, n, address_of(m->array), m->leading, pivots->memory,
                           report_at(reports, FACTORED));
    if (code == GA_NO_ERROR && count > 0)
        code = cusolver_lu_solve(ctx->ctx, m->array->ga.typecode, transposed, n, count, address_of(m->array),
                                 m->leading, pivots->memory, x, report_at(reports, SOLVED));
    gpudata_release(pivots);
    if (code != GA_NO_ERROR)
        return gpu_failed(ctx->ctx, code, who);
    if (reports_read(reports, who) < 0)
        return -1;
    return reports->numbers[FACTORED] ? singular(reports->numbers[FACTORED], n) : 0;
}

/* Inputs: a (n, n), b (n) or (n, k). `symmetric`: whether the matrix is declared symmetric. `transposed`: solve the
 * systems of the transposed matrix. `in_place`: a may be overwritten. `symmetry`: a kernel; 0 unless `symmetric`. */
NATIVE_FUNCTION(solve, typecode, symmetric, transposed, in_place, symmetry)

/* Solve by Cholesky factors. Return 1 if that was possible, 0 if the matrix is not symmetric and positive definite, and -1
 * with an exception set. */
static int solve_by_cholesky(PyGpuArrayObject *a, PyGpuArrayObject *x, size_t count, int64_t symmetry, Reports *reports)
{
    static const char who[] = "solve";
    gpucontext *ctx = a->context->ctx;
    int typecode = a->ga.typecode;
    size_t n = a->ga.dimensions[0], total = n * n, place = CHECKED * sizeof *reports->numbers;
    Arguments args = {0};
    Matrix m;
    args_array(&args, &a->ga, &a->ga.offset);
    args_push(&args, &total);
    args_push(&args, &n);
    args_push(&args, &a->ga.strides[0]);
    args_push(&args, &a->ga.strides[1]);
    args_push(&args, reports->memory);
    args_push(&args, &place);
    if (gpu_run((gpukernel *)(intptr_t)symmetry, total, args.at, who) < 0 || copy_matrix(&m, a) < 0)
        return -1;
    int code = cusolver_cholesky(ctx, typecode, 0, n, address_of(m.array), n, report_at(reports, FACTORED));
    if (code == GA_NO_ERROR && count > 0)
        code = cusolver_cholesky_solve(ctx, typecode, 0, n, count, address_of(m.array), address_of(x),
                                       report_at(reports, SOLVED));
    Py_DECREF(m.array);
    if (code != GA_NO_ERROR)
        return gpu_failed(ctx, code, who);
    if (reports_read(reports, who) < 0)
        return -1;
    return reports->numbers[FACTORED] == 0 && reports->numbers[CHECKED] == 0;
}

static int tng_solve(int nin, int nout, PyObject **in, PyObject **out, const struct solve_params *params)
{
    (void)nin, (void)nout;
    static const char who[] = "solve";
    PyGpuArrayObject *a = real_input(in[0], params->typecode, 2, who);
    PyGpuArrayObject *b = a == NULL ? NULL : real_input(in[1], params->typecode, -1, who), *x;
    ssize_t count = b == NULL ? -1 : check_system(a, b, who);
    Reports reports;
    Matrix m;
    if (count < 0)
        return -1;
    gpu_not_shared(out, &a->ga);
    gpu_not_shared(out, &b->ga);
    if ((x = alloc_columns(out, b->context, b->ga.nd, b->ga.dimensions, b->ga.typecode)) == NULL
        || gpu_assign(x, &b->ga, who) < 0)
        return -1;
    if (a->ga.dimensions[0] == 0)
        return 0;
    int status = reports_begin(&reports, a->context, who);
    if (status == 0 && params->symmetric) {
        status = solve_by_cholesky(a, x, (size_t)count, params->symmetry, &reports);
        if (status != 0)
            goto done;
        status = gpu_assign(x, &b->ga, who); /* the solution with a factor that does not exist has overwritten B */
    }
    if (status == 0)
        status = writable(&m, a, params->in_place);
    if (status == 0) {
        status =
            solve_by_lu(&m, m.transposed != (params->transposed != 0), (size_t)count, address_of(x), &reports, who);
        Py_DECREF(m.array);
    }
done:
    reports_end(&reports);
    return status < 0 ? -1 : 0;
}

/* Inputs: a (n, n), b (n) or (n, k). `lower`: the triangle of a that is read. `check`: a kernel. */
NATIVE_FUNCTION(solve_triangular, typecode, lower, transposed, check)

/* Solve a system whose right-hand sides are in x, in C order. One right-hand side is a column. Several are rows of the
 * matrix that the library reads, X^T op(A)^T = B^T. */
static int substitute(const Matrix *m, PyGpuArrayObject *x, size_t count, int lower, int transposed)
{
    size_t n = m->array->ga.dimensions[0];
    int from_right = count > 1;
    triangular_system system = {
        .typecode = x->ga.typecode,
        .from_right = from_right,
        .upper = lower == m->transposed,
        .transposed = (transposed != m->transposed) != from_right,
        .rows = from_right ? count : n,
        .columns = from_right ? n : 1,
        .a = address_of(m->array),
        .b = address_of(x),
        .a_leading = m->leading,
        .b_leading = from_right ? count : n,
    };
    int code = cublas_solve_triangular(x->context->ctx, &system);
    return code == GA_NO_ERROR ? 0 : gpu_failed(x->context->ctx, code, "solve");
}

static int tng_solve_triangular(int nin, int nout, PyObject **in, PyObject **out,
                                const struct solve_triangular_params *params)
{
    (void)nin, (void)nout;
    static const char who[] = "solve";
    PyGpuArrayObject *a = real_input(in[0], params->typecode, 2, who);
    PyGpuArrayObject *b = a == NULL ? NULL : real_input(in[1], params->typecode, -1, who), *x;
    ssize_t count = b == NULL ? -1 : check_system(a, b, who);
    Reports reports;
    Matrix m;
    if (count < 0)
        return -1;
    gpu_not_shared(out, &a->ga);
    gpu_not_shared(out, &b->ga);
    if ((x = gpu_alloc(out, b->context, b->ga.nd, b->ga.dimensions, b->ga.typecode)) == NULL
        || gpu_assign(x, &b->ga, who) < 0)
        return -1;
    size_t n = a->ga.dimensions[0];
    if (n == 0)
        return 0;
    int status = reports_begin(&reports, a->context, who);
    if (status == 0)
        status = check_elements(params->check, a, n, ZERO, &reports, who);
    if (status == 0 && count > 0 && (status = readable(&m, a)) == 0) {
        status = substitute(&m, x, (size_t)count, params->lower != 0, params->transposed != 0);
        Py_DECREF(m.array);
    }
    if (status == 0)
        status = reports_read(&reports, who);
    int zero = reports.numbers[CHECKED] - 1;
    reports_end(&reports);
    if (status == 0 && zero >= 0)
        return linalg_error("Singular matrix: element (%d, %d) of the triangular matrix is zero", zero, zero);
    return status;
}

/* Input: a (n, n). `in_place`: a may be overwritten. `identity`: a kernel. */
NATIVE_FUNCTION(inverse, typecode, in_place, identity)
static int tng_inverse(int nin, int nout, PyObject **in, PyObject **out, const struct inverse_params *params)
{
    (void)nin, (void)nout;
    static const char who[] = "inverse";
    PyGpuArrayObject *a = real_input(in[0], params->typecode, 2, who), *inverse;
    Reports reports;
    Matrix m;
    if (a == NULL || check_square(a, who) < 0)
        return -1;
    gpu_not_shared(out, &a->ga);
    if ((inverse = gpu_alloc(out, a->context, 2, a->ga.dimensions, a->ga.typecode)) == NULL)
        return -1;
    size_t n = a->ga.dimensions[0];
    if (n == 0)
        return 0;
    /* The library writes the transpose of the inverse by columns, which is the inverse in C order. */
    int status = reports_begin(&reports, a->context, who);
    if (status == 0)
        status = write_identity(params->identity, inverse, who);
    if (status == 0)
        status = writable(&m, a, params->in_place);
    if (status == 0) {
        status = solve_by_lu(&m, !m.transposed, n, address_of(inverse), &reports, who);
        Py_DECREF(m.array);
    }
    reports_end(&reports);
    return status;
}

/* ---- QR ---- */

/* Input: a (m, n). With k = min(m, n), the outputs are q (m, k), unless there is only one output, and r (k, n). `clear`: a
 * kernel. */
NATIVE_FUNCTION(qr, typecode, clear)

/* Copy the first rows or columns of a matrix in Fortran order to a matrix of the same order. */
static int copy_part(PyGpuArrayObject *to, const PyGpuArrayObject *from, const char *who)
{
    GpuArray part;
    int code = GpuArray_fromdata(&part, from->ga.data, from->ga.offset, from->ga.typecode, 2, to->ga.dimensions,
                                 from->ga.strides, 0);
    if (code == GA_NO_ERROR) {
        code = GpuArray_setarray(&to->ga, &part);
        GpuArray_clear(&part);
    }
    return code == GA_NO_ERROR ? 0 : gpu_failed(to->context->ctx, code, who);
}

/* Compute the factors of `work`, which is overwritten. `q` is NULL, or `work`, or another array. */
static int factorize_qr(PyGpuArrayObject *work, PyGpuArrayObject *q, PyGpuArrayObject *r,
                        const struct qr_params *params)
{
    static const char who[] = "qr";
    PyGpuContextObject *ctx = work->context;
    int typecode = work->ga.typecode, status = -1;
    size_t m = work->ga.dimensions[0], n = work->ga.dimensions[1], k = r->ga.dimensions[0];
    Reports reports;
    gpudata *tau = NULL;
    if (reports_begin(&reports, ctx, who) < 0 || (tau = scratch(ctx, k, gpuarray_get_elsize(typecode), who)) == NULL)
        goto done;
    /* The routines report only wrong arguments, so nothing is read. */
    int code = cusolver_qr(ctx->ctx, typecode, m, n, address_of(work), tau->memory, report_at(&reports, FACTORED));
    if (code == GA_NO_ERROR
        && (copy_part(r, work, who) < 0 || clear_triangle(params->clear, r, 0, who) < 0
            || (q != NULL && q != work && copy_part(q, work, who) < 0)))
        goto done;
    if (code == GA_NO_ERROR && q != NULL)
        code = cusolver_qr_columns(ctx->ctx, typecode, m, k, address_of(q), tau->memory, report_at(&reports, FACTORED));
    status = code == GA_NO_ERROR ? 0 : gpu_failed(ctx->ctx, code, who);
done:
    gpudata_release(tau);
    reports_end(&reports);
    return status;
}

static int tng_qr(int nin, int nout, PyObject **in, PyObject **out, const struct qr_params *params)
{
    (void)nin;
    static const char who[] = "qr";
    PyGpuArrayObject *a = real_input(in[0], params->typecode, 2, who), *q = NULL, *r;
    if (a == NULL || check_lengths(a, who) < 0)
        return -1;
    size_t m = a->ga.dimensions[0], n = a->ga.dimensions[1], k = m < n ? m : n;
    size_t q_dims[2] = {m, k}, r_dims[2] = {k, n};
    for (int i = 0; i < nout; ++i)
        gpu_not_shared(&out[i], &a->ga);
    if ((r = alloc_columns(&out[nout - 1], a->context, 2, r_dims, a->ga.typecode)) == NULL
        || (nout > 1 && (q = alloc_columns(&out[0], a->context, 2, q_dims, a->ga.typecode)) == NULL))
        return -1;
    if (k == 0)
        return 0;
    /* Q has the memory of the reflectors, if its shape is that of the matrix. */
    PyGpuArrayObject *work = q;
    if (q != NULL && k == n)
        Py_INCREF(work);
    else if ((work = pygpu_empty(2, a->ga.dimensions, a->ga.typecode, GA_F_ORDER, a->context, Py_None)) == NULL)
        return -1;
    int status = gpu_assign(work, &a->ga, who);
    if (status == 0)
        status = factorize_qr(work, q, r, params);
    Py_DECREF(work);
    return status;
}

/* ---- eigenvalues and singular values ---- */

/* Raise an error if the algorithm has not converged, or if a result is NaN. */
static int check_convergence(Reports *reports, const char *message, const char *who)
{
    if (reports_read(reports, who) < 0)
        return -1;
    return reports->numbers[FACTORED] || reports->numbers[CHECKED] ? linalg_error("%s", message) : 0;
}

/* Input: a (n, n). Outputs: the eigenvalues (n), and, if there is a second output, the eigenvectors (n, n). `lower`: the
 * triangle of a that is read. `check`: a kernel. */
NATIVE_FUNCTION(eigh, typecode, lower, check)

/* Compute the eigenvalues w of `a`. `v` has Fortran order, and becomes the eigenvectors if `vectors`. */
static int decompose(PyGpuArrayObject *a, PyGpuArrayObject *w, PyGpuArrayObject *v, int vectors,
                     const struct eigh_params *params)
{
    static const char who[] = "eigh";
    gpucontext *ctx = a->context->ctx;
    size_t n = a->ga.dimensions[0];
    Reports reports;
    GpuArray transposed = {0};
    /* The copy that is faster than the other one: either the library reads the matrix, or its transpose. */
    int turned = a->ga.strides[0] != (ssize_t)gpuarray_get_elsize(a->ga.typecode);
    int code = turned ? GpuArray_transpose(&transposed, &v->ga, NULL) : GA_NO_ERROR;
    if (code == GA_NO_ERROR)
        code = GpuArray_setarray(turned ? &transposed : &v->ga, &a->ga);
    if (turned)
        GpuArray_clear(&transposed);
    if (code != GA_NO_ERROR)
        return gpu_failed(ctx, code, who);
    int status = reports_begin(&reports, a->context, who);
    if (status == 0) {
        code = cusolver_eigh(ctx, a->ga.typecode, vectors, (params->lower != 0) == turned, n, address_of(v),
                             address_of(w), report_at(&reports, FACTORED));
        status = code == GA_NO_ERROR ? check_elements(params->check, w, n, NOT_A_NUMBER, &reports, who)
                                     : gpu_failed(ctx, code, who);
    }
    if (status == 0)
        status = check_convergence(&reports, "Eigenvalues did not converge", who);
    reports_end(&reports);
    return status;
}

static int tng_eigh(int nin, int nout, PyObject **in, PyObject **out, const struct eigh_params *params)
{
    (void)nin;
    static const char who[] = "eigh";
    PyGpuArrayObject *a = real_input(in[0], params->typecode, 2, who), *w, *v;
    PyObject *unused = NULL;
    if (a == NULL || check_square(a, who) < 0)
        return -1;
    for (int i = 0; i < nout; ++i)
        gpu_not_shared(&out[i], &a->ga);
    if ((w = gpu_alloc(&out[0], a->context, 1, a->ga.dimensions, a->ga.typecode)) == NULL
        || (v = alloc_columns(nout > 1 ? &out[1] : &unused, a->context, 2, a->ga.dimensions, a->ga.typecode)) == NULL)
        return -1;
    int status = a->ga.dimensions[0] == 0 ? 0 : decompose(a, w, v, nout > 1, params);
    Py_XDECREF(unused);
    return status;
}

/* Input: a (m, n). With k = min(m, n), the outputs are u (m, m), s (k), vt (n, n); u (m, k), s (k), vt (k, n) unless
 * `full`; or only s. `identity`, `check`: kernels. */
NATIVE_FUNCTION(svd, typecode, full, identity, check)

/* Compute the singular values, and the vectors unless u and vt are NULL. The library computes only the values of matrices
 * with at least as many rows as columns. Of a wide matrix in C order, it reads the transpose. */
static int decompose_values(PyGpuArrayObject *a, PyGpuArrayObject *u, PyGpuArrayObject *s, PyGpuArrayObject *vt,
                            const struct svd_params *params)
{
    static const char who[] = "svd";
    gpucontext *ctx = a->context->ctx;
    size_t m = a->ga.dimensions[0], n = a->ga.dimensions[1];
    int wide = m < n;
    PyGpuArrayObject *work = pygpu_copy(a, wide ? GA_C_ORDER : GA_F_ORDER), *left = wide ? vt : u,
                     *right = wide ? u : vt;
    Reports reports;
    if (work == NULL)
        return -1;
    int status = reports_begin(&reports, a->context, who);
    if (status == 0) {
        int code = cusolver_svd(ctx, a->ga.typecode,
                                u == NULL      ? 'N'
                                : params->full ? 'A'
                                               : 'S',
                                wide ? n : m, wide ? m : n, address_of(work), address_of(s),
                                left == NULL ? 0 : address_of(left), right == NULL ? 0 : address_of(right),
                                report_at(&reports, FACTORED));
        status = code == GA_NO_ERROR
                     ? check_elements(params->check, s, s->ga.dimensions[0], NOT_A_NUMBER, &reports, who)
                     : gpu_failed(ctx, code, who);
    }
    Py_DECREF(work);
    if (status == 0)
        status = check_convergence(&reports, "SVD did not converge", who);
    reports_end(&reports);
    return status;
}

static int tng_svd(int nin, int nout, PyObject **in, PyObject **out, const struct svd_params *params)
{
    (void)nin;
    static const char who[] = "svd";
    PyGpuArrayObject *a = real_input(in[0], params->typecode, 2, who), *u = NULL, *s, *vt = NULL;
    if (a == NULL || check_lengths(a, who) < 0)
        return -1;
    size_t m = a->ga.dimensions[0], n = a->ga.dimensions[1], k = m < n ? m : n;
    size_t u_dims[2] = {m, params->full ? m : k}, vt_dims[2] = {params->full ? n : k, n};
    PyGpuArrayObject *(*alloc)(PyObject **, PyGpuContextObject *, unsigned, const size_t *, int) =
        m < n ? gpu_alloc : alloc_columns;
    for (int i = 0; i < nout; ++i)
        gpu_not_shared(&out[i], &a->ga);
    if ((s = gpu_alloc(&out[nout > 1], a->context, 1, &k, a->ga.typecode)) == NULL)
        return -1;
    if (nout > 1
        && ((u = alloc(&out[0], a->context, 2, u_dims, a->ga.typecode)) == NULL
            || (vt = alloc(&out[2], a->context, 2, vt_dims, a->ga.typecode)) == NULL))
        return -1;
    if (k > 0)
        return decompose_values(a, u, s, vt, params);
    /* All vectors of a matrix without elements: an identity matrix */
    if (u != NULL && (write_identity(params->identity, u, who) < 0 || write_identity(params->identity, vt, who) < 0))
        return -1;
    return 0;
}

static const NativeEntry entries[] = {NATIVE_ENTRY(cholesky),
                                      NATIVE_ENTRY(solve),
                                      NATIVE_ENTRY(solve_triangular),
                                      NATIVE_ENTRY(inverse),
                                      NATIVE_ENTRY(qr),
                                      NATIVE_ENTRY(eigh),
                                      NATIVE_ENTRY(svd),
                                      {0}};
NATIVE_MODULE(linalg, entries)
