"""`makeTester` and `makeBroadcastTester`: they make test classes of an Op from tables of arguments.

The documented home of the names is `theano_ng.tensor.tests.test_basic`, which re-exports every name of this module.
"""

import copy
import os
import re
import sys
import tempfile
import unittest

import numpy as np

from theano_ng import tensor
from theano_ng.compile.debugmode import DebugMode
from theano_ng.compile.function import function
from theano_ng.compile.mode import get_default_mode, get_mode
from theano_ng.configdefaults import config
from theano_ng.tensor.type import get_atol_rtol
from theano_ng.tests import unittest_tools as utt

__all__ = ["check_floatX", "copymod", "inplace_func", "makeBroadcastTester", "makeTester"]


def inplace_func(inputs, outputs, mode=None, allow_input_downcast=False, on_unused_input="raise", name=None):
    """Compile a function whose Ops may work in place on its inputs.

    Parameters
    ----------
    inputs : list of Variable or In
    outputs : Variable, Out or a list of them
    mode : Mode or str, optional
        The default mode by default.
    allow_input_downcast, on_unused_input, name
        See `theano_ng.function`.

    Notes
    -----
    The function overwrites arguments if its Ops do.
    """
    return function(
        inputs,
        outputs,
        mode=get_default_mode() if mode is None else mode,
        allow_input_downcast=allow_input_downcast,
        accept_inplace=True,
        on_unused_input=on_unused_input,
        name=name,
    )


def check_floatX(inputs, rval):
    """Return an expected value in the precision in which the graph computes.

    Parameters
    ----------
    inputs : sequence of array_like
        The values from which `rval` was computed.
    rval : ndarray or number

    Returns
    -------
    ndarray or number
        `rval` as float32 if floatX is float32 and `rval` has dtype float64 although no input does: NumPy computes a
        float64 from integers, the graph a floatX. Otherwise `rval` itself.
    """
    if (
        config.floatX == "float32"
        and getattr(rval, "dtype", None) == "float64"
        and "float64" not in [getattr(i, "dtype", None) for i in inputs]
    ):
        return rval.astype("float32")
    return rval


def copymod(dct, without=None, **kwargs):
    """Return a copy of a dictionary without some keys, updated with others.

    Parameters
    ----------
    dct : dict
    without : list of str, optional
        Keys to remove; all have to exist.
    **kwargs
        Items to set.
    """
    changed = {key: value for key, value in dct.items() if key not in (without or ())}
    missing = [key for key in without or () if key not in dct]
    if missing:
        raise KeyError("copymod cannot remove the keys %s: the dictionary has the keys %s" % (missing, sorted(dct)))
    changed.update(kwargs)
    return changed


def _type_of(value):
    """Return the TensorType of an argument: lengths of 1 are broadcastable."""
    value = np.asarray(value)
    return tensor.TensorType(value.dtype, [n == 1 for n in value.shape])


def _as_list(outputs):
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def _memory_mapped(value, folder, number):
    """Return a copy of an array in a memory mapped file; return other values unchanged."""
    if not isinstance(value, np.ndarray) or value.size == 0 or value.dtype.hasobject:
        return value
    mapped = np.memmap(os.path.join(folder, "input%d" % number), dtype=value.dtype, mode="w+", shape=value.shape)
    mapped[...] = value
    return mapped


