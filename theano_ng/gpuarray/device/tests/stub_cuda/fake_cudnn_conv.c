/* Convolutions of the fake cuDNN. */
#include "fake_cudnn_conv.h"

struct cudnnFilterStruct {
    int kind, type, nd, dims[CUDNN_DIM_MAX];
};

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *filter)
{
    CALL("cudnnCreateFilterDescriptor");
    *filter = fake_made(FILTER, sizeof **filter);
    return 0;
}

cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t filter, int type, int format, int nd, const int dims[])
{
    CALL("cudnnSetFilterNdDescriptor");
    if (!filter || filter->kind != FILTER || format != CUDNN_TENSOR_NCHW || nd < 3 || nd > CUDNN_DIM_MAX || type < 0
        || type > CUDNN_DATA_HALF)
        return CUDNN_STATUS_BAD_PARAM;
    for (int i = 0; i < nd; ++i)
        if (dims[i] <= 0)
            return CUDNN_STATUS_BAD_PARAM;
    filter->type = type;
    filter->nd = nd;
    memcpy(filter->dims, dims, (size_t)nd * sizeof *dims);
    return 0;
}

cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter)
{
    return fake_destroyed(filter, FILTER);
}

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *convolution)
{
    CALL("cudnnCreateConvolutionDescriptor");
    *convolution = fake_made(CONVOLUTION, sizeof **convolution);
    (*convolution)->groups = 1;
    return 0;
}

cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t convolution, int axes, const int pad[],
                                              const int stride[], const int dilation[], int mode, int compute)
{
    CALL("cudnnSetConvolutionNdDescriptor");
    if (!convolution || convolution->kind != CONVOLUTION || axes < 2 || axes > MOST_AXES || mode < 0 || mode > 1)
        return CUDNN_STATUS_BAD_PARAM;
    for (int i = 0; i < axes; ++i) {
        if (pad[i] < 0 || stride[i] < 1 || dilation[i] < 1)
            return CUDNN_STATUS_BAD_PARAM;
        convolution->pad[i] = pad[i];
        convolution->stride[i] = stride[i];
        convolution->dilation[i] = dilation[i];
    }
    convolution->axes = axes;
    convolution->mode = mode;
    convolution->compute = compute;
    return 0;
}

cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t convolution, int groups)
{
    CALL("cudnnSetConvolutionGroupCount");
    if (!convolution || convolution->kind != CONVOLUTION || groups < 1)
        return CUDNN_STATUS_BAD_PARAM;
    convolution->groups = groups;
    return 0;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t convolution, int math)
{
    CALL("cudnnSetConvolutionMathType");
    if (!convolution || convolution->kind != CONVOLUTION || math < 0 || math > CUDNN_FMA_MATH)
        return CUDNN_STATUS_BAD_PARAM;
    convolution->math = math;
    return 0;
}

cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t convolution)
{
    return fake_destroyed(convolution, CONVOLUTION);
}

/* ---- supported forms ---- */

/* The arrays of a convolution: images, kernels, and output */
struct arrays {
    int direction;
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t convolution;
};

static int is_filter(cudnnFilterDescriptor_t filter, const void *at)
{
    if (!filter || filter->kind != FILTER || filter->nd == 0)
        return CUDNN_STATUS_BAD_PARAM;
    size_t count = size_of_type(filter->type);
    for (int i = 0; i < filter->nd; ++i)
        count *= (size_t)filter->dims[i];
    return (uintptr_t)at % size_of_type(filter->type) || !fake_is_memory(at, count) ? CUDNN_STATUS_BAD_PARAM : 0;
}

