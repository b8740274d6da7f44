"""Directives that read the package while the manual is built, so that the reference cannot fall behind it.

``.. flags::`` describes every configuration flag. ``.. names:: module`` describes the names listed below it: functions and classes by their
docstrings, other objects (elementwise operations, types) in a table with what they say about themselves.
"""

import importlib
import inspect

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective


class LiveDirective(SphinxDirective):
    """A directive whose content is made as text and then parsed."""

    def parse(self, lines):
        container = nodes.container()
        source = self.state_machine.input_lines
        self.state.nested_parse(
            StringList(lines, source.source(0) if len(source) else None), self.content_offset, container
        )
        return container.children


def table(header, rows):
    """Lines of a list-table."""
    lines = [".. list-table::", "   :header-rows: 1", "   :widths: auto", ""]
    for row in [header, *rows]:
        for i, cell in enumerate(row):
            lines.append("   %s %s" % ("* -" if i == 0 else "  -", cell))
    return [*lines, ""]


def values(param):
    """What a flag accepts, as one cell."""
    allowed = param.allowed()
    if callable(allowed):  # a function decides; what it accepts is in the flag's text
        return "text"
    return ", ".join(literal(a) for a in allowed) if isinstance(allowed, (tuple, list, set)) else literal(allowed)


def literal(value):
    return "``%s``" % (value,) if value != "" else "empty"


class Flags(LiveDirective):
    """All flags, a table for each section."""

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
                # A default that is computed says something about this machine only.
                default = "computed" if callable(param.default) else literal(param.default)
                rows.append(("``%s``" % param.fullname, values(param), default, " ".join(param.doc.split())))
            lines += table(("flag", "values", "default", "meaning"), rows)
        return self.parse(lines)


class Names(LiveDirective):
    """What the named attributes of a module are."""

    required_arguments = 1
    has_content = True

    def run(self):
        name = self.arguments[0]
        module = importlib.import_module(name)
        lines, rows = [], []
        for word in " ".join(self.content).split():
            thing = getattr(module, word)
            if inspect.isclass(thing):
                lines += [".. autoclass:: %s.%s" % (name, word), "   :members:", ""]
            elif inspect.isroutine(thing):
                lines += [".. autofunction:: %s.%s" % (name, word), ""]
            else:
                said = thing.__doc__ if thing.__doc__ != type(thing).__doc__ else None
                rows.append(("``%s``" % word, first_sentence(said) if said else "``%s``" % thing))
        # Examples in docstrings name what they explain without importing it.
        setup = [".. testsetup::", "", "   from %s import %s" % (name, ", ".join(" ".join(self.content).split())), ""]
        return self.parse(setup + (table(("name", "what it is"), rows) if rows else []) + lines)


def first_sentence(text):
    """The first paragraph of a docstring, in one line and safe in a table."""
    return " ".join(inspect.cleandoc(text).split("\n\n")[0].split()).replace("*", r"\*").replace("|", r"\|")


def setup(app):
    app.add_directive("flags", Flags)
    app.add_directive("names", Names)
    return {"parallel_read_safe": True}
