"""Tests of FunctionGraph, its features and the Supervisor of a function's inputs, with an Op without tensors."""

import contextlib
import io
import pickle
import unittest

from theano_ng.compile.functions.maker import Supervisor
from theano_ng.gof import toolbox
from theano_ng.gof.destroy.handler import DestroyHandler
from theano_ng.gof.fg import CachedConstantError, FunctionGraph, InconsistencyError, MissingInputError
from theano_ng.gof.graph import Constant
from theano_ng.gof.tests.test_graph_core import MyOp, MyType, add, inplace, sigmoid, var, view


class Log(toolbox.Feature):
    def __init__(self, orders=None):
        self.events = []
        self.orders = orders or {}

    def on_import(self, fgraph, node, reason):
        self.events.append(("import", str(node.op), reason))

    def on_prune(self, fgraph, node, reason):
        self.events.append(("prune", str(node.op), reason))

    def on_change_input(self, fgraph, node, i, r, new_r, reason=None):
        self.events.append(("change", node if node == "output" else str(node.op), i, reason))

    def orderings(self, fgraph):
        return self.orders

    def count(self, fgraph, text):
        return len(fgraph.apply_nodes), text


class TestFunctionGraph(unittest.TestCase):
    def test_callbacks(self):
        x = var("x")
        s = sigmoid(x)
        log = Log()
        fg = FunctionGraph([x], [add(s)], clone=False, features=[log])
        self.assertEqual(log.events, [])  # nodes that are already in the graph are not reported
        fg.replace(s, view(view(x)), reason="why")
        self.assertEqual(
            log.events,
            [
                ("import", "view", "why"),
                ("import", "view", "why"),
                ("prune", "sigmoid", "why"),
                ("change", "add", 0, "why"),
            ],
        )
        fg.replace_all([(fg.outputs[0], x)], reason="out")
        self.assertEqual(log.events[-1], ("change", "output", 0, "out"))
        self.assertEqual(len(fg.apply_nodes), 0)
        self.assertEqual(fg.collect_callbacks("count", "a"), {log: (0, "a")})
        fg.remove_feature(log)
        fg.remove_feature(log)
        self.assertEqual(fg.collect_callbacks("count", "a"), {})

    def test_answers(self):
        """Each change of a graph clears its `answers`, even if the change is refused or undone."""
        x = var("x")
        s = sigmoid(x)
        fg = FunctionGraph([x], [add(s, view(s))], clone=False)
        order = fg.sorted_nodes()
        self.assertEqual([node.op for node in order], [sigmoid, view, add])
        order.clear()
        self.assertEqual(len(fg.sorted_nodes()), 3)
        checkpoint = fg.checkpoint()
        fg.answers["asked"] = True
        fg.replace(s, view(x))
        self.assertNotIn("asked", fg.answers)
        self.assertEqual([node.op for node in fg.sorted_nodes()], [view, view, add])
        fg.answers["asked"] = True
        fg.revert(checkpoint)
        self.assertEqual(fg.answers, {})
        self.assertEqual([node.op for node in fg.sorted_nodes()], [sigmoid, view, add])
        fg.answers["asked"] = True
        with self.assertRaises(MissingInputError):
            fg.replace(s, sigmoid(var("y")))
        self.assertEqual(fg.answers, {})
        fg.sorted_nodes()
        self.assertEqual(pickle.loads(pickle.dumps(fg, -1)).answers, {})

    def test_orderings(self):
        x = var("x")
        a, b, c = sigmoid(x), view(x), MyOp("c")(x)
        log = Log({a.owner: [c.owner]})
        fg = FunctionGraph([x], [a, b, c], clone=False, features=[log, Log({b.owner: [a.owner], a.owner: [c.owner]})])
        self.assertEqual(fg.toposort(), [c.owner, a.owner, b.owner])
        self.assertEqual(fg.orderings(), {a.owner: [c.owner], b.owner: [a.owner]})
        log.orders = {a.owner: {c.owner}}
        with self.assertRaisesRegex(TypeError, "deterministic"):
            fg.toposort()
        log.orders = {c.owner: [b.owner]}
        with self.assertRaises(ValueError):
            fg.toposort()

    def test_refusals(self):
        x, y = var("x"), var("y")
        e = add(sigmoid(x))
        fg = FunctionGraph([x], [e], clone=False)
        with self.assertRaises(Exception):
            FunctionGraph([x], [e], clone=False)  # its variables belong to a graph
        with self.assertRaises(ValueError):
            FunctionGraph([e], [sigmoid(e)], clone=False)
        with self.assertRaises(Exception):
            fg.change_input(sigmoid(y).owner, 0, x)
        c = Constant(MyType(), 1)
        c.cached = True
        with self.assertRaises(CachedConstantError):
            FunctionGraph([], [sigmoid(c)], clone=False)
        FunctionGraph([], [sigmoid(c)]).check_integrity()
        fg.outputs[0].owner.inputs[0].clients.append((e.owner, 5))
        with self.assertRaises(Exception):
            fg.check_integrity()
        fg.disown()
        FunctionGraph([x], [e], clone=False).check_integrity()

    def test_validate_and_undo(self):
        x = var("x")
        s = sigmoid(x)
        fg = FunctionGraph([x], [add(s, s)], clone=False, features=[DestroyHandler()])
        with self.assertRaises(InconsistencyError):
            fg.replace_all_validate([(fg.outputs[0], add(inplace(s), MyOp("late", {0: [0]})(s)))], reason="bad")
        self.assertEqual(str(fg), "[add(*1 -> sigmoid(x), *1)]")
        fg.check_integrity()
        with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(toolbox.ReplacementDidntRemovedError):
            fg.replace_all_validate_remove([(fg.outputs[0], view(s))], remove=[s.owner], reason="kept")
        self.assertEqual(str(fg), "[add(*1 -> sigmoid(x), *1)]")
        copy = pickle.loads(pickle.dumps(fg, -1))
        copy.check_integrity()
        s2 = copy.outputs[0].owner.inputs[0]
        with self.assertRaises(InconsistencyError):
            copy.replace_all_validate([(copy.outputs[0], add(inplace(s2), MyOp("late", {0: [0]})(s2)))])

    def test_supervisor(self):
        """After each change, the Supervisor of a graph gives the same result as a new Supervisor.

        The new Supervisor checks the whole graph.
        """
        import random

        rng = random.Random(2)
        refused = 0
        for _ in range(20):
            x = [var("x%d" % i) for i in range(3)]
            pool = list(x)
            for _ in range(8):
                pool.append(rng.choice([sigmoid, view])(rng.choice(pool[-4:])))
            fg = FunctionGraph(x, [add(*pool), pool[5]], clone=False, features=[Supervisor(x[:2]), DestroyHandler()])
            for _ in range(25):
                checkpoint = fg.checkpoint()
                node = rng.choice(fg.toposort())
                op = rng.choice([inplace, inplace, view, sigmoid])
                if node.op == add:
                    continue
                fg.replace(node.outputs[0], op(rng.choice([node.inputs[0], x[2]])))
                valid = fg.consistent()
                if not valid:
                    fg.revert(checkpoint)
                    self.assertTrue(fg.consistent())
                    refused += 1
                else:
                    fresh = Supervisor(x[:2])
                    self.assertTrue(fresh.validate(fg))
        self.assertGreater(refused, 20)
        x = var("x")
        fg = FunctionGraph([x], [add(sigmoid(x))], clone=False, features=[Supervisor([x]), DestroyHandler()])
        fg.validate()
        with self.assertRaisesRegex(InconsistencyError, "protected"):
            fg.replace_all_validate([(fg.outputs[0].owner.inputs[0], inplace(view(x)))])


class TestToolbox(unittest.TestCase):
    def test_node_finder_and_listener(self):
        x = var("x")
        fg = FunctionGraph([x], [add(sigmoid(x), sigmoid(x))], clone=False, features=[toolbox.NodeFinder()])
        self.assertEqual(len(fg.get_nodes(sigmoid)), 2)
        fg.replace(fg.outputs[0].owner.inputs[1], view(x))
        self.assertEqual([len(fg.get_nodes(op)) for op in (sigmoid, view, add, inplace)], [1, 1, 1, 0])
        clone = fg.clone()
        self.assertEqual(len(clone.get_nodes(view)), 1)
        self.assertIsNot(clone.get_nodes(view)[0], fg.get_nodes(view)[0])
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            listener = toolbox.PrintListener()
            fg.attach_feature(listener)
            fg.replace(fg.outputs[0].owner.inputs[1], sigmoid(x), reason="r")
            fg.remove_feature(listener)
        for word in ("-- attaching", "-- importing: sigmoid", "-- changing", "-- pruning: view", "-- detaching"):
            self.assertIn(word, text.getvalue())


if __name__ == "__main__":
    unittest.main()
