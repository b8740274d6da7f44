"""Tests of shared variables, updates, givens and the other arguments of theano.function."""

import os
import pickle
import tempfile
import unittest
import warnings

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import function, shared
from theano_ng.gof import graph
from theano_ng.scan.mapping import map_variables


class TestUpdates(unittest.TestCase):
    def test_forms(self):
        x = T.dscalar("x")
        for form in (
            lambda s: [(s, s + x)],
            lambda s: ((s, s + x),),
            lambda s: {s: s + x},
            lambda s: theano.OrderedUpdates([(s, s + x)]),
            lambda s: {s: s + x}.items(),
            lambda s: zip([s], [s + x]),
        ):
            s, y = shared(1.0), T.dscalar("y")
            f = function([x], y * 2, updates=form(s), givens={y: s}.items())
            self.assertEqual(f(5), 2)  # outputs are computed before the update
            self.assertEqual(s.get_value(), 6)
            self.assertEqual(f(1), 12)

    def test_refused(self):
        x, s = T.dscalar("x"), shared(1.0)
        self.assertRaises(Exception, function, [x], x, updates=[(s, s + 1), (s, s + 2)])
        self.assertRaises(TypeError, function, [x], x, updates=[(x, x + 1)])
        self.assertRaises(TypeError, function, [s], s)
        self.assertRaises(TypeError, function, [x], x, updates=[(s, T.dvector())])
        self.assertRaises(Exception, function, x, x)
        self.assertRaises(TypeError, function, [x], x, updates=[(shared(np.float32(1)), x)])

    def test_of_shared_integers(self):
        s = shared(np.int32(3))
        function([], [], updates=[(s, s + 1)])()
        self.assertEqual((s.get_value(), s.get_value().dtype), (4, "int32"))
        k = shared(0)
        inc = T.iscalar("inc")
        accumulator = function([inc], k, updates=[(k, k + inc)])
        self.assertEqual([int(accumulator(v)) for v in (1, 300)] + [int(k.get_value())], [0, 1, 301])

    def test_swap_uses_old_values(self):
        a, b = shared(1.0), shared(2.0)
        function([], [], updates=[(a, b), (b, a)])()
        self.assertEqual((a.get_value(), b.get_value()), (2, 1))


class TestDefaultUpdate(unittest.TestCase):
    def make(self):
        s = shared(0.0)
        s.default_update = s + 1
        return s

    def test_rules(self):
        for kwargs, expected in (({}, 1), (dict(no_default_updates=True), 0), (dict(no_default_updates=None), None)):
            s = self.make()
            if expected is None:
                self.assertRaises(TypeError, function, [], s, no_default_updates=3)
                continue
            function([], s * 2, **kwargs)()
            self.assertEqual(s.get_value(), expected)
        s, t = self.make(), self.make()
        function([], s + t, no_default_updates=[t])()
        self.assertEqual((s.get_value(), t.get_value()), (1, 0))
        s = self.make()
        function([], s, updates=[(s, s + 10)])()
        self.assertEqual(s.get_value(), 10)
        unused = self.make()
        function([], shared(1.0) * 2)()
        self.assertEqual(unused.get_value(), 0)

    def test_chain(self):
        first, second = self.make(), shared(0.0)
        second.default_update = first + 10
        function([], second)()
        self.assertEqual((first.get_value(), second.get_value()), (1, 10))


