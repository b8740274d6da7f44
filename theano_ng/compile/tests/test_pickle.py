"""Pickles of functions, graphs, modes and profiles: in other processes, without caches, of any depth, and what cannot be pickled."""
import copy
import io
import os
import pickle
import pickletools
import tempfile
import unittest

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.compile.builders import OpFromGraph
from theano_ng.compile.debugmode import DebugMode
from theano_ng.compile.mode import Mode, get_mode, predefined_linkers, predefined_modes
from theano_ng.compile.monitormode import MonitorMode
from theano_ng.compile.tests.pickled_functions import MODES
from theano_ng.compile.tests.test_graph_cache import run_process
from theano_ng.gof import graph
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.opt import MergeOptimizer
from theano_ng.ifelse import ifelse
from theano_ng.misc import pkl_utils

CODE = "from theano_ng.compile.tests.pickled_functions import main; main()"


class TestSecondProcess(unittest.TestCase):
    def test_functions(self):
        with tempfile.TemporaryDirectory() as folder:
            saved = run_process(folder, 1, "dump", folder, code=CODE)
            loaded = run_process(folder, 2, "load", folder, code=CODE)
            again = run_process(folder + ",reoptimize_unpickled_function=True", 3, "load", folder, code=CODE)
        self.assertEqual(len(loaded), 3 * len(MODES))
        for key in loaded:
            mode = key.split()[0]
            with self.subTest(function=key):
                # rewritten only where the flag asks for it; DebugMode then does so several times
                self.assertEqual(loaded[key], [saved[mode], 0, "named"])
                self.assertEqual(again[key], [saved[mode], 2 if mode == "DebugMode" else 1, "named"])

    def test_function_dump(self):
        x, y = T.dscalar("x"), T.dvector("y")
        w = theano.shared(np.arange(3.0), name="w")
        x.tag.test_value, y.tag.roles, y.tag.kept = 1.0, "role", "kept"
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "call.pkl")
            theano.function_dump(path, [x, theano.In(y, value=np.ones(3))], {"out": (y * w * x).sum()}, updates=[(w, w * x)], name="f",
                                 mode="FAST_COMPILE", on_unused_input="warn", extra_tag_to_remove=["roles"])
            code = ("import json, pickle, sys, theano_ng\nd = pickle.load(open(sys.argv[1], 'rb'))\nf = theano_ng.function(**d)\n"
                    "print(json.dumps([float(f(2)['out']), float(f(2)['out']), f.name, d['inputs'][1].variable.tag.__dict__]))")
            self.assertEqual(run_process(folder, 0, path, code=code), [6.0, 12.0, "f", {"kept": "kept"}])
            y.tag.kept = lambda: None
            self.assertRaisesRegex(pickle.PicklingError, "tag.kept of the variable y", theano.function_dump, path, [x, y], y * x)
            self.assertFalse(os.path.exists(path))      # not half a pickle


class TestParts(unittest.TestCase):
    def test_deep_graphs(self):
        x = T.dvector("x")
        y = x
        for _ in range(4000):
            y = y + x
        stripped = io.BytesIO()
        pkl_utils.StripPickler(stripped, -1).dump([y])
        for back in (pickle.loads(pickle.dumps(y)), pickle.loads(stripped.getvalue())[0], copy.deepcopy(y)):
            count = 0
            while back.owner is not None:
                back, count = back.owner.inputs[0], count + 1
            self.assertEqual((back.name, count), ("x", 4000))

    def test_modes_and_linkers(self):
        for linker in predefined_linkers.values():
            self.assertIs(type(pickle.loads(pickle.dumps(linker))), type(linker))
        x = T.dvector("x")
        for name in predefined_modes:
            mode = pickle.loads(pickle.dumps(get_mode(name)))
            self.assertIs(type(mode), type(get_mode(name)))
            np.testing.assert_array_equal(theano.function([x], x + 1, mode=mode)([1.0]), [2.0])
        query = pickle.loads(pickle.dumps(Mode("py", "fast_run").including("a").excluding("b").requiring("c")))._optimizer
        self.assertEqual([list(query.include), list(query.exclude), list(query.require)], [["fast_run", "a"], ["b"], ["c"]])

    def test_test_values(self):
        x = T.dvector("x")
        x.tag.test_value = np.ones(2)
        for keep in (True, False):
            with theano.config.change_flags(pickle_test_value=keep):
                self.assertEqual(hasattr(pickle.loads(pickle.dumps(x * 2)).owner.inputs[0].tag, "test_value"), keep)

    def test_profiles(self):
        x = T.dvector("x")
        profile = theano.ProfileStats(atexit_print=False, message="both")
        f, g = (theano.function([x], x + k, profile=profile) for k in (1, 2))
        f([1.0]), g([1.0])
        f2, g2, plain = pickle.loads(pickle.dumps((f, g, theano.function([x], x))))
        f2([1.0]), g2([1.0]), g2([1.0])
        self.assertIs(f2.profile, g2.profile)       # as before; and it starts anew
        self.assertEqual((profile.fct_callcount, f2.profile.fct_callcount, f2.profile.message, f2.profile.atexit_print),
                         (2, 3, "both", False))
        self.assertIsNone(plain.profile)
        self.assertIs(copy.copy(f).profile, profile)
        self.assertEqual(pickle.loads(pickle.dumps(profile)).fct_callcount, 2)


