"""Recurrent networks by cuDNN."""

import numpy as np

from theano_ng.compile.function import function
from theano_ng.compile.io import In, Out
from theano_ng.compile.mode import Mode
from theano_ng.compile.ops import Shape_i
from theano_ng.configdefaults import config
from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.graph import Apply
from theano_ng.gpuarray.basic_ops import GpuAlloc
from theano_ng.gpuarray.contexts import context_address
from theano_ng.gpuarray.dnn.base import DTYPES, CUDNNDataType, DeviceOp, require, with_pattern
from theano_ng.gpuarray.dnn.dropout_ops import (
    _make_dropout_desc,
    dropoutdesc_type,
    host_number,
    opaque_bytes,
    values_of,
)
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.transfers import as_gpuarray_variable, infer_context_name
from theano_ng.gpuarray.type import GpuArrayType, get_context
from theano_ng.tensor.constant import as_tensor_variable, constant
from theano_ng.tensor.type import TensorType

__all__ = ["GpuDnnRNNGradInputs", "GpuDnnRNNGradWeights", "GpuDnnRNNOp", "RNNBlock", "rnndesc_type"]

rnndesc_type = CUDNNDataType("cudnnRNNDescriptor_t", "cudnnDestroyRNNDescriptor")

_RNN_MODES = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}
_INPUT_MODES = {"linear": 0, "skip": 1}
_DIRECTIONS = {"unidirectional": 0, "bidirectional": 1}
_GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}


def _known(owner, name, value, table):
    if value not in table:
        raise ValueError("%s: %s must be one of %s, not %r" % (owner, name, list(table), value))
    return value


class _OfDescriptor(DeviceOp):
    """The base class of Ops whose outputs belong to no device."""

    __props__ = ("context_name",)

    def __init__(self, context_name):
        super().__init__()
        self.context_name = context_name

    def dnn_context(self, node):
        return self.context_name

    def do_constant_folding(self, node):
        return False  # a constant descriptor could not be pickled

    def fails_on_values(self, node):
        return True

    def address(self):
        return context_address(get_context(self.context_name))


class _RNNDescriptor(_OfDescriptor):
    """Make a descriptor of a recurrent network. See `RNNBlock` for the inputs; ddesc is a dropout descriptor.

    Parameters
    ----------
    context_name : hashable
    """

    def make_node(self, hidden_size, num_layers, ddesc, input_mode, direction_mode, rnn_mode, dtype):
        if ddesc.type != dropoutdesc_type:
            raise TypeError("%s: ddesc must be a dropout descriptor; got %s" % (self, ddesc.type))
        if dtype not in DTYPES:
            raise TypeError("%s: dtype must be one of %s; got %s" % (self, ", ".join(DTYPES), dtype))
        modes = (
            _INPUT_MODES[_known(self, "input_mode", input_mode, _INPUT_MODES)],
            _DIRECTIONS[_known(self, "direction_mode", direction_mode, _DIRECTIONS)],
            _RNN_MODES[_known(self, "rnn_mode", rnn_mode, _RNN_MODES)],
            pygpu.dtype_to_typecode(dtype),
        )
        numbers = [
            host_number(self, v, name, "int64")
            for name, v in (("hidden_size", hidden_size), ("num_layers", num_layers))
        ]
        return Apply(self, [*numbers, ddesc, *[constant(np.int64(v)) for v in modes]], [rnndesc_type()])

    def native_code(self, node):
        tf32 = bool(config.gpuarray.allow_tf32)
        return self.dnn_code(node, "cudnn_rnn:descriptor", context=self.address(), tf32=tf32)


def _make_rnn_desc(hidden_size, num_layers, ddesc, rnn_mode, input_mode, direction_mode, dtype, context_name):
    """Return the value of a descriptor of a recurrent network; see `_RNNDescriptor`. `ddesc` is a value, too."""
    require(context_name)
    ddesc = dropoutdesc_type.make_constant(ddesc)
    op = _RNNDescriptor(context_name)
    return values_of(op(hidden_size, num_layers, ddesc, input_mode, direction_mode, rnn_mode, dtype))


