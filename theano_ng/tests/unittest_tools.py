"""What tests of Ops and rewrites have in common; usually imported as `utt`.

Everything here may be used by tests outside this package too.
"""

import copy
import functools
import re
import sys
import unittest
from unittest import SkipTest  # noqa: F401  (a name of this module since the days of nose)

import numpy as np

from theano_ng import function
from theano_ng import tensor as T
from theano_ng.compile.mode import get_default_mode
from theano_ng.configdefaults import config
from theano_ng.gof.fg import InconsistencyError
from theano_ng.gradient import grad_scale
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
    """The seed for the random numbers of a test.

    Parameters
    ----------
    pseed : int, optional
        An explicit seed, which is then returned.

    Returns
    -------
    int or None
        By default `config.unittests.rseed` (666); None, which seeds from entropy, when that is "random".

    Raises
    ------
    ValueError
        When the configured seed is neither an integer nor "random".
    """
    seed = config.unittests.rseed if pseed is None else pseed
    if seed == "random":
        return None
    try:
        return int(seed)
    except (TypeError, ValueError):
        raise ValueError("config.unittests.rseed is an integer or 'random', not %r" % (seed,)) from None


def seed_rng(pseed=None):
    """Seed `numpy.random` with `fetch_seed(pseed)`; returns the seed."""
    seed = fetch_seed(pseed)
    np.random.seed(seed)
    return seed


