"""Products of matrices with scalars, matrices and vectors of all dtypes: one BLAS call if the operands allow it."""

import io
import itertools
import unittest
from unittest import mock

import numpy as np

import theano_ng
import theano_ng.tensor as T
from theano_ng.compile import ProfileStats
from theano_ng.compile.mode import Mode
from theano_ng.gof.fg import FunctionGraph
from theano_ng.tensor.blas import Dot22Scalar, Ger, gemm_no_inplace
from theano_ng.tensor.opt import blas

FAST_RUN = Mode("py", "fast_run")


class TestScaledProducts(unittest.TestCase):
    def setUp(self):
        self.policy = theano_ng.config.on_opt_error
        theano_ng.config.on_opt_error = "raise"
        self.rng = np.random.RandomState(5)

    def tearDown(self):
        theano_ng.config.on_opt_error = self.policy

    def check(self, inputs, out, values, wanted, rtol=1e-10):
        f = theano_ng.function(inputs, out, mode=FAST_RUN, on_unused_input="ignore")
        got = f(*values)
        self.assertEqual(got.dtype, out.dtype)
        np.testing.assert_allclose(got, wanted, rtol=rtol)
        return [type(node.op) for node in f.maker.fgraph.apply_nodes]

    def test_scalars_and_matrices(self):
        """Scalar factors are merged into the matrix product, in any order. Other matrices remain factors."""
        a, b, x, y, u, v = *T.dscalars("ab"), *T.dmatrices("xyuv")
        values = [0.5, 3.0, *(self.rng.rand(3, 3) for _ in range(4))]
        for scalars, matrices in itertools.product(range(3), repeat=2):
            others = list(zip([a, b][:scalars] + [u, v][:matrices], values[:scalars] + values[4 : 4 + matrices]))
            for k in range(len(others) + 1):
                out, wanted = T.dot(x, y), values[2].dot(values[3])
                factors = [o[0] for o in others[:k]] + [out] + [o[0] for o in others[k:]]
                for _, value in others:
                    wanted = wanted * value
                if len(factors) > 1:
                    out = T.mul(*factors)
                ops = self.check([a, b, x, y, u, v], out, values, wanted)
                self.assertEqual(Dot22Scalar in ops, scalars > 0)

    def test_outer_products(self):
        """Only the product of a variable of type col and a variable of type row becomes a Ger.

        A matrix that has one row or one column only at run time does not count as row or column.
        """
        z, a = T.dmatrix("z"), T.dscalar("a")
        kinds = {"matrix": T.dmatrix, "col": T.dcol, "row": T.drow}
        for left, right in itertools.product(kinds, repeat=2):
            if left == "row" and right == "row":
                continue  # for a product of two rows, the left row would have a single element
            for scale in (0.0, 1.0, 2.0):
                x, y = kinds[left]("x"), kinds[right]("y")
                inner = 2 if left != "col" and right != "row" else 1
                rows, cols = (1 if left == "row" else 3), (1 if right == "col" else 4)
                values = [self.rng.rand(rows, cols), 0.5, self.rng.rand(rows, inner), self.rng.rand(inner, cols)]
                out = gemm_no_inplace(z, a, x, y, T.constant(np.float64(scale)))
                wanted = scale * values[0] + 0.5 * values[2].dot(values[3])
                ops = self.check([z, a, x, y], out, values, wanted)
                is_ger = any(issubclass(op, Ger) for op in ops)
                self.assertEqual(is_ger, (left, right) == ("col", "row") and scale != 2.0)

    def test_sums_with_vectors_of_other_dtypes(self):
        x, v, a = T.dmatrix("x"), T.dvector("v"), T.dscalar("a")
        given = [self.rng.rand(3, 2), self.rng.rand(2), 0.5]
        for dtype in ("bool", "int8", "uint8", "int64", "float16", "float32", "float64"):
            w = T.vector("w", dtype)
            value = np.array([1, 0, 1], dtype)
            product = given[0].dot(given[1])
            for out, wanted in (
                (T.dot(x, v) + w, product + value),
                (w - T.dot(x, v), value - product),
                (a * T.dot(x, v) + w, 0.5 * product + value),
                (T.dot(x, v) + a * w, product + 0.5 * value),
                (a * w - T.dot(x, v) - w, 0.5 * value - product - value),
            ):
                self.check([x, v, a, w], out, [*given, value], wanted, rtol=1e-6)
            if dtype not in ("bool", "float16"):
                m = T.matrix("m", dtype)
                matrix = np.arange(6).reshape(3, 2).astype(dtype)
                out = T.dot(m, w[:2]) + w
                self.check([m, w], out, [matrix, value], matrix.dot(value[:2]) + value)

    def test_each_sum_is_looked_at_once(self):
        """Each sum is analyzed once, from its outermost node, also if it has no matrix product."""
        for products in (0, 3):
            x, y = T.dmatrices("xy")
            out = x
            for k in range(30):
                out = out + y * (k + 2.0) if k % 2 else out - T.exp(y) * x
            for k in range(products):
                out = out + blas.ops._dot22(T.tanh(x * (k + 1.0)), y)
            fgraph = FunctionGraph([x, y], [out])
            optimizer = blas.GemmOptimizer()
            optimizer.add_requirements(fgraph)
            with mock.patch.object(blas, "_with_gemms", wraps=blas._with_gemms) as looked:
                optimizer.apply(fgraph)
            sums = [call.args[0] for call in looked.call_args_list if call.args[0].owner.op in (T.add, T.sub)]
            self.assertEqual(len(sums), 1)


class TestProfile(unittest.TestCase):
    def profile(self, make, profiled):
        A, B, C = T.dmatrices("ABC")
        fgraph = FunctionGraph([A, B, C], make(A, B, C), clone=True)
        if profiled:
            fgraph.profile = ProfileStats(atexit_print=False)
        optimizer = blas.GemmOptimizer()
        prof = optimizer.optimize(fgraph)
        self.assertEqual(sum(isinstance(node.op, blas.ops.Gemm) for node in fgraph.apply_nodes), prof[2])
        out = io.StringIO()
        optimizer.print_profile(out, prof)
        return dict(line.split()[:2] for line in out.getvalue().splitlines()[1:])

    def test_numbers(self):
        """The profile of `GemmOptimizer` counts new Gemms. It has the validation time only if the graph is profiled."""
        dot = blas.ops._dot22
        for make, replaced in (
            (lambda A, B, C: [A + B], 0),
            (lambda A, B, C: [A + dot(B, C)], 1),
            (lambda A, B, C: [A + dot(B, C), T.exp(2 * B - 3 * dot(C, A))], 2),
            (lambda A, B, C: [A + dot(B, C) + dot(C, A) - B], 2),
        ):
            for profiled in (False, True):
                found = self.profile(make, profiled)
                self.assertEqual(int(found["nb_replacement"]), replaced)
                self.assertEqual([int(found["nb_inconsistency_" + what]) for what in ("make", "replace")], [0, 0])
                if profiled:
                    self.assertGreaterEqual(float(found["validate_time"]), 0)
                else:
                    self.assertEqual(found["validate_time"], "None")


if __name__ == "__main__":
    unittest.main()
