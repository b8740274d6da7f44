"""Tests of collective operations on a fake driver and a fake NCCL (`stub_cuda`), whose members meet as in the library."""

import ctypes
import itertools
import os
import re
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_size_t, c_void_p

import numpy as np

from theano_ng.gpuarray.device import loader
from theano_ng.gpuarray.device.tests import native
from theano_ng.gpuarray.device.tests.test_cuda import WithFake, compile_fake

HERE = os.path.dirname(os.path.abspath(__file__))

# NumPy's type numbers
CODES = {name: np.dtype(name).num for name in "bool int8 uint8 int16 int32 uint32 float16 float32 float64".split()}
CODES |= {"int64": np.dtype("int64").num, "uint64": np.dtype("uint64").num, "complex64": np.dtype("complex64").num}
REDUCED = "int8 uint8 int32 uint32 int64 uint64 float16 float32 float64".split()
OPERATIONS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
CALLS = "all_reduce reduce broadcast all_gather reduce_scatter".split()
INVALID_USAGE, REMOTE_ERROR = 5, 6


class FakeNccl(ctypes.Structure):
    _fields_ = [(name, c_int) for name in ("version", "communicators", "meets", "async_error", "async_rank", "lags")]


class Work(ctypes.Structure):
    """The C structure `nccl_work`."""

    _fields_ = [
        ("call", c_int),
        ("operation", c_int),
        ("typecode", c_int),
        ("root", c_int),
        ("count", c_size_t),
        ("source", c_void_p),
        ("source_offset", c_size_t),
        ("to", c_void_p),
        ("to_offset", c_size_t),
    ]


def compile_nccl(folder, driver, *options):
    """Compile the fake library; return its path."""
    return compile_fake(folder, driver, *options, source="fake_nccl.c", name="libnccl.so.2")


