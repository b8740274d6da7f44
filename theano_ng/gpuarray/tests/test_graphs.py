"""Tests of the launch queue, which collects the launches of functions and records them as graphs.

OpenCL has no graphs. With ``gpuarray.graph=on`` the queue collects, compares and holds back launches there as well, and
makes them one by one where CUDA would run a graph. So the tests compare results of both settings.
"""

import contextlib
import gc
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as tt
from theano_ng.configdefaults import config
from theano_ng.gpuarray import contexts
from theano_ng.gpuarray.device.tests import native
from theano_ng.gpuarray.device.tests.test_cuda import compile_fake
from theano_ng.gpuarray.linalg import GpuCusolverSolve
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.tests.device import context
from theano_ng.gpuarray.tests.fake_cuda import CudaTest
from theano_ng.gpuarray.type import gpuarray_shared_constructor
from theano_ng.ifelse import ifelse
from theano_ng.tensor.linalg.solving import Solve
from theano_ng.tensor.signal.pool import pool_2d

HERE = os.path.dirname(os.path.abspath(__file__))
MODE = theano.Mode("cvm", "fast_run")


def on_device(value):
    return gpuarray_shared_constructor(value, target=None)


def compiled(setting, *args, **kwargs):
    """Compile a function whose launches are collected ("on") or not ("off")."""
    with config.change_flags({"gpuarray.graph": setting}):
        return theano.function(*args, mode=MODE.including("gpuarray"), on_unused_input="ignore", **kwargs)


def deep(x, weights):
    """Return a graph of at least two launches for each weight matrix."""
    for w in weights:
        x = tt.tanh(tt.dot(x, w)) * 1.5
    return x


