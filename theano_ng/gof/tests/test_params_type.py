"""Tests of bundled params: ParamsType, Params, and the params that Ops get in Python and in C methods."""

import copy
import pickle
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.gof import CEnumType, EnumList, EnumType, Params, ParamsType
from theano_ng.gof import compiler as cmodule
from theano_ng.gof.codegen import clinker as cc
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.gof.type import CDataType, Generic, Type, generic
from theano_ng.scalar import Scalar
from theano_ng.tensor import TensorType

MODES = ["FAST_COMPILE", "FAST_RUN", "DebugMode"]


class Quadratic(Op):
    """An Op that computes ``a * x**2 + b * x + c``. Its params are a matrix, a scalar and a Python object."""

    __props__ = ("a", "b", "c")
    params_type = ParamsType(a=TensorType("float64", (False, False)), b=Scalar("float64"), c=generic)
    refuse = False

    def __init__(self, a, b, c):
        # Nested tuples are hashable; the field's Type converts them to an array.
        self.a, self.b, self.c = a, b, c

    def make_node(self, x):
        return Apply(self, [T.as_tensor_variable(x)], [T.dmatrix()])

    def perform(self, node, inputs, output_storage, params):
        output_storage[0][0] = params.a * inputs[0] ** 2 + params.b * inputs[0] + params.c

    def c_support_code_struct(self, node, name):
        return "double c_%s;" % name

    def c_init_code_struct(self, node, name, sub):
        return """
        c_%(name)s = PyFloat_AsDouble(%(p)s->c);
        if (PyErr_Occurred()) { %(fail)s }
        """ % dict(sub, name=name, p=sub["params"])

    def c_code(self, node, name, inputs, outputs, sub):
        return """
        {
            PyArrayObject* a = %(p)s->a;
            npy_intp n = PyArray_SIZE(%(x)s);
            PyArrayObject* x = (PyArrayObject*)PyArray_NewCopy(%(x)s, NPY_CORDER);
            if (x == NULL || PyArray_SIZE(a) != n) {
                Py_XDECREF(x);
                if (!PyErr_Occurred())
                    PyErr_Format(PyExc_ValueError, "a has %%zd elements, x has %%zd", (ssize_t)PyArray_SIZE(a), (ssize_t)n);
                %(fail)s
            }
            Py_XDECREF(%(z)s);
            %(z)s = x;
            for (npy_intp i = 0; i < n; ++i) {
                double v = ((double*)PyArray_DATA(x))[i];
                ((double*)PyArray_DATA(x))[i] = ((double*)PyArray_DATA(a))[i] * v * v + %(p)s->b * v + c_%(name)s;
            }
        }
        """ % dict(sub, name=name, p=sub["params"], x=inputs[0], z=outputs[0])

    def c_code_cleanup(self, node, name, inputs, outputs, sub):
        # This code can read the params, too. If b is negative, it changes the output to show that it has run.
        return "if (%(p)s->b < 0 && %(z)s != NULL) *(double*)PyArray_DATA(%(z)s) = -1;" % dict(
            p=sub["params"], z=outputs[0]
        )

    def c_code_cache_version(self):
        return (1,)


class Calculator(Op):
    """An Op with the fields that Quadratic lacks: enums defined in Python or in C, a small integer, a C pointer."""

    __props__ = ("operation", "limit", "times")
    params_type = ParamsType(
        operation=EnumType(ADD=("plus", 1), SUB=("minus", 2.5), ctype="double", cname="operations"),
        limit=CEnumType("CHAR_BIT", ("SCHAR_MAX", "largest"), cname="limits"),
        times=Scalar("int8"),
        handle=CDataType("void *", version=(1,)),
    )

    def __init__(self, operation, limit, times):
        self.operation, self.limit, self.times = operation, limit, times
        self.handle = None

    def make_node(self, x):
        return Apply(self, [theano.scalar.as_scalar(x)], [theano.scalar.float64()])

    def perform(self, node, inputs, output_storage, params):
        value = {params_of.CHAR_BIT: 8, params_of.SCHAR_MAX: 127}[params.limit] * int(params.times)
        output_storage[0][0] = np.float64(inputs[0] + value if params.operation == params_of.ADD else inputs[0] - value)

    def c_headers(self):
        return ["<limits.h>"]

    def c_code(self, node, name, inputs, outputs, sub):
        return """
        {
            double value = %(p)s->limit * (double)%(p)s->times;
            if (%(p)s->handle != NULL) {
                PyErr_SetString(PyExc_ValueError, "None should be a null pointer");
                %(fail)s
            }
            if (%(p)s->operation == ADD) %(z)s = %(x)s + value;
            else if (%(p)s->operation == SUB) %(z)s = %(x)s - value;
            else %(z)s = 0;
        }
        """ % dict(sub, p=sub["params"], x=inputs[0], z=outputs[0])

    def c_code_cache_version(self):
        return (2,)


