"""Ops for variables of any Type: copies, views, shapes, assertions about shapes, and wrapped Python functions.

This module does not depend on particular Types. The C code of these Ops for a Type is registered with the functions
`register_*_c_code` (as text, which is the documented way) or, in this package, with `gof.native.register_native_code`.
"""

from __future__ import annotations

import copy
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from theano_ng.compile.function_op import FromFunctionOp, as_op, load_back
from theano_ng.gof import ports
from theano_ng.gof.derivative import disconnected_gradients, grad_not_implemented
from theano_ng.gof.graph import Apply, Constant, Variable
from theano_ng.gof.native import NativeOp, equivalent_to_native, registered_native_code
from theano_ng.gof.op import Op
from theano_ng.gof.params_type import ParamsType
from theano_ng.gof.type import CDataType
from theano_ng.scalar.types import int64

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import ShapeLike, TensorLike
    from theano_ng.tensor.var import TensorVariable

for _made in (FromFunctionOp, as_op, load_back):
    # Set `__module__` to the documented module, because pickles and reprs contain it.
    _made.__module__ = __name__
del _made

integer_types = (int,)

# Type classes whose values DeepCopyOp copies as arrays. The package tensor adds TensorType.
expandable_types = ()

# Type classes whose values are immutable. In C code they are copied by assignment. The package tensor adds Scalar.
value_types = ()


# The dtypes that the lengths of a shape may have.
_SIZE_DTYPES = frozenset(kind + bits for kind in ("int", "uint") for bits in ("8", "16", "32", "64"))


def _size(n):
    """Return a length as an int64 constant."""
    return ports.as_variable(np.asarray(n, dtype="int64"))


class _RegisteredCode(NativeOp):
    """The base class of Ops whose C code depends on the Type class of the first input.

    The C code is the text that `register_*_c_code` has registered, or native code that is registered for the Type.
    Each subclass has a dict `c_code_and_version` from Type class to (code, ..., version).
    """

    def _copy_code(self, node, name, inputs, outputs, sub):
        """Return the C code of an Op that returns its input, or a copy of its input."""
        text = self._registered_text(node)
        if text is not None:
            return text[0] % dict(iname=inputs[0], oname=outputs[0], fail=sub["fail"])
        if isinstance(node.inputs[0].type, value_types):
            return "%s = %s;" % (outputs[0], inputs[0])
        return NativeOp.c_code(self, node, name, inputs, outputs, sub)

    def _registered_text(self, node):
        return self.c_code_and_version.get(type(node.inputs[0].type))

    def native_code(self, node):
        if self._registered_text(node) is not None:
            return None
        return registered_native_code(self, node)

    def c_headers(self):
        return NativeOp.c_headers(self)

    def c_support_code_apply(self, node, name):
        if self._registered_text(node) is not None:
            return ""
        return NativeOp.c_support_code_apply(self, node, name)

    def c_support_code_struct(self, node, name):
        if self._registered_text(node) is not None:
            return ""
        return NativeOp.c_support_code_struct(self, node, name)

    def c_init_code_struct(self, node, name, sub):
        if self._registered_text(node) is not None:
            return ""
        return NativeOp.c_init_code_struct(self, node, name, sub)

    def c_code_cache_version(self):
        """Return the versions of all registered texts. If a text has no version, warn and return an empty tuple."""
        versions = [self._version(typ) for typ in sorted(self.c_code_and_version, key=lambda typ: typ.__qualname__)]
        return (2, *versions) if all(versions) else ()

    def c_code_cache_version_apply(self, node):
        # Return the version of the text for the node's Type: the node's code contains no texts for other Types.
        if self._registered_text(node) is None:
            return (2,)
        version = self._version(type(node.inputs[0].type))
        return (2, version) if version else ()

    def _version(self, typ):
        """Return the name of a Type class and the version of its text.

        If the text was registered without a version, show a warning and return an empty tuple.
        """
        version = self.c_code_and_version[typ][-1]
        if not version:
            warnings.warn(
                "Type %s has C code for %s, but it has no version: every process compiles it again. You should add a "
                "'version' keyword arg when calling the register function." % (typ, type(self).__name__),
                stacklevel=3,
            )
            return ()
        return (typ.__module__ + "." + typ.__qualname__, version)


