"""Rules on matrix inverses, determinants and systems of equations.

The modules of the Ops (`theano_ng.tensor.nlinalg` and `theano_ng.tensor.linalg.solving`) register this module as a
loader. So this module is imported when the next function is rewritten.
"""

from theano_ng.gof.rewriting import copy_stack_trace, local_optimizer
from theano_ng.tensor import basic as T
from theano_ng.tensor.blas.ops import Dot22
from theano_ng.tensor.elemwise.op import DimShuffle
from theano_ng.tensor.linalg.products import Dot
from theano_ng.tensor.linalg.solving import Cholesky, Solve, solve
from theano_ng.tensor.nlinalg import Det, MatrixInverse, matrix_inverse
from theano_ng.tensor.opt.common import shuffled
from theano_ng.tensor.opt.patterns import alone, dimshuffled, names, rule, terms
from theano_ng.tensor.opt.registration import (
    ignores_nonfinite,
    register_canonicalize,
    register_specialize,
    register_stabilize,
)

(x,) = names("x")
(inverse,) = terms(MatrixInverse)


def _rule_result(new, node):
    """Return the result of a rule: ``[new]``, converted to the type of the node's output, or False if that fails."""
    old = node.outputs[0]
    if new.type != old.type and new.ndim == old.ndim and new.dtype == old.dtype:
        new = T.patternbroadcast(new, old.broadcastable)
    if new.type != old.type:
        return False
    copy_stack_trace(old, new)
    return [new]


def transposed(v):
    """Return the matrix whose transpose is `v`. Return None if `v` is not a transpose."""
    if v.owner is not None and isinstance(v.owner.op, DimShuffle) and v.owner.op.new_order == (1, 0):
        return v.owner.inputs[0]
    return None


def _inverted(v):
    """Return the matrix whose inverse is `v`, and the output of MatrixInverse. Return (None, None) for other variables.

    If `v` is the transpose of an inverse, return the transpose of the inverted matrix.
    """
    inner = transposed(v)
    inverse = v if inner is None else inner
    if inverse.owner is None or not isinstance(inverse.owner.op, MatrixInverse):
        return None, None
    (matrix,) = inverse.owner.inputs
    return (matrix if inner is None else shuffled(matrix, (1, 0))), inverse


def _only_in_products(inverse):
    """Return True if only products read an inverse or its transpose.

    In this case, the inverse is not needed after `inv_as_solve` has replaced the products by systems of equations.
    """
    todo = list(inverse.clients)
    while todo:
        client, _ = todo.pop()
        if client == "output":
            return False
        if transposed(client.outputs[0]) is inverse:
            todo += client.outputs[0].clients
        elif not isinstance(client.op, (Dot, Dot22)):
            return False
    return True


@register_stabilize
@ignores_nonfinite
@local_optimizer([Dot, Dot22])
def inv_as_solve(node):
    """Solve a system of equations instead of computing an inverse that only products use.

    dot(matrix_inverse(A), x)  ->  solve(A, x)          [stabilize, fast_run]
    dot(B, matrix_inverse(A))  ->  solve(A.T, B.T).T
    """
    left, right = node.inputs
    matrix, inverse = _inverted(left)
    if matrix is not None and _only_in_products(inverse):
        return _rule_result(solve(matrix, right), node)
    matrix, inverse = _inverted(right)
    if matrix is not None and _only_in_products(inverse):
        turned = shuffled(matrix, (1, 0))
        return _rule_result(solve(turned, left) if left.ndim == 1 else solve(turned, shuffled(left, (1, 0))).T, node)
    return False


@register_canonicalize
@rule(dimshuffled(alone(inverse(x)), 1, 0))
def transinv_to_invtrans(x, node):
    """Transpose a matrix instead of its inverse if only the transpose of the inverse is used.

    matrix_inverse(A).T  ->  matrix_inverse(A.T)          [canonicalize, fast_run]
    """
    return _rule_result(matrix_inverse(x.T), node)


@register_canonicalize
@register_stabilize
@ignores_nonfinite
@local_optimizer([Solve])
def tag_solve_triangular(node):
    """Solve by substitution if the matrix is a Cholesky factor.

    solve(cholesky(S), x)  ->  Solve('lower_triangular', lower=True)(cholesky(S), x)          [canonicalize, stabilize, fast_run]

    The rule also applies to upper factors and to transposes of factors.
    """
    if node.op.A_structure != "general":
        return False
    matrix, b = node.inputs
    inner = transposed(matrix)
    factor = matrix if inner is None else inner
    if factor.owner is None or not isinstance(factor.owner.op, Cholesky):
        return False
    lower = factor.owner.op.lower == (inner is None)
    return _rule_result(Solve("lower_triangular" if lower else "upper_triangular", lower=lower)(matrix, b), node)


@register_stabilize
@register_specialize
@ignores_nonfinite
@local_optimizer([Det])
def local_det_chol(node):
    """Compute the determinant from a Cholesky factor that is computed anyway.

    (det(S), cholesky(S))  ->  (prod(sqr(diag(cholesky(S)))), cholesky(S))          [stabilize, specialize, fast_run]
    """
    (x,) = node.inputs
    if x.dtype.startswith("complex"):
        return False
    for client, _ in x.clients:
        if client != "output" and isinstance(client.op, Cholesky) and client.op.on_error == "raise":
            return _rule_result(T.prod(T.sqr(T.diag(client.outputs[0]))), node)
    return False
