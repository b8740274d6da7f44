"""A type for C pointers that only C code reads."""
import re

from theano_ng.gof.graph import Apply, Constant
from theano_ng.gof.type import Type


class CDataType(Type):
    """A C pointer, carried through Python in a PyCapsule.

    Parameters
    ----------
    ctype : str
        The C type: a pointer type.
    freefunc : str, optional
        C function (``void`` with one pointer argument) that releases a value.
    headers, header_dirs, libraries, lib_dirs, compile_args : sequence of str
        What the C compiler needs for the type.
    extra_support_code : str
        C text for file scope.
    version : tuple, optional
        For the cache; without it modules are not cached across processes.

    Raises
    ------
    TypeError
        When `ctype` is no string.
    """

    __props__ = ("ctype", "freefunc", "headers", "header_dirs", "libraries", "lib_dirs", "extra_support_code", "compile_args", "version")

    def __init__(self, ctype, freefunc=None, headers=(), header_dirs=(), libraries=(), lib_dirs=(), compile_args=(),
                 extra_support_code="", version=None):
        if not isinstance(ctype, str):
            raise TypeError("the C type has to be a string, not %r" % (ctype,))
        self.ctype = ctype
        if freefunc is not None and not isinstance(freefunc, str):
            raise TypeError("freefunc has to be the name of a C function, not %r" % (freefunc,))
        self.freefunc = freefunc
        self.headers = tuple(headers)
        self.header_dirs = tuple(header_dirs)
        self.libraries = tuple(libraries)
        self.lib_dirs = tuple(lib_dirs)
        self.compile_args = tuple(compile_args)
        self.extra_support_code = extra_support_code
        self._fn = None
        if version is not None and not isinstance(version, tuple):
            raise TypeError("version has to be a tuple, not %r" % (version,))
        self.version = version

    def __getstate__(self):
        # The compiled function is made again when it is needed.
        return dict(self.__dict__, _fn=None)

    def filter(self, data, strict=False, allow_downcast=None):
        # A PyCapsule or None; there is no name for the capsule type.
        if data is not None and type(data).__name__ != "PyCapsule":
            raise TypeError("expected a PyCapsule that holds a %s, or None; got %s" % (self.ctype, type(data)))
        return data

    def _get_func(self):
        """A compiled function from an integer to a value of this type."""
        from theano_ng.compile.function import function  # upward names: only needed for values made in Python
        from theano_ng.scalar import get_scalar_type

        if self._fn is None:
            v = get_scalar_type("int64")()
            self._fn = function([v], _make_cdata(self)(v), mode=None, profile=False)
        return self._fn

    def make_value(self, ptr):
        """A value of this type.

        Parameters
        ----------
        ptr : int
            The address.
        """
        return self._get_func()(ptr)

    def c_declare(self, name, sub, check_input=True):
        return "\n%s %s;\n" % (self.ctype, name)

    def c_init(self, name, sub):
        return "%s = NULL;" % name

    def c_extract(self, name, sub, check_input=True):
        # None stands for the null pointer.
        return """
  if (py_%(name)s == Py_None) {
    %(name)s = NULL;
  } else {
    %(name)s = (%(ctype)s)PyCapsule_GetPointer(py_%(name)s, NULL);
    if (%(name)s == NULL) {
      %(fail)s
    }
  }
        """ % dict(name=name, ctype=self.ctype, fail=sub["fail"])

    def c_support_code(self):
        return """
static void _capsule_destructor_%(id)s(PyObject *o) {
    void *d = PyCapsule_GetContext(o);
    void *p = PyCapsule_GetPointer(o, NULL);
    void (*f)(void *) = (void (*)(void *))d;
    if (f != NULL) f(p);
}
%(extra)s
""" % dict(id=self._identifier(), extra=self.extra_support_code)

    def _identifier(self):
        return re.sub(r"\W", "_", self.ctype.replace("*", "_p"))

    def c_sync(self, name, sub):
        freefunc = "NULL" if self.freefunc is None else self.freefunc
        return """
if (%(name)s == NULL) {
  Py_XDECREF(py_%(name)s);
  py_%(name)s = Py_None;
  Py_INCREF(py_%(name)s);
} else {
  PyObject *capsule_%(name)s = PyCapsule_New((void *)%(name)s, NULL, _capsule_destructor_%(id)s);
  if (capsule_%(name)s != NULL && PyCapsule_SetContext(capsule_%(name)s, (void *)%(freefunc)s) != 0) {
    Py_DECREF(capsule_%(name)s);
    capsule_%(name)s = NULL;
  }
  Py_XDECREF(py_%(name)s);
  py_%(name)s = capsule_%(name)s;
  if (py_%(name)s == NULL) {
    Py_INCREF(Py_None);
    py_%(name)s = Py_None;
  }
}
        """ % dict(name=name, id=self._identifier(), freefunc=freefunc)

    def c_cleanup(self, name, sub):
        # The capsule owns the pointer.
        return ""

    def c_headers(self):
        return list(self.headers)

    def c_header_dirs(self):
        return list(self.header_dirs)

    def c_libraries(self):
        return list(self.libraries)

    def c_lib_dirs(self):
        return list(self.lib_dirs)

    def c_compile_args(self):
        return list(self.compile_args)

    def c_code_cache_version(self):
        if self.version is None:
            return ()
        return (4, self.version)

    def __str__(self):
        return "%s{%s}" % (self.__class__.__name__, self.ctype)


class CDataTypeConstant(Constant):
    """A constant C pointer: two are equal when they hold the same capsule."""

    def merge_signature(self):
        # Capsules hash by identity, and the constant keeps its capsule alive.
        return (self.type, id(self.data))

    def signature(self):
        return (self.type, id(self.data))


CDataType.Constant = CDataTypeConstant


def _cdata_op_class():
    """The Op class behind `make_value`; made late because `op` imports `type`."""
    from theano_ng.gof.op import Op

    class MakeCData(Op):
        """Op from an integer address to a value of a CDataType.

        Parameters
        ----------
        rtype : CDataType
        """

        __props__ = ("rtype",)

        def __init__(self, rtype):
            if not isinstance(rtype, CDataType):
                raise TypeError("rtype has to be a CDataType, not %r" % (rtype,))
            self.rtype = rtype

        def do_constant_folding(self, node):
            return False

        def make_node(self, val):
            from theano_ng.scalar import as_scalar, get_scalar_type  # an upward name

            val = as_scalar(val)
            if val.type.dtype != "uint64":
                from theano_ng.scalar import Cast

                if val.type.dtype != "int64":
                    val = Cast(get_scalar_type("int64"))(val)
            return Apply(self, [val], [self.rtype()])

        def c_code(self, node, name, inputs, outputs, sub):
            return "%s = (%s)(npy_intp)%s;" % (outputs[0], self.rtype.ctype, inputs[0])

        def c_code_cache_version(self):
            version = self.rtype.c_code_cache_version()
            return (1, version) if version else ()

    return MakeCData


_op_class = None


def _make_cdata(rtype):
    """The Op that makes values of `rtype` from integers."""
    global _op_class
    if _op_class is None:
        _op_class = _cdata_op_class()
    return _op_class(rtype)


_cdata_type = CDataType("void *", version=(1,))
