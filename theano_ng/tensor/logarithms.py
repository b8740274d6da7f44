"""Logarithms of expressions that are positive by construction, and their derivatives.

Such an expression consists of saturating functions, exponentials, and sums, products, quotients and views of such
expressions. It may overflow or be rounded to 0, although its logarithm is finite. `log_of` builds the logarithm without
computing the expression. `reading` describes how the logarithm depends on the leaves of the expression, so that no
derivative contains a division by a value that may be 0.
"""

from collections import namedtuple
from functools import reduce

import numpy as np

from theano_ng import scalar
from theano_ng.gof import ports
from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.differentiate import grad
from theano_ng.gof.graph import Constant
from theano_ng.gof.traversal import postorder
from theano_ng.tensor import basic as T
from theano_ng.tensor.dtypes import FLOATS
from theano_ng.tensor.elemwise.op import DimShuffle
from theano_ng.tensor.equality import constant_value, shuffled_from
from theano_ng.tensor.reductions.careduce import CAReduce, Sum
from theano_ng.tensor.reductions.extremes import MaxAndArgmax
from theano_ng.tensor.saturating import VIEWS, factors_of, logistic, number_of, readers
from theano_ng.tensor.shaping.joining import Join, MakeVector

MAX_NODES = 50
"""The maximum number of nodes of an expression that are examined."""

MAX_VARIABLES, MAX_SUMS = 100, 3
"""The maximum number of variables examined for one reading, and the maximum depth of nested sums."""

Logarithm = namedtuple("Logarithm", "value gradients")
"""Two functions that describe the logarithm of an Op's output.

value : function of a node -> variable
gradients : function of (node, gradient of the logarithm) -> list of the gradients of the inputs
"""

log_of_op = {}
"""Op -> `Logarithm`. Other packages add the entries for their Ops."""


# -- elementary functions ------------------------------------------------------------------------------------------------------------------


ERFC_THRESHOLD = {"float32": 9.0, "float64": 26.0}


def log_of_erfc(x):
    """Return ``log(erfc(x))``, which is accurate for every x.

    For large x, erfc underflows or loses digits. For such x, the logarithm is computed from ``erfcx(x) = exp(x**2) *
    erfc(x)``.

    Parameters
    ----------
    x : tensor
        A float32 or float64 tensor.
    """
    return T.switch(x < np.asarray(ERFC_THRESHOLD[x.dtype], x.dtype), T.log(T.erfc(x)), T.log(T.erfcx(x)) - T.sqr(x))


def is_log_of_erfc(v):
    """Return True if `v` is the variable ``log(erfc(x))`` in a graph that `log_of_erfc` has built."""
    for client, i in v.clients:
        if client != "output" and client.op == T.switch and i == 1:
            below = client.inputs[0].owner
            limit = constant_value(below.inputs[1]) if below is not None and below.op == T.lt else None
            if limit is not None and float(limit) in ERFC_THRESHOLD.values():
                return True
    return False


def _slope_of_erfc(x):
    return np.asarray(-2 / np.sqrt(np.pi), x.dtype) / T.erfcx(x)


def _logistic_slope(argument):
    return logistic((-argument).variable())


def _of_variable(f):
    return lambda argument: f(argument.variable())


Function = namedtuple("Function", "log slope")
"""Two functions of an `Argument`: the logarithm of a function, and the derivative of this logarithm.

log is None if the logarithm cannot be expressed by other functions.
"""

_FUNCTIONS = {
    T.exp: Function(_of_variable(lambda x: x), _of_variable(T.ones_like)),
    logistic: Function(lambda argument: -ports.softplus((-argument).variable()), _logistic_slope),
    T.erfc: Function(_of_variable(log_of_erfc), _of_variable(_slope_of_erfc)),
    T.erfcx: Function(None, _of_variable(lambda x: 2 * x + _slope_of_erfc(x))),
    T.cosh: Function(
        _of_variable(lambda x: abs(x) + T.log1p(T.exp(-2 * abs(x))) - np.asarray(np.log(2), x.dtype)),
        _of_variable(T.tanh),
    ),
}


