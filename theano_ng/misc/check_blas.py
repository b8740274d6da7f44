#!/usr/bin/env python3
"""Time the product of two matrices, to see whether a fast BLAS is used and how it scales with threads.

::

    OMP_NUM_THREADS=1 python theano_ng/misc/check_blas.py -q
    OMP_NUM_THREADS=2 python theano_ng/misc/check_blas.py -q
"""

import argparse
import os
import sys
import time

import numpy as np

# Number of float64 operations per core and cycle for each instruction set. A fused multiply-add counts as two.
PER_CYCLE = (
    ("compiled loops without vector instructions", 1),
    ("SSE2", 4),
    ("AVX", 8),
    ("AVX2 with FMA", 16),
    ("AVX-512", 32),
)


def reference_table(cores=(1, 2, 4, 8, 16), gigahertz=3.0, size=2000, iters=10):
    """Return a table, as text, of lower bounds for the time of the benchmark, computed from the instruction sets."""
    work = 2e-9 * size**3 * iters
    lines = [
        "Least seconds for %d products of float64 matrices of %d x %d on cores of %.1f GHz; half of it for float32."
        % (iters, size, size, gigahertz),
        "%-45s" % "instructions used by the BLAS" + "".join("%9s" % ("%d core%s" % (n, "s" * (n > 1))) for n in cores),
    ]
    lines += [
        "%-45s" % name + "".join("%9.2f" % (work / (n * gigahertz * flops)) for n in cores) for name, flops in PER_CYCLE
    ]
    return "\n".join(lines)


def execute(execute=True, verbose=True, M=2000, N=2000, K=2000, iters=10, order="C"):
    """Multiply an (M, N) matrix by an (N, K) matrix `iters` times.

    The whole expression is ``C = 0.4 C + 0.8 dot(A, B)``, which is one call of gemm.

    Parameters
    ----------
    execute : bool
        If False, the product is only compiled, not run.
    verbose : bool
        Whether to print flags and versions.
    M, N, K : int
    iters : int
    order : {"C", "F"}
        The memory layout of the matrices.

    Returns
    -------
    seconds : float
        The time of all products. 0 if `execute` is False.
    implementation : str
        The description of the Op and the library that compute the product.
    """
    import theano_ng as theano
    import theano_ng.tensor as T

    if verbose:
        _print_configuration()
    dtype = theano.config.floatX
    a = theano.shared(np.ones((M, N), dtype=dtype, order=order))
    b = theano.shared(np.ones((N, K), dtype=dtype, order=order))
    c = theano.shared(np.ones((M, K), dtype=dtype, order=order))
    f = theano.function([], updates=[(c, 0.4 * c + 0.8 * T.dot(a, b))])
    products = [
        node.op for node in f.maker.fgraph.toposort() if isinstance(node.op, (T.blas.Gemm, T.blas.Dot22, T.Dot))
    ]
    if any(isinstance(op, T.blas.Gemm) for op in products):
        flags = theano.config.blas.ldflags
        implementation = "CPU (gemm of %s)" % ("the library of blas.ldflags=%s" % flags if flags else "SciPy's BLAS")
    else:
        implementation = "CPU (without gemm: %s)" % ", ".join(map(str, products))
    if not execute:
        return 0.0, implementation
    f()  # the first call, which allocates memory, is not timed
    start = time.perf_counter()
    for _ in range(iters):
        f()
    return time.perf_counter() - start, implementation


def _print_configuration():
    import scipy

    import theano_ng as theano

    print("Flags that matter here:")
    for name in ("blas.ldflags", "compiledir", "floatX", "device"):
        value = theano.config
        for part in name.split("."):
            value = getattr(value, part)
        print("    %s = %s" % (name, value))
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "GOTO_NUM_THREADS"):
        print("    %s = %s" % (name, os.environ.get(name)))
    print("NumPy %s in %s; its configuration:" % (np.__version__, os.path.dirname(np.__file__)))
    np.show_config()
    print("SciPy %s in %s" % (scipy.__version__, os.path.dirname(scipy.__file__)))


def jobman_job(state, channel):
    """Run the benchmark as a job of jobman. Read the sizes from `state`, and store the time in it."""
    state.time, state.implementation = execute(
        verbose=False, **{name: state[name] for name in ("M", "N", "K", "iters", "order") if name in state}
    )
    return channel.COMPLETE


def test():
    """Run the benchmark with small matrices, and check that it returns a time."""
    seconds, _ = execute(verbose=False, M=20, N=20, K=20, iters=2)
    assert seconds > 0


def main(argv=None):
    """Run the program with command line arguments; see --help."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("-q", "--quiet", action="store_true", help="print only the time")
    parser.add_argument("--print_only", action="store_true", help="do not run the benchmark")
    for name in "MNK":
        parser.add_argument(
            "-%s" % name,
            "--%s" % name,
            type=int,
            default=0,
            help="size of the matrices; 2000 (5000 on 8 cores and more)",
        )
    parser.add_argument("--iter", type=int, default=10, help="number of products")
    parser.add_argument("--order", choices=["C", "F"], default="C", help="memory layout")
    parser.add_argument("-B", "--B", type=int, default=0, help="M, N and K in one argument")
    options = parser.parse_args(argv)
    size = options.B or (5000 if (os.cpu_count() or 1) >= 8 else 2000)
    sizes = {name: getattr(options, name) or size for name in "MNK"}
    if not options.quiet:
        print(reference_table(size=size, iters=options.iter) + "\n")
    seconds, implementation = execute(
        not options.print_only, not options.quiet, iters=options.iter, order=options.order, **sizes
    )
    if options.print_only:
        return 0
    if options.quiet:
        print("%.3f" % seconds)
    else:
        print(
            "%d products of (%d, %d) by (%d, %d) took %.3f s on %s: %.1f GFlop/s."
            % (
                options.iter,
                sizes["M"],
                sizes["N"],
                sizes["N"],
                sizes["K"],
                seconds,
                implementation,
                2e-9 * options.iter * sizes["M"] * sizes["N"] * sizes["K"] / max(seconds, 1e-9),
            )
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
