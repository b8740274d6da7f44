"""Groups of contexts of the fake driver, which exchange arrays by the fake NCCL. test_collectives.py runs each function in
a process of its own, because a process keeps the libraries that it has loaded::

    python collectives_by_nccl.py FUNCTION libcuda.so.1 libnccl.so.2
"""

import ctypes
import logging
import queue
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from theano_ng.gpuarray.device import loader
from theano_ng.gpuarray.pygpu import collectives
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.tests import collective_cases

FUNCTION, CUDA, NCCL = sys.argv[1:]
logging.basicConfig(level=logging.WARNING, format="LOG %(message)s", stream=sys.stdout)
driver = ctypes.CDLL(CUDA)
driver.fake_calls.restype = ctypes.c_char_p
driver.fake_state.restype = ctypes.POINTER(ctypes.c_int)
driver.fake_start(0)
driver.fake_state()[0] = 4  # devices
for which, path in (("cuda", CUDA), ("nvrtc", CUDA), ("nccl", NCCL)):
    loader.use(which, path)
if FUNCTION != "missing":
    fake = ctypes.CDLL(NCCL)
    fake.fake_nccl_reset()


def opened(*numbers):
    return [pygpu.init("cuda%d" % i) for i in numbers]


def together(contexts, action, timeout=20):
    """Run `action(comm)` for each member of a group, in threads; return the results, or the exceptions."""
    cid = collectives.GpuCommCliqueId(contexts[0])

    def member(rank):
        mine = collectives.GpuCommCliqueId(contexts[rank], cid.comm_id)
        try:
            with collectives.GpuComm(mine, len(contexts), rank, timeout=timeout) as comm:
                return action(comm)
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(contexts)) as pool:
        return list(pool.map(member, range(len(contexts))))


def calls(part):
    return [line for line in driver.fake_calls().decode().splitlines() if part in line]


def generated(comm):
    collective_cases.run(comm, 7 + comm.count, 150, has_kernels=False)
    return comm.transport


def numbers():
    """Groups of one to four members, in threads."""
    for size in (1, 2, 3, 4):
        print(size, *together(opened(*range(size)), generated))
        assert calls("ncclAllReduce"), size


class OwnOfEachThread:
    """A table of groups for each thread, as if each thread were a process."""

    def __init__(self):
        self._tables = threading.local()

    def __getattr__(self, name):
        if not hasattr(self._tables, "mine"):
            self._tables.mine = weakref.WeakValueDictionary()
        return getattr(self._tables.mine, name)

    def __setitem__(self, key, value):
        self.get(None)
        self._tables.mine[key] = value


def apart():
    """Members that know nothing of each other, as in other processes: only NCCL connects them."""
    collectives._cliques = OwnOfEachThread()

    def member(comm):
        rng = np.random.default_rng(5)
        for _ in range(100):
            case = collective_cases.draw(rng, comm.count)
            if case["dtype"] not in ("bool", "int16") or case["call"] in ("broadcast", "all_gather"):  # NCCL can do it
                collective_cases.check(comm, case, False)
        for bad in (np.zeros((2 + comm.rank,)), np.zeros(2, "int16")):
            try:
                comm.all_reduce(pygpu.array(bad, context=comm.context), "sum")
                print("no error")
            except (ValueError, pygpu.UnsupportedException) as error:
                said = str(error)
                if comm.rank == 0:
                    print(said)
        return comm.transport

    print(*together(opened(0, 1, 2), member))


class ThreadsAsProcesses:
    """The methods of an mpi4py communicator that collectives use, for threads."""

    def __init__(self, rank, shared):
        self._rank, self._shared = rank, shared

    @staticmethod
    def of(size):
        boxes = [[queue.SimpleQueue() for _ in range(size)] for _ in range(size)]
        shared = {"size": size, "boxes": boxes, "barrier": threading.Barrier(size), "arrays": [None] * size}
        return [ThreadsAsProcesses(rank, shared) for rank in range(size)]

    def Get_size(self):
        return self._shared["size"]

    def Get_rank(self):
        return self._rank

    def isend(self, value, dest, tag):
        self._shared["boxes"][dest][self._rank].put(value)
        return self

    def Test(self):
        return True

    def iprobe(self, source, tag):
        return not self._shared["boxes"][self._rank][source].empty()

    def recv(self, source, tag):
        return self._shared["boxes"][self._rank][source].get()

    def Allgather(self, data, found):
        self._shared["arrays"][self._rank] = data
        self._shared["barrier"].wait()
        if found is not None:
            found[...] = self._shared["arrays"]
        self._shared["barrier"].wait()

    def Gather(self, data, found, root):
        self.Allgather(data, found)


