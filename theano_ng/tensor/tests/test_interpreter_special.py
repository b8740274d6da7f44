"""Tests of special functions, division and complex numbers in interpreted programs.

The test methods are inherited from the tests of compiled C code in `theano_ng.scalar.tests.test_special`.
"""

import unittest

import numpy as np

from theano_ng.scalar.tests import test_special
from theano_ng.tensor.elemwise import Elemwise
from theano_ng.tensor.tests.test_interpreter import interpretation, run
from theano_ng.tensor.type import TensorType


def programs(nodes):
    """Return for each scalar node a function of arrays that runs the program of the node."""

    def function(node):
        vectors = Elemwise(node.op).make_node(*[TensorType(v.type.dtype, (False,))() for v in node.inputs])
        loaded = interpretation(vectors)
        return lambda *arrays: run(vectors, [np.array(a, v.dtype) for a, v in zip(arrays, vectors.inputs)], loaded)[0]

    return [function(node) for node in nodes]


class TestSpecialFunctions(test_special.SpecialFunctions, unittest.TestCase):
    functions = staticmethod(programs)


class TestDivision(test_special.Division, unittest.TestCase):
    functions = staticmethod(programs)
    zero_raises = True


class TestComplexNumbers(test_special.Complex, unittest.TestCase):
    functions = staticmethod(programs)


if __name__ == "__main__":
    unittest.main()
