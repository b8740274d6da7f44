"""Rules that replace matrix products by BLAS Ops, and let these Ops work in place.

The phase BlasOpt applies its rules in this order:

1. Matrix products become Dot22.
2. Sums of scaled products become Gemm.
3. Scaled products become Dot22Scalar.
4. Products with a vector become Gemv or Ger.
5. Gemv and Ger become their C variants.

The in-place phase follows later.
"""

import time

import numpy as np

import theano_ng.tensor.blas.ops as ops
from theano_ng.compile import optdb
from theano_ng.gof.fg import InconsistencyError
from theano_ng.gof.graph import Variable
from theano_ng.gof.optdb import SequenceDB
from theano_ng.gof.rewriting import (
    EquilibriumOptimizer,
    LocalOptGroup,
    Optimizer,
    copy_stack_trace,
    in2out,
    local_optimizer,
)
from theano_ng.gof.toolbox import ReplaceValidate
from theano_ng.printing import debugprint
from theano_ng.scalar import upcast
from theano_ng.tensor.blas.scipy_ger import scipy_ger_inplace, scipy_ger_no_inplace
from theano_ng.tensor.constant import constant
from theano_ng.tensor.elemwise import functions as T
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.linalg.products import Dot, dot
from theano_ng.tensor.opt.patterns import Rest, names, restricted, rule, terms, typed
from theano_ng.tensor.shaping.allocation import AllocEmpty
from theano_ng.tensor.shaping.creation import zeros

blas_optdb = SequenceDB()
optdb.register("BlasOpt", blas_optdb, 1.7, "fast_run", "fast_compile")

z, a, x, y, b = names("z", "a", "x", "y", "b")
row_z, row_x = [typed(name, broadcastable=(True, False)) for name in (z, x)]
col_z, col_y = [typed(name, broadcastable=(False, True)) for name in (z, y)]
any_dot, dot22, gemm, gemv, ger = terms(Dot, ops._dot22, ops.gemm_no_inplace, ops.gemv_no_inplace, ops.ger)


def res_is_a(node, op, maxclients=None):
    """Return True if `node`, a variable, is the result of the Op `op` and has at most `maxclients` clients."""
    if node.owner is None or node.owner.op != op:
        return False
    return maxclients is None or not hasattr(node, "clients") or len(node.clients) <= maxclients


def _is_real_matrix(res):
    return res.type.dtype in ops.BLAS_DTYPES and res.type.ndim == 2 and not any(res.type.broadcastable)


def _is_real_vector(res):
    return res.type.dtype in ops.BLAS_DTYPES and res.type.ndim == 1 and not res.type.broadcastable[0]


def _as_scalar(res, dtype=None):
    """Return a 0-d variable of `dtype` with the value of `res`, a fully broadcastable variable.

    Return None if `res` is not fully broadcastable, or if the cast would lose precision.
    """
    if dtype is None:
        dtype = res.type.dtype
    if not all(res.type.broadcastable):
        return None
    while res.owner is not None and isinstance(res.owner.op, DimShuffle):
        res = res.owner.inputs[0]
    if not all(res.type.broadcastable):
        return None
    scalar = res.dimshuffle() if res.type.ndim > 0 else res
    if scalar.type.dtype == dtype:
        return scalar
    if upcast(dtype, scalar.type.dtype) != dtype:
        return None
    return T.cast(scalar, dtype)


# --- Dot -> Dot22 ------------------------------------------------------------------------------------------------------------


@rule(any_dot(x, y))
def local_dot_to_dot22(x, y):
    """Replace a product of matrices (or a matrix and a vector) of one BLAS dtype by Dot22.

    dot(A, B)  ->  _dot22(A, B)
    dot(A, x)  ->  _dot22(A, x.dimshuffle(0, 'x')).dimshuffle(0)
    """
    if x.type.dtype != y.type.dtype or x.type.dtype not in ops.BLAS_DTYPES:
        return None
    if x.ndim == 2 and y.ndim == 2:
        return ops._dot22(x, y)
    if x.ndim == 2 and y.ndim == 1 and (x.broadcastable[1] or not y.broadcastable[0]):
        return ops._dot22(x, y.dimshuffle(0, "x")).dimshuffle(0)
    if x.ndim == 1 and y.ndim == 2:
        return ops._dot22(x.dimshuffle("x", 0), y).dimshuffle(1)
    return None  # Keep the Dot of two vectors, which is one BLAS call already.


