"""Tests of dropout by cuDNN, on a fake library."""

import unittest
from ctypes import byref, c_size_t, c_void_p

import numpy as np

from theano_ng.gpuarray.device.tests import native
from theano_ng.gpuarray.device.tests.cudnn import CODES, EXECUTION_FAILED, Tensor, WithCudnn

GA_UBYTE = 2


class TestDropout(WithCudnn):
    def setUp(self):
        super().setUp()
        self.context = self.open()

    def bytes(self, size):
        """Return a tensor of bytes in device memory."""
        tensor = native.DnnTensor(self.memory(self.context, np.zeros(size, "uint8")), 0, GA_UBYTE, 1)
        tensor.dims[0], tensor.strides[0] = size, 1
        return tensor

    def states(self):
        size = c_size_t()
        self.context.check(self.library.cudnn_dropout_states(self.context.pointer, byref(size)))
        return self.bytes(size.value)

    def descriptor(self, rate, states, seed=4242):
        found = c_void_p()
        self.context.check(
            self.library.cudnn_dropout_make(self.context.pointer, rate, seed, byref(states), byref(found))
        )
        return found

    def choices(self, x):
        size = c_size_t()
        self.context.check(self.library.cudnn_dropout_size(self.context.pointer, x.pointer, byref(size)))
        return self.bytes(size.value)

    def forward(self, descriptor, states, x, y, choices):
        self.context.check(
            self.library.cudnn_dropout(
                self.context.pointer, descriptor, byref(states), x.pointer, y.pointer, byref(choices)
            )
        )

    def test_numbers(self):
        for dtype, rate in ((dtype, rate) for dtype in CODES for rate in (0, 0.25, 0.75)):
            with self.subTest(dtype=dtype, rate=rate):
                states = self.states()
                descriptor = self.descriptor(rate, states)
                value, weight = self.rng.uniform(1, 2, (2, 50, 40)).astype(dtype)
                x, dy = [Tensor(self, self.context, v) for v in (value, weight)]
                y, dx = [Tensor(self, self.context, np.zeros_like(value)) for _ in range(2)]
                choices = self.choices(x)
                self.forward(descriptor, states, x, y, choices)
                kept = y.read_value() != 0
                self.assertLess(abs(kept.mean() - (1 - rate)), 0.05)
                y.check(np.where(kept, value / (1 - rate), 0))
                self.context.check(
                    self.library.cudnn_dropout_gradient(
                        self.context.pointer, descriptor, dy.pointer, dx.pointer, byref(choices)
                    )
                )
                dx.check(np.where(kept, weight / (1 - rate), 0))
                self.library.cudnn_dropout_free(descriptor)

    def test_states(self):
        """The states change with each call. The descriptor is used with the states that are given."""
        first, second = self.states(), self.states()
        descriptor = self.descriptor(0.5, first)
        self.addCleanup(self.library.cudnn_dropout_free, descriptor)
        x = Tensor(self, self.context, np.ones(64, "float32"))
        found = []
        seeded = self.context.read(first.data, 64)
        self.context.write(second.data, seeded)
        for states in (first, first, second, second):
            y = Tensor(self, self.context, np.zeros(64, "float32"))
            self.forward(descriptor, states, x, y, self.choices(x))
            found.append(y.read().tolist())
        self.assertEqual(found[:2], found[2:])
        self.assertNotEqual(found[0], found[1])

    def test_failing_calls(self):
        states = self.states()
        x, y = [Tensor(self, self.context, np.ones(64, "float32")) for _ in range(2)]
        for name in ("CreateDropoutDescriptor", "SetDropoutDescriptor"):
            self.fake.fake_fail(b"cudnn" + name.encode(), EXECUTION_FAILED, 0)
            with self.assertRaisesRegex(native.DeviceError, name + ": CUDNN_STATUS_EXECUTION_FAILED"):
                self.descriptor(0.5, states)
        descriptor, choices = self.descriptor(0.5, states), self.bytes(64)
        self.addCleanup(self.library.cudnn_dropout_free, descriptor)
        for name in ("GetDropoutDescriptor", "RestoreDropoutDescriptor", "DropoutForward"):
            self.fake.fake_fail(b"cudnn" + name.encode(), EXECUTION_FAILED, 0)
            with self.assertRaisesRegex(
                native.DeviceError, name + r": CUDNN_STATUS_EX.*, in dropout of arrays with shapes \(64,\) float32"
            ):
                self.forward(descriptor, states, x, y, choices)
            self.forward(descriptor, states, x, y, choices)


if __name__ == "__main__":
    unittest.main()
