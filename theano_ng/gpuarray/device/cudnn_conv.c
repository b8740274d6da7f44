/* Convolutions and their gradients by cuDNN.
 *
 * The library has several algorithms for each of the three computations. Not every algorithm can compute every form of a
 * convolution, and most need a workspace. The sizes of workspaces and the algorithms that were chosen are kept for each
 * combination of shapes (struct form). An algorithm that cannot compute a form, or for whose workspace there is no memory,
 * is replaced by the first one in the order of the library's heuristics that can. */
#include "cudnn_core.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ALGORITHMS = CUDNN_CONVOLUTION_FWD_ALGO_COUNT, UNKNOWN = -1, MOST_AXES = 3, RANK = 2 + MOST_AXES };

/* The key of a convolution descriptor */
struct convolution_key {
    int axes, pad[MOST_AXES], stride[MOST_AXES], dilation[MOST_AXES], groups, mode, compute, math;
};

struct filter_key {
    int type, nd, dims[RANK];
};

struct form_key {
    int direction, type, dims[3][RANK];
    struct convolution_key convolution;
};

/* Facts about the convolutions with these shapes */
struct form {
    size_t size[MOST_ALGORITHMS]; /* of the workspace */
    int has_size[MOST_ALGORITHMS];
    int instead[2][MOST_ALGORITHMS]; /* [deterministic]: the algorithm to use if this one cannot compute the form, or
                                        UNKNOWN */
    int chosen[2][2];                /* [by measurements][deterministic]: the choice of the library, or UNKNOWN */
    int is_refused[2];               /* [deterministic]: whether no algorithm can compute the form */
};

struct problem {
    const struct dnn_call *call;
    int direction;
    const dnn_choice *choice;
    union dnn_factor alpha, beta;
    int has_beta;
    void *layout[3], *at[3]; /* the inputs, and the result */
    size_t out_bytes;
    cudnnConvolutionDescriptor_t convolution;
    struct form *form;
};

