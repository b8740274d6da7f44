"""Tests of lazy evaluation: thunks that request inputs, on all virtual machines, and `LazyBranch`, run by the CVM."""

import random
import sys
import unittest

import numpy as np

from theano_ng.gof import vm
from theano_ng.gof._native import LazyBranch
from theano_ng.gof.destroy.handler import DestroyHandler
from theano_ng.gof.fg import FunctionGraph, InconsistencyError
from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.gof.tests.floats import Compute, as_number, buffer, number, shift, shift_inplace, view
from theano_ng.gof.toolbox import ReplaceValidate

# Pairs of options for a compiled and a Python machine; both must behave identically.
TWINS = {
    "lazy": (dict(use_cloop=True, lazy=True), dict(lazy=True)),
    "lazy, nothing freed": (dict(use_cloop=True, lazy=True, allow_gc=False), dict(lazy=True, allow_gc=False)),
    "eager": (dict(use_cloop=True, lazy=False), dict(lazy=False, allow_partial_eval=False)),
    "eager, nothing freed": (dict(use_cloop=True, lazy=False, allow_gc=False), dict(lazy=False, allow_gc=False)),
}


class Walk(Op):
    """A lazy Op that adds inputs until the sum reaches a limit. Its thunk requests one input after another."""

    __props__ = ("name", "limit")

    def __init__(self, name, limit, log):
        self.name, self.limit, self.log = name, limit, log

    def make_node(self, *inputs):
        return Apply(self, [as_number(x) for x in inputs], [number(), number()])

    def make_thunk(self, node, storage_map, compute_map, no_recycling, impl=None):
        cells, flags = [storage_map[r] for r in node.inputs], [compute_map[r] for r in node.inputs]
        total, steps = (storage_map[r] for r in node.outputs)

        def thunk():
            so_far = 0.0
            for i, (cell, flag) in enumerate(zip(cells, flags)):
                if so_far >= self.limit:
                    break
                if flag[0] != 1:
                    return [i]
                so_far += cell[0]
            self.log.append(self.name)
            total[0], steps[0] = so_far, float(i)
            for r in node.outputs:
                compute_map[r][0] = 1

        thunk.lazy = True
        return thunk

    def expected(self, values):
        """Return the expected outputs; `values` are functions that return the inputs."""
        so_far = 0.0
        for i, value in enumerate(values):  # noqa: B007, the last number is the result
            if so_far >= self.limit:
                break
            so_far += value()
        return so_far, float(i)


class Branch(Op):
    """A lazy Op that returns the first half of its values if the condition is true, or else the second half.

    Its thunk is a LazyBranch.
    """

    __props__ = ("name",)

    def __init__(self, name):
        self.name = name

    def make_node(self, condition, *values):
        return Apply(self, [as_number(x) for x in (condition, *values)], [number() for _ in values[::2]])

    def make_thunk(self, node, storage_map, compute_map, no_recycling, impl=None):
        lists = [[table[r] for r in rs] for table in (storage_map, compute_map) for rs in (node.inputs, node.outputs)]
        return LazyBranch(*lists, False, float)

    def expected(self, values):
        n = len(values) // 2
        return tuple(value() for value in (values[1 : 1 + n] if values[0]() != 0 else values[1 + n :]))


class Trap(Exception):
    pass


def random_graph(seed, log, trap):
    """Return the inputs and four outputs of a graph of 25 nodes, some of them lazy.

    A node whose name is in the list `trap` raises Trap.
    """
    rng = random.Random(seed)
    variables = inputs = [number("x%d" % i) for i in range(4)]
    variables = list(variables)

    def compute(name, factor):
        def function(*values):
            if name in trap:
                raise Trap(name)
            return sum(values) * factor % 3 - 1

        return Compute(name, function, log)

    for i in range(25):
        pick = lambda n: [rng.choice(variables[-12:]) for _ in range(n)]
        kind = rng.randrange(4)
        if kind == 0:
            out = Walk("w%d" % i, rng.choice((0.5, 1.5)), log)(*pick(rng.randrange(1, 5)))
        elif kind == 1:
            n = rng.randrange(1, 3)
            out = Branch("b%d" % i)(*pick(1), *pick(2 * n))
        else:
            out = compute("c%d" % i, rng.choice((1, 2)))(*pick(rng.randrange(1, 4)))
        variables += out if isinstance(out, list) else [out]
    return inputs, [rng.choice(variables[-15:]) for _ in range(4)]


