"""reStructuredText tables of the results of mutation testing, and a list of the mutants that survived."""

import collections
import fnmatch

from theano_ng.tests.mutants.equivalents import EQUIVALENT

COLUMNS = ("mutants", "at first", "caught", "equivalent", "survived")  # "at first": caught by the first trial
AREAS = (  # a file belongs to the first area whose pattern matches
    ("devices", "gpuarray/*"),
    ("C of native Ops", "*.[ch]"),
    ("rewriting engine", "gof/*"),
    ("writers of kernels", "loops/*.py"),
    ("writers of kernels", "tensor/elemwise/*.py"),
    ("writers of kernels", "scan/*kernel.py"),
    ("writers of kernels", "scan/array_source.py"),
    ("rules", "*"),
)


def area(path):
    """Return the area of the package to which a file belongs."""
    return next(name for name, pattern in AREAS if fnmatch.fnmatch(path, pattern))


def verdict(key, result):
    """Return the outcome of a mutant: "caught", "equivalent", "survived" or "refused"."""
    return "equivalent" if key in EQUIVALENT and result["outcome"] == "survived" else result["outcome"]


def counted(found, keys, by="path"):
    """Count the outcomes of mutants in groups.

    Parameters
    ----------
    found : dict
        The attribute `found` of `Results`.
    keys : list of str
        The keys of the mutants in the sample.
    by : str
        The attribute by which mutants are grouped: "path", "area" or "kind".

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
    """Return the share of caught mutants among the mutants that are not equivalent."""
    other = counts["mutants"] - counts["equivalent"]
    return counts["caught"] / other if other else 1.0


def share_at_first(counts):
    """Return the share of mutants that were caught by their first trial.

    Mutants that are equivalent are not counted.
    """
    other = counts["mutants"] - counts["equivalent"]
    return counts["at first"] / other if other else 1.0


def total(rows):
    """Return the sum of all rows."""
    return sum(rows.values(), collections.Counter())


def table(found, keys, by="path"):
    """Return a table in reStructuredText."""
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
    """Return the number of mutants that each killer caught. Crashes and timeouts are counted separately."""
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
    """Return the average time of a trial in seconds, over the trials whose time is known."""
    known = [found[key]["seconds"] for key in keys if "seconds" in found[key]]
    return sum(known) / len(known) if known else 0.0


def survivors(found, keys):
    """Return a text about the survivors, which a person has to read: their keys, positions and diffs."""
    return "\n".join(
        "%s  %s:%d  %s  %s\n%s" % (key, r["path"], r["line"], r["function"], r["kind"], _lines(r["diff"]))
        for key, r in ((key, found[key]) for key in keys)
        if verdict(key, r) == "survived"
    )


def _lines(diff):
    return "".join(
        "    " + line for line in diff.splitlines(True) if line[:1] in "+-" and line[:3] not in ("+++", "---")
    )
