"""Division and modulus of integers by zero raise errors that name the node and the element, and leave all state
unchanged.
"""

import functools
import itertools
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import scalar
from theano_ng.compile.mode import Mode
from theano_ng.configparser import change_flags
from theano_ng.gof.destroy.failures import fails_on_values
from theano_ng.gof.native import make_native_thunk
from theano_ng.ifelse import ifelse
from theano_ng.tensor import inplace
from theano_ng.tensor.constant import NotScalarConstantError
from theano_ng.tensor.elemwise import Elemwise
from theano_ng.tensor.reductions.careduce import CAReduce
from theano_ng.tensor.reductions.fused import ReducedElemwise

PYTHON, PYTHON_FUSED = Mode("py", "fast_compile"), Mode("py", "fast_run")
FUSED = Mode("cvm", "fast_run")
AS_BUILT = Mode("cvm", None)
DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def notes_zeros(node):
    """Return True if native code checks the divisors of a node for zeros.

    Assert that the parameters and the kernel agree on this check.
    """
    params = node.op.native_code(node).params
    prepared = any(row["divides"] for row in params["operands"]) or params["computed_divisor"] != 0
    assert prepared == ("tng_zeros_" in params["kernel"].source)
    return prepared


class Divides(unittest.TestCase):
    def refused(
        self, f, *arguments, says="integer (division|modulo) by zero: .* is 0. .* use a divisor that is never 0"
    ):
        with self.assertRaisesRegex(ZeroDivisionError, says) as caught:
            f(*arguments)
        return str(caught.exception)


