"""The variables users write formulas with.

`_tensor_py_operators` is the mix-in that gives every tensor variable, constant
and shared variable its operators, methods and properties.
"""
import zlib

import numpy as np

from theano_ng.configdefaults import config
from theano_ng.gof.graph import Constant, Variable
from theano_ng.gof.utils import hashtype
from theano_ng.scalar import ComplexError
from theano_ng.tensor.type import TensorType
# Both modules are complete by the time a method runs; a plain import of the
# module object is all that the cycle allows here.
import theano_ng.tensor.basic as basic

__all__ = ['AsTensorError', 'TensorVariable', 'TensorConstant',
           'TensorConstantSignature', '_tensor_py_operators', 'equal_slices']

integer_types = (int,)


class AsTensorError(TypeError):
    """A value cannot be taken as a tensor variable."""


def equal_slices(s1, s2):
    """Whether two slices have identical bounds and step."""
    return (s1.start == s2.start and s1.stop == s2.stop and
            s1.step == s2.step)


def _binary(op_name, reflected=False, doc=''):
    """A binary operator method around `basic.<op_name>`.

    Returns NotImplemented where the other operand cannot be a tensor, so that
    Python asks the other operand, then raises TypeError.
    """
    def method(self, other):
        try:
            if reflected:
                return getattr(basic, op_name)(other, self)
            return getattr(basic, op_name)(self, other)
        except ComplexError:
            # Says more than "unsupported operand" would.
            raise
        except (NotImplementedError, AsTensorError):
            return NotImplemented
    method.__doc__ = doc
    return method


def _unary(op_name, doc=None):
    def method(self):
        return getattr(basic, op_name)(self)
    method.__name__ = op_name
    method.__doc__ = doc or "Elementwise; see `tensor.%s`." % op_name
    return method


