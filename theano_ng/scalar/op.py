"""Base classes of the scalar ops."""

import functools
import os
from copy import copy

import numpy as np

from theano_ng.configdefaults import config
from theano_ng.gof.compiler.kernelcache import c_include_text
from theano_ng.gof.compiler.toolchain import missing_compiler
from theano_ng.gof.graph import Apply
from theano_ng.gof.null_type import NullType
from theano_ng.gof.op import Op
from theano_ng.gof.provenance import is_from_package
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.scalar.instances import ops
from theano_ng.scalar.out_types import upgrade_to_float
from theano_ng.scalar.types import as_scalar, c_type, complex_types, discrete_types, get_scalar_type, upcast

_C_CODE_DIR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "c_code")
_support_texts = {}


def support_text(name):
    """Return the text of the header `name` of ``scalar/c_code``.

    The header may be included several times in a compilation unit.
    """
    text = _support_texts.get(name)
    if text is None:
        with open(os.path.join(_C_CODE_DIR, name)) as f:
            text = _support_texts[name] = f.read()
    return text


@functools.cache
def _complex_numbers():
    """Return the text of the C header for complex arithmetic. In C++, the prologue already contains this header."""
    return c_include_text("complex_numbers.h")


def c_cast(arg, dtype, to):
    """Return a C expression that converts `arg` from the dtype `dtype` to the dtype `to`.

    Neither dtype may be float16.
    """
    if dtype == to:
        return arg
    if to == "bool":
        return "((npy_bool)((%s) != 0))" % arg
    if dtype.startswith("complex") and not to.startswith("complex"):
        arg = "TNG_RE(%s)" % arg
    cast = "((%s)(%s))" % (c_type(to), arg)
    return cast if is_discrete(dtype) or not is_discrete(to) else "TNG_INTEGER(%s)" % cast


def _wide(dtype):
    """Return the dtype in which values of `dtype` are computed: float32 for float16, otherwise `dtype` itself."""
    return "float32" if dtype == "float16" else dtype


def is_complex(dtype):
    """Return True if the dtype string names a complex type."""
    return dtype[0] == "c"


def is_float(dtype):
    """Return True if the dtype string names a real float type."""
    return dtype[0] == "f"


def is_discrete(dtype):
    """Return True if the dtype string names an integer type or bool."""
    return dtype[0] in "biu"


def float_function(function, dtype):
    """Return the C name of the libm function `function` for `dtype`.

    A complex function is called as a compiler builtin, which needs no header in C or C++.
    """
    if is_complex(dtype):
        return "__builtin_c%s%s" % (function, "f" if dtype == "complex64" else "")
    return function + ("f" if dtype == "float32" else "")


def zeros_for(inputs):
    """Return one zero per input: the gradient of a function that is constant almost everywhere.

    The zero of a discrete input has the dtype floatX. The zero of any other input has the dtype of the input.
    """
    return [x.zeros_like(dtype=config.floatX if x.type in discrete_types else x.type.dtype) for x in inputs]


def discrete_gradient(inputs, outputs):
    """Return zero gradients if the output is discrete. Otherwise, return None."""
    if outputs[0].type in discrete_types:
        return zeros_for(inputs)
    return None


