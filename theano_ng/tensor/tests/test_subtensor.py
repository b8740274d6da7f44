import itertools
import pickle
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.gof import graph
from theano_ng.tensor import subtensor as sub
from theano_ng.tensor.tests.single_node import check_node, run_node

DTYPES = ("bool", "int8", "uint16", "int64", "float16", "float32", "float64", "complex64", "complex128")
ALL = slice(None)
ROWS = np.array([0, 2, 0, -1], "int32")
MASK = np.array([[1, 0, 1, 1, 0], [0] * 5, [1] * 5, [0, 1, 0, 0, 0]], bool)
BASIC = [
    (1,),
    (),
    (slice(None, None, -1),),
    (slice(1, -1), 2),
    (slice(3, 0, -2), ALL, slice(-1, None)),
    (slice(10, 20),),
    (slice(-100, 100, 3), slice(4, None, -3)),
    (ALL, slice(5, 1)),
    (-1, 0, 0),
    (Ellipsis, 1),
    (None, 0, None, ALL, 1),
    (np.int8(2), Ellipsis, slice(None, -7, -1)),
]
ADVANCED = [
    (ROWS,),
    (ALL, np.array([[0, 1], [1, 0]])),
    (ROWS, ALL, np.array([[0], [1]])),
    (slice(1, None), [0, 1], [1, 0]),
    (np.array(0), ALL, [1, 1]),
    (None, ROWS, None, slice(0, 2)),
    (ROWS, None, np.array(1)),
    (ALL, ALL, [2, -1]),
    (np.zeros(0, int),),
    (slice(2, None, -1), ROWS[:3], Ellipsis, 1),
    (MASK,),
    (MASK[:, 0], slice(None, None, -1)),
    (ALL, MASK[0]),
    (MASK[:, 0], ALL, [1]),
    (MASK & False,),
    ([[1, 2], [0, 3]],),
]


def value(dtype="float64", shape=(4, 5, 6)):
    return np.random.RandomState(5).randint(0, 90, size=shape).astype(dtype)


def symbolic(index):
    """Return the index with scalar variables instead of integers, and the values of the variables."""
    values = {}

    def scalar(number):
        if not isinstance(number, (int, np.integer)):
            return number
        variable = T.lscalar() if number % 2 else T.wscalar()
        values[variable] = np.asarray(number, variable.dtype)
        return variable

    converted = tuple(
        slice(scalar(e.start), scalar(e.stop), scalar(e.step)) if isinstance(e, slice) else scalar(e) for e in index
    )
    return converted, values


def with_scalars(variable, values):
    """Return `values` plus the values of the Scalar inputs of the node.

    Each Scalar input has the value of the tensor from which it is converted.
    """
    result = dict(values)
    for inp in variable.owner.inputs:
        if inp.owner is not None and inp.owner.op == T.basic.scalar_from_tensor:
            result[inp] = values[inp.owner.inputs[0]][()]
    return result


