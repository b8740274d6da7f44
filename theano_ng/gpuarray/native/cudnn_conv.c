/* Convolutions and their gradients by cuDNN (device/cudnn_conv.c), and convolutions with a bias and an activation
 * (device/cudnn_backend.c). */
#include "gpu_dnn.h"
#include "gpu_elemwise.h"

#include <limits.h>
#include <stddef.h>

/* Parameters of a node.
 * typecode: type of the arrays
 * kind: FORWARD, WEIGHTS or INPUTS
 * in_place: whether the result overwrites the third input
 * algorithm: a constant CUDNN_CONVOLUTION_..., DNN_GUESS or DNN_TIME
 * once: whether the first choice of an algorithm is kept for all shapes
 * deterministic: whether only algorithms that always give the same bits may be used
 * tf32: whether float32 numbers may be rounded to TF32
 * most: the largest number of elements of an array in one call; 0: that of the library
 * scratch: one word, see `kept` in cudnn.h */
NATIVE_FUNCTION(convolve, typecode, kind, in_place, algorithm, once, deterministic, tf32, most, scratch)

/* The parameters of `convolve` for a convolution, and
 * activation: DNN_IDENTITY, DNN_RELU, DNN_TANH or DNN_SIGMOID
 * any: whether engines of the library may compute that are not fast
 * ending: a kernel of elementwise nodes of rank 3, which adds the bias and applies the activation */
NATIVE_FUNCTION(convolve_elemwise, typecode, kind, in_place, algorithm, once, deterministic, tf32, most, scratch,
                activation, any, ending)
_Static_assert(offsetof(struct convolve_elemwise_params, scratch) == offsetof(struct convolve_params, scratch),
               "the members before `activation` are those of `convolve_params`");

/* The parameters of conv_shapes.h. The numbers come from the descriptor. */
struct correlate_params {
    int64_t kind, n_dims, pads[6], stride[3], dilation[3], groups, unshared;
};

#include "convolution/conv_shapes.h"

static int64_t convolve_scratch(int nin, int nout, const int64_t *params)
{
    (void)nin, (void)nout, (void)params;
    return 1;
}

static int64_t convolve_elemwise_scratch(int nin, int nout, const int64_t *params)
{
    return convolve_scratch(nin, nout, params);
}

/* Read a descriptor, as `GpuDnnConvDesc` makes it. */
static int read_descriptor(PyObject *value, struct correlate_params *params, dnn_convolution *convolution)
{
    enum { LENGTH = 13 };
    PyArrayObject *array = (PyArrayObject *)value;
    if (!PyArray_Check(value) || PyArray_TYPE(array) != NPY_INT64 || PyArray_NDIM(array) != 1
        || PyArray_DIM(array, 0) != LENGTH || !PyArray_ISCARRAY_RO(array)) {
        PyErr_SetString(PyExc_TypeError, "desc must be the descriptor that GpuDnnConvDesc makes");
        return -1;
    }
    const int64_t *given = PyArray_DATA(array);
    int64_t axes = given[0], compute = given[2], groups = given[3];
    int valid = (axes == 2 || axes == 3) && groups > 0 && groups <= INT_MAX
                && (compute == GA_HALF || compute == GA_FLOAT || compute == GA_DOUBLE);
    *params = (struct correlate_params){.kind = params->kind, .n_dims = axes, .groups = groups};
    *convolution =
        (dnn_convolution){.axes = (int)axes, .flip = given[1] != 0, .compute = (int)compute, .groups = (int)groups};
    for (int i = 0; i < 3 && valid; ++i) {
        params->pads[2 * i] = params->pads[2 * i + 1] = given[4 + i];
        params->stride[i] = given[7 + i];
        params->dilation[i] = given[10 + i];
        valid = given[4 + i] >= FULL && params->stride[i] > 0 && params->stride[i] <= INT_MAX && params->dilation[i] > 0
                && params->dilation[i] <= INT_MAX;
        convolution->stride[i] = (int)params->stride[i];
        convolution->dilation[i] = (int)params->dilation[i];
    }
    if (!valid)
        PyErr_SetString(PyExc_ValueError, "desc is no valid descriptor of a convolution");
    return valid ? 0 : -1;
}

