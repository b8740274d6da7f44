"""The tutorial on Op params: its listings as they are printed, in Python and in C, in every mode.

One listing has lost lines in the printed text (the ``%(fail)s`` after each test, and the releases of what was fetched); they are
restored.
"""
import unittest

import theano_ng as theano
from theano_ng.gof import Apply, ParamsType, cc, cmodule
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.graph import NoParams
from theano_ng import Op
from theano_ng.gof.type import Generic
from theano_ng.scalar import Scalar, as_scalar

MODES = ["FAST_COMPILE", "FAST_RUN", "DebugMode"]


class MulOp(Op):
    params_type = Generic()
    __props__ = ('mul',)

    def __init__(self, mul):
        self.mul = float(mul)

    def get_params(self, node):
        return self.mul

    def make_node(self, inp):
        inp = as_scalar(inp)
        return Apply(self, [inp], [inp.type()])

    def perform(self, node, inputs, output_storage, params):
        # Here params is a python float so this is ok
        output_storage[0][0] = inputs[0] * params

    def c_code(self, node, name, inputs, outputs, sub):
        return ("%(z)s = %(x)s * PyFloat_AsDouble(%(p)s);" %
                dict(z=outputs[0], x=inputs[0], p=sub['params']))

    def c_code_cache_version(self):     # not printed there: keeps the tests from compiling it in every process
        return (1,)


class ab(object):
    def __init__(self, alpha, beta):
        self.alpha = alpha
        self.beta = beta

    def __hash__(self):
        return hash((type(self), self.alpha, self.beta))

    def __eq__(self, other):
        return (type(self) == type(other) and
                self.alpha == other.alpha and
                self.beta == other.beta)


class Mix(Op):
    params_type = Generic()
    __props__ = ('alpha', 'beta')

    def __init__(self, alpha, beta):
        self.alpha = alpha
        self.beta = beta

    def get_params(self, node):
        return ab(alpha=self.alpha, beta=self.beta)

    def make_node(self, x, y):
        x = as_scalar(x)
        y = as_scalar(y)
        return Apply(self, [x, y], [x.type()])

    def c_support_code_struct(self, node, name):
        return """
        double alpha_%(name)s;
        double beta_%(name)s;
        """ % dict(name=name)

    def c_init_code_struct(self, node, name, sub):
        return """{
        PyObject *tmp;
        tmp = PyObject_GetAttrString(%(p)s, "alpha");
        if (tmp == NULL)
          %(fail)s
        alpha_%(name)s = PyFloat_AsDouble(tmp);
        Py_DECREF(tmp);
        if (PyErr_Occurred())
          %(fail)s
        tmp = PyObject_GetAttrString(%(p)s, "beta");
        if (tmp == NULL)
          %(fail)s
        beta_%(name)s = PyFloat_AsDouble(tmp);
        Py_DECREF(tmp);
        if (PyErr_Occurred())
          %(fail)s
        }""" % dict(name=name, p=sub['params'], fail=sub['fail'])

    def c_code(self, node, name, inputs, outputs, sub):
        return """
        %(z)s = alpha_%(name)s * %(x)s + beta_%(name)s * %(y)s;
        """ % dict(name=name, z=outputs[0], x=inputs[0], y=inputs[1])

    def c_code_cache_version(self):
        return (1,)


class BothMix(Mix):
    """The listing has no `perform`; with one it runs in DebugMode's comparison, too."""

    def perform(self, node, inputs, output_storage, params):
        output_storage[0][0] = params.alpha * inputs[0] + params.beta * inputs[1]


x, y = theano.scalar.float64("x"), theano.scalar.float64("y")


def modules(*outputs):
    """The modules of whole graphs by linker c."""
    return [cc.CLinker().accept(FunctionGraph([v for v in (x, y) if v in theano.gof.graph.inputs([out])], [out])).make_thunk()[0].module
            for out in outputs]


