/* Recurrent networks of the fake cuDNN.
 *
 * The reserve memory begins with its state (`FORWARD`, `BACKWARD`). Then, for each layer, direction, step and example,
 * it has the numbers of a cell, as doubles: see `struct cell`. The gradient with respect to the weights needs what the
 * gradient with respect to the data has stored; with anything else it is NaN. */
#include <math.h>

#include "fake_cudnn.h"

enum { FORWARD = 1, BACKWARD, MOST_GATES = 4, GAP = 3 };

struct cudnnRNNStruct {
    int kind, mode, directions, input_mode, type;
    int32_t input, hidden, layers;
    int algorithm, bias, precision, math;
    uint32_t flags;
    cudnnDropoutDescriptor_t dropout;
};

struct cudnnRNNDataStruct {
    int kind, type, steps, batch, vector;
};

struct run {
    struct cudnnRNNStruct net;
    int steps, batch;
    char *weights, *x, *hx, *cx, *y, *hy, *cy, *dy, *dhy, *dcy, *dx, *dhx, *dcx;
    double *reserve;
};

cudnnStatus_t cudnnCreateRNNDescriptor(cudnnRNNDescriptor_t *net)
{
    CALL("cudnnCreateRNNDescriptor");
    *net = fake_made(NETWORK, sizeof **net);
    return 0;
}

cudnnStatus_t cudnnDestroyRNNDescriptor(cudnnRNNDescriptor_t net)
{
    return fake_destroyed(net, NETWORK);
}

cudnnStatus_t cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t net, int algorithm, int mode, int bias, int direction,
                                       int input_mode, int type, int precision, int math, int32_t input, int32_t hidden,
                                       int32_t projection, int32_t layers, cudnnDropoutDescriptor_t dropout,
                                       uint32_t flags)
{
    CALL("cudnnSetRNNDescriptor_v8");
    if (!net || net->kind != NETWORK || algorithm != CUDNN_RNN_ALGO_STANDARD || mode < 0 || mode > CUDNN_GRU
        || bias != CUDNN_RNN_DOUBLE_BIAS || direction < 0 || direction > 1 || input_mode < 0 || input_mode > 1
        || type < 0 || type > CUDNN_DATA_HALF || (precision == CUDNN_DATA_DOUBLE) != (type == CUDNN_DATA_DOUBLE)
        || input < 1 || hidden < 1 || projection != hidden || layers < 1 || !dropout)
        return CUDNN_STATUS_BAD_PARAM;
    *net = (struct cudnnRNNStruct){NETWORK, mode,      direction + 1, input_mode, type, input, hidden,
                                   layers,  algorithm, bias,          precision,  math, flags, dropout};
    return 0;
}

cudnnStatus_t cudnnGetRNNDescriptor_v8(cudnnRNNDescriptor_t net, int *algorithm, int *mode, int *bias, int *direction,
                                       int *input_mode, int *type, int *precision, int *math, int32_t *input,
                                       int32_t *hidden, int32_t *projection, int32_t *layers,
                                       cudnnDropoutDescriptor_t *dropout, uint32_t *flags)
{
    CALL("cudnnGetRNNDescriptor_v8");
    if (!net || net->kind != NETWORK || !net->hidden)
        return CUDNN_STATUS_BAD_PARAM;
    *algorithm = net->algorithm;
    *mode = net->mode;
    *bias = net->bias;
    *direction = net->directions - 1;
    *input_mode = net->input_mode;
    *type = net->type;
    *precision = net->precision;
    *math = net->math;
    *input = net->input;
    *hidden = *projection = net->hidden;
    *layers = net->layers;
    *dropout = net->dropout;
    *flags = net->flags;
    return 0;
}

cudnnStatus_t cudnnCreateRNNDataDescriptor(cudnnRNNDataDescriptor_t *data)
{
    CALL("cudnnCreateRNNDataDescriptor");
    *data = fake_made(SEQUENCES, sizeof **data);
    return 0;
}

cudnnStatus_t cudnnDestroyRNNDataDescriptor(cudnnRNNDataDescriptor_t data)
{
    return fake_destroyed(data, SEQUENCES);
}

