"""Losses at saturated arguments, and the exact values of the losses and their derivatives.

A case combines a loss, a view from the inputs to the logits, a reduction, the computed results, a mode and a dtype.
This module does not import the package: callers pass it to `compare`, so that the same table runs on other
implementations of the interface.

The exact values are computed by mpmath: each loss has a second definition as a function of numbers, which is
differentiated by central differences with enough digits to lose no precision. The view is linear, with integer
coefficients that are not negative. So logits are exact in every dtype, and the adjoint of the view propagates
derivatives back.

Tolerance: `ULPS` units in the last place (of the dtype) of a scale. The scale is the error that a careful computation
cannot avoid:

- the size of the exact result, that is, of the largest of the terms that are added to it;
- the change of the result when logits are rounded: ``sum(abs(z * d_result / d_z))``. ``exp(-x * x)`` at 20 has lost
  800 times the precision of x when x is squared, and ``max + log(sum(exp(z - max)))`` is rounded like its maximum;
- the `cost_floor` of the loss or, for derivatives, its `floor`: the size of the terms that cancel in the best formula.
  It is 1 for the gradient ``p - t`` of a cross-entropy of probabilities p, and for the logarithm of a probability
  near 1 by ``z - max - log(sum(exp(z - max)))``.
"""

from collections import namedtuple
from itertools import product

import mpmath
import numpy as np

ULPS = 16
DIGITS = 800  # exp(-800) is 1e-348, and a second difference with STEP loses 300 digits
STEP = mpmath.mpf(10) ** -150

Loss = namedtuple("Loss", "name build exact target floor elementwise cost_floor", defaults=(0,))
"""A row of the table.

name : str
build : function of (T, z, t) -> variable
    The losses of the rows, or elements, of the matrix of logits z; t is the target; T the module `tensor`.
exact : function of (z, t) -> mpf
    The loss of one row, a list of mpf, or of one element.
target : str
    Key of `TARGETS`; "none" for a loss without target.
floor : float
    The size of the terms that cancel in derivatives, see the docstring of the module.
elementwise : bool
    Whether each element has a loss.
cost_floor : float
    As `floor`, for the cost.
"""

View = namedtuple("View", "name make split pull")
"""The linear function between the inputs and the logits.

make : function of (T, inputs) -> z
split : function of array (m, n) -> list of arrays
    Inputs for which z is this array; also directions.
pull : function of array (m, n) -> list of arrays
    The adjoint of `make`.
"""

ROWS, COLUMNS = 4, 3

# Each matrix is the argument of one call. There are ties, and elements far apart in one row and in one column.
LOGITS = (
    [[0, 0, 0], [1, 0, -1], [-1, 2, 2], [3, 1, -2]],
    [[30, 0, 0], [30, 0, 30], [-30, -30, 1], [0, -1, 30]],
    [[110, 0, 0], [-110, 110, 0], [110, 110, -110], [1, -110, -110]],
    [[800, 0, 1], [0, 800, 800], [-800, -800, -800], [800, -800, 30]],
)
WEIGHTS = [1.0, 0.5, 2.0, 0.25]
INDEX = [2, 0, 3, 2]
DIRECTION = [[1, -2, 0.5], [0.25, 1, -1], [2, 1, 1], [-1, 0.5, 1]]


# -- targets ---------------------------------------------------------------------------------------------------------------------------

TARGETS = {
    "labels": np.array([1, 0, 2, 0]),
    "onehot": np.eye(3)[[1, 0, 2, 0]],
    "dense": np.array([[0.25, 0.25, 0.5], [0.5, 0, 0.5], [0.125, 0.75, 0.125], [0, 0.25, 0.75]]),
    "logits": np.array([[0, 1, 2], [0, 30, 0], [-110, 0, 110], [0, 0, 800]]),
    "binary": np.array([[0, 1, 0.25], [1, 0, 1], [0.5, 1, 0], [1, 0.75, 0]]),
    "signs": np.array([[-1, 1, 1], [1, -1, 1], [1, 1, -1], [1, -1, -1]]),
    "none": None,
}


def _target_variable(T, kind, dtype):
    if kind == "none":
        return None
    return T.lvector("t") if kind == "labels" else T.TensorType(dtype, (False, False))("t")


# -- views between the inputs and the logits ---------------------------------------------------------------------------------------------

_UPPER = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1]])
_UPPER_INVERSE = np.array([[1, -1, 1], [0, 1, -1], [0, 0, 1]])


def _strided(a):
    wide = np.zeros((ROWS + 2, 2 * COLUMNS), dtype=a.dtype)
    wide[1:-1, ::2] = a
    return [wide]


