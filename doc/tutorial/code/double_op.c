#section support_code_apply

static int APPLY_SPECIFIC(double_vector)(PyArrayObject *x, PyArrayObject **y) {
    npy_intp n = PyArray_DIMS(x)[0];
    if (*y == NULL || PyArray_DIMS(*y)[0] != n) {
        Py_XDECREF(*y);
        *y = (PyArrayObject *)PyArray_SimpleNew(1, &n, TYPENUM_OUTPUT_0);
        if (*y == NULL)
            return 1;   /* a Python exception is set */
    }
    for (npy_intp i = 0; i < n; i++)
        *(DTYPE_OUTPUT_0 *)PyArray_GETPTR1(*y, i) = 2 * *(DTYPE_INPUT_0 *)PyArray_GETPTR1(x, i);
    return 0;
}
