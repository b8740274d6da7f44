"""Tests of the contents of d3viz pages and of Graphviz graphs."""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np

import theano_ng as theano
import theano_ng.d3viz as d3v
import theano_ng.tensor as T
from theano_ng.compile.profiling import ProfileStats
from theano_ng.d3viz import formatting
from theano_ng.d3viz.tests import models
from theano_ng.printing import picture

try:
    import pydot
except ImportError:
    pydot = None

PACKAGE = pathlib.Path(d3v.__file__).parent
SOURCES = PACKAGE.parents[1] / "viewer"


class Page:
    """The contents of a page that `d3viz` wrote."""

    def __init__(self, fct, *args, **kwargs):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "new", "page.html")
            assert d3v.d3viz(fct, str(path), *args, **kwargs) is None
            self.text = path.read_text(encoding="utf-8")
        script = re.search(r'<script type="application/json" id="data">(.*?)</script>', self.text, re.DOTALL).group(1)
        self.data = json.loads(script)
        self.top = self.data["drawings"][0]

    def kinds(self, drawing=None):
        found = {}
        for box in (drawing or self.top)["boxes"]:
            found[box["kind"]] = found.get(box["kind"], 0) + 1
        return found

    def box(self, label):
        (found,) = (box for box in self.top["boxes"] if box["label"] == label)
        return found


