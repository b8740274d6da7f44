"""Tests of the call signatures that `help`, editors and `inspect.signature` show."""

import inspect
import pickle
import unittest

import theano_ng as theano
import theano_ng.scalar as scal
import theano_ng.sparse as sparse
import theano_ng.tensor as T
from theano_ng.tensor.elemwise import functions


def call_text(op):
    """Return the call signature of an Op as text, without annotations."""
    parameters = inspect.signature(op).parameters.values()
    return str(inspect.Signature([p.replace(annotation=inspect.Parameter.empty) for p in parameters]))


class TestSignatures(unittest.TestCase):
    def test_elementwise_functions(self):
        for op, expected in (
            (T.exp, "(a)"),
            (T.add, "(a, *other_terms)"),
            (T.mul, "(a, *other_terms)"),
            (T.switch, "(cond, ift, iff)"),
            (T.clip, "(x, min, max)"),
            (T.maximum, "(x, y)"),
            (T.true_div, "(a, b)"),
            (T.inplace.add_inplace, "(a, *other_terms)"),
            (T.nnet.sigmoid, "(x)"),
            (sparse.structured_add, "(x, y)"),
            (sparse.structured_exp, "(x)"),
        ):
            with self.subTest(str(op)):
                self.assertEqual(call_text(op), expected)

    def test_it_binds_what_calls_take(self):
        """The signature of every elementwise function accepts exactly as many arguments as its scalar Op has inputs."""
        for name in functions.__all__:
            op = getattr(functions, name)
            if not isinstance(op, T.Elemwise):
                continue
            with self.subTest(name):
                nin = op.scalar_op.nin
                inspect.signature(op).bind(*[None] * (nin if nin >= 0 else 3))
                if nin >= 0:
                    with self.assertRaises(TypeError):
                        inspect.signature(op).bind(*[None] * (nin + 1))
                self.assertEqual(inspect.signature(pickle.loads(pickle.dumps(op))), inspect.signature(op))

    def test_other_operations(self):
        x, y = scal.floats("x", "y")
        for op, expected in (
            (T.Elemwise(scal.Composite([x, y], [x * y])), "(x0, x1, /)"),
            (scal.exp, "(x)"),
            (T.blas.gemm_inplace, "(z, a, x, y, b)"),
            (theano.typed_list.append, "(x, toAppend)"),
            (theano.as_op([T.dscalar], [T.dscalar])(lambda price: price), "(price)"),
            (T.dmatrix, "(name=None)"),
        ):
            with self.subTest(str(op)):
                self.assertEqual(call_text(op), expected)

    def test_classes_have_that_of_their_constructor(self):
        self.assertEqual(
            list(inspect.signature(T.DimShuffle).parameters), ["input_broadcastable", "new_order", "inplace"]
        )
        self.assertEqual(list(inspect.signature(T.Elemwise).parameters)[:2], ["scalar_op", "inplace_pattern"])
        self.assertFalse(hasattr(T.Elemwise, "__signature__"))


class TestDir(unittest.TestCase):
    def test_what_is_there_is_listed(self):
        """`dir` lists names that are imported on first access, too, and all listed names exist."""
        names = dir(theano)
        for name in "Apply In Mode Op OpFromGraph Out Param clone config foldl function grad ifelse map scan shared sparse tensor typed_list".split():
            self.assertIn(name, names)
        for module in (theano, T, T.nnet, theano.gof, theano.compile):
            for name in dir(module):
                with self.subTest("%s.%s" % (module.__name__, name)):
                    self.assertTrue(hasattr(module, name))
