"""Tests of DebugMode: wrong Ops, types and rewrites raise the documented errors; correct ones raise none."""

import pickle
import unittest

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.compile import debugmode
from theano_ng.compile.debugmode import (
    BadDestroyMap,
    BadOptimization,
    BadThunkOutput,
    BadViewMap,
    DebugMode,
    DebugModeError,
    EndlessOptimization,
    InvalidValueError,
    StochasticOrder,
)
from theano_ng.compile.mode import get_mode
from theano_ng.gof import Apply, Op, local_optimizer
from theano_ng.gof.rewriting import EquilibriumOptimizer, Optimizer, in2out

PY = dict(check_c_code=False, stability_patience=1)
V = np.array([1.0, 2.0, 3.0, 4.0])


def op(perform, **attributes):
    """Return an instance of a new Op class from vectors to vectors, with the given `perform`."""

    class Custom(Op):
        __props__ = ()
        n_outputs = attributes.pop("n_outputs", 1)

        def make_node(self, *inputs):
            inputs = [T.as_tensor_variable(i) for i in inputs]
            return Apply(self, inputs, [inputs[0].type() for _ in range(self.n_outputs)])

        def perform(self, node, inputs, outputs):
            perform(inputs, outputs)

    for name, value in attributes.items():
        setattr(Custom, name, value)
    return Custom()


def run(op_, *values, **settings):
    x = [T.dvector() for _ in values]
    outs = op_(*x, return_list=True)
    return theano.function(x, outs, mode=DebugMode(optimizer=None, **dict(PY, **settings)), accept_inplace=True)(
        *values
    )


def set0(value):
    def perform(inputs, outputs):
        outputs[0][0] = value(*inputs)

    return perform


C_ADD_ONE = """
Py_XDECREF(%(z)s);
%(z)s = (PyArrayObject*) PyArray_NewLikeArray(%(x)s, NPY_CORDER, NULL, 0);
if (!%(z)s) %(fail)s
for (npy_intp i = 0; i < PyArray_DIM(%(x)s, 0); ++i)
    *(double*) PyArray_GETPTR1(%(z)s, i) = *(double*) PyArray_GETPTR1(%(x)s, i) + %(c)s;
"""


def c_code(text, **names):
    def method(self, node, name, inputs, outputs, sub):
        return text % dict(names, x=inputs[0], z=outputs[0], fail=sub["fail"])

    return dict(c_code=method, c_code_cache_version=lambda self: (1,))


