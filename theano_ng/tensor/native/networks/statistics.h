/* A check of the statistics of batch normalization. */
#ifndef TNG_STATISTICS_H
#define TNG_STATISTICS_H

#include "native.h"

/* Check that a statistic, an array on the host or on a device, has the shape `dims` with length 1 along the averaged
 * dimensions. Return 0, or -1 with an exception set. */
static int check_statistic(int nd, const npy_intp *dims, const char *averaged, PyObject *value, const char *who,
                           const char *name)
{
    PyObject *shape = PyObject_GetAttrString(value, "shape"), *expected = PyTuple_New(nd);
    for (int d = 0; expected != NULL && d < nd; ++d)
        PyTuple_SET_ITEM(expected, d, PyLong_FromSsize_t(averaged[d] ? 1 : dims[d]));
    int same = shape == NULL || expected == NULL ? -1 : PyObject_RichCompareBool(shape, expected, Py_EQ);
    if (same == 0)
        PyErr_Format(PyExc_ValueError, "%s: Input dimension mis-match. %s has shape %R, expected %R", who, name, shape,
                     expected);
    Py_XDECREF(shape);
    Py_XDECREF(expected);
    return same == 1 ? 0 : -1;
}

#endif
