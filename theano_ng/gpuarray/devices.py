"""The choice of devices. Flags or the functions of this module open contexts on devices, and switch on the transfer of
computations and shared variables to these devices.
"""

import re
import sys

from theano_ng.compile.mode import optdb
from theano_ng.compile.sharedvalue import shared, shared_constructor
from theano_ng.configdefaults import config, mark_active_gpu, parent_with_gpu
from theano_ng.configparser import TheanoConfigError, TheanoConfigWarning
from theano_ng.gof import optdb as databases
from theano_ng.gpuarray.contexts import list_contexts, reg_context, unregister
from theano_ng.gpuarray.dnn import base as dnn
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.transfers import as_gpuarray_variable
from theano_ng.gpuarray.type import gpuarray_shared_constructor, shared_on_target
from theano_ng.tensor.transfer import register_transfer

MEGABYTE = 1 << 20

# True if this process has opened a context. `theano_ng.gpuarray` exports this variable under two classic names.
activated = False


def pygpu_parse_version(version_string):
    """Split a version string of pygpu into its parts.

    Parameters
    ----------
    version_string : str
        Such as "0.7.6" or "0.7.6+20.g5a7b5e7".

    Returns
    -------
    major, minor, patch : int
    revision : str
        The text after the numbers, such as "+20.g5a7b5e7". It may be empty.

    Raises
    ------
    ValueError
        If the string does not begin with a version.
    """
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?(.*)", version_string)
    if found is None:
        raise ValueError("%r is not a version: expected three numbers with dots between them" % (version_string,))
    major, minor, patch, revision = found.groups()
    return int(major), int(minor), int(patch or 0), revision


def transfer(x, target):
    """Transfer a variable to a device. The function `tensor.transfer` calls this function.

    Parameters
    ----------
    x : Variable
    target : hashable
        The name of a context.

    Returns
    -------
    Variable or None
        None if no context has the name.
    """
    if target in list_contexts():
        return as_gpuarray_variable(x, target)
    return None


register_transfer(transfer)
shared_constructor(shared_on_target)


def init_dev(dev, name=None, preallocate=None):
    """Open a device, and register its context.

    Parameters
    ----------
    dev : str
        ``"cuda"``, ``"cuda0"``, ``"opencl0:1"`` (platform and device).
    name : hashable
        Name of the context. None: the default context.
    preallocate : float, optional
        Memory to reserve. Default: the flag `gpuarray.preallocate`, whose description explains the values.

    Raises
    ------
    ValueError
        If the string names no device, or the name is taken.
    RuntimeError
        In a child process, if the parent has a device open. If the flag ``dnn.enabled`` is True, and cuDNN cannot be used.
    GpuArrayException, MemoryError
        If the device does not exist, or cannot be used. The message gives the reason.
    """
    global activated
    if name in list_contexts():
        raise ValueError("context name %r is already registered" % (name,))
    parent = None if activated else parent_with_gpu()
    if parent is not None:
        raise RuntimeError(
            "the parent process (%d) has a device open, so its child processes must not open one: start the child "
            "processes before the parent opens a device (import the package with device=cpu in the parent), or start "
            "them by subprocess with separate flags" % parent
        )
    if preallocate is None:
        preallocate = config.gpuarray.preallocate
    context = pygpu.init(
        dev,
        sched=config.gpuarray.sched,
        single_stream=config.gpuarray.single_stream,
        kernel_cache_path=config.gpuarray.cache_path,
        max_cache_size=0 if preallocate < 0 else None,
        initial_cache_size=max(preallocate, 0),
        checked=config.gpuarray.sync,
    )
    reg_context(name, context)
    activated = True
    mark_active_gpu()
    if config.dnn.enabled == "True":
        _require_cudnn(name)
    if config.print_active_device:
        _print_about(context, dev, name, preallocate)


class _CudnnError(RuntimeError):
    """A device cannot use cuDNN, although the flag ``dnn.enabled`` is True."""


def _require_cudnn(name):
    """Unregister a context, and raise _CudnnError, if it cannot use cuDNN."""
    try:
        dnn.require(name)
    except RuntimeError as failure:
        unregister(name)
        raise _CudnnError("the flag dnn.enabled is True, but %s" % failure) from None


