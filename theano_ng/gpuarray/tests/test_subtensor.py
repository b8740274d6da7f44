"""Tests of indexing arrays on devices, compared with NumPy."""

import gc
import unittest
from types import SimpleNamespace
from unittest import mock

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile import DebugMode
from theano_ng.compile.mode import get_default_mode
from theano_ng.gpuarray import advanced_subtensor
from theano_ng.gpuarray.basic_ops import as_gpuarray_variable, host_from_gpu
from theano_ng.gpuarray.contexts import reg_context, unregister
from theano_ng.gpuarray.kernels import indexing as kernels
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.subtensor import (
    GpuAdvancedBooleanIncSubtensor,
    GpuAdvancedBooleanSubtensor,
    GpuAdvancedIncSubtensor,
    GpuAdvancedIncSubtensor1,
    GpuAdvancedIncSubtensor1_dev20,
    GpuAdvancedSubtensor,
    GpuAdvancedSubtensor1,
    GpuAllocDiag,
    GpuExtractDiag,
    GpuIncSubtensor,
    GpuSubtensor,
    check_and_convert_boolean_masks,
    get_iadd,
)
from theano_ng.gpuarray.tests.device import DEVICE, LAYOUTS, context, gpu_variable, placed
from theano_ng.gpuarray.type import get_context
from theano_ng.tensor.subtensor import AdvancedBooleanIndexingError, Subtensor

ALL_DTYPES = "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 complex64".split()


def numbers(rng, shape, dtype):
    """Return random values. Floats have different magnitudes, so that their sums depend on the order of the terms."""
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype.startswith("complex"):
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    if dtype.startswith("float"):
        return (rng.standard_normal(shape) * 10.0 ** rng.integers(-2, 3, shape)).astype(dtype)
    return rng.integers(0, 100, shape).astype(dtype)


def compiled(inputs, outputs, mode=None):
    return theano.function(
        inputs, [theano.Out(host_from_gpu(v), borrow=True) for v in outputs], mode=mode, on_unused_input="ignore"
    )


def indexed(x, index):
    """Return the `idx_list` and the index inputs of GpuSubtensor, for an index of integers, variables and slices."""
    node = x.type.host_type()()[index].owner
    assert isinstance(node.op, Subtensor)
    return node.op.idx_list, node.inputs[1:]


def computed(variable, value):
    """Return the value of a variable, computed by its node without compiling a function.

    `value` is the value of the only input of the node that is not constant.
    """
    node = variable.owner
    cells = {v: [getattr(v, "data", value)] for v in node.inputs} | {v: [None] for v in node.outputs}
    node.op.make_thunk(node, cells, {v: [True] for v in cells}, [])()
    return cells[variable][0]


