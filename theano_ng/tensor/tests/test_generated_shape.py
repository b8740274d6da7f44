"""Generated tests of Ops that shape, join, split, repeat and make tensors: against NumPy, in Python and C, with
gradients.
"""

import unittest

import numpy as np
from hypothesis import strategies as st

from theano_ng import compile as compiled
from theano_ng import tensor
from theano_ng.tensor import basic as shaping
from theano_ng.tensor.shaping import joining
from theano_ng.tensor.shaping.creation import Eye, Tri
from theano_ng.tensor.shaping.diagonals import AllocDiag, ExtractDiag
from theano_ng.tensor.tests.generated import ALL_DTYPES, Compared, arrays, generated

# Each dtype takes compilation time, so most tests use a few dtypes of different sizes and kinds.
SOME = ("bool", "int16", "float32", "complex128")
REALS = ("uint8", "float16", "int64")


def divisors(n):
    return [d for d in range(1, n + 1) if n % d == 0]


class TestShaping(unittest.TestCase):
    reshape = Compared(lambda x, s, ndim: tensor.reshape(x, s, ndim=ndim), lambda x, s, ndim: np.reshape(x, s))
    flatten = Compared(
        lambda x, ndim: [tensor.flatten(x, ndim), shaping.Flatten(ndim)(x)],
        lambda x, ndim: [x.reshape(*x.shape[: ndim - 1], int(np.prod(x.shape[ndim - 1 :])))] * 2,
    )
    moved = Compared(
        lambda x, order, a, b: [
            tensor.transpose(x, order),
            tensor.swapaxes(x, a, b),
            shaping.moveaxis(x, a, b),
            shaping.rollaxis(x, a, b),
            tensor.shape_padleft(x, 2),
            tensor.shape_padright(x),
            tensor.shape_padaxis(x, a),
            x.T,
            x.copy(),
        ],
        lambda x, order, a, b: [
            x.transpose(order),
            x.swapaxes(a, b),
            np.moveaxis(x, a, b),
            np.rollaxis(x, a, b),
            x[None, None],
            x[..., None],
            np.expand_dims(x, a),
            x.T,
            x,
        ],
    )
    specified = Compared(lambda x, s: tensor.specify_shape(x, s), lambda x, s: TestShaping.specify(x, s))
    declared = Compared(
        lambda x, ones: tensor.unbroadcast(tensor.patternbroadcast(x, ones), 0),
        # `unbroadcast` undoes the declaration of the first dimension, so the length of this dimension is not checked.
        lambda x, ones: TestShaping.specify(
            x, [1 if one and i else n for i, (n, one) in enumerate(zip(x.shape, ones))]
        ),
        declare="none",
    )
    copied = Compared(
        lambda x, order: compiled.deep_copy_op(x.transpose(order)), lambda x, order: x.transpose(order).copy()
    )
    shapes = Compared(
        lambda x: [x.shape, x.size, *[compiled.Shape_i(i)(x) for i in range(x.ndim)], tensor.squeeze(x)],
        lambda x: [np.array(x.shape, "int64"), np.int64(x.size), *np.array(x.shape, "int64"), x.squeeze()],
    )

    @staticmethod
    def specify(x, shape):
        if tuple(shape) != x.shape:
            raise AssertionError("shape")
        return x

    @generated(arrays(SOME, ndim=(1, 2), sides=(0, 2)), st.data())
    def test_declared_shapes(self, x, data):
        sides = st.sampled_from([*x.shape, *x.shape, *x.shape, 1])
        self.specified.check(
            x, np.array(data.draw(st.sampled_from([x.shape, x.shape, data.draw(st.tuples(*[sides] * x.ndim))])))
        )
        self.declared.check(x, ones=data.draw(st.tuples(*[st.booleans()] * x.ndim)))

    @generated(arrays(SOME, sides=(0, 6)), st.data(), examples=40)
    def test_reshape(self, x, data):
        ndim, shape, left = data.draw(st.integers(0, 3)), [], x.size
        for k in range(ndim):
            shape.append(left if k == ndim - 1 else data.draw(st.sampled_from(divisors(left) or [0, 2])))
            left = left // shape[-1] if shape[-1] else left
        if shape and data.draw(st.booleans()):
            shape[data.draw(st.integers(0, ndim - 1))] = data.draw(st.sampled_from([-1, -1, 2]))
        dtype = data.draw(st.sampled_from(["int64", "int8", "uint32"])) if min(shape, default=0) >= 0 else "int64"
        self.reshape.check(x, np.array(shape, dtype), ndim=ndim)

    @generated(arrays(SOME, ndim=(1, 3)), st.data())
    def test_flatten_and_order(self, x, data):
        self.flatten.check(x, ndim=data.draw(st.integers(1, x.ndim)))
        axes = st.integers(-x.ndim, x.ndim - 1)
        self.moved.check(x, order=data.draw(st.permutations(range(x.ndim))), a=data.draw(axes), b=data.draw(axes))
        self.shapes.check(x)

    @generated(arrays(SOME, ndim=(2, 3), sides=(15, 37), contents=("extreme",)), st.data(), examples=40)
    def test_transposed_copies(self, x, data):
        """Transposed copies have NumPy's values for arrays that are copied in tiles.

        Tiles at the border of an array are partial.
        """
        self.copied.check(x, order=data.draw(st.permutations(range(x.ndim))))
        self.reshape.check(x.transpose(data.draw(st.permutations(range(x.ndim)))), np.array([-1]), ndim=1)

    @generated(arrays("float64", ndim=(1, 3), sides=(1, 3), layouts=("C", "strided")), st.data(), examples=6)
    def test_gradients(self, x, data):
        self.reshape.check_gradient(x, np.array([-1, 1]), ndim=2, wrt=[0])
        self.flatten.check_gradient(x, ndim=x.ndim)
        self.specified.check_gradient(x, np.array(x.shape), wrt=[0])
        self.declared.check_gradient(x, ones=[n == 1 for n in x.shape])
        self.moved.check_gradient(x, order=data.draw(st.permutations(range(x.ndim))), a=0, b=-1)


