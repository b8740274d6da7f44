"""Rules for identities of arithmetic and of elementary functions."""

import numpy as np

from theano_ng import scalar
from theano_ng.gof.graph import Constant
from theano_ng.gof.rewriting import copy_stack_trace, local_optimizer
from theano_ng.tensor import basic as T
from theano_ng.tensor.assert_op import assert_op
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.opt.common import (
    MAX_SHARED,
    constant_value,
    fill_like_inputs,
    get_constant,
    in_dtype,
    inputs_of,
    is_an_upcast,
    op_of,
    overflowed,
    rule_result,
)
from theano_ng.tensor.opt.patterns import (
    Rest,
    alone,
    elementwise,
    names,
    number,
    restricted,
    rule,
    terms,
    typed,
    widened,
)
from theano_ng.tensor.opt.registration import (
    ignores_nonfinite,
    register_canonicalize,
    register_specialize,
    register_specialize_device,
    register_stabilize,
    register_uncanonicalize,
)
from theano_ng.tensor.reductions.careduce import Sum

x, y = names("x", "y")
integer = restricted("i", lambda v: v.dtype in T.integer_dtypes)
others = Rest("others")
inv, mul, sqr, zeros_like = terms(T.inv, T.mul, T.sqr, T.zeros_like)


# -- functions and their inverses ----------------------------------------------------------------------------------------

Deg2Rad, Rad2Deg, Conj, Neg, Inv = elementwise(scalar.Deg2Rad, scalar.Rad2Deg, scalar.Conj, scalar.Neg, scalar.Inv)
Cosh, Sinh, Tanh = elementwise(scalar.Cosh, scalar.Sinh, scalar.Tanh)
ArcCosh, ArcSinh, ArcTanh = elementwise(scalar.ArcCosh, scalar.ArcSinh, scalar.ArcTanh)
# Patterns with `real_x` match only real numbers. Several complex numbers have the same cosh, sinh or tanh, and the
# inverse function returns only one of these numbers.
real_x = typed(x, kinds="fiub")


@register_canonicalize
@register_specialize
@rule(
    (Deg2Rad(Rad2Deg(x)), x),
    (Rad2Deg(Deg2Rad(x)), x),
    (Cosh(ArcCosh(x)), x),
    (ArcCosh(Cosh(real_x)), abs(real_x)),
    (Sinh(ArcSinh(x)), x),
    (ArcSinh(Sinh(real_x)), real_x),
    (Tanh(ArcTanh(x)), x),
    (ArcTanh(Tanh(real_x)), real_x),
    (Conj(Conj(x)), x),
    (Neg(Neg(x)), x),
    (Inv(Inv(x)), x),
    same_type=True,
)
def local_func_inv():
    """Cancel two consecutive functions that are inverse to each other.

    deg2rad(rad2deg(x))  ->  x          [canonicalize, specialize, fast_run]
    cosh(arccosh(1 + x))  ->  1 + x
    arccosh(cosh(x))  ->  abs(x)
    tanh(arctanh(x))  ->  x
    sinh(arcsinh(x))  ->  x
    conj(conj(w))  ->  w
    -(-x)  ->  x
    inv(inv(x))  ->  x

    If the inner function is not defined at x, the result is x instead of NaN.
    """


# `widened` converts x to the dtype of the result, because an integer to the power -1 would be an integer.
@register_canonicalize
@rule((inv(x), widened(x) ** -1))
def local_inv_canon():
    """Replace a reciprocal by a power, which other rules handle.

    inv(x)  ->  x ** -1          [canonicalize, fast_run]
    """


def _sign_is_exact(v):
    """Return True if ``v`` always equals ``sgn(v) * abs(v)``. Integers are excluded, because they may wrap around."""
    return v.dtype[0] in "fc"


