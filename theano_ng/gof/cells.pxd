"""Cells in C: functions that read, fill and empty one-element lists, with reference counting.

A cell is made consistent before its old value is released: the destructor of the value may run Python code that reads
the cell.
"""
from cpython.object cimport PyObject


cdef extern from "Python.h":
    PyObject *Py_None
    PyObject *PyList_GET_ITEM(PyObject *cell, Py_ssize_t i) noexcept nogil
    void PyList_SET_ITEM(PyObject *cell, Py_ssize_t i, PyObject *value) noexcept nogil
    void incref "Py_INCREF"(PyObject *) noexcept nogil
    void decref "Py_DECREF"(PyObject *) noexcept nogil
    Py_ssize_t refcount "Py_REFCNT"(PyObject *value) noexcept


cdef inline PyObject *cell_of(cell) except NULL:
    """Return the cell as a borrowed pointer.

    Raise TypeError if the object is not a list of one element: the functions below do not check this.
    """
    if type(cell) is not list or len(<list>cell) != 1:
        raise TypeError("a cell must be a list of one element, not %r" % (cell,))
    return <PyObject *>cell


cdef inline PyObject *peek(PyObject *cell) noexcept:
    """Return the value in a cell, as a borrowed reference."""
    return PyList_GET_ITEM(cell, 0)


cdef inline void put_owned(PyObject *cell, PyObject *value) noexcept:
    """Put a value into a cell, and steal the caller's reference."""
    cdef PyObject *old = PyList_GET_ITEM(cell, 0)
    PyList_SET_ITEM(cell, 0, value)
    decref(old)


cdef inline void put(PyObject *cell, PyObject *value) noexcept:
    """Put a value into a cell. The caller keeps its reference."""
    incref(value)
    put_owned(cell, value)


cdef inline PyObject *take(PyObject *cell) noexcept:
    """Put None into a cell and return the previous value as an owned reference, even if it is None."""
    cdef PyObject *old = PyList_GET_ITEM(cell, 0)
    incref(Py_None)
    PyList_SET_ITEM(cell, 0, Py_None)
    return old


cdef inline void empty(PyObject *cell) noexcept:
    """Put None into a cell."""
    if PyList_GET_ITEM(cell, 0) != Py_None:
        decref(take(cell))
