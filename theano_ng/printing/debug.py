"""The function `debugprint`: a graph as an indented tree."""

from __future__ import annotations

import sys
from io import StringIO
from typing import Any

from theano_ng.gof import ports
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.graph import Apply, Variable
from theano_ng.gof.op import ops_with_inner_function
from theano_ng.gof.utils import writable


def char_from_number(number):
    """Return a number in base 26, with the digits A to Z.

    Examples
    --------
    >>> from theano_ng.printing.debug import char_from_number
    >>> char_from_number(0), char_from_number(25), char_from_number(26)
    ('A', 'Z', 'BA')
    """
    digits = []
    while True:
        number, digit = divmod(number, 26)
        digits.append(chr(ord("A") + digit))
        if not number:
            return "".join(reversed(digits))


def inner_function_attribute(op):
    """Return the name of the attribute of `op` that holds its inner function.

    Return None if it has no such attribute.
    """
    for cls in type(op).__mro__:
        if cls in ops_with_inner_function:
            return ops_with_inner_function[cls]
    return None


class _Tree:
    """A printer of trees. It holds options, the nodes printed so far, and the identifiers of nodes and variables."""

    def __init__(
        self,
        file,
        done,
        used_ids,
        ids,
        print_type,
        stop_on_name,
        print_clients,
        print_destroy_map=False,
        print_view_map=False,
    ):
        if ids not in ("CHAR", "int", "id", "", "auto"):
            raise ValueError("debugprint: ids must be 'CHAR', 'int', 'id' or '', got %r" % (ids,))
        self.file = file
        self.done = done
        self.used_ids = used_ids
        self.ids = ids
        self.print_type = print_type
        self.stop_on_name = stop_on_name
        self.print_clients = print_clients
        self.print_destroy_map = print_destroy_map
        self.print_view_map = print_view_map

    def id_text(self, thing):
        """Return ``' [id X]'`` for a variable or an Apply. Return a blank if identifiers are off.

        A new object gets the next identifier.
        """
        if thing not in self.used_ids:
            if self.ids == "":
                self.used_ids[thing] = ""
            elif self.ids == "id":
                self.used_ids[thing] = "[id %d]" % id(thing)
            elif self.ids == "int":
                self.used_ids[thing] = "[id %d]" % len(self.used_ids)
            else:
                self.used_ids[thing] = "[id %s]" % char_from_number(len(self.used_ids))
        return " " + self.used_ids[thing]

    def clients_text(self, node, position):
        """Return the identifiers and positions of a node's clients as text. Return "" for fewer than two clients."""
        clients = [client for output in node.outputs for client, _ in getattr(output, "clients", ())]
        if len(clients) < 2:
            return ""
        described = []
        for client in clients:
            identifier = self.id_text(client).strip()  # "output" gets an identifier, too, which is not printed
            described.append(("output" if client == "output" else identifier, position.get(client, "")))
        return " clients:[%s]" % ", ".join(map(str, described))

    def line(self, prefix, r, position, storage, arrow=None):
        """Write the line of one variable."""
        type_text = " <%s>" % r.type if self.print_type else ""
        node = r.owner
        if node is None:
            # The text of a nameless variable already contains the type.
            text = r.__repr__(firstPass=False)
            if self.print_type and text == "<%s>" % r.type:
                type_text = ""
            tail = " %s" % storage[r] if storage is not None and r in storage else ""
            if arrow is not None:
                tail += " -> %s" % arrow
            self.file.write(writable("%s%s%s%s%s\n" % (prefix, text, self.id_text(r), type_text, tail)))
            return
        identifier = self.id_text(node)  # get it here, before the clients of the node get identifiers
        index = ".%d" % node.outputs.index(r) if len(node.outputs) > 1 else ""
        destroy = (
            "d=%s" % (node.op.destroy_map,) if self.print_destroy_map and getattr(node.op, "destroy_map", None) else ""
        )
        view = "v=%s" % (node.op.view_map,) if self.print_view_map and getattr(node.op, "view_map", None) else ""
        tail = " %s" % storage[r] if storage is not None and r in storage else ""
        if self.print_clients:
            tail += self.clients_text(node, position)
        text = "%s%s%s%s%s '%s' %s %s %s%s\n" % (
            prefix,
            node.op,
            index,
            identifier,
            type_text,
            r.name or "",
            destroy,
            view,
            position.get(node, ""),
            tail,
        )
        self.file.write(writable(text))

    def tree(self, root, depth, position, storage, prefix="", indent="", arrows=None, inner=None):
        """Write the tree of `root`: the variable and its ancestors.

        Parameters
        ----------
        root : Variable
        depth : int
            The number of levels to write. -1 means all.
        position : dict
            Apply -> position in the order of execution.
        storage : dict or None
            Variable -> the storage cell to print at the end of its line.
        prefix, indent : str
            The start of the first line, and the start of the lines below it.
        arrows : dict, optional
            Inner input of a loop -> the corresponding outer variable, whose identifier is printed with the input.
        inner : list, optional
            A list to which this method adds each variable whose Op has an inner graph.
        """
        stack = [(root, prefix, indent, depth)]
        while stack:
            r, prefix, indent, depth = stack.pop()
            if depth == 0:
                continue
            arrow = None
            if arrows is not None and r in arrows:
                outer = arrows[r]
                arrow = self.id_text(outer.owner if outer.owner is not None else outer).strip()
            self.line(prefix, r, position, storage, arrow)
            node = r.owner
            if node is None or node in self.done:
                continue
            self.done[node] = self.used_ids.get(node, "")
            if inner is not None and inner_function_attribute(node.op):
                inner.append(r)
            if self.stop_on_name and r.name is not None:
                continue
            last = len(node.inputs) - 1
            for k in range(last, -1, -1):
                stack.append((node.inputs[k], indent + " |", indent + ("  " if k == last else " |"), depth - 1))


