"""Cells in C: reading, filling and emptying one-element lists, with the references counted.

A cell is consistent before an old value goes: its destructor may run Python code that looks at the cell.
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
    """The cell as a pointer, borrowed. Refuses what is no list of one element, which the functions below would not notice."""
    if type(cell) is not list or len(<list>cell) != 1:
        raise TypeError("a cell is a list of one element, not %r" % (cell,))
    return <PyObject *>cell


cdef inline PyObject *peek(PyObject *cell) noexcept:
    """The value in a cell, borrowed."""
    return PyList_GET_ITEM(cell, 0)


cdef inline void give(PyObject *cell, PyObject *value) noexcept:
    """Put a value into a cell, which takes over the caller's reference."""
    cdef PyObject *old = PyList_GET_ITEM(cell, 0)
    PyList_SET_ITEM(cell, 0, value)
    decref(old)


cdef inline void put(PyObject *cell, PyObject *value) noexcept:
    """Put a value into a cell; the caller keeps its own reference."""
    incref(value)
    give(cell, value)


cdef inline PyObject *take(PyObject *cell) noexcept:
    """Leave None in a cell and return what was there: an owned reference, to None too."""
    cdef PyObject *old = PyList_GET_ITEM(cell, 0)
    incref(Py_None)
    PyList_SET_ITEM(cell, 0, Py_None)
    return old


cdef inline void empty(PyObject *cell) noexcept:
    """Put None into a cell."""
    if PyList_GET_ITEM(cell, 0) != Py_None:
        decref(take(cell))
