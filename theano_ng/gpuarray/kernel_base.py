"""Base classes of Ops that define kernels in classic C code.

`GpuKernelBase` writes C code that builds the kernels of a node when the node's thunk is made, and C functions that call
the kernels. `CGpuKernelBase` reads C code and kernels from files.

The Ops of this package do not use these classes. They define kernels by `GpuOp` and `DeviceKernel`, so that all kernels
of a function are built together.
"""

import re

import numpy as np

from theano_ng.gof.op import COp
from theano_ng.gof.params_type import ParamsType
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.type import INCLUDE, GpuArrayType, GpuContextType, gpu_context_type

__all__ = ["CGpuKernelBase", "GpuKernelBase", "Kernel", "get_ctype", "get_dtype"]

_ARGUMENTS = {"*": pygpu.GpuArray, "size": pygpu.SIZE, "ssize": pygpu.SSIZE}

# dtype -> C type of a kernel argument.
_C_TYPES = {
    "bool": "npy_bool", "int8": "npy_int8", "uint8": "npy_uint8", "int16": "npy_int16", "uint16": "npy_uint16", "int32": "npy_int32",
    "uint32": "npy_uint32", "int64": "npy_int64", "uint64": "npy_uint64", "float16": "npy_half", "float32": "npy_float32",
    "float64": "npy_float64", "complex64": "npy_complex64", "complex128": "npy_complex128",
}  # fmt: skip

_FLAGS = {
    "have_small": "GA_USE_SMALL",
    "have_double": "GA_USE_DOUBLE",
    "have_complex": "GA_USE_COMPLEX",
    "have_half": "GA_USE_HALF",
}
_NEEDS = {
    "have_small": ("bool", "int8", "uint8", "int16", "uint16", "float16"),
    "have_double": ("float64", "complex128"),
    "have_complex": ("complex64", "complex128"),
    "have_half": ("float16",),
}


def get_dtype(s):
    """Return the type of a kernel argument that a ``#kernel`` line names.

    Parameters
    ----------
    s : str
        "*" for an array, "size", "ssize", or NumPy's name of a dtype.

    Returns
    -------
    GpuArray (the class), `SIZE`, `SSIZE` or dtype

    Raises
    ------
    TypeError
        If `s` is none of these texts.
    """
    return _ARGUMENTS[s] if s in _ARGUMENTS else np.dtype(s)


def get_ctype(dtype):
    """Return the C type of an argument of the C functions that call a kernel (see `Kernel`).

    Parameters
    ----------
    dtype : GpuArray (the class), `SIZE`, `SSIZE` or dtype

    Examples
    --------
    >>> get_ctype("float32")
    'npy_float32'
    """
    if isinstance(dtype, type) and issubclass(dtype, pygpu.GpuArray):
        return "gpudata *"
    if dtype is pygpu.SIZE:
        return "size_t"
    if dtype is pygpu.SSIZE:
        return "ssize_t"
    return _C_TYPES[pygpu.typecode_to_dtype(pygpu.dtype_to_typecode(dtype)).name]