class TestGivens(unittest.TestCase):
    def test_forms(self):
        x, y = T.dscalars("xy")
        for givens in ({x: y * 2}, [(x, y * 2)], ((x, y * 2),)):
            self.assertEqual(function([y], x + 1, givens=givens)(3), 7)
        data = shared(np.arange(10.0))
        i, v = T.lscalar(), T.dvector()
        f = function([i], v.sum(), givens={v: data[i * 2 : i * 2 + 2]})
        self.assertEqual([f(k) for k in range(3)], [1, 5, 9])
        s = shared(2.0)
        self.assertEqual(function([], s * 3, givens={s: T.constant(np.array(5.0))})(), 15)

    def test_types(self):
        x = T.dscalar("x")
        self.assertRaises(TypeError, function, [], x + 1, givens={x: T.constant(np.ones(3))})
        v = function([], (x + 1), givens={x: T.constant(np.ones(3))}, rebuild_strict=False)()
        np.testing.assert_array_equal(v, [2, 2, 2])
        # `dot` refuses arrays with 4 dimensions
        m = T.dmatrix()
        self.assertRaises(
            Exception, function, [], T.dot(m, m), givens={m: T.constant(np.ones((2, 2, 2, 2)))}, rebuild_strict=False
        )
        f = T.fscalar()
        self.assertEqual(function([f], x + 1, givens={x: T.cast(f, "float64")})(1), 2)

    def test_a_given_of_the_outputs_own_nodes(self):
        s = shared(2.0)
        cost = s**2
        self.assertEqual(function([], cost, givens={s: s - 0.25 * theano.grad(cost, s)})(), 1.0)
        a, b = T.dscalars("a", "b")
        product = a * b
        f = function([a, b], [T.exp(product), product], givens={product: product + b})
        np.testing.assert_allclose(f(2.0, 3.0), [np.exp(9.0), 9.0], rtol=1e-14)


