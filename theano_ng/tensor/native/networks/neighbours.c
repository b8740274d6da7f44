/* images2neibs copies image patches to the rows of a matrix (im2col); neibs_sum adds such rows to the patches
 * (col2im). */
#include "native.h"
#include <complex.h>

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

/* Return the index of a position along an image dimension. If the position is outside the image, wrap it around if
 * `wraps`, else return -1. */
static inline npy_intp place(const Line *line, npy_intp at, int wraps)
{
    if (at >= 0 && at < line->size)
        return at;
    return wraps ? (at < 0 ? at + line->size : at - line->size) : -1;
}

/* Copy the patches of one image (strides in bytes) to rows. */
#define DEFINE_GATHER(T)                                                                              \
    static void gather_##T(const char *image, npy_intp row_stride, npy_intp stride, const Line *rows, \
                           const Line *columns, int wraps, char *out_)                                \
    {                                                                                                 \
        T *out = (T *)out_;                                                                           \
        for (npy_intp i = 0; i < rows->grid; ++i)                                                     \
            for (npy_intp j = 0; j < columns->grid; ++j)                                              \
                for (npy_intp r = 0; r < rows->neib; ++r) {                                           \
                    npy_intp y = place(rows, rows->first + i * rows->step + r, wraps),                \
                             x = columns->first + j * columns->step;                                  \
                    const char *line = image + y * row_stride;                                        \
                    if (y >= 0 && x >= 0 && x + columns->neib <= columns->size) {                     \
                        line += x * stride;                                                           \
                        for (npy_intp c = 0; c < columns->neib; ++c)                                  \
                            *out++ = *(const T *)(line + c * stride);                                 \
                        continue;                                                                     \
                    }                                                                                 \
                    for (npy_intp c = 0; c < columns->neib; ++c) {                                    \
                        npy_intp at = y < 0 ? -1 : place(columns, x + c, wraps);                      \
                        *out++ = at < 0 ? (T)0 : *(const T *)(line + at * stride);                    \
                    }                                                                                 \
                }                                                                                     \
    }
typedef double complex item16;
DEFINE_GATHER(npy_uint8)
DEFINE_GATHER(npy_uint16)
DEFINE_GATHER(npy_uint32)
DEFINE_GATHER(npy_uint64)
DEFINE_GATHER(item16)

/* Inputs: images (4 dimensions), neib_shape, neib_step. */
NATIVE_FUNCTION(images2neibs, mode)
static int tng_images2neibs(int nin, int nout, PyObject **in, PyObject **out, const struct images2neibs_params *params)
{
    PyArrayObject *x = (PyArrayObject *)in[0];
    (void)nin;
    (void)nout;
    if (PyArray_NDIM(x) != 4) {
        PyErr_SetString(PyExc_TypeError, "Images2Neibs: ten4 must have 4 dimensions");
        return -1;
    }
    Line rows = {.size = PyArray_DIM(x, 2)}, columns = {.size = PyArray_DIM(x, 3)};
    if (lay_out_both(&rows, &columns, in[1], in[2], params->mode) < 0)
        return -1;
    npy_intp images = PyArray_DIM(x, 0) * PyArray_DIM(x, 1);
    npy_intp dims[2] = {images * rows.grid * columns.grid, rows.neib * columns.neib};
    PyArrayObject *z = native_alloc(out, 2, dims, PyArray_TYPE(x));
    if (z == NULL)
        return -1;
    if (PyArray_SIZE(z) == 0)
        return 0;
    npy_intp item = PyArray_ITEMSIZE(x), step = rows.grid * columns.grid * dims[1] * item;
    char *to = PyArray_DATA(z);
    int wraps = params->mode == WRAP_CENTERED;
    for (npy_intp n = 0; n < PyArray_DIM(x, 0); ++n)
        for (npy_intp c = 0; c < PyArray_DIM(x, 1); ++c, to += step)
            (item == 1   ? gather_npy_uint8
             : item == 2 ? gather_npy_uint16
             : item == 4 ? gather_npy_uint32
             : item == 8 ? gather_npy_uint64
                         : gather_item16)(PyArray_BYTES(x) + n * PyArray_STRIDE(x, 0) + c * PyArray_STRIDE(x, 1),
                                          PyArray_STRIDE(x, 2), PyArray_STRIDE(x, 3), &rows, &columns, wraps, to);
    return 0;
}