def log_of_factors(found, v):
    """Return the logarithm of a product of `Factors`: the sum of the logarithms of the constant and the factors.

    Return None if the constant is not positive, or if the logarithm of a factor cannot be computed in the dtype of `v`.
    """
    if not found.constant > 0 or v.dtype == "float16" and any(f.function == T.erfc for f in found.factors):
        return None
    new = None if found.constant == 1 and found.factors else T.constant(np.asarray(np.log(found.constant), v.dtype))
    for function, argument, power in found.factors:
        log = _FUNCTIONS[function].log
        if log is None:
            return None
        term = log(argument)
        if abs(power) != 1:
            term = T.mul(np.asarray(abs(power), v.dtype), term)
        if power > 0:
            new = term if new is None else new + term
        else:
            new = -term if new is None else new - term
    return new


# -- Ops whose logarithm is a linear function of the logarithms of their inputs ----------------------------------------


def _linear_parts(node):
    """Return the inputs whose logarithms `_linear` combines into the logarithm of the node's output.

    Return None if `_linear` does not support the Op.
    """
    op = node.op
    if op == T.mul or op == T.true_div or op == T.inv or op == T.sqrt or op == T.sqr:
        return node.inputs
    if op == T.pow or op == T.tensor_copy or isinstance(op, VIEWS):
        return node.inputs[:1]
    if op == T.second or isinstance(op, Join):
        return node.inputs[1:]
    return node.inputs if isinstance(op, MakeVector) else None


def _linear(node, logs):
    """Return the logarithm of a node's output, given the logarithms of its `_linear_parts`."""
    op = node.op
    if op == T.mul:
        return T.add(*logs) if len(logs) > 1 else logs[0]
    if op == T.true_div:
        return T.sub(*logs)
    if op == T.inv:
        return T.neg(*logs)
    if op == T.sqrt or op == T.sqr:
        return T.mul(np.asarray(2 if op == T.sqr else 0.5, logs[0].dtype), logs[0])
    if op == T.pow:
        return T.mul(node.inputs[1], logs[0])
    if op == T.tensor_copy:
        return logs[0]
    if op == T.second or isinstance(op, Join):
        return op(node.inputs[0], *logs)
    return op(*logs, *node.inputs[len(logs) :])


def _fitted(made, v):
    """Return `made`, converted to the type of `v`. Return None if this is impossible."""
    if made is None or made.type == v.type:
        return made
    return v.type.filter_variable(made) if made.type.dtype == v.type.dtype and made.ndim == v.ndim else None


def _bottom_up(v, parts_of, made_of):
    """Compute a value for the variable `v` from the values of its parts. The values of the parts are computed first.

    Return None if a variable has no value, or if more than `MAX_NODES` variables would be examined.

    Parameters
    ----------
    parts_of : callable
        ``parts_of(variable)`` returns the sequence of the parts of a variable, or None if the variable has no value.
    made_of : callable
        ``made_of(variable, values)`` returns the value, given the values of the parts, or None if there is no value.
    """
    known, plans, stack = {}, {}, [v]
    while stack:
        u = stack[-1]
        if u in known:
            stack.pop()
            continue
        if u not in plans:
            plans[u] = parts_of(u) if len(plans) < MAX_NODES else None
            if plans[u] is None:
                return None
            stack.extend(p for p in plans[u] if p not in known)
            continue
        made = made_of(u, [known[p] for p in plans[u]])
        if made is None:
            return None
        known[u] = made
        stack.pop()
    return known[v]


def terms_of(v):
    """Return the terms of a sum. A term that is a sum itself is replaced by its terms."""
    found, todo = [], [v]
    while todo:
        v = todo.pop()
        if v.owner is not None and v.owner.op == T.add and len(found) + len(todo) < MAX_NODES:
            todo += reversed(v.owner.inputs)
        else:
            found.append(v)
    return found


def _positive_terms(v):
    """Return the terms of a sum.

    Return None if one term is a number and another term is not a product of exponentials: only products of exponentials
    can overflow.
    """
    terms = terms_of(v)
    if any(number_of(t) is not None for t in terms):
        for term in terms:
            factors = None if number_of(term) is not None else factors_of(term)
            if number_of(term) is None and (factors is None or any(f.function != T.exp for f in factors.factors)):
                return None
    return terms


# -- logarithms --------------------------------------------------------------------------------------------------------------------------


