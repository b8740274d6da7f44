"""Canonical forms of sums and products.

A sum is a list of added terms and a list of subtracted terms. A product is a list of factors and a list of divisors.
"""

from collections import Counter
from copy import copy
from functools import reduce
from itertools import chain
from operator import is_

import numpy as np

from theano_ng import scalar
from theano_ng.gof.rewriting import LocalOptimizer, in2out, local_optimizer
from theano_ng.tensor import basic as T
from theano_ng.tensor.elemwise.op import DimShuffle
from theano_ng.tensor.opt import common
from theano_ng.tensor.opt.common import in_dtype, inputs_of, rule_result
from theano_ng.tensor.opt.patterns import rule, typed
from theano_ng.tensor.opt.registration import ignores_nonfinite, register_canonicalize, register_stabilize

MAX_OPERANDS = 31
"""The maximum number of operands of one addition or multiplication. NumPy's limit is 32, including the result."""

MAX_OPENED = 8
"""The maximum number of operands up to which parts of an expression with other clients are expanded.

Without a limit, a chain of products with other clients would be traversed again from each of its nodes.
"""


class Canonizer(LocalOptimizer):
    """A rule that simplifies expressions of a commutative, associative operation, its inverse and its reciprocal.

    An expression of these three operations has the form ``inverse(main(*num), main(*denum))``. The rule removes common
    elements of the two lists, combines the constants, and builds the cheapest expression of the remaining elements::

        a * b / a                 ->  b
        a / (b / c)               ->  (a * c) / b
        a / b / c                 ->  a / (b * c)
        (p / q) * (q / r)         ->  p / r
        3 * a / 3                 ->  a
        (6.0 * a) / (1.5 * b)     ->  (4.0 * a) / b
        a * b * c                 ->  Elemwise(mul){a,b,c}

    ``x / x`` becomes 1 even if it would be NaN.

    Parameters
    ----------
    main : Op
        A commutative, associative operation on one or more inputs: add or mul.
    inverse : Op
        An operation with ``inverse(main(x, y), y) == x``: sub or true_div.
    reciprocal : Op
        An operation with ``main(x, reciprocal(y)) == inverse(x, y)``: neg or inv.
    calculate : callable
        ``calculate(num, denum, aslist=False, out_type=None)`` returns ``inverse(main(*num), main(*denum))`` for lists
        of arrays. With `aslist`, it returns a list of this value, or an empty list if the value is the neutral element.
    use_reciprocal : bool
        If True, a quotient without numerator becomes ``reciprocal(main(*denum))``. If False, it becomes `inverse` of
        the neutral element: ``1 / x``.
    """

    def __init__(self, main, inverse, reciprocal, calculate, use_reciprocal=True):
        self.main, self.inverse, self.reciprocal = main, inverse, reciprocal
        self.calculate, self.use_reciprocal = calculate, use_reciprocal
        self.neutral = calculate([], [])
        self.external_simplifiers = []
        # Find the kind of an Op by one dict lookup. If the class of an Op is not in `_op_classes`, no lookup is
        # necessary.
        self._ours = {main: "main", inverse: "inverse", reciprocal: "reciprocal"}
        self._op_classes = tuple(dict.fromkeys(type(op) for op in self._ours))

    def add_simplifier(self, simplifier, reason):
        """Add a function ``simplifier(num, denum) -> (num, denum)``, which is called before all other simplifications.

        The arguments are the two lists of operands of ``inverse(main(*num), main(*denum))``. Constants in the lists are
        arrays. `reason` is a description of the function.
        """
        self.external_simplifiers.append((reason, simplifier))

    def tracks(self):
        return [self.main, self.inverse, self.reciprocal]

    def _is_ours(self, node):
        op = node.op
        return isinstance(op, self._op_classes) and op in self._ours

    def get_num_denum(self, input):
        """Return lists `num`, `denum` with ``input == inverse(main(*num), main(*denum))``.

        With ``*``, ``/`` and ``inv()``::

            x * y               -> ([x, y], [])
            inv(x) * inv(y)     -> ([], [x, y])
            (x * y) / z         -> ([x, y], [z])
            log(x) / y * (z + x) / y -> ([log(x), z + x], [y, y])
            (((a / b) * c) / d) -> ([a, c], [b, d])
            a / (b / c)         -> ([a, c], [b])
            x ** y              -> ([x ** y], [])

        Only nodes with the dtype of `input` are expanded. DimShuffles that only add dimensions on the left are skipped.
        """
        return self._walk(input, ())

    def _walk(self, input, closed, shared=None, kept=None):
        """Return the result of `get_num_denum`, but do not expand the variables in `closed`.

        Parameters
        ----------
        input : Variable
        closed : collection of Variable
        shared : list, optional
            A list to which the variables with several clients are added. If it is given, these variables are not
            expanded.
        kept : set, optional
            A set to which the operands of expanded variables with several clients are added. These operands stay in the
            graph.
        """
        num, denum = [], []
        dtype = input.type.dtype
        stack = [(input, False, False)]
        while stack:
            v, inverted, stays = stack.pop()
            node, kind = self._part(v, dtype)
            if node is not None and v is not input:
                if v in closed:
                    node = None
                elif shared is not None and _is_shared(v, node):
                    shared.append(v)
                    node = None
                elif kept is not None:
                    stays = stays or _is_shared(v, node)
            if node is not None:
                self._push_operands(stack, node, kind, inverted, stays)
                continue
            (denum if inverted else num).append(v)
            if stays:
                kept.add(v)
        return num, denum

    def _part(self, v, dtype):
        """Return the node that computes `v`, and its kind: "main", "inverse" or "reciprocal".

        Return (None, None) if another operation computes `v`, or if the node computes in a dtype other than `dtype`.
        """
        node = v.owner
        while node is not None:
            op = node.op
            if isinstance(op, self._op_classes):
                kind = self._ours.get(op)
                return (None, None) if kind is None or node.outputs[0].type.dtype != dtype else (node, kind)
            if not _pads_left(node):
                break
            node = node.inputs[0].owner
        return None, None

    @staticmethod
    def _push_operands(stack, node, kind, inverted, part):
        """Push the operands of a node onto a stack as (variable, inverted, part). The first operand is on top.

        All operands get the given value of `part`.
        """
        inputs = node.inputs
        if kind == "main":
            for i in reversed(inputs):
                stack.append((i, inverted, part))
        elif kind == "inverse":
            stack.append((inputs[1], not inverted, part))
            stack.append((inputs[0], inverted, part))
        else:
            stack.append((inputs[0], not inverted, part))

    def operands_of(self, expression, kept=None):
        """Return the numerator and the denominator of an expression in a graph, as `get_num_denum` does.

        A part of the expression that also has clients outside the expression is computed anyway. Such a part is
        expanded only if one of its factors cancels, or if it has only one factor in addition to constants. Examples, if
        s = x * y and t = 2 * x are such parts::

            s / x  -> ([x, y], [x])
            s * z  -> ([s, z], [])
            t * 3  -> ([2, x, 3], [])

        The operands of expanded parts stay in the graph. They are added to the set `kept`.
        """
        graph = getattr(expression, "fgraph", None)
        # Store the result, because several rules ask for the operands of the same expression.
        known = {} if graph is None else graph.answers.setdefault(self, {})
        if expression not in known:
            known[expression] = self._find_operands(expression)
        num, denum, stay = known[expression]
        if kept is not None:
            kept.update(stay)
        return list(num), list(denum)

    def _find_operands(self, expression):
        shared = []
        num, denum = self._walk(expression, (), shared)
        if not shared:
            return num, denum, ()
        whole = self._better_whole(expression)
        if whole.issuperset(shared):
            return num, denum, ()
        kept = set()
        return *self._walk(expression, whole, kept=kept), kept

    def _better_whole(self, expression):
        """Return the parts of an expression that have other clients and are not expanded; see `operands_of`."""
        whole = set()
        get_constant = self.get_constant
        parts = []  # (variable, number of the part that contains the variable)
        leaves = []  # (variable, inverted, number of the part that contains the variable)
        dtype = expression.type.dtype
        stack = [(expression, False, -1)]
        while stack:
            v, inverted, part = stack.pop()
            node, kind = self._part(v, dtype)
            if node is not None and v is not expression and _is_shared(v, node):
                if len(leaves) + len(stack) > MAX_OPENED:
                    whole.add(v)
                    node = None
                else:
                    parts.append((v, part))
                    part = len(parts) - 1
            if node is not None:
                self._push_operands(stack, node, kind, inverted, part)
            elif get_constant(v) is None:
                leaves.append((v, inverted, part))
        factors, cancels = [0] * len(parts), [False] * len(parts)
        under = {v for v, inverted, _ in leaves if inverted}
        both = under.intersection([v for v, inverted, _ in leaves if not inverted]) if under else under
        for v, _, part in leaves:
            if part >= 0:
                factors[part] += 1
                if v in both:
                    cancels[part] = True
        opened = set()
        for i in range(len(parts) - 1, -1, -1):  # Visit the inner parts before the parts that contain them.
            v, part = parts[i]
            if factors[i] < 2 or cancels[i]:
                opened.add(v)
            if part >= 0:
                factors[part] += factors[i]
                cancels[part] = cancels[part] or cancels[i]
        whole.update(v for v, _ in parts if v not in opened)
        return whole

    def _main(self, terms, dtype=None):
        """Return `main` of all terms, computed from at most `MAX_OPERANDS` operands at a time."""
        terms = list(terms)
        while len(terms) > MAX_OPERANDS:
            terms = [self._one_main(terms[i : i + MAX_OPERANDS], dtype) for i in range(0, len(terms), MAX_OPERANDS)]
        return self._one_main(terms, dtype)

    def _one_main(self, terms, dtype):
        if len(terms) == 1:
            return T.as_tensor_variable(terms[0])
        return in_dtype(self.main, terms, dtype)

    def merge_num_denum(self, num, denum, dtype=None):
        """Return the cheapest expression for ``inverse(main(*num), main(*denum))``.

        The result depends on the lengths n and d of the two lists::

            n=0, d=0: neutral element
            n=1, d=0: num[0]
            n=0, d=1: reciprocal(denum[0]), or inverse(neutral element, denum[0]) without `use_reciprocal`
            n=1, d=1: inverse(num[0], denum[0])
            n=0, d>1: reciprocal(main(*denum)), or inverse(neutral element, main(*denum)) without `use_reciprocal`
            n>1, d=0: main(*num)
            n>=1, d>=1: inverse(main(*num), main(*denum))

        `dtype` is the dtype of the replaced expression. If it is given, no operation is computed in a narrower dtype:
        in ``a + (b - c)``, where only c is wide, ``a + b`` must not wrap around.
        """
        if not num and not denum:
            return T.as_tensor_variable(self.neutral)
        if not num:
            if not self.use_reciprocal:
                return in_dtype(self.inverse, [self.neutral, self._main(denum, dtype)], dtype)
            return in_dtype(self.reciprocal, [self._main(denum, dtype)], dtype)
        if not denum:
            return self._main(num, dtype)
        return in_dtype(self.inverse, [self._main(num, dtype), self._main(denum, dtype)], dtype)

    get_constant = staticmethod(common.get_constant)

    def simplify(self, num, denum, out_type):
        """Apply the added simplifiers, then `simplify_factors`, then `simplify_constants`."""
        for _, simplifier in self.external_simplifiers:
            num, denum = simplifier(num, denum)
        num, denum = self.simplify_factors(num, denum)
        return self.simplify_constants(num, denum, out_type)

    def simplify_factors(self, num, denum):
        """Remove common elements from both lists, in place, and return the lists.

        ::

            [x], [x]         -> [], []
            [x, y], [x]      -> [y], []
            [a, b], [c, d]   -> [a, b], [c, d]
        """
        if num and denum:
            count = {}
            # Skip constants, which are arrays in these lists. `simplify_constants` combines the constants later.
            for v in denum:
                if not isinstance(v, np.ndarray):
                    count[v] = count.get(v, 0) + 1
            common_count = {}
            kept = []
            for v in num:
                if not isinstance(v, np.ndarray) and count.get(v, 0) > 0:
                    count[v] -= 1
                    common_count[v] = common_count.get(v, 0) + 1
                else:
                    kept.append(v)
            if common_count:
                num[:] = kept
                kept = []
                for v in denum:
                    if not isinstance(v, np.ndarray) and common_count.get(v, 0) > 0:
                        common_count[v] -= 1
                    else:
                        kept.append(v)
                denum[:] = kept
        return num, denum

    def simplify_constants(self, orig_num, orig_denum, out_type=None):
        """Combine all constants into one constant at the head of the numerator. Omit it if it is the neutral element.

        ::

            [2, 3, x], []    -> [6, x], []
            [x, y, 2], [4, z] -> [0.5, x, y], [z]
            [x, 2, y], [z, 2] -> [x, y], [z]

        Constants whose sum or product overflows are not combined: ``x * 1e200 * 1e200`` is finite for a small x.
        """
        num, denum, numct, denumct = [], [], [], []
        for v in orig_num:
            ct = self.get_constant(v)
            num.append(v) if ct is None else numct.append(ct)
        for v in orig_denum:
            ct = self.get_constant(v)
            denum.append(v) if ct is None else denumct.append(ct)
        if not numct and not denumct:
            return num, denum
        if (
            len(numct) == 1
            and not denumct
            and out_type is not None
            and numct[0].dtype == out_type.dtype
            and numct[0] != self.neutral
            and self.get_constant(orig_num[0]) is not None
        ):
            return list(orig_num), denum  # the most frequent case
        ct = self.calculate(numct, denumct, aslist=True, out_type=out_type)
        if len(numct) + len(denumct) > 1 and common.overflowed(ct, numct + denumct, self.main == T.mul):
            return list(orig_num), list(orig_denum)
        if not ct and not num and not self.use_reciprocal:
            # Keep the neutral element if the numerator would otherwise be empty.
            ct = [self.calculate(numct, denumct, aslist=False, out_type=out_type)]
        if len(numct) == 1 and not denumct and ct:
            original = next(v for v in orig_num if self.get_constant(v) is not None)
            if _same_value(original, ct[0]) and (
                original is orig_num[0] or getattr(original, "dtype", None) == ct[0].dtype
            ):
                # Keep an unchanged constant: with a new constant at each visit, the rewriting would never end.
                ct = [original]
        return ct + num, denum

    def transform(self, node):
        if not self._is_ours(node):
            return False
        out = node.outputs[0]
        if len(out.clients) == 1 and self._client_takes_part(out):
            # Wait for the client, which is part of the same expression: the rewrite of the client includes this node.
            return False
        orig_num, orig_denum = self.operands_of(out)
        num, denum = self.simplify(list(orig_num), list(orig_denum), out.type)
        if (
            _same_list(orig_num, num)
            and _same_list(orig_denum, denum)
            and not self._can_flatten(node, max(len(num), len(denum)))
        ):
            return False
        new = self.merge_num_denum(num, denum, out.type.dtype)
        if new is out:
            return False
        return rule_result(new, out)

    def _client_takes_part(self, out):
        for client, _ in out.clients:
            while client != "output" and isinstance(client.op, DimShuffle) and _pads_left(client):
                if len(client.outputs[0].clients) != 1:
                    break
                client = client.outputs[0].clients[0][0]
            if client != "output" and self._is_ours(client) and client.outputs[0].type.dtype == out.type.dtype:
                return True
        return False

    def _can_flatten(self, node, operands):
        """Return True if an operand that only `node` uses belongs to the same expression and can be merged into it."""
        if operands > MAX_OPERANDS or node.op == self.reciprocal:
            return False
        dtype = node.outputs[0].dtype
        is_main = node.op == self.main
        for k, i in enumerate(node.inputs):
            if i.owner is None or i.dtype != dtype or len(i.clients) != 1:
                continue
            op = i.owner.op
            if op == self.inverse or (op == self.main and is_main) or (op == self.reciprocal and (is_main or k == 1)):
                return True
        return False

    def __str__(self):
        return getattr(self, "name", None) or "Canonizer(%s, %s, %s)" % (self.main, self.inverse, self.reciprocal)


