"""Tests of graphs, FunctionGraph, features, types and the destroy handler, with an Op without tensors."""

import copy
import pickle
import unittest

from theano_ng.gof import graph, toolbox, traversal, utils
from theano_ng.gof.destroy.handler import DestroyHandler
from theano_ng.gof.fg import FunctionGraph, MissingInputError
from theano_ng.gof.graph import Apply, Constant, Variable
from theano_ng.gof.op import Op
from theano_ng.gof.params_type import ParamsType
from theano_ng.gof.type import EnumList, EnumType, Type, generic


class MyType(Type):
    __props__ = ()

    def filter(self, data, strict=False, allow_downcast=None):
        return data


class MyOp(Op):
    __props__ = ("name", "destroy_map", "view_map")

    def __init__(self, name, destroy_map=(), view_map=(), same=()):
        self.name = name
        self.destroy_map = frozen(destroy_map)
        self.view_map = frozen(view_map)
        self.destroyhandler_tolerate_same = list(same)

    def make_node(self, *inputs):
        return Apply(self, list(inputs), [MyType()()])

    def __str__(self):
        return self.name


class frozen(dict):
    def __hash__(self):
        return hash(str(self))


def var(name):
    return MyType()(name)


sigmoid, add = MyOp("sigmoid"), MyOp("add")
inplace = MyOp("inplace", destroy_map={0: [0]})
view = MyOp("view", view_map={0: [0]})


class TestGraph(unittest.TestCase):
    def test_nodes_and_text(self):
        x, y = var("x"), var("y")
        e = add(x, sigmoid(y))
        self.assertIs(e.owner.outputs[e.index], e)
        self.assertEqual(str(e.owner), "add(x, sigmoid.0)")
        self.assertEqual(graph.as_string([x, y], [add(e, e)]), ["add(*1 -> add(x, sigmoid(y)), *1)"])
        self.assertEqual(
            graph.as_string([x, y], [e], node_formatter=lambda n, a: "<%s %s>" % (n.op, " ".join(a))),
            ["<add x <sigmoid y>>"],
        )
        self.assertEqual(graph.inputs([e]), [x, y])
        self.assertEqual(graph.orphans([x], [e]), [y])
        self.assertEqual(graph.ancestors([e]), [e, x, e.owner.inputs[1], y])
        # If several variables are given, the inputs of the last one come first, as in Theano 1.0.5. Programs rely on
        # this order of parameters.
        self.assertEqual(graph.inputs([x, y]), [y, x])
        self.assertEqual(graph.inputs([e, y]), [y, x])
        with self.assertRaises(ValueError):
            Apply(add, [x], [e])
        with self.assertRaises(TypeError):
            Apply(add, [1], [])

    def test_clone_and_same_graph(self):
        x, y = var("x"), var("y")
        e = add(sigmoid(x), y)
        (x2, y2), (e2,) = graph.clone([x, y], [e])
        self.assertIsNot(e2, e)
        self.assertIs(e2.owner.inputs[1], y2)
        self.assertFalse(graph.is_same_graph(e, e2))
        self.assertTrue(graph.is_same_graph(e, e2, givens={x: x2, y: y2}, debug=True))
        self.assertFalse(graph.is_same_graph(add(x, y), add(y, x)))
        self.assertTrue(graph.is_in_ancestors(e.owner, e.owner.inputs[0].owner))
        self.assertEqual(graph.view_roots(view(view(x))), [x])

    def test_postorder(self):
        a, b = var("a"), var("b")
        shared = add(a, b)
        left, right = add(shared, b), sigmoid(shared)
        known, order = {}, []

        def read(roots, **options):
            for r in traversal.postorder(roots, known, **options):
                known[r] = len(order)
                order.append(r)

        read([left])
        self.assertEqual(order, [a, b, shared, left])
        read([left, right, right])  # known variables are not returned again
        self.assertEqual(order[4:], [right])
        known.clear()
        del order[:]
        known[shared] = 0  # the traversal stops at known variables
        read([right, left])
        self.assertEqual(order, [right, b, left])
        known.clear()
        del order[:]
        read([left], operands=lambda r: r.owner.inputs[:1] if r is left else ())
        self.assertEqual(order, [shared, left])
        deep = a
        for _ in range(20000):
            deep = add(deep, deep)
        known.clear()
        del order[:]
        read([deep])
        self.assertEqual((len(order), order[0], order[-1]), (20001, a, deep))

    def test_toposort_orderings_and_cycles(self):
        x = var("x")
        a, b = sigmoid(x), add(x)
        top = add(a, b)
        self.assertEqual(graph.io_toposort([x], [top], {a.owner: [b.owner]}), [b.owner, a.owner, top.owner])
        self.assertEqual(graph.io_toposort([x], [top], {b.owner: [a.owner]}), [a.owner, b.owner, top.owner])
        with self.assertRaises(ValueError):
            graph.io_toposort([x], [top], {a.owner: [b.owner], b.owner: [a.owner]})

    def test_deep_graphs_pickle_and_copy(self):
        x = var("x")
        e = x
        for _ in range(8000):
            e = add(e, x)
        for dumps in (lambda v: pickle.loads(pickle.dumps(v, -1)), copy.deepcopy):
            r, x2 = dumps((e, x))
            self.assertEqual(graph.inputs([r]), [x2])
            self.assertEqual(len(graph.io_toposort([x2], [r])), 8000)
        short = add(add(add(x)))
        node, out = pickle.loads(pickle._dumps((short.owner.inputs[0].owner, short)))
        self.assertIs(out.owner.inputs[0].owner, node)
        self.assertIs(node.outputs[0].owner, node)
        self.assertIs(copy.copy(e).owner, e.owner)
        fg = FunctionGraph([x], [e])
        fg.check_integrity()
        other = pickle.loads(pickle.dumps(fg, -1))
        other.check_integrity()
        self.assertEqual(len(other.toposort()), 8000)

    def test_constant(self):
        c = Constant(MyType(), 3)
        self.assertEqual(c.data, 3)
        with self.assertRaises(AttributeError):
            c.data = 4
        d = c.clone()
        self.assertTrue(d is not c and d.equals(c))

    def test_nodes_constructed(self):
        with graph.nodes_constructed() as made:
            e = add(var("x"))
        self.assertEqual(made[-1], e)
        self.assertEqual(Variable.construction_observers, [])


