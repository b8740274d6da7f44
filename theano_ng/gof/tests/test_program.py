"""Tests of programs: their text, and machines that are built from nothing but a program."""

import unittest

from theano_ng.gof import vm
from theano_ng.gof.destroy.handler import DestroyHandler
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.graph import Apply
from theano_ng.gof.link import PerformLinker
from theano_ng.gof.program import Program, Update
from theano_ng.gof.tests.floats import Compute, Float, add, choose, div, mul, number

OPTIONS = {
    "CVM": dict(use_cloop=True),
    "CVM nogc": dict(use_cloop=True, allow_gc=False),
    "LoopGC": dict(),
    "Loop": dict(allow_gc=False),
    "Stack": dict(lazy=True),
    "Stack nogc": dict(lazy=True, allow_gc=False),
}


def linked(inputs, outputs, updates=None, **options):
    """Return a linker with a graph; `updates` is a dict from the index of an input to the index of its output."""
    fgraph = FunctionGraph(inputs, outputs)
    linker = vm.VM_Linker(**options).accept(fgraph)
    linker.accept_var_updates({fgraph.inputs[i]: fgraph.outputs[k] for i, k in (updates or {}).items()})
    return linker


class Increment(Compute):
    """An Op that overwrites its input."""

    def __init__(self):
        super().__init__("increment", lambda a: a + 1)
        self.destroy_map = {0: [0]}


class TestProgram(unittest.TestCase):
    def test_text(self):
        x, y, state = number("x"), number("y"), number("state")
        product = mul(x, y)
        total = add(product, state)
        program = linked([x, y, state], [div(total, 2), total], {2: 1}, use_cloop=True).make_program()
        self.assertEqual(
            str(program),
            "\n".join(
                [
                    "inputs   x, y, state",
                    "0  Python r0 = mul(x, y)",
                    "1  Python r1 = add(r0, state)    # frees r0",
                    "2  Python r2 = div(r1, 2.0)",
                    "outputs  r2, r1",
                    "update   state <- r1",
                ]
            ),
        )

    def test_text_of_lazy_and_inplace_nodes(self):
        c, x = number("c"), number()
        change = Increment()
        program = linked([c, x], [choose(c, mul(x, x), add(x, 1))], use_cloop=True).make_program()
        self.assertEqual(
            str(program).split("\n"),
            [
                "inputs   c, input1",
                "0  Python r0 = add(input1, 1.0)",
                "1  Python r1 = mul(input1, input1)",
                "2  Python r2 = Choose(c, r1, r0)    # lazy; frees r1, r0",
                "outputs  r2",
            ],
        )
        lines = str(linked([x], [change(mul(x, 2))], use_cloop=True).make_program()).split("\n")
        self.assertEqual(lines[2], "1  Python r1 = increment(r0)    # overwrites r0; frees r0")

    def test_names_are_unique(self):
        x, y, other = number("r0"), number("same"), number("same")
        text = str(linked([x, y, other], [add(x, y, other)], use_cloop=True).make_program())
        self.assertEqual(
            text.split("\n")[:2], ["inputs   input0, same, input2", "0  Python r0 = add(input0, same, input2)"]
        )

    def test_empty(self):
        x = number("x")
        self.assertEqual(str(linked([x], [x]).make_program()), "inputs   x\noutputs  x")
        self.assertEqual(str(linked([], []).make_program()), "inputs   none\noutputs  none")

    def test_frozen(self):
        x = number("x")
        program = linked([x], [add(x, 1)], use_cloop=True).make_program()
        with self.assertRaises(AttributeError):
            program.thunks = ()
        with self.assertRaisesRegex(ValueError, "1 nodes, but 0 thunks"):
            program.with_parts(thunks=())
        with self.assertRaisesRegex(ValueError, "1 nodes, but 2 tuples of variables to clear"):
            program.with_parts(clear_after=((), ()))

    def test_what_is_cleared(self):
        x = number("x")
        a = add(x, 1)
        b = mul(a, a)
        unread = div(a, 2)
        for allow_gc in (True, False):
            linker = linked([x], [b, add(b, unread), b], {0: 0}, use_cloop=True, allow_gc=allow_gc)
            program = linker.make_program()
            out = program.fgraph.outputs
            # The output is also an update: its storage keeps the value after the call, and the next call does not use
            # it as a buffer.
            self.assertEqual(program.updates, (Update(program.fgraph.inputs[0], out[0], False),))
            self.assertEqual(program.clear_before, (out[0],))
            self.assertEqual(program.allow_gc, allow_gc)
            if allow_gc:
                freed = [r for variables in program.clear_after for r in variables]
                self.assertEqual(sorted(str(r.owner.op) for r in freed), ["add", "div"])
                self.assertFalse(set(freed) & set(out))
            else:
                self.assertIsNone(program.clear_after)

    def test_no_recycling(self):
        x = number("x")
        fgraph = FunctionGraph([x], [mul(add(x, 1), 2)])
        program = vm.VM_Linker(use_cloop=True).accept(fgraph, no_recycling=True).make_program()
        self.assertEqual(program.clear_before, (program.nodes[0].outputs[0], program.nodes[1].outputs[0]))
        program = (
            vm.VM_Linker(use_cloop=True).accept(fgraph, no_recycling=fgraph.inputs + fgraph.outputs).make_program()
        )
        self.assertEqual(program.clear_before, tuple(fgraph.outputs))


