"""Tests of the test helpers: they must accept correct results and refuse wrong results."""

import io
import unittest
import warnings
from unittest import mock

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.compile.debugmode import BadOptimization
from theano_ng.gof import Apply, Op
from theano_ng.gradient import GradientError, numeric_grad
from theano_ng.tensor import inplace
from theano_ng.tensor.tests import test_basic as tb
from theano_ng.tests import unittest_tools as utt
from theano_ng.tests.breakpoint import PdbBreakpoint
from theano_ng.tests.record import MismatchError, Record, RecordMode


class TestSeeds(unittest.TestCase):
    def test_seeds_follow_the_configuration(self):
        self.assertEqual(utt.fetch_seed(1234), 1234)
        with theano.config.change_flags({"unittests.rseed": "random"}):
            self.assertIsNone(utt.seed_rng())
        with theano.config.change_flags({"unittests.rseed": "777"}):
            self.assertEqual(utt.seed_rng(), 777)
            first = np.random.rand()
            self.assertEqual(np.random.RandomState(777).rand(), first)

    def test_mock_random_state_gives_the_boundaries(self):
        low, high = utt.MockRandomState(0), utt.MockRandomState(1 - 1e-9)
        self.assertEqual(low.rand(2, 3).tolist(), [[0.0] * 3] * 2)
        self.assertEqual(low.randint(3, 9, size=(2,)).tolist(), [3, 3])
        self.assertEqual(high.randint(3, 9, size=(2,)).tolist(), [8, 8])
        self.assertAlmostEqual(high.uniform(-2, 5), 5, places=6)
        self.assertEqual(high.randint(4), [3])


class TestComparisons(unittest.TestCase):
    def test_assert_allclose(self):
        utt.assert_allclose([1.0, np.nan, np.inf], np.array([1.0 + 1e-7, np.nan, np.inf]))
        utt.assert_allclose(np.float32(1), np.float32(1.000009))
        utt.assert_allclose(np.ones((2, 3)), 1.0)
        utt.assert_allclose([1.0, 2.0], np.array([[1.0, 2.0], [1.0, 2.0]]))
        for a, b in (
            (1.0, 1.001),
            ([1.0, 2.0], [1.0, 2.0, 3.0]),
            (np.ones(3), 1.1),
            ([np.inf], [-np.inf]),
            ([1.0], [np.nan]),
            (["a"], ["b"]),
        ):
            with self.assertRaises(utt.WrongValue) as caught:
                utt.assert_allclose(a, b)
            self.assertIn("Expected", str(caught.exception))
        with theano.config.change_flags({"tensor.cmp_sloppy": 1}):
            utt.assert_allclose(1.0, 1.001)
        text = str(utt.WrongValue(np.array([1.0, 2.0]), np.array([1.0, 3.0]), 0.1, 0.2))
        self.assertIn("Abs Diff: max 1.0", text)
        self.assertIn("0.1 0.2", text)

    def test_verify_grad(self):
        x = np.array([0.5, 1.5])
        utt.verify_grad(lambda v: utt.different_grad(1)(v**2), [x])
        self.assertRaises(GradientError, utt.verify_grad, lambda v: utt.different_grad(1.01)(v**2), [x])
        self.assertRaises(
            utt.verify_grad.E_grad, T.verify_grad, lambda v: utt.different_grad(1.01)(v**2), [x], rng=np.random
        )
        self.assertIs(T.verify_grad.E_grad, GradientError)

    def test_numeric_grad_of_points_in_any_layout(self):
        point = np.array([[1.0, 2.0], [3.0, 4.0]])
        for p in (point, np.asfortranarray(point), point[::-1, ::-1]):
            utt.assert_allclose(2 * p, numeric_grad(lambda v: (v**2).sum(), p).gf, rtol=1e-5)

    def test_verify_grad_of_an_op_that_destroys_its_input(self):
        class Tripled(Op):
            __props__ = ()
            destroy_map = {0: [0]}

            def make_node(self, x):
                return Apply(self, [x], [x.type()])

            def perform(self, node, inputs, outputs):
                inputs[0][...] *= 3
                outputs[0][0] = inputs[0]

            def grad(self, inputs, gradients):
                return [3 * gradients[0]]

        points = np.array([0.5, 1.5, -2.0])
        utt.verify_grad(Tripled(), [points])
        self.assertEqual(points.tolist(), [0.5, 1.5, -2.0])

    def test_attempt_many_times(self):
        seeds = []

        class Case:
            def setUp(self):
                seeds.append(utt.fetch_seed())

            @utt.AttemptManyTimes(3, 1)
            def passes_at_the_third(self):
                assert len(seeds) >= 3

            @utt.AttemptManyTimes(2, 2)
            def fails(self):
                raise ValueError("no")

        before = theano.config.unittests.rseed
        Case().passes_at_the_third()
        self.assertEqual(len(set(seeds)), 3)
        self.assertRaises(ValueError, Case().fails)
        self.assertEqual(theano.config.unittests.rseed, before)

    def test_parameterized(self):
        class Cases(unittest.TestCase):
            seen = []

            @utt.parameterized.expand([(1, "a"), (2, "b")], name_func=utt.custom_name_func)
            def test_it(self, number, text):
                self.seen.append((number, text))

        names = unittest.TestLoader().getTestCaseNames(Cases)
        self.assertEqual(names, ["test_it_0_1_a", "test_it_1_2_b"])

        class Many(unittest.TestCase):
            @utt.parameterized.expand([(i,) for i in range(11)])
            def test_it(self, number):
                pass

        names = unittest.TestLoader().getTestCaseNames(Many)
        self.assertEqual(names, ["test_it_%02d" % i for i in range(11)])
        result = unittest.TestResult()
        Cases.seen.clear()
        unittest.TestLoader().loadTestsFromTestCase(Cases).run(result)
        self.assertEqual((Cases.seen, result.failures), ([(1, "a"), (2, "b")], []))


