"""Tests of GpuArrayType: its values, variables, constants, shared variables and pickles."""

import copy
import io
import pickle
import unittest
import zipfile

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.compile.nanguardmode import NanGuardMode
from theano_ng.compile.sharedvalue import shared
from theano_ng.configdefaults import config
from theano_ng.configparser import change_flags
from theano_ng.gpuarray import contexts
from theano_ng.gpuarray.contexts import unregister
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.tests.device import context
from theano_ng.gpuarray.transfers import (
    GpuFromHost,
    GpuToGpu,
    HostFromGpu,
    as_gpuarray_variable,
    gpu_contiguous,
    host_from_gpu,
)
from theano_ng.gpuarray.type import (
    ContextNotDefined,
    GpuArray_unpickler,
    GpuArrayConstant,
    GpuArraySharedVariable,
    GpuArrayType,
    GpuArrayVariable,
    GpuContextType,
    get_context,
    gpu_context_type,
    gpu_supported,
    gpuarray_shared_constructor,
    list_contexts,
    move_to_gpu,
    reg_context,
    values_eq_approx,
    values_eq_approx_remove_inf,
    values_eq_approx_remove_inf_nan,
    values_eq_approx_remove_nan,
)
from theano_ng.misc import pkl_utils
from theano_ng.misc.may_share_memory import may_share_memory
from theano_ng.tensor.type import TensorType


