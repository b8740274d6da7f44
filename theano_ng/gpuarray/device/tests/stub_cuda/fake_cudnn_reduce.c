/* Reductions of the fake cuDNN. */
#include <math.h>

#include "fake_cudnn.h"

struct cudnnReduceTensorStruct {
    int kind, operation, compute, nan, indices;
};

struct reduction {
    struct cudnnReduceTensorStruct what;
    double alpha, beta;
    struct cudnnTensorStruct a, c;
    char *a_at, *c_at;
    uint32_t *indices;
};

cudnnStatus_t cudnnCreateReduceTensorDescriptor(cudnnReduceTensorDescriptor_t *reduction)
{
    CALL("cudnnCreateReduceTensorDescriptor");
    *reduction = fake_made(REDUCTION, sizeof **reduction);
    (*reduction)->operation = -1;
    return 0;
}

cudnnStatus_t cudnnSetReduceTensorDescriptor(cudnnReduceTensorDescriptor_t reduction, int operation, int compute,
                                             int nan, int indices, int indices_type)
{
    CALL("cudnnSetReduceTensorDescriptor");
    int has_indices = operation == CUDNN_REDUCE_TENSOR_MIN || operation == CUDNN_REDUCE_TENSOR_MAX
                      || operation == CUDNN_REDUCE_TENSOR_AMAX;
    if (!reduction || reduction->kind != REDUCTION || operation < 0 || operation > CUDNN_REDUCE_TENSOR_MUL_NO_ZEROS
        || (indices && !has_indices) || indices_type != CUDNN_32BIT_INDICES)
        return CUDNN_STATUS_BAD_PARAM;
    reduction->operation = operation;
    reduction->compute = compute;
    reduction->nan = nan;
    reduction->indices = indices;
    return 0;
}

cudnnStatus_t cudnnDestroyReduceTensorDescriptor(cudnnReduceTensorDescriptor_t reduction)
{
    return fake_destroyed(reduction, REDUCTION);
}

/* The axes of c have the lengths of a, or length 1. The library computes in float or double. */
static int is_reduction(cudnnReduceTensorDescriptor_t reduction, cudnnTensorDescriptor_t a, cudnnTensorDescriptor_t c)
{
    if (!reduction || reduction->kind != REDUCTION || reduction->operation < 0 || a->kind != TENSOR || c->kind != TENSOR
        || a->type != c->type || a->nd != c->nd)
        return CUDNN_STATUS_BAD_PARAM;
    if (reduction->compute != (a->type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT))
        return CUDNN_STATUS_NOT_SUPPORTED;
    for (int i = 0; i < a->nd; ++i)
        if (c->dims[i] != 1 && c->dims[i] != a->dims[i])
            return CUDNN_STATUS_BAD_PARAM;
    return 0;
}

static size_t count_of(cudnnTensorDescriptor_t tensor)
{
    size_t count = 1;
    for (int i = 0; i < tensor->nd; ++i)
        count *= (size_t)tensor->dims[i];
    return count;
}

cudnnStatus_t cudnnGetReductionIndicesSize(cudnnHandle_t handle, cudnnReduceTensorDescriptor_t reduction,
                                           cudnnTensorDescriptor_t a, cudnnTensorDescriptor_t c, size_t *size)
{
    CALL("cudnnGetReductionIndicesSize");
    CHECKED(is_handle(handle));
    CHECKED(is_reduction(reduction, a, c));
    *size = reduction->indices ? count_of(c) * sizeof(uint32_t) : 0;
    return 0;
}

cudnnStatus_t cudnnGetReductionWorkspaceSize(cudnnHandle_t handle, cudnnReduceTensorDescriptor_t reduction,
                                             cudnnTensorDescriptor_t a, cudnnTensorDescriptor_t c, size_t *size)
{
    CALL("cudnnGetReductionWorkspaceSize");
    CHECKED(is_handle(handle));
    CHECKED(is_reduction(reduction, a, c));
    *size = fake_dnn.workspace;
    return 0;
}

