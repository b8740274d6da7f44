/* Native code of the Ops that copy, view, reshape, join, split, fill and describe arrays. */
#include "common/integer_inputs.h"
#include "common/strided.h"

/* ---------------------------------------------------------------- identity, copies, assertions */

/* ViewOp, OutputGuard: return the value itself. */
static int tng_view(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    Py_INCREF(in[0]);
    native_set(out, in[0]);
    return 0;
}

static int tng_deep_copy(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    PyArrayObject *x = (PyArrayObject *)in[0];
    if (out[0] != NULL && (out[0] == in[0] || strided_ranges_meet(x, (PyArrayObject *)out[0])))
        Py_CLEAR(out[0]);
    if (PyArray_ISNOTSWAPPED(x)) {
        int nd = PyArray_NDIM(x);
        PyArrayObject *z = native_alloc(out, nd, PyArray_DIMS(x), PyArray_TYPE(x));
        if (z == NULL)
            return -1;
        if (PyArray_IS_C_CONTIGUOUS(x))
            memcpy(PyArray_DATA(z), PyArray_DATA(x), (size_t)PyArray_NBYTES(x));
        else
            strided_copy(PyArray_ITEMSIZE(x), nd, PyArray_DIMS(x), PyArray_BYTES(z), PyArray_STRIDES(z),
                         PyArray_BYTES(x), PyArray_STRIDES(x));
        return 0;
    }
    PyObject *copy = PyArray_NewCopy(x, NPY_CORDER);
    if (copy == NULL)
        return -1;
    native_set(out, copy);
    return 0;
}

/* CpuContiguous: return the value itself, or a contiguous copy. The previous output is not reused, because it may be
 * the input of the previous call. */
static int tng_contiguous(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    PyArrayObject *x = (PyArrayObject *)in[0];
    if (PyArray_IS_C_CONTIGUOUS(x))
        return tng_view(nin, nout, in, out, NULL);
    PyArrayObject *z = native_new(PyArray_NDIM(x), PyArray_DIMS(x), PyArray_TYPE(x), 0);
    if (z == NULL)
        return -1;
    strided_copy(PyArray_ITEMSIZE(x), PyArray_NDIM(x), PyArray_DIMS(x), PyArray_BYTES(z), PyArray_STRIDES(z),
                 PyArray_BYTES(x), PyArray_STRIDES(x));
    native_set(out, (PyObject *)z);
    return 0;
}

/* Rebroadcast: check that the axes have length 1, and return the value itself. */
NATIVE_FUNCTION(rebroadcast, n_axes, axes[])
static int tng_rebroadcast(int nin, int nout, PyObject **in, PyObject **out, const struct rebroadcast_params *params)
{
    PyArrayObject *x = (PyArrayObject *)in[0];
    for (int64_t k = 0; k < params->n_axes; ++k) {
        int axis = (int)params->axes[k];
        if (PyArray_DIM(x, axis) != 1) {
            PyErr_Format(PyExc_ValueError, "Dimension %d in Rebroadcast's input was supposed to be 1 (got %zd instead)",
                         axis, (Py_ssize_t)PyArray_DIM(x, axis));
            return -1;
        }
    }
    return tng_view(nin, nout, in, out, NULL);
}

static int tng_specify_shape(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    PyArrayObject *x = (PyArrayObject *)in[0];
    npy_intp wanted[NPY_MAXDIMS];
    int n = read_integers(in[1], wanted, NPY_MAXDIMS, "SpecifyShape");
    if (n < 0)
        return -1;
    if (n != PyArray_NDIM(x)) {
        PyErr_Format(PyExc_AssertionError,
                     "SpecifyShape: vector of shape has %d elements, but the input has %d dimensions.", n,
                     PyArray_NDIM(x));
        return -1;
    }
    for (int i = 0; i < n; ++i)
        if (PyArray_DIM(x, i) != wanted[i]) {
            PyErr_Format(PyExc_AssertionError, "SpecifyShape: dim %d of input has shape %zd, expected %zd.", i,
                         (Py_ssize_t)PyArray_DIM(x, i), (Py_ssize_t)wanted[i]);
            return -1;
        }
    return tng_view(nin, nout, in, out, NULL);
}