class Kernel:
    """A kernel of an Op.

    Parameters
    ----------
    code : str
        The source code, in the dialect of ``cluda.h``.
    params : sequence
        Argument types: the class GpuArray for memory, `pygpu.gpuarray.SIZE`, `pygpu.gpuarray.SSIZE` or a dtype. With
        the flag `ctypes`, they are C type codes instead.
    name : str
        Name of the kernel in `code`.
    flags : dict or str
        Capabilities that the kernel needs, see `get_flags`: ``have_double=True`` and so on. ``cuda`` or ``opencl``
        marks source code in the device's own language. ``cflags`` is a C expression such as ``"GA_USE_DOUBLE"``; such a
        string may also be given instead of a dict.
    codevar, objvar : str, optional
        C names of the variables that hold the source code and the `GpuKernel`. Defaults: ``"kcode_" + name`` and
        ``"k_" + name``.
    fname, sname : str, optional
        C names of the functions that call the kernel. Defaults: ``name + "_call"`` and ``name + "_scall"``.

    Notes
    -----
    ``int NAME_call(unsigned nd, size_t *gs, size_t *ls, size_t shared, ...)`` launches `gs` groups of `ls` threads
    along each of `nd` axes, with `shared` bytes of local memory. ``int NAME_scall(unsigned nd, size_t *n, size_t
    shared, ...)`` launches at least `n` threads along each axis, in groups that suit the device. The arguments of the
    kernel follow. Both functions return ``GA_NO_ERROR`` or an error code. ``GpuKernel_error(&k_NAME, code)`` returns
    the message of an error code.
    """

    def __init__(self, code, params, name, flags, codevar=None, objvar=None, fname=None, sname=None):
        self.code, self.params, self.name = code, list(params), name
        self.flags = {"cflags": flags} if isinstance(flags, str) else dict(flags)
        unknown = set(self.flags) - {*_FLAGS, "cuda", "opencl", "ctypes", "cflags"}
        if unknown:
            raise ValueError("kernel %s has unknown flags: %s" % (name, ", ".join(sorted(unknown))))
        self.codevar = "kcode_" + name if codevar is None else codevar
        self.objvar = "k_" + name if objvar is None else objvar
        self.fname = name + "_call" if fname is None else fname
        self.sname = name + "_scall" if sname is None else sname

    @staticmethod
    def get_flags(*types):
        """Return the flags of a kernel that works on elements of these dtypes.

        Parameters
        ----------
        *types : dtype

        Returns
        -------
        dict of str to bool
        """
        names = {np.dtype(dtype).name for dtype in types}
        return {flag: True for flag, needing in _NEEDS.items() if names.intersection(needing)}

    def _c_flags(self):
        """Return the flags as a C expression."""
        words = [word for flag, word in _FLAGS.items() if self.flags.get(flag)]
        words += [word for flag, word in (("cuda", "GA_USE_CUDA"), ("opencl", "GA_USE_OPENCL")) if self.flags.get(flag)]
        given = self.flags.get("cflags", "").strip()
        return " | ".join([*words, given] if given else words) or "0"

    def _c_types(self):
        """Return the argument types as C type codes."""
        if self.flags.get("ctypes"):
            return [str(code) for code in self.params]
        return [str(_typecode(param)) for param in self.params]

    def _c_declarations(self):
        """Return the argument types of the C functions that call the kernel."""
        if self.flags.get("ctypes"):
            return [_ctype_of_number(code) for code in self.params]
        return [get_ctype(param) for param in self.params]


def _typecode(param):
    if isinstance(param, type) and issubclass(param, pygpu.GpuArray):
        return -1
    return param.code if param in (pygpu.SIZE, pygpu.SSIZE) else pygpu.dtype_to_typecode(param)


_NAMES_OF_C = {"GA_BUFFER": "gpudata *", "GA_SIZE": "size_t", "GA_SSIZE": "ssize_t"}
_NAMES_OF_C.update(
    zip(
        "GA_BOOL GA_BYTE GA_UBYTE GA_SHORT GA_USHORT GA_INT GA_UINT GA_LONG GA_ULONG GA_HALF GA_FLOAT GA_DOUBLE GA_CFLOAT GA_CDOUBLE".split(),
        map(
            _C_TYPES.get,
            "bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 complex64 complex128".split(),
        ),
    )
)


def _ctype_of_number(code):
    """Return the C type of an argument that is given as ``"GA_FLOAT"`` or as a type code."""
    if code in _NAMES_OF_C:
        return _NAMES_OF_C[code]
    number = int(code)
    for argument in _ARGUMENTS.values():
        if _typecode(argument) == number:
            return get_ctype(argument)
    return get_ctype(pygpu.typecode_to_dtype(number))


