"""Support for NumPy's functions on tensor variables: ``np.exp(x)`` and ``np.dot(a, x)`` build graphs.

NumPy calls the method `__array_ufunc__` of its arguments for ufuncs and for operators of arrays, and
`__array_function__` for its other functions. These methods call the corresponding function of `theano_ng.tensor`. If
there is no such function, they raise TypeError. Without these methods, NumPy would treat a variable as an array of
objects.
"""

import inspect

import numpy as np

from theano_ng.gof.graph import Variable
from theano_ng.tensor.elemwise.op import Elemwise
from theano_ng.tensor.var import _tensor_py_operators

# When the package `theano_ng.tensor` is imported, it stores its module object in this variable.
namespace = None

# This dict maps the name of a ufunc to the name of our function, the function of `theano_ng.tensor` that replaces it.
# These entries have precedence over the entries that `_find_ufuncs` adds.
_UFUNCS = {
    "absolute": "abs_",
    "conjugate": "conj",
    "degrees": "rad2deg",
    "divide": "true_div",
    "divmod": "divmod",
    "fabs": "abs_",
    "isnan": "isnan",
    "isinf": "isinf",
    "matmul": "matmul",
    "positive": "as_tensor_variable",
    "radians": "deg2rad",
    "remainder": "mod_check",
    "rint": "round_half_to_even",
}

# A comparison of an array with a variable is replaced by the reflected comparison of the variable with the array, as in
# Python.
_REFLECTED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}

# Each line contains NumPy's function, our function, and NumPy's parameters. The parameters before the semicolon are
# passed by position, in the order of our function. The parameters after the semicolon are passed by name. All other
# parameters must have their default values.
_FUNCTIONS = """
all            all               a ; axis keepdims
allclose       allclose          a b ; rtol atol equal_nan
amax           max               a ; axis keepdims
amin           min               a ; axis keepdims
angle          angle             z
any            any               a ; axis keepdims
argmax         argmax            a ; axis keepdims
argmin         argmin            a ; axis keepdims
argsort        argsort           a ; axis kind order
bincount       bincount          x ; weights minlength
choose         choose            a choices ; mode
clip           clip              a a_min a_max
compress       compress          condition a ; axis
concatenate    concatenate       arrays ; axis
cov            cov               m ; y rowvar bias ddof fweights aweights
cumprod        cumprod           a ; axis
cumsum         cumsum            a ; axis
diag           diag              v ; k
diagonal       diagonal          a ; offset axis1 axis2
diff           diff              a ; n axis
dot            dot               a b
flatnonzero    flatnonzero       a
hstack         horizontal_stack  *tup
imag           imag              val
isclose        isclose           a b ; rtol atol equal_nan
linalg.cholesky slinalg.cholesky a
linalg.det     nlinalg.det       a
linalg.eig     nlinalg.eig       a
linalg.eigh    nlinalg.eigh      a ; UPLO
linalg.inv     nlinalg.matrix_inverse a
linalg.matrix_power nlinalg.matrix_power a n
linalg.pinv    nlinalg.pinv      a
linalg.qr      nlinalg.qr        a ; mode
linalg.solve   slinalg.solve     a b
linalg.svd     nlinalg.svd       a ; full_matrices compute_uv
linalg.tensorinv nlinalg.tensorinv a ; ind
linalg.tensorsolve nlinalg.tensorsolve a b ; axes
kron           slinalg.kron      a b
max            max               a ; axis keepdims
mean           mean              a ; axis dtype keepdims
min            min               a ; axis keepdims
moveaxis       moveaxis          a source destination
nonzero        nonzero           a
ones_like      ones_like         a ; dtype
outer          outer             a b
prod           prod              a ; axis dtype keepdims
ptp            ptp               a ; axis
ravel          flatten           a
ravel_multi_index ravel_multi_index multi_index dims ; mode order
real           real              val
repeat         repeat            a repeats ; axis
reshape        reshape           a shape
roll           roll              a shift ; axis
searchsorted   searchsorted      a v ; side sorter
shape          shape             a
sort           sort              a ; axis kind order
squeeze        squeeze           a ; axis
stack          stack             arrays ; axis
std            std               a ; axis ddof keepdims
sum            sum               a ; axis dtype keepdims
swapaxes       swapaxes          a axis1 axis2
take           take              a indices ; axis mode
tensordot      tensordot         a b ; axes
tile           tile              A reps
trace          nlinalg.trace     a
transpose      transpose         a ; axes
tril           tril              m ; k
triu           triu              m ; k
unravel_index  unravel_index     indices shape ; order
var            var               a ; axis ddof keepdims
vstack         vertical_stack    *tup
where          where             condition x y
zeros_like     zeros_like        a ; dtype
"""

# The parameters of C functions of NumPy for which `inspect` finds no signature.
_C_PARAMETERS = {
    "bincount": "x weights minlength",
    "concatenate": "arrays axis out dtype casting",
    "dot": "a b out",
    "where": "condition x y",
    "ravel_multi_index": "multi_index dims mode order",
    "unravel_index": "indices shape order",
}

_ufuncs = {}
_functions = {}


def _ours(name):
    found = namespace
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _find_ufuncs():
    """Fill `_ufuncs`, the dict that maps names of ufuncs to our functions.

    These are the functions in `_UFUNCS`, and each Elemwise whose attribute `nfunc_spec` contains the name of a ufunc.
    """
    for name in sorted(vars(namespace)):
        op = getattr(namespace, name)
        if isinstance(op, Elemwise) and op.nfunc_spec and not op.inplace_pattern:
            ufunc = op.nfunc_spec[0].rpartition(".")[2]
            _ufuncs.setdefault(getattr(getattr(np, ufunc, None), "__name__", ufunc), op)
    _ufuncs.update((name, _ours(ours)) for name, ours in _UFUNCS.items())


