"""The availability of cuDNN, and the base classes of Ops that use it."""

import ctypes
import functools
import os
import weakref

import numpy as np

from theano_ng.compile.function import function
from theano_ng.compile.mode import Mode
from theano_ng.compile.ops import Rebroadcast
from theano_ng.configdefaults import config
from theano_ng.gof.derivative import grad_not_implemented
from theano_ng.gof.differentiate import Lop, Rop
from theano_ng.gof.graph import Apply
from theano_ng.gof.native import NativeCode
from theano_ng.gof.op import COp, Op
from theano_ng.gof.type import CDataType, generic
from theano_ng.gpuarray.contexts import get_context
from theano_ng.gpuarray.device import loader
from theano_ng.gpuarray.elemwise import GpuElemwise
from theano_ng.gpuarray.op import GpuOp
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.gpuarray.transfers import as_gpuarray_variable, infer_context_name
from theano_ng.gpuarray.twin import at_least_float32, on_host, to_context_of
from theano_ng.gpuarray.type import INCLUDE
from theano_ng.scalar import basic as scalar
from theano_ng.tensor.type import TensorType

_ADVICE = (
    "pip install 'theano_ng[cuda12]' or 'theano_ng[cuda13]', whichever is not newer than the CUDA version that "
    "nvidia-smi shows, installs it"
)
_OLDEST = 90000  # 9.0.0
DTYPES = ("float16", "float32", "float64")


