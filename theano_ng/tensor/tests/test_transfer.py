"""Transfers between devices: a back end with a separate Type registers the targets that it supports."""

import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.gof.graph import Apply, Variable
from theano_ng.gof.op import Op
from theano_ng.gof.type import Type
from theano_ng.tensor.transfer import register_transfer, transfer


class Remote:
    """An array on another device."""

    def __init__(self, place, array):
        self.place, self.array = place, array


class RemoteVariable(Variable):
    def _as_TensorVariable(self):
        return Fetch()(self)

    def transfer(self, target):
        return transfer(self, target)


class RemoteType(Type):
    __props__ = ("place", "tensor")
    Variable = RemoteVariable

    def __init__(self, place, tensor):
        self.place, self.tensor = place, tensor

    def filter(self, data, strict=False, allow_downcast=None):
        if not isinstance(data, Remote) or data.place != self.place:
            raise TypeError("expected a Remote at %s" % self.place)
        return data

    def values_eq(self, a, b):
        return a.place == b.place and np.array_equal(a.array, b.array)


class Send(Op):
    __props__ = ("place",)

    def __init__(self, place):
        self.place = place

    def make_node(self, x):
        return Apply(self, [x], [RemoteType(self.place, x.type)()])

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = Remote(self.place, inputs[0].copy())

    def grad(self, inputs, output_gradients):
        return [T.as_tensor_variable(output_gradients[0])]


class Fetch(Op):
    __props__ = ()

    def make_node(self, x):
        return Apply(self, [x], [x.type.tensor()])

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = inputs[0].array.copy()

    def grad(self, inputs, output_gradients):
        return [Send(inputs[0].type.place)(output_gradients[0])]


class Square(Op):
    """An Op that computes on the other device."""

    __props__ = ()

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = Remote(inputs[0].place, inputs[0].array ** 2)

    def grad(self, inputs, output_gradients):
        x, g = (T.as_tensor_variable(v) for v in (inputs[0], output_gradients[0]))
        return [Send(inputs[0].type.place)(2 * x * g)]


class TestTransfer(unittest.TestCase):
    def setUp(self):
        before = list(transfer._others)
        self.addCleanup(transfer._others.__setitem__, slice(None), before)
        self.asked = []

    def moon(self, var, target):
        self.asked.append(("moon", target))
        if target.startswith("moon"):
            return (
                var
                if isinstance(var.type, RemoteType) and var.type.place == target
                else Send(target)(T.as_tensor_variable(var))
            )

    def mars(self, var, target):
        self.asked.append(("mars", target))
        return Send(target)(var) if target in ("mars", "moon9") else None

    def test_order_and_targets(self):
        x = T.dvector("x")
        self.assertIs(x.transfer("cpu"), x)
        register_transfer(self.moon)
        register_transfer(self.mars)
        self.assertEqual(x.transfer("mars").type, RemoteType("mars", T.dvector))
        self.assertEqual(self.asked, [("moon", "mars"), ("mars", "mars")])  # moon returned None, so mars was asked
        self.assertEqual(x.transfer("moon9").type.place, "moon9")
        self.assertEqual(self.asked[2:], [("moon", "moon9")])  # the first result other than None is used
        there = x.transfer("moon")
        self.assertIs(there.transfer("moon"), there)
        self.assertEqual(there.transfer("cpu").type, T.dvector)  # a remote variable becomes a tensor
        self.assertEqual(transfer([1.0, 2.0], "cpu").type.ndim, 1)
        with self.assertRaisesRegex(
            ValueError, r"Can't transfer x to target gpu0. 'cpu' is always known; .*\.moon, .*\.mars"
        ):
            x.transfer("gpu0")
        with self.assertRaisesRegex(TypeError, "expected a function"):
            register_transfer("moon")
        self.assertIs(theano.compile.register_transfer, register_transfer)

    def test_values_and_gradient(self):
        register_transfer(self.moon)
        x = T.dvector("x")
        y = Square()(x.transfer("moon"))
        for mode in ("FAST_COMPILE", "FAST_RUN", "DebugMode"):
            f = theano.function(
                [x], [y, y.transfer("cpu") + 1, theano.grad((y.transfer("cpu") * x).sum(), x)], mode=mode
            )
            remote, here, gradient = f([1.0, 3.0])
            self.assertEqual((type(remote), remote.place), (Remote, "moon"))
            np.testing.assert_array_equal(remote.array, [1, 9])
            np.testing.assert_array_equal(here, [2, 10])
            np.testing.assert_allclose(gradient, [3, 27])  # the gradient of sum(x**3), through two transfers


if __name__ == "__main__":
    unittest.main()
