"""Computations on a device: memory bandwidth, launches, transfers, and the time until a function is ready.

    python benchmarks/gpu.py                            # on cuda0
    python benchmarks/gpu.py opencl0:0 --elements 1e6   # on a processor, by PoCL (pip install 'theano_ng[opencl]')

All arrays are float32. Each figure is the shortest of several wall-clock times. A time ends when the device has
finished. The bandwidth of each row is compared with the bandwidth of a copy on the device in the same run. On a
graphics card, the times are compared with JAX, PyTorch and CuPy if they are installed; on a processor, with NumPy.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import measure
import numpy as np

NODES = 100
STEPS = 1000
READY = (
    "import time; start = time.perf_counter()\n"
    "import json, numpy as np, theano_ng as theano, theano_ng.tensor as T\n"
    "opened = time.perf_counter()\n"
    "w = theano.shared(np.ones((50, 20), 'float32')); x = T.fmatrix()\n"
    "y = (T.tanh(x * w) + T.exp(-x)).sum(axis=1)\n"
    "f = theano.function([x], y.max(), updates=[(w, w - 0.1 * theano.grad(y.sum(), w))])\n"
    "float(f(np.ones((50, 20), 'float32')))\n"
    "print(json.dumps([opened - start, time.perf_counter() - opened]))\n"
)


class Ours:
    """The computations of the tables, in this package.

    Each method returns a function that starts a computation. The method `wait` waits until the device has finished all
    computations.
    """

    name = "theano_ng"

    def __init__(self, device, n):
        import theano_ng as theano
        import theano_ng.gpuarray as gpuarray

        gpuarray.use(device)
        self.theano, self.context = theano, gpuarray.get_context(None)
        side = int(n**0.5)
        self.values = np.random.default_rng(0).random(side * side, dtype=np.float32)
        self.x, self.y = theano.shared(self.values), theano.shared(self.values[::-1].copy())
        self.matrix = theano.shared(self.values.reshape(side, side))

    def wait(self):
        self.x.container.value.sync()

    def function(self, inputs, outputs=None, mode=None, **keywords):
        if outputs is not None:
            outputs = self.theano.Out(outputs.transfer(None) if hasattr(outputs, "transfer") else outputs, borrow=True)
        f = self.theano.function(inputs, outputs, mode=mode, **keywords)
        f.trust_input = True
        return f

    def copy(self):
        source, target = self.x.container.value, self.x.container.value.copy()

        def run():
            target[...] = source

        return run

    def axpy(self):
        return self.function([], updates=[(self.y, 0.5 * self.x + self.y)])

    def exp_log(self):
        T = self.theano.tensor
        return self.function([], T.log(1 + T.exp(self.x)) * self.y)

    def sum_all(self):
        return self.function([], self.matrix.sum())

    def sum_rows(self):
        return self.function([], self.matrix.sum(axis=1))

    def sum_columns(self):
        return self.function([], self.matrix.sum(axis=0))

    def chain(self, nodes):
        """Return a function of `nodes` nodes that are not fused, each on one element."""
        small = self.theano.shared(np.ones(1, "float32"))
        z = small
        for _ in range(nodes):
            z = z + small
        return self.function([], z, mode=self.theano.compile.get_default_mode().excluding("fusion"))

    def loop(self, steps):
        """Return a function with a loop over rows on the device. A step has one node."""
        T = self.theano.tensor
        state = self.theano.shared(np.ones(100, "float32"))
        rows = self.theano.shared(np.ones((steps, 100), "float32"))
        states, _ = self.theano.scan(lambda row, state: T.tanh(row + state), sequences=rows, outputs_info=state)
        return self.function([], states)

    def raw_launch(self):
        """Return a function that launches an empty kernel by pygpu.

        A node cannot be faster than this launch, apart from the launch's overhead in Python.
        """
        from theano_ng.gpuarray.pygpu import gpuarray as pygpu

        text = '#include "cluda.h"\nKERNEL void nothing(ga_uint n) { (void)n; }\n'
        kernel = pygpu.GpuKernel(text, "nothing", ["uint32"], self.context)
        return lambda: kernel(1, gs=1, ls=1)


class Numpy:
    name = "NumPy"

    def __init__(self, values, side):
        self.x, self.y = values, values[::-1].copy()
        self.matrix, self.out = values.reshape(side, side), np.empty_like(values)

    def wait(self):
        pass

    def copy(self):
        return lambda: np.copyto(self.out, self.x)

    def axpy(self):
        def run():
            self.y += np.float32(0.5) * self.x

        return run

    def exp_log(self):
        return lambda: np.log(1 + np.exp(self.x)) * self.y

    def sum_all(self):
        return lambda: self.matrix.sum()

    def sum_rows(self):
        return lambda: self.matrix.sum(axis=1)

    def sum_columns(self):
        return lambda: self.matrix.sum(axis=0)


class Cupy(Numpy):
    name = "CuPy"

    def __init__(self, values, side):
        import cupy

        self.cupy = cupy
        self.x = cupy.asarray(values)
        self.y, self.matrix, self.out = self.x[::-1].copy(), self.x.reshape(side, side), cupy.empty_like(self.x)

    def wait(self):
        self.cupy.cuda.Stream.null.synchronize()

    def copy(self):
        return lambda: self.cupy.copyto(self.out, self.x)

    def axpy(self):
        step = self.cupy.ElementwiseKernel("float32 x", "float32 y", "y = 0.5f * x + y", "axpy")
        return lambda: step(self.x, self.y)

    def exp_log(self):
        step = self.cupy.ElementwiseKernel("float32 x, float32 y", "float32 z", "z = log(1 + exp(x)) * y", "exp_log")
        return lambda: step(self.x, self.y)


class Torch(Numpy):
    name = "PyTorch"

    def __init__(self, values, side):
        import torch

        if not torch.cuda.is_available():
            raise ImportError("PyTorch sees no card")
        self.torch = torch
        self.x = torch.asarray(values, device="cuda")
        self.y, self.matrix, self.out = self.x.flip(0), self.x.reshape(side, side), torch.empty_like(self.x)

    def wait(self):
        self.torch.cuda.synchronize()

    def copy(self):
        return lambda: self.out.copy_(self.x)

    def axpy(self):
        return lambda: self.y.add_(self.x, alpha=0.5)

    def exp_log(self):
        step = self.torch.compile(lambda x, y: self.torch.log(1 + self.torch.exp(x)) * y)
        return lambda: step(self.x, self.y)


class Jax(Numpy):
    name = "JAX"

    def __init__(self, values, side):
        import jax

        self.jax = jax
        self.x = jax.device_put(values, jax.devices("gpu")[0])
        self.y, self.matrix = self.x[::-1].copy(), self.x.reshape(side, side)
        self.last = self.y

    def wait(self):
        self.last.block_until_ready()

    def compiled(self, function, *arguments, **keywords):
        step = self.jax.jit(function, **keywords)

        def run():
            self.last = step(*arguments)

        return run

    def copy(self):
        return self.compiled(lambda x: x.copy(), self.x)

    def axpy(self):
        step = self.jax.jit(lambda x, y: 0.5 * x + y, donate_argnums=1)

        def run():
            self.last = self.y = step(self.x, self.y)

        return run

    def exp_log(self):
        return self.compiled(lambda x, y: self.jax.numpy.log(1 + self.jax.numpy.exp(x)) * y, self.x, self.y)

    def sum_all(self):
        return self.compiled(lambda m: m.sum(), self.matrix)

    def sum_rows(self):
        return self.compiled(lambda m: m.sum(axis=1), self.matrix)

    def sum_columns(self):
        return self.compiled(lambda m: m.sum(axis=0), self.matrix)


def peers(device, values):
    """Return the other libraries that are installed and can use the device.

    For each library that cannot be used, print its name and the reason.
    """
    side, found = int(len(values) ** 0.5), []
    for kind in (Jax, Torch, Cupy) if device.startswith("cuda") else (Numpy,):
        try:
            found.append(kind(values, side))
        except Exception as error:  # the library is missing or finds no card; exceptions differ by library
            print("Without %s: %s" % (kind.name, " ".join(str(error).split())[:100]), file=sys.stderr)
    return found


def finished(library, start, calls):
    """Return a function that calls `start` `calls` times, and waits until the device has finished."""

    def run():
        for _ in range(calls):
            start()
        library.wait()

    return run


def seconds(libraries, row, limit):
    """Return the time in seconds of the computation `row`, for each library."""
    starts = [getattr(library, row)() for library in libraries]
    runs = [finished(library, start, 5) for library, start in zip(libraries, starts)]
    return [t / 5 for t in measure.best(*runs, seconds=limit)]


ROWS = (
    # Each entry: name of the method, name of the row, number of arrays that the method reads or writes.
    ("copy", "copy", 2),
    ("axpy", "y += a x", 3),
    ("exp_log", "log(1 + exp(x)) * y", 3),
    ("sum_all", "sum of all elements", 1),
    ("sum_rows", "sums of rows", 1),
    ("sum_columns", "sums of columns", 1),
)


def bandwidth(ours, others, limit):
    everyone = [ours, *others]
    table = measure.Table(
        "Memory: %.3g float32" % len(ours.values), "", "GB/s", "of a copy", *[o.name for o in everyone]
    )
    best = None
    for row, name, arrays in ROWS:
        times = seconds(everyone, row, limit)
        rate = arrays * 4 * len(ours.values) / times[0] / 1e9
        best = best or rate
        table.row(name, "%.3g" % rate, "%.0f %%" % (100 * rate / best), *map(measure.show_time, times))


def launches(ours, limit):
    table = measure.Table("Launches", "", "time", "a node")
    one, many = ours.chain(1), ours.chain(NODES)
    calls = 20
    runs = [finished(ours, start, calls) for start in (ours.raw_launch(), one, many, ours.loop(STEPS))]
    launch, single, whole, loop = [t / calls for t in measure.best(*runs, seconds=limit)]
    table.row("launch from Python of an empty kernel", measure.show_time(launch), "")
    table.row("function of one node", measure.show_time(single), "")
    table.row(
        "function of %d nodes" % NODES, measure.show_time(whole), measure.show_time((whole - single) / (NODES - 1))
    )
    table.row("loop of %d steps of a node" % STEPS, measure.show_time(loop), measure.show_time(loop / STEPS))


def transfers(ours, limit):
    table = measure.Table("Transfers: %.3g float32" % len(ours.values), "", "time", "GB/s")
    T = ours.theano.tensor
    given = T.fvector()
    there, back = ours.function([given], updates=[(ours.x, given)]), ours.theano.function([], ours.x)
    rows = (
        ("set_value", lambda: ours.x.set_value(ours.values, borrow=True)),
        ("get_value", lambda: ours.x.get_value()),
        ("argument of a function", lambda: there(ours.values)),
        ("result of a function", back),
    )
    times = measure.best(*[finished(ours, run, 1) for _, run in rows], seconds=limit)
    for (name, _), t in zip(rows, times):
        table.row(name, measure.show_time(t), "%.3g" % (4 * len(ours.values) / t / 1e9))


def ready(device):
    table = measure.Table(
        "First call, wall-clock", "", "import and opening the device", "building, compiling, first call"
    )
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(
            os.environ,
            POCL_CACHE_DIR=os.path.join(folder, "pocl"),
            CUDA_CACHE_PATH=os.path.join(folder, "cuda"),
            THEANO_FLAGS="device=%s,force_device=True,floatX=float32,print_active_device=False,base_compiledir=%s"
            % (device, folder),
            PYTHONPATH=os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
        )
        os.mkdir(environment["POCL_CACHE_DIR"])
        for name in ("with empty caches", "with filled caches"):
            runs = 1 if name == "with empty caches" else 3
            outs = [
                json.loads(
                    subprocess.run(
                        [sys.executable, "-c", READY], env=environment, stdout=subprocess.PIPE, text=True, check=True
                    ).stdout
                )
                for _ in range(runs)
            ]
            table.row(name, *[measure.show_time(min(out[k] for out in outs)) for k in range(2)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("device", nargs="?", default="cuda0")
    parser.add_argument(
        "--elements",
        type=float,
        help="number of elements of the arrays; 1e8, or as many as let ten arrays fit in an eighth of the memory",
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="for each figure")
    arguments = parser.parse_args()
    if arguments.device.startswith("opencl"):
        os.environ.setdefault("POCL_DEVICES", "basic")
    start = time.perf_counter()
    ready(arguments.device)
    from theano_ng.gpuarray.pygpu import gpuarray as pygpu

    memory = pygpu.init(arguments.device).total_gmem
    n = arguments.elements or min(1e8, memory / 8 / 40)
    ours = Ours(arguments.device, n)
    print("\n%s: %s, %.3g GB" % (arguments.device, ours.context.devname, memory / 1e9))
    bandwidth(ours, peers(arguments.device, ours.values), arguments.seconds)
    launches(ours, arguments.seconds)
    transfers(ours, arguments.seconds)
    print("\n%.0f s in total" % (time.perf_counter() - start), file=sys.stderr)


if __name__ == "__main__":
    main()