def _array_ufunc(self, ufunc, method, *inputs, **kwargs):
    """Implement the protocol for ufuncs, such as ``np.exp(x)`` and ``array * x``, by calling our function."""
    name = ufunc.__name__
    if not _ufuncs:
        _find_ufuncs()
    if method != "__call__":
        raise TypeError(
            "numpy.%s.%s works on arrays, not on symbolic variables such as %s; use a function of theano_ng.tensor (sum, prod, cumsum, "
            "outer, inc_subtensor ...)" % (name, method, self)
        )
    if kwargs:
        raise TypeError(
            "numpy.%s on the symbolic variable %s does not support %s, because the variable has no value yet. Use the "
            "result instead of out=, theano_ng.tensor.switch instead of where=, and theano_ng.tensor.cast instead of dtype="
            % (name, self, ", ".join("%s=" % key for key in sorted(kwargs)))
        )
    first = isinstance(inputs[0], Variable)
    if name in ("equal", "not_equal") and not first and np.ndim(inputs[0]) == 0:
        # NumPy evaluates ``number == variable`` if it compares lists, for instance. Compare by identity, as
        # ``variable == number`` does: a number and a variable are never equal.
        return name == "not_equal"
    if name in _REFLECTED and not first:
        return _ufuncs[_REFLECTED[name]](*inputs[::-1])
    if name not in _ufuncs:
        raise TypeError("numpy.%s has no counterpart for symbolic variables such as %s" % (name, self))
    return _ufuncs[name](*inputs)


class _Counterpart:
    """A callable that passes the arguments of a NumPy function to our function of the same meaning.

    Attributes
    ----------
    name, ours : str
        The name of NumPy's function, and the name of our function.
    """

    def __init__(self, name, ours, parameters):
        self.name, self.ours = name, ours
        positional, _, named = parameters.partition(";")
        self.positional, self.named = positional.split(), named.split()

    def bound(self, function, args, kwargs):
        """Return a dict from names of NumPy's parameters to the arguments that were given."""
        try:
            given = inspect.signature(function).bind(*args, **kwargs).arguments
        except ValueError:
            names = _C_PARAMETERS.get(self.name, " ".join(self.positional)).split()
            given = {**dict(zip(names, args)), **kwargs}
        # Arguments that are None or NumPy's marker of a missing value count as defaults.
        return {key: value for key, value in given.items() if value is not None and value is not np._NoValue}

    def __call__(self, function, args, kwargs):
        given = self.bound(function, args, kwargs)
        values = []
        for name in self.positional:
            key = name.lstrip("*")
            if key not in given:
                raise TypeError("numpy.%s on symbolic variables needs the argument %s" % (self.name, key))
            value = given.pop(key)
            values.extend(value if name[0] == "*" else [value])
        options = {name: given.pop(name) for name in self.named if name in given}
        if given:
            raise TypeError(
                "numpy.%s on symbolic variables does not support %s; theano_ng.tensor.%s computes it, with the "
                "arguments in its documentation" % (self.name, ", ".join("%s=" % key for key in given), self.ours)
            )
        return _ours(self.ours)(*values, **options)


def _constant_answers():
    """Return a dict from NumPy's functions to the counterparts that this module implements."""

    def size(a, axis=None):
        return a.size if axis is None else a.shape[axis]

    def rounded(a, decimals=0, out=None):
        if decimals != 0 or out is not None:
            raise TypeError("numpy.round on symbolic variables rounds to integers and does not support out=")
        return _ours("round_half_to_even")(a)

    def expand_dims(a, axis):
        ndim = a.ndim + (len(axis) if isinstance(axis, (tuple, list)) else 1)
        places = {k % ndim for k in (axis if isinstance(axis, (tuple, list)) else [axis])}
        old = iter(range(a.ndim))
        return a.dimshuffle(*["x" if k in places else next(old) for k in range(ndim)])

    return {
        np.ndim: lambda a: a.ndim,
        np.size: size,
        np.iscomplexobj: lambda x: x.dtype.startswith("complex"),
        np.isrealobj: lambda x: not x.dtype.startswith("complex"),
        np.around: rounded,
        np.round: rounded,
        np.copy: lambda a, order="K", subok=False: a.copy(),
        np.expand_dims: expand_dims,
    }


def _find_functions():
    for line in _FUNCTIONS.split("\n"):
        if line:
            name, ours, parameters = line.split(None, 2)
            function = np
            for part in name.split("."):
                function = getattr(function, part)
            _functions[function] = _Counterpart(name, ours, parameters)
    for function, answer in _constant_answers().items():
        _functions[function] = lambda _, args, kwargs, answer=answer: answer(*args, **kwargs)


def _array_function(self, func, types, args, kwargs):
    """Implement the protocol for NumPy's functions that are not ufuncs, such as ``np.dot(a, x)``."""
    if not _functions:
        _find_functions()
    counterpart = _functions.get(func)
    if counterpart is None:
        raise TypeError(
            "numpy.%s has no counterpart for symbolic variables such as %s; theano_ng.tensor contains the available "
            "functions" % (func.__name__, self)
        )
    return counterpart(func, args, kwargs)


_tensor_py_operators.__array_ufunc__ = _array_ufunc
_tensor_py_operators.__array_function__ = _array_function
