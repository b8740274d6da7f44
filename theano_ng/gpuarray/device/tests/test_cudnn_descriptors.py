"""Tests that cuDNN itself accepts the descriptors of the families of functions. No device is needed."""

import ctypes
import itertools
import unittest
from ctypes import byref, c_int, c_size_t, c_void_p

from theano_ng.gpuarray.device import loader


def ints(*values):
    return (c_int * len(values))(*values)


class TestDescriptors(unittest.TestCase):
    def setUp(self):
        path = loader.nvidia("cudnn", loader.CUDNN_VERSIONS)
        if path is None:
            self.skipTest("needs cuDNN: pip install 'theano_ng[cuda13]'")
        self.library = ctypes.CDLL(path)

    def made(self, kind):
        """Return a new descriptor."""
        found = c_void_p()
        self.assertEqual(getattr(self.library, "cudnnCreate%sDescriptor" % kind)(byref(found)), 0)
        self.addCleanup(getattr(self.library, "cudnnDestroy%sDescriptor" % kind), found)
        return found

    def test_pooling(self):
        pooling, set_ = self.made("Pooling"), self.library.cudnnSetPoolingNdDescriptor
        for mode, (window, pad, stride) in itertools.product(
            range(4), (((2, 3), (1, 0), (1, 2)), ((2, 3, 1), (0, 2, 0), (1, 1, (1 << 31) - 1)))
        ):
            self.assertEqual(set_(pooling, mode, 1, len(window), ints(*window), ints(*pad), ints(*stride)), 0)
        self.assertNotEqual(set_(pooling, 0, 1, 2, ints(0, 2), ints(0, 0), ints(1, 1)), 0)

    def test_recurrent_networks(self):
        net, dropout = self.made("RNN"), self.made("Dropout")
        set_, get = self.library.cudnnSetRNNDescriptor_v8, self.library.cudnnGetRNNDescriptor_v8
        types = ((0, 0, 3), (0, 0, 0), (1, 1, 0), (2, 0, 1))  # dtype, precision, kind of arithmetic
        for mode, direction, input_mode, (dtype, precision, math) in itertools.product(
            range(4), range(2), range(2), types
        ):
            given = (0, mode, 2, direction, input_mode, dtype, precision, math, 5, 7, 7, 2)
            self.assertEqual(set_(net, *given, dropout, 1), 0)
            found, of, flags = [c_int() for _ in given], c_void_p(), c_int()
            self.assertEqual(get(net, *map(byref, found), byref(of), byref(flags)), 0)
            self.assertEqual([*[v.value for v in found], of.value, flags.value], [*given, dropout.value, 1])
        self.assertNotEqual(set_(net, 0, 0, 2, 0, 0, 0, 0, 0, 5, 0, 0, 2, dropout, 1), 0)

    def test_sequences(self):
        data = self.made("RNNData")
        for dtype in range(3):
            self.assertEqual(self.library.cudnnSetRNNDataDescriptor(data, dtype, 0, 4, 3, 5, ints(4, 4, 4), None), 0)

    def test_transformers(self):
        transformer = self.made("SpatialTransformer")
        for dtype in range(3):
            status = self.library.cudnnSetSpatialTransformerNdDescriptor(transformer, 0, dtype, 4, ints(2, 3, 4, 5))
            self.assertEqual(status, 0)

    def test_choices_of_dropout(self):
        """The number of bytes does not depend on the shape, so all elements can be one axis."""
        tensor, sizes = self.made("Tensor"), []
        for dims, strides in (((60, 1, 1, 1), (1, 1, 1, 1)), ((3, 4, 5, 1), (20, 5, 1, 1))):
            self.assertEqual(self.library.cudnnSetTensorNdDescriptor(tensor, 0, 4, ints(*dims), ints(*strides)), 0)
            size = c_size_t()
            self.assertEqual(self.library.cudnnDropoutGetReserveSpaceSize(tensor, byref(size)), 0)
            sizes.append(size.value)
        self.assertEqual(sizes[0], sizes[1])
        self.assertGreater(sizes[0], 0)


if __name__ == "__main__":
    unittest.main()
