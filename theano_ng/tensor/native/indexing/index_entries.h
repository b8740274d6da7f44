/* The entries of basic indexing: integers and slices. Each integer, and each bound and step of a slice, is a constant
 * or an input of the node. */
#ifndef TNG_INDEX_ENTRIES_H
#define TNG_INDEX_ENTRIES_H

#include "native.h"

/* An entry of the Op's idx_list: an integer, stored in `start`, or a slice. `start_is`, `stop_is` and `step_is` are
 * kinds of fields: FIELD_NONE if the field is missing, FIELD_VALUE if it contains the value, FIELD_INPUT if it contains
 * the number of an input. */
NATIVE_PARAMS(entry, is_slice, start_is, start, stop_is, stop, step_is, step);
enum { FIELD_NONE, FIELD_VALUE, FIELD_INPUT };

static inline int read_field(int64_t is, int64_t field, PyObject **in, Py_ssize_t absent, Py_ssize_t *value)
{
    if (is == FIELD_VALUE)
        *value = (Py_ssize_t)field;
    else if (is == FIELD_INPUT) {
        int64_t number;
        if (native_as_int64(in[field], &number) == 0)
            *value = (Py_ssize_t)number;
        else if (PyErr_ExceptionMatches(PyExc_OverflowError)) {
            /* An unsigned integer too large for int64 is beyond the end of any dimension: use the largest size. */
            PyErr_Clear();
            *value = PY_SSIZE_T_MAX;
        }
        else
            return -1;
    }
    else
        *value = absent;
    return 0;
}

static inline int out_of_bounds(Py_ssize_t index, int axis, Py_ssize_t size)
{
    PyErr_Format(PyExc_IndexError, "index out of bounds: index %zd is out of bounds for axis %d with size %zd", index,
                 axis, size);
    return -1;
}

/* Store in *place the position that an integer entry selects along an axis. Return 0, or -1 with an exception set. */
static inline int read_index(const struct entry_params *entry, PyObject **in, int axis, Py_ssize_t size,
                             Py_ssize_t *place)
{
    Py_ssize_t index;
    if (read_field(entry->start_is, entry->start, in, 0, &index) < 0)
        return -1;
    if (index < -size || index >= size)
        return out_of_bounds(index, axis, size);
    *place = index < 0 ? index + size : index;
    return 0;
}

/* Read start, stop and step of a slice in the form that PySlice_AdjustIndices expects. Return 0, or -1 with an
 * exception set. */
static inline int read_slice(const struct entry_params *entry, PyObject **in, Py_ssize_t *start, Py_ssize_t *stop,
                             Py_ssize_t *step)
{
    if (read_field(entry->step_is, entry->step, in, 1, step) < 0)
        return -1;
    if (*step == 0) {
        PyErr_SetString(PyExc_ValueError, "slice step cannot be zero");
        return -1;
    }
    if (*step < -PY_SSIZE_T_MAX)
        *step = -PY_SSIZE_T_MAX;
    if (read_field(entry->start_is, entry->start, in, *step < 0 ? PY_SSIZE_T_MAX : 0, start) < 0
        || read_field(entry->stop_is, entry->stop, in, *step < 0 ? PY_SSIZE_T_MIN : PY_SSIZE_T_MAX, stop) < 0)
        return -1;
    return 0;
}

#endif
