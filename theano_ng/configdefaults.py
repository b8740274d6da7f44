"""The definitions of all documented flags, with their defaults."""

import logging
import os
import sys

from theano_ng.configparser import (
    AddConfigVar,
    BoolParam,
    ConfigParam,
    EnumStr,
    FloatParam,
    IntParam,
    StrParam,
    TheanoConfigError,
    TheanoConfigParser,  # noqa: F401, users import it from here
    TheanoConfigWarning,  # noqa: F401, users import it from here
    check_unknown_flags,
    config,
)
from theano_ng.version import version

_logger = logging.getLogger("theano_ng.configdefaults")

_MODES = ("Mode", "DebugMode", "FAST_RUN", "NanGuardMode", "FAST_COMPILE", "DEBUG_MODE")
_RELEASES = (
    "0.3",
    "0.4",
    "0.4.1",
    "0.5",
    "0.6",
    "0.7",
    "0.8",
    "0.8.1",
    "0.8.2",
    "0.9",
    "0.10",
    "1.0",
    "1.0.1",
    "1.0.2",
    "1.0.3",
    "1.0.4",
    "1.0.5",
)


def _positive(value):
    return value > 0


def _not_negative(value):
    return value >= 0


# --- numbers and types ------------------------------------------------------------------------------------------------------


def floatX_convert(s):
    """Return the dtype for a spelling of floatX ("32", "float32", ...)."""
    return {"32": "float32", "64": "float64", "16": "float16"}.get(str(s), s)


class FloatXParam(EnumStr):
    """The flag floatX. Its value may also be a number of bits."""

    def _filter(self, value):
        return super()._filter(floatX_convert(value))


AddConfigVar(
    "floatX",
    "Default dtype of Python floats and of tensors that are created without a dtype. float16 has limited support.",
    FloatXParam("float64", "float32", "float16"),
)
AddConfigVar(
    "warn_float64",
    "The action when a TensorVariable of dtype float64 is created: ignore it, warn, raise an error, or start the "
    "debugger.",
    EnumStr("ignore", "warn", "raise", "pdb"),
    in_c_key=False,
)
AddConfigVar(
    "cast_policy",
    "The rule for the dtype of constants and of arithmetic results: 'custom' uses the smallest sufficient dtype for "
    "Python numbers; 'numpy+floatX' (experimental) follows NumPy but prefers float32 under floatX=float32.",
    EnumStr("custom", "numpy+floatX"),
)
AddConfigVar(
    "int_division",
    "The result of x.__div__(y), the x / y of Python 2, for two integers: 'int' (deprecated) an integer, 'floatX' a "
    "float, 'raise' an error. The x / y of Python 3 is x.__truediv__(y), always a float.",
    EnumStr("int", "raise", "floatX"),
    in_c_key=False,
)
AddConfigVar(
    "deterministic",
    "'more' selects GPU implementations that are more deterministic and sometimes slower. CPU implementations are "
    "deterministic for every value of the flag.",
    EnumStr("default", "more"),
    in_c_key=False,
)


# --- devices -----------------------------------------------------------------------------------------------------------------


class DeviceParam(ConfigParam):
    """A flag for a device: cpu, cuda*, opencl*.

    If the value is a device name of the removed backend, the error message suggests the current name.
    """

    def __init__(self, default, *options, **kwargs):
        self.default = default
        super().__init__(default, self._filter, kwargs.get("allow_override", True))

    def _filter(self, value):
        if value == self.default or value.startswith(("cuda", "opencl")):
            return value
        if value.startswith("gpu"):
            raise ValueError("%r is a device of the old GPU backend, which was removed; use 'cuda' or 'cuda0'" % value)
        raise ValueError(
            "%r is not a device: expected one of %r, 'cuda', 'cuda0', ..., 'opencl0:0', ..." % (value, self.default)
        )

    def allowed(self):
        return (self.default, "opencl*", "cuda*")


class ContextsParam(ConfigParam):
    """A flag for GPU contexts: ``name->device;name->device``."""

    def __init__(self):
        super().__init__("", self._filter, False)

    def _filter(self, value):
        for entry in filter(None, value.split(";")):
            name, arrow, device = [part.strip() for part in entry.partition("->")]
            if not (arrow and name and device) or "->" in device:
                raise ValueError("Malformed context map: %r; expected name->device;name->device" % entry)
            if name == "cpu" or name.startswith(("cuda", "opencl")):
                raise ValueError("Cannot use %r as context name: names of devices are not allowed" % name)
        return value

    def allowed(self):
        return "name->device;..."


