"""Arrays in memory mapped files as arguments of functions and as values of shared variables."""

import os
import tempfile
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T


class TestMappedFiles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "numbers")
        self.numbers = np.arange(12.0).reshape(3, 4)

    def mapped(self, mode, dtype="float64", offset=0):
        with open(self.path, "wb") as f:
            f.write(bytes(offset) + self.numbers.astype(dtype).tobytes())
        return np.memmap(self.path, dtype=dtype, mode=mode, shape=(3, 4), offset=offset)

    def stored(self):
        return np.fromfile(self.path).reshape(3, 4)

    def test_arguments(self):
        x, v = T.dmatrix(), self.numbers
        outputs = [x, x.T.dot(x), T.exp(x).sum(0), x[::-1, 1:], T.set_subtensor(x[0], 5.0), x.reshape((4, 3))]
        expected = [
            v,
            v.T @ v,
            np.exp(v).sum(0),
            v[::-1, 1:],
            np.vstack([np.full((1, 4), 5.0), v[1:]]),
            v.reshape(4, 3),
        ]
        for mode in ("FAST_RUN", "FAST_COMPILE", "DebugMode"):
            f = theano.function([x], outputs, mode=mode)
            for access in ("r", "r+", "c"):
                value = self.mapped(access)
                self.assertIs(T.dmatrix.filter(value, strict=True), value)
                for got, want in zip(f(value), expected):
                    np.testing.assert_allclose(got, want)
                    self.assertFalse(np.may_share_memory(got, value))
                np.testing.assert_array_equal(value, v)
                np.testing.assert_array_equal(self.stored(), v)

    def test_other_byte_order_and_odd_offset(self):
        x = T.dmatrix()
        f = theano.function([x], x * 2)
        for dtype, offset in ((">f8", 0), ("<f8", 1), (">f8", 3)):
            np.testing.assert_array_equal(f(self.mapped("r", dtype, offset)), self.numbers * 2)

    def test_in_place(self):
        x = T.dmatrix()
        f = theano.function([theano.In(x, mutable=True)], T.set_subtensor(x[0], 5.0), mode="FAST_RUN")
        for access, reaches in (("r+", True), ("c", False)):
            value = self.mapped(access)
            np.testing.assert_array_equal(f(value)[0], np.full(4, 5.0))
            self.assertEqual(bool((value[0] == 5).all()), True)
            value.flush()
            self.assertEqual(bool((self.stored()[0] == 5).all()), reaches)
        self.assertRaisesRegex(ValueError, "read-only", f, self.mapped("r"))
        np.testing.assert_array_equal(f(np.ones((3, 4)))[0], np.full(4, 5.0))

    def test_borrowed(self):
        x = T.dmatrix()
        f = theano.function([theano.In(x, borrow=True)], theano.Out(x, borrow=True), mode="FAST_RUN")
        value = self.mapped("r")
        self.assertIs(f(value), value)

    def test_shared_values(self):
        value = self.mapped("r+")
        copied, same = theano.shared(value), theano.shared(value, borrow=True)
        self.assertEqual((copied.type, same.type), (T.dmatrix, T.dmatrix))
        self.assertIs(same.get_value(borrow=True), value)
        self.assertIs(type(copied.get_value(borrow=True)), np.ndarray)
        read = theano.function([], same.sum(axis=0) + copied.sum(axis=0))
        np.testing.assert_array_equal(read(), self.numbers.sum(0) * 2)
        value[0] = 9
        np.testing.assert_array_equal(same.get_value()[0], np.full(4, 9.0))  # the value shares memory with the file
        np.testing.assert_array_equal(copied.get_value(), self.numbers)
        kept = same.get_value()
        kept[:] = -1
        self.assertEqual(value[0, 0], 9)
        # An update that does not work in place sets the value of the variable, and leaves the file unchanged.
        read_only = self.mapped("r")
        same.set_value(read_only, borrow=True)
        step = theano.function([], updates=[(same, T.concatenate([same, same]))])
        step()
        np.testing.assert_array_equal(same.get_value(), np.vstack([self.numbers] * 2))
        np.testing.assert_array_equal(self.stored(), self.numbers)

    def test_constants_are_copies(self):
        value = self.mapped("r+")
        out = T.constant(value) + T.as_tensor_variable(value)
        value[:] = 0
        np.testing.assert_array_equal(out.eval(), self.numbers * 2)


if __name__ == "__main__":
    unittest.main()
