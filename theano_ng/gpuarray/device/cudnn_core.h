/* What the files cudnn_*.c share. Each file computes one family of functions, as in this example:
 *
 *     static int compute(const struct dnn_call *call, const dnn_tensor *x, const dnn_tensor *y)
 *     {
 *         union dnn_factor one = cudnn_factor(1, x->typecode), zero = cudnn_factor(0, x->typecode);
 *         cudnnTensorDescriptor_t x_layout, y_layout;
 *         CUDNN_TRY(cudnn_layout(call, x, &x_layout));
 *         CUDNN_TRY(cudnn_layout(call, y, &y_layout));
 *         CUDNN_CALL(cudnnSoftmaxForward, call->handle, 1, 0, &one, x_layout, cudnn_at(x), &zero, y_layout, cudnn_at(y));
 *         return GA_NO_ERROR;
 *     }
 *
 *     int cudnn_softmax(gpucontext *ctx, const dnn_tensor *x, const dnn_tensor *y)
 *     {
 *         struct dnn_call call;
 *         int code = cudnn_begin(&call, ctx);
 *         if (code == GA_NO_ERROR)
 *             code = compute(&call, x, y);
 *         return cudnn_end(&call, code, "softmax", 2, (const dnn_tensor *const[]){x, y});
 *     }
 *
 * Descriptors, and choices of algorithms, are kept until the device is closed: cudnn_find() returns the object of a key,
 * and makes it if necessary. The objects of a call are not destroyed before the call ends. */
#ifndef TNG_CUDNN_CORE_H
#define TNG_CUDNN_CORE_H

#include "context.h"
#include "cuda.h"
#include "cudnn.h"
#include "cudnn_library.h"

#pragma GCC visibility push(hidden)

/* The library's functions; set when the library is loaded. */
struct cudnn_functions {
#define X(name, result, arguments) result(*name) arguments;
    CUDNN_FUNCTIONS(X)
#undef X
};
extern struct cudnn_functions cudnn;

/* One use of the library */
struct dnn_call {
    gpucontext *ctx;
    cuda_device *device;
    struct dnn_state *state;
    cudnnHandle_t handle;
    struct cuda_guard guard;
    int entered;
};

/* Load one of the libraries with the computations, from the folder of the library itself, or by the system's loader.
 * Return whether it could be loaded; if not, dlerror() has the reason. */
int cudnn_load_part(const char *name);

/* Open the library, and make the device's context current. cudnn_end() must follow in any case. */
int cudnn_begin(struct dnn_call *, gpucontext *);
/* End a call that had this result: wait for the device in a checked context, and add the name of the computation and the
 * shapes of `count` tensors (those that are not NULL) to the message of an error. Return the code. */
int cudnn_end(struct dnn_call *, int code, const char *what, int count, const dnn_tensor *const *tensors);

/* Store the message for a failed call of the library; return the code. */
int cudnn_failed(cudnnStatus_t, const char *name);

#define CUDNN_CALL(name, ...)                                     \
    do {                                                          \
        cudnnStatus_t status_ = cudnn.name(__VA_ARGS__);          \
        if (__builtin_expect(status_ != CUDNN_STATUS_SUCCESS, 0)) \
            return cudnn_failed(status_, #name);                  \
    } while (0)

#define CUDNN_TRY(expression)                          \
    do {                                               \
        int code_ = (expression);                      \
        if (__builtin_expect(code_ != GA_NO_ERROR, 0)) \
            return code_;                              \
    } while (0)

/* A kind of objects that are kept. `make` returns a code, and sets *object even if it fails halfway: `destroy` is then
 * called, and must accept NULL. The objects of a kind depend only on the bytes of the key. */
struct dnn_kind {
    int (*make)(const void *key, void **object);
    void (*destroy)(void *object);
};
/* Return the object of a kind for a key of `size` bytes, a multiple of 4 without padding. */
int cudnn_find(const struct dnn_call *, const struct dnn_kind *, const void *key, size_t size, void **object);

/* Return the descriptor of a tensor. Tensors with fewer than four axes get axes of length 1 at the end.
 * GA_UNSUPPORTED_ERROR: cuDNN has no descriptor for these lengths or strides. */
int cudnn_layout(const struct dnn_call *, const dnn_tensor *, cudnnTensorDescriptor_t *);
/* Return cuDNN's constant for a typecode, or -1. */
int cudnn_type(int typecode);

/* A number for `alpha` or `beta`: a double for float64 tensors, else a float */
union dnn_factor {
    float single;
    double number;
};
union dnn_factor cudnn_factor(double value, int typecode);

static inline void *cudnn_at(const dnn_tensor *t)
{
    return (void *)(uintptr_t)(t->data->memory + t->offset);
}

static inline size_t cudnn_elements(const dnn_tensor *t)
{
    size_t count = 1;
    for (unsigned i = 0; i < t->nd; ++i)
        count *= t->dims[i];
    return count;
}

/* Allocate a block of the pool, for the memory that a call of the library needs (0 bytes: *block is NULL). Release it by
 * gpudata_release() right after the call, also if it is NULL: the work of a device runs in order. GA_MEMORY_ERROR: there
 * is no memory, although the pool was emptied; try an algorithm that needs less. */
int cudnn_workspace(const struct dnn_call *, size_t size, gpudata **block);

static inline void *cudnn_memory(const gpudata *block)
{
    return block ? (void *)(uintptr_t)block->memory : NULL;
}

#pragma GCC visibility pop

#endif
