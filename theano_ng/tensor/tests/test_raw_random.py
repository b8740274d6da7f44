"""The Op that draws from NumPy's generators, and the functions of distributions."""

import pickle
import unittest

import numpy as np
from scipy import stats

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.tensor import raw_random
from theano_ng.tensor.raw_random import RandomFunction, random_state_type

PLAIN = Mode(linker="py", optimizer="fast_compile")
NATIVE = Mode(linker="cvm", optimizer="fast_run")


# The seed of the first stream of RandomStreams(234), from which Theano 1.0.5 drew the numbers below.
FIRST = int(np.random.RandomState(234).randint(2**30))


def state(seed=FIRST):
    return np.random.RandomState(seed)


def drawn(function, *args, seed=FIRST, mode=PLAIN, **kwargs):
    """Return a sample that a function of `raw_random` draws from a new generator."""
    r = random_state_type()
    return theano.function([theano.In(r, mutable=True)], function(r, *args, **kwargs)[1], mode=mode)(state(seed))


class TestDistributions(unittest.TestCase):
    """The functions draw the same samples as NumPy's RandomState."""

    def check(self, found, wanted, dtype):
        wanted = np.asarray(wanted)
        self.assertEqual((found.shape, found.dtype), (wanted.shape, np.dtype(dtype)))
        np.testing.assert_array_equal(found, wanted.astype(dtype))

    def test_numpy(self):
        draws = (
            ("uniform", lambda r, s: r.uniform(0.0, 1.0, s), (), {}, "float64"),
            ("uniform", lambda r, s: r.uniform(-3, 2.5, s), (), {"low": -3, "high": 2.5}, "float64"),
            ("normal", lambda r, s: r.normal(0.0, 1.0, s), (), {}, "float64"),
            ("normal", lambda r, s: r.normal(1, 2, s), (), {"avg": 1, "std": 2}, "float64"),
            ("binomial", lambda r, s: r.binomial(1, 0.5, s), (), {}, "int64"),
            ("binomial", lambda r, s: r.binomial(100, 0.3, s), (), {"n": 100, "p": 0.3}, "int64"),
            ("poisson", lambda r, s: r.poisson(3.5, s), (), {"lam": 3.5}, "int64"),
            ("poisson", lambda r, s: r.poisson(300, s), (), {"lam": 300}, "int64"),
            ("random_integers", lambda r, s: r.randint(0, 2, s), (), {}, "int64"),
            ("random_integers", lambda r, s: r.randint(-3, 10, s), (), {"low": -3, "high": 9}, "int64"),
            ("choice", lambda r, s: r.choice(2, s), (), {}, "int64"),
            ("choice", lambda r, s: r.choice(30, s, False), (), {"a": 30, "replace": False}, "int64"),
            (
                "choice",
                lambda r, s: r.choice([1, 5, 7], s, True, [0.1, 0.2, 0.7]),
                (),
                {"a": [1, 5, 7], "p": [0.1, 0.2, 0.7]},
                "int64",
            ),
        )
        for name, draw, args, kwargs, natural in draws:
            function = getattr(raw_random, name)
            for size in ((), (1,), (3, 4), (0, 2), [5], (2, 1, 3)):
                for dtype in (natural, "float32", "int16"):
                    wanted = draw(state(), tuple(size))
                    for mode in (PLAIN, NATIVE):
                        with self.subTest(name, size=size, dtype=dtype, kwargs=kwargs):
                            self.check(drawn(function, size, *args, dtype=dtype, mode=mode, **kwargs), wanted, dtype)

    def test_parameters_that_are_tensors(self):
        low, high = np.array([-3.0, 100]), np.array([9.0, 200])
        self.check(drawn(raw_random.uniform, None, low, high), state().uniform(low, high), "float64")
        self.check(drawn(raw_random.uniform, (3, 2), low, high), state().uniform(low, high, (3, 2)), "float64")
        self.check(
            drawn(raw_random.normal, None, [1, 2, 3], [[1], [2]]), state().normal([1, 2, 3], [[1], [2]]), "float64"
        )
        self.check(drawn(raw_random.binomial, None, [10, 20, 30], 0.3), state().binomial([10, 20, 30], 0.3), "int64")
        self.check(drawn(raw_random.poisson, None, [3.5, 100.0]), state().poisson([3.5, 100]), "int64")
        r = state()
        wanted = [[r.randint(a, b + 1) for a, b in ((-3, 9), (100, 200))] for _ in range(2)]
        self.check(drawn(raw_random.random_integers, (2, 2), [-3, 100], [9, 200]), wanted, "int64")
        self.check(drawn(raw_random.random_integers, None, [-3, 100], [9, 200]), wanted[0], "int64")
        # A length of -1 stands for the length of the parameters in the same dimension.
        self.check(drawn(raw_random.uniform, (2, 2, -1), np.zeros(3)), state().uniform(size=(2, 2, 3)), "float64")

    def test_large_integers(self):
        ends = -(2**63), 2**63 - 1
        self.check(
            drawn(raw_random.random_integers, (3,), *ends), state().randint(ends[0], 2**63, 3, dtype="int64"), "int64"
        )

    def test_permutation(self):
        """`permutation` draws its permutations one after the other. They are equal to those of Theano 1.0.5."""
        self.check(drawn(raw_random.permutation, n=5), [3, 0, 1, 2, 4], "int64")
        self.check(
            drawn(raw_random.permutation, (3,), n=5), [[3, 0, 1, 2, 4], [0, 3, 1, 4, 2], [2, 0, 4, 3, 1]], "int64"
        )
        r = state()
        wanted = np.array([r.permutation(5) for _ in range(6)]).reshape(2, 3, 5)
        self.check(drawn(raw_random.permutation, (2, 3), n=5, dtype="uint8"), wanted, "uint8")
        self.check(drawn(raw_random.permutation, (2,), n=0), np.zeros((2, 0)), "int64")

    def test_multinomial(self):
        pvals = [0.2, 0.3, 0.5]
        self.check(drawn(raw_random.multinomial), state().multinomial(1, [0.5, 0.5]), "int64")
        self.check(drawn(raw_random.multinomial, (3,), 10, pvals), [[1, 6, 3], [1, 5, 4], [1, 3, 6]], "int64")
        self.check(drawn(raw_random.multinomial, (3,), 10, p_vals=pvals), [[1, 6, 3], [1, 5, 4], [1, 3, 6]], "int64")
        self.check(drawn(raw_random.multinomial, (2, 3), 10, pvals), state().multinomial(10, pvals, (2, 3)), "int64")
        self.check(drawn(raw_random.multinomial, None, [10, 20], pvals), [[1, 6, 3], [2, 9, 9]], "int64")
        rows = [pvals, [0.1, 0.1, 0.8]]
        self.check(drawn(raw_random.multinomial, None, 10, rows), [[1, 6, 3], [0, 2, 8]], "int64")
        self.check(drawn(raw_random.multinomial, (2,), [10, 20], rows), [[1, 6, 3], [1, 4, 15]], "int64")
        # Sums of float32 probabilities may exceed 1 by rounding errors, so slightly larger sums are accepted.
        for p in (np.array([0.6, 0.4, 0], "float32"), [0.6, 0.40001, 0], [0.6, 0.4000001, 0]):
            self.check(drawn(raw_random.multinomial, (3,), 10, p), [[8, 2, 0], [8, 2, 0], [7, 3, 0]], "int64")
        self.check(drawn(raw_random.multinomial, (3,), 10, [0.2, 0.2, 0.1]), [[1, 5, 4], [1, 4, 5], [1, 2, 7]], "int64")

    def test_statistics(self):
        n = 20000
        for name, kwargs, cdf in (
            ("uniform", {"low": 2, "high": 5}, stats.uniform(2, 3).cdf),
            ("normal", {"avg": 2, "std": 5}, stats.norm(2, 5).cdf),
        ):
            self.assertGreater(stats.kstest(drawn(getattr(raw_random, name), (n,), **kwargs), cdf).pvalue, 1e-3)
        for name, kwargs, pmf in (
            ("binomial", {"n": 4, "p": 0.3}, stats.binom(4, 0.3).pmf(np.arange(5))),
            ("random_integers", {"low": 0, "high": 4}, np.full(5, 0.2)),
            ("choice", {"a": 3, "p": [0.2, 0.3, 0.5]}, [0.2, 0.3, 0.5]),
        ):
            counts = np.bincount(drawn(getattr(raw_random, name), (n,), **kwargs), minlength=len(pmf))
            self.assertGreater(stats.chisquare(counts, np.array(pmf) * n).pvalue, 1e-3)
        counts = np.bincount(np.minimum(drawn(raw_random.poisson, (n,), 2.0), 6), minlength=7)
        pmf = stats.poisson(2).pmf(np.arange(6))
        self.assertGreater(stats.chisquare(counts, np.append(pmf, 1 - pmf.sum()) * n).pvalue, 1e-3)
        counts = drawn(raw_random.multinomial, (5000,), 4, [0.2, 0.3, 0.5]).sum(0)
        self.assertGreater(stats.chisquare(counts, np.array([0.2, 0.3, 0.5]) * 20000).pvalue, 1e-3)
        orders = drawn(raw_random.permutation, (6000,), 3)
        counts = np.bincount(orders[:, 0] * 3 + orders[:, 1], minlength=9)[[1, 2, 3, 5, 6, 7]]
        self.assertGreater(stats.chisquare(counts).pvalue, 1e-3)

    def test_refused_by_values(self):
        """Invalid parameters raise NumPy's errors, and the generator stays unchanged."""
        for function, args, error, said in (
            (raw_random.normal, ((2,), 0.0, -2.0), ValueError, "scale < 0"),
            (raw_random.uniform, ((2,), np.nan, 1.0), OverflowError, "Range exceeds valid bounds"),
            (raw_random.uniform, ((3, 3), [0.0, 1.0]), ValueError, "broadcast"),
            (raw_random.binomial, ((4,), 10, 1.3), ValueError, "p < 0, p > 1 or p"),
            (raw_random.binomial, ((4,), -10, 0.3), ValueError, "n < 0"),
            (raw_random.binomial, ((4,), 2.5, 0.3), TypeError, "Cannot cast"),
            (raw_random.poisson, ((4,), -1.0), ValueError, "lam < 0"),
            (raw_random.random_integers, ((4,), 9, 3), ValueError, "low >= high"),
            (raw_random.random_integers, ((2, 2), [0, 9], [3, 3]), ValueError, "low >= high"),
            (raw_random.choice, ((4,), 3, False), ValueError, "larger sample than population"),
            (raw_random.choice, ((4,), -3), ValueError, "a must be greater than 0"),
            (raw_random.choice, ((4,), 3, True, [0.1, 0.2, 0.3]), ValueError, "probabilities do not sum to 1"),
            (raw_random.choice, ((4,), 3, True, [0.5, 0.5]), ValueError, "'a' and 'p' must have same size"),
            (raw_random.choice, ((4,), np.zeros((2, 2))), ValueError, "must be 0 or 1"),
            (raw_random.permutation, ((4,), -5), ValueError, "negative dimensions"),
            (raw_random.permutation, ((4,), [5]), ValueError, "n must be a scalar"),
            (raw_random.multinomial, ((2,), 10, [0.7, 0.7, 0.1]), ValueError, "sum\\(pvals"),
            (raw_random.multinomial, ((2,), 10, [-0.2, 0.2, 1]), ValueError, "pvals < 0"),
            (raw_random.multinomial, ((2,), [10, -1], [0.5, 0.5]), ValueError, "n < 0"),
            (raw_random.multinomial, ((3,), [10, 20], [0.5, 0.5]), ValueError, "should be equal to out_shape"),
        ):
            r = random_state_type()
            for mode in (PLAIN, NATIVE):
                generator = state()
                f = theano.function([theano.In(r, mutable=True)], function(r, *args), mode=mode)
                with self.subTest(function=function.__name__, args=args), self.assertRaisesRegex(error, said):
                    f(generator)
                self.assertTrue(random_state_type.values_eq(generator, state()))

    def test_refused_by_types(self):
        r = random_state_type()
        for call, error, said in (
            (lambda: raw_random.uniform(r, 3), TypeError, "shape must be a vector or list of scalar"),
            (lambda: raw_random.uniform(r, T.lmatrix(), ndim=2), TypeError, "shape must be a vector or list of scalar"),
            (lambda: raw_random.uniform(r, (2.5,)), TypeError, "shape must be an integer vector or list"),
            (lambda: raw_random.uniform(r, T.fvector(), ndim=2), TypeError, "shape must be an integer vector or list"),
            (lambda: raw_random.uniform(r, (T.fscalar(),)), TypeError, "shape must be an integer vector or list"),
            (lambda: raw_random.uniform(r, (T.lvector(), 2)), TypeError, "shape must be an integer vector or list"),
            (lambda: raw_random.uniform(r, (-1,)), ValueError, "Auto-shape of -1"),
            (lambda: raw_random.uniform(r, (-2,)), ValueError, "Negative shape"),
            (lambda: raw_random.uniform(r, (2, 2), ndim=3), ValueError, "ndim should be equal to len\\(shape\\)"),
            (
                lambda: raw_random.uniform(r, np.array([2, 2]), ndim=3),
                ValueError,
                "ndim should be equal to len\\(shape\\)",
            ),
            (
                lambda: raw_random.uniform(r, T.constant([2, 2]), ndim=3),
                ValueError,
                "ndim should be equal to len\\(shape\\)",
            ),
            (lambda: raw_random.uniform(r, T.lvector()), ValueError, "length"),
            (lambda: raw_random.uniform(r, (2,), low=T.dmatrix()), ValueError, "ndim should be at least as big"),
            (lambda: raw_random.uniform(r, None, low=T.dvector(), ndim=2), ValueError, "ndim is 2"),
            (lambda: raw_random.multinomial(r, (2,), 1, 0.5), TypeError, "pvals must have at least one dimension"),
            (lambda: raw_random.permutation(r, (2,), 1j), TypeError, "n must be an integer"),
            (lambda: raw_random.choice(r), TypeError, "cannot infer shape without either shape or args"),
            (lambda: RandomFunction("unif", T.dvector), AttributeError, "unif"),
            (lambda: RandomFunction("uniform", "float64"), TypeError, "outtype must be a TensorType"),
            (lambda: RandomFunction("uniform", T.dvector)(T.dvector(), (2,), 0.0, 1.0), TypeError, "the state must be"),
            (lambda: RandomFunction("uniform", T.dvector)(r, (2.0,), 0.0, 1.0), TypeError, "shape must be an integer"),
        ):
            with self.subTest(said), self.assertRaisesRegex(error, said):
                call()

    def test_sizes_at_run_time(self):
        r, size = random_state_type(), T.lvector()
        f = theano.function([r, size], raw_random.normal(r, size, ndim=2)[1], mode=PLAIN)
        np.testing.assert_array_equal(f(state(), [2, 3]), state().normal(size=(2, 3)))
        with self.assertRaisesRegex(ValueError, "negative dimensions are not allowed"):
            f(state(), [2, -3])
        with self.assertRaisesRegex(ValueError, "outtype.ndim \\(2\\) != len\\(shape\\) \\(3\\)"):
            f(state(), [2, 3, 3])


