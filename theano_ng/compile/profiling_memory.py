"""The memory section of a profile."""

from theano_ng.configdefaults import config


def _aliased(node):
    """Return the indices of the outputs that share memory with an input."""
    aliased = set()
    for table in (getattr(node.op, "view_map", None), getattr(node.op, "destroy_map", None)):
        aliased.update(table or ())
    return aliased


def inplace_codes(node):
    """Return one code for each output, as the Op declares: "c" for new memory, "i" for in place, and "v" for a view."""
    views = set(getattr(node.op, "view_map", None) or ())
    inplace = set(getattr(node.op, "destroy_map", None) or ())
    return ["i" if i in inplace else "v" if i in views else "c" for i in range(len(node.outputs))]


def variable_size(profile, r):
    """Return the size in bytes of a variable's value in the latest call. Return 0 if its Type cannot compute sizes."""
    info = profile.variable_shape.get(r)
    if info is None or isinstance(info, str):
        return 0
    try:
        return int(r.type.get_size(info))
    except Exception:
        return 0  # a Type without sizes


class GraphMemory:
    """The sizes of the values of one executed graph, the memory that they share, and the number of their readers.

    Parameters
    ----------
    profile : ProfileStats
    nodes : list of Apply
        The nodes in the order in which they ran.
    """

    def __init__(self, profile, nodes):
        self.nodes = nodes
        self.size = {}  # variable with separate memory -> bytes
        self.memory_of = {}  # variable -> the variable that owns its memory (possibly the variable itself)
        computed = {out for node in nodes for out in node.outputs}
        fgraph = getattr(nodes[0], "fgraph", None) if nodes else None
        for node in nodes:
            aliased = _aliased(node)
            for i, out in enumerate(node.outputs):
                if i in aliased:
                    tables = (getattr(node.op, "view_map", None) or {}, getattr(node.op, "destroy_map", None) or {})
                    position = next(table[i][0] for table in tables if table.get(i))
                    self.memory_of[out] = self._root(node.inputs[position])
                else:
                    self.memory_of[out] = out
                    self.size[out] = variable_size(profile, out)
        self.kept = {self._root(r) for r in getattr(fgraph, "outputs", ())}
        self.inputs = {r: variable_size(profile, r) for node in nodes for r in node.inputs if r not in computed}
        # variable with separate memory -> the number of nodes that read this memory
        self.readers = {}
        for node in nodes:
            for r in dict.fromkeys(self._root(r) for r in node.inputs):
                self.readers[r] = self.readers.get(r, 0) + 1

    def _root(self, r):
        return self.memory_of.get(r, r)

    def peak(self, order=None, free=True):
        """Return the maximum number of bytes held at once, inputs excluded. For the parameters, see `timeline`."""
        return max(self.timeline(order, free), default=0)

    def timeline(self, order=None, free=True):
        """For each node, return the number of bytes that are held when the node has allocated its outputs.

        The inputs of the graph are not counted.

        Parameters
        ----------
        order : list of Apply, optional
            By default, the order in which the nodes ran.
        free : bool
            Whether values are freed after their last use.

        Returns
        -------
        list of int
        """
        held, found = 0, []
        waiting = dict(self.readers)
        for node in self.nodes if order is None else order:
            held += self._allocated(node)
            found.append(held)
            if free:
                held -= self._freed(node, waiting)
        return found

    def alive_at(self, position):
        """Return the variables with separate memory that are held when node `position` has allocated its outputs."""
        alive, waiting = {}, dict(self.readers)
        for i, node in enumerate(self.nodes):
            alive.update(dict.fromkeys(out for out in node.outputs if out in self.size))
            if i == position:
                break
            for r in self._dead(node, waiting):
                del alive[r]
        return list(alive)

    def _allocated(self, node):
        return sum(self.size.get(out, 0) for out in node.outputs)

    def _freed(self, node, waiting):
        """Return the number of bytes that are freed after a node.

        Update `waiting`: variable with separate memory -> number of nodes that read this memory and have not run yet.
        """
        return sum(self.size[r] for r in self._dead(node, waiting))

    def _dead(self, node, waiting):
        """Generate the variables with separate memory that are freed after a node."""
        for r in dict.fromkeys(self._root(r) for r in node.inputs):
            waiting[r] -= 1
            if waiting[r] == 0 and r in self.size and r not in self.kept:
                yield r
        for out in node.outputs:
            if out in self.size and not waiting.get(out) and out not in self.kept:
                yield out

    def frugal_order(self):
        """Return an order of the nodes that needs little memory. It is found by a greedy search.

        Among the nodes that can run, the next node is always the node after which the least memory is held.
        """
        orderings = getattr(getattr(self.nodes[0], "fgraph", None), "orderings", dict)() if self.nodes else {}
        mine = set(self.nodes)
        before = {
            node: {r.owner for r in node.inputs if r.owner in mine} | {o for o in orderings.get(node, ()) if o in mine}
            for node in self.nodes
        }
        after = {node: [] for node in self.nodes}
        for node, required in before.items():
            for other in required:
                after[other].append(node)
        waiting = dict(self.readers)
        ready = [node for node in self.nodes if not before[node]]
        order = []

        def growth(node):
            touched = [self._root(r) for r in (*node.inputs, *node.outputs)]
            return self._allocated(node) - self._freed(node, {r: waiting.get(r, 0) for r in touched})

        while ready:
            node = min(ready, key=growth)
            ready.remove(node)
            order.append(node)
            self._freed(node, waiting)
            for other in after[node]:
                before[other].discard(node)
                if not before[other]:
                    ready.append(other)
        return order


