"""The Op `Print`, which prints a value when a compiled function computes it."""

from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op


def _print_fn(op, xin):
    """Print the attributes `op.attrs` of the value `xin`, one line each."""
    for attr in op.attrs:
        value = getattr(xin, attr)
        if callable(value):
            value = value()
        print(op.message, attr, "=", value)


class Print(Op):
    """An identity Op that prints the value of its input each time it is executed.

    Parameters
    ----------
    message : str
        The text at the start of each line.
    attrs : tuple of str
        The names of the attributes of the value to print. A callable attribute is called, and its result is printed.
    global_fn : callable
        A function that is called with the Op and the value. The default function prints a line
        ``message attr = value`` for each attribute.

    Examples
    --------
    >>> import theano_ng as theano
    >>> x = theano.tensor.dvector()
    >>> f = theano.function([x], theano.printing.Print('hello world')(x))
    >>> r = f([1, 2, 3])
    hello world __str__ = [1. 2. 3.]
    """

    same_for_any_ndim = True
    view_map = {0: [0]}
    __props__ = ("message", "attrs", "global_fn")

    def __init__(self, message="", attrs=("__str__",), global_fn=_print_fn):
        self.message = message
        self.attrs = tuple(attrs)  # a list is not hashable, but props must be
        self.global_fn = global_fn

    def make_node(self, xin):
        xout = xin.type.make_variable()
        return Apply(op=self, inputs=[xin], outputs=[xout])

    def perform(self, node, inputs, output_storage):
        (xin,) = inputs
        output_storage[0][0] = xin
        self.global_fn(self, xin)

    def grad(self, input, output_gradients):
        return output_gradients

    def R_op(self, inputs, eval_points):
        return list(eval_points)

    def infer_shape(self, node, shapes):
        return [shapes[0]]

    def __setstate__(self, dct):
        dct.setdefault("global_fn", _print_fn)
        self.__dict__.update(dct)

    def c_code_cache_version(self):
        return (1,)
