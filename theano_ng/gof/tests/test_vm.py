"""Tests of the virtual machines: compiled machines and their Python equivalents run the same graphs."""

import gc
import sys
import time
import unittest

from theano_ng.configdefaults import config
from theano_ng.gof import lazylinker_c, link, vm
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.tests.floats import Compute, add, as_number, choose, div, mul, number

MACHINES = {
    "CVM": dict(use_cloop=True),
    "CVM nogc": dict(use_cloop=True, allow_gc=False),
    "CVM lazy": dict(use_cloop=True, lazy=True),
    "LoopGC": dict(),
    "Loop": dict(allow_gc=False),
    "Stack": dict(lazy=True),
    "Stack nogc": dict(lazy=True, allow_gc=False),
}


def machine(inputs, outputs, updates=None, clone=True, **options):
    """Build a machine for a graph; return it with the storage of its inputs and outputs."""
    fgraph = FunctionGraph(inputs, outputs, clone=clone)
    linker = vm.VM_Linker(**options).accept(fgraph)
    if updates:
        linker.accept_var_updates({fgraph.inputs[i]: fgraph.outputs[k] for i, k in updates.items()})
    run, ins, outs, thunks, nodes = linker.make_all()
    return run, [c.storage for c in ins], [c.storage for c in outs]