def _is_shared(v, node):
    """Return True if `v` or the output of `node` has several clients. `v` is this output, or adds dimensions to it.

    A variable that is not yet in a graph has no attribute `clients`, and counts as not shared.
    """
    out = node.outputs[0]
    return len(getattr(v, "clients", ())) > 1 or (v is not out and len(getattr(out, "clients", ())) > 1)


def _pads_left(node):
    """Return True if a node only adds broadcastable dimensions on the left."""
    op = node.op
    if not isinstance(op, DimShuffle):
        return False
    ndim = node.inputs[0].ndim
    order = tuple(op.new_order)
    return order[len(order) - ndim :] == tuple(range(ndim)) and all(o == "x" for o in order[: len(order) - ndim])


def _same_value(variable, value):
    constant = common.get_constant(variable)
    return bool(constant == value or (constant != constant and value != value))


def _same_list(a, b):
    return len(a) == len(b) and all(map(is_, a, b))


def _out_dtype(arrays, out_type):
    # A computed constant gets the dtype of the result, so that it does not upcast the other operands.
    return scalar.upcast(*[np.asarray(v).dtype.name for v in arrays]) if out_type is None else out_type.dtype


def mul_calculate(num, denum, aslist=False, out_type=None):
    """Return the product of `num` divided by the product of `denum`; see the parameter `calculate` of `Canonizer`."""
    if not num and not denum:
        # The neutral element has the narrowest dtype, so that it does not upcast other operands.
        return [] if aslist else np.int8(1)
    dtype = _out_dtype(list(num) + list(denum), out_type)
    one = np.asarray(1, dtype=dtype)
    with np.errstate(all="ignore"):
        v = reduce(np.multiply, num, one)
        if denum:
            v = v / reduce(np.multiply, denum, one)
        v = np.asarray(v, dtype=dtype)
    if aslist:
        return [] if np.all(v == 1) else [v]
    return v


