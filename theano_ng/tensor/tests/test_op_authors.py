"""Tests of behavior on which authors of Ops for Theano 1.0 relied.

`gof/tests/test_legacy_c.py` tests C code that was written for NumPy 1.
"""

import importlib
import unittest
import warnings

import numpy as np
import scipy.special

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import scalar
from theano_ng.configdefaults import config
from theano_ng.gof import Apply, Op
from theano_ng.gof.codegen.clinker import CLinker
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.tests.test_legacy_c import run
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.tensor import inplace
from theano_ng.tensor.blas import headers
from theano_ng.tensor.elemwise_cgen import make_alloc
from theano_ng.tests.unittest_tools import assert_allclose

IN_C, IN_PYTHON = theano.Mode("c|py", None), theano.Mode("py", None)


class TestOldNames(unittest.TestCase):
    @unittest.skipUnless(config.cxx, "needs a C++ compiler")
    def test_names_of_numpy_before_1_7(self):
        got = run(
            """
            int lengths[1] = {3};
            PyArrayObject *a = (PyArrayObject*) PyArray_FromDims(1, lengths, PyArray_DOUBLE);
            PyArrayObject *b = (PyArrayObject*) PyArray_FromDimsAndData(1, lengths, NPY_DOUBLE, x->data);
            if (PyArray_CHKFLAGS(x, NPY_ALIGNED | NPY_WRITEABLE) && (NPY_IN_ARRAY & NPY_CONTIGUOUS) && (x->flags & NPY_C_CONTIGUOUS)
                    && PyArray_CHAR != PyArray_INT32 && x->descr->type_num == PyArray_FLOAT64) {
                zd[0] = PyArray_SIZE(a) + ((double*)(b->data))[2];
                zd[1] = x->nd + x->dimensions[0] * 10 + x->strides[0] * 100;
            }
            NPY_SIGINT_ON
            zd[2] = PyDescr_ISFLOAT(PyArray_DESCR(x)) * 7 + NPY_REFCOUNT(x) * 0;
            NPY_SIGINT_OFF
            Py_DECREF(a);
            Py_DECREF(b);
            """.replace("PyArray_CHAR", "PyArray_STRING")
        )
        self.assertEqual(got.tolist(), [6, 831, 7])

    def test_names_that_were_imported_from_classic_modules(self):
        names = {
            "tensor.blas": "Apply Op Optimizer ParamsType T blas_header_text blas_header_version local_optimizer ldflags _ldflags bool_t in2out "
            "EquilibriumOptimizer SequenceDB toolbox utils view_roots config InconsistencyError fblas",
            "tensor.basic": "Tensor elemwise grad_undefined grad_not_implemented DisconnectedType gof python_all python_any "
            "python_complex local_optimizer _arange compile printing",
            "tensor.elemwise": "Apply COp NullType Op OpenMPOp TensorType TensorVariable as_tensor_variable get_scalar_type scalar cgen",
            "tensor.opt": "T DimShuffle Elemwise Subtensor IncSubtensor Alloc Optimizer copy_stack_trace extract_constant scalar basic opt "
            "values_eq_approx_remove_inf",
            "scalar.basic": "Apply Constant FunctionGraph Op Type Variable builtin_int gof",
            "scalar": "Apply Op grad_undefined builtin_bool",
            "tensor.nnet.nnet": "Apply as_tensor_variable elemwise subtensor grad_not_implemented opt scalar",
        }
        for module, wanted in names.items():
            found = __import__("theano_ng." + module, fromlist=["x"])
            for name in wanted.split():
                self.assertTrue(hasattr(found, name), "%s.%s" % (module, name))
            self.assertFalse(hasattr(found, "no_such_name"))
        self.assertIs(T.basic.Tensor, T.TensorType)
        self.assertIs(T.blas.T, T.basic)
        self.assertIs(scalar.basic.builtin_int, int)

    def test_both_spellings_of_make_alloc(self):
        sub = dict(lv0="x", olv="z", fail="{goto fail;}")
        for spelling, number in (
            ("npy_float64", "NPY_FLOAT64"),
            ("theano_complex64", "NPY_COMPLEX64"),
            ("NPY_DOUBLE", "NPY_DOUBLE"),
            ("npy_bool", "NPY_BOOL"),
        ):
            self.assertIn("PyArray_EMPTY(1, dims, %s, 0)" % number, make_alloc([(0,)], spelling, sub))


