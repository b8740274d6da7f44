"""Tests of Ops that define kernels in classic C code: the Ops of the manual, and errors in such code."""

import os
import pickle
import tempfile
import unittest

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.configdefaults import config
from theano_ng.gof import Apply, Op, ParamsType
from theano_ng.gpuarray.basic_ops import CGpuKernelBase, GpuKernelBase, Kernel, get_ctype, get_dtype
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.tests import author_ops
from theano_ng.gpuarray.tests.device import context
from theano_ng.gpuarray.transfers import as_gpuarray_variable, host_from_gpu, infer_context_name
from theano_ng.gpuarray.type import GpuArrayType, get_context, gpu_context_type
from theano_ng.scalar import int32


class TestKernel(unittest.TestCase):
    def test_names_and_flags(self):
        kernel = Kernel("KERNEL void k() {}", [], "k", {})
        self.assertEqual(
            (kernel.codevar, kernel.objvar, kernel.fname, kernel.sname), ("kcode_k", "k_k", "k_call", "k_scall")
        )
        kernel = Kernel("", [], "k", {}, "a", "b", "c", "d")
        self.assertEqual((kernel.codevar, kernel.objvar, kernel.fname, kernel.sname), tuple("abcd"))
        self.assertEqual(Kernel.get_flags("float32", "int64"), {})
        self.assertEqual(Kernel.get_flags("float64"), {"have_double": True})
        self.assertEqual(Kernel.get_flags("float16", "int8"), {"have_small": True, "have_half": True})
        self.assertEqual(Kernel.get_flags(np.complex128), {"have_double": True, "have_complex": True})
        with self.assertRaisesRegex(ValueError, "unknown flags: have_doubles"):
            Kernel("", [], "k", {"have_doubles": True})

    def test_types_of_arguments(self):
        self.assertEqual(
            [get_ctype(t) for t in (pygpu.GpuArray, pygpu.SIZE, pygpu.SSIZE)], ["gpudata *", "size_t", "ssize_t"]
        )
        self.assertEqual([get_ctype(t) for t in ("float32", np.int8, "bool")], ["npy_float32", "npy_int8", "npy_bool"])
        self.assertEqual(
            [get_dtype(s) for s in ("*", "size", "ssize", "float32")],
            [pygpu.GpuArray, pygpu.SIZE, pygpu.SSIZE, np.dtype("float32")],
        )
        with self.assertRaises(TypeError):
            get_dtype("no such type")


class Scaled(GpuKernelBase, Op):
    """An Op that computes ``scale * x[i, j] + i`` by a kernel with a 2-d grid.

    The params of the Op have two fields: the context of the device, and `scale`.
    """

    __props__ = ("scale",)
    params_type = ParamsType(context=gpu_context_type, scale=int32)
    text = """
KERNEL void scaled(GLOBAL_MEM const ga_float *x, ga_size x_off, GLOBAL_MEM ga_float *z, ga_size z_off, ga_size n, ga_size m, ga_float scale) {
    x = (GLOBAL_MEM const ga_float *)((GLOBAL_MEM const char *)x + x_off);
    z = (GLOBAL_MEM ga_float *)((GLOBAL_MEM char *)z + z_off);
    ga_size j = GID_0 * LDIM_0 + LID_0, i = GID_1 * LDIM_1 + LID_1;
    if (i < n && j < m)
        z[i * m + j] = scale * x[i * m + j] + i; /* "quoted" \\ and ??/ */
}
"""

    def __init__(self, scale):
        self.scale = scale

    def make_node(self, x):
        x = as_gpuarray_variable(x, infer_context_name(x))
        return Apply(self, [x], [x.type()])

    def gpu_kernels(self, node, name):
        array, size = pygpu.GpuArray, pygpu.SIZE
        return [
            Kernel(self.text, [array, size, array, size, size, size, "float32"], "scaled", Kernel.get_flags("float32"))
        ]

    def c_code(self, node, name, inputs, outputs, sub):
        return """
        Py_CLEAR(%(z)s);
        %(z)s = pygpu_empty(2, PyGpuArray_DIMS(%(x)s), GA_FLOAT, GA_C_ORDER, %(params)s->context, Py_None);
        if (%(z)s == NULL) %(fail)s
        {
        size_t n[2] = {PyGpuArray_DIM(%(x)s, 1), PyGpuArray_DIM(%(x)s, 0)};
        int code = scaled_scall(2, n, 0, %(x)s->ga.data, %(x)s->ga.offset, %(z)s->ga.data, %(z)s->ga.offset, n[1], n[0], %(params)s->scale);
        if (code != GA_NO_ERROR) {
            PyErr_SetString(PyExc_RuntimeError, GpuKernel_error(&k_scaled, code));
            %(fail)s
        }
        }
        """ % dict(x=inputs[0], z=outputs[0], params=sub["params"], fail=sub["fail"])

    def c_code_cache_version(self):
        return (1,)