class _Checker(unittest.TestCase):
    """The base class of the classes that `makeTester` makes. Their attributes are the arguments of `makeTester`."""

    __test__ = False
    # Descriptions of checks that expect the first input to be overwritten; see `makeBroadcastTester`.
    inplace_checks = ()

    def setUp(self):
        utt.seed_rng()
        if self.skip:
            self.skipTest(str(self.skip))

    def _mode(self):
        return get_default_mode() if self.mode is None else get_mode(self.mode)

    def _build(self, case, inputs):
        """Return symbolic inputs and outputs for the arguments."""
        variables = [_type_of(value)(name="input%d" % i) for i, value in enumerate(inputs)]
        try:
            outputs = self.op(*variables)
        except Exception as failure:
            raise AssertionError(
                "%s: %s cannot be applied to %s of types %s"
                % (self.name, self.op, case, [str(v.type) for v in variables])
            ) from failure
        return variables, _as_list(outputs)

    def _compile(self, case, inputs):
        variables, outputs = self._build(case, inputs)
        try:
            return inplace_func(
                variables, outputs, mode=self._mode(), name="%s, %s" % (self.name, case), on_unused_input="ignore"
            )
        except Exception as failure:
            raise AssertionError("%s: the function of %s cannot be compiled" % (self.name, case)) from failure

    def _run_and_compare(self, f, case, inputs):
        given = [copy.copy(value) if isinstance(value, np.memmap) else np.array(value) for value in inputs]
        expected = _as_list(self.expected(*[copy.deepcopy(np.asarray(value)) for value in inputs]))
        try:
            results = f(*given)
        except Exception as failure:
            raise AssertionError(
                "%s: the function of %s fails on valid inputs of shapes %s"
                % (self.name, case, [np.shape(value) for value in inputs])
            ) from failure
        if len(results) != len(expected):
            raise AssertionError(
                "%s: %s has %d outputs, %d are expected" % (self.name, case, len(results), len(expected))
            )
        for i, (result, wanted) in enumerate(zip(results, expected)):
            self._compare(case, i, np.asarray(result), np.asarray(wanted))
        for description, check in self.checks.items():
            if description in self.inplace_checks and isinstance(self._mode(), DebugMode):
                continue  # DebugMode computes with copies of the arguments, and does not overwrite the arguments
            if check(given, results) is False:
                raise AssertionError(
                    "%s: %s fails the check %r; inputs %s, outputs %s" % (self.name, case, description, given, results)
                )

    def _compare(self, case, i, result, wanted):
        where = "%s: output %d of %s" % (self.name, i, case)
        if result.shape != wanted.shape:
            raise AssertionError("%s has shape %s, expected %s" % (where, result.shape, wanted.shape))
        if result.dtype.kind in "biufc" and wanted.dtype.kind in "biufc":
            # Dtypes less precise than float64 have their own tolerances.
            rtol = atol = self.eps
            if any(a.dtype in (np.float16, np.float32, np.complex64) for a in (result, wanted)):
                atol, rtol = get_atol_rtol(result, wanted)
            close = np.allclose(result, wanted, rtol=max(rtol, self.eps), atol=max(atol, self.eps), equal_nan=True)
        else:
            rtol = atol = 0
            close = bool(np.all(result == wanted))
        if not close:
            raise AssertionError("%s is wrong\n%s" % (where, utt.str_diagnostic(wanted, result, rtol, atol)))

    def test_good(self):
        for case, inputs in self.good.items():
            self._run_and_compare(self._compile(case, inputs), case, inputs)

    def test_memory_mapped_inputs(self):
        for case, inputs in self.good.items():
            if any(isinstance(value, np.ndarray) and value.size for value in inputs):
                with tempfile.TemporaryDirectory() as folder:
                    mapped = [_memory_mapped(value, folder, i) for i, value in enumerate(inputs)]
                    self._run_and_compare(self._compile(case, inputs), "%s, memory mapped" % case, mapped)
                break

    def test_bad_build(self):
        for case, inputs in self.bad_build.items():
            variables = [_type_of(value)() for value in inputs]
            with self.assertRaises(
                Exception,
                msg="%s: applying the op to %s should have been refused; types %s"
                % (self.name, case, [str(v.type) for v in variables]),
            ):
                self.op(*variables)

    def test_bad_runtime(self):
        for case, inputs in self.bad_runtime.items():
            f = self._compile(case, inputs)
            with self.assertRaises(
                Exception,
                msg="%s: the function of %s should have failed on shapes %s"
                % (self.name, case, [np.shape(value) for value in inputs]),
            ):
                f(*[np.array(value) for value in inputs])

    def test_grad(self):
        for case, inputs in self.grad.items():
            try:
                utt.verify_grad(
                    self.op,
                    [np.array(value) for value in inputs],
                    mode=self.mode,
                    rel_tol=self.grad_rtol,
                    eps=self.grad_eps,
                )
            except Exception as failure:
                raise AssertionError(
                    "%s: the gradient at %s, inputs of shapes %s, is wrong or cannot be computed"
                    % (self.name, case, [np.shape(value) for value in inputs])
                ) from failure

    def test_grad_none(self):
        # Gradients with respect to integer and boolean inputs of the valid cases must be variables of floating point
        # dtype and of the input's rank.
        for case, inputs in self.good.items():
            variables, outputs = self._build(case, inputs)
            costs = [out.sum() for out in outputs if out.dtype in tensor.float_dtypes]
            if not costs or any(v.dtype in tensor.complex_dtypes for v in variables):
                continue
            gradients = tensor.grad(
                sum(costs[1:], costs[0]), variables, disconnected_inputs="ignore", null_gradients="return"
            )
            for i, (variable, gradient) in enumerate(zip(variables, gradients)):
                if (
                    getattr(gradient, "dtype", "float64") in tensor.discrete_dtypes
                    or getattr(gradient, "ndim", variable.ndim) != variable.ndim
                ):
                    raise AssertionError(
                        "%s: %s has a gradient of type %s for input %d, of type %s"
                        % (self.name, case, gradient.type, i, variable.type)
                    )

    def test_name(self):
        if getattr(sys.modules[type(self).__module__], self.name, None) is not type(self):
            raise AssertionError(
                "the test class %s has to be the variable of that name in %s" % (self.name, type(self).__module__)
            )


