import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import scan
from theano_ng.printing import pp
from theano_ng.scan_module import scan_utils

MODE = theano.Mode(linker="vm", optimizer="fast_compile")
x, y, z = T.dmatrices("x", "y", "z")
a, b, c, q = T.dscalars("a", "b", "c", "q")


class TestNames(unittest.TestCase):
    def test_one_implementation(self):
        self.assertIs(scan_utils.clone, theano.clone)
        self.assertIs(scan_utils.equal_computations, theano.gof.graph.equal_computations)
        for name in scan_utils.__all__:
            if name != "scan_args":
                self.assertTrue(callable(getattr(scan_utils, name)), name)


class TestSafeNew(unittest.TestCase):
    def test_kinds(self):
        for given, kind, name in (
            (x, x.type, "x_copy"),
            (theano.shared(1.0, "w"), T.dscalar, "w_copy"),
            (T.dvector(), T.dvector, None),
            (3, T.bscalar, None),
            (np.ones(2), T.dvector, None),
        ):
            new = scan_utils.safe_new(given, "_copy")
            self.assertEqual((new.type, new.name, new.owner), (kind, name, None))
            self.assertNotIsInstance(new, (theano.Constant, theano.compile.SharedVariable))
            self.assertEqual(scan_utils.safe_new(given, dtype="float32").dtype, "float32")
        k = T.constant(np.array([0.5, 2]), name="k")
        new = scan_utils.safe_new(k, "_copy")
        self.assertEqual((new.name, new.equals(k), new is k), ("k", True, False))
        self.assertEqual(scan_utils.safe_new(T.constant(np.float32(0.5)), dtype="float64").dtype, "float64")
        with self.assertRaisesRegex(TypeError, "without risking loss of precision"):
            scan_utils.safe_new(k, dtype="float32")

    def test_test_values(self):
        given = T.dvector()
        given.tag.test_value = np.ones(2)
        self.assertFalse(hasattr(scan_utils.safe_new(given).tag, "test_value"))
        with theano.change_flags(compute_test_value="raise"):
            np.testing.assert_array_equal(scan_utils.safe_new(given).tag.test_value, [1, 1])
            self.assertFalse(hasattr(scan_utils.safe_new(T.dvector()).tag, "test_value"))


class TestEditing(unittest.TestCase):
    def test_validator(self):
        hidden = T.exp(x)
        validator = scan_utils.Validator(valid=[x], invalid=[y], valid_equivalent={hidden: x})
        self.assertEqual(validator.check(x), (x, True))
        self.assertIsNone(validator.check(y))
        self.assertIsNone(validator.check(x * 2 + y))
        self.assertEqual(validator.check(hidden), (x, False))
        fine = T.log(x) + z
        self.assertEqual(validator.check(fine), (fine, True))
        replaced, is_same = validator.check(T.log(hidden) + z)
        self.assertEqual((pp(replaced), is_same), ("(log(x) + z)", False))

    def test_expand_empty(self):
        self.assertIs(scan_utils.expand_empty(x, 0), x)
        n = T.iscalar("n")
        found = theano.function([x, n], scan_utils.expand_empty(x, n), mode=MODE)(np.ones((2, 3)), 4)
        self.assertEqual(found.shape, (6, 3))
        np.testing.assert_array_equal(found[:2], np.ones((2, 3)))

    def test_forced_replace(self):
        sigmoid = 1 / (1 + T.exp(-a))
        out = sigmoid * (1 - sigmoid)
        again = 1 / (1 + T.exp(-a))
        for given in (sigmoid, again):
            self.assertEqual(pp(scan_utils.forced_replace(out, given, b)), "(b * (TensorConstant{1} - b))")
        self.assertEqual(pp(scan_utils.forced_replace(a + b, a, c)), "(c + b)")
        self.assertIs(scan_utils.forced_replace(a, a, b), b)
        self.assertIs(scan_utils.forced_replace(out, b, c), out)
        self.assertIsNone(scan_utils.forced_replace(None, a, b))

    def test_traverse(self):
        out, visited = a + T.exp(b), set()
        self.assertEqual(scan_utils.traverse(out, b, c, {}, visited), {b: c})
        self.assertIn(out, visited)
        self.assertEqual(scan_utils.traverse(out, q, c, {}), {})

    def test_reconstruct_graph(self):
        (new,), (out,) = scan_utils.reconstruct_graph([a], [a + b], "_new")
        self.assertEqual((new.name, pp(out)), ("a_new", "(a_new + b)"))
        self.assertEqual(scan_utils.reconstruct_graph([a], [a + b])[0][0].name, "a")

    def test_infer_shape(self):
        n = T.lscalar("n")
        ((rows, columns),) = scan_utils.infer_shape([T.dot(T.exp(x), y)], [x, y], [(n, 3), (3, 7)])
        self.assertIs(rows, n)
        self.assertEqual(columns.data, 7)

    def test_numbers(self):
        for bad in (None, np.nan, np.inf, -np.inf, np.float32("nan"), T.constant(np.inf)):
            self.assertIs(scan_utils.isNaN_or_Inf_or_None(bad), True)
        for fine in (1.0, 0, "a", "nan", [1], T.constant(1.0), a, T.constant([np.nan, np.nan])):
            self.assertIs(scan_utils.isNaN_or_Inf_or_None(fine), False)

    def test_hash(self):
        for given in (1, "x", None, [1, (2, 3)], {"a": [1, {"b": 2}]}):
            self.assertEqual(scan_utils.hash_listsDictsTuples([given, 7]), scan_utils.hash_listsDictsTuples((7, given)))
        self.assertEqual(scan_utils.hash_listsDictsTuples([1, 2]), hash(1) ^ hash(2))


