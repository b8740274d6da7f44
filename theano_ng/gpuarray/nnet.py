"""Ops of neural networks on devices: softmax and its combinations."""

import numpy as np

from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeCode
from theano_ng.gpuarray.device.index_errors import site_of
from theano_ng.gpuarray.kernels.device_kernel import sample
from theano_ng.gpuarray.kernels.indexing import check_labels
from theano_ng.gpuarray.kernels.row_loop import ELEMENT, ONE, ROW, RowInput
from theano_ng.gpuarray.kernels.rows import row_kernel
from theano_ng.gpuarray.op import GpuOp
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.rows import (
    ANY,
    CROSSENTROPY,
    CROSSENTROPY_GRAD,
    ONEHOT,
    ONEHOT_GRAD,
    SOFTMAX,
    SOFTMAX_GRAD,
    LoopBuilder,
    row_code,
)
from theano_ng.gpuarray.transfers import as_gpuarray_variable, host_from_gpu, infer_context_name
from theano_ng.gpuarray.twin import WideTwinOp, at_least_float32, came_from_host, on_host
from theano_ng.gpuarray.type import GpuArrayType
from theano_ng.scalar import basic as scalar
from theano_ng.scalar import upcast
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.nnet.crossentropy import (
    CrossentropyCategorical1Hot,
    CrossentropyCategorical1HotGrad,
    CrossentropySoftmax1HotWithBiasDx,
    CrossentropySoftmaxArgmax1HotWithBias,
)
from theano_ng.tensor.nnet.softmax import LogSoftmax, Softmax, SoftmaxGrad, SoftmaxWithBias

__all__ = [
    "GpuCrossentropyCategorical1Hot",
    "GpuCrossentropyCategorical1HotGrad",
    "GpuCrossentropySoftmax1HotWithBiasDx",
    "GpuCrossentropySoftmaxArgmax1HotWithBias",
    "GpuLabels",
    "GpuLogSoftmax",
    "GpuSoftmax",
    "GpuSoftmaxGrad",
    "GpuSoftmaxWithBias",
    "gpu_crossentropy_categorical_1hot",
    "gpu_crossentropy_categorical_1hot_grad",
    "gpu_crossentropy_softmax_1hot_with_bias_dx",
    "gpu_crossentropy_softmax_argmax_1hot_with_bias",
    "gpu_labels",
    "gpu_log_softmax",
    "gpu_softmax",
    "gpu_softmax_grad",
    "gpu_softmax_with_bias",
]


class _RowOp(WideTwinOp):
    """A base class of Ops that are row programs on matrices."""

    __props__ = ()
    host_class = None
    kind = ANY

    def host_op(self, node):
        return self.host_class()

    def make_node(self, *inputs):
        context_name = infer_context_name(*inputs)
        inputs = [as_gpuarray_variable(v, context_name) for v in inputs]
        host = self.host_class().make_node(*[host_from_gpu(v) for v in inputs])
        return self.on_device([as_gpuarray_variable(v, context_name) for v in host.inputs], host, context_name)

    def loop(self, dtypes, result):
        """Return the row program for inputs of these dtypes and an output of the dtype `result`."""
        program = _Program([RowInput(dtype, ELEMENT) for dtype in dtypes])
        return program.loop(program.as_dtype(self.compute(program), result))

    def compute(self, program):
        """Add the computation to a program; return the number of the result."""
        raise NotImplementedError(type(self).__name__)

    def native_code(self, node):
        loop = self.loop([v.dtype for v in node.inputs], node.outputs[0].dtype)
        return row_code(loop, node.inputs, node.outputs, 1, self.kind, may_fail=False)


class _Program(LoopBuilder):
    """A builder that computes with the largest of the inputs' float dtypes, at least with float32."""

    def __init__(self, inputs):
        super().__init__(inputs)
        self.work = upcast("float32", *[x.dtype for x in self.inputs if x.dtype.startswith("float")])

    def read(self, k):
        """Return the number of an input as a value to compute with."""
        return self.as_dtype(k, self.work)

    def biased(self):
        """Return the number of the sum of a matrix and a bias.

        As on the host, it has the dtype of the matrix, except that sums of float16 are not rounded to float16.
        """
        total = self.map(scalar.add, self.read(0), self.read(1))
        self.work = at_least_float32(self.inputs[0].dtype)
        return self.as_dtype(total, self.work)

    def as_dtype(self, k, dtype):
        """Convert a value to a dtype."""
        return k if self.dtype(k) == dtype else self.map(getattr(scalar, "convert_to_" + dtype), k, dtype=dtype)


