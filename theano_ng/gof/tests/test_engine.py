"""Tests of the rewriting engine: repeated visits of nodes, counts in profiles, messages, and refused changes."""

import contextlib
import io
import unittest
import unittest.mock

import numpy as np

from theano_ng import gof
from theano_ng import tensor as T
from theano_ng.configdefaults import config
from theano_ng.gof import progress
from theano_ng.gof.rewriting import (
    ChangeTracker,
    EquilibriumOptimizer,
    LocalMetaOptimizer,
    LocalOptGroup,
    LocalOptimizer,
    MergeOptimizer,
    OpKeyOptimizer,
    OpRemove,
    OpSub,
    Optimizer,
    PatternSub,
    SeqOptimizer,
    TopoOptimizer,
    in2out,
    local_optimizer,
    pattern,
    pre_constant_merge,
)
from theano_ng.scalar import add, constant, exp, float64, identity, log, mul, neg, sqr, sqrt, sub


def graph_of(*outs):
    inputs = [v for v in gof.graph.inputs(outs) if not isinstance(v, gof.Constant)]
    return gof.FunctionGraph(inputs, list(outs), clone=True)


class Refusal(gof.toolbox.Feature):
    """A feature that refuses every change."""

    def validate(self, fgraph):
        raise gof.InconsistencyError("refused")


class Base(unittest.TestCase):
    def setUp(self):
        self.x, self.y = float64("x"), float64("y")


class TestEquilibrium(Base):
    def test_patterns_as_deep_as_is_promised(self):
        """If an input of a node changes, rules are tried again on the node and `CLIENT_DEPTH` levels of its clients."""
        outer = [neg, sqr, log, sqrt]
        for depth in range(1, gof.rewriting.equilibrium.CLIENT_DEPTH + 2):
            form, out = (log, "a"), exp(self.x)
            for op in reversed(outer[:depth]):
                form, out = (op, form), op(out)
            e = graph_of(out)
            opt = EquilibriumOptimizer([PatternSub(form, "a"), OpSub(exp, log)], max_use_ratio=9)
            opt.optimize(e)
            self.assertEqual(str(e), "[x]", depth)

    def test_global_walks_go_on_to_the_end(self):
        """EquilibriumOptimizer repeats a walk that does not visit its own new nodes, until the walk changes nothing."""
        ops = [exp, neg, log, sqr, sqrt, identity]
        for length in range(2, len(ops) + 1):
            steps = [OpSub(*pair) for pair in zip(ops, ops[1:length])]
            walk = in2out(*steps, ignore_newtrees=True)
            e = graph_of(exp(self.x))
            EquilibriumOptimizer([walk], max_use_ratio=20).optimize(e)
            self.assertEqual(str(e), "[%s(x)]" % ops[length - 1])

    def test_what_is_refused_is_given_up(self):
        """A replacement that was undone counts as no change, so it is not tried endlessly."""

        def accept(exc, *others):
            if not isinstance(exc, gof.InconsistencyError):
                raise exc

        for build in (lambda rule: rule, lambda rule: TopoOptimizer(rule, failure_callback=accept)):
            tried = []

            @local_optimizer([exp])
            def rule(node):
                tried.append(node)
                if len(tried) > 20:
                    raise AssertionError("tried without end")
                return [neg(node.inputs[0])]

            e = graph_of(add(exp(self.x), log(self.y)))
            e.attach_feature(Refusal())
            EquilibriumOptimizer([build(rule)], failure_callback=accept).optimize(e)
            self.assertEqual(str(e), "[add(exp(x), log(y))]")

    def test_replaced_nodes_are_left_alone(self):
        """A node that has left the graph is not passed to the following rules."""
        seen = []

        @local_optimizer([exp])
        def note(node):
            seen.append(node)
            return False

        for kwargs in ({}, {"ignore_newtrees": False}, {"tracks_on_change_inputs": True}):
            e = graph_of(add(exp(self.x), exp(self.y)))
            EquilibriumOptimizer([OpSub(exp, neg), note], max_use_ratio=9, **kwargs).optimize(e)
            self.assertEqual(str(e), "[add(neg(x), neg(y))]")
            self.assertEqual(seen, [])

    def test_profile(self):
        """A profile names the rules, and reports how often each was used and how many nodes it made."""
        one, three = OpSub(exp, neg), PatternSub((log, "a"), (sqr, (sqrt, (neg, "a"))))
        one.name, three.name = "makes one", "makes three"
        e = graph_of(add(exp(self.x), add(exp(self.y), log(self.y))))
        opt = EquilibriumOptimizer([one, three, OpSub(mul, add)], max_use_ratio=9)
        prof = opt.optimize(e)
        self.assertEqual(prof[8], {one: 2, three: 3})
        said = io.StringIO()
        opt.print_profile(said, prof)
        self.assertRegex(said.getvalue(), r"\n +\d+\.\d+s - 2 - 2 - makes one\n")
        self.assertRegex(said.getvalue(), r"\n +\d+\.\d+s - 1 - 3 - makes three\n")
        self.assertIn("('makes one', 2) ('makes three', 1)", said.getvalue())


