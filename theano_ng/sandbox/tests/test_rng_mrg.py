"""Tests of MRG31k3p: its numbers equal those of the paper and of Theano 1.0.5, for every implementation.

Their distributions are tested too.
"""

import copy
import pickle
import unittest
import warnings
from unittest import mock

import numpy as np
from scipy import stats

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.configdefaults import config
from theano_ng.gpuarray import contexts
from theano_ng.sandbox import mrg31k3p, rng_mrg
from theano_ng.sandbox.rng_mrg import MRG_RandomStreams, guess_n_streams, mrg_uniform
from theano_ng.tensor.constant import as_tensor_variable

PLAIN = Mode(linker="py", optimizer="fast_compile")
NATIVE = Mode(linker="cvm", optimizer="fast_run")
m1, m2 = 2**31 - 1, 2**31 - 21069


def published(state, n):
    """Return the next n integers of a state and the final state, by the recurrences in the paper (section 3)."""
    x, y, found = list(state[2::-1]), list(state[:2:-1]), []  # the oldest first
    for _ in range(n):
        x.append((2**22 * x[-2] + (2**7 + 1) * x[-3]) % m1)
        y.append((2**15 * y[-1] + (2**15 + 1) * y[-3]) % m2)
        found.append((x[-1] - y[-1]) % m1 or m1)
    return found, x[:-4:-1] + y[:-4:-1]


def drawn(make, calls=1, mode=NATIVE, seed=12345):
    """Return the samples of successive calls of a function; ``make(streams)`` returns its random variable."""
    f = theano.function([], make(MRG_RandomStreams(seed)), mode=mode)
    return [f() for _ in range(calls)]


def interleaved(seed, n_streams, size, calls=1):
    """Return the integers of the paper's generator: integer i comes from stream i modulo the number of streams."""
    states, samples = [list(map(int, s)) for s in mrg31k3p.substreams(seed, n_streams)], []
    for _ in range(calls):
        z = []
        for first in range(0, size, n_streams):
            for s in range(min(n_streams, size - first)):
                found, states[s] = published(states[s], 1)
                z += found
        samples.append(np.array(z, "int64"))
    return samples


class TestArithmetic(unittest.TestCase):
    def test_steps_of_the_paper(self):
        rng = np.random.RandomState(1)
        states = [
            [12345] * 6,
            [1, 2, 3, 4, 5, 6],
            [0, 0, 1, 1, 0, 0],
            [m1 - 1] * 3 + [m2 - 1] * 3,
            [0, m1 - 1, 0, 0, 0, m2 - 1],
        ]
        states += [list(rng.randint(0, m1, 3)) + list(rng.randint(0, m2, 3)) for _ in range(200)]
        columns = [np.array(c, "int64") for c in zip(*states)]
        for step in range(1, 8):
            columns, z = mrg31k3p.next_states(columns)
            for k, state in enumerate(states):
                found, after = published([int(s) for s in state], step)
                self.assertEqual(z[k], found[-1])
                self.assertEqual([int(c[k]) for c in columns], after)

    def test_next_value(self):
        new = np.zeros(6, "int32")
        value = rng_mrg.mrg_next_value(np.array([1, 2, 3, 4, 5, 6], "int32"), new, rng_mrg.NORM, -1, 0)
        self.assertEqual(list(new), [8388995, 1, 2, 327686, 4, 5])
        self.assertEqual(value, (8388995 - 327686) / 2.0**31)
        value = rng_mrg.mrg_next_value(np.array([1, 2, 3, 4, 5, 6], "int32"), new, rng_mrg.NORM, 511, 3)
        self.assertEqual(value, (((8388995 - 327686) & 511) + 3) / 2.0**31)

    def test_jumps(self):
        """The matrices of jumps equal powers of the matrix of one step, computed with Python integers.

        The states after jumps equal those of Theano 1.0.5.
        """

        def power(matrix, exponent, modulus):
            result, matrix = np.eye(3, dtype=object), np.array(matrix, dtype=object)
            while exponent:
                if exponent & 1:
                    result = result.dot(matrix) % modulus
                matrix, exponent = matrix.dot(matrix) % modulus, exponent >> 1
            return result

        first, second = [[0, 2**22, 129], [1, 0, 0], [0, 1, 0]], [[2**15, 0, 2**15 + 1], [1, 0, 0], [0, 1, 0]]
        for exponent, found1, found2 in ((72, rng_mrg.A1p72, rng_mrg.A2p72), (134, rng_mrg.A1p134, rng_mrg.A2p134)):
            self.assertTrue((power(first, 2**exponent, m1) == found1).all())
            self.assertTrue((power(second, 2**exponent, m2) == found2).all())
        state = np.array([1, 2, 3, 4, 5, 6], "int32")
        self.assertEqual(
            rng_mrg.ff_2p134(state).tolist(), [1782355199, 180881799, 960068827, 1267448446, 1580452303, 757893159]
        )
        self.assertEqual(
            rng_mrg.ff_2p72(state).tolist(), [236336504, 1630064008, 1151274174, 945871500, 1221901377, 1030714415]
        )
        self.assertEqual(rng_mrg.ff_2p72(state).dtype, "int32")
        self.assertEqual(
            rng_mrg.matVecModM([[1, 2, 3], [4, 5, 6], [7, 8, 9]], [10, 2000000000, 4], m1).tolist(),
            [1852516375, 1410065476, 967614577],
        )

    def test_jumps_are_steps(self):
        """A jump by 2**k steps equals 2**k single steps, here for k = 10."""
        matrix1 = mrg31k3p._power_of(mrg31k3p._STEP1, 10, m1)
        matrix2 = mrg31k3p._power_of(mrg31k3p._STEP2, 10, m2)
        state = [12345] * 6
        self.assertEqual(rng_mrg.multMatVect(state, matrix1, m1, matrix2, m2).tolist(), published(state, 1024)[1])

    def test_substreams(self):
        states = mrg31k3p.substreams([12345] * 6, 21)
        for one, next_one in zip(states, states[1:]):
            self.assertEqual(next_one.tolist(), rng_mrg.ff_2p72(one).tolist())
        for n in (1, 2, 3, 5, 16, 20):
            np.testing.assert_array_equal(mrg31k3p.substreams([12345] * 6, n), states[:n])
        self.assertEqual(len(mrg31k3p.substreams([12345] * 6, 15360)), 15360)

    def test_dot_modulo(self):
        rng = np.random.RandomState(2)
        A, A2 = rng.randint(0, m1, (3, 3)), rng.randint(0, m2, (3, 3))
        s, s2 = rng.randint(0, m1, 3).astype("int32"), rng.randint(0, m2, 3).astype("int32")
        inputs = [T.lmatrix(), T.ivector(), T.iscalar(), T.lmatrix(), T.ivector(), T.iscalar()]
        exact = list(A.astype(object).dot(s.astype(object)) % m1) + list(A2.astype(object).dot(s2.astype(object)) % m2)
        for mode in (PLAIN, NATIVE):
            f = theano.function(inputs, rng_mrg.DotModulo()(*inputs), mode=mode)
            self.assertEqual(f(A, s, m1, A2, s2, m2).tolist(), exact)
            self.assertEqual(f(A, s, m1, A2, s2, m2).dtype, "int32")
            with self.assertRaisesRegex(ValueError, "columns"):
                f(A, s[:2], m1, A2, s2, m2)
            with self.assertRaisesRegex(ValueError, "modulus must be positive"):
                f(A, s, m1, A2, s2, 0)


