"""Elementwise operations overwrite inputs that no later node needs."""

import unittest
from unittest import mock

import numpy as np

import theano_ng
import theano_ng.tensor as T
from theano_ng.audit.rewrites import registered
from theano_ng.compile.functions.maker import Supervisor
from theano_ng.compile.mode import Mode
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.optdb import Query
from theano_ng.tensor.opt import inplace
from theano_ng.tests import graph_families

INPLACE = Mode("py", Query(["inplace", "merge"]))


def patterns(f):
    return [dict(n.op.inplace_pattern) for n in f.maker.fgraph.toposort() if isinstance(n.op, T.Elemwise)]


class TestInplace(unittest.TestCase):
    def test_greedy(self):
        x, y, z = T.dvectors("xyz")
        f = theano_ng.function([x, y, z], x + y + z, mode=INPLACE)
        self.assertEqual(patterns(f), [{}, {0: 0}])  # inputs of users are not overwritten
        given = [np.arange(3.0), np.ones(3), np.ones(3)]
        self.assertEqual(f(*given).tolist(), [2, 3, 4])
        self.assertEqual(given[0].tolist(), [0, 1, 2])
        f = theano_ng.function([theano_ng.In(x, mutable=True), y], x + y, mode=INPLACE)
        self.assertEqual(patterns(f), [{0: 0}])
        f = theano_ng.function([x, y], (x + y) * (x * y), mode=INPLACE)
        self.assertEqual(patterns(f)[:2], [{}, {}])
        self.assertIn(patterns(f)[2], ({0: 0}, {0: 1}))
        self.assertEqual(f([1, 2], [3, 4]).tolist(), [12, 48])

    def test_updates_are_computed_in_their_own_memory(self):
        x, s = T.dvector("x"), theano_ng.shared(np.zeros(2))
        for new in (T.exp(x) + s, s + T.exp(x), T.exp(x) * T.tanh(x) + s):
            f = theano_ng.function([x], [], updates={s: new}, mode=INPLACE)
            last = f.maker.fgraph.toposort()[-1]
            (overwritten,) = last.op.inplace_pattern.values()
            self.assertIsNone(last.inputs[overwritten].owner)

    def test_safety(self):
        x, m = T.dvector("x"), T.dmatrix("m")
        e = T.exp(x)
        f = theano_ng.function([x], [e, e + 1, e * 2], mode=INPLACE)
        for got, want in zip(f([0.0, 1]), (np.exp([0, 1]), np.exp([0, 1]) + 1, np.exp([0, 1]) * 2)):
            np.testing.assert_allclose(got, want)
        # an operand of another dtype, or a broadcast operand, cannot hold the result
        self.assertEqual(patterns(theano_ng.function([x], T.exp(x) > 1, mode=INPLACE)), [{}, {}])
        f = theano_ng.function([x, m], T.exp(x) + m, mode=INPLACE)
        self.assertEqual(patterns(f), [{}, {}])
        # an array is not overwritten if another view of it is read later
        a = m + 1
        f = theano_ng.function([m], [(a.T * 2).T, a.sum()], mode=INPLACE)
        got, total = f(np.ones((2, 2)))
        self.assertEqual((got.tolist(), total), ([[4, 4], [4, 4]], 8))

    def test_followers(self):
        # If a later node needs an input, the optimizer does not try to overwrite the input. If only earlier nodes need
        # the input, it is overwritten.
        x, w = T.dvectors("xw")
        h = T.tanh(x)
        later = T.exp(h)
        f = theano_ng.function([x, w], later * h, mode=INPLACE, on_unused_input="ignore")
        self.assertEqual(patterns(f), [{}, {}, {0: 0}])
        nodes = (later * h).owner.inputs
        walk = inplace._DependenceTest(FunctionGraph([x, w], [later * h], clone=False).toposort())
        self.assertTrue(walk.known(later.clients[0][0], h.owner))
        self.assertTrue(walk.known(later.owner, h.owner))
        self.assertFalse(walk.known(h.owner, nodes[0].owner))
        # If all nodes read one array, the optimizer tries to overwrite it for a few nodes only.
        common = T.exp(x)
        f = theano_ng.function([x], [T.tanh(common[i] * 2.0) * common.sum() for i in range(60)], mode=INPLACE)
        np.testing.assert_allclose(f(np.zeros(60)), np.full(60, 60 * np.tanh(2.0)))

    def test_direct_users(self):
        # The walk from h reaches the product before it reaches exp(h). Nevertheless, the product is recognized as a
        # reader of h and of exp(h).
        x = T.dvector("x")
        h, later = T.tanh(x), T.exp(x)
        fgraph = FunctionGraph([x], [h * later], clone=False)
        inplace.inplace_elemwise_optimizer.add_requirements(fgraph)
        fgraph.change_input(later.owner, 0, h)
        _, replaced, tried = inplace.inplace_elemwise_optimizer.apply(fgraph)
        self.assertEqual((replaced, tried), (2, 2))
        self.assertEqual([dict(n.op.inplace_pattern) for n in fgraph.toposort()], [{0: 0}, {}, {0: 0}])

    def test_nodes_that_would_wait_for_each_other(self):
        """If two nodes could each overwrite an input of the other, only one of them works in place.

        If the validation of a group of nodes fails, the nodes are tried again one by one.
        """
        x, y = T.dvectors("xy")
        given = np.array([0.5, 1.0]), np.array([2.0, -1.0])
        found = []
        for every in (-1, 1, 2, 3, 1000):
            with theano_ng.change_flags(
                {"tensor.insert_inplace_optimizer_validate_nb": every, "on_opt_error": "raise"}
            ):
                a, b = T.exp(x), T.sin(y)
                f = theano_ng.function([x, y], [a + b, a * b, T.tanh(a + b) * y], mode=INPLACE)
                got = f(*given)
            a, b = np.exp(given[0]), np.sin(given[1])
            for value, want in zip(got, (a + b, a * b, np.tanh(a + b) * given[1])):
                np.testing.assert_allclose(value, want)
            by_op = {str(node.op.scalar_op): node.op.inplace_pattern for node in f.maker.fgraph.apply_nodes}
            found.append(sorted(map(str, by_op.items())))
            self.assertEqual(sum(bool(pattern) for pattern in patterns(f)), 2)
        self.assertEqual(found, [found[0]] * 5)

    def test_updates_first(self):
        w = theano_ng.shared(np.ones(3))
        memory = w.get_value(borrow=True).ctypes.data
        f = theano_ng.function([], (w**2).sum(), updates=[(w, w * 2)])
        self.assertEqual([float(f()), float(f())], [3, 12])
        self.assertEqual(w.get_value(borrow=True).ctypes.data, memory)


