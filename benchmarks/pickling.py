"""The costs of pickling, loading and copying compiled functions, for small and large graphs.

    python benchmarks/pickling.py                           # some families of graphs at 1,000 and 5,000 nodes
    python benchmarks/pickling.py tree gemv                 # other families of theano_ng/tests/graph_families.py
    python benchmarks/pickling.py --sizes 500 20000 --mode FAST_COMPILE

The figures are CPU seconds (the minimum of two runs) and bytes. Figures per node, and exponents, refer to the number of
nodes of the expression before rewriting, including the gradient. The pickle of a function contains the expression and
the rewritten graph. For comparison, the last column contains the costs of pickling only the expression. Loading and
copying include linking. An exponent of 1 means that a cost is proportional to the number of nodes; 2 means quadratic.
"""

import argparse
import gc
import math
import os
import pickle
import tempfile
import time

import measure

SIZES = (1000, 5000)
USUAL = ("elementwise", "gemv", "layers", "inc_subtensor", "conditionals", "op_from_graph", "fan")


def seconds(function):
    """Return the CPU time of a call (the minimum of two calls), and the result of the call."""
    shortest = float("inf")
    for _ in range(2):
        gc.collect()
        start = time.process_time()
        result = function()
        shortest = min(shortest, time.process_time() - start)
    return shortest, result


def costs(theano, inputs, outputs, mode):
    """Return the times to pickle, load and copy a function and to pickle its expression, and the sizes of both pickles.

    The times are in seconds, the sizes in bytes.
    """
    function = theano.function(inputs, outputs, mode=mode, on_unused_input="ignore")
    dumping, written = seconds(lambda: pickle.dumps(function, pickle.HIGHEST_PROTOCOL))
    loading, _ = seconds(lambda: pickle.loads(written))
    copying, _ = seconds(function.copy)
    plain, expression = seconds(lambda: pickle.dumps(outputs, pickle.HIGHEST_PROTOCOL))
    return (dumping, loading, copying, plain), (len(written), len(expression))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "families", nargs="*", metavar="family", default=USUAL, help="names of theano_ng/tests/graph_families.py"
    )
    parser.add_argument("--sizes", nargs=2, type=int, default=SIZES, help="nodes of the two graphs")
    parser.add_argument("--mode", help="default: the mode of the configuration")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["THEANO_FLAGS"] = ",".join(
            filter(None, [os.environ.get("THEANO_FLAGS"), "base_compiledir=" + folder])
        )
        import theano_ng as theano
        from theano_ng.tests.graph_families import FAMILIES, build, count_nodes, steps_for

        unknown = [name for name in arguments.families if name not in FAMILIES]
        if unknown:
            parser.error("unknown families: %s; known: %s" % (", ".join(unknown), ", ".join(FAMILIES)))
        table = measure.Table(
            "Pickling, loading and copying functions of %s and %s nodes"
            % tuple(format(size, ",") for size in arguments.sizes),
            "family",
            "nodes",
            "pickling",
            "exponent",
            "loading",
            "exponent",
            "copying",
            "exponent",
            "ms per node, in total",
            "bytes per node",
            "expression: pickling, bytes per node",
        )
        for name in arguments.families:
            make = FAMILIES[name]
            found = []
            for size in arguments.sizes:
                inputs, outputs = build(make, steps_for(make, size, True), True)
                found.append((count_nodes(inputs, outputs), *costs(theano, inputs, outputs, arguments.mode)))
            (few, small, _), (many, large, sizes) = found
            cells = []
            for before, after in zip(small[:3], large[:3]):
                cells += [measure.show_time(after), "%.2f" % (math.log(after / before) / math.log(many / few))]
            table.row(
                name.replace("_", " "),
                "%d" % many,
                *cells,
                "%.3f" % (1e3 * sum(large[:3]) / many),
                "%d" % (sizes[0] / many),
                "%s, %d" % (measure.show_time(large[3]), sizes[1] / many),
            )


if __name__ == "__main__":
    main()