def log_of(v):
    """Return the logarithm of a variable that is positive by construction, without computing the variable.

    Parameters
    ----------
    v : tensor of floats

    Returns
    -------
    variable or None
        None for variables that are not known to be positive.
    """
    factors = {}

    def parts_of(u):
        value = number_of(u)
        if value is not None:
            return () if value > 0 else None
        node = u.owner
        if node is None or u.type.dtype not in FLOATS:
            return None
        factors[u] = None if isinstance(node.op, VIEWS) else factors_of(u)
        if factors[u] is not None or node.op in log_of_op:
            return ()
        if node.op == T.add:
            return _positive_terms(u)
        return node.inputs if isinstance(node.op, Sum) else _linear_parts(node)

    def made_of(u, logs):
        if number_of(u) is not None:
            return T.second(u, T.constant(np.asarray(np.log(number_of(u)), v.dtype)))
        node = u.owner
        if factors[u] is not None:
            made = log_of_factors(factors[u], u)
        elif node.op in log_of_op:
            made = log_of_op[node.op].value(node)
        elif node.op == T.add:
            made = log_add_exp(logs)
        elif isinstance(node.op, Sum):
            axes = axes_of(node.op, logs[0])
            made = T.log(u) if is_shifted(logs[0], axes) else log_sum_exp(logs[0], axes)
        else:
            made = _linear(node, logs)
        return _fitted(made, u)

    return _bottom_up(v, parts_of, made_of)


def axes_of(op, x):
    return tuple(range(x.ndim)) if op.axis is None else tuple(op.axis)


def is_shifted(x, axis):
    """Return True if `x` is ``y - max(y, axis, keepdims=True)``. The exponential of such an `x` cannot overflow."""
    if x.owner is None or x.owner.op != T.sub:
        return False
    y, largest = x.owner.inputs
    if largest.owner is None or not isinstance(largest.owner.op, DimShuffle):
        return False
    largest = largest.owner.inputs[0]
    reduction = largest.owner
    if reduction is None or reduction.inputs[0] is not y or largest is not reduction.outputs[0]:
        return False
    op = reduction.op
    is_maximum = isinstance(op, MaxAndArgmax) or isinstance(op, CAReduce) and isinstance(op.scalar_op, scalar.Maximum)
    return is_maximum and set(axes_of(op, y)) == set(axis)


def log_sum_exp(x, axis):
    """Return ``log(sum(exp(x), axis))`` without overflow. The logarithm of an empty sum is minus infinity."""
    max_x = CAReduce(scalar.maximum_from_nothing, axis)(x)
    max_x_keepdims = T.makeKeepDims(x, max_x, axis)
    # If the maximum is infinite, x - max is NaN. The switch makes the result equal to the maximum.
    shifted = T.switch(T.isinf(max_x_keepdims), T.exp(max_x_keepdims), T.exp(x - max_x_keepdims))
    return max_x + T.log(T.sum(shifted, axis=axis))


def log_add_exp(terms):
    """Return ``log(exp(x) + exp(y) + ...)`` without overflow."""
    if len(terms) == 2:
        x, y = terms
        # Handle x = y by a switch, because x - y is NaN if x and y are the same infinity.
        twice = x + np.asarray(np.log(2), x.dtype)
        return T.switch(T.eq(x, y), twice, T.maximum(x, y) + T.log1p(T.exp(-abs(x - y))))
    largest = reduce(T.maximum, terms)
    return largest + T.log(T.add(*[T.switch(T.isinf(largest), T.exp(largest), T.exp(x - largest)) for x in terms]))


# -- derivatives -------------------------------------------------------------------------------------------------------------------------


