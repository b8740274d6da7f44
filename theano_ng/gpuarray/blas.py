"""Ops that multiply matrices and vectors on devices.

The arrays of a node have one dtype: float16, float32 or float64. float16 products are summed in float32. The matrices may
have any strides. The factors `alpha` and `beta` are scalars on the host or on the device.
"""

import numpy as np

from theano_ng.gof.differentiate import Lop, Rop
from theano_ng.gof.graph import Apply
from theano_ng.gof.params_type import ParamsType
from theano_ng.gpuarray.classic_imports import CLASSIC_IMPORTS
from theano_ng.gpuarray.corr import (
    BaseGpuCorr3dMM,
    BaseGpuCorrMM,
    GpuCorr3dMM,
    GpuCorr3dMM_gradInputs,
    GpuCorr3dMM_gradWeights,
    GpuCorrMM,
    GpuCorrMM_gradInputs,
    GpuCorrMM_gradWeights,
)
from theano_ng.gpuarray.kernels.product import BATCH, DOT22, DTYPES, GEMM, GEMV, GER, IN_ROW, product_code
from theano_ng.gpuarray.op import GpuOp
from theano_ng.gpuarray.transfers import as_gpuarray_variable, infer_context_name
from theano_ng.gpuarray.twin import on_host, to_context_of
from theano_ng.gpuarray.type import GpuArrayType
from theano_ng.lazy import lazy_names
from theano_ng.scalar import bool as bool_t
from theano_ng.tensor.blas.ops import BatchedDot
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.elemwise.functions import cast
from theano_ng.tensor.indexing.subtensor import set_subtensor
from theano_ng.tensor.linalg.products import dot, outer

__all__ = [
    "BaseGpuCorr3dMM",
    "BaseGpuCorrMM",
    "BlasOp",
    "GpuCorr3dMM",
    "GpuCorr3dMM_gradInputs",
    "GpuCorr3dMM_gradWeights",
    "GpuCorrMM",
    "GpuCorrMM_gradInputs",
    "GpuCorrMM_gradWeights",
    "GpuDot22",
    "GpuDot22InRow",
    "GpuGemm",
    "GpuGemmBatch",
    "GpuGemv",
    "GpuGer",
    "gpu_dot22",
    "gpugemm_inplace",
    "gpugemm_no_inplace",
    "gpugemmbatch_inplace",
    "gpugemmbatch_no_inplace",
    "gpugemv_inplace",
    "gpugemv_no_inplace",
    "gpuger_inplace",
    "gpuger_no_inplace",
]

# Names that the classic module had, too
__getattr__, __dir__, _ = lazy_names(
    __name__,
    {
        **CLASSIC_IMPORTS,
        "theano_ng.gpuarray.opt.blas": (
            "gpuablas_opt_inplace local_inplace_gpuagemm local_inplace_gpuagemmbatch local_inplace_gpuagemv "
            "local_inplace_gpuager"
        ),
    },
)


