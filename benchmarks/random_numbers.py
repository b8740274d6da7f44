"""The cost of random numbers: ``python benchmarks/random_numbers.py``.

`MRG_RandomStreams` is compared with NumPy's fastest generator, which gives other numbers. `RandomStreams` is compared
with the NumPy generator that it calls.
"""

import measure
import numpy as np

import theano_ng as theano
from theano_ng.sandbox.rng_mrg import MRG_RandomStreams
from theano_ng.tensor.shared_randomstreams import RandomStreams


def main():
    table = measure.Table(
        "Random numbers",
        "",
        "MRG_RandomStreams",
        "NumPy SFC64",
        "RandomStreams",
        "RandomState",
        "MRG / SFC64",
        "RandomStreams / RandomState",
    )
    for count in (100, 10000, 1000000):
        for dtype in ("float32", "float64"):
            for kind in ("uniform", "normal"):
                generator, old = np.random.Generator(np.random.SFC64(1)), np.random.RandomState(1)
                quick = generator.random if kind == "uniform" else generator.standard_normal
                functions = [
                    theano.function([], getattr(MRG_RandomStreams(1234), kind)((count,), dtype=dtype)),
                    lambda quick=quick, n=count, dtype=dtype: quick(n, dtype=dtype),
                    theano.function([], getattr(RandomStreams(1234), kind)((count,), dtype=dtype)),
                    lambda draw=getattr(old, kind), n=count, dtype=dtype: draw(size=n).astype(dtype),  # noqa: B008, bound here
                ]
                for f in functions:
                    assert f().shape == (count,) and f().dtype == dtype and not np.array_equal(f(), f())
                times = measure.best(*functions, rounds=20)
                table.row(
                    "%s %s %d" % (kind, dtype, count),
                    *map(measure.show_time, times),
                    measure.show_ratio(times[0] / times[1]),
                    measure.show_ratio(times[2] / times[3]),
                )


if __name__ == "__main__":
    main()
