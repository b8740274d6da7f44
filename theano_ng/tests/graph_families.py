"""Families of graphs. Each family is a function of the number of steps.

`benchmarks/scaling.py` measures how the compile time grows with the number of steps. `tensor/tests/test_opt_growth.py`
counts how the work grows.
"""

import numpy as np

import theano_ng.tensor as T
from theano_ng.compile.builders import OpFromGraph
from theano_ng.gof.graph import io_toposort
from theano_ng.ifelse import ifelse
from theano_ng.scan import scan

FAMILIES = {}


def family(function):
    """Register a family: a function that returns inputs to differentiate by, other inputs, and a scalar cost."""
    FAMILIES[function.__name__] = function
    return function


@family
def elementwise(steps):
    x = h = T.dvector("x")
    for i in range(steps):
        h = h * 0.9 + x if i % 3 == 0 else T.tanh(h) if i % 3 == 1 else abs(h) + 1.5
    return [x], [], h.sum()


@family
def broadcasting(steps):
    h, row, column = T.dmatrix("h"), T.drow("row"), T.dcol("column")
    inputs = [h, row, column]
    for i in range(steps):
        h = T.exp(h * row) if i % 2 else h / column - row
    return inputs, [], h.sum()


@family
def dot_of_vectors(steps):
    h, w = T.dvector("x"), T.dvector("w")
    inputs = [h, w]
    for i in range(steps):
        h = T.dot(h, w) * w if i % 2 else T.tanh(h * w)
    return inputs, [], h.sum()


@family
def gemv(steps):
    h, m, b = T.dvector("x"), T.dmatrix("m"), T.dvector("b")
    inputs = [h, m, b]
    for _ in range(steps):
        h = T.tanh(T.dot(m, h) + b)
    return inputs, [], h.sum()


@family
def layers(steps):
    x = h = T.dmatrix("x")
    inputs = []
    for _ in range(steps):
        w, b = T.dmatrix(), T.dvector()
        inputs += [w, b]
        h = T.nnet.sigmoid(T.dot(h, w) + b)
    return inputs, [x], h.sum()


@family
def residual_blocks(steps):
    x = h = T.dmatrix("x")
    w, v = T.dmatrix("w"), T.dmatrix("v")
    for _ in range(steps):
        h = h + T.dot(T.nnet.relu(T.dot(h, w)), v)
    return [w, v], [x], h.sum()


@family
def recurrent_cells(steps):
    x, w, b = T.dmatrix("x"), T.dmatrix("w"), T.dvector("b")
    h = c = x
    for _ in range(steps):
        z = T.dot(h, w) + b
        i, f, o, g = [z[:, 8 * k : 8 * (k + 1)] for k in range(4)]
        c = T.nnet.sigmoid(f) * c + T.nnet.sigmoid(i) * T.tanh(g)
        h = T.nnet.sigmoid(o) * T.tanh(c)
    return [w, b], [x], h.sum()


@family
def softmax(steps):
    x = h = T.dmatrix("x")
    w = T.dmatrix("w")
    for _ in range(steps):
        h = T.nnet.softmax(T.dot(h, w))
    return [w], [x], h.sum()


@family
def cross_entropy(steps):
    x, y, cost, inputs = T.dmatrix("x"), T.ivector("y"), 0, []
    for _ in range(steps):
        w = T.dmatrix()
        inputs.append(w)
        cost = cost + T.nnet.categorical_crossentropy(T.nnet.softmax(T.dot(x, w)), y).mean()
    return inputs, [x, y], cost


@family
def binary_cross_entropy(steps):
    x, y, cost, inputs = T.dmatrix("x"), T.dvector("y"), 0, []
    for _ in range(steps):
        w = T.dvector()
        inputs.append(w)
        cost = cost + T.nnet.binary_crossentropy(T.nnet.sigmoid(T.dot(x, w)), y).mean()
    return inputs, [x, y], cost


