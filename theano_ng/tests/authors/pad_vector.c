#section support_code

/* Return the sources of all elements of the result, in new memory: indices of x, or -1 for the fill value. Return NULL
   after an error, with an exception set. */
static npy_intp *pad_vector_sources(npy_intp length, npy_intp before, npy_intp after, int mode)
{
    const npy_intp total = before + length + after;
    npy_intp *sources = (npy_intp *)malloc((total + 1) * sizeof(npy_intp));
    if (sources == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (npy_intp i = 0; i < total; i++) {
        npy_intp at = i - before;
        if (at >= 0 && at < length) {
            sources[i] = at;
        }
        else if (mode == CONSTANT) {
            sources[i] = -1;
        }
        else if (length == 0) {
            PyErr_SetString(PyExc_ValueError, "PadVector: an empty vector has elements only for the mode 'constant'");
            free(sources);
            return NULL;
        }
        else if (mode == NEAREST) {
            sources[i] = at < 0 ? 0 : length - 1;
        }
        else if (mode == WRAP) {
            at %= length;
            sources[i] = at < 0 ? at + length : at;
        }
        else {
            const npy_intp period = length > 1 ? 2 * (length - 1) : 1;
            at %= period;
            if (at < 0)
                at += period;
            sources[i] = at < length ? at : period - at;
        }
    }
    return sources;
}

#section support_code_apply

static int APPLY_SPECIFIC(pad_vector)(PyArrayObject *x, PyArrayObject **y, PARAMS_TYPE *params)
{
    const npy_intp length = PyArray_DIM(x, 0);
    npy_intp total = params->before + length + params->after;
    npy_intp *sources = pad_vector_sources(length, params->before, params->after, params->mode);
    if (sources == NULL)
        return 1;
    if (*y == NULL || PyArray_DIM(*y, 0) != total) {
        Py_XDECREF(*y);
        *y = (PyArrayObject *)PyArray_SimpleNew(1, &total, TYPENUM_OUTPUT_0);
        if (*y == NULL) {
            free(sources);
            return 1;
        }
    }
    for (npy_intp i = 0; i < total; i++) {
        DTYPE_OUTPUT_0 value = (DTYPE_OUTPUT_0)params->fill;
        if (sources[i] >= 0)
            value = *(DTYPE_INPUT_0 *)PyArray_GETPTR1(x, sources[i]);
        *(DTYPE_OUTPUT_0 *)PyArray_GETPTR1(*y, i) = value;
    }
    free(sources);
    return 0;
}
