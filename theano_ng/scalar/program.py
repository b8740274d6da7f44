"""Flat programs of scalar ops: the representation of a Composite.

Each value of a program has a slot number. The inputs have the first numbers. Constants and results follow in the order
of their use.
"""

from collections import namedtuple

import numpy as np

from theano_ng.gof.graph import Apply, Constant
from theano_ng.scalar.op import ScalarOp
from theano_ng.scalar.variables import ScalarConstant

# An instruction applies `op` to the values in the slots `args`. The slots `outs`, which have the types `types`, hold
# the results.
Instruction = namedtuple("Instruction", "op args outs types")


def constant_key(type_, data):
    # Compare bits, so that 0.0 and -0.0 differ and NaN equals itself.
    return (type_.dtype, np.asarray(data).tobytes())


class Program:
    """The instructions of a Composite. Duplicate instructions and unused instructions are removed."""

    def __init__(self, inputs, outputs):
        self.input_types = tuple(i.type for i in inputs)
        self.constants = {}
        self.instructions = []
        self._next = len(inputs)
        self._known = {}
        slots = {}
        for k, variable in enumerate(inputs):
            slots.setdefault(variable, k)
        for node in self._toposort(outputs, slots):
            self._append_node(node, slots)
        self.outputs = tuple(slots[o] if o in slots else self._constant(o) for o in outputs)
        self.output_types = tuple(o.type for o in outputs)
        del self._known
        self._drop_unused()

    def _toposort(self, outputs, slots):
        """Return the nodes that compute `outputs`.

        Each node appears once, after the nodes that compute its operands.
        """
        order, done = [], set()
        stack = [o for o in reversed(outputs)]
        while stack:
            variable = stack[-1]
            if isinstance(variable, Apply):
                stack.pop()
                if variable not in done:
                    done.add(variable)
                    order.append(variable)
                continue
            stack.pop()
            if variable in slots:
                continue
            node = variable.owner
            if node is None:
                if not isinstance(variable, Constant):
                    raise ValueError(
                        "The variable %s of a Composite is neither computed by a node, nor an input, nor a constant"
                        % variable
                    )
                continue
            if node in done:
                continue
            if not isinstance(node.op, ScalarOp):
                raise ValueError(
                    "The fgraph to Composite must be exclusively composed of ScalarOp instances; got %s" % (node.op,)
                )
            stack.append(node)
            stack.extend(i for i in reversed(node.inputs) if i.owner not in done)
        return order

    def _constant(self, variable):
        key = constant_key(variable.type, variable.data)
        slot = self._known.get(key)
        if slot is None:
            slot = self._known[key] = self._next
            self._next += 1
            self.constants[slot] = (variable.type, variable.data)
        return slot

    def _append(self, op, args, types):
        """Add an instruction unless an equal instruction exists. Return its output slots."""
        key = (op, args)
        outs = self._known.get(key)
        if outs is None:
            outs = self._known[key] = tuple(range(self._next, self._next + len(types)))
            self._next += len(types)
            self.instructions.append(Instruction(op, args, outs, types))
        return outs

    def _append_node(self, node, slots):
        args = tuple(slots[i] if i in slots else self._constant(i) for i in node.inputs)
        if isinstance(getattr(node.op, "_program", None), Program):
            outs = self._append_program(node.op._program, args)
        else:
            outs = self._append(node.op, args, tuple(o.type for o in node.outputs))
        for variable, slot in zip(node.outputs, outs):
            slots[variable] = slot

    def _append_program(self, inner, args):
        """Inline the flat program of a nested Composite."""
        moved = dict(enumerate(args))
        for slot, (type_, data) in inner.constants.items():
            key = constant_key(type_, data)
            if key not in self._known:
                self._known[key] = self._next
                self.constants[self._next] = (type_, data)
                self._next += 1
            moved[slot] = self._known[key]
        for op, inner_args, outs, types in inner.instructions:
            moved.update(zip(outs, self._append(op, tuple(moved[a] for a in inner_args), types)))
        return tuple(moved[o] for o in inner.outputs)

    def _drop_unused(self):
        """Remove the instructions and constants that no output needs. Renumber the remaining slots without gaps."""
        needed, kept = set(self.outputs), []
        for instruction in reversed(self.instructions):
            if not needed.isdisjoint(instruction.outs):
                needed.update(instruction.args)
                kept.append(instruction)
        nin = len(self.input_types)
        number = {k: k for k in range(nin)}
        # Number slots in the order of use, so that the numbers do not depend on the order of the graph traversal.
        used = []
        constants = {}
        for op, args, outs, types in reversed(kept):
            for a in args:
                if a not in number:
                    number[a] = len(number)
                    constants[number[a]] = self.constants[a]
            for o in outs:
                number[o] = len(number)
            used.append(Instruction(op, tuple(number[a] for a in args), tuple(number[o] for o in outs), types))
        for o in self.outputs:
            if o not in number:
                number[o] = len(number)
                constants[number[o]] = self.constants[o]
        self.outputs = tuple(number[o] for o in self.outputs)
        self.instructions = used
        self.constants = constants
        del self._next

    def key(self):
        """Return a hashable key. Programs with equal keys compute the same function."""
        return (
            self.input_types,
            tuple((i.op, i.args, i.types) for i in self.instructions),
            tuple((slot,) + constant_key(*c) for slot, c in self.constants.items()),
            self.outputs,
            self.output_types,
        )

    def build(self, inputs):
        """Apply the program to variables.

        Returns
        -------
        values : dict
            A dict from a slot to a variable.
        nodes : list of Apply
            One node per instruction.
        """
        values = dict(enumerate(inputs))
        for slot, (type_, data) in self.constants.items():
            values[slot] = ScalarConstant(type_, data)
        nodes = []
        for op, args, outs, types in self.instructions:
            node = Apply(op, [values[a] for a in args], [t.make_variable() for t in types])
            nodes.append(node)
            values.update(zip(outs, node.outputs))
        return values, nodes

    def slot_types(self):
        """Return a dict from each slot to its type."""
        types = dict(enumerate(self.input_types))
        types.update((slot, c[0]) for slot, c in self.constants.items())
        for instruction in self.instructions:
            types.update(zip(instruction.outs, instruction.types))
        return types
