"""Tests of C code written for Theano 1.0 and NumPy 1: it compiles and runs unchanged, except for the import.

This file runs on Theano 1.0 if `theano_ng` is replaced by `theano`.
"""

import os
import shutil
import tempfile
import unittest

import numpy as np

import theano_ng as theano
from theano_ng import gof
from theano_ng import tensor as T
from theano_ng.gof import EnumList, ParamsType
from theano_ng.scalar import Scalar

IN_C = theano.Mode("c|py", None)


class CopyThen(gof.Op):
    """An Op that copies its input x to its output z, then runs C code on these arrays and their data xd and zd."""

    __props__ = ("code", "headers")

    def __init__(self, code, headers=()):
        self.code, self.headers = code, tuple(headers)

    def make_node(self, x):
        x = T.as_tensor_variable(x)
        return gof.Apply(self, [x], [x.type()])

    def c_headers(self):
        return list(self.headers)

    def c_code_cache_version(self):
        return (1,)

    def c_code(self, node, name, inputs, outputs, sub):
        return """
        Py_XDECREF(%(z)s);
        %(z)s = (PyArrayObject*) PyArray_NewCopy(%(x)s, NPY_ANYORDER);
        if (%(z)s == NULL) {
            %(fail)s
        }
        {
            PyArrayObject *x = %(x)s, *z = %(z)s;
            dtype_%(x)s *xd = (dtype_%(x)s*) PyArray_DATA(x);
            dtype_%(z)s *zd = (dtype_%(z)s*) PyArray_DATA(z);
            %(code)s
        }
        """ % dict(x=inputs[0], z=outputs[0], fail=sub["fail"], code=self.code)


def run(code, value=(1.0, 2.0, 3.0), headers=(), dtype="float64"):
    value = np.asarray(value, dtype)
    x = T.TensorType(dtype, (False,) * value.ndim)("x")
    return theano.function([x], CopyThen(code, headers)(x), mode=IN_C)(value)