def fused(n):
    """Elementwise operations, which fusion puts into few large Composites."""
    x = y = T.dvector("x")
    for k in range(n // 4):
        y = y * 1.001 + T.sin(y) / (k + 2)
    return [x], [y], []


def mixed(n):
    """Products, reductions and indexing, with branches."""
    x = y = T.dmatrix("x")
    w = theano.shared(np.eye(2), name="w")
    for k in range(n // 6):
        y = ifelse(T.lt(y[0, 0], k), T.tanh(T.dot(y, w)) - y.sum(), y)
    return [x], [y], []


def trained(n):
    """Many shared variables, whose updates share most of their graphs."""
    x = y = T.dvector("x")
    parameters = [theano.shared(np.ones(2), name="p%d" % k) for k in range(n // 8)]
    for p in parameters:
        y = T.tanh(y * p + p.sum())
    return [x], [y], [(p, p - 0.1 * y) for p in parameters]


def nested(n):
    """Ops with graphs inside."""
    x = y = T.dvector("x")
    for _ in range(n // 20):
        y = OpFromGraph([x], [T.tanh(x + 1) * x])(y)
    return [x], [y], []


class TestGrowth(unittest.TestCase):
    """What the pickle of a function holds grows with the graph, at most a kilobyte for each node of the expression."""

    def assert_linear(self, make, mode, **kwargs):
        found = []
        for n in (60, 180):
            inputs, outputs, updates = make(n)
            # Without the cache, so that the graph has all features of the rewriting.
            with theano.config.change_flags(cache_graphs=False):
                f = theano.function(inputs, outputs, updates=updates, mode=mode, **kwargs)
            nodes = len(graph.ops(inputs, outputs + [new for _, new in updates]))
            written = pickle.dumps(f, pickle.HIGHEST_PROTOCOL)
            found.append((nodes, len(written), sum(1 for _ in pickletools.genops(written))))
        (few, few_bytes, few_codes), (many, many_bytes, many_codes) = found
        # The difference of two leaves out what every function has.
        self.assertLess(many_bytes - few_bytes, 1024 * (many - few))
        self.assertLess((many_codes - few_codes) / (many - few), 1.1 * few_codes / few)

    def test_functions(self):
        for make in (fused, mixed, trained, nested):
            for mode in ("FAST_RUN", "FAST_COMPILE", "NanGuardMode"):
                with self.subTest(graph=make.__name__, mode=mode):
                    self.assert_linear(make, mode)

    def test_debugmode(self):
        for make in (mixed, trained):
            with self.subTest(graph=make.__name__):
                self.assert_linear(make, DebugMode(stability_patience=1))

    def test_profiles(self):
        self.assert_linear(trained, "FAST_RUN", profile=theano.ProfileStats(atexit_print=False))

    def test_what_rewriting_removed_is_gone(self):
        x = T.dvector("x")
        gone = T.exp(x)
        gone.name = "gone" * 3
        with theano.config.change_flags(cache_graphs=False):
            f = theano.function([x], T.log(gone) + T.zeros_like(gone))
        fgraph = f.maker.fgraph
        self.assertNotIn(b"gone" * 3, pickle.dumps(fgraph))
        loaded = pickle.loads(pickle.dumps(fgraph))
        for fgraph in (fgraph, loaded):
            length, = fgraph.shape_feature.shape_of[fgraph.outputs[0]]
            self.assertEqual(str(length), "Shape_i{0}.0")
            self.assertIs(length.owner.inputs[0], fgraph.inputs[0])

    def test_a_graph_from_a_pickle_is_merged(self):
        x = T.dvector("x")
        fgraph = FunctionGraph([x], [T.exp(x) + 1, T.log(x)])
        MergeOptimizer().optimize(fgraph)
        fgraph = pickle.loads(pickle.dumps(fgraph))
        x, = fgraph.inputs
        for k, again in enumerate((T.exp(x) + 1, T.exp(x))):
            fgraph.change_input("output", 1, again)
            MergeOptimizer().optimize(fgraph)
            self.assertIs(fgraph.outputs[1], (fgraph.outputs[0], fgraph.outputs[0].owner.inputs[0])[k])


class TestRefusals(unittest.TestCase):
    def test_what_cannot_be_pickled_is_named(self):
        x = T.dvector("x")
        tagged = T.exp(x)
        tagged.tag.note = lambda: None
        file = open(os.devnull)
        self.addCleanup(file.close)
        deep = []
        for _ in range(100000):
            deep = [deep]
        cases = {
            "attribute grad_overrides of the OpFromGraph.*Lambdas": OpFromGraph([x], [x * 2], grad_overrides=lambda i, g: g)(x),
            "tag.note of the variable .*exp": (tagged + 1).sum(),
            "MonitorMode.*FunctionMaker of the Function": theano.function([x], x, mode=MonitorMode(pre_func=lambda i, node, fn: None)),
            "container of the variable file, .*'a'": {"a": [theano.shared(io.StringIO, name="ok"), theano.shared(file, name="file")]},
            "recursion limit": theano.shared(deep),
        }
        for text, obj in cases.items():
            for dump in (lambda: pkl_utils.dump(obj, io.BytesIO()), lambda: pkl_utils.StripPickler(io.BytesIO(), 2).dump(obj)):
                with self.assertRaisesRegex(pickle.PicklingError, text):
                    dump()


if __name__ == "__main__":
    unittest.main()
