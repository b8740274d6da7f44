"""Tests of the tutorial's listings and their documented results: first steps, functions, state, updates of rows."""

import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import function
from theano_ng.tests.closeness import assert_close


class FirstSteps(unittest.TestCase):
    def test_adding_two_scalars(self):
        p, q = T.dscalar(), T.dscalar()
        assert function([p, q], p + q)(1.5, 2.5) == 4.0

    def test_adding_returns_a_0d_array(self):
        p, q = T.dscalar("x"), T.dscalar("y")
        g = function([p, q], p + q)
        r = g(2, 3)
        assert isinstance(r, np.ndarray) and r.shape == () and r == 5.0
        assert np.allclose(g(16.3, 12.1), 28.4)

    def test_type_identity_and_reprs(self):
        p = T.dscalar("x")
        assert type(p).__name__ == "TensorVariable" and type(p).__module__.endswith("tensor.var")
        assert repr(p.type) == "TensorType(float64, scalar)" and p.type is T.dscalar
        assert repr(T.dscalar) == "TensorType(float64, scalar)"

    def test_pp_of_a_sum(self):
        from theano_ng import pp

        assert pp(T.dscalar("x") + T.dscalar("y")) == "(x + y)"

    def test_eval_and_its_cache(self):
        import time

        p, q = T.dscalar("x"), T.dscalar("y")
        s = p + q
        t0 = time.time()
        assert np.allclose(s.eval({p: 16.3, q: 12.1}), 28.4)
        first = time.time() - t0
        t0 = time.time()
        s.eval({p: 1.0, q: 2.0})
        assert time.time() - t0 <= first

    def test_adding_matrices(self):
        p, q = T.dmatrix("x"), T.dmatrix("y")
        g = function([p, q], p + q)
        want = [[11.0, 22.0], [33.0, 44.0]]
        assert_close(g([[1, 2], [3, 4]], [[10, 20], [30, 40]]), want)
        assert_close(g(np.array([[1, 2], [3, 4]]), np.array([[10, 20], [30, 40]])), want)

    def test_all_70_constructors(self):
        dt = dict(b="int8", w="int16", i="int32", l="int64", f="float32", d="float64", c="complex64")
        for letter, name in dt.items():
            for suf, bc in [
                ("scalar", ()),
                ("vector", (False,)),
                ("matrix", (False,) * 2),
                ("row", (True, False)),
                ("col", (False, True)),
            ] + [("tensor%d" % n, (False,) * n) for n in range(3, 8)]:
                v = getattr(T, letter + suf)("nm")
                assert v.dtype == name and v.broadcastable == bc and v.name == "nm" and v.ndim == len(bc)

    def test_power_and_several_inputs(self):
        a = T.vector("a")
        assert_close(function([a], a + a**10)([0, 1, 2]), [0.0, 2.0, 1026.0])
        b = T.vector("b")
        assert_close(function([a, b], a**2 + b**2 + 2 * a * b)([0, 1], [2, 3]), [4.0, 16.0])


class FunctionsDefaultsState(unittest.TestCase):
    def test_two_forms_of_the_logistic_function(self):
        m = T.dmatrix("x")
        want = [[0.5, 0.73105858], [0.26894142, 0.11920292]]
        assert_close(function([m], 1 / (1 + T.exp(-m)))([[0, 1], [-1, -2]]), want)
        assert_close(function([m], (1 + T.tanh(m / 2)) / 2)([[0, 1], [-1, -2]]), want)

    def test_several_outputs(self):
        a, b = T.dmatrices("a", "b")
        d = a - b
        o = function([a, b], [d, abs(d), d**2])([[1, 1], [1, 1]], [[0, 1], [2, 3]])
        assert isinstance(o, list)
        assert_close(o[0], [[1, 0], [-1, -2]])
        assert_close(o[1], [[1, 0], [1, 2]])
        assert_close(o[2], [[1, 0], [1, 4]])

    def test_default_value(self):
        from theano_ng import In

        x, y = T.dscalars("x", "y")
        g = function([x, In(y, value=1)], x + y)
        assert g(33) == 34.0 and g(33, 2) == 35.0

    def test_names_and_keywords(self):
        from theano_ng import In

        x, y, w = T.dscalars("x", "y", "w")
        g = function([x, In(y, value=1), In(w, value=2, name="w_by_name")], (x + y) * w)
        assert [float(g(33)), float(g(33, 2)), float(g(33, 0, 1))] == [68.0, 70.0, 33.0]
        assert float(g(33, w_by_name=1)) == 34.0 and float(g(33, w_by_name=1, y=0)) == 33.0

    def test_accumulator_returns_the_old_state(self):
        from theano_ng import shared

        st = shared(0)
        inc = T.iscalar("inc")
        acc = function([inc], st, updates=[(st, st + inc)])
        assert st.get_value() == 0 and acc(1) == 0 and st.get_value() == 1
        assert acc(300) == 1 and st.get_value() == 301
        st.set_value(-1)
        assert acc(3) == -1 and st.get_value() == 2
        dec = function([inc], st, updates=[(st, st - inc)])
        assert dec(2) == 2 and st.get_value() == 0
        # `updates` is a dict instead of a list of pairs
        function([inc], st, updates={st: st + inc})(5)
        assert st.get_value() == 5

    def test_givens(self):
        from theano_ng import shared

        st = shared(0)
        inc = T.iscalar("inc")
        foo = T.scalar(dtype=st.dtype)
        g = function([inc, foo], st * 2 + inc, givens=[(st, foo)])
        assert g(1, 3) == 7 and st.get_value() == 0

    def test_copy_returns_a_list(self):
        st = theano.shared(0)
        inc = T.iscalar("inc")
        acc = function([inc], st, updates=[(st, st + inc)])
        assert acc(10) == 0 and st.get_value() == 10
        new = theano.shared(0)
        acc2 = acc.copy(swap={st: new})
        out = acc2(100)
        assert isinstance(out, list) and out[0] == 0 and new.get_value() == 100 and st.get_value() == 10
        null = acc.copy(delete_updates=True)
        assert null(9000)[0] == 10 and st.get_value() == 10

    def test_shared_broadcast_pattern(self):
        assert theano.shared(np.ones((1, 3))).broadcastable == (False, False)
        assert theano.shared(np.ones((1, 3)), broadcastable=(True, False)).broadcastable == (True, False)

    def test_constants_cannot_be_inputs(self):
        c = T.constant(3.0)
        with self.assertRaises(Exception):
            function([c], c * 2)


class UpdatingRows(unittest.TestCase):
    def test_updating_rows_of_a_table(self):
        table = theano.shared(np.zeros((4, 2)))
        idx = T.ivector("idx")
        sub = table[idx]
        g = theano.grad((sub**2 + 3 * sub).sum(), sub)
        for upd in (T.inc_subtensor(sub, g * 0.5), T.set_subtensor(sub, sub + g * 0.5)):
            table.set_value(np.zeros((4, 2)))
            function([idx], [], updates=[(table, upd)])([1, 3])
            assert_close(table.get_value(), [[0, 0], [1.5, 1.5], [0, 0], [1.5, 1.5]])
