/* Recurrent networks and their gradients by cuDNN. */
#include "cudnn_core.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Arguments of cudnnSetRNNDescriptor_v8(), and the content of the dropout descriptor */
struct rnn_key {
    int algorithm, mode, bias, direction, input_mode, type, precision, math;
    int32_t input, hidden, projection, layers;
    uint32_t flags, rate;
    uint64_t dropout, states, seed;
};

static int set(cudnnRNNDescriptor_t descriptor, const struct rnn_key *key)
{
    CUDNN_CALL(cudnnSetRNNDescriptor_v8, descriptor, key->algorithm, key->mode, key->bias, key->direction,
               key->input_mode, key->type, key->precision, key->math, key->input, key->hidden, key->projection,
               key->layers, (cudnnDropoutDescriptor_t)(uintptr_t)key->dropout, key->flags);
    return GA_NO_ERROR;
}

static int make_rnn(const void *key, void **object)
{
    CUDNN_CALL(cudnnCreateRNNDescriptor, (cudnnRNNDescriptor_t *)object);
    return set(*object, key);
}

void cudnn_rnn_free(void *descriptor)
{
    if (descriptor)
        cudnn.cudnnDestroyRNNDescriptor(descriptor);
}

static const struct dnn_kind networks = {make_rnn, cudnn_rnn_free};

/* Sequences of equal lengths */
struct data_key {
    int type, steps, batch, vector;
};

static int make_data(const void *from, void **object)
{
    const struct data_key *key = from;
    CUDNN_CALL(cudnnCreateRNNDataDescriptor, (cudnnRNNDataDescriptor_t *)object);
    int *lengths = malloc((size_t)key->batch * sizeof *lengths);
    if (!lengths)
        return device_failed(GA_MEMORY_ERROR, "out of host memory for cuDNN");
    for (int i = 0; i < key->batch; ++i)
        lengths[i] = key->steps;
    cudnnStatus_t status = cudnn.cudnnSetRNNDataDescriptor(*object, key->type, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED,
                                                           key->steps, key->batch, key->vector, lengths, NULL);
    free(lengths);
    return status == CUDNN_STATUS_SUCCESS ? GA_NO_ERROR : cudnn_failed(status, "cudnnSetRNNDataDescriptor");
}

static void destroy_data(void *object)
{
    if (object)
        cudnn.cudnnDestroyRNNDataDescriptor(object);
}

static const struct dnn_kind sequences = {make_data, destroy_data};

/* ---- descriptors ---- */

int cudnn_rnn_make(gpucontext *ctx, const dnn_network *network, void *dropout, int tf32, void **descriptor)
{
    struct dnn_call call;
    int type = cudnn_type(network->typecode), code = cudnn_begin(&call, ctx);
    struct rnn_key key = {
        .algorithm = CUDNN_RNN_ALGO_STANDARD,
        .mode = network->mode,
        .bias = CUDNN_RNN_DOUBLE_BIAS,
        .direction = network->directions == 2 ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL,
        .input_mode = network->input_mode,
        .type = type,
        .precision = type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT,
        .math = type == CUDNN_DATA_HALF             ? CUDNN_TENSOR_OP_MATH
                : type == CUDNN_DATA_FLOAT && !tf32 ? CUDNN_FMA_MATH
                                                    : CUDNN_DEFAULT_MATH,
        .input = network->hidden,
        .hidden = network->hidden,
        .projection = network->hidden,
        .layers = network->layers,
        .dropout = (uintptr_t)dropout,
        .flags = CUDNN_RNN_PADDED_IO_ENABLED,
    };
    *descriptor = NULL;
    if (code == GA_NO_ERROR)
        code = make_rnn(&key, descriptor);
    if (code != GA_NO_ERROR) {
        cudnn_rnn_free(*descriptor);
        *descriptor = NULL;
    }
    return cudnn_end(&call, code, "a recurrent network", 0, NULL);
}

static int read_key(const struct dnn_call *call, void *descriptor, struct rnn_key *key)
{
    cudnnDropoutDescriptor_t dropout;
    float rate;
    void *states;
    unsigned long long seed;
    memset(key, 0, sizeof *key);
    CUDNN_CALL(cudnnGetRNNDescriptor_v8, descriptor, &key->algorithm, &key->mode, &key->bias, &key->direction,
               &key->input_mode, &key->type, &key->precision, &key->math, &key->input, &key->hidden, &key->projection,
               &key->layers, &dropout, &key->flags);
    CUDNN_CALL(cudnnGetDropoutDescriptor, dropout, call->handle, &rate, &states, &seed);
    memcpy(&key->rate, &rate, sizeof rate);
    key->dropout = (uintptr_t)dropout;
    key->states = (uintptr_t)states;
    key->seed = seed;
    return GA_NO_ERROR;
}