class TestBasic(unittest.TestCase):
    def setUp(self):
        self.context = context()
        self.rng = np.random.default_rng(1)

    def test_views(self):
        i, j = T.lscalars("i", "j")
        x = gpu_variable("float32", 3, self.context)
        cases = [
            (2,),
            (i,),
            (i, slice(None), j),
            (slice(i, j),),
            (slice(None, None, -1), slice(j, None, -2)),
            (slice(1, None, 2), slice(None), i),
            (slice(None), slice(i, i), slice(None, None, 3)),
            (),
        ]
        ops = [indexed(x, case) for case in cases]
        parts = [GpuSubtensor(idx_list)(x, *rest) for idx_list, rest in ops]
        f = compiled([x, i, j], parts)
        for layout in LAYOUTS:
            for shape, a, b in (((5, 6, 4), 1, 3), ((3, 4, 5), -3, -1), ((7, 1, 9), 2, -9), ((3, 0, 1), 0, -1)):
                value = numbers(self.rng, shape, "float32")
                on_device = placed(value, layout, self.context)
                for case, part in zip(cases, f(on_device, a, b)):
                    index = tuple(_filled(entry, {i: a, j: b}) for entry in case)
                    np.testing.assert_array_equal(part, value[index])
        for a, b, axis, size in ((5, 0, 0, 5), (-6, 0, 0, 5), (0, 4, 2, 4)):
            with self.assertRaisesRegex(IndexError, "out of bounds for axis %d with size %d" % (axis, size)):
                f(placed(np.zeros((5, 6, 4), "float32"), "C", self.context), a, b)

    def test_views_share_memory(self):
        x = gpu_variable("float32", 2, self.context)
        value = placed(np.arange(6, dtype="float32").reshape(2, 3), "C", self.context)
        idx_list, rest = indexed(x, (slice(None, None, -1), 1))
        for part in (GpuSubtensor(idx_list)(x, *rest), GpuExtractDiag(1, view=True)(x)):
            self.assertTrue(pygpu.may_share_memory(computed(part, value), value))
        self.assertFalse(pygpu.may_share_memory(computed(GpuExtractDiag(1)(x), value), value))

    def test_bounds_on_a_device(self):
        """Variables on the device can be indices and bounds of slices, for tensors and for arrays on devices."""
        n = theano.shared(np.array(2), target=self.context)
        value = self.rng.normal(size=(5, 4))
        for x in (T.matrix("x"), gpu_variable("float64", 2, self.context)):
            parts = [x[:n], x[n:, 1], x[::-n], x[n], T.set_subtensor(x[n:], 0)]
            f = theano.function([x], parts)
            expected = [value[:2], value[2:, 1], value[::-2], value[2], value * (np.arange(5) < 2)[:, None]]
            given = value.astype(x.dtype) if isinstance(x.type, T.TensorType) else x.type.filter(value)
            for part, numbers_there in zip(f(given), expected):
                np.testing.assert_allclose(np.asarray(part), numbers_there, rtol=1e-6)

    def test_step_of_zero(self):
        x, step = gpu_variable("float32", 1, self.context), T.lscalar()
        f = compiled([x, step], [GpuSubtensor(*_template(x, slice(None, None, step)))(x, step)])
        with self.assertRaisesRegex(ValueError, "step cannot be zero"):
            f(placed(np.zeros(3, "float32"), "C", self.context), 0)

    def test_increments(self):
        i, j = T.lscalars("i", "j")
        cases = [
            (i,),
            (slice(i, j),),
            (slice(None, None, -1), slice(None), j),
            (i, j, 0),
            (slice(1, None, 2), slice(None, None, -2)),
        ]
        x = gpu_variable("float32", 3, self.context)
        for case in cases:
            idx_list, rest = indexed(x, case)
            whole = 3 - sum(not isinstance(entry, slice) for entry in case)
            ys = [gpu_variable("float32", n, self.context) for n in {0, whole}]
            outputs = [
                GpuIncSubtensor(idx_list, set_instead_of_inc=kind)(x, y, *rest) for y in ys for kind in (False, True)
            ]
            f = compiled([x, i, j, *ys], outputs)
            for n, layout in enumerate(LAYOUTS):
                value = numbers(self.rng, (4, 5, 3), "float32")
                index = tuple(_filled(entry, {i: 1, j: -1}) for entry in case)
                shape = value[index].shape
                given = []
                for y in ys:
                    # The value broadcasts along some axes.
                    lengths = [
                        1 if (k + n) % 2 and n else length for k, length in enumerate(shape[len(shape) - y.ndim :])
                    ]
                    given.append(numbers(self.rng, lengths, "float32"))
                on_device = placed(value, layout, self.context)
                results = f(on_device, 1, -1, *[placed(y, layout, self.context) for y in given])
                expected = []
                for y in given:
                    for kind in (False, True):
                        made = value.copy()
                        if kind:
                            made[index] = y
                        else:
                            made[index] += y
                        expected.append(made)
                for result, right in zip(results, expected):
                    np.testing.assert_array_equal(result, right)
                np.testing.assert_array_equal(np.asarray(on_device), value)

    def test_values_that_do_not_fit(self):
        x, y = gpu_variable("float32", 2, self.context), gpu_variable("float32", 1, self.context)
        idx_list, rest = indexed(x, (slice(1, None),))
        for kind in (False, True):
            f = compiled([x, y], [GpuIncSubtensor(idx_list, set_instead_of_inc=kind)(x, y, *rest)])
            with self.assertRaisesRegex(ValueError, r"could not .*broadcast.*\(7,\)"):
                f(np.zeros((3, 4), "float32"), np.zeros(7, "float32"))
        with self.assertRaisesRegex(ValueError, "a 1-dimensional subtensor with a 2-dimensional value"):
            GpuIncSubtensor(idx_list)(y, x, *rest)

    def test_dtypes(self):
        for dtype in ("bool", "int8", "float16", "complex64"):
            x, y = gpu_variable(dtype, 2, self.context), gpu_variable(dtype, 1, self.context)
            idx_list, rest = indexed(x, (slice(None, None, 2),))
            f = compiled(
                [x, y], [GpuIncSubtensor(idx_list, set_instead_of_inc=kind)(x, y, *rest) for kind in (False, True)]
            )
            value, added = numbers(self.rng, (3, 4), dtype), numbers(self.rng, 4, dtype)
            inc, put = f(placed(value, "C", self.context), placed(added, "C", self.context))
            expected = value.copy()
            expected[::2] += added
            np.testing.assert_array_equal(inc, expected, err_msg=dtype)
            expected[::2] = added
            expected[1::2] = value[1::2]
            np.testing.assert_array_equal(put, expected, err_msg=dtype)

    def test_values_of_other_dtypes(self):
        x, y = gpu_variable("float32", 1, self.context), gpu_variable("int16", 1, self.context)
        idx_list, rest = indexed(x, (slice(1, None),))
        f = compiled(
            [x, y], [GpuIncSubtensor(idx_list, set_instead_of_inc=kind)(x, y, *rest) for kind in (False, True)]
        )
        inc, put = f(np.array([1.5, 2.5, 3.5], "float32"), np.array([10, -20], "int16"))
        np.testing.assert_array_equal(inc, [1.5, 12.5, -16.5])
        np.testing.assert_array_equal(put, [1.5, 10, -20])
        with self.assertRaisesRegex(TypeError, "cast the value first"):
            GpuIncSubtensor(idx_list)(gpu_variable("int16", 1, self.context), x, *rest)

    def test_in_place_on_itself(self):
        """The value that is set or added may be a view of the array that is overwritten."""
        x = gpu_variable("float64", 1, self.context)
        idx_list, rest = indexed(x, (slice(1, None),))
        part, others = indexed(x, (slice(None, -1),))
        for kind in (False, True):
            op = GpuIncSubtensor(
                idx_list, inplace=True, set_instead_of_inc=kind, destroyhandler_tolerate_aliased=[(0, 1)]
            )
            f = theano.function(
                [theano.In(x, mutable=True)],
                theano.Out(op(x, GpuSubtensor(part)(x, *others), *rest), borrow=True),
                mode="FAST_RUN",
                accept_inplace=True,
            )
            value = np.arange(1.0, 7.0)
            on_device = placed(value, "C", self.context)
            result = f(on_device)
            value[1:] = value[:-1] + (0 if kind else value[1:])
            np.testing.assert_array_equal(np.asarray(result), value)
            self.assertTrue(pygpu.may_share_memory(result, on_device))

    def test_hooks(self):
        op = GpuIncSubtensor(())
        self.assertEqual(op.copy_of_x("x"), "pygpu_copy(x, GA_ANY_ORDER)")
        self.assertEqual(op.get_helper_c_code_args(), {"c_prefix": "PyGpuArray", "strides_mul": 1})
        self.assertIn("GpuArray_setarray(&v->ga, &y->ga)", op.copy_into("v", "y"))
        self.assertIn("pygpu_fromgpudata(x->ga.data", op.make_view_array("x", 2))
        with self.assertRaises(NotImplementedError):
            op.do_type_checking(T.inc_subtensor(T.vector()[:2], 1.0).owner)
        self.assertFalse(op.has_own_code())


