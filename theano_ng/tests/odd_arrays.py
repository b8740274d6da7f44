"""Arrays with unusual memory layouts, and the table of native Ops to which tests pass them.

A case is a node, values of its inputs, and the results of NumPy. A form of a value is an array with the same elements
that is not C-contiguous, not aligned, not in native byte order, or not writable.
"""

from dataclasses import dataclass, field

import numpy as np

import theano_ng as theano
from theano_ng import tensor as tt
from theano_ng.audit.forms import (  # noqa: F401  (tests import these names from this module)
    FORMS,
    SubArray,
    fortran,
    misaligned,
    misaligned_strides,
    read_only,
    reversed_,
    strided,
    subclass,
    swapped,
)
from theano_ng.tensor import nlinalg, slinalg


@dataclass
class Case:
    """A node of a native Op, values of its inputs, and the expected results.

    Attributes
    ----------
    name : str
    inputs : list of Variable
    output : Variable
        An output of the node under test.
    values : list of ndarray
    expected : callable
        A function that returns NumPy's result for the values: an array, or a list with an array for each output of the
        node.
    exact : bool
        Whether the results must be equal bit by bit.
    build : callable, optional
        A function from new input variables to the output, or to all outputs, of the node.
    """

    name: str
    inputs: list
    output: object
    values: list
    expected: object
    exact: bool = field(default=True)
    build: object = None

    def results(self, values=None):
        """Return the expected results of the node, in the dtypes of its output variables."""
        got = self.expected(*[v.copy() for v in (self.values if values is None else values)])
        got = got if isinstance(got, (list, tuple)) else [got]
        return [np.asarray(g).astype(out.dtype) for g, out in zip(got, self.output.owner.outputs)]


def emptied(case):
    """Return arrays like the values of a case, but empty: every length that is not 1 becomes 0."""
    return [np.zeros([1 if n == 1 else 0 for n in v.shape], v.dtype) for v in case.values]


def _eigvalsh(a, b):
    """Return the generalized eigenvalues of two symmetric matrices, of which only the lower triangles are read."""
    if len(a) == 0:
        return np.empty(0)
    inverse = np.linalg.inv(np.linalg.cholesky(b))
    return np.linalg.eigvalsh(inverse.dot(np.tril(a) + np.tril(a, -1).T).dot(inverse.T))


def make(variables, values):
    """Return a list of variables, and a list of their values as arrays of their dtypes."""
    return list(variables), [np.asarray(v, variable.dtype) for v, variable in zip(values, variables)]


# --- table -------------------------------------------------------------------------------------------------------------------


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def put(x, key, value, add):
    x = x.copy()
    if add:
        np.add.at(x, key, value)
    else:
        x[key] = value
    return x


