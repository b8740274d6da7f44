"""Tests of the tutorial's listings and their documented results: printing and graph structure."""

import shutil
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import function


class Printing(unittest.TestCase):
    def test_pprint_of_a_prediction(self):
        fx = theano.config.floatX
        x = T.matrix("x")
        w = theano.shared(np.zeros(3, fx), name="w")
        b = theano.shared(np.asarray(0.0, fx), name="b")
        pred = 1 / (1 + T.exp(-T.dot(x, w) - b)) > 0.5
        assert (
            theano.printing.pprint(pred)
            == "gt((TensorConstant{1} / (TensorConstant{1} + exp(((-(x \\dot w)) - b)))), TensorConstant{0.5})"
        )
        assert theano.pp(T.matrix() + T.matrix()).count("<TensorType(%s, matrix)>" % fx) == 2

    def test_addition_of_two_named_matrices(self):
        import contextlib
        import io

        buf = io.StringIO()
        with contextlib.redirect_stdout(buf):
            theano.printing.debugprint(T.matrix("x") + T.matrix("y"))
        got = [l.rstrip() for l in buf.getvalue().splitlines()]
        assert got == ["Elemwise{add,no_inplace} [id A] ''", " |x [id B]", " |y [id C]"]

    def test_compiled_layouts(self):
        import contextlib
        import io

        def dump(f):
            buf = io.StringIO()
            with contextlib.redirect_stdout(buf):
                theano.printing.debugprint(f)
            return [l.rstrip() for l in buf.getvalue().splitlines()]

        x, y = T.matrix("x"), T.matrix("y")
        assert dump(function([x], (x**2).shape)) == [
            "MakeVector{dtype='int64'} [id A] ''   2",
            " |Shape_i{0} [id B] ''   1",
            " | |x [id C]",
            " |Shape_i{1} [id D] ''   0",
            "   |x [id C]",
        ]
        z = T.join(0, x, y)
        assert dump(function([x, y], z.shape)) == [
            "MakeVector{dtype='int64'} [id A] ''   4",
            " |Elemwise{Add}[(0, 0)] [id B] ''   3",
            " | |Shape_i{0} [id C] ''   2",
            " | | |x [id D]",
            " | |Shape_i{0} [id E] ''   1",
            " |   |y [id F]",
            " |Shape_i{1} [id G] ''   0",
            "   |x [id D]",
        ]
        assert dump(function([x, y], z)) == [
            "Join [id A] ''   0",
            " |TensorConstant{0} [id B]",
            " |x [id C]",
            " |y [id D]",
        ]
        u = T.matrix()
        assert dump(function([u], (T.specify_shape(u, (2, 2)) ** 2).shape)) == [
            "DeepCopyOp [id A] ''   0",
            " |TensorConstant{(2,) of 2} [id B]",
        ]

    def test_uncompiled_prediction_tree_the_constant_1_appears_once(self):
        import contextlib
        import io

        fx = theano.config.floatX
        x = T.matrix("x")
        w = theano.shared(np.zeros(3, fx), name="w")
        b = theano.shared(np.asarray(0.0, fx), name="b")
        pred = 1 / (1 + T.exp(-T.dot(x, w) - b)) > 0.5
        buf = io.StringIO()
        with contextlib.redirect_stdout(buf):
            theano.printing.debugprint(pred)
        labels = [l.strip(" |").split(" ''")[0] for l in buf.getvalue().splitlines()]
        assert labels == [
            "Elemwise{gt,no_inplace} [id A]",
            "Elemwise{true_div,no_inplace} [id B]",
            "InplaceDimShuffle{x} [id C]",
            "TensorConstant{1} [id D]",
            "Elemwise{add,no_inplace} [id E]",
            "InplaceDimShuffle{x} [id F]",
            "TensorConstant{1} [id D]",
            "Elemwise{exp,no_inplace} [id G]",
            "Elemwise{sub,no_inplace} [id H]",
            "Elemwise{neg,no_inplace} [id I]",
            "dot [id J]",
            "x [id K]",
            "w [id L]",
            "InplaceDimShuffle{x} [id M]",
            "b [id N]",
            "InplaceDimShuffle{x} [id O]",
            "TensorConstant{0.5} [id P]",
        ]

    @unittest.skipUnless(shutil.which("dot"), "pictures are drawn by Graphviz, whose program dot is not installed")
    def test_pictures(self):
        import contextlib
        import io
        import os
        import tempfile

        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        out = os.path.join(folder.name, "g.png")
        buf = io.StringIO()
        a = T.vector("a")
        with contextlib.redirect_stdout(buf):
            theano.printing.pydotprint(a + a**10, outfile=out, var_with_name_simple=True)
        assert buf.getvalue().strip() == "The output file is available at " + out and os.path.getsize(out) > 0

    def test_predict_compiles_to_gemv_plus_one_fused_elementwise(self):
        fx = theano.config.floatX
        x = T.matrix("x")
        w = theano.shared(np.zeros(3, fx), name="w")
        b = theano.shared(np.asarray(0.0, fx), name="b")
        f = function([x], 1 / (1 + T.exp(-T.dot(x, w) - b)) > 0.5)
        names = [type(n.op).__name__ for n in f.maker.fgraph.toposort()]
        assert names.count("Elemwise") == 1 and any("emv" in n for n in names) and len(names) <= 5
        assert "scalar_sigmoid" in str(f.maker.fgraph.toposort()[-1].op)


class GraphStructure(unittest.TestCase):
    def test_graph_structure(self):
        x = T.dmatrix("x")
        y = x * 2.0
        assert x.owner is None and type(y.owner).__name__ == "Apply"
        assert y.owner.op.name == "Elemwise{mul,no_inplace}" and len(y.owner.inputs) == 2
        assert y.owner.inputs[0] is x and str(y.owner.inputs[1]) == "InplaceDimShuffle{x,x}.0"
        assert type(y.owner.inputs[1].owner.op).__name__ == "DimShuffle"
        assert str(y.owner.inputs[1].owner.inputs) == "[TensorConstant{2.0}]"
        assert y.owner.outputs[y.index] is y
        z = -T.ivector()
        assert z.type == T.ivector

    def test_clients_default_mode(self):
        v = T.vector()
        f = function([v], (v + 1).sum())
        topo = f.maker.fgraph.toposort()
        var = topo[0].outputs[0]
        c = var.clients[0]
        assert type(c[0]).__name__ == "Apply" and c[0].inputs[c[1]] is var
        assert str(c[0]) == "Sum{acc_dtype=float64}(Elemwise{add,no_inplace}.0)" and c[1] == 0
        last = topo[-1].outputs[0]
        assert last.clients == [("output", 0)] and f.maker.fgraph.outputs[0] is last