class TestRuns(unittest.TestCase):
    """The decision to hold calls back and to run a graph, on a stub of a GPU."""

    def setUp(self):
        self.context = "stub of " + self.id()  # compiled graphs, which are cached, contain constants of a context
        contexts.reg_context(self.context, pygpu.init("stub6"))
        self.addCleanup(contexts.unregister, self.context)
        self.draw = np.random.default_rng(0).normal
        self.weights = [self.shared() for _ in range(10)]
        self.x = tt.dmatrix("x")
        self.out = self.graph()

    def shared(self):
        return gpuarray_shared_constructor(self.draw(size=(5, 5)), target=self.context)

    def graph(self, weights=None):
        return deep(self.x.transfer(self.context), weights or self.weights)

    def compiled(self, setting, inputs, out, **kwargs):
        return compiled(setting, inputs, out and out.transfer("cpu"), **kwargs)

    def runs(self, f, *args):
        graphs = contexts.get_context(self.context).graphs
        f(*args)
        now = contexts.get_context(self.context).graphs
        self.assertEqual(now["runs"] > graphs["runs"], now["in_runs"] > graphs["in_runs"])
        return now["runs"] - graphs["runs"]

    def small(self):
        return self.draw(size=(3, 5))

    def test_the_fourth_call_runs_the_graph(self):
        f = self.compiled("on", [self.x], self.out)
        self.assertEqual([self.runs(f, self.small()) for _ in range(6)], [0, 0, 0, 1, 1, 1])
        graphs = contexts.get_context(self.context).graphs
        self.assertEqual((graphs["recorded"], graphs["in_runs"], graphs["replaced"]), (1, 30, 0))

    def test_the_launches_are_those_without_a_graph(self):
        library, made = native.load(), []
        state = library.stub_of(6).contents
        for setting, calls in (("off", 5), ("on", 2), ("on", 5)):
            f = self.compiled(setting, [self.x], self.out)
            for _ in range(calls - 1):
                f(self.small())
            library.stub_reset(6)
            f(self.small())
            made.append(state.count("launch"))
        self.assertEqual(made, [10] * 3)

    def test_off(self):
        for setting in ("off", "auto"):  # automatic means CUDA devices
            f = self.compiled(setting, [self.x], self.out)
            self.assertEqual([self.runs(f, self.small()) for _ in range(6)], [0] * 6)

    def test_updates_in_place(self):
        updates = [(w, w - 0.01 * tt.grad(self.out.sum(), w)) for w in self.weights]
        f = self.compiled("on", [self.x], self.out.sum(), updates=updates)
        # The addresses of the first call are others, because the pool is still empty.
        self.assertEqual([self.runs(f, self.small()) for _ in range(6)], [0, 0, 0, 0, 1, 1])

    def test_short_functions_are_not_recorded(self):
        f = self.compiled("on", [self.x], self.graph(self.weights[:7]))
        self.assertEqual([self.runs(f, self.small()) for _ in range(6)], [0] * 6)

    def test_two_shapes_in_turn(self):
        f = self.compiled("on", [self.x], self.out)
        small, large = self.small(), self.draw(size=(300, 5))
        runs = [self.runs(f, v) for v in (small, large) * 6]
        self.assertEqual(runs, [0] * 6 + [1] * 6)

    def test_another_shape_again_and_again(self):
        f = self.compiled("on", [self.x], self.out)
        self.assertEqual(sum(self.runs(f, self.draw(size=(n, 5))) for n in range(1, 30)), 0)

    def test_new_memory_of_a_shared_variable(self):
        f = self.compiled("on", [self.x], self.out)
        self.assertEqual([self.runs(f, self.small()) for _ in range(4)], [0, 0, 0, 1])
        kept = [w.get_value(borrow=True, return_internal_type=True) for w in self.weights]
        for w in self.weights:
            w.set_value(self.draw(size=(5, 5)))
        self.assertEqual([self.runs(f, self.small()) for _ in range(4)], [0, 0, 0, 1])
        for w, value in zip(self.weights, kept):
            w.set_value(value, borrow=True)
        self.assertEqual([self.runs(f, self.small()) for _ in range(4)][-1], 1)

    def test_numbers_by_value(self):
        rate = tt.dscalar()
        shared = [self.shared() for _ in range(10)]
        f = self.compiled("on", [self.x, rate], self.out.sum(), updates=[(s, s * rate + 1) for s in shared])
        runs = [self.runs(f, self.small(), i / 7) for i in range(8)]
        self.assertEqual(runs, [0, 0, 0, 0, 1, 1, 1, 1])
        self.assertEqual(contexts.get_context(self.context).graphs["replaced"], 40)

    def test_values_that_change_places(self):
        # The new values are in new memory, so the addresses alternate.
        a, b = self.shared(), self.shared()
        f = compiled("on", [], [], updates=[(a, deep(b, self.weights)), (b, deep(a, self.weights[:3]))])
        runs = [self.runs(f) for _ in range(20)]
        self.assertEqual(runs[-4:], [1] * 4)

    def test_loops(self):
        steps = tt.iscalar()
        first, step = self.shared(), lambda h: deep(h, self.weights[:2])
        states, _ = theano.scan(step, outputs_info=first, n_steps=steps, mode=MODE)
        f = self.compiled("on", [steps], states[-1])
        self.assertEqual([self.runs(f, 9) for _ in range(6)], [0, 0, 0, 1, 1, 1])
        self.assertEqual([self.runs(f, 20) for _ in range(6)], [0, 0, 0, 1, 1, 1])
        self.assertEqual([self.runs(f, n) for n in (9, 20, 9)], [1, 1, 1])

    def test_long_pieces_are_divided(self):
        steps = tt.iscalar()
        first, step = self.shared(), lambda h: deep(h, self.weights[:2])
        states, _ = theano.scan(step, outputs_info=first, n_steps=steps, mode=MODE)
        f = self.compiled("on", [steps], states[-1])
        self.assertEqual([self.runs(f, 5000) for _ in range(5)], [0, 0, 0, 3, 3])

    def test_profiles_measure_each_node(self):
        f = self.compiled("on", [self.x], self.out, profile=theano.ProfileStats(atexit_print=False))
        self.assertEqual([self.runs(f, self.small()) for _ in range(6)], [0] * 6)

    def test_copies_have_graphs_of_their_own(self):
        f = self.compiled("on", [self.x], self.out)
        for _ in range(4):
            f(self.small())
        with config.change_flags({"gpuarray.graph": "on"}):
            other = f.copy()
        self.assertEqual([self.runs(other, self.small()) for _ in range(4)], [0, 0, 0, 1])
        del f
        gc.collect()
        self.assertEqual([self.runs(other, self.small()) for _ in range(4)][-1], 1)

    def test_memory_pressure(self):
        """Memory that the pool returns to the device is not used any longer."""
        f = self.compiled("on", [self.x], self.out)
        for _ in range(5):
            f(self.small())
        contexts.get_context(self.context).trim()
        self.assertEqual(sum(self.runs(f, self.small()) for _ in range(6)) > 0, True)
        native.load().stub_of(6).contents.capacity = native.load().stub_of(6).contents.held
        with self.assertRaises(MemoryError):
            f(self.draw(size=(10**6, 5)))
        native.load().stub_reset(6)
        self.assertEqual([self.runs(f, self.small()) for _ in range(6)][-1], 1)


