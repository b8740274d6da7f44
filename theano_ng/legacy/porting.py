"""A search for the changes that a program for Theano needs so that it runs on this package.

`look_at` finds the changes in the source code of one file, and makes them. It parses Python with LibCST, which keeps
formatting and comments: ``pip install 'theano_ng[port]'``.
"""

import ast
import configparser
import dataclasses
import difflib
import re

import libcst as cst
from libcst.metadata import (
    ImportAssignment,
    MetadataWrapper,
    ParentNodeProvider,
    PositionProvider,
    QualifiedNameProvider,
    ScopeProvider,
)

from theano_ng.configparser import (
    TheanoConfigError,
    _config_var_list,
    _of_other_package,
    nearest_flags,
    parse_config_string,
)
from theano_ng.legacy.python_2 import (
    FUNCTIONS_OF_PYTHON_2,
    METHODS_OF_PYTHON_2,
    MODULES_OF_PYTHON_2,
    NAMES_OF_PYTHON_2,
    masked,
    syntax,
)
from theano_ng.legacy.removed import MODULES, NAMES
from theano_ng.moved import FORMER, REMOVED

__all__ = ["Finding", "Report", "look_at", "look_at_flags"]

MOVED = {
    **{"theano." + path: home.replace("theano_ng.", "theano.") for path, home in FORMER.items()},
    "theano.sandbox.gpuarray": "theano.gpuarray",
    "theano.tensor.nnet.conv": "theano.tensor.nnet.abstract_conv",
}
"""Old path of a module or name -> its current path. Old paths still work, unless they are in `REMOVED`."""

PREPARED = r"\b(ImportError|ModuleNotFoundError|NameError|AttributeError|Exception)\b"
"""A regular expression for the exceptions that a program catches to handle a missing name or module."""


@dataclasses.dataclass(frozen=True)
class Finding:
    """A change that a program needs, or a fact that its author should know.

    Attributes
    ----------
    file : str
    line, column : int
        Line and column, both counted from 1.
    kind : {'import', 'removed name', 'moved', 'flag', 'Python 2', 'unreadable'}
    what : str
        The name or code in the program.
    advice : str
        The replacement, or other advice.
    changes : bool
        Whether `Report.changed` contains the change.
    needed : bool
        Whether the program fails without the change.
    """

    file: str
    line: int
    column: int
    kind: str
    what: str
    advice: str
    changes: bool = False
    needed: bool = True

    def __str__(self):
        return "%s:%d:%d: %s: %s -> %s" % (self.file, self.line, self.column, self.kind, self.what, self.advice)


@dataclasses.dataclass(frozen=True)
class Report:
    """The findings in one file.

    Attributes
    ----------
    file : str
    findings : tuple of Finding
        The findings, sorted by their position in the file.
    text, changed : bytes or None
        The content of the file, without and with the changes. None if the file cannot be parsed.
    """

    file: str
    findings: tuple
    text: bytes = None
    changed: bytes = None

    def diff(self):
        """Return the changes as a unified diff."""
        if self.text == self.changed:
            return ""
        before, after = (
            text.decode("utf-8", "replace").splitlines(keepends=True) for text in (self.text, self.changed)
        )
        return "".join(difflib.unified_diff(before, after, self.file, self.file))


def look_at(file, text):
    """Find and make the changes that a Python file needs.

    Parameters
    ----------
    file : str
        The name of the file, for the findings.
    text : bytes

    Returns
    -------
    Report
    """
    try:
        ast.parse(text)
        wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
    except (SyntaxError, ValueError, cst.ParserSyntaxError) as error:
        return Report(file, tuple(_why_unreadable(file, text, error)))
    porter = _Porter(file)
    changed = wrapper.visit(porter)
    return Report(file, tuple(sorted(porter.findings, key=lambda f: (f.line, f.column))), text, changed.bytes)


