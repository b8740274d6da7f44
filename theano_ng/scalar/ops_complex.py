"""Parts of complex numbers, and conversions between dtypes.

The gradient of a real cost with respect to a complex variable z is ``d cost / d re(z) + 1j * d cost / d im(z)``.
"""

import numpy as np

from theano_ng.configdefaults import config
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.scalar.instances import ops
from theano_ng.scalar.op import BinaryScalarOp, UnaryScalarOp, c_cast, is_complex, is_discrete, zeros_for
from theano_ng.scalar.out_types import complex_out, real_out, same_out_min8, specific_out
from theano_ng.scalar.types import (
    DTYPE_SPECS,
    Scalar,
    as_scalar,
    c_type,
    complex_types,
    constant,
    discrete_types,
    float64,
    get_scalar_type,
)

_PART = {"complex64": "float32", "complex128": "float64"}


def _rebuild(x, re, im):
    """Return the complex number (re, im) in the dtype of the complex variable `x`."""
    return ops.cast(ops.complex(re, im), x.type.dtype)


class Real(UnaryScalarOp):
    """Real part."""

    output_types_preference = staticmethod(real_out)

    def impl(self, x):
        return np.real(x)

    def c_expression(self, args, dtypes, out):
        return "TNG_RE(%s)" % args[0] if is_complex(dtypes[0]) else c_cast(args[0], dtypes[0], out)

    def grad(self, inputs, gout):
        (x,), (gz,) = inputs, gout
        if x.type in discrete_types:
            return zeros_for(inputs)
        return [_rebuild(x, gz, constant(0, dtype="int8")) if x.type in complex_types else gz]


class Imag(UnaryScalarOp):
    """Imaginary part. It is zero for a real number."""

    nfunc_spec = ("imag", 1, 1)
    output_types_preference = staticmethod(real_out)

    def impl(self, x):
        return np.imag(x)

    def c_expression(self, args, dtypes, out):
        return "TNG_IM(%s)" % args[0] if is_complex(dtypes[0]) else "0"

    def grad(self, inputs, gout):
        (x,), (gz,) = inputs, gout
        if x.type in complex_types:
            return [_rebuild(x, constant(0, dtype="int8"), gz)]
        return zeros_for(inputs)


class Angle(UnaryScalarOp):
    """Argument (angle) of a number in the complex plane, in radians."""

    nfunc_spec = ("angle", 1, 1)
    output_types_preference = specific_out(float64)

    def impl(self, x):
        # Compute in double precision, the dtype of the output.
        return np.angle(np.complex128(x) if np.iscomplexobj(x) else np.float64(x))

    def c_expression(self, args, dtypes, out):
        (x,), (dtype,) = args, dtypes
        if is_complex(dtype):
            return "atan2(TNG_IM(%s), TNG_RE(%s))" % (x, x)
        if is_discrete(dtype):
            return "((%s) < 0 ? %r : 0.0)" % (c_cast(x, dtype, "float64" if dtype[0] != "i" else dtype), np.pi)
        return "atan2(0.0, (npy_float64)(%s))" % x

    def grad(self, inputs, gout):
        (x,), (gz,) = inputs, gout
        if x.type not in complex_types:
            return zeros_for(inputs)
        re, im = ops.real(x), ops.imag(x)
        scaled = ops.true_div(gz, ops.add(ops.sqr(re), ops.sqr(im)))
        return [_rebuild(x, ops.neg(ops.mul(im, scaled)), ops.mul(re, scaled))]


def _refuse_complex(op, x, y):
    for v in (x, y):
        if v.type in complex_types:
            raise TypeError("%s expected real inputs, got one of type %s" % (op, v.type))


def _complex_type(*parts):
    """Return the NumPy type of a complex number with the given parts."""
    return np.result_type(np.result_type(*[np.asarray(part).dtype for part in parts]), np.complex64).type


