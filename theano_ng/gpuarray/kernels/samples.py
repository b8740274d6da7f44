"""Samples of kernel source code for typical nodes, which tests compile even if there is no device.

A module that writes device code has a function ``kernel_samples()`` that returns a list of `KernelSample`. The samples
cover every form of source code that the module writes, for each dtype that changes this code. `collect` returns the
samples of all modules. ``gpuarray/tests/test_nvrtc.py`` compiles the samples for CUDA devices.
"""

import importlib
import pkgutil
from typing import NamedTuple


class KernelSample(NamedTuple):
    """A program that has to compile.

    Attributes
    ----------
    name : str
        A description for messages, such as "sum over axis 1, float16".
    text : str
        A whole program in the dialect of ``cluda.h``, as for `pygpu.GpuKernel`.
    flags : int
        ``GA_USE_...``
    options : str
        Options for the compiler.
    """

    name: str
    text: str
    flags: int = 0
    options: str = ""


def collect(package="theano_ng.gpuarray"):
    """Return the samples of all modules of a package, except its tests.

    The result is a list of pairs (module name, `KernelSample`), sorted by module name.
    """
    root = importlib.import_module(package)
    found = []
    for module in sorted(pkgutil.walk_packages(root.__path__, package + "."), key=lambda one: one.name):
        if "tests" not in module.name.split(".") and _says_so(module):
            found.extend((module.name, sample) for sample in importlib.import_module(module.name).kernel_samples())
    return found


def _says_so(module):
    """Return True if a module defines ``kernel_samples``. The source is searched, so the module is not imported."""
    path = module.module_finder.find_spec(module.name).origin
    if path is None or not path.endswith(".py"):
        return False
    with open(path, encoding="utf-8") as file:
        return "\ndef kernel_samples(" in file.read()
