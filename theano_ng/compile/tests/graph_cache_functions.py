"""Compile and run varied functions; tests of the graph cache run this module in separate processes.

The module prints one record per function, as JSON: whether its rewritten graph came from the cache, the printed graph,
and the results.
"""

import contextlib
import io
import json
import sys

import numpy as np

import theano_ng as theano
from theano_ng import tensor as tt
from theano_ng.compile import graph_cache
from theano_ng.compile.io import In, Out
from theano_ng.sandbox.rng_mrg import MRG_RandomStreams
from theano_ng.tensor.shared_randomstreams import RandomStreams


def layers():
    """Return a training step: updates, BLAS, cross-entropy, in-place operations."""
    x, labels = tt.matrix("x"), tt.lvector("labels")
    w = theano.shared(np.linspace(-1, 1, 12).reshape(4, 3), "w")
    b = theano.shared(np.zeros(3), "b")
    p = tt.nnet.softmax(tt.dot(x, w) + b)
    cost = -tt.log(p[tt.arange(2), labels]).mean() + 0.01 * (w**2).sum()
    updates = [(v, v - 0.1 * g) for v, g in zip((w, b), theano.grad(cost, [w, b]))]
    f = theano.function([x, labels], [cost, p.argmax(axis=1)], updates=updates)
    data = np.arange(8.0).reshape(2, 4) / 8
    return f, [f(data, [0, 2]), f(data, [0, 2]), w.get_value(), b.get_value()]


def elementwise():
    x, y = tt.matrix("x"), tt.row("y")
    f = theano.function([x, y], [tt.exp(x) * y + 1, tt.switch(x > 0, x, -x), (x + 0) * 1])
    return f, f(np.array([[1.0, -2.0]]), [[3.0, 4.0]])


def outputs_by_name():
    x = tt.vector("x")
    f = theano.function([x], {"zeta": x + 1, "alpha": x * 2})
    result = f([1.0, 2.0])
    return f, [list(result), result["alpha"], result["zeta"]]


def state_and_defaults():
    u, x, s = tt.scalar("u"), tt.scalar("x"), tt.scalar("s")
    f = theano.function([u, In(x, value=3), In(s, update=s + x * u, value=10.0)], [])
    return f, [f(5), f["s"], f(3, 4), f["s"], f["x"], f(3, 4, 7), f["s"]]


def borrowed_and_mutable():
    x = tt.matrix("x")
    f = theano.function([In(x, mutable=True)], [Out(x + 1, borrow=True), x.T, Out(x.T, borrow=True)])
    value = np.eye(2)
    return f, [np.array(r) for r in f(value)]


def same_output_twice():
    x = tt.vector("x")
    y = tt.sqr(x)
    y.name = "square"
    f = theano.function([x], [y, y, x, y[::-1]])
    return f, f([1.0, 2.0])


def constants():
    x = tt.fvector("x")
    parts = [
        tt.constant(c, name=n)
        for c, n in ((np.float32(2), "two"), (np.int8(2), None), (np.nan, None), (-0.0, None), (0.0, None))
    ]
    f = theano.function([x], [x * c for c in parts] + [1 / parts[3], parts[2]])
    return f, f(np.ones(2, "float32"))


def indexing():
    x, i = tt.matrix("x"), tt.lvector("i")
    f = theano.function(
        [x, i], [x[i], x[1:, ::-1], tt.inc_subtensor(x[i], 1.0), tt.set_subtensor(x[0], 5), x[i][0], x.shape[0]]
    )
    return f, f(np.arange(6.0).reshape(3, 2), [2, 2])


def reductions():
    x = tt.tensor3("x")
    f = theano.function(
        [x], [x.sum(), x.sum(axis=[0, 2]), x.max(axis=1), x.prod(axis=0), x.var(), tt.argmax(x, axis=2), x.mean(1)]
    )
    return f, f(np.arange(12.0).reshape(2, 3, 2))


