"""The C of devices as tests call it: through ctypes, without the classes of pygpu."""

import atexit
import ctypes
import importlib.util
import os
import shutil
import tempfile
from ctypes import POINTER, Structure, byref, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint, c_uint64, c_void_p

from theano_ng.gpuarray.device import loader

GA_NO_ERROR, GA_MEMORY_ERROR, GA_VALUE_ERROR, GA_IMPL_ERROR, GA_INVALID_ERROR, GA_UNSUPPORTED_ERROR = range(6)
GA_RUN_ERROR, GA_NODEV_ERROR, GA_LOAD_ERROR = 7, 14, 18
GA_CTX_SCHED_MULTI, GA_CTX_CHECKED = 2, 8
GA_USE_CUDA, GA_USE_OPENCL = 0x2000, 0x4000
GA_BUFFER, GA_INT, GA_DOUBLE, GA_SIZE = -1, 5, 12, 24

STUB_CALLS = "open close alloc block release write read copy fill build kernel launch fence sync graph".split()


class Data(Structure):
    """The beginning of a `gpudata`."""

    _fields_ = [("context", c_void_p), ("memory", c_uint64), ("size", c_size_t)]


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


class DeviceError(Exception):
    """A call failed.

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
    "gpudata_alloc": (c_void_p, [c_void_p, c_size_t, c_void_p, c_int, POINTER(c_int)]),
    "gpudata_release": (None, [c_void_p]),
    "gpudata_write": (c_int, [c_void_p, c_size_t, c_char_p, c_size_t]),
    "gpudata_read": (c_int, [c_char_p, c_void_p, c_size_t, c_size_t]),
    "gpudata_move": (c_int, [c_void_p, c_size_t, c_void_p, c_size_t, c_size_t]),
    "gpudata_memset": (c_int, [c_void_p, c_size_t, c_int]),
    "gpukernel_release": (None, [c_void_p]),
    "gpukernel_call": (c_int, [c_void_p, c_uint, POINTER(c_size_t), POINTER(c_size_t), c_size_t, POINTER(c_void_p)]),
    "gpukernel_build": (
        c_int,
        [c_void_p, c_char_p, c_int, c_char_p, POINTER(c_void_p), POINTER(c_size_t), c_uint]
        + [POINTER(c_char_p), POINTER(c_uint), POINTER(POINTER(c_int)), POINTER(c_void_p), POINTER(c_void_p)],
    ),
    "pool_count": (None, [c_void_p, POINTER(PoolCounts)]),
    "pool_trim": (None, [c_void_p]),
    "device_set_library": (c_int, [c_char_p, c_char_p]),
    "device_set_dialect": (c_int, [c_char_p, c_char_p]),
    "stub_of": (POINTER(StubState), [c_uint]),
    "stub_reset": (None, [c_uint]),
    "stub_text": (c_char_p, [c_uint]),
}


def load(fresh=False):
    """The extension module that has the C of devices, as a library.

    Parameters
    ----------
    fresh : bool
        A copy, which has loaded no driver yet.
    """
    path = importlib.util.find_spec("theano_ng.gpuarray.pygpu.gpuarray").origin
    if fresh:
        folder = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        path = shutil.copy(path, folder)
    library = ctypes.CDLL(path)
    for name, (result, arguments) in _PROTOTYPES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class Context:
    """A context of the C API; memory is freed by whoever has it."""

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

    def build(self, text, names, types=(), flags=0, options=None, binary=None):
        """Kernels of a text (or of a binary), and the binary; raises with what the compiler says."""
        n = len(names)
        kernels = (c_void_p * n)()
        log, made, size = c_void_p(), c_void_p(), c_size_t()
        if binary is not None:
            kept = ctypes.create_string_buffer(binary, len(binary))
            made, size = ctypes.cast(kept, c_void_p), c_size_t(len(binary))
        one = (c_int * max(len(types), 1))(*types)
        code = self.library.gpukernel_build(
            self.pointer,
            None if text is None else text.encode(),
            flags,
            None if options is None else options.encode(),
            byref(made),
            byref(size),
            n,
            (c_char_p * n)(*[name.encode() for name in names]),
            (c_uint * n)(*[len(types)] * n),
            (POINTER(c_int) * n)(*[ctypes.cast(one, POINTER(c_int))] * n),
            kernels,
            byref(log),
        )
        said = ctypes.string_at(log.value).decode() if log.value else ""
        if code:
            raise DeviceError(code, self.library.gpucontext_error(self.pointer, code).decode() + "\n" + said)
        return list(kernels), ctypes.string_at(made.value, size.value) if made.value else b""

    def call(self, kernel, groups, group, local_memory=0, arguments=()):
        lengths = c_size_t * len(groups)
        values = (c_void_p * max(len(arguments), 1))(*arguments)
        self.check(self.library.gpukernel_call(kernel, len(groups), lengths(*groups), lengths(*group), local_memory, values))


def memory_of(data):
    """The address or handle of memory."""
    return ctypes.cast(data, POINTER(Data)).contents.memory


def set_libraries(library, **paths):
    """Tell C where libraries are, and the texts in front of kernels."""
    for which, path in paths.items():
        library.device_set_library(which.encode(), None if path is None else os.fsencode(path))
    for dialect in ("cuda", "opencl"):
        library.device_set_dialect(dialect.encode(), loader.cluda(dialect).encode())