# --- sums of products -> Gemm ------------------------------------------------------------------------------------------------


class _Term:
    """A term of a sum: factor * (product of scalars) * matrix. It combines `count` terms of the original sum."""

    __slots__ = ("factor", "scalars", "matrix", "count")

    def __init__(self, factor, scalars, matrix, count=1):
        self.factor, self.scalars, self.matrix, self.count = factor, scalars, matrix, count

    def scale(self, dtype):
        """Return a 0-d variable of `dtype`: the number by which the matrix is multiplied."""
        factor = constant(np.asarray(self.factor, dtype=dtype))
        if not self.scalars:
            return factor
        scale = self.scalars[0] if len(self.scalars) == 1 else T.mul(*self.scalars)
        return scale if self.factor == 1 else T.mul(factor, scale)

    def scaled(self, dtype):
        """Return the term as an expression, for a sum of the given dtype."""
        if not self.scalars and self.factor == 1:
            return self.matrix
        # Cast a narrower matrix before the negation: the negative of an unsigned value, or of -128, would wrap around.
        matrix = self.matrix if self.matrix.dtype == dtype else T.cast(self.matrix, dtype)
        if not self.scalars and self.factor == -1:
            return T.neg(matrix)
        return T.mul(self.scale(dtype).dimshuffle(*["x"] * matrix.ndim), matrix)


def _scalar_and_matrix(node, dtype):
    """Return (factor, scalars, matrix) if a node multiplies scalars and one matrix or vector.

    Return None for other products.
    """
    is_real = _is_real_matrix if node.outputs[0].ndim == 2 else _is_real_vector
    factor, scalars, matrix = 1, (), None
    for i in node.inputs:
        scalar = _as_scalar(i, dtype=dtype)
        if scalar is not None:
            value = getattr(scalar, "data", None)
            if value is not None and np.ndim(value) == 0:
                factor = factor * value[()]
            else:
                scalars += (scalar,)
        elif matrix is None and is_real(i):
            matrix = i
        else:
            return None
    return None if matrix is None else (factor, scalars, matrix)


def _terms(root, visited):
    """Return the terms of a sum of matrices, from left to right.

    The nodes that were expanded into terms are added to `visited`.
    """
    terms, todo = [], [(root, 1, ())]
    dtype = root.type.dtype
    while todo:
        variable, factor, scalars = todo.pop()
        node = variable.owner
        # Do not expand a sum in a narrower dtype than the result: such a sum is rounded or wraps around in its dtype.
        may_open = variable is root or (len(getattr(variable, "clients", ())) <= 1 and variable.type.dtype == dtype)
        name = node.op.scalar_op if may_open and node is not None and isinstance(node.op, Elemwise) else None
        opened = None
        if name == T.add.scalar_op:
            opened = [(i, factor, scalars) for i in node.inputs]
        elif name == T.sub.scalar_op:
            opened = [(node.inputs[0], factor, scalars), (node.inputs[1], -factor, scalars)]
        elif name == T.neg.scalar_op:
            opened = [(node.inputs[0], -factor, scalars)]
        elif name == T.mul.scalar_op:
            parts = _scalar_and_matrix(node, dtype)
            if parts is not None:
                opened = [(parts[2], factor * parts[0], scalars + parts[1])]
        if opened is None:
            terms.append(_Term(factor, scalars, variable))
        else:
            visited.add(node)
            todo.extend(reversed(opened))
    return terms


def _sum_of_scales(a, b, dtype):
    """Return the sum of the scales of two terms with the same matrix, as (factor, scalars).

    Return None if the sum is known to be zero.
    """
    if not a.scalars and not b.scalars:
        factor = a.factor + b.factor
        return None if factor == 0 else (factor, ())
    return 1, (T.add(a.scale(dtype), b.scale(dtype)),)


def _merged(terms, dtype):
    """Merge all terms with the same matrix into the first of these terms.

    If two terms cancel, return `terms` unchanged, because their difference affects the shape and may be NaN.
    """
    merged = {}
    for term in terms:
        earlier = merged.get(term.matrix)
        if earlier is None:
            merged[term.matrix] = _Term(term.factor, term.scalars, term.matrix, term.count)
            continue
        found = _sum_of_scales(earlier, term, dtype)
        if found is None:
            return terms
        earlier.factor, earlier.scalars = found
        earlier.count += term.count
    return list(merged.values())


