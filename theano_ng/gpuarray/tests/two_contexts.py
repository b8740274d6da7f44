"""Functions on two contexts, dev0 and dev1. test_two_contexts.py runs this program::

THEANO_FLAGS="contexts=dev0->opencl0:0;dev1->opencl0:0" python two_contexts.py FUNCTION [FIRST LAST]
"""

import sys

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.gpuarray import contexts
from theano_ng.gpuarray.type import GpuArrayType
from theano_ng.tensor.signal.pool import pool_2d

NAMES = ("dev0", "dev1")
ON_HOST = theano.compile.mode.get_mode("FAST_RUN").excluding("gpuarray_opt")


def names_in(node):
    """Return the names of the contexts of a node's variables."""
    return {v.type.context_name for v in node.inputs + node.outputs if isinstance(v.type, GpuArrayType)}


# ---- random programs ----


def _is_float(v):
    return v.dtype.startswith("float")


def _accumulated(x, y):
    step = lambda row, total, y: T.tanh(row * y) + total
    return theano.scan(step, sequences=x, outputs_info=T.zeros_like(x[0]), non_sequences=y)[0]


def _same_scalar(v, first):
    return v.ndim == 0 and v.dtype == first.dtype


# Each step: a function of variables, and for each variable a condition, given the first variable.
STEPS = [
    (lambda a, b: a + b, [None, None]),
    (lambda a, b: a * b, [None, None]),
    (T.maximum, [None, None]),
    (lambda c, a, b: T.switch(c > 0, a, b), [None, None, None]),
    (T.tanh, [lambda v, _: _is_float(v)]),
    (lambda a: a.sum(-1), [lambda v, _: v.ndim]),
    (lambda a: a.max(0), [lambda v, _: v.ndim]),
    (lambda a, b: T.dot(a, b.T), [lambda v, _: v.ndim == 2 and _is_float(v)] * 2),
    (lambda a, b: T.join(0, a, b), [lambda v, _: v.ndim, lambda v, first: v.ndim == first.ndim]),
    (lambda a: a[::-1], [lambda v, _: v.ndim]),
    (lambda a: a.T, [lambda v, _: v.ndim == 2]),
    (lambda a, b: T.set_subtensor(a[0], b), [lambda v, _: v.ndim, _same_scalar]),
    (lambda a: T.cumsum(a, 0), [lambda v, _: v.ndim]),
    (lambda a: T.sort(a, 0), [lambda v, _: v.ndim]),
    (T.nnet.softmax, [lambda v, _: v.ndim == 2 and _is_float(v)]),
    (lambda a, i: a[abs(i) % a.shape[0]], [lambda v, _: v.ndim, lambda v, _: v.dtype == "int32" and v.ndim == 1]),
    (lambda a, b: T.alloc(a, 2, b.shape[0]), [lambda v, _: v.ndim == 0, lambda v, _: v.ndim]),
    (_accumulated, [lambda v, _: v.ndim == 2 and _is_float(v), _same_scalar]),
]


def random_program(rng):
    """Return leaves, and the results of random steps. Leaves are tuples (shared variable or input, input on the host,
    value); results are pairs (variable, the same on the host).
    """
    leaves = []
    for place in (*NAMES, *NAMES, None):
        shape = [(3, 4), (4,), (3, 1), (), (4, 4)][rng.integers(5)]
        dtype = str(rng.choice(("float32", "float32", "float64", "int32")))
        value = (rng.uniform(-1, 1, shape) if dtype[0] == "f" else rng.integers(-3, 4, shape)).astype(dtype)
        pattern = [n == 1 for n in shape]
        on_host = T.TensorType(dtype, pattern)()
        mine = on_host if place is None else theano.shared(value, target=place, broadcastable=pattern)
        leaves.append((mine, on_host, value))
    pool = [leaf[:2] for leaf in leaves]
    for _ in range(rng.integers(4, 10)):
        if rng.integers(3) == 0:
            a, on_host = pool[rng.integers(len(pool))]
            pool.append((a.transfer(str(rng.choice((*NAMES, "cpu")))), on_host))
            continue
        function, conditions = STEPS[rng.integers(len(STEPS))]
        chosen = []
        for fits in conditions:
            good = [p for p in pool if fits is None or fits(p[1], chosen[0][1] if chosen else None)]
            if not good:
                break
            chosen.append(good[rng.integers(len(good))])
        if len(chosen) == len(conditions):
            new = function(*[p[0] for p in chosen]), function(*[p[1] for p in chosen])
            if new[0].ndim <= 2:
                pool.append(new)
    return leaves, pool[len(leaves) :]


