"""Keras' functional interface: a network with two inputs.

The first input is a sequence of words, which an embedding and an LSTM process. The second input consists of numbers,
which a dense layer with batch normalization processes. Both results are merged. The words are of two kinds. The task is
to decide whether the difference of the counts of both kinds, plus a multiple of the first number, is positive. The
trained model is saved and loaded, and the loaded model must give equal predictions.
"""

from support import Report

import os
import tempfile

import numpy as np
import theano.ifelse  # noqa: F401, Keras uses theano.ifelse, but imports only theano
from keras import backend as K

K.set_floatx("float64")

from keras.layers import LSTM, BatchNormalization, Dense, Embedding, Input, merge
from keras.models import Model, load_model, model_from_json

WORDS, LENGTH, COUNT = 20, 12, 1000


def main(report):
    np.random.seed(23)
    rng = np.random.RandomState(23)
    words = rng.randint(0, WORDS, (COUNT, LENGTH))
    offsets = rng.normal(size=(COUNT, 3))
    answer = ((words < WORDS // 2).sum(axis=1) - LENGTH / 2.0 + 2 * offsets[:, 0] > 0).astype("float64")
    sequence, numbers = (
        Input(shape=(LENGTH,), dtype="int32", name="sequence"),
        Input(shape=(3,), dtype="float64", name="numbers"),
    )
    read = LSTM(24, name="lstm")(Embedding(WORDS, 8, input_length=LENGTH, name="embedding")(sequence))
    beside = BatchNormalization(name="normalized")(Dense(8, activation="relu", name="dense")(numbers))
    both = Dense(16, activation="tanh", name="both")(merge([read, beside], mode="concat"))
    model = Model(input=[sequence, numbers], output=Dense(1, activation="sigmoid", name="answer")(both))
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])

    train, test = slice(0, 800), slice(800, COUNT)
    for i in range(0, 500, 100):
        rows = slice(i, i + 100)
        report.step(model.train_on_batch, [words[rows], offsets[rows]], answer[rows])
    for epoch in range(1 if report.small else 8):
        history = model.fit([words[train], offsets[train]], answer[train], batch_size=50, nb_epoch=1, verbose=0).history
        cost, accuracy = model.evaluate([words[test], offsets[test]], answer[test], verbose=0)
        report.row(epoch, train_cost=history["loss"][0], test_cost=cost, test_accuracy=accuracy)
    predicted = model.predict([words[test], offsets[test]])
    report.checksums(predicted=predicted, **{"w%02d" % k: w for k, w in enumerate(model.get_weights())})

    folder = tempfile.mkdtemp()
    weights, whole = os.path.join(folder, "weights.h5"), os.path.join(folder, "model.h5")
    model.save_weights(weights)
    copy = model_from_json(model.to_json())
    copy.load_weights(weights)
    again = [copy.predict([words[test], offsets[test]])]
    model.save(whole)
    again.append(load_model(whole).predict([words[test], offsets[test]]))
    for predictions in again:
        assert np.array_equal(predictions, predicted), "what was saved and loaded predicts otherwise"
    report.row("loaded", copies=len(again))
    report.finish()


if __name__ == "__main__":
    main(Report(__doc__))
