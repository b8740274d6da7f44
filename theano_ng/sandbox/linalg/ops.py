"""Hints: what a user knows about a matrix and a graph does not say, for rewriting to use.

::

    A = psd(T.dmatrix('A'))
    x = solve(A, b)             # by a Cholesky factor
"""

from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.gof.rewriting import Optimizer
from theano_ng.gof.optdb import register_loader
from theano_ng.lazy import lazy_names
from theano_ng.gof.toolbox import AlreadyThere, Feature
from theano_ng.gof.utils import integer_types
from theano_ng.tensor import basic as T
from theano_ng.tensor.constant import NotScalarConstantError, get_scalar_constant_value
from theano_ng.tensor.nlinalg import (  # noqa: F401  (names of this module)
    alloc_diag,
    det,
    diag,
    eig,
    eigh,
    extract_diag,
    matrix_inverse,
    trace,
)
from theano_ng.tensor.slinalg import Cholesky, Solve, cholesky, eigvalsh, solve  # noqa: F401

# SciPy is always there.
imported_scipy = True

register_loader("theano_ng.sandbox.linalg.rules")

# Rules are imported when somebody asks for them.
__getattr__, __dir__, _ = lazy_names(
    __name__,
    {
        "theano_ng.sandbox.linalg.rules": "remove_hint_nodes no_transpose_symmetric psd_solve_with_chol",
        "theano_ng.tensor.opt.linalg": "inv_as_solve tag_solve_triangular transinv_to_invtrans local_det_chol",
        "theano_ng.tensor.opt.stabilize": "local_log_prod_sqr local_log_pow",
    },
)


class Hint(Op):
    """Provide arbitrary information to the optimizer: ``Hint(name=value, ...)(x)`` is x.

    These ops are removed from the graph during canonicalization in order to not interfere with other optimizations. The idea is that
    prior to canonicalization, one or more Features of the fgraph should register the information contained in any Hint node, and
    transfer that information out of the graph.

    Parameters
    ----------
    **kwargs
        Names and values of the hints; `psd`, `symmetric` and `positive` mean something to the rules here.
    """

    __props__ = ("hints",)
    view_map = {0: [0]}

    def __init__(self, **kwargs):
        self.hints = tuple(sorted(kwargs.items(), key=lambda item: item[0]))

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outstor):
        outstor[0][0] = inputs[0]

    def grad(self, inputs, g_out):
        return g_out

    def R_op(self, inputs, eval_points):
        return eval_points

    def infer_shape(self, node, shapes):
        return shapes


def is_hint_node(node):
    """Whether a node is that of a `Hint`."""
    return isinstance(node.op, Hint)


class HintsFeature(Feature):
    """FunctionGraph Feature to track matrix properties.

    This is a similar feature to variable 'tags'. In fact, tags are one way to provide hints. This class exists because the semantics of
    how tag information should be moved around during optimizations is not defined.

    Hints are assumptions about mathematical properties of variables. If one variable is substituted for another by an optimization,
    then it means that the assumptions should be transferred to the new variable. Hints are attached to 'positions in a graph' rather
    than to variables in particular, although Hints are originally attached to a particular position in a graph *via* a variable in that
    original graph.

    Examples of hints are shape information and matrix properties (e.g. symmetry, psd, banded, diagonal). Hint information is
    propagated through the graph similarly to graph optimizations, except that adding a hint does not change the graph. Adding a hint is
    not something that debugmode will check.

    Attributes
    ----------
    hints : dict
        Variable to a dict of its hints; ``fgraph.hints_feature`` is this object.
    """

    pickle_rm_attr = ["hints_feature"]

    def __init__(self):
        self.hints = {}

    def on_attach(self, fgraph):
        if hasattr(fgraph, "hints_feature"):
            raise AlreadyThere("The graph has a HintsFeature")
        fgraph.hints_feature = self
        for node in fgraph.toposort():
            self.on_import(fgraph, node, "on_attach")

    def unpickle(self, fgraph):
        fgraph.hints_feature = self

    def on_detach(self, fgraph):
        del fgraph.hints_feature

    def add_hint(self, r, k, v):
        """Note that the hint `k` of the variable `r` has the value `v`.

        Raises
        ------
        ValueError
            When it has another value.
        """
        known = self.ensure_init_r(r)
        if known.setdefault(k, v) != v:
            raise ValueError("Conflicting hints on %s: %s is both %r and %r" % (r, k, known[k], v))

    def ensure_init_r(self, r):
        """The dict of hints of the variable `r`."""
        return self.hints.setdefault(r, {})

    def update_second_from_first(self, r0, r1):
        """Give the hints of `r0` to `r1`, which keeps those that it has."""
        hints = self.hints.get(r0)
        if hints:
            known = self.ensure_init_r(r1)
            for k, v in hints.items():
                known.setdefault(k, v)

    def on_import(self, fgraph, node, reason):
        if is_hint_node(node):
            for k, v in node.op.hints:
                for r in (node.inputs[0], node.outputs[0]):
                    self.add_hint(r, k, v)
            self.update_second_from_first(node.inputs[0], node.outputs[0])

    def on_change_input(self, fgraph, node, i, r, new_r, reason=None):
        self.update_second_from_first(r, new_r)


