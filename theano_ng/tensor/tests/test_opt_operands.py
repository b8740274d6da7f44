"""The operands that single rules accept and refuse: each rule is applied to one node."""

import itertools
import unittest

import numpy as np

import theano_ng
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.optdb import Query
from theano_ng.tensor.opt import ShapeFeature, algebra, alloc, useless
from theano_ng.tensor.opt.common import encompasses_broadcastable, is_an_upcast
from theano_ng.tensor.tests.rewriting import CANONICALIZE, RewriteCase

WITH_SHAPES = Query(["fast_run"], exclude=["inplace", "fusion", "BlasOpt"])
PLAIN = Mode("py", None)


def named_inputs(out):
    return [v for v in theano_ng.gof.graph.inputs([out]) if not isinstance(v, T.Constant)]


def replaced(rule, out, shapes=False):
    """Return the replacement that a rule makes for the node of `out` in a separate graph, or None."""
    fgraph = FunctionGraph(named_inputs(out), [out])
    if shapes:
        fgraph.attach_feature(ShapeFeature())
    result = rule.transform(fgraph.outputs[0].owner)
    return result[0] if result else None


def value_of(out, values):
    """Return the value of an expression, given values by the names of its variables."""
    inputs = named_inputs(out)
    return theano_ng.function(inputs, out, mode=PLAIN)(*[values[v.name] for v in inputs])


class TestSums(unittest.TestCase):
    def test_zeros_at_all_places(self):
        """Zeros are removed from any position of a sum; all other operands stay."""
        values = {name: np.array([1.0, 10.0]) * 3**k for k, name in enumerate("abcd")}
        for count in (2, 3, 4):
            for kept in itertools.product((False, True), repeat=count):
                if all(kept):
                    continue
                operands = [T.dvector(n) if k else T.constant(np.zeros(1)) for n, k in zip("abcd", kept)]
                if not any(kept):
                    operands[0] = T.constant(np.zeros(2))
                new = replaced(algebra.local_add_specialize, T.add(*operands))
                wanted = sum([values[n] for n, k in zip("abcd", kept) if k], np.zeros(2))
                np.testing.assert_array_equal(np.broadcast_to(value_of(new, values), (2,)), wanted)
                self.assertFalse(new.owner is not None and "add" in str(new.owner.op) and sum(kept) == 1)


class TestProductsWithZeros(RewriteCase):
    query = CANONICALIZE

    def test_matrix_products(self):
        """The replacement of a product with zeros has the type and the shape of the product, also if a dimension has
        length one.
        """
        shapes = {"x": [(3, 2), (1, 2), (3, 1), (1, 1), (2,), (1,)], "y": [(2, 4), (2, 1), (1, 4), (1, 1), (2,), (1,)]}
        for left, right in itertools.product(shapes["x"], shapes["y"]):
            if left[-1] != right[0]:
                continue
            for zero_left in (True, False):
                zeros, other = (left, right) if zero_left else (right, left)
                x = T.TensorType("float64", [n == 1 for n in other])("x")
                zero = T.constant(np.zeros(zeros))
                out = T.dot(zero, x) if zero_left else T.dot(x, zero)
                new = replaced(algebra.local_0_dot_x, out)
                with self.subTest(left=left, right=right, zero_left=zero_left):
                    self.assertEqual(new.type, out.type)
                    values, wanted = {"x": np.ones(other)}, np.dot(np.zeros(left), np.zeros(right))
                    np.testing.assert_array_equal(value_of(new, values), wanted)
                    self.check(out, None, values)

    def test_constants_of_a_wider_type(self):
        """A product with zeros keeps its type and shape, whatever the type of the constant.

        The constant may have a dimension of length one that its type does not declare.
        """
        for m, n in itertools.product((1, 2), (1, 3)):
            x, zero = T.dmatrix("x"), T.TensorConstant(T.dmatrix, np.zeros((m, n)))
            for out, shape in ((T.dot(zero, x), (m, 4)), (T.dot(x, zero.T), (4, m))):
                new = replaced(algebra.local_0_dot_x, out)
                if new is not None:
                    self.assertEqual(new.type, out.type)
                given = {"x": np.ones((n, 4) if shape[0] == m else (4, n))}
                self.assertEqual(value_of(new or out, given).shape, shape)
                self.check(out, None, given)

    def test_elementwise(self):
        """A product with zero has the shape to which the factors broadcast, even if no factor has this shape."""
        v = {"x": np.ones((3, 1)), "y": np.ones((1, 4)), "z": np.ones((1, 1))}
        x, y, z = T.dcol("x"), T.drow("y"), T.TensorType("float64", (True, True))("z")
        for factors in itertools.permutations([x, y, z, 0.0]):
            self.check(T.mul(*factors), None, v, query=WITH_SHAPES)
            new = replaced(algebra.local_mul_specialize, T.mul(*factors))
            np.testing.assert_array_equal(value_of(new, v), np.zeros((3, 4)))
            self.assertEqual(new.type, T.mul(*factors).type)