static int fit(const struct arrays *a)
{
    cudnnConvolutionDescriptor_t c = a->convolution;
    if (!c || c->kind != CONVOLUTION || !a->x || a->x->kind != TENSOR || !a->y || a->y->kind != TENSOR || !a->w
        || a->w->kind != FILTER || a->x->nd != c->axes + 2 || a->y->nd != c->axes + 2 || a->w->nd != c->axes + 2
        || a->x->type != a->w->type || a->x->type != a->y->type)
        return CUDNN_STATUS_BAD_PARAM;
    if (a->x->dims[0] != a->y->dims[0] || a->x->dims[1] != a->w->dims[1] * c->groups || a->y->dims[1] != a->w->dims[0]
        || a->w->dims[0] % c->groups)
        return CUDNN_STATUS_BAD_PARAM;
    for (int i = 0; i < c->axes; ++i) {
        int room = a->x->dims[2 + i] + 2 * c->pad[i] - ((a->w->dims[2 + i] - 1) * c->dilation[i] + 1);
        if (room < 0 || a->y->dims[2 + i] != room / c->stride[i] + 1)
            return CUDNN_STATUS_BAD_PARAM;
    }
    /* float16 is computed in float16 or float32, the other types in themselves. */
    if (c->compute != a->x->type && !(a->x->type == CUDNN_DATA_HALF && c->compute == CUDNN_DATA_FLOAT))
        return CUDNN_STATUS_NOT_SUPPORTED;
    return 0;
}

static int count_of(int direction)
{
    return direction == FORWARD   ? CUDNN_CONVOLUTION_FWD_ALGO_COUNT
           : direction == WEIGHTS ? CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT
                                  : CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT;
}

enum { GEMM, FFT, TILING, WINOGRAD, NONFUSED, MISSING };

static int method_of(int direction, int algorithm)
{
    static const int forward[] = {GEMM, GEMM, GEMM, MISSING, FFT, TILING, WINOGRAD, NONFUSED};
    static const int weights[] = {GEMM, GEMM, FFT, GEMM, MISSING, NONFUSED, TILING};
    static const int inputs[] = {GEMM, GEMM, FFT, TILING, WINOGRAD, NONFUSED};
    return direction == FORWARD ? forward[algorithm] : direction == WEIGHTS ? weights[algorithm] : inputs[algorithm];
}

/* Whether adding in a varying order makes the bits vary */
static int is_deterministic(int direction, int algorithm)
{
    return direction == FORWARD
           || (algorithm != CUDNN_CONVOLUTION_BWD_DATA_ALGO_0
               && !(direction == WEIGHTS && algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3));
}

/* Whether it is one of the gradients for which the library has no deterministic algorithm. (In the real library, these
 * depend on the version.) */
static int has_no_exact_gradient(const struct arrays *a)
{
    return a->direction != FORWARD && a->w->dims[2] == 7;
}

/* Return a status: whether an algorithm computes this form. */
static int supports(const struct arrays *a, int algorithm)
{
    const struct cudnnConvolutionStruct *c = a->convolution;
    CHECKED(fit(a));
    if (algorithm < 0 || algorithm >= count_of(a->direction))
        return CUDNN_STATUS_BAD_PARAM;
    int method = method_of(a->direction, algorithm), steps = 0, square = 1;
    int half = c->compute == CUDNN_DATA_HALF, twice = c->compute == CUDNN_DATA_DOUBLE;
    for (int i = 0; i < c->axes; ++i) {
        steps |= c->stride[i] != 1 || c->dilation[i] != 1;
        square &= a->w->dims[2 + i] == 3;
    }
    if (method == MISSING || (method != GEMM && method != TILING && c->axes == 3)
        || (a->direction == FORWARD && algorithm == 2 && (c->axes == 3 || half)) || (method != GEMM && steps)
        || ((method == WINOGRAD || method == NONFUSED) && (!square || twice))
        || (method != GEMM && method != NONFUSED && half) || (method == FFT && twice)
        || (half && !is_deterministic(a->direction, algorithm)) || (has_no_exact_gradient(a) && algorithm == 1))
        return CUDNN_STATUS_NOT_SUPPORTED;
    return 0;
}

static size_t memory_of(int algorithm)
{
    return fake_dnn.workspace * (size_t)algorithm;
}

/* Fill in the records of all algorithms: from the last to the first (`step` -1), or beginning with number `step`.
 * Algorithms that are refused follow the others. */
