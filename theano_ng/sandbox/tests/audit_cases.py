"""Audit cases of Ops that draw random numbers: ``theano_ng-audit theano_ng.sandbox.tests.audit_cases``."""

import numpy as np

from theano_ng import tensor as tt
from theano_ng.audit.records import Case
from theano_ng.sandbox import mrg31k3p
from theano_ng.sandbox.multinomial import ChoiceFromUniform, MultinomialFromUniform, MultinomialWOReplacementFromUniform
from theano_ng.sandbox.rng_mrg import DotModulo, mrg_uniform
from theano_ng.tensor import raw_random

STREAMS = mrg31k3p.substreams([12345] * 6, 3)
PVALS = np.array([[0.25, 0.25, 0.5], [0.5, 0.25, 0.25]])
UNIS = np.array([0.3, 0.7, 0.1, 0.6])
COUNTS = {"grad": "the numbers of a sample are taken not to depend on what they are drawn from", "R_op": "see grad"}
STATE = {"grad": "draws have no derivatives", "R_op": "draws have no derivatives"}


def _streams(values):
    """Return True if states have six columns and at least one row; the audit generates matrices of any shape."""
    return (
        values[0].ndim == 2
        and values[0].shape[1] == 6
        and values[0].shape[0] > 0
        and (np.asarray(values[1]) < 50).all()
    )


def _samples(n):
    return lambda values: values[1].shape[0] == n * values[0].shape[0] and n <= values[0].shape[1]


def _drawn(draw):
    """Return a function that returns the samples which `draw` draws from a constant generator."""
    return lambda *parameters: draw(raw_random.random_state_type.make_constant(np.random.RandomState(3)), *parameters)[
        1
    ]


def audit_cases():
    """Return one case for each Op."""
    return [
        *[
            Case(
                mrg_uniform(tt.TensorType(dtype, [False, False])),
                [STREAMS, np.array([3, 5])],
                name="mrg_uniform %s" % dtype,
                tied=_streams,
                skip=STATE,
            )
            for dtype in ("float16", "float32", "float64")
        ],
        Case(
            DotModulo(),
            [
                mrg31k3p.A1p72,
                STREAMS[1, :3],
                np.int32(mrg31k3p.M1),
                mrg31k3p.A2p72,
                STREAMS[1, 3:],
                np.int32(mrg31k3p.M2),
            ],
            tied=lambda values: values[2] > 0 and values[5] > 0,
            skip=STATE,
        ),
        Case(
            lambda p, u: MultinomialFromUniform("int64")(p, u, 2),
            [PVALS, UNIS],
            name="MultinomialFromUniform",
            tied=_samples(2),
            skip=COUNTS,
        ),
        Case(
            lambda p, u: ChoiceFromUniform("float32")(p, u, 2),
            [PVALS, UNIS],
            name="ChoiceFromUniform",
            tied=_samples(2),
            skip=COUNTS,
        ),
        Case(
            lambda p, u: ChoiceFromUniform("int64", replace=True)(p, u, 2),
            [PVALS, UNIS],
            name="ChoiceFromUniform with replacement",
            tied=_samples(2),
            skip=COUNTS,
        ),
        Case(
            lambda p, u: MultinomialWOReplacementFromUniform("int64")(p, u, 2),
            [PVALS, UNIS],
            name="MultinomialWOReplacementFromUniform",
            tied=_samples(2),
            skip=COUNTS,
        ),
        Case(
            _drawn(lambda r, low, high: raw_random.uniform(r, (3, 4), low, high)),
            [np.array([0.5, 1.0, -2.0, 0.0]), np.float64(3)],
            name="RandomFunction uniform",
            tied=lambda values: (
                values[0].shape in ((4,), (1,)) and np.isfinite(values[0]).all() and np.isfinite(values[1])
            ),
            skip=STATE,
        ),
        Case(
            _drawn(lambda r, n: raw_random.permutation(r, (2,), n)),
            [np.int64(5)],
            name="RandomFunction permutation",
            tied=lambda values: 0 <= values[0] < 100,
            skip=STATE,
        ),
    ]