class BlasOp(GpuOp):
    """The base class of products on devices.

    A subclass defines `formula`, an expression for the host with the same value. Shapes, derivatives and `perform` follow
    from it.

    Attributes
    ----------
    ranks : tuple of int
        Rank of each input. The inputs of rank 0 are factors, which may be on the host.
    names : tuple of str
        Name of each input in error messages.
    kind : int
        The form of the product: a constant of `kernels.product`.
    """

    _f16_ok = True
    __props__ = ()
    ranks = names = ()
    kind = None

    def formula(self, *inputs):
        """Return an expression with the value of this Op, for inputs on the host: NumPy arrays or variables."""
        raise NotImplementedError(type(self).__name__)

    def checked_inputs(self, inputs):
        """Return the inputs with the arrays on a device, after checking their ranks and dtypes.

        Raises
        ------
        TypeError
            If a rank is wrong, or if the dtypes are not all equal to one of float16, float32 and float64.
        """
        context_name = infer_context_name(*[v for v, rank in zip(inputs, self.ranks) if rank and hasattr(v, "type")])
        inputs = [as_gpuarray_variable(v, context_name) if rank else v for v, rank in zip(inputs, self.ranks)]
        dtype = inputs[0].dtype
        inputs = [v if rank else _factor(v, dtype, context_name) for v, rank in zip(inputs, self.ranks)]
        for name, rank, v in zip(self.names, self.ranks, inputs):
            if v.ndim != rank:
                raise TypeError("%s: %s must have %d dimensions; got %s of type %s" % (self, name, rank, v, v.type))
        dtypes = [v.dtype for v in inputs]
        if dtype not in DTYPES or len(set(dtypes)) != 1:
            given = ", ".join("%s: %s" % pair for pair in zip(self.names, dtypes))
            raise TypeError("%s: all inputs must have one dtype among %s; got %s" % (self, ", ".join(DTYPES), given))
        return inputs

    def make_node(self, *inputs):
        if len(inputs) != len(self.ranks):
            names = ", ".join(self.names)
            raise TypeError("%s takes %d inputs (%s), got %d" % (self, len(self.ranks), names, len(inputs)))
        inputs = self.checked_inputs(inputs)
        return Apply(self, inputs, [inputs[0].type()])

    def infer_shape(self, node, shapes):
        return [shapes[0]]

    def fails_on_values(self, node):
        return False

    def perform(self, node, inputs, output_storage, params=None):
        values = [np.asarray(value) for value in inputs]
        dtype = values[0].dtype
        if dtype == np.float16:
            values = [value.astype("float32") for value in values]
        self.check_shapes(*values)
        self.store(node, [np.asarray(self.formula(*values), dtype)], inputs, output_storage)

    def check_shapes(self, *values):
        """Raise ValueError if the shapes of the inputs do not fit each other."""

    def native_code(self, node):
        type_ = node.outputs[0].type
        return product_code(self.kind, type_.dtype, type_.context, bool(getattr(self, "inplace", False)))

    def grad(self, inputs, output_gradients):
        host = on_host(inputs)
        gradients = Lop(self.formula(*host), host, on_host(output_gradients)[0])
        return [to_context_of(g, x) for g, x in zip(gradients, inputs)]

    def R_op(self, inputs, eval_points):
        host = on_host(inputs)
        moving = [(x, point) for x, point in zip(host, on_host(eval_points)) if point is not None]
        if not moving:
            return [None]
        found = Rop(self.formula(*host), *map(list, zip(*moving)))
        return [None if found is None else as_gpuarray_variable(found, infer_context_name(inputs[0]))]


def _factor(factor, dtype, context_name):
    """Return a factor as a variable of a dtype. A factor on a device is moved to the context, others stay on the host."""
    if isinstance(getattr(factor, "type", None), GpuArrayType):
        return as_gpuarray_variable(factor if factor.dtype == dtype else cast(factor, dtype), context_name)
    factor = as_tensor_variable(factor if hasattr(factor, "type") else np.asarray(factor, dtype))
    return factor if factor.dtype == dtype or factor.ndim or factor.dtype.startswith("complex") else cast(factor, dtype)


def _scaled_sum(beta, c, alpha, product):
    """Return ``beta * c + alpha * product``. For arrays, a term whose factor is 0 is left out, even if it contains NaN."""
    if not isinstance(c, np.ndarray):
        return beta * c + alpha * product
    scaled = np.zeros_like(product) if alpha == 0 else alpha * product
    return scaled if beta == 0 else beta * c + scaled


class _InplaceBlasOp(BlasOp):
    """A base class of products that are added to the first input, and can overwrite it."""

    __props__ = ("inplace",)
    params_type = ParamsType(inplace=bool_t)

    def __init__(self, inplace=False):
        self.inplace = bool(inplace)
        if self.inplace:
            self.destroy_map = {0: [0]}

    def __setstate__(self, state):
        self.__dict__.update(state)
        if self.inplace:
            self.destroy_map = {0: [0]}

    def clone_inplace(self):
        """Return the Op that overwrites its first input."""
        return type(self)(inplace=True)


def _check_product(x, y):
    if x.shape[-1] != y.shape[-2]:
        raise ValueError(
            "Shape mismatch: x has %d cols (and %d rows) but y has %d rows (and %d cols)"
            % (x.shape[-1], x.shape[-2], y.shape[-2], y.shape[-1])
        )


class GpuGemm(_InplaceBlasOp):
    """An Op that computes ``beta * C + alpha * dot(A, B)`` for matrices.

    Parameters
    ----------
    inplace : bool
        If True, overwrite C.

    Raises
    ------
    ValueError
        At run time, if the shapes do not fit.
    """

    ranks, names, kind = (2, 0, 2, 2, 0), ("C", "alpha", "A", "B", "beta"), GEMM

    def formula(self, C, alpha, A, B, beta):
        return _scaled_sum(beta, C, alpha, _dot(A, B))

    def check_shapes(self, C, alpha, A, B, beta):
        _check_product(A, B)
        if C.shape != (A.shape[0], B.shape[1]):
            raise ValueError(
                "Shape mismatch: z has shape %s but the product of x and y has shape %s"
                % (C.shape, (A.shape[0], B.shape[1]))
            )


def _dot(a, b):
    return np.dot(a, b) if isinstance(a, np.ndarray) else dot(a, b)


