"""Tests of the tutorials about C code, in FAST_COMPILE, FAST_RUN and DebugMode.

The tutorials cover Ops on arrays in C, C code in a separate file, a rule that removes an Op, a Type with C code, and
Types and Ops that are plain instances with methods as attributes.
"""

import math
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import gof
from theano_ng.gof import compiler as cmodule
from theano_ng.tensor.opt import NotScalarConstantError, get_scalar_constant_value, register_specialize

MODES = ("FAST_COMPILE", "FAST_RUN", "DebugMode")


def leaky(x, rate):
    """Return the array with ``out[i] = x[i] + rate * out[i - 1]``."""
    out, level = np.empty_like(x), 0.0
    for i, value in enumerate(x):
        out[i] = level = value + rate * level
    return out


class LeakySum(gof.Op):
    """The Op `leaky` of a vector and a 0-d rate, with C code only."""

    __props__ = ()

    def make_node(self, x, rate):
        for variable, ndim, what in ((x, 1, "a vector to sum"), (rate, 0, "a number as its rate")):
            if variable.ndim != ndim:
                raise TypeError("LeakySum wants %s, not %s" % (what, variable.type))
        return gof.Apply(self, [x, rate], [x.type()])

    def c_code(self, node, name, inputs, outputs, sub):
        names = dict(zip(("x", "rate", "out"), inputs + outputs), fail=sub["fail"])
        names.update(("t_" + key, "npy_" + v.dtype) for key, v in zip(("x", "rate"), node.inputs))
        return (
            """
        if (%(out)s != NULL && !PyArray_SAMESHAPE(%(x)s, %(out)s))
            Py_CLEAR(%(out)s);
        if (%(out)s == NULL)
            %(out)s = (PyArrayObject *)PyArray_NewLikeArray(%(x)s, NPY_CORDER, NULL, 0);
        if (%(out)s == NULL) {
            %(fail)s
        }
        // C++ lets no goto of the failures above pass an initialization.
        double level, leak;
        level = 0, leak = *(%(t_rate)s *)PyArray_DATA(%(rate)s);
        for (npy_intp k = 0; k < PyArray_SIZE(%(x)s); ++k) {
            level = *(%(t_x)s *)PyArray_GETPTR1(%(x)s, k) + leak * level;
            *(%(t_x)s *)PyArray_GETPTR1(%(out)s, k) = level;
        }
        """
            % names
        )

    def c_code_cache_version(self):
        return (3,)


class Interleave(gof.Op):
    """An Op that interleaves two vectors. All nodes share one C function; each node also defines its own."""

    __props__ = ()

    def make_node(self, even, odd):
        if (even.ndim, odd.ndim) != (1, 1):
            raise TypeError("Interleave wants two vectors, not %s and %s" % (even.type, odd.type))
        return gof.Apply(self, [even, odd], [T.vector(dtype=theano.scalar.upcast(even.dtype, odd.dtype))])

    def c_support_code(self):
        return """
        static int count_pairs(PyArrayObject *even, PyArrayObject *odd, npy_intp *pairs) {
            *pairs = PyArray_DIM(even, 0);
            if (*pairs == PyArray_DIM(odd, 0))
                return 0;
            PyErr_Format(PyExc_ValueError, "interleave: %zd elements and %zd", (Py_ssize_t)*pairs, (Py_ssize_t)PyArray_DIM(odd, 0));
            return -1;
        }
        """

    def c_support_code_apply(self, node, name):
        even, odd, both = ("npy_" + v.dtype for v in node.inputs + node.outputs)
        return """
        static void interleave_%s(npy_intp pairs, PyArrayObject *even, PyArrayObject *odd, %s *to) {
            for (npy_intp k = 0; k < pairs; ++k) {
                *to++ = *(%s *)PyArray_GETPTR1(even, k);
                *to++ = *(%s *)PyArray_GETPTR1(odd, k);
            }
        }
        """ % (name, both, even, odd)

    def c_code(self, node, name, inputs, outputs, sub):
        return """
        npy_intp pairs, total;
        if (count_pairs(%(even)s, %(odd)s, &pairs) < 0) {
            %(fail)s
        }
        total = 2 * pairs;
        Py_XDECREF(%(both)s);
        %(both)s = (PyArrayObject *)PyArray_SimpleNew(1, &total, %(typenum)d);
        if (!%(both)s) {
            %(fail)s
        }
        interleave_%(name)s(pairs, %(even)s, %(odd)s, (npy_%(dtype)s *)PyArray_DATA(%(both)s));
        """ % dict(
            even=inputs[0],
            odd=inputs[1],
            both=outputs[0],
            name=name,
            fail=sub["fail"],
            dtype=node.outputs[0].dtype,
            typenum=np.dtype(node.outputs[0].dtype).num,
        )

    def c_code_cache_version(self):
        return (5, "in turns")


