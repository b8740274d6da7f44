import contextlib
import io
import os
import re
import tempfile
import unittest

from theano_ng.compile import profiling
from theano_ng.compile.io import In
from theano_ng.compile.mode import Mode
from theano_ng.compile.pfunc import pfunc
from theano_ng.compile.profiling import ProfileStats, ScanProfileStats
from theano_ng.compile.profiling_memory import GraphMemory
from theano_ng.configdefaults import config
from theano_ng.gof import vm
from theano_ng.gof.tests.floats import add, buffer, mul, number, shift, shift_inplace, view

SECONDS = r"\d\.\d+e[-+]\d+s"


def printed(profile, **kwargs):
    out = io.StringIO()
    profile.summary(file=out, **kwargs)
    return out.getvalue()


class TestProfile(unittest.TestCase):
    def function(self, use_cloop=True, **kwargs):
        x = number("x")
        profile = ProfileStats(atexit_print=False, message="file.py:3")
        f = pfunc(
            [x],
            mul(add(x, 1), add(x, 2)),
            mode=Mode(vm.VM_Linker(use_cloop=use_cloop), None),
            profile=profile,
            **kwargs,
        )
        return f, profile

    def test_report(self):
        for use_cloop in (True, False):
            f, profile = self.function(use_cloop)
            self.assertIs(f.profile, profile)
            f(1)
            f(2)
            text = printed(profile)
            expected = [
                "Function profiling",
                "==================",
                "  Message: file.py:3",
                "  Time in 2 calls to Function.__call__: SECONDS",
                r"  Time in Function.fn.__call__: SECONDS \(\d+\.\d{3}%\)",
                r"  Time in thunks: SECONDS \(\d+\.\d{3}%\)",
                "  Total compile time: SECONDS",
                "    Number of Apply nodes: 3",
                "    Theano Optimizer time: SECONDS",
                "       Theano validate time: SECONDS",
                r"    Theano Linker time \(includes C, CUDA code generation/compiling\): SECONDS",
                "       Import time SECONDS",
                "       Node make_thunk time SECONDS",
                "",
                r"Time in all call to theano.grad\(\) SECONDS",
                r"Time since theano import \d+\.\d{3}s",
                "Class",
                "---",
                "<% time> <sum %> <apply time> <time per call> <type> <#call> <#apply> <Class name>",
                r" *100.0% +100.0% +0.\d{3}s +\d\.\d\de-\d\ds +Py +6 +3 +theano_ng.gof.tests.floats.Compute",
                r"   ... \(remaining 0 Classes account for +0.00%\(0.00s\) of the runtime\)",
                "",
                "Ops",
                "---",
                "<% time> <sum %> <apply time> <time per call> <type> <#call> <#apply> <Op name>",
            ]
            for line, pattern in zip(text.split("\n"), expected):
                self.assertRegex(line, "^%s$" % pattern.replace("SECONDS", SECONDS))
            self.assertIn("   ... (remaining 0 Ops account for   0.00%(0.00s) of the runtime)", text)
            self.assertRegex(
                text, r"Apply\n-+\n<% time> <sum %> <apply time> <time per call> <#call> <id> <Apply name>\n"
            )
            self.assertRegex(text, r"s +2 +2 +mul\(add.0, add.0\)\n")
            self.assertIn("   ... (remaining 0 Apply instances account for 0.00%(0.00s) of the runtime)", text)
            self.assertEqual(
                [profile.op_callcount()[add], profile.op_nodes()[add], profile.op_impl()[mul].strip()], [4, 2, "Py"]
            )
            total = profile.compute_total_times()
            self.assertAlmostEqual(max(total.values()), sum(profile.apply_time.values()))

    def test_tables_are_cut(self):
        f, profile = self.function()
        f(1)
        text = printed(profile, n_ops_to_print=1, n_apply_to_print=2)
        self.assertIn("(remaining 1 Ops account for", text)
        self.assertIn("(remaining 1 Apply instances account for", text)

    def test_never_called(self):
        f, profile = self.function()
        text = printed(profile)
        self.assertIn("Time in 0 calls to Function.__call__: 0.000000e+00s\n  Total compile time", text)
        self.assertNotIn("Class\n", text)
        self.assertGreater(profile.compile_time, 0)

    def test_default_stream_and_flags(self):
        with config.change_flags({"profiling.ignore_first_call": True, "profiling.debugprint": False}):
            f, profile = self.function()
            f(1)
            self.assertEqual((profile.fct_callcount, profile.apply_time), (0, {}))
            f(1)
            g = f.copy(profile=profile)  # shares the profile, but has its own first call
            times = dict(profile.apply_time)
            g(1)
            self.assertEqual((profile.fct_callcount, profile.apply_time), (1, times))
            g(1)
        self.assertEqual(profile.fct_callcount, 2)
        self.assertEqual(len(profile.apply_time), 2 * len(times))
        out = io.StringIO()
        with contextlib.redirect_stderr(out):
            profile.summary()
        self.assertIn("Function profiling", out.getvalue())
        seen = []
        profiling.register_profiler_printer(lambda *args: seen.append(args[0]))
        try:
            printed(profile)
        finally:
            profiling._profiler_printers.pop()
        self.assertEqual(seen, ["file.py:3"])

    def test_sum_and_exit(self):
        (f, p), (g, q) = self.function(), self.function()
        f(1)
        g(1)
        g(1)
        both = ProfileStats.combined([p, q], "both")
        self.assertEqual((both.fct_callcount, both.nb_nodes, len(both.apply_time)), (3, 6, 6))
        self.assertIn("Message: both", printed(both))
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        name = os.path.join(folder.name, "profile.txt")
        old, profiling._atexit_print_list[:] = profiling._atexit_print_list[:], [p, q]
        try:
            with config.change_flags({"profile": True, "profiling.destination": name}):
                profiling._atexit_print_fn()
        finally:
            profiling._atexit_print_list[:] = old
        with open(name) as file:
            text = file.read()
        self.assertEqual(text.count("Function profiling"), 3)
        self.assertIn("Sum of all(2) printed profiles at exit excluding Scan op profile.", text)
        self.assertIn("Time spent in Theano functions", text)

    def test_scan_profile(self):
        profile = ScanProfileStats(atexit_print=False, name="scan_fn", message="inner")
        self.assertEqual(printed(profile).split("\n")[0], "Here are tips to potentially make your code run faster")
        profile.callcount, profile.nbsteps, profile.call_time, profile.vm_call_time, profile.fct_callcount = (
            2,
            20,
            0.5,
            0.25,
            2,
        )
        text = printed(profile)
        self.assertIn("Scan Op profiling ( scan_fn )", text)
        self.assertIn("Time in 2 calls of the op (for a total of 20 steps) 5.000000e-01s", text)
        self.assertIn("(50.000%)", text)


