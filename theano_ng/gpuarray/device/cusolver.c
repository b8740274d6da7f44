/* Factorizations and linear systems by cuSOLVER.
 *
 * A routine needs memory, the workspace. It is a block of the pool that is released at once: the work of a device runs
 * in order, so later users of the block run after the routine. */
#define _GNU_SOURCE
#include "cusolver.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "context.h"
#include "cuda.h"
#include "cusolver_api.h"
#include "launch_queue.h"

static struct {
#define X(name, arguments) cusolverStatus_t(*name) arguments;
    CUSOLVER_FUNCTIONS(X)
#undef X
} dense;

struct routines {
#define X(name, arguments) cusolverStatus_t(*name) arguments;
    CUSOLVER_ROUTINES(X)
#undef X
};

enum { SINGLE, DOUBLE };

static struct routines routines[2];

/* The state of a device */
struct cusolver {
    cusolverDnHandle_t handle;
};

/* ---- the library ---- */

static const char *bind_functions(void *loaded)
{
#define X(name, arguments)                               \
    if (!(*(void **)&dense.name = dlsym(loaded, #name))) \
        return #name;
    CUSOLVER_FUNCTIONS(X)
#undef X
#define X(name, arguments)                                                        \
    if (!(*(void **)&routines[SINGLE].name = dlsym(loaded, "cusolverDnS" #name))) \
        return "cusolverDnS" #name;                                               \
    if (!(*(void **)&routines[DOUBLE].name = dlsym(loaded, "cusolverDnD" #name))) \
        return "cusolverDnD" #name;
    CUSOLVER_ROUTINES(X)
#undef X
    return NULL;
}

static const char *const names[] = {"libcusolver.so.12", "libcusolver.so.11", NULL};

/* Version 11.4.2 belongs to CUDA 12.0. */
static struct cuda_library library = {"cusolver", "cuSOLVER", "cusolverGetProperty", names,
                                      {11, 4, 2}, 1,          bind_functions};

static const char *status_name(cusolverStatus_t status)
{
    switch (status) {
    case CUSOLVER_STATUS_NOT_INITIALIZED: return "CUSOLVER_STATUS_NOT_INITIALIZED";
    case CUSOLVER_STATUS_ALLOC_FAILED: return "CUSOLVER_STATUS_ALLOC_FAILED";
    case CUSOLVER_STATUS_INVALID_VALUE: return "CUSOLVER_STATUS_INVALID_VALUE";
    case CUSOLVER_STATUS_ARCH_MISMATCH: return "CUSOLVER_STATUS_ARCH_MISMATCH";
    case CUSOLVER_STATUS_EXECUTION_FAILED: return "CUSOLVER_STATUS_EXECUTION_FAILED";
    case CUSOLVER_STATUS_INTERNAL_ERROR: return "CUSOLVER_STATUS_INTERNAL_ERROR";
    case CUSOLVER_STATUS_MATRIX_TYPE_NOT_SUPPORTED: return "CUSOLVER_STATUS_MATRIX_TYPE_NOT_SUPPORTED";
    case CUSOLVER_STATUS_NOT_SUPPORTED: return "CUSOLVER_STATUS_NOT_SUPPORTED";
    default: return "an unknown status";
    }
}

static int code_of(cusolverStatus_t status)
{
    return status == CUSOLVER_STATUS_ALLOC_FAILED ? GA_MEMORY_ERROR : GA_BLAS_ERROR;
}

static int start(cuda_device *d)
{
    CUDA_ENTER(d);
    cusolverStatus_t status = dense.cusolverDnCreate(&d->cusolver->handle);
    if (status != CUSOLVER_STATUS_SUCCESS)
        return device_failed(code_of(status), "cusolverDnCreate: %s (%d)", status_name(status), status);
    status = dense.cusolverDnSetStream(d->cusolver->handle, d->stream);
    if (status == CUSOLVER_STATUS_SUCCESS)
        return GA_NO_ERROR;
    dense.cusolverDnDestroy(d->cusolver->handle);
    return device_failed(code_of(status), "cusolverDnSetStream: %s (%d)", status_name(status), status);
}

int cusolver_open(gpucontext *ctx, size_t *version)
{
    cuda_device *d = NULL;
    int code = cuda_library_open(&library, ctx, &d);
    if (code != GA_NO_ERROR)
        return code;
    if (!d->cusolver) {
        if (!(d->cusolver = calloc(1, sizeof *d->cusolver)))
            return context_failed(ctx, GA_MEMORY_ERROR, "out of host memory for cuSOLVER");
        if ((code = start(d)) != GA_NO_ERROR) {
            free(d->cusolver);
            d->cusolver = NULL;
            return context_checked(ctx, code);
        }
    }
    *version = cuda_library_version(&library);
    return GA_NO_ERROR;
}

/* Free the state of a device that is being closed. If its context is lost, only host memory is freed. */
void cusolver_close(cuda_device *d)
{
    if (!d->cusolver)
        return;
    if (!d->lost)
        dense.cusolverDnDestroy(d->cusolver->handle);
    free(d->cusolver);
    d->cusolver = NULL;
}

/* ---- calls ---- */

/* A call of one or more routines */
struct call {
    gpucontext *ctx;
    cuda_device *d;
    struct cuda_guard guard;
    int entered;
    int precision;        /* SINGLE or DOUBLE */
    size_t rows, columns; /* of the matrix, for messages */
    gpudata *work;
};

static int begin(struct call *call, gpucontext *ctx, int typecode, size_t rows, size_t columns)
{
    size_t version;
    *call = (struct call){.ctx = ctx, .precision = typecode == GA_DOUBLE, .rows = rows, .columns = columns};
    int code = cusolver_open(ctx, &version);
    if (code == GA_NO_ERROR)
        code = queue_flush(ctx);
    if (code != GA_NO_ERROR)
        return code;
    call->d = (cuda_device *)ctx->device;
    CUDA_CHECK(call->d, cuda_enter(call->d, &call->guard), "making a context current");
    call->entered = 1;
    return GA_NO_ERROR;
}

static int checked(const struct call *call, cusolverStatus_t status, const char *name)
{
    if (__builtin_expect(status == CUSOLVER_STATUS_SUCCESS, 1))
        return GA_NO_ERROR;
    int is_double = call->precision == DOUBLE;
    return device_failed(code_of(status), "cusolverDn%c%s: %s (%d), for a matrix of shape (%zu, %zu), %s",
                         is_double ? 'D' : 'S', name, status_name(status), status, call->rows, call->columns,
                         is_double ? "float64" : "float32");
}

/* Call a routine. The value is an error code. */
#define CALL(call, name, ...) \
    checked(call, routines[(call)->precision].name((call)->d->cusolver->handle, __VA_ARGS__), #name)

/* Do the next step if the previous steps have succeeded. */
#define THEN(code, step)         \
    do {                         \
        if (code == GA_NO_ERROR) \
            code = step;         \
    } while (0)

static int allocate(struct call *call, int elements)
{
    int code = GA_NO_ERROR;
    size_t size = call->precision == DOUBLE ? sizeof(double) : sizeof(float);
    call->work = gpudata_alloc(call->ctx, (size_t)elements * size, NULL, 0, &code);
    return code;
}

static int end(struct call *call, int code)
{
    gpudata_release(call->work);
    if (call->entered)
        cuda_leave(&call->guard);
    if (code == GA_NO_ERROR && call->ctx->flags & GA_CTX_CHECKED)
        code = call->ctx->table->sync(call->ctx->device);
    return context_checked(call->ctx, code);
}

static void *at(device_memory memory)
{
    return (void *)(uintptr_t)memory;
}

static void *workspace(const struct call *call)
{
    return at(call->work->memory);
}

static int fill_mode(int upper)
{
    return upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
}

/* ---- routines ---- */

int cusolver_lu(gpucontext *ctx, int typecode, size_t n, device_memory a, size_t leading, device_memory pivots,
                device_memory info)
{
    struct call call;
    int size = 0, code = begin(&call, ctx, typecode, n, n);
    THEN(code, CALL(&call, getrf_bufferSize, (int)n, (int)n, at(a), (int)leading, &size));
    THEN(code, allocate(&call, size));
    THEN(code, CALL(&call, getrf, (int)n, (int)n, at(a), (int)leading, workspace(&call), at(pivots), at(info)));
    return end(&call, code);
}

int cusolver_lu_solve(gpucontext *ctx, int typecode, int transposed, size_t n, size_t count, device_memory lu,
                      size_t leading, device_memory pivots, device_memory b, device_memory info)
{
    struct call call;
    int code = begin(&call, ctx, typecode, n, n);
    THEN(code, CALL(&call, getrs, transposed ? CUBLAS_OP_T : CUBLAS_OP_N, (int)n, (int)count, at(lu), (int)leading,
                    at(pivots), at(b), (int)n, at(info)));
    return end(&call, code);
}

int cusolver_cholesky(gpucontext *ctx, int typecode, int upper, size_t n, device_memory a, size_t leading,
                      device_memory info)
{
    struct call call;
    int size = 0, code = begin(&call, ctx, typecode, n, n);
    THEN(code, CALL(&call, potrf_bufferSize, fill_mode(upper), (int)n, at(a), (int)leading, &size));
    THEN(code, allocate(&call, size));
    THEN(code, CALL(&call, potrf, fill_mode(upper), (int)n, at(a), (int)leading, workspace(&call), size, at(info)));
    return end(&call, code);
}

int cusolver_cholesky_solve(gpucontext *ctx, int typecode, int upper, size_t n, size_t count, device_memory factor,
                            device_memory b, device_memory info)
{
    struct call call;
    int code = begin(&call, ctx, typecode, n, n);
    THEN(code, CALL(&call, potrs, fill_mode(upper), (int)n, (int)count, at(factor), (int)n, at(b), (int)n, at(info)));
    return end(&call, code);
}

int cusolver_qr(gpucontext *ctx, int typecode, size_t m, size_t n, device_memory a, device_memory tau,
                device_memory info)
{
    struct call call;
    int size = 0, code = begin(&call, ctx, typecode, m, n);
    THEN(code, CALL(&call, geqrf_bufferSize, (int)m, (int)n, at(a), (int)m, &size));
    THEN(code, allocate(&call, size));
    THEN(code, CALL(&call, geqrf, (int)m, (int)n, at(a), (int)m, at(tau), workspace(&call), size, at(info)));
    return end(&call, code);
}

int cusolver_qr_columns(gpucontext *ctx, int typecode, size_t m, size_t k, device_memory a, device_memory tau,
                        device_memory info)
{
    struct call call;
    int size = 0, rows = (int)m, count = (int)k, code = begin(&call, ctx, typecode, m, k);
    THEN(code, CALL(&call, orgqr_bufferSize, rows, count, count, at(a), rows, at(tau), &size));
    THEN(code, allocate(&call, size));
    THEN(code, CALL(&call, orgqr, rows, count, count, at(a), rows, at(tau), workspace(&call), size, at(info)));
    return end(&call, code);
}

int cusolver_svd(gpucontext *ctx, int typecode, char job, size_t m, size_t n, device_memory a, device_memory s,
                 device_memory u, device_memory vt, device_memory info)
{
    struct call call;
    signed char which = (signed char)job;
    int size = 0, code = begin(&call, ctx, typecode, m, n);
    THEN(code, CALL(&call, gesvd_bufferSize, (int)m, (int)n, &size));
    THEN(code, allocate(&call, size));
    THEN(code, CALL(&call, gesvd, which, which, (int)m, (int)n, at(a), (int)m, at(s), at(u), (int)m, at(vt), (int)n,
                    workspace(&call), size, NULL, at(info)));
    return end(&call, code);
}

int cusolver_eigh(gpucontext *ctx, int typecode, int vectors, int upper, size_t n, device_memory a, device_memory w,
                  device_memory info)
{
    struct call call;
    int mode = vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
    int size = 0, code = begin(&call, ctx, typecode, n, n);
    THEN(code, CALL(&call, syevd_bufferSize, mode, fill_mode(upper), (int)n, at(a), (int)n, at(w), &size));
    THEN(code, allocate(&call, size));
    THEN(code,
         CALL(&call, syevd, mode, fill_mode(upper), (int)n, at(a), (int)n, at(w), workspace(&call), size, at(info)));
    return end(&call, code);
}