/* Return 1 if a 0-d value is true, 0 if not, -1 with an exception set. */
static int is_true(PyObject *value)
{
    PyArrayObject *x = (PyArrayObject *)value;
    if (PyArray_Check(value) && PyArray_NDIM(x) == 0 && PyArray_ISBEHAVED_RO(x))
        switch (PyArray_TYPE(x)) {
        case NPY_BOOL:
        case NPY_INT8:
        case NPY_UINT8: return *(const npy_uint8 *)PyArray_DATA(x) != 0;
        case NPY_INT64: return *(const npy_int64 *)PyArray_DATA(x) != 0;
        default: break;
        }
    return PyObject_IsTrue(value);
}

/* Assert. Inputs: value, conditions. The message has `length` bytes; `error`: 0 AssertionError, 1 IndexError, 2
 * ValueError. */
NATIVE_FUNCTION(assert_true, error, length, n_message, message[])
static int tng_assert_true(int nin, int nout, PyObject **in, PyObject **out, const struct assert_true_params *params)
{
    for (int i = 1; i < nin; ++i) {
        int truth = is_true(in[i]);
        if (truth < 0)
            return -1;
        if (!truth) {
            Py_ssize_t room = (Py_ssize_t)(params->n_message * (int64_t)sizeof(int64_t)),
                       length = (Py_ssize_t)params->length;
            PyObject *message =
                PyUnicode_FromStringAndSize((const char *)params->message, length < room ? length : room);
            if (message != NULL) {
                PyObject *errors[] = {PyExc_AssertionError, PyExc_IndexError, PyExc_ValueError};
                PyErr_SetObject(errors[params->error], message);
                Py_DECREF(message);
            }
            return -1;
        }
    }
    return tng_view(nin, nout, in, out, NULL);
}

/* ---------------------------------------------------------------- shapes */

static int tng_shape(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    PyArrayObject *x = (PyArrayObject *)in[0];
    npy_intp nd = PyArray_NDIM(x);
    PyArrayObject *z = native_alloc(out, 1, &nd, NPY_INT64);
    if (z == NULL)
        return -1;
    npy_int64 *data = (npy_int64 *)PyArray_DATA(z);
    for (npy_intp i = 0; i < nd; ++i)
        data[i] = PyArray_DIM(x, (int)i);
    return 0;
}

NATIVE_FUNCTION(shape_i, axis)
static int tng_shape_i(int nin, int nout, PyObject **in, PyObject **out, const struct shape_i_params *params)
{
    PyArrayObject *x = (PyArrayObject *)in[0];
    if (params->axis >= PyArray_NDIM(x)) {
        PyErr_Format(PyExc_TypeError, "Number of dimensions lower than expected: dimension %d of an array with %d",
                     (int)params->axis, PyArray_NDIM(x));
        return -1;
    }
    PyArrayObject *z = native_alloc(out, 0, NULL, NPY_INT64);
    if (z == NULL)
        return -1;
    *(npy_int64 *)PyArray_DATA(z) = PyArray_DIM(x, (int)params->axis);
    return 0;
}

/* ---------------------------------------------------------------- scalars and 0-d tensors */

NATIVE_FUNCTION(tensor_from_scalar, type_number)
static int tng_tensor_from_scalar(int nin, int nout, PyObject **in, PyObject **out,
                                  const struct tensor_from_scalar_params *params)
{
    PyArrayObject *z = native_alloc(out, 0, NULL, (int)params->type_number);
    if (z == NULL)
        return -1;
    if (params->type_number == NPY_INT64 && PyArray_IsScalar(in[0], Int64)) {
        *(npy_int64 *)PyArray_DATA(z) = PyArrayScalar_VAL(in[0], Int64);
        return 0;
    }
    if (params->type_number == NPY_FLOAT64 && PyArray_IsScalar(in[0], Float64)) {
        *(npy_float64 *)PyArray_DATA(z) = PyArrayScalar_VAL(in[0], Float64);
        return 0;
    }
    return PyArray_SETITEM(z, PyArray_BYTES(z), in[0]);
}

static int tng_scalar_from_tensor(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    PyArrayObject *x = (PyArrayObject *)in[0];
    PyObject *scalar = PyArray_ToScalar(PyArray_DATA(x), x);
    if (scalar == NULL)
        return -1;
    native_set(out, scalar);
    return 0;
}