@family
def log_and_exp(steps):
    x = h = T.dvector("x")
    for i in range(steps):
        h = T.log(1 + T.exp(h)) if i % 2 else T.log(T.nnet.sigmoid(h))
    return [x], [], h.sum()


@family
def join_of_slices(steps):
    x = h = T.dvector("x")
    for _ in range(steps):
        h = T.join(0, h[2:], T.tanh(h[:2]))
    return [x], [], h.sum()


@family
def split(steps):
    x = h = T.dvector("x")
    for _ in range(steps):
        a, b = T.split(h, [2, 2], 2)
        h = T.join(0, b, a * b)
    return [x], [], h.sum()


@family
def stack(steps):
    x = T.dvector("x")
    return [x], [], T.tanh(T.stack([x[i] * (i + 1) for i in range(steps)])).sum()


@family
def set_subtensor(steps):
    x = h = T.dmatrix("x")
    for i in range(steps):
        h = T.set_subtensor(h[i % 5], T.tanh(h[(i + 1) % 5]))
    return [x], [], h.sum()


@family
def inc_subtensor(steps):
    x = h = T.dvector("x")
    for i in range(steps):
        h = T.inc_subtensor(h[:3], h[i % 5] * 2)
    return [x], [], h.sum()


@family
def slices(steps):
    x = T.dvector("x")
    return [x], [], sum((x[i:] * (i + 1)).sum() for i in range(steps))


@family
def slices_of_slices(steps):
    x = h = T.dmatrix("x")
    for i in range(steps):
        h = T.tanh(h[1:-1, ::2]) if i % 2 else T.exp(h[:, 1:])
    return [x], [], h.sum()


@family
def reversed_slices(steps):
    x = h = T.dvector("x")
    for i in range(steps):
        h = h[::-1] * x if i % 2 else T.tanh(h[::-1])
    return [x], [], h.sum()


@family
def reshapes(steps):
    x = h = T.dmatrix("x")
    for _ in range(steps):
        h = T.tanh(h.reshape((4, 6)).dimshuffle(1, 0).flatten()).reshape((2, 12))
    return [x], [], h.sum()


@family
def switch(steps):
    x = h = T.dvector("x")
    for _ in range(steps):
        h = T.switch(h > 0.5, h * x, T.exp(h))
    return [x], [], h.sum()


@family
def clip_and_cast(steps):
    x = h = T.dvector("x")
    for i in range(steps):
        h = T.clip(h, 0, 1) + T.cast(h, "float32") if i % 2 else T.maximum(h, x) * T.cast(T.eq(h, x), "int8")
    return [x], [], h.sum()


@family
def reductions(steps):
    x = h = T.dmatrix("x")
    for i in range(steps):
        h = (h - h.mean(axis=0)) / h.sum(axis=1, keepdims=True) if i % 2 else T.sqr(h) / T.prod(h, axis=0)
    return [x], [], h.sum()


@family
def normalization(steps):
    x = h = T.dmatrix("x")
    g = T.dvector("g")
    for _ in range(steps):
        h = (h - h.mean(axis=1, keepdims=True)) / T.sqrt(h.var(axis=1, keepdims=True) + 1e-5) * g
    return [x, g], [], h.sum()


@family
def maxima(steps):
    x = h = T.dmatrix("x")
    for i in range(steps):
        h = T.exp(h - h.max(axis=1, keepdims=True)) if i % 2 else h + h.max(axis=0)
    return [x], [], h.sum()


@family
def advanced_indexing(steps):
    x = h = T.dmatrix("x")
    i, j = T.lvector("i"), T.lvector("j")
    for k in range(steps):
        h = h[i] * 2 if k % 2 else h + h[i, j]
    return [x], [i, j], h.sum()


@family
def alloc(steps):
    x = h = T.dvector("x")
    for _ in range(steps):
        h = T.alloc(T.tanh(h.sum()), h.shape[0]) * x + T.zeros_like(h)
    return [x], [], h.sum()