class ComplexScalar(scalar.ScalarOp):
    """An Op with C code in the classic style, which uses members, operators and constructors of complex classes."""

    __props__ = ("code",)
    nin = 2

    def __init__(self, code):
        self.code = code
        super().__init__(name="ComplexScalar")

    def output_types(self, types):
        return [scalar.complex128 if scalar.complex128 in types else scalar.complex64]

    def c_code(self, node, name, inputs, outputs, sub):
        return self.code % dict(x=inputs[0], y=inputs[1], z=outputs[0])


class ComplexParts(Op):
    """A tensor Op whose C code reads the elements of complex arrays."""

    __props__ = ()

    def make_node(self, x):
        return Apply(self, [T.as_tensor_variable(x)], [x.type()])

    def c_code(self, node, name, inputs, outputs, sub):
        return """
        Py_XDECREF(%(z)s);
        %(z)s = (PyArrayObject*) PyArray_NewCopy(%(x)s, NPY_CORDER);
        if (!%(z)s) { %(fail)s }
        for (npy_intp i = 0; i < PyArray_SIZE(%(z)s); ++i) {
            dtype_%(x)s a = *(dtype_%(x)s*) PyArray_GETPTR1(%(x)s, i);
            dtype_%(z)s *zd = (dtype_%(z)s*) PyArray_GETPTR1(%(z)s, i);
            zd->real = -a.imag;
            zd->imag = 2 * (a + 1).real;
        }
        """ % dict(x=inputs[0], z=outputs[0], fail=sub["fail"])


COMPLEX_CODE = {
    "%(z)s = %(x)s * %(y)s + 2.0 * %(x)s - %(y)s / 4;": lambda x, y: x * y + 2 * x - y / 4,
    "%(z)s = -%(x)s / (%(y)s + 3); %(z)s += 1;": lambda x, y: -x / (y + 3) + 1,
    "%(z)s.real = %(x)s.imag; %(z)s.imag = (%(x)s * %(y)s).real;": lambda x, y: x.imag + 1j * (x * y).real,
    "%(z)s = theano_complex128(1, 2); if (%(x)s == %(y)s || %(x)s != %(x)s) %(z)s = 7;": lambda x, y: 1 + 2j + 0 * x,
    "theano_complex64 a = %(x)s.real; npy_complex128 b = theano_complex128(%(y)s); %(z)s = a; %(z)s *= b.imag;": lambda x, y: (
        x.real * y.imag + 0j
    ),
}


