"""How the time of `theano.function` grows with the graph, for many kinds of graphs, forward and with the gradient.

    python benchmarks/scaling.py                            # every family at 1,000 and 8,000 nodes; some minutes
    python benchmarks/scaling.py join_of_slices tree        # some of them
    python benchmarks/scaling.py --sizes 500 2000 --forward
    python benchmarks/scaling.py softmax --profile          # where the time goes at the larger size

CPU seconds of this process: rewriting and linking, without the C compiler. An exponent of 1 is proportional, 2 quadratic. Nodes are those of
the graph as it was written, before any rewriting; those of the gradient count too. The cache starts empty.
"""
import argparse
import cProfile
import gc
import math
import os
import pstats
import tempfile
import time

import measure

SIZES = (1000, 8000)

FAMILIES = {}


def family(function):
    """Register a function ``(T, steps)`` that returns the inputs to differentiate by, the other inputs, and a scalar."""
    FAMILIES[function.__name__] = function
    return function


@family
def elementwise(T, steps):
    x = h = T.dvector("x")
    for i in range(steps):
        h = h * 0.9 + x if i % 3 == 0 else T.tanh(h) if i % 3 == 1 else abs(h) + 1.5
    return [x], [], h.sum()


@family
def broadcasting(T, steps):
    h, row, column = T.dmatrix("h"), T.drow("row"), T.dcol("column")
    inputs = [h, row, column]
    for i in range(steps):
        h = T.exp(h * row) if i % 2 else h / column - row
    return inputs, [], h.sum()


@family
def dot_of_vectors(T, steps):
    h, w = T.dvector("x"), T.dvector("w")
    inputs = [h, w]
    for i in range(steps):
        h = T.dot(h, w) * w if i % 2 else T.tanh(h * w)
    return inputs, [], h.sum()


@family
def gemv(T, steps):
    h, m, b = T.dvector("x"), T.dmatrix("m"), T.dvector("b")
    inputs = [h, m, b]
    for _ in range(steps):
        h = T.tanh(T.dot(m, h) + b)
    return inputs, [], h.sum()


@family
def layers(T, steps):
    x = h = T.dmatrix("x")
    inputs = []
    for _ in range(steps):
        w, b = T.dmatrix(), T.dvector()
        inputs += [w, b]
        h = T.nnet.sigmoid(T.dot(h, w) + b)
    return inputs, [x], h.sum()


@family
def residual_blocks(T, steps):
    x = h = T.dmatrix("x")
    w, v = T.dmatrix("w"), T.dmatrix("v")
    for _ in range(steps):
        h = h + T.dot(T.nnet.relu(T.dot(h, w)), v)
    return [w, v], [x], h.sum()


@family
def recurrent_cells(T, steps):
    x, w, b = T.dmatrix("x"), T.dmatrix("w"), T.dvector("b")
    h = c = x
    for _ in range(steps):
        z = T.dot(h, w) + b
        i, f, o, g = [z[:, 8 * k:8 * (k + 1)] for k in range(4)]
        c = T.nnet.sigmoid(f) * c + T.nnet.sigmoid(i) * T.tanh(g)
        h = T.nnet.sigmoid(o) * T.tanh(c)
    return [w, b], [x], h.sum()


@family
def softmax(T, steps):
    x = h = T.dmatrix("x")
    w = T.dmatrix("w")
    for _ in range(steps):
        h = T.nnet.softmax(T.dot(h, w))
    return [w], [x], h.sum()


@family
def cross_entropy(T, steps):
    x, y, cost, inputs = T.dmatrix("x"), T.ivector("y"), 0, []
    for _ in range(steps):
        w = T.dmatrix()
        inputs.append(w)
        cost = cost + T.nnet.categorical_crossentropy(T.nnet.softmax(T.dot(x, w)), y).mean()
    return inputs, [x, y], cost


@family
def binary_cross_entropy(T, steps):
    x, y, cost, inputs = T.dmatrix("x"), T.dvector("y"), 0, []
    for _ in range(steps):
        w = T.dvector()
        inputs.append(w)
        cost = cost + T.nnet.binary_crossentropy(T.nnet.sigmoid(T.dot(x, w)), y).mean()
    return inputs, [x, y], cost


@family
def log_and_exp(T, steps):
    x = h = T.dvector("x")
    for i in range(steps):
        h = T.log(1 + T.exp(h)) if i % 2 else T.log(T.nnet.sigmoid(h))
    return [x], [], h.sum()


@family
def join_of_slices(T, steps):
    x = h = T.dvector("x")
    for _ in range(steps):
        h = T.join(0, h[2:], T.tanh(h[:2]))
    return [x], [], h.sum()