class Complex(BinaryScalarOp):
    """Complex number with the given real and imaginary parts."""

    output_types_preference = staticmethod(complex_out)

    def make_node(self, x, y):
        x, y = as_scalar(x), as_scalar(y)
        _refuse_complex(self, x, y)
        return super().make_node(x, y)

    def impl(self, x, y):
        return _complex_type(x, y)(complex(x, y))

    def c_code(self, node, name, inputs, outputs, sub):
        # Assign the parts separately: x + y*i would turn an infinite part into NaN.
        if any(i.type.dtype == "float16" for i in node.inputs):
            raise MethodNotDefined("c_code", type(self), "complex of float16")
        part = _PART[node.outputs[0].type.dtype]
        (x, y), (z,) = inputs, outputs
        dtypes = [i.type.dtype for i in node.inputs]
        # Assign to a local variable first, because the name of the output may be a dereferenced pointer.
        return "{ %s %s_z; TNG_RE(%s_z) = %s; TNG_IM(%s_z) = %s; %s = %s_z; }" % (
            c_type(node.outputs[0].type.dtype),
            name,
            name,
            c_cast(x, dtypes[0], part),
            name,
            c_cast(y, dtypes[1], part),
            z,
            name,
        )

    def grad(self, inputs, gout):
        (gz,) = gout
        parts = [ops.real(gz), ops.imag(gz)]
        return [p if v.type not in discrete_types else zeros_for([v])[0] for v, p in zip(inputs, parts)]


class Conj(UnaryScalarOp):
    """Complex conjugate. A real number is its own conjugate."""

    nfunc_spec = ("conj", 1, 1)
    output_types_preference = staticmethod(same_out_min8)

    def impl(self, x):
        return np.conj(x)

    def c_expression(self, args, dtypes, out):
        value = c_cast(args[0], dtypes[0], out)
        return "tng_conj_%s(%s)" % (out, value) if is_complex(dtypes[0]) else value

    def grad(self, inputs, gout):
        (x,), (gz,) = inputs, gout
        if x.type in discrete_types:
            return zeros_for(inputs)
        return [ops.conj(gz) if gz.type in complex_types else gz]


class ComplexFromPolar(BinaryScalarOp):
    """Complex number with the given modulus and argument."""

    output_types_preference = staticmethod(complex_out)

    def make_node(self, r, theta):
        r, theta = as_scalar(r), as_scalar(theta)
        _refuse_complex(self, r, theta)
        return super().make_node(r, theta)

    def impl(self, r, theta):
        with np.errstate(all="ignore"):
            dtype, r, theta = _complex_type(r, theta), np.float64(r), np.float64(theta)
            return dtype(complex(r * np.cos(theta), r * np.sin(theta)))

    def c_code(self, node, name, inputs, outputs, sub):
        if any(i.type.dtype == "float16" for i in node.inputs):
            raise MethodNotDefined("c_code", type(self), "complex_from_polar of float16")
        (r, theta), (z,) = inputs, outputs
        part = _PART[node.outputs[0].type.dtype]
        suffix = "f" if part == "float32" else ""
        dtypes = [i.type.dtype for i in node.inputs]
        r, theta = c_cast(r, dtypes[0], part), c_cast(theta, dtypes[1], part)
        return "{ %s %s_z; TNG_RE(%s_z) = %s * cos%s(%s); TNG_IM(%s_z) = %s * sin%s(%s); %s = %s_z; }" % (
            c_type(node.outputs[0].type.dtype),
            name,
            name,
            r,
            suffix,
            theta,
            name,
            r,
            suffix,
            theta,
            z,
            name,
        )

    def grad(self, inputs, gout):
        (r, theta), (gz,) = inputs, gout
        re, im = ops.real(gz), ops.imag(gz)
        cos, sin = ops.cos(theta), ops.sin(theta)
        gr = ops.add(ops.mul(re, cos), ops.mul(im, sin))
        gtheta = ops.mul(r, ops.sub(ops.mul(im, cos), ops.mul(re, sin)))
        return [g if v.type not in discrete_types else zeros_for([v])[0] for v, g in zip(inputs, (gr, gtheta))]


