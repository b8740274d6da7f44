"""Output formats of reports: text for people, JSON for programs, and JUnit's XML for continuous integration."""

import os
import re
import shutil
import textwrap

from theano_ng.audit.names import NAMES

#: Version of the JSON schema. It is incremented when an item is removed or changes its meaning.
SCHEMA = 2

#: Without the option -v, a report shows at most EVIDENCE_LINES lines of each piece of evidence, and at most
#: MESSAGE_LINES lines of each message or input.
EVIDENCE_LINES, MESSAGE_LINES = 24, 6

_COLOURS = {"ok": "32", "failed": "31;1", "skipped": "33", "title": "1"}
_WORDS = {"ok": "ok", "failed": "FAILED", "skipped": "skipped"}


def wants_colour(stream):
    """Return True if a stream is a terminal and colors are not switched off (see https://no-color.org)."""
    return (
        bool(getattr(stream, "isatty", lambda: False)())
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM") != "dumb"
    )


def format_table(reports, width=None, colour=False, verbosity=1):
    """Format reports as text: for each case a table of verdicts and the findings, then a summary line.

    Parameters
    ----------
    reports : sequence of Report
    width : int, optional
        Number of columns. At least 60 and at most 140 columns are used. Default: the width of the terminal.
    colour : bool
        Whether to use the colors of a terminal.
    verbosity : {0, 1, 2}
        0: findings only, without the tables. 1: tables and shortened evidence. 2: all evidence.

    Returns
    -------
    str
        ASCII text, without a newline at its end.
    """
    texts = [format_report(report, width, colour, verbosity) for report in reports]
    return "\n".join([text for text in texts if text] + [format_summary(reports, colour)])


def format_report(report, width=None, colour=False, verbosity=1):
    """Format the report of one case, for `format_table`.

    Return "" if the case was not examined, or if the verbosity is 0 and nothing was found.
    """
    width = min(max(width or shutil.get_terminal_size((100, 24)).columns, 60), 140)
    paint = _painter(colour)
    if report.error or not verbosity and report.ok:
        return ""
    title = report.case if report.op == report.case else "%s: %s" % (report.case, report.op)
    parts = [paint("title", _cut(_ascii(title), width))]
    if verbosity:
        parts.append(_table(report, width, paint))
    for number, finding in enumerate(report.findings, 1):
        parts.append(_finding(number, finding, width, paint, verbosity > 1))
    return "\n".join(parts + [""])


def format_summary(reports, colour=False):
    """Return the summary line of `format_table`."""
    return summary(reports, _painter(colour))


def summary(reports, paint=lambda kind, text: text):
    """Return a line with the numbers of cases, checks and findings."""
    verdicts = [verdict for report in reports for verdict in report.verdicts]
    count = sum(len(report.findings) for report in reports)
    skipped = sum(verdict.status == "skipped" for verdict in verdicts)
    errors = sum(bool(report.error) for report in reports)
    text = "%s%s, %s (%d skipped), %s in %.1f s" % (
        _number(len(reports), "case"),
        " (%d not examined)" % errors if errors else "",
        _number(len(verdicts), "check"),
        skipped,
        _number(count, "finding"),
        sum(report.seconds for report in reports),
    )
    return paint("failed" if count or errors else "ok", text)


def _number(count, noun):
    return "%s %s%s" % (count or "no", noun, "" if count == 1 else "s")


def _table(report, width, paint):
    head = ("check", "verdict", "examples", "seconds", "finding")
    rows = []
    for verdict in report.verdicts:
        names = ", ".join(dict.fromkeys(finding.error for finding in verdict.findings))
        rows.append(
            (
                verdict.check,
                _WORDS[verdict.status],
                str(verdict.examples) if verdict.examples else "",
                "%.1f" % verdict.seconds,
                _ascii("; ".join(part for part in (names or verdict.reason, verdict.note) if part)),
                verdict.status,
            )
        )
    first = max(len(row[0]) for row in [head, *rows])
    layout = "  %%-%ds  %%-7s  %%8s  %%7s  %%s" % first
    left = len(layout % (("",) * 5))
    lines = [layout % head, layout % ("-" * first, "-" * 7, "-" * 8, "-" * 7, "-" * 7)]
    for *cells, status in rows:
        reason, *more = textwrap.wrap(cells[4], max(width - left, 20)) or [""]
        text = layout % (*cells[:4], reason)
        if status != "ok":
            start = 2 + first + 2
            text = text[:start] + paint(status, text[start : start + 7]) + text[start + 7 :]
        lines.append(text.rstrip())
        lines += [" " * left + line for line in more]
    return "\n".join(lines)


def _finding(number, finding, width, paint, everything):
    title, meaning = "%s (%s)" % (finding.error, finding.check), NAMES.get(finding.error, "")
    text = "%d. %s" % (number, title + ": " + meaning if meaning else title)
    lines = textwrap.wrap(text, width, initial_indent="  ", subsequent_indent=" " * 5, break_on_hyphens=False)
    lines = ["", lines[0].replace(title, paint("failed", title), 1), *lines[1:]]
    made = ["with " + finding.change] if finding.change else []
    for text in (finding.message, *made, *("input %d: %s" % item for item in enumerate(finding.inputs))):
        wrapped = textwrap.wrap(
            _ascii(text), width, initial_indent=" " * 5, subsequent_indent=" " * 7, break_on_hyphens=False
        )
        lines += (
            wrapped
            if everything or len(wrapped) <= MESSAGE_LINES
            else wrapped[: MESSAGE_LINES - 1] + ["       ... (-v shows the other lines)"]
        )
    if finding.location:
        lines.append("     at %s" % _ascii(finding.location))
    evidence = _ascii(finding.evidence).rstrip().split("\n") if finding.evidence.strip() else []
    cut = len(evidence) - EVIDENCE_LINES
    if cut > 1 and not everything:
        evidence = evidence[:EVIDENCE_LINES] + ["... %d more lines (-v shows them)" % cut]
    lines += ["     | " + (line if everything else _cut(line, width - 7)) for line in evidence]
    if finding.consequences:
        names = dict.fromkeys("%s (%s)" % (other.error, other.check) for other in finding.consequences)
        lines += textwrap.wrap(
            "probably explains: " + ", ".join(names), width, initial_indent=" " * 5, subsequent_indent=" " * 7
        )
    return "\n".join(line.rstrip() for line in lines)


