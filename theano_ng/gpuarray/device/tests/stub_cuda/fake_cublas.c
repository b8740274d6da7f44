/* A fake libcublasLt, for machines that have no CUDA device. It is linked with the fake driver (fake_cuda.c).
 *
 * It checks handles, descriptors, attributes, streams, memory, alignments and workspaces, and refuses what the library
 * refuses. It computes products by plain loops, in stream order and in the library's conventions, so that wrong strides
 * or a wrong transpose give wrong numbers. The order of the rows and columns in memory is by columns.
 *
 * -DFAKE_WITHOUT_CHECK leaves out cublasLtMatmulAlgoCheck, as a library of another kind does. */
#include "cublas_lt.h"
#include "fake_driver.h"

/* ---- state that tests set and read ---- */

struct fake_blas {
    int version;              /* 120903 for 12.9.3 */
    int handles, descriptors; /* numbers of existing objects */
    int none;                 /* the heuristic finds no algorithm */
    int refuses;              /* cublasLtMatmulAlgoCheck refuses all algorithms */
    uint64_t workspace;       /* bytes that algorithms need if the preference allows them */
};

static struct fake_blas state;

struct fake_blas *fake_blas_state(void)
{
    return &state;
}

void fake_blas_reset(void)
{
    state = (struct fake_blas){.version = 120903};
}

/* ---- objects: the first member tells the kind and is cleared when the object is destroyed ---- */

enum { HANDLE = 0x7a11d1e, PRODUCT, LAYOUT, PREFERENCE };

struct cublasLtContext {
    int kind;
    struct CUctx_st *context;
};

struct tng_matmul_desc {
    int kind, compute, scale;
    int32_t mode, operations[2];
};

struct tng_matrix_layout {
    int kind, type;
    uint64_t rows, columns;
    int64_t leading, step;
    int32_t batch;
};

struct tng_matmul_preference {
    int kind;
    uint64_t workspace;
    uint32_t schemes, aligned[4];
};

static void *made(int kind, size_t size)
{
    int *object = calloc(1, size);
    *object = kind;
    ++*(kind == HANDLE ? &state.handles : &state.descriptors);
    return object;
}

static int destroyed(void *object, int kind)
{
    if (!object || *(int *)object != kind)
        return CUBLAS_STATUS_INVALID_VALUE;
    --*(kind == HANDLE ? &state.handles : &state.descriptors);
    *(int *)object = 0;
    free(object);
    return 0;
}

/* Copy an attribute whose size must be the size of its type. */
static int set(void *to, size_t size, const void *value, size_t given)
{
    if (!value || given != size)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, value, size);
    return 0;
}

int cublasLtGetProperty(int part, int *value)
{
    const int parts[] = {state.version / 10000, state.version / 100 % 100, state.version % 100};
    *value = parts[part];
    return 0;
}

const char *cublasLtGetStatusName(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_EXECUTION_FAILED ? "CUBLAS_STATUS_EXECUTION_FAILED" : "CUBLAS_STATUS_OTHER";
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_EXECUTION_FAILED ? "the GPU program failed to execute" : "another error";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    CALL("cublasLtCreate");
    if (!fake_current())
        return CUBLAS_STATUS_NOT_INITIALIZED;
    *handle = made(HANDLE, sizeof **handle);
    (*handle)->context = fake_current();
    return 0;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    return destroyed(handle, HANDLE);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *product, int compute, int scale)
{
    CALL("cublasLtMatmulDescCreate");
    *product = made(PRODUCT, sizeof **product);
    (*product)->compute = compute;
    (*product)->scale = scale;
    return 0;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product)
{
    return destroyed(product, PRODUCT);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product, int which, const void *value, size_t size)
{
    CALL("cublasLtMatmulDescSetAttribute");
    switch (which) {
    case CUBLASLT_MATMUL_DESC_POINTER_MODE: return set(&product->mode, 4, value, size);
    case CUBLASLT_MATMUL_DESC_TRANSA: return set(&product->operations[0], 4, value, size);
    case CUBLASLT_MATMUL_DESC_TRANSB: return set(&product->operations[1], 4, value, size);
    default: return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, int type, uint64_t rows, uint64_t columns,
                                          int64_t leading)
{
    CALL("cublasLtMatrixLayoutCreate");
    *layout = made(LAYOUT, sizeof **layout);
    **layout = (struct tng_matrix_layout){LAYOUT, type, rows, columns, leading, 0, 1};
    return 0;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    return destroyed(layout, LAYOUT);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, int which, const void *value,
                                                size_t size)
{
    CALL("cublasLtMatrixLayoutSetAttribute");
    switch (which) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return set(&layout->batch, 4, value, size);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: return set(&layout->step, 8, value, size);
    default: return CUBLAS_STATUS_INVALID_VALUE;
    }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    CALL("cublasLtMatmulPreferenceCreate");
    *preference = made(PREFERENCE, sizeof **preference);
    (*preference)->schemes = 7;
    for (int i = 0; i < 4; ++i)
        (*preference)->aligned[i] = 256;
    return 0;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    return destroyed(preference, PREFERENCE);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference, int which, const void *value,
                                                    size_t size)
{
    CALL("cublasLtMatmulPreferenceSetAttribute");
    if (which >= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES && which <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + 3)
        return set(&preference->aligned[which - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], 4, value, size);
    switch (which) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return set(&preference->workspace, 8, value, size);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return set(&preference->schemes, 4, value, size);
    default: return CUBLAS_STATUS_INVALID_VALUE;
    }
}