class TestUniform(unittest.TestCase):
    def test_numbers_of_the_documented_seed(self):
        """Uniform samples for the seed 12345 equal those of Theano 1.0.5."""
        first, second = drawn(lambda r: r.uniform((10,), dtype="float64"), 2)
        np.testing.assert_allclose(
            first,
            [
                0.73532445,
                0.61420744,
                0.11007806,
                0.64877417,
                0.36619443,
                0.10882294,
                0.53305479,
                0.97837976,
                0.91512378,
                0.85097455,
            ],
            atol=1e-8,
        )
        np.testing.assert_allclose(second[:3], [0.44080659, 0.05593456, 0.23485647], atol=1e-8)
        first, second = drawn(lambda r: r.uniform((2, 3), dtype="float64"), 2)
        np.testing.assert_allclose(
            first, [[0.73532445, 0.25856858, 0.69408069], [0.77057461, 0.49391016, 0.90620236]], atol=1e-8
        )
        np.testing.assert_allclose(
            second, [[0.61420744, 0.94899803, 0.18046841], [0.81389289, 0.90277854, 0.00903042]], atol=1e-8
        )
        (sample,) = drawn(lambda r: r.uniform((5,), dtype="float16"))
        np.testing.assert_array_equal(sample, np.array([0.2229, 0.55, 0.2715, 0.3772, 0.8945], "float16"))

    def test_implementations(self):
        """The Python code, and the C code for each kind of processor, give the samples of the paper's generator.

        The samples are equal in all bits.
        """
        before = rng_mrg.BEST_MACHINE
        try:
            for shape in ((), (1,), (7,), (101,), (3, 37), (2, 3, 1, 5), (1, 1100)):
                size = int(np.prod(shape))
                for nstreams in (1, 3, 16, 1025):
                    wanted = interleaved([5, 4, 3, 2, 1, 9], nstreams, size, 2)
                    for dtype in ("float16", "float32", "float64"):
                        for machine in (0, 1, 2, None):
                            rng_mrg.BEST_MACHINE = machine or 0
                            found = drawn(
                                lambda r: r.uniform(shape, dtype=dtype, nstreams=nstreams),
                                2,
                                PLAIN if machine is None else NATIVE,
                                [5, 4, 3, 2, 1, 9],
                            )
                            for z, sample in zip(wanted, found):
                                with self.subTest(shape=shape, nstreams=nstreams, dtype=dtype, machine=machine):
                                    self.assertEqual((sample.shape, sample.dtype), (shape, dtype))
                                    np.testing.assert_array_equal(sample.ravel(), self.numbers(z, dtype))
        finally:
            rng_mrg.BEST_MACHINE = before

    @staticmethod
    def numbers(z, dtype):
        if dtype == "float64":
            return np.array([int(i) / 2**31 for i in z])
        if dtype == "float32":
            # a float32 number is the integer times the float32 just below 2**-31
            return np.array([np.float32(int(i)) * np.nextafter(np.float32(2**-31), np.float32(0)) for i in z])
        return np.array([np.float16((int(i) % 2**15 + 1) * 511 / 2**24) for i in z])

    def test_extreme_numbers(self):
        """The least and the greatest integer give numbers between 0 and 1, excluding 0 and 1."""
        for dtype in ("float16", "float32", "float64"):
            ends = mrg31k3p.numbers(np.array([1, 2**15, m1]), dtype)
            self.assertTrue((ends > 0).all() and (ends < 1).all(), (dtype, ends))
        # The next integer of a state is 1, 2**31 - 1, or one of two integers that float32 would round to 1.
        near = []
        for wanted in (1, m1, m1 - 1, m1 - 5):
            # The state is (x1, x2, x3, y1, y2, y3). As x3 = 0, x2 determines the next x; y1 = y3 = 0 gives y = 0.
            # x1 = y2 = 1, so that neither half of the state is all 0.
            x2 = wanted % m1 * pow(2**22, -1, m1) % m1
            near.append([1, x2, 0, 0, 1, 0])
        for k, state in enumerate(near):
            self.assertEqual(published(state, 1)[0], [(1, m1, m1 - 1, m1 - 5)[k]])
        rstate, size = T.imatrix(), T.lvector()
        for dtype in ("float16", "float32", "float64"):
            op = mrg_uniform(T.TensorType(dtype, [False]))
            samples = [
                theano.function([rstate, size], op(rstate, size)[1], mode=m)(np.array(near, "int32"), [4])
                for m in (PLAIN, NATIVE)
            ]
            np.testing.assert_array_equal(*samples)
            self.assertTrue((samples[0] > 0).all() and (samples[0] < 1).all(), samples[0])

    def test_bounds(self):
        f = theano.function([], MRG_RandomStreams(12345).uniform((5,), low=-1, high=3, dtype="float64"), mode=PLAIN)
        u = theano.function([], MRG_RandomStreams(12345).uniform((5,), dtype="float64"), mode=PLAIN)
        np.testing.assert_array_equal(f(), u() * 4.0 - 1.0)
        low = T.dvector()
        f = theano.function(
            [low], MRG_RandomStreams(12345).uniform((2, 3), low=low, high=10, dtype="float64"), mode=PLAIN
        )
        u = theano.function([], MRG_RandomStreams(12345).uniform((2, 3), dtype="float64"), mode=PLAIN)
        np.testing.assert_array_equal(f([1, 2, 3]), u() * (10 - np.array([1.0, 2, 3])) + [1, 2, 3])

    def test_types(self):
        r = MRG_RandomStreams()
        self.assertEqual(r.uniform((2,)).dtype, config.floatX)
        self.assertEqual(r.uniform((2,), low=np.float64(0.5)).dtype, "float64")
        self.assertEqual(r.uniform((2,), low=np.float64(0.5), dtype="float32").dtype, "float32")
        self.assertEqual(r.uniform((1, 3)).broadcastable, (True, False))
        self.assertEqual(r.uniform([1, 3]).broadcastable, (True, False))
        self.assertEqual(r.uniform(T.lvector(), ndim=3).ndim, 3)
        self.assertEqual(r.uniform((T.lscalar(), 2)).ndim, 2)
        self.assertEqual(
            r.uniform((T.scalar_from_tensor(T.lscalar()), np.array(2), np.int8(1))).broadcastable, (False, False, True)
        )
        self.assertEqual(r.normal((1,)).broadcastable, (True,))

    def test_size_at_run_time(self):
        size = T.lvector()
        for mode in (PLAIN, NATIVE):
            f = theano.function([size], MRG_RandomStreams(9).uniform(size, ndim=2, dtype="float64"), mode=mode)
            z = interleaved([9] * 6, 15360, 6)[0]
            np.testing.assert_array_equal(f([2, 3]), (z / 2.0**31).reshape(2, 3))
            self.assertEqual(f([2, 0]).shape, (2, 0))
            with self.assertRaisesRegex(ValueError, "negative dimensions are not allowed"):
                f([2, -3])
            with self.assertRaisesRegex(ValueError, "2 dimension"):
                f([2, 3, 4])
            after = f([2, 3])
            z = interleaved([9] * 6, 15360, 6, 2)[1]
            np.testing.assert_array_equal(after, (z / 2.0**31).reshape(2, 3))
        f = theano.function([size], MRG_RandomStreams(9).uniform(size, ndim=2, dtype="float64"), mode=NATIVE)
        with self.assertRaisesRegex(ValueError, "too large"):
            f([2**40, 2**40])

    def test_samples_without_elements(self):
        """If one length of a sample is 0, the other length may be as large as NumPy allows for the dtype."""
        size = T.lvector()
        for dtype in ("float16", "float32", "float64"):
            longest = 2**63 // np.dtype(dtype).itemsize - 1
            for mode in (PLAIN, NATIVE):
                f = theano.function([size], MRG_RandomStreams(9).uniform(size, ndim=2, dtype=dtype), mode=mode)
                for shape in ((0, 0), (0, 3), (longest, 0), (0, longest), (2**59, 0)):
                    self.assertEqual((f(shape).shape, f(shape).dtype), (shape, dtype))
                self.assertEqual(f((1, 4)).shape, (1, 4))

    def test_odd_states(self):
        """States may be non-contiguous; an empty state or one with five columns is an error."""
        rstate, size = T.imatrix(), T.lvector()
        states = mrg31k3p.substreams([12345] * 6, 40)
        for mode in (PLAIN, NATIVE):
            f = theano.function([rstate, size], mrg_uniform(T.dvector)(rstate, size), mode=mode)
            after, sample = f(states, [100])
            for odd in (np.asfortranarray(states), np.repeat(states, 2, 0)[::2], states[::-1].copy()[::-1]):
                for found, wanted in zip(f(odd, [100]), (after, sample)):
                    np.testing.assert_array_equal(found, wanted)
            for bad in (states[:0], states[:, :5]):
                with self.assertRaisesRegex(ValueError, "rstate must have a row of 6"):
                    f(bad, [100])

    def test_in_place(self):
        r = MRG_RandomStreams(3)
        u = r.uniform((4,))
        f, g = theano.function([], u, mode=NATIVE), theano.function([], u, no_default_updates=True, mode=NATIVE)
        self.assertTrue([n for n in f.maker.fgraph.apply_nodes if getattr(n.op, "inplace", False)])
        self.assertFalse([n for n in g.maker.fgraph.apply_nodes if getattr(n.op, "inplace", False)])
        np.testing.assert_array_equal(g(), g())
        np.testing.assert_array_equal(g(), f())
        self.assertFalse(np.array_equal(f(), f()))
        held = r.state_updates[0][0].get_value(borrow=True)
        f()
        self.assertIs(r.state_updates[0][0].get_value(borrow=True), held)

    def test_statistics(self):
        for dtype, n in (("float32", 40000), ("float64", 40000)):
            (sample,) = drawn(lambda r: r.uniform((n,), dtype=dtype), seed=77)
            self.assertGreater(stats.kstest(sample.astype("float64"), "uniform").pvalue, 1e-3)
        (sample,) = drawn(lambda r: r.uniform((65536,), dtype="float16"), seed=78)
        counts = np.bincount((sample.astype("float64") * 64).astype(int), minlength=64)
        self.assertGreater(stats.chisquare(counts).pvalue, 1e-3)
        # Test pairs of successive numbers of one stream, and pairs of numbers of neighboring streams.
        for nstreams in (1, 2):
            (sample,) = drawn(lambda r: r.uniform((40000,), dtype="float64", nstreams=nstreams), seed=79)
            pairs = (sample.reshape(-1, 2) * 8).astype(int)
            self.assertGreater(stats.chisquare(np.bincount(pairs[:, 0] * 8 + pairs[:, 1], minlength=64)).pvalue, 1e-3)