class TestRandomFunction(unittest.TestCase):
    def test_shapes(self):
        """Shapes of samples are inferred without drawing."""
        r, n, size, p = random_state_type(), T.lscalar(), T.lvector(), T.dmatrix()
        samples = [
            raw_random.uniform(r, size, ndim=2)[1],
            raw_random.permutation(r, (n, 2), n + 1)[1],
            raw_random.multinomial(r, None, 3, p)[1],
        ]
        f = theano.function([r, n, size, p], [x.shape for x in samples], mode=NATIVE, on_unused_input="ignore")
        self.assertFalse([node for node in f.maker.fgraph.apply_nodes if isinstance(node.op, RandomFunction)])
        shapes = f(state(), 4, [3, 5], np.full((2, 4), 0.25))
        self.assertEqual([list(s) for s in shapes], [[3, 5], [4, 2, 5], [2, 4]])

    def test_own_functions(self):
        r = random_state_type()
        op = RandomFunction(np.random.RandomState.beta, T.dvector)
        f = theano.function([r], op(r, (3,), 2.0, 3.0)[1], mode=PLAIN)
        np.testing.assert_array_equal(f(state()), state().beta(2, 3, 3))
        op = RandomFunction(lambda s, k, size: s.uniform(size=size + (int(k),)), T.dmatrix, ndim_added=1)
        sample = op(r, (3,), 2)[1]
        f = theano.function([r], [sample, sample.shape], mode=NATIVE)
        found, shape = f(state())
        np.testing.assert_array_equal(found, state().uniform(size=(3, 2)))
        self.assertEqual(list(shape), [3, 2])

    def test_in_place(self):
        r = random_state_type()
        new, sample = raw_random.uniform(r, (2,))
        mutable = theano.function([theano.In(r, mutable=True)], [new, sample], mode=NATIVE)
        plain = theano.function([r], [new, sample], mode=NATIVE)
        generator = state()
        for _ in range(2):
            after, found = plain(generator)
            self.assertTrue(random_state_type.values_eq(generator, state()))
            np.testing.assert_array_equal(found, state().uniform(size=2))
            self.assertFalse(random_state_type.may_share_memory(after, generator))
        after, found = mutable(generator)
        np.testing.assert_array_equal(found, state().uniform(size=2))
        np.testing.assert_array_equal(generator.uniform(size=2), state().uniform(size=4)[2:])
        self.assertEqual(str(mutable.maker.fgraph.toposort()[0].op), "RandomFunction{uniform}")

    def test_two_draws(self):
        """Two draws from one state are equal; draws from successive states differ."""
        r = theano.shared(state())
        first, a = raw_random.uniform(r, (3,))
        second, b = raw_random.uniform(first, (3,))
        _, c = raw_random.uniform(r, (3,))
        _, d = raw_random.normal(r, (3,))
        f = theano.function([], [a, b, c, d], updates=[(r, second)], mode=NATIVE)
        generator = state()
        for _ in range(2):
            found = f()
            normal = pickle.loads(pickle.dumps(generator)).normal(size=3)
            wanted = generator.uniform(size=3), generator.uniform(size=3)
            np.testing.assert_array_equal(found[0], wanted[0])
            np.testing.assert_array_equal(found[1], wanted[1])
            np.testing.assert_array_equal(found[2], wanted[0])
            np.testing.assert_array_equal(found[3], normal)

    def test_derivatives(self):
        r, x = random_state_type(), T.dvector()
        _, u = raw_random.uniform(r, x.shape, ndim=1)
        f = theano.function([r, x], [T.grad((u * x).sum(), x), u, T.Rop(u * x, x, T.ones_like(x))], mode=PLAIN)
        gradient, sample, tangent = f(state(), [1, 2, 3])
        np.testing.assert_array_equal(gradient, sample)
        np.testing.assert_array_equal(tangent, sample)
        with self.assertRaisesRegex(
            theano.gradient.NullTypeGradError, "No gradient defined through raw random numbers op"
        ):
            T.grad(raw_random.uniform(r, (2,), low=x[0])[1].sum(), x)

    def test_equality_and_pickles(self):
        op = RandomFunction("uniform", T.dvector)
        self.assertEqual(op, RandomFunction("uniform", T.dvector))
        self.assertEqual(hash(op), hash(RandomFunction("uniform", T.dvector)))
        self.assertNotEqual(op, RandomFunction("normal", T.dvector))
        self.assertNotEqual(op, RandomFunction("uniform", T.dvector, inplace=True))
        self.assertNotEqual(op, RandomFunction("uniform", T.fvector))
        for one in (op, RandomFunction(raw_random.permutation_helper, T.dmatrix, ndim_added=1)):
            self.assertEqual(pickle.loads(pickle.dumps(one)), one)
        self.assertEqual(
            str(RandomFunction(raw_random.permutation_helper, T.dvector)), "RandomFunction{permutation_helper}"
        )


