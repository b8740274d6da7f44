"""The cost of a call with little computation: ``python benchmarks/calls.py``.

The call of a compiled function is compared with a Python function that does the same computation in NumPy on the same
arrays.
"""

import measure
import numpy as np

import theano_ng as theano
import theano_ng.tensor as T


def chain(x, length, maximum, tanh):
    """Return a chain of operations that rewriting cannot shorten."""
    for _ in range(0, length, 5):
        x = maximum(tanh(x * 0.9 + 0.1) * x, 0.5)
    return x


def unfusable(x, length, tanh, cumsum):
    """Return a chain of operations that fusion cannot combine into one loop.

    Elementwise operations, sums, broadcasting and cumulative sums alternate.
    """
    for i in range(length):
        if i % 4 == 0:
            x = tanh(x)
        elif i % 4 == 1:
            total = x.sum()
        elif i % 4 == 2:
            x = x - total
        else:
            x = cumsum(x)
    return x


def cases():
    """Yield tuples: name, inputs, output, NumPy function, argument."""
    x, v = T.dscalar("x"), T.dvector("v")
    ten = np.linspace(0, 1, 10)
    yield "x * 2 + 1, 0-d", x, x * 2 + 1, lambda a: a * 2 + 1, np.asarray(0.5)
    yield "sum of 10", v, v.sum(), lambda a: a.sum(), ten
    yield "dot of 10 and 10", v, T.dot(v, v), lambda a: np.dot(a, a), ten
    yield "reversed copy of 8 of 10", v, v[1:-1][::-1], lambda a: a[1:-1][::-1].copy(), ten
    for length in (10, 100):
        yield (
            "chain of %d on 10 numbers" % length,
            v,
            chain(v, length, T.maximum, T.tanh),
            lambda a, n=length: chain(a, n, np.maximum, np.tanh),
            ten,
        )
    yield (
        "100 that cannot be fused, on 4",
        v,
        unfusable(v, 100, T.tanh, T.cumsum),
        lambda a: unfusable(a, 100, np.tanh, np.cumsum),
        ten[:4],
    )


def numbers():
    """Yield tuples: name, input variable, output, number passed as the argument."""
    for name, variable, given in (
        ("int for int64", T.lscalar("n"), 3),
        ("int for int8", T.bscalar("n"), 3),
        ("float for float64", T.dscalar("n"), 0.5),
        ("int for float64", T.dscalar("n"), 3),
        ("float for float32", T.fscalar("n"), 0.5),
        ("bool for int64", T.lscalar("n"), True),
        ("np.float64 for float64", T.dscalar("n"), np.float64(0.5)),
        ("np.int64 for int64", T.lscalar("n"), np.int64(3)),
        ("0-d int32 for int64", T.lscalar("n"), np.asarray(3, "int32")),
        ("float for int64, a whole number", T.lscalar("n"), 3.0),
    ):
        yield name, variable, variable + variable, given


def main():
    table = measure.Table(
        "Calls", "", "call", "with trust_input", "machine alone", "nodes", "a node", "NumPy", "call / NumPy"
    )
    for name, variable, output, reference, argument in cases():
        plain, trusting, filled = (theano.function([variable], output) for _ in range(3))
        np.testing.assert_allclose(plain(argument), reference(argument), rtol=1e-12)
        trusting.trust_input = True
        # Put the argument into the input cell. Then `filled.fn` runs only the virtual machine, without the code of
        # `Function` that processes arguments and results.
        filled.input_storage[0].storage[0] = argument
        times = measure.best(
            lambda: plain(argument), lambda: trusting(argument), filled.fn, lambda: reference(argument)
        )
        nodes = len(filled.maker.fgraph.apply_nodes)
        table.row(
            name,
            *map(measure.show_time, times[:3]),
            str(nodes),
            measure.show_time(times[2] / nodes),
            measure.show_time(times[3]),
            measure.show_ratio(times[0] / times[3]),
        )
    table = measure.Table("Numbers given for scalar inputs", "", "call", "NumPy", "call / NumPy")
    for name, variable, output, given in numbers():
        function, dtype = theano.function([variable], output), variable.dtype

        def reference(value=given, dtype=dtype):
            array = np.asarray(value, dtype)
            return array + array

        np.testing.assert_array_equal(function(given), reference())
        times = measure.best(lambda: function(given), reference)
        table.row(name, *map(measure.show_time, times), measure.show_ratio(times[0] / times[1]))


if __name__ == "__main__":
    main()
