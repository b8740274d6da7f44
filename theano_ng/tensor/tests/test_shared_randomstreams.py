"""Random streams: the tutorial's examples with the documented numbers, seeds, states, and uses of streams."""

import copy
import io
import pickle
import subprocess
import sys
import textwrap
import unittest

import numpy as np

import theano_ng as theano
from theano_ng import function
from theano_ng import tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.compile.monitormode import MonitorMode, detect_nan
from theano_ng.compile.nanguardmode import NanGuardMode
from theano_ng.configparser import change_flags
from theano_ng.misc import pkl_utils
from theano_ng.tensor import raw_random
from theano_ng.tensor.raw_random import RandomFunction, random_state_type
from theano_ng.tensor.shared_randomstreams import RandomStateSharedVariable, RandomStreams, randomstate_constructor

PLAIN = Mode(linker="py", optimizer="fast_compile")
NATIVE = Mode(linker="cvm", optimizer="fast_run")


def generators(seed):
    """Yield the generators that RandomStreams makes from a seed, in order, by the documented rule."""
    seeds = np.random.RandomState(seed)
    while True:
        yield np.random.RandomState(int(seeds.randint(2**30)))


class TestTutorial(unittest.TestCase):
    def test_brief_example(self):
        srng = RandomStreams(seed=234)
        rv_u, rv_n = srng.uniform((2, 2)), srng.normal((2, 2))
        f = function([], rv_u)
        g = function([], rv_n, no_default_updates=True)
        nearly_zeros = function([], rv_u + rv_u - 2 * rv_u)
        states = generators(234)
        u, n = next(states), next(states)
        np.testing.assert_array_equal(f(), u.uniform(size=(2, 2)))
        np.testing.assert_array_equal(f(), u.uniform(size=(2, 2)))
        wanted = n.normal(size=(2, 2))
        np.testing.assert_array_equal(g(), wanted)
        np.testing.assert_array_equal(g(), wanted)
        np.testing.assert_array_equal(nearly_zeros(), np.zeros((2, 2)))

    def test_seeding_streams(self):
        srng = RandomStreams(seed=234)
        rv_u, rv_n = srng.uniform((2, 2)), srng.normal((2, 2))
        f, g = function([], rv_u), function([], rv_n)
        rng_val = rv_u.rng.get_value(borrow=True)
        rng_val.seed(89234)
        rv_u.rng.set_value(rng_val, borrow=True)
        np.testing.assert_array_equal(f(), np.random.RandomState(89234).uniform(size=(2, 2)))
        self.assertIsNone(srng.seed(902340))
        states = generators(902340)
        np.testing.assert_array_equal(f(), next(states).uniform(size=(2, 2)))
        np.testing.assert_array_equal(g(), next(states).normal(size=(2, 2)))
        srng.seed()
        np.testing.assert_array_equal(f(), next(generators(234)).uniform(size=(2, 2)))

    def test_sharing_streams_between_functions(self):
        srng = RandomStreams(seed=234)
        rv_u = srng.uniform((2, 2))
        f, nearly_zeros = function([], rv_u), function([], rv_u + rv_u - 2 * rv_u)
        state_after_v0 = rv_u.rng.get_value().get_state()
        nearly_zeros()
        v1 = f()
        rng = rv_u.rng.get_value(borrow=True)
        rng.set_state(state_after_v0)
        rv_u.rng.set_value(rng, borrow=True)
        v2, v3 = f(), f()
        self.assertFalse(np.array_equal(v1, v2))
        np.testing.assert_array_equal(v1, v3)

    def test_copying_random_state(self):
        """The example of the documentation that copies states between streams draws the documented numbers."""

        class Graph:
            def __init__(self, seed=123):
                self.rng = RandomStreams(seed)
                self.y = self.rng.uniform(size=(1,))

        g1, g2 = Graph(seed=123), Graph(seed=987)
        f1, f2 = function([], g1.y), function([], g2.y)
        np.testing.assert_allclose(f1(), [0.72803009], atol=5e-9)
        np.testing.assert_allclose(f2(), [0.55056769], atol=5e-9)
        for su1, su2 in zip(g1.rng.state_updates, g2.rng.state_updates):
            su2[0].set_value(su1[0].get_value())
        np.testing.assert_allclose(f1(), [0.59044123], atol=5e-9)
        np.testing.assert_allclose(f2(), [0.59044123], atol=5e-9)

    def test_noise_in_scan(self):
        X, W, b_sym = T.matrix("X"), T.matrix("W"), T.vector("b_sym")
        mask = [[1, 0], [0, 1], [0, 0], [1, 1], [1, 0], [0, 1], [0, 1], [0, 1], [0, 0], [1, 1]]
        base = np.where(np.arange(10)[:, None] < 2, 0.96402758, 0.76159416)
        arguments = np.eye(10, 2), np.ones((2, 2)), np.ones(2)

        trng = T.shared_randomstreams.RandomStreams(1234)
        d = trng.binomial(size=W[1].shape)
        results, updates = theano.scan(lambda v: T.tanh(T.dot(v, W) + b_sym) * d, sequences=X)
        f = function([X, W, b_sym], results, updates=updates, allow_input_downcast=True)
        np.testing.assert_allclose(f(*arguments), base * mask, rtol=1e-6)

        # A non-sequence has the same value in all steps.
        trng = T.shared_randomstreams.RandomStreams(1234)
        d = trng.binomial(size=W[1].shape)
        results, updates = theano.scan(
            lambda v, noise: T.tanh(T.dot(v, W) + b_sym) * noise, sequences=X, non_sequences=d
        )
        f = function([X, W, b_sym], results, updates=updates, allow_input_downcast=True)
        np.testing.assert_allclose(f(*arguments), base * mask[0], rtol=1e-6)


