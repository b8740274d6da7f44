"""Native code of Ops: C that ships with the package, and how it becomes a thunk or an ordinary C Op.

An Op whose C code does not depend on the graph names a compiled function and its parameter words (`NativeCode`). The linkers bind
it to cells without compiling anything; the classic C interface (`c_code` and friends) is derived from the same record.
"""
import importlib
from dataclasses import dataclass, field

from theano_ng.gof import _native
from theano_ng.gof.kernelcache import load_kernels, rename_symbol
from theano_ng.gof.utils import MethodNotDefined

_registered = {}


@dataclass(frozen=True)
class Kernel:
    """A C function that depends on the graph: an inner loop without any Python header.

    Attributes
    ----------
    source : str
        C text that defines one function called `symbol`; compiles as C11 and C++ (GNU dialects) after kernel_prologue.h.
    symbol : str
        The word in `source` that stands for the function's name.
    language : {"c", "c++"}
    headers : tuple of str
        Include lines' arguments, e.g. ``"<algorithm>"``.
    support : str
        C text in front of the function.
    compile_args, libraries : tuple of str
    """

    source: str
    symbol: str = "KERNEL"
    language: str = "c"
    headers: tuple = ()
    support: str = ""
    compile_args: tuple = ()
    libraries: tuple = ()


@dataclass(frozen=True)
class NativeCode:
    """One node's native implementation.

    Attributes
    ----------
    function : str
        ``"package.module:name"`` of a `native_fn` capsule.
    params : tuple of int
        Parameter words (after the kernels' addresses).
    scratch : int
        Zeroed words that follow, private to the thunk.
    kernels : tuple of Kernel
    """

    function: str
    params: tuple = ()
    scratch: int = 0
    kernels: tuple = field(default=())


def double_word(value):
    """The int64 word that carries a double."""
    import struct

    return struct.unpack("<q", struct.pack("<d", value))[0]


def native_function(name):
    """The capsule behind ``"package.module:name"``; imports the module when it is needed for the first time."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def array_layout(type_):
    """What a thunk checks of a Type's values: ``NumPy's type number << 8 | ndim`` of arrays, -1 when values are something else."""
    native_layout = getattr(type_, "native_layout", None)
    return -1 if native_layout is None else native_layout()


def make_native_thunk(node, code, inputs, outputs):
    """Bind native code to cells; compiles or loads its kernels.

    Parameters
    ----------
    node : Apply
    code : NativeCode
    inputs, outputs : list of cells

    Returns
    -------
    _native.NativeThunk
    """
    params = code.params
    if code.kernels:
        params = (*load_kernels(code.kernels), *params)
    layouts = [array_layout(variable.type) for variable in (*node.inputs, *node.outputs)]
    thunk = _native.NativeThunk(native_function(code.function), params, code.scratch, inputs, outputs, layouts)
    thunk.node = node
    return thunk


def register_native_code(op_class, type_class, make):
    """Give an Op that knows no types its native code for inputs of a type.

    Parameters
    ----------
    op_class, type_class : class
        The Op, and the Type of its first input.
    make : callable
        ``make(op, node)`` returns a NativeCode, or None when this node has none.
    """
    _registered[op_class, type_class] = make


def registered_native_code(op, node):
    """What `register_native_code` was given for this Op and the type of the node's first input, applied; or None."""
    for type_class in type(node.inputs[0].type).__mro__:
        make = _registered.get((type(op), type_class))
        if make is not None:
            return make(op, node)
    return None


def beside_native(c_code):
    """Decorator of a `c_code` that is the same as native code, for modules of several nodes: it does not replace that, nor reads params."""
    c_code.beside_native = True
    return c_code


def native_code_of(node):
    """The NativeCode by which a node runs; None when its Op has none, or has a `c_code` that overrides it."""
    native_code = getattr(node.op, "native_code", None)
    return None if native_code is None or getattr(node.op, "own_c_code", False) else native_code(node)


