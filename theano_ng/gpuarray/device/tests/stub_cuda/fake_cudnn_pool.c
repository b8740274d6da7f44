/* Pooling of the fake cuDNN. */
#include <math.h>

#include "fake_cudnn.h"

struct cudnnPoolingStruct {
    int kind, mode, nan, nd, window[6], pad[6], stride[6];
};

struct pool {
    struct cudnnPoolingStruct how;
    double alpha, beta;
    struct cudnnTensorStruct x, y;
    char *x_at, *y_at, *dy_at, *dx_at;
};

cudnnStatus_t cudnnCreatePoolingDescriptor(cudnnPoolingDescriptor_t *pooling)
{
    CALL("cudnnCreatePoolingDescriptor");
    *pooling = fake_made(POOLING, sizeof **pooling);
    return 0;
}

cudnnStatus_t cudnnSetPoolingNdDescriptor(cudnnPoolingDescriptor_t pooling, int mode, int nan, int nd,
                                          const int window[], const int pad[], const int stride[])
{
    CALL("cudnnSetPoolingNdDescriptor");
    if (!pooling || pooling->kind != POOLING || mode < 0 || mode > CUDNN_POOLING_MAX_DETERMINISTIC || nd < 2 || nd > 3)
        return CUDNN_STATUS_BAD_PARAM;
    for (int i = 0; i < nd; ++i)
        if (window[i] < 1 || stride[i] < 1 || pad[i] < 0 || pad[i] >= window[i])
            return CUDNN_STATUS_BAD_PARAM;
    pooling->mode = mode;
    pooling->nan = nan;
    pooling->nd = nd;
    memcpy(pooling->window, window, (size_t)nd * sizeof *window);
    memcpy(pooling->pad, pad, (size_t)nd * sizeof *pad);
    memcpy(pooling->stride, stride, (size_t)nd * sizeof *stride);
    return 0;
}

cudnnStatus_t cudnnDestroyPoolingDescriptor(cudnnPoolingDescriptor_t pooling)
{
    return fake_destroyed(pooling, POOLING);
}

static int is_maximum(const struct pool *it)
{
    return it->how.mode == CUDNN_POOLING_MAX || it->how.mode == CUDNN_POOLING_MAX_DETERMINISTIC;
}

/* A window: the element of y whose index is `index`, and the elements of x. */
struct window {
    struct cudnnTensorStruct box;
    int first[CUDNN_DIM_MAX], inside;
};

static struct window window_of(const struct pool *it, const int *index)
{
    struct window w = {.box = it->x, .inside = 1};
    for (int d = 0; d < w.box.nd; ++d) {
        int axis = d - 2;
        if (axis < 0) {
            w.first[d] = index[d];
            w.box.dims[d] = 1;
            continue;
        }
        int begin = index[d] * it->how.stride[axis] - it->how.pad[axis], end = begin + it->how.window[axis];
        w.first[d] = begin < 0 ? 0 : begin;
        w.box.dims[d] = (end < it->x.dims[d] ? end : it->x.dims[d]) - w.first[d];
        w.inside *= w.box.dims[d];
    }
    return w;
}

/* The number by which a sum is divided */
static double divisor(const struct pool *it, const struct window *w)
{
    double count = 1;
    if (it->how.mode == CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING)
        return w->inside;
    for (int i = 0; i < it->how.nd; ++i)
        count *= it->how.window[i];
    return count;
}

static void in_image(const struct window *w, const int *step, int *at)
{
    for (int d = 0; d < w->box.nd; ++d)
        at[d] = w->first[d] + step[d];
}

static void run_forward(void *arguments)
{
    struct pool *it = arguments;
    int index[CUDNN_DIM_MAX] = {0}, at[CUDNN_DIM_MAX];
    do {
        struct window w = window_of(it, index);
        int step[CUDNN_DIM_MAX] = {0};
        double most = -INFINITY, sum = 0;
        do {
            in_image(&w, step, at);
            double x = number_at(element_of(&it->x, it->x_at, at), it->x.type);
            sum += x;
            if (x > most || (isnan(x) && it->how.nan))
                most = x;
        } while (next_index(&w.box, step));
        blend(element_of(&it->y, it->y_at, index), it->y.type, it->alpha, it->beta,
              is_maximum(it) ? most : sum / divisor(it, &w));
    } while (next_index(&it->y, index));
}