def _exponentials(x, program):
    """Add exp(x - max(x)) and its sum to a program; return the numbers of x - max(x) and of these values."""
    shifted = program.map(scalar.sub, x, program.fold(scalar.maximum, x))
    powers = program.map(scalar.exp, shifted)
    return shifted, powers, program.fold(scalar.add, powers)


def _softmax(x, program):
    _, powers, total = _exponentials(x, program)
    return program.map(scalar.true_div, powers, total)


class GpuSoftmax(_RowOp):
    """Softmax of every row of a matrix, or of a vector; see `tensor.nnet.softmax`."""

    host_class = Softmax

    def compute(self, program):
        return _softmax(program.read(0), program)


class GpuSoftmaxWithBias(_RowOp):
    """Softmax of every row of x + b, for a matrix x and a vector b."""

    host_class, kind = SoftmaxWithBias, SOFTMAX

    def compute(self, program):
        return _softmax(program.biased(), program)


class GpuLogSoftmax(_RowOp):
    """Logarithm of the softmax of every row of a matrix, or of a vector."""

    host_class = LogSoftmax

    def compute(self, program):
        shifted, _, total = _exponentials(program.read(0), program)
        return program.map(scalar.sub, shifted, program.map(scalar.log, total))


class GpuSoftmaxGrad(_RowOp):
    """Gradient of the softmax of every row: (dy - sum(dy * sm)) * sm, for the softmax sm and its gradient dy."""

    host_class, kind = SoftmaxGrad, SOFTMAX_GRAD

    def compute(self, program):
        dy, sm = program.read(0), program.read(1)
        total = program.fold(scalar.add, program.map(scalar.mul, dy, sm))
        return program.map(scalar.mul, program.map(scalar.sub, dy, total), sm)


class GpuLabels(GpuOp):
    """Copy labels from the host to a device, for an array whose last axis has an element for each class.

    Inputs: a vector of integers on the host, and the array on the device. Output: the vector on the device.

    Raises
    ------
    ValueError
        If a label is not the number of a class.
    """

    __props__ = ()

    def make_node(self, labels, x):
        labels = as_tensor_variable(labels)
        type_ = GpuArrayType(labels.dtype, labels.broadcastable, x.type.context_name)
        return Apply(self, [labels, x], [type_()])

    def perform(self, node, inputs, output_storage, params=None):
        labels, x = inputs
        for i, label in enumerate(labels):
            if not 0 <= label < x.shape[-1]:
                raise ValueError(
                    "y_i value out of bounds: y[%d] is %d, but there are %d classes" % (i, label, x.shape[-1])
                )
        self.store(node, [labels], inputs, output_storage)

    def infer_shape(self, node, shapes):
        return [shapes[0]]

    def connection_pattern(self, node):
        return [[False], [False]]

    def grad(self, inputs, output_gradients):
        return [DisconnectedType()(), DisconnectedType()()]

    def R_op(self, inputs, eval_points):
        return [None]

    def fails_on_values(self, node):
        return True

    def native_code(self, node):
        return NativeCode(
            "theano_ng.gpuarray.native.rows:labels", typecode=pygpu.dtype_to_typecode(node.outputs[0].type.dtype)
        )


gpu_labels = GpuLabels()


