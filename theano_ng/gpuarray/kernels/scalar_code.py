"""Device code of scalar ops: the ops' C code for the host, adapted to devices."""

import re
from typing import NamedTuple

from theano_ng.gof.utils import MethodNotDefined
from theano_ng.gpuarray.fp16_help import work_dtype
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.loops.source import scalar_source
from theano_ng.scalar.divisors import divides
from theano_ng.scalar.op import support_text
from theano_ng.scalar.types import c_type

__all__ = ["PROLOGUE", "ScalarCode", "SupportCodeError", "element_type", "load", "scalar_code", "store"]


class SupportCodeError(Exception):
    """The exception for a scalar op that kernels cannot compute: it has no C code, or its C code uses Python, C++
    headers or complex numbers.
    """


# C functions whose float versions have the suffix f. In OpenCL, one function accepts both types.
_FUNCTIONS = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs fdim floor fma fmax fmin fmod hypot log log10 "
    "log1p log2 lgamma nextafter pow remainder rint round sin sinh sqrt tan tanh tgamma trunc"
).split()
_BUILTINS = "ceil copysign fabs floor fma fmod rint round sqrt trunc".split()


def _mul_add(name, is_fast, function):
    """Return the lines that define a macro for x * y + z. The macro is a fused multiply-add (one rounding) in CUDA. It
    is also a fused multiply-add if the device's compiler defines the macro `is_fast`. Otherwise it multiplies and adds.
    """
    return [
        "#if defined(__CUDACC__) || defined(%s)" % is_fast,
        "#define %s(x, y, z) %s(x, y, z)" % (name, function),
        "#else",
        "#define %s(x, y, z) ((x) * (y) + (z))" % name,
        "#endif",
    ]


def _logarithms():
    """Return the lines that define log and log1p on processors.

    Compilers for processors call functions of a library for each element. These functions have no branches, so that
    loops are vectorized. With x = 2^e * m, sqrt(1/2) <= m < sqrt(2), and s = (m - 1) / (m + 1):
    log(m) = 2 * (s + s^3 / 3 + s^5 / 5 + ...).
    """
    lines = []
    # Type, its integer type, bits of the fraction, the bits of sqrt(1/2) and of the smallest normal number, exponent of
    # the factor that makes denormal numbers normal, number of terms, high and low part of log(2)
    for kind, integer, fraction, half, normal, shift, terms, high, low in (
        ("float", "int", 23, "0x3f3504f3", "0x1p-126f", 24, 5, "0x1.62e4p-1f", "0x1.7f7d1cp-20f"),
        ("double", "long", 52, "0x3fe6a09e667f3bcd", "0x1p-1022", 54, 11, "0x1.62e42fefa38p-1", "0x1.ef35793c7673p-45"),
    ):
        f = "f" if kind == "float" else ""
        series = "(%s)2 / %d" % (kind, 2 * terms - 1)
        for k in range(terms - 2, 0, -1):
            series = "(%s)2 / %d + square * (%s)" % (kind, 2 * k + 1, series)
        lines += [
            "#if defined(GA_PROCESSOR)%s" % ("" if f else " && defined(GA_HAS_DOUBLE)"),
            "static inline {0} tng_fast_log_{0}({0} x)".format(kind),
            "{",
            "    const %s scaled = x < %s ? x * 0x1p%d%s : x;" % (kind, normal, shift, f),
            "    const %s bits = as_%s(scaled), e = (bits - %s) >> %d;" % (integer, integer, half, fraction),
            "    const %s m = as_%s(bits - (e << %d)) - 1, s = m / (m + 2), square = s * s;" % (kind, kind, fraction),
            "    const %s n = (%s)(e - (x < %s ? %d : 0)), part = m * m * (%s)0.5;" % (kind, kind, normal, shift, kind),
            "    const %s result = n * %s - ((part - (s * (part + square * (%s)) + n * %s)) - m);"
            % (kind, high, series, low),
            "    return x > 0 && x < INFINITY ? result : x == 0 ? -INFINITY : x < 0 ? NAN : x;",
            "}",
            # The rounding of 1 + x is corrected.
            "static inline {0} tng_fast_log1p_{0}({0} x)".format(kind),
            "{",
            "    const %s u = 1 + x, logarithm = tng_fast_log_%s(u);" % (kind, kind),
            "    return u == 1 ? x : u < INFINITY && u > 0 ? logarithm * (x / (u - 1)) : logarithm;",
            "}",
            "#endif",
        ]
    return lines


