"""Device matrices with ones on or below a diagonal."""

from theano_ng.configdefaults import config
from theano_ng.gof.native import NativeCode
from theano_ng.gpuarray.contexts import context_address
from theano_ng.gpuarray.kernels import creation as kernels
from theano_ng.gpuarray.twin import TwinOp, on_host
from theano_ng.tensor.shaping.creation import Eye, Tri


class _DiagonalMatrix(TwinOp):
    """A base class of GpuEye and GpuTri."""

    __props__ = ("dtype", "context_name")
    native_unchecked = (1,)
    host_class = None
    condition = None  # a C expression of row, column and diagonal; it is true for the elements that are 1

    def __init__(self, dtype=None, context_name=None):
        self.dtype = config.floatX if dtype is None else dtype
        self.context_name = context_name

    def __str__(self):
        return "%s<%s>{%s}" % (type(self).__name__, self.context_name, self.dtype)

    def host_op(self, node):
        return self.host_class(self.dtype)

    def make_node(self, n, m, k):
        host = self.host_class(self.dtype).make_node(*on_host([n, m, k]))
        return self.on_device(host.inputs, host, self.context_name)

    def native_code(self, node):
        type_ = node.outputs[0].type
        return NativeCode(
            "theano_ng.gpuarray.native.alloc:diagonal_matrix",
            context=context_address(type_.context),
            typecode=type_.typecode,
            kernel=kernels.diagonal_matrix(self.dtype, self.condition, type_.context),
        )


class GpuEye(_DiagonalMatrix):
    """Make a device matrix with ones on a diagonal: ``GpuEye(dtype, context_name)(n, m, k)``.

    Parameters
    ----------
    dtype : str
        ``config.floatX`` by default.
    context_name : hashable
        The context of the matrix.

    Notes
    -----
    The inputs are the number of rows, the number of columns, and the index of the diagonal. A positive index is above
    the main diagonal.
    """

    host_class = Eye
    condition = "column == row + diagonal"


class GpuTri(_DiagonalMatrix):
    """Make a device matrix with ones on and below a diagonal. For parameters and inputs, see `GpuEye`."""

    host_class = Tri
    condition = "column <= row + diagonal"
