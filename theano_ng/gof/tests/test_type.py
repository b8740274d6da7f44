"""Tests of the Type interface: values, variables, sizes, Types of the package without arrays, and a user's Type."""

import copy
import ctypes
import gc
import pickle
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.sharedvalue import SharedVariable, shared_constructor
from theano_ng.configdefaults import config
from theano_ng.gof import Constant
from theano_ng.gof import compiler as cmodule
from theano_ng.gof.graph import Apply, Variable
from theano_ng.gof.null_type import NullType, null_type
from theano_ng.gof.op import Op
from theano_ng.gof.type import CDataType, CDataTypeConstant, SingletonType, Type, generic
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.gradient import DisconnectedType
from theano_ng.ifelse import ifelse
from theano_ng.scalar import as_scalar
from theano_ng.tensor.type_other import NoneConst, NoneTypeT, none_type_t

MODES = ["FAST_COMPILE", "FAST_RUN", "DebugMode", "NanGuardMode"]


class Text:
    """A mutable, unhashable value."""

    def __init__(self, letters):
        self.letters = letters

    def __eq__(self, other):
        return type(other) is Text and other.letters == self.letters

    __hash__ = None


class TextType(Type):
    """A Type with `filter`, the only required method, and some optional methods."""

    __props__ = ("longest",)

    def __init__(self, longest=100):
        self.longest = longest

    def filter(self, data, strict=False, allow_downcast=None):
        if isinstance(data, str) and not strict:
            data = Text(data)
        if not isinstance(data, Text):
            raise TypeError("expected a Text, got %r" % (data,))
        if len(data.letters) > self.longest:
            if strict or not allow_downcast:
                raise TypeError("longer than %d" % self.longest)
            data = Text(data.letters[: self.longest])
        return data

    def convert_variable(self, var):
        # Every value of a Type for shorter texts is also valid for a Type for longer ones.
        if type(var.type) is TextType and var.type.longest <= self.longest:
            return Longer(self)(var)

    def get_shape_info(self, obj):
        return len(obj.letters)

    def get_size(self, shape_info):
        return 4 * shape_info

    def __str__(self):
        return "text%d" % self.longest


class Longer(Op):
    __props__ = ("to",)
    view_map = {0: [0]}

    def __init__(self, to):
        self.to = to

    def make_node(self, x):
        return Apply(self, [x], [self.to()])

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = inputs[0]


class Upper(Op):
    __props__ = ()

    def make_node(self, x):
        x = text.filter_variable(x)
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = Text(inputs[0].letters.upper())


text = TextType()