class TestFunctionGraph(unittest.TestCase):
    def test_replace_clients_history(self):
        x, y = var("x"), var("y")
        s = sigmoid(x)
        e = add(s, s, y)
        fg = FunctionGraph([x, y], [e], clone=False, features=[toolbox.NodeFinder()])
        self.assertEqual(s.clients, [(e.owner, 0), (e.owner, 1)])
        self.assertEqual(e.clients, [("output", 0)])
        self.assertEqual(fg.get_nodes(MyOp("sigmoid")), [s.owner])
        checkpoint = fg.checkpoint()
        fg.replace(s, sigmoid(y), reason="test")
        fg.check_integrity()
        self.assertEqual(str(fg), "[add(*1 -> sigmoid(y), *1, y)]")
        self.assertNotIn(s.owner, fg.apply_nodes)
        fg.revert(checkpoint)
        fg.check_integrity()
        self.assertEqual(str(fg), "[add(*1 -> sigmoid(x), *1, y)]")
        with self.assertRaises(toolbox.BadOptimization):
            fg.replace(s, generic())
        with self.assertRaises(MissingInputError):
            FunctionGraph([x], [e])
        clone, equiv = fg.clone_get_equiv()
        self.assertEqual(str(clone), str(fg))
        self.assertIs(equiv[e], clone.outputs[0])

    def test_many_clients(self):
        x, y = var("x"), var("y")
        e = add(*[sigmoid(x) for _ in range(5000)])
        fg = FunctionGraph([x, y], [e], clone=False)
        for node, _ in list(reversed(x.clients)):
            fg.replace(node.outputs[0], y)
        self.assertEqual(len(y.clients), 5000)
        self.assertEqual(x.clients, [])
        fg.check_integrity()


class TestDestroyHandler(unittest.TestCase):
    def graph(self, inputs, *outputs):
        return FunctionGraph(inputs, list(outputs), clone=False, features=[DestroyHandler()])

    def test_long_chain(self):
        x = var("x")
        e = sigmoid(x)
        for _ in range(3000):
            e = sigmoid(e)
        fg = self.graph([x], e)
        for node in fg.toposort()[1:]:
            fg.replace_all_validate([(node.outputs[0], inplace(*node.inputs))])
        self.assertEqual(len(fg.destroy_handler.destroyers), 3000)


class TestTypesAndUtils(unittest.TestCase):
    def test_enums_and_params(self):
        enum = EnumType(A=("alpha", 1), B=("beta", 2), C=3, D=("delta", 4), E=True)
        self.assertEqual(
            (enum.A, enum.fromalias("beta"), enum.fromalias("C"), enum.filter("delta"), enum.E), (1, 2, 3, 4, 1)
        )
        self.assertEqual(enum.get_aliases(), ("alpha", "beta", "delta"))
        self.assertEqual(pickle.loads(pickle.dumps(enum)), enum)
        with self.assertRaises(TypeError):
            enum.filter(17)
        with self.assertRaises(AttributeError):
            EnumType(bad=1)
        names = EnumList("A1", ("B1", "b"))
        wrapper = ParamsType(first=names, second=EnumType(PI=3.14), obj=generic)
        self.assertEqual((wrapper.B1, wrapper.PI, wrapper.enum_from_alias("b")), (1, 3.14, 1))
        with self.assertRaises(AttributeError):
            ParamsType(first=names, second=EnumType(A1=3))
        params = wrapper.get_params(first="b", second=3.14, obj="o")
        self.assertEqual((params.first, params.obj), (1, "o"))
        self.assertEqual(pickle.loads(pickle.dumps(params)), params)
        self.assertEqual(wrapper.get_field(generic), "obj")

    def test_utils(self):
        self.assertEqual(utils.remove(lambda i: i % 2 == 0, [1, 2, 3, 4]), [1, 3])
        self.assertEqual(utils.flatten([1, (2, [3]), {4}]), [1, 2, 3, 4])
        self.assertEqual(utils.toposort({1: [2], 2: [], 3: [1]}), [2, 1, 3])
        self.assertEqual(utils.uniq([1, 2, 1, 3]), [1, 2, 3])
        x = var("x")
        trace = x.tag.trace[0]
        self.assertEqual((trace[-1][2], trace[-1][3]), ("var", "return MyType()(name)"))
        self.assertIsInstance(pickle.loads(pickle.dumps(trace)), tuple)


if __name__ == "__main__":
    unittest.main()
