"""The cost of a lazy conditional: ``python benchmarks/ifelse.py``.

A call that takes the first branch is compared with a function that consists only of this branch, and with `switch`,
which computes both branches.
"""

import measure
import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.ifelse import ifelse


def cases():
    """Yield tuples (name, argument, type of the variables, function for the first branch, function for the second
    branch).
    """
    yield "0-d", np.asarray(0.5), T.dscalar, lambda x: T.exp(x) * 2 + 1, lambda y: T.sin(y) * 3 - 1
    yield "10 numbers", np.linspace(0, 1, 10), T.dvector, lambda x: T.exp(x) * 2 + 1, lambda y: T.sin(y) * 3 - 1
    yield "the branches are inputs", np.linspace(0, 1, 10), T.dvector, lambda x: x, lambda y: y
    yield "1e6 numbers", np.linspace(0, 1, 1000000), T.dvector, lambda x: T.exp(x) * 2 + 1, lambda y: T.sin(y) * 3 - 1


def main():
    table = measure.Table(
        "Conditionals", "", "branch alone", "ifelse", "linker vm", "switch", "ifelse - branch alone", "ifelse / switch"
    )
    for name, argument, kind, first, second in cases():
        c, x, y = T.bscalar("c"), kind("x"), kind("y")
        then, other = first(x), second(y)
        functions = [
            theano.function([c, x, y], then, on_unused_input="ignore"),
            theano.function([c, x, y], ifelse(c, then, other)),
            theano.function([c, x, y], ifelse(c, then, other), mode=theano.Mode("vm", "fast_run")),
            theano.function([c, x, y], T.switch(c, then, other)),
        ]
        one = np.asarray(1, "int8")
        for f in functions:
            np.testing.assert_allclose(f(one, argument, argument), functions[0](one, argument, argument), rtol=1e-12)
        times = measure.best(*[lambda f=f: f(one, argument, argument) for f in functions], rounds=100)
        table.row(
            name,
            *map(measure.show_time, times),
            "-" * (times[1] < times[0]) + measure.show_time(abs(times[1] - times[0])),
            measure.show_ratio(times[1] / times[3]),
        )


if __name__ == "__main__":
    main()
