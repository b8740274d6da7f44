"""Families of graphs: each a function of the number of steps.

`benchmarks/scaling.py` measures how the time of compiling them grows; `tensor/tests/test_opt_growth.py` counts how the work does.
"""

import theano_ng.tensor as T
from theano_ng.compile.builders import OpFromGraph
from theano_ng.gof.graph import io_toposort
from theano_ng.ifelse import ifelse

FAMILIES = {}


def family(function):
    """Register a function of the number of steps that returns the inputs to differentiate by, the other inputs, and a scalar."""
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
    """As `long_sum_and_product`, of numbers that may be overwritten."""
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
    """Quotients of sums of which all is known: their derivatives are those of logarithms."""
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


def build(make, steps, gradient):
    """The inputs and outputs of a graph of a family; with `gradient`, the gradients are outputs, too."""
    wrt, others, cost = make(steps)
    return wrt + others, [cost] + (T.grad(cost, wrt) if gradient else [])


def count_nodes(inputs, outputs):
    return len(io_toposort(inputs, outputs))


def steps_for(make, size, gradient):
    """The steps that give a graph of about `size` nodes."""
    few, more = (count_nodes(*build(make, steps, gradient)) for steps in (16, 48))
    return max(1, round(16 + (size - few) * 32 / (more - few)))
