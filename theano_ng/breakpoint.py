"""A breakpoint inside a compiled function."""

import importlib

from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.tensor.constant import as_tensor_variable


class PdbBreakpoint(Op):
    """The identity, with a debugger started when a condition is true.

    The first of pudb, ipdb and pdb that is installed is used.

    Parameters
    ----------
    name : str
        Printed when the breakpoint is hit.

    Notes
    -----
    Called as ``PdbBreakpoint(name)(condition, v1, ..., vn)``; the condition is a scalar, the values may be of any type. It returns the `n`
    values, or the value itself when there is one.

    At least one of the outputs must be used; otherwise the node is not part of the function. No rewrite looks through the node, so that a
    function with it can be slower, need more memory, and be less stable numerically.

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
            raise TypeError("a breakpoint has at least one value to watch, which it returns")
        condition = as_tensor_variable(condition)
        if condition.ndim != 0:
            raise TypeError(
                "the condition of a breakpoint is a scalar, not %s of type %s" % (condition, condition.type)
            )
        monitored_vars = [v if hasattr(v, "type") else as_tensor_variable(v) for v in monitored_vars]
        # Which output is a view of which input depends on how many there are, so each node has an Op of its own.
        op = type(self)(self.name)
        op.view_map = {i: [i + 1] for i in range(len(monitored_vars))}
        return Apply(op, [condition] + monitored_vars, [v.type() for v in monitored_vars])

    def perform(self, node, inputs, output_storage):
        condition, monitored = inputs[0], list(inputs[1:])
        if condition:
            print("\n-------------------------------------------------")
            print("Conditional breakpoint '%s' activated\n" % self.name)
            print(
                "The monitored variables are stored, in order, in the list variable 'monitored'; what is put there goes on"
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
