"""Tests that the Ops of typed lists, in Python and in C, give the same results as Python's lists."""

import gc
import pickle
import sys
import unittest
import weakref

import numpy as np
from hypothesis import strategies as st

import theano_ng as theano
from theano_ng import tensor as tt
from theano_ng import typed_list as lists
from theano_ng.compile.sharedvalue import SharedVariable
from theano_ng.gof.null_type import NullType
from theano_ng.gof.type import generic
from theano_ng.gradient import DisconnectedType, NullTypeGradError
from theano_ng.tensor.tests.generated import generated
from theano_ng.tensor.type_other import slicetype
from theano_ng.typed_list import TypedListType

MODES = [theano.Mode("py", None), theano.Mode("vm", None), "DebugMode"]
VECTORS = TypedListType(tt.dvector)


def plain(value):
    """Return nested lists of Python numbers."""
    return [plain(e) for e in value] if isinstance(value, (list, tuple)) else np.asarray(value).tolist()


class ListCase(unittest.TestCase):
    def assert_everywhere(self, inputs, outputs, values, expected):
        """Call a function twice in Python, C and DebugMode. Check the results, and that arguments stay unchanged."""
        for mode in MODES:
            f = theano.function(inputs, outputs, mode=mode, on_unused_input="ignore")
            for _ in range(2):
                before = [plain(v) for v in values if not isinstance(v, slice)]
                self.assertEqual(plain(f(*values)), expected, mode)
                self.assertEqual([plain(v) for v in values if not isinstance(v, slice)], before)

    def assert_fails_everywhere(self, error, text, inputs, output, values, works):
        for mode in MODES[:2]:
            f = theano.function(inputs, output, mode=mode)
            with self.assertRaisesRegex(error, text):
                f(*values)
            f(*works)


class TestDocumented(ListCase):
    def test_example(self):
        tl, v = TypedListType(tt.fvector)(), tt.fvector()
        got = theano.function([tl, v], lists.append(tl, v))([[1, 2, 3], [4, 5]], [2])
        self.assertIs(type(got), list)
        self.assertEqual(
            [(e.dtype, e.tolist()) for e in got], [("float32", [1, 2, 3]), ("float32", [4, 5]), ("float32", [2])]
        )

    def test_methods_and_functions_are_the_same(self):
        x, v, i = VECTORS("x"), tt.dvector("v"), tt.lscalar("i")
        pairs = (
            (x.append(v), lists.append(x, v)),
            (x.extend(x), lists.extend(x, x)),
            (x.insert(i, v), lists.insert(x, i, v)),
            (x.remove(v), lists.remove(x, v)),
            (x.reverse(), lists.reverse(x)),
            (x.count(v), lists.count(x, v)),
            (x.ind(v), lists.index_(x, v)),
            (x[i], lists.getitem(x, i)),
            (x.__len__(), lists.length(x)),
        )
        for method, function in pairs:
            self.assertEqual(method.owner.op, function.owner.op)
            self.assertEqual(method.owner.inputs, function.owner.inputs)
        for op, name in (
            (lists.append, "Append"),
            (lists.getitem, "GetItem"),
            (lists.index_, "Index"),
            (lists.make_list, "MakeList"),
            (lists.Append(True), "Append{inplace}"),
        ):
            self.assertEqual(str(op), name)

    def test_what_python_needs_now_is_refused(self):
        x = VECTORS("x")
        for act in (len, bool, list, lambda x: 3 in x):
            self.assertRaises(TypeError, act, x)


