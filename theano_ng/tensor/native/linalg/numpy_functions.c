/* Native code of two small Ops: searchsorted and dot.
 *
 * The comment at each function describes its inputs, outputs and packed parameters. gof/native.h explains native
 * functions. */
#include "native.h"

/* Return one type number for all C types of equal size: NumPy has different numbers for long and long long. */
static int canonical_type(int type_num)
{
    switch (type_num) {
    case NPY_LONG: return NPY_SIZEOF_LONG == 8 ? NPY_INT64 : NPY_INT32;
    case NPY_LONGLONG: return NPY_INT64;
    case NPY_ULONG: return NPY_SIZEOF_LONG == 8 ? NPY_UINT64 : NPY_UINT32;
    case NPY_ULONGLONG: return NPY_UINT64;
    default: return type_num;
    }
}

/* Return a new reference to `value` as an aligned native-endian array of type `type_num`; it may be strided. */
static PyArrayObject *as_array(PyObject *value, int type_num)
{
    if (PyArray_Check(value) && PyArray_ISBEHAVED_RO((PyArrayObject *)value)
        && canonical_type(PyArray_TYPE((PyArrayObject *)value)) == type_num) {
        Py_INCREF(value);
        return (PyArrayObject *)value;
    }
    return (PyArrayObject *)PyArray_FROMANY(value, type_num, 0, 0, NPY_ARRAY_BEHAVED | NPY_ARRAY_FORCECAST);
}

/* ------------------------------------------------------------------ searchsorted: (sorted vector, values[, sorter]) */

NATIVE_FUNCTION(searchsorted, right)
static int tng_searchsorted(int nin, int nout, PyObject **in, PyObject **out, const struct searchsorted_params *params)
{
    PyObject *found = PyArray_SearchSorted((PyArrayObject *)in[0], in[1],
                                           params->right ? NPY_SEARCHRIGHT : NPY_SEARCHLEFT, nin > 2 ? in[2] : NULL);
    if (found == NULL)
        return -1;
    /* Convert a 0-d result to an array: PyArray_SearchSorted returns it as a NumPy scalar. */
    PyObject *array = PyArray_FROM_OTF(found, NPY_INT64, NPY_ARRAY_CARRAY);
    Py_DECREF(found);
    if (array == NULL)
        return -1;
    native_set(&out[0], array);
    return 0;
}

/* ------------------------------------------------------------------ product of vectors or matrices */

NATIVE_FUNCTION(dot, type_number)
static int tng_dot(int nin, int nout, PyObject **in, PyObject **out, const struct dot_params *params)
{
    int type_num = (int)params->type_number, result = -1;
    PyArrayObject *x = as_array(in[0], type_num), *y = x == NULL ? NULL : as_array(in[1], type_num);
    if (y == NULL)
        goto finish;
    int x_nd = PyArray_NDIM(x), y_nd = PyArray_NDIM(y), nd = 0;
    npy_intp dims[2];
    if (x_nd == 2)
        dims[nd++] = PyArray_DIM(x, 0);
    if (y_nd == 2)
        dims[nd++] = PyArray_DIM(y, 1);
    npy_intp left = PyArray_DIM(x, x_nd - 1), right = PyArray_DIM(y, 0);
    if (left != right) {
        PyErr_Format(
            PyExc_ValueError,
            "Shape mismatch: x has %zd columns but y has %zd rows (last dimension of input[0], first of input[1])",
            (Py_ssize_t)left, (Py_ssize_t)right);
        goto finish;
    }
    PyArrayObject *z = native_alloc(out, nd, dims, type_num);
    if (z == NULL)
        goto finish;
    PyObject *same = PyArray_MatrixProduct2((PyObject *)x, (PyObject *)y, z);
    if (same != NULL) {
        Py_DECREF(same);
        result = 0;
    }
finish:
    Py_XDECREF(x);
    Py_XDECREF(y);
    return result;
}

static const NativeEntry entries[] = {
    NATIVE_ENTRY(searchsorted),
    NATIVE_ENTRY(dot),
    {NULL},
};
NATIVE_MODULE(numpy_functions, entries)
