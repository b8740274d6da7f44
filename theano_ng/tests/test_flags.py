"""Tests of the effect of each flag.

Flags that are read at the start of a process are tested together in one new process.
"""

import io
import logging
import os
import pickle
import sys
import tempfile
import unittest
import warnings
from contextlib import contextmanager, redirect_stdout

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import Apply, Mode, Op, config, function
from theano_ng.configdefaults import default_cxx
from theano_ng.configparser import TheanoConfigError, change_flags
from theano_ng.gof.optdb import Query
from theano_ng.gof.rewriting import Optimizer, local_optimizer
from theano_ng.tests.test_config import run


def ops(f):
    return [str(node.op) for node in f.maker.fgraph.toposort()]


@contextmanager
def messages(name):
    """Collect the messages of a logger within the block."""
    found, logger, handler = [], logging.getLogger(name), logging.Handler()
    handler.emit = lambda record: found.append(record.getMessage())
    logger.addHandler(handler)
    parent, logger.propagate = logger.propagate, False
    try:
        yield found
    finally:
        logger.propagate = parent
        logger.removeHandler(handler)


class Dtypes(unittest.TestCase):
    def test_float_x_and_cast_policy(self):
        for spelling, dtype in (("32", "float32"), (64, "float64"), ("float16", "float16")):
            with change_flags(floatX=spelling):
                self.assertEqual(
                    (config.floatX, T.matrix().dtype, theano.shared(np.ones(2)).dtype), (dtype, dtype, "float64")
                )
        for policy, floatx, wanted in [  # dtypes of float32 + 1.5, int8 + 1, int8 + 300, int8 + 1.1
            ("custom", "float32", "float32 int8 int16 float32"),
            ("custom", "float64", "float32 int8 int16 float64"),
            ("numpy+floatX", "float32", "float32 int64 int64 float32"),
            ("numpy+floatX", "float64", "float64 int64 int64 float64"),
        ]:
            with change_flags(cast_policy=policy, floatX=floatx):
                f, b = T.fvector(), T.bvector()
                self.assertEqual(
                    " ".join(v.dtype for v in (f + 1.5, b + 1, b + 300, b + 1.1)), wanted, (policy, floatx)
                )

    def test_int_division(self):
        a, b = T.ivector(), T.lvector()
        with change_flags(int_division="int"):
            self.assertEqual(a.__div__(b).dtype, "int64")
        with change_flags(int_division="floatX", floatX="float32"):
            self.assertEqual((a.__div__(b).dtype, (a / b).dtype), ("float32", "float32"))
        with change_flags(int_division="raise"):
            with self.assertRaisesRegex(Exception, "int_division"):
                a.__div__(b)
            self.assertEqual(((a // b).dtype, a.__truediv__(b).dtype[:5]), ("int64", "float"))

    def test_warn_float64(self):
        with change_flags(warn_float64="warn"), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            T.fvector() * np.float32(2)
            self.assertEqual(caught, [])
            T.dvector()
            self.assertEqual([(w.filename, "warn_float64" in str(w.message)) for w in caught], [(__file__, True)])
        with change_flags(warn_float64="raise"), self.assertRaisesRegex(Exception, "float64 dtype"):
            T.fvector() + T.ivector()


class TestValuesAndTraces(unittest.TestCase):
    def test_compute_test_value(self):
        def graph(value=None):
            x = T.dvector("x")
            if value is not None:
                x.tag.test_value = np.asarray(value)
            return x * 2

        for policy in ("off", "ignore", "warn", "raise"):
            with change_flags(compute_test_value=policy), warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                if policy == "raise":
                    with self.assertRaisesRegex(ValueError, r"input 0 \(x\) of Op .* missing default value"):
                        graph()
                else:
                    self.assertFalse(hasattr(graph().tag, "test_value"))
                self.assertEqual(len(caught), policy == "warn")
                y = graph([1.0, 2.0])
                self.assertEqual(hasattr(y.tag, "test_value"), policy != "off")
                if policy != "off":
                    np.testing.assert_array_equal(y.tag.test_value, [2, 4])
                    with self.assertRaises(ValueError):
                        T.dot(y, T.constant(np.ones(3)))
                    plain = str(y)
                    with change_flags(print_test_value=True):
                        self.assertEqual(
                            [str(y), repr(y), y.__repr__(firstPass=False)], [plain + "\narray([2., 4.])"] * 2 + [plain]
                        )
                self.assertEqual(repr(y), str(y))
        x = T.dvector("x")
        x.tag.test_value = np.ones(2)
        for policy in ("off", "ignore"):
            with change_flags(compute_test_value_opt=policy):
                (out,) = function([x], T.exp(x) * 2).maker.fgraph.outputs
                self.assertEqual(hasattr(out.tag, "test_value"), policy != "off")

    def test_traceback_limits(self):
        def deep(levels):
            return deep(levels - 1) if levels else T.dvector("x")

        for limit in (1, 3):
            with change_flags({"traceback.limit": limit}):
                self.assertEqual(len(deep(6).tag.trace[0]), limit)
        with change_flags({"traceback.limit": 0}):
            self.assertFalse(getattr(deep(6).tag, "trace", None))
        x = T.dvector("x")
        y = T.log(1 + T.exp(x)).sum()
        inner = []
        for limit in (0, 40):
            with change_flags({"traceback.compile_limit": limit, "cache_graphs": False}):
                traces = [
                    trace
                    for node in function([x], y).maker.fgraph.toposort()
                    for o in node.outputs
                    for trace in o.tag.trace
                ]
                inner.append(any("function([x], y)" in str(level) for trace in traces for level in trace))
        self.assertEqual(inner, [False, True])

    def test_check_stack_trace(self):
        class Forgets(Optimizer):
            def apply(self, fgraph):
                for node in fgraph.toposort():
                    if node.op == T.exp:
                        with change_flags({"traceback.limit": 0}):
                            fgraph.replace(node.outputs[0], T.sinh(node.inputs[0]), reason="forgets")

        for policy in ("off", "log", "warn", "raise"):
            with (
                change_flags(check_stack_trace=policy, cache_graphs=False),
                warnings.catch_warnings(record=True) as caught,
            ):
                warnings.simplefilter("always")
                x = T.dvector("x")
                mode = Mode("py", Query(include=["CheckStackTrace"])).register((Forgets(), 10.0))
                if policy == "raise":
                    with self.assertRaisesRegex(AssertionError, "Empty stack trace.*forgets"):
                        function([x], T.exp(x), mode=mode)
                    continue
                (out,) = function([x], T.exp(x), mode=mode).maker.fgraph.outputs
                self.assertEqual("forgets" in str(getattr(out.tag, "trace", "")), policy != "off")
                self.assertEqual(["Empty stack trace" in str(w.message) for w in caught], [True] * (policy == "warn"))

    def test_exception_verbosity(self):
        x, y = T.dvectors("xy")
        f = function([x, y], x + y * 2, mode="FAST_COMPILE")
        texts = []
        for verbosity in ("low", "high"):
            with change_flags(exception_verbosity=verbosity), self.assertRaises(ValueError) as caught:
                f([1.0, 1.0], [1.0, 2.0, 3.0])
            texts.append(str(caught.exception))
        self.assertIn("HINT: Use the Theano flag 'exception_verbosity=high'", texts[0])
        self.assertNotIn("Debugprint of the apply node", texts[0])
        self.assertRegex(texts[1], r"(?s)Debugprint of the apply node.*\[id A\].*\[id B\].*Storage map footprint")


class Broken(Op):
    __props__ = ()

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0] * 2

    def infer_shape(self, node, shapes):
        raise KeyError("no shape")


class Rewriting(unittest.TestCase):
    def test_mode_linker_and_optimizer(self):
        x = T.dvector("x")
        from theano_ng.gof import CLinker, OpWiseCLinker, PerformLinker
        from theano_ng.gof.vm import VM_Linker

        for linker, kind, gc in [
            ("cvm", VM_Linker, True),
            ("vm_nogc", VM_Linker, False),
            ("c|py", OpWiseCLinker, True),
            ("c|py_nogc", OpWiseCLinker, False),
            ("py", PerformLinker, True),
            *([("c", CLinker, True)] if config.cxx else []),
        ]:
            with change_flags(linker=linker, mode="Mode"):
                f = function([x], x + 1)
                self.assertEqual((type(f.maker.linker), f.maker.linker.allow_gc, f([1.0])), (kind, gc, [2.0]))
        y = T.log(1 + T.exp(x)) + 0 * x
        sizes = {}
        for name in ("None", "merge", "fast_compile", "o1", "o2", "stabilize", "o3", "fast_run", "o4"):
            with change_flags(optimizer=name, mode="Mode"):
                sizes[name] = len(ops(function([x], y)))
        self.assertGreaterEqual(sizes["None"], sizes["merge"])
        self.assertGreater(sizes["merge"], sizes["fast_compile"])
        self.assertEqual(
            (sizes["fast_compile"], sizes["fast_run"], sizes["o3"]), (sizes["o1"], sizes["o4"], sizes["o4"])
        )
        with change_flags(mode="FAST_COMPILE", optimizer="fast_run"):  # optimizer affects 'Mode' only
            self.assertEqual(function([x], y).maker.mode.provided_optimizer, "fast_compile")
        with change_flags({"mode": "NanGuardMode", "NanGuardMode.nan_is_error": False}):
            np.testing.assert_array_equal(function([x], T.exp(x))([np.nan]), [np.nan])
        with change_flags({"mode": "NanGuardMode"}), self.assertRaisesRegex(AssertionError, "(?i)nan"):
            function([x], T.exp(x))([np.nan])
        with (
            change_flags({"mode": "NanGuardMode", "NanGuardMode.action": "warn"}),
            warnings.catch_warnings(record=True) as caught,
        ):
            warnings.simplefilter("always")
            np.testing.assert_array_equal(function([x], T.exp(x))([1e9]), [np.inf])
            self.assertEqual([str(w.message).split("\n")[0] for w in caught], ["Inf detected"])
        mode = Mode("py", None)
        theano.compile.mode.register_mode("test_flags_mode", mode)
        self.addCleanup(theano.compile.mode.predefined_modes.pop, "test_flags_mode")
        for value in ("test_flags_mode", mode):
            with change_flags(mode=value):
                self.assertIs(function([x], x + 1).maker.mode, mode)
        with self.assertRaisesRegex(TheanoConfigError, "'FASTRUN' is not one of 'Mode', 'DebugMode', 'FAST_RUN'"):
            config.mode = "FASTRUN"

    def test_rules_are_printed_cut_off_and_switched(self):
        x, n = T.dvector("x"), T.iscalar("n")
        printed = io.StringIO()
        with redirect_stdout(printed), change_flags(optimizer_verbose=True):
            function([x], x / x + T.exp(x))
        self.assertIn("FusionOptimizer Elemwise{", printed.getvalue())
        with change_flags({"optdb.position_cutoff": 0.5}):
            f = function([x], x * 1 + x * 0)
        self.assertEqual(len(ops(f)) > len(ops(function([x], x * 1 + x * 0))), True)
        for fuse in (True, False):
            with change_flags({"tensor.local_elemwise_fusion": fuse}):
                self.assertEqual(len(ops(function([x], T.exp(x) * 2 + 1))), 1 if fuse else 3)
        for guard in (True, False):
            with change_flags({"experimental.local_alloc_elemwise_assert": guard}):
                self.assertEqual(any("Assert" in op for op in ops(function([x, n], x + T.alloc(3.0, n)))), guard)
        with self.assertRaises(TheanoConfigError):
            change_flags({"experimental.local_alloc_elemwise": False}).__enter__()

        @local_optimizer([T.sinh, T.cosh])
        def swap(node):
            return [(T.cosh if node.op == T.sinh else T.sinh)(node.inputs[0])]

        from theano_ng.gof.optdb import EquilibriumDB

        db = EquilibriumDB()
        db.register("swap", swap, "swap")
        flags = {"optdb.max_use_ratio": 3.0, "on_opt_error": "warn"}
        with messages("theano_ng.gof.opt") as said, change_flags(flags):
            fgraph = theano.FunctionGraph([x], [T.sinh(x)], clone=True)
            db.query(Query(include=["swap"])).optimize(fgraph)
        self.assertIn("max_use_ratio", " ".join(said))

    def test_cycle_detection_and_validation_in_place(self):
        x = T.dvector("x")
        counts = []
        for detection in ("regular", "fast"):
            with change_flags({"cycle_detection": detection, "tensor.local_elemwise_fusion": False}):
                a = x * 2
                f = function([x], [T.exp(a), T.log(a)])
                counts.append(sum("[(0, 0)]" in op for op in ops(f)))
                np.testing.assert_allclose(f([1.0]), np.array([np.exp([2.0]), np.log([2.0])]))
        self.assertEqual(counts, [1, 0])
        found = []
        for every in (-1, 1, 3, 1000):
            with change_flags(
                {"tensor.insert_inplace_optimizer_validate_nb": every, "tensor.local_elemwise_fusion": False}
            ):
                s = theano.shared(np.ones(3))
                a = x * 2
                d = T.exp(a) + T.log(a) + a
                f = function([x], [d + s, T.sin(d)], updates=[(s, s * 2 + d)])
                a = 2 * np.arange(1.0, 4)
                d = np.exp(a) + np.log(a) + a
                for got, wanted in zip([*f([1.0, 2.0, 3.0]), s.get_value()], (d + 1, np.sin(d), d + 2)):
                    np.testing.assert_allclose(got, wanted)
                found.append(sorted(ops(f)))
        self.assertEqual(found, [found[0]] * 4)
        self.assertTrue(any("[(0, " in op for op in found[0]))

    def test_errors_while_rewriting(self):
        @local_optimizer([T.exp])
        def broken_rule(node):
            raise KeyError("broken")

        x = T.dvector("x")
        from theano_ng.gof.rewriting import in2out

        for policy in ("warn", "ignore", "raise"):
            mode = Mode("py", Query(include=["merge"])).register((in2out(broken_rule), 10.0))
            with change_flags(on_opt_error=policy), messages("theano_ng.gof.opt") as said:
                if policy == "raise":
                    self.assertRaisesRegex(KeyError, "broken", function, [x], T.exp(x), mode=mode)
                else:
                    self.assertEqual(function([x], T.exp(x), mode=mode)([0.0]), [1.0])
                if policy != "raise":
                    self.assertEqual("broken_rule" in " ".join(said), policy == "warn")
        with change_flags(on_shape_error="warn"), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            np.testing.assert_array_equal(function([x], Broken()(x).shape)([1.0, 2.0]), [2])
            self.assertIn("Failed to infer_shape from Op Broken", str(caught[0].message))
        with (
            change_flags(on_shape_error="raise", on_opt_error="raise"),
            messages("theano_ng.gof.opt") as said,
            self.assertRaisesRegex(Exception, "Failed to infer_shape"),
        ):
            function([x], Broken()(x).shape)
        self.assertIn("local_shape_to_shape_i", said[0])


class Running(unittest.TestCase):
    def test_garbage_lazy_and_openmp(self):
        x = T.dvector("x")
        y = T.exp(x).sum() * T.log(x).sum()
        for linker in ("cvm", "vm", "c|py", "py"):
            for gc in (True, False):
                with change_flags(allow_gc=gc):
                    f = function([x], y, mode=Mode(linker, None))
                f([1.0, 2.0])
                kept = [
                    v
                    for v, cell in f.fn.storage_map.items()
                    if v.owner is not None and cell[0] is not None and v not in f.maker.fgraph.outputs
                ]
                self.assertEqual(bool(kept), not gc, (linker, gc))
        for lazy, wanted in ((None, "LoopGC"), (True, "Stack"), ("True", "Stack"), (False, "LoopGC")):
            with change_flags({"vm.lazy": lazy}):
                self.assertEqual(type(function([x], y, mode=Mode("vm", None)).fn).__name__, wanted)
                self.assertEqual(function([x], y, mode=Mode("cvm", None)).fn.lazy, wanted == "Stack")
        value = np.linspace(0, 1, 5000)
        for threads in (False, True):
            with change_flags(openmp=threads, openmp_elemwise_minsize=1000):
                f = function([x], T.exp(x) + x)
                node = f.maker.fgraph.toposort()[-1]
                self.assertEqual(node.op.openmp, threads)
                self.assertEqual(node.op.native_code(node).params["openmp_minsize"], 1000 * threads)
                np.testing.assert_allclose(f(value), np.exp(value) + value, rtol=1e-14)

    def test_pickles(self):
        x = T.dvector("x")
        x.tag.test_value = np.ones(2)
        for keep in (True, False):
            with change_flags(pickle_test_value=keep):
                self.assertEqual(hasattr(pickle.loads(pickle.dumps(x)).tag, "test_value"), keep)
        text = pickle.dumps(function([x], T.log(1 + T.exp(x)), mode=Mode("py", "fast_run")))
        with change_flags(unpickle_function=False):
            self.assertIsNone(pickle.loads(text))
        for again in (True, False):
            printed = io.StringIO()
            with (
                change_flags(reoptimize_unpickled_function=again, optimizer_verbose=True, cache_graphs=False),
                redirect_stdout(printed),
            ):
                f = pickle.loads(text)
            self.assertEqual(bool(printed.getvalue()), again)
            np.testing.assert_allclose(f([0.0]), [np.log(2)])

    def test_tolerances_and_seeds_of_tests(self):
        from theano_ng.tests.unittest_tools import fetch_seed

        accepted = []
        for sloppy in (0, 1, 2):
            with change_flags({"tensor.cmp_sloppy": sloppy}):
                accepted.append(
                    [T.fvector().type.values_eq_approx(np.ones(1, "f"), np.float32([1 + e])) for e in (1e-6, 1e-4, 0.1)]
                )
        self.assertEqual(accepted, [[True, False, False], [True, True, False], [True, True, False]])
        with change_flags({"unittests.rseed": "12"}):
            self.assertEqual(fetch_seed(), 12)
        with self.assertRaises(TheanoConfigError):
            config.unittests.rseed = "twelve"

    def test_metaopt(self):
        from theano_ng.gof.rewriting import LocalMetaOptimizer

        class Meta(LocalMetaOptimizer):
            def provide_inputs(self, node, inputs):
                return {v: v.tag.value for v in inputs if hasattr(v.tag, "value")}

        x = T.dvector("x")
        x.tag.value = np.ones(4)
        meta = Meta()

        def rule(name, result):
            def apply(node):
                return [result(node.inputs[0])]

            apply.__name__ = name
            return local_optimizer([T.exp])(apply)

        meta.register(rule("one", lambda v: T.expm1(v) + 1), ["first"])
        meta.register(rule("two", lambda v: 1 / T.exp(-v)), ["second"])
        for flags, wanted in [
            ({}, "one two"),
            ({"metaopt.optimizer_excluding": "second"}, "one"),
            ({"metaopt.optimizer_including": "second"}, "two"),
            ({"metaopt.optimizer_excluding": "first:second"}, ""),
        ]:
            with change_flags(flags):
                self.assertEqual(" ".join(opt.__name__ for opt in meta.get_opts(T.exp(x).owner)), wanted)


class NewProcesses(unittest.TestCase):
    def test_blas_that_does_not_exist(self):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            error = run(
                """
                import numpy as np, theano_ng as theano, theano_ng.tensor as T
                x = T.dmatrix(); f = theano.function([x], T.dot(x, x))
                try:
                    f(np.ones((2, 2)))
                except RuntimeError as failure:
                    raise SystemExit(str(failure).splitlines()[0])
                """,
                ok=False,
                THEANO_FLAGS="blas.ldflags=-lno_such_blas,base_compiledir=" + folder,
            )
            reason = "cannot find -lno_such_blas" if default_cxx() else "no C.. compiler"
            self.assertRegex(error, r"blas.ldflags='-lno_such_blas' does not link a BLAS \(.*" + reason)

    def test_another_blas(self):
        from theano_ng.gof.compiler import GCC_compiler

        if not GCC_compiler.try_flags(["-lopenblas"], 'extern "C" void dgemm_();', "dgemm_();"):
            self.skipTest("blas.ldflags is tried with OpenBLAS, which is not installed for linking (libopenblas-dev)")
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            text = run(
                """
                import numpy as np, theano_ng as theano, theano_ng.tensor as T
                x = T.dmatrix(); f = theano.function([x], T.dot(x, x)); a = np.arange(9.0).reshape((3, 3))
                np.testing.assert_allclose(f(a), a.dot(a))
                maps = open('/proc/self/maps').read().splitlines()
                print(any('openblas' in line and 'scipy' not in line and 'numpy' not in line for line in maps))
                """,
                THEANO_FLAGS="blas.ldflags=-lopenblas,openmp=True,base_compiledir=" + folder,
            )
        self.assertEqual(text, "True\n")

    def test_profile(self):
        code = """
            import numpy as np, theano_ng as theano, theano_ng.tensor as T
            x = T.dmatrix('x'); f = theano.function([x], T.dot(x, x) + T.exp(x), name='profiled'); f(np.ones((5, 5))); f(np.ones((5, 5)))
            """
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            path = os.path.join(folder, "profile")
            flags = "profile=1,base_compiledir=%s" % folder
            self.assertEqual(
                run(
                    code,
                    THEANO_FLAGS=flags + ",profile_memory=1,profile_optimizer=1,profiling.destination=%s,"
                    "profiling.n_ops=1,profiling.n_apply=1,profiling.min_memory_size=0,profiling.min_peak_memory=1,"
                    "profiling.debugprint=1,profiling.ignore_first_call=1" % path,
                ),
                "",
            )
            with open(path) as file:
                text = file.read()
            for piece in (
                "Message: profiled",
                "Time in 1 calls to Function.__call__",
                "(remaining 1 Ops account for",
                "(remaining 1 Apply instances",
                "Memory Profile",
                "200B",
                "Min peak memory",
                "Optimizer Profile",
                "Gemm{inplace} [id A]",
            ):
                self.assertIn(piece, text)
            text = run(code, THEANO_FLAGS=flags + ",profiling.destination=stdout")
            self.assertIn("Time in 2 calls to Function.__call__", text)
            for piece in ("Memory Profile", "Optimizer Profile", "[id A]", "remaining 1 Ops"):
                self.assertNotIn(piece, text)

    def test_compiler_and_cache(self):
        code = """
            import os, sys, warnings
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter('always')
                import theano_ng as theano, theano_ng.tensor as T
                x = T.dvector('x'); f = theano.function([x], T.exp(x) + 1)
                assert f([0.0]) == [2.0]
            c = theano.config
            kernels = os.path.join(c.compiledir, 'kernels')
            files = os.listdir(kernels) if os.path.isdir(kernels) else []
            sources = [open(os.path.join(kernels, n)).read() for n in files if n.endswith('.c')]
            print(len(caught), os.path.relpath(c.compiledir, c.base_compiledir), sorted({os.path.splitext(n)[1] for n in files} - {''}))
            """
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            flags = "compiledir_format=%(python_version)s-%(device)s-%(python_bitwidth)s,base_compiledir="
            name = "%d.%d.%d-cpu-" % sys.version_info[:3]
            text = run(code, THEANO_FLAGS=flags + os.path.join(folder, "a") + ",cxx=")
            self.assertRegex(text, "^0 " + name + r"\d\d \[\]\n$")
            compiler = os.path.basename(config.cxx)  # the name of the compiler, without its folder
            if not compiler:
                self.skipTest("no compiler")
            text = run(code, THEANO_FLAGS=flags + os.path.join(folder, "b") + ",tiered=off,cxx=" + compiler)
            self.assertRegex(text, "^0 " + name + r"\d\d \['.so'\]\n$")
            text = run(
                code,
                HOME=folder,
                THEANO_FLAGS="base_compiledir=~/c,nocleanup=1,tiered=off,cmodule.debug=1,cmodule.remove_gxx_opt=1,"
                "gcc.cxxflags='-DONE -DTWO=2',cmodule.preload_cache=1,cmodule.compilation_warning=1,numpy.seterr_all=None,"
                "warn.ignore_bug_before=0.3",
            )
            self.assertRegex(text, r"^0 compiledir_\S+ \['.c', '.so'\]\n$")
            text = run(
                """
                from theano_ng import config
                import numpy, theano_ng as theano
                from theano_ng.gof.compiler import GCC_compiler
                args = GCC_compiler.compile_args()
                print([a for a in args if a[:2] in ('-O', '-D')], '-march=native' in args, numpy.geterr()['divide'], numpy.geterr()['over'])
                print(config.warn.round, config.warn.sum_sum_bug, config.compile.timeout, config.warn.reduce_join)
                """,
                THEANO_FLAGS="cmodule.remove_gxx_opt=1,cmodule.debug=1,gcc.cxxflags='-DONE -DTWO=2',numpy.seterr_all=raise,"
                "numpy.seterr_over=warn,compile.wait=2",
            )
            self.assertEqual(text, "['-DDEBUG', '-DONE', '-DTWO=2'] True raise warn\nTrue False 48 False\n")

    def test_age_of_modules(self):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            code = """
                import os, theano_ng as theano, theano_ng.tensor as T
                x = T.dvector('x'); f = theano.function([x], T.exp(x) + 1); assert f([0.0]) == [2.0]
                kernels = os.path.join(theano.config.compiledir, 'kernels')
                for name in os.listdir(kernels):
                    path = os.path.join(kernels, name)
                    print(name, os.stat(path).st_mtime_ns // 10**9 if name.endswith('.so') else '')
                    if name.endswith('.so'):
                        os.utime(path, (10**9, 10**9))
                """
            flags = "base_compiledir=%s,tiered=off,cmodule.age_thresh_use=" % folder
            if not config.cxx:
                self.skipTest("no compiler")
            run(code, THEANO_FLAGS=flags + "100")
            text = run(code, THEANO_FLAGS=flags + "10000000000")  # the old kernel is below the threshold, so it is kept
            self.assertEqual(text.count(".so "), 1)
            text = run(code, THEANO_FLAGS=flags + "100")  # the old kernel is compiled again
            self.assertTrue(
                any(line.split()[0].endswith(".so") and line.split()[1] != "1000000000" for line in text.splitlines()),
                text,
            )

    def test_devices_and_default_rules(self):
        show = "import theano_ng as t; c = t.config; print(c.device)"
        self.assertIn(
            "init_gpu_device=cuda requires device=cpu",
            run(show, ok=False, THEANO_FLAGS="device=cuda0,init_gpu_device=cuda"),
        )
        text = run(
            """
            import theano_ng as theano, theano_ng.tensor as T
            mode = theano.compile.get_default_mode()
            q = mode._optimizer
            print(sorted(q.include), sorted(q.exclude), sorted(q.require), len(theano.compile.get_mode('FAST_RUN')._optimizer.exclude))
            x = T.dvector()
            print(len(theano.function([x], T.exp(x) * 2 + 1).maker.fgraph.apply_nodes))
            """,
            THEANO_FLAGS="optimizer_excluding=fusion:inplace,optimizer_including=extra,optimizer_requiring=",
        )
        self.assertEqual(text, "['extra', 'fast_run'] ['fusion', 'inplace'] [] 0\n3\n")


class Locks(unittest.TestCase):
    def test_wait_and_timeout(self):
        import time

        import filelock

        from theano_ng.gof.compiler import compilelock

        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            other = filelock.FileLock(os.path.join(folder, compilelock.LOCK_NAME), is_singleton=False)
            with other, change_flags([("compile.timeout", 1), ("compile.wait", 1)]):
                start = time.monotonic()
                with self.assertRaisesRegex(TimeoutError, "for 0.3 seconds"):
                    compilelock.lock(folder, timeout=0.3, verbosity=0)
                self.assertGreaterEqual(time.monotonic() - start, 0.3)
            compilelock.lock(folder, verbosity=0)
            compilelock.release_lock(folder)


if __name__ == "__main__":
    unittest.main()