def _dot22_of(variable):
    """Return the output of the Dot22 that computes a variable. Return None if no Dot22 computes the variable.

    If the variable is a vector, it is the only row or the only column of this output.
    """
    node = variable.owner
    if variable.ndim == 1 and node is not None and isinstance(node.op, DimShuffle) and node.inputs[0].ndim == 2:
        variable = node.inputs[0]
    return variable if res_is_a(variable, ops._dot22) else None


def _product(term):
    """Return the output of the Dot22 that computes the matrix of a term.

    Return None if no Dot22 computes the matrix, or if the matrix or this output has clients outside the term.
    """
    product = _dot22_of(term.matrix)
    if product is None or len(getattr(term.matrix, "clients", ())) > term.count:
        return None
    return product if product is term.matrix or len(getattr(product, "clients", ())) <= 1 else None


def _is_outer(product):
    """Return True if a Dot22 is the product of a column and a row."""
    x, y = product.owner.inputs
    return x.broadcastable[1] and y.broadcastable[0]


def _products(terms, dtype):
    """Return the positions of the terms with a Dot22 of the given dtype that has no clients outside the term.

    Outer products come first, so that each is added to another term and becomes a Ger. An outer product that is not
    added to another term would need an array of zeros.
    """
    found = [
        (not _is_outer(product), j)
        for j, product in enumerate([_product(term) for term in terms])
        if product is not None and product.type.dtype == dtype
    ]
    return [j for _, j in sorted(found)]


def _partner(terms, j):
    """Return the position of the first term to which a Gemm can add the product at `j`. Return None if no term fits.

    Entries of `terms` that are None are skipped.
    """
    wanted = terms[j].matrix.type
    if any(wanted.broadcastable):
        return None
    return next(
        (i for i, other in enumerate(terms) if i != j and other is not None and other.matrix.type == wanted), None
    )


def _gemm_pair(terms, dtype):
    """Return the positions (other term, product) of two terms that a Gemm of the given dtype can add, or None."""
    for j in _products(terms, dtype):
        i = _partner(terms, j)
        if i is not None:
            return i, j
    return None


def _gemm_of_pair(terms, pair, dtype):
    """Return the Gemm of the two terms that `_gemm_pair` found.

    If the terms are vectors, the result of the Gemm has one row or column. Another rule later replaces this Gemm
    by a Gemv.
    """
    other, product = terms[pair[0]], terms[pair[1]]
    x, y = _product(product).owner.inputs
    target = other.matrix
    if target.ndim == 2:
        return ops.gemm_no_inplace(target, product.scale(dtype), x, y, other.scale(dtype))
    (axis,) = product.matrix.owner.op.shuffle
    target = target.dimshuffle(*((0, "x") if axis == 0 else ("x", 0)))
    return ops.gemm_no_inplace(target, product.scale(dtype), x, y, other.scale(dtype)).dimshuffle(axis)


def _with_gemms(root, visited):
    """Add each product to a matrix by a Gemm. Return the resulting sum and the number of Gemms.

    Return None if no product becomes a Gemm.
    """
    terms = _terms(root, visited)
    if len(terms) < 2 or all(_dot22_of(term.matrix) is None for term in terms):
        return None
    used = 0
    dtype = root.type.dtype
    terms = _merged(terms, dtype)
    for j in _products(terms, dtype):
        # Skip a product to which another product was added: this term is now the output of a Gemm.
        i = None if terms[j] is None or _product(terms[j]) is None else _partner(terms, j)
        if i is None:
            continue
        accumulated = _gemm_of_pair(terms, (i, j), dtype)
        terms[max(i, j)] = None
        terms[min(i, j)] = _Term(1, (), accumulated)
        used += 1
    if not used:
        return None
    parts = [term.scaled(dtype) for term in terms if term is not None]
    result = parts[0] if len(parts) == 1 else T.add(*parts)
    return (result, used) if result.type == root.type else None


def _as_pair(term):
    """Return a term as (scale, matrix). The scale is a number if it contains no variable."""
    scale = term.factor
    for i, scalar in enumerate(term.scalars):
        scale = scalar if i == 0 and scale == 1 else T.neg(scalar) if i == 0 and scale == -1 else T.mul(scalar, scale)
    return scale, term.matrix


def _as_term(item):
    """Return the `_Term` of a (scale, matrix) pair, or of a matrix."""
    scale, matrix = item if isinstance(item, tuple) else (1, item)
    return _Term(1, (scale,), matrix) if isinstance(scale, Variable) else _Term(scale, (), matrix)