def _template(x, entry):
    host = x.type.host_type()()[entry].owner
    return (host.op.idx_list,)


def _filled(entry, values):
    if isinstance(entry, slice):
        return slice(
            *[values.get(part, part) if part is not None else None for part in (entry.start, entry.stop, entry.step)]
        )
    return values.get(entry, entry)


# Index arrays: "h" and "d" are integers on the host and on the device, "m" and "M" are masks there; the digit is the
# number of dimensions.
PATTERNS = [
    ("h1",),
    ("d1",),
    ("d2",),
    ("h1", "d1"),
    (":", "h1"),
    (":", "d1", ":"),
    ("h1", ":", "d1"),
    ("h2", "d1", ":"),
    ("d0", "::-1", "h1"),
    (":", "d1", None, "h0"),
    (None, "d1", "1:"),
    ("m1",),
    ("M2",),
    (":", "M2"),
    ("m1", "h1"),
    ("M1", "d1", ":"),
    ("m3",),
]
_SLICES = {":": slice(None), "::-1": slice(None, None, -1), "1:": slice(1, None)}


def _index_variables(pattern, context_name):
    """Return the index inputs of an Op for a pattern, and the variables among them."""
    entries, variables = [], []
    for entry in pattern:
        if entry is None or entry in _SLICES:
            entries.append(entry if entry is None else _SLICES[entry])
            continue
        kind, ndim = entry[0], int(entry[1])
        device = kind in "dM"
        dtype = "bool" if kind in "mM" else "int64" if device else ("int64", "int32", "uint8")[len(variables) % 3]
        v = gpu_variable(dtype, ndim, context_name) if device else T.TensorType(dtype, (False,) * ndim)()
        entries.append(v)
        variables.append(v)
    return entries, variables


