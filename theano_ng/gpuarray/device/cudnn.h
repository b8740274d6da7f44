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

/* The functions that can be applied to the sum of a convolution and a bias */
enum { DNN_IDENTITY, DNN_RELU, DNN_TANH, DNN_SIGMOID };

/* The operations that follow a convolution */
typedef struct {
    int activation;
    double alpha;
    const dnn_tensor *bias; /* (1, filters, 1, 1) or (1, filters, 1, 1, 1) */
    int any;                /* whether engines may compute that are not fast */
} dnn_ending;

/* out = activation(alpha * convolution of images with kernels + bias), by one kernel of the library. The arrays are in C
 * order, at addresses that are multiples of 16. A plan is made for each combination of shapes, parameters and alpha.
 * `algorithm` and `kept` of the choice are not read. GA_UNSUPPORTED_ERROR, and GA_MEMORY_ERROR (there is no memory for the
 * workspace of any plan): nothing was done, and cudnn_convolve() may be able to compute the convolution. */
int cudnn_convolve_elemwise(gpucontext *, const dnn_convolution *, const dnn_choice *, const dnn_ending *,
                            const dnn_tensor *images, const dnn_tensor *kernels, const dnn_tensor *out);

/* The windows of pooling, along the last 2 or 3 axes. `mode` is a constant CUDNN_POOLING_..., `nd` their number. */
typedef struct {
    int mode, nd, window[3], pad[3], stride[3];
} dnn_windows;

/* Pool x to y. Both have the same type, and are in C order. */
int cudnn_pool(gpucontext *, const dnn_windows *, const dnn_tensor *x, const dnn_tensor *y);
/* Compute the gradient dx with respect to x from x, the result y, and its gradient dy. All are in C order. For
 * averages, the elements of x and y are not read. */
int cudnn_pool_gradient(gpucontext *, const dnn_windows *, const dnn_tensor *y, const dnn_tensor *dy,
                        const dnn_tensor *x, const dnn_tensor *dx);

/* Arguments of batch normalization. x and y have 4 or 5 axes, and the same type and shape. The statistics have length 1
 * along the axes over which is averaged, are in C order, and have type float64 for float64 arrays, else float32. */
typedef struct {
    int mode; /* CUDNN_BATCHNORM_... */
    double epsilon;
    const dnn_tensor *x, *y, *scale, *bias;
    const dnn_tensor *mean;
    const dnn_tensor *spread; /* variance + epsilon to the power -1/2; for cudnn_normalize_by(): the variance */
} dnn_normalization;

/* Normalize x by its own mean and variance, and store these in mean and spread. If running_mean is not NULL, store
 * running averages, in which the new value has the weight `factor`. y may be x. */
int cudnn_normalize(gpucontext *, const dnn_normalization *, double factor, const dnn_tensor *running_mean,
                    const dnn_tensor *running_variance);
/* Normalize x by a given mean and variance. y may be x. */
int cudnn_normalize_by(gpucontext *, const dnn_normalization *);
/* Compute the gradient dx of cudnn_normalize() with respect to x from the gradient dy of y, and the gradients of scale
 * and bias. y and bias are not read. */
int cudnn_normalize_gradient(gpucontext *, const dnn_normalization *, const dnn_tensor *dy, const dnn_tensor *dx,
                             const dnn_tensor *dscale, const dnn_tensor *dbias);

/* Dropout. The states of its random generator, and the choices that its gradient needs, are arrays of bytes (one axis,
 * type GA_UBYTE). */

/* Find the number of bytes of the states. */
int cudnn_dropout_states(gpucontext *, size_t *size);
/* Seed the states, and make a descriptor (a cudnnDropoutDescriptor_t) that refers to them. `rate` is the probability
 * with which an element becomes 0. Free the descriptor before the states by cudnn_dropout_free() (NULL is allowed). */
int cudnn_dropout_make(gpucontext *, double rate, uint64_t seed, const dnn_tensor *states, void **descriptor);
void cudnn_dropout_free(void *descriptor);
/* Find the number of bytes of the choices for a tensor. */
int cudnn_dropout_size(gpucontext *, const dnn_tensor *x, size_t *size);
/* Set elements of x to 0, and divide the others by 1 - rate. x and y have the same strides. The states change. */
int cudnn_dropout(gpucontext *, void *descriptor, const dnn_tensor *states, const dnn_tensor *x, const dnn_tensor *y,
                  const dnn_tensor *choices);
