"""Arithmetic: sums, products, quotients, powers, extrema, selection."""

from functools import reduce

import numpy as np

from theano_ng.configdefaults import config
from theano_ng.gof.derivative import disconnected_type
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.scalar.instances import ops
from theano_ng.scalar.op import (
    AsDeclared,
    BinaryScalarOp,
    ScalarOp,
    UnaryScalarOp,
    c_cast,
    discrete_gradient,
    is_complex,
    is_discrete,
    zeros_for,
)
from theano_ng.scalar.ops_compare import compare_complex
from theano_ng.scalar.out_types import (
    same_out,
    transfer_type,
    upcast_out,
    upcast_out_min8,
    upcast_out_no_complex,
    upcast_out_nobool,
)
from theano_ng.scalar.types import (
    ComplexError,
    IntegerDivisionError,
    as_scalar,
    c_type,
    complex_types,
    constant,
    discrete_types,
    get_scalar_type,
)


def quiet(function, *inputs):
    """Call a NumPy ufunc without floating-point warnings."""
    with np.errstate(all="ignore"):
        return function(*inputs)


def wrapping(operator, args, dtypes, out):
    """Return a C expression that joins the arguments with the operator ``+``, ``-`` or ``*``.

    Integer results wrap around as in NumPy, without the undefined behavior of C. Complex numbers are multiplied as in
    NumPy, without C's conversion of NaNs to infinities.
    """
    if out == "bool":
        return "((%s) != 0)" % operator.join("(%s)" % a for a in args)
    if is_complex(out) and operator == " * ":
        product = c_cast(args[0], dtypes[0], out)
        for a, d in zip(args[1:], dtypes[1:]):
            product = "tng_mul_%s(%s, %s)" % (out, product, c_cast(a, d, out))
        return product
    if not is_discrete(out):
        return operator.join(c_cast(a, d, out) for a, d in zip(args, dtypes))
    unsigned = "npy_uint64" if out.endswith("64") else "npy_uint32"
    return "((%s)(%s))" % (c_type(out), operator.join("(%s)(%s)" % (unsigned, a) for a in args))


def _reduced_gradient(x, gz):
    """Return `gz`. If `x` is real and `gz` is complex, return the real part of `gz`."""
    if gz.type in complex_types and x.type not in complex_types:
        return ops.real(gz)
    return gz


def fold(function, inputs):
    """Reduce the inputs with `function` in the promoted dtype of all inputs.

    Without the conversion, NumPy would compute the first result in the promoted dtype of only two inputs, in which the
    result could wrap around.
    """
    if len(inputs) > 2:
        inputs = (np.asarray(inputs[0], dtype=np.result_type(*inputs))[()], *inputs[1:])
    return reduce(function, inputs)


class Add(ScalarOp):
    """Sum of any number of inputs."""

    identity = 0
    commutative = True
    associative = True
    nfunc_spec = ("add", 2, 1)
    output_types_preference = staticmethod(upcast_out)

    def impl(self, *inputs):
        return quiet(lambda: fold(np.add, inputs))

    def c_expression(self, args, dtypes, out):
        return wrapping(" + ", args, dtypes, out)

    def L_op(self, inputs, outputs, gout):
        zeros = discrete_gradient(inputs, outputs)
        if zeros is not None:
            return zeros
        return [_reduced_gradient(x, gout[0]) for x in inputs]

    def grad(self, inputs, gout):
        return self.L_op(inputs, self.make_node(*inputs).outputs, gout)


class Mul(ScalarOp):
    """Product of any number of inputs."""

    identity = 1
    commutative = True
    associative = True
    nfunc_spec = ("multiply", 2, 1)
    output_types_preference = staticmethod(upcast_out)

    def impl(self, *inputs):
        return quiet(lambda: fold(np.multiply, inputs))

    def c_expression(self, args, dtypes, out):
        return wrapping(" * ", args, dtypes, out)

    def grad(self, inputs, gout):
        (gz,) = gout
        if self.output_types([i.type for i in inputs])[0] in discrete_types:
            return zeros_for(inputs)
        result = []
        for k, x in enumerate(inputs):
            others = inputs[:k] + inputs[k + 1 :]
            if gz.type in complex_types and others:
                # The real and imaginary part of gz are d cost / d re and d cost / d im of the output. So the gradient
                # contains the conjugates of the factors.
                others = [ops.conj(o) if o.type in complex_types else o for o in others]
            result.append(_reduced_gradient(x, ops.mul(gz, *others) if others else gz))
        return result