def look_at_flags(file, text):
    """Find the flags and values in a flags file (``.theanorc``) that this package does not accept, and change them.

    The values ``gpu...`` of flags such as `device` become ``cuda...``. Each other line with a flag or value that is not
    accepted becomes a comment. A flag whose value continues on the next line is reported, but not changed.

    Parameters
    ----------
    file : str
    text : bytes

    Returns
    -------
    Report
    """
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str
    try:
        parser.read_string(text.decode())
    except (configparser.Error, UnicodeDecodeError) as error:
        return Report(file, (Finding(file, getattr(error, "lineno", None) or 1, 1, "unreadable", "flags", str(error)),))
    lines = text.decode().splitlines(keepends=True)
    findings, changed, section = [], list(lines), None
    for i, line in enumerate(lines):
        found = re.match(r"\[([^]]+)\]|([^\s#;=:][^=:]*?)\s*[=:]", line)
        if found and found[1]:
            section = found[1]
        elif found and section is not None:
            flag = found[2] if section == "global" else "%s.%s" % (section, found[2])
            value = line[found.end() :].strip()
            advice = _advice_on_flag(flag, value)
            if advice is None:
                continue
            goes_on = i + 1 < len(lines) and lines[i + 1][:1].isspace() and lines[i + 1].strip()
            if not goes_on:
                name, rest = line[: found.end()], line[found.end() :]
                changed[i] = name + _named_for_cuda(rest) if advice.startswith(flag) else "# " + line
            findings.append(Finding(file, i + 1, 1, "flag", "%s = %s" % (flag, value), advice, changes=not goes_on))
    return Report(file, tuple(findings), text, "".join(changed).encode())


def _named_for_cuda(value):
    """Return the value of a flag with device names such as ``cuda0`` in place of names such as ``gpu0``."""
    return re.sub(r"(^\s*|->\s*)gpu", r"\1cuda", value)


def _advice_on_flag(flag, value):
    """Return advice on a flag. Return None if this package accepts the flag and its value."""
    variables = {variable.fullname: variable for variable in _config_var_list}
    if flag in ("device", "init_gpu_device", "contexts") and _named_for_cuda(value) != value:
        return "%s = %s" % (flag, _named_for_cuda(value))
    if flag not in variables:
        return None if _of_other_package(flag) else "remove it: this flag does not exist%s" % nearest_flags(flag)
    try:
        variables[flag].convert(value)
    except TheanoConfigError as error:
        return "remove it: %s" % error
    return None


def _why_unreadable(file, text, error):
    text = text.decode("utf-8", "replace")
    found, lines = [], text.splitlines()
    for i, line in enumerate(masked(text).splitlines(), 1):
        what = syntax(line)
        if what is not None:
            found.append(
                Finding(file, i, 1, "Python 2", lines[i - 1].strip(), "%s: port the file to Python 3 first" % what)
            )
    if found:
        return found
    line = getattr(error, "lineno", None) or getattr(error, "raw_line", None) or 1
    return [Finding(file, line, 1, "unreadable", "no Python 3", str(error).splitlines()[0])]