def makeTester(
    name,
    op,
    expected,
    checks=None,
    good=None,
    bad_build=None,
    bad_runtime=None,
    grad=None,
    mode=None,
    grad_rtol=None,
    eps=1e-10,
    skip=False,
    test_memmap=True,
    check_name=False,
    grad_eps=None,
):
    """Return a test class of an Op.

    Parameters
    ----------
    name : str
        The name of the class.
    op : Op or callable
        Makes a variable or a list of variables from variables.
    expected : callable
        Computes the right value from arrays, or a list with one value for each output.
    checks : dict, optional
        Description -> ``check(inputs, outputs)``, called with the arrays after each run; the test fails when it returns False.
    good : dict, optional
        Case -> tuple of valid arguments.
    bad_build : dict, optional
        Case -> tuple of arguments whose types the Op has to refuse.
    bad_runtime : dict, optional
        Case -> tuple of arguments which the compiled function has to refuse.
    grad : dict, optional
        Case -> tuple of floating point arguments at which the gradient is compared with finite differences.
    mode : Mode or str, optional
        The mode in which functions are compiled; the default mode by default.
    grad_rtol : float, optional
        Relative tolerance of gradients; by default it depends on the dtype.
    eps : float
        Absolute and relative tolerance of float64 and complex128 values; less precise dtypes have their own.
    skip : bool or str
        If true, the tests are skipped; a string is the reason.
    test_memmap : bool
        Whether to test a valid case with arguments in memory mapped files too.
    check_name : bool
        Whether to test that the class is a variable called `name` of the module that made it.
    grad_eps : float, optional
        Step of finite differences.

    Returns
    -------
    type
        A subclass of `unittest.TestCase`.

    Examples
    --------
    >>> import unittest
    >>> import numpy as np
    >>> from theano_ng import tensor
    >>> from theano_ng.tensor.tests.test_basic import makeTester, rand
    >>> DotTester = makeTester(name="DotTester", op=tensor.dot, expected=np.dot,
    ...                        good=dict(matrices=(rand(5, 7), rand(7, 9)), vector=(rand(5, 7), rand(7))),
    ...                        bad_runtime=dict(shapes=(rand(5, 7), rand(8, 3))), grad=dict(matrices=(rand(2, 3), rand(3, 2))))
    >>> tests = unittest.defaultTestLoader.loadTestsFromTestCase(DotTester)
    >>> tests.run(unittest.TestResult()).wasSuccessful()
    True
    """
    return _make(
        name,
        op,
        expected,
        checks,
        good,
        bad_build,
        bad_runtime,
        grad,
        mode,
        grad_rtol,
        eps,
        skip,
        test_memmap,
        check_name,
        grad_eps,
        sys._getframe(1).f_globals.get("__name__", __name__),
    )


