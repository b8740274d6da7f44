"""A type for C pointers that only C code reads."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

from theano_ng.gof import ports
from theano_ng.gof.graph import Constant
from theano_ng.gof.type.base import Type


class CDataType(Type):
    """A type for C pointers. In Python, a pointer is stored in a PyCapsule.

    Parameters
    ----------
    ctype : str
        The C type, which is a pointer type.
    freefunc : str, optional
        The name of a C function (``void`` with one pointer argument) that frees a value.
    headers, header_dirs, libraries, lib_dirs, compile_args : sequence of str
        The requirements of the type for the C compiler.
    extra_support_code : str
        C code for file scope.
    version : tuple, optional
        The version for the cache. If it is not given, C modules that use the type are not cached across processes.

    Raises
    ------
    TypeError
        If `ctype` is not a string.
    """

    __props__ = (
        "ctype",
        "freefunc",
        "headers",
        "header_dirs",
        "libraries",
        "lib_dirs",
        "extra_support_code",
        "compile_args",
        "version",
    )

    def __init__(
        self,
        ctype: str,
        freefunc: str | None = None,
        headers: Iterable[str] = (),
        header_dirs: Iterable[str] = (),
        libraries: Iterable[str] = (),
        lib_dirs: Iterable[str] = (),
        compile_args: Iterable[str] = (),
        extra_support_code: str = "",
        version: tuple[Any, ...] | None = None,
    ) -> None:
        if not isinstance(ctype, str):
            raise TypeError("the C type must be a string, not %r" % (ctype,))
        if freefunc is not None and not isinstance(freefunc, str):
            raise TypeError("freefunc must be the name of a C function, not %r" % (freefunc,))
        if version is not None and not isinstance(version, tuple):
            raise TypeError("version must be a tuple, not %r" % (version,))
        self.ctype, self.freefunc, self.extra_support_code, self.version = ctype, freefunc, extra_support_code, version
        self.headers, self.header_dirs = tuple(headers), tuple(header_dirs)
        self.libraries, self.lib_dirs = tuple(libraries), tuple(lib_dirs)
        self.compile_args = tuple(compile_args)
        self._fn: Any = None

    def __getstate__(self) -> dict[str, Any]:
        # The compiled function is built again when it is needed.
        return dict(self.__dict__, _fn=None)

    @staticmethod
    def may_share_memory(a: Any, b: Any) -> bool:
        """Return True if two values are the same capsule. Memory that two different capsules share is not detected."""
        return a is not None and a is b

    def values_eq(self, a: Any, b: Any) -> bool:
        return a is b

    def values_eq_approx(self, a: Any, b: Any) -> bool:
        """Return True if both values are pointers, or both are None. The memory behind the pointers is not compared."""
        return (a is None) == (b is None)

    def filter(self, data: Any, strict: bool = False, allow_downcast: bool | None = None) -> Any:
        # A valid value is a PyCapsule or None. The class of capsules has no name in Python.
        if data is not None and type(data).__name__ != "PyCapsule":
            raise TypeError("expected a PyCapsule that holds a %s, or None; got %s" % (self.ctype, type(data)))
        return data

    def _get_func(self) -> Callable[[int], Any]:
        """Return a compiled function that converts an integer to a value of this type."""
        if self._fn is None:
            self._fn = ports.cdata_op(self).compiled()
        return self._fn

    def make_value(self, ptr: int) -> Any:
        """Return a value of this type.

        Parameters
        ----------
        ptr : int
            The address. The value owns the memory: if `freefunc` is given, it is called with the address when the value
            is deleted.

        Returns
        -------
        PyCapsule
            The value. It is None for address 0.

        Raises
        ------
        TypeError
            If `ptr` is not an integer.
        """
        try:
            ptr = operator.index(ptr)
        except TypeError:
            raise TypeError("%s.make_value expected an address (an integer), got %r" % (self, ptr)) from None
        return self._get_func()(ptr)

    def c_is_simple(self) -> bool:
        """Return True, so that the pointer of a temporary variable is freed after every run, not kept for the next."""
        return True

    def c_declare(self, name: str, sub: dict[str, str], check_input: bool = True) -> str:
        # <name>_owned is the pointer that a capsule owns. For a temporary variable, <name>_failure is the address of
        # the flag that is set if the run has failed.
        return "\n%(ctype)s %(name)s;\n%(ctype)s %(name)s_owned;\nconst int *%(name)s_failure;\n" % dict(
            ctype=self.ctype, name=name
        )

    def c_init(self, name: str, sub: dict[str, str]) -> str:
        failure = "&" + sub["failure_var"] if "failure_var" in sub else "NULL"
        return "%(name)s = %(name)s_owned = NULL;\n%(name)s_failure = %(failure)s;\n" % dict(name=name, failure=failure)

    def c_extract(self, name: str, sub: dict[str, str], check_input: bool = True) -> str:
        # None represents the null pointer.
        return """
  if (py_%(name)s == Py_None) {
    %(name)s = NULL;
  } else {
    %(name)s = (%(ctype)s)PyCapsule_GetPointer(py_%(name)s, NULL);
    if (%(name)s == NULL) {
      %(fail)s
    }
  }
  %(name)s_owned = %(name)s;
  %(name)s_failure = NULL;
        """ % dict(name=name, ctype=self.ctype, fail=sub["fail"])

    def c_support_code(self) -> list[str]:
        # Return two strings: if two types in a module differ only in the second string, the first is written once.
        return [
            """
