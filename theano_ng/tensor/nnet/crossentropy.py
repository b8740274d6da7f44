"""Cross-entropies of distributions with true distributions or labels. Some Ops compute the distributions by softmax."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from theano_ng import compile
from theano_ng.gof.derivative import DisconnectedType, grad_not_implemented, grad_undefined
from theano_ng.gof.differentiate import Shortcut
from theano_ng.gof.graph import Apply
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.counting import Unique
from theano_ng.tensor.dtypes import INTEGERS
from theano_ng.tensor.elemwise.functions import eq, log
from theano_ng.tensor.indexing.subtensor import inc_subtensor, set_subtensor
from theano_ng.tensor.linalg.products import dot
from theano_ng.tensor.logarithms import reading
from theano_ng.tensor.nnet.row_op import RowOp, float_matrix, integer_vector
from theano_ng.tensor.nnet.sigmoids import sigmoid, softplus
from theano_ng.tensor.nnet.softmax import _softmax, softmax_op, softmax_with_bias, summed_rows
from theano_ng.tensor.shaping.creation import arange, zeros_like
from theano_ng.tensor.shaping.joining import concatenate
from theano_ng.tensor.type import TensorType

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import TensorLike
    from theano_ng.tensor.var import TensorVariable


def _check_labels(y, classes):
    bad = np.flatnonzero((y < 0) | (y >= classes))
    if bad.size:
        raise ValueError(
            "y_i value out of bounds: y[%d] is %d, but there are %d classes" % (bad[0], y[bad[0]], classes)
        )


class CrossentropySoftmaxArgmax1HotWithBias(RowOp):
    """Cross-entropy of softmax(x + b) with labels, together with this softmax and the argmax of each row.

    Inputs: x (m, n) floats, b (n) floats, y_idx (m) integers. Outputs: ``-log(softmax(x + b)[i, y_idx[i]])`` (m);
    softmax(x + b) (m, n); the position of the largest element of each row (m, dtype of y_idx).
    """

    nin, nout = 3, 3
    function = "crossentropy"

    def __init__(self, **kwargs):
        super().__init__(**kwargs)

    def make_node(self, x, b, y_idx):
        x, b, y_idx = float_matrix(self, x), as_tensor_variable(b), integer_vector(self, y_idx)
        if b.type.ndim != 1 or not b.type.dtype.startswith("float"):
            raise ValueError("b must be 1-d tensor of floats. Got %s" % b.type)
        nll = TensorType(x.type.dtype, y_idx.type.broadcastable)()
        return Apply(self, [x, b, y_idx], [nll, x.type(), y_idx.type()])

    def perform(self, node, input_storage, output_storage):
        x, b, y_idx = input_storage
        if b.shape[0] != x.shape[1]:
            raise ValueError("b must have same number of columns as x")
        if y_idx.shape[0] != x.shape[0]:
            raise ValueError("y_idx must have same number of rows as x")
        _check_labels(y_idx, x.shape[1])
        row = (x + b).astype(x.dtype, copy=False)
        rows = np.arange(len(y_idx))
        am = row.argmax(axis=1) if row.size else np.zeros(len(y_idx), "int64")
        shifted = row - row[rows, am][:, None]
        nll = np.log(np.exp(shifted).sum(axis=1)) - shifted[rows, y_idx]
        output_storage[0][0] = nll.astype(x.dtype, copy=False)
        output_storage[1][0] = _softmax(row)
        output_storage[2][0] = am.astype(y_idx.dtype, copy=False)

    def infer_shape(self, node, shapes):
        x_shp, _, idx_shp = shapes
        return [(x_shp[0],), x_shp, idx_shp]

    def connection_pattern(self, node):
        # The labels are connected only with the argmax, because only the argmax has an integer dtype like the labels.
        return [[True] * 3, [True] * 3, [False, False, True]]

    def grad(self, inp, grads):
        x, b, y_idx = inp
        to_x, to_b, to_labels = [], [], DisconnectedType()()
        from_nll, from_softmax, from_argmax = (None if isinstance(g.type, DisconnectedType) else g for g in grads)
        if from_nll is not None:
            _, softmax = crossentropy_softmax_1hot_with_bias(x, b, y_idx)
            dx = crossentropy_softmax_1hot_with_bias_dx(from_nll, softmax, y_idx)
            to_x.append(dx)
            to_b.append(summed_rows(dx, b))
        if from_softmax is not None:
            dx, db = softmax_with_bias.L_op((x, b), [softmax_with_bias(x, b)], (from_softmax,))
            to_x.append(dx)
            to_b.append(db)
        if from_argmax is not None:
            # The argmax is piecewise constant in x and b, so its gradients with respect to x and b are zero. The
            # gradient with respect to the labels is undefined.
            to_x.append(x.zeros_like())
            to_b.append(b.zeros_like())
            to_labels = grad_undefined(self, 2, y_idx)

        def total(terms):
            return sum(terms[1:], terms[0]) if terms else DisconnectedType()()

        return [total(to_x), total(to_b), to_labels]


class CrossentropySoftmax1HotWithBiasDx(RowOp):
    """Gradient of the cross-entropy of softmax with respect to the input of softmax: ``dy * (sm - onehot(y_idx))``.

    Inputs: dy, the gradient with respect to the cross-entropies (m elements, or one element for all rows); sm, the
    softmax (m, n); y_idx, the labels (m) integers.
    """

    nin, nout = 3, 1
    function = "crossentropy_dx"

    def make_node(self, dy, sm, y_idx, **kwargs):
        dy, sm, y_idx = as_tensor_variable(dy), float_matrix(self, sm, "sm"), integer_vector(self, y_idx)
        if dy.type.ndim > 1 or not dy.type.dtype.startswith("float"):
            raise ValueError("dy must be {0,1}-d tensor of floats. Got %s" % dy.type)
        return Apply(self, [dy, sm, y_idx], [sm.type()])

    def perform(self, node, input_storage, output_storage):
        dy, sm, y_idx = input_storage
        if dy.size != 1 and dy.shape[0] != sm.shape[0]:
            raise ValueError(
                "dy must have one element or as many as sm has rows; shapes %s and %s" % (dy.shape, sm.shape)
            )
        if y_idx.shape[0] != sm.shape[0]:
            raise ValueError("y_idx must have as many elements as sm has rows")
        _check_labels(y_idx, sm.shape[1])
        column = np.broadcast_to(dy.reshape(-1, 1), (len(y_idx), 1))
        with np.errstate(invalid="ignore"):
            dx = np.where(column == 0, 0, column * sm)
        dx[np.arange(len(y_idx)), y_idx] -= column[:, 0]
        output_storage[0][0] = np.asarray(dx, dtype=sm.dtype, order="C")

    def infer_shape(self, node, shapes):
        return [shapes[1]]

    def grad(self, inp, grads):
        dy, sm, y_idx = inp
        (g_dx,) = grads
        column = dy if dy.ndim == 0 else dy.dimshuffle(0, "x")
        rows = arange(y_idx.shape[0])
        g_dy = (g_dx * sm).sum(axis=1) - g_dx[rows, y_idx]
        if dy.ndim == 0 or dy.broadcastable[0]:
            g_dy = g_dy.sum() if dy.ndim == 0 else g_dy.sum().dimshuffle("x")
        return [g_dy, column * g_dx, grad_not_implemented(self, 2, y_idx)]

    def R_op(self, inputs, eval_points):
        dy, sm, labels = inputs
        ddy, dsm = eval_points[:2]
        terms = [] if ddy is None else [self(ddy, sm, labels)]
        if dsm is not None:
            terms.append((dy if dy.type.ndim == 0 else dy.dimshuffle(0, "x")) * dsm)
        return [sum(terms[1:], terms[0]) if terms else None]


crossentropy_softmax_argmax_1hot_with_bias = CrossentropySoftmaxArgmax1HotWithBias()
crossentropy_softmax_1hot_with_bias_dx = CrossentropySoftmax1HotWithBiasDx()


def crossentropy_softmax_1hot_with_bias(
    x: TensorLike, b: TensorLike, y_idx: TensorLike, **kwargs: Any
) -> list[TensorVariable]:
    """Return the cross-entropy of softmax(x + b) with labels for each row, and softmax(x + b)."""
    return crossentropy_softmax_argmax_1hot_with_bias(x, b, y_idx, **kwargs)[0:2]


def crossentropy_softmax_1hot(x: TensorLike, y_idx: TensorLike, **kwargs: Any) -> list[TensorVariable]:
    """Return the cross-entropy of softmax(x) with labels for each row, and softmax(x)."""
    return crossentropy_softmax_1hot_with_bias(x, zeros_like(x[0, :]), y_idx, **kwargs)


def crossentropy_softmax_max_and_argmax_1hot_with_bias(
    x: TensorLike, b: TensorLike, y_idx: TensorLike, **kwargs: Any
) -> tuple[TensorVariable, ...]:
    """Return the cross-entropy, the softmax, the largest probability and its position for each row.

    Returns
    -------
    xent, softmax, max_pr, argmax
    """
    xent, softmax, argmax = crossentropy_softmax_argmax_1hot_with_bias(x, b, y_idx, **kwargs)
    return xent, softmax, softmax[arange(argmax.shape[0]), argmax], argmax


def crossentropy_softmax_max_and_argmax_1hot(
    x: TensorLike, y_idx: TensorLike, **kwargs: Any
) -> tuple[TensorVariable, ...]:
    """Return the outputs of `crossentropy_softmax_max_and_argmax_1hot_with_bias` for a bias of zero."""
    return crossentropy_softmax_max_and_argmax_1hot_with_bias(x, zeros_like(x[0, :]), y_idx, **kwargs)


class CrossentropyCategorical1HotGrad(RowOp):
    """Gradient of `CrossentropyCategorical1Hot` with respect to the distributions.

    Inputs: g_y, the gradient with respect to the cross-entropies (m); coding_dist (m, n); true_one_of_n, labels (m).
    Output: a matrix (m, n) of zeros, except for ``-g_y[i] / coding_dist[i, y]`` at [i, y], where y is true_one_of_n[i].
    """

    function = "onehot_crossentropy_grad"

    def make_node(self, g_y, coding_dist, true_one_of_n):
        g_y, coding_dist = as_tensor_variable(g_y), float_matrix(self, coding_dist, "coding_dist")
        if g_y.type.ndim != 1 or not g_y.type.dtype.startswith("float"):
            raise ValueError("%s: g_y must be a vector of floats. Got %s" % (self, g_y.type))
        return Apply(
            self, [g_y, coding_dist, integer_vector(self, true_one_of_n, "true_one_of_n")], [coding_dist.type()]
        )

    def perform(self, node, inp, out):
        g_y, coding_dist, labels = inp
        if not len(g_y) == len(labels) == len(coding_dist):
            raise ValueError("g_y and true_one_of_n must have as many elements as coding_dist has rows")
        _check_labels(labels, coding_dist.shape[1])
        g = np.zeros_like(coding_dist)
        rows = np.arange(len(labels))
        g[rows, labels] = -g_y / coding_dist[rows, labels]
        out[0][0] = g

    def infer_shape(self, node, in_shapes):
        return [in_shapes[1]]

    def grad(self, inp, grads):
        g_y, coding_dist, labels = inp
        (g,) = grads
        rows = arange(labels.shape[0])
        picked, g_picked = coding_dist[rows, labels], g[rows, labels]
        g_coding = set_subtensor(zeros_like(coding_dist)[rows, labels], g_picked * g_y / picked**2)
        return [-g_picked / picked, g_coding, grad_not_implemented(self, 2, labels)]


crossentropy_categorical_1hot_grad = CrossentropyCategorical1HotGrad()


class CrossentropyCategorical1Hot(RowOp):
    """Cross-entropy of distributions with labels: ``-log(coding_dist[i, true_one_of_n[i]])``.

    Inputs: coding_dist (m, n) floats, true_one_of_n (m) integers. Output: (m).
    """

    function = "onehot_crossentropy"

    def make_node(self, coding_dist, true_one_of_n):
        coding_dist = float_matrix(self, coding_dist, "coding_dist")
        labels = as_tensor_variable(true_one_of_n)
        if labels.type.ndim != 1 or labels.type.dtype not in INTEGERS:
            raise TypeError("integer vector required for argument: true_one_of_n (got type: %s instead)" % labels.type)
        return Apply(self, [coding_dist, labels], [TensorType(coding_dist.dtype, labels.broadcastable)()])

    def perform(self, node, inp, out):
        coding_dist, labels = inp
        if len(labels) != len(coding_dist):
            raise ValueError("true_one_of_n must have as many elements as coding_dist has rows")
        _check_labels(labels, coding_dist.shape[1])
        out[0][0] = -np.log(coding_dist[np.arange(len(labels)), labels])

    def infer_shape(self, node, in_shapes):
        return [(in_shapes[0][0],)]

    def connection_pattern(self, node):
        return [[True], [False]]

    def grad(self, inp, grads):
        coding_dist, labels = inp
        (g_y,) = grads
        return [crossentropy_categorical_1hot_grad(g_y, coding_dist, labels), DisconnectedType()()]

    def shortcut(self, node):
        """Return a `Shortcut`, which computes the gradient of the node without a division by the distribution.

        Return None if the logarithm of the distribution cannot be differentiated without this division.
        """
        p, labels = node.inputs
        read = reading(p)
        if read is None or not read.is_known:
            return None

        def gradients(g):
            if p.owner.op == softmax_op:
                return [crossentropy_softmax_1hot_with_bias_dx(g, p, labels)]
            return read.gradients(inc_subtensor(zeros_like(p)[arange(labels.shape[0]), labels], -g))

        return Shortcut(read.leaves, read.passed(), gradients)

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None]
        coding_dist, labels = inputs
        rows = arange(labels.shape[0])
        return [-eval_points[0][rows, labels] / coding_dist[rows, labels]]


crossentropy_categorical_1hot = CrossentropyCategorical1Hot()


def binary_crossentropy(output: TensorLike, target: TensorLike) -> TensorVariable:
    """Return ``-(target * log(output) + (1 - target) * log(1 - output))``, elementwise.

    Parameters
    ----------
    output : tensor
        Probabilities.
    target : tensor
        The true probabilities, in [0, 1].
    """
    return -(target * log(output) + (1.0 - target) * log(1.0 - output))


def _summed_to(gradient, x):
    """Sum a gradient over the dimensions in which the elements of x repeat."""
    if gradient.type.ndim > x.type.ndim:
        gradient = gradient.sum(axis=tuple(range(gradient.type.ndim - x.type.ndim)))
    flags = zip(x.type.broadcastable, gradient.type.broadcastable)
    repeated = [d for d, (one, summed) in enumerate(flags) if one and not summed]
    return gradient.sum(axis=repeated, keepdims=True) if repeated else gradient


def sigmoid_binary_crossentropy(output: TensorLike, target: TensorLike) -> TensorVariable:
    """Return ``binary_crossentropy(sigmoid(output), target)``, elementwise.

    The result is accurate even if the absolute value of `output` is large.
    """

    def grad(inputs, out_grads):
        (output, target), (out_grad,) = inputs, out_grads
        return [_summed_to((sigmoid(output) - target) * out_grad, output), _summed_to(output * -out_grad, target)]

    inp = [as_tensor_variable(output), as_tensor_variable(target)]
    variables = [i.type() for i in inp]
    out = softplus(-abs(variables[0])) + variables[0] * ((variables[0] > 0) - variables[1])
    op = compile.OpFromGraph(variables, [out], grad_overrides=grad, inline=True, name="sigmoid_binary_crossentropy")
    return op(*inp)


def categorical_crossentropy(coding_dist: TensorLike, true_dist: TensorLike) -> TensorVariable:
    """Return the cross-entropy between two distributions for each row.

    Parameters
    ----------
    coding_dist : (m, n) tensor of floats
        One distribution per row.
    true_dist : (m, n) tensor of floats, or (m,) tensor of integers
        The true distributions, or labels.

    Returns
    -------
    (m,) tensor
        ``-sum(true_dist * log(coding_dist), axis=1)``, or ``-log(coding_dist[i, true_dist[i]])``.

    Raises
    ------
    TypeError
        If the rank of `true_dist` is neither equal to the rank of `coding_dist` nor smaller by one.
    """
    true_dist = as_tensor_variable(true_dist)
    if true_dist.ndim == coding_dist.ndim:
        return -(true_dist * log(coding_dist)).sum(axis=coding_dist.ndim - 1)
    if true_dist.ndim == coding_dist.ndim - 1:
        return crossentropy_categorical_1hot(coding_dist, true_dist)
    raise TypeError(
        "rank mismatch between coding and true distributions: %d and %d; the true distributions must have the rank of "
        "the coding distributions, or be labels with one dimension less" % (coding_dist.ndim, true_dist.ndim)
    )


def confusion_matrix(actual: TensorLike, pred: TensorLike) -> list[TensorVariable]:
    """Count how often each actual label was predicted as each label.

    Parameters
    ----------
    actual, pred : (m,) tensors of integers

    Returns
    -------
    conf_mat : (k, k) tensor of integers
        The counts. Rows are actual labels, columns are predicted labels.
    order : (k,) tensor
        The labels that occur, in sorted order.

    Raises
    ------
    ValueError
        If an argument is not a vector.
    """
    for name, variable in (("actual", actual), ("pred", pred)):
        if variable.ndim != 1:
            raise ValueError("%s must be 1-d tensor variable" % name)
    order = Unique(False, False, False)(concatenate([actual, pred]))
    col_actual, col_pred = actual.dimshuffle(0, "x"), pred.dimshuffle(0, "x")
    one_hot_actual = eq(col_actual, order).astype("int64")
    one_hot_pred = eq(col_pred, order).astype("int64")
    return [dot(one_hot_actual.T, one_hot_pred), order]