class TestWalks(Base):
    def test_sequence(self):
        """SeqOptimizer refuses unknown keywords, and reports the running optimizer as progress."""
        self.assertRaises(TypeError, SeqOptimizer, [], colour="red")

        class Say(Optimizer):
            name = "says it"

            def apply(self, fgraph):
                said.append(progress.task.text())

        said = []
        with (
            unittest.mock.patch.object(progress, "task", progress.Task()),
            config.change_flags({"compile.progress": False}),
        ):
            SeqOptimizer([Say(), in2out(OpRemove(exp)), Say()]).optimize(graph_of(exp(exp(self.x))))
        self.assertIn("rewriting, says it (2 nodes)", said[0])
        self.assertIn("rewriting, says it (0 nodes)", said[1])

    def test_change_tracker_is_one(self):
        """If a graph has a ChangeTracker, a second one is not attached.

        The first one still records changes.
        """
        e = graph_of(exp(self.x))
        first, second = ChangeTracker(), ChangeTracker()
        e.attach_feature(first)
        e.attach_feature(second)
        self.assertIs(e.change_tracker, first)
        self.assertNotIn(second, e._features)
        e.replace(e.outputs[0], log(e.inputs[0]))
        self.assertEqual((first.changed, second.changed), (True, False))
        e.remove_feature(first)
        self.assertFalse(hasattr(e, "change_tracker"))

    def test_what_a_walk_looks_for(self):
        """A walk caches the Ops that its rule tracks, and notices when the rule tracks other Ops."""

        class Changing(LocalOptimizer):
            tracked = [exp]

            def tracks(self):
                return self.tracked

            def transform(self, node):
                return [neg(node.inputs[0])]

        rule = Changing()
        walk = TopoOptimizer(rule, ignore_newtrees=True)
        e = graph_of(exp(log(self.x)))
        walk.optimize(e)
        self.assertEqual(str(e), "[neg(log(x))]")
        self.assertIs(walk._may_apply(), walk._may_apply())
        rule.tracked = [log]
        walk.optimize(e)
        self.assertEqual(str(e), "[neg(neg(x))]")
        self.assertIs(walk._may_apply(), walk._may_apply())

    def test_op_key(self):
        """The method `op_key` of a rule returns one Op or several Ops.

        OpKeyOptimizer visits the nodes of these Ops. It attaches the features that the rule requires before it applies
        the rule.
        """

        class Away(LocalOptimizer):
            def __init__(self, key):
                self.key = key

            def op_key(self):
                return self.key

            def add_requirements(self, fgraph):
                fgraph.attach_feature(ChangeTracker())

            def transform(self, node):
                return list(node.inputs) if node.fgraph.change_tracker else False

        for key, after in (
            (exp, "log(x)"),
            ([exp], "log(x)"),
            ([exp, log], "x"),
            ((log, exp), "x"),
            ((log,), "exp(x)"),
        ):
            e = graph_of(add(exp(log(self.x)), self.y))
            OpKeyOptimizer(Away(key)).optimize(e)
            self.assertEqual(str(e), "[add(%s, y)]" % after)

    def test_group_counts_nodes(self):
        """A LocalOptGroup with a profile counts the nodes that compute the replacements which a rule returns.

        The node to which the rule is applied, and ancestors of the counted nodes, do not count.
        """
        x = self.x

        @local_optimizer([sub])
        def by_dict(node):
            return {node.outputs[0]: log(exp(node.inputs[0])), "remove": [node]}

        @local_optimizer([identity])
        def same(node):
            return node.outputs

        for rule, node, made in (
            (OpSub(exp, neg), exp(x).owner, 1),
            (OpRemove(exp), exp(x).owner, 0),
            (OpRemove(exp), exp(log(x)).owner, 1),
            (by_dict, sub(x, self.y).owner, 1),
            (same, identity(x).owner, 0),
        ):
            group = LocalOptGroup(rule, profile=True)
            self.assertTrue(group.transform(node))
            self.assertEqual((group.applied_true, group.node_created), ({rule: 1}, {rule: made}), str(rule))