class ScalarOp(Op):
    """An operation on scalars. Elemwise and CAReduce extend it to tensors.

    Parameters
    ----------
    output_types_preference : callable, optional
        A function from the input types to the list of the output types. The default is the method
        `output_types_preference` of the class, or an overridden `output_types`.
    name : str, optional
        The printed form of the op.

    Notes
    -----
    A subclass defines `impl`, a Python function of scalars. For C, it defines `c_expression`, or `c_code`, the template
    of Theano. From `c_expression`, the base class builds `c_code` for all dtypes, including float16. Two ops are equal
    if they have the same class, the same `output_types_preference` and, if the class has ``__props__``, the same props.
    """

    is_scalar_op = True
    nin = -1
    nout = 1
    # If True, `c_code` computes with the bits of float16, and is preferred to `c_code_wide`.
    on_half_bits = False
    # The header of scalar/c_code that the generated C code needs, or a tuple of headers in order.
    c_helpers = None
    # The header that the generated C code needs if it computes real floats. Before this header, the macro
    # TNG_FOR_float32 or TNG_FOR_float64 is defined, according to the dtype of the computation.
    c_float_helpers = None
    nfunc_spec = None
    # The first exported instance of this class. `_c_dtype` uses the output types of this instance.
    usual = None

    def _call_signature(self):
        import inspect

        parameters = inspect.signature(self.impl).parameters.values()
        if self.nin >= 0 and any(p.kind is p.VAR_POSITIONAL for p in parameters):
            parameters = [inspect.Parameter("x%d" % i, inspect.Parameter.POSITIONAL_ONLY) for i in range(self.nin)]
        return inspect.Signature(parameters)

    @property
    def _f16_ok(self):
        """True if the C code supports float16. Code that is built from `c_expression` supports float16.

        A subclass whose own template supports float16 overrides this attribute.
        """
        return type(self).c_code is ScalarOp.c_code

    def __init__(self, output_types_preference=None, name=None):
        self.name = name
        if output_types_preference is not None:
            if not callable(output_types_preference):
                raise TypeError(
                    "Expected a callable for the 'output_types_preference' argument to %s. (got: %s)"
                    % (self.__class__, output_types_preference)
                )
            self.output_types_preference = output_types_preference

    def make_node(self, *inputs):
        """Return a node that applies the op to `inputs`, which are numbers or scalar variables."""
        if self.nin >= 0 and len(inputs) != self.nin:
            raise TypeError(
                "Wrong number of inputs for %s.make_node (got %i(%s), expected %i)"
                % (self, len(inputs), ", ".join(map(str, inputs)), self.nin)
            )
        inputs = [as_scalar(x) for x in inputs]
        outputs = [t() for t in self.output_types([x.type for x in inputs])]
        if len(outputs) != self.nout:
            raise TypeError(
                "%s: its output types are %s, but it needs one type for each of its %i outputs"
                % (self, [o.type for o in outputs], self.nout)
            )
        return Apply(self, inputs, outputs)

    def output_types(self, types):
        """Return the output types for the given input types."""
        preference = getattr(self, "output_types_preference", None)
        if preference is None:
            raise NotImplementedError(
                "Cannot calculate the output types for %s: it has no output_types_preference" % self
            )
        variables = preference(*types)
        if not isinstance(variables, (list, tuple)) or any(not callable(v) for v in variables):
            raise TypeError("output_types_preference should return a list or a tuple of types", preference, variables)
        if len(variables) != self.nout:
            raise TypeError(
                "Not the right number of outputs produced for %s(%s). Expected %s, got %s."
                % (self, ", ".join(str(t) for t in types), self.nout, len(variables))
            )
        return variables

    def impl(self, *inputs):
        """Compute the output, or the tuple of outputs, from numbers."""
        kind = type(self)
        has_c = kind.c_code is not ScalarOp.c_code or kind.c_expression is not ScalarOp.c_expression
        missing = has_c and missing_compiler()
        if missing:
            raise MethodNotDefined("impl", kind, kind.__name__, "The Op has C code only, and there is " + missing)
        raise MethodNotDefined("impl", kind, kind.__name__)

    def perform(self, node, inputs, output_storage):
        if self.nout == 1:
            output_storage[0][0] = self._cast(self.impl(*inputs), node.outputs[0].type.dtype)
        else:
            values = self.impl(*inputs)
            if len(values) != self.nout:
                raise ValueError("%s.impl returned %d values, expected %d" % (self, len(values), self.nout))
            for storage, value, output in zip(output_storage, values, node.outputs):
                storage[0] = self._cast(value, output.type.dtype)

    @staticmethod
    def _cast(value, dtype):
        if getattr(value, "dtype", None) == dtype and not isinstance(value, np.ndarray):
            return value
        with np.errstate(all="ignore"):
            value = np.asarray(value)
            if value.dtype.kind == "c" and dtype[0] != "c":
                value = value.real
            return value.astype(dtype)[()]

    def grad(self, inputs, output_gradients):
        raise MethodNotDefined("grad", type(self), self.__class__.__name__)

    def L_op(self, inputs, outputs, output_gradients):
        return self.grad(inputs, output_gradients)

    def R_op(self, inputs, eval_points):
        """Return the forward-mode derivative: the sum over the inputs of (d output / d input) * eval point.

        All inputs and outputs are scalars. So if the gradient for one output is 1 and the gradients for all other
        outputs are 0, `L_op` returns the derivatives of this output.
        """
        if all(e is None for e in eval_points):
            return [None] * self.nout
        outputs = self.make_node(*inputs).outputs
        results = []
        for i in range(len(outputs)):
            cotangents = [o.ones_like() if j == i else o.zeros_like() for j, o in enumerate(outputs)]
            total = None
            for slope, point in zip(self.L_op(inputs, outputs, cotangents), eval_points):
                if point is None:
                    continue
                if isinstance(slope.type, NullType):
                    raise NotImplementedError("R_op: " + slope.type.why_null)
                if not hasattr(slope.type, "dtype"):
                    continue  # disconnected
                term = ops.mul(slope, point)
                total = term if total is None else ops.add(total, term)
            results.append(total)
        return results

    # Identity

    def _identity(self):
        props = getattr(self, "__props__", None)
        return (
            type(self),
            getattr(self, "output_types_preference", None) if "output_types_preference" in self.__dict__ else None,
            tuple(getattr(self, p) for p in props) if props else (),
        )

    def __eq__(self, other):
        return self is other or (type(self) is type(other) and self._identity() == other._identity())

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        cls, preference, props = self._identity()
        if isinstance(preference, type(zeros_for)):
            preference = (preference.__module__, preference.__qualname__)
        return hash((cls.__module__, cls.__qualname__, preference, props))

    def __str__(self):
        if getattr(self, "name", None):
            return self.name
        hidden = ("name", "output_types_preference", "_op_use_c_code", "nfunc_spec")
        params = [
            "%s=%s" % item for item in self.__dict__.items() if item[0] not in hidden and not item[0].startswith("_")
        ]
        if params:
            return "%s{%s}" % (self.__class__.__name__, ", ".join(params))
        return self.__class__.__name__

    def __repr__(self):
        return str(self)

    def make_new_inplace(self, output_types_preference=None, name=None):
        """Return a copy of the op with other output types. An Elemwise that works in place needs such a copy.

        Parameters
        ----------
        output_types_preference : callable, optional
        name : str, optional
        """
        op = copy(self)
        op.name = name
        if output_types_preference is not None:
            op.output_types_preference = output_types_preference
        return op

    # C

    def c_expression(self, args, dtypes, out):
        """Return a C expression, valid as C11 and as C++, for the value of the op.

        Parameters
        ----------
        args : list of str
            The names of the inputs in C.
        dtypes : list of str
            The dtypes of the inputs. They are never float16, because the caller passes a float16 value as float32.
        out : str
            The dtype of the output. The caller converts the expression to this dtype.

        Raises
        ------
        MethodNotDefined
            If the op has no C code for these dtypes.
        """
        raise MethodNotDefined("c_expression", type(self), self.__class__.__name__)

    def _c_dtype(self, dtypes, out):
        """Return the dtype in which the C code computes an output of dtype `out`.

        The output of an op that works in place may have a smaller range than the computed value, as in ``x /= y`` for
        an integer x and a float y. The code computes the value in the output dtype of the instance `usual`, and then
        converts the value to `out`.
        """
        usual = type(self).usual
        if usual is None or self.nout != 1:
            return out
        if getattr(usual, "output_types_preference", None) is getattr(self, "output_types_preference", None):
            return out
        try:
            (computed,) = [t.dtype for t in usual.output_types([get_scalar_type(d) for d in dtypes])]
        except (TypeError, ValueError, NotImplementedError):
            return out
        return computed if upcast(computed, out) == computed else out

    def _c_value(self, args, dtypes, out):
        """Return a C expression: `c_expression`, converted to the dtype `out`."""
        computed = _wide(self._c_dtype(dtypes, out))
        if computed == out:
            return self.c_expression(args, dtypes, out)
        return c_cast("(%s)" % self.c_expression(args, dtypes, computed), computed, out)

    def c_code(self, node, name, inputs, outputs, sub):
        """Return C code that computes ``outputs`` from ``inputs``. See `c_expression`."""
        (output,) = outputs
        dtypes = [i.type.dtype for i in node.inputs]
        out = node.outputs[0].type.dtype
        if type(self).c_expression is ScalarOp.c_expression:
            raise MethodNotDefined("c_code", type(self), self.__class__.__name__)
        if "float16" not in dtypes and out != "float16":
            return "%s = %s;" % (output, self._c_value(list(inputs), dtypes, out))
        declarations, args = [], []
        for k, (arg, dtype) in enumerate(zip(inputs, dtypes)):
            if dtype == "float16":
                local = "%s_h%d" % (name, k)
                declarations.append("npy_float32 %s = tng_half_to_float(%s);" % (local, arg))
                arg = local
            args.append(arg)
        expression = self._c_value(args, [_wide(d) for d in dtypes], _wide(out))
        if out == "float16":
            expression = "tng_float_to_half((npy_float32)(%s))" % expression
        return "{ %s %s = %s; }" % (" ".join(declarations), output, expression)

    def c_code_wide(self, node, name, inputs, outputs, sub):
        """Return C code like `c_code`, for float16 operands that are stored in variables of the type npy_float32.

        Elementwise kernels use this code. They convert whole blocks of float16 operands, and round the outputs
        afterwards.

        Raises
        ------
        MethodNotDefined
            If an operand is float16 and the class overrides `c_code`.
        """
        if type(self).c_code is not ScalarOp.c_code:
            if all(v.type.dtype != "float16" for v in (*node.inputs, *node.outputs)):
                return self.c_code(node, name, inputs, outputs, sub)
            raise MethodNotDefined("c_code_wide", type(self), self.__class__.__name__)
        return self.c_code_from_expression(node, name, inputs, outputs, sub)

    def c_code_from_expression(self, node, name, inputs, outputs, sub):
        """Return the C code of `c_code_wide` for an op that defines `c_expression`."""
        dtypes = [_wide(v.type.dtype) for v in (*node.inputs, *node.outputs)]
        return "%s = %s;" % (outputs[0], self._c_value(list(inputs), dtypes[:-1], dtypes[-1]))

    def c_code_fixed(self, node, name, inputs, outputs, sub, fixed):
        """Return C code like `c_code` in two parts, for a loop in which some inputs are constant.

        Parameters
        ----------
        fixed : dict
            A dict from the number of an input that is constant in the loop to the C name of its value outside the loop.

        Returns
        -------
        (str, str) or None
            The code before the loop, and the code of the loop body. None if this code is not faster than `c_code`.
        """
        return None

    def c_code_contiguous(self, node, name, inp, out, sub):
        """Return C code that computes whole contiguous arrays, or raise MethodNotDefined.

        In this package, such code always consists of calls of AMD LibM. For other ops, the compiler vectorizes the loop
        over `c_code`.
        """
        raise MethodNotDefined("c_code_contiguous", type(self), self.__class__.__name__)

    def c_support_code(self):
        names = (self.c_helpers,) if isinstance(self.c_helpers, str) else self.c_helpers or ()
        return "".join([support_text(name) for name in names])

    def c_support_code_apply(self, node, name):
        """Return the support code that depends on the dtypes: float16 conversions, complex types, `c_float_helpers`."""
        dtypes = [v.type.dtype for v in node.inputs] + [v.type.dtype for v in node.outputs]
        code = support_text("half.h") if "float16" in dtypes else ""
        if any(d[0] == "c" for d in dtypes):
            code += _complex_numbers()
        computed = self._c_dtype(dtypes[: len(node.inputs)], node.outputs[0].type.dtype)
        if self.c_float_helpers and is_float(computed):
            kind = "TNG_FOR_" + _wide(computed)
            code += "#ifndef %s\n#define %s\n#endif\n" % (kind, kind) + support_text(self.c_float_helpers)
        return code

    def c_headers(self):
        return []

    @property
    def c_code_is_own(self):
        """True if `c_code` belongs to this package, and thus is plain C code.

        The `c_code` of other authors may expect the C++ classes of complex_numbers.h for complex numbers.
        """
        return is_from_package(type(self).c_code)

    @property
    def c_support_is_c(self):
        """True if the support code is known to be plain C code without headers. Then a kernel can be compiled as C.

        The support code of the base class is plain C. A class that overrides its support code or headers may need C++.
        """
        cls = type(self)
        return all(
            getattr(cls, method) is getattr(ScalarOp, method)
            for method in ("c_support_code", "c_support_code_apply", "c_headers")
        )

    def c_code_cache_version(self):
        return (1,)

    def c_code_cache_version_apply(self, node):
        return self.c_code_cache_version()

    def supports_c_code(self, inputs, outputs):
        """Return True if the op has C code for inputs and outputs of these types.

        Parameters
        ----------
        inputs, outputs : list of variables with a ``dtype``
        """
        node = Apply(
            self,
            [get_scalar_type(i.type.dtype).make_variable() for i in inputs],
            [get_scalar_type(o.type.dtype).make_variable() for o in outputs],
        )
        try:
            self.c_code(
                node,
                "test_c_code",
                ["x%d" % i for i in range(len(inputs))],
                ["z%d" % i for i in range(len(outputs))],
                {"fail": "%(fail)s"},
            )
        except (MethodNotDefined, NotImplementedError):
            return False
        return True


