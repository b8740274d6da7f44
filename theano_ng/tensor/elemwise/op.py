"""Elementwise operations on tensors: `Elemwise`, which lifts a scalar op, and `DimShuffle`, which aligns dimensions."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from theano_ng import scalar
from theano_ng.configdefaults import config
from theano_ng.configparser import change_flags
from theano_ng.gof.derivative import is_disconnected
from theano_ng.gof.differentiate import is_zero
from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.null_type import NullType
from theano_ng.gof.op import COp, OpenMPOp
from theano_ng.gof.params_type import ParamsType
from theano_ng.gof.provenance import is_from_package
from theano_ng.gof.traversal import postorder
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.loops.kernel import elemwise_kernel
from theano_ng.loops.program import Access
from theano_ng.loops.source import scalar_apply
from theano_ng.misc.frozendict import frozendict
from theano_ng.scalar import get_scalar_type
from theano_ng.tensor.constant import as_tensor_variable, constant
from theano_ng.tensor.dtypes import FLOATS
from theano_ng.tensor.elemwise.divisors import OPERATIONS, integer_divisors
from theano_ng.tensor.elemwise.kernel import elemwise_program, operand_rows
from theano_ng.tensor.elemwise.perform import (
    array_function,
    array_function_for,
    broadcast_shape,
    call_nfunc,
    check_divisor,
    computed_dtypes,
    evaluate_scalar_op,
)
from theano_ng.tensor.type import TensorType

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import TensorLike
    from theano_ng.tensor.var import TensorVariable

__all__ = ["DimShuffle", "DimShufflePrinter", "Elemwise", "scalar_continuous", "scalar_one"]

_NATIVE = "theano_ng.tensor.native.elemwise"
# The C code stores one flag for each dimension in the bits of an integer, which limits the number of dimensions.
_NATIVE_MAX_NDIM = 32
_NOT_INPLACE = frozendict()


@functools.lru_cache(None)
def _dimshuffle_params():
    vector = functools.partial(TensorType, broadcastable=(False,))
    return ParamsType(
        input_broadcastable=vector("bool"),
        _new_order=vector("int64"),
        transposition=vector("uint32"),
        inplace=scalar.bool,
    )


class DimShuffle(NativeOp, COp):
    """An Op that reorders the dimensions of a tensor, inserts dimensions of length 1, and drops dimensions.

    Parameters
    ----------
    input_broadcastable : sequence of bool
        The broadcast pattern of the input.
    new_order : sequence of {int, 'x'}
        For each dimension of the output, the index of a dimension of the input, or ``'x'`` for a new broadcastable
        dimension. Broadcastable dimensions of the input may be omitted.
    inplace : bool
        If True (default), the output is a view of the input. If False, it is a copy.

    Raises
    ------
    TypeError
        If `new_order` has an item that is neither an integer nor ``'x'``.
    ValueError
        If a dimension is out of range, used twice, or dropped without being broadcastable.

    Examples
    --------
    ``DimShuffle((False, False), [1, 0])`` transposes, ``DimShuffle((False,), ['x', 0])`` makes a row of a vector,
    ``DimShuffle((True, False), [1])`` makes a vector of a row.
    """

    __module__ = "theano_ng.tensor.elemwise"  # the documented path; profiles and pickles contain it
    _f16_ok = True
    check_input = False
    __props__ = ("input_broadcastable", "new_order", "inplace")

    if TYPE_CHECKING:

        def __call__(self, _input: TensorLike) -> TensorVariable: ...

    def fails_on_values(self, node):
        return False

    # Do not call the constructor of COp: it reads C files, but this Op has native code.
    def __init__(self, input_broadcastable, new_order, inplace=True):
        self.input_broadcastable = tuple([bool(b) for b in input_broadcastable])
        order = []
        for entry in new_order:
            if isinstance(entry, str) and entry == "x":
                order.append("x")
            elif isinstance(entry, (int, np.integer)) and not isinstance(entry, (bool, np.bool_)):
                order.append(int(entry))
            elif isinstance(entry, np.ndarray) and entry.ndim == 0 and entry.dtype.kind in "iu":
                order.append(int(entry))
            else:
                raise TypeError(
                    "DimShuffle indices must be Python integers or 'x'. Got: %r of type %s." % (entry, type(entry))
                )
        self.new_order = tuple(order)
        self.inplace = bool(inplace)

        kept = [d for d in order if d != "x"]
        ndim = len(self.input_broadcastable)
        for d in kept:
            if not 0 <= d < ndim:
                raise ValueError("new_order[%d] is %d, but the input only has %d axes." % (order.index(d), d, ndim))
        if len(set(kept)) != len(kept):
            raise ValueError(
                "The same input dimension may not appear twice in the list of output dimensions", self.new_order
            )
        self.shuffle = kept
        self.drop = [d for d in range(ndim) if d not in kept]
        self.augment = [i for i, d in enumerate(order) if d == "x"]
        for d in self.drop:
            if not self.input_broadcastable[d]:
                raise ValueError(
                    "You cannot drop a non-broadcastable dimension.", (self.input_broadcastable, self.new_order)
                )
        if self.inplace:
            self.view_map = {0: [0]}
        self._hash = hash((type(self).__name__, self.input_broadcastable, self.new_order, self.inplace))

    def __getstate__(self):
        state = self.__dict__.copy()
        state.pop("_hash", None)
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._hash = hash((type(self).__name__, self.input_broadcastable, self.new_order, self.inplace))

    def __eq__(self, other):
        return self is other or (
            type(self) is type(other)
            and self.new_order == other.new_order
            and self.input_broadcastable == other.input_broadcastable
            and self.inplace == other.inplace
        )

    def __hash__(self):
        return self._hash

    # Subclasses that were written for earlier versions read these params in their C code.
    params_type = property(lambda self: _dimshuffle_params())
    _new_order = property(lambda self: [-1 if entry == "x" else entry for entry in self.new_order])
    transposition = property(lambda self: self.shuffle + self.drop)

    def make_node(self, _input):
        x = as_tensor_variable(_input)
        given = tuple(x.type.broadcastable)
        if given != self.input_broadcastable:
            if len(given) != len(self.input_broadcastable):
                raise TypeError(
                    "The number of dimensions of the input is incorrect for this op. Expected %s, got %s."
                    % (self.input_broadcastable, given)
                )
            for expected, actual in zip(self.input_broadcastable, given):
                # If the Op expects a dimension that is not broadcastable, it also accepts a broadcastable dimension.
                # The reverse case raises an error.
                if expected and not actual:
                    raise TypeError(
                        "The broadcastable pattern of the input is incorrect for this op. Expected %s, got %s."
                        % (self.input_broadcastable, given)
                    )
        pattern = [True if d == "x" else given[d] for d in self.new_order]
        return Apply(self, [x], [x.type.clone(broadcastable=pattern)()])

    def __str__(self):
        name = "InplaceDimShuffle" if self.inplace else "DimShuffle"
        return "%s{%s}" % (name, ",".join([str(d) for d in self.new_order]))

    def perform(self, node, inp, out, params=None):
        (x,) = inp
        (storage,) = out
        if not isinstance(x, np.ndarray):
            x = np.asarray(x)
        for d in self.drop:
            if x.shape[d] != 1:
                raise ValueError(
                    "DimShuffle: dimension %d of the input is dropped, so its length must be 1, but it is %d"
                    % (d, x.shape[d])
                )
        result = x.transpose(self.shuffle + self.drop)
        lengths = iter(result.shape)
        result = result.reshape([1 if d == "x" else next(lengths) for d in self.new_order])
        storage[0] = result if self.inplace else result.copy()

    def native_code(self, node):
        ndim = len(self.input_broadcastable)
        if ndim > _NATIVE_MAX_NDIM or len(self.new_order) > _NATIVE_MAX_NDIM:
            return None
        return NativeCode(_NATIVE + ":dimshuffle", copies=not self.inplace, ndim_in=ndim, order=self._new_order)

    def infer_shape(self, node, shapes):
        (shape,) = shapes
        one = scalar_one()
        return [tuple([one if d == "x" else shape[d] for d in self.new_order])]

    def R_op(self, inputs, eval_points):
        if None in eval_points:
            return [None]
        return self(*eval_points, **dict(return_list=True))

    def grad(self, inp, grads):
        (x,) = inp
        (gz,) = grads
        gz = as_tensor_variable(gz)
        order = ["x"] * x.type.ndim
        for i, d in enumerate(self.new_order):
            if d != "x":
                order[d] = i
        # With respect to a discrete input, the gradient is zero, in floatX. For other inputs, use the broadcast pattern
        # of `gz`, which may have fewer broadcastable dimensions than the output.
        if x.type.dtype not in scalar_continuous():
            return [x.zeros_like(dtype=config.floatX)]
        return [DimShuffle(gz.type.broadcastable, order)(Elemwise(scalar.identity)(gz))]


def scalar_one():
    """Return the constant 1 as an int64, the dtype of shapes."""
    return constant(1, dtype="int64")


@functools.cache
def scalar_continuous():
    """Return the set of dtypes that have gradients."""
    return frozenset(str(t.dtype) for t in scalar.continuous_types)


class DimShufflePrinter:
    """The printer of DimShuffle for `pp`: ``x.T`` for a transpose, ``x`` if dimensions are only added on the left, and
    otherwise ``DimShuffle{1, 2, 0}(x)``.
    """

    def process(self, r, pstate):
        """Return the text of the variable `r`, the output of a DimShuffle."""
        if r.owner is None or not isinstance(r.owner.op, DimShuffle):
            raise TypeError("DimShufflePrinter prints results of DimShuffle only, not %s" % r)
        (x,) = r.owner.inputs
        order = list(r.owner.op.new_order)
        while order and order[0] == "x":
            del order[0]
        text = pstate.pprinter.process(x, pstate)
        dims = list(range(x.type.ndim))
        if order == dims:
            return text
        if order == dims[::-1]:
            return "%s.T" % text
        return "DimShuffle{%s}(%s)" % (", ".join([str(d) for d in order]), text)


def _output_order(node, inputs):
    """Return the memory layout of the outputs of an elementwise node, "F" or "C", by the same rule as the C code.

    The layout is "F" if the strides of no input decrease from one dimension to the next, and the strides of at least
    one input increase. Absolute values of strides are compared. Dimensions of length 1 are ignored.
    """
    if node.outputs[0].type.ndim < 2:
        return "C"
    grows = False
    for x, variable in zip(inputs, node.inputs):
        if not all(variable.type.broadcastable):
            strides = [abs(stride) for stride, length in zip(x.strides, x.shape) if length != 1]
            if any(a > b for a, b in zip(strides, strides[1:])):
                return "C"
            grows = grows or any(0 < a < b for a, b in zip(strides, strides[1:]))
    return "F" if grows else "C"


class Elemwise(NativeOp, OpenMPOp):
    """An Op that applies a scalar op to each element of tensors.

    All inputs have the rank of the output (`make_node` pads on the left). In each dimension all inputs have the same
    length, except that an input whose type is broadcastable in this dimension has length 1 and is repeated. An input
    that has length 1 although its type is not broadcastable is not repeated: different lengths raise ValueError.

    Parameters
    ----------
    scalar_op : ScalarOp
        The op on elements. It determines the dtypes of the outputs.
    inplace_pattern : dict, optional
        Index of an output -> index of the input whose memory the output overwrites.
    name : str, optional
        The printed form of the Op, instead of ``Elemwise{...}``.
    nfunc_spec : tuple, optional
        ``(name, nin, nout)`` of the equivalent function of NumPy, which `perform` calls. The default is the
        `nfunc_spec` of the scalar op.
    openmp : bool, optional
        Whether to use several threads for large outputs. The default is `config.openmp`.

    Notes
    -----
    Outputs are C-contiguous, with one exception. They are F-contiguous if the strides of the inputs grow from the first
    dimension to the last, as in F-contiguous arrays and their views. Inputs with one element are ignored.
    """

    __module__ = "theano_ng.tensor.elemwise"
    __props__ = ("scalar_op", "inplace_pattern")
    _f16_ok = True

    signatures: dict[Any, Any] = {}
    """A dict from an Elemwise to a Python function whose signature is the signature of the Elemwise.

    An Elemwise without an entry has the signature of its scalar op.
    """
    same_for_any_ndim = True

    def _call_signature(self):
        import inspect

        named = self.signatures.get(self)
        return inspect.signature(named) if named is not None else self.scalar_op._call_signature()

    def fails_on_values(self, node):
        return not is_from_package(type(self.scalar_op)) or bool(integer_divisors(node))

    def takes_memory(self, node):
        return len(self.inplace_pattern) < len(node.outputs)

    def __init__(self, scalar_op, inplace_pattern=None, name=None, nfunc_spec=None, openmp=None):
        self.name = name
        self.scalar_op = scalar_op
        self.inplace_pattern = frozendict(inplace_pattern) if inplace_pattern else _NOT_INPLACE
        self.destroy_map = {o: [i] for o, i in self.inplace_pattern.items()}
        if nfunc_spec is None:
            nfunc_spec = getattr(scalar_op, "nfunc_spec", None)
        self.nfunc_spec = nfunc_spec
        self._set_hash()
        OpenMPOp.__init__(self, openmp=openmp)

    @property
    def nfunc(self):
        """The NumPy function that `nfunc_spec` names, or None."""
        return array_function(self.nfunc_spec[0]) if self.nfunc_spec and self.nfunc_spec[0] else None

    def _set_hash(self):
        self._hash = hash((type(self).__name__, self.scalar_op, self.inplace_pattern))

    def __getstate__(self):
        state = self.__dict__.copy()
        state.pop("_hash", None)
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._set_hash()

    def __eq__(self, other):
        # Gradients contain many Elemwise objects that share one scalar op, so first test the scalar ops for identity.
        return self is other or (
            type(self) is type(other)
            and (self.scalar_op is other.scalar_op or self.scalar_op == other.scalar_op)
            and (self.inplace_pattern is other.inplace_pattern or self.inplace_pattern == other.inplace_pattern)
        )

    def __hash__(self):
        return self._hash

    def __str__(self):
        if self.name is not None:
            return self.name
        if self.inplace_pattern:
            return "Elemwise{%s}%s" % (self.scalar_op, sorted(self.inplace_pattern.items()))
        return "Elemwise{%s}" % (self.scalar_op,)

    __repr__ = __str__

    # -- graph -------------------------------------------------------------------------------------------------------

    if TYPE_CHECKING:

        def __call__(self, *inputs: Any, **kwargs: Any) -> TensorVariable: ...

    def get_output_info(self, dim_shuffle, *inputs):
        """Return the dtypes and broadcast patterns of the outputs of a node, and its padded inputs.

        Parameters
        ----------
        dim_shuffle : class
            `DimShuffle`, or a class whose constructor has the same parameters.
        *inputs : tensor variables

        Returns
        -------
        out_dtypes : list of str
        out_broadcastables : list of list of bool
        inputs : list of variables
            The inputs, padded to the same rank.

        Raises
        ------
        TypeError
            If an output has another dtype than the input that it should overwrite.
        ValueError
            If an output may be longer than the input that it should overwrite.
        """
        out_dtypes = self._output_dtypes([i.type.dtype for i in inputs])

        target = max([i.type.ndim for i in inputs], default=0)
        padded = []
        for x in inputs:
            length = x.type.ndim
            if length < target:
                x = _padding(dim_shuffle, x.type.broadcastable, target)(x)
            padded.append(x)
        inputs = padded

        pattern = [all(flags) for flags in zip(*[i.type.broadcastable for i in inputs])]
        for overwritten in self.inplace_pattern.values():
            for out_flag, in_flag in zip(pattern, inputs[overwritten].type.broadcastable):
                if in_flag and not out_flag:
                    raise ValueError(
                        "Operation cannot be done inplace on an input with broadcasted dimensions.",
                        [i.type for i in inputs],
                        self.inplace_pattern,
                    )
        if any(inputs[i].type.dtype != out_dtypes[o] for o, i in self.inplace_pattern.items()):
            raise TypeError(
                "Cannot do an inplace operation on incompatible data types.",
                [i.type.dtype for i in inputs],
                out_dtypes,
                self.inplace_pattern,
            )
        return out_dtypes, [list(pattern) for _ in out_dtypes], inputs

    def _output_dtypes(self, dtypes):
        op = self.scalar_op
        if type(op).make_node is scalar.ScalarOp.make_node and op.nin in (-1, len(dtypes)):
            # Determine the dtypes of the outputs as make_node does, but without making variables.
            return [t.dtype for t in op.output_types([get_scalar_type(dtype) for dtype in dtypes])]
        return [o.type.dtype for o in op.make_node(*[_scalar_variable(dtype) for dtype in dtypes]).outputs]

    def make_node(self, *inputs):
        """Apply the Op to tensors. A `DimShuffle` adds broadcastable dimensions on the left of inputs of lower rank."""
        inputs = [as_tensor_variable(i) for i in inputs]
        out_dtypes, out_patterns, inputs = self.get_output_info(DimShuffle, *inputs)
        outputs = [_tensor_type(dtype, tuple(pattern))() for dtype, pattern in zip(out_dtypes, out_patterns)]
        return Apply(self._for_types([i.type.dtype for i in inputs]), inputs, outputs)

    def _for_types(self, dtypes):
        """Return an Elemwise whose scalar op is made for inputs of the given dtypes: this Op if possible, or a new Op.

        A new Op is needed for a Composite, because a Composite computes in the dtypes for which it was made.
        """
        op = self.scalar_op
        if getattr(op, "inputs_type", None) in (None, tuple([get_scalar_type(dtype) for dtype in dtypes])):
            return self
        typed = op.make_node(*[_scalar_variable(dtype) for dtype in dtypes]).op
        return self if typed == op else type(self)(typed, dict(self.inplace_pattern), openmp=self.openmp)

    def connection_pattern(self, node):
        if hasattr(self.scalar_op, "connection_pattern"):
            return self.scalar_op.connection_pattern(node)
        return [[True for _ in node.outputs] for _ in node.inputs]

    def infer_shape(self, node, i_shapes):
        one = scalar_one()
        shape = []
        for d, broadcastable in enumerate(node.outputs[0].type.broadcastable):
            length = one
            if not broadcastable:
                for x, x_shape in zip(node.inputs, i_shapes):
                    if not x.type.broadcastable[d]:
                        length = x_shape[d]
                        break
            shape.append(length)
        return [tuple(shape)] * len(node.outputs)

    def do_constant_folding(self, node):
        """Return False if the node may divide by zero: the compiled function has to raise the ZeroDivisionError."""
        return not integer_divisors(node)

    def python_constant_folding(self, node):
        """Return True if constant folding should evaluate this node by `perform`, without compiling C code."""
        return node.outputs[0].type.ndim == 0 or self._array_function(node) is not None

    # -- derivatives -------------------------------------------------------------------------------------------------

    shortcuts: dict[type, Any] = {}
    """A dict from a class of scalar ops to a function that takes a node.

    The function returns the `gof.differentiate.Shortcut` of the node, or None.
    """

    def shortcut(self, node):
        find = self.shortcuts.get(type(self.scalar_op))
        if find is None or type(self) is not Elemwise or node.outputs[0].type.dtype not in FLOATS:
            return None
        return find(node)

    def L_op(self, inputs, outs, ograds):
        gradients = self._bgrad(inputs, outs, ograds)
        pattern = outs[0].type.broadcastable
        for i, x in enumerate(inputs):
            if not hasattr(gradients[i].type, "broadcastable"):
                continue  # the gradient is disconnected or undefined
            repeated = [d for d, b in enumerate(x.type.broadcastable) if b and not pattern[d]]
            if repeated:
                gradients[i] = gradients[i].sum(axis=repeated, keepdims=True)
        return gradients

    def grad(self, inputs, ograds):
        outs = self(*inputs, **dict(return_list=True))
        return self.L_op(inputs, outs, ograds)

    def _bgrad(self, inputs, outputs, ograds):
        """Return the gradients with respect to the inputs, not yet summed over the dimensions in which inputs repeat.

        The method converts the scalar graph of the scalar op's gradients to a graph of tensors.
        """
        ograds = [
            o.zeros_like(dtype=_gradient_dtype(o)) if is_disconnected(g) else as_tensor_variable(g)
            for o, g in zip(outputs, ograds)
        ]

        def scalars(variables):
            return [get_scalar_type(dtype=v.type.dtype).make_variable() for v in variables]

        # The scalar graph is only a template for the graph of tensors. Only the tensors need test values, so do not
        # compute test values here.
        with change_flags(compute_test_value="off"):
            scalar_inputs = scalars(inputs)
            scalar_ograds = scalars(ograds)
            scalar_outputs = self.scalar_op.make_node(*scalar_inputs).outputs
            scalar_igrads = self.scalar_op.L_op(scalar_inputs, scalar_outputs, scalar_ograds)
        if len(scalar_igrads) != len(inputs):
            raise ValueError(
                "The gradient of %s must be a list of %d variables, one for each input, but has %d."
                % (self.scalar_op, len(inputs), len(scalar_igrads))
            )
        lifted = {}
        for small, large in ((scalar_ograds, ograds), (scalar_outputs, outputs), (scalar_inputs, inputs)):
            lifted.update(zip(small, large))
        ndim = outputs[0].type.ndim
        for igrad in scalar_igrads:
            _lift_graph(igrad, lifted, ndim)
        return [lifted[igrad] for igrad in scalar_igrads]

    def R_op(self, inputs, eval_points):
        outs = self(*inputs, **dict(return_list=True))
        results = []
        for out in outs:
            if out.type.dtype not in scalar_continuous():
                results.append(None)
                continue
            total = self._tangent(inputs, eval_points, outs, out, 1)
            if total is not None and out.type.dtype.startswith("complex"):
                # `total` is the tangent of the real part, from the cotangent 1. The tangent of the imaginary part is
                # computed from the cotangent 1j.
                total = Elemwise(scalar.complex)(total, self._tangent(inputs, eval_points, outs, out, 1j)).astype(
                    out.type.dtype
                )
            if total is not None and total.type.broadcastable != out.type.broadcastable:
                total = out.fill(total)  # `total` has length 1 where every input with a direction has length 1.
            results.append(total)
        return results

    def _tangent(self, inputs, eval_points, outs, out, part):
        """Return the real (`part` is 1) or imaginary (1j) part of an output's tangent.

        Return None if no input has a direction.
        """

        ograds = [
            o.zeros_like(dtype=_gradient_dtype(o))
            if o is not out
            else o.ones_like()
            if part == 1
            else o.ones_like() * part
            for o in outs
        ]
        total = None
        for slope, point in zip(self._bgrad(inputs, outs, ograds), eval_points):
            if point is not None and isinstance(slope.type, NullType) and is_zero(point) != "yes":
                raise NotImplementedError("R_op: " + slope.type.why_null)
            if point is None or not hasattr(slope.type, "broadcastable"):
                continue
            # A complex number counts as two real numbers: multiply by the Jacobian of the real and imaginary parts.
            term = (slope.conj() * point).real if slope.type.dtype.startswith("complex") else slope * point
            total = term if total is None else total + term
        return total

    # -- Python ------------------------------------------------------------------------------------------------------

    def prepare_node(self, node, storage_map, compute_map, impl):
        """Let the scalar op prepare for an implementation: ``'c'`` or ``'py'``."""
        dtypes = [[v.type.dtype for v in variables] for variables in (node.inputs, node.outputs)]
        self.scalar_op.prepare_node(scalar_apply(self.scalar_op, *dtypes), None, None, impl)

    def _array_function(self, node):
        return array_function_for(self.nfunc_spec, node, self.scalar_op)

    def perform(self, node, inputs, output_storage):
        inputs = [np.asarray(x) for x in inputs]
        shape = broadcast_shape(node, inputs)
        dtypes = [o.type.dtype for o in node.outputs]
        computed = computed_dtypes(self.scalar_op, [v.type.dtype for v in node.inputs], dtypes)
        with np.errstate(all="ignore"):
            function = self._array_function(node)
            if function is not None:
                check_divisor(self.scalar_op, inputs, shape, "input[1]")
                results = call_nfunc(function, self.nfunc_spec[1], inputs, computed)
            else:
                results = evaluate_scalar_op(self.scalar_op, inputs, computed, shape)
            for j, (storage, result, dtype) in enumerate(zip(output_storage, results, dtypes)):
                if j in self.inplace_pattern and inputs[self.inplace_pattern[j]].flags.writeable:
                    target = inputs[self.inplace_pattern[j]]
                    np.copyto(target, result, casting="unsafe")
                    storage[0] = target
                    continue
                result = np.asarray(result)
                if result.dtype != dtype:
                    result = (
                        result.real.astype(dtype)
                        if result.dtype.kind == "c" and dtype[0] != "c"
                        else result.astype(dtype)
                    )
                if result.shape != shape:
                    result = np.broadcast_to(result, shape)
                order = _output_order(node, inputs)
                if not result.flags.writeable or any(np.may_share_memory(result, x) for x in inputs):
                    result = result.copy(order)
                storage[0] = np.asarray(result, order=order)

    # -- C -----------------------------------------------------------------------------------------------------------

    def native_code(self, node):
        code, needs_python = self._generate(node)
        return None if needs_python else code

    def _native_code(self, node):
        # A compiled module includes Python's headers, so a kernel in generated C code may use Python's C API. If the
        # kernel of a node uses the C API, the node has this C code, but no `native_code`.
        code, _ = self._generate(node)
        if code is None:
            raise MethodNotDefined("c_code", type(self), self.__class__.__name__)
        return code

    def _generate(self, node):
        """Return a pair: the NativeCode or None, and True if the kernel uses Python's C API."""
        if node.outputs[0].type.ndim > _NATIVE_MAX_NDIM:
            return None, False
        divisors = integer_divisors(node)
        check_divisors_first = self._checks_divisors_first(node, divisors)
        program = elemwise_program(node, divisors, check_divisors_first=check_divisors_first)
        try:
            kernel, needs_python = elemwise_kernel(program)
        except (MethodNotDefined, NotImplementedError):
            return None, False
        openmp_minsize = config.openmp_elemwise_minsize if self.openmp else 0
        code = NativeCode(
            _NATIVE + ":elemwise",
            kernel=kernel,
            program=0,
            ndim=node.outputs[0].type.ndim,
            openmp_minsize=openmp_minsize,
            may_fail=needs_python,
            has_maybe_broadcast=Access.MAYBE_BROADCAST in program.accesses,
            computed_divisor=OPERATIONS[divisors.computed],
            check_divisors_first=check_divisors_first,
            operands=operand_rows(node, program, _NOT_INPLACE if divisors.computed else self.inplace_pattern, divisors),
        )
        return code, needs_python

    def _checks_divisors_first(self, node, divisors):
        """Return True if the divisors must be checked before the loop.

        If they were checked in the loop, a failing call could already have overwritten a divisor, or memory that is
        visible to other nodes or to the user.
        """
        if divisors.computed:
            return False
        divided = [node.inputs[i] for i in divisors.inputs]
        overwritten = [node.inputs[i] for i in self.inplace_pattern.values()]
        return bool(divided) and any(x in divided or not _is_temporary(x) for x in overwritten)

    def c_headers(self):
        return [*NativeOp.c_headers(self), '"kernel_prologue.h"']

    def c_header_dirs(self):
        import os

        dirs = NativeOp.c_header_dirs(self)
        return [*dirs, *[os.path.join(d, "c_include") for d in dirs]]