@unittest.skipUnless(config.cxx, "needs a C++ compiler")
class TestComplexNumbers(unittest.TestCase):
    """In C++ code of Ops, complex numbers are classes with operators and with members for their parts."""

    values = np.array([1 + 2j, -3.5 + 0.25j, 0.5, -2j, 2.0**-10 - 4j])
    others = np.array([0.5 - 1j, 2 + 3j, -1, 1 + 1j, 6 - 0.5j])

    def test_scalar_ops_alone_and_fused(self):
        for dtype, rtol in (("complex64", 2e-6), ("complex128", 1e-14)):
            x, y = T.TensorType(dtype, (False,))("x"), T.TensorType(dtype, (False,))("y")
            values, others = self.values.astype(dtype), self.others.astype(dtype)
            alone = [T.Elemwise(ComplexScalar(code))(x, y) for code in COMPLEX_CODE]
            # Fuse these Ops with the package's own operations. The kernel is then compiled as C++.
            around = [T.exp(out / 8) * T.conj(x) + T.real(out) * abs(y) + T.sqrt(out) ** 2 for out in alone]
            fused = theano.function([x, y], around, mode=theano.Mode("cvm", "fast_run"))
            composites = [node.op.scalar_op for node in fused.maker.fgraph.toposort() if len(node.inputs) > 2]
            self.assertEqual(["ComplexScalar" in str(op) for op in composites], [True] * len(COMPLEX_CODE))
            functions = [
                theano.function([x, y], alone + around, mode=theano.Mode(linker, None)) for linker in ("cvm", "c")
            ]
            results = [f(values, others) for f in functions] + [[None] * len(COMPLEX_CODE) + fused(values, others)]
            for k, (code, expected) in enumerate(COMPLEX_CODE.items()):
                e = expected(self.values, self.others)
                for result in results:
                    if result[k] is not None:
                        np.testing.assert_allclose(result[k], e, rtol=rtol, err_msg=code)
                    e_around = np.exp(e / 8) * self.values.conj() + e.real * abs(self.others) + e
                    np.testing.assert_allclose(result[len(COMPLEX_CODE) + k], e_around, rtol=20 * rtol, err_msg=code)

    def test_real_operands(self):
        code = "%(z)s = %(x)s * %(y)s; %(z)s = %(z)s / %(y)s + %(y)s; %(z)s = %(y)s - %(z)s;"
        for other in ("float64", "float32", "int8", "uint16", "int64", "bool"):
            x, y = T.zvector("x"), T.TensorType(other, (False,))("y")
            f = theano.function([x, y], T.Elemwise(ComplexScalar(code))(x, y), mode=IN_C)
            got = f([1 + 2j, complex(np.inf, -1)], np.array([1, 1], other))
            self.assertEqual([str(v) for v in got], [str(v) for v in np.array([-1 - 2j, complex(-np.inf, 1)])], other)

    def test_quotients_far_from_one(self):
        x, y = T.zvector("x"), T.zvector("y")
        f = theano.function([x, y], T.Elemwise(ComplexScalar("%(z)s = %(x)s / %(y)s;"))(x, y), mode=IN_C)
        x = np.array([1e200 + 1e200j, 1e-200 + 1e-200j, 1e300, 1 + 1j])
        y = np.array([2e200 + 2e200j, 4e-200 + 4e-200j, 1e-3 + 1e-3j, 0])
        got = f(x, y)
        np.testing.assert_allclose(got[:3], [0.5, 0.25, 5e302 - 5e302j], rtol=1e-14)
        self.assertTrue(np.isinf(got[3]))

    def test_elements_of_arrays(self):
        for linker in ("cvm", "c"):
            for dtype in ("complex64", "complex128"):
                x = T.TensorType(dtype, (False,))("x")
                f = theano.function([x], ComplexParts()(x), mode=theano.Mode(linker, None))
                expected = -self.values.imag + 2j * (self.values.real + 1)
                np.testing.assert_allclose(f(self.values.astype(dtype)), expected, rtol=1e-6)


class TestWithoutACompiler(unittest.TestCase):
    def test_what_has_c_code_only_says_so(self):
        x = T.zvector("x")
        with theano.change_flags(cxx=""):
            for out in (T.Elemwise(ComplexScalar("%(z)s = %(x)s + %(y)s;"))(x, x), ComplexParts()(x)):
                for linker in ("py", "c|py", "vm", "cvm"):
                    f = theano.function([x], out, mode=theano.Mode(linker, None))
                    with self.assertRaisesRegex(MethodNotDefined, r"there is no C\+\+ compiler"):
                        f([1j])


