"""The text of an extension module: includes, support code, functions, initialization."""
import sys

METH_VARARGS = "METH_VARARGS"
METH_NOARGS = "METH_NOARGS"


class ExtFunction:
    """A function of a DynamicModule.

    Parameters
    ----------
    name : str
        In Python and in C.
    code_block : str
        Its whole C definition.
    method : str
        `METH_VARARGS` or `METH_NOARGS`.
    doc : str
    """

    def __init__(self, name, code_block, method, doc="undocumented"):
        self.name, self.code_block, self.method, self.doc = name, code_block, method, doc

    def method_decl(self):
        """Its line in the module's method table."""
        return '\t{"%s", %s, %s, "%s"}' % (self.name, self.name, self.method, self.doc)


class DynamicModule:
    """The text of an extension module under construction.

    Parameters
    ----------
    name : str, optional
        The module's name; a placeholder that the cache replaces by the module's hash when there is none.
    """

    def __init__(self, name=None):
        self.hash_placeholder = "<<<<HASH_PLACEHOLDER>>>>"
        self.name = self.hash_placeholder if name is None else name
        self.functions, self.includes, self.support_code, self.init_blocks = [], [], [], []

    def add_function(self, fn):
        """Add an `ExtFunction`."""
        self.functions.append(fn)

    def add_include(self, str):
        """Add a header: ``<a.h>``, ``"a.h"`` or ``a.h``."""
        self.includes.append(str)

    def add_init_code(self, code):
        """Add statements of the module's initialization."""
        self.init_blocks.append(code)

    def add_support_code(self, code):
        """Add text at file scope; the same text only once."""
        if code and code not in self.support_code:
            self.support_code.append(code)

    def print_methoddef(self, stream):
        """Write the method table."""
        print("static PyMethodDef MyMethods[] = {", file=stream)
        for function in self.functions:
            print(function.method_decl() + ",", file=stream)
        print("\t{NULL, NULL, 0, NULL}\n};", file=stream)

    def print_init(self, stream):
        """Write the module's definition and its initialization function."""
        print("""static struct PyModuleDef moduledef = {
    PyModuleDef_HEAD_INIT, "%(name)s", NULL, -1, MyMethods,
};

PyMODINIT_FUNC PyInit_%(name)s(void) {""" % dict(name=self.name), file=stream)
        for block in self.init_blocks:
            print("    {\n%s\n    }" % block, file=stream)
        print("    return PyModule_Create(&moduledef);\n}", file=stream)

    def code(self):
        """The whole text."""
        import io

        stream = io.StringIO()
        print('#include "module_prologue.h"', file=stream)
        includes = list(self.includes)
        if any(word in text for text in self.support_code for word in ("std::", "cout", "cerr")):
            includes.append("<iostream>")    # classic modules always have it; it costs more than all other headers
        for include in dict.fromkeys(includes):
            if include.strip('<>"') not in ("Python.h", "module_prologue.h"):
                print("#include " + (include if include[0] in '<"' else '"%s"' % include), file=stream)
        print("//////////////////////\n////  Support Code\n//////////////////////", file=stream)
        for text in self.support_code:
            print(text, file=stream)
        print("//////////////////////\n////  Functions\n//////////////////////", file=stream)
        for function in self.functions:
            print(function.code_block, file=stream)
        print("//////////////////////\n////  Module init\n//////////////////////", file=stream)
        self.print_methoddef(stream)
        self.print_init(stream)
        return stream.getvalue()

    def list_code(self, ofile=None):
        """Write the text with line numbers.

        Parameters
        ----------
        ofile : file, optional
            Default: the standard output.
        """
        for i, line in enumerate(self.code().split("\n"), 1):
            print("%4i" % i, line, file=sys.stdout if ofile is None else ofile)
