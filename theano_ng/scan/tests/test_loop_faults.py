"""Tests of loops in Python, in C step by step, and as one C function: exchanged rows, unusual arrays, errors, leaks."""

import gc
import threading
import unittest
import weakref
from unittest import mock

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.ops import as_op
from theano_ng.gof._native import live_objects
from theano_ng.scan import loop
from theano_ng.scan.op import Scan
from theano_ng.scan.tests.test_loop import AT_ONCE, NO_KERNEL, PYTHON, info

RNG = np.random.RandomState(5)
A, B = RNG.randn(5, 3), RNG.randn(5, 3) + 9
X, Y = RNG.randn(1, 3), RNG.randn(1, 3)
W = RNG.randn(3, 3)
FIVE = np.int64(5)


def function(op, arguments, mode):
    outer = [T.as_tensor_variable(a).type() for a in arguments]
    return theano.function(outer, op(*outer, return_list=True), mode=mode, on_unused_input="ignore")


class Loops(unittest.TestCase):
    def each(self, make, arguments, wanted):
        """Run a loop twice in Python, twice in C, and twice in C step by step. Check the outputs.

        Outputs must not share memory with each other or with arguments.
        """
        given = [np.array(a) for a in arguments]
        for way in ("Python", "C", "C step by step"):
            with self.subTest(way=way):
                if way == "C step by step":
                    with NO_KERNEL:
                        f = function(make(), arguments, "FAST_RUN")
                        found = [f(*arguments) for _ in range(2)]
                else:
                    f = function(make(), arguments, PYTHON if way == "Python" else "FAST_RUN")
                    found = [f(*arguments) for _ in range(2)]
                for values in found:
                    self.assertEqual(len(values), len(wanted))
                    for k, (value, expected) in enumerate(zip(values, wanted)):
                        np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-12)
                        others = [*arguments, *values[:k]]
                        self.assertFalse(any(np.shares_memory(value, other) for other in others))
                for before, after in zip(given, arguments):
                    np.testing.assert_array_equal(before, after)


