"""Tests of pages in a browser: their appearance and interaction."""

import pathlib
import tempfile
import unittest

import numpy as np

import theano_ng.d3viz as d3v
import theano_ng.tensor as T
from theano_ng.compile.profiling import ProfileStats
from theano_ng.d3viz.tests import browser, models

ENTER, ESCAPE = "\ue007", "\ue00c"


@unittest.skipIf(browser.missing(), browser.missing())
class TestPage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)

    def open(self, fct, **kwargs):
        path = pathlib.Path(self.folder.name, "page.html")
        d3v.d3viz(fct, path, **kwargs)
        self.browser.requests(), self.browser.messages()
        self.browser.open(path)
        return self.browser

    def count(self, selector):
        return self.browser.run("return document.querySelectorAll(arguments[0]).length", selector)

    def share(self, *colors):
        """Return the number of pixels of a color in a screenshot. For several colors, return the smallest number."""
        return min(self.browser.count_pixels(self.browser.screenshot(), colors))

    def tearDown(self):
        self.assertEqual(self.browser.messages(), [], "the console was told something")
        asked = [
            address for address in self.browser.requests() if not address.startswith(("file:", "data:", "chrome:"))
        ]
        self.assertEqual(asked, [], "the page asked the network")

    def transform(self):
        return self.browser.run("return document.querySelector('#graph > g').getAttribute('transform')")

    def test_function(self):
        b = self.open(models.perceptron())
        self.assertEqual(b.run("return document.title"), "predict")
        self.assertEqual(self.count(".node"), self.count(".node.apply") + self.count(".node:not(.apply)"))
        self.assertIn("6 ops", b.run("return document.getElementById('summary').textContent"))
        self.assertGreater(self.count(".edge.destroyed"), 0)
        self.assertGreater(self.count(".edge.viewed"), 0)
        # Count limegreen inputs, yellowgreen shared variables, dodgerblue outputs, pink elementwise Ops and red arrows.
        self.assertGreater(self.share((50, 205, 50), (154, 205, 50), (30, 144, 255), (255, 170, 187), (255, 0, 0)), 20)
        inside = b.run(
            "const r = document.getElementById('graph').getBoundingClientRect();"
            "return [...document.querySelectorAll('.node')].every(n => { const q = n.getBoundingClientRect();"
            " return q.left >= r.left && q.right <= r.right && q.top >= r.top && q.bottom <= r.bottom })"
        )
        self.assertTrue(inside, "the whole graph is in the window")

    def test_nodes_do_not_overlap(self):
        b = self.open(models.perceptron())
        overlapping = b.run(
            "const all = [...document.querySelectorAll('.node > .shape')].map(n => n.getBoundingClientRect());"
            "return all.some((p, i) => all.some((q, k) => k > i && p.left < q.right && q.left < p.right && p.top < q.bottom && q.top < p.bottom))"
        )
        self.assertFalse(overlapping)

    def test_open_and_close(self):
        b = self.open(models.nested())
        before = self.count(".node")
        self.assertEqual(self.count(".node.expandable"), 1)
        b.double_click(".node.expandable")
        self.assertEqual(self.count(".node.open"), 1)
        opened = self.count(".node")
        self.assertGreater(opened, before)
        self.assertEqual(self.count(".through path"), 4, "three inputs and an output come through the border")
        self.assertGreater(self.share((243, 246, 250)), 5000, "the shaded area")
        b.click("#fit")
        b.wait("return !document.getElementById('graph').__transition")
        b.double_click(".node.open .node.expandable")
        self.assertEqual(self.count(".node.open .node.open"), 1)
        # Close the outer graph by a double click on its title.
        x, y = b.place(".node.open > text.title")
        b.mouse((x, y), "down", "up", "down", "up")
        self.assertEqual(self.count(".node"), before)

    def test_loop(self):
        b = self.open(models.loop())
        b.double_click(".node.expandable")
        labels = b.run("return [...document.querySelectorAll('.node.open .node > text')].map(t => t.textContent)")
        self.assertIn("add", labels)

    def test_tooltips(self):
        x = T.dmatrix("<i>x</i>")
        b = self.open(T.tanh(x))
        b.mouse(b.place(".node.input"))
        text = b.wait("const t = document.getElementById('tip'); return !t.hidden && t.textContent")
        for part in ("Input <i>x</i>", "TensorType(float64, matrix)", "test_page.py:", "in test_tooltips"):
            self.assertIn(part, text)
        self.assertEqual(self.count("#tip i"), 0)
        b.mouse((5, 400))
        b.wait("return document.getElementById('tip').hidden")
        b.mouse(b.place(".edge path.line"))
        text = b.wait("const t = document.getElementById('tip'); return !t.hidden && t.textContent")
        self.assertIn("dmatrix", text)

    def test_search(self):
        b = self.open(models.chain(100))
        before = self.transform()
        b.type("#search", "tanh")
        self.assertEqual(b.run("return document.getElementById('found').textContent"), "100 found")
        self.assertEqual(self.count(".node.hit"), 100)
        b.type("#search", ENTER)
        self.assertEqual(b.run("return document.getElementById('found').textContent"), "1 of 100")
        self.assertNotEqual(self.transform(), before)
        b.type("#search", ENTER)
        self.assertEqual(b.run("return document.getElementById('found').textContent"), "2 of 100")
        b.type("#search", ESCAPE)
        self.assertEqual(self.count(".node.hit"), 0)
        b.type("#search", "no such thing")
        self.assertEqual(b.run("return document.getElementById('found').textContent"), "nothing found")

    def test_search_inside(self):
        b = self.open(models.nested())
        b.type("#search", "mul")
        self.assertEqual((self.count(".node.hit"), self.count(".node.holds-hit")), (0, 1))
        b.type("#search", ENTER)
        b.type("#search", ENTER)
        self.assertEqual((self.count(".node.open"), self.count(".node.hit")), (2, 1))

    def test_profile(self):
        f = models.perceptron(ProfileStats(atexit_print=False))
        f(np.ones((300, 6)))
        b = self.open(f)
        self.assertGreater(self.share((255, 170, 187)), 20)
        b.click("#profile")
        b.mouse((5, 400))
        self.assertEqual(self.share((255, 170, 187)), 0)
        self.assertGreater(self.share((215, 48, 31)), 50, "the node that takes most time is red")
        b.mouse(b.place(".node.apply"))
        text = b.wait("const t = document.getElementById('tip'); return !t.hidden && t.textContent")
        self.assertRegex(text, r"Time[\d.]+ (µs|ms|s), [\d.]+ % of all nodes; 1 runs in C")
        b.click("#profile")
        b.mouse((5, 400))
        self.assertGreater(self.share((255, 170, 187)), 20)
        self.open(models.opfromgraph())
        self.assertTrue(b.run("return document.getElementById('profile').hidden"))

    def test_mouse(self):
        b = self.open(models.perceptron())
        first = self.transform()
        b.wheel(640, 300, -200)
        b.wait("return document.querySelector('#graph > g').getAttribute('transform') !== arguments[0]", first)
        scale = float(self.transform().rpartition("scale(")[2].rstrip(")"))
        self.assertGreater(scale, float(first.rpartition("scale(")[2].rstrip(")")))
        b.mouse((1200, 100), "down", (1100, 150), (1000, 200), "up")
        self.assertNotEqual(self.transform(), first)
        b.click("#fit")
        b.wait("return document.querySelector('#graph > g').getAttribute('transform') === arguments[0]", first)
        # If the mouse drags a node, the edges of the node move with it.
        x, y = b.place(".node.input")
        lines = "return [...document.querySelectorAll('.edge path.line')].map(p => p.getAttribute('d')).join()"
        before = b.run(lines)
        b.mouse((x, y), "down", (x + 30, y + 10), (x + 60, y + 20), "up")
        self.assertEqual(b.place(".node.input"), [x + 60, y + 20])
        self.assertNotEqual(before, b.run(lines))
        b.click("#reset")
        b.wait("return document.querySelector('#graph > g').getAttribute('transform') === arguments[0]", first)
        self.assertEqual(b.place(".node.input"), [x, y])
        b.click("#release")
        b.wait(
            "const r = document.querySelector('.node.input').getBoundingClientRect();"
            "return Math.abs(r.x + r.width / 2 - arguments[0]) + Math.abs(r.y + r.height / 2 - arguments[1]) > 4",
            x,
            y,
        )
        b.click("#reset")
        b.wait("return document.querySelector('#graph > g').getAttribute('transform') === arguments[0]", first)
        self.assertEqual(b.place(".node.input"), [x, y])

    def test_neighbours(self):
        b = self.open(models.perceptron())
        b.click(".node.input")
        self.assertEqual(self.count(".node.near"), 1)
        self.assertGreater(self.count(".node.faded"), 3)
        b.click(".node.input")
        self.assertEqual(self.count(".node.faded"), 0)

    def test_menu(self):
        b = self.open(models.nested())
        b.mouse(b.place(".node.expandable"), "menu")
        entries = b.run("return [...document.querySelectorAll('#menu button')].map(e => e.textContent)")
        self.assertEqual(entries, ["Edit label", "Open", "Show neighbours"])
        b.click("#menu button")
        b.type("#menu input", "\ue009a\ue000mine" + ENTER)
        self.assertEqual(b.run("return document.querySelector('.node.expandable text').textContent"), "mine")
        b.mouse(b.place(".node.expandable"), "menu")
        b.click("#menu button:nth-child(2)")
        self.assertEqual(self.count(".node.open"), 1)
        self.assertEqual(b.run("return document.querySelector('.node.open > text').textContent"), "mine")

    def test_large(self):
        b = self.open(models.chain(250))
        self.assertGreater(self.count(".node"), 1000)
        layout = float(b.run("return document.getElementById('graph').dataset.layoutMs"))
        self.assertLess(layout, 2000, "it takes 0.2 s")
        shown = "return [...document.querySelectorAll('.node')].filter(n => n.style.display !== 'none').length"
        b.wait(shown.replace("return", "return 200 >") + " && true")
        self.assertGreater(b.run(shown), 5, "what is in the window")
        # Initially, nodes are large enough to be read; the whole graph is shown on demand.
        self.assertGreater(b.run("return document.querySelector('.node.input').getBoundingClientRect().height"), 12)
        b.click("#fit")
        b.wait(shown.replace("return", "return 1000 <"))

    def test_dependencies_elsewhere(self):
        b = self.open(models.nested(), copy_deps=False)
        self.assertGreater(self.count(".node"), 3)
        self.assertEqual(b.run("return getComputedStyle(document.body).display"), "flex")


if __name__ == "__main__":
    unittest.main()