@family
def split(T, steps):
    x = h = T.dvector("x")
    for _ in range(steps):
        a, b = T.split(h, [2, 2], 2)
        h = T.join(0, b, a * b)
    return [x], [], h.sum()


@family
def stack(T, steps):
    x = T.dvector("x")
    return [x], [], T.tanh(T.stack([x[i] * (i + 1) for i in range(steps)])).sum()


@family
def set_subtensor(T, steps):
    x = h = T.dmatrix("x")
    for i in range(steps):
        h = T.set_subtensor(h[i % 5], T.tanh(h[(i + 1) % 5]))
    return [x], [], h.sum()


@family
def inc_subtensor(T, steps):
    x = h = T.dvector("x")
    for i in range(steps):
        h = T.inc_subtensor(h[:3], h[i % 5] * 2)
    return [x], [], h.sum()


@family
def slices(T, steps):
    x = T.dvector("x")
    return [x], [], sum((x[i:] * (i + 1)).sum() for i in range(steps))


@family
def slices_of_slices(T, steps):
    x = h = T.dmatrix("x")
    for _ in range(steps):
        h = T.tanh(h[1:-1, ::2]) if _ % 2 else T.exp(h[:, 1:])
    return [x], [], h.sum()


@family
def reversed_slices(T, steps):
    x = h = T.dvector("x")
    for i in range(steps):
        h = h[::-1] * x if i % 2 else T.tanh(h[::-1])
    return [x], [], h.sum()


@family
def reshapes(T, steps):
    x = h = T.dmatrix("x")
    for _ in range(steps):
        h = T.tanh(h.reshape((4, 6)).dimshuffle(1, 0).flatten()).reshape((2, 12))
    return [x], [], h.sum()


@family
def switch(T, steps):
    x = h = T.dvector("x")
    for _ in range(steps):
        h = T.switch(h > 0.5, h * x, T.exp(h))
    return [x], [], h.sum()


@family
def clip_and_cast(T, steps):
    x = h = T.dvector("x")
    for i in range(steps):
        h = T.clip(h, 0, 1) + T.cast(h, "float32") if i % 2 else T.maximum(h, x) * T.cast(T.eq(h, x), "int8")
    return [x], [], h.sum()


@family
def reductions(T, steps):
    x = h = T.dmatrix("x")
    for i in range(steps):
        h = (h - h.mean(axis=0)) / h.sum(axis=1, keepdims=True) if i % 2 else T.sqr(h) / T.prod(h, axis=0)
    return [x], [], h.sum()


@family
def normalization(T, steps):
    x = h = T.dmatrix("x")
    g = T.dvector("g")
    for _ in range(steps):
        h = (h - h.mean(axis=1, keepdims=True)) / T.sqrt(h.var(axis=1, keepdims=True) + 1e-5) * g
    return [x, g], [], h.sum()


@family
def maxima(T, steps):
    x = h = T.dmatrix("x")
    for i in range(steps):
        h = T.exp(h - h.max(axis=1, keepdims=True)) if i % 2 else h + h.max(axis=0)
    return [x], [], h.sum()


@family
def advanced_indexing(T, steps):
    x = h = T.dmatrix("x")
    i, j = T.lvector("i"), T.lvector("j")
    for k in range(steps):
        h = h[i] * 2 if k % 2 else h + h[i, j]
    return [x], [i, j], h.sum()


@family
def alloc(T, steps):
    x = h = T.dvector("x")
    for _ in range(steps):
        h = T.alloc(T.tanh(h.sum()), h.shape[0]) * x + T.zeros_like(h)
    return [x], [], h.sum()


@family
def conditionals(T, steps):
    from theano_ng.ifelse import ifelse

    x = h = T.dvector("x")
    c = T.bscalar("c")
    for _ in range(steps):
        h = ifelse(c, T.tanh(h), h * x)
    return [x], [c], h.sum()


@family
def op_from_graph(T, steps):
    from theano_ng.compile.builders import OpFromGraph

    a, b = T.dvectors("ab")
    op = OpFromGraph([a, b], [T.tanh(a * b)])
    x = h = T.dvector("x")
    for _ in range(steps):
        h = op(h, x) + x
    return [x], [], h.sum()


@family
def inlined_op_from_graph(T, steps):
    from theano_ng.compile.builders import OpFromGraph

    a, b = T.dvectors("ab")
    op = OpFromGraph([a, b], [T.tanh(a * b)], inline=True)
    x = h = T.dvector("x")
    for _ in range(steps):
        h = op(h, x) + x
    return [x], [], h.sum()