class ViewOp(_RegisteredCode, Op):
    """An Op that returns a view of its input with the same value. It is used internally, and in tests of views."""

    same_for_any_ndim = True
    view_map = {0: [0]}
    c_code_and_version: dict[type, Any] = {}
    __props__: tuple[str, ...] = ()
    _f16_ok = True

    def fails_on_values(self, node):
        return False

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inp, out):
        out[0][0] = inp[0]

    def __str__(self):
        return type(self).__name__

    @equivalent_to_native
    def c_code(self, node, nodename, inp, out, sub):
        return self._copy_code(node, nodename, inp, out, sub)

    def infer_shape(self, node, input_shapes):
        return input_shapes

    def grad(self, args, g_outs):
        return g_outs

    def R_op(self, inputs, eval_points):
        return list(eval_points)


view_op = ViewOp()


class OutputGuard(ViewOp):
    """A ViewOp that declares that it destroys its input, so that no other Op may overwrite an output of the function.

    This package does not insert the Op: the feature `Supervisor` protects outputs.
    """

    destroy_map = {0: [0]}
    check_input = False


_output_guard = OutputGuard()


def register_view_op_c_code(type, code, version=()):
    """Register the C code with which ViewOp returns a view of a value of a Type.

    Parameters
    ----------
    type : Type class (not an instance)
    code : str
        C code. ``%(iname)s`` and ``%(oname)s`` are the names of the input and the output. ``%(fail)s`` is the statement
        that leaves the code after an error.
    version : int or tuple
        The version of the code. It is part of the keys of the compile cache. Without a version, every process compiles
        the code again.
    """
    ViewOp.c_code_and_version[type] = (code, version)


class DeepCopyOp(_RegisteredCode, Op):
    """An Op that copies a value. It ensures that outputs share no memory with inputs, constants or shared variables."""

    same_for_any_ndim = True
    c_code_and_version: dict[type, Any] = {}
    check_input = False
    __props__ = ()
    _f16_ok = True

    def fails_on_values(self, node):
        return False

    def __init__(self):
        pass

    def __str__(self):
        return type(self).__name__

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, args, outs):
        value = args[0]
        if isinstance(node.inputs[0].type, CDataType):
            outs[0][0] = value  # share the capsule: the data behind its C pointer cannot be copied
        elif isinstance(value, np.ndarray) and isinstance(node.inputs[0].type, expandable_types):
            # The copy of a numpy.memmap is not mapped to a file, so it becomes an ordinary ndarray.
            outs[0][0] = np.array(value, order="C", subok=False)
        elif hasattr(value, "copy") and not isinstance(value, (list, dict, set)):
            outs[0][0] = value.copy()
        else:  # the method `copy` of a list, dict or set would not copy the elements
            outs[0][0] = copy.deepcopy(value)

    def infer_shape(self, node, input_shapes):
        return input_shapes

    def grad(self, args, g_outs):
        return g_outs

    def R_op(self, inputs, eval_points):
        return list(eval_points)

    @equivalent_to_native
    def c_code(self, node, name, inames, onames, sub):
        return self._copy_code(node, name, inames, onames, sub)


deep_copy_op = DeepCopyOp()


def register_deep_copy_op_c_code(typ, code, version=()):
    """Register the C code with which DeepCopyOp copies a value of a Type.

    Parameters
    ----------
    typ : Type class (not an instance)
    code : str
        C code with ``%(iname)s``, ``%(oname)s``, ``%(fail)s``. If the output holds the value of an earlier call, the
        code reuses this value or releases it.
    version : int or tuple
        The version of the code, which is part of the compile cache's key.
    """
    DeepCopyOp.c_code_and_version[typ] = (code, version)


