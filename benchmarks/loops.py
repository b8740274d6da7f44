"""Loops with sums, products and indices in their steps: ``python benchmarks/loops.py [PYTHON]``.

PYTHON is an interpreter that has JAX. The figures are nanoseconds of CPU time per step. Each loop runs in four ways: by
the virtual machine (node by node), as one C function, as C code that is written by hand, and by `jax.lax.scan`.
``python benchmarks/loops.py nested`` measures the compilation time of the gradient of nested loops.
"""

import ctypes
import gc
import json
import os
import subprocess
import sys
import tempfile
import time

from measure import Table, best, show_time

N_STEPS = 10000
SIZES = {
    "normalized": (10, 64),
    "viterbi": (4, 16),
    "matrix by vector": (4, 8, 16, 32, 64),
    "hidden Markov": (4, 16),
    "index": (64,),
}
CASES = [(name, n) for name, sizes in SIZES.items() for n in sizes]

# Name of a case -> C code written by hand. It consists of plain loops, which the compiler may vectorize but not
# reorder.
C = {
    "normalized": """
        double total = 0;
        for (int64_t j = 0; j < n; ++j) { state[j] *= a[j]; total += state[j]; }
        for (int64_t j = 0; j < n; ++j) state[j] /= total;""",
    "viterbi": """
        double best[64];
        for (int64_t j = 0; j < n; ++j) best[j] = -1.0 / 0.0;
        for (int64_t i = 0; i < n; ++i)
            for (int64_t j = 0; j < n; ++j) { double v = state[i] + a[i * n + j]; best[j] = v > best[j] ? v : best[j]; }
        for (int64_t j = 0; j < n; ++j) state[j] = best[j] + b[places[t] * n + j];""",
    "matrix by vector": """
        double sums[64];
        for (int64_t i = 0; i < n; ++i) {
            double total = 0;
            for (int64_t j = 0; j < n; ++j) total += a[i * n + j] * state[j];
            sums[i] = total > 0 ? total : 0.1 * total;
        }
        for (int64_t i = 0; i < n; ++i) state[i] = sums[i];""",
    "hidden Markov": """
        double next[64], total = 0;
        for (int64_t j = 0; j < n; ++j) next[j] = 0;
        for (int64_t i = 0; i < n; ++i)
            for (int64_t j = 0; j < n; ++j) next[j] += state[i] * a[i * n + j];
        for (int64_t j = 0; j < n; ++j) { next[j] *= b[places[t] * n + j]; total += next[j]; }
        for (int64_t j = 0; j < n; ++j) state[j] = next[j] / total;""",
    "index": """
        place = following[place];
        state[0] = state[0] * 0.5 + a[place];""",
}


def values(name, n):
    """Return the values of a loop.

    Returns
    -------
    x : ndarray
        The initial state.
    a, b : ndarray
        Parameters of the step.
    places : ndarray
        One index for each step.
    following : ndarray
        A permutation: the index that follows each index.
    """
    import numpy as np

    rng = np.random.RandomState(n)
    a = rng.rand(n) + 0.5 if name in ("normalized", "index") else rng.rand(n, n) * 2 / n
    return rng.rand(n), a, rng.rand(n, n) + 0.1, rng.randint(0, n, N_STEPS), rng.permutation(n)


def step(name, xp):
    """Return the step of a loop: a function of the state, an element of `places`, `a`, `b` and `following`.

    `xp` is a module with NumPy's functions: theano_ng.tensor or jax.numpy.
    """
    return {
        "normalized": lambda s, i, a, b, f: (s * a) / (s * a).sum(),
        "viterbi": lambda s, i, a, b, f: xp.max(s[:, None] + a, axis=0) + b[i],
        "matrix by vector": lambda s, i, a, b, f: xp.maximum(xp.dot(a, s), 0.1 * xp.dot(a, s)),
        "hidden Markov": lambda s, i, a, b, f: xp.dot(s, a) * b[i] / (xp.dot(s, a) * b[i]).sum(),
        "index": lambda s, i, a, b, f: (s[0] * 0.5 + a[f[s[1]]], f[s[1]]),
    }[name]


