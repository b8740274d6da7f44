"""Tests of enumerations as params: names, values and aliases in Python; macros, header constants and names in C."""

import copy
import pickle
import unittest

import numpy as np

import theano_ng as theano
from theano_ng.configdefaults import config
from theano_ng.gof import CEnumType, EnumList, EnumType, ParamsType
from theano_ng.gof import compiler as cmodule
from theano_ng.gof.codegen import clinker as cc
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.gof.type import generic


class TestPython(unittest.TestCase):
    def test_documented_examples(self):
        enum = EnumType(CONSTANT_1=1, CONSTANT_2=2.5, CONSTANT_3=False, CONSTANT_4=True)
        self.assertEqual(
            "%s %s %s %s" % (enum.CONSTANT_1, enum.CONSTANT_2, enum.CONSTANT_3, enum.CONSTANT_4), "1 2.5 0 1"
        )
        enum = EnumList("CONSTANT_1", "CONSTANT_2", "CONSTANT_3", "CONSTANT_4", "CONSTANT_5")
        self.assertEqual(
            [enum.CONSTANT_1, enum.CONSTANT_2, enum.CONSTANT_3, enum.CONSTANT_4, enum.CONSTANT_5], [0, 1, 2, 3, 4]
        )
        enum = EnumType(A=("alpha", 1), B=("beta", 2), C=3, D=("delta", 4))
        self.assertEqual((enum.A, enum.B, enum.C, enum.D), (1, 2, 3, 4))
        self.assertEqual([enum.fromalias(name) for name in ("alpha", "beta", "delta", "C")], [1, 2, 4, 3])
        self.assertEqual(enum.filter("delta", strict=False), 4)
        self.assertEqual(enum.get_aliases(), ("alpha", "beta", "delta"))
        self.assertTrue(enum.has_alias("beta"))
        self.assertFalse(enum.has_alias("C"))
        self.assertEqual(str(enum), "EnumType<double>(A(alpha):1, B(beta):2, C:3, D(delta):4)")
        self.assertEqual(
            EnumType(A=(1, "alpha"), B=(2, "beta"), C=3, D=(4, "delta")), enum
        )  # the other documented order
        enum = EnumList(("A", "alpha"), ("B", "beta"), "C", "D", "E", "F", ("G", "gamma"))
        self.assertEqual((enum.fromalias("gamma"), enum.F, enum.get_aliases()), (6, 5, ("alpha", "beta", "gamma")))

    def test_c_names(self):
        for enum, ctype, cname in (
            (EnumType(A=0), "double", "double"),
            (EnumList("A"), "int", "int"),
            (CEnumType("A", ctype="long"), "long", "long"),
            (EnumList("A", ctype="unsigned  long int"), "unsigned  long int", "unsigned_long_int"),
            (EnumType(A=0, ctype="size_t", cname="MyEnumName"), "size_t", "MyEnumName"),
        ):
            self.assertEqual((enum.ctype, enum.cname), (ctype, cname))
            self.assertIn(
                "int theano_enum_to_string_%s(%s value, char* output_string)" % (cname, ctype), enum.c_to_string()
            )
        with self.assertRaisesRegex(AttributeError, "not a valid C identifier.*cname"):
            EnumList("A", ctype="cudnn<int>")
        self.assertRaises(AttributeError, EnumList, "A", cname="1st")
        # Every number in C is one token or is parenthesized.
        enum = EnumType(A=-1, B=2**63, C=-(2**63), D=float("inf"), E=float("-inf"), F=float("nan"), G=-1e-5, H=2**40)
        defined = dict(line.split(" ", 2)[1:] for line in enum.c_support_code().split("\n") if line)
        self.assertEqual(
            defined,
            dict(
                A="(-1)",
                B="9223372036854775808ULL",
                C="(-9223372036854775807LL - 1)",
                D="INFINITY",
                E="(-INFINITY)",
                F="NAN",
                G="(-1e-05)",
                H="1099511627776LL",
            ),
        )

    def test_equality(self):
        """Two enums are equal if their C types and the names, values and aliases of their constants are equal.

        A bool or a NumPy integer counts as an int. The int 1 and the float 1.0 differ, because their C literals differ.
        """
        for one, other, same in (
            (dict(A=True), dict(A=1), True),
            (dict(A=np.int8(2)), dict(A=2), True),
            (dict(A=1), dict(A=1.0), False),
            (dict(A=1), dict(A=1, B=2), False),
            (dict(A=("a", 1)), dict(A=1), False),
            (dict(A=1, ctype="int"), dict(A=1, ctype="long"), False),
        ):
            self.assertEqual(
                (EnumType(**one) == EnumType(**other), EnumType(**one) != EnumType(**other)), (same, not same)
            )
            self.assertEqual(hash(EnumType(**one)) == hash(EnumType(**other)), same)

    def test_refusals(self):
        for make, error, text in (
            (lambda: EnumType(a=1), AttributeError, 'invalid constant name "a"'),
            (lambda: EnumType(Ab=1), AttributeError, "only capital letters"),
            (lambda: EnumType(A="one"), TypeError, "expected integer or floating value, got 'one'"),
            (lambda: EnumType(A=1j), TypeError, "expected integer or floating"),
            (lambda: EnumType(A=2**64), TypeError, "no C integer holds 18446744073709551616"),
            (lambda: EnumType(A=("x", 1, 2)), TypeError, "2 values: alias and value"),
            (lambda: EnumType(A=(1, 2)), TypeError, "alias should be a string"),
            (lambda: EnumType(A=("A", 1)), TypeError, "useless to create an alias"),
            (lambda: EnumType(A=("x", 1), B=("x", 2)), TypeError, 'alias "x" already used'),
            (lambda: EnumType(A=("B", 1), B=2), TypeError, 'alias "B" is the name of a constant'),
            (lambda: EnumList("A", "A"), AttributeError, "constant A is given twice"),
            (lambda: EnumList("A", B=3), TypeError, r"only keyword arguments ctype and cname, got \['B'\]"),
            (lambda: EnumList(3), TypeError, "constant names"),
            (lambda: EnumList(("A", "x", "y")), TypeError, "2 values: constant name and alias"),
            (lambda: EnumList("A").fromalias("b"), KeyError, "no constant has the alias or name 'b'"),
            (lambda: EnumList("A").B, AttributeError, "no constant or attribute B; constants: A"),
        ):
            with self.assertRaisesRegex(error, text):
                make()
        enum = EnumList("A", ("B", "b"))
        for change in (
            lambda: setattr(enum, "A", 3),
            lambda: enum.__setitem__("A", 3),
            lambda: enum.update(A=3),
            lambda: enum.pop("A"),
            lambda: enum.clear(),
            lambda: enum.setdefault("C", 1),
            lambda: enum.__delitem__("A"),
        ):
            with self.assertRaisesRegex(AttributeError, "immutable"):
                change()

    def test_filter(self):
        enum = EnumType(ONE=("uno", 1), HALF=0.5, NAN=float("nan"))
        for data, value in (
            ("uno", 1),
            ("HALF", 0.5),
            (True, 1),
            (1.0, 1),
            (np.int8(1), 1),
            (np.float32(0.5), 0.5),
            (1, 1),
        ):
            got = enum.filter(data)
            self.assertEqual((got, type(got)), (value, type(value)))
        self.assertNotEqual(enum.filter(np.float64("nan")), enum.filter(np.float64("nan")))  # NaN differs from itself
        for data in ("dos", 2, None, 1j, [1], np.ones(1), "uno "):
            with self.assertRaisesRegex(TypeError, r"one of the values .* or aliases \('uno',\), got"):
                enum.filter(data)
        self.assertEqual(enum.filter(0.5, strict=True), 0.5)
        self.assertRaises(TypeError, enum.filter, "uno", strict=True)
        self.assertTrue(enum.is_valid_value(1) and not enum.is_valid_value("uno") and not enum.is_valid_value(3))
        # Integer constants may be close to each other; they are never compared approximately.
        close = EnumType(A=10**12, B=10**12 + 1, C=1.0)
        self.assertFalse(close.values_eq_approx(close.A, close.B))
        self.assertTrue(close.values_eq_approx(close.C, 1.0 + 1e-12))
        self.assertFalse(close.values_eq(close.C, 1.0 + 1e-12))
        self.assertTrue(enum.values_eq(enum.NAN, float("nan")))
        self.assertFalse(enum.values_eq_approx(float("inf"), 1.0))

    def test_identity(self):
        enum = EnumType(A=("x", 1), B=2.5, N=float("nan"), ctype="float", cname="e")
        same = EnumType(N=float("nan"), B=2.5, A=("x", 1), ctype="float", cname="e")
        for twin in (same, pickle.loads(pickle.dumps(enum)), copy.deepcopy(enum), copy.copy(enum)):
            self.assertEqual(
                (twin, hash(twin), twin.A, twin.fromalias("x"), twin.ctype, twin.cname),
                (enum, hash(enum), 1, 1, "float", "e"),
            )
        for other in (
            EnumType(A=("x", 1), B=2.5, N=float("nan")),
            EnumType(A=1, B=2.5, N=float("nan"), ctype="float", cname="e"),
            EnumType(A=("x", 1.0), B=2.5, N=float("nan"), ctype="float", cname="e"),
        ):
            self.assertNotEqual(enum, other)
        self.assertNotEqual(EnumList("A"), CEnumType("A"))
        self.assertNotEqual(EnumList("A", "B").c_code_cache_version(), EnumList("B", "A").c_code_cache_version())
        self.assertTrue(EnumList())  # a type without constants is true, although it is an empty dict