def _sizes(op, value):
    """Return the shape of the blocks of a network as an integer vector on the host."""
    value = as_tensor_variable(value)
    if value.ndim != 1 or value.dtype not in ("int8", "int16", "int32", "int64"):
        raise TypeError("%s: the input size must be a pair of integers; got %s" % (op, value.type))
    return value


class _RNNParamSize(_OfDescriptor):
    """Compute the number of bytes of the weights of a recurrent network.

    Inputs: the descriptor, the input size (examples, elements) of a step, and the typecode.

    Parameters
    ----------
    context_name : hashable
    """

    def make_node(self, desc, input_size, typecode):
        inputs = [desc, _sizes(self, input_size), host_number(self, typecode, "typecode", "int64")]
        return Apply(self, inputs, [TensorType("int64", ())()])

    def native_code(self, node):
        return self.dnn_code(node, "cudnn_rnn:weights_size", context=self.address())


class _RNNSplitParams(DeviceOp):
    """Return the matrices and biases of a layer as views of the weights.

    Inputs: w, the weights; desc, the descriptor; layer; isize, the input size (examples, elements) of a step; typecode.
    Outputs: for each part that `RNNBlock.split_params` names, a matrix and a vector.

    Parameters
    ----------
    rnn_mode : {"rnn_relu", "rnn_tanh", "lstm", "gru"}
    """

    __props__ = ("rnn_mode",)

    def __init__(self, rnn_mode):
        super().__init__()
        self.rnn_mode = _known("_RNNSplitParams", "rnn_mode", rnn_mode, _RNN_MODES)
        self.view_map = {i: [0] for i in range(4 * _GATES[rnn_mode])}

    def make_node(self, w, desc, layer, isize, typecode):
        w = as_gpuarray_variable(w, infer_context_name(w))
        if w.ndim != 1 or w.dtype not in DTYPES:
            raise TypeError("%s: w must be a vector of floats; got %s" % (self, w.type))
        layer = host_number(self, layer, "layer", "int64")
        types = [GpuArrayType(w.dtype, (False,) * nd, w.type.context_name) for nd in (2, 1)]
        outputs = [type_() for _ in range(2 * _GATES[self.rnn_mode]) for type_ in types]
        inputs = [w, desc, layer, _sizes(self, isize), host_number(self, typecode, "typecode", "int64")]
        return Apply(self, inputs, outputs)

    def fails_on_values(self, node):
        return True

    def native_code(self, node):
        return self.dnn_code(node, "cudnn_rnn:parts", typecode=node.inputs[0].type.typecode)


def _split_rnn_params(w, desc, layer, input_size, dtype, rnn_mode):
    """Return the matrices and biases of a layer; see `RNNBlock.split_params`. `desc` is a value."""
    value = w.get_value(borrow=True, return_internal_type=True)
    if value.dtype != np.dtype(dtype):
        raise TypeError("split_params: the weights must have the dtype %s; got %s" % (dtype, value.dtype))
    variable = w.type()
    desc, typecode = rnndesc_type.make_constant(desc), pygpu.dtype_to_typecode(dtype)
    parts = _RNNSplitParams(rnn_mode)(variable, desc, layer, np.array(input_size, "int64"), typecode)
    f = function([In(variable, borrow=True)], [Out(v, borrow=True) for v in parts], mode=Mode("vm", None))
    return f(value)


def _arrays(op, values):
    """Return the arrays of a network, whose numbers of axes are given, on one device. All have one dtype."""
    context_name = infer_context_name(*[v for _, v, _ in values])
    found = [as_gpuarray_variable(v, context_name) for _, v, _ in values]
    for (name, _, ndim), v in zip(values, found):
        if v.ndim != ndim or v.dtype not in DTYPES or v.dtype != found[0].dtype:
            raise TypeError(
                "%s: %s must have %d axes and the dtype %s; got %s" % (op, name, ndim, found[0].dtype, v.type)
            )
    return found


def _check_descriptor(op, desc):
    if getattr(desc, "type", None) != rnndesc_type:
        raise TypeError("%s: desc must be a descriptor of a recurrent network; got %s" % (op, desc))


def _of_rank_3(like):
    return GpuArrayType(like.dtype, (False,) * 3, like.type.context_name)()


