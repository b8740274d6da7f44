"""Factorization of a matrix with few known entries: ratings of films by users.

A short vector describes each user and each film. A training step changes only the vectors of the users and films in its
minibatch. The gradient is computed with respect to these vectors, and `inc_subtensor` updates them.
"""

from support import Report

import numpy as np
import theano
import theano.tensor as T

USERS, FILMS, TRUE_RANK, RANK, KNOWN = 300, 200, 4, 6, 12000
BATCH, RATE, PENALTY, NOISE = 200, 10.0, 0.01, 0.2


def ratings(rng):
    """Return arrays of users, films and ratings: the indices and values of entries of a low-rank matrix with noise.

    Each entry occurs at most once. The last tenth of the ratings is for the test.
    """
    table = rng.normal(size=(USERS, TRUE_RANK)).dot(rng.normal(size=(TRUE_RANK, FILMS))) / np.sqrt(TRUE_RANK)
    chosen = rng.permutation(USERS * FILMS)[:KNOWN]
    users, films = (chosen // FILMS).astype("int32"), (chosen % FILMS).astype("int32")
    values = 3 + table[users, films] + NOISE * rng.normal(size=KNOWN)
    return users, films, values.astype(theano.config.floatX)


def main(report):
    floatX = theano.config.floatX
    rng = np.random.RandomState(8)
    users, films, values = ratings(rng)
    U = theano.shared(rng.normal(0, 0.3, (USERS, RANK)).astype(floatX), "U")
    F = theano.shared(rng.normal(0, 0.3, (FILMS, RANK)).astype(floatX), "F")
    bias = theano.shared(np.zeros(FILMS, floatX), "bias")
    mean = values.mean()

    user, film, value = T.ivector("user"), T.ivector("film"), T.vector("value")
    rows = [U[user], F[film], bias[film]]
    predicted = mean + (rows[0] * rows[1]).sum(axis=1) + rows[2]
    error = T.mean(T.sqr(predicted - value))
    cost = error + PENALTY * sum(T.sqr(r).sum() for r in rows) / user.shape[0]
    # If a user has several ratings in the minibatch, the increments of these ratings are added up.
    updates = [(p, T.inc_subtensor(r, -RATE * g)) for p, r, g in zip([U, F, bias], rows, T.grad(cost, rows))]
    step = theano.function([user, film, value], error, updates=updates)
    rmse = theano.function([user, film, value], T.sqrt(error))

    train, test = slice(0, KNOWN * 9 // 10), slice(KNOWN * 9 // 10, None)
    for epoch in range(3 if report.small else 40):
        errors = []
        for chosen in rng.permutation(train.stop).reshape(-1, BATCH):
            errors.append(report.step(step, users[chosen], films[chosen], values[chosen]))
        report.row(epoch, train_rmse=np.sqrt(np.mean(errors)), test_rmse=rmse(users[test], films[test], values[test]))
    report.checksums(U=U.get_value(), F=F.get_value(), bias=bias.get_value())
    print("the noise alone: %.2f" % NOISE)

    def draw(figure):
        axes = figure.subplots(1, 2)
        for name in ("train_rmse", "test_rmse"):
            axes[0].plot([row[name] for row in report.rows], label=name.replace("_", " "))
        axes[0].axhline(NOISE, color="k", lw=0.5, ls="--")
        axes[0].set_xlabel("epoch")
        axes[0].legend()
        guesses = (
            mean + (U.get_value()[users[test]] * F.get_value()[films[test]]).sum(1) + bias.get_value()[films[test]]
        )
        axes[1].scatter(values[test], guesses, s=2)
        axes[1].set_xlabel("rating")
        axes[1].set_ylabel("prediction")

    report.finish(draw)


if __name__ == "__main__":
    main(Report(__doc__))