def add_calculate(num, denum, aslist=False, out_type=None):
    """Return the sum of `num` minus the sum of `denum`; see the parameter `calculate` of `Canonizer`."""
    if not num and not denum:
        return [] if aslist else np.int8(0)
    dtype = _out_dtype(list(num) + list(denum), out_type)
    zero = np.asarray(0, dtype=dtype if dtype != "bool" else "int8")
    with np.errstate(all="ignore"):
        v = reduce(np.add, num, zero)
        if denum:
            v = v - reduce(np.add, denum, zero)
        v = np.asarray(v, dtype=dtype)
    if aslist:
        return [] if np.all(v == 0) else [v]
    return v


local_mul_canonizer = Canonizer(T.mul, T.true_div, T.inv, mul_calculate, False)
local_add_canonizer = Canonizer(T.add, T.sub, T.neg, add_calculate)
register_canonicalize(ignores_nonfinite(local_mul_canonizer), name="local_mul_canonizer")
register_canonicalize(ignores_nonfinite(local_add_canonizer), name="local_add_canonizer")
mul_canonizer = in2out(local_mul_canonizer, name="mul_canonizer_groups")
add_canonizer = in2out(local_add_canonizer, name="add_canonizer_group")


def check_for_x_over_absX(numerators, denominators):
    """Replace ``x / abs(x)`` by ``sign(x)``. The arguments are those of a simplifier; see `Canonizer.add_simplifier`.

    Each ``abs(x)`` of the denominator cancels one ``x`` of the numerator: ``x / (abs(x) * abs(x))`` becomes
    ``sign(x) / abs(x)``.
    """
    if not denominators:
        return numerators, denominators
    left = Counter(map(id, numerators))
    taken, signs, divisors = Counter(), [], []
    for d in denominators:
        x = _inside_abs(d)
        if x is not None and taken[id(x)] < left[id(x)]:
            taken[id(x)] += 1
            signs.append(T.sgn(x))
        else:
            divisors.append(d)
    if not signs:
        return numerators, denominators
    kept = []
    for n in numerators:
        if taken[id(n)]:
            taken[id(n)] -= 1
        else:
            kept.append(n)
    return kept + signs, divisors


