"""Reports as a page in Markdown, for example to keep with a change under review."""

from theano_ng.audit.names import NAMES
from theano_ng.audit.report import EVIDENCE_LINES, summary


def to_markdown(reports):
    """Return a page about reports: a table of the cases, the findings with their evidence, and what was not tested.

    Parameters
    ----------
    reports : sequence of Report

    Returns
    -------
    str
    """
    from theano_ng.version import version

    reports = list(reports)
    lines = ["# Audit", "", "theano_ng-audit %s: %s." % (version, summary(reports)), ""]
    lines += ["| case | findings | checks | skipped | examples | seconds |", "| --- | --- | --: | --: | --: | --: |"]
    for report in reports:
        skipped = sum(verdict.status == "skipped" for verdict in report.verdicts)
        names = ", ".join(dict.fromkeys(finding.error for finding in report.findings)) or "none"
        names = "not examined" if report.error else names
        examples = sum(verdict.examples for verdict in report.verdicts)
        lines.append(
            "| %s | %s | %d | %d | %d | %.1f |"
            % (_cell(report.case), names, len(report.verdicts), skipped, examples, report.seconds)
        )
    for report in reports:
        lines += ["", "## %s" % _cell(report.case), ""]
        lines += ["Not examined: " + _cell(report.error)] if report.error else []
        for finding in report.findings:
            lines += _finding(finding)
        notes = ["`%s` was skipped: %s" % (v.check, v.reason) for v in report.verdicts if v.status == "skipped"]
        notes += ["`%s`: %s" % (v.check, v.note) for v in report.verdicts if v.note]
        lines += ["- " + _cell(note) for note in notes]
    return "\n".join(lines).rstrip() + "\n"


def _finding(finding):
    lines = ["### %s (%s)" % (finding.error, finding.check), ""]
    if finding.error in NAMES:
        lines += ["%s%s." % (NAMES[finding.error][0].upper(), NAMES[finding.error][1:]), ""]
    lines += ["- " + _cell(finding.message)]
    lines += ["- with " + _cell(finding.change)] if finding.change else []
    lines += ["- input %d: %s" % (i, _cell(text)) for i, text in enumerate(finding.inputs)]
    lines += ["- at `%s`" % finding.location] if finding.location else []
    if finding.consequences:
        others = dict.fromkeys("%s (%s)" % (other.error, other.check) for other in finding.consequences)
        lines.append("- probably explains: " + ", ".join(others))
    evidence = finding.evidence.strip().splitlines()
    if evidence:
        more = len(evidence) - EVIDENCE_LINES
        lines += ["", *("    " + line for line in evidence[:EVIDENCE_LINES])]
        lines += ["    ... %d more lines" % more] if more > 0 else []
    return [*lines, ""]


def _cell(text):
    """Return a text in one line, in which Markdown has no effect."""
    text = " ".join(str(text).split())
    for character in "\\`*_{}[]<>|#":
        text = text.replace(character, "\\" + character)
    return text
