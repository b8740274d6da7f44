"""Helpers for tests of Ops and rewriting rules. They are usually imported as `utt`.

Tests outside of this package may use them, too.
"""

import copy
import functools
import re
import sys
import unittest
from unittest import SkipTest

import numpy as np

from theano_ng import function
from theano_ng import tensor as T
from theano_ng.compile.mode import get_default_mode
from theano_ng.configdefaults import config
from theano_ng.gof.fg import InconsistencyError
from theano_ng.gradient import grad_scale
from theano_ng.gradient_check import check_python_code
from theano_ng.tensor.type import get_atol_rtol

__all__ = [
    "AttemptManyTimes",
    "InferShapeTester",
    "MockRandomState",
    "SkipTest",
    "T_OpContractMixin",
    "TestOptimizationMixin",
    "WrongValue",
    "assertFailure_fast",
    "assert_allclose",
    "attr",
    "custom_name_func",
    "different_grad",
    "fetch_seed",
    "parameterized",
    "seed_rng",
    "str_diagnostic",
    "verify_grad",
]


# ------------------------------------------------------------------ seeds


def fetch_seed(pseed=None):
    """Return the seed for the random numbers of a test.

    Parameters
    ----------
    pseed : int, optional
        An explicit seed, which is returned if given.

    Returns
    -------
    int or None
        By default `config.unittests.rseed` (666). If the flag is "random", None, which seeds from entropy.

    Raises
    ------
    ValueError
        If the configured seed is neither an integer nor "random".
    """
    seed = config.unittests.rseed if pseed is None else pseed
    if seed == "random":
        return None
    try:
        return int(seed)
    except (TypeError, ValueError):
        raise ValueError("config.unittests.rseed is an integer or 'random', not %r" % (seed,)) from None


def seed_rng(pseed=None):
    """Seed `numpy.random` with `fetch_seed(pseed)`; return the seed."""
    seed = fetch_seed(pseed)
    np.random.seed(seed)
    return seed


class MockRandomState:
    """A replacement of RandomState whose samples are at a boundary of the sampling range.

    With it, the author of a test checks that the test passes at the boundaries.

    It is a tool for writing tests; finished tests should not use it.

    Parameters
    ----------
    val : number
        The value that `rand` returns. Samples of a range ``[low, high)`` are ``low + (high - low) * val``. The
        boundaries are 0 and ``1 - eps``.
    """

    def __init__(self, val):
        self.val = val

    def rand(self, *args):
        """Return an array (or a scalar) filled with `val`."""
        return np.zeros(args, dtype="float64") + self.val

    def uniform(self, low=0.0, high=1.0, size=None):
        """Return ``low + (high - low) * val``, as a scalar or as an array of the given size."""
        return self._filled(low + (high - low) * self.val, size, "float64")

    def randint(self, minval, maxval=None, size=1):
        """Return the integer of ``[minval, maxval)``, or ``[0, minval)``, at the relative position `val`."""
        if maxval is None:
            minval, maxval = 0, minval
        if maxval <= minval:
            raise ValueError("an empty range: [%s, %s)" % (minval, maxval))
        return self._filled(min(minval + int((maxval - minval) * self.val), maxval - 1), size, "int64")

    @staticmethod
    def _filled(value, size, dtype):
        if size is None:
            return np.dtype(dtype).type(value)
        return np.zeros(size, dtype=dtype) + np.dtype(dtype).type(value)


# ------------------------------------------------------------- comparisons


class WrongValue(Exception):
    """The exception for a value that differs from the expected value.

    Parameters
    ----------
    expected_val, val : array_like
    rtol, atol : float
        The tolerances of the comparison.
    """

    def __init__(self, expected_val, val, rtol, atol):
        super().__init__(expected_val, val, rtol, atol)
        self.val1 = expected_val
        self.val2 = val
        self.rtol = rtol
        self.atol = atol

    def __str__(self):
        return "WrongValue\n" + str_diagnostic(self.val1, self.val2, self.rtol, self.atol)


