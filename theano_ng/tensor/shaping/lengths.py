"""A table of equal lengths. `ShapeFeature` uses it to represent equal lengths by one common expression.

A length is compared as a linear form: a constant plus a sum of terms with integer factors.
"""

from theano_ng.compile.ops import Shape, Shape_i
from theano_ng.gof.graph import Constant
from theano_ng.tensor.constant import constant
from theano_ng.tensor.elemwise import functions as T
from theano_ng.tensor.elemwise.op import Elemwise
from theano_ng.tensor.indexing.subtensor import Subtensor
from theano_ng.tensor.shaping.reshaping import ScalarFromTensor, TensorFromScalar

MAX_TERMS = 8
"""The maximum number of terms of a linear form. A longer sum is treated as one term."""

MAX_ALTERNATIVES = 64
"""The maximum number of linear forms into which a sum of minima is expanded. The sum equals the smallest of these
forms. Further minima are treated as terms.
"""


def is_length(v):
    """Return True if `v` is an element of a shape, and thus never negative."""
    owner = v.owner
    if owner is None:
        return False
    if isinstance(owner.op, Shape_i):
        return True
    if isinstance(owner.op, Subtensor):
        source = owner.inputs[0].owner
        return source is not None and isinstance(source.op, Shape)
    return False


def total(a, b, sign=1):
    """Return the linear form of ``a + sign * b``."""
    form = dict(a)
    for term, factor in b.items():
        form[term] = form.get(term, 0) + sign * factor
    return form


def difference(a, b):
    """Return the linear form of ``a - b``."""
    return total(a, b, -1)


def _is(term, op):
    return term is not None and term.owner is not None and term.owner.op == op


def _tensor_of(v):
    """Return u if `v` is ``tensor_from_scalar(scalar_from_tensor(u))``. Otherwise return None."""
    if v.owner is None or not isinstance(v.owner.op, TensorFromScalar):
        return None
    inner = v.owner.inputs[0].owner
    return inner.inputs[0] if inner is not None and isinstance(inner.op, ScalarFromTensor) else None


def _element_of_shape(v):
    """Return ``(Shape_i, x, i)`` if Shape_i or an element of Shape computes `v`, the length of dimension i of `x`.

    Otherwise return None.
    """
    node = v.owner
    if node is None:
        return None
    if isinstance(node.op, Shape_i):
        return Shape_i, node.inputs[0], node.op.i
    if not is_length(v) or len(node.op.idx_list) != 1 or len(node.inputs) != 2 or v.type.ndim:
        return None
    x, index = node.inputs[0].owner.inputs[0], node.inputs[1]
    if not isinstance(index, Constant) or not -x.type.ndim <= index.data < x.type.ndim:
        return None
    return Shape_i, x, int(index.data) % x.type.ndim


