"""How the time of `theano.function` grows with the graph, for many kinds of graphs, forward and with the gradient.

    python benchmarks/scaling.py                            # every family at 1,000 and 8,000 nodes; some minutes
    python benchmarks/scaling.py join_of_slices tree        # some of them
    python benchmarks/scaling.py --sizes 500 2000 --forward
    python benchmarks/scaling.py softmax --profile          # where the time goes at the larger size

CPU seconds of this process: rewriting and linking, without the C compiler. An exponent of 1 is proportional, 2 quadratic. Nodes are those of
the graph as it was written, before any rewriting; those of the gradient count too. The cache starts empty.
"""

import argparse
import cProfile
import gc
import math
import os
import pstats
import tempfile
import time

import measure

SIZES = (1000, 8000)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "families", nargs="*", metavar="family", help="names of theano_ng/tests/graph_families.py; default: all"
    )
    parser.add_argument("--sizes", nargs=2, type=int, default=SIZES, help="nodes of the two graphs")
    parser.add_argument("--forward", action="store_true", help="only the graph itself")
    parser.add_argument("--gradient", action="store_true", help="only with the gradient")
    parser.add_argument(
        "--profile", action="store_true", help="print a profile of the larger graph instead of the table"
    )
    arguments = parser.parse_args()
    kinds = [
        kind
        for kind, chosen in ((False, arguments.forward), (True, arguments.gradient))
        if chosen or arguments.forward == arguments.gradient
    ]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["THEANO_FLAGS"] = ",".join(
            filter(None, [os.environ.get("THEANO_FLAGS"), "base_compiledir=" + folder])
        )
        from theano_ng.tests.graph_families import FAMILIES

        unknown = [name for name in arguments.families if name not in FAMILIES]
        if unknown:
            parser.error("unknown families: %s; known: %s" % (", ".join(unknown), ", ".join(FAMILIES)))
        rows = [(FAMILIES[name], gradient) for name in arguments.families or FAMILIES for gradient in kinds]
        if arguments.profile:
            for make, gradient in rows:
                profile(make, gradient, arguments.sizes[1])
            return
        table = measure.Table(
            "Rewriting and linking, CPU seconds without the C compiler",
            "family",
            "nodes",
            "building",
            *("%d nodes" % size for size in arguments.sizes),
            "exponent",
            "ms per node",
            "nodes compiled",
        )
        for make, gradient in rows:
            row(table, make, gradient, arguments.sizes)


def compiled(inputs, outputs):
    import theano_ng

    return theano_ng.function(inputs, outputs, on_unused_input="ignore")


def row(table, make, gradient, sizes):
    """Measure a family at both sizes."""
    from theano_ng.tests.graph_families import build, count_nodes, steps_for

    compiled(*build(make, 4, gradient))  # what is imported once
    nodes, times = [], []
    for size in sizes:
        steps = steps_for(make, size, gradient)
        gc.collect()
        start = time.process_time()
        graph = build(make, steps, gradient)
        building = time.process_time() - start
        nodes.append(count_nodes(*graph))
        start = time.process_time()
        function = compiled(*graph)
        times.append(time.process_time() - start)
    table.row(
        make.__name__.replace("_", " ") + (", gradient" if gradient else ""),
        "%d" % nodes[1],
        measure.show_time(building),
        *map(measure.show_time, times),
        "%.2f" % (math.log(times[1] / times[0]) / math.log(nodes[1] / nodes[0])),
        "%.2f" % (1e3 * times[1] / nodes[1]),
        "%d" % len(function.maker.fgraph.apply_nodes),
    )


def profile(make, gradient, size):
    """Print where the time goes."""
    from theano_ng.tests.graph_families import build, steps_for

    compiled(*build(make, 4, gradient))
    graph = build(make, steps_for(make, size, gradient), gradient)
    calls = cProfile.Profile()
    calls.runcall(compiled, *graph)
    statistics = pstats.Stats(calls)
    statistics.sort_stats("cumulative").print_stats(45)
    statistics.sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
