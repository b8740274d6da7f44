"""A language model of characters: a long short-term memory in a `scan`, trained on sentences of a small grammar.

Gradients are clipped by their norm, and training steps are scaled by a running average of the squared gradients. After
training, the model generates text: in a second scan, `multinomial` of `MRG_RandomStreams` draws each character.
"""

from support import Report

import numpy as np
import theano
import theano.tensor as T
from theano.sandbox.rng_mrg import MRG_RandomStreams

HIDDEN, LENGTH, BATCH, RATE, CLIP = 64, 40, 16, 0.01, 5.0

SUBJECTS = "the miller|a grey heron|the last ferry|my neighbour|an old clock|the north wind".split("|")
VERBS = "waits for|passes|remembers|follows|wakes".split("|")
OBJECTS = "the river|a stone bridge|the evening train|two sisters|the rain".split("|")
ENDS = "at noon|without a word|in early spring|again and again|by the mill".split("|")


def sentences(rng, count):
    parts = (SUBJECTS, VERBS, OBJECTS, ENDS)
    return "".join(" ".join(choices[rng.randint(len(choices))] for choices in parts) + ". " for _ in range(count))


def weights(rng, *shape):
    return (rng.uniform(-1, 1, shape) / np.sqrt(shape[0])).astype(theano.config.floatX)


class LSTM(object):
    """A long short-term memory.

    The columns of `E` and `U` belong to the input gate, the forget gate, the output gate and the candidate.
    """

    def __init__(self, rng, letters, hidden):
        floatX = theano.config.floatX
        bias = np.zeros(4 * hidden, floatX)
        bias[hidden : 2 * hidden] = 1  # bias of the forget gate: at first, the cells forget little
        self.E = theano.shared(weights(rng, letters, 4 * hidden), "E")
        self.U = theano.shared(weights(rng, hidden, 4 * hidden), "U")
        self.b = theano.shared(bias, "b")
        self.V = theano.shared(weights(rng, hidden, letters), "V")
        self.c = theano.shared(np.zeros(letters, floatX), "c")
        self.params = [self.E, self.U, self.b, self.V, self.c]
        self.hidden = hidden

    def step(self, from_input, h, cell):
        gates = from_input + T.dot(h, self.U)
        i, f, o = (T.nnet.sigmoid(gates[:, k * self.hidden : (k + 1) * self.hidden]) for k in range(3))
        cell = f * cell + i * T.tanh(gates[:, 3 * self.hidden :])
        return o * T.tanh(cell), cell

    def state(self, n):
        return T.zeros((n, self.hidden), theano.config.floatX)

    def cost(self, letters):
        """Return the mean cross-entropy of each letter, given the preceding letters.

        `letters` is an integer matrix with the axes (time, batch).
        """
        (h, _), _ = theano.scan(
            self.step, sequences=self.E[letters[:-1]] + self.b, outputs_info=[self.state(letters.shape[1])] * 2
        )
        p = T.nnet.softmax(T.dot(h.reshape((-1, self.hidden)), self.V) + self.c)
        return T.nnet.categorical_crossentropy(p, letters[1:].flatten()).mean()

    def write(self, streams, first, n_steps):
        """Return `n_steps` generated letters that follow `first`, and the updates of the random streams."""

        def step(letter, h, cell):
            h, cell = self.step(self.E[letter] + self.b, h, cell)
            p = T.nnet.softmax(T.dot(h, self.V) + self.c)
            return T.argmax(streams.multinomial(pvals=p), axis=1), h, cell

        start = [T.cast(first, "int64"), self.state(first.shape[0]), self.state(first.shape[0])]
        (letters, _, _), updates = theano.scan(step, outputs_info=start, n_steps=n_steps)
        return letters, updates


def main(report):
    rng = np.random.RandomState(6)
    text = sentences(rng, 400)
    alphabet = sorted(set(text))
    codes = np.array([alphabet.index(letter) for letter in text], "int32")
    model = LSTM(rng, len(alphabet), HIDDEN)
    letters, first = T.imatrix("letters"), T.lvector("first")
    cost = model.cost(letters)
    gradients = T.grad(cost, model.params)
    norm = T.sqrt(sum(T.sqr(g).sum() for g in gradients))
    updates = []
    for p, g in zip(model.params, gradients):
        g = g * T.minimum(1, CLIP / norm)
        mean_square = theano.shared(np.zeros_like(p.get_value()))
        new_mean = 0.95 * mean_square + 0.05 * T.sqr(g)
        updates += [(mean_square, new_mean), (p, p - RATE * g / T.sqrt(new_mean + 1e-4))]
    step = theano.function([letters], [cost, norm], updates=updates)
    written, stream_updates = model.write(MRG_RandomStreams(seed=66), first, n_steps=60)
    write = theano.function([first], written, updates=stream_updates)

    per_row = 5 if report.small else 120
    for row in range(2 if report.small else 8):
        results = []
        for _ in range(per_row):
            places = rng.randint(0, len(codes) - LENGTH, BATCH)
            results.append(report.step(step, codes[places + np.arange(LENGTH)[:, None]]))
        costs, norms = zip(*results)
        report.row((row + 1) * per_row, cost=np.mean(costs), gradient_norm=np.mean(norms))
    lines = ["".join(alphabet[k] for k in line) for line in write([alphabet.index(" ")] * 3).T]
    print("\n".join(lines))
    report.checksums(written=[[alphabet.index(letter) for letter in line] for line in lines])
    report.checksums(**{p.name: p.get_value() for p in model.params})

    def draw(figure):
        axes = figure.subplots(1, 2)
        axes[0].plot([int(row["row"]) for row in report.rows], [row["cost"] for row in report.rows])
        axes[0].set_xlabel("step")
        axes[0].set_title("cross-entropy of a letter (nats)")
        axes[1].text(
            0, 0.5, "\n\n".join(line[:30] + "\n" + line[30:] for line in lines), family="monospace", va="center"
        )
        axes[1].set_title("written by the model")
        axes[1].axis("off")

    report.finish(draw)


if __name__ == "__main__":
    main(Report(__doc__))