class TestMachines(unittest.TestCase):
    def test_kinds(self):
        x = number("x")
        kinds = {name: type(machine([x], [add(x, 1)], **options)[0]).__name__ for name, options in MACHINES.items()}
        self.assertEqual(kinds, {name: name.split()[0] for name in MACHINES})

    def test_values_and_freeing(self):
        for name, options in MACHINES.items():
            with self.subTest(name):
                x, y = number("x"), number("y")
                p = mul(x, y)
                q = add(p, x)
                unread = div(q, 2)
                run, (cx, cy), (c1, c2) = machine([x, y], [mul(q, q), add(p, unread)], **options)
                for a, b in ((2.0, 3.0), (0.5, -1.0)):
                    cx[0], cy[0] = a, b
                    run()
                    p_, q_ = a * b, a * b + a
                    self.assertEqual((c1[0], c2[0]), (q_ * q_, p_ + q_ / 2))
                inner = [
                    cell
                    for r, cell in run.storage_map.items()
                    if r.owner is not None and r not in run.nodes[0].fgraph.outputs
                ]
                self.assertEqual(len(inner), 3)
                kept = not options.get("allow_gc", True)
                self.assertEqual([cell[0] is not None for cell in inner], [kept] * 3)

    def test_lazy(self):
        for name, options in MACHINES.items():
            with self.subTest(name):
                log = []
                yes, no = Compute("yes", lambda a: a + 1, log), Compute("no", lambda a: a - 1, log)
                shared = Compute("shared", lambda a: a * 10, log)
                c, x = number("c"), number("x")
                s = shared(x)
                run, (cc, cx), (out,) = machine([c, x], [choose(c, yes(s), no(s))], **options)
                for condition, value, ran in ((1.0, 31.0, ["shared", "yes"]), (0.0, 29.0, ["shared", "no"])):
                    del log[:]
                    cc[0], cx[0] = condition, 3.0
                    run()
                    self.assertEqual(out[0], value)
                    self.assertEqual(log, ran)
                if options.get("allow_gc", True):
                    left = [r for r, cell in run.storage_map.items() if r.owner is not None and cell[0] is not None]
                    self.assertEqual(len(left), 1)

    def test_lazy_off_runs_everything(self):
        for use_cloop in (True, False):
            log = []
            yes, no = Compute("yes", lambda a: a + 1, log), Compute("no", lambda a: a - 1, log)
            c, x = number("c"), number("x")
            run, (cc, cx), (out,) = machine([c, x], [choose(c, yes(x), no(x))], use_cloop=use_cloop, lazy=False)
            for condition, value in ((0.0, 2.0), (1.0, 4.0)):
                cc[0], cx[0] = condition, 3.0
                run()
                self.assertEqual(out[0], value)
            self.assertEqual(sorted(log), ["no", "no", "yes", "yes"])

    def test_output_subset(self):
        for name in ("CVM", "CVM nogc", "CVM lazy", "Stack", "Stack nogc"):
            with self.subTest(name):
                log = []
                x = number("x")
                ops = [Compute("op%d" % i, lambda a, i=i: a + i, log) for i in range(4)]
                base = ops[0](x)
                run, (cx,), outs = machine(
                    [x], [ops[1](base), ops[2](base), ops[3](x)], updates={0: 2}, **MACHINES[name]
                )
                cx[0] = 1.0
                run(output_subset=[1])
                self.assertEqual(sorted(log), ["op0", "op2", "op3"])
                self.assertEqual(outs[1][0], 3.0)
                self.assertIsNone(outs[0][0])
                if not run.need_update_inputs:
                    self.assertEqual(cx[0], 4.0)
                del log[:]
                run()
                self.assertEqual(sorted(log), ["op0", "op1", "op2", "op3"])

    def test_updates_swap(self):
        # all new values are read before one of them is written, so two updates can swap two values
        x, y = number("x"), number("y")
        run, (cx, cy), outs = machine([x, y], [y, x], updates={0: 0, 1: 1}, use_cloop=True)
        cx[0], cy[0] = 1.0, 2.0
        run()
        self.assertEqual((cx[0], cy[0]), (2.0, 1.0))

    def test_error_position(self):
        for name, options in MACHINES.items():
            with self.subTest(name):
                x, y = number("x"), number("y")
                run, (cx, cy), (out,) = machine([x, y], [mul(div(add(x, 1), y), 2)], **options)
                cx[0], cy[0] = 1.0, 0.0
                self.assertRaises(ZeroDivisionError, run)
                self.assertEqual(run.nodes[run.position_of_error].op, div)
                self.assertEqual(run.thunks[run.position_of_error].inputs[0][0], 2.0)
                cy[0] = 4.0
                run()
                self.assertEqual((out[0], run.position_of_error), (1.0, -1))

    def test_callbacks(self):
        seen, given = [], []
        x = number("x")
        run, (cx,), (out,) = machine(
            [x],
            [mul(add(x, 1), 2)],
            use_cloop=True,
            callback=lambda node, thunk, storage_map, compute_map: seen.append(
                (str(node.op), storage_map[node.outputs[0]][0])
            ),
            callback_input=lambda r, value: given.append(value),
        )
        cx[0] = 2.0
        run()
        self.assertEqual(seen, [("add", 3.0), ("mul", 6.0)])
        self.assertEqual(sorted(given), [1.0, 2.0, 2.0])

    def test_timing(self):
        class Profile:
            def __init__(self):
                self.apply_time, self.apply_callcount, self.apply_cimpl = {}, {}, {}

        for name, options in MACHINES.items():
            with self.subTest(name):
                x, c = number("x"), number("c")
                run, (cx, cc), _ = machine([x, c], [choose(c, add(x, 1), mul(x, 2))], **options)
                run.time_thunks = True
                cx[0], cc[0] = 1.0, 1.0
                run()
                run()
                profile = Profile()
                run.update_profile(profile)
                counts = {str(node.op): n for node, n in profile.apply_callcount.items()}
                self.assertEqual(counts["add"], 2)
                self.assertEqual(counts["mul"], 0)
                self.assertGreater(sum(profile.apply_time.values()), 0)
                self.assertFalse(any(profile.apply_cimpl.values()))
                self.assertEqual(sum(run.call_counts), 0)

    def test_depth(self):
        # execution does not recurse over the depth of the graph
        for options in (dict(use_cloop=True), dict(use_cloop=True, lazy=True), dict(lazy=True)):
            x = r = number("x")
            n = 2500
            for _ in range(n):
                r = add(r, 1.0)
            run, (cx,), (out,) = machine([x], [r], **options)
            cx[0] = 0.5
            run()
            self.assertEqual(out[0], n + 0.5)

    def test_no_leaks(self):
        class Value(float):
            pass

        x = number("x")
        make = Compute("make", lambda a: Value(a + 1))
        for options in (dict(use_cloop=True), dict(use_cloop=True, lazy=True)):
            run, (cx,), (out,) = machine([x], [make(make(x))], updates=None, **options)
            start = Value(3.0)
            before = sys.getrefcount(start)
            for _ in range(50):
                cx[0] = start
                run()
            gc.collect()
            cx[0] = None
            self.assertEqual(sys.getrefcount(start), before)
            self.assertEqual(sys.getrefcount(out[0]), 2)

    def test_replace_thunk(self):
        x = number("x")
        run, (cx,), (out,) = machine([x], [add(x, 1)], use_cloop=True)
        cell_in, cell_out = run.thunks[0].inputs[0], run.thunks[0].outputs[0]

        def other():
            cell_out[0] = -cell_in[0]

        run.replace_thunk(0, other)
        cx[0] = 2.0
        run()
        self.assertEqual(out[0], -2.0)
        self.assertRaises(IndexError, run.replace_thunk, 1, other)
        # the list of thunks is a copy: changing it does not change the machine
        run.thunks[0] = None
        gc.collect()
        run()
        self.assertEqual(out[0], -2.0)
        self.assertIs(lazylinker_c.try_import().CLazyLinker, type(run).__mro__[1])
        other.lazy = True
        self.assertRaises(ValueError, run.replace_thunk, 0, other)

    def test_linker_options(self):
        x = number("x")
        fgraph = FunctionGraph([x], [add(x, mul(x, 2))])
        order = []
        linker = vm.VM_Linker(schedule=lambda fg: order.extend(fg.toposort()) or list(order)).accept(fgraph)
        run = linker.make_all()[0]
        self.assertEqual(run.nodes, order)
        other = FunctionGraph([number()], [as_number(3)])
        again = linker.accept(other)
        self.assertIsNot(again, linker)
        self.assertIs(linker.fgraph, fgraph)
        self.assertIs(again.clone(allow_gc=False).allow_gc, False)
        dependencies = linker.compute_gc_dependencies(run.storage_map)
        self.assertEqual(
            {str(r.owner.op): [str(o.owner.op) for o in users] for r, users in dependencies.items()},
            {"mul": ["add"], "add": []},
        )

    def test_partial_eval_off(self):
        x = number("x")
        run = machine([x], [add(x, 1)], use_cloop=True, allow_partial_eval=False)[0]
        self.assertFalse(run.allow_partial_eval)
        self.assertTrue(machine([x], [add(x, 1)], use_cloop=True)[0].allow_partial_eval)

    def test_c_thunks(self):
        """With c_thunks=False, make_thunk of an Op gets impl="py". Otherwise it gets impl=None."""
        asked = []

        class Asked(Compute):
            def make_thunk(self, node, storage_map, compute_map, no_recycling, impl=None):
                asked.append(impl)
                return super().make_thunk(node, storage_map, compute_map, no_recycling, "py")

        x = number("x")
        for c_thunks in (None, True, False):
            machine([x], [Asked("asked", None)(x)], c_thunks=c_thunks)
        self.assertEqual(asked, [None, None, "py"])

    def test_lazy_option(self):
        """The option `lazy` decides whether a machine is lazy. If it is None, config.vm.lazy decides.

        If both are None, a machine is lazy if its graph has a lazy node.
        """
        x, c = number("x"), number("c")
        eager, lazy = add(x, c), choose(c, x, 1)
        for option, flag, of_eager, of_lazy in (
            (None, None, False, True),
            (True, None, True, True),
            (False, None, False, False),
            (None, True, True, True),
            (None, False, False, False),
            (False, True, False, False),
        ):
            with config.change_flags({"vm.lazy": flag}):
                for output, want in ((eager, of_eager), (lazy, of_lazy)):
                    self.assertEqual(
                        machine([x, c], [output], lazy=option, use_cloop=True)[0].lazy, want, (option, flag)
                    )
                    kind = type(machine([x, c], [output], lazy=option)[0])
                    self.assertIs(kind, vm.Stack if want else vm.LoopGC, (option, flag))

    def test_callback_with_lazy_nodes(self):
        """The callback is called once for each node that ran; the node's values exist and are marked as computed."""
        seen = []

        def callback(node, thunk, storage_map, compute_map):
            flags = [compute_map[r][0] for r in (*node.inputs, *node.outputs)]
            seen.append((str(node.op), thunk.outputs[0] is storage_map[node.outputs[0]], flags))

        x, c = number("x"), number("c")
        run, (cx, cc), (out,) = machine([x, c], [choose(c, add(x, 1), mul(x, 2))], callback=callback, use_cloop=True)
        cx[0], cc[0] = 1.0, 0.0
        run()
        self.assertEqual(seen, [("mul", True, [1, 1, 1]), ("Choose", True, [1, 0, 1, 1])])
        self.assertEqual(
            {str(r.owner.op): flag[0] for r, flag in run.compute_map.items() if r.owner},
            {"mul": 2, "add": 0, "Choose": 1},
        )

    def test_callback_without_laziness(self):
        """With lazy=False, a machine runs all nodes, even if it has a callback."""
        seen = []
        x, c = number("x"), number("c")
        run, (cx, cc), (out,) = machine(
            [x, c],
            [choose(c, add(x, 1), mul(x, 2))],
            lazy=False,
            callback=lambda node, **others: seen.append(str(node.op)),
        )
        cx[0], cc[0] = 1.0, 0.0
        run()
        self.assertEqual((sorted(seen), out[0]), (["Choose", "add", "mul"], 2.0))

    def test_callback_that_fails(self):
        def callback(node, thunk, storage_map, compute_map):
            if node.op is mul and storage_map[node.outputs[0]][0] > 5:
                raise ValueError("too large")

        x = number("x")
        run, (cx,), (out,) = machine([x], [add(mul(x, 2), 1)], callback=callback)
        cx[0] = 3.0
        self.assertRaisesRegex(ValueError, "too large", run)
        self.assertIs(run.nodes[run.position_of_error].op, mul)
        cx[0] = 1.0
        run()
        self.assertEqual(out[0], 3.0)

    def test_many_readers(self):
        """Freeing a value that n nodes read takes time in proportion to n."""
        x = number("x")
        n = 400
        value = add(x, 1)
        seconds = []
        for count in (n, 4 * n):
            total = add(*[mul(value, i) for i in range(count)])
            run, (cx,), (out,) = machine([x], [total], lazy=True)
            cx[0] = 1.0
            start = time.process_time()
            run()
            seconds.append(time.process_time() - start)
            self.assertEqual(out[0], 2.0 * count * (count - 1) / 2)
        self.assertLess(seconds[1], 8 * seconds[0] + 0.01)


