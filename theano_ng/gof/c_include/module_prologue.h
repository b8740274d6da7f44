/* The beginning of every generated C++ module. The compiler driver keeps it precompiled, so its size costs little.
 *
 * NumPy's deprecated interface stays enabled for Ops that access members of PyArrayObject, and `numpy_1.h` restores
 * names that NumPy 2 removed. Modules never leave the machine on which they are compiled. So they need not support
 * NumPy 1, and can use the members of PyArray_Descr.
 */
#ifndef THEANO_NG_MODULE_PROLOGUE_H
#define THEANO_NG_MODULE_PROLOGUE_H

#define PY_SSIZE_T_CLEAN
#ifndef NPY_TARGET_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#endif
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* In C++, NumPy 2 declares complex numbers as ``double _Val[2];``, while NumPy 1 declared ``double real, imag;``. With
 * this macro, the structs have both kinds of members, in the same memory. The macro is expanded between the type of the
 * parts and ``[2];``. */
#define _Val                     \
    typedef npy_part;            \
    union {                      \
        struct {                 \
            npy_part real, imag; \
        };                       \
        npy_part _Val[2];        \
    };                           \
    typedef npy_part npy_parts
#include <numpy/npy_common.h>
#undef _Val
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>
#include <numpy/npy_math.h>
#include "numpy_1.h"
#include "kernel_prologue.h"

/* Sets an exception for code that has failed without setting one. */
static inline void theano_ng_ensure_exception(void)
{
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_RuntimeError, "Unexpected error in an Op's C code. No Python exception was set.");
}

#endif
