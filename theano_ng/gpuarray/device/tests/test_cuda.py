"""Tests of CUDA's device table on a fake libcuda and libnvrtc (`stub_cuda/fake_cuda.c`): calls and error messages."""

import ctypes
import functools
import glob
import os
import shutil
import subprocess
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from ctypes import byref, c_char_p, c_double, c_int, c_size_t, c_uint64, c_void_p

import numpy as np

from theano_ng.gpuarray.device import loader
from theano_ng.gpuarray.device.tests import native

HERE = os.path.dirname(os.path.abspath(__file__))
MB = 1 << 20

# The errors after which a context cannot be used any longer, and the fake driver's names of some of them.
LASTING = dict.fromkeys([201, 214, 220, 709, 710, 714, 715, 716, 717, 718, 719, 911, 999], "an unknown error")
LASTING[700], LASTING[702] = "CUDA_ERROR_ILLEGAL_ADDRESS", "an unknown error"


class FakeState(ctypes.Structure):
    _fields_ = [
        ("devices", c_int),
        ("capability", c_int),
        ("driver", c_int),
        ("busy", c_int),
        ("compiler", c_int),
        ("capacity", c_uint64),
        ("held", c_uint64),
        ("contexts", c_int),
        ("streams", c_int),
        ("events", c_int),
        ("modules", c_int),
        ("graphs", c_int),
        ("pinned", c_int),
        ("fault", c_int),
        ("delay", c_int),
        ("peers", c_int),
    ]


