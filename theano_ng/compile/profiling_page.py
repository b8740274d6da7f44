"""HTML pages of profiles, for `ProfileStats.to_html`.

A page is the template `profiling_page.html`, into which the data of a profile are inserted as JSON. The script of the
page draws tables and charts from the data. It loads no other file, and inserts names only as text, never as HTML. All
sums are computed in this module, where they can be tested.
"""

import linecache
import os

from theano_ng.compile.profiling_memory import GraphMemory, inplace_codes, variable_size
from theano_ng.configdefaults import config
from theano_ng.gof.rewriting import EquilibriumOptimizer, SeqOptimizer
from theano_ng.gof.stack_traces import stack_traces_of

TEMPLATE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "profiling_page.html")
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
TESTS = os.sep + "tests" + os.sep  # files of this package in a folder "tests" count as the user's program


def page(profile):
    """Return the HTML page of a profile as text.

    Parameters
    ----------
    profile : ProfileStats

    Returns
    -------
    str
    """
    import html
    import json

    data = contents(profile)
    # The JSON text must not contain an end tag of the script element. json.dumps also escapes U+2028 and U+2029, which
    # end a line in older browsers.
    text = (
        json.dumps(data, separators=(",", ":")).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    )
    with open(TEMPLATE, encoding="utf-8") as file:
        template = file.read()
    before, after = template.split("@DATA@")
    return before.replace("@TITLE@", html.escape(data["title"])) + text + after


def contents(profile):
    """Return the data of a profile's page, as dicts, lists, strings and numbers. Units are seconds and bytes.

    Parameters
    ----------
    profile : ProfileStats

    Returns
    -------
    dict
        The keys ``title``, ``calls``, ``nodes``, ``lines``, ``ops``, ``classes``, ``runs``, ``compilation``, ``tips``
        and ``loops``. ``loops`` is a list of dicts with the same keys, one for each profiled loop.
    """
    graphs = _graphs(profile)
    lines = _Lines()
    nodes = [_node(profile, node, i, lines) for i, node in enumerate(_profiled(profile, graphs))]
    numbers = {entry.pop("node"): i for i, entry in enumerate(nodes)}
    return {
        "title": "Profile of %s" % (profile.name_on_page() or "a function"),
        "calls": profile.calls_on_page(),
        "nodes": nodes,
        "lines": lines.table(nodes),
        "ops": _grouped(nodes, "op", profile.op_impl(), str),
        "classes": _grouped(nodes, "class", profile.class_impl(), _class_name),
        "runs": [_run(profile, order, numbers) for order in _orders(profile, graphs)],
        "compilation": _compilation(profile, numbers),
        "tips": profile.tips(),
        "loops": [contents(inner) for inner in _loops(numbers)],
    }


# ------------------------------------------------------------------------------------------- nodes


def _graphs(profile):
    """Return the graphs whose nodes were profiled, in the order in which the profile first refers to them."""
    nodes = (*profile.node_executed_order, *profile.apply_callcount, *profile.linker_make_thunk_time)
    return list(dict.fromkeys(g for g in (getattr(node, "fgraph", None) for node in nodes) if g is not None))


def _profiled(profile, graphs):
    """Return the nodes of all graphs in the order in which they run, then nodes that belong to no graph any longer."""
    return list(
        dict.fromkeys([node for order in _orders(profile, graphs) for node in order] + list(profile.apply_callcount))
    )


def _orders(profile, graphs):
    """Return one list of nodes for each graph. A list contains the nodes in the order in which they ran.

    If this order is not known for a graph, the list is in a topological order.
    """
    orders = []
    for fgraph in graphs:
        ran = [node for node in profile.node_executed_order if getattr(node, "fgraph", None) is fgraph]
        orders.append(ran or fgraph.toposort())
    return orders


def _class_name(cls):
    return "%s.%s" % (cls.__module__, cls.__name__)


def _node(profile, node, number, lines):
    """Return one row of the table of nodes. The row contains the node itself, too."""
    return {
        "node": node,
        "id": number,
        "op": str(node.op),
        "class": _class_name(type(node.op)),
        "text": str(node),
        "seconds": profile.apply_time.get(node, 0.0),
        "calls": profile.apply_callcount.get(node, 0),
        "impl": {True: "C", False: "Py"}.get(profile.apply_cimpl.get(node), ""),
        "line": lines.of(node),
        "thunk_seconds": profile.linker_make_thunk_time.get(node, 0.0),
        "inputs": [_value(profile, r) for r in node.inputs],
        "outputs": [dict(_value(profile, r), memory=code) for r, code in zip(node.outputs, inplace_codes(node))],
        "bytes": sum(variable_size(profile, r) for r in node.outputs),
    }


def _value(profile, variable):
    shape = profile.variable_shape.get(variable)
    return {
        "text": str(variable),
        "type": str(variable.type),
        "shape": None if shape is None else str(shape),
        "bytes": variable_size(profile, variable),
    }


def _grouped(nodes, key, impls, name):
    """Return the rows of the table of Ops or of Op classes, with sums over the nodes of each row."""
    impl_of = {name(which): impl.strip() for which, impl in impls.items()}
    rows = {}
    for node in nodes:
        row = rows.setdefault(
            node[key],
            {"name": node[key], "seconds": 0.0, "calls": 0, "nodes": 0, "bytes": 0, "impl": impl_of.get(node[key], "")},
        )
        row["seconds"] += node["seconds"]
        row["calls"] += node["calls"]
        row["nodes"] += 1
        row["bytes"] += node["bytes"]
    return sorted(rows.values(), key=lambda row: -row["seconds"])


