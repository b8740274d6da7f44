"""Cases of neural networks for the audit: batch normalization, blocks, windows, temporal classification.

`audit_cases` has all cases.
"""

import numpy as np

from theano_ng import tensor as tt
from theano_ng.audit.records import Case
from theano_ng.tensor.nnet import blocksparse, bn, ctc, neighbours

RNG = np.random.RandomState(13)
X, DY, IMAGES = RNG.randn(4, 3), RNG.randn(4, 3), RNG.randn(2, 3, 4, 2)
ROWS = [RNG.uniform(0.5, 2, (1, 3)) for _ in range(4)]
CHANNELS = [RNG.uniform(0.5, 2, (1, 3, 1, 1)).astype("float32") for _ in range(3)]
BLOCKS, O, H = RNG.randn(4, 3, 2, 5), RNG.randn(2, 2, 5), RNG.randn(2, 3, 2)
FROM, TO = np.array([[0, 2, 1], [1, 1, 3]]), np.array([[2, 0], [1, 1]])
PIXELS = RNG.randn(2, 1, 4, 6)


def _statistics(op, *more, first=1):
    """Return a function that calls an Op after declaring the statistics broadcastable along the axes of the Op.

    The statistics are the inputs from position `first` on.
    """

    def build(*values):
        rest = [tt.addbroadcast(v, *op.axes) if v.ndim else v for v in values[first:]]
        return op(*values[:first], *rest, *more)

    return build


def statistic_places(count, first=1):
    def tied(values):
        x = values[0]
        axes = (0,) if x.ndim == 2 else (0, 2, 3)
        small = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
        far_from_zero = 0 not in x.shape and (
            x.shape[0] > 1 and np.isfinite(x).all() and (x.astype("float64").var(axes) > 1e-2).all()
        )
        return (
            all(v.shape == x.shape for v in values[1:first])
            and all(v.shape == small for v in values[first : first + count])
            and far_from_zero
        )

    return tied


def _positive(places):
    def tied(values):
        return statistic_places(4)(values) and all((np.asarray(values[p]) > 0.1).all() for p in places)

    return tied


def blocks_fit(values):
    """Return True if the shapes match and the indices name existing blocks."""
    if values[0].ndim == 3:
        o, w, h, i, j = values
        fits = (o.shape[0], w.shape[2], w.shape[3]) == (h.shape[0], h.shape[2], o.shape[2])
        fits = fits and i.shape == h.shape[:2] and j.shape == o.shape[:2]
    else:
        w, x, y, i, j = values[:5]
        fits = (x.shape[0], w.shape[2], w.shape[3]) == (y.shape[0], x.shape[2], y.shape[2])
        fits = fits and i.shape == x.shape[:2] and j.shape == y.shape[:2]
    if values[0].ndim == 3:
        w = values[1]
    return bool(fits) and (abs(i) < w.shape[0]).all() and (abs(j) < w.shape[1]).all()


def alignable(values):
    """Return True if the labels are symbols, and each example has an alignment."""
    x, labels, lengths = values
    if 0 in x.shape or labels.shape[0] != x.shape[1] or lengths.shape[0] != x.shape[1] or not np.isfinite(x).all():
        return False
    if (labels == 0).any() or (labels >= x.shape[2]).any() or (lengths < 1).any() or (lengths > x.shape[0]).any():
        return False
    for row, n in zip(labels, lengths):
        here = row[row > 0]
        if len(here) + (here[1:] == here[:-1]).sum() > n:
            return False
    return True


def audit_cases():
    columns = [
        Case(
            _statistics(bn.BatchNormTrain((0,)), 1e-2), [X, *ROWS[:2]], tied=statistic_places(2), name="BatchNormTrain"
        ),
        Case(
            _statistics(bn.BatchNormTrain((0, 2, 3)), 1e-2),
            [IMAGES.astype("float32"), *CHANNELS[:2]],
            tied=statistic_places(2),
            name="BatchNormTrain of images",
        ),
        Case(
            lambda x, s, b, m, v: bn.AbstractBatchNormTrain((0,))(
                x, *[tt.addbroadcast(t, 0) for t in (s, b)], 1e-2, 0.3, *[tt.addbroadcast(t, 0) for t in (m, v)]
            ),
            [X, *ROWS],
            tied=statistic_places(4),
            name="AbstractBatchNormTrain",
        ),
        Case(
            _statistics(bn.AbstractBatchNormInference((0,)), 1e-2),
            [X, *ROWS],
            tied=_positive([4]),
            name="AbstractBatchNormInference",
        ),
    ]
    for op in (bn.AbstractBatchNormTrainGrad((0,)), bn.BatchNormTrainGrad((0,))):
        columns.append(
            Case(
                _statistics(op, 1e-2, first=2),
                [X, DY, *ROWS[:3]],
                tied=statistic_places(3, first=2),
                name=type(op).__name__,
            )
        )
    columns.append(
        Case(
            _statistics(bn.BatchNormTrainGrad((0, 2, 3)), 1e-2, first=2),
            [IMAGES.astype("float32"), IMAGES[::-1].astype("float32"), *CHANNELS],
            tied=statistic_places(3, first=2),
            name="BatchNormTrainGrad of images",
        )
    )
    return columns + [
        Case(
            tt.Elemwise(bn.BNComposite("float64")),
            [X, DY, np.abs(DY) + 0.5, DY, X],
            tied=lambda values: len({v.shape for v in values}) == 1 and (np.abs(values[2]) > 0.1).all(),
            name="BNComposite",
        ),
        Case(blocksparse.sparse_block_gemv, [O, BLOCKS, H, FROM, TO], tied=blocks_fit),
        Case(blocksparse.sparse_block_outer, [BLOCKS, H, O, FROM, TO, np.float64(0.5)], tied=blocks_fit),
        Case(
            blocksparse.sparse_block_gemv_inplace,
            [O, BLOCKS, H, FROM, TO],
            tied=blocks_fit,
            name="SparseBlockGemv in place",
        ),
        Case(
            blocksparse.sparse_block_outer_inplace,
            [BLOCKS.astype("f"), H.astype("f"), O.astype("f"), FROM, TO, np.float32(0.5)],
            tied=blocks_fit,
            name="SparseBlockOuter in place",
        ),
        *[
            Case(
                lambda x, mode=mode: neighbours.Images2Neibs(mode)(x, (3, 3), (1, 1)),
                [PIXELS],
                tied=lambda values: min(values[0].shape[2:]) >= 3,
                name="Images2Neibs " + mode,
            )
            for mode in ("valid", "half", "full", "ignore_borders", "wrap_centered")
        ],
        Case(
            lambda x: neighbours.Images2NeibsGrad("half")(x, 2, 1, 4, 6, (3, 3), (1, 1)),
            [RNG.randn(48, 9)],
            tied=lambda values: values[0].shape == (48, 9),
            name="Images2NeibsGrad",
        ),
        Case(
            ctc.ConnectionistTemporalClassification(compute_grad=False),
            [RNG.randn(5, 2, 3), np.array([[1, 2], [2, -1]]), np.array([5, 4])],
            tied=alignable,
        ),
        Case(
            ctc.ConnectionistTemporalClassification(),
            [RNG.randn(5, 2, 3), np.array([[1, 1], [-3, 2]]), np.array([5, 4])],
            tied=alignable,
            name="ConnectionistTemporalClassification with gradients",
            skip=dict.fromkeys(("grad", "R_op"), "the second output has no derivative"),
        ),
    ]