class TestDistributions(unittest.TestCase):
    def test_normal_is_box_muller(self):
        """Normal samples equal those of Theano 1.0.5, and the Box-Muller transform of uniform samples.

        The tolerance is a few units in the last place of log, sin and cos.
        """
        wanted = [0.10108783, -1.64354187, 0.71042834, -0.7776041, 0.06291855, -0.47500072]
        for mode in (PLAIN, NATIVE):
            for n in (5, 6):
                np.testing.assert_allclose(
                    drawn(lambda r: r.normal((n,), dtype="float64"), mode=mode)[0], wanted[:n], atol=2e-8
                )
                np.testing.assert_allclose(
                    drawn(lambda r: r.normal((n,), dtype="float32"), mode=mode)[0], wanted[:n], atol=1e-6
                )
            np.testing.assert_allclose(
                drawn(lambda r: r.normal((3, 3), dtype="float64"), mode=mode)[0],
                [
                    [0.65186416, -1.58354999, -0.52361611],
                    [0.34068408, -1.10930166, -0.43584402],
                    [-0.44447504, 0.67539639, -0.63653118],
                ],
                atol=2e-8,
            )
            np.testing.assert_allclose(
                drawn(lambda r: r.normal((), dtype="float64"), mode=mode)[0], -0.04219652, atol=2e-8
            )
            half = drawn(lambda r: r.normal((5,), dtype="float16"), mode=mode)[0]
            self.assertEqual(half.dtype, "float16")
            np.testing.assert_allclose(half, [-1.2409234, 0.8600506, 1.1488286, 1.209202, -0.67579377], rtol=2e-3)
            for n in (1000, 1001):
                u = drawn(lambda r: r.uniform((n + n % 2,), dtype="float64", nstreams=15360))[0]
                radius, angle = np.sqrt(-2 * np.log(np.split(u, 2)[0])), 2 * np.pi * np.split(u, 2)[1]
                found = drawn(lambda r: r.normal((n,), dtype="float64", avg=1, std=3), mode=mode)[0]
                np.testing.assert_allclose(
                    found,
                    np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:n] * 3 + 1,
                    rtol=1e-12,
                    atol=1e-13,
                )

    def test_normal_to_the_last_bit(self):
        """FAST_COMPILE gives the bits of NumPy's functions; FAST_RUN differs by at most 4 units in the last place."""
        u = drawn(lambda r: r.uniform((400,), dtype="float64", nstreams=60))[0]
        radius, angle = np.sqrt(-2 * np.log(u[:200])), 2 * np.pi * u[200:]
        expected = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
        for mode, units in (("FAST_COMPILE", 0), ("FAST_RUN", 4)):
            found = drawn(lambda r: r.normal((400,), dtype="float64", nstreams=60), mode=mode)[0]
            np.testing.assert_array_max_ulp(found, expected, units)
            found = drawn(lambda r: r.normal((400,), avg=1.5, std=0.3, dtype="float64", nstreams=60), mode=mode)[0]
            # FAST_RUN may fuse the product and the sum, so that the product is not rounded.
            np.testing.assert_allclose(
                found, expected * 0.3 + 1.5, rtol=0, atol=units * 2.0**-52 + 2.0**-53 * (units > 0)
            )

    def test_truncated(self):
        wanted = [0.11492142, -1.86845603, 0.8076485, -0.88401707, 0.07152878]
        for mode in (PLAIN, NATIVE):
            np.testing.assert_allclose(
                drawn(lambda r: r.truncated_normal((5,), dtype="float64"), mode=mode)[0], wanted, atol=2e-8
            )
            np.testing.assert_allclose(
                drawn(lambda r: r.truncated_normal((6,), avg=1, std=3, dtype="float32"), mode=mode)[0],
                [1.3447638, -4.6053686, 3.4229455, -1.6520517, 1.214587, -0.6200105],
                rtol=1e-5,
            )
        (cut,) = drawn(lambda r: r.normal((20001,), truncate=True, dtype="float64"), seed=5)
        self.assertLessEqual(abs(cut).max(), 2)
        self.assertGreater(stats.kstest(cut, stats.truncnorm(-2, 2).cdf).pvalue, 1e-3)
        # If a value is above 2, its radius is drawn again, and its angle is kept. Such an angle often gives large
        # values, so the squares of the new values are greater on average than those of all values.
        angle = np.linspace(0, 2 * np.pi, 100001)[1:] + 1e-7
        weight = np.exp(-2 / np.cos(angle) ** 2)
        again = (weight * np.cos(angle) ** 2).sum() / weight.sum() * 2 * (1 - 3 * np.exp(-2)) / (1 - np.exp(-2))
        far = 2 * stats.norm.sf(2)
        variance = ((1 - far) * stats.truncnorm(-2, 2).var() + far * again) / stats.truncnorm(-2, 2).var() * 4
        (whole,) = drawn(lambda r: r.truncated_normal((200000,), avg=-3, std=2, dtype="float64"), seed=6)
        self.assertAlmostEqual(whole.var(), variance, delta=3 * ((whole + 3) ** 2).std() / 200000**0.5)
        self.assertAlmostEqual(whole.mean(), -3, delta=3 * 2 / 200000**0.5)
        size = T.lvector()
        f = theano.function([size], MRG_RandomStreams(1).truncated_normal(size, ndim=1, dtype="float64"), mode=NATIVE)
        self.assertEqual([f([n]).shape for n in (0, 1, 2, 999)], [(0,), (1,), (2,), (999,)])

    def test_normal_statistics(self):
        for dtype in ("float32", "float64"):
            (sample,) = drawn(lambda r: r.normal((40000,), dtype=dtype, avg=2, std=5), seed=80)
            self.assertGreater(stats.kstest(sample.astype("float64"), stats.norm(2, 5).cdf).pvalue, 1e-3)
        x = T.dvector()
        f = theano.function([x], MRG_RandomStreams(4).normal((3, 2), avg=x, std=x * 2, dtype="float64"), mode=PLAIN)
        g = theano.function([], MRG_RandomStreams(4).normal((3, 2), dtype="float64"), mode=PLAIN)
        np.testing.assert_allclose(f([1, 2]), g() * [2, 4] + [1, 2])

    def test_binomial(self):
        np.testing.assert_array_equal(drawn(lambda r: r.binomial((6,)))[0], [0, 1, 0, 0, 1, 0])
        self.assertEqual(drawn(lambda r: r.binomial((6,), dtype="float32"))[0].dtype, "float32")
        (sample,) = drawn(lambda r: r.binomial((20000,), p=0.3), seed=81)
        self.assertGreater(stats.binomtest(int(sample.sum()), 20000, 0.3).pvalue, 1e-3)
        for n in (2, 5):
            (sample,) = drawn(lambda r: r.binomial((20000,), n=n, p=0.3), seed=82)
            expected = stats.binom(n, 0.3).pmf(np.arange(n + 1)) * 20000
            self.assertGreater(stats.chisquare(np.bincount(sample, minlength=n + 1), expected).pvalue, 1e-3)
        self.assertEqual(drawn(lambda r: r.binomial((3,), n=0))[0].tolist(), [0, 0, 0])
        size, p = T.lvector(), T.dvector()
        f = theano.function([size, p], MRG_RandomStreams(1).binomial(size, n=3, p=p, ndim=2), mode=PLAIN)
        sample = f([1000, 2], [0, 1])
        self.assertTrue((sample[:, 0] == 0).all() and (sample[:, 1] == 3).all())

    def test_multinomial_and_choice(self):
        pvals = np.array([[0.98, 0.01, 0.01], [0.01, 0.49, 0.50]])
        np.testing.assert_array_equal(drawn(lambda r: r.multinomial(pvals=pvals))[0], [[1, 0, 0], [0, 1, 0]])
        np.testing.assert_array_equal(drawn(lambda r: r.multinomial(pvals=pvals, n=2))[0], [[2, 0, 0], [0, 1, 1]])
        np.testing.assert_array_equal(drawn(lambda r: r.choice(size=2, replace=False, p=pvals))[0], [[0, 2], [1, 2]])
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            np.testing.assert_array_equal(
                drawn(lambda r: r.multinomial_wo_replacement(n=2, pvals=pvals))[0], [[0, 2], [1, 2]]
            )
        rows = np.tile([0.2, 0.3, 0.5], (5000, 1))
        (sample,) = drawn(lambda r: r.multinomial(pvals=rows, n=4), seed=83)
        self.assertTrue((sample.sum(1) == 4).all())
        self.assertGreater(stats.chisquare(sample.sum(0), np.array([0.2, 0.3, 0.5]) * 20000).pvalue, 1e-3)
        (sample,) = drawn(lambda r: r.choice(p=rows, size=2, replace=False), seed=84)
        self.assertTrue((sample[:, 0] != sample[:, 1]).all())
        self.assertGreater(
            stats.chisquare(np.bincount(sample[:, 0], minlength=3), np.array([0.2, 0.3, 0.5]) * 5000).pvalue, 1e-3
        )

    def test_choice_with_replacement(self):
        """The choices in a row are independent; a row may have more choices than there are categories."""
        p = np.array([0.2, 0.3, 0.5])
        rows = np.tile(p, (5000, 1))
        (sample,) = drawn(lambda r: r.choice(p=rows, size=2), seed=85)
        pairs = np.bincount(3 * sample[:, 0] + sample[:, 1], minlength=9)
        self.assertGreater(stats.chisquare(pairs, 5000 * np.outer(p, p).ravel()).pvalue, 1e-3)
        (sample,) = drawn(lambda r: r.choice(p=rows[:4], size=7, nstreams=6))
        self.assertEqual((sample.shape, sample.dtype), ((4, 7), "int64"))
        # the result for each row is the first category whose cumulative sum exceeds the uniform number
        (unis,) = drawn(lambda r: r.uniform((4 * 7,), dtype=theano.config.floatX, nstreams=6))
        np.testing.assert_array_equal(sample, np.searchsorted(np.cumsum(p), unis, side="right").reshape(7, 4).T)


