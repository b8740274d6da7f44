#section support_code

/* Products of an element and a real number, which has the precision of the element. The product of two complex numbers
   would be NaN for infinite parts. */
static inline npy_float32 haar_scaled(npy_float32 value, double scale)
{
    return value * (npy_float32)scale;
}

static inline npy_float64 haar_scaled(npy_float64 value, double scale)
{
    return value * scale;
}

static inline npy_complex64 haar_scaled(npy_complex64 value, double scale)
{
    value.real = value.real * (npy_float32)scale;
    value.imag = value.imag * (npy_float32)scale;
    return value;
}

static inline npy_complex128 haar_scaled(npy_complex128 value, double scale)
{
    value.real = value.real * scale;
    value.imag = value.imag * scale;
    return value;
}

#section support_code_apply

/* One step of the transform of the first elements of a row. `half` is scratch memory for half as many elements. */
static void APPLY_SPECIFIC(forward)(DTYPE_INPUT_0 *row, DTYPE_INPUT_0 *half, npy_intp length, double scale)
{
    const npy_intp pairs = length / 2;
    for (npy_intp i = 0; i < pairs; i++) {
        const DTYPE_INPUT_0 even = row[2 * i], odd = row[2 * i + 1];
        half[i] = haar_scaled(even - odd, scale);
        row[i] = haar_scaled(even + odd, scale);
    }
    for (npy_intp i = 0; i < pairs; i++)
        row[pairs + i] = half[i];
}

/* The inverse step. */
static void APPLY_SPECIFIC(backward)(DTYPE_INPUT_0 *row, DTYPE_INPUT_0 *half, npy_intp length, double scale)
{
    const npy_intp pairs = length / 2;
    for (npy_intp i = 0; i < pairs; i++)
        half[i] = row[pairs + i];
    for (npy_intp i = pairs - 1; i >= 0; i--) {
        const DTYPE_INPUT_0 sum = row[i], difference = half[i];
        row[2 * i + 1] = haar_scaled(sum - difference, scale);
        row[2 * i] = haar_scaled(sum + difference, scale);
    }
}

static int APPLY_SPECIFIC(haar_transform)(PyArrayObject *x, PyArrayObject **y, PARAMS_TYPE *params)
{
    const npy_intp rows = PyArray_DIM(x, 0), columns = PyArray_DIM(x, 1);
    const int levels = (int)params->levels;
    double scale = 0.70710678118654752440;
    if (params->norm == AVERAGE)
        scale = params->inverse ? 1.0 : 0.5;
    else if (params->norm == SUM)
        scale = params->inverse ? 0.5 : 1.0;
    if (columns % ((npy_intp)1 << levels) != 0) {
        PyErr_Format(PyExc_ValueError, "HaarTransform: rows of %zd elements cannot be halved %d times",
                     (Py_ssize_t)columns, levels);
        return 1;
    }
    /* A row, and scratch memory for half a row. */
    npy_intp size = columns + columns / 2;
    PyArrayObject *memory = (PyArrayObject *)PyArray_ZEROS(1, &size, TYPENUM_INPUT_0, 0);
    if (memory == NULL)
        return 1;
    if (params->inplace) {
        Py_INCREF(x);
        Py_XDECREF(*y);
        *y = x;
    }
    else if (*y == NULL || PyArray_DIM(*y, 0) != rows || PyArray_DIM(*y, 1) != columns) {
        Py_XDECREF(*y);
        *y = (PyArrayObject *)PyArray_SimpleNew(2, PyArray_DIMS(x), TYPENUM_OUTPUT_0);
        if (*y == NULL) {
            Py_DECREF(memory);
            return 1;
        }
    }
    DTYPE_INPUT_0 *row = (DTYPE_INPUT_0 *)PyArray_DATA(memory), *half = row + columns;
    for (npy_intp i = 0; i < rows; i++) {
        for (npy_intp j = 0; j < columns; j++)
            row[j] = *(DTYPE_INPUT_0 *)PyArray_GETPTR2(x, i, j);
        for (int level = 0; level < levels; level++) {
            if (params->inverse)
                APPLY_SPECIFIC(backward)(row, half, columns >> (levels - 1 - level), scale);
            else
                APPLY_SPECIFIC(forward)(row, half, columns >> level, scale);
        }
        for (npy_intp j = 0; j < columns; j++)
            *(DTYPE_OUTPUT_0 *)PyArray_GETPTR2(*y, i, j) = row[j];
    }
    Py_DECREF(memory);
    return 0;
}
