"""Ops that read arrays from files, and that send arrays between processes by MPI.

The MPI Ops use the package mpi4py (``pip install 'theano_ng[mpi]'``), which is imported when the first message is sent
or received. The Ops of this module are not differentiable, and constant folding does not evaluate their nodes.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from theano_ng.extras import require
from theano_ng.gof.graph import Apply, Constant, Variable
from theano_ng.gof.op import Op
from theano_ng.gof.sched import key_to_cmp
from theano_ng.gof.type import Generic, generic
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.type import TensorType

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import DTypeLike, ShapeLike, TensorLike
    from theano_ng.tensor.var import TensorVariable

__all__ = [
    "LoadFromDisk",
    "load",
    "MPIRecv",
    "MPIRecvWait",
    "MPISend",
    "MPISendWait",
    "isend",
    "send",
    "irecv",
    "recv",
    "mpi_cmps",
    "mpi_enabled",
    "mpi_keys",
    "mpi_send_wait_key",
    "mpi_tag_key",
    "mpi_send_wait_cmp",
    "mpi_tag_cmp",
]


class LoadFromDisk(Op):
    """An Op that loads a ``.npy`` file when the function runs. It is not differentiable. See `load`.

    Parameters
    ----------
    dtype : str
    broadcastable : sequence of bool
    mmap_mode : {None, 'c'}
        None reads the file into memory. 'c' maps the file into memory, copy-on-write.

    Raises
    ------
    ValueError
        If `mmap_mode` is not one of these values.
    """

    __props__ = ("dtype", "broadcastable", "mmap_mode")

    def __init__(self, dtype, broadcastable, mmap_mode=None):
        self.dtype = np.dtype(dtype).name
        self.broadcastable = tuple(bool(b) for b in broadcastable)
        if mmap_mode not in (None, "c"):
            raise ValueError(
                "The only supported values for mmap_mode are None and 'c', got %s: other modes would write to the file or give"
                " read-only memory." % (mmap_mode,)
            )
        self.mmap_mode = mmap_mode

    def make_node(self, path):
        if isinstance(path, (str, os.PathLike)):
            path = Constant(generic, os.fspath(path))
        if not isinstance(path, Variable) or not isinstance(path.type, Generic):
            raise TypeError("load: the path must be a string or a variable of type Generic, got %r" % (path,))
        return Apply(self, [path], [TensorType(self.dtype, self.broadcastable)()])

    def perform(self, node, inp, out):
        path = inp[0]
        if str(path).split(".")[-1] == "npz":
            raise ValueError("Expected a .npy file, got %s instead" % path)
        result = np.load(path, mmap_mode=self.mmap_mode)
        if not isinstance(result, np.ndarray):
            result.close()
            raise ValueError("Expected a .npy file, got an archive of several arrays, %s, instead" % path)
        if result.dtype.newbyteorder("=") != self.dtype:
            raise TypeError("Expected an array of type %s, got %s instead, from %s" % (self.dtype, result.dtype, path))
        if result.ndim != len(self.broadcastable):
            raise TypeError(
                "Expected an array of %d dimensions, got one of %d, with shape %s, from %s"
                % (len(self.broadcastable), result.ndim, result.shape, path)
            )
        if any(b and n != 1 for b, n in zip(self.broadcastable, result.shape)):
            raise TypeError(
                "Expected length 1 in the dimensions that are broadcastable, %s, got shape %s, from %s"
                % (self.broadcastable, result.shape, path)
            )
        # Convert the array to native byte order if the file has the opposite byte order.
        out[0][0] = result if result.dtype.isnative else result.astype(self.dtype)

    def do_constant_folding(self, node):
        # Each call of the function has to read the file, even if the name of the file is constant.
        return False

    def __str__(self):
        return "Load{dtype: %s, broadcastable: %s, mmap: %s}" % (self.dtype, self.broadcastable, self.mmap_mode)


def load(path: Any, dtype: DTypeLike, broadcastable: Sequence[bool], mmap_mode: str | None = None) -> TensorVariable:
    """Load an array from a ``.npy`` file when the function runs.

    Parameters
    ----------
    path : Generic variable, or str
        Name of the file.
    dtype : str
        The dtype of the array. At run time, a file with another dtype raises TypeError.
    broadcastable : sequence of bool
        One value for each dimension: ``(False,)`` for a vector, ``(False, True)`` for a column. At run time, TypeError
        is raised if the file has another number of dimensions, or another length than 1 in a broadcastable dimension.
    mmap_mode : {None, 'c'}
        None copies the file into memory. 'c' maps it into memory: only the accessed parts are read, and changes are not
        written back. The other modes of `numpy.load` are not supported.

    Returns
    -------
    TensorVariable

    Raises
    ------
    ValueError
        If `mmap_mode` is not one of these values. At run time, if the file is not a ``.npy`` file.
    TypeError
        At run time, if the file has another dtype or shape.

    Examples
    --------
    >>> from theano_ng import *
    >>> path = Variable(Generic())
    >>> x = tensor.load(path, 'int64', (False,))
    >>> y = x*2
    >>> fn = function([path], y)
    """
    return LoadFromDisk(dtype, broadcastable, mmap_mode)(path)


def _mpi():
    """Return the module `mpi4py.MPI`. Raise RuntimeError if it is not installed."""
    try:
        return require("mpi4py.MPI", "Sending and receiving arrays")
    except ImportError as error:
        raise RuntimeError("%s\nThis also installs an MPI library; start the program with mpiexec." % error) from error


def _find_mpi():
    from importlib.util import find_spec

    return find_spec("mpi4py") is not None


# `mpi_enabled` is True if the package mpi4py is installed.
mpi_enabled = _find_mpi()


def _request_and_data(op, request, data):
    """Check the inputs of `MPISendWait` or `MPIRecvWait`, and return them as variables."""
    if not isinstance(request, Variable) or not isinstance(request.type, Generic):
        raise TypeError(
            "%s: the first input must be the request, of type Generic, that isend or irecv returned; got %s"
            % (op, request)
        )
    return [request, as_tensor_variable(data)]


class MPIRecv(Op):
    """An Op that starts to receive an array.

    Outputs: a request (Generic), and the array to fill. The elements of the array are undefined until `MPIRecvWait` has
    run.

    Parameters
    ----------
    source : int
        Rank of the sender.
    tag : int
    shape : tuple of int
    dtype : str

    Notes
    -----
    Compilation merges nodes with equal Ops and equal inputs. Two messages from one sender with the same shape and dtype
    therefore need different tags.
    """

    __props__ = ("source", "tag", "shape", "dtype")

    def __init__(self, source, tag, shape, dtype):
        self.source = operator.index(source)
        self.tag = operator.index(tag)
        self.shape = tuple(operator.index(n) for n in shape)
        if any(n < 0 for n in self.shape):
            raise ValueError("MPIRecv: negative length in the shape %s" % (self.shape,))
        self.dtype = np.dtype(dtype).name
        self.broadcastable = (False,) * len(self.shape)

    def make_node(self):
        return Apply(self, [], [generic(), TensorType(self.dtype, self.broadcastable)()])

    def perform(self, node, inp, out):
        data = np.zeros(self.shape, dtype=self.dtype)
        out[0][0] = _mpi().COMM_WORLD.Irecv(data, self.source, self.tag)
        out[1][0] = data

    def __str__(self):
        return "MPIRecv{source: %d, tag: %d, shape: %s, dtype: %s}" % (self.source, self.tag, self.shape, self.dtype)

    def infer_shape(self, node, shapes):
        return [None, [as_tensor_variable(n, ndim=0).astype("int64") for n in self.shape]]

    def do_constant_folding(self, node):
        return False


class MPIRecvWait(Op):
    """An Op that waits until the array of an `MPIRecv` has arrived. The inputs are the two outputs of the `MPIRecv`.

    Parameters
    ----------
    tag : int

    Raises
    ------
    ValueError
        At run time, if the message and the array differ in the number of bytes.
    """

    view_map = {0: [1]}
    __props__ = ("tag",)

    def __init__(self, tag):
        self.tag = operator.index(tag)

    def make_node(self, request, data):
        request, data = _request_and_data(self, request, data)
        return Apply(self, [request, data], [data.type()])

    def perform(self, node, inp, out):
        request, data = inp
        mpi = _mpi()
        status = mpi.Status()
        request.Wait(status)
        received = status.Get_count(mpi.BYTE)
        if received != data.nbytes:
            raise ValueError(
                "MPIRecvWait: expected an array of %d bytes (shape %s, dtype %s), got a message of %d bytes from %d, tag %d"
                % (data.nbytes, data.shape, data.dtype, received, status.Get_source(), status.Get_tag())
            )
        out[0][0] = data

    def infer_shape(self, node, shapes):
        return [shapes[1]]

    def do_constant_folding(self, node):
        return False


class MPISend(Op):
    """An Op that starts to send an array.

    Outputs: a request (Generic), and the array. The array must not change until `MPISendWait` has run.

    Parameters
    ----------
    dest : int
        Rank of the receiver.
    tag : int

    Notes
    -----
    Compilation merges nodes with equal Ops and equal inputs. Two messages that send the same variable to one receiver
    therefore need different tags.
    """

    view_map = {1: [0]}
    __props__ = ("dest", "tag")

    def __init__(self, dest, tag):
        self.dest = operator.index(dest)
        self.tag = operator.index(tag)

    def make_node(self, data):
        data = as_tensor_variable(data)
        return Apply(self, [data], [generic(), data.type()])

    def perform(self, node, inp, out):
        # MPI sends contiguous memory only. The second output keeps the copy alive while MPI sends it.
        data = np.ascontiguousarray(inp[0]).reshape(inp[0].shape)
        out[0][0] = _mpi().COMM_WORLD.Isend(data, self.dest, self.tag)
        out[1][0] = data

    def __str__(self):
        return "MPISend{dest: %d, tag: %d}" % (self.dest, self.tag)

    def infer_shape(self, node, shapes):
        return [None, shapes[0]]

    def do_constant_folding(self, node):
        # Each call of the function has to send the array, even if the array is constant. Compilation must not send it.
        return False


class MPISendWait(Op):
    """An Op that waits until the array of an `MPISend` has been sent, and returns True.

    Inputs: the two outputs of the `MPISend`.

    Parameters
    ----------
    tag : int
    """

    __props__ = ("tag",)

    def __init__(self, tag):
        self.tag = operator.index(tag)

    def make_node(self, request, data):
        return Apply(self, _request_and_data(self, request, data), [generic()])

    def perform(self, node, inp, out):
        inp[0].Wait()
        out[0][0] = True

    def do_constant_folding(self, node):
        return False


def isend(var: TensorLike, dest: int, tag: int) -> Any:
    """Start to send a tensor. Return the request and the data as variables.

    Parameters
    ----------
    var : tensor_like
    dest : int
        Rank of the receiver.
    tag : int
        The tag, which must equal the tag of the receiver.
    """
    return MPISend(dest, tag)(var)


def send(var: TensorLike, dest: int, tag: int) -> Any:
    """Send a tensor. The result becomes available when the memory of the tensor may be changed again.

    Parameters
    ----------
    var : tensor_like
    dest : int
        Rank of the receiver.
    tag : int
        The tag, which must equal the tag of the receiver.

    Returns
    -------
    Variable
        A variable of type Generic. Its value is True.
    """
    return MPISendWait(tag)(*isend(var, dest, tag))


def irecv(shape: ShapeLike, dtype: DTypeLike, source: int, tag: int) -> Any:
    """Start to receive a tensor. Return the request and the data as variables.

    Parameters
    ----------
    shape : tuple of int
    dtype : str
    source : int
        Rank of the sender.
    tag : int
        The tag, which must equal the tag of the sender.
    """
    return MPIRecv(source, tag, shape, dtype)()


def recv(shape: ShapeLike, dtype: DTypeLike, source: int, tag: int) -> Any:
    """Receive a tensor. The result becomes available when the message has arrived.

    Parameters
    ----------
    shape : tuple of int
    dtype : str
    source : int
        Rank of the sender.
    tag : int
        The tag, which must equal the tag of the sender.

    Returns
    -------
    TensorVariable
    """
    return MPIRecvWait(tag)(*irecv(shape, dtype, source, tag))


_STARTS = (MPISend, MPIRecv)
_WAITS = (MPISendWait, MPIRecvWait)


def mpi_send_wait_key(a):
    """Return a scheduling key: sends and receives come first, and waits come last.

    Parameters
    ----------
    a : Apply

    Returns
    -------
    int

    Examples
    --------
    A linker with the following schedule starts all transfers in the order of their tags, and waits afterwards::

        from theano_ng.gof.sched import sort_schedule_fn
        linker = theano_ng.gof.OpWiseCLinker(schedule=sort_schedule_fn(*mpi_cmps))
    """
    return int(isinstance(a.op, _WAITS)) - int(isinstance(a.op, _STARTS))


def mpi_tag_key(a):
    """Return a scheduling key: among MPI nodes, lower tags come first."""
    return a.op.tag if isinstance(a.op, _STARTS + _WAITS) else 0


mpi_send_wait_cmp = key_to_cmp(mpi_send_wait_key)
mpi_tag_cmp = key_to_cmp(mpi_tag_key)

# These tuples are arguments for `gof.sched.sort_schedule_fn`.
mpi_cmps = (mpi_send_wait_cmp, mpi_tag_cmp)
mpi_keys = (mpi_send_wait_key, mpi_tag_key)