class TestNodes(unittest.TestCase):
    """C and Python code of Ops that index tensors agrees with NumPy."""

    def test_basic(self):
        for dtype in DTYPES:
            x = T.TensorType(dtype, (False,) * 3)()
            v = value(dtype)
            for index in BASIC:
                if None in index:
                    continue
                for used, scalars in ((index, {}), symbolic(index)):
                    part = x[used]
                    want = v[index]
                    check_node(self, part, with_scalars(part, {x: v, **scalars}), want)
                    for y in (value(dtype, np.shape(want)), np.ones((), dtype)):
                        for setting in (False, True):
                            result = v.copy()
                            target = result[(*index, Ellipsis) if Ellipsis not in index else index]
                            if setting:
                                result[index] = y
                            elif isinstance(target, np.ndarray):
                                np.add(target, y, out=target)
                            else:
                                result[index] += y
                            yv = T.TensorType(dtype, (False,) * y.ndim)()
                            inc = sub.inc_subtensor(part, yv, set_instead_of_inc=setting)
                            check_node(self, inc, with_scalars(inc, {x: v, yv: y, **scalars}), result)

    def test_advanced(self):
        for dtype in DTYPES:
            x = T.TensorType(dtype, (False,) * 3)()
            for v in (value(dtype), value(dtype, (6, 5, 4)).T):
                for index in ADVANCED:
                    array_index = tuple(np.asarray(e) if isinstance(e, list) else e for e in index)
                    filled = tuple(e for e in array_index if e is not Ellipsis)
                    if Ellipsis in [e for e in array_index if not isinstance(e, np.ndarray)]:
                        filled = array_index[:2] + array_index[3:]
                    masked = any(isinstance(e, np.ndarray) and e.dtype == bool for e in filled)
                    want = v[filled]
                    take = sub.advanced_boolean_subtensor if masked else sub.advanced_subtensor
                    part = take(x, *filled)
                    self.assertEqual(part.ndim, want.ndim, index)
                    check_node(self, part, {x: v}, want)
                    for y in (value(dtype, want.shape), np.ones((), dtype)):
                        for setting in (False, True):
                            result = v.copy()
                            if setting:
                                result[filled] = y
                            else:
                                np.add.at(result, filled, y)
                            yv = T.TensorType(dtype, (False,) * y.ndim)()
                            inc = sub.AdvancedBooleanIncSubtensor if masked else sub.AdvancedIncSubtensor
                            check_node(self, inc(set_instead_of_inc=setting)(x, yv, *filled), {x: v, yv: y}, result)

    def test_rows(self):
        for dtype in DTYPES:
            x, y = T.TensorType(dtype, (False,) * 2)(), T.TensorType(dtype, (False,) * 2)()
            v, w = value(dtype, (4, 6))[::-1, ::2], value(dtype, (4, 3))
            for rows in (ROWS, ROWS[::-1].astype("int8"), ROWS.astype("int64")[::2], ROWS[:0]):
                i = T.TensorType(rows.dtype.name, (False,))()
                part = sub.advanced_subtensor1(x, i)
                check_node(self, part, {x: v, i: rows}, v[rows])
                for setting in (False, True):
                    result = v.copy()
                    if setting:
                        result[rows] = w[: len(rows)]
                    else:
                        np.add.at(result, rows, w[: len(rows)])
                    inc = sub.inc_subtensor(part, y, set_instead_of_inc=setting)
                    check_node(self, inc, {x: v, i: rows, y: w[: len(rows)]}, result)

    def test_many_rows(self):
        """Reads and increments of rows agree with NumPy for numbers of rows near 1024.

        C code moves rows in chunks of 1024, and copies them in blocks of 32 bytes.
        """
        rng = np.random.RandomState(2)
        for n in (8, 1023, 1024, 1025, 2048):
            for width in (1, 3, 5, 9, 17):
                x, y = rng.randint(-9, 9, (7, width)) / 2, rng.randint(-9, 9, (n, width)) / 2
                i = rng.randint(-7, 7, n)
                added = x.copy()
                np.add.at(added, i, y)
                symbols = T.dmatrix(), T.dmatrix(), T.lvector()
                values = dict(zip(symbols, (x, y, i)))
                check_node(self, sub.advanced_subtensor1(symbols[0], symbols[2]), values, x[i])
                check_node(self, sub.advanced_inc_subtensor1(*symbols), values, added)

    def test_inplace_and_aliasing(self):
        x, y = T.dvector(), T.dvector()
        for part in (x[1:], x[T.constant([1, 2])], sub.advanced_subtensor(x, T.constant([1, 2]))):
            for impl in ("c", "py"):
                v = np.array([1.0, 2, 3])
                inc = sub.inc_subtensor(part, y, inplace=True)
                # y shares memory with x, so it must be read before x is written.
                self.assertIs(run_node(inc, {x: v, y: v[:2]}, impl)[0], v)
                self.assertEqual(v.tolist(), [1, 3, 5])
                v.flags.writeable = False
                with self.assertRaises(ValueError):
                    run_node(inc, {x: v, y: np.ones(2)}, impl)

    def test_indices_that_are_overwritten(self):
        """If an index shares memory with the array, a write into the array first reads the whole index."""
        for dtype, n in itertools.product(("int64", "int32", "int16"), (6, 9000)):
            x, i = T.TensorType(dtype, (False,))(), T.TensorType(dtype, (False,))()
            for places in (ALL, slice(None, None, -1), slice(1, None), slice(None, None, 2)):
                for name, part in (("rows", sub.advanced_subtensor1(x, i)), ("any", sub.advanced_subtensor(x, i))):
                    for setting in (False, True):
                        v = np.random.RandomState(3).randint(0, n, n).astype(dtype)
                        want, index = v.copy(), v[places].copy()
                        if setting:
                            want[index] = 5
                        else:
                            np.add.at(want, index, np.array(5, dtype))
                        inc = sub.inc_subtensor(part, np.array(5, dtype), inplace=True, set_instead_of_inc=setting)
                        with self.subTest(name, dtype=dtype, places=places, setting=setting):
                            self.assertIs(run_node(inc, {x: v, i: v[places]}, "c")[0], v)
                            np.testing.assert_array_equal(v, want)

    def test_values_of_every_layout(self):
        """Writes at a three-dimensional index array have NumPy's results for values of every memory layout.

        Depending on the layout, the C code merges all, some or none of the dimensions of the values into one loop.
        """
        rng = np.random.RandomState(3)
        x, index = T.dvector(), T.ltensor3()
        for shape in ((2, 3, 4), (3, 1, 5), (1, 4, 3), (7, 9, 11)):
            i = rng.permutation(1000)[: np.prod(shape)].reshape(shape)
            larger = rng.randint(1, 90, [2 * n for n in shape]).astype("float64")
            a, b, c = shape
            for y in (
                larger[:a, :b, :c],
                larger.ravel()[: a * b * c].reshape(shape),
                larger.ravel()[: 2 * a * b * c].reshape(2 * a, b, c)[::2],
                larger.ravel()[: 2 * a * b * c].reshape(a, 2 * b, c)[:, :b],
                larger.ravel()[: 2 * a * b * c].reshape(a, b, 2 * c)[..., ::2],
                larger.ravel()[: a * b * c].reshape(shape)[::-1],
                larger.ravel()[: a * b * c].reshape(shape)[:, ::-1],
                larger.ravel()[: a * b * c].reshape(c, b, a).T,
                larger[0, :b, :c],
                larger[:a, :1, :c],
                larger[:a, :b, :1],
            ):
                yv = T.TensorType("float64", (False,) * y.ndim)()
                for setting in (False, True):
                    want = np.arange(1000.0)
                    want[i] = y if setting else want[i] + y
                    inc = sub.AdvancedIncSubtensor(set_instead_of_inc=setting)(x, yv, index)
                    got = run_node(inc, {x: np.arange(1000.0), yv: y, index: i}, "c")[0]
                    np.testing.assert_array_equal(got, want, err_msg=str((y.shape, y.strides, setting)))

    def test_dtypes_of_increments(self):
        x, y, z = T.fvector(), T.dvector(), T.zvector()
        v = np.ones(3, "float32")
        check_node(self, T.inc_subtensor(x[1:], y), {x: v, y: np.array([0.5, 2])}, np.array([1, 1.5, 3], "float32"))
        self.assertRaises(TypeError, T.inc_subtensor, x[1:], z)
        self.assertRaises(TypeError, T.inc_subtensor, T.lvector()[1:], y)

    def test_half_precision_sums(self):
        """Increments of every float16 value by other float16 values are rounded as in NumPy."""
        every = np.arange(65536, dtype="uint16").view("float16")
        x, y = T.TensorType("float16", (False,))(), T.TensorType("float16", (False,))()
        inc = T.inc_subtensor(x[:], y)
        with np.errstate(all="ignore"):
            small = np.arange(65536) % 2048 - 1024
            for other in (
                np.full_like(every, 0.3333),
                every[::-1].copy(),
                np.zeros_like(every),
                (small * 2.0**-24).astype("float16"),  # subnormal numbers, also as sums
                np.roll(-every, 1),
                np.roll(-every, 700),
            ):
                got, want = run_node(inc, {x: every, y: other}, "c")[0], every + other
                np.testing.assert_array_equal(got, want)

    def test_errors(self):
        x, i, v, y = T.dmatrix(), T.lscalar(), T.lvector(), T.dvector()
        a = np.ones((3, 3))
        for variable, values, kind, text in (
            (x[3], {x: a}, IndexError, "out of bounds"),
            (x[i], {x: a, i: np.array(-4)}, IndexError, "out of bounds"),
            (x[::i], {x: a, i: np.array(0)}, ValueError, "slice step cannot be zero"),
            (x[v], {x: a, v: np.array([0, 3])}, IndexError, "out of bounds"),
            (x[v, v], {x: a, v: np.array([0, -4])}, IndexError, "out of bounds"),
            (x[v, T.constant([1, 1, 1])], {x: a, v: np.array([0, 1])}, IndexError, "shape mismatch"),
            (x[T.constant(np.ones((2, 3), bool))], {x: a}, IndexError, "boolean index did not match"),
            (T.inc_subtensor(x[1], y), {x: a, y: np.ones(2)}, ValueError, "broadcast"),
            (T.set_subtensor(x[v], y), {x: a, v: np.array([1]), y: np.ones(2)}, ValueError, "broadcast"),
        ):
            for impl in ("c", "py"):
                with self.assertRaisesRegex(kind, text, msg=str(variable.owner.op)):
                    run_node(variable, with_scalars(variable, values), impl)


