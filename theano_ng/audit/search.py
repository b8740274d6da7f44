"""The search of DebugMode: cheap checks of the audit for a node, on its values and on other values of the same types."""

from theano_ng.audit.context import Context
from theano_ng.audit.generate import require_hypothesis
from theano_ng.audit.problems import Problem
from theano_ng.audit.records import Case
from theano_ng.audit.symbolic_checks import check_infer_shape
from theano_ng.audit.targets import Target
from theano_ng.audit.value_checks import check_c_code, check_output_types, check_perform
from theano_ng.configparser import change_flags
from theano_ng.gof.graph import Constant

#: Check -> its part of the time.
CHECKS = {
    "output_types": (check_output_types, 0.1),
    "perform": (check_perform, 0.3),
    "c_code": (check_c_code, 0.4),
    "infer_shape": (check_infer_shape, 0.2),
}

#: Lengths, layouts, aliases and contents vary. Other types and parameters would need other nodes.
VARY = ("length", "layout", "alias", "content")


def search_node(node, values, seconds):
    """Search for an error of an Op.

    Parameters
    ----------
    node : Apply
    values : list
        The values of the node's inputs.
    seconds : float
        The time limit. The search begins all checks, also if the time is over.

    Returns
    -------
    Finding or None

    Raises
    ------
    ImportError
        If Hypothesis is not installed.
    """
    require_hypothesis()
    inputs = [v if isinstance(v, Constant) else (v.type, value) for v, value in zip(node.inputs, values)]
    case = Case(lambda *variables: node.op.make_node(*variables).outputs, inputs, str(node.op), vary=VARY)
    try:
        target = Target(case)
    except (TypeError, ValueError):
        return None  # make_node gives other nodes for other variables of these types
    with change_flags({"DebugMode.search": 0.0}):
        for name, (check, part) in CHECKS.items():
            context = Context(target, name, max_examples=20, limit=seconds * part)
            try:
                findings = check(context).findings
            except Problem as problem:  # an error without an example
                findings = [context.finding(problem)]
            if findings:
                return findings[0]
    return None
