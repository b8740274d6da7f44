"""Interpreted functions compared with compiled functions and NumPy: ``python benchmarks/interpreter.py``.

The compiled version and the interpreted version of each function take turns. Arguments are not checked, and results
are new arrays.
"""

import measure
import models
import numpy as np

import theano_ng as theano
import theano_ng.tensor as T

a, b, c, d = T.dvectors("a", "b", "c", "d")
CASES = (
    ("a*b + c*d - a/b", a * b + c * d - a / b, lambda a, b, c, d: a * b + c * d - a / b),
    (
        "exp(-a*a)*tanh(b) + log1p(c*c)*sigmoid(d)",
        T.exp(-a * a) * T.tanh(b) + T.log1p(c * c) * T.nnet.sigmoid(d),
        lambda a, b, c, d: np.exp(-a * a) * np.tanh(b) + np.log1p(c * c) / (1 + np.exp(-d)),
    ),
    (
        "1 + a*(2 + a*(3 + a*(4 + 5*a)))",
        1 + a * (2 + a * (3 + a * (4 + 5 * a))),
        lambda a, b, c, d: 1 + a * (2 + a * (3 + a * (4 + 5 * a))),
    ),
    ("sum(a*b)", T.sum(a * b), lambda a, b, c, d: (a * b).sum()),
    ("switch(a > b, c, d)", T.switch(a > b, c, d), lambda a, b, c, d: np.where(a > b, c, d)),
)


def without_compiler(make):
    with theano.config.change_flags(cxx=""):
        return make()


def main():
    rng = np.random.RandomState(0)

    def functions():
        made = [theano.function([a, b, c, d], y, on_unused_input="ignore") for _, y, _ in CASES]
        for f in made:
            f.trust_input = True
        return made

    with theano.config.change_flags(tiered="off"):
        compiled = functions()
    interpreted = without_compiler(functions)
    for n in (10**3, 10**5, 10**6):
        values = [rng.rand(n) + 0.5 for _ in range(4)]
        table = measure.Table(
            "float64, %d elements" % n, "", "compiled", "interpreted", "NumPy", "interpreted / compiled"
        )
        for (name, _, reference), f, g in zip(CASES, compiled, interpreted):
            np.testing.assert_allclose(g(*values), reference(*values), rtol=1e-7)
            times = measure.best(lambda: f(*values), lambda: g(*values), lambda: reference(*values))
            table.row(name, *map(measure.show_time, times), measure.show_ratio(times[1] / times[0]))
    table = measure.Table("Training steps", "", "compiled", "interpreted", "interpreted / compiled")
    for name in ("logistic regression 784-10", "MLP 784-500-10"):
        inputs, labels, _ = models.data(name)
        with theano.config.change_flags(tiered="off"):
            step, _ = models.compiled_step(name)
        other, _ = without_compiler(lambda: models.compiled_step(name))
        times = measure.best(lambda: step(inputs, labels), lambda: other(inputs, labels))
        table.row(name, *map(measure.show_time, times), measure.show_ratio(times[1] / times[0]))


if __name__ == "__main__":
    main()