class TestRandomStateType(unittest.TestCase):
    def test_values(self):
        t = random_state_type
        self.assertEqual(str(t), "RandomStateType")
        self.assertEqual(str(t("r")), "r")
        self.assertEqual(t, pickle.loads(pickle.dumps(t)))
        generator = state()
        self.assertIs(t.filter(generator, strict=True), generator)
        for bad in (3, None, np.random, np.random.default_rng(3)):
            with self.assertRaisesRegex(TypeError, "Expected a numpy.random.RandomState"):
                t.filter(bad)
            self.assertFalse(t.is_valid_value(bad))
        self.assertTrue(t.values_eq(state(3), state(3)))
        self.assertFalse(t.values_eq(state(3), state(4)))
        ahead = state(3)
        ahead.normal()  # `normal` computes two numbers, and keeps one for the next call
        other = state(3)
        other.normal(size=2)
        self.assertFalse(t.values_eq(ahead, other))
        self.assertFalse(t.may_share_memory(state(3), state(3)))
        self.assertTrue(t.may_share_memory(generator, generator))
        self.assertTrue(t.may_share_memory(generator, np.random.RandomState(generator._bit_generator)))
        self.assertIsNone(t.get_shape_info(generator))
        self.assertGreater(t.get_size(None), 624 * 4)

    def test_other_generators(self):
        """A RandomState may use PCG64, whose state has another form than that of the Mersenne Twister."""
        r = theano.shared(np.random.RandomState(np.random.PCG64(5)))
        new, sample = raw_random.uniform(r, (2,))
        keeps, changes = (
            theano.function([], sample, mode=NATIVE),
            theano.function([], sample, updates=[(r, new)], mode=NATIVE),
        )
        wanted = np.random.RandomState(np.random.PCG64(5)).uniform(size=4)
        np.testing.assert_array_equal(keeps(), wanted[:2])
        np.testing.assert_array_equal(changes(), wanted[:2])
        np.testing.assert_array_equal(changes(), wanted[2:])