@unittest.skipUnless(theano.config.cxx, "needs a C++ compiler")
class TestNumPy1(unittest.TestCase):
    def test_members_of_descriptors(self):
        got = run(
            """
            zd[0] = PyArray_DESCR(x)->elsize * 100 + PyArray_DESCR(x)->alignment;
            zd[1] = PyArray_DESCR(x)->type_num == NPY_DOUBLE && PyArray_DESCR(x)->kind == 'f' && PyArray_DESCR(x)->type == 'd';
            zd[2] = PyArray_DESCR(x)->byteorder == '=' && !PyDataType_HASFIELDS(PyArray_DESCR(x))
                    && !PyDataType_FLAGCHK(PyArray_DESCR(x), NPY_NEEDS_INIT) && PyArray_DESCR(x)->flags == 0;
            """
        )
        self.assertEqual(got.tolist(), [808, 1, 1])

    def test_flags_and_arrays_from_c(self):
        got = run(
            """
            npy_intp dims[1] = {3};
            PyArrayObject *a = (PyArrayObject*) PyArray_New(&PyArray_Type, 1, dims, NPY_DOUBLE, NULL, NULL, 0, NPY_ARRAY_CARRAY, NULL);
            PyArrayObject *b = (PyArrayObject*) PyArray_FROM_OTF((PyObject*)x, NPY_DOUBLE, NPY_ARRAY_IN_ARRAY);
            PyArrayObject *c = (PyArrayObject*) PyArray_SimpleNew(1, dims, NPY_DOUBLE);
            PyArrayObject *d = (PyArrayObject*) PyArray_EMPTY(1, dims, NPY_DOUBLE, 0);
            PyArrayObject *e = (PyArrayObject*) PyArray_ContiguousFromObject((PyObject*)x, NPY_DOUBLE, 1, 1);
            PyArray_CopyInto(a, b);
            PyArray_CastTo(c, x);
            PyArray_MoveInto(d, x);
            for (int i = 0; i < 3; i++)
                zd[i] = ((npy_double*)PyArray_DATA(a))[i] * 1000 + ((npy_double*)PyArray_DATA(c))[i] * 100
                        + ((npy_double*)PyArray_DATA(d))[i] * 10 + ((npy_double*)PyArray_DATA(e))[i];
            Py_DECREF(a); Py_DECREF(b); Py_DECREF(c); Py_DECREF(d); Py_DECREF(e);
            PyArray_UpdateFlags(z, NPY_ARRAY_UPDATE_ALL);
            if (!PyArray_CHKFLAGS(z, NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE | NPY_ARRAY_OWNDATA) || !PyArray_ISCARRAY(z))
                zd[0] = -1;
            """
        )
        self.assertEqual(got.tolist(), [1111, 2222, 3333])

    def test_copy_and_transpose(self):
        got = run(
            """
            PyArrayObject *t = (PyArrayObject*) PyArray_CopyAndTranspose((PyObject*)x);
            if (PyArray_ISCARRAY(t))
                for (int i = 0; i < 4; i++)
                    zd[i] = ((npy_double*)PyArray_DATA(t))[i];
            Py_DECREF(t);
            """,
            [[1, 2], [3, 4]],
        )
        self.assertEqual(got.tolist(), [[1, 3], [2, 4]])

    def test_iterators_items_and_numbers(self):
        got = run(
            """
            npy_double total = 0;
            PyArrayIterObject *it = (PyArrayIterObject*) PyArray_IterNew((PyObject*)x);
            while (it->index < it->size) {
                total += *(npy_double*)it->dataptr;
                PyArray_ITER_NEXT(it);
            }
            zd[0] = total + it->nd_m1;
            Py_DECREF(it);
            PyObject *item = PyArray_GETITEM(x, PyArray_BYTES(x) + PyArray_STRIDES(x)[0]);
            PyArray_SETITEM(z, (char*) PyArray_GETPTR1(z, 1), item);
            Py_DECREF(item);
            zd[2] = PyArray_MAX(PyArray_NDIM(x), 2) + PyArray_REFCOUNT(x) * 0 + PyTypeNum_ISFLOAT(PyArray_TYPE(x)) + 1;
            NPY_BEGIN_THREADS_DEF;
            NPY_BEGIN_THREADS;
            NPY_END_THREADS;
            """
        )
        self.assertEqual(got.tolist(), [6, 2, 4])

    def test_names_without_prefix(self):
        got = run(
            """
            intp n = PyArray_DIMS(x)[0];
            Bool yes = TRUE;
            Float64 half = 0.5;
            Int32 top = MAX_INT32;
            BEGIN_THREADS_DEF
            BEGIN_THREADS
            for (intp i = 0; i < MIN(n, MAX_DIMS); i++)
                zd[i] = xd[i] * half + (top == NPY_MAX_INT32) + yes * 10;
            END_THREADS
            """,
            headers=["<numpy/noprefix.h>"],
        )
        self.assertEqual(got.tolist(), [11.5, 12.0, 12.5])

    def test_parts_of_complex_numbers(self):
        got = run(
            """
            npy_complex128 w = {1., 2.}, *v = (npy_complex128*) PyArray_DATA(z);
            npy_complex128 sum = {0., 0.};
            for (npy_intp i = 0; i < PyArray_DIMS(x)[0]; i++) {
                npy_double real = v[i].real * w.real - v[i].imag * w.imag;
                v[i].imag = v[i].real * w.imag + v[i].imag * w.real;
                v[i].real = real;
                sum.real += v[i].real;
            }
            v[1] = sum;
            """,
            [1j, 2, 3],
            dtype="complex128",
        )
        self.assertEqual(got.tolist(), [-2 + 1j, 3, 3 + 6j])


class WithParams(gof.COp):
    """An Op that computes ``scale * (x + table[choice])``. Its params are two scalars, a tensor and an enum."""

    __props__ = ("scale", "table", "choice", "half")
    params_type = ParamsType(
        scale=Scalar("float32"),
        table=T.TensorType("int32", (False,)),
        choice=EnumList("FIRST", "SECOND"),
        half=Scalar("float64"),
    )

    def __init__(self, path, choice):
        self.table = (3, 5)
        self.scale, self.choice, self.half = 2.0, choice, 0.5
        super().__init__(path, "APPLY_SPECIFIC(shifted)")

    def get_params(self, node):
        return self.params_type.get_params(self, table=np.asarray(self.table, "int32"))

    def make_node(self, x):
        x = T.as_tensor_variable(x)
        return gof.Apply(self, [x], [x.type()])


TEXT = """
#section support_code_apply
int APPLY_SPECIFIC(shifted)(PyArrayObject *x, PyArrayObject **z, PARAMS_TYPE *params) {
    DTYPE_PARAM_scale scale = params->scale;
    DTYPE_PARAM_table *table = (DTYPE_PARAM_table*) PyArray_DATA(params->table);
    DTYPE_PARAM_half half = params->half;
    npy_intp n = PyArray_DIMS(x)[0];
    if (sizeof(DTYPE_PARAM_table) != 4 || sizeof(DTYPE_PARAM_scale) != 4 || sizeof(DTYPE_PARAM_half) != 8
            || PyArray_DESCR(params->table)->elsize != 4) {
        PyErr_SetString(PyExc_TypeError, "wrong element types");
        return 1;
    }
    if (*z == NULL || PyArray_DIMS(*z)[0] != n) {
        Py_XDECREF(*z);
        *z = (PyArrayObject*) PyArray_SimpleNew(1, &n, TYPENUM_OUTPUT_0);
        if (*z == NULL)
            return 1;
    }
    for (npy_intp i = 0; i < n; i++)
        *(DTYPE_OUTPUT_0*) PyArray_GETPTR1(*z, i) =
            scale * (*(DTYPE_INPUT_0*) PyArray_GETPTR1(x, i) + table[params->choice == SECOND]) + half;
    return 0;
}
"""


