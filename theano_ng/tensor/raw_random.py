"""Random numbers from NumPy's generators: the Type of a generator's state, the Op, and functions for distributions.

The functions take a state, and return the new state and the sample, so that graphs remain purely functional.
:class:`~theano_ng.tensor.shared_randomstreams.RandomStreams` is easier to use: it stores the states in shared
variables. The samples are bitwise equal to the samples of `numpy.random.RandomState`.
"""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from theano_ng import scalar
from theano_ng.configdefaults import config
from theano_ng.gof.derivative import DisconnectedType, grad_undefined
from theano_ng.gof.graph import Apply, Constant
from theano_ng.gof.op import Op
from theano_ng.gof.optdb import register_loader
from theano_ng.gof.type import Type
from theano_ng.lazy import CLASSIC_IMPORTS, lazy_names
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import INTEGERS
from theano_ng.tensor.elemwise.functions import cast
from theano_ng.tensor.exceptions import ShapeError
from theano_ng.tensor.random_shapes import broadcasting_indices, infer_ndim_bcast
from theano_ng.tensor.shaping.joining import permute_row_elements
from theano_ng.tensor.type import TensorType

if TYPE_CHECKING:
    from theano_ng.tensor.aliases import DTypeLike, ShapeLike, TensorLike
    from theano_ng.tensor.var import TensorVariable

__all__ = [
    "RandomFunction",
    "RandomStateType",
    "RandomStreamsBase",
    "binomial",
    "choice",
    "multinomial",
    "normal",
    "permutation",
    "poisson",
    "random_integers",
    "random_state_type",
    "uniform",
]

# These are the names of the functions in Theano 1.0.
_infer_ndim_bcast = infer_ndim_bcast
_generate_broadcasting_indices = broadcasting_indices

register_loader("theano_ng.tensor.opt.random")
__getattr__, __dir__, _ = lazy_names(
    __name__,
    {
        **CLASSIC_IMPORTS,
        "theano_ng.gof.rewriting": "string_types",
        "theano_ng.compile.mode": "optdb",
        "theano_ng.tensor.opt.random": "random_make_inplace",
    },
)


class RandomStateType(Type):
    """The type of `numpy.random.RandomState`."""

    def __str__(self):
        return "RandomStateType"

    def __eq__(self, other):
        return type(self) is type(other)

    def __hash__(self):
        return hash((type(self).__module__, type(self).__qualname__))

    def filter(self, data, strict=False, allow_downcast=None):
        """Return `data` if it is a generator. Otherwise, raise TypeError."""
        if self.is_valid_value(data):
            return data
        raise TypeError("Expected a numpy.random.RandomState! Got %r of type %s." % (data, type(data).__name__))

    def is_valid_value(self, a):
        """Return True if `a` is a RandomState."""
        return isinstance(a, np.random.RandomState)

    @staticmethod
    def values_eq(a, b):
        """Return True if two generators are in the same state, so that their next samples are equal."""
        return _same(a.get_state(legacy=False), b.get_state(legacy=False))

    @staticmethod
    def may_share_memory(a, b):
        """Return True if sampling from one generator changes the state of the other."""
        return a is b or (
            isinstance(a, np.random.RandomState)
            and isinstance(b, np.random.RandomState)
            and a._bit_generator is b._bit_generator
        )

    def get_shape_info(self, obj):
        """Return None: `get_size` needs no information, because all states have the same size."""
        return None

    def get_size(self, shape_info):
        """Return the approximate size of a state in bytes."""
        return sys.getsizeof(self) + 624 * 4 + 8