def _make(
    name,
    op,
    expected,
    checks,
    good,
    bad_build,
    bad_runtime,
    grad,
    mode,
    grad_rtol,
    eps,
    skip,
    test_memmap,
    check_name,
    grad_eps,
    module,
    inplace_checks=(),
):
    # staticmethod, because functions that are class attributes would become methods.
    namespace = dict(
        name=name,
        op=staticmethod(op),
        expected=staticmethod(expected),
        checks=dict(checks or {}),
        good=dict(good or {}),
        bad_build=dict(bad_build or {}),
        bad_runtime=dict(bad_runtime or {}),
        grad=dict(grad or {}),
        mode=mode,
        grad_rtol=grad_rtol,
        eps=eps,
        skip=skip,
        test_memmap=test_memmap,
        check_name=check_name,
        grad_eps=grad_eps,
        inplace_checks=inplace_checks,
        __module__=module,
        __test__=True,
        __doc__="Tests of %s." % (op,),
    )
    # Remove the tests without cases, because they cannot fail.
    for test, cases in (
        ("test_good", good),
        ("test_memory_mapped_inputs", test_memmap and good),
        ("test_bad_build", bad_build),
        ("test_bad_runtime", bad_runtime),
        ("test_grad", grad),
        ("test_grad_none", grad and good),
        ("test_name", check_name),
    ):
        if not cases:
            namespace[test] = None
    return type(name, (_Checker,), namespace)


def _same_as_first_input(inputs, outputs):
    return bool(np.array_equal(inputs[0], outputs[0], equal_nan=np.asarray(outputs[0]).dtype.kind in "fc"))


def makeBroadcastTester(op, expected, checks=None, name=None, inplace=False, **kwargs):
    """Return a test class of an elementwise Op.

    Parameters
    ----------
    op, expected, checks
        See `makeTester`.
    name : str, optional
        By default derived from the name of the Op: "Elemwise{add,no_inplace}" is tested by "AddTester".
    inplace : bool
        True adds a check: after a run the first argument has to hold the first output.
    **kwargs
        See `makeTester`.

    Returns
    -------
    type
        A subclass of `unittest.TestCase`.
    """
    if name is None:
        stem = re.match(r"(?:Elemwise{)?(\w*)", getattr(op, "__name__", None) or str(op)).group(1)
        name = "".join(word[0].upper() + word[1:] for word in stem.split("_") if word) + "Tester"
    checks = dict(checks or {})
    inplace_checks = ()
    if inplace:
        description = "the first input holds the output"
        checks[description] = _same_as_first_input
        inplace_checks = (description,)
    arguments = dict(
        good=None,
        bad_build=None,
        bad_runtime=None,
        grad=None,
        mode=None,
        grad_rtol=None,
        eps=1e-10,
        skip=False,
        test_memmap=True,
        check_name=False,
        grad_eps=None,
    )
    unknown = sorted(set(kwargs) - set(arguments))
    if unknown:
        raise TypeError("makeBroadcastTester has no argument %s" % ", ".join(unknown))
    arguments.update(kwargs)
    return _make(
        name,
        op,
        expected,
        checks,
        module=sys._getframe(1).f_globals.get("__name__", __name__),
        inplace_checks=inplace_checks,
        **arguments,
    )
