/* A fake libcudnn, for machines that have no CUDA device. It is linked with the fake driver (fake_cuda.c).
 *
 * It checks handles, streams, descriptors, memory and workspaces, and refuses what the library refuses. It computes by
 * plain loops, in stream order and in the library's conventions, so that wrong strides give wrong numbers. The families
 * of functions are in the files fake_cudnn_*.c. fake_cudnn.h explains how to add one.
 *
 * -DFAKE_WITHOUT_TENSORS leaves out cudnnSetTensorNdDescriptor, as a library of another kind does. */
#include "fake_cudnn.h"

struct fake_dnn fake_dnn;

struct fake_dnn *fake_dnn_state(void)
{
    return &fake_dnn;
}

void fake_dnn_reset(void)
{
    fake_dnn = (struct fake_dnn){.version = 92800, .runtime = 12090};
}

void fake_log(const char *format, ...)
{
    char line[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fake_note(line);
}

/* ---- objects ---- */

void *fake_made(int kind, size_t size)
{
    int *object = calloc(1, size);
    *object = kind;
    ++*(kind == HANDLE ? &fake_dnn.handles : &fake_dnn.descriptors);
    return object;
}

int fake_destroyed(void *object, int kind)
{
    if (!object || *(int *)object != kind)
        return CUDNN_STATUS_BAD_PARAM;
    --*(kind == HANDLE ? &fake_dnn.handles : &fake_dnn.descriptors);
    *(int *)object = 0;
    free(object);
    return 0;
}

/* ---- the library ---- */

size_t cudnnGetVersion(void)
{
    return (size_t)fake_dnn.version;
}

size_t cudnnGetCudartVersion(void)
{
    return (size_t)fake_dnn.runtime;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    switch (status) {
    case CUDNN_STATUS_BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
    default: return "CUDNN_STATUS_OTHER";
    }
}

void cudnnGetLastErrorString(char *message, size_t size)
{
    snprintf(message, size, "the reason");
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    CALL("cudnnCreate");
    if (!fake_current())
        return CUDNN_STATUS_NOT_INITIALIZED;
    *handle = fake_made(HANDLE, sizeof **handle);
    (*handle)->context = fake_current();
    return 0;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    return fake_destroyed(handle, HANDLE);
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, struct CUstream_st *stream)
{
    CALL("cudnnSetStream");
    if (!handle || handle->kind != HANDLE || !stream)
        return CUDNN_STATUS_BAD_PARAM;
    handle->stream = stream;
    return 0;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *tensor)
{
    CALL("cudnnCreateTensorDescriptor");
    *tensor = fake_made(TENSOR, sizeof **tensor);
    return 0;
}

#ifndef FAKE_WITHOUT_TENSORS
cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t tensor, int type, int nd, const int dims[],
                                         const int strides[])
{
    CALL("cudnnSetTensorNdDescriptor");
    if (!tensor || tensor->kind != TENSOR || nd < 4 || nd > CUDNN_DIM_MAX || type < 0 || type > CUDNN_DATA_HALF)
        return CUDNN_STATUS_BAD_PARAM;
    int64_t last = 0;
    for (int i = 0; i < nd; ++i) {
        if (dims[i] <= 0 || strides[i] <= 0)
            return CUDNN_STATUS_BAD_PARAM;
        last += (int64_t)(dims[i] - 1) * strides[i];
    }
    if (last >= 0x7fffffff)
        return CUDNN_STATUS_NOT_SUPPORTED;
    tensor->type = type;
    tensor->nd = nd;
    memcpy(tensor->dims, dims, (size_t)nd * sizeof *dims);
    memcpy(tensor->strides, strides, (size_t)nd * sizeof *strides);
    return 0;
}
#endif

cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor)
{
    return fake_destroyed(tensor, TENSOR);
}

/* ---- checks ---- */

int is_handle(cudnnHandle_t handle)
{
    return !handle || handle->kind != HANDLE || handle->context != fake_current() || !handle->stream
               ? CUDNN_STATUS_NOT_INITIALIZED
               : 0;
}

int is_tensor(cudnnTensorDescriptor_t tensor, const void *at)
{
    if (!tensor || tensor->kind != TENSOR || tensor->nd == 0)
        return CUDNN_STATUS_BAD_PARAM;
    size_t count = 1, size = size_of_type(tensor->type);
    for (int i = 0; i < tensor->nd; ++i)
        count += (size_t)(tensor->dims[i] - 1) * (size_t)tensor->strides[i];
    return (uintptr_t)at % size || !fake_is_memory(at, count * size) ? CUDNN_STATUS_BAD_PARAM : 0;
}

int same_form(cudnnTensorDescriptor_t a, cudnnTensorDescriptor_t b)
{
    return a->type != b->type || a->nd != b->nd || memcmp(a->dims, b->dims, (size_t)a->nd * sizeof *a->dims)
               ? CUDNN_STATUS_BAD_PARAM
               : 0;
}

int is_workspace(const void *at, size_t given, size_t needed)
{
    return given < needed || (needed && ((uintptr_t)at % 16 || !fake_is_memory(at, given))) ? CUDNN_STATUS_BAD_PARAM
                                                                                            : 0;
}

/* ---- elements ---- */

size_t size_of_type(int type)
{
    return type == CUDNN_DATA_DOUBLE ? 8 : type == CUDNN_DATA_FLOAT ? 4 : 2;
}

double number_at(const void *at, int type)
{
    return type == CUDNN_DATA_DOUBLE  ? *(const double *)at
           : type == CUDNN_DATA_FLOAT ? *(const float *)at
                                      : (double)*(const _Float16 *)at;
}

void set_number(void *at, int type, double value)
{
    if (type == CUDNN_DATA_DOUBLE)
        *(double *)at = value;
    else if (type == CUDNN_DATA_FLOAT)
        *(float *)at = (float)value;
    else
        *(_Float16 *)at = (_Float16)value;
}

double factor_of(const void *at, int type)
{
    return type == CUDNN_DATA_DOUBLE ? *(const double *)at : *(const float *)at;
}

int next_index(const struct cudnnTensorStruct *tensor, int *index)
{
    for (int i = tensor->nd - 1; i >= 0; --i) {
        if (++index[i] < tensor->dims[i])
            return 1;
        index[i] = 0;
    }
    return 0;
}

void blend(void *at, int type, double alpha, double beta, double value)
{
    set_number(at, type, alpha * value + (beta == 0 ? 0 : beta * number_at(at, type)));
}

int run_later(cudnnHandle_t handle, void (*call)(void *), void *arguments, size_t size)
{
    return fake_enqueue(handle->stream, call, arguments, size) ? CUDNN_STATUS_EXECUTION_FAILED : 0;
}
