"""Meetings of the members of a group of contexts: as threads of a process, as processes by MPI, or by NCCL alone.

The classes have the same methods. `exchange` brings a small value and returns the values of all members. `announce` brings
a value without waiting for the others. `arrays` passes arrays of the host between members.
"""

import itertools
import json
import socket
import threading
import time

import numpy as np

from theano_ng.gpuarray.pygpu import gpuarray
from theano_ng.gpuarray.pygpu.gpuarray import GpuArrayException

# Seconds between looks at messages of MPI, and at other members while NCCL works.
PAUSE, SLICE = 0.0002, 0.05


def nccl_problem(context):
    """Return the reason why a context cannot use NCCL, or None."""
    try:
        context.nccl  # noqa: B018 (reading it loads the library)
    except GpuArrayException as error:
        return str(error)
    return None


def facts_about(context):
    """Return what decides whether a member can use NCCL: its device, and the reason why it cannot."""
    return (socket.gethostname(), context.unique_id), nccl_problem(context)


def reason_for_host(facts):
    """Return the reason why a group exchanges arrays through the host, or None if its members can use NCCL.

    Parameters
    ----------
    facts : dict
        Member -> result of `facts_about`.

    Returns
    -------
    problem, reason : str
        The reason begins with the number of a member that has the problem. This number may depend on the order in which
        the members join; the problem does not.
    """
    for rank, (_, problem) in sorted(facts.items()):
        if problem is not None:
            return problem, "member %d: %s" % (rank, problem)
    for (a, (device, _)), (b, (other, _)) in itertools.combinations(sorted(facts.items()), 2):
        if device == other:
            problem = "members %d and %d are on the same device (%s), which NCCL does not support" % (a, b, device[1])
            return problem, problem
    return None


def members_text(ranks):
    """Return "member 3", or "members 0, 2"."""
    return "member%s %s" % ("s" if len(ranks) > 1 else "", ", ".join(map(str, sorted(ranks))))


class Threads:
    """The members of a group in this process. Each is used by a separate thread.

    Attributes
    ----------
    facts : dict
        Member -> result of `facts_about`, for the members that have joined.
    left : set
        Numbers of members that have left.
    failed : str or None
        The reason why the group cannot be used any longer.
    """

    def __init__(self, size):
        self.size = size
        self.facts, self.left, self.failed = {}, set(), None
        self._changed = threading.Condition()
        self._round = 0
        self._brought = {}  # values for the current round
        self._found = None  # values of the last round: all members read them before the next round is complete

    def join(self, rank, facts):
        """Add a member. Raise ValueError if its number is taken."""
        with self._changed:
            if rank in self.facts:
                raise ValueError("member %d has already joined the group" % rank)
            self.facts[rank] = facts
            self._changed.notify_all()

    def leave(self, rank):
        """Note that a member is not used any longer. Members that wait for it raise an error."""
        with self._changed:
            self.left.add(rank)
            self._changed.notify_all()

    def fail(self, reason):
        """Note that the group cannot be used any longer. Waiting members raise an error."""
        with self._changed:
            self.failed = self.failed or reason
            self._changed.notify_all()

    def problem(self):
        """Return the reason why the other members cannot all come, or None."""
        if self.failed:
            return self.failed
        return "%s left the group" % members_text(self.left) if self.left else None

    def _wait(self, rank, condition, timeout):
        """Wait until `condition()` is true. Raise an error if the other members cannot come, or do not come in time."""
        try:
            came = self._changed.wait_for(lambda: condition() or self.problem(), timeout)
        except BaseException as error:
            self.fail("member %d was interrupted (%s)" % (rank, type(error).__name__))
            raise
        if not condition():
            if not came:
                missing = set(range(self.size)) - set(self._brought)
                absent = missing - set(self.facts)
                self.fail(
                    "%s did not come within %g s%s"
                    % (
                        members_text(missing),
                        timeout,
                        ", and %s never joined the group in this process" % members_text(absent) if absent else "",
                    )
                )
            raise GpuArrayException("member %d of the group cannot go on: %s" % (rank, self.problem()))

    def announce(self, rank, value, timeout):
        with self._changed:
            self._wait(rank, lambda: rank not in self._brought, timeout)
            self._brought[rank] = value
            if len(self._brought) == self.size:
                self._found = [self._brought[i] for i in range(self.size)]
                self._brought = {}
                self._round += 1
                self._changed.notify_all()

    def exchange(self, rank, value, timeout):
        with self._changed:
            self._wait(rank, lambda: rank not in self._brought, timeout)
            number = self._round
            self.announce(rank, value, timeout)
            self._wait(rank, lambda: self._round > number, timeout)
            return self._found

    def arrays(self, call, rank, array, root, timeout):
        return self.exchange(rank, array, timeout)


