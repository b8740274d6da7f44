"""Arithmetic on one number: absolute value, sign, negation, reciprocal, square."""

import numpy as np

from theano_ng.scalar.instances import ops
from theano_ng.scalar.op import (
    AsDeclared,
    ScalarOp,
    UnaryScalarOp,
    c_cast,
    compute_in_output_float,
    discrete_gradient,
    is_complex,
    is_discrete,
    zeros_for,
)
from theano_ng.scalar.ops_arith import conj_if_complex, quiet, wrapping
from theano_ng.scalar.out_types import real_out, same_out, same_out_nobool, upgrade_to_float
from theano_ng.scalar.types import c_type, complex_types, constant, get_scalar_type


class Abs(UnaryScalarOp):
    """Absolute value. The absolute value of a complex number is its modulus, a real number."""

    nfunc_spec = ("abs", 1, 1)
    output_types_preference = staticmethod(real_out)

    def make_node(self, x):
        return super().make_node(x)

    def impl(self, x):
        return quiet(np.abs, x)

    def c_code(self, node, name, inputs, outputs, sub):
        if node.inputs[0].type.dtype == node.outputs[0].type.dtype == "float16":
            return "%s = (npy_float16)((%s) & 0x7fff);" % (outputs[0], inputs[0])
        return super().c_code(node, name, inputs, outputs, sub)

    # `c_code` clears the sign bit of a float16 without a conversion. In a Composite, float16 operands are held as
    # float32.
    on_half_bits = True
    _f16_ok = True
    c_code_wide = ScalarOp.c_code_from_expression

    def c_expression(self, args, dtypes, out):
        (x,), (dtype,) = args, dtypes
        if is_complex(dtype):
            return "tng_abs_%s(%s)" % (dtype, x)
        if dtype in ("float32", "float64"):
            return "__builtin_fabs%s(%s)" % ("f" if dtype == "float32" else "", x)
        if dtype[0] in "ub":
            return x
        return "((%s) < 0 ? %s : %s)" % (x, wrapping(" - ", ["0", x], ["int8", dtype], dtype), x)

    def L_op(self, inputs, outputs, gout):
        (x,), (gz,) = inputs, gout
        zeros = discrete_gradient(inputs, outputs)
        if zeros is not None:
            return zeros
        return [ops.mul(gz, ops.sgn(x))]

    def grad(self, inputs, gout):
        return self.L_op(inputs, self.make_node(*inputs).outputs, gout)


class Sgn(AsDeclared, UnaryScalarOp):
    """Sign: -1, 0 or 1. The sign of NaN is NaN. The sign of a complex number x is ``x / |x|``, or 0 if x is 0."""

    nfunc_spec = ("sign", 1, 1)
    output_types_preference = staticmethod(same_out_nobool)

    def impl(self, x):
        x = np.asarray(x)
        if x.dtype.kind == "c":
            return x.dtype.type(0) if x == 0 else quiet(np.true_divide, x, np.abs(x))
        return quiet(np.sign, x)

    def c_expression(self, args, dtypes, out):
        (x,), (dtype,) = args, dtypes
        if is_complex(dtype):
            return "((%s) == 0 ? (%s)0 : (%s) / tng_abs_%s(%s))" % (x, c_type(dtype), x, dtype, x)
        sign = "((%s)(((%s) > 0) - ((%s) < 0)))" % (c_type(dtype), x, x)
        if is_discrete(dtype):
            return sign
        return "((%s) != (%s) ? (%s) : %s)" % (x, x, x, sign)

    def L_op(self, inputs, outputs, gout):
        (x,), (sign,), (gz,) = inputs, outputs, gout
        if x.type not in complex_types:
            return zeros_for(inputs)
        # Only the part of gz that is orthogonal to x counts, because the modulus of the result is constant. The gradient
        # at zero is zero.
        along = ops.mul(sign, ops.real(ops.mul(gz, ops.conj(sign))))
        is_zero = ops.eq(x, constant(0, dtype="int8"))
        modulus = ops.switch(is_zero, constant(1, dtype="int8"), ops.abs_(x))
        return [ops.switch(is_zero, x.zeros_like(), ops.true_div(ops.sub(gz, along), modulus))]

    def grad(self, inputs, gout):
        return self.L_op(inputs, self.make_node(*inputs).outputs, gout)


class Neg(AsDeclared, UnaryScalarOp):
    """Negation. It is not defined for bool, as in NumPy."""

    nfunc_spec = ("negative", 1, 1)
    output_types_preference = staticmethod(same_out_nobool)

    def impl(self, x):
        return quiet(np.negative, x)

    def c_expression(self, args, dtypes, out):
        if is_discrete(out):
            return wrapping(" - ", ["0", args[0]], [out, dtypes[0]], out)
        if is_complex(out):
            return "tng_neg_%s(%s)" % (out, c_cast(args[0], dtypes[0], out))
        return "-%s" % c_cast(args[0], dtypes[0], out)

    def L_op(self, inputs, outputs, gout):
        zeros = discrete_gradient(inputs, outputs)
        if zeros is not None:
            return zeros
        return [ops.neg(gout[0])]

    def grad(self, inputs, gout):
        return self.L_op(inputs, self.make_node(*inputs).outputs, gout)


class Inv(UnaryScalarOp):
    """Reciprocal, ``1 / x``. The result for a discrete input is a float."""

    output_types_preference = staticmethod(upgrade_to_float)

    def impl(self, x):
        x = np.asarray(compute_in_output_float(x))
        if x.dtype.kind in "biu":
            x = x.astype(upgrade_to_float(get_scalar_type(x.dtype.name))[0].dtype)
        return quiet(np.true_divide, x.dtype.type(1), x)

    def c_expression(self, args, dtypes, out):
        if is_complex(out):
            return "tng_div_%s(1, %s)" % (out, c_cast(args[0], dtypes[0], out))
        return "((%s)1 / %s)" % (c_type(out), c_cast(args[0], dtypes[0], out))

    def L_op(self, inputs, outputs, gout):
        (x,), (gz,) = inputs, gout
        zeros = discrete_gradient(inputs, outputs)
        if zeros is not None:
            return zeros
        return [ops.true_div(ops.neg(gz), conj_if_complex(ops.mul(x, x)))]

    def grad(self, inputs, gout):
        return self.L_op(inputs, self.make_node(*inputs).outputs, gout)


class Sqr(UnaryScalarOp):
    """Square."""

    nfunc_spec = ("square", 1, 1)
    output_types_preference = staticmethod(same_out)

    def impl(self, x):
        return quiet(np.multiply, x, x)

    def c_expression(self, args, dtypes, out):
        return wrapping(" * ", args * 2, dtypes * 2, out)

    def L_op(self, inputs, outputs, gout):
        (x,), (gz,) = inputs, gout
        zeros = discrete_gradient(inputs, outputs)
        if zeros is not None:
            return zeros
        return [gz * conj_if_complex(x) * 2]

    def grad(self, inputs, gout):
        return self.L_op(inputs, self.make_node(*inputs).outputs, gout)