def _c_string(text):
    """Return a text as a C string literal, one line of the text per line."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "?": "\\?"}
    lines = [
        '"%s"'
        % "".join(
            escapes.get(c) or (c if c.isascii() and c.isprintable() else "".join("\\%03o" % b for b in c.encode()))
            for c in line
        )
        for line in text.splitlines(keepends=True)
    ]
    return "\n    ".join(lines) or '""'


class GpuKernelBase:
    """A base class of Ops that define kernels. It is a mixin: list it before `Op` among the base classes.

    A subclass defines `gpu_kernels`, and calls the kernels in its `c_code`. The params contain the context. By default,
    this is the context of the first output that is on a device. If no output is on a device, it is the context of the
    first input that is on a device. A subclass may redefine `params_type` and `get_params`.
    """

    params_type = gpu_context_type

    def get_params(self, node):
        """Return the context of the node, or params that contain this context.

        If the params of a subclass contain no context, the subclass must define `get_gpu_context`.
        """
        if self.params_type == gpu_context_type:
            return _context_of(node)
        if isinstance(self.params_type, ParamsType) and self.params_type.has_type(gpu_context_type):
            field = self.params_type.get_field(gpu_context_type)
            others = {name: getattr(self, name) for name in self.params_type.fields if name != field}
            return self.params_type.get_params(**others, **{field: _context_of(node)})
        return super().get_params(node)

    def get_gpu_context(self, node):
        """Return the context for the kernels of a node, from its params.

        Parameters
        ----------
        node : Apply

        Returns
        -------
        GpuContext

        Raises
        ------
        TypeError
            If the params contain no context. Then a subclass has to define this method, and `get_gpu_context_c_name`.
        """
        params = self.get_params(node)
        field = self._context_field()
        return params if field is None else getattr(params, field)

    def get_gpu_context_c_name(self, params_c_name):
        """Return the C expression for the context.

        Parameters
        ----------
        params_c_name : str
            The C expression for the params.
        """
        field = self._context_field()
        return params_c_name if field is None else "(%s->%s)" % (params_c_name, field)

    def _context_field(self):
        """Return the field of the params that contains the context, or None if the params are the context."""
        if isinstance(self.params_type, GpuContextType):
            return None
        if isinstance(self.params_type, ParamsType) and self.params_type.has_type(gpu_context_type):
            return self.params_type.get_field(gpu_context_type)
        raise TypeError(
            "%s: the params_type %s contains no context for the kernels; use gpu_context_type, or a ParamsType with a "
            "field of this type, or define get_gpu_context and get_gpu_context_c_name"
            % (type(self).__name__, self.params_type)
        )

    def gpu_kernels(self, node, name):
        """Return the kernels that the Op needs. Subclasses define this method.

        Parameters
        ----------
        node : Apply
        name : str
            A name that is unique in the C module.

        Returns
        -------
        iterable of Kernel
        """
        raise MethodNotDefined("gpu_kernels", type(self), type(self).__name__)

    # -- parts of the C code --

    def c_headers(self):
        return [
            *_of_super(super(), "c_headers"),
            "gpuarray/types.h",
            "gpuarray/kernel.h",
            "gpuarray/error.h",
            "gpuarray_api.h",
        ]

    def c_header_dirs(self):
        return [*_of_super(super(), "c_header_dirs"), INCLUDE]

    def c_support_code_apply(self, node, name):
        """Return the kernels' source code as C strings."""
        parts = [_joined(_of_super(super(), "c_support_code_apply", node, name))]
        for kernel in self.gpu_kernels(node, name):
            parts.append("static const char %s[] =\n    %s;" % (kernel.codevar, _c_string(kernel.code)))
        return "\n".join(parts)

    def c_support_code_struct(self, node, name):
        """Return the declarations of the kernels, and the functions that call them."""
        parts = [_wrapper(kernel) for kernel in self.gpu_kernels(node, name)]
        return "\n".join([*parts, _joined(_of_super(super(), "c_support_code_struct", node, name))])

    def c_init_code_struct(self, node, name, sub):
        """Return the C code that builds the kernels."""
        ctx = self.get_gpu_context_c_name(sub["params"])
        kernels = list(self.gpu_kernels(node, name))
        # Zero all kernels first: if a build fails, the cleanup also clears the kernels that were not built.
        parts = ["memset(&%s, 0, sizeof %s);" % (kernel.objvar, kernel.objvar) for kernel in kernels]
        parts += [_building(kernel, ctx, sub["fail"]) for kernel in kernels]
        return "\n".join([*parts, _joined(_of_super(super(), "c_init_code_struct", node, name, sub))])

    def c_cleanup_code_struct(self, node, name):
        """Return the C code that releases the kernels."""
        parts = ["GpuKernel_clear(&%s);" % kernel.objvar for kernel in self.gpu_kernels(node, name)]
        return "\n".join([_joined(_of_super(super(), "c_cleanup_code_struct", node, name)), *parts])

    def c_code_cache_version_apply(self, node):
        version = self.c_code_cache_version()
        if not version:
            return ()
        return (*version, self.kernel_version(node))

    def kernel_version(self, node):
        """Return the version of the C code that this class writes, for `c_code_cache_version_apply` of subclasses.

        The version does not depend on the context, because the kernels are built at run time for the device that runs
        them.

        Parameters
        ----------
        node : Apply

        Returns
        -------
        tuple
        """
        return (1,)