def _gemm_canonicalize(r, scale, rval, maxclients):
    """Append the terms of a sum of matrices to a list.

    a * X + Y - Z  ->  (a, X), (1.0, Y), (-1.0, Z)

    Parameters
    ----------
    r : Variable
        The sum. Inner sums and products are expanded if they have one client.
    scale : float or scalar variable
        The factor of the sum.
    rval : list
        The list that receives ``(scale, matrix)`` pairs. If `r` is not a matrix or vector of a BLAS dtype, the list
        receives `r` itself, multiplied by `scale`.
    maxclients : int
        A sum with more clients than this number is treated as one term. If it is 0, the sum is always expanded.

    Returns
    -------
    list
        `rval`.
    """
    if r.type.ndim not in (1, 2) or r.type.dtype not in ops.BLAS_DTYPES:
        rval.append(r if isinstance(scale, float) and scale == 1 else scale * r)
        return rval
    shared = maxclients and len(getattr(r, "clients", ())) > maxclients
    for term in [_Term(1.0, (), r)] if shared else _terms(r, set()):
        if isinstance(scale, Variable):
            rval.append(_as_pair(_Term(term.factor, term.scalars + (scale,), term.matrix)))
        else:
            rval.append(_as_pair(_Term(term.factor * scale, term.scalars, term.matrix)))
    return rval


def _factor_canonicalized(lst):
    """Merge the terms that have the same matrix.

    (a, X), (b, Y), (1.0, X)  ->  (a + 1.0, X), (b, Y)

    Parameters
    ----------
    lst : list
        ``(scale, matrix)`` pairs and variables: the result of `_gemm_canonicalize`.

    Returns
    -------
    list
    """
    scales = {}
    for item in lst:
        scale, matrix = item if isinstance(item, tuple) else (1.0, item)
        scales[matrix] = scales[matrix] + scale if matrix in scales else scale
    plain = {item for item in lst if not isinstance(item, tuple)}
    return [
        matrix if matrix in plain and isinstance(scale, float) and scale == 1 else (scale, matrix)
        for matrix, scale in scales.items()
    ]


def _beta_L_plus_alpha_M(beta, L, alpha, M, recurse_flip=True):
    """Replace the sum of two scaled matrices, one of them a product, by one Gemm.

    beta * L + alpha * Dot22(x, y)  ->  Gemm(L, alpha, x, y, beta)

    Parameters
    ----------
    beta, alpha : float or scalar variable
    L, M : matrix
    recurse_flip : bool
        Whether `L` may be the product, too.

    Returns
    -------
    outputs : list of one variable, or False
    product : Variable, or False
        The Dot22 that the Gemm replaces. False if neither matrix is a Dot22 without other clients.
    """
    terms = [_as_term((beta, L)), _as_term((alpha, M))]
    dtype = M.type.dtype
    pair = _gemm_pair(terms, dtype) if terms[0].matrix.type.dtype == dtype else None
    if pair is None or (pair == (1, 0) and not recurse_flip):
        return False, False
    return [_gemm_of_pair(terms, pair, dtype)], _product(terms[pair[1]])


def _gemm_from_factored_list(lst):
    """Replace two terms of a sum by one Gemm.

    Parameters
    ----------
    lst : list
        The terms: a result of `_factor_canonicalized`.

    Returns
    -------
    (list of one variable, Variable) or None
        The sum, and the Dot22 that the Gemm replaces. None if no two terms can be added by a Gemm.
    """
    terms = [_as_term(item) for item in lst]
    dtypes = {term.matrix.type.dtype for term in terms}
    pair = _gemm_pair(terms, dtypes.pop()) if len(dtypes) == 1 else None
    if pair is None:
        return None
    dtype = terms[0].matrix.type.dtype
    parts = [_gemm_of_pair(terms, pair, dtype)] + [term.scaled(dtype) for i, term in enumerate(terms) if i not in pair]
    return [parts[0] if len(parts) == 1 else T.add(*parts)], _product(terms[pair[1]])


