"""Tests of recurrent networks by cuDNN, on a fake library."""

import itertools
import unittest
from ctypes import POINTER, byref, c_size_t, c_void_p, cast

import numpy as np

from theano_ng.gpuarray.device.tests import native
from theano_ng.gpuarray.device.tests.cudnn import CODES, EXECUTION_FAILED, Tensor, WithCudnn

RELU, TANH, LSTM, GRU = range(4)
GATES = {RELU: 1, TANH: 1, LSTM: 4, GRU: 3}
LINEAR, SKIP = range(2)
GA_UBYTE = 2
NOT_THERE = c_size_t(-1).value


def logistic(x):
    return 1 / (1 + np.exp(-x))


def cell(mode, from_input, from_state, h, c):
    """Return the new state and memory of a cell from what its gates get."""
    total = [a + b for a, b in zip(from_input, from_state)]
    if mode in (RELU, TANH):
        return (np.maximum(total[0], 0) if mode == RELU else np.tanh(total[0])), c
    if mode == LSTM:
        i, f, o = [logistic(total[k]) for k in (0, 1, 3)]
        c = f * c + i * np.tanh(total[2])
        return o * np.tanh(c), c
    r, u = [logistic(total[k]) for k in (0, 1)]
    new = np.tanh(from_input[2] + r * from_state[2])
    return (1 - u) * new + u * h, c


def apply(mode, directions, parts, x, hx, cx):
    """Return y, hy and cy of a network. `parts` has, for each layer (and direction), the matrices (which may be None)
    and the biases.
    """
    gates, hy, cy = GATES[mode], [], []
    for first in range(0, len(parts), directions):
        outputs = []
        for layer in range(first, first + directions):
            h, c, found = hx[layer], cx[layer], []
            for step in x[::-1] if layer > first else x:
                applied = [
                    (step if matrix is None else of @ matrix) + bias
                    for of, (matrix, bias) in zip([step] * gates + [h] * gates, parts[layer])
                ]
                h, c = cell(mode, applied[:gates], applied[gates:], h, c)
                found.append(h)
            outputs.append(np.array(found[::-1] if layer > first else found))
            hy.append(h)
            cy.append(c)
        x = np.concatenate(outputs, -1)
    return x, np.array(hy), np.array(cy)