params_of = Calculator.params_type


def linked(inputs, output):
    return cc.CLinker().accept(FunctionGraph(inputs, [output])).make_function()


@unittest.skipUnless(cmodule.find_toolchain(), "needs a C++ compiler")
class TestInOps(unittest.TestCase):
    def test_tensor_number_and_object(self):
        x = T.dmatrix("x")
        v = np.array([[1.0, -2.0], [3.0, 0.5]])
        cases = [(((1.0, 2.0), (3.0, 4.0)), 2.0, 0.5), (((0, 1), (1, 0)), 3, -1.0)]  # the integers are converted
        for mode in MODES:
            f = theano.function([x], [Quadratic(*case)(x) for case in cases], mode=mode)
            for got, (a, b, c) in zip(f(v), cases):
                np.testing.assert_allclose(got, np.array(a) * v**2 + b * v + c, err_msg=mode)
        # Ops with different params share a module.
        first, second = (linked([x], Quadratic(*case)(x)) for case in cases)
        self.assertIs(first.thunk.module, second.thunk.module)
        with self.assertRaisesRegex(ValueError, "a has 4 elements, x has 1"):
            first(np.ones((1, 1)))
        np.testing.assert_allclose(first(v), np.array(cases[0][0]) * v**2 + 2.0 * v + 0.5)
        # c_code_cleanup sees the params of its thunk.
        self.assertEqual(linked([x], Quadratic(((1.0,),), -1.0, 0.0)(x))(np.array([[5.0]])), -1)
        # c_init_code_struct fails on the object: compiling the function raises the Python exception.
        with self.assertRaisesRegex(TypeError, "must be real number, not str"):
            linked([x], Quadratic(((1.0,),), 1.0, "c")(x))

    def test_enums_small_integer_and_pointer(self):
        x = theano.scalar.float64("x")
        cases = [
            ("plus", "largest", 2, 10 + 254),
            ("SUB", "CHAR_BIT", -3, 10 + 24),
            (2.5, params_of.SCHAR_MAX, 1, 10 - 127),
        ]
        for mode in MODES:
            for operation, limit, times, expected in cases:
                f = theano.function([x], Calculator(operation, limit, times)(x), mode=mode)
                self.assertEqual(f(10.0), expected, (mode, operation, limit))
        # In C the constants have the header's values; in Python their values are positions.
        self.assertEqual((params_of.CHAR_BIT, params_of.SCHAR_MAX), (0, 1))
        functions = [linked([x], Calculator(*case[:3])(x)) for case in cases]
        self.assertEqual(len({id(f.thunk.module) for f in functions}), 1)
        # If two nodes in a module have different params, each node reads its own.
        both = (
            cc.CLinker()
            .accept(FunctionGraph([x], [Calculator(*cases[0][:3])(Calculator(*cases[1][:3])(x))]))
            .make_function()
        )
        self.assertEqual(both(10.0), 10 + 24 + 254)

    def test_operations_of_the_package(self):
        """Native code of the package's Ops does not read params. Subclasses may define C code that reads them."""
        x, v, i, s = T.dmatrix("x"), T.dvector("v"), T.lvector("i"), T.dscalar("s")
        wanted = [
            (T.AllocEmpty("float32")(2), dict(typecode=11)),
            (T.argmax(x, axis=1), (1,)),
            (T.Argmax((1,))(x), dict(c_axis=1)),
            (T.Argmax(None)(x), dict(c_axis=-1)),
            (T.reshape(x, (3, 2, 1)), dict(ndim=3)),
            (T.blas.gemm_no_inplace(x, s, x, x, s), dict(inplace=0)),
            (T.blas_c.CGemv(True)(v, s, x, v * 2, s), dict(inplace=1)),
            (T.blas_c.CGer(False)(x, s, v, v), dict(destructive=0)),
            (
                x.dimshuffle(1, "x", 0),
                dict(inplace=1, transposition=[1, 0], input_broadcastable=[0, 0], _new_order=[1, -1, 0]),
            ),
            (T.cumprod(x, axis=1), dict(c_axis=1, mode=1)),
            (T.searchsorted(v, v, side="right"), "right"),
            (T.inc_subtensor(v[i], v), dict(inplace=0, set_instead_of_inc=0)),
            (theano.compile.ops.Shape_i(1)(x), dict(i=1)),
        ]
        for out, expected in wanted:
            params = out.owner.run_params()
            if isinstance(expected, dict):
                self.assertEqual(
                    {name: np.asarray(value).tolist() for name, value in dict(params).items()}, expected, out.owner.op
                )
            else:
                self.assertEqual(params, expected)
            self.assertTrue(out.owner.params_type.is_valid_value(params))

        class Logged(T.extra_ops.CumOp):
            def c_code(self, node, name, inputs, outputs, sub):
                return """
                Py_XDECREF(%(z)s);
                %(z)s = (PyArrayObject*)PyArray_CumProd(%(x)s, %(p)s->c_axis, NPY_DOUBLE, NULL);
                if (%(z)s == NULL || %(p)s->mode != MODE_MUL) { %(fail)s }
                *(double*)PyArray_DATA(%(z)s) = -1;     // to be seen
                """ % dict(sub, x=inputs[0], z=outputs[0], p=sub["params"])

        value = np.array([[2.0, 3.0], [4.0, 5.0]])
        for mode in ("FAST_RUN", theano.Mode("c", None)):
            got = theano.function([x], [Logged(axis=1, mode="mul")(x), T.cumprod(x, axis=1)], mode=mode)(value)
            self.assertEqual([r.tolist() for r in got], [[[-1, 6], [4, 20]], [[2, 6], [4, 20]]])

    def test_bad_values_name_the_field(self):
        x = theano.scalar.float64("x")
        for op, text in (
            (
                Calculator("times", "CHAR_BIT", 1),
                r"field operation .*does not accept 'times'.*aliases \('minus', 'plus'\)",
            ),
            (Calculator("ADD", 17, 1), "field limit .*does not accept 17 .int.*"),
            (Calculator("ADD", 0, "one"), "field times .int8. does not accept 'one' .str.: Could not convert 'one'"),
            (Calculator("ADD", 0, (1, 2)), "field times .int8. does not accept .1, 2. .tuple."),
        ):
            for mode in ("FAST_COMPILE", "FAST_RUN"):
                with self.assertRaisesRegex(TypeError, text):
                    theano.function([x], op(x), mode=mode)
        op = Calculator("ADD", 0, 1)
        del op.handle
        with self.assertRaisesRegex(AttributeError, "Calculator.*has no attribute handle"):
            theano.function([x], op(x))
        # Attribute values may lose precision; the documentation says "convert and downcast if needed".
        self.assertEqual(params_of.get_params(Calculator("ADD", 0, 300)).times, np.array(300).astype("int8"))