/* Add rows to their patches in one image. */
#define DEFINE_SCATTER(T)                                                                                     \
    static void scatter_##T(const char *from_, const Line *rows, const Line *columns, int wraps, char *image) \
    {                                                                                                         \
        const T *from = (const T *)from_;                                                                     \
        for (npy_intp i = 0; i < rows->grid; ++i)                                                             \
            for (npy_intp j = 0; j < columns->grid; ++j)                                                      \
                for (npy_intp r = 0; r < rows->neib; ++r, from += columns->neib) {                            \
                    npy_intp y = place(rows, rows->first + i * rows->step + r, wraps),                        \
                             x = columns->first + j * columns->step;                                          \
                    if (y < 0)                                                                                \
                        continue;                                                                             \
                    T *line = (T *)image + y * columns->size;                                                 \
                    if (x >= 0 && x + columns->neib <= columns->size) {                                       \
                        for (npy_intp c = 0; c < columns->neib; ++c)                                          \
                            line[x + c] += from[c];                                                           \
                        continue;                                                                             \
                    }                                                                                         \
                    for (npy_intp c = 0; c < columns->neib; ++c) {                                            \
                        npy_intp at = place(columns, x + c, wraps);                                           \
                        if (at >= 0)                                                                          \
                            line[at] += from[c];                                                              \
                    }                                                                                         \
                }                                                                                             \
    }
typedef float complex complex64;
typedef double complex complex128;
DEFINE_SCATTER(npy_uint8)
DEFINE_SCATTER(npy_uint16)
DEFINE_SCATTER(npy_uint32)
DEFINE_SCATTER(npy_uint64)
DEFINE_SCATTER(npy_float32)
DEFINE_SCATTER(npy_float64)
DEFINE_SCATTER(complex64)
DEFINE_SCATTER(complex128)

typedef void (*scatter_fn)(const char *, const Line *, const Line *, int, char *);

static scatter_fn find_scatter(int type, npy_intp item)
{
    switch (type) {
    case NPY_FLOAT32: return scatter_npy_float32;
    case NPY_FLOAT64: return scatter_npy_float64;
    case NPY_COMPLEX64: return scatter_complex64;
    case NPY_COMPLEX128: return scatter_complex128;
    default:
        /* Sums of signed and unsigned integers have the same bits, so both kinds of integers share the functions. */
        if (!PyTypeNum_ISINTEGER(type))
            return NULL;
        return item == 1   ? scatter_npy_uint8
               : item == 2 ? scatter_npy_uint16
               : item == 4 ? scatter_npy_uint32
                           : scatter_npy_uint64;
    }
}

/* Inputs: rows (matrix), the four lengths of the images, neib_shape, neib_step. */
NATIVE_FUNCTION(neibs_sum, mode)
static int tng_neibs_sum(int nin, int nout, PyObject **in, PyObject **out, const struct neibs_sum_params *params)
{
    PyArrayObject *x = (PyArrayObject *)in[0];
    npy_intp dims[4];
    (void)nin;
    (void)nout;
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
    Line rows = {.size = dims[2]}, columns = {.size = dims[3]};
    if (lay_out_both(&rows, &columns, in[5], in[6], params->mode) < 0)
        return -1;
    npy_intp high = dims[0] * dims[1] * rows.grid * columns.grid, wide = rows.neib * columns.neib;
    if (PyArray_NDIM(x) != 2 || PyArray_DIM(x, 0) != high || PyArray_DIM(x, 1) != wide) {
        PyObject *shape = PyObject_GetAttrString(in[0], "shape");
        if (shape != NULL)
            PyErr_Format(
                PyExc_ValueError,
                "Images2NeibsGrad: neibs has shape %R, expected (%zd, %zd) for images of shape (%zd, %zd, %zd, %zd)",
                shape, (Py_ssize_t)high, (Py_ssize_t)wide, (Py_ssize_t)dims[0], (Py_ssize_t)dims[1],
                (Py_ssize_t)dims[2], (Py_ssize_t)dims[3]);
        Py_XDECREF(shape);
        return -1;
    }
    scatter_fn scatter = find_scatter(PyArray_TYPE(x), PyArray_ITEMSIZE(x));
    if (scatter == NULL) {
        PyErr_Format(PyExc_TypeError, "Images2NeibsGrad: no code for NumPy type number %d", PyArray_TYPE(x));
        return -1;
    }
    PyArrayObject *z = native_alloc(out, 4, dims, PyArray_TYPE(x));
    PyArrayObject *from =
        z == NULL ? NULL : (PyArrayObject *)PyArray_FROM_OTF(in[0], PyArray_TYPE(x), NPY_ARRAY_CARRAY_RO);
    if (from == NULL)
        return -1;
    memset(PyArray_DATA(z), 0, (size_t)PyArray_NBYTES(z));
    npy_intp item = PyArray_ITEMSIZE(z), images = dims[0] * dims[1];
    for (npy_intp i = 0; i < images; ++i)
        scatter(PyArray_BYTES(from) + i * rows.grid * columns.grid * wide * item, &rows, &columns,
                params->mode == WRAP_CENTERED, PyArray_BYTES(z) + i * rows.size * columns.size * item);
    Py_DECREF(from);
    return 0;
}

static const NativeEntry entries[] = {NATIVE_ENTRY(images2neibs), NATIVE_ENTRY(neibs_sum), {NULL}};
NATIVE_MODULE(neighbours, entries)
