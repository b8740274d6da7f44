/* Dropout of the fake cuDNN. The states are a number, which the random generator changes; the choices are a byte for
 * each element. */
#include "fake_cudnn.h"

enum { STATES_SIZE = 64 };

struct cudnnDropoutStruct {
    int kind;
    float rate;
    uint64_t *states;
    unsigned long long seed;
};

struct dropout {
    float rate;
    uint64_t *states;
    unsigned long long seed;
    struct cudnnTensorStruct x, y;
    char *x_at, *y_at;
    uint8_t *choices;
};

cudnnStatus_t cudnnCreateDropoutDescriptor(cudnnDropoutDescriptor_t *descriptor)
{
    CALL("cudnnCreateDropoutDescriptor");
    *descriptor = fake_made(DROPOUT, sizeof **descriptor);
    return 0;
}

cudnnStatus_t cudnnDestroyDropoutDescriptor(cudnnDropoutDescriptor_t descriptor)
{
    return fake_destroyed(descriptor, DROPOUT);
}

cudnnStatus_t cudnnDropoutGetStatesSize(cudnnHandle_t handle, size_t *size)
{
    CALL("cudnnDropoutGetStatesSize");
    CHECKED(is_handle(handle));
    *size = STATES_SIZE;
    return 0;
}

static size_t count_of(cudnnTensorDescriptor_t tensor)
{
    size_t count = 1;
    for (int i = 0; i < tensor->nd; ++i)
        count *= (size_t)tensor->dims[i];
    return count;
}

cudnnStatus_t cudnnDropoutGetReserveSpaceSize(cudnnTensorDescriptor_t tensor, size_t *size)
{
    CALL("cudnnDropoutGetReserveSpaceSize");
    *size = count_of(tensor);
    return 0;
}

static int set(cudnnDropoutDescriptor_t descriptor, cudnnHandle_t handle, float rate, void *states, size_t size,
               unsigned long long seed)
{
    CHECKED(is_handle(handle));
    if (!descriptor || descriptor->kind != DROPOUT || !(rate >= 0 && rate <= 1))
        return CUDNN_STATUS_BAD_PARAM;
    CHECKED(is_workspace(states, size, STATES_SIZE));
    descriptor->rate = rate;
    descriptor->states = states;
    descriptor->seed = seed;
    return 0;
}

static void run_seed(void *arguments)
{
    struct dropout *it = arguments;
    *it->states = it->seed;
}

cudnnStatus_t cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t descriptor, cudnnHandle_t handle, float rate,
                                        void *states, size_t size, unsigned long long seed)
{
    CALL("cudnnSetDropoutDescriptor");
    CHECKED(set(descriptor, handle, rate, states, size, seed));
    struct dropout it = {.states = states, .seed = seed};
    fake_log("cudnnSetDropoutDescriptor %g %llu", (double)rate, seed);
    return run_later(handle, run_seed, &it, sizeof it);
}

cudnnStatus_t cudnnRestoreDropoutDescriptor(cudnnDropoutDescriptor_t descriptor, cudnnHandle_t handle, float rate,
                                            void *states, size_t size, unsigned long long seed)
{
    CALL("cudnnRestoreDropoutDescriptor");
    return set(descriptor, handle, rate, states, size, seed);
}

cudnnStatus_t cudnnGetDropoutDescriptor(cudnnDropoutDescriptor_t descriptor, cudnnHandle_t handle, float *rate,
                                        void **states, unsigned long long *seed)
{
    CALL("cudnnGetDropoutDescriptor");
    CHECKED(is_handle(handle));
    if (!descriptor || descriptor->kind != DROPOUT || !descriptor->states)
        return CUDNN_STATUS_BAD_PARAM;
    *rate = descriptor->rate;
    *states = descriptor->states;
    *seed = descriptor->seed;
    return 0;
}

static double scaled(const struct dropout *it, double value, int kept)
{
    return kept ? value / (1 - (double)it->rate) : 0;
}

static void run_forward(void *arguments)
{
    struct dropout *it = arguments;
    int index[CUDNN_DIM_MAX] = {0};
    uint8_t *choice = it->choices;
    do {
        *it->states = *it->states * 6364136223846793005u + 1442695040888963407u;
        *choice = (double)(*it->states >> 40) / (1 << 24) >= (double)it->rate;
        set_number(element_of(&it->y, it->y_at, index), it->y.type,
                   scaled(it, number_at(element_of(&it->x, it->x_at, index), it->x.type), *choice++));
    } while (next_index(&it->x, index));
}

static void run_backward(void *arguments)
{
    struct dropout *it = arguments;
    int index[CUDNN_DIM_MAX] = {0};
    const uint8_t *choice = it->choices;
    do
        set_number(element_of(&it->y, it->y_at, index), it->y.type,
                   scaled(it, number_at(element_of(&it->x, it->x_at, index), it->x.type), *choice++));
    while (next_index(&it->x, index));
}

static int begin(cudnnHandle_t handle, cudnnDropoutDescriptor_t descriptor, cudnnTensorDescriptor_t x_layout,
                 const void *x, cudnnTensorDescriptor_t y_layout, void *y, void *reserve, size_t size,
                 struct dropout *it)
{
    CHECKED(is_handle(handle));
    if (!descriptor || descriptor->kind != DROPOUT || !descriptor->states)
        return CUDNN_STATUS_BAD_PARAM;
    CHECKED(is_tensor(x_layout, x));
    CHECKED(is_tensor(y_layout, y));
    CHECKED(same_form(x_layout, y_layout));
    if (memcmp(x_layout->strides, y_layout->strides, (size_t)x_layout->nd * sizeof *x_layout->strides))
        return CUDNN_STATUS_BAD_PARAM;
    CHECKED(is_workspace(reserve, size, count_of(x_layout)));
    *it = (struct dropout){descriptor->rate, descriptor->states, descriptor->seed, *x_layout, *y_layout, (char *)x, y,
                           reserve};
    return 0;
}

cudnnStatus_t cudnnDropoutForward(cudnnHandle_t handle, cudnnDropoutDescriptor_t descriptor,
                                  cudnnTensorDescriptor_t x_layout, const void *x, cudnnTensorDescriptor_t y_layout,
                                  void *y, void *reserve, size_t size)
{
    struct dropout it;
    CALL("cudnnDropoutForward");
    CHECKED(begin(handle, descriptor, x_layout, x, y_layout, y, reserve, size, &it));
    fake_log("cudnnDropoutForward %g", (double)it.rate);
    return run_later(handle, run_forward, &it, sizeof it);
}

cudnnStatus_t cudnnDropoutBackward(cudnnHandle_t handle, cudnnDropoutDescriptor_t descriptor,
                                   cudnnTensorDescriptor_t dy_layout, const void *dy, cudnnTensorDescriptor_t dx_layout,
                                   void *dx, void *reserve, size_t size)
{
    struct dropout it;
    CALL("cudnnDropoutBackward");
    CHECKED(begin(handle, descriptor, dy_layout, dy, dx_layout, dx, reserve, size, &it));
    fake_log("cudnnDropoutBackward %g", (double)it.rate);
    return run_later(handle, run_backward, &it, sizeof it);
}
