/* Recurrent networks by cuDNN (device/cudnn_rnn.c). */
#include "gpu_dnn.h"

#include "cudnn_library.h"

/* context: the address of the context; tf32: whether float32 factors may be rounded */
NATIVE_FUNCTION(descriptor, context, tf32)
NATIVE_FUNCTION(weights_size, context)
NATIVE_FUNCTION(parts, typecode)
NATIVE_FUNCTION(forward, typecode)
/* of_h, of_c: whether the gradients of hy and of cy are inputs; in_place: whether the last input is overwritten */
NATIVE_FUNCTION(gradient, typecode, of_h, of_c, in_place)
NATIVE_FUNCTION(weights_gradient, typecode)

/* The context of the capsule is the capsule of the dropout descriptor. */
static void free_descriptor(PyObject *capsule)
{
    PyObject *dropout = (PyObject *)PyCapsule_GetContext(capsule);
    cudnn_rnn_free(PyCapsule_GetPointer(capsule, NULL));
    Py_XDECREF(dropout);
}

static int number(PyObject *value, int *result)
{
    int64_t wide;
    if (native_as_int64(value, &wide) < 0)
        return -1;
    if (wide < 0 || wide > INT32_MAX) {
        PyErr_Format(PyExc_ValueError, "a recurrent network: the number %lld is negative or too large",
                     (long long)wide);
        return -1;
    }
    *result = (int)wide;
    return 0;
}

/* Inputs: numbers of hidden elements and of layers, the capsule of a dropout descriptor, input mode, direction and mode
 * (constants CUDNN_...), and typecode. Output: a capsule with a cudnnRNNDescriptor_t. */
static int tng_descriptor(int nin, int nout, PyObject **in, PyObject **out, const struct descriptor_params *params)
{
    (void)nin, (void)nout;
    gpucontext *ctx = ((PyGpuContextObject *)(intptr_t)params->context)->ctx;
    void *dropout = PyCapsule_GetPointer(in[2], NULL), *made;
    dnn_network net;
    int direction;
    if (dropout == NULL || number(in[0], &net.hidden) < 0 || number(in[1], &net.layers) < 0
        || number(in[3], &net.input_mode) < 0 || number(in[4], &direction) < 0 || number(in[5], &net.mode) < 0
        || number(in[6], &net.typecode) < 0)
        return -1;
    if (net.hidden == 0 || net.layers == 0) {
        PyErr_Format(PyExc_ValueError, "a recurrent network needs hidden elements and layers; got %d and %d",
                     net.hidden, net.layers);
        return -1;
    }
    net.directions = direction == CUDNN_BIDIRECTIONAL ? 2 : 1;
    int code = cudnn_rnn_make(ctx, &net, dropout, (int)params->tf32, &made);
    if (code != GA_NO_ERROR)
        return gpu_failed(ctx, code, "cuDNN");
    PyObject *capsule = PyCapsule_New(made, NULL, free_descriptor);
    if (capsule == NULL) {
        cudnn_rnn_free(made);
        return -1;
    }
    PyCapsule_SetContext(capsule, Py_NewRef(in[2]));
    native_set(&out[0], capsule);
    return 0;
}

/* Read the shape (examples, elements) of the blocks that a network reads. */
static int read_size(PyObject *value, void *descriptor, dnn_sequences *s)
{
    int64_t sizes[2] = {0, 0};
    PyArrayObject *v =
        (PyArrayObject *)PyArray_FROMANY(value, NPY_INT64, 1, 1, NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST);
    if (v == NULL)
        return -1;
    int right = PyArray_DIM(v, 0) == 2;
    if (right)
        memcpy(sizes, PyArray_DATA(v), sizeof sizes);
    Py_DECREF(v);
    if (!right || sizes[0] < 1 || sizes[1] < 1) {
        PyErr_SetString(PyExc_ValueError, "the input size must be a pair of positive numbers: examples and elements");
        return -1;
    }
    *s = (dnn_sequences){.descriptor = descriptor, .steps = 1, .batch = (size_t)sizes[0], .input = (size_t)sizes[1]};
    return 0;
}

/* Raise ValueError if a network cannot read vectors of this length. */
static int check_input(const dnn_network *net, size_t input)
{
    if (net->input_mode != CUDNN_SKIP_INPUT || input == (size_t)net->hidden)
        return 0;
    PyErr_Format(PyExc_ValueError,
                 "a recurrent network with the input mode 'skip' reads vectors of its hidden size, %d; got %zu",
                 net->hidden, input);
    return -1;
}

