"""Reductions of device arrays by a commutative, associative scalar op: `GpuCAReduceCuda`, `GpuCAReduceCPY`."""

from copy import copy

import numpy as np

from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeCode, obtain_kernels
from theano_ng.gpuarray.basic_ops import as_gpuarray_variable, infer_context_name
from theano_ng.gpuarray.contexts import context_address
from theano_ng.gpuarray.kernels.reduce import dtype_after, reduce_kernels, reduce_text, reduction_program
from theano_ng.gpuarray.kernels.scalar_code import SupportCodeError
from theano_ng.gpuarray.op import GpuOp
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.twin import host_variable, to_context_of
from theano_ng.gpuarray.type import GpuArrayType
from theano_ng.tensor.elemwise.op import Elemwise
from theano_ng.tensor.reductions.careduce import CAReduceDtype, Prod, Sum

_NATIVE = "theano_ng.gpuarray.native.reduce"


class _GpuReduction(GpuOp, CAReduceDtype):
    """A base class of reductions on devices."""

    _f16_ok = True
    pre_scalar_op = None
    _acc_of_floats = {"float16": "float32", "float32": "float32"}

    def _acc_dtype(self, idtype):
        if self.acc_dtype is None and idtype in self._acc_of_floats and self.dtype in (None, "float16", "float32"):
            return self._acc_of_floats[idtype]
        return CAReduceDtype._acc_dtype(self, idtype)

    def _computed_dtype(self, idtype):
        """Return the dtype of the elements to reduce: the results of `pre_scalar_op` on elements of `idtype`."""
        return idtype if self.pre_scalar_op is None else dtype_after(self.pre_scalar_op, idtype)

    def _prepared(self, x):
        """Return a copy of this Op with the axis and dtypes for the input x, and the result's broadcast pattern."""
        dtype = self._computed_dtype(x.type.dtype)
        # Let the Op for the host compute and check the axes and the dtypes.
        node = self._host(self.axis).make_node(_HostLike(dtype, x.type.broadcastable))
        op = copy(self)
        op.axis = node.op.axis
        op.dtype, op.acc_dtype = node.op.dtype, self._acc_dtype(dtype)
        return op, node.outputs[0].type.broadcastable

    def _host(self, axis):
        """Return the corresponding reduction on the host. Its input is the result of `pre_scalar_op`."""
        return CAReduceDtype(self.scalar_op, axis=axis, dtype=self.dtype, acc_dtype=self.acc_dtype)

    def make_node(self, input):
        """Make a node for a device variable, or for a variable that is moved to a device.

        Raises
        ------
        SupportCodeError
            If kernels cannot compute the reduction.
        ValueError, TypeError
            See `CAReduceDtype`.
        """
        context_name = infer_context_name(input)
        x = as_gpuarray_variable(input, context_name)
        op, pattern = self._prepared(x)
        if x.type.dtype.startswith("complex"):
            raise SupportCodeError("%s of %s: kernels do not compute with complex numbers" % (op, x.type.dtype))
        op._text(x.type)
        return Apply(
            op, [x], [GpuArrayType(op._output_dtype(op._computed_dtype(x.type.dtype)), pattern, context_name)()]
        )

    def _ranks(self, type_):
        axes = self._axes(type_.ndim)
        kept = sum(1 for d, b in enumerate(type_.broadcastable) if not b and d not in axes)
        reduced = sum(1 for d, b in enumerate(type_.broadcastable) if not b and d in axes)
        return max(kept, 1), max(reduced, 1)

    def _dtypes(self, type_):
        dtype = self._computed_dtype(type_.dtype)
        return type_.dtype, self._acc_dtype(dtype), self._output_dtype(dtype)

    def _text(self, type_):
        return reduce_text(self._program(type_), *self._ranks(type_))

    def _program(self, type_):
        return reduction_program(self.scalar_op, self.pre_scalar_op, *self._dtypes(type_))

    def supports_c_code(self, inputs):
        """Return True if kernels support the dtype and the scalar op. Kernels can reduce any set of axes.

        Parameters
        ----------
        inputs : list of Variable
            A list of one variable.
        """
        (x,) = inputs
        try:
            op, _ = self._prepared(x)
            op._text(x.type)
        except (SupportCodeError, TypeError):
            return False
        return True

    def fails_on_values(self, node):
        return False

    def reads_blocks(self, node):
        return False

    def native_code(self, node):
        x, z = node.inputs[0].type, node.outputs[0].type
        if x.ndim > 32:
            return None
        kept, reduced = self._ranks(x)
        program = self._program(x)
        elements, parts = reduce_kernels(program, kept, reduced, z.context)
        acc_dtype = program.fold.dtype
        return NativeCode(
            _NATIVE + ":reduce",
            context=context_address(z.context),
            elements=elements,
            parts=parts,
            kept_rank=kept,
            reduced_rank=reduced,
            ndim=x.ndim,
            axes=sum(1 << d for d in self._axes(x.ndim)),
            element_type=x.typecode,
            accumulator_type=pygpu.dtype_to_typecode("float32" if acc_dtype == "float16" else acc_dtype),
            result_type=z.typecode,
            has_identity=getattr(self.scalar_op, "identity", None) is not None,
        )

    def host_op(self, node):
        return self._host(self.axis)

    def perform(self, node, inp, out, params=None):
        (x,), (storage,) = inp, out
        value = np.asarray(x)
        if self.pre_scalar_op is not None:
            cell = [None]
            before = Elemwise(self.pre_scalar_op).make_node(node.inputs[0].type.host_type()())
            before.op.perform(before, [value], [cell])
            value = cell[0]
        dtype = self._computed_dtype(node.inputs[0].type.dtype)
        host = self._host(self.axis).make_node(_HostLike(dtype, node.inputs[0].type.broadcastable))
        cell = [None]
        host.op.perform(host, [value], [cell])
        output = node.outputs[0].type
        storage[0] = pygpu.array(np.asarray(cell[0], output.dtype), context=output.context)

    # -- derivatives ---------------------------------------------------------------------------------------------------

    def _host_with_gradient(self, axis):
        """Return the corresponding reduction on the host. Sums and products get classes that define a gradient."""
        kinds = {"Add": Sum, "Mul": Prod}
        kind = kinds.get(type(self.scalar_op).__name__)
        return self._host(axis) if kind is None else kind(axis=axis, dtype=self.dtype, acc_dtype=self.acc_dtype)

    def L_op(self, inp, out, grads):
        x, z, gz = host_variable(inp[0]), host_variable(out[0]), host_variable(grads[0])
        y = x if self.pre_scalar_op is None else Elemwise(self.pre_scalar_op)(x)
        (found,) = self._host_with_gradient(self.axis).L_op([y], [z], [gz])
        if y is not x and hasattr(found.type, "dtype"):
            (found,) = y.owner.op.L_op([x], [y], [found])
        return [to_context_of(found, inp[0])]

    def grad(self, inp, grads):
        return self.L_op(inp, [self(*inp)], grads)

    def R_op(self, inputs, eval_points):
        if eval_points[0] is None:
            return [None]
        x, point = host_variable(inputs[0]), host_variable(eval_points[0])
        if self.pre_scalar_op is not None:
            before = Elemwise(self.pre_scalar_op)
            (point,) = before.R_op([x], [point])
            x = before(x)
            if point is None:
                return [None]
        (found,) = self._host_with_gradient(self.axis).R_op([x], [point])
        return [None if found is None else to_context_of(found, inputs[0])]


