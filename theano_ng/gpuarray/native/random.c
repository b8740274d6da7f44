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

static const NativeEntry entries[] = {NATIVE_ENTRY(mrg_uniform), {0}};
NATIVE_MODULE(random, entries)