class TestTradingPlaces(Loops):
    """A step's output may be a view of its input, and that input may be overwritten in the same step."""

    def setUp(self):
        self.a, self.b, self.o = T.dvectors("a", "b", "o")

    def swap(self, view):
        layout = {"n_mit_mot": 2, "n_mit_mot_outs": 2, "tap_array": [[0], [0]], "mit_mot_out_slices": [[0], [0]]}
        return lambda: Scan([self.a, self.b], [view(self.b), view(self.a)], info(**layout))

    def test_two_buffers_of_mit_mot(self):
        self.each(self.swap(lambda v: v), [FIVE, A, B], [B, A])
        self.each(self.swap(lambda v: v[::-1]), [FIVE, A, B], [B[:, ::-1], A[:, ::-1]])

    def test_two_rows_of_one_buffer(self):
        buffer = RNG.randn(6, 3)
        wanted = np.roll(buffer, -1, axis=0)
        layout = {"n_mit_mot": 1, "n_mit_mot_outs": 2, "tap_array": [[0, 1]], "mit_mot_out_slices": [[0, 1]]}
        self.each(lambda: Scan([self.a, self.b], [self.b, self.a], info(**layout)), [FIVE, buffer], [wanted])

    def test_states_of_one_row(self):
        p, q = X[0], Y[0]
        for _ in range(5):
            p, q = q, p[::-1]
        make = lambda: Scan([self.a, self.b], [self.b, self.a[::-1]], info(n_sit_sot=2, tap_array=[[-1], [-1]]))
        self.each(make, [FIVE, X, Y], [p[None], q[None]])

    def test_rings_of_two_rows(self):
        start = RNG.randn(2, 3)
        p, q = list(start), list(start + 1)
        for _ in range(5):
            p, q = [p[1], q[0][::-1]], [q[1], p[0]]
        c, d = T.dvectors("c", "d")
        layout = {"n_mit_sot": 2, "tap_array": [[-2, -1], [-2, -1]]}
        self.each(
            lambda: Scan([self.a, self.b, c, d], [c[::-1], self.a], info(**layout)), [FIVE, start, start + 1], [p, q]
        )

    def test_condition_is_a_row(self):
        a = T.TensorType("bool", ())()
        until = np.array([True])
        make = lambda: Scan([a], [T.invert(a), a], info(n_sit_sot=1, tap_array=[[-1]], as_while=True))
        self.each(make, [FIVE, until], [np.array([False])])
        self.each(make, [FIVE, ~until], [np.array([False])])

    def shared(self, outputs, n, arguments, wanted):
        self.each(lambda: Scan([self.a, self.b], outputs, info(n_nit_sot=1, n_shared_outs=n)), arguments, wanted)

    def test_shared_variables_swap(self):
        a, b = self.a, self.b
        rows = np.array([X[0] - Y[0], Y[0] - X[0]] * 3)[:5]
        self.shared([a - b, b, a], 2, [FIVE, X[0], Y[0], FIVE], [rows, Y[0], X[0]])

    def test_shared_variables_become_the_same(self):
        a, b = self.a, self.b
        rows = np.array([X[0] + Y[0], X[0] * 4])
        self.shared([a + b, a * 2, a * 2], 2, [np.int64(2), X[0], Y[0], np.int64(2)], [rows, X[0] * 4, X[0] * 4])

    def test_shared_variable_becomes_a_non_sequence(self):
        rows = np.array([X[0] + Y[0]] + [Y[0] * 2] * 4)
        self.shared([self.a + self.b, self.b], 1, [FIVE, X[0], FIVE, Y[0]], [rows, Y[0]])

    def test_shared_variable_stays(self):
        self.shared([self.a + self.b, self.a], 1, [FIVE, X[0], FIVE, Y[0]], [[X[0] + Y[0]] * 5, X[0]])

    def test_no_steps_leave_shared_variables(self):
        zero = np.int64(0)
        self.shared(
            [self.a + self.b, self.a * 2, self.b * 2], 2, [zero, X[0], Y[0], zero], [np.empty((0, 3)), X[0], Y[0]]
        )

    def test_shared_variable_becomes_a_row_that_is_overwritten(self):
        p, s = X[0], Y[0]
        for _ in range(5):
            p, s = p + s, p
        make = lambda: Scan(
            [self.a, self.b], [self.a + self.b, self.a], info(n_sit_sot=1, tap_array=[[-1]], n_shared_outs=1)
        )
        self.each(make, [FIVE, X, Y[0]], [p[None], s])

    def test_shared_variable_becomes_a_row_of_a_sequence(self):
        make = lambda: Scan([self.a, self.b], [self.a * 2, self.a], info(n_seqs=1, n_nit_sot=1, n_shared_outs=1))
        self.each(make, [FIVE, A, X[0], FIVE], [A * 2, A[4]])

    def test_shared_variable_is_a_view_of_what_a_step_computes(self):
        for view in (lambda v: v[::-1], np.tanh):
            s, rows = X[0], []
            for _ in range(5):
                rows.append(s + 1)
                s = view(W.dot(s))
            symbolic = T.tanh if view is np.tanh else view
            make = lambda: Scan([self.a], [self.a + 1, symbolic(T.dot(W, self.a))], info(n_nit_sot=1, n_shared_outs=1))
            self.each(make, [FIVE, X[0], FIVE], [rows, s])


