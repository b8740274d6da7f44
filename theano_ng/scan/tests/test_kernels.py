"""Tests of a loop's kernel: Ops in C++, the need for temporary arrays, and the lengths of rows in the layout."""

import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import scalar
from theano_ng.compile.mode import Mode, get_mode
from theano_ng.scan.op import Scan
from theano_ng.scan.tests.test_loop import AT_ONCE
from theano_ng.tensor.elemwise import Elemwise

AS_WRITTEN = get_mode("FAST_RUN").excluding("scan")


def kernel_of(step, sequences, states, results=0, others=(), mode=None):
    """Return a compiled function of a loop, a function that runs the same loop in Python, and the loop's kernel."""
    outputs, _ = theano.scan(
        step, sequences, [*states, *[None] * results], others, return_list=True, n_steps=None if sequences else 3
    )
    given = [*sequences, *states, *others]
    with AT_ONCE, theano.config.change_flags({"tiered": "off"}):
        fn = theano.function(given, outputs, mode=mode)
    (op,) = [node.op for node in fn.maker.fgraph.apply_nodes if isinstance(node.op, Scan)]
    return fn, theano.function(given, outputs, mode=Mode("py", None)), op.inner_graph.kernel(op)


class Twice(scalar.UnaryScalarOp):
    """The Op ``x + x`` in C++. Its Python function returns a wrong number, so that tests fail if it is used."""

    def impl(self, x):
        return 100 * x

    def c_support_code(self):
        return "template <class Number> static Number tng_twice(Number x) { return x + x; }"

    def c_code(self, node, name, inputs, outputs, sub):
        return "%s = tng_twice(%s);" % (outputs[0], inputs[0])

    def c_code_cache_version(self):
        return (1,)


@unittest.skipUnless(theano.config.cxx, "kernels need a compiler")
class TestLanguages(unittest.TestCase):
    @theano.config.change_flags(mode="FAST_RUN")
    def test_code_in_another_language(self):
        """A loop with an Op in C++ has a kernel, wherever in the step the Op is used."""
        twice = Elemwise(Twice(scalar.transfer_type(0), name="twice"))
        for step, wanted in (
            (lambda a, h: twice(a) + h, [2.0, 6, 12]),
            (lambda a, h: T.maximum(twice(a), h) + a, [3.0, 6, 9]),
            (lambda a, h: twice(T.minimum(a, h + 1)) + h, [2.0, 6, 12]),
        ):
            x, h = T.dvector("x"), T.dscalar("h")
            fn, _, kernel = kernel_of(step, [x], [h])
            self.assertIsNotNone(kernel)
            np.testing.assert_array_equal(fn(np.arange(1.0, 4), 0.0)[0], wanted)


