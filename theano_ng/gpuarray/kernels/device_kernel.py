"""Kernels of Ops: device code that depends on the graph. All kernels of a function are built together."""

import hashlib
from typing import NamedTuple

from theano_ng.gof.compiler.kernelcache import LoadedKernel, rename_symbol
from theano_ng.gof.native import ForeignKernel
from theano_ng.gpuarray.kernels.samples import KernelSample
from theano_ng.gpuarray.pygpu import gpuarray as pygpu


class _Fields(NamedTuple):
    source: str
    types: tuple
    context: object
    flags: int = 0
    support: tuple = ()
    options: str = ""
    program: object = None


class DeviceKernel(_Fields, ForeignKernel):
    """A device kernel as a packed parameter. Native code receives the address of the C record ``gpukernel``.

    Attributes
    ----------
    source : str
        Source code in the dialect of ``cluda.h``. It defines one kernel, with the name ``KERNEL_NAME``.
    types : tuple
        Argument types, as for `pygpu.GpuKernel`: "*" for an array, `SIZE`, `SSIZE` or the name of a dtype.
    context : GpuContext
    flags : int
        ``GA_USE_...``, see `flags_of`.
    support : tuple of str
        Source code that the kernel needs in front of it. Each text occurs once in a program, even if several kernels
        need it.
    options : str
        Options for the device's compiler.
    program : LoopProgram, optional
        The computation from which the source was written.
    """

    __slots__ = ()
    suffix = "cl"

    @property
    def key(self):
        """The cache key of the kernel. Equal kernels have the same key, in every process."""
        identity = self._replace(types=tuple(map(str, self.types)), context=None, program=None)
        return hashlib.sha256(repr(tuple(identity)).encode()).hexdigest()[:24]

    def build(self):
        """Return the GpuKernel, for use from Python."""
        self.obtain([self])
        return _built[self.context][self.key]

    @classmethod
    def obtain(cls, kernels):
        """Return the loaded kernels; see `ForeignKernel`. Build the kernels that this process has not built yet.

        Kernels with the same context and the same options are built as one program.
        """
        missing = {}
        for kernel in kernels:
            if kernel.key not in _built.setdefault(kernel.context, {}):
                group = missing.setdefault((kernel.context, kernel.options), {})
                group[kernel.key] = kernel
        for (context, options), group in missing.items():
            _build(context, options, dict(sorted(group.items())))
        return [LoadedKernel(_built[kernel.context][kernel.key].ptr) for kernel in kernels]


def program(kernels):
    """Return the source code of a program of several kernels.

    Parameters
    ----------
    kernels : iterable of DeviceKernel

    Returns
    -------
    text : str
    names : list of str
        The name of each kernel in the program.
    flags : int
        All flags that the kernels need.
    """
    kernels = list(kernels)
    support = dict.fromkeys(text for kernel in kernels for text in kernel.support)
    names = ["k_" + kernel.key for kernel in kernels]
    texts = [rename_symbol(kernel.source, "KERNEL_NAME", name) for kernel, name in zip(kernels, names)]
    flags = 0
    for kernel in kernels:
        flags |= kernel.flags
    return "\n".join([*support, *texts]), names, flags


def sample(name, kernels):
    """Return one sample that contains several kernels (`DeviceKernel`).

    The device's compiler then reads the code in front of the kernels only once.
    """
    text, _, flags = program({kernel.key: kernel for kernel in kernels}.values())
    return KernelSample(name, text, flags)


def _build(context, options, group):
    text, names, flags = program(group.values())
    declared = [(name, kernel.types) for name, kernel in zip(names, group.values())]
    for key, kernel in zip(group, pygpu.build(text, declared, context, flags, options)):
        _built[context].setdefault(key, kernel)  # keep a kernel that another thread has built meanwhile


# Context -> key -> GpuKernel. The kernels are never released, because thunks hold their addresses.
_built = {}


def flags_of(*dtypes):
    """Return the ``GA_USE_...`` flags of kernels that work on these dtypes."""
    names = {str(dtype) for dtype in dtypes}
    flags = pygpu.USE_DOUBLE if names & {"float64", "complex128"} else 0
    flags |= pygpu.USE_SMALL if names & {"int8", "uint8", "bool", "int16", "uint16", "float16"} else 0
    flags |= pygpu.USE_HALF if "float16" in names else 0
    return flags | (pygpu.USE_COMPLEX if names & {"complex64", "complex128"} else 0)
