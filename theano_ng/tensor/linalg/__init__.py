"""Linear algebra.

==================  ==================================================================
`products`          `dot`, `outer`, `tensordot`, products of batches
`decompositions`    eigenvalues, QR and singular values, as NumPy computes them
`solving`           Cholesky factors, systems of equations
`matrix_functions`  generalized eigenvalues, the matrix exponential, Kronecker products
`lapack`            where the LAPACK functions of native code come from
==================  ==================================================================

Users reach these through `theano_ng.tensor`, `theano_ng.tensor.nlinalg` and `theano_ng.tensor.slinalg`.
"""
