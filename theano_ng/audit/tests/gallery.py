"""Ops in Python that are wrong on purpose, each in one way, with the error that must be reported.

Every wrong class inherits from a correct class and overrides one part of it. The correct class is its twin: no check
may report an error about the twin.
"""

from dataclasses import dataclass, field
from itertools import count

import numpy as np

from theano_ng import tensor as T
from theano_ng.audit.records import Case
from theano_ng.gof import Apply, Op
from theano_ng.gradient import DisconnectedType

VECTOR = np.array([0.5, -1.25, 2.0, 3.5, -0.75])
MATRIX = np.arange(1.0, 7.0).reshape(2, 3) / 4


@dataclass(frozen=True)
class Wrong:
    """A deliberately wrong Op, rewrite or Type.

    Attributes
    ----------
    name : str
    error : str
        The name of the error that must be reported.
    found_by : {'debugmode', 'audit', 'mode'}
        The finder of the error: a function compiled in DebugMode, a check of the audit, or `run` itself.
    why : str
        A description of the error.
    check : str
        The check of the audit that finds the error.
    case, twin : callable
        A function without arguments that returns a `Case` with the error, and one that returns a `Case` without it.
    run, run_twin : callable
        For entries that are not Ops: a function that raises the error, and a function that does not raise it.
    """

    name: str
    error: str
    found_by: str
    why: str
    check: str = ""
    case: object = field(default=None, repr=False)
    twin: object = field(default=None, repr=False)
    run: object = field(default=None, repr=False)
    run_twin: object = field(default=None, repr=False)


GALLERY = []


def wrong(error, found_by, why, *inputs, args=(), twin=None, vary=None, gallery=GALLERY):
    """Return a decorator that adds a wrong class of Ops, whose base class is correct, to a gallery.

    Parameters
    ----------
    error : str
        The name of the error that must be reported.
    found_by : str
        "debugmode", or the name of the check of the audit that finds the error.
    why : str
        A description of the error.
    *inputs
        Example inputs; by default those of the class attribute `EXAMPLES`.
    args : tuple
        Arguments of the class.
    twin : type, optional
        The class without the error; the base class by default.
    vary : tuple of str, optional
        See `Case`.
    """

    def add(cls):
        right = twin or cls.__bases__[0]
        examples = inputs or cls.EXAMPLES
        by_debugmode = found_by == "debugmode"
        gallery.append(
            Wrong(
                cls.__name__,
                error,
                "debugmode" if by_debugmode else "audit",
                why,
                "" if by_debugmode else found_by,
                case=lambda: Case(cls(*args), examples, cls.__name__, vary=vary),
                twin=lambda: Case(right(*args), examples, right.__name__, vary=vary),
            )
        )
        return cls

    return add


# ---------------------------------------------------------------- correct Ops


def as_float_tensor(x, ndim=None):
    """Return `x` as a floating point tensor variable; raise TypeError for another dtype or rank."""
    x = T.as_tensor_variable(x)
    if x.dtype not in ("float32", "float64"):
        raise TypeError("the input has dtype %s; expected float32 or float64" % x.dtype)
    if ndim is not None and x.ndim != ndim:
        raise TypeError("the input has %d dimensions; expected %d" % (x.ndim, ndim))
    return x


class Double(Op):
    """x -> 2 x, for tensors of any rank."""

    __props__ = ()
    EXAMPLES = (MATRIX,)

    def make_node(self, x):
        x = as_float_tensor(x)
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.asarray(inputs[0] + inputs[0])

    def infer_shape(self, node, shapes):
        return shapes

    def grad(self, inputs, gradients):
        return [gradients[0] * 2]

    def R_op(self, inputs, eval_points):
        return [None] if eval_points[0] is None else [eval_points[0] * 2]


class DoubleIntoOutput(Double):
    """`Double` that reuses the array in the output cell if its shape fits."""

    def perform(self, node, inputs, outputs):
        x, z = inputs[0], outputs[0][0]
        if z is None or z.shape != x.shape:
            z = outputs[0][0] = np.empty_like(x)
        np.add(x, x, out=z)


