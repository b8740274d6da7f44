#section support_code

static bool vector_same_shape(PyArrayObject *a, PyArrayObject *b)
{
    return PyArray_DIMS(a)[0] == PyArray_DIMS(b)[0];
}

#section support_code_apply

static void APPLY_SPECIFIC(multiply)(DTYPE_INPUT_0 *x, npy_intp x_step, DTYPE_INPUT_1 *y, npy_intp y_step,
                                     DTYPE_OUTPUT_0 *z, npy_intp z_step, npy_intp n)
{
    for (npy_intp i = 0; i < n; i++)
        z[i * z_step] = x[i * x_step] * y[i * y_step];
}

int APPLY_SPECIFIC(vector_times_vector)(PyArrayObject *input0, PyArrayObject *input1, PyArrayObject **output0)
{
    if (!vector_same_shape(input0, input1)) {
        PyErr_Format(PyExc_ValueError,
                     "Shape mismatch : input0.shape[0] and input1.shape[0] should match but x.shape[0] == %i and "
                     "y.shape[0] == %i",
                     (int)PyArray_DIMS(input0)[0], (int)PyArray_DIMS(input1)[0]);
        return 1;
    }
    if (*output0 == NULL || !vector_same_shape(input0, *output0)) {
        Py_XDECREF(*output0);
        *output0 = (PyArrayObject *)PyArray_EMPTY(1, PyArray_DIMS(input0), TYPENUM_OUTPUT_0, 0);
        if (*output0 == NULL) {
            PyErr_Format(PyExc_ValueError, "Could not allocate output storage");
            return 1;
        }
    }
    APPLY_SPECIFIC(multiply)
    ((DTYPE_INPUT_0 *)PyArray_DATA(input0), PyArray_STRIDES(input0)[0] / ITEMSIZE_INPUT_0,
     (DTYPE_INPUT_1 *)PyArray_DATA(input1), PyArray_STRIDES(input1)[0] / ITEMSIZE_INPUT_1,
     (DTYPE_OUTPUT_0 *)PyArray_DATA(*output0), PyArray_STRIDES(*output0)[0] / ITEMSIZE_OUTPUT_0,
     PyArray_DIMS(input0)[0]);
    return 0;
}