class Reading:
    """The logarithm of a variable, expressed as a linear function of logarithms whose derivatives are known.

    Attributes
    ----------
    variable : Variable
    leaves : list of Variable
        The variables to which gradients are propagated: arguments of functions such as `exp`, exponents of powers, and
        unknown factors. The logarithm of an unknown factor has no special form.
    is_known : bool
        True if there are no unknown factors.
    """

    def __init__(self, variable, leaves, unknown, atoms):
        self.variable, self.leaves, self._unknown, self._atoms = variable, leaves, unknown, atoms
        self.is_known = not unknown

    def passed(self):
        """Return the variables that gradients bypass: `variable`, and the variables between it and the leaves.

        A leaf is among these variables if its logarithm is also part of the reading, as p in ``p * exp(p)`` with ``p =
        sigmoid(x)``.
        """
        found = {}
        for u in self._order():
            atom = self._atoms.found.get(u)
            if atom is not None:
                found.update(_between(u, atom.parts or atom.leaves))
            elif u not in self._unknown and number_of(u) is None:
                found[u] = None
        return list(found)

    def _order(self):
        """Return the variables whose logarithms are part of the reading, each one after its operands."""
        known = {}
        for u in postorder([self.variable], known, self._operands):
            known[u] = None
        return list(known)

    def gradients(self, g):
        """Return the gradients of `leaves`, given the gradient `g` of the logarithm.

        Each intermediate logarithm is differentiated once, with the sum of the gradients that reach it. The terms of
        nested sums share factors. If each term were differentiated separately, the gradient of a shared factor would be
        computed many times, and the size of the graph would grow much faster than the depth of the sums.
        """
        of_logs, of_leaves = {self.variable: [g]}, {}
        for u in reversed(self._order()):
            if u in of_logs and number_of(u) is None:
                self._propagate(u, reduce(T.add, of_logs[u]), of_logs, of_leaves)
        return [reduce(T.add, of_leaves[u]) if u in of_leaves else DisconnectedType()() for u in self.leaves]

    def _operands(self, u):
        """Return the variables whose logarithms determine the logarithm of `u`.

        The result is empty if the logarithm of `u` is differentiated with respect to the leaves directly.
        """
        atom = self._atoms.found.get(u)
        if atom is not None:
            return atom.parts
        if u in self._unknown or u.owner is None or number_of(u) is not None:
            return ()
        return _linear_parts(u.owner) or ()

    def _propagate(self, u, g, of_logs, of_leaves):
        """Propagate the gradient `g` of the logarithm of `u` to the logarithms of its operands, or to the leaves.

        The resulting gradients are appended to the lists in `of_logs` (operands) and `of_leaves` (leaves).
        """
        atom = self._atoms.found.get(u)
        if u in self._unknown:
            _collect(of_leaves, [u], [g / u])
        elif atom is not None:
            _collect(of_logs if atom.parts else of_leaves, atom.parts or atom.leaves, atom.gradients(g))
        elif u.owner.op == T.pow:
            base, exponent = u.owner.inputs
            _collect(of_logs, [base], [summed_like(g * T.cast(exponent, u.dtype), base)])
            if exponent in self.leaves:
                _collect(of_leaves, [exponent], [summed_like(g * self._logarithm(base), exponent)])
        else:
            # `_linear` is a linear function, so its derivative does not depend on the logarithms. Apply `_linear` to
            # the parts instead of their logarithms: the parts have the same shapes, and are in the graph already.
            parts = _linear_parts(u.owner)
            wrt = [p for p in dict.fromkeys(parts) if number_of(p) is None]
            _collect(of_logs, wrt, _pullback(_fitted(_linear(u.owner, parts), u), wrt, g))

    def _logarithm(self, v):
        """Return the logarithm of `v`, expressed by the logarithms of its factors.

        `v` is a variable between `variable` and the leaves.
        """

        def made_of(u, logs):
            if logs:
                return _fitted(_linear(u.owner, logs), u)
            if u.owner is not None and u.owner.op == T.exp:
                return u.owner.inputs[0]
            return T.log(u if number_of(u) is None else T.cast(u, v.dtype))

        def parts_of(u):
            return () if self._atoms.found.get(u) is not None else self._operands(u)

        return _bottom_up(v, parts_of, made_of)


def _between(v, ends):
    """Return a dict whose keys are `v` and the variables between `v` and `ends`."""
    stop, found, stack = set(ends), {}, [v]
    while stack:
        u = stack.pop()
        if u in found or u in stop or isinstance(u, Constant) or constant_value(u) is not None:
            continue
        found[u] = None
        if u.owner is not None:
            linear = _linear_parts(u.owner)
            # Skip the other inputs of views, such as shapes, because the logarithm does not depend on them.
            stack.extend(u.owner.inputs if linear is None or u.owner.op == T.pow else linear)
    return found


def _collect(gradients, variables, found):
    """Append each gradient to the list of its variable. Skip disconnected gradients."""
    for v, g in zip(variables, found):
        if not isinstance(g.type, DisconnectedType):
            gradients.setdefault(v, []).append(g)