class _tensor_py_operators(object):
    """Attributes, methods and operators of tensor variables.

    The methods follow those of :class:`numpy.ndarray`.
    """

    # ndarray <op> variable: NumPy leaves the operation to us instead of
    # looping over its elements.
    __array_priority__ = 1000
    __array_ufunc__ = None

    # -- operators -----------------------------------------------------------
    __add__ = _binary('add', doc="self + other")
    __radd__ = _binary('add', True, doc="other + self")
    __sub__ = _binary('sub', doc="self - other")
    __rsub__ = _binary('sub', True, doc="other - self")
    __mul__ = _binary('mul', doc="self * other")
    __rmul__ = _binary('mul', True, doc="other * self")
    __pow__ = _binary('pow', doc="self ** other")
    __rpow__ = _binary('pow', True, doc="other ** self")
    __mod__ = _binary('mod_check', doc="self % other; no complex numbers")
    __rmod__ = _binary('mod', True, doc="other % self")
    __div__ = _binary('div_proxy', doc="Division of Python 2: integers floor")
    __rdiv__ = _binary('div_proxy', True, doc="Reflected `__div__`")
    __truediv__ = _binary('true_div', doc="self / other")
    __rtruediv__ = _binary('true_div', True, doc="other / self")
    __floordiv__ = _binary('floor_div', doc="self // other")
    __rfloordiv__ = _binary('floor_div', True, doc="other // self")
    __divmod__ = _binary('divmod', doc="(self // other, self % other)")
    __rdivmod__ = _binary('divmod', True, doc="(other // self, other % self)")
    __and__ = _binary('and_', doc="Bitwise self & other")
    __rand__ = _binary('and_', True, doc="Bitwise other & self")
    __or__ = _binary('or_', doc="Bitwise self | other")
    __ror__ = _binary('or_', True, doc="Bitwise other | self")
    __xor__ = _binary('xor', doc="Bitwise self ^ other")
    __rxor__ = _binary('xor', True, doc="Bitwise other ^ self")
    __abs__ = _unary('abs_')
    __neg__ = _unary('neg')
    __invert__ = _unary('invert')
    __ceil__ = _unary('ceil')
    __floor__ = _unary('floor')
    __trunc__ = _unary('trunc')

    def __pos__(self):
        return self

    # __eq__ and __ne__ are left alone: variables are compared and hashed by
    # identity, `eq` and `neq` compare elements.

    def _compared(name, symbol):
        def method(self, other):
            result = getattr(basic, name)(self, other)
            # `a < b < c` is `(a < b) and (b < c)` in Python: the mark lets
            # __bool__ explain what went wrong.
            result._is_nonzero = False
            return result
        method.__doc__ = "Elementwise self %s other." % symbol
        return method

    __lt__ = _compared('lt', '<')
    __le__ = _compared('le', '<=')
    __gt__ = _compared('gt', '>')
    __ge__ = _compared('ge', '>=')
    del _compared

    _is_nonzero = True

    def __bool__(self):
        # A variable that is not the result of a comparison is true, like any
        # Python object: `if variable:` asks whether there is one.
        if self._is_nonzero:
            return True
        raise TypeError(
            "Variables do not support boolean operations. The comparison has "
            "no value before the compiled function runs: use "
            "theano.tensor.switch or theano.ifelse.ifelse for a condition, "
            "and & or | instead of `and`, `or` or chained comparisons.")

    __nonzero__ = __bool__

    def __dot__(left, right):
        """See `tensor.dot`."""
        return basic.dot(left, right)

    def __rdot__(right, left):
        """See `tensor.dot`."""
        return basic.dot(left, right)

    dot = __dot__

    def __matmul__(left, right):
        """left @ right; see `tensor.matmul`."""
        return basic.matmul(left, right)

    def __rmatmul__(right, left):
        """left @ right; see `tensor.matmul`."""
        return basic.matmul(left, right)

    # -- type ----------------------------------------------------------------
    @property
    def ndim(self):
        """Number of dimensions."""
        return self.type.ndim

    @property
    def broadcastable(self):
        """Tuple of bool: the dimensions whose length is known to be 1."""
        return self.type.broadcastable

    @property
    def dtype(self):
        """Name of the dtype of the elements."""
        return self.type.dtype

    @property
    def shape(self):
        """Symbolic vector (int64) of the lengths of the dimensions."""
        return basic.shape(self)

    @property
    def size(self):
        """Symbolic number of elements."""
        if self.ndim == 0:
            return basic.constant(1, dtype='int64')
        if self.ndim == 1:
            return self.shape[0]
        return basic.prod(self.shape)

    # -- indexing ------------------------------------------------------------
    def __getitem__(self, args):
        """Index as NumPy does: basic, integer and boolean indexing.

        Returns
        -------
        TensorVariable
        """
        from theano_ng.tensor.indexing.subtensor import index_variable
        return index_variable(self, args)

    def __setitem__(self, args, value):
        raise TypeError(
            "'%s' object does not support item assignment. Symbolic variables "
            "cannot be changed: use theano.tensor.set_subtensor(x[index], "
            "value) or theano.tensor.inc_subtensor, which return a new "
            "variable." % type(self).__name__)

    def take(self, indices, axis=None, mode='raise'):
        """See `numpy.ndarray.take`."""
        return basic.take(self, indices, axis, mode)

    def __iter__(self):
        # The length must be known while the graph is built, as for shape
        # vectors, stacks and constants.
        try:
            length = basic.get_vector_length(self)
        except (TypeError, ValueError) as err:
            raise TypeError(
                "TensorType does not support iteration. Did you pass a "
                "variable where a Python sequence is needed? Maybe you used "
                "the builtin sum, max, min, any or all instead of the ones of "
                "theano.tensor, or `a in b`? (%s)" % err) from None
        return iter([self[i] for i in range(length)])

    def __contains__(self, item):
        raise TypeError(
            "`in` has no meaning for a symbolic variable; use "
            "theano.tensor.any(theano.tensor.eq(x, item)).")

    # -- shape ---------------------------------------------------------------
    @property
    def T(self):
        """Transpose: the axes in reverse order."""
        return basic.transpose(self)

    def transpose(self, *axes):
        """Permute the axes.

        Parameters
        ----------
        *axes : int, or one sequence of int
            The new order; reversed if absent.
        """
        if not axes:
            return basic.transpose(self)
        if len(axes) == 1 and (axes[0] is None or hasattr(axes[0], '__iter__')):
            axes = axes[0]
        return basic.transpose(self, axes)

    def reshape(self, shape, ndim=None):
        """A view or copy with another shape.

        Parameters
        ----------
        shape : sequence of int or scalar variables, or integer vector
            One argument, unlike NumPy's.
        ndim : int, optional
            Length of `shape`, if it cannot be found.
        """
        if ndim is not None and not isinstance(ndim, (int, np.integer)):
            raise ValueError(
                "Expected ndim to be an integer, but got %s. The shape must be "
                "one argument: x.reshape((2, 3)), not x.reshape(2, 3)."
                % (ndim,))
        return basic.reshape(self, shape, ndim=ndim)

    def dimshuffle(self, *pattern):
        """Permute, add or drop dimensions.

        Parameters
        ----------
        *pattern : int or 'x', or one sequence of these
            For each dimension of the result the dimension of self it is, or
            'x' for a new broadcastable one.  A broadcastable dimension can be
            left out.

        Returns
        -------
        TensorVariable
            A view of self.

        Raises
        ------
        ValueError
            If a dimension that is not broadcastable is dropped.
        """
        if len(pattern) == 1 and isinstance(pattern[0], (list, tuple)):
            pattern = pattern[0]
        op = basic.DimShuffle(list(self.type.broadcastable), list(pattern))
        return op(self)

    def flatten(self, ndim=1):
        """View with `ndim` dimensions: the last ones are merged into one."""
        return basic.flatten(self, ndim)

    def ravel(self):
        """The same as ``self.flatten()``."""
        return basic.flatten(self)

    def squeeze(self):
        """Drop the broadcastable dimensions; see `tensor.squeeze`."""
        return basic.squeeze(self)

    def swapaxes(self, axis1, axis2):
        """Exchange two axes; see `tensor.swapaxes`."""
        return basic.swapaxes(self, axis1, axis2)

    def diagonal(self, offset=0, axis1=0, axis2=1):
        """See `tensor.diagonal`."""
        return basic.diagonal(self, offset, axis1, axis2)

    def trace(self):
        """Sum of the main diagonal; see `tensor.nlinalg.trace`."""
        from theano_ng.tensor import nlinalg
        return nlinalg.trace(self)

    def repeat(self, repeats, axis=None):
        """See `tensor.repeat`."""
        return basic.repeat(self, repeats, axis)

    # -- reductions ----------------------------------------------------------
    def any(self, axis=None, keepdims=False):
        """See `tensor.any`."""
        return basic.any(self, axis=axis, keepdims=keepdims)

    def all(self, axis=None, keepdims=False):
        """See `tensor.all`."""
        return basic.all(self, axis=axis, keepdims=keepdims)

    def sum(self, axis=None, dtype=None, keepdims=False, acc_dtype=None):
        """See `tensor.sum`."""
        return basic.sum(self, axis=axis, dtype=dtype, keepdims=keepdims,
                         acc_dtype=acc_dtype)

    def prod(self, axis=None, dtype=None, keepdims=False, acc_dtype=None):
        """See `tensor.prod`."""
        return basic.prod(self, axis=axis, dtype=dtype, keepdims=keepdims,
                          acc_dtype=acc_dtype)

    def mean(self, axis=None, dtype=None, keepdims=False, acc_dtype=None):
        """See `tensor.mean`."""
        return basic.mean(self, axis=axis, dtype=dtype, keepdims=keepdims,
                          acc_dtype=acc_dtype)

    def var(self, axis=None, ddof=0, keepdims=False, corrected=False):
        """See `tensor.var`."""
        return basic.var(self, axis=axis, ddof=ddof, keepdims=keepdims,
                         corrected=corrected)

    def std(self, axis=None, ddof=0, keepdims=False, corrected=False):
        """See `tensor.std`."""
        return basic.std(self, axis=axis, ddof=ddof, keepdims=keepdims,
                         corrected=corrected)

    def min(self, axis=None, keepdims=False):
        """See `tensor.min`."""
        return basic.min(self, axis, keepdims=keepdims)

    def max(self, axis=None, keepdims=False):
        """See `tensor.max`."""
        return basic.max(self, axis, keepdims=keepdims)

    def argmin(self, axis=None, keepdims=False):
        """See `tensor.argmin`."""
        return basic.argmin(self, axis, keepdims=keepdims)

    def argmax(self, axis=None, keepdims=False):
        """See `tensor.argmax`."""
        return basic.argmax(self, axis, keepdims=keepdims)

    def ptp(self, axis=None):
        """Maximum minus minimum; see `tensor.ptp`."""
        return basic.ptp(self, axis)

    def norm(self, L, axis=None, keepdims=False):
        """L-norm along an axis.

        Parameters
        ----------
        L : number
            Order of the norm: 0 counts the nonzero elements, inf gives the
            largest absolute value.
        axis : int, sequence of int or None
        keepdims : bool
        """
        if L == 0:
            return basic.neq(self, 0).sum(axis=axis, keepdims=keepdims)
        magnitude = basic.abs_(self)
        if isinstance(L, (int, float)) and np.isinf(L):
            reduce_ = basic.max if L > 0 else basic.min
            return reduce_(magnitude, axis=axis, keepdims=keepdims)
        return basic.pow(basic.pow(magnitude, L).sum(axis=axis,
                                                     keepdims=keepdims),
                         1.0 / L)

    def cumsum(self, axis=None):
        """See `tensor.cumsum`."""
        return basic.cumsum(self, axis)

    def cumprod(self, axis=None):
        """See `tensor.cumprod`."""
        return basic.cumprod(self, axis)

    # -- order and choice ----------------------------------------------------
    def sort(self, axis=-1, kind='quicksort', order=None):
        """A sorted copy; see `tensor.sort`."""
        return basic.sort(self, axis, kind, order)

    def argsort(self, axis=-1, kind='quicksort', order=None):
        """The indices that sort; see `tensor.argsort`."""
        return basic.argsort(self, axis, kind, order)

    def searchsorted(self, v, side='left', sorter=None):
        """See `tensor.extra_ops.searchsorted`."""
        return basic.searchsorted(self, v, side, sorter)

    def nonzero(self, return_matrix=False):
        """See `tensor.nonzero`."""
        return basic.nonzero(self, return_matrix=return_matrix)

    def nonzero_values(self):
        """See `tensor.nonzero_values`."""
        return basic.nonzero_values(self)

    def choose(self, choices, out=None, mode='raise'):
        """Pick among `choices`, self being the index; see `tensor.choose`."""
        return basic.choose(self, choices, out=out, mode=mode)

    def compress(self, a, axis=None):
        """Select slices of self by the condition vector `a`."""
        return basic.compress(a, self, axis=axis)

    # -- elementwise ---------------------------------------------------------
    def astype(self, dtype):
        """Convert the elements; see `tensor.cast`."""
        return basic.cast(self, dtype)

    def clip(self, a_min, a_max):
        """Limit the elements to [a_min, a_max]."""
        return basic.clip(self, a_min, a_max)

    def fill(self, value):
        """A tensor of the shape of self, filled with `value`."""
        return basic.fill(self, value)

    def round(self, mode=None):
        """See `tensor.round`."""
        return basic.round(self, mode)

    @property
    def real(self):
        """Real part."""
        return basic.real(self)

    @property
    def imag(self):
        """Imaginary part."""
        return basic.imag(self)

    conj = _unary('conj', "Complex conjugate.")
    conjugate = _unary('conj', "Complex conjugate.")

    arccos = _unary('arccos')
    arccosh = _unary('arccosh')
    arcsin = _unary('arcsin')
    arcsinh = _unary('arcsinh')
    arctan = _unary('arctan')
    arctanh = _unary('arctanh')
    ceil = _unary('ceil')
    cos = _unary('cos')
    cosh = _unary('cosh')
    deg2rad = _unary('deg2rad')
    exp = _unary('exp')
    exp2 = _unary('exp2')
    expm1 = _unary('expm1')
    floor = _unary('floor')
    log = _unary('log')
    log10 = _unary('log10')
    log1p = _unary('log1p')
    log2 = _unary('log2')
    rad2deg = _unary('rad2deg')
    sin = _unary('sin')
    sinh = _unary('sinh')
    sqrt = _unary('sqrt')
    tan = _unary('tan')
    tanh = _unary('tanh')
    trunc = _unary('trunc')

    # -- the rest ------------------------------------------------------------
    def zeros_like(model, dtype=None):
        """Zeros of the same shape."""
        return basic.zeros_like(model, dtype=dtype)

    def ones_like(model, dtype=None):
        """Ones of the same shape."""
        return basic.ones_like(model, dtype=dtype)

    def copy(self, name=None):
        """A symbolic copy, with its own name; tags are not copied."""
        copied = basic.tensor_copy(self)
        copied.name = name
        return copied

    def get_scalar_constant_value(self):
        """See `tensor.get_scalar_constant_value`."""
        return basic.get_scalar_constant_value(self)

    def transfer(self, target):
        """The variable on another device.

        Parameters
        ----------
        target : str
            'cpu', or what a registered back end understands.
        """
        return basic.transfer(self, target)