class Multiplied(sub.IncSubtensor):
    """A subclass of IncSubtensor whose C code multiplies: it overrides one hook and inherits the others."""

    def add_to_zview(self, name, x, fail):
        return """
        {
            PyObject *product = PyNumber_InPlaceMultiply((PyObject *)zview, (PyObject *)%(x)s);
            if (product == NULL) {
                %(fail)s
            }
            Py_DECREF(product);
        }
        """ % dict(x=x, fail=fail)

    def c_code_cache_version(self):
        return (1,)


class Noted(sub.IncSubtensor):
    """An increment with an overridden hook that puts the C code of the base class into parentheses."""

    def copy_into(self, view, source):
        return "(%s)" % super().copy_into(view, source)

    def c_code_cache_version(self):
        return (1,)


class TestHooks(unittest.TestCase):
    """Users' subclasses of IncSubtensor that override one of the methods that make C code."""

    @unittest.skipUnless(theano.config.cxx, "needs a C++ compiler")
    def test_every_basic_index(self):
        x, y, v = T.ftensor3(), T.fscalar(), value("float32")
        for inplace in (False, True):
            outputs, expected, given = [], [], {}
            for index in BASIC:
                if None in index or Ellipsis in index:  # these indices also need other Ops
                    continue
                converted, values = symbolic(index)
                given.update(values)
                node = x[converted or Ellipsis].owner
                if node is None:
                    continue
                for op_class, is_set in ((Multiplied, False), (Noted, False), (Noted, True)):
                    op = op_class(node.op.idx_list, inplace=inplace, set_instead_of_inc=is_set)
                    outputs.append(op(x + 0 if inplace else x, y, *node.inputs[1:]))
                    want = v.copy()
                    want[index] = 7 if is_set else want[index] * 7 if op_class is Multiplied else want[index] + 7
                    expected.append(want)
            self.assertGreater(len(outputs), 20)
            f = theano.function([x, y, *given], outputs, mode=theano.Mode("c", None), accept_inplace=True)
            for got, want in zip(f(v, 7, *given.values()), expected):
                np.testing.assert_array_equal(got, want)

    def test_values_with_dimensions_and_errors(self):
        x, y, i, j = T.fmatrix(), T.fvector(), T.lscalar(), T.lscalar()
        f = theano.function([x, y, i, j], [Noted(x[i:, j].owner.op.idx_list)(x, y, *x[i:, j].owner.inputs[1:])])
        v = value("float32", (4, 5))
        want = v.copy()
        want[1:, -1] += [1, 2, 3]
        np.testing.assert_array_equal(f(v, [1, 2, 3], 1, -1)[0], want)
        want = v[::-1, ::-1].copy()
        want[3:, 0] += 9
        np.testing.assert_array_equal(f(v[::-1, ::-1], [9], 3, 0)[0], want)
        with self.assertRaisesRegex(IndexError, "index 5 is out of bounds for axis 1 with size 5"):
            f(v, [1], 0, 5)
        with self.assertRaisesRegex(ValueError, "broadcast"):
            f(v, [1, 2], 0, 0)
        z = T.fmatrix()

        class Python(Multiplied):
            def do_type_checking(self, node):
                raise NotImplementedError("in Python only")

        node = x[::2].owner
        g = theano.function([z], Python(node.op.idx_list)(z, np.float32(2), *node.inputs[1:]))
        want = v.copy()
        want[::2] += 2
        np.testing.assert_array_equal(g(v), want)
        node = x[1:].owner
        part = Noted(node.op.idx_list, inplace=True)(z, np.float32(2), *node.inputs[1:])
        h = theano.function(
            [theano.In(z, mutable=True, borrow=True)], part, accept_inplace=True, mode="FAST_RUN"
        )  # DebugMode works on copies
        v.flags.writeable = False
        with self.assertRaisesRegex(ValueError, "read-only"):
            h(v)