class TestWrongOps(unittest.TestCase):
    def test_bad_destroy_map(self):
        def double(inputs, outputs):
            inputs[0][...] *= 2
            outputs[0][0] = inputs[0] + 0.0

        with self.assertRaises(BadDestroyMap) as caught:
            run(op(double), V)
        self.assertIn("perform changed input 0", str(caught.exception))
        self.assertEqual(run(op(double, destroy_map={0: [0]}), V.copy())[0].tolist(), (V * 2).tolist())

    def test_destroying_the_wrong_input(self):
        def swap(inputs, outputs):
            inputs[1][...] = 0
            outputs[0][0] = inputs[0] + 0.0

        self.assertRaises(BadDestroyMap, run, op(swap, destroy_map={0: [0]}), V, V + 1)

    def test_bad_view_map(self):
        for view in (lambda x: x, lambda x: x[::2], lambda x: x.reshape(2, 2).T.ravel(order="F")[1:]):
            with self.assertRaises(BadViewMap) as caught:
                run(op(set0(view)), V)
            self.assertEqual(caught.exception.in_alias_idx, [0])
            run(op(set0(view), view_map={0: [0]}), V)
        self.assertRaises(BadViewMap, run, op(set0(lambda x, y: y[1:]), view_map={0: [0]}), V, V + 1)

    def test_outputs_that_share_memory(self):
        def twins(inputs, outputs):
            outputs[0][0] = both = inputs[0] * 2
            outputs[1][0] = both[:2]

        # Two outputs of an Op may share memory only if the function returns both, and no node reads them.
        run(op(twins, n_outputs=2), V)
        x = T.dvector("x")
        first, second = op(twins, n_outputs=2)(x)
        for outputs in ([first, second * 3], [first * 3, second], [first * 3, second * 3], [first, second, second * 3]):
            with self.assertRaises(BadViewMap) as caught:
                theano.function([x], outputs, mode=DebugMode(optimizer=None))(V)
            self.assertEqual((caught.exception.output_idx, caught.exception.out_alias_idx), (0, 1))

        def neighbours(inputs, outputs):
            pair = np.zeros((2, 8))
            outputs[0][0], outputs[1][0] = pair[0, ::2], pair[0, 1::2]

        run(op(neighbours, n_outputs=2), V)  # interleaved, but without common elements

    def test_errors_with_a_text(self):
        """A BadOptimization that has only a text can be printed and pickled.

        Rules of users raise such errors.
        """
        for error in (BadOptimization("too big"), BadOptimization("too big", None, None, None, "a rule")):
            self.assertEqual(str(error), "too big")
            self.assertEqual(str(pickle.loads(pickle.dumps(error))), "too big")

    def test_failing_node_names_the_rewrite_that_inserted_it(self):
        def fail(inputs, outputs):
            raise ValueError("no good")

        broken, right = op(fail), op(set0(lambda x: x + 1))

        @local_optimizer([type(right)])
        def local_break(node):
            return [T.exp(broken(*node.inputs)) if deep else broken(*node.inputs)] if node.op == right else False

        x = T.dvector("x")
        for deep in (False, True):
            f = theano.function([x], right(x) * 2, mode=DebugMode(optimizer=in2out(local_break), **PY))
            with self.assertRaisesRegex(ValueError, "^no good\nThe rewrite local_break inserted this node") as caught:
                f(V)
            self.assertEqual("It replaced Custom.0" in str(caught.exception), not deep)
            self.assertIn("Apply node that caused the error: Custom(x)", str(caught.exception))
        with self.assertRaises(ValueError) as caught:
            run(broken, V)
        self.assertNotIn("The rewrite", str(caught.exception))

    def test_invalid_values(self):
        for bad in (
            lambda x: x * 1j,
            lambda x: x.astype("float32"),
            lambda x: x[:, None],
            lambda x: [1.0],
            lambda x: None,
            lambda x: x / 0.0 * 0.0,
            lambda x: np.full(2, np.inf),
        ):
            with np.errstate(all="ignore"), self.assertRaises(InvalidValueError) as caught:
                run(op(set0(bad)), V)
            self.assertIn("perform output", str(caught.exception))
        self.assertEqual(run(op(set0(lambda x: x * np.inf)), V, check_isfinite=False)[0].tolist(), [np.inf] * 4)
        with self.assertRaises(InvalidValueError) as caught:
            run(op(set0(lambda x: x + 1)), V * np.nan)
        self.assertIn("Graph Input", str(caught.exception))

    @unittest.skipUnless(theano.config.cxx, "needs a C++ compiler")
    def test_python_and_c_disagree(self):
        plus = lambda k: set0(lambda x: x + k)
        with self.assertRaises(BadThunkOutput) as caught:
            run(op(plus(1), **c_code(C_ADD_ONE, c="2")), V, check_c_code=True)
        self.assertEqual((caught.exception.thunk1, caught.exception.thunk2), ("perform", "c_code"))
        self.assertEqual(caught.exception.offending_op().__name__, "Custom")
        good = op(plus(1), **c_code(C_ADD_ONE, c="1"))
        for settings in (dict(check_c_code=True), dict(), dict(check_c_code=True, check_py_code=False)):
            self.assertEqual(run(good, V[::-1], **settings)[0].tolist(), (V[::-1] + 1).tolist())
        # only C runs: nothing is compared
        self.assertEqual(
            run(op(plus(1), **c_code(C_ADD_ONE, c="2")), V, check_c_code=True, check_py_code=False)[0].tolist(),
            (V + 2).tolist(),
        )

    @unittest.skipUnless(theano.config.cxx, "needs a C++ compiler")
    def test_c_code_that_changes_its_input(self):
        text = C_ADD_ONE + "*(double*) PyArray_GETPTR1(%(x)s, 0) = 7;"
        self.assertRaises(BadDestroyMap, run, op(set0(lambda x: x + 1), **c_code(text, c="1")), V, check_c_code=True)

    def test_preallocated_outputs(self):
        def accumulates(inputs, outputs):
            if outputs[0][0] is None or outputs[0][0].shape != inputs[0].shape:
                outputs[0][0] = np.zeros_like(inputs[0])
            outputs[0][0] += inputs[0]

        def ignores_size(inputs, outputs):
            if outputs[0][0] is None:
                outputs[0][0] = np.empty_like(inputs[0])
            outputs[0][0].fill(inputs[0].sum())

        def assumes_contiguous(inputs, outputs):
            if outputs[0][0] is None or outputs[0][0].shape != inputs[0].shape:
                outputs[0][0] = np.empty_like(inputs[0])
            flat = np.ndarray(
                inputs[0].shape, "float64", outputs[0][0].data if outputs[0][0].flags.c_contiguous else bytearray(999)
            )
            flat[...] = inputs[0]

        for perform, kind in (
            (accumulates, "previous"),
            (accumulates, "c_contiguous"),
            (ignores_size, "wrong_size"),
            (assumes_contiguous, "strided"),
        ):
            run(op(perform), V, check_preallocated_output=[])
            for setting in ([kind], "ALL"):
                with self.assertRaises(BadThunkOutput) as caught:
                    run(op(perform), V, check_preallocated_output=setting)
            with theano.config.change_flags({"DebugMode.check_preallocated_output": kind}):
                self.assertRaises(BadThunkOutput, run, op(perform), V)
        self.assertIn("strided", caught.exception.thunk2 + "strided")

        def correct(inputs, outputs):
            if outputs[0][0] is None or outputs[0][0].shape != inputs[0].shape:
                outputs[0][0] = np.empty_like(inputs[0])
            outputs[0][0][...] = inputs[0] * 3

        self.assertEqual(run(op(correct), V, check_preallocated_output="ALL")[0].tolist(), (V * 3).tolist())

    @unittest.skipUnless(theano.config.cxx, "needs a C++ compiler")
    def test_strides(self):
        backward = set0(lambda x: (x + 1)[::-1].copy()[::-1])
        both = op(backward, **c_code(C_ADD_ONE, c="1"))
        self.assertRaises(TypeError, run, both, V, check_c_code=True, require_matching_strides=2)
        with self.assertLogs("theano_ng.compile.debugmode", "WARNING"):
            run(both, V, check_c_code=True, require_matching_strides=1)
        run(both, V, check_c_code=True, require_matching_strides=0)

    def test_in_place_that_does_not_happen(self):
        debugmode._logger.filters[0].prev_msgs.clear()
        with self.assertLogs("theano_ng.compile.debugmode", "WARNING") as logs:
            run(op(set0(lambda x: x * 2), destroy_map={0: [0]}), V)
        self.assertIn("marked as destroyed", logs.output[0])

    def test_errors_of_ops_stay_what_they_are(self):
        def fails(inputs, outputs):
            raise ValueError("mine")

        with self.assertRaises(ValueError) as caught:
            run(op(fails), V)
        self.assertIn("Apply node that caused the error", str(caught.exception))


