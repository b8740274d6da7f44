"""The C functions of devices for tests, called through ctypes and without the classes of pygpu."""

import atexit
import ctypes
import importlib.util
import os
import shutil
import tempfile
from ctypes import (
    POINTER,
    Structure,
    byref,
    c_char_p,
    c_double,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_ssize_t,
    c_uint,
    c_uint8,
    c_uint64,
    c_void_p,
)

from theano_ng.gpuarray.device import loader

GA_NO_ERROR, GA_MEMORY_ERROR, GA_VALUE_ERROR, GA_IMPL_ERROR, GA_INVALID_ERROR, GA_UNSUPPORTED_ERROR = range(6)
GA_RUN_ERROR, GA_NODEV_ERROR, GA_LOAD_ERROR, GA_INDEX_ERROR = 7, 14, 18, 19
GA_CTX_SCHED_MULTI, GA_CTX_CHECKED = 2, 8
GA_USE_CUDA, GA_USE_OPENCL = 0x2000, 0x4000
GA_BLAS_ERROR = 11
GA_BUFFER, GA_INT, GA_FLOAT, GA_DOUBLE, GA_HALF, GA_SIZE = -1, 5, 11, 12, 23, 24

STUB_CALLS = "open close alloc block release write read copy fill build kernel launch fence sync graph".split()


class Data(Structure):
    """The first members of the C structure `gpudata`."""

    _fields_ = [("context", c_void_p), ("memory", c_uint64), ("size", c_size_t)]


class MatrixStack(Structure):
    """The C structure `matrix_stack`."""

    _fields_ = [("data", c_void_p), ("offset", c_size_t), ("dims", c_size_t * 3), ("strides", c_ssize_t * 3)]


class MatrixFactor(Structure):
    """The C structure `matrix_factor`."""

    _fields_ = [("number", c_double), ("data", c_void_p), ("offset", c_size_t)]


class DnnTensor(Structure):
    """The C structure `dnn_tensor`."""

    _fields_ = [
        ("data", c_void_p),
        ("offset", c_size_t),
        ("typecode", c_int),
        ("nd", c_uint),
        ("dims", c_size_t * 8),
        ("strides", c_ssize_t * 8),
    ]


class DnnConvolution(ctypes.Structure):
    """The C structure `dnn_convolution`."""

    _fields_ = [
        ("axes", c_int),
        ("pad", c_int * 3),
        ("stride", c_int * 3),
        ("dilation", c_int * 3),
        ("groups", c_int),
        ("flip", c_int),
        ("compute", c_int),
        ("tf32", c_int),
    ]


class DnnChoice(ctypes.Structure):
    """The C structure `dnn_choice`."""

    _fields_ = [("algorithm", c_int), ("deterministic", c_int), ("kept", POINTER(c_int64)), ("most", c_size_t)]


class DnnEnding(Structure):
    """The C structure `dnn_ending`."""

    _fields_ = [("activation", c_int), ("alpha", c_double), ("bias", POINTER(DnnTensor)), ("any", c_int)]


class DnnWindows(Structure):
    """The C structure `dnn_windows`."""

    _fields_ = [(name, c_int) for name in ("mode", "nd")] + [(name, c_int * 3) for name in ("window", "pad", "stride")]


class DnnNormalization(Structure):
    """The C structure `dnn_normalization`."""

    _fields_ = [
        ("mode", c_int),
        ("epsilon", c_double),
        *[(name, POINTER(DnnTensor)) for name in ("x", "y", "scale", "bias", "mean", "spread")],
    ]


class DnnNetwork(Structure):
    """The C structure `dnn_network`."""

    _fields_ = [(name, c_int) for name in "mode input_mode directions typecode hidden layers".split()]


class DnnSequences(Structure):
    """The C structure `dnn_sequences`."""

    _fields_ = [("descriptor", c_void_p), *[(name, c_size_t) for name in ("steps", "batch", "input")]]


class DnnRun(Structure):
    """The C structure `dnn_run`."""

    _fields_ = [(name, POINTER(DnnTensor)) for name in "weights x y hx hy cx cy reserve".split()]


class PoolCounts(Structure):
    _fields_ = [(name, c_size_t) for name in "in_use reserved peak blocks allocations".split()]


class StubState(Structure):
    _fields_ = [
        ("calls", c_uint64 * len(STUB_CALLS)),
        ("written", c_uint64),
        ("read", c_uint64),
        ("held", c_uint64),
        ("held_most", c_uint64),
        ("allocated", c_uint64),
        ("capacity", c_uint64),
        ("fails_in", c_int64),
        ("failing_call", c_int32),
        ("failing_code", c_int32),
        ("recording", c_int32),
    ]

    def count(self, call):
        return self.calls[STUB_CALLS.index(call)]