class _Lines:
    """The table of the lines of the user's program that created nodes. Each line of the program has one row."""

    def __init__(self):
        self.numbers, self.rows = {}, []

    def of(self, node):
        """Return the number of a node's row.

        The row is that of the innermost line outside of this package in the node's stack trace. Return None if no such
        line is known.
        """
        for trace in stack_traces_of(node.outputs):
            for file, line, function, text in reversed(trace):
                if line and not (file.startswith(PACKAGE) and TESTS not in file):
                    return self._number(file, line, function, text)
        return None

    def _number(self, file, line, function, text):
        key = (file, line)
        if key not in self.numbers:
            self.numbers[key] = len(self.rows)
            text = text or linecache.getline(file, line)
            self.rows.append({"file": file, "line": line, "function": function, "text": text.strip()})
        return self.numbers[key]

    def table(self, nodes):
        """Return the rows, with sums over their nodes. A node for which no line is known is not counted."""
        for row in self.rows:
            row.update(seconds=0.0, calls=0, nodes=0, bytes=0)
        for node in nodes:
            if node["line"] is not None:
                row = self.rows[node["line"]]
                row["seconds"] += node["seconds"]
                row["calls"] += node["calls"]
                row["nodes"] += 1
                row["bytes"] += node["bytes"]
        return self.rows


# ------------------------------------------------------------------------------------------ memory


def _run(profile, order, numbers):
    """Return the memory data of one graph, whose nodes ran in the order of the list `order`.

    The data include the bytes that are held after each node has allocated its outputs, and the values alive at the
    peak.
    """
    run = {"nodes": [numbers[node] for node in order], "memory": None}
    if not profile.variable_shape or not any(node in profile.node_executed_order for node in order):
        return run
    memory = GraphMemory(profile, order)
    freeing = memory.timeline()
    keeping = memory.timeline(free=False)
    peak = max(range(len(freeing)), key=freeing.__getitem__)
    alive = sorted(memory.alive_at(peak), key=memory.size.__getitem__, reverse=True)
    run["memory"] = {
        "held": freeing,
        "kept": keeping,
        "peak": max(freeing),
        "peak_without_freeing": max(keeping),
        "allow_gc": bool(config.allow_gc),
        "at": peak,
        "inputs": sum(memory.inputs.values()),
        "alive": [
            {"node": numbers[r.owner], "output": r.index, "bytes": memory.size[r], "type": str(r.type)}
            for r in alive
            if memory.size[r]
        ],
    }
    return run


# ------------------------------------------------------------------------------------- compilation


def _compilation(profile, numbers):
    return {
        "seconds": profile.compile_time,
        "nodes": max(profile.nb_nodes, 0),
        "rewriting": profile.optimizer_time,
        "validating": profile.validate_time,
        "linking": profile.linker_time,
        "importing": profile.import_time,
        "thunks": profile.linker_node_make_thunks,
        "compiled": [{"what": what, "seconds": seconds} for what, seconds in profile.compiled],
        "from_disk": profile.graphs_from_disk,
        "interpreted": sum(profile.apply_interpreted.values()),
        "rewrites": _rewrites(*profile.optimizer_profile) if profile.optimizer_profile else None,
    }


def _rewrites(optimizer, result):
    """Return the optimizers that ran, with their times, as a tree. Optimizers that took no time are omitted.

    Parameters
    ----------
    optimizer : Optimizer
    result : object
        The result of the method `apply` of the optimizer.

    Returns
    -------
    list of dict
        Dicts with the keys ``name``, ``seconds``, ``before`` and ``after`` (numbers of nodes, or None), ``applied`` and
        ``created`` (counts for rules, otherwise None), and ``inside`` (the list for the contained optimizers).
    """
    if isinstance(optimizer, SeqOptimizer) and isinstance(result, tuple):
        opts, times, sub_profiles, nodes = result[0], result[1], result[6], result[8]
        rows = [
            _rewrite(opt, seconds, nodes=pair, inside=_rewrites(opt, sub) if sub is not None else [])
            for opt, seconds, sub, pair in zip(opts, times, sub_profiles, nodes)
        ]
    elif isinstance(optimizer, EquilibriumOptimizer) and isinstance(result, tuple):
        counts, seconds, created = {}, result[6], result[8]
        for in_pass in result[2]:
            for opt, count in in_pass.items():
                counts[opt] = counts.get(opt, 0) + count
        rows = [
            _rewrite(opt, seconds.get(opt, 0.0), applied=counts.get(opt, 0), created=created.get(opt, 0))
            for opt in dict.fromkeys([*seconds, *counts])
        ]
    else:
        return []
    return sorted((row for row in rows if row["seconds"] > 0 or row["applied"]), key=lambda row: -row["seconds"])


def _rewrite(optimizer, seconds, nodes=(None, None), applied=None, created=None, inside=()):
    return {
        "name": str(getattr(optimizer, "name", None) or optimizer),
        "seconds": seconds,
        "before": nodes[0],
        "after": nodes[1],
        "applied": applied,
        "created": created,
        "inside": list(inside),
    }


# ------------------------------------------------------------------------------------------- loops


def _loops(nodes):
    """Return the profiles of the loops among the nodes, without duplicates."""
    found = (node.op.inner_profile() for node in nodes if hasattr(node.op, "inner_profile"))
    return list(dict.fromkeys(inner for inner in found if inner is not None))