def cases():
    """Return the table, a list of Case."""
    rng = np.random.RandomState(7)
    table = []

    def case(name, variables, values, output, expected, exact=True):
        inputs, arrays = make(variables, values)
        outputs = output(*inputs)
        first = outputs[0] if isinstance(outputs, (list, tuple)) else outputs
        table.append(Case(name, inputs, first, arrays, expected, exact, output))

    x, y = rng.randn(3, 4), rng.randn(3, 4)
    square = rng.randn(4, 4)
    ints = rng.randint(-9, 9, (3, 4))
    m, v, t = tt.matrix, tt.vector, tt.tensor3
    case("add", [m("x"), m("y")], [x, y], lambda a, b: a + b, np.add)
    case("add row", [m("x"), tt.row("y")], [x, y[:1]], lambda a, b: a + b, np.add)
    case("mul column float32", [tt.fmatrix(), tt.fcol()], [x, y[:, :1]], lambda a, b: a * b, np.multiply)
    case("exp", [m("x")], [x], tt.exp, np.exp, False)
    case("complex mul", [tt.zmatrix(), tt.zmatrix()], [x + 1j * y, y - 1j], lambda a, b: a * b, np.multiply, False)
    case("cast int8", [tt.lmatrix()], [ints], lambda a: tt.cast(a, "int8"), lambda a: a.astype("int8"))
    case("switch", [tt.bmatrix(), m(), m()], [ints > 0, x, y], tt.switch, lambda c, a, b: np.where(c, a, b))
    case(
        "int floordiv",
        [tt.lmatrix(), tt.lmatrix()],
        [ints, np.where(ints[::-1] == 0, 3, ints[::-1])],
        lambda a, b: a // b,
        np.floor_divide,
    )
    case("sum", [m()], [x], tt.sum, np.sum, False)
    case("sum axis 0", [m()], [x], lambda a: a.sum(axis=0), lambda a: a.sum(0), False)
    case("sum axis 1 float32", [tt.fmatrix()], [x], lambda a: a.sum(axis=1), lambda a: a.sum(1), False)
    case("sum of bytes", [tt.bmatrix()], [ints], lambda a: a.sum(axis=1), lambda a: a.sum(1))
    case("max", [m()], [x], lambda a: tt.CAReduce(theano.scalar.maximum, axis=(1,))(a), lambda a: a.max(1))
    case("any", [tt.tensor("bool", (False, False))], [ints > 3], lambda a: tt.any(a, axis=0), lambda a: a.any(0))
    case("prod", [t()], [rng.randn(2, 3, 2)], lambda a: tt.prod(a, axis=[0, 2]), lambda a: a.prod((0, 2)), False)
    case("argmax", [m()], [x], lambda a: tt.Argmax(axis=(1,))(a), lambda a: a.argmax(1))
    case("max_and_argmax", [m()], [x], lambda a: tt.max_and_argmax(a, axis=0), lambda a: [a.max(0), a.argmax(0)])
    case("dimshuffle", [m()], [x], lambda a: a.dimshuffle(1, "x", 0), lambda a: a.T[:, None])
    case("transpose", [t()], [rng.randn(2, 3, 2)], lambda a: a.dimshuffle(2, 0, 1), lambda a: a.transpose(2, 0, 1))
    case("reshape", [m(), tt.lvector()], [x, [2, 6]], lambda a, s: tt.reshape(a, s, ndim=2), lambda a, s: a.reshape(s))
    case(
        "reshape -1",
        [m(), tt.lvector()],
        [x, [-1, 2]],
        lambda a, s: tt.reshape(a, s, ndim=2),
        lambda a, s: a.reshape(s),
    )
    case("flatten", [t()], [rng.randn(2, 3, 2)], lambda a: tt.Flatten(2)(a), lambda a: a.reshape(2, 6))
    case("shape", [m()], [x], lambda a: a.shape, lambda a: np.array(a.shape))
    case("shape_i", [m()], [x], lambda a: theano.compile.Shape_i(1)(a), lambda a: a.shape[1])
    case("specify_shape", [m(), tt.lvector()], [x, [3, 4]], tt.specify_shape, lambda a, s: a)
    case("rebroadcast", [m()], [x[:1]], lambda a: tt.Rebroadcast((0, True))(a), lambda a: a)
    case("unbroadcast", [tt.row()], [x[:1]], lambda a: tt.Rebroadcast((0, False))(a), lambda a: a)
    case("deep copy", [m()], [x], theano.compile.deep_copy_op, lambda a: a)
    case("view", [m()], [x], theano.compile.view_op, lambda a: a)
    case(
        "assert", [m(), tt.scalar("c", dtype="bool")], [x, True], lambda a, c: tt.opt.Assert("no")(a, c), lambda a, c: a
    )
    case("cpu contiguous", [m()], [x], tt.extra_ops.cpu_contiguous, lambda a: a)
    case("subtensor", [m()], [x], lambda a: a[::-1, 1:3], lambda a: a[::-1, 1:3])
    case("subtensor index", [m(), tt.lscalar()], [x, -2], lambda a, i: a[i], lambda a, i: a[int(i)])
    case(
        "set_subtensor",
        [m(), v()],
        [x, [1.0, 2.0]],
        lambda a, b: tt.set_subtensor(a[1, ::2], b),
        lambda a, b: put(a, np.s_[1, ::2], b, False),
    )
    case(
        "inc_subtensor",
        [m(), m()],
        [x, y[:2]],
        lambda a, b: tt.inc_subtensor(a[1:, ::-1], b),
        lambda a, b: put(a, np.s_[1:, ::-1], b, True),
    )
    inplace = tt.set_subtensor(m()[1:3], 0).owner.op
    inplace = type(inplace)(inplace.idx_list, inplace=True, set_instead_of_inc=False)
    case(
        "inc_subtensor inplace",
        [m(), tt.scalar(), tt.lscalar(), tt.lscalar()],
        [x, 3, 1, 3],
        inplace,
        lambda a, b, i, j: put(a, np.s_[1:3], b, True),
    )
    case("take", [m(), tt.lvector()], [x, [2, 0, -1]], lambda a, i: a[i], lambda a, i: a[i])
    case(
        "set at vector",
        [m(), m(), tt.lvector()],
        [x, y[:2], [2, 0]],
        lambda a, b, i: tt.set_subtensor(a[i], b),
        lambda a, b, i: put(a, i, b, False),
    )
    case(
        "inc at vector",
        [m(), m(), tt.lvector()],
        [x, y, [2, 0, 2]],
        lambda a, b, i: tt.inc_subtensor(a[i], b),
        lambda a, b, i: put(a, i, b, True),
    )
    case(
        "advanced",
        [m(), tt.lvector(), tt.lvector()],
        [x, [0, 2], [1, -1]],
        lambda a, i, j: a[i, j],
        lambda a, i, j: a[i, j],
    )
    case(
        "advanced inc",
        [m(), v(), tt.lvector(), tt.lvector()],
        [x, [1.0, 2.0], [2, 2], [1, 1]],
        lambda a, b, i, j: tt.inc_subtensor(a[i, j], b),
        lambda a, b, i, j: put(a, (i, j), b, True),
    )
    case("boolean", [m(), tt.tensor("bool", (False, False))], [x, ints > 0], lambda a, k: a[k], lambda a, k: a[k])
    case(
        "boolean set",
        [m(), tt.tensor("bool", (False, False)), tt.scalar()],
        [x, ints > 0, 9],
        lambda a, k, b: tt.set_subtensor(a[k], b),
        lambda a, k, b: put(a, k, b, False),
    )
    case(
        "join",
        [tt.bscalar(), m(), m()],
        [1, x, y[:, :2]],
        lambda k, a, b: tt.join(k, a, b),
        lambda k, a, b: np.concatenate([a, b], int(k)),
    )
    case(
        "split",
        [m(), tt.lscalar(), tt.lvector()],
        [x, 1, [1, 3]],
        lambda a, k, s: tt.Split(2)(a, k, s),
        lambda a, k, s: [a[:, : s[0]], a[:, s[0] :]],
    )
    case("tile", [m(), tt.lvector()], [x, [2, 1]], lambda a, r: tt.Tile(2)(a, r), np.tile)
    case(
        "alloc",
        [v(), tt.lscalar(), tt.lscalar()],
        [x[0], 2, 4],
        lambda a, n, k: tt.alloc(a, n, k),
        lambda a, n, k: np.broadcast_to(a, (n, k)),
    )
    case(
        "alloc scalar",
        [tt.fscalar(), tt.iscalar()],
        [1.5, 3],
        lambda a, n: tt.alloc(a, n),
        lambda a, n: np.full(int(n), a),
    )
    case(
        "eye",
        [tt.lscalar(), tt.lscalar(), tt.lscalar()],
        [3, 4, 1],
        lambda n, k, d: tt.eye(n, k, d),
        lambda n, k, d: np.eye(int(n), int(k), int(d)),
    )
    case(
        "tri",
        [tt.lscalar(), tt.lscalar(), tt.lscalar()],
        [3, 4, 1],
        lambda n, k, d: tt.tri(n, k, d),
        lambda n, k, d: np.tri(int(n), int(k), int(d)),
    )
    case("arange", [tt.lscalar(), tt.lscalar(), tt.lscalar()], [9, 0, -2], tt.arange, np.arange)
    case(
        "make_vector",
        [tt.lscalar(), tt.lscalar()],
        [9, 2],
        lambda a, b: tt.stack([a, b]),
        lambda a, b: np.array([a, b]),
    )
    case("dot matrices", [m(), m()], [x, square], lambda a, b: tt.Dot()(a, b), np.dot, False)
    case("dot vectors", [v(), v()], [x[0], y[0]], lambda a, b: tt.Dot()(a, b), np.dot, False)
    case("dot matrix vector int", [tt.lmatrix(), tt.lvector()], [ints, ints[0]], lambda a, b: tt.Dot()(a, b), np.dot)
    case("dot22", [m(), m()], [x, square], tt.blas._dot22, np.dot, False)
    case("dot22 float32", [tt.fmatrix(), tt.fmatrix()], [x, square], tt.blas._dot22, np.dot, False)
    case(
        "dot22scalar",
        [m(), m(), tt.scalar()],
        [x, square, 2.5],
        tt.blas._dot22scalar,
        lambda a, b, s: s * np.dot(a, b),
        False,
    )
    case(
        "gemm",
        [m(), tt.scalar(), m(), m(), tt.scalar()],
        [y, 2.0, x, square, 0.5],
        tt.blas.gemm_no_inplace,
        lambda z, a, b, c, d: d * z + a * np.dot(b, c),
        False,
    )
    case(
        "gemm inplace",
        [m(), tt.scalar(), m(), m(), tt.scalar()],
        [y, 2.0, x, square, 0.5],
        tt.blas.gemm_inplace,
        lambda z, a, b, c, d: d * z + a * np.dot(b, c),
        False,
    )
    case(
        "gemv",
        [v(), tt.scalar(), m(), v(), tt.scalar()],
        [y[:, 0], 2.0, x, square[0], 0.5],
        tt.blas.gemv_no_inplace,
        lambda z, a, b, c, d: d * z + a * np.dot(b, c),
        False,
    )
    case(
        "gemv inplace",
        [v(), tt.scalar(), m(), v(), tt.scalar()],
        [y[:, 0], 2.0, x, square[0], 0.5],
        tt.blas.gemv_inplace,
        lambda z, a, b, c, d: d * z + a * np.dot(b, c),
        False,
    )
    case(
        "ger",
        [m(), tt.scalar(), v(), v()],
        [x, 2.0, y[:, 0], square[0]],
        tt.blas.ger,
        lambda a, s, b, c: a + s * np.outer(b, c),
        False,
    )
    case(
        "ger inplace",
        [m(), tt.scalar(), v(), v()],
        [x, 2.0, y[:, 0], square[0]],
        tt.blas.ger_destructive,
        lambda a, s, b, c: a + s * np.outer(b, c),
        False,
    )
    case("matrix inverse", [m()], [square], nlinalg.matrix_inverse, np.linalg.inv, False)
    case("det complex", [tt.zmatrix()], [square + 1j * square.T], nlinalg.det, np.linalg.det, False)
    positive, rhs = square.dot(square.T) + 4 * np.eye(4), y.T.copy()
    case("cholesky", [m()], [positive], slinalg.cholesky, np.linalg.cholesky, False)
    case(
        "cholesky in place",
        [tt.zmatrix()],
        [positive + 1j * np.tril(square, -1) - 1j * np.tril(square, -1).T],
        slinalg.Cholesky(False, "nan", True),
        lambda a: np.linalg.cholesky(a, upper=True),
        False,
    )
    case("solve", [m(), m()], [positive + np.triu(square), rhs], slinalg.solve, np.linalg.solve, False)
    case(
        "solve in place",
        [m(), m()],
        [positive + np.triu(square), rhs],
        slinalg.Solve("general", False, True, True),
        np.linalg.solve,
        False,
    )
    case(
        "solve symmetric",
        [m(), v()],
        [positive - 3 * np.diag(np.arange(4)), rhs[:, 0]],
        slinalg.solve_symmetric,
        np.linalg.solve,
        False,
    )
    case(
        "solve triangular",
        [m(), m()],
        [positive, np.tile(rhs, 2)],
        slinalg.solve_lower_triangular,
        lambda a, b: np.linalg.solve(np.tril(a), b),
        False,
    )
    case("eigvalsh", [m()], [square + square.T], lambda a: slinalg.eigvalsh(a, None), np.linalg.eigvalsh, False)
    case("eigvalsh of two", [m(), m()], [square, positive], slinalg.eigvalsh, _eigvalsh, False)
    case("batched_dot", [t(), t()], [rng.randn(2, 3, 4), rng.randn(2, 4, 2)], tt.blas.batched_dot, np.matmul, False)
    case("cumsum", [m()], [x], lambda a: tt.cumsum(a, axis=1), lambda a: a.cumsum(1), False)
    case("cumprod flat", [m()], [x], lambda a: tt.cumprod(a), lambda a: a.cumprod(), False)
    case(
        "searchsorted",
        [v(), m()],
        [np.sort(x[0]), y],
        lambda a, b: tt.extra_ops.SearchsortedOp()(a, b),
        np.searchsorted,
    )
    case("nonzero", [tt.lmatrix()], [ints * (ints > 0)], lambda a: tt.Nonzero()(a), lambda a: list(np.nonzero(a)))
    nnet = tt.nnet
    case("softmax", [m()], [x], nnet.softmax_op, softmax, False)
    case(
        "logsoftmax",
        [m()],
        [x],
        nnet.logsoftmax_op if hasattr(nnet, "logsoftmax_op") else nnet.LogSoftmax(),
        lambda a: np.log(softmax(a)),
        False,
    )
    case(
        "softmax grad",
        [m(), m()],
        [y, softmax(x)],
        nnet.softmax_grad,
        lambda d, s: s * (d - (d * s).sum(1, keepdims=True)),
        False,
    )
    case("softmax with bias", [m(), v()], [x, y[0]], nnet.softmax_with_bias, lambda a, b: softmax(a + b), False)
    rows = np.arange(3)
    case(
        "crossentropy argmax",
        [m(), v(), tt.lvector()],
        [x, y[0], [1, 0, 3]],
        nnet.crossentropy_softmax_argmax_1hot_with_bias,
        lambda a, b, i: [-np.log(softmax(a + b)[rows, i]), softmax(a + b), (a + b).argmax(1)],
        False,
    )
    case(
        "crossentropy dx",
        [v(), m(), tt.lvector()],
        [y[:, 0], softmax(x), [1, 0, 3]],
        nnet.crossentropy_softmax_1hot_with_bias_dx,
        lambda d, s, i: d[:, None] * (s - np.eye(4)[i]),
        False,
    )
    return table
