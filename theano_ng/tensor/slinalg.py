"""Linear algebra as in SciPy.

This module contains Cholesky factors, linear systems, generalized eigenvalues, the matrix exponential and the Kronecker
product.

The import of `theano_ng.tensor` does not load this module. The module is loaded when it is first used. For matrices
that are singular, not positive definite or not square, the Ops raise `scipy.linalg.LinAlgError`, an alias of
`numpy.linalg.LinAlgError`. The message contains the node. Integers are converted to float64, float16 to float32. Inputs
are not checked for NaN and infinities.

Some Ops read only one triangle of a symmetric or Hermitian matrix. Their gradients refer to the elements of this
triangle, and are zero in the other triangle. The real and imaginary parts of the gradient of a complex matrix are the
derivatives with respect to the real and imaginary parts of the matrix.
"""

from theano_ng.tensor.linalg.matrix_functions import Eigvalsh, EigvalshGrad, Expm, ExpmGrad, eigvalsh, expm, kron
from theano_ng.tensor.linalg.solving import (
    Cholesky,
    CholeskyGrad,
    Solve,
    cholesky,
    solve,
    solve_lower_triangular,
    solve_symmetric,
    solve_upper_triangular,
)

# Some user scripts read this variable. It is always True, because SciPy is required.
imported_scipy = True
