"""Rules that move indexing towards the inputs, and merge two indexing steps."""

import itertools
import unittest
from unittest import mock

import numpy as np

import theano_ng
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.compile.ops import Rebroadcast
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.optdb import Query
from theano_ng.tensor import inplace
from theano_ng.tensor.opt import merge_two_slices, subtensor
from theano_ng.tensor.opt.shape import ShapeFeature
from theano_ng.tensor.opt.subtensor import _known_element, subtensor_of
from theano_ng.tensor.tests.rewriting import RewriteCase, shown

QUERY = Query(["fast_run"], exclude=["inplace", "fusion", "BlasOpt"])


class TestUseless(RewriteCase):
    query = QUERY

    def test_useless(self):
        x, r, i = T.dmatrix("x"), T.drow("r"), T.iscalar("i")
        for out, expected in [
            (x[:] + 0, "x"),
            (x[0 : x.shape[0], : x.shape[1]] + 0, "x"),
            (x[0, :], "Subtensor{int64}(x, ScalarConstant{0})"),
            (x[1:, 0:], "Subtensor{int64::}(x, ScalarConstant{1})"),
            (x[:, 1:][:], "Subtensor{::, int64::}(x, ScalarConstant{1})"),
            (x[T.arange(x.shape[0])] + 0, "x"),
            (x[: x.shape[1]], None),
            (r[0], "InplaceDimShuffle{1}(r)"),
            (r[-1, :], "InplaceDimShuffle{1}(r)"),
            (r[0:1] + 0, "r"),
            (x[::-1, :], None),
            (x[T.arange(1, x.shape[0])], None),
        ]:
            f = self.check(
                out, expected and expected.replace("ScalarConstant{0}", "0").replace("ScalarConstant{1}", "1")
            )
            if expected is None:
                self.assertIn("ubtensor", shown(f.maker.fgraph))
        c = T.alloc(i, 3, 2)
        self.check(c[:3], "Alloc(i, 3, 2)")
        self.check(T.exp(x)[[0, 1, 2]], None)
        f = theano_ng.function([r, i], r[i])
        self.assertRaises(IndexError, f, np.ones((1, 2)), 1)

    def test_known_elements(self):
        a, b, c = T.dscalars("a", "b", "c")
        vector, x, m = T.stack([a, b, c]), T.dvector("x"), T.dmatrix("m")
        for v, element in (
            (vector[1], b),
            (vector[-3], a),
            (vector[T.lscalar("k")], None),
            (vector[1:][0], None),
            (vector[1:], None),
            (x[0], None),
            (T.exp(x)[0], None),
            (m[0, 0], None),
            (T.exp(a), None),
            (a, None),
        ):
            self.assertIs(_known_element(v), element, v)

    def test_make_vector(self):
        a, b, c = T.dscalars("abc")
        v = T.stack([a, b, c])
        for out, expected in [
            (v[1] + 0, "b"),
            (v[-1] + 0, "c"),
            (v[0:2], "MakeVector{dtype='float64'}(a, b)"),
            (v[::-2], "MakeVector{dtype='float64'}(c, a)"),
            (v[[2, 0]], "MakeVector{dtype='float64'}(c, a)"),
            (v[3:], None),
            (T.stack([a, b])[1:], None),
            (T.cast(v, "float32")[1], "Cast{float32}(b)"),
        ]:
            self.check(out, expected)
        # Slices with unknown fields, and steps of zero, are evaluated at run time.
        n = T.lscalar("n")
        for fields in itertools.product((None, 1, -2, n), repeat=3):
            self.check(v[slice(*fields)], None, {"n": 2})
        for field in (slice(None, None, 0), slice(0, 2, 0), slice(n, None, 0)):
            f = theano_ng.function([a, b, c, n], v[field], mode=Mode("py", QUERY), on_unused_input="ignore")
            self.assertRaisesRegex(ValueError, "slice step cannot be zero", f, 1, 2, 3, 1)
        self.assertRaises(IndexError, theano_ng.function([a, b, c], v[3]), 1, 2, 3)
        # Each vector is stacked from elements of the previous vector. The sum reads one element of each vector, so the
        # rewritten graph contains no vector.
        chain = [v]
        for _ in range(60):
            chain.append(T.stack([chain[-1][2], chain[-1][0], T.exp(chain[-1][1])]))
        f = self.check(sum(w[0] for w in chain), None, {"a": 0.1, "b": -0.3, "c": 0.2})
        self.assertEqual([str(node.op) for node in f.maker.fgraph.apply_nodes if "Elemwise" not in str(node.op)], [])