class HintsOptimizer(Optimizer):
    """Optimizer that serves to add HintsFeature as an fgraph feature."""

    def __init__(self):
        super().__init__()

    def add_requirements(self, fgraph):
        fgraph.attach_feature(HintsFeature())

    def apply(self, fgraph):
        pass


def hints(variable):
    """The hints on a variable: those that the graph's `HintsFeature` has, or else of the `Hint` that computes it.

    Returns
    -------
    dict
    """
    feature = getattr(getattr(variable, "fgraph", None), "hints_feature", None)
    if feature is not None:
        return feature.hints.get(variable, {})
    return dict(variable.owner.op.hints) if variable.owner is not None and is_hint_node(variable.owner) else {}


def psd(v):
    r"""Apply a hint that the variable `v` is positive semi-definite, i.e. it is a symmetric matrix and :math:`x^T A x \ge 0` for any vector
    x.
    """
    return Hint(psd=True, symmetric=True)(T.as_tensor_variable(v))


def is_psd(v):
    """Whether `v` is known to be positive semi-definite."""
    return bool(hints(v).get("psd", False))


def is_symmetric(v):
    """Whether `v` is known to be symmetric."""
    return bool(hints(v).get("symmetric", False)) or is_psd(v)


def is_positive(v):
    """Whether no element of `v` can be negative: by a hint, or as an exponential, square or even power of real numbers."""
    if hints(v).get("positive", False):
        return True
    node = v.owner
    if node is None or v.dtype.startswith("complex"):
        return False
    if node.op == T.pow:
        try:
            return bool(get_scalar_constant_value(node.inputs[1]) % 2 == 0)
        except NotScalarConstantError:
            return False
    return node.op in (T.exp, T.sqr)


def spectral_radius_bound(X, log2_exponent):
    """Returns upper bound on the largest eigenvalue of square symmetric matrix X.

    The root of order ``2 ** log2_exponent`` of the trace of that power of X. From V. Pan, 1990. "Estimating the Extremal Eigenvalues of a
    Symmetric Matrix", Computers Math Applic. Vol 20 n. 2 pp 17-22; an efficient algorithm, not used here, is defined in this paper.

    Parameters
    ----------
    X : TensorVariable
        Square symmetric matrix.
    log2_exponent : int
        Positive. The larger it is, the slower and tighter the bound. Values up to 5 should usually suffice. The algorithm works by
        multiplying X by itself this many times.

    Returns
    -------
    TensorVariable
        0-d.

    Raises
    ------
    TypeError, ValueError
        For an X that is no matrix, an exponent that is no integer or not positive.
    """
    X = T.as_tensor_variable(X)
    if X.ndim != 2:
        raise TypeError("spectral_radius_bound requires a matrix argument", X)
    if not isinstance(log2_exponent, integer_types):
        raise TypeError("spectral_radius_bound requires an integer exponent", log2_exponent)
    if log2_exponent <= 0:
        raise ValueError("spectral_radius_bound requires a strictly positive exponent", log2_exponent)
    power = X
    for _ in range(log2_exponent):
        power = T.dot(power, power)
    return trace(power) ** (2.0**-log2_exponent)
