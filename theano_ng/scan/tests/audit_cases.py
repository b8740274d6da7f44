"""Loops, for the audit: ``theano_ng-audit theano_ng.scan.tests.audit_cases``."""

import numpy as np

from theano_ng import tensor as tt
from theano_ng.audit.records import Case
from theano_ng.scan.op import Scan
from theano_ng.scan.tests.test_loop import info
from theano_ng.typed_list import TypedListType, append

RNG = np.random.RandomState(3)
STEPS = np.int64(4)
ROWS, MORE = RNG.uniform(-1, 1, (4, 3)), RNG.uniform(-1, 1, (4, 3))
BUFFER, OTHER_BUFFER = RNG.uniform(-1, 1, (6, 3)), RNG.uniform(-1, 1, (5, 3))
ROW, MATRIX = RNG.uniform(-1, 1, 3), RNG.uniform(-1, 1, (3, 3))
LENGTHS = ("sizes",)


def steps_fit(values):
    """Whether there are as many rows as steps need: the number of steps comes first."""
    n_steps = int(values[0])
    return 0 <= n_steps <= 4 and all(np.shape(v) == np.shape(e) for v, e in zip(values, values))


def _case(name, inputs, outputs, layout, arguments, **fields):
    """A loop whose number of steps, and of rows, is that of the example."""
    op = Scan(inputs, outputs, info(**layout))
    return Case(lambda *variables: op(*variables, return_list=True), arguments, name=name, **fields)


def audit_cases():
    """Loops of each kind."""
    a, b, c = tt.dvectors("a", "b", "c")
    w = tt.dmatrix("w")
    return [
        _case("map", [a, b], [tt.tanh(a) * b], {"n_seqs": 2, "n_nit_sot": 1}, [STEPS, ROWS, MORE, STEPS]),
    ]
