"""Tests of the functions that tell the package's own Ops and rules from those of users, and of `fails_on_values`."""

import subprocess
import sys
import unittest
import unittest.mock

import theano_ng
from theano_ng import scalar
from theano_ng import tensor as T
from theano_ng.compile import graph_cache, mode
from theano_ng.compile.mode import Mode
from theano_ng.gof import optdb
from theano_ng.gof.destroy.failures import fails_on_values
from theano_ng.gof.provenance import is_from_package
from theano_ng.gof.rewriting import MergeOptimizer, local_optimizer
from theano_ng.tensor.elemwise import Elemwise
from theano_ng.tensor.opt import registration


def _rule(name):
    def rule(node):
        return False

    rule.__name__ = name
    return local_optimizer(None)(rule)


class UsersElemwise(Elemwise):
    pass


class HarmlessElemwise(Elemwise):
    def fails_on_values(self, node):
        return False


class UsersScalarOp(scalar.UnaryScalarOp):
    def impl(self, x):
        return x


class TestRulesOfThePackage(unittest.TestCase):
    def test_all_are_registered_as_its_own(self):
        """All rules of the package are registered as the package's own.

        Otherwise graphs would not be cached. The check runs in a new process, because tests register rules in this
        process.
        """
        code = "from theano_ng.tests.mutants import killers; raise SystemExit(killers.run('own rules'))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class TestIsOwn(unittest.TestCase):
    def test_classes_and_functions(self):
        self.assertTrue(is_from_package(Elemwise))
        self.assertTrue(is_from_package(theano_ng.function))
        self.assertTrue(is_from_package(theano_ng.dot))
        self.assertFalse(is_from_package(unittest.TestCase))
        self.assertFalse(is_from_package(3))

    def test_a_subclass_elsewhere_is_not_ours(self):
        # Tests are not part of the package: their classes count as a user's.
        self.assertFalse(is_from_package(UsersElemwise))


class TestFailsOnValues(unittest.TestCase):
    def test_ops_of_the_package(self):
        x, i = T.dvector("x"), T.lscalar("i")
        for out, fails in (
            (x + 1, False),
            (x.sum(), False),
            (x[1], False),
            (x[i], True),
            (T.set_subtensor(x[:2], 0), False),
            (T.set_subtensor(x[i], 0), True),
            (T.dot(x, x), False),
            (x.dimshuffle(0, "x"), False),
            (x.shape, False),
            (T.nnet.softmax(x), False),
            (T.specify_shape(x, [2]), True),
            (x[T.lvector()], True),
        ):
            with self.subTest(out=out):
                self.assertEqual(fails_on_values(out.owner), fails)

    def test_what_a_users_subclass_inherits_does_not_count(self):
        x = T.dvector("x")
        self.assertTrue(fails_on_values(UsersElemwise(scalar.neg)(x).owner))
        self.assertFalse(fails_on_values(HarmlessElemwise(scalar.neg)(x).owner))
        self.assertTrue(fails_on_values(Elemwise(UsersScalarOp(scalar.same_out))(x).owner))


def by_package(function, *arguments):
    """Call a function as if a module of the package called it. This test module counts as a user's code."""
    return eval("function(*arguments)", {"__name__": "theano_ng.some", "function": function, "arguments": arguments})


class TestRegistration(unittest.TestCase):
    """Tests that rules which a user registers or changes make functions uncacheable, and the package's rules do not."""

    def setUp(self):
        patch = unittest.mock.patch.object(optdb, "_foreign", False)
        patch.start()
        self.addCleanup(patch.stop)

    def assertForeign(self, function, *arguments):
        with unittest.mock.patch.object(optdb, "_foreign", False):
            function(*arguments)
            self.assertTrue(optdb.has_foreign_rules())

    def test_rules(self):
        for database in (optdb.DB(), optdb.EquilibriumDB(), optdb.LocalGroupDB(), optdb.TopoDB(optdb.EquilibriumDB())):
            by_package(database.register, "ours", _rule("ours"), "tag")
            self.assertFalse(optdb.has_foreign_rules(), database)
            self.assertForeign(database.register, "theirs", _rule("theirs"), "tag")

    def test_optimizers(self):
        database = optdb.SequenceDB()
        by_package(database.register, "ours", MergeOptimizer(), 1)
        self.assertFalse(optdb.has_foreign_rules())
        # a class of the package, registered by a user
        self.assertForeign(database.register, "theirs", MergeOptimizer(), 2)

    def test_tags(self):
        database = optdb.DB()
        by_package(database.register, "ours", MergeOptimizer(), "tag")
        self.assertForeign(database.add_tags, "ours", "other")
        self.assertForeign(database.remove_tags, "ours", "tag")

    def test_decorators(self):
        """A rule belongs to the module that uses the decorator, not to the module that defines the decorator."""
        # The rules go into a separate database, so that no other test sees them.
        phases = optdb.SequenceDB()
        by_package(phases.register, "specialize", optdb.EquilibriumDB(), 2)
        with unittest.mock.patch.object(mode, "optdb", phases):
            for decorator in (registration.register_specialize, registration.register_specialize("tag")):
                with self.subTest(decorator=decorator):
                    by_package(decorator, _rule("ours_%d" % id(decorator)))
                    self.assertFalse(optdb.has_foreign_rules())
                    self.assertForeign(decorator, _rule("theirs_%d" % id(decorator)))

    def test_the_cache_of_graphs(self):
        """Registering a rule of the package keeps the graph cache on; registering a user's rule switches it off."""

        def check():
            graph_cache._checked_environment(Mode(), [graph_cache.PreserveVariableAttributes])

        phases = optdb.SequenceDB()
        by_package(phases.register, "specialize", optdb.EquilibriumDB(), 2)
        with unittest.mock.patch.object(mode, "optdb", phases):
            by_package(registration.register_specialize, _rule("ours"))
            check()
            registration.register_specialize(_rule("theirs"))
            self.assertRaises(graph_cache.Uncacheable, check)


if __name__ == "__main__":
    unittest.main()