class TestOps(ListCase):
    def setUp(self):
        self.x, self.v, self.i = VECTORS("x"), tt.dvector("v"), tt.lscalar("i")
        self.values = [np.array([1.0, 2.0, 3.0]), np.array([]), np.array([4.0, 5.0]), np.array([])]
        self.model = plain(self.values)

    def test_getitem(self):
        for i in (0, 2, -1, -4):
            self.assert_everywhere([self.x, self.i], self.x[self.i], [self.values, i], self.model[i])
        self.assert_everywhere(
            [self.x], [self.x[np.int8(1)], self.x[-2]], [self.values], [self.model[1], self.model[-2]]
        )
        for i in (4, -5, 2**62, -(2**63)):
            self.assert_fails_everywhere(
                IndexError,
                "index %d of a list of 4" % i,
                [self.x, self.i],
                self.x[self.i],
                [self.values, i],
                [self.values, 0],
            )
        big = tt.scalar(dtype="uint64")
        self.assert_fails_everywhere(
            IndexError, "out of range", [self.x, big], self.x[big], [self.values, 2**64 - 1], [self.values, 3]
        )

    def test_getitem_slices(self):
        i, s = self.i, slicetype("s")
        for symbolic, python in (
            (slice(1, None), slice(1, None)),
            (slice(None, None, -1), slice(None, None, -1)),
            (slice(i, None), slice(2, None)),
            (slice(-1, None, -i), slice(-1, None, -2)),
            (slice(9, 2), slice(9, 2)),
        ):
            self.assert_everywhere([self.x, i], self.x[symbolic], [self.values, 2], self.model[python])
        self.assert_everywhere([self.x, s], self.x[s], [self.values, slice(0, 3, 2)], self.model[0:3:2])
        self.assert_fails_everywhere(ValueError, "zero", [self.x, i], self.x[::i], [self.values, 0], [self.values, 1])

    def test_a_slice_is_a_list_of_its_own(self):
        x = self.x
        f = theano.function([x, self.v], [x[:2].append(self.v), x])
        self.assertEqual(plain(f(self.values, [7.0])), [self.model[:2] + [[7.0]], self.model])

    def test_changes(self):
        x, v, i, w = self.x, self.v, self.i, [9.0, 8.0]

        def changed(method, *arguments):
            copy = list(self.model)
            getattr(copy, method)(*arguments)
            return copy

        self.assert_everywhere([x, v], x.append(v), [self.values, w], changed("append", w))
        self.assert_everywhere([x], x.reverse(), [self.values], changed("reverse"))
        self.assert_everywhere([x], x.extend(x), [self.values], self.model * 2)
        self.assert_everywhere([x, v], x.remove(v), [self.values, [4.0, 5.0]], changed("remove", [4.0, 5.0]))
        self.assert_everywhere([x, v], x.remove(v), [self.values, []], changed("remove", []))
        for at in (0, 2, 4, 9, -1, -4, -9, 2**63 - 1, -(2**63)):
            self.assert_everywhere([x, i, v], x.insert(i, v), [self.values, at, w], changed("insert", at, w))
        for length in (0, 1):
            self.assert_everywhere(
                [x, v],
                [x.append(v), x.reverse(), x.extend(x), x.insert(3, v)],
                [self.values[:length], w],
                [self.model[:length] + [w], self.model[:length], self.model[:length] * 2, self.model[:length] + [w]],
            )

    def test_questions(self):
        x, v = self.x, self.v
        outputs = [lists.length(x), x.count(v), x.ind(v)]
        self.assertEqual([o.type for o in outputs], [tt.lscalar] * 3)
        self.assert_everywhere([x, v], outputs, [self.values, []], [4, 2, 1])
        self.assert_everywhere([x, v], outputs[:2], [self.values, [1.0, 2.0]], [4, 0])
        self.assert_everywhere([x, v], outputs[:2], [[], [1.0, 2.0]], [0, 0])
        for op in (lists.index_, lists.remove):
            self.assert_fails_everywhere(
                ValueError, r"of 4 elements\) equals", [x, v], op(x, v), [self.values, [7.0]], [self.values, []]
            )

    def test_questions_about_each_element(self):
        """An element is counted, found and removed at any position, however often it occurs."""
        x, v = self.x, self.v
        for values in ([[0.0], [1.0], [2.0], [3.0]], [[0.0], [1.0], [0.0], [1.0]], [[5.0]]):
            for value in values:
                found = [values.count(value), values.index(value)]
                self.assert_everywhere([x, v], [x.count(v), x.ind(v)], [values, value], found)
                left = list(values)
                left.remove(value)
                self.assert_everywhere([x, v], [x.remove(v)], [values, value], [left])

    def test_make_list(self):
        v, w = self.v, tt.dvector()
        self.assert_everywhere([v, w], lists.make_list([v, w, v]), [[1.0], [2.0, 3.0]], [[1.0], [2.0, 3.0], [1.0]])
        self.assert_everywhere([v], lists.make_list((v, np.array([3.0]))), [[1.0]], [[1.0], [3.0]])
        node = lists.make_list([v, w]).owner
        self.assertEqual(node.clone_with_new_inputs([w, v], strict=False).inputs, [w, v])
        x = lists.make_list([self.x, self.x])
        self.assertEqual(x.type, TypedListType(tt.dvector, 1))
        self.assert_everywhere([self.x], [x, x[1][2]], [self.values], [[self.model] * 2, self.model[2]])

    def test_nested_lists(self):
        t = TypedListType(tt.lmatrix, 1)
        x, e = t(), TypedListType(tt.lmatrix)()
        value, element = [[[[1, 2]]], [], [[[3], [4]], [[5]]]], [[[3], [4]], [[5]]]
        self.assert_everywhere(
            [x, e],
            [x.count(e), x.ind(e), x.remove(e), x.append(e), x.reverse(), x[2][0]],
            [t.filter(value), element],
            [1, 2, value[:2], value + [element], value[::-1], value[2][0]],
        )

    def test_other_elements(self):
        # C code also supports elements of any Type, but can compare only arrays.
        x, e = TypedListType(generic)(), generic()
        f = theano.function([x, e], [x.append(e), x.count(e), x.ind(e), x.reverse(), lists.make_list([e, e])])
        thing = {"a": [1]}
        got = f([1, thing], thing)
        self.assertEqual(got, [[1, thing, thing], 1, 1, [thing, 1], [thing, thing]])
        self.assertIsNot(got[0][1], thing)
        numbers = TypedListType(theano.scalar.int32)()
        f = theano.function(
            [numbers], [numbers[1] + 1, lists.length(numbers), numbers.count(theano.scalar.constant(2, dtype="int32"))]
        )
        self.assertEqual(f([1, 2]), [3, 2, 1])


