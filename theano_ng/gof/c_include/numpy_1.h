/* Definitions that NumPy 2 removed from its C headers, and that classic C code uses. module_prologue.h includes this
 * file after NumPy's headers. */
#ifndef THEANO_NG_NUMPY_1_H
#define THEANO_NG_NUMPY_1_H

#include "numpy/npy_interrupt.h"
#include "numpy/old_defines.h"

/* Flags of arrays with their names in NumPy 1.6 and earlier. */
#ifndef NPY_C_CONTIGUOUS
#define NPY_C_CONTIGUOUS NPY_ARRAY_C_CONTIGUOUS
#define NPY_F_CONTIGUOUS NPY_ARRAY_F_CONTIGUOUS
#define NPY_CONTIGUOUS NPY_ARRAY_C_CONTIGUOUS
#define NPY_FORTRAN NPY_ARRAY_F_CONTIGUOUS
#define NPY_OWNDATA NPY_ARRAY_OWNDATA
#define NPY_FORCECAST NPY_ARRAY_FORCECAST
#define NPY_ENSURECOPY NPY_ARRAY_ENSURECOPY
#define NPY_ENSUREARRAY NPY_ARRAY_ENSUREARRAY
#define NPY_ELEMENTSTRIDES NPY_ARRAY_ELEMENTSTRIDES
#define NPY_ALIGNED NPY_ARRAY_ALIGNED
#define NPY_NOTSWAPPED NPY_ARRAY_NOTSWAPPED
#define NPY_WRITEABLE NPY_ARRAY_WRITEABLE
#define NPY_BEHAVED NPY_ARRAY_BEHAVED
#define NPY_BEHAVED_NS NPY_ARRAY_BEHAVED_NS
#define NPY_CARRAY NPY_ARRAY_CARRAY
#define NPY_CARRAY_RO NPY_ARRAY_CARRAY_RO
#define NPY_FARRAY NPY_ARRAY_FARRAY
#define NPY_FARRAY_RO NPY_ARRAY_FARRAY_RO
#define NPY_DEFAULT NPY_ARRAY_CARRAY
#define NPY_IN_ARRAY NPY_ARRAY_IN_ARRAY
#define NPY_OUT_ARRAY NPY_ARRAY_OUT_ARRAY
#define NPY_INOUT_ARRAY NPY_ARRAY_INOUT_ARRAY
#define NPY_IN_FARRAY NPY_ARRAY_IN_FARRAY
#define NPY_OUT_FARRAY NPY_ARRAY_OUT_FARRAY
#define NPY_INOUT_FARRAY NPY_ARRAY_INOUT_FARRAY
#define NPY_UPDATE_ALL NPY_ARRAY_UPDATE_ALL
#endif

/* NumPy 1 wrote an UPDATEIFCOPY array back when the array was freed. NumPy 2 has WRITEBACKIFCOPY arrays instead. Code
 * must call PyArray_ResolveWritebackIfCopy to write such an array back. */
#ifndef NPY_ARRAY_UPDATEIFCOPY
#define NPY_ARRAY_UPDATEIFCOPY NPY_ARRAY_WRITEBACKIFCOPY
#define NPY_UPDATEIFCOPY NPY_ARRAY_UPDATEIFCOPY
#endif

#define NPY_MAX PyArray_MAX
#define NPY_MIN PyArray_MIN
#ifndef PyArray_XDECREF_ERR
#define PyArray_XDECREF_ERR(array) PyArray_DiscardWritebackIfCopy(array), Py_XDECREF(array)
#endif
#ifndef NPY_REFCOUNT
#define NPY_REFCOUNT(object) Py_REFCNT(object)
#endif
#ifndef PyArray_REFCOUNT
#define PyArray_REFCOUNT(object) Py_REFCNT(object)
#endif

/* NumPy 1's names of functions that NumPy 2 renamed. */
#ifndef PyArray_MoveInto
#define PyArray_MoveInto(to, from) PyArray_CopyInto(to, from)
#endif
#ifndef PyArray_CastTo
#define PyArray_CastTo(to, from) PyArray_CopyInto(to, from)
#define PyArray_CastAnyTo(to, from) PyArray_CopyAnyInto(to, from)
#endif

#ifndef PyArray_FromDims
/* Returns an array of zeros. The lengths are ints. */
static inline PyObject *PyArray_FromDims(int nd, int *lengths, int typenum)
{
    npy_intp dims[NPY_MAXDIMS];
    for (int i = 0; i < nd && i < NPY_MAXDIMS; ++i)
        dims[i] = lengths[i];
    return PyArray_ZEROS(nd, dims, typenum, 0);
}

/* Returns an array that uses memory of the caller. The lengths are ints. */
static inline PyObject *PyArray_FromDimsAndData(int nd, int *lengths, int typenum, char *data)
{
    npy_intp dims[NPY_MAXDIMS];
    for (int i = 0; i < nd && i < NPY_MAXDIMS; ++i)
        dims[i] = lengths[i];
    return PyArray_SimpleNewFromData(nd, dims, typenum, data);
}
#endif

#ifndef PyArray_CopyAndTranspose
/* Returns the transpose of an object as a new contiguous array. */
static inline PyObject *PyArray_CopyAndTranspose(PyObject *object)
{
    PyArrayObject *array = (PyArrayObject *)PyArray_FROM_O(object);
    if (array == NULL)
        return NULL;
    PyArrayObject *view = (PyArrayObject *)PyArray_Transpose(array, NULL);
    Py_DECREF(array);
    if (view == NULL)
        return NULL;
    PyObject *copy = PyArray_NewCopy(view, NPY_CORDER);
    Py_DECREF(view);
    return copy;
}
#endif

#endif
