"""Random loops give equal results in Python, in C step by step, and as one C function."""

import unittest
from unittest import mock

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import scalar
from theano_ng.compile.mode import Mode
from theano_ng.scan import loop as loop_in_python
from theano_ng.scan.op import Scan, StepGraph
from theano_ng.tensor.elemwise import Elemwise
from theano_ng.tests.split_tests import parts, split_tests

PYTHON = Mode("py", None)
AT_ONCE = mock.patch.object(loop_in_python, "HOT_STEPS", 0)
NO_KERNEL = mock.patch.object(StepGraph, "kernel", lambda *args: None)


def info(**entries):
    """Return the info of a loop: the given entries, and zero or empty values for all others."""
    counts = dict.fromkeys(
        ("n_seqs", "n_mit_mot", "n_mit_mot_outs", "n_mit_sot", "n_sit_sot", "n_shared_outs", "n_nit_sot"), 0
    )
    return {**counts, "tap_array": [], "mit_mot_out_slices": [], "as_while": False, "name": "loop", **entries}


class RandomLoop:
    """A loop with random groups, taps, dtypes and arithmetic, and arguments for it.

    Parameters
    ----------
    rng : RandomState
    products : bool
        Whether steps may contain products of vectors and matrices.
    """

    shapes = (), (3,), (2, 3)
    dtypes = "float64", "float32"

    def __init__(self, rng, products):
        self.rng = rng
        self.dtype = str(rng.choice(self.dtypes))
        self.shape = self.shapes[rng.randint(len(self.shapes))]
        self.n_steps = int(rng.choice([0, 1, 2, 7, 20]))
        n = {name: rng.randint(3) for name in ("seqs", "mit_sot", "sit_sot", "nit_sot", "others")}
        n["mit_mot"], n["shared"] = rng.randint(2), rng.randint(2) * rng.randint(2)
        if n["mit_mot"] + n["mit_sot"] + n["sit_sot"] + n["nit_sot"] == 0:
            n["nit_sot"] = 1
        self.as_while = bool(rng.randint(4) == 0)
        taps = [sorted(set(rng.randint(-2, 3, 3).tolist())) for _ in range(n["mit_mot"])]
        written = [sorted(set(rng.randint(-1, 3, 2).tolist())) for _ in range(n["mit_mot"])]
        taps += [(-np.unique(rng.randint(1, 5, 2))).tolist() for _ in range(n["mit_sot"])]
        taps += [[-1]] * n["sit_sot"]
        row = T.TensorType(self.dtype, (False,) * len(self.shape))
        number = T.TensorType(self.dtype, ())
        seqs = [row() if rng.randint(3) else number() for _ in range(n["seqs"])]
        rows = [row() for read in taps for _ in read]
        counters = [T.lscalar() for _ in range(n["shared"])]
        others = [row() if rng.randint(2) else number() for _ in range(n["others"])]
        inputs = [*seqs, *rows, *counters, *others]
        self.sources = list(inputs) or [T.constant(np.full(self.shape, 0.25, self.dtype))]
        if products and self.shape:
            others.append(row())
            inputs.append(others[-1])
            self.sources.append(T.dot(T.tanh(others[-1]), np.eye(3, dtype=self.dtype) * 0.5))
        n_written = sum(map(len, written)) + n["mit_sot"] + n["sit_sot"] + n["nit_sot"]
        outputs = [self.expression() for _ in range(n_written)] + [c + 2 for c in counters]
        if self.as_while:
            outputs.append(self.expression().real.sum() > 0.9 * max(1, np.prod(self.shape)))
        self.op = Scan(
            inputs,
            outputs,
            info(
                n_seqs=n["seqs"],
                n_mit_mot=n["mit_mot"],
                n_mit_mot_outs=sum(map(len, written)),
                n_mit_sot=n["mit_sot"],
                n_sit_sot=n["sit_sot"],
                n_shared_outs=n["shared"],
                n_nit_sot=n["nit_sot"],
                tap_array=taps,
                mit_mot_out_slices=written,
                as_while=self.as_while,
            ),
        )
        self.arguments = [np.int64(self.n_steps)]
        self.arguments += [self.value((self.n_steps + rng.randint(2), *self.shape[: v.ndim])) for v in seqs]
        for i, read in enumerate(taps):
            lead = self.op.lead(i)
            most = max(lead + self.n_steps + max(read + self.op.output_taps(i)), 1)
            short = i >= n["mit_mot"] and rng.randint(2)
            length = rng.randint(lead, lead + 3) if short else lead + self.n_steps if i >= n["mit_mot"] else most
            self.arguments.append(self.value((max(length, 1), *self.shape)))
        self.arguments += [np.int64(5) for _ in counters]
        self.arguments += [np.int64(max(1, self.n_steps - rng.randint(3))) for _ in range(n["nit_sot"])]
        self.arguments += [self.value(self.shape[: v.ndim] if v.ndim else ()) for v in others]

    def value(self, shape):
        return np.asarray(self.rng.uniform(-1, 1, shape), self.dtype) * (
            1 + 0.5j if self.dtype.startswith("complex") else 1
        )

    def expression(self):
        """Return a random expression with bounded values and the shape of rows."""
        choose = lambda: self.sources[self.rng.randint(len(self.sources))]
        a, b, c = choose(), choose(), choose()
        found = [lambda: T.tanh(a * 0.5 + b), lambda: a * b - c * 0.25, lambda: T.maximum(a, -b) * 0.75][
            self.rng.randint(3)
        ]()
        full = T.constant(np.zeros(self.shape, self.dtype))
        return T.cast(T.clip(found, -1, 1) + full, self.dtype)

    def reference(self):
        """Return the outputs, computed with plain lists of rows."""
        op, arguments = self.op, self.arguments
        step = theano.function(op.inputs, op.outputs, mode=PYTHON, on_unused_input="ignore")
        buffers = [b.copy() for b in arguments[1 + op.n_seqs : 1 + op.n_seqs + op.n_states]]
        # For each state that is not a mit_mot: a dict from time step to row.
        times = [
            {t - op.lead(i): row for t, row in enumerate(buffer[: op.lead(i)])} if i >= op.n_mit_mot else None
            for i, buffer in enumerate(buffers)
        ]
        shared, results, done = op.outer_shared(arguments), [[] for _ in range(op.n_nit_sot)], 0
        while done < self.n_steps:
            rows = [
                buffers[i][op.lead(i) + done + tap] if times[i] is None else times[i][done + tap]
                for i, taps in enumerate(op.tap_array)
                for tap in taps
            ]
            given = [s[done] for s in op.outer_seqs(arguments)] + rows + shared + op.outer_non_seqs(arguments)
            found = iter(step(*given))
            for i in range(op.n_states):
                for tap in op.output_taps(i):
                    if times[i] is None:
                        buffers[i][op.lead(i) + done + tap] = next(found)
                    else:
                        times[i][done] = next(found)
            for result in results:
                result.append(next(found))
            shared = [next(found) for _ in shared]
            done += 1
            if op.as_while and next(found):
                break
        for i, kept in enumerate(times):
            if kept is not None:
                last = [kept[t] for t in sorted(kept)][-len(buffers[i]) :]
                if done == 0:
                    last = list(buffers[i][: op.lead(i)])
                buffers[i] = np.array(last, self.dtype).reshape((len(last), *self.shape))
        lengths = op.outer_nitsot(arguments)
        results = [
            np.array(r[-int(k) :], self.dtype).reshape((min(len(r), int(k)), *self.shape))
            for r, k in zip(results, lengths)
        ]
        return buffers + results + shared

    def function(self, mode=None):
        outer = [T.as_tensor_variable(a).type() for a in self.arguments]
        f = theano.function(outer, self.op(*outer, return_list=True), mode=mode, on_unused_input="ignore")
        return f


