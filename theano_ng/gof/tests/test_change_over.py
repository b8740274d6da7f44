"""Tests that an interpreter program is replaced only by the kernel that was compiled for this program."""

import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from theano_ng.configdefaults import config
from theano_ng.gof import _native
from theano_ng.gof.compiler.background import AVAILABLE
from theano_ng.gof.compiler.kernelcache import KernelCache
from theano_ng.gof.compiler.standin import Interpretation, StandIn, WrongKernel, stand_in
from theano_ng.gof.native import Kernel
from theano_ng.gpuarray.kernels.device_kernel import DeviceKernel
from theano_ng.loops.blocks.interpreter import interpreted
from theano_ng.loops.program import Access, Fold, Guards, Literal, LoopProgram, Operand, Step
from theano_ng.scalar import add, mul

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
    """Tests of loops with equal programs and different kernels.

    The kernel of a loop depends on the lengths of rows and on the taps. The program of the loop does not.
    """

    def run_cases(self, cases):
        for wait in (False, True):
            with (
                self.subTest(cases=cases, wait=wait),
                tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
            ):
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


# `_OTHERS` contains, for each field of a kernel, a value that differs from the value in `_KERNEL`.
_KERNEL = Kernel("void KERNEL(void) { }", "KERNEL", "c", (), "", (), ())
_OTHERS = dict(
    source="void KERNEL(void) { (void)0; }",
    symbol="KERNE",
    language="c++",
    headers=("<cmath>",),
    support="static int one;",
    compile_args=("-DONE",),
    libraries=("dl",),
)
_DEVICE_KERNEL = DeviceKernel("KERNEL void KERNEL_NAME() { }", ("*",), None, 0, (), "")
_OTHERS_OF_DEVICES = dict(
    source="KERNEL void KERNEL_NAME() { ; }", types=("float32",), flags=1, support=("int one;",), options="-DONE"
)


def unnoticed(key, record, others):
    """Return the fields of a record that do not change its key."""
    return [name for name, other in others.items() if key(record) == key(record._replace(**{name: other}))]


@unittest.skipUnless(config.cxx, "there is no compiler whose kernels would have keys")
class TestKeys(unittest.TestCase):
    """Tests that two kernels have different keys if they differ in a field that affects the compiled code.

    The tests also check themselves: `unnoticed` finds each field that is left out of a key.
    """

    def check(self, key, record, others, apart):
        self.assertEqual({*others, *apart}, set(record._fields))
        self.assertEqual(unnoticed(key, record, others), [])
        for name in others:
            blind = lambda kernel: key(kernel._replace(**{name: getattr(record, name)}))
            self.assertEqual(unnoticed(blind, record, others), [name])

    def test_kernels(self):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            cache = KernelCache(folder)
            self.check(cache.key, _KERNEL, _OTHERS, ["program", "interpreter"])
            before = cache.key(_KERNEL)
            for flags in ({"gcc.cxxflags": "-DTWO"}, {"cmodule.remove_gxx_opt": True}, {"cmodule.debug": True}):
                with config.change_flags(flags):
                    self.assertNotEqual(cache.key(_KERNEL), before, flags)

    def test_kernels_of_devices(self):
        self.check(lambda kernel: kernel.key, _DEVICE_KERNEL, _OTHERS_OF_DEVICES, ["context", "program"])

    def test_where_fields_end(self):
        """Keys differ if a value moves from the end of one field to the beginning of the next field."""
        self.assertNotEqual(_DEVICE_KERNEL._replace(support=("a",)).key, _DEVICE_KERNEL._replace(options="a").key)
        self.assertNotEqual(
            _DEVICE_KERNEL._replace(types=("a", "b")).key, _DEVICE_KERNEL._replace(types=("a",), support=("b",)).key
        )


