/* What every generated C++ module starts with. The compiler driver keeps it precompiled, so its size costs little.
 *
 * NumPy's deprecated interface stays on for Ops that reach into PyArrayObject, and `numpy_1.h` gives names back that NumPy 2 dropped.
 * Modules never leave the machine they are compiled on, so they need not run on NumPy 1 too: that gives them the members of PyArray_Descr.
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
/* In C++ NumPy 2 declares complex numbers as ``double _Val[2];``, NumPy 1 had ``double real, imag;``. They shall have both, in the same
 * memory: what follows continues a declaration that begins with the type of the parts and ends in ``[2];``.
 */
#define _Val typedef npy_part; union { struct { npy_part real, imag; }; npy_part _Val[2]; }; typedef npy_part npy_parts
#include <numpy/npy_common.h>
#undef _Val
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>
#include <numpy/npy_math.h>
#include "numpy_1.h"
#include "kernel_prologue.h"

/* For code that has failed without saying why. */
static inline void theano_ng_ensure_exception(void)
{
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_RuntimeError, "Unexpected error in an Op's C code. No Python exception was set.");
}

#endif