def _gemm_from_node2(node):
    """Rewrite the sum that a node computes with one Gemm.

    Returns
    -------
    found : (list of one variable, Variable) or None
        See `_gemm_from_factored_list`.
    time_canonicalize, time_factor, time_list : float
        The seconds that `_gemm_canonicalize`, `_factor_canonicalized` and `_gemm_from_factored_list` took.
    """
    if node.outputs[0].type.dtype not in ops.BLAS_DTYPES:
        return None, 0, 0, 0
    times = [time.time()]
    terms = _gemm_canonicalize(node.outputs[0], 1.0, [], 0)
    times.append(time.time())
    found = None
    if len(terms) > 1:
        terms = _factor_canonicalized(terms)
        times.append(time.time())
        found = _gemm_from_factored_list(terms)
    else:
        times.append(times[-1])
    times.append(time.time())
    if found is not None and found[0][0].type != node.outputs[0].type:
        found = None
    return (found, *(after - before for before, after in zip(times, times[1:])))


class GemmOptimizer(Optimizer):
    """An optimizer that replaces sums of scaled matrices and products by Gemm.

    b * A + a * _dot22(B, C)  ->  gemm_no_inplace(A, a, B, C, b)          [BlasOpt, fast_run]
    A - a * (_dot22(B, C) + b * A)  ->  gemm_no_inplace(A, -1.0 * a, B, C, 1.0 + -1.0 * (a * b))
    _dot22(B, C) + A + _dot22(B, C)  ->  gemm_no_inplace(A, two, B, C, unit)

    A product with a vector is a Dot22 with one column. So a sum of vectors also becomes a Gemm, which another rule
    later replaces by a Gemv. Each sum is examined once, from its outermost node.
    """

    def add_requirements(self, fgraph):
        fgraph.attach_feature(ReplaceValidate())

    def apply(self, fgraph):
        begin = time.time()
        sums = {op.scalar_op for op in (T.add, T.sub, T.neg, T.mul)}
        nodes = [n for n in fgraph.toposort() if isinstance(n.op, Elemwise) and n.op.scalar_op in sums]
        time_toposort = time.time() - begin
        visited = set()
        replaced = kept = inconsistent_make = inconsistent_replace = 0
        time_canonicalize = 0
        validate_before = fgraph.profile.validate_time if getattr(fgraph, "profile", None) else None
        for node in reversed(nodes):
            if node in visited or getattr(node, "fgraph", None) is not fgraph:
                continue
            if not _is_real_matrix(node.outputs[0]) and not _is_real_vector(node.outputs[0]):
                continue
            begin = time.time()
            try:
                found = _with_gemms(node.outputs[0], visited)
            except InconsistencyError:
                inconsistent_make += 1
                continue
            finally:
                time_canonicalize += time.time() - begin
            if found is None:
                continue
            new, used = found
            copy_stack_trace(node.outputs[0], new)
            try:
                fgraph.replace_all_validate([(node.outputs[0], new)], reason="GemmOptimizer")
                replaced += used
            except InconsistencyError:
                inconsistent_replace += 1
        validate_time = None
        if validate_before is not None:
            validate_time = fgraph.profile.validate_time - validate_before
        return (
            self,
            1,
            replaced,
            kept,
            inconsistent_make,
            inconsistent_replace,
            time_canonicalize,
            0,
            0,
            time_toposort,
            validate_time,
            {},
            0,
        )

    @classmethod
    def print_profile(cls, stream, prof, level=0):
        blanc = "    " * level
        names = (
            "nb_iter",
            "nb_replacement",
            "nb_replacement_didn_t_remove",
            "nb_inconsistency_make",
            "nb_inconsistency_replace",
            "time_canonicalize",
            "time_factor_can",
            "time_factor_list",
            "time_toposort",
            "validate_time",
            "callbacks_time",
            "callback_time",
        )
        print(blanc, cls.__name__, file=stream)
        for name, value in zip(names, prof[1:]):
            print(blanc, name, value, file=stream)


@local_optimizer([T.sub, T.add])
def local_print_as_we_go_along(node):
    """Print every sum and difference that a rewriting pass visits, and change nothing.

    The rule is not registered; add it to a list of rules by hand.
    """
    debugprint(node)
    return False


# --- scaled products, products with vectors ----------------------------------------------------------------------------------