class GpuDnnRNNOp(DeviceOp):
    """Apply a recurrent network to sequences, on a CUDA device, by cuDNN. See `RNNBlock`.

    Inputs: desc, the descriptor; w, the weights, a vector; x (steps, examples, elements); hx (layers * directions,
    examples, hidden size), the states before the first step; cx, for an LSTM, the memory before the first step.
    Outputs: bytes from which the gradients are computed; y (steps, examples, directions * hidden size); hy, the states
    after the last step; cy, for an LSTM.

    Parameters
    ----------
    rnn_mode : {"rnn_relu", "rnn_tanh", "lstm", "gru"}
    direction_mode : {"unidirectional", "bidirectional"}

    Raises
    ------
    ValueError
        For another mode, and if cx is missing or superfluous. At run time, for arrays of wrong shapes.
    TypeError
        For arrays with other numbers of axes or dtypes.
    """

    __props__ = ("rnn_mode", "direction_mode")

    def __init__(self, rnn_mode, direction_mode):
        super().__init__()
        self.rnn_mode = _known("GpuDnnRNNOp", "rnn_mode", rnn_mode, _RNN_MODES)
        self.direction_mode = _known("GpuDnnRNNOp", "direction_mode", direction_mode, _DIRECTIONS)

    @property
    def num_dirs(self):
        """The number of directions."""
        return 2 if self.direction_mode == "bidirectional" else 1

    def make_node(self, desc, w, x, hx, cx=None):
        _check_descriptor(self, desc)
        if (cx is not None) != (self.rnn_mode == "lstm"):
            raise ValueError("%s: cx must be given for an LSTM, and only for it" % self)
        values = [("w", w, 1), ("x", x, 3), ("hx", hx, 3)] + ([] if cx is None else [("cx", cx, 3)])
        arrays = _arrays(self, values)
        outputs = [_of_rank_3(arrays[0]) for _ in arrays[1:]]
        return Apply(self, [desc, *arrays], [opaque_bytes(arrays[0].type.context_name), *outputs])

    def infer_shape(self, node, shapes):
        _, _, x, hx, *_ = shapes
        y = x[0], x[1], hx[2] * self.num_dirs
        return [(Shape_i(0)(node.outputs[0]),), y, *[hx] * (len(node.outputs) - 2)]

    def connection_pattern(self, node):
        count = len(node.outputs)
        return [[False] * count] + [[False] + [True] * (count - 1) for _ in node.inputs[1:]]

    def fails_on_values(self, node):
        return True  # the shapes may not fit

    def native_code(self, node):
        return self.dnn_code(node, "cudnn_rnn:forward", typecode=node.inputs[1].type.typecode)

    def L_op(self, inputs, outputs, output_grads):
        desc, w, x, hx, *cx = inputs
        reserve, y = outputs[:2]
        dy, dhy, *dcy = [None if isinstance(g.type, DisconnectedType) else g for g in output_grads[1:]]
        if dy is None:
            zero = as_gpuarray_variable(constant(np.zeros((), y.dtype)), y.type.context_name)
            dy = GpuAlloc(y.type.context_name, memset_0=True)(zero, *[y.shape[i] for i in range(3)])
        of_c = dcy[0] if dcy else None
        op = GpuDnnRNNGradInputs(self.rnn_mode, dhy is not None, of_c is not None)
        reserve, *of_data = op(desc, x, y, dy, dhy, of_c, w, hx, cx[0] if cx else None, reserve, return_list=True)
        of_weights = GpuDnnRNNGradWeights()(desc, x, hx, y, reserve, w)
        gradients = zip([of_weights, *of_data], inputs[1:])
        return [DisconnectedType()(), *[with_pattern(g, v) for g, v in gradients]]


