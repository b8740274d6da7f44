"""Logistic regression, which runs with device=cuda, with device=opencl0:0, and without a device."""

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T

rng = np.random.default_rng(0)
images = rng.standard_normal((400, 784)).astype(theano.config.floatX)
labels = (images[:, 0] > 0).astype(theano.config.floatX)

# An array in a shared variable is copied to the device once. Therefore the data of all steps are in shared variables.
x, y = theano.shared(images, "x"), theano.shared(labels, "y")
w, b = theano.shared(np.zeros(784, theano.config.floatX), "w"), theano.shared(np.zeros((), theano.config.floatX), "b")

p = T.nnet.sigmoid((x * w).sum(axis=1) + b)
cost = T.nnet.binary_crossentropy(p, y).mean()
gw, gb = T.grad(cost, [w, b])
rate = np.asarray(0.1, theano.config.floatX)
train = theano.function([], cost, updates=[(w, w - rate * gw), (b, b - rate * gb)])

for _ in range(10):
    last = train()
print("cost %.4f" % last)
print("w is a %s" % type(w.get_value(borrow=True, return_internal_type=True)).__name__)
print("nodes on a device: %s" % any("Gpu" in str(node.op) for node in train.maker.fgraph.toposort()))