class Lengths:
    """A table that maps each length, a 0-d int64 variable, to one representative of all equal lengths.

    The length of ``join(0, x[:3], x[3:])`` is ``minimum(3, n) + (n - minimum(3, n))``, which is n. If such an
    expression is not simplified at once, a long chain of such joins takes much time, because its expressions are
    traversed again and again. Sums may be reordered, because int64 arithmetic is exact modulo 2**64.

    Lengths of arrays are never negative, and sums of a few lengths do not overflow. So ``maximum(n + 1, 0)``, which a
    slice creates, is ``n + 1``.
    """

    def __init__(self):
        self._first = {}  # variable -> its representative
        self._form_of = {}  # representative -> its linear form {term: factor}; the key of the constant is None
        self._by_form = {}  # linear form, as a frozenset -> representative
        self._by_node = {}  # (op, *inputs) of an elementwise node -> representative
        self._not_negative = set()  # maxima and minima that are never negative

    def first(self, length):
        """Return the representative of all lengths that equal `length`.

        Parameters
        ----------
        length : Variable
            A 0-d int64 variable.

        Returns
        -------
        Variable
            `length` itself, an equal variable that was seen before, or a shorter expression.
        """
        todo = [length]
        while todo:
            current = todo[-1]
            if current in self._first:
                todo.pop()
                continue
            missing = [i for i in self._operands(current) if i not in self._first]
            if missing:
                todo.extend(missing)
                continue
            todo.pop()
            found = self._first[current] = self._place(current)
            self._first.setdefault(found, found)
        return self._first[length]

    @staticmethod
    def _operands(v):
        """Return the inputs of an elementwise node with a 0-d result. Return an empty tuple for other variables."""
        node = v.owner
        if node is None or not isinstance(node.op, Elemwise) or len(node.outputs) != 1 or v.type.ndim:
            return ()
        return node.inputs

    def _place(self, v):
        """Determine the representative of `v`. The operands of `v` must have representatives already."""
        if isinstance(v, Constant):
            if v.type.dtype != "int64" or v.type.ndim:
                return self._by_node.setdefault((v.type, v.data.tobytes()), v)
            form, operands = {None: int(v.data)}, ()
        else:
            operands = [self._first[i] for i in self._operands(v)]
            op = v.owner.op if operands else None
            if operands != list(self._operands(v)):
                shorter = op(*operands)
                if shorter.type == v.type:
                    v = shorter
            chosen = self._chosen(v, op, operands)
            if chosen is not None:
                return chosen
            form = self._sum(op, operands) if v.type.dtype == "int64" else None
            if form is None:
                key = (op, *operands) if operands else _element_of_shape(v)
                return v if key is None else self._by_node.setdefault(key, v)
        return self._of_form(v, form, operands)

    def _sum(self, op, operands):
        """Return the linear form of a sum or difference.

        Return None for other operations and for sums with too many terms.
        """
        if op not in (T.add, T.sub):
            return None
        form = {None: 0}
        for k, operand in enumerate(operands):
            form = total(form, self._terms(operand), -1 if op == T.sub and k else 1)
        form = {term: factor for term, factor in form.items() if factor or term is None}
        return form if len(form) <= MAX_TERMS else None

    def _chosen(self, v, op, operands):
        """Return the operand that a maximum, minimum or switch always equals.

        Return None for other operations, and if the result depends on the values of the lengths.
        """
        if op == T.switch:
            return self._chosen_by_sign(v, *operands)
        if op not in (T.maximum, T.minimum) or v.type.dtype != "int64":
            return None
        for larger, smaller in (operands, operands[::-1]):
            if self._never_less(larger, smaller):
                chosen = larger if op == T.maximum else smaller
                if chosen.type == v.type:
                    return chosen
                number = isinstance(chosen, Constant)
                return self.first(constant(int(chosen.data), dtype="int64") if number else T.cast(chosen, "int64"))
        zero = constant(0, dtype="int64")
        if (any if op == T.maximum else all)(self._never_less(i, zero) for i in operands):
            self._not_negative.add(v)
        return None

    def _chosen_by_sign(self, v, condition, _, otherwise):
        """Return the operand that ``switch(n < m, ...)`` always equals if n is never less than m. Otherwise return None."""
        test = condition.owner
        if test is None or test.op != T.lt or otherwise.type != v.type or not self._never_less(*test.inputs):
            return None
        return otherwise

    def never_less(self, a, b, if_positive=False):
        """Return True if the int64 length `a` is known to be at least as large as the length `b`.

        Each operand of a minimum is compared separately. For example, the result is True if `a` is ``n + 2`` and `b` is
        ``minimum(n, m)``, because the minimum is at most n.

        Parameters
        ----------
        a, b : Variable
        if_positive : bool
            If True, the comparison need hold only for positive values of `b`.
        """
        largest = self._alternatives(self.first(b))
        if if_positive:
            largest = [*largest, *map(self._if_positive, largest)]
        return all(
            any(self._is_not_negative(difference(x, y)) for y in largest) for x in self._alternatives(self.first(a))
        )

    def _alternatives(self, v):
        """Return linear forms, the smallest of which equals `v`.

        In each form, one operand of every minimum replaces the minimum. If there would be too many forms, some minima
        remain.
        """
        found, todo = [], [self._with_tensors(self._terms(v))]
        while todo:
            form = todo.pop()
            lowest = next((t for t, factor in form.items() if factor == 1 and _is(t, T.minimum)), None)
            if lowest is None or len(found) + len(todo) > MAX_ALTERNATIVES:
                found.append(form)
            else:
                todo += [self._with_operand(form, lowest, i) for i in lowest.owner.inputs]
        return found

    def _if_positive(self, form):
        """Return a linear form that is at least as large as `form` if `form` is positive.

        If ``maximum(n, 0)`` or ``maximum(n, 0) - 1`` is positive, the maximum equals n, so n replaces it.
        """
        while form[None] <= 0 and len(form) == 2:
            (term,) = [t for t in form if t is not None]
            others = (
                [i for i in term.owner.inputs if self._terms(self._first[i]) != {None: 0}]
                if _is(term, T.maximum)
                else ()
            )
            if form[term] != 1 or len(others) != 1:
                break
            form = self._with_operand(form, term, others[0])
        return form

    def _with_operand(self, form, term, operand):
        """Return the linear form in which `operand` replaces `term`, a minimum or maximum that has this operand."""
        rest = {t: factor for t, factor in form.items() if t is not term}
        return self._with_tensors(total(rest, self._terms(self._first[operand])))

    def _with_tensors(self, form):
        """Return an equal linear form without conversions of tensors to scalars and back.

        If a term is a tensor after both conversions, the tensor itself replaces the term. The lengths of slices contain
        such terms.
        """
        for term, factor in list(form.items()):
            tensor = None if term is None else _tensor_of(term)
            if tensor is not None:
                rest = {t: f for t, f in form.items() if t is not term}
                form = total(rest, self._terms(self.first(tensor)), factor)
        return form

    def _never_less(self, a, b):
        return self._is_not_negative(self._with_tensors(difference(self._terms(a), self._terms(b))))

    def _is_not_negative(self, form):
        """Return True if a linear form is a sum of terms that are never negative."""
        return form[None] >= 0 and all(
            factor == 0 or factor > 0 and (is_length(term) or term in self._not_negative)
            for term, factor in form.items()
            if term is not None
        )

    def _terms(self, v):
        if isinstance(v, Constant) and v.type.dtype != "bool":
            return {None: int(v.data)}
        return self._form_of.get(v) or {v: 1, None: 0}

    def _of_form(self, v, form, operands):
        terms = [(term, factor) for term, factor in form.items() if term is not None]
        if len(terms) == 1 and terms[0][1] == 1 and not form[None] and terms[0][0].type == v.type:
            return terms[0][0]
        key = frozenset(form.items())
        found = self._by_form.get(key)
        if found is None:
            # If the linear form has as many terms as all operands together, no terms were merged, so keep the variable
            # `v`. Otherwise, build a shorter expression.
            whole = len(terms) >= sum(len(self._terms(i)) - 1 for i in operands)
            found = self._by_form[key] = v if whole else self._build(terms, form[None])
            self._form_of[found] = form
        return found

    @staticmethod
    def _build(terms, number):
        """Return an int64 variable for a linear form: the sum of ``factor * term`` over `terms`, plus `number`."""
        over = [T.mul(factor, term) if factor != 1 else term for term, factor in terms if factor > 0]
        under = [T.mul(-factor, term) if factor != -1 else term for term, factor in terms if factor < 0]
        if number or not over:
            over.append(constant(number, dtype="int64"))
        total = over[0] if len(over) == 1 else T.add(*over)
        if under:
            total = T.sub(total, under[0] if len(under) == 1 else T.add(*under))
        return T.cast(total, "int64")