class TestPureType(unittest.TestCase):
    def test_defaults(self):
        """A Type with only `filter` has working defaults for everything else."""

        class Even(Type):
            def filter(self, data, strict=False, allow_downcast=None):
                if data % 2:
                    raise ValueError("%r is odd" % data)
                return data

        even = Even()
        self.assertTrue(even.is_valid_value(2))
        self.assertFalse(
            even.is_valid_value(3) or even.is_valid_value("a") or even.is_valid_value(None)
        )  # a value is invalid if `filter` raises any exception
        self.assertEqual((even.value_validity_msg(3), even.value_validity_msg(2)), ("3 is odd", "value is valid"))
        self.assertTrue(even.values_eq(2, 2.0) and even.values_eq_approx(2, 2.0) and not even.values_eq_approx(2, 4))
        x = even("x")
        self.assertEqual((x.type, x.name, x.owner, type(x)), (even, "x", None, Variable))
        self.assertIsNone(even.make_variable().name)
        self.assertTrue(x.tag.trace)
        c = even.make_constant(4, "four")
        self.assertEqual(
            (c.data, c.name, str(c), type(c), str(even.make_constant(6))), (4, "four", "four", Constant, "Constant{6}")
        )
        self.assertRaises(ValueError, even.make_constant, 5)
        self.assertIsNone(even.convert_variable(x))
        # Types are compared by identity, unless the class defines equality.
        self.assertNotEqual(Even(), even)
        self.assertEqual((text, hash(text)), (TextType(), hash(TextType())))
        self.assertNotEqual(text, TextType(7))
        # A Type that defines no methods raises MethodNotDefined if a call needs one of the missing methods.
        for ask in (
            lambda: Type().filter(3),
            lambda: Type().is_valid_value(3),
            lambda: Type().c_declare("x", {}),
            lambda: Type().c_cleanup("x", {}),
            lambda: Type().c_literal(3),
            lambda: Type().c_element_type(),
        ):
            self.assertRaises(MethodNotDefined, ask)
        self.assertEqual((Type().c_code_cache_version(), Type().c_is_simple()), ((), False))

        class OwnClasses(Even):
            class Variable(Variable):
                pass

            class Constant(Constant):
                pass

        own = OwnClasses()
        self.assertEqual((type(own()), type(own.make_constant(2))), (OwnClasses.Variable, OwnClasses.Constant))

    def test_plain_instance(self):
        """The methods of a Type may be attributes of an instance, as in the tutorial."""
        double = theano.gof.Type()

        def filter(x, strict=False, allow_downcast=None):
            if strict and not isinstance(x, float):
                raise TypeError("Expected a float!")
            return float(x)

        double.filter = filter
        double.values_eq_approx = lambda x, y, tolerance=1e-4: abs(x - y) / (abs(x) + abs(y)) < tolerance
        self.assertEqual((double.filter(2), double.is_valid_value(2), double.is_valid_value(2.0)), (2.0, False, True))
        twice = theano.gof.Op()
        twice.make_node = lambda x: Apply(twice, [x], [double()])
        twice.perform = lambda node, inputs, outputs: outputs[0].__setitem__(0, 2 * inputs[0])
        x = double("x")
        for mode in MODES:
            self.assertEqual(theano.function([x], twice(x), mode=mode)(5), 10.0)

    def test_filter_variable(self):
        short = TextType(3)("s")
        self.assertIs(text.filter_variable(text("x")).type, text)
        self.assertEqual(text.filter_variable("abc").data, Text("abc"))
        self.assertIsInstance(text.filter_variable(short).owner.op, Longer)
        for type_, value, text_ in (
            (TextType(3), text("x"), "Cannot convert Type text100 .of Variable x. into Type text3"),
            (text, T.dscalar("d"), "Cannot convert Type TensorType.float64, scalar. .of Variable d. into Type text100"),
            (text, 3, "expected a Text, got 3"),
        ):
            with self.assertRaisesRegex(TypeError, text_):
                type_.filter_variable(value)
        self.assertRaises(TypeError, text.filter_variable, short, allow_convert=False)
        # A node can be given inputs of a narrower type if convert_variable converts them.
        node = Upper()(text("x")).owner
        self.assertIsInstance(node.clone_with_new_inputs([short]).inputs[0].owner.op, Longer)
        f = theano.function([short], Upper()(text("y")).owner.clone_with_new_inputs([short]).outputs[0])
        self.assertEqual(f("abc"), Text("ABC"))

    def test_equality_of_generic_values(self):
        """Values with arrays, and copies of objects without __eq__, can be compared."""

        class Plain:
            def __init__(self, value):
                self.value = value

        a = np.array([1.0, np.nan, 3.0])
        loop = [1]
        loop.append(loop)
        for value in (a, (a, [a, None]), {"k": (a, 2)}, Plain((a, "text")), float("nan"), a.astype(object), loop):
            for equal in (generic.values_eq, generic.values_eq_approx):
                self.assertTrue(equal(value, copy.deepcopy(value)), value)
        for one, other in (
            ((a,), (a[:2],)),
            ((a,), (a.astype("float32"),)),
            ((a,), [a]),
            ({"k": a}, {"k": 1 - a}),
            ({"k": a}, {"l": a}),
            (Plain(1), Plain(2)),
            (a, 1.0),
            (1, 2),
        ):
            for equal in (generic.values_eq, generic.values_eq_approx):
                self.assertFalse(equal(one, other), (one, other))
        near = [a * (1 + 1e-12)]
        self.assertFalse(generic.values_eq([a], near))
        self.assertTrue(generic.values_eq_approx([a], near))

    def test_singletons(self):
        class One(SingletonType):
            pass

        class Two(SingletonType):
            pass

        self.assertIs(One(), One())
        self.assertIsNot(One(), Two())
        self.assertNotEqual(One(), Two())
        for kind in (generic, none_type_t):
            for twin in (type(kind)(), pickle.loads(pickle.dumps(kind)), copy.deepcopy(kind), copy.copy(kind)):
                self.assertIs(twin, kind)
        self.assertNotEqual(generic, none_type_t)
        self.assertEqual((str(generic), str(One()), str(none_type_t)), ("Generic", "One", "NoneTypeT"))
        # Constants of Python objects merge if value and class are equal; unhashable ones never merge.
        one, true, two_lists = Constant(generic, 1), Constant(generic, True), [Constant(generic, [1]) for _ in range(2)]
        self.assertNotEqual(one.merge_signature(), true.merge_signature())
        self.assertEqual(one.merge_signature(), Constant(generic, 1).merge_signature())
        self.assertNotEqual(two_lists[0].merge_signature(), two_lists[1].merge_signature())
        hash(two_lists[0].merge_signature())