class TestMeta(Base):
    def test_what_it_says(self):
        """At level 1, LocalMetaOptimizer reports unknown inputs and candidates that fail.

        At level 2, it also reports the chosen rule.
        """

        @local_optimizer([T.exp])
        def wrong(node):
            return [T.alloc(node.inputs[0], 2)]

        @local_optimizer([T.exp])
        def right(node):
            return [T.neg(node.inputs[0])]

        for known in (False, True):
            x = T.dvector("x")
            if known:
                x.tag.test_value = np.ones(4)
            node = T.exp(x).owner
            meta = LocalMetaOptimizer()
            for rule in (wrong, right):
                meta.register(rule, [])
            for verbose in (0, 1, 2):
                meta.verbose, said = verbose, io.StringIO()
                with (
                    contextlib.redirect_stdout(said),
                    unittest.mock.patch.object(meta, "get_opts", wraps=meta.get_opts) as asked,
                ):
                    found = meta.transform(node)
                said = said.getvalue()
                self.assertEqual(found and found[0].owner.op, T.neg if known else False)
                self.assertEqual(asked.called, known)
                self.assertEqual("1 of 1 input shapes unknown" in said, not known and verbose > 0)
                self.assertEqual("* wrong: exception" in said, known and verbose > 0)
                self.assertEqual("* right: " in said, known and verbose > 1)
                self.assertEqual("\n= right\n" in said, known and verbose > 1)
                self.assertNotIn("no rule works", said)


class TestMerge(Base):
    def test_counts(self):
        """MergeOptimizer counts a merged constant or node once, even if it has several clients."""
        x = self.x
        for count in (1, 2, 3, 5):
            a, b = constant(2.5), constant(2.5)
            outs = [op(add(x, v)) for op, v in zip([exp, log, neg, sqr, sqrt][:count] * 2, [a] * count + [b] * count)]
            outs += [mul(b, x), sub(b, x)]
            e = graph_of(*outs)
            prof = MergeOptimizer().optimize(e)
            self.assertEqual(prof[0], 0)
            self.assertEqual(prof[-1], 1)
            self.assertEqual(len(e.apply_nodes), count + 3)

    def test_failures_count_once(self):
        x, y = T.dvectors("x", "y")
        for outputs, failures in (
            ([T.exp(x), T.exp(x)], 1),
            ([T.exp(x), T.exp(x), T.exp(y), T.exp(x)], 2),
            ([x + T.constant([1.0, 2.0]), y * T.constant([1.0, 2.0])], 1),
        ):
            e = gof.FunctionGraph([x, y], outputs, clone=True)
            e.attach_feature(Refusal())
            prof = MergeOptimizer().optimize(e)
            self.assertEqual((prof[0], *prof[-2:]), (failures, 0, 0))

    def test_constants_of_shared_parts(self):
        """pre_constant_merge visits a shared node once.

        If each of n nodes uses its input twice, the graph has 2 ** n paths, too many to follow each of them.
        """
        asked = []

        class Noting(type(constant(1.0))):
            def merge_signature(self):
                asked.append(self)
                return super().merge_signature()

        c = constant(2.5)
        a, b = [Noting(c.type, c.data) for _ in range(2)]
        v = add(a, add(b, self.x))
        for _ in range(14):
            v = mul(v, v)
        pre_constant_merge([v])
        while v.owner.op == mul:
            v = v.owner.inputs[0]
        self.assertIs(v.owner.inputs[1].owner.inputs[0], v.owner.inputs[0])
        self.assertLess(len(asked), 10)


