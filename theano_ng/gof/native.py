"""Native code of Ops: C code that ships with the package, and its use as a thunk or in a classic C module.

An Op whose C code does not depend on the graph returns a `NativeCode`: the name of a compiled function, and the values
of the function's parameters. The linkers bind the function to cells without compiling anything. `NativeOp` derives the
classic C interface (`c_code` etc.) from the same `NativeCode`.
"""

import contextlib
import functools
import hashlib
import importlib
import os
from typing import NamedTuple

from theano_ng.configdefaults import config
from theano_ng.gof import _native
from theano_ng.gof.compiler import background
from theano_ng.gof.compiler.kernelcache import LoadedKernel, load_kernels, rename_symbol
from theano_ng.gof.compiler.standin import stand_in
from theano_ng.gof.compiler.toolchain import CompileError, compiler_available
from theano_ng.gof.native_params import SCRATCH, Record
from theano_ng.gof.utils import MethodNotDefined

_registered = {}

# The name of the parameter that holds the address of an interpreted loop program. Only native functions that interpret
# such programs read this parameter.
PROGRAM = "program"

# The name of the parameter that holds the address of a kernel in a row of a table. A row without this parameter needs
# no kernel.
KERNEL = "kernel"


class Kernel(NamedTuple):
    """A C function that depends on the graph: an inner loop that uses no Python header.

    Attributes
    ----------
    source : str
        C source that defines one function called `symbol`. It compiles as C11 and as C++ (GNU dialects) after
        kernel_prologue.h.
    symbol : str
        The name of the function in `source`.
    language : {"c", "c++"}
    headers : tuple of str
        The arguments of ``#include`` lines, e.g. ``"<algorithm>"``.
    support : str
        C source to put before the function.
    compile_args, libraries : tuple of str
    program : LoopProgram, optional
        The computation for which the source was written.
    interpreter : callable, optional
        ``interpreter(program)`` returns an `Interpretation` that performs the same computation without a compiler, or
        None.
    """

    source: str
    symbol: str = "KERNEL"
    language: str = "c"
    headers: tuple = ()
    support: str = ""
    compile_args: tuple = ()
    libraries: tuple = ()
    program: object = None
    interpreter: object = None

    @property
    def suffix(self):
        """The suffix of files with this kernel."""
        return "c" if self.language == "c" else "cpp"

    def text(self):
        """Return the source code, with the loop program in front as a comment."""
        includes = ["#include " + header for header in self.headers]
        return _text_of(self.program, [*includes, self.support, self.source])

    def interpretation(self):
        """Return the `Interpretation` for the same computation, or None if the computation cannot be interpreted."""
        return self.interpreter and self.interpreter(self.program)

    def load_interpreted(self):
        """Return the `LoadedKernel` of an interpreted program for the same computation, or None if there is no program.

        Unlike programs that `obtain_kernels` returns, this program is never replaced by a compiled kernel later.
        """
        interpretation = self.interpretation()
        return interpretation and stand_in(interpretation).loaded_for(None)


class ForeignKernel:
    """A kernel that runs on a device, such as a GPU. The C compiler does not compile it.

    In the parameters of native code, such a kernel is replaced by its address, like a `Kernel`.
    """

    interpreter = None  # no interpreter can run a program in place of this kernel
    suffix = "txt"

    def text(self):
        """Return the source code, with the loop program in front as a comment."""
        return _text_of(self.program, [*self.support, self.source])

    def load_interpreted(self):
        """Return None: no interpreter can run a program in place of this kernel."""
        return None

    @classmethod
    def obtain(cls, kernels):
        """Build kernels of this class together.

        Parameters
        ----------
        kernels : list of ForeignKernel

        Returns
        -------
        list of LoadedKernel
        """
        raise NotImplementedError("%s does not define how its kernels are built" % cls.__name__)


def obtain_kernels(kernels):
    """Return compiled kernels, or interpreted programs for the same computations.

    The interpreted programs are used if there is no compiler. If `config.tiered` is set, they are also used until the
    kernels are compiled.

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
        If there is no compiler, and a kernel cannot be interpreted.
    """
    if config.kernel_folder:
        write_kernels(kernels, config.kernel_folder)
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


