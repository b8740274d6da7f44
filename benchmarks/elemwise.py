"""Time elementwise loops and reductions against NumPy, one thread: ``python benchmarks/elemwise.py``.

Each line: what is computed, microseconds for a call of the C thunk with its output reused, with a new output each time, and NumPy's.
"""

import time

import numpy as np

from theano_ng import scalar
from theano_ng.gof.native import make_native_thunk
from theano_ng.tensor.elemwise import CAReduce, Elemwise, Sum
from theano_ng.tensor.type import TensorType


def best(function, budget=0.2):
    """Return the shortest time of a call, in microseconds."""
    function()
    start = time.perf_counter()
    function()
    repeats = max(1, min(20000, int(budget / 7 / max(time.perf_counter() - start, 1e-7))))
    times = []
    for _ in range(7):
        start = time.perf_counter()
        for _ in range(repeats):
            function()
        times.append((time.perf_counter() - start) / repeats)
    return min(times) * 1e6


def report(name, op, values, reference):
    types = [TensorType(str(v.dtype), [n == 1 for n in v.shape]) for v in values]
    node = op.make_node(*[t() for t in types])
    cell = [None]
    thunk = make_native_thunk(node, node.op.native_code(node), [[v] for v in values], [cell])

    def fresh():
        cell[0] = None
        thunk()

    thunk()
    np.testing.assert_allclose(cell[0], reference(*values), rtol=1e-5)
    print("%-44s %10.2f %10.2f %10.2f" % (name, best(thunk), best(fresh), best(lambda: reference(*values))))


def main():
    rng = np.random.RandomState(0)
    a, b, c, d = [scalar.float64(name) for name in "abcd"]
    arithmetic = Elemwise(scalar.Composite([a, b, c, d], [a * b + c * d - a / b]))
    functions = Elemwise(
        scalar.Composite([a, b, c, d], [scalar.exp(-a * a) * scalar.tanh(b) + scalar.log1p(c * c) / (1.0 + scalar.exp(-d))])
    )
    print("%-44s %10s %10s %10s" % ("microseconds", "reused", "new", "NumPy"))
    for n in (1, 10 ** 3, 10 ** 6, 10 ** 7):
        values = [np.asarray(rng.rand(*([] if n == 1 else [n])) + 0.5) for _ in range(4)]
        report("a*b + c*d - a/b, n = %d" % n, arithmetic, values, lambda a, b, c, d: a * b + c * d - a / b)
    values = [rng.randn(10 ** 6) for _ in range(4)]
    report(
        "exp(-a*a)*tanh(b) + log1p(c*c)*sigmoid(d), 1e6", functions, values,
        lambda a, b, c, d: np.exp(-a * a) * np.tanh(b) + np.log1p(c * c) / (1 + np.exp(-d)),
    )  # fmt: skip
    subtract = Elemwise(scalar.sub)
    for name, x, y in (
        ("(1000, 1000) - (1000, 1)", rng.rand(1000, 1000), rng.rand(1000, 1)),
        ("(1000, 1000) - (1, 1000)", rng.rand(1000, 1000), rng.rand(1, 1000)),
        ("(300000, 3) - (1, 3)", rng.rand(300000, 3), rng.rand(1, 3)),
        ("(1000, 1000).T - (1000, 1000)", rng.rand(1000, 1000).T, rng.rand(1000, 1000)),
        ("x[::2] - y", rng.rand(2 * 10 ** 6)[::2], rng.rand(10 ** 6)),
    ):
        report(name, subtract, [x, y], np.subtract)
    x = rng.rand(1000, 1000)
    report("sum of 1e6 float32 in float64", Sum(), [rng.rand(10 ** 6).astype("float32")], lambda v: v.sum(dtype="float64"))
    report("sum of 1e6 float64", Sum(), [rng.rand(10 ** 6)], np.sum)
    report("sum (1000, 1000) over axis 0", Sum(axis=0), [x], lambda v: v.sum(0))
    report("sum (1000, 1000) over axis 1", Sum(axis=1), [x], lambda v: v.sum(1))
    report("sum (300000, 3) over axis 0", Sum(axis=0), [rng.rand(300000, 3)], lambda v: v.sum(0))
    report("max of 1e6 float64", CAReduce(scalar.maximum), [rng.rand(10 ** 6)], np.max)


if __name__ == "__main__":
    main()