def _cut(line, width):
    return line if len(line) <= width else line[: width - 3] + "..."


def _ascii(text):
    """Convert text to ASCII without control characters, so that reported text cannot move the cursor of a terminal."""
    text = str(text).encode("ascii", "backslashreplace").decode()
    return re.sub("[\x00-\x08\x0b-\x1f\x7f]", lambda match: "\\x%02x" % ord(match.group()), text)


def _painter(colour):
    def paint(kind, text):
        return "\033[%sm%s\033[0m" % (_COLOURS[kind], text) if colour else text

    return paint


# ---------------------------------------------------------------- JSON


def to_json(reports):
    """Convert reports to a dict for `json.dump`.

    Parameters
    ----------
    reports : sequence of Report

    Returns
    -------
    dict
        A dict with the keys ``schema``, ``version`` (of the package), ``ok``, ``summary`` and ``reports``; see the
        reference manual.
    """
    from theano_ng.version import version

    reports = list(reports)
    verdicts = [verdict for report in reports for verdict in report.verdicts]
    return {
        "schema": SCHEMA,
        "tool": "theano_ng-audit",
        "version": version,
        "ok": all(report.ok for report in reports),
        "summary": {
            "cases": len(reports),
            "checks": len(verdicts),
            "findings": sum(len(report.findings) for report in reports),
            "failed": sum(verdict.status == "failed" for verdict in verdicts),
            "skipped": sum(verdict.status == "skipped" for verdict in verdicts),
            "errors": sum(bool(report.error) for report in reports),
            "seconds": round(sum(report.seconds for report in reports), 3),
        },
        "reports": [
            {
                "case": report.case,
                "op": report.op,
                "ok": report.ok,
                "seconds": round(report.seconds, 3),
                "error": report.error,
                "causes": [
                    {
                        "check": cause.check,
                        "error": cause.error,
                        "explains": [{"check": f.check, "error": f.error} for f in cause.consequences],
                    }
                    for cause in report.findings
                ],
                "verdicts": [
                    {
                        "check": verdict.check,
                        "status": verdict.status,
                        "examples": verdict.examples,
                        "seconds": round(verdict.seconds, 3),
                        "reason": verdict.reason,
                        "note": verdict.note,
                        "findings": [
                            {
                                "error": finding.error,
                                "meaning": NAMES.get(finding.error, ""),
                                "message": finding.message,
                                "inputs": list(finding.inputs),
                                "evidence": finding.evidence,
                                "location": finding.location,
                                "change": finding.change,
                            }
                            for finding in verdict.findings
                        ],
                    }
                    for verdict in report.verdicts
                ],
            }
            for report in reports
        ],
    }


# ---------------------------------------------------------------- JUnit


def to_junit(reports):
    """Convert reports to the format of JUnit: a test suite for each case, a test case for each check.

    Parameters
    ----------
    reports : sequence of Report

    Returns
    -------
    str
        An XML document.
    """
    from xml.etree import ElementTree

    reports = list(reports)
    root = ElementTree.Element("testsuites", name="theano_ng-audit")
    totals = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    for report in reports:
        counts = {
            "tests": len(report.verdicts) + bool(report.error),
            "failures": sum(verdict.status == "failed" for verdict in report.verdicts),
            "errors": int(bool(report.error)),
            "skipped": sum(verdict.status == "skipped" for verdict in report.verdicts),
        }
        suite = ElementTree.SubElement(root, "testsuite", name=_xml(report.case), time="%.3f" % report.seconds)
        for key, count in counts.items():
            suite.set(key, str(count))
            totals[key] += count
        if report.error:
            test = ElementTree.SubElement(suite, "testcase", classname=_xml(report.case), name="case")
            ElementTree.SubElement(test, "error", message=_xml(report.error))
        for verdict in report.verdicts:
            test = ElementTree.SubElement(
                suite, "testcase", classname=_xml(report.case), name=verdict.check, time="%.3f" % verdict.seconds
            )
            if verdict.status == "skipped":
                ElementTree.SubElement(test, "skipped", message=_xml(verdict.reason))
            elif verdict.status == "failed":
                first = verdict.findings[0] if verdict.findings else None
                failure = ElementTree.SubElement(
                    test,
                    "failure",
                    type=first.error if first else "failed",
                    message=_xml(first.message if first else ""),
                )
                failure.text = _xml("\n\n".join(map(_finding_text, verdict.findings)))
    for key, count in totals.items():
        root.set(key, str(count))
    root.set("time", "%.3f" % sum(report.seconds for report in reports))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _finding_text(finding):
    lines = ["%s: %s" % (finding.error, finding.message)]
    lines += ["with " + finding.change] if finding.change else []
    lines += ["input %d: %s" % (i, text) for i, text in enumerate(finding.inputs)]
    if finding.location:
        lines.append("at " + finding.location)
    if finding.evidence:
        lines += ["", finding.evidence]
    return "\n".join(lines)


def _xml(text):
    """Replace characters that XML does not permit by question marks."""
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", str(text))
