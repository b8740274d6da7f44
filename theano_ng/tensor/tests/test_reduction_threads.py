"""Reductions that several threads compute together have NumPy's results, for every division of the work."""

import itertools
import os
import resource
import unittest

import numpy as np

import theano_ng.tensor as T
from theano_ng import scalar
from theano_ng.audit import forms
from theano_ng.configparser import change_flags
from theano_ng.gof.compiler import find_toolchain
from theano_ng.tensor.elemwise import CAReduce, Prod, Sum
from theano_ng.tensor.tests.openmp_library import openmp_library
from theano_ng.tensor.tests.single_node import run_node

# The kept and reduced dimensions have more or fewer than 16 elements per thread, or length 1, or are missing.
SHAPES = ((3,), (1, 1), (5, 1), (1, 700), (700, 3), (3, 700), (33, 90), (90, 33), (2, 3, 400), (70, 5, 8), (4, 50, 51))
LAYOUTS = (forms.contiguous, forms.fortran, forms.strided, forms.reversed_)


class TestThreads(unittest.TestCase):
    def setUp(self):
        self.library = openmp_library(self)
        self.rng = np.random.RandomState(7)

    def check(self, op, x, want):
        variable = T.TensorType(x.dtype, [False] * x.ndim)()
        for threads in (2, 5):
            self.library.omp_set_num_threads(threads)
            with change_flags(openmp=True, openmp_elemwise_minsize=1):
                (got,) = run_node(op(variable), {variable: x}, "c")
            np.testing.assert_array_equal(got, want, str((op, x.shape, x.strides, threads)))

    def numbers(self, shape, dtype, layout):
        numbers = self.rng.randint(0, 2 if dtype == "bool" else 100, shape)
        return layout(np.asarray(numbers + (1j * numbers[::-1] if dtype == "complex128" else 0)).astype(dtype))

    def axes(self, ndim):
        return [axes for n in range(1, ndim + 1) for axes in itertools.combinations(range(ndim), n)]

    def test_sums(self):
        """Sums of integer-valued elements equal NumPy's, because they are exact in any order."""
        dtypes = itertools.cycle(("float64", "float32", "int8", "int64", "complex128", "uint16"))
        for shape, layout in itertools.product(SHAPES, LAYOUTS):
            for axes in self.axes(len(shape)):
                x = self.numbers(shape, next(dtypes), layout)
                wide = "complex128" if x.dtype.kind == "c" else "float64"
                self.check(Sum(axis=axes), x, x.sum(axes, wide))

    @unittest.skipUnless(os.path.exists("/proc/self/statm"), "asks Linux for the size of the process")
    def test_accumulators_of_threads_are_given_back(self):
        """Each thread frees its own accumulators, also for short dimensions that are not contiguous in memory."""

        def pages():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[0])

        x = self.numbers((6, 31, 61), "float64", forms.contiguous)[:, :30, :60]
        variable = T.dtensor3()
        out, cells = Sum(axis=(0,))(variable), {variable: [x]}
        cells[out] = [None]
        with change_flags(openmp=True, openmp_elemwise_minsize=1):
            thunk = out.owner.op.make_thunk(out.owner, cells, {variable: [True], out: [False]}, [], impl="c")
        self.library.omp_set_num_threads(5)
        for calls in (20, 400):
            before = pages()
            for _ in range(calls):
                thunk()
        np.testing.assert_array_equal(cells[out][0], x.sum(0))
        # After 400 calls, the process has kept less memory than the accumulators of 40 calls need.
        self.assertLess((pages() - before) * resource.getpagesize(), 40 * 5 * x[0].size * 8)

    def test_extremes_and_bits(self):
        ops = (
            (scalar.maximum, np.maximum, ("float64", "int16", "uint8")),
            (scalar.minimum, np.minimum, ("float32", "int64", "uint64")),
            (scalar.xor, np.bitwise_xor, ("int32", "uint8", "int64")),
            (scalar.or_, np.bitwise_or, ("bool", "int8", "uint16")),
            (scalar.and_, np.bitwise_and, ("bool", "int16", "int64")),
        )
        for k, (shape, layout) in enumerate(itertools.product(SHAPES, LAYOUTS)):
            for i, axes in enumerate(self.axes(len(shape))):
                op, ufunc, dtypes = ops[(k + i) % len(ops)]
                x = self.numbers(shape, dtypes[k % 3], layout)
                self.check(CAReduce(op, axis=axes), x, ufunc.reduce(x, axes))

    def test_bits_do_not_depend_on_the_number_of_threads(self):
        """Sums and products of rounded numbers have the same bits for every number of threads, including one."""
        ops = (
            (Sum, {}, "float64"),
            (Sum, {"acc_dtype": "float32"}, "float32"),
            (Sum, {}, "complex64"),
            (Prod, {}, "float32"),
            (Sum, {}, "float16"),
        )
        shapes = (*SHAPES, (1, 70000), (70000,), (3, 20000), (20000, 3), (130, 200), (200, 130), (600, 40), (7, 90, 50))
        for k, (shape, layout) in enumerate(itertools.product(shapes, LAYOUTS)):
            for i, axes in enumerate(self.axes(len(shape))):
                op, options, dtype = ops[(k + i) % len(ops)]
                x = self.rng.uniform(0.9, 1.1, shape)
                x = layout((x + 1j * x[::-1] if dtype == "complex64" else x).astype(dtype))
                variable = T.TensorType(dtype, [False] * x.ndim)()
                results = []
                for threads in (1, 2, 3, 5, 16):
                    self.library.omp_set_num_threads(threads)
                    with change_flags(openmp=True, openmp_elemwise_minsize=1):
                        results += run_node(op(axis=axes, **options)(variable), {variable: x}, "c")
                with self.subTest(op=op.__name__, dtype=dtype, shape=shape, strides=x.strides, axes=axes):
                    self.assertEqual(len({np.asarray(one).tobytes() for one in results}), 1)

    @unittest.skipUnless(find_toolchain(), "needs a C compiler")
    def test_compiled_loops(self):
        """Compiled loops give NumPy's sums for dtypes for which the package has no loop.

        The accumulators of these loops cannot be combined.
        """
        for shape, layout in itertools.product(((3,), (5, 1), (1, 700), (700, 3), (33, 90), (4, 50, 51)), LAYOUTS):
            for axes in self.axes(len(shape)):
                x = self.numbers(shape, "uint32", layout)
                self.check(Sum(axis=axes, dtype="float64", acc_dtype="float64"), x, x.sum(axes, "float64"))


if __name__ == "__main__":
    unittest.main()