def _version_text(number):
    """Return ``"9.28.0"`` for 92800. The numbers of versions before 9 have one digit less."""
    major = 10000 if number >= 90000 else 1000
    return "%d.%d.%d" % (number // major, number % major // 100, number % 100)


@functools.cache
def _version_of(path):
    """Return the version of the library with this path, and None; or -1, and the reason why it cannot be used."""
    # Ask a part of cuDNN: libcudnn.so.9 itself ends the process if it does not find this part.
    part = os.path.join(os.path.dirname(path), "libcudnn_graph.so.%d" % loader.CUDNN_VERSIONS[0])
    try:
        _load_lib(path)
        number = _load_lib(part).cudnnGetVersion
    except OSError as error:
        return -1, "cuDNN cannot be loaded (%s); cuDNN 9.0.0 or later is needed: %s" % (error, _ADVICE)
    except AttributeError:
        return -1, "%s is no cuDNN library: it has no function cudnnGetVersion; %s" % (path, _ADVICE)
    number.restype = ctypes.c_size_t
    found = number()
    if found < _OLDEST:
        said = "cuDNN %s (%s) is too old: 9.0.0 is the oldest that can be used; %s"
        return -1, said % (_version_text(found), path, _ADVICE)
    return found, None


def _load_lib(name):
    """Return a shared library as a ctypes library. It is loaded if necessary."""
    return ctypes.CDLL(name)


def _dnn_lib():
    """Return cuDNN as a ctypes library.

    Raises
    ------
    RuntimeError
        If cuDNN cannot be used.
    """
    if not dnn_present():
        raise RuntimeError(dnn_present.msg)
    return _load_lib(_path())


def _path():
    """Return the path of cuDNN, or the name under which the system's loader searches for it."""
    return loader.cudnn() or "libcudnn.so.%d" % loader.CUDNN_VERSIONS[0]


def _dnn_check_compile():
    """Return whether cuDNN can be loaded, and the reason if not. Nothing is compiled."""
    number, reason = _version_of(_path())
    return number > 0, reason


def _dnn_check_version():
    """Return whether the version of cuDNN can be used, and the reason if not."""
    return _dnn_check_compile()


def dnn_present():
    """Return True if cuDNN is installed, in a version that can be used. This needs no device.

    The attribute `msg` of this function is then None; otherwise, it is the reason. The flag ``dnn.enabled`` has the values
    "False" (cuDNN is treated as missing) and "no_check" (it is treated as installed, without a check).
    """
    enabled = config.dnn.enabled
    if enabled == "False":
        dnn_present.avail, dnn_present.msg = False, "cuDNN is disabled by the flag dnn.enabled"
    elif enabled == "no_check":
        dnn_present.avail, dnn_present.msg = True, None
    else:
        dnn_present.avail, dnn_present.msg = _dnn_check_compile()
    return dnn_present.avail


dnn_present.avail, dnn_present.msg = None, None


def dnn_available(context_name):
    """Return True if cuDNN can be used on a device.

    The attribute `msg` of this function is then None; otherwise, it is the reason: cuDNN is missing, too old, or of a
    version of CUDA that the driver does not support, or the device is no CUDA device.

    Parameters
    ----------
    context_name : hashable
        The name of a context.

    Raises
    ------
    ContextNotDefined
        If there is no such context.
    """
    dnn_available.msg = None
    if not dnn_present():
        dnn_available.msg = dnn_present.msg
        return False
    context = get_context(context_name)
    if context.kind != b"cuda":
        dnn_available.msg = "%s is no CUDA device, so cuDNN does not run on it" % context.devname
    elif config.dnn.enabled != "no_check":
        try:
            _ = context.cudnn  # load the library
        except (pygpu.GpuArrayException, MemoryError) as error:
            dnn_available.msg = str(error)
    return dnn_available.msg is None


dnn_available.msg = None


def require(context_name):
    """Raise RuntimeError if cuDNN cannot be used on a device."""
    if not dnn_available(context_name):
        raise RuntimeError("cuDNN cannot be used on the context %s: %s" % (context_name, dnn_available.msg))


def version(raises=True):
    """Return the version of cuDNN.

    Parameters
    ----------
    raises : bool

    Returns
    -------
    int
        Such as 92800 for 9.28.0. If cuDNN cannot be used, and `raises` is false: -1.

    Raises
    ------
    RuntimeError
        If cuDNN cannot be used, and `raises` is true. The message gives the reason.
    """
    number, reason = _version_of(_path()) if dnn_present() else (-1, dnn_present.msg)
    if number < 0 and raises:
        raise RuntimeError("there is no version of cuDNN: " + reason)
    return number


class DnnVersion(Op):
    """An Op without inputs, whose output is the version of cuDNN; see `version`."""

    __props__ = ()

    def make_node(self):
        return Apply(self, [], [generic()])

    def perform(self, node, inputs, output_storage):
        output_storage[0][0] = version()

    def do_constant_folding(self, node):
        # The version may change before a pickled function is loaded.
        return False


# ---- C code of users ----


def _folders():
    """Return the folders of cuDNN's headers, and of the library itself, if they are known."""
    folder = os.path.dirname(loader.cudnn() or "")
    include = [config.dnn.include_path, os.path.join(os.path.dirname(folder), "include") if folder else ""]
    return [name for name in include if os.path.isdir(name)], [name for name in [folder] if name]


def CUDNNDataType(name, freefunc=None):
    """Return the type of a pointer to an object of cuDNN, for the C code of Ops.

    Parameters
    ----------
    name : str
        The C type, such as "cudnnHandle_t".
    freefunc : str, optional
        The C function that destroys the object.
    """
    include, _ = _folders()
    return CDataType(name, freefunc, headers=["cudnn.h"], header_dirs=include, version=(version(raises=False),))


# The devices own the handles, so no function frees them.
handle_type = CUDNNDataType("cudnnHandle_t")


def _make_handle(ctx):
    """Return cuDNN's handle of a context as a value of `handle_type`. It is valid until the context is closed."""
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return make(ctx.cudnn_handle, None, None)


class DnnBase(COp):
    """The base class of Ops that use cuDNN.

    The C code of a subclass gets the handle of its context as the params, includes ``cudnn.h``, and is linked with the
    library. Its files are those of `COp`.

    Parameters
    ----------
    files : str or list of str, optional
    c_func : str, optional
    """

    check_input = False
    params_type = handle_type

    def __init__(self, files=None, c_func=None):
        if files is not None:
            COp.__init__(self, files, c_func)

    def dnn_context(self, node):
        """Return the name of the context on which a node computes."""
        return node.outputs[0].type.context_name

    def get_params(self, node):
        context_name = self.dnn_context(node)
        require(context_name)
        return _make_handle(get_context(context_name))

    def c_headers(self):
        return ["cudnn.h", "gpuarray/types.h", "gpuarray/array.h", "gpuarray_api.h"]

    def c_header_dirs(self):
        return [*_folders()[0], INCLUDE]

    def c_libraries(self):
        # Wheels contain libcudnn.so.9, but no libcudnn.so.
        return [":libcudnn.so.%d" % loader.CUDNN_VERSIONS[0]]

    def c_lib_dirs(self):
        return _folders()[1]

    def c_compile_args(self):
        return ["-Wl,-rpath," + name for name in _folders()[1]]

    def c_code_cache_version(self):
        return (*super().c_code_cache_version(), version(raises=False), 1)


class DnnOp(GpuOp, DnnBase):
    """The base class of the package's Ops that use cuDNN. Their code is native code in C (``native/cudnn_*.c``).

    A subclass defines `make_node`, `native_code` (see `dnn_code`), `infer_shape`, and `formula`. Derivatives, and
    computations without cuDNN (which DebugMode compares), follow from the formula. A subclass whose derivatives are Ops
    of cuDNN defines `L_op`.
    """

    _f16_ok = True
    params_type = None
    get_params = Op.get_params  # the native code finds the handle itself
    native_uses_queue = False  # the native code calls a library, and runs Python code if the library cannot compute

    def formula(self, *inputs):
        """Return a list of expressions on the host with the values of the outputs, for the inputs as host variables."""
        raise NotImplementedError("%s does not define its formula" % type(self).__name__)

    def dnn_code(self, node, function, **params):
        """Return the native code of a node, such as ``dnn_code(node, "cudnn_softmax:softmax", mode=1)``.

        Raises
        ------
        RuntimeError
            If cuDNN cannot be used on the node's context.
        """
        require(self.dnn_context(node))
        return NativeCode("theano_ng.gpuarray.native." + function, **params)

    def fails_on_values(self, node):
        return False

    def perform(self, node, inputs, output_storage, params=None):
        if node not in _on_host:
            types = [TensorType(at_least_float32(v.dtype), v.broadcastable) for v in node.inputs]
            variables = [type_() for type_ in types]
            _on_host[node] = function(
                variables, self.formula(*variables), mode=Mode("py", None), on_unused_input="ignore"
            )
        values = [v.filter(x, allow_downcast=True) for v, x in zip(_host_types(node), map(np.asarray, inputs))]
        self.store(node, _on_host[node](*values), inputs, output_storage)

    def grad(self, inputs, output_gradients):
        host = on_host(inputs)
        gradients = Lop(self.formula(*host), host, on_host(output_gradients), disconnected_inputs="ignore")
        return [to_context_of(g, x) for g, x in zip(gradients, inputs)]

    def R_op(self, inputs, eval_points):
        host = on_host(inputs)
        moving = [(x, point) for x, point in zip(host, on_host(eval_points)) if point is not None]
        outputs = self.make_node(*inputs).outputs
        if not moving:
            return [None] * len(outputs)
        directions = Rop(self.formula(*host), *map(list, zip(*moving)))
        return [to_context_of(d, out) for d, out in zip(directions, outputs)]


class DeviceOp(DnnOp):
    """The base class of Ops that only cuDNN computes: there is no formula. Differentiable subclasses define `L_op`."""

    perform = Op.perform  # which is undefined

    def grad(self, inputs, output_gradients):
        reason = "cuDNN does not compute it"
        return [grad_not_implemented(self, i, x, reason) for i, x in enumerate(inputs)]

    def R_op(self, inputs, eval_points):
        raise NotImplementedError("%s: cuDNN computes no directional derivatives" % self)


_on_host = weakref.WeakKeyDictionary()  # Apply -> a function that computes the formula on the host


def _host_types(node):
    return [TensorType(at_least_float32(v.dtype), v.broadcastable) for v in node.inputs]


def on_device(name, *inputs):
    """Apply a scalar op with this name, such as "mul", to the elements of arrays on a device."""
    return GpuElemwise(getattr(scalar, name))(*inputs)


def in_dtype(v, dtype):
    """Return a device variable, cast to `dtype` if it has another dtype."""
    return v if v.dtype == dtype else GpuElemwise(scalar.Cast(scalar.get_scalar_type(dtype)))(v)


def with_pattern(v, like):
    """Return a device variable with the broadcast pattern of the variable `like`, which has the same shape."""
    return v if v.broadcastable == like.broadcastable else Rebroadcast(*enumerate(like.broadcastable))(v)


def dnn_inputs(op, inputs, ndim):
    """Return the inputs of an Op as arrays on one device.

    Parameters
    ----------
    op : Op
    inputs : dict of str to variable
        The names of the inputs in error messages, and the inputs.
    ndim : int or sequence of int
        The number of axes that the inputs may have.

    Raises
    ------
    TypeError
        If an input has another number of axes, or if the dtypes are not all equal to one of float16, float32, float64.
    """
    context_name = infer_context_name(*inputs.values())
    found = [as_gpuarray_variable(v, context_name) for v in inputs.values()]
    allowed = (ndim,) if isinstance(ndim, int) else tuple(ndim)
    for name, v in zip(inputs, found):
        if v.ndim not in allowed:
            expected = " or ".join(map(str, allowed))
            raise TypeError("%s: %s must have %s dimensions; got %s of type %s" % (op, name, expected, v, v.type))
    dtypes = [v.dtype for v in found]
    if dtypes[0] not in DTYPES or len(set(dtypes)) != 1:
        given = ", ".join("%s: %s" % pair for pair in zip(inputs, dtypes))
        raise TypeError("%s: all inputs must have one dtype among %s; got %s" % (op, ", ".join(DTYPES), given))
    return found
