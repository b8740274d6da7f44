"""Programs and the kernels that take their place: each gets the kernel that was compiled for it, and no other."""

import os
import subprocess
import sys
import tempfile
import unittest

from theano_ng.configdefaults import config
from theano_ng.gof.compiler.background import AVAILABLE

_LOOPS = """
import numpy as np, theano_ng as theano, theano_ng.tensor as T
from theano_ng.gof.compiler.background import wait_for_kernels

def loop(shape, taps):
    x = T.TensorType("float64", (False,) * (len(shape) + 1))()
    one = taps == [-1]
    first = T.TensorType("float64", (False,) * (len(shape) + (not one)))()
    states, _ = theano.scan(lambda s, p: T.tanh(s * p) + 0.5 * p, x, [dict(initial=first, taps=taps)])
    rng = np.random.RandomState(0)
    given, rows = rng.rand(6, *shape), list(rng.rand(-min(taps), *shape))
    initial = np.array(rows)
    for s in given:
        rows.append(np.tanh(s * rows[taps[0]]) + 0.5 * rows[taps[0]])
    return theano.function([x, first], states), given, initial[0] if one else initial, np.array(rows[len(initial) :])

def check(loops):
    for f, given, initial, wanted in loops:
        np.testing.assert_allclose(f(given, initial), wanted, rtol=1e-12)

made = []
for shape, taps in CASES:
    made.append(loop(shape, taps))
    check(made)
    if WAIT:
        assert wait_for_kernels(120)
        check(made)
assert wait_for_kernels(120)
check(made)
"""


@unittest.skipUnless(config.cxx and AVAILABLE, "there is no compiler that could run in the background")
class TestLoops(unittest.TestCase):
    """The program of a loop does not tell of the lengths of its rows, nor of its taps: its kernel does."""

    def run_cases(self, cases):
        for wait in (False, True):
            with self.subTest(cases=cases, wait=wait), tempfile.TemporaryDirectory() as folder:
                flags = dict(os.environ, THEANO_FLAGS="base_compiledir=%s,tiered=auto" % folder)
                text = "CASES, WAIT = %r, %r\n" % (cases, wait) + _LOOPS
                done = subprocess.run([sys.executable, "-c", text], env=flags, text=True, capture_output=True)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_numbers_and_arrays(self):
        self.run_cases([((), [-1]), ((3,), [-1]), ((2, 2), [-1])])
        self.run_cases([((2, 2), [-1]), ((3,), [-1]), ((), [-1])])

    def test_taps(self):
        self.run_cases([((), [-2]), ((), [-1]), ((), [-3])])
        self.run_cases([((), [-1]), ((), [-2])])


if __name__ == "__main__":
    unittest.main()