BLAS_CODE = {
    "gemm": "%(p)sgemm_(&n, &n, &two, &two, &two, &a, xd, &two, xd, &two, &b, zd, &two);",
    "gemv": "%(p)sgemv_(&t, &two, &two, &a, xd, &two, xd, &one, &b, zd, &one);",
    "ger": "%(p)sger_(&two, &two, &a, xd, &one, xd + 2, &one, zd, &two);",
    "axpy": "int m = 4; %(p)saxpy_(&m, &a, xd, &one, zd, &one);",
    "dot": "zd[0] = %(p)sdot_(&two, xd, &one, xd + 2, &one); zd[1] = %(p)snrm2_(&two, xd, &one); zd[2] = %(p)sasum_(&two, xd, &one);",
    "iamax": "int m = 4; zd[0] = i%(p)samax_(&m, xd, &one);",
}


class UsesBlas(Op):
    """An Op whose C code calls the BLAS that the configuration names."""

    __props__ = ("code", "dtype")

    def __init__(self, code, dtype):
        self.code, self.dtype = code, dtype

    def make_node(self, x):
        x = T.as_tensor_variable(x)
        return Apply(self, [x], [x.type()])

    def c_support_code(self):
        return T.blas.blas_header_text()

    def c_libraries(self):
        return T.blas.ldflags()

    def c_compile_args(self):
        return T.blas.ldflags(libs=False, flags=True)

    def c_lib_dirs(self):
        return T.blas.ldflags(libs=False, libs_dir=True)

    def c_header_dirs(self):
        return T.blas.ldflags(libs=False, include_dir=True)

    def c_code_cache_version(self):
        return (1, T.blas.blas_header_version())

    def c_code(self, node, name, inputs, outputs, sub):
        letter = dict(float32="s", float64="d")[self.dtype]
        return """
        Py_XDECREF(%(z)s);
        %(z)s = (PyArrayObject*) PyArray_NewCopy(%(x)s, NPY_CORDER);
        if (!%(z)s) { %(fail)s }
        {
            int one = 1, two = 2;
            char n = 'N', t = 'T';
            dtype_%(x)s a = 1, b = 0, *xd = (dtype_%(x)s*) PyArray_DATA(%(x)s), *zd = (dtype_%(z)s*) PyArray_DATA(%(z)s);
            %(code)s
        }
        """ % dict(
            x=inputs[0],
            z=outputs[0],
            fail=sub["fail"],
            code="".join("{%s}" % part % dict(p=letter) for part in self.code),
        )


@unittest.skipUnless(config.cxx, "needs a C++ compiler")
class TestBlas(unittest.TestCase):
    def check(self, dtype, *names):
        x = T.TensorType(dtype, (False, False))("x")
        value = np.array([[1, 2], [3, 4]], dtype)
        f = theano.function(
            [x], [UsesBlas((BLAS_CODE[name],), dtype)(x) for name in names], mode=theano.Mode("c", None)
        )
        return [z.tolist() for z in f(value)]

    def test_functions(self):
        """C code of an Op can call BLAS; it passes row-major matrices as transposed Fortran matrices."""
        for dtype in ("float32", "float64"):
            got = self.check(dtype, "gemm", "gemv", "ger", "axpy", "dot", "iamax")
            self.assertEqual(got[0], [[7, 10], [15, 22]])
            self.assertEqual(got[1][0], [5, 11])
            self.assertEqual(got[2], [[1 + 3, 2 + 6], [3 + 4, 4 + 8]])
            self.assertEqual(got[3], [[2, 4], [6, 8]])
            assert_allclose(np.asarray(got[4]), [[11, 5**0.5], [3, 4]])
            self.assertEqual(got[5][0][0], 4)

    def test_a_library_that_the_user_names(self):
        with config.change_flags({"blas.ldflags": "-L/nowhere -lblas -Wl,-z,now"}):
            self.assertEqual(T.blas.ldflags(), ["blas"])
            self.assertEqual(T.blas.ldflags(libs=False, flags=True), ["-Wl,-z,now"])
            self.assertEqual(T.blas.ldflags(libs=False, libs_dir=True), ["/nowhere"])
            text, version = T.blas.blas_header_text(), T.blas.blas_header_version()
        self.assertIn("void dgemm_(char *, char *, const int *", text)
        self.assertNotIn("theano_ng_blas", text)
        self.assertIn("theano_ng_blas", T.blas.blas_header_text())
        self.assertNotEqual(version, T.blas.blas_header_version())

    def test_signatures_are_those_of_the_table(self):
        lent = importlib.import_module("scipy.linalg.cython_blas").__pyx_capi__
        kinds = {"float": "s", "double": "d", "int": "int", "void": "void"}
        for name, (result, arguments) in headers.signatures().items():
            text = repr(lent[name]).split('"')[1]
            given, _, rest = text.partition("(")
            given_types = rest.rstrip(")").split(", ")
            self.assertEqual(len(arguments), len(given_types), name)
            self.assertEqual(given.strip().split("_")[-1], kinds[result], name)
            for ours, theirs in zip(arguments, given_types):
                theirs = theirs.replace(" *", "").split("_")[-1]
                expected = {"float": "sc", "double": "dz", "void": "cz"}.get(ours.replace("const ", "").split(" ")[0])
                if expected is None:
                    self.assertEqual(ours.replace("const ", "").split(" ")[0], theirs, name)
                else:
                    self.assertIn(theirs[0], expected, name)


