/* Batch normalization and its gradient by cuDNN (device/cudnn_normalize.c). */
#include "gpu_dnn.h"

#include <math.h>

#include "cudnn_library.h"
#include "networks/statistics.h"

/* mode: a constant CUDNN_BATCHNORM_...
 * in_place: bits 1, 2 and 4: whether the normalized x, the running mean and the running variance overwrite inputs */
NATIVE_FUNCTION(train, typecode, mode, in_place)
NATIVE_FUNCTION(infer, typecode, mode, in_place)
NATIVE_FUNCTION(train_gradient, typecode, mode)

enum { MOST = 7 };

/* The inputs of a computation, as arrays in C order */
typedef struct {
    const char *who;
    int typecode, statistic, count;
    size_t shape[5]; /* of a statistic */
    char averaged[5];
    PyGpuArrayObject *at[MOST];
    dnn_tensor tensor[MOST];
} Arrays;

/* Add an input with the shape of the first one, or, if `name` is not NULL, a statistic. */
static int add(Arrays *a, PyObject *value, const char *name)
{
    int k = a->count;
    PyGpuArrayObject *given =
        gpu_input(value, name == NULL ? a->typecode : a->statistic, k == 0 ? -1 : (int)a->at[0]->ga.nd);
    if (given == NULL || (k > 0 && !gpu_same_context(a->at[0], given)))
        return -1;
    if (name != NULL
        && check_statistic((int)given->ga.nd, (const npy_intp *)a->at[0]->ga.dimensions, a->averaged, value, a->who,
                           name)
               < 0)
        return -1;
    if ((a->at[k] = dnn_packed(given)) == NULL)
        return -1;
    a->tensor[k] = dnn_tensor_of(a->at[k]);
    ++a->count;
    return 0;
}

static int begin(Arrays *a, const char *who, PyObject *x, int typecode, int mode)
{
    *a = (Arrays){.who = who, .typecode = typecode, .statistic = typecode == GA_DOUBLE ? GA_DOUBLE : GA_FLOAT};
    if (add(a, x, NULL) < 0)
        return -1;
    for (unsigned d = 0; d < a->at[0]->ga.nd; ++d) {
        a->averaged[d] = d == 0 || (d > 1 && mode == CUDNN_BATCHNORM_SPATIAL);
        a->shape[d] = a->averaged[d] ? 1 : a->at[0]->ga.dimensions[d];
    }
    return 0;
}

static void end(Arrays *a)
{
    for (int k = 0; k < a->count; ++k)
        Py_DECREF(a->at[k]);
}

/* Return the number of elements that a statistic describes. */
static size_t averaged_elements(const Arrays *a)
{
    size_t n = 1;
    for (unsigned d = 0; d < a->at[0]->ga.nd; ++d)
        n *= a->averaged[d] ? a->at[0]->ga.dimensions[d] : 1;
    return n;
}

/* Make an output that has the shape of x, or of a statistic. */
static PyGpuArrayObject *make(const Arrays *a, PyObject **out, int is_statistic)
{
    for (int k = 0; k < a->count; ++k)
        gpu_not_shared(out, &a->at[k]->ga);
    return gpu_alloc(out, a->at[0]->context, a->at[0]->ga.nd, is_statistic ? a->shape : a->at[0]->ga.dimensions,
                     is_statistic ? a->statistic : a->typecode);
}

/* Make an output that overwrites the input k, if `in_place`, and if cuDNN can write into its memory. Otherwise the
 * output is a new array. */
static PyGpuArrayObject *overwrite(const Arrays *a, PyObject **out, PyObject *input, int k, int in_place)
{
    if (!in_place || (PyObject *)a->at[k] != input || !GpuArray_ISWRITEABLE(&a->at[k]->ga))
        return make(a, out, k > 0);
    Py_XSETREF(*out, Py_NewRef(input));
    return (PyGpuArrayObject *)*out;
}

static int number(PyObject *value, double *result)
{
    *result = PyFloat_AsDouble(value);
    return *result == -1 && PyErr_Occurred() ? -1 : 0;
}

/* Inputs: x (4 or 5 axes), scale, bias, epsilon and the weight of running averages, on the host, and, optionally, the
 * running mean and variance. Outputs: the normalized x, mean, (variance + epsilon)^(-1/2), and new running averages. */