def evaluate(outputs, given):
    """Evaluate variables recursively, only as needed; return their values and the names of the Ops that ran."""
    known, ran = dict(given), set()

    def value(r):
        if r.owner is None and r not in known:
            return r.data
        if r not in known:
            node = r.owner
            if hasattr(node.op, "expected"):
                results = node.op.expected([lambda x=x: value(x) for x in node.inputs])
            else:
                results = (node.op.function(*[value(x) for x in node.inputs]),)
            ran.add(node.op.name)
            known.update(zip(node.outputs, results))
        return known[r]

    return [value(r) for r in outputs], ran


class Machine:
    """A machine for a graph, its storage, and the observable results of a run."""

    def __init__(self, inputs, outputs, log, options):
        self.fgraph = FunctionGraph(inputs, outputs)
        self.run, ins, outs, _, self.nodes = vm.VM_Linker(**options).accept(self.fgraph).make_all()
        self.ins, self.outs = [c.storage for c in ins], [c.storage for c in outs]
        self.run.time_thunks = True
        self.log = log

    def __call__(self, values, subset=None):
        for cell, value in zip(self.ins, values):
            cell[0] = value
        del self.log[:]
        self.run.reset_timing()
        error = None
        try:
            if subset is None:
                self.run()
            else:
                self.run(output_subset=subset)
        except Trap as trap:
            error = str(trap)
        left = [cell[0] is not None for node in self.nodes for cell in map(self.run.storage_map.get, node.outputs)]
        return dict(
            values=[cell[0] for cell in self.outs],
            ran=list(self.log),
            left=None if error else left,
            counts=list(self.run.call_counts),
            error=error,
            position=self.run.position_of_error,
        )


class TestTwins(unittest.TestCase):
    def test_random_graphs(self):
        """The compiled machine and the Python machine run random graphs in the same way.

        The order, values, freed storage, counts and errors are equal. The values also equal those of a recursive
        evaluation. On lazy machines, this evaluation computes the same set of nodes.
        """
        for seed in range(25):
            log, trap = [], []
            inputs, outputs = random_graph(seed, log, trap)
            rng = random.Random(seed)
            calls = [
                ([rng.choice((0.0, 1.0, -1.0, 0.5)) for _ in inputs], subset)
                for subset in (None, [1], None, [0, 2], [], None)
            ]
            for name, twins in TWINS.items():
                with self.subTest(name, seed=seed):
                    machines = [Machine(inputs, outputs, log, options) for options in twins]
                    self.assertEqual([type(m.run).__name__ for m in machines][0], "CVM")
                    names = [node.op.name for node in machines[0].nodes if not isinstance(node.op, Branch)]
                    for values, subset in calls:
                        if subset is not None and name.startswith("eager"):
                            continue
                        compiled, python = (m(values, subset) for m in machines)
                        self.assertEqual(compiled, python)
                        want, ran = evaluate(
                            outputs if subset is None else [outputs[i] for i in subset], zip(inputs, values)
                        )
                        got = compiled["values"] if subset is None else [compiled["values"][i] for i in subset]
                        self.assertEqual(got, want)
                        if name.startswith("lazy"):
                            self.assertEqual(sorted(compiled["ran"]), sorted(n for n in ran if n[0] != "b"))
                            self.assertEqual(
                                {node.op.name for node, n in zip(machines[0].nodes, compiled["counts"]) if n}, ran
                            )
                            self.assertLessEqual(max(compiled["counts"]), 1)
                        else:
                            self.assertEqual(compiled["ran"], names)
                        # a node that fails leaves the machine fully usable
                        failing = [n for n in compiled["ran"] if n[0] == "c"]
                        if failing:
                            trap.append(rng.choice(failing))
                            failed = [m(values, subset) for m in machines]
                            self.assertEqual(failed[0]["error"], trap.pop())
                            self.assertEqual(machines[0].nodes[failed[0]["position"]].op.name, failed[0]["error"])
                            for key in ("ran", "error", "position", "counts"):
                                self.assertEqual(failed[0][key], failed[1][key])
                            self.assertEqual(machines[0](values, subset), compiled)
                    for m in machines:
                        m.run.time_thunks = False
                    untimed, python = (m(calls[0][0]) for m in machines)
                    self.assertEqual(untimed, python)
                    self.assertEqual(untimed["values"], evaluate(outputs, zip(inputs, calls[0][0]))[0])

    def test_times(self):
        """The time of a node does not include the time of nodes that its lazy thunk requests."""
        log = []
        x = number("x")
        slow = Compute("slow", lambda a: sum(range(20000)) * 0 + a, log)
        for options in TWINS["lazy"]:
            ratios = []
            for _ in range(5):  # another process may interrupt `b`
                y = slow(x)
                m = Machine([x], [Branch("b")(y, x, Walk("w", 9.0, log)(x, y)[0])], log, options)
                self.assertEqual(m([1.0])["counts"], [int(node.op.name in ("slow", "b")) for node in m.nodes])
                times = {node.op.name: seconds for node, seconds in zip(m.nodes, m.run.call_times)}
                self.assertEqual(times["w"], 0)
                ratios.append(times["slow"] / times["b"])
            self.assertGreater(max(ratios), 10)
            m.run.time_thunks = False
            m([1.0])
            self.assertEqual((sum(m.run.call_counts), sum(m.run.call_times)), (0, 0))