def _print_about(context, dev, name, preallocate):
    cudnn = dnn.version(raises=False) if context.kind == b"cuda" else -1
    if cudnn > 0:
        print("Using cuDNN version %d on context %s" % (cudnn, name), file=sys.stderr)
    if preallocate > 0:
        total = context.total_gmem
        size = min(preallocate, 0.95) * total if preallocate <= 1 else preallocate * MEGABYTE
        print(
            "Preallocating %d/%d Mb (%f) on %s" % (size // MEGABYTE, total // MEGABYTE, size / total, dev),
            file=sys.stderr,
        )
    print("Mapped name %s to device %s: %s (%s)" % (name, dev, context.devname, context.unique_id), file=sys.stderr)


def use(device, force=False, default_to_move_computation_to_gpu=True, move_shared_to_gpu=True, preallocate=None):
    """Use a device from now on, as the flag `device` does.

    Parameters
    ----------
    device : str
        As for `init_dev`. The context gets the name None.
    force : bool
        If True, the device must be a CUDA or OpenCL device, and the name None must not be taken. If False, an existing
        context with the name None is used.
    default_to_move_computation_to_gpu : bool
        If True, switch on the rules that move computations to the device, in the modes that rewrite graphs.
    move_shared_to_gpu : bool
        If True, shared variables that are made from arrays are made on the device.
    preallocate : float, optional
        See `init_dev`.

    Raises
    ------
    ValueError, RuntimeError, GpuArrayException, MemoryError
        See `init_dev`.
    """
    if force and not device.startswith(("cuda", "opencl")):
        raise ValueError(
            "%r is not a device that can be forced; expected 'cuda', 'cuda0', 'opencl0:0', ..." % (device,)
        )
    if force or None not in list_contexts():
        init_dev(device, preallocate=preallocate)
    if default_to_move_computation_to_gpu:
        _move_computations()
    if move_shared_to_gpu:
        _first(gpuarray_shared_constructor)


def _move_computations():
    """Switch on the rules that move computations to devices, in the modes that rewrite graphs."""
    databases.load()
    optdb.switch_on("gpuarray_opt", "fast_compile", "fast_run")


def _first(constructor):
    """Let `shared` try `constructor` first. Remove the constructors that this package registered earlier."""
    for other in (gpuarray_shared_constructor, shared_on_target):
        if other in shared.constructors:
            shared_constructor(other, remove=True)
    shared_constructor(constructor)


def contexts_of_flag(text):
    """Return the pairs (name, device) in the flag `contexts`, ``dev0->cuda0;dev1->cuda1``."""
    pairs = [entry.partition("->") for entry in text.split(";") if entry.strip()]
    return [(name.strip(), device.strip()) for name, _, device in pairs]


_NEXT = {
    "cuda": "`nvidia-smi` shows the driver and the devices that it finds; pip install 'theano_ng[cuda13]' (or "
    "[cuda12]) installs all other required packages",
    "opencl": "pip install 'theano_ng[opencl]' installs a loader, and a device that computes on the processor; "
    "`clinfo -l` shows platforms and devices",
}


def start():
    """Apply the flags device, init_gpu_device and contexts, when the package is imported.

    Raises
    ------
    TheanoConfigError
        If a device cannot be used, and the flag `force_device` is on. If the flag is off, a warning is issued, and
        computations stay on the CPU. If the flag ``dnn.enabled`` is True, and a device cannot use cuDNN.
    """
    flag, device = ("init_gpu_device", config.init_gpu_device) if config.init_gpu_device else ("device", config.device)
    if device != "cpu":
        moves = flag == "device"
        _tried("%s=%s" % (flag, device), device, lambda: use(device, False, moves, moves))
    for name, device in contexts_of_flag(config.contexts):
        _tried("contexts=%s->%s" % (name, device), device, lambda: _map(device, name))


def _map(device, name):
    init_dev(device, name)
    _move_computations()


def _tried(flag, device, action):
    try:
        action()
    except _CudnnError as failure:
        raise TheanoConfigError("%s: %s" % (flag, failure)) from failure
    except (pygpu.GpuArrayException, MemoryError, OSError, RuntimeError, ValueError) as failure:
        reason = " ".join(str(failure).split()).rstrip(".")
        advice = (
            ""
            if isinstance(failure, RuntimeError) and parent_with_gpu()
            else _NEXT.get(re.match("[a-z]*", device)[0], "")
        )
        why = ": %s%s" % (reason or type(failure).__name__, ". " + advice if advice else "")
        message = "%s: no GPU can be used" % flag
        if config.force_device:
            raise TheanoConfigError(
                "%s, and force_device is True%s. Use device=cpu, or use force_device=False to compute on the CPU."
                % (message, why)
            ) from failure
        TheanoConfigWarning.warn("%s; computations run on the CPU%s" % (message, why), stacklevel=2)