/* For maxima, the gradient of a window goes to the first element that equals the maximum. */
static void run_backward(void *arguments)
{
    struct pool *it = arguments;
    int index[CUDNN_DIM_MAX] = {0}, at[CUDNN_DIM_MAX], place[CUDNN_DIM_MAX] = {0};
    size_t count = 1;
    struct cudnnTensorStruct sums = it->x;
    for (int d = sums.nd - 1; d >= 0; --d) {
        sums.strides[d] = (int)count;
        count *= (size_t)sums.dims[d];
    }
    sums.type = CUDNN_DATA_DOUBLE;
    double *total = calloc(count, sizeof *total);
    do {
        struct window w = window_of(it, index);
        int step[CUDNN_DIM_MAX] = {0};
        double y = number_at(element_of(&it->y, it->y_at, index), it->y.type);
        double dy = number_at(element_of(&it->y, it->dy_at, index), it->y.type);
        do {
            in_image(&w, step, at);
            double *to = (double *)element_of(&sums, (char *)total, at);
            if (!is_maximum(it))
                *to += dy / divisor(it, &w);
            else if (number_at(element_of(&it->x, it->x_at, at), it->x.type) == y) {
                *to += dy;
                break;
            }
        } while (next_index(&w.box, step));
    } while (next_index(&it->y, index));
    do
        blend(element_of(&it->x, it->dx_at, place), it->x.type, it->alpha, it->beta,
              *(double *)element_of(&sums, (char *)total, place));
    while (next_index(&it->x, place));
    free(total);
}

/* The last stride must be 1, and y must have an element for each window. */
static int is_pooling(cudnnPoolingDescriptor_t pooling, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t y)
{
    if (!pooling || pooling->kind != POOLING || x->type != y->type || x->nd != y->nd || pooling->nd != x->nd - 2)
        return CUDNN_STATUS_BAD_PARAM;
    if (x->strides[x->nd - 1] != 1 || y->strides[y->nd - 1] != 1)
        return CUDNN_STATUS_NOT_SUPPORTED;
    for (int d = 0; d < x->nd; ++d) {
        int expected = x->dims[d], i = d - 2;
        if (i >= 0)
            expected = 1 + (x->dims[d] + 2 * pooling->pad[i] - pooling->window[i]) / pooling->stride[i];
        if (y->dims[d] != expected)
            return CUDNN_STATUS_BAD_PARAM;
    }
    return 0;
}

cudnnStatus_t cudnnPoolingForward(cudnnHandle_t handle, cudnnPoolingDescriptor_t pooling, const void *alpha,
                                  cudnnTensorDescriptor_t x_layout, const void *x, const void *beta,
                                  cudnnTensorDescriptor_t y_layout, void *y)
{
    CALL("cudnnPoolingForward");
    CHECKED(is_handle(handle));
    CHECKED(is_tensor(x_layout, x));
    CHECKED(is_tensor(y_layout, y));
    CHECKED(is_pooling(pooling, x_layout, y_layout));
    struct pool it = {.how = *pooling,
                      .alpha = factor_of(alpha, x_layout->type),
                      .beta = factor_of(beta, x_layout->type),
                      .x = *x_layout,
                      .y = *y_layout,
                      .x_at = (char *)x,
                      .y_at = y};
    fake_log("cudnnPoolingForward %d", pooling->mode);
    return run_later(handle, run_forward, &it, sizeof it);
}

static int same_strides(cudnnTensorDescriptor_t a, cudnnTensorDescriptor_t b)
{
    return memcmp(a->strides, b->strides, (size_t)a->nd * sizeof *a->strides) ? CUDNN_STATUS_BAD_PARAM : 0;
}

cudnnStatus_t cudnnPoolingBackward(cudnnHandle_t handle, cudnnPoolingDescriptor_t pooling, const void *alpha,
                                   cudnnTensorDescriptor_t y_layout, const void *y, cudnnTensorDescriptor_t dy_layout,
                                   const void *dy, cudnnTensorDescriptor_t x_layout, const void *x, const void *beta,
                                   cudnnTensorDescriptor_t dx_layout, void *dx)
{
    CALL("cudnnPoolingBackward");
    CHECKED(is_handle(handle));
    CHECKED(is_tensor(y_layout, y));
    CHECKED(is_tensor(dy_layout, dy));
    CHECKED(is_tensor(x_layout, x));
    CHECKED(is_tensor(dx_layout, dx));
    CHECKED(same_form(y_layout, dy_layout));
    CHECKED(same_strides(y_layout, dy_layout));
    CHECKED(same_form(x_layout, dx_layout));
    CHECKED(same_strides(x_layout, dx_layout));
    CHECKED(is_pooling(pooling, x_layout, y_layout));
    struct pool it = {.how = *pooling,
                      .alpha = factor_of(alpha, x_layout->type),
                      .beta = factor_of(beta, x_layout->type),
                      .x = *x_layout,
                      .y = *y_layout,
                      .x_at = (char *)x,
                      .y_at = (char *)y,
                      .dy_at = (char *)dy,
                      .dx_at = dx};
    fake_log("cudnnPoolingBackward %d", pooling->mode);
    return run_later(handle, run_backward, &it, sizeof it);
}
