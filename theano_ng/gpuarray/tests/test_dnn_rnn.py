"""Tests of recurrent networks by cuDNN. See `tests.cudnn`. The results are compared with the same recurrences on the
host, written with `scan`.
"""

import gc
import itertools
import pickle
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.gpuarray import dnn
from theano_ng.gpuarray.tests.cudnn import DTYPES, CudnnTest
from theano_ng.gpuarray.tests.device import LAYOUTS, context
from theano_ng.gpuarray.type import GpuArrayType, gpuarray_shared_constructor

GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}
STEPS, BATCH, WIDTH, HIDDEN = 4, 2, 3, 3
DIRECTIONS = {"unidirectional": 1, "bidirectional": 2}


def cell(mode, x, h, c, parts, skips):
    """Return the new state and memory of a cell."""
    gates = GATES[mode]
    from_input = [(x if skips else x.dot(matrix)) + bias for matrix, bias in parts[:gates]]
    from_state = [h.dot(matrix) + bias for matrix, bias in parts[gates:]]
    total = [a + b for a, b in zip(from_input, from_state)]
    if mode in ("rnn_relu", "rnn_tanh"):
        return (T.nnet.relu if mode == "rnn_relu" else T.tanh)(total[0]), c
    if mode == "lstm":
        i, f, o = [T.nnet.sigmoid(total[k]) for k in (0, 1, 3)]
        c = f * c + i * T.tanh(total[2])
        return o * T.tanh(c), c
    r, u = T.nnet.sigmoid(total[0]), T.nnet.sigmoid(total[1])
    return (1 - u) * T.tanh(from_input[2] + r * from_state[2]) + u * h, c


def on_host(mode, directions, skips, layers, x, hx, cx):
    """Return y, hy and cy of a network. `layers` has pairs of a matrix and a bias for each layer and direction."""
    hy, cy = [], []
    for first in range(0, len(layers), directions):
        outputs = []
        for layer in range(first, first + directions):
            (h, c), _ = theano.scan(
                lambda x, h, c, layer=layer, first=first: cell(mode, x, h, c, layers[layer], skips and first == 0),
                sequences=x,
                outputs_info=[hx[layer], cx[layer]],
                go_backwards=layer > first,
            )
            hy.append(h[-1])
            cy.append(c[-1])
            outputs.append(h[::-1] if layer > first else h)
        x = T.concatenate(outputs, 2)
    return x, T.stack(hy), T.stack(cy)


