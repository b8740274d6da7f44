"""The results of a campaign as a table of reStructuredText, and survivors as text."""

import collections
import fnmatch

from theano_ng.tests.mutants.equivalents import EQUIVALENT

COLUMNS = ("mutants", "at first", "caught", "equivalent", "survived")  # "at first": caught by the first trial
AREAS = (  # the first whose pattern fits
    ("devices", "gpuarray/*"),
    ("C of native Ops", "*.[ch]"),
    ("rewriting engine", "gof/*"),
    ("writers of kernels", "tensor/elemwise/*.py"),
    ("writers of kernels", "scan/*kernel.py"),
    ("writers of kernels", "scan/array_text.py"),
    ("rules", "*"),
)


def area(path):
    """The part of the package that a file belongs to."""
    return next(name for name, pattern in AREAS if fnmatch.fnmatch(path, pattern))


def verdict(key, result):
    """ "caught", "equivalent" or "survived"."""
    return "equivalent" if key in EQUIVALENT and result["outcome"] == "survived" else result["outcome"]


def counted(found, keys, by="path"):
    """Rows of counts.

    Parameters
    ----------
    found : dict
        Of `Results`.
    keys : list of str
        Of the sample.
    by : str
        What the rows are: "path", "area" or "kind".

    Returns
    -------
    dict
        Row -> Counter of `COLUMNS`.
    """
    rows = collections.defaultdict(collections.Counter)
    for key in keys:
        result = found[key]
        row = area(result["path"]) if by == "area" else result[by]
        at_first = ["at first"] if result.get("at first", result["outcome"]) == "caught" else []
        rows[row].update(["mutants", verdict(key, result), *at_first])
    return rows


def share(counts):
    """The part that is caught, of mutants that are other programs."""
    other = counts["mutants"] - counts["equivalent"]
    return counts["caught"] / other if other else 1.0


def share_at_first(counts):
    """The part that the first trial caught, before anybody has read a survivor."""
    other = counts["mutants"] - counts["equivalent"]
    return counts["at first"] / other if other else 1.0


def total(rows):
    """The sum of all rows."""
    return sum(rows.values(), collections.Counter())


def table(found, keys, by="path"):
    """A table of reStructuredText."""
    rows = counted(found, keys, by)
    lines = [".. list-table::", "   :header-rows: 1", ""]
    lines += _row((by.replace("path", "file"), *COLUMNS, "% caught"))
    for name, counts in [*sorted(rows.items()), ("all", total(rows))]:
        shown = "``%s``" % name if by == "path" and name != "all" else name
        lines += _row((shown, *[counts[column] for column in COLUMNS], "%.0f" % (100 * share(counts))))
    return "\n".join(lines) + "\n"


def _row(cells):
    return ["   %s - %s" % (" " if i else "*", cell) for i, cell in enumerate(cells)]


def ways(found, keys):
    """Who caught how many: cases that failed, crashes, time limits."""
    counts = collections.Counter()
    for key in keys:
        result = found[key]
        if result["outcome"] == "caught":
            how = result.get("how", "")
            counts[
                "a crash"
                if how.startswith("status")
                else how
                if how == "timed out"
                else result["case"].partition(" ")[0]
            ] += 1
    return counts


def seconds(found, keys):
    """What a trial takes, on average of those of which it is known."""
    known = [found[key]["seconds"] for key in keys if "seconds" in found[key]]
    return sum(known) / len(known) if known else 0.0


def survivors(found, keys):
    """What is left to read: keys, places and differences."""
    return "\n".join(
        "%s  %s:%d  %s  %s\n%s" % (key, r["path"], r["line"], r["function"], r["kind"], _lines(r["diff"]))
        for key, r in ((key, found[key]) for key in keys)
        if verdict(key, r) == "survived"
    )


def _lines(diff):
    return "".join(
        "    " + line for line in diff.splitlines(True) if line[:1] in "+-" and line[:3] not in ("+++", "---")
    )
