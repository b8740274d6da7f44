"""Invalid inputs raise the intended error, which names the node, and do no damage.

Each case calls a function with valid, invalid, and again valid input, and checks a shared variable that the function
updates.
"""

import unittest

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.tensor import extra_ops, nnet
from theano_ng.tensor.shaping import joining

# This many float64 exceed the address space, so the allocation fails even on systems that overcommit memory.
HUGE = 2**45


def repeated(length, dtype="float64", ndim=1, axis=0):
    """Return an array with one element in memory that is repeated `length` times along one axis."""
    shape = [1] * ndim
    shape[axis] = length
    return np.broadcast_to(np.ones((1,) * ndim, dtype), shape)


class BadInput(unittest.TestCase):
    def check(self, name, inputs, outputs, good, bad, errors, text=None, modes=("py", "c", "fast_run")):
        """Check that the function works, refuses the bad input, and works again.

        The message must identify the fault, and the shared state must be unchanged.
        """
        outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
        for mode in modes:
            how = {"py": Mode("py", None), "c": Mode("cvm", None), "fast_run": theano.compile.get_mode("FAST_RUN")}[
                mode
            ]
            state = theano.shared(np.zeros(3), "state")
            # The new state depends on the result, so that the update cannot run before the error.
            used = sum(
                T.cast(o.size, "float64") * 0 + T.cast(T.sum(T.cast(o, "float64")), "float64") * 0 for o in outputs
            )
            f = theano.function(
                inputs, outputs, updates=[(state, state + 1 + used)], mode=how, on_unused_input="ignore"
            )
            with self.subTest(name, mode=mode):
                before = [np.array(v) for v in f(*good)]
                self.assertEqual(state.get_value().tolist(), [1, 1, 1])
                with self.assertRaises(errors) as caught:
                    f(*bad)
                self.judge(str(caught.exception), bad, text)
                self.assertEqual(state.get_value().tolist(), [1, 1, 1])
                for a, b in zip(before, f(*good)):
                    np.testing.assert_array_equal(a, b)
                self.assertEqual(state.get_value().tolist(), [2, 2, 2])

    def judge(self, message, bad, text):
        for part in (
            "Apply node that caused the error",
            "Inputs types",
            "Inputs shapes",
            "Backtrace when the node is created",
        ):
            self.assertIn(part, message)
        if text is not None:
            # Ignore the lines of this file that the message quotes, because they contain `text`, too.
            self.assertRegex(message.partition("Apply node that caused the error")[0], text)