def write_kernels(kernels, folder):
    """Write the source code of each kernel, with its loop program as a comment, to a file in a folder.

    The name of each file is a digest of the file's content.

    Parameters
    ----------
    kernels : iterable of Kernel and ForeignKernel
    folder : str
        It is created if it does not exist.

    Raises
    ------
    OSError
        If a file cannot be written.
    """
    os.makedirs(folder, exist_ok=True)
    for kernel in kernels:
        text = kernel.text()
        name = "%s.%s" % (hashlib.sha256(text.encode()).hexdigest()[:24], kernel.suffix)
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)


def _text_of(program, parts):
    """Return source code after a comment with a loop program."""
    lines = [] if program is None else ["/*", *[" * " + line for line in str(program).splitlines()], " */"]
    return "\n".join([*lines, *[part for part in parts if part]]) + "\n"


def _obtain(kernels):
    if not compiler_available():
        loaded = [kernel.load_interpreted() for kernel in kernels]
    elif config.tiered == "off" or not background.AVAILABLE:
        loaded = [None] * len(kernels)
    else:
        loaded = background.obtain(kernels)
    missing = [kernel for kernel, found in zip(kernels, loaded) if not found]
    compiled = iter(load_kernels(missing) if missing else ())
    return [found or LoadedKernel(next(compiled)) for found in loaded]


class NativeCode:
    """The native implementation of one node, such as ``NativeCode("theano_ng.tensor.native.blas:gemm",
    in_place=True)``.

    Parameters
    ----------
    function : str
        The path ``"package.module:name"`` of a native function.
    **params
        The parameters of the C code, under the names that the C code declares (`NATIVE_PARAMS` in native.h). A value is
        an integer. The value for an array is a sequence of integers or bytes, and the value for a table is a sequence
        of dicts. The address of a `Kernel` is passed in place of the `Kernel`. The values are checked against the
        declaration when the code is bound to cells, or becomes part of a module's source.
    """

    __slots__ = ("function", "params")

    def __init__(self, function, /, **params):
        self.function = function
        self.params = params

    def __repr__(self):
        return "NativeCode(%s)" % ", ".join([repr(self.function), *["%s=%r" % pair for pair in self.params.items()]])

    def _records(self):
        """Yield each dict of parameters that may contain a kernel, and the offset of the dict in the packed parameters.

        The offset is a number of words. The first dict contains the parameters of the function. Each further dict is a
        row of the function's table.
        """
        yield self.params, 0
        record = native_function(self.function).record
        if record.row is not None and KERNEL in record.row.offsets:
            for i, row in enumerate(self.params[record.tail]):
                yield row, record.offsets[record.tail] + i * record.row.size

    @property
    def kernels(self):
        """The kernels among the parameters and in the rows of the table."""
        return tuple(
            [v for params, _ in self._records() for v in params.values() if isinstance(v, (Kernel, ForeignKernel))]
        )

    def kernel_offsets(self):
        """Return a list: for each kernel of `kernels`, the number of packed words in front of its address."""
        record = native_function(self.function).record
        return [
            before + (record if params is self.params else record.row).offsets[name]
            for params, before in self._records()
            for name, value in params.items()
            if isinstance(value, (Kernel, ForeignKernel))
        ]

    def packed(self, addresses):
        """Return the packed parameters for C.

        Parameters
        ----------
        addresses : sequence of int or LoadedKernel
            The addresses that replace `kernels`.

        Returns
        -------
        list of int

        Raises
        ------
        TypeError, ValueError
            If the values do not match the declaration of the C code, see `native_params.Record.pack`.
        """
        addresses, record = iter(addresses), native_function(self.function).record
        params, *rows = [_with_addresses(params, addresses) for params, _ in self._records()]
        if rows:
            params[record.tail] = rows
        return record.pack(params)

    def bind(self, addresses, inputs, outputs, layouts):
        """Return a thunk that runs the code on cells.

        Parameters
        ----------
        addresses : sequence of int or LoadedKernel
            The addresses that replace `kernels`.
        inputs, outputs : list of cells
        layouts : list of int
            The `array_layout` of each input's Type, then of each output's Type.

        Returns
        -------
        _native.NativeThunk
        """
        function = native_function(self.function)
        programs = tuple([a.program for a in addresses if isinstance(a, LoadedKernel) and a.program])
        scratch = function.record.offsets.get(SCRATCH, -1)
        return _native.NativeThunk(function.entry, self.packed(addresses), scratch, inputs, outputs, layouts, programs)


