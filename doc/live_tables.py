"""Directives that read the package while the manual is built, so that the reference always agrees with the code.

``.. flags::`` describes every configuration flag, and ``.. rules:: database`` every rule in a database.
``.. names:: module`` describes the names in its content. A build warns of documented names that no page describes.
"""

import importlib
import inspect
import os

import numpy as np
from docutils import nodes
from docutils.statemachine import StringList
from numpydoc.docscrape_sphinx import SphinxDocString
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

logger = logging.getLogger(__name__)


class LiveDirective(SphinxDirective):
    """A directive that generates its content as text and parses the text."""

    def parse(self, lines):
        container = nodes.container()
        source = self.state_machine.input_lines
        self.state.nested_parse(
            StringList(lines, source.source(0) if len(source) else None), self.content_offset, container
        )
        return container.children


def table(header, rows, widths="auto"):
    """Return the lines of a list-table."""
    lines = [".. list-table::", "   :header-rows: 1", "   :widths: %s" % widths, ""]
    for row in [header, *rows]:
        for i, cell in enumerate(row):
            lines.append("   %s %s" % ("* -" if i == 0 else "  -", cell))
    return [*lines, ""]


def values(param):
    """Return the accepted values of a flag, as the text of one cell."""
    allowed = param.allowed()
    if callable(allowed):  # a function checks the values; the flag's text describes them
        return "text"
    return ", ".join(literal(a) for a in allowed) if isinstance(allowed, (tuple, list, set)) else literal(allowed)


def literal(value):
    return "``%s``" % (value,) if value != "" else "empty"


class Flags(LiveDirective):
    """A directive that makes one table of flags for each section."""

    def run(self):
        from theano_ng import configparser

        sections = {}
        for param in configparser._config_var_list:
            section, _, _ = param.fullname.rpartition(".")
            sections.setdefault(section, []).append(param)
        lines = []
        for section in sorted(sections):
            lines += [".. rubric:: %s" % (section or "Flags without a section"), ""]
            rows = []
            for param in sections[section]:
                # A computed default depends on the machine, so the table does not show its value.
                default = "computed" if callable(param.default) else literal(param.default)
                rows.append(("``%s``" % param.fullname, values(param), default, " ".join(param.doc.split())))
            lines += table(("flag", "values", "default", "meaning"), rows)
        return self.parse(lines)


class Rules(LiveDirective):
    """A directive that lists the rules of a database of `optdb`, or of `optdb` itself.

    Each row has the tags by which modes select the rule, and the first paragraph of its docstring.
    """

    optional_arguments = 1

    def run(self):
        from theano_ng.compile import optdb
        from theano_ng.gof.optdb import Query

        optdb.query(Query(include=["fast_run"]))  # the first query registers the rules of all subpackages
        database = optdb[self.arguments[0]] if self.arguments else optdb
        database = getattr(database, "db", database)
        tags = {}
        for tag, rules in database.__db__.items():
            for rule in rules:
                tags.setdefault(rule, []).append(tag)
        named = {rule.name: rule for rule in tags if rule.name}
        order = getattr(database, "__position__", {})
        rows = []
        for name in sorted(named, key=lambda name: (order.get(name, 0), name)):
            rule = named[name]
            own = sorted(t for t in tags[rule] if t not in (name, type(rule).__name__, *self.arguments))
            made_of = (rule, getattr(rule, "local_opt", None))
            said = next((r.__doc__ for r in made_of if r is not None and r.__doc__ != type(r).__doc__), None)
            place = ("%g" % order[name],) if order else ()
            rows.append((*place, "``%s``" % name, ", ".join(own), first_sentence(said) if said else ""))
        header = ("rule", "tags", "what it does")
        widths = "8 34 18 40" if order else "36 18 46"
        return self.parse(table((("position",) if order else ()) + header, rows, widths))


def first_sentence(text):
    """Return the first paragraph of a docstring in one line, escaped for a table."""
    return " ".join(inspect.cleandoc(text).split("\n\n")[0].split()).replace("*", r"\*").replace("|", r"\|")


class Names(LiveDirective):
    """A directive that describes the named attributes of a module, with signatures, anchors and index entries."""

    required_arguments = 1
    has_content = True

    def run(self):
        name = self.arguments[0]
        module = importlib.import_module(name)
        lines, values = [], []
        for word in " ".join(self.content).split():
            thing = getattr(module, word)
            path = "%s.%s" % (name, word)
            if inspect.isclass(thing):
                lines += [".. autoclass:: %s" % path, "   :members:", "   :special-members: __call__, __getitem__", ""]
            elif inspect.isroutine(thing):
                lines += [".. autofunction:: %s" % path, ""]
            elif callable(thing):
                lines += described("function", name, word + str(inspect.signature(thing)), thing)
            else:
                values += described("data", name, word, thing)
        # Import the documented names before the examples, because examples in docstrings do not import them.
        setup = [".. testsetup::", "", "   from %s import %s" % (name, ", ".join(" ".join(self.content).split())), ""]
        return self.parse(setup + values + lines)


def described(kind, module, signature, thing):
    """Return the lines of a directive that describes an object that is neither a class nor a Python function."""
    own = thing.__doc__ if thing.__doc__ != type(thing).__doc__ and not isinstance(thing, np.ndarray) else None
    if own:
        text = str(SphinxDocString(own, config={})).splitlines()
    elif type(thing).__module__ in ("builtins", "numpy"):
        text = ["%s." % type(thing).__name__.capitalize()]
    else:
        text = ["An instance of `%s`: ``%s``." % (type(thing).__name__, " ".join(str(thing).split()))]
    return [".. py:%s:: %s" % (kind, signature), "   :module: %s" % module, "", *("   " + line for line in text), ""]


def warn_of_undocumented(app, env):
    """Warn of names in ``documented_names.txt`` that no page describes. A description under another name counts."""
    objects = env.get_domain("py").objects
    things = map(resolve, objects)
    found = {id(identity(thing)) for thing in things if callable(thing) or isinstance(thing, property)}
    with open(os.path.join(app.srcdir, "documented_names.txt")) as names:
        wanted = [line.strip() for line in names if line.strip() and not line.startswith("#")]
    for path in wanted:
        if path not in objects and id(identity(resolve(path))) not in found:
            logger.warning("%s is described by no page of the reference", path)


def identity(thing):
    """Return the function of a bound method or class method, and any other object unchanged."""
    return getattr(thing, "__func__", thing)


def resolve(path):
    """Return the object with a dotted path, or None if there is no such object."""
    module, _, name = path.rpartition(".")
    try:
        return importlib.import_module(path)
    except ImportError:
        owner = resolve(module) if module else None
        return getattr(owner, name, None)


def setup(app):
    app.add_directive("flags", Flags)
    app.add_directive("names", Names)
    app.add_directive("rules", Rules)
    app.connect("env-check-consistency", warn_of_undocumented)
    return {"parallel_read_safe": True}