def _of_super(parent, method, *args):
    """Call a method of `parent` (a ``super()``). Return the result as a list, or [] if there is no such method."""
    try:
        answer = getattr(parent, method)(*args)
    except (AttributeError, MethodNotDefined):
        return []
    return [answer] if isinstance(answer, str) else list(answer or ())


def _joined(texts):
    return "\n".join(texts)


def _context_of(node):
    for variable in [*node.outputs, *node.inputs]:
        if isinstance(variable.type, GpuArrayType):
            return variable.type.context
    raise TypeError("%s: no output and no input is on a device; define get_params" % (node,))


def _wrapper(kernel):
    declared = kernel._c_declarations()
    params = "".join(", %s arg%d" % (ctype, i) for i, ctype in enumerate(declared))
    pointers = ", ".join("arg%d" % i if ctype == "gpudata *" else "&arg%d" % i for i, ctype in enumerate(declared))
    return """
GpuKernel %(objvar)s;
int %(fname)s(unsigned int nd, const size_t *gdim, const size_t *ldim, size_t shared%(params)s) {
    void *args[] = {%(pointers)s};
    return GpuKernel_call(&%(objvar)s, nd, gdim, ldim, shared, args);
}
int %(sname)s(unsigned int nd, const size_t *n, size_t shared%(params)s) {
    size_t gs[3] = {0, 0, 0}, ls[3] = {0, 0, 0};
    if (nd < 1 || nd > 3)
        return GA_VALUE_ERROR;
    for (unsigned int i = 0; i < nd; ++i)
        if (n[i] == 0)
            return GA_NO_ERROR;
    int code = GpuKernel_sched(&%(objvar)s, n[0], &gs[0], &ls[0]);
    for (unsigned int i = 1; i < nd; ++i)
        gs[i] = n[i], ls[i] = 1;
    return code == GA_NO_ERROR ? %(fname)s(nd, gs, ls, shared%(names)s) : code;
}
""" % dict(
        objvar=kernel.objvar,
        fname=kernel.fname,
        sname=kernel.sname,
        params=params,
        pointers=pointers or "NULL",
        names="".join(", arg%d" % i for i in range(len(declared))),
    )


def _building(kernel, ctx, fail):
    types = kernel._c_types()
    return """
{
    const int types[] = {%(types)s};
    const char *text = %(codevar)s;
    char *listing = NULL;
    int code = GpuKernel_init(&%(objvar)s, %(ctx)s->ctx, 1, &text, NULL, "%(name)s", %(count)d, types, %(flags)s, &listing);
    if (code != GA_NO_ERROR) {
        PyErr_Format(PyExc_RuntimeError, "GpuKernel_init error %%d: kernel %(name)s cannot be built: %%s\\n%%s", code,
                     gpucontext_error(%(ctx)s->ctx, code), listing == NULL ? "" : listing);
        free(listing);
        %(fail)s
    }
    free(listing);
}
""" % dict(
        types=", ".join(types) or "0",
        codevar=kernel.codevar,
        objvar=kernel.objvar,
        ctx=ctx,
        name=kernel.name,
        count=len(types),
        flags=kernel._c_flags(),
        fail=fail,
    )


