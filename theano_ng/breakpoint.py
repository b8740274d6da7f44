"""A breakpoint inside a compiled function."""

import importlib

from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.tensor.constant import as_tensor_variable


class PdbBreakpoint(Op):
    """An identity Op that starts a debugger if a condition is true.

    The debugger is pudb, ipdb or pdb: the first of them that is installed.

    Parameters
    ----------
    name : str
        The name that is printed when the debugger starts.

    Notes
    -----
    The Op is called as ``PdbBreakpoint(name)(condition, v1, ..., vn)``. The condition is a scalar, and the values may
    be of any type. The call returns a list of the `n` values. If `n` is 1, it returns the value itself.

    At least one of the outputs must be used. Otherwise the node is not part of the function. Rewrites do not match
    patterns across the node. Therefore a function with a breakpoint can be slower, need more memory, and be numerically
    less stable.

    Examples
    --------
    >>> import theano_ng as theano
    >>> from theano_ng import tensor as T
    >>> x, target = T.fvectors("x", "target")
    >>> mse = (x - target) ** 2
    >>> mse, seen_x, seen_target = PdbBreakpoint("MSE too high")(T.gt(mse.sum(), 100), mse, x, target)
    >>> theano.function([x, target], mse)([10, 0], [10, 5])     # 25 is not above 100
    array([ 0., 25.], dtype=float32)
    """

    __props__ = ("name",)

    def __init__(self, name):
        self.name = name

    def make_node(self, condition, *monitored_vars):
        if not monitored_vars:
            raise TypeError("a breakpoint needs at least one value to monitor; it returns the monitored values")
        condition = as_tensor_variable(condition)
        if condition.ndim != 0:
            raise TypeError(
                "the condition of a breakpoint must be a scalar, not %s of type %s" % (condition, condition.type)
            )
        monitored_vars = [v if hasattr(v, "type") else as_tensor_variable(v) for v in monitored_vars]
        # The view map of the Op depends on the number of values, so make a separate Op for each node.
        op = type(self)(self.name)
        op.view_map = {i: [i + 1] for i in range(len(monitored_vars))}
        return Apply(op, [condition] + monitored_vars, [v.type() for v in monitored_vars])

    def perform(self, node, inputs, output_storage):
        condition, monitored = inputs[0], list(inputs[1:])
        if condition:
            print("\n-------------------------------------------------")
            print("Conditional breakpoint '%s' activated\n" % self.name)
            print(
                "The monitored variables are stored, in order, in the list variable 'monitored'. The function "
                "continues with the values that this list then has."
            )
            print("-------------------------------------------------")
            for debugger in ("pudb", "ipdb", "pdb"):
                try:
                    debugger = importlib.import_module(debugger)
                except ImportError:
                    continue
                debugger.set_trace()
                break
        for cell, value, out in zip(output_storage, monitored, node.outputs):
            cell[0] = out.type.filter(value, strict=False)

    def grad(self, inputs, output_gradients):
        return [DisconnectedType()()] + list(output_gradients)

    def R_op(self, inputs, eval_points):
        return list(eval_points[1:])

    def infer_shape(self, node, input_shapes):
        return list(input_shapes[1:])

    def connection_pattern(self, node):
        count = len(node.inputs) - 1
        return [[False] * count] + [[i == j for j in range(count)] for i in range(count)]
