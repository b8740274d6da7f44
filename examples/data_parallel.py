"""Train one network on several devices at once. Each device has a copy of the parameters, and computes the gradient of its
part of each minibatch. The gradients are added over all devices by `all_reduce`, so all copies change alike.

    python examples/data_parallel.py opencl0:0 opencl0:0
    python examples/data_parallel.py cuda0 cuda1

The program compares the result with that of the first device alone.
"""

import argparse
import threading
import time

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.gpuarray import devices
from theano_ng.gpuarray.contexts import get_context
from theano_ng.gpuarray.pygpu import collectives
from theano_ng.gpuarray.type import GpuArrayType

RATE = 0.2
SIZES = (20, 32, 5)


def first_parameters(seed=1):
    """Return the initial weights and biases."""
    rng = np.random.default_rng(seed)
    shapes = [(SIZES[0], SIZES[1]), (SIZES[1],), (SIZES[1], SIZES[2]), (SIZES[2],)]
    return [(rng.normal(size=shape) / np.sqrt(shape[0])).astype("float32") for shape in shapes]


def batches(count, size, seed=2):
    """Return minibatches: points, and the classes that a random linear map assigns to them."""
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(SIZES[0], SIZES[2]))
    points = rng.normal(size=(count, size, SIZES[0])).astype("float32")
    return list(zip(points, (points @ directions).argmax(-1).astype("int32")))


class Replica:
    """A copy of the network in one context.

    Parameters
    ----------
    name : str
        The name of the context.
    total : int
        The number of points of a whole minibatch.

    Attributes
    ----------
    gradients : function
        Points and classes of a part of a minibatch -> the part's share of the cost, and of the gradients, on the device.
    update : function
        Gradients on the device -> nothing; changes the parameters.
    """

    def __init__(self, name, total):
        self.name = name
        self.parameters = [theano.shared(value, target=name) for value in first_parameters()]
        w1, b1, w2, b2 = self.parameters
        x, y = T.fmatrix("x"), T.ivector("y")
        scores = T.nnet.softmax(T.dot(T.tanh(T.dot(x, w1) + b1), w2) + b2)
        cost = T.nnet.categorical_crossentropy(scores, y).sum() / np.float32(total)
        found = [g.transfer(name) for g in T.grad(cost, self.parameters)]
        self.gradients = theano.function([x, y], [cost, *found])
        steps = [GpuArrayType("float32", (False,) * p.ndim, name)() for p in self.parameters]
        updates = [(p, p - np.float32(RATE) * step) for p, step in zip(self.parameters, steps)]
        self.update = theano.function(steps, updates=updates)

    def train(self, data, comm):
        """Train on this member's parts of minibatches. Return the costs of the whole minibatches."""
        costs = []
        for x, y in data:
            part = slice(comm.rank * len(x) // comm.count, (comm.rank + 1) * len(x) // comm.count)
            cost, *found = self.gradients(x[part], y[part])
            for gradient in found:
                comm.all_reduce(gradient, "sum", dest=gradient)
            self.update(*found)
            costs.append(float(cost))
        return np.array(costs)


def train(names, data):
    """Train in these contexts at the same time, each in a thread.

    Returns
    -------
    costs : numpy.ndarray
        The cost of each minibatch.
    parameters : list of list of numpy.ndarray
        The parameters in each context.
    """
    replicas = [Replica(name, len(data[0][0])) for name in names]
    cid = collectives.GpuCommCliqueId(get_context(names[0]))
    shares, errors = [None] * len(names), []

    def member(rank):
        mine = collectives.GpuCommCliqueId(get_context(names[rank]), cid.comm_id)
        with collectives.GpuComm(mine, len(names), rank) as comm:  # a member that fails leaves, so that no other waits
            try:
                shares[rank] = replicas[rank].train(data, comm)
            except Exception as error:
                errors.append(error)

    threads = [threading.Thread(target=member, args=(rank,)) for rank in range(len(names))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return sum(shares), [[p.get_value() for p in replica.parameters] for replica in replicas]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("devices", nargs="+", help="such as cuda0 cuda1; a device can be named several times")
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    names = ["dev%d" % i for i in range(len(arguments.devices))]
    for name, device in zip(names, arguments.devices):
        devices.init_dev(device, name)
    data = batches(arguments.steps, 64)
    alone, (expected,) = train(names[:1], data)
    start = time.perf_counter()
    costs, found = train(names, data)
    print("cost %.4f -> %.4f in %.2f s" % (costs[0], costs[-1], time.perf_counter() - start))
    copies = max(abs(a - b).max() for copy in found for a, b in zip(copy, found[0]))
    single = max(abs(a - b).max() for a, b in zip(found[0], expected))
    print("largest difference between the copies: %.1e" % copies)
    print("largest difference from one device: %.1e, of the costs %.1e" % (single, abs(costs - alone).max()))


if __name__ == "__main__":
    main()
