/* Dropout and its gradient by cuDNN (device/cudnn_dropout.c). */
#include "gpu_dnn.h"

/* context: the address of the context */
NATIVE_FUNCTION(descriptor, context)
NATIVE_FUNCTION(dropout, typecode, in_place)
NATIVE_FUNCTION(dropout_gradient, typecode)

/* The context of the capsule is the array with the states, to which the descriptor refers. */
static void free_descriptor(PyObject *capsule)
{
    PyObject *states = (PyObject *)PyCapsule_GetContext(capsule);
    cudnn_dropout_free(PyCapsule_GetPointer(capsule, NULL));
    Py_XDECREF(states);
}

/* Return a device array of bytes. */
static PyGpuArrayObject *new_bytes(PyObject **out, PyGpuContextObject *context, size_t size)
{
    return gpu_alloc(out, context, 1, &size, GA_UBYTE);
}

/* Inputs: the rate and the seed, on the host. Outputs: a capsule with a cudnnDropoutDescriptor_t, and a copy of the
 * states of the generator that it refers to. */
static int tng_descriptor(int nin, int nout, PyObject **in, PyObject **out, const struct descriptor_params *params)
{
    (void)nin, (void)nout;
    PyGpuContextObject *context = (PyGpuContextObject *)(intptr_t)params->context;
    PyObject *states = NULL, *copy;
    double rate = PyFloat_AsDouble(in[0]);
    int64_t seed;
    size_t size;
    void *made;
    if ((rate == -1 && PyErr_Occurred()) || native_as_int64(in[1], &seed) < 0)
        return -1;
    if (!(rate >= 0 && rate < 1)) {
        PyErr_SetString(PyExc_ValueError, "dropout: the probability must be at least 0 and less than 1");
        return -1;
    }
    int code = cudnn_dropout_states(context->ctx, &size);
    if (code != GA_NO_ERROR)
        return gpu_failed(context->ctx, code, "cuDNN");
    if (new_bytes(&states, context, size) == NULL)
        return -1;
    dnn_tensor memory = dnn_tensor_of((PyGpuArrayObject *)states);
    code = cudnn_dropout_make(context->ctx, rate, (uint64_t)seed, &memory, &made);
    if (code != GA_NO_ERROR) {
        Py_DECREF(states);
        return gpu_failed(context->ctx, code, "cuDNN");
    }
    PyObject *capsule = PyCapsule_New(made, NULL, free_descriptor);
    if (capsule == NULL) {
        cudnn_dropout_free(made);
        Py_DECREF(states);
        return -1;
    }
    PyCapsule_SetContext(capsule, states);
    native_set(&out[0], capsule);
    if ((copy = (PyObject *)pygpu_copy((PyGpuArrayObject *)states, GA_C_ORDER)) == NULL)
        return -1;
    native_set(&out[1], copy);
    return 0;
}

/* All elements as one axis */
static dnn_tensor flat(const PyGpuArrayObject *a)
{
    return (dnn_tensor){.data = a->ga.data,
                        .offset = a->ga.offset,
                        .typecode = a->ga.typecode,
                        .nd = 1,
                        .dims = {gpu_size(&a->ga)},
                        .strides = {1}};
}

/* Inputs: x, the descriptor, and the states. Outputs: x with some zeros, the new states, and the choices. */
static int tng_dropout(int nin, int nout, PyObject **in, PyObject **out, const struct dropout_params *params)
{
    (void)nin, (void)nout;
    PyGpuArrayObject *given = gpu_input(in[0], (int)params->typecode, -1), *old = gpu_input(in[2], GA_UBYTE, 1), *x, *y;
    void *descriptor = PyCapsule_GetPointer(in[1], NULL);
    size_t size = 0;
    int status = -1, code = GA_NO_ERROR;
    if (given == NULL || descriptor == NULL || old == NULL || !gpu_same_context(given, old))
        return -1;
    for (int j = 0; j < 3; ++j) {
        gpu_not_shared(&out[j], &given->ga);
        if (j != 1)
            gpu_not_shared(&out[j], &old->ga);
    }
    if (params->in_place && GpuArray_IS_C_CONTIGUOUS(&old->ga) && GpuArray_ISWRITEABLE(&old->ga))
        native_set(&out[1], Py_NewRef((PyObject *)old));
    else {
        PyObject *copy = (PyObject *)pygpu_copy(old, GA_C_ORDER);
        if (copy == NULL)
            return -1;
        native_set(&out[1], copy);
    }
    if ((y = gpu_alloc(&out[0], given->context, given->ga.nd, given->ga.dimensions, given->ga.typecode)) == NULL
        || (x = dnn_packed(given)) == NULL)
        return -1;
    dnn_tensor from = flat(x), to = flat(y), states = dnn_tensor_of((PyGpuArrayObject *)out[1]);
    if (from.dims[0] > 0)
        code = cudnn_dropout_size(x->context->ctx, &from, &size);
    if (code == GA_NO_ERROR && new_bytes(&out[2], given->context, size) != NULL) {
        dnn_tensor choices = dnn_tensor_of((PyGpuArrayObject *)out[2]);
        if (from.dims[0] > 0)
            code = cudnn_dropout(x->context->ctx, descriptor, &states, &from, &to, &choices);
        status = dnn_result(y, code);
    }
    else if (code != GA_NO_ERROR)
        dnn_result(y, code);
    Py_DECREF(x);
    return status;
}

/* Inputs: the gradient dy, the descriptor, and the choices. Output: the gradient with respect to x. */
static int tng_dropout_gradient(int nin, int nout, PyObject **in, PyObject **out,
                                const struct dropout_gradient_params *params)
{
    (void)nin, (void)nout;
    PyGpuArrayObject *given = gpu_input(in[0], (int)params->typecode, -1), *kept = gpu_input(in[2], GA_UBYTE, 1);
    PyGpuArrayObject *dy, *dx;
    void *descriptor = PyCapsule_GetPointer(in[1], NULL);
    size_t size = 0;
    if (given == NULL || descriptor == NULL || kept == NULL || !gpu_same_context(given, kept))
        return -1;
    gpu_not_shared(out, &given->ga);
    gpu_not_shared(out, &kept->ga);
    if ((dx = gpu_alloc(out, given->context, given->ga.nd, given->ga.dimensions, given->ga.typecode)) == NULL)
        return -1;
    if (gpu_size(&dx->ga) == 0)
        return 0;
    if ((dy = dnn_packed(given)) == NULL)
        return -1;
    dnn_tensor from = flat(dy), to = flat(dx), choices = dnn_tensor_of(kept);
    int code = cudnn_dropout_size(dy->context->ctx, &from, &size);
    if (code == GA_NO_ERROR && size != choices.dims[0]) {
        PyErr_SetString(PyExc_ValueError, "dropout: the gradient does not have the shape of the output");
        Py_DECREF(dy);
        return -1;
    }
    if (code == GA_NO_ERROR)
        code = cudnn_dropout_gradient(dy->context->ctx, descriptor, &from, &to, &choices);
    Py_DECREF(dy);
    return dnn_result(dx, code);
}

static const NativeEntry entries[] = {
    NATIVE_ENTRY(descriptor), NATIVE_ENTRY(dropout), NATIVE_ENTRY(dropout_gradient), {0}};
NATIVE_MODULE(cudnn_dropout, entries)
