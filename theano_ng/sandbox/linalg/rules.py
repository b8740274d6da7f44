"""Rewriting rules that use hints.

The module is imported when the first function is rewritten after `theano_ng.sandbox.linalg` has been imported.
"""

from theano_ng.compile.mode import optdb
from theano_ng.gof.rewriting import local_optimizer
from theano_ng.sandbox.linalg.ops import Hint, HintsOptimizer, is_psd, is_symmetric
from theano_ng.tensor.elemwise.op import DimShuffle
from theano_ng.tensor.opt.linalg import answer, transposed
from theano_ng.tensor.opt.registration import (
    ignores_nonfinite,
    register_canonicalize,
    register_specialize,
    register_stabilize,
)
from theano_ng.tensor.linalg.solving import Solve, cholesky, solve_lower_triangular, solve_upper_triangular

# This phase runs before all others, so that the feature records the hints before their nodes are removed.
optdb.register("HintsOpt", HintsOptimizer(), -1, "fast_run", "fast_compile")


@register_canonicalize
@local_optimizer([Hint])
def remove_hint_nodes(node):
    """Remove Hint nodes from the graph, after the feature has recorded the hints.

    Hint(psd=True)(S)  ->  S          [canonicalize, fast_run]
    """
    return node.inputs


@register_canonicalize
@register_stabilize
@register_specialize
@local_optimizer([DimShuffle])
def no_transpose_symmetric(node):
    """Remove the transposition of a matrix that is known to be symmetric.

    psd(S).T  ->  psd(S)          [canonicalize, stabilize, specialize, fast_run]
    """
    x = transposed(node.outputs[0])
    if x is None or not is_symmetric(x) or x.type != node.outputs[0].type:
        return False
    return [x]


@register_stabilize
@ignores_nonfinite
@local_optimizer([Solve])
def psd_solve_with_chol(node):
    """Solve a linear system with a Cholesky factor if the matrix is known to be positive semi-definite.

    solve(psd(S), x)  ->  solve_upper_triangular(cholesky(psd(S)).T, solve_lower_triangular(cholesky(psd(S)), x))
                                                               [stabilize, fast_run]
    """
    matrix, b = node.inputs
    if (
        node.op.A_structure not in ("general", "symmetric")
        or not is_psd(matrix)
        or node.outputs[0].dtype.startswith("complex")
    ):
        return False
    factor = cholesky(matrix)
    return answer(solve_upper_triangular(factor.T, solve_lower_triangular(factor, b)), node)
