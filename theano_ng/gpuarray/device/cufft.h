/* Fourier transforms by cuFFT, for CUDA contexts. */
#ifndef TNG_CUFFT_H
#define TNG_CUFFT_H

#include "device.h"

/* The library transforms up to this number of axes at a time. */
enum { FFT_MOST_AXES = 3 };

enum fft_kind {
    FFT_FROM_REAL,    /* real arrays to the first half of their transforms, out of place */
    FFT_TO_REAL,      /* the inverse, which destroys its input */
    FFT_PAIRS,        /* complex arrays */
    FFT_PAIRS_INVERSE /* the inverse */
};

/* A number of transforms of one form. Strides are numbers of elements: real numbers, or pairs of real numbers. */
typedef struct {
    int64_t kind, typecode; /* GA_FLOAT or GA_DOUBLE */
    int64_t rank;
    int64_t lengths[FFT_MOST_AXES]; /* of the real arrays, or of the arrays of pairs for the last two kinds */
    int64_t stride; /* between adjacent elements of the last axis; axes are contiguous with each other */
    int64_t step;   /* between arrays; if 0, arrays are contiguous, one behind the other */
    int64_t batch;  /* number of arrays */
} fft_form;

/* Load cuFFT. *version is then its version, for example 110303 for 11.3.3. If the context is no CUDA context, or if the
 * library cannot be used, return an error. */
int cufft_open(gpucontext *, size_t *version);

/* Transform the arrays at `from`; write the unnormalized results to `to`. All lengths are positive. Both addresses are
 * multiples of the size of a pair. */
int cufft_transform(gpucontext *, const fft_form *, device_memory from, device_memory to);

#endif