/* Call one of the functions before<Direction>after of the library. */
#define DIRECTED(p, before, after, ...)                                                                    \
    ((p)->direction == DNN_FORWARD   ? cudnn.before##Forward##after((p)->call->handle, __VA_ARGS__)        \
     : (p)->direction == DNN_WEIGHTS ? cudnn.before##BackwardFilter##after((p)->call->handle, __VA_ARGS__) \
                                     : cudnn.before##BackwardData##after((p)->call->handle, __VA_ARGS__))

static int directed_failed(const struct problem *p, cudnnStatus_t status, const char *before, const char *after)
{
    static const char *const names[] = {"Forward", "BackwardFilter", "BackwardData"};
    char name[80];
    snprintf(name, sizeof name, "%s%s%s", before, names[p->direction], after);
    return cudnn_failed(status, name);
}

/* ---- objects that are kept ---- */

static int make_convolution(const void *from, void **object)
{
    const struct convolution_key *key = from;
    CUDNN_CALL(cudnnCreateConvolutionDescriptor, (cudnnConvolutionDescriptor_t *)object);
    CUDNN_CALL(cudnnSetConvolutionNdDescriptor, *object, key->axes, key->pad, key->stride, key->dilation, key->mode,
               key->compute);
    CUDNN_CALL(cudnnSetConvolutionGroupCount, *object, key->groups);
    CUDNN_CALL(cudnnSetConvolutionMathType, *object, key->math);
    return GA_NO_ERROR;
}

static void destroy_convolution(void *object)
{
    if (object)
        cudnn.cudnnDestroyConvolutionDescriptor(object);
}

static int make_filter(const void *from, void **object)
{
    const struct filter_key *key = from;
    CUDNN_CALL(cudnnCreateFilterDescriptor, (cudnnFilterDescriptor_t *)object);
    CUDNN_CALL(cudnnSetFilterNdDescriptor, *object, key->type, CUDNN_TENSOR_NCHW, key->nd, key->dims);
    return GA_NO_ERROR;
}

static void destroy_filter(void *object)
{
    if (object)
        cudnn.cudnnDestroyFilterDescriptor(object);
}

static int make_form(const void *key, void **object)
{
    (void)key;
    struct form *form = calloc(1, sizeof *form);
    if (!(*object = form))
        return device_failed(GA_MEMORY_ERROR, "out of host memory for cuDNN");
    for (int i = 0; i < MOST_ALGORITHMS; ++i)
        form->instead[0][i] = form->instead[1][i] = UNKNOWN;
    for (int i = 0; i < 2; ++i)
        form->chosen[i][0] = form->chosen[i][1] = UNKNOWN;
    return GA_NO_ERROR;
}

static const struct dnn_kind convolutions = {make_convolution, destroy_convolution};
static const struct dnn_kind filters = {make_filter, destroy_filter};
static const struct dnn_kind forms = {make_form, free};

/* ---- algorithms ---- */

/* Return the algorithms in the order of their expected speed. */
static int guess(const struct problem *p, cudnnConvolutionAlgoPerf_t *found, int *count)
{
    cudnnStatus_t status = DIRECTED(p, cudnnGetConvolution, Algorithm_v7, p->layout[0], p->layout[1], p->convolution,
                                    p->layout[2], MOST_ALGORITHMS, count, found);
    return status == CUDNN_STATUS_SUCCESS ? GA_NO_ERROR
                                          : directed_failed(p, status, "cudnnGetConvolution", "Algorithm_v7");
}

static int is_allowed(const struct problem *p, const cudnnConvolutionAlgoPerf_t *found)
{
    return found->status == CUDNN_STATUS_SUCCESS && found->algo >= 0 && found->algo < MOST_ALGORITHMS
           && (!p->choice->deterministic || found->determinism == CUDNN_DETERMINISTIC);
}

/* Allocate the largest workspace that one of the algorithms needs and for which there is memory. */
static int largest_workspace(const struct problem *p, gpudata **workspace, size_t *size)
{
    cudnnConvolutionAlgoPerf_t found[MOST_ALGORITHMS];
    int count = 0, code;
    size_t limit = SIZE_MAX;
    CUDNN_TRY(guess(p, found, &count));
    do {
        *size = 0;
        for (int i = 0; i < count; ++i)
            if (is_allowed(p, &found[i]) && found[i].memory > *size && found[i].memory < limit)
                *size = found[i].memory;
        limit = *size;
        code = cudnn_workspace(p->call, *size, workspace);
    } while (code == GA_MEMORY_ERROR);
    return code;
}

/* Let the library run all algorithms, and return the fastest, or UNKNOWN if it measures none. The measurement overwrites
 * the result; if the result also is an input, other memory takes its place. */
static int fastest(const struct problem *p, int *algorithm)
{
    cudnnConvolutionAlgoPerf_t found[MOST_ALGORITHMS];
    gpudata *workspace = NULL, *other = NULL;
    int count = 0;
    size_t size;
    *algorithm = UNKNOWN;
    CUDNN_TRY(largest_workspace(p, &workspace, &size));
    int code = p->has_beta ? cudnn_workspace(p->call, p->out_bytes, &other) : GA_NO_ERROR;
    if (code == GA_NO_ERROR) {
        cudnnStatus_t status = DIRECTED(p, cudnnFindConvolution, AlgorithmEx, p->layout[0], p->at[0], p->layout[1],
                                        p->at[1], p->convolution, p->layout[2], other ? cudnn_memory(other) : p->at[2],
                                        MOST_ALGORITHMS, &count, found, cudnn_memory(workspace), size);
        if (status != CUDNN_STATUS_SUCCESS)
            code = directed_failed(p, status, "cudnnFindConvolution", "AlgorithmEx");
    }
    gpudata_release(other);
    gpudata_release(workspace);
    for (int i = count - 1; code == GA_NO_ERROR && i >= 0; --i)
        if (is_allowed(p, &found[i]))
            *algorithm = found[i].algo;
    /* If the library cannot measure, its heuristics choose. */
    return code == GA_UNSUPPORTED_ERROR || code == GA_MEMORY_ERROR ? GA_NO_ERROR : code;
}

/* Compute by an algorithm. */
static int attempt(const struct problem *p, int algorithm)
{
    struct form *form = p->form;
    gpudata *workspace;
    if (!form->has_size[algorithm]) {
        cudnnStatus_t status = DIRECTED(p, cudnnGetConvolution, WorkspaceSize, p->layout[0], p->layout[1],
                                        p->convolution, p->layout[2], algorithm, &form->size[algorithm]);
        if (status != CUDNN_STATUS_SUCCESS)
            return directed_failed(p, status, "cudnnGetConvolution", "WorkspaceSize");
        form->has_size[algorithm] = 1;
    }
    CUDNN_TRY(cudnn_workspace(p->call, form->size[algorithm], &workspace));
    cudnnStatus_t status =
        DIRECTED(p, cudnnConvolution, , &p->alpha, p->layout[0], p->at[0], p->layout[1], p->at[1], p->convolution,
                 algorithm, cudnn_memory(workspace), form->size[algorithm], &p->beta, p->layout[2], p->at[2]);
    gpudata_release(workspace);
    return status == CUDNN_STATUS_SUCCESS ? GA_NO_ERROR : directed_failed(p, status, "cudnnConvolution", "");
}

static int may_fall_back(int code)
{
    return code == GA_UNSUPPORTED_ERROR || code == GA_MEMORY_ERROR;
}

/* Compute by the first other algorithm that can. `tried` has failed with this code, or is UNKNOWN. */
static int fall_back(const struct problem *p, int tried, int code, int *used)
{
    cudnnConvolutionAlgoPerf_t found[MOST_ALGORITHMS];
    char message[512] = "";
    size_t limit = code == GA_MEMORY_ERROR ? p->form->size[tried] : SIZE_MAX;
    int count = 0;
    if (tried != UNKNOWN)
        snprintf(message, sizeof message, "%s", device_message());
    CUDNN_TRY(guess(p, found, &count));
    for (int i = 0; i < count; ++i) {
        if (!is_allowed(p, &found[i]) || found[i].algo == tried || found[i].memory >= limit)
            continue;
        int result = attempt(p, *used = found[i].algo);
        if (!may_fall_back(result))
            return result;
        if (result == GA_MEMORY_ERROR) {
            code = result;
            limit = found[i].memory;
            snprintf(message, sizeof message, "%s", device_message());
        }
    }
    if (code == GA_MEMORY_ERROR)
        return device_failed(code, "%s", message);
    p->form->is_refused[p->choice->deterministic != 0] = 1;
    return device_failed(code, "cuDNN has no %salgorithm for this form%s%s",
                         p->choice->deterministic ? "deterministic " : "", *message ? ": " : "", message);
}

static int compute(const struct problem *p)
{
    const dnn_choice *choice = p->choice;
    int algorithm = choice->algorithm, chooses = algorithm < 0, exact = choice->deterministic != 0, used;
    int *chosen = &p->form->chosen[algorithm == DNN_TIME][exact], *instead = p->form->instead[exact];
    if (p->form->is_refused[exact])
        return device_failed(GA_UNSUPPORTED_ERROR, "cuDNN has no %salgorithm for this form",
                             exact ? "deterministic " : "");
    int is_kept = chooses && choice->kept && *choice->kept;
    if (chooses) {
        algorithm = is_kept ? (int)*choice->kept - 1 : *chosen;
        if (algorithm == UNKNOWN && choice->algorithm == DNN_TIME)
            CUDNN_TRY(fastest(p, &algorithm));
    }
    if (algorithm != UNKNOWN && instead[algorithm] != UNKNOWN)
        algorithm = instead[algorithm];
    used = algorithm;
    int code = algorithm == UNKNOWN ? GA_UNSUPPORTED_ERROR : attempt(p, algorithm);
    int unsupported = code == GA_UNSUPPORTED_ERROR;
    if (may_fall_back(code))
        code = fall_back(p, algorithm, code, &used);
    if (code != GA_NO_ERROR)
        return code;
    if (algorithm != UNKNOWN && unsupported)
        instead[algorithm] = used;
    if (chooses && !is_kept) {
        if (*chosen == UNKNOWN)
            *chosen = used;
        if (choice->kept)
            *choice->kept = used + 1;
    }
    return GA_NO_ERROR;
}

/* ---- arrays ---- */

/* Return the position of the kernels among the arrays. */
static int filter_place(int direction)
{
    return direction == DNN_FORWARD ? 1 : direction == DNN_WEIGHTS ? 2 : 0;
}

static int filter_layout(const struct dnn_call *call, const dnn_tensor *t, void **layout)
{
    struct filter_key key = {.type = cudnn_type(t->typecode), .nd = (int)t->nd};
    for (unsigned i = 0; i < t->nd; ++i) {
        if (t->dims[i] > INT_MAX)
            return device_failed(GA_UNSUPPORTED_ERROR, "cuDNN needs kernels with lengths of less than 2^31");
        key.dims[i] = (int)t->dims[i];
    }
    return cudnn_find(call, &filters, &key, sizeof key, layout);
}

static int prepare(struct problem *p, const dnn_convolution *convolution, double alpha, double beta,
                   const dnn_tensor *const *tensors)
{
    const dnn_tensor *out = tensors[2];
    struct form_key key = {.direction = p->direction, .type = cudnn_type(out->typecode)};
    struct convolution_key *c = &key.convolution;
    c->axes = convolution->axes;
    for (int i = 0; i < c->axes; ++i) {
        c->pad[i] = convolution->pad[i];
        c->stride[i] = convolution->stride[i];
        c->dilation[i] = convolution->dilation[i];
    }
    c->groups = convolution->groups;
    c->mode = convolution->flip ? CUDNN_CONVOLUTION : CUDNN_CROSS_CORRELATION;
    c->compute = cudnn_type(convolution->compute);
    c->math = out->typecode == GA_HALF                          ? CUDNN_TENSOR_OP_MATH
              : out->typecode == GA_FLOAT && !convolution->tf32 ? CUDNN_FMA_MATH
                                                                : CUDNN_DEFAULT_MATH;
    p->out_bytes = gpuarray_get_elsize(out->typecode);
    for (int k = 0; k < 3; ++k) {
        if (k == filter_place(p->direction))
            CUDNN_TRY(filter_layout(p->call, tensors[k], &p->layout[k]));
        else
            CUDNN_TRY(cudnn_layout(p->call, tensors[k], (cudnnTensorDescriptor_t *)&p->layout[k]));
        p->at[k] = cudnn_at(tensors[k]);
        for (unsigned i = 0; i < tensors[k]->nd; ++i)
            key.dims[k][i] = (int)tensors[k]->dims[i];
    }
    for (unsigned i = 0; i < out->nd; ++i)
        p->out_bytes *= out->dims[i];
    CUDNN_TRY(cudnn_find(p->call, &convolutions, c, sizeof *c, (void **)&p->convolution));
    CUDNN_TRY(cudnn_find(p->call, &forms, &key, sizeof key, (void **)&p->form));
    p->alpha = cudnn_factor(alpha, out->typecode);
    p->beta = cudnn_factor(beta, out->typecode);
    p->has_beta = beta != 0;
    return GA_NO_ERROR;
}

/* Return the images `begin` to `end` of an array in C order. */
static dnn_tensor part_of(const dnn_tensor *t, size_t begin, size_t end)
{
    dnn_tensor part = *t;
    part.offset += begin * cudnn_elements(t) / t->dims[0] * gpuarray_get_elsize(t->typecode);
    part.dims[0] = end - begin;
    return part;
}

/* Compute in one call of the library, or in several calls for parts of the batch, if the arrays are too large. Count the
 * parts that were computed. */
static int convolve(const struct dnn_call *call, int direction, const dnn_convolution *convolution,
                    const dnn_choice *choice, double alpha, double beta, const dnn_tensor *const *tensors, int *parts)
{
    int place = filter_place(direction), images = place == 0, others = place == 2 ? 1 : 2;
    size_t batch = tensors[images]->dims[0], most = choice->most ? choice->most : INT_MAX;
    if (batch > 1 && (cudnn_elements(tensors[images]) > most || cudnn_elements(tensors[others]) > most)) {
        for (int half = 0; half < 2; ++half) {
            size_t begin = half ? batch / 2 : 0, end = half ? batch : batch / 2;
            dnn_tensor first = part_of(tensors[images], begin, end), second = part_of(tensors[others], begin, end);
            const dnn_tensor *pieces[3] = {tensors[0], tensors[1], tensors[2]};
            pieces[images] = &first;
            pieces[others] = &second;
            CUDNN_TRY(
                convolve(call, direction, convolution, choice, alpha, half && place == 2 ? 1 : beta, pieces, parts));
        }
        return GA_NO_ERROR;
    }
    struct problem p = {.call = call, .direction = direction, .choice = choice};
    CUDNN_TRY(prepare(&p, convolution, alpha, beta, tensors));
    CUDNN_TRY(compute(&p));
    ++*parts;
    return GA_NO_ERROR;
}

int cudnn_convolve(gpucontext *ctx, int direction, const dnn_convolution *convolution, const dnn_choice *choice,
                   double alpha, const dnn_tensor *first, const dnn_tensor *second, double beta, const dnn_tensor *out)
{
    static const char *const names[] = {"a convolution", "the gradient of a convolution for its kernels",
                                        "the gradient of a convolution for its images"};
    const dnn_tensor *const tensors[] = {first, second, out};
    struct dnn_call call;
    int parts = 0, code = cudnn_begin(&call, ctx);
    if (code == GA_NO_ERROR)
        code = convolve(&call, direction, convolution, choice, alpha, beta, tensors, &parts);
    /* The caller cannot compute the convolution by other means: the parts have overwritten an input. */
    if (code == GA_UNSUPPORTED_ERROR && parts > 0 && beta != 0)
        code = GA_RUN_ERROR;
    return cudnn_end(&call, code, names[direction], 3, tensors);
}