class TestPrograms(unittest.TestCase):
    """Tests that two loop programs that differ in one field have different interpreter programs."""

    def test_programs(self):
        usual = LoopProgram(
            inputs=(Operand("float64"), Operand("float64")),
            steps=(Step(add, (0, 1), ("float64",)),),
            stores=(2,),
            outputs=(Operand("float64"),),
        )
        others = dict(
            inputs=(Operand("float64"), Operand("float64", Access.HOISTED)),
            steps=(Step(mul, (0, 1), ("float64",)),),
            stores=(1,),
            outputs=(Operand("float32"),),
            fold=Fold(add, "float64"),
            guards=Guards((1,), False, True),
        )
        self.differ(usual, others, ["until"])
        moving = usual._replace(inputs=(Operand("float64", moves=True), *usual.inputs[1:]))
        self.differ(usual, dict(inputs=moving.inputs), [name for name in usual._fields if name != "inputs"])
        self.differ(moving, dict(until=2), [name for name in usual._fields if name != "until"])

    def test_parts_of_programs(self):
        """Two operands, steps, literals, folds or guards are unequal if they differ in one field."""
        for usual, other in (
            (Operand("float64"), Operand("float32", Access.HOISTED, True)),
            (Step(add, (0, 1), ("float64",)), Step(mul, (0, 0), ("float32",))),
            (Literal.of("float64", 0.0), Literal("float32", Literal.of("float64", -0.0).data)),
            (Fold(add, "float64"), Fold(mul, "float32", True)),
            (Guards(), Guards((0,), True, True)),
        ):
            for name in usual._fields:
                self.assertNotEqual(usual, usual._replace(**{name: getattr(other, name)}), name)

    def differ(self, usual, others, apart):
        self.assertEqual({*others, *apart}, set(usual._fields))
        self.assertIs(interpreted(usual), interpreted(usual._replace()))
        for name, other in others.items():
            self.assertIsNot(interpreted(usual), interpreted(usual._replace(**{name: other})), name)


@unittest.skipUnless(config.cxx, "there is no compiler")
class TestInstalling(unittest.TestCase):
    """Tests that a StandIn refuses a kernel that was compiled for another program."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.cache = KernelCache(folder.name)
        kernels = _KERNEL, _KERNEL._replace(source="int KERNEL(void) { return 1; }")
        self.keys = list(map(self.cache.key, kernels))
        self.addresses = self.cache.load(kernels)
        self.program = Interpretation(1, np.zeros(3, dtype=np.int64), None)

    def test_kernel(self):
        mine = StandIn(self.program, self.keys[0])
        mine.install(self.addresses[0])
        self.assertEqual(mine.words.tolist(), [self.addresses[0], 0, 0])
        self.assertEqual(self.program.words.tolist(), [0, 0, 0])

    def test_others(self):
        mine, nobodys = StandIn(self.program, self.keys[0]), StandIn(self.program, None)
        for standing_in, address in (
            (mine, self.addresses[1]),
            (nobodys, self.addresses[0]),
            (mine, self.addresses[0] + 1),
            (mine, 0),
        ):
            with self.assertRaises(WrongKernel):
                standing_in.install(address)
            self.assertEqual(standing_in.words[0], 0)

    def test_other_nodes(self):
        mine = StandIn(self.program, self.keys[0])
        self.assertEqual(mine.loaded_for(self.keys[0]), (1, mine.program))
        for other in (self.keys[1], None):
            with self.assertRaises(WrongKernel):
                mine.loaded_for(other)

    def test_one_program_for_two_kernels(self):
        first, second = [stand_in(self.program, key) for key in self.keys]
        self.assertIsNot(first, second)
        self.assertIs(first, stand_in(self.program, self.keys[0]))
        self.assertEqual([_native.symbol_at(address) for address in self.addresses], ["k" + key for key in self.keys])


_FORGETFUL = """
from theano_ng.gof.compiler import background, standin
programs = {}
def forgetful(interpretation, digest=None):
    return programs.setdefault(id(interpretation), standin.StandIn(interpretation, digest))
background.stand_in = forgetful
"""


@unittest.skipUnless(config.cxx and AVAILABLE, "there is no compiler that could run in the background")
class TestForgottenDigest(unittest.TestCase):
    def test_results_stay_right(self):
        """If different kernels share a program, the results are correct, and a warning reports the wrong kernel.

        To provoke this case, the test replaces `stand_in` by a function that ignores the digest of the kernel.
        """
        cases = [((), [-1]), ((3,), [-1]), ((2, 2), [-1])]
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            flags = dict(os.environ, THEANO_FLAGS="base_compiledir=%s,tiered=auto" % folder)
            text = _FORGETFUL + "CASES, WAIT = %r, True\n" % cases + _LOOPS
            done = subprocess.run([sys.executable, "-c", text], env=flags, text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("was about to run instead of", done.stderr)


if __name__ == "__main__":
    unittest.main()