class Network:
    """A network with random weights, and random arrays of its computation.

    Attributes
    ----------
    values : dict of str to numpy.ndarray
        The elements of x, hx, cx, and of the gradients dy, dhy and dcy, in float64.
    """

    def __init__(self, test, dtype, mode, directions=1, input_mode=LINEAR, layers=1, shape=(3, 2, 4), hidden=3):
        self.test, self.mode, self.directions, self.input_mode = test, mode, directions, input_mode
        self.layers, self.hidden = layers * directions, hidden
        self.context, self.library = test.context, test.library
        test.addCleanup(self.close)
        network = native.DnnNetwork(mode, input_mode, directions, CODES[dtype], hidden, layers)
        self.dropout, self.descriptor = c_void_p(), c_void_p()
        self.states = self.bytes(64)
        self.check(self.library.cudnn_dropout_make, 0, 1, byref(self.states), byref(self.dropout))
        self.check(self.library.cudnn_rnn_make, byref(network), self.dropout, 0, byref(self.descriptor))
        self.sequences = native.DnnSequences(self.descriptor, *shape)
        weights, reserve = c_size_t(), c_size_t()
        self.check(self.library.cudnn_rnn_sizes, byref(self.sequences), byref(weights), byref(reserve))
        self.dtype = np.dtype(dtype)
        steps, batch, _ = shape
        state, wide = (self.layers, batch, hidden), (steps, batch, directions * hidden)
        self.values = {
            name: test.rng.uniform(-1, 1, form).astype(dtype)
            for name, form in (
                ("x", shape),
                ("hx", state),
                ("cx", state),
                ("dy", wide),
                ("dhy", state),
                ("dcy", state),
                ("weights", (weights.value // self.dtype.itemsize,)),
            )
        }
        self.tensors = {name: Tensor(test, self.context, value) for name, value in self.values.items()}
        for name, form in (
            *[(name, wide) for name in ("y",)],
            *[(name, state) for name in ("hy", "cy", "dhx", "dcx")],
            ("dx", shape),
            ("dweights", self.values["weights"].shape),
        ):
            self.tensors[name] = Tensor(test, self.context, np.zeros(form, dtype))
        self.reserve = self.bytes(reserve.value)

    def check(self, function, *arguments):
        self.context.check(function(self.context.pointer, *arguments))

    def bytes(self, size):
        tensor = native.DnnTensor(self.test.memory(self.context, np.zeros(size, "uint8")), 0, GA_UBYTE, 1)
        tensor.dims[0], tensor.strides[0] = size, 1
        return tensor

    def close(self):
        self.library.cudnn_rnn_free(self.descriptor)
        self.library.cudnn_dropout_free(self.dropout)

    def run_of(self, **names):
        """Return the structure with the tensors of these names."""
        pointers = {
            name: cast(
                byref(self.reserve) if name == "reserve" else self.tensors[of].pointer, POINTER(native.DnnTensor)
            )
            for name, of in names.items()
            if of is not None
        }
        return native.DnnRun(**pointers)

    @property
    def memories(self):
        """The names of the memory before and after the sequence, if the network has one."""
        return ("cx", "cy") if self.mode == LSTM else (None, None)

    def forward(self):
        cx, cy = self.memories
        run = self.run_of(weights="weights", x="x", hx="hx", cx=cx, y="y", hy="hy", cy=cy, reserve="reserve")
        self.check(self.library.cudnn_rnn, byref(self.sequences), byref(run))

    def backward(self, of_states=True):
        cx, cy = self.memories
        run = self.run_of(weights="weights", x="x", hx="hx", cx=cx, y="y", reserve="reserve")
        gradients = self.run_of(
            y="dy",
            hy="dhy" if of_states else None,
            cy="dcy" if of_states and cy else None,
            x="dx",
            hx="dhx",
            cx="dcx" if cx else None,
        )
        self.check(self.library.cudnn_rnn_gradient, byref(self.sequences), byref(run), byref(gradients))

    def backward_weights(self):
        run = self.run_of(x="x", hx="hx", y="y", reserve="reserve")
        gradients = self.run_of(weights="dweights")
        self.check(self.library.cudnn_rnn_weights_gradient, byref(self.sequences), byref(run), byref(gradients))

    def places(self):
        """Return for each layer the places of its matrices and biases in the weights, and the shapes."""
        found, gates = [], GATES[self.mode]
        for layer in range(self.layers):
            for i in range(2 * gates):
                matrix, bias = c_size_t(), c_size_t()
                weights = self.tensors["weights"].pointer
                self.check(
                    self.library.cudnn_rnn_part, byref(self.sequences), weights, layer, i, byref(matrix), byref(bias)
                )
                width = self.sequences.input if layer < self.directions else self.hidden * self.directions
                shape = (self.hidden, width if i < gates else self.hidden)
                found.append((matrix.value, shape, bias.value))
        return [found[i : i + 2 * gates] for i in range(0, len(found), 2 * gates)]

    def parts(self, weights):
        """Return the matrices, as factors from the right, and biases."""

        def view(place, shape):
            if place == NOT_THERE:
                return None
            begin = place // self.dtype.itemsize
            return weights[begin : begin + int(np.prod(shape))].reshape(shape).T

        return [
            [(view(matrix, shape), view(bias, shape[:1])) for matrix, shape, bias in layer] for layer in self.places()
        ]

    def expected(self, values):
        return apply(self.mode, self.directions, self.parts(values["weights"]), values["x"], values["hx"], values["cx"])

    def cost(self, values, of_states=True):
        y, hy, cy = self.expected(values)
        total = (y * values["dy"]).sum()
        if of_states:
            total += (hy * values["dhy"]).sum() + ((cy * values["dcy"]).sum() if self.mode == LSTM else 0)
        return total

    def derivatives(self, name, of_states=True):
        """Return the gradient of the cost with respect to an array, by differences."""
        values = {key: value.astype("float64") for key, value in self.values.items()}
        found, array = np.zeros(values[name].shape), values[name]
        for index in np.ndindex(array.shape):
            old, costs = array[index], []
            for step in (-1e-5, 1e-5):
                array[index] = old + step
                costs.append(self.cost(values, of_states))
            array[index] = old
            found[index] = (costs[1] - costs[0]) / 2e-5
        return found

    def check_forward(self):
        self.forward()
        values = {key: value.astype("float64") for key, value in self.values.items()}
        y, hy, cy = self.expected(values)
        tolerance = 1e-2 if self.dtype == "float16" else None
        self.tensors["y"].check(y, tolerance)
        self.tensors["hy"].check(hy, tolerance)
        if self.mode == LSTM:
            self.tensors["cy"].check(cy, tolerance)

    def check_backward(self, of_states=True):
        self.backward(of_states)
        self.backward_weights()
        for name in ("x", "hx", "weights") + (("cx",) if self.mode == LSTM else ()):
            self.tensors["d" + name].check(self.derivatives(name, of_states), 1e-5)


class TestNetworks(WithCudnn):
    def setUp(self):
        super().setUp()
        self.context = self.open()

    def test_results(self):
        for dtype, mode, directions, layers in itertools.product(CODES, GATES, (1, 2), (1, 2, 3)):
            with self.subTest(dtype=dtype, mode=mode, directions=directions, layers=layers):
                Network(self, dtype, mode, directions, layers=layers).check_forward()

    def test_input_without_matrix(self):
        for mode, directions in itertools.product(GATES, (1, 2)):
            with self.subTest(mode=mode, directions=directions):
                network = Network(self, "float64", mode, directions, SKIP, 2, (3, 2, 3))
                places = network.places()
                gates = GATES[mode]
                for layer in range(directions):
                    self.assertEqual(
                        [place[0] == NOT_THERE for place in places[layer]], [True] * gates + [False] * gates
                    )
                network.check_forward()
                network.check_backward()

    def test_gradients(self):
        for mode, directions, layers, of_states in itertools.product(GATES, (1, 2), (1, 2), (True, False)):
            with self.subTest(mode=mode, directions=directions, layers=layers, of_states=of_states):
                network = Network(self, "float64", mode, directions, layers=layers, shape=(3, 2, 2), hidden=2)
                network.forward()
                network.check_backward(of_states)

    def test_random_forms(self):
        for case in range(40):
            steps, batch, width, hidden, layers, directions = map(int, self.rng.integers(1, (5, 4, 4, 4, 3, 3)))
            with self.subTest(case=case):
                shape = (steps, batch, width)
                network = Network(self, "float64", case % 4, directions, LINEAR, layers, shape, hidden)
                network.check_forward()
                network.check_backward()

    def test_parts(self):
        """The parts of the weights do not overlap."""
        network = Network(self, "float32", GRU, 2, layers=2)
        used = np.zeros(self.tensors_size(network), int)
        for layer in network.places():
            for matrix, shape, bias in layer:
                used[matrix // 4 : matrix // 4 + int(np.prod(shape))] += 1
                used[bias // 4 : bias // 4 + shape[0]] += 1
        self.assertEqual(used.max(), 1)

    def tensors_size(self, network):
        return network.values["weights"].size

    def test_settings(self):
        network = Network(self, "float32", LSTM, 2, layers=2)
        found = native.DnnNetwork()
        network.check(self.library.cudnn_rnn_network, network.descriptor, byref(found))
        names = [name for name, _ in found._fields_]
        self.assertEqual([getattr(found, name) for name in names], [LSTM, LINEAR, 2, native.GA_FLOAT, 3, 2])

    def test_workspace(self):
        """The workspace is allocated for each call. Without memory, it is a memory error, and later calls work."""
        self.dnn.workspace = 8 << 20
        network = Network(self, "float32", GRU)
        self.state.capacity = 1 << 20
        for call in (network.forward, network.backward, network.backward_weights):
            with self.assertRaisesRegex(native.DeviceError, "recurrent network of arrays with shapes") as caught:
                call()
            self.assertEqual(caught.exception.code, native.GA_MEMORY_ERROR)
        self.state.capacity = 1 << 30
        network.check_forward()

    def test_failing_calls(self):
        for k, (name, call) in enumerate(
            (
                ("cudnnCreateRNNDescriptor", "forward"),
                ("cudnnSetRNNDescriptor_v8", "forward"),
                ("cudnnGetRNNDescriptor_v8", "forward"),
                ("cudnnCreateRNNDataDescriptor", "forward"),
                ("cudnnSetRNNDataDescriptor", "forward"),
                ("cudnnGetRNNWeightSpaceSize", "forward"),
                ("cudnnGetRNNTempSpaceSizes", "forward"),
                ("cudnnRNNForward", "forward"),
                ("cudnnRNNBackwardData_v8", "backward"),
                ("cudnnRNNBackwardWeights_v8", "backward_weights"),
                ("cudnnGetRNNWeightParams", "places"),
            )
        ):
            with self.subTest(name):
                network = Network(self, "float32", GRU, shape=(3, 2, 4 + k))
                network.sequences.batch += 1  # a form that is not known yet
                network.sequences.batch -= name not in ("cudnnCreateRNNDataDescriptor", "cudnnSetRNNDataDescriptor")
                if name in ("cudnnCreateRNNDescriptor", "cudnnSetRNNDescriptor_v8"):
                    network.sequences.input += 100
                self.fake.fake_fail(name.encode(), EXECUTION_FAILED, 0)
                with self.assertRaisesRegex(native.DeviceError, name + ": CUDNN_STATUS_EXECUTION_FAILED"):
                    getattr(network, call)()
        Network(self, "float32", GRU).check_forward()

    def test_descriptors_are_freed(self):
        network = native.DnnNetwork(GRU, LINEAR, 1, native.GA_FLOAT, 0, 1)
        before, made = self.dnn.descriptors, c_void_p()
        with self.assertRaisesRegex(native.DeviceError, "cudnnSetRNNDescriptor_v8: CUDNN_STATUS_BAD_PARAM"):
            self.context.check(self.library.cudnn_rnn_make(self.context.pointer, byref(network), None, 0, byref(made)))
        self.assertEqual(self.dnn.descriptors, before)


if __name__ == "__main__":
    unittest.main()
