"""Elementwise operations on devices: `GpuElemwise` and `GpuDimShuffle`. The reductions of `careduce` are exported here,
too.
"""

import numpy as np

from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.graph import Apply, Variable
from theano_ng.gof.native import NativeCode
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.gpuarray.basic_ops import as_gpuarray_variable, infer_context_name
from theano_ng.gpuarray.careduce import GpuCAReduce, GpuCAReduceCPY, GpuCAReduceCuda, gpu_ca_reduce_cuda
from theano_ng.gpuarray.classic_imports import CLASSIC_IMPORTS
from theano_ng.gpuarray.contexts import context_address
from theano_ng.gpuarray.host_division import evaluate_without_errors
from theano_ng.gpuarray.kernels.device_kernel import sample
from theano_ng.gpuarray.kernels.elemwise import argument_bytes, elements_per_thread, elemwise_code, elemwise_kernels
from theano_ng.gpuarray.kernels.scalar_code import SupportCodeError
from theano_ng.gpuarray.op import GpuOp
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.twin import host_variable, to_context_of
from theano_ng.gpuarray.type import GpuArrayType
from theano_ng.lazy import lazy_names
from theano_ng.loops.program import Access, elementwise_program, operand_accesses
from theano_ng.scalar.basic_scipy import Erfcinv, Erfinv
from theano_ng.scalar.divisors import divides
from theano_ng.scalar.op import ScalarOp, c_cast, is_discrete, support_text
from theano_ng.scalar.out_types import upgrade_to_float_no_complex
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.elemwise.perform import broadcast_shape
from theano_ng.tensor.indexing.subtensor import set_subtensor
from theano_ng.tensor.shaping.creation import zeros

__all__ = [
    "GpuCAReduce",
    "GpuCAReduceCPY",
    "GpuCAReduceCuda",
    "GpuDimShuffle",
    "GpuElemwise",
    "GpuElemwiseInSlices",
    "GpuErfcinv",
    "GpuErfinv",
    "SupportCodeError",
    "gpu_ca_reduce_cuda",
    "gpu_erfcinv",
    "gpu_erfinv",
    "max_inputs_to_GpuElemwise",
]

# Names that the classic module had, too
__getattr__, __dir__, _ = lazy_names(__name__, CLASSIC_IMPORTS)

_NATIVE = "theano_ng.gpuarray.native.elemwise"


