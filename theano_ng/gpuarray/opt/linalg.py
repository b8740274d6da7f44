"""Rules that move linear algebra to CUDA devices.

They apply if cuSOLVER (or cuBLAS, for triangular systems) can be used on the device. The rules for inverses, singular
values, QR decompositions and eigenvalues also need the flag ``magma.enabled``. The pass over the graph and the rules for
single nodes have the same rules.
"""

import functools

from theano_ng.configdefaults import config
from theano_ng.gof.rewriting import copy_stack_trace, local_optimizer
from theano_ng.gpuarray.cuda_libraries import usable
from theano_ng.gpuarray.kernels.linalg import DTYPES
from theano_ng.gpuarray.linalg import (
    GpuCholesky,
    GpuCublasTriangularSolve,
    GpuCusolverSolve,
    GpuMagmaCholesky,
    GpuMagmaEigh,
    GpuMagmaMatrixInverse,
    GpuMagmaQR,
    GpuMagmaSVD,
)
from theano_ng.gpuarray.opt.databases import lifts, register_inplace, rule_groups
from theano_ng.tensor.linalg.decompositions import SVD, Eigh, QRFull, QRIncomplete
from theano_ng.tensor.linalg.inverses import MatrixInverse
from theano_ng.tensor.linalg.solving import Cholesky, Solve

matrix_groups = rule_groups("matrix_ops_db")
matrix_ops_db, matrix_ops_db2 = matrix_groups


def _moves(*host_ops, **options):
    """Return a decorator like `lifts` for a function that returns an Op on the device, or False, for an Op on the host.

    The rule does not apply if the dtype is not supported, or if the library of the Op on the device cannot be used.
    """

    def decorator(f):
        @functools.wraps(f)
        def rule(op, context_name, inputs, outputs):
            if outputs[0].dtype not in DTYPES:
                return False
            new = f(op)
            return new and usable(context_name, new.library) and new(*inputs, return_list=True)

        return lifts(*host_ops, **options)(rule)

    return decorator


_MAGMA = {"tags": ("fast_compile", "magma")}


@_moves(Solve)
def local_gpu_solve(op):
    """Solve(...)(host(A), host(a))  becomes  host(GpuCusolverSolve(...)(A, a)), or GpuCublasTriangularSolve."""
    if op.A_structure.endswith("triangular"):
        return GpuCublasTriangularSolve(op.A_structure == "lower_triangular")
    return GpuCusolverSolve("symmetric" if op.A_structure == "symmetric" else "general")


@_moves(Cholesky, tags=("fast_compile", "cusolver"), group=matrix_groups, position=0)
def local_gpu_cholesky(op):
    """cholesky(host(A))  becomes  host(GpuCholesky()(A)), if errors are raised."""
    return op.on_error == "raise" and GpuCholesky(op.lower)


@_moves(Cholesky, group=matrix_groups, position=1, **_MAGMA)
def local_gpu_magma_cholesky(op):
    """cholesky(host(A))  becomes  host(GpuMagmaCholesky()(A)), if the previous rule is excluded."""
    return config.magma.enabled and op.on_error == "raise" and GpuMagmaCholesky(op.lower)


@_moves(MatrixInverse, **_MAGMA)
def local_gpu_magma_matrix_inverse(op):
    """matrix_inverse(host(A))  becomes  host(GpuMagmaMatrixInverse()(A))."""
    return config.magma.enabled and GpuMagmaMatrixInverse()


@_moves(SVD, **_MAGMA)
def local_gpu_magma_svd(op):
    """svd(host(A))  becomes  [host(v) for v in GpuMagmaSVD()(A)]."""
    return config.magma.enabled and GpuMagmaSVD(op.full_matrices, op.compute_uv)


@_moves(QRFull, **_MAGMA)
def local_gpu_magma_qr(op):
    """qr(host(A))  becomes  [host(v) for v in GpuMagmaQR()(A)]. Other modes stay on the host."""
    return config.magma.enabled and op.mode == "reduced" and GpuMagmaQR()


@_moves(QRIncomplete, **_MAGMA)
def local_gpu_magma_qr_incomplete(op):
    """qr(host(A), "r")  becomes  host(GpuMagmaQR(complete=False)(A))."""
    return config.magma.enabled and GpuMagmaQR(complete=False)


@_moves(Eigh, **_MAGMA)
def local_gpu_magma_eigh(op):
    """eigh(host(A))  becomes  [host(v) for v in GpuMagmaEigh()(A)]."""
    return config.magma.enabled and GpuMagmaEigh(op.UPLO)


def _inplace_rule(name, op_class, example):
    """Register the rule that lets an Op overwrite its first input."""

    @local_optimizer([op_class], inplace=True)
    def rule(node):
        if node.op.inplace:
            return False
        return copy_stack_trace(node.outputs, node.op.clone_inplace()(*node.inputs, return_list=True))

    rule.__name__ = name
    rule.fn.__doc__ = rule.__doc__ = example
    return register_inplace()(rule)


local_inplace_gpu_solve = _inplace_rule(
    "local_inplace_gpu_solve", GpuCusolverSolve, "Let the LU factors of a linear system overwrite its matrix."
)
local_inplace_gpu_cholesky = _inplace_rule(
    "local_inplace_gpu_cholesky", GpuCholesky, "Let a Cholesky factor overwrite its matrix."
)
local_inplace_gpu_magma_cholesky = _inplace_rule(
    "local_inplace_gpu_magma_cholesky", GpuMagmaCholesky, "Let a Cholesky factor overwrite its matrix."
)
local_inplace_gpu_magma_matrix_inverse = _inplace_rule(
    "local_inplace_gpu_magma_matrix_inverse",
    GpuMagmaMatrixInverse,
    "Let the LU factors of a matrix that is inverted overwrite it.",
)
