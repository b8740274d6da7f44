/* The labels and lengths of examples of connectionist temporal classification. */
#ifndef TNG_CTC_EXAMPLES_H
#define TNG_CTC_EXAMPLES_H

#include "native.h"

typedef struct {
    npy_intp batch, width;       /* number of examples, and of columns of the matrix of labels */
    npy_intp *counts;            /* number of labels of each example */
    npy_int64 *labels;           /* row i begins with counts[i] labels, without the padding */
    PyArrayObject *length_array; /* owned */
    const npy_int64 *lengths;    /* number of time steps of each example */
} Examples;

static void drop_examples(Examples *e)
{
    PyMem_Free(e->labels);
    PyMem_Free(e->counts);
    Py_XDECREF(e->length_array);
}

/* Copy the labels without the padding. */
static int read_labels(Examples *e, const npy_int64 *given, npy_intp symbols)
{
    for (npy_intp i = 0; i < e->batch; ++i) {
        e->counts[i] = 0;
        for (npy_intp j = 0; j < e->width; ++j) {
            npy_int64 label = given[i * e->width + j];
            if (label < 0)
                continue;
            if (label == 0 || label >= symbols) {
                PyErr_Format(PyExc_ValueError,
                             "ctc: labels[%zd, %zd] is %lld, but labels must be from 1 to %zd: 0 is the blank, "
                             "negative numbers are padding",
                             (Py_ssize_t)i, (Py_ssize_t)j, (long long)label, (Py_ssize_t)(symbols - 1));
                return -1;
            }
            e->labels[i * e->width + e->counts[i]++] = label;
        }
    }
    return 0;
}

/* Check and read the labels and the lengths. Call drop_examples() in any case. */
static int read_examples(Examples *e, PyObject *labels, PyObject *lengths, npy_intp time, npy_intp batch,
                         npy_intp symbols)
{
    const int flags = NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST;
    memset(e, 0, sizeof *e);
    if (PyArray_DIM((PyArrayObject *)labels, 0) != batch || PyArray_DIM((PyArrayObject *)lengths, 0) != batch) {
        PyErr_Format(PyExc_ValueError,
                     "ctc: the numbers of examples differ: %zd in activations, %zd in labels, %zd in input_lengths",
                     (Py_ssize_t)batch, (Py_ssize_t)PyArray_DIM((PyArrayObject *)labels, 0),
                     (Py_ssize_t)PyArray_DIM((PyArrayObject *)lengths, 0));
        return -1;
    }
    if (symbols == 0) {
        PyErr_SetString(PyExc_ValueError, "ctc: activations have no symbols; at least the blank is needed");
        return -1;
    }
    if ((e->length_array = (PyArrayObject *)PyArray_FROM_OTF(lengths, NPY_INT64, flags)) == NULL)
        return -1;
    e->lengths = PyArray_DATA(e->length_array);
    for (npy_intp i = 0; i < batch; ++i)
        if (e->lengths[i] < 0 || e->lengths[i] > time) {
            PyErr_Format(PyExc_ValueError,
                         "ctc: input_lengths[%zd] is %lld, but there are activations for %zd time steps", (Py_ssize_t)i,
                         (long long)e->lengths[i], (Py_ssize_t)time);
            return -1;
        }
    PyArrayObject *label_array = (PyArrayObject *)PyArray_FROM_OTF(labels, NPY_INT64, flags);
    if (label_array == NULL)
        return -1;
    e->batch = batch;
    e->width = PyArray_DIM(label_array, 1);
    e->counts = PyMem_New(npy_intp, batch + 1);
    e->labels = PyMem_New(npy_int64, batch * e->width + 1);
    int status = -1;
    if (e->counts == NULL || e->labels == NULL)
        PyErr_NoMemory();
    else
        status = read_labels(e, PyArray_DATA(label_array), symbols);
    Py_DECREF(label_array);
    return status;
}

#endif
