"""Connectionist temporal classification: the cost of labels that are not aligned with the input.

The package has its own implementation: no other library is needed, and ``config.ctc.root`` is not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from theano_ng.gof.derivative import DisconnectedType, grad_not_implemented, grad_undefined
from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import OpenMPOp
from theano_ng.gof.optdb import register_loader
from theano_ng.lazy import lazy_names
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import INTEGERS
from theano_ng.tensor.type import TensorType

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import TensorLike
    from theano_ng.tensor.var import TensorVariable

__all__ = ["ConnectionistTemporalClassification", "ctc", "ctc_available", "ctc_present"]

register_loader("theano_ng.tensor.nnet.opt_ctc")

# The rule is imported when its name is first used.
__getattr__, __dir__, _ = lazy_names(__name__, {"theano_ng.tensor.nnet.opt_ctc": "local_ctc_no_grad"})


def ctc_present():
    """Return True: an implementation is always available."""
    return True


def ctc_available() -> bool:
    """Return True: an implementation is always available."""
    return True


_functions: list[Any] = [ctc_present, ctc_available]
for _function in _functions:
    _function.msg = _function.path = None
    _function.avail = True
del _function, _functions


def _one_example(frames, labels):
    """Return the cost and the gradient of one example.

    Parameters
    ----------
    frames : ndarray (steps, symbols) of float64
        The activations.
    labels : ndarray of int
        The labels, without padding.

    Returns
    -------
    float, ndarray (steps, symbols)
        The cost, and its gradient with respect to the activations.
    """
    steps = len(frames)
    with np.errstate(invalid="ignore", divide="ignore"):
        shifted = frames - frames.max(axis=1, keepdims=True)
        frames = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    # The states are the labels, with a blank before the first label, between two labels, and after the last label.
    states = np.zeros(2 * len(labels) + 1, int)
    states[1::2] = labels
    emitted = frames[:, states]
    # skips[i] is true if a path may move directly from state i - 2 to state i.
    skips = np.zeros(len(states), bool)
    skips[3::2] = labels[1:] != labels[:-1]
    if not steps:
        return (0.0 if len(labels) == 0 else np.inf), frames

    def moved(row, skips, by):
        """Return the log-probability of each state after one time step.

        `row` contains the log-probabilities before the step. In a step, a path stays in its state, moves by one state,
        or moves by two states if `skips` is true for the new state. `by` is the direction, 1 or -1.
        """
        one, two = np.full((2, len(row)), -np.inf)
        if by > 0:
            one[1:], two[2:] = row[:-1], row[:-2]
        else:
            one[:-1], two[:-2] = row[1:], row[2:]
        return np.logaddexp(np.logaddexp(row, one), np.where(skips, two, -np.inf))

    forward = np.empty_like(emitted)
    start = np.full(len(states), -np.inf)
    start[:2] = 0
    forward[0] = start + emitted[0]
    for t in range(1, steps):
        forward[t] = moved(forward[t - 1], skips, 1) + emitted[t]
    total = np.logaddexp.reduce(forward[-1, -2:])
    if total == -np.inf:
        return np.inf, np.zeros_like(frames)
    onwards = np.append(skips[2:], [False] * min(2, len(skips)))
    backward = start[::-1]
    gradient = np.exp(frames)
    for t in reversed(range(steps)):
        if t < steps - 1:
            backward = moved(backward + emitted[t + 1], onwards, -1)
        np.subtract.at(gradient[t], states, np.exp(forward[t] + backward - total))
    return -total, gradient


class ConnectionistTemporalClassification(NativeOp, OpenMPOp):
    """Cost of labels by connectionist temporal classification (Graves et al., 2006). See :func:`ctc`.

    Inputs: activations (time, batch, symbols), labels (batch, length), input lengths (batch). Outputs: costs (batch),
    and gradients with respect to the activations.

    Parameters
    ----------
    compute_grad : bool
        Whether the Op has the second output.
    openmp : bool, optional
        Whether to distribute the examples to several threads. The default is ``config.openmp``.
    """

    __props__ = ("compute_grad",)

    def __init__(self, compute_grad=True, openmp=None):
        OpenMPOp.__init__(self, openmp=openmp)
        self.compute_grad = bool(compute_grad)

    def make_node(self, activations, labels, input_lengths):
        activations, labels, input_lengths = (as_tensor_variable(v) for v in (activations, labels, input_lengths))
        for name, value, ndim in (
            ("activations", activations, 3),
            ("labels", labels, 2),
            ("input_lengths", input_lengths, 1),
        ):
            if value.ndim != ndim:
                raise ValueError("%s must have %d dimensions, got %s" % (name, ndim, value.type))
            if name != "activations" and value.dtype not in INTEGERS:
                raise TypeError("%s must be integers, got %s" % (name, value.type))
        if not activations.dtype.startswith("float"):
            raise TypeError("activations must be floats, got %s" % activations.type)
        outputs = [TensorType(activations.dtype, activations.broadcastable[1:2])()]
        if self.compute_grad:
            outputs.append(activations.type())
        return Apply(self, [activations, labels, input_lengths], outputs)

    def native_code(self, node):
        if node.inputs[0].dtype not in ("float32", "float64"):
            return None
        return NativeCode("theano_ng.tensor.native.ctc:ctc", openmp=bool(self.openmp))

    def c_headers(self):
        return NativeOp.c_headers(self)

    def c_compile_args(self):
        return []

    def perform(self, node, inputs, output_storage):
        activations, labels, lengths = inputs
        time, batch, symbols = activations.shape
        if labels.shape[0] != batch or lengths.shape[0] != batch:
            raise ValueError(
                "ctc: the numbers of examples differ: %d in activations, %d in labels, %d in input_lengths"
                % (batch, labels.shape[0], lengths.shape[0])
            )
        if symbols == 0:
            raise ValueError("ctc: activations have no symbols; at least the blank is needed")
        for i, n in enumerate(lengths):
            if not 0 <= n <= time:
                raise ValueError(
                    "ctc: input_lengths[%d] is %d, but there are activations for %d time steps" % (i, n, time)
                )
        for i, j in np.argwhere((labels == 0) | (labels >= symbols))[:1]:
            raise ValueError(
                "ctc: labels[%d, %d] is %d, but labels must be from 1 to %d: 0 is the blank, negative numbers are "
                "padding" % (i, j, labels[i, j], symbols - 1)
            )
        costs, gradients = np.zeros(batch, activations.dtype), np.zeros_like(activations, order="C")
        for i, n in enumerate(lengths):
            here = labels[i].astype(np.int64)
            costs[i], gradients[:n, i] = _one_example(activations[:n, i].astype(np.float64), here[here > 0])
        output_storage[0][0] = costs
        if self.compute_grad:
            output_storage[1][0] = gradients

    def infer_shape(self, node, input_shapes):
        return [(input_shapes[0][1],), input_shapes[0]][: len(node.outputs)]

    def _gradients(self, inputs, outputs=None):
        """Return the gradients of the costs: the second output of the node.

        If the node has no second output, make a new node.
        """
        if self.compute_grad and outputs is not None:
            return outputs[1]
        return type(self)(compute_grad=True, openmp=self.openmp)(*inputs)[1]

    def L_op(self, inputs, outputs, output_grads):
        activations, labels, input_lengths = inputs
        of_numbers = [grad_undefined(self, 1, labels), grad_undefined(self, 2, input_lengths)]
        if self.compute_grad and not isinstance(output_grads[1].type, DisconnectedType):
            return [grad_not_implemented(self, 0, activations, "second derivative")] + of_numbers
        if isinstance(output_grads[0].type, DisconnectedType):
            return [DisconnectedType()()] + of_numbers
        return [output_grads[0].dimshuffle("x", 0, "x") * self._gradients(inputs, outputs)] + of_numbers

    def R_op(self, inputs, eval_points):
        direction = eval_points[0]
        if direction is None:
            return [None] * (1 + self.compute_grad)
        found = [(self._gradients(inputs) * direction).sum(axis=(0, 2))]
        if self.compute_grad:
            found.append(grad_not_implemented(self, 0, inputs[0], "second derivative"))
        return found


def ctc(activations: TensorLike, labels: TensorLike, input_lengths: TensorLike) -> TensorVariable:
    """Return the cost of labels by connectionist temporal classification.

    The cost is the negative logarithm of the total probability of all alignments. An alignment is a sequence of
    symbols, one for each time step. If repeated symbols are merged, and blanks are then removed, the remaining symbols
    must be the labels. The probabilities of the symbols are the softmax of the activations.

    Parameters
    ----------
    activations : (time, batch, symbols) tensor of floats
        The input of softmax. Symbol 0 is the blank.
    labels : (batch, length) tensor of integers
        Labels are at least 1. Negative numbers are padding.
    input_lengths : (batch,) tensor of integers
        The number of time steps of each example. Later time steps are not read.

    Returns
    -------
    (batch,) tensor
        The costs. If an example has too many labels for any alignment, its cost is infinite and its gradient is zero.

    Raises
    ------
    ValueError
        At run time, if the numbers of examples differ, if a label is the blank or not a symbol, or if an input length
        exceeds the number of time steps.

    References
    ----------
    A. Graves, S. Fernandez, F. Gomez, J. Schmidhuber, Connectionist Temporal Classification: Labelling Unsegmented
    Sequence Data with Recurrent Neural Networks, ICML 2006.
    """
    return ConnectionistTemporalClassification()(activations, labels, input_lengths)[0]