class TestMemory(unittest.TestCase):
    def test_report(self):
        x = buffer("x")
        a = shift(x, 1)  # a new list
        b = shift_inplace(a, 1)  # overwrites the list of `a`
        c = view(b)
        d = shift(c, 1)  # a second list; the first one is freed
        e = shift(d, 1)  # a third list
        with config.change_flags(profile=True, profile_memory=True):
            profile = ProfileStats(atexit_print=False, message="m")
            f = pfunc([x], e, mode=Mode(vm.VM_Linker(use_cloop=True), None), profile=profile, accept_inplace=True)
            f([0.0] * 1024)
            memory = GraphMemory(profile, profile.node_executed_order)
            self.assertEqual((memory.peak(), memory.peak(free=False)), (2 * 8192, 3 * 8192))
            self.assertEqual(len(memory.frugal_order()), 5)
            self.assertEqual(sum(memory.inputs.values()), 8192)
            with config.change_flags({"profiling.min_peak_memory": True}):
                text = printed(profile)
        for line in (
            "Max peak memory if allow_gc is True: 16KB",
            "Max peak memory if allow_gc is False: 24KB",
            "Min peak memory of the execution orders that were tried: 16KB",
            "Memory of the inputs: 8KB",
        ):
            self.assertIn(line, text)
        rows = re.findall(r"^ +8192B  \[1024\] (\w) ", text, re.M)
        self.assertEqual(sorted(rows), ["c", "c", "c", "i", "v"])

    def test_frugal_order(self):
        # two long branches: running one after the other needs less memory than alternating between them
        x = buffer("x")
        bigs = [shift(x, i) for i in (1, 2)]
        out = [shift(shift(big, 1), 1) for big in bigs]
        with config.change_flags(profile=True, profile_memory=True):
            profile = ProfileStats(atexit_print=False)
            f = pfunc([In(x)], out, mode=Mode(vm.VM_Linker(use_cloop=True), None), profile=profile)
            f([0.0] * 8)
        nodes = profile.node_executed_order
        memory = GraphMemory(profile, nodes)
        depth = {
            n: (0 if n.inputs[0].owner is None else 1 if n.inputs[0].owner.inputs[0].owner is None else 2)
            for n in nodes
        }
        wide = sorted(nodes, key=depth.get)
        self.assertEqual((memory.peak(wide), memory.peak(memory.frugal_order())), (4 * 64 - 64 + 0, 3 * 64))


if __name__ == "__main__":
    unittest.main()
