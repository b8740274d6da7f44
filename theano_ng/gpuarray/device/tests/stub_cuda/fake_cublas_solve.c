/* A fake libcublas, for machines that have no CUDA device: the functions that solve triangular systems. It is linked with
 * the fake driver (fake_cuda.c).
 *
 * It checks handles, streams, sizes, memory and workspaces, and computes by plain loops, in stream order.
 *
 * -DFAKE_WITHOUT_DOUBLE leaves out cublasDtrsm, as a library of another kind does. */
#include <math.h>

#include "cublas_api.h"
#include "fake_driver.h"

struct fake_triangular {
    int version[3];
    int handles; /* number of existing handles */
};

static struct fake_triangular state;

struct fake_triangular *fake_triangular_state(void)
{
    return &state;
}

void fake_triangular_reset(void)
{
    state = (struct fake_triangular){.version = {12, 9, 3}};
}

enum { HANDLE = 0xb1a5, LEAST_WORKSPACE = 16 << 10 };

struct cublasContext {
    int kind;
    struct CUctx_st *context;
    struct CUstream_st *stream;
    void *workspace;
    size_t size;
};

int cublasGetProperty(int part, int *value)
{
    *value = state.version[part];
    return 0;
}

const char *cublasGetStatusName(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_EXECUTION_FAILED ? "CUBLAS_STATUS_EXECUTION_FAILED" : "CUBLAS_STATUS_OTHER";
}

const char *cublasGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_EXECUTION_FAILED ? "the GPU program failed to execute" : "another error";
}

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
    CALL("cublasCreate");
    if (!fake_current())
        return CUBLAS_STATUS_NOT_INITIALIZED;
    *handle = calloc(1, sizeof **handle);
    (*handle)->kind = HANDLE;
    (*handle)->context = fake_current();
    ++state.handles;
    return 0;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
    if (!handle || handle->kind != HANDLE)
        return CUBLAS_STATUS_INVALID_VALUE;
    handle->kind = 0;
    free(handle);
    --state.handles;
    return 0;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, struct CUstream_st *stream)
{
    CALL("cublasSetStream");
    handle->stream = stream;
    handle->workspace = NULL;
    return 0;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t size)
{
    CALL("cublasSetWorkspace");
    if ((size_t)workspace % 256 || !fake_is_memory(workspace, size))
        return CUBLAS_STATUS_INVALID_VALUE;
    handle->workspace = workspace;
    handle->size = size;
    return 0;
}

struct work {
    int is_double, right, upper, transposed;
    long m, n, a_leading, b_leading;
    double alpha;
    const void *a;
    void *b, *workspace;
};

/* An element of op(A) */
static double element(const struct work *w, long i, long j)
{
    if (w->transposed) {
        long row = i;
        i = j;
        j = row;
    }
    if (w->upper ? i > j : i < j)
        return 0;
    return get(w->a, w->is_double, i + j * w->a_leading);
}

/* Solve op(A) x = b for column j of B, or x op(A) = b for row j: then op(A) is read as its transpose. */
static void run(void *arguments)
{
    struct work *w = arguments;
    long order = w->right ? w->n : w->m, count = w->right ? w->m : w->n;
    int lower = (w->upper == w->transposed) != w->right;
    memset(w->workspace, 0xff, LEAST_WORKSPACE);
    for (long j = 0; j < count; ++j)
        for (long step = 0; step < order; ++step) {
            long i = lower ? step : order - 1 - step;
            long place = w->right ? j + i * w->b_leading : i + j * w->b_leading;
            double sum = w->alpha * get(w->b, w->is_double, place);
            for (long k = 0; k < step; ++k) {
                long other = lower ? k : order - 1 - k;
                double x = get(w->b, w->is_double, w->right ? j + other * w->b_leading : other + j * w->b_leading);
                sum -= (w->right ? element(w, other, i) : element(w, i, other)) * x;
            }
            put(w->b, w->is_double, place, sum / element(w, i, i));
        }
}

static int trsm(cublasHandle_t handle, int is_double, int side, int uplo, int trans, int diag, int m, int n,
                const void *alpha, const void *a, int lda, void *b, int ldb)
{
    struct work w = {.is_double = is_double,
                     .right = side,
                     .upper = uplo,
                     .transposed = trans,
                     .m = m,
                     .n = n,
                     .a_leading = lda,
                     .b_leading = ldb,
                     .alpha = get(alpha, is_double, 0),
                     .a = a,
                     .b = b};
    int order = side ? n : m;
    if (!handle || handle->kind != HANDLE || handle->context != fake_current())
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!handle->workspace || handle->size < LEAST_WORKSPACE)
        return CUBLAS_STATUS_ALLOC_FAILED;
    w.workspace = handle->workspace;
    if ((side != 0 && side != 1) || (uplo != 0 && uplo != 1) || (trans != 0 && trans != 1) || diag
        || !is_matrix(a, is_double, order, order, lda) || !is_matrix(b, is_double, m, n, ldb))
        return CUBLAS_STATUS_INVALID_VALUE;
    note("cublas%ctrsm %d %d %zu", is_double ? 'D' : 'S', m, n, handle->size);
    return fake_enqueue(handle->stream, run, &w, sizeof w) ? CUBLAS_STATUS_EXECUTION_FAILED : 0;
}

cublasStatus_t cublasStrsm_v2(cublasHandle_t handle, int side, int uplo, int trans, int diag, int m, int n,
                              const void *alpha, const void *a, int lda, void *b, int ldb)
{
    CALL("cublasStrsm");
    return trsm(handle, 0, side, uplo, trans, diag, m, n, alpha, a, lda, b, ldb);
}

#ifndef FAKE_WITHOUT_DOUBLE
cublasStatus_t cublasDtrsm_v2(cublasHandle_t handle, int side, int uplo, int trans, int diag, int m, int n,
                              const void *alpha, const void *a, int lda, void *b, int ldb)
{
    CALL("cublasDtrsm");
    return trsm(handle, 1, side, uplo, trans, diag, m, n, alpha, a, lda, b, ldb);
}
#endif
