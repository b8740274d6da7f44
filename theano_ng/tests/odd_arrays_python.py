"""More native Ops for tests with arrays of unusual memory layouts.

The expected results come from the Python code of the Ops, which other tests compare with NumPy.
"""

import numpy as np
import scipy.sparse

from theano_ng import tensor as tt
from theano_ng.gof.graph import io_toposort
from theano_ng.sandbox import rng_mrg
from theano_ng.sandbox.multinomial import ChoiceFromUniform, MultinomialFromUniform
from theano_ng.sparse import fields
from theano_ng.tensor import blas, extra_ops
from theano_ng.tensor.nnet import blocksparse, bn_ops, crossentropy, neighbours
from theano_ng.tensor.nnet.convolution import convmm
from theano_ng.tensor.shaping.allocation import sum_to_shape
from theano_ng.tensor.shaping.joining import permute_row_elements
from theano_ng.tensor.signal import pool
from theano_ng.tensor.sort import argsort, sort, topk
from theano_ng.tensor.tests.single_node import run_node
from theano_ng.tests.odd_arrays import Case, make


def cases():
    """Return the table, a list of Case."""
    rng = np.random.RandomState(11)
    table = []

    def case(name, variables, values, output):
        inputs, arrays = make(variables, values)
        outputs = output(*inputs)
        first = outputs[0] if isinstance(outputs, (list, tuple)) else outputs

        def expected(*values):
            known = dict(zip(inputs, values))
            for node in io_toposort(inputs, [first]):
                known.update(zip(node.outputs, run_node(node.outputs[0], known, "py")))
            return [known[v] for v in first.owner.outputs]

        table.append(Case(name, inputs, first, arrays, expected, False, output))

    m, v, row, l, n = tt.dmatrix, tt.dvector, tt.drow, tt.lvector, tt.lscalar
    t3, t4 = tt.dtensor3, tt.dtensor4
    x, y, square = rng.randn(3, 4), rng.randn(3, 4), rng.randn(4, 4)
    four, small = rng.randn(2, 3, 6, 8), rng.randn(2, 3, 3, 4)
    numbers = rng.randint(-9, 9, (3, 4))

    number = tt.dscalar
    case("gemv", [v(), number(), m(), v(), number()], [x[:, 0], 0.5, x, y[0], 2.0], blas.gemv_no_inplace)
    case("ger", [m(), number(), v(), v()], [x, 0.5, y[:, 0], y[0]], blas.ger)
    case("gemm", [m(), number(), m(), m(), number()], [x, 0.5, y, square, 2.0], blas.gemm_no_inplace)
    case("scaled product", [m(), m(), number()], [x, square, 0.5], blas._dot22scalar)

    epsilon = tt.constant(1e-3)
    case(
        "batch norm",
        [m(), row(), row()],
        [x, y[:1], y[1:2]],
        lambda x, g, b: bn_ops.BatchNormTrain((0,))(x, g, b, epsilon),
    )
    case(
        "batch norm grad",
        [m(), m(), row(), row(), row()],
        [x, y, y[:1], x.mean(0, keepdims=True), 1 / x.std(0, keepdims=True)],
        lambda x, dy, g, mean, inverse: bn_ops.BatchNormTrainGrad((0,))(x, dy, g, mean, inverse, epsilon),
    )
    for mode in ("max", "sum", "average_exc_pad"):
        case("pool " + mode, [t4()], [four], lambda x, mode=mode: pool.Pool(True, mode)(x, (2, 3), (2, 2), (1, 0)))
    numbers_of_pool = (2, 2), (2, 2), (0, 0)
    best = four.reshape(2, 3, 3, 2, 4, 2).max((3, 5))
    case(
        "max pool grad",
        [t4(), t4(), t4()],
        [four, best, small],
        lambda x, z, g: pool.MaxPoolGrad(True)(x, z, g, *numbers_of_pool),
    )
    case(
        "average pool grad",
        [t4(), t4()],
        [four, small],
        lambda x, g: pool.AveragePoolGrad(True)(x, g, *numbers_of_pool),
    )
    case(
        "max pool sums",
        [t4(), t4(), t4()],
        [four, best, four[::-1]],
        lambda x, z, g: pool.DownsampleFactorMaxGradGrad(True)(x, z, g, *numbers_of_pool),
    )
    case("max pool rop", [t4(), t4()], [four, four[::-1]], lambda x, d: pool.MaxPoolRop(True)(x, d, *numbers_of_pool))
    kernels = rng.randn(4, 3, 2, 3)
    case("convolution", [t4(), t4()], [four, kernels], convmm.CorrMM(border_mode=(1, 0), subsample=(1, 2)))
    case(
        "neighbours",
        [t4()],
        [four],
        lambda x: neighbours.Images2Neibs("valid")(x, tt.constant([2, 4]), tt.constant([2, 2])),
    )
    case(
        "block products",
        [t3(), t4(), t3(), tt.lmatrix(), tt.lmatrix()],
        [rng.randn(2, 3, 5), rng.randn(4, 6, 2, 5), rng.randn(2, 2, 2), [[0, 3], [1, 2]], [[5, 0, 1], [2, 3, 4]]],
        blocksparse.sparse_block_gemv,
    )
    case("one hot", [m(), l()], [abs(x), [1, 0, 3]], crossentropy.crossentropy_categorical_1hot)
    case("one hot grad", [v(), m(), l()], [y[:, 0], abs(x), [1, 0, 3]], crossentropy.crossentropy_categorical_1hot_grad)

    chances = abs(x) / abs(x).sum(1, keepdims=True)
    case("categories", [m(), v(), n()], [chances, rng.rand(6), 2], MultinomialFromUniform("int64"))
    case("choice", [m(), v(), n()], [chances, rng.rand(6), 2], ChoiceFromUniform("int64", False))
    case("choice with replacement", [m(), v(), n()], [chances, rng.rand(6), 2], ChoiceFromUniform("int64", True))

    whole = rng.randint(0, 2**31 - 1, (6, 3))
    matrix_and_vector = tt.lmatrix(), tt.ivector(), n()
    case(
        "products modulo",
        [*matrix_and_vector, *[v.type() for v in matrix_and_vector]],
        [whole[:3], whole[3], 2147483647, whole[3:], whole[0], 2145483479],
        rng_mrg.DotModulo(),
    )

    case("diagonal", [m()], [square], lambda x: tt.ExtractDiag(0, 0, 1)(x))
    case("diagonal beside", [t3()], [four[0]], lambda x: tt.ExtractDiag(-1, 2, 0)(x))
    case("from a diagonal", [v()], [x[0]], lambda d: tt.AllocDiag()(d))
    case("float range", [tt.dscalar(), tt.dscalar(), tt.dscalar()], [0.5, 3.25, 0.5], tt.arange)
    case("bartlett", [n()], [5], extra_ops.bartlett)
    case("differences", [m()], [x], lambda x: extra_ops.DiffOp(2, 1)(x))
    case("fill diagonal", [m(), tt.dscalar()], [x, 2.5], extra_ops.fill_diagonal)
    case("fill diagonal beside", [m(), tt.dscalar(), n()], [x, 2.5, 1], extra_ops.fill_diagonal_offset)
    case("repeat", [m(), n()], [x, 2], extra_ops.RepeatOp(1))
    case("repeat each", [m(), l()], [x, [2, 0, 1]], extra_ops.RepeatOp(0))
    case("sum to shape", [m()], [x], lambda x: sum_to_shape(x, tt.constant(3), tt.constant(1)))
    case("permute rows", [m(), tt.lmatrix()], [x, [[3, 1, 0, 2]] * 3], lambda x, p: permute_row_elements(x, p))
    case("choose", [l(), m()], [[0, 2, 1, 0], x], lambda i, x: tt.choose(i, x, mode="wrap"))

    case("sort", [m()], [x], lambda x: sort(x, 0))
    case("sort integers", [tt.lmatrix()], [numbers], lambda x: sort(x, 1))
    case("argsort", [m()], [x], lambda x: argsort(x, 0, kind="mergesort"))
    case("largest", [m()], [x], lambda x: topk(x, 1, axis=1))
    case("bincount", [l()], [abs(numbers[0])], extra_ops.bincount)
    case("unique", [l()], [numbers[0]], lambda x: extra_ops.Unique(True, True, True)(x))

    dense = x * (rng.rand(3, 4) < 0.6)
    by_rows, by_columns = scipy.sparse.csr_matrix(dense), scipy.sparse.csc_matrix(dense)
    parts, rows = [v(), tt.ivector(), tt.ivector()], [by_rows.data, by_rows.indices, by_rows.indptr]
    columns = [by_columns.data, by_columns.indices, by_columns.indptr]
    case("sparse times dense", [*parts, m()], [*rows, square], fields.sd_csr)
    parts = [v(), tt.ivector(), tt.ivector()]
    case("sparse columns times dense", [*parts, n(), m()], [*columns, 3, square], fields.sd_csc)
    parts = [v(), tt.ivector(), tt.ivector()]
    one = tt.TensorType("float64", (True, True))
    case(
        "sparse columns added", [one(), *parts, n(), m(), m()], [[[0.5]], *columns, 3, square, y], fields.usmm_csc_dense
    )
    for name, op, values, other, value in (
        ("sparse elements", fields.mul_s_d_csr, rows, m(), y),
        ("sparse elements by columns", fields.mul_s_d_csc, columns, m(), y),
        ("sparse elements and a row", fields.mul_s_v_csr, rows, v(), y[0]),
        ("sparse elements plus a row", fields.structured_add_s_v_csr, rows, v(), y[0]),
    ):
        case(name, [v(), tt.ivector(), tt.ivector(), other], [*values, value], op)
    return table