def check_program(seed):
    """Compile a random program with its gradients and updates; compare with the host. Return whether it was valid."""
    rng = np.random.default_rng(seed)
    leaves, results = random_program(rng)
    inputs, values = [leaf[1] for leaf in leaves], [leaf[2] for leaf in leaves]

    def on_host(v):
        return np.asarray(theano.function(inputs, v, mode=ON_HOST, on_unused_input="ignore")(*values))

    pairs = []
    for mine, other in results:
        try:
            pairs.append((mine, on_host(other)))
        except (AssertionError, IndexError, ValueError):  # the shapes do not fit each other
            continue
        last = mine, other
    if not pairs:
        return False
    variables = [leaf[:2] for leaf in leaves[:-1] if _is_float(leaf[1])]
    updates = []
    if _is_float(last[1]) and variables:
        shared, others = zip(*variables)
        ours = T.grad(last[0].transfer("cpu").sum(), shared, disconnected_inputs="ignore")
        theirs = T.grad(last[1].sum(), others, disconnected_inputs="ignore")
        gradients = [on_host(g) for g in theirs]
        updates = [(s, T.cast(s - g, s.dtype), s.get_value() - g0) for s, g, g0 in zip(shared, ours, gradients)]
    f = theano.function(
        [leaves[-1][0]], [v for v, _ in pairs], updates=[u[:2] for u in updates], on_unused_input="ignore"
    )
    for (variable, expected), found in zip(pairs, f(values[-1])):
        assert found.dtype == expected.dtype, (seed, variable)
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-4, atol=1e-4, err_msg=str(seed))
        assert not isinstance(variable.type, GpuArrayType) or found.context is variable.type.context, (seed, variable)
    for shared, _, expected in updates:
        np.testing.assert_allclose(shared.get_value(), expected, rtol=1e-4, atol=1e-4, err_msg=str(seed))
        assert shared.container.value.context is shared.type.context, seed
    for node in f.maker.fgraph.toposort():
        assert len(names_in(node)) < 2 or type(node.op).__name__ == "GpuToGpu", (seed, node)
    return True


