"""Word vectors learned from neighboring words: skip-grams with negative sampling.

The words of each sentence of the corpus are drawn from one topic, so that the vectors of words of a topic become
similar. A training step reads rows of two matrices by advanced indexing, and adds gradients to these rows with
`inc_subtensor`.
"""

from support import Report

import numpy as np
import theano
import theano.tensor as T

SIZE, WINDOW, NEGATIVES, BATCH, RATE = 16, 2, 5, 100, 5.0

TOPICS = {
    "kitchen": "bread flour oven salt butter spoon".split(),
    "harbour": "ship anchor sail tide rope captain".split(),
    "garden": "rose soil spade hedge apple bee".split(),
    "music": "violin drum choir song organ flute".split(),
}
COMMON = "the and of with".split()


def corpus(rng, count):
    """Return the words of `count` random sentences. A sentence consists of words of one topic and common words."""
    words = []
    for _ in range(count):
        topic = TOPICS[sorted(TOPICS)[rng.randint(len(TOPICS))]]
        for _ in range(8):
            source = COMMON if rng.uniform() < 0.3 else topic
            words.append(source[rng.randint(len(source))])
    return words


def pairs(rng, codes, p_noise, count):
    """Return `count` words, a neighbor of each word, and `NEGATIVES` words for each word, drawn from `p_noise`."""
    places = rng.randint(WINDOW, len(codes) - WINDOW, count)
    offsets = rng.randint(1, WINDOW + 1, count) * rng.choice([-1, 1], count)
    negatives = rng.choice(len(p_noise), (count, NEGATIVES), p=p_noise)
    return codes[places], codes[places + offsets], negatives.astype("int32")


def main(report):
    floatX = theano.config.floatX
    rng = np.random.RandomState(9)
    words = corpus(rng, 2000)
    vocabulary = sorted(set(words))
    codes = np.array([vocabulary.index(word) for word in words], "int32")
    p_noise = np.bincount(codes) ** 0.75
    p_noise /= p_noise.sum()

    W_in = theano.shared(rng.uniform(-0.5, 0.5, (len(vocabulary), SIZE)).astype(floatX) / SIZE, "W_in")
    W_out = theano.shared(np.zeros((len(vocabulary), SIZE), floatX), "W_out")
    centre, context, negative = T.ivector("centre"), T.ivector("context"), T.imatrix("negative")
    v, u, n = W_in[centre], W_out[context], W_out[negative]
    near = T.nnet.softplus(-(v * u).sum(axis=1))
    far = T.nnet.softplus((v.dimshuffle(0, "x", 1) * n).sum(axis=2)).sum(axis=1)
    cost = T.mean(near + far)
    g_v, g_u, g_n = T.grad(cost, [v, u, n])
    new_out = T.inc_subtensor(u, -RATE * g_u)
    new_out = T.inc_subtensor(new_out[negative], -RATE * g_n)
    updates = [(W_in, T.inc_subtensor(v, -RATE * g_v)), (W_out, new_out)]
    step = theano.function([centre, context, negative], cost, updates=updates)

    unit = W_in / T.sqrt(T.sqr(W_in).sum(axis=1, keepdims=True))
    similarity = theano.function([], T.dot(unit, unit.T))
    topic_of = {word: topic for topic in TOPICS for word in TOPICS[topic]}
    known = np.array([word in topic_of for word in vocabulary])
    same = np.array([[a != b and topic_of.get(a) == topic_of.get(b) for a in vocabulary] for b in vocabulary])
    same &= known & known[:, None]
    other = known & known[:, None] & ~same & ~np.eye(len(vocabulary), dtype=bool)

    per_row = 10 if report.small else 500
    for row in range(2 if report.small else 8):
        costs = [report.step(step, *pairs(rng, codes, p_noise, BATCH)) for _ in range(per_row)]
        s = similarity()
        report.row((row + 1) * per_row, cost=np.mean(costs), same_topic=s[same].mean(), other_topic=s[other].mean())
    report.checksums(W_in=W_in.get_value(), W_out=W_out.get_value())

    def draw(figure):
        axes = figure.subplots(1, 2, gridspec_kw={"width_ratios": [3, 2]})
        vectors = W_in.get_value() - W_in.get_value()[known].mean(0)
        places = vectors.dot(np.linalg.svd(vectors[known], full_matrices=False)[2][:2].T)
        for colour, topic in enumerate(sorted(TOPICS)):
            for word in TOPICS[topic]:
                axes[0].text(*places[vocabulary.index(word)], s=word, color="C%d" % colour, ha="center", fontsize=8)
        axes[0].set_xlim(places[:, 0].min() - 0.3, places[:, 0].max() + 0.3)
        axes[0].set_ylim(places[:, 1].min() - 0.3, places[:, 1].max() + 0.3)
        axes[0].set_title("two main directions")
        by_topic = [vocabulary.index(word) for topic in sorted(TOPICS) for word in TOPICS[topic]]
        axes[1].imshow(similarity()[by_topic][:, by_topic], cmap="RdBu", vmin=-1, vmax=1)
        axes[1].set_title("similarities")

    report.finish(draw)


if __name__ == "__main__":
    main(Report(__doc__))