class TestRunning(unittest.TestCase):
    def test_loop_around_a_program(self):
        """A program computes a recurrence if its outputs are copied to its inputs before each run.

        Two programs of one graph do not share state.
        """
        for name, options in OPTIONS.items():
            with self.subTest(name):
                h, x = number("h"), number("x")
                linker = linked([h, x], [add(mul(h, 0.5), x), mul(h, h)], **options)
                programs = [linker.make_program(), linker.make_program()]
                machines = [linker.machine(program) for program in programs]
                self.assertIs(machines[0].program, programs[0])
                states = [1.0, -2.0]
                for step in range(5):
                    for k, (program, machine) in enumerate(zip(programs, machines)):
                        program.input_cells[0][0], program.input_cells[1][0] = states[k], float(step)
                        machine()
                        self.assertEqual(program.output_cells[1][0], states[k] ** 2)
                        states[k] = states[k] * 0.5 + step
                        self.assertEqual(program.output_cells[0][0], states[k])

    def test_updates_carry_a_state(self):
        h = number("h")
        linker = linked([h], [mul(h, 2)], {0: 0}, use_cloop=True)
        program = linker.make_program()
        machine = linker.machine(program)
        program.input_cells[0][0] = 1.0
        for _ in range(10):
            machine()
        self.assertEqual(program.input_cells[0][0], 1024.0)
        self.assertIsNone(program.output_cells[0][0])

    def test_given_cells(self):
        x = number("x")
        linker = linked([x], [add(x, 1)], use_cloop=True)
        ours, result = [3.0], [None]
        program = linker.make_program(input_storage=[ours], output_storage=[result])
        self.assertIs(program.input_cells[0], ours)
        linker.machine(program)()
        self.assertEqual(result, [4.0])

    def test_program_of_other_linkers(self):
        x = number("x")
        run, inputs, outputs = PerformLinker().accept(FunctionGraph([x], [mul(add(x, 1), 2)])).make_thunk()
        self.assertIsInstance(run.program, Program)
        inputs[0].storage[0] = 2.0
        run()
        self.assertEqual(outputs[0].storage[0], 6.0)
        self.assertIn("frees r0", str(run.program))