class TestUserType(unittest.TestCase):
    """Tests of a Type that is written in Python only, wherever variables are allowed."""

    x = text("x")

    def test_functions(self):
        x, c = self.x, T.bscalar("c")
        for mode in MODES:
            f = theano.function([x], [Upper()(x), x], mode=mode)
            value = Text("abc")
            upper, same = f(value)
            self.assertEqual((upper, same), (Text("ABC"), value))
            self.assertIsNot(same, value)  # the returned input is a copy
            f = theano.function(
                [theano.In(x, value="given")], [Upper()(x), Upper()("constant"), Upper()("constant")], mode=mode
            )
            self.assertEqual(f(), [Text("GIVEN"), Text("CONSTANT"), Text("CONSTANT")])
            with self.assertRaisesRegex(TypeError, "expected a Text, got 3"):
                f(3)
            f = theano.function([c, x], ifelse(c, x, Upper()(x)), mode=mode)
            self.assertEqual((f(1, "abc"), f(0, "abc")), (Text("abc"), Text("ABC")))
            f = pickle.loads(pickle.dumps(theano.function([x], Upper()(x), mode=mode)))
            self.assertEqual(f("abc"), Text("ABC"))
        short = theano.In(TextType(3)("s"), allow_downcast=True)
        self.assertEqual(theano.function([short], short.variable)("abcdef"), Text("abc"))
        short = theano.In(TextType(3)("s"), strict=True)
        self.assertRaises(TypeError, theano.function([short], short.variable), "abc")

    def test_debug_mode_judges_by_the_type(self):
        class Wrong(Upper):
            def perform(self, node, inputs, output_storage):
                output_storage[0][0] = inputs[0].letters

        class Shouts(Upper):
            def perform(self, node, inputs, output_storage):
                inputs[0].letters += "!"
                output_storage[0][0] = Text("")

        from theano_ng.compile.debugmode import BadDestroyMap, InvalidValueError

        with self.assertRaisesRegex(InvalidValueError, "expected a Text, got 'abc'"):
            theano.function([self.x], Wrong()(self.x), mode="DebugMode")("abc")
        self.assertRaises(BadDestroyMap, theano.function([self.x], Shouts()(self.x), mode="DebugMode"), "abc")

    def test_shared(self):
        for mode in MODES:
            s = SharedVariable("s", text, "start", strict=False)
            f = theano.function([], s, updates=[(s, Upper()(s))], mode=mode)
            self.assertEqual((f(), s.get_value()), (Text("start"), Text("START")))
            s.set_value("new")
            self.assertEqual(f(), Text("new"))
        self.assertIsNot(s.get_value(), s.get_value())
        self.assertIs(s.get_value(borrow=True), s.get_value(borrow=True))
        self.assertRaises(TypeError, s.set_value, 3)
        # Without a registered constructor, a shared Text has the generic type. With a constructor, it has the type that
        # the constructor chooses.
        self.assertEqual(theano.shared(Text("a")).type, generic)

        @shared_constructor
        def text_constructor(value, name=None, strict=False, allow_downcast=None):
            if not isinstance(value, Text):
                raise TypeError
            return SharedVariable(name=name, type=text, value=value, strict=strict, allow_downcast=allow_downcast)

        self.addCleanup(shared_constructor, text_constructor, remove=True)
        self.assertEqual((theano.shared(Text("a")).type, theano.shared([1]).type), (text, generic))

    def test_filter_inplace(self):
        """A new value of a shared variable or input overwrites the old value if the Type has `filter_inplace`."""
        asked = []

        class Reusing(TextType):
            def filter_inplace(self, value, storage, strict=False, allow_downcast=None):
                asked.append((strict, allow_downcast))
                value = self.filter(value, strict, allow_downcast)
                if storage is None:
                    return value
                storage.letters = value.letters
                return storage

        kind = Reusing(5)
        s = SharedVariable("s", kind, "start", strict=False, allow_downcast=True)
        memory = s.get_value(borrow=True)
        s.set_value("other things")
        self.assertIs(s.get_value(borrow=True), memory)
        self.assertEqual((memory.letters, asked), ("other", [(False, True)]))
        strict = SharedVariable("s", kind, Text("start"), strict=True)
        self.assertRaises(TypeError, strict.set_value, "str")
        self.assertEqual(asked[1:], [(True, None)])
        x = kind("x")
        f = theano.function([theano.In(x, value=Text("a"))], x)
        self.assertEqual((f("b"), f()), (Text("b"), Text("a")))

    def test_sizes_in_the_profile(self):
        with config.change_flags(profile=True, profile_memory=True):
            f = theano.function([self.x], Upper()(Upper()(self.x)), mode="FAST_RUN")
        f("abcde")
        self.addCleanup(theano.compile.profiling._atexit_print_list.remove, f.profile)
        infos = {str(r): info for r, info in f.profile.variable_shape.items()}
        self.assertEqual(infos, {"x": 5, "Upper.0": 5})
        self.assertEqual({r.type.get_size(info) for r, info in f.profile.variable_shape.items()}, {20})

    def test_clone_and_sizes_of_the_package(self):
        self.assertEqual(T.dmatrix.clone(), T.dmatrix)
        self.assertEqual(
            T.dmatrix.clone(dtype="int8", broadcastable=(True, False)), T.TensorType("int8", (True, False))
        )
        self.assertEqual(theano.scalar.float64.clone("int8"), theano.scalar.int8)
        for kind, value, size in (
            (T.fmatrix, np.zeros((3, 5), "float32"), 60),
            (T.dscalar, np.zeros(()), 8),
            (T.bvector, np.zeros(0, "int8"), 0),
            (theano.scalar.complex64, np.complex64(1), 8),
        ):
            self.assertEqual(kind.get_size(kind.get_shape_info(value)), size)
        base = np.zeros(6)
        self.assertTrue(T.dvector.may_share_memory(base[:4], base[2:]))
        self.assertFalse(T.dvector.may_share_memory(base[:2], base[2:]) or T.dvector.may_share_memory(base, 3))
        self.assertFalse(theano.scalar.float64.may_share_memory(np.float64(1), np.float64(1)))


