"""Linear algebra on CUDA devices: linear systems, inverses and decompositions.

cuSOLVER computes them, and cuBLAS solves triangular systems. Both libraries are part of the extras ``cuda12`` and
``cuda13``. MAGMA is not needed: the Ops whose names contain it use cuSOLVER, too. The arrays are float32 or float64. On
other devices, the Ops raise RuntimeError when they are applied, and the rules leave the Ops of the host where they are.

Singular matrices and matrices that are not positive definite raise `numpy.linalg.LinAlgError`, as on the host. For this
purpose a node waits for the device, once, after its last routine. Only `GpuMagmaQR` does not wait.
"""

import numpy as np

from theano_ng.configdefaults import config
from theano_ng.gof.derivative import disconnected_type
from theano_ng.gof.native import NativeCode
from theano_ng.gof.op import Op
from theano_ng.gof.params_type import ParamsType
from theano_ng.gpuarray.basic_ops import gpu_contiguous
from theano_ng.gpuarray.cuda_libraries import require
from theano_ng.gpuarray.device import loader
from theano_ng.gpuarray.kernels import creation
from theano_ng.gpuarray.kernels import linalg as kernels
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.transfers import as_gpuarray_variable, infer_context_name
from theano_ng.gpuarray.twin import TwinOp, on_host, to_context_of
from theano_ng.gpuarray.type import gpu_context_type
from theano_ng.scalar import bool as bool_t
from theano_ng.tensor.linalg.decompositions import SVD, Eigh, QRFull, QRIncomplete
from theano_ng.tensor.linalg.inverses import MatrixInverse
from theano_ng.tensor.linalg.solving import Cholesky, Solve

__all__ = [
    "GpuCholesky",
    "GpuCublasTriangularSolve",
    "GpuCusolverSolve",
    "GpuMagmaBase",
    "GpuMagmaCholesky",
    "GpuMagmaEigh",
    "GpuMagmaMatrixInverse",
    "GpuMagmaQR",
    "GpuMagmaSVD",
    "MATRIX_STRUCTURES_SOLVE",
    "attach_cublas_handle_to_context",
    "attach_cusolver_handle_to_context",
    "bool_t",
    "config",
    "gpu_cholesky",
    "gpu_context_type",
    "gpu_contiguous",
    "gpu_matrix_inverse",
    "gpu_qr",
    "gpu_solve",
    "gpu_solve_lower_triangular",
    "gpu_solve_upper_triangular",
    "gpu_svd",
    "pygpu_available",
]

MATRIX_STRUCTURES_SOLVE = "general", "symmetric", "lower_triangular", "upper_triangular"
"""The structures that `gpu_solve` accepts."""

pygpu_available = True
"""Programs that ask for this name need arrays on devices, which this package always has."""

_TRANSPOSITIONS = "N", "T", "C"
_CODE = "theano_ng.gpuarray.native.linalg:"


def __getattr__(name):
    # Two classic names that programs read: whether the libraries are installed. The search is done when it is asked for.
    if name == "cusolver_available":
        return loader.cusolver() is not None
    if name == "cublas_available":
        return loader.cublas("cublas") is not None
    raise AttributeError("module %r has no attribute %r" % (__name__, name))


def attach_cusolver_handle_to_context(ctx):
    """Load cuSOLVER for a context (`GpuContext`), which otherwise happens when the first Op is applied. Return its version.

    Raises
    ------
    GpuArrayException
        If the device is no CUDA device, or if the library cannot be used.
    """
    return ctx.cusolver


def attach_cublas_handle_to_context(ctx):
    """Load cuBLAS for a context; see `attach_cusolver_handle_to_context`."""
    return ctx.cublas_solve


# --- base classes ------------------------------------------------------------------------------------------------------------


