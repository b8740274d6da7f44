"""Reading arrays from files, and sending them between processes by MPI."""
import numpy as np

from theano_ng.gof.graph import Apply, Constant, Variable
from theano_ng.gof.op import Op
from theano_ng.gof.sched import key_to_cmp
from theano_ng.gof.type import Generic, generic
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.type import TensorType

__all__ = ['LoadFromDisk', 'load', 'MPIRecv', 'MPIRecvWait', 'MPISend',
           'MPISendWait', 'isend', 'send', 'irecv', 'recv', 'mpi_enabled',
           'mpi_keys', 'mpi_send_wait_key', 'mpi_tag_key',
           'mpi_send_wait_cmp', 'mpi_tag_cmp']


class LoadFromDisk(Op):
    """Load a ``.npy`` file when the function runs; not differentiable.

    Parameters
    ----------
    dtype : str
    broadcastable : sequence of bool
    mmap_mode : {None, 'c'}
        None reads the file; 'c' maps it, copying what is written to.
    """
    __props__ = ('dtype', 'broadcastable', 'mmap_mode')

    def __init__(self, dtype, broadcastable, mmap_mode=None):
        self.dtype = np.dtype(dtype).name
        self.broadcastable = tuple(broadcastable)
        if mmap_mode not in (None, 'c'):
            raise ValueError(
                "The only supported values for mmap_mode are None and 'c', "
                "got %s: other modes would write to the file or give read-only "
                "memory." % (mmap_mode,))
        self.mmap_mode = mmap_mode

    def make_node(self, path):
        if isinstance(path, str):
            path = Constant(generic, path)
        if not isinstance(path, Variable) or not isinstance(path.type,
                                                            Generic):
            raise TypeError("load: the path must be a string or a variable of "
                            "type Generic, got %r" % (path,))
        return Apply(self, [path],
                     [TensorType(self.dtype, self.broadcastable)()])

    def perform(self, node, inp, out):
        path = inp[0]
        if str(path).split('.')[-1] == 'npz':
            raise ValueError("Expected a .npy file, got %s instead" % path)
        result = np.load(path, mmap_mode=self.mmap_mode)
        if result.dtype != self.dtype:
            raise TypeError("Expected an array of type %s, got %s instead, "
                            "from %s" % (self.dtype, result.dtype, path))
        out[0][0] = result

    def do_constant_folding(self, node):
        # The file is read by every call, even if its name is constant.
        return False

    def __str__(self):
        return ("Load{dtype: %s, broadcastable: %s, mmep: %s}"
                % (self.dtype, self.broadcastable, self.mmap_mode))


def load(path, dtype, broadcastable, mmap_mode=None):
    """Load an array from a ``.npy`` file when the function runs.

    Parameters
    ----------
    path : Generic variable, or str
        Name of the file.
    dtype : str
        Of the array; a file with another one is an error.
    broadcastable : sequence of bool
    mmap_mode : {None, 'c'}
        None copies the file into memory; 'c' maps it, so that what is changed
        is not written back.

    Returns
    -------
    TensorVariable

    Examples
    --------
    >>> from theano_ng import *
    >>> path = Variable(Generic(), None)
    >>> x = tensor.load(path, 'int64', (False,))
    >>> y = x * 2
    >>> fn = function([path], y)
    """
    return LoadFromDisk(dtype, broadcastable, mmap_mode)(path)


# ---------------------------------------------------------------------------
# MPI

def _communicator():
    """mpi4py's world, imported when a message is to be sent."""
    try:
        from mpi4py import MPI
    except ImportError as err:
        raise RuntimeError(
            "Sending and receiving arrays needs the package mpi4py, which "
            "cannot be imported (%s). Install it with its MPI library, and "
            "start the program with mpiexec." % err) from err
    return MPI.COMM_WORLD


def _find_mpi():
    from importlib.util import find_spec
    return find_spec('mpi4py') is not None


# Whether mpi4py is installed.
mpi_enabled = _find_mpi()