class TestRequirements(unittest.TestCase):
    def test_what_works_in_place_is_watched(self):
        """Rules that insert in-place nodes attach the destroy handler to the graph.

        The destroy handler orders the other readers of an input before the node that overwrites the input.
        """
        without = []
        for one in registered():
            fgraph = FunctionGraph([], [])
            one.rule.add_requirements(fgraph)
            if "inplace" in one.tags and not hasattr(fgraph, "destroy_handler"):
                without.append(one.name)
        self.assertEqual(without, ["cond_make_inplace"])  # its IfElse nodes return views and overwrite nothing


class TestProtected(unittest.TestCase):
    def test_views_of_outputs_are_not_tried(self):
        """The optimizer does not try to overwrite a variable that shares memory with an output of the graph."""
        m = T.dmatrix("m")
        t = T.exp(m)
        for outputs in ([t, t.T + 1], [t, T.sin(t.T), T.tanh(t.T.dimshuffle("x", 0, 1))]):
            fgraph = FunctionGraph([m], outputs)
            optimizer = inplace.inplace_elemwise_optimizer
            optimizer.add_requirements(fgraph)
            fgraph.attach_feature(Supervisor(fgraph.inputs))
            _, replaced, tried = optimizer.apply(fgraph)
            self.assertEqual((replaced, tried), (0, 0))
        # The optimizer does not try to overwrite a view of an input that the caller keeps, either.
        fgraph = FunctionGraph([m], [m.T + 1])
        optimizer.add_requirements(fgraph)
        fgraph.attach_feature(Supervisor(fgraph.inputs))
        self.assertEqual(optimizer.apply(fgraph)[1:], (0, 0))


class TestSearches(unittest.TestCase):
    def test_searches_in_vain_come_to_an_end(self):
        """The total cost of searches for cycles is limited.

        Beyond the limit, the optimizer tries to overwrite only inputs that no other node reads.
        """
        inputs, outputs = graph_families.build(graph_families.FAMILIES["prefixes_and_suffixes"], 20, True)
        searched, replaced = [], []
        for most in (0, 1, 10**9):
            fgraph = FunctionGraph(inputs, outputs)
            optimizer = inplace.inplace_elemwise_optimizer
            optimizer.add_requirements(fgraph)
            fgraph.attach_feature(Supervisor(fgraph.inputs))
            with mock.patch.object(inplace, "MAX_SEARCHED", most):
                replaced.append(optimizer.apply(fgraph)[1])
            searched.append(fgraph.destroy_handler.searched)
        self.assertLess(searched[0], searched[2] / 4)
        self.assertLess(searched[1], searched[2] / 2)
        self.assertGreater(replaced[0], 0)
        self.assertEqual(sorted(replaced), replaced)


if __name__ == "__main__":
    unittest.main()
