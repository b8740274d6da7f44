"""Random numbers of the generator MRG31k3p: fast, with many parallel streams, and equal in all implementations.

:class:`MRG_RandomStreams` has most methods of :class:`~theano_ng.tensor.shared_randomstreams.RandomStreams`. The module
`mrg31k3p` contains the arithmetic of the generator and names its sources. The C code is
`tensor/native/arrays/random.c`.
"""

import operator
import warnings

import numpy as np

from theano_ng import scalar
from theano_ng.compile.sharedvalue import shared
from theano_ng.configdefaults import config
from theano_ng.gof.derivative import DisconnectedType, grad_undefined
from theano_ng.gof.graph import Apply, Constant, Variable
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.gof.optdb import register_loader
from theano_ng.gradient_ops import undefined_grad
from theano_ng.lazy import CLASSIC_IMPORTS, lazy_names
from theano_ng.sandbox import multinomial
from theano_ng.sandbox.mrg31k3p import (  # noqa: F401  (names of this module)
    M1,
    M2,
    MASK2,
    MASK12,
    MASK13,
    MULT2,
    NORM,
    A1p72,
    A1p134,
    A2p72,
    A2p134,
    ff_2p72,
    ff_2p134,
    matVecModM,
    mrg_next_value,
    multMatVect,
    next_states,
    np_int32_vals,
    numbers,
    substreams,
)
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import FLOATS, INTEGERS
from theano_ng.tensor.elemwise.functions import bitwise_or, cast, cos, gt, invert, log, lt, sin, sqrt
from theano_ng.tensor.random_shapes import infer_ndim_bcast
from theano_ng.tensor.reductions.sums import prod
from theano_ng.tensor.shaping.joining import join
from theano_ng.tensor.shaping.reshaping import reshape
from theano_ng.tensor.type import TensorType

__all__ = [
    "DotModulo",
    "MRG_RandomStreams",
    "ff_2p72",
    "ff_2p134",
    "guess_n_streams",
    "matVecModM",
    "mrg_next_value",
    "mrg_uniform",
    "mrg_uniform_base",
    "multMatVect",
]

register_loader("theano_ng.sandbox.rng_rules")
__getattr__, __dir__, _ = lazy_names(
    __name__,
    {
        **CLASSIC_IMPORTS,
        "theano_ng.gof.rewriting": "integer_types string_types",
        "theano_ng.compile.mode": "optdb",
        "theano_ng.sandbox.rng_rules": "mrg_random_make_inplace",
    },
)

MAX_STREAMS = 60 * 256
"""The number of streams if the size of the sample is not known."""

_KINDS = {"float16": 0, "float32": 1, "float64": 2}

BEST_MACHINE = 2
"""The most advanced instruction set that C code may use: AVX-512 (2), AVX2 (1) or neither (0).

A machine without these instructions uses a simpler set. The random numbers are the same for all sets.
"""


class DotModulo(NativeOp, Op):
    """An Op that computes ``matVecModM(A, s, m)`` and ``matVecModM(A2, s2, m2)``, and joins the results.

    The inputs are an int64 matrix, an int32 vector, an integer scalar, and then another matrix, vector and scalar. The
    output is an int32 vector.
    """

    __props__ = ()

    def make_node(self, A, s, m, A2, s2, m2):
        inputs = [as_tensor_variable(x, ndim=ndim) for x, ndim in zip((A, s, m, A2, s2, m2), (2, 1, 0) * 2)]
        for x in inputs:
            if x.dtype not in INTEGERS:
                raise TypeError("DotModulo expects integers, not %s" % x.type)
        return Apply(
            self,
            [cast(x, dtype) for x, dtype in zip(inputs, ("int64", "int32", "int64") * 2)],
            [TensorType("int32", [False])()],
        )

    def native_code(self, node):
        return NativeCode("theano_ng.tensor.native.random:dot_modulo")

    def perform(self, node, inputs, outputs):
        A, s, m, A2, s2, m2 = inputs
        for matrix, vector, modulus in ((A, s, m), (A2, s2, m2)):
            if matrix.shape[1] != len(vector):
                raise ValueError(
                    "DotModulo: the matrix has %d columns, but the vector has %d elements"
                    % (matrix.shape[1], len(vector))
                )
            if modulus < 1:
                raise ValueError("the modulus must be positive, not %d" % modulus)
        products = [
            (matrix.astype(object) * vector.astype(object) % int(modulus)).sum(1) % int(modulus)
            for matrix, vector, modulus in ((A, s, m), (A2, s2, m2))
        ]
        outputs[0][0] = np.concatenate(products).astype("int64").astype("int32")

    def fails_on_values(self, node):
        return True

    def infer_shape(self, node, shapes):
        return [(shapes[0][0] + shapes[3][0],)]

    def grad(self, inputs, output_grads):
        return [grad_undefined(self, k, x, "DotModulo computes with integers") for k, x in enumerate(inputs)]

    def R_op(self, inputs, eval_points):
        return [None]