class TestParamsType(unittest.TestCase):
    def setUp(self):
        self.letters = EnumType(A=("alpha", 1), B=(2, "beta"), C=3)  # the documentation uses both orders
        self.digits = EnumList(("ZERO", "nothing"), ("ONE", "unit"), ("TWO", "couple"))
        self.wrapper = ParamsType(scalar=Scalar("int32"), letters=self.letters, digits=self.digits)

    def test_documented_examples(self):
        w = self.wrapper
        self.assertEqual((w.get_enum("C"), w.get_enum("TWO"), w.C, w.TWO), (3, 2, 3, 2))
        self.assertEqual([w.enum_from_alias(name) for name in ("alpha", "nothing", "C")], [1, 0, 3])
        constants = ParamsType(
            enum1=EnumList("CONSTANT_1", "CONSTANT_2", "CONSTANT_3"), enum2=EnumType(PI=3.14, EPSILON=0.001)
        )
        self.assertEqual(
            (constants.CONSTANT_1, constants.CONSTANT_3, constants.PI, constants.get_enum("EPSILON")),
            (0, 2, 3.14, 0.001),
        )
        b = ParamsType(enum1=EnumList("A", ("B", "beta"), "C"), enum2=EnumList(("D", "delta"), "E", "F"))
        self.assertEqual((b.B, b.get_enum("B"), b.enum_from_alias("beta"), b.F), (1, 1, 1, 2))

        params_type = ParamsType(attr1=Scalar("int32"), key2=Scalar("float32"), field3=Scalar("int64"))
        params = Params(params_type, attr1=1, key2=2.0, field3=3)
        self.assertEqual((params.attr1, params.key2, params.field3), (1, 2.0, 3))
        self.assertEqual(Params(params_type, **dict(attr1=1, key2=2.5, field3=-1)).field3, -1)

        class MyObject:
            def __init__(self):
                self.a = 10
                self.b = np.asarray([[1, 2, 3], [4, 5, 6]])

        params = ParamsType(a=Scalar("int32"), b=T.dmatrix, c=Scalar("bool")).get_params(MyObject(), c=False)
        self.assertEqual((params.a.dtype, params.b.dtype, params.c.dtype), ("int32", "float64", "bool"))
        self.assertEqual((int(params.a), params.b.tolist(), bool(params.c)), (10, [[1, 2, 3], [4, 5, 6]], False))
        self.assertRegex(repr(params), r"Params\(a:int32:10, b:ndarray:\[\[1")

    def test_constructor_refuses(self):
        self.assertRaises(ValueError, ParamsType)
        for error, fields, text in (
            (AttributeError, {"not a name": T.dvector}, "valid identifier"),
            (SyntaxError, {"double": T.dvector}, "keyword"),
            (TypeError, {"x": 3}, 'attribute "x" should inherit from the class Type'),
            (AttributeError, dict(a=EnumList("A", "B"), b=EnumType(A=0, D=5)), "common constants names: A is in"),
            (AttributeError, dict(a=EnumList(("A", "x")), b=EnumList(("B", "x"))), "common constants aliases: x is in"),
        ):
            with self.assertRaisesRegex(error, text):
                ParamsType(**fields)
        # Two fields may have equal enums.
        self.assertEqual(
            ParamsType(a=self.digits, b=EnumList(("ZERO", "nothing"), ("ONE", "unit"), ("TWO", "couple"))).ONE, 1
        )
        self.assertRaises(TypeError, Params, 3)
        with self.assertRaisesRegex(TypeError, '"letters" not in Params args'):
            Params(self.wrapper, digits=1)

    def test_questions(self):
        w = self.wrapper
        self.assertTrue(w.has_type(Scalar("int32")))
        self.assertFalse(w.has_type(Scalar("int64")))
        self.assertEqual(w.get_type("digits"), self.digits)
        two = w.extended(another=Scalar("int32"))
        self.assertEqual(
            (two.get_field(Scalar("int32")), w.get_field(Scalar("int32")), two.length, two.A),
            ("another", "scalar", 4, 1),
        )
        self.assertRaises(ValueError, w.get_type, "nothing")
        self.assertRaises(ValueError, w.get_field, T.dvector)
        self.assertRaises(AttributeError, w.extended, more=EnumList("ONE"))
        for ask in (w.get_enum, w.enum_from_alias, ParamsType(x=generic).get_enum):
            self.assertRaises(KeyError, ask, "couples")
        with self.assertRaisesRegex(AttributeError, "constants of its enums are A, B, C, ONE"):
            w.alpha

    def test_identity(self):
        w, same = self.wrapper, ParamsType(digits=self.digits, letters=self.letters, scalar=Scalar("int32"))
        for other in (same, pickle.loads(pickle.dumps(w)), copy.deepcopy(w)):
            self.assertEqual((w, hash(w), w.name, str(w)), (other, hash(other), other.name, str(other)))
        for other in (
            w.extended(x=generic),
            ParamsType(scalar=Scalar("int64"), letters=self.letters, digits=self.digits),
        ):
            self.assertNotEqual(w, other)
            self.assertNotEqual(w.name, other.name)
        self.assertIn("scalar:int32", str(w))

        # The struct's name depends on its C code, not on str(Type), which may contain an address.
        class Plain(Generic):
            def __str__(self):
                return "Plain at %#x" % id(self)

        class Other(Generic):
            def c_init(self, name, sub):
                return "%s = NULL; /* other */" % name

            __str__ = Plain.__str__

        first, again, other = (ParamsType(x=cls()) for cls in (Plain, Plain, Other))
        self.assertEqual(first.name, again.name)
        self.assertNotEqual(first.name, other.name)

    def test_enum_constants_of_params(self):
        """`perform` compares a field with the names that C code uses."""
        kind = ParamsType(way=EnumList(("UP", "up"), "DOWN"), UP_TO=Scalar("int64"))
        params = kind.get_params(way="up", UP_TO=3)
        self.assertEqual((params.way == params.UP, params.way == params.DOWN, params.UP_TO), (True, False, 3))
        self.assertEqual(pickle.loads(pickle.dumps(params)).DOWN, params.DOWN)
        with self.assertRaisesRegex(AttributeError, 'attribute "LEFT" does not exist. Fields: UP_TO, way'):
            params.LEFT
        self.assertFalse(hasattr(params, "__array_interface__"))

    def test_params_are_values(self):
        kind = ParamsType(values=T.dvector, items=Scalar("float64"))  # the field names are names of dict methods
        a, b, c = (kind.get_params(values=[1, 2], items=i) for i in (3, 3.0, 4))
        self.assertEqual(a.values.tolist(), [1, 2])
        self.assertEqual(a.items, 3)
        self.assertEqual((a, hash(a)), (b, hash(b)))
        self.assertNotEqual(a, c)
        self.assertNotEqual(a, ParamsType(values=T.dvector, items=generic).get_params(values=[1, 2], items=3.0))
        for twin in (pickle.loads(pickle.dumps(a)), copy.deepcopy(a), copy.copy(a)):
            self.assertEqual((twin, hash(twin), twin.values.tolist()), (a, hash(a), [1, 2]))
        for change in (
            lambda: setattr(a, "items", 1),
            lambda: a.__setitem__("items", 1),
            lambda: a.update(items=1),
            lambda: a.pop("items"),
            lambda: a.clear(),
            lambda: delattr(a, "items"),
        ):
            self.assertRaises(NotImplementedError, change)
        with self.assertRaisesRegex(AttributeError, 'attribute "other" does not exist. Fields: items, values'):
            a.other
        self.assertTrue(kind.values_eq(a, b) and not kind.values_eq(a, c))
        near = kind.get_params(values=[1, 2 + 1e-9], items=3)
        self.assertTrue(kind.values_eq_approx(a, near) and not kind.values_eq(a, near))

    def test_where_values_come_from(self):
        class Source:
            def __init__(self, **values):
                self.__dict__.update(values)

        kind = ParamsType(a=Scalar("int64"), b=Scalar("int64"), c=Scalar("int64"))
        got = kind.get_params(Source(a=1, b=2, c=3), Source(b=20, c=30), c=300)
        self.assertEqual((got.a, got.b, got.c), (1, 20, 300))
        self.assertEqual(kind.get_params(got, a=7).a, 7)
        with self.assertRaisesRegex(TypeError, '"c" not in'):
            kind.get_params(Source(a=1, b=2))
        with self.assertRaisesRegex(TypeError, "no field d; fields: a, b, c"):
            kind.get_params(Source(a=1, b=2, c=3), d=4)

    def test_filter(self):
        kind = ParamsType(n=Scalar("int8"), x=T.dvector)
        exact = kind.get_params(n=3, x=np.ones(2))
        self.assertIs(kind.filter(exact, strict=True), exact)
        self.assertIs(kind.filter(exact), exact)
        self.assertTrue(kind.is_valid_value(exact))
        loose = Params(kind, n=3, x=[1, 2])
        self.assertFalse(kind.is_valid_value(loose))
        self.assertEqual(kind.filter(loose).x.dtype, "float64")
        with self.assertRaisesRegex(TypeError, "field n .int8. does not accept 3 .int.: int8 expected a"):
            kind.filter(loose, strict=True)
        with self.assertRaisesRegex(TypeError, "field n .* does not accept 3.5"):
            kind.filter(Params(kind, n=3.5, x=[1]))
        self.assertEqual(kind.filter(Params(kind, n=3.5, x=[1]), allow_downcast=True).n, 3)
        # Any object with the fields is accepted, unless `strict` is set.
        source = type("Source", (), dict(n=1, x=[0.5]))()
        self.assertEqual(kind.filter(source).x.tolist(), [0.5])
        self.assertRaises(TypeError, kind.filter, source, strict=True)
        with self.assertRaisesRegex(TypeError, "no value for the field n"):
            kind.filter(3)

    def test_versions_and_missing_c(self):
        class NoVersion(Generic):
            def c_code_cache_version(self):
                return ()

        class NoC(Type):
            def filter(self, data, strict=False, allow_downcast=None):
                return data

        self.assertTrue(self.wrapper.c_code_cache_version())
        self.assertEqual(self.wrapper.extended(x=NoVersion()).c_code_cache_version(), ())
        # An Op with a field without C code runs in Python.
        bundle = ParamsType(x=NoC(), n=Scalar("int64"))

        class InPython(Op):
            __props__ = ()
            params_type = bundle
            x, n = "x", 2

            def make_node(self, v):
                return Apply(self, [v], [v.type()])

            def perform(self, node, inputs, output_storage, params):
                output_storage[0][0] = inputs[0] * params.n + len(params.x)

            def c_code(self, node, name, inputs, outputs, sub):
                return "%s = %s->n;" % (outputs[0], sub["params"])

            def c_code_cache_version(self):
                return (1,)

        x = theano.scalar.float64("x")
        self.assertEqual(theano.function([x], InPython()(x), mode="FAST_RUN")(4.0), 9.0)


if __name__ == "__main__":
    unittest.main()
