"""Rewriting rules that use hints.

The module is imported when the first function is rewritten after `theano_ng.sandbox.linalg` has been imported.
"""

from theano_ng.compile.mode import optdb
from theano_ng.sandbox.linalg.ops import Hint, HintsOptimizer, is_psd, is_symmetric
from theano_ng.tensor.linalg.solving import Solve, cholesky, solve_lower_triangular, solve_upper_triangular
from theano_ng.tensor.opt.linalg import _rule_result
from theano_ng.tensor.opt.patterns import dimshuffled, names, ops_such, restricted, rule, terms
from theano_ng.tensor.opt.registration import (
    ignores_nonfinite,
    register_canonicalize,
    register_specialize,
    register_stabilize,
)

# This phase runs before all other phases, so that `HintsFeature` records the hints before `remove_hint_nodes` removes
# the Hint nodes.
optdb.register("HintsOpt", HintsOptimizer(), -1, "fast_run", "fast_compile")


(x,) = names("x")
(hint,) = terms(Hint)
general_solve = ops_such(Solve, condition=lambda op: op.A_structure in ("general", "symmetric"))


@register_canonicalize
@rule((hint(x), x))
def remove_hint_nodes():
    """Remove Hint nodes from the graph, after `HintsFeature` has recorded the hints.

    Hint(psd=True)(S)  ->  S          [canonicalize, fast_run]
    """


@register_canonicalize
@register_stabilize
@register_specialize
@rule((dimshuffled(restricted(x, is_symmetric), 1, 0), x))
def no_transpose_symmetric():
    """Remove the transposition of a matrix that is known to be symmetric.

    psd(S).T  ->  psd(S)          [canonicalize, stabilize, specialize, fast_run]
    """


@register_stabilize
@ignores_nonfinite
@rule(general_solve(restricted("matrix", is_psd), "b"))
def psd_solve_with_chol(matrix, b, node, out):
    """Solve a linear system with a Cholesky factor if the matrix is known to be positive semi-definite.

    solve(psd(S), x)  ->  solve_upper_triangular(cholesky(psd(S)).T, solve_lower_triangular(cholesky(psd(S)), x))
                                                               [stabilize, fast_run]
    """
    if out.dtype.startswith("complex"):
        return None
    factor = cholesky(matrix)
    return _rule_result(solve_upper_triangular(factor.T, solve_lower_triangular(factor, b)), node)