def _HostLike(dtype, pattern):
    return GpuArrayType(dtype, pattern).host_type()()


class GpuCAReduceCuda(_GpuReduction):
    """Reduce device arrays over some axes by a scalar op.

    Parameters
    ----------
    scalar_op : ScalarOp
        A binary, commutative and associative op.
    axis : int, sequence of int or None
        The axes to reduce. None: the axes of `reduce_mask`. Without `reduce_mask`, all axes.
    reduce_mask : sequence of {0, 1}, optional
        One flag for each axis of the input: whether it is reduced. For example, ``(1,)`` reduces a vector, ``(1, 0)``
        each column of a matrix, ``(0, 1)`` each row, and ``(1, 1, 1)`` all elements of an array of rank 3. If no axis
        is reduced, the result is a copy.
    dtype : str, optional
        Dtype of the result, see `CAReduceDtype`.
    acc_dtype : str, optional
        Dtype of the accumulators. The default is the default of `CAReduceDtype`, except that reductions of float32 and
        float16 to these dtypes are accumulated in float32, because doubles are slow on many devices.
    pre_scalar_op : ScalarOp, optional
        An op with one input, which is applied to each element before the reduction.

    Raises
    ------
    ValueError
        If `axis` and `reduce_mask` contradict each other.

    Notes
    -----
    Elements are combined in the same order each time, so the rounding depends only on the shape and the device. If few
    results are computed from many elements, two kernels are launched, otherwise one kernel.
    """

    __module__ = "theano_ng.gpuarray.elemwise"
    __props__ = ("axis", "reduce_mask", "dtype", "acc_dtype", "scalar_op", "pre_scalar_op")

    def __init__(self, scalar_op, axis=None, reduce_mask=None, dtype=None, acc_dtype=None, pre_scalar_op=None):
        if pre_scalar_op is not None and pre_scalar_op.nin != 1:
            raise ValueError("pre_scalar_op must have one input, %s has %s" % (pre_scalar_op, pre_scalar_op.nin))
        if reduce_mask is not None:
            reduce_mask = tuple([int(bool(flag)) for flag in reduce_mask])
            masked = tuple([d for d, flag in enumerate(reduce_mask) if flag])
            if axis is None:
                axis = masked
        CAReduceDtype.__init__(self, scalar_op, axis=axis, dtype=dtype, acc_dtype=acc_dtype)
        self.reduce_mask = reduce_mask
        self.pre_scalar_op = pre_scalar_op
        if reduce_mask is not None and tuple(sorted(a % max(len(reduce_mask), 1) for a in self.axis)) != masked:
            raise ValueError("axis %s and reduce_mask %s do not name the same axes" % (self.axis, reduce_mask))

    def __str__(self):
        what = (
            str(self.scalar_op)
            if self.pre_scalar_op is None
            else "pre=%s,red=%s" % (self.pre_scalar_op, self.scalar_op)
        )
        return "GpuCAReduceCuda{%s}%s" % (
            what,
            "" if self.axis is None else "{%s}" % ", ".join([str(a) for a in self.axis]),
        )

    def _prepared(self, x):
        if self.reduce_mask is not None and len(self.reduce_mask) != x.type.ndim:
            raise TypeError(
                "%s has a reduce_mask for %d axes, %s, but the input has %d"
                % (self, len(self.reduce_mask), self.reduce_mask, x.type.ndim)
            )
        op, pattern = super()._prepared(x)
        op.reduce_mask = tuple([int(d in op._axes(x.type.ndim)) for d in range(x.type.ndim)])
        op.axis = op._axes(x.type.ndim) if self.axis is not None else None
        return op, pattern

    def c_code_reduce_01X(self, sio, node, name, x, z, fail, N):
        """Write the C code for the reduce masks (0, 1), (0, 1, 1) and (0, 1, 1, 1).

        Parameters
        ----------
        sio : file
            The file to write to.
        node : Apply
        name : str
            A suffix that makes C identifiers unique.
        x, z : str
            C names of the input and the output, which are PyGpuArrayObject pointers.
        fail : str
            C statement to execute after an error.
        N : {1, 2, 3}
            Number of reduced axes.
        """
        mask = node.op.reduce_mask
        if N not in (1, 2, 3) or mask != (0,) + (1,) * N:
            raise ValueError(
                "reduce_mask is %s; expected one 0 followed by N ones, where N is 1, 2 or 3, but N is %r" % (mask, N)
            )
        sio.write(_call_of_native(node, name, x, z, fail))