/* Check the shapes, as the Ops on the host do, and complete the convolution. */
static int check_shapes(PyGpuArrayObject *const *given, const struct correlate_params *params,
                        dnn_convolution *convolution)
{
    struct shape shapes[3], expected;
    struct geometry g;
    PyObject *lengths[3] = {NULL};
    int n = convolution->axes, count = params->kind == FORWARD ? 0 : n, status = 0;
    for (int k = 0; k < 3; ++k) {
        if ((int)given[k]->ga.nd != n + 2) {
            PyErr_Format(PyExc_ValueError, "the descriptor is for arrays with %d axes, but an array has %u axes", n + 2,
                         given[k]->ga.nd);
            return -1;
        }
        shapes[k].n = n + 2;
        for (int i = 0; i < n + 2; ++i)
            shapes[k].dims[i] = (int64_t)given[k]->ga.dimensions[i];
    }
    for (int i = 0; i < count; ++i)
        if ((lengths[i] = PyLong_FromLongLong(shapes[2].dims[2 + i])) == NULL)
            status = -1;
    if (status == 0)
        status = measure(shapes, count, lengths, params, &g, &expected);
    for (int i = 0; i < count; ++i)
        Py_XDECREF(lengths[i]);
    if (status < 0)
        return -1;
    if (memcmp(shapes[2].dims, expected.dims, (size_t)(n + 2) * sizeof *expected.dims) != 0) {
        PyErr_Format(PyExc_ValueError, "%s: the output has the shape %s, but the result has the shape %s",
                     n == 2 ? "CorrMM" : "Corr3dMM", TEXT(&shapes[2], " "), TEXT(&expected, " "));
        return -1;
    }
    for (int i = 0; i < n; ++i) {
        int64_t pad = g.pad[3 - n + i];
        if (pad > INT_MAX) {
            PyErr_SetString(PyExc_ValueError, "cuDNN needs padding of less than 2^31 elements");
            return -1;
        }
        convolution->pad[i] = (int)pad;
    }
    return 0;
}

/* Return whether the library can read an array: it is in C order, and aligned for loads of vectors, which the library's
 * kernels may use. */
static int is_plain(const PyGpuArrayObject *a)
{
    enum { ALIGNMENT = 16 };
    return GpuArray_IS_C_CONTIGUOUS(&a->ga) && (a->ga.data->memory + a->ga.offset) % ALIGNMENT == 0;
}

/* Return an owned reference to the array, or to a copy that the library can read. */
static PyGpuArrayObject *plain(PyGpuArrayObject *a)
{
    if (!is_plain(a))
        return pygpu_copy(a, GA_C_ORDER);
    Py_INCREF(a);
    return a;
}

/* Return the array for the result, borrowed from *out. It contains `old` if it is needed. */
static PyGpuArrayObject *result_array(PyObject **out, PyGpuArrayObject *old, PyGpuArrayObject *const *inputs,
                                      int in_place, int needed)
{
    PyGpuArrayObject *result;
    if (in_place && is_plain(old) && GpuArray_ISBEHAVED(&old->ga)) {
        native_set(out, Py_NewRef((PyObject *)old));
        return old;
    }
    gpu_not_shared(out, &inputs[0]->ga);
    gpu_not_shared(out, &inputs[1]->ga);
    gpu_not_shared(out, &old->ga);
    result = gpu_alloc(out, old->context, old->ga.nd, old->ga.dimensions, old->ga.typecode);
    if (result != NULL && needed && gpu_assign(result, &old->ga, "cuDNN") < 0)
        return NULL;
    return result;
}

/* result *= factor, for a sum of no products */
static int scale(PyGpuArrayObject *result, double factor)
{
    if (factor == 1)
        return 0;
    if (factor == 0)
        return dnn_result(result, GpuArray_memset(&result->ga, 0));
    PyObject *number = PyFloat_FromDouble(factor);
    PyObject *scaled = number == NULL ? NULL : PyNumber_InPlaceMultiply((PyObject *)result, number);
    Py_XDECREF(number);
    Py_XDECREF(scaled);
    return scaled == NULL ? -1 : 0;
}

