"""Canonical forms of sums and products: one list of terms added and one subtracted, one of factors multiplied and one divided by."""

from collections import Counter
from copy import copy
from functools import reduce
from itertools import chain
from operator import is_

import numpy as np

from theano_ng import scalar
from theano_ng.gof.rewriting import LocalOptimizer, copy_stack_trace, in2out, local_optimizer
from theano_ng.tensor import basic as T
from theano_ng.tensor.elemwise.op import DimShuffle
from theano_ng.tensor.opt import common
from theano_ng.tensor.opt.common import answer, in_dtype, inputs_of
from theano_ng.tensor.opt.own_registration import ignores_nonfinite, register_canonicalize, register_stabilize

MAX_OPERANDS = 31
"""Most operands given to one addition or multiplication; NumPy's limit is 32 operands with the result."""

MAX_OPENED = 8
"""How many operands are looked at before the parts of an expression that others use too stay closed: a chain of products each of which is
used elsewhere is looked at again from each of its nodes."""


class Canonizer(LocalOptimizer):
    """Simplification tool for a commutative, associative operation, its inverse and its reciprocal.

    An expression made of the three is ``inverse(main(*num), main(*denum))``. Common factors of the two lists are removed, their
    constants collected, and the cheapest expression for what is left is built::

        a * b / a                 ->  b
        a / (b / c)               ->  (a * c) / b
        a / b / c                 ->  a / (b * c)
        (p / q) * (q / r)         ->  p / r
        3 * a / 3                 ->  a
        (6.0 * a) / (1.5 * b)     ->  (4.0 * a) / b
        a * b * c                 ->  Elemwise(mul){a,b,c}

    ``x / x`` becomes 1 also where it would be NaN.

    Parameters
    ----------
    main : Op
        Commutative, associative, takes one to any number of inputs: add or mul.
    inverse : Op
        ``inverse(main(x, y), y) == x``: sub or true_div.
    reciprocal : Op
        ``main(x, reciprocal(y)) == inverse(x, y)``: neg or inv.
    calculate : callable
        ``calculate(num, denum, aslist=False, out_type=None)``: value of ``inverse(main(*num), main(*denum))`` for lists of
        arrays. With `aslist`, a list of this one value, or an empty list when it is the neutral element.
    use_reciprocal : bool
        Whether `reciprocal` is used where there is no numerator; otherwise `inverse` of the neutral element is: ``1 / x``.
    """

    def __init__(self, main, inverse, reciprocal, calculate, use_reciprocal=True):
        self.main, self.inverse, self.reciprocal = main, inverse, reciprocal
        self.calculate, self.use_reciprocal = calculate, use_reciprocal
        self.neutral = calculate([], [])
        self.external_simplifiers = []
        # Found by one look, and an Op of another class without any.
        self._ours = {main: "main", inverse: "inverse", reciprocal: "reciprocal"}
        self._op_classes = tuple(dict.fromkeys(type(op) for op in self._ours))

    def add_simplifier(self, simplifier, reason):
        """Add a function ``simplifier(num, denum) -> (num, denum)``, applied before anything else; `reason` says what it does."""
        self.external_simplifiers.append((reason, simplifier))

    def tracks(self):
        return [self.main, self.inverse, self.reciprocal]

    def _is_ours(self, node):
        op = node.op
        return isinstance(op, self._op_classes) and op in self._ours

    def get_num_denum(self, input):
        """Lists `num`, `denum` with ``input == inverse(main(*num), main(*denum))``.

        With ``*``, ``/`` and ``inv()``::

            x * y               -> ([x, y], [])
            inv(x) * inv(y)     -> ([], [x, y])
            (x * y) / z         -> ([x, y], [z])
            log(x) / y * (z + x) / y -> ([log(x), z + x], [y, y])
            (((a / b) * c) / d) -> ([a, c], [b, d])
            a / (b / c)         -> ([a, c], [b])
            x ** y              -> ([x ** y], [])

        The walk goes through nodes of the dtype of `input` only, and through dimensions added on the left.
        """
        return self._walk(input, ())

    def _walk(self, input, closed, shared=None, kept=None):
        """Do the work of `get_num_denum`, but do not open the variables in `closed`.

        Parameters
        ----------
        input : Variable
        closed : collection of Variable
        shared : list, optional
            Variables with several clients are not opened; they are appended to this list.
        kept : set, optional
            Gets the operands of opened variables with several clients, which stay in the graph.
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
        """The node of main, inverse or reciprocal that computes `v` in a dtype, and which of them it is; twice None for others."""
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
        """Put the operands of a node on a stack, the first on top, as (variable, inverted, number of the part that it is in)."""
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
        """Return `get_num_denum` of an expression in a graph. Parts with other clients stay whole if opening them gains nothing.

        Such parts are computed anyway. A part is opened if one of its factors cancels, or if it has only one factor in addition to constants.
        With other clients of s = x * y and t = 2 * x::

            s / x  -> ([x, y], [x])
            s * z  -> ([s, z], [])
            t * 3  -> ([2, x, 3], [])

        The set `kept` gets the operands of the opened parts that stay in the graph.
        """
        graph = getattr(expression, "fgraph", None)
        # Several rules ask, one after the other.
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
        """Return the parts of an expression that have other clients, and that need not be opened."""
        whole = set()
        get_constant = self.get_constant
        parts = []  # variable, and the number of the part that it is in
        leaves = []  # variable, inverted, number of the part
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
        for i in range(len(parts) - 1, -1, -1):  # a part comes before those in it
            v, part = parts[i]
            if factors[i] < 2 or cancels[i]:
                opened.add(v)
            if part >= 0:
                factors[part] += factors[i]
                cancels[part] = cancels[part] or cancels[i]
        whole.update(v for v, _ in parts if v not in opened)
        return whole

    def _main(self, terms, dtype=None):
        """`main` of all terms, at most `MAX_OPERANDS` at a time."""
        terms = list(terms)
        while len(terms) > MAX_OPERANDS:
            terms = [self._one_main(terms[i : i + MAX_OPERANDS], dtype) for i in range(0, len(terms), MAX_OPERANDS)]
        return self._one_main(terms, dtype)

    def _one_main(self, terms, dtype):
        if len(terms) == 1:
            return T.as_tensor_variable(terms[0])
        return in_dtype(self.main, terms, dtype)

    def merge_num_denum(self, num, denum, dtype=None):
        """Cheapest expression for ``inverse(main(*num), main(*denum))``, by the lengths n and d of the lists::

            n=0, d=0: neutral element
            n=1, d=0: num[0]
            n=0, d=1: reciprocal(denum[0]), or inverse(neutral element, denum[0]) without `use_reciprocal`
            n=1, d=1: inverse(num[0], denum[0])
            n=0, d>1: reciprocal(main(*denum)), or the same
            n>1, d=0: main(*num)
            n>=1, d>=1: inverse(main(*num), main(*denum))

        With `dtype`, the dtype of the expression that is replaced, nothing is computed in a narrower one: in ``a + (b - c)`` where
        only c is wide, ``a + b`` may not wrap around.
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
        """`simplify_constants` after `simplify_factors` and the added simplifiers."""
        for _, simplifier in self.external_simplifiers:
            num, denum = simplifier(num, denum)
        num, denum = self.simplify_factors(num, denum)
        return self.simplify_constants(num, denum, out_type)

    def simplify_factors(self, num, denum):
        """Remove what is in both lists, in place; returns them.

        ::

            [x], [x]         -> [], []
            [x, y], [x]      -> [y], []
            [a, b], [c, d]   -> [a, b], [c, d]
        """
        if num and denum:
            count = {}
            # Arrays, which constants are between two simplifications, are left to simplify_constants.
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
        """Combine all constants into one constant at the head of the numerator; drop it if it is the neutral element.

        ::

            [2, 3, x], []    -> [6, x], []
            [x, y, 2], [4, z] -> [0.5, x, y], [z]
            [x, 2, y], [z, 2] -> [x, y], [z]

        Constants that have no sum or product in their dtype stay as they are: ``x * 1e200 * 1e200`` of a small x is finite.
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
            return list(orig_num), denum  # as most expressions are
        ct = self.calculate(numct, denumct, aslist=True, out_type=out_type)
        if len(numct) + len(denumct) > 1 and common.overflowed(ct, numct + denumct, self.main == T.mul):
            return list(orig_num), list(orig_denum)
        if not ct and not num and not self.use_reciprocal:
            # The neutral element stays where it is all of the numerator.
            ct = [self.calculate(numct, denumct, aslist=False, out_type=out_type)]
        if len(numct) == 1 and not denumct and ct:
            original = next(v for v in orig_num if self.get_constant(v) is not None)
            if _same_value(original, ct[0]) and (
                original is orig_num[0] or getattr(original, "dtype", None) == ct[0].dtype
            ):
                # A constant in its place stays what it is; a new one at each visit would never come to rest.
                ct = [original]
        return ct + num, denum

    def transform(self, node):
        if not self._is_ours(node):
            return False
        out = node.outputs[0]
        if len(out.clients) == 1 and self._client_takes_part(out):
            # The client sees a larger expression and will treat this one with it.
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
        return answer(new, out)

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
        """Whether an operand that nobody else uses belongs to the expression in a form that is not the canonical one."""
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
    """Whether a variable, or what `node` computes for it, is used in more than one place; only known of variables in a graph."""
    out = node.outputs[0]
    return len(getattr(v, "clients", ())) > 1 or (v is not out and len(getattr(out, "clients", ())) > 1)


def _pads_left(node):
    """Whether a node only adds broadcastable dimensions on the left."""
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
    # The dtype of the result, so that a computed constant upcasts nothing.
    return scalar.upcast(*[np.asarray(v).dtype.name for v in arrays]) if out_type is None else out_type.dtype


def mul_calculate(num, denum, aslist=False, out_type=None):
    """Product of `num` divided by that of `denum`; see the argument `calculate` of `Canonizer`."""
    if not num and not denum:
        # The smallest dtype, which upcasts nothing.
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
    """Sum of `num` minus that of `denum`; see the argument `calculate` of `Canonizer`."""
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
    """Turn ``x / abs(x)`` into ``sign(x)``; a simplifier of `local_mul_canonizer`.

    Each ``abs(x)`` of the denominator takes one ``x`` of the numerator with it: ``x / (abs(x) * abs(x))`` is ``sign(x) / abs(x)``.
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
    """Return x if `v` is ``abs(x)`` of a float, else None. The sign of a complex x is that of its real part; abs of the lowest integer is negative."""
    inputs = inputs_of(v, T.abs_)
    return inputs[0] if inputs is not None and inputs[0].dtype[0] == "f" else None


