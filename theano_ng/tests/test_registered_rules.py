"""Tests that all rules are registered with the names, positions, tags and tracked Ops that a table lists.

Programs select rules by this data. ``python -m theano_ng.tests.test_registered_rules`` writes the table. Read each
changed line before you commit it.
"""

import os
import subprocess
import sys
import unittest

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "registered_rules.txt")
# Arguments of databases and optimizers that determine the order in which nodes are visited.
OPTIONS = "order ignore_newtrees tracks_on_change_inputs max_use_ratio apply_all_opts".split()
HEADER = "database | position | name | class and options | tags | tracks"


def databases():
    """Return a dict from name to database: optdb and all databases inside it, with the rules of devices loaded."""
    import theano_ng.gpuarray  # noqa: F401, the import registers databases
    from theano_ng.audit.rewrites.registry import load_all
    from theano_ng.compile.mode import optdb
    from theano_ng.gof.optdb import DB

    load_all()
    found, todo = {}, [("optdb", optdb)]
    for name, database in todo:
        if name not in found:
            found[name] = database
            todo += [(obj.name, obj) for obj in database._order if isinstance(obj, DB)]
    return found


def _name(tracked):
    return tracked.__name__ if isinstance(tracked, type) else str(tracked)


def _tracks(obj):
    tracks = obj.tracks() if hasattr(obj, "tracks") else None
    return "any" if tracks is None else " ".join(sorted(map(_name, tracks)))


def _options(obj):
    given = [(name, getattr(obj, name)) for name in OPTIONS if hasattr(obj, name)]
    return " ".join([type(obj).__name__, *("%s=%s" % pair for pair in given)])


def _row(database, obj):
    position = getattr(database, "__position__", {}).get(obj.name, "")
    tags = " ".join(tag for tag in database._tags_of(obj) if tag not in (type(obj).__name__, database.name))
    return " | ".join((str(position), obj.name, _options(obj), tags, _tracks(obj)))


def _is_listed(obj):
    """Return False for rules that a test has registered."""
    module = getattr(getattr(obj, "fn", None), "__module__", None) or type(obj).__module__
    return ".tests." not in module


def rows():
    """Return the lines of the table: every registration of every database, sorted by position and name."""
    found = [HEADER]
    for name, database in sorted(databases().items()):
        listed = [obj for obj in database._order if _is_listed(obj)]
        listed.sort(key=lambda obj: (getattr(database, "__position__", {}).get(obj.name, 0), obj.name))
        found += ["%s | %s" % (name, _row(database, obj)) for obj in listed]
    return found


def difference():
    """Return the first line that differs from the table, and the expected line. Return None if no line differs."""
    with open(TABLE) as file:
        known = file.read().splitlines()
    found = rows()
    for expected, got in zip(known, found):
        if expected != got:
            return "%s\ninstead of\n%s" % (got, expected)
    return None if len(known) == len(found) else "%d registrations instead of %d" % (len(found), len(known))


class TestRegisteredRules(unittest.TestCase):
    def test_as_in_the_table(self):
        """In a new process, all registrations are as in the table. (Other tests register rules and change tags.)"""
        code = "from theano_ng.tests.mutants import killers; print(killers.run('own registrations'))"
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
        self.assertEqual((done.stdout, done.stderr), ("None\n", ""))


if __name__ == "__main__":
    text = "\n".join(rows()) + "\n"
    with open(TABLE, "w") as file:
        file.write(text)