AddConfigVar(
    "device",
    "Default device for computations, in lower case. 'cuda' lets the driver select a GPU; 'cuda0', 'cuda1' ... "
    "select this GPU.",
    DeviceParam("cpu", allow_override=False),
    in_c_key=False,
)
AddConfigVar(
    "init_gpu_device",
    "Initialize this GPU without moving computations to it; requires device=cpu.",
    DeviceParam("", allow_override=False),
    in_c_key=False,
)
AddConfigVar(
    "force_device",
    "If the GPU device cannot be used: True raises an error; False warns and uses the CPU.",
    BoolParam(False, allow_override=False),
    in_c_key=False,
)
AddConfigVar("contexts", "GPU contexts as name->device, separated by ';'.", ContextsParam(), in_c_key=False)
AddConfigVar(
    "print_active_device", "Print the active device when the GPU is initialized.", BoolParam(True), in_c_key=False
)
AddConfigVar(
    "print_global_stats",
    "Print at exit how much time this process took in total, for rewriting, for linking, and in functions that are "
    "profiled.",
    BoolParam(False),
    in_c_key=False,
)
AddConfigVar(
    "assert_no_cpu_op",
    "The action when an Op stays on the CPU in the graph of a function that is moved to a GPU; no effect when "
    "device is cpu.",
    EnumStr("ignore", "warn", "raise", "pdb"),
    in_c_key=False,
)
AddConfigVar(
    "gpuarray.preallocate",
    "GPU memory pool: negative: no pool; 0: a pool without preallocated memory; up to 1: preallocate this fraction of "
    "the memory; above 1: preallocate this many megabytes.",
    FloatParam(0, allow_override=False),
    in_c_key=False,
)
AddConfigVar(
    "gpuelemwise.sync",
    "Wait until elementwise operations on a GPU are finished, and check their error codes.",
    BoolParam(True),
    in_c_key=False,
)
AddConfigVar("gpuarray.sched", "Scheduling mode of the GPU context.", EnumStr("default", "multi", "single"))
AddConfigVar("gpuarray.single_stream", "Use one stream per GPU context.", BoolParam(True), in_c_key=False)
AddConfigVar(
    "gpuarray.cache_path",
    "Directory for compiled GPU kernels.",
    StrParam(lambda: os.path.join(config.compiledir, "gpuarray_kernels"), allow_override=False),
    in_c_key=False,
)
AddConfigVar(
    "gpuarray.epilogue",
    "Compute elementwise operations on a product of matrices in the kernel of the product, and the bias and the activation "
    "of a convolution by cuDNN in its kernel. auto: yes, except for large products on CUDA devices, which are faster by "
    "cuBLAS and a second kernel, and for convolutions without a fast plan of cuDNN. on: always if possible. off: never.",
    EnumStr("auto", "on", "off"),
    in_c_key=False,
)
AddConfigVar(
    "gpuarray.graph",
    "Record the kernel launches of compiled functions as CUDA graphs, and launch them by one call. auto: on CUDA devices. "
    "on: on all devices; on OpenCL devices, the launches are collected, and then made one by one. off: never.",
    EnumStr("auto", "on", "off"),
    in_c_key=False,
)
AddConfigVar(
    "gpuarray.allow_tf32",
    "Let cuBLAS round the factors of float32 products to TF32, which has 10 bits of precision after the leading bit "
    "instead of 23. Faster on CUDA devices with compute capability 8.0 and newer; no effect on others.",
    BoolParam(False),
    in_c_key=False,
)


AddConfigVar(
    "gpuarray.sync",
    "Wait for the end of every kernel. Then profiles contain the time of each kernel, and an error names the node "
    "that caused it. Slow. By default, True if the environment variable CUDA_LAUNCH_BLOCKING is 1.",
    BoolParam(lambda: os.environ.get("CUDA_LAUNCH_BLOCKING", "0") == "1", allow_override=False),
    in_c_key=False,
)


def check_devices():
    """Return True if the flag device, init_gpu_device or contexts requests a device.

    If force_device is set and device is "cpu", the other flags are ignored.

    Returns
    -------
    bool

    Raises
    ------
    TheanoConfigError
        If the flags contradict each other.
    """
    if config.init_gpu_device and config.device != "cpu":
        raise TheanoConfigError(
            "init_gpu_device=%s requires device=cpu, but device=%s; remove one of the two flags"
            % (config.init_gpu_device, config.device)
        )
    if config.force_device and config.device == "cpu":
        return False
    return config.device != "cpu" or bool(config.init_gpu_device) or bool(config.contexts)


_ACTIVE_GPU = "THEANO_GPU_IS_ALREADY_ACTIVE"


def mark_active_gpu():
    """Record in the environment, for child processes, that this process has opened a device."""
    os.environ[_ACTIVE_GPU] = str(os.getpid())


def parent_with_gpu():
    """Return the process id of the `multiprocessing` parent if the parent has opened a device.

    Otherwise return None.
    """
    process = sys.modules.get("multiprocessing.process")
    parent = process.parent_process() if process else None
    return parent.pid if parent is not None and os.environ.get(_ACTIVE_GPU) == str(parent.pid) else None


def get_cuda_root():
    """Return the folder of the CUDA tools, or '' if it is not found.

    The folder is the value of the environment variable CUDA_ROOT. If the variable is not set, the folder is the parent
    of the folder on PATH that contains nvcc.
    """
    root = os.getenv("CUDA_ROOT")
    if root:
        return root
    nvcc = find_program("nvcc")
    return os.path.dirname(os.path.dirname(nvcc)) if nvcc else ""


def default_cuda_include():
    root = config.cuda.root
    return os.path.join(root, "include") if root else ""


def default_dnn_base_path():
    """Return the CUDA root if it contains the header of cuDNN. Otherwise return ''."""
    root = config.cuda.root
    return root if root and os.path.exists(os.path.join(root, "include", "cudnn.h")) else ""


def default_dnn_inc_path():
    return os.path.join(config.dnn.base_path, "include") if config.dnn.base_path else ""


def default_dnn_lib_path():
    if not config.dnn.base_path:
        return ""
    return os.path.join(config.dnn.base_path, "lib" if sys.platform == "darwin" else "lib64")


