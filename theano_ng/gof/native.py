"""Native code of Ops: C that ships with the package, and how it becomes a thunk or an ordinary C Op.

An Op whose C code does not depend on the graph names a compiled function and its parameter words (`NativeCode`). The linkers bind
it to cells without compiling anything; the classic C interface (`c_code` and friends) is derived from the same record.
"""

import contextlib
import functools
import importlib
from typing import NamedTuple

from theano_ng.gof import _native
from theano_ng.configdefaults import config
from theano_ng.gof.compiler import background
from theano_ng.gof.compiler.kernelcache import LoadedKernel, load_kernels, rename_symbol
from theano_ng.gof.compiler.standin import stand_in
from theano_ng.gof.compiler.toolchain import compiler_available
from theano_ng.gof.native_words import SCRATCH, Record
from theano_ng.gof.utils import MethodNotDefined

_registered = {}

# The word of the program that a kernel reads if it is an interpreter.
PROGRAM = "program"


class Kernel(NamedTuple):
    """A C function that depends on the graph: an inner loop without any Python header.

    Attributes
    ----------
    source : str
        C text that defines one function called `symbol`; compiles as C11 and C++ (GNU dialects) after kernel_prologue.h.
    symbol : str
        The name of the function in `source`.
    language : {"c", "c++"}
    headers : tuple of str
        Include lines' arguments, e.g. ``"<algorithm>"``.
    support : str
        C text in front of the function.
    compile_args, libraries : tuple of str
    interpreted : callable, optional
        Returns the `Interpretation` that computes the same without a compiler, or None.
    """

    source: str
    symbol: str = "KERNEL"
    language: str = "c"
    headers: tuple = ()
    support: str = ""
    compile_args: tuple = ()
    libraries: tuple = ()
    interpreted: object = None

    def never_compiled(self):
        """Return the `LoadedKernel` of a program that computes the same and that no compiled kernel replaces; None without a program."""
        interpretation = self.interpreted and self.interpreted()
        return interpretation and stand_in(interpretation).loaded_for(None)


class ForeignKernel:
    """A kernel on a device, which the C compiler does not build. Its address replaces it among the words, as for a `Kernel`."""

    interpreted = None  # nothing runs it before it is built

    def never_compiled(self):
        """Return None: no program computes the same."""
        return None

    @classmethod
    def obtain(cls, kernels):
        """Have kernels of this class built, all together.

        Parameters
        ----------
        kernels : list of ForeignKernel

        Returns
        -------
        list of LoadedKernel
        """
        raise NotImplementedError("%s does not say how its kernels are built" % cls.__name__)


def obtain_kernels(kernels):
    """Have kernels compiled; or interpreted, where there is no compiler, or until they are compiled (`config.tiered`).

    Parameters
    ----------
    kernels : sequence of Kernel and ForeignKernel

    Returns
    -------
    list of LoadedKernel

    Raises
    ------
    CompileError
    MissingGXX
        When there is no compiler, and one of them cannot be interpreted.
    """
    foreign = {}
    for i, kernel in enumerate(kernels):
        if isinstance(kernel, ForeignKernel):
            foreign.setdefault(type(kernel), []).append(i)
    if not foreign:
        return _obtain(kernels)
    loaded = dict(enumerate(kernels))
    for cls, places in foreign.items():
        loaded.update(zip(places, cls.obtain([kernels[i] for i in places])))
    places = [i for i, kernel in enumerate(kernels) if isinstance(kernel, Kernel)]
    loaded.update(zip(places, _obtain([kernels[i] for i in places]) if places else ()))
    return [loaded[i] for i in range(len(kernels))]


def _obtain(kernels):
    if not compiler_available():
        loaded = [kernel.never_compiled() for kernel in kernels]
    elif config.tiered == "off" or not background.AVAILABLE:
        loaded = [None] * len(kernels)
    else:
        loaded = background.obtain(kernels)
    missing = [kernel for kernel, found in zip(kernels, loaded) if not found]
    compiled = iter(load_kernels(missing) if missing else ())
    return [found or LoadedKernel(next(compiled)) for found in loaded]