class TestTypesWithoutValues(unittest.TestCase):
    def test_null(self):
        kind = NullType("this is not differentiable")
        self.assertEqual(
            (str(kind), kind.why_null, null_type.why_null),
            ("NullType", "this is not differentiable", "(no explanation given)"),
        )
        self.assertEqual((kind, hash(kind)), (null_type, hash(null_type)))
        for ask in (kind.filter, kind.filter_variable, kind.make_constant):
            with self.assertRaisesRegex(
                ValueError, "No values may be assigned to a NullType: this is not differentiable"
            ):
                ask(3)
        self.assertFalse(kind.is_valid_value(3) or kind.may_share_memory(1, 1))
        self.assertIn("this is not differentiable", kind.value_validity_msg(3))
        self.assertRaises(ValueError, kind.values_eq, 1, 1)
        # A function that needs a NullType value raises an error with the reason.
        with self.assertRaisesRegex(TypeError, "this is not differentiable"):
            theano.function([], kind())
        self.assertEqual(pickle.loads(pickle.dumps(kind)).why_null, kind.why_null)

    def test_disconnected(self):
        kind = DisconnectedType()
        self.assertEqual(
            (str(kind), kind, hash(kind)), ("DisconnectedType", DisconnectedType(), hash(DisconnectedType()))
        )
        for ask in (kind.filter, kind.filter_variable):
            with self.assertRaisesRegex(AssertionError, "assigning to a DisconnectedType"):
                ask(3)
        self.assertFalse(kind.is_valid_value(3) or kind.may_share_memory(1, 1))
        self.assertNotEqual(kind, null_type)

    def test_none(self):
        self.assertEqual((str(NoneConst), NoneConst.type, NoneConst.data), ("NoneConst", none_type_t, None))
        self.assertTrue(
            NoneConst.equals(pickle.loads(pickle.dumps(NoneConst))) and NoneConst.equals(Constant(NoneTypeT(), None))
        )
        self.assertIsNone(none_type_t.filter(None, strict=True))
        self.assertFalse(none_type_t.is_valid_value(0) or none_type_t.may_share_memory(None, None))
        n = none_type_t("n")
        f = theano.function([n], n)
        self.assertIsNone(f(None))
        # C code receives the object.
        if cmodule.find_toolchain():
            for inputs, args, out in (([n], [None], OnlyNone()(n)), ([], [], OnlyNone()(NoneConst))):
                self.assertIsNone(theano.function(inputs, out, mode=theano.Mode("c", None))(*args))
        with self.assertRaisesRegex(TypeError, "Expected None! Got 3 of type int"):
            f(3)


