"""Tests that cuDNN itself accepts the descriptors of the families of functions. No device is needed, but for graphs a
library with the name of the driver.
"""

import ctypes
import itertools
import os
import re
import unittest
from ctypes import byref, c_bool, c_double, c_float, c_int, c_int64, c_size_t, c_void_p
from math import prod

from theano_ng.gpuarray.device import loader


def ints(*values):
    return (c_int * len(values))(*values)


def wide(*values):
    return (c_int64 * len(values))(*values)


def constants():
    """Return the constants of cudnn_library.h."""
    path = os.path.join(os.path.dirname(os.path.dirname(__file__)), "cudnn_library.h")
    with open(path, encoding="ascii") as file:
        found = re.findall(r"^    (CUDNN_\w+) = (\d+),", file.read(), re.MULTILINE)
    return {name: int(value) for name, value in found}


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

    def test_graphs(self):
        """The operations of a graph: a convolution, an addition, and an activation."""
        try:
            ctypes.CDLL("libcuda.so.1")
        except OSError:
            self.skipTest("needs libcuda.so.1, which cuDNN loads")
        library, numbers = self.library, constants()

        def made(kind, *attributes):
            found = c_void_p()
            name = "CUDNN_BACKEND_%s_DESCRIPTOR" % kind
            self.assertEqual(library.cudnnBackendCreateDescriptor(numbers[name], byref(found)), 0, name)
            self.addCleanup(library.cudnnBackendDestroyDescriptor, found)
            for name, type_, values in attributes:
                given = numbers["CUDNN_ATTR_" + name], numbers["CUDNN_TYPE_" + type_], c_int64(len(values)), values
                self.assertEqual(library.cudnnBackendSetAttribute(found, *given), 0, name)
            self.assertEqual(library.cudnnBackendFinalize(found), 0, kind)
            return (c_void_p * 1)(found)

        def tensor(number, dims, dtype, virtual=False):
            strides = [prod(dims[i + 1 :]) for i in range(len(dims))]
            return made(
                "TENSOR",
                ("TENSOR_UNIQUE_ID", "INT64", wide(number)),
                ("TENSOR_DATA_TYPE", "DATA_TYPE", ints(dtype)),
                ("TENSOR_DIMENSIONS", "INT64", wide(*dims)),
                ("TENSOR_STRIDES", "INT64", wide(*strides)),
                ("TENSOR_BYTE_ALIGNMENT", "INT64", wide(16)),
                ("TENSOR_IS_VIRTUAL", "BOOLEAN", (c_bool * 1)(virtual)),
            )

        def pointwise(mode, dtype, x, y, *more):
            nan = [("POINTWISE_NAN_PROPAGATION", "NAN_PROPOGATION", ints(1))] if mode == "RELU_FWD" else []
            described = made(
                "POINTWISE",
                ("POINTWISE_MODE", "POINTWISE_MODE", ints(numbers["CUDNN_POINTWISE_" + mode])),
                ("POINTWISE_MATH_PREC", "DATA_TYPE", ints(dtype)),
                *nan,
            )
            return made(
                "OPERATION_POINTWISE",
                ("OPERATION_POINTWISE_PW_DESCRIPTOR", "BACKEND_DESCRIPTOR", described),
                ("OPERATION_POINTWISE_XDESC", "BACKEND_DESCRIPTOR", x),
                ("OPERATION_POINTWISE_YDESC", "BACKEND_DESCRIPTOR", y),
                *more,
            )

        for axes, flip, (dtype, compute) in itertools.product((2, 3), range(2), ((0, 0), (1, 1), (2, 0), (2, 2))):
            between = 1 if dtype == 1 else 0
            factor_type, factor = ("DOUBLE", c_double * 1) if dtype == 1 else ("FLOAT", c_float * 1)
            shapes = (2, 4, 6, 6, 6), (6, 2, 3, 3, 3), (1, 6, 1, 1, 1), (2, 6, 4, 4, 4)
            x, w, b, y = [tensor(i, dims[: 2 + axes], dtype) for i, dims in enumerate(shapes)]
            total, biased = [tensor(i, shapes[3][: 2 + axes], between, True) for i in (4, 5)]
            convolution = made(
                "CONVOLUTION",
                ("CONVOLUTION_COMP_TYPE", "DATA_TYPE", ints(compute)),
                ("CONVOLUTION_CONV_MODE", "CONVOLUTION_MODE", ints(flip)),
                ("CONVOLUTION_SPATIAL_DIMS", "INT64", wide(axes)),
                ("CONVOLUTION_DILATIONS", "INT64", wide(*[1] * axes)),
                ("CONVOLUTION_FILTER_STRIDES", "INT64", wide(*[1] * axes)),
                ("CONVOLUTION_PRE_PADDINGS", "INT64", wide(*[0] * axes)),
                ("CONVOLUTION_POST_PADDINGS", "INT64", wide(*[0] * axes)),
            )
            made(
                "OPERATION_CONVOLUTION_FORWARD",
                ("OPERATION_CONVOLUTION_FORWARD_ALPHA", factor_type, factor(1)),
                ("OPERATION_CONVOLUTION_FORWARD_BETA", factor_type, factor(0)),
                ("OPERATION_CONVOLUTION_FORWARD_CONV_DESC", "BACKEND_DESCRIPTOR", convolution),
                ("OPERATION_CONVOLUTION_FORWARD_X", "BACKEND_DESCRIPTOR", x),
                ("OPERATION_CONVOLUTION_FORWARD_W", "BACKEND_DESCRIPTOR", w),
                ("OPERATION_CONVOLUTION_FORWARD_Y", "BACKEND_DESCRIPTOR", total),
            )
            bias = ("OPERATION_POINTWISE_BDESC", "BACKEND_DESCRIPTOR", b)
            pointwise("ADD", between, total, biased, bias, ("OPERATION_POINTWISE_ALPHA1", factor_type, factor(0.5)))
            for mode in ("RELU_FWD", "TANH_FWD", "SIGMOID_FWD"):
                pointwise(mode, between, biased, y)
        memory = (c_void_p * 4)(*[256 * i for i in range(1, 5)])
        made(
            "VARIANT_PACK",
            ("VARIANT_PACK_UNIQUE_IDS", "INT64", wide(0, 1, 2, 3)),
            ("VARIANT_PACK_DATA_POINTERS", "VOID_PTR", memory),
            ("VARIANT_PACK_WORKSPACE", "VOID_PTR", (c_void_p * 1)(None)),
        )

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