class MPIRecv(Op):
    """Start to receive an array.

    Outputs: a request (Generic), and the array that is being filled.

    Parameters
    ----------
    source : int
        Rank of the sender.
    tag : int
    shape : tuple of int
    dtype : str
    """
    __props__ = ('source', 'tag', 'shape', 'dtype')

    def __init__(self, source, tag, shape, dtype):
        self.source = source
        self.tag = tag
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype).name
        self.broadcastable = (False,) * len(self.shape)

    def make_node(self):
        return Apply(self, [], [generic(),
                                TensorType(self.dtype, self.broadcastable)()])

    def perform(self, node, inp, out):
        data = np.zeros(self.shape, dtype=self.dtype)
        out[0][0] = _communicator().Irecv(data, self.source, self.tag)
        out[1][0] = data

    def __str__(self):
        return ("MPIRecv{source: %d, tag: %d, shape: %s, dtype: %s}"
                % (self.source, self.tag, self.shape, self.dtype))

    def infer_shape(self, node, shapes):
        return [None, [as_tensor_variable(n, ndim=0).astype('int64')
                       for n in self.shape]]

    def do_constant_folding(self, node):
        return False


class MPIRecvWait(Op):
    """Wait for the array of an :class:`MPIRecv`; inputs: its outputs.

    Parameters
    ----------
    tag : int
    """
    view_map = {0: [1]}
    __props__ = ('tag',)

    def __init__(self, tag):
        self.tag = tag

    def make_node(self, request, data):
        return Apply(self, [request, data], [data.type()])

    def perform(self, node, inp, out):
        request, data = inp
        request.wait()
        out[0][0] = data

    def infer_shape(self, node, shapes):
        return [shapes[1]]


class MPISend(Op):
    """Start to send an array.

    Outputs: a request (Generic), and the array, which must stay alive.

    Parameters
    ----------
    dest : int
        Rank of the receiver.
    tag : int
    """
    view_map = {1: [0]}
    __props__ = ('dest', 'tag')

    def __init__(self, dest, tag):
        self.dest = dest
        self.tag = tag

    def make_node(self, data):
        data = as_tensor_variable(data)
        return Apply(self, [data], [generic(), data.type()])

    def perform(self, node, inp, out):
        # MPI sends contiguous memory only; the copy is kept by the output.
        data = np.ascontiguousarray(inp[0]).reshape(inp[0].shape)
        out[0][0] = _communicator().Isend(data, self.dest, self.tag)
        out[1][0] = data

    def __str__(self):
        return "MPISend{dest: %d, tag: %d}" % (self.dest, self.tag)


class MPISendWait(Op):
    """Wait until the array of an :class:`MPISend` has left.

    Parameters
    ----------
    tag : int
    """
    __props__ = ('tag',)

    def __init__(self, tag):
        self.tag = tag

    def make_node(self, request, data):
        return Apply(self, [request, data], [generic()])

    def perform(self, node, inp, out):
        inp[0].wait()
        out[0][0] = True


def isend(var, dest, tag):
    """Start to send a tensor; returns request and data variables.

    Parameters
    ----------
    var : tensor_like
    dest : int
        Rank of the receiver.
    tag : int
        Must match the receiver's.
    """
    return MPISend(dest, tag)(var)


def send(var, dest, tag):
    """Send a tensor; the result is done when the memory may be changed."""
    return MPISendWait(tag)(*isend(var, dest, tag))


def irecv(shape, dtype, source, tag):
    """Start to receive a tensor; returns request and data variables.

    Parameters
    ----------
    shape : tuple of int
    dtype : str
    source : int
        Rank of the sender.
    tag : int
        Must match the sender's.
    """
    return MPIRecv(source, tag, shape, dtype)()


def recv(shape, dtype, source, tag):
    """Receive a tensor; see :func:`irecv`."""
    return MPIRecvWait(tag)(*irecv(shape, dtype, source, tag))


def mpi_send_wait_key(a):
    """Scheduling key: wait as late, send and receive as early as possible.

    Parameters
    ----------
    a : Apply

    Returns
    -------
    int
    """
    if isinstance(a.op, (MPIRecvWait, MPISendWait)):
        return 1
    if isinstance(a.op, (MPIRecv, MPISend)):
        return -1
    return 0


def mpi_tag_key(a):
    """Scheduling key: among MPI nodes, the lower tag first."""
    if isinstance(a.op, (MPISend, MPIRecv, MPIRecvWait, MPISendWait)):
        return a.op.tag
    return 0


mpi_send_wait_cmp = key_to_cmp(mpi_send_wait_key)
mpi_tag_cmp = key_to_cmp(mpi_tag_key)
mpi_keys = (mpi_send_wait_key, mpi_tag_key)