def declare(library):
    """Declare the functions of nccl.h."""
    for name, result, arguments in (
        ("nccl_open", c_int, [c_void_p, POINTER(c_int)]),
        ("nccl_make_id", c_int, [c_void_p, c_char_p]),
        ("nccl_join", c_int, [c_void_p, c_char_p, c_int, c_int, POINTER(c_void_p)]),
        ("nccl_begin", c_int, [c_void_p, POINTER(Work)]),
        ("nccl_wait", c_int, [c_void_p, c_double, POINTER(c_int)]),
        ("nccl_abort", None, [c_void_p]),
        ("nccl_leave", None, [c_void_p]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments


class WithNccl(WithFake):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.nccl_path = compile_nccl(cls.folder, cls.path)
        cls.fake_nccl = ctypes.CDLL(cls.nccl_path)
        cls.fake_nccl.fake_nccl_state.restype = POINTER(FakeNccl)
        cls.nccl = cls.fake_nccl.fake_nccl_state().contents
        native.set_libraries(cls.library, nccl=cls.nccl_path)
        declare(cls.library)

    def setUp(self):
        super().setUp()
        self.state.devices = 4
        self.fake_nccl.fake_nccl_reset()
        self.rng = np.random.default_rng(8)

    def nothing_is_left(self):
        super().nothing_is_left()
        self.assertEqual(self.nccl.communicators, 0)

    def contexts(self, size):
        return [self.open("cuda%d" % i) for i in range(size)]

    def identifier(self, context):
        made = ctypes.create_string_buffer(128)
        context.check(self.library.nccl_make_id(context.pointer, made))
        return made.raw

    def begin_to_join(self, context, identifier, size, rank):
        member = c_void_p()
        context.check(self.library.nccl_join(context.pointer, identifier, size, rank, byref(member)))
        return member

    def wait(self, context, member, seconds=20.0):
        finished = c_int()
        context.check(self.library.nccl_wait(member, seconds, byref(finished)))
        return bool(finished.value)

    def group(self, contexts):
        """Return members of a group, which leave when the test ends."""
        identifier = self.identifier(contexts[0])
        members = [self.begin_to_join(c, identifier, len(contexts), i) for i, c in enumerate(contexts)]
        for context, member in zip(contexts, members):
            self.addCleanup(self.library.nccl_leave, member)
            self.assertTrue(self.wait(context, member))
        return members

    def memory(self, context, content, offset=0):
        """Return device memory with the content of an array, after `offset` bytes."""
        data = context.alloc(max(content.nbytes + offset, 1))
        self.addCleanup(context.free, data)
        context.write(data, content.tobytes(), offset)
        return data

    def begin(self, context, member, work):
        context.check(self.library.nccl_begin(member, byref(work)))


class TestNumbers(WithNccl):
    def expected(self, call, operation, values, root):
        """Return the results of all members by NumPy; None for no result."""
        size = len(values)
        if call == "broadcast":
            return [values[root]] * size
        if call == "all_gather":
            return [np.concatenate(values)] * size
        result = values[0]
        for one in values[1:]:
            result = OPERATIONS[operation](result, one)
        if call == "reduce":
            return [result if rank == root else None for rank in range(size)]
        return np.split(result, size) if call == "reduce_scatter" else [result] * size

    def values(self, dtype, count, size):
        if dtype == "complex64":
            return [(self.rng.normal(size=count) + 1j * self.rng.normal(size=count)).astype(dtype) for _ in range(size)]
        if np.dtype(dtype).kind == "f":
            # Small integers and halves: sums and products are exact, so that the order of terms does not matter.
            return [self.rng.integers(-3, 4, count).astype(dtype) / np.asarray(2, dtype) for _ in range(size)]
        return [self.rng.integers(0, 2 if dtype == "bool" else 100, count).astype(dtype) for _ in range(size)]

    def check(self, contexts, members, call, operation, dtype, count, root, in_place, offset):
        """Run one operation in a thread for each member, and compare the results."""
        size = len(contexts)
        itemsize = np.dtype(dtype).itemsize
        offset *= itemsize
        values = self.values(dtype, count * (size if call == "reduce_scatter" else 1), size)
        expected = self.expected(call, operation, values, root)
        works = []
        for context, value in zip(contexts, values):
            source = self.memory(context, value, offset)
            length = count * itemsize * (size if call == "all_gather" else 1)
            to = source if in_place else self.memory(context, np.zeros(length + offset, "uint8"))
            works.append(
                Work(
                    CALLS.index(call),
                    list(OPERATIONS).index(operation),
                    CODES[dtype],
                    root,
                    count,
                    source,
                    offset,
                    to,
                    offset,
                )
            )

        def member(rank):
            self.begin(contexts[rank], members[rank], works[rank])
            self.assertTrue(self.wait(contexts[rank], members[rank]))

        with ThreadPoolExecutor(size) as pool:
            list(pool.map(member, range(size)))
        for context, work, result in zip(contexts, works, expected):
            if result is not None:
                found = np.frombuffer(context.read(work.to, result.nbytes, offset), dtype)
                np.testing.assert_array_equal(found, result)

    def test_generated_operations(self):
        """Random calls, operations, dtypes, counts, roots and offsets, in groups of one to four."""
        for size in (1, 2, 3, 4):
            contexts = self.contexts(size)
            members = self.group(contexts)
            for call, operation, _ in itertools.product(CALLS, OPERATIONS, range(6)):
                copies = call in ("broadcast", "all_gather")
                case = {
                    "call": call,
                    "operation": operation,
                    "dtype": str(self.rng.choice(sorted(CODES) if copies else REDUCED)),
                    "count": int(self.rng.integers(1, 40)),
                    "root": int(self.rng.integers(size)),
                    "in_place": call in ("all_reduce", "reduce", "broadcast") and bool(self.rng.integers(2)),
                    "offset": int(self.rng.integers(3)),
                }
                self.nccl.lags = int(self.rng.integers(3))
                with self.subTest(size=size, **case):
                    self.check(contexts, members, **case)

    def test_an_operation_runs_in_stream_order(self):
        """The source may change until the device begins the operation, and later work reads the result."""
        contexts = self.contexts(2)
        members = self.group(contexts)
        data = [self.memory(context, np.float32([7, 8])) for context in contexts]
        for context, member, one in zip(contexts, members, data):
            context.write(one, np.float32([1, 2]).tobytes())
            self.begin(context, member, Work(0, 0, CODES["float32"], 0, 2, one, 0, one, 0))
            self.library.gpudata_memset(one, 4, 0)
        for context, member in zip(contexts, members):
            context_done = self.wait(context, member, 0.01)
            self.assertEqual(context_done, context is contexts[1])
        self.assertTrue(self.wait(contexts[0], members[0]))
        for context, one in zip(contexts, data):
            self.assertEqual(np.frombuffer(context.read(one, 8), "float32").tolist(), [2, 0])

    def test_nothing(self):
        contexts = self.contexts(2)
        members = self.group(contexts)
        self.calls()
        work = Work(0, 0, CODES["float32"], 0, 0, None, 0, None, 0)
        self.begin(contexts[0], members[0], work)
        self.assertTrue(self.wait(contexts[0], members[0]))
        self.assertEqual(self.calls(), [])


class TestRefusals(WithNccl):
    def refused(self, context, member, *work):
        with self.assertRaises(native.DeviceError) as caught:
            self.begin(context, member, Work(*work))
        return caught.exception.code, str(caught.exception)

    def test_arguments(self):
        """Bad arguments are refused before the library is called, and the group works afterwards."""
        first, second = contexts = self.contexts(2)
        members = self.group(contexts)
        data, other = self.memory(first, np.zeros(8, "float32")), self.memory(second, np.zeros(8, "float32"))
        self.calls()
        code = CODES["float32"]
        for work, expected in (
            ((0, 0, code, 0, 8, other, 0, data, 0), (4, "memory of cuda1, but the member belongs to cuda0")),
            ((0, 0, code, 0, 9, data, 0, data, 0), (2, "36 bytes at 0 are out of bounds for memory of 32 bytes")),
            ((0, 0, code, 0, 8, data, 4, data, 0), (2, "32 bytes at 4 are out of bounds for memory of 32 bytes")),
            ((3, 0, code, 0, 5, data, 0, data, 0), (2, "40 bytes at 0 are out of bounds")),
            ((4, 0, code, 0, 5, data, 0, data, 0), (2, "40 bytes at 0 are out of bounds")),
            ((0, 0, CODES["int16"], 0, 1, data, 0, data, 0), (5, "NCCL does not reduce arrays of this dtype")),
        ):
            found, text = self.refused(first, members[0], *work)
            self.assertEqual(found, expected[0])
            self.assertIn(expected[1], text)
        self.assertEqual(self.calls(), [])
        works = [Work(0, 0, code, 0, 8, one, 0, one, 0) for one in (data, other)]
        for context, member, work in zip(contexts, members, works):
            self.begin(context, member, work)
        found, text = self.refused(first, members[0], 0, 0, code, 0, 8, data, 0, data, 0)
        self.assertEqual(text, "ncclAllReduce of member 0 is not finished")
        for _ in range(2):
            for context, member in zip(contexts, members):
                self.wait(context, member, 0.01)

    def test_two_members_on_a_device(self):
        context, again = self.open("cuda1"), self.open("cuda1")
        identifier = self.identifier(context)
        members = [self.begin_to_join(one, identifier, 2, i) for i, one in enumerate((context, again))]
        for rank, (one, member) in enumerate(zip((context, again), members)):
            with self.assertRaisesRegex(
                native.DeviceError,
                r"^ncclCommInitRankConfig: invalid usage \(Duplicate GPU detected\), at member %d of 2 on cuda1$"
                % rank,
            ):
                self.wait(one, member)
            self.library.nccl_leave(member)

    def test_failing_calls(self):
        context = self.open()
        identifier = self.identifier(context)
        for call in ("ncclGetUniqueId", "ncclCommInitRankConfig", "cuEventCreate"):
            self.fake.fake_fail(call.encode(), 2, 0)
            with self.assertRaisesRegex(native.DeviceError, "^%s: " % call):
                self.begin_to_join(context, self.identifier(context), 1, 0)
        self.fake.fake_fail(b"ncclCommInitRankConfig", 1, 0)
        with self.assertRaisesRegex(
            native.DeviceError,
            r"^ncclCommInitRankConfig: unhandled cuda error, at member 0 of 1 on cuda0. If NCCL is for a newer CUDA "
            r"version than the driver's, pip install 'theano_ng\[cuda12\]'",
        ):
            self.begin_to_join(context, identifier, 1, 0)
        self.group([context])

    def test_a_failing_operation(self):
        """An operation that fails at one member ends at all members, and the devices work afterwards."""
        code = CODES["float64"]
        for call in CALLS:
            name = "nccl" + "".join(part.capitalize() for part in call.split("_"))
            contexts = self.contexts(2)
            members = self.group(contexts)
            data = [self.memory(context, np.arange(8.0)) for context in contexts]
            works = [Work(CALLS.index(call), 0, code, 0, 4, one, 0, one, 0) for one in data]
            self.begin(contexts[0], members[0], works[0])
            self.fake.fake_fail(name.encode(), REMOTE_ERROR, 0)
            with self.assertRaises(native.DeviceError) as caught:
                self.begin(contexts[1], members[1], works[1])
            self.assertEqual(
                str(caught.exception),
                "%s: remote process exited or there was a network error, at member 1 of 2 on cuda1" % name,
            )
            self.assertFalse(self.wait(contexts[0], members[0], 0.01))
            self.library.nccl_abort(members[0])
            for context, member, work, one in zip(contexts, members, works, data):
                with self.assertRaisesRegex(native.DeviceError, "cannot be used any longer, because an earlier call"):
                    self.begin(context, member, work)
                self.assertEqual(context.read(one, 64), np.arange(8.0).tobytes())

    def test_asynchronous_errors(self):
        contexts = self.contexts(2)
        members = self.group(contexts)
        self.nccl.async_error, self.nccl.async_rank = REMOTE_ERROR, 1
        data = [self.memory(context, np.arange(8.0)) for context in contexts]
        for context, member, one in zip(contexts, members, data):
            self.begin(context, member, Work(0, 0, CODES["float64"], 0, 8, one, 0, one, 0))
        with self.assertRaisesRegex(
            native.DeviceError, "^ncclAllReduce: remote process .*, at member 1 of 2 on cuda1$"
        ):
            self.wait(contexts[1], members[1])
        self.assertFalse(self.wait(contexts[0], members[0], 0.01))

    def test_errors_of_the_device(self):
        contexts = self.contexts(1)
        members = self.group(contexts)
        data = self.memory(contexts[0], np.arange(8.0))
        self.begin(contexts[0], members[0], Work(0, 0, CODES["float64"], 0, 8, data, 0, data, 0))
        self.fake.fake_fail(b"cuEventQuery", 2, 0)
        with self.assertRaisesRegex(native.DeviceError, r"^ncclAllReduce: CUDA_ERROR_OUT_OF_MEMORY"):
            self.wait(contexts[0], members[0])


class TestWaiting(WithNccl):
    def test_a_member_that_never_joins(self):
        context = self.open()
        member = self.begin_to_join(context, self.identifier(context), 2, 0)
        start = time.monotonic()
        self.assertFalse(self.wait(context, member, 0.1))
        self.assertGreater(time.monotonic() - start, 0.09)
        self.library.nccl_leave(member)
        self.assertIn("ncclCommAbort 0", self.finished_calls(context))

    def finished_calls(self, context):
        for _ in range(1000):
            if self.nccl.communicators == 0:
                break
            time.sleep(0.005)
        return self.calls()

    def test_a_member_that_never_begins(self):
        """The operation ends by nccl_abort, and the stream goes on."""
        contexts = self.contexts(2)
        members = self.group(contexts)
        data = self.memory(contexts[0], np.arange(8.0))
        self.begin(contexts[0], members[0], Work(0, 0, CODES["float64"], 0, 8, data, 0, data, 0))
        self.assertFalse(self.wait(contexts[0], members[0], 0.05))
        self.library.nccl_abort(members[0])
        self.assertEqual(contexts[0].read(data, 64), np.arange(8.0).tobytes())

    def test_aborts_that_wait_for_each_other(self):
        """ncclCommAbort may wait until other members call it; meanwhile, the member goes on."""
        contexts = self.contexts(2)
        members = self.group(contexts)
        self.nccl.meets = 1
        data = self.memory(contexts[0], np.arange(8.0))
        self.begin(contexts[0], members[0], Work(0, 0, CODES["float64"], 0, 8, data, 0, data, 0))
        start = time.monotonic()
        self.library.nccl_abort(members[0])
        contexts[0].read(data, 64)
        self.assertLess(time.monotonic() - start, 5)
        self.assertEqual(self.nccl.communicators, 2)
        self.library.nccl_abort(members[1])
        self.finished_calls(contexts[0])

    def test_closing_a_context(self):
        """A context that is closed destroys its communicators; their members can still be freed."""
        context = native.Context(self.library, "cuda0", 0, -1.0)
        done = self.begin_to_join(context, self.identifier(context), 1, 0)
        waits = self.begin_to_join(context, self.identifier(context), 2, 1)
        self.assertTrue(self.wait(context, done))
        self.calls()
        context.close()
        self.assertEqual(
            sorted(call for call in self.calls() if "Comm" in call), ["ncclCommAbort 1", "ncclCommDestroy 0"]
        )
        self.nothing_is_left()
        for member in (done, waits):
            self.library.nccl_abort(member)
            self.library.nccl_leave(member)

    def test_lost_contexts(self):
        """After a lasting error, nothing is called."""
        context = native.Context(self.library, "cuda0", 0, -1.0)
        member = self.begin_to_join(context, self.identifier(context), 1, 0)
        self.wait(context, member)
        data = context.alloc(64)
        self.state.fault = 700
        with self.assertRaises(native.DeviceError):
            context.read(data, 8)
        self.calls()
        context.free(data)
        context.close()
        self.library.nccl_leave(member)
        self.assertEqual([call for call in self.calls() if "Comm" in call], [])
        self.fake.fake_reset()
        self.fake_nccl.fake_nccl_reset()

    def test_data_races(self):
        """ThreadSanitizer finds no data race in a C program whose threads are members of groups."""
        driver = compile_fake(self.folder, "-fsanitize=thread")
        self.run_with_thread_sanitizer("members.c", driver, compile_nccl(self.folder, driver, "-fsanitize=thread"))


class TestLibrary(WithNccl):
    """Tests of the library itself: missing, too old, another library."""

    def setUp(self):
        super().setUp()
        self.library = native.load(fresh=True)
        declare(self.library)
        native.set_libraries(self.library, cuda=self.path, nvrtc=self.path, nccl=self.nccl_path)

    def refused_library(self):
        context = native.Context(self.library, "cuda0", 0, -1.0)
        try:
            with self.assertRaises(native.DeviceError) as caught:
                context.check(self.library.nccl_open(context.pointer, byref(c_int())))
        finally:
            context.close()
        return caught.exception.code, str(caught.exception)

    def test_version(self):
        context, version = self.open(), c_int()
        for _ in range(2):
            context.check(self.library.nccl_open(context.pointer, byref(version)))
        self.assertEqual(version.value, 22803)

    def test_other_devices(self):
        context = native.Context(self.library, "stub0", 0, -1.0)
        self.addCleanup(context.close)
        for call in (
            lambda: self.library.nccl_open(context.pointer, byref(c_int())),
            lambda: self.library.nccl_make_id(context.pointer, ctypes.create_string_buffer(128)),
            lambda: self.library.nccl_join(context.pointer, bytes(128), 1, 0, byref(c_void_p())),
        ):
            with self.assertRaisesRegex(native.DeviceError, "^stub0 is no CUDA device, so NCCL does not") as caught:
                context.check(call())
            self.assertEqual(caught.exception.code, native.GA_UNSUPPORTED_ERROR)

    def test_missing(self):
        native.set_libraries(self.library, nccl="/nowhere/libnccl.so.2")
        code, text = self.refused_library()
        self.assertEqual(code, native.GA_LOAD_ERROR)
        self.assertRegex(text, r"^NCCL cannot be loaded \(/nowhere/.*\); pip install 'theano_ng\[cuda12\]' or ")

    def test_too_old(self):
        self.nccl.version = 21605
        code, text = self.refused_library()
        self.assertEqual(code, native.GA_LOAD_ERROR)
        self.assertRegex(
            text, r"^NCCL 2.16.5 \(%s\) is too old: 2.18.0 is the oldest .*pip install" % re.escape(self.nccl_path)
        )

    def test_another_library(self):
        path = compile_nccl(self.folder, self.path, "-DFAKE_WITHOUT_GATHER")
        ctypes.CDLL(path).fake_nccl_reset()
        native.set_libraries(self.library, nccl=path)
        code, text = self.refused_library()
        self.assertEqual(code, native.GA_LOAD_ERROR)
        self.assertRegex(text, "^%s has no function ncclAllGather: NCCL 2.18.0 is the oldest" % re.escape(path))
        native.set_libraries(self.library, nccl=self.path)
        self.assertRegex(self.refused_library()[1], "^%s has no function nccl" % re.escape(self.path))


class TestInterface(unittest.TestCase):
    """Tests of the declarations in nccl_library.h, with NVIDIA's library and header, if they are installed."""

    def setUp(self):
        self.path = loader.nccl()
        if self.path is None:
            self.skipTest("needs NCCL: pip install 'theano_ng[cuda13]'")
        with open(os.path.join(os.path.dirname(HERE), "nccl_library.h"), encoding="ascii") as file:
            self.ours = file.read()

    def test_constants(self):
        """The constants have the values of the header."""
        header = os.path.join(os.path.dirname(os.path.dirname(self.path)), "include", "nccl.h")
        with open(header, encoding="utf-8") as file:
            theirs = file.read()
        constants = re.findall(r"^    (nccl\w+) = (\d+),", self.ours, re.MULTILINE)
        self.assertEqual(len(constants), 20)
        for name, value in constants:
            self.assertEqual(re.search(r"\b%s\s*=\s*(\d+)" % name, theirs)[1], value, name)
        self.assertIn("#define NCCL_UNIQUE_ID_BYTES 128", theirs)
        self.assertIn("#define NCCL_API_MAGIC 0xcafebeef", theirs)

    def test_library(self):
        """The library has all functions. It has no device, so only its version is asked."""
        library, version = ctypes.CDLL(self.path), c_int()
        for name in re.findall(r"X\((nccl\w+)", self.ours):
            getattr(library, name)
        self.assertEqual(library.ncclGetVersion(byref(version)), 0)
        self.assertGreaterEqual(version.value, 21800)


if __name__ == "__main__":
    unittest.main()