class GpuElemwise(GpuOp, Elemwise):
    """Apply a scalar op to each element of device arrays.

    Parameters
    ----------
    scalar_op, inplace_pattern, name, nfunc_spec, openmp
        See `tensor.elemwise.Elemwise`. A name that begins with ``Elemwise`` gets the prefix ``Gpu``.

    Raises
    ------
    SupportCodeError
        When the Op is applied, if kernels cannot compute the scalar Op, because it has complex numbers or C code that
        uses Python or C++.

    Notes
    -----
    A node launches one of two kernels. If the operands are contiguous (all in C order, or all in F order), the first
    kernel treats them as vectors; on GPUs it loads and stores 16 bytes at a time. Otherwise the second kernel uses their strides, along as few axes as possible. The
    outputs are in F order if all inputs are in F order and some input is not in C order. Otherwise they are in C order.

    Division of integers by zero gives 0, as in NumPy: kernels raise no errors. (The Op on the host raises
    ZeroDivisionError.)
    """

    __module__ = "theano_ng.gpuarray.elemwise"
    __props__ = Elemwise.__props__
    _f16_ok = True

    def __init__(self, scalar_op, inplace_pattern=None, name=None, nfunc_spec=None, openmp=None):
        if name is not None and name.startswith("Elemwise"):
            name = "Gpu" + name
        Elemwise.__init__(self, scalar_op, inplace_pattern, name, nfunc_spec, openmp)

    def __str__(self):
        if self.name is not None:
            return self.name
        return "GpuElemwise{%s}%s<gpuarray>" % (self.scalar_op, sorted(self.inplace_pattern.items()))

    __repr__ = __str__

    def make_node(self, *inputs):
        """Make a node. Variables on the host are moved to the context that `infer_context_name` returns.

        Raises
        ------
        SupportCodeError
        """
        context_name = infer_context_name(*[v for v in inputs if hasattr(v, "type")])
        inputs = [as_gpuarray_variable(v, context_name) for v in inputs]
        out_dtypes, out_patterns, inputs = self.get_output_info(GpuDimShuffle, *inputs)
        in_dtypes = tuple([v.type.dtype for v in inputs])
        op = self._for_types(in_dtypes)
        elemwise_code(op.scalar_op, in_dtypes, tuple(out_dtypes))
        outputs = [GpuArrayType(dtype, pattern, context_name)() for dtype, pattern in zip(out_dtypes, out_patterns)]
        return Apply(op, inputs, outputs)

    def fails_on_values(self, node):
        return False

    def do_constant_folding(self, node):
        return True

    def python_constant_folding(self, node):
        return False

    def max_inputs(self, node_or_outputs):
        """Return the maximum number of inputs; see `max_inputs_to_GpuElemwise`."""
        return max_inputs_to_GpuElemwise(node_or_outputs)

    # -- derivatives: Elemwise builds their graphs with host variables; rules move the graphs to the device ------------

    def L_op(self, inputs, outs, ograds):
        found = Elemwise.L_op(self, *[[host_variable(v) for v in variables] for variables in (inputs, outs, ograds)])
        return [to_context_of(g, x) for g, x in zip(found, inputs)]

    def R_op(self, inputs, eval_points):
        found = Elemwise(self.scalar_op).R_op(
            [host_variable(v) for v in inputs], [None if v is None else host_variable(v) for v in eval_points]
        )
        return [None if v is None else to_context_of(v, inputs[0]) for v in found]

    # -- computation ---------------------------------------------------------------------------------------------------

    def host_op(self, node):
        return Elemwise(self.scalar_op, dict(self.inplace_pattern), nfunc_spec=self.nfunc_spec)

    def c_code(self, node, name, inputs, outputs, sub):
        """Raise MethodNotDefined. The C code of Elemwise is for host arrays, and nodes on devices run native code."""
        raise MethodNotDefined("c_code", type(self), "device arrays are computed by native code")

    def perform(self, node, inputs, output_storage, params=None):
        if not divides(self.scalar_op):
            GpuOp.perform(self, node, inputs, output_storage)
        else:
            values = [np.asarray(value) for value in inputs]
            shape = broadcast_shape(node, values)
            dtypes = [v.type.dtype for v in node.outputs]
            results = evaluate_without_errors(
                self.scalar_op, [v.type.dtype for v in node.inputs], values, dtypes, shape
            )
            self.store(node, results, inputs, output_storage)

    def prepare_node(self, node, storage_map, compute_map, impl):
        if impl == "py":
            Elemwise.prepare_node(self, node, storage_map, compute_map, impl)

    def native_code(self, node):
        types = [v.type for v in node.outputs]
        if len(types[0].broadcastable) > 32:
            return None
        return NativeCode(
            _NATIVE + ":elemwise", **elemwise_params(self.scalar_op, node.inputs, types, self.inplace_pattern)
        )


def elemwise_params(scalar_op, inputs, results, overwrites=(), slices=(), axis=0):
    """Return the parameters of the native code of an elementwise node.

    Parameters
    ----------
    scalar_op : ScalarOp
    inputs : list of Variable
        Device variables, and numbers on the host.
    results : list of GpuArrayType
        The types of the results of the scalar op.
    overwrites : dict
        Number of a result -> number of the input that it overwrites.
    slices : sequence of tuple or None
        For each result, the bounds of the slice along `axis` in which it is stored, or None if it is an output.

    Returns
    -------
    dict
    """
    pattern, context = results[0].broadcastable, results[0].context
    in_dtypes, out_dtypes = [v.type.dtype for v in inputs], [type_.dtype for type_ in results]
    numbers = [k for k, v in enumerate(inputs) if not isinstance(v.type, GpuArrayType)]
    accesses = operand_accesses([v.type.broadcastable for v in inputs], pattern)
    accesses = [Access.HOISTED if k in numbers else access for k, access in enumerate(accesses)]
    rank = pattern.count(False)
    program = elementwise_program(scalar_op, in_dtypes, out_dtypes, accesses)
    kernels = elemwise_kernels(program, rank, context, numbers)
    bounds = dict(enumerate(slices))
    rows = []
    for k, type_ in enumerate([*[v.type for v in inputs], *results]):
        j = k - len(inputs)
        start, stop = bounds.get(j) or (-1, -1)
        rows.append(
            dict(
                broadcastable=sum(1 << d for d, b in enumerate(type_.broadcastable) if b),
                typecode=0 if k in numbers else type_.typecode,
                is_number=k in numbers,
                kind=accesses[k] if j < 0 else Access.VARYING,
                overwrites=dict(overwrites).get(j, -1) if j >= 0 else -1,
                start=start,
                stop=-1 if stop is None else stop,
            )
        )
    return dict(
        context=context_address(context),
        contiguous=kernels[0],
        strided=kernels[1] if rank else 0,
        ndim=len(pattern),
        rank=rank,
        per_thread=elements_per_thread(program),
        axis=axis,
        results=len(results),
        operands=rows,
    )