def printing_op():
    x = tt.vector("x")
    f = theano.function([x], theano.printing.Print("seen", attrs=("shape",))(x * 2))
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        value = f([1.0, 2.0])
    return f, [value, said.getvalue()]


def lazily():
    from theano_ng.ifelse import ifelse

    c, x, y = tt.iscalar("c"), tt.vector("x"), tt.vector("y")
    f = theano.function([c, x, y], ifelse(c, x + y, x - y, name="choice"))
    return f, [f(1, [1.0], [2.0]), f(0, [1.0], [2.0])]


def float32():
    with theano.config.change_flags(floatX="float32"):
        x = tt.vector("x")
        f = theano.function([x], [x / 3, tt.dot(x, x), tt.cast(x, "int32") / 2])
        return f, [f([1, 2]), [str(o.dtype) for o in f.maker.fgraph.outputs]]


def second_order():
    x = tt.vector("x")
    f = theano.function([x], theano.grad(theano.grad((x**3).sum(), x).sum(), x))
    return f, f([1.0, 2.0])


def givens():
    x, y = tt.vector("x"), tt.vector("y")
    shared = theano.shared(np.arange(4.0), "data")
    f = theano.function([y], (x * y).sum(), givens={x: shared[:2]})
    return f, f([1.0, 2.0])


def named_ops():
    x = tt.vector("x")
    f = theano.function([x], tt.Elemwise(theano.scalar.sqr, name="MySquare")(x), mode="FAST_COMPILE")
    return f, f([3.0])


def random_numbers():
    """Return samples by every kind of random Op."""
    numpy, mrg, pvals = RandomStreams(7), MRG_RandomStreams(7), np.array([[0.5, 0.5]])
    samples = [
        numpy.normal((3,)),
        numpy.permutation(n=4),
        numpy.choice((2,), a=5),
        mrg.uniform((3,)),
        mrg.multinomial(pvals=pvals),
    ]
    f = theano.function([], samples)
    return f, [f(), f()]


def error_names_the_line():
    x, y = tt.vector("x"), tt.vector("y")
    bad = tt.exp(x) + tt.sqrt(y)  # HERE
    f = theano.function([x, y], bad)
    try:
        f([1.0], [1.0, 2.0])
        raise AssertionError("nothing was raised")
    except ValueError as failure:
        return f, ["# HERE" in str(failure) or "bad = tt.exp" in str(failure), "mis-match" in str(failure)]


FUNCTIONS = [
    layers,
    elementwise,
    outputs_by_name,
    state_and_defaults,
    borrowed_and_mutable,
    same_output_twice,
    constants,
    indexing,
    reductions,
    printing_op,
    lazily,
    float32,
    random_numbers,
    second_order,
    givens,
    named_ops,
    error_names_the_line,
]


def plain(value):
    """Return a result as nested lists of strings. The string of an array contains all its bits."""
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return "%s %s %s" % (value.dtype, value.shape, value.tobytes().hex())
    return repr(value)


def main():
    loads = []
    load = graph_cache.CachedGraph.load

    def watched(self):
        found = load(self)
        loads.append((found is not None, self.path))
        return found

    graph_cache.CachedGraph.load = watched
    records = {}
    for make in FUNCTIONS:
        if sys.argv[1:] and make.__name__ not in sys.argv[1:]:
            continue
        del loads[:]
        f, results = make()
        records[make.__name__] = {
            "looked": len(loads),
            "hit": all(hit for hit, _ in loads),
            "path": [path.rpartition("/")[2] for _, path in loads],
            "graph": theano.printing.debugprint(f, file="str", print_type=True),
            "results": plain(results),
            "names": [str(v.name) for v in f.maker.fgraph.inputs],
            "inputs": [(str(spec.variable), spec.mutable) for spec in f.maker.inputs],
        }
    print(json.dumps(records))


if __name__ == "__main__":
    main()
