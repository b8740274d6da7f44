"""A writer of Python programs that reproduce a difference."""

import numpy as np
import scipy.sparse

from theano_ng.gof.rewriting import LocalOptimizer

_HEAD = """import numpy as np
import theano_ng.tensor as T
from theano_ng.audit.rewrites import Computation, cycle, ops_in, partners, rewritten, rule_named, rule_of, vocabulary

globals().update(vocabulary.namespace())
"""

_CALL = """change = rewritten(rule, [%s], %s)
values = [%s]
print("before:", change.before, Computation(change.before)(values))
print("after: ", change.after, Computation(change.after)(values))
"""

_GRAPHS_ONLY = """change = rewritten(rule, [%s], %s)
print("before:", change.before, "after:", change.after)
print("ended:", change.ended, "traced:", change.traced, "overwritten:", change.overwritten)
"""

_CYCLE = """for rules in partners(rule) or [[rule]]:
    print(cycle(rules, [%s], %s))
"""


def reproducer(one, instance, values, difference):
    """Return a Python program that shows a difference.

    Parameters
    ----------
    one : Registered
        The rule.
    instance : Instance
    values : list or None
        The values of the inputs. None if the difference does not depend on values, such as a crash of the rule.
    difference : Difference

    Returns
    -------
    str
    """
    lines = [_HEAD, *_lines_of_rule(one)]
    lines += ["%s = %s" % (name, text) for name, _, text in instance.setting.given]
    lines.append("outputs = %s" % instance.text)
    lines.append("outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]")
    outputs = "outputs"
    if instance.setting.more == "inner":
        lines.append("from theano_ng.gof.graph import ancestors")
        outputs = "outputs + [v for v in ancestors(outputs) if v.owner is not None and v not in outputs]"
    elif instance.setting.more == "input":
        outputs = "outputs + [%s]" % ", ".join(v.name for v in instance.inputs)
    inputs = ", ".join(v.name for v in instance.inputs)
    if difference.kind == "endless" and isinstance(one.rule, LocalOptimizer):
        lines.append(_CYCLE % (inputs, outputs))
    elif values is None:
        lines.append(_GRAPHS_ONLY % (inputs, outputs))
    else:
        lines.append(
            _CALL % (inputs, outputs, ", ".join(_value_expression(v, i) for v, i in zip(values, instance.inputs)))
        )
    lines.append("# %s: %s" % (difference.kind, _describe(difference)))
    return "\n".join(lines) + "\n"


def _lines_of_rule(one):
    """Return the lines that import a rule, and the Ops of its module."""
    if not one.target:
        return ["rule = rule_named(%r)" % one.name]
    return ["globals().update(ops_in(%r))" % one.target.rpartition(":")[0], "rule = rule_of(%r)" % one.target]


def _describe(difference):
    if not difference.before:
        return difference.after.replace("\n", " ")
    text = "before %s, after %s" % (difference.before, difference.after)
    return (text + (", true %s" % difference.true if difference.true else "")).replace("\n", " ")


def _value_expression(value, variable):
    """Return a Python expression for a value.

    If the value is a long array, or neither an array nor a sparse matrix, the expression looks it up in `vocabulary`.
    """
    if scipy.sparse.issparse(value):
        return "scipy.sparse.%s_matrix(np.array(%r))" % (value.format, value.toarray().tolist())
    if not isinstance(value, (np.ndarray, np.generic)) or value.size > 200:
        return "vocabulary.VARIABLES[%r][1]" % variable.name
    text = repr(np.asarray(value).tolist())
    for word in ("nan", "inf"):
        text = text.replace(word, "np." + word)
    return "np.array(%s, %r)%s" % (text, str(value.dtype), "" if value.size else ".reshape(%r)" % (value.shape,))