class _Twice(Op):
    __props__ = ("shape_rule",)

    def __init__(self, shape_rule):
        self.shape_rule = shape_rule

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0] * 2

    def infer_shape(self, node, shapes):
        (shape,) = shapes
        return [
            {"right": shape, "swapped": tuple(reversed(shape)), "none": (node.outputs[0].shape[0], shape[1])}[
                self.shape_rule
            ]
        ]


class TestInferShape(utt.InferShapeTester):
    def test_wrong_shapes_are_found(self):
        x = T.matrix()
        value = np.ones((3, 4), theano.config.floatX)
        self._compile_and_check([x], [_Twice("right")(x)], [value], _Twice)
        # DebugMode detects the error before the tester does
        self.assertRaises(
            (AssertionError, BadOptimization), self._compile_and_check, [x], [_Twice("swapped")(x)], [value], _Twice
        )
        self.assertRaises(
            AssertionError, self._compile_and_check, [x], [_Twice("right")(x)], [value], T.DimShuffle.__mro__[-2]
        )
        with self.assertWarns(UserWarning):
            self._compile_and_check([x], [_Twice("right")(x)], [value[:, :3]], _Twice)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self._compile_and_check([x], [_Twice("right")(x)], [value[:, :3]], _Twice, warn=False)


def failures(tester):
    """Run the tests of a class; return a dict from the names of tests that do not pass to their reports."""
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(tester).run(result)
    return {test.id().rsplit(".", 1)[1]: text for test, text in result.failures + result.errors}


