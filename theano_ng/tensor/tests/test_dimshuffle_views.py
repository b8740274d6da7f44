"""The views that DimShuffle makes in C: their strides and memory, and the arguments that it refuses."""

import itertools
import unittest

import numpy as np

import theano_ng.tensor as T
from theano_ng.audit import forms
from theano_ng.tensor.tests.single_node import run_node


def shuffled(x, order):
    variable = T.TensorType(x.dtype, [n == 1 for n in x.shape])()
    return run_node(variable.dimshuffle(*order), {variable: x}, "c")[0]


def orders(nd):
    """Yield all orders of the dimensions, each without and with one or two new dimensions at all positions."""
    for order in itertools.permutations(range(nd)):
        for count in (0, 1, 2):
            for places in itertools.combinations(range(nd + count), count):
                rest = iter(order)
                yield ["x" if place in places else next(rest) for place in range(nd + count)]


class TestViews(unittest.TestCase):
    def test_elements(self):
        for shape in ((), (3,), (2, 3), (2, 1, 4)):
            for layout in (forms.contiguous, forms.fortran, forms.strided, forms.reversed_):
                x = layout(np.arange(np.prod(shape, dtype=int)).reshape(shape).astype("int16"))
                for order in orders(len(shape)):
                    got = shuffled(x, order)
                    kept = x.transpose([d for d in order if d != "x"])
                    want = kept[tuple(None if d == "x" else slice(None) for d in order)]
                    np.testing.assert_array_equal(got, want)
                    self.assertTrue(np.shares_memory(got, x))

    def test_new_dimensions_have_the_strides_of_contiguous_arrays(self):
        """The stride of a new dimension is the stride of the next dimension times the length of that dimension.

        The stride of a new last dimension is the item size. C code reads these strides.
        """
        for shape in ((), (3,), (2, 3), (4, 2, 3)):
            for layout in (forms.contiguous, forms.fortran, forms.strided):
                for dtype in ("int8", "float32", "complex128"):
                    x = layout(np.zeros(shape, dtype))
                    for order in orders(len(shape)):
                        got = shuffled(x, order)
                        for d, source in enumerate(order):
                            if source != "x":
                                want = x.strides[source]
                            elif d + 1 < len(order):
                                want = got.strides[d + 1] * got.shape[d + 1]
                            else:
                                want = x.itemsize
                            self.assertEqual(got.strides[d], want, (shape, order))

    def test_contiguous_arrays_stay_so(self):
        """New dimensions of a contiguous array have the strides of a new array of that shape."""
        for shape in ((3,), (2, 3), (4, 2, 3)):
            x = np.zeros(shape)
            for order in orders(len(shape)):
                if [d for d in order if d != "x"] == list(range(len(shape))):
                    got = shuffled(x, order)
                    self.assertEqual(got.strides, np.zeros(got.shape).strides)


if __name__ == "__main__":
    unittest.main()
