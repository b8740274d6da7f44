"""Marks in texts, which say what a test has run: statements of Python functions, blocks of C functions.

A mark is a store into an array of bytes, so that marked code takes hardly longer. Marks are numbered through all texts.
"""

import ast
import bisect

from theano_ng.tests.mutants import c_changes, python_changes
from theano_ng.tests.mutants.records import digest, read

PYTHON_NAME = "__reached__"  # among the builtins
C_NAME = "reached_marks"
C_HEADER = "__attribute__((weak)) unsigned char %s[%d];\n"


class Marks:
    """The marks of some files.

    Attributes
    ----------
    first : dict
        Path -> number of its first mark.
    spans : dict
        Path -> list of (start, end) in bytes, in the order of the text.
    digests : dict
        Path -> digest of the text.
    count : int
    """

    def __init__(self, paths):
        self.first, self.spans, self.digests, self.count = {}, {}, {}, 0
        for path in paths:
            source = read(path)
            self.first[path] = self.count
            self.digests[path] = digest(source)
            self.spans[path] = python_spans(source) if path.endswith(".py") else c_spans(source)
            self.count += len(self.spans[path])

    def number(self, path, start):
        """The number of the innermost mark around a byte of a text; None where there is none."""
        spans = self.spans[path]
        for i in range(bisect.bisect_right(spans, (start, 1 << 60)) - 1, -1, -1):
            if spans[i][0] <= start < spans[i][1]:
                return self.first[path] + i
        return None

    def numbers(self, path):
        """All numbers of a file's marks."""
        return range(self.first[path], self.first[path] + len(self.spans[path]))

    def marked(self, path):
        """A file's text with marks: a tree of Python, a text of C."""
        return (_marked_python if path.endswith(".py") else _marked_c)(read(path), self.first[path])


# -- Python


def _marked_nodes(text):
    """Statements of functions and bodies of lambdas, in the order of the text."""
    found = []
    for function in ast.walk(text.tree):
        if isinstance(function, ast.Lambda):
            found.append(function.body)
        elif isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found += [n for s in function.body for n in ast.walk(s) if isinstance(n, ast.stmt)]
    unique = {(*text.span(node), isinstance(node, ast.stmt)): node for node in found}
    return [unique[key] for key in sorted(unique, key=lambda key: (key[0], -key[1]))]


def python_spans(source):
    """The spans that marks stand for in a Python text."""
    text = python_changes.Text(source)
    return sorted({text.span(node) for node in _marked_nodes(text)})


def _marked_python(source, first):
    text = python_changes.Text(source)
    nodes = _marked_nodes(text)
    spans = sorted({text.span(node) for node in nodes})
    number = {id(node): first + bisect.bisect_left(spans, text.span(node)) for node in nodes}
    return ast.fix_missing_locations(_Marker(number).visit(text.tree))


class _Marker(ast.NodeTransformer):
    def __init__(self, number):
        self.number = number

    def generic_visit(self, node):
        own = self.number.get(id(node))
        super().generic_visit(node)
        if own is None:
            return node
        if isinstance(node, ast.expr):
            text = "(%s.__setitem__(%d, 1), None)[1]" % (PYTHON_NAME, own)
            marked = ast.parse(text, mode="eval").body
            marked.value.elts[1] = node
            return ast.copy_location(marked, node)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return node  # a docstring stays the first
        mark = ast.parse("%s[%d] = 1" % (PYTHON_NAME, own)).body[0]
        for part in ast.walk(mark):
            ast.copy_location(part, node)
        return [mark, node]


# -- C


def _blocks(source):
    """(start, end) of each block of a C text, from its opening brace on, and whether a statement may stand first in it."""
    text = source.decode("ascii")
    everything = c_changes.tokens(text)
    for function in c_changes.functions(text):
        tokens = [t for t in everything if function.start <= t.start < function.end and t.kind not in ("end", "define")]
        open_braces, open_parens = [], []
        for i, token in enumerate(tokens):
            before = tokens[i - 1].text if i else ""
            if token.text == "(":
                open_parens.append(i)
            elif token.text == ")" and open_parens:
                opened = open_parens.pop()
            elif token.text == "{":
                apart = i and tokens[i - 1].end < token.start
                is_block = (
                    before in ("else", "do") or before == ")" and apart and _heads_block(tokens, opened, function)
                )
                open_braces.append(token.end if is_block else None)
            elif token.text == "}" and open_braces:
                start = open_braces.pop()
                if start is not None:
                    yield start, token.start


def _heads_block(tokens, opened, function):
    """Whether a bracket that opens belongs to a function's header or a statement: not to a switch, a struct's name, or a macro's own."""
    words = [t.text for t in tokens[max(opened - 2, 0) : opened]]
    return (
        bool(words) and words[-1] != "switch" and words[0] != "struct" and (opened > 1 or function.inside is not None)
    )


def c_spans(source):
    """The spans that marks stand for in a C text."""
    return sorted(set(_blocks(source)))


def _marked_c(source, first):
    parts, last = [], 0
    for i, (start, _) in enumerate(c_spans(source)):
        parts += [source[last:start], b" %s[%d] = 1;" % (C_NAME.encode(), first + i)]
        last = start
    return b"".join([*parts, source[last:]])
