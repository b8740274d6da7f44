"""Declarations of row tables, see row_table.h."""
from cpython.object cimport PyObject


cdef extern from "row_table.h":
    ctypedef struct row_places:
        char *data
        Py_ssize_t stride
        Py_ssize_t length
    ctypedef struct row_table:
        void (*find)(PyObject *array, row_places *found) noexcept
        int (*readable)(PyObject *value) noexcept
        int (*writable)(PyObject *value) noexcept
        int (*refill)(PyObject *array, PyObject *value) except -1
        PyObject *(*view)(PyObject *array, char *data) except NULL
        size_t data_in_view
        int (*copy)(PyObject *array, char *data, PyObject **row) except -1
        int (*store)(PyObject *array, char *data, PyObject *value) except -1


cdef const row_table *row_table_of(name) except NULL