static void report(const struct arrays *a, int step, size_t room, int most, int *count,
                   cudnnConvolutionAlgoPerf_t *found)
{
    int n = count_of(a->direction);
    *count = 0;
    for (int refused = 0; refused < 2; ++refused)
        for (int i = 0; i < n && *count < most; ++i) {
            int algorithm = step < 0 ? n - 1 - i : (i + step) % n;
            int status = supports(a, algorithm);
            if (!status && memory_of(algorithm) > room)
                status = CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
            if ((status != 0) != refused)
                continue;
            found[(*count)++] = (cudnnConvolutionAlgoPerf_t){.algo = algorithm,
                                                             .status = status,
                                                             .time = status ? -1 : (float)*count,
                                                             .memory = memory_of(algorithm),
                                                             .determinism = is_deterministic(a->direction, algorithm),
                                                             .mathType = a->convolution->math};
        }
}

/* ---- computing ---- */

void fake_extend(struct cudnnTensorStruct *t, int axes)
{
    int missing = MOST_AXES - axes;
    for (int i = axes - 1; i >= 0; --i) {
        t->dims[2 + missing + i] = t->dims[2 + i];
        t->strides[2 + missing + i] = t->strides[2 + i];
    }
    for (int i = 0; i < missing; ++i) {
        t->dims[2 + i] = 1;
        t->strides[2 + i] = 0;
    }
    t->nd = 2 + MOST_AXES;
}

static size_t place_of(const struct cudnnTensorStruct *t, const int *index)
{
    size_t place = 0;
    for (int i = 0; i < t->nd; ++i)
        place = place * (size_t)t->dims[i] + (size_t)index[i];
    return place;
}

static const struct cudnnTensorStruct *result_of(const struct convolution *it)
{
    return it->direction == FORWARD ? &it->y : it->direction == WEIGHTS ? &it->w : &it->x;
}

double *fake_sums(const struct convolution *it)
{
    const struct cudnnConvolutionStruct *c = &it->c;
    const struct cudnnTensorStruct *out = result_of(it);
    size_t count = 1;
    for (int i = 0; i < out->nd; ++i)
        count *= (size_t)out->dims[i];
    double *sums = calloc(count, sizeof *sums);
    int missing = MOST_AXES - c->axes, y[CUDNN_DIM_MAX] = {0};
    do {
        int w[CUDNN_DIM_MAX] = {0}, x[CUDNN_DIM_MAX] = {y[0]};
        do {
            int inside = 1;

            int filter = y[1], group = filter / (it->w.dims[0] / c->groups);
            x[1] = group * it->w.dims[1] + w[1];
            int at[CUDNN_DIM_MAX] = {filter, w[1]};
            for (int i = 0; i < MOST_AXES; ++i) {
                int real = i - missing, stride = real < 0 ? 1 : c->stride[real], pad = real < 0 ? 0 : c->pad[real];
                int dilation = real < 0 ? 1 : c->dilation[real];
                x[2 + i] = y[2 + i] * stride + w[2 + i] * dilation - pad;
                inside &= x[2 + i] >= 0 && x[2 + i] < it->x.dims[2 + i];
                at[2 + i] = c->mode == CUDNN_CONVOLUTION ? it->w.dims[2 + i] - 1 - w[2 + i] : w[2 + i];
            }
            if (!inside)
                continue;
            double of_x = it->direction == INPUTS ? 1 : number_at(element_of(&it->x, it->x_at, x), it->x.type);
            double of_w = it->direction == WEIGHTS ? 1 : number_at(element_of(&it->w, it->w_at, at), it->w.type);
            double of_y = it->direction == FORWARD ? 1 : number_at(element_of(&it->y, it->y_at, y), it->y.type);
            const int *target = it->direction == FORWARD ? y : it->direction == WEIGHTS ? at : x;
            sums[place_of(out, target)] += of_x * of_w * of_y;
        } while (next_index(&it->w, w) && w[0] == 0);
    } while (next_index(&it->y, y));
    return sums;
}