class _CrossentropyOp(_RowOp):
    """A base class of cross-entropies with labels, the last input.

    Labels from the host are checked on the host (`GpuLabels`). Other labels are checked by a kernel, and the next call
    that waits for the device raises the error.
    """

    def make_node(self, *inputs):
        *arrays, labels = inputs
        context_name = infer_context_name(*[v for v in arrays if hasattr(v, "type")])
        host = self.host_class().make_node(
            *on_host([as_gpuarray_variable(v, context_name) for v in arrays]), *on_host([labels])
        )
        arrays = [as_gpuarray_variable(v, context_name) for v in host.inputs[:-1]]
        on_device = isinstance(getattr(labels, "type", None), GpuArrayType) and not came_from_host(labels)
        if on_device:
            labels = as_gpuarray_variable(labels, context_name)
        else:
            labels = gpu_labels(host.inputs[-1], arrays[-1])  # this array has an element for each class
        return self.on_device([*arrays, labels], host, context_name)

    def native_code(self, node):
        labels = node.inputs[-1]
        is_checked = labels.owner is not None and isinstance(labels.owner.op, GpuLabels)
        first = node.inputs[0]
        is_number = first.ndim == 0 or not isinstance(first.type, GpuArrayType)
        level = ELEMENT if first.ndim == 2 else ONE if is_number else ROW
        loop = self.loop([v.dtype for v in node.inputs], [v.dtype for v in node.outputs], level)
        check = (
            {} if is_checked else dict(label_check=check_labels(labels.dtype, labels.type.context), site=site_of(node))
        )
        return row_code(loop, node.inputs, node.outputs, 1, self.kind, may_fail=False, **check)

    def index_error(self, node, report):
        """Return the exception for a wrong label that a kernel reported; see `device.index_errors.error_of`."""
        return ValueError(
            "y_i value out of bounds: y[%d] is %d, but there are %d classes"
            % (report.place, report.index, report.lengths[0])
        )


class GpuCrossentropySoftmaxArgmax1HotWithBias(_CrossentropyOp):
    """Cross-entropy of softmax(x + b) with labels, this softmax, and the argmax of each row.

    Inputs: x (m, n), b (n), y_idx (m) integers. Outputs: ``-log(softmax(x + b)[i, y_idx[i]])`` (m); softmax(x + b);
    the position of the largest element of each row (m, dtype of y_idx).
    """

    host_class, kind = CrossentropySoftmaxArgmax1HotWithBias, CROSSENTROPY

    def loop(self, dtypes, results, level=ELEMENT):
        program = _Program([RowInput(dtype, place) for dtype, place in zip(dtypes, (ELEMENT, ELEMENT, ROW))])
        x = program.biased()
        greatest = program.fold(scalar.maximum, x)
        shifted = program.map(scalar.sub, x, greatest)
        powers = program.map(scalar.exp, shifted)
        total = program.fold(scalar.add, powers)
        softmax = program.map(scalar.true_div, powers, total)
        place = program.place()
        is_label = program.map(scalar.eq, place, 2, dtype="bool")
        zero = program.number(program.work, 0)
        of_label = program.fold(scalar.add, program.map(scalar.switch, is_label, shifted, zero))
        nll = program.map(scalar.sub, program.map(scalar.log, total), of_label)
        # If a row contains NaN, its greatest element is NaN, and the argmax is the position of the first NaN.
        is_nan, is_greatest = (
            program.map(scalar.isnan, x, dtype="bool"),
            program.map(scalar.eq, x, greatest, dtype="bool"),
        )
        beyond = program.number("int64", np.iinfo("int64").max)
        places = program.map(scalar.switch, program.map(scalar.or_, is_nan, is_greatest), place, beyond)
        argmax = program.fold(scalar.minimum, places)
        return program.loop(*map(program.as_dtype, (nll, softmax, argmax), results))


class GpuCrossentropySoftmax1HotWithBiasDx(_CrossentropyOp):
    """Gradient of the cross-entropy of softmax with respect to the input of softmax: ``dnll * (sm - onehot(y_idx))``.

    Inputs: dnll (m elements, or one element for all rows), sm (m, n), y_idx (m) integers.
    """

    host_class, kind = CrossentropySoftmax1HotWithBiasDx, CROSSENTROPY_GRAD

    def loop(self, dtypes, results, level=ROW):
        program = _Program([RowInput(dtype, place) for dtype, place in zip(dtypes, (level, ELEMENT, ROW))])
        factor, sm, zero = program.read(0), program.read(1), program.number(program.work, 0)
        # A row whose factor is 0 has the gradient 0, even if its softmax is NaN.
        is_zero = program.map(scalar.eq, factor, zero, dtype="bool")
        product = program.map(scalar.switch, is_zero, zero, program.map(scalar.mul, factor, sm))
        is_label = program.map(scalar.eq, program.place(), 2, dtype="bool")
        removed = program.map(scalar.switch, is_label, factor, zero)
        return program.loop(program.as_dtype(program.map(scalar.sub, product, removed), results[0]))