VIEWS = (
    View("plain", lambda T, x: x[0], lambda a: [a], lambda a: [a]),
    View("transposed", lambda T, x: x[0].T, lambda a: [a.T], lambda a: [a.T]),
    View("reshaped", lambda T, x: x[0].reshape((ROWS, COLUMNS)), lambda a: [a.ravel()], lambda a: [a.ravel()]),
    View(
        "dimshuffled",
        lambda T, x: T.addbroadcast(x[0], 1).dimshuffle(0, 2),
        lambda a: [a[:, None, :]],
        lambda a: [a[:, None, :]],
    ),
    View("subtensor", lambda T, x: x[0][1:-1, ::2], _strided, _strided),
    View(
        "dot",
        lambda T, x: T.dot(x[0], _as(T, _UPPER, x[0])),
        lambda a: [a.dot(_UPPER_INVERSE)],
        lambda a: [a.dot(_UPPER.T)],
    ),
    View(
        "batched_dot",
        lambda T, x: T.batched_dot(x[0], _as(T, np.array([_UPPER] * ROWS), x[0])),
        lambda a: [a.dot(_UPPER_INVERSE)],
        lambda a: [a.dot(_UPPER.T)],
    ),
    View("stacked", lambda T, x: T.stack(x, axis=1), lambda a: list(a.T), lambda a: list(a.T)),
)


def _as(T, values, like):
    return T.constant(values.astype(like.dtype))


# -- reductions --------------------------------------------------------------------------------------------------------------------------


def _weighted(T, loss):
    weights = T.constant(np.array(WEIGHTS).astype(loss.dtype))
    return (loss * (weights if loss.ndim == 1 else weights.dimshuffle(0, "x"))).sum()


REDUCTIONS = (
    ("sum", lambda T, loss: loss.sum(), lambda columns: [1] * ROWS),
    ("mean", lambda T, loss: loss.mean(), lambda columns: [1 / mpmath.mpf(ROWS * columns)] * ROWS),
    ("weighted", _weighted, lambda columns: WEIGHTS),
    ("indexed", lambda T, loss: loss[np.array(INDEX)].sum(), lambda columns: [INDEX.count(i) for i in range(ROWS)]),
)
"""Tuples (name, cost, weights).

`cost` computes the cost from the losses. `weights` computes the weights of the rows from the number of losses in a row.
"""

COMPUTED = ("cost", "gradient", "both", "second")
MODES = ("FAST_COMPILE", "FAST_RUN")
DTYPES = ("float32", "float64")


# -- exact values ------------------------------------------------------------------------------------------------------------------------


def _derivatives(f, z):
    """Return f(z), its gradient and its Hessian, by central differences."""

    def at(i, j=None, steps=(0, 0)):
        moved = list(z)
        moved[i] += steps[0] * STEP
        if j is not None:
            moved[j] += steps[1] * STEP
        return f(moved)

    n = len(z)
    value = f(z)
    gradient = [(at(i, None, (1, 0)) - at(i, None, (-1, 0))) / (2 * STEP) for i in range(n)]
    hessian = np.empty((n, n), dtype=object)
    for i in range(n):
        for j in range(i + 1):
            corners = sum(si * sj * at(i, j, (si, sj)) for si, sj in product((1, -1), repeat=2))
            hessian[i, j] = hessian[j, i] = corners / (4 * STEP**2)
    return value, np.array(gradient, dtype=object), hessian


Exact = namedtuple("Exact", "cost gradient second")
"""Each field is a list of pairs of arrays of mpf: the exact result, and the scale of the unavoidable error."""

_known = {}


def _of_row(loss, z, t):
    """Return the sum of the losses of a row, its gradient and Hessian, cached because many cases use them."""
    key = (loss.exact, tuple(z), None if t is None else tuple(np.ravel(t).tolist()))
    if key not in _known:
        with mpmath.workdps(DIGITS):
            z = [mpmath.mpf(v) for v in z]
            t = None if t is None else t.tolist()
            if loss.elementwise:
                targets = t or [None] * len(z)
                single = [_derivatives(lambda v, u=u: loss.exact(v[0], u), [v]) for v, u in zip(z, targets)]
                hessian = np.zeros((len(z), len(z)), dtype=object)
                for i, (_, _, second) in enumerate(single):
                    hessian[i, i] = second[0, 0]
                gradient = np.array([first[0] for _, first, _ in single], dtype=object)
                _known[key] = sum(value for value, _, _ in single), gradient, hessian
            else:
                _known[key] = _derivatives(lambda row: loss.exact(row, t), z)
    return _known[key]


def exact(loss, view, factors, logits):
    """Return the cost, the gradient, and the derivative of the gradient in `DIRECTION`, as `Exact`.

    Parameters
    ----------
    factors : list of number
        The weight of each row in the cost.
    logits : nested list
    """
    z, targets, direction = np.array(logits), TARGETS[loss.target], np.array(DIRECTION)
    cost, cost_scale = mpmath.mpf(0), mpmath.mpf(0)
    parts = [np.zeros((ROWS, COLUMNS), dtype=object) for _ in range(4)]
    gradient, gradient_scale, second, second_scale = parts
    for r, factor in enumerate(factors):
        value, g, hessian = _of_row(loss, z[r].tolist(), None if targets is None else targets[r])
        size = np.abs(z[r])
        cost += factor * value
        cost_scale += factor * (abs(value) + sum(size * abs(g)) + loss.cost_floor)
        gradient[r] = factor * g
        gradient_scale[r] = factor * (abs(g) + abs(hessian).dot(size) + loss.floor)
        second[r] = factor * hessian.dot(direction[r])
        second_scale[r] = factor * ((1 + max(size)) * abs(hessian).dot(abs(direction[r])) + loss.floor)
    return Exact(
        [(np.array(cost, dtype=object), np.array(cost_scale, dtype=object))],
        list(zip(view.pull(gradient), view.pull(gradient_scale))),
        list(zip(view.pull(second), view.pull(second_scale))),
    )