class TestClassicArguments(unittest.TestCase):
    """Tests of machines that are built from separate arguments instead of a program."""

    def parts(self, allow_gc=True):
        x, y = number("x"), number("y")
        product = mul(x, y)
        linker = linked([x, y], [add(product, x), div(product, 2)], allow_gc=allow_gc)
        program = linker.make_program()
        return linker, program

    def check(self, program, machine):
        for a, b in ((2.0, 3.0), (5.0, 0.5)):
            program.input_cells[0][0], program.input_cells[1][0] = a, b
            machine()
            self.assertEqual([cell[0] for cell in program.output_cells], [a * b + a, a * b / 2])

    def test_loops(self):
        _, program = self.parts()
        product = program.storage_map[program.nodes[0].outputs[0]]
        machine = vm.Loop(program.nodes, program.thunks, [])
        self.check(program, machine)
        self.assertEqual(product, [2.5])
        self.assertIsNone(machine.program)
        self.check(program, vm.LoopGC(program.nodes, program.thunks, [product], program.cells_to_clear()))
        self.assertEqual(product, [None])
        self.assertRaisesRegex(ValueError, "3 nodes, but 1 lists", vm.LoopGC, program.nodes, program.thunks, [], [[]])
        self.assertRaisesRegex(ValueError, "3 nodes, but 0 thunks", vm.Loop, program.nodes, [], [])

    def test_stack(self):
        linker, program = self.parts()
        arguments = program.nodes, program.thunks, [], program.storage_map, program.compute_map, program.fgraph
        seen = []
        machine = vm.Stack(
            *arguments,
            True,
            1,
            linker.compute_gc_dependencies(program.storage_map),
            callback=lambda node, **others: seen.append(str(node.op)),
        )
        self.check(program, machine)
        self.assertEqual(len(seen), 6)
        del seen[:]
        machine(output_subset=[])  # runs only the nodes of the last output, which is also an update
        self.assertEqual(sorted(seen), ["div", "mul"])
        self.assertIsNone(program.output_cells[0][0])
        self.check(program, vm.Stack(*arguments, False, 0))
        self.assertRaisesRegex(ValueError, "Must set dependencies when using GC", vm.Stack, *arguments, True, 0)
        self.assertRaisesRegex(ValueError, "Must set dependencies when using GC", vm.Stack.of, program)

    def test_make_vm(self):
        for name, options in OPTIONS.items():
            with self.subTest(name):
                linker, program = self.parts(options.get("allow_gc", True))
                linker = vm.VM_Linker(**options).accept(program.fgraph, no_recycling=[program.fgraph.outputs[1]])
                computed = {r for node in program.nodes for r in node.outputs}
                machine = linker.make_vm(
                    list(program.nodes),
                    list(program.thunks),
                    list(program.input_cells),
                    list(program.output_cells),
                    program.storage_map,
                    program.cells_to_clear(),
                    computed,
                    program.compute_map,
                    {},
                )
                self.assertEqual(type(machine).__name__, name.split()[0])
                self.check(program, machine)
                self.assertEqual(machine.program.clear_after, program.clear_after)
                self.assertEqual(machine.pre_call_clear, [program.output_cells[1]])
                product = program.storage_map[program.nodes[0].outputs[0]]
                self.assertEqual(product[0] is None, options.get("allow_gc", True))


if __name__ == "__main__":
    unittest.main()


class Single(Float):
    """The Type of floats that are arrays without axes."""

    broadcastable = ()


class Safe(Compute):
    """An Op that cannot fail."""

    def make_node(self, *inputs):
        return Apply(self, list(inputs), [Single()()])

    def fails_on_values(self, node):
        return False

    def takes_memory(self, node):
        return False


class Wait(Safe):
    waits_for_device = True


class TestWaiting(unittest.TestCase):
    """Copies of numbers from a device run at the end, with the nodes that depend on them."""

    safe, wait = Safe("safe", lambda a, *rest: a), Wait("wait", lambda a: a)

    def order(self, inputs, outputs):
        return [str(node.op) for node in linked(inputs, outputs).make_program().nodes]

    def test_dependents(self):
        x = Single()("x")
        y = self.wait(x)
        self.assertEqual(self.order([x], [self.safe(y, x), mul(x, x), add(x, 1)]), ["mul", "add", "wait", "safe"])
        self.assertEqual(self.order([x], [y, mul(x, x)]), ["mul", "wait"])

    def test_arrays_wait_in_place(self):
        x = number("x")

        class WaitForArray(Wait):
            def make_node(self, *inputs):
                return Apply(self, list(inputs), [number()])

        self.assertEqual(self.order([x], [WaitForArray("wait", float)(x), mul(x, x)]), ["wait", "mul"])

    def test_dependent_that_can_fail(self):
        """A wait keeps its place if a node that depends on it can fail, and its other dependents follow it."""
        x = Single()("x")
        self.assertEqual(self.order([x], [add(self.safe(self.wait(x)), 1), mul(x, x)]), ["wait", "safe", "add", "mul"])
        first, second = self.wait(x), Wait("later", float)(x)
        found = self.order([x], [add(first, 1), self.safe(second, first), mul(x, x)])
        self.assertEqual(found, ["wait", "add", "mul", "later", "safe"])

    def test_node_that_must_come_after_the_wait(self):
        """A node that overwrites the memory that a copy reads must come after the copy."""
        x = Single()("x")
        y = self.safe(x)

        class Overwrite(Safe):
            destroy_map = {0: [0]}

        fgraph = FunctionGraph([x], [self.wait(y), mul(Overwrite("overwrite", float)(y), 2.0)])
        fgraph.attach_feature(DestroyHandler())
        nodes = vm.VM_Linker().accept(fgraph).make_program().nodes
        self.assertEqual([str(node.op) for node in nodes], ["safe", "wait", "overwrite", "mul"])