/* Compute the gradient dx with respect to x from the gradient dy, which has the same strides. */
int cudnn_dropout_gradient(gpucontext *, void *descriptor, const dnn_tensor *dy, const dnn_tensor *dx,
                           const dnn_tensor *choices);

/* Recurrent networks, which read sequences of vectors. A descriptor (a cudnnRNNDescriptor_t) knows all but the lengths
 * of the vectors. All arrays are in C order and of one type. `directions` is 1 or 2. */
typedef struct {
    int mode;       /* CUDNN_RNN_RELU, CUDNN_RNN_TANH, CUDNN_LSTM or CUDNN_GRU */
    int input_mode; /* CUDNN_LINEAR_INPUT or CUDNN_SKIP_INPUT */
    int directions, typecode, hidden, layers;
} dnn_network;

/* Make a descriptor. `dropout` is a dropout descriptor that lives longer. If `tf32` is nonzero, float32 factors may be
 * rounded to TF32. Free the descriptor by cudnn_rnn_free(), which accepts NULL. */
int cudnn_rnn_make(gpucontext *, const dnn_network *, void *dropout, int tf32, void **descriptor);
void cudnn_rnn_free(void *descriptor);
int cudnn_rnn_network(gpucontext *, void *descriptor, dnn_network *);

/* A network, and the shape (steps, batch, input) of its input x */
typedef struct {
    void *descriptor;
    size_t steps, batch, input;
} dnn_sequences;

/* Find the numbers of bytes of the weights, and of the memory that leads from the results to gradients (`reserve`). */
int cudnn_rnn_sizes(gpucontext *, const dnn_sequences *, size_t *weights, size_t *reserve);
/* Find the bytes in front of a matrix and a bias in the weights; SIZE_MAX: there is none. `layer` counts the two
 * directions of a layer as two layers. `id` counts matrices for inputs, then matrices for states. A matrix has `hidden`
 * rows, in C order, and a bias has `hidden` elements. */
int cudnn_rnn_part(gpucontext *, const dnn_sequences *, const dnn_tensor *weights, int layer, int id, size_t *matrix,
                   size_t *bias);

/* Arrays of a network: x (steps, batch, input), y (steps, batch, directions * hidden), and states (layers * directions,
 * batch, hidden): before (hx, cx) and after (hy, cy) the sequence. cx and cy are NULL unless the network is an LSTM. */
typedef struct {
    const dnn_tensor *weights, *x, *y, *hx, *hy, *cx, *cy, *reserve;
} dnn_run;

int cudnn_rnn(gpucontext *, const dnn_sequences *, const dnn_run *);
/* Compute gradients with respect to x, hx and cx from those of y, hy and cy; the latter two may be NULL. This changes
 * `reserve`. hy and cy are not read. */
int cudnn_rnn_gradient(gpucontext *, const dnn_sequences *, const dnn_run *, const dnn_run *gradients);
/* Add the gradient with respect to the weights to gradients->weights. This must follow cudnn_rnn_gradient(). The
 * weights, cx and the states after the sequence are not read. */
int cudnn_rnn_weights_gradient(gpucontext *, const dnn_sequences *, const dnn_run *, const dnn_run *gradients);

/* Spatial transformers. All arrays are in C order and of one type. theta (n, 2, 3) has a matrix for each image, grid
 * (n, h, w, 2) has for each pixel of a new image the point x, y of the image from which it is taken. The corners of an
 * image are -1 and 1.
 */

/* Compute grid, where x and y are the products of the rows of a matrix with (x, y, 1) of the new pixel. */
int cudnn_grid(gpucontext *, size_t channels, const dnn_tensor *theta, const dnn_tensor *grid);
int cudnn_grid_gradient(gpucontext *, size_t channels, const dnn_tensor *dgrid, const dnn_tensor *dtheta);
/* Compute y (n, channels, h, w) by bilinear interpolation of x (n, channels, rows, columns), which is 0 outside. */
int cudnn_sample(gpucontext *, const dnn_tensor *x, const dnn_tensor *grid, const dnn_tensor *y);
int cudnn_sample_gradient(gpucontext *, const dnn_tensor *x, const dnn_tensor *grid, const dnn_tensor *dy,
                          const dnn_tensor *dx, const dnn_tensor *dgrid);

#endif