class TestMakers(unittest.TestCase):
    pair = (tb.rand(2, 3), tb.rand(2, 3))

    def make(self, op=T.mul, expected=np.multiply, **arguments):
        return tb.makeTester(
            **dict(dict(name="SomeTester", op=op, expected=expected, good=dict(pair=self.pair)), **arguments)
        )

    def test_documented_example(self):
        from numpy import dot
        from numpy.random import rand

        DotTester = tb.makeTester(
            name="DotTester",
            op=dot,
            expected=lambda x, y: np.dot(x, y),
            checks={},
            good=dict(
                correct1=(rand(5, 7), rand(7, 5)), correct2=(rand(5, 7), rand(7, 9)), correct3=(rand(5, 7), rand(7))
            ),
            bad_build=dict(),
            bad_runtime=dict(bad1=(rand(5, 7), rand(5, 7)), bad2=(rand(5, 7), rand(8, 3))),
            grad=dict(),
        )
        # The listing imports NumPy's `dot`. For variables, this function calls the `dot` of the package.
        self.assertEqual((failures(DotTester), DotTester.__module__), ({}, __name__))

    def test_each_part_fails_for_its_reason(self):
        self.assertEqual(failures(self.make(grad=dict(pair=self.pair))), {})
        for test, text, tester in (
            ("test_good", "output 0 of pair is wrong", self.make(expected=np.add)),
            ("test_good", "expected (2,)", self.make(expected=lambda x, y: (x * y)[:, 0])),
            ("test_good", "has 1 outputs, 2 are expected", self.make(expected=lambda x, y: [x * y] * 2)),
            ("test_good", "cannot be applied to pair", self.make(op=T.exp)),
            (
                "test_good",
                "fails on valid inputs of shapes",
                self.make(good=dict(bad=(tb.rand(2), tb.rand(3))), expected=lambda x, y: 0),
            ),
            (
                "test_good",
                "fails the check 'positive'",
                self.make(checks={"positive": lambda i, o: bool((o[0] > 1).all())}),
            ),
            ("test_bad_build", "should have been refused; types", self.make(bad_build=dict(fine=self.pair))),
            ("test_bad_runtime", "should have failed on shapes", self.make(bad_runtime=dict(fine=self.pair))),
            (
                "test_grad",
                "the gradient at pair",
                self.make(op=lambda x, y: utt.different_grad(1.1)(x) * y, grad=dict(pair=self.pair)),
            ),
            ("test_name", "has to be the variable of that name", self.make(check_name=True)),
        ):
            found = failures(tester)
            self.assertIn(text, found.get(test, str(found)))
        self.assertEqual(failures(self.make(checks={"not False": lambda i, o: None})), {})
        loose = dict(expected=lambda x, y: x * y + 1e-8, eps=1e-6, test_memmap=False)
        self.assertEqual(
            (failures(self.make(**loose)), "test_good" in failures(self.make(**dict(loose, eps=1e-12)))),
            ({}, theano.config.floatX == "float64"),
        )

    def test_integers_have_usable_gradients(self):
        class IntegerGradient(_Twice):
            def grad(self, inputs, gradients):
                return [T.zeros_like(inputs[0], dtype="int64")]

        self.assertEqual(
            failures(self.make(op=_Twice("right"), expected=lambda x: 2 * x, good=dict(x=(tb.rand(2, 3),)))), {}
        )
        found = failures(
            self.make(
                op=IntegerGradient("right"),
                expected=lambda x: 2 * x,
                good=dict(x=(tb.rand(2, 3),)),
                grad=dict(x=(tb.rand(2, 3),)),
            )
        )
        self.assertEqual(sorted(found), ["test_grad", "test_grad_none"])

    def test_skip(self):
        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(self.make(expected=np.add, skip="not today")).run(result)
        self.assertEqual({reason for _, reason in result.skipped}, {"not today"})
        self.assertEqual((result.failures, result.errors), ([], []))

    def test_broadcast_tester(self):
        good = dict(pair=self.pair, row=(tb.rand(2, 3), tb.rand(3)))
        tester = tb.makeBroadcastTester(op=inplace.add_inplace, expected=np.add, inplace=True, good=good)
        self.assertEqual((failures(tester), tester.__name__), ({}, "AddInplaceTester"))
        plain = tb.makeBroadcastTester(T.add, np.add, inplace=True, good=good, mode="FAST_RUN")
        self.assertIn("fails the check 'the first input holds the output'", failures(plain)["test_good"])
        self.assertEqual(plain.__name__, "AddTester")
        self.assertRaises(TypeError, tb.makeBroadcastTester, T.add, np.add, godo={})

    def test_arguments(self):
        for _ in range(20):
            self.assertTrue(
                (abs(tb.rand_nonzero((50,), 0.2)) >= 0.2).all() and (abs(tb.rand_nonzero((50,))) <= 1).all()
            )
            self.assertTrue(
                (tb.randint_nonzero(50) != 0).all() and set(tb.randint_nonzero(900)) == set(range(-5, 6)) - {0}
            )
            self.assertEqual(set(tb.randint_ranged(-1, 1, (200,))), {-1, 0, 1})
            self.assertTrue((abs(tb.randcomplex_nonzero((40,), 0.3)) >= 0.3).all())
        for dtype in ("bool", "int8", "uint16", "float16", "float64", "complex64"):
            self.assertEqual(
                (tb.rand_of_dtype((2, 3), dtype).dtype, tb.rand_of_dtype((2, 3), dtype).shape),
                (np.dtype(dtype), (2, 3)),
            )
        self.assertRaises(TypeError, tb.rand_of_dtype, (2,), "S3")
        self.assertEqual(
            [name for name, _ in tb.multi_dtype_checks((2,), (3,), ["int8", "bool", "float32"], "p")],
            ["p_int8_bool", "p_int8_float32", "p_bool_float32"],
        )
        self.assertEqual(tb.copymod({"a": 1, "b": 2}, without=["a"], c=3), {"b": 2, "c": 3})
        self.assertRaises(KeyError, tb.copymod, {}, without=["a"])
        wide = np.ones(2)
        with theano.config.change_flags(floatX="float32"):
            self.assertEqual(tb.check_floatX([np.ones(2, "int8")], wide).dtype, "float32")
            self.assertIs(tb.check_floatX([wide], wide), wide)
        self.assertEqual(tb.upcast_float16_ufunc(np.exp)(np.ones(2, "int8")).dtype, "float32")
        self.assertEqual(tb.upcast_int8_nfunc(np.exp)(np.ones(2, "uint8")).dtype, theano.config.floatX)