@register_canonicalize
@local_optimizer([T.abs_])
def local_abs_lift(node):
    """Move absolute values towards the inputs.

    abs(x * y)  ->  abs(x) * abs(y)          [canonicalize, fast_run]
    abs(x / y)  ->  abs(x) / abs(y)
    abs(x * abs(y))  ->  abs(x) * abs(y)

    `check_for_x_over_absX` needs this form. The rule applies only if the absolute value is the only client of the
    product or quotient. With more clients, the product is computed anyway, and in a long chain of such products, each
    absolute value would contain the absolute values of all earlier factors.
    """
    (v,) = node.inputs
    inner = v.owner
    if inner is None or inner.op != T.mul and inner.op != T.true_div or not _is_only_for(node, v):
        return False
    if not all(_sign_is_exact(i) for i in inner.inputs):
        return False
    if any(i.dtype[0] == "c" and i.dtype != v.dtype for i in inner.inputs):
        return False  # The absolute value of a narrower complex number is rounded to a narrower float.
    parts = [i if inputs_of(i, T.abs_) is not None else T.abs_(i) for i in inner.inputs]
    return rule_result(inner.op(*parts), node.outputs[0])


def _is_only_for(node, v):
    """Return True if `node` is the only client of `v`, and `v` is not an output of the graph."""
    return all(client is node for client, _ in v.clients)


@register_specialize
@local_optimizer([T.mul, T.true_div])
def local_abs_merge(node):
    """Merge the absolute values that `local_abs_lift` made, if no other rule used them.

    abs(x) * abs(y)  ->  abs(x * y)          [specialize, fast_run]
    abs(x) / abs(y)  ->  abs(x / y)

    The rule applies only if the product or quotient is the only client of each absolute value. An absolute value with
    more clients is computed anyway.
    """
    merged, others = [], []
    for i in node.inputs:
        found = inputs_of(i, T.abs_)
        (others if found is None else merged).append(i)
        if found is not None and not _is_only_for(node, i):
            return False
    if len(merged) < 2 or not all(_sign_is_exact(i) for i in node.inputs) or not all(map(_is_positive_number, others)):
        return False
    inner = [i if i in others else i.owner.inputs[0] for i in node.inputs]
    return rule_result(T.abs_(node.op(*inner)), node.outputs[0])


def _is_positive_number(v):
    value = constant_value(v)
    return value is not None and value.dtype.kind != "c" and bool(value > 0)


# -- negation ------------------------------------------------------------------------------------------------------------


@register_specialize
@rule((-(-x), x))
def local_neg_neg():
    """Cancel two negations."""


exact_x = restricted(x, _sign_is_exact)
numerator = restricted(number("c", lambda value: value.dtype.kind in "ifc"), lambda v: all(v.broadcastable))


@register_specialize
@rule((-alone(-exact_x / y), exact_x / y), -alone(numerator / x))
def local_neg_div_neg(c, x, out):
    """Merge the negation of a fraction with a negation in its numerator, or with a constant numerator.

    -(-x / y)  ->  x / y          [specialize, fast_run]
    -(2 / x)  ->  constant([-2]) / x
    """
    # Cast the constant before the negation, because the negative of the lowest integer overflows in the integer dtype.
    opposite = -constant_value(c).astype(out.dtype)
    return T.true_div(opposite.reshape((1,) * c.ndim), x)


# -- zero and one ---------------------------------------------------------------------------------------------------------


@register_canonicalize
@ignores_nonfinite
@rule((mul(0, others), 0))
def local_mul_zero():
    """Replace a product with a zero factor by zero, even if another factor is NaN or infinite.

    x * 0  ->  zeros_like(x)          [canonicalize, fast_run]
    """