/* ---------------------------------------------------------------- reshape, flatten */

/* Write a shape as Python prints it, "(2, 3)", to a buffer. */
static const char *shape_text(char *buffer, size_t size, int nd, const npy_intp *dims)
{
    size_t used = (size_t)snprintf(buffer, size, "(");
    for (int i = 0; i < nd && used < size; ++i)
        used += (size_t)snprintf(buffer + used, size - used, i ? ", %zd" : "%zd", (Py_ssize_t)dims[i]);
    if (used < size)
        snprintf(buffer + used, size - used, nd == 1 ? ",)" : ")");
    return buffer;
}

/* Compute the strides of a view of x with the lengths `dims`, which contain no -1. The view has the same number of
 * elements as x, and this number is not 0. Return 1, or 0 if there is no such view. The old and the new dimensions are
 * divided into the smallest groups with equal products; the old dimensions of a group must be adjacent in memory. */
static int reshaped_strides(PyArrayObject *x, int nd, const npy_intp *dims, npy_intp *strides)
{
    npy_intp length[NPY_MAXDIMS], step[NPY_MAXDIMS];
    int old = 0;
    for (int i = 0; i < PyArray_NDIM(x); ++i)
        if (PyArray_DIM(x, i) != 1) {
            length[old] = PyArray_DIM(x, i);
            step[old++] = PyArray_STRIDE(x, i);
        }
    int from = 0, to = 0;
    while (from < old) {
        int from_end = from, to_end = to;
        npy_intp have = length[from_end++], want = dims[to_end++];
        while (have != want)
            if (have < want)
                have *= length[from_end++];
            else
                want *= dims[to_end++];
        for (int i = from; i + 1 < from_end; ++i)
            if (step[i] != step[i + 1] * length[i + 1])
                return 0;
        npy_intp stride = step[from_end - 1];
        for (int i = to_end - 1; i >= to; --i) {
            strides[i] = stride;
            stride *= dims[i];
        }
        from = from_end;
        to = to_end;
    }
    /* The remaining dimensions have length 1. */
    for (; to < nd; ++to)
        strides[to] = PyArray_ITEMSIZE(x);
    return 1;
}

/* Store x with the lengths `dims` in *out. `dims` contains no -1, and its product is the number of elements of x. The
 * result is a view if the layout of x allows it. */
static int set_reshaped(PyObject **out, PyArrayObject *x, int nd, npy_intp *dims)
{
    npy_intp strides[NPY_MAXDIMS];
    PyObject *z;
    if (PyArray_IS_C_CONTIGUOUS(x)) {
        npy_intp stride = PyArray_ITEMSIZE(x);
        for (int i = nd - 1; i >= 0; --i) {
            strides[i] = stride;
            stride *= dims[i] > 0 ? dims[i] : 1;
        }
        z = strided_view(x, nd, dims, strides, PyArray_BYTES(x));
    }
    else if (reshaped_strides(x, nd, dims, strides))
        z = strided_view(x, nd, dims, strides, PyArray_BYTES(x));
    else {
        z = (PyObject *)native_new(nd, dims, PyArray_TYPE(x), 0);
        if (z != NULL) {
            npy_intp stride = PyArray_ITEMSIZE(x);
            for (int i = PyArray_NDIM(x) - 1; i >= 0; --i) {
                strides[i] = stride;
                stride *= PyArray_DIM(x, i);
            }
            strided_copy(PyArray_ITEMSIZE(x), PyArray_NDIM(x), PyArray_DIMS(x), PyArray_BYTES((PyArrayObject *)z),
                         strides, PyArray_BYTES(x), PyArray_STRIDES(x));
        }
    }
    if (z == NULL)
        return -1;
    native_set(out, z);
    return 0;
}