def _inside_abs(v):
    """Return x if `v` is ``abs(x)`` and x is a float. Otherwise, return None.

    Other dtypes are excluded, because ``x / abs(x)`` differs from ``sign(x)`` for some of their values: the sign of a
    complex x is the sign of its real part, and the absolute value of the lowest integer is negative.
    """
    inputs = inputs_of(v, T.abs_)
    return inputs[0] if inputs is not None and inputs[0].dtype[0] == "f" else None


local_mul_canonizer.add_simplifier(check_for_x_over_absX, "X_over_absX")


@register_canonicalize
@rule(-typed("x", kinds="ifc"))  # An unsigned dtype has no -1.
def local_neg_to_mul(x):
    """Replace a negation by a factor of -1, which other rules combine with other factors.

    -x  ->  -1 * x          [canonicalize, fast_run]
    """
    return T.mul(np.array(-1, dtype=x.dtype), x)


# The cost of a division, as a number of multiplications. The greedy distributor compares costs.
DIV_COST = 4


def distribute_greedy(pos_pairs, neg_pairs, num, denum, out_type, minscore=0):
    """Distribute factors over all terms of a sum if this saves operations.

    Parameters
    ----------
    pos_pairs, neg_pairs : list of (list, list)
        The added and the subtracted terms, each as a list of numerators and a list of denominators.
    num, denum : list of Variable
        The factors and the divisors of the sum.
    out_type : Type
        The type of the product.
    minscore : int
        The change is kept if it saves more than `minscore` multiplications. A division counts as `DIV_COST`.

    Returns
    -------
    bool
        Whether the change is kept.
    list, list
        The added and the subtracted terms: the new terms if the change is kept, otherwise the given terms.
    """
    score = len(num) + DIV_COST * len(denum)
    simplify = local_mul_canonizer.simplify
    pos = [simplify(list(n) + list(num), list(d) + list(denum), out_type) for n, d in pos_pairs]
    neg = [simplify(list(n) + list(num), list(d) + list(denum), out_type) for n, d in neg_pairs]
    for (n, d), (nn, dd) in zip(list(pos_pairs) + list(neg_pairs), pos + neg):
        score += len(n) + DIV_COST * len(d) - len(nn) - DIV_COST * len(dd)
    if score <= minscore:
        return False, pos_pairs, neg_pairs
    return True, pos, neg