class Cast(UnaryScalarOp):
    """Conversion to a given type.

    Parameters
    ----------
    o_type : Scalar
    name : str, optional
    """

    _f16_ok = True

    def __init__(self, o_type, name=None):
        if not isinstance(o_type, Scalar):
            raise TypeError("Cast expected a Scalar type, got %r" % (o_type,))
        super().__init__(specific_out(o_type), name=name)
        self.o_type = o_type
        self.ctor = DTYPE_SPECS[o_type.dtype][0]

    def __str__(self):
        return "%s{%s}" % (self.__class__.__name__, self.o_type.dtype)

    def __reduce__(self):
        return type(self), (self.o_type, self.name)

    def _identity(self):
        return (type(self), None, (self.o_type.dtype,))

    def clone_float32(self):
        """Return the cast to float32 if `self` is a cast to float16. Otherwise, return `self`."""
        return ops.convert_to_float32 if self.o_type == ops.float16 else self

    def make_new_inplace(self, output_types_preference=None, name=None):
        """Return an equal cast. Its output type cannot be changed."""
        return self.__class__(self.o_type, name=name)

    on_arrays = True

    def impl(self, input):
        return self._cast(input, self.o_type.dtype)

    def value(self, x):
        """Return `x`, which already has the dtype of the output."""
        return x

    def c_code(self, node, name, inputs, outputs, sub):
        if node.outputs[0].type.dtype == "float16":
            dtype = node.inputs[0].type.dtype
            if dtype == "float16":
                return "%s = %s;" % (outputs[0], inputs[0])
            if dtype != "float32":
                # Convert from float64: a conversion through float32 would round twice.
                return "%s = tng_double_to_half(%s);" % (outputs[0], c_cast(inputs[0], dtype, "float64"))
        return super().c_code(node, name, inputs, outputs, sub)

    def c_code_wide(self, node, name, inputs, outputs, sub):
        source, target = node.inputs[0].type.dtype, node.outputs[0].type.dtype
        if target == "float16" and source not in ("float16", "float32"):
            return "%s = tng_half_to_float(tng_double_to_half(%s));" % (
                outputs[0],
                c_cast(inputs[0], source, "float64"),
            )
        return "%s = %s;" % (
            outputs[0],
            c_cast(inputs[0], *["float32" if d == "float16" else d for d in (source, target)]),
        )

    def c_expression(self, args, dtypes, out):
        return c_cast(args[0], dtypes[0], out)

    def c_code_cache_version(self):
        return (3,)

    def grad(self, inputs, gout):
        (x,), (gz,) = inputs, gout
        # The gradient for an integer input is the gradient for this input after its conversion to a float.
        dtype = config.floatX if x.type in discrete_types else x.type.dtype
        if self.o_type in discrete_types:
            return [x.zeros_like(dtype=dtype)]
        if gz.type in complex_types and x.type not in complex_types:
            gz = ops.real(gz)
        return [ops.cast(gz, dtype)]


# `cast` returns these instances, one for each dtype.
CASTS = {dtype: Cast(get_scalar_type(dtype), name="convert_to_%s" % dtype) for dtype in DTYPE_SPECS}


def cast(x, dtype):
    """Return the scalar `x` converted to `dtype`.

    Parameters
    ----------
    x : number or scalar variable
    dtype : str
        The dtype of the result. ``'floatX'`` means ``config.floatX``.

    Returns
    -------
    ScalarVariable
        `x` itself if it already has the dtype.

    Raises
    ------
    TypeError
        For an unknown dtype.
    """
    dtype = config.floatX if dtype == "floatX" else str(dtype)
    x = as_scalar(x)
    if x.type.dtype == dtype:
        return x
    if dtype not in CASTS:
        raise TypeError("Cannot cast to the dtype %r; expected one of %s" % (dtype, ", ".join(sorted(CASTS))))
    return CASTS[dtype](x)
