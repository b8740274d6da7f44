"""Keras' sequential interface on handwritten digits, with `fit` and `evaluate`.

The network has convolution, batch normalization, pooling, dropout and dense layers.
"""

from support import Report, digits

import numpy as np
import theano.ifelse  # noqa: F401, Keras uses theano.ifelse, but imports only theano
from keras import backend as K

K.set_floatx("float64")
K.set_image_dim_ordering("th")

from keras.layers import Activation, BatchNormalization, Convolution2D, Dense, Dropout, Flatten, MaxPooling2D
from keras.models import Sequential
from keras.optimizers import SGD
from keras.utils.np_utils import to_categorical


def main(report):
    np.random.seed(22)
    (train_x, train_y), (test_x, test_y) = digits(seed=22)
    train_x, test_x = (a.reshape(-1, 1, 8, 8) for a in (train_x, test_x))
    train_y, test_y = (to_categorical(a, 10) for a in (train_y, test_y))
    model = Sequential()
    model.add(Convolution2D(16, 3, 3, border_mode="same", bias=False, input_shape=(1, 8, 8)))
    model.add(BatchNormalization(axis=1))
    model.add(Activation("relu"))
    model.add(MaxPooling2D())
    model.add(Convolution2D(16, 3, 3, activation="relu"))
    model.add(Flatten())
    model.add(Dropout(0.25))
    model.add(Dense(64, activation="tanh"))
    model.add(Dense(10, activation="softmax"))
    model.compile(SGD(lr=0.05, momentum=0.9, nesterov=True), "categorical_crossentropy", metrics=["accuracy"])

    for i in range(0, 500, 100):
        report.step(model.train_on_batch, train_x[i : i + 100], train_y[i : i + 100])
    for epoch in range(2 if report.small else 8):
        history = model.fit(train_x, train_y, batch_size=100, nb_epoch=1, verbose=0).history
        cost, accuracy = model.evaluate(test_x, test_y, verbose=0)
        report.row(epoch, train_cost=history["loss"][0], test_cost=cost, test_accuracy=accuracy)
    report.checksums(**{"w%02d" % k: w for k, w in enumerate(model.get_weights())})
    report.finish()


if __name__ == "__main__":
    main(Report(__doc__))