class _GpuLinalg(TwinOp):
    """The base class of this module's Ops. All inputs are on a device, and have the same dtype, float32 or float64.

    Attributes
    ----------
    library : str
        The attribute of contexts that opens the library; see `cuda_libraries`.
    """

    native_uses_queue = False  # the native code calls a library, and may give the GIL up

    _f16_ok = False
    library = "cusolver"

    def make_node(self, *inputs):
        context_name = infer_context_name(*[v for v in inputs if hasattr(v, "type")])
        host = self.host_op(None).make_node(*on_host(inputs))
        dtype = host.inputs[0].dtype
        if dtype not in kernels.DTYPES:
            raise TypeError("%s: the matrices must be float32 or float64, not %s" % (self, dtype))
        require(self, context_name, self.library)
        return self.on_device([as_gpuarray_variable(v, context_name) for v in host.inputs], host, context_name)

    def with_results(self, x):
        """Return the Op for the host, for derivatives with respect to the variable `x` on the device.

        Derivatives of some Ops use results such as eigenvectors, whose signs are arbitrary. The device computes these
        results, so that their signs are the same as in the value.
        """
        host, op = self.host_op(None), self.results_op()
        if op is not None:
            host.results = lambda v: on_host(op(as_gpuarray_variable(v, x.type.context_name), return_list=True))
        return host

    def results_op(self):
        """Return the Op on the device that computes the results (see `with_results`), or None if they are unique."""
        return None

    def L_op(self, inputs, outputs, output_gradients):
        host = self.with_results(inputs[0])
        found = host.L_op(on_host(inputs), on_host(outputs), on_host(output_gradients))
        return [to_context_of(g, x) for g, x in zip(found, inputs)]

    def R_op(self, inputs, eval_points):
        found = self.with_results(inputs[0]).R_op(on_host(inputs), on_host(eval_points))
        return [to_context_of(d, inputs[0]) for d in found]

    def code(self, node, name, kernel_makers=None, **parameters):
        """Return native code. The kernels are made for the dtype and the context of the first input."""
        type_ = node.inputs[0].type
        require(self, type_.context_name, self.library)  # the node may come from a pickle of another process
        made = {key: make(type_.dtype, type_.context) for key, make in (kernel_makers or {}).items()}
        return NativeCode(_CODE + name, typecode=type_.typecode, **made, **parameters)


def _identity(dtype, context):
    return creation.diagonal_matrix(dtype, "column == row + diagonal", context)


class _Inplace:
    """A mixin of Ops with the property `inplace`, which is True if the first input may be overwritten."""

    def set_inplace(self, inplace):
        self.inplace = bool(inplace)
        if self.inplace:
            self.destroy_map = {0: [0]}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.set_inplace(self.inplace)


# --- linear systems ----------------------------------------------------------------------------------------------------------


class _GpuSolving(_GpuLinalg):
    """The base class of the Ops that solve ``op(A) x = b``. op(A) is A, or the transpose of A if `trans` is not 'N'."""

    def set_transposition(self, trans):
        if trans not in _TRANSPOSITIONS:
            raise ValueError("%s: trans must be one of %s, not %r" % (type(self).__name__, _TRANSPOSITIONS, trans))
        self.trans = trans

    def make_node(self, inp1, inp2):
        return super().make_node(inp1, inp2)

    def takes_memory(self, node):
        return True

    def turned(self, A):
        """Return op(A), for an array or a variable on the host. None stays None."""
        return A if self.trans == "N" or A is None else A.T

    def perform(self, node, inputs, output_storage, params=None):
        A, b = map(np.asarray, inputs)
        host, cell = self.host_node(node), [None]
        host.op.perform(host, [self.turned(A), b], [cell])
        output_storage[0][0] = pygpu.array(cell[0], context=node.outputs[0].type.context)

    def L_op(self, inputs, outputs, output_gradients):
        A, b = on_host(inputs)
        gradients = self.host_op(None).L_op([self.turned(A), b], on_host(outputs), on_host(output_gradients))
        return [to_context_of(g, x) for g, x in zip((self.turned(gradients[0]), gradients[1]), inputs)]

    def R_op(self, inputs, eval_points):
        (A, b), (A_direction, b_direction) = on_host(inputs), on_host(eval_points)
        (found,) = self.host_op(None).R_op([self.turned(A), b], [self.turned(A_direction), b_direction])
        return [to_context_of(found, inputs[1])]