class BufferBranch(Branch):
    """A Branch on buffers, which in-place Ops overwrite."""

    def make_node(self, condition, *values):
        return Apply(self, [condition, *values], [buffer() for _ in values[::2]])

    def make_thunk(self, node, storage_map, compute_map, no_recycling, impl=None):
        lists = [[table[r] for r in rs] for table in (storage_map, compute_map) for rs in (node.inputs, node.outputs)]
        return LazyBranch(*lists, False, list)


def first_of(log, name):
    return Compute(name, lambda values: values[0] % 2, log)


def in_place_fgraph(inputs, outputs, places):
    """Return a FunctionGraph with as many in-place shifts as possible, and their number.

    The shifts are tried in the order of the indices `places`.
    """
    fgraph = FunctionGraph(inputs, outputs, features=[DestroyHandler(), ReplaceValidate()])
    shifts = [node for node in fgraph.toposort() if node.op == shift]
    done = 0
    for i in places:
        if i < len(shifts):
            try:
                fgraph.replace_all_validate(
                    [(shifts[i].outputs[0], shift_inplace(*shifts[i].inputs))], reason="in place"
                )
                done += 1
            except InconsistencyError:
                pass  # another node already overwrites this list
    return fgraph, done


class TestInPlace(unittest.TestCase):
    """Tests of lazy conditionals in graphs with Ops that overwrite their inputs."""

    MACHINES = [
        dict(use_cloop=c, lazy=lazy, allow_gc=gc)
        for c in (True, False)
        for lazy in (None, True)
        for gc in (True, False)
    ]

    def run_all(self, fgraph, values, log):
        for options in self.MACHINES:
            run, ins, outs, _, nodes = vm.VM_Linker(**options).accept(fgraph).make_all()
            for container, value in zip(ins, values):
                container.storage[0] = list(value)
            del log[:]
            run()
            yield [c.storage[0] for c in outs], list(log), [c.storage[0] for c in ins]

    def test_other_branch_reads_what_is_overwritten(self):
        """In ifelse(c, x += 1, f(x)), only the chosen branch runs.

        If c is true, f is not computed. If c is false, x is not overwritten.
        """
        log = []
        x, c = buffer("x"), number("c")
        f = Compute("f", lambda v: [10 * e for e in v], log)
        f.make_node = lambda v: Apply(f, [v], [buffer()])
        fgraph, done = in_place_fgraph([x, c], [BufferBranch("b")(c, shift(x, 1), f(x))], [0])
        self.assertEqual(done, 1)
        for condition, out, ran, left in ((1.0, [2.0, 3.0], [], [2.0, 3.0]), (0.0, [10.0, 20.0], ["f"], [1.0, 2.0])):
            for options in self.MACHINES:
                run, (cx, cc), (co,), _, _ = vm.VM_Linker(**options).accept(fgraph).make_all()
                del log[:]
                cx.storage[0], cc.storage[0] = [1.0, 2.0], condition
                run()
                self.assertEqual((co.storage[0], log, cx.storage[0]), (out, ran, left))

    def test_random_graphs(self):
        for seed in range(40):
            rng = random.Random(seed)
            log = []
            inputs = [buffer("x%d" % i) for i in range(3)]
            variables = list(inputs)
            for i in range(14):
                pick = lambda: rng.choice(variables[-7:])
                kind = rng.randrange(3)
                if kind == 0:
                    n = rng.randrange(1, 3)
                    out = BufferBranch("b%d" % i)(first_of(log, "c%d" % i)(pick()), *[pick() for _ in range(2 * n)])
                else:
                    out = shift(pick(), rng.randrange(1, 4)) if kind == 1 else view(pick())
                variables += out if isinstance(out, list) else [out]
            outputs = [shift(rng.choice(variables[-6:]), 0) for _ in range(3)]
            values = [[float(rng.randrange(9)) for _ in range(2)] for _ in inputs]
            want = [[list(v) for v in out] for out, _, _ in self.run_all(FunctionGraph(inputs, outputs), values, log)]
            fgraph, done = in_place_fgraph(inputs, outputs, rng.sample(range(20), 20))
            for i, (got, _, _) in enumerate(self.run_all(fgraph, values, log)):
                self.assertEqual(got, want[0], (seed, self.MACHINES[i], done))