class TestLift(RewriteCase):
    query = QUERY

    def test_elemwise(self):
        x, y, s, v = T.dmatrix("x"), T.dmatrix("y"), T.dscalar("s"), T.dvector("v")
        i = T.iscalar("i")
        for out, expected in [
            (T.exp(x)[0], "exp(Subtensor{int64}(x, 0))"),
            ((x + s)[1:, ::2], "add(Subtensor{int64::, ::int64}(x, 1, 2), InplaceDimShuffle{x,x}(s))"),
            ((x * y)[:, 1], "mul(Subtensor{::, int64}(x, 1), Subtensor{::, int64}(y, 1))"),
            ((x + s)[1, 2], "add(Subtensor{int64, int64}(x, 1, 2), s)"),
            ((x + v)[1], None),
        ]:
            self.check(out, expected)
        f = theano_ng.function([x, s, i], (x + s)[i : i + 1])
        self.assertEqual(f(np.ones((0, 2)), 1, 0).shape, (0, 2))
        e = T.exp(x)
        f = theano_ng.function([x], [e, e[0]])
        self.assertEqual(sum(isinstance(n.op, T.Elemwise) for n in f.maker.fgraph.apply_nodes), 1)
        f = theano_ng.function([x], T.exp(x)[3], mode="FAST_COMPILE")
        self.assertIn("Subtensor{int64}(x", shown(f.maker.fgraph))
        self.assertRaises(IndexError, f, np.ones((3, 3)))

    def test_rebroadcast(self):
        x = T.dtensor3("x")
        one = {"x": np.ones((1, 3, 1))}
        self.check(Rebroadcast((0, True), (2, True))(x)[:, 1], "Rebroadcast{1,1}(Subtensor{::, int64}(x, 1))", one)
        self.check(Rebroadcast((0, True))(x)[:1], None, one)
        f = theano_ng.function([x], Rebroadcast((0, True))(x)[0])
        self.assertRaises(ValueError, f, np.ones((2, 3, 3)))

    def test_alloc(self):
        s, v, i, n = T.dscalar("s"), T.dvector("v"), T.iscalar("i"), T.lscalar("n")
        self.check(T.alloc(s, 5, n)[1:3], "Alloc(s, 2, n)", {"n": 4})
        self.check(T.alloc(s, 5, n)[2], "Alloc(s, n)", {"n": 4})
        self.check(T.alloc(v, n, v.shape[0])[:, 1], "Alloc(Subtensor{int64}(v, 1), n)", {"n": 0})
        self.check(T.alloc(v, n, 3)[:, 1], "Subtensor{::, int64}(Alloc(v, n, 3), 1)", {"n": 0})
        self.check(T.alloc(s, 5, 3)[-1, 2] + 0, "s")
        self.check(T.alloc(v, 4, 3)[1:, i:], None, {"i": 2})
        self.check(T.alloc(s, n)[i:], None, {"i": -2, "n": 1})
        self.check(T.zeros((n, 2))[::-1, 0:1], None, {"n": 3})
        f = theano_ng.function([s, n], T.alloc(s, n, 2)[3])
        self.assertEqual(f(1, 4).tolist(), [1, 1])
        self.assertRaises(IndexError, f, 1, 3)
        # If an index may be invalid, the graph still checks the index, but does not allocate the array.
        for out, used in (
            (T.alloc(s, n)[i], (s, n, i)),
            (T.alloc(s, n, 2)[i, 1], (s, n, i)),
            (T.alloc(s, 2, n)[:, -2], (s, n)),
            (T.alloc(v, n, v.shape[0])[i], (v, n, i)),
        ):
            f = theano_ng.function(used, out, mode=Mode("py", "fast_run"))
            self.assertFalse([a for a in f.maker.fgraph.apply_nodes if isinstance(a.op, T.Subtensor)])
            given = {s: 3.0, v: [3.0, 3.0], n: 2, i: -2}
            self.assertEqual(np.unique(f(*[given[a] for a in used])).tolist(), [3.0])
            for wrong in ({n: 1, i: 1}, {n: 1, i: -3}):
                self.assertRaises(IndexError, f, *[{**given, **wrong}[a] for a in used])

    def test_alloc_of_length_one(self):
        """An Alloc repeats a dimension that has length 1 at run time, and refuses a wrong length."""
        v, w, n = T.dvector("v"), T.dvector("w"), T.lscalar("n")
        for out, wanted in (
            (T.alloc(v, n)[1], 7),
            (T.alloc(v, n)[1:], [7, 7]),
            (T.alloc(v, n)[::-1], [7, 7, 7]),
            (T.alloc(v, 2, n)[0], [7, 7, 7]),
            (T.alloc(v, 2, n)[:, -1], [7, 7]),
            (T.alloc(v, 2, n)[1, 2], 7),
        ):
            f = theano_ng.function([v, n], out)
            self.assertEqual(f([7], 3).tolist(), wanted)
            self.assertRaises(ValueError, f, [7, 7], 3)
            self.assertRaises(ValueError, f, [7, 7, 7, 7], 3)
        for out in (
            T.alloc(v, 1)[-1],
            T.maximum(T.alloc(v, 1), w),
            T.alloc(T.alloc(v, 1), n),
            T.alloc(T.alloc(v, n), 2),
        ):
            f = theano_ng.function([v, w, n], out, on_unused_input="ignore")
            self.assertEqual(np.unique(f([7], [5], 1)).tolist(), [7])
            self.assertRaises((ValueError, AssertionError), f, [7, 7], [5], 1)

    def test_step_zero_is_an_error_of_the_call(self):
        x, n = T.dvector("x"), T.lscalar("n")
        filled = T.alloc(1.0, n)
        for out in (
            filled[::0],
            T.alloc(x, 2, 3)[::0][::2],
            T.alloc(x, 2, 3)[1:][::0],
            theano_ng.grad(x[::0].sum(), x),
        ):
            with self.subTest(out=out):
                f = theano_ng.function([x, n], out, on_unused_input="ignore", mode=Mode("py", self.query))
                self.assertRaisesRegex(ValueError, "slice step cannot be zero", f, np.ones(3), 3)

    def test_dot(self):
        a, b, v = T.dmatrix("a"), T.dmatrix("b"), T.dvector("v")
        i = T.iscalar("i")
        for out, expected in [
            (T.dot(a, b)[i], "dot(Subtensor{int32}(a, ScalarFromTensor(i)), b)"),
            (T.dot(a, b)[:, 1:], "dot(a, Subtensor{::, int64::}(b, 1))"),
            (T.dot(a, b)[0, 1], "dot(Subtensor{int64}(a, 0), Subtensor{::, int64}(b, 1))"),
            (T.dot(a, v)[1:], "dot(Subtensor{int64::}(a, 1), v)"),
            (T.dot(v, a)[::-1], "dot(v, Subtensor{::, ::int64}(a, -1))"),
        ]:
            self.check(out, expected, {"i": 2})
        self.check(T.dot(a, b)[:0], None, {"a": np.ones((3, 0)), "b": np.ones((0, 2))})

    def test_inc(self):
        x, y, s, i = T.dmatrix("x"), T.dmatrix("y"), T.dscalar("s"), T.iscalar("i")
        self.check(T.set_subtensor(x[:i], y)[:i], None, {"i": 3})
        read = "Subtensor{int32}(x, ScalarFromTensor(i))"
        expected = "IncSubtensor{Set;::}(%s, Subtensor{int64}(y, 0))" % read
        self.check(T.set_subtensor(x[i], y[0])[i], expected, {"i": -1})
        f = theano_ng.function([x, y, i], T.set_subtensor(x[i], y[0])[i])
        self.assertEqual(f(np.ones((2, 3)), np.zeros((1, 1)), 1).tolist(), [0] * 3)
        self.assertRaises(IndexError, f, np.ones((2, 3)), np.zeros((1, 3)), 2)
        self.assertRaises(ValueError, f, np.ones((2, 3)), np.zeros((1, 2)), 1)
        self.check(T.set_subtensor(x[1:], s)[1:], None)
        self.check(T.set_subtensor(x[1:], T.exp(x[1:]))[1:], "exp(Subtensor{int64::}(x, 1))")
        self.check(T.set_subtensor(x[1:], y)[1:], None, {"x": np.ones((3, 2)), "y": np.ones((1, 2))})
        self.check(T.inc_subtensor(x[1:], s)[1:], None)
        self.check(T.set_subtensor(x[1:], s)[0:], None)

    def test_what_was_written_is_read(self):
        i, j = T.iscalar("i"), T.lscalar("j")
        for dtype in ("int8", "float32", "float64", "complex64"):
            x, t, v, s = T.matrix("x", dtype), T.tensor3("t", dtype), T.vector("v", dtype), T.scalar("s", dtype)
            for whole, value, index in (
                (x, v, i),
                (x, v, 1),
                (x, v, (slice(None), -1)),
                (x, s, i),
                (x, s, (i, j)),
                (v, s, i),
                (x, T.exp(x[i]), i),
                (t, v, (i, slice(None), j)),
                (t, x, slice(i, j)),
                (t, s, slice(None, None, -2)),
            ):
                if value.type.dtype != dtype:
                    continue
                with self.subTest(dtype=dtype, value=value, index=index):
                    out = T.set_subtensor(whole[index], value)[index]
                    f = self.check(out, None, {"i": 1, "j": 2})
                    written = [n for n in f.maker.fgraph.apply_nodes if isinstance(n.op, T.IncSubtensor)]
                    # No node writes into the whole tensor; a remaining node writes into the part that is read.
                    self.assertFalse([n for n in written if n.inputs[0].owner is None])
                    numbers = {"i": 7, "j": 2}
                    if any(
                        not isinstance(e, slice) and e is i for e in (index if isinstance(index, tuple) else (index,))
                    ):
                        inputs = f.maker.fgraph.inputs
                        given = [np.full((3,) * v.ndim, numbers.get(v.name, 1), v.dtype) for v in inputs]
                        self.assertRaises(IndexError, f, *given)
        # If the whole tensor is an output anyway, its part is read by a view, which costs less than an assertion.
        x, v = T.dmatrix("x"), T.dvector("v")
        whole = T.set_subtensor(x[i], v)
        f = theano_ng.function([x, v, i], [whole, whole[i]], mode=Mode("py", "fast_run"))
        self.assertEqual(sum(isinstance(n.op, T.Subtensor) for n in f.maker.fgraph.apply_nodes), 1)
        self.assertEqual(sum(isinstance(n.op, T.opt.Assert) for n in f.maker.fgraph.apply_nodes), 0)

    def test_what_overwrites_its_input_is_left(self):
        """Indexing is not moved before an operation that overwrites its input: such an operation must compute all
        elements.
        """
        for op, lifted in ((T.exp, True), (inplace.exp_inplace, False)):
            x = T.dvector("x")
            out = op(x)[1:]
            FunctionGraph([x], [out], clone=False)
            self.assertEqual(bool(subtensor.local_subtensor_lift.transform(out.owner)), lifted)


