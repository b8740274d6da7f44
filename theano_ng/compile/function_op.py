"""Ops that call Python functions. They are documented as members of `compile.ops`."""

import importlib
import pickle

from theano_ng.gof.graph import Variable
from theano_ng.gof.op import Op
from theano_ng.gof.type import Type


class FromFunctionOp(Op):
    """An Op that calls a Python function. It has no gradient. `as_op` makes it.

    Parameters
    ----------
    fn : callable
        A function of the input values that returns the output value or a list of output values. It must not return an
        input or a view of an input. The output types convert the values (e.g. a number to a 0-d array).
    itypes, otypes : list of Type
    infer_shape : callable or None
        ``infer_shape(node, input_shapes)`` returns the list of output shapes.
    """

    def __init__(self, fn, itypes, otypes, infer_shape):
        self.__fn = fn
        self.itypes = itypes
        self.otypes = otypes
        self.__infer_shape = infer_shape
        if infer_shape is not None:
            self.infer_shape = infer_shape

    def __eq__(self, other):
        return (
            type(self) is type(other)
            and self.__fn == other.__fn
            and self.__infer_shape == other.__infer_shape
            and list(self.itypes) == list(other.itypes)
            and list(self.otypes) == list(other.otypes)
        )

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash(
            (type(self).__qualname__, getattr(self.__fn, "__module__", ""), getattr(self.__fn, "__qualname__", ""))
        )

    def __str__(self):
        return "FromFunctionOp{%s}" % getattr(self.__fn, "__name__", repr(self.__fn))

    def _call_signature(self):
        import inspect

        return inspect.signature(self.__fn)

    def make_node(self, *inputs):
        if len(inputs) == len(self.itypes):
            # Convert values to constants of the declared type. Variables must already have this type.
            inputs = [
                x if isinstance(x, Variable) else itype.filter_variable(x) for x, itype in zip(inputs, self.itypes)
            ]
        return super().make_node(*inputs)

    def perform(self, node, inputs, outputs):
        results = self.__fn(*inputs)
        if not isinstance(results, (list, tuple)):
            results = (results,)
        if len(results) != len(outputs):
            raise ValueError("%s: the function returned %d values, expected %d" % (self, len(results), len(outputs)))
        for i, (cell, value, otype) in enumerate(zip(outputs, results, self.otypes)):
            try:
                cell[0] = otype.filter(value)
            except (TypeError, ValueError) as refused:
                raise TypeError(
                    "%s: the function returned %r (%s) as output %d, which is not a valid value of %s: %s"
                    % (self, value, type(value).__name__, i, otype, refused.args[0] if refused.args else refused)
                ) from refused

    def __reduce__(self):
        # The decorator as_op binds the function's name in its module to the Op, so the pickle holds only this name.
        mod, name = self.__fn.__module__, getattr(self.__fn, "__qualname__", self.__fn.__name__)
        try:
            found = load_back(mod, name)
        except (ImportError, KeyError, AttributeError):
            raise pickle.PicklingError("Can't pickle as_op(), not found as %s.%s" % (mod, name)) from None
        if found is not self:
            raise pickle.PicklingError("Can't pickle as_op(), not the object at %s.%s" % (mod, name))
        return load_back, (mod, name)


def as_op(itypes, otypes, infer_shape=None):
    """Return a decorator that turns a Python function into an Op.

    Parameters
    ----------
    itypes, otypes : Type or list of Type
        The types of the function's arguments and results.
    infer_shape : callable, optional
        ``infer_shape(node, input_shapes)`` returns a list with one shape tuple for each output.

    Returns
    -------
    callable
        The decorator. It returns a `FromFunctionOp`, which has no gradient, and to which few rewrites apply.

    Raises
    ------
    TypeError
        If `itypes` or `otypes` contains an object that is not a Type, or if infer_shape is not callable.
    """
    checked = []
    for what, types in (("itypes", itypes), ("otypes", otypes)):
        if not isinstance(types, (list, tuple)):
            types = [types]
        if not all(isinstance(t, Type) for t in types):
            raise TypeError("%s has to be a list of Theano types, got %r" % (what, types))
        checked.append(list(types))
    if infer_shape is not None and not callable(infer_shape):
        raise TypeError("infer_shape needs to be a callable, got %r" % (infer_shape,))

    def make_op(fn):
        return FromFunctionOp(fn, checked[0], checked[1], infer_shape)

    return make_op


def load_back(mod, name):
    """Return the attribute `name` (with dots for nested classes) of module `mod`, to unpickle a `FromFunctionOp`."""
    found = importlib.import_module(mod)
    for part in name.split("."):
        found = getattr(found, part)
    return found