class Watch(Structure):
    """The C structure `index_watch`."""

    _fields_ = [("slots", POINTER(Data)), ("launch", c_uint64), ("wait", c_int)]


class FoundError(Structure):
    """The C structure `index_error`."""

    _fields_ = [
        ("site", c_uint),
        ("place", c_uint64),
        ("index", c_int64),
        ("lengths", c_uint64 * 32),
        ("of_other_thread", c_int),
    ]


class DeviceError(Exception):
    """The exception for a failed call.

    Attributes
    ----------
    code : int
        One of ``GA_...``.
    """

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


_PROTOTYPES = {
    "gpucontext_open": (c_void_p, [c_char_p, c_int, c_double, POINTER(c_int), c_char_p, c_size_t]),
    "gpucontext_release": (None, [c_void_p]),
    "gpucontext_error": (c_char_p, [c_void_p, c_int]),
    "gpucontext_property": (c_int, [c_void_p, c_int, c_void_p]),
    "gpucontext_sync": (c_int, [c_void_p]),
    "gpucontext_host_alloc": (c_int, [c_void_p, c_size_t, POINTER(c_void_p)]),
    "gpucontext_host_free": (None, [c_void_p, c_void_p]),
    "gpucontext_watch": (c_int, [c_void_p, c_uint, POINTER(Watch)]),
    "gpucontext_watched": (None, [c_void_p]),
    "index_error_found": (POINTER(FoundError), []),
    "gpudata_alloc": (c_void_p, [c_void_p, c_size_t, c_void_p, c_int, POINTER(c_int)]),
    "gpudata_release": (None, [c_void_p]),
    "gpudata_write": (c_int, [c_void_p, c_size_t, c_char_p, c_size_t]),
    "gpudata_read": (c_int, [c_char_p, c_void_p, c_size_t, c_size_t]),
    "gpudata_move": (c_int, [c_void_p, c_size_t, c_void_p, c_size_t, c_size_t]),
    "gpudata_transfer": (c_int, [c_void_p, c_size_t, c_void_p, c_size_t, c_size_t]),
    "gpudata_memset": (c_int, [c_void_p, c_size_t, c_int]),
    "cublas_open": (c_int, [c_void_p, POINTER(c_size_t)]),
    "cublas_product": (
        c_int,
        [c_void_p, c_int, c_int, *[POINTER(kind) for kind in (MatrixFactor, MatrixStack, MatrixStack) * 2]],
    ),
    "cudnn_open": (c_int, [c_void_p, POINTER(c_size_t)]),
    "cudnn_handle": (c_int, [c_void_p, POINTER(c_void_p)]),
    "cudnn_softmax": (c_int, [c_void_p, c_int, c_int, *[POINTER(DnnTensor)] * 2]),
    "cudnn_softmax_gradient": (c_int, [c_void_p, c_int, c_int, *[POINTER(DnnTensor)] * 3]),
    "cudnn_reduce": (c_int, [c_void_p, c_int, c_int, *[POINTER(DnnTensor)] * 2, c_void_p]),
    "cudnn_convolve": (
        c_int,
        [
            *[c_void_p, c_int, POINTER(DnnConvolution), POINTER(DnnChoice), c_double],
            *[POINTER(DnnTensor), POINTER(DnnTensor), c_double, POINTER(DnnTensor)],
        ],
    ),
    "cudnn_convolve_elemwise": (
        c_int,
        [c_void_p, POINTER(DnnConvolution), POINTER(DnnChoice), POINTER(DnnEnding), *[POINTER(DnnTensor)] * 3],
    ),
    "cudnn_pool": (c_int, [c_void_p, POINTER(DnnWindows), *[POINTER(DnnTensor)] * 2]),
    "cudnn_pool_gradient": (c_int, [c_void_p, POINTER(DnnWindows), *[POINTER(DnnTensor)] * 4]),
    "cudnn_normalize": (c_int, [c_void_p, POINTER(DnnNormalization), c_double, *[POINTER(DnnTensor)] * 2]),
    "cudnn_normalize_by": (c_int, [c_void_p, POINTER(DnnNormalization)]),
    "cudnn_normalize_gradient": (c_int, [c_void_p, POINTER(DnnNormalization), *[POINTER(DnnTensor)] * 4]),
    "cudnn_dropout_states": (c_int, [c_void_p, POINTER(c_size_t)]),
    "cudnn_dropout_make": (c_int, [c_void_p, c_double, c_uint64, POINTER(DnnTensor), POINTER(c_void_p)]),
    "cudnn_dropout_free": (None, [c_void_p]),
    "cudnn_dropout_size": (c_int, [c_void_p, POINTER(DnnTensor), POINTER(c_size_t)]),
    "cudnn_dropout": (c_int, [c_void_p, c_void_p, *[POINTER(DnnTensor)] * 4]),
    "cudnn_dropout_gradient": (c_int, [c_void_p, c_void_p, *[POINTER(DnnTensor)] * 3]),
    "cudnn_rnn_make": (c_int, [c_void_p, POINTER(DnnNetwork), c_void_p, c_int, POINTER(c_void_p)]),
    "cudnn_rnn_free": (None, [c_void_p]),
    "cudnn_rnn_network": (c_int, [c_void_p, c_void_p, POINTER(DnnNetwork)]),
    "cudnn_rnn_sizes": (c_int, [c_void_p, POINTER(DnnSequences), *[POINTER(c_size_t)] * 2]),
    "cudnn_rnn_part": (
        c_int,
        [c_void_p, POINTER(DnnSequences), POINTER(DnnTensor), c_int, c_int, *[POINTER(c_size_t)] * 2],
    ),
    "cudnn_rnn": (c_int, [c_void_p, POINTER(DnnSequences), POINTER(DnnRun)]),
    "cudnn_rnn_gradient": (c_int, [c_void_p, POINTER(DnnSequences), *[POINTER(DnnRun)] * 2]),
    "cudnn_rnn_weights_gradient": (c_int, [c_void_p, POINTER(DnnSequences), *[POINTER(DnnRun)] * 2]),
    "cudnn_grid": (c_int, [c_void_p, c_size_t, *[POINTER(DnnTensor)] * 2]),
    "cudnn_grid_gradient": (c_int, [c_void_p, c_size_t, *[POINTER(DnnTensor)] * 2]),
    "cudnn_sample": (c_int, [c_void_p, *[POINTER(DnnTensor)] * 3]),
    "cudnn_sample_gradient": (c_int, [c_void_p, *[POINTER(DnnTensor)] * 5]),
    "pool_count": (None, [c_void_p, POINTER(PoolCounts)]),
    "pool_trim": (None, [c_void_p]),
    "device_message": (c_char_p, []),
    "device_set_library": (c_int, [c_char_p, c_char_p]),
    "device_set_dialect": (c_int, [c_char_p, c_char_p]),
    "device_opencl_as_gpus": (None, [c_int]),
    "stub_of": (POINTER(StubState), [c_uint]),
    "stub_reset": (None, [c_uint]),
    "stub_text": (c_char_p, [c_uint]),
    "stub_program": (c_char_p, [c_uint, c_uint]),
}


