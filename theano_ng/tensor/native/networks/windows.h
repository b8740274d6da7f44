/* Image patches (windows) along the rows and columns of images: their positions, and checks of the arguments of
 * Images2Neibs and Images2NeibsGrad. */
#ifndef TNG_WINDOWS_H
#define TNG_WINDOWS_H

#include "native.h"

enum { VALID, HALF, FULL, WRAP_CENTERED, IGNORE_BORDERS };

/* The patches along one of the two dimensions of the images, in elements.
 *   size: length of the image
 *   neib: length of a patch
 *   step: distance between patches
 *   grid: number of patches
 *   first: start of the first patch; patch k begins at first + k * step */
typedef struct {
    npy_intp size, neib, step, grid, first;
} Line;

static int read_pair(PyObject *value, const char *name, const char *what, const char *which, npy_intp *pair)
{
    PyArrayObject *a = (PyArrayObject *)PyArray_FROM_OTF(value, NPY_INT64, NPY_ARRAY_CARRAY_RO);
    if (a == NULL)
        return -1;
    if (PyArray_NDIM(a) != 1 || PyArray_DIM(a, 0) != 2) {
        PyErr_Format(PyExc_TypeError, "%s wrong %s ; has to contain 2 elements", name, what);
        Py_DECREF(a);
        return -1;
    }
    for (int i = 0; i < 2; ++i)
        pair[i] = (npy_intp)((npy_int64 *)PyArray_DATA(a))[i];
    Py_DECREF(a);
    if (pair[0] <= 0 || pair[1] <= 0) {
        PyErr_Format(PyExc_ValueError, "%s values <= 0. Got %zd %zd.", which, (Py_ssize_t)pair[0], (Py_ssize_t)pair[1]);
        return -1;
    }
    return 0;
}

/* Compute the positions of the patches along image dimension `i` (0: rows, 1: columns). */
static int lay_out(Line *line, int i, int64_t mode)
{
    npy_intp size = line->size;
    line->first = 0;
    if (mode == WRAP_CENTERED) {
        if (line->neib % 2 == 0) {
            PyErr_SetString(PyExc_TypeError, "Images2Neibs: in mode wrap_centered need patch with odd shapes");
            return -1;
        }
        line->first = -(line->neib / 2);
        line->grid = (size - 1) / line->step + 1;
        return 0;
    }
    if (mode == HALF || mode == FULL) {
        npy_intp margin = mode == HALF ? line->neib / 2 : line->neib - 1;
        line->first = -margin;
        size += 2 * margin;
    }
    if (mode == IGNORE_BORDERS)
        line->grid = size < line->neib ? 0 : (size - line->neib) / line->step + 1;
    else {
        if (size < line->neib || (size - line->neib) % line->step != 0) {
            PyErr_Format(PyExc_TypeError, "neib_shape[%d]=%zd, neib_step[%d]=%zd and ten4.shape[%d]=%zd not consistent",
                         i, (Py_ssize_t)line->neib, i, (Py_ssize_t)line->step, i + 2, (Py_ssize_t)line->size);
            return -1;
        }
        line->grid = (size - line->neib) / line->step + 1;
    }
    return 0;
}

static int lay_out_both(Line *rows, Line *columns, PyObject *neib_shape, PyObject *neib_step, int64_t mode)
{
    npy_intp neib[2], step[2];
    if (read_pair(neib_shape, "neib_shape", "shape", "neib_shape", neib) < 0
        || read_pair(neib_step, "neib_step", "step", "neib_step wrong step ;", step) < 0)
        return -1;
    rows->neib = neib[0];
    rows->step = step[0];
    columns->neib = neib[1];
    columns->step = step[1];
    if (lay_out(rows, 0, mode) < 0 || lay_out(columns, 1, mode) < 0)
        return -1;
    if (mode == WRAP_CENTERED && (rows->size < rows->neib || columns->size < columns->neib)) {
        PyErr_Format(PyExc_TypeError,
                     "Images2Neibs: in wrap_centered mode, don't support image shapes smaller then the patch shapes: "
                     "neib_shape=(%zd,%zd), ten4[2:]=[%zd,%zd]",
                     (Py_ssize_t)rows->neib, (Py_ssize_t)columns->neib, (Py_ssize_t)rows->size,
                     (Py_ssize_t)columns->size);
        return -1;
    }
    return 0;
}

/* Read the arguments of Images2NeibsGrad: rows of a matrix, the four lengths of the images, neib_shape, neib_step.
 * `shape`: the shape of the matrix, or NULL if it is not a matrix. Store the lengths in `dims`. */
static int lay_out_images(PyObject **in, const npy_intp *shape, int64_t mode, npy_intp *dims, Line *rows, Line *columns)
{
    for (int i = 0; i < 4; ++i) {
        int64_t length;
        if (native_as_int64(in[1 + i], &length) < 0)
            return -1;
        if (length < 0) {
            PyErr_Format(PyExc_ValueError, "Images2NeibsGrad: the images cannot have length %lld along axis %d",
                         (long long)length, i);
            return -1;
        }
        dims[i] = (npy_intp)length;
    }
    rows->size = dims[2];
    columns->size = dims[3];
    if (lay_out_both(rows, columns, in[5], in[6], mode) < 0)
        return -1;
    npy_intp high = dims[0] * dims[1] * rows->grid * columns->grid, wide = rows->neib * columns->neib;
    if (shape != NULL && shape[0] == high && shape[1] == wide)
        return 0;
    PyObject *given = PyObject_GetAttrString(in[0], "shape");
    if (given != NULL)
        PyErr_Format(
            PyExc_ValueError,
            "Images2NeibsGrad: neibs has shape %R, expected (%zd, %zd) for images of shape (%zd, %zd, %zd, %zd)", given,
            (Py_ssize_t)high, (Py_ssize_t)wide, (Py_ssize_t)dims[0], (Py_ssize_t)dims[1], (Py_ssize_t)dims[2],
            (Py_ssize_t)dims[3]);
    Py_XDECREF(given);
    return -1;
}

#endif
