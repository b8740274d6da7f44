"""Tests of functions on two contexts, and of training on several devices."""

import itertools
import os
import re
import subprocess
import sys
import textwrap
import unittest

import numpy as np

import theano_ng
import theano_ng.tensor as T
from theano_ng.configdefaults import config
from theano_ng.gpuarray.device.tests.test_cublas import WithCublas
from theano_ng.gpuarray.pygpu import elemwise
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.tests.device import DEVICE, context, other_context

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(theano_ng.__file__)))


def run(path, *arguments, flags="contexts=dev0->%s;dev1->%s" % (DEVICE, DEVICE)):
    """Run a Python program in a process of its own; return its output."""
    environment = dict(
        os.environ,
        PYTHONPATH=os.pathsep.join(filter(None, [ROOT, os.environ.get("PYTHONPATH")])),
        THEANO_FLAGS="base_compiledir=%s,on_opt_error=raise,%s" % (config.base_compiledir, flags),
    )
    command = [sys.executable, "-W", "ignore", path, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    if done.returncode:
        raise AssertionError(done.stdout + done.stderr)
    return done.stdout.splitlines()


class TestFunctions(unittest.TestCase):
    def setUp(self):
        context()  # skips the test if there is no device

    def test_generated_programs(self):
        """Random programs with variables in both contexts and on the host, their gradients and updates."""
        self.assertEqual(run(os.path.join(HERE, "two_contexts.py"), "generated", "0", "25"), ["True", "True"])

    def test_results_on_a_device(self):
        """An operation on the host runs on the device that needs its result, if there is no default context."""
        self.assertEqual(run(os.path.join(HERE, "two_contexts.py"), "moved"), ["37"])

    def test_created_arrays(self):
        self.assertEqual(run(os.path.join(HERE, "two_contexts.py"), "created"), ["5"])

    def test_layers_on_two_devices(self):
        self.assertEqual(run(os.path.join(HERE, "two_contexts.py"), "model"), ["True"])

    def test_training_on_several_devices(self):
        """examples/data_parallel.py: the copies are equal, and the result is that of one device."""
        path = os.path.join(ROOT, "examples", "data_parallel.py")
        if not os.path.exists(path):
            self.skipTest("needs the folder examples of the source code")
        for count in (2, 3):
            said = run(path, "--steps", "30", *[DEVICE] * count, flags="")
            first, last = map(float, re.match(r"cost (\S+) -> (\S+) in ", said[0]).groups())
            self.assertLess(last, 0.6 * first)
            self.assertEqual(said[1], "largest difference between the copies: 0.0e+00")
            numbers = re.match(r"largest difference from one device: (\S+), of the costs (\S+)$", said[2]).groups()
            self.assertLess(max(map(float, numbers)), 1e-5)


class TestDerivatives(unittest.TestCase):
    """Derivatives of transfers, whose cotangents and tangents are on the host, or on one of the devices."""

    def setUp(self):
        names = context(), other_context(self)
        self.value = np.float64([1, 2, 3])
        self.x = theano_ng.shared(self.value, target=names[0])
        self.transfers = [
            self.x.transfer(names[1]),
            self.x.transfer(names[1]).transfer(names[0]),
            self.x.transfer(names[1]).transfer("cpu"),
            self.x.transfer("cpu").transfer(names[1]),
        ]
        self.places = (*names, "cpu")

    def test_gradients(self):
        for moved, place in itertools.product(self.transfers, self.places):
            cotangent = T.constant(self.value + 1).transfer(place)
            (found,) = T.Lop([moved], [self.x], [cotangent])
            self.assertEqual(found.type.context_name, self.places[0])
            np.testing.assert_array_equal(theano_ng.function([], found)(), self.value + 1)
            found = T.grad((moved**2).sum(), self.x)
            np.testing.assert_array_equal(theano_ng.function([], found)(), 2 * self.value)

    def test_tangents(self):
        for moved, place in itertools.product(self.transfers, self.places):
            tangent = T.constant(self.value + 1).transfer(place)
            found = T.Rop(moved**2, self.x, tangent)
            np.testing.assert_array_equal(theano_ng.function([], found)(), 2 * self.value * (self.value + 1))


class TestArrays(unittest.TestCase):
    def test_arrays_of_two_contexts(self):
        """An elementwise operation on arrays of two contexts names the argument."""
        context()
        a, b = [pygpu.array(np.arange(3.0), context=pygpu.init(DEVICE)) for _ in range(2)]
        for action in (lambda: a + b, lambda: a < b, lambda: a.__iadd__(b), lambda: elemwise.elemwise2(a, "*", b, a)):
            with self.assertRaisesRegex(
                ValueError, r"^argument b of '.*' is in another context than the kernel: transfer"
            ):
                action()
        np.testing.assert_array_equal(a + b.transfer(a.context), [0, 2, 4])


class TestFakeDevices(WithCublas):
    """The manual's program for two GPUs, on two devices of the fake driver, whose products the fake cuBLASLt computes."""

    PROGRAM = """
        import ctypes, sys
        import numpy
        import theano_ng as theano
        from theano_ng.gpuarray import devices
        from theano_ng.gpuarray.device import loader
        cuda, cublas = sys.argv[1:]
        for which, path in (("cuda", cuda), ("nvrtc", cuda), ("cublasLt", cublas)):
            loader.use(which, path)
        driver = ctypes.CDLL(cuda)
        driver.fake_calls.restype = ctypes.c_char_p
        driver.fake_start(0)
        ctypes.CDLL(cublas).fake_blas_reset()
        for name, device in devices.contexts_of_flag("dev0->cuda0;dev1->cuda1"):
            devices._map(device, name)
        theano.config.gpuarray.epilogue = "off"

        v01 = theano.shared(numpy.random.random((200, 200)).astype('float32'),
                            target='dev0')
        v02 = theano.shared(numpy.random.random((200, 200)).astype('float32'),
                            target='dev0')
        v11 = theano.shared(numpy.random.random((200, 200)).astype('float32'),
                            target='dev1')
        v12 = theano.shared(numpy.random.random((200, 200)).astype('float32'),
                            target='dev1')

        f = theano.function([], [theano.tensor.dot(v01, v02),
                                theano.tensor.dot(v11, v12)])

        def check(found, *pairs):
            for product, (a, b) in zip(found, pairs):
                expected = a.get_value() @ b.get_value()
                print(product.context.devname if hasattr(product, "context") else "host", numpy.allclose(product, expected))

        check(f(), (v01, v02), (v11, v12))
        driver.fake_calls()
        f()
        calls = driver.fake_calls().decode().splitlines()
        print([call.split()[0] for call in calls if "Matmul" in call or "Peer" in call])

        # Explicit transfers, and operations that pick a device
        g = theano.function([], [theano.tensor.dot(v01, v12).transfer("dev1"),
                                 theano.tensor.dot(v11.transfer("dev0"), v02).transfer("dev0"),
                                 theano.tensor.dot(v01.transfer("cpu"), v12)])
        check(g(), (v01, v12), (v11, v02), (v01, v12))
        print(v01.transfer("dev1").type, v01.transfer("cpu").type)
        copy = theano.function([], v01.transfer("dev1"))
        first = copy()
        v01.set_value(v02.get_value())
        print(numpy.array_equal(copy(), v02.get_value()), not numpy.array_equal(first, copy()))
    """

    def test_manual(self):
        path = os.path.join(self.folder, "two_gpus.py")
        with open(path, "w") as file:
            file.write(textwrap.dedent(self.PROGRAM))
        self.assertEqual(
            run(path, self.path, self.cublas_path, flags="floatX=float32"),
            [
                "host True",
                "host True",
                "['cublasLtMatmul', 'cublasLtMatmul']",
                "Fake 1 True",
                "Fake 0 True",
                "host True",
                "GpuArrayType<dev1>(float32, (False, False)) TensorType(float32, matrix)",
                "True True",
            ],
        )


if __name__ == "__main__":
    unittest.main()