def reading(v, whole=False, atoms=None):
    """Return the `Reading` of a variable. Return None if its logarithm has no special form.

    Parameters
    ----------
    v : Variable
    whole : bool
        If True, the result is also None if any factor is unknown. Then fewer variables have to be examined.
    atoms : _Atoms, optional
        If this reading is part of another reading: the atoms of that reading.
    """
    atoms = _Atoms() if atoms is None else atoms
    atom = atoms.of(v)
    if atom is not None:
        return Reading(v, [u for u in dict.fromkeys(atom.leaves) if not isinstance(u, Constant)], {}, atoms)
    leaves, unknown, known = {}, {}, []

    def parts_of(u):
        if number_of(u) is not None:
            return ()
        node = u.owner
        if node is not None and u.type.dtype in FLOATS:
            atom = None if u is v else atoms.of(u)
            if atom is not None:
                leaves.update(dict.fromkeys(atom.leaves))
                known.append(u)
                return ()
            parts = _linear_parts(node)
            if parts and all(p.type.dtype == u.type.dtype or number_of(p) is not None for p in parts):
                if whole and not all(map(_may_be_known, parts)):
                    return None
                if node.op == T.pow:
                    leaves[node.inputs[1]] = None
                return parts
        if whole:
            return None
        unknown[u] = leaves[u] = None
        return ()

    if _bottom_up(v, parts_of, lambda u, made: True) is None or not known:
        return None
    return Reading(v, [u for u in leaves if not isinstance(u, Constant)], unknown, atoms)


Atom = namedtuple("Atom", "leaves gradients parts", defaults=((),))
"""The derivative of the logarithm of a variable, in a form that does not divide by the variable.

leaves : list of Variable
gradients : function of the gradient of the logarithm -> list of Variable
    The gradients of the logarithms of `parts`, or the gradients of `leaves` if there are no parts.
parts : sequence of Variable
    If the variable is a sum of terms: the terms that are not numbers. If it is ``sum(w)`` or ``w / sum(w)``: w.
"""


def _may_be_known(v):
    """Return True if the logarithm of a variable may have a special form, according to the Op that computes it."""
    if v.owner is None:
        return number_of(v) is not None
    op = v.owner.op
    return op in readers or op in log_of_op or isinstance(op, (Sum, *VIEWS)) or _linear_parts(v.owner) is not None


class _Atoms:
    """The atoms (see `Atom`) of the variables of one reading. Each atom is found when it is first needed.

    The atom of a sum is found by readings of its terms, and these readings need atoms in turn. Each variable is
    examined only once, and at most `MAX_VARIABLES` variables are examined in total.
    """

    def __init__(self):
        self.found, self.depth = {}, 0

    def of(self, v):
        """Return the `Atom` of a variable. Return None if it has no atom."""
        if v not in self.found:
            if len(self.found) >= MAX_VARIABLES or self.depth >= MAX_SUMS:
                return None
            self.found[v] = None  # Recursive calls find this entry and do not examine v again.
            self.depth += 1
            self.found[v] = _atom_of(v, self)
            self.depth -= 1
        return self.found[v]


def _atom_of(v, atoms):
    node = v.owner
    if node is None or v.type.dtype not in FLOATS:
        return None
    op = node.op
    if op == T.exp:
        return Atom(node.inputs, lambda c: [c]) if node.inputs[0].type == v.type else None
    if op in log_of_op:
        return Atom(node.inputs, lambda c: log_of_op[op].gradients(node, c))
    if isinstance(op, Sum):
        return _sum_atom(v, atoms)
    if op == T.true_div or op == T.mul:
        shared = _share_atom(v, atoms)
        if shared is not None:
            return shared
    if isinstance(op, VIEWS):
        return None
    found = factors_of(v)
    if found is None:
        return _add_atom(v, atoms) if op == T.add else None
    if _linear_parts(node) is not None and (
        len(found.factors) != 1 or found.factors[0].function is not logistic or found.factors[0].power != 1
    ):
        return None
    return _factors_atom(v, found)


