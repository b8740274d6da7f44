"""Tests of C code for elements of typed lists: failing copies, comparisons of nested lists and of wrong types."""

import unittest

import numpy as np

import theano_ng as theano
from theano_ng import tensor as tt
from theano_ng import typed_list as lists
from theano_ng.gof.type import generic
from theano_ng.tensor.tests.single_node import run_node
from theano_ng.typed_list import TypedListType

MODES = (theano.Mode("py", None), theano.Mode("vm", None))


class CannotBeCopied:
    def __deepcopy__(self, memo):
        raise LookupError("no copy of this")


class Shortens:
    """An object that removes elements from a list while the object is copied."""

    def __init__(self, elements):
        self.elements = elements

    def __deepcopy__(self, memo):
        del self.elements[1:]
        return self


class TestCopies(unittest.TestCase):
    def outputs(self, x, e):
        yield lists.make_list([e, e])
        yield x.append(e)
        yield lists.insert(x, 0, e)

    def test_errors_are_those_of_the_copy(self):
        """If the copy of an element raises an error, the call raises this error. The next call works again."""
        x, e = TypedListType(generic)("x"), generic("e")
        for output in self.outputs(x, e):
            for mode in MODES:
                f = theano.function([x, e], output, mode=mode, on_unused_input="ignore")
                good = f([1, 2], 3)
                with self.assertRaisesRegex(LookupError, "no copy of this"):
                    f([1, 2], CannotBeCopied())
                self.assertEqual(f([1, 2], 3), good)

    def test_errors_within_lists(self):
        x, e = TypedListType(generic)("x"), generic("e")
        for output in (x.append(e), lists.insert(x, 1, e), x.reverse(), lists.extend(x, x)):
            for mode in MODES:
                f = theano.function([x, e], output, mode=mode, on_unused_input="ignore")
                for position in range(3):
                    values = [1, 2, 3]
                    values[position] = CannotBeCopied()
                    with self.assertRaisesRegex(LookupError, "no copy of this"):
                        f(values, 4)

    def test_a_list_that_becomes_shorter(self):
        """C code detects a list that becomes shorter during a copy; otherwise it would read a freed element."""
        x = TypedListType(generic)("x")
        for output in (x.reverse(), lists.extend(x, x)):
            f = theano.function([x], output, mode=MODES[1])
            values = [1, 2, 3]
            values[0] = Shortens(values)
            with self.assertRaisesRegex(RuntimeError, "changed its length while it was copied"):
                f(values)


class TestNestedComparisons(unittest.TestCase):
    def test_every_element_counts(self):
        """Lists are equal only if all elements are equal: C code finds a difference at any position, in any dtype."""
        for dtype in ("bool", "int32", "uint64", "float16", "float32", "float64", "complex64", "complex128"):
            t = TypedListType(tt.TensorType(dtype, (False,)), 1)
            x, e = t("x"), t.ttype("e")
            element = [np.array(a).astype(dtype) for a in ([1, 0], [1], [0, 1, 1], [])]
            others = [[a.copy() for a in element[:3]]]
            for position in range(3):
                other = [a.copy() for a in element]
                other[position] = np.array(1 - element[position].real, dtype)
                others.append(other)
            for mode in MODES:
                f = theano.function([x, e], [x.count(e), x.ind(e)], mode=mode)
                self.assertEqual(f([*others, element, element], element), [2, len(others)], (dtype, mode))
                self.assertEqual(theano.function([x, e], x.count(e), mode=mode)(others, element), 0)


class TestValuesOfOtherTypes(unittest.TestCase):
    """Tests of nodes in C whose inputs have values that do not belong to the Types of the inputs."""

    def found(self, values, value, ndim=1, dtype="float64"):
        t = TypedListType(tt.TensorType(dtype, (False,) * ndim))
        x, e = t("x"), t.ttype("e")
        return run_node(x.count(e), {x: values, e: value}, "c")[0]

    def test_arrays_of_other_dtypes_or_ranks_are_not_equal(self):
        for shape in ((3,), (2, 2), (0,)):
            one = np.ones(shape)
            others = [one.astype(d) for d in ("int64", "float32", "complex128", "uint64")]
            others += [one[None], one[..., None], one.ravel()[:1].reshape(())] if one.size else [one[None]]
            self.assertEqual(self.found(others, one, len(shape)), 0)
            self.assertEqual(self.found([*others, one], one, len(shape)), 1)

    def test_an_array_beside_a_list(self):
        one = np.ones(2)
        with self.assertRaisesRegex(TypeError, "lists of arrays to compare, got list and numpy.ndarray"):
            self.found([[one]], one)
        t = TypedListType(tt.dvector, 1)
        x, e = t("x"), t.ttype("e")
        with self.assertRaisesRegex(TypeError, "lists of arrays to compare, got numpy.ndarray and list"):
            run_node(x.count(e), {x: [one], e: [one]}, "c")


if __name__ == "__main__":
    unittest.main()
