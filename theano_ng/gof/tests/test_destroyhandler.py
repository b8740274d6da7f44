"""Compare the destroy handler, its order and its alias classes, compiled and in Python, with simple algorithms."""

import random
import unittest
from unittest import mock

from theano_ng.gof import _destroyhandler, _toposort
from theano_ng.gof._destroyhandler import CycleError
from theano_ng.gof.destroy import handler as destroyhandler
from theano_ng.gof.destroy.handler import DestroyHandler, ProtocolError, _contains_cycle, fast_inplace_check
from theano_ng.gof.fg import FunctionGraph, InconsistencyError
from theano_ng.gof.graph import Constant
from theano_ng.gof.tests import python_versions
from theano_ng.gof.tests.test_graph_core import MyOp, MyType, add, inplace, sigmoid, var, view
from theano_ng.gof.toolbox import AlreadyThere


class PythonHandler(DestroyHandler):
    parts = (python_versions.AliasClasses, python_versions.Constraints, python_versions.DynamicOrder)


HANDLERS = [PythonHandler, DestroyHandler]


def handled(handler, inputs, outputs, **kwargs):
    return FunctionGraph(inputs, outputs, clone=False, features=[handler(**kwargs)])


class TestTwins(unittest.TestCase):
    def test_sorting(self):
        rng = random.Random(5)
        two = MyOp("two")
        for _ in range(60):
            x = [var("x%d" % i) for i in range(3)]
            pool = list(x)
            for _ in range(12):
                pool.append(two(*[rng.choice(pool[-6:]) for _ in range(rng.randint(1, 3))]))
            outputs = [rng.choice(pool) for _ in range(3)]
            iset = set(rng.sample(pool, 3))
            order = python_versions.depth_first_order(iset, outputs)
            self.assertEqual(_toposort.depth_first_order(iset, outputs), order)
            orderings = {n: [rng.choice(order)] for n in order if rng.random() < 0.2}
            found = []
            for sort in (python_versions.constrained_order, _toposort.constrained_order):
                clients = {}
                try:
                    found.append((sort(iset, outputs, orderings, clients), clients))
                except ValueError as e:
                    found.append(str(e))
            self.assertEqual(*found)
        e = sigmoid(var("x"))
        e.owner.inputs[0] = e
        for sort in (python_versions.depth_first_order, _toposort.depth_first_order):
            with self.assertRaisesRegex(ValueError, "cycles"):
                sort(set(), [e])

    def test_alias_classes(self):
        """After views are added, moved and removed, the alias classes are correct.

        The test compares the classes with those that a search along all links finds.
        """
        for module in (python_versions, _destroyhandler):
            rng = random.Random(11)
            for _ in range(30):
                a = module.AliasClasses()
                links, uses = {}, {}
                for _ in range(120):
                    r = rng.randrange(14)
                    action = rng.random()
                    if r in links and action < 0.3:
                        a.remove_view(r)
                        del links[r]
                    elif r in links and action < 0.7:
                        links[r] = rng.randrange(14)  # may make a cycle: replacements pass through invalid states
                        a.move_view(r, links[r])
                    elif r not in links and action < 0.8:
                        links[r] = rng.randrange(14)
                        a.add_view(r, links[r])
                    elif (r, "app", 0) in uses:
                        a.remove_destroyer(r, "app%d" % r, 0)
                        del uses[r, "app", 0]
                    else:
                        a.add_destroyer(r, "app%d" % r, 0)
                        uses[r, "app", 0] = None
                    self.check_classes(a, links, uses)

    def check_classes(self, a, links, uses):
        group = {r: {r} for r in range(14)}
        for r, viewed in links.items():
            if group[r] is not group[viewed]:
                group[r] |= group[viewed]
                for other in group[r]:
                    group[other] = group[r]
        for r in range(14):
            self.assertEqual(set(a.members(r)), group[r])
            self.assertEqual(len(a.members(r)), len(group[r]))
            self.assertEqual(bool(a.destroyers(r)), any(u in group[r] for u, _, _ in uses))
            self.assertEqual({a.root(m) for m in group[r]}, {a.root(r)})
            if not any(m not in links for m in group[r]):
                continue  # views that form a cycle have no root
            self.assertNotIn(a.root(r), links)

    def test_order(self):
        """DynamicOrder agrees with all edges that were added, whatever the sequence in which they were added.

        DynamicOrder refuses edges that close a cycle, and renumbers labels when a gap between labels is full.
        """
        for module in (python_versions, _destroyhandler):
            rng = random.Random(7)
            for _ in range(20):
                after = {n: [] for n in range(25)}
                before = {n: [] for n in range(25)}
                order = module.DynamicOrder(after.__getitem__, before.__getitem__)
                for n in after:
                    order.place(n)
                for _ in range(60):
                    u, *later = rng.sample(range(25), rng.randint(2, 4))
                    for v in later:
                        after[u].append(v)
                        before[v].append(u)
                    try:
                        order.add_edges([(u, v) for v in later])
                    except CycleError:
                        for v in later:
                            after[u].pop()
                            before[v].pop()
                        self.assertTrue(any(self.reaches(after, v, u) for v in later))
                    place = {n: k for k, n in enumerate(order)}
                    self.assertTrue(all(place[a] < place[b] for a in after for b in after[a]))
                self.assertEqual(len(order), 25)
            # If a new edge requires that a node moves to the other end of a long chain, the chain is not searched.
            for last_of_chain in (False, True):
                searched = []
                after = {n: [n + 1] if n < 999 else [] for n in range(1000)}
                before = {n: [n - 1] if n else [] for n in range(1000)}
                after["one"], before["one"] = [], []
                order = module.DynamicOrder(
                    lambda n: searched.append(n) or after[n], lambda n: searched.append(n) or before[n]
                )
                for n in ["one", *range(1000)] if last_of_chain else [*range(1000), "one"]:
                    order.place(n)
                u, v = (999, "one") if last_of_chain else ("one", 0)
                after[u].append(v)
                before[v].append(u)
                searched.clear()
                order.add_edges([(u, v)])
                self.assertLess(len(searched), 10)
                self.assertEqual(list(order), [*range(1000), "one"] if last_of_chain else ["one", *range(1000)])
            # All nodes are inserted at one position, so that the gap there becomes full and labels must be renumbered.
            order = module.DynamicOrder(lambda n: (), lambda n: (0,) if n else ())
            for n in range(300):
                order.place(n)
            self.assertEqual(list(order), [0, *range(299, 0, -1)])
            order.remove(150)
            order.remove(150)
            self.assertNotIn(150, order)

    @staticmethod
    def reaches(after, start, end):
        seen, todo = set(), [start]
        while todo:
            n = todo.pop()
            if n not in seen:
                seen.add(n)
                todo.extend(after[n])
        return end in seen