static int tng_train(int nin, int nout, PyObject **in, PyObject **out, const struct train_params *params)
{
    static const char *const names[] = {NULL, "scale", "bias", NULL, NULL, "running_mean", "running_var"};
    int running = nin > 5, status = -1;
    double epsilon, factor;
    PyGpuArrayObject *made[5];
    dnn_tensor tensors[5];
    Arrays a;
    if (begin(&a, "GpuDnnBatchNorm", in[0], (int)params->typecode, (int)params->mode) < 0)
        return -1;
    for (int k = 1; k < nin; ++k)
        if (names[k] != NULL && add(&a, in[k], names[k]) < 0)
            goto done;
    if (number(in[3], &epsilon) < 0 || number(in[4], &factor) < 0)
        goto done;
    for (int j = 1; j < nout; ++j) {
        /* Arrays: x, scale, bias, running mean, running variance */
        made[j] =
            j < 3 ? make(&a, &out[j], 1) : overwrite(&a, &out[j], in[j + 2], j, (int)params->in_place >> (j - 2) & 1);
        if (made[j] == NULL
            || (j >= 3 && made[j] != a.at[j] && gpu_assign(made[j], &a.at[j]->ga, "batch normalization") < 0))
            goto done;
        tensors[j] = dnn_tensor_of(made[j]);
    }
    if ((made[0] = overwrite(&a, &out[0], in[0], 0, (int)params->in_place & 1)) == NULL)
        goto done;
    tensors[0] = dnn_tensor_of(made[0]);
    size_t m = averaged_elements(&a), n = gpu_size(&made[0]->ga);
    status = 0;
    if (n > 0) {
        dnn_normalization it = {.mode = (int)params->mode,
                                .epsilon = epsilon,
                                .x = &a.tensor[0],
                                .y = &tensors[0],
                                .scale = &a.tensor[1],
                                .bias = &a.tensor[2],
                                .mean = &tensors[1],
                                .spread = &tensors[2]};
        status = dnn_result(made[0], cudnn_normalize(a.at[0]->context->ctx, &it, factor, running ? &tensors[3] : NULL,
                                                     running ? &tensors[4] : NULL));
    }
    /* The mean of zero elements, and the unbiased variance of one element, are NaN. */
    for (int j = 1; status == 0 && j < nout; ++j)
        if (m == 0 || (m == 1 && j == 4))
            status = dnn_fill(made[j], NAN);
done:
    end(&a);
    return status;
}

/* Inputs: x (4 or 5 axes), scale, bias, mean, variance, and epsilon, on the host. Output: the normalized x. */
static int tng_infer(int nin, int nout, PyObject **in, PyObject **out, const struct infer_params *params)
{
    (void)nin, (void)nout;
    static const char *const names[] = {NULL, "scale", "bias", "estimated_mean", "estimated_variance"};
    int status = -1;
    double epsilon;
    PyGpuArrayObject *y;
    Arrays a;
    if (begin(&a, "GpuDnnBatchNormInference", in[0], (int)params->typecode, (int)params->mode) < 0)
        return -1;
    for (int k = 1; k < 5; ++k)
        if (add(&a, in[k], names[k]) < 0)
            goto done;
    if (number(in[5], &epsilon) < 0 || (y = overwrite(&a, &out[0], in[0], 0, (int)params->in_place)) == NULL)
        goto done;
    status = 0;
    if (gpu_size(&y->ga) > 0) {
        dnn_tensor to = dnn_tensor_of(y);
        dnn_normalization it = {.mode = (int)params->mode,
                                .epsilon = epsilon,
                                .x = &a.tensor[0],
                                .y = &to,
                                .scale = &a.tensor[1],
                                .bias = &a.tensor[2],
                                .mean = &a.tensor[3],
                                .spread = &a.tensor[4]};
        status = dnn_result(y, cudnn_normalize_by(y->context->ctx, &it));
    }
done:
    end(&a);
    return status;
}

/* Inputs: x, the gradient dy of the normalized x, scale, mean, (variance + epsilon)^(-1/2), and epsilon, on the host.
 * Outputs: the gradients with respect to x, scale and bias. */
static int tng_train_gradient(int nin, int nout, PyObject **in, PyObject **out,
                              const struct train_gradient_params *params)
{
    (void)nin;
    static const char *const names[] = {NULL, NULL, "scale", "x_mean", "x_invstd"};
    int status = -1;
    double epsilon;
    PyGpuArrayObject *made[3];
    dnn_tensor tensors[3];
    Arrays a;
    if (begin(&a, "GpuDnnBatchNormGrad", in[0], (int)params->typecode, (int)params->mode) < 0)
        return -1;
    for (int k = 1; k < 5; ++k)
        if (add(&a, in[k], names[k]) < 0)
            goto done;
    const GpuArray *x = &a.at[0]->ga;
    if (memcmp(x->dimensions, a.at[1]->ga.dimensions, x->nd * sizeof *x->dimensions) != 0) {
        PyErr_Format(PyExc_ValueError, "%s: Input dimension mis-match. x and dy do not have the same shape", a.who);
        goto done;
    }
    if (number(in[5], &epsilon) < 0)
        goto done;
    for (int j = 0; j < nout; ++j) {
        if ((made[j] = make(&a, &out[j], j > 0)) == NULL)
            goto done;
        tensors[j] = dnn_tensor_of(made[j]);
    }
    status = 0;
    if (gpu_size(x) > 0) {
        dnn_normalization it = {.mode = (int)params->mode,
                                .epsilon = epsilon,
                                .x = &a.tensor[0],
                                .scale = &a.tensor[2],
                                .mean = &a.tensor[3],
                                .spread = &a.tensor[4]};
        status = dnn_result(made[0], cudnn_normalize_gradient(a.at[0]->context->ctx, &it, &a.tensor[1], &tensors[0],
                                                              &tensors[1], &tensors[2]));
    }
    else /* sums of zero elements */
        for (int j = 1; status == 0 && j < nout; ++j)
            status = dnn_fill(made[j], 0);
done:
    end(&a);
    return status;
}

static const NativeEntry entries[] = {NATIVE_ENTRY(train), NATIVE_ENTRY(infer), NATIVE_ENTRY(train_gradient), {0}};
NATIVE_MODULE(cudnn_normalize, entries)