class TestTakeAlongAxis(RewriteCase):
    query = QUERY

    def test_rule(self):
        """The rule replaces an indexing of rows between two transpositions by an indexing of another axis.

        The rule does the same for increments of rows and in graphs of gradients.
        """
        x, t, i, y = T.dmatrix("x"), T.dtensor3("t"), T.lvector("i"), T.dmatrix("y")
        rows = {"i": [2, 0, -1, 2], "y": np.arange(12.0).reshape(3, 4)}
        for out, expected in [
            (x[:, i], "AdvancedSubtensor(x, slice{None, None, None}, i)"),
            (T.take(t, i, axis=2), "AdvancedSubtensor(t, slice{None, None, None}, slice{None, None, None}, i)"),
            (
                T.inc_subtensor(x[:, i], y),
                "AdvancedIncSubtensor{inplace=False,  set_instead_of_inc=False}(x, y, slice{None, None, None}, i)",
            ),
            (T.set_subtensor(t[:, i], 2.0), None),
            (T.set_subtensor(t[:, :, i], y), None),
            (T.grad((x[:, i] * y).sum(), x), None),
            (T.grad((T.take(t, i, axis=2) ** 2).sum(), t), None),
            (T.grad((T.take(t, i, axis=2) * y).sum(), y), None),
        ]:
            f = self.check(out, expected, rows)
            self.assertNotIn("AdvancedIncSubtensor1", shown(f.maker.fgraph))
        # If the graph also reads x.T[i], then x[:, i] stays a view of x.T[i], and the elements are not indexed twice.
        f = theano_ng.function([x, i], [x[:, i], x.T[i]], mode=Mode("py", QUERY))
        self.assertNotIn("AdvancedSubtensor(", shown(f.maker.fgraph))
        # An indexing of the rows of a transposed tensor is not rewritten.
        self.check(x.T[i], "AdvancedSubtensor1(InplaceDimShuffle{1,0}(x), i)", rows)
        f = theano_ng.function([x, i], T.inc_subtensor(x[:, i], 1.0))
        self.assertRaisesRegex(
            IndexError, "index 3 is out of bounds for axis 1 with size 3", f, np.ones((2, 3)), [0, 3]
        )

    def test_dropped_dimensions(self):
        """A DimShuffle that drops a dimension is not a transposition."""
        u, r, t = [
            T.TensorType("float64", b)(name)
            for name, b in (("u", (True, True)), ("r", (True, False)), ("t", (False, False, True)))
        ]
        i, n, one = T.lvector("i"), T.lscalar("n"), T.TensorType("int64", (True,))("one")
        for out in (
            u[one].dimshuffle(),
            u.T[one].dimshuffle(),
            r[one].dimshuffle(1),
            t[i].dimshuffle(1, 0),
            t.dimshuffle(1, 0, 2)[i].dimshuffle(1, 0),
            T.inc_subtensor(T.zeros_like(t)[i], t).dimshuffle(1, 0),
            T.inc_subtensor(T.alloc(0.0, 3, n, 1)[i], t).dimshuffle(1, 0),
        ):
            self.check(out, None, {"i": [1, 0, 2], "one": [0], "n": 3})