class TestClone(unittest.TestCase):
    def test_inputs_shared_or_not(self):
        x, y, w = T.dvector("x"), T.dvector("y"), theano.shared(np.ones(2), name="w")
        total = (x * w).sum()
        for share in (True, False):
            copied = theano.clone(total, share_inputs=share)
            inputs = [v for v in graph.inputs([copied]) if not isinstance(v, theano.Constant)]
            self.assertEqual([v.name for v in inputs], ["x", "w"])
            self.assertEqual([inputs[0] is x, inputs[1] is w], [share, share])
            # The copy of a shared variable has the same value as the original, also after changes.
            f = theano.function(inputs[:1], copied)
            w.set_value(np.array([1.0, 3.0]))
            self.assertEqual(f([1.0, 2.0]), 7.0)
            w.set_value(np.ones(2))
            self.assertEqual(f([1.0, 2.0]), 3.0)
        replaced = theano.clone([total, x], replace={x: y * 2})
        self.assertIsInstance(replaced, list)
        self.assertEqual(theano.function([y], replaced[0])([1.0, 2.0]), 6.0)
        with self.assertRaisesRegex(TypeError, "cannot replace x"):
            theano.clone(total, replace={x: T.fvector()})
        narrow = T.fvector("narrow")
        self.assertEqual(
            theano.function([narrow], theano.clone(total, replace={x: narrow}, strict=False))([1.0, 2.0]), 3.0
        )

    def test_replacements_that_change_the_meaning(self):
        """A replacement that changes the meaning of an operation causes one warning, which names the line.

        For example, a product of vectors becomes a product of matrices if matrices replace the vectors.
        """
        x, y, wide = T.dvector("x"), T.dvector("y"), T.dmatrix("wide")
        narrow = T.fvector("narrow")

        def warned(act):
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                act()
            return found

        for expression, named in (
            (T.dot(x, x), "dot"),
            (T.exp(T.sum(x * 2)) + 1, "Sum"),
            (x[0] * 2, "Subtensor"),
            (T.concatenate([x, x + 1]).sum(), "Join"),
            (x.shape[0] * 2, "Shape"),
            (T.cumsum(x), "CumOp"),
        ):
            (warning,) = warned(lambda: theano.clone([expression, x + 1], {x: wide}, strict=False))
            text = str(warning.message)
            self.assertRegex(text, "%s.* cannot be computed after the replacement" % named)
            self.assertIn("has the type TensorType(float64, matrix) instead of TensorType(float64, vector)", text)
            self.assertRegex(text, r"test_pfunc\.py, line \d+: ")
            self.assertEqual(warning.filename, __file__)
            self.assertEqual(warned(lambda: theano.clone(expression, {x: wide}, strict=False)), [])
        self.assertEqual(text.count("\n"), 0)

        given = T.dot(x, y)
        (warning,) = warned(lambda: theano.function([wide, y], given, givens={x: wide}, rebuild_strict=False))
        self.assertRegex(
            str(warning.message), r"dot\(x, y\) cannot be computed after the replacement.*given = T.dot\(x, y\)"
        )
        self.assertEqual(warning.filename, __file__)
        # Elementwise Ops, and inputs that differ only in dtype or broadcast pattern, give no warning.
        for expression in (T.exp(x) * y + 1, theano.gradient.disconnected_grad(x) + x, T.switch(x > 0, x, y)):
            self.assertEqual(warned(lambda: theano.clone(expression, {x: wide}, strict=False)), [])
        product = T.dot(x, y)
        self.assertEqual(warned(lambda: theano.clone(product, {x: narrow}, strict=False)), [])
        self.assertEqual(warned(lambda: theano.clone(T.dot(wide, y), {wide: T.drow()}, strict=False)), [])
        # Without ``strict=False``, functions that copy a graph refuse a replacement with another number of dimensions.
        for refused in (
            lambda: theano.clone(product, {x: wide}),
            lambda: theano.function([wide, y], product, givens={x: wide}),
            lambda: product.owner.clone_with_new_inputs([wide, y]),
            lambda: graph.clone_get_equiv([x], [product], memo={x: wide}),
            lambda: theano.OpFromGraph([x, y], [product])(wide, y),
            lambda: map_variables(lambda v: wide if v is x else v, [product]),
        ):
            with self.assertRaises(TypeError):
                refused()

    def test_replacements_of_which_all_values_fit(self):
        """A variable can be replaced by one of a narrower type, such as a matrix by a row.

        Each row is a matrix. The types of the results do not change.
        """
        for wide, narrow, value in (
            (T.dmatrix("wide"), T.drow("narrow"), np.ones((1, 3))),
            (T.dmatrix("wide"), T.dcol("narrow"), np.ones((2, 1))),
            (T.drow("wide"), T.TensorType("float64", (True, True))("narrow"), np.ones((1, 1))),
            (T.dvector("wide"), T.TensorType("float64", (True,))("narrow"), np.ones(1)),
            (T.dtensor3("wide"), T.TensorType("float64", (False, True, False))("narrow"), np.ones((2, 1, 3))),
        ):
            doubled = wide * 2
            copied = theano.clone(doubled, replace={wide: narrow})
            self.assertEqual(copied.type, doubled.type)
            for f in (
                theano.function([narrow], copied),
                theano.function([narrow], doubled, givens={wide: narrow}),
                theano.function([narrow], doubled, givens=[(wide, narrow + 0)]),
            ):
                np.testing.assert_array_equal(f(value), 2 * value)
            # A row cannot be replaced by a matrix, since not every matrix is a row.
            with self.assertRaisesRegex(TypeError, "cannot replace narrow"):
                theano.function([wide], narrow * 2, givens={narrow: wide})
            with self.assertRaisesRegex(TypeError, "unbroadcast"):
                theano.function([], [], updates=[(shared(value), theano.tensor.constant(value))])

    def test_replacements_read_what_they_replace(self):
        x, y = T.dscalars("x", "y")
        product = x * y
        total = T.exp(product) + x
        values = {x: 2.0, y: 0.5}
        exp = np.exp
        for replace, expected in (
            (
                {x: x - 0.25 * theano.grad(total, x)},
                exp((2 - 0.25 * (0.5 * exp(1) + 1)) * 0.5) + 2 - 0.25 * (0.5 * exp(1) + 1),
            ),
            ([(x, y), (y, x)], exp(1) + 0.5),
            ([(product, x), (x, product)], exp(2) + 1),
            ({x: x + 1, y: y + x}, exp(7.5) + 3),
            ({x: total}, exp((exp(1) + 2) * 0.5) + exp(1) + 2),
            ({product: product + x}, exp(3) + 2),
            ({product: y, y: x}, exp(0.5) + 2),
            ([(x, y), (y, product)], exp(0.5) + 0.5),
            ({total: product}, 1.0),
        ):
            for share in (True, False):
                copied = theano.clone(total, replace=replace, share_inputs=share)
                inputs = {v.name: v for v in graph.inputs([copied])}
                given = {inputs[v.name]: value for v, value in values.items() if v.name in inputs}
                f = theano.function(list(given), copied, mode="FAST_COMPILE")
                np.testing.assert_allclose(f(*given.values()), expected, rtol=1e-14, err_msg=str(replace))
        copied = theano.clone([total, product, x], {x: y, y: x}, share_inputs=True)
        self.assertIs(copied[2], y)
        with self.assertRaisesRegex(AssertionError, "x has two replacements"):
            theano.clone(total, [(x, y), (x, product)])

    def test_a_step_along_the_gradient(self):
        x = T.dscalar("x")
        cost = x**2
        self.assertEqual(theano.clone(cost, {x: x - 0.25 * theano.grad(cost, x)}).eval({x: 1.0}), 0.25)


