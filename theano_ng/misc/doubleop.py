"""An example Op. Its docstrings show how Ops are documented."""

import numpy as np

from theano_ng import gof
from theano_ng.tensor.constant import as_tensor_variable


class DoubleOp(gof.Op):
    """An Op that doubles each element of a tensor.

    Parameters
    ----------
    x : tensor

    Returns
    -------
    tensor
        A tensor of the type of `x`.

    Notes
    -----
    The expression ``x * 2`` computes the same values by C code.

    Examples
    --------
    >>> import theano_ng
    >>> x = theano_ng.tensor.lvector()
    >>> DoubleOp()(x).eval({x: [1, 2]})
    array([2, 4])
    """

    __props__ = ()

    def make_node(self, x):
        x = as_tensor_variable(x)
        return gof.Apply(self, [x], [x.type()])

    def perform(self, node, inputs, output_storage):
        # The product of 0-d arrays is a NumPy scalar, which has to be converted to an array.
        output_storage[0][0] = np.asarray(inputs[0] * inputs[0].dtype.type(2))

    def R_op(self, inputs, eval_points):
        return [None if direction is None else direction * 2 for direction in eval_points]

    def grad(self, inputs, output_grads):
        return [output_grads[0] * 2]

    def infer_shape(self, node, input_shapes):
        return input_shapes
