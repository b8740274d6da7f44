"""Output formats of verdicts: text, JSON, and the page of the manual."""

import re
from collections import Counter

from theano_ng.audit.rewrites.comparing import KINDS

#: Version of the JSON schema. It is incremented when an entry changes its meaning or is removed.
SCHEMA = 2

_INTRODUCTION = """Rewriting rules, and how far each was checked
=============================================

This page is written by ``make oracle``; do not edit it. `theano_ng.audit.rewrites` builds graphs to which a rule may
apply: from the example in the docstring of the rule, from examples of other rules with the same Ops, and from small
expressions that contain the Ops of the rule. It varies these graphs: it uses the same variable for two inputs,
exchanges parts, replaces numbers, and replaces inputs by constants such as NaN, -0.0 and the limits of a dtype. It
tries all dtypes and ranks, axes of length zero, and graphs whose outputs include intermediate variables or inputs. The
Python implementations of the Ops compute the original graph and the rewritten graph. A rule may change a float in the
result as long as the new value is as near to the true value as the rounding errors of the original graph allow; the
true value is computed with more digits. Any other difference is listed in the last column as an exception, or is a
fault.

proved
    The equation of each example was proved for every dtype to which the rule applies. The third column names the
    theories. z3 proves ``bits``, for integers of all widths as bit vectors, and ``IEEE``, for floats with all
    roundings. sympy proves ``polynomials``, for integers that are only added and multiplied; ``reals`` and ``positive
    reals``, wherever both sides are defined; and ``complex numbers``.
exhausted
    Each example was proved, or was computed for all values that the third column names, for each kind of dtype to which
    the rule applies. The kinds are integers, unsigned integers, booleans, floats, complex numbers, and mixtures of
    them. If each element of a result depends on one element of each input, these values are all values, or all pairs of
    values, of a small dtype. E5M2 is a float format with 256 values of eight bits. For complex numbers, and for three
    or more variables, they are all combinations of some special values: values whose magnitudes are near 1, NaN,
    infinities and zeros. For other graphs, they are all combinations of lengths of axes, values of integer scalars and
    patterns of sparse matrices, in the dtypes of the example and with random elements.
sampled
    Only some of the values that ``exhausted`` requires were computed. The third column gives the reason.

"""


def _how(verdict):
    """Return a text with the theories and the values that confirm a rule, and the reason of the verdict."""
    return "; ".join(filter(None, [", ".join(verdict.proofs), ", ".join(verdict.over), verdict.reason]))


def _counts(statuses):
    found = Counter(statuses)
    return {name: found[name] for name in ("proved", "exhausted", "sampled", "not applicable", "wrong") if found[name]}


def counts(verdicts):
    """Return a dict from each status to its number of verdicts, in a fixed order."""
    return _counts(verdict.status for verdict in verdicts)


def _share(statuses):
    tried = [status for status in statuses if status != "not applicable"]
    return sum(status in ("proved", "exhausted") for status in tried), len(tried)


def _summary(statuses):
    sure, tried = _share(statuses)
    words = ", ".join("%d %s" % (count, status) for status, count in _counts(statuses).items())
    return "%d rules: %s; %d of the %d that were compared are proved or exhausted" % (len(statuses), words, sure, tried)


def summary(verdicts):
    """Return a line with the number of rules of each status."""
    return _summary([verdict.status for verdict in verdicts])


def text_of(verdict):
    """Return the text of one verdict, with its findings."""
    lines = ["%-48s %-14s %s" % (verdict.name, verdict.status, _how(verdict))]
    for found in verdict.findings:
        difference = found.difference
        lines.append("  %s: %s" % (difference.kind, KINDS[difference.kind]))
        lines += ["    | " + line for line in found.program.rstrip().split("\n")]
    return "\n".join(line.rstrip() for line in lines)


def to_json(verdicts, seed):
    """Return the verdicts as a dict for `json.dump`.

    Returns
    -------
    dict
        A dict with the keys ``schema``, ``seed``, ``ok``, ``counts`` and ``rules``. Each entry of ``rules`` has
        attributes of `Verdict`.
    """
    return {
        "schema": SCHEMA,
        "tool": "theano_ng.audit.rewrites",
        "seed": seed,
        "ok": not any(verdict.findings for verdict in verdicts),
        "counts": counts(verdicts),
        "rules": [_entry(verdict) for verdict in verdicts],
    }


def _entry(verdict):
    entry = {name: getattr(verdict, name) for name in ("name", "status", "reason", "graphs", "values", "exceptions")}
    entry.update({name: list(getattr(verdict, name)) for name in ("databases", "tags", "proofs", "over")})
    entry["findings"] = [
        {
            "kind": found.difference.kind,
            "meaning": KINDS[found.difference.kind],
            "expression": found.text,
            "varied": found.setting,
            "before": found.difference.before,
            "after": found.difference.after,
            "true": found.difference.true,
            "program": found.program,
        }
        for found in verdict.findings
    ]
    return entry


def page(verdicts, kept=None):
    """Return the page of the manual, in reStructuredText.

    Parameters
    ----------
    verdicts : list of Verdict
    kept : dict, optional
        Rows of an earlier page (`rows_of`), which are kept for rules without a verdict in `verdicts`.

    Returns
    -------
    str
    """
    rows = {**(kept or {}), **{verdict.name: _row(verdict) for verdict in _one_a_name(verdicts)}}
    rows = [rows[name] for name in sorted(rows)]
    statuses = [status for _, status, _, _ in rows]
    sure, tried = _share(statuses)
    lines = [_INTRODUCTION + _summary(statuses) + " (%.0f %%)." % (100 * sure / max(tried, 1)), ""]
    named = [kind for kind in sorted(KINDS) if any(re.search("(^|; )%s: " % kind, row[3]) for row in rows)]
    lines += ["Kinds of difference", "-" * 19, ""]
    lines += ["%s\n    %s." % (kind, KINDS[kind][0].upper() + KINDS[kind][1:]) for kind in named]
    lines += ["", "Rules", "-----", "", ".. list-table::", "   :header-rows: 1", "   :widths: 30 14 22 34", ""]
    for cells in [("rule", "verdict", "how", "exceptions"), *rows]:
        lines += ["   %s %s" % ("* -" if i == 0 else "  -", cell) for i, cell in enumerate(cells)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def rows_of(text):
    """Return the rows of a page as a dict: name of a rule -> its cells."""
    found = re.findall(r"^   \* - (``.*``)\n     -(.*)\n     -(.*)\n     -(.*)$", text, re.MULTILINE)
    return {cells[0].strip("`"): tuple(cell.strip() for cell in cells) for cells in found}


def _one_a_name(verdicts):
    """Return one verdict per name, sorted by name.

    Of several verdicts with one name, prefer a verdict whose status is not "not applicable".
    """
    found = {}
    for verdict in sorted(verdicts, key=lambda v: (v.name, v.status != "not applicable")):
        found[verdict.name] = verdict
    return list(found.values())


def _row(verdict):
    exceptions = "; ".join("%s: %s" % pair for pair in sorted(verdict.exceptions.items()))
    found = "".join("; **%s**" % found.difference.kind for found in verdict.findings)
    return "``%s``" % verdict.name, verdict.status, _how(verdict), (exceptions + found).lstrip("; ")
