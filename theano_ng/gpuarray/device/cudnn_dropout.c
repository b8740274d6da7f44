/* Dropout and its gradient by cuDNN. */
#include "cudnn_core.h"

static int states_size(const struct dnn_call *call, size_t *size)
{
    CUDNN_CALL(cudnnDropoutGetStatesSize, call->handle, size);
    return GA_NO_ERROR;
}

int cudnn_dropout_states(gpucontext *ctx, size_t *size)
{
    struct dnn_call call;
    int code = cudnn_begin(&call, ctx);
    if (code == GA_NO_ERROR)
        code = states_size(&call, size);
    return cudnn_end(&call, code, "dropout", 0, NULL);
}

static int make(const struct dnn_call *call, double rate, uint64_t seed, const dnn_tensor *states,
                cudnnDropoutDescriptor_t *descriptor)
{
    CUDNN_CALL(cudnnCreateDropoutDescriptor, descriptor);
    CUDNN_CALL(cudnnSetDropoutDescriptor, *descriptor, call->handle, (float)rate, cudnn_at(states), states->dims[0],
               seed);
    return GA_NO_ERROR;
}

int cudnn_dropout_make(gpucontext *ctx, double rate, uint64_t seed, const dnn_tensor *states, void **descriptor)
{
    struct dnn_call call;
    *descriptor = NULL;
    int code = cudnn_begin(&call, ctx);
    if (code == GA_NO_ERROR)
        code = make(&call, rate, seed, states, (cudnnDropoutDescriptor_t *)descriptor);
    if (code != GA_NO_ERROR) {
        cudnn_dropout_free(*descriptor);
        *descriptor = NULL;
    }
    return cudnn_end(&call, code, "dropout", 0, NULL);
}

void cudnn_dropout_free(void *descriptor)
{
    if (descriptor)
        cudnn.cudnnDestroyDropoutDescriptor(descriptor);
}

static int choices_size(const struct dnn_call *call, const dnn_tensor *x, size_t *size)
{
    cudnnTensorDescriptor_t layout;
    CUDNN_TRY(cudnn_layout(call, x, &layout));
    CUDNN_CALL(cudnnDropoutGetReserveSpaceSize, layout, size);
    return GA_NO_ERROR;
}

int cudnn_dropout_size(gpucontext *ctx, const dnn_tensor *x, size_t *size)
{
    struct dnn_call call;
    int code = cudnn_begin(&call, ctx);
    if (code == GA_NO_ERROR)
        code = choices_size(&call, x, size);
    return cudnn_end(&call, code, "dropout", 1, &x);
}

/* Let another descriptor with the same rate refer to these states, which are not seeded. */
static int with_states(const struct dnn_call *call, cudnnDropoutDescriptor_t given, const dnn_tensor *states,
                       cudnnDropoutDescriptor_t *descriptor)
{
    float rate;
    void *other;
    unsigned long long seed;
    CUDNN_CALL(cudnnGetDropoutDescriptor, given, call->handle, &rate, &other, &seed);
    CUDNN_CALL(cudnnCreateDropoutDescriptor, descriptor);
    CUDNN_CALL(cudnnRestoreDropoutDescriptor, *descriptor, call->handle, rate, cudnn_at(states), states->dims[0], seed);
    return GA_NO_ERROR;
}

static int forward(const struct dnn_call *call, cudnnDropoutDescriptor_t descriptor, const dnn_tensor *x,
                   const dnn_tensor *y, const dnn_tensor *choices)
{
    cudnnTensorDescriptor_t x_layout, y_layout;
    CUDNN_TRY(cudnn_layout(call, x, &x_layout));
    CUDNN_TRY(cudnn_layout(call, y, &y_layout));
    CUDNN_CALL(cudnnDropoutForward, call->handle, descriptor, x_layout, cudnn_at(x), y_layout, cudnn_at(y),
               cudnn_at(choices), choices->dims[0]);
    return GA_NO_ERROR;
}

int cudnn_dropout(gpucontext *ctx, void *descriptor, const dnn_tensor *states, const dnn_tensor *x, const dnn_tensor *y,
                  const dnn_tensor *choices)
{
    struct dnn_call call;
    cudnnDropoutDescriptor_t own = NULL;
    int code = cudnn_begin(&call, ctx);
    if (code == GA_NO_ERROR)
        code = with_states(&call, descriptor, states, &own);
    if (code == GA_NO_ERROR)
        code = forward(&call, own, x, y, choices);
    cudnn_dropout_free(own);
    return cudnn_end(&call, code, "dropout", 1, &x);
}

static int backward(const struct dnn_call *call, cudnnDropoutDescriptor_t descriptor, const dnn_tensor *dy,
                    const dnn_tensor *dx, const dnn_tensor *choices)
{
    cudnnTensorDescriptor_t dy_layout, dx_layout;
    CUDNN_TRY(cudnn_layout(call, dy, &dy_layout));
    CUDNN_TRY(cudnn_layout(call, dx, &dx_layout));
    CUDNN_CALL(cudnnDropoutBackward, call->handle, descriptor, dy_layout, cudnn_at(dy), dx_layout, cudnn_at(dx),
               cudnn_at(choices), choices->dims[0]);
    return GA_NO_ERROR;
}

int cudnn_dropout_gradient(gpucontext *ctx, void *descriptor, const dnn_tensor *dy, const dnn_tensor *dx,
                           const dnn_tensor *choices)
{
    struct dnn_call call;
    int code = cudnn_begin(&call, ctx);
    if (code == GA_NO_ERROR)
        code = backward(&call, descriptor, dy, dx, choices);
    return cudnn_end(&call, code, "the gradient of dropout", 1, &dy);
}