class mrg_uniform_base(Op):
    """A base class of Ops that draw uniform numbers.

    The inputs are the states of streams, an int32 matrix with a row of six numbers for each stream, and the shape of
    the sample. The outputs are the new states, and a sample of numbers in (0, 1). Element i of the sample, in C order,
    is drawn from stream i modulo the number of streams.

    Parameters
    ----------
    output_type : TensorType
        The type of the sample. Its dtype is float16, float32 or float64.
    inplace : bool
        If True, the states are overwritten.
    """

    __props__ = ("output_type", "inplace")

    def __init__(self, output_type, inplace=False):
        if not isinstance(output_type, TensorType) or output_type.dtype not in _KINDS:
            raise TypeError("samples of MRG31k3p must be float16, float32 or float64, not of type %s" % (output_type,))
        self.output_type = output_type
        self.inplace = inplace
        if inplace:
            self.destroy_map = {0: [0]}

    def __str__(self):
        return "%s{%s,%s}" % (type(self).__name__, self.output_type, "inplace" if self.inplace else "no_inplace")

    def infer_shape(self, node, i_shapes):
        return [i_shapes[0], [node.inputs[1][i] for i in range(node.outputs[1].ndim)]]

    def connection_pattern(self, node):
        return [[True, True], [False, False]]

    def grad(self, inputs, ograd):
        rstate, _ = inputs
        return [grad_undefined(self, 0, rstate, "No gradient defined through random sampling op"), DisconnectedType()()]

    def R_op(self, inputs, eval_points):
        return [None, None]


class mrg_uniform(NativeOp, mrg_uniform_base):
    """The Op that draws uniform numbers in (0, 1) on the CPU; see `mrg_uniform_base`."""

    _f16_ok = True

    @classmethod
    def new(cls, rstate, ndim, dtype, size):
        """Return variables for the new states and for a sample with the shape `size`.

        Parameters
        ----------
        rstate : int32 matrix
        ndim : int or None
            The number of dimensions of the sample. Default: the length of `size`.
        dtype : {'float16', 'float32', 'float64'}
        size : sequence of int and integer scalars, or integer vector
        """
        _, size, bcast = _shape(ndim, size)
        return cls(TensorType(dtype, bcast))(rstate, size)

    def make_node(self, rstate, size):
        rstate = as_tensor_variable(rstate, ndim=2)
        if rstate.dtype != "int32":
            raise TypeError("states of MRG31k3p must be int32 arrays, not %s" % rstate.type)
        size = as_tensor_variable(size)
        if size.ndim != 1 or size.dtype not in INTEGERS:
            raise TypeError("size must be a vector of integers, not %s" % size.type)
        return Apply(self, [rstate, cast(size, "int64")], [rstate.type(), self.output_type()])

    def native_code(self, node):
        return NativeCode(
            "theano_ng.tensor.native.random:mrg_uniform",
            inplace=self.inplace,
            kind=_KINDS[self.output_type.dtype],
            ndim=self.output_type.ndim,
            machine=BEST_MACHINE,
        )

    def fails_on_values(self, node):
        return not isinstance(node.inputs[1], Constant)

    def perform(self, node, inputs, outputs):
        rstate, size = inputs
        if len(size) != self.output_type.ndim:
            raise ValueError(
                "mrg_uniform makes a sample of %d dimension(s), but size has %d element(s)"
                % (self.output_type.ndim, len(size))
            )
        if (size < 0).any():
            raise ValueError("negative dimensions are not allowed: size is %s" % size)
        if len(rstate) == 0 or rstate.shape[1] != 6:
            raise ValueError("rstate must have a row of 6 numbers for each stream, its shape is %s" % (rstate.shape,))
        if not (self.inplace and rstate.flags.writeable):
            rstate = np.array(rstate, order="C")
        total, n = int(np.prod(size.astype(object))), len(rstate)
        sample = np.empty(total, self.output_type.dtype)
        states = list(rstate.T.astype("int64"))
        for first in range(0, total, n):
            count = min(n, total - first)
            new, z = next_states([x[:count] for x in states])
            states = new if count == n else [np.concatenate([part, whole[count:]]) for part, whole in zip(new, states)]
            sample[first : first + count] = numbers(z, self.output_type.dtype)
        rstate[...] = np.stack(states, axis=1)
        outputs[0][0] = rstate
        outputs[1][0] = sample.reshape(size)