class OnlyNone(Op):
    __props__ = ()

    def make_node(self, x):
        return Apply(self, [x], [none_type_t()])

    def c_code(self, node, name, inputs, outputs, sub):
        return """
        if (%(x)s != Py_None) {
            PyErr_SetString(PyExc_TypeError, "this is not None");
            %(fail)s
        }
        Py_XDECREF(%(z)s);
        %(z)s = %(x)s;
        Py_INCREF(%(z)s);
        """ % dict(sub, x=inputs[0], z=outputs[0])

    def c_code_cache_version(self):
        return (1,)


class Pack(Op):
    """An Op that puts a double into a C struct.

    The C code counts the freed and the created structs in two integers at `address`.
    """

    __props__ = ()

    def make_node(self, x, address):
        return Apply(self, [as_scalar(x), as_scalar(address)], [box()])

    def c_code(self, node, name, inputs, outputs, sub):
        return """
        if (%(x)s < 0) {
            PyErr_SetString(PyExc_ValueError, "a negative number");
            %(fail)s
        }
        if (%(x)s > 100 && %(z)s != NULL) {
            // Leaves what an earlier call made.
        } else {
            %(z)s = (box*)malloc(sizeof(box));
            %(z)s->value = %(x)s;
            %(z)s->counts = (npy_int64*)%(a)s;
            ++%(z)s->counts[1];
        }
        """ % dict(sub, z=outputs[0], x=inputs[0], a=inputs[1])

    def c_code_cache_version(self):
        return (1,)


class Unpack(Op):
    __props__ = ()

    def make_node(self, b):
        return Apply(self, [b], [theano.scalar.float64()])

    def c_code(self, node, name, inputs, outputs, sub):
        return """
        if (%(b)s == NULL) {
            PyErr_SetString(PyExc_ValueError, "nothing in the box");
            %(fail)s
        }
        %(z)s = %(b)s->value;
        """ % dict(sub, z=outputs[0], b=inputs[0])

    def c_code_cache_version(self):
        return (1,)


box = CDataType(
    "box *",
    freefunc="free_box",
    version=(1,),
    headers=["<stdlib.h>"],
    extra_support_code="""
typedef struct { double value; npy_int64* counts; } box;
static void free_box(void* b) { ++*((box*)b)->counts; free(b); }
""",
)