class DoubleInPlace(Double):
    """`Double` that overwrites its input."""

    destroy_map = {0: [0]}

    def perform(self, node, inputs, outputs):
        inputs[0] *= 2
        outputs[0][0] = inputs[0]


class Twofold(Op):
    """x -> 2 x, 3 x."""

    __props__ = ()
    EXAMPLES = (MATRIX,)

    def make_node(self, x):
        x = as_float_tensor(x)
        return Apply(self, [x], [x.type(), x.type()])

    def perform(self, node, inputs, outputs):
        for factor, cell in zip((2, 3), outputs):
            cell[0] = np.asarray(inputs[0] * inputs[0].dtype.type(factor))

    def infer_shape(self, node, shapes):
        return [shapes[0], shapes[0]]

    def grad(self, inputs, gradients):
        known = [g * factor for g, factor in zip(gradients, (2, 3)) if not isinstance(g.type, DisconnectedType)]
        return [sum(known[1:], known[0]) if known else DisconnectedType()()]


class Tail(Op):
    """x -> x[1:], a view of a vector."""

    __props__ = ()
    EXAMPLES = (VECTOR,)
    view_map = {0: [0]}

    def make_node(self, x):
        x = as_float_tensor(x, 1)
        return Apply(self, [x], [T.TensorType(x.dtype, (False,))()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0][1:]

    def infer_shape(self, node, shapes):
        return [(T.maximum(shapes[0][0] - 1, 0),)]

    def grad(self, inputs, gradients):
        return [T.set_subtensor(T.zeros_like(inputs[0])[1:], gradients[0])]


class Product(Op):
    """x, y -> x * y, for vectors of one length."""

    __props__ = ()
    EXAMPLES = (VECTOR, VECTOR[::-1].copy())

    def make_node(self, x, y):
        x, y = as_float_tensor(x, 1), as_float_tensor(y, 1)
        if x.dtype != y.dtype:
            raise TypeError("the inputs have dtypes %s and %s; expected equal ones" % (x.dtype, y.dtype))
        return Apply(self, [x, y], [T.TensorType(x.dtype, (False,))()])

    def perform(self, node, inputs, outputs):
        x, y = inputs
        if x.shape != y.shape:
            raise ValueError("the vectors have lengths %d and %d; expected equal ones" % (len(x), len(y)))
        outputs[0][0] = x * y

    def infer_shape(self, node, shapes):
        return [shapes[0]]

    def grad(self, inputs, gradients):
        (x, y), (g,) = inputs, gradients
        return [g * y, g * x]

    def R_op(self, inputs, eval_points):
        terms = [point * other for point, other in zip(eval_points, reversed(inputs)) if point is not None]
        return [sum(terms[1:], terms[0]) if terms else None]


class ProductInPlace(Product):
    """`Product` that overwrites y."""

    destroy_map = {0: [1]}

    def perform(self, node, inputs, outputs):
        x, y = inputs
        if x.shape != y.shape:
            raise ValueError("the vectors have lengths %d and %d; expected equal ones" % (len(x), len(y)))
        y *= x
        outputs[0][0] = y


class Table(Op):
    """x, y -> the matrix of all x[i] - y[j]."""

    __props__ = ()
    EXAMPLES = (VECTOR, VECTOR[:3].copy())

    def make_node(self, x, y):
        x, y = as_float_tensor(x, 1), as_float_tensor(y, 1)
        if x.dtype != y.dtype:
            raise TypeError("the inputs have dtypes %s and %s; expected equal ones" % (x.dtype, y.dtype))
        return Apply(self, [x, y], [T.TensorType(x.dtype, (False, False))()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0][:, None] - inputs[1]

    def infer_shape(self, node, shapes):
        return [(shapes[0][0], shapes[1][0])]

    def grad(self, inputs, gradients):
        return [gradients[0].sum(axis=1), -gradients[0].sum(axis=0)]


class FillLike(Op):
    """x, y -> a vector with the length of x, filled with the sum of y; the values of x have no influence."""

    __props__ = ()
    EXAMPLES = (VECTOR, VECTOR[:3].copy())

    def make_node(self, x, y):
        x, y = as_float_tensor(x, 1), as_float_tensor(y, 1)
        return Apply(self, [x, y], [T.TensorType(y.dtype, (False,))()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.full(inputs[0].shape, inputs[1].sum(), inputs[1].dtype)

    def infer_shape(self, node, shapes):
        return [shapes[0]]

    def connection_pattern(self, node):
        return [[0], [1]]  # many Ops use 0 and 1

    def grad(self, inputs, gradients):
        return [DisconnectedType()(), T.zeros_like(inputs[1]) + gradients[0].sum()]


class Scale(Double):
    """x -> factor * x."""

    __props__ = ("factor",)

    def __init__(self, factor):
        self.factor = factor

    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.asarray(inputs[0] * inputs[0].dtype.type(self.factor))

    def grad(self, inputs, gradients):
        return [gradients[0] * self.factor]

    def R_op(self, inputs, eval_points):
        return [None] if eval_points[0] is None else [eval_points[0] * self.factor]


#: Class of correct Ops -> arguments of the class.
RIGHT = {
    Double: (),
    DoubleIntoOutput: (),
    DoubleInPlace: (),
    Twofold: (),
    Tail: (),
    Product: (),
    ProductInPlace: (),
    Table: (),
    FillLike: (),
    Scale: (3,),
}


# ---------------------------------------------------------------- memory


@wrong("BadDestroyMap", "debugmode", "perform doubles its input where it lies; destroy_map does not say so")
class ChangesItsInput(Double):
    def perform(self, node, inputs, outputs):
        inputs[0] *= 2
        outputs[0][0] = inputs[0].copy()


@wrong("BadDestroyMap", "debugmode", "an input is used as scratch space and spoilt, though the output is new memory")
class UsesInputAsScratch(Product):
    def perform(self, node, inputs, outputs):
        super().perform(node, inputs, outputs)
        inputs[1][...] = 0


@wrong("BadDestroyMap", "debugmode", "destroy_map names y, but x is overwritten")
class DestroysTheOtherInput(ProductInPlace):
    def perform(self, node, inputs, outputs):
        inputs[0] *= inputs[1]
        outputs[0][0] = inputs[0]


@wrong("BadDestroyMap", "debugmode", "only values below -1 are overwritten", VECTOR, twin=Double)
class ChangesSomeElements(Double):
    def perform(self, node, inputs, outputs):
        super().perform(node, inputs, outputs)
        inputs[0][inputs[0] < -1] = 0


@wrong("BadViewMap", "debugmode", "the output is a view of the input; view_map is missing")
class ReturnsAView(Tail):
    view_map = {}


@wrong(
    "BadViewMap",
    "debugmode",
    "a copy in general, but the input itself when there is nothing to change",
    np.zeros(3),
    twin=Double,
)
class ReturnsInputSometimes(Double):
    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0] if not inputs[0].any() else np.asarray(2 * inputs[0])


@wrong("BadViewMap", "debugmode", "view_map names x, the output is a view of y", VECTOR, VECTOR, twin=Product)
class ViewsTheOtherInput(Product):
    view_map = {0: [0]}

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[1][:]


@wrong("BadViewMap", "debugmode", "the second output is a view of the first")
class OutputsShareMemory(Twofold):
    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.asarray(inputs[0] * 2)
        outputs[1][0] = outputs[0][0][...]


@wrong("BadThunkOutput", "debugmode", "adds to what the output cell holds, as if it were zeros")
class AddsToOldOutput(DoubleIntoOutput):
    def perform(self, node, inputs, outputs):
        x, z = inputs[0], outputs[0][0]
        if z is None or z.shape != x.shape:
            z = outputs[0][0] = np.zeros_like(x)
        z += 2 * x


@wrong(
    "BadThunkOutput",
    "debugmode",
    "takes what the output cell holds for the result of the last call, which need not be done again",
)
class TrustsOldOutput(DoubleIntoOutput):
    def perform(self, node, inputs, outputs):
        if outputs[0][0] is None or outputs[0][0].shape != inputs[0].shape:
            outputs[0][0] = np.asarray(2 * inputs[0])


@wrong("BadThunkOutput", "debugmode", "keeps memory of the wrong shape that the output cell holds")
class KeepsOldShape(DoubleIntoOutput):
    def perform(self, node, inputs, outputs):
        x, z = inputs[0], outputs[0][0]
        if z is None or z.ndim != x.ndim:
            z = outputs[0][0] = np.empty_like(x)
        part = tuple(slice(min(n, m)) for n, m in zip(x.shape, z.shape))
        z[part] = 2 * x[part]


@wrong(
    "BadThunkOutput", "debugmode", "writes into a flattened copy, when the memory in the output cell is not contiguous"
)
class ExpectsContiguousOutput(DoubleIntoOutput):
    def perform(self, node, inputs, outputs):
        x, z = inputs[0], outputs[0][0]
        if z is None or z.shape != x.shape:
            z = outputs[0][0] = np.empty_like(x)
        z.reshape(-1)[...] = 2 * x.reshape(-1)


# ---------------------------------------------------------------- types of values


@wrong("InvalidValueError", "debugmode", "float64, whatever the input", MATRIX.astype("float32"), twin=Double)
class AlwaysDoublePrecision(Double):
    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.asarray(2 * inputs[0], "float64")


@wrong(
    "BadOutputType",
    "output_types",
    "float64, whatever the input: found by the audit, which tries other dtypes than the example's",
)
class DoublePrecisionUnasked(Double):
    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.asarray(2 * inputs[0], "float64")


@wrong("BadOutputType", "output_types", "one dimension less than make_node declares")
class LosesADimension(Double):
    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.asarray(2 * inputs[0]).reshape(-1) if inputs[0].ndim == 2 else np.asarray(2 * inputs[0])


@wrong("InvalidValueError", "debugmode", "a Python number where an array is declared", np.array(2.0), twin=Double)
class ReturnsANumber(Double):
    def perform(self, node, inputs, outputs):
        outputs[0][0] = float(inputs[0] * 2)


@wrong("InvalidValueError", "debugmode", "a dimension is declared to broadcast, and is longer than 1")
class DeclaresBroadcast(Double):
    def make_node(self, x):
        x = as_float_tensor(x)
        return Apply(self, [x], [T.TensorType(x.dtype, (True,) * x.ndim)()])


@wrong("InvalidValueError", "debugmode", "the second output is forgotten")
class ForgetsAnOutput(Twofold):
    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.asarray(2 * inputs[0])


@wrong("InvalidValueError", "debugmode", "replaces the output cell instead of what is in it")
class ReplacesTheCell(Double):
    def perform(self, node, inputs, outputs):
        outputs[0] = [2 * inputs[0]]


@wrong("InvalidValueError", "debugmode", "NaN for negative numbers", VECTOR, twin=Double)
class MakesNaN(Double):
    def perform(self, node, inputs, outputs):
        with np.errstate(invalid="ignore"):
            outputs[0][0] = np.asarray(2 * np.sqrt(inputs[0]) ** 2)


# ---------------------------------------------------------------- results and state that change between calls


@wrong("NonDeterministic", "perform", "adds noise")
class AddsNoise(Double):
    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.asarray(2 * inputs[0] + np.random.rand()).astype(inputs[0].dtype)


@wrong("NonDeterministic", "perform", "every call adds one more")
class CountsItsCalls(Double):
    calls = count()

    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.asarray(2 * inputs[0] + next(self.calls)).astype(inputs[0].dtype)


@wrong("MutatesOp", "mutation", "perform keeps the last value on the Op, which other nodes and threads share")
class RemembersOnTheOp(Double):
    def __init__(self):
        self.last = None

    def perform(self, node, inputs, outputs):
        super().perform(node, inputs, outputs)
        self.last = outputs[0][0]


@wrong(
    "MutatesOp",
    "make_node",
    "make_node notes the rank of its input on the Op, for perform: it is that of the last node made",
)
class RemembersTheRank(Double):
    def __init__(self):
        self.ndim = None

    def make_node(self, x):
        node = super().make_node(x)
        self.ndim = node.inputs[0].ndim
        return node


@wrong("MutatesNode", "mutation", "perform puts its value in the place of the node's input")
class FreezesItsInput(Double):
    def perform(self, node, inputs, outputs):
        super().perform(node, inputs, outputs)
        node.inputs[0] = T.constant(inputs[0])


@wrong("BadMakeNode", "make_node", "make_node gives the same output variable to all nodes of a type")
class SharesItsOutput(Double):
    outputs = {}

    def make_node(self, x):
        x = as_float_tensor(x)
        return Apply(self, [x], [self.outputs.setdefault(x.type, x.type())])


# ---------------------------------------------------------------- infer_shape


@wrong("BadInferShape", "infer_shape", "rows and columns are confused")
class ShapeSwapped(Table):
    def infer_shape(self, node, shapes):
        return [(shapes[1][0], shapes[0][0])]


@wrong("BadInferShape", "infer_shape", "one element too many")
class ShapeTooLong(Tail):
    def infer_shape(self, node, shapes):
        return shapes


@wrong("BadInferShape", "infer_shape", "right, but for an empty vector: -1")
class ShapeOfNothing(Tail):
    def infer_shape(self, node, shapes):
        return [(shapes[0][0] - 1,)]


@wrong("BadInferShape", "infer_shape", "a shape for one of two outputs")
class ShapeOfOneOutput(Twofold):
    def infer_shape(self, node, shapes):
        return [shapes[0]]


@wrong("BadInferShape", "infer_shape", "one length for two dimensions")
class ShapeOfOtherRank(Table):
    def infer_shape(self, node, shapes):
        return [shapes[0]]


@wrong("BadInferShape", "infer_shape", "fails", np.ones(3), twin=Double)
class ShapeFails(Double):
    def infer_shape(self, node, shapes):
        return [(shapes[0][0], shapes[1][0])]


# ---------------------------------------------------------------- gradients


@wrong("BadGradient", "grad", "a factor is forgotten")
class GradWithoutFactor(Double):
    def grad(self, inputs, gradients):
        return [gradients[0]]


@wrong("BadGradient", "grad", "the sign is wrong")
class GradOfOtherSign(Double):
    def grad(self, inputs, gradients):
        return [-2 * gradients[0]]


@wrong("BadGradient", "grad", "right by itself, but the gradient of the output is ignored: no chain rule")
class GradIgnoresOutput(Double):
    def grad(self, inputs, gradients):
        return [T.ones_like(inputs[0]) * 2]


@wrong("BadGradient", "grad", "the gradients of the inputs are exchanged")
class GradsExchanged(Product):
    def grad(self, inputs, gradients):
        return super().grad(inputs, gradients)[::-1]


@wrong("BadGradient", "grad", "right for positive numbers only")
class GradOfPositive(Double):
    def grad(self, inputs, gradients):
        return [T.switch(inputs[0] > 0, 2 * gradients[0], 0 * gradients[0])]


@wrong("BadGradient", "grad", "the second output does not count")
class GradOfOneOutput(Twofold):
    def grad(self, inputs, gradients):
        return [T.zeros_like(inputs[0]) if isinstance(gradients[0].type, DisconnectedType) else 2 * gradients[0]]


@wrong("BadGradient", "grad", "the gradient has another shape than the input")
class GradOfOtherShape(Tail):
    def grad(self, inputs, gradients):
        return [gradients[0]]


@wrong("BadGradientType", "grad", "a scalar for the gradient of a tensor")
class GradOfOtherRank(Double):
    def grad(self, inputs, gradients):
        return [gradients[0].sum() * 2]


@wrong("BadGradientType", "grad", "an integer gradient")
class GradOfIntegers(Double):
    def grad(self, inputs, gradients):
        return [T.cast(gradients[0] * 2, "int64")]


@wrong("BadGradientType", "grad", "one gradient for two inputs")
class OneGradForTwo(Product):
    def grad(self, inputs, gradients):
        return [gradients[0] * inputs[1]]


@wrong("BadGradientType", "grad", "None for a gradient that there is")
class GradIsNone(Product):
    def grad(self, inputs, gradients):
        return [gradients[0] * inputs[1], None]


@wrong("BadGradientType", "grad", "a NumPy array in place of a variable")
class GradIsAnArray(Double):
    def grad(self, inputs, gradients):
        return [np.array(2.0)]


@wrong("BadGradient", "grad", "a disconnected gradient for an input that connection_pattern calls connected")
class GradDisconnected(Product):
    def grad(self, inputs, gradients):
        return [gradients[0] * inputs[1], DisconnectedType()()]


@wrong("BadConnectionPattern", "connection_pattern", "x is said to be disconnected, and has influence")
class DisconnectedInfluence(Product):
    def connection_pattern(self, node):
        return [[False], [True]]

    def grad(self, inputs, gradients):
        return [DisconnectedType()(), gradients[0] * inputs[0]]


@wrong("BadConnectionPattern", "connection_pattern", "a row for one of two inputs")
class PatternTooShort(Product):
    def connection_pattern(self, node):
        return [[True]]


@wrong("BadConnectionPattern", "connection_pattern", "outputs by inputs instead of inputs by outputs")
class PatternTransposed(Product):
    def connection_pattern(self, node):
        return [[True, True]]


@wrong("BadRop", "R_op", "a factor is wrong")
class RopOfOtherFactor(Double):
    def R_op(self, inputs, eval_points):
        return [None] if eval_points[0] is None else [eval_points[0] * 3]


@wrong("BadRop", "R_op", "the direction of the second input is ignored")
class RopOfOneInput(Product):
    def R_op(self, inputs, eval_points):
        return [None] if eval_points[0] is None else [eval_points[0] * inputs[1]]


@wrong("BadRop", "R_op", "a result for one of two outputs", twin=Twofold)
class RopOfOneOutput(Twofold):
    def R_op(self, inputs, eval_points):
        return [None] if eval_points[0] is None else [eval_points[0] * 2]


# ---------------------------------------------------------------- identity


@wrong("BadEquality", "props", "__props__ forgets the factor: Ops of different results are equal", args=(3,))
class PropsIncomplete(Scale):
    __props__ = ()


@wrong("BadEquality", "props", "equal to nothing, not even to itself", args=(3,))
class EqualToNothing(Scale):
    def __eq__(self, other):
        return False

    def __hash__(self):
        return hash((type(self), self.factor))


@wrong("BadHash", "props", "equal Ops have hashes by identity", args=(3,))
class HashByIdentity(Scale):
    def __eq__(self, other):
        return type(self) is type(other) and self.factor == other.factor

    def __hash__(self):
        return id(self)


@wrong("BadHash", "props", "a property is a list, which has no hash", args=([3],))
class PropHasNoHash(Scale):
    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.asarray(inputs[0] * inputs[0].dtype.type(self.factor[0]))


@wrong("BadHash", "props", "__eq__ without __hash__", args=(3,))
class EqualityWithoutHash(Scale):
    def __eq__(self, other):
        return type(self) is type(other) and self.factor == other.factor

    __hash__ = None


@wrong("BadPickle", "pickle", "holds a function without a name", args=(3,))
class HoldsALambda(Scale):
    def __init__(self, factor):
        super().__init__(factor)
        self.multiply = lambda x: x * factor


@wrong("BadPickle", "pickle", "the factor does not come through", args=(3,))
class ForgetsWhenPickled(Scale):
    def __getstate__(self):
        return {"other": 1}

    def __setstate__(self, state):
        self.factor = 1


@wrong("BadPickle", "pickle", "cannot be unpickled", args=(3,))
class FailsWhenUnpickled(Scale):
    def __setstate__(self, state):
        self.factor = state["scale"]


@wrong("BadMap", "maps", "a number in place of a list of inputs")
class MapOfNumbers(DoubleInPlace):
    destroy_map = {0: 0}


@wrong("BadMap", "maps", "an input that there is not")
class MapOfNoInput(DoubleInPlace):
    destroy_map = {0: [1]}


@wrong("BadMap", "maps", "a view of two inputs at once")
class ViewOfTwo(Product):
    view_map = {0: [0, 1]}
