"""A search for errors in Ops. The report gives a name for each error, and the smallest input found that shows it.

>>> import theano_ng as theano
>>> from theano_ng.audit import audit
>>> from theano_ng.misc.doubleop import DoubleOp
>>> report = audit(DoubleOp(), theano.tensor.dvector, checks=["props", "maps"])
>>> report.ok
True
"""

from theano_ng.audit.driver import CHECKS, Check, assert_audit, audit, run, select
from theano_ng.audit.names import NAMES, meaning
from theano_ng.audit.problems import AuditError, Problem, Reject
from theano_ng.audit.records import Case, Finding, Report, Verdict
from theano_ng.audit.testcase import audit_test

__all__ = [
    "CHECKS",
    "AuditError",
    "Case",
    "Check",
    "Finding",
    "NAMES",
    "Problem",
    "Reject",
    "Report",
    "Verdict",
    "assert_audit",
    "audit",
    "audit_test",
    "meaning",
    "run",
    "select",
]