def default_dnn_bin_path():
    return config.dnn.library_path


def _deprecated(name, instead):
    def refuse(value):
        if value not in ("", "0", "None", "False"):
            raise ValueError("%s is no longer supported; use %s" % (name, instead))
        return ""

    return ConfigParam("", refuse, allow_override=False, accepts="no longer supported")


SUPPORTED_DNN_CONV_ALGO_RUNTIME = ("guess_once", "guess_on_shape_change", "time_once", "time_on_shape_change")
SUPPORTED_DNN_CONV_ALGO_FWD = (
    "small",
    "none",
    "large",
    "fft",
    "fft_tiling",
    "winograd",
    "winograd_non_fused",
) + SUPPORTED_DNN_CONV_ALGO_RUNTIME
SUPPORTED_DNN_CONV_ALGO_BWD_DATA = (
    "none",
    "deterministic",
    "fft",
    "fft_tiling",
    "winograd",
    "winograd_non_fused",
) + SUPPORTED_DNN_CONV_ALGO_RUNTIME
SUPPORTED_DNN_CONV_ALGO_BWD_FILTER = (
    "none",
    "deterministic",
    "fft",
    "small",
    "winograd_non_fused",
    "fft_tiling",
) + SUPPORTED_DNN_CONV_ALGO_RUNTIME
SUPPORTED_DNN_CONV_PRECISION = ("as_input_f32", "as_input", "float16", "float32", "float64")

AddConfigVar(
    "cuda.root", "Directory of the CUDA toolkit.", StrParam(get_cuda_root, allow_override=False), in_c_key=False
)
AddConfigVar("cuda.include_path", "Location of the CUDA headers.", StrParam(default_cuda_include), in_c_key=False)
AddConfigVar(
    "nvcc.fastmath", "Fast, less accurate mathematical functions on the GPU; they may create NaN.", BoolParam(False)
)
AddConfigVar("nvcc.flags", "Extra flags for nvcc.", StrParam(""))
AddConfigVar(
    "dnn.base_path", "Directory of cuDNN.", StrParam(default_dnn_base_path, allow_override=False), in_c_key=False
)
AddConfigVar("dnn.include_path", "Location of the cuDNN header.", StrParam(default_dnn_inc_path), in_c_key=False)
AddConfigVar("dnn.library_path", "Location of the cuDNN library.", StrParam(default_dnn_lib_path), in_c_key=False)
AddConfigVar("dnn.bin_path", "Location of the cuDNN binaries.", StrParam(default_dnn_bin_path), in_c_key=False)
AddConfigVar(
    "dnn.enabled",
    "'auto' uses cuDNN if it is installed, 'True' requires it, 'False' never uses it, 'no_check' uses it without a "
    "check.",
    EnumStr("auto", "True", "False", "no_check"),
    in_c_key=False,
)
AddConfigVar(
    "dnn.conv.workmem",
    "Deprecated, use dnn.conv.algo_fwd.",
    _deprecated("dnn.conv.workmem", "dnn.conv.algo_fwd"),
    in_c_key=False,
)
AddConfigVar(
    "dnn.conv.workmem_bwd",
    "Deprecated, use dnn.conv.algo_bwd_filter and dnn.conv.algo_bwd_data.",
    _deprecated("dnn.conv.workmem_bwd", "dnn.conv.algo_bwd_filter and dnn.conv.algo_bwd_data"),
    in_c_key=False,
)
AddConfigVar(
    "dnn.conv.algo_bwd",
    "Deprecated, use dnn.conv.algo_bwd_filter and dnn.conv.algo_bwd_data.",
    _deprecated("dnn.conv.algo_bwd", "dnn.conv.algo_bwd_filter and dnn.conv.algo_bwd_data"),
    in_c_key=False,
)
AddConfigVar(
    "dnn.conv.algo_fwd",
    "Algorithm of cuDNN's forward convolution.",
    EnumStr(*SUPPORTED_DNN_CONV_ALGO_FWD),
    in_c_key=False,
)
AddConfigVar(
    "dnn.conv.algo_bwd_data",
    "Algorithm of cuDNN's gradient of a convolution with respect to its inputs.",
    EnumStr(*SUPPORTED_DNN_CONV_ALGO_BWD_DATA),
    in_c_key=False,
)
AddConfigVar(
    "dnn.conv.algo_bwd_filter",
    "Algorithm of cuDNN's gradient of a convolution with respect to its filters.",
    EnumStr(*SUPPORTED_DNN_CONV_ALGO_BWD_FILTER),
    in_c_key=False,
)
AddConfigVar(
    "dnn.conv.precision",
    "Precision in which cuDNN computes convolutions.",
    EnumStr(*SUPPORTED_DNN_CONV_PRECISION),
    in_c_key=False,
)
AddConfigVar(
    "magma.enabled",
    "Compute inverses and decompositions of matrices on CUDA devices. cuSOLVER computes them, so MAGMA is not needed.",
    BoolParam(False),
    in_c_key=False,
)
AddConfigVar("magma.include_path", "Not used, because cuSOLVER replaces MAGMA.", StrParam(""), in_c_key=False)
AddConfigVar("magma.library_path", "Not used, because cuSOLVER replaces MAGMA.", StrParam(""), in_c_key=False)
AddConfigVar(
    "ctc.root",
    "Directory of warp-ctc, with include and build, lib or lib64.",
    StrParam("", allow_override=False),
    in_c_key=False,
)