def _index_values(pattern, variables, shape, rng, length):
    """Return values for the index variables; some indices are repeated, and some are negative."""
    values, axis = [], 0
    for entry in pattern:
        if entry is None:
            continue
        if entry in _SLICES:
            axis += 1
            continue
        ndim, dtype = int(entry[1]), variables[len(values)].dtype
        if entry[0] in "mM":
            mask = np.zeros(shape[axis : axis + ndim], bool)
            # The mask has as many true elements as the other index arrays have elements.
            mask.reshape(-1)[rng.choice(mask.size, min(length, mask.size), replace=False)] = True
            values.append(mask)
            axis += ndim
            continue
        low = 0 if dtype.startswith("u") else -shape[axis]
        values.append(rng.integers(low, shape[axis], ((), (length,), (2, length))[ndim]).astype(dtype))
        axis += 1
    return values


class TestAdvanced(unittest.TestCase):
    def setUp(self):
        self.context = context()
        self.rng = np.random.default_rng(2)

    def tearDown(self):
        advanced_subtensor._THREADS = -1

    def test_against_numpy(self):
        """Taking, incrementing and setting elements give NumPy's results; sums are equal bit by bit."""
        for number, pattern in enumerate(PATTERNS):
            # For half of the patterns, increments use 40 threads instead of as many as the device needs.
            advanced_subtensor._THREADS = (-1, 40)[number % 2]
            masks = any(entry and entry[0] in "mM" for entry in pattern)
            take = GpuAdvancedBooleanSubtensor() if masks else GpuAdvancedSubtensor()
            inc = GpuAdvancedBooleanIncSubtensor if masks else GpuAdvancedIncSubtensor
            x = gpu_variable("float32", 3, self.context)
            entries, variables = _index_variables(pattern, self.context)
            part = take(x, *entries)
            y, z = gpu_variable("float32", part.ndim, self.context), gpu_variable("float32", 0, self.context)
            outputs = [part] + [inc(set_instead_of_inc=kind)(x, v, *entries) for v in (y, z) for kind in (False, True)]
            f = compiled([x, y, z, *variables], outputs)
            for layout, length in zip(LAYOUTS, (6, 4, 1, 3)):
                shape = (4, 5, 3) if length > 1 else (1, 6, 2)
                value = numbers(self.rng, shape, "float32")
                given = _index_values(pattern, variables, shape, self.rng, min(length, 3) if masks else length)
                counter = iter(given)
                index = tuple(next(counter) if isinstance(e, theano.Variable) else e for e in entries)
                taken = value[index]
                added, one = numbers(self.rng, taken.shape, "float32"), np.float32(0.37)
                on_device = [
                    placed(v, layout, self.context) if hasattr(s.type, "context_name") else v
                    for s, v in zip(variables, given)
                ]
                results = f(placed(value, layout, self.context), placed(added, layout, self.context), one, *on_device)
                message = "%s of %s, %s" % (pattern, shape, layout)
                np.testing.assert_array_equal(results[0], taken, err_msg=message)
                for (v, kind), result in zip([(v, kind) for v in (added, one) for kind in (False, True)], results[1:]):
                    expected = value.copy()
                    if kind:
                        expected[index] = v
                    else:
                        np.add.at(expected, index, np.broadcast_to(v, taken.shape))
                    np.testing.assert_array_equal(result, expected, err_msg=message)

    def test_rows(self):
        """An integer vector of any dtype reads, increments and sets rows of matrices of any dtype."""
        for number, dtype in enumerate(ALL_DTYPES):
            index_dtype = ("int64", "int32", "int8", "uint8", "uint16", "int16", "uint32", "uint64")[number % 8]
            x, y = gpu_variable(dtype, 2, self.context), gpu_variable(dtype, 2, self.context)
            host, device = T.TensorType(index_dtype, (False,))(), gpu_variable(index_dtype, 1, self.context)
            outputs = []
            for index in (host, device):
                outputs += [GpuAdvancedSubtensor1()(x, index), GpuAdvancedIncSubtensor1()(x, y, index)]
                outputs += [GpuAdvancedIncSubtensor1(set_instead_of_inc=True)(x, y, index)]
            f = compiled([x, y, host, device], outputs)
            value, rows = numbers(self.rng, (4, 3), dtype), np.array([1, 3, 1, 0, 1]).astype(index_dtype)
            added = numbers(self.rng, (5, 3), dtype)
            taken, inc, put = results = [value[rows], value.copy(), value.copy()]
            np.add.at(inc, rows, added)
            put[rows] = added
            got = f(
                *[placed(v, "reversed", self.context) for v in (value, added)],
                rows,
                placed(rows, "strided", self.context),
            )
            for result, expected in zip(got, results + results):
                self.assertEqual(result.dtype, expected.dtype)
                np.testing.assert_array_equal(result, expected, err_msg=dtype)

    def test_atomic(self):
        for dtype in ("float32", "float64", "float16", "int32", "uint64", "int16", "bool"):
            x, y, i = gpu_variable(dtype, 2, self.context), gpu_variable(dtype, 2, self.context), T.ivector()
            op = GpuAdvancedIncSubtensor1_dev20()
            f = compiled([x, y, i], [op(x, y, i)])
            rows = self.rng.integers(-4, 4, 50).astype("int32")
            value = numbers(self.rng, (4, 3), dtype)
            # Add small integers, whose sums do not depend on the order of the atomic additions.
            added = self.rng.integers(0, 3, (50, 3)).astype(dtype)
            if dtype.startswith("float"):
                value = np.round(value)
            expected = value.copy()
            np.add.at(expected, rows, added)
            np.testing.assert_array_equal(f(value, added, rows)[0], expected, err_msg=dtype)

    def test_devices_without_atomics_of_64_bits(self):
        """Increments of 8 bytes are done in order, as GpuAdvancedIncSubtensor1 does them."""
        for dtype in ("int32", "float16", "int64", "uint64", "float64"):
            for has in (False, True):
                found = kernels.has_atomic_add(dtype, SimpleNamespace(has_long_atomics=has))
                self.assertEqual(found, has or np.dtype(dtype).itemsize < 8, dtype)
        rows = np.array([1, 0, 1, 1, 0])
        for dtype in ("int64", "float64"):
            x, y, i = gpu_variable(dtype, 2, self.context), gpu_variable(dtype, 2, self.context), T.lvector()
            value, added = numbers(self.rng, (3, 2), dtype), numbers(self.rng, (5, 2), dtype)
            with mock.patch.object(kernels, "has_atomic_add", return_value=False):
                f = compiled([x, y, i], [GpuAdvancedIncSubtensor1_dev20()(x, y, i)])
            expected = value.copy()
            np.add.at(expected, rows, added)
            np.testing.assert_array_equal(f(value, added, rows)[0], expected, err_msg=dtype)

    def test_nothing(self):
        x, y, i = (
            gpu_variable("float32", 2, self.context),
            gpu_variable("float32", 2, self.context),
            gpu_variable("int64", 1, self.context),
        )
        f = compiled([x, y, i], [GpuAdvancedSubtensor1()(x, i), GpuAdvancedIncSubtensor1()(x, y, i)])
        for shape, n in (((3, 2), 0), ((3, 0), 2), ((0, 4), 0)):
            value, rows = np.ones(shape, "float32"), np.zeros(n, "int64")
            taken, inc = f(value, np.ones((n, shape[1]), "float32"), rows)
            self.assertEqual(taken.shape, (n, shape[1]))
            np.testing.assert_array_equal(inc, value)
        with self.assertRaisesRegex(IndexError, "index 0 is out of bounds for axis 0 with size 0"):
            np.asarray(f(np.ones((0, 4), "float32"), np.ones((1, 4), "float32"), np.zeros(1, "int64"))[0])

    def test_out_of_bounds(self):
        """An index out of bounds raises the same error as on the host. If the index is on the host, no element is
        overwritten. If it is on the device, only the elements at valid indices are, and the error is raised by the
        next call that waits.
        """
        x, host, device = gpu_variable("float32", 2, self.context), T.lvector(), gpu_variable("int32", 1, self.context)
        shared = pygpu.array(np.zeros((3, 2), "float32"), context=get_context(self.context))
        for index in (host, device):
            op = GpuAdvancedIncSubtensor1(inplace=True)
            f = theano.function(
                [theano.In(x, mutable=True), index],
                theano.Out(op(x, np.float32(1), index), borrow=True),
                mode="FAST_RUN",
                accept_inplace=True,
            )
            take = compiled([x, index], [GpuAdvancedSubtensor1()(x, index)])
            for bad in (3, -4):
                rows = np.array([0, bad, 1, 9], index.dtype)
                for function in (take, f):
                    message = "index %d is out of bounds for axis 0 with size 3" % bad
                    with self.assertRaisesRegex(IndexError, message) as caught:
                        result = function(shared, rows)
                        self.assertIs(index, device)
                        np.asarray(result[0] if function is take else result)
                    if index is device:
                        self.assertIn("GpuAdvanced", str(caught.exception))
                    else:
                        np.testing.assert_array_equal(np.asarray(shared), np.zeros((3, 2)))
                np.testing.assert_array_equal(np.asarray(shared)[:, 0], [1, 1, 0] if index is device else [0] * 3)
                shared[...] = 0
            np.testing.assert_array_equal(
                np.asarray(f(shared, np.array([1, 1], index.dtype))), [[0, 0], [2, 2], [0, 0]]
            )
            shared[...] = 0
        big = T.TensorType("uint64", (False,))()
        f = compiled([x, big], [GpuAdvancedSubtensor1()(x, big)])
        with self.assertRaisesRegex(IndexError, "index out of bounds: index 18446744073709551615 is"):
            f(np.ones((3, 2), "float32"), np.array([2**64 - 1], "uint64"))
        big = gpu_variable("uint64", 1, self.context)
        f = compiled([x, big], [GpuAdvancedSubtensor1()(x, big)])
        told = "index at least 4294967295 is out of bounds for axis 0 with size 3"
        if isinstance(get_default_mode(), DebugMode):
            told = "larger than any axis"  # the Op for the host raises the error
        with self.assertRaisesRegex(IndexError, told):
            np.asarray(f(np.ones((3, 2), "float32"), np.array([2**64 - 1], "uint64"))[0])
        two = [gpu_variable("int64", 1, self.context) for _ in range(2)]
        f = compiled([x, *two], [GpuAdvancedSubtensor()(x, *two)])
        with self.assertRaisesRegex(IndexError, "index 2 is out of bounds for axis 1 with size 2"):
            np.asarray(f(np.ones((3, 2), "float32"), np.array([0, 1]), np.array([1, 2]))[0])
        # The default mode may be DebugMode, which does not return.
        f = theano.function([x, *two], GpuAdvancedSubtensor()(x, *two), mode="FAST_RUN")
        arguments = [np.array([3, 1, 0, 0]), np.array([5, 1, -3, 0])]
        taken = f(*[placed(v, "C", self.context) for v in (np.ones((3, 2), "float32"), *arguments)])
        with self.assertRaisesRegex(IndexError, "index 3 is out of bounds for axis 0 with size 3"):
            np.asarray(taken)
        np.testing.assert_array_equal(np.asarray(taken), [0, 1, 0, 1])
        with self.assertRaisesRegex(IndexError, "shape mismatch"):
            f(np.ones((3, 2), "float32"), np.array([0, 1]), np.array([1, 0, 1]))
        mask = gpu_variable("bool", 1, self.context)
        f = compiled([x, mask], [GpuAdvancedBooleanSubtensor()(x, mask)])
        with self.assertRaisesRegex(
            IndexError, "boolean index did not match indexed array along axis 0; size of axis is 3"
        ):
            f(np.ones((3, 2), "float32"), np.array([True, False]))

    def test_first_of_many_errors(self):
        """The reported index is the first invalid one, in the order in which the host reads indices. Zeros are read at
        invalid indices, and nothing is written.
        """
        x, y = gpu_variable("float32", 3, self.context), gpu_variable("float32", 2, self.context)
        i, j = gpu_variable("int64", 1, self.context), gpu_variable("int16", 2, self.context)
        take = theano.function([x, i, j], GpuAdvancedSubtensor()(x, i, slice(None), j))
        op = GpuAdvancedIncSubtensor(set_instead_of_inc=True)
        put = theano.function([x, y, i, j], op(x, y, i, slice(None), j), on_unused_input="ignore")
        in_debug_mode = isinstance(get_default_mode(), DebugMode)  # it runs the Ops for the host first
        for _ in range(20):
            shape = tuple(self.rng.integers(1, 6, 3))
            rows, columns = self.rng.integers(-8, 8, 4), self.rng.integers(-8, 8, (3, 4)).astype("int16")
            value = self.rng.standard_normal(shape).astype("float32")
            given = [placed(v, "C", self.context) for v in (value, rows, columns)]
            pairs = [(int(rows[k % 4]), int(columns.flat[k])) for k in range(12)]
            bad = [(n, axis) for pair in pairs for n, axis in zip(pair, (0, 2)) if not -shape[axis] <= n < shape[axis]]
            expected, written = np.zeros((3, 4, shape[1]), "float32"), value.copy()
            for k, (a, b) in enumerate(pairs):
                if -shape[0] <= a < shape[0] and -shape[2] <= b < shape[2]:
                    expected[k // 4, k % 4] = value[a, :, b]
                    written[a, :, b] = 7
            seven = placed(np.full((4, shape[1]), 7, "float32"), "C", self.context)
            for f, arguments, right in ((take, given, expected), (put, [given[0], seven, *given[1:]], written)):
                if in_debug_mode and bad:
                    with self.assertRaises(IndexError):
                        f(*arguments)
                    continue
                result = f(*arguments)
                if bad:
                    text = "index %d is out of bounds for axis %d with size %d. " % (*bad[0], shape[bad[0][1]])
                    with self.assertRaisesRegex(IndexError, text):
                        np.asarray(result)
                np.testing.assert_array_equal(np.asarray(result), right)

    def test_synchronous_context(self):
        """In a context that waits for every kernel, the node itself raises the error, before anything is written."""
        reg_context("synchronous", pygpu.init(DEVICE, checked=True))
        self.addCleanup(unregister, "synchronous")
        x, i = gpu_variable("float32", 1, "synchronous"), gpu_variable("int32", 1, "synchronous")
        value = placed(np.zeros(3, "float32"), "C", "synchronous")
        output = theano.Out(GpuAdvancedIncSubtensor1(inplace=True)(x, np.float32(1), i), borrow=True)
        f = theano.function([theano.In(x, mutable=True), i], output, accept_inplace=True)
        with self.assertRaisesRegex(IndexError, "index 5 is out of bounds for axis 0 with size 3") as caught:
            f(value, placed(np.array([0, 5], "int32"), "C", "synchronous"))
        self.assertIsInstance(caught.exception.__op_instance__.op, GpuAdvancedIncSubtensor1)
        np.testing.assert_array_equal(np.asarray(value), np.zeros(3))

    def test_error_in_a_later_call(self):
        """A function that does not wait returns. The next wait reports the error and names the node, also if the
        function no longer exists.
        """
        if isinstance(get_default_mode(), DebugMode):
            self.skipTest("DebugMode waits for every node")
        x, i = gpu_variable("float32", 1, self.context), gpu_variable("int32", 1, self.context)
        x.name, i.name = "x", "i"
        given = [placed(v, "C", self.context) for v in (np.ones(3, "float32"), np.array([1, 3], "int32"))]
        y = gpu_variable("float32", 1, self.context)
        to_host = compiled([y], [y])
        f = theano.function([x, i], GpuAdvancedSubtensor1()(x, i))
        result = f(*given)
        with self.assertRaisesRegex(IndexError, r"The node GpuAdvancedSubtensor1\(x, i\) found this") as caught:
            to_host(given[0])
        self.assertIsInstance(caught.exception.__op_instance__.op, GpuAdvancedSubtensor1)
        self.assertIn("test_subtensor.py", str(caught.exception))
        np.testing.assert_array_equal(np.asarray(result), [1, 0])
        f(*given)
        del f
        caught = None
        gc.collect()
        with self.assertRaisesRegex(IndexError, "out of bounds. A node of a function that no longer exists found"):
            to_host(given[0])

    def test_types(self):
        x = gpu_variable("float32", 2, self.context)
        with self.assertRaisesRegex(TypeError, "index must be integers"):
            GpuAdvancedSubtensor1()(x, T.fvector())
        with self.assertRaisesRegex(TypeError, "index must be vector"):
            GpuAdvancedSubtensor1()(x, T.lmatrix())
        with self.assertRaisesRegex(TypeError, "cannot index into a scalar"):
            GpuAdvancedSubtensor1()(x.sum(), T.lvector())
        with self.assertRaises(AdvancedBooleanIndexingError):
            GpuAdvancedSubtensor()(x, gpu_variable("bool", 1, self.context))
        # An index that was transferred from the device is read on the device.
        index = gpu_variable("int64", 1, self.context)
        self.assertIs(GpuAdvancedSubtensor1()(x, host_from_gpu(index)).owner.inputs[1], index)
        # An index that comes from the host is checked on the host.
        index = T.lvector()
        self.assertIs(GpuAdvancedSubtensor1()(x, index).owner.inputs[1], index)
        self.assertIs(GpuAdvancedSubtensor1()(x, as_gpuarray_variable(index, self.context)).owner.inputs[1], index)

    def test_derivatives(self):
        """Gradients and R-operators of indexing on the device are correct.

        Indexing is a linear map, so its derivatives are known.
        """
        x, v = T.matrix("x", dtype="float64"), T.matrix("v", dtype="float64")
        g = as_gpuarray_variable(x, self.context)
        rows = np.array([0, 2, 0])
        idx_list, rest = indexed(g, (slice(None, None, 2),))
        cases = [
            (GpuAdvancedSubtensor1()(g, rows), (3, 2)),
            (GpuAdvancedSubtensor()(g, rows, np.array([1, 1, 0])), (3,)),
            (GpuSubtensor(idx_list)(g, *rest), (2, 2)),
        ]
        for part, shape in cases:
            part = host_from_gpu(part)
            weights = np.arange(1.0, 1.0 + np.prod(shape)).cumsum().reshape(shape)
            f = theano.function(
                [x, v], [theano.grad((part * weights).sum(), x), T.Rop(part, x, v)], on_unused_input="ignore"
            )
            value = np.arange(6.0).reshape(3, 2)
            gradient, direction = f(value, value)
            # The function is linear, so its derivative in a direction is its value for this direction.
            take = theano.function([x], part)
            np.testing.assert_allclose(direction, take(value))
            expected = [(take(unit.reshape(3, 2)) * weights).sum() for unit in np.eye(6)]
            np.testing.assert_allclose(gradient.ravel(), expected)

    def test_shapes(self):
        x, i = gpu_variable("float32", 3, self.context), T.lvector()
        mask = gpu_variable("bool", 1, self.context)
        outputs = [
            GpuAdvancedSubtensor1()(x, i),
            GpuAdvancedSubtensor()(x, slice(1, None), i),
            GpuAdvancedBooleanSubtensor()(x, mask),
        ]
        f = theano.function([x, i, mask], [v.shape for v in outputs])
        shapes = f(np.zeros((3, 4, 5), "float32"), np.array([0, 1]), np.array([True, False, True]))
        self.assertEqual([tuple(s) for s in shapes], [(2, 4, 5), (2, 2, 5), (2, 4, 5)])

    def test_masks_without_dimensions(self):
        x, mask = gpu_variable("float32", 1, self.context), T.TensorType("bool", ())()
        f = compiled(
            [x, mask],
            [GpuAdvancedBooleanSubtensor()(x, mask), GpuAdvancedBooleanIncSubtensor()(x, np.float32(2), mask)],
        )
        value = np.arange(3, dtype="float32")
        for number in (True, False):
            taken, inc = f(value, np.array(number))
            np.testing.assert_array_equal(taken, value[np.array(number)])
            np.testing.assert_array_equal(inc, value + 2 * number)

    def test_masks_of_values(self):
        x = np.arange(6.0).reshape(2, 3)
        found = check_and_convert_boolean_masks(x, [None, slice(1), np.array([True, False, True])])
        self.assertEqual(found[:2], [None, slice(1)])
        np.testing.assert_array_equal(found[2], [0, 2])
        found = check_and_convert_boolean_masks(pygpu.array(x, context=get_context(self.context)), [x > 2])
        np.testing.assert_array_equal(x[tuple(found)], [3, 4, 5])
        with self.assertRaisesRegex(
            IndexError, "along dimension 0; dimension is 2 but corresponding boolean dimension is 3"
        ):
            check_and_convert_boolean_masks(x, [np.array([True, False, True])])

    def test_iadd(self):
        a = placed(np.arange(6.0).reshape(2, 3), "reversed", self.context)
        b = placed(np.array([1.0, 10, 100]), "strided", self.context)
        self.assertIs(get_iadd(a, b)(a, b), a)
        np.testing.assert_array_equal(np.asarray(a), [[1, 11, 102], [4, 14, 105]])
        with self.assertRaisesRegex(ValueError, "could not broadcast"):
            get_iadd(a, b)(a, b[:2])
        with self.assertRaises(TypeError):
            get_iadd(a, b.astype("float32"))


class TestDiagonals(unittest.TestCase):
    def setUp(self):
        self.context = context()

    def test_against_numpy(self):
        rng = np.random.default_rng(3)
        for offset, axis1, axis2 in ((0, 0, 1), (1, 1, 0), (-2, 0, 2), (3, 2, 1), (9, 0, 1)):
            x = gpu_variable("float32", 3, self.context)
            view, copy = [GpuExtractDiag(offset, axis1, axis2, view)(x) for view in (True, False)]
            d = gpu_variable("float32", 2, self.context)
            whole = GpuAllocDiag(offset, axis1, axis2)(d)
            f = compiled([x, d], [view, copy, whole])
            for layout in LAYOUTS:
                value, line = numbers(rng, (3, 4, 5), "float32"), numbers(rng, (2, 3), "float32")
                *taken, made = f(placed(value, layout, self.context), placed(line, layout, self.context))
                for result in taken:
                    np.testing.assert_array_equal(result, value.diagonal(offset, axis1, axis2))
                np.testing.assert_array_equal(made.diagonal(offset, axis1, axis2), line)
                self.assertEqual(np.count_nonzero(made), np.count_nonzero(line))
                self.assertEqual(made.shape[axis1], 3 + abs(offset))

    def test_gradient(self):
        x = T.matrix(dtype="float64")
        part = host_from_gpu(GpuExtractDiag(1)(as_gpuarray_variable(x, self.context)))
        gradient = theano.grad((part * np.array([1.0, 2.0])).sum(), x)
        np.testing.assert_array_equal(gradient.eval({x: np.ones((2, 3))}), [[0, 1, 0], [0, 0, 2]])