/* Let the package's own kernels compute a convolution that the library cannot compute, for this reason. */
static int by_own_kernels(int kind, PyObject *desc, PyGpuArrayObject *first, PyGpuArrayObject *second, double alpha,
                          double beta, PyGpuArrayObject *result, const char *reason)
{
    PyObject *module = PyImport_ImportModule("theano_ng.gpuarray.dnn.conv");
    PyObject *done = module == NULL ? NULL
                                    : PyObject_CallMethod(module, "by_own_kernels", "iOOOddOs", kind, desc, first,
                                                          second, alpha, beta, result, reason);
    Py_XDECREF(module);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* The arrays of a node, and what the library needs to know */
struct work {
    PyGpuArrayObject *given[3], *result, *first, *second; /* the last two are owned */
    dnn_convolution convolution;
    dnn_choice choice;
};

/* Check the inputs, and find the array for the result. The result contains the third input if beta is not 0. */
static int begin(struct work *w, PyObject **in, PyObject **out, const struct convolve_params *params, double beta)
{
    struct correlate_params shape = {.kind = params->kind};
    *w = (struct work){.choice = {.algorithm = (int)params->algorithm,
                                  .deterministic = params->deterministic != 0,
                                  .kept = params->once ? (int64_t *)(intptr_t)params->scratch : NULL,
                                  .most = (size_t)params->most}};
    for (int k = 0; k < 3; ++k)
        if ((w->given[k] = gpu_input(in[k], (int)params->typecode, -1)) == NULL
            || !gpu_same_context(w->given[0], w->given[k]))
            return -1;
    if (read_descriptor(in[3], &shape, &w->convolution) < 0 || check_shapes(w->given, &shape, &w->convolution) < 0)
        return -1;
    w->convolution.tf32 = params->tf32 != 0;
    w->result = result_array(out, w->given[2], w->given, params->in_place != 0, beta != 0);
    return w->result == NULL ? -1 : 0;
}

/* Find arrays that the library can read. */
static int find_plain(struct work *w)
{
    return (w->first = plain(w->given[0])) == NULL || (w->second = plain(w->given[1])) == NULL ? -1 : 0;
}

static void end(struct work *w)
{
    Py_CLEAR(w->first);
    Py_CLEAR(w->second);
}

/* Return whether there are no products to sum. */
static int is_empty(const struct work *w)
{
    return gpu_size(&w->given[0]->ga) == 0 || gpu_size(&w->given[1]->ga) == 0;
}

static int convolve(struct work *w, int kind, PyObject *desc, double alpha, double beta)
{
    PyGpuArrayObject *result = w->result;
    dnn_tensor first = dnn_tensor_of(w->first), second = dnn_tensor_of(w->second), to = dnn_tensor_of(result);
    gpucontext *ctx = result->context->ctx;
    int code = cudnn_convolve(ctx, kind, &w->convolution, &w->choice, alpha, &first, &second, beta, &to);
    return code == GA_UNSUPPORTED_ERROR
               ? by_own_kernels(kind, desc, w->first, w->second, alpha, beta, result, gpucontext_error(ctx, code))
               : dnn_result(result, code);
}

/* Inputs: images and kernels, images and gradient, or kernels and gradient; the output; the descriptor, alpha and beta, on
 * the host. Output: alpha * convolution + beta * output. */
static int tng_convolve(int nin, int nout, PyObject **in, PyObject **out, const struct convolve_params *params)
{
    (void)nin, (void)nout;
    struct work w;
    double alpha = PyFloat_AsDouble(in[4]), beta = PyFloat_AsDouble(in[5]);
    if (PyErr_Occurred() || begin(&w, in, out, params, beta) < 0)
        return -1;
    if (gpu_size(&w.result->ga) == 0)
        return 0;
    if (is_empty(&w))
        return scale(w.result, beta);
    int status = find_plain(&w) < 0 ? -1 : convolve(&w, (int)params->kind, in[3], alpha, beta);
    end(&w);
    return status;
}

/* ---- a bias and an activation ---- */

/* Compute by one kernel of the library. Return 1 if it has none, or no memory for it. */
static int by_one_kernel(struct work *w, const struct convolve_elemwise_params *params, double alpha,
                         PyGpuArrayObject *bias)
{
    dnn_tensor first = dnn_tensor_of(w->first), second = dnn_tensor_of(w->second), to = dnn_tensor_of(w->result);
    dnn_tensor added = dnn_tensor_of(bias);
    dnn_ending ending = {(int)params->activation, alpha, &added, params->any != 0};
    int code =
        cudnn_convolve_elemwise(w->result->context->ctx, &w->convolution, &w->choice, &ending, &first, &second, &to);
    return code == GA_UNSUPPORTED_ERROR || code == GA_MEMORY_ERROR ? 1 : dnn_result(w->result, code);
}

/* Add the bias to the convolution, and apply the activation. */
static int add_bias(gpukernel *kernel, PyGpuArrayObject *result, PyGpuArrayObject *bias)
{
    enum { RANK = 3 };
    size_t batch = result->ga.dimensions[0], filters = result->ga.dimensions[1];
    size_t lengths[RANK] = {batch, filters, gpu_size(&result->ga) / (batch * filters)};
    ssize_t strides[RANK] = {(ssize_t)(filters * lengths[2]), (ssize_t)lengths[2], 1}, of_bias[RANK] = {0, 1, 0};
    Arguments args = {0};
    for (int d = 0; d < RANK; ++d)
        args_push(&args, &lengths[d]);
    for (int k = 0; k < 3; ++k) {
        const GpuArray *a = k == 1 ? &bias->ga : &result->ga;
        args_array(&args, a, &a->offset);
        for (int d = 0; d < RANK; ++d)
            args_push(&args, k == 1 ? &of_bias[d] : &strides[d]);
    }
    return gpu_run_rows(kernel, RANK, lengths, args.at, "GpuDnnConvElemwise");
}

/* Check the shape of the bias. */
static int check_bias(const PyGpuArrayObject *result, const PyGpuArrayObject *bias)
{
    for (unsigned d = 0; d < result->ga.nd; ++d) {
        size_t length = d < bias->ga.nd ? bias->ga.dimensions[d] : 0, expected = d == 1 ? result->ga.dimensions[1] : 1;
        if (length != expected) {
            PyErr_Format(PyExc_ValueError,
                         "Input dimension mis-match. (the bias has the length %zu along axis %u, but the convolution "
                         "needs the length %zu)",
                         length, d, expected);
            return -1;
        }
    }
    return 0;
}

/* Inputs: images, kernels, the output; the descriptor and alpha, on the host; the bias. Output: activation(alpha *
 * convolution + bias). */
static int tng_convolve_elemwise(int nin, int nout, PyObject **in, PyObject **out,
                                 const struct convolve_elemwise_params *params)
{
    (void)nin, (void)nout;
    struct work w;
    int status = -1;
    double alpha = PyFloat_AsDouble(in[4]);
    PyGpuArrayObject *bias = PyErr_Occurred() ? NULL : gpu_input(in[5], (int)params->typecode, -1);
    if (bias == NULL)
        return -1;
    gpu_not_shared(out, &bias->ga);
    if (begin(&w, in, out, (const struct convolve_params *)params, 0) < 0 || !gpu_same_context(w.result, bias)
        || check_bias(w.result, bias) < 0)
        return -1;
    if (gpu_size(&w.result->ga) == 0)
        return 0;
    if ((bias = plain(bias)) == NULL)
        return -1;
    if (is_empty(&w))
        status = scale(w.result, 0) < 0 ? -1 : 1;
    else if (find_plain(&w) == 0) {
        status = by_one_kernel(&w, params, alpha, bias);
        if (status == 1 && convolve(&w, (int)params->kind, in[3], alpha, 0) < 0)
            status = -1;
    }
    if (status == 1)
        status = add_bias((gpukernel *)(intptr_t)params->ending, w.result, bias);
    Py_DECREF(bias);
    end(&w);
    return status;
}

static const NativeEntry entries[] = {
    NATIVE_ENTRY_WITH_SCRATCH(convolve), NATIVE_ENTRY_WITH_SCRATCH(convolve_elemwise), {0}};
NATIVE_MODULE(cudnn_conv, entries)