class BadText(Scaled):
    text = "KERNEL void scaled(GLOBAL_MEM ga_float *x) {\n    x[0] = no_such_name;\n}\n"


class Elements(GpuKernelBase, Op):
    """An Op that copies a device array by C code. It has no kernels, and its params are the context."""

    __props__ = ()

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def gpu_kernels(self, node, name):
        return []

    def c_code(self, node, name, inputs, outputs, sub):
        return """
        if (%(x)s->context != %(ctx)s) { PyErr_SetString(PyExc_RuntimeError, "another context"); %(fail)s }
        Py_XDECREF(%(z)s);
        %(z)s = pygpu_copy(%(x)s, GA_C_ORDER);
        if (%(z)s == NULL) %(fail)s
        """ % dict(x=inputs[0], z=outputs[0], ctx=sub["params"], fail=sub["fail"])

    def c_code_cache_version(self):
        return (1,)


class OnDevice(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not config.cxx:
            raise unittest.SkipTest("needs a C++ compiler")
        cls.name = context()


def checker(rows, columns, period):
    return np.add.outer(np.arange(rows), np.arange(columns)) % period == 0


def frame(rows, columns):
    picture = np.full((rows, columns), 2.0)
    picture[1:-1, 1:-1] = 0
    return picture


class TestAuthors(OnDevice):
    def test_code_in_strings(self):
        rows, columns, period = T.lscalars("rows", "columns", "period")
        op = author_ops.GpuChecker("float32", self.name)
        f = theano.function([rows, columns, period], [op(rows, columns, period), op(rows, columns, period).shape])
        self.assertEqual(f.maker.fgraph.outputs[0].type, GpuArrayType("float32", (False, False), self.name))
        for args in ((3, 3, 1), (3, 50, 7), (50, 3, 2), (2, 2, 9), (300, 2, 3), (0, 3, 2)):
            found, shape = f(*args)
            self.assertIsInstance(found, pygpu.GpuArray)
            np.testing.assert_array_equal(found, checker(*args))
            self.assertEqual(tuple(shape), args[:2])
        with self.assertRaisesRegex(ValueError, "the period must be positive"):
            f(2, 2, 0)
        np.testing.assert_array_equal(f(2, 2, 2)[0], np.eye(2))
        with self.assertRaises(theano.gradient.NullTypeGradError):
            theano.grad(host_from_gpu(op(rows, columns, period)).sum(), rows)

    def test_elements_of_each_size(self):
        n = T.lscalar()
        for dtype in ("float16", "float64", "int8"):
            f = theano.function([n], author_ops.GpuChecker(dtype, self.name)(n, n, 2))
            np.testing.assert_array_equal(f(5), checker(5, 5, 2).astype(dtype))

    def test_code_in_a_file(self):
        rows, columns = T.iscalar(), T.lscalar()
        op = author_ops.GpuFrame("float32", self.name)
        f = theano.function([rows, columns], op(rows, columns))
        for args in ((3, 3), (3, 50), (40, 2), (1, 1)):
            np.testing.assert_array_equal(f(*args), frame(*args))
        # A pickled function contains no kernels. Unpickling builds them again.
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(f))(4, 4), frame(4, 4))

    def test_a_thunk_of_their_own(self):
        x = T.fmatrix()
        f = theano.function(
            [x], host_from_gpu(author_ops.GpuCube()(as_gpuarray_variable(x, self.name))), mode="FAST_RUN"
        )
        values = np.arange(20, dtype="float32").reshape(4, 5)
        for value in (values, -values, values.T):
            np.testing.assert_array_equal(f(value), value**3)