static void run(void *arguments)
{
    struct convolution *it = arguments;
    const struct cudnnTensorStruct *out = result_of(it);
    char *out_at = it->direction == FORWARD ? it->y_at : it->direction == WEIGHTS ? it->w_at : it->x_at;
    double *sums = fake_sums(it);
    int index[CUDNN_DIM_MAX] = {0};
    do
        blend(element_of(out, out_at, index), out->type, it->alpha, it->beta, sums[place_of(out, index)]);
    while (next_index(out, index));
    free(sums);
}

/* Return a status: whether the result is apart from the inputs. */
static int are_apart(const struct convolution *it)
{
    const struct cudnnTensorStruct *t[] = {&it->x, &it->w, &it->y};
    char *at[] = {it->x_at, it->w_at, it->y_at}, *end[3];
    int out = it->direction == FORWARD ? 2 : it->direction == WEIGHTS ? 1 : 0;
    for (int k = 0; k < 3; ++k) {
        int last[CUDNN_DIM_MAX];
        for (int i = 0; i < t[k]->nd; ++i)
            last[i] = t[k]->dims[i] - 1;
        end[k] = element_of(t[k], at[k], last) + size_of_type(t[k]->type);
    }
    for (int k = 0; k < 3; ++k)
        if (k != out && at[k] < end[out] && at[out] < end[k])
            return CUDNN_STATUS_BAD_PARAM;
    return 0;
}

static int compute(cudnnHandle_t handle, const struct arrays *a, const char *name, const void *alpha, const void *x,
                   const void *w, const void *y, int algorithm, const void *workspace, size_t size, const void *beta)
{
    CHECKED(is_handle(handle));
    CHECKED(fit(a));
    CHECKED(is_tensor(a->x, x));
    CHECKED(is_tensor(a->y, y));
    CHECKED(is_filter(a->w, w));
    CHECKED(supports(a, algorithm));
    CHECKED(is_workspace(workspace, size, memory_of(algorithm)));
    struct convolution it = {.direction = a->direction,
                             .alpha = factor_of(alpha, a->x->type),
                             .beta = factor_of(beta, a->x->type),
                             .x = *a->x,
                             .y = *a->y,
                             .c = *a->convolution,
                             .x_at = (char *)x,
                             .w_at = (char *)w,
                             .y_at = (char *)y};
    it.w = (struct cudnnTensorStruct){.type = a->w->type, .nd = a->w->nd};
    for (int i = it.w.nd - 1, stride = 1; i >= 0; stride *= a->w->dims[i--]) {
        it.w.dims[i] = a->w->dims[i];
        it.w.strides[i] = stride;
    }
    fake_extend(&it.x, a->convolution->axes);
    fake_extend(&it.y, a->convolution->axes);
    fake_extend(&it.w, a->convolution->axes);
    CHECKED(are_apart(&it));
    fake_log("%s %d math %d compute %d", name, algorithm, a->convolution->math, a->convolution->compute);
    return run_later(handle, run, &it, sizeof it);
}

/* ---- measurements ---- */

struct spoiled {
    char *at;
    size_t size;
};

static void spoil(void *arguments)
{
    struct spoiled *it = arguments;
    memset(it->at, 0x7e, it->size);
}

/* The measurement overwrites the result, which is in C order. */
static int find(cudnnHandle_t handle, const struct arrays *a, const char *name, const void *x, const void *w,
                const void *y, int most, int *count, cudnnConvolutionAlgoPerf_t *found, const void *workspace,
                size_t size)
{
    CHECKED(is_handle(handle));
    CHECKED(fit(a));
    CHECKED(is_tensor(a->x, x));
    CHECKED(is_tensor(a->y, y));
    CHECKED(is_filter(a->w, w));
    CHECKED(is_workspace(workspace, size, size));
    report(a, 2, size, most, count, found);
    const int *dims = a->direction == FORWARD ? a->y->dims : a->direction == WEIGHTS ? a->w->dims : a->x->dims;
    struct spoiled it = {(char *)(a->direction == FORWARD   ? y
                                  : a->direction == WEIGHTS ? w
                                                            : x),
                         size_of_type(a->x->type)};
    for (int i = 0; i < a->convolution->axes + 2; ++i)
        it.size *= (size_t)dims[i];
    fake_log("%s %zu", name, size);
    return run_later(handle, spoil, &it, sizeof it);
}

