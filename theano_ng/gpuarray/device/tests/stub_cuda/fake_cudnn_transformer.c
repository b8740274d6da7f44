/* Spatial transformers of the fake cuDNN. */
#include <math.h>

#include "fake_cudnn.h"

struct cudnnSpatialTransformerStruct {
    int kind, type, dims[4];
};

struct transform {
    struct cudnnSpatialTransformerStruct how;
    double alpha, beta, alpha_grid, beta_grid;
    struct cudnnTensorStruct x, y;
    char *theta, *grid, *dgrid, *x_at, *y_at, *dx_at;
};

cudnnStatus_t cudnnCreateSpatialTransformerDescriptor(cudnnSpatialTransformerDescriptor_t *transformer)
{
    CALL("cudnnCreateSpatialTransformerDescriptor");
    *transformer = fake_made(TRANSFORMER, sizeof **transformer);
    return 0;
}

cudnnStatus_t cudnnDestroySpatialTransformerDescriptor(cudnnSpatialTransformerDescriptor_t transformer)
{
    return fake_destroyed(transformer, TRANSFORMER);
}

cudnnStatus_t cudnnSetSpatialTransformerNdDescriptor(cudnnSpatialTransformerDescriptor_t transformer, int sampler,
                                                     int type, int nd, const int dims[])
{
    CALL("cudnnSetSpatialTransformerNdDescriptor");
    if (!transformer || transformer->kind != TRANSFORMER || sampler != CUDNN_SAMPLER_BILINEAR || type < 0
        || type > CUDNN_DATA_HALF || nd != 4)
        return CUDNN_STATUS_BAD_PARAM;
    for (int i = 0; i < nd; ++i)
        if (dims[i] < 1)
            return CUDNN_STATUS_BAD_PARAM;
    transformer->type = type;
    memcpy(transformer->dims, dims, 4 * sizeof *dims);
    return 0;
}

static int is_transformer(cudnnSpatialTransformerDescriptor_t transformer)
{
    return !transformer || transformer->kind != TRANSFORMER || !transformer->dims[0] ? CUDNN_STATUS_BAD_PARAM : 0;
}

/* `count` elements for each image in device memory */
static int are_elements(cudnnSpatialTransformerDescriptor_t transformer, const void *at, int64_t count)
{
    size_t size = size_of_type(transformer->type);
    return (uintptr_t)at % size || !fake_is_memory(at, (size_t)(count * transformer->dims[0]) * size)
               ? CUDNN_STATUS_BAD_PARAM
               : 0;
}

static int64_t grid_elements(cudnnSpatialTransformerDescriptor_t transformer)
{
    return 2 * (int64_t)transformer->dims[2] * transformer->dims[3];
}

/* ---- grids ---- */

/* Return the address of an element of a packed array. */
static char *nth(const struct transform *it, char *memory, int64_t index)
{
    return memory + index * (int64_t)size_of_type(it->how.type);
}

static double point(int index, int length)
{
    return length > 1 ? -1 + 2.0 * index / (length - 1) : -1;
}

/* Return the number of the first element of a pixel of the grid. */
static int64_t pixel(const struct transform *it, int n, int h, int w)
{
    return 2 * (((int64_t)n * it->how.dims[2] + h) * it->how.dims[3] + w);
}

static void run_grid(void *arguments)
{
    struct transform *it = arguments;
    int type = it->how.type;
    for (int n = 0; n < it->how.dims[0]; ++n)
        for (int h = 0; h < it->how.dims[2]; ++h)
            for (int w = 0; w < it->how.dims[3]; ++w)
                for (int row = 0; row < 2; ++row) {
                    const double at[] = {point(w, it->how.dims[3]), point(h, it->how.dims[2]), 1};
                    double sum = 0;
                    for (int k = 0; k < 3; ++k)
                        sum += number_at(nth(it, it->theta, 6 * n + 3 * row + k), type) * at[k];
                    set_number(nth(it, it->grid, pixel(it, n, h, w) + row), type, sum);
                }
}

static void run_grid_backward(void *arguments)
{
    struct transform *it = arguments;
    int type = it->how.type;
    for (int n = 0; n < it->how.dims[0]; ++n)
        for (int row = 0; row < 2; ++row)
            for (int k = 0; k < 3; ++k) {
                double sum = 0;
                for (int h = 0; h < it->how.dims[2]; ++h)
                    for (int w = 0; w < it->how.dims[3]; ++w) {
                        const double at[] = {point(w, it->how.dims[3]), point(h, it->how.dims[2]), 1};
                        sum += number_at(nth(it, it->dgrid, pixel(it, n, h, w) + row), type) * at[k];
                    }
                set_number(nth(it, it->theta, 6 * n + 3 * row + k), type, sum);
            }
}

