"""Tests of databases of optimizations and of queries."""

import io
import unittest
import unittest.mock

from theano_ng.configdefaults import config
from theano_ng.gof import opt, optdb
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.optdb import DB, EquilibriumDB, LocalGroupDB, ProxyDB, Query, SequenceDB, TopoDB


class Rule(opt.LocalOptimizer):
    def transform(self, node):
        return False


class Global(opt.Optimizer):
    pass


class TestDB(unittest.TestCase):
    def setUp(self):
        self.db = EquilibriumDB()
        self.db.name = "equi"
        self.a, self.b, self.c = Rule(), Rule(), Rule()
        self.db.register("a", self.a, "x", "z")
        self.db.register("b", self.b, "y", "z")
        self.db.register("c", self.c, "x", "y", use_db_name_as_tag=False)

    def names(self, *args, **kwargs):
        return [r.name for r in self.db.query(*args, **kwargs).get_local_optimizers()]

    def test_tags(self):
        self.assertEqual(self.names(Query(["x"])), ["a", "c"])
        self.assertEqual(self.names(Query(["x", "y"], exclude=["z"])), ["c"])
        self.assertEqual(self.names(Query(["x", "y"], require=["z"])), ["a", "b"])
        self.assertEqual(self.names(Query(["b"])), ["b"])
        self.assertEqual(self.names(Query(["Rule"])), ["a", "b", "c"])
        self.assertEqual(self.names(Query(["equi"])), ["a", "b"])
        self.assertEqual(self.names(Query(["unknown"])), [])
        self.assertEqual(self.names("+x", "-z"), ["c"])
        self.assertEqual(self.names("+x", "+y", "&z"), ["a", "b"])
        self.assertEqual(self.names("+x", "&z"), ["a"])
        self.assertEqual(self.names("&z"), [])
        self.assertEqual(self.names(include=["y"], exclude=["b"]), ["c"])
        self.assertRaises(TypeError, self.db.query, "x")
        self.assertRaises(TypeError, self.db.query, Query(["x"]), "+x")
        self.assertRaises(TypeError, self.db.query, "+x", colour="red")

    def test_refinements_are_new(self):
        q = Query(["x"])
        self.assertEqual(self.names(q.including("y")), ["a", "b", "c"])
        self.assertEqual(self.names(q.excluding("z")), ["c"])
        self.assertEqual(self.names(q.requiring("y")), ["c"])
        self.assertEqual(self.names(q), ["a", "c"])
        self.assertIn("inc=['x']", str(q))

    def test_built_once(self):
        first = self.db.query(Query(["x"]))
        self.assertIs(first, self.db.query(Query(["x"])))
        self.assertIsNot(first, self.db.query(Query(["y"])))
        self.db.register("d", Rule(), "x")
        self.assertEqual(self.names(Query(["x"])), ["a", "c", "d"])
        self.db.add_tags("b", "x")
        self.assertEqual(self.names(Query(["x"])), ["a", "b", "c", "d"])
        self.db.remove_tags("a", "x")
        self.assertEqual(self.names(Query(["x"])), ["b", "c", "d"])

    def test_cxx_only(self):
        self.db.register("compiled", Rule(), "x", "cxx_only")
        before = config.cxx
        try:
            config.cxx = ""
            self.assertEqual(self.names(Query(["x"])), ["a", "c"])
            config.cxx = "g++"
            self.assertEqual(self.names(Query(["x"])), ["a", "c", "compiled"])
        finally:
            config.cxx = before

    def test_refused(self):
        self.assertRaises(ValueError, self.db.register, "a", Rule())
        self.assertRaises(ValueError, self.db.register, "x", Rule())
        self.assertRaises(ValueError, self.db.add_tags, "a", "b")
        self.assertRaises(TypeError, self.db.register, "new", "not an optimizer")
        self.assertRaises(TypeError, self.db.register, "new", Rule(), colour="red")
        self.assertRaises(KeyError, self.db.__getitem__, "nothing")
        self.db.register("d", Rule(), "of d alone")
        self.assertRaises(KeyError, self.db.__getitem__, "of d alone")  # a tag is not a name
        self.assertRaises(KeyError, self.db.add_tags, "of d alone", "x")
        self.assertIs(self.db["a"], self.a)
        self.assertTrue("a" in self.db and "x" not in self.db)

    def test_switching_on(self):
        """The result of `decided_by` contains the arguments of `switch_on`, because they affect rewriting.

        The keys of the graph cache contain the result of `decided_by`.
        """
        with unittest.mock.patch.object(optdb, "_decided_by", []):
            self.db.switch_on("b", "x")
            self.assertEqual(optdb.decided_by(), [("b", "x")])
        self.assertEqual(self.names(Query(["x"])), ["a", "b", "c"])

    def test_final_and_cleanup(self):
        self.db.register("f", Global(), "x", final_opt=True)
        self.db.register("g", Global(), "x", cleanup=True)
        self.db.register("h", Global(), "x")
        found = self.db.query("+x")
        self.assertEqual([o.name for o in found.final_optimizers], ["f"])
        self.assertEqual([o.name for o in found.cleanup_optimizers], ["g"])
        self.assertEqual([o.name for o in found.global_optimizers], ["h"])
        self.assertRaises(ValueError, self.db.register, "i", Global(), final_opt=True, cleanup=True)