# --- compiling functions -----------------------------------------------------------------------------------------------------


def filter_mode(val):
    """Return `val` if it is a Mode or the name of a mode. Names that `register_mode` registered are accepted, too."""
    if not isinstance(val, str) or val in _MODES:
        return val
    modes = sys.modules.get("theano_ng.compile.mode")  # This module of a higher layer may not be imported yet.
    if modes is not None and val in modes.predefined_modes:
        return val
    raise ValueError("%r is not one of %s" % (val, ", ".join(map(repr, _MODES))))


def filter_vm_lazy(val):
    """Convert a setting to None, True or False. It is one of these values, or a text such as ``"True"``."""
    if val in ("None", None):
        return None
    if val in ("False", "0", False):
        return False
    if val in ("True", "1", True):
        return True
    raise ValueError("%r is not one of None, True, False" % (val,))


def find_program(*names):
    """Return the full path of the first of the given programs that is on PATH. Return '' if there is none."""
    for name in names:
        for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
            path = os.path.join(folder, name)
            if os.access(path, os.X_OK) and not os.path.isdir(path):
                return path
    return ""


def default_cxx():
    """Return the full path of the C++ compiler. Return '' if no compiler is installed."""
    return find_program("clang++") if sys.platform == "darwin" else find_program("g++", "c++", "clang++")


AddConfigVar(
    "mode",
    "Default compilation mode: "
    + ", ".join(_MODES)
    + "; while the program runs, also a Mode, or a name given to register_mode.",
    ConfigParam("Mode", filter_mode, accepts=_MODES),
    in_c_key=False,
)
AddConfigVar(
    "linker",
    "Default linker of the mode 'Mode'.",
    EnumStr("cvm", "c|py", "py", "c", "c|py_nogc", "vm", "vm_nogc", "cvm_nogc"),
    in_c_key=False,
)
AddConfigVar(
    "optimizer",
    "Default optimizer of the mode 'Mode'.",
    EnumStr("fast_run", "o4", "o3", "o2", "o1", "unsafe", "stabilize", "fast_compile", "merge", "None"),
    in_c_key=False,
)
AddConfigVar(
    "tiered",
    "Run functions on an interpreter until their kernels are compiled. auto: only if the kernels are not in the "
    "cache; on: always; off: never, so that calls wait for the compiler.",
    EnumStr("auto", "on", "off"),
    in_c_key=False,
)
AddConfigVar(
    "kernel_folder",
    "A folder into which the source code of each kernel that a function uses is written, after the program of its "
    "loop. If empty, nothing is written.",
    StrParam(""),
    in_c_key=False,
)
AddConfigVar("optimizer_verbose", "Print every rewrite that is applied.", BoolParam(False), in_c_key=False)
AddConfigVar(
    "on_opt_error",
    "The action when a rewrite raises an exception: skip it with a warning, raise, start the debugger, or skip it "
    "silently.",
    EnumStr("warn", "raise", "pdb", "ignore"),
    in_c_key=False,
)
for _name, _what in (("excluding", "excluded from"), ("including", "included in"), ("requiring", "required in")):
    AddConfigVar(
        "optimizer_" + _name,
        "Tags and names of rewrites, separated by ':', %s the default mode." % _what,
        StrParam("", allow_override=False),
        in_c_key=False,
    )