class _Porter(cst.CSTTransformer):
    """A transformer that makes the changes and collects the findings."""

    METADATA_DEPENDENCIES = (ParentNodeProvider, PositionProvider, QualifiedNameProvider, ScopeProvider)

    def __init__(self, file):
        super().__init__()
        self.file = file
        self.findings = []
        # The number of enclosing statements that test a version or catch the error of a missing name; see `_is_guard`.
        self.guards = 0
        self.stars = False
        self.methods = set()
        # The program's name for NumPy, if it imports NumPy.
        self.numpy = None
        # The called functions (nodes) of the calls that `leave_Call` replaces as a whole.
        self.called = set()
        self.keywords = False

    def found(self, node, kind, what, advice, changes=True, needed=True):
        start = self.get_metadata(PositionProvider, node).start
        self.findings.append(Finding(self.file, start.line, start.column + 1, kind, what, advice, changes, needed))

    # A method for the module, and methods for statements that test a version or handle missing names.

    def visit_Module(self, node):
        self.stars = bool(re.search(r"^\s*from\s.*\simport\s*\*", node.code, re.MULTILINE))
        self.methods = set(re.findall(r"\bdef\s+(\w+)", node.code))
        imported = re.search(r"^import (numpy)(?: as (\w+))?\s*$", node.code, re.MULTILINE)
        self.numpy = imported and (imported[2] or imported[1])
        self.keywords = re.search(r"\.keywords\b", node.code) is not None

    def visit_Try(self, node):
        self.guards += _is_guard(node)

    def leave_Try(self, original, updated):
        self.guards -= _is_guard(original)
        return updated

    def visit_If(self, node):
        self.guards += _is_guard(node)

    def leave_If(self, original, updated):
        self.guards -= _is_guard(original)
        return updated

    def visit_IfExp(self, node):
        self.guards += _is_guard(node)

    def leave_IfExp(self, original, updated):
        self.guards -= _is_guard(original)
        return updated

    # Methods for imports.

    def leave_Import(self, original, updated):
        names = []
        for alias in updated.names:
            name = _dotted(alias.name)
            self.moved(original, name)
            self.module(original, name)
            if not _is_theano(name):
                names.append(alias.with_changes(comma=cst.MaybeSentinel.DEFAULT))
                continue
            new = "theano_ng" + name[len("theano") :]
            if alias.asname is not None or name == "theano":
                bound = alias.asname or cst.AsName(cst.Name("theano"))
                names.append(alias.with_changes(name=_expression(new), asname=bound, comma=cst.MaybeSentinel.DEFAULT))
            else:
                # The statement binds `theano` and loads a submodule. Two imports replace it.
                names.append(cst.ImportAlias(cst.Name("theano_ng"), cst.AsName(cst.Name("theano"))))
                names.append(cst.ImportAlias(_expression(new)))
        if all(not _is_theano(_dotted(alias.name)) for alias in updated.names):
            return updated
        result = updated.with_changes(names=names)
        self.found(original, "import", _line(original), _line(result))
        return result

    def leave_ImportFrom(self, original, updated):
        if updated.module is None or updated.relative:
            return updated
        module = _dotted(updated.module)
        self.moved(original, module, updated.names)
        self.module(original, module)
        if not isinstance(updated.names, cst.ImportStar):
            for alias in updated.names:
                self.python_2(original, "%s.%s" % (module, _dotted(alias.name)), FUNCTIONS_OF_PYTHON_2)
        if _is_theano(module):
            result = updated.with_changes(module=_expression("theano_ng" + module[len("theano") :]))
            self.found(original, "import", _line(original), _line(result))
            return result
        if module not in NAMES or isinstance(updated.names, cst.ImportStar):
            return updated
        return self.from_that_lost(original, updated, module)

    def from_that_lost(self, original, updated, module):
        """Replace a statement such as ``from collections import Iterable`` by imports from the current modules."""
        lost = [alias for alias in updated.names if alias.name.value in NAMES[module]]
        homes = {}
        for alias in lost:
            home = _home(NAMES[module][alias.name.value])
            if home is None:
                self.by_hand(original, module, alias.name.value)
            else:
                homes[alias.name.value] = home
        if not homes:
            return updated
        lines = {}
        for alias in updated.names:
            home, name = homes.get(alias.name.value, (module, alias.name.value))
            known_as = alias.asname or (None if name == alias.name.value else cst.AsName(cst.Name(alias.name.value)))
            lines.setdefault(home, []).append(cst.ImportAlias(cst.Name(name), known_as))
        statements = [
            updated.with_changes(module=_expression(home), names=names, lpar=None, rpar=None)
            for home, names in lines.items()
        ]
        self.found(original, "removed name", _line(original), "; ".join(map(_line, statements)))
        return cst.FlattenSentinel(statements)

    # Methods for flags.

    def visit_Assign(self, node):
        """Check the flags in an assignment ``os.environ["THEANO_FLAGS"] = "..."``."""
        if isinstance(node.value, cst.SimpleString) and any("THEANO_FLAGS" in _code(t) for t in node.targets):
            text = node.value.evaluated_value
            flags = parse_config_string(text, issue_warnings=False) if isinstance(text, str) else {}
            for flag, value in flags.items():
                advice = _advice_on_flag(flag, value)
                if advice is not None:
                    self.found(node.value, "flag", "%s=%s" % (flag, value), advice, changes=False)

    # Methods for Python 2 code that Python 3 accepts with another meaning.

    def visit_BinaryOperation(self, node):
        if isinstance(node.operator, cst.RightShift) and isinstance(node.left, cst.Name) and node.left.value == "print":
            self.found(node, "Python 2", _line(node), "print is a function: print(..., file=...)", changes=False)

    def visit_Name(self, node):
        scope = self.get_metadata(ScopeProvider, node, None) if node.value in NAMES_OF_PYTHON_2 else None
        if scope is not None and not self.stars and not scope[node.value]:
            self.python_2(node, node.value, NAMES_OF_PYTHON_2)

    def visit_Call(self, node):
        if self.changed_call(node) is not None:
            self.called.add(node.func.value if isinstance(node.func, cst.Subscript) else node.func)
        if not isinstance(node.func, cst.Attribute) or node.func.attr.value in self.methods:
            return
        imported = any(q.source.name == "IMPORT" for q in self.get_metadata(QualifiedNameProvider, node.func, ()))
        if not imported:
            self.python_2(node, node.func.attr.value, METHODS_OF_PYTHON_2)

    def python_2(self, node, name, table):
        """Record a name that only Python 2 has. Do nothing if the program handles the absence of the name."""
        if name in table and not self.guards:
            self.found(node, "Python 2", name, table[name], changes=False)

    def module(self, node, name):
        """Record an import of a module that no longer exists."""
        self.python_2(node, name.partition(".")[0], MODULES_OF_PYTHON_2)
        if name in MODULES and not self.guards:
            self.by_hand(node, None, name)

    # Methods for names.

    def changed_call(self, node, updated=None):
        """Return the replacement for a call of a removed function. The replacement is built from `updated`.

        Return None if the call as a whole is not replaced. Then `leave_Attribute` may replace the name.
        """
        func, updated = node.func, updated or node
        name = func.value if isinstance(func, cst.Subscript) else func
        names = {q.name for q in self.get_metadata(QualifiedNameProvider, name, ()) if q.source.name == "IMPORT"}
        if not isinstance(name, cst.Attribute) or len(names) != 1 or any(arg.star or arg.keyword for arg in node.args):
            return None
        (full,) = names
        owner, parent = _code(name.value), self.get_metadata(ParentNodeProvider, node)
        if full == "numpy.cast" and isinstance(func, cst.Subscript) and len(node.args) == len(func.slice) == 1:
            args = _code(updated.args[0].value), _code(updated.func.slice[0].slice)
            return cst.parse_expression("%s.asarray(%s, %s)" % (owner, *args))
        if full == "numpy.asscalar" and len(node.args) == 1:
            value = updated.args[0].value
            simple = isinstance(value, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
            return cst.parse_expression(("%s.item()" if simple else "(%s).item()") % _code(value))
        if full == "inspect.getargspec":
            # `getfullargspec` returns more values than `getargspec`, and its field for ``**kwargs`` is `varkw`, not
            # `keywords`. Replace only calls whose result is not unpacked and whose field `keywords` is not used.
            plain = isinstance(parent, cst.Subscript) and re.fullmatch(r"\[[013]\]", _code(parent)[len(_code(node)) :])
            plain = plain or isinstance(parent, cst.Attribute) and parent.attr.value in ("args", "varargs", "defaults")
            targets = parent.targets if isinstance(parent, cst.Assign) else ()
            if plain or targets and not self.keywords and all(isinstance(t.target, cst.Name) for t in targets):
                return updated.with_changes(func=cst.parse_expression("%s.getfullargspec" % owner))
        return None

    def leave_Call(self, original, updated):
        new = self.changed_call(original, updated)
        if new is None:
            return updated
        self.found(original, "removed name", _line(original), _line(new))
        return new

    def leave_Attribute(self, original, updated):
        if original in self.called:
            return updated
        names = {q.name for q in self.get_metadata(QualifiedNameProvider, original, ()) if q.source.name == "IMPORT"}
        for name in sorted(names):
            if name in MOVED:
                self.moved(original, name)
            self.python_2(original, name, FUNCTIONS_OF_PYTHON_2)
            module, _, attribute = name.rpartition(".")
            expression = NAMES.get(module, {}).get(attribute)
            if expression is None:
                continue
            new = self.replacement(original, updated, module, expression)
            if new is None:
                self.by_hand(original, module, attribute)
                return updated
            self.found(original, "removed name", name, _code(new))
            return new
        return updated

    def replacement(self, original, updated, module, expression):
        """Return the replacement for a removed attribute of a module. Return None if no simple replacement exists."""
        owner = _code(updated.value)
        if module == "numpy" and re.fullmatch(r"-?np\.[\w.]+", expression):
            text = expression.replace("np", owner, 1)
            return cst.parse_expression("(%s)" % text if text.startswith("-") else text)
        home, name = _home(expression) or (None, None)
        scope = self.get_metadata(ScopeProvider, original, None)
        if (
            home == "numpy"
            and self.numpy
            and scope is not None
            and all(isinstance(a, ImportAssignment) for a in scope[self.numpy])
        ):
            return cst.parse_expression("%s.%s" % (self.numpy, name))
        if home is not None and (home + ".").startswith(module + "."):
            return cst.parse_expression(owner + home[len(module) :] + "." + name)
        if re.fullmatch(r"[a-z]+", expression):
            hidden = scope is not None and any(
                not isinstance(a, cst.metadata.BuiltinAssignment) for a in scope[expression]
            )
            return None if hidden else cst.Name(expression)
        if re.fullmatch(r"-?\d\.\d", expression):
            return cst.parse_expression("(%s)" % expression if expression.startswith("-") else expression)
        return None

    def by_hand(self, node, module, name):
        home = _home(NAMES[module][name]) if module else None
        self.found(
            node,
            "removed name",
            "%s.%s" % (module, name) if module else name,
            "%s, or run the program by theano_ng-run --numpy-names"
            % ("replace it by other code" if home is None else "it is %s.%s now" % home),
            changes=False,
        )

    def moved(self, node, module, names=()):
        """Record a use of paths that have changed."""
        paths = [module]
        if not isinstance(names, cst.ImportStar):
            paths += ["%s.%s" % (module, alias.name.value) for alias in names]
        for old, new in MOVED.items():
            if any(path == old or path.startswith(old + ".") for path in paths):
                works = (
                    "the old path still works"
                    if old[len("theano.") :] not in REMOVED
                    else "importing the old path only raises an error that reports its removal"
                )
                self.found(node, "moved", old, "%s; %s" % (new, works), changes=False, needed=False)


def _is_guard(node):
    """Return True if a statement tests a version, or catches the error of a missing name or module."""
    if isinstance(node, cst.Try):
        return any(handler.type is None or re.search(PREPARED, _code(handler.type)) for handler in node.handlers)
    return re.search(r"\bPY[23]\b|version|python_2|python2", _code(node.test)) is not None


def _is_theano(name):
    return name == "theano" or name.startswith("theano.")


def _home(expression):
    """Return (module, name) for an expression of `removed.NAMES`. Return None if the expression is not just a name in a
    module.
    """
    found = re.fullmatch(r"importlib\.import_module\('([\w.]+)'\)\.(\w+)|(np|sp)\.([\w.]+)", expression)
    if found is None:
        return ("builtins", expression) if re.fullmatch(r"[a-z]+", expression) else None
    if found[1]:
        return found[1], found[2]
    path = {"np": "numpy", "sp": "scipy.special"}[found[3]] + "." + found[4]
    module, _, name = path.rpartition(".")
    return module, name


def _dotted(node):
    return _code(node).replace(" ", "")


def _expression(text):
    return cst.parse_expression(text)


def _code(node):
    return cst.Module([]).code_for_node(node)


def _line(node):
    """Return the code of a node in one line, without comments."""
    return " ".join(re.sub(r"#.*", "", _code(node)).split())