def _collect(obj, print_storage):
    """Return a list of (variable, positions, storage) for each variable of `obj`.

    For a list or dict, use the variables of its elements, or of its keys and values. For a node, function or graph, use
    its outputs.
    """
    found = []
    pending = [obj]
    while pending:
        item = pending.pop(0)
        if isinstance(item, Variable):
            found.append((item, None, None))
        elif isinstance(item, Apply):
            found.extend((o, None, None) for o in item.outputs)
        elif isinstance(item, FunctionGraph):
            position = {node: k for k, node in enumerate(item.toposort())}
            found.extend((o, position, None) for o in item.outputs)
        elif hasattr(item, "maker") and hasattr(item.maker, "fgraph"):
            fgraph = item.maker.fgraph
            position = {node: k for k, node in enumerate(fgraph.toposort())}
            storage = getattr(item.fn, "storage_map", None) if print_storage else None
            found.extend((o, position, storage) for o in fgraph.outputs)
        elif isinstance(item, (list, tuple)):
            pending = list(item) + pending
        elif isinstance(item, dict):
            pending = [v for pair in item.items() for v in pair] + pending
        else:
            raise TypeError(
                "debugprint cannot print an object of this type; expected a Variable, an Apply, a compiled function, a FunctionGraph or "
                "a list of them, got %s" % type(item),
                item,
            )
    return found


def debugprint(
    obj: Any,
    depth: int = -1,
    print_type: bool = False,
    file: Any = None,
    ids: str = "CHAR",
    stop_on_name: bool = False,
    done: Any = None,
    print_storage: bool = False,
    print_clients: bool = False,
    used_ids: Any = None,
) -> Any:
    """Print a graph as an indented tree.

    Parameters
    ----------
    obj : Variable, Apply, compiled function, FunctionGraph, or a list of them
    depth : int
        The number of levels to print. -1 means all.
    print_type : bool
        Whether to print the types.
    file : None, 'str' or file
        The file to print to. None means the standard output. With ``'str'``, the text is returned.
    ids : {'CHAR', 'int', 'id', ''}
        The identifiers: capital letters, integers, Python's ``id``, or none.
    stop_on_name : bool
        If True, print nothing below a computed variable that has a name.
    done : dict, optional
        A dict whose keys are Apply nodes. The inputs of these nodes are not printed again. The dict is updated, and
        several calls may share it.
    print_storage : bool
        For compiled functions, whether to print the content of the storage of each variable. With ``allow_gc=False``,
        the storage holds the intermediate results of the last call.
    print_clients : bool
        Whether to print the clients of each node that has more than one client.
    used_ids : dict, optional
        Variable or Apply -> identifier. The dict is updated. Several calls may share it.

    Returns
    -------
    str or file
        The text if `file` is ``'str'``, else `file`.

    Notes
    -----
    The line of a computed variable is ``op [id X] 'name'   N``. For compiled functions, N is the position in the order
    of execution. If the Op has several outputs, ``.i`` follows the Op, where i is the index of the output. The line
    of any other variable is ``name [id X]``. The inputs of a node are printed below it the first time only. The graphs
    inside Ops, such as loops, follow at the end.
    """
    out: Any
    if file == "str":
        out = StringIO()
    elif file is None:
        out = sys.stdout
    else:
        out = file
    done = {} if done is None else done
    used_ids = {} if used_ids is None else used_ids
    tree = _Tree(out, done, used_ids, ids, print_type, stop_on_name, print_clients)
    inner: list[Any] = []
    for variable, position, storage in _collect(obj, print_storage):
        tree.tree(variable, depth, position or {}, storage, inner=inner)
    if inner:
        _print_inner_graphs(tree, inner, depth)
    if file == "str":
        return out.getvalue()
    out.flush()
    return file


def _print_inner_graphs(tree, inner, depth):
    """Print the inner graph of each Op of the variables in `inner`, and the graphs that are nested in these graphs."""
    tree.file.write("\nInner graphs of the scan ops:\n")
    seen = set()
    while inner:
        r = inner.pop(0)
        node = r.owner
        if node in seen:
            continue
        seen.add(node)
        tree.file.write("\n")
        tree.line("", r, {}, None)
        inner_inputs, inner_outputs = _inner_graph(node.op)
        arrows = {i: o for i, o in _inner_to_outer(node, inner_inputs)}
        for output in inner_outputs:
            if output.owner is None or output.owner not in tree.done:
                tree.tree(output, depth, {}, None, prefix=" >", indent=" >", arrows=arrows, inner=inner)
            else:
                tree.line(" >", output, {}, None)


def _inner_graph(op):
    """Return (inputs, outputs) of the graph inside `op`, from its compiled function if it has one."""
    inputs = getattr(op, "inputs", None)
    outputs = getattr(op, "outputs", None)
    function = getattr(op, inner_function_attribute(op), None)
    if function is not None and hasattr(function, "maker"):
        fgraph = function.maker.fgraph
        return fgraph.inputs, fgraph.outputs
    return inputs or [], outputs or []


def _inner_to_outer(node, inner_inputs):
    """Yield the pairs (inner input, outer input) that the Op defines. If it defines none, pair equally long lists."""
    mappings = getattr(node.op, "get_oinp_iinp_iout_oout_mappings", None)
    if mappings is not None:
        for i, outer in mappings()["outer_inp_from_inner_inp"].items():
            if 0 <= i < len(inner_inputs) and 0 <= outer < len(node.inputs):
                yield inner_inputs[i], node.inputs[outer]
    elif len(inner_inputs) == len(node.inputs):
        yield from zip(inner_inputs, node.inputs)


ports.format_graph.fill(debugprint)