def _is_temporary(variable):
    """Return True if the node that computes a variable also allocates the memory of its value."""
    if variable.owner is None:
        return False
    op = variable.owner.op
    return not any(variable.index in (getattr(op, name, None) or {}) for name in ("view_map", "destroy_map"))


# The following functions are called often with the same types and paddings. The objects that they return are immutable,
# so the functions cache them.


@functools.cache
def _scalar_variable(dtype):
    """Return a scalar variable, from which the output types of a scalar op are determined."""
    return get_scalar_type(dtype=dtype).make_variable()


@functools.lru_cache(maxsize=1024)
def _tensor_type(dtype, broadcastable):
    return TensorType(dtype=dtype, broadcastable=broadcastable)


@functools.lru_cache(maxsize=1024)
def _padding(dim_shuffle, broadcastable, target):
    """Return the Op that adds broadcastable dimensions on the left, up to the rank `target`."""
    length = len(broadcastable)
    return dim_shuffle(broadcastable, ["x"] * (target - length) + list(range(length)))


def _gradient_dtype(variable):
    """Return the dtype of a gradient with respect to `variable`."""
    return variable.type.dtype if variable.type.dtype in scalar_continuous() else config.floatX


def _lift_graph(root, lifted, ndim):
    """Convert a scalar variable and its ancestors to tensors, and add these tensors to `lifted`.

    Parameters
    ----------
    root : scalar variable
    lifted : dict
        Scalar variable -> tensor.
    ndim : int
        The rank of the tensors.
    """
    for variable in postorder([root], lifted):
        node = variable.owner
        if node is None:
            if not isinstance(variable.type, scalar.Scalar):
                lifted[variable] = variable  # disconnected and undefined gradients remain as they are
                continue
            if not hasattr(variable, "data"):
                raise ValueError(
                    "The gradient of a scalar op uses a variable that is not an input, an output or a constant: %s"
                    % variable
                )
            value = constant(np.asarray(variable.data, dtype=variable.type.dtype))
            lifted[variable] = DimShuffle((), ["x"] * ndim)(value) if ndim else value
            continue
        results = Elemwise(node.op, {})(*[lifted[i] for i in node.inputs], **dict(return_list=True))
        lifted.update(zip(node.outputs, results))