class TestSequence(unittest.TestCase):
    def setUp(self):
        self.db = SequenceDB()
        self.inner = EquilibriumDB()
        self.inner_rule = Rule()
        self.db.register("late", Global(), 50.5, "fast")
        self.db.register("inner", self.inner, 2, "fast")
        self.db.register("early", Global(), -0.01, "fast")
        self.db.register("same_b", Global(), 3, "fast")
        self.db.register("same_a", Global(), 3, "fast", "slow")
        self.inner.register("rule", self.inner_rule, "fast")
        self.inner.register("other", Rule(), "slow")

    def names(self, *args, **kwargs):
        return [o.name for o in self.db.query(*args, **kwargs)]

    def test_order(self):
        self.assertEqual(self.names("+fast"), ["early", "inner", "same_a", "same_b", "late"])
        self.assertEqual(self.names("+fast", "-slow"), ["early", "inner", "same_b", "late"])
        self.assertEqual(self.names("+fast", position_cutoff=3), ["early", "inner"])
        self.assertEqual(self.names(Query(["fast"], position_cutoff=4)), ["early", "inner", "same_a", "same_b"])
        self.assertRaises(TypeError, self.db.register, "wrong", Global(), "first")
        self.db.register("end", Global(), "last", "fast")
        self.assertEqual(self.names("+fast")[-1], "end")

    def test_inner(self):
        inner = self.db.query("+fast")[1]
        self.assertIsInstance(inner, opt.EquilibriumOptimizer)
        self.assertEqual(list(inner.get_local_optimizers()), [self.inner_rule])
        special = self.db.query(Query(["fast"], subquery={"inner": Query(["slow"])}))[1]
        self.assertEqual([r.name for r in special.get_local_optimizers()], ["other"])
        self.assertEqual(self.names(Query(["fast"], subquery={"inner": None})), ["early", "same_a", "same_b", "late"])

    def test_inner_sequence(self):
        """A SequenceDB that is registered in another SequenceDB gets the name of this registration."""
        steps = SequenceDB()
        steps.register("first", Global(), 0, "fast")
        self.db.register("steps", steps, 4, "fast")
        self.assertEqual(self.names("+fast"), ["early", "inner", "same_a", "same_b", "steps", "late"])
        self.assertEqual([o.name for o in self.db.query("+fast")[4]], ["first"])
        for found in (self.db.query("+fast")[4], steps.query("+fast")):
            out = io.StringIO()
            found.print_summary(out)
            self.assertRegex(out.getvalue(), r"SeqOptimizer\s+steps")

    def test_names_of_results(self):
        """The optimizer that `query` returns has the name of the query, or else the name of the database."""
        self.db.name = "sequence"
        self.assertEqual(self.db.query("+fast").name, "sequence")
        self.assertEqual(self.db.query("+fast", "-slow").name, "sequence")
        named = Query(["fast"])
        named.name = "mine"
        self.assertEqual(self.db.query(named).name, "mine")

    def test_selects(self):
        """`selects` decides whether a query would select a name, without building the optimizer."""
        inner = {"inner": Query(["slow"])}
        for query in (
            Query(["fast"]),
            Query(["slow"]),
            Query(["fast"], require=["slow"]),
            Query(["fast"], exclude=["slow"]),
            Query(["late"]),
            Query(["fast"], position_cutoff=3),
            Query(["fast"], subquery={"inner": None}),
            Query(["fast"], subquery=inner),
            Query([]),
        ):
            found = self.names(query)
            with unittest.mock.patch.object(SequenceDB, "_build", side_effect=AssertionError):
                for name in ("early", "inner", "same_a", "same_b", "late", "unknown"):
                    with self.subTest(query=query, name=name):
                        self.assertEqual(self.db.selects(name, query), name in found)

    def test_selects_loads_named_modules_only(self):
        query = Query(["fast"])
        with (
            unittest.mock.patch.object(optdb, "_loaders", []),
            unittest.mock.patch.object(optdb.importlib, "import_module") as load,
        ):
            load.side_effect = lambda module: self.db.register("added", Global(), 7, "fast")
            optdb.register_loader("module_of_added", "added")
            self.assertFalse(self.db.selects("unknown", query))
            load.assert_not_called()
            self.assertTrue(self.db.selects("added", query))
            load.assert_called_once_with("module_of_added")

    def test_extra(self):
        extra = Global()
        extra.name = "extra"
        self.assertEqual(
            self.names(Query(["fast"]).register((extra, 2.5))), ["early", "inner", "extra", "same_a", "same_b", "late"]
        )

    def test_failures(self):
        """If an optimizer of a query fails, the failure callback of the database is called.

        Without a callback, the flag `on_opt_error` decides.
        """

        def fail(fgraph):
            raise RuntimeError("this one is broken")

        broken, graph, seen = opt.FromFunctionOptimizer(fail), FunctionGraph([], []), []
        self.db.register("broken", broken, 4, "fast")
        with config.change_flags(on_opt_error="warn"), self.assertLogs("theano_ng.gof.opt", "ERROR") as logged:
            self.db.query("+fast").optimize(graph)
        self.assertIn("this one is broken", "\n".join(logged.output))
        with config.change_flags(on_opt_error="ignore"):
            self.db.query("+fast").optimize(graph)
        with config.change_flags(on_opt_error="raise"), self.assertLogs("theano_ng.gof.opt", "ERROR"):
            self.assertRaises(RuntimeError, self.db.query("+fast").optimize, graph)
        for callback in (lambda *about: seen.append(about), None):
            db = SequenceDB(failure_callback=callback)
            db.register("broken", broken, 4, "fast")
            found = db.query("+fast")
            if callback is None:
                self.assertRaises(RuntimeError, found.optimize, graph)
                continue
            found.optimize(graph)
            ((error, sequence, failed),) = seen
            self.assertIn("this one is broken", str(error))
            self.assertEqual((sequence, failed), (found, broken))

    def test_result_is_editable(self):
        found = self.db.query("+fast")
        del found[:]
        self.assertEqual(len(self.db.query("+fast")), 5)

    def test_summary(self):
        out = io.StringIO()
        self.db.print_summary(out)
        self.assertIn("late", out.getvalue())
        self.db.query("+fast").print_summary(out)
        self.assertIn("EquilibriumOptimizer inner", out.getvalue())
        self.assertIn("position", str(self.db))