/* Inputs: x; a vector of sizes, one of which may be -1. */
NATIVE_FUNCTION(reshape, ndim)
static int tng_reshape(int nin, int nout, PyObject **in, PyObject **out, const struct reshape_params *params)
{
    PyArrayObject *x = (PyArrayObject *)in[0];
    npy_intp dims[NPY_MAXDIMS], asked[NPY_MAXDIMS];
    int nd = read_integers(in[1], dims, NPY_MAXDIMS, "Reshape");
    if (nd < 0)
        return -1;
    if (nd != (int)params->ndim) {
        PyErr_Format(PyExc_ValueError, "shape argument to Reshape has incorrect length %d, should be %d", nd,
                     (int)params->ndim);
        return -1;
    }
    npy_intp size = PyArray_SIZE(x), known = 1;
    int unknown = -1, bad = 0;
    for (int i = 0; i < nd; ++i) {
        asked[i] = dims[i];
        if (dims[i] >= 0)
            bad |= __builtin_mul_overflow(known, dims[i], &known);
        else if (dims[i] == -1 && unknown < 0)
            unknown = i;
        else
            bad = 1;
    }
    if (!bad && unknown >= 0) {
        if (known == 0)
            bad = 1;
        else {
            dims[unknown] = size / known;
            bad = size % known != 0;
        }
    }
    else
        bad |= known != size;
    if (bad) {
        char from[600], to[600];
        PyErr_Format(PyExc_ValueError, "Cannot reshape input of shape %s to shape %s",
                     shape_text(from, sizeof from, PyArray_NDIM(x), PyArray_DIMS(x)),
                     shape_text(to, sizeof to, nd, asked));
        return -1;
    }
    return set_reshaped(out, x, nd, dims);
}

/* Keep the first ndim - 1 dimensions and merge the other dimensions. */
NATIVE_FUNCTION(flatten, ndim)
static int tng_flatten(int nin, int nout, PyObject **in, PyObject **out, const struct flatten_params *params)
{
    PyArrayObject *x = (PyArrayObject *)in[0];
    npy_intp dims[NPY_MAXDIMS];
    int nd = (int)params->ndim;
    for (int i = 0; i < nd - 1; ++i)
        dims[i] = PyArray_DIM(x, i);
    dims[nd - 1] = 1;
    for (int i = nd - 1; i < PyArray_NDIM(x); ++i)
        dims[nd - 1] *= PyArray_DIM(x, i);
    return set_reshaped(out, x, nd, dims);
}

/* ---------------------------------------------------------------- join, split */

/* Put an F-contiguous array into *out. Like native_alloc, keep the existing array if it fits. */
static PyArrayObject *alloc_fortran(PyObject **out, int nd, const npy_intp *dims, int type_num)
{
    PyArrayObject *old = (PyArrayObject *)*out;
    if (old != NULL && PyArray_CheckExact(*out) && PyArray_NDIM(old) == nd && PyArray_TYPE(old) == type_num
        && PyArray_ISBEHAVED(old) && PyArray_CompareLists(PyArray_DIMS(old), dims, nd)) {
        npy_intp expected = PyArray_ITEMSIZE(old);
        int k = 0;
        for (; k < nd && PyArray_STRIDE(old, k) == expected; ++k)
            expected *= dims[k] > 1 ? dims[k] : 1;
        if (k == nd)
            return old;
    }
    Py_CLEAR(*out);
    *out = (PyObject *)native_new(nd, dims, type_num, 1);
    return (PyArrayObject *)*out;
}

/* `view`: index of the tensor that is returned itself if all other tensors are empty, or -1.
 *
 * Inputs: axis, tensors. As in NumPy, the result is F-contiguous if all tensors are F-contiguous and at least one
 * tensor is not C-contiguous. Otherwise the result is C-contiguous. */