def memory_report(profile, file, n_apply=None):
    """Print the memory section.

    Parameters
    ----------
    profile : ProfileStats
        A profile of a run with config.profile_memory.
    file : file
    n_apply : int, optional
        The maximum number of nodes to print.
    """
    graphs = {}
    for node in profile.node_executed_order:
        graphs.setdefault(getattr(node, "fgraph", None), []).append(node)
    memories = [GraphMemory(profile, nodes) for nodes in graphs.values()]
    if not memories:
        return

    def kilobytes(size):
        return "%dKB" % round(size / 1024.0)

    print("Memory Profile", file=file)
    print("(Sparse variables are ignored)", file=file)
    print("---", file=file)
    freeing = max(m.peak() for m in memories)
    keeping = max(m.peak(free=False) for m in memories)
    print(
        "    Max peak memory with current setting: %s" % kilobytes(freeing if config.allow_gc else keeping), file=file
    )
    print("    Max peak memory if allow_gc is True: %s" % kilobytes(freeing), file=file)
    print("    Max peak memory if allow_gc is False: %s" % kilobytes(keeping), file=file)
    print("    Memory of the inputs: %s" % kilobytes(max(sum(m.inputs.values()) for m in memories)), file=file)
    if config.profiling.min_peak_memory:
        least = max(min(m.peak(), m.peak(m.frugal_order())) for m in memories)
        print("    Min peak memory of the execution orders that were tried: %s" % kilobytes(least), file=file)
    print(file=file)
    print("    <Sum apply outputs (bytes)> <Apply outputs shape> <created/inplace/view> <Apply node>", file=file)

    rows = []
    for memory in memories:
        for node in memory.nodes:
            sizes = [variable_size(profile, out) for out in node.outputs]
            shapes = [profile.variable_shape.get(out) for out in node.outputs]
            rows.append((sum(sizes), shapes, inplace_codes(node), node))
    rows.sort(key=lambda row: -row[0])
    shown = [row for row in rows if row[0] >= config.profiling.min_memory_size][:n_apply]
    for size, shapes, codes, node in shown:
        print("      %9dB  %s %s %s" % (size, shapes, " ".join(codes), node), file=file)
    rest = sum(row[0] for row in rows) - sum(row[0] for row in shown)
    print(
        "   ... (remaining %i Apply account for %4dB/%dB of the Apply with dense outputs sizes)"
        % (len(rows) - len(shown), rest, sum(row[0] for row in rows)),
        file=file,
    )
    print("    <created/inplace/view> is taken from the Op's declaration.", file=file)
    print(file=file)