class UnaryScalarOp(ScalarOp):
    """A scalar op of one input."""

    nin = 1
    # The names of the array functions of AMD LibM for float32 and float64, which are used if config.lib.amdlibm is set.
    amd_float32 = None
    amd_float64 = None

    def c_code_contiguous(self, node, name, inputs, outputs, sub):
        """Return C code that calls the AMD LibM array function of the class.

        Raise MethodNotDefined if ``config.lib.amdlibm`` is not set, or if the types of the input and output differ.
        """
        (x,), (z,) = inputs, outputs
        if not config.lib.amdlibm or node.inputs[0].type != node.outputs[0].type:
            raise MethodNotDefined("c_code_contiguous", type(self), self.__class__.__name__)
        dtype = node.inputs[0].type.dtype_specs()[1]
        call = self.c_code_contiguous_raw(dtype, "n", "x", "z")
        return """
        {
            npy_intp n = PyArray_SIZE(%(z)s);
            %(dtype)s* x = (%(dtype)s*) PyArray_DATA(%(x)s);
            %(dtype)s* z = (%(dtype)s*) PyArray_DATA(%(z)s);
            %(call)s
        }
        """ % {"x": x, "z": z, "dtype": dtype, "call": call}

    def c_code_contiguous_raw(self, dtype, n, i, o):
        """Return a C call of the library function that reads `n` elements of type `dtype` from `i` and writes `o`."""
        if not config.lib.amdlibm:
            raise MethodNotDefined("c_code_contiguous_raw", type(self), self.__class__.__name__)
        if dtype.startswith("npy_"):
            dtype = dtype[4:]
        function = {"float32": self.amd_float32, "float64": self.amd_float64}.get(dtype)
        if function is None:
            raise MethodNotDefined("c_code_contiguous_raw", type(self), self.__class__.__name__)
        return "%s(%s, %s, %s);" % (function, n, i, o)