class Shape(_RegisteredCode, Op):
    """An Op that returns the shape of a variable as an int64 vector.

    The gradient is disconnected, because the shape does not depend on the elements.
    """

    c_code_and_version: dict[type, Any] = {}
    check_input = False
    __props__ = ()
    _f16_ok = True

    if TYPE_CHECKING:

        def __call__(self, x: TensorLike) -> TensorVariable: ...

    def fails_on_values(self, node):
        return False

    def make_node(self, x):
        if not isinstance(x, Variable):
            x = ports.as_variable(x)
        return Apply(self, [x], [ports.size_type(1)()])

    def perform(self, node, inp, out_):
        out_[0][0] = np.asarray(inp[0].shape, dtype="int64")

    def infer_shape(self, node, in_shapes):
        return [(_size(len(in_shapes[0])),)]

    def connection_pattern(self, node):
        return [[False]]

    def grad(self, inp, grads):
        return disconnected_gradients(1)

    def R_op(self, inputs, eval_points):
        return [None]

    @equivalent_to_native
    def c_code(self, node, name, inames, onames, sub):
        text = self._registered_text(node)
        if text is None:
            return NativeOp.c_code(self, node, name, inames, onames, sub)
        return text[0] % dict(iname=inames[0], oname=onames[0], fail=sub["fail"])


shape = Shape()
_shape = shape


def register_shape_c_code(type, code, version=()):
    """Register the C code with which Shape returns the shape vector of a value of a Type.

    Parameters
    ----------
    type : Type class (not an instance)
    code : str
        C code with ``%(iname)s``, ``%(oname)s``, ``%(fail)s``.
    version : int or tuple
        The version of the code, which is part of the compile cache's key.
    """
    Shape.c_code_and_version[type] = (code, version)


class Shape_i(_RegisteredCode, Op):
    """An Op that returns the length of one dimension of a variable, as an int64 0-d tensor. It is not differentiable.

    Parameters
    ----------
    i : int
        The dimension, ``0 <= i < x.ndim``.
    """

    c_code_and_version: dict[type, Any] = {}
    check_input = False
    __props__ = ("i",)
    _f16_ok = True

    _params_type = None

    def fails_on_values(self, node):
        return False

    def __init__(self, i):
        # Convert NumPy integers to int, because NumPy integers are printed and hashed differently.
        self.i = int(i)

    def __str__(self):
        return "%s{%i}" % (type(self).__name__, self.i)

    def make_node(self, x):
        if not isinstance(x, Variable):
            raise TypeError("Shape_i needs a variable with an ndim, not %r" % (x,))
        ndim = getattr(x.type, "ndim", None)
        if ndim is None:
            raise TypeError("Shape_i needs a variable with an ndim, not one of type %s" % (x.type,))
        if not 0 <= self.i < ndim:
            raise TypeError("x has too few dimensions for Shape_i", (x, self.i))
        return Apply(self, [x], [ports.size_type(0)()])

    @property
    def params_type(self):
        """A ParamsType with the field `i`, for native code.

        C code that is registered as text for a Type contains the value of `i` instead.
        """
        params_type = Shape_i._params_type
        if params_type is None:
            params_type = Shape_i._params_type = ParamsType(i=int64)
        return params_type

    def perform(self, node, inp, out_, params=None):
        out, x = out_[0], inp[0]
        if isinstance(out[0], np.ndarray):
            out[0][...] = x.shape[self.i]
        else:
            out[0] = np.asarray(x.shape[self.i], dtype="int64")

    def infer_shape(self, node, input_shapes):
        return [()]

    def connection_pattern(self, node):
        return [[False]]

    def grad(self, inp, grads):
        return [
            grad_not_implemented(
                op=self, x_pos=0, x=inp[0], comment="No gradient for the shape of a matrix is implemented."
            )
        ]

    def R_op(self, inputs, eval_points):
        return [None]

    @equivalent_to_native
    def c_code(self, node, name, inames, onames, sub):
        text = self._registered_text(node)
        if text is None:
            return NativeOp.c_code(self, node, name, inames, onames, sub)
        code, check_input, _ = text
        return (check_input + code) % dict(iname=inames[0], oname=onames[0], i=self.i, fail=sub["fail"])


def shape_i_op(i):
    """Return the Shape_i Op of dimension `i`. It is always the same object."""
    op = shape_i_op.cache.get(i)
    if op is None:
        op = shape_i_op.cache[i] = Shape_i(i)
    return op


