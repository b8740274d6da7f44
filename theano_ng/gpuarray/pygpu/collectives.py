"""Collective operations of several contexts: each context is a member of a group, and contributes an array.

Each member is used by a separate thread or process, and all members call the same operations in the same order. If all
members are on different CUDA devices, and NCCL is installed, NCCL exchanges the arrays. Otherwise they are exchanged
through the host, so the devices can be of any kind.
"""

import contextlib
import logging
import math
import threading
import time
import uuid
import weakref

import numpy as np

from theano_ng.gof._lock import Lock
from theano_ng.gpuarray.pygpu import _meetings, gpuarray
from theano_ng.gpuarray.pygpu.gpuarray import GpuArrayException

__all__ = ["COMM_ID_BYTES", "GpuComm", "GpuCommCliqueId", "TO_RED_OP"]

COMM_ID_BYTES = 128

# Name of an operation -> NumPy function.
TO_RED_OP = {
    "sum": np.add,
    "+": np.add,
    "add": np.add,
    "prod": np.multiply,
    "*": np.multiply,
    "product": np.multiply,
    "max": np.maximum,
    "maximum": np.maximum,
    "min": np.minimum,
    "minimum": np.minimum,
}

# NumPy function -> the name of the operation in headers, and for NCCL
_NAMES = {np.add: "sum", np.multiply: "prod", np.maximum: "max", np.minimum: "min"}

# The dtypes that NCCL reduces. It copies arrays of all dtypes.
_NCCL_DTYPES = frozenset("int8 uint8 int32 uint32 int64 uint64 float16 float32 float64".split())

_REDUCTIONS = ("all_reduce", "reduce", "reduce_scatter")

# The beginning of identifiers that are not made by NCCL
_HOST_MARK = b"theano_ng: host "

_logger = logging.getLogger(__name__)
_logged = set()
_cliques = weakref.WeakValueDictionary()  # identifier -> Threads
_lock = Lock()


class GpuCommCliqueId:
    """An identifier of a group of contexts. It can be passed to other threads and processes.

    Parameters
    ----------
    context : GpuContext, optional
        The context that joins the group. By default, the default context.
    comm_id : bytes, optional
        The identifier of an existing group. By default, a new identifier is made, by NCCL if the context can use it.

    Attributes
    ----------
    context : GpuContext
    comm_id : bytearray
        The identifier: `COMM_ID_BYTES` bytes. It can be replaced by the identifier of another group.

    Raises
    ------
    TypeError
        If no context is given, and there is no default.
    ValueError
        If the identifier has another length.
    """

    def __init__(self, context=None, comm_id=None):
        self.context = gpuarray.get_default_context() if context is None else context
        if self.context is None:
            raise TypeError("no context was given, and there is no default")
        self.comm_id = _new_identifier(self.context) if comm_id is None else comm_id

    @property
    def comm_id(self):
        return self._comm_id

    @comm_id.setter
    def comm_id(self, value):
        if len(value) != COMM_ID_BYTES:
            raise ValueError("an identifier must have %d bytes, got %d" % (COMM_ID_BYTES, len(value)))
        self._comm_id = bytearray(value)

    def __eq__(self, other):
        return isinstance(other, GpuCommCliqueId) and self.comm_id == other.comm_id

    def __hash__(self):
        return hash(bytes(self.comm_id))


def _new_identifier(context):
    if _meetings.nccl_problem(context) is None:
        return gpuarray.nccl_id(context)
    return (_HOST_MARK + uuid.uuid4().bytes).ljust(COMM_ID_BYTES, b"\0")