def _same(a, b):
    """Return True if two states are equal. A state is a dict of dicts, arrays and numbers."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    return np.array_equal(a, b)


random_state_type = RandomStateType()
"""The Type of generators. Calling it, with or without a name, returns a new variable."""


def copy_of_state(state):
    """Return an independent generator in the same state.

    Parameters
    ----------
    state : numpy.random.RandomState
    """
    if type(state) is np.random.RandomState and type(state._bit_generator) is np.random.MT19937:
        made = np.random.RandomState(0)
        made.set_state(state.get_state(legacy=False))
        return made
    return copy.deepcopy(state)


class RandomFunction(Op):
    """An Op that draws a sample by a method of `numpy.random.RandomState`, or by a function of a RandomState.

    Inputs: a state, the shape, and the parameters of the distribution. Outputs: the new state and the sample.

    Parameters
    ----------
    fn : str or callable
        The name of a method, or a function of the state, the parameters and the shape, in this order. The Op can be
        pickled only if the function is a global function of its module.
    outtype : TensorType
        The type of the sample.
    inplace : bool
        Whether the Op changes the given state instead of a copy.
    ndim_added : int
        The number of dimensions that the sample has in addition to the dimensions of the input shape.
    """

    __props__ = ("fn", "outtype", "inplace", "ndim_added")

    def __init__(self, fn, outtype, inplace=False, ndim_added=0):
        if not callable(getattr(np.random.RandomState, fn) if isinstance(fn, str) else fn):
            raise TypeError(
                "fn must be the name of a method of numpy.random.RandomState, or a function, not %r" % (fn,)
            )
        if not isinstance(outtype, TensorType):
            raise TypeError("outtype must be a TensorType, not %r" % (outtype,))
        self.fn, self.outtype, self.inplace, self.ndim_added = fn, outtype, inplace, ndim_added
        if inplace:
            self.destroy_map = {0: [0]}

    @property
    def exec_fn(self):
        """The function that draws the sample."""
        return getattr(np.random.RandomState, self.fn) if isinstance(self.fn, str) else self.fn

    def __str__(self):
        return "RandomFunction{%s}" % (self.fn if isinstance(self.fn, str) else self.fn.__name__)

    def make_node(self, r, shape, *args):
        if not isinstance(getattr(r, "type", None), RandomStateType):
            raise TypeError(
                "the state must be a variable of type %s, not %s" % (random_state_type, getattr(r, "type", r))
            )
        if isinstance(shape, (list, tuple)) and not shape:
            shape = as_tensor_variable(np.zeros(0, "int64"))
        else:
            shape = as_tensor_variable(shape, ndim=1)
        if shape.type.dtype not in INTEGERS:
            raise TypeError("shape must be an integer vector or list", shape.type.dtype)
        return Apply(self, [r, cast(shape, "int64"), *map(as_tensor_variable, args)], [r.type(), self.outtype()])

    def fails_on_values(self, node):
        return not all(isinstance(v, Constant) for v in node.inputs[1:])

    def infer_shape(self, node, i_shapes):
        shape = node.inputs[1]
        sample = [shape[i] for i in range(node.outputs[1].ndim - self.ndim_added)]
        if self.fn is permutation_helper:
            sample.append(cast(node.inputs[2], "int64"))
        elif self.fn is multinomial_helper:
            sample.append(i_shapes[3][-1])
        elif self.ndim_added:
            raise ShapeError("the dimensions that the function adds to the shape are not known")
        return [None, sample]

    def perform(self, node, inputs, out_):
        state, shape = inputs[0], inputs[1]
        if len(shape) + self.ndim_added != self.outtype.ndim:
            raise ValueError(
                "Shape mismatch: self.outtype.ndim (%d) != len(shape) (%d) + self.ndim_added (%d)"
                % (self.outtype.ndim, len(shape), self.ndim_added)
            )
        shape = tuple(shape.tolist())
        if any(length < 0 for length in shape):
            raise ValueError("negative dimensions are not allowed: shape is %s" % (shape,))
        if not self.inplace:
            state = copy_of_state(state)
        sample = self.exec_fn(state, *inputs[2:], shape)
        out_[0][0] = state
        out_[1][0] = np.asarray(sample, dtype=self.outtype.dtype, order="C")

    def connection_pattern(self, node):
        return [[True, True], [False, False]] + [[True, True] for _ in node.inputs[2:]]

    def grad(self, inputs, outputs):
        # The shape vector determines only the number of drawn values, so it is disconnected.
        return [
            DisconnectedType()()
            if k == 1
            else grad_undefined(self, k, x, "No gradient defined through raw random numbers op")
            for k, x in enumerate(inputs)
        ]

    def R_op(self, inputs, eval_points):
        return [None, None]


# --- distributions -----------------------------------------------------------------------------------------------------------------


def uniform(random_state, size=None, low=0.0, high=1.0, ndim=None, dtype=None):
    """Sample from the uniform distribution on [low, high).

    Parameters
    ----------
    random_state : variable of type `random_state_type`
    size : sequence of int and integer scalars, integer vector, optional
        The shape. A length of -1 means the length of the parameters along the same axis. None means the shape to which
        the parameters are broadcast.
    low, high : tensor_like
        The bounds, which are broadcast to the shape of the sample.
    ndim : int, optional
        The length of `size`. It is required if it is not known while the graph is built.
    dtype : str, optional
        The dtype of the sample. The default is the upcast of floatX and the dtypes of the parameters.

    Returns
    -------
    new_state, sample : Variable
    """
    return _with_two_parameters("uniform", random_state, size, low, high, ndim, dtype)


def normal(random_state, size=None, avg=0.0, std=1.0, ndim=None, dtype=None):
    """Sample from the normal distribution of mean `avg` and standard deviation `std`.

    For the other parameters and the results, see :func:`uniform`.
    """
    return _with_two_parameters("normal", random_state, size, avg, std, ndim, dtype)


def _with_two_parameters(name, random_state, size, first, second, ndim, dtype):
    first, second = as_tensor_variable(first), as_tensor_variable(second)
    if dtype is None:
        dtype = scalar.upcast(config.floatX, first.dtype, second.dtype)
    ndim, size, bcast = infer_ndim_bcast(ndim, size, first, second)
    return RandomFunction(name, TensorType(dtype, bcast))(random_state, size, first, second)


def binomial(random_state, size=None, n=1, p=0.5, ndim=None, dtype="int64", prob=None):
    """Sample the number of successes in `n` trials, each of which succeeds with probability `p`.

    `prob` is the former name of `p`. For the other parameters and the results, see :func:`uniform`.
    """
    if prob is not None:
        warnings.warn("The parameter prob of binomial is now called p.", DeprecationWarning, stacklevel=2)
        p = prob
    n, p = as_tensor_variable(n), as_tensor_variable(p)
    ndim, size, bcast = infer_ndim_bcast(ndim, size, n, p)
    return RandomFunction("binomial", TensorType(dtype, bcast))(random_state, size, n, p)


def poisson(random_state, size=None, lam=1.0, ndim=None, dtype="int64"):
    """Sample from the Poisson distribution of mean `lam`.

    For the other parameters and the results, see :func:`uniform`.
    """
    lam = as_tensor_variable(lam)
    ndim, size, bcast = infer_ndim_bcast(ndim, size, lam)
    return RandomFunction("poisson", TensorType(dtype, bcast))(random_state, size, lam)


def random_integers_helper(random_state, low, high, size):
    """Sample integers from `low` to `high`, both included. The bounds may be arrays.

    The function adds 1 to `high`, because `RandomState.randint` excludes its upper bound.

    Parameters
    ----------
    random_state : numpy.random.RandomState
    low, high : array_like
    size : tuple of int or None
        The shape. None means the shape to which low and high are broadcast.

    Returns
    -------
    numpy.ndarray of int64
    """
    low, high = np.asarray(low), np.asarray(high)
    if size is None:
        size = np.broadcast_shapes(low.shape, high.shape)
    if low.ndim == high.ndim == 0:
        return random_state.randint(int(low), int(high) + 1, size, dtype="int64")
    shapes = [(1,) * (len(size) - x.ndim) + x.shape for x in (low, high)]
    low, high = (x.reshape(shape) for x, shape in zip((low, high), shapes))
    every, *indices = broadcasting_indices(tuple(size), *shapes)
    if (low > high).any():
        raise ValueError("low >= high: the lower bound of the integers exceeds the upper bound")
    out = np.empty(size, "int64")
    for where, at_low, at_high in zip(every, *indices):
        out[where] = random_state.randint(int(low[at_low]), int(high[at_high]) + 1, dtype="int64")
    return out


def random_integers(random_state, size=None, low=0, high=1, ndim=None, dtype="int64"):
    """Sample integers from `low` to `high`, both included.

    For the other parameters and the results, see :func:`uniform`.
    """
    low, high = as_tensor_variable(low), as_tensor_variable(high)
    ndim, size, bcast = infer_ndim_bcast(ndim, size, low, high)
    return RandomFunction(random_integers_helper, TensorType(dtype, bcast))(random_state, size, low, high)


def choice_helper(random_state, a, replace, p, size):
    """Call `RandomState.choice` with parameters that are arrays. An empty `p` means None.

    Parameters
    ----------
    random_state : numpy.random.RandomState
    a : array_like
        A vector, or a 0-d array n for ``range(n)``.
    replace : bool or 0-d array
    p : array_like or None
    size : tuple of int
    """
    a = np.asarray(a)
    if a.ndim > 1:
        raise ValueError("a.ndim (%d) must be 0 or 1" % a.ndim)
    if p is not None:
        p = np.asarray(p)
        if p.ndim != 1:
            raise ValueError("p.ndim (%d) must be 1" % p.ndim)
        p = None if p.size == 0 else p
    return random_state.choice(a if a.ndim else a.item(), size, bool(replace), p)


def choice(random_state, size=None, a=2, replace=True, p=None, ndim=None, dtype="int64"):
    """Sample elements of a vector, or integers below a number.

    Parameters
    ----------
    random_state : variable of type `random_state_type`
    size : sequence of int and integer scalars, integer vector
    a : tensor_like
        A vector, or a scalar n that means the vector 0, 1 ... n - 1.
    replace : bool or scalar
        Whether the same element may be chosen several times.
    p : vector_like, optional
        The probabilities of the elements. By default, all probabilities are equal.
    ndim : int, optional
    dtype : str

    Returns
    -------
    new_state, sample : Variable
    """
    a = as_tensor_variable(a)
    replace = (
        cast(as_tensor_variable(replace), "int8") if not isinstance(replace, bool) else as_tensor_variable(int(replace))
    )
    # An empty vector represents None, because RandomFunction converts its inputs to tensors.
    p = as_tensor_variable([] if p is None else p)
    ndim, size, bcast = infer_ndim_bcast(ndim, size)
    return RandomFunction(choice_helper, TensorType(dtype, bcast))(random_state, size, a, replace, p)


def permutation_helper(random_state, n, shape):
    """Sample permutations of the integers below n.

    Parameters
    ----------
    random_state : numpy.random.RandomState
    n : int or 0-d array
    shape : tuple of int
        The shape of the result without its last dimension, which contains the permutations. None means ().

    Returns
    -------
    numpy.ndarray
        An array of shape ``shape + (n,)``.
    """
    n = np.asarray(n)
    if n.ndim:
        raise ValueError("n must be a scalar, it has shape %s" % (n.shape,))
    n, shape = int(n), tuple(shape or ())
    if n < 0:
        raise ValueError("negative dimensions are not allowed: n is %d" % n)
    out = np.empty(shape + (n,), "int64")
    for index in np.ndindex(*shape):
        out[index] = random_state.permutation(n)
    return out


def permutation(random_state, size=None, n=1, ndim=None, dtype="int64"):
    """Sample permutations of the integers below `n`, one for each element of a tensor of shape `size`.

    The sample has an additional last dimension of length `n`. For ``size=None``, the sample is a single permutation.
    For the other parameters and the results, see :func:`uniform`.
    """
    ndim, size, bcast = infer_ndim_bcast(ndim, () if size is None else size)
    n = as_tensor_variable(n)
    if n.dtype.startswith("complex"):
        raise TypeError("n must be an integer, not %s" % n.type)
    op = RandomFunction(permutation_helper, TensorType(dtype, bcast + (False,)), ndim_added=1)
    return op(random_state, size, n)


MAX_EXCESS = 1e-4
"""The amount by which a sum of probabilities may exceed 1.