def guess_n_streams(size, warn=False):
    """Return a suitable number of streams for samples of a size.

    Parameters
    ----------
    size : sequence
    warn : bool
        Whether to warn if `size` is a variable or contains variables. For such a size, the result is always
        `MAX_STREAMS`.
    """
    if isinstance(size, (tuple, list)) and all(isinstance(i, (int, np.integer)) for i in size):
        # Let each stream draw about six numbers, because starting a stream costs more than drawing a number.
        total = 1
        for length in size:
            total *= int(length)
        return min(total // 6 if total > 6 else total, MAX_STREAMS)
    if warn:
        warnings.warn(
            "MRG_RandomStreams cannot tell the number of streams from size (%s), guessing %d" % (size, MAX_STREAMS),
            stacklevel=3,
        )
    return MAX_STREAMS


def _check_size(size):
    """Check a size, and return it as a variable or as a tuple of positive ints and variables.

    Raise TypeError or ValueError if it is not a size.
    """
    if isinstance(size, Variable):
        if size.ndim == 1:
            return size
    elif isinstance(size, (tuple, list)):
        lengths = []
        for length in size:
            if isinstance(length, Variable):
                if getattr(length.type, "ndim", 0):
                    raise TypeError("size must be a tuple of int or a Theano variable, it holds %s" % length.type)
            else:
                try:
                    length = operator.index(length)
                except TypeError:
                    raise TypeError(
                        "size must be a tuple of int or a Theano variable, it holds %r" % (length,)
                    ) from None
                if length <= 0:
                    raise ValueError("The specified size contains a dimension with value <= 0", size)
            lengths.append(length)
        return tuple(lengths)
    raise TypeError(
        "size must be a tuple of int or a Theano Variable with 1 dimension, got %s of type %s" % (size, type(size))
    )


def _shape(ndim, size):
    """Return what `infer_ndim_bcast` returns for a size: ndim, shape and broadcast pattern.

    The shape is a constant if `size` contains only numbers.
    """
    ndim, shape, bcast = infer_ndim_bcast(ndim, size)
    if isinstance(size, (tuple, list)) and not any(isinstance(length, Variable) for length in size):
        shape = as_tensor_variable(np.array(size, "int64"))
    return ndim, shape, bcast


def _at_least_floatx(dtype, *parameters):
    """Return the dtype of a sample: `dtype`, or if it is None, the upcast of floatX and the parameters' dtypes."""
    if dtype is None:
        dtype = scalar.upcast(config.floatX, *[x.dtype for x in parameters])
    if dtype not in FLOATS:
        raise TypeError("samples must be float16, float32 or float64, not %s" % (dtype,))
    return dtype


def _placement(method, kwargs):
    """Return the keywords of `shared` that choose the device of states. Raise TypeError for unknown keywords.

    `use_cuda` is ignored: older versions used it to choose the device.
    """
    unknown = {name: value for name, value in kwargs.items() if name not in ("target", "use_cuda")}
    if unknown:
        raise TypeError("%s() got unexpected keyword arguments %s" % (method, unknown.keys()))
    return {"target": kwargs["target"]} if "target" in kwargs else {}


class MRG_RandomStreams:
    """A source of random variables. Their values are drawn from streams of the generator MRG31k3p.

    Parameters
    ----------
    seed : int, or sequence of 6 int
        The seed. A single int sets all six numbers of the state, and must be from 1 to M2 - 1, where M2 = 2147462579.
        With six ints, the first three must be less than M1 = 2147483647, and the last three less than M2. Neither the
        first three nor the last three may all be 0. No int may be negative.
    use_cuda : bool, optional
        Ignored. Old programs pass it. A rewriting rule chooses the device that computes the numbers.

    Attributes
    ----------
    rstate : numpy.ndarray of int32, (6,)
        The initial state of the first stream of the next random variable.
    state_updates : list of (shared variable, Variable)
        For each random variable, the states of its streams (a matrix), and the expression of their next states. The
        sample that `mrg_uniform` returns has an attribute `rstate` (the states), and an attribute `update` (the pair).

    Notes
    -----
    Each random variable uses new streams, which are 2**72 steps apart. The streams of the next random variable begin
    2**134 steps later. The parameter ``nstreams`` of the methods is the number of streams. Its default is the result of
    `guess_n_streams`. The drawn numbers depend on the number of streams. The parameter ``ndim`` is the length of a
    symbolic `size`. Most methods also accept the keyword ``target`` of `theano_ng.shared`, the device of the states:
    'cpu' or the name of a context.
    """

    def __init__(self, seed=12345, use_cuda=None):
        self.state_updates = []
        self._sizes = []  # for each random variable: the arguments `size` and `nstreams`
        self.default_instance_seed = seed
        self.set_rstate(seed)

    def __setstate__(self, state):
        """Restore the state, also from pickles of Theano 1.0.

        In these pickles, `state_updates` contains tuples (states, next states, size, number of streams).
        """
        self.__dict__.update(state)
        if "_sizes" not in state:
            self._sizes = [tuple(update[2:4]) for update in self.state_updates]
            self.state_updates = [tuple(update[:2]) for update in self.state_updates]

    def set_rstate(self, seed):
        """Set the state for later random variables from a seed.

        The streams of existing random variables do not change.
        """
        if isinstance(seed, (int, np.integer)) and not isinstance(seed, (bool, np.bool_)):
            if seed == 0:
                raise ValueError("seed should not be 0", seed)
            if seed < 0:
                raise ValueError("seed should not be negative", seed)
            if seed >= M2:
                raise ValueError("seed should be less than %d" % M2, seed)
            self.rstate = np.array([seed] * 6, dtype="int32")
            return
        if not hasattr(seed, "__len__") or isinstance(seed, (str, bytes)) or len(seed) != 6:
            raise TypeError("seed should be 1 integer or 6 integers", seed)
        for number in seed:
            if not isinstance(number, (int, np.integer)):
                raise TypeError("seed should be 1 integer or 6 integers", seed)
            if number < 0:
                raise ValueError("seed should not be negative", seed)
        for which, part, modulus in (("first", seed[:3], M1), ("last", seed[3:], M2)):
            if not any(number != 0 for number in part):
                raise ValueError("The %s 3 values of seed should not be all 0" % which, seed)
            if not all(number < modulus for number in part):
                raise ValueError("The %s 3 values of seed should be less than %d" % (which, modulus), seed)
        self.rstate = np.array([int(number) for number in seed], dtype="int32")

    def seed(self, seed=None):
        """Set new states for the streams of all existing random variables. Each stream gets a different state.

        Parameters
        ----------
        seed : int from 1 to 2**30, sequence of 6 int, or None
            The seed. Default: the seed that was given to the constructor.
        """
        before = self.rstate
        self.set_rstate(self.default_instance_seed if seed is None else seed)
        try:
            for (state, _), (size, nstreams) in zip(self.state_updates, self._sizes):
                n = self.n_streams(size) if nstreams is None else nstreams
                state.set_value(self.get_substream_rstates(n, state.dtype), borrow=True)
        except BaseException:
            self.rstate = before
            raise

    def inc_rstate(self):
        """Advance `rstate` by 2**134 steps, to the beginning of the next stream."""
        self.rstate = ff_2p134(self.rstate)

    def get_substream_rstates(self, n_streams, dtype, inc_rstate=True):
        """Return the states of streams that are 2**72 steps apart. The first state is `rstate`.

        Parameters
        ----------
        n_streams : int
        dtype : str
            The dtype of the sample, which has no influence on the states.
        inc_rstate : bool
            Whether to call `inc_rstate` afterwards.

        Returns
        -------
        numpy.ndarray of int32, (n_streams, 6)
        """
        if isinstance(n_streams, (bool, np.bool_)) or not isinstance(n_streams, (int, np.integer)):
            raise TypeError("the number of streams must be an integer, not %r" % (n_streams,))
        if n_streams < 1:
            raise ValueError("the number of streams must be positive, not %d" % n_streams)
        states = substreams(self.rstate, int(n_streams))
        if inc_rstate:
            self.inc_rstate()
        return states

    def n_streams(self, size):
        """Return the number of streams for a size."""
        return guess_n_streams(size)

    def pretty_return(self, node_rstate, new_rstate, sample, size, nstreams):
        """Record a random variable, set the attributes `rstate` and `update` of its sample, and return the sample."""
        sample.rstate = node_rstate
        sample.update = (node_rstate, new_rstate)
        self.state_updates.append(sample.update)
        self._sizes.append((size, nstreams))
        node_rstate.default_update = new_rstate
        return sample

    def updates(self):
        """Return a list of pairs (states, next states), for the parameter ``updates`` of `theano.function`."""
        return list(self.state_updates)

    def uniform(self, size, low=0.0, high=1.0, ndim=None, dtype=None, nstreams=None, **kwargs):
        """Sample from the uniform distribution on (low, high).

        Parameters
        ----------
        size : sequence of int and integer scalars, or integer vector
        low, high : tensor_like
            The bounds, which are not in the interval. They broadcast against the sample.
        ndim : int, optional
        dtype : {'float16', 'float32', 'float64'}, optional
            The dtype of the sample. Default: the upcast of floatX and the dtypes of the bounds.
        nstreams : int, optional

        Returns
        -------
        TensorVariable
        """
        placement = _placement("uniform", kwargs)
        low, high = as_tensor_variable(low), as_tensor_variable(high)
        dtype = _at_least_floatx(dtype, low, high)
        low, high = undefined_grad(cast(low, dtype)), undefined_grad(cast(high, dtype))
        size = _check_size(size)
        original = nstreams
        if nstreams is None:
            nstreams = self.n_streams(size)
        before = self.rstate
        try:
            rstate = shared(self.get_substream_rstates(nstreams, dtype), **placement)
            new_rstate, u = mrg_uniform.new(rstate, ndim, dtype, size)
            sample = u * (high - low) + low
            if u.type.broadcastable != sample.type.broadcastable:
                raise ValueError(
                    "size must contain all dimensions: low and high make a sample of type %s, size makes a sample of type %s"
                    % (sample.type, u.type)
                )
        except BaseException:
            self.rstate = before
            raise
        self.pretty_return(rstate, new_rstate, u, size, original)
        return sample

    def binomial(self, size=None, n=1, p=0.5, ndim=None, dtype="int64", nstreams=None, **kwargs):
        """Sample the number of successes in n trials that succeed with probability p.

        Parameters
        ----------
        size : sequence of int and integer scalars, or integer vector
        n : int
            The number of trials. Each trial draws one uniform number.
        p : tensor_like
        ndim : int, optional
        dtype : str
        nstreams : int, optional
        """
        if isinstance(n, (Variable, bool, np.bool_)) or not isinstance(n, (int, np.integer)):
            raise TypeError("n must be an int, not %r" % (n,))
        if n < 0:
            raise ValueError("n < 0: the number of trials must not be negative")
        p = undefined_grad(as_tensor_variable(p))
        if n == 1:
            return cast(lt(self.uniform(size=size, ndim=ndim, nstreams=nstreams, **kwargs), p), dtype)
        # The first axis of `u` is the axis of the trials.
        size = _check_size(size)
        trials = (
            (int(n),) + size
            if isinstance(size, tuple)
            else join(0, as_tensor_variable(np.array([n], "int64")), cast(size, "int64"))
        )
        if n == 0:
            return cast(lt(self.uniform(size=size, ndim=ndim, nstreams=nstreams, **kwargs), -1.0), dtype)
        u = self.uniform(size=trials, ndim=None if ndim is None else ndim + 1, nstreams=nstreams, **kwargs)
        return cast(lt(u, p).sum(0, dtype="int64"), dtype)

    def multinomial(self, size=None, n=1, pvals=None, ndim=None, dtype="int64", nstreams=None, **kwargs):
        """Sample how often each category is drawn in n trials, for each row of pvals.

        Parameters
        ----------
        size, ndim
            Must be None. These parameters exist because other methods have them.
        n : int or integer scalar
            The number of trials, at least 1.
        pvals : matrix_like
            Rows of probabilities, which are not checked. If a uniform number is not below the sum of a row, no category
            is counted.
        dtype : str
        nstreams : int, optional

        Returns
        -------
        TensorVariable
            The counts, a matrix with the shape of pvals.
        """
        if pvals is None:
            raise TypeError("You have to specify pvals")
        pvals = undefined_grad(as_tensor_variable(pvals))
        for name, value in (("a size", size), ("an ndim", ndim)):
            if value is not None:
                raise ValueError(
                    "Provided %s argument to MRG_RandomStreams.multinomial, which does not use the %s argument."
                    % (name, name.split()[1])
                )
        if pvals.ndim != 2:
            raise NotImplementedError("MRG_RandomStreams.multinomial only implemented for pvals.ndim = 2")
        n = _number(n, "n")
        unis = self.uniform(size=pvals[:, 0].shape * n, ndim=1, nstreams=nstreams, **kwargs)
        return multinomial.MultinomialFromUniform(dtype)(pvals, unis, n)

    def choice(self, size=1, a=None, replace=True, p=None, ndim=None, dtype="int64", nstreams=None, **kwargs):
        """Draw categories for each row of probabilities.

        Parameters
        ----------
        size : int or integer scalar
            The number of draws per row. Without replacement, it is at most the number of categories.
        a : None
            Must be None: the categories are 0, 1, 2 ...
        replace : bool
            If True, a category can be drawn several times. If False, the probability of a drawn category becomes 0, and
            the probabilities of the remaining categories are scaled to the sum 1 before the next draw.
        p : matrix_like
            Rows of probabilities, which are not checked. If a uniform number is not below the sum of a row, the result
            is -1.
        ndim : None
            Must be None. The parameter exists because other methods have it.
        dtype : str
        nstreams : int, optional

        Returns
        -------
        TensorVariable
            A matrix with a row of `size` categories for each row of p.
        """
        if a is not None:
            raise TypeError(
                "For now, a has to be None in MRG_RandomStreams.choice. Sampled values are between 0 and p.shape[1]-1"
            )
        if p is None:
            raise TypeError("For now, p has to be specified in MRG_RandomStreams.choice.")
        p = undefined_grad(as_tensor_variable(p))
        if ndim is not None:
            raise ValueError("ndim argument to MRG_RandomStreams.choice is not used.")
        if p.ndim != 2:
            raise NotImplementedError("MRG_RandomStreams.choice is only implemented for p.ndim = 2")
        size = _number(size, "size")
        unis = self.uniform(size=p[:, 0].shape * size, ndim=1, nstreams=nstreams, **kwargs)
        return multinomial.ChoiceFromUniform(odtype=dtype, replace=bool(replace))(p, unis, size)

    def multinomial_wo_replacement(self, size=None, n=1, pvals=None, ndim=None, dtype="int64", nstreams=None, **kwargs):
        """Draw categories without replacement. This is the old name of ``choice(size=n, replace=False, p=pvals)``."""
        warnings.warn(
            "MRG_RandomStreams.multinomial_wo_replacement() is deprecated; use MRG_RandomStreams.choice() instead.",
            DeprecationWarning,
            stacklevel=2,
        )
        if size is not None:
            raise ValueError(
                "multinomial_wo_replacement does not accept size: it draws one sample for each row of pvals. Pass n, the "
                "number of elements that are chosen from each row"
            )
        return self.choice(size=n, a=None, replace=False, p=pvals, ndim=ndim, dtype=dtype, nstreams=nstreams, **kwargs)

    def normal(self, size, avg=0.0, std=1.0, ndim=None, dtype=None, nstreams=None, truncate=False, **kwargs):
        """Sample from the normal distribution.

        Parameters
        ----------
        size : sequence of int and integer scalars, or integer vector
        avg, std : tensor_like
            The mean and the standard deviation. They broadcast against the sample.
        ndim : int, optional
        dtype : {'float16', 'float32', 'float64'}, optional
            The dtype of the sample. Default: the upcast of floatX and the dtypes of avg and std.
        nstreams : int, optional
        truncate : bool
            If True, numbers more than two standard deviations from the mean are drawn again. The standard deviation of
            the sample is then less than `std`.

        Returns
        -------
        TensorVariable

        Notes
        -----
        The Box-Muller transform computes pairs of normal numbers from pairs of uniform numbers ("A Note on the
        Generation of Random Normal Deviates", Annals of Mathematical Statistics 29 (1958), 610-611). The first half of
        the uniform numbers determines the radii, and the second half the angles. For a sample of odd size, one more
        number is drawn.

        In the mode FAST_COMPILE, Python code calls NumPy's log, cos and sin. The float64 numbers of this mode equal the
        numbers of Theano 1.0.5 to the last bit, if NumPy's functions are as accurate as the functions of the C library.
        In FAST_RUN, compiled code calls vector functions, which are several times as fast, with errors of up to 4 units
        in the last place. The numbers of the two modes differ by less than 1e-12 in float64 and 1e-5 in float32,
        relative to 1. In Theano 1.0.5, too, Python and C code gave different last bits for float32, and for products
        with `std`, because the C compiler fused these products with sums.

        A number that is drawn again for a truncated sample keeps its angle and gets another radius. Therefore the
        standard deviation of the sample is 1.2 % greater than for a normal distribution that is cut at two standard
        deviations.
        """
        size = _check_size(size)
        avg, std = undefined_grad(as_tensor_variable(avg)), undefined_grad(as_tensor_variable(std))
        dtype = _at_least_floatx(dtype, avg, std)
        avg, std = cast(avg, dtype), cast(std, dtype)
        # Check that size and ndim agree before random states are used.
        ndim, shape, _ = _shape(ndim, size)
        for x in (avg, std):
            if x.ndim > ndim:
                raise ValueError(
                    "size must contain all dimensions: it has %d, a parameter of type %s has more" % (ndim, x.type)
                )
        count = prod(shape, dtype="int64")
        pairs = count + count % 2
        u = self.uniform(size=(pairs,), low=0.0, high=1.0, ndim=1, dtype=dtype, nstreams=nstreams, **kwargs)
        half = pairs // 2
        radius = sqrt(-2.0 * log(u[:half]))
        angle = as_tensor_variable(np.asarray(2.0 * np.pi, dtype)) * u[half:]
        cosine, sine = cos(angle), sin(angle)
        if truncate:
            parts = self._truncated(radius, cosine, sine, dtype, nstreams, kwargs)
        else:
            parts = [radius * cosine, radius * sine]
        sample = reshape(join(0, *parts)[:count], shape, ndim=ndim)
        sample = sample * std + avg
        return sample if sample.dtype == dtype else cast(sample, dtype)

    def _truncated(self, radius, cosine, sine, dtype, nstreams, kwargs):
        """Return the parts of a truncated standard normal sample.

        A number outside of [-2, 2] is drawn again: it keeps its angle and gets a radius of at most 2. The parts are, in
        this order: the kept and the redrawn numbers of the cosine half, the kept and the redrawn numbers of the sine
        half.
        """
        halves = [radius * cosine, radius * sine]
        far = [bitwise_or(lt(half, -2.0), gt(half, 2.0)) for half in halves]
        places = [where.nonzero()[0] for where in far]
        counts = [place.shape[0] for place in places]
        # The new radius is sqrt(-2 log u). It is less than 2 if the uniform number u exceeds exp(-2).
        u = self.uniform(
            size=(counts[0] + counts[1],), low=np.exp(-2.0), high=1.0, ndim=1, dtype=dtype, nstreams=nstreams, **kwargs
        )
        radius = sqrt(-2.0 * log(u))
        again = [radius[: counts[0]] * cosine[places[0]], radius[counts[0] :] * sine[places[1]]]
        kept = [half[invert(where).nonzero()[0]] for half, where in zip(halves, far)]
        return [kept[0], again[0], kept[1], again[1]]

    def truncated_normal(self, size, avg=0.0, std=1.0, ndim=None, dtype=None, nstreams=None, **kwargs):
        """Sample from a normal distribution that is cut at two standard deviations.

        For the parameters, see :meth:`normal`. `avg` is the mean of the result. The standard deviation of the result is
        1.2 % greater than `std`, because of the way in which `normal` draws numbers again.
        """
        # The divisor is the standard deviation of a standard normal distribution that is cut at -2 and 2.
        std = as_tensor_variable(std) / np.float64(0.87962566103423978)
        return self.normal(
            size=size, avg=avg, std=std, truncate=True, ndim=ndim, dtype=dtype, nstreams=nstreams, **kwargs
        )


def _number(n, name):
    """Convert a number to an integer scalar variable. Raise TypeError or ValueError if this is not possible."""
    n = as_tensor_variable(n)
    if n.ndim != 0 or n.dtype not in INTEGERS:
        raise TypeError("%s must be an integer or a scalar of integers, not %s" % (name, n.type))
    if isinstance(n, Constant) and n.data < 0:
        raise ValueError("%s must not be negative, it is %d" % (name, n.data))
    return n