class TestWithoutValues(unittest.TestCase):
    """Tests that need no device."""

    def test_identity(self):
        one = GpuArrayType("float32", (False, True), "a")
        self.assertEqual(one, GpuArrayType("float32", [0, 1], "a", name="another"))
        self.assertEqual(hash(one), hash(GpuArrayType("float32", [0, 1], "a")))
        for other in (
            GpuArrayType("float64", (False, True), "a"),
            GpuArrayType("float32", (False, False), "a"),
            GpuArrayType("float32", (False, True), "b"),
            TensorType("float32", (False, True)),
        ):
            self.assertNotEqual(one, other)
        self.assertEqual((one.ndim, one.dtype, one.broadcastable, one.context_name), (2, "float32", (False, True), "a"))
        self.assertEqual(one.typecode, 11)
        self.assertEqual(str(one), "GpuArrayType<a>(float32, (False, True))")
        self.assertEqual(str(GpuArrayType("int8", (), name="n")), "n")
        self.assertEqual(pickle.loads(pickle.dumps(one)), one)
        self.assertEqual(copy.deepcopy(one), one)
        self.assertEqual(one.clone(dtype="int8").dtype, "int8")
        self.assertEqual(one.clone(broadcastable=(True,)).ndim, 1)
        self.assertEqual(one.host_type(), TensorType("float32", (False, True)))
        with change_flags(floatX="float32"):
            self.assertEqual(GpuArrayType("floatX", ()).dtype, "float32")
        with self.assertRaisesRegex(TypeError, "Unsupported dtype for GpuArrayType: no_such"):
            GpuArrayType("no_such", ())
        with self.assertRaisesRegex(TypeError, "broadcastable must be a sequence"):
            GpuArrayType("int8", 3)

    def test_specs(self):
        self.assertEqual(GpuArrayType("float32", ()).dtype_specs(), (float, "npy_float32", "NPY_FLOAT32"))
        self.assertEqual(GpuArrayType("float32", ()).c_element_type(), "ga_float")
        self.assertEqual(GpuArrayType("float16", (False,) * 2).get_size((3, 5)), 30)
        self.assertEqual(GpuArrayType("float64", ()).get_size(()), 8)

    def test_which_data_go(self):
        for dtype, ndim, supported, moved in (
            ("float32", 2, True, True),
            ("int64", 1, True, True),
            ("float32", 0, True, False),
            ("complex64", 2, False, False),
            ("complex128", 0, False, False),
        ):
            for data in (np.zeros((1,) * ndim, dtype), TensorType(dtype, (False,) * ndim)()):
                self.assertEqual((gpu_supported(data), move_to_gpu(data)), (supported, moved))

    def test_variables(self):
        type_ = GpuArrayType("float32", (False, False), "a")
        x = type_("x")
        self.assertIsInstance(x, GpuArrayVariable)
        y = x + 1
        self.assertIsInstance(y.type, TensorType)
        self.assertIsInstance(y.owner.inputs[0].owner.op, HostFromGpu)
        self.assertIs(as_gpuarray_variable(x, "a"), x)
        self.assertEqual(as_gpuarray_variable(x, "b").owner.op, GpuToGpu("b"))
        self.assertIs(type_.filter_variable(x), x)
        self.assertEqual(type_.filter_variable(T.fmatrix()).owner.op, GpuFromHost("a"))
        self.assertIs(type_.filter_variable(host_from_gpu(x)), x)
        row = GpuArrayType("float32", (True, False), "a")()
        self.assertEqual(type_.filter_variable(row).type, type_)
        for other in (T.dmatrix(), T.fvector(), GpuArrayType("int8", (False, False), "a")()):
            with self.assertRaisesRegex(TypeError, "Cannot convert Type"):
                type_.filter_variable(other)
        with self.assertRaisesRegex(TypeError, "Cannot convert Type"):
            row.type.filter_variable(x)
        with self.assertRaisesRegex(TypeError, "Cannot convert Type"):
            type_.filter_variable(row, allow_convert=False)

    def test_contexts_as_params(self):
        self.assertEqual(gpu_context_type, GpuContextType())
        self.assertEqual(hash(gpu_context_type), hash(GpuContextType()))
        with self.assertRaisesRegex(TypeError, "expected a GpuContext, got str"):
            gpu_context_type.filter("cuda0")

    def test_no_context(self):
        type_ = GpuArrayType("float32", (), "nobody has this name")
        for action in (lambda: type_.context, lambda: type_.filter(1), lambda: type_.value_zeros(())):
            with self.assertRaisesRegex(ContextNotDefined, "'nobody has this name' is not defined"):
                action()
        with self.assertRaisesRegex(TypeError, "is not a GpuContext"):
            reg_context("new", object())
        with self.assertRaisesRegex(ContextNotDefined, "the pickle contains an array of context 'elsewhere'"):
            GpuArray_unpickler(np.ones(2), "elsewhere")
        with change_flags({"experimental.unpickle_gpu_on_cpu": True}):
            for name in ("elsewhere", context()):
                value = GpuArray_unpickler(np.ones(2), name)
                self.assertIs(type(value), np.ndarray)
                np.testing.assert_array_equal(value, np.ones(2))