class TestReallocation(unittest.TestCase):
    def test_pairs(self):
        class Scalar(type(number)):
            ndim = 0

        scalar = Scalar()
        x = scalar("x")
        inc = Compute("inc", lambda a: a + 1)
        inc.make_node = lambda a: __import__("theano_ng.gof.graph").gof.graph.Apply(inc, [a], [scalar()])
        r = [x]
        for _ in range(4):
            r.append(inc(r[-1]))
        fgraph = FunctionGraph([x], [r[-1]], clone=False)
        order = fgraph.toposort()
        storage_map = {v: [None] for v in r}
        dependencies = vm.VM_Linker().compute_gc_dependencies(r)
        pairs = vm.calculate_reallocate_info(
            order, fgraph, storage_map, {v: [v.owner is None] for v in r}, dependencies
        )
        # The third result of `inc` reuses the memory of the first result, which is no longer needed. The last result is
        # the output of the graph, so it keeps its own storage.
        self.assertEqual(pairs, {r[3]: [r[1], r[3]]})


class TestLink(unittest.TestCase):
    def test_gc_helper(self):
        x = number("x")
        a = add(x, 1)
        b = mul(a, a)
        fgraph = FunctionGraph([x], [b], clone=False)
        computed, last_user = link.gc_helper(fgraph.toposort())
        self.assertEqual(computed, {a, b})
        self.assertIs(last_user[a], b.owner)
        self.assertIs(last_user[x], a.owner)


if __name__ == "__main__":
    unittest.main()
