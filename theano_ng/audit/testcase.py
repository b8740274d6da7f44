"""The audit as a test case of unittest, for pytest and theano_ng-nose."""

import sys
import unittest

from theano_ng.audit.driver import CHECKS, as_case, assert_audit, select


def audit_test(op_or_case, *inputs, **options):
    """Return a class of tests with one test for each check of the audit.

    Parameters
    ----------
    op_or_case : Case, Op or callable
        See `audit`. A function without parameters may return a list of cases, or of pairs of an Op and its inputs.
    *inputs
        Example inputs of an Op.
    **options
        Parameters of `audit`: `checks`, `max_examples`, `seed`, `sanitize`, `leaks`, `time_limit`.

    Returns
    -------
    type
        A subclass of `unittest.TestCase`.

    Examples
    --------
    >>> from theano_ng import tensor
    >>> from theano_ng.audit import audit_test
    >>> from theano_ng.misc.doubleop import DoubleOp
    >>> TestDouble = audit_test(DoubleOp(), tensor.dvector, checks=["props", "maps"])
    >>> unittest.defaultTestLoader.getTestCaseNames(TestDouble)
    ['test_maps', 'test_props']
    """
    wanted = {key: options.pop(key) for key in ("checks", "sanitize", "leaks") if key in options}
    names = [check.name for check in select(**wanted)]
    methods = {"test_" + name: _test_of(name, op_or_case, inputs, options) for name in names}
    kind = type("AuditTest", (unittest.TestCase,), methods)
    kind.__doc__ = "The checks of theano_ng-audit."
    kind.__module__ = sys._getframe(1).f_globals.get("__name__", __name__)  # the module of the tests, for reports
    return kind


def _test_of(name, op_or_case, inputs, options):
    def test(self):
        for case in cases_of(op_or_case, inputs):
            if name in case.skip:
                self.skipTest("%s: %s" % (case.name, case.skip[name]))
            assert_audit(case, checks=[name], **options)

    test.__doc__ = next(check.meaning for check in CHECKS if check.name == name) + "."
    test.__name__ = "test_" + name
    return test


def cases_of(op_or_case, inputs=()):
    """Return the cases that the arguments of `audit_test` describe."""
    from theano_ng.audit.records import Case
    from theano_ng.gof.op import PureOp

    is_function = callable(op_or_case) and not isinstance(op_or_case, (PureOp, Case, type))
    if inputs or not is_function:
        return [as_case(op_or_case, inputs)]
    return [as_case(entry) if isinstance(entry, Case) else as_case(entry[0], entry[1]) for entry in op_or_case()]
