"""Collective operations of several contexts. Each context contributes an array, from a separate thread.

The contexts belong to one process. Data is exchanged through the host, so the devices may be of any kind.
"""

import threading
import uuid

import numpy as np

from theano_ng.gof._lock import Lock
from theano_ng.gpuarray.pygpu import gpuarray

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

_cliques = {}
_lock = Lock()


class GpuCommCliqueId:
    """An identifier of a group of contexts.

    Parameters
    ----------
    context : GpuContext, optional
        The context that joins the group. By default, the default context.
    comm_id : bytes, optional
        The identifier of an existing group. By default, a new identifier is made.
    """

    def __init__(self, context=None, comm_id=None):
        self.context = gpuarray.get_default_context() if context is None else context
        if self.context is None:
            raise TypeError("no context was given, and there is no default")
        self.comm_id = (
            bytearray(uuid.uuid4().bytes.ljust(COMM_ID_BYTES, b"\0")) if comm_id is None else bytearray(comm_id)
        )
        if len(self.comm_id) != COMM_ID_BYTES:
            raise ValueError("an identifier must have %d bytes, got %d" % (COMM_ID_BYTES, len(self.comm_id)))

    def __eq__(self, other):
        return isinstance(other, GpuCommCliqueId) and self.comm_id == other.comm_id

    def __hash__(self):
        return hash(bytes(self.comm_id))


class _GroupState:
    """The shared state of a group: the members' contributions, and the barrier at which members wait for each other."""

    def __init__(self, size):
        self.size = size
        self.ranks = set()
        self.brought = [None] * size
        self.barrier = threading.Barrier(size)


class GpuComm:
    """A member of a group of contexts.

    Parameters
    ----------
    cid : GpuCommCliqueId
    ndev : int
        Number of members.
    rank : int
        Index of this member.

    Raises
    ------
    ValueError
        If the index is taken or out of range, or if earlier members gave the group another number of members.
    """

    def __init__(self, cid, ndev, rank):
        if not 0 <= rank < ndev:
            raise ValueError("invalid member number %d in a group of %d" % (rank, ndev))
        self.context, self._rank = cid.context, rank
        with _lock:
            clique = _cliques.setdefault(bytes(cid.comm_id), _GroupState(ndev))
            if clique.size != ndev:
                raise ValueError("the group has %d members, not %d" % (clique.size, ndev))
            if rank in clique.ranks:
                raise ValueError("member %d has already joined the group" % rank)
            clique.ranks.add(rank)
        self._clique = clique

    count = property(lambda self: self._clique.size, doc="The number of members of the group.")
    rank = property(lambda self: self._rank, doc="The number of this member.")

    def _exchange(self, array):
        """Wait until each member has contributed an array. Return a list of host copies of the arrays, by index."""
        self._clique.brought[self._rank] = None if array is None else np.asarray(array)
        self._clique.barrier.wait()
        found = list(self._clique.brought)
        self._clique.barrier.wait()
        return found

    def _reduced(self, src, op):
        try:
            function = TO_RED_OP[op.lower()]
        except KeyError:
            raise ValueError("unknown operation %r; expected one of %s" % (op, ", ".join(sorted(TO_RED_OP)))) from None
        arrays = self._exchange(src)
        if len({(a.shape, a.dtype) for a in arrays}) > 1:
            raise ValueError("arrays have different shapes or dtypes: %s" % [(a.shape, a.dtype.name) for a in arrays])
        result = arrays[0].copy()
        for a in arrays[1:]:
            result = function(result, a)
        return result

    def _put(self, result, dest, like):
        if dest is None:
            return gpuarray.array(result, context=self.context, cls=type(like))
        dest[...] = result
        return dest

    def reduce(self, src, op, dest=None, root=-1):
        """Reduce the arrays of all members. Return the result at the member `root`, and None at the other members. If
        `root` is -1, the calling member is the root.
        """
        roots = self._exchange(np.asarray(self._rank if root == -1 else root))
        result = self._reduced(src, op)
        return (
            self._put(result, dest, src)
            if self._rank in {int(r) for r in roots} and (root in (-1, self._rank))
            else None
        )

    def all_reduce(self, src, op, dest=None):
        """Reduce the arrays of all members, and return the result at every member."""
        return self._put(self._reduced(src, op), dest, src)

    def reduce_scatter(self, src, op, dest=None):
        """Reduce the arrays of all members, and return a part of the result at each member. The result is divided
        along the first axis. The number of members must divide the length of this axis.
        """
        if src.ndim == 0 or src.shape[0] % self.count:
            raise ValueError(
                "the first axis of an array of shape %s cannot be divided evenly between %d members"
                % (src.shape, self.count)
            )
        part = src.shape[0] // self.count
        result = self._reduced(src, op)[self._rank * part : (self._rank + 1) * part]
        return self._put(result[0] if part == 1 and dest is not None and dest.ndim < result.ndim else result, dest, src)

    def broadcast(self, array, root=-1):
        """Copy the array of the member `root` to all members, in place. `root` -1 is the calling member."""
        brought = self._exchange(array if root in (-1, self._rank) else None)
        (value,) = [a for a in brought if a is not None]
        if root not in (-1, self._rank):
            array[...] = value
        return array

    def all_gather(self, src, dest=None, nd_up=1):
        """Join the arrays of all members, and return the joined array at every member.

        Parameters
        ----------
        src : GpuArray
        dest : GpuArray, optional
            The array for the result.
        nd_up : int
            Number of additional axes of the result. If `nd_up` is 0, the arrays are joined along the first axis.
        """
        arrays = self._exchange(src)
        result = (
            np.concatenate(arrays)
            if nd_up == 0
            else np.stack(arrays).reshape((1,) * (nd_up - 1) + (self.count, *arrays[0].shape))
        )
        return self._put(result, dest, src)
