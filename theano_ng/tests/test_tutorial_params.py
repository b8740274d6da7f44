"""Tests of the tutorial about Op params, in Python and in C, in every mode."""

import dataclasses
import math
import unittest

import numpy as np

import theano_ng as theano
from theano_ng import Op
from theano_ng.gof import Apply, ParamsType
from theano_ng.gof import compiler as cmodule
from theano_ng.gof.codegen import clinker as cc
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.graph import NoParams
from theano_ng.gof.type import Generic
from theano_ng.scalar import Scalar, as_scalar

MODES = ["FAST_COMPILE", "FAST_RUN", "DebugMode"]


class AtLeast(Op):
    """The maximum of the input and a number, which the C code gets as a Python object."""

    __props__ = ("floor",)
    params_type = Generic()

    def __init__(self, floor):
        self.floor = floor + 0.0

    def make_node(self, value):
        return Apply(self, [as_scalar(value)], [theano.scalar.float64()])

    def get_params(self, node):
        return self.floor

    def perform(self, node, inputs, output_storage, params):
        output_storage[0][0] = np.maximum(inputs[0], params)

    def c_code(self, node, name, inputs, outputs, sub):
        return """
        %(out)s = PyFloat_AsDouble(%(floor)s);
        if (%(value)s > %(out)s)
            %(out)s = %(value)s;
        """ % dict(out=outputs[0], value=inputs[0], floor=sub["params"])

    def c_code_cache_version(self):
        return (1,)


@dataclasses.dataclass(frozen=True)
class Curve:
    """The params of `Bell`. They are frozen, so that params with equal values are equal and have equal hashes."""

    centre: float
    width: float


class Bell(Op):
    """``height * exp(-((at - centre) / width) ** 2)``. The C code reads the params once, when the thunk is created.

    The Op has no `perform`.
    """

    __props__ = ("curve",)
    params_type = Generic()

    def __init__(self, centre, width):
        self.curve = Curve(centre, width)

    def make_node(self, height, at):
        return Apply(self, [as_scalar(height), as_scalar(at)], [theano.scalar.float64()])

    def get_params(self, node):
        return self.curve

    def c_headers(self):
        return ["<math.h>"]

    def c_support_code(self):
        return """
        static int fetch(PyObject *from, const char *attribute, double *to) {
            PyObject *found = PyObject_GetAttrString(from, attribute);
            if (!found)
                return 0;
            *to = PyFloat_AsDouble(found);
            Py_DECREF(found);
            return !PyErr_Occurred();
        }
        """

    def c_support_code_struct(self, node, name):
        return "double centre_%s, width_%s;" % (name, name)

    def c_init_code_struct(self, node, name, sub):
        return """
        if (!fetch(%(curve)s, "centre", &centre_%(name)s) || !fetch(%(curve)s, "width", &width_%(name)s)) {
            %(fail)s
        }
        """ % dict(sub, name=name, curve=sub["params"])

    def c_code(self, node, name, inputs, outputs, sub):
        return "%s = %s * exp(-pow((%s - centre_%s) / width_%s, 2));" % (*outputs, *inputs, name, name)

    def c_code_cache_version(self):
        return (1,)


class BellInBoth(Bell):
    """`Bell` with a `perform`, which DebugMode compares with the C code."""

    def perform(self, node, inputs, output_storage, params):
        height, at = inputs
        output_storage[0][0] = height * math.exp(-(((at - params.centre) / params.width) ** 2))


class Weighted(Op):
    """``a * x + b * y``; subclasses define `a` and `b`."""

    def make_node(self, *terms):
        first, second = (as_scalar(term) for term in terms)
        return Apply(self, [first, second], [theano.scalar.float64()])

    def c_code_cache_version(self):
        return (1,)


x, y = theano.scalar.float64("x"), theano.scalar.float64("y")


def modules(*outputs):
    """Return the compiled modules of whole graphs, built by the linker c."""
    return [
        cc.CLinker()
        .accept(FunctionGraph([v for v in (x, y) if v in theano.gof.graph.inputs([out])], [out]))
        .make_thunk()[0]
        .module
        for out in outputs
    ]