class TestFewerOutputs(unittest.TestCase):
    def setUp(self):
        """Create a loop in which state p depends on itself, state q depends on p, and r is a result of each step."""
        v = T.dvector("v")
        (p, _, _), _ = scan(lambda row, p, q: [p + row, q * p, row * 2], v, [a, b, None])
        self.node = p.owner.inputs[0].owner
        self.op = self.node.op

    def test_which(self):
        for unread, needed, removable in (
            ([0, 1, 2], [], [0, 1, 2]),
            ([0, 2], [0], [2]),
            ([1, 2], [], [1, 2]),
            ([0], [0], []),
            ([], [], []),
        ):
            self.assertEqual(scan_utils.scan_can_remove_outs(self.op, unread), (needed, removable))

    def test_without(self):
        inner_inputs, inner_outputs, info, inputs, places = scan_utils.compress_outs(self.op, [1], self.node.inputs)
        self.assertEqual((info["n_sit_sot"], info["n_nit_sot"], info["tap_array"]), (1, 1, [[-1]]))
        self.assertEqual(dict(places), {0: 0, 2: 1})
        smaller = type(self.op)(inner_inputs, inner_outputs, info)(*inputs)
        given = {i.name: i for i in theano.gof.graph.inputs(smaller) if i.name}
        f = theano.function([given["v"], given["a"]], smaller, mode=MODE)
        total, double = f([1, 2, 3], 10)
        np.testing.assert_array_equal(total, [10, 11, 13, 16])
        np.testing.assert_array_equal(double, [2, 4, 6])


class TestMapVariables(unittest.TestCase):
    def replacer(self, replacements):
        """Return a function that replaces a variable by the entry for its `tag.key`, or for itself, if any."""

        def replace(v):
            return replacements.get(getattr(v.tag, "key", None), replacements.get(v, v))

        return replace

    def test_graphs(self):
        ab = a + b
        ab.tag.key = "ab"
        for replacements, expected in (
            ({"ab": q}, "((q * c) + q)"),
            ({"ab": a * b, a: q}, "(((a * b) * c) + (a * b))"),
            ({a: b, b: a}, "(((b + a) * c) + (b + a))"),
        ):
            (found,) = scan_utils.map_variables(self.replacer(replacements), [ab * c + ab], [q])
            self.assertEqual(pp(found), expected)
        found = scan_utils.map_variables(lambda v: v, [ab, ab * c])
        self.assertIs(found[0], ab)

    def test_inside_loops(self):
        gain, v = theano.shared(3.0, "gain"), T.dvector("v")

        def step(row, w):
            product = row * w
            product.tag.key = "product"
            return product + 1

        rows, _ = scan(step, v, non_sequences=a)
        nested, _ = scan(lambda row: scan(step, v, non_sequences=row)[0].sum(), v)
        for replacement, factor in ((q, 5), (gain * 2, 6)):
            found = scan_utils.map_variables(self.replacer({"product": replacement}), [rows, nested])
            one, two = theano.function([v, a, q], found, mode=MODE, on_unused_input="ignore")([1, 2, 3], 0, 5)
            np.testing.assert_array_equal(one, [factor + 1] * 3)
            np.testing.assert_array_equal(two, [3 * (factor + 1)] * 3)
        (outside,) = scan_utils.map_variables(self.replacer({a: q}), [rows])
        np.testing.assert_array_equal(theano.function([v, q], outside, mode=MODE)([1, 2], 5), [6, 11])

    def test_inside_graphs_as_ops(self):
        ab = a + b
        ab.tag.key = "ab"
        op = theano.OpFromGraph([a, b], [ab * 2])
        (found,) = scan_utils.map_variables(self.replacer({"ab": q}), [op(a, b)])
        self.assertEqual(theano.function([a, b, q], found, mode=MODE, on_unused_input="ignore")(1, 2, 5), 10)
        custom = theano.OpFromGraph([a, b], [ab * 2], lop_overrides=lambda i, o, g: [g[0], g[0]])
        with self.assertRaisesRegex(NotImplementedError, "has overridden derivatives for 2 inputs"):
            scan_utils.map_variables(self.replacer({"ab": q}), [custom(a, b)])

    def test_replacements_of_the_variables_that_an_op_was_made_of(self):
        x, y, u, v, gain = T.dvector("x"), T.dvector("y"), T.dvector("u"), T.dvector("v"), theano.shared(2.0, "gain")
        product = x * y * gain
        product.tag.key = "product"
        op = theano.OpFromGraph([x, y], [T.sin(product)])
        found = scan_utils.map_variables(self.replacer({"product": a * gain * (x - y)}), [op(u, v), op(y, x)])
        one, two = theano.function([u, v, x, y, a], found, mode=MODE)([1, 2], [3, 5], [7, 9], [8, 6], 0.5)
        np.testing.assert_allclose(one, np.sin([-2, -3]))
        np.testing.assert_allclose(two, np.sin([1, -3]))
        # `gain` is used twice, but is only one input.
        self.assertEqual([len(out.owner.inputs) for out in found], [4, 4])

    def test_shared_variables_with_updates_do_not_enter_loops(self):
        count = theano.shared(0, "count")
        count.update = count + 1

        def step(row):
            product = row * 2
            product.tag.key = "product"
            return product

        rows, _ = scan(step, T.dvector("v"))
        with self.assertRaisesRegex(
            NotImplementedError, "shared variable count which has an update associated with it"
        ):
            scan_utils.map_variables(self.replacer({"product": a * count}), [rows])
        del count.update
        scan_utils.map_variables(self.replacer({"product": a * count}), [rows])


if __name__ == "__main__":
    unittest.main()