shape_i_op.cache = {}  # type: ignore[attr-defined]


def shape_i(var, i, fgraph=None):
    """Return ``var.shape[i]``. If possible, return an expression that the graph's ShapeFeature knows.

    Rewrites should use this function. Otherwise they would insert Shape Ops. Other rewrites would have to remove these
    Ops, so a phase would need more passes until the graph does not change any longer.

    Parameters
    ----------
    var : Variable
    i : int
    fgraph : FunctionGraph, optional
        The graph whose ShapeFeature is used. By default, the graph to which `var` belongs.

    Returns
    -------
    Variable
        An int64 0-d tensor.
    """
    if fgraph is None:
        fgraph = getattr(var, "fgraph", None)
    feature = getattr(fgraph, "shape_feature", None)
    if feature is not None:
        if var not in feature.shape_of and var.owner is not None:
            # A rewrite has made `var`, and the node of `var` is not in the graph yet. Register this node in the
            # feature, but before it the other new nodes, which compute its inputs.
            stack = [(var.owner, False)]
            while stack:
                node, ready = stack.pop()
                if all(out in feature.shape_of for out in node.outputs):
                    continue
                if ready:
                    feature.on_import(fgraph, node, "gof.ops.shape_i")
                    continue
                stack.append((node, True))
                stack.extend(
                    (inp.owner, False) for inp in node.inputs if inp.owner is not None and inp not in feature.shape_of
                )
        if var in feature.shape_of:
            return feature.shape_of[var][i]
    return shape(var)[i]


def register_shape_i_c_code(typ, code, check_input, version=()):
    """Register the C code with which Shape_i returns one entry of the shape of a value of a Type.

    Parameters
    ----------
    typ : Type class (not an instance)
    code : str
        C code with ``%(iname)s``, ``%(oname)s``, ``%(i)s``, ``%(fail)s``.
    check_input : str
        C code that checks that the input has dimension ``%(i)s``. It is inserted before `code`.
    version : int or tuple
        The version of the code, which is part of the compile cache's key.
    """
    Shape_i.c_code_and_version[typ] = (code, check_input, version)