class TestLengths(Loops):
    def test_result_that_keeps_no_rows(self):
        a = T.dvector()
        make = lambda: Scan([a], [a * 2, T.dot(W, a)], info(n_seqs=1, n_nit_sot=2))
        self.each(make, [FIVE, A, np.int64(0), FIVE], [np.empty((0, 3)), A.dot(W.T)])

    def test_no_steps_on_a_buffer_without_rows(self):
        a = T.dvector()
        make = lambda: Scan([a], [a * 2], info(n_sit_sot=1, tap_array=[[-1]]))
        self.each(make, [np.int64(0), np.empty((0, 3))], [np.empty((0, 3))])

    def test_rows_without_elements(self):
        a = T.dvector()
        make = lambda: Scan([a], [a * 2], info(n_sit_sot=1, tap_array=[[-1]]))
        self.each(make, [np.int64(3), np.zeros((4, 0))], [np.zeros((4, 0))])

    def test_condition_after_the_first_step(self):
        a = T.dvector()
        make = lambda: Scan(
            [a], [a * 2, a, a.sum() < 100], info(n_sit_sot=1, n_nit_sot=1, tap_array=[[-1]], as_while=True)
        )
        buffer = np.concatenate([X, np.zeros((5, 3))])
        self.each(make, [FIVE, buffer, FIVE], [[X[0], X[0] * 2], X])
        self.each(make, [FIVE, X, np.int64(1)], [X * 2, X])

    def test_numbers_beside_vectors(self):
        a, n = T.dvector(), T.dscalar()
        p, q = [X[0]], [1.5]
        for _ in range(5):
            p, q = [*p, p[-1] * 0.5 + q[-1]], [*q, q[-1] * 0.5]
        make = lambda: Scan([a, n], [a * 0.5 + n, n * 0.5], info(n_sit_sot=2, tap_array=[[-1], [-1]]))
        buffers = [np.zeros((6, 3)), np.zeros(6)]
        buffers[0][0], buffers[1][0] = p[0], q[0]
        self.each(make, [FIVE, *buffers], [p, q])
        self.each(make, [FIVE, *[b[:1] for b in buffers]], [p[-1:], q[-1:]])

    def test_vectors_beside_matrices(self):
        a, m = T.dvector(), T.dmatrix()
        p, q = [X[0]], [W]
        for _ in range(5):
            p, q = [*p, p[-1] * 0.5 + 1], [*q, q[-1] * q[-1] - 0.5]
        make = lambda: Scan([a, m], [a * 0.5 + 1, m * m - 0.5], info(n_sit_sot=2, tap_array=[[-1], [-1]]))
        buffers = [np.zeros((6, 3)), np.zeros((6, 3, 3))]
        buffers[0][0], buffers[1][0] = p[0], q[0]
        self.each(make, [FIVE, *buffers], [p, q])


