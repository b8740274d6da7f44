/* Random numbers on a device. */
#include "gpu_axes.h"

/* Inputs: the states of streams (int32, a row of six numbers for each stream), and the shape of the sample, on the host.
 * Outputs: the new states, and a sample. */
NATIVE_FUNCTION(mrg_uniform, in_place, typecode, ndim, kernel)
static int tng_mrg_uniform(int nin, int nout, PyObject **in, PyObject **out, const struct mrg_uniform_params *params)
{
    (void)nin, (void)nout;
    PyGpuArrayObject *states = gpu_input(in[0], GA_INT, 2);
    if (states == NULL || gpu_aligned(&states->ga, "GPUA_mrg_uniform") < 0)
        return -1;
    PyArrayObject *size = (PyArrayObject *)PyArray_FROMANY(in[1], NPY_INT64, 1, 1, NPY_ARRAY_CARRAY_RO);
    if (size == NULL)
        return -1;
    size_t dims[GA_MAX_DIMS];
    npy_intp nd = PyArray_DIM(size, 0);
    const npy_int64 *lengths = PyArray_DATA(size);
    int status = -1;
    if (nd != params->ndim) {
        PyErr_Format(PyExc_ValueError, "mrg_uniform makes a sample of %d dimension(s), but size has %zd element(s)",
                     (int)params->ndim, (Py_ssize_t)nd);
        goto done;
    }
    for (npy_intp d = 0; d < nd; ++d) {
        if (lengths[d] < 0) {
            PyErr_Format(PyExc_ValueError, "negative dimensions are not allowed: size is %S", (PyObject *)size);
            goto done;
        }
        dims[d] = (size_t)lengths[d];
    }
    if (states->ga.dimensions[0] == 0 || states->ga.dimensions[1] != 6) {
        PyErr_Format(PyExc_ValueError, "rstate must have a row of 6 numbers for each stream, its shape is (%zu, %zu)",
                     states->ga.dimensions[0], states->ga.dimensions[1]);
        goto done;
    }
    gpu_not_shared(&out[1], &states->ga);
    PyGpuArrayObject *sample = gpu_alloc(&out[1], states->context, (unsigned)nd, dims, (int)params->typecode);
    if (sample == NULL)
        goto done;
    if (params->in_place && GpuArray_ISWRITEABLE(&states->ga))
        native_set(&out[0], Py_NewRef((PyObject *)states));
    else {
        PyGpuArrayObject *copy = pygpu_copy(states, GA_C_ORDER);
        if (copy == NULL)
            goto done;
        native_set(&out[0], (PyObject *)copy);
        states = copy;
    }
    size_t total = gpu_size(&sample->ga), streams = states->ga.dimensions[0];
    Arguments args = {0};
    args_array(&args, &states->ga, &states->ga.offset);
    args_push(&args, &states->ga.strides[0]);
    args_push(&args, &states->ga.strides[1]);
    args_push(&args, &streams);
    args_array(&args, &sample->ga, &sample->ga.offset);
    args_push(&args, &total);
    status =
        gpu_run((gpukernel *)(intptr_t)params->kernel, total < streams ? total : streams, args.at, "GPUA_mrg_uniform");
done:
    Py_DECREF(size);
    return status;
}

/* ------------------------------------------------------------------ multinomial, choice: (pvals, unis, n) */

/* The inputs of the Ops multinomial and choice: n trials for each row of a matrix of probabilities. */
typedef struct {
    PyGpuArrayObject *pvals, *unis;
    size_t rows, columns, trials;
} Samples;

/* Read and check the inputs. Everything that can be wrong is known on the host. Return 0, or -1 with an exception set. */
static int make_samples(Samples *x, PyObject **in, const char *who)
{
    int64_t n;
    x->pvals = gpu_input(in[0], -1, 2);
    x->unis = x->pvals == NULL ? NULL : gpu_input(in[1], -1, 1);
    if (x->unis == NULL || !gpu_same_context(x->pvals, x->unis) || gpu_aligned(&x->pvals->ga, who) < 0
        || gpu_aligned(&x->unis->ga, who) < 0 || native_as_int64(in[2], &n) < 0)
        return -1;
    x->rows = x->pvals->ga.dimensions[0], x->columns = x->pvals->ga.dimensions[1];
    size_t wanted, given = x->unis->ga.dimensions[0];
    if (n < 0) {
        PyErr_Format(PyExc_ValueError, "the number of samples must not be negative, it is %lld", (long long)n);
        return -1;
    }
    x->trials = (size_t)n;
    if (__builtin_mul_overflow(x->rows, x->trials, &wanted) || given != wanted) {
        PyErr_Format(PyExc_ValueError, "unis.shape[0] (%zu) != pvals.shape[0] (%zu) * n_samples (%lld)", given, x->rows,
                     (long long)n);
        return -1;
    }
    return 0;
}

