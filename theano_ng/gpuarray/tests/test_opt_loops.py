"""Tests that loops whose rows and states are on a device give the results of the host."""

import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.configdefaults import config
from theano_ng.gof.graph import inputs as inputs_of
from theano_ng.gpuarray.tests.device import context
from theano_ng.gpuarray.transfers import as_gpuarray_variable
from theano_ng.gpuarray.type import GpuArrayType
from theano_ng.scan._loop import LoopThunk
from theano_ng.scan.op import Scan
from theano_ng.tensor.shared_randomstreams import RandomStreams


def modes():
    """Return the mode with a device, and the mode without a device, whatever the default mode is."""
    mode = theano.compile.mode.get_mode("FAST_RUN")
    return mode.including("gpuarray"), mode.excluding("gpuarray")


class TestLoops(unittest.TestCase):
    def setUp(self):
        context()
        self.rng = np.random.default_rng(3)
        self.x, self.v, self.s = T.matrix("x"), T.vector("v"), T.scalar("s")
        self.n, self.k = T.iscalar("n"), T.lvector("k")
        self.values = {
            self.x: self.rng.uniform(-1, 1, (6, 3)),
            self.v: self.rng.uniform(-1, 1, 3),
            self.s: 0.5,
            self.n: np.int32(4),
            self.k: np.array([2, 0, 1]),
        }

    def check(self, outputs, updates=None, loops=None, rtol=1e-6):
        """Check that loops on the device and on the host give equal results; return the function of the device."""
        inputs = [v for v in self.values if v in set(inputs_of(outputs))]
        here, there = [
            theano.function(inputs, outputs, updates=updates, mode=mode, on_unused_input="ignore") for mode in modes()
        ]
        values = [np.asarray(self.values[v]).astype(v.dtype) for v in inputs]
        for _ in range(2):
            for result, expected in zip(here(*values), there(*values)):
                self.assertEqual((result.dtype, result.shape), (expected.dtype, expected.shape))
                np.testing.assert_allclose(
                    np.asarray(result, "float64"), np.asarray(expected, "float64"), rtol=rtol, atol=1e-9
                )
        found = [node.op for node in here.maker.fgraph.apply_nodes if isinstance(node.op, Scan)]
        self.assertTrue(found)
        self.assertEqual([op.info.get("gpua") for op in found].count(True), len(found) if loops is None else loops)
        return here

    def test_states(self):
        """Loops may have two taps, results without a state, integer states, symbolic lengths and reverse order."""
        x, v, n = self.x, self.v, self.n
        (twice, sums), _ = theano.scan(
            lambda row, a, b, w: (T.tanh(row + a * b) * w, (a * w).sum()),
            sequences=x,
            outputs_info=[dict(initial=T.stack([v, v * 2]), taps=[-2, -1]), None],
            non_sequences=v,
        )
        back, _ = theano.scan(lambda row, a: a * 0.5 + row, sequences=x, outputs_info=v, go_backwards=True)
        counted, _ = theano.scan(lambda i, a: (i + 1, a * i), outputs_info=[np.int64(1), v], n_steps=n)
        self.check([twice, sums, back, *counted])

    def test_derivatives(self):
        x, v = self.x, self.v
        state, _ = theano.scan(lambda row, a, w: T.tanh(row + a * w), sequences=x, outputs_info=v, non_sequences=v)
        cost = (state**2).sum()
        first = theano.grad(cost, [x, v])
        self.check(first)
        self.check([theano.grad((first[1] ** 2).sum(), v)], rtol=1e-5)
        self.check([T.Rop(state[-1], v, x[0])])
        cut, _ = theano.scan(lambda row, a: T.tanh(row * a), sequences=x, outputs_info=v, truncate_gradient=3)
        self.check([theano.grad(cut[-1].sum(), x), theano.grad(cut[-1].sum(), v)])

    def test_until(self):
        v = self.v
        rows, _ = theano.scan(
            lambda a: (a * 2, theano.scan_module.until(T.gt(abs(a).max(), 50.0))), outputs_info=v, n_steps=100
        )
        f = self.check([rows, rows.shape[0]])
        self.assertLess(f(self.values[v])[1], 12)

    def test_no_steps(self):
        x, v = self.x, self.v
        self.values[x] = np.zeros((0, 3))
        rows, _ = theano.scan(lambda row, a: row + a, sequences=x, outputs_info=v)
        plain, _ = theano.scan(lambda row: row * 2, sequences=x)
        self.check([rows, plain])

    def test_half(self):
        x, v = self.x.astype("float16"), self.v.astype("float16")
        rows, _ = theano.scan(lambda row, a: (row + a).astype("float16"), sequences=x, outputs_info=v)
        self.check([rows], rtol=1e-2)

    def test_indices(self):
        """Integers that are used as indices stay on the host."""
        x, k = self.x, self.k
        rows, _ = theano.scan(lambda i, a: x[i] * 2 + a, sequences=k, outputs_info=T.zeros_like(x[0]))
        self.check([rows])

    def test_random(self):
        """Random generators stay on the host; the samples are transferred to the device."""
        v = self.v
        results = []
        for mode in modes():
            stream = RandomStreams(5)
            rows, updates = theano.scan(lambda a: a + stream.uniform(a.shape), outputs_info=v, n_steps=3)
            f = theano.function([v], rows, updates=updates, mode=mode)
            results.append([f(self.values[v]) for _ in range(2)])
        np.testing.assert_allclose(results[0], results[1])

    def test_updates(self):
        """Steps update shared variables on the host and on the device."""
        v = self.v
        for target in ("cpu", None):
            counter = theano.shared(np.zeros(3), target=target)
            rows, updates = theano.scan(lambda a: (a + counter, {counter: counter + 1}), outputs_info=v, n_steps=3)
            f = theano.function([v], rows, updates=updates, mode=modes()[0])
            f(np.zeros(3))
            np.testing.assert_array_equal(f(np.zeros(3))[:, 0], [3, 7, 12])
            np.testing.assert_array_equal(counter.get_value(), [6, 6, 6])

    def test_nested(self):
        x = self.x

        def row_of(row):
            inner, _ = theano.scan(lambda a, b: a * b, sequences=row, outputs_info=T.ones_like(row[0]))
            return inner

        rows, _ = theano.scan(row_of, sequences=x)
        self.check([rows, theano.grad(rows.sum(), x)])

    def test_rows_that_are_handed_on(self):
        """Results are correct if a step returns views of rows that later steps overwrite.

        The buffers of the states keep one row, a few rows or all rows.
        """
        x, v, n = self.x, self.v, self.n
        (a, b), _ = theano.scan(lambda a, b: (b, a), outputs_info=[v, v * 2], n_steps=n)
        turned, _ = theano.scan(lambda a: a[::-1] * 1, outputs_info=v, n_steps=n)
        older, _ = theano.scan(lambda a, b: a, outputs_info=dict(initial=x, taps=[-3, -1]), n_steps=n)
        shown, _ = theano.scan(lambda row, a: (row[::-1], row, a), sequences=x, outputs_info=[None, v, None])
        self.check([a, b, a[-1], b[-1], turned, turned[-1], older, older[-2:], *shown])

    def test_places(self):
        """Sequences may have any memory layout and 0-d rows; a loop may overwrite its initial state."""
        x, v = self.x, self.v
        for sequence in (x[::-1], x[::2], x.T[1:], x.dimshuffle(1, 0)[::-1]):
            rows, _ = theano.scan(lambda row, a: a * row.sum() + row.max(), sequences=sequence, outputs_info=v)
            self.check([rows, rows[-1]])
        numbers, _ = theano.scan(lambda number, a: a + number, sequences=v[::-1], outputs_info=self.s)
        self.check([numbers])

    def test_lengths_that_change(self):
        """Results are correct if the lengths of sequences and rows change from call to call.

        The loop must not reuse memory of the previous call if its size no longer fits.
        """
        x, v = self.x, self.v
        rows, _ = theano.scan(lambda row, a: (T.tanh(row + a), row * 2), sequences=x, outputs_info=[v, None])
        f = theano.function([x, v], rows, mode=modes()[0])
        for steps, length in ((3, 2), (3, 2), (5, 2), (5, 4), (0, 4), (1, 1)):
            value = self.rng.uniform(-1, 1, (steps, length)).astype(x.dtype)
            state, expected = np.zeros(length, v.dtype), []
            results = f(value, state)
            for row in value:
                state = np.tanh(row + state)
                expected.append(state)
            np.testing.assert_allclose(results[0], np.reshape(expected, (steps, length)), rtol=1e-6)
            np.testing.assert_allclose(results[1], value * 2)

    def test_rows_without_elements(self):
        x, v = self.x, self.v
        self.values[x], self.values[v] = np.zeros((4, 0)), np.zeros(0)
        rows, _ = theano.scan(lambda row, a: (row + a, row * 2), sequences=x, outputs_info=[v, None])
        self.check(rows)

    def test_failing_step(self):
        """If a step fails, the error names the node and the step.

        Shared variables keep their values, and the function can be called again.
        """
        x, v = self.x, self.v
        total = theano.shared(np.zeros(3, v.dtype))
        rows, _ = theano.scan(lambda row, a: a + T.concatenate([row, a])[: self.n] * v, sequences=x, outputs_info=v)
        f = theano.function([x, v, self.n], rows, updates={total: total + rows[-1]}, mode=modes()[0])
        values = [self.values[w].astype(w.dtype) for w in (x, v)]
        f(*values, 3)
        before = total.get_value()
        with self.assertRaisesRegex(ValueError, r"(?s)Apply node.*The error occurred in step 0 of the loop"):
            f(*values, 2)
        np.testing.assert_array_equal(total.get_value(), before)
        f(*values, 3)
        np.testing.assert_allclose(total.get_value(), 2 * before)

    def test_variables_of_devices(self):
        """Sequences, states, numbers of steps and results may be device variables, even without the device rules."""
        x, v, n = (GpuArrayType(w.dtype, w.broadcastable, "test")(w.name) for w in (self.x, self.v, self.n))
        sums, _ = theano.scan(lambda row, a: row + a, sequences=x, outputs_info=v)
        powers, _ = theano.scan(lambda a: as_gpuarray_variable(a * v, "test"), outputs_info=v, n_steps=n)
        values = [np.asarray(self.values[w]).astype(w.dtype) for w in (self.x, self.v, self.n)]
        given = [w.type.filter(value) for w, value in zip((x, v, n), values)]
        expected = np.cumsum(values[0], 0) + values[1], [values[1] ** (i + 2) for i in range(values[2])]
        for mode in modes():
            for found, value in zip(theano.function([x, v, n], [sums, powers], mode=mode)(*given), expected):
                np.testing.assert_allclose(np.asarray(found), value, rtol=1e-6)
            slopes = theano.function([v], [T.jacobian(v**2, v), T.hessian((v**3).sum(), v)], mode=mode)(given[1])
            np.testing.assert_allclose(np.asarray(slopes[0]), np.diag(2 * values[1]), rtol=1e-6)
            np.testing.assert_allclose(np.asarray(slopes[1]), np.diag(6 * values[1]), rtol=1e-6)

    @config.change_flags(mode="FAST_RUN")
    def test_in_c(self):
        """The linker cvm calls the steps from C, and the linker py calls them from Python. The results are equal."""
        x, v = self.x, self.v
        rows, _ = theano.scan(lambda row, a: T.tanh(row + a), sequences=x, outputs_info=v)
        values, found = [self.values[w].astype(w.dtype) for w in (x, v)], {}
        for linker in ("cvm", "py"):
            mode = theano.Mode(linker, "fast_run").including("gpuarray")
            f = theano.function([x, v], rows, mode=mode)
            (place,) = [i for i, n in enumerate(f.fn.nodes) if isinstance(n.op, Scan)]
            self.assertEqual(isinstance(f.fn.thunks[place], LoopThunk), linker == "cvm")
            found[linker] = f(*values)
        np.testing.assert_array_equal(found["cvm"], found["py"])

    def test_states_stay_there(self):
        x, v = self.x, self.v
        rows, _ = theano.scan(lambda row, a: T.tanh(row + a), sequences=x, outputs_info=v)
        f = self.check([rows])
        (node,) = [n for n in f.maker.fgraph.apply_nodes if isinstance(n.op, Scan)]
        arrays = [v for v in [*node.inputs, *node.outputs] if v.type.ndim]
        self.assertTrue(all(isinstance(v.type, GpuArrayType) for v in arrays))
        names = [type(n.op).__name__ for n in node.op.fn.maker.fgraph.apply_nodes]
        self.assertNotIn("GpuFromHost", names)
        self.assertNotIn("HostFromGpu", names)