class Sub(AsDeclared, BinaryScalarOp):
    """Difference. It is not defined for two bools, as in NumPy."""

    nfunc_spec = ("subtract", 2, 1)
    output_types_preference = staticmethod(upcast_out_nobool)

    def impl(self, x, y):
        return quiet(np.subtract, x, y)

    def c_expression(self, args, dtypes, out):
        return wrapping(" - ", args, dtypes, out)

    def L_op(self, inputs, outputs, gout):
        zeros = discrete_gradient(inputs, outputs)
        if zeros is not None:
            return zeros
        (x, y), (gz,) = inputs, gout
        return [_reduced_gradient(x, gz), _reduced_gradient(y, ops.neg(gz))]

    def grad(self, inputs, gout):
        return self.L_op(inputs, self.make_node(*inputs).outputs, gout)


class TrueDiv(BinaryScalarOp):
    """Quotient. The quotient of two discrete inputs has the dtype floatX."""

    nfunc_spec = ("true_divide", 2, 1)
    output_types_preference = staticmethod(upcast_out)

    def output_types(self, types):
        if all(t in discrete_types for t in types):
            return [get_scalar_type(config.floatX)]
        return super().output_types(types)

    def impl(self, x, y):
        x, y = np.asarray(x), np.asarray(y)
        if x.dtype.kind in "biu" and y.dtype.kind in "biu":
            x = x.astype(np.float64)
        return quiet(np.true_divide, x, y)

    def c_expression(self, args, dtypes, out):
        wide = "float64" if all(is_discrete(d) for d in dtypes) else out
        if is_complex(out):
            return "tng_div_%s(%s, %s)" % ((out,) + tuple(c_cast(a, d, out) for a, d in zip(args, dtypes)))
        return c_cast("(%s / %s)" % tuple(c_cast(a, d, wide) for a, d in zip(args, dtypes)), wide, out)

    def grad(self, inputs, gout):
        (x, y), (gz,) = inputs, gout
        if self.output_types([x.type, y.type])[0] in discrete_types:
            return zeros_for(inputs)
        gx = ops.true_div(gz, conj_if_complex(y))
        gy = ops.true_div(ops.neg(ops.mul(gz, conj_if_complex(x))), conj_if_complex(ops.mul(y, y)))
        # The gradient for a discrete input is the gradient with respect to this input after its conversion to a float.
        return [_reduced_gradient(x, gx), _reduced_gradient(y, gy)]


def conj_if_complex(x):
    """Return the conjugate of a complex variable. Return any other variable unchanged."""
    return ops.conj(x) if x.type in complex_types else x


def _real_only(op, types):
    if any(t in complex_types for t in types):
        raise ComplexError("%s is not defined for complex numbers; got the types %s" % (op, list(types)))