class TestParams(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    @unittest.skipUnless(theano.config.cxx, "needs a C++ compiler")
    def test_element_types_of_params(self):
        path = os.path.join(self.folder, "shifted.c")
        with open(path, "w") as file:
            file.write(TEXT)
        x = T.fvector("x")
        for choice, expected in ((0, [8.5, 10.5]), (1, [12.5, 14.5])):
            f = theano.function([x], WithParams(path, choice)(x), mode=IN_C)
            self.assertEqual(f(np.asarray([1, 2], "float32")).tolist(), expected)


class Counter(gof.Op):
    """An Op that adds the number of runs of its thunk to the input.

    `c_support_code_struct` declares a pointer to the count. The other struct methods allocate and free the count.
    """

    __props__ = ()

    def make_node(self, x):
        x = T.as_tensor_variable(x)
        return gof.Apply(self, [x], [x.type()])

    def c_support_code(self):
        return "static int add(int a, int b) { return a + b; }"

    def c_support_code_apply(self, node, name):
        return "#define STEP_%s 1" % name

    def c_support_code_struct(self, node, name):
        return "int *runs_%s;" % name

    def c_init_code_struct(self, node, name, sub):
        return """
        runs_%(name)s = (int*) calloc(1, sizeof(int));
        if (runs_%(name)s == NULL) {
            PyErr_NoMemory();
            %(fail)s
        }
        """ % dict(name=name, fail=sub["fail"])

    def c_cleanup_code_struct(self, node, name):
        return "free(runs_%s);" % name

    def c_code(self, node, name, inputs, outputs, sub):
        return """
        *runs_%(name)s = add(*runs_%(name)s, STEP_%(name)s);
        if (%(z)s == NULL || PyArray_SIZE(%(z)s) != PyArray_SIZE(%(x)s)) {
            Py_XDECREF(%(z)s);
            %(z)s = (PyArrayObject*) PyArray_EMPTY(1, PyArray_DIMS(%(x)s), PyArray_TYPE(%(x)s), 0);
            if (!%(z)s) { %(fail)s }
        }
        for (npy_intp i = 0; i < PyArray_DIMS(%(x)s)[0]; i++)
            *(npy_double*) PyArray_GETPTR1(%(z)s, i) = *(npy_double*) PyArray_GETPTR1(%(x)s, i) + *runs_%(name)s;
        """ % dict(name=name, x=inputs[0], z=outputs[0], fail=sub["fail"])

    def c_code_cache_version(self):
        return (1,)


@unittest.skipUnless(theano.config.cxx, "needs a C++ compiler")
class TestStructs(unittest.TestCase):
    def test_state(self):
        x = T.dvector("x")
        f, g = [theano.function([x], Counter()(x), mode=IN_C) for _ in range(2)]
        self.assertEqual([f([0.0]).tolist(), f([0.0]).tolist(), g([0.0]).tolist()], [[1], [2], [1]])

    def test_a_thunk_sets_the_flags_of_its_outputs(self):
        x = T.dvector("x")
        for node in (
            Counter()(x).owner,
            (x + x).owner,
            x.dimshuffle("x", 0).owner,
            T.max_and_argmax(x, axis=0)[0].owner,
        ):
            storage = {r: [None] for r in node.outputs}
            computed = {r: [False] for r in node.outputs}
            for r in node.inputs:
                storage[r], computed[r] = [np.ones(2) if r is x else r.data], [True]
            thunk = node.op.make_thunk(node, storage, computed, [])
            thunk()
            for r in node.outputs:
                self.assertIs(computed[r][0], True)
                self.assertIsNotNone(storage[r][0])


class Window(gof.Op):
    """An Op that takes a slice of a vector.

    The Type of slices has no C code. Therefore `perform` runs, although the Op defines `c_code`.
    """

    __props__ = ()

    def make_node(self, x, index):
        return gof.Apply(self, [T.as_tensor_variable(x), index], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0][inputs[1]].copy()

    def c_code(self, node, name, inputs, outputs, sub):
        return "this is for other types;"


class TestSlices(unittest.TestCase):
    def test_perform_runs(self):
        x, stop = T.dvector("x"), T.lscalar("stop")
        window = Window()(x, T.type_other.make_slice(None, stop, None))
        self.assertEqual(theano.function([x, stop], window)([1.0, 2.0, 3.0], 2).tolist(), [1, 2])


if __name__ == "__main__":
    unittest.main()
