"""Measure how the time of `theano.function` grows with the graph, for many families of graphs.

    python benchmarks/scaling.py                            # every family at 10, 20 and 40 steps; some minutes
    python benchmarks/scaling.py join_of_slices tree        # only these families
    python benchmarks/scaling.py --steps 20 40 80 --forward
    python benchmarks/scaling.py --nodes 1000 8000          # graphs with about these numbers of nodes
    python benchmarks/scaling.py --calls                    # count calls instead of seconds, for busy machines
    python benchmarks/scaling.py softmax --profile          # a profile of the largest size

Each graph is measured alone and with its gradient. Times are CPU seconds of this process for rewriting and linking,
without the C compiler: the minimum of two runs. An exponent of 1 means that the time is proportional to the number of
operands of all nodes; 2 means quadratic. Exponents above 1.2 are marked, and make the exit status 1. Rewriting does not
merge a chain of additions with more than 31 operands into one node. Therefore the exponent of a long sum is larger
between the two sizes where its length exceeds 31. The numbers of nodes are the numbers before rewriting, including the
nodes of the gradient. The graph cache is off.
"""

import argparse
import cProfile
import gc
import itertools
import math
import os
import pstats
import sys
import tempfile
import time

import measure

STEPS = (10, 20, 40)
MOST = 1.2
"""The largest exponent that is not marked."""

RUNS = 2
SHORT = 0.05
"""Seconds. A shorter time consists of overhead."""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "families", nargs="*", metavar="family", help="names of theano_ng/tests/graph_families.py; default: all"
    )
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--steps", nargs="+", type=int, default=STEPS, help="steps of the graphs")
    sizes.add_argument(
        "--nodes", nargs="+", type=int, help="approximate number of nodes of the graphs, instead of --steps"
    )
    parser.add_argument("--forward", action="store_true", help="only the graph itself, without the gradient")
    parser.add_argument("--gradient", action="store_true", help="only with the gradient")
    parser.add_argument("--calls", action="store_true", help="count calls of functions, not seconds")
    parser.add_argument(
        "--profile", action="store_true", help="print a profile of the largest graph instead of the table"
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
        measured = calls if arguments.calls else seconds
        graphs = [Graphs(make, gradient, arguments.steps, arguments.nodes, measured) for make, gradient in rows]
        if arguments.profile:
            for graph in graphs:
                profile(graph)
            return 0
        table = measure.Table(
            "Rewriting and linking, %s"
            % ("millions of calls" if arguments.calls else "CPU seconds without the C compiler"),
            "family",
            "nodes",
            *["%d %s" % (size, "nodes" if arguments.nodes else "steps") for size in arguments.nodes or arguments.steps],
            "exponent",
            "calls per node" if arguments.calls else "ms per node",
            "nodes compiled",
            "",
        )
        marked = [graph.name for graph in graphs if graph.row(table)]
        print(
            "%d of %d above an exponent of %s%s"
            % (len(marked), len(graphs), MOST, ": " + ", ".join(marked) if marked else "")
        )
        return 1 if marked else 0


def compiled(inputs, outputs):
    import theano_ng

    with theano_ng.change_flags(cache_graphs=False):
        return theano_ng.function(inputs, outputs, on_unused_input="ignore")


class Graphs:
    """The graphs of a family at all sizes."""

    def __init__(self, make, gradient, steps, nodes, measured):
        from theano_ng.tests.graph_families import steps_for

        self.make, self.gradient, self.measured = make, gradient, measured
        self.name = make.__name__.replace("_", " ") + (", gradient" if gradient else "")
        self.steps = [steps_for(make, size, gradient) for size in nodes] if nodes else steps

    def at(self, steps):
        from theano_ng.tests.graph_families import build

        return build(self.make, steps, self.gradient)

    def row(self, table):
        """Measure all sizes, and add a row to a table; return True if the largest exponent between two sizes is marked."""
        from theano_ng.tests.graph_families import count_nodes, count_operands

        compiled(*self.at(4))  # compile once, so that the imports are not measured
        nodes, operands, work = [], [], []
        for steps in self.steps:
            graph = self.at(steps)
            nodes.append(count_nodes(*graph))
            operands.append(count_operands(*graph))
            work.append(self.measured(graph))
            function = compiled(*graph)
        exponents = [
            math.log(w2 / w1) / math.log(n2 / n1)
            for (w1, n1), (w2, n2) in itertools.pairwise(zip(work, operands))
            if w2 > LEAST[self.measured] and n2 > n1
        ]
        marked = max(exponents, default=0) > MOST
        counted = self.measured is calls
        table.row(
            self.name,
            "%d" % nodes[-1],
            *["%.3f" % (w / 1e6) if counted else measure.show_time(w) for w in work],
            "%.2f" % max(exponents, default=math.nan),
            "%d" % (work[-1] / nodes[-1]) if counted else "%.2f" % (1e3 * work[-1] / nodes[-1]),
            "%d" % len(function.maker.fgraph.apply_nodes),
            "<<<" if marked else "",
        )
        return marked


def seconds(graph):
    """Return the minimum of the CPU times of several runs, in seconds."""
    return min(map(seconds_of_one_run, [graph] * RUNS))


def seconds_of_one_run(graph):
    gc.collect()
    start = time.process_time()
    compiled(*graph)
    return time.process_time() - start


def calls(graph):
    """Return the number of function calls, including calls of C functions."""
    gc.collect()
    counted = cProfile.Profile()
    counted.runcall(compiled, *graph)
    return sum(entry.callcount for entry in counted.getstats())


LEAST = {seconds: SHORT, calls: 0}
"""Measure -> the least value for which an exponent is computed."""


def profile(graphs):
    """Print a profile of the largest size."""
    compiled(*graphs.at(4))
    graph = graphs.at(graphs.steps[-1])
    timed = cProfile.Profile(time.process_time)
    timed.runcall(compiled, *graph)
    statistics = pstats.Stats(timed)
    statistics.sort_stats("cumulative").print_stats(45)
    statistics.sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    sys.exit(main())