class TestMerge(RewriteCase):
    query = QUERY

    def test_rule(self):
        x, i, j = T.dvector("x"), T.iscalar("i"), T.iscalar("j")
        ten, m = {"x": np.arange(10.0)}, T.dmatrix("m")
        for out, expected in [
            (x[2:][1:5], "Subtensor{int64:int64:}(x, 3, 7)"),
            (x[1:7:2][1:], "Subtensor{int64:int64:int64}(x, 3, 6, 2)"),
            (x[::2][::3], "Subtensor{::int64}(x, 6)"),
            (x[2:][3], "Subtensor{int64}(x, 5)"),
            (x[i:][:], "Subtensor{int32::}(x, ScalarFromTensor(i))"),
            (x[:][i], "Subtensor{int32}(x, ScalarFromTensor(i))"),
            (x[1:4][5:], "Subtensor{int64:int64:}(x, 6, 4)"),
            (m[i][j], "Subtensor{int32, int32}(m, ScalarFromTensor(i), ScalarFromTensor(j))"),
            (m[:, i][0], "Subtensor{int64, int32}(m, 0, ScalarFromTensor(i))"),
            (m[1:, i][0:1], "Subtensor{int64:int64:, int32}(m, 1, 2, ScalarFromTensor(i))"),
            (x[::-1][::-1] + 0, "x"),
            (x[::-1][2:], "Subtensor{int64::int64}(x, -3, -1)"),
            (x[::-1][0], "Subtensor{int64}(x, -1)"),
            (x[1:][:-1], "Subtensor{int64:int64:}(x, 1, -1)"),
            (x[1:-2][2:-3:2], "Subtensor{int64:int64:int64}(x, 3, -5, 2)"),
            (x[1:][-1], None),
            (x[i:][j], None),
            (x[i:][::-1], None),
            (x[:: 2**40][:: 2**40], None),
        ]:
            self.check(out, expected, dict(ten, i=1, j=2))
            if expected is None:
                continue
            # For short vectors, the functions with and without rewriting give the same elements and errors.
            fns = [
                theano_ng.function([x, m, i, j], out, mode=Mode("py", query), on_unused_input="ignore")
                for query in (QUERY, None)
            ]
            for n in (0, 1, 3):
                results = []
                for fn in fns:
                    try:
                        results.append(fn(np.arange(float(n)), np.arange(n * 3.0).reshape(n, 3), 1, 2).tolist())
                    except IndexError:
                        results.append(IndexError)
                self.assertEqual(results[0], results[1], expected)
        c = T.constant(np.arange(7.0)) * T.dscalar("s")
        self.check(c[::-1][2:], None)
        self.check(c[-5:][::-2], None)

    def test_known_lengths(self):
        """Any two successive indices into a dimension of known length are merged.

        An index out of bounds still raises an error.
        """
        fields, rng, plain = [None, 0, 2, -1, -4, 9], np.random.RandomState(5), Mode("py", None)
        slices = [slice(*f) for f in itertools.product(fields, fields, [None, 1, 2, -1, -3])][1:]
        for k in range(120):
            first, second = (slices[i] for i in rng.randint(len(slices), size=2))
            second = second if k % 3 else int(rng.randint(-5, 5))
            out = T.constant(np.arange(7.0))[first][second]
            FunctionGraph([], [out], clone=False).attach_feature(ShapeFeature())
            new = subtensor.local_subtensor_merge.transform(out.owner)
            wanted = _at(np.arange(7.0)[first], second)
            if wanted is None:
                self.assertRaises(IndexError, theano_ng.function([], new[out] if new else out, mode=plain))
                continue
            self.assertEqual(theano_ng.function([], new[out], mode=plain)().tolist(), wanted, (first, second))
            self.assertFalse(new[out].owner and new[out].owner.inputs[0].owner, (first, second))

    def test_chains(self):
        """From the end of a chain, the rule merges all slices after the last slice that cannot be merged."""
        x, k = T.dvector("x"), T.iscalar("k")
        chain = [x]
        for start in (1, 2, k, 3, 4, 5):
            chain.append(chain[-1][start:])
        FunctionGraph([x, k], chain[1:], clone=False)
        self.assertEqual(list(subtensor.local_subtensor_merge.transform(chain[2].owner)), [chain[2]])
        self.assertFalse(subtensor.local_subtensor_merge.transform(chain[4].owner))
        new = subtensor.local_subtensor_merge.transform(chain[6].owner)
        self.assertEqual(list(new), chain[5:])
        for k_value in (0, 2):
            given = dict(zip((x, k), (np.arange(20.0), k_value)))
            for out, replaced in new.items():
                self.assertIs(replaced.owner.inputs[0], chain[3])
                self.assertEqual(replaced.eval(given).tolist(), out.eval(given).tolist())

    def test_a_chain_is_merged_with_few_replacements(self):
        x = T.dvector("x")
        chain = [x]
        for _ in range(30):
            chain.append(chain[-1][1:])
        merges = []
        with mock.patch.object(
            subtensor, "subtensor_of", side_effect=lambda *args: merges.append(args) or subtensor_of(*args)
        ):
            f = theano_ng.function([x], chain[1:], mode=Mode("py", QUERY))
        self.assertLessEqual(len(merges), 60)
        for n, value in enumerate(f(np.arange(40.0)), 1):
            self.assertEqual(value.tolist(), list(range(n, 40)))

    def test_without_lengths(self):
        # If the lengths are not known, the merged slice gives the right elements and errors for every length.
        ends = [None, -4, -2, -1, 0, 1, 3]
        firsts = [slice(*f) for f in itertools.product([None, 1, 3], [None, -1, -3, 2, 5], [None, 2])] + [
            slice(None, None, -1)
        ]
        seconds = [slice(*f) for f in itertools.product(ends, ends, [None, 2, -1, -2])] + [-3, -1, 0, 1, 4]
        merged = 0
        for first, second in itertools.product(firsts, seconds):
            result = subtensor._merged_without_lengths(subtensor.known_index(first), subtensor.known_index(second))
            if result is not None:
                merged += 1
                for length in (0, 1, 2, 3, 4, 6, 9):
                    x = np.arange(length)
                    self.assertEqual(_at(x, result), _at(x[first], second), (first, second, length))
        self.assertGreater(merged, 1000)

    def test_merge_two_slices(self):
        self.assertRaises(ValueError, merge_two_slices, 1, 5, slice(None), 3)
        fields, steps, rng = [None, 0, 2, -1, -4, 7], [None, 1, 2, -1, -3], np.random.RandomState(3)
        names = T.lscalars("a", "b", "c", "d", "e", "f", "n", "m", "k")
        a, b, c, d, e, f, n, m, k = names
        merged = merge_two_slices(slice(a, b, c), n, slice(d, e, f), m)
        at = merge_two_slices(slice(a, b, c), n, k, m)
        symbolic = theano_ng.function(
            names, [T.as_tensor_variable(v) for v in (merged.start, merged.stop, merged.step, at)]
        )
        places = (-4, -3, -1, 0, 1, 4)
        known = theano_ng.function(
            [a, b, c, n, m], [T.as_tensor_variable(merge_two_slices(slice(a, b, c), n, place, m)) for place in places]
        )
        for length in (0, 1, 3, 5):
            x = np.arange(length)
            for first in itertools.product([0, 2, -1, -4, 7], [0, 2, -1, -4, 7], [1, 2, -1, -3]):
                y = x[slice(*first)]
                for place, at in zip(places, known(*first, length, len(y))):
                    self.assertEqual(_at(x, int(at)), _at(y, place), (length, first, place))
            cases = list(itertools.product(fields, fields, steps, fields, fields, steps))
            for index in rng.choice(len(cases), 400, replace=False):
                first, second = slice(*cases[index][:3]), slice(*cases[index][3:])
                y = x[first]
                self.assertEqual(
                    x[merge_two_slices(first, length, second, len(y))].tolist(),
                    y[second].tolist(),
                    (length, first, second),
                )
                for place in (-3, 0, 1, 4):
                    self.assertEqual(
                        _at(x, merge_two_slices(first, length, place, len(y))), _at(y, place), (length, first, place)
                    )
                if None not in cases[index]:
                    start, stop, step, place = symbolic(*cases[index], length, len(y), 1)
                    self.assertEqual(
                        x[int(start) : int(stop) : int(step)].tolist(), y[second].tolist(), (length, first, second)
                    )
                    self.assertEqual(_at(x, int(place)), _at(y, 1))


def _at(x, i):
    if isinstance(i, slice):
        return x[i].tolist()
    return x[i] if -len(x) <= i < len(x) else None


if __name__ == "__main__":
    unittest.main()