class InterleaveFromFile(gof.COp):
    """`Interleave` with C code from a file, which gets the dtypes as macros."""

    __props__ = ()
    make_node = Interleave.make_node

    def __init__(self):
        super().__init__("interleave.c", "APPLY_SPECIFIC(interleave)")


class RunningMax(gof.Op):
    """The cumulative maximum of a vector, in Python and in C."""

    __props__ = ()

    def make_node(self, x):
        x = T.as_tensor_variable(x)
        return gof.Apply(self, [x], [T.vector(dtype=x.dtype)])

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = np.maximum.accumulate(inputs[0])

    def c_code(self, node, name, inputs, outputs, sub):
        # A tensor type declares dtype_<variable> as the C type of its elements.
        return """
        Py_XDECREF(%(top)s);
        %(top)s = (PyArrayObject *)PyArray_NewCopy(%(x)s, NPY_CORDER);
        if (!%(top)s) {
            %(fail)s
        }
        dtype_%(top)s *top;
        top = (dtype_%(top)s *)PyArray_DATA(%(top)s);
        for (npy_intp k = PyArray_SIZE(%(top)s); --k > 0; ++top)
            top[1] = top[0] > top[1] ? top[0] : top[1];
        """ % dict(x=inputs[0], top=outputs[0], fail=sub["fail"])

    def c_code_cache_version(self):
        return (2,)


running_max = RunningMax()


@unittest.skipUnless(cmodule.find_toolchain(), "needs a C++ compiler")
class VectorOps(unittest.TestCase):
    def test_vector_and_number(self):
        x, rate = T.fvector("x"), T.dscalar("rate")
        for arguments, message in (((rate, rate), "a vector to sum"), ((x, x), "a number as its rate")):
            with self.assertRaisesRegex(TypeError, message):
                LeakySum()(*arguments)
        signal = np.cos(np.arange(15.0)).astype("float32")
        for mode in MODES:
            f = theano.function([x, rate], LeakySum()(x, rate), mode=mode)
            for part in (signal, signal[1::4], signal[::-3], signal[7:7]):
                np.testing.assert_allclose(f(part, -0.75), leaky(part, -0.75), rtol=1e-5, atol=1e-6)

    def test_two_vectors(self):
        even, odd = T.fvector("even"), T.dvector("odd")
        numbers = np.linspace(-4, 4, 9)
        for op in (Interleave(), InterleaveFromFile()):
            with self.assertRaisesRegex(TypeError, "wants two vectors"):
                op(even, T.dscalar())
            both = op(even, odd)
            self.assertEqual(both.type, T.dvector)
            for mode in MODES:
                f = theano.function(
                    [even, odd], [both, op(odd, even), op(even, even)], mode=mode
                )  # nodes with different dtypes
                for a, b in ((numbers, -numbers), (numbers[::4], numbers[2::-1]), (numbers[:0], numbers[9:])):
                    a = a.astype("float32")
                    got = f(a, b)
                    for value, pair in zip(got, ((a, b), (b, a), (a, a))):
                        np.testing.assert_array_equal(value, np.stack(pair, axis=1).ravel())
                    self.assertEqual([value.dtype for value in got], ["float64", "float64", "float32"])
                with self.assertRaisesRegex(ValueError, "interleave: 9 elements and 4"):
                    f(numbers.astype("float32"), numbers[:4])


