"""How compile time grows with the graph: CPU seconds for N and 2N nodes, the compiler included.

    python benchmarks/scaling.py

2 is proportional, 4 quadratic. The cache starts empty, and common loops are in it after a small graph of each kind; loops of its own each graph
compiles anew.
"""
import os
import tempfile

import measure

SIZES = (200, 400)


def graphs(T):
    """Name and function of n that returns the inputs and outputs of a graph of about n operations."""
    def elementwise(n):
        x = h = T.dvector("x")
        for i in range(n):
            h = h * 0.9 + x if i % 3 == 0 else T.tanh(h) if i % 3 == 1 else abs(h) + 1.5
        return [x], h

    def products(n):
        x, m = T.dvector("x"), T.dmatrix("m")
        h = x
        for _ in range(n // 2):
            h = T.tanh(T.dot(m, h))
        return [x, m], h

    def gradient(n):
        inputs, h = products(n // 3)
        return inputs, T.grad(h.sum(), inputs)

    def many(n):
        x = T.dvector("x")
        return [x], [(x[i:] * (i + 1)).sum() for i in range(n // 3)]

    return [("elementwise chain", elementwise), ("chain of products and tanh", products), ("its gradient", gradient),
            ("sums of many slices", many)]


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.environ["THEANO_FLAGS"] = ",".join(filter(None, [os.environ.get("THEANO_FLAGS"), "base_compiledir=" + folder]))
        import theano_ng as theano
        import theano_ng.tensor as T

        table = measure.Table("Compile time, CPU seconds", "", "N = %d" % SIZES[0], "N = %d" % SIZES[1], "ratio", "nodes compiled")
        for name, make in graphs(T):
            times = []
            theano.function(*make(12))      # what is imported once
            for size in SIZES:
                start = measure.cpu_seconds()
                inputs, outputs = make(size)
                function = theano.function(inputs, outputs)
                times.append(measure.cpu_seconds() - start)
            table.row(name, *map(measure.show_time, times), measure.show_ratio(times[1] / times[0]),
                      "%d" % len(function.maker.fgraph.apply_nodes))


if __name__ == "__main__":
    main()
