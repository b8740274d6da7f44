/* Batch normalization of the fake cuDNN. */
#include <math.h>

#include "fake_cudnn.h"

struct normalization {
    int mode, training;
    double alpha, beta, alpha_params, beta_params, epsilon, factor;
    struct cudnnTensorStruct x, y, dx, statistic;
    char *x_at, *y_at, *dx_at;
    char *scale, *bias, *mean, *spread, *running_mean, *running_variance, *dscale, *dbias;
};

static double at_statistic(const struct normalization *it, char *memory, const int *index)
{
    return number_at(element_of(&it->statistic, memory, index), it->statistic.type);
}

static void set_statistic(const struct normalization *it, char *memory, const int *index, double value)
{
    set_number(element_of(&it->statistic, memory, index), it->statistic.type, value);
}

/* The elements that one statistic describes: a box of x whose first element has the index of the statistic. */
static struct cudnnTensorStruct box_of(const struct normalization *it, double *count)
{
    struct cudnnTensorStruct box = it->x;
    *count = 1;
    for (int d = 0; d < box.nd; ++d) {
        box.dims[d] = it->statistic.dims[d] == 1 ? it->x.dims[d] : 1;
        *count *= box.dims[d];
    }
    return box;
}

static void moved(const struct normalization *it, const int *index, const int *step, int *at)
{
    for (int d = 0; d < it->x.nd; ++d)
        at[d] = index[d] + step[d];
}

static double x_of(const struct normalization *it, const int *at)
{
    return number_at(element_of(&it->x, it->x_at, at), it->x.type);
}

static double y_of(const struct normalization *it, const int *at)
{
    return number_at(element_of(&it->y, it->y_at, at), it->y.type);
}

/* Compute and store the statistics of the elements at `index`. */
static void find_statistics(const struct normalization *it, const int *index)
{
    double count, sum = 0, squares = 0;
    struct cudnnTensorStruct box = box_of(it, &count);
    int step[CUDNN_DIM_MAX] = {0}, at[CUDNN_DIM_MAX];
    do {
        moved(it, index, step, at);
        sum += x_of(it, at);
    } while (next_index(&box, step));
    double mean = sum / count;
    do {
        moved(it, index, step, at);
        squares += (x_of(it, at) - mean) * (x_of(it, at) - mean);
    } while (next_index(&box, step));
    set_statistic(it, it->mean, index, mean);
    set_statistic(it, it->spread, index, 1 / sqrt(squares / count + it->epsilon));
    if (it->running_mean) {
        double old_mean = at_statistic(it, it->running_mean, index);
        double old_variance = at_statistic(it, it->running_variance, index);
        set_statistic(it, it->running_mean, index, old_mean * (1 - it->factor) + mean * it->factor);
        set_statistic(it, it->running_variance, index,
                      old_variance * (1 - it->factor) + squares / (count > 1 ? count - 1 : 1) * it->factor);
    }
}

static void run_forward(void *arguments)
{
    struct normalization *it = arguments;
    int index[CUDNN_DIM_MAX] = {0}, at[CUDNN_DIM_MAX];
    do {
        int step[CUDNN_DIM_MAX] = {0};
        double count;
        struct cudnnTensorStruct box = box_of(it, &count);
        if (it->training)
            find_statistics(it, index);
        double mean = at_statistic(it, it->mean, index), spread = at_statistic(it, it->spread, index);
        double scale = at_statistic(it, it->scale, index), bias = at_statistic(it, it->bias, index);
        double invstd = it->training ? spread : 1 / sqrt(spread + it->epsilon);
        do {
            moved(it, index, step, at);
            blend(element_of(&it->y, it->y_at, at), it->y.type, it->alpha, it->beta,
                  (x_of(it, at) - mean) * invstd * scale + bias);
        } while (next_index(&box, step));
    } while (next_index(&it->statistic, index));
}

/* y is the gradient with respect to the result. */
static void run_backward(void *arguments)
{
    struct normalization *it = arguments;
    int index[CUDNN_DIM_MAX] = {0}, at[CUDNN_DIM_MAX];
    do {
        int step[CUDNN_DIM_MAX] = {0};
        double count, total = 0, product = 0;
        struct cudnnTensorStruct box = box_of(it, &count);
        double mean = at_statistic(it, it->mean, index), invstd = at_statistic(it, it->spread, index);
        double scale = at_statistic(it, it->scale, index);
        do {
            moved(it, index, step, at);
            total += y_of(it, at);
            product += y_of(it, at) * (x_of(it, at) - mean) * invstd;
        } while (next_index(&box, step));
        do {
            moved(it, index, step, at);
            double normal = (x_of(it, at) - mean) * invstd;
            blend(element_of(&it->dx, it->dx_at, at), it->dx.type, it->alpha, it->beta,
                  scale * invstd * (y_of(it, at) - total / count - normal * product / count));
        } while (next_index(&box, step));
        blend(element_of(&it->statistic, it->dscale, index), it->statistic.type, it->alpha_params, it->beta_params,
              product);
        blend(element_of(&it->statistic, it->dbias, index), it->statistic.type, it->alpha_params, it->beta_params,
              total);
    } while (next_index(&it->statistic, index));
}

/* 4 or 5 axes; the statistics have the shape that cudnnDeriveBNTensorDescriptor() returns, and are never float16. */
static int is_normalization(int mode, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t y,
                            cudnnTensorDescriptor_t statistic, double epsilon)
{
    if (mode < 0 || mode > CUDNN_BATCHNORM_SPATIAL || !(epsilon >= 0) || x->nd < 4 || x->nd > 5
        || statistic->nd != x->nd
        || statistic->type != (x->type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT))
        return CUDNN_STATUS_BAD_PARAM;
    for (int d = 0; d < x->nd; ++d)
        if (statistic->dims[d] != (d == 0 || (d > 1 && mode == CUDNN_BATCHNORM_SPATIAL) ? 1 : x->dims[d]))
            return CUDNN_STATUS_BAD_PARAM;
    return same_form(x, y);
}