/* Inputs: the descriptor, the input size, and a typecode, which is not read. Output: the number of bytes of the
 * weights. */
static int tng_weights_size(int nin, int nout, PyObject **in, PyObject **out, const struct weights_size_params *params)
{
    (void)nin, (void)nout;
    gpucontext *ctx = ((PyGpuContextObject *)(intptr_t)params->context)->ctx;
    void *descriptor = PyCapsule_GetPointer(in[0], NULL);
    PyArrayObject *result;
    dnn_network net;
    dnn_sequences s;
    size_t size, reserve;
    if (descriptor == NULL || read_size(in[1], descriptor, &s) < 0)
        return -1;
    int code = cudnn_rnn_network(ctx, descriptor, &net);
    if (code == GA_NO_ERROR && check_input(&net, s.input) < 0)
        return -1;
    if (code == GA_NO_ERROR)
        code = cudnn_rnn_sizes(ctx, &s, &size, &reserve);
    if (code != GA_NO_ERROR)
        return gpu_failed(ctx, code, "cuDNN");
    if ((result = native_alloc(&out[0], 0, NULL, NPY_INT64)) == NULL)
        return -1;
    *(int64_t *)PyArray_DATA(result) = (int64_t)size;
    return 0;
}

/* Store the numbers of bytes of the weights and of the reserve memory. Check the lengths of the weights and of the
 * vectors. */
static int sizes_of(const PyGpuArrayObject *w, const dnn_sequences *s, dnn_network *net, size_t *weights,
                    size_t *reserve)
{
    size_t item = gpuarray_get_elsize(w->ga.typecode);
    int code = cudnn_rnn_network(w->context->ctx, s->descriptor, net);
    if (code == GA_NO_ERROR && net->typecode != w->ga.typecode) {
        PyErr_SetString(PyExc_TypeError, "the recurrent network was made for another dtype");
        return -1;
    }
    if (code == GA_NO_ERROR && check_input(net, s->input) < 0)
        return -1;
    if (code == GA_NO_ERROR)
        code = cudnn_rnn_sizes(w->context->ctx, s, weights, reserve);
    if (code != GA_NO_ERROR)
        return dnn_result(w, code);
    if (gpu_size(&w->ga) * item == *weights)
        return 0;
    PyErr_Format(PyExc_ValueError, "the recurrent network needs %zu elements in w; got %zu", *weights / item,
                 gpu_size(&w->ga));
    return -1;
}

/* Return a view of a part of the weights that begins after `place` bytes; SIZE_MAX: an empty view. */
static PyObject *view_of(PyGpuArrayObject *w, size_t place, unsigned nd, const size_t *dims)
{
    static const size_t none[2] = {0, 0};
    ssize_t size = (ssize_t)gpuarray_get_elsize(w->ga.typecode), strides[2] = {size, size * (ssize_t)dims[0]};
    PyObject *base = w->base == NULL || w->base == Py_None ? (PyObject *)w : w->base;
    int missing = place == SIZE_MAX;
    return (PyObject *)pygpu_fromgpudata(w->ga.data, w->ga.offset + (missing ? 0 : place), w->ga.typecode, nd,
                                         missing ? none : dims, strides, w->context, GpuArray_ISWRITEABLE(&w->ga), base,
                                         Py_None);
}

/* Inputs: the weights, the descriptor, the layer (which counts directions), the input size, and a typecode, which is
 * not read. Outputs: for each matrix, a view of it, in which a row belongs to an element that is read, and a view of
 * its bias. */