class RandomNumbers(RandomLoop):
    """A loop of operations on real or complex numbers, in rows of one or more blocks."""

    shapes = (), (1,), (3,), (2, 3), (65,), (2500,)
    dtypes = "float64", "float32", "complex128", "complex64"

    def expression(self):
        """Return a random expression with bounded values and the shape of rows."""
        a, b, c, d = (self.sources[self.rng.randint(len(self.sources))] for _ in range(4))
        found = of_numbers[self.rng.randint(len(of_numbers))](a, b, c, d)
        full = T.constant(np.zeros(self.shape, self.dtype))
        return T.cast(found / (1 + abs(found)) + full, self.dtype)


of_numbers = [
    lambda a, b, c, d: a * b - c * d,
    lambda a, b, c, d: a * 0.5 + b,
    lambda a, b, c, d: -a * b + T.sqr(c),
    lambda a, b, c, d: T.switch(T.gt(a.real, b.real), c, d * 0.25),
    lambda a, b, c, d: T.switch(T.eq(a, b), c, d),
    lambda a, b, c, d: a * abs(b) - T.conj(c),
    lambda a, b, c, d: a / (2 + b) - c * 0.5,
    lambda a, b, c, d: T.sgn(c - a) * d,
    lambda a, b, c, d: T.maximum(a, b) - c.real + d.imag,
    lambda a, b, c, d: T.switch(T.gt(a.real, b.real), a * b, c) - d * a,
    lambda a, b, c, d: a * b + T.maximum(c, d) * b,
    lambda a, b, c, d: -(a * b) - (-(c * d) - a),
    lambda a, b, c, d: T.exp(-abs(a)) * b + T.tanh(c.real) * d,
]


