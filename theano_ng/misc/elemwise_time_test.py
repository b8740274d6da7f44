"""Time elementwise operations with the current flags; `elemwise_openmp_speedup` compares runs of this program."""

import argparse
import sys
import timeit

import numpy as np


def evalTime(f, v, script=False, loops=1000):
    """Time `loops` calls of a function on a value, after a first call that is not timed.

    Parameters
    ----------
    f : callable
    v : array
    script : bool
        If True, print nothing.
    loops : int

    Returns
    -------
    float
        The seconds of the fastest call.
    """
    f(v)
    times = timeit.repeat(lambda: f(v), number=1, repeat=loops)
    if not script:
        print(
            "time of the operation: fastest %.3e s, mean %.3e s, deviation %.3e s over %d calls"
            % (min(times), np.mean(times), np.std(times), loops)
        )
    return min(times)


def ElemwiseOpTime(N, script=False, loops=1000):
    """Time a cheap operation (2x + x**3) and a costly operation (sin(x)**2 + cos(x)**2) on vectors of N elements.

    Parameters
    ----------
    N : int
    script : bool
        If True, print only the two times on one line, the time of the cheap operation first.
    loops : int

    Returns
    -------
    cheap, costly : float
        The seconds of the fastest call of each operation.
    """
    import theano_ng as theano
    import theano_ng.tensor as T

    x = T.vector("x")
    value = np.random.RandomState(1235).uniform(size=N).astype(theano.config.floatX)
    cheap = theano.function([theano.In(x, borrow=True)], theano.Out(2 * x + x**3, borrow=True))
    costly = theano.function([theano.In(x, borrow=True)], theano.Out(T.sin(x) ** 2 + T.cos(x) ** 2, borrow=True))
    if not script:
        import os

        print(
            "openmp=%s, OMP_NUM_THREADS=%s, %d elements" % (theano.config.openmp, os.environ.get("OMP_NUM_THREADS"), N)
        )
        print("cheap: ", end="")
    times = [evalTime(cheap, value, script=script, loops=loops)]
    if not script:
        print("costly: ", end="")
    times.append(evalTime(costly, value, script=script, loops=loops))
    if script:
        print("%r %r" % tuple(times))
    return tuple(times)


def main(argv=None):
    """Run the program with command line arguments; see --help."""
    parser = argparse.ArgumentParser(description=__doc__.split(";", 1)[0])
    parser.add_argument("-N", "--N", type=int, default=0, help="number of elements; openmp_elemwise_minsize by default")
    parser.add_argument("--loops", type=int, default=100, help="calls timed")
    parser.add_argument("--script", action="store_true", help="print only the two times")
    options = parser.parse_args(argv)
    import theano_ng as theano

    ElemwiseOpTime(options.N or theano.config.openmp_elemwise_minsize, options.script, options.loops)
    return 0


if __name__ == "__main__":
    sys.exit(main())
