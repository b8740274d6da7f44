#section support_code

// A vector that is written from front to back: the address of its next element, and its stride in bytes.
typedef struct {
    char *place;
    npy_intp step;
} Writer;

#section support_code_apply

static void APPLY_SPECIFIC(put)(Writer *to, DTYPE_OUTPUT_0 value)
{
    *(DTYPE_OUTPUT_0 *)to->place = value;
    to->place += to->step;
}

int APPLY_SPECIFIC(interleave)(PyArrayObject *even, PyArrayObject *odd, PyArrayObject **both)
{
    npy_intp pairs = PyArray_DIM(even, 0), total = 2 * pairs;
    if (PyArray_DIM(odd, 0) != pairs) {
        PyErr_Format(PyExc_ValueError, "interleave: %zd elements and %zd", (Py_ssize_t)pairs,
                     (Py_ssize_t)PyArray_DIM(odd, 0));
        return 1;
    }
    if (*both == NULL || PyArray_DIM(*both, 0) != total) {
        Py_XSETREF(*both, (PyArrayObject *)PyArray_SimpleNew(1, &total, TYPENUM_OUTPUT_0));
        if (*both == NULL)
            return 1;
    }
    Writer to = {PyArray_BYTES(*both), PyArray_STRIDE(*both, 0)};
    for (npy_intp k = 0; k < pairs; ++k) {
        APPLY_SPECIFIC(put)
        (&to, *(DTYPE_INPUT_0 *)PyArray_GETPTR1(even, k));
        APPLY_SPECIFIC(put)
        (&to, ((DTYPE_INPUT_1 *)PyArray_DATA(odd))[k * (PyArray_STRIDE(odd, 0) / ITEMSIZE_INPUT_1)]);
    }
    return 0;
}