def str_diagnostic(expected, value, rtol, atol):
    """Return a description of the differences between two values.

    Parameters
    ----------
    expected, value : array_like
    rtol, atol : float
        The tolerances, which the description includes.
    """
    lines = []
    for name, v in (("expected", expected), ("value", value)):
        if hasattr(v, "shape") and hasattr(v, "dtype"):
            lines.append("  : shape, dtype, strides, min, max, n_inf, n_nan: %s" % name)
            lines.append("           %s %s %s %s" % (v.shape, v.dtype, getattr(v, "strides", None), _extremes(v)))
    try:
        ov, nv = np.asarray(expected, dtype="complex128"), np.asarray(value, dtype="complex128")
        with np.errstate(all="ignore"):
            absdiff = np.absolute(nv - ov)
            reldiff = absdiff / (np.absolute(nv) + np.absolute(ov))
        if absdiff.size:
            for name, diff in (("Abs", absdiff), ("Rel", reldiff)):
                lines.append(
                    "  %s Diff: max %s, min %s, mean %s, std %s"
                    % (name, diff.max(), diff.min(), diff.mean(), diff.std())
                )
    except (TypeError, ValueError):
        pass  # the objects are not numbers, or their shapes do not match
    lines.append("  Expected: %s" % str(expected)[:1000])
    lines.append("  Value   : %s" % str(value)[:1000])
    lines.append("  rtol, atol: %s %s" % (rtol, atol))
    return "\n".join(lines) + "\n"


def _extremes(value):
    if value.size == 0 or value.dtype.kind not in "biufc":
        return ""
    if value.dtype.kind not in "fc":
        return "%s %s" % (value.min(), value.max())
    return (
        "%s %s %d %d" % (np.nanmin(value), np.nanmax(value), np.isinf(value).sum(), np.isnan(value).sum())
        if not np.isnan(value).all()
        else "nan nan 0 %d" % value.size
    )


def assert_allclose(expected, value, rtol=None, atol=None):
    """Raise WrongValue if two values differ by more than rounding errors.

    Parameters
    ----------
    expected, value : array_like
        They are broadcast against each other.
    rtol, atol : float, optional
        An element is correct if ``|value - expected| <= atol + rtol * |expected|``. The defaults depend on the less
        precise dtype, and `config.tensor.cmp_sloppy` relaxes them. NaN equals NaN, and infinities of one sign are
        equal.

    Raises
    ------
    WrongValue
        If the values differ; its message describes the differences.
    """
    a, b = np.asarray(expected), np.asarray(value)
    default_atol, default_rtol = get_atol_rtol(a, b)
    atol = default_atol if atol is None else atol
    rtol = default_rtol if rtol is None else rtol
    try:
        np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        pass
    else:
        if a.dtype.kind not in "biufc" or b.dtype.kind not in "biufc":
            close = bool(np.all(a == b))
        else:
            close = np.allclose(b, a, rtol=rtol, atol=atol, equal_nan=True)
        if close:
            return
    raise WrongValue(expected, value, rtol, atol)


def verify_grad(op, pt, n_tests=2, rng=None, *args, **kwargs):
    """Call `theano_ng.gradient.verify_grad` with a random generator that is seeded by `fetch_seed`.

    Parameters
    ----------
    op : Op or callable
        The Op, or a function from variables to one variable.
    pt : list of ndarray
        The point at which the gradient is compared with finite differences.
    n_tests : int
        The number of random projections.
    rng : numpy.random.RandomState, optional
        A generator that replaces the generator of `fetch_seed`.
    *args, **kwargs
        `eps`, `out_type`, `abs_tol`, `rel_tol`, `mode`, `cast_to_output_type`, `no_debug_ref`: see `theano_ng.gradient.verify_grad`.

    Raises
    ------
    GradientError
        If the gradients differ.
    """
    if rng is None:
        rng = np.random.RandomState(fetch_seed())
    T.verify_grad(op, pt, n_tests, rng, *args, **kwargs)