/* All sequences must be complete. */
cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t data, int type, int layout, int steps, int batch,
                                        int vector, const int lengths[], void *padding)
{
    CALL("cudnnSetRNNDataDescriptor");
    if (!data || data->kind != SEQUENCES || layout != CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED || padding || steps < 1
        || batch < 1 || vector < 1)
        return CUDNN_STATUS_BAD_PARAM;
    for (int i = 0; i < batch; ++i)
        if (lengths[i] != steps)
            return CUDNN_STATUS_BAD_PARAM;
    *data = (struct cudnnRNNDataStruct){SEQUENCES, type, steps, batch, vector};
    return 0;
}

/* ---- weights: all matrices, then all biases, with unused elements behind each ---- */

static int gates_of(const struct cudnnRNNStruct *net)
{
    return net->mode == CUDNN_LSTM ? 4 : net->mode == CUDNN_GRU ? 3 : 1;
}

/* The number of elements that a layer reads. `layer` counts directions. */
static int width_of(const struct cudnnRNNStruct *net, int layer)
{
    return layer < net->directions ? net->input : net->hidden * net->directions;
}

static int skips(const struct cudnnRNNStruct *net, int layer)
{
    return net->input_mode == CUDNN_SKIP_INPUT && layer < net->directions;
}

/* Return the first element of a matrix or a bias; -1: there is none. For layer -1: the number of elements. */
static int64_t place_of(const struct cudnnRNNStruct *net, int layer, int id, int is_bias)
{
    int64_t place = 0;
    int gates = gates_of(net);
    for (int biases = 0; biases < 2; ++biases)
        for (int l = 0; l < net->layers * net->directions; ++l)
            for (int i = 0; i < 2 * gates; ++i) {
                int missing = !biases && i < gates && skips(net, l);
                if (l == layer && i == id && biases == is_bias)
                    return missing ? -1 : place;
                if (!missing)
                    place += GAP + (int64_t)net->hidden * (biases ? 1 : i < gates ? width_of(net, l) : net->hidden);
            }
    return place;
}

static int is_network(cudnnRNNDescriptor_t net)
{
    return !net || net->kind != NETWORK || !net->hidden || !(net->flags & CUDNN_RNN_PADDED_IO_ENABLED)
                   || (net->input_mode == CUDNN_SKIP_INPUT && net->input != net->hidden)
               ? CUDNN_STATUS_BAD_PARAM
               : 0;
}

static size_t weights_size(cudnnRNNDescriptor_t net)
{
    return (size_t)place_of(net, -1, 0, 0) * size_of_type(net->type);
}

cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t handle, cudnnRNNDescriptor_t net, size_t *size)
{
    CALL("cudnnGetRNNWeightSpaceSize");
    CHECKED(is_handle(handle));
    CHECKED(is_network(net));
    *size = weights_size(net);
    return 0;
}

cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t handle, cudnnRNNDescriptor_t net, int32_t layer, size_t size,
                                      const void *weights, int32_t id, cudnnTensorDescriptor_t matrix_layout,
                                      void **matrix, cudnnTensorDescriptor_t bias_layout, void **bias)
{
    CALL("cudnnGetRNNWeightParams");
    CHECKED(is_handle(handle));
    CHECKED(is_network(net));
    if (layer < 0 || layer >= net->layers * net->directions || id < 0 || id >= 2 * gates_of(net)
        || size != weights_size(net) || matrix_layout->kind != TENSOR || bias_layout->kind != TENSOR)
        return CUDNN_STATUS_BAD_PARAM;
    int64_t place = place_of(net, layer, id, 0);
    *matrix = place < 0 ? NULL : (char *)weights + place * (int64_t)size_of_type(net->type);
    *bias = (char *)weights + place_of(net, layer, id, 1) * (int64_t)size_of_type(net->type);
    return 0;
}

static char *weight_at(const struct run *r, int layer, int id, int is_bias, int element)
{
    return r->weights + (place_of(&r->net, layer, id, is_bias) + element) * (int64_t)size_of_type(r->net.type);
}

static double weight(const struct run *r, int layer, int id, int is_bias, int element)
{
    return number_at(weight_at(r, layer, id, is_bias, element), r->net.type);
}

static void add_to_weight(const struct run *r, int layer, int id, int is_bias, int element, double value)
{
    blend(weight_at(r, layer, id, is_bias, element), r->net.type, 1, 1, value);
}