class _Product:
    """The factors and divisors of a product, with an index of the factors for which `distribute_greedy` may succeed.

    `distribute_greedy` need not be called for the other factors. If such a factor is moved into a sum, one operation is
    saved, but each term of the sum gets an additional operation.
    """

    def __init__(self, num, denum):
        sides = num, denum
        self._numbers = [[v for v in side if local_mul_canonizer.get_constant(v) is not None] for side in sides]
        self._count = [Counter(map(id, side)) for side in sides]
        self._place = [{id(v): place for place, v in enumerate(side)} for side in sides]
        self._absolute = [_by_what_is_inside_abs(side) for side in sides]

    def inverse(self):
        """Return the reciprocal of the product: its factors become divisors, and its divisors become factors."""
        inverse = copy(self)
        for name, sides in vars(self).items():
            setattr(inverse, name, sides[::-1])
        return inverse

    def count(self, v, side):
        """Return the number of occurrences of `v` in the factors (`side` 0) or the divisors (1)."""
        return self._count[side][id(v)]

    def remove(self, v, side=0):
        """Remove one occurrence of `v` from the factors (`side` 0) or the divisors (1)."""
        self._count[side][id(v)] -= 1

    def put_back(self, v, side):
        """Add a removed occurrence of `v` to the factors (`side` 0) or the divisors (1) again."""
        self._count[side][id(v)] += 1

    def next_likely(self, side, pairs, last=None):
        """Return the first variable after `last` that is a number or may cancel in a term of `pairs`.

        Return None if no variable is left.
        """
        count, place = self._count[side], self._place[side]
        begin = -1 if last is None else place[id(last)]
        found = None
        for v in chain(self._numbers[side], self._may_cancel(side, [v for pair in pairs for v in pair[1 - side]])):
            here = place[id(v)] if count.get(id(v)) else -1
            if here > begin and (found is None or here < place[id(found)]):
                found = v
        return found

    def _may_cancel(self, side, others):
        """Yield the variables that may cancel one of `others`.

        Each variable may cancel itself. A factor x (`side` 0) may also cancel ``abs(x)``. A divisor ``abs(x)`` (`side`
        1) may also cancel x.
        """
        yield from others
        if side == 0:
            for other in others:
                x = _inside_abs(other)
                if x is not None:
                    yield x
        elif self._absolute[side]:
            for other in others:
                if id(other) in self._absolute[side]:
                    yield self._absolute[side][id(other)]


