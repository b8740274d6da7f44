/* images2neibs copies image patches to the rows of a matrix (im2col); neibs_sum adds such rows to the patches
 * (col2im). */
#include "networks/windows.h"
#include <complex.h>

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
    Line rows, columns;
    (void)nin;
    (void)nout;
    if (lay_out_images(in, PyArray_NDIM(x) == 2 ? PyArray_DIMS(x) : NULL, params->mode, dims, &rows, &columns) < 0)
        return -1;
    npy_intp wide = rows.neib * columns.neib;
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
