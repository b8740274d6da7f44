"""Linear algebra.

==================  ==================================================================
`products`          `dot`, `outer`, `tensordot`
`batches`           products of batches of matrices
`inverses`          the inverse and the pseudo-inverse
`decompositions`    eigenvalues, QR and singular value decomposition, as in NumPy
`solving`           Cholesky factors, linear systems
`matrix_functions`  generalized eigenvalues, the matrix exponential, Kronecker products
`lapack`            the addresses of the LAPACK functions that native code calls
==================  ==================================================================

Users import these names from `theano_ng.tensor`, `theano_ng.tensor.nlinalg` and `theano_ng.tensor.slinalg`.
"""
