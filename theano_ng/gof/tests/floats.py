"""Minimal Types and Ops for tests of graphs, linkers and functions: Python floats, and lists of floats.

The lists can be viewed and changed in place.
"""

from theano_ng.gof.graph import Apply, Constant, Variable
from theano_ng.gof.op import Op
from theano_ng.gof.type import Type


class Float(Type):
    """The Type of Python floats."""

    def filter(self, value, strict=False, allow_downcast=None):
        if type(value) is float:
            return value
        if strict or isinstance(value, str):
            raise TypeError("a float is wanted", value)
        return float(value)

    def __eq__(self, other):
        return type(self) is type(other)

    def __hash__(self):
        return hash(type(self))

    def __repr__(self):
        return type(self).__name__


class Buffer(Float):
    """The Type of lists of floats, which can share memory and be changed in place."""

    def filter(self, value, strict=False, allow_downcast=None):
        if not isinstance(value, list):
            raise TypeError("a list is wanted", value)
        return value

    def may_share_memory(self, a, b):
        return a is b

    def get_shape_info(self, value):
        return len(value)

    def get_size(self, info):
        return 8 * info


number, buffer = Float(), Buffer()


def as_number(x):
    return x if isinstance(x, Variable) else Constant(number, float(x))


class Compute(Op):
    """An Op that computes a float from floats; each run appends the name of the Op to `log`."""

    __props__ = ("name",)

    def __init__(self, name, function, log=None):
        self.name, self.function, self.log = name, function, log

    def make_node(self, *inputs):
        return Apply(self, [as_number(x) for x in inputs], [number()])

    def perform(self, node, inputs, outputs):
        if self.log is not None:
            self.log.append(self.name)
        outputs[0][0] = self.function(*inputs)

    def __str__(self):
        return self.name


add = Compute("add", lambda *args: sum(args))
mul = Compute("mul", lambda a, b: a * b)
div = Compute("div", lambda a, b: a / b)


class Choose(Op):
    """A lazy Op that returns its second or its third input and computes only that one."""

    __props__ = ()

    def make_node(self, condition, a, b):
        return Apply(self, [as_number(condition), as_number(a), as_number(b)], [number()])

    def make_thunk(self, node, storage_map, compute_map, no_recycling, impl=None):
        cells = [storage_map[r] for r in node.inputs]
        flags = [compute_map[r] for r in node.inputs]
        out, done = storage_map[node.outputs[0]], compute_map[node.outputs[0]]

        def thunk():
            if not flags[0][0]:
                return [0]
            chosen = 1 if cells[0][0] else 2
            if not flags[chosen][0]:
                return [chosen]
            out[0] = cells[chosen][0]
            done[0] = 1
            return []

        thunk.lazy, thunk.inputs, thunk.outputs = True, cells, [out]
        return thunk


class Shift(Op):
    """An Op that adds a scalar to each element of a buffer, in place or into a new list."""

    __props__ = ("inplace",)

    def __init__(self, inplace=False):
        self.inplace = inplace
        if inplace:
            self.destroy_map = {0: [0]}

    def make_node(self, x, amount):
        return Apply(self, [x, as_number(amount)], [buffer()])

    def perform(self, node, inputs, outputs):
        x, amount = inputs
        if not self.inplace:
            x = list(x)
        x[:] = [e + amount for e in x]
        outputs[0][0] = x


class View(Op):
    """An Op that returns its input, as a view."""

    __props__ = ()
    view_map = {0: [0]}

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0]


shift, shift_inplace, view, choose = Shift(), Shift(True), View(), Choose()
