"""The program that writes the stubs: ``python -m theano_ng.misc.write_stubs``.

Some modules define names only at run time: packages that import names on first access, and `tensor.constructors`.
Editors and type checkers do not run modules. They read the stub (a file ``.pyi``) next to such a module. The stub lists
the public names with the modules that define them. Run the program after a change of these names. With
``--check`` it writes nothing, prints the paths of stubs that have to be written, and fails if there are any.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import re
import sys
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

MODULES = ("theano_ng.tensor.constructors", "theano_ng.tensor.nnet", "theano_ng.tensor", "theano_ng.scan", "theano_ng")

# Name in an annotation -> module of the name.
HOMES = {
    "Any": "typing",
    "DTypeLike": "theano_ng.tensor.aliases",
    "TensorLike": "theano_ng.tensor.aliases",
    "TensorType": "theano_ng.tensor.type",
    "TensorVariable": "theano_ng.tensor.var",
}

# Stubs omit names that these modules define, because only the package itself or old programs use them.
TOOLS = ("theano_ng.compat", "theano_ng.lazy", "theano_ng.moved", "theano_ng.tensor.star_names")

HEAD = "# Written by theano_ng/misc/write_stubs.py, which lists what this module has when it runs.\n"

LENGTH = 120


def stubs() -> dict[str, str]:
    """Return the text of each stub by its path.

    The names of a package depend on the modules that have been imported. Therefore call this function before the
    process imports other modules of theano_ng.
    """
    modules = [importlib.import_module(name) for name in MODULES]
    names = {module: _public(module) for module in modules}
    for module in modules:
        for name in names[module]:
            getattr(module, name)  # the access imports the module that defines the name
    homes = _homes()
    return {_path(module) + "i": _text(module, names[module], homes) for module in modules}


def _public(module: ModuleType) -> list[str]:
    names = dir(module) if hasattr(module, "__path__") else module.__all__
    return sorted(name for name in names if not name.startswith("_"))


def _path(module: ModuleType) -> str:
    return inspect.getfile(module)


def _homes() -> dict[str, list[str]]:
    """Return, for each name, the modules of this package whose source code defines it."""
    found: dict[str, list[str]] = {}
    for module in sorted(sys.modules):
        path = getattr(sys.modules[module], "__file__", None) or ""
        if getattr(sys.modules[module], "__name__", None) != module:
            continue  # an alias of a module in ``sys.modules``, under the name that Theano used
        if module.startswith("theano_ng") and path.startswith(ROOT) and path.endswith(".py"):
            with open(path, encoding="utf-8") as file:
                for name in _defined(ast.parse(file.read()).body):
                    found.setdefault(name, []).append(module)
    return found


def _defined(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                yield from (name.id for name in ast.walk(target) if isinstance(name, ast.Name))
        elif isinstance(node, ast.Try):
            yield from _defined(node.body)


def _text(module: ModuleType, names: list[str], homes: dict[str, list[str]]) -> str:
    """Return the text of the stub of a module."""
    imports: dict[str, list[str]] = {}
    lines: list[str] = []
    exported: dict[int, str] = {}
    for name in names:
        value = getattr(module, name)
        home = _home(module, name, value, homes)
        if isinstance(value, ModuleType) and home is not None or home not in (None, module.__name__, *TOOLS):
            imports.setdefault(home, []).append("%s as %s" % (name, name))
            exported[id(value)] = name
    for name in names:
        value = getattr(module, name)
        if not isinstance(value, ModuleType) and _home(module, name, value, homes) == module.__name__:
            lines += _declaration(name, value, exported.get(id(value)))
    modules = ["import logging"] if "logging." in "".join(lines) else []
    if hasattr(module, "__version__"):
        lines.append("__version__: str")
    for word in sorted(set(re.findall(r"\w+", "\n".join(lines)))):
        if word in HOMES and "%s as %s" % (word, word) not in imports.get(HOMES[word], ()):
            imports.setdefault(HOMES[word], []).append(word)
    first: list[str] = []
    own: list[str] = []
    for home in sorted(imports):
        (own if home.startswith("theano_ng") else first).extend(_import(home, sorted(imports[home])))
    functions = [line for line in lines if not re.match(r"\w+[:] |\w+ = ", line)]
    blocks = [[*modules, *first], own, [line for line in lines if line not in functions], functions]
    return HEAD + "".join(["\n" + "\n".join(block) + "\n" for block in blocks if block])


def _home(module: ModuleType, name: str, value: Any, homes: dict[str, list[str]]) -> str | None:
    """Return the module that defines a name in a stub. Return None if the name does not belong to this package."""
    if isinstance(value, ModuleType):
        package, _, last = value.__name__.rpartition(".")
        base = os.path.join(os.path.dirname(ROOT), *value.__name__.split("."))
        return package if last == name and (os.path.isdir(base) or os.path.exists(base + ".py")) else None
    found = [home for home in homes.get(name, ()) if getattr(sys.modules[home], name, None) is value]
    if module.__name__ in found:
        return module.__name__
    if found:
        preferred = getattr(value, "__module__", None)
        return preferred if preferred in found else found[0]
    for other in MODULES:  # some modules define names only at run time, not by statements
        if sys.modules[other].__dict__.get(name) is value and not hasattr(sys.modules[other], "__path__"):
            return other
    return None


def _declaration(name: str, value: Any, other: str | None) -> list[str]:
    """Return the lines that declare a name. `other` is the name under which the stub imports the value, if any."""
    if isinstance(value, FunctionType):
        return _function(name, inspect.signature(value))
    if other is not None:
        return ["%s = %s" % (name, other)]
    kind = type(value)
    if kind is tuple:
        return ["%s: tuple[%s, ...]" % (name, type(value[0]).__name__)]
    return ["%s: %s" % (name, kind.__name__ if kind.__module__ != "logging" else "logging." + kind.__name__)]


def _function(name: str, signature: inspect.Signature) -> list[str]:
    parts = []
    for parameter in signature.parameters.values():
        star = (
            "*"
            if parameter.kind == parameter.VAR_POSITIONAL
            else "**"
            if parameter.kind == parameter.VAR_KEYWORD
            else ""
        )
        text = star + parameter.name
        text += ": %s" % _annotation(parameter.annotation)
        if parameter.default is not parameter.empty:
            text += " = %r" % parameter.default if isinstance(parameter.default, (int, type(None))) else " = ..."
        parts.append(text)
    result = _annotation(signature.return_annotation)
    line = "def %s(%s) -> %s: ..." % (name, ", ".join(parts), result)
    return [line] if len(line) <= LENGTH else ["def %s(" % name, "    " + ", ".join(parts), ") -> %s: ..." % result]


def _annotation(given: Any) -> str:
    return "Any" if given is inspect.Parameter.empty else str(given)


def _import(home: str, names: list[str]) -> list[str]:
    line = "from %s import %s" % (home, ", ".join(names))
    if len(line) <= LENGTH:
        return [line]
    return ["from %s import (" % home, *["    %s," % name for name in names], ")"]


def main(arguments: list[str]) -> int:
    """Write the stubs. If the only argument is ``--check``, only compare the stubs with the existing files."""
    different = 0
    for path, text in stubs().items():
        before = None
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                before = file.read()
        if before == text:
            continue
        different += 1
        print(os.path.relpath(path, os.path.dirname(ROOT)))
        if arguments != ["--check"]:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
    return 1 if different and arguments == ["--check"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
