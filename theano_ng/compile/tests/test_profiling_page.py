"""Tests of profiles as HTML pages."""

import html.parser
import io
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile import profiling, profiling_page
from theano_ng.compile.profiling import ProfileStats
from theano_ng.configdefaults import config

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
HOSTILE = "</script><script>document.title='taken over'</script><img src=x onerror=alert(1)>&\"'\u2028"


def profiled(calls=3, name="train", memory=True, **flags):
    """Return a profiled function of two products and a sum, after some calls."""
    x, w = T.dmatrix("x"), theano.shared(np.ones((30, 20)), "w")
    hidden = T.tanh(T.dot(x, w))  # the line with most of the nodes
    cost = T.sqr(T.dot(hidden, w.T) - x).sum()
    profile = ProfileStats(atexit_print=False, message=name)
    with config.change_flags({"profile_memory": memory, **flags}):
        f = theano.function([x], cost, updates=[(w, w * 0.5)], mode="FAST_RUN", profile=profile, name=name)
        for _ in range(calls):
            f(np.ones((40, 30)))
    return f


class Structure(html.parser.HTMLParser):
    """A parser that collects a page's elements, references and script text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.references, self.texts, self.inside = [], [], {}, None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append(tag)
        self.inside = tag
        self.references += [value for name, value in attributes if name in ("src", "href", "action", "data")]

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, text):
        self.texts.setdefault(self.inside, []).append(text)


class TestContents(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.f = profiled()
        cls.data = profiling_page.contents(cls.f.profile)

    def test_sums(self):
        profile, data = self.f.profile, self.data
        total = sum(profile.apply_time.values())
        for table in ("nodes", "ops", "classes"):
            self.assertAlmostEqual(sum(row["seconds"] for row in data[table]), total, places=12)
            self.assertEqual(sum(row["calls"] for row in data[table]), sum(profile.apply_callcount.values()))
            self.assertEqual(sum(row["bytes"] for row in data[table]), sum(node["bytes"] for node in data["nodes"]))
        for table in ("ops", "classes", "lines"):
            self.assertEqual(sum(row["nodes"] for row in data[table]), len(self.f.maker.fgraph.apply_nodes))
        self.assertEqual(data["calls"]["thunks"], total)
        self.assertEqual(data["calls"]["count"], 3)
        self.assertAlmostEqual(sum(data["calls"]["times"]), profile.fct_call_time, places=12)
        self.assertGreaterEqual(data["calls"]["seconds"], data["calls"]["running"])
        self.assertGreaterEqual(data["calls"]["running"], total)

    def test_nodes(self):
        order = self.f.profile.node_executed_order
        self.assertEqual([node["text"] for node in self.data["nodes"]], [str(node) for node in order])
        self.assertEqual([node["id"] for node in self.data["nodes"]], list(range(len(order))))
        product = next(node for node in self.data["nodes"] if node["op"] == "Dot22")
        self.assertEqual(product["inputs"][0]["shape"], "(40, 30)")
        self.assertEqual((product["bytes"], product["outputs"][0]["memory"]), (40 * 20 * 8, "c"))
        self.assertEqual(product["class"], "theano_ng.tensor.blas.ops.Dot22")
        ops = {row["name"]: row for row in self.data["ops"]}
        self.assertEqual(ops["Dot22"]["calls"], 3 * ops["Dot22"]["nodes"])

    def test_lines(self):
        texts = [line["text"] for line in self.data["lines"]]
        self.assertIn("hidden = T.tanh(T.dot(x, w))  # the line with most of the nodes", texts)
        for line in self.data["lines"]:
            self.assertEqual((line["file"], line["function"]), (__file__, "profiled"))
        product = next(node for node in self.data["nodes"] if node["op"] == "Dot22")
        self.assertIn("T.dot(", self.data["lines"][product["line"]]["text"])

    def test_memory(self):
        (run,) = self.data["runs"]
        memory = run["memory"]
        self.assertEqual(run["nodes"], list(range(len(self.data["nodes"]))))
        self.assertEqual(memory["held"][memory["at"]], memory["peak"])
        self.assertEqual(sum(value["bytes"] for value in memory["alive"]), memory["peak"])
        self.assertEqual(memory["kept"], sorted(memory["kept"]))  # without freeing, memory only grows
        self.assertEqual(memory["peak_without_freeing"], memory["kept"][-1])
        self.assertTrue(all(held <= kept for held, kept in zip(memory["held"], memory["kept"])))
        report = io.StringIO()
        self.f.profile.summary_memory(report)
        for name, key in (("True", "peak"), ("False", "peak_without_freeing")):
            self.assertIn("if allow_gc is %s: %dKB" % (name, round(memory[key] / 1024)), report.getvalue())
        self.assertGreaterEqual(memory["peak"], 40 * 30 * 8)

    def test_without_memory(self):
        data = profiling_page.contents(profiled(1, memory=False).profile)
        self.assertEqual([run["memory"] for run in data["runs"]], [None])
        self.assertGreater(len(data["nodes"]), 3)

    def test_compilation(self):
        f = profiled(0, profile=True, profile_optimizer=True)
        data = profiling_page.contents(f.profile)
        compilation = data["compilation"]
        self.assertEqual(data["calls"]["count"], 0)
        self.assertEqual(compilation["nodes"], len(f.maker.fgraph.apply_nodes))
        self.assertGreater(compilation["seconds"], compilation["rewriting"] + compilation["linking"])
        phases = {row["name"]: row for row in compilation["rewrites"]}
        self.assertLessEqual(sum(row["seconds"] for row in phases.values()), compilation["rewriting"])
        rules = {row["name"]: row for row in phases["canonicalize"]["inside"]}
        self.assertTrue(any(rule["applied"] for rule in rules.values()))
        self.assertLessEqual(sum(rule["seconds"] for rule in rules.values()), phases["canonicalize"]["seconds"])
        self.assertIsNone(self.data["compilation"]["rewrites"])

    def test_loops(self):
        profile, v = ProfileStats(atexit_print=False), T.dvector("v")
        before = list(profiling._atexit_print_list)
        try:
            steps, _ = theano.scan(lambda v, s: T.tanh(s) + v, v, np.float64(0), name="sums", profile=True)
            f = theano.function([v], steps, mode="FAST_RUN", profile=profile)
            f(np.ones(5))
            f(np.ones(5))
        finally:
            profiling._atexit_print_list[:] = before
        (loop,) = profiling_page.contents(profile)["loops"]
        self.assertEqual((loop["title"], loop["calls"]["kind"]), ("Profile of the loop sums", "loop"))
        self.assertEqual((loop["calls"]["count"], loop["calls"]["steps"]), (2, 10))
        self.assertEqual({node["calls"] for node in loop["nodes"]}, {10})
        self.assertEqual(len(loop["calls"]["times"]), 2)
        self.assertAlmostEqual(sum(loop["calls"]["times"]), loop["calls"]["seconds"], places=12)

    def test_never_called_and_combined(self):
        empty = profiling_page.contents(ProfileStats(atexit_print=False))
        self.assertEqual((empty["title"], empty["nodes"], empty["runs"]), ("Profile of a function", [], []))
        f, g = profiled(1, "f"), profiled(2, "g")
        both = profiling_page.contents(ProfileStats.combined([f.profile, g.profile], "both"))
        self.assertEqual((both["title"], both["calls"]["count"], len(both["runs"])), ("Profile of both", 3, 2))
        self.assertEqual(len(both["nodes"]), 2 * len(f.maker.fgraph.apply_nodes))


class TestCalls(unittest.TestCase):
    def test_many(self):
        profile = ProfileStats(atexit_print=False)
        for _ in range(5 * profiling.MAX_CALL_TIMES + 3):
            profile.note_call(1.0)
        self.assertEqual(profile.calls_per_time, 8)
        self.assertLessEqual(len(profile.call_times), profiling.MAX_CALL_TIMES)
        self.assertEqual(sum(profile.call_times), 5 * profiling.MAX_CALL_TIMES + 3)
        self.assertEqual(set(profile.call_times[:-1]), {8.0})
        self.assertEqual(profile.call_times[-1], profile.calls_on_page()["last"])
        profile.reset()
        self.assertEqual((profile.call_times, profile.calls_per_time, profile.calls_left), ([], 1, 0))


class TestPage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.f = profiled(2, HOSTILE)
        out = io.StringIO()
        cls.f.profile.to_html(out)
        cls.text = out.getvalue()

    def test_self_contained(self):
        page = Structure(self.text)
        self.assertEqual(page.references, [])
        self.assertIn("default-src 'none'", self.text)
        self.assertNotRegex(self.text, r"@import|url\(|https?://(?!www\.w3\.org/2000/svg)")

    def test_hostile_names(self):
        page = Structure(self.text)
        self.assertEqual(page.elements.count("script"), 2)
        self.assertNotIn("img", page.elements)
        self.assertEqual("".join(page.texts["title"]), "Profile of " + HOSTILE)
        (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', self.text, re.DOTALL)
        self.assertNotRegex(data, "[<>&\u2028]")
        self.assertEqual(json.loads(data)["title"], "Profile of " + HOSTILE)

    def test_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "profile.html")
            self.f.profile.to_html(path)
            with open(path, encoding="utf-8") as file:
                self.assertEqual(file.read(), self.text)

    @unittest.skipUnless(CHROMIUM, "the page is not looked at: there is no Chromium")
    def test_in_a_browser(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "profile.html")
            # The probe writes script errors into the page, and clicks everything that can be clicked.
            probe = (
                "<script>addEventListener('error', e => document.body.append('PROBLEM ' + e.message));"
                "addEventListener('load', () => { for (const name of ['By class', 'By line of the program', 'By node'])"
                " [...document.querySelectorAll('button')].find(b => b.textContent === name).click();"
                " document.querySelector('tr.opens').click(); document.querySelector('th').click(); });</script>"
            )
            with open(path, "w", encoding="utf-8") as file:
                file.write(self.text.replace("<noscript>", probe + "<noscript>", 1))
            done = subprocess.run(
                [
                    *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
                    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
                    *("--user-data-dir=" + os.path.join(folder, "user"), "--virtual-time-budget=2000", "--dump-dom"),
                    "file://" + path,
                ],
                capture_output=True,
                text=True,
                timeout=120,
                env={**os.environ, "HOME": folder, "TMPDIR": folder},
            )
        seen = Structure(done.stdout)
        text = " ".join(part for tag, parts in seen.texts.items() if tag not in ("script", "style") for part in parts)
        self.assertNotIn("PROBLEM", text)
        self.assertIn("Profile of " + HOSTILE.replace("\u2028", "")[:40], text)
        for wanted in (
            "Where the time goes",
            "One call, node by node",
            "Call by call",
            "Compilation",
            "Dot22",
            "peak ",
        ):
            self.assertIn(wanted, text)
        self.assertIn("hidden = T.tanh(T.dot(x, w))", text)
        self.assertIn("dl", seen.elements)  # details of a node
        self.assertGreater(seen.elements.count("svg"), 1)
        self.assertNotIn("img", seen.elements)
        data = profiling_page.contents(self.f.profile)
        rows = len(data["nodes"]) + len(data["runs"][0]["memory"]["alive"])
        self.assertEqual(seen.elements.count("tr"), rows + 3)  # two header rows and a details row


if __name__ == "__main__":
    unittest.main()
