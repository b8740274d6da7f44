"""The directive ``.. markdown:: FILE``, which inserts a Markdown file of the repository into a page.

It supports the syntax that files of the repository use: headings, paragraphs, lists, tables, indented and fenced
code, and `code`, **bold** and links in text. Headings of the first level are omitted, because the page has a title.
``:from:`` and ``:to:`` select a range between headings of the second level.
"""

import os
import re

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import nested_parse_with_titles


def inline(text):
    """Convert text with inline markup to reStructuredText."""
    parts = re.split(r"(`[^`]*`|\*\*[^*]+\*\*|\[[^]]+\]\([^)]+\))", text)
    return "".join(span(part) if i % 2 else re.sub(r"([\\*|_`])", r"\\\1", part) for i, part in enumerate(parts))


def span(part):
    """Convert `code`, bold text or a link to reStructuredText."""
    if part.startswith("`"):
        return "\\ ``%s``\\ " % part[1:-1] if part.strip("`") else part
    if part.startswith("**"):
        return "\\ **%s**\\ " % re.sub(r"`", "", part[2:-2])
    text, target = re.fullmatch(r"\[([^]]+)\]\(([^)]+)\)", part).groups()
    return "\\ `%s <%s>`__\\ " % (text, target) if "://" in target else "\\ ``%s``\\ " % target


def blocks(lines):
    """Yield the blocks of a Markdown text (headings, paragraphs, items, tables, code) as lists of lines."""
    block, fenced = [], False
    for line in lines:
        if line.startswith("```"):
            fenced = not fenced
        starts = not fenced and re.match(r"#+ |[-*] |\d+\. ", line)
        if not fenced and (not line.strip() or starts):
            if block:
                yield block
            block = []
        if line.strip() or fenced:
            block.append(line)
        if starts and line.startswith("#"):
            yield block
            block = []
    if block:
        yield block


def table(lines):
    """Yield the lines of a list-table for a Markdown table."""
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))] for line in lines]
    width = max(len(row) for row in rows)
    yield from (".. list-table::", "   :header-rows: 1", "   :widths: auto", "")
    for row in rows[:1] + rows[2:]:
        for i, cell in enumerate(row + [""] * (width - len(row))):
            yield ("   * - %s" if i == 0 else "     - %s") % inline(cell)


def converted(lines):
    """Yield the lines of a Markdown file in reStructuredText."""
    for block in blocks(lines):
        heading = re.match(r"(#+) (.*)", block[0])
        if heading:
            if len(heading[1]) > 1:
                yield inline(heading[2])
                yield "-~\"'"[len(heading[1]) - 2] * (2 * len(heading[2]) + 8)
        elif block[0].startswith("```"):
            yield from (".. code-block:: %s" % (block[0][3:].strip() or "text"), "")
            yield from ("   " + line for line in block[1:-1])
        elif block[0].startswith("|"):
            yield from table(block)
        elif block[0].startswith("    "):
            yield from ("::", "")
            yield from block
        else:
            # Join the lines first: inline code may continue in the next line.
            yield (
                inline(" ".join(line.strip() for line in block))
                if not block[0].startswith(("- ", "* "))
                else "- " + inline(" ".join(line.strip() for line in block)[2:])
            )
        yield ""


class Markdown(SphinxDirective):
    """A Markdown file, or the sections that the options select."""

    required_arguments = 1
    option_spec = {"from": directives.unchanged, "to": directives.unchanged}

    def run(self):
        _, path = self.env.relfn2path(self.arguments[0])
        self.env.note_dependency(path)
        with open(path, encoding="utf-8") as text:
            lines = text.read().splitlines()
        first, last = self.options.get("from"), self.options.get("to")
        start = lines.index("## " + first) if first else 0
        end = lines.index("## " + last) if last else len(lines)
        content = StringList(list(converted(lines[start:end])), source=os.path.relpath(path, self.env.srcdir))
        parent = nodes.section()
        parent.document = self.state.document
        nested_parse_with_titles(self.state, content, parent)
        return parent.children


def setup(app):
    app.add_directive("markdown", Markdown)
    return {"parallel_read_safe": True}
