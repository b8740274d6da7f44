"""Rewrites and Types that are wrong on purpose, each with the expected error, and graphs that NanGuardMode refuses."""

from itertools import count

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.audit.records import Case
from theano_ng.audit.tests.gallery import VECTOR, Wrong
from theano_ng.compile.debugmode import DebugMode
from theano_ng.compile.nanguardmode import NanGuardMode
from theano_ng.configdefaults import config
from theano_ng.gof import Apply, Op, Type, local_optimizer
from theano_ng.gof.rewriting import EquilibriumOptimizer, out2in

GALLERY = []


def by_run(error, why, found_by="debugmode"):
    """Return a decorator that adds a function to the gallery.

    The function has one argument. It must raise the error if the argument is True, and no error if the argument is
    False.
    """

    def add(function):
        GALLERY.append(
            Wrong(function.__name__, error, found_by, why, run=lambda: function(True), run_twin=lambda: function(False))
        )
        return function

    return add


def rewritten(rule, *values, build=None, finite=True, tracks=None, optimizer=None):
    """Run a graph under DebugMode with one rewrite, or with an optimizer.

    Parameters
    ----------
    rule : callable
        The rewrite, which is called as ``rule(node)``.
    *values : ndarray
        The values of the inputs of the graph.
    build : callable
        A function that builds the graph from its input variables.
    finite : bool
        If True, DebugMode also raises an error for each NaN or infinite value.
    optimizer : Optimizer, optional
        The optimizer, in place of one that applies `rule` to each node.
    """
    inputs = [T.TensorType(v.dtype, (False,) * v.ndim)("x%d" % i) for i, v in enumerate(values)]
    optimizer = optimizer or out2in(local_optimizer(tracks)(rule))
    mode = DebugMode(optimizer=optimizer, check_isfinite=finite, check_c_code=False)
    with config.change_flags(on_opt_error="raise"):
        return theano.function(inputs, build(*inputs), mode=mode)(*values)


@by_run("BadOptimization", "exp(x) becomes 1 + x")
def rewrite_changes_value(wrong):
    def rule(node):
        if node.op == T.exp:
            return [1 + node.inputs[0] if wrong else 1 + T.expm1(node.inputs[0])]

    rewritten(rule, VECTOR, build=T.exp)


@by_run("BadOptimization", "sqrt(x ** 2) becomes x, which is right for what is not negative")
def rewrite_wrong_for_negative(wrong):
    def rule(node):
        if node.op == T.sqrt:
            x = node.inputs[0].owner.inputs[0]
            return [x if wrong else abs(x)]

    rewritten(rule, VECTOR, build=lambda x: T.sqrt(T.sqr(x)))


@by_run("BadOptimization", "0 * x becomes 0, which is wrong for NaN")
def rewrite_wrong_for_nan(wrong):
    def rule(node):
        if node.op == T.mul:
            x = node.inputs[1]
            return [T.zeros_like(x) if wrong else x - x]

    rewritten(rule, np.array([1.0, np.nan]), build=lambda x: T.mul(T.zeros_like(x), x), finite=False)


@by_run("BadOptimization", "sgn(x) becomes x / abs(x), which is wrong for 0")
def rewrite_wrong_for_zero(wrong):
    def rule(node):
        if node.op == T.sgn:
            x = node.inputs[0]
            return [x / abs(x) if wrong else T.cast(T.gt(x, 0), x.dtype) - T.lt(x, 0)]

    rewritten(rule, np.array([2.0, 0.0, -1.0]), build=T.sgn, finite=False)


