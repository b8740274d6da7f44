"""Dropout by cuDNN."""

from theano_ng.compile.function import function
from theano_ng.compile.mode import Mode
from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.graph import Apply
from theano_ng.gpuarray.contexts import context_address
from theano_ng.gpuarray.dnn.base import DTYPES, CUDNNDataType, DeviceOp, require
from theano_ng.gpuarray.transfers import as_gpuarray_variable, infer_context_name
from theano_ng.gpuarray.type import GpuArrayType, get_context, gpuarray_shared_constructor
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import DISCRETE
from theano_ng.tensor.type import values_eq_approx_always_true

__all__ = ["GpuDnnDropoutOp", "dropout", "dropoutdesc_type"]

dropoutdesc_type = CUDNNDataType("cudnnDropoutDescriptor_t", "cudnnDestroyDropoutDescriptor")


def bytes_type(context_name):
    """Return the type of memory whose layout only cuDNN knows."""
    return GpuArrayType("uint8", (False,), context_name)


def opaque_bytes(context_name):
    """Return a new variable for memory that cuDNN writes for itself, such as the reserve of a recurrent network.

    DebugMode does not compare its values: the library may leave a part of the memory unwritten.
    """
    variable = bytes_type(context_name)()
    variable.tag.values_eq_approx = values_eq_approx_always_true
    return variable


def host_number(op, value, name, dtype):
    """Return a number as a 0-d variable on the host."""
    value = as_tensor_variable(value)
    if value.ndim != 0:
        raise TypeError("%s: %s must be a number; got %s" % (op, name, value.type))
    if dtype in DISCRETE and value.dtype not in DISCRETE:
        raise TypeError("%s: %s must be an integer; got %s" % (op, name, value.type))
    return value.astype(dtype)


def values_of(outputs):
    """Compute variables without inputs, by the native code of their nodes."""
    return function([], outputs, mode=Mode("vm", None))()


class _DropoutDescriptor(DeviceOp):
    """Make a descriptor of dropout, and seed a random generator.

    Inputs: the probability that an element becomes 0, and the seed, numbers on the host. Outputs: the descriptor
    (`dropoutdesc_type`), and the states of the generator, bytes on the device.

    Parameters
    ----------
    context_name : hashable
    """

    __props__ = ("context_name",)

    def __init__(self, context_name):
        super().__init__()
        self.context_name = context_name

    def dnn_context(self, node):
        return self.context_name

    def make_node(self, dropout, seed, context_name=None):
        numbers = host_number(self, dropout, "dropout", "float32"), host_number(self, seed, "seed", "int64")
        return Apply(self, list(numbers), [dropoutdesc_type(), bytes_type(self.context_name)()])

    def do_constant_folding(self, node):
        return False  # a constant descriptor could not be pickled

    def fails_on_values(self, node):
        return True  # the probability may be invalid

    def native_code(self, node):
        address = context_address(get_context(self.context_name))
        return self.dnn_code(node, "cudnn_dropout:descriptor", context=address)


def _make_dropout_desc(dropout, seed, context_name):
    """Return a descriptor of dropout and the states of its generator, as values; see `_DropoutDescriptor`."""
    require(context_name)
    return values_of(_DropoutDescriptor(context_name)(dropout, seed, context_name, return_list=True))


