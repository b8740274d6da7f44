"""Random streams, and loops with shared state. The results depend only on the seed and on the position of the call
in the sequence of calls."""

from dataclasses import dataclass

from theano_ng.tests.programs.operations import Operation, both, doubles, of_ndim, register

CHAPTER = "random streams"
NUMPY, MRG = "T.shared_randomstreams.RandomStreams", "theano.sandbox.rng_mrg.MRG_RandomStreams"

# Pairs of a method call of RandomStreams and the equivalent call of NumPy's generator.
_DRAWS = (
    ("uniform({shape})", "g.uniform(size={shape})"),
    ("uniform({shape}, low=-1.0, high=0.5)", "g.uniform(-1.0, 0.5, {shape})"),
    ("normal({shape})", "g.normal(size={shape})"),
    ("binomial({shape}, n=5, p=0.3)", "g.binomial(5, 0.3, {shape})"),
    ("random_integers({shape}, low=-2, high=7)", "g.randint(-2, 8, {shape})"),
    ("poisson({shape}, lam=2.5)", "g.poisson(2.5, {shape})"),
    ("choice({shape}, a=7)", "g.choice(7, {shape})"),
    ("choice((3,), a=5, replace=False)", "g.choice(5, (3,), False)"),
    ("choice((3,), a=3, p=[0.2, 0.5, 0.3])", "g.choice(3, (3,), True, [0.2, 0.5, 0.3])"),
    ("permutation((2,), n=4)", "np.array([g.permutation(4) for _ in range(2)])"),
    ("permutation(n=3)", "g.permutation(3)"),
    ("multinomial((2,), n=6, pvals=[0.2, 0.3, 0.5])", "g.multinomial(6, [0.2, 0.3, 0.5], (2,))"),
)
_ROWS = "np.array([[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]])"
_DRAWS_OF_MRG = (
    "uniform({shape})",
    "uniform({shape}, low=-1.0, high=0.5)",
    "normal({shape})",
    "truncated_normal({shape})",
    "binomial({shape}, n=1, p=0.4)",
    "multinomial(pvals=%s, n=2)" % _ROWS,
    "choice(size=2, replace=False, p=%s)" % _ROWS,
    "choice(size=3, replace=True, p=%s)" % _ROWS,
)


def _numbers(draw, *_):
    # At least half of the draws are uniform or normal, because programs use these distributions most often.
    shape = draw.choice(((3,), (2, 3), (4,), (1, 2), (3, 3)))
    method, of_numpy = draw.choice(_DRAWS[:3] if draw.chance(0.5) else _DRAWS)
    return dict(seed=draw.integer(1, 1000), draw=method.format(shape=shape), of_numpy=of_numpy.format(shape=shape))


def _numbers_of_mrg(draw):
    shape = draw.choice(((3,), (2, 3), (4,), (1, 2), (3, 3)))
    method = draw.choice(_DRAWS_OF_MRG[:3] if draw.chance(0.5) else _DRAWS_OF_MRG)
    return dict(seed=draw.integer(1, 1000), draw=method.format(shape=shape))


# `ulps` is not zero, because the last bits of normal samples depend on the C functions that compute them.
_COMMON = dict(ulps=8, weight=1.5, stateful=True)
register(
    Operation(
        "RandomStreams",
        CHAPTER,
        NUMPY + "({seed}).{draw}",
        "drawn({seed}, {of_numpy!r}, call + 1)",
        parameters=_numbers,
        **_COMMON,
    )
)
register(
    Operation(
        "MRG_RandomStreams",
        CHAPTER,
        MRG + "({seed}).{draw}",
        "drawn_by_mrg({seed}, {draw!r}, call + 1)",
        parameters=_numbers_of_mrg,
        **_COMMON,
    )
)


def _given(v):
    return doubles(v) and 0 not in v.array.shape and not any(v.broadcastable)


def _around(draw, x):
    return dict(seed=draw.integer(1, 1000), shape=x.array.shape, dtype=str(x.array.dtype))


register(
    Operation(
        "normal_around",
        CHAPTER,
        NUMPY + "({seed}).normal({shape!r}, avg={0}, std=0.5, dtype='float64')",
        "{0} + 0.5 * drawn({seed}, 'g.normal(size=%r)' % ({shape!r},), call + 1)",
        (_given,),
        parameters=_around,
        scale="np.abs({0}) + 4",
        undefined=True,
        **_COMMON,
    )
)
register(
    Operation(
        "normal_around_by_mrg",
        CHAPTER,
        MRG + "({seed}).normal({shape!r}, avg={0}, std=0.5, dtype='float64')",
        "{0} + 0.5 * drawn_by_mrg({seed}, 'normal(%r)' % ({shape!r},), call + 1)",
        (_given,),
        parameters=_around,
        scale="np.abs({0}) + 4",
        undefined=True,
        **_COMMON,
    )
)


@dataclass(frozen=True)
class LoopWithState(Operation):
    """A loop whose steps update shared variables. The variables keep their values for the next step and the next call.

    `graph` is the code of the step. `before` is an optional line of code before the loop. In `graph` and `before`, OWN
    is a placeholder for a shared variable.
    """

    before: str = ""

    def graph_lines(self, node, render):
        updates = "updates_" + node.name
        lines = [self.filled(self.before, node).replace("OWN", "own_" + node.name)] if self.before else []
        step = self.filled(self.graph, node).replace("OWN", "own_" + node.name)
        return [
            *lines,
            "%s, %s = theano.scan(%s, sequences=[%s])" % (node.name, updates, step, node.operands[0]),
            "for variable, new in %s.items():" % updates,
            "    variable.default_update = new",
        ]


_STEPPED = both(_given, of_ndim(1, 2))
for _name, _place, _draw in (
    ("loop_of_draws", NUMPY, "drawn, {seed}, 'g.uniform(size=%r)' % ({shape!r},)"),
    ("loop_of_draws_by_mrg", MRG, "drawn_by_mrg, {seed}, 'uniform(%r)' % ({shape!r},)"),
):
    register(
        LoopWithState(
            _name,
            CHAPTER,
            "lambda a: a + %s({seed}).uniform({shape!r}, dtype='float64')" % _place,
            "{0} + by_steps(%s, len({0}), call)" % _draw,
            (both(_given, of_ndim(2)),),
            parameters=lambda draw, x: dict(seed=draw.integer(1, 1000), shape=x.array.shape[1:]),
            scale="np.abs({0}) + 1",
            **_COMMON,
        )
    )
register(
    LoopWithState(
        "loop_that_counts",
        CHAPTER,
        "lambda a: (a * OWN, {{OWN: OWN + 1}})",
        "{0} * (0.5 + call * len({0}) + np.arange(len({0}))).reshape({shape!r})",
        (_STEPPED,),
        parameters=lambda draw, x: dict(shape=(-1,) + (1,) * (x.array.ndim - 1)),
        before="OWN = theano.shared(0.5)",
        **_COMMON,
    )
)