class TestGraphs(unittest.TestCase):
    def test_getitem_like_numpy(self):
        """Results have NumPy's values, rank and inferred shape for every kind of index."""
        x, v = T.dtensor3(), value()
        cases = [x[index] for index in BASIC + ADVANCED]
        kept = [(c, index) for c, index in zip(cases, BASIC + ADVANCED)]
        f = theano.function([x], cases + [c.shape for c in cases], mode="FAST_COMPILE")
        got = f(v)
        for (variable, index), result, shp in zip(kept, got, got[len(kept) :]):
            want = v[index]
            np.testing.assert_array_equal(result, want, err_msg=str(index))
            self.assertEqual((result.shape, tuple(shp)), (np.shape(want),) * 2, index)
            self.assertEqual(variable.ndim, np.ndim(want))

    def test_symbolic_slices(self):
        """The inferred length and the canonical form of a symbolic slice agree with the slice.

        The fields of the slice have all signs and positions.
        """
        x, a, b, c = T.dvector(), T.lscalar(), T.lscalar(), T.lscalar()
        for variable, fields in (
            (x[a:b:c], "abc"),
            (x[a:b], "ab"),
            (x[b::-1], "b"),
            (x[:b:-2], "-b"),
            (x[a::c], "a-c"),
            (x[:b], "-b-"),
        ):
            node = variable.owner
            (size,) = node.op.infer_shape(node, [(x.shape[0],)] + [()] * 3)[0]
            canonical, direction = sub.get_canonical_form_slice(
                sub.get_idx_list(node.inputs, node.op.idx_list)[0], x.shape[0]
            )
            again = x[canonical][::direction]
            f = theano.function(
                [x, a, b, c], [variable, size, again], mode=theano.Mode("vm", None), on_unused_input="ignore"
            )
            for n in (0, 1, 4):
                v = np.arange(n, dtype="float64")
                for i in (-5, -2, 0, 1, 3, 6):
                    for j in (-6, -1, 0, 2, 5):
                        for k in (-3, -1, 1, 2) if "c" in fields else (1,):
                            want, length, same = f(v, i, j, k)
                            self.assertEqual((length, same.tolist()), (len(want), want.tolist()), (fields, n, i, j, k))

    def test_slices_as_variables(self):
        """Slices can be inputs of advanced indexing, also in functions that run without Python."""
        x, i, rows = T.dmatrix(), T.wscalar(), T.lvector()
        v = value("float64", (4, 5))
        part = sub.make_slice(i, None, -1)
        outputs = [x[rows, i:], x[:i:2, rows], x[rows, 1:3], x[rows, part]]
        for linker in ("c", "cvm", "py") if theano.config.cxx else ("cvm", "py"):
            f = theano.function([x, i, rows], outputs, mode=theano.Mode(linker, None))
            for number in (3, -1):
                expected = [v[[2, 0], number:], v[:number:2, [2, 0]], v[[2, 0], 1:3], v[[2, 0], number::-1]]
                for got, want in zip(f(v, number, [2, 0]), expected):
                    np.testing.assert_array_equal(got, want)

    @unittest.skipUnless(theano.config.cxx, "needs a C++ compiler")
    def test_slices_given_to_c(self):
        x, rows = T.dmatrix(), T.lvector()
        v = value("float64", (4, 5))
        s = sub.make_slice(T.wscalar(), None, -1).type()
        f = theano.function([x, s, rows], x[s, rows], mode=theano.Mode("c", None))
        np.testing.assert_array_equal(f(v, slice(3, None, -2), [1, 1]), v[3::-2, [1, 1]])
        # bypass the type checks of the containers
        for container, given in zip(f.input_storage, (v, "no slice", np.array([1, 1]))):
            container.storage[0] = given
        with self.assertRaisesRegex(TypeError, "expected a slice, not a value of type str"):
            f.fn()

    def test_names_and_printing(self):
        x, i = T.dtensor3("x"), T.wscalar("i")
        for part, text in (
            (x[0], "Subtensor{int64}"),
            (x[:, 1], "Subtensor{::, int64}"),
            (x[1:2:i], "Subtensor{int64:int64:int16}"),
        ):
            self.assertEqual(str(part.owner.op), text)
        self.assertEqual(str(T.set_subtensor(x[:1], 0, inplace=True).owner.op), "IncSubtensor{InplaceSet;:int64:}")
        self.assertEqual(str(T.inc_subtensor(x[1], 0).owner.op), "IncSubtensor{Inc;int64}")
        self.assertEqual(str(x[T.lvector()].owner.op), "AdvancedSubtensor1")
        self.assertEqual(str(sub.advanced_set_subtensor1), "AdvancedIncSubtensor1{no_inplace,set}")
        self.assertEqual(
            str(sub.advanced_inc_subtensor), "AdvancedIncSubtensor{inplace=False,  set_instead_of_inc=False}"
        )
        self.assertEqual(theano.pp(x[i, 2:, ::3]), "x[ScalarFromTensor(i), Constant{2}:, ::Constant{3}]")
        op = x[1:, i].owner.op
        self.assertEqual((op, hash(op)), (pickle.loads(pickle.dumps(op)), hash(x[2:, i].owner.op)))
        self.assertNotEqual(op, x[:1, i].owner.op)

    def test_support_code(self):
        """`inc_code` gives users' Ops the C source code from which the native modules are built."""
        from theano_ng.tensor.inc_code import inc_code

        self.assertIn("static inline inc_row_fn inc_row_for(char kind, int itemsize)", inc_code())

    def test_empty_ellipsis_separates(self):
        """An Ellipsis that stands for no dimension separates index arrays, as in NumPy.

        Increments accept such an index, too.
        """
        x, v = T.dtensor3(), value()
        index = (slice(2, None, -1), ROWS[:3], Ellipsis, 1)
        y = np.arange(9.0).reshape(3, 3)
        want = v.copy()
        np.add.at(want, index, y)
        f = theano.function([x], [x[index], T.inc_subtensor(x[index], T.constant(y))], mode="FAST_COMPILE")
        for got, expected in zip(f(v), (v[index], want)):
            np.testing.assert_array_equal(got, expected)

    def test_refused(self):
        x = T.dmatrix()
        for index in ((0, 0, 0), (Ellipsis, Ellipsis), (np.ones((2, 2, 2), bool),)):
            self.assertRaises(IndexError, lambda: x[index])
        for index in (1.5, True, [True, False], T.dvector(), "a"):
            self.assertRaises((TypeError, IndexError), lambda: x[index])
        self.assertRaises(TypeError, T.set_subtensor, x, 1)
        self.assertRaises(TypeError, T.set_subtensor, x[0], T.dmatrix())
        self.assertRaises(TypeError, T.set_subtensor, T.exp(x), 1)

    def test_increments_through_take(self):
        """Increments accept ``x[index]`` and `take` also if other nodes follow the indexing Op in its graph.

        Such nodes move axes, or reshape the result for a matrix of indices.
        """
        x, rows, pairs = T.dmatrix(), T.lvector(), T.lmatrix()
        v, i, m = value(shape=(4, 5)), np.array([0, 3, 0]), np.array([[1, 0], [1, 3]])
        y = T.dmatrix()
        w = np.arange(12.0).reshape(4, 3)
        z = T.constant(np.arange(20.0).reshape(2, 2, 5))
        f = theano.function(
            [x, rows, pairs, y],
            [
                T.inc_subtensor(x[:, rows], y),
                T.inc_subtensor(x[pairs], z),
                T.inc_subtensor(x[rows], y[:3, 0:1]),
                T.set_subtensor(x[T.gt(x, 50)], -1.0),
                T.inc_subtensor(T.take(x, pairs, axis=1), 1.0),
            ],
            mode="FAST_COMPILE",
        )
        wants = [v.copy() for _ in range(5)]
        np.add.at(wants[0], (ALL, i), w)
        np.add.at(wants[1], m, z.data)
        np.add.at(wants[2], i, w[:3, 0:1])
        wants[3][v > 50] = -1
        np.add.at(wants[4], (ALL, m), 1)
        for got, want in zip(f(v, i, m, w), wants):
            np.testing.assert_array_equal(got, want)

    def test_take_modes(self):
        x, i = T.dmatrix(), T.lmatrix()
        v, m = value(shape=(4, 5)), np.array([[1, -6], [5, 9]])
        f = theano.function(
            [x, i],
            [T.take(x, i, axis, mode) for axis in (None, 0, 1) for mode in ("wrap", "clip")],
            mode="FAST_COMPILE",
        )
        wants = [np.take(v, m, axis, mode=mode) for axis in (None, 0, 1) for mode in ("wrap", "clip")]
        for got, want in zip(f(v, m), wants):
            np.testing.assert_array_equal(got, want)
        self.assertRaises(ValueError, T.take, x, i, 0, "bounce")

    def test_wrapped_indices_of_nothing(self):
        """An index into an empty dimension raises an IndexError. C code must not divide by the length zero."""
        x, i = T.dmatrix(), T.lvector()
        taken = theano.function([x, i], T.take(x, i, 0, "wrap"), mode="FAST_COMPILE")
        one = T.TensorType("int64", (True,))()
        chosen = theano.function([x, one], T.grad(T.choose(one, x, mode="wrap").sum(), x), mode="FAST_COMPILE")
        self.assertEqual(taken(np.zeros((0, 3)), []).shape, (0, 3))
        self.assertRaises(IndexError, taken, np.zeros((0, 3)), [2])
        self.assertEqual(chosen(np.zeros((0, 0)), [2]).shape, (0, 0))

    def test_gradients(self):
        v, y = np.random.RandomState(2).rand(4, 5), np.random.RandomState(3).rand(2, 5)
        i, mask = np.array([1, 1]), MASK[:, :5]
        for fun, points in (
            (lambda x: x[1:, ::-2], [v]),
            (lambda x: x[2, 1], [v]),
            (lambda x: x[i], [v]),
            (lambda x: x[:, i], [v]),
            (lambda x: x[i, [0, 0]], [v]),
            (lambda x: x[mask], [v]),
            (lambda x, y: T.inc_subtensor(x[1:3], y), [v, y]),
            (lambda x, y: T.set_subtensor(x[1:3], y[0]), [v, y]),
            (lambda x, y: T.inc_subtensor(x[i], y), [v, y]),
            (lambda x, y: T.set_subtensor(x[[0, 2]], y), [v, y]),
            (lambda x, y: T.inc_subtensor(x[i, [0, 0]], T.addbroadcast(y[0, 0:1], 0)), [v, y]),
            (lambda x, y: T.set_subtensor(x[mask], y[0, 0]), [v, y]),
        ):
            theano.gradient.verify_grad(fun, points, rng=np.random.RandomState(0), mode="FAST_COMPILE")

    def test_rop(self):
        x, d = T.dmatrix(), T.dmatrix()
        v, e = value(shape=(4, 5)), value(shape=(4, 5)) + 0.5
        i = np.array([1, 1])
        pairs = [
            (x[1:], e[1:]),
            (x[i], e[i]),
            (x[i, i], e[i, i]),
            (T.set_subtensor(x[1:], 0.0), np.vstack([e[:1], e[1:] * 0])),
            (T.inc_subtensor(x[i], 2 * x[:2]), None),
        ]
        want = e.copy()
        np.add.at(want, i, 2 * e[:2])
        f = theano.function([x, d], [T.Rop(y, x, d) for y, _ in pairs], mode="FAST_COMPILE", on_unused_input="ignore")
        for got, (_, expected) in zip(f(v, e), pairs):
            np.testing.assert_array_equal(got, want if expected is None else expected)


