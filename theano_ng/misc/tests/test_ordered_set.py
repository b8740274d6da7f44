"""Tests of sets that keep the order of insertion."""

import copy
import pickle
import unittest
import weakref

from theano_ng.misc.ordered_set import Link, OrderedSet, check_deterministic


class TestOrderedSet(unittest.TestCase):
    def test_order_and_membership(self):
        s = OrderedSet("bca")
        s.add("c")
        s.add("d")
        self.assertEqual(
            (list(s), list(reversed(s)), len(s), "a" in s, "x" in s), (list("bcad"), list("dacb"), 4, True, False)
        )
        s.discard("x")
        s.remove("c")
        self.assertRaises(KeyError, s.remove, "c")
        self.assertEqual((s.pop(), s.pop(last=False), list(s)), ("d", "b", ["a"]))
        s.pop()
        self.assertRaises(KeyError, s.pop)

    def test_algebra(self):
        a, b = OrderedSet([3, 1, 2]), OrderedSet([2, 5, 3])
        self.assertEqual(
            [list(a | b), list(a & b), list(a - b), list(a.union(b))], [[3, 1, 2, 5], [3, 2], [1], [3, 1, 2, 5]]
        )
        c = a.copy()
        c.update(b)
        c.difference_update([1])
        c.intersection_update([5, 2, 9])
        self.assertEqual((list(c), list(a)), ([2, 5], [3, 1, 2]))

    def test_equality(self):
        self.assertEqual(OrderedSet([1, 2]), OrderedSet([1, 2]))
        self.assertNotEqual(OrderedSet([1, 2]), OrderedSet([2, 1]))
        self.assertEqual(OrderedSet([1, 2]), {2, 1})
        self.assertNotEqual(OrderedSet([1]), [1])
        self.assertRaises(TypeError, hash, OrderedSet())
        self.assertEqual((repr(OrderedSet()), repr(OrderedSet([1]))), ("OrderedSet()", "OrderedSet([1])"))

    def test_what_has_no_order_is_refused(self):
        for bad in ({1, 2}, frozenset([1])):
            for act in (OrderedSet, OrderedSet().update, OrderedSet().union, check_deterministic):
                self.assertRaisesRegex(TypeError, "no order", act, bad)
        for good in ([1], (1,), {1: 2}, {1: 2}.keys(), OrderedSet([1]), iter([1]), None):
            check_deterministic(good)

    def test_copies(self):
        s = OrderedSet([2, 1])
        for other in (copy.copy(s), copy.deepcopy(s), pickle.loads(pickle.dumps(s))):
            self.assertEqual(other, s)
            other.add(3)
            self.assertEqual(len(s), 2)


class TestLink(unittest.TestCase):
    def test_attributes(self):
        first, second = Link(), Link()
        first.next, second.prev, first.key = weakref.proxy(second), first, "a"
        self.assertEqual(second.prev.key, "a")
        with self.assertRaises(AttributeError):
            first.other = 1


if __name__ == "__main__":
    unittest.main()