class TestJoining(unittest.TestCase):
    joined = Compared(lambda *xs, axis: tensor.concatenate(xs, axis), lambda *xs, axis: np.concatenate(xs, axis))
    at_axis = Compared(lambda axis, *xs: tensor.join(axis, *xs), lambda axis, *xs: np.concatenate(xs, int(axis)))
    stacked = Compared(lambda *xs, axis: tensor.stack(list(xs), axis), lambda *xs, axis: np.stack(xs, axis))
    split = Compared(
        lambda x, axis, sizes, n: joining.Split(n)(x, axis, sizes),
        lambda x, axis, sizes, n: TestJoining.parts(x, int(axis), sizes, n),
    )

    @staticmethod
    def parts(x, axis, sizes, n):
        if len(sizes) != n or min(sizes, default=0) < 0 or sum(sizes) != x.shape[axis]:
            raise ValueError("sizes")
        return np.split(x, np.cumsum(sizes)[:-1], axis)

    @staticmethod
    def draw_parts(x, data):
        """Return an axis, and a list of x and arrays that a function may join with x.

        The arrays are parts of x, in other layouts or as float64. In one of ten draws, one array does not fit.
        """
        axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
        parts = [x]
        for _ in range(data.draw(st.integers(0, 2))):
            part = np.take(
                x, data.draw(st.lists(st.integers(0, x.shape[axis] - 1), max_size=3)) if x.shape[axis] else [], axis
            )
            parts.append(
                data.draw(
                    st.sampled_from(
                        [part, np.asfortranarray(part), np.flip(np.flip(part).copy()), part.astype("float64")]
                    )
                )
            )
        if data.draw(st.integers(0, 9)) == 0:
            parts.append(np.zeros([n + 1 for n in x.shape], x.dtype))
        return axis, parts

    @generated(arrays(REALS, ndim=(1, 3)), st.data(), examples=40)
    def test_join(self, x, data):
        axis, parts = self.draw_parts(x, data)
        self.joined.check(*parts, axis=axis)
        self.at_axis.check(np.array(axis, "int8"), *parts)

    @generated(arrays(SOME, ndim=(0, 3)), st.data())
    def test_stack(self, x, data):
        self.stacked.check(
            x, x[..., ::-1] if x.ndim else x, x, axis=data.draw(st.integers(-x.ndim - 1, x.ndim)) if x.ndim else 0
        )

    @generated(arrays(SOME, ndim=(1, 3)), st.data(), examples=40)
    def test_split(self, x, data):
        axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
        cuts = sorted(data.draw(st.lists(st.integers(0, x.shape[axis]), max_size=2)))
        sizes = np.diff([0, *cuts, x.shape[axis]])
        if data.draw(st.integers(0, 4)) == 0:
            sizes = sizes + np.array(data.draw(st.sampled_from([[1], [-1]])))
        self.split.check(
            x,
            np.int64(axis),
            np.append(sizes, []).astype(data.draw(st.sampled_from(["int64", "int8"]))),
            n=len(cuts) + 1,
        )

    @generated(arrays("float64", ndim=(1, 3), sides=(1, 3), layouts=("C", "strided")), st.data(), examples=6)
    def test_gradients(self, x, data):
        axis, (x, *others) = self.draw_parts(x, data)
        self.joined.check_gradient(x, x + 1, axis=axis)
        self.at_axis.check_gradient(np.array(axis, "int8"), x, x, wrt=[1, 2])
        self.stacked.check_gradient(x, x, axis=axis)
        self.split.check_gradient(x, np.int64(axis), np.array([1, x.shape[axis] - 1]), n=2, wrt=[0])