class TestPage(unittest.TestCase):
    def test_expression(self):
        x, y = T.dmatrices("x", "y")
        z = T.tanh(T.dot(x, y) + 1)
        page = Page(z)
        # The four nodes are dot, the conversion of the constant to a matrix, add and tanh.
        self.assertEqual(page.kinds(), {"input": 2, "constant_input": 1, "apply": 4, "output": 1})
        self.assertEqual([page.top["boxes"][i]["label"] for i in page.top["inputs"]], ["x", "y"])
        self.assertEqual(page.box("x")["type"], "TensorType(float64, matrix)")
        self.assertEqual(page.box("x")["color"], "limegreen")
        self.assertEqual(page.box("tanh")["color"], "#FFAABB")
        file, line, function, text = page.box("dot")["source"]
        self.assertEqual((os.path.basename(file), function), ("test_d3viz.py", "test_expression"))
        self.assertIn("T.tanh(T.dot(x, y) + 1)", text)
        self.assertGreater(line, 1)
        labels = [
            (page.top["boxes"][start]["label"], page.top["boxes"][end]["label"], port, label)
            for start, end, _, port, label, _ in page.top["arrows"]
        ]
        self.assertIn(("x", "dot", 0, "0 dmatrix"), labels)
        self.assertIn(("y", "dot", 1, "1 dmatrix"), labels)
        self.assertIn(("add", "tanh", 0, "dmatrix"), labels)
        self.assertEqual(len(labels), 2 + 1 + 2 + 1 + 1)
        # An Apply, a list and a FunctionGraph give an equal graph.
        for same in (z.owner, [z], theano.FunctionGraph([x, y], [z], clone=True)):
            self.assertEqual(Page(same).kinds(), page.kinds())

    def test_every_variable_and_named_variables(self):
        x = T.dvector("x")
        y = T.exp(x)
        y.name = "middle"
        z = T.sin(y * x)
        self.assertEqual(Page(z).kinds(), {"input": 1, "apply": 3, "variable": 1, "output": 1})
        self.assertEqual(Page(z, True, False).kinds(), {"input": 1, "apply": 3, "variable": 2, "output": 1})
        self.assertEqual(Page(z, compact=False).kinds()["variable"], 2)

    def test_function(self):
        page = Page(models.perceptron())
        kinds = page.kinds()
        self.assertEqual((kinds["input"], kinds["shared_input"], kinds["output"]), (1, 3, 2))
        effects = {arrow[5] for arrow in page.top["arrows"]}
        self.assertEqual(effects, {"", "viewed", "destroyed"})
        self.assertIn("new value of bh", [box.get("text") for box in page.top["boxes"]])
        self.assertNotIn("profile", page.top)
        self.assertIn("<title>predict</title>", page.text)

    def test_profile(self):
        f = models.perceptron(ProfileStats(atexit_print=False))
        self.assertNotIn("profile", Page(f).top, "it was not called yet")
        f(np.ones((20, 6)))
        f(np.ones((20, 6)))
        page = Page(f)
        ops = [box for box in page.top["boxes"] if box["kind"] == "apply"]
        self.assertEqual({box["calls"] for box in ops}, {2})
        self.assertAlmostEqual(page.top["profile"]["nodes"], sum(f.profile.apply_time.values()))
        self.assertEqual(page.top["profile"]["calls"], 2)
        self.assertLess(0, min(box["seconds"] for box in ops))

    def test_graphs_inside(self):
        page = Page(models.opfromgraph())
        boxes = [box for box in page.top["boxes"] if box["type"] == "OpFromGraph"]
        self.assertEqual(len(boxes), 2)
        self.assertEqual(boxes[0]["inner"], boxes[1]["inner"], "one Op has one drawing")
        inner = page.data["drawings"][boxes[0]["inner"]]
        self.assertEqual((len(inner["inputs"]), len(inner["outputs"])), (3, 1))
        self.assertEqual([inner["boxes"][i]["kind"] for i in inner["inputs"]], ["input"] * 3)

        page = Page(models.nested())
        (box,) = (box for box in page.top["boxes"] if box["type"] == "OpFromGraph")
        inner = page.data["drawings"][box["inner"]]
        (box,) = (box for box in inner["boxes"] if box["type"] == "OpFromGraph")
        self.assertIn("mul", [b["label"] for b in page.data["drawings"][box["inner"]]["boxes"]])

        page = Page(models.loop())
        (box,) = (box for box in page.top["boxes"] if box["type"] == "Scan")
        self.assertIn("add", [b["label"] for b in page.data["drawings"][box["inner"]]["boxes"]])

    def test_formulas(self):
        x, y = T.dvectors("x", "y")
        f = theano.function([x, y], T.tanh(x * y + 1), mode=theano.compile.mode.get_mode("FAST_RUN"))
        page = Page(f)
        (box,) = (box for box in page.top["boxes"] if "inner" in box)
        self.assertIn("tanh", box["label"])
        labels = [b["label"] for b in page.data["drawings"][box["inner"]]["boxes"] if b["kind"] == "apply"]
        self.assertEqual(sorted(labels), ["add", "mul", "tanh"])

    def test_graphs_inside_take_no_more_room_than_they_have(self):
        # Each Op applies the previous Op twice. If all Ops were expanded, the graph would have about 2**40 nodes.
        x = T.dscalar("x")
        op = theano.OpFromGraph([x], [x * 2])
        for _ in range(40):
            op = theano.OpFromGraph([x], [op(x) + op(x)])
        page = Page(op(x))
        self.assertEqual(len(page.data["drawings"]), 42)

    def test_long_graph(self):
        page = Page(models.chain(1500))
        self.assertGreater(page.kinds()["apply"], 6000)

    def test_unused_and_repeated(self):
        x, y = T.dvectors("x", "y")
        f = theano.FunctionGraph([x, y], [x, x, T.exp(x)], clone=True)
        page = Page(f)
        self.assertEqual(page.kinds(), {"input": 1, "unused": 1, "apply": 1, "output": 1})
        self.assertEqual(len(page.top["outputs"]), 3)
        two = T.max_and_argmax(T.dmatrix("m"), axis=1)
        self.assertEqual(Page(two[0], compact=False).kinds()["unused"], 1)

    def test_hostile_names(self):
        name = '</script><img src=x onerror="alert(1)"><!--\u2028{{graph}}\\'
        x = T.dvector(name)
        y = T.exp(x)
        f = theano.function([x], y, name="<b>&amp;{{style}}", mode="FAST_COMPILE")
        page = Page(f)
        self.assertEqual(page.box(name)["label"], name)
        self.assertEqual(page.text.count("</script>"), 2, "the graph and the program")
        self.assertNotIn("<img", page.text)
        self.assertIn("<title>&lt;b&gt;&amp;amp;{{style}}</title>", page.text)

    def test_dependencies(self):
        x = T.dvector("x")
        whole, lean = Page(x + 1).text, Page(x + 1, copy_deps=False).text
        script = (PACKAGE / "page" / "viewer.js").read_text(encoding="utf-8")
        self.assertIn(script, whole)
        self.assertNotIn("src=", whole.replace(script, ""))
        self.assertNotIn("https:", whole.replace(script, ""))
        self.assertNotIn(script, lean)
        self.assertIn('src="%s"' % (PACKAGE / "page" / "viewer.js").as_uri(), lean)
        self.assertLess(len(lean), 20000)

    def test_colors_of_the_formatter(self):
        class Dark(formatting.PyDotFormatter):
            def __init__(self):
                super().__init__()
                self.node_colors["input"] = "black"
                self.apply_colors = {"Dot": "navy"}

        with mock.patch("theano_ng.d3viz.d3viz.PyDotFormatter", Dark):
            x = T.dmatrix("x")
            page = Page(T.dot(x, x))
        self.assertEqual((page.box("x")["color"], page.box("dot")["color"]), ("black", "navy"))

    def test_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.html")
            for wrong in (3, [], [3], "x"):
                with self.assertRaisesRegex(ValueError, "d3viz expects as input a theano.function"):
                    d3v.d3viz(wrong, path)
            self.assertFalse(os.path.exists(path))

    def test_same_page_for_any_hash_seed(self):
        program = (
            "import sys, pathlib, tempfile; from theano_ng import d3viz; from theano_ng.d3viz.tests import models\n"
            "folder = pathlib.Path(tempfile.mkdtemp())\n"
            "for i, graph in enumerate((models.perceptron(), models.nested(), models.loop())):\n"
            "    d3viz.d3viz(graph, folder / 'page.html', copy_deps=False)\n"
            "    sys.stdout.buffer.write((folder / 'page.html').read_bytes())\n"
            "import shutil; shutil.rmtree(folder)\n"
        )
        pages = [
            subprocess.run(
                [sys.executable, "-c", program],
                env={**os.environ, "PYTHONHASHSEED": seed},
                check=True,
                capture_output=True,
            ).stdout
            for seed in ("1", "2")
        ]
        self.assertEqual(*pages)
        self.assertGreater(len(pages[0]), 5000)