class TestClassicCode(OnDevice):
    def test_schedule_along_two_axes(self):
        x = T.fmatrix()
        g = as_gpuarray_variable(x, self.name)
        f = theano.function([x], [host_from_gpu(Scaled(2)(g)), host_from_gpu(Scaled(-3)(g))])
        for shape in ((3, 4), (1, 1000), (70, 3), (0, 2)):
            value = np.arange(np.prod(shape), dtype="float32").reshape(shape)
            for scale, found in zip((2, -3), f(value)):
                np.testing.assert_allclose(found, scale * value + np.arange(shape[0])[:, None], rtol=1e-6)

    def test_a_kernel_that_cannot_be_built(self):
        x = T.fmatrix()
        with self.assertRaisesRegex(RuntimeError, r"kernel scaled cannot be built(.|\n)*no_such_name"):
            theano.function([x], BadText(1)(as_gpuarray_variable(x, self.name)), mode="FAST_RUN")(
                np.ones((1, 1), "float32")
            )

    def test_types_are_checked(self):
        x = GpuArrayType("float32", (False, True), self.name)()
        f = theano.function([x], Elements()(x), mode="FAST_RUN")
        value = np.arange(3, dtype="float32")[:, None]
        np.testing.assert_array_equal(f(value), value)
        thunk = theano.gof.CLinker().accept(theano.gof.FunctionGraph([x], [Elements()(x)], clone=True)).make_thunk()
        thunk, inputs, outputs = thunk[:3]
        make = get_context(self.name)
        for wrong, said in (
            (None, "expected a GpuArray, not None"),
            (value, "expected a GpuArray, not a value of type numpy.ndarray"),
            (pygpu.zeros((3, 1), "float64", context=make), r"expected typecode 11 \(float32\), got 12"),
            (pygpu.zeros(3, "float32", context=make), "expected a GpuArray with 2 dimensions, got 1"),
            (pygpu.zeros((3, 2), "float32", context=make), "expected a length of 1 on broadcastable axis 1"),
        ):
            inputs[0].storage[0] = wrong
            with self.assertRaisesRegex((ValueError, TypeError), said):
                thunk()
        inputs[0].storage[0] = pygpu.array(value, context=make)
        thunk()
        np.testing.assert_array_equal(outputs[0].storage[0], value)

    def test_params_without_a_context(self):
        class NoContext(Scaled):
            params_type = ParamsType(scale=int32)

        node = Scaled(1).make_node(GpuArrayType("float32", (False, False), self.name)())
        with self.assertRaisesRegex(TypeError, "contains no context for the kernels"):
            NoContext(1).get_gpu_context_c_name("p")
        self.assertIs(Scaled(1).get_gpu_context(node), get_context(self.name))
        self.assertEqual(Scaled(1).get_gpu_context_c_name("p"), "(p->context)")
        self.assertEqual(Elements().get_gpu_context_c_name("p"), "p")
        self.assertEqual(Scaled(1).get_params(node).scale, 1)

    def test_versions(self):
        node = Scaled(1).make_node(GpuArrayType("float32", (False, False), self.name)())
        self.assertEqual(Scaled(1).c_code_cache_version_apply(node), (1, Scaled(1).kernel_version(node)))


class TestFiles(unittest.TestCase):
    def test_bad_lines(self):
        for text, said in (
            ("int x;\n#kernel k : * :\n", "Stray code before first #kernel statement .*int x;"),
            ("#kernel k : *\n", "#kernel has three parts"),
            ("#kernel k : *, floaty :\n", "#kernel k: .*floaty"),
        ):
            with tempfile.TemporaryDirectory() as folder, self.subTest(text):
                path = os.path.join(folder, "k.c")
                with open(path, "w") as file:
                    file.write("#section kernels\n%s\n#section support_code\nint y;\n" % text)
                op = CGpuKernelBase([path], "f")
                node = Apply(op, [GpuArrayType("float32", (False,))()], [])
                with self.assertRaisesRegex(ValueError, said):
                    op.gpu_kernels(node, "n")

    def test_several_kernels(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "k.c")
            with open(path, "w") as file:
                file.write(
                    "#section kernels\n#kernel a : : \nA\n#kernel b: *,size, int8 : GA_USE_SMALL | GA_USE_DOUBLE\nB\n"
                )
            op = CGpuKernelBase([path], "f")
        first, second = op.gpu_kernels(Apply(op, [GpuArrayType("float32", (False,))()], []), "n")
        self.assertEqual((first.name, first.params, first.code.splitlines()[-1]), ("a", [], "A"))
        self.assertIn("#define DTYPE_INPUT_0 ga_float\n", first.code)
        self.assertEqual((second.name, second.params), ("b", [pygpu.GpuArray, pygpu.SIZE, np.dtype("int8")]))
        self.assertEqual(second._c_flags(), "GA_USE_SMALL | GA_USE_DOUBLE")