class Constant(Op):
    """An Op that adds its params, a C value of the enum's type, to its input."""

    __props__ = ("value", "params_type")

    def __init__(self, params_type, value):
        self.params_type, self.value = params_type, value

    def get_params(self, node):
        return self.value

    def make_node(self, x):
        return Apply(self, [x], [theano.scalar.float64()])

    def perform(self, node, inputs, output_storage, params):
        output_storage[0][0] = np.float64(params + inputs[0])

    def c_headers(self):
        return ["<limits.h>"]

    def c_code(self, node, name, inputs, outputs, sub):
        return "%s = (double)%s + %s;" % (outputs[0], sub["params"], inputs[0])

    def c_code_cache_version(self):
        return (1,)


class Name(Constant):
    """An Op that returns the name of the constant whose value is the input."""

    def make_node(self, x):
        return Apply(self, [x], [generic()])

    def c_code(self, node, name, inputs, outputs, sub):
        return """
        {
            char text[80];
            if (theano_enum_to_string_numbers(%(x)s, text)) { %(fail)s }
            Py_XDECREF(%(z)s);
            %(z)s = PyUnicode_FromString(text);
        }
        """ % dict(sub, z=outputs[0], x=inputs[0])


class Bundled(Name):
    def get_params(self, node):
        return self.params_type.get_params(first=1, second=2.5)