AddConfigVar(
    "on_unused_input",
    "The action for an input of a function that neither an output nor an update needs, unless the function's "
    "argument on_unused_input specifies it.",
    EnumStr("raise", "warn", "ignore"),
    in_c_key=False,
)
AddConfigVar(
    "on_shape_error",
    "The action when the infer_shape of a node raises an exception: warn and use the default shape, or raise.",
    EnumStr("warn", "raise"),
    in_c_key=False,
)
AddConfigVar(
    "cycle_detection",
    "'regular' permits most in-place operations; 'fast' permits fewer, and compiles faster.",
    EnumStr("regular", "fast"),
    in_c_key=False,
)
AddConfigVar(
    "check_stack_trace",
    "The action for rewrites that lose the stack trace of the creation of a variable.",
    EnumStr("off", "log", "warn", "raise"),
    in_c_key=False,
)
AddConfigVar(
    "optdb.position_cutoff",
    "Stop rewriting before this position of the rewriting phases.",
    FloatParam(float("inf")),
    in_c_key=False,
)
AddConfigVar(
    "optdb.max_use_ratio",
    "A rewrite may be applied at most this number times the number of nodes in one equilibrium phase.",
    FloatParam(8),
    in_c_key=False,
)
AddConfigVar(
    "allow_gc",
    "Free intermediate results as soon as they are not needed; False keeps their memory for the next call.",
    BoolParam(True),
    in_c_key=False,
)
AddConfigVar(
    "vm.lazy",
    "Force lazy evaluation on (True) or off (False); None decides by the graph.",
    ConfigParam("None", filter_vm_lazy, accepts=("None", "True", "False")),
    in_c_key=False,
)
AddConfigVar(
    "openmp",
    "Allow Ops that support OpenMP to use it. The environment variable OMP_NUM_THREADS sets the number of threads.",
    BoolParam(False),
)
AddConfigVar(
    "openmp_elemwise_minsize",
    "Elementwise operations on fewer elements than this run on one thread.",
    IntParam(200000, _positive),
    in_c_key=False,
)
AddConfigVar(
    "scan.allow_gc", "Free intermediate results inside scan as soon as possible.", BoolParam(False), in_c_key=False
)
AddConfigVar(
    "scan.allow_output_prealloc",
    "Let scan pre-allocate the outputs of its inner function.",
    BoolParam(True),
    in_c_key=False,
)
AddConfigVar("scan.debug", "Print how rewrites change loops.", BoolParam(False), in_c_key=False)
AddConfigVar(
    "experimental.local_alloc_elemwise",
    "Deprecated, only True is accepted. Use optimizer_excluding=local_alloc_elemwise to disable the rewrite.",
    BoolParam(True, bool),
    in_c_key=False,
)
AddConfigVar(
    "experimental.local_alloc_elemwise_assert",
    "If local_alloc_elemwise applies and shapes are not provably equal, add an assertion.",
    BoolParam(True),
    in_c_key=False,
)
AddConfigVar(
    "experimental.unpickle_gpu_on_cpu",
    "Unpickle GPU arrays as NumPy arrays, also if there is a GPU.",
    BoolParam(False),
    in_c_key=False,
)
AddConfigVar(
    "conv.assert_shape",
    "Check at run time the shapes that users declared for convolutions.",
    BoolParam(False),
    in_c_key=False,
)
AddConfigVar(
    "metaopt.verbose",
    "Verbosity of the meta-optimizer: 0 silent, 1 warns when an op cannot be meta-optimized, 2 prints all timings and "
    "choices.",
    IntParam(0, lambda i: i in (0, 1, 2)),
    in_c_key=False,
)
AddConfigVar(
    "metaopt.optimizer_excluding",
    "Tags excluded from the meta-optimizer, separated by ':'.",
    StrParam(""),
    in_c_key=False,
)
AddConfigVar(
    "metaopt.optimizer_including",
    "Tags included in the meta-optimizer, separated by ':'.",
    StrParam(""),
    in_c_key=False,
)
AddConfigVar(
    "unpickle_function",
    "Recompile functions when they are unpickled; if False, unpickling yields None instead of a function.",
    BoolParam(True),
    in_c_key=False,
)
AddConfigVar(
    "reoptimize_unpickled_function",
    "Rewrite the graph again when a function is unpickled; if False, the rewritten graph that was saved is used.",
    BoolParam(False),
    in_c_key=False,
)
AddConfigVar("pickle_test_value", "Pickle test values together with variables.", BoolParam(True), in_c_key=False)


# --- the C compiler and its cache --------------------------------------------------------------------------------------------

AddConfigVar(
    "cxx",
    "The C++ compiler: a full path or a name. If empty, nothing is compiled: elementwise operations are "
    "interpreted, and Ops with their own C code run their Python implementations.",
    StrParam(default_cxx),
    in_c_key=False,
)
AddConfigVar("gcc.cxxflags", "Extra flags for the C++ compiler.", StrParam(""))
AddConfigVar(
    "nocleanup",
    "Keep generated source files, including those that failed to compile.",
    BoolParam(False),
    in_c_key=False,
)
AddConfigVar(
    "lib.cnmem",
    "Deprecated, use gpuarray.preallocate.",
    _deprecated("lib.cnmem", "gpuarray.preallocate"),
    in_c_key=False,
)
AddConfigVar("lib.amdlibm", "Compile with AMD's mathematical library.", BoolParam(False))
AddConfigVar(
    "blas.ldflags",
    "Link arguments for a BLAS, such as -lopenblas; read when the first BLAS operation runs. If empty, the BLAS that "
    "SciPy contains is used through function pointers.",
    StrParam(""),
)
AddConfigVar(
    "blas.check_openmp",
    "Warn if openmp is on and blas.ldflags names an MKL that loads Intel's OpenMP: together with the compiler's "
    "OpenMP library it can give wrong results.",
    BoolParam(True),
    in_c_key=False,
)
AddConfigVar(
    "cache_graphs",
    "Store rewritten graphs in the compile directory, so that later processes that compile the same function do not "
    "rewrite its graph again.",
    BoolParam(True),
    in_c_key=False,
)
AddConfigVar(
    "cache_optimizations",
    "Accepted for old configuration files, without effect: cache_graphs decides whether rewritten graphs are stored.",
    BoolParam(False),
    in_c_key=False,
)
AddConfigVar(
    "cmodule.mac_framework_link",
    "Accepted for old configuration files, without effect: no compiled module links a framework.",
    BoolParam(False),
    in_c_key=False,
)
AddConfigVar(
    "cmodule.warn_no_version",
    "Warn if an Op's C code cannot be cached because it has no version.",
    BoolParam(False),
    in_c_key=False,
)
AddConfigVar("cmodule.remove_gxx_opt", "Compile without optimization, to debug generated code.", BoolParam(False))
AddConfigVar("cmodule.compilation_warning", "Print the compiler's warnings.", BoolParam(False))
AddConfigVar(
    "cmodule.preload_cache",
    "Load all cached modules when the first module is needed.",
    BoolParam(False, allow_override=False),
    in_c_key=False,
)
AddConfigVar(
    "cmodule.age_thresh_use",
    "Cached modules that are older than this many seconds are not used; 'theano_ng-cache cleanup' deletes them a week "
    "later.",
    IntParam(60 * 60 * 24 * 24),
    in_c_key=False,
)
AddConfigVar("cmodule.debug", "Define DEBUG in generated code and compile its assertions.", BoolParam(False))
AddConfigVar(
    "compile.wait",
    "Longest pause, in seconds, between two attempts to take the lock on a compile directory.",
    IntParam(5, _positive),
    in_c_key=False,
)


