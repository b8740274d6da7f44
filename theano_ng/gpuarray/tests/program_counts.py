"""Counts of calls to a device by a training step of the programs in examples/on_device.py.

    python -m theano_ng.gpuarray.tests.program_counts [NAME ...]

The device is the stub, which computes nothing: the counts are those of a graphics card. Write the table to
program_counts.txt after a change of the counts.
"""

import importlib.util
import os
import sys

import theano_ng as theano
from theano_ng.configdefaults import config
from theano_ng.gpuarray import devices
from theano_ng.gpuarray.contexts import get_context
from theano_ng.gpuarray.device.tests import native
from theano_ng.gpuarray.transfers import GpuFromHost, HostFromGpu
from theano_ng.gpuarray.type import GpuArrayType
from theano_ng.tensor.type import TensorType

TABLE = os.path.join(os.path.dirname(__file__), "program_counts.txt")
EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(theano.__file__)), "examples", "on_device.py")
COLUMNS = (
    "launches",
    "fills",
    "copies",
    "uploads",
    "downloads",
    "bytes up",
    "waits",
    "host arrays",
    "graphs",
    "replaced",
)


def programs():
    """Return the module examples/on_device.py."""
    spec = importlib.util.spec_from_file_location("on_device", EXAMPLES)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def arrays_on_host(function):
    """Return the nodes that read or compute arrays on the host, without transfers. Arrays with at most one element, and
    vectors of lengths, are not counted.
    """
    found = []
    for node in function.maker.fgraph.toposort():
        variables = [v for v in [*node.inputs, *node.outputs] if isinstance(v.type, TensorType)]
        arrays = [v for v in variables if not all(v.broadcastable) and v.dtype != "int64"]
        is_transfer = isinstance(node.op, (GpuFromHost, HostFromGpu))
        if arrays and not is_transfer and not any(isinstance(v.type, GpuArrayType) for v in node.outputs):
            found.append(node)
    return [node for node in found if type(node.op).__name__ != "Shape_i"]


def counts(module, name):
    """Return the row of a program: the numbers of calls of one training step, in the order of `COLUMNS`."""
    inputs, cost, updates, draw = module.program(name)
    step = theano.function(inputs, cost, updates=updates)
    values = draw()
    for _ in range(3):
        step(*values)
    library = native.load()
    library.stub_reset(0)
    step(*values)
    state = library.stub_of(0).contents
    calls = [state.count(call) for call in ("launch", "fill", "copy", "write", "read")]
    return [*calls, state.written, state.count("sync"), len(arrays_on_host(step)), *graphs(module, name)]


def graphs(module, name):
    """Return how many graphs a step of a program runs, and in how many of their launches it replaces arguments."""
    inputs, cost, updates, draw = module.program(name)
    with config.change_flags({"gpuarray.graph": "on"}):
        step = theano.function(inputs, cost, updates=updates)
    for _ in range(12):
        before = get_context(None).graphs
        step(*draw())
    return [get_context(None).graphs[key] - before[key] for key in ("runs", "replaced")]


def table(names=()):
    """Return the table as text."""
    module = programs()
    lines = ["%-20s" % "program" + "".join("%13s" % column for column in COLUMNS)]
    for name in names or module.PROGRAMS:
        lines.append("%-20s" % name + "".join("%13d" % n for n in counts(module, name)))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    devices.use("stub0")
    sys.stdout.write(table(sys.argv[1:]))