class TensorVariable(_tensor_py_operators, Variable):
    """Variable whose type is a :class:`TensorType`.

    Parameters
    ----------
    type : TensorType
    owner : Apply, optional
        The node that computes it.
    index : int, optional
        Which output of the node it is.
    name : str, optional
    """

    def __init__(self, type, owner=None, index=None, name=None):
        super().__init__(type, owner=owner, index=index, name=name)
        if (config.warn_float64 != 'ignore' and type.dtype == 'float64'):
            _warn_float64(self)


def _level_of_user():
    """The stacklevel of the first frame outside the package, for a warning that the caller of this function gives."""
    import sys
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None:
        module = frame.f_globals.get('__name__', '')
        if not module.startswith('theano_ng.') or '.tests.' in module:
            break
        frame, level = frame.f_back, level + 1
    return level


def _warn_float64(variable):
    import warnings
    message = ("You are creating a TensorVariable with float64 dtype. You "
               "requested an action via the Theano flag "
               "warn_float64={ignore,warn,raise,pdb}.")
    if config.warn_float64 == 'warn':
        warnings.warn(message, stacklevel=_level_of_user())
    elif config.warn_float64 == 'raise':
        raise Exception(message)
    elif config.warn_float64 == 'pdb':
        import pdb
        pdb.set_trace()