class TestOthers(unittest.TestCase):
    def test_local_group(self):
        db = LocalGroupDB(apply_all_opts=True)
        r1, r2, r3 = Rule(), Rule(), Rule()
        db.register("second", r2, "t", position=5)
        db.register("third", r3, "t")
        db.register("first", r1, "t", position=1)
        found = db.query("+t")
        self.assertIsInstance(found, opt.LocalOptGroup)
        self.assertEqual(found.opts, (r1, r2, r3))
        self.assertTrue(found.apply_all_opts)
        self.assertRaises(TypeError, db.register, "x", Rule(), position="front")

    def test_topo_and_proxy(self):
        group = LocalGroupDB()
        group.register("rule", Rule(), "t")
        topo = TopoDB(group, order="out_to_in")
        found = topo.query("+t")
        self.assertIsInstance(found, opt.TopoOptimizer)
        self.assertEqual((found.order, [o.name for o in found.local_opt.opts]), ("out_to_in", ["rule"]))
        topo.register("more", Rule(), "t")
        self.assertIn("more", group)
        seq = SequenceDB()
        inner = SequenceDB()
        inner.register("g", Global(), 0, "t")
        seq.register("one", inner, 1, "t")
        seq.register("two", ProxyDB(inner), 2, "t")
        self.assertEqual([(o.name, len(o)) for o in seq.query("+t")], [("one", 1), ("two", 1)])
        self.assertRaises(TypeError, ProxyDB, 3)
        self.assertRaises(NotImplementedError, DB().query, "+t")


if __name__ == "__main__":
    unittest.main()
