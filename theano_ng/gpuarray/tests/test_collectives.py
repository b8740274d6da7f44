"""Tests of collective operations: members in threads on OpenCL, in processes by MPI, and on the fake driver by NCCL."""

import os
import re
import subprocess
import sys
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from theano_ng.gpuarray.device.tests.test_nccl import WithNccl
from theano_ng.gpuarray.pygpu import collectives
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.tests import collective_cases, mpi
from theano_ng.gpuarray.tests.device import DEVICE, context

HERE = os.path.dirname(os.path.abspath(__file__))


class InThreads(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        context()  # skips the tests if there is no device
        cls.contexts = [pygpu.init(DEVICE) for _ in range(4)]

    def members(self, size, timeout=20):
        cid = collectives.GpuCommCliqueId(self.contexts[0])
        return [
            collectives.GpuComm(collectives.GpuCommCliqueId(c, cid.comm_id), size, rank, timeout=timeout)
            for rank, c in enumerate(self.contexts[:size])
        ]

    def together(self, comms, *actions):
        """Run an action for each member in a thread; return the results, or the exceptions."""

        def run(comm, action):
            try:
                return action(comm)
            except Exception as error:
                return error.with_traceback(None)

        actions = actions * len(comms) if len(actions) == 1 else actions
        with ThreadPoolExecutor(len(comms)) as pool:
            return list(pool.map(run, comms, actions))

    def array(self, comm, value=(1, 2, 3), dtype="float32"):
        return pygpu.array(np.asarray(value, dtype), context=comm.context)


class TestNumbers(InThreads):
    def test_generated_operations(self):
        """Random calls, operations, dtypes, shapes, layouts and roots, in groups of one to four."""
        for size in (1, 2, 3, 4):
            comms = self.members(size)
            found = self.together(comms, lambda comm, size=size: collective_cases.run(comm, size, 60))
            self.assertEqual(found, [None] * size)
            self.assertEqual({comm.transport for comm in comms}, {"host"})

    def test_subclasses(self):
        class Mine(pygpu.GpuArray):
            pass

        (comm,) = self.members(1)
        a = pygpu.array(np.arange(3.0), context=comm.context, cls=Mine)
        self.assertIs(type(comm.all_reduce(a, "sum")), Mine)
        self.assertIs(type(comm.all_gather(a)), Mine)

    def test_a_part_of_one_row(self):
        """`dest` of a reduce_scatter can lack the axis if the part has one row."""
        comms = self.members(2)

        def member(comm):
            dest = self.array(comm, [0, 0])
            comm.reduce_scatter(self.array(comm, [[1, 2], [3, 4]]), "sum", dest=dest)
            return np.asarray(dest).tolist()

        self.assertEqual(self.together(comms, member), [[2, 4], [6, 8]])


class TestErrors(InThreads):
    def refused(self, comms, *actions):
        """Return the messages of all members, after a check that the group still works."""
        found = [str(one) for one in self.together(comms, *actions)]
        sums = self.together(comms, lambda comm: np.asarray(comm.all_reduce(self.array(comm), "sum")).tolist())
        self.assertEqual(sums, [[len(comms) * i for i in (1, 2, 3)]] * len(comms))
        return found

    def test_differences(self):
        """An error names what each member has."""
        comms = self.members(3)
        for what, values, action in (
            (
                "have arrays of different shapes",
                ("(3,)", "(3,)", "(2,)"),
                lambda comm: comm.all_reduce(self.array(comm, [1] * (2 if comm.rank == 2 else 3)), "sum"),
            ),
            (
                "have arrays of different dtypes",
                ("int32", "float64", "float64"),
                lambda comm: comm.all_gather(self.array(comm, dtype="float64" if comm.rank else "int32")),
            ),
            (
                "use different operations",
                ("sum", "max", "sum"),
                lambda comm: comm.reduce_scatter(self.array(comm), "max" if comm.rank == 1 else "+"),
            ),
            (
                "call different functions",
                ("all_gather", "broadcast", "broadcast"),
                lambda comm: comm.broadcast(self.array(comm), 1) if comm.rank else comm.all_gather(self.array(comm)),
            ),
            ("have different roots", ("0", "1", "2"), lambda comm: comm.reduce(self.array(comm), "sum")),
            (
                "have different values of nd_up",
                ("1", "0", "1"),
                lambda comm: comm.all_gather(self.array(comm), nd_up=int(comm.rank != 1)),
            ),
        ):
            text = "the members of the group %s: %s" % (
                what,
                "; ".join("member %d: %s" % pair for pair in enumerate(values)),
            )
            self.assertEqual(self.refused(comms, action), [text] * 3)

    def test_bad_arguments(self):
        """A member with a bad argument raises at once, and the others raise an error that names it."""
        comms = self.members(2)
        a, other = self.array(comms[1], [[1, 2], [3, 4]]), self.array(comms[0])
        whole = self.array(comms[1], np.arange(8))
        read_only = pygpu.from_gpudata(a.gpudata, 0, "float32", (2, 2), context=a.context, writable=False, base=a)
        for text, action in (
            ("unknown operation 'mean'; expected one of *, +, add", lambda comm: comm.all_reduce(a, "mean")),
            ("unknown operation None", lambda comm: comm.reduce(a, None)),
            ("all_reduce expects a device array, got list", lambda comm: comm.all_reduce([1], "sum")),
            ("the array is in another context (", lambda comm: comm.all_reduce(other, "sum")),
            ("dest is in another context (", lambda comm: comm.all_reduce(a, "sum", dest=other)),
            ("dest must be a device array, got ndarray", lambda comm: comm.all_reduce(a, "sum", dest=np.zeros(2))),
            ("dest has shape (4,) and dtype float32, but the result has shape (2, 2) and dtype float32",
             lambda comm: comm.all_reduce(a, "sum", dest=a.reshape((4,)))),
            ("dest has shape (2, 2) and dtype int32, but", lambda comm: comm.all_reduce(a, "sum", dest=a.astype("int32"))),
            ("dest is read-only", lambda comm: comm.all_reduce(a, "sum", dest=read_only)),
            ("dest overlaps the source", lambda comm: comm.all_reduce(whole[:4], "sum", dest=whole[2:6])),
            ("dest overlaps the source", lambda comm: comm.all_reduce(whole[:4], "sum", dest=whole[3::-1])),
            ("dest overlaps the source", lambda comm: comm.all_reduce(whole[::2][:3], "sum", dest=whole[::3])),
            ("dest overlaps the source", lambda comm: comm.reduce_scatter(whole, "sum", dest=whole[:4])),
            ("dest overlaps the source", lambda comm: comm.all_gather(whole[:4], dest=whole, nd_up=0)),
            ("invalid root 2 in a group of 2 members", lambda comm: comm.reduce(a, "sum", root=2)),
            ("invalid root -2 in a group of 2 members", lambda comm: comm.broadcast(a, root=-2)),
            ("the first axis of an array of shape (3,) cannot be divided evenly between 2 members",
             lambda comm: comm.reduce_scatter(self.array(comm), "sum")),
            ("the first axis of an array of shape () cannot", lambda comm: comm.reduce_scatter(self.array(comm, 1), "sum")),
            ("arrays of shape () cannot be joined with nd_up=0", lambda comm: comm.all_gather(self.array(comm, 1), nd_up=0)),
            ("arrays of shape (2, 2) cannot be joined with nd_up=-1", lambda comm: comm.all_gather(a, nd_up=-1)),
        ):  # fmt: skip
            with self.subTest(text):
                good, bad = self.refused(comms, lambda comm: comm.all_reduce(self.array(comm), "sum"), action)
                self.assertTrue(bad.startswith(text), bad)
                self.assertRegex(good, "^another member of the group failed: member 1: (Value|Type)Error: ")
                self.assertIn(text, good)
        # Parts that do not overlap are accepted.
        comms = self.members(1)
        whole = self.array(comms[0], np.arange(8))
        comms[0].all_reduce(whole[:4], "sum", dest=whole[4:])
        comms[0].all_reduce(whole[:0], "sum", dest=whole[:0])
        self.assertEqual(np.asarray(whole).tolist(), [0, 1, 2, 3] * 2)

    def test_failures_ahead(self):
        """A member can fail several times before the others come."""
        comms = self.members(2)
        with ThreadPoolExecutor(1) as pool:
            with self.assertRaisesRegex(ValueError, "^unknown operation"):
                comms[0].all_reduce(self.array(comms[0]), "mean")
            ahead = pool.submit(comms[0].all_reduce, self.array(comms[0]), "sum")
            time.sleep(0.05)
            with self.assertRaisesRegex(
                ValueError, "^another member of the group failed: member 0: ValueError: unknown"
            ):
                comms[1].all_reduce(self.array(comms[1]), "sum")
            found = comms[1].all_reduce(self.array(comms[1]), "sum")
            self.assertEqual(np.asarray(found).tolist(), np.asarray(ahead.result()).tolist())

    def test_identifiers(self):
        cid = collectives.GpuCommCliqueId(self.contexts[0])
        self.assertEqual((len(cid.comm_id), cid), (128, collectives.GpuCommCliqueId(self.contexts[1], cid.comm_id)))
        self.assertEqual(len({cid, collectives.GpuCommCliqueId(self.contexts[0])}), 2)
        for action in (
            lambda: collectives.GpuCommCliqueId(self.contexts[0], b"short"),
            lambda: setattr(cid, "comm_id", b"short"),
        ):
            with self.assertRaisesRegex(ValueError, "^an identifier must have 128 bytes, got 5$"):
                action()
        for size, rank in ((3, 3), (3, -1), (0, 0)):
            with self.assertRaisesRegex(ValueError, "^invalid member number %d in a group of %d$" % (rank, size)):
                collectives.GpuComm(cid, size, rank)
        comm = collectives.GpuComm(cid, 3, 1)
        with self.assertRaisesRegex(ValueError, "^member 1 has already joined the group$"):
            collectives.GpuComm(cid, 3, 1)
        with self.assertRaisesRegex(ValueError, "^the group has 3 members, not 2$"):
            collectives.GpuComm(cid, 2, 0)
        self.assertEqual((comm.count, comm.rank, comm.transport), (3, 1, None))


class TestAbsence(InThreads):
    def test_a_member_that_does_not_come(self):
        """The others raise an error that names it, and so does every later call of the group."""
        comms = self.members(3, timeout=3)
        start = time.monotonic()
        for _ in range(2):
            found = self.together(comms[:2], lambda comm: comm.all_reduce(self.array(comm), "sum"))
            for rank, error in enumerate(found):
                self.assertIsInstance(error, pygpu.GpuArrayException)
                self.assertEqual(
                    str(error), "member %d of the group cannot go on: member 2 did not come within 3 s" % rank
                )
        self.assertLess(time.monotonic() - start, 20)
        with self.assertRaisesRegex(pygpu.GpuArrayException, "^member 2 .* member 2 did not come within 3 s$"):
            comms[2].all_reduce(self.array(comms[2]), "sum")

    def test_a_member_that_never_joins(self):
        comm = self.members(1)[0]
        comm = collectives.GpuComm(collectives.GpuCommCliqueId(self.contexts[0]), 3, 1, timeout=0.1)
        with self.assertRaisesRegex(
            pygpu.GpuArrayException,
            "^member 1 of the group cannot go on: members 0, 2 did not come within 0.1 s, and members 0, 2 never joined",
        ):
            comm.all_reduce(self.array(comm), "sum")

    def test_a_member_whose_thread_fails(self):
        """The others need not wait until the time is over."""
        cid = collectives.GpuCommCliqueId(self.contexts[0])

        def fails():
            collectives.GpuComm(collectives.GpuCommCliqueId(self.contexts[1], cid.comm_id), 2, 1)
            raise SystemExit

        comm = collectives.GpuComm(cid, 2, 0)
        threading.Thread(target=fails).start()
        with self.assertRaisesRegex(pygpu.GpuArrayException, "^member 0 .* cannot go on: member 1 left the group$"):
            comm.all_reduce(self.array(comm), "sum")

    def test_close(self):
        comms = self.members(2)
        self.together(comms, lambda comm: comm.all_reduce(self.array(comm), "sum"))
        with comms[0]:
            pass
        with self.assertRaisesRegex(pygpu.GpuArrayException, "cannot go on: member 0 left the group$"):
            comms[1].all_reduce(self.array(comms[1]), "sum")
        with self.assertRaisesRegex(ValueError, "^member 0 has left the group$"):
            comms[0].all_reduce(self.array(comms[0]), "sum")
        comms[0].close()


class TestProcesses(unittest.TestCase):
    def test_members_by_mpi(self):
        context()  # skips the test if there is no device
        said = mpi.run(3, os.path.join(HERE, "collectives_by_mpi.py"), DEVICE)
        # mpiexec may merge the output of the processes into one line.
        self.assertEqual(
            sorted(re.findall(r"rank (\d): (\w+) fine", said)),
            sorted((str(rank), part) for rank in range(3) for part in ("numbers", "errors", "absence")),
            said,
        )


class TestNccl(WithNccl):
    def run_program(self, function, nccl=None):
        """Run a function of collectives_by_nccl.py; return its output."""
        done = subprocess.run(
            [sys.executable, os.path.join(HERE, "collectives_by_nccl.py"), function, self.path, nccl or self.nccl_path],
            capture_output=True,
            text=True,
            timeout=300,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout.splitlines()

    def test_generated_operations(self):
        """Random operations in groups of one to four; the host reduces the dtypes that NCCL does not."""
        self.assertEqual(
            self.run_program("numbers"), ["%d %s" % (size, " ".join(["nccl"] * size)) for size in range(1, 5)]
        )

    def test_members_in_other_processes(self):
        """Members that only NCCL connects compare their calls by NCCL, too."""
        self.assertEqual(
            self.run_program("apart"),
            [
                "the members of the group have arrays of different shapes: member 0: (2,); member 1: (3,); member 2: (4,)",
                "NCCL does not reduce arrays of int16, and members in other processes can be reached only by NCCL; "
                "GpuComm(..., mpi=...) reaches them by MPI, too",
                "nccl nccl nccl",
            ],
        )

    def test_processes(self):
        """Members that MPI connects (here, threads that pass messages) agree on NCCL, or on the host."""
        said = self.run_program("processes")
        log = "LOG collective operations go through the host: members 0 and 1 are on the same device (0000:84:00.0), "
        self.assertEqual(said, ["nccl nccl nccl", "True", log + "which NCCL does not support", "host host", "False"])

    def test_two_contexts_on_a_device(self):
        said = self.run_program("one_device")
        self.assertEqual(
            said,
            [
                "LOG collective operations go through the host: members 0 and 1 are on the same device (0000:83:00.0), "
                "which NCCL does not support",
                "host host",
                "LOG collective operations go through the host: members 0 and 2 are on the same device (0000:84:00.0), "
                "which NCCL does not support",
                "[0.0, 3.0, 6.0] [0.0, 3.0, 6.0] [0.0, 3.0, 6.0] host host host",
            ],
        )

    def test_missing(self):
        """Without the library, the log says so once, and arrays go through the host."""
        said = self.run_program("missing", "/nowhere/libnccl.so.2")
        self.assertEqual(said[1:], ["host host"] * 2)
        self.assertRegex(
            said[0], r"^LOG collective operations go through the host: member [01]: NCCL cannot be loaded \("
        )

    def test_failures(self):
        said = self.run_program("failures")
        reason = r"remote process exited or there was a network error, at member (\d) of 2 on cuda\2"
        for (other, own), name, text in (
            (said[:2], "AllReduce", r"all_reduce of arrays of shape \(2, 3\), float64"),
            (said[2:4], "AllGather", r"all_gather of arrays of shape \(6,\), float64"),
        ):
            first = r"^member (\d) of the group cannot go on: \w+ of member (\d) failed \(nccl%s: " % name
            self.assertRegex(other, first + reason.replace(r"(\d)", r"\2") + r"\) \(%s\)$" % text)
            self.assertRegex(own, "^()nccl%s: " % name + reason + r" \(%s\)$" % text)
        self.assertEqual(said[4:], ["nccl nccl True"])

    def test_absence(self):
        self.assertEqual(
            self.run_program("absent"),
            [
                "member 0 of the group cannot go on: member 1 did not come within 3 s None",
                "member 0 of the group cannot go on: other members did not join within 0.5 s, in this or other processes",
                "member 0 of the group cannot go on: other members did not join within 0.5 s, in this or other processes",
                "[0.0, 1.0, 2.0, 3.0, 4.0, 5.0] nccl nccl",
            ],
        )

    def test_arrays_that_are_not_contiguous(self):
        self.assertEqual(self.run_program("strided"), ["None", "cuLaunchKernel ncclAllReduce cuLaunchKernel"])


if __name__ == "__main__":
    unittest.main()