/* Combine a value with the result so far. */
static double combine(const struct reduction *it, double result, double value)
{
    switch (it->what.operation) {
    case CUDNN_REDUCE_TENSOR_MUL: return result * value;
    case CUDNN_REDUCE_TENSOR_MUL_NO_ZEROS: return value == 0 ? result : result * value;
    case CUDNN_REDUCE_TENSOR_NORM1: return result + fabs(value);
    case CUDNN_REDUCE_TENSOR_NORM2: return result + value * value;
    default: return result + value;
    }
}

static int is_better(const struct reduction *it, double value, double best)
{
    if (isnan(value) || isnan(best))
        return isnan(value) && !isnan(best) && it->what.nan;
    return it->what.operation == CUDNN_REDUCE_TENSOR_MIN ? value < best : value > best;
}

/* Reduce to one element. `index` is its index in c. */
static void reduce_one(const struct reduction *it, const int *index, uint32_t *place)
{
    struct cudnnTensorStruct window = it->a;
    int operation = it->what.operation, step[CUDNN_DIM_MAX] = {0}, at[CUDNN_DIM_MAX];
    int product = operation == CUDNN_REDUCE_TENSOR_MUL || operation == CUDNN_REDUCE_TENSOR_MUL_NO_ZEROS;
    int extreme = operation >= CUDNN_REDUCE_TENSOR_MIN && operation <= CUDNN_REDUCE_TENSOR_AMAX;
    double result = product;
    uint32_t count = 0;
    for (int i = 0; i < window.nd; ++i)
        window.dims[i] = it->c.dims[i] == 1 ? it->a.dims[i] : 1;
    do {
        for (int i = 0; i < window.nd; ++i)
            at[i] = index[i] + step[i];
        double value = number_at(element_of(&it->a, it->a_at, at), it->a.type);
        if (operation == CUDNN_REDUCE_TENSOR_AMAX)
            value = fabs(value);
        if (!extreme)
            result = combine(it, result, value);
        else if (count == 0 || is_better(it, value, result)) {
            result = value;
            *place = count;
        }
        ++count;
    } while (next_index(&window, step));
    if (operation == CUDNN_REDUCE_TENSOR_AVG)
        result /= count;
    else if (operation == CUDNN_REDUCE_TENSOR_NORM2)
        result = sqrt(result);
    blend(element_of(&it->c, it->c_at, index), it->c.type, it->alpha, it->beta, result);
}

static void run(void *arguments)
{
    struct reduction *it = arguments;
    int index[CUDNN_DIM_MAX] = {0};
    uint32_t place = 0, *to = it->indices;
    do {
        reduce_one(it, index, &place);
        if (to)
            *to++ = place;
    } while (next_index(&it->c, index));
}

cudnnStatus_t cudnnReduceTensor(cudnnHandle_t handle, cudnnReduceTensorDescriptor_t reduction, void *indices,
                                size_t indices_size, void *workspace, size_t workspace_size, const void *alpha,
                                cudnnTensorDescriptor_t a_layout, const void *a, const void *beta,
                                cudnnTensorDescriptor_t c_layout, void *c)
{
    CALL("cudnnReduceTensor");
    CHECKED(is_handle(handle));
    CHECKED(is_tensor(a_layout, a));
    CHECKED(is_tensor(c_layout, c));
    CHECKED(is_reduction(reduction, a_layout, c_layout));
    CHECKED(is_workspace(workspace, workspace_size, fake_dnn.workspace));
    CHECKED(is_workspace(indices, indices_size, reduction->indices ? count_of(c_layout) * sizeof(uint32_t) : 0));
    struct reduction it = {.what = *reduction,
                           .alpha = factor_of(alpha, a_layout->type),
                           .beta = factor_of(beta, a_layout->type),
                           .a = *a_layout,
                           .c = *c_layout,
                           .a_at = (char *)a,
                           .c_at = c,
                           .indices = reduction->indices ? indices : NULL};
    fake_log("cudnnReduceTensor %d %d %zu", reduction->operation, reduction->indices, workspace_size);
    return run_later(handle, run, &it, sizeof it);
}