def _with_addresses(params, addresses):
    """Return parameters in which an address replaces each kernel.

    If the function is an interpreter, the address of its program is added.
    """
    found = dict(params)
    for name, value in params.items():
        if isinstance(value, (Kernel, ForeignKernel)):
            found[name] = next(addresses)
            if isinstance(found[name], LoadedKernel):
                found[name], program = found[name]
                if program:
                    found[PROGRAM] = program
    return found


class NativeFunction(NamedTuple):
    """A compiled native function.

    Attributes
    ----------
    entry : capsule
        A capsule of its `NativeEntry` (native.h).
    record : Record
        The layout of its parameters.
    """

    entry: object
    record: Record


@functools.cache
def native_function(name):
    """Return the NativeFunction called ``"package.module:name"``.

    Import the module when it is needed for the first time.
    """
    module, _, attribute = name.partition(":")
    module = importlib.import_module(module)
    return NativeFunction(getattr(module, attribute), Record(name, module.params[attribute], module.params))


def array_layout(type_):
    """Return the number by which a thunk checks the dtype and ndim of the values of a Type.

    The number is ``NumPy's type number << 8 | ndim`` for arrays. It is -1 for other values, which are not checked.
    """
    native_layout = getattr(type_, "native_layout", None)
    return -1 if native_layout is None else native_layout()


def make_native_thunk(node, code, inputs, outputs, kernels=None):
    """Bind native code to cells. Compile or load its kernels.

    Parameters
    ----------
    node : Apply
    code : NativeCode
    inputs, outputs : list of cells
    kernels : sequence of LoadedKernel, optional
        Kernels to use instead of the kernels of `code`.

    Returns
    -------
    _native.NativeThunk
    """
    try:
        addresses = kernels or (obtain_kernels(code.kernels) if code.kernels else ())
    except CompileError as failure:
        raise failure.name_node(node)  # noqa: B904, name_node returns the same exception
    layouts = [array_layout(variable.type) for variable in (*node.inputs, *node.outputs)]
    for i in getattr(node.op, "native_unchecked", ()):
        layouts[i] = -1
    thunk = code.bind(addresses, inputs, outputs, layouts)
    thunk.node = node
    thunk.set_queue(*_queue_of(node))
    return thunk


def _queue_of(node):
    """Return the address of the queue that collects the node's work for a device (0 if there is none), and whether the
    node can run while a queue is open.

    A Type of device arrays has a method `work_queue`, which returns the address of a `WorkQueue` (work_queue.h), or 0.
    A node without results on a device lets the device wait while it runs. So it may run only if it computes at most
    a few numbers.
    """
    if not getattr(node.op, "native_uses_queue", True):
        return 0, False
    variables = (*node.inputs, *node.outputs)
    queues = {v.type.work_queue() for v in variables if hasattr(v.type, "work_queue")}
    if all(hasattr(v.type, "work_queue") for v in node.outputs):
        return (queues.pop() if len(queues) == 1 else 0), False
    return 0, all(_is_small(v.type) for v in variables)


def _is_small(type_):
    """Return True if values of a Type are on a device, or consist of a few numbers: a number, or a shape."""
    if hasattr(type_, "work_queue") or getattr(type_, "ndim", None) == 0:
        return True
    broadcastable = getattr(type_, "broadcastable", None)
    return broadcastable is not None and (all(broadcastable) or (len(broadcastable) == 1 and type_.dtype == "int64"))


def register_native_code(op_class, type_class, make):
    """Register the native code that an Op uses if its first input has a Type of the class `type_class`.

    This is for Ops that accept any Type, such as `ViewOp`: the package of the Type provides the native code.

    Parameters
    ----------
    op_class, type_class : class
        The classes of the Op, and of the Type of its first input.
    make : callable
        ``make(op, node)`` returns a NativeCode, or None if this node has none.
    """
    _registered[op_class, type_class] = make


def registered_native_code(op, node):
    """Return the NativeCode that was registered for this Op and the type of the node's first input, or None."""
    for op_class in type(op).__mro__:
        for type_class in type(node.inputs[0].type).__mro__:
            make = _registered.get((op_class, type_class))
            if make is not None:
                return make(op, node)
        if "perform" in op_class.__dict__ and "c_code" not in op_class.__dict__:
            return None  # op_class overrides perform, so native code of a base class may compute something else
    return None


def equivalent_to_native(c_code):
    """Mark a method `c_code` as equivalent to the native code of its class. This is a decorator.

    Thunks of single nodes still run the native code. Only C++ modules of several nodes use the `c_code`. A marked
    `c_code` does not read params.
    """
    c_code.equivalent_to_native = True
    return c_code


