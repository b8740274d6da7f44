"""Arrays that are loaded from files or sent between processes."""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np

import theano_ng as theano
from theano_ng import tensor as tt
from theano_ng.gof.sched import sort_schedule_fn
from theano_ng.gof.type import Generic
from theano_ng.tensor import io


class TestLoad(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.file = os.path.join(folder.name, "stored-array.npy")

    def save(self, value):
        np.save(self.file, value)
        return self.file

    def test_documented_example(self):
        self.save(np.arange(5))
        names = {}
        exec(
            "from theano_ng import *\npath = Variable(Generic())\nx = tensor.load(path, 'int64', (False,))\ny = x*2\n"
            "fn = function([path], y)",
            names,
        )
        got = names["fn"](self.file)
        self.assertEqual((got.dtype, got.tolist()), ("int64", [0, 2, 4, 6, 8]))

    def test_the_file_is_read_by_every_call(self):
        for path in (self.file, pathlib.Path(self.file), io.Constant(theano.gof.generic, self.file)):
            for mode in (None, "c"):
                f = theano.function([], tt.load(path, "float64", (False, False), mmap_mode=mode) + 1)
                for k in range(2):
                    self.save(np.full((2, 3), float(k)))
                    np.testing.assert_array_equal(f(), np.full((2, 3), k + 1.0))

    def test_mapping(self):
        value = np.arange(12.0).reshape(3, 4)
        path = theano.Variable(Generic(), None)
        loaded, mapped = (tt.load(path, "float64", (False, False), mmap_mode=mode) for mode in (None, "c"))
        f = theano.function([path], [loaded, mapped, tt.set_subtensor(mapped[1], 7.0), mapped.T.sum(0)])
        for order in "CF":
            self.save(np.asarray(value, order=order))
            for _ in range(2):
                whole, view, changed, sums = f(self.file)
                np.testing.assert_array_equal(whole, value)
                np.testing.assert_array_equal(view, value)
                np.testing.assert_array_equal(changed[1], np.full(4, 7.0))
                np.testing.assert_array_equal(sums, value.sum(1))
            np.testing.assert_array_equal(np.load(self.file), value)  # the file is unchanged
        g = theano.function([path], theano.Out(mapped, borrow=True), mode="FAST_RUN")
        self.assertIsInstance(g(self.file), np.memmap)

    def test_other_byte_order(self):
        self.save(np.arange(3, dtype=">i4"))
        for mode in (None, "c"):
            got = theano.function([], tt.load(self.file, "int32", (False,), mode))()
            self.assertEqual((got.dtype.isnative, got.tolist()), (True, [0, 1, 2]))

    def test_errors(self):
        path = theano.Variable(Generic(), None)
        for mode in ("r", "r+", "w+", "x"):
            with self.assertRaisesRegex(ValueError, "None and 'c', got " + mode.replace("+", r"\+")):
                tt.load(path, "int64", (False,), mode)
        with self.assertRaisesRegex(TypeError, "string or a variable of type Generic, got 3"):
            tt.load(3, "int64", (False,))
        f = theano.function([path], tt.load(path, "int64", (True, False)))
        for value, error, text in (
            (np.zeros((1, 2), "int32"), TypeError, "type int64, got int32 instead, from .*stored-array.npy"),
            (np.zeros(2, "int64"), TypeError, r"2 dimensions, got one of 1, with shape \(2,\)"),
            (np.zeros((2, 2), "int64"), TypeError, r"broadcastable, \(True, False\), got shape \(2, 2\)"),
            (np.array([[None]]), ValueError, ""),
        ):
            with self.assertRaisesRegex(error, text):
                f(self.save(value))
        self.assertEqual(f(self.save(np.ones((1, 2), "int64"))).tolist(), [[1, 1]])
        self.assertRaises(FileNotFoundError, f, os.path.join(self.folder, "none.npy"))
        archive = os.path.join(self.folder, "many.npz")
        np.savez(archive, a=np.ones(2))
        with self.assertRaisesRegex(ValueError, "Expected a .npy file, got .*many.npz"):
            f(archive)
        renamed = shutil.copy(archive, os.path.join(self.folder, "many.npy"))
        with self.assertRaisesRegex(ValueError, "archive of several arrays"):
            f(renamed)

    def test_equality(self):
        ops = [
            io.LoadFromDisk("int64", [False]),
            io.LoadFromDisk(np.int64, (False,)),
            io.LoadFromDisk("int64", (False,), "c"),
        ]
        self.assertEqual((ops[0] == ops[1], hash(ops[0]) == hash(ops[1]), ops[0] == ops[2]), (True, True, False))
        self.assertEqual(str(ops[2]), "Load{dtype: int64, broadcastable: (False,), mmap: c}")

    def test_no_gradient(self):
        path, w = theano.Variable(Generic(), None), tt.dscalar()
        x = tt.load(path, "float64", (False,))
        f = theano.function([path, w], tt.grad((x * w).sum(), w))
        self.assertEqual(f(self.save(np.array([1.0, 2.0])), 5.0), 3.0)


class TestGraphs(unittest.TestCase):
    """Tests of graphs with Ops that send and receive arrays. These tests send no messages."""

    def test_keys_and_comparisons(self):
        array = tt.dvector()
        wait, receive = io.send(array, 1, 7).owner, io.irecv((2,), "float64", 1, 3)[0].owner
        other = (array + 1).owner
        self.assertEqual(
            [io.mpi_send_wait_key(n) for n in (receive, wait.inputs[0].owner, other, wait)], [-1, -1, 0, 1]
        )
        self.assertEqual([io.mpi_tag_key(n) for n in (receive, wait, other)], [3, 7, 0])
        self.assertLess(io.mpi_send_wait_cmp(receive, wait), 0)
        self.assertGreater(io.mpi_tag_cmp(wait, receive), 0)
        self.assertEqual(
            (io.mpi_cmps, io.mpi_keys), ((io.mpi_send_wait_cmp, io.mpi_tag_cmp), (io.mpi_send_wait_key, io.mpi_tag_key))
        )

    def test_order(self):
        x = tt.dmatrix()
        outputs = [io.recv((3,), "float32", 1, tag).sum() for tag in (5, 3)] + [io.send(x * 2, 1, 4)]
        order = [str(n.op).split("{")[0] for n in sort_schedule_fn(*io.mpi_cmps)(theano.FunctionGraph([x], outputs))]
        started = [i for i, name in enumerate(order) if name in ("MPISend", "MPIRecv")]
        waited = [i for i, name in enumerate(order) if name.endswith("Wait")]
        self.assertLess(max(started), min(waited))
        self.assertEqual([len(started), len(waited)], [3, 3])

    def test_types_shapes_and_names(self):
        x = tt.TensorType("float32", (True, False))()
        request, data = io.isend(x, 1, 2)
        self.assertEqual((type(request.type), data.type), (Generic, x.type))
        _, got = io.irecv((2, 0), "int8", 1, 2)
        self.assertEqual((got.dtype, got.broadcastable), ("int8", (False, False)))
        waited = io.recv((2, 3), "int8", 1, 2)
        f = theano.function([x], [waited.shape, data.shape], mode="FAST_RUN")
        self.assertFalse([n for n in f.maker.fgraph.apply_nodes if type(n.op).__module__ == io.__name__])
        self.assertEqual([s.tolist() for s in f(np.ones((1, 4), "f"))], [[2, 3], [1, 4]])
        self.assertEqual(
            [str(io.MPISend(1, 2)), str(io.MPIRecv(0, 3, (2,), "int8"))],
            ["MPISend{dest: 1, tag: 2}", "MPIRecv{source: 0, tag: 3, shape: (2,), dtype: int8}"],
        )
        self.assertEqual((io.MPISend(1, 2), io.MPIRecvWait(1)), (io.MPISend(1, 2), io.MPIRecvWait(1)))
        self.assertNotEqual(io.MPIRecv(0, 3, (2,), "int8"), io.MPIRecv(0, 3, (2,), "int16"))

    def test_errors(self):
        x = tt.dvector()
        for build in (
            lambda: io.MPISend("a", 1),
            lambda: io.MPIRecv(0, 1.5, (2,), "int8"),
            lambda: io.MPIRecv(0, 1, (x[0],), "int8"),
            lambda: io.MPIRecvWait(1)(x, x),
            lambda: io.MPISendWait(1)(x, x),
            lambda: io.send("text", 1, 1),
        ):
            self.assertRaises((TypeError, ValueError), build)
        self.assertRaises(ValueError, io.irecv, (-1,), "int8", 0, 1)
        with self.assertRaises((NotImplementedError, AttributeError)):
            tt.grad(io.isend(x, 1, 1)[1].sum(), x)

    def test_without_mpi4py(self):
        f = theano.function([x := tt.dvector()], io.send(x, 1, 1))
        with (
            mock.patch.dict(sys.modules, {"mpi4py": None}),
            self.assertRaisesRegex(RuntimeError, r"needs the package mpi4py.*theano_ng\[mpi\]"),
        ):
            f([1.0])


MPIEXEC = shutil.which("mpiexec", path=os.path.dirname(sys.executable)) or shutil.which("mpiexec")


class TestTwoProcesses(unittest.TestCase):
    @unittest.skipUnless(importlib.util.find_spec("mpi4py"), "mpi4py is not installed (pip install 'theano_ng[mpi]')")
    @unittest.skipUnless(MPIEXEC, "there is no mpiexec (pip install 'theano_ng[mpi]')")
    def test_exchange(self):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "exchange_by_mpi.py")
        # PYTHONPATH is set because the package may not be installed. The variables of Open MPI permit the user root,
        # and more processes than cores.
        root = os.path.dirname(os.path.dirname(os.path.abspath(theano.__file__)))
        environment = dict(
            os.environ,
            PYTHONPATH=os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")])),
            # Some modes run each node twice, and would send each message twice. FAST_RUN runs nodes once.
            THEANO_FLAGS=",".join(filter(None, [os.environ.get("THEANO_FLAGS"), "mode=FAST_RUN"])),
            OMPI_ALLOW_RUN_AS_ROOT="1",
            OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
            OMPI_MCA_rmaps_base_oversubscribe="1",
            PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe",
        )
        done = subprocess.run(
            [MPIEXEC, "-n", "2", sys.executable, script],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            env=environment,
        )
        if "different MPIs" in done.stdout:
            self.skipTest("mpiexec and mpi4py belong to different MPIs")
        self.assertEqual(done.returncode, 0, done.stdout)
        # mpiexec may merge the output of both processes into one line.
        self.assertEqual(
            sorted(re.findall(r"rank (\d): (\w+) fine", done.stdout)),
            sorted(
                (str(rank), part) for rank in (0, 1) for part in ("blocking", "exchange", "kinds", "in_place", "sizes")
            ),
            done.stdout,
        )


if __name__ == "__main__":
    unittest.main()
