"""Sums over the steps of a loop. As much as possible of each sum is computed once, after the loop.

The gradient with respect to a variable that is the same in all steps is such a sum. Products of matrices become one
product of the stacked matrices of all steps: if a step computes ``dot(h.T, g)``, the loop returns the rows g, and
``dot(H.T, G)`` is computed after the loop.
"""

from functools import reduce

from theano_ng import scalar
from theano_ng.compile.ops import Rebroadcast
from theano_ng.gof.differentiate import is_zero
from theano_ng.tensor.elemwise.functions import add, cast
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.indexing.subtensor import IncSubtensor
from theano_ng.tensor.linalg.products import Dot, dot
from theano_ng.tensor.reductions.careduce import Sum
from theano_ng.tensor.shaping.reshaping import reshape

__all__ = ["StepSums"]


class StepSums:
    """A plan for sums over the steps of a loop.

    Call `plan` for each sum, then call `choose`, then make the loop. When the loop has been made, `total` returns the
    variable of each sum.

    Parameters
    ----------
    rows : container of Variable
        Variables of the step. The outer graph has their values in all steps.
    carried : set of Variable
        Variables that depend on earlier steps.
    moving : set of Variable
        Variables that are not the same in all steps.

    Attributes
    ----------
    kept : dict
        The keys are variables that the loop has to return, row by row.
    fixed : dict
        The keys are variables that are the same in all steps, and that the outer graph has to compute.
    summed : dict
        Variable that the loop has to sum up -> an outer variable. Both have equal lengths in the dimensions that are
        not broadcastable in the summed variable.
    """

    def __init__(self, rows, carried, moving):
        self.available, self.carried, self.moving = rows, carried, moving
        self.kept, self.fixed, self.summed = {}, {}, {}
        self._parts = {}  # term -> list of [leaf, operations on its sum]
        self._pending = []

    # -- before the loop is made

    def plan(self, term, like):
        """Request the sum of the values of a variable.

        Parameters
        ----------
        term : Variable
        like : Variable
            An outer variable of the same shape.
        """
        if term in self._parts:
            return
        parts = self._parts[term] = []
        todo, opened = [(term, None)], set()
        while todo:
            v, then = todo.pop()
            node = v.owner
            if v not in self.moving:
                self.fixed[v] = None
                parts.append([v, then])
                continue
            if node is None or v in self.available or v in opened:
                # Do not expand a variable into its terms twice. For repeated sums such as x + x, expanding each
                # occurrence would take exponential time.
                self._leaf(parts, v, then, like)
                continue
            opened.add(v)
            op, inputs = node.op, node.inputs
            if _is_elementwise(op, scalar.Add):
                todo.extend((i, then) for i in reversed(inputs))
            elif isinstance(op, (DimShuffle, Rebroadcast)) or _is_elementwise(op, (scalar.Neg, scalar.Identity)):
                todo.append((inputs[0], (op, None, None, then)))
            elif isinstance(op, Dot) and any(i not in self.moving for i in inputs):
                (k,) = [k for k, i in enumerate(inputs) if i in self.moving]
                self.fixed[inputs[1 - k]] = None
                todo.append((inputs[k], (op, k, inputs, then)))
            elif self._adds_to_nothing(node):
                self.fixed.update(dict.fromkeys([inputs[0], *inputs[2:]]))
                todo.append((inputs[1], (op, 1, inputs, then)))
            else:
                self._leaf(parts, v, then, like)

    def _adds_to_nothing(self, node):
        """Return True if a node adds its second input to part of an array of zeros, at the same index in all steps."""
        return (
            isinstance(node.op, IncSubtensor)
            and not node.op.set_instead_of_inc
            and all(i not in self.moving for k, i in enumerate(node.inputs) if k != 1)
            and is_zero(node.inputs[0]) == "yes"
        )

    def _leaf(self, parts, v, then, like):
        part = [v, then]
        parts.append(part)
        if v in self.available:
            return
        if self._is_product_of_rows(v):
            for factor in v.owner.inputs:
                self.keep(factor)
        else:
            self._pending.append((parts, part, like))

    def _is_product_of_rows(self, v):
        """Return True if a variable is a product whose factors can be stacked: their shapes are the same in all steps.

        The lengths of the product do not change. If the outer graph has all values of a factor, the length that is
        summed over does not change either. Otherwise it may change, for example because a loop in the step may have a
        different number of steps each time.
        """
        if not _is_dot(v):
            return False
        x, y = v.owner.inputs
        one = x.type.broadcastable[-1] or y.type.broadcastable[0]
        return one or any(_behind_dimshuffles(factor, self.available)[0] in self.available for factor in (x, y))

    def keep(self, v):
        """Request all values of a variable.

        Parameters
        ----------
        v : Variable
        """
        base, _ = _behind_dimshuffles(v, self.available)
        if base not in self.available:
            self.kept[base] = None

    def choose(self):
        """Decide which of the remaining terms are summed up in the loop, and which terms after the loop."""
        together = {}  # for each sum, the values that the loop adds up in one accumulator
        for parts, part, like in self._pending:
            v, then = part
            if v in self.kept:
                continue
            if self._is_sum_of_rows(v):
                self.keep(v.owner.inputs[0])
            elif all(v.type.broadcastable) or v not in self.carried and not _is_dot(v):
                # Let the loop return all values. Scalars need little memory, and variables that do not depend on
                # earlier steps may be moved out of the loop.
                self.kept[v] = None
            else:
                # Apply the operations in the step, and sum up the result, whose shape is known from `like`.
                value = _apply_operations(v, then)
                part[:] = value, None
                together.setdefault((id(parts), value.type), (parts, like, []))[2].append(part)
        for parts, like, found in together.values():
            first, *others = found
            first[0] = reduce(add, [v for v, _ in found])
            others = {id(part) for part in others}
            parts[:] = [part for part in parts if id(part) not in others]
            self.summed[first[0]] = like

    def _is_sum_of_rows(self, v):
        """Return True if a variable is a sum of elements of a variable whose rows the outer graph will have anyway."""
        if v.owner is None or not isinstance(v.owner.op, Sum):
            return False
        base, _ = _behind_dimshuffles(v.owner.inputs[0], self.available)
        return base in self.available or base in self.kept

    # -- after the loop

    def total(self, term, n_steps, rows, fixed, sums):
        """Return the sum of the values of a variable.

        Parameters
        ----------
        term : Variable
            A planned variable.
        n_steps : Variable
            Number of steps.
        rows : callable
            A function that returns the values, (n_steps, ...), of a variable in `kept`, or in the parameter `rows` of
            the class.
        fixed, sums : dict
            Outer variables for the members of the attributes `fixed` and `summed`.

        Returns
        -------
        Variable
        """
        found = []
        for v, then in self._parts[term]:
            if v in fixed:
                value = fixed[v] * cast(n_steps, v.type.dtype)
            elif v in sums:
                value = sums[v]
            else:
                value = self._sum(v, rows)
            value = _apply_operations(value, then, fixed)
            found.append(value)
        return found[0] if len(found) == 1 else add(*found)

    def rows(self, v, rows):
        """Return all values of a variable.

        Parameters
        ----------
        v : Variable
            A variable that was requested by `keep`.
        rows : callable
            See `total`.
        """
        base, orders = _behind_dimshuffles(v, self.available)
        value = rows(base)
        for order in orders:
            value = value.dimshuffle(0, *(i if i == "x" else i + 1 for i in order))
        return value

    def _sum(self, v, rows):
        """Return the sum of `v` over the steps. `v` has rows, is a product of rows, or sums up elements of a row."""

        def all_rows(v):
            return self.rows(v, rows)

        if v in self.available or v in self.kept:
            return rows(v).sum(axis=0)
        if isinstance(v.owner.op, Sum):
            axes = v.owner.op.axis
            x = v.owner.inputs[0]
            axes = range(x.ndim) if axes is None else axes
            return all_rows(x).sum(axis=[0, *(a + 1 for a in axes)])
        return _product(*v.owner.inputs, all_rows)