class TestEquality(ListCase):
    """Elements are equal if shape and all values are equal; NaN equals NaN, and zeros of both signs are equal."""

    def test_every_dtype_and_layout(self):
        for dtype in ("bool", "int8", "uint64", "float16", "float32", "float64", "complex64", "complex128"):
            t = TypedListType(tt.TensorType(dtype, (False, False)))
            x, e = t(), t.ttype()
            base = np.arange(6).reshape(2, 3) % 2 if dtype == "bool" else np.arange(6).reshape(2, 3)
            base = base.astype(dtype)
            other = base.copy()
            other[1, 2] = 0
            values = [other, base[:1], np.asfortranarray(base), base[::-1][::-1], base.T, base.copy()]
            if base.dtype.kind in "fc":
                odd = base.copy()
                odd[0, 0], odd[1, 1] = -0.0, np.nan
                values += [odd, np.where(np.isnan(odd), odd, odd + 0)]
                expected = [t.ttype.values_eq(v, odd) for v in values]
                self.assertEqual(expected, [False] * 6 + [True] * 2)
                for mode in MODES[:2]:
                    self.assertEqual(theano.function([x, e], [x.count(e), x.ind(e)], mode=mode)(values, odd), [2, 6])
            for mode in MODES[:2]:
                f = theano.function([x, e], [x.count(e), x.ind(e)], mode=mode)
                self.assertEqual(f(values, base), [3, 2], (dtype, mode))
                self.assertEqual(f([base[:0], base[:, :0]], base[:, :0]), [1, 1])

    def test_half_and_complex_specials(self):
        half = np.array([0x0000, 0x8000, 0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x0001, 0x8001], "uint16").view("float16")
        nan = np.nan
        pairs = np.array(
            [
                complex(0.0, -0.0),
                complex(-0.0, 0.0),
                complex(nan, 1),
                complex(2, nan),
                complex(np.inf, 1),
                complex(1, np.inf),
            ]
        )
        for numbers in (half, pairs, pairs.astype("complex64")):
            t = TypedListType(tt.TensorType(str(numbers.dtype), ()))
            x, e = t(), t.ttype()
            f = theano.function([x, e], x.count(e), mode=MODES[1])
            values = [np.asarray(n) for n in numbers]
            for n in values:
                self.assertEqual(f(values, n), sum(t.ttype.values_eq(n, m) for m in values))