_prepared = {}  # Apply -> NativeCode, while thunks are made


@contextlib.contextmanager
def use_prepared_code(codes):
    """Make `native_code_of` return the given code inside the context.

    Otherwise, the code of each node would be generated twice: for its kernels, and for its thunk.

    Parameters
    ----------
    codes : dict
        Apply -> NativeCode.
    """
    nodes = iter(tuple(codes))  # created now, because memory may be exhausted at the end
    try:
        _prepared.update(codes)
        yield
    finally:
        for node in nodes:
            _prepared.pop(node, None)


def native_code_of(node):
    """Return the NativeCode of a node. Return None if the Op has no native code, or a `c_code` that overrides it."""
    if node in _prepared:
        return _prepared[node]
    native_code = getattr(node.op, "native_code", None)
    return None if native_code is None or getattr(node.op, "own_c_code", False) else native_code(node)


def reads_raw_float16(node):
    """Return True if a node's `c_code` would compute with the raw 16 bits of float16 values.

    This is the case if the node has float16 operands and the Op does not set `_f16_ok`.
    """
    halves = any(getattr(v.type, "dtype", None) == "float16" for v in (*node.inputs, *node.outputs))
    return halves and not getattr(node.op, "_f16_ok", False)


class NativeOp:
    """A mixin that derives the classic C interface of an Op from its `native_code`.

    ::

        class DimShuffle(NativeOp, Op):
            def native_code(self, node):
                return NativeCode("theano_ng.tensor.native.elemwise:dimshuffle", copies=not self.inplace, order=...)
    """

    # The indices of inputs that thunks pass to the native code without a check, because the native code itself checks
    # these inputs. The values may be None.
    native_unchecked: tuple[int, ...] = ()

    # Whether a device can collect the work of the native code in a queue. The native code must hold the GIL, run no Python
    # code, and not pass addresses of device memory to other libraries.
    native_uses_queue = True

    # True if a subclass of an Op with native code defines `c_code`. The `c_code` then overrides the native code.
    own_c_code = False

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "c_code" in cls.__dict__ or "native_code" in cls.__dict__:
            cls.own_c_code = "native_code" not in cls.__dict__ and not getattr(
                cls.__dict__["c_code"], "equivalent_to_native", False
            )

    def native_code(self, node):
        """Return the node's NativeCode, or None if the Op has no native code for this node."""
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
        params = code.packed([0] * len(code.kernels))
        text = "native_fn native_%s;\nint64_t params_%s[%d];" % (name, name, len(params) or 1)
        count = self._scratch(node, code, params)
        return text if count is None else text + "\nint64_t scratch_%s[%d];" % (name, count or 1)

    def _scratch(self, node, code, params):
        """Return the size in words of the scratch memory that the C code needs, or None if it uses none."""
        function = native_function(code.function)
        if SCRATCH not in function.record.offsets:
            return None
        return _native.scratch_size(function.entry, params, len(node.inputs), len(node.outputs))

    def c_init_code_struct(self, node, name, sub):
        code = self._native_code(node)
        module, _, attribute = code.function.partition(":")
        offsets = native_function(code.function).record.offsets
        params = ["INT64_MIN" if word == -(2**63) else "%dLL" % word for word in code.packed([0] * len(code.kernels))]
        for i, offset in enumerate(code.kernel_offsets()):
            params[offset] = "(int64_t)(intptr_t)&%s" % kernel_name(name, i)
        clear = ""
        if SCRATCH in offsets:
            params[offsets[SCRATCH]] = "(int64_t)(intptr_t)scratch_%s" % name
            clear = "memset(scratch_%s, 0, sizeof scratch_%s);" % (name, name)
        fill = "\n".join("params_%s[%d] = %s;" % (name, i, word) for i, word in enumerate(params))
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
    int native_status = native_%(name)s(%(nin)d, %(nout)d, native_in, native_out, params_%(name)s);
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
        return (3,)


def kernel_name(name, i):
    """Return the C identifier of a node's i-th kernel inside a classic module."""
    return "kernel_%s_%d" % (name, i)


def kernel_in_module(kernel, symbol):
    """Return C++ source that defines a kernel inside a module that includes the kernel prologue."""
    includes = "".join("#include %s\n" % header for header in kernel.headers)
    return includes + kernel.support + "\n" + rename_symbol(kernel.source, kernel.symbol, symbol)
