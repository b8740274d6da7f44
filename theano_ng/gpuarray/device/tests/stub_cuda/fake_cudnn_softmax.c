/* Softmax of the fake cuDNN. */
#include <math.h>

#include "fake_cudnn.h"

struct softmax {
    int algorithm, mode;
    double alpha, beta;
    struct cudnnTensorStruct x, y, out; /* forward: x and out. backward: y, its gradient x, and out. */
    char *x_at, *y_at, *out_at;
};

/* Step through the elements over which one softmax is computed: the channels, or all elements of an example. */
static int next_in_group(const struct softmax *it, int *index)
{
    const struct cudnnTensorStruct *t = &it->out;
    for (int i = it->mode == CUDNN_SOFTMAX_MODE_CHANNEL ? 1 : t->nd - 1; i >= 1; --i) {
        if (++index[i] < t->dims[i])
            return 1;
        index[i] = 0;
    }
    return 0;
}

/* Return whether an index is the first of its group. */
static int is_first(const struct softmax *it, const int *index)
{
    for (int i = 1; i < (it->mode == CUDNN_SOFTMAX_MODE_CHANNEL ? 2 : it->out.nd); ++i)
        if (index[i])
            return 0;
    return 1;
}

static double of_x(const struct softmax *it, const int *index)
{
    return number_at(element_of(&it->x, it->x_at, index), it->x.type);
}

static double of_y(const struct softmax *it, const int *index)
{
    return number_at(element_of(&it->y, it->y_at, index), it->y.type);
}

static void store(const struct softmax *it, const int *index, double value)
{
    blend(element_of(&it->out, it->out_at, index), it->out.type, it->alpha, it->beta, value);
}

static void forward_group(const struct softmax *it, int *index)
{
    double most = -INFINITY, sum = 0;
    do {
        double x = of_x(it, index);
        most = x > most || isnan(x) ? x : most;
    } while (next_in_group(it, index));
    if (it->algorithm == CUDNN_SOFTMAX_FAST)
        most = 0;
    do
        sum += exp(of_x(it, index) - most);
    while (next_in_group(it, index));
    do {
        double x = of_x(it, index) - most;
        store(it, index, it->algorithm == CUDNN_SOFTMAX_LOG ? x - log(sum) : exp(x) / sum);
    } while (next_in_group(it, index));
}

static void backward_group(const struct softmax *it, int *index)
{
    int log = it->algorithm == CUDNN_SOFTMAX_LOG;
    double sum = 0;
    do
        sum += of_x(it, index) * (log ? 1 : of_y(it, index));
    while (next_in_group(it, index));
    do {
        double dy = of_x(it, index), y = of_y(it, index);
        store(it, index, log ? dy - exp(y) * sum : (dy - sum) * y);
    } while (next_in_group(it, index));
}

static void run_forward(void *arguments)
{
    struct softmax *it = arguments;
    int index[CUDNN_DIM_MAX] = {0};
    do
        if (is_first(it, index))
            forward_group(it, index);
    while (next_index(&it->out, index));
}

static void run_backward(void *arguments)
{
    struct softmax *it = arguments;
    int index[CUDNN_DIM_MAX] = {0};
    do
        if (is_first(it, index))
            backward_group(it, index);
    while (next_index(&it->out, index));
}

static int is_softmax(int algorithm, int mode)
{
    return algorithm < 0 || algorithm > CUDNN_SOFTMAX_LOG || mode < 0 || mode > 1 ? CUDNN_STATUS_BAD_PARAM : 0;
}

cudnnStatus_t cudnnSoftmaxForward(cudnnHandle_t handle, int algorithm, int mode, const void *alpha,
                                  cudnnTensorDescriptor_t x_layout, const void *x, const void *beta,
                                  cudnnTensorDescriptor_t y_layout, void *y)
{
    CALL("cudnnSoftmaxForward");
    CHECKED(is_handle(handle));
    CHECKED(is_softmax(algorithm, mode));
    CHECKED(is_tensor(x_layout, x));
    CHECKED(is_tensor(y_layout, y));
    CHECKED(same_form(x_layout, y_layout));
    struct softmax it = {.algorithm = algorithm,
                         .mode = mode,
                         .alpha = factor_of(alpha, x_layout->type),
                         .beta = factor_of(beta, x_layout->type),
                         .x = *x_layout,
                         .out = *y_layout,
                         .x_at = (char *)x,
                         .out_at = y};
    fake_log("cudnnSoftmaxForward %d %d", algorithm, mode);
    return run_later(handle, run_forward, &it, sizeof it);
}

cudnnStatus_t cudnnSoftmaxBackward(cudnnHandle_t handle, int algorithm, int mode, const void *alpha,
                                   cudnnTensorDescriptor_t y_layout, const void *y, cudnnTensorDescriptor_t dy_layout,
                                   const void *dy, const void *beta, cudnnTensorDescriptor_t dx_layout, void *dx)
{
    CALL("cudnnSoftmaxBackward");
    CHECKED(is_handle(handle));
    CHECKED(is_softmax(algorithm, mode));
    CHECKED(is_tensor(y_layout, y));
    CHECKED(is_tensor(dy_layout, dy));
    CHECKED(is_tensor(dx_layout, dx));
    CHECKED(same_form(y_layout, dy_layout));
    CHECKED(same_form(y_layout, dx_layout));
    struct softmax it = {.algorithm = algorithm,
                         .mode = mode,
                         .alpha = factor_of(alpha, y_layout->type),
                         .beta = factor_of(beta, y_layout->type),
                         .x = *dy_layout,
                         .y = *y_layout,
                         .out = *dx_layout,
                         .x_at = (char *)dy,
                         .y_at = (char *)y,
                         .out_at = dx};
    fake_log("cudnnSoftmaxBackward %d %d", algorithm, mode);
    return run_later(handle, run_backward, &it, sizeof it);
}