cudnnStatus_t cudnnSpatialTfGridGeneratorForward(cudnnHandle_t handle, cudnnSpatialTransformerDescriptor_t transformer,
                                                 const void *theta, void *grid)
{
    CALL("cudnnSpatialTfGridGeneratorForward");
    CHECKED(is_handle(handle));
    CHECKED(is_transformer(transformer));
    CHECKED(are_elements(transformer, theta, 6));
    CHECKED(are_elements(transformer, grid, grid_elements(transformer)));
    struct transform it = {.how = *transformer, .theta = (char *)theta, .grid = grid};
    fake_log("cudnnSpatialTfGridGeneratorForward");
    return run_later(handle, run_grid, &it, sizeof it);
}

cudnnStatus_t cudnnSpatialTfGridGeneratorBackward(cudnnHandle_t handle, cudnnSpatialTransformerDescriptor_t transformer,
                                                  const void *dgrid, void *dtheta)
{
    CALL("cudnnSpatialTfGridGeneratorBackward");
    CHECKED(is_handle(handle));
    CHECKED(is_transformer(transformer));
    CHECKED(are_elements(transformer, dtheta, 6));
    CHECKED(are_elements(transformer, dgrid, grid_elements(transformer)));
    struct transform it = {.how = *transformer, .theta = dtheta, .dgrid = (char *)dgrid};
    fake_log("cudnnSpatialTfGridGeneratorBackward");
    return run_later(handle, run_grid_backward, &it, sizeof it);
}

/* ---- sampling ---- */

/* One of the four pixels around a point: its index in x, its weight, and the derivatives of the weight. */
struct corner {
    int inside, index[4];
    double weight, by_x, by_y;
};

static struct corner corner_of(const struct transform *it, const int *index, int right, int below)
{
    int64_t at = pixel(it, index[0], index[2], index[3]);
    int rows = it->x.dims[2], columns = it->x.dims[3];
    double x = (number_at(nth(it, it->grid, at), it->how.type) + 1) * (columns - 1) / 2;
    double y = (number_at(nth(it, it->grid, at + 1), it->how.type) + 1) * (rows - 1) / 2;
    double left = floor(x), top = floor(y), of_x = right ? x - left : 1 - (x - left),
           of_y = below ? y - top : 1 - (y - top);
    struct corner c = {.inside = left + right >= 0 && left + right < columns && top + below >= 0 && top + below < rows,
                       .weight = of_x * of_y,
                       .by_x = (right ? of_y : -of_y) * (columns - 1) / 2,
                       .by_y = (below ? of_x : -of_x) * (rows - 1) / 2};
    if (c.inside) {
        c.index[0] = index[0];
        c.index[1] = index[1];
        c.index[2] = (int)top + below;
        c.index[3] = (int)left + right;
    }
    return c;
}

static void run_sample(void *arguments)
{
    struct transform *it = arguments;
    int index[CUDNN_DIM_MAX] = {0};
    do {
        double sum = 0;
        for (int k = 0; k < 4; ++k) {
            struct corner c = corner_of(it, index, k & 1, k >> 1);
            if (c.inside)
                sum += c.weight * number_at(element_of(&it->x, it->x_at, c.index), it->x.type);
        }
        blend(element_of(&it->y, it->y_at, index), it->y.type, it->alpha, it->beta, sum);
    } while (next_index(&it->y, index));
}

static void run_sample_backward(void *arguments)
{
    struct transform *it = arguments;
    int index[CUDNN_DIM_MAX] = {0}, place[CUDNN_DIM_MAX] = {0}, type = it->how.type;
    size_t pixels = (size_t)(it->how.dims[0] * it->how.dims[2] * it->how.dims[3]), count = 1;
    struct cudnnTensorStruct packed = it->x;
    for (int d = 3; d >= 0; --d) {
        packed.strides[d] = (int)count;
        count *= (size_t)packed.dims[d];
    }
    packed.type = CUDNN_DATA_DOUBLE;
    double *dx = calloc(count, sizeof *dx), *dgrid = calloc(2 * pixels, sizeof *dgrid);
    do {
        double dy = number_at(element_of(&it->y, it->y_at, index), it->y.type);
        int64_t at = pixel(it, index[0], index[2], index[3]);
        for (int k = 0; k < 4; ++k) {
            struct corner c = corner_of(it, index, k & 1, k >> 1);
            if (!c.inside)
                continue;
            double x = number_at(element_of(&it->x, it->x_at, c.index), it->x.type);
            *(double *)element_of(&packed, (char *)dx, c.index) += dy * c.weight;
            dgrid[at] += dy * x * c.by_x;
            dgrid[at + 1] += dy * x * c.by_y;
        }
    } while (next_index(&it->y, index));
    do
        blend(element_of(&it->x, it->dx_at, place), type, it->alpha, it->beta,
              *(double *)element_of(&packed, (char *)dx, place));
    while (next_index(&it->x, place));
    for (size_t i = 0; i < 2 * pixels; ++i)
        blend(nth(it, it->dgrid, (int64_t)i), type, it->alpha_grid, it->beta_grid, dgrid[i]);
    free(dx);
    free(dgrid);
}