class TestStreams(unittest.TestCase):
    def test_attributes(self):
        srng = RandomStreams(234)
        u = srng.uniform((2,))
        self.assertIsInstance(u.rng, RandomStateSharedVariable)
        self.assertEqual(str(u.rng), "<RandomStateType>")
        self.assertIs(u.rng.default_update, u.update[1])
        self.assertIs(u.rng, u.update[0])
        self.assertEqual(srng.state_updates, [u.update])
        self.assertEqual(srng.updates(), [u.update])
        self.assertIsNot(srng.updates(), srng.state_updates)
        self.assertEqual(srng.default_instance_seed, 234)

    def test_all_methods(self):
        """Each method draws from the next generator as NumPy does."""
        srng, states = RandomStreams(7), generators(7)
        pvals = [0.2, 0.3, 0.5]
        samples = [
            (srng.uniform((2, 2)), lambda r: r.uniform(size=(2, 2))),
            (srng.uniform(), lambda r: r.uniform()),
            (srng.normal((3,), 1, 2), lambda r: r.normal(1, 2, 3)),
            (srng.binomial((3,), 10, 0.3), lambda r: r.binomial(10, 0.3, 3)),
            (srng.random_integers((3,), -3, 9), lambda r: r.randint(-3, 10, 3)),
            (srng.choice((3,), 10, False), lambda r: r.choice(10, 3, False)),
            (srng.poisson((3,), 4.5), lambda r: r.poisson(4.5, 3)),
            (srng.poisson((3,)), lambda r: r.poisson(1.0, 3)),
            (srng.permutation(n=6), lambda r: r.permutation(6)),
            (srng.multinomial((2,), 5, pvals), lambda r: r.multinomial(5, pvals, 2)),
        ]
        for mode in (PLAIN, NATIVE, theano.Mode("vm", "fast_run")):
            srng.seed(7)
            states = generators(7)
            f = function([], [x for x, _ in samples], mode=mode)
            states = [next(states) for _ in samples]
            for _ in range(3):
                for found, (_, draw), r in zip(f(), samples, states):
                    np.testing.assert_array_equal(found, draw(r))

    def test_old_names(self):
        with self.assertWarnsRegex(DeprecationWarning, "is now called p"):
            b = RandomStreams(7).binomial((3,), n=10, prob=0.3)
        np.testing.assert_array_equal(function([], b, mode=PLAIN)(), next(generators(7)).binomial(10, 0.3, 3))

    def test_shuffle_row_elements(self):
        x = T.dmatrix()
        shuffled = RandomStreams(234).shuffle_row_elements(x)
        self.assertIs(shuffled.owner.inputs[1], shuffled.permutation)
        f = function([x], [shuffled, shuffled.permutation], mode=PLAIN)
        rows = np.arange(12.0).reshape(3, 4)
        found, order = f(rows)
        np.testing.assert_array_equal(found, [[3, 1, 2, 0], [5, 7, 6, 4], [8, 10, 11, 9]])
        np.testing.assert_array_equal(found, np.take_along_axis(rows, order, 1))
        v = RandomStreams(234).shuffle_row_elements(T.constant(np.arange(5)))
        np.testing.assert_array_equal(function([], v, mode=PLAIN)(), [3, 0, 1, 2, 4])
        with self.assertRaises(ValueError):
            RandomStreams(234).shuffle_row_elements(T.dscalar())

    def test_seeds(self):
        for seed in (0, 2**32 - 1, [1, 2], np.int64(5)):
            u = RandomStreams(seed).uniform((2,))
            np.testing.assert_array_equal(function([], u, mode=PLAIN)(), next(generators(seed)).uniform(size=2))
        a, b = RandomStreams().uniform((4,)), RandomStreams().uniform((4,))
        f = function([], [a, b], mode=PLAIN)
        self.assertFalse(np.array_equal(*f()))
        with self.assertRaisesRegex(ValueError, "Seed must be between 0 and 2"):
            RandomStreams(-1)
        with self.assertRaises(TypeError):
            RandomStreams(2.5)

    def test_refused_draws_use_up_no_seed(self):
        srng = RandomStreams(7)
        for bad in (lambda: srng.uniform(3), lambda: srng.normal((2,), ndim=3), lambda: srng.choice()):
            with self.assertRaises((TypeError, ValueError)):
                bad()
        self.assertEqual(srng.state_updates, [])
        u = srng.uniform((2,))
        np.testing.assert_array_equal(function([], u, mode=PLAIN)(), next(generators(7)).uniform(size=2))

    def test_items(self):
        srng = RandomStreams(7)
        u = srng.uniform((2,))
        self.assertIs(srng[u.rng], u.rng.get_value(borrow=True))
        srng[u.rng] = np.random.RandomState(3)
        np.testing.assert_array_equal(function([], u, mode=PLAIN)(), np.random.RandomState(3).uniform(size=2))
        with self.assertRaises(KeyError):
            srng[RandomStreams(8).uniform((2,)).rng]
        with self.assertRaises(KeyError):
            srng[u] = np.random.RandomState(3)
        with self.assertRaises(TypeError):
            srng[u.rng] = 3

    def test_own_distributions(self):
        srng = RandomStreams(7)
        x = srng.gen(lambda r, size: RandomFunction("standard_cauchy", T.dvector)(r, size), (4,))
        np.testing.assert_array_equal(function([], x, mode=PLAIN)(), next(generators(7)).standard_cauchy(4))
        self.assertEqual(srng.updates(), [x.update])

    def test_updates(self):
        """Updates that are passed to a function replace the default update.

        A function without the default update draws numbers, but does not change the state of the generator.
        """
        srng = RandomStreams(7)
        u = srng.uniform((2,))
        f = function([], u, updates=srng.updates(), mode=NATIVE)
        g = function([], u, no_default_updates=[u.rng], mode=NATIVE)
        r = next(generators(7))
        np.testing.assert_array_equal(f(), r.uniform(size=2))
        wanted = r.uniform(size=2)
        np.testing.assert_array_equal(g(), wanted)
        np.testing.assert_array_equal(f(), wanted)

    def test_state_is_changed_in_place(self):
        u = RandomStreams(7).uniform((2,))
        f = function([], u, mode=NATIVE)
        held = u.rng.get_value(borrow=True)
        f()
        f()
        self.assertIs(u.rng.get_value(borrow=True), held)
        copied = u.rng.get_value()
        self.assertFalse(random_state_type.may_share_memory(copied, held))
        before = held.get_state()
        copied.uniform()
        self.assertTrue((held.get_state()[1] == before[1]).all() and held.get_state()[2] == before[2])

    def test_a_failing_call(self):
        """A call that fails neither changes nor replaces the generators."""
        srng, i = RandomStreams(7), T.lvector()
        u, v, p = srng.uniform((3,)), srng.normal((2,)), T.dscalar()
        w = srng.binomial((2,), p=p)
        f = function([i, p], [u[i] + v, w], mode=NATIVE)
        for _ in range(3):
            f([0, 1], 0.5)
            held = [s.get_value(borrow=True) for s, _ in srng.state_updates]
            before = [s.get_value() for s, _ in srng.state_updates]
            for arguments in (([0, 7], 0.5), ([0, 1], 1.5)):
                with self.assertRaises((IndexError, ValueError)):
                    f(*arguments)
                for (s, _), one, other in zip(srng.state_updates, held, before):
                    self.assertTrue(s.type.values_eq(s.get_value(borrow=True), other))
                    self.assertIs(s.get_value(borrow=True), one)

    def test_loops_in_loops(self):
        srng, x = RandomStreams(8), T.dmatrix()

        def row(v):
            return theano.scan(lambda a: a * srng.uniform(()), sequences=v)

        ys, updates = theano.scan(row, sequences=x)
        f = function([x], ys, updates=updates)
        r = next(generators(8))
        for _ in range(2):
            np.testing.assert_allclose(f(np.ones((2, 3))).ravel(), r.uniform(size=6))

    def test_gradient_of_a_loop(self):
        srng, x = RandomStreams(7), T.dvector()
        ys, updates = theano.scan(lambda v: v * srng.normal((3,)), sequences=x)
        f = function([x], [ys, T.grad(ys.sum(), x)], updates=updates)
        r = next(generators(7))
        for _ in range(2):
            noise = r.normal(size=(3, 3))
            sample, gradient = f([1, 2, 3])
            np.testing.assert_allclose(sample, noise * np.array([[1.0], [2], [3]]))
            np.testing.assert_allclose(gradient, noise.sum(1))

    def test_inner_graphs(self):
        srng, x = RandomStreams(7), T.dvector()
        u = srng.uniform((3,))
        op = theano.OpFromGraph([x, u], [x * u])
        f = function([x], op(x, u))
        r = next(generators(7))
        for _ in range(2):
            np.testing.assert_allclose(f([1, 2, 3]), r.uniform(size=3) * [1, 2, 3])

    def test_clones(self):
        u = RandomStreams(7).uniform((3,))
        other = theano.shared(np.random.RandomState(5))
        f = function([], [u * 2, theano.clone(u * 2, replace={u.rng: other})], mode=PLAIN)
        r = next(generators(7))
        for _ in range(2):
            a, b = f()
            np.testing.assert_array_equal(a, r.uniform(size=3) * 2)
            np.testing.assert_array_equal(b, np.random.RandomState(5).uniform(size=3) * 2)

    def test_pickles(self):
        srng = RandomStreams(7)
        u = srng.uniform((3,))
        f = function([], [u, srng.normal((3,))], mode=PLAIN)
        f()
        twin, copied = pickle.loads(pickle.dumps(f)), copy.deepcopy(f)
        wanted = f()
        for other in (twin(), copied()):
            for a, b in zip(wanted, other):
                np.testing.assert_array_equal(a, b)
        file = io.BytesIO()
        pkl_utils.dump((u, srng), file)
        file.seek(0)
        v, again = pkl_utils.load(file)
        np.testing.assert_array_equal(function([], u, mode=PLAIN)(), function([], v, mode=PLAIN)())
        self.assertEqual(len(again.updates()), 2)
        twin, original = again.uniform((2,)), srng.uniform((2,))
        np.testing.assert_array_equal(function([], twin, mode=PLAIN)(), function([], original, mode=PLAIN)())

    def test_copies_of_functions(self):
        u = RandomStreams(7).uniform((3,))
        f = function([], [u], mode=NATIVE)
        g = f.copy(share_memory=True)
        r = next(generators(7))
        for one in (f, g, f):
            np.testing.assert_array_equal(one()[0], r.uniform(size=3))

    def test_modes(self):
        """All linkers draw equal numbers, test values are drawn from copies, and `eval` draws new numbers."""
        srng, x = RandomStreams(7), T.dvector()
        u = srng.uniform((3,))
        for mode in (
            "FAST_COMPILE",
            "FAST_RUN",
            Mode("py"),
            Mode("vm"),
            Mode("c|py"),
            Mode("c|py_nogc"),
            NanGuardMode(True, True, True),
        ):
            srng.seed(7)
            f = function([x], [u * x, u.sum()], mode=mode)
            r = next(generators(7))
            for _ in range(2):
                np.testing.assert_array_equal(f([1, 1, 1])[0], r.uniform(size=3))
        f = function([x], u * x, mode=MonitorMode(post_func=detect_nan))
        np.testing.assert_array_equal(f([1, 1, 1]), r.uniform(size=3))
        np.testing.assert_array_equal(u.eval(), r.uniform(size=3))
        with change_flags(compute_test_value="raise"):
            v = RandomStreams(7).uniform((3,))
        np.testing.assert_array_equal(v.tag.test_value, function([], v, mode=PLAIN)())

    def test_debug_mode(self):
        srng, x = RandomStreams(7), T.dvector()
        samples = [srng.uniform((3,)) * x, srng.permutation((2,), n=4), srng.multinomial((2,)), srng.choice((3,), a=4)]
        f = function([x], samples, mode="DebugMode")
        states = generators(7)
        r = next(states)
        for _ in range(2):
            np.testing.assert_array_equal(f([1, 2, 3])[0], r.uniform(size=3) * [1, 2, 3])