class Rebroadcast(_RegisteredCode, Op):
    """An Op that changes the broadcastable flags of some dimensions. It returns a view.

    ``Rebroadcast((0, True), (1, False))(x)`` makes axis 0 broadcastable and axis 1 not broadcastable.

    Parameters
    ----------
    *axis : pairs (int, bool)

    Raises
    ------
    TypeError
        If the arguments are not pairs of an integer and a bool.
    ValueError
        If two pairs contradict each other, or if the variable has no such axis. At run time, the error is raised if a
        dimension that was made broadcastable does not have length 1.
    """

    view_map = {0: [0]}
    c_code_and_version: dict[type, Any] = {}
    check_input = False
    __props__ = ("axis",)
    _f16_ok = True

    def fails_on_values(self, node):
        return False

    def __init__(self, *axis):
        for item in axis:
            if not (isinstance(item, (tuple, list)) and len(item) == 2):
                raise TypeError("Rebroadcast needs pairs (axis, broadcastable), got %r" % (item,))
            if not isinstance(item[0], (int, np.integer)) or isinstance(item[0], bool):
                raise TypeError("Rebroadcast needs integer axes. Got %s" % (item[0],))
            if not isinstance(item[1], (bool, np.bool_)):
                raise TypeError("Rebroadcast needs bool for new broadcast pattern. Got %s" % (item[1],))
        self.axis = {int(i): bool(flag) for i, flag in sorted(axis)}
        if min(self.axis, default=0) < 0:
            raise ValueError("Rebroadcast got the axis %d, but axes must not be negative" % min(self.axis))
        if len(self.axis) != len({(int(i), bool(flag)) for i, flag in axis}):
            raise ValueError("Rebroadcast got two patterns for the same axis: %s" % (axis,))

    def __eq__(self, other):
        return type(self) is type(other) and self.axis == other.axis

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash((type(self).__qualname__, tuple(self.axis.items())))

    def __str__(self):
        pattern = ["?"] * (1 + max(self.axis, default=-1))
        for i, flag in self.axis.items():
            pattern[i] = str(int(flag))
        return "%s{%s}" % (type(self).__name__, ",".join(pattern))

    def make_node(self, x):
        if not isinstance(x, Variable):
            x = ports.as_variable(x)
        if getattr(x, "ndim", None) is None:
            raise TypeError("Rebroadcast needs a variable with an ndim, not one of type %s" % (x.type,))
        if self.axis and x.ndim <= max(self.axis):
            raise ValueError(
                "Trying to rebroadcast non-existent dimension: axes %s of a variable with %d dimensions"
                % (sorted(self.axis), x.ndim)
            )
        pattern = [self.axis.get(i, flag) for i, flag in enumerate(x.type.broadcastable)]
        return Apply(self, [x], [x.type.clone(broadcastable=pattern)()])

    def perform(self, node, inp, out_):
        x = inp[0]
        for i, flag in self.axis.items():
            if flag and x.shape[i] != 1:
                raise ValueError(
                    "Dimension %s in Rebroadcast's input was supposed to be 1 (got %s instead)" % (i, x.shape[i])
                )
        out_[0][0] = x

    def grad(self, inp, grads):
        pattern = inp[0].type.broadcastable
        return [Rebroadcast(*[(i, pattern[i]) for i in self.axis])(grads[0])]

    def infer_shape(self, node, ishapes):
        one = _size(1)
        return [tuple(one if self.axis.get(i) else size for i, size in enumerate(ishapes[0]))]

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None]
        return self(*eval_points, return_list=True)

    @equivalent_to_native
    def c_code(self, node, nodename, inp, out, sub):
        text = self._registered_text(node)
        if text is None:
            return NativeOp.c_code(self, node, nodename, inp, out, sub)
        names = dict(iname=inp[0], oname=out[0], fail=sub["fail"])
        checks = "".join(text[0] % dict(names, axis=i) for i, flag in self.axis.items() if flag)
        return checks + "Py_XDECREF(%(oname)s);\n%(oname)s = %(iname)s;\nPy_XINCREF(%(oname)s);\n" % names


def rebroadcast(x, flags):
    """Return `x` with the broadcastable flags in the dict {axis: flag}. Return `x` itself if it already has them."""
    changes = [(axis, flag) for axis, flag in flags.items() if x.broadcastable[axis] != flag]
    if not changes:
        return x
    if x.owner is not None and type(x.owner.op) is Rebroadcast:
        # Combine both Rebroadcasts. If the second one restores a flag that the first one changed, omit both changes.
        # This also omits the check of the length at run time.
        source = x.owner.inputs[0]
        changes = {**x.owner.op.axis, **dict(changes)}
        changes = [(axis, flag) for axis, flag in changes.items() if source.broadcastable[axis] != flag]
        return Rebroadcast(*changes)(source) if changes else source
    return Rebroadcast(*changes)(x)


def register_rebroadcast_c_code(typ, code, version=()):
    """Register the C code with which Rebroadcast checks one dimension of a value of a Type.

    Parameters
    ----------
    typ : Type class (not an instance)
    code : str
        C code with ``%(axis)s``, ``%(iname)s``, ``%(oname)s``, ``%(fail)s`` that checks that dimension ``%(axis)s`` has
        length 1. It is repeated for every axis that is made broadcastable.
    version : int or tuple
        The version of the code, which is part of the compile cache's key.
    """
    Rebroadcast.c_code_and_version[typ] = (code, version)