/* x and y have the same images and channels; y has the size of the descriptor. */
static int is_sampling(cudnnSpatialTransformerDescriptor_t transformer, cudnnTensorDescriptor_t x,
                       cudnnTensorDescriptor_t y)
{
    int bad = x->nd != 4 || y->nd != 4 || x->type != transformer->type || y->type != transformer->type;
    for (int d = 0; d < 4 && !bad; ++d)
        bad = y->dims[d] != transformer->dims[d] || (d < 2 && x->dims[d] != y->dims[d]);
    return bad ? CUDNN_STATUS_BAD_PARAM : 0;
}

cudnnStatus_t cudnnSpatialTfSamplerForward(cudnnHandle_t handle, cudnnSpatialTransformerDescriptor_t transformer,
                                           const void *alpha, cudnnTensorDescriptor_t x_layout, const void *x,
                                           const void *grid, const void *beta, cudnnTensorDescriptor_t y_layout,
                                           void *y)
{
    CALL("cudnnSpatialTfSamplerForward");
    CHECKED(is_handle(handle));
    CHECKED(is_transformer(transformer));
    CHECKED(is_tensor(x_layout, x));
    CHECKED(is_tensor(y_layout, y));
    CHECKED(is_sampling(transformer, x_layout, y_layout));
    CHECKED(are_elements(transformer, grid, grid_elements(transformer)));
    struct transform it = {.how = *transformer,
                           .alpha = factor_of(alpha, x_layout->type),
                           .beta = factor_of(beta, x_layout->type),
                           .x = *x_layout,
                           .y = *y_layout,
                           .grid = (char *)grid,
                           .x_at = (char *)x,
                           .y_at = y};
    fake_log("cudnnSpatialTfSamplerForward");
    return run_later(handle, run_sample, &it, sizeof it);
}

cudnnStatus_t cudnnSpatialTfSamplerBackward(cudnnHandle_t handle, cudnnSpatialTransformerDescriptor_t transformer,
                                            const void *alpha, cudnnTensorDescriptor_t x_layout, const void *x,
                                            const void *beta, cudnnTensorDescriptor_t dx_layout, void *dx,
                                            const void *alpha_grid, cudnnTensorDescriptor_t dy_layout, const void *dy,
                                            const void *grid, const void *beta_grid, void *dgrid)
{
    CALL("cudnnSpatialTfSamplerBackward");
    CHECKED(is_handle(handle));
    CHECKED(is_transformer(transformer));
    CHECKED(is_tensor(x_layout, x));
    CHECKED(is_tensor(dx_layout, dx));
    CHECKED(is_tensor(dy_layout, dy));
    CHECKED(same_form(x_layout, dx_layout));
    CHECKED(is_sampling(transformer, x_layout, dy_layout));
    CHECKED(are_elements(transformer, grid, grid_elements(transformer)));
    CHECKED(are_elements(transformer, dgrid, grid_elements(transformer)));
    if (memcmp(x_layout->strides, dx_layout->strides, 4 * sizeof *x_layout->strides))
        return CUDNN_STATUS_BAD_PARAM;
    struct transform it = {.how = *transformer,
                           .alpha = factor_of(alpha, x_layout->type),
                           .beta = factor_of(beta, x_layout->type),
                           .alpha_grid = factor_of(alpha_grid, x_layout->type),
                           .beta_grid = factor_of(beta_grid, x_layout->type),
                           .x = *x_layout,
                           .y = *dy_layout,
                           .grid = (char *)grid,
                           .dgrid = dgrid,
                           .x_at = (char *)x,
                           .y_at = (char *)dy,
                           .dx_at = dx};
    fake_log("cudnnSpatialTfSamplerBackward");
    return run_later(handle, run_sample_backward, &it, sizeof it);
}