@family
def tree(T, steps):
    leaves = [T.dvector() for _ in range(steps)]
    level = leaves
    while len(level) > 1:
        level = [T.tanh(a) * b for a, b in zip(level[::2], level[1::2])] + level[len(level) // 2 * 2:]
    return leaves, [], level[0].sum()


@family
def fan(T, steps):
    x = T.dvector("x")
    return [x], [], sum(T.tanh(x * (i + 2)) for i in range(steps)).sum()


@family
def fan_of_outer_products(T, steps):
    x, v = T.dmatrix("x"), T.dvector("v")
    h = v
    for i in range(steps):
        h = h + T.dot(x, v * (i + 2))
    return [x, v], [], h.sum()


@family
def long_sum_and_product(T, steps):
    xs = [T.dvector() for _ in range(steps)]
    total = xs[0]
    product = xs[0]
    for x in xs[1:]:
        total = total + x
        product = product * x
    return xs, [], (total * product).sum()


@family
def shared_factors(T, steps):
    x, a, b = T.dvector("x"), T.dvector("a"), T.dvector("b")
    h = x
    for _ in range(steps):
        h = (a * h + b * h) / (1 + h * h)
    return [x, a, b], [], h.sum()


@family
def powers(T, steps):
    x = h = T.dvector("x")
    for i in range(steps):
        h = h ** 3 if i % 2 else T.sqrt(abs(h)) * h
    return [x], [], h.sum()


@family
def sums_of_powers(T, steps):
    x = T.dvector("x")
    power, total = x, x
    for i in range(steps):
        power = power * x
        total = total + power * (i + 2)
    return [x], [], total.sum()


def steps_for(T, make, size, gradient):
    """The steps that give a graph of about `size` nodes."""
    few, more = (count_nodes(*build(T, make, steps, gradient)) for steps in (16, 48))
    return max(1, round(16 + (size - few) * 32 / (more - few)))


def build(T, make, steps, gradient):
    wrt, others, cost = make(T, steps)
    return wrt + others, [cost] + (T.grad(cost, wrt, disconnected_inputs="ignore") if gradient else [])


def count_nodes(inputs, outputs):
    from theano_ng.gof.graph import io_toposort

    return len(io_toposort(inputs, outputs))


def show_profile(function):
    profile = cProfile.Profile()
    profile.runcall(function)
    statistics = pstats.Stats(profile)
    statistics.sort_stats("cumulative").print_stats(45)
    statistics.sort_stats("tottime").print_stats(25)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("families", nargs="*", metavar="family", help="of %s; default: all" % ", ".join(FAMILIES))
    parser.add_argument("--sizes", nargs=2, type=int, default=SIZES, help="nodes of the two graphs")
    parser.add_argument("--forward", action="store_true", help="only the graph itself")
    parser.add_argument("--gradient", action="store_true", help="only with the gradient")
    parser.add_argument("--profile", action="store_true", help="print a profile of the larger graph instead of the table")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.families if name not in FAMILIES]
    if unknown:
        parser.error("unknown families: %s" % ", ".join(unknown))
    kinds = [kind for kind, chosen in ((False, arguments.forward), (True, arguments.gradient))
             if chosen or arguments.forward == arguments.gradient]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["THEANO_FLAGS"] = ",".join(filter(None, [os.environ.get("THEANO_FLAGS"), "base_compiledir=" + folder]))
        import theano_ng as theano
        import theano_ng.tensor as T

        if not arguments.profile:
            table = measure.Table("Rewriting and linking, CPU seconds without the C compiler", "family", "nodes", "building",
                                  *("%d nodes" % size for size in arguments.sizes), "exponent", "ms per node", "nodes compiled")
        for name in arguments.families or FAMILIES:
            make = FAMILIES[name]
            for gradient in kinds:
                theano.function(*build(T, make, 4, gradient), on_unused_input="ignore")      # what is imported once
                label = name + (", gradient" if gradient else "")
                nodes, times = [], []
                for size in arguments.sizes[arguments.profile:]:
                    steps = steps_for(T, make, size, gradient)
                    gc.collect()
                    start = time.process_time()
                    inputs, outputs = build(T, make, steps, gradient)
                    building = time.process_time() - start
                    nodes.append(count_nodes(inputs, outputs))
                    if arguments.profile:
                        print(label, nodes)
                        show_profile(lambda: theano.function(inputs, outputs, on_unused_input="ignore"))
                        continue
                    start = time.process_time()
                    function = theano.function(inputs, outputs, on_unused_input="ignore")
                    times.append(time.process_time() - start)
                if not arguments.profile:
                    table.row(label.replace("_", " "), "%d" % nodes[1], measure.show_time(building), *map(measure.show_time, times),
                              "%.2f" % (math.log(times[1] / times[0]) / math.log(nodes[1] / nodes[0])),
                              "%.2f" % (1e3 * times[1] / nodes[1]), "%d" % len(function.maker.fgraph.apply_nodes))


if __name__ == "__main__":
    main()