class _Plan:
    """The arrays of one operation at one member, after their checks.

    Attributes
    ----------
    header : dict
        The values that must be equal at all members.
    src : GpuArray
    dest : GpuArray or None
        The array that the caller gets. None if this member gets no result.
    shape : tuple of int
        The shape of the result.
    """

    def __init__(self, comm, call, src, op=None, dest=None, root=None, nd_up=None):
        self.call, self.rank, self.size = call, comm.rank, comm.count
        if not isinstance(src, gpuarray.GpuArray):
            raise TypeError("%s expects a device array, got %s" % (call, type(src).__name__))
        _check_context(src, comm, "the array")
        self.src = src
        self.function = _function(op) if call in _REDUCTIONS else None
        self.root = self.rank if root == -1 else root
        if root is not None and not 0 <= self.root < self.size:
            raise ValueError("invalid root %d in a group of %d members" % (root, self.size))
        self.shape = self._result_shape(nd_up)
        self.dest = self._result(comm, dest)
        self.header = {
            "call": call,
            "operation": _NAMES.get(self.function, ""),
            "dtype": src.dtype.name,
            "shape": str(src.shape),
            "root": self.root,
            "nd_up": nd_up,
        }

    def _result_shape(self, nd_up):
        shape = self.src.shape
        if self.call == "reduce_scatter":
            if not shape or shape[0] % self.size:
                raise ValueError(
                    "the first axis of an array of shape %s cannot be divided evenly between %d members"
                    % (shape, self.size)
                )
            return (shape[0] // self.size, *shape[1:])
        if self.call != "all_gather":
            return shape
        if nd_up < 0 or (nd_up == 0 and not shape):
            raise ValueError("arrays of shape %s cannot be joined with nd_up=%d" % (shape, nd_up))
        return (self.size * shape[0], *shape[1:]) if nd_up == 0 else (*(1,) * (nd_up - 1), self.size, *shape)

    def _result(self, comm, dest):
        """Return the array that the caller gets; check it if it is given."""
        if self.call == "reduce" and self.root != self.rank:
            return None
        if self.call == "broadcast":
            dest = self.src
        if dest is None:
            return gpuarray.empty(self.shape, self.src.dtype, context=comm.context, cls=type(self.src))
        if not isinstance(dest, gpuarray.GpuArray):
            raise TypeError("dest must be a device array, got %s" % type(dest).__name__)
        _check_context(dest, comm, "dest")
        # A part of length 1 can be stored without its first axis.
        shapes = {self.shape, self.shape[1:]} if self.call == "reduce_scatter" and self.shape[0] == 1 else {self.shape}
        if dest.shape not in shapes or dest.dtype != self.src.dtype:
            raise ValueError(
                "dest has shape %s and dtype %s, but the result has shape %s and dtype %s"
                % (dest.shape, dest.dtype, self.shape, self.src.dtype)
            )
        if not dest.flags.writeable and (self.call != "broadcast" or self.root != self.rank):
            raise ValueError("dest is read-only")
        same = (dest.shape, dest.strides, dest.offset) == (self.src.shape, self.src.strides, self.src.offset)
        if _overlap(dest, self.src) and not (same and self.call in ("all_reduce", "reduce", "broadcast")):
            raise ValueError("dest overlaps the source")
        return dest

    def host_result(self, arrays):
        """Return the result, given the arrays of the members on the host."""
        if self.call == "broadcast":
            return arrays[self.root]
        if self.call == "all_gather":
            return np.concatenate([a.reshape(-1) for a in arrays]).reshape(self.shape)
        if self.call == "reduce_scatter":
            part = self.shape[0]
            arrays = [a[self.rank * part : (self.rank + 1) * part] for a in arrays]
        result = arrays[0].copy()
        for a in arrays[1:]:
            result = self.function(result, a)
        return result

    def store(self, result):
        """Store the result, an array of the host or the device, in `dest`."""
        if result is not self.dest:
            self.dest[...] = result.reshape(self.dest.shape)


def _check_context(array, comm, what):
    if array.context is not comm.context:
        raise ValueError(
            "%s is in another context (%s) than member %d of the group (%s)"
            % (what, array.context.devname, comm.rank, comm.context.devname)
        )


def _function(op):
    try:
        return TO_RED_OP[op.lower()]
    except (KeyError, AttributeError):
        raise ValueError("unknown operation %r; expected one of %s" % (op, ", ".join(sorted(TO_RED_OP)))) from None


def _extent(array):
    """Return the range of bytes of an array in its memory."""
    steps = [(n - 1) * stride for n, stride in zip(array.shape, array.strides)]
    start = array.offset + sum(step for step in steps if step < 0)
    return start, array.offset + sum(step for step in steps if step > 0) + array.dtype.itemsize


def _overlap(a, b):
    """Return whether two arrays have memory in common, or may have some."""
    if not gpuarray.may_share_memory(a, b) or a.size == 0 or b.size == 0:
        return False
    (first, end), (other_first, other_end) = _extent(a), _extent(b)
    if first >= other_end or other_first >= end:
        return False
    memory = np.empty(max(end, other_end), "uint8")
    on_host = [np.ndarray(x.shape, x.dtype, memory, x.offset, x.strides) for x in (a, b)]
    try:
        return np.shares_memory(*on_host, max_work=10000)
    except np.exceptions.TooHardError:
        return True


def _compare(headers):
    """Raise ValueError if the members' calls do not fit each other."""
    failed = ["member %d: %s" % (i, header["failed"]) for i, header in enumerate(headers) if "failed" in header]
    if failed:
        raise ValueError("another member of the group failed: " + "; ".join(failed))
    for name, what in (
        ("call", "call different functions"),
        ("operation", "use different operations"),
        ("dtype", "have arrays of different dtypes"),
        ("shape", "have arrays of different shapes"),
        ("root", "have different roots"),
        ("nd_up", "have different values of nd_up"),
    ):
        values = [header[name] for header in headers]
        if any(value != values[0] for value in values):
            raise ValueError(
                "the members of the group %s: %s"
                % (what, "; ".join("member %d: %s" % (i, value) for i, value in enumerate(values)))
            )


class GpuComm:
    """A member of a group of contexts.

    All members call the same methods in the same order, each in a thread or process of its own. A call returns when the
    operation is finished at this member. If the members' arrays or arguments do not fit each other, each member raises an
    error that names the differences, and the group can be used again. After any other error, the group cannot be used
    any longer.

    Parameters
    ----------
    cid : GpuCommCliqueId
        The context of this member, and the identifier of the group. All members have the same identifier.
    ndev : int
        Number of members.
    rank : int
        Index of this member.
    timeout : float
        How many seconds a call waits for the other members before it raises an error.
    mpi : mpi4py.MPI.Comm, optional
        The members are the processes of this communicator, and `rank` is the rank of this process. The identifier is then
        not used. Without `mpi`, members in other processes are found by NCCL, and only by NCCL.

    Attributes
    ----------
    transport : {"nccl", "host", None}
        How the arrays are exchanged. None before the first operation, at which the members meet.

    Raises
    ------
    ValueError
        If the index is taken or out of range, or if earlier members gave the group another number of members, or if the
        number of members or the index is not that of `mpi`.

    Notes
    -----
    An operation raises `GpuArrayException` if a member does not come within `timeout` seconds, if a member leaves the
    group (its `GpuComm` is closed or deleted, for example because its thread raised an error), or if NCCL fails.
    """

    def __init__(self, cid, ndev, rank, timeout=300.0, mpi=None):
        if not 0 <= rank < ndev:
            raise ValueError("invalid member number %d in a group of %d" % (rank, ndev))
        self.context, self._rank, self._count, self._timeout = cid.context, rank, ndev, timeout
        self.transport = self._nccl = self._clique = None
        self._closed = False
        self._identifier = bytes(cid.comm_id)
        self._busy = threading.Lock()
        if mpi is None:
            self._clique = self._join()
        elif (mpi.Get_size(), mpi.Get_rank()) != (ndev, rank):
            raise ValueError(
                "member %d of %d is process %d of %d of the MPI communicator"
                % (rank, ndev, mpi.Get_rank(), mpi.Get_size())
            )
        self._meeting = self._clique if mpi is None else _meetings.Processes(mpi)

    def _join(self):
        facts = _meetings.facts_about(self.context)
        with _lock:
            clique = _cliques.get(self._identifier)
            if clique is None:
                clique = _cliques[self._identifier] = _meetings.Threads(self._count)
            if clique.size != self._count:
                raise ValueError("the group has %d members, not %d" % (clique.size, self._count))
            clique.join(self._rank, facts)
        self._leave = weakref.finalize(self, clique.leave, self._rank)
        self._leave.atexit = False
        return clique

    count = property(lambda self: self._count, doc="The number of members of the group.")
    rank = property(lambda self: self._rank, doc="The number of this member.")

    def close(self):
        """Leave the group. If other members wait for this member, they raise an error. A ``with`` block does this at its
        end.
        """
        if self._clique is not None:
            self._leave()
        self._nccl, self._closed = None, True

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self.close()

    # -- the choice between NCCL and the host --

    def _connect(self):
        """Meet the other members for the first time, and choose how arrays are exchanged."""
        if self._clique is None:
            self._connect_processes()
        elif self._clique.failed:
            raise self._stopped(self._clique.failed)
        elif not self._through_host(_meetings.reason_for_host(dict(self._clique.facts))):
            if self._identifier.startswith(_HOST_MARK):
                self.transport = "host"
            else:
                self._connect_by_identifier()

    def _stopped(self, reason):
        return GpuArrayException("member %d of the group cannot go on: %s" % (self._rank, reason))

    def _connect_processes(self):
        found = self._meeting.exchange(self._rank, _meetings.facts_about(self.context), self._timeout)
        if self._through_host(_meetings.reason_for_host(dict(enumerate(found)))):
            return
        made = gpuarray.nccl_id(self.context) if self._rank == 0 else None
        identifier = self._meeting.exchange(self._rank, made, self._timeout)[0]
        nccl = gpuarray.NcclMember(self.context, identifier, self._count, self._rank)
        _meetings.wait(nccl, self._meeting, self._rank, self._timeout, "joining the group")
        self._nccl, self.transport = nccl, "nccl"

    def _through_host(self, found):
        """Choose the host if `reason_for_host` has found a reason. Log each problem once, if this member could use NCCL."""
        if found is None:
            return False
        problem, reason = found
        if self.context.kind == b"cuda" and problem not in _logged:
            _logged.add(problem)
            _logger.warning("collective operations go through the host: %s", reason)
        self.transport = "host"
        return True

    def _connect_by_identifier(self):
        """Join by NCCL unless a member in this process cannot. Such a member may join the group later."""
        clique, deadline = self._clique, time.monotonic() + self._timeout
        nccl = gpuarray.NcclMember(self.context, self._identifier, self._count, self._rank)
        try:
            while not nccl.wait(_meetings.SLICE):
                if self._through_host(_meetings.reason_for_host(dict(clique.facts))):
                    nccl.abort()
                    return
                if time.monotonic() > deadline:
                    clique.fail("other members did not join within %g s, in this or other processes" % self._timeout)
                if clique.problem():
                    raise self._stopped(clique.problem())
        except BaseException as error:
            nccl.abort()
            clique.fail("member %d could not join (%s)" % (self._rank, str(error) or type(error).__name__))
            raise
        self._nccl, self.transport = nccl, "nccl"
        if len(clique.facts) < self._count:
            self._meeting = _meetings.Devices(nccl, self._count, self.context)

    # -- operations --

    def _collective(self, call, src, **arguments):
        with self._busy:
            if self._closed:
                raise ValueError("member %d has left the group" % self._rank)
            if self.transport is None:
                self._connect()
            try:
                plan = _Plan(self, call, src, **arguments)
                run = self._prepared(plan)
            except Exception as error:
                text = {"failed": "%s: %s" % (type(error).__name__, error)}
                with contextlib.suppress(GpuArrayException):  # the caller needs `error`
                    self._meeting.announce(self._rank, text, self._timeout)
                raise
            _compare(self._meeting.exchange(self._rank, plan.header, self._timeout))
            if plan.src.size:
                run()
            return plan.dest

    def _prepared(self, plan):
        """Return a function that computes the result. All memory is allocated now: a member that fails later would let
        the others wait.
        """
        if self.transport == "nccl" and (plan.function is None or plan.src.dtype.name in _NCCL_DTYPES):
            return self._prepared_nccl(plan)
        if isinstance(self._meeting, _meetings.Devices):
            raise gpuarray.UnsupportedException(
                "NCCL does not reduce arrays of %s, and members in other processes can be reached only by NCCL; GpuComm(..., "
                "mpi=...) reaches them by MPI, too" % plan.src.dtype
            )
        host = np.asarray(plan.src)

        def run():
            arrays = self._meeting.arrays(plan.call, self._rank, host, plan.root, self._timeout)
            if plan.dest is not None and not (plan.call == "broadcast" and plan.root == self._rank):
                plan.store(plan.host_result(arrays))

        return run

    def _prepared_nccl(self, plan):
        src = gpuarray.array(plan.src, copy=False, order="C")
        dest = plan.dest
        if dest is not None and not (dest.flags.c_contiguous and dest.flags.aligned):
            dest = src if plan.call == "broadcast" else gpuarray.empty(plan.shape, dest.dtype, context=self.context)
        count = math.prod(plan.shape if plan.call == "reduce_scatter" else src.shape)
        operation = _NAMES.get(plan.function, "sum")

        def run():
            try:
                _meetings.run(
                    self._nccl,
                    self._meeting,
                    self._rank,
                    self._timeout,
                    plan.call,
                    operation,
                    src,
                    dest,
                    count,
                    0 if plan.root is None else plan.root,
                )
            except GpuArrayException as error:
                raise type(error)(
                    "%s (%s of arrays of shape %s, %s)" % (error, plan.call, src.shape, src.dtype)
                ) from None
            if plan.dest is not None and not (plan.call == "broadcast" and plan.root == self._rank):
                plan.store(dest)

        return run

    def reduce(self, src, op, dest=None, root=-1):
        """Reduce the arrays of all members.

        Parameters
        ----------
        src : GpuArray
            All members have arrays of the same shape and dtype.
        op : str
            A key of `TO_RED_OP`, such as "sum", "prod", "max" or "min".
        dest : GpuArray, optional
            The array for the result, with the shape and dtype of the result. It can be `src`.
        root : int
            The member that gets the result. -1: the calling member.

        Returns
        -------
        GpuArray or None
            The result at the member `root`; None at the other members.
        """
        return self._collective("reduce", src, op=op, dest=dest, root=root)

    def all_reduce(self, src, op, dest=None):
        """Reduce the arrays of all members, and return the result at every member. See `reduce` for the parameters."""
        return self._collective("all_reduce", src, op=op, dest=dest)

    def reduce_scatter(self, src, op, dest=None):
        """Reduce the arrays of all members, and return a part of the result at each member. The result is divided
        along the first axis. The number of members must divide the length of this axis. See `reduce` for the parameters.
        `dest` must not overlap `src`.
        """
        return self._collective("reduce_scatter", src, op=op, dest=dest)

    def broadcast(self, array, root=-1):
        """Copy the array of the member `root` to the arrays of all members, in place; return the array. `root` -1 is the
        calling member. All members have arrays of the same shape and dtype.
        """
        return self._collective("broadcast", array, root=root)

    def all_gather(self, src, dest=None, nd_up=1):
        """Join the arrays of all members, and return the joined array at every member.

        Parameters
        ----------
        src : GpuArray
            All members have arrays of the same shape and dtype.
        dest : GpuArray, optional
            The array for the result. It must not overlap `src`.
        nd_up : int
            Number of additional axes of the result. If `nd_up` is 0, the arrays are joined along the first axis.
        """
        return self._collective("all_gather", src, dest=dest, nd_up=nd_up)
