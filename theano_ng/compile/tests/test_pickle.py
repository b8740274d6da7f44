"""Tests of pickles of functions, graphs, modes and profiles.

The tests load pickles in other processes, without caches. They also pickle very deep graphs, and objects that cannot be
pickled.
"""

import base64
import copy
import io
import os
import pickle
import pickletools
import tempfile
import unittest
import zlib

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.compile.builders import OpFromGraph
from theano_ng.compile.debugmode import DebugMode
from theano_ng.compile.function_module import Supervisor
from theano_ng.compile.mode import Mode, get_mode, predefined_linkers, predefined_modes
from theano_ng.compile.monitormode import MonitorMode
from theano_ng.compile.tests.pickled_functions import MODES
from theano_ng.compile.tests.test_graph_cache import run_process
from theano_ng.gof import graph
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.opt import MergeOptimizer
from theano_ng.ifelse import ifelse
from theano_ng.misc import pkl_utils

CODE = "from theano_ng.compile.tests.pickled_functions import main; main()"


class TestSecondProcess(unittest.TestCase):
    def test_functions(self):
        with tempfile.TemporaryDirectory() as folder:
            saved = run_process(folder, 1, "dump", folder, code=CODE)
            loaded = run_process(folder, 2, "load", folder, code=CODE)
            again = run_process(folder + ",reoptimize_unpickled_function=True", 3, "load", folder, code=CODE)
        self.assertEqual(len(loaded), 3 * len(MODES))
        for key in loaded:
            mode = key.split()[0]
            with self.subTest(function=key):
                # An unpickled function is rewritten only if the flag is set. In this case, DebugMode rewrites it
                # several times.
                self.assertEqual(loaded[key], [saved[mode], 0, "named"])
                self.assertEqual(again[key], [saved[mode], 2 if mode == "DebugMode" else 1, "named"])

    def test_function_dump(self):
        x, y = T.dscalar("x"), T.dvector("y")
        w = theano.shared(np.arange(3.0), name="w")
        x.tag.test_value, y.tag.roles, y.tag.kept = 1.0, "role", "kept"
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "call.pkl")
            theano.function_dump(
                path,
                [x, theano.In(y, value=np.ones(3))],
                {"out": (y * w * x).sum()},
                updates=[(w, w * x)],
                name="f",
                mode="FAST_COMPILE",
                on_unused_input="warn",
                extra_tag_to_remove=["roles"],
            )
            code = (
                "import json, pickle, sys, theano_ng\nd = pickle.load(open(sys.argv[1], 'rb'))\nf = theano_ng.function(**d)\n"
                "print(json.dumps([float(f(2)['out']), float(f(2)['out']), f.name, d['inputs'][1].variable.tag.__dict__]))"
            )
            self.assertEqual(run_process(folder, 0, path, code=code), [6.0, 12.0, "f", {"kept": "kept"}])
            y.tag.kept = lambda: None
            self.assertRaisesRegex(
                pickle.PicklingError, "tag.kept of the variable y", theano.function_dump, path, [x, y], y * x
            )
            self.assertFalse(os.path.exists(path))  # no partial pickle is left