def _by_what_is_inside_abs(variables):
    """Return a dict from id(x) to ``abs(x)``, for all variables of the form ``abs(x)``."""
    found = {}
    for v in variables:
        x = _inside_abs(v)
        if x is not None:
            found.setdefault(id(x), v)
    return found


def _likely(product, side, pairs):
    """Yield the factors (`side` 0) or the divisors (1) that may cancel in the terms `pairs()`."""
    last = None
    while (last := product.next_likely(side, pairs(), last)) is not None:
        tried = None
        while product.count(last, side) not in (0, tried):  # Repeat while the caller removes occurrences.
            tried = product.count(last, side)
            yield last


def attempt_distribution(factor, num, denum, out_type, product=None, stays=False):
    """Try to move each factor in `num` and each divisor in `denum` into the terms of the sum `factor`.

    Parameters
    ----------
    factor : Variable
        A sum.
    num, denum : list of Variable
        The factors and the divisors of the sum.
    out_type : Type
        The type of the product.
    product : _Product, optional
        The `_Product` of `num` and `denum`.
    stays : bool
        Whether the sum has other clients, so that it is computed in any case. Then a new sum is an improvement only if
        none of its terms has to be computed: ``(1 - 1 / s) * s`` is ``s - 1``.

    Returns
    -------
    bool, Variable, list, list
        Whether anything changed, the new sum, and the remaining elements of `num` and `denum`.
    """
    pos_terms, neg_terms = local_add_canonizer.operands_of(factor)
    if len(pos_terms) + len(neg_terms) == 1 and not neg_terms:
        return False, factor, num, denum
    pos_pairs = [_factors_of_term(t, out_type) for t in pos_terms]
    neg_pairs = [_factors_of_term(t, out_type) for t in neg_terms]
    left = list(num), list(denum)
    if product is None:
        product = _Product(num, denum)
    minscore = 0 if stays else _cost_of_what_stays(pos_terms + neg_terms, pos_pairs + neg_pairs)
    taken = []
    for side, factors in enumerate(left):
        for v in _likely(product, side, lambda: pos_pairs + neg_pairs):
            pair = ([], [v]) if side else ([v], [])
            success, pos_pairs, neg_pairs = distribute_greedy(pos_pairs, neg_pairs, *pair, out_type, minscore)
            if success:
                minscore = 0
                taken.append((v, side))
                factors.remove(v)
                product.remove(v, side)
    if stays and any(len(n) > 1 or d for n, d in pos_pairs + neg_pairs):
        for v, side in taken:
            product.put_back(v, side)
        taken = []
    if not taken:
        return False, factor, num, denum
    dtype = out_type.dtype

    def merge(pairs):
        return [local_mul_canonizer.merge_num_denum(n, d, dtype) for n, d in pairs]

    return True, local_add_canonizer.merge_num_denum(merge(pos_pairs), merge(neg_pairs), dtype), *left


