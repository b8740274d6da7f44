/* Softmax and its gradient by cuDNN. */
#include "cudnn_core.h"

static int forward(const struct dnn_call *call, int algorithm, int mode, const dnn_tensor *x, const dnn_tensor *y)
{
    union dnn_factor one = cudnn_factor(1, x->typecode), zero = cudnn_factor(0, x->typecode);
    cudnnTensorDescriptor_t x_layout, y_layout;
    CUDNN_TRY(cudnn_layout(call, x, &x_layout));
    CUDNN_TRY(cudnn_layout(call, y, &y_layout));
    CUDNN_CALL(cudnnSoftmaxForward, call->handle, algorithm, mode, &one, x_layout, cudnn_at(x), &zero, y_layout,
               cudnn_at(y));
    return GA_NO_ERROR;
}

int cudnn_softmax(gpucontext *ctx, int algorithm, int mode, const dnn_tensor *x, const dnn_tensor *y)
{
    struct dnn_call call;
    int code = cudnn_begin(&call, ctx);
    if (code == GA_NO_ERROR)
        code = forward(&call, algorithm, mode, x, y);
    return cudnn_end(&call, code, "softmax", 2, (const dnn_tensor *const[]){x, y});
}

static int backward(const struct dnn_call *call, int algorithm, int mode, const dnn_tensor *y, const dnn_tensor *dy,
                    const dnn_tensor *dx)
{
    union dnn_factor one = cudnn_factor(1, y->typecode), zero = cudnn_factor(0, y->typecode);
    cudnnTensorDescriptor_t y_layout, dy_layout, dx_layout;
    CUDNN_TRY(cudnn_layout(call, y, &y_layout));
    CUDNN_TRY(cudnn_layout(call, dy, &dy_layout));
    CUDNN_TRY(cudnn_layout(call, dx, &dx_layout));
    CUDNN_CALL(cudnnSoftmaxBackward, call->handle, algorithm, mode, &one, y_layout, cudnn_at(y), dy_layout,
               cudnn_at(dy), &zero, dx_layout, cudnn_at(dx));
    return GA_NO_ERROR;
}

int cudnn_softmax_gradient(gpucontext *ctx, int algorithm, int mode, const dnn_tensor *y, const dnn_tensor *dy,
                           const dnn_tensor *dx)
{
    struct dnn_call call;
    int code = cudnn_begin(&call, ctx);
    if (code == GA_NO_ERROR)
        code = backward(&call, algorithm, mode, y, dy, dx);
    return cudnn_end(&call, code, "the gradient of softmax", 3, (const dnn_tensor *const[]){y, dy, dx});
}
