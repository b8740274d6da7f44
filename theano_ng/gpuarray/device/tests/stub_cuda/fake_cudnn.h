/* What the files of the fake cuDNN share. A new family of functions is a new file fake_cudnn_*.c: the tests compile all
 * files fake_cudnn*.c together. A function of a family
 *
 * 1. begins with CALL("cudnnName"), so that tests can let it fail;
 * 2. checks the handle by CHECKED(is_handle(handle)), the descriptors and their memory by CHECKED(is_tensor(...)), and
 *    the workspace by CHECKED(is_workspace(...)), and refuses what the library refuses;
 * 3. notes the call by fake_log();
 * 4. enqueues a function that computes by plain loops, with a copy of all arguments, by run_later(). */
#ifndef TNG_FAKE_CUDNN_H
#define TNG_FAKE_CUDNN_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cudnn_library.h"

/* ---- the fake driver ---- */

struct CUctx_st;
int fake_enqueue(struct CUstream_st *, void (*)(void *), void *, size_t);
int fake_is_memory(const void *, size_t);
void fake_note(const char *);
int fake_fails(const char *);
struct CUctx_st *fake_current(void);

/* ---- state that tests set and read ---- */

struct fake_dnn {
    int version, runtime;     /* versions of the library, and of CUDA's run-time library */
    int handles, descriptors; /* numbers of existing objects */
    uint64_t workspace;       /* bytes that algorithms need */
};

extern struct fake_dnn fake_dnn;

void fake_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define CALL(name)                      \
    do {                                \
        int status_ = fake_fails(name); \
        if (status_)                    \
            return status_;             \
    } while (0)

#define CHECKED(expression)         \
    do {                            \
        int status_ = (expression); \
        if (status_)                \
            return status_;         \
    } while (0)

/* ---- objects: the first member tells the kind and is cleared when the object is destroyed ---- */

enum {
    HANDLE = 0x7a11d1e,
    TENSOR,
    REDUCTION,
    FILTER,
    CONVOLUTION,
    POOLING,
    DROPOUT,
    NETWORK,
    SEQUENCES,
    TRANSFORMER,
    BACKEND,
};

struct cudnnContext {
    int kind;
    struct CUctx_st *context;
    struct CUstream_st *stream;
};

struct cudnnTensorStruct {
    int kind, type, nd, dims[CUDNN_DIM_MAX], strides[CUDNN_DIM_MAX];
};

/* Allocate an object, and count it. */
void *fake_made(int kind, size_t size);
/* Free an object that has this kind; return a status. */
int fake_destroyed(void *object, int kind);

/* ---- checks: they return a status ---- */

/* The handle exists, belongs to the current context, and has a stream. */
int is_handle(cudnnHandle_t);
/* A descriptor that was set, whose elements are aligned and in device memory */
int is_tensor(cudnnTensorDescriptor_t, const void *);
/* Two tensors of the same type and shape */
int same_form(cudnnTensorDescriptor_t, cudnnTensorDescriptor_t);
/* `needed` bytes of device memory, aligned */
int is_workspace(const void *, size_t given, size_t needed);

/* ---- elements ---- */

size_t size_of_type(int type);
double number_at(const void *, int type);
void set_number(void *, int type, double value);

/* alpha and beta: numbers of the host, double for CUDNN_DATA_DOUBLE, else float */
double factor_of(const void *, int type);

/* Return the address of the element with these indices. Axes behind the last index have index 0. */
static inline char *element_of(const struct cudnnTensorStruct *t, char *at, const int *index)
{
    int64_t place = 0;
    for (int i = 0; i < t->nd; ++i)
        place += (int64_t)index[i] * t->strides[i];
    return at + place * (int64_t)size_of_type(t->type);
}

/* Step to the next index in C order; return 0 after the last. Begin with zeros. */
int next_index(const struct cudnnTensorStruct *, int *index);

/* Store alpha * value + beta * old; the old value is not read if beta is 0. */
void blend(void *at, int type, double alpha, double beta, double value);

/* Let the stream of a handle call a function with a copy of `size` bytes. */
int run_later(cudnnHandle_t, void (*)(void *), void *arguments, size_t size);

#endif