class RandomArrays(RandomLoop):
    """A loop that also reduces, multiplies by a matrix, broadcasts and indexes, on rows of many lengths."""

    shapes = (), (1,), (3,), (17,), (150,), (2, 3), (1, 3), (4, 3), (5, 40), (20, 70)

    def expression(self):
        """Return a random expression with bounded values and the shape of rows."""
        sources = [v for v in self.sources if v.ndim == len(self.shape)] or self.sources
        a, b, c = (sources[self.rng.randint(len(sources))] for _ in range(3))
        if not self.shape or a.ndim == 0:
            return super().expression()
        found = [make(a, b, c) for make in self.choose((vectors if a.ndim == 1 else matrices) + anything)]
        return T.cast(T.clip(sum(found) / len(found), -1, 1), self.dtype)

    def choose(self, makers):
        return [makers[self.rng.randint(len(makers))] for _ in range(self.rng.randint(1, 4))]


def index(v, length):
    """Return an integer from 0 to length - 1 that depends on the values of v."""
    return T.minimum(T.cast(abs(v).max() * length, "int64"), length - 1)


def outer(a, b):
    """Return the square matrix ``tanh(a[i] + b[j])`` of two vectors."""
    return T.tanh(a.dimshuffle(0, "x") + b.dimshuffle("x", 0))


anything = [
    lambda a, b, c: a / (1 + abs(b).sum()),
    lambda a, b, c: T.exp(a - a.max()) * b,
    lambda a, b, c: T.switch(T.any(a > 0.5), b, c * 0.5),
    lambda a, b, c: a * T.tanh((b * c).sum()),
    lambda a, b, c: T.switch(T.all(a > b), a, b.min() + c * 0.1),
    lambda a, b, c: a * T.prod(b) + T.tanh(c),
    lambda a, b, c: a - b.mean() // 1,
]
vectors = [
    lambda a, b, c: T.dot(outer(a, b), c) * 0.5,
    lambda a, b, c: T.dot(a, outer(b, c)) + b * 0.25,
    lambda a, b, c: c + T.dot(outer(a, c), b),
    lambda a, b, c: a * T.tanh(T.dot(b, c)),
    lambda a, b, c: a + b[index(c, c.shape[0])],
    lambda a, b, c: a * b[-1] - c[0],
    lambda a, b, c: T.set_subtensor(a[index(b, a.shape[0])], 0.5),
    lambda a, b, c: T.inc_subtensor(a[-1], c[0] * b.sum()),
    lambda a, b, c: T.max(outer(a, b), axis=0) * c,
    lambda a, b, c: T.sum(outer(a, b) * 0.1, axis=1) + T.cast(T.argmax(c), c.dtype) * 0.01,
    lambda a, b, c: T.tanh(outer(a, b)[:, index(c, c.shape[0])]),
    lambda a, b, c: outer(a, b)[index(c, c.shape[0])],
    lambda a, b, c: T.nnet.softmax(outer(a, b))[0] * c,
]
matrices = [
    lambda a, b, c: a - b.mean(axis=0) * c,
    lambda a, b, c: a * b.sum(axis=1, keepdims=True) * 0.1,
    lambda a, b, c: a / (1 + abs(b + c).sum(axis=0)),
    lambda a, b, c: T.nnet.softmax(a) - b,
    lambda a, b, c: a + T.max(b * c, axis=1).dimshuffle(0, "x"),
    lambda a, b, c: a * b[index(c, c.shape[0])],
    lambda a, b, c: T.dot(a, b[0]).dimshuffle(0, "x") * c * 0.1,
    lambda a, b, c: a + b[:, index(c, c.shape[1])].dimshuffle(0, "x"),
    lambda a, b, c: T.set_subtensor(a[index(b, a.shape[0])], c[0]),
    lambda a, b, c: a[:, 2].dimshuffle(0, "x") * T.exp(-abs(b)) + T.argmax(c, axis=1).dimshuffle(0, "x") * 0.01,
    lambda a, b, c: T.tanh(a.T).T * b,
]


