/* Batch normalization with the statistics of the batch, and its gradient, on a device (kernels/batchnorm.py). */
#include "context.h"
#include "gpu_axes.h"
#include "networks/statistics.h"

/* As in kernels/batchnorm.py: the maximum number of threads in a group, and the number of rows that a thread of a
 * processor computes together if they are adjacent. */
enum { GROUP = 1024, LANES = 32, MAX_ARRAYS = 5 };

/* The rows of an array in C order: the elements that are averaged together. */
typedef struct {
    size_t rows, length;
    Axes kept, averaged;
    int along; /* whether the last axis is averaged */
} Rows;

static void lay_out(int nd, const size_t *dims, const char *averaged, Rows *found)
{
    memset(found, 0, sizeof *found);
    found->rows = found->length = 1;
    found->along = averaged[nd - 1];
    size_t stride = 1;
    /* The axes are merged from last to first, as the kernel merges them: by their kind, whatever their lengths are. */
    for (int d = nd - 1; d >= 0; --d) {
        Axes *to = averaged[d] ? &found->averaged : &found->kept;
        *(averaged[d] ? &found->length : &found->rows) *= dims[d];
        if (d < nd - 1 && averaged[d] == averaged[d + 1])
            to->dim[to->nd - 1] *= dims[d];
        else {
            to->dim[to->nd] = dims[d];
            to->step[0][to->nd++] = (ssize_t)stride;
        }
        stride *= dims[d];
    }
}

static void push_axes(Arguments *args, const Axes *axes)
{
    for (unsigned i = axes->nd; i-- > 0;) {
        args_push(args, &axes->dim[i]);
        args_push(args, &axes->step[0][i]);
    }
}

static size_t power_of_two(size_t n, size_t most)
{
    size_t p = 1;
    while (p < n && p < most)
        p *= 2;
    return p;
}

/* Launch the kernel. `args` begins with the addresses of the number of rows, of the length of a row, and of `across`. */
static int launch(gpukernel *kernel, const Rows *r, uint32_t *across, const device_info *info, void *const *args,
                  const char *who)
{
    size_t groups, group = 1, largest = GROUP, lanes;
    *across = 1;
    if (r->rows == 0)
        return 0;
    if (info->warp > 1) {
        gpukernel_property(kernel, GA_KERNEL_PROP_MAXLSIZE, &largest);
        /* A group of many threads helps if there are few groups, and if each thread has several elements. */
        size_t useful = r->rows < 4 * (size_t)info->processors && r->length >= 4 * GROUP ? GROUP : GROUP / 4;
        largest = largest < useful ? power_of_two(largest + 1, useful) / 2 : useful;
        if (r->along) {
            lanes = power_of_two(r->length, largest);
            *across = (uint32_t)power_of_two(r->rows, largest / lanes);
        }
        else {
            /* 8 adjacent elements fill a memory transaction. More of them reduce the number of groups. */
            *across = (uint32_t)power_of_two(r->rows, 32);
            while (*across > 8 && r->rows / *across < info->processors)
                *across /= 2;
            lanes = power_of_two(r->length, largest / *across);
        }
        group = lanes * *across;
        groups = (r->rows + *across - 1) / *across;
        if (groups > (size_t)info->processors * 32)
            groups = (size_t)info->processors * 32;
    }
    else {
        size_t chunks = r->along ? r->rows : (r->rows + LANES - 1) / LANES;
        groups = r->rows * r->length / 4096 + 1;
        groups = groups > chunks ? chunks : groups;
        groups = groups > info->processors ? info->processors : groups;
    }
    int code = gpukernel_call(kernel, 1, &groups, &group, 0, args);
    return code == GA_NO_ERROR ? 0 : gpu_failed(gpukernel_context(kernel), code, who);
}

/* The description of a computation. */
typedef struct {
    const char *who, *names[MAX_ARRAYS]; /* names of the statistics among the inputs */
    int arrays, inputs;                  /* number of inputs with a value per element, and of all array inputs */
    int has_epsilon;                     /* whether the next input is passed to the kernel */
} Norm;

