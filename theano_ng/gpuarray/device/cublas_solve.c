/* Triangular systems by cuBLAS. */
#define _GNU_SOURCE
#include "cublas_solve.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "context.h"
#include "cublas_api.h"
#include "cuda.h"
#include "launch_queue.h"

static struct {
#define X(name, result, arguments) result(*name) arguments;
    CUBLAS_SOLVE_FUNCTIONS(X)
#undef X
} blas;

/* The state of a device */
struct cublas_v2 {
    cublasHandle_t handle;
};

static const char *bind_functions(void *loaded)
{
#define X(name, result, arguments)                      \
    if (!(*(void **)&blas.name = dlsym(loaded, #name))) \
        return #name;
    CUBLAS_SOLVE_FUNCTIONS(X)
#undef X
    return NULL;
}

static const char *const names[] = {"libcublas.so.13", "libcublas.so.12", NULL};

static struct cuda_library library = {"cublas", "cuBLAS", "cublasGetProperty", names, {12, 0, 0}, 0, bind_functions};

static int call_failed(cublasStatus_t status, const char *call)
{
    return device_failed(status == CUBLAS_STATUS_ALLOC_FAILED ? GA_MEMORY_ERROR : GA_BLAS_ERROR, "%s: %s (%s)", call,
                         blas.cublasGetStatusName(status), blas.cublasGetStatusString(status));
}

static int start(cuda_device *d)
{
    CUDA_ENTER(d);
    cublasStatus_t status = blas.cublasCreate_v2(&d->solver->handle);
    if (status != CUBLAS_STATUS_SUCCESS)
        return call_failed(status, "cublasCreate");
    status = blas.cublasSetStream_v2(d->solver->handle, d->stream);
    if (status == CUBLAS_STATUS_SUCCESS)
        return GA_NO_ERROR;
    blas.cublasDestroy_v2(d->solver->handle);
    return call_failed(status, "cublasSetStream");
}

int cublas_solve_open(gpucontext *ctx, size_t *version)
{
    cuda_device *d = NULL;
    int code = cuda_library_open(&library, ctx, &d);
    if (code != GA_NO_ERROR)
        return code;
    if (!d->solver) {
        if (!(d->solver = calloc(1, sizeof *d->solver)))
            return context_failed(ctx, GA_MEMORY_ERROR, "out of host memory for cuBLAS");
        if ((code = start(d)) != GA_NO_ERROR) {
            free(d->solver);
            d->solver = NULL;
            return context_checked(ctx, code);
        }
    }
    *version = cuda_library_version(&library);
    return GA_NO_ERROR;
}

/* Free the state of a device that is being closed. If its context is lost, only host memory is freed. */
void cublas_solve_close(cuda_device *d)
{
    if (!d->solver)
        return;
    if (!d->lost)
        blas.cublasDestroy_v2(d->solver->handle);
    free(d->solver);
    d->solver = NULL;
}

/* Give the library a workspace: a block of the pool, which can be released after the call, because the work of a device
 * runs in order. If memory is exhausted, try a small workspace. */
static int give_workspace(gpucontext *ctx, gpudata **workspace)
{
    cuda_device *d = (cuda_device *)ctx->device;
    /* the size that NVIDIA recommends, and a size with which no routine fails */
    size_t sizes[] = {(size_t)(d->capability >= 90 ? 32 : 4) << 20, (size_t)64 << 10};
    int code = GA_MEMORY_ERROR;
    for (int i = 0; i < 2 && code == GA_MEMORY_ERROR; ++i) {
        *workspace = gpudata_alloc(ctx, sizes[i], NULL, 0, &code);
        if (code != GA_NO_ERROR)
            continue;
        cublasStatus_t status =
            blas.cublasSetWorkspace_v2(d->solver->handle, (void *)(uintptr_t)(*workspace)->memory, sizes[i]);
        if (status != CUBLAS_STATUS_SUCCESS)
            return call_failed(status, "cublasSetWorkspace");
    }
    return code;
}

static int solve(gpucontext *ctx, const triangular_system *s)
{
    static const float one_single = 1;
    static const double one_double = 1;
    cuda_device *d = (cuda_device *)ctx->device;
    int is_double = s->typecode == GA_DOUBLE;
    gpudata *workspace = NULL;
    CUDA_ENTER(d);
    int code = give_workspace(ctx, &workspace);
    if (code == GA_NO_ERROR) {
        cublasStatus_t status = (is_double ? blas.cublasDtrsm_v2 : blas.cublasStrsm_v2)(
            d->solver->handle, s->from_right ? CUBLAS_SIDE_RIGHT : CUBLAS_SIDE_LEFT,
            s->upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER, s->transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
            CUBLAS_DIAG_NON_UNIT, (int)s->rows, (int)s->columns,
            is_double ? (const void *)&one_double : (const void *)&one_single, (void *)(uintptr_t)s->a,
            (int)s->a_leading, (void *)(uintptr_t)s->b, (int)s->b_leading);
        if (status != CUBLAS_STATUS_SUCCESS) {
            code = call_failed(status, is_double ? "cublasDtrsm" : "cublasStrsm");
            char reason[512];
            snprintf(reason, sizeof reason, "%s", device_message());
            size_t n = s->from_right ? s->columns : s->rows, count = s->from_right ? s->rows : s->columns;
            device_failed(code, "%s, for a matrix of shape (%zu, %zu) and %zu right-hand sides, %s", reason, n, n,
                          count, is_double ? "float64" : "float32");
        }
    }
    gpudata_release(workspace);
    return code;
}

int cublas_solve_triangular(gpucontext *ctx, const triangular_system *system)
{
    size_t version;
    int code = cublas_solve_open(ctx, &version);
    if (code == GA_NO_ERROR)
        code = queue_flush(ctx);
    if (code != GA_NO_ERROR)
        return context_checked(ctx, code);
    code = solve(ctx, system);
    if (code == GA_NO_ERROR && ctx->flags & GA_CTX_CHECKED)
        code = ctx->table->sync(ctx->device);
    return context_checked(ctx, code);
}