class TestNegatedSums(unittest.TestCase):
    """Tests of steps in which one node computes ``x * y + z`` as one instruction, and another node negates the sum."""

    def check(self, broadcastable):
        x, y, z = [scalar.float64(name) for name in "xyz"]
        mul_add = Elemwise(scalar.Composite([x, y, z], [x * y + z]))
        row = T.TensorType("float64", broadcastable)
        rows, state = T.TensorType("float64", (False, *broadcastable)), row("state")
        a, b, c = [rows(name) for name in "abc"]
        mode = Mode("cvm", None)  # rewriting would merge the nodes

        def step(a, b, c, h):
            return T.neg(mul_add(a, b, h)), T.clip(h + c, -0.5, 0.5)

        (found, _), _ = theano.scan(step, [a, b, c], [None, state], mode=mode)
        numbers = [-0.5, -0.0, 0.0, 0.5, 1.0]
        values = [
            np.array(np.broadcast_to(v.reshape(-1, *[1] * row.ndim), (125, *[7] * row.ndim)))
            for v in np.meshgrid(numbers, numbers, numbers)
        ]
        h, expected = np.full([7] * row.ndim, 0.5), []
        for p, q, r in zip(*values):
            expected.append(-(p * q + h))
            h = np.clip(h + r, -0.5, 0.5)
        for flags in ({"tiered": "off"}, {"cxx": ""}):
            with theano.config.change_flags(**flags), AT_ONCE:
                f = theano.function([a, b, c, state], found, mode=mode)
            got = f(*values, np.full([7] * row.ndim, 0.5))
            np.testing.assert_array_equal(got, expected)
            np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))

    def test_numbers(self):
        self.check(())

    def test_rows(self):
        self.check((False,))


@split_tests
class TestRandomLoops(unittest.TestCase):
    """Random loops give correct results, also in a second call, in which storage still contains old values."""

    def compare(self, seed, products, kind=RandomLoop, interpreted=False):
        loop = kind(np.random.RandomState(seed), products)
        wanted = loop.reference()
        given = [np.array(a) for a in loop.arguments]
        functions, tiers = [loop.function(PYTHON)], [{"tiered": "off"}, *[{"cxx": ""}] * interpreted]
        for flags in tiers:
            for way in (AT_ONCE, NO_KERNEL):
                with theano.config.change_flags(**flags), way:
                    functions.append(loop.function("FAST_RUN"))
        found = [f(*given) for f in functions for _ in range(2)]
        for values in zip(*found[2:]):
            for value in values[1:]:
                np.testing.assert_array_equal(value, values[0])
        for values in found:
            for value, expected in zip(values, wanted):
                tolerance = 1e-4 if loop.dtype in ("float32", "complex64") else 1e-12
                np.testing.assert_allclose(value, expected, rtol=tolerance, atol=tolerance)
                self.assertEqual(value.dtype, expected.dtype)
        for value, expected in zip(loop.arguments, given):
            np.testing.assert_array_equal(value, expected)
        return loop

    @parts(8)
    def test_arithmetic(self, part):
        kernels = 0
        for seed in range(5 * part, 5 * part + 5):
            with self.subTest(seed=seed):
                op = self.compare(seed, False, interpreted=True).op
                kernels += op.inner_graph.kernel(op) is not None
        if theano.config.cxx:
            self.assertGreater(kernels, 0)

    @parts(6)
    def test_interpreter(self, part):
        """An interpreted loop gives the same bits as its kernel. When the kernel is compiled, it runs the loop."""
        programs = 0
        for seed in range(2000 + 5 * part, 2005 + 5 * part):
            with self.subTest(seed=seed):
                op = self.compare(seed, False, RandomNumbers, interpreted=True).op
                kernel = op.inner_graph.kernel(op)
                programs += kernel is not None and kernel.layout is None and kernel.kernel.interpretation() is not None
        self.assertGreater(programs, 0)

    @parts(10)
    def test_arrays(self, part):
        written = 0
        for seed in range(1000 + 6 * part, 1006 + 6 * part):
            with self.subTest(seed=seed):
                op = self.compare(seed, False, RandomArrays).op
                kernel = op.inner_graph.kernel(op)
                written += kernel is not None and kernel.layout is not None
        if theano.config.cxx:
            self.assertGreater(written, 0)

    @parts(3)
    def test_products(self, part):
        for seed in range(100 + 5 * part, 105 + 5 * part):
            with self.subTest(seed=seed):
                self.compare(seed, True)