class RealDivision(BinaryScalarOp):
    """Base class of floor division and modulus. Complex numbers and integer divisions by zero raise an exception.

    Attributes
    ----------
    ufunc : callable
        The NumPy function.
    c_function : str
        The name of the C functions of ``integer.h``, without the dtype. There is one function for each dtype.
    operation : {"division", "modulo"}
        The name of the operation in error messages.
    complex_error : ComplexError
        The exception for complex inputs.

    Notes
    -----
    If ``sub`` has no item "zeros", the C code fails if an integer divisor is zero. If ``sub["zeros"]`` is None, the
    caller guarantees that no divisor is zero. Otherwise, ``sub["zeros"] % dtype`` is the name of a C variable. If a
    divisor of this dtype is zero, the code sets the variable to true and continues. Code for ``sub`` with an item
    "zeros" has no branches, so that loops can be vectorized.
    """

    c_helpers = "integer.h"
    output_types_preference = staticmethod(upcast_out_min8)

    def make_node(self, *inputs):
        inputs = [as_scalar(x) for x in inputs]
        if any(x.type in complex_types for x in inputs):
            raise self.complex_error
        return super().make_node(*inputs)

    def impl(self, x, y):
        result = quiet(self.ufunc, _bool_as_int8(x), _bool_as_int8(y))
        if not np.all(y) and np.asarray(result).dtype.kind in "iu":
            raise ZeroDivisionError(zero_divisor(self.operation, "the divisor"))
        return result

    def c_expression(self, args, dtypes, out):
        if is_complex(out) or out == "bool":
            raise self.complex_error
        x, y = (c_cast(a, d, out) for a, d in zip(args, dtypes))
        return "%s_%s(%s, %s)" % (self.c_function, out, x, y)

    def c_code(self, node, name, inputs, outputs, sub):
        return self._c_checked(node, inputs[1], sub, super().c_code(node, name, inputs, outputs, sub))

    def c_code_wide(self, node, name, inputs, outputs, sub):
        return self._c_checked(node, inputs[1], sub, self.c_code_from_expression(node, name, inputs, outputs, sub))

    def _c_checked(self, node, divisor, sub, code):
        """Return the C code `code`, which divides, together with a check for integer divisors of zero."""
        check = self._c_check(node, divisor, sub)
        # If the check only records zeros, put it after the division. The code then loads the operands in order, which
        # helps the processor's prefetcher.
        return code + "\n" + check if "zeros" in sub else check + code

    def _c_check(self, node, divisor, sub):
        """Return C code that checks for integer divisors of zero."""
        computed = self._c_dtype([i.type.dtype for i in node.inputs], node.outputs[0].type.dtype)
        if not is_discrete(computed):
            return ""
        divisor = c_cast(divisor, node.inputs[1].type.dtype, computed)
        if "zeros" in sub:
            return "%s |= (%s) == 0;\n" % (sub["zeros"] % computed, divisor) if sub["zeros"] else ""
        message = zero_divisor(self.operation, "the divisor")
        return 'if ((%s) == 0) {\n    PyErr_SetString(PyExc_ZeroDivisionError, "%s");\n    %s\n}\n' % (
            divisor,
            message,
            sub["fail"],
        )


def zero_divisor(operation, divisor):
    """Return the message of a ZeroDivisionError. tensor/native/elementwise/divisors.h contains the same text.

    Parameters
    ----------
    operation : {"division", "modulo"}
    divisor : str
        Description of the divisor that is zero.
    """
    return (
        "integer %s by zero: %s is 0. Integers have no infinity: use a divisor that is never 0, such as "
        "T.switch(T.eq(y, 0), 1, y), or divide floats. A switch around the division does not help, because it "
        "computes both of its branches." % (operation, divisor)
    )


class IntDiv(RealDivision):
    """Floor division. An integer division by zero raises ZeroDivisionError, although NumPy may return zero."""

    nfunc_spec = ("floor_divide", 2, 1)
    ufunc, c_function, operation = np.floor_divide, "tng_floordiv", "division"
    complex_error = ComplexError(
        "Theano does not support integer division (//) on complex numbers, since numpy deprecated it."
    )

    def c_code_fixed(self, node, name, inputs, outputs, sub, fixed):
        """Return C code that computes the scaled inverse of a constant divisor once, before the loop."""
        (x, y), out = [v.type.dtype for v in node.inputs], node.outputs[0].type.dtype
        if type(self) is not IntDiv or 1 not in fixed or out not in ("int8", "uint8", "int16", "uint16", "uint32"):
            return None
        if self._c_dtype([x, y], out) != out:
            return None
        before = self._c_check(node, fixed[1], sub)
        before += "const tng_divisor_%s %s_by = tng_divisor_of_%s(%s);" % (out, name, out, c_cast(fixed[1], y, out))
        return before, "%s = tng_floordiv_by_%s(%s, %s_by);" % (outputs[0], out, c_cast(inputs[0], x, out), name)

    def grad(self, inputs, g_output):
        return zeros_for(inputs)


def _bool_as_int8(x):
    return np.int8(x) if isinstance(x, (bool, np.bool_)) else x


def mod_check(x, y):
    """Return ``x % y``.

    Raises
    ------
    ComplexError
        If `x` or `y` is complex.
    """
    if as_scalar(x).type in complex_types or as_scalar(y).type in complex_types:
        raise Mod.complex_error
    return ops.mod(x, y)