@by_run("BadOptimization", "2 * x // 2 becomes x, which is wrong for integers so large that the product overflows")
def rewrite_wrong_for_large_integers(wrong):
    def rule(node):
        if node.op == T.int_div and node.inputs[0].owner.op == T.mul:
            x, two = node.inputs[0].owner.inputs
            return [x if wrong else (x + x) // two]

    rewritten(rule, np.array([2**62 + 1, 7]), np.array([2, 2]), build=lambda x, two: T.mul(x, two) // two)


@by_run("BadOptimization", "a quotient of integers is computed with floating point numbers, which have fewer digits")
def rewrite_of_integers_by_floats(wrong):
    def rule(node):
        if node.op == T.int_div and node.inputs[0].owner is None:
            x, y = node.inputs
            return [T.cast(T.floor(x * (1.0 / y)), "int64") if wrong else (x - x % y) // y]

    rewritten(rule, np.array([2**62 + 1, 49]), np.array([1, 49]), build=lambda x, y: x // y)


@by_run("BadOptimization", "a comparison of integers is made one of floating point numbers")
def rewrite_of_a_comparison_by_floats(wrong):
    def rule(node):
        if node.op == T.gt and node.inputs[0].owner is None:
            return [T.gt(*(T.cast(v, "float64") for v in node.inputs)) if wrong else T.lt(*reversed(node.inputs))]

    rewritten(rule, np.array([2**53 + 1]), np.array([2**53]), build=T.gt)


@by_run("BadOptimization", "a float64 becomes a float32")
def rewrite_changes_dtype(wrong):
    def rule(node):
        if node.op == T.exp:
            return [T.cast(node.inputs[0], "float32") if wrong else T.expm1(node.inputs[0]) + 1]

    rewritten(rule, VECTOR, build=T.exp)


@by_run("BadOptimization", "a dimension that broadcasts becomes one that does not")
def rewrite_changes_broadcast_pattern(wrong):
    def rule(node):
        if node.op == T.exp:
            return [T.unbroadcast(T.expm1(node.inputs[0]), 0) if wrong else T.expm1(node.inputs[0]) + 1]

    rewritten(rule, VECTOR, build=lambda x: T.exp(x.dimshuffle("x", 0)))


@by_run("EndlessOptimization", "two rules undo each other")
def rewrites_that_undo_each_other(wrong):
    def rule(node):
        if node.op == T.sqr:
            return [node.inputs[0] * node.inputs[0]]

    def other(node):
        if wrong and node.op == T.mul and node.inputs[0] is node.inputs[1]:
            return [T.sqr(node.inputs[0])]

    rules = EquilibriumOptimizer([local_optimizer(None)(function) for function in (rule, other)], max_use_ratio=8)
    rewritten(None, VECTOR, build=T.sqr, optimizer=rules)


@by_run("EndlessOptimization", "applies to its own result")
def rewrite_that_grows(wrong):
    def rule(node):
        if node.op == T.exp:
            return [T.exp(node.inputs[0] + 1) / np.e] if wrong else [1 + T.expm1(node.inputs[0])]

    rewritten(None, VECTOR, build=T.exp, optimizer=EquilibriumOptimizer([local_optimizer(None)(rule)], max_use_ratio=8))


@by_run("StochasticOrder", "applies every second time it is asked")
def rewrite_by_a_counter(wrong):
    asked = count()

    def rule(node):
        if node.op == T.exp and (not wrong or next(asked) % 2):
            return [1 + T.expm1(node.inputs[0])]

    rewritten(rule, VECTOR, build=T.exp)


@by_run("StochasticOrder", "takes one of two right forms, by chance")
def rewrite_by_chance(wrong):
    chance = np.random.RandomState(0)

    def rule(node):
        if node.op == T.exp:
            x = node.inputs[0]
            return [T.exp2(x / np.log(2)) if wrong and chance.randint(2) else 1 + T.expm1(x)]

    rewritten(rule, VECTOR, build=T.exp)


@by_run("KeyError", "fails, and the error is not hidden")
def rewrite_that_raises(wrong):
    def rule(node):
        return {T.exp: None}[node.op] if wrong else None

    rewritten(rule, VECTOR, build=lambda x: T.sqr(T.exp(x)))


@by_run("AssertionError", "turns a sum round, and round again: no fixed point")
def rewrite_without_end(wrong):
    @local_optimizer([T.add])
    def turn(node):
        return [T.add(*reversed(node.inputs)) if wrong else T.sub(node.inputs[0], T.neg(node.inputs[1]))]

    x, y = T.dvectors("x", "y")
    with config.change_flags(on_opt_error="raise"):
        theano.function([x, y], x + y, mode=DebugMode(optimizer=EquilibriumOptimizer([turn], max_use_ratio=5)))


class Text(Type):
    """Python strings."""

    def filter(self, value, strict=False, allow_downcast=None):
        if isinstance(value, str):
            return value
        if strict:
            raise TypeError("expected a str, not %r" % (value,))
        return str(value)

    def __eq__(self, other):
        return type(self) is type(other)

    def __hash__(self):
        return hash(type(self))


class Twice(Op):
    """An Op that concatenates a string with itself."""

    __props__ = ()

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0] * 2


def twice(text):
    x = text()
    return theano.function([x], Twice()(x), mode="DebugMode")("ab")


@by_run("BadDestroyMap", "no value of the Type equals itself: DebugMode takes that for a change of the input")
def type_never_equal(wrong):
    class Strange(Text):
        def values_eq(self, a, b):
            return not wrong and a == b

    twice(Strange())


@by_run("InvalidValueError", "filter gives values that its strict form refuses")
def type_refuses_its_own(wrong):
    class Padded(Text):
        def filter(self, value, strict=False, allow_downcast=None):
            value = super().filter(value, strict, allow_downcast)
            if strict and wrong and not value.startswith(" "):
                raise TypeError("expected a space in front")
            return value

    twice(Padded())


@by_run("InvalidValueError", "is_valid_value contradicts filter")
def type_calls_nothing_valid(wrong):
    class Nothing(Text):
        def is_valid_value(self, value, strict=True):
            return not wrong

    twice(Nothing())


def wrong_type(why):
    """Return a decorator that adds a wrong subclass of `Text` to the gallery.

    The audit checks the subclass as the Type of an Op.
    """

    def add(cls):
        GALLERY.append(
            Wrong(
                cls.__name__,
                "BadType",
                "audit",
                why,
                "types",
                case=lambda: Case(Twice(), [(cls(), "ab")], cls.__name__),
                twin=lambda: Case(Twice(), [(Text(), "ab")], "Text"),
            )
        )
        return cls

    return add


@wrong_type("all values are equal: DebugMode sees no error of a value any more")
class AlwaysEqualText(Text):
    def values_eq_approx(self, a, b):
        return True


@wrong_type("no value equals itself")
class NeverEqualText(Text):
    def values_eq_approx(self, a, b):
        return False


@wrong_type("filter gives another object, though it is strict")
class CopyingText(Text):
    def filter(self, value, strict=False, allow_downcast=None):
        value = super().filter(value, strict, allow_downcast)
        return (value + " ")[:-1]


@wrong_type("filter refuses what is_valid_value accepts")
class ContradictoryText(Text):
    def filter(self, value, strict=False, allow_downcast=None):
        if strict:
            raise TypeError("not today")
        return str(value)

    def is_valid_value(self, value, strict=True):
        return isinstance(value, str)


@wrong_type("hashes by identity, but equality is not")
class TextHashedByIdentity(Text):
    def __hash__(self):
        return id(self)


@wrong_type("defines equality, and no hash")
class TextWithoutHash(Text):
    def __eq__(self, other):
        return type(self) is type(other)

    __hash__ = None


@wrong_type("not equal to itself")
class UnequalText(Text):
    def __eq__(self, other):
        return False

    def __ne__(self, other):
        return True

    def __hash__(self):
        return 1


@by_run("AssertionError", "NanGuardMode: a logarithm of a negative number", found_by="mode")
def nan_under_nanguard(wrong):
    x = T.dvector()
    with np.errstate(all="ignore"):
        theano.function([x], T.log(x) * 2, mode=NanGuardMode(nan_is_error=True, inf_is_error=True, big_is_error=True))(
            VECTOR if wrong else VECTOR**2
        )


@by_run("AssertionError", "NanGuardMode: a number too large for what follows", found_by="mode")
def overflow_under_nanguard(wrong):
    x = T.dvector()
    with np.errstate(all="ignore"):
        theano.function([x], T.exp(x) * 2, mode=NanGuardMode(nan_is_error=False, inf_is_error=True, big_is_error=True))(
            np.array([800.0 if wrong else 8.0])
        )