class GpuElemwiseOfNumbers(GpuElemwise):
    """A `GpuElemwise` some of whose inputs are numbers on the host, which are passed to the kernel by value. A number is
    an array whose axes are all broadcastable. A rule makes this Op, after fusion.
    """

    __module__ = "theano_ng.gpuarray.elemwise"

    def make_node(self, *inputs):
        is_number = [not isinstance(v.type, GpuArrayType) and all(v.broadcastable) for v in inputs]
        context_name = infer_context_name(*[v for v, number in zip(inputs, is_number) if not number])
        moved = GpuElemwise(self.scalar_op).make_node(*[as_gpuarray_variable(v, context_name) for v in inputs])
        if any(v.ndim != moved.outputs[0].ndim for v in inputs):
            raise TypeError("%s: the inputs must have the same number of dimensions" % self)
        inputs = [v if number else on_device for v, number, on_device in zip(inputs, is_number, moved.inputs)]
        return Apply(self, inputs, [v.type() for v in moved.outputs])


class GpuElemwiseInSlices(GpuOp):
    """Compute elementwise results, and store some of them in slices of one new array. A rule makes this Op.

    The inputs are the lengths of the array, and the inputs of the scalar op. The outputs are the array, and the results
    that are in no slice. Elements of the array in no slice are 0.

    Parameters
    ----------
    scalar_op : ScalarOp
    axis : int
        The axis of the slices.
    slices : tuple
        For each result of the scalar op: a pair (start, stop) with 0 <= start, or None if the result is in no slice. A
        `stop` of None is the end of the axis. The slices do not overlap.
    """

    __props__ = ("scalar_op", "axis", "slices")
    _f16_ok = True

    def __init__(self, scalar_op, axis, slices):
        self.scalar_op, self.axis, self.slices = scalar_op, axis, tuple(slices)

    def __str__(self):
        return "GpuElemwiseInSlices{%s, axis %d: %s}" % (self.scalar_op, self.axis, self.slices)

    def _parts(self, inputs):
        """Return the lengths, the inputs of the scalar op, and the types of its results."""
        ndim = next((v.ndim for v in inputs if isinstance(v.type, GpuArrayType)), 0)
        made = GpuElemwise(self.scalar_op).make_node(*inputs[ndim:])
        return inputs[:ndim], made.inputs, [v.type for v in made.outputs]

    def make_node(self, *inputs):
        inputs = [v if isinstance(v, Variable) else as_tensor_variable(v) for v in inputs]
        lengths, operands, results = self._parts(inputs)
        stored = [type_ for type_, bounds in zip(results, self.slices) if bounds is not None]
        if not stored or any(type_ != stored[0] for type_ in stored) or stored[0].broadcastable[self.axis]:
            raise TypeError("%s: the results in slices must have one type that varies along the axis" % self)
        outputs = [stored[0], *[type_ for type_, bounds in zip(results, self.slices) if bounds is None]]
        return Apply(self, [*lengths, *operands], [type_() for type_ in outputs])

    def fails_on_values(self, node):
        return False

    def host_op(self, node):
        return Elemwise(self.scalar_op)

    def infer_shape(self, node, shapes):
        ndim = node.outputs[0].ndim
        lengths = tuple(node.inputs[:ndim])
        operands = [v.type.host_type()() for v in node.inputs[ndim:]]
        plain = Elemwise(self.scalar_op).make_node(*operands)
        found = plain.op.infer_shape(plain, shapes[ndim:])
        return [lengths, *[shape for shape, bounds in zip(found, self.slices) if bounds is None]]

    def connection_pattern(self, node):
        ndim = node.outputs[0].ndim
        return [[False] * len(node.outputs)] * ndim + [[True] * len(node.outputs)] * (len(node.inputs) - ndim)

    def perform(self, node, inputs, output_storage, params=None):
        ndim = node.outputs[0].ndim
        lengths, values = [int(n) for n in inputs[:ndim]], [np.asarray(v) for v in inputs[ndim:]]
        host = Elemwise(self.scalar_op).make_node(*[v.type.host_type()() for v in node.inputs[ndim:]])
        cells = [[None] for _ in host.outputs]
        host.op.perform(host, values, cells)
        array = np.zeros(lengths, node.outputs[0].dtype)
        for (value,), bounds in zip(cells, self.slices):
            if bounds is not None:
                array[self._index(bounds)] = value
        plain = [value for (value,), bounds in zip(cells, self.slices) if bounds is None]
        self.store(node, [array, *plain], inputs, output_storage)

    def _index(self, bounds):
        return (slice(None),) * self.axis + (slice(*bounds),)

    def L_op(self, inputs, outs, ograds):
        lengths, operands, _ = self._parts(inputs)
        plain = iter(ograds[1:])
        from_array = ograds[0]
        is_zero = isinstance(from_array.type, DisconnectedType)
        parts = [
            next(plain) if bounds is None else from_array if is_zero else from_array[self._index(bounds)]
            for bounds in self.slices
        ]
        found = GpuElemwise(self.scalar_op)
        return [DisconnectedType()() for _ in lengths] + found.L_op(operands, found(*operands, return_list=True), parts)

    def R_op(self, inputs, eval_points):
        lengths, operands, _ = self._parts(inputs)
        found = GpuElemwise(self.scalar_op).R_op(operands, eval_points[len(lengths) :])
        array = zeros([host_variable(v) for v in lengths], self._parts(inputs)[2][0].dtype)
        for direction, bounds in zip(found, self.slices):
            if bounds is not None and direction is not None:
                array = set_subtensor(array[self._index(bounds)], host_variable(direction))
        plain = [direction for direction, bounds in zip(found, self.slices) if bounds is None]
        return [to_context_of(array, operands[0]), *plain]

    def native_code(self, node):
        ndim = node.outputs[0].ndim
        _, operands, results = self._parts(node.inputs)
        params = elemwise_params(self.scalar_op, operands, results, slices=self.slices, axis=self.axis)
        return NativeCode(_NATIVE + ":elemwise_in_slices", **params) if ndim <= 32 else None


