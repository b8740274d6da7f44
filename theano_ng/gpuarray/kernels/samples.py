"""Texts of kernels as they come out for typical nodes: what compilers are tried on where there is no device.

A module that writes device code has a function ``kernel_samples()`` that returns `KernelSample` s of all that it writes: each form of text, with
each type for which it looks different. `collect` finds them; ``gpuarray/tests/test_nvrtc.py`` compiles them for CUDA's devices.
"""

import importlib
import pkgutil
from typing import NamedTuple

from theano_ng.gof.compiler.kernelcache import rename_symbol


class KernelSample(NamedTuple):
    """A text that has to compile.

    Attributes
    ----------
    name : str
        For messages, "sum over axis 1, float16".
    text : str
        A whole program in the dialect of ``cluda.h``, as `pygpu.GpuKernel` is given it.
    flags : int
        ``GA_USE_...``
    options : str
        Words for the compiler.
    """

    name: str
    text: str
    flags: int = 0
    options: str = ""


def sample(name, kernel):
    """The sample of a `DeviceKernel`."""
    return KernelSample(
        name,
        "\n".join([*kernel.support, rename_symbol(kernel.source, "KERNEL_NAME", "sample")]),
        kernel.flags,
        kernel.options,
    )


def collect(package="theano_ng.gpuarray"):
    """The samples of all modules of a package but its tests, as pairs of module's name and `KernelSample`, in the order of names."""
    root = importlib.import_module(package)
    found = []
    for module in sorted(pkgutil.walk_packages(root.__path__, package + "."), key=lambda one: one.name):
        if "tests" not in module.name.split(".") and _says_so(module):
            found.extend((module.name, sample) for sample in importlib.import_module(module.name).kernel_samples())
    return found


def _says_so(module):
    """Whether a module has the function, by its text: others need not be imported."""
    path = module.module_finder.find_spec(module.name).origin
    if path is None or not path.endswith(".py"):
        return False
    with open(path, encoding="utf-8") as file:
        return "\ndef kernel_samples(" in file.read()