verify_grad.E_grad = T.verify_grad.E_grad


def different_grad(factor):
    """Return an identity function that multiplies the gradient by `factor`.

    `verify_grad` must raise an error for this function unless the factor is 1.

    Parameters
    ----------
    factor : float
    """
    return lambda x: grad_scale(x, factor)


# -------------------------------------------------------------- test cases


class TestOptimizationMixin:
    """Assertions about the nodes of a compiled function."""

    def assertFunctionContains(self, f, op, min=1, max=sys.maxsize):
        """Assert that the function has between `min` and `max` nodes of an Op."""
        toposort = f.maker.fgraph.toposort()
        matches = [node for node in toposort if node.op == op]
        self._assert_number(matches, toposort, op, min, max)

    def assertFunctionContains0(self, f, op):
        """Assert that the function has no node of an Op."""
        return self.assertFunctionContainsN(f, op, 0)

    def assertFunctionContains1(self, f, op):
        """Assert that the function has one node of an Op."""
        return self.assertFunctionContainsN(f, op, 1)

    def assertFunctionContainsN(self, f, op, N):
        """Assert that the function has `N` nodes of an Op."""
        return self.assertFunctionContains(f, op, min=N, max=N)

    def assertFunctionContainsClass(self, f, op, min=1, max=sys.maxsize):
        """Assert that the function has between `min` and `max` nodes whose Ops are instances of a class."""
        toposort = f.maker.fgraph.toposort()
        matches = [node for node in toposort if isinstance(node.op, op)]
        self._assert_number(matches, toposort, op, min, max)

    def assertFunctionContainsClassN(self, f, op, N):
        """Assert that the function has `N` nodes whose Ops are instances of a class."""
        return self.assertFunctionContainsClass(f, op, min=N, max=N)

    @staticmethod
    def _assert_number(matches, toposort, op, min, max):
        if not min <= len(matches) <= max:
            raise AssertionError(
                "%d nodes of %s found, between %s and %s expected; the nodes: %s"
                % (len(matches), op, min, max, toposort)
            )

    def SkipTest(self, msg="Skip this test"):
        """Skip the rest of the test."""
        raise SkipTest(msg)


class T_OpContractMixin:
    """Tests of the contract of every Op.

    A subclass defines `ops`, a list of Ops, and `clone`, which returns an equal Op. `other_op` is an Op that differs
    from all `ops`.
    """

    other_op = T.add

    def copy(self, x):
        """Return a shallow copy."""
        return copy.copy(x)

    def deepcopy(self, x):
        """Return a deep copy."""
        return copy.deepcopy(x)

    def clone(self, op):
        """Return a new Op that equals `op`."""
        raise NotImplementedError("a subclass says how to make an equal op")

    def test_eq(self):
        for i, op_i in enumerate(self.ops):
            assert op_i == op_i and op_i == self.copy(op_i) and op_i == self.deepcopy(op_i) and op_i == self.clone(op_i)
            assert op_i != self.other_op
            for j, op_j in enumerate(self.ops):
                assert i == j or op_i != op_j

    def test_hash(self):
        hashes = [hash(op) for op in self.ops]
        for op, h in zip(self.ops, hashes):
            assert h == hash(op) == hash(self.copy(op)) == hash(self.deepcopy(op)) == hash(self.clone(op))
        assert len(set(hashes)) == len(hashes)

    def test_name(self):
        for op in self.ops:
            assert len(str(op)) > 0 and not re.search(" at 0x[0-9a-f]+", str(op))


