"""The source of an extension module: includes, support code, functions, initialization.

The text that a method of an Op or a type returns is inserted line by line between two comments. For the method `c_code`
of an Op Fibby, these are ``// Fibby.c_code: ...`` and ``// end of Fibby.c_code``. `locate` maps a line of the module
(from a compiler's message, a debugger, a sanitizer) to the method and the line of its text. `locate_file` maps a line
of the module to a line in the C file of a COp. The source contains no ``#line`` directives: line numbers refer to the
file ``mod.cpp``, which is kept in the cache.
"""

import re
import sys

METH_VARARGS = "METH_VARARGS"
METH_NOARGS = "METH_NOARGS"

_TITLE = "\n// ---------------- %s\n"


_BEGIN = r"^\s*// (\w+)\.(c_\w+)(?::.*)?$"
_FILE = r"^\s*// #section (\w+), line (\d+) of (.+)$"


def indented(text, spaces):
    """Indent a text so that its leftmost lines begin at the given column.

    Preprocessor lines begin at column 0. Blank lines at the end are removed. No line is joined or split. A text with a
    string literal that spans several lines is not changed.

    Parameters
    ----------
    text : str
    spaces : int

    Returns
    -------
    str
        The text, without a newline at its end.
    """
    lines = []
    for line in text.rstrip().split("\n"):
        code = line.lstrip()
        lines.append(line[: len(line) - len(code)].expandtabs(8) + code)
    if 'R"' in text or any(line.endswith("\\") and line.replace('\\"', "").count('"') % 2 for line in lines):
        return text.rstrip()
    margins = [len(line) - len(line.lstrip()) for line in lines if line.strip() and not line.lstrip().startswith("#")]
    # In a string like ``"if (x) {\n            y;"``, all lines but the first are indented. Indent the first line, too.
    if len(margins) > 1 and margins[0] == 0 and lines[0].strip():
        margin = min(margins[1:])
        lines[0] = " " * margin + lines[0]
    else:
        margin = min(margins, default=0)
    moved = []
    for line in lines:
        if line.lstrip().startswith("#"):
            moved.append(line.strip())
        else:
            moved.append(" " * spaces + line[margin:].rstrip() if line.strip() else "")
    return "\n".join(moved)


def delimited(owner, method, text, about="", verbatim=False):
    """Return the text that a method returned, between the comments that `locate` searches for.

    Parameters
    ----------
    owner : Op or Type
        The object that has the method. The comments name its class.
    method : str
    text : str
    about : str
        A description of the node or variable, in one line.
    verbatim : bool
        Whether to keep the indentation.

    Returns
    -------
    str
        The text with its comments. It is empty if the text has only blank lines.
    """
    if not text.strip():
        return ""
    name = "%s.%s" % (re.sub(r"\W", "_", type(owner).__name__), method)
    text = text.rstrip() if verbatim else indented(text, 0)
    return "// %s%s\n%s\n// end of %s\n" % (name, ": " + about if about else "", text, name)


def _enclosing(lines, line_number):
    """Find the method whose text contains a line of the module, and return the comment in front of this text.

    Returns
    -------
    (int, re.Match) or None
        The index of the comment's line, and the match of the comment. None if the line is not in the text of a method.
    """
    end, start = None, None
    for i, line in enumerate(lines[:line_number]):
        if end is None:
            match = re.match(_BEGIN, line)
            if match is not None:
                start, found, end = i, match, "// end of %s.%s" % match.groups()
        elif line.strip() == end:
            end = None
    return (start, found) if end is not None and line_number - 1 > start else None


def locate(source_text, line_number):
    """Return the method of an Op or a type from which a line of a generated module comes.

    Parameters
    ----------
    source_text : str
        The module's source, as in ``mod.cpp`` or `CLinker.get_src_code`.
    line_number : int
        The number of the line, from 1, as compilers, debuggers and sanitizers count.

    Returns
    -------
    (str, str, int) or None
        The class of the Op or type, the method, and the number of the line (from 1) in the text that the method
        returned. None if the linker wrote the line.
    """
    lines = source_text.split("\n")
    place = _enclosing(lines, line_number) if 1 <= line_number <= len(lines) else None
    if place is None:
        return None
    start, match = place
    return match.group(1), match.group(2), line_number - 1 - start