static int tng_parts(int nin, int nout, PyObject **in, PyObject **out, const struct parts_params *params)
{
    (void)nin;
    PyGpuArrayObject *w = gpu_input(in[0], (int)params->typecode, 1);
    void *descriptor = PyCapsule_GetPointer(in[1], NULL);
    dnn_sequences s;
    dnn_network net;
    size_t weights, reserve;
    int layer, gates = nout / 4;
    if (w == NULL || descriptor == NULL || number(in[2], &layer) < 0 || read_size(in[3], descriptor, &s) < 0
        || sizes_of(w, &s, &net, &weights, &reserve) < 0)
        return -1;
    if (layer >= net.layers * net.directions) {
        PyErr_Format(PyExc_IndexError,
                     "the recurrent network has %d layers (two for each layer of two directions); got %d",
                     net.layers * net.directions, layer);
        return -1;
    }
    if (!GpuArray_IS_C_CONTIGUOUS(&w->ga)) {
        PyErr_SetString(PyExc_ValueError, "the weights must be adjacent in memory");
        return -1;
    }
    dnn_tensor tensor = dnn_tensor_of(w);
    for (int id = 0; id < 2 * gates; ++id) {
        size_t matrix, bias, hidden = (size_t)net.hidden;
        size_t width = id >= gates ? hidden : layer < net.directions ? s.input : hidden * (size_t)net.directions;
        int code = cudnn_rnn_part(w->context->ctx, &s, &tensor, layer, id, &matrix, &bias);
        if (code != GA_NO_ERROR)
            return dnn_result(w, code);
        PyObject *views[] = {view_of(w, matrix, 2, (size_t[]){width, hidden}), view_of(w, bias, 1, &hidden)};
        for (int k = 0; k < 2; ++k) {
            if (views[k] == NULL) {
                Py_XDECREF(views[1 - k]);
                return -1;
            }
        }
        for (int k = 0; k < 2; ++k)
            native_set(&out[2 * id + k], views[k]);
    }
    return 0;
}

/* ---- computations ---- */

enum { MOST = 9 };

/* The inputs of a computation, in C order */
typedef struct {
    PyGpuArrayObject *at[MOST];
    dnn_tensor tensor[MOST];
    int count;
} Arrays;

/* Add an input; return its tensor, or NULL with an exception set. */
static const dnn_tensor *add(Arrays *a, PyObject *value, int typecode, int nd)
{
    PyGpuArrayObject *given = gpu_input(value, typecode, nd);
    if (given == NULL || (a->count > 0 && !gpu_same_context(a->at[0], given))
        || (a->at[a->count] = dnn_packed(given)) == NULL)
        return NULL;
    a->tensor[a->count] = dnn_tensor_of(a->at[a->count]);
    return &a->tensor[a->count++];
}

static void end(Arrays *a)
{
    while (a->count > 0)
        Py_DECREF(a->at[--a->count]);
}

static PyGpuArrayObject *make(const Arrays *a, PyObject **out, unsigned nd, const size_t *dims, int typecode)
{
    for (int k = 0; k < a->count; ++k)
        gpu_not_shared(out, &a->at[k]->ga);
    return gpu_alloc(out, a->at[0]->context, nd, dims, typecode);
}

/* Raise ValueError if an array does not have this shape. */
static int check_shape(const dnn_tensor *t, const char *name, const size_t *expected)
{
    char found[32 * GA_MAX_DIMS], needed[32 * GA_MAX_DIMS];
    if (memcmp(t->dims, expected, t->nd * sizeof *expected) == 0)
        return 0;
    PyErr_Format(PyExc_ValueError, "a recurrent network: %s has shape %s, expected %s", name,
                 gpu_shape_text(found, sizeof found, t->nd, t->dims),
                 gpu_shape_text(needed, sizeof needed, t->nd, expected));
    return -1;
}

/* Shapes that follow from the network, and from the numbers of steps, examples and input elements */
typedef struct {
    size_t x[3], y[3], state[3];
} Shapes;

static Shapes shapes_of(const dnn_network *net, const dnn_sequences *s)
{
    size_t hidden = (size_t)net->hidden, directions = (size_t)net->directions;
    return (Shapes){.x = {s->steps, s->batch, s->input},
                    .y = {s->steps, s->batch, directions * hidden},
                    .state = {(size_t)net->layers * directions, s->batch, hidden}};
}

/* Inputs: the descriptor, weights, x (steps, examples, elements), hx (layers * directions, examples, hidden elements),
 * and, for an LSTM, cx. Outputs: memory for gradients, y, hy, and, for an LSTM, cy. */
