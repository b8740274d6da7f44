"""Tests of the identity of loops: equality, keys of the graph cache, and the sharing of makers by equal steps."""

import unittest
import unittest.mock

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.graph_cache import _Key
from theano_ng.compile.mode import Mode
from theano_ng.gof import optdb
from theano_ng.gof.optdb import Query
from theano_ng.scan.op import Scan

MODE = Mode("cvm", "fast_run")
# Attribute of a loop -> a value that differs from the value in `loop()`.
OTHERS = dict(
    n_seqs=9,
    n_mit_mot=9,
    n_mit_sot=9,
    n_sit_sot=9,
    n_shared_outs=9,
    n_nit_sot=9,
    tap_array=[[-1], [-2]],
    mit_mot_out_slices=[[0]],
    as_while=True,
    truncate_gradient=3,
    gpua=True,
    destroy_map={0: [1]},
    output_types=[T.lvector, T.dvector],
)


@theano.config.change_flags({"traceback.limit": 0})  # otherwise, the texts that identify steps contain stack traces
def loop(**info):
    """Return a loop with a state and a sequence."""
    x, h = T.dscalar("x"), T.dscalar("h")
    groups = dict(n_seqs=1, n_mit_mot=0, n_mit_mot_outs=0, n_mit_sot=0, n_sit_sot=1, n_shared_outs=0, n_nit_sot=1)
    usual = dict(groups, tap_array=[[-1]], mit_mot_out_slices=[], as_while=False, mode=MODE, name="f")
    return Scan([x, h], [h * x, h + x], {**usual, **info})


def text(op):
    return _Key().text(op)


class TestLoops(unittest.TestCase):
    def test_every_attribute_counts(self):
        """`Scan._identity` needs each attribute: without an attribute, loops that differ only in this one are equal."""
        one = loop()
        self.assertEqual(len(one._identity()), len(OTHERS))
        self.assertEqual(one, loop())
        for place, (name, other) in enumerate(OTHERS.items()):
            changed = loop()
            setattr(changed, name, other)
            with self.subTest(name):
                self.assertNotEqual(one, changed)
                self.assertNotEqual(text(one), text(changed))
                identity = Scan._identity
                forgetful = lambda op: identity(op)[:place] + identity(op)[place + 1 :]
                with unittest.mock.patch.object(Scan, "_identity", forgetful):
                    self.assertEqual(one, changed)
                    self.assertEqual(hash(one), hash(changed))
                    self.assertEqual(text(one), text(changed))

    def test_steps_count(self):
        x, h = T.dscalar("x"), T.dscalar("h")
        one, changed = loop(), loop()
        for outputs in ([h * x, h - x], [x * h, h + x], [h + x, h * x]):
            changed.inner_graph = type(one.inner_graph).of_parts([x, h], outputs, [], one.inner_graph.arguments)
            self.assertNotEqual(one, changed)
            self.assertNotEqual(text(one), text(changed))


class TestMakers(unittest.TestCase):
    """Tests that steps share a maker if and only if everything on which the maker depends is equal."""

    def setUp(self):
        # Hide a user's rules, which other tests of this process may have registered. Such rules make the identity of
        # steps unknown.
        own = unittest.mock.patch.object(optdb, "_foreign", False)
        own.start()
        self.addCleanup(own.stop)

    def test_shared(self):
        self.assertIs(loop().inner_graph.maker(), loop().inner_graph.maker())

    def test_whatever_makers_depend_on(self):
        queries = [Query(["fast_run"], exclude=["fusion"]), Query(["fast_run"], position_cutoff=1.0)]
        others = [dict(mode=Mode("cvm", query)) for query in queries] + [
            dict(mode=Mode("py", "fast_run")),
            dict(mode=Mode("cvm", "fast_compile")),
            dict(name="g"),
            dict(allow_gc=True),
        ]
        with theano.config.change_flags({"scan.allow_gc": False}):
            makers = [loop(**info).inner_graph.maker() for info in [{}, *others]]
            self.assertEqual(len(set(map(id, makers))), len(makers))
            for maker, info in zip(makers, [{}, *others]):
                self.assertIs(loop(**info).inner_graph.maker(), maker, info)
            with theano.config.change_flags(floatX="float32"):
                self.assertIsNot(loop().inner_graph.maker(), makers[0])
            with theano.config.change_flags(profile=True):
                self.assertIsNot(loop().inner_graph.maker(), makers[0])

    def test_no_maker_without_a_text(self):
        """Steps share no maker if their identity is unknown, here because of the flag `compute_test_value`."""
        with theano.config.change_flags(compute_test_value="ignore"):
            self.assertIsNot(loop().inner_graph.maker(), loop().inner_graph.maker())


if __name__ == "__main__":
    unittest.main()