class NativeOp:
    """Mixin that derives the classic C interface of an Op from its `native_code`.

    ::

        class DimShuffle(NativeOp, Op):
            def native_code(self, node):
                return NativeCode("theano_ng.tensor.native.elemwise:dimshuffle", params=...)
    """

    # Whether the class is a subclass of an Op with native code, and has written a `c_code` that is to be used instead.
    own_c_code = False

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "c_code" in cls.__dict__ or "native_code" in cls.__dict__:
            cls.own_c_code = "native_code" not in cls.__dict__ and not getattr(cls.__dict__["c_code"], "beside_native", False)

    def native_code(self, node):
        """The node's NativeCode, or None when it has no C implementation."""
        return registered_native_code(self, node)

    def _native_code(self, node):
        code = self.native_code(node)
        if code is None:
            raise MethodNotDefined("c_code", type(self), self.__class__.__name__)
        return code

    def c_headers(self):
        return ['"native.h"']

    def c_header_dirs(self):
        import os

        return [os.path.dirname(os.path.abspath(__file__))]

    def c_support_code_apply(self, node, name):
        parts = []
        for i, kernel in enumerate(self._native_code(node).kernels):
            parts.append(kernel_in_module(kernel, kernel_name(name, i)))
        return "\n".join(parts)

    def c_support_code_struct(self, node, name):
        code = self._native_code(node)
        return "native_fn native_%s;\nint64_t words_%s[%d];" % (
            name, name, len(code.kernels) + len(code.params) + code.scratch + 1)

    def c_init_code_struct(self, node, name, sub):
        code = self._native_code(node)
        module, _, attribute = code.function.partition(":")
        words = ["(int64_t)(intptr_t)&%s" % kernel_name(name, i) for i in range(len(code.kernels))]
        words += ["INT64_MIN" if word == -2 ** 63 else "%dLL" % word for word in code.params]
        fill = "\n".join("words_%s[%d] = %s;" % (name, i, word) for i, word in enumerate(words))
        return """
memset(words_%(name)s, 0, sizeof words_%(name)s);
%(fill)s
{
    PyObject *module = PyImport_ImportModule("%(module)s");
    PyObject *capsule = module == NULL ? NULL : PyObject_GetAttrString(module, "%(attribute)s");
    native_%(name)s = capsule == NULL ? NULL : (native_fn)PyCapsule_GetPointer(capsule, NATIVE_CAPSULE);
    Py_XDECREF(capsule);
    Py_XDECREF(module);
    if (native_%(name)s == NULL) {
        %(fail)s
    }
}
""" % dict(name=name, fill=fill, module=module, attribute=attribute, fail=sub["fail"])

    def c_code(self, node, name, inputs, outputs, sub):
        self._native_code(node)
        return """
{
    PyObject *native_in[] = {%(ins)s};
    PyObject *native_out[] = {%(outs)s};
    int native_status = native_%(name)s(%(nin)d, %(nout)d, native_in, native_out, words_%(name)s);
    %(back)s
    if (native_status != 0) {
        %(fail)s
    }
}
""" % dict(
            name=name, nin=len(inputs), nout=len(outputs), fail=sub["fail"],
            ins=", ".join(["(PyObject *)%s" % i for i in inputs] or ["NULL"]),
            outs=", ".join(["(PyObject *)%s" % o for o in outputs] or ["NULL"]),
            back=" ".join("%s = (decltype(%s))native_out[%d];" % (o, o, i) for i, o in enumerate(outputs)),
        )

    def c_code_cache_version(self):
        return (1,)


def kernel_name(name, i):
    """The C identifier of a node's i-th kernel inside a classic module."""
    return "kernel_%s_%d" % (name, i)


def kernel_in_module(kernel, symbol):
    """The text that defines a kernel inside a C++ module that has included the kernel prologue."""
    includes = "".join("#include %s\n" % header for header in kernel.headers)
    return includes + kernel.support + "\n" + rename_symbol(kernel.source, kernel.symbol, symbol)