@NO_KERNEL
class TestBuffers(unittest.TestCase):
    """The buffers of states and results, when the virtual machine runs the steps."""

    def test_two_rows(self):
        """The last two rows of a state are in the order of time, after even and odd numbers of steps."""
        n, x = T.iscalar(), T.dmatrix()
        states, _ = theano.scan(lambda h: T.tanh(h) + 1, outputs_info=x, n_steps=n)
        for index in (-1, slice(-2, None), -2):
            f = theano.function([n, x], states[index])
            for steps in (2, 3, 4, 3, 2, 7):
                value, rows = np.arange(6.0).reshape(2, 3) / 7, []
                for _ in range(steps):
                    value = np.tanh(value) + 1
                    rows.append(value)
                found = f(steps, np.arange(6.0).reshape(2, 3) / 7)
                np.testing.assert_allclose(found, np.array(rows)[index], rtol=1e-13)

    def test_results_of_other_shapes(self):
        """The buffer of a result fits the first row of each call, whatever the previous call returned."""
        x, n = T.dmatrix(), T.iscalar()
        rows, _ = theano.scan(
            lambda k, a: [T.dot(a, a.T) * k, (a * k).sum(axis=0)], sequences=T.arange(n), non_sequences=x
        )
        for linker in ("cvm", "cvm_nogc", "vm"):
            f = theano.function([x, n], rows, mode=Mode(linker, "fast_run"))
            kept = []
            for shape, steps in (
                ((2, 3), 4),
                ((2, 3), 4),
                ((4, 3), 4),
                ((4, 5), 2),
                ((2, 3), 0),
                ((2, 3), 5),
                ((0, 3), 3),
            ):
                a = np.arange(float(np.prod(shape))).reshape(shape) + 1
                found = f(a, steps)
                want = [np.array([a @ a.T * k for k in range(steps)]), np.array([(a * k).sum(0) for k in range(steps)])]
                for here, there in zip(found, want):
                    np.testing.assert_allclose(here, there.reshape((steps, *here.shape[1:])))
                kept.append((found, [v.copy() for v in found]))
            for found, copies in kept:  # later calls do not overwrite earlier results
                for here, there in zip(found, copies):
                    np.testing.assert_array_equal(here, there)

    def test_a_first_step_that_fails(self):
        x, y = T.dmatrix(), T.dmatrix()
        rows, _ = theano.scan(lambda k, a, b: T.dot(a, b) * k, sequences=T.arange(3), non_sequences=[x, y])
        f = theano.function([x, y], rows)
        a, b = np.ones((2, 3)), np.ones((3, 4))
        for _ in range(3):
            np.testing.assert_array_equal(f(a, b), np.array([a @ b * k for k in range(3)]))
            self.assertRaises(ValueError, f, a, a)


class TestProductsOfVectors(unittest.TestCase):
    """Inner products in a step are correct for all dtypes, also for those that BLAS does not have."""

    def test_dtypes(self):
        for first, second in (
            ("float64", "float64"),
            ("float32", "float64"),
            ("float64", "int8"),
            ("int64", "int64"),
            ("bool", "int32"),
            ("bool", "bool"),
            ("complex64", "complex128"),
        ):
            with self.subTest(first=first, second=second):
                x, y = T.vector(dtype=first), T.vector(dtype=second)
                step = lambda total, x, y: T.dot(x * T.cast(abs(total) > 1, first), y)
                totals, _ = theano.scan(step, outputs_info=T.dot(x, y), non_sequences=[x, y], n_steps=3)
                with AT_ONCE, theano.config.change_flags(tiered="off"):
                    f = theano.function([x, y], totals)
                    values, factors = np.array([3, 0], first), np.array([2, 1], second)
                    expected = np.dot(values, factors)
                    found = f(values, factors)
                self.assertEqual(found.dtype, expected.dtype)
                np.testing.assert_array_equal(found, [expected * (abs(expected) > 1)] * 3)