class CGpuKernelBase(COp, GpuKernelBase):
    """An Op whose C code and kernels are read from files.

    Parameters
    ----------
    func_files : str or list of str
    func_name : str, optional
        See `COp`.

    Notes
    -----
    The files may have sections ``kernels``. In them, a line ``#kernel name : params : flags`` begins each kernel. The
    source code of the kernel extends to the next such line. `params` are the argument types, separated by commas: ``*``
    for memory, ``size``, ``ssize`` or names of dtypes. `flags` are C constants such as ``GA_USE_DOUBLE``, separated by
    ``|``. `flags` may be empty. In the source code of kernels, the macros ``DTYPE_INPUT_0``, ``ITEMSIZE_INPUT_0`` and
    so on are device types (``ga_float``) and sizes. In the other sections, the same macros are types of the host and
    sizes. C code calls kernels by ``name_call`` and ``name_scall``, see `Kernel`.

    Raises
    ------
    ValueError
        If a section ``kernels`` has text before its first ``#kernel`` line, or if a ``#kernel`` line does not have
        three parts. `COp` raises more errors.
    """

    SECTIONS = COp.SECTIONS | {"kernels"}
    kernel_re = re.compile(r"^#kernel ([a-zA-Z_].*?)$", re.MULTILINE)

    # `Op` precedes GpuKernelBase in the method resolution order, so these methods must be set here.
    get_params = GpuKernelBase.get_params
    c_headers = GpuKernelBase.c_headers
    c_header_dirs = GpuKernelBase.c_header_dirs
    c_code_cache_version_apply = GpuKernelBase.c_code_cache_version_apply

    def c_support_code_apply(self, node, name):
        return _joined(
            [
                GpuKernelBase.c_support_code_apply(self, node, name),
                *_of_super(super(), "c_support_code_apply", node, name),
            ]
        )

    def c_support_code_struct(self, node, name):
        # Define the kernels first, because the functions in the C files of the Op call them.
        return _joined(
            [
                GpuKernelBase.c_support_code_struct(self, node, name),
                *_of_super(super(), "c_support_code_struct", node, name),
            ]
        )

    def c_init_code_struct(self, node, name, sub):
        return _joined(
            [
                GpuKernelBase.c_init_code_struct(self, node, name, sub),
                *_of_super(super(), "c_init_code_struct", node, name, sub),
            ]
        )

    def c_cleanup_code_struct(self, node, name):
        return _joined(
            [
                *_of_super(super(), "c_cleanup_code_struct", node, name),
                GpuKernelBase.c_cleanup_code_struct(self, node, name),
            ]
        )

    def _type_macros(self, node):
        """Return the macros of device types and sizes (such as ``DTYPE_INPUT_0``), for the source of the kernels."""
        define = []
        for kind, variables in (("INPUT", node.inputs), ("OUTPUT", node.outputs)):
            for i, variable in enumerate(variables):
                dtype = getattr(variable.type, "dtype", None)
                if dtype is None or dtype not in _C_TYPES:
                    continue
                define.append("#define DTYPE_%s_%d %s\n" % (kind, i, pygpu.dtype_to_ctype(dtype)))
                define.append("#define TYPENUM_%s_%d %d\n" % (kind, i, pygpu.dtype_to_typecode(dtype)))
                define.append("#define ITEMSIZE_%s_%d %d\n" % (kind, i, np.dtype(dtype).itemsize))
        return "".join(define)

    def gpu_kernels(self, node, name):
        """Return the kernels of the sections ``kernels``."""
        if "kernels" not in self.code_sections:
            return []
        parts = self.kernel_re.split(self.code_sections["kernels"])
        first = re.sub(r"(?m)^// #section .*$", "", parts[0])
        if first.strip():
            raise ValueError(
                "Stray code before first #kernel statement (in files %s): %s"
                % (", ".join(self.func_files), first.strip()[:200])
            )
        macros = self._type_macros(node)
        kernels = []
        for line, text in zip(parts[1::2], parts[2::2]):
            words = [word.strip() for word in line.split(":")]
            if len(words) != 3:
                raise ValueError(
                    "#kernel has three parts, name : params : flags, got %r (in files %s)"
                    % (line, ", ".join(self.func_files))
                )
            kernel, params, flags = words
            try:
                types = [get_dtype(param.strip()) for param in params.split(",")] if params else []
            except TypeError as failure:
                raise ValueError("#kernel %s: %s" % (kernel, failure)) from None
            kernels.append(Kernel(macros + text, types, kernel, flags))
        return kernels
