"""Hints, by which users tell the rewrite rules about properties of matrices.

::

    A = psd(T.dmatrix('A'))
    x = solve(A, b)             # by a Cholesky factor
"""

from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.gof.optdb import register_loader
from theano_ng.gof.rewriting import Optimizer
from theano_ng.gof.toolbox import AlreadyThere, Feature
from theano_ng.gof.utils import integer_types
from theano_ng.lazy import lazy_names
from theano_ng.tensor import basic as T
from theano_ng.tensor.constant import NotScalarConstantError, get_scalar_constant_value
from theano_ng.tensor.nlinalg import alloc_diag, det, diag, eig, eigh, extract_diag, matrix_inverse, trace  # noqa: F401  (names of this module)
from theano_ng.tensor.slinalg import Cholesky, Solve, cholesky, eigvalsh, solve  # noqa: F401, names of this module

# SciPy is a requirement of the package, so it is always installed.
imported_scipy = True

register_loader("theano_ng.sandbox.linalg.rules")

# The modules of rules are imported when one of these names is first accessed.
__getattr__, __dir__, _ = lazy_names(
    __name__,
    {
        "theano_ng.sandbox.linalg.rules": "remove_hint_nodes no_transpose_symmetric psd_solve_with_chol",
        "theano_ng.tensor.opt.linalg": "inv_as_solve tag_solve_triangular transinv_to_invtrans local_det_chol",
        "theano_ng.tensor.opt.stabilize": "local_log_prod_sqr local_log_pow",
    },
)


class Hint(Op):
    """An Op that gives rewrite rules information about its input: ``Hint(name=value, ...)(x)`` has the value of x.

    Canonicalization removes Hint nodes, so that they do not interfere with other rewrites. Before that, a feature of
    the graph (`HintsFeature`) records the information in the Hint nodes.

    Parameters
    ----------
    **kwargs
        Names and values of the hints. The rules of this package use `psd`, `symmetric` and `positive`.
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
    """Return True if the Op of a node is a `Hint`."""
    return isinstance(node.op, Hint)


class HintsFeature(Feature):
    """A feature of a FunctionGraph that tracks properties of matrices.

    Hints are similar to tags of variables. They are separate because it is not defined how rewrites transfer tags from
    one variable to another.

    Hints are assumptions about mathematical properties of variables. When a rewrite replaces a variable, this feature
    adds the hints of the old variable to the new variable. So hints belong to a position in the graph rather than to a
    particular variable, although they are first attached to a variable of the original graph.

    Examples of hints are shape information and matrix properties (e.g. symmetry, psd, banded, diagonal). Adding a hint
    does not change the graph. DebugMode does not check hints.

    Attributes
    ----------
    hints : dict
        Variable -> dict of its hints. The attribute ``hints_feature`` of the graph is this feature.
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
        """Record that the hint `k` of the variable `r` has the value `v`.

        Raises
        ------
        ValueError
            If the hint already has another value.
        """
        known = self.ensure_init_r(r)
        if known.setdefault(k, v) != v:
            raise ValueError("Conflicting hints on %s: %s is both %r and %r" % (r, k, known[k], v))

    def ensure_init_r(self, r):
        """Return the dict of hints of the variable `r`. Create the dict if necessary."""
        return self.hints.setdefault(r, {})

    def update_second_from_first(self, r0, r1):
        """Add the hints of `r0` to `r1`. Hints that `r1` already has are kept."""
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
    """An optimizer that only attaches a HintsFeature to the graph."""

    def __init__(self):
        super().__init__()

    def add_requirements(self, fgraph):
        fgraph.attach_feature(HintsFeature())

    def apply(self, fgraph):
        pass


def hints(variable):
    """Return the hints of a variable.

    The hints come from the `HintsFeature` of the graph. If there is none, they come from the `Hint` node that computes
    the variable.

    Returns
    -------
    dict
    """
    feature = getattr(getattr(variable, "fgraph", None), "hints_feature", None)
    if feature is not None:
        return feature.hints.get(variable, {})
    return dict(variable.owner.op.hints) if variable.owner is not None and is_hint_node(variable.owner) else {}


def psd(v):
    r"""Return `v` with the hint that it is positive semi-definite.

    A matrix A is positive semi-definite if it is symmetric and :math:`x^T A x \ge 0` for any vector x.
    """
    return Hint(psd=True, symmetric=True)(T.as_tensor_variable(v))


def is_psd(v):
    """Return True if `v` is known to be positive semi-definite."""
    return bool(hints(v).get("psd", False))


def is_symmetric(v):
    """Return True if `v` is known to be symmetric."""
    return bool(hints(v).get("symmetric", False)) or is_psd(v)


def is_positive(v):
    """Return True if it is known that no element of `v` is negative.

    It is known from a hint, or if `v` is an exponential, a square or an even power of real numbers.
    """
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
    """Return an upper bound of the largest eigenvalue of a square symmetric matrix X.

    The bound is ``trace(X ** n) ** (1 / n)`` with the matrix power for ``n = 2 ** log2_exponent``. Source: V. Pan,
    1990. "Estimating the Extremal Eigenvalues of a Symmetric Matrix", Computers Math Applic. Vol 20 n. 2 pp 17-22. The
    paper also defines an efficient algorithm, which is not used here.

    Parameters
    ----------
    X : TensorVariable
        A square symmetric matrix.
    log2_exponent : int
        A positive integer, the number of times that the matrix is squared. The larger it is, the tighter is the bound,
        and the slower its computation. Values up to 5 usually suffice.

    Returns
    -------
    TensorVariable
        A 0-d tensor.

    Raises
    ------
    TypeError, ValueError
        If X is not a matrix, or if the exponent is not a positive integer.
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