class InferShapeTester(unittest.TestCase):
    """A base class for tests of `infer_shape`.

    A subclass that overrides `setUp` must call the inherited `setUp`. Its `setUp` may set the attributes below.

    Attributes
    ----------
    op_class : type
        The class of the Op under test.
    op : Op
        The Op.
    mode : Mode
        The mode in which `_compile_and_check` compiles.
    """

    op_class = op = None

    def setUp(self):
        seed_rng()
        # Functions that a subclass compiles for comparison need only the rewrites that make shapes independent of
        # values.
        mode = get_default_mode()
        self.mode = mode.including("canonicalize") if hasattr(mode, "including") else mode

    def _compile_and_check(self, inputs, outputs, numeric_inputs, cls, excluding=None, warn=True, check_topo=True):
        """Check that the graph of the output shapes does not contain the Op, and that the shapes are correct.

        Parameters
        ----------
        inputs, outputs : list of Variable
        numeric_inputs : list of ndarray
            The values of the inputs. Their lengths should differ, because equal lengths hide errors.
        cls : class or tuple of classes
            The class of the Ops that the compiled function for the shapes must not contain.
        excluding : list of str, optional
            Names of rewrites that are excluded.
        warn : bool
            Whether to warn if an input has equal lengths. Equal lengths hide errors that confuse axes.
        check_topo : bool
            If False, do not check that the compiled function for the shapes contains no Op of `cls`.
        """
        mode = self.mode
        if excluding:
            mode = mode.excluding(*excluding)
        if warn:
            self._warn_of_equal_dimensions(numeric_inputs)
        outputs_function = function(inputs, outputs, mode=mode, on_unused_input="ignore")
        shapes_function = function(inputs, [o.shape for o in outputs], mode=mode, on_unused_input="ignore")
        if check_topo:
            for node in shapes_function.maker.fgraph.toposort():
                if isinstance(node.op, cls):
                    raise AssertionError(
                        "the compiled shapes contain %s: its Op has no infer_shape, or infer_shape needs values" % node
                    )
        numeric_shapes = shapes_function(*copy.deepcopy(numeric_inputs))
        given = copy.deepcopy(numeric_inputs)
        numeric_outputs = outputs_function(*numeric_inputs)
        check_python_code(inputs, outputs, given, numeric_outputs)
        for out, shape in zip(numeric_outputs, numeric_shapes):
            out_shape = np.shape(out) if not hasattr(out, "shape") else out.shape
            if tuple(out_shape) != tuple(int(s) for s in shape):
                raise AssertionError("infer_shape gives %s, the value has shape %s" % (tuple(shape), tuple(out_shape)))

    @staticmethod
    def _warn_of_equal_dimensions(numeric_inputs):
        import warnings

        for i, value in enumerate(numeric_inputs):
            shape = getattr(value, "shape", None)
            if not shape or len(shape) < 2:
                continue
            if len(set(shape)) < len(shape) or 1 in shape:
                warnings.warn(
                    "The shape test is weak: input %d has shape %s. Lengths that are different, and not 1, show whether infer_shape "
                    "confuses axes." % (i, shape),
                    stacklevel=3,
                )
                break


class AttemptManyTimes:
    """A decorator for a test method that may fail by chance: it is tried several times with different seeds.

    Parameters
    ----------
    n_attempts : int
        The maximum number of attempts.
    n_req_successes : int
        The number of attempts that must pass.

    Notes
    -----
    The seeds are derived from `config.unittests.rseed`, whose value is restored afterwards.
    """

    def __init__(self, n_attempts, n_req_successes=1):
        if not n_attempts >= n_req_successes:
            raise ValueError("%d attempts cannot have %d successes" % (n_attempts, n_req_successes))
        self.n_attempts = n_attempts
        self.n_req_successes = n_req_successes

    def __call__(self, fct):
        @functools.wraps(fct)
        def attempt_multiple_times(*args, **kwargs):
            original = config.unittests.rseed
            seed = original
            successes = 0
            try:
                for attempt in range(self.n_attempts):
                    if seed != "random":
                        seed = str((int(original) + attempt) % 2**32)
                        config.unittests.rseed = seed
                    if args and hasattr(args[0], "setUp"):
                        args[0].setUp()
                    try:
                        fct(*args, **kwargs)
                        successes += 1
                    except Exception:
                        # If the remaining attempts are too few, the test fails with this exception.
                        if successes + self.n_attempts - attempt - 1 < self.n_req_successes:
                            raise
                    if successes == self.n_req_successes:
                        break
            finally:
                config.unittests.rseed = original

        return attempt_multiple_times