class TestHandler(unittest.TestCase):
    def test_replacements_against_oracle(self):
        """After random replacements, the incremental check gives the same result as the plain algorithm.

        Both implementations of the handler give the same order.
        """
        histories = [
            self.random_replacements(handler, patience)
            for handler in HANDLERS
            for patience in (destroyhandler._PATIENCE, -1)
        ]
        for history in histories[1:]:
            self.assertEqual(history, histories[0])
        accepted = sum(valid for valid, _ in histories[0])
        self.assertGreater(min(accepted, len(histories[0]) - accepted), 50)

    def random_replacements(self, handler, patience):
        """Make random replacements. Return a pair for each: whether it was valid, and the order of nodes after it.

        With a negative `patience`, the handler keeps no refused nodes for its next check.
        """
        rng = random.Random(3)
        history = []
        with mock.patch.object(destroyhandler, "_PATIENCE", patience):
            for _ in range(15):
                x = [var("x%d" % i) for i in range(3)]
                pool = list(x)
                for _ in range(14):
                    op = rng.choice([add, sigmoid, view, view])
                    pool.append(op(*[rng.choice(pool[-8:]) for _ in range(1 if op is not add else 2)]))
                fg = handled(handler, x, [add(*pool[3:])])
                for _ in range(30):
                    node = rng.choice(fg.toposort())
                    op = MyOp("in%d" % rng.randrange(2), {0: [rng.randrange(len(node.inputs))]})
                    if rng.random() < 0.3:
                        op = rng.choice([add, view])
                    new = op(*[rng.choice(node.inputs) for _ in node.inputs])
                    checkpoint = fg.checkpoint()
                    fg.replace(node.outputs[0], new)
                    try:
                        valid = not _contains_cycle(fg, fg.orderings())
                    except InconsistencyError:
                        valid = False
                    self.assertEqual(fg.consistent(), valid, str(fg))
                    if not valid:
                        fg.revert(checkpoint)
                        if patience >= 0:
                            self.assertTrue(fg.consistent())
                    history.append((valid, [str(n.op) for n in fg.toposort()]))
        return history

    def test_cost_of_refusals(self):
        """After many refused replacements, the next check does not visit the nodes of all refused replacements."""
        for handler in HANDLERS:
            x = var("x")
            e, used = x, []
            for _ in range(400):
                e = sigmoid(e)
                used.append(e)
            # All variables are read at the end, in the order of their computation.
            fg = handled(handler, [x], [add(e, *used)])
            most = 0
            for r in used[:-1]:
                user = next(node for node, _ in r.clients if node.op is sigmoid)
                with self.assertRaises(InconsistencyError):
                    fg.replace_all_validate([(user.outputs[0], add(inplace(r), r, user.outputs[0].owner.inputs[0]))])
                most = max(most, len(fg.destroy_handler._touched_apps))
            self.assertLess(most, 400)
            self.assertLess(len(fg.destroy_handler._touched_apps), 100)
            self.assertTrue(fg.consistent())

    def test_order_of_readers(self):
        for handler in HANDLERS:
            x, y = var("x"), var("y")
            # log(x) must run before add_inplace overwrites x, although log(x) is the last output (an example of the
            # documentation).
            r2 = MyOp("add_inplace", {0: [0]})(x, y)
            before, after = MyOp("log")(x), MyOp("log")(r2)
            fg = handled(handler, [x, y], [after, before])
            fg.validate()
            names = [str(n.op) for n in fg.toposort()]
            self.assertEqual(names, ["log", "add_inplace", "log"])
            self.assertEqual(fg.destroyers(x), [r2.owner])
            self.assertEqual(fg.destroyers(y), [])
            self.assertTrue(fg.has_destroyers([y, x]))
            self.assertEqual(fast_inplace_check([x, y]), [y])
            with self.assertRaises(InconsistencyError):
                fg.replace_all_validate([(before, MyOp("late", {0: [0]})(x))])
            self.assertEqual(str(fg), "[log(add_inplace(x, y)), log(x)]")

    def test_refusals(self):
        x = var("x")
        constant = Constant(MyType(), 1)
        fixed = var("fixed")
        fixed.tag.indestructible = True
        several = MyOp("both", {0: [0], 1: [0]})
        for e in (
            add(inplace(x), inplace(x)),
            add(inplace(x), inplace(view(x))),
            inplace(x, x),
            inplace(x, view(x)),
            inplace(constant),
            inplace(view(constant)),
            inplace(fixed),
            several(x),
            sigmoid(add(inplace(x), sigmoid(MyOp("late", {0: [0]})(x)))),
        ):
            for handler in HANDLERS:
                fg = FunctionGraph([x, fixed], [e], features=[handler()])
                self.assertEqual(hasattr(fg, "destroy_handler"), True)
                for r in fg.inputs:
                    r.tag.indestructible = r.name == "fixed"
                with self.assertRaises(InconsistencyError):
                    fg.validate()
        y = var("y")
        tolerant = MyOp("tolerant", {0: [0]}, same=[(0, 1)])
        aliased = MyOp("aliased", {0: [0]})
        aliased.destroyhandler_tolerate_aliased = [(0, 1)]
        for handler in HANDLERS:
            handled(handler, [y], [tolerant(y, y)]).validate()
            y = var("y")
            handled(handler, [y], [aliased(y, view(y))]).validate()
            y = var("y")
        with self.assertRaises(NotImplementedError):
            FunctionGraph([x], [MyOp("two", view_map={0: [0, 1]})(x, x)], features=[DestroyHandler()])

    def test_self_view(self):
        """A graph in which a variable becomes a view of itself is inconsistent, like a graph with a cycle.

        The consistency check of such a graph terminates.
        """
        for handler in HANDLERS:
            x = var("x")
            v = view(sigmoid(x))
            fg = handled(handler, [x], [add(inplace(view(v)), x)])
            fg.validate()
            for cause in (v, fg.outputs[0].owner.inputs[0].owner.inputs[0]):
                checkpoint = fg.checkpoint()
                fg.change_input(v.owner, 0, cause)
                self.assertFalse(fg.consistent())
                fg.revert(checkpoint)
                self.assertTrue(fg.consistent())
                self.assertEqual(fg.destroyers(v)[0].op, inplace)

    def test_fast(self):
        x = var("x")
        e = sigmoid(x)
        fg = FunctionGraph([x], [add(e, sigmoid(e))], clone=False, features=[DestroyHandler(algo="fast")])
        with self.assertRaisesRegex(InconsistencyError, "more than one client"):
            fg.replace_all_validate([(fg.outputs[0].owner.inputs[1], inplace(e))])
        y = var("y")
        fg = FunctionGraph([y], [sigmoid(sigmoid(y))], clone=False, features=[DestroyHandler(algo="fast")])
        fg.replace_all_validate([(fg.outputs[0], inplace(fg.outputs[0].owner.inputs[0]))])
        self.assertEqual(str(fg), "[inplace(sigmoid(y))]")
        z = var("z")
        v = view(z)
        fg = FunctionGraph([z], [sigmoid(v)], clone=False, features=[DestroyHandler(algo="fast")])
        with self.assertRaisesRegex(InconsistencyError, "view of another"):
            fg.replace_all_validate([(fg.outputs[0], inplace(v))])
        self.assertEqual(str(fg), "[sigmoid(view(z))]")
        with self.assertRaises(ValueError):
            DestroyHandler(algo="slow")

    def test_protocol(self):
        x = var("x")
        e = sigmoid(x)
        handler = DestroyHandler()
        fg = FunctionGraph([x], [e], clone=False, features=[handler])
        with self.assertRaises(ProtocolError):
            handler.on_import(fg, e.owner, "again")
        with self.assertRaises(AlreadyThere):
            DestroyHandler().on_attach(fg)
        fg.attach_feature(DestroyHandler())
        self.assertIs(fg.destroy_handler, handler)
        with self.assertRaisesRegex(Exception, "only serve one"):
            handler.on_attach(FunctionGraph([var("y")], []))
        fg.remove_feature(handler)
        self.assertFalse(hasattr(fg, "destroyers"))
        with self.assertRaises(ProtocolError):
            handler.on_prune(fg, e.owner, "gone")

    def test_cost_of_wide_and_long_classes(self):
        """After a replacement, the handler checks only the nodes that the replacement affects.

        One graph has 5000 views of a variable, the other graph has a chain of 3000 views.
        """
        for handler in HANDLERS:
            x = var("x")
            fg = handled(handler, [x], [add(*[sigmoid(view(x)) for _ in range(5000)])])
            for node in [n for n in fg.toposort() if n.op is sigmoid][:-1]:
                fg.replace(node.inputs[0], sigmoid(x))
                fg.replace_all_validate([(node.outputs[0], inplace(node.inputs[0]))])
            self.assertEqual(len(fg.destroy_handler.destroyers), 4999)
            x = var("x")
            e = x
            for _ in range(3000):
                e = view(e)
            y = var("y")
            fg = handled(handler, [x, y], [add(sigmoid(e), inplace(y))])
            other = MyOp("other", view_map={0: [0]})
            for node in [n for n in fg.toposort() if n.op is view]:
                fg.replace_all_validate([(node.outputs[0], other(*node.inputs))])
            self.assertEqual(fg.destroyers(x), [])
            self.assertEqual(len(fg.destroy_handler.aliases.members(x)), 3001)


if __name__ == "__main__":
    unittest.main()