class TestKernels(unittest.TestCase):
    """Tests of loops that kernels can run, and of similar loops that kernels cannot run."""

    def functions(self, step, **given):
        """Yield functions that run a loop in Python, by a kernel, by an interpreted program, and step by step in C."""
        inputs = [v for v in [*given["outputs_info"], *given.get("sequences", [])] if v is not None]
        outputs, _ = theano.scan(step, n_steps=given.pop("n_steps", None), **given)
        yield theano.function(inputs, outputs, mode=PYTHON)
        for flags in ({"tiered": "off"}, {"cxx": ""}):
            for way in (AT_ONCE, NO_KERNEL):
                with theano.config.change_flags(**flags), way:
                    yield theano.function(inputs, outputs, mode="FAST_RUN")

    def test_states_of_several_shapes(self):
        vector, matrix = T.dvector(), T.dmatrix()
        s, m = np.arange(5.0), np.arange(12.0).reshape(3, 4) / 8
        wanted = [], []
        for _ in range(4):
            s, m = s * 0.5 + 1, m * m * 0.25 - 1
            wanted[0].append(s)
            wanted[1].append(m)
        for f in self.functions(lambda s, m: [s * 0.5 + 1, m * m * 0.25 - 1], outputs_info=[vector, matrix], n_steps=4):
            for got, want in zip(f(np.arange(5.0), np.arange(12.0).reshape(3, 4) / 8), wanted):
                np.testing.assert_allclose(got, want, rtol=1e-15)

    def test_constants(self):
        """A step may contain scalar and array constants."""
        for constant in (np.arange(3.0), np.float64(0.5), np.ones((1,)) * 0.25, np.float32(2)):
            state = T.dvector()
            s, wanted = np.array([1.0, -2.0, 4.0]), []
            for _ in range(3):
                s = s * constant + 1
                wanted.append(s)
            for f in self.functions(lambda s, c=constant: s * c + 1, outputs_info=[state], n_steps=3):
                np.testing.assert_allclose(f([1.0, -2.0, 4.0]), wanted, rtol=1e-15)

    def test_parts_at_each_step(self):
        """A step may index a non-sequence by elements of a sequence, and rows of a sequence by non-sequences."""
        x, places, rows, k = T.dvector("x"), T.lvector("places"), T.dmatrix("rows"), T.lscalar("k")
        steps = (lambda i: x[i : i + 2], lambda i: x[i], lambda i: x[i:].sum(), lambda i: x[:i:2].sum())
        values = np.arange(9.0) ** 2, np.array([3, 0, 5]), np.arange(12.0).reshape(3, 4), 1
        outputs = [theano.scan(step, sequences=[places])[0] for step in steps]
        outputs += [
            theano.scan(step, sequences=[rows])[0] for step in (lambda r: r[k:], lambda r: r[k], lambda r: r[1:3])
        ]
        wanted = [[values[0][i : i + 2] for i in values[1]], values[0][values[1]]]
        wanted += [[values[0][i:].sum() for i in values[1]], [values[0][:i:2].sum() for i in values[1]]]
        wanted += [values[2][:, 1:], values[2][:, 1], values[2][:, 1:3]]
        f = theano.function([x, places, rows, k], outputs, mode=Mode("cvm", "fast_run"))
        for got, want in zip(f(*values), wanted):
            np.testing.assert_array_equal(got, want)

    def test_integer_divisions(self):
        """Integer division works elementwise, for scalars, and next to reductions; a zero divisor is an error."""
        for kind, divisors in ((T.lvector, [[3, 5, -2], [1, -7, 4]]), (T.lscalar, [3, -4])):
            for more in (0, 1):
                state, sequence, divisors = kind(), T.tensor("int64", (False,) * (kind().ndim + 1)), np.array(divisors)

                def step(y, s, more=more):
                    return (s * 3 + 50 - (s.sum() if more else 0)) // y

                s = np.full(divisors.shape[1:], 11)
                wanted = []
                for y in divisors:
                    s = (s * 3 + 50 - (s.sum() if more else 0)) // y
                    wanted.append(s)
                zero = divisors.copy()
                zero[1:][..., -1:] = 0
                for f in self.functions(step, outputs_info=[state], sequences=[sequence]):
                    np.testing.assert_array_equal(f(np.full(divisors.shape[1:], 11), divisors), wanted)
                    with self.assertRaises(ZeroDivisionError):
                        f(np.full(divisors.shape[1:], 11), zero)


if __name__ == "__main__":
    unittest.main()