class Ask(Op):
    """A lazy Op whose thunk returns the given answers one after another."""

    __props__ = ("name",)

    def __init__(self, name, answers):
        self.name, self.answers = name, answers

    def make_node(self, *inputs):
        return Apply(self, [as_number(x) for x in inputs], [number()])

    def make_thunk(self, node, storage_map, compute_map, no_recycling):
        self.seen = []
        answers = iter(self.answers)
        out = storage_map[node.outputs[0]]

        def thunk():
            self.seen.append([compute_map[r][0] for r in (*node.inputs, *node.outputs)])
            answer = next(answers)
            if answer is None or not len(answer):
                out[0] = sum(storage_map[r][0] for r in node.inputs if compute_map[r][0])
            return answer

        thunk.lazy = True
        return thunk


class TestUserThunks(unittest.TestCase):
    def machines(self, answers):
        for options in TWINS["lazy"]:
            log = []
            x = number("x")
            op = Ask("ask", answers)
            yield (
                op,
                Machine([x], [op(*[Compute("c%d" % i, lambda a, i=i: a + i, log)(x) for i in range(3)])], log, options),
            )

    def test_answers(self):
        """A lazy thunk may return lists, tuples and arrays of input indices, also repeated ones, and None at the end.

        The thunk reads in `compute_map` which inputs are computed.
        """
        for answers, ran, seen in (
            ([[2], [0], []], ["c2", "c0"], [[0, 0, 0, 0], [0, 0, 1, 0], [1, 0, 1, 0]]),
            ([(1, 0), None], ["c1", "c0"], [[0, 0, 0, 0], [1, 1, 0, 0]]),
            ([np.array([2, 2, 2, 2, 1] * 50), []], ["c2", "c1"], [[0, 0, 0, 0], [0, 1, 1, 0]]),
            ([[0], [0, 1], ()], ["c0", "c1"], [[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0]]),
            ([[]], [], [[0, 0, 0, 0]]),
        ):
            for op, m in self.machines([[int(i) for i in a] if isinstance(a, np.ndarray) else a for a in answers]):
                result = m([1.0])
                self.assertEqual((result["ran"], op.seen), (ran, seen))
                self.assertEqual(result["values"], [sum(1.0 + int(name[1:]) for name in ran)])

    def test_wrong_answers(self):
        for answer, error, text in (
            ([3], IndexError, "asks for input 3; it has the inputs 0 to 2"),
            ([-1], IndexError, "asks for input -1"),
            ([2**40], IndexError, "asks for input"),
            ("no", TypeError, "returned 'no'; it has to return the numbers"),
            ([0.5], TypeError, "numbers of the inputs"),
        ):
            for _, m in self.machines([answer, [1], []]):
                with self.assertRaisesRegex(error, "the lazy thunk of Ask.*" + text):
                    m([1.0])
                self.assertEqual(m.nodes[m.run.position_of_error].op.name, "ask")
                self.assertEqual(m([1.0])["values"], [2.0])
        for _, m in self.machines([[1], [1]]):
            with self.assertRaisesRegex(RuntimeError, "asks for inputs that are already computed"):
                m([1.0])