def linked(inputs, outputs):
    return cc.CLinker().accept(FunctionGraph(inputs, outputs)).make_function()


@unittest.skipUnless(cmodule.find_toolchain(), "needs a C++ compiler")
class TestC(unittest.TestCase):
    x = theano.scalar.float64("x")

    def test_values(self):
        numbers = EnumType(A=("one", 1), B=2.5, C=-3, D=float("inf"))
        whole = EnumType(BIG=2**64 - 1, MIN=-(2**63), ctype="npy_uint64")
        header = CEnumType("SCHAR_MIN", ("CHAR_BIT", "bits"))
        cases = [
            (numbers, "one", 1),
            (numbers, 2.5, 2.5),
            (numbers, "C", -3),
            (numbers, np.inf, np.inf),
            (whole, 2**64 - 1, 2.0**64),
            (header, "bits", 8),
            (header, "SCHAR_MIN", -128),
        ]
        f = linked([self.x], [Constant(enum, value)(self.x) for enum, value, _ in cases])
        self.assertEqual([float(v) for v in f(0.0)], [float(expected) for *_, expected in cases])
        self.assertEqual(linked([self.x], [Constant(whole, "MIN")(self.x)])(0.0), 2.0**63)  # uint64 wraps around in C
        for mode in ("FAST_COMPILE", "FAST_RUN", "DebugMode"):
            self.assertEqual(theano.function([self.x], Constant(numbers, "one")(self.x), mode=mode)(2.0), 3.0)
        with self.assertRaisesRegex(TypeError, "EnumType: expected one of the values .* got 'two'"):
            theano.function([self.x], Constant(numbers, "two")(self.x), mode="FAST_RUN")

    def test_one_name_two_values(self):
        """Two enums that define one constant with different values cannot be in the same module.

        The macro of the second enum would replace that of the first.
        """
        one, two = (Constant(EnumType(A=value), value)(self.x) for value in (1, 2))
        with self.assertRaisesRegex(ValueError, "constant A of two enums has different values"):
            linked([self.x], [one, two])
        self.assertEqual(theano.function([self.x], [one, two])(1.0), [2.0, 3.0])

    def test_names_with_the_debug_flag(self):
        enum = EnumList("FIRST", ("SECOND", "two"), ctype="long", cname="numbers")
        values = EnumType(HALF=0.5, NOTHING=float("nan"), cname="numbers")
        with config.change_flags(**{"cmodule.debug": True}):
            f = linked([self.x], [Name(enum, "two")(self.x)])
            self.assertEqual((f(0.0), f(1.0)), ("FIRST", "SECOND"))
            with self.assertRaisesRegex(ValueError, "EnumList: unknown enumeration value"):
                f(2.0)
            f = linked([self.x], [Name(values, 0.5)(self.x)])
            self.assertEqual((f(0.5), f(float("nan"))), ("HALF", "NOTHING"))
            bundle = ParamsType(first=enum, second=EnumType(OTHER=2.5))
            self.assertEqual(linked([self.x], [Bundled(bundle, 1)(self.x)])(1.0), "SECOND")
            # Two enums in a bundle have the same cname. If both defined a function with this name, the module would not
            # compile, so neither defines it.
            both = ParamsType(first=enum, second=EnumType(OTHER=2.5, cname="numbers"))
            self.assertNotIn("theano_enum_to_string", "".join(both.c_support_code()))
            self.assertIn("#define OTHER 2.5", "".join(both.c_support_code()))
        # Without the flag cmodule.debug, no enum defines the function theano_enum_to_string.
        for kind in (enum, bundle):
            self.assertNotIn("theano_enum_to_string", "".join(kind.c_support_code()))
        with self.assertRaisesRegex(cmodule.CompileError, "theano_enum_to_string_numbers.* was not declared"):
            linked([self.x], [Name(enum, "two")(self.x)])


if __name__ == "__main__":
    unittest.main()
