"""Products with selected blocks of a matrix on devices. See `tensor.nnet.blocksparse`."""

from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeCode
from theano_ng.gpuarray.advanced_subtensor import index_variables
from theano_ng.gpuarray.classic_imports import CLASSIC_IMPORTS
from theano_ng.gpuarray.device.index_errors import site_of
from theano_ng.gpuarray.elemwise import GpuElemwise
from theano_ng.gpuarray.kernels import blocksparse as kernels
from theano_ng.gpuarray.kernels.indexing import read_indices
from theano_ng.gpuarray.transfers import as_gpuarray_variable, host_from_gpu, infer_context_name
from theano_ng.gpuarray.twin import WideTwinOp, came_from_host, host_variable, on_host
from theano_ng.gpuarray.type import GpuArrayType
from theano_ng.lazy import lazy_names
from theano_ng.scalar import basic as scalar
from theano_ng.tensor.nnet.blocksparse import SparseBlockGemv, SparseBlockOuter

__all__ = [
    "GpuSparseBlockGemv",
    "GpuSparseBlockOuter",
    "gpu_sparse_block_gemv",
    "gpu_sparse_block_gemv_inplace",
    "gpu_sparse_block_outer",
    "gpu_sparse_block_outer_inplace",
]

# Names that the classic module had, too
__getattr__, __dir__, _ = lazy_names(__name__, CLASSIC_IMPORTS)

# The number of threads that should add outer products. -1: the number that keeps the device busy
_THREADS = -1


class _GpuBlocks(WideTwinOp):
    """A mixin of Ops that add products to their first input. Three inputs are on a device.

    The two matrices of indices may be on the host or on the device.
    """

    host_class = None

    def host_op(self, node):
        return self.host_class(self.inplace)

    def make_node(self, first, second, third, *rest):
        arrays = first, second, third
        context_name = infer_context_name(*arrays)
        arrays = [as_gpuarray_variable(v, context_name) for v in arrays]
        host = self.host_op(None).make_node(*[host_from_gpu(v) for v in arrays], *on_host(rest))
        indices = index_variables(rest[:2], host.inputs[3:5], context_name)
        return Apply(self, [*arrays, *indices, *host.inputs[5:]], [arrays[0].type()])

    def index_error(self, node, report):
        """Return the exception for an index that a kernel reported; see `device.index_errors.error_of`."""
        text = "%s: index %d is out of bounds for %d blocks"
        return IndexError(text % (self.host_class.__name__, report.index, report.lengths[0]))

    def supports(self, inputs):
        """Return True if a kernel exists for the dtypes of the inputs. All arrays must have the same float dtype."""
        dtypes = {v.dtype for v in inputs[:3]}
        return len(dtypes) == 1 and dtypes <= set(kernels.DTYPES)

    def _code(self, function, kernel, node, **params):
        """Return the native code, or None if there is no kernel for these dtypes."""
        if not self.supports(node.inputs):
            return None
        type_ = node.inputs[0].type
        lanes = kernels.lanes(type_.context)
        first, second = [
            read_indices([v.dtype], 2, type_.context) if isinstance(v.type, GpuArrayType) else 0
            for v in node.inputs[3:5]
        ]
        return NativeCode(
            "theano_ng.gpuarray.native.blocksparse:" + function,
            in_place=bool(self.inplace),
            typecode=type_.typecode,
            kernel=kernel(type_.dtype, lanes, type_.context),
            first=first,
            second=second,
            site=site_of(node),
            lanes=lanes,
            **params,
        )


class GpuSparseBlockGemv(_GpuBlocks, SparseBlockGemv):
    """Add products of vectors and selected blocks of a matrix to the first input, on a device.

    See :class:`theano_ng.tensor.nnet.blocksparse.SparseBlockGemv` for the computation and for the shapes.

    Parameters
    ----------
    inplace : bool
        Whether `o` is overwritten.

    Raises
    ------
    ValueError, IndexError
        At run time, if shapes do not match, or if an index is out of bounds.
    """

    host_class = SparseBlockGemv

    def make_node(self, o, W, h, inputIdx, outputIdx):
        return super().make_node(o, W, h, inputIdx, outputIdx)

    def native_code(self, node):
        return self._code("gemv", kernels.gemv, node)


class GpuSparseBlockOuter(_GpuBlocks, SparseBlockOuter):
    """Add outer products to blocks of a matrix, on a device.

    See :class:`theano_ng.tensor.nnet.blocksparse.SparseBlockOuter` for the computation and for the shapes. If an index occurs
    several times, the products are added in the same order in every run.

    Parameters
    ----------
    inplace : bool
        Whether `o` is overwritten.

    Raises
    ------
    ValueError, IndexError
        At run time, if shapes do not match, or if an index is out of bounds.
    """

    host_class = SparseBlockOuter

    def make_node(self, o, x, y, xIdx, yIdx, alpha=None):
        node = super().make_node(o, x, y, xIdx, yIdx, host_variable(alpha))
        if not isinstance(getattr(alpha, "type", None), GpuArrayType) or came_from_host(alpha):
            return node
        *inputs, _ = node.inputs
        alpha = as_gpuarray_variable(alpha, inputs[0].type.context_name)
        if alpha.dtype != inputs[0].dtype and inputs[0].dtype in kernels.DTYPES:
            alpha = GpuElemwise(getattr(scalar, "convert_to_" + inputs[0].dtype))(alpha)
        return Apply(self, [*inputs, alpha], [inputs[0].type()])

    def native_code(self, node):
        alpha = node.inputs[5]
        if alpha.dtype.startswith("complex"):
            return None
        return self._code("outer", kernels.outer, node, threads=_THREADS)


gpu_sparse_block_gemv = GpuSparseBlockGemv(False)
gpu_sparse_block_gemv_inplace = GpuSparseBlockGemv(True)
gpu_sparse_block_outer = GpuSparseBlockOuter(False)
gpu_sparse_block_outer_inplace = GpuSparseBlockOuter(True)