class TestRepeatedOperands(RewriteCase):
    query = WITH_SHAPES

    def test_transposed_and_padded(self):
        """`local_elemwise_alloc` replaces an Alloc, or a transposed Alloc, by the value of the Alloc.

        Elementwise sums with other functions of an Alloc keep their values.
        """
        x, v, s, n, k = T.dmatrix("x"), T.dvector("v"), T.dscalar("s"), T.lscalar("n"), T.lscalar("k")
        values = {"x": np.arange(6.0).reshape(2, 3), "v": np.array([1.0, 2, 4]), "s": 7, "n": 2, "k": 3}
        column = v.dimshuffle(0, "x")
        for operand, repeats in [
            (T.alloc(s, n, k), True),
            (T.alloc(s, k, n).T, True),
            (T.alloc(v, n, k), True),
            (T.alloc(column, k, n).T, True),
            (T.alloc(v[:2], k, n).T, True),
            (T.alloc(s, k).dimshuffle("x", 0), None),
            (T.exp(T.alloc(s, k, n)).T, None),
            (T.alloc(s, k, n)[:, ::-1].T, None),
            (T.dot(T.alloc(s, k, n).T, T.eye(3)), None),
        ]:
            out = x + operand
            if repeats:
                new = replaced(alloc.local_elemwise_alloc, out, shapes=True)
                self.assertIsNotNone(new, operand)
                np.testing.assert_allclose(value_of(new, values), value_of(out, values))
                nodes = theano_ng.gof.graph.io_toposort(named_inputs(new), [new])
                self.assertFalse([node for node in nodes if isinstance(node.op, T.Alloc)])
            self.check(out, None, values)

    def test_other_operations_on_repeated_values(self):
        """Sums with functions of an Alloc keep their values: `local_elemwise_alloc` looks only through DimShuffle."""
        x, s, n = T.dmatrix("x"), T.dscalar("s"), T.lscalar("n")
        values = {"x": np.arange(6.0).reshape(2, 3), "s": 7, "n": 2}
        repeated = T.alloc(s, n, 3)
        for operand in (repeated[::-1], T.exp(repeated), repeated.reshape((2, 3)), repeated.cumsum(axis=0)):
            out = T.add(x, operand, repeated)
            new = replaced(alloc.local_elemwise_alloc, out, shapes=True)
            np.testing.assert_allclose(value_of(new, values), value_of(out, values))

    def test_no_operand_of_the_whole_shape(self):
        """`local_elemwise_alloc` keeps an Alloc if no operand has the shape of the sum, as for a row and a column."""
        row, col, s, n = T.drow("row"), T.dcol("col"), T.dscalar("s"), T.lscalar("n")
        values = {"row": np.array([[1.0, 2]]), "col": np.array([[3.0], [4], [5]]), "s": 7, "n": 3}
        for operands in (
            (T.alloc(s, n, 1), row),
            (row, T.alloc(s, n, 1)),
            (T.alloc(s, n, 1), T.alloc(s, 1, n)),
            (col, T.alloc(s, 1, n)),
            (col, T.alloc(s, n).dimshuffle("x", 0)),
        ):
            out = T.add(*operands)
            self.assertIsNone(replaced(alloc.local_elemwise_alloc, out, shapes=True))
            self.check(out, None, values)


