"""Random streams: their numbers are functions of the seed and of the number of the call."""

from theano_ng.tests.programs.operations import Operation, register

CHAPTER = "random streams"


def _numbers(draw):
    return dict(
        seed=draw.integer(1, 1000),
        shape=draw.choice(((3,), (2, 3), (4,), (1, 2), (3, 3))),
        kind=draw.choice(("uniform", "normal", "uniform")),
    )


for _class, _place in (
    ("RandomStreams", "T.shared_randomstreams.RandomStreams"),
    ("MRG_RandomStreams", "theano.sandbox.rng_mrg.MRG_RandomStreams"),
):
    register(
        Operation(
            _class,
            CHAPTER,
            _place + "({seed}).{kind}({shape!r})",
            "drawn({seed}, {kind!r}, {shape!r}, call)"
            if _class == "RandomStreams"
            else "drawn_by_mrg({seed}, {kind!r}, {shape!r}, call)",
            parameters=_numbers,
            # The last bits of normal numbers depend on the functions of C that compute them.
            ulps=8,
            weight=1.5,
        )
    )
