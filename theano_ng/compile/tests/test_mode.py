"""Tests of modes, their names, and the phases of optdb."""

import pickle
import unittest

import numpy as np

import theano_ng
import theano_ng.tensor as T
from theano_ng import gof
from theano_ng.compile import mode as m
from theano_ng.compile.mode import (
    Mode,
    get_default_mode,
    get_mode,
    optdb,
    register_linker,
    register_mode,
    register_optimizer,
)
from theano_ng.configdefaults import config

POSITIONS = {
    "CheckStackTrace": -1,
    "merge1": 0,
    "useless": 0.6,
    "merge1.1": 0.65,
    "canonicalize": 1,
    "merge1.2": 1.2,
    "Print1.21": 1.21,
    "stabilize": 1.5,
    "Print1.51": 1.51,
    "specialize": 2,
    "uncanonicalize": 3,
    "specialize_device": 48.6,
    "merge2": 49,
    "add_destroy_handler": 49.5,
    "merge3": 100,
}


class TestPhases(unittest.TestCase):
    def test_positions(self):
        for name, position in POSITIONS.items():
            self.assertEqual(optdb.__position__[name], position, name)

    def test_levels(self):
        names = {
            level: [o.name for o in optdb.query(m.predefined_optimizers[level])]
            for level in ("o1", "o2", "o3", "o4", "Stabilization", "unsafe", "None", "merge")
        }
        self.assertEqual(names["None"], [])
        self.assertTrue(all(n.startswith("merge") for n in names["merge"]) and len(names["merge"]) == 5)
        self.assertIn("canonicalize", names["o1"])
        self.assertIn("specialize", names["o1"])  # "specialize" then has only the few rules with the tag fast_compile
        self.assertNotIn("uncanonicalize", names["o1"])
        self.assertNotIn("elemwise_fusion", names["o1"])
        self.assertIn("elemwise_fusion", names["o2"])
        self.assertIn("specialize", names["o3"])
        self.assertNotIn("add_destroy_handler", names["o3"])
        self.assertIn("add_destroy_handler", names["o4"])
        self.assertEqual(names["Stabilization"][-1], "stabilize")
        self.assertEqual(names["unsafe"], names["o3"])

    def test_assert_removal_is_asked_for(self):
        def has_it(query):
            phase = next(o for o in optdb.query(query) if o.name == "canonicalize")
            return any(r.name == "local_remove_all_assert" for r in phase.get_local_optimizers())

        self.assertFalse(has_it(m.OPT_FAST_RUN))
        self.assertFalse(has_it(m.OPT_FAST_RUN.including("canonicalize")))
        self.assertTrue(has_it(m.OPT_UNSAFE))
        self.assertTrue(has_it(m.OPT_FAST_RUN.including("local_remove_all_assert")))