class MockRandomState:
    """Stands for a RandomState and returns the boundaries of the sampling range, to see whether a test passes there.

    A tool for the time of writing a test; no test should keep it.

    Parameters
    ----------
    val : number
        What `rand` returns; samples of a range ``[low, high)`` lie at ``low + (high - low) * val``. 0 and ``1 - eps`` are the boundaries.
    """

    def __init__(self, val):
        self.val = val

    def rand(self, *args):
        """An array (or a number) filled with `val`."""
        return np.zeros(args, dtype="float64") + self.val

    def uniform(self, low=0.0, high=1.0, size=None):
        """The point of ``[low, high)`` that `val` stands for."""
        return self._filled(low + (high - low) * self.val, size, "float64")

    def randint(self, minval, maxval=None, size=1):
        """The integer of ``[minval, maxval)``, or ``[0, minval)``, that `val` stands for."""
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
    """A value is not the expected one.

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
    """A text that says how two values differ.

    Parameters
    ----------
    expected, value : array_like
    rtol, atol : float
        Shown with the differences.
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
        pass  # objects that are not numbers, or shapes that do not go together
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
    """Raise when two values differ by more than rounding.

    Parameters
    ----------
    expected, value : array_like
        They are broadcast against each other.
    rtol, atol : float, optional
        An element is right when ``|value - expected| <= atol + rtol * |expected|``. By default those of the less precise dtype, which
        `config.tensor.cmp_sloppy` relaxes. NaN agrees with NaN, an infinity with the same one.

    Raises
    ------
    WrongValue
        Which says how the values differ.
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
    """`theano_ng.gradient.verify_grad` with a random generator that is seeded by `fetch_seed`.

    Parameters
    ----------
    op : Op or callable
        From variables to one variable.
    pt : list of ndarray
        Where to compare the gradient with finite differences.
    n_tests : int
        Number of random projections.
    rng : numpy.random.RandomState, optional
    *args, **kwargs
        `eps`, `out_type`, `abs_tol`, `rel_tol`, `mode`, `cast_to_output_type`, `no_debug_ref`: see `theano_ng.gradient.verify_grad`.

    Raises
    ------
    GradientError
        When the gradients differ.
    """
    if rng is None:
        rng = np.random.RandomState(fetch_seed())
    T.verify_grad(op, pt, n_tests, rng, *args, **kwargs)


verify_grad.E_grad = T.verify_grad.E_grad


def different_grad(factor):
    """A function that returns its argument and scales the gradient: `verify_grad` has to refuse it for a factor other than 1.

    Parameters
    ----------
    factor : float
    """
    return lambda x: grad_scale(x, factor)


# -------------------------------------------------------------- test cases


class TestOptimizationMixin:
    """Assertions about the nodes of a compiled function."""

    def assertFunctionContains(self, f, op, min=1, max=sys.maxsize):
        """The function has between `min` and `max` nodes of an Op."""
        toposort = f.maker.fgraph.toposort()
        matches = [node for node in toposort if node.op == op]
        self._assert_number(matches, toposort, op, min, max)

    def assertFunctionContains0(self, f, op):
        """The function has no node of an Op."""
        return self.assertFunctionContainsN(f, op, 0)

    def assertFunctionContains1(self, f, op):
        """The function has one node of an Op."""
        return self.assertFunctionContainsN(f, op, 1)

    def assertFunctionContainsN(self, f, op, N):
        """The function has `N` nodes of an Op."""
        return self.assertFunctionContains(f, op, min=N, max=N)

    def assertFunctionContainsClass(self, f, op, min=1, max=sys.maxsize):
        """The function has between `min` and `max` nodes whose Ops are instances of a class."""
        toposort = f.maker.fgraph.toposort()
        matches = [node for node in toposort if isinstance(node.op, op)]
        self._assert_number(matches, toposort, op, min, max)

    def assertFunctionContainsClassN(self, f, op, N):
        """The function has `N` nodes whose Ops are instances of a class."""
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
    """Tests of what every Op promises; a subclass defines `ops` (list of Ops) and `clone`, which makes an equal Op.

    `other_op` is an Op that differs from all of `ops`.
    """

    other_op = T.add

    def copy(self, x):
        """A shallow copy."""
        return copy.copy(x)

    def deepcopy(self, x):
        """A deep copy."""
        return copy.deepcopy(x)

    def clone(self, op):
        """An Op that equals `op`."""
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
    """Base of tests of `infer_shape`. A subclass that overrides `setUp` calls this one's, and may name what it tests there.

    Attributes
    ----------
    op_class : type
        The class of the Op under test.
    op : Op
        The Op.
    mode : Mode
        How `_compile_and_check` compiles.
    """

    op_class = op = None

    def setUp(self):
        seed_rng()
        # Functions that a subclass compiles for comparison need no rewrites but those that make shapes independent of values.
        mode = get_default_mode()
        self.mode = mode.including("canonicalize") if hasattr(mode, "including") else mode

    def _compile_and_check(self, inputs, outputs, numeric_inputs, cls, excluding=None, warn=True, check_topo=True):
        """Check that the shapes of some outputs are computed without the Op, and that they are right.

        Parameters
        ----------
        inputs, outputs : list of Variable
        numeric_inputs : list of ndarray
            Arrays whose dimensions differ from one another show errors best.
        cls : class or tuple of classes
            Op class that the function of the shapes must not contain.
        excluding : list of str, optional
            Names of rewrites that the compared functions do without.
        warn : bool
            Whether to warn when dimensions of an input are equal, which hides confusions of axes.
        check_topo : bool
            False does not look for `cls`.
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
                        "the function of the shapes computes %s: its infer_shape is missing or needs the values" % node
                    )
        numeric_shapes = shapes_function(*copy.deepcopy(numeric_inputs))
        numeric_outputs = outputs_function(*numeric_inputs)
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
    """Decorator of a test method that sometimes fails for honest reasons: it is tried several times, each with another seed.

    Parameters
    ----------
    n_attempts : int
        How often to try at most.
    n_req_successes : int
        How many of the attempts have to pass.

    Notes
    -----
    The seeds follow from `config.unittests.rseed`, which has its value back afterwards.
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
                        # With too few attempts left the last failure is the test's.
                        if successes + self.n_attempts - attempt - 1 < self.n_req_successes:
                            raise
                    if successes == self.n_req_successes:
                        break
            finally:
                config.unittests.rseed = original

        return attempt_multiple_times


if config.cycle_detection == "fast":

    def assertFailure_fast(f):
        """Decorator of tests that need more than the fast cycle detection can: they have to fail with it."""

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
        """Decorator of tests that need more than the fast cycle detection can; nothing changes with the regular one."""
        return f


def attr(*args, **kwargs):
    """Decorator that marks a test: each argument becomes a true attribute, each keyword an attribute with its value."""

    def mark(test):
        for name in args:
            setattr(test, name, True)
        for name, value in kwargs.items():
            setattr(test, name, value)
        return test

    return mark


def custom_name_func(testcase_func, param_num, param):
    """The name of a parameterized test: its parameters, so far as they make a name."""
    parts = [str(param_num)]
    for value in param.args:
        parts.append("NoneType" if value is None else getattr(value, "__name__", None) or str(value))
    return "%s_%s" % (testcase_func.__name__, parameterized.to_safe_name("_".join(parts)))


class _Param:
    """Arguments of one case of a parameterized test."""

    def __init__(self, args, kwargs=None):
        self.args, self.kwargs = tuple(args), dict(kwargs or {})


class parameterized:
    """One test method for each of several sets of arguments: ``@parameterized.expand([(1, 2), (3, 4)])``."""

    param = _Param

    @staticmethod
    def to_safe_name(text):
        """A text with everything replaced that cannot be in a name."""
        return re.sub("[^a-zA-Z0-9_]+", "_", text)

    @classmethod
    def expand(cls, cases, name_func=None, **legacy):
        """Decorator of a method of a TestCase.

        Parameters
        ----------
        cases : iterable, or callable that returns one
            Tuples of positional arguments; anything else is a single argument.
        name_func : callable, optional
            ``name_func(method, number, param)`` names the test; ``param.args`` are the arguments, the number is a text that is padded with
            zeros, so that names sort as the cases do.
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
        # A wrapped function would show its arguments to test runners that inject by name.
        del case.__wrapped__
        return case