def _prologue():
    lines = [
        "#ifndef TNG_DEVICE_SCALAR",
        "#define TNG_DEVICE_SCALAR",
        "#define THEANO_NG_KERNEL_PROLOGUE_H 1",
        "typedef ga_ubyte npy_bool, npy_ubyte, npy_uint8;",
        "typedef ga_byte npy_byte, npy_int8;",
        "typedef ga_short npy_short, npy_int16;",
        "typedef ga_ushort npy_ushort, npy_uint16, npy_float16;",
        "typedef ga_int npy_int, npy_int32;",
        "typedef ga_uint npy_uint, npy_uint32;",
        "typedef ga_long npy_longlong, npy_int64, npy_intp;",
        "typedef ga_ulong npy_ulonglong, npy_uint64, npy_uintp;",
        "typedef ga_float npy_float, npy_float32;",
        "#define TNG_RESTRICT",
        "#define TNG_INTEGER(x) (x)",
        "#define TNG_LIKELY(x) (x)",
        "#define TNG_UNLIKELY(x) (x)",
        "#ifdef __CUDACC__",
        "typedef ga_double npy_double, npy_float64;",
        "#define TNG_FUNCTION static __device__ inline",
        "#define TNG_HAS_DOUBLE",
        *["#define __builtin_%sf %sf" % (name, name) for name in _BUILTINS],
        "#define __builtin_memcpy memcpy",
        "#define TNG_BITS(x) __int_as_float(x)",
        "#else",
        "#ifdef GA_HAS_DOUBLE",
        "typedef ga_double npy_double, npy_float64;",
        "#define TNG_HAS_DOUBLE",
        "#endif",
        "#define TNG_FUNCTION static inline",
        *_logarithms(),
        *["#define %sf %s" % (name, name) for name in _FUNCTIONS if name not in ("log", "log1p")],
        "#ifdef GA_PROCESSOR",
        *["#define %sf tng_fast_%s_float" % (name, name) for name in ("log", "log1p")],
        "#ifdef GA_HAS_DOUBLE",
        *["#undef %s\n#define %s tng_fast_%s_double" % (name, name, name) for name in ("log", "log1p")],
        "#endif",
        "#else",
        *["#define %sf %s" % (name, name) for name in ("log", "log1p")],
        "#endif",
        *["#define __builtin_%sf %s" % (name, name) for name in _BUILTINS],
        "#define __builtin_memcpy tng_memcpy",
        "#define TNG_BITS(x) as_float(x)",
        "static inline void tng_memcpy(void *to, const void *from, uint n)",
        "{",
        "    for (uint k = 0; k < n; ++k)",
        "        ((uchar *)to)[k] = ((const uchar *)from)[k];",
        "}",
        "#endif",
        *["#define __builtin_%s %s" % (name, name) for name in _BUILTINS],
        *_mul_add("TNG_MUL_ADD", "FP_FAST_FMA", "__builtin_fma"),
        *_mul_add("TNG_MUL_ADDF", "FP_FAST_FMAF", "__builtin_fmaf"),
        "#define __builtin_isnan(x) isnan(x)",
        "#define __builtin_isinf(x) isinf(x)",
        *["#define __builtin_nan%s(text) TNG_BITS(0x7fc00000)" % kind for kind in ("f", "")],
        *["#define __builtin_inf%s() TNG_BITS(0x7f800000)" % kind for kind in ("f", "")],
        "TNG_FUNCTION npy_float32 tng_half_to_float(npy_uint16 bits) { ga_half h; h.data = bits; return ga_half2float(h); }",
        "TNG_FUNCTION npy_uint16 tng_float_to_half(npy_float32 value) { return ga_float2half(value).data; }",
        "TNG_FUNCTION npy_float32 tng_round_to_half(npy_float32 value) { return ga_half2float(ga_float2half(value)); }",
        "#ifdef TNG_HAS_DOUBLE",
        "TNG_FUNCTION npy_uint16 tng_double_to_half(npy_float64 value) { return ga_double2half(value).data; }",
        "#endif",
        # TNG_EACH and TNG_EACH_OF_ROW are loops over the indices below `count` that belong to a thread. `axis` is an
        # axis of the launch.
        "#ifdef GA_PROCESSOR",
        # On CPUs, each thread has a contiguous range of indices, so that the compiler can vectorize the loop. The pragma
        # states that no iteration depends on another: an output that overwrites an input has the same elements. Without
        # the pragma, the compiler would use vectors only if outputs and inputs are apart.
        "#ifdef __clang__",
        '#pragma clang diagnostic ignored "-Wpass-failed"',  # about loops that are too short or too complicated
        '#define TNG_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")',
        "#else",
        "#define TNG_INDEPENDENT",
        "#endif",
        "#define TNG_EACH(i, count, axis) \\",
        "    const ga_size i##_piece = ((count) + (ga_size)GDIM_##axis * LDIM_##axis - 1) / ((ga_size)GDIM_##axis * LDIM_##axis); \\",
        "    const ga_size i##_begin = ((ga_size)GID_##axis * LDIM_##axis + LID_##axis) * i##_piece; \\",
        "    const ga_size i##_end = i##_begin + i##_piece < (count) ? i##_begin + i##_piece : (count); \\",
        "    TNG_INDEPENDENT for (ga_size i = i##_begin; i < i##_end; ++i)",
        "#define TNG_EACH_OF_ROW TNG_EACH",
        "#else",
        # On GPUs, adjacent threads access adjacent elements, so that the device coalesces the accesses. TNG_EACH counts
        # in 32 bits, in blocks of 2^31 indices: kernels for contiguous arrays then need fewer registers. Kernels for
        # strided arrays need more, because they multiply the index in 64 bits. They use TNG_EACH_OF_ROW.
        "#define TNG_EACH(i, count, axis) \\",
        "    const ga_uint i##_first = (ga_uint)GID_##axis * LDIM_##axis + LID_##axis, i##_step = (ga_uint)GDIM_##axis * LDIM_##axis; \\",
        "    for (ga_size i##_block = 0; i##_block < (count); i##_block += 0x80000000u) \\",
        "        for (ga_uint i##_at = i##_first, i##_end = (count) - i##_block < 0x80000000u ? (ga_uint)((count) - i##_block) : 0x80000000u; \\",
        "             i##_at < i##_end; i##_at += i##_step) \\",
        "            for (ga_size i = i##_block + i##_at, i##_once = 1; i##_once; i##_once = 0)",
        "#define TNG_EACH_OF_ROW(i, count, axis) \\",
        "    for (ga_size i = (ga_size)GID_##axis * LDIM_##axis + LID_##axis; i < (count); i += (ga_size)GDIM_##axis * LDIM_##axis)",
        "#endif",
        "#endif",
    ]
    return "\n".join(lines) + "\n"