class TestRepeating(unittest.TestCase):
    tile = Compared(
        lambda x, reps, ndim: tensor.tile(x, reps, ndim=ndim), lambda x, reps, ndim: np.tile(x, reps), declare="none"
    )
    tile_constant = Compared(lambda x, reps: tensor.tile(x, reps), lambda x, reps: np.tile(x, reps))
    roll = Compared(lambda x, shift, axis: tensor.roll(x, shift, axis), lambda x, shift, axis: np.roll(x, shift, axis))
    roll_at = Compared(
        lambda x, shift, axis: tensor.roll(x, shift, axis), lambda x, shift, axis: np.roll(x, shift, int(axis))
    )
    alloc = Compared(
        lambda x, *sizes: [
            tensor.alloc(x, *sizes),
            tensor.zeros(sizes, x.dtype),
            tensor.AllocEmpty("int8")(*sizes).shape,
        ],
        lambda x, *sizes: [np.broadcast_to(x, sizes), np.zeros(sizes, x.dtype), np.array(sizes, "int64")],
    )
    like = Compared(
        lambda x: [tensor.zeros_like(x), tensor.ones_like(x, "int8"), tensor.fill(x, 2.5)],
        lambda x: [np.zeros_like(x), np.ones_like(x, "int8"), np.full_like(x, 2.5, "float32")],
    )

    @generated(arrays(SOME, ndim=(0, 3)), st.data(), examples=40)
    def test_tile(self, x, data):
        reps = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
        self.tile_constant.check(x, reps=reps)
        self.tile.check(x, np.array(reps), ndim=max(len(reps), x.ndim))

    @generated(arrays(SOME, ndim=(1, 3)), st.integers(-9, 9), st.data(), examples=40)
    def test_roll(self, x, shift, data):
        axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
        self.roll.check(x, np.int64(shift), axis=data.draw(st.sampled_from([None, axis])))
        self.roll_at.check(x, np.int8(shift), np.int64(axis))

    @generated(arrays(SOME, ndim=(0, 3)), st.data(), examples=40)
    def test_alloc(self, x, data):
        sizes = [data.draw(st.integers(0, 3)) for _ in range(data.draw(st.integers(0, 1)))] + [
            n if n != 1 else data.draw(st.integers(0, 20)) for n in x.shape
        ]
        if sizes and data.draw(st.integers(0, 5)) == 0:
            sizes[-1] = data.draw(st.sampled_from([-1, 7]))
        self.alloc.check(x, *[np.int64(size) for size in sizes])
        if x.dtype.kind not in "cb" and x.dtype != "float16":
            self.like.check(x)

    @generated(
        arrays("float64", ndim=(1, 3), sides=(1, 3), layouts=("C", "strided")),
        st.integers(-4, 4),
        st.data(),
        examples=6,
    )
    def test_gradients(self, x, shift, data):
        self.tile_constant.check_gradient(x, reps=(2, 1, 2))
        self.tile.check_gradient(x, np.array([2, 3]), ndim=max(2, x.ndim), wrt=[0])
        self.roll.check_gradient(x, np.int64(shift), axis=data.draw(st.sampled_from([None, *range(x.ndim)])), wrt=[0])
        self.alloc.check_gradient(x, np.int64(2), *[np.int64(n) if n > 1 else np.int64(3) for n in x.shape], wrt=[0])

    like.errors = (ValueError,)


