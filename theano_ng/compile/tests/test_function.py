"""Tests of theano.function as a module and as a function, and of small classic programs."""

import importlib
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T


class TestNames(unittest.TestCase):
    def test_module_and_function(self):
        module = importlib.import_module("theano_ng.compile.function")
        from theano_ng.compile.function import function, function_dump

        self.assertIs(theano.compile.function, theano.function)
        self.assertIs(function, theano.function)
        self.assertIs(module.function, theano.function)
        self.assertIs(function_dump, theano.function_dump)
        self.assertTrue(callable(theano.compile.function))

    def test_classic_imports(self):
        for path, names in (
            ("compile", "Mode In Out SharedVariable shared function get_default_mode FAST_RUN DebugMode register_mode"),
            ("compile.mode", "Mode get_mode get_default_mode register_linker predefined_modes OPT_FAST_RUN optdb"),
            ("gof", "Apply Constant FunctionGraph Op Type Variable local_optimizer EquilibriumDB toolbox graph"),
            ("gof.graph", "Variable Constant Apply inputs ancestors clone is_same_graph equal_computations"),
            ("tensor.basic", "as_tensor_variable get_scalar_constant_value NotScalarConstantError TensorType"),
            ("tensor.opt", "register_canonicalize register_specialize register_stabilize MakeVector Shape_i in2out"),
            ("tensor.nnet.sigm", "sigmoid parse_mul_tree simplify_mul compute_mul perform_sigm_times_exp is_1pexp"),
            ("tensor.nnet.nnet", "softmax sigmoid softplus categorical_crossentropy binary_crossentropy"),
            ("misc.windows", "output_subprocess_Popen"),
            ("misc.cpucount", "cpuCount"),
            ("gradient", "grad Rop Lop jacobian hessian disconnected_grad DisconnectedType verify_grad"),
            ("printing", "Print debugprint pp min_informative_str pydotprint"),
        ):
            module = importlib.import_module("theano_ng." + path)
            missing = [n for n in names.split() if not hasattr(module, n)]
            self.assertEqual(missing, [], path)


class TestPrograms(unittest.TestCase):
    def test_logistic_regression_on_minibatches(self):
        rng = np.random.RandomState(1)
        data = rng.randn(200, 10)
        labels = data[:, :3].argmax(1)
        shared_x = theano.shared(data, borrow=True)
        shared_y = T.cast(theano.shared(labels.astype(theano.config.floatX), borrow=True), "int32")
        index, x, y = T.lscalar("index"), T.matrix("x"), T.ivector("y")
        W, b = theano.shared(np.zeros((10, 3)), "W"), theano.shared(np.zeros(3), "b")
        p = T.nnet.softmax(T.dot(x, W) + b)
        cost = -T.mean(T.log(p)[T.arange(y.shape[0]), y]) + 1e-4 * (W**2).sum()
        givens = {x: shared_x[index * 20 : (index + 1) * 20], y: shared_y[index * 20 : (index + 1) * 20]}
        updates = [(v, v - 0.5 * g) for v, g in zip([W, b], T.grad(cost, [W, b]))]
        train = theano.function([index], cost, updates=updates, givens=givens)
        errors = theano.function([index], T.mean(T.neq(T.argmax(p, axis=1), y)), givens=givens)
        names = [type(n.op).__name__ for n in train.maker.fgraph.toposort()]
        self.assertIn("CrossentropySoftmax1HotWithBiasDx", names)
        self.assertIn("CrossentropySoftmaxArgmax1HotWithBias", names)
        self.assertNotIn("AdvancedIncSubtensor", names)
        first = np.mean([train(i) for i in range(10)])
        for _ in range(30):
            last = np.mean([train(i) for i in range(10)])
        self.assertLess(last, first / 3)
        self.assertLess(np.mean([errors(i) for i in range(10)]), 0.05)

    def test_layers_with_momentum(self):
        # This model follows the style of layer libraries: dimshuffled parameters, batch statistics, and updates in an
        # ordered dictionary.
        rng = np.random.RandomState(2)
        x, y = T.matrix("x"), T.ivector("y")
        W, gamma = theano.shared(rng.randn(6, 3) * 0.1), theano.shared(np.ones(3))
        beta = theano.shared(np.zeros((1, 3)), broadcastable=(True, False))
        h = T.dot(x, W)
        h = (h - h.mean(axis=0, keepdims=True)) * (
            gamma.dimshuffle("x", 0) * T.inv(T.sqrt(h.var(axis=0, keepdims=True) + 1e-4))
        ) + beta
        loss = T.nnet.categorical_crossentropy(T.nnet.softmax(T.nnet.relu(h, 0.01)), y).mean()
        updates = theano.OrderedUpdates()
        for v, g in zip([W, gamma, beta], theano.grad(loss, [W, gamma, beta])):
            velocity = theano.shared(np.zeros_like(v.get_value()), broadcastable=v.broadcastable)
            updates[velocity] = 0.9 * velocity - 0.1 * g
            updates[v] = v + updates[velocity]
        step = theano.function([x, y], loss, updates=updates)
        data = rng.randn(60, 6)
        labels = data[:, :3].argmax(1).astype("int32")
        losses = [float(step(data, labels)) for _ in range(60)]
        self.assertLess(losses[-1], losses[0] / 2)

    @theano.change_flags({"DebugMode.check_finite": False})  # the value of an impossible case is -inf
    def test_log_density_with_test_values(self):
        # This model follows the style of samplers: test values, conditions by switch, and first and second derivatives.
        with theano.config.change_flags(compute_test_value="raise"):
            mu, sd = T.dscalar("mu"), T.dscalar("sd")
            mu.tag.test_value, sd.tag.test_value = np.array(0.3), np.array(1.2)
            data = theano.shared(np.array([0.1, -0.4, 1.3]))
            tau = sd**-2
            logp = T.switch(
                T.all([T.all(1 * c) for c in (sd > 0, T.ge(sd, 0))]),
                T.sum((-tau * (data - mu) ** 2 + T.log(tau / np.pi / 2.0)) / 2.0),
                -np.inf,
            )
            gradient = T.grad(logp, [mu, sd])
            hessian = [T.grad(g, v) for g in gradient for v in (mu, sd)]
        d = data.get_value() - 0.3
        expected = (-(d**2) / 1.44 - np.log(1.44 * 2 * np.pi)).sum() / 2
        self.assertAlmostEqual(float(logp.tag.test_value), expected)
        f = theano.function([mu, sd], [logp] + gradient + hessian)
        got = f(0.3, 1.2)
        np.testing.assert_allclose(
            got,
            [
                expected,
                d.sum() / 1.44,
                (d**2).sum() / 1.2**3 - 3 / 1.2,
                -3 / 1.44,
                -2 * d.sum() / 1.2**3,
                -2 * d.sum() / 1.2**3,
                -3 * (d**2).sum() / 1.2**4 + 3 / 1.44,
            ],
            rtol=1e-12,
        )
        self.assertEqual(f(0.3, -1.0)[0], -np.inf)


if __name__ == "__main__":
    unittest.main()