@register_canonicalize
@rule((integer // 1, integer))
def local_intdiv_by_one():
    """Remove an integer division by one."""


@register_specialize
@register_canonicalize
@ignores_nonfinite
@rule((0 / x, 0), (0 // x, 0))
def local_zero_div():
    """Replace zero divided by anything by zero, also where the divisor is zero or NaN."""


@register_specialize
@rule((x - x, zeros_like(x)))
def local_elemwise_sub_zeros():
    """Replace a difference of a variable with itself by zero, also where it is NaN or infinite."""


@register_specialize
@local_optimizer([T.add])
def local_add_specialize(node):
    """Remove zeros from a sum.

    x + 0 + y  ->  x + y          [specialize, fast_run]
    """
    out = node.outputs[0]
    new_inputs = []
    for i in node.inputs:
        value = constant_value(i)
        # Keep all terms except zeros. If a tensor of zeros broadcasts the sum to a larger shape, `_filled` restores it.
        if value is None or value != 0:
            new_inputs.append(i)
    if len(new_inputs) == len(node.inputs):
        return False
    if not new_inputs:
        new = T.as_tensor_variable(np.zeros((), dtype=out.dtype))
    elif len(new_inputs) == 1:
        new = new_inputs[0]
    else:
        new = in_dtype(T.add, new_inputs, out.dtype)
    return rule_result(_filled(new, node), out)


def _filled(new, node):
    """Return `new` with the broadcast pattern of the node's output.

    `new` need not depend on all inputs of the node, so it may have more broadcastable dimensions than the output.
    """
    return new if new.type.broadcastable == node.outputs[0].type.broadcastable else fill_like_inputs(new, node.inputs)


# -- products, quotients, powers -------------------------------------------------------------------------------------------


@register_specialize
@rule((x * x, sqr(x)))
def local_mul_to_sqr():
    """Replace a product of a variable with itself by a square."""


@register_specialize
@ignores_nonfinite
@local_optimizer([T.mul])
def local_mul_specialize(node):
    """Remove ones and signs from a product.

    x * 1 * y  ->  x * y          [specialize, fast_run]
    x * -1  ->  -x
    -x * y  ->  -(x * y)
    x * 0  ->  zeros_like(x)

    A negated factor that has clients besides the product is computed anyway. If the number of negations is odd, one
    such factor stays in the product, so that the result needs no negation.
    """
    out = node.outputs[0]
    values = [constant_value(i) for i in node.inputs]
    if any(value is not None and value == 0 for value in values):
        return rule_result(fill_like_inputs(T.as_tensor_variable(np.asarray(0, dtype=out.dtype)), node.inputs), out)
    factors, odd = [], False
    for i, value in zip(node.inputs, values):
        if value is not None and value == -1 and i.dtype[0] in "ifc":
            odd = not odd
        elif value is None or value != 1:
            factors.append(i)
    negated = [k for k, f in enumerate(factors) if _is_negation(f) and (f.dtype == out.dtype or _sign_is_exact(f))]
    odd ^= len(negated) % 2 == 1
    shared = [k for k in negated if not _is_only_for(node, factors[k])]
    if odd and shared:
        negated.remove(shared[0])
        odd = False
    if len(factors) == len(node.inputs) and not negated or odd and out.dtype[0] not in "ifc":
        return False
    for k in negated:
        factors[k] = factors[k].owner.inputs[0]
    if not factors:
        return rule_result(_filled(T.as_tensor_variable(np.asarray(-1 if odd else 1, dtype=out.dtype)), node), out)
    new = factors[0] if len(factors) == 1 else in_dtype(T.mul, factors, out.dtype)
    if odd:
        new = in_dtype(T.neg, [new], out.dtype)
    return rule_result(_filled(new, node), out)


def _is_negation(v):
    return inputs_of(v, T.neg) is not None


@register_specialize
@local_optimizer([T.mul])
def local_mul_of_constants(node):
    """Merge the constant factors of two nested products. Rules that move factors out of reductions make such products.

    (x * 2) * 3  ->  6 * x          [specialize, fast_run]
    """
    out = node.outputs[0]
    values = [constant_value(v) for v in node.inputs]
    if sum(value is not None for value in values) != 1:
        return False
    for inner, value in zip(node.inputs, values):
        factors = inputs_of(inner, T.mul)
        if (
            value is not None
            or factors is None
            or len(factors) != 2
            or len(inner.clients) != 1
            or inner.dtype != out.dtype
        ):
            continue
        inside = [constant_value(v) for v in factors]
        if sum(v is not None for v in inside) != 1:
            continue
        (x,) = [v for v, number in zip(factors, inside) if number is None]
        (c,), (d,) = ([v for v in numbers if v is not None] for numbers in (values, inside))
        with np.errstate(all="ignore"):
            product = np.multiply(np.asarray(c, out.dtype), np.asarray(d, out.dtype), dtype=out.dtype)
        if overflowed([product], [c, d], products=True):
            return False
        product = T.as_tensor_variable(np.asarray(product))
        rest = [v for v, number in zip(node.inputs, values) if v is not inner and number is None]
        return rule_result(_filled(in_dtype(T.mul, [product, x, *rest], out.dtype), node), out)
    return False


@register_specialize
@rule((1 / x, inv(widened(x))))
def local_div_to_inv():
    """Replace the quotient of one and x by the inverse of x.

    1 / x  ->  inv(x)          [specialize, fast_run]
    1 / i  ->  inv(cast(i, 'float64'))
    """


@register_uncanonicalize
@rule(-x - -y)
def local_sub_of_negatives(x, y, out):
    """Exchange the operands of a difference of negatives.

    -x - -y  ->  y - x          [uncanonicalize, fast_run]
    """
    return T.sub(y, x) if all(v.dtype == out.dtype or _sign_is_exact(v) for v in (x, y)) else None


@register_canonicalize
@rule((x**0, 1), (x**1, x))
def local_pow_canonicalize():
    """Remove powers with exponent zero or one."""


# Exponent -> function that builds the replacement of the power.
_POWERS = {
    2: lambda x: T.sqr(x),
    1: lambda x: x,
    0: lambda x: T.fill(x, np.asarray(1, dtype=x.dtype)),
    0.5: lambda x: _root(x),
    -0.5: lambda x: T.inv(_root(x)),
    -1: lambda x: T.inv(x),
    -2: lambda x: T.inv(T.sqr(x)),
}


def _root(x):
    """Return an expression for ``x ** 0.5``. At -inf and -0, the power is inf and 0, but ``sqrt(x)`` is NaN and -0."""
    if x.dtype[0] != "f" or _is_nonnegative(x):
        return T.sqrt(x)
    inf = np.asarray(np.inf, x.dtype)
    return T.switch(T.eq(x, -inf), inf, T.abs_(T.sqrt(x)))


def _is_nonnegative(v):
    """Return True if the operations that compute `v` show that it is never negative and never -0."""
    todo, looks = [v], 0
    while todo:
        v = todo.pop()
        looks += 1
        value = constant_value(v)
        if value is not None:
            if value.dtype.kind == "c" or not value >= 0 or np.signbit(value):
                return False
            continue
        op = op_of(v)
        if op is None or looks > MAX_SHARED:
            return False
        if op in (T.sqr, T.abs_, T.exp) and v.dtype[0] == "f":
            continue
        if op in (T.add, T.mul, T.true_div) or isinstance(op, (Sum, DimShuffle)):
            todo += v.owner.inputs
        else:
            return False
    return True


@register_specialize
@local_optimizer([T.pow])
def local_pow_specialize(node):
    """Replace a power with a constant exponent by a special function.

    x ** 2  ->  sqr(x)          [specialize, fast_run]
    exp(x) ** 0.5  ->  sqrt(exp(x))
    exp(x) ** -0.5  ->  inv(sqrt(exp(x)))
    x ** 0.5  ->  switch(eq(x, -np.inf), np.inf, abs(sqrt(x)))
    x ** -0.5  ->  inv(switch(eq(x, -np.inf), np.inf, abs(sqrt(x))))
    x ** -1  ->  inv(x)
    x ** -2  ->  inv(sqr(x))
    """
    out = node.outputs[0]
    x, y = node.inputs
    exponent = constant_value(y)
    if exponent is None or not all(y.broadcastable) and not _covers(x, out):
        return False
    if exponent.dtype.kind == "c":
        return False
    make = _POWERS.get(exponent.item())
    if make is None:
        return False
    if x.dtype != out.dtype:
        # `pow` computes in the dtype of the result. Cast x, so that its square does not overflow in a narrower dtype.
        x = T.cast(x, out.dtype)
    if out.dtype[0] in "iu" and exponent < 0:
        return False
    return rule_result(_filled(make(x), node), out)


def _covers(x, out):
    return x.ndim == out.ndim and x.type.broadcastable == out.type.broadcastable


@register_specialize_device
@local_optimizer([T.pow])
def local_pow_specialize_device(node):
    """Replace a power with a small whole exponent by a product of squares.

    x ** 5  ->  x * sqr(sqr(x))          [specialize_device, fast_run]
    x ** -3  ->  inv(x * sqr(x))

    The rule runs after the move to a device, because a device may have a better `pow`. It applies to exponents whose
    absolute value is from 3 to 512.
    """
    out = node.outputs[0]
    x, y = node.inputs
    exponent = constant_value(y)
    if exponent is None or exponent.dtype.kind == "c" or x.dtype != out.dtype or not _covers(x, out):
        return False
    exponent = exponent.item()
    n = abs(exponent)
    if not float(n).is_integer() or n > 512 or n <= 2 or (exponent < 0 and out.dtype[0] in "iu"):
        return False
    # The binary digits of the exponent select the squares to multiply.
    n = int(n)
    factors, square = [], x
    while n:
        if n & 1:
            factors.append(square)
        n >>= 1
        if n:
            square = T.sqr(square)
    rval = factors[0] if len(factors) == 1 else T.mul(*factors)
    if exponent < 0:
        rval = T.inv(rval)
    return rule_result(rval, out)


# -- casts -----------------------------------------------------------------------------------------------------------------

(Cast,) = elementwise(scalar.Cast)


@register_canonicalize
@register_specialize
@rule(Cast(Cast(x)))
def local_cast_cast(x, node, out):
    """Merge two consecutive casts.

    cast(cast(k, 'int32'), 'int64')  ->  cast(k, 'int64')          [canonicalize, specialize, fast_run]
    cast(cast(f, 'float64'), 'float32')  ->  f

    The inner cast must have the dtype of the result, or represent every value of its input exactly.
    """
    (inner,) = node.inputs
    if inner.dtype == out.dtype:
        return inner
    if not is_an_upcast(x.dtype, inner.dtype):
        return None
    return x if x.dtype == out.dtype else node.op(x)


def _converts_inputs(op):
    """Return True if an Elemwise converts all its inputs to the dtype of the output anyway."""
    return getattr(op.scalar_op, "output_types_preference", None) in (
        scalar.upgrade_to_float,
        scalar.upcast_out,
        scalar.upcast_out_nobool,
    )


@register_canonicalize
@local_optimizer([Elemwise], when=_converts_inputs)
def local_upcast_elemwise_constant_inputs(node):
    """Cast scalar constants to the dtype of the computation at compile time.

    x + constant([2])  ->  x + constant([2.], dtype='float64')          [canonicalize, fast_run]

    The constants can then be merged with other constants, and the loop does not convert them at run time.
    """
    if len(node.outputs) > 1:
        return False
    output_dtype = node.outputs[0].type.dtype
    new_inputs = []
    for i in node.inputs:
        if i.type.dtype == output_dtype:
            new_inputs.append(i)
            continue
        # `get_constant` also finds a constant that a DimShuffle pads. Constant folding removes this DimShuffle later.
        # If the constant were not cast here, this rule would have to visit the node again after the folding.
        value = get_constant(i)
        if value is not None:
            new_inputs.append(T.constant(value.astype(output_dtype).reshape((1,) * i.ndim)))
        elif not isinstance(i, Constant):
            new_inputs.append(i)
        elif constant_value(i, only_process_constants=True) is None:
            # A constant whose elements differ is cast as a whole.
            new_inputs.append(T.cast(i, output_dtype))
        else:
            new_inputs.append(T.constant(i.data.astype(output_dtype)))
    if all(a is b for a, b in zip(new_inputs, node.inputs)):
        return False
    rval = node.op(*new_inputs)
    if rval.type != node.outputs[0].type:
        return False
    copy_stack_trace(node.outputs[0], rval)
    return [rval]


# -- products of matrices --------------------------------------------------------------------------------------------------


@register_canonicalize
@register_stabilize
@ignores_nonfinite
@local_optimizer([T.Dot])
def local_0_dot_x(node):
    """Replace a matrix product that has a zero operand by zeros.

    dot(zeros_like(x), y)  ->  Assert()(constant(0., dtype='float64'), eq(zeros_like(x).shape[0], y.shape[0]))
                                                               [canonicalize, stabilize, fast_run]
    """
    x, y = node.inputs
    if not any(v is not None and v == 0 for v in (constant_value(x), constant_value(y))):
        return False
    out = node.outputs[0]
    zero = T.constant(np.asarray(0, dtype=out.dtype))
    if x.ndim == 2 and y.ndim == 2:
        new = T.alloc(zero, x.shape[0], y.shape[1])
    elif x.ndim == 1 and y.ndim == 2:
        new = T.alloc(zero, y.shape[1])
    elif x.ndim == 2 and y.ndim == 1:
        new = T.alloc(zero, x.shape[0])
    elif x.ndim == 1 and y.ndim == 1:
        new = zero
    else:
        return False
    # Check the two lengths that `dot` requires to be equal.
    new = assert_op(new, T.eq(x.shape[x.ndim - 1], y.shape[0]))
    if new.type != out.type:
        new = T.patternbroadcast(new, out.broadcastable)
    copy_stack_trace(out, new)
    return [new]