static int guess(cudnnHandle_t handle, const struct arrays *a, const char *name, int most, int *count,
                 cudnnConvolutionAlgoPerf_t *found)
{
    CHECKED(is_handle(handle));
    CHECKED(fit(a));
    report(a, -1, SIZE_MAX, most, count, found);
    fake_log("%s", name);
    return 0;
}

static int size_of(cudnnHandle_t handle, const struct arrays *a, int algorithm, size_t *size)
{
    CHECKED(is_handle(handle));
    CHECKED(supports(a, algorithm));
    *size = memory_of(algorithm);
    return 0;
}

/* ---- the functions of the three directions ---- */

#define DIRECTION(Name, number, First, first, Second, second, Result, result)                                          \
    cudnnStatus_t cudnnGetConvolution##Name##Algorithm_v7(cudnnHandle_t handle, First first, Second second,            \
                                                          cudnnConvolutionDescriptor_t convolution, Result result,     \
                                                          int most, int *count, cudnnConvolutionAlgoPerf_t *found)     \
    {                                                                                                                  \
        CALL("cudnnGetConvolution" #Name "Algorithm_v7");                                                              \
        struct arrays a = {number, .first = first, .second = second, .result = result, .convolution = convolution};    \
        return guess(handle, &a, "cudnnGetConvolution" #Name "Algorithm_v7", most, count, found);                      \
    }                                                                                                                  \
    cudnnStatus_t cudnnFindConvolution##Name##AlgorithmEx(                                                             \
        cudnnHandle_t handle, First first, const void *first##_at, Second second, const void *second##_at,             \
        cudnnConvolutionDescriptor_t convolution, Result result, void *result##_at, int most, int *count,              \
        cudnnConvolutionAlgoPerf_t *found, void *workspace, size_t size)                                               \
    {                                                                                                                  \
        CALL("cudnnFindConvolution" #Name "AlgorithmEx");                                                              \
        struct arrays a = {number, .first = first, .second = second, .result = result, .convolution = convolution};    \
        return find(handle, &a, "cudnnFindConvolution" #Name "AlgorithmEx", x_at, w_at, y_at, most, count, found,      \
                    workspace, size);                                                                                  \
    }                                                                                                                  \
    cudnnStatus_t cudnnGetConvolution##Name##WorkspaceSize(cudnnHandle_t handle, First first, Second second,           \
                                                           cudnnConvolutionDescriptor_t convolution, Result result,    \
                                                           int algorithm, size_t *size)                                \
    {                                                                                                                  \
        CALL("cudnnGetConvolution" #Name "WorkspaceSize");                                                             \
        struct arrays a = {number, .first = first, .second = second, .result = result, .convolution = convolution};    \
        return size_of(handle, &a, algorithm, size);                                                                   \
    }                                                                                                                  \
    cudnnStatus_t cudnnConvolution##Name(cudnnHandle_t handle, const void *alpha, First first, const void *first##_at, \
                                         Second second, const void *second##_at,                                       \
                                         cudnnConvolutionDescriptor_t convolution, int algorithm, void *workspace,     \
                                         size_t size, const void *beta, Result result, void *result##_at)              \
    {                                                                                                                  \
        CALL("cudnnConvolution" #Name);                                                                                \
        struct arrays a = {number, .first = first, .second = second, .result = result, .convolution = convolution};    \
        return compute(handle, &a, "cudnnConvolution" #Name, alpha, x_at, w_at, y_at, algorithm, workspace, size,      \
                       beta);                                                                                          \
    }

DIRECTION(Forward, FORWARD, cudnnTensorDescriptor_t, x, cudnnFilterDescriptor_t, w, cudnnTensorDescriptor_t, y)
DIRECTION(BackwardFilter, WEIGHTS, cudnnTensorDescriptor_t, x, cudnnTensorDescriptor_t, y, cudnnFilterDescriptor_t, w)
DIRECTION(BackwardData, INPUTS, cudnnFilterDescriptor_t, w, cudnnTensorDescriptor_t, y, cudnnTensorDescriptor_t, x)
