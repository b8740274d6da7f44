"""Tests of the scripts that time BLAS and OpenMP, and of the small helpers of misc."""

import contextlib
import io
import os
import re
import sys
import unittest

import numpy as np

from theano_ng import tensor as T
from theano_ng.misc import check_blas, elemwise_openmp_speedup, elemwise_time_test
from theano_ng.misc.cpucount import cpuCount
from theano_ng.misc.doubleop import DoubleOp
from theano_ng.misc.windows import call_subprocess_Popen, output_subprocess_Popen
from theano_ng.tests import unittest_tools as utt


def output_of(function, *args, **kwargs):
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        result = function(*args, **kwargs)
    return result, text.getvalue()


class TestScripts(unittest.TestCase):
    def test_check_blas(self):
        status, text = output_of(check_blas.main, ["-q", "-B", "40", "--iter", "2"])
        self.assertEqual(status, 0)
        self.assertRegex(text, r"^\d+\.\d+\n$")
        status, text = output_of(check_blas.main, ["-M", "30", "-N", "20", "-K", "10", "--iter", "1", "--order", "F"])
        for part in (
            "blas.ldflags",
            "floatX",
            "NumPy " + np.__version__,
            "OMP_NUM_THREADS",
            "AVX2",
            "(30, 20) by (20, 10)",
            "GFlop/s",
        ):
            self.assertIn(part, text)
        status, text = output_of(check_blas.main, ["-q", "--print_only", "-B", "10"])
        self.assertEqual(text, "")
        seconds, implementation = check_blas.execute(verbose=False, M=5, N=6, K=7, iters=1)
        self.assertGreater(seconds, 0)
        self.assertIn("gemm", implementation)
        check_blas.test()

    def test_reference_table(self):
        table = check_blas.reference_table(cores=(1, 2), gigahertz=2.0, size=1000, iters=1)
        self.assertEqual(re.findall(r"AVX2 with FMA +(\S+) +(\S+)", table), [("0.06", "0.03")])

    def test_elementwise_timing(self):
        times, text = output_of(elemwise_time_test.ElemwiseOpTime, 100, script=True, loops=3)
        self.assertEqual(len(times), 2)
        self.assertTrue(all(t > 0 for t in times))
        self.assertEqual(tuple(map(float, text.split())), times)
        _, text = output_of(elemwise_time_test.main, ["-N", "100", "--loops", "2"])
        for part in ("openmp=", "100 elements", "cheap", "costly"):
            self.assertIn(part, text)

    def test_openmp_speedup(self):
        calls = []

        def measured(N):
            calls.append(N)
            return (1e-3, 2e-3), (2e-3, 1e-3)

        original, elemwise_openmp_speedup.runScript = elemwise_openmp_speedup.runScript, measured
        try:
            _, text = output_of(elemwise_openmp_speedup.main, ["-N", "500"])
        finally:
            elemwise_openmp_speedup.runScript = original
        self.assertEqual(calls, [500])
        self.assertIn("cheap operation: 1.000e-03 s with OpenMP, 2.000e-03 s without: speedup 2.00", text)
        self.assertIn("slowdown 2.00", text)


class TestHelpers(unittest.TestCase):
    def test_cpu_count(self):
        self.assertEqual(cpuCount(), os.cpu_count())

    def test_other_programs(self):
        program = [sys.executable, "-c", "import sys; print('out'); sys.stderr.write('err'); sys.exit(3)"]
        out, err, status = output_subprocess_Popen(program)
        self.assertEqual((out.strip(), err, status), (b"out", b"err", 3))
        self.assertEqual(call_subprocess_Popen(program), 3)
        self.assertRaises(TypeError, output_subprocess_Popen, program, stdout=None)
        self.assertRaises(TypeError, call_subprocess_Popen, program, stderr=None)


class TestDoubleOp(utt.InferShapeTester):
    def test_all(self):
        x, v = T.lvector(), np.array([1, 2])
        np.testing.assert_array_equal(DoubleOp()(x).eval({x: v}), [2, 4])
        m = np.random.RandomState(1).randn(3, 2)
        utt.verify_grad(DoubleOp(), [m], rng=np.random.RandomState(2))
        y, d = T.matrix(), T.matrix()
        np.testing.assert_allclose(T.Rop(DoubleOp()(y), y, d).eval({d: m}), 2 * m)
        self._compile_and_check([y], [DoubleOp()(y)], [m], DoubleOp)


if __name__ == "__main__":
    unittest.main()