class Halve(scalar.UnaryScalarOp):
    """An Op with classic C code that does not support float16."""

    def impl(self, x):
        return x / 2

    def c_code(self, node, name, inputs, outputs, sub):
        return "%s = %s / 2;" % (outputs[0], inputs[0])

    def c_code_cache_version(self):
        return (1,)


class HalveBits(Halve):
    """An Op whose C code declares float16 support: it subtracts one from the exponent of normal numbers."""

    _f16_ok = True

    def c_code(self, node, name, inputs, outputs, sub):
        if node.inputs[0].type.dtype == "float16":
            return "%s = %s - 0x400;" % (outputs[0], inputs[0])
        return super().c_code(node, name, inputs, outputs, sub)


class Plus(scalar.BinaryScalarOp):
    identity, commutative, associative = 0, True, True

    def impl(self, x, y):
        return x + y

    def c_code(self, node, name, inputs, outputs, sub):
        return "%s = %s + %s;" % (outputs[0], *inputs)

    def c_code_cache_version(self):
        return (1,)


class TestScalarOps(unittest.TestCase):
    def test_float16(self):
        x = T.TensorType("float16", (False,))("x")
        value = np.array([1, 3, 7], "float16")
        for op in (Halve, HalveBits):
            halve = T.Elemwise(op(scalar.same_out, name="halve"))
            total = T.CAReduce(Plus(scalar.upcast_out, name="plus"), 0)
            outputs = [
                halve(x),
                T.exp(halve(x)) + 1,
                (halve(x.astype("float32")) * 4).astype("float16"),
                total(x),
                total(halve(x) + x),
            ]
            expected = [value / 2, np.exp(value / 2) + 1, value * 2, value.sum(), (value * 1.5).sum()]
            for mode in ("FAST_COMPILE", "FAST_RUN"):
                for got, right in zip(theano.function([x], outputs, mode=mode)(value), expected):
                    self.assertEqual(got.dtype, "float16")
                    assert_allclose(np.asarray(right, "float16"), got)
        # If an Op without C code for float16 has inputs of other dtypes, it is still fused.
        fused = theano.function([x], outputs[2], mode="FAST_RUN").maker.fgraph.toposort()
        self.assertEqual(len(fused), 1)

    def test_arrays_by_a_function_of_scipy(self):
        class J1(scalar.UnaryScalarOp):
            nfunc_spec = ("scipy.special.j1", 1, 1)

            def impl(self, x):
                raise AssertionError("not element by element")

        class Poch(scalar.BinaryScalarOp):
            nfunc_spec = ("scipy.special.poch", 2, 1)

            def impl(self, x, y):
                raise AssertionError("not element by element")

        class Missing(scalar.UnaryScalarOp):
            nfunc_spec = ("scipy.special.no_such_function", 1, 1)

            def impl(self, x):
                return x + 1

        x, n = T.dmatrix("x"), T.lvector("n")
        value = np.linspace(0, 5, 6).reshape(2, 3)
        for dtype in ("float32", "float64"):
            x = T.TensorType(dtype, (False, False))("x")
            f = theano.function([x], T.Elemwise(J1(scalar.upgrade_to_float, name="j1"))(x), mode="FAST_RUN")
            assert_allclose(scipy.special.j1(value).astype(dtype), f(value.astype(dtype)))
            self.assertEqual(f(value.astype(dtype)).dtype, dtype)
        f = theano.function([x, n], T.Elemwise(Poch(scalar.upgrade_to_float, name="poch"))(x, n) * 2, mode="FAST_RUN")
        assert_allclose(scipy.special.poch(value, [1, 2, 3]) * 2, f(value, [1, 2, 3]))
        op = T.Elemwise(Missing(scalar.same_out, name="missing"))
        self.assertIsNone(op.nfunc)
        assert_allclose(value + 1, theano.function([x], op(x), mode=IN_PYTHON)(value))
        self.assertIs(T.exp.nfunc, np.exp)

    def test_arrays_by_functions_of_numpy(self):
        """Scalar Ops call their NumPy function on arrays, with one output or two.

        Results have the dtype of the output. This holds also for bool inputs, for which NumPy's function returns bool.
        """

        class Parts(scalar.ScalarOp):
            nin, nout, nfunc_spec = 1, 2, ("modf", 1, 2)

            def output_types(self, types):
                return types * 2

            def impl(self, x):
                raise AssertionError("not element by element")

        class Both(scalar.BinaryScalarOp):
            nfunc_spec = ("add", 2, 1)

            def impl(self, x, y):
                raise AssertionError("not element by element")

        for dtype in ("float32", "float64"):
            x = T.TensorType(dtype, (False, False))("x")
            value = np.array([[0.5, -1.75, 3.0], [1e6 + 0.25, -0.0, 2.5]], dtype)
            for got, want in zip(theano.function([x], T.Elemwise(Parts())(x), mode=IN_PYTHON)(value), np.modf(value)):
                self.assertEqual(got.dtype, dtype)
                np.testing.assert_array_equal(got, want)
        flags = np.array([True, False, True]), np.array([True, True, False])
        for dtype in ("int8", "uint8", "int64", "float32", "complex64"):
            x, y = [T.TensorType("bool", (False,))(name) for name in "xy"]
            op = T.Elemwise(Both(scalar.specific_out(scalar.get_scalar_type(dtype)), name="both"))
            got = theano.function([x, y], op(x, y), mode=IN_PYTHON)(*flags)
            self.assertEqual((got.dtype, got.tolist()), (dtype, [2, 1, 1]))


