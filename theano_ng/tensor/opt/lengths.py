"""Equal lengths are one expression: what `ShapeFeature` infers is compared as a linear form of lengths that are known to be what they are."""

from theano_ng.compile.ops import Shape, Shape_i
from theano_ng.gof.graph import Constant
from theano_ng.tensor import basic as T
from theano_ng.tensor.constant import constant
from theano_ng.tensor.elemwise.op import Elemwise
from theano_ng.tensor.indexing.subtensor import Subtensor

MOST_TERMS = 8
"""Forms of more lengths are not taken apart."""


def is_length(v):
    """Whether `v` is an element of a shape, which is never negative."""
    owner = v.owner
    if owner is None:
        return False
    if isinstance(owner.op, Shape_i):
        return True
    if isinstance(owner.op, Subtensor):
        source = owner.inputs[0].owner
        return source is not None and isinstance(source.op, Shape)
    return False


class Lengths:
    """Expressions of 0-d int64 variables, each equal to the first one of the same value.

    The length of ``join(0, x[:3], x[3:])`` is ``minimum(3, n) + (n - minimum(3, n))``, and that is n: where a chain of such nodes is long, what
    is not taken together at once has to be walked through again and again. Arithmetic of int64 is that of integers modulo 2**64, so the sums may
    be taken in any order.

    Lengths of arrays are never negative, and sums of a few of them no overflow: ``maximum(n + 1, 0)``, of a slice, is ``n + 1``.
    """

    def __init__(self):
        self._first = {}  # variable -> the variable that stands for it
        self._form_of = {}  # such a variable -> its form: {term: factor}, and the constant under None
        self._by_form = {}  # form, as a set -> variable
        self._by_node = {}  # op and inputs of an elementwise node -> variable
        self._not_negative = set()  # maxima and minima that are never negative

    def first(self, length):
        """The variable that stands for all of the same value.

        Parameters
        ----------
        length : Variable
            0-d, int64.

        Returns
        -------
        Variable
            `length` itself, one that was seen before, or a shorter expression.
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
        """The inputs of an elementwise node on numbers; none of anything else."""
        node = v.owner
        if node is None or not isinstance(node.op, Elemwise) or len(node.outputs) != 1 or v.type.ndim:
            return ()
        return node.inputs

    def _place(self, v):
        """What stands for `v`, of which the operands have their places."""
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
                return self._by_node.setdefault((op, *operands), v) if operands else v
        return self._of_form(v, form, operands)

    def _sum(self, op, operands):
        """The form of a sum or difference; None of other operations, and of sums that are too long or of numbers of other dtypes."""
        if op not in (T.add, T.sub):
            return None
        form = {None: 0}
        for k, operand in enumerate(operands):
            sign = -1 if op == T.sub and k else 1
            for term, factor in self._terms(operand).items():
                form[term] = form.get(term, 0) + sign * factor
        form = {term: factor for term, factor in form.items() if factor or term is None}
        return form if len(form) <= MOST_TERMS else None

    def _chosen(self, v, op, operands):
        """The operand that a maximum or minimum is in any case; None of other operations, and where the lengths decide."""
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

    def _never_less(self, a, b):
        """Whether the difference of two forms is a sum of what is never negative."""
        difference = dict(self._terms(a))
        for term, factor in self._terms(b).items():
            difference[term] = difference.get(term, 0) - factor
        return difference.pop(None) >= 0 and all(
            factor == 0 or factor > 0 and (is_length(term) or term in self._not_negative)
            for term, factor in difference.items()
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
            # nothing cancels where there are as many terms as in all operands
            whole = len(terms) >= sum(len(self._terms(i)) - 1 for i in operands)
            found = self._by_form[key] = v if whole else self._build(terms, form[None])
            self._form_of[found] = form
        return found

    @staticmethod
    def _build(terms, number):
        """The expression of a form."""
        over = [T.mul(factor, term) if factor != 1 else term for term, factor in terms if factor > 0]
        under = [T.mul(-factor, term) if factor != -1 else term for term, factor in terms if factor < 0]
        if number or not over:
            over.append(constant(number, dtype="int64"))
        total = over[0] if len(over) == 1 else T.add(*over)
        if under:
            total = T.sub(total, under[0] if len(under) == 1 else T.add(*under))
        return T.cast(total, "int64")