def _is_elementwise(op, scalar_ops):
    return isinstance(op, Elemwise) and isinstance(op.scalar_op, scalar_ops)


def _apply_operations(value, then, fixed=None):
    """Apply operations to a variable.

    Parameters
    ----------
    value : Variable
    then : (op, int or None, list of Variable, then) or None
        The operation, the position of `value` among the inputs of the operation (None if `value` is the only input),
        these inputs, and the operations that follow.
    fixed : dict, optional
        Replacements of the other inputs.
    """
    while then is not None:
        op, k, inputs, then = then
        if isinstance(op, DimShuffle):
            value = value.dimshuffle(*op.new_order)
        elif k is None:
            value = op(value)
        else:
            value = op(*(value if i == k else r if fixed is None else fixed[r] for i, r in enumerate(inputs)))
    return value


def _is_dot(v):
    return v.owner is not None and isinstance(v.owner.op, Dot)


def _behind_dimshuffles(v, available):
    """Return the variable to which DimShuffles were applied, and the patterns that lead from it to `v`."""
    orders = []
    while v not in available and v.owner is not None and isinstance(v.owner.op, DimShuffle):
        orders.append(v.owner.op.new_order)
        v = v.owner.inputs[0]
    return v, orders[::-1]


def _product(x, y, rows):
    """Return the sum over the steps of the product of two variables, vectors or matrices."""
    if _order(y) == ("x", 0):
        right = rows(y.owner.inputs[0])
    elif y.type.ndim == 1:
        right = rows(y).flatten()
    else:
        right = _stacked(rows(y))
    if _order(x) == (0, "x"):  # an outer product
        left = rows(x.owner.inputs[0]).T
    elif x.type.ndim == 1:
        left = rows(x).flatten()
    elif _order(x) == (1, 0):
        left = _stacked(rows(x.owner.inputs[0])).T
    else:
        turned = rows(x).dimshuffle(1, 0, 2)
        left = reshape(turned, (turned.shape[0], turned.shape[1] * turned.shape[2]), ndim=2)
    return dot(left, right)


def _order(v):
    """Return the pattern of the DimShuffle that makes a variable, or None."""
    return v.owner.op.new_order if v.owner is not None and isinstance(v.owner.op, DimShuffle) else None


def _stacked(x):
    """Stack matrices along the first axis."""
    return reshape(x, (x.shape[0] * x.shape[1], x.shape[2]), ndim=2)