@unittest.skipUnless(theano.config.cxx, "kernels with arrays need a compiler")
class TestLayouts(unittest.TestCase):
    def test_elementwise_steps_need_no_arrays(self):
        """A step needs no temporary arrays if its operands are scalars and rows of one shape."""
        number, vector, matrix, tensor3 = [T.TensorType("float64", (False,) * k) for k in range(4)]
        column = T.TensorType("float64", (False, True))
        for sequences, states, others, mode, needs_arrays in (
            ([vector], [number], [], None, False),
            ([], [number, number], [], None, False),
            ([matrix], [vector], [], None, False),
            ([matrix], [vector], [vector], None, False),
            ([vector], [vector], [number], None, False),
            ([vector], [vector], [number], AS_WRITTEN, False),
            ([vector, matrix], [vector], [number, vector], AS_WRITTEN, False),
            ([tensor3], [matrix], [], None, False),
            ([vector], [matrix], [number, matrix], None, False),
            ([vector], [matrix], [number, matrix], AS_WRITTEN, False),
            ([tensor3], [matrix], [vector], None, True),
            ([], [matrix], [column], AS_WRITTEN, True),
        ):
            count = len(states)

            def step(*vs, count=count):
                return [T.tanh(sum(vs[1:], vs[0] * 0.5) + k) for k in range(count)]

            variables = [[kind() for kind in kinds] for kinds in (sequences, states, others)]
            _, _, kernel = kernel_of(step, *variables[:2], others=variables[2], mode=mode)
            self.assertIsNotNone(kernel, variables)
            self.assertEqual(kernel.layout is not None, needs_arrays, variables)

    def check(self, several, known, shapes, step, sequences, states, results=0, mode=None):
        """Compare results with those of the loop in Python, and lengths of rows in the layout with the actual lengths.

        The layout must have the flag `several` and the constant lengths `known`.
        """
        others = [T.dmatrix()] if len(shapes) > len(sequences) + len(states) else []
        fn, wanted, kernel = kernel_of(step, sequences, states, results, others, mode)
        self.assertIsNotNone(kernel)
        layout = kernel.layout
        self.assertIsNotNone(layout)
        self.assertEqual(layout.several, several)
        self.assertEqual(tuple(sorted(k for k in layout.lengths if k >= 0)), known)
        values = [np.random.RandomState(k).uniform(-1, 1, shape) for k, shape in enumerate(shapes)]
        wanted = wanted(*values)
        for found, value in zip(fn(*values), wanted):
            np.testing.assert_allclose(found, value, rtol=1e-12)
        # The last operands of the layout are the rows of the results.
        rows = [value.shape[1:] for value in wanted]
        size = {i: k for i, k in enumerate(layout.lengths) if k >= 0}
        for dims, shape in zip(layout.dims[-len(rows) :], rows):
            self.assertEqual(len(dims), len(shape))
            for i, k in zip(dims, shape):
                self.assertEqual(size.setdefault(i, k) if i >= 0 else 1, k, (layout.dims, rows))

    def test_rows_and_columns(self):
        """Operations of a step broadcast rows, columns and numbers."""
        t, m, c, r, s = T.dtensor3(), T.dmatrix(), T.dcol(), T.drow(), T.dscalar()
        rng = np.random.RandomState(3)
        values = {t: rng.rand(4, 3, 5), m: rng.rand(3, 5), c: rng.rand(3, 1), r: rng.rand(1, 5), s: rng.rand()}
        for step, others in (
            (lambda a, h, c: [h - c, a.max()], [c]),
            (lambda a, h, r: [T.maximum(h, r), a.max()], [r]),
            (lambda a, h, s: [h / s, h.max()], [s]),
            (lambda a, h, c, r: [T.switch(h > 0.5, c, r), h.max()], [c, r]),
            (lambda a, h, c: [a + h.sum(axis=1, keepdims=True), T.max(h + c)], [c]),
        ):
            fn, wanted, kernel = kernel_of(step, [t], [m], 1, others, AS_WRITTEN)
            self.assertIsNotNone(kernel)
            given = [values[v] for v in (t, m, *others)]
            for found, value in zip(fn(*given), wanted(*given)):
                np.testing.assert_allclose(found, value, rtol=1e-12)

    def test_lengths(self):
        """The layout gives each dimension of a row an index into the lengths, or -1 if its length is 1.

        Dimensions whose lengths must be equal in the step have the same index.
        """
        v, w, m, t = T.dvector(), T.dvector(), T.dmatrix(), T.dtensor3()
        n, a, b = 3, 2, 5
        for text, *case in (
            ("sums", True, (), [(n, a, b), (a, b)], lambda x, h: h / 2 + x.sum(axis=1, keepdims=True), [t], [m]),
            ("results", True, (), [(a, b)],
             lambda h: [h / 2 + h.max(), h.sum(axis=1), h.sum(axis=0), T.exp(h) * h.max()], [], [m], 3, AS_WRITTEN),
            ("rows", True, (), [(a, b)],
             lambda h: [h / 2, h[1] * h.max(), T.tanh(h[:, 1] - h.max())], [], [m], 2, AS_WRITTEN),
            ("lengths", True, (), [(a, b)],
             lambda h: [h / 2, h.shape[0] + h.sum(), h.shape[1] + h.max()], [], [m], 2, AS_WRITTEN),
            ("products", True, (), [(b,), (b, b)], lambda h, k: T.tanh(T.dot(h, k)), [], [v]),
            ("numbers", False, (), [(n, a), (b,)], lambda x, h: h / 2 + T.max(h * x.sum()), [m], [v]),
            ("vectors", False, (), [(a,), (b,)], lambda h, g: [h / 2 + g.sum(), g + T.max(h)], [], [v, w]),
            ("parts", False, (), [(n,), (a,), (b,)],
             lambda x, h, g: [h / 2 + g[1], g + h[-1] * x], [v], [w, T.dvector()]),
        ):  # fmt: skip
            with self.subTest(text):
                self.check(*case)

    def test_lengths_of_constants(self):
        """The layout contains the lengths of constants, and of rows that are combined with constants."""
        v, m = T.dvector(), T.dmatrix()
        three, four, square = np.arange(3.0), np.arange(4.0) / 8, np.arange(12.0).reshape(4, 3) / 16
        for text, *case in (
            ("on the right", False, (3,), [(3,)], lambda h: h * three + h.sum(), [], [v]),
            ("on the left", False, (3,), [(3,)], lambda h: three * (h + h.sum()), [], [v]),
            ("two", False, (3,), [(3,)], lambda h: three * (h + h.sum()) + T.tanh(three - h * h.max()), [], [v]),
            ("apart", False, (4,), [(5,)], lambda h: h / 2 + T.tanh(four * h[0]).sum(), [], [v]),
            ("two apart", False, (3, 4), [(5,)],
             lambda h: h / 2 + T.tanh(four * h[0]).sum() + T.exp(three * h[1]).max(), [], [v]),
            ("matrix", True, (3, 4), [(4, 3)], lambda h: T.tanh(h * square + h.max()), [], [m]),
            ("row", True, (3,), [(2, 3)], lambda h: T.tanh(h * square[:1] + h.max()), [], [m]),
            ("column", True, (4,), [(4, 2)], lambda h: T.tanh(square[:, :1] * h + h.max()), [], [m]),
        ):  # fmt: skip
            with self.subTest(text):
                self.check(*case)


if __name__ == "__main__":
    unittest.main()