class TestInplace(unittest.TestCase):
    def test_mixed_dtypes_compute_as_their_operands_do(self):
        """An in-place operation gives the value of the ordinary operation, converted to the dtype of the first operand."""
        functions = {
            "add": np.add, "sub": np.subtract, "mul": np.multiply, "true_div": np.true_divide, "int_div": np.floor_divide,
            "mod": np.mod, "pow": np.power, "maximum": np.maximum, "arctan2": np.arctan2,
        }  # fmt: skip
        integers, floats = np.array([7, -9, 4]), np.array([2.0, 0.5, 1.25])
        pairs = [
            (first, second)
            for first in ("int8", "int64", "float32")
            for second in ("float32", "float64", "int16")
            if first != second
        ]
        for first, second in pairs:
            x, y = T.TensorType(first, (False,))("x"), T.TensorType(second, (False,))("y")
            a = integers.astype(first)
            b = (floats if second.startswith("f") else np.array([2, 3, 5])).astype(second)
            names = [name for name in functions if name not in ("pow", "arctan2") or first == "float32"]
            if first != "float32" and second == "int16":
                names.remove("true_div")  # refused: the quotient of integers is a float
            inputs = [theano.In(x, mutable=True), y]
            for mode in (theano.Mode("cvm", None), IN_PYTHON):
                for name in names:
                    op = getattr(inplace, name + "_inplace")
                    got = theano.function(inputs, op(x, y), mode=mode, accept_inplace=True)(a.copy(), b)
                    with np.errstate(all="ignore"):
                        right = functions[name](a, b).astype(first)
                    self.assertEqual(got.dtype, first)
                    assert_allclose(right, got)

    def test_functions_of_integers(self):
        """In-place functions of integers truncate the float result of the ordinary function.

        Functions of narrow integers are computed in float32, in which erf(5) rounds to 1. In float64, erf(5) is below 1
        and is truncated to 0.
        """
        functions = dict(
            exp=np.exp, sqrt=np.sqrt, rad2deg=np.rad2deg, inv=np.reciprocal, erf=scipy.special.erf, arctan=np.arctan
        )
        for dtype, computed in (("int8", "float32"), ("uint16", "float32"), ("int64", "float64")):
            x = T.TensorType(dtype, (False,))("x")
            values = np.array([1, 2, 5], dtype)
            for name, right in functions.items():
                expected = right(values.astype(computed)).astype(dtype).tolist()
                for mode in (theano.Mode("cvm", None), IN_PYTHON):
                    op = getattr(inplace, name + "_inplace")
                    f = theano.function([theano.In(x, mutable=True)], op(x), mode=mode, accept_inplace=True)
                    self.assertEqual(f(values.copy()).tolist(), expected, (name, dtype, mode.linker))

    def test_division_of_integers_by_small_floats(self):
        """An in-place division of integers by a small float is right: the divisor is not converted to the integer zero."""
        x, y = T.lvector("x"), T.dscalar("y")
        f = theano.function(
            [theano.In(x, mutable=True), y],
            inplace.true_div_inplace(x, y),
            mode=theano.Mode("cvm", None),
            accept_inplace=True,
        )
        self.assertEqual(f(np.array([1, 2, -3]), 0.25).tolist(), [4, 8, -12])