class GpuGemv(_InplaceBlasOp):
    """An Op that computes ``beta * y + alpha * dot(A, x)`` for a matrix A and vectors. See `GpuGemm`."""

    ranks, names, kind = (1, 0, 2, 1, 0), ("y", "alpha", "A", "x", "beta"), GEMV

    def formula(self, y, alpha, A, x, beta):
        return _scaled_sum(beta, y, alpha, _dot(A, x))

    def check_shapes(self, y, alpha, A, x, beta):
        if A.shape != (y.shape[0], x.shape[0]):
            raise ValueError(
                "Incompatible shapes for gemv (beta * y + alpha * dot(A, x)). y: %s, A: %s, x: %s"
                % (y.shape, A.shape, x.shape)
            )


class GpuGer(_InplaceBlasOp):
    """An Op that computes ``A + alpha * outer(x, y)`` for a matrix A and vectors. See `GpuGemm`."""

    ranks, names, kind = (2, 0, 1, 1), ("A", "alpha", "x", "y"), GER

    def formula(self, A, alpha, x, y):
        return _scaled_sum(1, A, alpha, (np.outer if isinstance(A, np.ndarray) else outer)(x, y))

    def check_shapes(self, A, alpha, x, y):
        if A.shape != (x.shape[0], y.shape[0]):
            raise ValueError("Shape mismatch: A has shape %s, x %s and y %s" % (A.shape, x.shape, y.shape))


class GpuDot22(BlasOp):
    """An Op that multiplies two matrices. Inputs: x (m, k), y (k, n)."""

    ranks, names, kind = (2, 2), ("x", "y"), DOT22

    def make_node(self, x, y):
        x, y = self.checked_inputs((x, y))
        return Apply(
            self, [x, y], [GpuArrayType(x.dtype, (x.broadcastable[0], y.broadcastable[1]), x.type.context_name)()]
        )

    def infer_shape(self, node, shapes):
        return [(shapes[0][0], shapes[1][1])]

    def formula(self, x, y):
        return _dot(x, y)

    def check_shapes(self, x, y):
        _check_product(x, y)


class GpuDot22InRow(BlasOp):
    """An Op that overwrites a matrix of a stack C by a product: ``C[row] = dot(x, y)``. Inputs: C (l, m, n), x (m, k),
    y (k, n). The result is C.

    Parameters
    ----------
    row : int
        Index of the matrix, which is not negative.

    Raises
    ------
    IndexError
        At run time, if C has no such matrix.
    ValueError
        If `row` is negative. At run time, if the shapes do not fit. As in an assignment, the product is broadcast.
    """

    __props__ = ("row",)
    destroy_map = {0: [0]}
    ranks, names, kind = (3, 2, 2), ("C", "x", "y"), IN_ROW

    def __init__(self, row):
        self.row = int(row)
        if self.row < 0:
            raise ValueError("GpuDot22InRow: the row must not be negative; got %d" % self.row)

    def formula(self, C, x, y):
        if isinstance(C, np.ndarray):
            C = C.copy()
            C[self.row] = np.dot(x, y)
            return C
        return set_subtensor(C[self.row], dot(x, y))

    def check_shapes(self, C, x, y):
        _check_product(x, y)

    def native_code(self, node):
        type_ = node.outputs[0].type
        return product_code(self.kind, type_.dtype, type_.context, True, row=self.row)


class GpuGemmBatch(_InplaceBlasOp):
    """An Op that computes ``beta * C[i] + alpha * dot(A[i], B[i])`` for all i. The arrays have rank 3. See `GpuGemm`."""

    ranks, names, kind = (3, 0, 3, 3, 0), ("C", "alpha", "A", "B", "beta"), BATCH

    def formula(self, C, alpha, A, B, beta):
        product = np.matmul(A, B) if isinstance(A, np.ndarray) else BatchedDot()(A, B)
        return _scaled_sum(beta, C, alpha, product)

    def check_shapes(self, C, alpha, A, B, beta):
        if A.shape[::2] != (B.shape[0], B.shape[1]) or C.shape != (*A.shape[:2], B.shape[2]):
            raise ValueError("Shape mismatch: z has shape %s, x %s and y %s" % (C.shape, A.shape, B.shape))


gpu_dot22 = GpuDot22()
gpugemm_no_inplace, gpugemm_inplace = GpuGemm(), GpuGemm(inplace=True)
gpugemv_no_inplace, gpugemv_inplace = GpuGemv(), GpuGemv(inplace=True)
gpuger_no_inplace, gpuger_inplace = GpuGer(), GpuGer(inplace=True)
gpugemmbatch_no_inplace, gpugemmbatch_inplace = GpuGemmBatch(), GpuGemmBatch(inplace=True)
