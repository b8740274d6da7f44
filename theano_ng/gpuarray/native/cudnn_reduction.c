/* Reductions by cuDNN (device/cudnn_reduce.c). */
#include "gpu_dnn.h"

#include <math.h>

#include "cudnn_library.h"

/* operation: a constant CUDNN_REDUCE_TENSOR_...
 * accumulate: typecode in which the library computes
 * axes: bits of the reduced axes
 * indices: whether the second output has the indices of the extremes */
NATIVE_FUNCTION(reduction, typecode, operation, accumulate, axes, indices)

static int is_reduced(const struct reduction_params *params, unsigned axis)
{
    return params->axes >> axis & 1;
}

static int has_no_result(const struct reduction_params *params)
{
    return params->operation >= CUDNN_REDUCE_TENSOR_MIN && params->operation <= CUDNN_REDUCE_TENSOR_AMAX;
}

/* Return the result for zero elements: 1 for a product, NaN for a mean, else 0. */
static double result_of_none(const struct reduction_params *params)
{
    return params->operation == CUDNN_REDUCE_TENSOR_MUL ? 1 : params->operation == CUDNN_REDUCE_TENSOR_AVG ? NAN : 0;
}

/* The library refuses reductions that combine no elements. Then the result has the elements of the input, or their
 * absolute values. */
static int copy_elements(PyGpuArrayObject *x, PyGpuArrayObject *y, const struct reduction_params *params)
{
    int absolute = params->operation == CUDNN_REDUCE_TENSOR_AMAX || params->operation == CUDNN_REDUCE_TENSOR_NORM1
                   || params->operation == CUDNN_REDUCE_TENSOR_NORM2;
    PyGpuArrayObject *from =
        absolute ? (PyGpuArrayObject *)PyNumber_Absolute((PyObject *)x) : (PyGpuArrayObject *)Py_NewRef((PyObject *)x);
    PyGpuArrayObject *shaped = from == NULL ? NULL : pygpu_reshape(from, y->ga.nd, y->ga.dimensions, GA_C_ORDER, 0, -1);
    int status = shaped == NULL ? -1 : gpu_assign(y, &shaped->ga, "cuDNN");
    Py_XDECREF((PyObject *)shaped);
    Py_XDECREF((PyObject *)from);
    return status;
}

static int reduce(PyGpuArrayObject *x, PyGpuArrayObject *y, PyGpuArrayObject *places,
                  const struct reduction_params *params)
{
    PyGpuArrayObject *readable = dnn_readable(x);
    if (readable == NULL)
        return -1;
    dnn_tensor from = dnn_tensor_of(readable), to = from;
    ssize_t stride = 1;
    to.data = y->ga.data;
    to.offset = y->ga.offset;
    for (unsigned i = from.nd; i-- > 0;) {
        if (is_reduced(params, i))
            to.dims[i] = 1;
        to.strides[i] = stride;
        stride *= (ssize_t)to.dims[i];
    }
    int code = cudnn_reduce(x->context->ctx, (int)params->operation, (int)params->accumulate, &from, &to,
                            places == NULL ? NULL : places->ga.data);
    Py_DECREF(readable);
    return dnn_result(y, code);
}

/* Input: x. Outputs: the result, which lacks the reduced axes, and, for extremes, their indices (uint32) in C order over
 * the reduced axes. */
static int tng_reduction(int nin, int nout, PyObject **in, PyObject **out, const struct reduction_params *params)
{
    (void)nin;
    PyGpuArrayObject *x = gpu_input(in[0], (int)params->typecode, -1), *y, *places = NULL;
    size_t dims[DNN_MOST_AXES], combined = 1;
    unsigned nd = 0;
    int empty = -1;
    if (x == NULL)
        return -1;
    for (unsigned i = 0; i < x->ga.nd; ++i) {
        if (!is_reduced(params, i))
            dims[nd++] = x->ga.dimensions[i];
        else if ((combined *= x->ga.dimensions[i]) == 0 && empty < 0)
            empty = (int)i;
    }
    for (int k = 0; k < nout; ++k)
        gpu_not_shared(&out[k], &x->ga);
    if ((y = gpu_alloc(&out[0], x->context, nd, dims, x->ga.typecode)) == NULL
        || (params->indices && (places = gpu_alloc(&out[1], x->context, nd, dims, GA_UINT)) == NULL))
        return -1;
    if (gpu_size(&y->ga) == 0)
        return 0;
    if (empty >= 0 && has_no_result(params)) {
        PyErr_Format(PyExc_ValueError,
                     "the input has length 0 in dimension %d, and a maximum or minimum of zero elements has no value",
                     empty);
        return -1;
    }
    if (empty >= 0)
        return dnn_fill(y, result_of_none(params));
    if (combined > 1)
        return reduce(x, y, places, params);
    if (places != NULL && dnn_fill(places, 0) < 0)
        return -1;
    return copy_elements(x, y, params);
}

static const NativeEntry entries[] = {NATIVE_ENTRY(reduction), {0}};
NATIVE_MODULE(cudnn_reduction, entries)
