/* Neural networks by cuDNN 9, for CUDA contexts: the functions that native code of Ops calls.
 *
 * All functions return GA_NO_ERROR or a code of gpuarray/error.h, and store a message that gpucontext_error() returns.
 * GA_UNSUPPORTED_ERROR: the context is no CUDA context, or cuDNN does not compute this form (for example because a stride
 * is not positive, or because there are 2^31 elements). Then nothing was done. GA_LOAD_ERROR: the library cannot be used.
 * No tensor has an axis of length 0. Results do not overlap inputs, unless a function says that they may. */
#ifndef TNG_CUDNN_H
#define TNG_CUDNN_H

#include "gpuarray/types.h"

/* The maximum number of axes */
enum { DNN_MOST_AXES = 8 };

/* An array of float16, float32 or float64 in device memory */
typedef struct {
    gpudata *data;
    size_t offset; /* bytes */
    int typecode;
    unsigned nd;
    size_t dims[DNN_MOST_AXES];
    ssize_t strides[DNN_MOST_AXES]; /* elements */
} dnn_tensor;

/* Load cuDNN. *version is then its version, for example 92800 for 9.28.0. */
int cudnn_open(gpucontext *, size_t *version);
/* Return the library's handle of the context's device, for users' C code, in *handle. */
int cudnn_handle(gpucontext *, void **handle);

/* y = softmax(x). x and y have the same type and shape (n, c, h, w). `algorithm` and `mode` are constants
 * CUDNN_SOFTMAX_... y may be x. */
int cudnn_softmax(gpucontext *, int algorithm, int mode, const dnn_tensor *x, const dnn_tensor *y);
/* Compute the gradient dx with respect to the input of softmax from its result y and the gradient dy. */
int cudnn_softmax_gradient(gpucontext *, int algorithm, int mode, const dnn_tensor *y, const dnn_tensor *dy,
                           const dnn_tensor *dx);

/* Reduce x to y, which has as many axes as x, with length 1 along the reduced axes. `operation` is a constant
 * CUDNN_REDUCE_TENSOR_... `accumulate` is the typecode in which the library computes. For minima and maxima, `indices` may
 * be memory for one uint32 for each element of y, else it is NULL. */
int cudnn_reduce(gpucontext *, int operation, int accumulate, const dnn_tensor *x, const dnn_tensor *y,
                 gpudata *indices);

/* The three computations of a convolution: its inputs are images and kernels; images and the gradient of the output; or
 * kernels and the gradient of the output. */
enum { DNN_FORWARD, DNN_WEIGHTS, DNN_INPUTS };

typedef struct {
    int axes; /* 2 or 3: the number of axes along which kernels move */
    int pad[3], stride[3], dilation[3];
    int groups;
    int flip;    /* whether the kernels are reversed */
    int compute; /* the typecode in which the library computes */
    int tf32;    /* whether float32 numbers may be rounded to TF32 */
} dnn_convolution;

/* The algorithm is chosen by the library's heuristics, or by measurements, for each combination of shapes. */
enum { DNN_GUESS = -1, DNN_TIME = -2 };

typedef struct {
    int algorithm;     /* a constant CUDNN_CONVOLUTION_..., DNN_GUESS or DNN_TIME */
    int deterministic; /* whether only algorithms that always give the same bits may be used */
    int64_t *kept;     /* NULL, or zeroed memory that keeps the first choice for all shapes */
    size_t most;       /* the largest number of elements of an array in one call; 0: that of the library */
} dnn_choice;

/* out = alpha * convolution + beta * out. The old content of out is not read if beta is 0. The arrays are in C order, and
 * their shapes fit. An algorithm that cannot compute this form, or for whose workspace there is no memory, is replaced. */
int cudnn_convolve(gpucontext *, int direction, const dnn_convolution *, const dnn_choice *, double alpha,
                   const dnn_tensor *first, const dnn_tensor *second, double beta, const dnn_tensor *out);

#endif