local_mul_canonizer.add_simplifier(check_for_x_over_absX, "X_over_absX")


@register_canonicalize
@local_optimizer([T.neg])
def local_neg_to_mul(node):
    """Make negation a factor, which other rules collect.

    -x  ->  -1 * x          [canonicalize, fast_run]
    """
    (x,) = node.inputs
    if x.dtype[0] not in "ifc":
        # The factor of an unsigned number would not be -1.
        return False
    rval = T.mul(np.array(-1, dtype=x.dtype), x)
    copy_stack_trace(node.outputs[0], rval)
    return [rval]


# Costs of a division in multiplications, for the greedy distributor.
DIV_COST = 4


def distribute_greedy(pos_pairs, neg_pairs, num, denum, out_type, minscore=0):
    """Try to bring factors into all terms of a sum.

    Parameters
    ----------
    pos_pairs, neg_pairs : list of (list, list)
        Terms added and subtracted, each as lists of its numerators and denominators.
    num, denum : list of Variable
        Factors and divisors of the sum.
    out_type : Type
        Type of the product.
    minscore : int
        Saving, in multiplications, from which the change is kept; a division counts as `DIV_COST`.

    Returns
    -------
    bool
        Whether it pays.
    list, list
        The pairs, changed when it does.
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
    """The factors and divisors of a product, to find those that are worth a try of `distribute_greedy` without looking at all.

    A factor that cancels nothing costs one operation in each term and saves one.
    """

    def __init__(self, num, denum):
        sides = num, denum
        self._numbers = [[v for v in side if local_mul_canonizer.get_constant(v) is not None] for side in sides]
        self._count = [Counter(map(id, side)) for side in sides]
        self._place = [{id(v): place for place, v in enumerate(side)} for side in sides]
        self._absolute = [_by_what_is_inside_abs(side) for side in sides]

    def inverse(self):
        """The same factors, as divisors."""
        inverse = copy(self)
        for name, sides in vars(self).items():
            setattr(inverse, name, sides[::-1])
        return inverse

    def count(self, v, side):
        """Return how often `v` is among the factors (`side` 0) or the divisors (1)."""
        return self._count[side][id(v)]

    def remove(self, v, side=0):
        """Remove one occurrence of `v` from the factors (`side` 0) or the divisors (1)."""
        self._count[side][id(v)] -= 1

    def put_back(self, v, side):
        """Add one occurrence of `v` to the factors or the divisors, at its former place."""
        self._count[side][id(v)] += 1

    def next_likely(self, side, pairs, last=None):
        """The first after `last` that is a number or may cancel in a sum of the terms `pairs`; each is tried once. None: there is no more."""
        count, place = self._count[side], self._place[side]
        begin = -1 if last is None else place[id(last)]
        found = None
        for v in chain(self._numbers[side], self._may_cancel(side, [v for pair in pairs for v in pair[1 - side]])):
            here = place[id(v)] if count.get(id(v)) else -1
            if here > begin and (found is None or here < place[id(found)]):
                found = v
        return found

    def _may_cancel(self, side, others):
        """Yield the variables that equal one of `others`, or whose quotient with one is a sign: x and ``abs(x)``."""
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
    """id(x) -> ``abs(x)``"""
    found = {}
    for v in variables:
        x = _inside_abs(v)
        if x is not None:
            found.setdefault(id(x), v)
    return found


def _likely(product, side, pairs):
    """The factors (`side` 0) or divisors to bring into the terms `pairs()`, one after the other."""
    last = None
    while (last := product.next_likely(side, pairs(), last)) is not None:
        tried = None
        while product.count(last, side) not in (0, tried):  # again, where one of several was taken
            tried = product.count(last, side)
            yield last


def attempt_distribution(factor, num, denum, out_type, product=None, stays=False):
    """Try to bring each of `num` and `denum` into the terms of the sum `factor`.

    Parameters
    ----------
    factor : Variable
    num, denum : list of Variable
        The factors and the divisors of `factor`.
    out_type : Type
        Type of the product.
    product : _Product, optional
        Of `num` and `denum`.
    stays : bool
        Whether the sum has other clients, so that it is computed in any case. Then a new sum is an improvement only if none of its
        terms has to be computed: ``(1 - 1 / s) * s`` is ``s - 1``.

    Returns
    -------
    bool, Variable, list, list
        Whether anything changed, the new factor, and what of `num` and `denum` stays outside.
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
    """Return the numerators and denominators of a term. A product in a narrower dtype, where it is rounded or wraps around, is one factor."""
    return local_mul_canonizer.operands_of(term) if term.dtype == out_type.dtype else ([term], [])


