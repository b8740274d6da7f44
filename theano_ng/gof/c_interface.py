"""The part of the C interface that types and Ops share."""

from theano_ng.gof.utils import MethodNotDefined


class CLinkerObject:
    """What a type or an Op asks of the C compiler.

    Each of `c_headers`, `c_libraries`, `c_header_dirs`, `c_lib_dirs`, `c_compile_args` and `c_no_compile_args` may take the compiler
    as an optional argument `c_compiler`.
    """

    def c_headers(self):
        """Headers to include, such as ``'<iostream>'`` or ``'math.h'``.

        Returns
        -------
        list of str
        """
        raise MethodNotDefined("c_headers", type(self), self.__class__.__name__)

    def c_header_dirs(self):
        """Directories to look for headers in (``-I``)."""
        raise MethodNotDefined("c_header_dirs", type(self), self.__class__.__name__)

    def c_libraries(self):
        """Libraries to link (``-l``)."""
        raise MethodNotDefined("c_libraries", type(self), self.__class__.__name__)

    def c_lib_dirs(self):
        """Directories to look for libraries in (``-L``)."""
        raise MethodNotDefined("c_lib_dirs", type(self), self.__class__.__name__)

    def c_support_code(self):
        """C code for file scope: a string or a list of strings, put in once."""
        raise MethodNotDefined("c_support_code", type(self), self.__class__.__name__)

    def c_code_cache_version(self):
        """Version of the C code: a tuple; empty keeps modules from being cached across processes."""
        return ()

    def c_compile_args(self):
        """Extra arguments for the compiler."""
        raise MethodNotDefined("c_compile_args", type(self), self.__class__.__name__)

    def c_no_compile_args(self):
        """Arguments that the compiler must not get."""
        raise MethodNotDefined("c_no_compile_args", type(self), self.__class__.__name__)

    def c_init_code(self):
        """C statements to run once when the module is initialized; a list of strings."""
        raise MethodNotDefined("c_init_code", type(self), self.__class__.__name__)


class CLinkerOp(CLinkerObject):
    """C interface of an Op. The text of all methods is embedded; it must not `return`, and leaves by ``sub['fail']`` only."""

    def c_code(self, node, name, inputs, outputs, sub):
        """C code that computes the outputs.

        Parameters
        ----------
        node : Apply
        name : str
            An identifier that is unique for the node.
        inputs, outputs : list of str
            Names of the C variables.
        sub : dict
            ``sub['fail']``: statement that leaves after a Python exception has been set; ``sub['params']``: name of the params
            variable, for an Op with params.

        Raises
        ------
        MethodNotDefined
            When the Op has no C code for this node.
        """
        raise MethodNotDefined("%s.c_code" % self.__class__.__name__)

    def c_code_cache_version_apply(self, node):
        """Version of the C code for this node; `c_code_cache_version` by default."""
        return self.c_code_cache_version()

    def c_code_cleanup(self, node, name, inputs, outputs, sub):
        """C code that frees what `c_code` allocated; runs after it, also when it failed."""
        raise MethodNotDefined("%s.c_code_cleanup" % self.__class__.__name__)

    def c_support_code_apply(self, node, name):
        """C code for file scope, for this node; its identifiers have to contain `name`."""
        raise MethodNotDefined("c_support_code_apply", type(self), self.__class__.__name__)

    def c_init_code_apply(self, node, name):
        """C statements to run once when the module is initialized, for this node."""
        raise MethodNotDefined("c_init_code_apply", type(self), self.__class__.__name__)

    def c_init_code_struct(self, node, name, sub):
        """C code for the initialization of a thunk's struct."""
        raise MethodNotDefined("c_init_code_struct", type(self), self.__class__.__name__)

    def c_support_code_struct(self, node, name):
        """C code for the body of a thunk's struct: members and methods."""
        raise MethodNotDefined("c_support_code_struct", type(self), self.__class__.__name__)

    def c_cleanup_code_struct(self, node, name):
        """C code for the destructor of a thunk's struct."""
        raise MethodNotDefined("c_cleanup_code_struct", type(self), self.__class__.__name__)