class TestPermuting(unittest.TestCase):
    permuted = Compared(
        lambda x, y, inverse: tensor.permute_row_elements(x, y, inverse),
        lambda x, y, inverse: TestPermuting.reference(x, y, inverse),
    )
    inverted = Compared(tensor.inverse_permutation, lambda p: np.argsort(p, axis=-1).astype(p.dtype))

    @staticmethod
    def reference(x, y, inverse):
        ndim = max(x.ndim, y.ndim)
        x, y = (a.reshape((1,) * (ndim - a.ndim) + a.shape) for a in (x, y))
        if x.shape[-1] != y.shape[-1]:
            raise ValueError("rows")
        x, y = np.broadcast_arrays(x, y)
        if not inverse:
            return np.take_along_axis(x, y, -1)
        result = np.empty(x.shape, x.dtype)
        np.put_along_axis(result, y, x, -1)
        return result

    @generated(
        arrays(SOME, ndim=(1, 3)),
        st.booleans(),
        st.sampled_from(["int64", "uint8", "int32"]),
        st.integers(0, 99),
        st.data(),
    )
    def test_values(self, x, inverse, dtype, seed, data):
        rows = x.shape[data.draw(st.integers(0, x.ndim - 1)) :]
        y = np.argsort(np.random.RandomState(seed).rand(*rows), axis=-1).astype(dtype)
        self.permuted.check(x, y, np.int8(inverse))
        self.inverted.check(y)
        if y.size:
            y = y.copy()
            y.flat[0] = 9
            self.permuted.check(x, y, np.int8(inverse))

    @generated(arrays("float64", ndim=(1, 3), sides=(1, 3), layouts=("C", "strided")), st.booleans(), examples=5)
    def test_gradient(self, x, inverse):
        y = np.argsort(np.random.RandomState(x.size).rand(2, x.shape[-1]), axis=-1)
        self.permuted.check_gradient(x[..., :1, :] if x.ndim > 1 else x, y, np.int8(inverse), wrt=[0])


class TestDiagonals(unittest.TestCase):
    extract = Compared(
        lambda x, k, a, b: [ExtractDiag(k, a, b)(x), ExtractDiag(k, a, b, view=True)(x), tensor.diagonal(x, k, a, b)],
        lambda x, k, a, b: [np.diagonal(x, k, a, b)] * 3,
    )
    alloc = Compared(lambda x, k, a, b: AllocDiag(k, a, b)(x), lambda x, k, a, b: TestDiagonals.planes(x, k, a, b))
    banded = Compared(
        lambda n, m, k, dtype: [Eye(dtype)(n, m, k), Tri(dtype)(n, m, k)],
        lambda n, m, k, dtype: [f(max(n, 0), max(m, 0), int(k), dtype) for f in (np.eye, np.tri)],
    )
    triangles = Compared(
        lambda x, k: [tensor.tril(x, k), tensor.triu(x, k), tensor.identity_like(x)],
        lambda x, k: [np.tril(x, k), np.triu(x, k), np.eye(*x.shape, dtype=x.dtype)],
    )

    @staticmethod
    def planes(x, k, a, b):
        """Return the result of AllocDiag by its definition: the tensor of zeros whose diagonals are x."""
        side = x.shape[-1] + abs(k)
        shape = list(x.shape[:-1])
        for axis in sorted(i % (x.ndim + 1) for i in (a, b)):
            shape.insert(axis, side)
        result = np.zeros(shape, x.dtype)
        view = np.diagonal(result, k, a, b)
        view.flags.writeable = True
        view[...] = x
        return result

    @generated(arrays(SOME, ndim=(2, 3)), st.integers(-5, 5), st.data())
    def test_extract(self, x, k, data):
        a, b = data.draw(st.permutations(range(x.ndim)))[:2]
        self.extract.check(x, k=k, a=a - data.draw(st.sampled_from([0, x.ndim])), b=b)

    @generated(arrays(SOME, ndim=(1, 4)), st.integers(-3, 3), st.data())
    def test_alloc(self, x, k, data):
        a, b = data.draw(st.permutations(range(x.ndim + 1)))[:2]
        self.alloc.check(x, k=k, a=a, b=b - data.draw(st.sampled_from([0, x.ndim + 1])))

    @generated(st.integers(-1, 20), st.integers(-1, 20), st.integers(-22, 22), st.sampled_from(ALL_DTYPES))
    def test_eye_tri(self, n, m, k, dtype):
        self.banded.check(np.int64(n), np.int32(m), np.int8(k), dtype=dtype)

    @generated(arrays(REALS, ndim=2, contents=("nonfinite",)), st.integers(-5, 5))
    def test_triangles(self, x, k):
        self.triangles.check(x, k=k)

    @generated(
        arrays("float64", ndim=(2, 3), sides=(1, 4), layouts=("C", "strided")),
        st.integers(-2, 2),
        st.data(),
        examples=6,
    )
    def test_gradients(self, x, k, data):
        a, b = data.draw(st.permutations(range(x.ndim)))[:2]
        if k < x.shape[b] and -k < x.shape[a]:
            self.extract.check_gradient(x, k=k, a=a, b=b)
        self.alloc.check_gradient(x[0], k=k, a=a, b=b)