class TestErrors(Divides):
    def test_dtypes(self):
        pairs = [(T.TensorType(d, (False,))("x"), T.TensorType(d, (False,))("y")) for d in DTYPES]
        inputs = [v for pair in pairs for v in pair]
        for says, op in (("division", T.int_div), ("modulo", T.mod)):
            for mode in (PYTHON, "FAST_COMPILE", FUSED):
                f = theano.function(inputs, [op(x, y) for x, y in pairs], mode=mode)
                values = [np.array([1, 1, 1], v.dtype) for v in inputs]
                np.testing.assert_array_equal(f(*values), [[op == T.int_div] * 3] * len(DTYPES))
                for k, dtype in enumerate(DTYPES):
                    with self.subTest(op=op, mode=mode, dtype=dtype):
                        zero = [*values]
                        zero[2 * k + 1] = np.array([1, 0, 0], dtype)
                        text = self.refused(
                            f, *zero, says=r"^integer %s by zero: element \[1\] of input\[1\] is 0\. " % says
                        )
                        node = (
                            "(?s)Apply node that caused the error: Elemwise{.*Inputs types: .TensorType\\(%s, vector"
                            % dtype
                        )
                        self.assertRegex(text, node)

    def test_functions(self):
        x, y, f = T.ivector("x"), T.bvector("y"), T.fvector("f")
        with change_flags(int_division="int"):
            old = T.div_proxy(x, y)
        for out in (
            x // y,
            x % y,
            T.floor_div(x, y),
            *T.divmod(x, y),
            T.ceil_intdiv(x, y),
            T.mod_check(x, y),
            old,
            5 // y,
            5 % y,
        ):
            for mode in ("FAST_COMPILE", "FAST_RUN"):
                g = theano.function([x, y], out, mode=mode, on_unused_input="ignore")
                g([4, 5], [2, -3])
                self.refused(g, [4, 5], [2, 0])
        with change_flags({"DebugMode.check_finite": False}), np.errstate(all="ignore"):
            g = theano.function([x, y, f], [x / y, x // f, f // y, x % f, f % 0])
            for got, want in zip(
                g([1, -1], [0, 1], [0, 2]), ([np.inf, -1], [np.inf, -1], [np.nan, 2], [np.nan, 1], [np.nan] * 2)
            ):
                np.testing.assert_array_equal(got, want)

    def test_the_element(self):
        """The error names the first zero in C order, for all layouts and loop orders."""
        rng = np.random.RandomState(0)
        x = rng.randint(1, 9, (70, 90)).astype("int16")
        y = rng.randint(1, 9, (140, 180)).astype("int16")
        y[[8, 8, 101, 0], [33, 121, 5, 160]] = 0
        every = np.arange(0, 140, 2)
        cases = [y[:70, :90], np.asfortranarray(y[:70, :90]), y[:70][::-1, :90][:, ::-1], y[::2, ::2], y[69:139, 90:]]
        cases += [y[8:9, :90], y[:70, 33:34], y[8:9, 33:34], y[every][:, :90], y[:90, :70].T, y[70:, 1:91]]
        cases += [np.broadcast_to(y[:1, 160:161], (70, 90)), np.broadcast_to(y[:70, 33:34], (70, 90))]
        cases += [y[:70, :90] + 1, (y + 1)[70:][::-1, ::-2], (y + 1).T[1:91, 140:69:-1].T]
        seen = 0
        for value in cases:
            types = [T.TensorType("int16", [n == 1 for n in v.shape]) for v in (x, value)]
            runs = []
            for op in (T.int_div, inplace.int_div_inplace):
                node, target, cell = op(*[t() for t in types]).owner, x.copy(), [None]
                runs.append(
                    (make_native_thunk(node, node.op.native_code(node), [[target], [value]], [cell]), target, cell)
                )
                runs.append((functools.partial(node.op.perform, node, [target, value], [cell]), target, cell))
            zeros = np.argwhere(value == 0)
            says = r"^integer division by zero: element \[%d, %d\] of input\[1\] is 0\." % tuple((*zeros, (0, 0))[0])
            texts = set()
            for run, target, cell in runs:
                if len(zeros):
                    texts.add(self.refused(run, says=says))
                    np.testing.assert_array_equal(target, x)
                else:
                    target[...] = x
                    run()
                    np.testing.assert_array_equal(cell[0], x // value)
            self.assertEqual(len(texts), len(zeros) > 0)
            seen += len(zeros) > 0
        self.assertEqual((seen, len(cases)), (12, 16))

    def test_long_arrays(self):
        """A single zero is found anywhere in a long array."""
        y = T.lvector("y")
        f = theano.function([y], [10 // y, (7 % y).sum(), (7 % y).max(), T.all(7 // y)], mode=FUSED)
        value = np.full(50021, 3)
        f(value)
        for k in (0, 1, 4095, 4096, 32767, 32768, 50020):
            value[k] = 0
            for output in range(4):
                with self.assertRaisesRegex(ZeroDivisionError, r"element \[%d\] of input\[\d\] is 0" % k):
                    f(value, output_subset=[output])
            value[k] = 3

    def test_every_place(self):
        """A single zero is found at each position of arrays of a few vector lengths.

        Zeros outside the array are ignored.
        """
        for dtype in ("int8", "uint16", "int32", "int64"):
            lanes = 32 // np.dtype(dtype).itemsize
            for op in (T.int_div, inplace.int_div_inplace):
                node = op(*[T.TensorType(dtype, (False,))() for _ in range(2)]).owner
                cells = [[None], [None]]
                run = make_native_thunk(node, node.op.native_code(node), cells, [[None]])
                for n in sorted(
                    {1, 3, lanes - 1, lanes, lanes + 1, 3 * lanes + 1, 4 * lanes, 4 * lanes + 1, 9 * lanes}
                ):
                    around = np.zeros((n + 160, 3), dtype)
                    for y in (around.ravel()[80 : 80 + n], around[80 : 80 + n, 1]):
                        y[...] = 1
                        cells[0][0], cells[1][0] = np.full(n, 7, dtype), y
                        run()
                        for k in range(n):
                            y[k] = 0
                            self.refused(run, says=r"division by zero: element \[%d\] of input\[1\] is 0" % k)
                            y[k] = 1
                        y[...] = 0

    def test_every_place_of_many_dimensions(self):
        """A single zero is found at each position of strided parts of arrays. Zeros outside the parts are ignored."""
        for shape in ((2, 3, 4), (3, 1, 2, 5), (2, 2, 2, 2, 3)):
            around = np.zeros([2 * n for n in shape], "int32")
            parts = around[(slice(None, None, 2),) * len(shape)], around[(slice(1, None, 2),) * len(shape)].T
            for y, op in itertools.product(parts, (T.int_div, inplace.int_div_inplace)):
                y[...] = 2
                x, cell = np.full(y.shape, 7, "int32"), [None]
                node = op(*[T.TensorType("int32", (False,) * y.ndim)() for _ in range(2)]).owner
                run = make_native_thunk(node, node.op.native_code(node), [[x], [y]], [cell])
                for place in np.ndindex(*y.shape):
                    y[place] = 0
                    self.refused(run, says=r"element \[%s\] of input\[1\] is 0" % ", ".join(map(str, place)))
                    np.testing.assert_array_equal(x, 7)
                    y[place] = 2
                run()
                np.testing.assert_array_equal(cell[0], 3)
                y[...] = 0

    def test_numbers(self):
        i, j = T.iscalar("i"), T.lscalar("j")
        for mode in (PYTHON, FUSED, AS_BUILT):
            self.refused(theano.function([i, j], i % j, mode=mode), 3, 0, says=r"modulo by zero: input\[1\] is 0\.")
        a, b = scalar.int32("a"), scalar.int8("b")
        for linker in ("py", "c", "cvm") if theano.config.cxx else ("py", "cvm"):
            for out in (a // b, scalar.Composite([a, b], [a % (b + 1)])(a, b - 1)):
                f = theano.function([a, b], out, mode=Mode(linker, None))
                f(7, 2)
                self.refused(f, 7, 0)

    def test_a_switch_computes_both(self):
        x, y = T.ivectors("xy")
        for mode in ("FAST_COMPILE", "FAST_RUN"):
            self.refused(theano.function([x, y], T.switch(T.eq(y, 0), 0, x // y), mode=mode), [1, 2], [1, 0])
            safe = theano.function([x, y], x // T.switch(T.eq(y, 0), 1, y), mode=mode)
            np.testing.assert_array_equal(safe([6, 5], [0, 2]), [6, 2])

    def test_ifelse_protects(self):
        i, j = T.lscalars("ij")
        f = theano.function([i, j], ifelse(T.eq(j, 0), T.zeros_like(i), i // j), mode=Mode("cvm", "fast_run"))
        self.assertEqual((f(7, 2), f(7, 0)), (3, 0))

    def test_elements_that_do_not_exist(self):
        """Division by zero raises no error if the output has no elements, also after rewriting."""
        m, r, i = T.imatrix("m"), T.irow("r"), T.iscalar("i")
        outputs = [
            m // r,
            m % i,
            (m // i).sum(),
            (m // r).sum(0),
            m // (i - i),
            (m % (r - r)).sum(axis=1),
            T.any(m // i),
        ]
        outputs += [
            T.fill(m, 5) // i,
            (T.fill(m, i) % i)[:1],
            T.alloc(np.int32(5), m.shape[0], 2) // i,
            (m * 0 + 1) % i,
        ]
        shapes = [(0, 2), (0, 2), (), (2,), (0, 2), (0,), (), (0, 2), (0, 2), (0, 2), (0, 2)]
        for mode in (PYTHON, PYTHON_FUSED, "FAST_COMPILE", "FAST_RUN"):
            f = theano.function([m, r, i], outputs, mode=mode)
            got = f(np.zeros((0, 2), "int32"), np.zeros((1, 2), "int32"), 0)
            self.assertEqual([v.shape for v in got], shapes)
            for k in range(len(outputs)):
                f = theano.function([m, r, i], outputs[k], mode=mode, on_unused_input="ignore")
                self.refused(f, np.zeros((1, 2), "int32"), np.zeros((1, 2), "int32"), 0)

    def test_shapes_alone_divide_nothing(self):
        x, y = T.ivectors("xy")
        self.assertEqual(theano.function([x, y], (x // y).shape[0], mode="FAST_RUN")([1, 2], [0, 0]), 2)

    def test_constants(self):
        """Division by a constant zero raises an error at run time. Compilation gives neither an error nor a warning."""
        x = T.ivector("x")
        for build in (
            lambda: x // 0,
            lambda: x % np.zeros(2, "int8"),
            lambda: T.constant([4, 5]) // T.constant([1, 0]),
            lambda: (x + 1) // 0,
        ):
            for mode in ("FAST_COMPILE", "FAST_RUN"):
                with self.assertNoLogs("theano_ng", "WARNING"):
                    f = theano.function([x], build(), mode=mode, on_unused_input="ignore")
                self.refused(f, [1, 2])
        self.assertRaises(NotScalarConstantError, T.get_scalar_constant_value, T.constant(1) // T.constant(0))
        self.assertEqual(T.get_scalar_constant_value(T.constant(7) // T.constant(2)), 3)


class TestFusion(Divides):
    """Divisors are checked in loops that also contain other operations or reductions."""

    def test_composites(self):
        x, y = T.imatrix("x"), T.imatrix("y")
        good, bad = [[4, 5], [6, 7]], [[2, 3], [0, 5]]
        element = r"element \[1, 0\] of input\[\d\] is 0"
        for out, says in (
            ((x + 1) // y + y, "integer division by zero: " + element),
            ((x + 1) % y * 2, "integer modulo by zero: " + element),
            (2 * (x // (y * y)), "integer division by zero: the divisor is 0"),
            (x % (x // y - 1 + x), "integer division by zero: " + element),
            (T.exp(x % (y * 3)), "integer modulo by zero: the divisor is 0"),
            (T.cast(x, "float16") * (x // y), "integer division by zero: " + element),
        ):
            for mode in (FUSED, PYTHON_FUSED):
                f = theano.function([x, y], out, mode=mode)
                (node,) = f.maker.fgraph.apply_nodes
                self.assertIsInstance(node.op.scalar_op, scalar.Composite)
                f(good, good)
                self.assertIn(
                    "Apply node that caused the error: Elemwise{Composite{", self.refused(f, good, bad, says=says)
                )

    def test_reductions(self):
        x, y = T.imatrix("x"), T.imatrix("y")
        good, bad = np.full((40, 60), 5, "int32"), np.full((40, 60), 5, "int32")
        bad[33, 7] = 0
        for build in (
            lambda z: z.sum(),
            lambda z: z.sum(0),
            lambda z: z.sum(1),
            lambda z: z.max(),
            lambda z: z.prod(1),
            T.any,
            T.all,
        ):
            for out, where in ((x // y, r"element \[33, 7\] of input\[1\]"), (x % (y * 3), "the divisor")):
                for mode in (FUSED, PYTHON_FUSED):
                    f = theano.function([x, y], build(out), mode=mode)
                    self.assertTrue(any(isinstance(n.op, ReducedElemwise) for n in f.maker.fgraph.apply_nodes))
                    f(good, good)
                    for values in (bad, np.asfortranarray(bad)):
                        text = self.refused(f, good, values, says="by zero: %s is 0" % where)
                        self.assertIn(" of Elemwise{", text)

    def test_a_fold_of_divisions(self):
        v = T.lvector("v")
        for mode in (PYTHON, AS_BUILT):
            f = theano.function([v], CAReduce(scalar.int_div)(v), mode=mode)
            self.assertEqual(f([100, 5, 2]), 10)
            self.refused(f, [100, 5, 0])


class TestState(Divides):
    def linkers(self):
        yield from (
            Mode(linker, "fast_run")
            for linker in ("py", "c", "c|py", "vm", "cvm")
            if theano.config.cxx or linker != "c"
        )

    def test_updates(self):
        """An error leaves shared variables unchanged, whether or not they are overwritten in place.

        The next call is right.
        """
        y = T.ivector("y")
        for mode in self.linkers():
            for build in (
                lambda s: s // y,
                lambda s: s % y,
                lambda s: (s + 1) // y,
                lambda s: y // s,
                lambda s: s // (y + s - s * 1),
                lambda s: s % (y - 1 + 1),
            ):
                s, t, u = (theano.shared(np.array([7, 8, 9], "int32"), name=name) for name in "stu")
                f = theano.function([y], (t + y).sum(), updates=[(t, t + y), (s, build(s)), (u, u * y)], mode=mode)
                f([3, 3, 3])
                before = [v.get_value() for v in (s, t, u)]
                s.set_value(np.array([1, 0, 1], "int32") if build(s).owner.inputs[1] is s else before[0])
                before[0] = s.get_value()
                self.refused(f, [3, 0, 0])
                for v, value in zip((s, t, u), before):
                    np.testing.assert_array_equal(v.get_value(), value)
                s.set_value(np.array([8, 8, 8], "int32"))
                f([2, 2, 2])
                np.testing.assert_array_equal(t.get_value(), before[1] + 2)

    def test_what_works_in_place(self):
        x, y = T.imatrix("x"), T.imatrix("y")
        outputs = [inplace.int_div_inplace(x, y), inplace.mod_inplace(x, y)]
        outputs.append(Elemwise(scalar.int_div, {0: 1})(x, y))
        a, b = scalar.int32(), scalar.int32()
        outputs.append(Elemwise(scalar.Composite([a, b], [a // (b - 1)]), {0: 0})(x, y + 1))
        for out in outputs:
            for linker in ("py", "cvm"):
                f = theano.function(
                    [theano.In(x, mutable=True), theano.In(y, mutable=True)],
                    out,
                    mode=Mode(linker, None),
                    accept_inplace=True,
                )
                given = np.array([[8, 9, 10], [11, 12, 13]], "int32"), np.array([[1, 2, 3], [4, 0, 6]], "int32")
                before = [v.copy() for v in given]
                self.refused(f, *given)
                for v, value in zip(given, before):
                    np.testing.assert_array_equal(v, value)
                given[1][given[1] == 0] = 5
                expected = given[0] % given[1] if out is outputs[1] else given[0] // given[1]
                np.testing.assert_array_equal(f(*given), expected)

    def test_what_computes_its_divisor_is_not_in_place(self):
        x, y = T.ivectors("xy")
        for divisor, in_place in ((y, {0: 0}), (y + 1, {})):
            f = theano.function([theano.In(x, mutable=True), y], x // divisor, mode=FUSED, accept_inplace=True)
            self.assertEqual(dict(f.maker.fgraph.outputs[0].owner.op.inplace_pattern), in_place)

    def test_what_is_looked_at_first(self):
        """If a loop overwrites the divisors or memory of the caller, it checks all divisors before it writes."""
        x, y = T.ivectors("xy")
        temporary = T.sort(x)
        for out, check_divisors_first in (
            (x // y, False),
            (inplace.int_div_inplace(x, y), True),
            (inplace.int_div_inplace(x[::-1], y), True),
            (inplace.int_div_inplace(inplace.neg_inplace(x), y), True),
            (inplace.int_div_inplace(temporary, y), False),
            (Elemwise(scalar.mod, {0: 1})(y, temporary), True),
        ):
            self.assertEqual(out.owner.op.native_code(out.owner).params["check_divisors_first"], check_divisors_first)
            f = theano.function([x, y], out, mode=AS_BUILT, accept_inplace=True, on_unused_input="ignore")
            self.refused(f, [0, 2, 0], [1, 0, 2], says=r"element \[\d\] of input\[1\]")

    def test_state_of_any_size(self):
        """Updates of state of any size leave the state unchanged if a division fails.

        Small state is overwritten after the divisors are checked. For state of 1 MiB and more, the quotients are first
        computed in separate memory.
        """
        s, y = theano.shared(np.zeros((1, 1), "int64")), T.lmatrix()
        f = theano.function([y], updates=[(s, s // y)], mode=FUSED)
        for n in (3, 60, 70, 200, 400):
            rng = np.random.RandomState(n)
            values = rng.randint(0, 100, (n, n))
            for layout in (
                np.ascontiguousarray,
                np.asfortranarray,
                lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
                lambda a: np.repeat(a, 2, 1)[:, ::2],
            ):
                with self.subTest(n=n):
                    s.set_value(layout(values), borrow=True)
                    divisors = rng.randint(1, 9, (n, n))
                    quotients = values // divisors
                    for _ in range(2):
                        f(divisors)
                        np.testing.assert_array_equal(s.get_value(), quotients)
                        zero = divisors.copy()
                        zero[-1, -2] = 0
                        self.refused(f, zero, says=r"element \[%d, %d\] of input\[1\]" % (n - 1, n - 2))
                        np.testing.assert_array_equal(s.get_value(), quotients)
                        quotients = quotients // divisors


class TestKnown(Divides):
    """Divisors that are known not to be zero are not checked."""

    def test_divisors(self):
        x, y, z, f = T.ivector("x"), T.bvector("y"), T.bvector("z"), T.fvector("f")
        for out, checked in (
            (x // y, True),
            (x % y, True),
            (x // 0, True),
            (x // T.constant([1, 0]), True),
            (x // T.maximum(y, 0), True),
            (x // T.minimum(y, 1), True),
            (x // T.clip(y, 0, 3), True),
            (x // T.switch(T.eq(z, 0), 1, y), True),
            (x // T.switch(T.eq(y, 1), 1, y), True),
            (x // T.switch(T.eq(y, 0), 0, y), True),
            (x // T.switch(T.neq(y, 0), 1, y), True),
            (x // T.cast(T.maximum(y, 1) * 256, "int8"), True),
            (x // 2, False),
            (x % -3, False),
            (x // T.constant([1, -2]), False),
            (x // T.constant(3).dimshuffle("x"), False),
            (x // f, False),
            (f % y, False),
            (f // 0, False),
            (x / y, False),
            (x // T.maximum(y, 1), False),
            (x // T.maximum(T.maximum(2, y), z), False),
            (x // T.clip(y, 1, 3), False),
            (x // T.switch(T.eq(y, 0), 1, y), False),
            (x // T.switch(T.eq(0, y), -1, y), False),
            (x // T.switch(z, 1, -1), False),
        ):
            with self.subTest(out=out):
                self.assertEqual(fails_on_values(out.owner), checked)
                self.assertEqual(notes_zeros(out.owner), checked)
                total = theano.function([x, y, z, f], out.sum(), mode=FUSED, on_unused_input="ignore")
                fused = [n for n in total.maker.fgraph.apply_nodes if isinstance(n.op, ReducedElemwise)]
                self.assertEqual(any(map(fails_on_values, fused)), checked)
                self.assertEqual(any(map(notes_zeros, fused)), checked)

    def test_fewer_dimensions(self):
        m, v, n = T.imatrix("m"), T.ivector("v"), T.iscalar("n")
        for out in (
            m // T.switch(T.eq(v, 0), 1, v),
            m % T.maximum(n, 1),
            m // T.clip(v, 1, 9),
            m % T.switch(T.eq(n, 0), 7, n),
        ):
            for mode in ("FAST_COMPILE", "FAST_RUN"):
                f = theano.function([m, v, n], out, mode=mode, on_unused_input="ignore")
                checked = [node for node in f.maker.fgraph.apply_nodes if fails_on_values(node)]
                self.assertEqual(checked, [])

    def test_cut_to_fewer_bits(self):
        y = T.bvector("y")
        largest = Elemwise(scalar.maximum.make_new_inplace(scalar.transfer_type(0)), {0: 0})
        out = T.constant([5], "int8") // largest(y, T.constant([256], "int16"))
        self.assertTrue(fails_on_values(out.owner))

    def test_composites_know_too(self):
        x, y, z = T.ivectors("xyz")
        f = theano.function([x, y], (x + 1) // T.maximum(y, 1) + x % 3, mode=FUSED)
        (node,) = f.maker.fgraph.apply_nodes
        self.assertFalse(fails_on_values(node) or notes_zeros(node))
        # The maximum is read twice, so it is a separate node. The division still knows that its divisor is not zero.
        f = theano.function([x, y, z], [T.maximum(y + z, 1), x // T.maximum(y + z, 1)], mode=FUSED)
        self.assertFalse(any(map(notes_zeros, f.maker.fgraph.apply_nodes)))


class TestShapes(Divides):
    """Shapes agree with NumPy if their computation divides by a length, and this length is zero."""

    def test_reshape(self):
        x, n, k = T.imatrix("x"), T.lscalar("n"), T.lscalar("k")
        for mode in ("FAST_COMPILE", "FAST_RUN"):
            f = theano.function([x, n, k], [x.reshape((n, k)).shape, x.reshape((n, k)) + 1], mode=mode)
            for shape, sizes in (
                ((0, 3), (0, 5)),
                ((0, 3), (4, 0)),
                ((0, 3), (0, 0)),
                ((2, 3), (3, -1)),
                ((2, 3), (-1, 2)),
                ((0, 2), (-1, 2)),
            ):
                want = np.zeros(shape).reshape(sizes).shape
                lengths, value = f(np.zeros(shape, "int32"), *sizes)
                self.assertEqual((tuple(lengths), value.shape), (want, want))
            f = theano.function([x, n], [x.reshape((n, -1)).shape, x.reshape((0, n)).shape], mode=mode)
            for value in f(np.zeros((0, 2), "int32"), 3):
                self.assertEqual(tuple(value), (3 if value[0] else 0, 0 if value[0] else 3))

    def test_slices_and_ranges(self):
        x, n, k = T.ivector("x"), T.lscalar("n"), T.lscalar("k")
        f = theano.function(
            [x, n, k],
            [x[::k].shape[0], x[n::k].shape[0], (x[::k] + 1), T.arange(0, n, k).shape[0], T.roll(x, n)],
            mode="FAST_RUN",
        )
        for length in (0, 1, 5):
            value = np.arange(length, dtype="int32")
            for n_, k_ in ((3, 1), (4, 2), (2, -1), (-1, -2), (0, 7)):
                got = f(value, n_, k_)
                self.assertEqual(got[:2], [len(value[::k_]), len(value[n_::k_])])
                np.testing.assert_array_equal(got[2], value[::k_] + 1)
                self.assertEqual(got[3], len(np.arange(0, n_, k_)))
                np.testing.assert_array_equal(got[4], np.roll(value, n_))


class TestDebugMode(Divides):
    def test_both_ways_refuse(self):
        x, y = T.ivectors("xy")
        f = theano.function([x, y], [x // y, (x % (y + 1)).sum()], mode="DebugMode")
        f([4, 5], [1, 2])
        self.refused(f, [4, 5], [1, 0])
        self.refused(f, [4, 5], [1, -1])


if __name__ == "__main__":
    unittest.main()