class TestArguments(unittest.TestCase):
    def test_downcast(self):
        x = T.fvector("x")
        for allow, works in ((None, False), (False, False), (True, True)):
            f = function([x], x + 0, allow_input_downcast=allow)
            if works:
                np.testing.assert_array_equal(f(np.array([0.1])), np.array([0.1], "float32"))
            else:
                self.assertRaises(TypeError, f, np.array([0.1]))
            np.testing.assert_array_equal(f(np.array([3], "int8")), [3])

    def test_unused(self):
        x, y = T.dscalar("x"), T.dscalar("y")
        self.assertRaises(theano.compile.UnusedInputError, function, [x, y], x)
        self.assertRaises(theano.compile.UnusedInputError, function, [x, y], x, on_unused_input="raise")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.assertEqual(function([x, y], x, on_unused_input="warn")(1, 2), 1)
        self.assertEqual(len(caught), 1)
        self.assertEqual(function([x, y], x, on_unused_input="ignore")(1, 2), 1)
        self.assertRaises(ValueError, function, [x, y], x, on_unused_input="what")
        with theano.config.change_flags(on_unused_input="ignore"):
            self.assertEqual(function([x, y], x)(1, 2), 1)
            self.assertRaises(theano.compile.UnusedInputError, function, [x, y], x, on_unused_input="raise")
        self.assertRaises(theano.gof.MissingInputError, function, [x], x + y)

    def test_name_and_profile(self):
        x = T.dscalar("x")
        f = function([x], x + 1, name="increment", profile=True)
        f(1)
        self.assertEqual(f.name, "increment")
        self.assertEqual(f.profile.fct_callcount, 1)
        stats = theano.ProfileStats(atexit_print=False)
        self.assertIs(function([x], x + 1, profile=stats).profile, stats)
        self.assertIsNone(function([x], x + 1).profile)
        f.profile.atexit_print = False
        theano.compile.profiling._atexit_print_list = [
            p for p in theano.compile.profiling._atexit_print_list if p is not f.profile
        ]

    def test_modes(self):
        x = T.dvector("x")
        out = T.exp(x).sum() + (x * 2 + 1)[0]
        values = np.array([0.5, -1.0])
        for mode in (
            None,
            "FAST_RUN",
            "FAST_COMPILE",
            "Mode",
            theano.Mode("py", "fast_compile"),
            theano.Mode("c|py", None),
            theano.compile.mode.FAST_RUN.excluding("fusion"),
        ):
            np.testing.assert_allclose(function([x], out, mode=mode)(values), np.exp(values).sum() + 2)
        self.assertRaises(Exception, function, [x], out, mode="NO_SUCH_MODE")

    def test_accept_inplace(self):
        x = T.dvector("x")
        out = T.inplace.exp_inplace(x)
        self.assertRaises(TypeError, function, [theano.In(x, mutable=True)], out)
        np.testing.assert_array_equal(
            function([theano.In(x, mutable=True)], out, accept_inplace=True)(np.zeros(2)), [1, 1]
        )


class TestDump(unittest.TestCase):
    def test_round_trip(self):
        x, s = T.dscalar("x"), shared(3.0, "s")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "function.pkl")
            theano.function_dump(path, [x], x * s, updates=[(s, s + 1)], name="dumped")
            with open(path, "rb") as file:
                arguments = pickle.load(file)
        f = function(**arguments)
        self.assertEqual((f.name, f(2), f(2)), ("dumped", 6, 8))
        self.assertEqual(s.get_value(), 3)


if __name__ == "__main__":
    unittest.main()
