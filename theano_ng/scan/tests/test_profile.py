"""Tests of profiles of steps, of the method `Scan.execute`, and of the messages that the flag `scan.debug` enables."""

import contextlib
import io
import unittest

import numpy as np

import theano_ng
import theano_ng.tensor as T
from theano_ng.compile import profiling
from theano_ng.compile.mode import Mode
from theano_ng.compile.profiling import ScanProfileStats
from theano_ng.configdefaults import config
from theano_ng.scan.op import Scan

FAST = Mode("cvm", "fast_run")  # not DebugMode, in which other functions than the examined ones have the profiles


def loop_of(f):
    (op,) = [node.op for node in f.maker.fgraph.toposort() if isinstance(node.op, Scan)]
    return op


class TestProfile(unittest.TestCase):
    def setUp(self):
        # These profiles must not be printed when the test process exits.
        printed = list(profiling._atexit_print_list)
        self.addCleanup(profiling._atexit_print_list.__setitem__, slice(None), printed)

    def make(self, mode=FAST, outer_mode=FAST, **kwargs):
        x, m = T.dvector("x"), T.dmatrix("m")
        rows, _ = theano_ng.scan(
            lambda v, s, m: T.dot(m, T.tanh(s) + v),
            sequences=x,
            outputs_info=T.ones_like(x),
            non_sequences=m,
            mode=mode,
            **kwargs,
        )
        return theano_ng.function([x, m], rows, mode=outer_mode)

    def test_steps_and_nodes_are_counted(self):
        for linker in ("cvm", "vm", "py"):
            with self.subTest(linker=linker):
                mode = Mode(linker, "fast_run")
                f = self.make(mode=mode, outer_mode=mode, profile=True, name="rows")
                f(np.ones(5), np.eye(5))
                f(np.ones(3), np.eye(3))
                profile = loop_of(f).fn.profile
                self.assertIsInstance(profile, ScanProfileStats)
                self.assertEqual((profile.name, profile.callcount, profile.nbsteps), ("rows", 2, 8))
                self.assertLessEqual(sum(profile.apply_time.values()), profile.vm_call_time)
                self.assertLessEqual(profile.vm_call_time, profile.call_time)
                if linker == "py":  # the py linker never measures nodes
                    continue
                nodes = loop_of(f).fn.maker.fgraph.toposort()
                self.assertEqual({node: 8 for node in nodes}, profile.apply_callcount)
                text = io.StringIO()
                profile.summary(file=text)
                text = text.getvalue()
                self.assertIn("Scan Op profiling ( rows )\n==================\n  Message: None\n", text)
                self.assertIn("Time in 2 calls of the op (for a total of 8 steps) ", text)
                self.assertRegex(
                    text,
                    r"\n\n  Total time spent in calling the VM \S+s \([\d.]+%\)\n  Total overhead \(computing slices..\) \S+s",
                )
                self.assertRegex(text, r"\n  +[\d.]+% .* 8 .*Elemwise")

    def test_who_asks_for_a_profile(self):
        self.assertIsNone(loop_of(self.called(self.make())).fn.profile)
        self.assertEqual(loop_of(self.called(self.make(profile="mine", name="rows"))).fn.profile.name, "mine")
        with config.change_flags(profile=True):
            f = self.called(self.make(name="rows"))
        self.assertEqual((loop_of(f).fn.profile.name, loop_of(f).fn.profile.nbsteps), ("rows", 2))

    def called(self, f):
        f(np.ones(2), np.eye(2))
        return f

    def test_loops_of_numbers(self):
        """A profile also measures the nodes of a step on scalars: with a profile, the nodes run one by one."""
        a, n = T.dscalar("a"), T.lscalar("n")
        x, _ = theano_ng.scan(
            lambda x, a: a * x * (1 - x), outputs_info=np.float64(0.5), non_sequences=a, n_steps=n, profile=True
        )
        f = theano_ng.function([a, n], x[-1], mode=FAST)
        expected = 0.5
        for _ in range(7):
            expected = 3.7 * expected * (1 - expected)
        self.assertAlmostEqual(float(f(3.7, 7)), expected, 12)
        self.assertEqual(sum(loop_of(f).fn.profile.apply_callcount.values()) % 7, 0)
        self.assertEqual(loop_of(f).fn.profile.nbsteps, 7)

    def test_a_call_that_fails_is_not_counted(self):
        f = self.make(profile=True)
        f(np.ones(2), np.eye(2))
        self.assertRaises(ValueError, f, np.ones(2), np.eye(3))
        self.assertEqual(loop_of(f).fn.profile.callcount, 1)


class TestOp(unittest.TestCase):
    def test_execute(self):
        x = T.dvector("x")
        sums, _ = theano_ng.scan(lambda v, s: s + v, sequences=x, outputs_info=np.float64(0))
        node = sums.owner.inputs[0].owner
        cells = [[None]]
        node.op.execute(node, [np.int64(3), np.array([1.0, 2.0, 3.0]), np.array([5.0, 0.0, 0.0, 0.0])], cells)
        self.assertEqual(cells[0][0].tolist(), [5, 6, 8, 11])

    def test_debug(self):
        x = T.dvector("x")
        rows, _ = theano_ng.scan(lambda v: T.exp(v), sequences=x, name="squares")
        for debug, expected in ((False, ""), (True, "Scan: scanOp_pushout_seqs_ops removed for{cpu,squares}(")):
            with config.change_flags(**{"scan.debug": debug}), contextlib.redirect_stdout(io.StringIO()) as text:
                theano_ng.function([x], rows, mode="FAST_RUN")
            self.assertEqual(text.getvalue()[: len(expected) or None], expected)