@unittest.skipUnless(cmodule.find_toolchain(), "needs a C++ compiler")
class TestTutorial(unittest.TestCase):
    def test_mul_op(self):
        for mode in MODES:
            for factor in (3, 0.5):
                self.assertEqual(theano.function([x], MulOp(factor)(x), mode=mode)(2.0), 2.0 * factor, (mode, factor))
        # The value is no part of the code.
        first, second = modules(MulOp(3)(x), MulOp(0.5)(x))
        self.assertIs(first, second)
        self.assertEqual(MulOp(3), MulOp(3.0))
        self.assertNotEqual(MulOp(3), MulOp(4))

    def test_mix(self):
        for op in (Mix, BothMix):
            for mode in MODES:
                for alpha, beta in ((0.25, 4.0), (-1.0, 0.5)):
                    f = theano.function([x, y], op(alpha, beta)(x, y), mode=mode)
                    self.assertEqual(f(8.0, 3.0), alpha * 8 + beta * 3, (op, mode))
        first, second = modules(Mix(0.25, 4.0)(x, y), Mix(-1.0, 0.5)(x, y))
        self.assertIs(first, second)
        # A params object that lacks what the code reads: the error of Python's C API, from the thunk's initialization.
        class Broken(Mix):
            def get_params(self, node):
                return 7

        with self.assertRaisesRegex(AttributeError, "'int' object has no attribute 'alpha'"):
            theano.function([x, y], Broken(1.0, 2.0)(x, y), mode="FAST_RUN")

    def test_params_may_depend_on_the_node_and_none_means_none(self):
        class Sized(Op):
            """Multiplies by the number of its inputs."""

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
        """No more than the methods that the tutorial lists: four for Python, four for C."""
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
                """ % dict(name=name, fail=sub['fail'])

            def c_cleanup(self, name, sub):
                return ""

            def c_code_cache_version(self):
                return (1,)

        class PairMix(Op):
            __props__ = ('pair',)
            params_type = PairType()
            make_node = Mix.make_node

            def __init__(self, *pair):
                self.pair = pair

            def get_params(self, node):
                return self.pair

            def perform(self, node, inputs, output_storage, params):
                output_storage[0][0] = params[0] * inputs[0] + params[1] * inputs[1]

            def c_code(self, node, name, inputs, outputs, sub):
                return "%(z)s = %(p)s[0] * %(x)s + %(p)s[1] * %(y)s;" % dict(z=outputs[0], x=inputs[0], y=inputs[1], p=sub['params'])

            def c_code_cache_version(self):
                return (1,)

        for mode in MODES:
            f = theano.function([x, y], [PairMix(2.0, 0.5)(x, y), PairMix(3, -1)(x, y)], mode=mode)
            self.assertEqual(f(3.0, 4.0), [8.0, 5.0], mode)
            with self.assertRaisesRegex(TypeError, "expected a pair, got .1, 2, 3."):
                theano.function([x, y], PairMix(1, 2, 3)(x, y), mode=mode)
        with self.assertRaisesRegex(TypeError, "must be real number, not str"):
            theano.function([x, y], PairMix("a", 2)(x, y), mode="FAST_RUN")

    def test_bundle(self):
        """"If you want to have multiple parameters": the same Op with a ParamsType needs neither class nor struct code."""
        class StructMix(Op):
            __props__ = ('alpha', 'beta')
            params_type = ParamsType(alpha=Scalar('float64'), beta=Scalar('float64'))
            make_node = Mix.make_node
            perform = BothMix.perform

            def __init__(self, alpha, beta):
                self.alpha, self.beta = alpha, beta

            def c_code(self, node, name, inputs, outputs, sub):
                return "%(z)s = %(p)s->alpha * %(x)s + %(p)s->beta * %(y)s;" % dict(
                    z=outputs[0], x=inputs[0], y=inputs[1], p=sub['params'])

            def c_code_cache_version(self):
                return (1,)

        for mode in MODES:
            self.assertEqual(theano.function([x, y], StructMix(2, 0.5)(x, y), mode=mode)(3.0, 4.0), 8.0, mode)
        first, second = modules(StructMix(2, 0.5)(x, y), StructMix(3, 0.25)(x, y))
        self.assertIs(first, second)


if __name__ == "__main__":
    unittest.main()