def _timeout_default():
    return config.compile.wait * 24


AddConfigVar(
    "compile.progress",
    "Print on a terminal which step is running, if compiling a function takes longer than two seconds.",
    BoolParam(True),
    in_c_key=False,
)
AddConfigVar(
    "compile.timeout",
    "After waiting this many seconds for a cache entry of another process, compile a private copy.",
    IntParam(_timeout_default, _positive),
    in_c_key=False,
)


def local_bitwidth():
    """Return the number of bits of a pointer."""
    return 64 if sys.maxsize > 2**32 else 32


def python_int_bitwidth():
    """Return the number of bits of C's long, the default integer of NumPy 1."""
    import struct

    return struct.calcsize("l") * 8


def short_platform(r=None, p=None):
    """Return the platform name with a shortened release number of the system, such as ``Linux-6.1--x86_64``.

    Parameters
    ----------
    r : str, optional
        The release of the operating system. By default, the release on this machine.
    p : str, optional
        The platform name. By default, the platform name of this machine.
    """
    r = os.uname().release if r is None else r
    p = _platform_text() if p is None else p
    pieces = r.split(".")
    if len(pieces) < 2:
        return p
    release = pieces[0] + "." + pieces[1].split("-", 1)[0]
    tail = r.split("-", 1)[1].split(".")[-1] if "-" in r else ""
    return p.replace(r, "-".join(filter(None, (release, tail))))


def _platform_text():
    if sys.platform == "win32":
        import platform

        return platform.platform()
    name = os.uname()
    return "%s-%s-%s" % (name.sysname, name.release, name.machine)


class _CompiledirKeys:
    """The values of the keys of compiledir_format. Each value is computed on access."""

    find_compiler_version = None  # `register_compiler_version` sets this function

    def __getitem__(self, key):
        return getattr(self, key)()

    def platform(self):
        return _platform_text()

    def processor(self):
        return "" if sys.platform == "win32" else os.uname().machine

    def short_platform(self):
        return _platform_text() if sys.platform == "win32" else short_platform()

    def python_version(self):
        return "%d.%d.%d" % sys.version_info[:3]

    def python_bitwidth(self):
        return local_bitwidth()

    def python_int_bitwidth(self):
        return python_int_bitwidth()

    def numpy_version(self):
        import numpy

        return numpy.__version__

    def theano_version(self):
        return version

    def gxx_version(self):
        return "none" if self.find_compiler_version is None else self.find_compiler_version()

    def hostname(self):
        return "" if sys.platform == "win32" else os.uname().nodename

    def device(self):
        return config.device


def register_compiler_version(function):
    """Register the function that returns the compiler version: the value of ``gxx_version`` in compiledir_format.

    This is a decorator. The function has no parameters.
    """
    _CompiledirKeys.find_compiler_version = staticmethod(function)
    return function


compiledir_format_keys = (
    "device",
    "gxx_version",
    "hostname",
    "numpy_version",
    "platform",
    "processor",
    "python_bitwidth",
    "python_int_bitwidth",
    "python_version",
    "short_platform",
    "theano_version",
)


def filter_compiledir_format(text):
    """Return the text if it is a %-format whose keys are all in `compiledir_format_keys`. Else raise ValueError."""
    try:
        text % dict.fromkeys(compiledir_format_keys, 0)
    except KeyError as unknown:
        raise ValueError(
            "%r contains the unknown key %s; the keys are %s" % (text, unknown, ", ".join(compiledir_format_keys))
        ) from None
    except (TypeError, ValueError) as failure:
        raise ValueError(
            "%r is not a valid %%-format such as %r: %s" % (text, default_compiledir_format, failure)
        ) from None
    return text


default_compiledir_format = "compiledir_%(short_platform)s-%(processor)s-%(python_version)s-%(python_bitwidth)s"


def get_home_dir():
    """Return the home directory of the user."""
    return os.path.expanduser("~")


def default_base_compiledir():
    local = os.environ.get("LOCALAPPDATA") if sys.platform == "win32" else None
    return os.path.join(local, "Theano") if local else os.path.join(get_home_dir(), ".theano")


def user_cache_directory():
    """Return the cache folder of the user, for files that programs can rebuild."""
    folder = os.environ.get("XDG_CACHE_HOME", "")
    return folder if os.path.isabs(folder) else os.path.join(get_home_dir(), ".cache")


def filter_base_compiledir(path):
    """Return the path with ~ expanded."""
    return os.path.expanduser(str(path))


def filter_compiledir(path):
    """Return the path with ~ expanded. Raise ValueError for a line break, which NumPy's build tools cannot handle."""
    path = os.path.expanduser(str(path))
    if "\n" in path:
        raise ValueError("the name of a compile directory must not contain a line break: %r" % path)
    return path


def default_compiledirname():
    return (config.compiledir_format % _CompiledirKeys()).replace(os.sep, "-")


def default_compiledir():
    return os.path.join(config.base_compiledir, default_compiledirname())