class RunningMaxAndItsRule(unittest.TestCase):
    """Tests that a registered rule rewrites only nodes for which its condition holds."""

    @classmethod
    def setUpClass(cls):
        @register_specialize
        @gof.local_optimizer([RunningMax])
        def running_max_of_equal_elements(node):
            try:
                get_scalar_constant_value(node.inputs[0])
            except NotScalarConstantError:
                return False
            return [node.inputs[0]]

    @classmethod
    def tearDownClass(cls):
        # Restore the database for other tests.
        theano.compile.optdb["specialize"].remove_tags("running_max_of_equal_elements", "fast_run")
        assert RunningMax in cls.ops_of_filled()

    @staticmethod
    def ops_of_filled():
        """Return the Op classes of a function of a filled vector.

        The vector is not a constant, because its length is unknown.
        """
        length = T.lscalar()
        f = theano.function([length], running_max(T.alloc(np.float64(2.5), length)), mode="FAST_RUN")
        np.testing.assert_array_equal(f(3), np.full(3, 2.5))
        return [type(node.op) for node in f.maker.fgraph.toposort()]

    def test_filled(self):
        self.assertEqual(self.ops_of_filled(), [T.Alloc])
        for mode, ops in zip(
            MODES, ([RunningMax, theano.compile.DeepCopyOp], [theano.compile.DeepCopyOp], [theano.compile.DeepCopyOp])
        ):
            # If rewriting reduces the graph to a constant, the function returns a copy of it. FAST_COMPILE may keep
            # the Op, because it does not apply the rules in `specialize`.
            f = theano.function([], running_max(T.fill(np.zeros(4), -1.0)), mode=mode)
            self.assertEqual(f().tolist(), [-1.0] * 4)
            self.assertIn(type(f.maker.fgraph.outputs[0].owner.op), ops, mode)

    def test_others(self):
        x = T.dvector()
        heights = np.random.RandomState(8).normal(size=11)
        for mode in MODES:  # DebugMode compares perform with the C code
            f = theano.function([x], running_max(x), mode=mode)
            self.assertEqual([node.op for node in f.maker.fgraph.toposort()], [running_max])
            for part in (heights, heights[::-2], heights[:1], heights[:0]):
                self.assertEqual(f(part).tolist(), [max(part[: i + 1]) for i in range(len(part))])


# A Type of Python integers, which are `long long` in C. It is defined twice: as a plain instance of Type with methods
# as attributes, and as a class.


def whole_filter(data, strict=False, allow_downcast=None):
    if isinstance(data, int):
        return data
    if strict:
        raise TypeError("%r is not an int" % (data,))
    whole = int(data)
    if whole != data and not allow_downcast:
        raise TypeError("%r has a fraction, which allow_downcast=True would drop" % (data,))
    return whole


IN_C = dict(
    c_declare=lambda name, sub: "long long %s;" % name,
    c_init=lambda name, sub: "%s = 0;" % name,
    c_extract=lambda name, sub: (
        "%s = PyLong_AsLongLong(py_%s); if (PyErr_Occurred()) { %s }" % (name, name, sub["fail"])
    ),
    c_sync=lambda name, sub: "Py_XDECREF(py_%s); py_%s = PyLong_FromLongLong(%s);" % (name, name, name),
    c_cleanup=lambda name, sub: "",
)

# Euclid's algorithm.
GCD = """
    long long a, b;
    a = %(a)s, b = %(b)s;
    while (b) {
        long long rest = a %% b;
        a = b;
        b = rest;
    }
    %(out)s = a < 0 ? -a : a;
"""


def whole_type():
    """Return a plain instance of Type with the two methods that Python needs."""
    whole = gof.Type()
    whole.filter = whole_filter
    whole.values_eq_approx = lambda a, b: a == b
    return whole


def gcd_of(whole):
    """Return a plain instance of Op with the two methods that Python needs."""
    gcd = gof.Op()

    def make_node(*numbers):
        numbers = [gof.Constant(whole, n) if isinstance(n, int) else n for n in numbers]
        wrong = [n for n in numbers if n.type is not whole]
        if wrong or len(numbers) != 2:
            raise TypeError("gcd is for two whole numbers; these are none: %s" % wrong)
        return gof.Apply(gcd, numbers, [whole()])

    def perform(node, inputs, output_storage):
        output_storage[0][0] = math.gcd(*inputs)

    gcd.make_node, gcd.perform = make_node, perform
    return gcd


class Whole(gof.Type):
    """The tutorial's Type as a class instead of a plain instance. Its instances are equal."""

    def __eq__(self, other):
        return type(self) is type(other)

    def __hash__(self):
        return hash(Whole.__qualname__)

    def __repr__(self):
        return "whole"

    def filter(self, data, strict=False, allow_downcast=None):
        return whole_filter(data, strict, allow_downcast)

    def values_eq_approx(self, a, b):
        return a == b

    def c_code_cache_version(self):
        return (1,)