class TestInplace(ListCase):
    def inplace_nodes(self, f):
        return sorted(str(n.op) for n in f.maker.fgraph.apply_nodes if getattr(n.op, "inplace", False))

    def test_equality_of_ops(self):
        for cls in (lists.Append, lists.Extend, lists.Insert, lists.Remove, lists.Reverse):
            self.assertEqual((cls(True), hash(cls(True))), (cls(inplace=True), hash(cls(True))))
            self.assertNotEqual(cls(True), cls())
            self.assertEqual(cls(True).destroy_map, {0: [0]})
            self.assertFalse(getattr(cls(), "destroy_map", None))

    def test_each_op_in_place(self):
        x, v, i = VECTORS(), tt.dvector(), tt.lscalar()
        value = [np.array([1.0]), np.array([2.0, 3.0])]
        for mode in (theano.Mode("py", None), theano.Mode("vm", None)):
            for op, arguments, values, expected in (
                (lists.Append, [v], [[7.0]], [[1.0], [2.0, 3.0], [7.0]]),
                (lists.Insert, [i, v], [-1, [7.0]], [[1.0], [7.0], [2.0, 3.0]]),
                (lists.Remove, [v], [[1.0]], [[2.0, 3.0]]),
                (lists.Reverse, [], [], [[2.0, 3.0], [1.0]]),
            ):
                f = theano.function(
                    [theano.In(x, mutable=True), *arguments],
                    op(inplace=True)(x, *arguments),
                    mode=mode,
                    accept_inplace=True,
                )
                mine = list(value)
                self.assertIs(f(mine, *values), mine)
                self.assertEqual(plain(mine), expected)
            y = VECTORS()
            f = theano.function(
                [theano.In(x, mutable=True), y], lists.Extend(True)(x, y), mode=mode, accept_inplace=True
            )
            mine, tail = list(value), [np.array([5.0])]
            self.assertEqual(plain(f(mine, tail)), [[1.0], [2.0, 3.0], [5.0]])
            self.assertIsNot(mine[2], tail[0])  # inserted elements are copied
            # Both arguments are the same list, so the function copies the list before the Op changes it.
            mine = list(value)
            self.assertEqual(plain(f(mine, mine)), [[1.0], [2.0, 3.0]] * 2)

    def test_rewriting(self):
        x, v = VECTORS(), tt.dvector()
        out = x.reverse().append(v).insert(0, v).remove(v).extend(x)
        f = theano.function([x, v], out, mode="FAST_RUN")
        self.assertEqual(
            self.inplace_nodes(f), ["Append{inplace}", "Extend{inplace}", "Insert{inplace}", "Remove{inplace}"]
        )
        value = [np.array([1.0]), np.array([2.0])]
        self.assertEqual(plain(f(value, [3.0])), [[2.0], [1.0], [3.0], [1.0], [2.0]])
        self.assertEqual(plain(value), [[1.0], [2.0]])
        f = theano.function([theano.In(x, mutable=True)], x.reverse(), mode="FAST_RUN")
        self.assertEqual(self.inplace_nodes(f), ["Reverse{inplace}"])
        self.assertIs(f(value), value)
        # Nodes that read the old list or its elements run before the in-place node, or prevent the node from working in
        # place.
        y = x.reverse()
        f = theano.function([x, v], [y[0] * 2, y.append(v)[-1], lists.length(y)], mode="FAST_RUN")
        self.assertEqual(self.inplace_nodes(f), ["Append{inplace}"])
        self.assertEqual(plain(f([[1.0], [2.0]], [5.0])), [[4.0], [5.0], 2])
        f = theano.function([x, v], [y.append(v), y.reverse()], mode="FAST_RUN")
        self.assertEqual(plain(f([[1.0], [2.0]], [5.0])), [[[2.0], [1.0], [5.0]], [[1.0], [2.0]]])

    def test_debugmode_agrees(self):
        x, v, i = VECTORS(), tt.dvector(), tt.lscalar()
        y = x.append(v).reverse().insert(i, v)
        f = theano.function(
            [x, v, i], [y.remove(v), y.extend(y), y[i], y[i:], lists.make_list([v, y[0]])], mode="DebugMode"
        )
        self.assertEqual(
            plain(f([[1.0]], [2.0], 1)),
            [[[2.0], [1.0]], [[2.0], [2.0], [1.0]] * 2, [2.0], [[2.0], [1.0]], [[2.0], [2.0]]],
        )

    def test_one_list_for_two_inputs(self):
        x, y, v = VECTORS(), VECTORS(), tt.dvector()
        f = theano.function(
            [theano.In(x, mutable=True), y, v], [x.append(v), tt.set_subtensor(y[0][0], 5.0), lists.length(y)]
        )
        value = [np.array([1.0])]
        self.assertEqual(plain(f(value, value, [2.0])), [[[1.0], [2.0]], [5.0], 1])
        self.assertEqual(plain(value[0]), [1.0])

    def test_undeclared_work_in_place_is_found(self):
        class Bad(lists.Append):
            def __init__(self):
                super().__init__(True)
                self.destroy_map = {}

        x, v = VECTORS(), tt.dvector()
        f = theano.function([x, v], lists.length(Bad()(x, v)), mode="DebugMode")
        self.assertRaises(
            (theano.compile.debugmode.BadDestroyMap, theano.compile.debugmode.BadViewMap), f, [[1.0]], [2.0]
        )