def error(got, wanted, scale, dtype):
    """Return the largest distance between two arrays, in units in the last place of `scale`.

    The distance is infinite if an element of `got` is not finite. If the exact value exceeds the range of the dtype,
    the result may be infinite. If the exact value is below the smallest normal number, the result may be 0.
    """
    info = np.finfo(dtype)
    eps, largest, tiny = (mpmath.mpf(float(v)) for v in (info.eps, info.max, info.tiny))
    worst = 0.0
    for g, w, s in zip(np.ravel(got), np.ravel(wanted), np.ravel(scale)):
        g = float(g)
        if abs(w) > largest and abs(g) == np.inf:
            continue
        if not np.isfinite(g):
            return np.inf
        difference = abs(mpmath.mpf(g) - w)
        if difference > tiny:
            worst = max(worst, float(difference / (eps * s)) if s else np.inf)
    return worst


# -- running -----------------------------------------------------------------------------------------------------------------------------

Case = namedtuple("Case", "loss view reduction computed mode dtype")


def described(case):
    return " ".join([case.loss.name, case.view.name, case.reduction[0], case.computed, case.mode, case.dtype])


def all_cases(losses):
    """Yield all cases of the table."""
    for row in product(losses, VIEWS, REDUCTIONS, COMPUTED, MODES, DTYPES):
        yield Case(*row)


def some_cases(losses, each_mode=True):
    """Yield one case per loss, view and mode; any two values of two fields occur together in some case.

    If `each_mode` is false, yield one case per loss and view, with alternating modes, for tables of many similar
    losses.
    """
    for i, loss in enumerate(losses):
        for j, view in enumerate(VIEWS):
            for k, mode in enumerate(MODES):
                if not each_mode and (i + j + k) % 2:
                    continue
                reduction = REDUCTIONS[(i + j + 2 * k) % 4]
                done = COMPUTED[(i // 4 + j // 2 + i + 3 * k + 1) % 4]
                yield Case(loss, view, reduction, done, mode, DTYPES[(i // 2 + j + j // 4 + k) % 2])


def build(theano, case, linker="py"):
    """Compile a function of the inputs of the case's view, and of its target if it has one.

    Parameters
    ----------
    theano : module
    linker : str

    Returns
    -------
    theano.compile.Function
    """
    T = theano.tensor
    inputs = [T.TensorType(case.dtype, [n == 1 for n in a.shape])() for a in _split(case, LOGITS[0])]
    t = _target_variable(T, case.loss.target, case.dtype)
    loss = case.loss.build(T, case.view.make(T, inputs), t)
    cost = case.reduction[1](T, loss)
    outputs = []
    if case.computed in ("cost", "both"):
        outputs.append(cost)
    if case.computed != "cost":
        gradients = T.grad(cost, inputs)
        if case.computed == "second":
            directions = [_as(T, d, x) for d, x in zip(_split(case, DIRECTION), inputs)]
            along = sum((g * d).sum() for g, d in zip(gradients, directions))
            gradients = T.grad(along, inputs)
        outputs += gradients
    arguments = inputs if t is None else inputs + [t]
    optimizer = case.mode.lower()
    return theano.function(arguments, outputs, mode=theano.Mode(linker, optimizer), on_unused_input="ignore")


def _split(case, values):
    return case.view.split(np.array(values))


def compare(theano, case, linker="py"):
    """Run a case on all `LOGITS`.

    Parameters
    ----------
    theano : module
    linker : str

    Returns
    -------
    list of (float, int)
        For each matrix of logits, the largest `error` and the number of elements compared.
    """
    run = build(theano, case, linker)
    loss = case.loss
    target = TARGETS[loss.target]
    factors = case.reduction[2](COLUMNS if loss.elementwise else 1)
    found = []
    for logits in LOGITS:
        arguments = [a.astype(case.dtype) for a in _split(case, logits)]
        if target is not None:
            arguments.append(target if loss.target == "labels" else target.astype(case.dtype))
        with np.errstate(all="ignore"):
            results = run(*arguments)
        answers = exact(loss, case.view, factors, logits)
        wanted = {"both": answers.cost + answers.gradient}.get(case.computed) or getattr(answers, case.computed)
        worst = max(error(result, w, scale, case.dtype) for result, (w, scale) in zip(results, wanted))
        found.append((worst, sum(np.size(result) for result in results)))
    return found