class TestParts(unittest.TestCase):
    def test_deep_graphs(self):
        x = T.dvector("x")
        y = x
        for _ in range(4000):
            y = y + x
        stripped = io.BytesIO()
        pkl_utils.StripPickler(stripped, -1).dump([y])
        for back in (pickle.loads(pickle.dumps(y)), pickle.loads(stripped.getvalue())[0], copy.deepcopy(y)):
            count = 0
            while back.owner is not None:
                back, count = back.owner.inputs[0], count + 1
            self.assertEqual((back.name, count), ("x", 4000))

    def test_modes_and_linkers(self):
        for linker in predefined_linkers.values():
            self.assertIs(type(pickle.loads(pickle.dumps(linker))), type(linker))
        x = T.dvector("x")
        for name in predefined_modes:
            mode = pickle.loads(pickle.dumps(get_mode(name)))
            self.assertIs(type(mode), type(get_mode(name)))
            np.testing.assert_array_equal(theano.function([x], x + 1, mode=mode)([1.0]), [2.0])
        query = pickle.loads(
            pickle.dumps(Mode("py", "fast_run").including("a").excluding("b").requiring("c"))
        )._optimizer
        self.assertEqual(
            [list(query.include), list(query.exclude), list(query.require)], [["fast_run", "a"], ["b"], ["c"]]
        )

    def test_test_values(self):
        x = T.dvector("x")
        x.tag.test_value = np.ones(2)
        for keep in (True, False):
            with theano.config.change_flags(pickle_test_value=keep):
                self.assertEqual(hasattr(pickle.loads(pickle.dumps(x * 2)).owner.inputs[0].tag, "test_value"), keep)

    def test_profiles(self):
        x = T.dvector("x")
        profile = theano.ProfileStats(atexit_print=False, message="both")
        f, g = (theano.function([x], x + k, profile=profile) for k in (1, 2))
        f([1.0]), g([1.0])
        f2, g2, plain = pickle.loads(pickle.dumps((f, g, theano.function([x], x))))
        f2([1.0]), g2([1.0]), g2([1.0])
        self.assertIs(f2.profile, g2.profile)  # still shared, but separate from the original profile
        self.assertEqual(
            (profile.fct_callcount, f2.profile.fct_callcount, f2.profile.message, f2.profile.atexit_print),
            (2, 3, "both", False),
        )
        self.assertIsNone(plain.profile)
        self.assertIs(copy.copy(f).profile, profile)
        self.assertEqual(pickle.loads(pickle.dumps(profile)).fct_callcount, 2)