class TestTexts(unittest.TestCase):
    def test_replace_patterns_and_safe_json(self):
        module = sys.modules["theano_ng.d3viz.d3viz"]
        self.assertEqual(module.replace_patterns("a+b", {r"\+": "-", "b": "c"}), "a-c")
        self.assertEqual(
            module.safe_json({"a": "</script>", "b": [1, 2.5, None]}), '{"a": "\\u003c/script>", "b": [1, 2.5, null]}'
        )
        self.assertEqual(json.loads(module.safe_json("<!--")), "<!--")

    def test_module_and_function(self):
        import theano_ng.d3viz.d3viz as named

        self.assertTrue(callable(d3v.d3viz))
        self.assertIs(named, d3v.d3viz)
        self.assertIs(named.d3write, d3v.d3write)
        self.assertIs(sys.modules["theano_ng.d3viz.d3viz"].d3viz, d3v.d3viz)

    def test_types(self):
        names = {
            T.dmatrix: "dmatrix",
            T.fvector: "fvector",
            T.iscalar: "iscalar",
            T.zmatrix: "zmatrix",
            T.drow: "drow",
            T.lcol: "lcol",
            T.ctensor4: "complex64 4D",
            T.TensorType("bool", (False,)): "bool vector",
            theano.generic: str(theano.generic),
        }
        self.assertEqual({t: formatting.type_to_str(t) for t in names}, names)
        self.assertEqual([formatting.dtype_to_char(d) for d in ("float32", "int8", "uint8")], ["f", "b", "X"])
        self.assertEqual(formatting.broadcastable_to_str((False, True)), "col")
        self.assertEqual(formatting.broadcastable_to_str((False,) * 3), "")

    def test_variables(self):
        self.assertEqual(formatting.var_label(T.dmatrix("a name")), "a name")
        self.assertEqual(formatting.var_label(T.dmatrix()), "dmatrix")
        self.assertEqual(formatting.var_label(T.constant(1.23456789)), "1.235")
        self.assertEqual(formatting.var_label(T.constant(1.23456789), 5), "1.23457")
        self.assertEqual(formatting.var_label(T.constant(np.eye(30))), "[[1. 0. ... 0. 0.] ...")
        x = T.dvector("x")
        self.assertEqual(formatting.apply_label(T.exp(x).owner), "Elemwise")
        self.assertEqual(formatting.var_tag(x)[2:], ["test_variables", 'x = T.dvector("x")'])
        self.assertIsNone(formatting.apply_profile(T.exp(x).owner, None))


