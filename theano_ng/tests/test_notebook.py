"""Tests of the outlines and pictures that notebooks show for graphs, and of the strings of functions."""

import re
import shutil
import subprocess
import sys
import unittest
import xml.etree.ElementTree
from unittest import mock

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.printing import notebook
from theano_ng.printing.graphs import short_label, user_frames


def without_graphviz():
    return mock.patch.object(notebook, "_dot", lambda: None)


def chain(length):
    v = T.dvector("x")
    for i in range(length):
        v = T.tanh(v + T.dvector("y%d" % i))
    return v


class TestOutline(unittest.TestCase):
    def outline(self, thing):
        with without_graphviz():
            self.assertIsNone(thing._repr_svg_())
            text = thing._repr_html_()
        xml.etree.ElementTree.fromstring(text)  # the text must be well-formed
        return text

    def test_expression(self):
        x = T.dmatrix("x<y")
        y = T.exp(x)
        text = self.outline(T.dot(y, y.T))
        words = re.sub("<[^>]*>", "", text).split("\n")
        self.assertEqual(
            [w.strip() for w in words if w.strip()],
            [
                "dot dmatrix [1]",
                "exp dmatrix [2]",
                "x&lt;y dmatrix",
                "DimShuffle{1,0} dmatrix [3]",
                "exp dmatrix [2] as above",
            ],
        )
        self.assertEqual(text, self.outline(T.dot(y, y.T)))
        self.assertIn("exp", self.outline(y.owner))
        self.assertIn("inputs: x", self.outline(theano.FunctionGraph([x], [y], clone=True)))

    def test_function(self):
        w = theano.shared(np.zeros(3), "w")
        x = T.dvector("x")
        f = theano.function([x], T.exp(x) * w, updates=[(w, w + 1)], mode="FAST_COMPILE")
        self.assertIn("= new value of <b>w</b>", self.outline(f))

    def test_nothing_to_show(self):
        for leaf in (T.dvector("x"), T.constant(3), theano.shared(np.zeros(3))):
            self.assertIsNone(leaf._repr_svg_())
            self.assertIsNone(leaf._repr_html_())
            with without_graphviz():
                self.assertIsNone(leaf._repr_html_())

    def test_large(self):
        text = self.outline(chain(3000))
        self.assertLess(len(text), 60000)
        self.assertRegex(text, r"<i>5,9\d\d more ops are omitted</i>")
        wide = T.dvector("x")
        text = self.outline(sum((T.exp(wide * i) for i in range(1000)), wide))
        self.assertIn("more ops are omitted", text)


@unittest.skipUnless(shutil.which("dot"), "pictures are drawn by Graphviz, whose program dot is not installed")
class TestPicture(unittest.TestCase):
    def labels(self, thing):
        self.assertIsNone(thing._repr_html_(), "a notebook shows one of the two")
        root = xml.etree.ElementTree.fromstring(thing._repr_svg_())
        self.assertIn("max-width:100%", root.get("style"))
        return [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]

    def test_expression(self):
        x, y = T.dmatrix('x " \\ </svg>'), T.dmatrix("y")
        z = T.tanh(T.dot(x, y))
        labels = self.labels(z)
        self.assertEqual(
            sorted(labels),
            sorted(['x " \\ </svg>', "y", "dot", "tanh", "0 dmatrix", "1 dmatrix", "dmatrix", "dmatrix", "dmatrix"]),
        )
        self.assertEqual(self.labels(z.owner), labels)
        self.assertEqual(sorted(self.labels(theano.FunctionGraph([x, y], [z], clone=True))), sorted(labels))

    def test_large(self):
        labels = self.labels(chain(2000))
        self.assertIn("the 60 ops nearest to the outputs; 3,940 more are omitted", labels)
        self.assertEqual(labels.count("tanh"), 30)
        self.assertNotIn("y3", labels)
        self.assertIn("y1999", labels)

    def test_graphviz_fails(self):
        z = T.exp(T.dvector("x"))
        for failure in (OSError(), subprocess.TimeoutExpired("dot", 20), subprocess.CalledProcessError(1, "dot")):
            with mock.patch.object(subprocess, "run", side_effect=failure):
                self.assertIsNone(z._repr_svg_())


class TestTexts(unittest.TestCase):
    def test_function(self):
        w = theano.shared(np.zeros(3), "w")
        x, y = T.dvector("x"), T.dscalar()
        f = theano.function([x, y], [x * y, x.sum()], updates=[(w, w + 1)], name="step", mode="FAST_COMPILE")
        n = len(f.maker.fgraph.apply_nodes)
        self.assertEqual(
            repr(f),
            "<Function step (x, <TensorType(float64, scalar)>) -> TensorType(float64, vector), TensorType(float64, scalar), updates w; %d nodes>"
            % n,
        )
        self.assertEqual(str(f), "<Function step>")
        many = T.dscalars(*["a%d" % i for i in range(12)])
        f = theano.function(many, [], on_unused_input="ignore", mode="FAST_COMPILE")
        self.assertIn(" (a0, a1, a2, a3, a4, a5, a6, ... 5 more) -> nothing; 0 nodes>", repr(f))

    def test_labels(self):
        x = T.dmatrix("x")
        labels = {
            T.exp(x): "exp",
            x.sum(axis=0): "Sum{axis=[0]}",
            x.sum(): "Sum",
            x.T: "DimShuffle{1,0}",
            x[1:]: "Subtensor{int64::}",
            theano.OpFromGraph([x], [x + 1], name="plus one")(x): "plus one",
            theano.OpFromGraph([x], [x + 1])(x): "OpFromGraph",
        }
        self.assertEqual({v: short_label(v.owner.op) for v in labels}, labels)
        f = theano.function([x], T.tanh(x * 2).sum(axis=1), mode=theano.compile.mode.get_mode("FAST_RUN"))
        self.assertRegex(" ".join(short_label(n.op) for n in f.maker.fgraph.toposort()), r"tanh\(\(i0 \* i1\)\)")
        self.assertLessEqual(len(short_label(theano.OpFromGraph([x], [x + 1], name="n" * 99))), 48)

    def test_frames(self):
        def of_the_user(x):
            return T.nnet.sigmoid(x) + 1

        y = of_the_user(T.dvector("x"))
        self.assertEqual([frame[2] for frame in user_frames(y)[-2:]], ["test_frames", "of_the_user"])
        self.assertEqual(user_frames(y)[-1][3], "return T.nnet.sigmoid(x) + 1")
        self.assertEqual(user_frames(y.owner), user_frames(y))
        y.tag.trace = []
        self.assertEqual(user_frames(y), [])

    def test_nothing_is_loaded_early(self):
        program = "import sys, theano_ng; sys.exit(any('theano_ng.printing.' + m in sys.modules for m in ('notebook', 'drawing')))"
        subprocess.run([sys.executable, "-c", program], check=True)
        program = "import sys, theano_ng; sys.exit('theano_ng.d3viz' in sys.modules)"
        subprocess.run([sys.executable, "-c", program], check=True)


if __name__ == "__main__":
    unittest.main()