def _cost_of_what_stays(terms, pairs):
    """Return the cost of the terms with other clients, in multiplications, which the first change of the sum does not save."""
    costs = [len(n) + DIV_COST * len(d) - 1 for t, (n, d) in zip(terms, pairs) if len(getattr(t, "clients", ())) > 1]
    return sum(cost for cost in costs if cost > 0)


@register_canonicalize
@register_stabilize
@ignores_nonfinite
@local_optimizer([T.mul, T.true_div, T.inv])
def local_greedy_distributor(node):
    """Distribute factors over sums where that saves multiplications and divisions.

    (a / x + b / y) * x * y  ->  a * y + b * x          [canonicalize, stabilize, fast_run]
    """
    out = node.outputs[0]
    if len(out.clients) == 1 and local_mul_canonizer._client_takes_part(out):
        # The larger product has all factors of this one; a long chain of products is looked at once, not from each of its nodes.
        return False
    kept = set()
    num, denum = local_mul_canonizer.operands_of(out, kept)
    if len(num) == 1 and not denum:
        return False

    def stays(v):
        return len(v.clients) > 1 or v in kept

    def is_sum(v):
        if v.owner is None or v.owner.op not in _SUMS or v.dtype != out.dtype:
            # The factors of a narrower sum would be used before it is rounded or wraps around.
            return False
        # A sum that is needed elsewhere too is computed anyway; only a division that cancels is worth a second one:
        # (1 - 1 / (1 + e)) * (1 + e) is e, which is not 0 where the first factor rounds to 0.
        return not stays(v) or any(i.owner is not None and i.owner.op in _QUOTIENTS for i in v.owner.inputs)

    if not any(map(is_sum, num)) and not any(map(is_sum, denum)):
        return False
    product = _Product(num, denum)

    def distribute(num, denum, product):
        """Over the sums among `num`: whether anything changed, new factors, and what is left of `num` and `denum`."""
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
    return answer(rval, out)


_SUMS = {T.add: None, T.sub: None, T.neg: None}
_QUOTIENTS = {T.true_div: None, T.inv: None}