class GpuCusolverSolve(_Inplace, _GpuSolving):
    """Solve a linear system on a CUDA device by cuSOLVER.

    Inputs: A, a square matrix (M, M); b, a vector (M,) or a matrix (M, N). Output: x of the shape of b with
    ``dot(op(A), x) == b``. float16 inputs are converted to float32, as on the host.

    Parameters
    ----------
    A_structure : {'general', 'symmetric'}
        With 'symmetric', a system takes half the work if A is symmetric and positive definite. Otherwise the system is
        solved as for 'general', which takes more than the usual work.
    trans : {'N', 'T', 'C'}
        'N': op(A) is A. 'T' and 'C': op(A) is the transpose of A.
    inplace : bool
        Whether A may be overwritten.

    Raises
    ------
    numpy.linalg.LinAlgError
        At run time, if A is not square, or if it is exactly singular.
    ValueError
        At run time, if A and b have different numbers of rows.
    """

    __props__ = ("A_structure", "trans", "inplace")

    def __init__(self, A_structure="general", trans="N", inplace=False):
        if A_structure not in ("general", "symmetric"):
            raise ValueError(
                "GpuCusolverSolve: A_structure must be 'general' or 'symmetric', not %r; GpuCublasTriangularSolve solves "
                "triangular systems" % (A_structure,)
            )
        self.A_structure = A_structure
        self.set_transposition(trans)
        self.set_inplace(inplace)

    def host_op(self, node):
        return Solve(self.A_structure)

    def native_code(self, node):
        symmetric = self.A_structure == "symmetric"
        return self.code(
            node,
            "solve",
            {"symmetry": kernels.check_symmetry} if symmetric else {},
            **({} if symmetric else {"symmetry": 0}),
            symmetric=symmetric,
            transposed=self.trans != "N",
            in_place=self.inplace,
        )

    def clone_inplace(self):
        """Return the Op that may overwrite A."""
        return GpuCusolverSolve(self.A_structure, self.trans, True)

    def check_dev_info(self, dev_info):
        """Raise the error for a number that cuSOLVER stores on the device, for authors who call the library.

        Parameters
        ----------
        dev_info : array_like of one integer
            0: no error. Positive: the place of the pivot or minor that is zero. Negative: a wrong argument.

        Raises
        ------
        numpy.linalg.LinAlgError
            If the matrix is singular.
        ValueError
            If an argument is wrong.
        """
        value = int(np.asarray(dev_info).reshape(-1)[0])
        if value > 0:
            raise np.linalg.LinAlgError("Singular matrix: pivot %d of its LU factors is zero" % value)
        if value < 0:
            raise ValueError("cuSOLVER refuses argument %d of a routine" % -value)


class GpuCublasTriangularSolve(_GpuSolving):
    """Solve a triangular linear system on a CUDA device by cuBLAS. For the inputs, see `GpuCusolverSolve`.

    Only the named triangle of A is read.

    Parameters
    ----------
    lower : bool
        Whether A is lower triangular.
    trans : {'N', 'T', 'C'}

    Raises
    ------
    numpy.linalg.LinAlgError
        At run time, if A is not square, or if an element of its diagonal is zero.
    ValueError
        At run time, if A and b have different numbers of rows.
    """

    __props__ = ("trans", "lower")
    library = "cublas_solve"

    def __init__(self, lower=True, trans="N"):
        self.lower = bool(lower)
        self.set_transposition(trans)

    def host_op(self, node):
        # The transpose of a lower triangular matrix is upper triangular.
        lower = self.lower == (self.trans == "N")
        return Solve("lower_triangular" if lower else "upper_triangular", lower)

    def native_code(self, node):
        return self.code(
            node, "solve_triangular", {"check": kernels.check_diagonal}, lower=self.lower, transposed=self.trans != "N"
        )


def gpu_solve(A, b, A_structure="general", trans="N"):
    """Solve a linear system on a CUDA device: return x with ``dot(op(A), x) == b``.

    Parameters
    ----------
    A : (M, M) matrix
    b : (M,) vector or (M, N) matrix
    A_structure : {'general', 'symmetric', 'lower_triangular', 'upper_triangular'}
        Of triangular matrices, only the named triangle is read. For 'symmetric', see `GpuCusolverSolve`.
    trans : {'N', 'T', 'C'}
        'N': op(A) is A. 'T' and 'C': op(A) is the transpose of A.

    Returns
    -------
    Variable on the device
        The solution, with the shape of b.

    Raises
    ------
    RuntimeError
        If the device is no CUDA device, or lacks the library.
    """
    if A_structure not in MATRIX_STRUCTURES_SOLVE:
        raise ValueError("gpu_solve: A_structure must be one of %s, not %r" % (MATRIX_STRUCTURES_SOLVE, A_structure))
    if A_structure.endswith("triangular"):
        return GpuCublasTriangularSolve(A_structure == "lower_triangular", trans)(A, b)
    return GpuCusolverSolve(A_structure, trans)(A, b)


def gpu_solve_lower_triangular(A, b, trans="N"):
    """Solve a linear system with a lower triangular matrix on a CUDA device. See `gpu_solve`."""
    return GpuCublasTriangularSolve(True, trans)(A, b)


