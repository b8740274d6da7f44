/* Spatial transformers and their gradients by cuDNN. */
#include "cudnn_core.h"

#include <limits.h>

struct transformer_key {
    int type, dims[4];
};

static int make_transformer(const void *from, void **object)
{
    const struct transformer_key *key = from;
    CUDNN_CALL(cudnnCreateSpatialTransformerDescriptor, (cudnnSpatialTransformerDescriptor_t *)object);
    CUDNN_CALL(cudnnSetSpatialTransformerNdDescriptor, *object, CUDNN_SAMPLER_BILINEAR, key->type, 4, key->dims);
    return GA_NO_ERROR;
}

static void destroy_transformer(void *object)
{
    if (object)
        cudnn.cudnnDestroySpatialTransformerDescriptor(object);
}

static const struct dnn_kind transformers = {make_transformer, destroy_transformer};

/* Return the descriptor for new images of the size of a grid. */
static int find(const struct dnn_call *call, const dnn_tensor *grid, size_t channels,
                cudnnSpatialTransformerDescriptor_t *transformer)
{
    size_t dims[] = {grid->dims[0], channels, grid->dims[1], grid->dims[2]};
    struct transformer_key key = {.type = cudnn_type(grid->typecode)};
    for (int i = 0; i < 4; ++i) {
        if (dims[i] > INT_MAX)
            return device_failed(GA_UNSUPPORTED_ERROR, "cuDNN needs lengths of less than 2^31");
        key.dims[i] = (int)dims[i];
    }
    return cudnn_find(call, &transformers, &key, sizeof key, (void **)transformer);
}

static int grid_forward(const struct dnn_call *call, size_t channels, const dnn_tensor *theta, const dnn_tensor *grid)
{
    cudnnSpatialTransformerDescriptor_t transformer;
    CUDNN_TRY(find(call, grid, channels, &transformer));
    CUDNN_CALL(cudnnSpatialTfGridGeneratorForward, call->handle, transformer, cudnn_at(theta), cudnn_at(grid));
    return GA_NO_ERROR;
}

int cudnn_grid(gpucontext *ctx, size_t channels, const dnn_tensor *theta, const dnn_tensor *grid)
{
    struct dnn_call call;
    int code = cudnn_begin(&call, ctx);
    if (code == GA_NO_ERROR)
        code = grid_forward(&call, channels, theta, grid);
    return cudnn_end(&call, code, "a grid", 2, (const dnn_tensor *const[]){theta, grid});
}

static int grid_backward(const struct dnn_call *call, size_t channels, const dnn_tensor *dgrid,
                         const dnn_tensor *dtheta)
{
    cudnnSpatialTransformerDescriptor_t transformer;
    CUDNN_TRY(find(call, dgrid, channels, &transformer));
    CUDNN_CALL(cudnnSpatialTfGridGeneratorBackward, call->handle, transformer, cudnn_at(dgrid), cudnn_at(dtheta));
    return GA_NO_ERROR;
}

int cudnn_grid_gradient(gpucontext *ctx, size_t channels, const dnn_tensor *dgrid, const dnn_tensor *dtheta)
{
    struct dnn_call call;
    int code = cudnn_begin(&call, ctx);
    if (code == GA_NO_ERROR)
        code = grid_backward(&call, channels, dgrid, dtheta);
    return cudnn_end(&call, code, "the gradient of a grid", 2, (const dnn_tensor *const[]){dgrid, dtheta});
}

static int sample(const struct dnn_call *call, const dnn_tensor *x, const dnn_tensor *grid, const dnn_tensor *y)
{
    union dnn_factor one = cudnn_factor(1, x->typecode), zero = cudnn_factor(0, x->typecode);
    cudnnSpatialTransformerDescriptor_t transformer;
    cudnnTensorDescriptor_t x_layout, y_layout;
    CUDNN_TRY(find(call, grid, x->dims[1], &transformer));
    CUDNN_TRY(cudnn_layout(call, x, &x_layout));
    CUDNN_TRY(cudnn_layout(call, y, &y_layout));
    CUDNN_CALL(cudnnSpatialTfSamplerForward, call->handle, transformer, &one, x_layout, cudnn_at(x), cudnn_at(grid),
               &zero, y_layout, cudnn_at(y));
    return GA_NO_ERROR;
}

int cudnn_sample(gpucontext *ctx, const dnn_tensor *x, const dnn_tensor *grid, const dnn_tensor *y)
{
    struct dnn_call call;
    int code = cudnn_begin(&call, ctx);
    if (code == GA_NO_ERROR)
        code = sample(&call, x, grid, y);
    return cudnn_end(&call, code, "sampling", 2, (const dnn_tensor *const[]){x, grid});
}

static int sample_backward(const struct dnn_call *call, const dnn_tensor *x, const dnn_tensor *grid,
                           const dnn_tensor *dy, const dnn_tensor *dx, const dnn_tensor *dgrid)
{
    union dnn_factor one = cudnn_factor(1, x->typecode), zero = cudnn_factor(0, x->typecode);
    cudnnSpatialTransformerDescriptor_t transformer;
    cudnnTensorDescriptor_t x_layout, y_layout;
    CUDNN_TRY(find(call, grid, x->dims[1], &transformer));
    CUDNN_TRY(cudnn_layout(call, x, &x_layout));
    CUDNN_TRY(cudnn_layout(call, dy, &y_layout));
    CUDNN_CALL(cudnnSpatialTfSamplerBackward, call->handle, transformer, &one, x_layout, cudnn_at(x), &zero, x_layout,
               cudnn_at(dx), &one, y_layout, cudnn_at(dy), cudnn_at(grid), &zero, cudnn_at(dgrid));
    return GA_NO_ERROR;
}

int cudnn_sample_gradient(gpucontext *ctx, const dnn_tensor *x, const dnn_tensor *grid, const dnn_tensor *dy,
                          const dnn_tensor *dx, const dnn_tensor *dgrid)
{
    struct dnn_call call;
    int code = cudnn_begin(&call, ctx);
    if (code == GA_NO_ERROR)
        code = sample_backward(&call, x, grid, dy, dx, dgrid);
    return cudnn_end(&call, code, "the gradient of sampling", 3, (const dnn_tensor *const[]){x, grid, dy});
}