class GpuDnnRNNGradInputs(DeviceOp):
    """Gradient of `GpuDnnRNNOp` with respect to x, hx and cx.

    Inputs: desc, x, y, the gradients dy, dhy and dcy, w, hx, cx, and reserve, the first output of `GpuDnnRNNOp`.
    Without `grad_h` and `grad_c`, dhy and dcy are None; cx is None unless the network is an LSTM. Outputs: bytes for
    `GpuDnnRNNGradWeights`, and the gradients with respect to x, hx and, for an LSTM, cx.

    Parameters
    ----------
    rnn_mode : {"rnn_relu", "rnn_tanh", "lstm", "gru"}
    grad_h, grad_c : bool
        Whether the gradients with respect to hy and cy are given.
    inplace : bool
        Whether the first output overwrites reserve. Otherwise the memory is copied.
    """

    __props__ = ("rnn_mode", "grad_c", "grad_h", "inplace")

    def __init__(self, rnn_mode, grad_h, grad_c, inplace=False):
        super().__init__()
        self.rnn_mode = _known("GpuDnnRNNGradInputs", "rnn_mode", rnn_mode, _RNN_MODES)
        self.grad_h, self.grad_c = bool(grad_h), bool(grad_c)
        if self.grad_c and rnn_mode != "lstm":
            raise ValueError("GpuDnnRNNGradInputs: only an LSTM has a gradient with respect to cy")
        self.inplace = bool(inplace)
        if self.inplace:
            self.destroy_map = {0: [6 + self.grad_h + self.grad_c + (rnn_mode == "lstm")]}

    def make_node(self, desc, x, y, dy, dhy, dcy, w, hx, cx, reserve):
        _check_descriptor(self, desc)
        given = [v is not None for v in (dhy, dcy, cx)]
        if given != [self.grad_h, self.grad_c, self.rnn_mode == "lstm"]:
            raise ValueError("%s: dhy, dcy or cx is missing or superfluous" % self)
        names = ("x", "y", "dy", "dhy", "dcy", "w", "hx", "cx")
        values = [
            (name, v, 1 if name == "w" else 3)
            for name, v in zip(names, (x, y, dy, dhy, dcy, w, hx, cx))
            if v is not None
        ]
        arrays = _arrays(self, values)
        outputs = [_of_rank_3(arrays[0]) for _ in range(3 if cx is not None else 2)]
        return Apply(self, [desc, *arrays, reserve], [opaque_bytes(reserve.type.context_name), *outputs])

    def like(self, node):
        """Return the outputs for the inputs of a node whose Op has the same flags."""
        reserve, *outputs = node.outputs
        return Apply(self, node.inputs, [opaque_bytes(reserve.type.context_name), *[v.type() for v in outputs]]).outputs

    def infer_shape(self, node, shapes):
        states = shapes[-3 if self.rnn_mode == "lstm" else -2]
        return [shapes[-1], shapes[1], *[states] * (len(node.outputs) - 2)]

    def fails_on_values(self, node):
        return True

    def native_code(self, node):
        flags = {"of_h": self.grad_h, "of_c": self.grad_c, "in_place": self.inplace}
        return self.dnn_code(node, "cudnn_rnn:gradient", typecode=node.inputs[1].type.typecode, **flags)


class GpuDnnRNNGradWeights(DeviceOp):
    """Gradient of `GpuDnnRNNOp` with respect to the weights.

    Inputs: desc, x, hx and y; reserve, the first output of `GpuDnnRNNGradInputs`; w. The output is like w.
    """

    __props__ = ()

    def make_node(self, desc, x, hx, y, reserve, w):
        _check_descriptor(self, desc)
        x, hx, y, w = _arrays(self, [("x", x, 3), ("hx", hx, 3), ("y", y, 3), ("w", w, 1)])
        return Apply(self, [desc, x, hx, y, reserve, w], [w.type()])

    def infer_shape(self, node, shapes):
        return [shapes[-1]]

    def fails_on_values(self, node):
        return True

    def native_code(self, node):
        return self.dnn_code(node, "cudnn_rnn:weights_gradient", typecode=node.inputs[1].type.typecode)