if __name__ == "__main__":
    unittest.main()


class TestNewAxes(unittest.TestCase):
    """An increment of ``v[index]`` has the shape of v, also if the index adds axes, or if v is a part of a tensor."""

    INDICES = (
        (ALL, None),
        (None,),
        (None, ALL),
        (None, slice(1, 3)),
        (slice(1, 3), None),
        (Ellipsis, None),
        (0, None),
        (None, 0),
        (None, ROWS[:2]),
    )

    def test_they_have_the_shape_of_what_is_indexed(self):
        parent = value(shape=(4, 5))
        parents = [
            lambda x: x,
            lambda x: x[1:4],
            lambda x: x[1],
            lambda x: x[:, 1],
            lambda x: x[ROWS],
            lambda x: x[ROWS, ROWS],
            lambda x: x[1:].T,
            lambda x: x[:, None, 1:],
            lambda x: x[1:].reshape((5, 3)),
            lambda x: x[MASK[:4]],
        ]
        x = T.dmatrix()
        results, expected = [], []
        for make in parents:
            for index in self.INDICES:
                v, part = make(x), make(parent.copy()).copy()
                for setting in (False, True):
                    whole = part.copy()
                    written = np.arange(whole[index].size).reshape(whole[index].shape) + 50.0
                    if setting:
                        whole[index] = written
                    else:
                        whole[index] += written
                    results.append(T.inc_subtensor(v[index], written, set_instead_of_inc=setting))
                    expected.append(whole)
        for mode in (theano.Mode("py", None), "FAST_RUN"):
            for i, (found, wanted) in enumerate(zip(theano.function([x], results, mode=mode)(parent), expected)):
                np.testing.assert_array_equal(found, wanted, err_msg=str(i))

    def test_what_is_no_index_is_seen_through(self):
        x, parent = T.dmatrix(), value(shape=(4, 5))
        expected = parent.copy()
        expected[1:] += 9
        for part in (x[1:].T, x[1:].reshape((15,)), x[1:].dimshuffle(0, "x", 1)):
            # An increment of a transposed part returns the whole tensor, transposed.
            result = expected.T if part.broadcastable == (False, False) else expected
            np.testing.assert_array_equal(T.inc_subtensor(part, 9).eval({x: parent}), result)