PROLOGUE = _prologue()

# Name of a header for the host -> text that replaces it in kernels. The headers define functions that are faster than
# the C library of the host. Kernels use the functions of the device.
_OF_DEVICES = {
    "half.h": "",
    "hyperbolic.h": (
        "#ifndef TNG_SCALAR_HYPERBOLIC_H\n#define TNG_SCALAR_HYPERBOLIC_H\n#define tng_tanh_float64 tanh\n#define tng_tanh_float32 tanhf\n"
        "#define tng_acosh_float32 acoshf\n#endif\n"
    ),
    "power.h": (
        "#ifndef TNG_SCALAR_POWER_H\n#define TNG_SCALAR_POWER_H\n#define tng_pow_float64 pow\n#define tng_pow_float32 powf\n#endif\n"
    ),
}
_PYTHON = re.compile(r"\bPy(?:_\w+|[A-Z]\w*)\b|\bnpy_half_to|\bprintf\b")
_MATH_HEADERS = {"<math.h>", "<cmath>", "math.h", "cmath", "<stdint.h>", "<stdlib.h>"}


class ScalarCode(NamedTuple):
    """The code of a scalar op in a kernel.

    Attributes
    ----------
    body : str
        C code that computes the output variables from the input variables. float16 variables have the type npy_float32
        unless `bits` is true.
    support : tuple of str
        Source code that precedes the kernels. `device_kernel.program` writes equal texts only once.
    bits : bool
        Whether float16 variables have a 16-bit type.
    doubles : bool
        Whether the code computes with doubles even if no operand is a double.
    """

    body: str
    support: tuple
    bits: bool
    doubles: bool