/* Launch a kernel with this number of tasks that writes to z. `left` is the memory for probabilities, or NULL. */
static int draw(const Samples *x, int64_t kernel, size_t tasks, const GpuArray *z, gpudata *left, const char *who)
{
    Arguments args = {0};
    args_array(&args, &x->pvals->ga, &x->pvals->ga.offset);
    args_push(&args, &x->pvals->ga.strides[0]);
    args_push(&args, &x->pvals->ga.strides[1]);
    args_push(&args, &x->rows);
    args_push(&args, &x->columns);
    args_array(&args, &x->unis->ga, &x->unis->ga.offset);
    args_push(&args, &x->unis->ga.strides[0]);
    args_push(&args, &x->trials);
    args_array(&args, z, &z->offset);
    if (left != NULL)
        args_push(&args, left);
    return gpu_run((gpukernel *)(intptr_t)kernel, tasks, args.at, who);
}

/* The kernel adds to int64 counts, which are converted to the type of the output. */
NATIVE_FUNCTION(multinomial, typecode, kernel)
static int tng_multinomial(int nin, int nout, PyObject **in, PyObject **out, const struct multinomial_params *params)
{
    (void)nin, (void)nout;
    static const char who[] = "GPUAMultinomialFromUniform";
    Samples x;
    if (make_samples(&x, in, who) < 0)
        return -1;
    gpu_not_shared(out, &x.pvals->ga);
    gpu_not_shared(out, &x.unis->ga);
    PyGpuArrayObject *z = gpu_alloc(out, x.pvals->context, 2, x.pvals->ga.dimensions, (int)params->typecode),
                     *counts = z;
    if (z == NULL || gpu_size(&z->ga) == 0)
        return z == NULL ? -1 : 0;
    int convert = params->typecode != GA_LONG, status = -1, code;
    if (convert && (counts = pygpu_empty_like(z, GA_C_ORDER, GA_LONG)) == NULL)
        return -1;
    if ((code = GpuArray_memset(&counts->ga, 0)) != GA_NO_ERROR)
        gpu_failed(z->context->ctx, code, who);
    else if (draw(&x, params->kernel, x.rows * x.trials, &counts->ga, NULL, who) == 0)
        status = convert ? gpu_assign(z, &counts->ga, who) : 0;
    if (convert)
        Py_DECREF(counts);
    return status;
}

/* `work_type`: the type of the remaining probabilities, or -1 if a category can be drawn again. */
NATIVE_FUNCTION(choice, typecode, kernel, work_type)
static int tng_choice(int nin, int nout, PyObject **in, PyObject **out, const struct choice_params *params)
{
    (void)nin, (void)nout;
    static const char who[] = "GPUAChoiceFromUniform";
    int replace = params->work_type < 0, code = GA_NO_ERROR;
    Samples x;
    if (make_samples(&x, in, who) < 0)
        return -1;
    if (!replace && x.trials > x.columns) {
        PyErr_SetString(PyExc_ValueError,
                        "Cannot sample without replacement n samples bigger than the size of the distribution.");
        return -1;
    }
    size_t dims[2] = {x.rows, x.trials}, tasks = x.rows * (replace ? x.trials : x.trials > 0);
    gpu_not_shared(out, &x.pvals->ga);
    gpu_not_shared(out, &x.unis->ga);
    PyGpuArrayObject *z = gpu_alloc(out, x.pvals->context, 2, dims, (int)params->typecode);
    if (z == NULL || tasks == 0)
        return z == NULL ? -1 : 0;
    gpudata *left = NULL;
    if (!replace) {
        size_t bytes = x.rows * x.columns * gpuarray_get_elsize((int)params->work_type);
        if ((left = gpudata_alloc(z->context->ctx, bytes, NULL, 0, &code)) == NULL)
            return gpu_failed(z->context->ctx, code, who);
    }
    int status = draw(&x, params->kernel, tasks, &z->ga, left, who);
    if (left != NULL)
        gpudata_release(left); /* the stream reuses the memory only after the kernel has run */
    return status;
}

static const NativeEntry entries[] = {NATIVE_ENTRY(mrg_uniform), NATIVE_ENTRY(multinomial), NATIVE_ENTRY(choice), {0}};
NATIVE_MODULE(random, entries)