class TestRanges(unittest.TestCase):
    errors = (ValueError, IndexError, TypeError, ZeroDivisionError, OverflowError)
    arange = Compared(
        lambda *bounds, dtype: tensor.arange(*bounds, dtype=dtype),
        lambda *bounds, dtype: np.arange(*[b.item() for b in bounds], dtype=dtype),
        errors=errors,
    )
    vector = Compared(lambda *xs: tensor.stack(xs), lambda *xs: np.stack(xs))

    @generated(
        st.lists(st.integers(-40, 300), min_size=1, max_size=3),
        st.sampled_from(["int64", "uint8", "uint64"]),
        st.sampled_from(["int64", "int8", "uint64", "float32", "float16"]),
        examples=60,
    )
    def test_integers(self, bounds, dtype, into):
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        self.arange.check(*[np.array(min(max(b, low), high), dtype) for b in bounds], dtype=into)

    @generated(
        st.lists(
            st.sampled_from([0.0, 1.0, 0.1, -0.1, 7.3, -5.0, 30.5, np.nan, np.inf, 1e-320, 2e-320, 1e308]),
            min_size=1,
            max_size=3,
        ),
        st.sampled_from(["float64", "float32", "float16"]),
        examples=80,
    )
    def test_floats(self, bounds, dtype):
        if len(bounds) > 1 and abs(bounds[1] - bounds[0]) > 1e5 * abs(bounds[2] if len(bounds) > 2 else 1.0):
            bounds = [b if b < 1e300 else 12.0 for b in bounds]
        if len(bounds) < 3 or abs(bounds[2]) > 1e-3 or abs(bounds[1] - bounds[0]) < 1e-300:
            with np.errstate(all="ignore"):
                self.arange.check(
                    *[np.array(b, dtype if 1e-5 < abs(b) < 1e4 else "float64") for b in bounds], dtype=dtype
                )

    def test_steps_that_are_too_long(self):
        for bounds in (
            (0.0, 1.0, np.inf),
            (0.0, -1.0, np.inf),
            (1.0, 0.0, -np.inf),
            (0.0, 5e-324, 7.3),
            (0.0, -5e-324, 7.3),
        ):
            self.arange.check(*[np.array(b) for b in bounds], dtype="float64")

    @generated(st.lists(arrays(REALS, ndim=0), min_size=1, max_size=4))
    def test_vectors_of_scalars(self, scalars):
        self.vector.check(*scalars)

    def test_gradient(self):
        self.arange.check_gradient(np.array(0.5), np.array(3.8), np.array(0.7), dtype="float64", wrt=[0, 2])
        self.vector.check_gradient(np.array(0.5), np.array(4.0))


if __name__ == "__main__":
    unittest.main()