TensorType.Variable = TensorVariable


class TensorConstantSignature(tuple):
    """What two constants must agree in to be merged: type and content.

    Contents are compared bit by bit, so that NaN equals NaN, and 0.0 differs
    from -0.0 (1/x tells them apart).
    """

    def __eq__(self, other):
        if type(self) is not type(other):
            return NotImplemented
        (type0, data0), (type1, data1) = self, other
        if data0 is data1:
            return type0 == type1
        if (type0 != type1 or data0.shape != data1.shape or
                data0.dtype != data1.dtype or
                self._checksum != other._checksum):
            return False
        return data0.tobytes() == data1.tobytes()

    def __ne__(self, other):
        result = self.__eq__(other)
        return result if result is NotImplemented else not result

    def __hash__(self):
        type_, data = self
        return hash((hashtype(self), type_, data.shape, self._checksum))

    def theano_hash(self):
        """Hash that is the same in every process."""
        from theano_ng.tensor.utils import hash_from_ndarray
        type_, data = self
        return hash_from_ndarray(data)

    @property
    def _checksum(self):
        found = self.__dict__.get('_crc')
        if found is None:
            data = np.ascontiguousarray(self[1])
            found = zlib.crc32(data.tobytes() if data.size < 512
                               else data.reshape(-1).view('uint8').data)
            self.__dict__['_crc'] = found
        return found