static int network_of(const struct dnn_call *call, void *descriptor, dnn_network *network)
{
    struct rnn_key key;
    CUDNN_TRY(read_key(call, descriptor, &key));
    *network = (dnn_network){.mode = key.mode,
                             .input_mode = key.input_mode,
                             .directions = key.direction == CUDNN_BIDIRECTIONAL ? 2 : 1,
                             .typecode = key.type == CUDNN_DATA_DOUBLE  ? GA_DOUBLE
                                         : key.type == CUDNN_DATA_FLOAT ? GA_FLOAT
                                                                        : GA_HALF,
                             .hidden = key.hidden,
                             .layers = key.layers};
    return GA_NO_ERROR;
}

int cudnn_rnn_network(gpucontext *ctx, void *descriptor, dnn_network *network)
{
    struct dnn_call call;
    int code = cudnn_begin(&call, ctx);
    if (code == GA_NO_ERROR)
        code = network_of(&call, descriptor, network);
    return cudnn_end(&call, code, "a recurrent network", 0, NULL);
}

/* ---- computations ---- */

/* Descriptors of a network and its sequences, and sizes of memory */
struct rnn {
    cudnnRNNDescriptor_t network;
    cudnnRNNDataDescriptor_t x_layout, y_layout;
    size_t weights, workspace, reserve; /* bytes */
};

static int prepare(const struct dnn_call *call, const dnn_sequences *s, struct rnn *it)
{
    struct rnn_key key;
    CUDNN_TRY(read_key(call, s->descriptor, &key));
    if (s->steps > INT_MAX || s->batch > INT_MAX || s->input > INT_MAX)
        return device_failed(GA_UNSUPPORTED_ERROR, "cuDNN needs lengths of less than 2^31");
    key.input = (int32_t)s->input;
    int wide = key.hidden * (key.direction == CUDNN_BIDIRECTIONAL ? 2 : 1);
    struct data_key x = {key.type, (int)s->steps, (int)s->batch, key.input}, y = {x.type, x.steps, x.batch, wide};
    CUDNN_TRY(cudnn_find(call, &networks, &key, sizeof key, (void **)&it->network));
    CUDNN_TRY(cudnn_find(call, &sequences, &x, sizeof x, (void **)&it->x_layout));
    CUDNN_TRY(cudnn_find(call, &sequences, &y, sizeof y, (void **)&it->y_layout));
    CUDNN_CALL(cudnnGetRNNWeightSpaceSize, call->handle, it->network, &it->weights);
    CUDNN_CALL(cudnnGetRNNTempSpaceSizes, call->handle, it->network, CUDNN_FWD_MODE_TRAINING, it->x_layout,
               &it->workspace, &it->reserve);
    return GA_NO_ERROR;
}

int cudnn_rnn_sizes(gpucontext *ctx, const dnn_sequences *s, size_t *weights, size_t *reserve)
{
    struct dnn_call call;
    struct rnn it;
    int code = cudnn_begin(&call, ctx);
    if (code == GA_NO_ERROR)
        code = prepare(&call, s, &it);
    if (code == GA_NO_ERROR) {
        *weights = it.weights;
        *reserve = it.reserve;
    }
    return cudnn_end(&call, code, "a recurrent network", 0, NULL);
}

static int find_part(const struct dnn_call *call, const struct rnn *it, const dnn_tensor *weights, int layer, int id,
                     cudnnTensorDescriptor_t matrix_layout, cudnnTensorDescriptor_t bias_layout, size_t *matrix,
                     size_t *bias)
{
    void *matrix_at = NULL, *bias_at = NULL;
    CUDNN_CALL(cudnnGetRNNWeightParams, call->handle, it->network, layer, it->weights, cudnn_at(weights), id,
               matrix_layout, &matrix_at, bias_layout, &bias_at);
    *matrix = matrix_at ? (size_t)((char *)matrix_at - (char *)cudnn_at(weights)) : SIZE_MAX;
    *bias = bias_at ? (size_t)((char *)bias_at - (char *)cudnn_at(weights)) : SIZE_MAX;
    return GA_NO_ERROR;
}

static int part(const struct dnn_call *call, const dnn_sequences *s, const dnn_tensor *weights, int layer, int id,
                size_t *matrix, size_t *bias)
{
    struct rnn it;
    cudnnTensorDescriptor_t layouts[2] = {NULL, NULL}; /* which the library sets */
    int code = prepare(call, s, &it);
    for (int k = 0; k < 2 && code == GA_NO_ERROR; ++k) {
        cudnnStatus_t status = cudnn.cudnnCreateTensorDescriptor(&layouts[k]);
        if (status != CUDNN_STATUS_SUCCESS)
            code = cudnn_failed(status, "cudnnCreateTensorDescriptor");
    }
    if (code == GA_NO_ERROR)
        code = find_part(call, &it, weights, layer, id, layouts[0], layouts[1], matrix, bias);
    for (int k = 0; k < 2; ++k)
        if (layouts[k])
            cudnn.cudnnDestroyTensorDescriptor(layouts[k]);
    return code;
}