/* Run a computation. The first output has the shape of the first input, the other outputs the shape of a statistic. */
static int run(const Norm *norm, int nout, PyObject **in, PyObject **out, int typecode, gpukernel *kernel, int64_t real,
               int64_t n_axes, const int64_t *axes)
{
    PyGpuArrayObject *x = gpu_input(in[0], typecode, -1), *held[MAX_ARRAYS] = {NULL};
    char averaged[GA_MAX_DIMS] = {0};
    size_t shape[GA_MAX_DIMS];
    int status = -1, nd = x == NULL ? 0 : (int)x->ga.nd;
    double epsilon = 0;
    if (x == NULL || (norm->has_epsilon && (epsilon = PyFloat_AsDouble(in[norm->inputs])) == -1 && PyErr_Occurred()))
        return -1;
    for (int64_t i = 0; i < n_axes; ++i)
        averaged[axes[i]] = 1;
    for (int d = 0; d < nd; ++d)
        shape[d] = averaged[d] ? 1 : x->ga.dimensions[d];
    for (int k = 0; k < norm->inputs; ++k) {
        PyGpuArrayObject *a = gpu_input(in[k], typecode, nd);
        if (a == NULL || !gpu_same_context(x, a) || gpu_aligned(&a->ga, norm->who) < 0)
            goto done;
        if (k < norm->arrays && memcmp(a->ga.dimensions, x->ga.dimensions, (size_t)nd * sizeof *shape) != 0) {
            PyErr_Format(PyExc_ValueError, "%s: Input dimension mis-match. x and dy do not have the same shape",
                         norm->who);
            goto done;
        }
        if (k >= norm->arrays
            && check_statistic(nd, (const npy_intp *)x->ga.dimensions, averaged, in[k], norm->who, norm->names[k]) < 0)
            goto done;
        held[k] =
            GpuArray_IS_C_CONTIGUOUS(&a->ga) ? (PyGpuArrayObject *)Py_NewRef((PyObject *)a) : pygpu_copy(a, GA_C_ORDER);
        if (held[k] == NULL)
            goto done;
    }
    Rows rows;
    uint32_t across;
    float narrow = (float)epsilon;
    lay_out(nd, x->ga.dimensions, averaged, &rows);
    Arguments args = {0};
    args_push(&args, &rows.rows);
    args_push(&args, &rows.length);
    args_push(&args, &across);
    for (int k = 0; k < norm->inputs; ++k)
        args_array(&args, &held[k]->ga, &held[k]->ga.offset);
    for (int j = 0; j < nout; ++j) {
        for (int k = 0; k < norm->inputs; ++k)
            gpu_not_shared(&out[j], &held[k]->ga);
        PyGpuArrayObject *z = gpu_alloc(&out[j], x->context, (unsigned)nd, j == 0 ? x->ga.dimensions : shape, typecode);
        if (z == NULL)
            goto done;
        args_array(&args, &z->ga, &z->ga.offset);
    }
    if (norm->has_epsilon)
        args_push(&args, real == 8 ? (void *)&epsilon : &narrow);
    push_axes(&args, &rows.kept);
    push_axes(&args, &rows.averaged);
    status = launch(kernel, &rows, &across, &x->context->ctx->info, args.at, norm->who);
done:
    for (int k = 0; k < norm->inputs; ++k)
        Py_XDECREF(held[k]);
    return status;
}

/* Parameters of both functions. kernel: see kernels/batchnorm.py. real: size of the numbers in which it sums. */

/* Inputs: x, scale, bias, epsilon. Outputs: the normalized x, mean, 1 / sqrt(variance + epsilon), variance. */
NATIVE_FUNCTION(train, typecode, kernel, real, n_axes, axes[])
static int tng_train(int nin, int nout, PyObject **in, PyObject **out, const struct train_params *params)
{
    static const Norm norm = {"BatchNormTrain", {[1] = "scale", [2] = "bias"}, 1, 3, 1};
    (void)nin;
    return run(&norm, nout, in, out, (int)params->typecode, (gpukernel *)(intptr_t)params->kernel, params->real,
               params->n_axes, params->axes);
}

/* Inputs: x, dy, scale, mean, 1 / sqrt(variance + epsilon), epsilon. Outputs: the gradients with respect to x, scale
 * and bias. */
NATIVE_FUNCTION(train_grad, typecode, kernel, real, n_axes, axes[])
static int tng_train_grad(int nin, int nout, PyObject **in, PyObject **out, const struct train_grad_params *params)
{
    static const Norm norm = {"BatchNormTrainGrad", {[2] = "scale", [3] = "x_mean", [4] = "x_invstd"}, 2, 5, 0};
    (void)nin;
    return run(&norm, nout, in, out, (int)params->typecode, (gpukernel *)(intptr_t)params->kernel, params->real,
               params->n_axes, params->axes);
}

static const NativeEntry entries[] = {NATIVE_ENTRY(train), NATIVE_ENTRY(train_grad), {0}};
NATIVE_MODULE(batchnorm, entries)
