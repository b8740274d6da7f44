"""Call random loops before, while and after their kernels are compiled: ``python -m theano_ng.scan.tests.change_over``.

All loops run in one process with an empty cache. Each call of a loop must give the same bits as its first call, and
the values of NumPy up to rounding.
"""

import argparse

import numpy as np
import scipy.special

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.gof.compiler.background import wait_for_kernels


class Symbolic:
    """The functions that steps use, for symbolic variables."""

    tanh, exp, log1p, sin, sqrt, maximum, where, gammaln, erf = (
        *(T.tanh, T.exp, T.log1p, T.sin, T.sqrt, T.maximum, T.switch),
        *(T.gammaln, T.erf),
    )
    sigmoid, cast = T.nnet.sigmoid, T.cast


class Numeric:
    """The functions that steps use, for NumPy arrays."""

    tanh, exp, log1p, sin, sqrt, maximum, where, gammaln, erf = (
        *(np.tanh, np.exp, np.log1p, np.sin, np.sqrt, np.maximum, np.where),
        *(scipy.special.gammaln, scipy.special.erf),
    )
    sigmoid, cast = scipy.special.expit, lambda x, dtype: np.asarray(x).astype(dtype)


# A step takes the class Symbolic or Numeric, an element of a sequence, a state and a non-sequence. There are few steps,
# so that many loops share a program.
STEPS = [
    lambda f, s, h, w: f.tanh(s * h) + 0.5 * h * w,
    lambda f, s, h, w: s * h - w * 0.25,
    lambda f, s, h, w: f.maximum(s, -h) * 0.75 + w * 0.125,
    lambda f, s, h, w: f.exp(-abs(h)) * s + w * h * 0.5,
    lambda f, s, h, w: f.sigmoid(s + h) - f.log1p(w * w) * h,
    lambda f, s, h, w: f.where(s > h, h * 0.5, f.sin(w + s)),
    lambda f, s, h, w: f.gammaln(abs(s) + 1.5) * 0.1 + f.erf(h) * w,
    lambda f, s, h, w: f.sqrt(abs(s * w - h * h)) * 0.5,
    lambda f, s, h, w: f.cast(f.cast(s * 50, "int8") + f.cast(w * 90, "int32"), "float64") * 0.001 - h * 0.5,
]
SHAPES = (), (), (), (1,), (3,), (2, 3), (17,), (300,)
TAPS = [-1], [-1], [-2], [-3], [-1, -2], [-1, -3]


class Loop:
    """A loop, its arguments, and its expected outputs.

    Parameters
    ----------
    rng : RandomState
    """

    def __init__(self, rng):
        self.dtype = str(rng.choice(["float64", "float64", "float32"]))
        self.shape, self.taps = SHAPES[rng.randint(len(SHAPES))], TAPS[rng.randint(len(TAPS))]
        self.step, self.n_steps = STEPS[rng.randint(len(STEPS))], int(rng.choice([1, 2, 7, 20]))
        self.of_numbers, self.results, self.until = (
            rng.rand() < 0.4,
            rng.rand() < 0.3,
            not self.shape and rng.rand() < 0.3,
        )
        constant = rng.rand() < 0.3
        self.sequence = self.value(rng, self.n_steps, *self.shape)
        self.initial = self.value(rng, -min(self.taps), *self.shape)
        self.weight = (
            np.array(0.375, self.dtype) if constant else self.value(rng, *(() if self.of_numbers else self.shape))
        )
        self.constant = constant

    def value(self, rng, *shape):
        return np.asarray(rng.uniform(-1, 1, shape), self.dtype)

    def outputs(self, f, s, states, w):
        """Return the next state, and the result of the step if the loop has one."""
        new = self.step(f, s, sum(states[1:], states[0]), w)
        new = f.cast(new, self.dtype)
        return [new, f.cast(new * s, self.dtype)] if self.results else [new]

    def function(self):
        one = self.taps == [-1]
        x, first = [T.TensorType(self.dtype, (False,) * n)() for n in (self.sequence.ndim, self.initial.ndim - one)]
        w = T.constant(self.weight) if self.constant else T.TensorType(self.dtype, (False,) * self.weight.ndim)()

        def step(s, *others):
            new = self.outputs(Symbolic, s, others[: len(self.taps)], others[-1])
            return (new, theano.scan_module.until(new[0] > 0.6)) if self.until else new

        states = dict(initial=first, taps=self.taps)
        found, _ = theano.scan(step, x, [states, None] if self.results else [states], w)
        f = theano.function([x, first] if self.constant else [x, first, w], found)
        given = [self.sequence, self.initial[0] if one else self.initial, self.weight]

        def call():
            got = f(*given[: 2 if self.constant else 3])
            return got if isinstance(got, list) else [got]

        return call

    def reference(self):
        """Return the outputs, computed by NumPy."""
        rows, found = list(self.initial), []
        for s in self.sequence:
            found.append(self.outputs(Numeric, s, [rows[tap] for tap in self.taps], self.weight))
            rows.append(found[-1][0])
            if self.until and rows[-1] > 0.6:
                break
        return [np.array(values) for values in zip(*found)]


def bits(values):
    """Return the bits of arrays, with equal bits for every NaN."""
    return [np.where(np.isnan(v), np.nan, v).tobytes() if v.dtype.kind == "f" else v.tobytes() for v in values]


class Running:
    """A loop that is called many times.

    Parameters
    ----------
    seed : int
    """

    def __init__(self, seed):
        self.seed, self.loop = seed, Loop(np.random.RandomState(seed))
        self.wanted = self.loop.reference()
        self.function = self.loop.function()
        self.first = None

    def faults(self):
        """Call the loop once more. Return a message for each wrong output, or one message if only bits differ.

        Returns
        -------
        list of str
        """
        got = self.function()
        tolerance = 1e-4 if self.loop.dtype == "float32" else 1e-11
        wrong = [
            "loop %d, output %d: other numbers" % (self.seed, k)
            for k, (value, wanted) in enumerate(zip(got, self.wanted))
            if value.shape != wanted.shape or not np.allclose(value, wanted, rtol=tolerance, atol=tolerance)
        ]
        self.first = self.first or bits(got)
        return wrong or ["loop %d: other bits than at first" % self.seed] * (bits(got) != self.first)


def faults(first, count):
    """Run loops several times, and return the messages about wrong results.

    Parameters
    ----------
    first, count : int
        The seed of the first loop, and the number of loops. Seeds are consecutive.

    Returns
    -------
    list of str
    """
    running, found = [], []
    for seed in range(first, first + count):
        running.append(Running(seed))
        found += running[-1].faults()
        if seed % 10 == 9:
            found += [fault for loop in running[-30:] for fault in loop.faults()]
    found += [fault for loop in running for fault in loop.faults()]
    assert wait_for_kernels(600)
    return found + [fault for loop in running for fault in loop.faults()]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    arguments = parser.parse_args()
    found = faults(arguments.first, arguments.count)
    print("\n".join(found))
    loops = {fault.partition(":")[0].partition(",")[0] for fault in found}
    print("%d loops, %d of them wrong" % (arguments.count, len(loops)))
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()
