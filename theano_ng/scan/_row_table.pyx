"""The row table of NumPy arrays, for the compiled loop of Scan. Other array types have other row tables (row_table.h).
"""
from libc.string cimport memmove
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_Import

cimport numpy as cnp

from theano_ng.gof._native cimport Array, array_descr, array_dim, array_itemsize, array_ndim, has_flags, is_exact_array
from theano_ng.gof.cells cimport decref, incref

from theano_ng.tensor.native.alloc import empty

cnp.import_array()


cdef extern from "numpy/arrayobject.h":
    size_t DATA_IN_ARRAY "offsetof(PyArrayObject_fields, data)"
    char *array_data "PyArray_BYTES"(Array *array) noexcept
    cnp.npy_intp *array_dims "PyArray_DIMS"(Array *array) noexcept
    cnp.npy_intp *array_strides "PyArray_STRIDES"(Array *array) noexcept
    cnp.npy_intp array_nbytes "PyArray_NBYTES"(Array *array) noexcept
    int array_flags "PyArray_FLAGS"(Array *array) noexcept
    PyObject *PyArray_NewFromDescr(
        void *kind, void *descr, int nd, cnp.npy_intp *dims, cnp.npy_intp *strides, void *data, int flags, PyObject *obj) except NULL
    int PyArray_SetBaseObject(Array *array, PyObject *base) except -1
    int same_lengths "PyArray_CompareLists"(cnp.npy_intp *a, cnp.npy_intp *b, int n) noexcept
    void *array_class "&PyArray_Type"


cdef void find(PyObject *value, row_places *found) noexcept:
    cdef Array *array = <Array *>value
    found.data, found.stride, found.length = array_data(array), array_strides(array)[0], array_dim(array, 0)


cdef int readable(PyObject *value) noexcept:
    return (is_exact_array(value) and has_flags(<Array *>value, cnp.NPY_ARRAY_ALIGNED)
            and array_strides(<Array *>value)[0] % <cnp.npy_intp>array_itemsize(<Array *>value) == 0)


cdef int writable(PyObject *value) noexcept:
    return is_exact_array(value) and has_flags(<Array *>value, cnp.NPY_ARRAY_CARRAY)


cdef int refill(PyObject *array, PyObject *value) except -1:
    if not (is_exact_array(array) and has_flags(<Array *>array, cnp.NPY_ARRAY_CARRAY | cnp.NPY_ARRAY_OWNDATA)
            and is_exact_array(value) and has_flags(<Array *>value, cnp.NPY_ARRAY_CARRAY_RO)
            and array_descr(<Array *>array) == array_descr(<Array *>value) and array_ndim(<Array *>array) == array_ndim(<Array *>value)
            and same_lengths(array_dims(<Array *>array), array_dims(<Array *>value), array_ndim(<Array *>array))):
        return False
    memmove(array_data(<Array *>array), array_data(<Array *>value), array_nbytes(<Array *>value))
    return True


cdef PyObject *view(PyObject *value, char *data) except NULL:
    cdef Array *array = <Array *>value
    cdef PyObject *made
    incref(<PyObject *>array_descr(array))
    made = PyArray_NewFromDescr(
        array_class, array_descr(array), array_ndim(array) - 1, array_dims(array) + 1, array_strides(array) + 1, data,
        array_flags(array) & cnp.NPY_ARRAY_WRITEABLE, NULL)
    incref(value)
    try:
        PyArray_SetBaseObject(<Array *>made, value)
    except BaseException:
        decref(made)
        raise
    return made


cdef int copy(PyObject *array, char *data, PyObject **row) except -1:
    if row[0] == NULL:
        made = empty((<object>array).shape[1:], (<object>array).dtype)
        incref(<PyObject *>made)
        row[0] = <PyObject *>made
    memmove(array_data(<Array *>row[0]), data, array_nbytes(<Array *>row[0]))
    return 0


cdef int store(PyObject *array, char *data, PyObject *value) except -1:
    cdef Array *buffer = <Array *>array
    if not (is_exact_array(value) and array_descr(<Array *>value) == array_descr(buffer)
            and array_ndim(<Array *>value) == array_ndim(buffer) - 1 and has_flags(<Array *>value, cnp.NPY_ARRAY_CARRAY_RO)
            and same_lengths(array_dims(<Array *>value), array_dims(buffer) + 1, array_ndim(<Array *>value))):
        return False
    memmove(data, array_data(<Array *>value), array_nbytes(<Array *>value))
    return True


cdef row_table host_rows
host_rows.find = find
host_rows.readable = readable
host_rows.writable = writable
host_rows.refill = refill
host_rows.view = view
host_rows.data_in_view = DATA_IN_ARRAY
host_rows.copy = copy
host_rows.store = store


cdef const row_table *row_table_of(name) except NULL:
    """Return the row table with a given name. Return the table of NumPy arrays if the name is None."""
    if name is None:
        return &host_rows
    __import__(name.rpartition(".")[0])
    return <const row_table *>PyCapsule_Import(name.encode(), 0)
