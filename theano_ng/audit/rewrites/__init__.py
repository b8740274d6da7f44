"""An oracle for rewriting rules."""

from theano_ng.audit.rewrites import vocabulary
from theano_ng.audit.rewrites.applying import Computation, rewritten
from theano_ng.audit.rewrites.oracle import FULL, QUICK, Effort, judge
from theano_ng.audit.rewrites.registry import registered, rule_named
