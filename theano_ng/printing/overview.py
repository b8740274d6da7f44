"""Pictures of large graphs on one screen. Most boxes represent the Ops that one function or line of the user's program
created.
"""

import heapq
import os
from collections import Counter

from theano_ng.gof.graph import Constant
from theano_ng.printing.graphs import is_shared, short_label, shortened, user_frames

#: Limits for the number of boxes. `Overview` tries them in this order until the picture fits on a screen.
BUDGETS = (40, 32, 25, 20, 16, 12, 8)
#: The maximum number of ranks (rows of boxes), and the maximum number of boxes in a rank, that fit on a screen.
MAX_RANKS, MAX_ABREAST = 12, 6
#: A program line that created more than this number of Ops is always drawn as one box. Such Ops are usually similar,
#: because a loop or several calls executed the line.
MAX_OF_A_LINE = 3
#: The maximum number of drawn variables of each kind: inputs, shared variables, outputs.
MAX_VARIABLES = 4
#: The maximum width and height of the picture in inches. Larger pictures are scaled down.
SCREEN = (19, 10.5)
#: The style of the arrows from the inputs of the graph, and of the arrows to its outputs.
PALE = {"color": '"#9aa5b1"'}


class Group:
    """The nodes that a function or a line of the user's program created.

    Attributes
    ----------
    label : str
    parent : Group or None
    children : dict
        Key -> the group of a function that this function called, or of a line of this function. Empty for a line.
    nodes : list of Apply
        The nodes that a line created itself. Empty for a function.
    size : int
        The number of Ops, including the Ops of the children.
    order : int
        The number of the group, in the order in which the groups are created.
    """

    def __init__(self, label, parent, order):
        self.label, self.parent, self.order = label, parent, order
        self.children, self.nodes, self.size = {}, [], 0

    def all_nodes(self):
        found, todo = [], [self]
        while todo:
            group = todo.pop()
            found.extend(group.nodes)
            todo.extend(group.children.values())
        return found


def groups(nodes):
    """Return the tree of the function calls that created some nodes.

    Parameters
    ----------
    nodes : list of Apply

    Returns
    -------
    Group
        The root. Calls of the same function from different lines are different groups.
    dict
        Node -> the group of the line that created it.
    """
    root, count, lines = Group("", None, 0), 0, {}
    for node in nodes:
        frames = user_frames(node)
        here = root
        root.size += 1
        calls = [None] + [frame[1] for frame in frames[:-1]]
        steps = [
            ((call, file, function), "%s  (%s)" % (function, os.path.basename(file)))
            for call, (file, _, function, _) in zip(calls, frames)
        ]
        if frames:
            file, line, _, text = frames[-1]
            place = "%s:%d" % (os.path.basename(file), line)
            steps.append((line, "%s\n%s" % (shortened(text, 50), place) if text else place))
        else:
            steps.append((None, "without a line of the program"))
        for key, label in steps:
            if key not in here.children:
                count += 1
                here.children[key] = Group(label, here, count)
            here = here.children[key]
            here.size += 1
        here.nodes.append(node)
        lines[node] = here
    return root, lines


def cut(root, budget):
    """Return the boxes to draw: single nodes, and groups that are not opened.

    Opening a group means replacing its box by the boxes of its children and nodes. The largest groups are opened first,
    as long as the number of boxes is at most `budget`. The root is always opened.

    Parameters
    ----------
    root : Group
    budget : int

    Returns
    -------
    list of Apply or Group
    """
    boxes, single = 1, []
    heap, closed = [(-root.size, root.order, root)], []
    while heap:
        _, _, group = heapq.heappop(heap)
        more = len(group.children) + len(group.nodes) - 1
        if (boxes + more > budget or len(group.nodes) > MAX_OF_A_LINE) and group is not root:
            closed.append(group)
            continue
        boxes += more
        single.extend(group.nodes)
        for child in group.children.values():
            heapq.heappush(heap, (-child.size, child.order, child))
    return single + [group.nodes[0] if group.size == 1 and group.nodes else group for group in closed]