class TestMemory(unittest.TestCase):
    def test_results_share_nothing_with_arguments(self):
        x, v = VECTORS(), tt.dvector()
        value, element = [np.array([1.0])], np.array([2.0])
        for mode in MODES[:2] + [None]:
            f = theano.function([x, v], [x, x[0], x.append(v), lists.make_list([v]), x[0:]], mode=mode)
            same, first, appended, made, sliced = f(value, element)
            self.assertIsNot(same, value)
            for result in (*same, first, *appended, *made, *sliced):
                result[...] = 9
        self.assertEqual((value[0][0], element[0], len(value)), (1.0, 2.0, 1))
        g = theano.function([theano.In(x, borrow=True)], theano.Out(x[0], borrow=True), mode="FAST_RUN")
        self.assertIs(g(value), value[0])

    def test_no_leaks(self):
        x, v, i = VECTORS(), tt.dvector(), tt.lscalar()
        y = x.append(v)
        f = theano.function(
            [x, v, i],
            [
                y,
                x.insert(i, v),
                x.remove(v),
                x.extend(y),
                x.reverse(),
                x[i],
                x[i:],
                x.count(v),
                x.ind(v),
                lists.make_list([v]),
            ],
            mode=theano.Mode("vm", None),
        )

        class Array(np.ndarray):
            pass

        value, element = [np.ones(2).view(Array), np.arange(3.0).view(Array)], np.arange(3.0).view(Array)

        def once():
            f(value, element, 1)
            for bad in ((value, element + 7, 1), (value, element, 5)):
                self.assertRaises((ValueError, IndexError), f, *bad)

        for _ in range(3):
            once()
        before = sys.getrefcount(value), sys.getrefcount(value[0]), sys.getrefcount(element)
        alive = weakref.ref(value[1])
        for _ in range(20):
            once()
        gc.collect()
        after = sys.getrefcount(value), sys.getrefcount(value[0]), sys.getrefcount(element)
        self.assertEqual(before, after)
        f.free()
        del value
        once = None
        gc.collect()
        f(value := [np.ones(2), np.arange(3.0)], np.arange(3.0), 1)
        gc.collect()
        self.assertIsNone(alive())

    def test_shared_lists_and_updates(self):
        s = SharedVariable(name="s", type=VECTORS, value=[[1.0, 2.0]], strict=False)
        v = tt.dvector()
        f = theano.function([v], lists.length(s), updates=[(s, lists.append(s, v))])
        self.assertEqual(
            [str(n.op) for n in f.maker.fgraph.apply_nodes if isinstance(n.op, lists.Append)], ["Append{inplace}"]
        )
        kept = s.get_value()
        self.assertEqual([int(f([k])) for k in (3, 4)], [1, 2])
        self.assertEqual(plain(s.get_value()), [[1.0, 2.0], [3.0], [4.0]])
        self.assertEqual(plain(kept), [[1.0, 2.0]])
        s.set_value([[5]])
        self.assertEqual(plain(s.get_value()), [[5.0]])
        # A call that fails leaves the state unchanged.
        t = SharedVariable(name="t", type=VECTORS, value=[[1.0]], strict=False)
        g = theano.function([v], updates=[(s, lists.append(s, v)), (t, lists.remove(t, v))])
        for _ in range(2):
            self.assertRaises(ValueError, g, [7.0])
            self.assertEqual((plain(s.get_value()), plain(t.get_value())), ([[5.0]], [[1.0]]))
        g([1.0])
        self.assertEqual((plain(s.get_value()), plain(t.get_value())), ([[5.0], [1.0]], []))

    def test_a_call_that_fails_after_others_leaves_state(self):
        v = tt.dvector()
        for content in ([], [np.zeros(10**5)]):  # small lists and large ones
            s, t = (
                SharedVariable(name=None, type=VECTORS, value=[[1.0], [2.0], *content], strict=False) for _ in range(2)
            )
            for order in ((s, t), (t, s)):
                g = theano.function([v], updates=[(r, lists.remove(r, v)) for r in order])
                s.set_value([[1.0], [2.0], *content])
                t.set_value([[1.0], [3.0], *content])
                g([1.0])
                kept = s.get_value(borrow=True)
                for missing in ([2.0], [3.0]):
                    self.assertRaises(ValueError, g, missing)
                    self.assertEqual((plain(s.get_value())[:1], plain(t.get_value())[:1]), ([[2.0]], [[3.0]]))
                    self.assertEqual((len(s.get_value()), len(t.get_value())), (1 + len(content),) * 2)
                self.assertIs(s.get_value(borrow=True), kept)

    def test_pickling(self):
        x, v = VECTORS("x"), tt.dvector("v")
        c = VECTORS.make_constant([[8.0]])
        f = pickle.loads(pickle.dumps(theano.function([x, v], x.append(v).extend(c))))
        self.assertEqual(plain(f([[1.0]], [2.0])), [[1.0], [2.0], [8.0]])