class TestWrongRewrites(unittest.TestCase):
    def mode(self, optimizer, **settings):
        return DebugMode(optimizer=optimizer, **dict(PY, **settings))

    def test_bad_optimization(self):
        @local_optimizer([T.exp])
        def exp_to_log(node):
            return [T.log(node.inputs[0])] if node.op == T.exp else False

        x = T.dvector("x")
        f = theano.function([x], T.exp(x) * 2, mode=self.mode(in2out(exp_to_log)))
        with self.assertRaises(BadOptimization) as caught:
            f(V)
        self.assertIn("exp_to_log", str(caught.exception.reason))
        self.assertIn("exp", caught.exception.old_graph)
        self.assertIn("log", caught.exception.new_graph)
        self.assertIsInstance(caught.exception, DebugModeError)

    def test_rewrite_that_is_wrong_for_some_values_only(self):
        @local_optimizer([T.abs_])
        def drop_abs(node):
            return [node.inputs[0]] if node.op == T.abs_ else False

        x = T.dvector("x")
        f = theano.function([x], abs(x) + 1, mode=self.mode(in2out(drop_abs)))
        self.assertEqual(f(V).tolist(), (V + 1).tolist())
        self.assertRaises(BadOptimization, f, -V)

    def test_values_eq_approx_of_a_tag_decides(self):
        @local_optimizer([T.exp])
        def anything(node):
            if node.op != T.exp:
                return False
            out = T.sqr(node.inputs[0])
            out.tag.values_eq_approx = lambda a, b: True
            return [out]

        x = T.dvector("x")
        self.assertEqual(theano.function([x], T.exp(x), mode=self.mode(in2out(anything)))(V).tolist(), (V**2).tolist())

    def test_rewrites_may_save_what_overflowed(self):
        x = T.dvector("x")
        f = theano.function([x], T.log(1 + T.exp(x)), mode=DebugMode(stability_patience=1))
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(f([1.0, 1000.0]), [np.log1p(np.e), 1000.0])

    def test_stochastic_order(self):
        class Moody(Optimizer):
            count = 0

            def add_requirements(self, fgraph):
                from theano_ng.gof.toolbox import ReplaceValidate

                fgraph.attach_feature(ReplaceValidate())

            def apply(self, fgraph):
                Moody.count += 1
                nodes = fgraph.toposort()
                for node in nodes if Moody.count % 2 else reversed(nodes):
                    if isinstance(node.op, T.Elemwise):
                        fgraph.replace_validate(node.outputs[0], node.op(*node.inputs), reason="moody")

        x = T.dvector("x")
        with self.assertRaises(StochasticOrder) as caught:
            theano.function([x], T.exp(T.sin(x)), mode=self.mode(Moody(), stability_patience=3))
        self.assertIn("moody", str(caught.exception))
        theano.function([x], T.exp(T.sin(x)), mode=self.mode(Moody(), stability_patience=1))

    def test_endless_rewriting(self):
        @local_optimizer([T.exp])
        def there(node):
            return [T.sqr(node.inputs[0])]

        @local_optimizer([T.sqr])
        def back(node):
            return [T.exp(node.inputs[0])]

        x = T.dvector("x")
        rules = EquilibriumOptimizer([there, back], max_use_ratio=8)
        with self.assertRaises(EndlessOptimization) as caught:
            theano.function([x], T.exp(x), mode=self.mode(rules))
        self.assertIn("the rules back, there undo each other: sqr(a) -> exp(a) by back", str(caught.exception))