class Mod(RealDivision):
    """Modulus with the sign of the divisor, as in Python.

    An integer modulo zero raises ZeroDivisionError, although NumPy may return zero.
    """

    nfunc_spec = ("mod", 2, 1)
    ufunc, c_function, operation = np.mod, "tng_mod", "modulo"
    complex_error = ComplexError(
        "Theano does not support the mod operator (%) on complex numbers, since numpy deprecated it."
    )

    def L_op(self, inputs, outputs, gout):
        zeros = discrete_gradient(inputs, outputs)
        if zeros is not None:
            return zeros
        (x, y), (gz,) = inputs, gout
        # x % y is x - y * floor(x / y), and the floor is constant almost everywhere.
        return [gz, ops.neg(ops.mul(gz, ops.floor(ops.true_div(x, y))))]

    def grad(self, inputs, gout):
        return self.L_op(inputs, self.make_node(*inputs).outputs, gout)


def power(x, y):
    """Compute ``np.power`` of arrays or scalars, with the same values as the C code.

    For an integer base and a negative integer exponent, the result is truncated towards zero, whereas NumPy raises an
    error. For the exponent 0.5, NumPy computes the square root if the exponent has certain strides. For the bases -inf
    and -0.0, the square root differs from C's ``pow``, so this function corrects the result.
    """
    kind = np.result_type(x, y).kind
    if kind in "iu":
        negative = np.less(y, 0)
        if np.any(negative):
            result = quiet(np.power, x, np.where(negative, 0, y).astype(np.asarray(y).dtype))
            inverse = np.where(
                np.equal(x, 1) | np.equal(x, -1) & np.equal(np.bitwise_and(y, 1), 0),
                1,
                np.where(np.equal(x, -1), -1, 0),
            )
            return np.where(negative, inverse.astype(result.dtype), result)[()]
    result = quiet(np.power, x, y)
    if kind == "f":
        half = np.equal(y, 0.5)
        if np.any(half):
            result = np.array(result)
            np.copyto(result, np.inf, where=half & np.equal(x, -np.inf))
            np.copyto(result, 0, where=half & np.equal(x, 0))
            return result[()]
    return result


class Pow(BinaryScalarOp):
    """Power.

    Notes
    -----
    For an integer base and a negative integer exponent, the result is truncated towards zero, and ``0 ** -1`` is 0.
    NumPy raises an error. This op does not, because neither a compiled loop nor constant folding may fail on a value.
    """

    nfunc_spec = ("power", 2, 1)
    c_helpers = "integer.h"
    c_float_helpers = "power.h"
    output_types_preference = staticmethod(upcast_out_min8)

    def impl(self, x, y):
        return power(_bool_as_int8(x), _bool_as_int8(y))

    def c_expression(self, args, dtypes, out):
        x, y = (c_cast(a, d, out) for a, d in zip(args, dtypes))
        if out == "bool":
            raise MethodNotDefined("c_code", type(self), "bool ** bool")
        if is_complex(out):
            return "__builtin_cpow%s(%s, %s)" % ("f" if out == "complex64" else "", x, y)
        return "tng_pow_%s(%s, %s)" % (out, x, y)

    def c_code_contiguous(self, node, name, inputs, outputs, sub):
        """Return C code that calls AMD LibM's array power.

        Raise MethodNotDefined unless ``config.lib.amdlibm`` is set and both operands have the type of the output.
        """
        (x, y), (z,) = inputs, outputs
        if not config.lib.amdlibm or any(v.type != node.outputs[0].type for v in node.inputs):
            raise MethodNotDefined("c_code_contiguous", type(self), self.__class__.__name__)
        function = {"float32": "amd_vrsa_powf", "float64": "amd_vrda_pow"}.get(node.outputs[0].type.dtype)
        if function is None:
            raise MethodNotDefined("c_code_contiguous", type(self), self.__class__.__name__)
        ctype = node.outputs[0].type.dtype_specs()[1]
        return """
        {
            npy_intp n = PyArray_SIZE(%(z)s);
            %(t)s* x = (%(t)s*) PyArray_DATA(%(x)s);
            %(t)s* y = (%(t)s*) PyArray_DATA(%(y)s);
            %(t)s* z = (%(t)s*) PyArray_DATA(%(z)s);
            %(function)s(n, x, y, z);
        }
        """ % {"x": x, "y": y, "z": z, "t": ctype, "function": function}

    def L_op(self, inputs, outputs, gout):
        (x, y), (gz,), (z,) = inputs, gout, outputs
        zeros = discrete_gradient(inputs, outputs)
        if zeros is not None:
            return zeros
        if z.type in complex_types:
            gx = ops.mul(gz, conj_if_complex(y * x ** (y - 1)))
            gy = ops.mul(gz, ops.conj(ops.mul(z, ops.log(ops.cast(x, z.type.dtype)))))
            return [_reduced_gradient(x, gx), _reduced_gradient(y, gy)]
        gx = gz * y * x ** (y - 1)
        # For x = 0 and y > 0, use the limit of x**y * log(x), which is 0. The formula would yield NaN.
        gy = ops.mul(gz, z, ops.log(x))
        gy = ops.switch(ops.and_(ops.eq(x, 0), ops.gt(y, 0)), gy.zeros_like(), gy)
        return [gx, gy]

    def grad(self, inputs, gout):
        return self.L_op(inputs, self.make_node(*inputs).outputs, gout)