def _factors_atom(v, found):
    leaves = list(dict.fromkeys(f.argument.base for f in found.factors))

    def gradients(c):
        terms = {}
        for function, argument, power in found.factors:
            x = argument.variable()
            slope = _complement(v, found) if function is logistic else None
            if slope is None:
                slope = _FUNCTIONS[function].slope(argument)
            times = power
            if abs(argument.coefficient) == 1 and not argument.views:
                times, x = power * argument.coefficient, argument.base
            g = (c if times == 1 else -c if times == -1 else np.asarray(times, v.dtype) * c) * slope
            (g,) = _pullback(x, [argument.base], g)
            terms.setdefault(argument.base, []).append(g)
        return [reduce(T.add, terms[u]) for u in leaves]

    return Atom(leaves, gradients)


def _complement(v, found):
    """Return ``1 - v`` for a logistic `v`: the variable u if `v` is computed as ``1 - u``, otherwise a new variable.

    Return None if `v` is not a single logistic function, or if it is computed by another arithmetic Op.
    """
    op = v.owner.op
    if found.constant == 1 and len(found.factors) == 1 and found.factors[0].power == 1:
        if op == T.sub and number_of(v.owner.inputs[0]) == 1 and v.owner.inputs[1].type == v.type:
            return v.owner.inputs[1]
        if op not in _ARITHMETIC:
            return np.asarray(1, v.dtype) - v
    return None


_ARITHMETIC = {T.add: None, T.sub: None, T.mul: None, T.true_div: None, T.inv: None, T.pow: None}


def _sum_atom(v, atoms):
    """Return the atom of ``v = sum(w)``. Return None if `w` has no complete `Reading`.

    The derivative of the logarithm is ``d log(v) = sum(w / v * d log(w))``.
    """
    (w,) = v.owner.inputs
    inner = reading(w, True, atoms)
    if inner is None:
        return None

    def gradients(c):
        axes = axes_of(v.owner.op, w)
        share = w / T.makeKeepDims(w, v, axes)
        return [T.makeKeepDims(w, c, axes) * share]

    return Atom(inner.leaves, gradients, [w])


def _share_atom(v, atoms):
    """Return the atom of ``v = w / sum(w, axes)``, or of the product of w and the reciprocal of this sum.

    Return None for all other variables.
    """
    w, r = v.owner.inputs if len(v.owner.inputs) == 2 else (None, None)
    if v.owner.op == T.mul and r is not None:
        if r.owner is None or r.owner.op not in (T.inv, T.true_div):
            w, r = r, w
        if r.owner is None or not (
            r.owner.op == T.inv or r.owner.op == T.true_div and number_of(r.owner.inputs[0]) == 1
        ):
            return None
        r = r.owner.inputs[-1]
    if w is None or w.type != v.type:
        return None
    total, order = shuffled_from(r)
    if total.owner is None or not isinstance(total.owner.op, Sum) or total.owner.inputs[0] is not w:
        return None
    axes = axes_of(total.owner.op, w)
    kept = iter(range(w.ndim))
    if order != tuple("x" if d in axes else next(kept) for d in range(w.ndim)):
        return None
    inner = reading(w, True, atoms)
    if inner is None:
        return None
    return Atom(inner.leaves, lambda c: [c - v * c.sum(axis=list(axes), keepdims=True)], [w])


def _add_atom(v, atoms):
    terms = _positive_terms(v)
    if terms is None:
        return None
    parts = [term for term in terms if number_of(term) is None]
    leaves = {}
    for part in parts:
        inner = reading(part, True, atoms)
        if inner is None:
            return None
        leaves.update(dict.fromkeys(inner.leaves))
    return Atom(list(leaves), lambda c: [summed_like(c * (part / v), part) for part in parts], parts)


def summed_like(g, v):
    """Return the gradient `g`, summed over the dimensions in which `v` is broadcast."""
    repeated = [d for d, (a, b) in enumerate(zip(v.type.broadcastable, g.type.broadcastable)) if a and not b]
    return g.sum(axis=repeated, keepdims=True) if repeated else g


def _pullback(v, leaves, g):
    """Return the gradients of `leaves`, given the gradient `g` of `v`.

    The leaves are treated as independent variables.
    """
    if [v] == leaves:
        return [g]
    return grad(
        None,
        leaves,
        known_grads={v: g},
        consider_constant=leaves,
        disconnected_inputs="ignore",
        return_disconnected="Disconnected",
    )
