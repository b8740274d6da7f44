"""Changes of Python source code, found in its syntax tree.

Each change replaces one span of the source code. Line numbers do not change, because reports and the tables of tests
per line use them.
"""

import ast
import itertools
import re
import tokenize

from theano_ng.tests.mutants.records import Mutant, Words

# Names of functions that are not changed: they print, name or profile, and do not affect results.
REPORTS = re.compile(
    r"__repr__|__str__|__hash__|print_\w+|\w*profile\w*|_?describe\w*|_?shown|_?message\w*|report_\w+|merge_dict|summary"
    r"|term_text|_value_text|_value_expression"
)
# Code in statements that are not changed: they measure time, count calls for profiles, or log. No result depends on
# these statements.
MEASURES = re.compile(
    r"perf_counter|callbacks?_(?:time|before)|\w*profile|\b(?:io|loop|time|opt)_t\b|_time\b|_?logger\.|__all__"
)
# Functions whose arguments are not swapped, because nearly every swapped call fails, so that any test detects it.
_ORDERED = {"isinstance", "issubclass", "getattr", "hasattr", "setattr", "super", "zip"}
_SYMMETRIC = {"min", "max", "gcd"}
# Functions that get tags as arguments. Tags are not swapped, because their order has no effect.
_IN_ANY_ORDER = {"register", "including", "excluding", "requiring", "add_tags", "switch_on", "register_canonicalize"}
_COMPARISONS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
_OPERATORS = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "//", ast.Pow: "*", ast.BitAnd: "|",
    ast.BitOr: "&", ast.LShift: ">>", ast.RShift: "<<",
}  # fmt: skip
_ORDER_MATTERS = (ast.Sub, ast.Div, ast.FloorDiv, ast.Pow, ast.LShift, ast.RShift)
_OPPOSITES = {"any": "all", "all": "any", "min": "max", "max": "min"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_NO_WORDS = {getattr(tokenize, kind) for kind in "ENCODING COMMENT NL NEWLINE INDENT DEDENT ENDMARKER".split()}


class Text:
    """Python source code with its syntax tree, and the span of each node in bytes."""

    def __init__(self, source):
        self.source = source
        self.tree = ast.parse(source)
        self._lines = [0]
        for line in source.splitlines(True):
            self._lines.append(self._lines[-1] + len(line))

    def span(self, node):
        """Return the start and end of a node in bytes."""
        return self._lines[node.lineno - 1] + node.col_offset, self._lines[node.end_lineno - 1] + node.end_col_offset

    def of(self, node):
        """Return the source code of a node."""
        start, end = self.span(node)
        return self.source[start:end].decode()


def _is_text(node):
    return isinstance(node, (ast.Constant, ast.JoinedStr)) and not isinstance(
        getattr(node, "value", ""), (int, float, complex)
    )


def _in_brackets(text):
    return "(%s)" % text


def changes(path, source):
    """Return all mutants of Python source code, in the order of the code.

    Parameters
    ----------
    path : str
    source : bytes

    Returns
    -------
    list of Mutant
        Some mutants are invalid, or equivalent to the original; see `is_another_program`.
    """
    text = Text(source)
    finder = _Finder(text)
    finder.visit(text.tree)
    by_edit = {(start, end, new): (place, kind) for place, kind, start, end, new in reversed(finder.found)}
    words = Words(path, source, _tokens)
    found = [_mutant(words, text, *said, *edit) for edit, said in by_edit.items()]
    return sorted(found, key=lambda m: (m.start, m.end, m.kind, m.new))


def is_another_program(mutant, source):
    """Return True if a mutant is valid Python, and its syntax tree differs from the syntax tree of `source`."""
    try:
        return ast.dump(ast.parse(mutant.apply(source))) != ast.dump(ast.parse(source))
    except SyntaxError:
        return False


def _tokens(text):
    """Return pairs (start in bytes, token) of source code, without comments, docstrings, line ends and indents."""
    if isinstance(text, bytes):
        tree, lines = Text(text), text.splitlines(True)
        documented = (ast.Module, ast.ClassDef, *_FUNCTIONS)
        owners = [
            node for node in ast.walk(tree.tree) if isinstance(node, documented) and ast.get_docstring(node, False)
        ]
        dropped = {tree.span(node.body[0])[0] for node in owners}
    else:
        # Parentheses make it possible to tokenize any part of the source code.
        lines, dropped = ("(%s\n)" % text).encode().splitlines(True), {0}
    starts = [0, *itertools.accumulate(map(len, lines))]
    found = []
    for token in tokenize.tokenize(iter(lines).__next__):
        if token.type not in _NO_WORDS:
            row, column = token.start
            start = starts[row - 1] + len(token.line[:column].encode())
            if start not in dropped:
                found.append((start, token.string))
    return found if isinstance(text, bytes) else found[:-1]


def _mutant(words, text, place, kind, start, end, new):
    old = text.source[start:end].decode()
    name, span = place
    key = words.key(kind, name, span, start, old, new)
    lost = old.count("\n") - new.count("\n")
    if lost > 0:
        # Keep the number of lines. Line ends inside parentheses have no meaning.
        new = new + "\n" * lost if new == "pass" else "(%s%s)" % (new, "\n" * lost)
    line = text.source.count(b"\n", 0, start) + 1
    return Mutant(words.path, kind, name, start, end, line, old, new, key)


class _Finder(ast.NodeVisitor):
    """A visitor that collects tuples (place, kind, start, end, new code) in the attribute `found`."""

    def __init__(self, text):
        self.text = text
        self.found = []
        self._functions = []  # the functions around the node
        self._names = []
        self._statement = None  # the outermost statement, for code outside of functions

    def add(self, kind, node, new, upto=None):
        start, end = self.text.span(node)
        if upto is not None:
            end = self.text.span(upto)[1]
        around = self._functions[0] if self._functions else self._statement
        place = ".".join(self._names) if self._functions else "", self.text.span(around)
        self.found.append((place, kind, start, end, new))

    def of(self, node):
        return self.text.of(node)

    def visit_Module(self, module):
        for statement in module.body:
            self._statement = statement
            self.visit(statement)

    def visit(self, node):
        """Collect the changes of a node. Skip statements that only measure time."""
        text = node.test if isinstance(node, (ast.If, ast.While)) else node
        compound = isinstance(node, (ast.For, ast.With, ast.Try, ast.FunctionDef, ast.ClassDef))
        if not (isinstance(node, ast.stmt) and not compound and MEASURES.search(self.of(text))):
            super().visit(node)

    def visit_Import(self, node):
        pass

    visit_ImportFrom = visit_Raise = visit_Import

    def visit_ClassDef(self, node):
        if node.name.endswith("Printer"):
            return
        self._names.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self._names.pop()

    def visit_FunctionDef(self, node):
        for decorator in node.decorator_list:
            self.visit(decorator)
        if REPORTS.fullmatch(node.name):
            return
        self._functions.append(node)
        self._names.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self._names.pop()
        self._functions.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node):
        self._functions.append(node)
        self._names.append("<lambda>")
        self.visit(node.body)
        self._names.pop()
        self._functions.pop()

    # -- conditions

    def _condition(self, test):
        self.add("negate condition", test, "not %s" % _in_brackets(self.of(test)))
        for forced in ("True", "False"):
            self.add("force condition", test, forced)

    def visit_If(self, node):
        self._condition(node.test)
        self.generic_visit(node)

    def visit_While(self, node):
        self.add("force condition", node.test, "False")
        self.generic_visit(node)

    visit_IfExp = visit_If

    def visit_comprehension(self, node):
        for test in node.ifs:
            self.add("negate condition", test, "not %s" % _in_brackets(self.of(test)))
            self.add("force condition", test, "True")
        self.generic_visit(node)

    def visit_BoolOp(self, node):
        word = " and " if isinstance(node.op, ast.And) else " or "
        texts = [_in_brackets(self.of(value)) for value in node.values]
        for i in range(len(texts)):
            left = texts[:i] + texts[i + 1 :]
            self.add("drop condition", node, _in_brackets(word.join(left)) if len(left) > 1 else left[0])
        other = " or " if word == " and " else " and "
        self.add("and, or", node, _in_brackets(other.join(texts)))
        self.generic_visit(node)

    def visit_Compare(self, node):
        sides = [node.left, *node.comparators]
        for i, op in enumerate(node.ops):
            between = self.text.source[self.text.span(sides[i])[1] : self.text.span(sides[i + 1])[0]].decode()
            if "(" in between or ")" in between or "\n" in between:
                continue
            new = "%s %s %s" % (self.of(sides[i]), _COMPARISONS[type(op)], self.of(sides[i + 1]))
            self.add("comparison", sides[i], new, upto=sides[i + 1])
        for side in sides:
            if isinstance(side, ast.Constant) and isinstance(side.value, str) and side.value:
                self.add("constant", side, '""')
        self.generic_visit(node)

    # -- operators and arguments

    def visit_BinOp(self, node):
        if _is_text(node.left) or _is_text(node.right):
            return
        left, right = self.of(node.left), self.of(node.right)
        if type(node.op) in _OPERATORS:
            new = "%s %s %s" % (_in_brackets(left), _OPERATORS[type(node.op)], _in_brackets(right))
            self.add("operator", node, _in_brackets(new))
        if isinstance(node.op, _ORDER_MATTERS):
            symbol = (
                self.text.source[self.text.span(node.left)[1] : self.text.span(node.right)[0]].decode().strip(" ()\n")
            )
            self.add("swap operands", node, "(%s %s %s)" % (_in_brackets(right), symbol, _in_brackets(left)))
        self.generic_visit(node)

    def visit_UnaryOp(self, node):
        if isinstance(node.op, (ast.Not, ast.USub)) and not isinstance(node.operand, ast.Constant):
            self.add("drop operator", node, _in_brackets(self.of(node.operand)))
        self.generic_visit(node)

    def visit_Call(self, node):
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name in _OPPOSITES and isinstance(node.func, ast.Name):
            self.add("any, all, min, max", node.func, _OPPOSITES[name])
        if name in ("warn", "warning", "error", "info", "debug"):
            return
        plain = not any(isinstance(argument, ast.Starred) for argument in node.args)
        for one, other in zip(node.args, node.args[1:]) if plain and name not in _ORDERED | _SYMMETRIC else ():
            if self.of(one) != self.of(other) and not (name in _IN_ANY_ORDER and _is_text(one) and _is_text(other)):
                start, end = self.text.span(one)[1], self.text.span(other)[0]
                between = self.text.source[start:end].decode()
                if between.strip() == ",":
                    self.add("swap arguments", one, self.of(other) + between + self.of(one), upto=other)
        for i, keyword in enumerate(node.keywords):
            if keyword.arg is not None:
                self._drop_keyword(node, i)
        self.generic_visit(node)

    def _drop_keyword(self, node, i):
        rest = [self.of(a) for a in node.args] + [
            ("**%s" if k.arg is None else k.arg + "=%s") % self.of(k.value)
            for j, k in enumerate(node.keywords)
            if j != i
        ]
        self.add("drop argument", node, "%s(%s)" % (self.of(node.func), ", ".join(rest)))

    # -- numbers, lists, indices

    def visit_Constant(self, node):
        value = node.value
        if isinstance(value, bool):
            self.add("constant", node, str(not value))
        elif isinstance(value, int):
            self.add("off by one", node, str(value + 1))
        elif isinstance(value, float):
            self.add("constant", node, repr(value + 1.0))

    def visit_Slice(self, node):
        for bound in (node.lower, node.upper):
            if bound is not None and not isinstance(bound, ast.Constant):
                self.add("off by one", bound, _in_brackets("%s + 1" % _in_brackets(self.of(bound))))
        self.generic_visit(node)

    def visit_Subscript(self, node):
        if isinstance(node.slice, ast.Name) and isinstance(node.ctx, ast.Load):
            self.add("off by one", node.slice, "%s - 1" % node.slice.id)
        self.generic_visit(node)

    def visit_List(self, node):
        if isinstance(node.ctx, ast.Load) and len(node.elts) > 1:
            texts = [self.of(element) for element in node.elts]
            for i in range(len(texts)):
                self.add("drop element", node, "[%s]" % ", ".join(texts[:i] + texts[i + 1 :]))
        self.generic_visit(node)

    # -- statements

    def _drop(self, node):
        self.add("drop statement", node, "pass")
        self.generic_visit(node)

    def visit_Expr(self, node):
        if isinstance(node.value, ast.Call):
            self._drop(node)
        elif not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    visit_AugAssign = visit_Continue = visit_Break = _drop

    def visit_Assign(self, node):
        names = {n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)}
        if self._functions and names & {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)}:
            self.add("drop statement", node, "pass")
        self.generic_visit(node)

    def visit_AnnAssign(self, node):
        if node.value is not None:
            self.visit(node.value)

    def visit_Return(self, node):
        nothing = isinstance(node.value, ast.Constant) and node.value.value in (None, False)
        if node.value is None or nothing or not isinstance(self._functions[-1], _FUNCTIONS):
            return  # changing None to False would give an equivalent program, because a rule may return either
        parameters = [a.arg for a in self._functions[-1].args.args if a.arg not in ("self", "cls")]
        if "node" in parameters:
            self.add("return", node.value, "False")
            if isinstance(node.value, (ast.List, ast.Call, ast.Name)):
                self.add("return first input", node.value, "[node.inputs[0]]")
        else:
            self.add("return", node.value, "None")
            if parameters and not isinstance(node.value, ast.Constant):
                self.add("return first input", node.value, parameters[0])
        self.visit(node.value)