class _Extremum(BinaryScalarOp):
    """The larger or the smaller of two inputs, by NumPy's rules. The result is NaN if an input is NaN.

    Complex numbers are ordered by their real parts. If the real parts are equal, they are ordered by their imaginary
    parts.
    """

    commutative = True
    associative = True
    output_types_preference = staticmethod(upcast_out)
    nfunc_spec = None
    c_operator = None

    def impl(self, *inputs):
        return quiet(getattr(np, self.nfunc_spec[0]), *inputs)

    def c_expression(self, args, dtypes, out):
        x, y = (c_cast(a, d, out) for a, d in zip(args, dtypes))
        if is_complex(out):
            return "((%s) != (%s) || %s ? %s : %s)" % (x, x, compare_complex(self.c_operator + "=", x, y), x, y)
        if is_discrete(out):
            return "(%s %s %s ? %s : %s)" % (x, self.c_operator, y, x, y)
        # If x is NaN, x != x selects x. If only y is NaN, both comparisons are false, which selects y.
        return "(((%s %s %s) | (%s != %s)) ? %s : %s)" % (x, self.c_operator, y, x, x, x, y)

    def L_op(self, inputs, outputs, gout):
        (x, _y), (z,), (gz,) = inputs, outputs, gout
        _real_only(self, [z.type])
        zeros = discrete_gradient(inputs, outputs)
        if zeros is not None:
            return zeros
        # If both inputs are equal, the gradient is assigned to the first input only.
        first = ops.eq(z, x)
        return [ops.mul(first, gz), ops.mul(ops.sub(constant(1, dtype="int8"), first), gz)]

    def grad(self, inputs, gout):
        return self.L_op(inputs, self.make_node(*inputs).outputs, gout)


class Maximum(_Extremum):
    __doc__ = _Extremum.__doc__
    nfunc_spec = ("maximum", 2, 1)
    c_operator = ">"


class MaximumFromNothing(Maximum):
    """The maximum of floats, for reductions that may have no elements.

    The maximum of no elements is minus infinity.
    """

    identity = -float("inf")


class Minimum(_Extremum):
    __doc__ = _Extremum.__doc__
    nfunc_spec = ("minimum", 2, 1)
    c_operator = "<"


class Clip(ScalarOp):
    """Limit x to a range: ``min`` if x < min, ``max`` if x > max, and x otherwise. NaN is unchanged."""

    nin = 3
    output_types_preference = staticmethod(upcast_out_no_complex)

    def impl(self, x, min, max):
        if x < min:
            return min
        if x > max:
            return max
        return x

    def c_expression(self, args, dtypes, out):
        if is_complex(out):
            raise ComplexError("clip is not defined for complex numbers")
        x, low, high = (c_cast(a, d, out) for a, d in zip(args, dtypes))
        return "(%s < %s ? %s : %s > %s ? %s : %s)" % (x, low, low, x, high, high, x)

    def L_op(self, inputs, outputs, gout):
        (x, low, high), (gz,) = inputs, gout
        _real_only(self, [gz.type])
        zeros = discrete_gradient(inputs, outputs)
        if zeros is not None:
            return zeros
        below = ops.lt(x, low)
        above = ops.gt(x, high)
        # As in `impl`, the minimum takes precedence: if x < min, the comparison of x with max has no effect.
        inside = ops.mul(ops.sub(constant(1, dtype="int8"), below), ops.sub(constant(1, dtype="int8"), above))
        over = ops.mul(ops.sub(constant(1, dtype="int8"), below), above)
        return [ops.mul(inside, gz), ops.mul(below, gz), ops.mul(over, gz)]

    def grad(self, inputs, gout):
        return self.L_op(inputs, self.make_node(*inputs).outputs, gout)