def told(cls):
    """Return a subclass whose C code is the C code of its base plus a comment."""

    def c_code(self, node, name, inputs, outputs, sub):
        return super(subclass, self).c_code(node, name, inputs, outputs, sub) + "\n/* and no more */"

    subclass = type("My" + cls.__name__, (cls,), dict(c_code=c_code, c_code_cache_version=lambda self: (1,)))
    return subclass


class TestSubclassesOfNativeOps(unittest.TestCase):
    def test_c_code_of_the_base(self):
        ops, m, v = theano.compile.ops, T.dmatrix("m"), T.dvector("v")
        two = T.constant(2.0)
        cases = {
            "ViewOp": (told(ops.ViewOp)()(v), "v"),
            "DeepCopyOp": (told(ops.DeepCopyOp)()(v), "v"),
            "Rebroadcast": (told(ops.Rebroadcast)((0, False))(v), "v"),
            "Shape": (told(ops.Shape)()(m), "np.array(m.shape)"),
            "Shape_i": (told(ops.Shape_i)(1)(m), "np.asarray(m.shape[1])"),
            "SpecifyShape": (told(ops.SpecifyShape)()(m, [2, 3]), "m"),
            "DimShuffle": (told(T.DimShuffle)((False, False), (1, 0))(m), "m.T"),
            "Elemwise": (told(T.Elemwise)(scalar.exp)(m), "np.exp(m)"),
            "Sum": (told(T.elemwise.Sum)(0)(m), "m.sum(0)"),
            "Dot22": (told(T.blas.Dot22)()(m, m.T), "m @ m.T"),
            "Gemm": (
                told(T.blas.Gemm)(False)(m, two.astype("float64"), m, T.constant(np.eye(3)), two.astype("float64")),
                "4 * m",
            ),
            "Join": (told(T.Join)()(0, m, m), "np.concatenate([m, m])"),
            "Subtensor": (
                told(T.Subtensor)((slice(None), scalar.int64))(m, scalar.constant(1, dtype="int64")),
                "m[:, 1]",
            ),
            "Alloc": (told(T.Alloc)()(v, 2, 3), "np.tile(v, (2, 1))"),
            "Reshape": (told(T.Reshape)(1)(m, [6]), "m.ravel()"),
            "Softmax": (told(T.nnet.Softmax)()(m), "np.exp(m) / np.exp(m).sum(1)[:, None]"),
        }
        values = dict(np=np, m=np.arange(6.0).reshape(2, 3), v=np.arange(3.0))
        f = theano.function([m, v], [out for out, _ in cases.values()], mode=theano.Mode("cvm", None))
        for name, got in zip(cases, f(values["m"], values["v"])):
            assert_allclose(eval(cases[name][1], values), got)
        for name, (out, _) in cases.items():
            source = CLinker().accept(FunctionGraph(list(dict.fromkeys([m, v, *out.owner.inputs])), [out], clone=True))
            self.assertIn("and no more", source.get_src_code(), name)

    def test_a_perform_of_its_own_is_not_bypassed(self):
        class Counted(theano.compile.ops.ViewOp):
            runs = 0

            def perform(self, node, inputs, outputs):
                Counted.runs += 1
                outputs[0][0] = inputs[0]

        x = T.dvector("x")
        theano.function([x], Counted()(x) + 1, mode=theano.Mode("cvm", None))([1.0])
        self.assertEqual(Counted.runs, 1)


