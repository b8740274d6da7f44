/* Products of matrices by cuBLASLt.
 *
 * cuBLASLt stores matrices column by column (with unit stride between rows) and can read a factor transposed. A result
 * whose rows are contiguous is computed as its transpose, out.T = b.T a.T. Each matrix needs one unit stride; the other
 * strides are arguments of the library ("leading dimensions", and steps between the matrices of a stack).
 *
 * For each form of a product (shapes, strides, alignments, types) the library's heuristic chooses an algorithm once.
 * Nothing is measured, so the choice depends only on the form, the library and the device, and the same input gives the
 * same result. The choice is kept in the cache of program binaries, for later processes.
 *
 * Algorithms may need memory, the workspace. It is a block of the pool that is released at once: the work of a device
 * runs in order, so later users of the block run after the product. */
#define _GNU_SOURCE
#include "cublas.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "cublas_lt.h"
#include "cuda.h"
#include "launch_queue.h"

#define BUCKETS 1024       /* of the table of forms, a power of two */
#define MOST_FORMS 4096    /* with more forms, the table is emptied */
#define NUMBERS 32         /* numbers of the host that are kept in device memory */
#define MOST_ALIGNED 256   /* bytes; no algorithm needs a larger alignment */
#define LARGEST 0x7fffffff /* most rows and columns that the library computes */

static struct {
#define X(name, result, arguments) result(*name) arguments;
    CUBLAS_FUNCTIONS(X)
#undef X
} lt;

enum { A, B, C, D, MATRICES };

/* All data on which the choice of an algorithm depends. D is the result, C is added to it. The padding is zero, because
 * forms are compared as bytes. */
struct form {
    uint64_t rows, columns, depth; /* of D, and the number of terms of its sums */
    uint64_t batch;
    int64_t leading[MATRICES], step[MATRICES]; /* elements */
    int32_t aligned[MATRICES];                 /* bytes */
    int32_t transposed[2];
    int32_t type, compute;
    int32_t on_device; /* alpha and beta are in device memory */
    int32_t padding;
};

struct choice {
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace; /* bytes */
    int exists;       /* 0 if the library has no algorithm for the form */
};

/* A form with its descriptors and its algorithm */
struct known_form {
    struct known_form *next; /* in the same bucket */
    struct form form;
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t matrices[MATRICES];
    struct choice choice;
    int computed; /* whether the library has computed a product of this form */
};

/* The state of a device */
struct cublas {
    cublasLtHandle_t handle;
    struct known_form *buckets[BUCKETS];
    unsigned count;
    /* Numbers of the host, for products with one factor on the host and one on the device: the library expects both in
     * the same place. The numbers never change, so recorded graphs can read them. */
    device_memory numbers;
    unsigned n_numbers;
    struct {
        int typecode;
        double value;
    } known_numbers[NUMBERS];
};

/* ---- the library ---- */