@unittest.skipUnless(cmodule.find_toolchain(), "needs a C++ compiler")
class TestTutorial(unittest.TestCase):
    def test_an_object_as_params(self):
        for mode in MODES:
            for floor in (2, -0.5):
                f = theano.function([x], AtLeast(floor)(x), mode=mode)
                self.assertEqual([f(-3.0), f(2.5)], [floor, 2.5], (mode, floor))
        # The C code does not contain the values of params, so Ops that differ only in their params share a module.
        first, second = modules(AtLeast(2)(x), AtLeast(-0.5)(x))
        self.assertIs(first, second)
        self.assertEqual(AtLeast(2), AtLeast(2.0))
        self.assertNotEqual(AtLeast(2), AtLeast(-0.5))

    def test_params_fetched_when_the_thunk_is_made(self):
        for op in (Bell, BellInBoth):
            for mode in MODES:
                for centre, width in ((1.5, 2.0), (-4.0, 0.125)):
                    f = theano.function([x, y], op(centre, width)(x, y), mode=mode)
                    self.assertEqual(f(6.0, centre), 6.0)
                    self.assertAlmostEqual(
                        float(f(6.0, centre + 2 * width)), 6.0 * math.exp(-4), places=14, msg=(op, mode)
                    )
        first, second = modules(Bell(1.5, 2.0)(x, y), Bell(-4.0, 0.125)(x, y))
        self.assertIs(first, second)

        # If the params lack an attribute, the initialization of the thunk raises the error of Python's C API.
        class Shapeless(Bell):
            def get_params(self, node):
                return "a text"

        with self.assertRaisesRegex(AttributeError, "'str' object has no attribute 'centre'"):
            theano.function([x, y], Shapeless(1.0, 1.0)(x, y), mode="FAST_RUN")

    def test_params_may_depend_on_the_node_and_none_means_none(self):
        class Sized(Op):
            """An Op that multiplies its first input by the number of inputs, or by -1 if it has one input."""

            __props__ = ()
            params_type = Generic()

            def make_node(self, *inputs):
                return Apply(self, [as_scalar(v) for v in inputs], [theano.scalar.float64()])

            def get_params(self, node):
                return len(node.inputs) if node.nin > 1 else None

            def perform(self, node, inputs, output_storage, *params):
                output_storage[0][0] = inputs[0] * (params[0] if params else -1)

        op = Sized()
        self.assertIs(op(x).owner.run_params(), NoParams)
        f = theano.function([x, y], [op(x), op(x, y), op(x, y, y)])
        self.assertEqual([float(v) for v in f(2.0, 0.0)], [-2.0, 4.0, 6.0])

    def test_defining_a_params_type(self):
        """A Type for params needs only the methods that the tutorial lists: four for Python, the others for C."""

        class PairType(theano.gof.Type):
            def filter(self, data, strict=False, allow_downcast=None):
                if not isinstance(data, tuple) or len(data) != 2:
                    raise TypeError("expected a pair, got %r" % (data,))
                return data

            def __eq__(self, other):
                return type(self) is type(other)

            def __hash__(self):
                return hash(type(self))

            def values_eq(self, a, b):
                return a == b

            def c_declare(self, name, sub, check_input=True):
                return "double %(name)s[2];" % dict(name=name)

            def c_init(self, name, sub):
                return "%(name)s[0] = %(name)s[1] = 0;" % dict(name=name)

            def c_extract(self, name, sub, check_input=True):
                return """
                for (int i = 0; i < 2; ++i)
                    %(name)s[i] = PyFloat_AsDouble(PyTuple_GET_ITEM(py_%(name)s, i));
                if (PyErr_Occurred()) {
                    %(fail)s
                }
                """ % dict(name=name, fail=sub["fail"])

            def c_cleanup(self, name, sub):
                return ""

            def c_code_cache_version(self):
                return (1,)

        class PairMix(Weighted):
            __props__ = ("pair",)
            params_type = PairType()

            def __init__(self, *pair):
                self.pair = pair

            def get_params(self, node):
                return self.pair

            def perform(self, node, inputs, output_storage, params):
                output_storage[0][0] = params[0] * inputs[0] + params[1] * inputs[1]

            def c_code(self, node, name, inputs, outputs, sub):
                return "%(z)s = %(p)s[0] * %(x)s + %(p)s[1] * %(y)s;" % dict(
                    z=outputs[0], x=inputs[0], y=inputs[1], p=sub["params"]
                )

        for mode in MODES:
            f = theano.function([x, y], [PairMix(2.0, 0.5)(x, y), PairMix(3, -1)(x, y)], mode=mode)
            self.assertEqual(f(3.0, 4.0), [8.0, 5.0], mode)
            with self.assertRaisesRegex(TypeError, "expected a pair, got .1, 2, 3."):
                theano.function([x, y], PairMix(1, 2, 3)(x, y), mode=mode)
        with self.assertRaisesRegex(TypeError, "must be real number, not str"):
            theano.function([x, y], PairMix("a", 2)(x, y), mode="FAST_RUN")

    def test_bundle(self):
        """With a ParamsType, several params need neither a separate class nor struct code."""

        class StructMix(Weighted):
            __props__ = ("rise", "run")
            params_type = ParamsType(rise=Scalar("float64"), run=Scalar("float64"))

            def __init__(self, rise, run):
                self.rise, self.run = rise, run

            def perform(self, node, inputs, output_storage, params):
                output_storage[0][0] = params.rise * inputs[0] + params.run * inputs[1]

            def c_code(self, node, name, inputs, outputs, sub):
                return "%(z)s = %(p)s->rise * %(x)s + %(p)s->run * %(y)s;" % dict(
                    z=outputs[0], x=inputs[0], y=inputs[1], p=sub["params"]
                )

        for mode in MODES:
            self.assertEqual(theano.function([x, y], StructMix(2, 0.5)(x, y), mode=mode)(3.0, 4.0), 8.0, mode)
        first, second = modules(StructMix(2, 0.5)(x, y), StructMix(3, 0.25)(x, y))
        self.assertIs(first, second)


if __name__ == "__main__":
    unittest.main()