def load(fresh=False):
    """Load the extension module that contains the C code of devices, as a ctypes library.

    Parameters
    ----------
    fresh : bool
        If True, load a copy, which has loaded no driver yet.
    """
    path = importlib.util.find_spec("theano_ng.gpuarray.pygpu.gpuarray").origin
    if fresh:
        folder = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        path = shutil.copy(path, folder)
    # With RTLD_DEEPBIND the copy calls its own functions, even if the symbols of the module are global.
    library = ctypes.CDLL(path, os.RTLD_NOW | os.RTLD_DEEPBIND if fresh else os.RTLD_NOW)
    for name, (result, arguments) in _PROTOTYPES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class Context:
    """A context of the C API. Tests must free the memory blocks that they allocate with `alloc`."""

    def __init__(self, library, name, flags=0, preallocate=0.0):
        self.library = library
        code, text = c_int(), ctypes.create_string_buffer(4096)
        self.pointer = library.gpucontext_open(name.encode(), flags, preallocate, byref(code), text, len(text))
        if not self.pointer:
            raise DeviceError(code.value, text.value.decode())

    def close(self):
        self.library.gpucontext_release(self.pointer)

    def check(self, code):
        if code:
            raise DeviceError(code, self.library.gpucontext_error(self.pointer, code).decode())

    def alloc(self, size):
        code = c_int()
        data = self.library.gpudata_alloc(self.pointer, size, None, 0, byref(code))
        self.check(code.value)
        return data

    def free(self, data):
        self.library.gpudata_release(data)

    def write(self, data, content, offset=0):
        self.check(self.library.gpudata_write(data, offset, content, len(content)))

    def read(self, data, size, offset=0):
        content = ctypes.create_string_buffer(size)
        self.check(self.library.gpudata_read(content, data, offset, size))
        return content.raw

    def counts(self):
        counts = PoolCounts()
        self.library.pool_count(self.pointer, byref(counts))
        return counts

    def trim(self):
        self.library.pool_trim(self.pointer)

    @property
    def device(self):
        """The device of the context, for calls that bypass the context."""
        return Device(self.library, c_void_p.from_address(self.pointer + ctypes.sizeof(c_void_p)).value)


class Table(Structure):
    """The C structure `device_table`."""

    _fields_ = [("name", c_char_p)] + [
        (name, c_void_p)
        for name in (
            "open close info alloc release write read copy fill host_alloc host_free build kernel launch fence sync graph replace"
        ).split()
    ]