class TestLazyBranch(unittest.TestCase):
    def branch(self, condition, values, view=False, flags=True, old=None):
        cells = [[v] for v in (condition, *values)]
        outputs = [[old] for _ in values[::2]]
        flags = [[flags] for _ in cells]
        return LazyBranch(cells, outputs, flags, [[False] for _ in outputs], view, list), cells, outputs, flags

    def test_conditions(self):
        """A condition of any type is false if it equals 0 in Python, and otherwise true."""
        kinds = [np.asarray(v, dtype) for dtype in "?bBhHiIlLqQefdgFDG" for v in (0, 1)]
        kinds += [np.asarray(v, "f8") for v in (-0.0, np.nan, 1e-320, np.inf)]
        kinds += [
            np.asarray(256, ">i2"),
            np.asarray(0.5, ">f8"),
            np.asarray(1j),
            np.asarray(None, object),
            np.asarray(0, object),
        ]
        kinds += [np.asarray("x"), np.zeros((1, 1)), np.ones(1), np.float32(0), np.int8(3), 0, 2.5, True, None]
        kinds.append(np.frombuffer(b"\0\0\0\0\1\0\0\0\0", "u1")[1:].view("i8")[()].reshape(()))
        for value in kinds:
            thunk, _, (out,), _ = self.branch(value, ["then", "else"])
            self.assertEqual(thunk(), [])
            self.assertEqual(out[0], list("then" if np.all(value != 0) else "else"), repr(value))
        self.assertRaises(ValueError, self.branch(np.zeros(2), ["then", "else"])[0])

    def test_questions(self):
        thunk, _, outputs, flags = self.branch(np.asarray(0), [1.0, 2.0, 3.0, 4.0], flags=False)
        self.assertTrue(thunk.lazy)
        self.assertEqual(thunk(), [0])
        flags[0][0] = 1
        self.assertEqual(thunk(), [3, 4])
        flags[3][0] = 2
        self.assertEqual(thunk(), [4])
        self.assertEqual(outputs, [[None], [None]])
        with self.assertRaises(TypeError):  # `list`, which copies values here, cannot copy a number
            flags[4][0] = 1
            thunk()

    def test_copies_and_views(self):
        for is_view in (False, True):
            for condition in (0, 1):
                a, b = np.arange(3.0), np.arange(3.0)[::-1]
                thunk, _, (out,), _ = self.branch(np.asarray(condition), [a, b], is_view)
                thunk()
                np.testing.assert_array_equal(out[0], a if condition else b)
                self.assertEqual(out[0] is a, is_view and condition == 1)
                self.assertFalse(condition == 0 and np.shares_memory(out[0], b))
                self.assertTrue(out[0].flags.c_contiguous)

    def test_old_output_is_used_again_only_when_it_is_free(self):
        a = np.arange(6.0).reshape(2, 3)
        for make, same in (
            (lambda: np.zeros((2, 3)), True),
            (lambda: np.zeros((3, 2)), False),
            (lambda: np.zeros((2, 3), "f4"), False),
            (lambda: np.zeros((2, 3), ">f8"), False),
            (lambda: np.zeros((2, 3), order="F"), False),
            (lambda: np.zeros((4, 3))[:2], False),
            (lambda: np.zeros((2, 3)).view(np.matrix), False),
        ):
            thunk, _, (out,), _ = self.branch(np.asarray(1), [a, a], old=make())
            old = id(out[0])
            thunk()
            np.testing.assert_array_equal(out[0], a)
            self.assertIs(type(out[0]), np.ndarray)
            if same:
                self.assertEqual(id(out[0]), old)
            else:
                self.assertEqual((out[0].dtype, out[0].shape), (a.dtype, a.shape))
        held, frozen = np.zeros((2, 3)), np.zeros((2, 3))
        frozen.flags.writeable = False
        for old in (held, frozen):
            thunk, _, (out,), _ = self.branch(np.asarray(0), [a, a], old=old)
            thunk()
            self.assertIsNot(out[0], old)
            self.assertEqual(old.sum(), 0)
        # object arrays hold counted references, so their elements are never copied as bytes
        things = np.array([object(), None])
        before = sys.getrefcount(things[0])
        thunk, _, (out,), _ = self.branch(np.asarray(0), [things, things], old=np.array([1, 2], object))
        thunk()
        thunk()
        self.assertEqual(sys.getrefcount(things[0]), before + 1)

    def test_construction(self):
        cells = [[None] for _ in range(3)]
        for lists in (
            (cells[:2], cells[:1], cells[:2], cells[:1]),
            (cells, cells[:1], cells[:2], cells[:1]),
            (cells, cells[:1], cells, []),
        ):
            self.assertRaisesRegex(ValueError, "two branches of", LazyBranch, *lists, False, float)
        self.assertRaisesRegex(
            TypeError, "a cell must be a list", LazyBranch, [(1,), [1], [2]], [[None]], cells, cells[:1], False, float
        )
        thunk = self.branch(1, [1.0, 2.0])[0]
        self.assertEqual((thunk.branch_size, thunk.view, len(thunk.inputs), len(thunk.outputs)), (1, False, 3, 1))

    def test_errors_in_the_machine(self):
        """If a value cannot be copied, or a condition is ambiguous, the error names the conditional.

        This holds for lazy and for eager machines.
        """

        class Uncopied(Branch):
            def make_thunk(self, node, storage_map, compute_map, no_recycling):
                lists = [
                    [table[r] for r in rs] for table in (storage_map, compute_map) for rs in (node.inputs, node.outputs)
                ]
                return LazyBranch(*lists, False, lambda value: value.no_such_thing)

        x = number("x")
        for lazy in (True, False):
            for time_thunks in (True, False):
                m = Machine(
                    [x], [Uncopied("u")(Compute("c", lambda a: a, None)(x), x, x)], [], dict(use_cloop=True, lazy=lazy)
                )
                m.run.time_thunks = time_thunks
                self.assertRaisesRegex(AttributeError, "no_such_thing", m, [1.0])
                self.assertEqual(m.nodes[m.run.position_of_error].op.name, "u")
                self.assertRaisesRegex(ValueError, "ambiguous", m, [np.ones(2)])
                self.assertEqual(m.nodes[m.run.position_of_error].op.name, "u")

    def test_machine_checks_the_node(self):
        class Odd(Branch):
            def make_node(self, *values):
                return Apply(self, [as_number(x) for x in values], [number()])

            def make_thunk(self, node, storage_map, compute_map, no_recycling):
                cells = [storage_map[r] for r in node.inputs]
                return LazyBranch([*cells, cells[0]], [storage_map[node.outputs[0]]], [[0]] * 3, [[0]], False, float)

        x = number("x")
        linker = vm.VM_Linker(use_cloop=True).accept(FunctionGraph([x], [Odd("odd")(x, x)]))
        self.assertRaisesRegex(
            ValueError, "the branches have 1 values each, but the node has 2 inputs", linker.make_all
        )


if __name__ == "__main__":
    unittest.main()