if config.cycle_detection == "fast":

    def assertFailure_fast(f):
        """Return a test that passes if `f` fails, because `f` needs regular instead of fast cycle detection."""

        @functools.wraps(f)
        def test_with_assert(*args, **kwargs):
            try:
                f(*args, **kwargs)
            except (InconsistencyError, AssertionError):
                return
            raise AssertionError("this test passes, though cycle_detection='fast' should make it fail")

        return test_with_assert
else:

    def assertFailure_fast(f):
        """Return the test itself, because the regular cycle detection that it needs is enabled."""
        return f


def attr(*args, **kwargs):
    """Return a decorator that sets attributes of a test: those in `args` to True, those in `kwargs` to their values."""

    def mark(test):
        for name in args:
            setattr(test, name, True)
        for name, value in kwargs.items():
            setattr(test, name, value)
        return test

    return mark


def custom_name_func(testcase_func, param_num, param):
    """Return the name of a parameterized test, which contains its number and its parameters."""
    parts = [str(param_num)]
    for value in param.args:
        parts.append("NoneType" if value is None else getattr(value, "__name__", None) or str(value))
    return "%s_%s" % (testcase_func.__name__, parameterized.to_safe_name("_".join(parts)))


class _Param:
    """The arguments of one case of a parameterized test."""

    def __init__(self, args, kwargs=None):
        self.args, self.kwargs = tuple(args), dict(kwargs or {})


class parameterized:
    """A decorator that creates a test method for each set of arguments: ``@parameterized.expand([(1, 2), (3, 4)])``."""

    param = _Param

    @staticmethod
    def to_safe_name(text):
        """Return a string in which characters that are invalid in names are replaced by underscores."""
        return re.sub("[^a-zA-Z0-9_]+", "_", text)

    @classmethod
    def expand(cls, cases, name_func=None, **legacy):
        """Return a decorator for a method of a TestCase.

        Parameters
        ----------
        cases : iterable, or callable that returns one
            Tuples of positional arguments. Other objects are single arguments.
        name_func : callable, optional
            ``name_func(method, number, param)`` returns the name of the test. ``param.args`` are the arguments. The
            number is a string that is padded with zeros, so that names sort like the cases.
        **legacy
            `testcase_func_name`, the former name of `name_func`.
        """
        name_func = name_func or legacy.pop("testcase_func_name", None)
        if legacy:
            raise TypeError("parameterized.expand has no argument %s" % ", ".join(sorted(legacy)))
        cases = list(cases() if callable(cases) else cases)

        def decorate(method):
            namespace = sys._getframe(1).f_locals
            for i, case in enumerate(cases):
                number = str(i).zfill(len(str(len(cases) - 1)))
                param = case if isinstance(case, _Param) else _Param(case if isinstance(case, tuple) else (case,))
                if name_func is not None:
                    name = name_func(method, number, param)
                else:
                    first = param.args[0] if param.args and isinstance(param.args[0], str) else ""
                    name = "%s_%s%s" % (method.__name__, number, "_" + cls.to_safe_name(first) if first else "")
                namespace[name] = cls._case(method, name, param)

        return decorate

    @staticmethod
    def _case(method, name, param):
        @functools.wraps(method)
        def case(self, *args):
            return method(self, *param.args, *args, **param.kwargs)

        case.__name__ = name
        # Test runners that pass arguments by name must not see the arguments of the wrapped function.
        del case.__wrapped__
        return case