def generated(first, last):
    """Check random programs, without and with a default context."""
    print(sum(check_program(seed) for seed in range(first, last)) > (last - first) // 2)
    contexts.reg_context(None, contexts.get_context("dev0"))
    print(sum(check_program(seed) for seed in range(first, last)) > (last - first) // 2)


# ---- results that are needed on a device, computed from inputs on the host ----


def moved():
    """Each operation runs on the device that needs its result. There is no default context."""
    a, b, v, s, f, k = T.fmatrix(), T.fmatrix(), T.fvector(), T.fscalar(), T.ftensor4(), T.ftensor4()
    i, n = T.ivector(), T.lscalar()
    expressions = [
        a.T,
        T.nnet.softmax(a),
        T.nnet.softmax(a + v),
        T.nnet.logsoftmax(a),
        T.grad(T.nnet.softmax(a)[0, 0], a),
        T.nnet.categorical_crossentropy(T.nnet.softmax(a), i),
        T.exp(a) + b,
        a.sum(0),
        a.max(1),
        a.argmax(0),
        T.dot(a, b.T),
        T.dot(a, v),
        T.outer(v, v),
        T.join(0, a, b),
        T.split(a, [1, 2], 2)[1],
        a[1:],
        a[i],
        a[i, i],
        a[a > 0],
        T.inc_subtensor(a[1:], s),
        T.inc_subtensor(a[i], b[:3]),
        T.inc_subtensor(a[i, i], 1),
        T.diag(a),
        T.diag(v),
        T.eye(n),
        T.alloc(s, n, 2),
        T.sort(a, 1),
        T.argsort(a, 1),
        T.topk(a, 2),
        T.cumsum(a, 0),
        a.flatten(),
        T.nnet.conv2d(f, k),
        pool_2d(f, (2, 2), ignore_border=True),
        T.nnet.neighbours.images2neibs(f, (2, 2)),
        T.batched_dot(f[0], f[0].dimshuffle(0, 2, 1)),
        T.extra_ops.cpu_contiguous(a),
        a.var(1),
    ]
    rng = np.random.default_rng(1)
    values = {v: rng.uniform(-1, 1, shape).astype("float32") for v, shape in (
        (a, (3, 3)), (b, (3, 3)), (v, 3), (s, ()), (f, (2, 3, 4, 4)), (k, (2, 3, 2, 2)))}  # fmt: skip
    values |= {i: np.int32([2, 0, 1]), n: 3}
    for e in expressions:
        compiled = theano.function(list(values), e.transfer("dev1"), on_unused_input="ignore")
        names = set().union(*map(names_in, compiled.maker.fgraph.toposort()))
        assert names == {"dev1"}, (e, names)
        expected = theano.function(list(values), e, mode=ON_HOST, on_unused_input="ignore")(*values.values())
        np.testing.assert_allclose(np.asarray(compiled(*values.values())), expected, rtol=1e-5, atol=1e-6)
    print(len(expressions))


def created():
    """Arrays are created in the context of the arrays with which they are combined, which is not the default context."""
    contexts.reg_context(None, contexts.get_context("dev0"))
    value, n = np.random.default_rng(1).uniform(-1, 1, (3, 4)).astype("float32"), T.lscalar()
    expressions = [
        lambda a: T.set_subtensor(T.zeros((n, 4), "float32")[:, :2], T.tanh(a)[:, 2:]),
        lambda a: T.grad((T.tanh(a[:, 1:3]) ** 2).sum() + T.exp(a[0]).sum(), a),
        lambda a: T.join(0, T.ones((n, 4), "float32"), T.exp(a)),
        lambda a: T.exp(a) * T.eye(n, 4, dtype="float32"),
        lambda a: T.alloc(np.float32(2), n, 4) + a,
    ]
    a, b, x = [theano.shared(value, target=name) for name in (*NAMES[::-1], "cpu")]
    for make in expressions:
        compiled = theano.function([n], make(a).transfer("dev1"), on_unused_input="ignore")
        names = set().union(*map(names_in, compiled.maker.fgraph.toposort()))
        assert names == {"dev1"}, (make(a), names)
        expected = theano.function([n], make(x), mode=ON_HOST, on_unused_input="ignore")
        np.testing.assert_allclose(np.asarray(compiled(3)), expected(3), rtol=1e-5, atol=1e-6)
    there = T.fmatrix()  # an input that is transferred to the other context
    there.tag.target = "dev1"
    for make in (lambda a, b: a + b, lambda a, b: b + a):
        compiled = theano.function([n, there], make(T.eye(n, 4, dtype="float32"), there))
        assert set().union(*map(names_in, compiled.maker.fgraph.toposort())) == {"dev1"}, make
        np.testing.assert_allclose(compiled(3, value), value + np.eye(3, 4), rtol=1e-6)
    ones = T.ones((n, 4), "float32")  # an array that is combined with arrays of both contexts
    compiled = theano.function([n], [(T.exp(a) + ones).transfer("dev1"), (T.exp(b) * ones).transfer("dev0")])
    used = [names_in(node) for node in compiled.maker.fgraph.toposort()]
    assert all(len(names) == 1 for names in used if "dev1" in names), used
    for found, expected in zip(compiled(3), (np.exp(value) + 1, np.exp(value))):
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5)
    print(len(expressions))


# ---- model parallelism ----


def layers(mode=None, names=NAMES, steps=5):
    """Train a network whose layers are in different contexts; return the costs and the parameters."""
    rng = np.random.default_rng(3)
    x, y = T.fmatrix("x"), T.fmatrix("y")
    hidden, parameters = x, []
    for name, shape in zip((*names, *names), ((6, 8), (8, 7), (7, 8), (8, 2))):
        value = rng.normal(size=shape).astype("float32") / 2
        w = theano.shared(value) if name is None else theano.shared(value, target=name)
        parameters.append(w)
        hidden = T.tanh(T.dot(hidden if name is None else hidden.transfer(name), w))
    cost = T.sqr(hidden - y).mean()
    updates = [(w, w - np.float32(0.3) * g) for w, g in zip(parameters, T.grad(cost, parameters))]
    step = theano.function([x, y], cost, updates=updates, mode=mode)
    if mode is None:
        used = [names_in(node) for node in step.maker.fgraph.toposort()]
        assert {"dev0"} in used and {"dev1"} in used and {"dev0", "dev1"} in used, used
        products = [node for node in step.maker.fgraph.toposort() if "Gemm" in str(node.op) or "Dot" in str(node.op)]
        assert all(len(names_in(node)) == 1 for node in products), products
    x0, y0 = rng.normal(size=(5, 6)).astype("float32"), rng.normal(size=(5, 2)).astype("float32")
    return [float(step(x0, y0)) for _ in range(steps)], [w.get_value() for w in parameters]


def model():
    """A network on two contexts learns as on the host."""
    (costs, found), (expected_costs, expected) = layers(), layers(ON_HOST, (None, None))
    np.testing.assert_allclose(costs, expected_costs, rtol=1e-5)
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    print(costs[-1] < costs[0])


if __name__ == "__main__":
    globals()[sys.argv[1]](*map(int, sys.argv[2:]))