class TestStreams(unittest.TestCase):
    def test_seeds(self):
        """Invalid seeds are refused with the messages of Theano 1.0.5."""
        for seed, error, said in (
            (0, ValueError, "seed should not be 0"),
            (-1, ValueError, "seed should not be negative"),
            (m1, ValueError, "seed should be less than 2147462579"),
            (m2, ValueError, "seed should be less than 2147462579"),
            ([1, 2, 3, 4, 5], TypeError, "seed should be 1 integer or 6 integers"),
            ([0, 0, 0, 4, 5, 6], ValueError, "The first 3 values of seed should not be all 0"),
            ([1, 2, 3, 0, 0, 0], ValueError, "The last 3 values of seed should not be all 0"),
            ([m1, 2, 3, 0, 0, 1], ValueError, "The first 3 values of seed should be less than 2147483647"),
            ([1, 2, 3, 0, 0, m2], ValueError, "The last 3 values of seed should be less than 2147462579"),
            ([1, 2, 3, 0, -1, 1], ValueError, "seed should not be negative"),
            ([1, 2, 3, 4, 5, 6.5], TypeError, "seed should be 1 integer or 6 integers"),
            ("abcdef", TypeError, "seed should be 1 integer or 6 integers"),
            (1.5, TypeError, "seed should be 1 integer or 6 integers"),
            (None, TypeError, "seed should be 1 integer or 6 integers"),
        ):
            with self.subTest(seed=seed), self.assertRaisesRegex(error, said):
                MRG_RandomStreams(seed)
        for seed in (5, np.int64(5), [5] * 6, (5,) * 6, np.full(6, 5)):
            self.assertEqual(MRG_RandomStreams(seed).rstate.tolist(), [5] * 6)
        self.assertEqual(MRG_RandomStreams(seed=7, use_cuda=False).rstate.dtype, "int32")

    def test_states_of_streams(self):
        r = MRG_RandomStreams()
        states = r.get_substream_rstates(3, "float32")
        self.assertEqual(
            states.tolist(),
            [
                [12345] * 6,
                [1613322692, 623311037, 1722317882, 1563970864, 792350268, 619030428],
                [951422716, 416944718, 1329311079, 1678647957, 55905791, 588091391],
            ],
        )
        self.assertEqual(r.rstate.tolist(), [336690377, 597094797, 1245771585, 85196284, 523477687, 2094976052])
        r.get_substream_rstates(3, "float32", inc_rstate=False)
        self.assertEqual(r.rstate[0], 336690377)
        for n, error in ((0, ValueError), (-1, ValueError), (2.5, TypeError), (True, TypeError)):
            with self.assertRaises(error):
                r.get_substream_rstates(n, "float32")

    def test_seeding_again(self):
        r = MRG_RandomStreams()
        a, b = r.uniform((3,)), r.uniform((2,))
        f = theano.function([], [a, b], mode=PLAIN)
        first = f()
        f()
        self.assertIsNone(r.seed())
        for one, other in zip(first, f()):
            np.testing.assert_array_equal(one, other)
        r.seed(7)
        self.assertEqual(r.state_updates[0][0].get_value()[0].tolist(), [7] * 6)
        self.assertEqual(
            r.state_updates[1][0].get_value()[0].tolist(),
            [2102967935, 387042188, 1636760154, 751181838, 1042107552, 160181906],
        )
        self.assertEqual(r.rstate.tolist(), [626873255, 1707255787, 1905059325, 948633244, 952787838, 311685372])
        state = r.state_updates[0][0].get_value()
        with self.assertRaises(ValueError):
            r.seed(0)
        np.testing.assert_array_equal(r.state_updates[0][0].get_value(), state)
        self.assertEqual(r.rstate[0], 626873255)

    def test_guess(self):
        sizes = [
            (),
            (1,),
            (5,),
            (6,),
            (7,),
            (100,),
            (1000, 3),
            (60 * 256,),
            (60 * 256 * 6,),
            (10**6,),
            (17, 2),
            [100],
            (T.lscalar(), 2),
            T.lvector(),
            3,
        ]
        self.assertEqual(
            [guess_n_streams(size) for size in sizes],
            [1, 1, 5, 6, 1, 16, 500, 2560, 15360, 15360, 5, 16, 15360, 15360, 15360],
        )
        self.assertEqual(MRG_RandomStreams().n_streams((100,)), 16)
        with self.assertWarnsRegex(UserWarning, "guessing 15360"):
            guess_n_streams(T.lvector(), warn=True)

    def test_target(self):
        """The argument `target` of each method is the device of the states.

        `gpuarray.tests.test_random` tests devices.
        """
        pvals = np.full((2, 3), 1 / 3)
        draws = (
            lambda r, **target: r.uniform((2, 3), **target),
            lambda r, **target: r.binomial((2, 3), **target),
            lambda r, **target: r.binomial((2, 3), n=2, **target),
            lambda r, **target: r.binomial((2, 3), n=0, **target),
            lambda r, **target: r.multinomial(pvals=pvals, **target),
            lambda r, **target: r.choice(p=pvals, replace=False, **target),
            lambda r, **target: r.normal((2, 3), truncate=True, **target),
            lambda r, **target: r.truncated_normal((2, 3), **target),
        )

        for draw in draws:
            sample, expected = draw(MRG_RandomStreams(7), target="cpu"), draw(MRG_RandomStreams(7))
            np.testing.assert_array_equal(theano.function([], sample)(), theano.function([], expected)())
            for target in ("no such context", None):
                r = MRG_RandomStreams(7)
                state = r.rstate
                # Hide all contexts, because other tests in this process may have defined the context None.
                refused = self.assertRaisesRegex(TypeError, "No suitable SharedVariable constructor")
                with mock.patch.object(contexts, "_contexts", {}), refused:
                    draw(r, target=target)
                np.testing.assert_array_equal(r.rstate, state)
            with self.assertRaises(TypeError) as raised:
                draw(MRG_RandomStreams(7), target="cpu", foo=3)
            self.assertEqual(str(raised.exception), "uniform() got unexpected keyword arguments dict_keys(['foo'])")

    def test_refused(self):
        r, pvals = MRG_RandomStreams(), np.array([[0.5, 0.5]])
        state = r.rstate
        for call, error, said in (
            (lambda: r.uniform((0,)), ValueError, "dimension with value <= 0"),
            (lambda: r.uniform((-1,)), ValueError, "dimension with value <= 0"),
            (
                lambda: r.uniform(3),
                TypeError,
                "size must be a tuple of int or a Theano Variable with 1 dimension, got 3",
            ),
            (lambda: r.uniform(None), TypeError, "size must be a tuple of int"),
            (lambda: r.uniform((2.5,)), TypeError, "size must be a tuple of int"),
            (lambda: r.uniform(T.lmatrix()), TypeError, "size must be a tuple of int"),
            (lambda: r.uniform((T.lvector(),)), TypeError, "size must be a tuple of int"),
            (lambda: r.uniform(T.lvector()), ValueError, "length"),
            (lambda: r.uniform(T.dvector(), ndim=1), TypeError, "integer"),
            (lambda: r.uniform((2, 3), ndim=1), ValueError, "ndim should be equal to len"),
            (lambda: r.uniform((3,), dtype="int32"), TypeError, "float16, float32 or float64"),
            (lambda: r.uniform((3,), foo=3), TypeError, "unexpected keyword"),
            (lambda: r.uniform((3,), nstreams=0), ValueError, "positive"),
            (lambda: r.uniform((3,), low=T.dmatrix()), ValueError, "size must contain all dimensions"),
            (lambda: r.normal((3,), avg=T.dmatrix()), ValueError, "size must contain all dimensions"),
            (lambda: r.normal((3,), dtype="int32"), TypeError, "float16, float32 or float64"),
            (lambda: r.binomial((3,), n=-1), ValueError, "n < 0"),
            (lambda: r.binomial((3,), n=2.5), TypeError, "n must be an int"),
            (lambda: r.multinomial(), TypeError, "You have to specify pvals"),
            (lambda: r.multinomial(pvals=[0.5, 0.5]), NotImplementedError, "pvals.ndim = 2"),
            (lambda: r.multinomial(pvals=pvals, size=(3,)), ValueError, "Provided a size argument"),
            (lambda: r.multinomial(pvals=pvals, ndim=3), ValueError, "Provided an ndim argument"),
            (lambda: r.multinomial(pvals=pvals, n=-1), ValueError, "must not be negative"),
            (lambda: r.multinomial(pvals=pvals, n=1.5), TypeError, "must be an integer"),
            (lambda: r.choice(p=pvals, replace=False, a=3), TypeError, "a has to be None"),
            (lambda: r.choice(replace=False), TypeError, "p has to be specified"),
            (lambda: r.choice(replace=False, p=[0.5, 0.5]), NotImplementedError, "p.ndim = 2"),
            (lambda: r.choice(replace=False, p=pvals, ndim=1), ValueError, "ndim argument"),
            (lambda: r.choice(replace=False, p=pvals, size=(2,)), TypeError, "must be an integer"),
        ):
            with self.subTest(said), self.assertRaisesRegex(error, said):
                call()
        self.assertEqual(r.state_updates, [])
        np.testing.assert_array_equal(r.rstate, state)
        for bad in (
            lambda: mrg_uniform(T.lvector),
            lambda: mrg_uniform(T.dvector)(T.lmatrix(), T.lvector()),
            lambda: mrg_uniform(T.dvector)(T.imatrix(), T.dvector()),
        ):
            with self.assertRaises(TypeError):
                bad()

    def test_transfer_of_states(self):
        """A program transfers states as in the tutorial: it sets the state of each update, and `rstate`."""

        class Graph:
            def __init__(self, seed):
                self.rng = MRG_RandomStreams(seed)
                self.y = self.rng.uniform(size=(1,))

        g1, g2 = Graph(seed=123), Graph(seed=987)
        f1, f2 = theano.function([], g1.y, mode=PLAIN), theano.function([], g2.y, mode=PLAIN)
        self.assertNotEqual(f1(), f2())
        g2.rng.rstate = g1.rng.rstate
        for (su1, _), (su2, _) in zip(g1.rng.state_updates, g2.rng.state_updates):
            su2.set_value(su1.get_value())
        np.testing.assert_array_equal(f1(), f2())
        self.assertEqual(g1.rng.updates(), g1.rng.state_updates)

    def test_pickles(self):
        r = MRG_RandomStreams(5)
        u = r.uniform((3,))
        f = theano.function([], [u, r.normal((4,))], mode=PLAIN)
        f()
        twin, copied = pickle.loads(pickle.dumps(f)), copy.deepcopy(f)
        wanted = f()
        for other in (twin(), copied()):
            for a, b in zip(wanted, other):
                np.testing.assert_array_equal(a, b)
        again = pickle.loads(pickle.dumps(r))
        # Restore streams from the state that a pickle of Theano 1.0 contains.
        old = MRG_RandomStreams.__new__(MRG_RandomStreams)
        updates = [update + size for update, size in zip(r.state_updates, [((3,), None), ((T.lscalar(),), 7)])]
        old.__setstate__({"state_updates": updates, "default_instance_seed": 5, "rstate": r.rstate})
        self.assertEqual(old.updates(), r.updates())
        for streams, lengths in ((again, [3, 15360]), (old, [3, 7])):
            streams.seed(5)
            states = [state.get_value() for state, _ in streams.state_updates]
            self.assertEqual(states[0][0].tolist(), [5] * 6)
            self.assertEqual([len(state) for state in states], lengths)

    def test_in_scan(self):
        """Each step draws new samples, also in nested loops. The gradient uses the samples of the forward loop."""
        r, x = MRG_RandomStreams(7), T.dvector()
        ys, updates = theano.scan(lambda v: v * r.uniform((3,), dtype="float64"), sequences=x)
        f = theano.function([x], [ys, T.grad(ys.sum(), x)], updates=updates)
        u = theano.function([], MRG_RandomStreams(7).uniform((3,), dtype="float64"), mode=PLAIN)
        for _ in range(2):
            noise = np.stack([u() for _ in range(3)])
            sample, gradient = f([1, 2, 3])
            np.testing.assert_allclose(sample, noise * np.array([[1.0], [2], [3]]))
            np.testing.assert_allclose(gradient, noise.sum(1))
        r, x = MRG_RandomStreams(8), T.dmatrix()

        def row(v):
            return theano.scan(lambda a: a * r.uniform((), dtype="float64"), sequences=v)

        ys, updates = theano.scan(row, sequences=x)
        f = theano.function([x], ys, updates=updates)
        u = theano.function([], MRG_RandomStreams(8).uniform((), dtype="float64"), mode=PLAIN)
        for _ in range(2):
            np.testing.assert_allclose(f(np.ones((2, 3))).ravel(), [u() for _ in range(6)])

    def test_in_inner_graphs(self):
        r, x = MRG_RandomStreams(7), T.dvector()
        u = r.uniform((3,), dtype="float64")
        op = theano.OpFromGraph([x, u], [x * u])
        f = theano.function([x], op(x, u))
        draw = theano.function([], MRG_RandomStreams(7).uniform((3,), dtype="float64"), mode=PLAIN)
        for _ in range(2):
            np.testing.assert_allclose(f([1, 2, 3]), draw() * [1, 2, 3])

    def test_a_failing_call(self):
        """A failing call leaves the states unchanged."""
        for shape in ((3,), (1000, 100)):
            r, i = MRG_RandomStreams(7), T.lscalar()
            u = r.uniform(shape)
            f = theano.function([i], u[i], mode=NATIVE)
            ((state, _),) = r.state_updates
            for _ in range(2):
                f(0)
                before = state.get_value()
                with self.assertRaises(IndexError):
                    f(100000)
                np.testing.assert_array_equal(state.get_value(), before)

    def test_derivatives(self):
        r, x = MRG_RandomStreams(7), T.dvector()
        u = r.uniform((3,), dtype="float64")
        f = theano.function([x], [T.grad((u * x).sum(), x), u], mode=PLAIN)
        np.testing.assert_array_equal(*f([1, 2, 3]))
        f = theano.function([x], [T.Rop(u * x, x, T.ones_like(x)), u], mode=PLAIN)
        np.testing.assert_array_equal(*f([1, 2, 3]))
        # The length of x determines the number of draws, but not their values.
        sized = MRG_RandomStreams(7).uniform(x.shape, ndim=1, dtype="float64")
        np.testing.assert_array_equal(theano.function([x], T.grad((sized + x).sum(), x), mode=PLAIN)([1, 2]), [1, 1])
        for parameter in ("avg", "std"):
            with self.assertRaises(theano.gradient.NullTypeGradError):
                T.grad(r.normal((3,), **{parameter: x}).sum(), x)
        for parameter in ("low", "high"):
            with self.assertRaises(theano.gradient.NullTypeGradError):
                T.grad(r.uniform((3,), **{parameter: x}).sum(), x)

    def test_merging(self):
        """Nodes that draw from the same state are merged. Nodes that draw from different states are not."""
        r = MRG_RandomStreams(7)
        u, v = r.uniform((3,), dtype="float64"), r.uniform((3,), dtype="float64")
        state = r.state_updates[0][0]
        same = mrg_uniform(T.dvector)(state, as_tensor_variable(np.array([3])))[1]
        f = theano.function([], [u, v, same, u + v - v])
        a, b, c, d = f()
        self.assertFalse(np.array_equal(a, b))
        np.testing.assert_array_equal(a, c)
        np.testing.assert_allclose(a, d)
        self.assertEqual(len([n for n in f.maker.fgraph.apply_nodes if isinstance(n.op, mrg_uniform)]), 2)

    def test_debug_mode(self):
        """DebugMode and Python code draw equal samples of each kind.

        DebugMode also checks that results do not depend on the previous contents of output arrays.
        """
        r, x, size = MRG_RandomStreams(7), T.dvector(), T.lvector()
        pvals = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
        samples = [
            r.uniform((3,), dtype="float64") * x,
            r.normal(size, ndim=2, dtype="float32"),
            r.truncated_normal((30,), dtype="float64"),
            r.multinomial(pvals=pvals, n=3),
            r.choice(p=pvals, replace=False, size=2),
            r.uniform((5,), dtype="float16"),
            r.binomial((4,), n=3),
        ]
        f = theano.function([x, size], samples, mode="DebugMode")
        g = theano.function([x, size], samples, mode=PLAIN)
        for _ in range(2):
            before = [s.get_value() for s, _ in r.state_updates]
            found = f([1, 2, 3], [3, 5])
            for (state, _), value in zip(r.state_updates, before):
                state.set_value(value)
            for one, other in zip(found, g([1, 2, 3], [3, 5])):
                np.testing.assert_allclose(one, other, rtol=2e-6)