class BinaryScalarOp(ScalarOp):
    """A scalar op of two inputs."""

    nin = 2


class AsDeclared:
    """A mixin for classes of ops. If an op of the class does not support some input types, its in-place version rejects
    these types, too.

    An in-place version is an instance with its own `output_types_preference`, which would accept these types. Therefore
    `output_types` first calls the `output_types_preference` of the class, which raises TypeError for these types.
    """

    def output_types(self, types):
        type(self).output_types_preference(*types)
        return super().output_types(types)


def compute_in_output_float(x):
    """Convert a one-byte integer or bool to float32, as `upgrade_to_float` does. NumPy would compute in float16."""
    kind = getattr(x, "dtype", None)
    if kind is not None and kind.itemsize == 1 and kind.kind in "biu":
        return np.asarray(x).astype(np.float32)[()]
    return x


class UnaryMath(UnaryScalarOp):
    """A function of one number that both NumPy and libm define.

    Class attributes: ``nfunc_spec`` (NumPy's name), ``c_function`` (libm's name), and ``c_complex`` (True if C has the
    function for complex numbers).
    """

    output_types_preference = staticmethod(upgrade_to_float)
    c_function = None
    c_complex = True

    def impl(self, x):
        with np.errstate(all="ignore"):
            return getattr(np, self.nfunc_spec[0])(compute_in_output_float(x))

    def c_expression(self, args, dtypes, out):
        if not self.c_complex and (is_complex(dtypes[0]) or is_complex(out)) or is_discrete(out):
            raise MethodNotDefined("c_code", type(self), "%s of %s" % (self.c_function, dtypes[0]))
        return "%s(%s)" % (float_function(self.c_function, out), c_cast(args[0], dtypes[0], out))

    def gradient(self, gz, x, z):
        """Return the gradient for `x`, which is not discrete. `gz` is the gradient for the output `z`."""
        raise MethodNotDefined("gradient", type(self), self.__class__.__name__)

    def L_op(self, inputs, outputs, gout):
        (x,), (z,), (gz,) = inputs, outputs, gout
        if gz.type in complex_types:
            raise NotImplementedError("the gradient of %s with respect to a complex input is not defined" % self)
        zeros = discrete_gradient(inputs, outputs)
        if zeros is not None:
            return zeros
        if x.type in discrete_types:
            # Convert x, because the formula of the gradient could overflow in integer arithmetic.
            x = ops.cast(x, z.type.dtype)
        return [self.gradient(gz, x, z)]

    def grad(self, inputs, gout):
        return self.L_op(inputs, self.make_node(*inputs).outputs, gout)
