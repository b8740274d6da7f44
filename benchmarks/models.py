"""Models whose training steps are measured: symbolic steps, equivalent steps in NumPy, and only the matrix products."""

import functools

import numpy as np

RATE = 0.1
# Name of a model -> (sizes of the layers, number of rows of a minibatch, dtype).
SHAPES = {
    "logistic regression 784-10": ([784, 10], 600, "float64"),
    "MLP 784-500-10": ([784, 500, 10], 64, "float64"),
    "MLP 784-500-10, float32": ([784, 500, 10], 64, "float32"),
}


@functools.cache
def data(name):
    """Return the inputs, labels and initial parameters of a model. Callers must not change them."""
    sizes, batch, dtype = SHAPES[name]
    rng = np.random.RandomState(0)
    parameters = []
    for n_in, n_out in zip(sizes[:-1], sizes[1:]):
        bound = np.sqrt(6.0 / (n_in + n_out))
        parameters += [rng.uniform(-bound, bound, (n_in, n_out)).astype(dtype), np.zeros(n_out, dtype)]
    return rng.rand(batch, sizes[0]).astype(dtype), rng.randint(0, sizes[-1], batch).astype("int32"), parameters


def compiled_step(name):
    """Return the training step as a compiled function of inputs and labels, and the list of its shared variables."""
    import theano_ng as theano
    import theano_ng.tensor as T

    values = data(name)[2]
    dtype = values[0].dtype.name
    x, y = T.TensorType(dtype, (False, False))("x"), T.ivector("y")
    parameters = [theano.shared(value, "p%d" % i) for i, value in enumerate(values)]
    h = x
    for w, b in zip(parameters[:-2:2], parameters[1:-2:2]):
        h = T.tanh(T.dot(h, w) + b)
    p_y = T.nnet.softmax(T.dot(h, parameters[-2]) + parameters[-1])
    cost = T.nnet.categorical_crossentropy(p_y, y).mean(dtype=dtype)
    rate = np.asarray(RATE, dtype)
    updates = [(p, p - rate * g) for p, g in zip(parameters, T.grad(cost, parameters))]
    return theano.function([x, y], cost, updates=updates), parameters


class NumpyStep:
    """The training step in NumPy, written by hand, with temporary arrays reused where possible."""

    def __init__(self, name):
        self.parameters = [value.copy() for value in data(name)[2]]

    def __call__(self, x, y):
        ps = self.parameters
        activations = [x]
        for i in range(0, len(ps) - 2, 2):
            h = activations[-1] @ ps[i]
            h += ps[i + 1]
            activations.append(np.tanh(h, out=h))
        z = activations[-1] @ ps[-2]
        z += ps[-1]
        z -= z.max(axis=1, keepdims=True)
        e = np.exp(z)
        total = e.sum(axis=1, keepdims=True)
        rows = np.arange(len(y))
        cost = (np.log(total[:, 0]) - z[rows, y]).mean()
        e /= total
        e[rows, y] -= 1
        e /= len(y)
        delta = e
        for i in range(len(ps) - 2, -1, -2):
            h = activations[i // 2]
            gw, gb = h.T @ delta, delta.sum(axis=0)
            if i:
                delta = (delta @ ps[i].T) * (1 - h * h)
            gw *= RATE
            gb *= RATE
            ps[i] -= gw
            ps[i + 1] -= gb
        return cost


def products_only(name):
    """Return a function that computes only the matrix products of a training step, into existing arrays.

    The time of this function is the limit of the machine. NumPy's BLAS computes the products. The compiled step uses
    SciPy's BLAS, which may be slightly faster or slower.
    """
    x, _, parameters = data(name)
    weights = parameters[::2]
    activations = [x] + [np.zeros((len(x), w.shape[1]), x.dtype) for w in weights]
    jobs = [(a, w, out) for a, w, out in zip(activations, weights, activations[1:])]
    jobs += [(a.T, out, np.empty_like(w)) for a, w, out in zip(activations, weights, activations[1:])]
    jobs += [(out, w.T, np.empty_like(a)) for a, w, out in list(zip(activations, weights, activations[1:]))[1:]]

    def run():
        for left, right, out in jobs:
            np.dot(left, right, out=out)

    return run
