import sys
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.tensor import basic as shaping
from theano_ng.tensor.tests.single_node import check_node, run_node

DTYPES = ("bool", "int8", "uint16", "int64", "float16", "float32", "float64", "complex64", "complex128")


def layouts(dtype):
    """Yield arrays of equal rank in the memory layouts that native code must support."""
    x = np.random.RandomState(3).randint(0, 90, size=(4, 5, 6)).astype(dtype)
    yield from (x, x[::-1, :, ::2], x.T, x[:0], x[1:2], np.asfortranarray(x))


def tensor3(dtype):
    return T.TensorType(dtype, (False,) * 3)("x")


class TestNodes(unittest.TestCase):
    """C and Python code agree with NumPy, for all kinds of memory layouts and dtypes."""

    def test_reshape_flatten(self):
        for dtype in DTYPES:
            x, s = tensor3(dtype), T.ivector()
            flat, full, partial = shaping.Flatten(2)(x), shaping.Reshape(1)(x, s), shaping.Reshape(3)(x, s)
            for v in layouts(dtype):
                check_node(self, flat, {x: v}, v.reshape(v.shape[0], v.shape[1] * v.shape[2]))
                check_node(self, full, {x: v, s: np.array([v.size], "int32")}, v.reshape(v.size))
                if v.size:
                    check_node(
                        self, partial, {x: v, s: np.array([1, v.shape[0], -1], "int32")}, v.reshape(1, v.shape[0], -1)
                    )
        v = np.ones((2, 3))
        z = run_node(T.reshape(x := T.dmatrix(), (3, 2)), {x: v}, "c")[0]
        self.assertTrue(np.shares_memory(z, v))

    def test_reshape_gives_views_where_numpy_does(self):
        """A reshape that splits dimensions, or merges dimensions that follow each other in memory, is a view for any
        strides.
        """
        base = np.arange(4.0 * 6 * 4 * 10).reshape(4, 6, 4, 10)
        arrays = [
            base,
            base[..., ::2],
            base[:, ::2],
            base[::-1],
            base[:, :, 1:3],
            base[..., :1],
            base[:, :1],
            base[2:3],
        ]
        arrays += [base.transpose(order) for order in ((1, 0, 2, 3), (0, 1, 3, 2), (2, 3, 0, 1), (3, 2, 1, 0))]
        arrays += [np.broadcast_to(base[:, :, :1], base.shape), base[:, :, ::-1, ::-1], base[1:, 2:, 3:, 4:]]
        for array in arrays:
            for v in (array, array[0], array[..., 0], array[:, -1], array[0, 0]):
                lengths = v.shape
                shapes = {(v.size,), (1, *lengths), (*lengths, 1)}
                for k, n in enumerate(lengths):
                    shapes.update([(*lengths[:k], n // m, m, *lengths[k + 1 :]) for m in (1, 2, 3) if n % m == 0])
                    if k:
                        shapes.add((*lengths[: k - 1], lengths[k - 1] * n, *lengths[k + 1 :]))
                        shapes.add((*lengths[: k - 1], n, lengths[k - 1], *lengths[k + 1 :]))
                x = T.TensorType("float64", (False,) * v.ndim)()
                for shape in shapes:
                    want, s = v.reshape(shape), T.lvector()
                    (z,) = run_node(T.reshape(x, s, ndim=len(shape)), {x: v, s: np.array(shape)}, "c")
                    np.testing.assert_array_equal(z, want)
                    self.assertEqual(np.shares_memory(z, v), np.shares_memory(want, v), (v.shape, v.strides, shape))

    def test_shapes_that_are_too_long_for_a_message(self):
        """The error message of a reshape truncates a long shape, at any character."""
        x, s = T.dvector(), T.lvector()
        for k in range(19):
            lengths = [-(10**k)] + [-(2**63)] * 63
            for impl in ("c", "py"):
                with self.assertRaisesRegex(ValueError, r"annot reshape .*shape \(12,\)"):
                    run_node(T.reshape(x, s, ndim=64), {x: np.ones(12), s: np.array(lengths)}, impl)

    def test_copies_share_no_memory(self):
        """A copy shares no memory with the input, even if the output cell contains a view of the input."""
        for ndim, dtype in ((1, "float64"), (2, "int8"), (3, "complex64")):
            x = T.TensorType(dtype, (False,) * ndim)()
            copy = theano.compile.deep_copy_op(x)
            memory = np.arange(64).astype(dtype)
            v = memory[:27].reshape(3, 3, 3)[(0,) * (3 - ndim)]
            for before in (v, v[:], memory[1 : 1 + v.size].reshape(v.shape), v.T, v[::-1], np.zeros_like(v), None):
                cells = {x: [v], copy: [before]}
                copy.owner.op.make_thunk(copy.owner, cells, {x: [True], copy: [False]}, [], impl="c")()
                (z,) = cells[copy]
                np.testing.assert_array_equal(z, v)
                np.testing.assert_array_equal(memory, np.arange(64))
                self.assertFalse(np.shares_memory(z, memory))

    def test_flatten_nothing(self):
        x = T.tensor3()
        for mode in (theano.Mode("py", None), theano.Mode("py", "fast_run")):
            f = theano.function([x], [x.flatten(n) for n in (1, 2, 3)], mode=mode)
            for shape in ((0, 3, 2), (2, 0, 3), (0, 0, 4), (2, 3, 0), (2, 3, 4)):
                self.assertEqual(
                    [r.shape for r in f(np.ones(shape))], [(np.prod(shape),), (shape[0], shape[1] * shape[2]), shape]
                )

    def test_join_split(self):
        for dtype in DTYPES:
            x, axis = tensor3(dtype), T.bscalar()
            joined, parts = T.join(axis, x, x, x), shaping.Split(3)(x, axis, [2, 0, 1])
            for v in layouts(dtype):
                for k in (0, 1, -1):
                    at = np.array(k, "int8")
                    check_node(self, joined, {x: v, axis: at}, np.concatenate([v] * 3, k))
            v = next(layouts(dtype))[:3]
            check_node(self, parts[0], {x: v, axis: np.array(0, "int8")}, [v[:2], v[:0], v[2:]])
        a, b = T.fvector(), T.lvector()
        check_node(self, T.join(0, a, b), {a: np.ones(2, "float32"), b: np.arange(3)}, np.array([1, 1, 0, 1, 2.0]))

    def test_join_view(self):
        a, b = T.dvector(), T.dvector()
        z = shaping.Join(view=0)(0, a, b)
        for impl in ("c", "py"):
            v = np.ones(3)
            self.assertIs(run_node(z, {a: v, b: np.zeros(0)}, impl)[0], v)
            self.assertEqual(run_node(z, {a: v, b: np.zeros(2)}, impl)[0].tolist(), [1, 1, 1, 0, 0])

    def test_alloc_tile_permute(self):
        for dtype in DTYPES:
            x, value, n = tensor3(dtype), T.TensorType(dtype, (False, True))(), T.lscalar()
            tiled = shaping.Tile(4)(x, [2, 1, 3, 2])
            for v in layouts(dtype):
                check_node(self, tiled, {x: v}, np.tile(v, (2, 1, 3, 2)))
            for v in (np.arange(5).astype(dtype)[::-1, None], np.zeros((5, 1), dtype)):
                for size in (0, 2):
                    check_node(
                        self,
                        T.alloc(value, n, 5, n),
                        {value: v, n: np.array(size)},
                        np.broadcast_to(v, (size, 5, size)),
                    )
            rows, y = T.TensorType(dtype, (False, False))(), T.lmatrix()
            v = np.arange(12).reshape(3, 4).astype(dtype)
            order = np.array([[1, 0, 3, 2], [3, 2, 1, 0], [1, 2, 3, 0]])
            inverse = np.empty_like(v)
            np.put_along_axis(inverse, order, v, 1)
            check_node(self, T.permute_row_elements(rows, y), {rows: v, y: order}, np.take_along_axis(v, order, 1))
            check_node(self, T.permute_row_elements(rows, y, 1), {rows: v, y: order}, inverse)

    def test_scalars(self):
        for dtype in DTYPES:
            t = T.TensorType(dtype, ())()
            s = shaping.scalar_from_tensor(t)
            for impl in ("c", "py"):
                value = run_node(s, {t: np.array(1, dtype)}, impl)[0]
                self.assertEqual((type(value), value), (np.dtype(dtype).type, 1))
            check_node(self, shaping.tensor_from_scalar(s), {s: value}, np.array(1, dtype))

    def test_errors(self):
        x, s, n, w = T.dmatrix(), T.lvector(), T.lscalar(), T.dmatrix()
        v = np.ones((2, 3))
        for variable, values, kind, text in (
            (
                T.reshape(x, s, ndim=2),
                {x: v, s: np.array([4, 2])},
                ValueError,
                r"Cannot reshape input of shape \(2, 3\) to shape \(4, 2\)",
            ),
            (T.reshape(x, s, ndim=2), {x: v[:, :0], s: np.array([-1, 0])}, ValueError, "Cannot reshape"),
            (T.reshape(x, s, ndim=2), {x: v, s: np.array([6])}, ValueError, "incorrect length 1, should be 2"),
            (T.join(0, x, w), {x: v, w: v.T}, ValueError, "must match exactly"),
            (T.join(n, x, w), {x: v, w: v, n: np.array(2)}, IndexError, "out of bounds"),
            (T.split(x, s, 2)[0], {x: v, s: np.array([1, 2])}, ValueError, "The splits sum to 3, expected 2"),
            (T.split(x, s, 2)[0], {x: v, s: np.array([3, -1])}, ValueError, "negative number of elements"),
            (T.split(x, s, 2)[0], {x: v, s: np.array([2])}, ValueError, "expected 2 split sizes, got 1"),
            (T.alloc(x, n, n), {x: v, n: np.array(2)}, ValueError, "broadcast"),
            (T.alloc(0.0, n), {n: np.array(-1)}, ValueError, "negative dimensions"),
            (T.addbroadcast(x, 1), {x: v}, ValueError, r"supposed to be 1 \(got 3 instead\)"),
        ):
            values = {k: values[k] for k in variable.owner.inputs if k in values}
            for impl in ("c", "py"):
                with self.assertRaisesRegex(kind, text, msg="%s %s" % (variable.owner.op, impl)):
                    run_node(variable, values, impl)
        for call in (lambda: x.reshape(3, 2), lambda: T.reshape(x, n, ndim=2), lambda: x.reshape((3,), ndim=2)):
            with self.assertRaises(ValueError):
                call()
        for axes in ((0, 2), (-3, 0)):
            with self.assertRaisesRegex(IndexError, "swapaxes: axis .* is out of bounds for 2 dimensions"):
                x.swapaxes(*axes)


class TestGraphs(unittest.TestCase):
    """Tests of types, of `infer_shape`, and of compiled functions with several Ops."""

    def test_types_and_names(self):
        x = T.dtensor3("x")
        self.assertEqual(
            [
                str(op)
                for op in (
                    shaping.Reshape(2),
                    shaping.Flatten(2),
                    shaping.Join(),
                    shaping.Split(3),
                    T.alloc,
                    shaping.AllocEmpty("float64"),
                )
            ],
            ["Reshape{2}", "Flatten{2}", "Join", "Split{3}", "Alloc", "AllocEmpty{dtype='float64'}"],
        )
        for axis, text in ((0, "x,0,1,2"), (1, "0,x,1,2"), (3, "0,1,2,x"), (-1, "0,1,2,x")):
            self.assertEqual(str(T.shape_padaxis(x, axis)), "InplaceDimShuffle{%s}.0" % text)
        self.assertRaises(IndexError, T.shape_padaxis, x, 4)
        self.assertEqual(T.shape_padleft(x, 2).broadcastable, (True, True, False, False, False))
        self.assertEqual(T.patternbroadcast(T.dmatrix(), (True, False)).type, T.drow)
        row = T.drow()
        self.assertIs(T.addbroadcast(row, 0), row)
        self.assertEqual(T.unbroadcast(row, 0).type, T.dmatrix)
        self.assertRaises(ValueError, T.addbroadcast, row, 2)
        self.assertEqual(T.reshape(x, (1, -1, 1)).broadcastable, (True, False, True))
        m = T.matrix("m")
        self.assertEqual([m.T.name, m.transpose().name, m.transpose(1, 0).name], ["m.T", "m.T", None])
        self.assertEqual(T.transpose(x, (1, 0, -1)).owner.op.new_order[:2], (1, 0))
        with self.assertRaises(ValueError):
            T.reshape(x, T.lvector())
        with self.assertRaises(TypeError):
            T.concatenate(x)
        with self.assertRaises(TypeError):
            T.join(0, T.dscalar(), T.dscalar())

    def test_documented_stack_concatenate(self):
        a, b, c = T.scalars("abc")
        self.assertEqual(T.stack([a, b, c]).ndim, 1)
        four = np.ones((2, 2, 2, 2))
        y = [T.tensor4() for _ in range(3)]
        for axis, shp in ((0, (3, 2, 2, 2, 2)), (3, (2, 2, 2, 3, 2)), (-2, (2, 2, 2, 3, 2))):
            f = theano.function(y, T.stack(y, axis=axis), mode="FAST_COMPILE", allow_input_downcast=True)
            self.assertEqual(f(four, four, four).shape, shp)
        with self.assertWarns(DeprecationWarning):
            self.assertEqual(T.stack(*y).ndim, 5)
        x, z, v = T.fmatrix(), T.ftensor3(), T.fvector()
        self.assertEqual(T.concatenate([x, z[0], T.shape_padright(v)], axis=1).ndim, 2)
        X = T.stacklists([[a, b], [c, a]])
        f = theano.function([a, b, c], X, mode="FAST_COMPILE", allow_input_downcast=True)
        np.testing.assert_array_equal(f(1, 2, 3), [[1, 2], [3, 1]])

    def test_functions_against_numpy(self):
        rng = np.random.RandomState(0)
        v = rng.rand(3, 4, 2)
        x, k, axis, reps = T.dtensor3("x"), T.iscalar("k"), T.iscalar("axis"), T.ivector("reps")
        cases = [
            (T.roll(x, k), np.roll(v, 3)),
            (T.roll(x, k, 1), np.roll(v, 3, 1)),
            (T.roll(x, -k, axis), np.roll(v, -3, 2)),
            (T.tile(x, 2), np.tile(v, 2)),
            (T.tile(x, (2, 1, 1, 3)), np.tile(v, (2, 1, 1, 3))),
            (T.tile(x, reps, ndim=4), np.tile(v, (2, 1, 3))[None]),
            (T.flatten(x, 2), v.reshape(3, 8)),
            (T.swapaxes(x, 0, 2), v.swapaxes(0, 2)),
            (shaping.rollaxis(x, 2), np.rollaxis(v, 2)),
            (shaping.rollaxis(x, 0, 2), np.rollaxis(v, 0, 2)),
            (shaping.moveaxis(x, 0, -1), np.moveaxis(v, 0, -1)),
            (T.inverse_permutation(T.constant([[2, 0, 1], [0, 2, 1]])), np.array([[1, 2, 0], [0, 2, 1]])),
            (T.vertical_stack(x[0], x[1]), np.vstack([v[0], v[1]])),
            (T.horizontal_stack(x[0], x[1]), np.hstack([v[0], v[1]])),
        ]
        f = theano.function(
            [x, k, axis, reps], [c[0] for c in cases] + [c[0].shape for c in cases], mode="FAST_COMPILE"
        )
        got = f(v, 3, 2, [2, 1, 3])
        for (variable, want), value, shp in zip(cases, got, got[len(cases) :]):
            np.testing.assert_array_equal(value, want, err_msg=str(variable))
            self.assertEqual(tuple(shp), want.shape, variable)

    def test_infer_shape(self):
        """`infer_shape` of each Op returns the lengths of the value that the node computes."""
        x, n, axis, s = T.dtensor3(), T.lscalar(), T.lscalar(), T.lvector()
        v = np.ones((2, 3, 4))
        values = {x: v, n: np.array(3), axis: np.array(1), s: np.array([1, 0, 2])}
        for variable in (
            T.reshape(x, (n, -1)),
            T.reshape(x, (-1, 4)),
            T.reshape(x, [n, 8]),
            T.reshape(x, (6, n + 1)),
            shaping.Flatten(2)(x),
            T.join(1, x, x),
            T.join(axis, x, x),
            shaping.Split(3)(x, 1, s)[2],
            shaping.Split(3)(x, axis, s)[0],
            T.alloc(x, 5, 2, n, 4),
            shaping.AllocEmpty("float64")(n, 2),
            shaping.Tile(4)(x, [2, 1, 2, 3]),
            shaping.permute_row_elements(x, T.constant([0, 1, 2, 3])),
        ):
            node = variable.owner
            shapes = node.op.infer_shape(node, [tuple(T.shape(i)[k] for k in range(i.ndim)) for i in node.inputs])
            sizes = shapes[node.outputs.index(variable)]
            f = theano.function(
                list(values),
                [T.as_tensor_variable(size) for size in sizes] + [variable],
                mode=theano.Mode("vm", None),
                on_unused_input="ignore",
            )
            *sizes, value = f(*values.values())
            self.assertEqual(tuple(int(size) for size in sizes), value.shape, node)

    def test_gradients(self):
        rng = np.random.RandomState(1)
        v, w = rng.rand(2, 3, 4), rng.rand(2, 2, 4)
        for fun, points in (
            (lambda x: T.reshape(x, (4, -1)), [v]),
            (lambda x: shaping.Flatten(2)(x), [v]),
            (lambda x, y: T.join(1, x, y, x), [v, w]),
            (lambda x: T.split(x, [1, 2], 2, axis=1)[1], [v]),
            (lambda x: T.alloc(x, 3, 2, 3, 4), [v]),
            (lambda x: T.tile(x, (2, 1, 2)), [v]),
            (lambda x: shaping.Tile(4)(x, [2, 1, 2, 2]), [v]),
            (lambda x: T.roll(x, 1, 1), [v]),
            (lambda x: T.permute_row_elements(x, np.array([1, 3, 0, 2])), [v]),
            (lambda x: T.alloc(T.addbroadcast(x, 1), 2, 5, 4), [v[:, :1]]),
        ):
            theano.gradient.verify_grad(fun, points, rng=np.random.RandomState(0), mode="FAST_COMPILE")

    def test_rop(self):
        v, e = np.arange(6.0).reshape(2, 3), np.ones((2, 3)) * [1, 2, 3]
        x, d = T.dmatrix(), T.dmatrix()
        variables = [
            T.reshape(x, (3, 2)),
            shaping.Flatten(1)(x),
            T.join(0, x, x),
            T.split(x, [1, 1], 2)[1],
            T.alloc(x, 4, 2, 3),
        ]
        f = theano.function([x, d], [T.Rop(y, x, d) for y in variables], mode="FAST_COMPILE", on_unused_input="ignore")
        for got, want in zip(
            f(v, e), (e.reshape(3, 2), e.ravel(), np.vstack([e, e]), e[1:], np.broadcast_to(e, (4, 2, 3)))
        ):
            np.testing.assert_array_equal(got, want)

    def test_ranges_of_numbers_in_other_byte_orders(self):
        """`arange` accepts limits in any byte order and at any memory address."""
        for dtype in ("float64", "float32", "float16", "int64", "int32", "int8", "uint16"):
            limits = [T.TensorType(dtype, ())(name) for name in ("start", "stop", "step")]
            out = T.arange(*limits)
            given = [np.array(v, dtype) for v in (1, 10, 2)]
            want = np.arange(*given, dtype=out.dtype)
            for k in range(3):
                swapped = given[k].astype(np.dtype(dtype).newbyteorder())
                apart = np.zeros(1 + given[k].itemsize, "int8")[1:].view(dtype).reshape(())
                apart[...] = given[k]
                for value in (swapped, apart):
                    values = {**dict(zip(limits, given)), limits[k]: value}
                    for impl in ("c", "py"):
                        got = run_node(out, {v: values[v] for v in limits}, impl)[0]
                        np.testing.assert_array_equal(got, want, str((dtype, k, value.dtype, impl)))

    def test_dtypes_of_conditions(self):
        """A condition of any dtype is true if it is not zero."""
        x = T.dvector("x")
        for dtype in (
            *"bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split(),
            "complex64",
        ):
            k = T.TensorType(dtype, ())("k")
            checked = T.opt.Assert("zero")(x, k)
            for value in (0, 1, 2, -1, 127, 256, 0.5, 2**31, 2**40):
                try:
                    given = np.array(value).astype(dtype)
                    if given != value:
                        continue
                except (OverflowError, ValueError):
                    continue
                for impl in ("c", "py"):
                    with self.subTest(dtype=dtype, value=value, impl=impl):
                        if value:
                            self.assertEqual(run_node(checked, {x: np.ones(2), k: given}, impl)[0].tolist(), [1, 1])
                        else:
                            with self.assertRaisesRegex(AssertionError, "^zero$"):
                                run_node(checked, {x: np.ones(2), k: given}, impl)

    def test_messages_of_assertions(self):
        """The error message of `Assert` is its whole text, of any length and in any alphabet."""
        x, k = T.dvector("x"), T.lscalar("k")
        for text in (*("abcdefghijklmnopqrstuvwxyz"[:n] * m for n in range(1, 20) for m in (1, 7)), "ä€𝛼" * 9, ""):
            for impl in ("c", "py"):
                with self.assertRaises(AssertionError) as caught:
                    run_node(T.opt.Assert(text)(x, k), {x: np.ones(2), k: np.array(0)}, impl)
                self.assertEqual(str(caught.exception), text)

    def test_assert(self):
        """Rewriting removes constant true conditions of `Assert`. False conditions raise an error.

        The gradient passes through `Assert`.
        """
        x, k = T.dvector("x"), T.lscalar("k")
        said = T.opt.Assert("k has to be 2")
        self.assertEqual(str(said), "Assert{msg='k has to be 2'}")
        for conditions, left in (
            ((1,), 0),
            ((True, np.array(3)), 0),
            ((T.eq(k, 2),), 1),
            ((1, T.eq(k, 2), T.gt(x.shape[0], 0)), 2),
        ):
            f = theano.function([x, k], said(x, *conditions) * 2, mode="FAST_RUN", on_unused_input="ignore")
            kept = [len(node.inputs) - 1 for node in f.maker.fgraph.apply_nodes if isinstance(node.op, T.opt.Assert)]
            self.assertEqual(sum(kept), left)
            self.assertEqual(f(np.ones(2), 2).tolist(), [2, 2])
            if left:
                with self.assertRaisesRegex(AssertionError, "k has to be 2"):
                    f(np.ones(2), 3)
        with self.assertRaisesRegex(AssertionError, "Theano Assert failed!"):
            theano.function([x], T.opt.assert_(x, 0))(np.ones(2))
        mode = theano.compile.get_mode("FAST_RUN").including("local_remove_all_assert")
        self.assertEqual(
            theano.function([x, k], said(x, T.eq(k, 2)), mode=mode, on_unused_input="ignore")(np.ones(1), 3).tolist(),
            [1],
        )
        gradient = T.grad(T.sum(said(x, T.eq(k, 2)) ** 2), x)
        self.assertEqual(theano.function([x, k], gradient)([1.0, 3.0], 2).tolist(), [2, 6])
        # the condition has no gradient
        self.assertRaises(theano.gradient.DisconnectedInputError, T.grad, T.sum(said(x, T.eq(k, 2))), k)

    def test_branches_of_ifelse(self):
        """Branches of ifelse may shape or make tensors.

        Only one branch runs. The result has the shape of this branch, and is not overwritten.
        """
        x, k = T.dmatrix("x"), T.lscalar("k")
        fixed = T.alloc(np.float64(7), 2, 2)
        pairs = (
            (T.reshape(x, (-1, 1)), x),
            (T.join(0, x, x), T.zeros((k, 2))),
            (T.tile(x, (1, 2)), T.eye(k)),
            (x.T, fixed),
            (T.set_subtensor(fixed[0], 1.0), T.roll(x, k, 0)),
        )
        f = theano.function(
            [x, k],
            [
                theano.ifelse.ifelse(T.gt(k, 2), T.unbroadcast(a, *range(2)), T.unbroadcast(b, *range(2)))
                for a, b in pairs
            ]
            + [T.split(x, T.stack([k - k, x.shape[0]]), 2)[1]],
        )
        v = np.arange(6.0).reshape(3, 2)
        for _ in range(2):
            for got, want in zip(
                f(v, 3), (v.reshape(-1, 1), np.vstack([v, v]), np.tile(v, (1, 2)), v.T, [[1, 1], [7, 7]], v)
            ):
                np.testing.assert_array_equal(got, want)
            for got, want in zip(f(v, 1), (v, np.zeros((1, 2)), np.eye(1), np.full((2, 2), 7.0), np.roll(v, 1, 0), v)):
                np.testing.assert_array_equal(got, want)

    @unittest.skipUnless(sys.platform.startswith("linux"), "looks at the memory of the process, in Linux's way")
    def test_zeros_cost_no_memory_before_they_are_used(self):
        import resource

        n = T.lscalar()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for output in (T.zeros((n,), "int8"), T.eye(2, n // 8, dtype="int32")):
            z = theano.function([n], output, mode=theano.Mode("cvm", None))(1 << 31)
            self.assertGreaterEqual(z.nbytes, 1 << 31)
            self.assertEqual(
                [z.flat[0], z.flat[1], z.flat[z.size // 2 + 1], z.flat[-1]], [z.ndim == 2, 0, z.ndim == 2, 0]
            )
            del z
        self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, 1 << 20)  # KiB

    def test_diagonal_views(self):
        """With ``view=True``, C and Python code of `ExtractDiag` return a view of the input.

        By default, the result is a separate array.
        """
        x = T.dmatrix()
        v = np.arange(12.0).reshape(3, 4)
        for impl in ("c", "py"):
            view = run_node(T.ExtractDiag(1, view=True)(x), {x: v}, impl)[0]
            self.assertTrue(np.shares_memory(view, v) and view.flags.writeable)
            self.assertEqual(view.tolist(), [1, 6, 11])
            self.assertFalse(np.shares_memory(run_node(T.ExtractDiag(1)(x), {x: v}, impl)[0], v))
            fixed = v.copy()
            fixed.flags.writeable = False
            self.assertFalse(run_node(T.ExtractDiag(view=True)(x), {x: fixed}, impl)[0].flags.writeable)
            for offset in (-9, 9, 2**70, -(2**70)):
                self.assertEqual(run_node(T.ExtractDiag(offset)(x), {x: v}, impl)[0].shape, (0,))

    def test_layouts_of_joins(self):
        """The result of a join has NumPy's layout.

        It is F-contiguous if all inputs are F-contiguous and none is C-contiguous, else C-contiguous.
        """
        x, y = T.dmatrix(), T.dmatrix()
        c = np.arange(6.0).reshape(2, 3)
        f = np.asfortranarray(c)
        for a, b, fortran in ((f, f, True), (c, f, False), (f, c, False), (c, c, False), (f[:, ::2], f[:, ::2], False)):
            for axis in (0, 1):
                for impl in ("c", "py"):
                    z = run_node(T.join(axis, x, y), {x: a, y: b}, impl)[0]
                    np.testing.assert_array_equal(z, np.concatenate([a, b], axis))
                    self.assertEqual((z.flags.f_contiguous, z.flags.c_contiguous), (fortran, not fortran), (axis, impl))

    def test_alloc_is_not_folded_when_overwritten(self):
        zeros = T.alloc(0.0, 3)
        f = theano.function([], T.set_subtensor(zeros[1:], 2.0))
        self.assertEqual([f().tolist(), f().tolist()], [[0, 2, 2]] * 2)


if __name__ == "__main__":
    unittest.main()