AddConfigVar(
    "compiledir_format",
    "Name of the compile directory inside base_compiledir. Keys: %s." % ", ".join(compiledir_format_keys),
    ConfigParam(default_compiledir_format, filter_compiledir_format, allow_override=False, accepts="str"),
    in_c_key=False,
)
AddConfigVar(
    "base_compiledir",
    "Directory that contains the compile directories of all platforms.",
    ConfigParam(default_base_compiledir, filter_base_compiledir, allow_override=False, accepts="path"),
    in_c_key=False,
)
AddConfigVar(
    "compiledir",
    "Directory of compiled modules.",
    ConfigParam(default_compiledir, filter_compiledir, allow_override=False, accepts="path"),
    in_c_key=False,
)


# --- errors, debugging, profiling --------------------------------------------------------------------------------------------

AddConfigVar(
    "exception_verbosity",
    "The length of error messages. 'high' adds the graph of the failing node and the memory in use to the error of "
    "a node, and prints nodes with their inputs, one indented line for each input.",
    EnumStr("low", "high"),
    in_c_key=False,
)
AddConfigVar(
    "traceback.limit",
    "Number of stack frames of the user's program that are stored for each variable.",
    IntParam(8),
    in_c_key=False,
)
AddConfigVar(
    "traceback.compile_limit",
    "Number of stack frames that are stored for variables that are created during compilation; with 0 they have "
    "only the traces of the variables that they replace.",
    IntParam(0),
    in_c_key=False,
)
AddConfigVar(
    "compute_test_value",
    "Run each Op while the graph is built, on the test values (tag.test_value) of its inputs.",
    EnumStr("off", "ignore", "warn", "raise", "pdb"),
    in_c_key=False,
)
AddConfigVar(
    "compute_test_value_opt",
    "Run each Op also while the graph is rewritten, on the test values of its inputs.",
    EnumStr("off", "ignore", "warn", "raise", "pdb"),
    in_c_key=False,
)
AddConfigVar(
    "print_test_value", "str() and repr() of variables also show their test values.", BoolParam(False), in_c_key=False
)
AddConfigVar("profile", "Profile every function, and print the profiles at exit.", BoolParam(False), in_c_key=False)
AddConfigVar("profile_optimizer", "Also profile rewriting; requires profile.", BoolParam(False), in_c_key=False)
AddConfigVar("profile_memory", "Also profile memory; requires profile.", BoolParam(False), in_c_key=False)
AddConfigVar("profiling.time_thunks", "Measure the time of each thunk when profiling.", BoolParam(True), in_c_key=False)
AddConfigVar("profiling.n_apply", "Number of apply nodes to print.", IntParam(20, _positive), in_c_key=False)
AddConfigVar("profiling.n_ops", "Number of Ops to print.", IntParam(20, _positive), in_c_key=False)
AddConfigVar(
    "profiling.output_line_width", "Maximum length of printed lines.", IntParam(512, _positive), in_c_key=False
)
AddConfigVar(
    "profiling.min_memory_size",
    "Omit apply nodes whose outputs take fewer bytes than this from the memory profile.",
    IntParam(1024, _not_negative),
    in_c_key=False,
)
AddConfigVar("profiling.min_peak_memory", "Print the smallest possible peak memory.", BoolParam(False), in_c_key=False)
AddConfigVar(
    "profiling.destination",
    "Destination of profiles: stderr, stdout or the name of a file.",
    StrParam("stderr"),
    in_c_key=False,
)
AddConfigVar(
    "profiling.debugprint", "Print the graphs of profiled functions with debugprint.", BoolParam(False), in_c_key=False
)
AddConfigVar("profiling.ignore_first_call", "Ignore the first call of a function.", BoolParam(False), in_c_key=False)
AddConfigVar(
    "check_input",
    "Let C code check its inputs. Use False only for functions whose inputs are known to be valid.",
    BoolParam(True),
)

AddConfigVar(
    "DebugMode.patience",
    "The number of times that DebugMode rewrites a graph to detect rewrites that are not deterministic.",
    IntParam(10, _positive),
    in_c_key=False,
)
AddConfigVar("DebugMode.check_c", "Run C implementations where they exist.", BoolParam(True), in_c_key=False)
AddConfigVar("DebugMode.check_py", "Run Python implementations where they exist.", BoolParam(True), in_c_key=False)
AddConfigVar("DebugMode.check_finite", "Raise an error for NaN and infinity.", BoolParam(True), in_c_key=False)
AddConfigVar(
    "DebugMode.check_strides",
    "The action when C and Python implementations return different strides: 0 ignore, 1 warn, 2 raise.",
    IntParam(1, lambda i: i in (0, 1, 2)),
    in_c_key=False,
)
AddConfigVar(
    "DebugMode.warn_input_not_reused",
    "Warn if destroy_map or view_map declares in-place work and the memory of the input is not reused.",
    BoolParam(True),
    in_c_key=False,
)


def is_valid_check_preallocated_output_param(param):
    """Return True if every word of a text names a kind of preallocated memory. Colons separate the words."""
    valid = ("initial", "previous", "c_contiguous", "f_contiguous", "strided", "wrong_size", "ALL", "")
    return isinstance(param, str) and all(word in valid for word in param.split(":"))