class TestThreads(unittest.TestCase):
    def test_threads(self):
        context()
        rng, x = np.random.default_rng(5), tt.dmatrix("x")
        weights = [on_device(rng.normal(size=(5, 5))) for _ in range(10)]
        fs = [compiled("on", [x], deep(x, weights[k % 2 :])) for k in range(3)]
        values = [rng.normal(size=(3 + k, 5)) for k in range(3)]
        expected = [f(v) for f, v in zip(fs, values)]
        wrong = []

        def call(k):
            for _ in range(200):
                if not np.array_equal(fs[k](values[k]), expected[k]):
                    wrong.append(k)

        threads = [threading.Thread(target=call, args=(k,)) for k in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class TestErrors(unittest.TestCase):
    def setUp(self):
        context()
        rng = np.random.default_rng(1)
        self.weights = [on_device(rng.normal(size=(5, 5))) for _ in range(10)]
        self.x, self.i = tt.dmatrix("x"), tt.lvector("i")
        self.value = rng.normal(size=(4, 5))

    def test_wrong_indices_in_a_run(self):
        out = deep(self.x[self.i], self.weights)
        f, g = [compiled(setting, [self.x, self.i], out) for setting in ("on", "off")]
        for i in range(6):
            np.testing.assert_array_equal(f(self.value, [i % 4, 1]), g(self.value, [i % 4, 1]))
        for _ in range(3):
            with self.assertRaisesRegex(IndexError, "index 7 is out of bounds"):
                f(self.value, [0, 7])
            np.testing.assert_array_equal(f(self.value, [2, 3]), g(self.value, [2, 3]))

    def test_a_node_that_fails(self):
        # The launches before the node are made, and later calls are right.
        other = tt.dmatrix()
        s = on_device(np.zeros((4, 5)))
        out = deep(self.x, self.weights)
        total = tt.dot(out, other)
        f, g = [compiled(k, [self.x, other], total, updates=[(s, s + out)]) for k in ("on", "off")]
        right, wrong = np.ones((5, 3)), np.ones((4, 3))
        for i in range(10):
            if i in (2, 5, 8):
                with self.assertRaises(ValueError) as caught:
                    f(self.value, wrong)
                self.assertIn("Apply node that caused the error", str(caught.exception))
            np.testing.assert_array_equal(f(self.value, right), g(self.value, right))
        np.testing.assert_allclose(s.get_value(), 20 * out.eval({self.x: self.value}), rtol=1e-12)


class TestOrder(unittest.TestCase):
    """Calls that are not collected run after the calls that are held back."""

    def test_fills(self):
        """Zeros are filled into memory that earlier calls use, in order (`diag`, `GpuAlloc`, gradients of slices)."""
        context()
        rng, x = np.random.default_rng(4), tt.dmatrix("x")
        weights = [on_device(rng.normal(size=(5, 5))) for _ in range(10)]
        h = deep(x, weights)
        outs = [
            tt.dot(tt.diag(h.max(axis=0)), weights[0]),
            tt.zeros_like(h) + tt.set_subtensor(tt.zeros((5, 5))[1:, :], h[:-1]),
            tt.grad((h[:, 1:] ** 2).sum() + (h[2] * 3).sum(), weights[3]),
            tt.grad(pool_2d(h, (2, 2), ignore_border=False).sum(), weights[3]),
        ]
        for out in outs:
            f, g = [compiled(setting, [x], out) for setting in ("on", "off")]
            for _ in range(8):
                value = rng.normal(size=(5, 5))
                np.testing.assert_array_equal(f(value), g(value))

    def test_who_calls_the_device(self):
        """Only known files call a device directly: all others would not keep the order of calls that are held back."""
        calls = re.compile(r"table->(launch|copy|fill|write|read|sync|release)\(")
        # What does not go through launch_queue.c: constants, slots of index errors, blocks of the pool.
        known = {"context.c", "launch_queue.c", "pool.c", "index_errors.c", "cublas.c", "cublas_solve.c", "cufft.c"}
        known |= {"cusolver.c", "cudnn.c"}
        found = set()
        for folder in ("device", "native"):
            for path in glob.glob(os.path.join(os.path.dirname(HERE), folder, "*.c")):
                with open(path, encoding="utf-8") as file:
                    if calls.search(file.read()):
                        found.add(os.path.basename(path))
        self.assertLessEqual(found, known)

    def test_wrong_indices_beside_a_thread_that_reads(self):
        """A thread that copies results cannot take the error of launches that are held back."""
        context()
        rng, x = np.random.default_rng(4), tt.dmatrix()
        index = on_device(np.array([0, 1]))
        h = deep(x[index], [on_device(rng.normal(size=(5, 5))) for _ in range(40)])
        f, value = compiled("on", [x], h), rng.normal(size=(4, 5))
        for _ in range(6):
            f(value)
        index.set_value(np.array([0, 7]))
        large, stop, lost = pygpu.zeros((1 << 18,), "float64", context=contexts.get_context(None)), [], 0

        def read():
            while not stop:
                with contextlib.suppress(IndexError):
                    np.asarray(large)

        reader, interval = threading.Thread(target=read), sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        reader.start()
        try:
            for _ in range(1500):
                with contextlib.suppress(IndexError):
                    f(value)
                    lost += 1
        finally:
            stop.append(1)
            reader.join()
            sys.setswitchinterval(interval)
        self.assertEqual(lost, 0)


class TestGeneratedPrograms(unittest.TestCase):
    """Random functions compute the same bits with collected launches, in any sequence of calls."""

    def test_programs(self):
        context()
        for seed in range(25):
            with self.subTest(seed=seed):
                self.check(np.random.default_rng(seed))

    def variables(self, rng, shared):
        n, x, i, number = 4, tt.dmatrix("x"), tt.lvector("i"), tt.dscalar("number")
        found = [x, *shared]
        pick = lambda: found[rng.integers(len(found))]
        operations = [
            lambda: tt.dot(pick(), pick()),
            lambda: tt.tanh(pick()) - pick(),
            lambda: pick() * number + 0.5,
            lambda: pick()[i],
            lambda: pick() / (1 + tt.sqr(pick()).sum(axis=1, keepdims=True)),
            lambda: tt.nnet.softmax(pick()).T,
            lambda: tt.concatenate([pick()[:2], pick()[2:]]),
            lambda: tt.set_subtensor(pick()[1], pick()[2]),
            lambda: tt.inc_subtensor(pick()[i], pick()) * 0.3,
            lambda: pick()[::-1] + pick().max(axis=0),
            lambda: tt.alloc(number, n, n) + pick(),
            lambda: ifelse(tt.gt(number, 0), pick() * 2, tt.tanh(pick())),
            lambda: theano.scan(lambda h, w: tt.tanh(h + w), outputs_info=pick(), non_sequences=pick(), n_steps=3)[0][
                -1
            ],
        ]
        for _ in range(rng.integers(6, 16)):
            found.append(tt.clip(operations[rng.integers(len(operations))](), -9, 9))
        updates = [(s, found[rng.integers(len(found))]) for s in shared if rng.random() < 0.7]
        return [x, i, number], [found[-1], pick().sum()], updates

    def check(self, rng):
        n, state = 4, rng.bit_generator.state
        functions, variables = [], []
        for setting in ("on", "off"):
            rng.bit_generator.state = state
            shared = [on_device(rng.normal(size=(n, n))) for _ in range(4)]
            functions.append(
                [compiled(setting, a, b, updates=c) for a, b, c in [self.variables(rng, shared) for _ in "ab"]]
            )
            variables.append(shared)
        x, i, number, kept = rng.normal(size=(n, n)), rng.integers(0, n, n), 0.5, []
        which = 0
        for _ in range(40):
            event = rng.random()
            if event < 0.2:
                x = rng.normal(size=(n, n))
            elif event < 0.4:
                i, number = rng.integers(-n, n, n), rng.normal()
            elif event < 0.45:
                which = 1 - which
            elif event < 0.5:
                k, value = rng.integers(4), rng.normal(size=(n, n))
                kept += [shared[k].get_value(borrow=True, return_internal_type=True) for shared in variables]
                for shared in variables:
                    shared[k].set_value(value)
            results = [f[which](x, i, number) for f in functions]
            for a, b in zip(*results):
                np.testing.assert_array_equal(a, b)
        for a, b in zip(*variables):
            np.testing.assert_array_equal(a.get_value(), b.get_value())


class TestKernelsOfGraphs(CudaTest):
    """Graphs on a CUDA device compute. Between them, libraries factorize matrices, which is part of no graph."""

    def test_values(self):
        draw = lambda *shape: self.rng.normal(size=shape)
        before, values = contexts.get_context(self.name).graphs["runs"], [draw(4, 4) for _ in range(6)]
        x, number, results = tt.dmatrix("x"), tt.dscalar("number"), []
        given = [(draw(3, 4), draw()) for _ in range(4)] * 2
        for setting in ("on", "off"):
            weights = [gpuarray_shared_constructor(v, target=self.name) for v in values]
            h = deep(x.transfer(self.name), weights) * number
            h = deep(tt.dot(h, Solve()(weights[0] + 9 * tt.eye(4), weights[1])), weights)
            updates = [(w, w - 0.1 * tt.grad(h.sum(), w)) for w in weights]
            f = compiled(setting, [x, number], h.transfer("cpu"), updates=updates)
            self.assertTrue([n for n in f.maker.fgraph.toposort() if isinstance(n.op, GpuCusolverSolve)])
            results.append([f(*args) for args in given] + [w.get_value() for w in weights])
        for found, expected in zip(*results, strict=True):
            np.testing.assert_array_equal(found, expected)
        self.assertGreater(contexts.get_context(self.name).graphs["runs"], before)


class TestPool(unittest.TestCase):
    def test_equal_requests_get_equal_blocks(self):
        """A function that frees all that it allocates uses the same addresses in every call."""
        ctx = pygpu.init("stub7")
        rng = np.random.default_rng(2)
        sizes = rng.integers(1, 40, 60) * 1000
        kept = [pygpu.empty((int(s),), "uint8", context=ctx) for s in sizes[:10]]

        def address(array):
            return native.memory_of(array.gpudata)

        def call():
            order, held, found = np.random.default_rng(3), list(kept[:3]), []
            for size in sizes:
                held.append(pygpu.empty((int(size),), "uint8", context=ctx))
                found.append(address(held[-1]))
                if order.random() < 0.6:
                    del held[order.integers(3, len(held))]
            return found

        call()
        first = call()
        for _ in range(5):
            self.assertEqual(call(), first)


class TestGraphs(unittest.TestCase):
    """Graphs on the fake CUDA driver, in processes of their own, because a process keeps the driver that it has loaded.

    The fake runs no kernels; cuBLASLt's fake computes products, and the fake driver computes copies.
    """

    START = """
        import ctypes, gc, sys
        import numpy as np
        import theano_ng as theano
        import theano_ng.tensor as tt
        from theano_ng.gpuarray.device import loader
        cuda, cublas = sys.argv[1:]
        for which, path in (("cuda", cuda), ("nvrtc", cuda), ("cublasLt", cublas)):
            loader.use(which, path)
        driver, blas = ctypes.CDLL(cuda), ctypes.CDLL(cublas)
        driver.fake_calls.restype = ctypes.c_char_p

        class State(ctypes.Structure):
            _fields_ = [(n, ctypes.c_int) for n in "devices capability driver busy compiler".split()]
            _fields_ += [(n, ctypes.c_uint64) for n in ("capacity", "held")]
            _fields_ += [(n, ctypes.c_int) for n in "contexts streams events modules graphs pinned fault".split()]

        driver.fake_state.restype = ctypes.POINTER(State)
        driver.fake_start(0)
        blas.fake_blas_reset()
        from theano_ng.gpuarray import devices
        from theano_ng.gpuarray.contexts import get_context
        devices.use("cuda0")

        def calls(*names):
            found = [line.split()[0] for line in driver.fake_calls().decode().splitlines()]
            return [name for name in found if any(part in name for part in names)]

        rng = np.random.default_rng(0)
        ws = [theano.shared(rng.normal(size=(4, 4)) / 2) for _ in range(10)]
        x = tt.dmatrix()
        out = x
        for w in ws:
            out = tt.dot(out, w)
        f = theano.function([x], out)
        value = [rng.normal(size=(3, 4)) for _ in range(10)]

        def check(v):
            expected = v
            for w in ws:
                expected = expected @ w.get_value()
            driver.fake_calls()
            np.testing.assert_allclose(f(v), expected, rtol=1e-12)
            return [name for name in calls("cublasLtMatmul", "Graph", "Capture") if name != "cublasLtMatmulAlgoCheck"]
    """

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.driver = compile_fake(cls.folder)
        cls.blas = compile_fake(cls.folder, cls.driver, source="fake_cublas.c", name="libcublasLt.so.13")

    def run_program(self, text, flags=""):
        program = textwrap.dedent(self.START) + textwrap.dedent(text)
        flags = "base_compiledir=%s,print_active_device=False%s" % (config.base_compiledir, flags)
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program, self.driver, self.blas],
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, "THEANO_FLAGS": flags},
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout.splitlines()

    def test_a_run_is_one_call(self):
        products = ["cublasLtMatmul"] * 10
        recorded = ["cuStreamBeginCapture", *products, "cuStreamEndCapture"]
        found = self.run_program("for v in value[:6]: print(*check(v))")
        expected = [products, products, [*products, *recorded], *[["cuGraphLaunch"]] * 3]
        self.assertEqual([line.split() for line in found], expected)

    def test_off(self):
        for flags in (",gpuarray.graph=off", ",gpuarray.sync=True"):
            found = self.run_program("for v in value[:6]: print(*check(v))", flags)
            self.assertEqual([line.split() for line in found], [["cublasLtMatmul"] * 10] * 6)

    def test_failures_while_a_graph_is_made(self):
        """The calls of the function that are recorded have been made already. Later calls are made one by one."""
        names = {
            "cuStreamBeginCapture": 0,
            "cuStreamEndCapture": 0,
            "cuGraphInstantiateWithFlags": 0,
            "cublasLtMatmul": 13,
        }
        for name, calls_before in names.items():
            found = self.run_program(
                """
                check(value[0]), check(value[0])
                driver.fake_fail(b"%s", 2, %d)
                for v in value: print(*check(v))
                print(get_context(None).graphs["recorded"])
                """
                % (name, calls_before)
            )
            self.assertEqual(found[-2:], [" ".join(["cublasLtMatmul"] * 10), "0"])

    def test_no_memory_for_a_run(self):
        """The calls are made one by one, and stay right."""
        found = self.run_program(
            """
            for v in value[:5]: check(v)
            driver.fake_fail(b"cuGraphLaunch", 2, 0)
            for v in value[:5]: print(*check(v))
            """
        )
        products = ["cublasLtMatmul"] * 10
        self.assertEqual([line.split() for line in found], [["cuGraphLaunch", *products], *[products] * 4])

    def test_a_run_that_fails(self):
        found = self.run_program(
            """
            for v in value[:5]: check(v)
            driver.fake_fail(b"cuGraphLaunch", 900, 0)
            try:
                f(value[0])
            except Exception as error:
                print(type(error).__name__, str(error).splitlines()[0])
                print("Apply node that caused the error: GpuDot22" in str(error))
            for v in value: last = check(v)
            print(*last)
            """
        )
        self.assertEqual(found[0][:42], "RuntimeError gpuarray error: cuGraphLaunch")
        self.assertEqual(found[1:], ["True", "cuGraphLaunch"])

    def test_a_device_that_fails_in_a_run(self):
        """The next call that waits for the device reports the failure, and names the function whose graph ran last."""
        found = self.run_program(
            """
            def fail(call):
                try:
                    call(value[0])
                except Exception as error:
                    print(str(error).splitlines()[0].partition("used any longer in this process")[2])

            f = theano.function([x], out.transfer(None), name="the step")
            named = theano.function([x], tt.dot(x, ws[0]), name="the other function")
            unnamed = theano.function([x], tt.dot(x, ws[0]))
            for v in value[:6]: f(v)
            driver.fake_state().contents.fault = 719
            fail(named), fail(unnamed), fail(named)
            del f
            gc.collect()
            fail(named)
            """
        )
        self.assertEqual(found, [". The last graph of launches was that of the function the step"] * 4)

    def test_a_new_product_at_the_end_of_a_long_piece(self):
        """The first product of a shape is made once, wherever a long piece is divided."""
        found = self.run_program(
            """
            n = tt.iscalar()
            ws[0].set_value(np.eye(4))
            h0, acc, y = [theano.shared(v) for v in (rng.normal(size=(3, 4)), np.zeros((2, 4)), np.ones((2, 3)))]
            states, _ = theano.scan(lambda h: tt.dot(h, ws[0]), outputs_info=h0, n_steps=n)
            new = out = acc + tt.dot(y, tt.dot(states[-1], ws[0]))
            for _ in range(9):
                out = tt.dot(out, ws[0])
            rows, wrong = 2, []
            for steps in range(4086, 4096):
                f = theano.function([n], out, updates=[(acc, new)])
                for calls_of_a_shape in (12, 1):
                    rows += 1
                    acc.set_value(np.zeros((rows, 4)))
                    y.set_value(np.ones((rows, 3)))
                    for _ in range(calls_of_a_shape):
                        f(steps)
                expected = np.ones((rows, 3)) @ h0.get_value()
                if not np.allclose(acc.get_value(), expected):
                    wrong.append((steps, acc.get_value() / expected))
            print(wrong, get_context(None).graphs["runs"] > 20)
            """
        )
        self.assertEqual(found, ["[] True"])

    def test_a_long_piece_whose_parts_fail(self):
        found = self.run_program(
            """
            n = tt.iscalar()
            ws[0].set_value(np.eye(4))
            h0 = theano.shared(rng.normal(size=(3, 4)))
            states, _ = theano.scan(lambda h: tt.dot(h, ws[0]), outputs_info=h0, n_steps=n)
            f = theano.function([n], states[-1])
            for _ in range(5): f(5000)
            for after in range(2):
                for _ in range(4): f(5000)
                new = rng.normal(size=(3, 4))
                h0.set_value(new)
                driver.fake_fail(b"cuGraphLaunch", 900, after)
                try:
                    f(5000)
                    print("no error")
                except RuntimeError as error:
                    print("cuGraphLaunch" in str(error).splitlines()[0], end=" ")
                driver.fake_fail(b"none", 900, 0)
                print(np.array_equal(f(5000), new))
            """
        )
        self.assertEqual(found, ["True True"] * 2)

    def test_an_error_before_the_compiler_runs(self):
        """If a step gives the GIL up, an error of the calls before it is raised by the same call of the function."""
        found = self.run_program(
            """
            from theano_ng.gpuarray.pygpu import gpuarray as pygpu
            y, out = theano.shared(rng.normal(size=(4, 4))), theano.shared(rng.normal(size=(4, 4)))
            for w in ws: out = tt.dot(out, w)
            f = theano.function([], tt.set_subtensor(out[:3], y[:3]).transfer(None))
            for _ in range(6): f()
            order = np.asfortranarray(rng.normal(size=(4, 4)))
            y.set_value(pygpu.asarray(order, context=get_context(None), order="F"), borrow=True)
            driver.fake_fail(b"cublasLtMatmul", 13, 3)
            for i in range(4):
                try:
                    f()
                    print(i)
                except RuntimeError as error:
                    print(i, str(error)[:30])
            """
        )
        self.assertEqual(found, ["0 gpuarray error: cublasLtMatmul", "1", "2", "3"])

    def test_graphs_are_freed_with_their_function(self):
        found = self.run_program(
            """
            g = f.copy()
            for v in value[:5]: check(v); g(v)
            print(driver.fake_state().contents.graphs)
            del g
            gc.collect()
            print(driver.fake_state().contents.graphs, *check(value[0]))
            del f
            gc.collect()
            print(driver.fake_state().contents.graphs)
            """
        )
        self.assertEqual(found, ["4", "2 cuGraphLaunch", "0"])

    def test_a_forked_child(self):
        found = self.run_program(
            """
            import os
            for v in value[:5]: check(v)
            child = os.fork()
            if child == 0:
                try:
                    f(value[0])
                except Exception as error:
                    print(type(error).__name__, "before this process was forked" in str(error), flush=True)
                del f
                gc.collect()
                os._exit(0)
            print(os.waitpid(child, 0)[1], *check(value[0]))
            """
        )
        self.assertEqual(found, ["GpuArrayException True", "0 cuGraphLaunch"])


if __name__ == "__main__":
    unittest.main()
