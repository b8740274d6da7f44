/* Pooling and its gradient by cuDNN. */
#include "cudnn_core.h"

/* NaN is kept, as on the host. */
static int make_pooling(const void *from, void **object)
{
    const dnn_windows *key = from;
    CUDNN_CALL(cudnnCreatePoolingDescriptor, (cudnnPoolingDescriptor_t *)object);
    CUDNN_CALL(cudnnSetPoolingNdDescriptor, *object, key->mode, CUDNN_PROPAGATE_NAN, key->nd, key->window, key->pad,
               key->stride);
    return GA_NO_ERROR;
}

static void destroy_pooling(void *object)
{
    if (object)
        cudnn.cudnnDestroyPoolingDescriptor(object);
}

static const struct dnn_kind poolings = {make_pooling, destroy_pooling};

static int forward(const struct dnn_call *call, const dnn_windows *windows, const dnn_tensor *x, const dnn_tensor *y)
{
    union dnn_factor one = cudnn_factor(1, x->typecode), zero = cudnn_factor(0, x->typecode);
    cudnnTensorDescriptor_t x_layout, y_layout;
    cudnnPoolingDescriptor_t pooling;
    CUDNN_TRY(cudnn_layout(call, x, &x_layout));
    CUDNN_TRY(cudnn_layout(call, y, &y_layout));
    CUDNN_TRY(cudnn_find(call, &poolings, windows, sizeof *windows, (void **)&pooling));
    CUDNN_CALL(cudnnPoolingForward, call->handle, pooling, &one, x_layout, cudnn_at(x), &zero, y_layout, cudnn_at(y));
    return GA_NO_ERROR;
}

int cudnn_pool(gpucontext *ctx, const dnn_windows *windows, const dnn_tensor *x, const dnn_tensor *y)
{
    struct dnn_call call;
    int code = cudnn_begin(&call, ctx);
    if (code == GA_NO_ERROR)
        code = forward(&call, windows, x, y);
    return cudnn_end(&call, code, "pooling", 2, (const dnn_tensor *const[]){x, y});
}

static int backward(const struct dnn_call *call, const dnn_windows *windows, const dnn_tensor *y, const dnn_tensor *dy,
                    const dnn_tensor *x, const dnn_tensor *dx)
{
    union dnn_factor one = cudnn_factor(1, x->typecode), zero = cudnn_factor(0, x->typecode);
    cudnnTensorDescriptor_t x_layout, y_layout;
    cudnnPoolingDescriptor_t pooling;
    CUDNN_TRY(cudnn_layout(call, x, &x_layout));
    CUDNN_TRY(cudnn_layout(call, y, &y_layout));
    CUDNN_TRY(cudnn_find(call, &poolings, windows, sizeof *windows, (void **)&pooling));
    CUDNN_CALL(cudnnPoolingBackward, call->handle, pooling, &one, y_layout, cudnn_at(y), y_layout, cudnn_at(dy),
               x_layout, cudnn_at(x), &zero, x_layout, cudnn_at(dx));
    return GA_NO_ERROR;
}

int cudnn_pool_gradient(gpucontext *ctx, const dnn_windows *windows, const dnn_tensor *y, const dnn_tensor *dy,
                        const dnn_tensor *x, const dnn_tensor *dx)
{
    struct dnn_call call;
    int code = cudnn_begin(&call, ctx);
    if (code == GA_NO_ERROR)
        code = backward(&call, windows, y, dy, x, dx);
    return cudnn_end(&call, code, "the gradient of pooling", 4, (const dnn_tensor *const[]){y, dy, x, dx});
}
