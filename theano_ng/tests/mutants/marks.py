"""Marks in source code. They record which statements of Python functions and which blocks of C functions a test runs.

A mark is a store into an array of bytes, so that marked code is hardly slower. Marks are numbered consecutively over
all files.
"""

import ast
import bisect
import json
import os

from theano_ng.tests.mutants import c_changes, python_changes
from theano_ng.tests.mutants.records import digest, read

PYTHON_NAME = "__reached__"  # among the builtins
C_NAME = "reached_marks"
C_HEADER = "__attribute__((weak)) unsigned char %s[%d];\n"


class Marks:
    """The marks of some files.

    Parameters
    ----------
    paths : list of str
    kept : str, optional
        A file that stores the positions of marks for later runs.

    Attributes
    ----------
    first : dict
        Path -> number of the first mark of the file.
    spans : dict
        Path -> list of (start, end) in bytes, in the order of the source code.
    digests : dict
        Path -> digest of the source code and its marks.
    count : int
    """

    def __init__(self, paths, kept=None):
        self.first, self.spans, self.digests, self.count = {}, {}, {}, 0
        known = _load(kept)
        for path in paths:
            source = read(path)
            spans = known.get(path, {}).get(digest(source))
            if spans is None:
                spans = python_spans(source) if path.endswith(".py") else c_spans(source)
                known[path] = {digest(source): spans}
            self.first[path] = self.count
            self.spans[path] = [tuple(span) for span in spans]
            self.digests[path] = digest(repr((source, self.spans[path])))
            self.count += len(self.spans[path])
        if kept is not None:
            with open(kept, "w") as file:
                json.dump(known, file)

    @property
    def layout(self):
        """The path, digest and number of marks of each file, in the order of the marks."""
        return [[path, self.digests[path], len(spans)] for path, spans in self.spans.items()]

    def number(self, path, start):
        """Return the number of the innermost mark whose span contains a byte of a file, or None if there is none."""
        spans = self.spans[path]
        for i in range(bisect.bisect_right(spans, (start, 1 << 60)) - 1, -1, -1):
            if spans[i][0] <= start < spans[i][1]:
                return self.first[path] + i
        return None

    def numbers(self, path):
        """Return the numbers of the marks of a file."""
        return range(self.first[path], self.first[path] + len(self.spans[path]))

    def marked(self, path):
        """Return the code of a file after marks are inserted: a syntax tree of Python, or C source code."""
        return (_marked_python if path.endswith(".py") else _marked_c)(read(path), self.first[path])


def _load(kept):
    """Load stored marks from a file. Marks that another version of this module stored are not used."""
    program = digest(
        b"".join(
            read(os.path.join("tests", "mutants", name)) for name in ("marks.py", "c_changes.py", "python_changes.py")
        )
    )
    if kept is not None and os.path.exists(kept):
        with open(kept) as file:
            known = json.load(file)
        if known["program"] == program:
            return known
    return {"program": program}


# -- Python


def _marked_nodes(text):
    """Return the statements of functions and the bodies of lambdas, in the order of the source code."""
    found = []
    for function in ast.walk(text.tree):
        if isinstance(function, ast.Lambda):
            found.append(function.body)
        elif isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found += [n for s in function.body for n in ast.walk(s) if isinstance(n, ast.stmt)]
    unique = {(*text.span(node), isinstance(node, ast.stmt)): node for node in found}
    return [unique[key] for key in sorted(unique, key=lambda key: (key[0], -key[1]))]


def python_spans(source):
    """Return the spans of Python source code that have marks."""
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
            return node  # do not mark a docstring: it must stay the first statement
        mark = ast.parse("%s[%d] = 1" % (PYTHON_NAME, own)).body[0]
        for part in ast.walk(mark):
            ast.copy_location(part, node)
        return [mark, node]


# -- C


def _blocks(source):
    """Yield (start, end) of each C block that may begin with a statement. The start is after the opening brace."""
    text = source.decode("ascii")
    for function in c_changes.functions(text):
        tokens = c_changes.tokens(text, function.start, function.end)
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
    """Return True if a parenthesis belongs to a function header or a statement, not to a switch, struct or macro."""
    words = [t.text for t in tokens[max(opened - 2, 0) : opened]]
    return (
        bool(words) and words[-1] != "switch" and words[0] != "struct" and (opened > 1 or function.inside is not None)
    )


def c_spans(source):
    """Return the spans of C source code that have marks."""
    return sorted(set(_blocks(source)))


def _marked_c(source, first):
    parts, last = [], 0
    for i, (start, _) in enumerate(c_spans(source)):
        parts += [source[last:start], b" %s[%d] = 1;" % (C_NAME.encode(), first + i)]
        last = start
    return b"".join([*parts, source[last:]])