class RNNBlock:
    """A recurrent network of one or more layers on a CUDA device, computed by cuDNN.

    The device is used when the object is made. Functions with the network cannot be pickled.

    Parameters
    ----------
    dtype : {"float16", "float32", "float64"}
        The dtype of all arrays.
    hidden_size : int
        The number of elements of a state.
    num_layers : int
    rnn_mode : {"rnn_relu", "rnn_tanh", "lstm", "gru"}
        What a layer computes in each step from its input x and its state h, where s is the logistic function, and ``*``
        multiplies elements:

        - "rnn_relu", "rnn_tanh": ``h = f(x.dot(W) + b + h.dot(R) + c)``, where f is ``relu`` or ``tanh``
        - "lstm": gates ``i, f, o = s(x.dot(W) + b + h.dot(R) + c)`` and ``n = tanh(x.dot(W) + b + h.dot(R) + c)``, each
          with its own matrices and biases; then the memory ``m = f * m + i * n``, and ``h = o * tanh(m)``
        - "gru": gates ``r, u = s(x.dot(W) + b + h.dot(R) + c)`` and ``n = tanh(x.dot(W) + b + r * (h.dot(R) + c))``;
          then ``h = (1 - u) * n + u * h``
    input_mode : {"linear", "skip"}
        "skip": in the first layer, x is used instead of ``x.dot(W)``. The input must have `hidden_size` elements.
    direction_mode : {"unidirectional", "bidirectional"}
        "bidirectional": each layer also reads the sequence from its end. The next layer reads the results of both
        directions, one after the other.
    context_name : hashable
        The device.

    Raises
    ------
    ValueError
        For an unknown mode.
    TypeError
        For another dtype.
    RuntimeError
        If cuDNN cannot be used on the device.
    """

    def __init__(
        self,
        dtype,
        hidden_size,
        num_layers,
        rnn_mode,
        input_mode="linear",
        direction_mode="unidirectional",
        context_name=None,
    ):
        self.dtype = str(np.dtype(dtype))
        self.hidden_size, self.num_layers = hidden_size, num_layers
        self.rnn_mode, self.input_mode, self.direction_mode = rnn_mode, input_mode, direction_mode
        self.context_name = context_name
        self.ddesc, self.dstates = _make_dropout_desc(0, 4242, context_name)
        self.desc = _make_rnn_desc(
            hidden_size, num_layers, self.ddesc, rnn_mode, input_mode, direction_mode, self.dtype, context_name
        )

    def get_param_size(self, input_size):
        """Return the number of elements of the weights, a vector whose layout only cuDNN knows.

        Parameters
        ----------
        input_size : pair of int
            The numbers of examples, and of elements of the input of a step.
        """
        desc, typecode = rnndesc_type.make_constant(self.desc), pygpu.dtype_to_typecode(self.dtype)
        size = values_of(_RNNParamSize(self.context_name)(desc, np.array(input_size, "int64"), typecode))
        return int(size) // np.dtype(self.dtype).itemsize

    def split_params(self, w, layer, input_size):
        """Return the matrices and biases of a layer.

        Parameters
        ----------
        w : GpuArraySharedVariable
            The weights.
        layer : int
            Counted from 0. With two directions, 2 i and 2 i + 1 are the directions of layer i.
        input_size : pair of int
            As for `get_param_size`.

        Returns
        -------
        list of GpuArray
            Views of the value of `w`: assignments change the weights. For each part, the matrix (elements that are
            read, hidden size), and the bias, a vector. The parts are

            - "rnn_relu", "rnn_tanh": input, recurrent
            - "lstm": input input gate, input forget gate, input new memory, input output gate, and the same with
              recurrent
            - "gru": input reset gate, input update gate, input new memory, and the same with recurrent

            In the first layer of a network with the input mode "skip", the matrices for the input have shape (0, 0).
        """
        return _split_rnn_params(w, self.desc, layer, input_size, self.dtype, self.rnn_mode)

    def apply(self, w, x, hx, cx=None):
        """Apply the network to sequences.

        Parameters
        ----------
        w : variable or shared variable
            The weights.
        x : 3-d tensor
            The input (steps, examples, elements).
        hx : 3-d tensor
            The states (layers * directions, examples, hidden size) before the first step.
        cx : 3-d tensor, optional
            For an LSTM: the memory before the first step, with the shape of `hx`.

        Returns
        -------
        list of variables on a device
            The results y (steps, examples, directions * hidden size) of the last layer; the states hy after the last
            step, with the shape of `hx`; for an LSTM, the memory cy. They are differentiable.
        """
        op = GpuDnnRNNOp(self.rnn_mode, self.direction_mode)
        return op(rnndesc_type.make_constant(self.desc), w, x, hx, cx, return_list=True)[1:]
