/* Tables of BLAS and LAPACK functions, and views of arrays as BLAS matrices; for blas.c and lapack.c.
 *
 * BLAS reads matrices in column-major order. It reads a row-major matrix, without a copy, as the transpose of the
 * matrix. `fits_blas` determines whether BLAS reads a NumPy array as the matrix or as its transpose; `as_blas` copies
 * the array if its strides allow neither. */
#ifndef THEANO_NG_BLAS_VIEWS_H
#define THEANO_NG_BLAS_VIEWS_H

#include "native.h"
#include <limits.h>

enum { TYPE_S, TYPE_D, TYPE_C, TYPE_Z, N_TYPES };

/* Fill `table` with the addresses of the `count` functions `names`. The Python function `addresses` of the module
 * returns a dict of these addresses. Return 0, or -1 with an exception set. */
static inline int fill_table(const char *module_name, int count, const char *const *names, void **table)
{
    PyObject *module = PyImport_ImportModule(module_name);
    if (module == NULL)
        return -1;
    PyObject *addresses = PyObject_CallMethod(module, "addresses", NULL);
    Py_DECREF(module);
    if (addresses == NULL)
        return -1;
    for (int i = 0; i < count; ++i) {
        PyObject *address = PyDict_GetItemString(addresses, names[i]);
        if (address == NULL)
            PyErr_Format(PyExc_RuntimeError, "%s has no %s", module_name, names[i]);
        table[i] = address == NULL ? NULL : PyLong_AsVoidPtr(address);
        if (table[i] == NULL) {
            Py_DECREF(addresses);
            return -1;
        }
    }
    Py_DECREF(addresses);
    return 0;
}

/* Return the column of the table for the dtype of an array, or -1 with an exception set if BLAS lacks this dtype. */
static inline int blas_type(PyArrayObject *a)
{
    switch (PyArray_TYPE(a)) {
    case NPY_FLOAT: return TYPE_S;
    case NPY_DOUBLE: return TYPE_D;
    case NPY_CFLOAT: return TYPE_C;
    case NPY_CDOUBLE: return TYPE_Z;
    default: PyErr_Format(PyExc_TypeError, "BLAS and LAPACK do not support type number %d", PyArray_TYPE(a)); return -1;
    }
}

/* A matrix in the form that BLAS reads. */
typedef struct {
    void *data;
    int ld;               /* leading dimension, in elements */
    int transposed;       /* 1: BLAS, which is column-major, reads the array itself; 0: it reads the transpose */
    PyArrayObject *owned; /* the copy of the array, if one was necessary, or NULL */
} BlasMatrix;

/* Return 1 and fill *m if BLAS can read the array without a copy: unit stride along one axis, and along the other axis
 * a positive stride that is a whole number of elements. */
static inline int fits_blas(PyArrayObject *a, BlasMatrix *m)
{
    if (!PyArray_ISBEHAVED_RO(a))
        return 0;
    npy_intp size = PyArray_ITEMSIZE(a), rows = PyArray_DIM(a, 0), cols = PyArray_DIM(a, 1);
    npy_intp s0 = PyArray_STRIDE(a, 0), s1 = PyArray_STRIDE(a, 1);
    m->data = PyArray_DATA(a);
    if (rows == 0 || cols == 0) { /* strides of an empty array mean nothing, but BLAS checks the leading dimension */
        m->ld = cols > 1 ? (int)cols : 1;
        m->transposed = 0;
        return 1;
    }
    if (s1 == size || cols <= 1) {
        npy_intp ld = rows <= 1 ? (cols > 1 ? cols : 1) : s0 / size;
        if (rows <= 1 || (s0 > 0 && s0 % size == 0 && ld >= cols && ld >= 1 && ld <= INT_MAX)) {
            m->ld = (int)ld;
            m->transposed = 0;
            return 1;
        }
    }
    if (s0 == size || rows <= 1) {
        npy_intp ld = cols <= 1 ? (rows > 1 ? rows : 1) : s1 / size;
        if (cols <= 1 || (s1 > 0 && s1 % size == 0 && ld >= rows && ld >= 1 && ld <= INT_MAX)) {
            m->ld = (int)ld;
            m->transposed = 1;
            return 1;
        }
    }
    return 0;
}

static inline int as_blas(PyArrayObject *a, BlasMatrix *m)
{
    *m = (BlasMatrix){0};
    if (fits_blas(a, m))
        return 0;
    m->owned = (PyArrayObject *)PyArray_NewCopy(a, NPY_CORDER);
    if (m->owned == NULL)
        return -1;
    fits_blas(m->owned, m);
    return 0;
}

#endif
