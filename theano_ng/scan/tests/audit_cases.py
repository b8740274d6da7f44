"""Loops for the audit: ``theano_ng-audit theano_ng.scan.tests.audit_cases``."""

import numpy as np

from theano_ng import tensor as tt
from theano_ng.audit.records import Case
from theano_ng.scan.op import Scan
from theano_ng.scan.tests.test_loop import info
from theano_ng.typed_list import TypedListType, append

RNG = np.random.RandomState(3)
ROWS, MORE = RNG.uniform(-1, 1, (4, 3)), RNG.uniform(-1, 1, (4, 3))
BUFFER = RNG.uniform(-1, 1, (6, 3))
ROW, MATRIX = RNG.uniform(-1, 1, 3), RNG.uniform(-1, 1, (3, 3))
# The shared states of a loop that is built by hand may be tensors. Scan ignores the derivatives of these states, so the
# audit skips the derivatives of such a loop. `scan` never creates such a loop: it makes shared tensors ordinary states.
NO_DERIVATIVES = (
    "the group is for what has no derivatives (random states, lists): `scan` makes states of shared tensors"
)
NO_ROWS = (
    "it needs rows that such a buffer has lost, and says so: rewriting alone makes them, of loops that keep all rows"
)
NO_DTYPES = ("length", "layout", "alias", "content")


def _case(name, step, arguments, outer, skip=None, **layout):
    """Return a case for a loop.

    Parameters
    ----------
    name : str
    step : callable
        Takes the inner inputs, returns the inner outputs.
    arguments : list
        Examples of the varied arguments.
    outer : callable
        Takes the arguments, returns the outer inputs.
    skip : dict, optional
        See Case.
    **layout
        Entries of the loop's info.
    """
    layout = info(**layout)
    n_taps = layout["n_seqs"] + sum(map(len, layout["tap_array"]))

    def build(*given):
        inputs = outer(*given)
        buffers = inputs[1 : 1 + layout["n_seqs"] + len(layout["tap_array"])]
        rows = []
        for k, buffer in enumerate(buffers):
            taps = layout["tap_array"][k - layout["n_seqs"]] if k >= layout["n_seqs"] else [0]
            rows += [buffer[0].type() for _ in taps]
        assert len(rows) == n_taps
        after = 1 + len(buffers)
        shared = [v.type() for v in inputs[after : after + layout["n_shared_outs"]]]
        others = [v.type() for v in inputs[after + layout["n_shared_outs"] + layout["n_nit_sot"] :]]
        op = Scan([*rows, *shared, *others], step(*rows, *shared, *others), layout)
        return op(*inputs, return_list=True)

    def enough(values):
        """Return True if the buffers have the initial rows and all rows have equal lengths."""
        values = [v for v in values if isinstance(v, np.ndarray)]
        lengths = {v.shape[-1] for v in values}
        return len(lengths) == 1 and all(
            len(v) >= 4 for v in values[layout["n_seqs"] :] if v.ndim == 2 and layout["tap_array"]
        )

    return Case(build, arguments, name=name, vary=NO_DTYPES, tied=enough, skip=skip or {})


def audit_cases():
    """Return loops of each kind."""
    n = lambda x, less=0: x.shape[0] - less
    in_place = {"n_seqs": 1, "n_sit_sot": 1, "tap_array": [[-1]], "destroy_map": {0: [2]}}
    return [
        _case(
            "Scan map",
            lambda a, b: [tt.tanh(a) * b],
            [ROWS, MORE],
            lambda x, y: [tt.minimum(n(x), n(y)), x, y, tt.minimum(n(x), n(y))],
            n_seqs=2,
            n_nit_sot=1,
        ),
        _case(
            "Scan several taps",
            lambda a, b, c: [a * b - c * 0.5],
            [ROWS, BUFFER],
            lambda x, buffer: [tt.minimum(n(x), tt.maximum(n(buffer, 3), 0)), x, buffer],
            n_seqs=1,
            n_mit_sot=1,
            tap_array=[[-3, -1]],
        ),
        _case(
            "Scan mit_mot",
            lambda a, b, c: [b * 0.5 + a, c - a * b],
            [ROWS, BUFFER],
            lambda x, buffer: [tt.minimum(n(x), tt.maximum(n(buffer, 1), 0)), x, buffer],
            n_seqs=1,
            n_mit_mot=1,
            n_mit_mot_outs=2,
            tap_array=[[0, 1]],
            mit_mot_out_slices=[[0, 1]],
        ),
        _case(
            "Scan states that trade places",
            lambda a, b: [b, a[::-1]],
            [ROWS, MORE],
            lambda x, y: [tt.minimum(n(x), n(y)), x, y],
            n_mit_mot=2,
            n_mit_mot_outs=2,
            tap_array=[[0], [0]],
            mit_mot_out_slices=[[0], [0]],
        ),
        _case(
            "Scan ring",
            lambda a, s: [tt.tanh(s) + a, s * 0.5],
            [ROWS, MORE],
            lambda x, buffer: [tt.switch(n(buffer) > 0, n(x), 0), x, buffer[:2], tt.minimum(n(x), 2)],
            {"grad": NO_ROWS},
            n_seqs=1,
            n_sit_sot=1,
            n_nit_sot=1,
            tap_array=[[-1]],
        ),
        _case(
            "Scan until",
            # The condition determines the number of rows, but has no derivatives. In this audit case, the inputs of the
            # condition also affect the other outputs.
            lambda a, s: [s + a, a * 2, a.sum() > 0.5],
            [ROWS, BUFFER],
            lambda x, buffer: [tt.minimum(n(x), tt.maximum(n(buffer, 1), 0)), x, buffer, n(x)],
            n_seqs=1,
            n_sit_sot=1,
            n_nit_sot=1,
            tap_array=[[-1]],
            as_while=True,
        ),
        _case(
            "Scan in-place",
            lambda a, s: [tt.tanh(s) + a],
            [ROWS, BUFFER],
            lambda x, buffer: [tt.minimum(n(x), tt.maximum(n(buffer, 1), 0)), x, buffer],
            **in_place,
        ),
        _case(
            "Scan products",
            lambda a, s, w: [tt.tanh(tt.dot(w, s) + a)],
            [ROWS, BUFFER, MATRIX],
            lambda x, buffer, w: [tt.minimum(n(x), tt.maximum(n(buffer, 1), 0)), x, buffer, w],
            n_seqs=1,
            n_sit_sot=1,
            tap_array=[[-1]],
        ),
        _case(
            "Scan shared",
            lambda a, s, t: [a + s, t * 0.5, s + a],
            [ROWS, ROW, ROW + 1],
            lambda x, s, t: [n(x), x, s, t, n(x)],
            dict.fromkeys(("connection_pattern", "grad", "R_op"), NO_DERIVATIVES),
            n_seqs=1,
            n_nit_sot=1,
            n_shared_outs=2,
        ),
        _case(
            "Scan shared list",
            lambda a, rows: [a * 2, append(rows, a)],
            [ROWS, (TypedListType(tt.dvector), [ROW])],
            lambda x, rows: [n(x), x, rows, n(x)],
            n_seqs=1,
            n_nit_sot=1,
            n_shared_outs=1,
        ),
    ]