class TestOddArrays(Loops):
    def arrays(self):
        """Return unusual arrays with the shape of A, for instance unaligned ones. None of them shares memory with A."""
        unaligned = np.frombuffer(bytearray(b"\0" + A.tobytes()), np.uint8)[1:].view("f8").reshape(5, 3)
        read_only = A.copy()
        read_only.flags.writeable = False
        return {
            "unaligned": unaligned,
            "backwards": A.copy()[::-1],
            "backwards rows": A.copy()[:, ::-1],
            "Fortran": np.asfortranarray(A),
            "every other": np.repeat(A, 2, axis=0)[::2],
            "no stride": np.broadcast_to(A[0].copy(), (5, 3)),
            "read-only": read_only,
            "matrix": A.copy().view(np.matrix),
            "byte order": A.astype(">f8"),
        }

    def test_sequences_and_states(self):
        a = T.dvector()
        for name, value in self.arrays().items():
            for step in (T.tanh, lambda v: T.tanh(T.dot(np.eye(3), v))):
                with self.subTest(name=name):
                    plain = np.array(value, "f8", subok=False)
                    self.each(
                        lambda: Scan([a], [step(a)], info(n_seqs=1, n_nit_sot=1)), [FIVE, value, FIVE], [np.tanh(plain)]
                    )
                    for t in range(4):
                        plain[t + 1] = np.tanh(plain[t])
                    self.each(
                        lambda: Scan([a], [step(a)], info(n_sit_sot=1, tap_array=[[-1]])), [np.int64(4), value], [plain]
                    )

    def test_matrices(self):
        m = T.dmatrix()
        wide = RNG.randn(5, 4, 3)
        for value in (wide, np.asfortranarray(wide), wide[:, ::-1], wide[..., ::-1], wide.transpose(0, 2, 1)):
            for step, of in (
                (lambda v: T.tanh(v) * 2, lambda v: np.tanh(v) * 2),
                (lambda v: T.dot(v.T, v), lambda v: v.T @ v),
            ):
                wanted = [of(row) for row in value]
                self.each(lambda: Scan([m], [step(m)], info(n_seqs=1, n_nit_sot=1)), [FIVE, value, FIVE], [wanted])

    def test_broadcastable_rows(self):
        row = T.TensorType("float64", (True,))()
        odd = np.lib.stride_tricks.as_strided(np.arange(40.0), (5, 1), (16, 24))
        self.each(lambda: Scan([row], [row * 2], info(n_seqs=1, n_nit_sot=1)), [FIVE, odd, FIVE], [odd * 2])
        one = np.lib.stride_tricks.as_strided(np.arange(40.0), (1, 3), (56, 8))
        a = T.dvector()
        self.each(lambda: Scan([a], [a + 1], info(n_sit_sot=1, tap_array=[[-1]])), [FIVE, one], [one + 5])

    def test_in_place(self):
        """A loop that may overwrite a buffer is correct, even if the layout of the buffer prevents overwriting."""
        a, b = T.dvectors("a", "b")
        for name in self.arrays():
            for way in ("C", "C step by step"):
                value = self.arrays()[name]
                with self.subTest(name=name, way=way):
                    op = Scan(
                        [a, b], [T.tanh(b) + a], info(n_seqs=1, n_sit_sot=1, tap_array=[[-1]], destroy_map={0: [2]})
                    )
                    outer = [T.lscalar(), T.dmatrix(), theano.In(T.dmatrix(), mutable=True, borrow=True)]
                    build = lambda: theano.function(
                        outer, op(*[getattr(v, "variable", v) for v in outer]), accept_inplace=True
                    )
                    if way == "C":
                        f = build()
                        found = f(4, A[:4], value)
                    else:
                        with NO_KERNEL:
                            f = build()
                            found = f(4, A[:4], value)
                    plain = np.array(self.arrays()[name], "f8", subok=False)
                    for t in range(4):
                        plain[t + 1] = np.tanh(plain[t]) + A[t]
                    np.testing.assert_allclose(found, plain)

    def test_the_same_array_for_a_sequence_and_a_state(self):
        a, b = T.dvectors("a", "b")
        op = Scan([a, b], [b * 0.5 + a], info(n_seqs=1, n_sit_sot=1, tap_array=[[-1]], destroy_map={0: [2]}))
        seq, state = T.dmatrices("seq", "state")
        n = T.lscalar()
        f = theano.function([n, seq, theano.In(state, mutable=True)], op(n, seq, state), accept_inplace=True)
        wanted = A.copy()
        for t in range(4):
            wanted[t + 1] = wanted[t] * 0.5 + A[t]
        given = A.copy()
        np.testing.assert_allclose(f(4, given, given), wanted)