def processes():
    """Members that MPI connects use NCCL if each has a device of its own."""
    for numbers in ((0, 1, 2), (1, 1)):
        contexts, communicators = opened(*numbers), ThreadsAsProcesses.of(len(numbers))

        def member(rank):
            cid = collectives.GpuCommCliqueId(contexts[rank])
            with collectives.GpuComm(cid, len(contexts), rank, timeout=20, mpi=communicators[rank]) as comm:
                rng = np.random.default_rng(9)
                for _ in range(100):
                    case = collective_cases.draw(rng, comm.count)
                    if numbers == (0, 1, 2) or case["call"] != "broadcast":
                        collective_cases.check(comm, case, False)
                return comm.transport

        with ThreadPoolExecutor(len(numbers)) as pool:
            print(*pool.map(member, range(len(numbers))))
        print(len(calls("ncclAllReduce")) > 0)


def one_device():
    """Two contexts on one device, and a context that joins so late that the other already waits for NCCL."""
    print(*together(opened(0, 0), generated))
    first, second, third = opened(1, 2, 1)
    cid = collectives.GpuCommCliqueId(first)
    comms = [
        collectives.GpuComm(collectives.GpuCommCliqueId(c, cid.comm_id), 3, rank, timeout=20)
        for rank, c in enumerate((first, second))
    ]
    arrays = [pygpu.array(np.arange(3.0), context=c) for c in (first, second, third)]
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(comm.all_reduce, a, "sum") for comm, a in zip(comms, arrays)]
        time.sleep(0.2)
        comms.append(collectives.GpuComm(collectives.GpuCommCliqueId(third, cid.comm_id), 3, 2, timeout=20))
        last = pool.submit(comms[2].all_reduce, arrays[2], "sum")
        print(*[np.asarray(one.result()).tolist() for one in (*waiting, last)], *[comm.transport for comm in comms])


def missing():
    """NCCL is not installed: the host exchanges the arrays."""
    for _ in range(2):
        print(*together(opened(0, 1), generated))


def failures():
    """A call that fails at one member ends at all of them; the contexts work in a new group afterwards."""

    def member(comm):
        a = pygpu.array(np.arange(6.0) + comm.rank, context=comm.context)
        comm.all_reduce(a, "sum")
        if comm.rank == 1:
            driver.fake_fail(b"ncclAllReduce", 6, 0)
        else:
            time.sleep(0.2)
        comm.all_reduce(a.reshape((2, 3)), "sum")

    contexts = opened(0, 1)
    start = time.monotonic()
    for error in sorted(map(str, together(contexts, member))):
        print(error)
    state = fake.fake_nccl_state
    state.restype = ctypes.POINTER(ctypes.c_int)

    received = threading.Barrier(2)

    def asynchronous(comm):
        a = pygpu.array(np.arange(6.0) + comm.rank, context=comm.context)
        comm.broadcast(a, root=0 if comm.rank else -1)
        received.wait()
        if comm.rank == 0:
            state()[3], state()[4] = 6, 1
        comm.all_gather(a)

    for error in sorted(map(str, together(contexts, asynchronous))):
        print(error)
    state()[3] = 0
    print(*together(contexts, generated), time.monotonic() - start < 15)


def absent():
    """A member that never comes to an operation, and one that never joins."""
    failed = threading.Event()

    def member(comm):
        a = pygpu.array(np.arange(6.0), context=comm.context)
        comm.all_reduce(a, "sum")
        if comm.rank == 1:
            failed.wait(60)
            return
        try:
            comm.all_reduce(a, "sum")
        finally:
            failed.set()

    contexts = opened(0, 1)
    print(*together(contexts, member, timeout=3))
    cid = collectives.GpuCommCliqueId(contexts[0])
    comm = collectives.GpuComm(cid, 2, 0, timeout=0.5)
    a = pygpu.array(np.arange(6.0), context=contexts[0])
    for _ in range(2):
        try:
            comm.all_reduce(a, "sum")
        except pygpu.GpuArrayException as error:
            print(error)
    print(np.asarray(a).tolist(), *together(contexts, generated))


def strided():
    """Sources that are not contiguous are copied first, and results are stored by a kernel."""

    def member(comm):
        a = pygpu.array(np.arange(12.0).reshape(3, 4), context=comm.context)
        comm.all_reduce(a[:, ::2], "sum", dest=a[:, 1::2])  # the elements alternate, but do not overlap

    driver.fake_calls()
    print(*together(opened(0), member))
    print(
        *[
            line.split()[0]
            for line in driver.fake_calls().decode().splitlines()
            if "Launch" in line or "ncclAll" in line
        ]
    )


globals()[FUNCTION]()