class GpuDnnDropoutOp(DeviceOp):
    """Set random elements of an array on a CUDA device to 0, by cuDNN, and divide the others by the probability of
    keeping them.

    Inputs: inp, float16, float32 or float64; descriptor, of the type ``dropoutdesc_type``; state, the states of the
    random generator. Outputs: an array like inp, the new states, and the choices, bytes from which the gradient is
    computed.

    Parameters
    ----------
    inplace : bool
        Whether the new states overwrite the input.
    """

    __props__ = ("inplace",)

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = bool(inplace)
        if self.inplace:
            self.destroy_map = {1: [2]}

    def make_node(self, inp, descriptor, state):
        context_name = infer_context_name(inp, state)
        inp, state = [as_gpuarray_variable(v, context_name) for v in (inp, state)]
        if inp.dtype not in DTYPES:
            raise TypeError("%s: inp must have one dtype among %s; got %s" % (self, ", ".join(DTYPES), inp.type))
        if state.type != bytes_type(context_name) or descriptor.type != dropoutdesc_type:
            raise TypeError(
                "%s: expected a descriptor and a state as _DropoutDescriptor makes them; got %s and %s"
                % (self, descriptor.type, state.type)
            )
        return Apply(self, [inp, descriptor, state], [inp.type(), state.type(), opaque_bytes(context_name)])

    def connection_pattern(self, node):
        return [[True, False, False], [False, False, False], [False, True, False]]

    def native_code(self, node):
        return self.dnn_code(
            node, "cudnn_dropout:dropout", typecode=node.inputs[0].type.typecode, in_place=self.inplace
        )

    def L_op(self, inputs, outputs, grads):
        none = [DisconnectedType()() for _ in range(2)]
        if isinstance(grads[0].type, DisconnectedType):
            return [DisconnectedType()(), *none]
        return [_DropoutGrad()(grads[0], inputs[1], outputs[2]), *none]


class _DropoutGrad(DeviceOp):
    """Gradient of `GpuDnnDropoutOp` with respect to its input.

    Inputs: the gradient with respect to the first output, the descriptor, and the third output of `GpuDnnDropoutOp`.
    The output is like the first input.
    """

    __props__ = ()

    def make_node(self, dy, descriptor, choices):
        dy = as_gpuarray_variable(dy, choices.type.context_name)
        return Apply(self, [dy, descriptor, choices], [dy.type()])

    def infer_shape(self, node, shapes):
        return [shapes[0]]

    def connection_pattern(self, node):
        return [[True], [False], [False]]

    def fails_on_values(self, node):
        return True  # the shape may be wrong

    def native_code(self, node):
        return self.dnn_code(node, "cudnn_dropout:dropout_gradient", typecode=node.inputs[0].type.typecode)

    def grad(self, inputs, output_gradients):
        _, descriptor, choices = inputs
        none = [DisconnectedType()() for _ in range(2)]
        return [_DropoutGrad()(output_gradients[0], descriptor, choices), *none]

    def R_op(self, inputs, eval_points):
        return [None if eval_points[0] is None else _DropoutGrad()(eval_points[0], *inputs[1:])]


def dropout(x, dropout=0.0, seed=4242):
    """Set random elements to 0, and divide the others by ``1 - dropout``, on a CUDA device, by cuDNN.

    The random generator is seeded when this function is called. Each call of a compiled function draws new numbers: the states
    of the generator are a shared variable, which functions update.

    Parameters
    ----------
    x : tensor
        float16, float32 or float64.
    dropout : float
        The probability with which an element becomes 0, at least 0 and less than 1.
    seed : int

    Returns
    -------
    y : variable on a device
        Like x.
    descriptor : constant
        Its type is ``dropoutdesc_type``. It cannot be pickled.
    new_states : variable on a device
        The states of the generator after the computation, ``states.default_update``.
    states : shared variable
        The states of the generator.

    Raises
    ------
    ValueError
        If the probability is less than 0, or not less than 1.
    TypeError
        For other dtypes.
    RuntimeError
        If cuDNN cannot be used on the device.
    """
    context_name = infer_context_name(x)
    x = as_gpuarray_variable(x, context_name)
    descriptor, states = _make_dropout_desc(dropout, seed, context_name)
    descriptor = dropoutdesc_type.make_constant(descriptor)
    states = gpuarray_shared_constructor(states, target=context_name, borrow=True)
    y, new_states, _ = GpuDnnDropoutOp()(x, descriptor, states)
    states.default_update = new_states
    return y, descriptor, new_states, states