class TestCData(unittest.TestCase):
    def test_python_side(self):
        for bad in (
            lambda: CDataType(3),
            lambda: CDataType("int *", freefunc=free),
            lambda: CDataType("int *", version=1),
        ):
            self.assertRaises(TypeError, bad)
        kind = CDataType(
            "int *", headers=["<a.h>"], libraries=("b",), header_dirs=["c"], lib_dirs=["d"], compile_args=["-e"]
        )
        self.assertEqual(
            (str(kind), kind.c_code_cache_version(), box.c_code_cache_version()[-1]), ("CDataType{int *}", (), (1,))
        )
        self.assertEqual(
            (kind.c_headers(), kind.c_libraries(), kind.c_header_dirs(), kind.c_lib_dirs(), kind.c_compile_args()),
            (["<a.h>"], ["b"], ["c"], ["d"], ["-e"]),
        )
        self.assertEqual((kind, hash(kind)), (pickle.loads(pickle.dumps(kind)), hash(pickle.loads(pickle.dumps(kind)))))
        self.assertNotEqual(kind, CDataType("int *"))
        self.assertTrue(kind.is_valid_value(None) and not kind.is_valid_value(3))
        with self.assertRaisesRegex(TypeError, "expected a PyCapsule that holds a int ., or None; got <class 'int'>"):
            kind.filter(3)
        with self.assertRaisesRegex(TypeError, "make_value expected an address .an integer., got 'x'"):
            kind.make_value("x")

    @unittest.skipUnless(cmodule.find_toolchain(), "needs a C++ compiler")
    def test_freed_exactly_once(self):
        counts = np.zeros(2, "int64")
        address = counts.ctypes.data
        x, a, b = theano.scalar.float64("x"), theano.scalar.int64("a"), box("b")
        for mode in ("FAST_RUN", theano.Mode("c", None), "DebugMode"):
            # The handle is a temporary variable. It is freed even if the call fails after the handle was made.
            counts[:] = 0
            f = theano.function([x, a], Unpack()(Pack()(x, a)), mode=mode)
            self.assertEqual([f(float(i), address) for i in range(4)], [0.0, 1.0, 2.0, 3.0])
            self.assertRaisesRegex(ValueError, "a negative number", f, -1.0, address)
            f(5.0, address)
            del f
            gc.collect()
            self.assertGreaterEqual(counts[1], 5)
            self.assertEqual(counts[0], counts[1], mode)
        for mode in ("FAST_RUN", theano.Mode("c", None)):
            # The handle is a result, which outlives the function.
            counts[:] = 0
            f = theano.function([x, a], theano.Out(Pack()(x, a), borrow=True), mode=mode)
            kept = [f(2.0, address) for _ in range(3)]
            kept.append(f(200.0, address))  # for 200, the Op may return the previous struct again
            del f
            gc.collect()
            self.assertEqual(counts[0], counts[1] - len({id(capsule) for capsule in kept}), mode)
            # The handle is an input, and also an output: the function returns the same handle.
            value, same = theano.function([b], [Unpack()(b), b])(kept[0])
            self.assertEqual((value, same is kept[0]), (2.0, True))
            del kept, same
            gc.collect()
            self.assertEqual(counts[0], counts[1], mode)
        with self.assertRaisesRegex(ValueError, "nothing in the box"):
            theano.function([b], Unpack()(b))(None)

    @unittest.skipUnless(cmodule.find_toolchain(), "needs a C++ compiler")
    def test_make_value(self):
        plain = CDataType("double *", version=(1,))
        memory = np.array([2.5])
        value = plain.make_value(memory.ctypes.data)
        self.assertTrue(plain.is_valid_value(value))
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        self.assertEqual(get(value, None), memory.ctypes.data)
        self.assertIsNone(plain.make_value(0))
        c = plain.make_constant(value)
        self.assertIsInstance(c, CDataTypeConstant)
        self.assertTrue(c.equals(plain.make_constant(value)))
        self.assertFalse(c.equals(plain.make_constant(plain.make_value(memory.ctypes.data))))
        self.assertIs(copy.deepcopy(c).data, value)
        with self.assertRaisesRegex(TypeError, "cannot pickle .* of type CDataType{double .}: it holds a C pointer"):
            pickle.dumps(c)
        pickle.dumps(plain)  # `make_value` has compiled a function, which is not pickled


def free(pointer):
    """Stand in for a wrong `freefunc`: CDataType accepts only the name of a C function."""


if __name__ == "__main__":
    unittest.main()