def ours(name, n):
    """Return two compiled functions. The first runs the loop as one C function, the second runs it node by node."""
    from unittest import mock

    import numpy as np

    import theano_ng as theano
    import theano_ng.tensor as T
    from theano_ng.scan import loop
    from theano_ng.scan.op import StepGraph

    x, *others = map(theano.shared, values(name, n))
    a, b, places, following = others

    def compiled():
        make = step(name, T)
        if name == "index":
            (found, _), _ = theano.scan(
                lambda s, p: list(make((s, p), None, a, b, following)),
                outputs_info=[x[0], np.int64(0)],
                n_steps=N_STEPS,
            )
        else:
            found, _ = theano.scan(lambda i, s: make(s, i, a, b, following), places, x)
        return theano.function([], theano.Out(found[-1], borrow=True))

    with mock.patch.object(loop, "HOT_STEPS", 0):
        function = compiled()
    with mock.patch.object(StepGraph, "kernel", lambda *args: None):
        machine = compiled()
    np.testing.assert_array_equal(function(), machine())
    return function, machine


def by_hand(name, n):
    """Return a function that runs the C code of the loop, compiled for this machine."""
    import numpy as np

    from theano_ng.gof.compiler import load_kernels
    from theano_ng.gof.native import Kernel

    source = (
        "void KERNEL(int64_t steps, int64_t n, double *state, const double *a, const double *b, const int64_t *places, const int64_t *following)"
        "{ int64_t place = 0; (void)place; for (int64_t t = 0; t < steps; ++t) {%s} }" % C[name]
    )
    (address,) = load_kernels([Kernel(source)])
    function = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, *[ctypes.c_void_p] * 5)(address)
    x, *rest = values(name, n)
    state = x.copy()
    pointers = [v.ctypes.data for v in rest]

    def run():
        state[:] = x
        function(N_STEPS, n, state.ctypes.data, *pointers)

    run()
    run.keep = rest
    wanted = ours(name, n)[0]()
    np.testing.assert_allclose(state[0] if name == "index" else state, wanted, rtol=1e-9)
    return run


def jax(name, n):
    """Return a function that runs the loop in JAX."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp

    x, a, b, places, following = map(jnp.asarray, values(name, n))
    make = step(name, jnp)

    @jax.jit
    def run(x, a, b, places, following):
        start = (x[0], 0) if name == "index" else x
        return jax.lax.scan(lambda s, i: (make(s, i, a, b, following), None), start, places)[0]

    return lambda: jax.block_until_ready(run(x, a, b, places, following))


def per_step(*functions):
    return [1e9 * t / N_STEPS for t in best(*functions, clock=time.process_time)]


def steps(python=None):
    table = Table("Nanoseconds a step, float64", "step", "n", "node by node", "one C function", "JAX", "C by hand")
    theirs = json.loads(subprocess.check_output([python, __file__, "--jax"])) if python else [None] * len(CASES)
    for (name, n), other in zip(CASES, theirs):
        fast, slow, hand = per_step(*ours(name, n), by_hand(name, n))
        cells = ["%.3g" % t for t in (slow, fast)] + ["" if other is None else "%.3g" % other, "%.3g" % hand]
        table.row(name, str(n), *cells)


def nested():
    import theano_ng as theano
    import theano_ng.tensor as T

    def loop(depth, x):
        if not depth:
            return T.tanh(x)
        return theano.scan(lambda s: loop(depth - 1, s) * 0.5, outputs_info=x, n_steps=2)[0][-1]

    table = Table("Gradient of loops within loops, CPU seconds", "levels", "empty cache", "filled cache")
    for depth in (2, 5, 10, 15, 20, 30):
        times = []
        for _ in range(2):
            x = T.dvector("x")
            gradient = theano.grad(loop(depth, x).sum(), x)
            gc.collect()
            start = time.process_time()
            theano.function([x], gradient)
            times.append(time.process_time() - start)
        table.row(str(depth), *map(show_time, times))


if __name__ == "__main__":
    if sys.argv[1:] == ["--jax"]:
        print(json.dumps([per_step(jax(*case))[0] for case in CASES]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["THEANO_FLAGS"] = "base_compiledir=" + folder
            nested() if sys.argv[1:] == ["nested"] else steps(*sys.argv[1:])