def gpu_solve_upper_triangular(A, b, trans="N"):
    """Solve a linear system with an upper triangular matrix on a CUDA device. See `gpu_solve`."""
    return GpuCublasTriangularSolve(False, trans)(A, b)


# --- Cholesky ----------------------------------------------------------------------------------------------------------------


class _CholeskyOfLibrary(_Inplace, _GpuLinalg):
    """The base class of the two Ops that compute Cholesky factors, which differ only in their names."""

    __props__ = ("lower", "inplace")

    def __init__(self, lower=True, inplace=False):
        self.lower = bool(lower)
        self.set_inplace(inplace)

    def host_op(self, node):
        return Cholesky(self.lower)

    def clone_inplace(self):
        """Return the Op that overwrites its input."""
        return type(self)(self.lower, True)

    def native_code(self, node):
        return self.code(
            node,
            "cholesky",
            {"clear": kernels.clear_triangle, "check": kernels.check_diagonal},
            lower=self.lower,
            in_place=self.inplace,
        )


class GpuCholesky(_CholeskyOfLibrary):
    """Compute the Cholesky factor of a positive definite matrix on a CUDA device by cuSOLVER.

    Only one triangle of the matrix is read, and the other triangle of the factor is zero. float16 is converted to float32,
    as on the host.

    Parameters
    ----------
    lower : bool
        Whether to return the lower factor, and to read the lower triangle.
    inplace : bool
        Whether the factor overwrites the matrix.

    Raises
    ------
    numpy.linalg.LinAlgError
        At run time, if the matrix is not square, or not positive definite.
    """

    def make_node(self, inp):
        return super().make_node(inp)


def gpu_cholesky(A, lower=True):
    """Return the Cholesky factor of a positive definite matrix, computed on a CUDA device. See `GpuCholesky`."""
    return GpuCholesky(lower)(A)


# --- the names of MAGMA ------------------------------------------------------------------------------------------------------


class GpuMagmaBase(_GpuLinalg):
    """The base class of the Ops that Theano computed by MAGMA. Here cuSOLVER computes them."""

    def get_params(self, node):
        return self.params_type.get_params(self, context=node.inputs[0].type.context)


class GpuMagmaSVD(GpuMagmaBase):
    """Compute the singular values of a matrix (M, N) on a CUDA device, and optionally its singular vectors.

    The outputs are u, s and vh with the shapes of `numpy.linalg.svd`, or only s.

    Parameters
    ----------
    full_matrices : bool
        If True, u and vh have the shapes (M, M) and (N, N). Otherwise the shapes are (M, K) and (K, N), where
        K = min(M, N).
    compute_uv : bool
        Whether to compute u and vh.

    Raises
    ------
    numpy.linalg.LinAlgError
        At run time, if the algorithm does not converge, for instance because of NaN.
    """

    __props__ = ("full_matrices", "compute_uv")
    perform = Op.perform  # no `perform`: DebugMode would compare vectors of the host, whose signs may differ
    params_type = ParamsType(full_matrices=bool_t, context=gpu_context_type)

    def __init__(self, full_matrices=True, compute_uv=True):
        self.full_matrices, self.compute_uv = bool(full_matrices), bool(compute_uv)

    def host_op(self, node):
        return SVD(self.full_matrices, self.compute_uv)

    def results_op(self):
        return GpuMagmaSVD(self.full_matrices and self.compute_uv)

    def make_node(self, A):
        return super().make_node(A)

    def native_code(self, node):
        return self.code(node, "svd", {"identity": _identity, "check": kernels.check_diagonal}, full=self.full_matrices)


class GpuMagmaMatrixInverse(_Inplace, GpuMagmaBase):
    """Compute the inverse of a matrix on a CUDA device.

    Parameters
    ----------
    inplace : bool
        Whether the matrix may be overwritten.

    Raises
    ------
    numpy.linalg.LinAlgError
        At run time, if the matrix is not square, or exactly singular.
    """

    __props__ = ("inplace",)
    params_type = ParamsType(inplace=bool_t, context=gpu_context_type)

    def __init__(self, inplace=False):
        self.set_inplace(inplace)

    def host_op(self, node):
        return MatrixInverse()

    def results_op(self):
        return GpuMagmaMatrixInverse()

    def make_node(self, A):
        return super().make_node(A)

    def takes_memory(self, node):
        return True

    def clone_inplace(self):
        """Return the Op that may overwrite its input."""
        return GpuMagmaMatrixInverse(True)

    def native_code(self, node):
        return self.code(node, "inverse", {"identity": _identity}, in_place=self.inplace)