AddConfigVar(
    "DebugMode.check_preallocated_output",
    "Kinds of preallocated output memory to test: initial, previous, c_contiguous, f_contiguous, strided, wrong_size, "
    "ALL; separated by ':'.",
    StrParam("", is_valid_check_preallocated_output_param),
    in_c_key=False,
)
AddConfigVar(
    "DebugMode.check_preallocated_output_ndim",
    "Number of innermost dimensions whose strides vary in 'strided'.",
    IntParam(4, _positive),
    in_c_key=False,
)
AddConfigVar(
    "DebugMode.search",
    "Number of seconds for which DebugMode searches for errors of each new kind of node, with other values than those of "
    "the call. Ops of this package are not searched. `theano_ng-nose` sets 0.2 if the mode is DebugMode.",
    FloatParam(0.0, lambda seconds: seconds >= 0),
    in_c_key=False,
)
AddConfigVar("NanGuardMode.nan_is_error", "NanGuardMode raises on NaN.", BoolParam(True), in_c_key=False)
AddConfigVar("NanGuardMode.inf_is_error", "NanGuardMode raises on infinity.", BoolParam(True), in_c_key=False)
AddConfigVar(
    "NanGuardMode.big_is_error", "NanGuardMode raises on absolute values above 1e10.", BoolParam(True), in_c_key=False
)
AddConfigVar(
    "NanGuardMode.action",
    "The action when NanGuardMode finds a value that it reports: raise, warn and continue, or start the debugger.",
    EnumStr("raise", "warn", "pdb"),
    in_c_key=False,
)

AddConfigVar(
    "numpy.seterr_all",
    "NumPy's handling of floating-point errors; 'None' does not change it.",
    EnumStr("ignore", "warn", "raise", "call", "print", "log", "None", allow_override=False),
    in_c_key=False,
)
for _name, _what in (
    ("divide", "division by zero"),
    ("over", "overflow"),
    ("under", "underflow"),
    ("invalid", "invalid operations"),
):
    AddConfigVar(
        "numpy.seterr_" + _name,
        "NumPy's handling of %s; 'None' follows numpy.seterr_all." % _what,
        EnumStr("None", "ignore", "warn", "raise", "call", "print", "log", allow_override=False),
        in_c_key=False,
    )

AddConfigVar(
    "warn.ignore_bug_before",
    "Default of the other flags of this section: True for bugs that were fixed after this version. 'all' makes every "
    "default False, 'None' makes every default True.",
    EnumStr("0.8", "None", "all", *(r for r in _RELEASES if r != "0.8"), allow_override=False),
    in_c_key=False,
)


def split_version(version):
    """Return a version as a tuple of int: ``"0.8.2rc1"`` becomes (0, 8, 2)."""
    import re

    return tuple(int(re.match(r"\d*", part).group() or 0) for part in version.split("."))


def warn_default(version):
    """Return True if warn.ignore_bug_before enables warnings about a bug that `version` fixed.

    This is the case if the flag is "None" or names an earlier version.
    """
    limit = config.warn.ignore_bug_before
    if limit == "None":
        return True
    if limit == "all":
        return False
    return split_version(limit) < split_version(version)


for _name, _version in (
    ("argmax_pushdown_bug", "0.3"),
    ("gpusum_01_011_0111_bug", "0.3"),
    ("sum_sum_bug", "0.3"),
    ("sum_div_dimshuffle_bug", "0.3"),
    ("identify_1pexp_bug", "0.4.1"),
    ("subtensor_merge_bug", "0.5"),
    ("gpu_set_subtensor1", "0.6"),
    ("signal_conv2d_interface", "0.7"),
    ("reduce_join", "0.7"),
    ("inc_set_subtensor1", "0.7"),
    ("round", "0.9"),
    ("inc_subtensor1_opt", "0.10"),
):
    AddConfigVar(
        "warn." + _name,
        "Accepted for old programs; the default follows warn.ignore_bug_before. The bug that version %s fixed never "
        "existed in this package, so there is no warning." % _version,
        BoolParam(lambda version=_version: warn_default(version)),
        in_c_key=False,
    )


AddConfigVar(
    "warn.vm_gc_bug",
    "Accepted for old programs. Only a development version of Theano had the bug.",
    BoolParam(False),
    in_c_key=False,
)


def good_seed_param(seed):
    """Return True for 'random' and for the text of an integer. Raise ValueError for any other text."""
    if seed == "random":
        return True
    int(seed)
    return True


AddConfigVar(
    "unittests.rseed",
    "Seed of the test suite: an integer or 'random'.",
    StrParam("666", good_seed_param),
    in_c_key=False,
)
AddConfigVar(
    "tensor.cmp_sloppy",
    "Tolerance of comparisons in tests: 0 the strictest, 1 and 2 less strict.",
    IntParam(0, lambda i: i in (0, 1, 2)),
    in_c_key=False,
)
AddConfigVar(
    "tensor.insert_inplace_optimizer_validate_nb",
    "The elementwise in-place pass validates the graph once for every group of this many nodes; -1 validates it "
    "after each replacement.",
    IntParam(-1, lambda i: i == -1 or i > 0),
    in_c_key=False,
)
AddConfigVar("tensor.local_elemwise_fusion", "Fuse elementwise operations.", BoolParam(True), in_c_key=False)
AddConfigVar("gpu.local_elemwise_fusion", "Fuse elementwise operations on the GPU.", BoolParam(True), in_c_key=False)

check_unknown_flags()
