"""The part of the C interface that types and Ops share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from theano_ng.gof.utils import MethodNotDefined

if TYPE_CHECKING:
    from theano_ng.gof.graph import Apply


class CLinkerObject:
    """The C interface that types and Ops have in common.

    The methods `c_headers`, `c_libraries`, `c_header_dirs`, `c_lib_dirs`, `c_compile_args` and `c_no_compile_args` may
    have an optional parameter `c_compiler`, to which the compiler is passed.
    """

    def c_headers(self) -> list[str]:
        """Return headers to include, such as ``'<iostream>'`` or ``'math.h'``.

        Returns
        -------
        list of str
        """
        raise MethodNotDefined("c_headers", type(self), self.__class__.__name__)

    def c_header_dirs(self) -> list[str]:
        """Return directories in which the compiler looks for headers (``-I``)."""
        raise MethodNotDefined("c_header_dirs", type(self), self.__class__.__name__)

    def c_libraries(self) -> list[str]:
        """Return libraries to link (``-l``)."""
        raise MethodNotDefined("c_libraries", type(self), self.__class__.__name__)

    def c_lib_dirs(self) -> list[str]:
        """Return directories in which the linker looks for libraries (``-L``)."""
        raise MethodNotDefined("c_lib_dirs", type(self), self.__class__.__name__)

    def c_support_code(self) -> str | list[str]:
        """Return C code for file scope: a string or a list of strings. Equal code is inserted only once."""
        raise MethodNotDefined("c_support_code", type(self), self.__class__.__name__)

    def c_code_cache_version(self) -> tuple[Any, ...]:
        """Return the version of the C code: a tuple. If it is empty, modules are not cached across processes."""
        return ()

    def c_compile_args(self) -> list[str]:
        """Return extra arguments for the compiler."""
        raise MethodNotDefined("c_compile_args", type(self), self.__class__.__name__)

    def c_no_compile_args(self) -> list[str]:
        """Return arguments that must not be passed to the compiler."""
        raise MethodNotDefined("c_no_compile_args", type(self), self.__class__.__name__)

    def c_init_code(self) -> list[str]:
        """Return C statements to run once when the module is initialized: a list of strings."""
        raise MethodNotDefined("c_init_code", type(self), self.__class__.__name__)


class CLinkerOp(CLinkerObject):
    """The C interface of an Op.

    The code that `c_code` returns is inserted into a larger function. It must not contain a `return` statement. After
    an error, it leaves through ``sub['fail']``.
    """

    def c_code(self, node: Apply, name: str, inputs: list[str], outputs: list[str], sub: dict[str, str]) -> str:
        """Return C code that computes the outputs.

        Parameters
        ----------
        node : Apply
        name : str
            An identifier that is unique for the node.
        inputs, outputs : list of str
            The names of the C variables.
        sub : dict
            ``sub['fail']``: a statement that leaves the code after a Python exception has been set. ``sub['params']``:
            the name of the params variable, for an Op with params.

        Raises
        ------
        MethodNotDefined
            If the Op has no C code for this node.
        """
        raise MethodNotDefined("%s.c_code" % self.__class__.__name__)

    def c_code_cache_version_apply(self, node: Apply) -> tuple[Any, ...]:
        """Return the version of the C code for this node. By default, return `c_code_cache_version()`."""
        return self.c_code_cache_version()

    def c_code_cleanup(self, node: Apply, name: str, inputs: list[str], outputs: list[str], sub: dict[str, str]) -> str:
        """Return C code that frees resources of `c_code`. It runs after `c_code`, even if `c_code` failed."""
        raise MethodNotDefined("%s.c_code_cleanup" % self.__class__.__name__)

    def c_support_code_apply(self, node: Apply, name: str) -> str:
        """Return C code at file scope that this node needs. Its identifiers have to contain `name`."""
        raise MethodNotDefined("c_support_code_apply", type(self), self.__class__.__name__)

    def c_init_code_apply(self, node: Apply, name: str) -> str:
        """Return C statements for this node to run once when the module is initialized."""
        raise MethodNotDefined("c_init_code_apply", type(self), self.__class__.__name__)

    def c_init_code_struct(self, node: Apply, name: str, sub: dict[str, str]) -> str:
        """Return C code for the initialization of a thunk's struct."""
        raise MethodNotDefined("c_init_code_struct", type(self), self.__class__.__name__)

    def c_support_code_struct(self, node: Apply, name: str) -> str:
        """Return C code for the body of a thunk's struct: members and methods."""
        raise MethodNotDefined("c_support_code_struct", type(self), self.__class__.__name__)

    def c_cleanup_code_struct(self, node: Apply, name: str) -> str:
        """Return C code for the destructor of a thunk's struct."""
        raise MethodNotDefined("c_cleanup_code_struct", type(self), self.__class__.__name__)