NATIVE_FUNCTION(join, view, type_number)
static int tng_join(int nin, int nout, PyObject **in, PyObject **out, const struct join_params *params)
{
    PyArrayObject **x = (PyArrayObject **)(in + 1);
    int n = nin - 1, nd = PyArray_NDIM(x[0]);
    if (params->view >= 0)
        Py_CLEAR(out[0]); /* do not overwrite the previous output: it may be an input of the previous call */
    int64_t axis;
    if (read_axis(in[0], nd, &axis, "Join") < 0)
        return -1;
    npy_intp dims[NPY_MAXDIMS];
    memcpy(dims, PyArray_DIMS(x[0]), (size_t)nd * sizeof *dims);
    int others_empty = params->view >= 0, c_order = PyArray_IS_C_CONTIGUOUS(x[0]),
        fortran = PyArray_IS_F_CONTIGUOUS(x[0]);
    if (params->view > 0)
        others_empty &= dims[axis] == 0;
    for (int i = 1; i < n; ++i) {
        for (int k = 0; k < nd; ++k)
            if (k != axis && PyArray_DIM(x[i], k) != dims[k]) {
                PyErr_Format(
                    PyExc_ValueError,
                    "all the input array dimensions for the concatenation axis must match exactly, but along dimension "
                    "%d, the array at index 0 has size %zd and the array at index %d has size %zd",
                    k, (Py_ssize_t)dims[k], i, (Py_ssize_t)PyArray_DIM(x[i], k));
                return -1;
            }
        if (i != params->view)
            others_empty &= PyArray_DIM(x[i], (int)axis) == 0;
        c_order &= PyArray_IS_C_CONTIGUOUS(x[i]);
        fortran &= PyArray_IS_F_CONTIGUOUS(x[i]);
        if (__builtin_add_overflow(dims[axis], PyArray_DIM(x[i], (int)axis), &dims[axis])) {
            PyErr_SetString(PyExc_ValueError, "Join: the result is larger than any array");
            return -1;
        }
    }
    if (others_empty) {
        Py_INCREF(x[params->view]);
        native_set(out, (PyObject *)x[params->view]);
        return 0;
    }
    fortran &= !c_order;
    PyArrayObject *z = (fortran ? alloc_fortran : native_alloc)(out, nd, dims, (int)params->type_number);
    if (z == NULL)
        return -1;
    /* A block is contiguous in the memory of every tensor. In C order, it consists of the dimensions from the axis to
     * the last dimension; in F order, of the dimensions from the first dimension to the axis. */
    npy_intp itemsize = PyArray_ITEMSIZE(z), outer = 1, inner = itemsize;
    for (int k = 0; k < nd; ++k)
        if (k != axis)
            *((k < axis) == !fortran ? &outer : &inner) *= dims[k];
    char *to = PyArray_BYTES(z);
    for (int i = 0; i < n; ++i) {
        npy_intp block = PyArray_DIM(x[i], (int)axis) * inner;
        if (PyArray_TYPE(x[i]) != PyArray_TYPE(z) || !PyArray_ISNOTSWAPPED(x[i])) {
            PyObject *part = strided_view(z, nd, PyArray_DIMS(x[i]), PyArray_STRIDES(z), to);
            int status = part == NULL ? -1 : PyArray_CopyInto((PyArrayObject *)part, x[i]);
            Py_XDECREF(part);
            if (status < 0)
                return -1;
        }
        else if (fortran || PyArray_IS_C_CONTIGUOUS(x[i])) {
            const char *from = PyArray_BYTES(x[i]);
            char *at = to;
            for (npy_intp k = 0; k < outer; ++k, at += dims[axis] * inner, from += block)
                memcpy(at, from, (size_t)block);
        }
        else
            strided_copy(itemsize, nd, PyArray_DIMS(x[i]), to, PyArray_STRIDES(z), PyArray_BYTES(x[i]),
                         PyArray_STRIDES(x[i]));
        to += block;
    }
    return 0;
}

/* Inputs: x; axis; a vector with the size of each output along the axis. Each output is a copy of a part of x. */
static int tng_split(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    PyArrayObject *x = (PyArrayObject *)in[0];
    int nd = PyArray_NDIM(x);
    int64_t axis;
    if (read_axis(in[1], nd, &axis, "Split") < 0)
        return -1;
    npy_intp *sizes = read_split(in[2], nout, PyArray_DIM(x, (int)axis)), dims[NPY_MAXDIMS];
    if (sizes == NULL)
        return -1;
    int status = -1;
    memcpy(dims, PyArray_DIMS(x), (size_t)nd * sizeof *dims);
    const char *from = PyArray_BYTES(x);
    for (int i = 0; i < nout; ++i) {
        dims[axis] = sizes[i];
        PyArrayObject *z = native_alloc(out + i, nd, dims, PyArray_TYPE(x));
        if (z == NULL)
            goto done;
        strided_copy(PyArray_ITEMSIZE(x), nd, dims, PyArray_BYTES(z), PyArray_STRIDES(z), from, PyArray_STRIDES(x));
        from += sizes[i] * PyArray_STRIDE(x, (int)axis);
    }
    status = 0;
done:
    PyMem_Free(sizes);
    return status;
}

/* ---------------------------------------------------------------- alloc, tile, permutations */