def _unique_value(data):
    """The value that all elements of an array have, or None."""
    if data.ndim == 0 or data.size == 0:
        return None
    flat = data.reshape(-1)
    if data.size > 1 and not (flat[:1] == flat).all():
        return None
    return flat[0]


class TensorConstant(_tensor_py_operators, Constant):
    """Constant whose type is a :class:`TensorType`.

    Parameters
    ----------
    type : TensorType
    data : ndarray
        Not copied; it must not be changed afterwards.
    name : str, optional

    Attributes
    ----------
    tag.unique_value
        The value that all elements have, if they are equal and the constant is
        not 0-d; else None.
    """

    def __init__(self, type, data, name=None):
        super().__init__(type, data, name)
        data = self.data
        self.tag.unique_value = (
            _unique_value(data) if isinstance(data, np.ndarray) else None)

    def __str__(self):
        if self.name is not None:
            return self.name
        unique = getattr(self.tag, 'unique_value', None)
        if unique is not None:
            text = "%s of %s" % (self.data.shape, unique)
        else:
            text = "%s" % (self.data,)
        if len(text) > 20:
            text = text[:10] + ".." + text[-10:]
        return "TensorConstant{%s}" % text

    def signature(self):
        """Key under which equal constants are merged."""
        return TensorConstantSignature((self.type, self.data))

    def equals(self, other):
        """Whether `other` is a constant with the same type and content."""
        if isinstance(other, (np.ndarray, int, float, complex, np.generic)):
            try:
                other = basic.constant(other)
            except TypeError:
                return False
        return (isinstance(other, TensorConstant) and
                self.signature() == other.signature())

    def __copy__(self):
        return self.clone()

    def __getstate__(self):
        # The mark of a shared small constant belongs to this very object.
        state = super().__getstate__()
        state.pop('cached', None)
        return state


TensorType.Constant = TensorConstant
