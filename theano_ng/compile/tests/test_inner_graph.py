"""Tests of InnerGraph: ownership of variables, time of compilation, identity, copies, pickles."""

import copy
import gc
import pickle
import unittest
import unittest.mock
import weakref

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.compile.builders import OpFromGraph
from theano_ng.compile.debugmode import DebugMode
from theano_ng.compile.inner_graph import InnerGraph, substitute
from theano_ng.compile.mode import inner_functions
from theano_ng.gof.fg import MissingInputError
from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op


class Wrong(Op):
    """An Op that changes its input without declaring it."""

    __props__ = ()

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        inputs[0] += 1
        outputs[0][0] = inputs[0] * 1


class TestInnerGraph(unittest.TestCase):
    def setUp(self):
        self.x, self.y = T.dvectors("xy")
        self.s = theano.shared(np.array([1.0, 2.0]), name="s")

    def test_values(self):
        graph = InnerGraph([self.x, self.y], [self.x + self.y * self.s, self.x])
        self.assertEqual((graph.shared, graph.n_given, len(graph.inputs)), ([self.s], 2, 3))
        total, same = graph([1.0, 1.0], [2.0, 2.0], self.s.get_value())
        self.assertEqual((total.tolist(), same.tolist()), ([3.0, 5.0], [1.0, 1.0]))
        self.assertEqual(InnerGraph([], [T.constant(3.0)])()[0].tolist(), 3.0)
        self.assertEqual(InnerGraph([self.x], [])([1.0]), [])

    def test_it_owns_its_variables(self):
        out = self.x + self.y
        graph = InnerGraph([self.x, self.y], [out])
        out.owner.inputs[1] = self.x
        self.assertEqual(graph([1.0], [2.0])[0].tolist(), [3.0])
        self.assertTrue({self.x, self.y, out}.isdisjoint(graph.inputs + graph.outputs))

    def test_refusals(self):
        x, y, s = self.x, self.y, self.s
        for inputs, outputs, arguments, error, text in [
            (x, [x], {}, TypeError, "inputs must be list"),
            ([x], x, {}, TypeError, "outputs must be list"),
            ([x], [1], {}, TypeError, "should be Variable"),
            ([x, x], [x], {}, TypeError, "given twice"),
            ([s], [s + 1], {}, TypeError, "shared variables already have values"),
            ([x], [x], {"updates": []}, TypeError, "not allowed"),
            ([x], [x], {"mood": 1}, TypeError, "mood: neither Loop nor function has such an argument"),
            ([x], [x + y], {}, MissingInputError, "depend on y"),
        ]:
            with self.subTest(text=text), self.assertRaisesRegex(error, text):
                InnerGraph(inputs, outputs, arguments, "Loop")

    def test_one_function_for_each_mode(self):
        graph = InnerGraph([self.x], [T.exp(self.x)], {"mode": "FAST_COMPILE"})
        self.assertEqual((graph.functions, graph.fn), ({}, None))
        first = graph.compiled()
        self.assertIs(graph.compiled(), first)
        self.assertIs(graph.fn, first)
        self.assertIs(first.maker.mode, theano.compile.mode.get_mode("FAST_COMPILE"))
        mode = DebugMode(stability_patience=1)
        with inner_functions(mode):
            checked = graph.compiled()
            self.assertIs(graph.compiled(), checked)
        self.assertIs(checked.maker.mode, mode)
        self.assertIs(graph.compiled(), first)
        self.assertEqual(len(graph.functions), 2)

    def test_inner_mode_checks_the_nodes(self):
        graph = InnerGraph([self.x], [Wrong()(self.x) * 2], {"mode": "FAST_RUN"})
        value = np.ones(2)
        self.assertEqual(graph(value.copy())[0].tolist(), [4.0, 4.0])
        with (
            inner_functions(DebugMode(stability_patience=1)),
            self.assertRaises(theano.compile.debugmode.BadDestroyMap),
        ):
            graph(value)

    def test_identity(self):
        x, y, s = self.x, self.y, self.s

        def make(out, **arguments):
            return InnerGraph([x, y], [out], arguments)

        one = make((x + y) * s + 2)
        u, v = T.dvectors("uv")
        self.assertEqual(one, InnerGraph([u, v], [(u + v) * s + 2]))
        self.assertEqual(len({one, make((x + y) * s + 2), one.clone()}), 1)
        self.assertNotEqual(one, pickle.loads(pickle.dumps(one)))  # the pickle has its own shared variable
        plain = make(x + y * 2)
        self.assertEqual(plain, pickle.loads(pickle.dumps(plain)))
        for other in (
            make((y + x) * s + 2),
            make((x + y) * s + 3),
            make((x + y) * s + np.float32(2)),
            make((x - y) * s + 2),
            make((x + y) * theano.shared(s.get_value()) + 2),
            make((x + y) * s + 2, mode="FAST_COMPILE"),
            InnerGraph([y, x], [(x + y) * s + 2]),
        ):
            self.assertNotEqual(one, other)
        self.assertNotEqual(InnerGraph([x], [x * 2]), InnerGraph([T.fvector()], [x * 2][:0]))
        a, b = x * 2, x * 2
        self.assertEqual(InnerGraph([x], [a, b]), InnerGraph([x], [x * 2, x * 2]))
        # The first graph computes its outputs by two nodes, the second graph by one node. They are different graphs.
        self.assertNotEqual(InnerGraph([x], [a, b]), InnerGraph([x], [a, a]))
        self.assertNotEqual(one, 1)

    def test_every_part_of_the_identity_counts(self):
        """If one part of the identity is left out, graphs that differ only in this part are equal."""
        x, y, s, t = self.x, self.y, self.s, theano.shared(self.s.get_value())
        identity, mode = InnerGraph._identity, {"mode": "FAST_RUN"}

        def made(other=s, number=2, inputs=(x, y), op=T.mul, arguments=mode, turned=False):
            total = op(x, other) + number
            outputs = [total, T.exp(total)]
            return InnerGraph(list(inputs), outputs[::-1] if turned else outputs, arguments)

        for place, other in (
            (0, made(inputs=(x, T.fvector()))),
            (1, made(other=t)),
            (2, made(arguments={"name": "FAST_RUN"})),
            (3, made(arguments={"mode": "FAST_COMPILE"})),
            (4, made(number=3)),
            (6, made(op=T.sub)),
            (-1, made(turned=True)),
        ):
            with self.subTest(place):
                self.assertNotEqual(made(), other)
                forgetful = lambda graph: tuple(p for p in identity(graph) if p is not identity(graph)[place])
                with unittest.mock.patch.object(InnerGraph, "_identity", forgetful):
                    self.assertEqual(
                        made(), InnerGraph.of_parts(other.inputs, other.outputs, other.shared, other.arguments)
                    )

    def test_clone(self):
        graph = InnerGraph([self.x], [self.x * self.s], {"on_unused_input": "ignore"})
        graph.compiled()
        twin = graph.clone(mode="FAST_COMPILE")
        self.assertEqual((twin.functions, twin.shared), ({}, [self.s]))
        self.assertEqual(twin.arguments, {"on_unused_input": "ignore", "mode": "FAST_COMPILE"})
        self.assertTrue(set(twin.inputs + twin.outputs).isdisjoint(graph.inputs + graph.outputs))
        self.assertEqual([v.name for v in twin.inputs], ["x", "s"])
        self.assertEqual(twin([3.0, 3.0], [1.0, 2.0])[0].tolist(), [3.0, 6.0])
        self.assertEqual(graph.arguments, {"on_unused_input": "ignore"})

    def test_on_other_variables(self):
        graph = InnerGraph([self.x, self.y], [self.x - self.y])
        u = T.dvector("u")
        f = theano.function([u], graph.on([u * 2, u]))
        self.assertEqual(f([3.0])[0].tolist(), [3.0])
        self.assertEqual(substitute([self.x], {self.x: u}), [u])

    def test_pickles_and_copies(self):
        graph = InnerGraph([self.x], [self.x * self.s])
        graph.compiled()
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            loaded, s = pickle.loads(pickle.dumps((graph, self.s), protocol))
            self.assertIs(loaded.shared[0], s)
            self.assertEqual(loaded.functions, {})
            self.assertEqual(loaded([1.0, 1.0], [3.0, 4.0])[0].tolist(), [3.0, 4.0])
        self.assertEqual(copy.deepcopy(graph)([1.0, 1.0], [3.0, 4.0])[0].tolist(), [3.0, 4.0])

    def test_free(self):
        kept = []

        class Keeps(Op):
            __props__ = ()

            def make_node(self, x):
                return Apply(self, [x], [x.type()])

            def perform(self, node, inputs, outputs):
                outputs[0][0] = np.array(inputs[0])
                kept.append(weakref.ref(outputs[0][0]))

        mode = theano.Mode("vm_nogc", "fast_compile")
        op = OpFromGraph([self.x], [Keeps()(self.x) + 1], mode=mode)
        f = theano.function([self.x], op(self.x), mode=mode)
        f([1.0])
        gc.collect()
        self.assertIsNotNone(kept[-1]())
        f.free()
        gc.collect()
        self.assertIsNone(kept[-1]())
        self.assertEqual(f([1.0]).tolist(), [2.0])


if __name__ == "__main__":
    unittest.main()
