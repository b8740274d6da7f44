"""Elementwise loops and reductions against NumPy: ``python benchmarks/elemwise.py``.

The benchmark measures the time of the C thunk of one node, once with a reused output array and once with a new output
array in each call.
"""

import measure
import numpy as np

from theano_ng import scalar
from theano_ng.gof.native import make_native_thunk
from theano_ng.tensor.elemwise import CAReduce, Elemwise, Sum
from theano_ng.tensor.type import TensorType


def report(table, name, op, values, reference):
    types = [TensorType(str(v.dtype), [n == 1 for n in v.shape]) for v in values]
    node = op.make_node(*[t() for t in types])
    cell = [None]
    thunk = make_native_thunk(node, node.op.native_code(node), [[v] for v in values], [cell])

    def fresh():
        cell[0] = None
        thunk()

    thunk()
    np.testing.assert_allclose(cell[0], reference(*values), rtol=1e-5)
    times = measure.best(thunk, fresh, lambda: reference(*values), seconds=0.2)
    table.row(name, *map(measure.show_time, times), measure.show_ratio(times[1] / times[2]))


def main():
    rng = np.random.RandomState(0)
    a, b, c, d = [scalar.float64(name) for name in "abcd"]
    arithmetic = Elemwise(scalar.Composite([a, b, c, d], [a * b + c * d - a / b]))
    functions = Elemwise(
        scalar.Composite(
            [a, b, c, d], [scalar.exp(-a * a) * scalar.tanh(b) + scalar.log1p(c * c) / (1.0 + scalar.exp(-d))]
        )
    )
    table = measure.Table(
        "Elementwise loops and reductions", "", "output reused", "new output", "NumPy", "new output / NumPy"
    )
    for n in (1, 10**3, 10**6, 10**7):
        values = [np.asarray(rng.rand(*([] if n == 1 else [n])) + 0.5) for _ in range(4)]
        report(table, "a*b + c*d - a/b, n = %d" % n, arithmetic, values, lambda a, b, c, d: a * b + c * d - a / b)
    values = [rng.randn(10**6) for _ in range(4)]
    report(
        table, "exp(-a*a)*tanh(b) + log1p(c*c)*sigmoid(d), 1e6", functions, values,
        lambda a, b, c, d: np.exp(-a * a) * np.tanh(b) + np.log1p(c * c) / (1 + np.exp(-d)),
    )  # fmt: skip
    subtract = Elemwise(scalar.sub)
    for name, x, y in (
        ("(1000, 1000) - (1000, 1)", rng.rand(1000, 1000), rng.rand(1000, 1)),
        ("(1000, 1000) - (1, 1000)", rng.rand(1000, 1000), rng.rand(1, 1000)),
        ("(300000, 3) - (1, 3)", rng.rand(300000, 3), rng.rand(1, 3)),
        ("(1000, 1000).T - (1000, 1000)", rng.rand(1000, 1000).T, rng.rand(1000, 1000)),
        ("x[::2] - y", rng.rand(2 * 10**6)[::2], rng.rand(10**6)),
    ):
        report(table, name, subtract, [x, y], np.subtract)
    x = rng.rand(1000, 1000)
    report(
        table,
        "sum of 1e6 float32 in float64",
        Sum(),
        [rng.rand(10**6).astype("float32")],
        lambda v: v.sum(dtype="float64"),
    )
    report(table, "sum of 1e6 float64", Sum(), [rng.rand(10**6)], np.sum)
    report(table, "sum (1000, 1000) over axis 0", Sum(axis=0), [x], lambda v: v.sum(0))
    report(table, "sum (1000, 1000) over axis 1", Sum(axis=1), [x], lambda v: v.sum(1))
    report(table, "sum (300000, 3) over axis 0", Sum(axis=0), [rng.rand(300000, 3)], lambda v: v.sum(0))
    report(table, "max of 1e6 float64", CAReduce(scalar.maximum), [rng.rand(10**6)], np.max)


if __name__ == "__main__":
    main()