class Second(BinaryScalarOp):
    """The second input. The first input is not read: only its shape affects the elementwise version (`fill`)."""

    output_types_preference = transfer_type(1)
    on_arrays = True

    def impl(self, x, y):
        return y

    value = impl

    def c_expression(self, args, dtypes, out):
        return c_cast(args[1], dtypes[1], out)

    def connection_pattern(self, node):
        """Return the pattern of an output that does not depend on the first input."""
        return [[False], [True]]

    def grad(self, inputs, gout):
        y, (gz,) = inputs[1], gout
        if y.type not in discrete_types:
            return [disconnected_type(), gz]
        return [disconnected_type(), y.zeros_like(dtype=config.floatX)]


class Identity(UnaryScalarOp):
    """The unchanged input."""

    output_types_preference = staticmethod(same_out)
    on_arrays = True

    def impl(self, input):
        return input

    value = impl

    def c_expression(self, args, dtypes, out):
        return c_cast(args[0], dtypes[0], out)

    def grad(self, inputs, gout):
        (x,), (gz,) = inputs, gout
        if x.type in discrete_types:
            return zeros_for(inputs)
        return [gz]


class Switch(ScalarOp):
    """The second input if the first input is not zero. Otherwise, the third input."""

    nin = 3
    nfunc_spec = ("where", 3, 1)

    def impl(self, cond, ift, iff):
        return ift if cond else iff

    def output_types(self, types):
        if "output_types_preference" in self.__dict__:
            # An in-place version has the type of the overwritten input.
            return self.output_types_preference(*types)
        return upcast_out(types[1], types[2])

    def c_expression(self, args, dtypes, out):
        cond, ift, iff = args
        return "((%s) != 0 ? %s : %s)" % (cond, c_cast(ift, dtypes[1], out), c_cast(iff, dtypes[2], out))

    def L_op(self, inputs, outputs, gout):
        (cond, ift, iff), (gz,) = inputs, gout
        # The gradient with respect to the condition is zero: almost everywhere, a small change of a float condition
        # does not change the result.
        gcond = cond.zeros_like(dtype=config.floatX if cond.type in discrete_types else cond.type.dtype)
        if outputs[0].type in discrete_types:
            return [gcond] + zeros_for([ift, iff])
        zero = gz.zeros_like()
        gradients = [(ift, ops.switch(cond, gz, zero)), (iff, ops.switch(cond, zero, gz))]
        return [gcond, *[_reduced_gradient(x, g) for x, g in gradients]]

    def grad(self, inputs, gout):
        return self.L_op(inputs, self.make_node(*inputs).outputs, gout)


def int_or_true_div(x_discrete, y_discrete):
    """Return the op that the operator ``/`` applies.

    Parameters
    ----------
    x_discrete, y_discrete : bool
        True if the operand is an integer.

    Returns
    -------
    `int_div` for two discrete operands if ``config.int_division`` is 'int', and `true_div` otherwise.

    Raises
    ------
    IntegerDivisionError
        For two discrete operands if ``config.int_division`` is 'raise'.
    """
    if x_discrete and y_discrete:
        if config.int_division == "raise":
            raise IntegerDivisionError(
                "With `config.int_division` set to 'raise', dividing two integer types with '/' is forbidden to avoid confusion "
                "between integer and floating point divisions. Please use // for integer division, or if you want a float "
                "result either cast one of the arguments to a float or directly call `x.__truediv__(y)`."
            )
        if config.int_division == "int":
            return ops.int_div
    return ops.true_div


def div_proxy(x, y):
    """Return ``x / y``, computed with the op that `int_or_true_div` chooses."""
    x, y = as_scalar(x), as_scalar(y)
    return int_or_true_div(x.type in discrete_types, y.type in discrete_types)(x, y)