class TestSharedState(unittest.TestCase):
    def test_shared(self):
        generator = np.random.RandomState(1)
        for borrow in (False, True):
            s = theano.shared(generator, name="s", borrow=borrow)
            self.assertIsInstance(s, RandomStateSharedVariable)
            self.assertEqual((s.type, str(s)), (random_state_type, "s"))
            self.assertEqual(s.get_value(borrow=True) is generator, borrow)
        with self.assertRaises(TypeError):
            s.set_value(3)
        with self.assertRaises(TypeError):
            randomstate_constructor(3)
        self.assertIsInstance(theano.shared(object()), theano.compile.SharedVariable)

    def test_shared_before_the_module(self):
        """`theano.shared` recognizes a generator even if the module of streams is not loaded."""
        code = """
            import sys
            import theano_ng as theano
            print("theano_ng.tensor.raw_random" in sys.modules, "numpy.random" in sys.modules)
            import numpy as np
            print(type(theano.shared(np.random.RandomState(3))).__name__)
            import theano_ng.tensor as T
            print(T.shared_randomstreams.RandomStreams.__name__, T.raw_random.random_make_inplace)
            """
        text = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
        ).stdout
        self.assertEqual(text, "False False\nRandomStateSharedVariable\nRandomStreams random_make_inplace\n")

    def test_updates_of_ones_own(self):
        s = theano.shared(np.random.RandomState(1))
        new, sample = raw_random.uniform(s, (2,))
        f = function([], [sample, new], updates=[(s, new)], mode=NATIVE)
        r = np.random.RandomState(1)
        for _ in range(2):
            found, state = f()
            np.testing.assert_array_equal(found, r.uniform(size=2))
            self.assertTrue(random_state_type.values_eq(state, r))
            state.uniform()  # a draw from the returned state must not change the shared variable