def _call_of_native(node, name, x, z, fail):
    """Return C code that calls the native code of a node. The C code contains the addresses of the kernels, so it works
    only in this process.
    """
    code = node.op.native_code(node)
    params = code.packed(obtain_kernels(code.kernels))
    module, _, function = code.function.partition(":")
    return """
    {
        static const int64_t params_%(name)s[] = {%(params)s};
        const NativeEntry *entry_%(name)s = native_entry("%(module)s", "%(function)s");
        PyObject *in_%(name)s[] = {(PyObject *)%(x)s}, *out_%(name)s[] = {(PyObject *)%(z)s};
        int status_%(name)s = entry_%(name)s == NULL ? -1 : entry_%(name)s->function(1, 1, in_%(name)s, out_%(name)s, params_%(name)s);
        %(z)s = (PyGpuArrayObject *)out_%(name)s[0];
        if (status_%(name)s != 0) {
            %(fail)s
        }
    }
    """ % dict(
        name=name, params=", ".join("%dLL" % w for w in params), module=module, function=function, x=x, z=z, fail=fail
    )


class GpuCAReduceCPY(_GpuReduction):
    """A reduction like `GpuCAReduceCuda`, but only with the parameters of `CAReduceDtype`.

    Parameters
    ----------
    scalar_op, axis, dtype, acc_dtype
        See `GpuCAReduceCuda`.
    """

    __module__ = "theano_ng.gpuarray.elemwise"
    __props__ = ("scalar_op", "axis", "dtype", "acc_dtype")

    def __init__(self, scalar_op, axis=None, dtype=None, acc_dtype=None):
        CAReduceDtype.__init__(self, scalar_op, axis=axis, dtype=dtype, acc_dtype=acc_dtype)

    def __str__(self):
        axes = "" if self.axis is None else "{%s}" % ", ".join([str(a) for a in self.axis])
        return "GpuReduce{%s}%s" % (self.scalar_op, axes)


GpuCAReduce = GpuCAReduceCPY


def gpu_ca_reduce_cuda(scalar_op, axis=None, reduce_mask=None, dtype=None, acc_dtype=None, pre_scalar_op=None):
    """Return a `GpuCAReduceCuda`."""
    return GpuCAReduceCuda(scalar_op, axis, reduce_mask, dtype, acc_dtype, pre_scalar_op)