/* Inputs: value, sizes. */
NATIVE_FUNCTION(alloc, type_number)
static int tng_alloc(int nin, int nout, PyObject **in, PyObject **out, const struct alloc_params *params)
{
    PyArrayObject *value = (PyArrayObject *)in[0];
    npy_intp dims[NPY_MAXDIMS], from[NPY_MAXDIMS];
    int nd = nin - 1, missing = nd - PyArray_NDIM(value);
    if (read_sizes(nd, in + 1, dims, NPY_MAXDIMS, "Alloc") < 0)
        return -1;
    for (int i = 0; i < nd; ++i) {
        npy_intp length = i < missing ? 1 : PyArray_DIM(value, i - missing);
        from[i] = length == 1 ? 0 : PyArray_STRIDE(value, i - missing);
        if (length != 1 && length != dims[i]) {
            PyErr_Format(PyExc_ValueError,
                         "Alloc: could not broadcast the value: its dimension %d is %zd long, expected 1 or %zd",
                         i - missing, (Py_ssize_t)length, (Py_ssize_t)dims[i]);
            return -1;
        }
    }
    npy_intp itemsize = PyArray_ITEMSIZE(value);
    if (PyArray_SIZE(value) == 1) {
        const char *byte = PyArray_BYTES(value);
        int zero = 1;
        for (npy_intp i = 0; i < itemsize; ++i)
            zero &= byte[i] == 0;
        if (zero)
            return strided_zeros(out, nd, dims, (int)params->type_number) == NULL ? -1 : 0;
    }
    PyArrayObject *z = native_alloc(out, nd, dims, (int)params->type_number);
    if (z == NULL)
        return -1;
    strided_copy(itemsize, nd, dims, PyArray_BYTES(z), PyArray_STRIDES(z), PyArray_BYTES(value), from);
    return 0;
}

/* Return the sum of x over the axes in a bit mask. These axes keep length 1. */
static PyObject *sum_over(PyArrayObject *x, uint64_t axes)
{
    int type = PyArray_TYPE(x), naxes = 0;
    PyObject *axis = PyTuple_New(__builtin_popcountll(axes)), *sum = PyObject_GetAttrString((PyObject *)x, "sum"),
             *total = NULL;
    PyObject *dtype = (PyObject *)PyArray_DescrFromType(type == NPY_HALF ? NPY_FLOAT : type), *options = NULL,
             *none = PyTuple_New(0);
    for (int i = 0; axis != NULL && i < PyArray_NDIM(x); ++i)
        if (axes >> i & 1)
            PyTuple_SET_ITEM(axis, naxes++, PyLong_FromLong(i));
    if (axis != NULL && sum != NULL && dtype != NULL && none != NULL)
        options = Py_BuildValue("{s:O,s:O,s:O}", "axis", axis, "dtype", dtype, "keepdims", Py_True);
    if (options != NULL)
        total = PyObject_Call(sum, none, options);
    Py_XDECREF(none);
    Py_XDECREF(options);
    Py_XDECREF(dtype);
    Py_XDECREF(sum);
    Py_XDECREF(axis);
    if (total == NULL)
        return NULL;
    PyObject *result =
        PyArray_FromAny(total, PyArray_DescrFromType(type), 0, 0, NPY_ARRAY_CARRAY | NPY_ARRAY_FORCECAST, NULL);
    Py_DECREF(total);
    return result;
}

/* Sum x to a shape. Inputs: x, sizes. Each size is the length of the dimension of x, or 1 (sum over the dimension). */
static int tng_sum_to_shape(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    PyArrayObject *x = (PyArrayObject *)in[0];
    npy_intp dims[NPY_MAXDIMS];
    uint64_t axes = 0;
    if (read_sizes(nin - 1, in + 1, dims, NPY_MAXDIMS, "SumToShape") < 0)
        return -1;
    for (int i = 0; i < nin - 1; ++i) {
        if (dims[i] == PyArray_DIM(x, i))
            continue;
        if (dims[i] != 1) {
            PyErr_Format(PyExc_ValueError,
                         "SumToShape: dimension %d of x has length %zd and cannot be summed to length %zd; expected 1 "
                         "or the full length",
                         i, (Py_ssize_t)PyArray_DIM(x, i), (Py_ssize_t)dims[i]);
            return -1;
        }
        axes |= (uint64_t)1 << i;
    }
    if (!axes)
        return tng_view(nin, nout, in, out, NULL);
    PyObject *total = sum_over(x, axes);
    if (total == NULL)
        return -1;
    native_set(out, total);
    return 0;
}