class TestArrays(unittest.TestCase):
    """Tests of a loop's C function on arrays. If the function cannot continue, the virtual machine takes over."""

    def both(self, make):
        """Return two functions, one with the C function and one without. They have equal stack traces.

        Without a compiler, neither has a C function.
        """
        functions = []
        for patch in (AT_ONCE, NO_KERNEL):
            with patch:
                functions.append(make())
                (op,) = (n.op for n in functions[-1].maker.fgraph.toposort() if isinstance(n.op, Scan))
                self.assertEqual(
                    getattr(op.inner_graph.kernel(op), "layout", None) is None,
                    patch is NO_KERNEL or not theano.config.cxx,
                )
        return functions

    def same(self, functions, *arguments):
        found, wanted = (f(*arguments) for f in functions)
        np.testing.assert_array_equal(found, wanted)
        return found

    def same_failure(self, functions, kind, *arguments):
        texts = []
        for f in functions:
            with self.assertRaises(kind) as caught:
                f(*arguments)
            texts.append(str(caught.exception))
        self.assertEqual(*texts)
        return texts[0]

    def test_index_out_of_bounds(self):
        places, x = T.lvector("places"), T.dvector("x")
        step = lambda i, s, p: [s * 0.5 + x[p] * s.sum(), i]
        start = [T.ones_like(x), np.int64(0)]
        functions = self.both(lambda: theano.function([places, x], theano.scan(step, places, start)[0][0]))
        for given in ([0, 2, -3, 1, -1], [1]):
            self.same(functions, given, X[0])
        for given, at in (([0, 1, 3, 0], 3), ([-4, 0], 1), ([0, 2**62, 0], 2), ([-(2**63), 0], 1)):
            text = self.same_failure(functions, IndexError, given, X[0])
            self.assertIn("The error occurred in step %d of the loop" % at, text)
            self.assertIn("test_loop_faults.py", text)
            self.same(functions, [0, 2], X[0])

    def test_written_out_of_bounds(self):
        places, x = T.bvector("places"), T.dvector("x")
        for write in (T.set_subtensor, T.inc_subtensor):
            step = lambda i, s: write(s[i], s[0] + 1)
            functions = self.both(lambda: theano.function([places, x], theano.scan(step, places, x)[0][-1]))
            self.same(functions, np.int8([0, 1, -1]), X[0])
            self.assertIn("step 1 of the loop", self.same_failure(functions, IndexError, np.int8([0, -4]), X[0]))

    def test_zero_divides_an_integer(self):
        x, rate = T.lvector("x"), T.lvector("rate")
        for step in (lambda r, s: s // r + s.max(), lambda r, s: s + s.sum() // r):
            functions = self.both(lambda: theano.function([x, rate], theano.scan(step, rate, x)[0]))
            self.same(functions, [5, -7, 9], [1, 2, 3])
            text = self.same_failure(functions, ZeroDivisionError, [5, -7, 9], [1, 2, 0, 3])
            self.assertIn("step 2 of the loop", text)

    def test_shapes_that_do_not_fit(self):
        x, m = T.dvector("x"), T.dmatrix("m")
        functions = self.both(
            lambda: theano.function([x, m], theano.scan(lambda s: T.dot(m, s) / s.sum(), outputs_info=x, n_steps=3)[0])
        )
        self.same(functions, X[0], W)
        for matrix in (np.ones((3, 4)), np.ones((4, 3)), np.ones((4, 4))):
            self.same_failure(functions, ValueError, X[0], matrix)
        self.same(functions, X[0], W)

    def test_lengths_that_change_between_calls(self):
        x, m = T.dvector("x"), T.dmatrix("m")

        def step(s):
            return T.tanh(T.dot(m, s) + T.max(m + s, axis=1) * s.sum())

        functions = self.both(lambda: theano.function([x, m], theano.scan(step, outputs_info=x, n_steps=4)[0]))
        for n in (3, 1, 5, 40, 3, 0, 70, 3):
            self.same(functions, RNG.randn(n), RNG.randn(n, n))

    def test_arrays_that_are_not_contiguous(self):
        x, m = T.dvector("x"), T.dmatrix("m")
        functions = self.both(
            lambda: theano.function([x, m], theano.scan(lambda s: T.dot(m, s) / s.sum(), outputs_info=x, n_steps=3)[0])
        )
        for matrix in (W.T, W[::-1], np.ones((6, 6))[::2, ::2], W.astype(">f8")):
            self.same(functions, RNG.rand(6)[::2], matrix)

    def test_until_in_a_loop_over_vectors(self):
        x = T.dvector("x")

        def step(s):
            return s * 0.5, theano.scan_module.until(abs(s).max() < 0.1)

        functions = self.both(lambda: theano.function([x], theano.scan(step, outputs_info=x, n_steps=50)[0]))
        self.assertEqual(self.same(functions, np.array([1.0, -3.0, 0.5])).shape, (6, 3))

    def test_nothing_is_kept(self):
        x = T.dvector("x")
        with AT_ONCE:
            f = theano.function([x], theano.scan(lambda s: s / s.sum(), outputs_info=x, n_steps=3)[0])
        f(np.ones(4))
        gc.collect()
        before = live_objects()
        for n in (4, 5, 200000, 4):
            f(np.ones(n))
        self.assertEqual(live_objects(), before)

    def test_many_steps(self):
        """The virtual machine runs the first steps; the loop is compiled when many steps have run."""
        x, n = T.dvector("x"), T.lscalar("n")
        given = np.array([3.0, -1.0, 0.5])
        for hot in (10, 1):
            with mock.patch.object(loop, "HOT_STEPS", hot):
                rate = np.float64(RNG.rand())  # a random constant, so that no earlier test has compiled this loop
                f = theano.function([x, n], theano.scan(lambda s: s * rate / s.sum(), outputs_info=x, n_steps=n)[0])
            for steps in (4, 5, 3, 40, 2):
                state, found = given, f(given, steps)
                for row in found:
                    state = state * rate / state.sum()
                    np.testing.assert_allclose(row, state, rtol=1e-12)

    def test_sums_of_many(self):
        """The C function and the virtual machine give equal bits, also for vectors so long that sums split them."""
        x = T.vector("x", dtype="float32")
        for n in (2047, 2048, 2049, 4096, 4097, 10000):
            step = lambda s: s / s.sum() + (s * s).sum() * np.float32(0.01) - T.max(abs(s))
            functions = self.both(lambda: theano.function([x], theano.scan(step, outputs_info=x, n_steps=3)[0]))
            self.same(functions, RNG.rand(n).astype("float32"))


class Failing(Exception):
    pass


class TestFailures(unittest.TestCase):
    def make(self, raises, updates=()):
        """Return a loop with a Python node that fails if a value exceeds 3."""
        self.exception = raises

        @as_op(itypes=[T.dvector], otypes=[T.dvector])
        def checked(x):
            if x[0] > 3:
                raise self.exception
            return x + 1

        a, b = T.dvectors("a", "b")
        op = Scan(
            [a, b],
            [checked(a), b * 2, checked(a) * b, b + 1],
            info(n_sit_sot=1, n_nit_sot=2, n_shared_outs=1, tap_array=[[-1]]),
        )
        outer = [T.lscalar(), T.dmatrix(), T.dvector(), T.lscalar(), T.lscalar()]
        return theano.function(outer, op(*outer), mode="FAST_RUN")

    def call(self, f, first):
        buffer = np.zeros((4, 2))
        buffer[0] = first
        return f(3, buffer, np.ones(2), 3, 3)

    def test_called_again_after_a_failure(self):
        for raises in (Failing, KeyboardInterrupt, MemoryError):
            f = self.make(raises)
            wanted = [np.array(v) for v in self.call(f, 0)]
            for _ in range(3):
                with self.assertRaises(raises):
                    self.call(f, 2)
                for value, expected in zip(self.call(f, 0), wanted):
                    np.testing.assert_array_equal(value, expected)

    def test_a_failure_tells_of_the_step(self):
        with self.assertRaisesRegex(Failing, "(?s)step 2 of the loop"):
            self.call(self.make(Failing), 2)

    def test_row_of_another_shape(self):
        a = T.dvector()
        op = Scan([a], [T.concatenate([a, a])], info(n_sit_sot=1, tap_array=[[-1]]))
        f = function(op, [FIVE, A], "FAST_RUN")
        for _ in range(2):
            with self.assertRaisesRegex(ValueError, "rows of shape"):
                f(4, A.copy())

    def test_sequence_that_is_too_short(self):
        a = T.dvector()
        f = function(Scan([a], [a * 2], info(n_seqs=1, n_nit_sot=1)), [FIVE, A, FIVE], "FAST_RUN")
        for _ in range(2):
            with self.assertRaisesRegex(ValueError, "(?s)shorter.*5 rows, but there are 6"):
                f(6, A, 6)
            np.testing.assert_array_equal(f(5, A, 5)[0], A * 2)

    def test_nothing_is_kept(self):
        """Neither successful nor failed calls keep references to arrays or leave live objects."""
        f = self.make(Failing)

        class Watched(np.ndarray):
            pass

        def call(first):
            buffer = np.zeros((4, 2)).view(Watched)
            buffer[0] = first
            watched = weakref.ref(buffer)
            try:
                f(3, buffer, np.ones(2), 3, 3)
            except Failing as failure:
                failure.__traceback__ = failure.__cause__ = failure.__context__ = None
            return watched

        for first in (0, 2):
            for _ in range(2):
                watched = call(first)
                gc.collect()
                self.assertIsNone(watched())
        before = live_objects()
        for _ in range(20):
            call(0)
            call(2)
        gc.collect()
        self.assertEqual(live_objects(), before)

    def test_functions_that_are_gone(self):
        def cycle():
            a = T.dvector()
            for step in (T.tanh, lambda v: T.dot(W, v)):
                f = function(Scan([a], [step(a)], info(n_seqs=1, n_nit_sot=1)), [FIVE, A, FIVE], "FAST_RUN")
                f(5, A, 5)

        cycle()
        gc.collect()
        before = live_objects()
        for _ in range(3):
            cycle()
        gc.collect()
        self.assertEqual(live_objects(), before)


class TestSeveral(unittest.TestCase):
    def test_two_nodes_of_one_op(self):
        a = T.dvector()
        for step, expected in ((T.tanh, np.tanh), (lambda v: T.dot(W, v), lambda v: v.dot(W.T))):
            op = Scan([a], [step(a)], info(n_seqs=1, n_nit_sot=1))
            n, x, y = T.lscalar(), T.dmatrix(), T.dmatrix()
            f = theano.function([n, x, y], [op(n, x, n), op(n, op(n, y, n), n)])
            for _ in range(2):
                first, second = f(5, A, B)
                np.testing.assert_allclose(first, expected(A))
                np.testing.assert_allclose(second, expected(expected(B)))

    def test_two_threads(self):
        a = T.dvector()
        op = Scan([a], [T.tanh(T.dot(W, a))], info(n_sit_sot=1, tap_array=[[-1]]))
        starts = [np.concatenate([x, np.zeros((200, 3))]) for x in (X, Y)]
        functions = [function(op, [FIVE, A], "FAST_RUN") for _ in starts]
        wanted = [f(200, start) for f, start in zip(functions, starts)]
        wrong = []

        def work(f, start, expected):
            for _ in range(50):
                if not np.array_equal(f(200, start), expected):
                    wrong.append(1)

        threads = [threading.Thread(target=work, args=row) for row in zip(functions, starts, wanted)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_deep_nesting(self):
        """A function of twenty nested loops gives the correct result. Each loop is in the step of the next loop."""
        row, steps = T.dvector(), T.lscalar()
        inner = T.tanh(T.dot(row, row)) * row
        for _ in range(20):
            op = Scan([row, steps], [inner], info(n_sit_sot=1, tap_array=[[-1]]))
            row, steps = T.dvector(), T.lscalar()
            inner = op(steps, row.dimshuffle("x", 0), steps)[0]
        # Steps are compiled in the configured mode, which must not be DebugMode: DebugMode runs the loop of each level
        # several times, and the numbers of runs multiply over twenty levels.
        with theano.change_flags(mode="FAST_RUN"):
            f = theano.function([row, steps], inner)
            np.testing.assert_allclose(f(X[0], 1), np.tanh(X[0].dot(X[0])) * X[0])


if __name__ == "__main__":
    unittest.main()