static int tng_forward(int nin, int nout, PyObject **in, PyObject **out, const struct forward_params *params)
{
    static const char *const names[] = {NULL, "w", "x", "hx", "cx"};
    void *descriptor = PyCapsule_GetPointer(in[0], NULL);
    const dnn_tensor *given[5] = {NULL};
    dnn_tensor made[4];
    PyGpuArrayObject *results[4];
    dnn_network net;
    size_t weights, reserve = 0;
    Arrays a = {.count = 0};
    int status = -1;
    if (descriptor == NULL)
        return -1;
    for (int k = 1; k < nin; ++k)
        if ((given[k] = add(&a, in[k], (int)params->typecode, k == 1 ? 1 : 3)) == NULL)
            goto done;
    dnn_sequences s = {descriptor, given[2]->dims[0], given[2]->dims[1], given[2]->dims[2]};
    int empty = s.steps == 0 || s.batch == 0;
    if (s.input == 0) {
        PyErr_SetString(PyExc_ValueError, "a recurrent network: the vectors in x have no elements");
        goto done;
    }
    dnn_sequences checked = s;
    checked.steps += s.steps == 0;
    checked.batch += s.batch == 0;
    if (sizes_of(a.at[0], &checked, &net, &weights, &reserve) < 0)
        goto done;
    Shapes shapes = shapes_of(&net, &s);
    for (int k = 3; k < nin; ++k)
        if (check_shape(given[k], names[k], shapes.state) < 0)
            goto done;
    if (empty)
        reserve = 0;
    for (int j = 0; j < nout; ++j) {
        results[j] = j == 0 ? make(&a, &out[j], 1, &reserve, GA_UBYTE)
                            : make(&a, &out[j], 3, j == 1 ? shapes.y : shapes.state, (int)params->typecode);
        if (results[j] == NULL)
            goto done;
        made[j] = dnn_tensor_of(results[j]);
    }
    status = 0;
    if (!empty) {
        dnn_run run = {.weights = given[1],
                       .x = given[2],
                       .hx = given[3],
                       .cx = given[4],
                       .reserve = &made[0],
                       .y = &made[1],
                       .hy = &made[2],
                       .cy = nout > 3 ? &made[3] : NULL};
        status = dnn_result(a.at[0], cudnn_rnn(a.at[0]->context->ctx, &s, &run));
    }
    else /* without steps, the states do not change */
        for (int j = 2; status == 0 && j < nout && s.batch > 0; ++j)
            status = gpu_assign(results[j], &a.at[j]->ga, "a recurrent network");
done:
    end(&a);
    return status;
}

/* Inputs: the descriptor, x, y, the gradients of y, and of hy and cy if `of_h` and `of_c`, weights, hx, cx for an LSTM,
 * and the memory that the forward computation has made. Outputs: new memory for weights_gradient, and the gradients
 * with respect to x, hx and cx. */
static int tng_gradient(int nin, int nout, PyObject **in, PyObject **out, const struct gradient_params *params)
{
    (void)nin;
    int lstm = nout > 3, typecode = (int)params->typecode, k = 4, status = -1;
    void *descriptor = PyCapsule_GetPointer(in[0], NULL);
    const dnn_tensor *x, *y, *dy, *dhy = NULL, *dcy = NULL, *w, *hx, *cx = NULL;
    PyGpuArrayObject *kept, *results[4] = {NULL};
    dnn_tensor made[4];
    dnn_network net;
    size_t weights, reserve;
    Arrays a = {.count = 0};
    if (descriptor == NULL || (x = add(&a, in[1], typecode, 3)) == NULL || (y = add(&a, in[2], typecode, 3)) == NULL
        || (dy = add(&a, in[3], typecode, 3)) == NULL || (params->of_h && (dhy = add(&a, in[k++], typecode, 3)) == NULL)
        || (params->of_c && (dcy = add(&a, in[k++], typecode, 3)) == NULL)
        || (w = add(&a, in[k++], typecode, 1)) == NULL || (hx = add(&a, in[k++], typecode, 3)) == NULL
        || (lstm && (cx = add(&a, in[k++], typecode, 3)) == NULL) || (kept = gpu_input(in[k], GA_UBYTE, 1)) == NULL)
        goto done;
    dnn_sequences s = {descriptor, x->dims[0], x->dims[1], x->dims[2]}, checked = s;
    int empty = s.steps == 0 || s.batch == 0;
    checked.steps += s.steps == 0;
    checked.batch += s.batch == 0;
    if (sizes_of(a.at[w - a.tensor], &checked, &net, &weights, &reserve) < 0)
        goto done;
    Shapes shapes = shapes_of(&net, &s);
    if (check_shape(y, "y", shapes.y) < 0 || check_shape(dy, "dy", shapes.y) < 0
        || check_shape(hx, "hx", shapes.state) < 0 || (dhy && check_shape(dhy, "dhy", shapes.state) < 0)
        || (dcy && check_shape(dcy, "dcy", shapes.state) < 0) || (cx && check_shape(cx, "cx", shapes.state) < 0))
        goto done;
    PyObject *memory = params->in_place && GpuArray_ISWRITEABLE(&kept->ga) ? Py_NewRef((PyObject *)kept)
                                                                           : (PyObject *)pygpu_copy(kept, GA_C_ORDER);
    if (memory == NULL)
        goto done;
    native_set(&out[0], memory);
    made[0] = dnn_tensor_of((PyGpuArrayObject *)memory);
    for (int j = 1; j < nout; ++j) {
        if ((results[j] = make(&a, &out[j], 3, j == 1 ? shapes.x : shapes.state, typecode)) == NULL)
            goto done;
        made[j] = dnn_tensor_of(results[j]);
    }
    status = 0;
    if (!empty) {
        dnn_run run = {.weights = w, .x = x, .y = y, .hx = hx, .cx = cx, .reserve = &made[0]};
        dnn_run gradients = {
            .y = dy, .hy = dhy, .cy = dcy, .x = &made[1], .hx = &made[2], .cx = lstm ? &made[3] : NULL};
        status = dnn_result(results[1], cudnn_rnn_gradient(results[1]->context->ctx, &s, &run, &gradients));
    }
    else /* without steps, the states do not change */
        for (int j = 2; status == 0 && j < nout && s.batch > 0; ++j) {
            const dnn_tensor *of = j == 2 ? dhy : dcy;
            status = of ? gpu_assign(results[j], &a.at[of - a.tensor]->ga, "a recurrent network")
                        : dnn_result(results[j], GpuArray_memset(&results[j]->ga, 0));
        }
done:
    end(&a);
    return status;
}

