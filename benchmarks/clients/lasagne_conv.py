"""A convolutional network of Lasagne on handwritten digits: two convolutions, pooling, dropout."""

from support import Report

from lasagne_mlp import train  # isort: skip
from lasagne import layers, nonlinearities


def build(x):
    network = layers.InputLayer((None, 1, 8, 8), x)
    network = layers.Conv2DLayer(network, 16, (3, 3), pad="same")
    network = layers.MaxPool2DLayer(network, (2, 2))
    network = layers.Conv2DLayer(network, 32, (3, 3), nonlinearity=nonlinearities.leaky_rectify)
    network = layers.DenseLayer(layers.dropout(network, 0.3), 64)
    return layers.DenseLayer(network, 10, nonlinearity=nonlinearities.softmax)


if __name__ == "__main__":
    train(Report(__doc__), build, (1, 8, 8))