class TestSizes(BadInput):
    """Results that are too large raise MemoryError, or ValueError if NumPy raises it for sizes that no array may have."""

    def test_from_numbers(self):
        n, m, r = T.lscalar("n"), T.lscalar("m"), T.lvector("r")
        x = T.dmatrix("x")
        small = np.arange(6.0).reshape(2, 3)
        too_much = (MemoryError, ValueError)
        for name, output, good, bad in (
            ("zeros", T.zeros((n, 8)), [2, 2], [[HUGE, 0], [2**62, 0], [2**63 - 1, 0]]),
            ("alloc", T.alloc(2.5, n, m), [2, 3], [[HUGE, 1], [2**40, 2**40], [2**32, 2**32]]),
            ("alloc int8", T.alloc(np.int8(1), n, m), [2, 3], [[2**47, 2], [2**62, 2], [2**62, 4]]),
            ("alloc row", T.alloc(x, n, 2, 3), [2, 0], [[HUGE, 0], [2**62, 0]]),
            ("alloc empty", T.AllocEmpty("float64")(n, m) * 0 + 1, [2, 3], [[HUGE, 1], [2**62, 2**62]]),
            ("eye", T.eye(n, m), [2, 3], [[HUGE, 2], [2**40, 2**40], [2**63 - 1, 2**63 - 1]]),
            ("tri", T.tri(n, m, dtype="int8"), [2, 3], [[2**47, 2], [2**62, 2]]),
            ("arange", T.arange(n), [4, 0], [[HUGE, 0], [2**60, 0], [2**63 - 1, 0]]),
            ("arange step", T.arange(-n, n, m), [4, 3], [[2**63 - 1, 1], [2**60, 1]]),
            ("arange float", T.arange(0.0, T.cast(n, "float64")), [4, 0], [[HUGE, 0], [2**62, 0]]),
            ("arange small step", T.arange(0.0, 1.0, 1.0 / T.cast(n, "float64")), [4, 0], [[2**60, 0], [2**63 - 1, 0]]),
            ("repeat", T.repeat(x, n, axis=1), [2, 0], [[HUGE, 0], [2**62, 0]]),
            ("repeat each", extra_ops.RepeatOp(0)(x, T.stack([n, m])), [2, 1], [[2**62, 2**62], [HUGE, 1]]),
            ("tile", T.tile(x, (n, m)), [2, 2], [[HUGE, 1], [2**62, 2], [2**62, 2**62]]),
            ("bartlett", T.bartlett(n), [4, 0], [[HUGE, 0], [2**62, 0]]),
            ("one hot", T.extra_ops.to_one_hot(T.stack([0, 1]), n), [2, 0], [[HUGE, 0]]),
            ("reshape", T.reshape(x, T.stack([n, m])), [3, 2], [[2**62, 4], [2**32, 2**32], [2**63 - 1, -1]]),
        ):
            for sizes in bad:
                self.check(
                    name,
                    [n, m, r, x],
                    output,
                    [*good, [1], small],
                    [*sizes, [1], small],
                    too_much,
                    modes=("py", "c") if sizes is not bad[0] else ("py", "c", "fast_run"),
                )

    def test_from_arrays(self):
        """A result as long as its input is refused if it exceeds memory.

        The inputs repeat a single element, so they need little memory.
        """
        x, y, k, c, r = T.dvector("x"), T.dvector("y"), T.TensorType("int8", (False,))("k"), T.dcol("c"), T.drow("r")
        good = [np.ones(2), np.ones(3), np.ones(2, "int8"), np.ones((2, 1)), np.ones((1, 3))]
        long, longer = repeated(HUGE), repeated(2**62, "int8")
        column, row = repeated(2**24, ndim=2), repeated(2**24, ndim=2, axis=1)
        for name, output, bad in (
            ("elemwise", x * 2.0 + 1, [long, *good[1:]]),
            ("broadcast", c + r, [*good[:3], column, row]),
            ("outer", T.outer(x, y), [repeated(2**24), repeated(2**24), *good[2:]]),
            ("join", T.join(0, x, y), [long, *good[1:]]),
            ("join over the end", T.join(0, k, k), [good[0], good[1], longer, *good[3:]]),
            ("join of dtypes", T.join(0, k, x), [good[0], good[1], longer, *good[3:]]),
            ("stack", T.stack([x, x]), [long, *good[1:]]),
            ("copy", theano.compile.deep_copy_op(x), [long, *good[1:]]),
            ("flatten", T.dot(c, r).flatten(), [*good[:3], column, row]),
            ("split", joining.Split(2)(T.alloc(x, x.shape[0]), 0, T.stack([x.shape[0] - 1, 1])), [long, *good[1:]]),
            ("tile", T.tile(k, 4), [good[0], good[1], longer, *good[3:]]),
            ("set", T.set_subtensor(x[:1], 5.0), [long, *good[1:]]),
            ("cumsum", T.cumsum(x), [long, *good[1:]]),
            ("diag", T.diag(x), [repeated(2**24), *good[1:]]),
            ("take", c[:, T.zeros((3,), "int64")], [*good[:3], repeated(HUGE, ndim=2), good[4]]),
            ("sort", T.sort(x), [long, *good[1:]]),
        ):
            self.check(name, [x, y, k, c, r], output, good, bad, (MemoryError, ValueError), modes=("py", "c"))

    def test_too_many_dimensions(self):
        """Shapes with more dimensions than NumPy supports are refused before they overflow buffers of fixed length."""
        n, x = T.lscalar("n"), T.dvector("x")
        for output in (
            T.alloc(2.5, *[n] * 200),
            T.AllocEmpty("int8")(*[n] * 200),
            T.zeros((n,) * 199 + (2,)),
            T.reshape(x, [n] * 200),
            T.tile(x, [n] * 200),
            T.shape_padleft(x, 200),
            x[(None,) * 200] + 1,
            T.AllocDiag()(T.alloc(x, *[n] * 64)),
        ):
            for linker in ("py", "cvm"):
                with (
                    self.subTest(str(output), linker=linker),
                    self.assertRaisesRegex(ValueError, "(?s)dimension|reshape|integer|larger.*Apply node"),
                ):
                    theano.function([x, n], output, mode=Mode(linker, None), on_unused_input="ignore")(np.ones(1), 1)
        x = T.TensorType("float64", (False,) * 64)("x")
        v = np.arange(8.0).reshape((2, 2, 2) + (1,) * 61)
        f = theano.function(
            [x],
            [T.join(63, x, x), T.tile(x, (2,) + (1,) * 63), x.dimshuffle(*range(63, -1, -1)).flatten(), T.diagonal(x)],
        )
        for got, want in zip(f(v), (np.concatenate([v, v], 63), np.concatenate([v, v]), v.T.ravel(), np.diagonal(v))):
            np.testing.assert_array_equal(got, want)

    def test_shape_graphs_compute(self):
        """Shapes of huge results are computed without allocating the results."""
        n = T.lscalar("n")
        f = theano.function(
            [n],
            [
                T.zeros((n, 3)).shape,
                T.eye(n).shape[0],
                T.tile(T.zeros((n,)), 2).shape,
                T.arange(n).size,
                T.join(0, T.zeros((n,)), T.zeros((n,))).shape[0],
                T.zeros((n, 4)).T.flatten().shape[0],
            ],
            mode="FAST_RUN",
        )
        got = f(2**40)
        self.assertEqual([np.asarray(v).tolist() for v in got], [[2**40, 3], 2**40, [2**41], 2**40, 2**41, 2**42])