def fused(n):
    """Return elementwise operations, which fusion combines into few large Composites."""
    x = y = T.dvector("x")
    for k in range(n // 4):
        y = y * 1.001 + T.sin(y) / (k + 2)
    return [x], [y], []


def mixed(n):
    """Return a graph of products, reductions and indexing, with conditionals."""
    x = y = T.dmatrix("x")
    w = theano.shared(np.eye(2), name="w")
    for k in range(n // 6):
        y = ifelse(T.lt(y[0, 0], k), T.tanh(T.dot(y, w)) - y.sum(), y)
    return [x], [y], []


def trained(n):
    """Return a graph with many shared variables, whose updates share most of their nodes."""
    x = y = T.dvector("x")
    parameters = [theano.shared(np.ones(2), name="p%d" % k) for k in range(n // 8)]
    for p in parameters:
        y = T.tanh(y * p + p.sum())
    return [x], [y], [(p, p - 0.1 * y) for p in parameters]


def nested(n):
    """Return a graph of Ops that have inner graphs."""
    x = y = T.dvector("x")
    for _ in range(n // 20):
        y = OpFromGraph([x], [T.tanh(x + 1) * x])(y)
    return [x], [y], []


class TestGrowth(unittest.TestCase):
    """The pickle of a function grows linearly with the graph, by at most a kilobyte per node of the expression."""

    def assert_linear(self, make, mode, **kwargs):
        found = []
        for n in (60, 180):
            inputs, outputs, updates = make(n)
            # Cached graphs are not used, so that the graph has all features of the rewriting.
            with theano.config.change_flags(cache_graphs=False):
                f = theano.function(inputs, outputs, updates=updates, mode=mode, **kwargs)
            nodes = len(graph.ops(inputs, outputs + [new for _, new in updates]))
            written = pickle.dumps(f, pickle.HIGHEST_PROTOCOL)
            found.append((nodes, len(written), sum(1 for _ in pickletools.genops(written))))
        (few, few_bytes, few_codes), (many, many_bytes, many_codes) = found
        # The difference of two sizes removes the part that is common to all functions.
        self.assertLess(many_bytes - few_bytes, 1024 * (many - few))
        self.assertLess((many_codes - few_codes) / (many - few), 1.1 * few_codes / few)

    def test_functions(self):
        for make in (fused, mixed, trained, nested):
            for mode in ("FAST_RUN", "FAST_COMPILE", "NanGuardMode"):
                with self.subTest(graph=make.__name__, mode=mode):
                    self.assert_linear(make, mode)

    def test_debugmode(self):
        for make in (mixed, trained):
            with self.subTest(graph=make.__name__):
                self.assert_linear(make, DebugMode(stability_patience=1))

    def test_profiles(self):
        self.assert_linear(trained, "FAST_RUN", profile=theano.ProfileStats(atexit_print=False))

    def test_what_rewriting_removed_is_gone(self):
        x = T.dvector("x")
        gone = T.exp(x)
        gone.name = "gone" * 3
        with theano.config.change_flags(cache_graphs=False):
            f = theano.function([x], T.log(gone) + T.zeros_like(gone))
        fgraph = f.maker.fgraph
        self.assertNotIn(b"gone" * 3, pickle.dumps(fgraph))
        loaded = pickle.loads(pickle.dumps(fgraph))
        for one in (fgraph, loaded):
            (length,) = one.shape_feature.shape_of[one.outputs[0]]
            self.assertEqual(str(length), "Shape_i{0}.0")
            self.assertIs(length.owner.inputs[0], one.inputs[0])

    def test_a_graph_from_a_pickle_is_merged(self):
        x = T.dvector("x")
        fgraph = FunctionGraph([x], [T.exp(x) + 1, T.log(x)])
        MergeOptimizer().optimize(fgraph)
        fgraph = pickle.loads(pickle.dumps(fgraph))
        (x,) = fgraph.inputs
        for k, again in enumerate((T.exp(x) + 1, T.exp(x))):
            fgraph.change_input("output", 1, again)
            MergeOptimizer().optimize(fgraph)
            self.assertIs(fgraph.outputs[1], (fgraph.outputs[0], fgraph.outputs[0].owner.inputs[0])[k])


# An expression with an OpFromGraph, its input, its shared variable, and a FunctionGraph, as pickled by the package's
# first version.
FORMER = (
    "c-nPVZFAa25C&t+iw$<(oR>B&eM=y5XxgS}(x#0aC+SQzr87<@-x$py9jwNZ?s_`erX6OQ4@t_*&h!K7?`>BS7>I!na60Yo?epwDd;GQfuT#z>pE_RDz?m;hzt_~<"
    "4}@wSF@@Ea$@&#j4(qsl6g6H)gF5Ck>qU5B>e3V4W~d!Ez;a+IrY(@nj;(Q3_a%?;(wXq_K9<w?FKIoAowrkuLe~{c-@g}OrK1G1Ef(lFhp2(8KJ$3g!u3Eh6>zhs"
    "m>msq-48w4H^=_@<S81*8{ta#!SL^Q2T|R~VfIn0)%xW>`XpaQMt3Nv?Rb%q2|Jh<$39ndK;H3feiF5yjM<Y2%O(poVTeyRvSheD&wzBSL)Y<pm^WR@b`-Vi?~_ES"
    "O2GV{lx}~5ctywvubv@@yWBf=0*=LJ<JH)Kvbi$Z`jel?9ddJg=`xECuoPI#Wy*XnX1d!HGB7=+0dvnz<f!pF36`T65ndLdmZ3IdwgOWs-sOt>7BPA4Y?z5%gj=DE"
    ">E|X9lT>U(yljrsF(uQQD}OE(&k3w%SBXD3F>YxrPuHVp@a6#5Z60VP`jn}R23YpHp>LUi<W>Y97+E9x4%dX_z9*^Z1=F;JWt!BEymsqWjqTK8;<&F9?#ia=2|ILo"
    "Y;k=l$3#~UQQ~Wqc&LM@4OxbTl#%!;lM=rIxyEZ)g?##0fFhI{P;SBc5H_F+n{oTV7Hq>gBNOjmFsfmPrGE70QtEekmQqW2(s6mS6FRQVRe<Zi$>&OVKgXStln6^s"
    "Kn14G;zL|JJZ7pF44_P5DgiLXZ8OcfJsWlmFg1v!eDOt6yBEpEsh}6*Iu+kScr7@WC?bdmUk*!_@HM046rP`NcFOn=OZ$`8X}_()4&{Ca3xO7j^>`b%6QwpyODNv-"
    "LRULXDb~jgQ*nw-y%17sKm`lFoxB+tnK%2{&bx!Uk!?VAxL-`CSY}su7#0<0w(#9Pkww1LRzs{Z*A>UqDaU?1M_RGb@1a9X46*2V(se9H55o=>3pZRrOiehA>hBkS"
    "ZNdPYC;V%~$T9=W_Q|4f)?(*0#2qpyh8>QT^we?7wIjILuAlY`Tp3Gss(a#TR`+mikxWVLRA>zm=6(&`Q@xWfd<fUE9LkuD_|Oq`KYRoqlm4JKfKRZP6oRIdu|k4_"
    "Plxas?#w8wCKc(*(lyboF~47<8g{sfpSsMV$_DT`d_gg95R5P3E{B_ERMa4)d^1%_X^~PEAZNBcj~wn{ZqK$);gLZ^_`aP-1P^AA+?YiYgx*;cG`7514EN!yWf;Dj"
    "VkpmIc!<SV)Y|cBPUdwelMD2Kzd5)I4;kEmCftOtaXsm@be_^dYp}*~V|Ey~p~2$*kfu1|N;xzhv0(EqqY6b>jmPiw4Lrh%nl+`3s@ZdnxIdZ3)cs}>O$Gy6s_AlK"
    "FvgsPI^14{`qmWn=EBNdr5NxdTjKuH)O~B#{W1J7rsy%;#;y5*((Pg8Ib8<Y5&mR8*5P|xbsf5HX9bfSzFe0f9eXZ5c5!mM)8x)C$M$5I`~KAZ!i+niq7-*wpVQA?"
    "8+MJ%TlN;7v|&G8J#Ev)mJ~jD<}~`Z`3bi|%}r9Y+hNvWU~0$XMg}i0enWM<G*6lq!tIC?+&tikVqP)Vv6&vvek_0!PvZW7+Qb*sFf?^N>K^+ataO><nnz=M8jnUM"
    "z>?YJOouA&%V#X+VK3p~DP5Q}6S{PlwXhn>*d@NfCH*04g>hANM>qcm#2>s<"
)


class TestFormerPickles(unittest.TestCase):
    def test_of_graphs(self):
        x, out, s, fgraph = pickle.loads(zlib.decompress(base64.b85decode(FORMER)))
        op = out.owner.inputs[0].owner.op
        self.assertEqual((str(op), op.shared_inputs, op.kwargs), ("op{inline=False}", [s], {}))
        f = theano.function([x], [out, theano.grad(T.log(out), x)])
        s.set_value(5.0)
        value, slope = f(0.5)
        np.testing.assert_allclose([np.log(value), slope], [0.5 * np.exp(0.5) + 5, 1.5 * np.exp(0.5)])
        fgraph.check_integrity()
        self.assertEqual(str(fgraph), "[Elemwise{exp,no_inplace}(Elemwise{exp,no_inplace}(u))]")
        fgraph.attach_feature(Supervisor(fgraph.inputs))
        get_mode("FAST_RUN").optimizer(fgraph)
        self.assertEqual(len(fgraph.apply_nodes), 1)


class TestRefusals(unittest.TestCase):
    def test_what_cannot_be_pickled_is_named(self):
        x = T.dvector("x")
        tagged = T.exp(x)
        tagged.tag.note = lambda: None
        file = open(os.devnull)  # noqa: SIM115, an object that cannot be pickled
        self.addCleanup(file.close)
        deep = []
        for _ in range(100000):
            deep = [deep]
        cases = {
            "attribute grad_overrides of the OpFromGraph.*Lambdas": OpFromGraph(
                [x], [x * 2], grad_overrides=lambda i, g: g
            )(x),
            "tag.note of the variable .*exp": (tagged + 1).sum(),
            "MonitorMode.*FunctionMaker of the Function": theano.function(
                [x], x, mode=MonitorMode(pre_func=lambda i, node, fn: None)
            ),
            "container of the variable file, .*'a'": {
                "a": [theano.shared(io.StringIO, name="ok"), theano.shared(file, name="file")]
            },
            "recursion limit": theano.shared(deep),
        }
        for text, obj in cases.items():
            for dump in (
                lambda: pkl_utils.dump(obj, io.BytesIO()),
                lambda: pkl_utils.StripPickler(io.BytesIO(), 2).dump(obj),
            ):
                with self.assertRaisesRegex(pickle.PicklingError, text):
                    dump()


if __name__ == "__main__":
    unittest.main()
