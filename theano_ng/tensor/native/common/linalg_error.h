/* The exception for matrices that are singular, not positive definite or not square. */
#ifndef TNG_LINALG_ERROR_H
#define TNG_LINALG_ERROR_H

#include "native.h"
#include <stdarg.h>

/* Raise numpy.linalg.LinAlgError, which is also the class of SciPy's errors. Return -1. */
static inline int linalg_error(const char *format, ...)
{
    PyObject *module = PyImport_ImportModule("numpy.linalg");
    PyObject *class = module == NULL ? NULL : PyObject_GetAttrString(module, "LinAlgError");
    Py_XDECREF(module);
    if (class != NULL) {
        va_list arguments;
        va_start(arguments, format);
        PyErr_FormatV(class, format, arguments);
        va_end(arguments);
        Py_DECREF(class);
    }
    return -1;
}

#endif