class TestPatterns(Base):
    def test_results_of_other_types(self):
        """A pattern's result is converted to the type of the replaced variable.

        If this is impossible, the pattern does not apply.
        """
        x, i, row, matrix = T.dvector("x"), T.ivector("i"), T.drow("row"), T.dmatrix("matrix")
        first = PatternSub((T.add, "a", "b"), "a")
        self.assertEqual(first.transform((x + i).owner), [x])
        self.assertIs(first.transform((i + x).owner), False)
        (found,) = first.transform((row + matrix).owner)
        self.assertEqual(found.type, matrix.type)
        self.assertEqual(found.eval({row: np.ones((1, 3))}).tolist(), [[1.0, 1.0, 1.0]])
        s = T.dscalar("s")
        for number in (0, 2.5):
            rule = PatternSub((T.sub, "a", "a"), number)
            (found,) = rule.transform((s - s).owner)
            self.assertEqual((found.type, found.eval()), (s.type, number))
            self.assertIs(rule.transform((x - x).owner), False)

    def test_skipping_further_in(self):
        """After PatternSub has skipped an identity, it matches the variables below the identity by the usual rules.

        It may skip more identities. If an inner node has clients outside the pattern, PatternSub refuses it, unless
        `allow_multiple_clients` is set.
        """

        def skip(v):
            return v.owner.inputs[0] if v.owner is not None and v.owner.op == identity else None

        x, y = self.x, self.y
        inner = neg(x)
        for form, out, more, allow, after in (
            ((log, (exp, (neg, "a"))), log(identity(exp(identity(neg(x))))), [], False, "x"),
            ((log, (exp, (neg, (sqr, "a")))), log(exp(identity(neg(identity(sqr(x)))))), [], False, "x"),
            ((log, (exp, (neg, "a"))), log(identity(exp(inner))), [inner], False, None),
            ((log, (exp, (neg, "a"))), log(identity(exp(inner))), [inner], True, "x"),
            ((log, (exp, (neg, "a"))), log(identity(exp(sqr(x)))), [], False, None),
            ((log, (add, (neg, "a"), "a")), log(identity(add(neg(x), identity(x)))), [], False, "x"),
            ((log, (add, (neg, "a"), "a")), log(identity(add(neg(x), y))), [], False, None),
        ):
            e = graph_of(out, *more)
            before = str(e.outputs[0].owner)
            rule = PatternSub(form, "a", skip_identities_fn=skip, allow_multiple_clients=allow)
            in2out(rule).optimize(e)
            self.assertEqual(str(e.outputs[0].owner or e.outputs[0]), before if after is None else after)

    def test_numbers_where_nothing_is_known_of_tensors(self):
        """Without the tensor layer, a number in a pattern matches a constant that has one element and this value."""
        x = self.x
        rule = PatternSub((mul, 2, "a"), "a")
        with unittest.mock.patch.object(pattern, "_read_constant", pattern._plain_constant):
            for operand, matches in ((constant(2.0), True), (constant(3.0), False), (x, False), (exp(x), False)):
                self.assertEqual(rule.transform(mul(operand, x).owner), [x] if matches else False)
            v = T.dvector("v")
            rule = PatternSub((T.mul, 2, "a"), "a")
            for data, matches in (([2.0], True), ([2.0, 2.0], False), ([1.0], False)):
                found = rule.transform(T.mul(T.TensorConstant(v.type, np.array(data)), v).owner)
                self.assertEqual(found, [v] if matches else False)


if __name__ == "__main__":
    unittest.main()