class TestUse(ListCase):
    """Tests of typed lists in other parts of the package."""

    def setUp(self):
        self.x, self.y, self.v, self.i = VECTORS("x"), VECTORS("y"), tt.dvector("v"), tt.lscalar("i")
        self.value = [np.array([1.0, 2.0]), np.array([3.0])]
        self.longer = [[1.0, 2.0], [3.0], [9.0]]

    def test_linkers(self):
        x, v, i = self.x, self.v, self.i
        out = x.append(v).reverse().insert(i, v).remove(v)
        in_c = ["c"] if theano.config.cxx else []
        for linker in (*in_c, "c&py", "c|py", "vm", "cvm", "py", "vm_nogc", "cvm_nogc"):
            f = theano.function([x, v, i], [out, x[i:], x.count(v)], mode=theano.Mode(linker, "fast_run"))
            for _ in range(2):
                self.assertEqual(plain(f(self.value, [1.0], 1)), [[[1.0], [3.0], [1.0, 2.0]], [[3.0]], 0], linker)

    def test_conditions_and_inner_graphs(self):
        x, y, v, i = self.x, self.y, self.v, self.i
        f = theano.function(
            [i, x, y],
            [theano.ifelse.ifelse(i, x, y.append([9.0])), theano.ifelse.ifelse(i, x[0], y[1])],
            mode="FAST_RUN",
        )
        self.assertEqual(plain(f(1, self.value, [])), [plain(self.value), [1.0, 2.0]])
        self.assertEqual(plain(f(0, [], self.value)), [self.longer, [3.0]])
        for inline in (False, True):
            both = theano.OpFromGraph([x, v], [x.append(v), lists.length(x)], inline=inline)
            self.assertEqual(plain(theano.function([x, v], both(x, v))(self.value, [9.0])), [self.longer, 2])

    def test_replacing_and_evaluating(self):
        x, v = self.x, self.v
        out = x.append(v)
        self.assertEqual(plain(out.eval({x: self.value, v: [9.0]})), self.longer)
        self.assertEqual(
            plain(theano.function([v], out, givens={x: VECTORS.make_constant(self.value)})([9.0])), self.longer
        )
        self.assertEqual(
            plain(theano.function([self.y, v], theano.clone(out, replace={x: self.y}))(self.value, [9.0])), self.longer
        )
        self.assertEqual(plain(theano.function([x, v], [out]).copy()(self.value, [9.0])), [self.longer])

    def test_state_of_a_function(self):
        f = theano.function(
            [self.v, theano.In(self.x, value=self.value, name="x", update=self.x.append(self.v))], lists.length(self.x)
        )
        self.assertEqual([int(f([9.0])), int(f([8.0]))], [2, 3])
        self.assertEqual(plain(f["x"]), self.longer + [[8.0]])

    def test_test_values(self):
        with theano.config.change_flags(compute_test_value="raise"):
            x, v = VECTORS(), tt.dvector()
            x.tag.test_value, v.tag.test_value = self.value, np.array([9.0])
            self.assertEqual(plain(x.append(v).tag.test_value), self.longer)
            x.tag.test_value = [np.ones((2, 2))]
            with self.assertRaisesRegex(TypeError, "element 0 is not a valid value"):
                x.append(v)

    def test_nan_guard(self):
        f = theano.function([self.x, self.v], self.x.append(self.v)[0], mode=theano.compile.nanguardmode.NanGuardMode())
        np.testing.assert_array_equal(f(self.value, [1.0]), [1.0, 2.0])
        with self.assertRaisesRegex(AssertionError, "NaN detected"):
            f([[np.nan]], [1.0])

    def test_printing(self):
        out = self.x.append(self.v)[self.i]
        self.assertEqual(theano.pprint(out), "GetItem(Append(x, v), i)")
        self.assertIn(
            "x [id C] <TypedList <TensorType(float64, vector)>>",
            theano.printing.debugprint(out, file="str", print_type=True),
        )
        with self.assertRaisesRegex(
            IndexError, r"(?s)index 5 of a list of 2.*GetItem\(x, i\).*Inputs types: \[TypedListType\("
        ):
            theano.function([self.x, self.i], self.x[self.i])(self.value, 5)


