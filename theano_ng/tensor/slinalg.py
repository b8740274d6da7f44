"""Linear algebra as SciPy computes it: Cholesky factors, systems of equations, generalized eigenvalues, matrix exponential, Kronecker product.

It is not imported with `theano_ng.tensor`: import it to use it. Matrices that are singular, not positive definite or not square raise
`scipy.linalg.LinAlgError`, which is `numpy.linalg.LinAlgError`, with the node in the message. Integers are converted to float64,
float16 to float32. NaN and infinities are not looked for.

Where only a triangle of a symmetric or Hermitian matrix is read, gradients are those of the elements that are read, and zero in the other
triangle. Gradients of complex matrices hold the derivatives by real and imaginary parts as theirs.
"""

from theano_ng.tensor.linalg.matrix_functions import Eigvalsh, EigvalshGrad, Expm, ExpmGrad, eigvalsh, expm, kron  # noqa: F401
from theano_ng.tensor.linalg.solving import (  # noqa: F401
    Cholesky,
    CholeskyGrad,
    Solve,
    cholesky,
    solve,
    solve_lower_triangular,
    solve_symmetric,
    solve_upper_triangular,
)

# Whether SciPy can be imported: it is required. Some scripts ask.
imported_scipy = True