@local_optimizer([T.mul])
def local_dot22_to_dot22scalar(node):
    """Replace the product of a Dot22 and scalars by Dot22Scalar, which is one BLAS call.

    a * _dot22(A, B)  ->  _dot22scalar(A, B, a)          [BlasOpt, fast_run]
    """
    for i, product in enumerate(node.inputs):
        if not res_is_a(product, ops._dot22, 1):
            continue
        scalars, rest = [], []
        for j, other in enumerate(node.inputs):
            if j == i:
                continue
            scalar = _as_scalar(other, dtype=product.type.dtype)
            (rest if scalar is None else scalars).append(other if scalar is None else scalar)
        if not scalars:
            return None
        new = ops._dot22scalar(*product.owner.inputs, scalars[0] if len(scalars) == 1 else T.mul(*scalars))
        if rest:
            new = T.mul(new, *rest)
        if new.type != node.outputs[0].type:
            return None
        copy_stack_trace(node.outputs[0], new)
        return [new]
    return None


def _one_and_zero(dtype):
    return constant(np.asarray(1.0, dtype=dtype)), constant(np.asarray(0.0, dtype=dtype))


@rule(dot22(x, y))
def local_dot22_to_ger_or_gemv(x, y):
    """Replace a product in which a matrix has one row or column by Gemv, Ger or Dot.

    _dot22(A, col)  ->  gemv_no_inplace(AllocEmpty('float64')(A.shape[0]), unit, A, col.dimshuffle(0), zero).dimshuffle(0, 'x')
    _dot22(row, A)  ->  gemv_no_inplace(AllocEmpty('float64')(A.shape[1]), unit, A.T, row.dimshuffle(1), zero).dimshuffle('x', 0)
    _dot22(col, row)  ->  ger(zeros((col.shape[0], row.shape[1])), unit, col.dimshuffle(0), row.dimshuffle(1))
    """
    dtype = x.type.dtype
    x_rows, x_cols = x.broadcastable
    y_rows, y_cols = y.broadcastable
    one, zero = _one_and_zero(dtype)
    if x_rows and y_cols:
        return dot(x.dimshuffle(1), y.dimshuffle(0)).dimshuffle("x", "x")
    if x_cols and y_rows:
        return ops.ger(zeros((x.shape[0], y.shape[1]), dtype=dtype), one, x.dimshuffle(0), y.dimshuffle(1))
    if y_cols:
        return ops.gemv_no_inplace(AllocEmpty(dtype)(x.shape[0]), one, x, y.dimshuffle(0), zero).dimshuffle(0, "x")
    if x_rows:
        return ops.gemv_no_inplace(AllocEmpty(dtype)(y.shape[1]), one, y.T, x.dimshuffle(1), zero).dimshuffle("x", 0)
    return None


@rule(
    (
        gemm(row_z, a, row_x, y, b),
        lambda z, a, x, y, b: ops.gemv_no_inplace(z.dimshuffle(1), a, y.T, x.dimshuffle(1), b).dimshuffle("x", 0),
    ),
    (
        gemm(col_z, a, x, col_y, b),
        lambda z, a, x, y, b: ops.gemv_no_inplace(z.dimshuffle(0), a, x, y.dimshuffle(0), b).dimshuffle(0, "x"),
    ),
)
def local_gemm_to_gemv():
    """Replace a Gemm whose result has one row or column by Gemv.

    gemm_no_inplace(col, a, A, col, b)  ->  gemv_no_inplace(col.dimshuffle(0), a, A, col.dimshuffle(0), b).dimshuffle(0, 'x')
    """


@rule(gemm(z, a, restricted(x, lambda v: v.broadcastable[1]), restricted(y, lambda v: v.broadcastable[0]), b))
def local_gemm_to_ger(z, a, x, y, b):
    """Replace a Gemm whose product is an outer product by Ger.

    gemm_no_inplace(A, a, col, row, unit)  ->  ger(A, a, col.dimshuffle(0), row.dimshuffle(1))
    """
    if not hasattr(b, "data") or b.data not in (0, 1):
        return None
    start = z if b.data == 1 else zeros((x.shape[0], y.shape[1]), dtype=z.dtype)
    return ops.ger(start, a, x.dimshuffle(0), y.dimshuffle(1))


# --- C variants, in place ----------------------------------------------------------------------------------------------------


inputs = Rest("inputs")
cgemv, cger, scipy_ger = terms(ops.cgemv_no_inplace, ops.cger_no_inplace, scipy_ger_no_inplace)
gemm_inplace, gemv_inplace, ger_inplace = terms(ops.gemm_inplace, ops.gemv_inplace, ops.ger_destructive)
cgemv_inplace, cger_inplace, scipy_ger_in_place = terms(ops.cgemv_inplace, ops.cger_inplace, scipy_ger_inplace)