class TestGenerated(unittest.TestCase):
    """Tests that chains of list operations, rewritten to work in place, give the same results as Python's lists."""

    @generated(
        st.lists(
            st.tuples(
                st.sampled_from(["append", "insert", "extend", "remove", "reverse", "slice"]), st.integers(-4, 4)
            ),
            max_size=7,
        ),
        st.lists(st.integers(0, 3), max_size=4),
        examples=40,
    )
    def test_chains(self, steps, content):
        x, i = VECTORS("x"), tt.lvector("i")
        value = [np.full(k, float(k)) for k in content]
        symbolic, model, everything, models = x, plain(value), [], []
        for n, (name, number) in enumerate(steps):
            element = [float(abs(number))] * abs(number)
            k = i[n]
            variable = tt.alloc(tt.cast(abs(k), "float64"), abs(k))
            if name == "append":
                symbolic, model = symbolic.append(variable), model + [element]
            elif name == "insert":
                symbolic, model = symbolic.insert(k, variable), list(model)
                model.insert(number, element)
            elif name == "extend":
                symbolic, model = symbolic.extend(x[k:]), model + plain(value)[number:]
            elif name == "remove" and element in model:
                symbolic, model = symbolic.remove(variable), list(model)
                model.remove(element)
            elif name == "reverse":
                symbolic, model = symbolic.reverse(), model[::-1]
            elif name == "slice":
                symbolic, model = symbolic[k:], model[number:]
            if number % 2:  # also read an intermediate list
                everything.append(lists.length(symbolic))
                models.append(len(model))
        before = plain(value)
        f = theano.function([x, i], [symbolic, *everything], mode="FAST_RUN", on_unused_input="ignore")
        self.assertEqual(plain(f(value, np.array([k for _, k in steps], "int64"))), [model, *models])
        self.assertEqual(plain(value), before)