/* Inputs: the descriptor, x, hx, y, the memory that `gradient` has made, and the weights. Output: the gradient with
 * respect to the weights. */
static int tng_weights_gradient(int nin, int nout, PyObject **in, PyObject **out,
                                const struct weights_gradient_params *params)
{
    (void)nin, (void)nout;
    int typecode = (int)params->typecode, status = -1;
    void *descriptor = PyCapsule_GetPointer(in[0], NULL);
    const dnn_tensor *x, *hx, *y, *w;
    PyGpuArrayObject *kept, *dw;
    dnn_network net;
    size_t weights, reserve;
    Arrays a = {.count = 0};
    if (descriptor == NULL || (x = add(&a, in[1], typecode, 3)) == NULL || (hx = add(&a, in[2], typecode, 3)) == NULL
        || (y = add(&a, in[3], typecode, 3)) == NULL || (kept = gpu_input(in[4], GA_UBYTE, 1)) == NULL
        || (w = add(&a, in[5], typecode, 1)) == NULL)
        goto done;
    dnn_sequences s = {descriptor, x->dims[0], x->dims[1], x->dims[2]}, checked = s;
    checked.steps += s.steps == 0;
    checked.batch += s.batch == 0;
    if (sizes_of(a.at[w - a.tensor], &checked, &net, &weights, &reserve) < 0)
        goto done;
    Shapes shapes = shapes_of(&net, &s);
    if (check_shape(y, "y", shapes.y) < 0 || check_shape(hx, "hx", shapes.state) < 0
        || (dw = make(&a, &out[0], 1, w->dims, typecode)) == NULL)
        goto done;
    status = dnn_result(dw, GpuArray_memset(&dw->ga, 0));
    if (status == 0 && s.steps > 0 && s.batch > 0) {
        dnn_tensor memory = dnn_tensor_of(kept), to = dnn_tensor_of(dw);
        dnn_run run = {.x = x, .hx = hx, .y = y, .reserve = &memory}, gradients = {.weights = &to};
        status = dnn_result(dw, cudnn_rnn_weights_gradient(dw->context->ctx, &s, &run, &gradients));
    }
done:
    end(&a);
    return status;
}

static const NativeEntry entries[] = {NATIVE_ENTRY(descriptor),
                                      NATIVE_ENTRY(weights_size),
                                      NATIVE_ENTRY(parts),
                                      NATIVE_ENTRY(forward),
                                      NATIVE_ENTRY(gradient),
                                      NATIVE_ENTRY(weights_gradient),
                                      {0}};
NATIVE_MODULE(cudnn_rnn, entries)