The sum of float32 probabilities may exceed 1 by a rounding error. Such probabilities are divided by their sum.
"""


def multinomial_helper(random_state, n, pvals, size):
    """Sample the counts of multinomial trials. `n` and `pvals` may be arrays.

    Parameters
    ----------
    random_state : numpy.random.RandomState
    n : array_like of int
        The numbers of trials, which are broadcast to `size`.
    pvals : array_like
        The probabilities along the last axis. The other axes are broadcast to `size`.
    size : tuple of int or None
        The shape of the sample without its last dimension. None means the shape to which n and the leading axes of
        pvals are broadcast.

    Returns
    -------
    numpy.ndarray of int64
        An array of shape ``size + (pvals.shape[-1],)``.

    Raises
    ------
    ValueError
        If a number of trials or a probability is negative, or if the sum of probabilities exceeds 1 by more than
        `MAX_EXCESS`. The state of the generator is then unchanged.
    """
    n, pvals = np.asarray(n), np.asarray(pvals, "float64")
    if pvals.ndim == 0:
        raise ValueError("pvals must have at least one dimension: its last axis contains the probabilities")
    if size is None:
        size = np.broadcast_shapes(n.shape, pvals.shape[:-1])
    size = tuple(size)
    if max(n.ndim, pvals.ndim - 1) > len(size):
        raise ValueError(
            "size must have at least %d elements for n of shape %s and pvals of shape %s, but it is %s"
            % (max(n.ndim, pvals.ndim - 1), n.shape, pvals.shape, size)
        )
    n = n.reshape((1,) * (len(size) - n.ndim) + n.shape)
    pvals = pvals.reshape((1,) * (len(size) + 1 - pvals.ndim) + pvals.shape)
    every, at_n, at_p = broadcasting_indices(size, n.shape, pvals.shape[:-1])
    if (n < 0).any():
        raise ValueError("n < 0: the number of trials must not be negative")
    if not (pvals >= 0).all():
        raise ValueError("pvals < 0, pvals > 1 or pvals contains NaNs")
    total = pvals.sum(-1, keepdims=True)
    if (total > 1 + MAX_EXCESS).any():
        raise ValueError("sum(pvals) > 1.0: the sum of the probabilities is %s" % total.max())
    # Rescale probabilities that NumPy rejects: it raises ValueError if their sum without the last one exceeds 1 by more
    # than 1e-12.
    excess = pvals[..., :-1].sum(-1, keepdims=True) > 1 + 5e-13
    pvals = np.where(excess, pvals / np.where(excess, total, 1), pvals)
    out = np.empty(size + pvals.shape[-1:], "int64")
    for where, i, k in zip(every, at_n, at_p):
        out[where] = random_state.multinomial(n[i], pvals[k])
    return out


def multinomial(
    random_state,
    size=None,
    n=1,
    pvals=[0.5, 0.5],  # noqa: B006, as documented
    ndim=None,
    dtype="int64",
    p_vals=None,
):
    """Sample the number of occurrences of each of several categories in `n` trials.

    Parameters
    ----------
    random_state : variable of type `random_state_type`
    size : sequence of int and integer scalars, integer vector, optional
        The shape of the sample without its last dimension, which is the dimension of the categories. None means the
        shape to which n and the leading axes of pvals are broadcast.
    n : tensor_like of int
        The number of trials.
    pvals : tensor_like
        The probabilities along the last axis.
    ndim : int, optional
        The length of `size`.
    dtype : str
    p_vals : tensor_like, optional
        Another name of `pvals`, which the documentation of Theano uses.

    Returns
    -------
    new_state, sample : Variable
        The sample has an additional last dimension for the categories.
    """
    if p_vals is not None:
        pvals = p_vals
    n, pvals = as_tensor_variable(n), as_tensor_variable(pvals)
    if pvals.ndim == 0:
        raise TypeError(
            "pvals must have at least one dimension (its last axis contains the probabilities), got %s" % pvals.type
        )
    # Derive the shape from n and the probabilities of one category, because `size` has no axis for the categories.
    ndim, size, bcast = infer_ndim_bcast(ndim, size, n, pvals.T[0].T)
    outtype = TensorType(dtype, bcast + (pvals.type.broadcastable[-1],))
    return RandomFunction(multinomial_helper, outtype, ndim_added=1)(random_state, size, n, pvals)


class RandomStreamsBase:
    """A base class with the distributions as methods. The method `gen` of a subclass provides the state.

    Most methods have the name of a function of this module. Their parameters have the same meaning as the parameters of
    the function, but there is no parameter for the state. `size` is the shape of the sample. `ndim` is the length of
    `size`. `ndim` is required if the length is not known while the graph is built.
    """

    gen: Callable[..., Any]

    def binomial(
        self,
        size: ShapeLike | None = None,
        n: TensorLike = 1,
        p: TensorLike = 0.5,
        ndim: int | None = None,
        dtype: DTypeLike = "int64",
        prob: TensorLike | None = None,
    ) -> TensorVariable:
        """Sample the number of successes in n trials of success probability p. `prob` is the former name of p."""
        if prob is not None:
            warnings.warn("The parameter prob of binomial is now called p.", DeprecationWarning, stacklevel=2)
            p = prob
        return self.gen(binomial, size, n, p, ndim=ndim, dtype=dtype)

    def uniform(
        self,
        size: ShapeLike | None = None,
        low: TensorLike = 0.0,
        high: TensorLike = 1.0,
        ndim: int | None = None,
        dtype: DTypeLike | None = None,
    ) -> TensorVariable:
        """Sample from the uniform distribution on [low, high)."""
        return self.gen(uniform, size, low, high, ndim=ndim, dtype=dtype)

    def normal(
        self,
        size: ShapeLike | None = None,
        avg: TensorLike = 0.0,
        std: TensorLike = 1.0,
        ndim: int | None = None,
        dtype: DTypeLike | None = None,
    ) -> TensorVariable:
        """Sample from the normal distribution of mean avg and standard deviation std."""
        return self.gen(normal, size, avg, std, ndim=ndim, dtype=dtype)

    def random_integers(
        self,
        size: ShapeLike | None = None,
        low: TensorLike = 0,
        high: TensorLike = 1,
        ndim: int | None = None,
        dtype: DTypeLike = "int64",
    ) -> TensorVariable:
        """Sample integers from low to high, both included."""
        return self.gen(random_integers, size, low, high, ndim=ndim, dtype=dtype)

    def choice(
        self,
        size: ShapeLike | None = None,
        a: TensorLike = 2,
        replace: bool = True,
        p: TensorLike | None = None,
        ndim: int | None = None,
        dtype: DTypeLike = "int64",
    ) -> TensorVariable:
        """Sample elements of a vector, or integers below a number."""
        return self.gen(choice, size, a, replace, p, ndim=ndim, dtype=dtype)

    def poisson(
        self,
        size: ShapeLike | None = None,
        lam: TensorLike | None = None,
        ndim: int | None = None,
        dtype: DTypeLike = "int64",
    ) -> TensorVariable:
        """Sample from the Poisson distribution of mean lam. If lam is None, the mean is 1."""
        return self.gen(poisson, size, 1.0 if lam is None else lam, ndim=ndim, dtype=dtype)

    def permutation(
        self, size: ShapeLike | None = None, n: TensorLike = 1, ndim: int | None = None, dtype: DTypeLike = "int64"
    ) -> TensorVariable:
        """Sample permutations of the integers below n. The result has the shape size + (n,)."""
        return self.gen(permutation, size, n, ndim=ndim, dtype=dtype)

    def multinomial(
        self,
        size: ShapeLike | None = None,
        n: TensorLike = 1,
        pvals: TensorLike = [0.5, 0.5],  # noqa: B006, as documented
        ndim: int | None = None,
        dtype: DTypeLike = "int64",
    ) -> TensorVariable:
        """Sample the number of occurrences of each category in n trials.

        The result has the shape size + (number of categories,).
        """
        return self.gen(multinomial, size, n, pvals, ndim=ndim, dtype=dtype)

    def shuffle_row_elements(self, input: TensorLike) -> TensorVariable:
        """Return a tensor whose rows (along the last axis) are shuffled by independent permutations.

        The attribute `permutation` of the result contains the permutations.
        """
        input = as_tensor_variable(input)
        if input.ndim == 0:
            raise ValueError("a 0-d tensor has no rows to shuffle")
        order = self.permutation(size=input.shape[:-1], n=input.shape[-1], ndim=input.ndim - 1)
        shuffled = permute_row_elements(input, order)
        shuffled.permutation = order  # type: ignore[attr-defined]
        return shuffled