class TestDtypesAndPatterns(unittest.TestCase):
    def test_upcasts(self):
        """`is_an_upcast` accepts casts that NumPy calls safe, and some casts from unsigned to signed integers.

        Bool counts as the narrowest dtype, and complex dtypes as wider than floats.
        """
        kinds = [
            ["uint8", "uint16", "uint32", "uint64"],
            ["int8", "int16", "int32", "int64"],
            ["float16", "float32", "float64"],
            ["complex64", "complex128"],
        ]
        for kind in kinds:
            for (i, a), (j, b) in itertools.product(enumerate(kind), repeat=2):
                self.assertEqual(is_an_upcast(a, b), i < j and np.can_cast(a, b), (a, b))
        for a in itertools.chain(*kinds):
            for b in itertools.chain(*kinds):
                if is_an_upcast(a, b):
                    self.assertTrue(np.can_cast(a, b) or "uint" in a and "int" in b, (a, b))
            self.assertTrue(is_an_upcast("bool", a))
            self.assertFalse(is_an_upcast(a, "bool"))
        for a, b in (("float16", "complex64"), ("float32", "complex64"), ("float64", "complex128")):
            self.assertTrue(is_an_upcast(a, b))

    def test_patterns(self):
        """`encompasses_broadcastable(b1, b2)` is true if an array of pattern b2 can be broadcast to one of pattern b1.

        Dimensions that a pattern does not declare to have length 1 have length 2 here.
        """
        for left, right in itertools.product(range(4), repeat=2):
            for b1 in itertools.product((True, False), repeat=left):
                for b2 in itertools.product((True, False), repeat=right):
                    target, source = [1 if b else 2 for b in b1], [1 if b else 2 for b in b2]
                    try:
                        fits = np.broadcast_to(np.zeros(source), target).shape == tuple(target)
                    except ValueError:
                        fits = False
                    self.assertEqual(encompasses_broadcastable(b1, b2), fits, (b1, b2))


class TestConstants(RewriteCase):
    query = WITH_SHAPES

    def test_bits(self):
        """A replaced bitwise operation keeps its type and value if all bits of its constant are 0 or all are 1.

        The constant has any rank, and is on either side.
        """
        for dtype in ("bool", "int8", "uint8", "int32", "int64"):
            scalar, vector, matrix = T.TensorType(dtype, ())("s"), T.vector("v", dtype), T.matrix("m", dtype)
            given = {"s": 1, "v": [0, 1, 1], "m": [[0, 1, 1], [1, 0, 1]]}
            ones = np.array(~np.zeros((), dtype))
            for op, bits, shape in itertools.product(
                (T.or_, T.and_, T.xor), (np.zeros((), dtype), ones), ((), (1,), (3,), (1, 3), (2, 3))
            ):
                constant = T.constant(np.full(shape, bits))
                for x in (scalar, vector, matrix):
                    for pair in ((x, constant), (constant, x)):
                        self.check_shape(op(*pair), given)

    def test_bits_of_vectors_of_one(self):
        """A constant of one element is not broadcast if its type does not declare the length one.

        The other operand must then have length one, too.
        """
        x = T.lvector("x")
        for op, bits in itertools.product((T.or_, T.and_, T.xor), (0, -1)):
            constant = T.TensorConstant(T.lvector, np.array([bits]))
            for pair in ((x, constant), (constant, x)):
                f = theano_ng.function([x], op(*pair), mode=Mode("py", WITH_SHAPES))
                self.assertEqual(f([5]).tolist(), value_of(op(*pair), {"x": [5]}).tolist())
                self.assertRaises(ValueError, f, [1, 2, 3])

    def check_shape(self, out, given):
        new = replaced(useless.local_useless_elemwise, out)
        if new is not None:
            self.assertEqual(new.type, out.type)
            np.testing.assert_array_equal(value_of(new, given), value_of(out, given))

    def test_branches_that_are_the_same(self):
        """A switch between equal branches is replaced by one of the branches.

        The branches are the same variable, or constants of equal value.
        """
        c, x = T.lvector("c"), T.dvector("x")
        for left, right, chosen in (
            (T.constant(np.array([2.5])), T.constant(np.array([2.5])), 2.5),
            (T.constant(np.array([2.5, 3])), T.constant(np.array([2.5, 3])), np.array([2.5, 3])),
            (x, x, np.array([4.0, 5])),
            (T.constant(np.array([2.5])), T.constant(np.array([3.5])), None),
            (T.constant(np.array([2.5, 3])), T.constant(np.array([2.5, 4])), None),
        ):
            out = T.switch(c, left, right)
            new = replaced(useless.local_useless_switch, out)
            if chosen is None:
                self.assertIsNone(new)
                continue
            got = value_of(new, {"c": [1, 0], "x": np.array([4.0, 5])})
            np.testing.assert_array_equal(got, np.broadcast_to(chosen, (2,)))
            self.assertFalse(new.owner is not None and new.owner.op == T.switch)


if __name__ == "__main__":
    unittest.main()