class TestShapes(BadInput):
    """Lengths, axes and indices that do not match are refused."""

    def test_shaping(self):
        x, y, v, n, s = T.dmatrix("x"), T.dmatrix("y"), T.dvector("v"), T.lscalar("n"), T.lvector("s")
        a, b = np.arange(6.0).reshape(2, 3), np.ones((2, 3))
        good = [a, b, np.ones(3), 1, [3, 2]]
        col = T.addbroadcast(x[:, :1], 1)
        for name, output, bad, error, text in (
            (
                "reshape",
                T.reshape(x, s, ndim=2),
                [a, b, good[2], 1, [4, 2]],
                ValueError,
                r"Cannot reshape input of shape \(2, 3\) to shape \(4, 2\)",
            ),
            (
                "reshape length",
                T.reshape(x, s, ndim=2),
                [a, b, good[2], 1, [6]],
                ValueError,
                "incorrect length 1, should be 2",
            ),
            ("reshape -2", T.reshape(x, s, ndim=2), [a, b, good[2], 1, [-2, 3]], ValueError, "Cannot reshape"),
            ("reshape -1 -1", T.reshape(x, s, ndim=2), [a, b, good[2], 1, [-1, -1]], ValueError, "Cannot reshape"),
            (
                "join",
                T.join(0, x, y),
                [a, b[:, :2], good[2], 1, [3, 2]],
                ValueError,
                "index 0 has size 3 and the array at index 1 has size 2",
            ),
            ("join axis", T.join(n, x, y), [a, b, good[2], 2, [3, 2]], IndexError, "axis 2 is out of bounds"),
            ("join axis below", T.join(n, x, y), [a, b, good[2], -3, [3, 2]], IndexError, "axis -3 is out of bounds"),
            ("stack", T.stack([x, y]), [a, b.T, good[2], 1, [3, 2]], ValueError, "must match exactly"),
            (
                "split sum",
                joining.Split(2)(v, 0, T.stack([n, s[1]])),
                [a, b, good[2], 5, [3, 2]],
                ValueError,
                "The splits sum to 7, expected 3",
            ),
            (
                "split negative",
                joining.Split(2)(v, 0, T.stack([n, s[1]])),
                [a, b, good[2], -1, [3, 2]],
                ValueError,
                "negative",
            ),
            ("alloc", T.alloc(v, n + 1, 3), [a, b, np.ones(2), 1, [3, 2]], ValueError, "broadcast"),
            ("alloc negative", T.alloc(v, n, 3), [a, b, good[2], -1, [3, 2]], ValueError, "negative dimensions"),
            ("zeros negative", T.zeros((n,)), [a, b, good[2], -2, [3, 2]], ValueError, "negative dimensions"),
            (
                "empty negative",
                T.AllocEmpty("int8")(n) * 0,
                [a, b, good[2], -2, [3, 2]],
                ValueError,
                "negative dimensions",
            ),
            ("tile negative", T.tile(x, (n, 1)), [a, b, good[2], -2, [3, 2]], ValueError, "must not be negative"),
            (
                "addbroadcast",
                T.addbroadcast(x[:n], 0),
                [a, b, good[2], 2, [3, 2]],
                ValueError,
                r"supposed to be 1 \(got 2 instead\)",
            ),
            (
                "specify_shape",
                T.specify_shape(x, s[::-1]),
                [a, b, good[2], 1, [3, 4]],
                AssertionError,
                "dim 0 of input has shape 2, expected 4",
            ),
            (
                "permute",
                T.permute_row_elements(v, T.arange(3) * n),
                [a, b, good[2], 2, [3, 2]],
                IndexError,
                "out of bounds",
            ),
            (
                "permute row",
                T.permute_row_elements(x, T.arange(n + 2)),
                [a, b, good[2], 2, [3, 2]],
                ValueError,
                "has length 3, but the permutations have length 4",
            ),
            ("arange", T.arange(0, 5, n), [a, b, good[2], 0, [3, 2]], ZeroDivisionError, "step must not be zero"),
            ("assert", T.opt.Assert("n is one")(x, T.eq(n, 1)), [a, b, good[2], 2, [3, 2]], AssertionError, "n is one"),
            ("subtract", x - col - y, [a, b[:, :2], good[2], 1, [3, 2]], ValueError, "Input dimension mis-match"),
            ("switch", T.switch(x > 1, x, y), [a, b[:1], good[2], 1, [3, 2]], ValueError, "Input dimension mis-match"),
            ("dot", T.dot(x, v), [a, b, np.ones(2), 1, [3, 2]], ValueError, "[Ss]hapes? "),
            ("index", x[n], [a, b, good[2], 2, [3, 2]], IndexError, "index 2 is out of bounds"),
            ("index below", x[:, n], [a, b, good[2], -4, [3, 2]], IndexError, "index -4 is out of bounds"),
            ("take", x[s - 2], [a, b, good[2], 1, [3, 4]], IndexError, "index"),
            ("set", T.set_subtensor(x[s - 2], 1.0), [a, b, good[2], 1, [3, -4]], IndexError, "index"),
            ("inc", T.inc_subtensor(x[0], v[: n + 2]), [a, b, good[2], 0, [3, 2]], ValueError, None),
            ("max", T.max(v[n:]), [a, b, good[2], 3, [3, 2]], ValueError, None),
            (
                "crossentropy",
                nnet.crossentropy_softmax_1hot_with_bias(x, v, s[:2] - 2)[0],
                [a, b, good[2], 1, [3, 9]],
                ValueError,
                None,
            ),
        ):
            self.check(name, [x, y, v, n, s], output, good, bad, error, text, modes=("py", "c"))

    def test_when_built(self):
        """Errors that follow from the types are raised when the graph is built."""
        x, v, f, c = T.dmatrix("x"), T.dvector("v"), T.dscalar("f"), T.lscalar("c")
        for error, text, build in (
            (ValueError, "incorrect length 2, should be 3", lambda: T.reshape(x, (2, 3), ndim=3)),
            (TypeError, "Shape must be integers", lambda: T.reshape(x, [f, 2])),
            (ValueError, "cannot be automatically determined", lambda: T.reshape(x, T.lvector())),
            (ValueError, "out of bound", lambda: T.flatten(x, 3)),
            (IndexError, r"axis 3 is out of bounds \[-3, 3\)", lambda: T.shape_padaxis(x, 3)),
            (ValueError, "not a permutation", lambda: T.transpose(x, (0, 0))),
            (ValueError, "non-existent dimension", lambda: T.addbroadcast(x, 2)),
            (TypeError, "Rebroadcast needs integer axes. Got 1.5", lambda: T.addbroadcast(x, 1.5)),
            (ValueError, "3 flags given for 2 dimensions", lambda: T.patternbroadcast(x, (True, False, False))),
            (ValueError, "empty list", lambda: joining.Join()(0)),
            (TypeError, "same number of dimensions", lambda: T.join(0, x, v)),
            (TypeError, "dimension 0", lambda: T.join(0, f, f)),
            (IndexError, r"axis 2 out of bounds", lambda: T.join(2, x, x)),
            (TypeError, "integer type", lambda: T.join(f, x, x)),
            (TypeError, "integer vector", lambda: T.split(x, v, 2)),
            (IndexError, "out of bounds", lambda: T.split(x, [1, 1], 2, axis=2)),
            (TypeError, "tuple or a list", lambda: T.concatenate(x)),
            (ValueError, "empty", lambda: T.stack([])),
            (TypeError, "same number of dimensions", lambda: T.stack([x, v])),
            (IndexError, "out of bounds", lambda: T.stack([x, x], axis=4)),
            (TypeError, "must be integers", lambda: T.alloc(x, f, 2)),
            (TypeError, "more dimensions", lambda: T.alloc(x, c)),
            (TypeError, "integer scalar", lambda: T.eye(2.5)),
            (TypeError, "must be a scalar", lambda: T.arange(v)),
            (ValueError, "2 or more dimensions", lambda: T.diagonal(v)),
            (ValueError, "out of range", lambda: T.diagonal(x, 0, 0, 2)),
            (ValueError, "must differ", lambda: T.diagonal(x, 0, 1, -1)),
            (ValueError, "1 or more dimensions", lambda: T.diag(f)),
            (ValueError, "Expected a matrix", lambda: T.tril(v)),
            (IndexError, "out of bounds", lambda: T.roll(x, 1, 2)),
            (ValueError, "integer dtype", lambda: T.tile(x, [f, 1])),
            (ValueError, "specify the ndim", lambda: T.tile(x, T.lvector())),
            (TypeError, "integer dtype", lambda: T.permute_row_elements(x, v)),
            (TypeError, "conditions must be scalars", lambda: T.opt.Assert()(x, v > 0)),
            (TypeError, "Scalar type", lambda: T.tensor_from_scalar(x)),
            (TypeError, "0-d tensor", lambda: T.scalar_from_tensor(v)),
            (TypeError, "slices", lambda: T.mgrid[2, 3]),
            (ValueError, "needs a stop", lambda: T.mgrid[1:]),
            (TypeError, "do not fit", lambda: T.opt.MakeVector("int8")(f)),
        ):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                build()


if __name__ == "__main__":
    unittest.main()
