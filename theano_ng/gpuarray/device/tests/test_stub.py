"""Tests of the stub device, which counts calls, and fails when a test requests it."""

import unittest
from ctypes import byref, c_double, c_void_p

from theano_ng.gpuarray.device.tests import native


class TestStub(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.library = native.load()

    def setUp(self):
        self.library.stub_reset(4)
        self.state = self.library.stub_of(4).contents
        self.context = native.Context(self.library, "stub4", preallocate=-1.0)
        self.addCleanup(self.context.close)
        self.device = self.context.device

    def text(self):
        return self.library.stub_text(4).decode().splitlines()

    def test_counts_and_the_record(self):
        self.state.recording = True
        data = self.context.alloc(40)
        self.context.write(data, b"x" * 30)
        self.assertEqual(self.context.read(data, 20, 5), b"x" * 20)
        kernel = self.device.kernel(self.device.build("KERNEL void f() {}")[0], "f")
        self.device.launch(kernel, [4, 2], [32, 1], 16, [c_double(1)])
        self.context.free(data)
        self.assertEqual((self.state.written, self.state.read), (30, 20))
        expected = [
            "alloc 40",
            "write 30",
            "read 20",
            "build of a text",
            "kernel f",
            "launch f (4, 2) (32, 1) 16",
            "release",
        ]
        self.assertEqual(self.text(), expected)
        self.assertEqual([self.state.count(line.split()[0]) for line in expected], [1] * len(expected))
        self.assertEqual(self.library.stub_program(4, 0), b"KERNEL void f() {}")
        self.assertIsNone(self.library.stub_program(4, 1))
        self.library.stub_reset(4)
        self.assertEqual((self.text(), self.state.count("alloc"), self.library.stub_program(4, 0)), ([], 0, None))

    def test_the_call_that_fails(self):
        data = self.context.alloc(10)
        self.state.fails_in, self.state.failing_code = 3, native.GA_RUN_ERROR
        self.context.write(data, b"1")
        self.context.write(data, b"2")
        with self.assertRaisesRegex(native.DeviceError, "^write failed, as it was told to$") as caught:
            self.context.write(data, b"3")
        self.assertEqual(caught.exception.code, native.GA_RUN_ERROR)
        self.assertEqual(self.context.read(data, 1), b"2")
        self.state.failing_call, self.state.fails_in = native.STUB_CALLS.index("read"), 1
        self.context.write(data, b"4")
        with self.assertRaisesRegex(native.DeviceError, "^read failed"):
            self.context.read(data, 1)
        self.context.free(data)

    def test_programs(self):
        program, binary = self.device.build("KERNEL void f() {}")
        again, none = self.device.build(None, binary=binary)
        self.assertIsNone(none)
        self.device.kernel(again, "f")
        with self.assertRaisesRegex(native.DeviceError, "no kernel 'g'"):
            self.device.kernel(program, "g")
        with self.assertRaisesRegex(native.DeviceError, r"kernels\(2\): error: #error"):
            self.device.build("\n#error\n")
        with self.assertRaises(native.DeviceError) as caught:
            self.device.build(None, binary=b"another device's")
        self.assertEqual(caught.exception.code, native.GA_INVALID_ERROR)

    def test_graphs(self):
        # Recorded launches are executed when the graph runs.
        kernel, graph = self.device.kernel(self.device.build("f")[0], "f"), c_void_p()
        begin, end, run, release = range(4)
        self.device.call("graph", begin, byref(graph))
        for _ in range(3):
            self.device.launch(kernel, [1], [1])
        with self.assertRaisesRegex(native.DeviceError, "a graph is being recorded already"):
            self.device.call("graph", begin, byref(c_void_p()))
        self.device.call("graph", end, byref(graph))
        self.assertEqual(self.state.count("launch"), 0)
        self.device.call("graph", run, byref(graph))
        self.device.call("graph", run, byref(graph))
        self.assertEqual(self.state.count("launch"), 6)
        self.device.call("graph", release, byref(graph))

    def test_transfers_do_not_pass_the_host(self):
        # If two devices of one back end can use each other's addresses, they copy directly. Fences on both devices keep
        # the order of operations.
        other = native.Context(self.library, "stub5", preallocate=-1.0)
        self.addCleanup(other.close)
        a, b = other.alloc(100), self.context.alloc(100)
        other.write(a, bytes(range(100)))
        self.library.stub_reset(5)
        self.state.recording = self.library.stub_of(5).contents.recording = True
        self.context.check(self.library.gpudata_transfer(b, 10, a, 20, 30))
        self.assertEqual(self.text(), ["fence stub5", "copy 30"])
        self.assertEqual(self.library.stub_text(5), b"fence stub4\n")
        self.assertEqual(self.context.read(b, 30, 10), bytes(range(20, 50)))
        for offsets in ((80, 0), (0, 80)):
            with self.assertRaisesRegex(
                native.DeviceError, "bytes 80 to 110 are out of bounds for memory of 100 bytes"
            ):
                self.context.check(self.library.gpudata_transfer(b, offsets[0], a, offsets[1], 30))
        other.free(a)
        self.context.free(b)

    def test_a_transfer_that_fails(self):
        other = native.Context(self.library, "stub5", preallocate=-1.0)
        self.addCleanup(other.close)
        a, b = other.alloc(100), self.context.alloc(100)
        for number, call in ((4, "fence"), (4, "copy"), (5, "fence")):
            state = self.library.stub_of(number).contents
            state.failing_call, state.fails_in = native.STUB_CALLS.index(call), 1
            with self.subTest(call, number=number), self.assertRaisesRegex(native.DeviceError, "^%s failed" % call):
                self.context.check(self.library.gpudata_transfer(b, 0, a, 0, 30))
            self.library.stub_reset(number)
        other.free(a)
        self.context.free(b)

    def test_names(self):
        for name in ("stub8", "stubx", "stub4:0"):
            with self.assertRaisesRegex(native.DeviceError, "none of the 8 stub devices") as caught:
                native.Context(self.library, name)
            self.assertEqual(caught.exception.code, native.GA_NODEV_ERROR)


if __name__ == "__main__":
    unittest.main()
