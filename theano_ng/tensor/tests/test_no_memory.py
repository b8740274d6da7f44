"""Failing allocations in native Ops: an Op raises MemoryError or works without the memory, and the next call is right."""

import unittest

import numpy as np

import theano_ng.tensor as T
from theano_ng import scalar
from theano_ng.gof.compiler.background import wait_for_kernels
from theano_ng.gof.native import make_native_thunk
from theano_ng.sparse import fields
from theano_ng.tensor import extra_ops
from theano_ng.tensor import subtensor as sub
from theano_ng.tensor.counting import Unique
from theano_ng.tensor.indexing.selecting import Choose, Nonzero
from theano_ng.tensor.nnet.convolution import convmm
from theano_ng.tensor.nnet.softmax import softmax_op
from theano_ng.tensor.shaping.allocation import alloc, sum_to_shape
from theano_ng.tensor.shaping.joining import Join, PermuteRowElements, Tile
from theano_ng.tensor.sort import argsort, sort, topk

try:
    from _testcapi import remove_mem_hooks, set_nomemory
except ImportError:
    set_nomemory = None

MAX_ALLOCATIONS = 200  # the maximum number of allocations of a call


@unittest.skipUnless(set_nomemory, "needs the module of CPython's own tests")
class TestEachAllocation(unittest.TestCase):
    def setUp(self):
        wait_for_kernels(60)  # otherwise allocations of the compiling thread could fail

    def check(self, make, *values, errors=(MemoryError,)):
        variables = [T.TensorType(v.dtype, (False,) * v.ndim)() for v in values]
        out = make(*variables)
        node = (out[0] if isinstance(out, (list, tuple)) else out).owner
        cells = [[values[variables.index(v)] if v in variables else v.data] for v in node.inputs]
        outputs = [[None] for _ in node.outputs]
        thunk = make_native_thunk(node, node.op.native_code(node), cells, outputs)
        thunk()
        want, failures = [cell[0] for cell in outputs], 0
        for n in range(1, MAX_ALLOCATIONS):
            for cell in outputs:
                cell[0] = None
            error = self.failing(thunk, n)
            self.assertIn(type(error), (type(None), *errors), node)
            if error is None:
                self.assert_equal(outputs, want)
                if n > 2 * failures + 20:
                    break
            failures += error is not None
        else:
            self.fail("more allocations than expected: %s" % node)
        thunk()
        self.assert_equal(outputs, want)

    def failing(self, thunk, n):
        """Make the n-th allocation of a call of `thunk` fail; return the error that the call raises, or None."""
        error = None
        set_nomemory(n, n + 1)
        try:
            thunk()
        except BaseException as e:
            error = e
        finally:
            remove_mem_hooks()
        return error

    def assert_equal(self, outputs, want):
        for cell, array in zip(outputs, want):
            np.testing.assert_array_equal(cell[0], array)

    def test_shapes(self):
        x = np.arange(12.0).reshape(3, 4)
        # If an allocation fails, NumPy's sums may return NULL without setting an exception. Python then raises
        # SystemError, so the test accepts this error, too.
        sums = MemoryError, SystemError
        self.check(lambda x: sum_to_shape(x, 1, T.constant(4)), x, errors=sums)
        self.check(lambda x: sum_to_shape(x, 1, 1), x.astype("float32"), errors=sums)
        self.check(lambda x: Join()(1, x, x), x)
        self.check(lambda x: Join()(0, x, x), x.T)
        self.check(lambda v: alloc(v, 3, 4), x[0])
        self.check(lambda x: Tile(3)(x, T.constant([2, 1, 3])), x)
        self.check(lambda x, y: PermuteRowElements()(x, y, 1), x, np.array([[3, 0, 1, 2]], "int32"))
        self.check(lambda x: T.reshape(x, (2, 6)), x.T)
        self.check(extra_ops.cpu_contiguous, x.T)
        self.check(lambda x: T.split(x, T.constant([1, 3]), 2, 1), x)

    def test_order(self):
        x = np.arange(12.0).reshape(3, 4) % 5
        for make in (sort, argsort, lambda x: topk(x, 2), Unique(), Unique(True, True, True), Unique(axis=0)):
            self.check(make, x)
        long = np.arange(3000.0) % 71
        for make in (sort, argsort, lambda x: topk(x, 900), Unique(), Unique(True, True, True)):
            self.check(make, long)
            self.check(make, long.astype("complex128"))

    def test_indices(self):
        x, i = np.arange(12.0).reshape(3, 4), np.array([2, 0, 1])
        self.check(Nonzero(), x % 3)
        self.check(lambda a, c: Choose("clip")(a, c), i, x.T[:3].copy())
        self.check(sub.advanced_subtensor1, x, i)
        self.check(sub.advanced_inc_subtensor1, x, x[::-1].copy(), i)
        self.check(extra_ops.bincount, i)

    def test_values_that_do_not_fit(self):
        """If an allocation fails while an Op raises a shape error, the error is complete, or it is a MemoryError."""
        x, y, i = np.ones((3, 4)), np.ones((2, 3)), np.array([2, 0])
        for ndim in (2, 24):  # CPython reuses freed small tuples, without an allocation
            matrix = T.TensorType("float64", (False,) * ndim)
            variables = matrix(), matrix(), T.lvector()
            values = [v.reshape(v.shape[:1] + (1,) * (ndim - 2) + v.shape[1:]) for v in (x, y)]
            text = "could not broadcast input array from shape %s into shape %s" % (
                values[1].shape,
                (2, *values[0].shape[1:]),
            )
            for out in (
                sub.advanced_inc_subtensor1(*variables),
                sub.AdvancedIncSubtensor()(*variables),
                sub.inc_subtensor(variables[0][:2], variables[1]),
            ):
                self.check_refused(out.owner, dict(zip(variables, (*values, i))), text)

    def check_refused(self, node, values, text):
        cells = [[values[v] if v in values else v.data] for v in node.inputs]
        thunk = make_native_thunk(node, node.op.native_code(node), cells, [[None]])
        with self.assertRaises(ValueError) as caught:
            thunk()
        self.assertEqual(str(caught.exception), text)
        found = set()
        for n in range(1, MAX_ALLOCATIONS):
            error = self.failing(thunk, n)
            found.add(type(error))
            if not isinstance(error, MemoryError):
                self.assertEqual((type(error), str(error)), (ValueError, text))
        self.assertEqual(found, {MemoryError, ValueError})

    def test_numbers(self):
        x = np.arange(12.0).reshape(3, 4)
        for value in (x, x.astype("float32"), x.T, x.astype("int8")):
            for axis in (0, 1, (0, 1)):
                self.check(lambda x: T.sum(x, axis), value)
                self.check(lambda x: T.argmax(x, axis), value)
                self.check(lambda x: T.CAReduce(scalar.maximum, axis)(x), value)
        for make in (softmax_op, lambda x: extra_ops.cumsum(x, 1), extra_ops.DiffOp(2)):
            self.check(make, x)
            self.check(make, x.T)
        self.check(T.dot, x, x.T)

    def test_images(self):
        image, kernel = np.arange(72.0).reshape(1, 2, 6, 6), np.arange(24.0).reshape(3, 2, 2, 2)
        forward, weights, inputs = convmm.CorrMM(), convmm.CorrMM_gradWeights(), convmm.CorrMM_gradInputs()
        top = np.ones((1, 3, 5, 5))

        def sizes(n):
            return [T.constant(n, dtype="int64")] * 2

        for few in (slice(None), slice(1)):  # with one filter, `weights` runs another C function than with three
            self.check(forward, image, kernel[few])
            self.check(lambda x, y: weights(x, y, sizes(2)), image, top[:, few])
            self.check(lambda k, y: inputs(k, y, sizes(6)), kernel[few], top[:, few])

    def test_sparse(self):
        data, dense = np.arange(1.0, 4), np.ones((3, 2))
        places, starts = np.array([0, 2, 1], "int32"), np.array([0, 2, 3], "int32")
        self.check(fields.sd_csr, data, places, starts, dense)
        self.check(fields.mul_s_v_csr, data, places, starts, dense[:, 0].copy())
        self.check(fields.structured_add_s_v_csr, data[::-1], places, starts, dense[:, 0])


if __name__ == "__main__":
    unittest.main()
