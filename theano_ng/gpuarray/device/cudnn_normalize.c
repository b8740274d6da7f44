/* Batch normalization and its gradient by cuDNN. */
#include "cudnn_core.h"

/* Common data of the three computations */
struct normalization {
    union dnn_factor one, zero;
    cudnnTensorDescriptor_t x_layout, y_layout, statistic;
};

static int prepare(const struct dnn_call *call, const dnn_normalization *n, const dnn_tensor *y,
                   struct normalization *found)
{
    found->one = cudnn_factor(1, n->x->typecode);
    found->zero = cudnn_factor(0, n->x->typecode);
    CUDNN_TRY(cudnn_layout(call, n->x, &found->x_layout));
    CUDNN_TRY(cudnn_layout(call, y, &found->y_layout));
    return cudnn_layout(call, n->scale, &found->statistic);
}

static int train(const struct dnn_call *call, const dnn_normalization *n, double factor, const dnn_tensor *running_mean,
                 const dnn_tensor *running_variance)
{
    struct normalization it;
    CUDNN_TRY(prepare(call, n, n->y, &it));
    CUDNN_CALL(cudnnBatchNormalizationForwardTraining, call->handle, n->mode, &it.one, &it.zero, it.x_layout,
               cudnn_at(n->x), it.y_layout, cudnn_at(n->y), it.statistic, cudnn_at(n->scale), cudnn_at(n->bias), factor,
               running_mean ? cudnn_at(running_mean) : NULL, running_mean ? cudnn_at(running_variance) : NULL,
               n->epsilon, cudnn_at(n->mean), cudnn_at(n->spread));
    return GA_NO_ERROR;
}

int cudnn_normalize(gpucontext *ctx, const dnn_normalization *n, double factor, const dnn_tensor *running_mean,
                    const dnn_tensor *running_variance)
{
    struct dnn_call call;
    int code = cudnn_begin(&call, ctx);
    if (code == GA_NO_ERROR)
        code = train(&call, n, factor, running_mean, running_variance);
    return cudnn_end(&call, code, "batch normalization", 2, (const dnn_tensor *const[]){n->x, n->scale});
}

static int infer(const struct dnn_call *call, const dnn_normalization *n)
{
    struct normalization it;
    CUDNN_TRY(prepare(call, n, n->y, &it));
    CUDNN_CALL(cudnnBatchNormalizationForwardInference, call->handle, n->mode, &it.one, &it.zero, it.x_layout,
               cudnn_at(n->x), it.y_layout, cudnn_at(n->y), it.statistic, cudnn_at(n->scale), cudnn_at(n->bias),
               cudnn_at(n->mean), cudnn_at(n->spread), n->epsilon);
    return GA_NO_ERROR;
}

int cudnn_normalize_by(gpucontext *ctx, const dnn_normalization *n)
{
    struct dnn_call call;
    int code = cudnn_begin(&call, ctx);
    if (code == GA_NO_ERROR)
        code = infer(&call, n);
    return cudnn_end(&call, code, "batch normalization", 2, (const dnn_tensor *const[]){n->x, n->scale});
}

static int backward(const struct dnn_call *call, const dnn_normalization *n, const dnn_tensor *dy, const dnn_tensor *dx,
                    const dnn_tensor *dscale, const dnn_tensor *dbias)
{
    struct normalization it;
    cudnnTensorDescriptor_t dx_layout;
    CUDNN_TRY(prepare(call, n, dy, &it));
    CUDNN_TRY(cudnn_layout(call, dx, &dx_layout));
    CUDNN_CALL(cudnnBatchNormalizationBackward, call->handle, n->mode, &it.one, &it.zero, &it.one, &it.zero,
               it.x_layout, cudnn_at(n->x), it.y_layout, cudnn_at(dy), dx_layout, cudnn_at(dx), it.statistic,
               cudnn_at(n->scale), cudnn_at(dscale), cudnn_at(dbias), n->epsilon, cudnn_at(n->mean),
               cudnn_at(n->spread));
    return GA_NO_ERROR;
}

int cudnn_normalize_gradient(gpucontext *ctx, const dnn_normalization *n, const dnn_tensor *dy, const dnn_tensor *dx,
                             const dnn_tensor *dscale, const dnn_tensor *dbias)
{
    struct dnn_call call;
    int code = cudnn_begin(&call, ctx);
    if (code == GA_NO_ERROR)
        code = backward(&call, n, dy, dx, dscale, dbias);
    return cudnn_end(&call, code, "the gradient of batch normalization", 3,
                     (const dnn_tensor *const[]){n->x, dy, n->scale});
}