class GpuCrossentropyCategorical1Hot(_CrossentropyOp):
    """Cross-entropy of distributions with labels: ``-log(coding_dist[i, true_one_of_n[i]])``.

    Inputs: coding_dist (m, n), true_one_of_n (m) integers. Output: (m).
    """

    host_class, kind = CrossentropyCategorical1Hot, ONEHOT

    def loop(self, dtypes, results, level=ELEMENT):
        program = _Program([RowInput(dtype, place) for dtype, place in zip(dtypes, (ELEMENT, ROW))])
        is_label = program.map(scalar.eq, program.place(), 1, dtype="bool")
        zero = program.number(program.work, 0)
        of_label = program.fold(scalar.add, program.map(scalar.switch, is_label, program.read(0), zero))
        return program.loop(program.as_dtype(program.map(scalar.neg, program.map(scalar.log, of_label)), results[0]))


class GpuCrossentropyCategorical1HotGrad(_CrossentropyOp):
    """Gradient of `GpuCrossentropyCategorical1Hot` with respect to the distributions.

    Inputs: g_y (m), coding_dist (m, n), true_one_of_n (m) integers. Output: zeros (m, n), except for
    ``-g_y[i] / coding_dist[i, y]`` at [i, y], where y is true_one_of_n[i].
    """

    host_class, kind = CrossentropyCategorical1HotGrad, ONEHOT_GRAD

    def loop(self, dtypes, results, level=ROW):
        program = _Program([RowInput(dtype, place) for dtype, place in zip(dtypes, (ROW, ELEMENT, ROW))])
        quotient = program.map(scalar.true_div, program.map(scalar.neg, program.read(0)), program.read(1))
        is_label = program.map(scalar.eq, program.place(), 2, dtype="bool")
        gradient = program.map(scalar.switch, is_label, quotient, program.number(program.work, 0))
        return program.loop(program.as_dtype(gradient, results[0]))


gpu_softmax, gpu_softmax_with_bias = GpuSoftmax(), GpuSoftmaxWithBias()
gpu_log_softmax, gpu_softmax_grad = GpuLogSoftmax(), GpuSoftmaxGrad()
gpu_crossentropy_softmax_argmax_1hot_with_bias = GpuCrossentropySoftmaxArgmax1HotWithBias()
gpu_crossentropy_softmax_1hot_with_bias_dx = GpuCrossentropySoftmax1HotWithBiasDx()
gpu_crossentropy_categorical_1hot = GpuCrossentropyCategorical1Hot()
gpu_crossentropy_categorical_1hot_grad = GpuCrossentropyCategorical1HotGrad()


def kernel_samples():
    """Return samples of the kernel source code, which tests compile; see `kernels.samples`."""
    ops = ((gpu_softmax, 1), (gpu_softmax_with_bias, 2), (gpu_log_softmax, 1), (gpu_softmax_grad, 2))
    found = []
    for dtype in ("float16", "float32", "float64"):
        loops = [op.loop([dtype] * count, dtype) for op, count in ops]
        entropy, gradient = gpu_crossentropy_softmax_argmax_1hot_with_bias, gpu_crossentropy_softmax_1hot_with_bias_dx
        loops.append(entropy.loop([dtype, dtype, "int32"], [dtype, dtype, "int32"]))
        loops.append(gradient.loop([dtype, dtype, "int64"], [dtype]))
        loops.append(gpu_crossentropy_categorical_1hot.loop([dtype, "int32"], [dtype]))
        loops.append(gpu_crossentropy_categorical_1hot_grad.loop([dtype, dtype, "int64"], [dtype]))
        found.append(sample("softmax, %s" % dtype, [row_kernel(loop, None) for loop in loops]))
    return found