class Processes:
    """The members of a group that are processes of an mpi4py communicator: rank i is member i.

    Attributes
    ----------
    failed : str or None
        As for `Threads`.
    """

    _TAG = 31001

    def __init__(self, mpi):
        self.size, self.failed = mpi.Get_size(), None
        self._mpi, self._sent, self._owed = mpi, [], 0

    def problem(self):
        return self.failed

    def fail(self, reason):
        self.failed = self.failed or reason

    def announce(self, rank, value, timeout):
        """Send a value to all other members. Their values are received, and dropped, by the next exchange."""
        if self.failed:
            raise GpuArrayException("member %d of the group cannot go on: %s" % (rank, self.failed))
        self._sent = [request for request in self._sent if not request.Test()]
        self._sent += [self._mpi.isend(value, i, self._TAG) for i in range(self.size) if i != rank]
        self._owed += 1

    def exchange(self, rank, value, timeout):
        self.announce(rank, value, timeout)
        while self._owed:
            found = self._receive(rank, time.monotonic() + timeout, timeout)
            self._owed -= 1
        found[rank] = value
        return [found[i] for i in range(self.size)]

    def _receive(self, rank, deadline, timeout):
        found = {}
        missing = set(range(self.size)) - {rank}
        while missing:
            came = {i for i in missing if self._mpi.iprobe(i, self._TAG)}
            for i in came:
                found[i] = self._mpi.recv(source=i, tag=self._TAG)
            missing -= came
            if missing and time.monotonic() > deadline:
                self.fail("%s did not come within %g s" % (members_text(missing), timeout))
                raise GpuArrayException("member %d of the group cannot go on: %s" % (rank, self.failed))
            if missing and not came:
                time.sleep(PAUSE)
        return found

    def arrays(self, call, rank, array, root, timeout):
        """Return the arrays of all members; None for arrays that the operation does not need at this member."""
        own = np.ascontiguousarray(array)
        data = own.reshape(-1).view("uint8")
        if call == "broadcast":
            self._mpi.Bcast(data, root)
            return [own.reshape(array.shape) if i == root else None for i in range(self.size)]
        if call == "reduce":
            found = np.empty((self.size, data.size), "uint8") if rank == root else None
            self._mpi.Gather(data, found, root)
        else:
            found = np.empty((self.size, data.size), "uint8")
            self._mpi.Allgather(data, found)
        return [None] * self.size if found is None else [row.view(own.dtype).reshape(array.shape) for row in found]


class Devices:
    """The members of a group about which nothing is known but that NCCL has connected them."""

    _BYTES = 1024  # of a value as text

    def __init__(self, nccl, size, context):
        self.size, self.failed = size, None
        self._nccl, self._context = nccl, context

    def problem(self):
        return self.failed

    def fail(self, reason):
        self.failed = self.failed or reason

    def exchange(self, rank, value, timeout):
        if self.failed:
            raise GpuArrayException("member %d of the group cannot go on: %s" % (rank, self.failed))
        short = {name: part[:300] if isinstance(part, str) else part for name, part in value.items()}
        text = np.frombuffer(json.dumps(short).encode("ascii").ljust(self._BYTES), "uint8")
        src = gpuarray.array(text, context=self._context)
        dest = gpuarray.empty((self.size, self._BYTES), "uint8", context=self._context)
        run(self._nccl, self, rank, timeout, "all_gather", "sum", src, dest, self._BYTES, 0)
        return [json.loads(bytes(row)) for row in np.asarray(dest)]

    announce = exchange  # an operation of NCCL needs all members


def wait(nccl, meeting, rank, timeout, what):
    """Wait until a member's call of NCCL is finished. If it fails, lasts too long, or cannot be finished because of
    another member, abort it, and raise an error.
    """
    deadline = time.monotonic() + timeout
    try:
        while not nccl.wait(SLICE):
            if meeting.failed:
                raise GpuArrayException("member %d of the group cannot go on: %s" % (rank, meeting.failed))
            if time.monotonic() > deadline:
                raise GpuArrayException(
                    "%s of member %d did not end within %g s: another member is missing or stuck"
                    % (what, rank, timeout)
                )
    except BaseException as error:
        nccl.abort()
        meeting.fail("%s of member %d failed (%s)" % (what, rank, str(error) or type(error).__name__))
        raise


def run(nccl, meeting, rank, timeout, call, op, src, dest, count, root):
    """Run a collective operation of NCCL, and wait for it."""
    try:
        nccl.begin(call, op, src, dest, count, root)
    except GpuArrayException as error:
        meeting.fail("%s of member %d failed (%s)" % (call, rank, error))
        raise
    wait(nccl, meeting, rank, timeout, call)
