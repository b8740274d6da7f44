/* What every generated C++ module starts with. The compiler driver keeps it precompiled, so its size costs little.
 *
 * NumPy's deprecated interface stays on for Ops that reach into PyArrayObject; the flags' names of NumPy 1.6 and earlier, which
 * NumPy 2 dropped, are given back here.
 */
#ifndef THEANO_NG_MODULE_PROLOGUE_H
#define THEANO_NG_MODULE_PROLOGUE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>
#include <numpy/npy_math.h>
#include "kernel_prologue.h"

#ifndef NPY_C_CONTIGUOUS
#define NPY_C_CONTIGUOUS NPY_ARRAY_C_CONTIGUOUS
#define NPY_F_CONTIGUOUS NPY_ARRAY_F_CONTIGUOUS
#define NPY_CONTIGUOUS NPY_ARRAY_C_CONTIGUOUS
#define NPY_FORTRAN NPY_ARRAY_F_CONTIGUOUS
#define NPY_OWNDATA NPY_ARRAY_OWNDATA
#define NPY_FORCECAST NPY_ARRAY_FORCECAST
#define NPY_ENSURECOPY NPY_ARRAY_ENSURECOPY
#define NPY_ENSUREARRAY NPY_ARRAY_ENSUREARRAY
#define NPY_ELEMENTSTRIDES NPY_ARRAY_ELEMENTSTRIDES
#define NPY_ALIGNED NPY_ARRAY_ALIGNED
#define NPY_NOTSWAPPED NPY_ARRAY_NOTSWAPPED
#define NPY_WRITEABLE NPY_ARRAY_WRITEABLE
#define NPY_BEHAVED NPY_ARRAY_BEHAVED
#define NPY_CARRAY NPY_ARRAY_CARRAY
#define NPY_FARRAY NPY_ARRAY_FARRAY
#define NPY_DEFAULT NPY_ARRAY_CARRAY
#endif

/* For code that has failed without saying why. */
static inline void theano_ng_ensure_exception(void)
{
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_RuntimeError, "Unexpected error in an Op's C code. No Python exception was set.");
}

#endif
