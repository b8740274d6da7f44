"""The verdicts as text, as JSON, and as the page of the manual."""

from collections import Counter

from theano_ng.audit.rewrites.comparing import KINDS

#: Of the JSON document; counts up when something in it changes its meaning or goes away.
SCHEMA = 2

_INTRODUCTION = """The rules of rewriting, and how far each was compared with what it replaces
============================================================================

Written by ``make oracle``; do not edit. `theano_ng.audit.rewrites` makes graphs on which a rule may apply: from the example in its
docstring, from examples of other rules with the same Ops, and from small expressions around its Ops. It varies them: the same variable
twice, parts exchanged for each other, other numbers, constants such as NaN, -0.0 and the ends of a dtype, all dtypes and ranks, axes of
length zero, inner nodes and inputs that are outputs. The graph before and the graph after are computed by the Python implementations of
their Ops. A float may differ where it is as near to the true value, computed with more digits, as the roundings of the graph before
leave room for. Everything else is either in the last column or a fault.

proved
    The equation of each example was proved for every dtype to which the rule applies: ``bits`` for integers of all widths as vectors of bits
    and ``IEEE`` for floats with all their roundings (z3); ``polynomials`` for integers that are only added and multiplied, ``reals`` and
    ``positive reals`` wherever both sides are defined, ``complex numbers`` (sympy).
exhausted
    Each example was proved so, or computed for all values that the third column names, for each kind of dtype to which the rule applies:
    integers, unsigned ones, booleans, floats, complex numbers and mixtures. Where elements depend on one element of each input these
    are all (pairs of) values of a small dtype, of which E5M2 has the 256 floats of eight bits; of complex numbers and of three variables
    and more they are all combinations of the special values nearest to one, with NaN, infinities and zeros. Of other
    graphs they are all lengths of every axis, all values of whole numbers, and the patterns of sparse matrices, in the dtypes of the
    example, with elements that are random.
sampled
    Some of all that; the third column says why.

"""


def _how(verdict):
    """By which theories, over which values, or why neither."""
    return "; ".join(filter(None, [", ".join(verdict.proofs), ", ".join(verdict.over), verdict.reason]))


def counts(verdicts):
    """How many verdicts of each status: dict in a fixed order."""
    found = Counter(verdict.status for verdict in verdicts)
    return {name: found[name] for name in ("proved", "exhausted", "sampled", "not applicable", "wrong") if found[name]}


def _share(verdicts):
    tried = [verdict for verdict in verdicts if verdict.status != "not applicable"]
    sure = sum(verdict.status in ("proved", "exhausted") for verdict in tried)
    return sure, len(tried)


def summary(verdicts):
    """One line about all verdicts."""
    sure, tried = _share(verdicts)
    words = ", ".join("%d %s" % (count, status) for status, count in counts(verdicts).items())
    return "%d rules: %s; %d of the %d that were compared are proved or exhausted" % (len(verdicts), words, sure, tried)


def text_of(verdict):
    """A few lines about one verdict."""
    lines = ["%-48s %-14s %s" % (verdict.name, verdict.status, _how(verdict))]
    for found in verdict.findings:
        difference = found.difference
        lines.append("  %s: %s" % (difference.kind, KINDS[difference.kind]))
        lines += ["    | " + line for line in found.program.rstrip().split("\n")]
    return "\n".join(line.rstrip() for line in lines)


def to_json(verdicts, seed):
    """What `json.dump` takes.

    Returns
    -------
    dict
        ``schema``, ``seed``, ``ok``, ``counts`` and ``rules``: one entry for each, with the attributes of `Verdict`.
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


def page(verdicts):
    """The page of the manual, in reStructuredText."""
    verdicts = _one_a_name(verdicts)
    sure, tried = _share(verdicts)
    lines = [_INTRODUCTION + summary(verdicts) + " (%.0f %%)." % (100 * sure / max(tried, 1)), ""]
    kinds = sorted({kind for verdict in verdicts for kind in verdict.exceptions})
    lines += ["Kinds of difference", "-" * 19, ""]
    lines += ["%s\n    %s." % (kind, KINDS[kind][0].upper() + KINDS[kind][1:]) for kind in kinds]
    lines += ["", "Rules", "-----", "", ".. list-table::", "   :header-rows: 1", "   :widths: 30 14 22 34", ""]
    for cells in [("rule", "verdict", "how", "exceptions"), *map(_row, _one_a_name(verdicts))]:
        lines += ["   %s %s" % ("* -" if i == 0 else "  -", cell) for i, cell in enumerate(cells)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _one_a_name(verdicts):
    """The verdicts in the order of names; of rules with one name that of the one that was compared."""
    found = {}
    for verdict in sorted(verdicts, key=lambda v: (v.name, v.status != "not applicable")):
        found[verdict.name] = verdict
    return list(found.values())


def _row(verdict):
    exceptions = "; ".join("%s: %s" % pair for pair in sorted(verdict.exceptions.items()))
    found = "".join("; **%s**" % found.difference.kind for found in verdict.findings)
    return "``%s``" % verdict.name, verdict.status, _how(verdict), (exceptions + found).lstrip("; ")