/* ---- the reserve memory ---- */

/* Arrays of `hidden` elements each. gate: activations; from_state: what the last gate gets from the state; by_input and
 * by_state: gradients with respect to what the gates get from the input, and from the state; above: the gradient with
 * respect to h that comes from the next layer. */
struct cell {
    double *gate, *from_state, *c, *h, *by_input, *by_state, *above;
};

enum { ARRAYS = 3 * MOST_GATES + 4 };

static size_t reserve_size(const struct cudnnRNNStruct *net, int steps, int batch)
{
    return sizeof(double)
           * (1
              + (size_t)net->layers * (size_t)net->directions * (size_t)steps * (size_t)batch * ARRAYS
                    * (size_t)net->hidden);
}

static struct cell cell_of(const struct run *r, int layer, int step, int example)
{
    int H = r->net.hidden;
    double *at = r->reserve + 1 + (((int64_t)layer * r->steps + step) * r->batch + example) * ARRAYS * H;
    return (struct cell){at,
                         at + MOST_GATES * H,
                         at + (MOST_GATES + 1) * H,
                         at + (MOST_GATES + 2) * H,
                         at + (MOST_GATES + 3) * H,
                         at + (2 * MOST_GATES + 3) * H,
                         at + (3 * MOST_GATES + 3) * H};
}

cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t handle, cudnnRNNDescriptor_t net, int mode,
                                        cudnnRNNDataDescriptor_t data, size_t *workspace, size_t *reserve)
{
    CALL("cudnnGetRNNTempSpaceSizes");
    CHECKED(is_handle(handle));
    CHECKED(is_network(net));
    if (mode != CUDNN_FWD_MODE_TRAINING || data->kind != SEQUENCES || data->type != net->type
        || data->vector != net->input)
        return CUDNN_STATUS_BAD_PARAM;
    *workspace = fake_dnn.workspace;
    *reserve = reserve_size(net, data->steps, data->batch);
    return 0;
}

/* ---- elements of arrays in C order ---- */

static char *element(const struct run *r, char *memory, int64_t index)
{
    return memory + index * (int64_t)size_of_type(r->net.type);
}

static double get(const struct run *r, char *memory, int64_t index)
{
    return memory ? number_at(element(r, memory, index), r->net.type) : 0;
}

static void put(const struct run *r, char *memory, int64_t index, double value)
{
    if (memory)
        set_number(element(r, memory, index), r->net.type, value);
}

static int64_t state_index(const struct run *r, int layer, int example, int j)
{
    return ((int64_t)layer * r->batch + example) * r->net.hidden + j;
}

static int is_backward(const struct run *r, int layer)
{
    return layer % r->net.directions;
}

/* Return the element k of what a layer reads. */
static double input_of(const struct run *r, int layer, int step, int example, int k)
{
    int H = r->net.hidden;
    if (layer < r->net.directions)
        return get(r, r->x, ((int64_t)step * r->batch + example) * r->net.input + k);
    int below = (layer / r->net.directions - 1) * r->net.directions + k / H;
    return cell_of(r, below, step, example).h[k % H];
}

/* Return the step before a step in the direction of a layer; it is outside the sequence for the first step. */
static int before(const struct run *r, int layer, int step)
{
    return is_backward(r, layer) ? step + 1 : step - 1;
}

static int is_inside(const struct run *r, int step)
{
    return step >= 0 && step < r->steps;
}

static double h_before(const struct run *r, int layer, int step, int example, int j)
{
    int previous = before(r, layer, step);
    return is_inside(r, previous) ? cell_of(r, layer, previous, example).h[j]
                                  : get(r, r->hx, state_index(r, layer, example, j));
}