/* ---- checks ---- */

/* The rows and columns of a factor after its operation */
static uint64_t rows_of(cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t layout, int i)
{
    return i < 2 && product->operations[i] ? layout->columns : layout->rows;
}

static uint64_t columns_of(cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t layout, int i)
{
    return i < 2 && product->operations[i] ? layout->rows : layout->columns;
}

static int is_product(cublasLtHandle_t handle, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t *m)
{
    if (!handle || handle->kind != HANDLE || handle->context != fake_current())
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!product || product->kind != PRODUCT)
        return CUBLAS_STATUS_INVALID_VALUE;
    for (int i = 0; i < 4; ++i)
        if (!m[i] || m[i]->kind != LAYOUT || m[i]->type != m[0]->type || m[i]->batch != m[3]->batch || m[i]->rows == 0
            || m[i]->columns == 0 || m[i]->leading < (int64_t)m[i]->rows || m[i]->step < 0)
            return CUBLAS_STATUS_INVALID_VALUE;
    int type = m[0]->type, scale = type == CUDA_R_64F ? CUDA_R_64F : CUDA_R_32F;
    int fits = type == CUDA_R_64F ? product->compute == CUBLAS_COMPUTE_64F
                                  : product->compute == CUBLAS_COMPUTE_32F
                                        || (type == CUDA_R_32F && product->compute == CUBLAS_COMPUTE_32F_FAST_TF32);
    if (!fits || product->scale != scale)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (rows_of(product, m[0], 0) != m[3]->rows || columns_of(product, m[1], 1) != m[3]->columns
        || columns_of(product, m[0], 0) != rows_of(product, m[1], 1) || m[2]->rows != m[3]->rows
        || m[2]->columns != m[3]->columns)
        return CUBLAS_STATUS_INVALID_VALUE;
    return 0;
}

/* A number for the form of a product: an algorithm is valid for one form only. */
static uint64_t number_of(cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t *m)
{
    uint64_t number = (uint64_t)product->compute * 31 + (uint64_t)product->operations[0] * 2
                      + (uint64_t)product->operations[1] + (uint64_t)product->mode * 4;
    for (int i = 0; i < 4; ++i)
        number = ((((number * 31 + m[i]->rows) * 31 + m[i]->columns) * 31 + (uint64_t)m[i]->leading) * 31
                  + (uint64_t)m[i]->step)
                     * 31
                 + (uint64_t)m[i]->batch;
    return number;
}

/* The words of an algorithm */
enum { MAGIC, NUMBER, WORKSPACE, ALIGNED };

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int count,
                                              cublasLtMatmulHeuristicResult_t *results, int *found)
{
    cublasLtMatrixLayout_t m[] = {a, b, c, d};
    CALL("cublasLtMatmulAlgoGetHeuristic");
    int status = is_product(handle, product, m);
    if (status || count < 1 || preference->kind != PREFERENCE)
        return status ? status : CUBLAS_STATUS_INVALID_VALUE;
    if (a->type == CUDA_R_16F && preference->schemes != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)
        return CUBLAS_STATUS_INVALID_VALUE; /* partial sums would be stored as float16 */
    *found = !state.none;
    note("cublasLtMatmulAlgoGetHeuristic %d %d %d", product->compute, product->operations[0], product->operations[1]);
    uint64_t need = state.workspace <= preference->workspace ? state.workspace : 0;
    memset(results, 0, sizeof *results);
    results->algo.data[MAGIC] = 0xa190;
    results->algo.data[NUMBER] = number_of(product, m);
    results->algo.data[WORKSPACE] = need;
    for (int i = 0; i < 4; ++i)
        results->algo.data[ALIGNED + i] = preference->aligned[i];
    results->workspaceSize = need;
    return 0;
}

#ifndef FAKE_WITHOUT_CHECK
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algorithm, cublasLtMatmulHeuristicResult_t *result)
{
    cublasLtMatrixLayout_t m[] = {a, b, c, d};
    note("cublasLtMatmulAlgoCheck");
    CALL("cublasLtMatmulAlgoCheck");
    int status = is_product(handle, product, m);
    if (status || state.refuses || algorithm->data[MAGIC] != 0xa190 || algorithm->data[NUMBER] != number_of(product, m))
        return status ? status : CUBLAS_STATUS_INVALID_VALUE;
    result->workspaceSize = algorithm->data[WORKSPACE];
    result->state = 0;
    return 0;
}
#endif