def _own_memory(target):
    """Return the variable that an in-place Op overwrites: `target`, or a new AllocEmpty that replaces it.

    A new AllocEmpty is necessary if `target` is an AllocEmpty that also has clients other than the in-place Op.
    """
    made = target.owner
    is_shared = made is not None and isinstance(made.op, AllocEmpty) and len(target.clients) > 1
    return made.op(*made.inputs) if is_shared else target


(own_memory,) = terms(_own_memory)


@rule((gemv(inputs), cgemv(inputs)))
def use_c_gemv():
    """Replace Gemv by CGemv."""


@rule((ger(inputs), cger(inputs)))
def use_c_ger():
    """Replace Ger by CGer."""


@rule((gemm(z, inputs), gemm_inplace(own_memory(z), inputs)), inplace=True)
def local_inplace_gemm():
    """Let Gemm overwrite its first input. The inputs of a function are protected, so the example uses exp.

    gemm_no_inplace(exp(A), a, B, C, b)  ->  gemm_inplace(exp(A), a, B, C, b)
    """


@rule((gemv(z, inputs), gemv_inplace(own_memory(z), inputs)), inplace=True)
def local_inplace_gemv():
    """Let Gemv overwrite its first input. The inputs of a function are protected, so the example uses exp.

    gemv_no_inplace(exp(x), a, A, y, b)  ->  gemv_inplace(exp(x), a, A, y, b)
    """


@rule((ger(z, inputs), ger_inplace(own_memory(z), inputs)), inplace=True)
def local_inplace_ger():
    """Let Ger overwrite its first input. The inputs of a function are protected, so the example uses exp.

    ger(exp(A), a, x, y)  ->  ger_destructive(exp(A), a, x, y)
    """


@rule((cgemv(z, inputs), cgemv_inplace(own_memory(z), inputs)), inplace=True)
def make_c_gemv_destructive():
    """Let CGemv work in place."""


@rule((cger(z, inputs), cger_inplace(own_memory(z), inputs)), inplace=True)
def make_c_ger_destructive():
    """Let CGer work in place."""


blas_optdb.register("local_dot_to_dot22", in2out(local_dot_to_dot22), 0, "fast_run", "fast_compile")
blas_optdb.register("gemm_optimizer", GemmOptimizer(), 10, "fast_run")
blas_optdb.register("local_dot22_to_dot22scalar", in2out(local_dot22_to_dot22scalar), 11, "fast_run")
blas_optdb.register(
    "local_gemm_to_gemv",
    EquilibriumOptimizer(
        [local_gemm_to_gemv, local_gemm_to_ger, local_dot22_to_ger_or_gemv], max_use_ratio=5, ignore_newtrees=False
    ),
    15,
    "fast_run",
)
use_c_blas = in2out(use_c_ger, use_c_gemv, name="use_c_blas")
blas_optdb.register("use_c_blas", use_c_blas, 20, "fast_run", "c_blas")

blas_opt_inplace = in2out(
    LocalOptGroup(local_inplace_gemm, local_inplace_gemv, local_inplace_ger), name="blas_opt_inplace"
)
optdb.register("InplaceBlasOpt", blas_opt_inplace, 70.0, "fast_run", "inplace", "blas_opt_inplace")
optdb.register(
    "c_blas_destructive",
    in2out(make_c_ger_destructive, make_c_gemv_destructive, name="c_blas_destructive"),
    70.0,
    "fast_run",
    "inplace",
    "c_blas",
)


# --- without C ---------------------------------------------------------------------------------------------------------------


@rule((ger(inputs), scipy_ger(inputs)))
def use_scipy_ger():
    """Replace Ger by SciPy's Ger if the C implementations are excluded.

    ger(A, a, x, y)  ->  scipy_ger_no_inplace(A, a, x, y)
    """


@rule((scipy_ger(inputs), scipy_ger_in_place(inputs)), inplace=True)
def make_ger_destructive():
    """Let SciPy's Ger work in place.

    scipy_ger_no_inplace(exp(A), a, x, y)  ->  scipy_ger_inplace(exp(A), a, x, y)
    """


use_scipy_blas = in2out(use_scipy_ger)
make_scipy_blas_destructive = in2out(make_ger_destructive)
blas_optdb.register("scipy_blas", use_scipy_blas, 100, "fast_run")
optdb.register("make_scipy_blas_destructive", make_scipy_blas_destructive, 70.0, "fast_run", "inplace")