int cudnn_rnn_part(gpucontext *ctx, const dnn_sequences *s, const dnn_tensor *weights, int layer, int id,
                   size_t *matrix, size_t *bias)
{
    struct dnn_call call;
    int code = cudnn_begin(&call, ctx);
    if (code == GA_NO_ERROR)
        code = part(&call, s, weights, layer, id, matrix, bias);
    return cudnn_end(&call, code, "a recurrent network", 0, NULL);
}

static void *at(const dnn_tensor *t)
{
    return t ? cudnn_at(t) : NULL;
}

static int forward(const struct dnn_call *call, const dnn_sequences *s, const dnn_run *r)
{
    struct rnn it;
    cudnnTensorDescriptor_t states;
    gpudata *workspace;
    CUDNN_TRY(prepare(call, s, &it));
    CUDNN_TRY(cudnn_layout(call, r->hx, &states));
    CUDNN_TRY(cudnn_workspace(call, it.workspace, &workspace));
    cudnnStatus_t status = cudnn.cudnnRNNForward(call->handle, it.network, CUDNN_FWD_MODE_TRAINING, NULL, it.x_layout,
                                                 at(r->x), it.y_layout, at(r->y), states, at(r->hx), at(r->hy), states,
                                                 at(r->cx), at(r->cy), it.weights, at(r->weights), it.workspace,
                                                 cudnn_memory(workspace), r->reserve->dims[0], at(r->reserve));
    gpudata_release(workspace);
    return status == CUDNN_STATUS_SUCCESS ? GA_NO_ERROR : cudnn_failed(status, "cudnnRNNForward");
}

int cudnn_rnn(gpucontext *ctx, const dnn_sequences *s, const dnn_run *r)
{
    struct dnn_call call;
    int code = cudnn_begin(&call, ctx);
    if (code == GA_NO_ERROR)
        code = forward(&call, s, r);
    return cudnn_end(&call, code, "a recurrent network", 3, (const dnn_tensor *const[]){r->x, r->hx, r->weights});
}

static int backward(const struct dnn_call *call, const dnn_sequences *s, const dnn_run *r, const dnn_run *d)
{
    struct rnn it;
    cudnnTensorDescriptor_t states;
    gpudata *workspace;
    CUDNN_TRY(prepare(call, s, &it));
    CUDNN_TRY(cudnn_layout(call, r->hx, &states));
    CUDNN_TRY(cudnn_workspace(call, it.workspace, &workspace));
    cudnnStatus_t status = cudnn.cudnnRNNBackwardData_v8(
        call->handle, it.network, NULL, it.y_layout, at(r->y), at(d->y), it.x_layout, at(d->x), states, at(r->hx),
        at(d->hy), at(d->hx), states, at(r->cx), at(d->cy), at(d->cx), it.weights, at(r->weights), it.workspace,
        cudnn_memory(workspace), r->reserve->dims[0], at(r->reserve));
    gpudata_release(workspace);
    return status == CUDNN_STATUS_SUCCESS ? GA_NO_ERROR : cudnn_failed(status, "cudnnRNNBackwardData_v8");
}

int cudnn_rnn_gradient(gpucontext *ctx, const dnn_sequences *s, const dnn_run *r, const dnn_run *gradients)
{
    struct dnn_call call;
    int code = cudnn_begin(&call, ctx);
    if (code == GA_NO_ERROR)
        code = backward(&call, s, r, gradients);
    return cudnn_end(&call, code, "the gradient of a recurrent network", 3,
                     (const dnn_tensor *const[]){r->y, r->hx, r->weights});
}

static int backward_weights(const struct dnn_call *call, const dnn_sequences *s, const dnn_run *r, const dnn_run *d)
{
    struct rnn it;
    cudnnTensorDescriptor_t states;
    gpudata *workspace;
    CUDNN_TRY(prepare(call, s, &it));
    CUDNN_TRY(cudnn_layout(call, r->hx, &states));
    CUDNN_TRY(cudnn_workspace(call, it.workspace, &workspace));
    cudnnStatus_t status =
        cudnn.cudnnRNNBackwardWeights_v8(call->handle, it.network, CUDNN_WGRAD_MODE_ADD, NULL, it.x_layout, at(r->x),
                                         states, at(r->hx), it.y_layout, at(r->y), it.weights, at(d->weights),
                                         it.workspace, cudnn_memory(workspace), r->reserve->dims[0], at(r->reserve));
    gpudata_release(workspace);
    return status == CUDNN_STATUS_SUCCESS ? GA_NO_ERROR : cudnn_failed(status, "cudnnRNNBackwardWeights_v8");
}

int cudnn_rnn_weights_gradient(gpucontext *ctx, const dnn_sequences *s, const dnn_run *r, const dnn_run *gradients)
{
    struct dnn_call call;
    int code = cudnn_begin(&call, ctx);
    if (code == GA_NO_ERROR)
        code = backward_weights(&call, s, r, gradients);
    return cudnn_end(&call, code, "the gradient of a recurrent network", 3,
                     (const dnn_tensor *const[]){r->x, r->hx, gradients->weights});
}
