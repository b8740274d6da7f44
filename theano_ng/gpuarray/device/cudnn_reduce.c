/* Reductions by cuDNN: sums, products, extremes and norms along axes. */
#include "cudnn_core.h"

struct reduction_key {
    int operation, type, indices;
};

/* NaN is kept, as on the host. */
static int make_reduction(const void *from, void **object)
{
    const struct reduction_key *key = from;
    CUDNN_CALL(cudnnCreateReduceTensorDescriptor, (cudnnReduceTensorDescriptor_t *)object);
    CUDNN_CALL(cudnnSetReduceTensorDescriptor, *object, key->operation, key->type, CUDNN_PROPAGATE_NAN, key->indices,
               CUDNN_32BIT_INDICES);
    return GA_NO_ERROR;
}

static void destroy_reduction(void *object)
{
    if (object)
        cudnn.cudnnDestroyReduceTensorDescriptor(object);
}

static const struct dnn_kind reductions = {make_reduction, destroy_reduction};

static int reduce(const struct dnn_call *call, int operation, int accumulate, const dnn_tensor *x, const dnn_tensor *y,
                  gpudata *indices)
{
    struct reduction_key key = {operation, cudnn_type(accumulate),
                                indices ? CUDNN_REDUCE_TENSOR_FLATTENED_INDICES : CUDNN_REDUCE_TENSOR_NO_INDICES};
    union dnn_factor one = cudnn_factor(1, x->typecode), zero = cudnn_factor(0, x->typecode);
    cudnnTensorDescriptor_t x_layout, y_layout;
    cudnnReduceTensorDescriptor_t reduction;
    size_t size, indices_size = 0;
    gpudata *workspace;
    CUDNN_TRY(cudnn_layout(call, x, &x_layout));
    CUDNN_TRY(cudnn_layout(call, y, &y_layout));
    CUDNN_TRY(cudnn_find(call, &reductions, &key, sizeof key, (void **)&reduction));
    if (indices) {
        CUDNN_CALL(cudnnGetReductionIndicesSize, call->handle, reduction, x_layout, y_layout, &indices_size);
        if (indices_size > indices->size)
            return device_failed(GA_UNSUPPORTED_ERROR, "cuDNN needs %zu bytes for indices", indices_size);
    }
    CUDNN_CALL(cudnnGetReductionWorkspaceSize, call->handle, reduction, x_layout, y_layout, &size);
    CUDNN_TRY(cudnn_workspace(call, size, &workspace));
    cudnnStatus_t status =
        cudnn.cudnnReduceTensor(call->handle, reduction, cudnn_memory(indices), indices_size, cudnn_memory(workspace),
                                size, &one, x_layout, cudnn_at(x), &zero, y_layout, cudnn_at(y));
    gpudata_release(workspace);
    return status == CUDNN_STATUS_SUCCESS ? GA_NO_ERROR : cudnn_failed(status, "cudnnReduceTensor");
}

int cudnn_reduce(gpucontext *ctx, int operation, int accumulate, const dnn_tensor *x, const dnn_tensor *y,
                 gpudata *indices)
{
    struct dnn_call call;
    int code = cudnn_begin(&call, ctx);
    if (code == GA_NO_ERROR)
        code = reduce(&call, operation, accumulate, x, y, indices);
    return cudnn_end(&call, code, "a reduction", 2, (const dnn_tensor *const[]){x, y});
}