static void _theano_capsule_destructor(PyObject *o) {
    void *p = PyCapsule_GetPointer(o, NULL);
    void (*f)(void *) = (void (*)(void *))PyCapsule_GetContext(o);
    if (f != NULL) f(p);
}
""",
            self.extra_support_code,
        ]

    def c_sync(self, name: str, sub: dict[str, str]) -> str:
        # If the Op left the pointer of the previous call unchanged, keep the previous capsule: a second capsule for the
        # same pointer would free it twice.
        freefunc = "NULL" if self.freefunc is None else self.freefunc
        return """
if (%(name)s == NULL) {
  Py_XDECREF(py_%(name)s);
  py_%(name)s = Py_None;
  Py_INCREF(py_%(name)s);
} else if (%(name)s != %(name)s_owned) {
  PyObject *capsule_%(name)s = PyCapsule_New((void *)%(name)s, NULL, _theano_capsule_destructor);
  if (capsule_%(name)s != NULL) {
    // Fails only if the object is not a capsule.
    PyCapsule_SetContext(capsule_%(name)s, (void *)%(freefunc)s);
    %(name)s_owned = %(name)s;
  }
  Py_XDECREF(py_%(name)s);
  py_%(name)s = capsule_%(name)s;
  if (py_%(name)s == NULL) {
    Py_INCREF(Py_None);
    py_%(name)s = Py_None;
  }
}
        """ % dict(name=name, freefunc=freefunc)

    def c_cleanup(self, name: str, sub: dict[str, str]) -> str:
        if self.freefunc is None:
            return ""
        # No capsule owns a pointer that one Op passes to the next Op inside a module, so free it here. After a failed
        # run, free nothing, because it is unknown which pointers have been freed already.
        return """
if (%(name)s != NULL && %(name)s != %(name)s_owned && %(name)s_failure != NULL && *%(name)s_failure == 0) {
  ((void (*)(void *))%(freefunc)s)((void *)%(name)s);
}
        """ % dict(name=name, freefunc=self.freefunc)

    def c_headers(self) -> list[str]:
        return list(self.headers)

    def c_header_dirs(self) -> list[str]:
        return list(self.header_dirs)

    def c_libraries(self) -> list[str]:
        return list(self.libraries)

    def c_lib_dirs(self) -> list[str]:
        return list(self.lib_dirs)

    def c_compile_args(self) -> list[str]:
        return list(self.compile_args)

    def c_code_cache_version(self) -> tuple[Any, ...]:
        if self.version is None:
            return ()
        return (5, self.version)

    def __str__(self) -> str:
        return "%s{%s}" % (self.__class__.__name__, self.ctype)


class CDataTypeConstant(Constant):
    """A constant C pointer. Two constants are equal if they have the same capsule.

    A constant cannot be pickled, because an address has no meaning in another process.
    """

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self.data is not None:
            raise TypeError(
                "cannot pickle %s of type %s: it holds a C pointer, which is invalid in another process. Make the "
                "value again there (CDataType.make_value, or an Op that computes it)." % (self, self.type)
            )
        return super().__reduce_ex__(protocol)

    def __deepcopy__(self, memo: dict[int, Any]) -> CDataTypeConstant:
        # The copy can share the capsule, because both constants are in the same process.
        memo[id(self)] = new = self.clone()
        return new

    def merge_signature(self) -> Any:
        # Capsules hash by identity, and the constant keeps its capsule alive.
        return (self.type, id(self.data))

    def signature(self) -> Any:
        return (self.type, id(self.data))


CDataType.Constant = CDataTypeConstant


_cdata_type = CDataType("void *", version=(1,))