def compile_fake(folder, *options, source="fake_cuda.c", name="libcuda.so.1"):
    """Compile a fake library with these options of the compiler (or more source files); return its path."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise unittest.SkipTest("needs gcc")
    path = os.path.join(tempfile.mkdtemp(dir=folder), name)
    source = os.path.join(HERE, "stub_cuda", source)
    subprocess.run(
        [compiler, "-O1", "-w", "-shared", "-fPIC", "-I", os.path.dirname(HERE), "-o", path, source, *options],
        check=True,
    )
    return path


class WithFake(unittest.TestCase):
    def run_with_thread_sanitizer(self, source, *arguments):
        """Compile a C program of `stub_cuda` and the device layer with ThreadSanitizer, and run it. It must print nothing."""
        device = os.path.dirname(HERE)
        gpuarray = os.path.dirname(device)
        files = sorted(glob.glob(os.path.join(device, "*.c")))
        if not files:
            self.skipTest("needs the C source code of the package")
        program = os.path.join(self.folder, "sanitized")
        folders = (device, os.path.join(gpuarray, "include"), os.path.join(os.path.dirname(gpuarray), "gof"))
        include = [word for folder in folders for word in ("-I", folder)]
        probe = subprocess.run(
            ["gcc", "-fsanitize=thread", "-x", "c", "-", "-o", program], input=b"int main() {}", capture_output=True
        )
        if shutil.which("setarch") is None or probe.returncode:
            self.skipTest("needs ThreadSanitizer (a part of gcc) and the command setarch")
        options = ["-fsanitize=thread", "-g", "-O1", "-w", *include, "-o", program]
        source = os.path.join(HERE, "stub_cuda", source)
        subprocess.run(["gcc", *options, source, *files, "-ldl", "-lm"], check=True)
        # A thread may free the thread-local memory of a thread that has ended. ThreadSanitizer does not see that the C
        # library orders the two threads.
        with open(os.path.join(self.folder, "suppressions"), "w") as file:
            file.write("race:dl_deallocate_tls\n")
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        environment["TSAN_OPTIONS"] = "print_suppressions=0 suppressions=" + file.name
        # ThreadSanitizer does not work with randomized addresses on some systems.
        command = ["setarch", "-R", program, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.path = compile_fake(cls.folder)
        cls.fake = ctypes.CDLL(cls.path)
        cls.fake.fake_state.restype = ctypes.POINTER(FakeState)
        cls.fake.fake_calls.restype = c_char_p
        cls.fake.fake_fail.argtypes = [c_char_p, c_int, c_int]
        cls.state = cls.fake.fake_state().contents
        cls.library = native.load(fresh=True)
        native.set_libraries(cls.library, cuda=cls.path, nvrtc=cls.path)

    def setUp(self):
        self.fake.fake_reset()
        self.addCleanup(self.nothing_is_left)

    def open(self, name="cuda0", flags=0, preallocate=-1.0):
        context = native.Context(self.library, name, flags, preallocate)
        self.addCleanup(context.close)
        return context

    def nothing_is_left(self):
        left = {
            name: getattr(self.state, name) for name in "held contexts streams events modules graphs pinned".split()
        }
        self.assertEqual(left, dict.fromkeys(left, 0))

    def calls(self):
        return self.fake.fake_calls().decode().splitlines()

    def refused(self, *args, **kwargs):
        with self.assertRaises(native.DeviceError) as caught:
            native.Context(self.library, *args, **kwargs)
        self.nothing_is_left()
        return caught.exception.code, str(caught.exception)


class TestDevices(WithFake):
    def test_properties(self):
        context = self.open("cuda1")
        name, number, size = ctypes.create_string_buffer(256), ctypes.create_string_buffer(16), c_size_t()
        context.check(self.library.gpucontext_property(context.pointer, 1, name))
        context.check(self.library.gpucontext_property(context.pointer, 21, number))
        context.check(self.library.gpucontext_property(context.pointer, 6, byref(size)))
        self.assertEqual((name.value, number.value, size.value), (b"Fake 1", b"0000:84:00.0", 1 << 30))
        binaries = c_char_p()
        context.check(self.library.gpucontext_property(context.pointer, 4, byref(binaries)))
        for number, expected in ((46, 0), (47, 4096), (48, 1)):  # vectors of a thread, arguments, atomics of 64 bits
            context.check(self.library.gpucontext_property(context.pointer, number, byref(size)))
            self.assertEqual(size.value, expected)
        self.assertEqual(binaries.value.decode(), "cuda sm_90 libcuda.so.1 %d" % os.stat(self.path).st_size)

    def test_any_device_is_the_first_that_can_be_used(self):
        self.state.busy = 1
        context = self.open("cuda")
        name = ctypes.create_string_buffer(256)
        context.check(self.library.gpucontext_property(context.pointer, 1, name))
        self.assertEqual(name.value, b"Fake 1")

    def test_the_stream_is_ordered_with_the_legacy_default_stream(self):
        # The stream is blocking: it is created without CU_STREAM_NON_BLOCKING (1).
        self.open()
        self.assertIn("cuStreamCreate 0", self.calls())

    def test_how_threads_wait(self):
        self.open(flags=native.GA_CTX_SCHED_MULTI)
        self.assertEqual(self.calls()[0], "cuDevicePrimaryCtxSetFlags 0 2")  # CU_CTX_SCHED_YIELD
        self.fake.fake_fail(b"cuDevicePrimaryCtxSetFlags", 708, 0)  # as if other code had created the context
        self.open(flags=native.GA_CTX_SCHED_MULTI)

    def test_names_that_are_none(self):
        for name in ("cudax", "cuda-1", "cuda0:1", "cuda 1", "cuda+1"):
            with self.subTest(name):
                code, text = self.refused(name)
                self.assertEqual(code, native.GA_VALUE_ERROR)
                self.assertEqual(
                    text, "'%s' is not the name of a CUDA device; expected cuda, or cuda and its number" % name
                )

    def test_no_such_number(self):
        self.assertEqual(
            self.refused("cuda7"),
            (native.GA_NODEV_ERROR, "cuda7 does not exist: the driver has 2 devices, the last is cuda1"),
        )

    def test_no_device(self):
        self.state.devices = 0
        code, text = self.refused("cuda0")
        self.assertEqual(code, native.GA_NODEV_ERROR)
        self.assertRegex(text, "NVIDIA's driver is installed, but finds no device .*CUDA_VISIBLE_DEVICES")

    def test_a_busy_device(self):
        self.state.busy = 3
        for name in ("cuda0", "cuda"):
            code, text = self.refused(name)
            self.assertEqual(code, native.GA_NODEV_ERROR)
            self.assertRegex(text, "CUDA_ERROR_DEVICE_UNAVAILABLE.*another process uses the device exclusively")

    def test_a_driver_that_was_updated(self):
        self.fake.fake_fail(b"cuInit", 803, 0)
        code, text = self.refused("cuda0")
        self.assertEqual(code, native.GA_NODEV_ERROR)
        self.assertIn("restart the machine", text)

    def test_a_driver_in_a_forked_process(self):
        self.fake.fake_fail(b"cuInit", 3, 0)
        code, text = self.refused("cuda0")
        self.assertEqual(code, native.GA_NODEV_ERROR)
        self.assertRegex(text, "forked after its parent had used CUDA; start worker processes by 'spawn'")

    def test_a_failure_that_has_no_words(self):
        self.fake.fake_fail(b"cuStreamCreate", 12345, 0)
        code, text = self.refused("cuda0")
        self.assertEqual(text, "cuStreamCreate: an unknown error (the driver does not describe the error)")

    def test_contexts_do_not_leak(self):
        for _ in range(200):
            context = native.Context(self.library, "cuda0", 0, 1.0)
            data = context.alloc(100)
            context.write(data, b"x" * 100)
            context.free(data)
            context.device.kernel(context.device.build("KERNEL void f() {}")[0], "f")
            context.close()
            self.nothing_is_left()


class TestMemory(WithFake):
    def test_what_is_written_is_read(self):
        # Sizes near the 4 MB halves of the staging buffer and larger than both, with an offset. The device copies late:
        # see fake_cuda.c.
        context = self.open()
        for size in (1, 63, 64, 1000, 4 * MB - 1, 4 * MB, 4 * MB + 1, 8 * MB, 13 * MB + 5):
            content = os.urandom(size)
            data = context.alloc(size + 7)
            context.write(data, content, 7)
            self.assertEqual(context.read(data, size, 7), content)
            context.free(data)

    def test_the_source_may_be_changed_at_once(self):
        context = self.open()
        for size, times in ((1000, 50), (3 * MB, 7)):
            data = context.alloc(size * times)
            source = ctypes.create_string_buffer(size)
            for i in range(times):
                source.raw = bytes([i + 1]) * size
                context.check(self.library.gpudata_write(data, i * size, ctypes.cast(source, c_char_p), size))
            self.assertEqual(context.read(data, size * times), b"".join(bytes([i + 1]) * size for i in range(times)))
            context.free(data)

    def test_small_writes_wait_for_nothing(self):
        context = self.open()
        data = context.alloc(1000)
        self.calls()
        for _ in range(1000):
            context.write(data, b"x" * 1000)
        calls = self.calls()
        self.assertEqual(calls, ["cuMemcpyHtoDAsync 1000"] * 1000)
        context.free(data)

    def test_large_writes_wait_for_no_computation(self):
        """The device has not computed what was queued before a large write when the write returns."""
        context = self.open()
        size = 13 * MB
        a, b = context.alloc(size), context.alloc(100)
        context.write(b, bytes(100))
        context.read(b, 100)
        content = os.urandom(size)
        for _ in range(2):
            context.check(self.library.gpudata_memset(b, 0, 7))
            context.write(a, content)
            at = ctypes.cast(b, ctypes.POINTER(native.Data)).contents.memory
            self.assertEqual(ctypes.string_at(at, 100), bytes(100))
            self.assertEqual(context.read(a, size), content)
            context.write(b, bytes(100))
            context.read(b, 100)
        for size in (60 * MB, 256 << 10):  # more pieces than slots; the smallest large copy
            data, content = context.alloc(size), os.urandom(size)
            context.write(data, content)
            self.assertEqual(context.read(data, size), content)
            context.free(data)
        context.free(a)
        context.free(b)

    def test_page_locked_sources(self):
        """The device reads a page-locked source itself. The source can be changed when the write has returned."""
        context = self.open()
        for size in (5 * MB, 9 * MB + 3):
            source, data = c_void_p(), context.alloc(size)
            context.check(self.library.gpucontext_host_alloc(context.pointer, size, byref(source)))
            content = os.urandom(size)
            ctypes.memmove(source, content, size)
            before = self.state.pinned
            context.check(self.library.gpudata_write(data, 0, ctypes.cast(source, c_char_p), size))
            self.assertEqual(self.state.pinned, before)  # no staging buffer
            ctypes.memset(source, 0, size)
            self.assertEqual(context.read(data, size), content)
            self.library.gpucontext_host_free(context.pointer, source)
            context.free(data)

    def test_large_writes_if_memory_is_scarce(self):
        """Without memory for slots, and after failures of any call, large writes give correct results."""
        size, content = 9 * MB, os.urandom(9 * MB)
        for name in (None, b"cuStreamCreate", b"cuMemAllocHost", b"cuMemcpyHtoDAsync", b"cuMemcpyAsync"):
            context = self.open()
            self.state.capacity = 1000 * MB
            data = context.alloc(size)
            if name is None:
                self.state.capacity = 20 * MB
            else:
                self.fake.fake_fail(name, 1, 0)
                with self.assertRaises(native.DeviceError):
                    context.write(data, bytes(size))
            for _ in range(2):
                context.write(data, content)
                self.assertEqual(context.read(data, size), content)
            context.free(data)

    def test_copies_and_fills(self):
        context = self.open()
        a, b = context.alloc(100), context.alloc(100)
        context.write(a, bytes(range(100)))
        context.check(self.library.gpudata_memset(b, 10, 7))
        context.check(self.library.gpudata_move(b, 20, a, 30, 40))
        self.assertEqual(context.read(b, 90, 10), b"\7" * 10 + bytes(range(30, 70)) + b"\7" * 40)
        context.free(a)
        context.free(b)

    def test_out_of_memory(self):
        context = self.open()
        self.state.capacity = 10 * MB
        with self.assertRaises(native.DeviceError) as caught:
            context.alloc(11 * MB)
        self.assertEqual(caught.exception.code, native.GA_MEMORY_ERROR)
        self.assertRegex(
            str(caught.exception),
            r"^Error allocating 11534336 bytes of device memory \(out of memory\). Driver report 10485760 bytes free and 10485760 total\.",
        )
        context.free(context.alloc(9 * MB))

    def test_a_call_that_fails(self):
        context = self.open()
        data = context.alloc(10)
        self.fake.fake_fail(b"cuMemAllocHost", 2, 0)
        with self.assertRaisesRegex(
            native.DeviceError, r"^cuMemAllocHost: CUDA_ERROR_OUT_OF_MEMORY \(out of memory\)$"
        ):
            context.write(data, b"x" * 10)
        self.fake.fake_fail(b"cuMemcpyHtoDAsync", 1, 0)
        with self.assertRaisesRegex(native.DeviceError, "^cuMemcpyHtoDAsync: "):
            context.write(data, b"x" * 10)
        context.write(data, b"y" * 10)
        self.assertEqual(context.read(data, 10), b"y" * 10)
        context.free(data)

    def test_a_lost_device(self):
        # A kernel has made an invalid write, or the device fails. The next waiting call reports it, and closing makes no
        # further calls with the context.
        for fault, name in LASTING.items():
            with self.subTest(fault):
                context = native.Context(self.library, "cuda0", 0, -1.0)
                data = context.alloc(10)
                context.write(data, b"x" * 10)
                self.state.fault = fault
                with self.assertRaises(native.DeviceError) as caught:
                    context.read(data, 10)
                self.assertEqual(caught.exception.code, native.GA_RUN_ERROR)
                self.assertRegex(
                    str(caught.exception),
                    r"waiting for the device: %s \(.*\)\. This call, or a kernel that was launched earlier, caused"
                    % name,
                )
                context.free(data)
                context.close()
                self.assertEqual(self.state.contexts, 0)
                self.fake.fake_reset()  # the lost device keeps memory and a stream, so clear the counts

    def test_several_devices_in_one_thread(self):
        # Each call makes the context of its device current, and restores the context of the thread afterwards.
        first, second = self.open("cuda0"), self.open("cuda1")
        current = c_void_p()
        self.fake.cuCtxGetCurrent(byref(current))
        before = current.value
        a, b = first.alloc(10), second.alloc(10)
        first.write(a, b"1" * 10)
        second.write(b, b"2" * 10)
        self.assertEqual((first.read(a, 10), second.read(b, 10)), (b"1" * 10, b"2" * 10))
        self.fake.cuCtxGetCurrent(byref(current))
        self.assertEqual(current.value, before)
        first.free(a)
        second.free(b)

    def test_devices_copy_by_themselves(self):
        first, second = self.open("cuda0"), self.open("cuda1")
        a, b = first.alloc(10), second.alloc(10)
        first.write(a, bytes(range(10)))
        self.calls()
        second.check(self.library.gpudata_transfer(b, 2, a, 3, 5))
        self.assertEqual(self.calls(), ["cuStreamWaitEvent", "cuMemcpyAsync 5", "cuStreamWaitEvent"])
        self.assertEqual(second.read(b, 5, 2), bytes(range(3, 8)))
        first.free(a)
        second.free(b)

    def test_devices_that_can_access_each_other(self):
        # Access is enabled once for each direction. If it fails, the driver copies through the host.
        self.state.peers = 1
        for failure in (0, 704, 217):
            with self.subTest(failure):
                first, second = self.open("cuda0"), self.open("cuda1")
                a, b = first.alloc(10), second.alloc(10)
                first.write(a, bytes(range(10)))
                self.calls()
                if failure:
                    self.fake.fake_fail(b"cuCtxEnablePeerAccess", failure, 0)
                for _ in range(2):
                    second.check(self.library.gpudata_transfer(b, 2, a, 3, 5))
                enabled = [line for line in self.calls() if "Peer" in line]
                self.assertEqual(enabled, ["cuCtxEnablePeerAccess 1 0", "cuCtxEnablePeerAccess 0 1"])
                self.assertEqual(second.read(b, 5, 2), bytes(range(3, 8)))
                first.free(a)
                second.free(b)


class TestThreads(WithFake):
    """Tests of threads that copy arrays from and to one device at the same time, without the interpreter lock.

    Calls that wait return with a delay, in which the other threads run.
    """

    ROUNDS = 20

    def setUp(self):
        super().setUp()
        self.context = self.open()
        self.state.delay = 200

    def together(self, *works):
        """Run the functions in threads of their own; raise the first exception."""
        with ThreadPoolExecutor(len(works)) as pool:
            for future in [pool.submit(work) for work in works]:
                future.result()

    def array(self, size):
        data = self.context.alloc(size)
        self.addCleanup(self.context.free, data)
        return data

    def reader(self, size, byte):
        """Return a function that reads an array several times, and checks it each time."""
        data, content = self.array(size), bytes([byte]) * size
        self.context.write(data, content)

        def read():
            for _ in range(self.ROUNDS):
                if self.context.read(data, size) != content:
                    raise AssertionError("the array that was read has other elements")

        return read

    def writer(self, size, first):
        """Return a function that writes arrays of different contents, and a function that checks the arrays."""
        arrays = [(self.array(size), bytes([first + i]) * size) for i in range(self.ROUNDS)]

        def write():
            for data, content in arrays:
                self.context.write(data, content)

        def check():
            for data, content in arrays:
                self.assertEqual(self.context.read(data, size), content)

        return write, check

    def test_reads(self):
        for size in (100, 5 * MB):
            self.together(*[self.reader(size, k) for k in (1, 2, 3)])

    def test_reads_and_writes(self):
        for size in (100, 5 * MB):
            write, check = self.writer(size, 100)
            self.together(self.reader(size, 1), write, self.reader(size, 2))
            check()

    def test_waits_and_writes(self):
        def wait():
            for _ in range(self.ROUNDS):
                self.context.check(self.library.gpucontext_sync(self.context.pointer))

        for size in (100, 5 * MB):
            first, check_first = self.writer(size, 1)
            second, check_second = self.writer(size, 100)
            self.together(wait, first, second, wait)
            check_first()
            check_second()

    def test_data_races(self):
        """ThreadSanitizer finds no data race in a C program whose threads use one device."""
        self.run_with_thread_sanitizer("threads.c", compile_fake(self.folder, "-fsanitize=thread"))

    def test_each_thread_has_its_own_error(self):
        """A failing call reports its own message, even if another thread fails at the same time."""

        def fail(data, size):
            for _ in range(2000):
                with self.assertRaisesRegex(native.DeviceError, "^bytes 1 to %d are out of bounds" % (size + 1)):
                    self.context.read(data, size, 1)

        self.together(*[functools.partial(fail, self.array(size), size) for size in (10, 20, 30)])


class TestPrograms(WithFake):
    TEXT = "KERNEL void axpy(ga_double a) {}\nKERNEL void other(ga_double a) {}"

    def setUp(self):
        super().setUp()
        self.device = self.open().device
        self.calls()

    def refused_text(self, text, device=None, **kwargs):
        with self.assertRaises(native.DeviceError) as caught:
            (device or self.device).build(text, **kwargs)
        return caught.exception.code, str(caught.exception)

    def test_build_and_launch(self):
        program, binary = self.device.build(self.TEXT, options="-g --fmad=false")
        self.assertEqual(
            self.calls(),
            [
                "nvrtcCreateProgram kernels 1 cluda.h 1",
                "nvrtcCompileProgram --gpu-architecture=sm_90 --generate-line-info --fmad=false",
                "cuModuleLoadDataEx cubin",
            ],
        )
        self.assertEqual(binary[64:-1].decode(), loader.cluda("cuda") + self.TEXT)
        axpy, other = self.device.kernel(program, "axpy"), self.device.kernel(program, "other")
        self.assertEqual((axpy.max_group, axpy.preferred), (512, 32))
        self.device.launch(axpy, [4, 3, 2], [64, 2, 1], 100, [c_double(2.5)])
        self.device.launch(other, [7], [32], 0, [c_double(3.5)])
        self.assertEqual(
            self.calls(),
            ["cuLaunchKernel axpy (4 3 2) (64 2 1) 100 2.5", "cuLaunchKernel other (7 1 1) (32 1 1) 0 3.5"],
        )

    def test_a_binary_needs_no_compiler(self):
        _, binary = self.device.build(self.TEXT)
        self.calls()
        program, none = self.device.build(None, binary=binary)
        self.assertIsNone(none)
        self.assertEqual(self.calls(), ["cuModuleLoadDataEx cubin"])
        self.device.kernel(program, "axpy")

    def test_binaries_that_are_none(self):
        # Truncated binaries, files of other formats, and sections beyond the end of the file are refused. They must not
        # reach the driver, because the driver does not know their length.
        header = b"\177ELF\2\1" + bytes(34) + (64).to_bytes(8, "little") + bytes(10) + b"\x40\0\2\0\0\0"
        section = bytes(24) + (64).to_bytes(8, "little") + (200).to_bytes(8, "little") + bytes(24)
        for binary in (b"x", b"", b"\177ELF\2\1", header, header + bytes(127), header + 2 * section, b"// no end"):
            with self.subTest(binary):
                self.assertEqual(self.refused_text(None, binary=binary)[0], native.GA_INVALID_ERROR)
        self.assertEqual(self.calls(), [])

    def test_a_binary_that_the_driver_refuses(self):
        _, binary = self.device.build(self.TEXT)
        self.fake.fake_fail(b"cuModuleLoadDataEx", 209, 0)
        self.assertEqual(self.refused_text(None, binary=binary)[0], native.GA_INVALID_ERROR)
        self.fake.fake_fail(b"cuModuleLoadDataEx", 222, 0)
        code, text = self.refused_text(self.TEXT)
        self.assertEqual(code, native.GA_IMPL_ERROR)
        self.assertIn("it may be older than the compiler", text)

    def test_a_text_that_does_not_compile(self):
        code, text = self.refused_text("\n\n#error\n")
        self.assertEqual(code, native.GA_IMPL_ERROR)
        self.assertRegex(text, r"NVRTC 12\.9 for sm_90.*\nkernels\(3\): error: #error directive")

    def test_a_device_that_the_compiler_does_not_know(self):
        # If a device is newer than NVRTC, NVRTC makes PTX, which the driver translates. A device that is too old is
        # refused.
        self.state.capability = 121
        device = self.open("cuda1").device
        self.calls()
        _, binary = device.build(self.TEXT)
        self.assertEqual(
            self.calls()[1:], ["nvrtcCompileProgram --gpu-architecture=compute_100", "cuModuleLoadDataEx ptx"]
        )
        device.build(None, binary=binary)
        self.state.capability = 61
        code, text = self.refused_text(self.TEXT, self.open("cuda1").device)
        self.assertEqual(code, native.GA_UNSUPPORTED_ERROR)
        self.assertRegex(
            text, r"compute capability 6\.1, and NVRTC 12\.9 compiles for 7\.5 and newer.*theano_ng\[cuda12\]"
        )

    def test_texts_in_other_dialects(self):
        _, binary = self.device.build(self.TEXT, flags=native.GA_USE_CUDA)
        self.assertEqual(binary[64:-1].decode(), self.TEXT)  # no source code in front
        self.assertEqual(self.refused_text(self.TEXT, flags=native.GA_USE_OPENCL)[0], native.GA_UNSUPPORTED_ERROR)

    def test_too_many_options(self):
        self.assertEqual(self.refused_text(self.TEXT, options="-g " * 64)[0], native.GA_VALUE_ERROR)
        self.device.build(self.TEXT, options="-g " * 63)

    def test_a_kernel_that_is_not_in_the_text(self):
        program, _ = self.device.build(self.TEXT)
        with self.assertRaisesRegex(native.DeviceError, "the program has no kernel 'nobody'"):
            self.device.kernel(program, "nobody")

    def test_local_memory_is_asked_for_once(self):
        # The kernel has 1024 bytes of static local memory. With 47 KiB more it needs 48 KiB, which the driver allows
        # without an attribute.
        kernel = self.device.kernel(self.device.build(self.TEXT)[0], "axpy")
        self.calls()
        for size in (47 << 10, (47 << 10) + 1, 90 << 10, 80 << 10, 0):
            self.device.launch(kernel, [1], [32], size, [c_double(0)])
        self.assertEqual(
            [line for line in self.calls() if "Attribute" in line],
            ["cuFuncSetAttribute axpy 8 %d" % size for size in ((47 << 10) + 1, 90 << 10)],
        )
        with self.assertRaisesRegex(
            native.DeviceError,
            "launching axpy with 1 x 1 x 1 groups of 32 x 1 x 1 threads and 307200 bytes of local memory",
        ):
            self.device.launch(kernel, [1], [32], 300 << 10, [c_double(0)])

    def test_launches_that_cannot_be(self):
        kernel = self.device.kernel(self.device.build(self.TEXT)[0], "axpy")
        for groups, group in ((1 << 33, 32), (1, 64 * 1024)):
            with self.assertRaises(native.DeviceError) as caught:
                self.device.launch(kernel, [groups], [group], 0, [c_double(0)])
            self.assertEqual(caught.exception.code, native.GA_VALUE_ERROR)


class TestOrder(WithFake):
    """Tests of fences and graphs."""

    BEGIN, END, RUN, RELEASE = range(4)

    def setUp(self):
        super().setUp()
        self.device = self.open().device
        self.memory = self.device.alloc(16)
        self.addCleanup(self.device.release, self.memory)
        self.graph_of = c_void_p()
        self.calls()

    def graph(self, step):
        self.device.call("graph", step, byref(self.graph_of))

    def test_a_graph_is_run_when_it_is_asked_for(self):
        device, memory = self.device, self.memory
        device.call("fill", memory, 0, 16, 1)
        self.graph(self.BEGIN)
        device.call("copy", memory, 8, memory, 0, 8)
        device.call("fill", memory, 0, 4, 9)
        self.graph(self.END)
        self.assertEqual(device.read(memory, 16), b"\1" * 16)
        for expected in ([9] * 4 + [1] * 12, [9] * 4 + [1] * 4 + [9] * 4 + [1] * 4):
            self.graph(self.RUN)
            self.assertEqual(list(device.read(memory, 16)), expected)
        self.graph(self.RELEASE)
        self.assertIsNone(self.graph_of.value)
        self.assertIn("cuStreamBeginCapture 2", self.calls())  # 2: memory may be allocated meanwhile

    def test_transfers_and_waiting_are_not_recorded(self):
        device, memory, other = self.device, self.memory, self.open("cuda1").device
        self.graph(self.BEGIN)
        device.call("write", memory, 0, b"abcdefgh" * 2, 16)
        device.call("copy", memory, 8, memory, 0, 4)
        self.assertEqual(device.read(memory, 16), b"abcdefgh" * 2)
        device.call("fence", other.pointer)
        device.call("sync")
        with self.assertRaisesRegex(native.DeviceError, "a graph is being recorded already"):
            device.call("graph", self.BEGIN, byref(c_void_p()))
        self.graph(self.END)
        self.assertEqual(device.read(memory, 16), b"abcdefgh" * 2)
        device.call("write", memory, 0, b"ijkl", 4)
        self.graph(self.RUN)
        self.assertEqual(device.read(memory, 16), b"ijklefghijklefgh")
        self.graph(self.RELEASE)
        with self.assertRaisesRegex(native.DeviceError, "no graph is being recorded"):
            self.graph(self.END)

    def test_arguments_are_replaced(self):
        device, memory = self.device, self.memory
        kernel = device.kernel(device.build("KERNEL void accumulate() {}")[0], "accumulate")
        device.call("write", memory, 0, np.array([1.0, 2]).tobytes(), 16)
        self.graph(self.BEGIN)
        for number in (5.0, 7.0):
            device.call("copy", memory, 8, memory, 0, 8)
            device.launch(kernel, [1], [32], 0, [c_uint64(memory), c_double(number)])
        self.graph(self.END)

        def run():
            self.graph(self.RUN)
            return list(np.frombuffer(device.read(memory, 16)))

        self.assertEqual(run(), [3 * (3 * 1 + 5) + 7, 8])
        device.replace(self.graph_of, 1, kernel, [2], [64], 0, [c_uint64(memory), c_double(-1)])
        self.assertEqual(run(), [3 * (3 * 31 + 5) - 1, 98])
        with self.assertRaisesRegex(native.DeviceError, "launch 2 of the graph cannot be replaced"):
            device.replace(self.graph_of, 2, kernel, [2], [64], 0, [c_uint64(memory), c_double(-1)])
        self.graph(self.RELEASE)

    def test_a_driver_that_does_not_tell_the_nodes(self):
        device, memory = self.device, self.memory
        kernel = device.kernel(device.build("KERNEL void accumulate() {}")[0], "accumulate")
        self.graph(self.BEGIN)
        self.fake.fake_fail(b"cuStreamGetCaptureInfo", 900, 0)
        for _ in range(2):
            device.launch(kernel, [1], [32], 0, [c_uint64(memory), c_double(1)])
        self.graph(self.END)
        with self.assertRaisesRegex(native.DeviceError, "launch 0 of the graph cannot be replaced"):
            device.replace(self.graph_of, 0, kernel, [1], [32], 0, [c_uint64(memory), c_double(2)])
        self.graph(self.RELEASE)

    def test_a_graph_that_fails_leaves_nothing(self):
        for name in (b"cuStreamBeginCapture", b"cuStreamEndCapture", b"cuGraphInstantiateWithFlags"):
            self.fake.fake_fail(name, 900, 0)
            with self.assertRaises(native.DeviceError):
                self.graph(self.BEGIN)
                self.graph(self.END)
            self.assertIsNone(self.graph_of.value)
            self.assertEqual(self.state.graphs, 0)
        self.device.call("sync")

    def test_fences(self):
        other = self.open("cuda1").device
        self.calls()
        self.device.call("fence", other.pointer)
        self.assertEqual(self.calls(), ["cuStreamWaitEvent"])
        other.call("fence", other.pointer)
        self.assertEqual(self.calls(), [])


class TestDriversThatCannotBeUsed(unittest.TestCase):
    """Tests of missing, wrong and old drivers.

    Each test loads a new copy of the library, which has loaded no driver yet.
    """

    def refused(self, name="cuda0", **paths):
        library = native.load(fresh=True)
        native.set_libraries(library, **paths)
        with self.assertRaises(native.DeviceError) as caught:
            native.Context(library, name)
        return caught.exception.code, str(caught.exception)

    def test_no_driver(self):
        code, text = self.refused(cuda="/nonexistent/libcuda.so.1")
        self.assertEqual(code, native.GA_LOAD_ERROR)
        self.assertRegex(
            text,
            r"^NVIDIA's driver cannot be loaded \(/nonexistent/libcuda.so.1: .*it is part of the system, not of a Python package$",
        )

    def test_another_library(self):
        code, text = self.refused(cuda="libm.so.6")
        self.assertEqual((code, text), (native.GA_LOAD_ERROR, "libm.so.6 is not NVIDIA's driver"))

    def test_old_drivers(self):
        with tempfile.TemporaryDirectory() as folder:
            path = compile_fake(folder, "-DFAKE_WITHOUT_GRAPHS")
            fake = ctypes.CDLL(path)
            fake.fake_state.restype = ctypes.POINTER(FakeState)
            fake.fake_reset()
            code, text = self.refused(cuda=path)
            self.assertEqual(code, native.GA_LOAD_ERROR)
            self.assertRegex(
                text, "^NVIDIA's driver is too old: it is of CUDA 12.4 without cuGraphLaunch, and 11.4 is the oldest"
            )
            path = compile_fake(folder)
            fake = ctypes.CDLL(path)
            fake.fake_state.restype = ctypes.POINTER(FakeState)
            fake.fake_reset()
            fake.fake_state().contents.driver = 10020
            self.assertRegex(self.refused(cuda=path)[1], "it is of CUDA 10.2, and 11.4 is the oldest")

    def test_no_compiler(self):
        with tempfile.TemporaryDirectory() as folder:
            path = compile_fake(folder)
            fake = ctypes.CDLL(path)
            fake.fake_reset()
            library = native.load(fresh=True)
            native.set_libraries(library, cuda=path, nvrtc="/nonexistent/libnvrtc.so.12")
            context = native.Context(library, "cuda0")
            with self.assertRaisesRegex(
                native.DeviceError, r"NVRTC cannot be loaded .*pip install 'theano_ng\[cuda12\]'"
            ) as caught:
                context.device.build("")
            self.assertEqual(caught.exception.code, native.GA_LOAD_ERROR)
            context.close()


if __name__ == "__main__":
    unittest.main()