class Overview:
    """An overview of a large graph, in which most boxes represent groups of Ops.

    Parameters
    ----------
    graph : Contents

    Attributes
    ----------
    units : list of Apply or Group
        The nodes and groups that are drawn as boxes.
    unit_of : dict
        Node -> its unit.
    arrows : dict
        ``(unit, unit)`` -> the variables that the first unit computes and the second unit reads.
    """

    def __init__(self, graph):
        self.graph = graph
        root, self.lines = groups(graph.nodes)
        for budget in BUDGETS:
            self._set_units(cut(root, budget))
            ranks = self._ranks()
            if max(ranks.values(), default=0) < MAX_RANKS and max(Counter(ranks.values()).values()) <= MAX_ABREAST:
                break

    def _set_units(self, units):
        self.unit_of = {node: u for u in units for node in (u.all_nodes() if isinstance(u, Group) else [u])}
        places = {}
        for i, node in enumerate(self.graph.nodes):
            places.setdefault(self.unit_of[node], []).append(i)
        # Groups may depend on each other in a cycle, so units may have no topological order. Therefore sort the units
        # by the mean position of their nodes in the order of execution.
        self.units = sorted(places, key=lambda unit: (sum(places[unit]) / len(places[unit]), places[unit][0]))
        self.arrows = {}
        for node in self.graph.nodes:
            here = self.unit_of[node]
            for v in node.inputs:
                there = self.unit_of.get(v.owner)
                if there is not None and there is not here:
                    self.arrows.setdefault((there, here), {})[v] = None

    def _ranks(self):
        """Return a dict from unit to rank, approximately as Graphviz ranks the boxes. Backward arrows are ignored."""
        number = {u: i for i, u in enumerate(self.units)}
        ranks = dict.fromkeys(self.units, 0)
        below = {}
        for start, end in self.arrows:
            if number[start] < number[end]:
                below.setdefault(start, []).append(end)
        for u in self.units:
            for end in below.get(u, ()):
                ranks[end] = max(ranks[end], ranks[u] + 1)
        return ranks

    def left_out(self):
        """Return the text above the picture: how many Ops are drawn one by one, and how many are combined in boxes."""
        closed = [u for u in self.units if isinstance(u, Group)]
        hidden = sum(u.size for u in closed)
        where = "one box" if len(closed) == 1 else "%d boxes" % len(closed)
        return "{:,} ops: {:,} drawn one by one, {:,} summed up in {}, by function or line of the program".format(
            len(self.graph.nodes), len(self.graph.nodes) - hidden, hidden, where
        )

    def draw(self, picture):
        """Draw the overview.

        Parameters
        ----------
        picture : _Picture
        """
        size = ("size", '"%s,%s"' % SCREEN), ("dpi", 96)
        for name, value in (
            *size,
            ("ranksep", 0.3),
            ("nodesep", 0.2),
            ("labelloc", "t"),
            ("fontsize", 16),
            ("newrank", "true"),
        ):
            picture.graph.set(name, value)
        picture.graph.set_node_defaults(fontname="Helvetica", height=0.35)
        picture.graph.set_edge_defaults(fontname="Helvetica", fontsize=11)
        picture.graph.set("fontname", "Helvetica")
        picture.graph.set("label", picture.quoted(self.left_out()))
        frames = {}
        for number, node in enumerate(self.graph.nodes):
            unit = self.unit_of[node]
            if unit in picture.names:
                continue
            if unit is node:
                where = self._frame(self.lines[node].parent, frames, picture)
                label = short_label(node.op) + (" id=%d" % number if picture.options["with_ids"] else "")
                picture.node(node, label, "ellipse", picture.apply_color(node), where)
            else:
                picture.node(
                    unit, self._group_label(unit), "folder", "#eef1f5", self._frame(unit.parent, frames, picture)
                )
        order = {unit: i for i, unit in enumerate(self.units)}
        for (start, end), variables in self.arrows.items():
            label = "%d values" % len(variables) if len(variables) > 1 else ""
            ends, style = (picture.names[start], picture.names[end]), {}
            if order[start] > order[end]:
                # Graphviz may fail on cycles across clusters. Therefore reverse an edge that points upwards, and draw
                # its arrow backwards. The attribute `newrank`, which is set above, also prevents such failures.
                ends, style = ends[::-1], {"dir": "back"}
            picture.edge(*ends, label, style)
        self._draw_inputs(picture)
        self._draw_outputs(picture)

    def _frame(self, group, frames, picture):
        """Return the cluster of an opened function, inside the clusters of its callers. Create missing clusters.

        A function that created all nodes has no cluster, because its frame would enclose the whole picture.
        """
        missing = []
        while group is not None and group not in frames:
            missing.append(group)
            group = group.parent
        where = picture.graph if group is None else frames[group]
        for one in reversed(missing):
            if one.parent is not None and one.size < len(self.graph.nodes):
                cluster = picture.pydot.Cluster(
                    "f%d" % one.order,
                    label=picture.quoted(one.label),
                    style="rounded",
                    color='"#9aa5b1"',
                    fontcolor='"#57636f"',
                )
                where.add_subgraph(cluster)
                where = cluster
            frames[one] = where
        return where

    @staticmethod
    def _group_label(group):
        counts = Counter(short_label(node.op, 24) for node in group.all_nodes()).most_common()
        words = [
            "%d %s" % (n, label) if n > 1 else label
            for label, n in sorted(counts, key=lambda pair: (-pair[1], pair[0]))
        ]
        rest = sum(n for _, n in counts[3:])
        listed = ", ".join(words[:3]) + (", %d more" % rest if rest else "")
        return "%s\n%s: %s" % (group.label, "1 op" if group.size == 1 else "%d ops" % group.size, listed)

    def _draw_inputs(self, picture):
        """Draw the shared variables with the most readers, and one box for all remaining shared variables.

        Draw the other inputs of the graph in the same way. Constants are not drawn.
        """
        readers = {}
        for node in self.graph.nodes:
            for v in node.inputs:
                if v.owner is None and not isinstance(v, Constant):
                    readers.setdefault(v, {})[self.unit_of[node]] = None
        for shared in (False, True):
            kind = [v for v in readers if (v in self.graph.shared or is_shared(v)) is shared]
            chosen = set(sorted(kind, key=lambda v: -len(readers[v]))[:MAX_VARIABLES])
            for v in kind:
                if v in chosen:
                    name = picture.node(v, picture.variable_label(v), "box", picture.variable_color(v))
                    for u in readers[v]:
                        picture.edge(name, picture.names[u], "", PALE)
            rest = [v for v in kind if v not in chosen]
            if rest:
                label = "%d more %s" % (len(rest), "shared variables" if shared else "inputs")
                name = picture.node(("rest", shared), label, "box", picture.variable_color(rest[0]))
                for u in dict.fromkeys(u for v in rest for u in readers[v]):
                    picture.edge(name, picture.names[u], "", PALE)

    def _draw_outputs(self, picture):
        outputs = [v for v in dict.fromkeys(self.graph.outputs) if v.owner in self.unit_of]
        for v in outputs[:MAX_VARIABLES]:
            name = picture.node(v, picture.variable_label(v), "box", picture.variable_color(v))
            picture.edge(picture.names[self.unit_of[v.owner]], name, "", PALE)
        rest = outputs[MAX_VARIABLES:]
        if rest:
            name = picture.node(
                ("rest", "outputs"), "%d more outputs" % len(rest), "box", picture.variable_color(rest[0])
            )
            for u in dict.fromkeys(self.unit_of[v.owner] for v in rest):
                picture.edge(picture.names[u], name, "", PALE)