static const char *bind_functions(void *loaded)
{
#define X(name, result, arguments)                    \
    if (!(*(void **)&lt.name = dlsym(loaded, #name))) \
        return #name;
    CUBLAS_FUNCTIONS(X)
#undef X
    return NULL;
}

static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};

static struct cuda_library library = {"cublasLt", "cuBLASLt", "cublasLtGetProperty", names,
                                      {12, 0, 0}, 0,          bind_functions};

static int call_failed(cublasStatus_t status, const char *call)
{
    return device_failed(status == CUBLAS_STATUS_ALLOC_FAILED ? GA_MEMORY_ERROR : GA_BLAS_ERROR, "%s: %s (%s)", call,
                         lt.cublasLtGetStatusName(status), lt.cublasLtGetStatusString(status));
}

#define LT_CHECK(call, ...)                                        \
    do {                                                           \
        cublasStatus_t status_ = lt.call(__VA_ARGS__);             \
        if (__builtin_expect(status_ != CUBLAS_STATUS_SUCCESS, 0)) \
            return call_failed(status_, #call);                    \
    } while (0)

static int start(cuda_device *d)
{
    CUDA_ENTER(d);
    LT_CHECK(cublasLtCreate, &d->cublas->handle);
    return GA_NO_ERROR;
}

int cublas_open(gpucontext *ctx, size_t *version)
{
    cuda_device *d = NULL;
    int code = cuda_library_open(&library, ctx, &d);
    if (code != GA_NO_ERROR)
        return code;
    if (!d->cublas) {
        if (!(d->cublas = calloc(1, sizeof *d->cublas)))
            return context_failed(ctx, GA_MEMORY_ERROR, "out of host memory for cuBLASLt");
        if ((code = start(d)) != GA_NO_ERROR) {
            free(d->cublas);
            d->cublas = NULL;
            return context_checked(ctx, code);
        }
    }
    *version = cuda_library_version(&library);
    return GA_NO_ERROR;
}

static void free_form(struct known_form *known)
{
    for (int i = 0; i < MATRICES; ++i)
        if (known->matrices[i])
            lt.cublasLtMatrixLayoutDestroy(known->matrices[i]);
    if (known->product)
        lt.cublasLtMatmulDescDestroy(known->product);
    free(known);
}

static void forget_forms(struct cublas *cublas)
{
    for (int i = 0; i < BUCKETS; ++i)
        while (cublas->buckets[i]) {
            struct known_form *next = cublas->buckets[i]->next;
            free_form(cublas->buckets[i]);
            cublas->buckets[i] = next;
        }
    cublas->count = 0;
}

/* Free the state of a device that is being closed. If its context is lost, only host memory is freed. */
void cublas_close(cuda_device *d)
{
    if (!d->cublas)
        return;
    forget_forms(d->cublas);
    if (!d->lost) {
        lt.cublasLtDestroy(d->cublas->handle);
        if (d->cublas->numbers)
            cuda.cuMemFree_v2(d->cublas->numbers);
    }
    free(d->cublas);
    d->cublas = NULL;
}

/* ---- the form of a product ---- */

/* Return true if the elements along axis `row` are consecutive, and if the step along axis `column` is large enough that
 * columns do not overlap. Along an axis of length 1 the stride has no meaning. */
static int by_columns(const matrix_stack *m, int row, int column, int64_t *leading)
{
    int64_t least = (int64_t)m->dims[row];
    *leading = m->dims[column] > 1 ? m->strides[column] : least;
    return (m->dims[row] == 1 || m->strides[row] == 1) && *leading >= least;
}

/* Describe a factor with these axes for rows and columns, transposed if necessary. */
static int describe_factor(const matrix_stack *m, int row, int column, int64_t *leading, int32_t *transposed)
{
    *transposed = !by_columns(m, row, column, leading);
    return !*transposed || by_columns(m, column, row, leading);
}

/* The address of the first element of a matrix */
static device_memory address_of(const matrix_stack *m)
{
    return m->data->memory + m->offset;
}

static int32_t alignment_of(const matrix_stack *m, size_t size)
{
    uint64_t bits = address_of(m) | MOST_ALIGNED;
    if (m->dims[0] > 1)
        bits |= (uint64_t)m->strides[0] * size;
    return (int32_t)(bits & -bits);
}

/* Fill the form, and the order of the matrices. Return 0 if cuBLASLt does not compute the product. `adds`: whether C is
 * added. */
static int describe(struct form *form, const matrix_stack *order[MATRICES], const matrix_stack *a,
                    const matrix_stack *b, const matrix_stack *c, const matrix_stack *out, int adds, size_t size)
{
    for (int swap = 0; swap < 2; ++swap) {
        int row = 1 + swap, column = 2 - swap;
        order[A] = swap ? b : a;
        order[B] = swap ? a : b;
        order[C] = adds ? c : out;
        order[D] = out;
        if (by_columns(out, row, column, &form->leading[D]) && by_columns(order[C], row, column, &form->leading[C])
            && describe_factor(order[A], row, column, &form->leading[A], &form->transposed[A])
            && describe_factor(order[B], row, column, &form->leading[B], &form->transposed[B])) {
            form->rows = out->dims[row];
            form->columns = out->dims[column];
            form->depth = order[A]->dims[column];
            form->batch = out->dims[0];
            for (int i = 0; i < MATRICES; ++i) {
                form->step[i] = form->batch > 1 ? order[i]->strides[0] : 0;
                form->aligned[i] = alignment_of(order[i], size);
                if (form->step[i] < 0)
                    return 0;
            }
            return (form->batch == 1 || form->step[D] > 0) && form->rows <= LARGEST && form->columns <= LARGEST
                   && form->depth <= LARGEST && form->batch <= LARGEST;
        }
    }
    return 0;
}

/* ---- descriptors and algorithms ---- */

static int set_layout(cublasLtMatrixLayout_t *layout, const struct form *form, int i)
{
    uint64_t rows = i == B ? form->depth : form->rows, columns = i == A ? form->depth : form->columns;
    int turned = i < C && form->transposed[i];
    int32_t batch = (int32_t)form->batch;
    LT_CHECK(cublasLtMatrixLayoutCreate, layout, form->type, turned ? columns : rows, turned ? rows : columns,
             form->leading[i]);
    if (batch > 1) {
        LT_CHECK(cublasLtMatrixLayoutSetAttribute, *layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
        LT_CHECK(cublasLtMatrixLayoutSetAttribute, *layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &form->step[i],
                 sizeof form->step[i]);
    }
    return GA_NO_ERROR;
}

static int set_descriptors(struct known_form *known)
{
    const struct form *form = &known->form;
    int32_t operations[2], mode = CUBLASLT_POINTER_MODE_DEVICE;
    LT_CHECK(cublasLtMatmulDescCreate, &known->product, form->compute,
             form->type == CUDA_R_64F ? CUDA_R_64F : CUDA_R_32F);
    for (int i = 0; i < 2; ++i) {
        operations[i] = form->transposed[i] ? CUBLAS_OP_T : CUBLAS_OP_N;
        LT_CHECK(cublasLtMatmulDescSetAttribute, known->product, CUBLASLT_MATMUL_DESC_TRANSA + i, &operations[i],
                 sizeof operations[i]);
    }
    if (form->on_device)
        LT_CHECK(cublasLtMatmulDescSetAttribute, known->product, CUBLASLT_MATMUL_DESC_POINTER_MODE, &mode, sizeof mode);
    for (int i = 0; i < MATRICES; ++i) {
        int code = set_layout(&known->matrices[i], form, i);
        if (code != GA_NO_ERROR)
            return code;
    }
    return GA_NO_ERROR;
}

static int set_preference(cublasLtMatmulPreference_t preference, const struct form *form, uint64_t workspace)
{
    LT_CHECK(cublasLtMatmulPreferenceSetAttribute, preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
             sizeof workspace);
    for (int i = 0; i < MATRICES; ++i) {
        uint32_t bytes = (uint32_t)form->aligned[i];
        LT_CHECK(cublasLtMatmulPreferenceSetAttribute, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i,
                 &bytes, sizeof bytes);
    }
    /* Algorithms that split the sums must not store partial sums as float16. */
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    if (form->type == CUDA_R_16F)
        LT_CHECK(cublasLtMatmulPreferenceSetAttribute, preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes,
                 sizeof schemes);
    return GA_NO_ERROR;
}

/* Let the library choose an algorithm that needs at most `workspace` bytes. */
static int choose(struct cublas *cublas, struct known_form *known, uint64_t workspace, struct choice *choice)
{
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t result = {0};
    cublasLtMatrixLayout_t *m = known->matrices;
    int found = 0;
    memset(choice, 0, sizeof *choice);
    LT_CHECK(cublasLtMatmulPreferenceCreate, &preference);
    int code = set_preference(preference, &known->form, workspace);
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (code == GA_NO_ERROR)
        status = lt.cublasLtMatmulAlgoGetHeuristic(cublas->handle, known->product, m[A], m[B], m[C], m[D], preference,
                                                   1, &result, &found);
    lt.cublasLtMatmulPreferenceDestroy(preference);
    if (code != GA_NO_ERROR || status == CUBLAS_STATUS_NOT_SUPPORTED)
        return code;
    if (status != CUBLAS_STATUS_SUCCESS)
        return call_failed(status, "cublasLtMatmulAlgoGetHeuristic");
    choice->exists = found > 0 && result.state == CUBLAS_STATUS_SUCCESS;
    choice->algorithm = result.algo;
    choice->workspace = result.workspaceSize;
    return GA_NO_ERROR;
}

/* The key under which the cache of binaries keeps the algorithm of a form, as text */
static void cache_key(gpucontext *ctx, const struct form *form, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "cuBLASLt %zu on %s, %u processors: ", cuda_library_version(&library),
                                   ctx->info.name, ctx->info.processors);
    const unsigned char *bytes = (const unsigned char *)form;
    for (size_t i = 0; i < sizeof *form && used + 3 <= size; ++i)
        used += (size_t)snprintf(text + used, size - used, "%02x", bytes[i]);
}

/* Find the algorithm in the cache. The library checks it. Return 0 if there is none, or if the library refuses it. */
static int find_choice(gpucontext *ctx, struct known_form *known, const char *key)
{
    struct cublas *cublas = ((cuda_device *)ctx->device)->cublas;
    cublasLtMatmulHeuristicResult_t result = {0};
    cublasLtMatrixLayout_t *m = known->matrices;
    size_t size = 0;
    void *kept = device_program_cache.find ? device_program_cache.find(ctx, key, 0, "", &size) : NULL;
    if (kept && size == sizeof known->choice.algorithm) {
        memcpy(&known->choice.algorithm, kept, size);
        known->choice.exists = lt.cublasLtMatmulAlgoCheck(cublas->handle, known->product, m[A], m[B], m[C], m[D],
                                                          &known->choice.algorithm, &result)
                                   == CUBLAS_STATUS_SUCCESS
                               && result.state == CUBLAS_STATUS_SUCCESS;
        known->choice.workspace = result.workspaceSize;
    }
    free(kept);
    return known->choice.exists;
}

static int prepare(gpucontext *ctx, struct known_form *known)
{
    cuda_device *d = (cuda_device *)ctx->device;
    char key[128 + sizeof ctx->info.name + 2 * sizeof known->form];
    /* the sizes that NVIDIA recommends */
    uint64_t workspace = (uint64_t)(d->capability >= 90 ? 32 : 4) << 20;
    int code = set_descriptors(known);
    if (code != GA_NO_ERROR)
        return code;
    cache_key(ctx, &known->form, key, sizeof key);
    if (find_choice(ctx, known, key))
        return GA_NO_ERROR;
    code = choose(d->cublas, known, workspace, &known->choice);
    if (code == GA_NO_ERROR && known->choice.exists && device_program_cache.keep)
        device_program_cache.keep(ctx, key, 0, "", &known->choice.algorithm, sizeof known->choice.algorithm);
    return code;
}

static size_t bucket_of(const struct form *form)
{
    uint64_t hash = 0;
    for (const uint64_t *word = (const uint64_t *)form; word < (const uint64_t *)(form + 1); ++word)
        hash = (hash ^ *word) * 0x9E3779B97F4A7C15u;
    return hash >> 32 & (BUCKETS - 1);
}

/* Return the record of a form; make it when the form is used for the first time. */
static int find_form(gpucontext *ctx, const struct form *form, struct known_form **found)
{
    struct cublas *cublas = ((cuda_device *)ctx->device)->cublas;
    struct known_form **bucket = &cublas->buckets[bucket_of(form)];
    for (*found = *bucket; *found; *found = (*found)->next)
        if (memcmp(&(*found)->form, form, sizeof *form) == 0)
            return GA_NO_ERROR;
    if (cublas->count == MOST_FORMS)
        forget_forms(cublas);
    if (!(*found = calloc(1, sizeof **found)))
        return device_failed(GA_MEMORY_ERROR, "out of host memory for cuBLASLt");
    (*found)->form = *form;
    int code = prepare(ctx, *found);
    if (code != GA_NO_ERROR) {
        free_form(*found);
        return code;
    }
    (*found)->next = *bucket;
    *bucket = *found;
    ++cublas->count;
    return GA_NO_ERROR;
}

/* ---- factors ---- */

/* A factor for the library: a number of the scale type on the host, or the address of such a number on the device */
union factor {
    float single;
    double number;
    device_memory address;
};

/* Return in *address where a number of the host is on the device. GA_UNSUPPORTED_ERROR: there is no room for it. */
static int number_on_device(gpucontext *ctx, int typecode, double value, device_memory *address)
{
    cuda_device *d = (cuda_device *)ctx->device;
    struct cublas *cublas = d->cublas;
    float single = (float)value;
    unsigned i = 0;
    while (i < cublas->n_numbers
           && (cublas->known_numbers[i].typecode != typecode
               || memcmp(&cublas->known_numbers[i].value, &value, sizeof value) != 0))
        ++i;
    if (i == NUMBERS)
        return GA_UNSUPPORTED_ERROR;
    CUresult status = cublas->numbers ? CUDA_SUCCESS : cuda.cuMemAlloc_v2(&cublas->numbers, NUMBERS * sizeof value);
    if (status == CUDA_ERROR_OUT_OF_MEMORY)
        return GA_UNSUPPORTED_ERROR;
    CUDA_CHECK(d, status, "cuMemAlloc");
    *address = cublas->numbers + i * sizeof value;
    if (i < cublas->n_numbers)
        return GA_NO_ERROR;
    int code = ctx->table->write(ctx->device, *address, 0, typecode == GA_DOUBLE ? (void *)&value : &single,
                                 typecode == GA_DOUBLE ? sizeof value : sizeof single);
    if (code == GA_NO_ERROR) {
        cublas->known_numbers[i].typecode = typecode;
        cublas->known_numbers[i].value = value;
        ++cublas->n_numbers;
    }
    return code;
}

static int set_factor(gpucontext *ctx, union factor *to, const matrix_factor *from, int typecode, int on_device)
{
    if (from->data)
        to->address = from->data->memory + from->offset;
    else if (on_device)
        return number_on_device(ctx, typecode, from->number, &to->address);
    else if (typecode == GA_DOUBLE)
        to->number = from->number;
    else
        to->single = (float)from->number;
    return GA_NO_ERROR;
}

/* ---- the product ---- */

/* Describe the product in an error message. */
static int product_failed(int code, const struct form *form)
{
    char reason[512];
    const char *type = form->type == CUDA_R_16F ? "float16" : form->type == CUDA_R_32F ? "float32" : "float64";
    if (code == GA_NO_ERROR || code == GA_UNSUPPORTED_ERROR)
        return code;
    snprintf(reason, sizeof reason, "%s", device_message());
    return device_failed(code, "%s, for %zu products of matrices with shapes (%zu, %zu) and (%zu, %zu), %s", reason,
                         (size_t)form->batch, (size_t)form->rows, (size_t)form->depth, (size_t)form->depth,
                         (size_t)form->columns, type);
}

/* All data of a call of the library. Calls are compared as bytes, so the padding is zero. */
struct product {
    struct form form;
    cublasLtMatmulAlgo_t algorithm;
    device_memory at[MATRICES], workspace;
    uint64_t workspace_size;
    union factor factors[2];
};

static const void *pointer(const union factor *factor, int on_device)
{
    return on_device ? (const void *)(uintptr_t)factor->address : (const void *)factor;
}

static int call_library(gpucontext *ctx, struct known_form *known, const struct product *product)
{
    cuda_device *d = (cuda_device *)ctx->device;
    int on_device = known->form.on_device;
    void *at[MATRICES];
    cublasLtMatrixLayout_t *m = known->matrices;
    for (int i = 0; i < MATRICES; ++i)
        at[i] = (void *)(uintptr_t)product->at[i];
    CUDA_ENTER(d);
    cublasStatus_t status = lt.cublasLtMatmul(
        d->cublas->handle, known->product, pointer(&product->factors[0], on_device), at[A], m[A], at[B], m[B],
        pointer(&product->factors[1], on_device), at[C], m[C], at[D], m[D], &product->algorithm,
        (void *)(uintptr_t)product->workspace, product->workspace_size, cuda_stream(d));
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH)
        return GA_UNSUPPORTED_ERROR;
    return status == CUBLAS_STATUS_SUCCESS ? GA_NO_ERROR
                                           : product_failed(call_failed(status, "cublasLtMatmul"), &known->form);
}

/* Allocate the workspace. If memory is exhausted, choose an algorithm without workspace for this call. */
static int find_workspace(gpucontext *ctx, struct known_form *known, struct choice *choice, gpudata **workspace)
{
    int code = GA_NO_ERROR;
    *choice = known->choice;
    *workspace = choice->workspace ? gpudata_alloc(ctx, choice->workspace, NULL, 0, &code) : NULL;
    if (code == GA_MEMORY_ERROR)
        code = choose(((cuda_device *)ctx->device)->cublas, known, 0, choice);
    return code;
}

int cublas_run(gpucontext *ctx, const void *data)
{
    const struct product *product = data;
    struct known_form *known = NULL;
    int code = find_form(ctx, &product->form, &known);
    return code == GA_NO_ERROR ? call_library(ctx, known, product) : product_failed(code, &product->form);
}

/* Fill in the data of a call, and make the call, or collect it. The first product of a form is not held back, because only
 * the caller can compute a product that the library does not support. */
static int compute(gpucontext *ctx, struct known_form *known, const matrix_stack *const order[MATRICES],
                   const union factor factors[2])
{
    struct product product;
    struct choice choice;
    gpudata *workspace;
    memset(&product, 0, sizeof product);
    int code = find_workspace(ctx, known, &choice, &workspace);
    if (code != GA_NO_ERROR)
        return product_failed(code, &known->form);
    if (!choice.exists)
        return GA_UNSUPPORTED_ERROR;
    product.form = known->form;
    product.algorithm = choice.algorithm;
    for (int i = 0; i < MATRICES; ++i)
        product.at[i] = address_of(order[i]);
    product.workspace = workspace ? workspace->memory : 0;
    product.workspace_size = choice.workspace;
    memcpy(product.factors, factors, sizeof product.factors);
    if (known->computed)
        code = queue_product(ctx, &product, sizeof product);
    else {
        code = queue_make_held(ctx);
        if (code == GA_NO_ERROR)
            code = call_library(ctx, known, &product);
        if (code == GA_NO_ERROR)
            queue_note(ctx, CALL_PRODUCT, &product, sizeof product);
        if (code == GA_UNSUPPORTED_ERROR)
            known->choice.exists = 0;
        known->computed = code == GA_NO_ERROR;
    }
    gpudata_release(workspace);
    return code;
}

int cublas_product(gpucontext *ctx, int typecode, int tf32, const matrix_factor *alpha, const matrix_stack *a,
                   const matrix_stack *b, const matrix_factor *beta, const matrix_stack *c, const matrix_stack *out)
{
    size_t version;
    int code = cublas_open(ctx, &version), on_device = alpha->data || beta->data;
    if (code != GA_NO_ERROR)
        return code;
    cuda_device *d = (cuda_device *)ctx->device;
    /* The library multiplies by 0 instead of skipping factors, and NaN * 0 is NaN. */
    if (a->dims[2] == 0 || (!alpha->data && alpha->number == 0))
        return GA_UNSUPPORTED_ERROR;
    const matrix_stack *order[MATRICES];
    struct form form;
    memset(&form, 0, sizeof form);
    if (!describe(&form, order, a, b, c, out, beta->data || beta->number != 0, gpuarray_get_elsize(typecode)))
        return GA_UNSUPPORTED_ERROR;
    form.type = typecode == GA_DOUBLE ? CUDA_R_64F : typecode == GA_FLOAT ? CUDA_R_32F : CUDA_R_16F;
    form.compute = typecode == GA_DOUBLE               ? CUBLAS_COMPUTE_64F
                   : typecode == GA_FLOAT && tf32 != 0 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                       : CUBLAS_COMPUTE_32F;
    form.on_device = on_device;
    union factor factors[2];
    memset(factors, 0, sizeof factors);
    CUDA_ENTER(d);
    code = set_factor(ctx, &factors[0], alpha, typecode, on_device);
    if (code == GA_NO_ERROR)
        code = set_factor(ctx, &factors[1], beta, typecode, on_device);
    struct known_form *known = NULL;
    if (code == GA_NO_ERROR)
        code = find_form(ctx, &form, &known);
    code = code == GA_NO_ERROR ? compute(ctx, known, order, factors) : product_failed(code, &form);
    if (code == GA_NO_ERROR && ctx->flags & GA_CTX_CHECKED)
        code = product_failed(ctx->table->sync(ctx->device), &form);
    return context_checked(ctx, code);
}
