/* The sums of products of a convolution or of a gradient of the fake cuDNN:
 *
 *     y[n, k, o] = sum of w[k, c, t] * x[n, c, o * stride + t * dilation - pad]
 *
 * where w is reversed for CUDNN_CONVOLUTION. The channels and the filters of a group belong together. */
#ifndef TNG_FAKE_CUDNN_CONV_H
#define TNG_FAKE_CUDNN_CONV_H

#include "fake_cudnn.h"

enum { MOST_AXES = 3 };
enum { FORWARD, WEIGHTS, INPUTS };

struct cudnnConvolutionStruct {
    int kind, axes, pad[MOST_AXES], stride[MOST_AXES], dilation[MOST_AXES], mode, compute, groups, math;
};

/* The arrays are extended to three axes. */
struct convolution {
    int direction;
    double alpha, beta;
    struct cudnnTensorStruct x, y, w;
    struct cudnnConvolutionStruct c;
    char *x_at, *w_at, *y_at;
};

/* Extend the lengths of an array to three axes. */
void fake_extend(struct cudnnTensorStruct *, int axes);
/* Return the sums for the elements of the result, in C order. The caller frees them. */
double *fake_sums(const struct convolution *);

#endif