def max_inputs_to_GpuElemwise(node_or_outputs):
    """Return the maximum number of inputs of an elementwise kernel.

    Parameters
    ----------
    node_or_outputs : Apply or list of Variable

    Returns
    -------
    int
        With this number of inputs, the arguments of the kernel (addresses, lengths, strides of all operands) fit into
        the space for arguments: 4096 bytes in CUDA, and at least 1024 bytes in OpenCL.
    """
    outputs = node_or_outputs.outputs if isinstance(node_or_outputs, Apply) else list(node_or_outputs)
    rank = max([v.type.ndim for v in outputs])
    spare = outputs[0].type.context.argument_bytes - argument_bytes(rank, len(outputs))
    return max(spare // (argument_bytes(rank, 1) - argument_bytes(rank, 0)), 1)


class GpuDimShuffle(GpuOp, DimShuffle):
    """Reorder the axes of a device array, insert axes of length 1, and drop broadcastable axes.

    Parameters
    ----------
    input_broadcastable, new_order, inplace
        See `tensor.elemwise.DimShuffle`.
    """

    __module__ = "theano_ng.gpuarray.elemwise"
    __props__ = DimShuffle.__props__
    _f16_ok = True

    def __init__(self, input_broadcastable, new_order, inplace=True):
        DimShuffle.__init__(self, input_broadcastable, new_order, inplace)

    def __str__(self):
        name = "InplaceGpuDimShuffle" if self.inplace else "GpuDimShuffle"
        return "%s{%s}" % (name, ",".join([str(d) for d in self.new_order]))

    def make_node(self, input):
        context_name = infer_context_name(input)
        x = as_gpuarray_variable(input, context_name)
        # The Op for the host checks the broadcast patterns, and computes the pattern of the output.
        pattern = DimShuffle.make_node(self, x.type.host_type()()).outputs[0].type.broadcastable
        return Apply(self, [x], [GpuArrayType(x.type.dtype, pattern, context_name)()])

    def perform(self, node, inp, out, params=None):
        (x,), (storage,) = inp, out
        for d in self.drop:
            if x.shape[d] != 1:
                raise ValueError(
                    "DimShuffle: dimension %d of the input is dropped, so its length must be 1, but it is %d"
                    % (d, x.shape[d])
                )
        itemsize = x.dtype.itemsize
        view = pygpu.from_gpudata(
            x.gpudata,
            x.offset,
            x.dtype,
            [1 if d == "x" else x.shape[d] for d in self.new_order],
            context=x.context,
            strides=[itemsize if d == "x" else x.strides[d] for d in self.new_order],
            base=x,
        )
        storage[0] = view if self.inplace else view.copy()

    def host_op(self, node):
        return DimShuffle(self.input_broadcastable, self.new_order, inplace=False)

    def native_code(self, node):
        return NativeCode(
            _NATIVE + ":dimshuffle",
            copies=not self.inplace,
            ndim_in=len(self.input_broadcastable),
            order=self._new_order,
        )

    def grad(self, inp, grads):
        (found,) = DimShuffle.grad(self, [host_variable(inp[0])], [host_variable(grads[0])])
        return [to_context_of(found, inp[0])]


class _ErfInverse:
    """A base class of the inverse error functions in kernels. On CUDA devices, kernels call the functions of CUDA's
    library. On other devices, they call the functions in scalar/c_code/erf.h.
    """

    output_types_preference = staticmethod(upgrade_to_float_no_complex)

    def c_expression(self, args, dtypes, out):
        if is_discrete(out):
            raise MethodNotDefined("c_code", type(self), "no C code for the dtypes %s -> %s" % (dtypes, out))
        return "tng_device_%s_%s(%s)" % (self.scipy_name, out, c_cast(args[0], dtypes[0], out))

    def c_code(self, node, name, inp, out, sub):
        """Return C code that only device kernels can use."""
        return ScalarOp.c_code(self, node, name, inp, out, sub)

    c_code_wide = ScalarOp.c_code_from_expression

    def c_support_code(self):
        name = self.scipy_name
        return "%s\n#ifndef tng_device_%s\n#define tng_device_%s\n%s#endif\n" % (
            support_text("erf.h"),
            name,
            name,
            "#ifdef __CUDACC__\n#define tng_device_{0}_float32 {0}f\n#define tng_device_{0}_float64 {0}\n#else\n"
            "#define tng_device_{0}_float32(x) ((npy_float32)tng_{0}(x))\n#define tng_device_{0}_float64 tng_{0}\n#endif\n".format(
                name
            ),
        )


class GpuErfinv(_ErfInverse, Erfinv):
    """The inverse of the error function, in device kernels.

    Parameters
    ----------
    output_types_preference : callable, optional
    name : str, optional
    """


class GpuErfcinv(_ErfInverse, Erfcinv):
    """The inverse of the complementary error function, in device kernels.

    Parameters
    ----------
    output_types_preference : callable, optional
    name : str, optional
    """


gpu_erfinv = GpuErfinv(upgrade_to_float_no_complex, name="gpu_erfinv")
gpu_erfcinv = GpuErfcinv(upgrade_to_float_no_complex, name="gpu_erfcinv")


def kernel_samples():
    """Return samples of the kernel source code, which tests compile; see `kernels.samples`."""
    kernels = []
    for op in (gpu_erfinv, gpu_erfcinv):
        for dtype in ("float16", "float32", "float64"):
            kernels += elemwise_kernels(elementwise_program(op, (dtype,), (dtype,)), 1, None)
    return [sample("inverses of the error function", kernels)]