def locate_file(source_text, line_number):
    """Return the C file of a COp, and the line in this file, from which a line of a generated module comes.

    Parameters
    ----------
    source_text, line_number
        The arguments of `locate`.

    Returns
    -------
    (str, int) or None
        The file's name without its directory, and the number of the line. None if the line does not come from a COp.
    """
    lines = source_text.split("\n")
    place = _enclosing(lines, line_number) if 1 <= line_number <= len(lines) else None
    if place is None:
        return None
    for i in range(line_number - 1, place[0], -1):
        match = re.match(_FILE, lines[i])
        if match is not None:
            return match.group(3), int(match.group(2)) + line_number - 1 - i
        if lines[i].strip() == "// end of section":
            return None
    return None


class ExtFunction:
    """A function of a DynamicModule.

    Parameters
    ----------
    name : str
        The name in Python and in C.
    code_block : str
        The whole C definition.
    method : str
        `METH_VARARGS` or `METH_NOARGS`.
    doc : str
    """

    def __init__(self, name, code_block, method, doc="undocumented"):
        self.name, self.code_block, self.method, self.doc = name, code_block, method, doc

    def method_decl(self):
        """Return the line of the function in the module's method table."""
        return '    {"%s", %s, %s, "%s"}' % (self.name, self.name, self.method, self.doc)


class DynamicModule:
    """The source of an extension module under construction.

    Parameters
    ----------
    name : str, optional
        The module's name. By default, it is a placeholder that the cache replaces with the module's hash.
    """

    def __init__(self, name=None):
        self.hash_placeholder = "<<<<HASH_PLACEHOLDER>>>>"
        self.name = self.hash_placeholder if name is None else name
        self.functions, self.includes, self.support_code, self.init_blocks = [], [], [], []
        self.about = []  # lines of the comment at the top of the module

    def add_function(self, fn):
        """Add an `ExtFunction` to the functions that the module exports."""
        self.functions.append(fn)

    def add_include(self, str):
        """Add a header: ``<a.h>``, ``"a.h"`` or ``a.h``."""
        self.includes.append(str)

    def add_init_code(self, code):
        """Add statements to the module's initialization."""
        self.init_blocks.append(code)

    def add_support_code(self, code):
        """Add code at file scope. Equal code is added only once."""
        if code and code not in self.support_code:
            self.support_code.append(code)

    def print_methoddef(self, stream):
        """Write the method table."""
        print("static PyMethodDef MyMethods[] = {", file=stream)
        for function in self.functions:
            print(function.method_decl() + ",", file=stream)
        print("    {NULL, NULL, 0, NULL}\n};\n", file=stream)

    def print_init(self, stream):
        """Write the module's definition and its initialization function."""
        print(
            """static struct PyModuleDef moduledef = {
    PyModuleDef_HEAD_INIT, "%(name)s", NULL, -1, MyMethods,
};

PyMODINIT_FUNC PyInit_%(name)s(void)
{"""
            % dict(name=self.name),
            file=stream,
        )
        for block in self.init_blocks:
            print("    {\n%s\n    }" % indented(block, 8), file=stream)
        if self.init_blocks:
            print("    if (PyErr_Occurred())\n        return NULL;", file=stream)
        print("    return PyModule_Create(&moduledef);\n}", file=stream)

    def code(self):
        """Return the C++ source of the module."""
        import io

        stream = io.StringIO()
        if self.about:
            print("\n".join(("// " + line).rstrip() for line in self.about) + "\n", file=stream)
        print('#include "module_prologue.h"', file=stream)
        includes = list(self.includes)
        if any(word in text for text in self.support_code for word in ("std::", "cout", "cerr")):
            includes.append("<iostream>")  # included only if needed: it compiles slower than all other headers
        for include in dict.fromkeys(includes):
            if include.strip('<>"') not in ("Python.h", "module_prologue.h"):
                print("#include " + (include if include[0] in '<"' else '"%s"' % include), file=stream)
        print(_TITLE % "Support code", file=stream)
        for text in self.support_code:
            print(text.rstrip() + "\n", file=stream)
        print(_TITLE % "Functions of the module", file=stream)
        for function in self.functions:
            print(function.code_block.rstrip() + "\n", file=stream)
        print(_TITLE % "Initialization of the module", file=stream)
        self.print_methoddef(stream)
        self.print_init(stream)
        return stream.getvalue()

    def list_code(self, ofile=None):
        """Write the source with line numbers.

        Parameters
        ----------
        ofile : file, optional
            By default, the standard output.
        """
        for i, line in enumerate(self.code().split("\n"), 1):
            print("%4i" % i, line, file=sys.stdout if ofile is None else ofile)