class OnDevice(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.name = context()
        cls.context = get_context(cls.name)
        # A second context, which all tests of a process share.
        cls.other = "test other"
        if cls.other not in list_contexts():
            reg_context(cls.other, pygpu.init("opencl0:0"))
        cls.type = GpuArrayType("float32", (False, False), cls.name)

    def array(self, data, dtype="float32", name=None):
        return pygpu.array(np.asarray(data, dtype), context=get_context(name or self.name))


class TestValues(OnDevice):
    def test_filter(self):
        a = self.array(np.arange(6).reshape(2, 3))
        self.assertIs(self.type.filter(a), a)
        self.assertIs(self.type.filter(a, strict=True), a)
        self.assertTrue(self.type.is_valid_value(a))
        for data in ([[1, 2], [3, 4]], np.arange(4, dtype="int8").reshape(2, 2), np.ones((2, 3), "float32").T):
            made = self.type.filter(data)
            self.assertIs(made.context, self.context)
            np.testing.assert_array_equal(made, np.asarray(data, "float32"))
            self.assertFalse(self.type.is_valid_value(data))
            with self.assertRaisesRegex(TypeError, "expected a GpuArray"):
                self.type.filter(data, strict=True)
        made = self.type.filter(self.array([[1, 2]], "int8"))
        self.assertEqual((made.dtype, made.shape), ("float32", (1, 2)))
        elsewhere = self.array([[1, 2]], name=self.other)
        self.assertIs(self.type.filter(elsewhere).context, self.context)
        for bad, said in (
            (self.array([1.0]), "Wrong number of dimensions"),
            (np.ones(3, "float32"), "Wrong number of dimensions"),
            (self.array([[1.0]], "float64"), "without risking loss of precision"),
            (np.ones((2, 2)), "without risking loss of precision"),
            ("text", ""),
        ):
            with self.assertRaisesRegex((TypeError, ValueError), said):
                self.type.filter(bad)
        np.testing.assert_array_equal(self.type.filter(np.ones((2, 2)), allow_downcast=True), np.ones((2, 2)))
        np.testing.assert_array_equal(self.type.filter(self.array([[2.0]], "float64"), allow_downcast=True), [[2.0]])
        for strict in (self.array([[1.0]], "float64"), elsewhere):
            with self.assertRaises(TypeError):
                self.type.filter(strict, strict=True)
        with self.assertRaisesRegex(TypeError, "Non-unit value"):
            GpuArrayType("float32", (True, False), self.name).filter(a)

    def test_arrays_whose_elements_share_memory(self):
        ctx = get_context(context())
        memory = pygpu.array(np.arange(12, dtype="float32"), context=ctx)
        mode = theano.compile.mode.get_mode("FAST_RUN").including("gpuarray")
        for shape, strides in (((5,), (0,)), ((3, 4), (4, 4)), ((3, 2), (0, 4)), ((2, 3), (8, 4))):
            value = pygpu.from_gpudata(memory.gpudata, 0, "float32", shape, ctx, strides, True, memory)
            host = np.asarray(value)
            added = np.arange(host.size, dtype="float32").reshape(shape)
            s = gpuarray_shared_constructor(value, target=context(), borrow=True)
            x = s.type()
            change = theano.function([theano.In(x, mutable=True, borrow=True)], x + added, mode=mode)
            update = theano.function([], [], updates=[(s, s + added)], mode=mode)
            with self.subTest(shape=shape, strides=strides):
                update()
                np.testing.assert_array_equal(np.asarray(s.get_value()), host + added)
                s.set_value(value, borrow=True)
                update()
                np.testing.assert_array_equal(np.asarray(s.get_value()), host + added)
                np.testing.assert_array_equal(np.asarray(change(value)), host + added)
                np.testing.assert_array_equal(memory, np.arange(12))
        for view in (memory, memory[::-2], memory.reshape(3, 4).T, memory.reshape(2, 3, 2)[:, 1:, ::-1], memory[:0]):
            self.assertIs(gpuarray_shared_constructor(view, borrow=True).get_value(borrow=True), view)

    def test_equality(self):
        a, b = [0.0, np.nan, 1.0], [0.0, np.nan, 1.0 + 1e-7]
        self.assertTrue(self.type.values_eq(self.array(a), self.array(a)))
        self.assertFalse(self.type.values_eq(self.array([1.0]), self.array([2.0])))
        self.assertFalse(self.type.values_eq(self.array([1.0]), self.array([1.0, 1.0])))
        self.assertFalse(self.type.values_eq(self.array([1.0]), self.array([1.0], "float64")))
        self.assertTrue(self.type.values_eq(self.array([1.0]), self.array([1.0], "float64"), force_same_dtype=False))
        self.assertTrue(values_eq_approx(self.array(a), self.array(b)))
        self.assertTrue(self.type.values_eq_approx(self.array([1.0]), self.array([1.5]), rtol=1))
        self.assertFalse(values_eq_approx(self.array([1.0]), self.array([1.1])))
        inf, nan, number = self.array([np.inf]), self.array([np.nan]), self.array([3.0])
        for function, with_inf, with_nan in (
            (values_eq_approx, False, False),
            (values_eq_approx_remove_inf, True, False),
            (values_eq_approx_remove_nan, False, True),
            (values_eq_approx_remove_inf_nan, True, True),
        ):
            self.assertEqual((function(inf, number), function(nan, number)), (with_inf, with_nan))

    def test_memory(self):
        a = self.array(np.arange(6).reshape(2, 3))
        self.assertTrue(may_share_memory(a, a[1:]))
        self.assertTrue(self.type.may_share_memory(a, a.T))
        self.assertFalse(may_share_memory(a, a.copy()))
        self.assertFalse(may_share_memory(a, np.asarray(a)))
        self.assertFalse(may_share_memory(np.asarray(a), a, raise_other_type=False))
        np.testing.assert_array_equal(self.type.value_zeros((2, 2)), np.zeros((2, 2)))
        self.assertEqual(self.type.get_size(self.type.get_shape_info(a)), a.nbytes)

    def test_names_of_contexts(self):
        with self.assertRaisesRegex(ValueError, "already registered"):
            reg_context(self.name, self.context)
        reg_context("for a while", self.context)
        self.assertIs(get_context("for a while"), self.context)
        self.assertIn("for a while", list_contexts())
        unregister("for a while")
        self.assertNotIn("for a while", list_contexts())
        self.assertIs(gpu_context_type.filter(self.context), self.context)


class TestConstants(OnDevice):
    def test_merge(self):
        one = self.type.make_constant(np.ones((2, 2), "float32"))
        self.assertIsInstance(one, GpuArrayConstant)
        self.assertEqual(one.signature(), self.type.make_constant([[1, 1], [1, 1]]).signature())
        self.assertEqual(hash(one.signature()), hash(self.type.make_constant([[1, 1], [1, 1]]).signature()))
        for other in (
            self.type.make_constant([[1, 1], [1, 2]]),
            self.type.make_constant([[1, 1]]),
            GpuArrayType("float32", (False, False), self.other).make_constant([[1, 1], [1, 1]]),
            T.constant(np.ones((2, 2), "float32")),
        ):
            self.assertNotEqual(one.signature(), other.signature())
        zeros = [self.type.make_constant([[z]]).signature() for z in (0.0, -0.0)]
        self.assertNotEqual(*zeros)
        nans = [self.type.make_constant([[np.nan]]).signature() for _ in range(2)]
        self.assertEqual(*nans)
        self.assertEqual(str(one), "GpuArrayConstant{[[1. 1.] [1. 1.]]}")
        again = pickle.loads(pickle.dumps(one))
        self.assertEqual(again.signature(), one.signature())
        f = theano.function([], [one, gpu_contiguous(one)])
        for found in f():
            np.testing.assert_array_equal(found, np.ones((2, 2)))
        twins = [self.type.make_constant([[7, 7]]) for _ in range(2)]
        f = theano.function([], [gpu_contiguous(twin) for twin in twins], mode=theano.Mode("py", "merge"))
        self.assertEqual(len([node for node in f.maker.fgraph.apply_nodes if node.op == gpu_contiguous]), 1)


class TestShared(OnDevice):
    def setUp(self):
        self.value = np.arange(6, dtype="float32").reshape(2, 3)
        self.s = gpuarray_shared_constructor(self.value, "s", target=self.name)

    def test_made(self):
        self.assertIsInstance(self.s, GpuArraySharedVariable)
        self.assertEqual(self.s.type, self.type)
        self.assertEqual(
            gpuarray_shared_constructor(self.value[:1], broadcastable=(True, False), target=self.name).broadcastable,
            (True, False),
        )
        number = gpuarray_shared_constructor(np.asarray(3.0, "float32"), target=self.name)
        self.assertEqual((number.type, float(number.get_value())), (GpuArrayType("float32", (), self.name), 3.0))
        for bad in (
            dict(value=3, target=self.name),
            dict(value=[1.0], target=self.name),
            dict(value=np.ones(2, "complex64"), target=self.name),
            dict(value=np.asarray(3.0)),
            dict(value=self.value, target="cpu"),
        ):
            with self.subTest(bad), self.assertRaises(TypeError):
                gpuarray_shared_constructor(**bad)
        with self.assertRaisesRegex(TypeError, "'no such context'"):
            gpuarray_shared_constructor(self.value, target="no such context")

    def test_get_value(self):
        found = self.s.get_value()
        self.assertIsInstance(found, np.ndarray)
        np.testing.assert_array_equal(found, self.value)
        found[0, 0] = 9
        self.s.get_value(borrow=True)[0, 0] = 9
        np.testing.assert_array_equal(self.s.get_value(), self.value)
        inner = self.s.get_value(borrow=True, return_internal_type=True)
        self.assertIs(inner, self.s.container.value)
        copied = self.s.get_value(return_internal_type=True)
        self.assertIsInstance(copied, pygpu.GpuArray)
        self.assertFalse(may_share_memory(inner, copied))

    def test_made_of_an_array_of_the_device(self):
        a = self.array(self.value, name=self.other)
        kept = gpuarray_shared_constructor(a, borrow=True)
        self.assertEqual(kept.type.context_name, self.other)
        self.assertIs(kept.get_value(borrow=True), a)
        copied = gpuarray_shared_constructor(a)
        for twin in (copied, copied.clone(), pickle.loads(pickle.dumps(copied))):
            found = twin.get_value()
            self.assertIsInstance(found, pygpu.GpuArray)
            self.assertFalse(may_share_memory(found, a))
        moved = gpuarray_shared_constructor(a, target=self.name)
        self.assertIs(moved.get_value().context, self.context)

    def test_set_value(self):
        def memory():
            return self.s.get_value(borrow=True, return_internal_type=True).gpudata

        before = memory()
        self.s.set_value(2 * self.value)
        np.testing.assert_array_equal(self.s.get_value(), 2 * self.value)
        self.assertEqual(memory(), before)  # the value is copied into the same memory
        mine = self.s.get_value(borrow=True, return_internal_type=True)
        row = mine[0]
        del mine
        self.s.set_value(3 * self.value)
        np.testing.assert_array_equal(row, 2 * self.value[0])
        np.testing.assert_array_equal(self.s.get_value(), 3 * self.value)
        self.s.set_value(self.value[:1])
        self.assertEqual(self.s.get_value().shape, (1, 3))
        for value in (self.array(self.value), self.array(self.value, name=self.other)):
            self.s.set_value(value)
            np.testing.assert_array_equal(self.s.get_value(), self.value)
            self.assertFalse(may_share_memory(self.s.get_value(borrow=True, return_internal_type=True), value))
        self.s.set_value(value := self.array(self.value), borrow=True)
        self.assertIs(self.s.get_value(borrow=True, return_internal_type=True), value)
        with self.assertRaisesRegex(TypeError, 'Container name "s"'):
            self.s.set_value(np.ones(3, "float32"))
        self.s.zero()
        np.testing.assert_array_equal(self.s.get_value(), np.zeros((2, 3)))

    def test_functions(self):
        x = T.fmatrix("x")
        f = theano.function([x], self.s[0] + x.sum(0), updates=[(self.s, self.s + x)])
        one = np.ones((2, 3), "float32")
        np.testing.assert_array_equal(f(one), self.value[0] + 2)
        np.testing.assert_array_equal(self.s.get_value(), self.value + 1)
        g = theano.function([x], host_from_gpu(gpu_contiguous(self.s)), givens={self.s: x * 3})
        np.testing.assert_array_equal(g(one), 3 * one)
        again = pickle.loads(pickle.dumps(f))
        np.testing.assert_array_equal(again(one), self.value[0] + 3)
        np.testing.assert_array_equal(self.s.get_value(), self.value + 1)

    def test_gradient(self):
        (g,) = theano.grad((self.s**2).sum(), [self.s])
        self.assertEqual(g.type, self.type)
        np.testing.assert_allclose(theano.function([], host_from_gpu(g))(), 2 * self.value)

    def test_constructors_of_shared(self):
        def attempt(value, constructor, **kwargs):
            before = list(shared.constructors)
            shared.constructors.append(constructor)
            try:
                return theano.shared(value, **kwargs)
            finally:
                shared.constructors[:] = before

        for constructor in (gpuarray_shared_constructor, theano.gpuarray.devices.shared_on_target):
            self.assertEqual(attempt(self.value, constructor, target=self.name).type, self.type)
            self.assertIsInstance(attempt(0, constructor).type, TensorType)
            self.assertIsInstance(attempt(np.float32(3), constructor).type, TensorType)
            self.assertIsInstance(attempt(self.value, constructor, target="cpu").type, TensorType)
            self.assertIsInstance(attempt(np.ones(2, "complex64"), constructor).type, TensorType)
        self.assertIsInstance(attempt(self.value, theano.gpuarray.devices.shared_on_target).type, TensorType)
        with self.assertRaisesRegex(
            TypeError, "Targets other than 'cpu' are contexts, which the flags device and contexts"
        ):
            theano.shared(3, target=self.name)
        # None is the name of the default context.
        self.assertEqual(attempt(self.value, gpuarray_shared_constructor).type.context_name, None)


class TestFunctions(OnDevice):
    def test_arrays_in_and_out(self):
        x = self.type("x")
        f = theano.function([x], [x, gpu_contiguous(x), host_from_gpu(x)])
        a = self.array(np.arange(6).reshape(2, 3))
        same, contiguous, host = f(a)
        for found in (same, contiguous):
            self.assertIsInstance(found, pygpu.GpuArray)
            self.assertFalse(may_share_memory(found, a))
            np.testing.assert_array_equal(found, a)
        np.testing.assert_array_equal(host, a)
        np.testing.assert_array_equal(f(np.ones((1, 2), "float32"))[0], np.ones((1, 2)))
        borrowing = theano.function(
            [theano.In(x, borrow=True)], theano.Out(gpu_contiguous(x), borrow=True), mode="FAST_RUN"
        )
        self.assertTrue(may_share_memory(borrowing(a), a))
        with self.assertRaisesRegex(TypeError, "Wrong number of dimensions"):
            f(self.array([1.0]))

    def test_results_are_the_callers(self):
        x = T.fmatrix()
        f = theano.function([x], theano.Out(as_gpuarray_variable(x, self.name)))
        first, second = f(np.ones((2, 2), "float32")), f(np.zeros((2, 2), "float32"))
        np.testing.assert_array_equal(first, np.ones((2, 2)))
        np.testing.assert_array_equal(second, np.zeros((2, 2)))

    def test_transfer(self):
        x = T.fmatrix()
        there = x.transfer(self.name)
        self.assertEqual(there.type, self.type)
        back = there.transfer("cpu")
        self.assertEqual(back.type, x.type)
        self.assertIs(x.transfer("cpu"), x)
        self.assertEqual(there.transfer(self.other).owner.op, GpuToGpu(self.other))
        value = np.arange(4, dtype="float32").reshape(2, 2)
        np.testing.assert_array_equal(theano.function([x], back)(value), value)
        np.testing.assert_array_equal(theano.function([x], there.transfer(self.other).transfer("cpu"))(value), value)
        with self.assertRaisesRegex(ValueError, "Can't transfer"):
            x.transfer("no such context")

    def test_modes(self):
        x = self.type("x")
        a = self.array([[1.0, 2.0]])
        for mode in ("FAST_RUN", "FAST_COMPILE", "DebugMode", theano.Mode("c|py", "fast_run"), theano.Mode("py", None)):
            f = theano.function([x], [gpu_contiguous(x), host_from_gpu(gpu_contiguous(x))], mode=mode)
            for found in f(a):
                np.testing.assert_array_equal(found, [[1.0, 2.0]])
        if config.cxx:  # the linker c compiles the whole graph to one C++ module
            f = theano.function([x], [gpu_contiguous(x), x, x.shape], mode=theano.Mode("c", "fast_run"))
            contiguous, same, shape = f(a)
            np.testing.assert_array_equal(contiguous, [[1.0, 2.0]])
            self.assertFalse(may_share_memory(same, a))
            self.assertEqual(tuple(shape), (1, 2))
        f = theano.function([x], gpu_contiguous(x), mode=NanGuardMode(nan_is_error=True, inf_is_error=True))
        np.testing.assert_array_equal(f(a), a)
        for bad, said in ((np.nan, "NaN detected"), (np.inf, "Inf detected")):
            with self.assertRaisesRegex(AssertionError, said):
                f(self.array([[1.0, bad]]))

    def test_profile(self):
        x = T.fmatrix()
        profile = theano.ProfileStats(atexit_print=False)
        with change_flags(profile_memory=True):
            y = host_from_gpu(gpu_contiguous(as_gpuarray_variable(x, self.name)))
            f = theano.function([x], y, profile=profile, mode="FAST_RUN")
            f(np.ones((10, 10), "float32"))
            text = io.StringIO()
            profile.summary(text)
        self.assertIn("GpuFromHost", text.getvalue())
        self.assertEqual(set(profile.variable_shape.values()), {(10, 10)})
        self.assertIn("1200B", text.getvalue())
        self.assertRegex(
            text.getvalue(),
            r"Spent 0\.000s\(0\.00%\) in cpu op, 0\.\d{3}s\(\d+\.\d\d%\) in gpu op and 0\.\d{3}s\(\d+\.\d\d%\) in transfer op",
        )


class TestPickles(OnDevice):
    def test_arrays(self):
        a = self.array(np.arange(6).reshape(2, 3))[:, ::-1]
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            again = pickle.loads(pickle.dumps(a, protocol))
            self.assertIs(again.context, self.context)
            np.testing.assert_array_equal(again, a)
        for twin in (copy.copy(a), copy.deepcopy(a)):
            np.testing.assert_array_equal(twin, a)
            self.assertFalse(may_share_memory(twin, a))

    def test_without_a_device(self):
        """Without a device, the flag experimental.unpickle_gpu_on_cpu lets values be unpickled as NumPy arrays."""
        s = gpuarray_shared_constructor(np.arange(3, dtype="float32"), "s", target=self.name)
        pickled = pickle.dumps((s, s.container.value))
        before = dict(contexts._contexts)
        contexts._contexts.clear()
        try:
            with self.assertRaisesRegex(ContextNotDefined, "experimental.unpickle_gpu_on_cpu=True"):
                pickle.loads(pickled)
            with change_flags({"experimental.unpickle_gpu_on_cpu": True}):
                again, array = pickle.loads(pickled)
            for value in (again.get_value(), array):
                self.assertIsInstance(value, np.ndarray)
                np.testing.assert_array_equal(value, [0, 1, 2])
        finally:
            contexts._contexts.update(before)

    def test_archives(self):
        a = self.array(np.arange(3.0))
        s = gpuarray_shared_constructor(np.ones(2, "float32"), "weights", target=self.name)
        file = io.BytesIO()
        pkl_utils.dump((a, s), file)
        with zipfile.ZipFile(file) as archive:
            self.assertEqual(sorted(archive.namelist()), ["array_0", "pkl", "weights"])
        array, again = pkl_utils.load(file)
        np.testing.assert_array_equal(array, a)
        self.assertEqual(again.type, s.type)
        np.testing.assert_array_equal(again.get_value(), np.ones(2))