class TestGradientOfRepeatedIndices(unittest.TestCase):
    def test_only_the_last_writer_has_one(self):
        rows, columns = T.lvectors("rows", "columns")
        table = T.lmatrix("table")
        mask = T.TensorType("bool", (False,))("mask")
        taken = {rows: [1, 1, -3, 0], columns: [0, 0, 0, 4], table: [[0, 1], [1, 1]], mask: [0, 1, 0, 0]}
        for index in (
            (rows,),
            (rows, columns),
            (ALL, rows),
            (slice(1, None), rows),
            (rows, None, slice(1, 3)),
            (table,),
            (table, columns[:2]),
            (mask, rows),
            ([0, 0, 2],),
            ([0, -4, 2],),
            ([0, 1, 2], [0, 1, 2]),
            ([[0], [1]], [1, 1]),
        ):
            x, weights = T.dmatrix(), value(shape=(4, 5)) + 1.0
            part = x[index]
            y = T.TensorType("float64", part.broadcastable)()
            variables = {v: np.array(taken[v], v.dtype) for v in graph.inputs([part]) if v in taken}
            f = theano.function([x, y, *variables], T.set_subtensor(part, y), mode="FAST_COMPILE")
            gradient = theano.function(
                [x, y, *variables],
                theano.grad((T.set_subtensor(part, y) * weights).sum(), [x, y]),
                mode="FAST_RUN",
                on_unused_input="ignore",
            )
            given = list(variables.values())
            shape = theano.function([x, *variables], part, mode="FAST_COMPILE")(weights, *given).shape
            # The function is linear in x and y. So its derivative with respect to an element is its value if this
            # element is 1 and all others are 0.
            zero, zeros = np.zeros((4, 5)), np.zeros(shape)
            gx, gy = gradient(zero, zeros, *given)
            for result, at in ((gx, 0), (gy, 1)):
                for place in np.ndindex(result.shape):
                    arguments = [zero.copy(), zeros.copy()]
                    arguments[at][place] = 1
                    self.assertEqual(result[place], (f(*arguments, *given) * weights).sum(), (index, at, place))

    def test_indices_that_are_known_to_differ_cost_nothing(self):
        x, y = T.dmatrices("x", "y")
        for index, more in ((([2, 0],), False), (([-1, 0],), True), ((slice(1, None), [2, 0]), False)):
            gy = theano.grad(T.set_subtensor(x[index], y).sum(), y)
            ops = [type(node.op) for node in graph.io_toposort([x, y], [gy])]
            self.assertEqual(T.ARange in ops, more)