/* Inputs: sizes. */
NATIVE_FUNCTION(alloc_empty, type_number)
static int tng_alloc_empty(int nin, int nout, PyObject **in, PyObject **out, const struct alloc_empty_params *params)
{
    npy_intp dims[NPY_MAXDIMS];
    if (read_sizes(nin, in, dims, NPY_MAXDIMS, "Alloc") < 0)
        return -1;
    return native_alloc(out, nin, dims, (int)params->type_number) == NULL ? -1 : 0;
}

/* Inputs: x; a vector with one number of repetitions for each dimension of the result. The result has at least as many
 * dimensions as x. */
NATIVE_FUNCTION(tile, ndim)
static int tng_tile(int nin, int nout, PyObject **in, PyObject **out, const struct tile_params *params)
{
    PyArrayObject *x = (PyArrayObject *)in[0];
    int nd = (int)params->ndim, pad = nd - PyArray_NDIM(x);
    npy_intp reps[NPY_MAXDIMS], dims[NPY_MAXDIMS], from[NPY_MAXDIMS], part[NPY_MAXDIMS];
    int given = read_integers(in[1], reps, NPY_MAXDIMS, "Tile");
    if (given < 0)
        return -1;
    if (given != nd) {
        PyErr_Format(PyExc_ValueError, "Tile: %d repetitions given, expected %d", given, nd);
        return -1;
    }
    for (int i = 0; i < nd; ++i) {
        if (reps[i] < 0) {
            PyErr_Format(PyExc_ValueError,
                         "Tile: repetitions must not be negative, but the repetition of dimension %d is %zd", i,
                         (Py_ssize_t)reps[i]);
            return -1;
        }
        part[i] = i < pad ? 1 : PyArray_DIM(x, i - pad);
        from[i] = i < pad ? 0 : PyArray_STRIDE(x, i - pad);
        if (__builtin_mul_overflow(reps[i], part[i], &dims[i])) {
            PyErr_SetString(PyExc_ValueError, "Tile: the result is larger than any array");
            return -1;
        }
    }
    PyArrayObject *z = native_alloc(out, nd, dims, PyArray_TYPE(x));
    if (z == NULL)
        return -1;
    if (PyArray_SIZE(z) == 0)
        return 0;
    npy_intp itemsize = PyArray_ITEMSIZE(z), *stride = PyArray_STRIDES(z);
    strided_copy(itemsize, nd, part, PyArray_BYTES(z), stride, PyArray_BYTES(x), from);
    /* The first corner of z contains x. For each dimension, from the last to the first, repeat the part of z that is
     * filled so far. This part consists of contiguous blocks, because the later dimensions are complete already. */
    for (int k = nd - 1; k >= 0; --k) {
        if (reps[k] == 1)
            continue;
        npy_intp at[NPY_MAXDIMS] = {0};
        char *data = PyArray_BYTES(z);
        for (int i = 0; i >= 0;) {
            strided_repeat(data, part[k] * stride[k], dims[k] * stride[k]);
            for (i = k - 1; i >= 0; --i) {
                data += stride[i];
                if (++at[i] < part[i])
                    break;
                data -= stride[i] * part[i];
                at[i] = 0;
            }
        }
    }
    return 0;
}

/* Permute one row of n items: z[i] = x[y[i]], or z[y[i]] = x[i] if `inverse`. Return n, or the position of an index
 * that is out of bounds. */
#define PERMUTE_AS(COPY)                               \
    for (npy_intp i = 0; i < n; ++i) {                 \
        npy_intp j = *(const npy_intp *)(y + i * sy);  \
        if (j < 0)                                     \
            j += n;                                    \
        if ((npy_uintp)j >= (npy_uintp)n)              \
            return i;                                  \
        const char *from = x + (inverse ? i : j) * sx; \
        char *to = z + (inverse ? j : i) * size;       \
        COPY;                                          \
    }                                                  \
    return n;