class GpuMagmaQR(GpuMagmaBase):
    """Compute the QR decomposition of a matrix (M, N) on a CUDA device, in its reduced form.

    The outputs are q (M, K) and r (K, N), where K = min(M, N), or only r.

    Parameters
    ----------
    complete : bool
        Whether to compute q.
    """

    __props__ = ("complete",)
    perform = Op.perform  # see GpuMagmaSVD; the factors of a singular matrix are not unique
    params_type = ParamsType(complete=bool_t, context=gpu_context_type)

    def __init__(self, complete=True):
        self.complete = bool(complete)

    def host_op(self, node):
        return QRFull("reduced") if self.complete else QRIncomplete("r")

    def results_op(self):
        return GpuMagmaQR()

    def make_node(self, A):
        return super().make_node(A)

    def native_code(self, node):
        return self.code(node, "qr", {"clear": kernels.clear_triangle})


class GpuMagmaCholesky(_CholeskyOfLibrary, GpuMagmaBase):
    """The same as `GpuCholesky`. The rule that makes this Op applies if the rules of the tag ``cusolver`` are excluded."""

    params_type = ParamsType(lower=bool_t, inplace=bool_t, context=gpu_context_type)

    def make_node(self, A):
        return super().make_node(A)


class GpuMagmaEigh(GpuMagmaBase):
    """Compute the eigenvalues of a symmetric matrix on a CUDA device, and optionally its eigenvectors.

    The outputs are the eigenvalues in ascending order and the matrix whose columns are the eigenvectors, or only the
    eigenvalues.

    Parameters
    ----------
    UPLO : {'L', 'U'}
        The triangle of the matrix that is read.
    compute_v : bool
        Whether to compute the eigenvectors.

    Raises
    ------
    numpy.linalg.LinAlgError
        At run time, if the matrix is not square, or if the algorithm does not converge.
    """

    __props__ = ("lower", "compute_v")
    perform = Op.perform  # see GpuMagmaSVD
    params_type = ParamsType(lower=bool_t, compute_v=bool_t, context=gpu_context_type)

    def __init__(self, UPLO="L", compute_v=True):
        self.lower = Eigh(UPLO).UPLO == "L"  # raises an error for other values
        self.compute_v = bool(compute_v)

    @property
    def triangle(self):
        return "L" if self.lower else "U"

    def host_op(self, node):
        return Eigh(self.triangle)

    def results_op(self):
        return GpuMagmaEigh(self.triangle)

    def make_node(self, A):
        return super().make_node(A)

    def on_device(self, inputs, node, context_name):
        made = super().on_device(inputs, node, context_name)
        if not self.compute_v:
            del made.outputs[1:]
        return made

    def infer_shape(self, node, shapes):
        return super().infer_shape(node, shapes)[: len(node.outputs)]

    def L_op(self, inputs, outputs, output_gradients):
        if not self.compute_v:
            # The gradient of a cost that does not depend on the eigenvectors
            output_gradients = [*output_gradients, disconnected_type()]
        return super().L_op(inputs, outputs, output_gradients)

    def R_op(self, inputs, eval_points):
        return super().R_op(inputs, eval_points)[: 1 + self.compute_v]

    def native_code(self, node):
        return self.code(node, "eigh", {"check": kernels.check_diagonal}, lower=self.lower)


def gpu_svd(a, full_matrices=1, compute_uv=1):
    """Return the singular value decomposition of a matrix, computed on a CUDA device. See `GpuMagmaSVD`.

    Returns
    -------
    list of variables, or variable
        u, s and vh. If `compute_uv` is False, only s.
    """
    return GpuMagmaSVD(full_matrices, compute_uv)(a)


def gpu_matrix_inverse(a):
    """Return the inverse of a matrix, computed on a CUDA device. See `GpuMagmaMatrixInverse`."""
    return GpuMagmaMatrixInverse()(a)


def gpu_qr(a, complete=True):
    """Return the QR decomposition of a matrix, computed on a CUDA device. See `GpuMagmaQR`.

    Returns
    -------
    list of variables, or variable
        q and r. If `complete` is False, only r.
    """
    return GpuMagmaQR(complete)(a)