class TestMode(unittest.TestCase):
    def test_tags(self):
        base = Mode("py", "fast_run")
        x = T.dvector()
        for mode, count in [(base, 1), (base.excluding("canonicalize", "fusion", "inplace", "specialize"), 2)]:
            f = theano_ng.function([x], (x * 2.0) * 3.0, mode=mode)
            self.assertEqual(len(f.maker.fgraph.apply_nodes), count)
            np.testing.assert_allclose(f([1.0, 2.0]), [6.0, 12.0])
        self.assertIsNot(base.including("inplace"), base)
        self.assertEqual(
            [o.name for o in base.requiring("merge").optimizer], ["merge1", "merge1.1", "merge1.2", "merge2", "merge3"]
        )
        self.assertRaises(TypeError, Mode("py", gof.MergeOptimizer()).including, "fast_run")

    def test_selects(self):
        """`Mode.selects` returns True for the steps of the mode's optimizer.

        The optimizer may be built from names, or be an object.
        """
        base = Mode("py", "fast_run")
        for mode in (
            base,
            base.excluding("fusion"),
            base.including("gpuarray"),
            base.requiring("merge"),
            Mode("py", None),
            Mode("py", base.optimizer),
            Mode("py", gof.SeqOptimizer(gof.MergeOptimizer())),
        ):
            found = {step.name for step in mode.optimizer}
            for name in ("merge1", "elemwise_fusion", "gpuarray_opt", "MergeOptimizer", "unknown"):
                with self.subTest(mode=str(mode), name=name):
                    self.assertEqual(mode.selects(name), name in found)
        single = gof.MergeOptimizer()
        single.name = "single"
        self.assertTrue(Mode("py", single).selects("single"))
        self.assertFalse(Mode("py", single).selects("gpuarray_opt"))

    def test_register_extra(self):
        seen = []

        class Note(gof.Optimizer):
            name = "note"

            def apply(self, fgraph):
                seen.append(len(fgraph.apply_nodes))

        x = T.dscalar()
        theano_ng.function([x], x + 1, mode=Mode("py", None).register((Note(), 3)))
        self.assertEqual(seen, [1])

    def test_names(self):
        self.assertIs(get_mode("FAST_RUN"), m.FAST_RUN)
        self.assertIs(get_mode(m.FAST_COMPILE), m.FAST_COMPILE)
        self.assertEqual(str(Mode("py", "fast_run")), "Mode(linker = py, optimizer = fast_run)")
        self.assertIsInstance(get_mode("Mode"), Mode)
        self.assertRaises(Exception, get_mode, "SLOW_RUN")
        self.assertRaises(ValueError, Mode, "no such linker")
        self.assertRaises(ValueError, Mode, "py", "no such optimizer")
        self.assertRaises(ValueError, register_mode, "FAST_RUN", m.FAST_RUN)
        self.assertRaises(ValueError, register_linker, "py", m.predefined_linkers["py"])
        self.assertRaises(ValueError, register_optimizer, "fast_run", m.OPT_FAST_RUN)
        mine = Mode("py", "merge")
        register_mode("test_mode_mine", mine)
        self.assertIs(get_mode("test_mode_mine"), mine)
        del m.predefined_modes["test_mode_mine"]

    def test_default(self):
        before = config.mode
        try:
            config.mode = "FAST_COMPILE"
            self.assertIs(get_default_mode(), get_default_mode())
            self.assertEqual(get_default_mode().provided_optimizer, "fast_compile")
            config.mode = "FAST_RUN"
            self.assertEqual(get_default_mode().provided_optimizer, "fast_run")
        finally:
            config.mode = before

    def test_copies(self):
        again = pickle.loads(pickle.dumps(Mode("py", "fast_run")))
        self.assertEqual((again.provided_linker, again.provided_optimizer), ("py", "fast_run"))
        clone = Mode("vm", "fast_compile").clone(link_kwargs={"allow_gc": False})
        self.assertFalse(clone.linker.allow_gc)
        self.assertEqual(clone.provided_optimizer, "fast_compile")
        linker, optimizer = Mode().get_linker_optimizer("py", "merge")
        self.assertIs(linker, m.predefined_linkers["py"])
        self.assertEqual(len(optimizer), 5)

    def test_add_feature(self):
        feature = gof.toolbox.NodeFinder()
        x = T.dscalar()
        fgraph = gof.FunctionGraph([x], [T.exp(x)], clone=False)
        m.AddFeatureOptimizer(feature).optimize(fgraph)
        self.assertEqual(len(fgraph.get_nodes(T.exp)), 1)

    def test_no_output_from_inplace(self):
        x = T.dvector()
        f = theano_ng.function(
            [theano_ng.In(x, mutable=True)],
            T.exp(T.dot(x, x) + x),
            mode=Mode("py", "fast_run").including("add_no_output_from_inplace"),
        )
        for out in f.maker.fgraph.outputs:
            self.assertFalse(getattr(out.owner.op, "destroy_map", None))


if __name__ == "__main__":
    unittest.main()