class TestNetworks(CudnnTest):
    def block(self, dtype, mode, layers=1, input_mode="linear", direction="unidirectional"):
        return dnn.RNNBlock(dtype, HIDDEN, layers, mode, input_mode, direction, self.name)

    def weights(self, block):
        """Return a shared variable with random weights."""
        size = block.get_param_size((BATCH, WIDTH))
        value = self.rng.uniform(-1, 1, size).astype(block.dtype)
        return gpuarray_shared_constructor(value, target=self.name)

    def parts(self, block, w):
        """Return the matrices and biases of all layers as arrays of the host."""
        found = []
        for layer in range(block.num_layers * DIRECTIONS[block.direction_mode]):
            parts = [np.array(v) for v in block.split_params(w, layer, (BATCH, WIDTH))]
            found.append(list(zip(parts[::2], parts[1::2])))
        return found

    def values(self, block):
        """Return values for x, hx and cx."""
        state = (block.num_layers * DIRECTIONS[block.direction_mode], BATCH, HIDDEN)
        return [self.rng.uniform(-1, 1, shape).astype(block.dtype) for shape in ((STEPS, BATCH, WIDTH), state, state)]

    def forms(self):
        """Yield networks."""
        for mode, direction, layers, input_mode in itertools.product(GATES, DIRECTIONS, (1, 2), ("linear", "skip")):
            with self.subTest(mode=mode, direction=direction, layers=layers, input_mode=input_mode):
                yield self.block("float64", mode, layers, input_mode, direction)

    def host_results(self, block, w, inputs, grads, of):
        """Return the results of the host, their gradients for x, hx and cx, and gradients for all matrices and biases.

        `grads` are the weights of the results in the cost, and `of` the numbers of these results.
        """
        variables = [T.tensor3(dtype="float64") for _ in inputs]
        layers = [
            [tuple([theano.shared(v.astype("float64")) for v in pair]) for pair in layer]
            for layer in self.parts(block, w)
        ]
        skips = block.input_mode == "skip"
        results = on_host(block.rnn_mode, DIRECTIONS[block.direction_mode], skips, layers, *variables)
        cost = sum((results[k] * grads[k]).sum() for k in of)
        flat = [v for layer in layers for pair in layer for v in pair]
        wrt = [*variables[: 3 if block.rnn_mode == "lstm" else 2], *flat]
        found = theano.grad(cost, wrt, disconnected_inputs="ignore")
        # DebugMode would run each node of the loop many times.
        f = theano.function(variables, [*results, *found], on_unused_input="ignore", mode="FAST_RUN")
        return f(*[v.astype("float64") for v in inputs])

    def test_results(self):
        for dtype, mode in itertools.product(DTYPES, GATES):
            block = self.block(dtype, mode, 2, direction="bidirectional")
            w, inputs = self.weights(block), self.values(block)
            lstm = mode == "lstm"
            variables = [self.variable(dtype, 3) for _ in inputs[: 2 + lstm]]
            results = block.apply(w, *variables)
            self.assertEqual([v.dtype for v in results], [dtype] * (2 + lstm))
            f = self.compile(variables, results)
            expected = self.host_results(block, w, inputs, [np.float64(0)] * 3, range(3))[:3]
            for layout in LAYOUTS:
                for found, right in zip(f(*[self.placed(v, layout) for v in inputs[: 2 + lstm]]), expected):
                    self.check(found, right, {"float16": 2e-2, "float32": 1e-4}.get(dtype))
            shapes = theano.function(variables, [v.shape for v in results], mode="FAST_RUN")
            for found, right in zip(shapes(*[self.placed(v) for v in inputs[: 2 + lstm]]), expected):
                self.assertEqual(tuple(found), right.shape)

    def test_gradients(self):
        """Results and gradients of all forms of networks are those of the host. Costs use some of the results."""
        for k, block in enumerate(self.forms()):
            lstm = block.rnn_mode == "lstm"
            w, inputs = self.weights(block), self.values(block)[: 2 + lstm]
            all_inputs = [*inputs, inputs[1]][:3]
            variables = [self.variable("float64", 3) for _ in inputs]
            results = block.apply(w, *variables)
            of = [(0,), (0, 1), (1,), tuple(range(len(results)))][k % 4]
            forms = [(STEPS, BATCH, DIRECTIONS[block.direction_mode] * HIDDEN), *[inputs[1].shape] * 2]
            weights = [self.random("float64", *form) for form in forms]
            known = {results[i]: self.placed_constant(weights[i]) for i in of}
            f = self.compile(variables, [*results, *theano.grad(None, [*variables, w], known_grads=known)])
            *found, dw = f(*[self.placed(v) for v in inputs])
            expected = self.host_results(block, w, all_inputs, weights, of)
            compared = [*expected[: len(results)], *expected[3 : 3 + len(inputs)]]
            for one, right in zip(found, compared):
                self.check(one, right, 1e-9)
            split = self.parts(block, gpuarray_shared_constructor(np.asarray(dw), target=self.name))
            flat = [v for layer in split for pair in layer for v in pair]
            for one, right in zip(flat, expected[3 + len(inputs) :]):
                self.check(one, right, 1e-9)

    def placed_constant(self, value):
        return dnn.base.as_gpuarray_variable(value, self.name)

    def test_only_some_gradients(self):
        """The gradient with respect to the weights alone needs the gradient with respect to the data."""
        block = self.block("float64", "gru")
        w, (x, hx, _) = self.weights(block), self.values(block)
        variables = [self.variable("float64", 3) for _ in range(2)]
        y, _ = block.apply(w, *variables)
        g = self.variable("float64", 3)
        dw = theano.grad(None, w, known_grads={y: g})
        both = theano.grad(None, [w, variables[0]], known_grads={y: g})
        given = [self.placed(v) for v in (x, hx, self.random("float64", STEPS, BATCH, HIDDEN))]
        alone = self.compile([*variables, g], dw)(*given)
        self.check(alone, np.asarray(self.compile([*variables, g], both)(*given)[0]), 1e-12)
        self.assertTrue(np.asarray(alone).any())

    def test_broadcast_patterns(self):
        """The gradient with respect to one example has the type of the example, so that it may be an update."""
        block = self.block("float64", "lstm")
        w = self.weights(block)
        inputs = [
            GpuArrayType("float64", flags, self.name)() for flags in [(False, True, False), *[(True, True, False)] * 2]
        ]
        results = block.apply(w, *inputs)
        gradients = theano.grad(sum(v.transfer("cpu").sum() for v in results), [w, *inputs])
        self.assertEqual([v.type for v in gradients], [v.type for v in (w, *inputs)])
        f = self.compile(inputs, gradients)
        shapes = (STEPS, 1, WIDTH), (1, 1, HIDDEN), (1, 1, HIDDEN)
        found = f(*[self.placed(self.random("float64", *shape)) for shape in shapes])
        self.assertEqual([v.shape for v in found[1:]], list(shapes))

    def test_two_costs(self):
        """Two gradients of one network do not overwrite each other's memory."""
        block = self.block("float64", "lstm")
        w, inputs = self.weights(block), self.values(block)
        variables = [self.variable("float64", 3) for _ in inputs]
        y, hy, _ = block.apply(w, *variables)
        g, h = [self.variable("float64", 3) for _ in range(2)]
        first = theano.grad(None, [w, variables[0]], known_grads={y: g})
        second = theano.grad(None, [w, variables[0]], known_grads={hy: h})
        given = [self.placed(v) for v in (*inputs, self.random("float64", STEPS, BATCH, HIDDEN), inputs[1])]
        f = self.compile([*variables, g, h], [*first, *second])
        in_place = [node.op.inplace for node in f.maker.fgraph.toposort() if "GradInputs" in type(node.op).__name__]
        self.assertEqual(sorted(in_place), [False, True])  # the memory of one network can be overwritten once
        together = f(*given)
        apart = [
            *self.compile([*variables, g], first)(*given[:4]),
            *self.compile([*variables, h], second)(*given[:3], given[4]),
        ]
        for one, right in zip(together, apart):
            self.check(one, np.asarray(right), 1e-12)

    def test_parameters(self):
        """The parts of the weights are views, with the documented shapes."""
        for mode, gates in GATES.items():
            block = self.block("float32", mode, 2, direction="bidirectional")
            w = self.weights(block)
            for layer in range(4):
                parts = block.split_params(w, layer, (BATCH, WIDTH))
                widths = [WIDTH if layer < 2 else 2 * HIDDEN] * gates + [HIDDEN] * gates
                self.assertEqual(
                    [v.shape for v in parts], [shape for n in widths for shape in ((n, HIDDEN), (HIDDEN,))]
                )
            value = np.arange(HIDDEN, dtype="float32") + 100
            parts[1][...] = self.placed(value)
            self.check(block.split_params(w, 3, [BATCH, WIDTH])[1], value)
            self.assertTrue(np.isin(value, w.get_value()).all())

    def test_manual(self):
        """The example of the manual."""
        block = dnn.RNNBlock("float32", 16, 3, "gru", context_name=self.name)
        size = block.get_param_size([2, 32])
        params = gpuarray_shared_constructor(np.zeros((size,), dtype="float32"), target=self.name)
        self.assertEqual(len(block.split_params(params, 0, [2, 32])), 12)
        x, h0, goal = T.ftensor3("X"), T.ftensor3("h0"), T.ftensor3("Y")
        y, hy = block.apply(params, x, h0)
        cost = T.mean((goal - y.transfer("cpu")) ** 2)
        f = theano.function([x, goal, h0], [y, hy, cost, theano.grad(cost, params)], mode="FAST_RUN")
        y, hy, _, dw = f(*[np.ones(shape, "float32") for shape in ((5, 2, 32), (5, 2, 16), (3, 2, 16))])
        self.assertEqual((y.shape, hy.shape, dw.shape), ((5, 2, 16), (3, 2, 16), (size,)))
        # All gates of a network without weights are 1/2, so a state is halved in each step.
        self.check(np.asarray(y)[:, 0, 0], 0.5 ** np.arange(1, 6))

    def test_training(self):
        """A network learns to add."""
        block = dnn.RNNBlock("float32", 8, 1, "rnn_tanh", context_name=self.name)
        w = gpuarray_shared_constructor(
            self.rng.uniform(-0.3, 0.3, block.get_param_size((16, 1))).astype("float32"), target=self.name
        )
        x, h0 = T.ftensor3(), T.ftensor3()
        y, _ = block.apply(w, x, h0)
        cost = T.mean((y.transfer("cpu")[-1, :, 0] - x.sum((0, 2))) ** 2)
        gradient = theano.grad(cost, w)
        host = T.fvector()
        moved = (host - 1.0 * gradient.transfer("cpu")).astype("float32")
        f = theano.function([x, h0, host], [cost, moved], mode="FAST_RUN")
        costs = []
        for _ in range(100):
            value = self.rng.uniform(-0.2, 0.2, (3, 16, 1)).astype("float32")
            found, new = f(value, np.zeros((1, 16, 8), "float32"), w.get_value())
            costs.append(float(found))
            w.set_value(new)
        self.assertLess(np.mean(costs[-10:]), 0.2 * np.mean(costs[:5]))

    def test_no_elements(self):
        """Without steps, the states do not change. Without examples, there are none."""
        for mode in ("lstm", "gru"):
            block = self.block("float64", mode)
            w, lstm = self.weights(block), mode == "lstm"
            variables = [self.variable("float64", 3) for _ in range(2 + lstm)]
            results = block.apply(w, *variables)
            grads = theano.grad(None, [*variables, w], known_grads={results[1]: variables[1], results[0]: results[0]})
            f = self.compile(variables, [*results, *grads])
            for steps, batch in ((0, 2), (3, 0)):
                x, state = np.ones((steps, batch, WIDTH)), self.random("float64", 1, batch, HIDDEN)
                *found, dw = f(*[self.placed(v) for v in (x, state, state)[: 2 + lstm]])
                self.assertEqual(found[0].shape, (steps, batch, HIDDEN))
                self.check(found[1], state)
                self.assertEqual(found[2 + lstm].shape, x.shape)
                self.check(found[3 + lstm], state)
                self.check(dw, np.zeros(w.get_value().shape))

    def test_bad_arguments(self):
        for arguments, said in (
            (("float64", HIDDEN, 1, "elman"), "rnn_mode must be one of .*, not 'elman'"),
            (("float64", HIDDEN, 1, "gru", "none"), "input_mode must be one of .*, not 'none'"),
            (("float64", HIDDEN, 1, "gru", "linear", "backward"), "direction_mode must be one of .*, not 'backward'"),
            (("float64", -1, 1, "gru"), "the number -1 is negative or too large"),
            (("float64", 0, 1, "gru"), "needs hidden elements and layers; got 0 and 1"),
            (("float64", HIDDEN, 0, "gru"), "needs hidden elements and layers; got %d and 0" % HIDDEN),
        ):
            with self.assertRaisesRegex(ValueError, said):
                dnn.RNNBlock(*arguments, context_name=self.name)
        with self.assertRaisesRegex(TypeError, "dtype must be one of float16, float32, float64; got int32"):
            dnn.RNNBlock("int32", HIDDEN, 1, "gru", context_name=self.name)
        with self.assertRaisesRegex(TypeError, "hidden_size must be an integer; got"):
            dnn.RNNBlock("float64", 2.5, 1, "gru", context_name=self.name)
        block, skipping = self.block("float64", "gru"), self.block("float64", "gru", 1, "skip")
        w, (x, hx, _) = self.weights(block), self.values(block)
        with self.assertRaisesRegex(ValueError, "must be a pair of positive numbers"):
            block.get_param_size((BATCH, 0))
        with self.assertRaisesRegex(ValueError, "input mode 'skip' reads vectors of its hidden size, 3; got 4"):
            skipping.get_param_size((BATCH, 4))
        with self.assertRaisesRegex(IndexError, "has 1 layers .*; got 1"):
            block.split_params(w, 1, (BATCH, WIDTH))
        with self.assertRaisesRegex(ValueError, "needs [0-9]+ elements in w; got [0-9]+"):
            block.split_params(w, 0, (BATCH, WIDTH + 1))
        single = gpuarray_shared_constructor(np.zeros(5, "float32"), target=self.name)
        with self.assertRaisesRegex(TypeError, "the weights must have the dtype float64; got float32"):
            block.split_params(single, 0, (BATCH, WIDTH))
        variables = [self.variable("float64", 3) for _ in range(2)]
        with self.assertRaisesRegex(ValueError, "cx must be given for an LSTM, and only for it"):
            block.apply(w, *variables, variables[0])
        with self.assertRaisesRegex(ValueError, "cx must be given for an LSTM, and only for it"):
            self.block("float64", "lstm").apply(w, *variables)
        with self.assertRaisesRegex(TypeError, "x must have 3 axes and the dtype float64; got"):
            block.apply(w, self.variable("float64", 2), variables[1])
        with self.assertRaisesRegex(TypeError, "hx must have 3 axes and the dtype float64; got"):
            block.apply(w, variables[0], self.variable("float32", 3))
        f = self.compile(variables, block.apply(w, *variables))
        for values, said in (
            ((x[..., :2], hx), "needs [0-9]+ elements in w; got [0-9]+"),
            ((x, hx[..., :2]), r"hx has shape \(1, 2, 2\), expected \(1, 2, 3\)"),
            ((x[..., :0], hx), "the vectors in x have no elements"),
        ):
            with self.assertRaisesRegex(ValueError, said):
                f(*[self.placed(np.ascontiguousarray(v)) for v in values])
        f(self.placed(x), self.placed(hx))
        with self.assertRaisesRegex(TypeError, "it holds a C pointer, which is invalid in another process"):
            pickle.dumps(f)

    def test_second_derivatives(self):
        """There are none."""
        block = self.block("float64", "gru")
        w, variables = self.weights(block), [self.variable("float64", 3) for _ in range(2)]
        y, _ = block.apply(w, *variables)
        dx = theano.grad(None, variables[0], known_grads={y: y})
        with self.assertRaisesRegex(theano.gradient.NullTypeGradError, "cuDNN does not compute it"):
            theano.grad(None, variables[1], known_grads={dx: dx})
        with self.assertRaisesRegex(NotImplementedError, "cuDNN computes no directional derivatives"):
            theano.gradient.Rop(y, variables[0], variables[0])

    def test_no_memory_for_the_workspace(self):
        self.needs_fakes()
        block = self.block("float64", "gru")
        w, (x, hx, _) = self.weights(block), self.values(block)
        variables = [self.variable("float64", 3) for _ in range(2)]
        f = self.compile(variables, block.apply(w, *variables))
        given = self.placed(x), self.placed(hx)
        expected = np.asarray(f(*given)[0])
        self.fakes.dnn.workspace, capacity = 256 << 20, self.fakes.state.capacity
        self.addCleanup(setattr, self.fakes.dnn, "workspace", 0)
        self.fakes.state.capacity = self.fakes.state.held + (1 << 20)
        with self.assertRaisesRegex(
            MemoryError, r"(?s)in a recurrent network of arrays with shapes \(4, 2, 3\) float64.*GpuDnnRNNOp"
        ):
            f(*given)
        self.fakes.state.capacity = capacity
        self.check(f(*given)[0], expected)

    def test_failing_call(self):
        self.needs_fakes()
        block = self.block("float64", "gru")
        w, (x, hx, _) = self.weights(block), self.values(block)
        variables = [self.variable("float64", 3) for _ in range(2)]
        y, _ = block.apply(w, *variables)
        f = self.compile(variables, theano.grad(None, w, known_grads={y: y}))
        given = self.placed(x), self.placed(hx)
        for name, op in (
            ("cudnnRNNForward", "GpuDnnRNNOp"),
            ("cudnnRNNBackwardData_v8", "GpuDnnRNNGradInputs"),
            ("cudnnRNNBackwardWeights_v8", "GpuDnnRNNGradWeights"),
        ):
            self.fakes.fail(name, 5000)
            with self.assertRaisesRegex(RuntimeError, "(?s)%s: .*EXECUTION_FAILED.*%s" % (name, op)):
                f(*given)
        f(*given)

    def test_nothing_is_left(self):
        """Descriptors are destroyed with the last reference. The descriptor of a network keeps that of its dropout."""
        self.needs_fakes()
        gc.collect()
        before = self.fakes.dnn.descriptors
        block = self.block("float64", "gru")
        self.assertEqual(self.fakes.dnn.descriptors, before + 2)
        desc = block.desc
        del block
        gc.collect()
        self.assertEqual(self.fakes.dnn.descriptors, before + 2)
        del desc
        gc.collect()
        self.assertEqual(self.fakes.dnn.descriptors, before)

    def test_other_devices(self):
        name = context()
        if self.fakes is None:
            self.skipTest("needs an OpenCL device")
        with self.assertRaisesRegex(RuntimeError, "cuDNN cannot be used on the context test: .* is no CUDA device"):
            dnn.RNNBlock("float32", HIDDEN, 1, "gru", context_name=name)


if __name__ == "__main__":
    unittest.main()