static double c_before(const struct run *r, int layer, int step, int example, int j)
{
    int previous = before(r, layer, step);
    return is_inside(r, previous) ? cell_of(r, layer, previous, example).c[j]
                                  : get(r, r->cx, state_index(r, layer, example, j));
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* ---- forward ---- */

static void step_forward(const struct run *r, int layer, int step, int example)
{
    int H = r->net.hidden, G = gates_of(&r->net), width = width_of(&r->net, layer);
    struct cell cell = cell_of(r, layer, step, example);
    for (int j = 0; j < H; ++j) {
        double from_input[MOST_GATES], from_state[MOST_GATES], *gate = cell.gate;
        for (int g = 0; g < G; ++g) {
            from_input[g] = weight(r, layer, g, 1, j);
            from_state[g] = weight(r, layer, G + g, 1, j);
            if (skips(&r->net, layer))
                from_input[g] += input_of(r, layer, step, example, j);
            else
                for (int k = 0; k < width; ++k)
                    from_input[g] += weight(r, layer, g, 0, j * width + k) * input_of(r, layer, step, example, k);
            for (int k = 0; k < H; ++k)
                from_state[g] += weight(r, layer, G + g, 0, j * H + k) * h_before(r, layer, step, example, k);
        }
        double sum = from_input[0] + from_state[0], h = h_before(r, layer, step, example, j);
        switch (r->net.mode) {
        case CUDNN_RNN_RELU: gate[j] = cell.h[j] = sum > 0 ? sum : 0; break;
        case CUDNN_RNN_TANH: gate[j] = cell.h[j] = tanh(sum); break;
        case CUDNN_LSTM: /* input, forget, new memory, output */
            for (int g = 0; g < G; ++g)
                gate[g * H + j] = g == 2 ? tanh(from_input[g] + from_state[g]) : sigmoid(from_input[g] + from_state[g]);
            cell.c[j] = gate[H + j] * c_before(r, layer, step, example, j) + gate[j] * gate[2 * H + j];
            cell.h[j] = gate[3 * H + j] * tanh(cell.c[j]);
            break;
        default: /* GRU: reset, update, new memory */
            gate[j] = sigmoid(sum);
            gate[H + j] = sigmoid(from_input[1] + from_state[1]);
            gate[2 * H + j] = tanh(from_input[2] + gate[j] * from_state[2]);
            cell.from_state[j] = from_state[2];
            cell.h[j] = (1 - gate[H + j]) * gate[2 * H + j] + gate[H + j] * h;
        }
    }
}

static void run_forward(void *arguments)
{
    struct run *r = arguments;
    int H = r->net.hidden, D = r->net.directions, layers = r->net.layers * D;
    for (int layer = 0; layer < layers; ++layer)
        for (int k = 0; k < r->steps; ++k)
            for (int n = 0; n < r->batch; ++n)
                step_forward(r, layer, is_backward(r, layer) ? r->steps - 1 - k : k, n);
    for (int layer = 0; layer < layers; ++layer)
        for (int n = 0; n < r->batch; ++n)
            for (int j = 0; j < H; ++j) {
                int last = is_backward(r, layer) ? 0 : r->steps - 1;
                put(r, r->hy, state_index(r, layer, n, j), cell_of(r, layer, last, n).h[j]);
                put(r, r->cy, state_index(r, layer, n, j), cell_of(r, layer, last, n).c[j]);
                for (int t = 0; t < r->steps && layer >= layers - D; ++t)
                    put(r, r->y, (((int64_t)t * r->batch + n) * D + layer % D) * H + j, cell_of(r, layer, t, n).h[j]);
            }
    r->reserve[0] = FORWARD;
}

/* ---- gradient with respect to the data ---- */

/* Compute by_input and by_state of a cell from the gradients of h and c. Replace these by the parts that reach the step
 * before directly. */
static void gates_backward(const struct run *r, int layer, int step, int example, double *dh, double *dc)
{
    int H = r->net.hidden, G = gates_of(&r->net);
    struct cell cell = cell_of(r, layer, step, example);
    for (int j = 0; j < H; ++j) {
        double d[MOST_GATES], *gate = cell.gate, h = h_before(r, layer, step, example, j), direct = 0, reset = 1;
        if (r->net.mode == CUDNN_LSTM) {
            double i = gate[j], f = gate[H + j], n = gate[2 * H + j], o = gate[3 * H + j], t = tanh(cell.c[j]);
            dc[j] += dh[j] * o * (1 - t * t);
            d[0] = dc[j] * n * i * (1 - i);
            d[1] = dc[j] * c_before(r, layer, step, example, j) * f * (1 - f);
            d[2] = dc[j] * i * (1 - n * n);
            d[3] = dh[j] * t * o * (1 - o);
            dc[j] *= f;
        }
        else if (r->net.mode == CUDNN_GRU) {
            double u = gate[H + j], n = gate[2 * H + j];
            reset = gate[j];
            d[2] = dh[j] * (1 - u) * (1 - n * n);
            d[1] = dh[j] * (h - n) * u * (1 - u);
            d[0] = d[2] * cell.from_state[j] * reset * (1 - reset);
            direct = dh[j] * u;
        }
        else
            d[0] = r->net.mode == CUDNN_RNN_TANH ? dh[j] * (1 - gate[j] * gate[j]) : gate[j] > 0 ? dh[j] : 0;
        for (int g = 0; g < G; ++g) {
            cell.by_input[g * H + j] = d[g];
            cell.by_state[g * H + j] = r->net.mode == CUDNN_GRU && g == 2 ? d[g] * reset : d[g];
        }
        dh[j] = direct;
    }
    for (int k = 0; k < H; ++k)
        for (int g = 0; g < G; ++g)
            for (int j = 0; j < H; ++j)
                dh[k] += weight(r, layer, G + g, 0, j * H + k) * cell.by_state[g * H + j];
}

/* Return the gradient with respect to the element k of what a layer reads. */
static double input_gradient(const struct run *r, int layer, int step, int example, int k)
{
    int H = r->net.hidden, G = gates_of(&r->net), width = width_of(&r->net, layer);
    struct cell cell = cell_of(r, layer, step, example);
    double sum = 0;
    for (int g = 0; g < G; ++g) {
        if (skips(&r->net, layer))
            sum += cell.by_input[g * H + k];
        else
            for (int j = 0; j < H; ++j)
                sum += weight(r, layer, g, 0, j * width + k) * cell.by_input[g * H + j];
    }
    return sum;
}

static void layer_backward(const struct run *r, int layer, int example, double *dh, double *dc)
{
    int H = r->net.hidden;
    for (int j = 0; j < H; ++j) {
        dh[j] = get(r, r->dhy, state_index(r, layer, example, j));
        dc[j] = get(r, r->dcy, state_index(r, layer, example, j));
    }
    for (int k = 0; k < r->steps; ++k) {
        int step = is_backward(r, layer) ? k : r->steps - 1 - k;
        for (int j = 0; j < H; ++j)
            dh[j] += cell_of(r, layer, step, example).above[j];
        gates_backward(r, layer, step, example, dh, dc);
    }
    for (int j = 0; j < H; ++j) {
        put(r, r->dhx, state_index(r, layer, example, j), dh[j]);
        put(r, r->dcx, state_index(r, layer, example, j), dc[j]);
    }
}

static void run_backward(void *arguments)
{
    struct run *r = arguments;
    int H = r->net.hidden, D = r->net.directions, layers = r->net.layers * D;
    double *dh = calloc(2 * (size_t)H, sizeof *dh), *dc = dh + H;
    int right = r->reserve[0] == FORWARD;
    for (int layer = layers - D; layer >= 0; layer -= D)
        for (int n = 0; n < r->batch; ++n) {
            for (int t = 0; t < r->steps; ++t)
                for (int k = 0; k < D * H; ++k) {
                    double above = 0;
                    if (layer == layers - D)
                        above = get(r, r->dy, ((int64_t)t * r->batch + n) * D * H + k);
                    else
                        for (int d = 0; d < D; ++d)
                            above += input_gradient(r, layer + D + d, t, n, k);
                    cell_of(r, layer + k / H, t, n).above[k % H] = right ? above : NAN;
                }
            for (int d = 0; d < D; ++d)
                layer_backward(r, layer + d, n, dh, dc);
        }
    for (int t = 0; t < r->steps; ++t)
        for (int n = 0; n < r->batch; ++n)
            for (int k = 0; k < r->net.input; ++k) {
                double sum = 0;
                for (int d = 0; d < D; ++d)
                    sum += input_gradient(r, d, t, n, k);
                put(r, r->dx, ((int64_t)t * r->batch + n) * r->net.input + k, sum);
            }
    r->reserve[0] = BACKWARD;
    free(dh);
}

/* ---- gradient with respect to the weights, which is added to r->weights ---- */

static void run_weights(void *arguments)
{
    struct run *r = arguments;
    int H = r->net.hidden, G = gates_of(&r->net);
    double right = r->reserve[0] == BACKWARD ? 1 : NAN;
    for (int layer = 0; layer < r->net.layers * r->net.directions; ++layer)
        for (int t = 0; t < r->steps; ++t)
            for (int n = 0; n < r->batch; ++n)
                for (int g = 0; g < G; ++g)
                    for (int j = 0; j < H; ++j) {
                        struct cell cell = cell_of(r, layer, t, n);
                        int width = width_of(&r->net, layer);
                        double by_input = right * cell.by_input[g * H + j], by_state = right * cell.by_state[g * H + j];
                        add_to_weight(r, layer, g, 1, j, by_input);
                        add_to_weight(r, layer, G + g, 1, j, by_state);
                        for (int k = 0; k < width && !skips(&r->net, layer); ++k)
                            add_to_weight(r, layer, g, 0, j * width + k, by_input * input_of(r, layer, t, n, k));
                        for (int k = 0; k < H; ++k)
                            add_to_weight(r, layer, G + g, 0, j * H + k, by_state * h_before(r, layer, t, n, k));
                    }
}

/* ---- calls ---- */

/* Check what all calls share. */
static int begin(cudnnHandle_t handle, cudnnRNNDescriptor_t net, cudnnRNNDataDescriptor_t x, cudnnRNNDataDescriptor_t y,
                 cudnnTensorDescriptor_t h, size_t weights_bytes, const void *weights, size_t workspace_size,
                 void *workspace, size_t reserve_bytes, void *reserve)
{
    CHECKED(is_handle(handle));
    CHECKED(is_network(net));
    if (x->kind != SEQUENCES || y->kind != SEQUENCES || x->type != net->type || y->type != net->type
        || x->vector != net->input || y->vector != net->hidden * net->directions || x->steps != y->steps
        || x->batch != y->batch || h->kind != TENSOR || h->type != net->type
        || h->dims[0] != net->layers * net->directions || h->dims[1] != x->batch || h->dims[2] != net->hidden
        || h->strides[2] != 1 || h->strides[1] != net->hidden || weights_bytes != weights_size(net))
        return CUDNN_STATUS_BAD_PARAM;
    CHECKED(is_workspace(weights, weights_bytes, weights_bytes));
    CHECKED(is_workspace(workspace, workspace_size, fake_dnn.workspace));
    return is_workspace(reserve, reserve_bytes, reserve_size(net, x->steps, x->batch));
}

/* `count` elements of device memory; NULL is allowed if `optional`. */
static int is_array(cudnnRNNDescriptor_t net, const void *at, int64_t count, int optional)
{
    return at ? !fake_is_memory(at, (size_t)count * size_of_type(net->type)) : !optional;
}

static int are_arrays(cudnnRNNDescriptor_t net, cudnnRNNDataDescriptor_t x, const void *const *sequences,
                      const void *const *vectors, const void *const *states, int optional)
{
    int64_t places = (int64_t)x->steps * x->batch, wide = (int64_t)net->hidden * net->directions;
    int bad = 0;
    for (; *sequences; ++sequences)
        bad |= is_array(net, *sequences, places * net->input, 0);
    for (; *vectors; ++vectors)
        bad |= is_array(net, *vectors, places * wide, 0);
    for (int i = 0; i < optional; ++i)
        bad |= is_array(net, states[i], wide * net->layers * x->batch, 1);
    return bad ? CUDNN_STATUS_BAD_PARAM : 0;
}

cudnnStatus_t cudnnRNNForward(cudnnHandle_t handle, cudnnRNNDescriptor_t net, int mode, const int32_t *lengths,
                              cudnnRNNDataDescriptor_t x_layout, const void *x, cudnnRNNDataDescriptor_t y_layout,
                              void *y, cudnnTensorDescriptor_t h_layout, const void *hx, void *hy,
                              cudnnTensorDescriptor_t c_layout, const void *cx, void *cy, size_t weights_bytes,
                              const void *weights, size_t workspace_size, void *workspace, size_t reserve_bytes,
                              void *reserve)
{
    CALL("cudnnRNNForward");
    CHECKED(begin(handle, net, x_layout, y_layout, h_layout, weights_bytes, weights, workspace_size, workspace,
                  reserve_bytes, reserve));
    CHECKED(are_arrays(net, x_layout, (const void *[]){x, NULL}, (const void *[]){y, NULL},
                       (const void *[]){hx, hy, cx, cy}, 4));
    if (mode != CUDNN_FWD_MODE_TRAINING || lengths || c_layout != h_layout)
        return CUDNN_STATUS_BAD_PARAM;
    struct run r = {.net = *net,
                    .steps = x_layout->steps,
                    .batch = x_layout->batch,
                    .weights = (char *)weights,
                    .x = (char *)x,
                    .y = y,
                    .hx = (char *)hx,
                    .hy = hy,
                    .cx = (char *)cx,
                    .cy = cy,
                    .reserve = reserve};
    fake_log("cudnnRNNForward %d %zu", net->mode, workspace_size);
    return run_later(handle, run_forward, &r, sizeof r);
}

cudnnStatus_t cudnnRNNBackwardData_v8(cudnnHandle_t handle, cudnnRNNDescriptor_t net, const int32_t *lengths,
                                      cudnnRNNDataDescriptor_t y_layout, const void *y, const void *dy,
                                      cudnnRNNDataDescriptor_t x_layout, void *dx, cudnnTensorDescriptor_t h_layout,
                                      const void *hx, const void *dhy, void *dhx, cudnnTensorDescriptor_t c_layout,
                                      const void *cx, const void *dcy, void *dcx, size_t weights_bytes,
                                      const void *weights, size_t workspace_size, void *workspace, size_t reserve_bytes,
                                      void *reserve)
{
    CALL("cudnnRNNBackwardData_v8");
    CHECKED(begin(handle, net, x_layout, y_layout, h_layout, weights_bytes, weights, workspace_size, workspace,
                  reserve_bytes, reserve));
    CHECKED(are_arrays(net, x_layout, (const void *[]){dx, NULL}, (const void *[]){y, dy, NULL},
                       (const void *[]){hx, dhy, dhx, cx, dcy, dcx}, 6));
    if (lengths || c_layout != h_layout || !dy)
        return CUDNN_STATUS_BAD_PARAM;
    struct run r = {.net = *net,
                    .steps = x_layout->steps,
                    .batch = x_layout->batch,
                    .weights = (char *)weights,
                    .dx = dx,
                    .y = (char *)y,
                    .dy = (char *)dy,
                    .hx = (char *)hx,
                    .dhy = (char *)dhy,
                    .dhx = dhx,
                    .cx = (char *)cx,
                    .dcy = (char *)dcy,
                    .dcx = dcx,
                    .reserve = reserve};
    fake_log("cudnnRNNBackwardData_v8 %d %zu", net->mode, workspace_size);
    return run_later(handle, run_backward, &r, sizeof r);
}

cudnnStatus_t cudnnRNNBackwardWeights_v8(cudnnHandle_t handle, cudnnRNNDescriptor_t net, int add,
                                         const int32_t *lengths, cudnnRNNDataDescriptor_t x_layout, const void *x,
                                         cudnnTensorDescriptor_t h_layout, const void *hx,
                                         cudnnRNNDataDescriptor_t y_layout, const void *y, size_t weights_bytes,
                                         void *dweights, size_t workspace_size, void *workspace, size_t reserve_bytes,
                                         void *reserve)
{
    CALL("cudnnRNNBackwardWeights_v8");
    CHECKED(begin(handle, net, x_layout, y_layout, h_layout, weights_bytes, dweights, workspace_size, workspace,
                  reserve_bytes, reserve));
    CHECKED(are_arrays(net, x_layout, (const void *[]){x, NULL}, (const void *[]){y, NULL}, (const void *[]){hx}, 1));
    if (add != CUDNN_WGRAD_MODE_ADD || lengths)
        return CUDNN_STATUS_NOT_SUPPORTED;
    struct run r = {.net = *net,
                    .steps = x_layout->steps,
                    .batch = x_layout->batch,
                    .weights = dweights,
                    .x = (char *)x,
                    .hx = (char *)hx,
                    .reserve = reserve};
    fake_log("cudnnRNNBackwardWeights_v8 %d %zu", net->mode, workspace_size);
    return run_later(handle, run_weights, &r, sizeof r);
}