def element_type(dtype):
    """Return the name of the element type of arrays in kernels."""
    return pygpu.dtype_to_ctype(dtype)


def work_type(dtype, bits=False):
    """Return the C type of a variable that holds a value of this dtype."""
    return c_type(dtype if bits else work_dtype(dtype))


def load(dtype, element, bits=False):
    """Return an expression that loads the element `element` as a value."""
    if dtype != "float16":
        return element
    return "%s.data" % element if bits else "ga_half2float(%s)" % element


def store(dtype, element, value, bits=False):
    """Return the statement that stores a value."""
    if dtype != "float16":
        return "%s = %s;" % (element, value)
    return "%s.data = %s;" % (element, value) if bits else "%s = ga_float2half(%s);" % (element, value)


def scalar_code(op, node, names_in, names_out):
    """Return the device code of a scalar op.

    Parameters
    ----------
    op : ScalarOp
    node : Apply
        An application of `op` to scalar variables.
    names_in, names_out : list of str
        C names of the operands.

    Returns
    -------
    ScalarCode

    Raises
    ------
    SupportCodeError
        If devices cannot compute the op.
    """
    dtypes = [v.type.dtype for v in (*node.inputs, *node.outputs)]
    for dtype in dtypes:
        if dtype.startswith("complex"):
            raise SupportCodeError("%s of %s: kernels do not compute with complex numbers" % (op, dtype))
    halves, bits = "float16" in dtypes, False
    # With ``zeros=None``, the C code does not check for zero divisors. On devices, ``x // 0`` is then 0, as in NumPy.
    sub = {"zeros": None} if divides(op) else {}
    try:
        try:
            body, environment, needs_python = scalar_source(op, node, names_in, names_out, wide=halves, **sub)
        except (MethodNotDefined, AttributeError):  # a user's op might not define c_code_wide
            if not halves:
                raise
            bits = True
            body, environment, needs_python = scalar_source(op, node, names_in, names_out, **sub)
    except (MethodNotDefined, NotImplementedError, AttributeError) as error:
        raise SupportCodeError("%s has no C code for %s: %s" % (op, ", ".join(dtypes), error)) from error
    others = [h for h in environment["headers"] if h not in _MATH_HEADERS]
    support = tuple(dict.fromkeys(_for_devices(text) for text in _support_texts(op, node)))
    texts = [body, *support]
    if needs_python or others or environment["libraries"] or any(map(_PYTHON.search, texts)):
        raise SupportCodeError("%s needs features that kernels do not have: Python, or the headers %s" % (op, others))
    if any("theano_complex" in text or "#include" in text for text in texts):
        raise SupportCodeError("%s has support code for the host, which kernels cannot use" % (op,))
    body = _rename(body)
    return ScalarCode(body, support, bits, any("float64" in text or "double" in text for text in texts))


def _support_texts(op, node):
    """Yield the support code of an op. For a Composite, yield the support code of each inner op separately: other ops
    of the program may need the same text, and equal texts are written only once.
    """
    program = getattr(op, "_program", None)
    if program is not None:
        for inner in op._ensure_graph()[2]:
            yield from _support_texts(inner.op, inner)
        return
    for method, arguments in ((op.c_support_code, ()), (op.c_support_code_apply, (node, "n"))):
        try:
            text = method(*arguments)
        except MethodNotDefined:
            continue
        text = "\n".join(text) if isinstance(text, (list, tuple)) else text
        if text:
            yield text


def _for_devices(text):
    for name, ours in _OF_DEVICES.items():
        text = text.replace(support_text(name), ours)
    return _rename(text)


def _rename(text):
    """Rename the identifier `half`, which is a type in OpenCL. Turn inline functions into device functions of CUDA."""
    return re.sub(r"\bstatic inline\b|\bTNG_INLINE\b", "TNG_FUNCTION", re.sub(r"\bhalf\b", "tng_half", text))