def _factors_of_term(term, out_type):
    """Return the list of numerators and the list of denominators of a term.

    A product in a narrower dtype is rounded or wraps around in that dtype, and counts as one factor.
    """
    return local_mul_canonizer.operands_of(term) if term.dtype == out_type.dtype else ([term], [])


def _cost_of_what_stays(terms, pairs):
    """Return the cost, in multiplications, of the terms that have other clients.

    If factors are moved into such terms, this cost is not saved, because the other clients still need the old terms.
    """
    costs = [len(n) + DIV_COST * len(d) - 1 for t, (n, d) in zip(terms, pairs) if len(getattr(t, "clients", ())) > 1]
    return sum(cost for cost in costs if cost > 0)


@register_canonicalize
@register_stabilize
@ignores_nonfinite
@local_optimizer([T.mul, T.true_div, T.inv])
def local_greedy_distributor(node):
    """Distribute factors over sums if that saves multiplications and divisions.

    (a / x + b / y) * x * y  ->  a * y + b * x          [canonicalize, stabilize, fast_run]
    """
    out = node.outputs[0]
    if len(out.clients) == 1 and local_mul_canonizer._client_takes_part(out):
        # Wait for the larger product, which contains all factors of this product. Then a long chain of products is
        # examined only once.
        return False
    kept = set()
    num, denum = local_mul_canonizer.operands_of(out, kept)
    if len(num) == 1 and not denum:
        return False

    def stays(v):
        return len(v.clients) > 1 or v in kept

    def is_sum(v):
        if v.owner is None or v.owner.op not in _SUMS or v.dtype != out.dtype:
            # Reject a sum in a narrower dtype, because it is rounded or wraps around before it is multiplied.
            return False
        # A sum with other clients is computed anyway. A second sum is useful only if a division cancels in it. For
        # example, (1 - 1 / (1 + e)) * (1 + e) becomes e, which is accurate even if the first factor is rounded to 0.
        return not stays(v) or any(i.owner is not None and i.owner.op in _QUOTIENTS for i in v.owner.inputs)

    if not any(map(is_sum, num)) and not any(map(is_sum, denum)):
        return False
    product = _Product(num, denum)

    def distribute(num, denum, product):
        """Distribute over the sums in `num`.

        Return whether anything changed, the new factors, and the remaining elements of both lists.
        """
        change, new = False, []
        for candidate in list(num):
            if not any(candidate is n for n in num):
                continue
            num.remove(candidate)
            product.remove(candidate)
            if is_sum(candidate):
                changed, candidate, num, denum = attempt_distribution(
                    candidate, num, denum, out.type, product, stays(candidate)
                )
                change |= changed
            new.append(candidate)
        return change, new, num, denum

    change_num, new_num, num, denum = distribute(num, denum, product)
    change_denum, new_denum, denum, num = distribute(denum, num, product.inverse())
    if not (change_num or change_denum):
        return False
    num, denum = local_mul_canonizer.simplify(new_num + num, new_denum + denum, out.type)
    rval = local_mul_canonizer.merge_num_denum(num, denum, out.type.dtype)
    return rule_result(rval, out)


_SUMS = {T.add: None, T.sub: None, T.neg: None}
_QUOTIENTS = {T.true_div: None, T.inv: None}