@unittest.skipIf(pydot is None, "pydot is not installed: " + picture.pydot_imported_msg)
class TestPyDotFormatter(unittest.TestCase):
    def kinds(self, graph):
        found = {}
        for node in graph.get_nodes():
            kind = node.get("node_type")
            found[kind] = found.get(kind, 0) + 1
        return found

    def test_expression(self):
        x, y = T.dmatrices("x", "y")
        graph = d3v.formatting.PyDotFormatter()(T.tanh(T.dot(x, y)))
        self.assertIsInstance(graph, pydot.Dot)
        self.assertEqual(self.kinds(graph), {"input": 2, "apply": 2, "output": 1})
        (node,) = (n for n in graph.get_nodes() if n.get("label") == "tanh")
        self.assertEqual(
            (node.get("shape"), node.get("fillcolor"), node.get("apply_op")), ("ellipse", '"#FFAABB"', "Elemwise")
        )
        self.assertEqual(len(graph.get_edges()), 4)
        known = {n.get_name() for n in graph.get_nodes()}
        self.assertLessEqual({end for e in graph.get_edges() for end in (e.get_source(), e.get_destination())}, known)
        self.assertEqual(self.kinds(formatting.PyDotFormatter(compact=False)(T.tanh(T.dot(x, y))))["variable"], 1)
        given = pydot.Dot()
        self.assertIs(formatting.PyDotFormatter()(x + y, given), given)
        self.assertEqual(len(given.get_nodes()), 4)

    def test_effects_and_profile(self):
        f = models.perceptron(ProfileStats(atexit_print=False))
        f(np.ones((20, 6)))
        graph = formatting.PyDotFormatter()(f)
        self.assertEqual({e.get("color") for e in graph.get_edges()}, {None, "red", "dodgerblue"})
        node = next(n for n in graph.get_nodes() if n.get("node_type") == "apply")
        seconds = [float(part) for part in node.get("profile").strip('"').split("\t")]
        self.assertEqual(seconds[1], f.profile.fct_call_time)
        self.assertEqual(formatting.apply_profile(f.maker.fgraph.toposort()[0], f.profile)[1], seconds[1])

    def test_graphs_inside(self):
        graph = formatting.PyDotFormatter()(models.nested())
        (outer,) = graph.get_subgraphs()
        (node,) = (n for n in graph.get_nodes() if n.get("subg"))
        self.assertEqual(node.get("subg"), outer.get_name())
        (inner,) = outer.get_subgraphs()
        self.assertEqual(self.kinds(inner)["apply"], 1)
        pairs = json.loads(node.get("subg_map_inputs").strip('"').replace("'", '"'))
        self.assertEqual(len(pairs), 3)
        names = {n.get_name() for n in graph.get_nodes()}, {n.get_name() for n in outer.get_nodes()}
        for around, inside in pairs:
            self.assertIn(around, names[0])
            self.assertIn(inside, names[1])

    def test_files(self):
        x = T.dvector('a "b" \\ </x>\n{c}')
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "graph.dot")
            d3v.d3write(T.exp(x), path)
            with open(path) as f:
                text = f.read()
            (read,) = pydot.graph_from_dot_data(text)
            self.assertEqual(len(read.get_nodes()), 3 + ("\\n" in [n.get_name() for n in read.get_nodes()]))
            try:
                png = formatting.PyDotFormatter()(models.opfromgraph()).create_png()
            except FileNotFoundError:
                self.skipTest("Graphviz's dot is not installed")
            self.assertTrue(png.startswith(b"\x89PNG"))


class TestWithoutPydot(unittest.TestCase):
    def test_pages_need_none(self):
        x = T.dvector("x")
        with mock.patch.dict(sys.modules, {"pydot": None, "pydot_ng": None, "pydotplus": None}):
            self.assertFalse(formatting.pydot_imported)
            Page(T.exp(x))
            with self.assertRaisesRegex(ImportError, r"Failed to import pydot.*pip install 'theano_ng\[viz\]'"):
                formatting.PyDotFormatter()(x)


class TestBundle(unittest.TestCase):
    """The page's program was built from the sources and versions in its folder."""

    @unittest.skipUnless((SOURCES / "src").is_dir(), "an installed package has no sources of the page's program")
    def test_built_from_what_is_here(self):
        with open(PACKAGE / "page" / "viewer.js", encoding="utf-8") as f:
            head = f.readline()
        digest = hashlib.sha256()
        for path in sorted((SOURCES / "src").iterdir()):
            digest.update(path.name.encode())
            digest.update(path.read_bytes())
        self.assertIn("Sources: %s " % digest.hexdigest(), head, "run: npm ci && npm run build, in %s" % (SOURCES))
        pinned = json.loads((SOURCES / "package.json").read_text())["devDependencies"]
        for name, version in pinned.items():
            self.assertRegex(version, r"^\d+\.\d+\.\d+$")
            if name != "esbuild":
                self.assertIn("%s %s" % (name, version), head)

    def test_licences(self):
        with open(PACKAGE / "page" / "viewer.js", encoding="utf-8") as f:
            modules = re.findall(r"(d3-\w+ [\d.]+\d)", f.readline())
        text = (PACKAGE / "page" / "LICENSES.txt").read_text(encoding="utf-8")
        self.assertGreater(len(modules), 5)
        for module in modules:
            self.assertIn("\n%s\n" % module, text)
        self.assertGreaterEqual(text.count("Copyright"), len(modules))


if __name__ == "__main__":
    unittest.main()