class TestOptimizations(unittest.TestCase, utt.TestOptimizationMixin):
    def test_nodes_are_counted(self):
        x = T.matrix()
        f = theano.function([x], _Twice("right")(x) + _Twice("swapped")(x), mode="FAST_COMPILE")
        self.assertFunctionContains1(f, _Twice("right"))
        self.assertFunctionContains0(f, _Twice("none"))
        self.assertFunctionContainsClassN(f, _Twice, 2)
        self.assertRaises(AssertionError, self.assertFunctionContainsN, f, _Twice("right"), 2)
        self.assertRaises(AssertionError, self.assertFunctionContainsClass, f, T.Dot)


class TestMixins(unittest.TestCase):
    def test_subclasses_are_collected(self):
        """Test runners collect subclasses of the mixins, because no mixin sets `__test__` to False."""
        for mixin in (utt.TestOptimizationMixin, utt.T_OpContractMixin, utt.InferShapeTester):
            self.assertTrue(getattr(type("TestOfAUser", (mixin, unittest.TestCase), {}), "__test__", True))


class TestTwiceContract(utt.T_OpContractMixin, unittest.TestCase):
    def setUp(self):
        self.ops = [_Twice("right"), _Twice("none")]

    def clone(self, op):
        return _Twice(op.shape_rule)


class TestRecords(unittest.TestCase):
    def test_a_changed_run_is_found(self):
        record = Record(file_object=io.StringIO())
        x = T.vector("x")

        def run(mode, first, second):
            f = theano.function([x], T.exp(x) * 2, mode=mode)
            f(first)
            f(second)

        ones = np.ones(3, theano.config.floatX)
        run(RecordMode(record), ones, ones * 2)
        text = record.f.getvalue()
        self.assertIn("Outputs: ", text)
        run(RecordMode(file_object=io.StringIO(text), replay=True), ones, ones * 2)
        playback = RecordMode(file_object=io.StringIO(text), replay=True)
        self.assertRaises(MismatchError, run, playback, ones, ones * 3)
        shorter = Record(file_object=io.StringIO(text), replay=True)
        shorter.handle_line(text[: text.index("\n") + 1])
        self.assertRaises(MismatchError, shorter.close)
        self.assertRaises(ValueError, record.handle_line, "two\nlines\n")


class TestBreakpoint(unittest.TestCase):
    def test_documented_example(self):
        x, target = T.fvectors("x", "target")
        mse = (x - target) ** 2
        hit = PdbBreakpoint("MSE too high")
        out, seen, _ = hit(T.gt(mse.sum(), 100), mse, x, target)
        f = theano.function([x, target], [out, seen])
        with (
            mock.patch("pdb.set_trace") as debugger,
            mock.patch("sys.stdout", new_callable=io.StringIO) as printed,
            mock.patch.dict("sys.modules", {"pudb": None, "ipdb": None}),
        ):
            self.assertEqual([v.tolist() for v in f([10, 0], [10, 5])], [[0, 25], [10, 0]])
            self.assertEqual(debugger.call_count, 0)
            self.assertEqual([v.tolist() for v in f([0, 0], [10, 5])], [[100, 25], [0, 0]])
            self.assertEqual(debugger.call_count, 1)
            self.assertIn("'MSE too high'", printed.getvalue())
        one = hit(0, x)
        g = theano.function([x], [T.grad((one**2).sum(), x), one.shape])
        self.assertEqual([v.tolist() for v in g([1, 2])], [[2, 4], [2]])
        self.assertRaises(TypeError, hit, x, x)
        self.assertRaises(TypeError, hit, True)


if __name__ == "__main__":
    unittest.main()