class Wide(Op):
    """An Op whose `perform` relies on NumPy 1, where the product of float32 and a 0-d float64 was float32."""

    __props__ = ("factor",)

    def __init__(self, factor=2.0):
        self.factor = factor

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0] * np.asarray(self.factor)


class TestWidening(unittest.TestCase):
    PATTERN = r"Wide\{factor=2.0\}\(x\) gave a value of dtype float64 for its output 0, whose type is TensorType\(float32, vector\)\. Since NumPy 2"

    def test_error_is_that_of_the_op(self):
        x = T.fvector("x")
        for consumer in (T.exp, lambda v: T.dot(v, v), lambda v: v.dimshuffle("x", 0), lambda v: v[1:]):
            for mode in (theano.Mode("cvm", None), theano.Mode("c|py", None)):
                f = theano.function([x], consumer(Wide()(x)), mode=mode)
                with (
                    self.assertWarnsRegex(UserWarning, self.PATTERN),
                    self.assertRaisesRegex(TypeError, self.PATTERN) as caught,
                ):
                    f(np.ones(2, "float32"))
                text = str(caught.exception)
                self.assertIn("numpy.asarray(result, dtype=node.outputs[0].type.dtype)", text)
                self.assertIn("Apply node that caused the error: Wide{factor=2.0}(x)", text)
                self.assertIn("test_op_authors.py", text)  # the message names the file where the user made the node

    def test_only_the_first_call_is_looked_at(self):
        x = T.fvector("x")
        f = theano.function([x], Wide()(x), mode=theano.Mode("cvm", None))
        with self.assertWarnsRegex(UserWarning, self.PATTERN):
            f(np.ones(2, "float32"))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            f(np.ones(2, "float32"))
            cured = type("Cured", (Wide,), {"perform": _cured})
            got = theano.function([x], T.exp(cured()(x)), mode=theano.Mode("cvm", None))(np.ones(2, "float32"))
        assert_allclose(np.exp(np.full(2, 2, "float32")), got)


def _cured(self, node, inputs, outputs):
    """Compute like `Wide.perform`, but convert the result to the dtype of the output, as the error message advises."""
    outputs[0][0] = np.asarray(inputs[0] * np.asarray(self.factor), dtype=node.outputs[0].type.dtype)


if __name__ == "__main__":
    unittest.main()
