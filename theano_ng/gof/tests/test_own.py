"""What belongs to the package, and what its Ops say of themselves."""
import unittest

import theano_ng
from theano_ng import scalar
from theano_ng import tensor as T
from theano_ng.gof.failures import fails_on_values
from theano_ng.gof.own import is_own
from theano_ng.tensor.elemwise import Elemwise


class UsersElemwise(Elemwise):
    pass


class HarmlessElemwise(Elemwise):
    def fails_on_values(self, node):
        return False


class UsersScalarOp(scalar.UnaryScalarOp):
    def impl(self, x):
        return x


class TestIsOwn(unittest.TestCase):
    def test_classes_and_functions(self):
        self.assertTrue(is_own(Elemwise))
        self.assertTrue(is_own(theano_ng.function))
        self.assertTrue(is_own(theano_ng.dot))
        self.assertFalse(is_own(unittest.TestCase))
        self.assertFalse(is_own(3))

    def test_a_subclass_elsewhere_is_not_ours(self):
        # Tests stand for users: they are not part of the package.
        self.assertFalse(is_own(UsersElemwise))


class TestFailsOnValues(unittest.TestCase):
    def test_ops_of_the_package(self):
        x, i = T.dvector("x"), T.lscalar("i")
        for out, fails in ((x + 1, False), (x.sum(), False), (x[1], False), (x[i], True), (T.set_subtensor(x[:2], 0), False),
                           (T.set_subtensor(x[i], 0), True), (T.dot(x, x), False), (x.dimshuffle(0, "x"), False), (x.shape, False),
                           (T.nnet.softmax(x), False), (T.specify_shape(x, [2]), True), (x[T.lvector()], True)):
            with self.subTest(out=out):
                self.assertEqual(fails_on_values(out.owner), fails)

    def test_what_a_users_subclass_inherits_does_not_count(self):
        x = T.dvector("x")
        self.assertTrue(fails_on_values(UsersElemwise(scalar.neg)(x).owner))
        self.assertFalse(fails_on_values(HarmlessElemwise(scalar.neg)(x).owner))
        self.assertTrue(fails_on_values(Elemwise(UsersScalarOp(scalar.same_out))(x).owner))


if __name__ == "__main__":
    unittest.main()