cudnnStatus_t cudnnBatchNormalizationForwardTraining(cudnnHandle_t handle, int mode, const void *alpha,
                                                     const void *beta, cudnnTensorDescriptor_t x_layout, const void *x,
                                                     cudnnTensorDescriptor_t y_layout, void *y,
                                                     cudnnTensorDescriptor_t statistic, const void *scale,
                                                     const void *bias, double factor, void *running_mean,
                                                     void *running_variance, double epsilon, void *mean, void *invstd)
{
    CALL("cudnnBatchNormalizationForwardTraining");
    CHECKED(is_handle(handle));
    CHECKED(is_tensor(x_layout, x));
    CHECKED(is_tensor(y_layout, y));
    const void *statistics[] = {scale, bias, mean, invstd, running_mean, running_variance};
    for (int i = 0; i < (running_mean ? 6 : 4); ++i)
        CHECKED(is_tensor(statistic, statistics[i]));
    if (!running_mean != !running_variance)
        return CUDNN_STATUS_BAD_PARAM;
    CHECKED(is_normalization(mode, x_layout, y_layout, statistic, epsilon));
    struct normalization it = {.mode = mode,
                               .training = 1,
                               .alpha = factor_of(alpha, x_layout->type),
                               .beta = factor_of(beta, x_layout->type),
                               .epsilon = epsilon,
                               .factor = factor,
                               .x = *x_layout,
                               .y = *y_layout,
                               .statistic = *statistic,
                               .x_at = (char *)x,
                               .y_at = y,
                               .scale = (char *)scale,
                               .bias = (char *)bias,
                               .mean = mean,
                               .spread = invstd,
                               .running_mean = running_mean,
                               .running_variance = running_variance};
    fake_log("cudnnBatchNormalizationForwardTraining %d %d", mode, running_mean != NULL);
    return run_later(handle, run_forward, &it, sizeof it);
}

cudnnStatus_t cudnnBatchNormalizationForwardInference(cudnnHandle_t handle, int mode, const void *alpha,
                                                      const void *beta, cudnnTensorDescriptor_t x_layout, const void *x,
                                                      cudnnTensorDescriptor_t y_layout, void *y,
                                                      cudnnTensorDescriptor_t statistic, const void *scale,
                                                      const void *bias, const void *mean, const void *variance,
                                                      double epsilon)
{
    CALL("cudnnBatchNormalizationForwardInference");
    CHECKED(is_handle(handle));
    CHECKED(is_tensor(x_layout, x));
    CHECKED(is_tensor(y_layout, y));
    const void *statistics[] = {scale, bias, mean, variance};
    for (int i = 0; i < 4; ++i)
        CHECKED(is_tensor(statistic, statistics[i]));
    CHECKED(is_normalization(mode, x_layout, y_layout, statistic, epsilon));
    struct normalization it = {.mode = mode,
                               .alpha = factor_of(alpha, x_layout->type),
                               .beta = factor_of(beta, x_layout->type),
                               .epsilon = epsilon,
                               .x = *x_layout,
                               .y = *y_layout,
                               .statistic = *statistic,
                               .x_at = (char *)x,
                               .y_at = y,
                               .scale = (char *)scale,
                               .bias = (char *)bias,
                               .mean = (char *)mean,
                               .spread = (char *)variance};
    fake_log("cudnnBatchNormalizationForwardInference %d", mode);
    return run_later(handle, run_forward, &it, sizeof it);
}

cudnnStatus_t cudnnBatchNormalizationBackward(cudnnHandle_t handle, int mode, const void *alpha, const void *beta,
                                              const void *alpha_params, const void *beta_params,
                                              cudnnTensorDescriptor_t x_layout, const void *x,
                                              cudnnTensorDescriptor_t dy_layout, const void *dy,
                                              cudnnTensorDescriptor_t dx_layout, void *dx,
                                              cudnnTensorDescriptor_t statistic, const void *scale, void *dscale,
                                              void *dbias, double epsilon, const void *mean, const void *invstd)
{
    CALL("cudnnBatchNormalizationBackward");
    CHECKED(is_handle(handle));
    CHECKED(is_tensor(x_layout, x));
    CHECKED(is_tensor(dy_layout, dy));
    CHECKED(is_tensor(dx_layout, dx));
    const void *statistics[] = {scale, dscale, dbias, mean, invstd};
    for (int i = 0; i < 5; ++i)
        CHECKED(is_tensor(statistic, statistics[i]));
    CHECKED(is_normalization(mode, x_layout, dy_layout, statistic, epsilon));
    CHECKED(same_form(x_layout, dx_layout));
    struct normalization it = {.mode = mode,
                               .alpha = factor_of(alpha, x_layout->type),
                               .beta = factor_of(beta, x_layout->type),
                               .alpha_params = factor_of(alpha_params, x_layout->type),
                               .beta_params = factor_of(beta_params, x_layout->type),
                               .epsilon = epsilon,
                               .x = *x_layout,
                               .y = *dy_layout,
                               .dx = *dx_layout,
                               .statistic = *statistic,
                               .x_at = (char *)x,
                               .y_at = (char *)dy,
                               .dx_at = dx,
                               .scale = (char *)scale,
                               .dscale = dscale,
                               .dbias = dbias,
                               .mean = (char *)mean,
                               .spread = (char *)invstd};
    fake_log("cudnnBatchNormalizationBackward %d", mode);
    return run_later(handle, run_backward, &it, sizeof it);
}