static npy_intp permute_row(npy_intp size, npy_intp n, char *z, const char *x, npy_intp sx, const char *y, npy_intp sy,
                            int inverse)
{
    switch (size) {
    case 1: PERMUTE_AS(memcpy(to, from, 1))
    case 2: PERMUTE_AS(memcpy(to, from, 2))
    case 4: PERMUTE_AS(memcpy(to, from, 4))
    case 8: PERMUTE_AS(memcpy(to, from, 8))
    default: PERMUTE_AS(memcpy(to, from, (size_t)size))
    }
}

/* Inputs: x, y, inverse. The rows of y (its last dimension) are permutations. The leading dimensions of x and y are
 * broadcast against each other. */
static int tng_permute_rows(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    PyArrayObject *x = (PyArrayObject *)in[0];
    int64_t inverse;
    if (native_as_int64(in[2], &inverse) < 0)
        return -1;
    PyArrayObject *y = (PyArrayObject *)PyArray_FROM_OTF(in[1], NPY_INTP, NPY_ARRAY_ALIGNED | NPY_ARRAY_FORCECAST);
    if (y == NULL)
        return -1;
    int nd = PyArray_NDIM(x), status = -1;
    npy_intp dims[NPY_MAXDIMS], at[NPY_MAXDIMS], sx[NPY_MAXDIMS], sy[NPY_MAXDIMS];
    for (int i = 0; i < nd; ++i) {
        npy_intp a = PyArray_DIM(x, i), b = PyArray_DIM(y, i);
        if (a != b && (i == nd - 1 || (a != 1 && b != 1))) {
            PyErr_Format(
                PyExc_ValueError,
                "PermuteRowElements: dimension %d of the values has length %zd, but the permutations have length %zd",
                i, (Py_ssize_t)a, (Py_ssize_t)b);
            goto done;
        }
        dims[i] = a == 1 ? b : a;
        sx[i] = a == 1 ? 0 : PyArray_STRIDE(x, i);
        sy[i] = b == 1 ? 0 : PyArray_STRIDE(y, i);
        at[i] = 0;
    }
    PyArrayObject *z = native_alloc(out, nd, dims, PyArray_TYPE(x));
    if (z == NULL)
        goto done;
    if (PyArray_SIZE(z) > 0) {
        npy_intp n = dims[nd - 1], size = PyArray_ITEMSIZE(x);
        const char *px = PyArray_BYTES(x), *py = PyArray_BYTES(y);
        char *pz = PyArray_BYTES(z);
        for (int k = 0; k >= 0; pz += n * size) {
            npy_intp bad = permute_row(size, n, pz, px, sx[nd - 1], py, sy[nd - 1], inverse != 0);
            if (bad < n) {
                PyErr_Format(PyExc_IndexError, "index out of bounds: %zd in a permutation of %zd elements",
                             (Py_ssize_t) * (const npy_intp *)(py + bad * sy[nd - 1]), (Py_ssize_t)n);
                goto done;
            }
            for (k = nd - 2; k >= 0; --k) {
                px += sx[k];
                py += sy[k];
                if (++at[k] < dims[k])
                    break;
                px -= sx[k] * dims[k];
                py -= sy[k] * dims[k];
                at[k] = 0;
            }
        }
    }
    status = 0;
done:
    Py_DECREF(y);
    return status;
}

static const NativeEntry entries[] = {
    {"view", tng_view},
    {"deep_copy", tng_deep_copy},
    {"contiguous", tng_contiguous},
    NATIVE_ENTRY(rebroadcast),
    {"specify_shape", tng_specify_shape},
    NATIVE_ENTRY(assert_true),
    {"shape", tng_shape},
    NATIVE_ENTRY(shape_i),
    NATIVE_ENTRY(tensor_from_scalar),
    {"scalar_from_tensor", tng_scalar_from_tensor},
    NATIVE_ENTRY(reshape),
    NATIVE_ENTRY(flatten),
    NATIVE_ENTRY(join),
    {"split", tng_split},
    NATIVE_ENTRY(alloc),
    NATIVE_ENTRY(alloc_empty),
    {"sum_to_shape", tng_sum_to_shape},
    NATIVE_ENTRY(tile),
    {"permute_rows", tng_permute_rows},
    {NULL},
};
NATIVE_MODULE(shape, entries)