@family
def conditionals(steps):
    x = h = T.dvector("x")
    c = T.bscalar("c")
    for _ in range(steps):
        h = ifelse(c, T.tanh(h), h * x)
    return [x], [c], h.sum()


@family
def op_from_graph(steps):
    a, b = T.dvectors("ab")
    op = OpFromGraph([a, b], [T.tanh(a * b)])
    x = h = T.dvector("x")
    for _ in range(steps):
        h = op(h, x) + x
    return [x], [], h.sum()


@family
def inlined_op_from_graph(steps):
    a, b = T.dvectors("ab")
    op = OpFromGraph([a, b], [T.tanh(a * b)], inline=True)
    x = h = T.dvector("x")
    for _ in range(steps):
        h = op(h, x) + x
    return [x], [], h.sum()


@family
def tree(steps):
    leaves = [T.dvector() for _ in range(steps)]
    level = leaves
    while len(level) > 1:
        level = [T.tanh(a) * b for a, b in zip(level[::2], level[1::2])] + level[len(level) // 2 * 2 :]
    return leaves, [], level[0].sum()


@family
def fan(steps):
    x = T.dvector("x")
    return [x], [], sum(T.tanh(x * (i + 2)) for i in range(steps)).sum()


@family
def fan_of_outer_products(steps):
    x, v = T.dmatrix("x"), T.dvector("v")
    h = v
    for i in range(steps):
        h = h + T.dot(x, v * (i + 2))
    return [x, v], [], h.sum()


@family
def long_sum_and_product(steps):
    xs = [T.dvector() for _ in range(steps)]
    total = xs[0]
    product = xs[0]
    for x in xs[1:]:
        total = total + x
        product = product * x
    return xs, [], (total * product).sum()


@family
def prefixes_and_suffixes(steps):
    """Build a graph like `long_sum_and_product`, with computed terms that later nodes may overwrite."""
    xs = [T.dmatrix() for _ in range(steps)]
    total, product = xs[0].sum(axis=0), xs[0].sum(axis=0)
    for x in xs[1:]:
        total = total + x.sum(axis=0)
        product = product * x.sum(axis=0)
    return xs, [], (total * product).sum()


@family
def shared_factors(steps):
    x, a, b = T.dvector("x"), T.dvector("a"), T.dvector("b")
    h = x
    for _ in range(steps):
        h = (a * h + b * h) / (1 + h * h)
    return [x, a, b], [], h.sum()


@family
def shared_exponentials(steps):
    """Build quotients of sums of exponentials, as they occur in derivatives of logarithms of such sums."""
    x, a, b = T.dvector("x"), T.dvector("a"), T.dvector("b")
    h = T.exp(x)
    for _ in range(steps):
        h = (T.exp(a) * h + T.exp(b) * h) / (h * T.exp(a) + 2 * h)
    return [x, a, b], [], h.sum()


@family
def powers(steps):
    x = h = T.dvector("x")
    for i in range(steps):
        h = h**3 if i % 2 else T.sqrt(abs(h)) * h
    return [x], [], h.sum()


@family
def sums_of_powers(steps):
    x = T.dvector("x")
    power, total = x, x
    for i in range(steps):
        power = power * x
        total = total + power * (i + 2)
    return [x], [], total.sum()


# -- unrolled iterations -------------------------------------------------------------------------------------------------------------------


def _iterated(name, step):
    """Register the unrolled iteration ``h = step(h)`` or ``h = step(h, a)``. h starts as a vector x; a is a vector."""
    others = step.__code__.co_argcount - 1

    def make(steps):
        inputs = T.dvectors("x", "a")[: 1 + others]
        h, *a = inputs
        for _ in range(steps):
            h = step(h, *a)
        return inputs, [], h.sum()

    make.__name__ = make.__qualname__ = name
    return family(make)


_iterated("newton_cube_root", lambda h, a: h - (h**3 - a) / (3 * h**2))
_iterated("newton_square_root", lambda h, a: h - (h**2 - a) / (2 * h))
_iterated("heron", lambda h, a: 0.5 * (h + a / h))
_iterated("newton_reciprocal", lambda h, a: h * (2 - a * h))
_iterated("halley", lambda h, a: h * (h**3 + 2 * a) / (2 * h**3 + a))
_iterated("share_and_complement", lambda h: 1 / (1 + h) * (1 - 1 / (1 + h)))
_iterated("cross_entropy_by_hand", lambda h, a: -(h * T.log(a) + (1 - h) * T.log(1 - a)))
_iterated("cross_entropies_chained", lambda h, a: T.nnet.binary_crossentropy(T.nnet.sigmoid(h), T.nnet.sigmoid(a)))
_iterated("abs_quotient_sign", lambda h, a: abs(h) / abs(a) * T.sgn(h))
_iterated("abs_share", lambda h, a: abs(h) / (abs(h) + abs(a)))
_iterated("times_own_sum", lambda h: h * h.sum())
_iterated("tanh_by_hand", lambda h: (T.exp(h) - T.exp(-h)) / (T.exp(h) + T.exp(-h)))
_iterated("x_log_x", lambda h: -(h * T.log(h)))
_iterated("softmax_by_hand", lambda h: T.exp(h) / T.exp(h).sum())
_iterated("softmax_by_hand_stable", lambda h, a: T.exp(a * h - (a * h).max()) / T.exp(a * h - (a * h).max()).sum())
_iterated("softsign", lambda h: h / (1 + abs(h)))
_iterated("logistic_by_hand", lambda h, a: 1 / (1 + T.exp(-h * a)))
_iterated("logistic_map", lambda h, a: a * h * (1 - h))
_iterated("logsumexp_by_hand", lambda h, a: h + T.log(T.sum(T.exp(h - a))))
_iterated("log_add_exp", lambda h, a: T.log(T.exp(h) + T.exp(a)))
_iterated("softplus_by_hand", lambda h, a: T.log(1 + T.exp(h)) * a)
_iterated("rational", lambda h, a: (h + a) / (h * a + 1))
_iterated("continued_fraction", lambda h, a: a / (1 + h))
_iterated("continued_fraction_of_squares", lambda h, a: a + h**2 / (1 + h))
_iterated("horner", lambda h, a: h * a + 1.5)
_iterated("horner_inwards", lambda h, a: 1.5 + a * (h + a * (0.5 + h)))
_iterated("distances", lambda h, a: T.sqrt(T.sqr(h - a) + 1e-6))
_iterated("normalized", lambda h, a: a * h / T.sqrt(T.sqr(h).sum() + 1e-6))
_iterated("standardized", lambda h, a: a * (h - h.mean()) / T.sqrt(T.mean((h - h.mean()) ** 2) + 1e-5))
_iterated("soft_threshold", lambda h, a: T.sgn(h) * T.maximum(abs(h) - 0.1 * a, 0))
_iterated("leaky_by_hand", lambda h, a: T.switch(h > 0, h, 0.1 * h) + a)
_iterated("elu_by_hand", lambda h, a: T.switch(h > 0, h, T.exp(h) - 1) * a)
_iterated("clips", lambda h, a: T.clip(h * a, -1, 1) + h)
_iterated("maxima_and_minima", lambda h, a: T.minimum(T.maximum(h, a), h * a))
_iterated("gelu", lambda h, a: 0.5 * h * (1 + T.erf(h / np.sqrt(2))) + a)
_iterated("swish", lambda h, a: h * T.nnet.sigmoid(a * h))
_iterated("powers_of_variables", lambda h, a: abs(h) ** a + 0.5)
_iterated("geometric_mean", lambda h, a: T.sqrt(abs(h * a)) + h)
_iterated("arithmetic_geometric", lambda h, a: 0.5 * (h + a) * T.sqrt(abs(h * a)) / (abs(h) + abs(a)))
_iterated("cosine_similarity", lambda h, a: a * T.sum(h * a) / (T.sqrt(T.sum(h * h)) * T.sqrt(T.sum(a * a))))
_iterated("residuals", lambda h, a: h + T.tanh(h * a))
_iterated("highway", lambda h, a: T.nnet.sigmoid(a) * T.tanh(h) + (1 - T.nnet.sigmoid(a)) * h)
_iterated("highway_of_itself", lambda h, a: T.nnet.sigmoid(h) * T.tanh(h + a) + (1 - T.nnet.sigmoid(h)) * h)
_iterated("moving_average", lambda h, a: 0.9 * h + 0.1 * a * T.tanh(h))
_iterated("negations", lambda h, a: -(-h * a - 1))
_iterated("differences", lambda h, a: a - (h - (a - h * a)))
_iterated("quotients", lambda h, a: a / (h / (a / h)))
_iterated("squares_of_sums", lambda h, a: T.sqr(h + a) / (1 + T.sqr(h)))
_iterated("trigonometric", lambda h, a: T.sin(h) * T.cos(a) + T.cos(h) * T.sin(a))
_iterated("hyperbolic", lambda h, a: T.sinh(h * 0.1) / T.cosh(h * 0.1) + a)
_iterated("rolls", lambda h, a: T.concatenate([h[1:], h[:1]]) * a)
_iterated("differences_along_rows", lambda h, a: T.concatenate([h[:1], h[1:] - h[:-1]]) + a)
_iterated("cumulated", lambda h, a: T.cumsum(h) / (1 + abs(a)))
_iterated("outer_products", lambda h, a: T.dot(T.outer(h, a), h))
_iterated("softmax_op", lambda h, a: T.nnet.softmax((h * a).dimshuffle("x", 0))[0])
_iterated("gamma_functions", lambda h, a: T.gammaln(1 + abs(h)) / (1 + abs(a)))
_iterated("casts", lambda h, a: T.cast(T.cast(h, "float32"), "float64") * a)
_iterated("powers_of_two", lambda h, a: 2.0**h / (1 + 2.0 ** (h + a)))
_iterated("huber", lambda h, a: T.switch(abs(h - a) < 1, 0.5 * T.sqr(h - a), abs(h - a) - 0.5))


@family
def runge_kutta(steps):
    x, a, dt = T.dvector("x"), T.dvector("a"), 0.01

    def slope(h):
        return a * h - h * T.sqr(h)

    h = x
    for _ in range(steps):
        k1 = slope(h)
        k2 = slope(h + dt / 2 * k1)
        k3 = slope(h + dt / 2 * k2)
        k4 = slope(h + dt * k3)
        h = h + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return [x, a], [], h.sum()


@family
def lotka_volterra(steps):
    x, y, a = T.dvector("x"), T.dvector("y"), T.dvector("a")
    prey, hunters = x, y
    for _ in range(steps):
        prey, hunters = prey + 0.1 * (prey - a * prey * hunters), hunters + 0.1 * (prey * hunters - hunters)
    return [x, y, a], [], (prey + hunters).sum()


@family
def leapfrog(steps):
    q, p, a = T.dvector("q"), T.dvector("p"), T.dvector("a")
    x, v = q, p
    for _ in range(steps):
        v = v - 0.05 * a * T.sin(x)
        x = x + 0.1 * v
        v = v - 0.05 * a * T.sin(x)
    return [q, p, a], [], (x * v).sum()


@family
def kalman(steps):
    m, p = T.dscalar("m"), T.dscalar("p")
    z, q, r = T.dvector("z"), T.dscalar("q"), T.dscalar("r")
    mean, variance, cost = m, p, 0
    for i in range(steps):
        variance = variance + q
        total = variance + r
        error = z[i % 3] - mean
        cost = cost + T.log(total) + error**2 / total
        gain = variance / total
        mean = mean + gain * error
        variance = (1 - gain) * variance
    return [m, p, q, r], [z], cost


@family
def kalman_of_matrices(steps):
    m, p, f, h, r, z = T.dvector("m"), T.dmatrix("p"), T.dmatrix("f"), T.dmatrix("h"), T.dmatrix("r"), T.dvector("z")
    mean, covariance = m, p
    for _ in range(steps):
        mean, covariance = T.dot(f, mean), T.dot(T.dot(f, covariance), f.T)
        gain = T.dot(T.dot(covariance, h.T), T.nlinalg.matrix_inverse(T.dot(T.dot(h, covariance), h.T) + r))
        mean = mean + T.dot(gain, z - T.dot(h, mean))
        covariance = covariance - T.dot(T.dot(gain, h), covariance)
    return [m, p, f], [h, r, z], mean.sum()


@family
def adam(steps):
    """Build unrolled steps of Adam that minimize a square."""
    x, a = T.dvector("x"), T.dvector("a")
    h, m, v = x, T.zeros_like(x), T.zeros_like(x)
    for t in range(1, steps + 1):
        g = 2 * (h - a)
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * T.sqr(g)
        h = h - 0.1 * (m / (1 - 0.9**t)) / (T.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return [x, a], [], h.sum()


@family
def momentum(steps):
    x, a = T.dvector("x"), T.dvector("a")
    h, v = x, T.zeros_like(x)
    for _ in range(steps):
        v = 0.9 * v - 0.1 * (h - a) * h
        h = h + v
    return [x, a], [], h.sum()


@family
def adagrad(steps):
    x, a = T.dvector("x"), T.dvector("a")
    h, total = x, T.zeros_like(x)
    for _ in range(steps):
        g = h - a
        total = total + g**2
        h = h - 0.1 * g / T.sqrt(total + 1e-6)
    return [x, a], [], h.sum()


@family
def batch_normed_layers(steps):
    x = h = T.dmatrix("x")
    inputs = []
    for _ in range(steps):
        w, gamma, beta = T.dmatrix(), T.dvector(), T.dvector()
        inputs += [w, gamma, beta]
        z = T.dot(h, w)
        h = T.nnet.relu(gamma * (z - z.mean(0)) / T.sqrt(z.var(0) + 1e-5) + beta)
    return inputs, [x], h.sum()


@family
def layer_norms(steps):
    x = h = T.dmatrix("x")
    w, g = T.dmatrix("w"), T.dvector("g")
    for _ in range(steps):
        h = h + T.dot(h, w)
        h = (h - h.mean(1, keepdims=True)) / h.std(1, keepdims=True) * g
    return [x, w, g], [], h.sum()


@family
def dense_joins(steps):
    x, w = T.dmatrix("x"), T.dvector("w")
    h = [x]
    for _ in range(steps):
        joined = T.concatenate(h, axis=1)
        h.append(T.tanh(joined.sum(axis=1, keepdims=True) * w))
    return [x, w], [], T.concatenate(h, axis=1).sum()


@family
def attention(steps):
    x = h = T.dmatrix("x")
    q, k, v = T.dmatrix("q"), T.dmatrix("k"), T.dmatrix("v")
    for _ in range(steps):
        weights = T.nnet.softmax(T.dot(T.dot(h, q), T.dot(h, k).T) / 1.5)
        h = h + T.dot(weights, T.dot(h, v))
    return [q, k, v], [x], h.sum()


@family
def gated_units(steps):
    x, h = T.dmatrix("x"), T.dmatrix("h")
    w, u, v = T.dmatrix("w"), T.dmatrix("u"), T.dmatrix("v")
    state = h
    for _ in range(steps):
        z = T.nnet.sigmoid(T.dot(state, w) + x)
        r = T.nnet.sigmoid(T.dot(state, u) + x)
        state = (1 - z) * state + z * T.tanh(T.dot(r * state, v) + x)
    return [h, w, u, v], [x], state.sum()


@family
def householder(steps):
    x = h = T.dvector("x")
    inputs = [x]
    for _ in range(steps):
        v = T.dvector()
        inputs.append(v)
        h = h - 2 * v * T.dot(v, h) / T.dot(v, v)
    return inputs, [], T.sqr(h).sum()


@family
def planar_flow(steps):
    x = h = T.dvector("x")
    u, w = T.dvector("u"), T.dvector("w")
    cost = 0
    for _ in range(steps):
        inner = T.tanh(T.dot(w, h))
        cost = cost + T.log(abs(1 + T.dot(u, (1 - inner**2) * w)))
        h = h + u * inner
    return [x, u, w], [], cost + h.sum()


@family
def couplings(steps):
    x = T.dvector("x")
    s, t = T.dvector("s"), T.dvector("t")
    a, b, cost = x[::2], x[1::2], 0
    for _ in range(steps):
        scale = T.tanh(s[::2] * a)
        a, b = b * T.exp(scale) + t[::2] * a, a
        cost = cost + scale.sum()
    return [x, s, t], [], cost + (a * b).sum()


@family
def chebyshev(steps):
    x, a = T.dvector("x"), T.dvector("a")
    before, now, total = T.ones_like(x), x, a
    for i in range(steps):
        before, now = now, 2 * x * now - before
        total = total + now * a / (i + 1)
    return [x, a], [], total.sum()


@family
def lagrange(steps):
    """Build a basis polynomial of Lagrange interpolation: a product of quotients of differences."""
    x, knots = T.dvector("x"), T.dvector("knots")
    basis = 1
    for i in range(1, steps + 1):
        basis = basis * (x - knots[i % 4]) / (knots[0] - knots[i % 4] + 2.5 * i)
    return [x, knots], [], basis.sum() if steps else x.sum()


@family
def second_derivatives(steps):
    x = h = T.dvector("x")
    for _ in range(steps):
        h = T.tanh(h) * x + T.sqr(h)
    (g,) = T.grad(h.sum(), [x])
    return [x], [], (g * x).sum()


@family
def second_derivatives_of_quotients(steps):
    x, a = T.dvector("x"), T.dvector("a")
    h = x
    for _ in range(steps):
        h = a * h / (1 + h * h)
    (g,) = T.grad(h.sum(), [x])
    return [x, a], [], (g * x).sum()


@family
def second_derivatives_of_layers(steps):
    x = h = T.dmatrix("x")
    w = T.dmatrix("w")
    for _ in range(steps):
        h = T.tanh(T.dot(h, w))
    (g,) = T.grad(h.sum(), [x])
    return [x, w], [], (g * g).sum()


@family
def nested_scans(steps):
    x, w = T.dvector("x"), T.dvector("w")

    def inner(v, w):
        h = v
        for _ in range(max(steps // 4, 1)):
            h = T.tanh(h * w)
        return h

    def outer(v, w):
        return v + scan(inner, outputs_info=[v], non_sequences=[w], n_steps=3)[0][-1]

    return [x, w], [], scan(outer, outputs_info=[x], non_sequences=[w], n_steps=2)[0][-1].sum()


@family
def scan_of_a_long_step(steps):
    x, w = T.dvector("x"), T.dvector("w")

    def step(h, w):
        for _ in range(steps):
            h = T.tanh(h * w + 0.5) * w
        return h

    return [x, w], [], scan(step, outputs_info=[x], non_sequences=[w], n_steps=5)[0][-1].sum()


@family
def scans_in_a_row(steps):
    x, w = T.dvector("x"), T.dvector("w")
    h = x
    for _ in range(max(steps // 4, 1)):
        h = scan(lambda h, w: T.tanh(h * w), outputs_info=[h], non_sequences=[w], n_steps=3)[0][-1]
    return [x, w], [], h.sum()


@family
def slices_in_a_row(steps):
    x = h = T.dvector("x")
    for i in range(steps):
        h = h[i % 2 :]
    return [x], [], h.sum()


@family
def rows_set_in_a_row(steps):
    x, y = T.dmatrix("x"), T.dvector("y")
    h = T.zeros_like(x)
    for i in range(steps):
        h = T.set_subtensor(h[i % 4], y * (i + 1))
    return [x, y], [], (h * x).sum()


@family
def dimshuffles(steps):
    x = h = T.dmatrix("x")
    for i in range(steps):
        h = h.T if i % 2 else h.dimshuffle(1, 0, "x").sum(axis=2)
    return [x], [], h.sum()


@family
def reshapes_in_a_row(steps):
    x = h = T.dvector("x")
    for _ in range(steps):
        h = h.reshape((2, -1)).flatten()
    return [x], [], h.sum()


@family
def chains_with_many_clients(steps):
    """Build chains of views in which each node has a further client."""
    x, s = T.dvector("x"), T.dscalar("s")
    slices = rows = x
    filled, cost = s, 0
    for i in range(steps):
        slices = slices[1:]
        rows = rows.reshape((-1,)) if rows.ndim == 2 else rows.reshape((2, -1))
        filled = T.alloc(filled, i + 2, *filled.shape)[0]
        cost = cost + slices.sum() * T.exp(rows).sum() * T.exp(filled).sum()
    return [x, s], [], cost


@family
def mixture_densities(steps):
    x, m, s = T.dvector("x"), T.dvector("m"), T.dvector("s")
    cost = 0
    for k in range(steps):
        z = (x - m * k) / s
        cost = cost + T.exp(-0.5 * z**2) / (s * np.sqrt(2 * np.pi))
    return [x, m, s], [], T.log(cost).sum()


@family
def forward_algorithm(steps):
    """Build the forward algorithm of hidden Markov models in the logarithmic domain."""
    start, transitions, emissions = T.dvector("start"), T.dmatrix("transitions"), T.dmatrix("emissions")
    h = start
    for i in range(steps):
        h = T.log(T.sum(T.exp(h.dimshuffle(0, "x") + transitions), axis=0)) + emissions[i % 3]
    return [start, transitions, emissions], [], T.log(T.sum(T.exp(h)))


@family
def sinkhorn(steps):
    k, x = T.dmatrix("k"), T.dmatrix("x")
    h = T.exp(x)
    for i in range(steps):
        h = h / h.sum(axis=i % 2, keepdims=True)
    return [x], [k], (h * k).sum()


@family
def power_iteration(steps):
    a, v = T.dmatrix("a"), T.dvector("v")
    h = v
    for _ in range(steps):
        h = T.dot(a, h)
        h = h / T.sqrt(T.sum(h**2))
    return [a, v], [], T.dot(h, T.dot(a, h))


@family
def conjugate_gradients(steps):
    a, b = T.dmatrix("a"), T.dvector("b")
    x = T.zeros_like(b)
    r = p = b
    for _ in range(steps):
        ap = T.dot(a, p)
        alpha = T.dot(r, r) / T.dot(p, ap)
        x, r, before = x + alpha * p, r - alpha * ap, r
        p = r + T.dot(r, r) / T.dot(before, before) * p
    return [a, b], [], x.sum()


def build(make, steps, gradient):
    """Return the inputs and outputs of a graph of a family; if `gradient` is true, gradients are outputs, too."""
    wrt, others, cost = make(steps)
    return wrt + others, [cost] + (T.grad(cost, wrt) if gradient else [])


def count_nodes(inputs, outputs):
    return len(io_toposort(inputs, outputs))


def count_operands(inputs, outputs):
    """Return the total number of inputs of all nodes.

    In a network of dense joins, this number grows faster than the number of nodes.
    """
    return sum(len(node.inputs) for node in io_toposort(inputs, outputs))


def steps_for(make, size, gradient):
    """Return the number of steps that gives a graph of about `size` nodes."""
    few, more = (count_nodes(*build(make, steps, gradient)) for steps in (16, 48))
    return max(1, round(16 + (size - few) * 32 / (more - few)))
