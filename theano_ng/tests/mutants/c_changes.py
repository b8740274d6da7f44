"""Proposes changes of the tokens of C source code.

The code has the style of this package: binary operators have a space on either side. Macros are changed like functions.
"""

import re
from typing import NamedTuple

from theano_ng.tests.mutants.records import Mutant, Words

_TOKENS = re.compile(
    r"""(?P<comment>/\*.*?\*/|//[^\n]*)
    |(?P<directive>^[ \t]*\#[ \t]*(?:include|if|ifdef|ifndef|elif|else|endif|undef|pragma|error|line)\b(?:\\\n|[^\n])*)
    |(?P<define>^[ \t]*\#[ \t]*define\b)
    |(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    |(?P<number>(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[uUlLfF]*)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<continued>\\\n)
    |(?P<end>\n)
    |(?P<operator><<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\#\#|[-+*/%<>=!~&|^?:;,.(){}\[\]\#])
    |(?P<space>[ \t\r\f]+)
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_WORDS = {
    "if",
    "for",
    "while",
    "switch",
    "return",
    "sizeof",
    "do",
    "else",
    "case",
    "break",
    "continue",
    "goto",
    "default",
    "_Pragma",
}
_SWAPPED = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+": "-", "-": "+", "*": "+",
    "/": "*", "%": "/", "<<": ">>", ">>": "<<", "&": "|", "|": "&", "^": "|", "+=": "-=", "-=": "+=", "*=": "+=", "|=": "&=",
    "&=": "|=", "++": "--", "--": "++",
}  # fmt: skip
_SPACED = {"<", ">", "+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"}
# Calls for error messages, reference counts and unused parameters are not changed. Either no result depends on such a
# call, or tools that check memory detect its change.
_LEFT_ALONE = re.compile(
    r"PyErr_\w+|Py_X?DECREF|Py_X?INCREF|Py_CLEAR|PyMem_\w+|free|release_memory|_Pragma|NATIVE_FUNCTION|\w*prefetch\w*"
)


class Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


class Function(NamedTuple):
    """A function or macro: its name, its start and end, and the position after its opening brace (None for a macro)."""

    name: str
    start: int
    end: int
    inside: int | None


def tokens(text, start=0, end=None, apart=("comment", "space", "continued", "directive", "end", "define")):
    """Return the tokens of a part of C source code. Tokens of the kinds `apart` are left out."""
    found = _TOKENS.finditer(text, start, len(text) if end is None else end)
    return [Token(m.lastgroup, m.group(), m.start(), m.end()) for m in found if m.lastgroup not in apart]


def _words(text):
    """Return the pairs (start, token) of source code, without comments and white space."""
    return [(t.start, t.text) for t in tokens(text, apart=("comment", "space", "continued", "end"))]


def functions(text):
    """Return the functions and macros of C source code in order. A function in a macro is a part of the macro."""
    found, i, all_tokens = [], 0, tokens(text, apart=("comment", "space", "continued", "directive"))
    depth, header = 0, 0
    while i < len(all_tokens):
        token = all_tokens[i]
        if token.kind == "define":
            last = next((j for j in range(i, len(all_tokens)) if all_tokens[j].kind == "end"), len(all_tokens) - 1)
            found.append(Function(all_tokens[i + 1].text, token.start, all_tokens[last].start, None))
            i = header = last + 1
            continue
        if token.text == "{":
            if not depth:
                name = _defined(all_tokens[header:i])
                start, inside = all_tokens[header].start, token.end
            depth += 1
        elif token.text == "}":
            depth -= 1
            if not depth:
                if name:
                    found.append(Function(name, start, token.end, inside))
                header = i + 1
        elif token.text == ";" and not depth:
            header = i + 1
        i += 1
    return found


def _defined(header):
    """Return the name of the function that a header begins. Return None for a struct or a table."""
    texts = [t for t in header if t.kind != "end"]
    if not texts or texts[-1].text != ")" or any(t.text == "=" for t in texts):
        return None
    first = next((i for i, t in enumerate(texts) if t.text == "(" and _closing(texts, i) == len(texts) - 1), 0)
    if not first or texts[first - 1].text not in (")",) and texts[first - 1].kind != "name":
        return None
    # A macro may build the name: TYPED(name)(...).
    name = max(i for i in range(first) if texts[i].kind == "name")
    return None if texts[max(name - 1, 0)].text in ("struct", "union", "enum") else texts[name].text


def _closing(texts, i):
    """Return the position at which the bracket that opens at `i` closes. Return None if it does not close."""
    depth = 0
    for j in range(i, len(texts)):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(texts[j].text, 0)
        if not depth:
            return j
    return None


def changes(path, source):
    """Return all mutants of C source code, in the order of the code. Not all of them compile.

    Parameters
    ----------
    path : str
    source : bytes

    Returns
    -------
    list of Mutant
    """
    text = source.decode("ascii")
    found, words = [], Words(path, text, _words)
    for function in functions(text):
        inside = tokens(text, function.start, function.end)
        if function.inside is None:
            inside = inside[_closing(inside, 1) + 1 if len(inside) > 1 and text[inside[0].end] == "(" else 1 :]
        else:
            inside = [t for t in inside if t.start >= function.inside][:-1]
        by_edit = {}
        for kind, start, end, new in _Finder(text, inside).found():
            by_edit.setdefault((start, end, new), kind)
        span = function.start, function.end
        for (start, end, new), kind in by_edit.items():
            old = text[start:end]
            lost = old.count("\n") - new.count("\n")
            new += ("\\\n" if function.inside is None else "\n") * lost
            line = text.count("\n", 0, start) + 1
            key = words.key(kind, function.name, span, start, old, new)
            found.append(Mutant(path, kind, function.name, start, end, line, old, new, key))
    return sorted(found, key=lambda m: (m.start, m.end, m.kind, m.new))


class _Finder:
    """An object that proposes changes in the tokens of the body of a function or macro."""

    def __init__(self, text, inside):
        self.text, self.tokens = text, inside

    def at(self, i):
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    def between(self, i, j):
        """Return the source code of tokens i to j, both included."""
        return self.text[self.tokens[i].start : self.tokens[j].end]

    def found(self):
        i = 0
        while i < len(self.tokens):
            token = self.tokens[i]
            if _LEFT_ALONE.fullmatch(token.text) and self.at(i + 1) == "(":
                i = (_closing(self.tokens, i + 1) or i) + 1
                continue
            if token.kind == "number" and not self.says_nothing(i):
                yield from self.number(token)
            elif token.kind == "operator" and token.text in _SWAPPED and self.is_operation(i):
                yield "operator", token.start, token.end, _SWAPPED[token.text]
            elif token.text in ("if", "while") and self.at(i + 1) == "(":
                yield from self.condition(i)
            elif token.text == "return" and self.at(i + 1) != ";":
                yield from self.returned(i)
            if token.kind == "name" and token.text not in _WORDS:
                if self.at(i + 1) == "(":
                    yield from self.arguments(i)
                if self.at(i - 1) in (";", "{", "}", ")", "else", "") and self.at(i + 1) in (
                    "(", "=", "[", ".", "->", "+=", "-=", "*=", "|=", "&=", "++", "--",
                ):  # fmt: skip
                    yield from self.statement(i)
            i += 1

    def says_nothing(self, i):
        """Return True if token i is the number of a negative failure code, or the length in an array declaration.

        The value of such a number has no effect.
        """
        before = self.at(i - 3)
        declared = re.fullmatch(r"\*|[A-Za-z_]\w*", before) and before not in _WORDS and self.at(i - 1) == "["
        return (self.at(i - 2), self.at(i - 1)) == ("return", "-") or bool(declared) and self.at(i + 1) == "]"

    def number(self, token):
        if re.fullmatch(r"\d+", token.text):
            yield "off by one", token.start, token.end, str(int(token.text) + 1)
        elif "." in token.text and not token.text.startswith("0x"):
            digits = token.text.rstrip("fFlL")
            yield "constant", token.start, token.end, repr(float(digits) + 1) + token.text[len(digits) :]

    def is_operation(self, i):
        token = self.tokens[i]
        if token.text not in _SPACED:
            return True
        before, after = self.text[token.start - 1], self.text[token.end]
        return (
            before in " \n"
            and after in " \n\\"
            and self.tokens[i - 1].kind != "operator"
            or self.at(i - 1) in (")", "]")
            and before == after == " "
        )

    def condition(self, i):
        last = _closing(self.tokens, i + 1)
        if last is None:
            return
        start, end = self.tokens[i + 2].start, self.tokens[last - 1].end
        inside = self.text[start:end]
        if re.search(r"== NULL|< 0$", inside) and self.at(last + 1) in ("return", "goto", "{"):
            return  # the code handles exhausted memory: allocation failures have separate tests
        forced = ["0"] if self.at(i) == "while" else ["0", "1", "!(%s)" % inside]
        for new in forced if inside != "0" else ():
            yield ("negate condition" if len(new) > 1 else "force condition"), start, end, new
        operands = self.split(i + 2, last - 1, ("&&", "||"))
        for k in range(len(operands)) if len(operands) > 1 else ():
            # A dropped operand is replaced by the neutral element of its operator. In the style of this package, no
            # condition mixes && and || at one level, so either neighboring operator tells which operator it is.
            first, final = operands[k]
            word = self.at(first - 1) if k else self.at(final + 1)
            yield "drop condition", self.tokens[first].start, self.tokens[final].end, "1" if word == "&&" else "0"

    def split(self, first, last, separators):
        """Return pairs (first token, last token) of the parts between separators that are outside of all brackets."""
        parts, depth, start = [], 0, first
        for j in range(first, last + 1):
            text = self.at(j)
            depth += (text in "([{") - (text in ")]}") if len(text) == 1 else 0
            if not depth and text in separators:
                parts.append((start, j - 1))
                start = j + 1
        parts.append((start, last))
        return [part for part in parts if part[0] <= part[1]]

    def arguments(self, i):
        last = _closing(self.tokens, i + 1)
        if last is None or last == i + 2:
            return
        parts = [self.between(*part) for part in self.split(i + 2, last - 1, (",",))]
        for k, (one, other) in enumerate(zip(parts, parts[1:])):
            if one != other:
                new = ", ".join([*parts[:k], other, one, *parts[k + 2 :]])
                yield "swap arguments", self.tokens[i + 2].start, self.tokens[last - 1].end, new

    def statement(self, i):
        """Yield the removal of a statement.

        Declarations are not removed: no operator follows their first token, which is the name of a type.
        """
        last = self.statement_end(i)
        if last is not None:
            yield "drop statement", self.tokens[i].start, self.tokens[last - 1].end, ""

    def statement_end(self, i):
        depth = 0
        for j in range(i, len(self.tokens)):
            text = self.at(j)
            if text in ("{", "}"):
                return None
            depth += (text in ("(", "[")) - (text in (")", "]"))
            if depth < 0:
                return None
            if text == ";" and not depth:
                return j
        return None

    def returned(self, i):
        last = self.statement_end(i + 1)
        if last is not None and self.between(i + 1, last - 1) not in ("0", "-1", "NULL"):
            yield "return", self.tokens[i + 1].start, self.tokens[last - 1].end, "0"
