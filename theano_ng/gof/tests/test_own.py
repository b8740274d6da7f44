"""Tests of the package's ownership of Ops and rules, and of `fails_on_values`."""

import subprocess
import sys
import unittest
import unittest.mock

import theano_ng
from theano_ng import scalar
from theano_ng import tensor as T
from theano_ng.compile import mode
from theano_ng.gof import optdb
from theano_ng.gof.destroy.failures import fails_on_values
from theano_ng.gof.own import is_own
from theano_ng.gof.rewriting import MergeOptimizer, local_optimizer
from theano_ng.tensor.elemwise import Elemwise
from theano_ng.tensor.opt import own_registration, registration


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
        """All rules count as the package's own; otherwise graphs would not be cached.

        The check runs in a new process, where no test has registered rules.
        """
        code = "from theano_ng.tests.mutants import killers; raise SystemExit(killers.run('own rules'))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class TestIsOwn(unittest.TestCase):
    def test_classes_and_functions(self):
        self.assertTrue(is_own(Elemwise))
        self.assertTrue(is_own(theano_ng.function))
        self.assertTrue(is_own(theano_ng.dot))
        self.assertFalse(is_own(unittest.TestCase))
        self.assertFalse(is_own(3))

    def test_a_subclass_elsewhere_is_not_ours(self):
        # Tests are not part of the package: their classes count as a user's.
        self.assertFalse(is_own(UsersElemwise))


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


class TestRegistration(unittest.TestCase):
    """Rules that a user registers or changes make functions uncacheable; the package's own registrations do not."""

    def setUp(self):
        patch = unittest.mock.patch.object(optdb, "_foreign", False)
        patch.start()
        self.addCleanup(patch.stop)

    def test_rules(self):
        for database in (optdb.DB(), optdb.EquilibriumDB(), optdb.LocalGroupDB(), optdb.TopoDB(optdb.EquilibriumDB())):
            database.register("ours", _rule("ours"), "tag", own=True)
            self.assertFalse(optdb.has_foreign_rules(), database)
            with unittest.mock.patch.object(optdb, "_foreign", False):
                database.register("theirs", _rule("theirs"), "tag")
                self.assertTrue(optdb.has_foreign_rules(), database)

    def test_optimizers(self):
        database = optdb.SequenceDB()
        database.register("ours", MergeOptimizer(), 1, own=True)
        self.assertFalse(optdb.has_foreign_rules())
        database.register("theirs", MergeOptimizer(), 2)  # a class of the package, registered by a user
        self.assertTrue(optdb.has_foreign_rules())

    def test_tags(self):
        database = optdb.DB()
        database.register("ours", MergeOptimizer(), "tag", own=True)
        for change in (database.add_tags, database.remove_tags):
            with unittest.mock.patch.object(optdb, "_foreign", False):
                change("ours", "other" if change == database.add_tags else "tag")
                self.assertTrue(optdb.has_foreign_rules())

    def test_decorators(self):
        # The rules go into a separate database, so that no other test sees them.
        with unittest.mock.patch.dict(vars(mode), {"local_useless": optdb.LocalGroupDB()}):
            own_registration.register_useless("tag")(_rule("ours"))
            self.assertFalse(optdb.has_foreign_rules())
            registration.register_useless("tag")(_rule("theirs"))
            self.assertTrue(optdb.has_foreign_rules())


if __name__ == "__main__":
    unittest.main()