for _name, _text in IN_C.items():
    setattr(Whole, _name, staticmethod(_text))


class OfTwoWhole(gof.Op):
    """A class of Ops that map two whole numbers to a whole number. The Ops differ only in their `__props__`."""

    __props__ = ("symbol", "python", "c")

    def __init__(self, symbol, python, c):
        self.symbol, self.python, self.c = symbol, python, c

    def make_node(self, *operands):
        operands = [gof.Constant(Whole(), v) if isinstance(v, int) else v for v in operands]
        for v in operands:
            if v.type != Whole():
                raise TypeError("%s takes whole numbers, not %s" % (self.symbol, v.type))
        return gof.Apply(self, operands, [Whole()()])

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = self.python(*inputs)

    def c_code(self, node, name, inputs, outputs, sub):
        return self.c % dict(a=inputs[0], b=inputs[1], out=outputs[0])

    def c_code_cache_version(self):
        return (1,)

    def __str__(self):
        return self.symbol


greatest = OfTwoWhole("gcd", math.gcd, GCD)
times = OfTwoWhole("*", lambda a, b: a * b, "%(out)s = %(a)s * %(b)s;")
distance = OfTwoWhole("|-|", lambda a, b: abs(a - b), "%(out)s = %(a)s > %(b)s ? %(a)s - %(b)s : %(b)s - %(a)s;")


class WholeNumbers(unittest.TestCase):
    def test_filter(self):
        whole = whole_type()
        self.assertEqual([whole.filter(v) for v in (7, 7.0, -2.0)], [7, 7, -2])
        self.assertEqual(whole.filter(2.75, allow_downcast=True), 2)
        for arguments, message in (
            ((7.0, True), "7.0 is not an int"),
            ((2.75,), "2.75 has a fraction"),
            ((2.75, False, False), "2.75 has"),
        ):
            with self.assertRaisesRegex(TypeError, message):
                whole.filter(*arguments)

    def test_instances_in_python(self):
        whole = whole_type()
        gcd = gcd_of(whole)
        m, n = whole("m"), whole("n")
        with self.assertRaisesRegex(TypeError, "gcd is for two whole numbers"):
            gcd(m, T.lscalar())
        for mode in MODES:
            f = theano.function([m, n], [gcd(m, n), gcd(gcd(m, 90), 84)], mode=mode)
            self.assertEqual(f(48, 180.0), [12, 6])
            self.assertEqual(f(-35, 0), [35, 1])
            self.assertRaises(TypeError, f, 1.5, 3)

    @unittest.skipUnless(cmodule.find_toolchain(), "needs a C++ compiler")
    def test_instances_in_c(self):
        whole = whole_type()
        for name, method in IN_C.items():
            setattr(whole, name, method)
        gcd = gcd_of(whole)
        gcd.c_code = lambda node, name, inputs, outputs, sub: GCD % dict(a=inputs[0], b=inputs[1], out=outputs[0])
        m, n = whole("m"), whole("n")
        in_c = theano.Mode(linker="c")
        for mode in (*MODES, in_c):
            self.assertEqual(theano.function([m, n], gcd(m, n), mode=mode)(1071, 462), 21)
        del gcd.perform  # C code only
        for mode in (*MODES[:2], in_c, theano.Mode(linker="c|py"), theano.Mode(linker="cvm")):
            self.assertEqual(theano.function([m, n], gcd(n, m), mode=mode)(-1071, 147), 21)

    @unittest.skipUnless(cmodule.find_toolchain(), "needs a C++ compiler")
    def test_classes(self):
        a, b, c = (Whole()(name) for name in "abc")
        self.assertEqual(str(greatest(a, b).owner), "gcd(a, b)")
        with self.assertRaisesRegex(TypeError, r"^\|-\| takes whole numbers, not TensorType"):
            distance(a, T.lscalar())
        for mode in (*MODES, theano.Mode(linker="c")):
            f = theano.function([a, b, c], times(greatest(a, b), distance(c, 100)), mode=mode)
            self.assertEqual(f(54, 24, 93), 42)
            self.assertEqual(f(17, 5, 130), 30)


if __name__ == "__main__":
    unittest.main()