class Program(Structure):
    """The C structure `device_program`."""

    _fields_ = [("handle", c_void_p), ("binary", c_void_p), ("binary_size", c_size_t), ("log", c_char_p)]


class Kernel(Structure):
    """The C structure `device_kernel`."""

    _fields_ = [("handle", c_void_p), ("max_group", c_size_t), ("preferred", c_size_t)]


_PROGRAM = (c_int, c_void_p, c_char_p, c_int, c_char_p, c_char_p, c_size_t, POINTER(Program))
_LENGTHS = POINTER(c_size_t)
_LAUNCH = (c_void_p, c_uint, _LENGTHS, _LENGTHS, c_size_t, c_uint, POINTER(c_void_p), _LENGTHS)
_TABLE = {
    "alloc": (c_int, c_void_p, c_uint64, c_size_t, c_size_t, POINTER(c_uint64)),
    "release": (None, c_void_p, c_uint64, c_int),
    "write": (c_int, c_void_p, c_uint64, c_size_t, c_char_p, c_size_t),
    "read": (c_int, c_void_p, c_char_p, c_uint64, c_size_t, c_size_t),
    "copy": (c_int, c_void_p, c_uint64, c_size_t, c_uint64, c_size_t, c_size_t),
    "fill": (c_int, c_void_p, c_uint64, c_size_t, c_size_t, c_uint8),
    "build": _PROGRAM,
    "kernel": (c_int, c_void_p, c_void_p, c_char_p, POINTER(Kernel)),
    "launch": (c_int, c_void_p, *_LAUNCH),
    "replace": (c_int, c_void_p, c_void_p, c_uint, *_LAUNCH),
    "fence": (c_int, c_void_p, c_void_p),
    "sync": (c_int, c_void_p),
    "graph": (c_int, c_void_p, c_int, POINTER(c_void_p)),
}


class Device:
    """The functions of a device's table."""

    def __init__(self, library, pointer):
        self._library = library
        self.pointer = pointer
        table = Table.from_address(c_void_p.from_address(pointer).value)
        self._functions = {name: ctypes.CFUNCTYPE(*kind)(getattr(table, name) or 0) for name, kind in _TABLE.items()}

    def call(self, name, *args):
        """Call a function of the table; raise the error that the device reports."""
        code = self._functions[name](self.pointer, *args)
        if code:
            raise DeviceError(code, self._library.device_message().decode())

    def alloc(self, size):
        memory = c_uint64()
        self.call("alloc", 0, 0, size, byref(memory))
        return memory.value

    def release(self, memory):
        self._functions["release"](self.pointer, memory, 0)

    def read(self, memory, size):
        content = ctypes.create_string_buffer(size)
        self.call("read", content, memory, 0, size)
        return content.raw

    def build(self, text, flags=0, options=None, binary=None):
        """Return a program and its binary."""
        program = Program()
        options = None if options is None else options.encode()
        text = None if text is None else text.encode()
        try:
            self.call("build", text, flags, options, binary, 0 if binary is None else len(binary), byref(program))
        except DeviceError as error:
            if program.log:
                raise DeviceError(error.code, "%s\n%s" % (error, program.log.decode())) from None
            raise
        return program.handle, ctypes.string_at(program.binary, program.binary_size) if program.binary else None

    def kernel(self, program, name):
        kernel = Kernel()
        self.call("kernel", program, name.encode(), byref(kernel))
        return kernel

    def launch(self, kernel, groups, group, local_memory=0, arguments=()):
        """Launch a kernel; `arguments` are objects of ctypes."""
        self._launch("launch", (), kernel, groups, group, local_memory, arguments)

    def replace(self, graph, number, kernel, groups, group, local_memory=0, arguments=()):
        """Replace the arguments of a launch in a graph."""
        self._launch("replace", (graph, number), kernel, groups, group, local_memory, arguments)

    def _launch(self, function, first, kernel, groups, group, local_memory, arguments):
        n, m = len(groups), max(len(arguments), 1)
        values = (c_void_p * m)(*[ctypes.addressof(one) for one in arguments])
        sizes = (c_size_t * m)(*[ctypes.sizeof(one) for one in arguments])
        lengths = (c_size_t * n)(*groups), (c_size_t * n)(*group)
        self.call(function, *first, kernel.handle, n, *lengths, local_memory, len(arguments), values, sizes)


def memory_of(data):
    """Return the address or handle of a block's memory."""
    return ctypes.cast(data, POINTER(Data)).contents.memory


def set_libraries(library, **paths):
    """Set the paths of the libraries, and the source code that is put in front of kernels."""
    for which, path in paths.items():
        library.device_set_library(which.encode(), None if path is None else os.fsencode(path))
    for dialect in ("cuda", "opencl"):
        library.device_set_dialect(dialect.encode(), loader.cluda(dialect).encode())