class SpecifyShape(_RegisteredCode, Op):
    """An Op with which the user declares the known shape of a variable. It returns a view of the variable.

    The declared shape must have one entry for each dimension. At run time, it is compared with the actual shape only if
    the Op remains in the rewritten graph. If only the shape of the result is used, rewriting usually removes the Op.

    Raises
    ------
    AssertionError
        If the number of sizes differs from the number of dimensions, or if the sizes are not integers. At run time, the
        error is raised if the input does not have the specified shape.
    TypeError
        If the variable has no `ndim`, or if a size is None.
    ValueError
        If a constant size is negative.
    """

    view_map = {0: [0]}
    c_code_and_version: dict[type, Any] = {}
    __props__ = ()
    _f16_ok = True

    if TYPE_CHECKING:

        def __call__(self, x: TensorLike, shape: ShapeLike) -> TensorVariable: ...

    def make_node(self, x, shape):
        if not isinstance(x, Variable):
            x = ports.as_variable(x)
        if getattr(x, "ndim", None) is None:
            raise TypeError("SpecifyShape needs a variable with an ndim, not one of type %s" % (x.type,))
        if isinstance(shape, (list, tuple)):
            if any(size is None for size in shape):
                raise TypeError(
                    "SpecifyShape needs the complete shape, got %s: every dimension needs a size" % (shape,)
                )
            if x.ndim != len(shape):
                raise AssertionError(
                    "SpecifyShape needs the complete shape: %d sizes given for a variable with %d dimensions"
                    % (len(shape), x.ndim)
                )
            if not shape:
                shape = np.zeros(0, dtype="int64")
        shape = ports.as_variable(shape)
        if shape.ndim > 1:
            raise AssertionError("SpecifyShape needs a vector of sizes, got a variable with %d dimensions" % shape.ndim)
        if shape.dtype not in _SIZE_DTYPES:
            raise AssertionError("SpecifyShape needs integer sizes, got dtype %s" % shape.dtype)
        if isinstance(shape, Constant) and shape.data.size != x.ndim:
            raise AssertionError(
                "SpecifyShape needs the complete shape: %d sizes given for a variable with %d dimensions"
                % (shape.data.size, x.ndim)
            )
        if isinstance(shape, Constant) and np.any(shape.data < 0):
            raise ValueError("SpecifyShape got a negative size: %s" % (shape.data.tolist(),))
        return Apply(self, [x, shape], [x.type()])

    def perform(self, node, inp, out_):
        x, wanted = inp
        wanted = np.atleast_1d(wanted)
        found = x.shape
        if len(found) != wanted.size:
            raise AssertionError(
                "SpecifyShape: vector of shape has %d elements, but the input has %d dimensions."
                % (wanted.size, len(found))
            )
        for i, size in enumerate(found):
            if size != wanted[i]:
                raise AssertionError("SpecifyShape: dim %d of input has shape %d, expected %d." % (i, size, wanted[i]))
        out_[0][0] = x

    def infer_shape(self, node, shapes):
        sizes = []
        for i in range(node.inputs[0].ndim):
            size = node.inputs[1][i] if node.inputs[1].ndim else node.inputs[1]
            known = ports.constant_value(size)
            sizes.append(size if known is None else _size(known))
        return [tuple(sizes)]

    def connection_pattern(self, node):
        return [[True], [False]]

    def grad(self, inp, grads):
        return [specify_shape(grads[0], inp[1]), *disconnected_gradients(1)]

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            # The tangent of a constant is zero, which None represents.
            return [None]
        return self(eval_points[0], *inputs[1:], return_list=True)

    def c_support_code_apply(self, node, name):
        text = self._registered_text(node)
        if text is None:
            return NativeOp.c_support_code_apply(self, node, name)
        return text[1] or ""

    @equivalent_to_native
    def c_code(self, node, name, inames, onames, sub):
        text = self._registered_text(node)
        if text is None:
            return NativeOp.c_code(self, node, name, inames, onames, sub)
        return text[0] % dict(iname=inames[0], shape=inames[1], oname=onames[0], fail=sub["fail"])


specify_shape = SpecifyShape()


def register_specify_shape_c_code(typ, code, version=(), c_support_code_apply=None):
    """Register the C code with which SpecifyShape checks the shape of a value of a Type.

    Parameters
    ----------
    typ : Type class (not an instance)
    code : str
        C code that checks the shape and the length of ``%(shape)s``, and returns a view of the input. It contains
        ``%(iname)s``, ``%(oname)s``, ``%(shape)s``, ``%(fail)s``.
    version : int or tuple
        The version of the code, which is part of the compile cache's key.
    c_support_code_apply : str, optional
        Additional support code.
    """
    SpecifyShape.c_code_and_version[typ] = (code, c_support_code_apply, version)
