/* Softmax of images and its gradient by cuDNN (device/cudnn_softmax.c). */
#include "gpu_dnn.h"

/* algorithm, mode: constants CUDNN_SOFTMAX_... */
NATIVE_FUNCTION(softmax, typecode, algorithm, mode)
NATIVE_FUNCTION(softmax_gradient, typecode, algorithm, mode)

/* Input: x (n, c, h, w). Output: its softmax. */
static int tng_softmax(int nin, int nout, PyObject **in, PyObject **out, const struct softmax_params *params)
{
    (void)nin, (void)nout;
    PyGpuArrayObject *given = gpu_input(in[0], (int)params->typecode, 4), *x, *y;
    if (given == NULL)
        return -1;
    gpu_not_shared(out, &given->ga);
    if ((y = gpu_alloc(out, given->context, 4, given->ga.dimensions, given->ga.typecode)) == NULL)
        return -1;
    if (gpu_size(&y->ga) == 0)
        return 0;
    if ((x = dnn_readable(given)) == NULL)
        return -1;
    dnn_tensor from = dnn_tensor_of(x), to = dnn_tensor_of(y);
    int code = cudnn_softmax(x->context->ctx, (int)params->algorithm, (int)params->mode, &from, &to);
    Py_DECREF(x);
    return dnn_result(y, code);
}

/* Inputs: the gradient dy with respect to the result, and the result. Output: the gradient with respect to the input. */
static int tng_softmax_gradient(int nin, int nout, PyObject **in, PyObject **out,
                                const struct softmax_gradient_params *params)
{
    (void)nin, (void)nout;
    PyGpuArrayObject *given = gpu_input(in[0], (int)params->typecode, 4), *result, *dx, *dy = NULL, *y = NULL;
    int status = -1;
    if (given == NULL || (result = gpu_input(in[1], (int)params->typecode, 4)) == NULL
        || !gpu_same_context(given, result))
        return -1;
    if (memcmp(given->ga.dimensions, result->ga.dimensions, 4 * sizeof *given->ga.dimensions) != 0) {
        PyErr_SetString(PyExc_ValueError, "dy and sm must have the same shape");
        return -1;
    }
    gpu_not_shared(out, &given->ga);
    gpu_not_shared(out, &result->ga);
    if ((dx = gpu_alloc(out, given->context, 4, given->ga.dimensions, given->ga.typecode)) == NULL)
        return -1;
    if (gpu_size(&dx->ga) == 0)
        return 0;
    if ((dy = dnn_readable(given)) != NULL && (y = dnn_readable(result)) != NULL) {
        dnn_tensor tensors[] = {dnn_tensor_of(y), dnn_tensor_of(dy), dnn_tensor_of(dx)};
        status = dnn_result(dx, cudnn_softmax_gradient(dx->context->ctx, (int)params->algorithm, (int)params->mode,
                                                       &tensors[0], &tensors[1], &tensors[2]));
    }
    Py_XDECREF(dy);
    Py_XDECREF(y);
    return status;
}

static const NativeEntry entries[] = {NATIVE_ENTRY(softmax), NATIVE_ENTRY(softmax_gradient), {0}};
NATIVE_MODULE(cudnn_softmax, entries)