class NativeCode:
    """One node's native implementation: ``NativeCode("theano_ng.tensor.native.blas:gemm", in_place=True)``.

    Parameters
    ----------
    function : str
        ``"package.module:name"`` of a native function.
    **words
        What the C code reads, by the names that it declares (`NATIVE_WORDS` in native.h): integers, sequences of integers or bytes for
        arrays, sequences of dicts for tables, a `Kernel` for its address. They are compared with the declaration when the code is bound
        to cells or becomes the text of a module.
    """

    __slots__ = ("function", "words")

    def __init__(self, function, /, **words):
        self.function = function
        self.words = words

    def __repr__(self):
        return "NativeCode(%s)" % ", ".join([repr(self.function), *["%s=%r" % word for word in self.words.items()]])

    @property
    def kernels(self):
        """The kernels among the words."""
        return tuple([value for value in self.words.values() if isinstance(value, (Kernel, ForeignKernel))])

    def packed(self, addresses):
        """The words for C.

        Parameters
        ----------
        addresses : sequence of int or LoadedKernel
            In place of `kernels`.

        Returns
        -------
        list of int

        Raises
        ------
        TypeError, ValueError
            When they are not what the C code reads, see `native_words.Record.pack`.
        """
        addresses, words = iter(addresses), dict(self.words)
        for name, value in self.words.items():
            if isinstance(value, (Kernel, ForeignKernel)):
                words[name] = next(addresses)
                if isinstance(words[name], LoadedKernel):
                    words[name], program = words[name]
                    if program:
                        words[PROGRAM] = program
        return native_function(self.function).record.pack(words)

    def bind(self, addresses, inputs, outputs, layouts):
        """Make a thunk.

        Parameters
        ----------
        addresses : sequence of int or LoadedKernel
            In place of `kernels`.
        inputs, outputs : list of cells
        layouts : list of int
            `array_layout` of each input's Type, then of each output's.

        Returns
        -------
        _native.NativeThunk
        """
        function = native_function(self.function)
        program = next((a.program for a in addresses if isinstance(a, LoadedKernel) and a.program), 0)
        scratch = function.record.offsets.get(SCRATCH, -1)
        return _native.NativeThunk(function.entry, self.packed(addresses), scratch, inputs, outputs, layouts, program)


class NativeFunction(NamedTuple):
    """A compiled function.

    Attributes
    ----------
    entry : capsule
        Of its `NativeEntry` (native.h).
    record : Record
        Of its words.
    """

    entry: object
    record: Record


@functools.lru_cache(maxsize=None)
def native_function(name):
    """The NativeFunction called ``"package.module:name"``; imports the module when it is needed for the first time."""
    module, _, attribute = name.partition(":")
    module = importlib.import_module(module)
    return NativeFunction(getattr(module, attribute), Record(name, module.words[attribute], module.words))


def array_layout(type_):
    """What a thunk checks of a Type's values: ``NumPy's type number << 8 | ndim`` of arrays, -1 when values are something else."""
    native_layout = getattr(type_, "native_layout", None)
    return -1 if native_layout is None else native_layout()


def make_native_thunk(node, code, inputs, outputs, kernels=None):
    """Bind native code to cells; compiles or loads its kernels.

    Parameters
    ----------
    node : Apply
    code : NativeCode
    inputs, outputs : list of cells
    kernels : sequence of LoadedKernel, optional
        In place of its kernels, instead.

    Returns
    -------
    _native.NativeThunk
    """
    addresses = kernels or (obtain_kernels(code.kernels) if code.kernels else ())
    layouts = [array_layout(variable.type) for variable in (*node.inputs, *node.outputs)]
    for i in getattr(node.op, "native_unchecked", ()):
        layouts[i] = -1
    thunk = code.bind(addresses, inputs, outputs, layouts)
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
    for op_class in type(op).__mro__:
        for type_class in type(node.inputs[0].type).__mro__:
            make = _registered.get((op_class, type_class))
            if make is not None:
                return make(op, node)
        if "perform" in op_class.__dict__ and "c_code" not in op_class.__dict__:
            return None  # a subclass that computes something else, in Python
    return None


def beside_native(c_code):
    """Decorator of a `c_code` that is the same as native code, for modules of several nodes: it does not replace that, nor reads params."""
    c_code.beside_native = True
    return c_code


_prepared = {}  # Apply -> NativeCode, while thunks are made


@contextlib.contextmanager
def prepared(codes):
    """Let `native_code_of` know some nodes' code for a while: generating it again for each thunk would take twice the time.

    Parameters
    ----------
    codes : dict
        Apply -> NativeCode.
    """
    nodes = iter(tuple(codes))  # made here, as there may be no memory for it at the end
    try:
        _prepared.update(codes)
        yield
    finally:
        for node in nodes:
            _prepared.pop(node, None)


