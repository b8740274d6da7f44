/* Shapes and copies of device arrays. Shapes are stored on the host, so no kernel computes them. The file is organized
 * like tensor/native/arrays/shape.c. */
#include "gpu.h"
#include "common/integer_inputs.h"

static int tng_deep_copy(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    (void)nin, (void)nout, (void)params;
    PyGpuArrayObject *x = gpu_input(in[0], -1, -1), *old = (PyGpuArrayObject *)out[0];
    if (x == NULL)
        return -1;
    if (old != NULL && PyGpuArray_Check(old) && GpuArray_share(&old->ga, &x->ga))
        Py_CLEAR(out[0]);
    PyGpuArrayObject *made = gpu_alloc(out, x->context, x->ga.nd, x->ga.dimensions, x->ga.typecode);
    return made == NULL ? -1 : pygpu_move(made, x);
}

static int tng_shape(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    (void)nin, (void)nout, (void)params;
    PyGpuArrayObject *x = gpu_input(in[0], -1, -1);
    if (x == NULL)
        return -1;
    npy_intp n = x->ga.nd;
    PyArrayObject *shape = native_alloc(out, 1, &n, NPY_INT64);
    if (shape == NULL)
        return -1;
    for (unsigned i = 0; i < x->ga.nd; ++i)
        ((npy_int64 *)PyArray_DATA(shape))[i] = (npy_int64)x->ga.dimensions[i];
    return 0;
}

NATIVE_FUNCTION(shape_i, axis)
static int tng_shape_i(int nin, int nout, PyObject **in, PyObject **out, const struct shape_i_params *params)
{
    (void)nin, (void)nout;
    PyGpuArrayObject *x = gpu_input(in[0], -1, -1);
    if (x == NULL)
        return -1;
    if (params->axis >= (int64_t)x->ga.nd) {
        PyErr_Format(PyExc_TypeError, "Number of dimensions lower than expected: %u, but axis %lld is requested",
                     x->ga.nd, (long long)params->axis);
        return -1;
    }
    PyArrayObject *size = native_alloc(out, 0, NULL, NPY_INT64);
    if (size == NULL)
        return -1;
    *(npy_int64 *)PyArray_DATA(size) = (npy_int64)x->ga.dimensions[params->axis];
    return 0;
}

NATIVE_FUNCTION(rebroadcast, n_axes, axes[])
static int tng_rebroadcast(int nin, int nout, PyObject **in, PyObject **out, const struct rebroadcast_params *params)
{
    (void)nin, (void)nout;
    PyGpuArrayObject *x = gpu_input(in[0], -1, -1);
    if (x == NULL)
        return -1;
    for (int64_t k = 0; k < params->n_axes; ++k)
        if (x->ga.dimensions[params->axes[k]] != 1) {
            PyErr_Format(PyExc_ValueError, "Dimension %d in Rebroadcast's input was supposed to be 1 (got %zu instead)",
                         (int)params->axes[k], x->ga.dimensions[params->axes[k]]);
            return -1;
        }
    native_set(out, Py_NewRef(in[0]));
    return 0;
}

static int tng_specify_shape(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    (void)nin, (void)nout, (void)params;
    npy_intp wanted[NPY_MAXDIMS];
    PyGpuArrayObject *x = gpu_input(in[0], -1, -1);
    int n = x == NULL ? -1 : read_integers(in[1], wanted, NPY_MAXDIMS, "SpecifyShape");
    if (n < 0)
        return -1;
    if (n != (int)x->ga.nd) {
        PyErr_Format(PyExc_AssertionError,
                     "SpecifyShape: vector of shape has %d elements, but the input has %u dimensions.", n, x->ga.nd);
        return -1;
    }
    for (int i = 0; i < n; ++i)
        if ((npy_intp)x->ga.dimensions[i] != wanted[i]) {
            PyErr_Format(PyExc_AssertionError, "SpecifyShape: dim %d of input has shape %zu, expected %zd.", i,
                         x->ga.dimensions[i], (Py_ssize_t)wanted[i]);
            return -1;
        }
    native_set(out, Py_NewRef(in[0]));
    return 0;
}

static const NativeEntry entries[] = {
    {"deep_copy", tng_deep_copy, NULL, NULL},
    {"shape", tng_shape, NULL, NULL},
    NATIVE_ENTRY(shape_i),
    NATIVE_ENTRY(rebroadcast),
    {"specify_shape", tng_specify_shape, NULL, NULL},
    {0},
};
NATIVE_MODULE(shape, entries)