class TestShapes(unittest.TestCase):
    def test_infer_ndim_bcast(self):
        infer = raw_random._infer_ndim_bcast
        n = T.lscalar()
        for args, ndim, bcast in (
            ((None, (2, 3), T.dvector()), 2, (False, False)),
            ((None, None, T.dvector()), 1, (False,)),
            ((2, T.lvector(), T.dvector()), 2, (False, False)),
            ((None, (-1, n), T.dmatrix()), 2, (False, False)),
            ((None, (1, n), T.dmatrix(), T.drow()), 2, (True, False)),
            ((None, None, T.dmatrix(), T.drow(), T.dcol()), 2, (False, False)),
            ((None, (-1, 2), T.drow()), 2, (True, False)),
            ((0, ()), 0, ()),
            ((None, (np.array(2), np.int8(1), T.scalar_from_tensor(n), T.constant(1))), 4, (False, True, False, True)),
        ):
            found = infer(*args)
            self.assertEqual((found[0], found[2]), (ndim, bcast))
            self.assertEqual(found[1].dtype, "int64")
        with self.assertRaisesRegex(ValueError, "ndim should be at least as big"):
            infer(None, (1,), T.dmatrix())

    def test_minus_one(self):
        """A length of -1 stands for the length to which the parameters broadcast at run time."""
        x, y = T.dmatrix(), T.dcol()
        _, size, _ = raw_random._infer_ndim_bcast(None, (4, -1, -1), x, y)
        self.assertEqual(size.eval({x: np.zeros((2, 3)), y: np.zeros((2, 1))}).tolist(), [4, 2, 3])

    def test_broadcasting_indices(self):
        indices = raw_random._generate_broadcasting_indices
        self.assertEqual(
            indices((2, 3), (1, 3), (2, 1)),
            [
                [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)],
                [(0, 0), (0, 1), (0, 2), (0, 0), (0, 1), (0, 2)],
                [(0, 0), (0, 0), (0, 0), (1, 0), (1, 0), (1, 0)],
            ],
        )
        self.assertEqual(indices(()), [[()]])
        with self.assertRaisesRegex(ValueError, r"shape\[0\] \(3\) should be equal to out_shape\[0\] \(2\) or to 1"):
            indices((2, 3), (3, 3))
        with self.assertRaisesRegex(ValueError, "different lengths"):
            indices((2, 3), (3,))


class TestStatesThatOthersRead(unittest.TestCase):
    def test_two_draws_from_one_state(self):
        """Nodes that draw from one state all read its original value: at most one works in place, and no rule fails."""
        r = random_state_type()
        draws = [raw_random.uniform(r, (3,)), raw_random.normal(r, (2,)), raw_random.uniform(r, (2,))]
        wanted = [state(3).uniform(size=3), state(3).normal(size=2), state(3).uniform(size=2)]
        for k in (2, 3):
            for policy in ("raise", "warn"):
                with (
                    theano.change_flags(on_opt_error=policy, cache_graphs=False),
                    self.assertNoLogs("theano_ng.gof.opt"),
                ):
                    f = theano.function([theano.In(r, mutable=True)], [sample for _, sample in draws[:k]])
                for got, want in zip(f(state(3)), wanted[:k]):
                    np.testing.assert_array_equal(got, want)
