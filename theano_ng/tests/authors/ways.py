"""Helpers of the tests in this folder: each Op is computed in C and in Python, on arrays with chosen memory."""

import ctypes
import gc
import mmap
import unittest

import numpy as np

import theano_ng as theano
from theano_ng import tensor as T
from theano_ng.gof.op import has_c_implementation


class Way:
    """One implementation of a node, which can be called with values.

    Parameters
    ----------
    op : Op
    *inputs : Variable, or an argument of `op` that is not a variable
    impl : {'c', 'py'}

    Attributes
    ----------
    node : Apply

    Raises
    ------
    unittest.SkipTest
        If the implementation in C cannot be compiled, because there is no compiler.
    """

    def __init__(self, op, *inputs, impl="c"):
        if impl == "c" and not theano.config.cxx and has_c_implementation(op):
            raise unittest.SkipTest("needs a C++ compiler")
        outputs = op(*inputs)
        self.node = (outputs[0] if isinstance(outputs, list) else outputs).owner
        self.variables = [one for one in inputs if isinstance(one, theano.Variable)]
        variables = {*self.node.inputs, *self.node.outputs}
        self.cells = {one: [getattr(one, "data", None)] for one in variables}
        self.computed = {one: [one not in self.node.outputs] for one in variables}
        self.thunk = self.node.op.make_thunk(self.node, self.cells, self.computed, [], impl)

    def __call__(self, *values, old=None):
        """Return the list of the values of the outputs.

        Parameters
        ----------
        *values
            The values of the inputs that are variables.
        old : list, optional
            The values in the output cells before the call. By default, the cells are empty.
        """
        for variable, value in zip(self.variables, values, strict=True):
            self.cells[variable][0] = value
        for i, variable in enumerate(self.node.outputs):
            self.cells[variable][0] = None if old is None else old[i]
        self.thunk()
        return [self.cells[variable][0] for variable in self.node.outputs]


class BothWays:
    """Compute a node in C and in Python, and compare the results.

    Parameters
    ----------
    op, *inputs
        See `Way`.
    ulps : float
        The permitted difference of results, in units in the last place.
    least : float
        Results below this number may have the same absolute difference as this number.
    """

    def __init__(self, op, *inputs, ulps=0, least=0.0):
        self.c, self.python = Way(op, *inputs, impl="c"), Way(op, *inputs, impl="py")
        self.ulps, self.least = ulps, least

    def __call__(self, *values):
        """Return the list of outputs, or raise the exception that both implementations raise.

        The result of the C code is the same in new memory and in old arrays of several shapes and layouts, and the
        inputs keep their values.
        """
        before = [one.copy() if isinstance(one, np.ndarray) else one for one in values]
        try:
            expected = self.python(*values)
        except Exception as error:
            assert_raises(type(error), self.c, *values)
            raise
        results = self.c(*values)
        for array, copy in zip(values, before):
            if isinstance(array, np.ndarray):
                np.testing.assert_array_equal(array, copy)
        self.compare(results, expected)
        for old in old_arrays(results):
            self.compare(self.c(*values, old=old), expected)
        return results

    def compare(self, results, expected):
        """Raise an AssertionError if values, dtypes, shapes, NaN or signs of zeros differ."""
        for result, right, variable in zip(results, expected, self.c.node.outputs, strict=True):
            if not isinstance(right, np.ndarray):
                assert result == right and type(result) is type(right), (result, right)
                continue
            assert isinstance(result, np.ndarray) and result.dtype == right.dtype == variable.dtype
            assert variable.type.is_valid_value(result) and variable.type.is_valid_value(right)
            if right.dtype.kind != "f" or not self.ulps:
                np.testing.assert_array_equal(result, right)
            else:
                info = np.finfo(right.dtype)
                limit = self.ulps * info.eps
                absolute = max(limit * self.least, info.smallest_subnormal)
                np.testing.assert_allclose(result, right, rtol=limit, atol=absolute)
            for part in ("real", "imag") if right.dtype.kind == "c" else ("real",):
                zero = getattr(right, part) == 0
                np.testing.assert_array_equal(*[np.signbit(getattr(one, part)[zero]) for one in (result, right)])


def assert_raises(kind, function, *values):
    """Raise an AssertionError unless the function raises an exception of the class `kind`."""
    try:
        function(*values)
    except kind:
        return
    raise AssertionError("%s was not raised" % kind.__name__)


def old_arrays(results):
    """Yield lists of values that output cells may contain: right, short, long, strided and reversed arrays."""

    def changed(make):
        return [np.asarray(make(one)) if isinstance(one, np.ndarray) else None for one in results]

    yield changed(lambda one: np.full(one.shape, 77, one.dtype))
    yield changed(lambda one: np.full([n + 1 for n in one.shape], 77, one.dtype))
    yield changed(lambda one: np.full([max(n - 1, 0) for n in one.shape], 77, one.dtype))
    yield changed(lambda one: np.full(one.shape, 77, one.dtype, order="F"))
    yield changed(lambda one: np.full([2 * n for n in one.shape], 77, one.dtype)[(slice(None, None, 2),) * one.ndim])
    yield changed(lambda one: np.full(one.shape, 77, one.dtype)[(slice(None, None, -1),) * one.ndim])


def layouts(array):
    """Yield arrays with the values of `array` in different layouts."""
    yield array.copy()
    yield guarded(array)
    if array.ndim == 0:
        return
    yield array.copy(order="F")
    double = np.full([2 * n + 1 for n in array.shape], 99, array.dtype)
    every_second = double[tuple(slice(1, None, 2) for _ in array.shape)]
    every_second[...] = array
    yield every_second
    backwards = (slice(None, None, -1),) * array.ndim
    yield array[backwards].copy()[backwards]
    fixed = array.copy()
    fixed.flags.writeable = False
    yield fixed


def guarded(array):
    """Return a copy of an array in C order that ends where an inaccessible page of memory begins.

    An access beyond the end of the array kills the process.
    """
    page = mmap.PAGESIZE
    pages = (array.nbytes + page - 1) // page
    memory = mmap.mmap(-1, (pages + 1) * page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address + pages * page), ctypes.c_size_t(page), 0) != 0:
        raise OSError(ctypes.get_errno(), "mprotect failed")
    copy = np.frombuffer(memory, array.dtype, array.size, pages * page - array.nbytes).reshape(array.shape)
    copy[...] = array
    return copy


def growth(function, calls=3000):
    """Return by how many bytes the memory of the process grows in each call of a function.

    The memory is the data segment and the anonymous maps of the process, as Linux counts them.
    """
    for _ in range(200):
        function()
    gc.collect()
    before = _resident()
    for _ in range(calls):
        function()
    gc.collect()
    return (_resident() - before) / calls


def _resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * mmap.PAGESIZE


def special(dtype):
    """Return numbers of a floating point dtype at which mistakes are frequent."""
    info = np.finfo(dtype)
    positive = [0, info.smallest_subnormal, info.tiny, info.eps, 1e-4, 0.5, 1, 3, 40, 100, 800, info.max, np.inf]
    return np.array([*positive, *(-np.array(positive)), np.nan], dtype)


def gradient(op, inputs, wrt, projection):
    """Return the gradient of ``sum(op(*inputs) * projection)``, compiled as a function of the inputs and projection."""
    cost = (op(*inputs) * projection).sum()
    return theano.function([*inputs, projection], T.grad(cost, wrt), on_unused_input="ignore")