class TestErrors(unittest.TestCase):
    def test_wrong_types_say_what_was_given_and_expected(self):
        x, v, m = VECTORS("x"), tt.dvector("v"), tt.dmatrix("m")
        single = TypedListType(tt.fvector)("y")
        element = "must have the type of the list's elements, .*float64, vector.*, got m of type .*matrix"
        for build, text in (
            (lambda: lists.append(x, m), "Append: toAppend " + element),
            (lambda: lists.insert(x, 0, m), "Insert: toInsert " + element),
            (lambda: lists.remove(x, m), "Remove: toRemove " + element),
            (lambda: lists.count(x, m), "Count: elem " + element),
            (lambda: lists.index_(x, m), "Index: elem " + element),
            (lambda: lists.append(x, tt.fvector()), "float32"),
            (lambda: lists.append(x, "text"), "'text' of type str"),
            (lambda: lists.append(v, v), "x must be a typed list .*got v of type"),
            (lambda: lists.length([1]), r"Length: x must be a typed list .*got \[1\] of type list"),
            (lambda: lists.reverse(m), "Reverse"),
            (lambda: lists.extend(x, v), "toAppend must be a typed list"),
            (lambda: lists.extend(x, single), "(?s)both lists must have the same type.*y of type .*float32"),
            (lambda: x[1.5], "position must be an integer scalar or a slice, got 1.5"),
            (lambda: x[v], "got v of type"),
            (lambda: x[None], "got None"),
            (lambda: x["a"], "got 'a'"),
            (lambda: x[1.5:], "integer"),
            (lambda: lists.insert(x, 1.5, v), "Insert: the position must be an integer scalar, got 1.5"),
            (lambda: lists.make_list([]), "make_constant"),
            (lambda: lists.make_list(3), "tuple or list"),
            (lambda: lists.make_list([v, v, m]), "Element 0 is v of type .*element 2 is m of type"),
        ):
            with self.subTest(text), self.assertRaisesRegex(TypeError, text):
                build()

    def test_elements_are_converted_where_nothing_is_lost(self):
        x = TypedListType(tt.dmatrix)()
        f = theano.function([x, r := tt.drow()], [x.append(r), x.append([[1, 2]]), x.count(np.ones((1, 2)))])
        self.assertEqual(plain(f([], [[5.0, 6.0]])), [[[[5.0, 6.0]]], [[[1.0, 2.0]]], 0])

    def test_native_code_survives_what_is_no_list(self):
        x, v = VECTORS(), tt.dvector()
        for output in (
            x[0],
            x.append(v),
            x.insert(0, v),
            x.remove(v),
            x.extend(x),
            x.reverse(),
            x.count(v),
            x.ind(v),
            lists.length(x),
        ):
            f = theano.function([x, v], output, mode=theano.Mode("vm", None), on_unused_input="ignore")
            f.trust_input = True
            with self.assertRaisesRegex(TypeError, "expected a list, got tuple"):
                f((), np.ones(1))
            if output.owner.op.compares:
                with self.assertRaisesRegex(TypeError, "got str and"):
                    f(["a"], np.ones(1))


class TestDerivatives(unittest.TestCase):
    def test_gradients_are_undefined_or_disconnected(self):
        x, v, i = VECTORS("x"), tt.dvector("v"), tt.lscalar("i")
        for output, kinds in (
            (x[i], (NullType, DisconnectedType)),
            (x.append(v), (NullType,) * 2),
            (x.insert(i, v), (NullType, DisconnectedType, NullType)),
            (x.reverse(), (NullType,)),
            (lists.length(x), (DisconnectedType,)),
            (x.count(v), (DisconnectedType,) * 2),
            (x.ind(v), (DisconnectedType,) * 2),
            (lists.make_list([v, v]), (NullType,) * 2),
        ):
            node = output.owner
            got = node.op.grad(node.inputs, [o.type() for o in node.outputs])
            self.assertEqual(tuple(type(g.type) for g in got), kinds)
            self.assertEqual(node.op.connection_pattern(node), [[k is NullType] for k in kinds])

    def test_messages(self):
        x, v = VECTORS("x"), tt.dvector("v")
        with self.assertRaisesRegex(NullTypeGradError, "Gradients are defined for tensors"):
            theano.grad(lists.make_list([v, v * 2])[1].sum(), v)
        # The gradient with respect to a tensor exists, although the cost also depends on a list and its length.
        cost = (x[0] * v).sum() * lists.length(x)
        np.testing.assert_array_equal(theano.function([x, v], theano.grad(cost, v))([[2.0], [3.0]], [5.0]), [4.0])
        with self.assertRaises(theano.gradient.DisconnectedInputError):
            theano.grad(tt.cast(lists.make_list([v]).count(v), "float64"), v)

    def test_r_op(self):
        x, v = VECTORS("x"), tt.dvector("v")
        cost = v * tt.cast(lists.length(x), "float64")
        f = theano.function([x, v], tt.Rop(cost, v, tt.ones_like(v)))
        np.testing.assert_array_equal(f([[1.0], [2.0]], [5.0, 6.0]), [2.0, 2.0])
        with self.assertRaisesRegex(TypeError, "R_op"):
            tt.Rop(lists.make_list([v])[0], v, tt.ones_like(v))


class TestShapes(unittest.TestCase):
    def test_shape_of_elements(self):
        x, i = TypedListType(tt.dmatrix)(), tt.lscalar()
        f = theano.function([x, i], [x[i].shape, x[i:][0].shape[1], lists.length(x).shape])
        got = f([np.ones((2, 3)), np.ones((4, 5))], 1)
        self.assertEqual(plain(got), [[4, 5], 5, []])


if __name__ == "__main__":
    unittest.main()