/* ---- the computation ---- */

struct computation {
    struct tng_matmul_desc product;
    struct tng_matrix_layout m[4];
    char *at[4];
    double alpha, beta;
    const void *alpha_at, *beta_at; /* addresses on the device, in pointer mode DEVICE */
};

static size_t bytes_of(int type)
{
    return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

static double number_at(const char *at, int type)
{
    return type == CUDA_R_64F ? *(const double *)at : type == CUDA_R_32F ? *(const float *)at : *(const _Float16 *)at;
}

static double element(const struct computation *it, int i, uint64_t batch, uint64_t row, uint64_t column)
{
    const struct tng_matrix_layout *m = &it->m[i];
    if (i < 2 && it->product.operations[i] == CUBLAS_OP_T) {
        uint64_t row_before = row;
        row = column;
        column = row_before;
    }
    int64_t place = (int64_t)batch * m->step + (int64_t)column * m->leading + (int64_t)row;
    return number_at(it->at[i] + place * (int64_t)bytes_of(m->type), m->type);
}

static void run(void *arguments)
{
    struct computation *it = arguments;
    const struct tng_matrix_layout *d = &it->m[3];
    double alpha = it->alpha_at ? number_at(it->alpha_at, it->product.scale) : it->alpha;
    double beta = it->beta_at ? number_at(it->beta_at, it->product.scale) : it->beta;
    uint64_t depth = it->product.operations[0] ? it->m[0].rows : it->m[0].columns;
    for (uint64_t batch = 0; batch < (uint64_t)d->batch; ++batch)
        for (uint64_t column = 0; column < d->columns; ++column)
            for (uint64_t row = 0; row < d->rows; ++row) {
                double sum = 0;
                for (uint64_t k = 0; k < depth; ++k)
                    sum += element(it, 0, batch, row, k) * element(it, 1, batch, k, column);
                double value = alpha * sum + (beta == 0 ? 0 : beta * element(it, 2, batch, row, column));
                char *to = it->at[3]
                           + ((int64_t)batch * d->step + (int64_t)column * d->leading + (int64_t)row)
                                 * (int64_t)bytes_of(d->type);
                if (d->type == CUDA_R_64F)
                    *(double *)to = value;
                else if (d->type == CUDA_R_32F)
                    *(float *)to = (float)value;
                else
                    *(_Float16 *)to = (_Float16)value;
            }
}

/* Return whether all elements of a matrix are in device memory. */
static int is_inside(const struct tng_matrix_layout *m, const char *at)
{
    int64_t last = (int64_t)(m->columns - 1) * m->leading + (int64_t)m->rows - 1 + (m->batch - 1) * m->step;
    return fake_is_memory(at, (size_t)(last + 1) * bytes_of(m->type));
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
                              const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t size, struct CUstream_st *stream)
{
    cublasLtMatrixLayout_t m[] = {a_layout, b_layout, c_layout, d_layout};
    char *at[] = {(char *)a, (char *)b, (char *)c, d};
    CALL("cublasLtMatmul");
    int status = is_product(handle, product, m);
    if (status)
        return status;
    struct computation it = {.product = *product};
    if (algorithm->data[MAGIC] != 0xa190 || algorithm->data[NUMBER] != number_of(product, m))
        return CUBLAS_STATUS_INVALID_VALUE;
    for (int i = 0; i < 4; ++i) {
        uintptr_t second = (uintptr_t)at[i] + (m[i]->batch > 1) * (uintptr_t)m[i]->step * bytes_of(m[i]->type);
        if (!is_inside(m[i], at[i]) || ((uintptr_t)at[i] | second) % algorithm->data[ALIGNED + i])
            return CUBLAS_STATUS_INVALID_VALUE;
        it.m[i] = *m[i];
        it.at[i] = at[i];
    }
    if (c == d && (c_layout->leading != d_layout->leading || c_layout->step != d_layout->step))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (size < algorithm->data[WORKSPACE] || (size && ((uintptr_t)workspace % 256 || !fake_is_memory(workspace, size))))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (product->mode == CUBLASLT_POINTER_MODE_DEVICE) {
        if (!fake_is_memory(alpha, bytes_of(product->scale)) || !fake_is_memory(beta, bytes_of(product->scale)))
            return CUBLAS_STATUS_INVALID_VALUE;
        it.alpha_at = alpha;
        it.beta_at = beta;
    }
    else {
        it.alpha = number_at(alpha, product->scale);
        it.beta = number_at(beta, product->scale);
    }
    note("cublasLtMatmul %llu %llu %d %zu", (unsigned long long)d_layout->rows, (unsigned long long)d_layout->columns,
         d_layout->batch, size);
    return fake_enqueue(stream, run, &it, sizeof it) ? CUBLAS_STATUS_EXECUTION_FAILED : 0;
}