def native_code_of(node):
    """The NativeCode by which a node runs; None when its Op has none, or has a `c_code` that overrides it."""
    if node in _prepared:
        return _prepared[node]
    native_code = getattr(node.op, "native_code", None)
    return None if native_code is None or getattr(node.op, "own_c_code", False) else native_code(node)


def meets_unknown_halves(node):
    """Whether a node's `c_code` would compute on the 16 bits of halves: it has float16 operands and the Op does not set `_f16_ok`."""
    halves = any(getattr(v.type, "dtype", None) == "float16" for v in (*node.inputs, *node.outputs))
    return halves and not getattr(node.op, "_f16_ok", False)


class NativeOp:
    """Mixin that derives the classic C interface of an Op from its `native_code`.

    ::

        class DimShuffle(NativeOp, Op):
            def native_code(self, node):
                return NativeCode("theano_ng.tensor.native.elemwise:dimshuffle", copies=not self.inplace, order=...)
    """

    # Numbers of inputs that the native code is given whatever they are, None for instance, because it checks them itself.
    native_unchecked = ()

    # Whether the class is a subclass of an Op with native code, and has written a `c_code` that is to be used instead.
    own_c_code = False

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "c_code" in cls.__dict__ or "native_code" in cls.__dict__:
            cls.own_c_code = "native_code" not in cls.__dict__ and not getattr(
                cls.__dict__["c_code"], "beside_native", False
            )

    def native_code(self, node):
        """The node's NativeCode, or None when it has no C implementation."""
        return registered_native_code(self, node)

    def _native_code(self, node):
        code = self.native_code(node)
        if code is None or any(isinstance(kernel, ForeignKernel) for kernel in code.kernels):
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
        words = code.packed([0] * len(code.kernels))
        text = "native_fn native_%s;\nint64_t words_%s[%d];" % (name, name, len(words) or 1)
        count = self._scratch(node, code, words)
        return text if count is None else text + "\nint64_t scratch_%s[%d];" % (name, count or 1)

    def _scratch(self, node, code, words):
        """How many words of scratch memory the C code needs; None if it does not ask for any."""
        function = native_function(code.function)
        if SCRATCH not in function.record.offsets:
            return None
        return _native.scratch_words(function.entry, words, len(node.inputs), len(node.outputs))

    def c_init_code_struct(self, node, name, sub):
        code = self._native_code(node)
        module, _, attribute = code.function.partition(":")
        offsets = native_function(code.function).record.offsets
        words = ["INT64_MIN" if word == -(2**63) else "%dLL" % word for word in code.packed([0] * len(code.kernels))]
        kernels = [word for word, value in code.words.items() if isinstance(value, Kernel)]
        for i, word in enumerate(kernels):
            words[offsets[word]] = "(int64_t)(intptr_t)&%s" % kernel_name(name, i)
        clear = ""
        if SCRATCH in offsets:
            words[offsets[SCRATCH]] = "(int64_t)(intptr_t)scratch_%s" % name
            clear = "memset(scratch_%s, 0, sizeof scratch_%s);" % (name, name)
        fill = "\n".join("words_%s[%d] = %s;" % (name, i, word) for i, word in enumerate(words))
        return """
%(clear)s
%(fill)s
{
    const NativeEntry *entry = native_entry("%(module)s", "%(attribute)s");
    if (entry == NULL) {
        %(fail)s
    }
    native_%(name)s = entry->function;
}
""" % dict(name=name, clear=clear, fill=fill, module=module, attribute=attribute, fail=sub["fail"])

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
            name=name,
            nin=len(inputs),
            nout=len(outputs),
            fail=sub["fail"],
            ins=", ".join(["(PyObject *)%s" % i for i in inputs] or ["NULL"]),
            outs=", ".join(["(PyObject *)%s" % o for o in outputs] or ["NULL"]),
            back=" ".join("%s = (decltype(%s))native_out[%d];" % (o, o, i) for i, o in enumerate(outputs)),
        )

    def c_code_cache_version(self):
        return (2,)


def kernel_name(name, i):
    """The C identifier of a node's i-th kernel inside a classic module."""
    return "kernel_%s_%d" % (name, i)


def kernel_in_module(kernel, symbol):
    """The text that defines a kernel inside a C++ module that has included the kernel prologue."""
    includes = "".join("#include %s\n" % header for header in kernel.headers)
    return includes + kernel.support + "\n" + rename_symbol(kernel.source, kernel.symbol, symbol)