class TestNoFalseAlarm(unittest.TestCase):
    def test_training_step(self):
        rng = np.random.RandomState(0)
        x, y = T.dmatrix("x"), T.lvector("y")
        w = theano.shared(rng.randn(6, 4), name="w")
        b = theano.shared(np.zeros(4), name="b")
        u = theano.shared(rng.randn(4, 3), name="u")
        h = T.tanh(T.dot(x, w) + b)
        p = T.nnet.softmax(T.dot(T.join(1, h[:, :2], h[:, 2:] * 2), u))
        cost = -T.log(p)[T.arange(y.shape[0]), y].mean() + 0.01 * (w[1:, ::-1] ** 2).sum()
        grads = T.grad(cost, [w, b, u])
        updates = [(v, v - 0.1 * g) for v, g in zip((w, b, u), grads)]
        data, labels = rng.randn(8, 6), rng.randint(0, 3, 8)
        costs = {}
        start = [v.get_value() for v in (w, b, u)]
        for name in ("FAST_RUN", DebugMode(stability_patience=2, check_preallocated_output="ALL")):
            for v, value in zip((w, b, u), start):
                v.set_value(value)
            f = theano.function([x, y], [cost, p.argmax(axis=1)], updates=updates, mode=name)
            costs[str(name)] = [float(f(data, labels)[0]) for _ in range(4)]
        first, second = costs.values()
        np.testing.assert_allclose(first, second, rtol=1e-10)
        self.assertLess(second[-1], second[0])

    def test_lazy_nodes_random_numbers_and_integers(self):
        from theano_ng.ifelse import ifelse

        x, c = T.dvector("x"), T.bscalar("c")
        i = T.lmatrix("i")
        f = theano.function(
            [x, c, i],
            [ifelse(c, x * 2, x.sum().dimshuffle("x")), i.T[::-1, 1:], i // 2, T.set_subtensor(x[::2], 0)],
            mode=DebugMode(stability_patience=2),
        )
        for flag, want in ((1, V * 2), (0, [10.0])):
            got = f(V, flag, np.arange(6).reshape(2, 3))
            np.testing.assert_allclose(got[0], want)
            self.assertEqual(got[1].tolist(), [[5], [4], [3]])
            self.assertEqual(got[3].tolist(), [0, 2, 0, 4])
        self.assertEqual(V.tolist(), [1, 2, 3, 4])

    def test_documented_spellings(self):
        x = T.dscalar("x")
        for mode in ("DebugMode", "DEBUG_MODE", DebugMode(check_c_code=False)):
            f = theano.function([x], 10 * x, mode=mode)
            self.assertEqual([float(f(k)) for k in (5, 0, 7)], [50, 0, 70])
        with theano.config.change_flags(mode="DebugMode"):
            self.assertIsInstance(get_mode(None), DebugMode)
        g = pickle.loads(pickle.dumps(f))
        self.assertIsInstance(g.maker, debugmode._Maker)
        self.assertEqual(float(g(3)), 30)

    def test_settings(self):
        mode = DebugMode(stability_patience=3, check_isfinite=False)
        for other in (
            mode.excluding("fusion"),
            pickle.loads(pickle.dumps(mode)),
            mode.including("fusion").requiring("fast_run"),
        ):
            self.assertEqual((other.stability_patience, other.check_isfinite, other.check_py_code), (3, False, True))
        flags = theano.config.DebugMode
        self.assertEqual(
            (DebugMode.stability_patience, DebugMode.require_matching_strides), (flags.patience, flags.check_strides)
        )
        with theano.config.change_flags({"DebugMode.patience": 4}):
            self.assertEqual((DebugMode().stability_patience, mode.stability_patience), (4, 3))
        self.assertRaises(ValueError, DebugMode, check_c_code=False, check_py_code=False)
        self.assertRaises(Exception, DebugMode, linker="cvm")

    def test_layouts_are_kept_by_copies(self):
        base = np.arange(24.0).reshape(4, 6)
        for a in (
            base[::-1, ::2],
            base.T,
            base[:, 3],
            base[1:3, 5:0:-2],
            np.broadcast_to(base[0], (3, 6)),
            base[:0],
            np.array(3.0),
        ):
            copy = debugmode._lessbroken_deepcopy(a)
            np.testing.assert_array_equal(copy, a)
            self.assertFalse(np.shares_memory(copy, a))
            if a.size and 0 not in a.strides:
                self.assertEqual(copy.strides, a.strides)

    def test_state_survives_an_error(self):
        s = theano.shared(np.ones(3))
        x = T.dvector("x")
        f = theano.function([x], T.log(x), updates=[(s, s * 2)], mode=DebugMode(stability_patience=1))
        with np.errstate(all="ignore"):
            self.assertRaises(InvalidValueError, f, [-1.0])
        self.assertEqual(s.get_value().tolist(), [1, 1, 1])
        f([1.0])
        self.assertEqual(s.get_value().tolist(), [2, 2, 2])

    def test_debug_perform_is_used(self):
        custom = op(set0(lambda x: x), view_map={})
        type(custom).debug_perform = lambda self, node, inputs, outputs: outputs[0].__setitem__(0, inputs[0] * 5)
        self.assertEqual(run(custom, V)[0].tolist(), (V * 5).tolist())


class TestRefusedReplacements(unittest.TestCase):
    def test_in_place_on_what_is_read_as_well(self):
        """DebugMode accepts a graph for which the destroy handler has refused an in-place node.

        The node was refused because it would overwrite an array that it also reads as another input.
        """
        m, v = np.arange(16.0).reshape(4, 4) / 7, np.arange(1.0, 5.0)
        for expression, want in (
            (lambda a, x: T.dot(x, a) - x, v.dot(m) - v),
            (lambda a, x: x + T.dot(a, x), v + m.dot(v)),
        ):
            a, x = theano.shared(m), theano.shared(v)
            theano.function([], [], updates=[(x, expression(a, x))], mode="DebugMode")()
            np.testing.assert_allclose(x.get_value(), want)


if __name__ == "__main__":
    unittest.main()
