"""The results of a campaign as a table of reStructuredText, and survivors as text."""

import collections

from theano_ng.tests.mutants.equivalents import EQUIVALENT

COLUMNS = ("mutants", "caught", "equivalent", "survived")


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
        What the rows are: "path" or "kind".

    Returns
    -------
    dict
        Row -> Counter of `COLUMNS`.
    """
    rows = collections.defaultdict(collections.Counter)
    for key in keys:
        rows[found[key][by]].update(["mutants", verdict(key, found[key])])
    return rows


def share(counts):
    """The part that is caught, of mutants that are other programs."""
    other = counts["mutants"] - counts["equivalent"]
    return counts["caught"] / other if other else 1.0


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
