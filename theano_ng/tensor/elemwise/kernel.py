"""Inner loops of `Elemwise`: kernels from the C code of scalar ops, and tables of operands for native/elemwise.c."""

import functools
import re

import numpy as np

from theano_ng.gof.graph import Apply
from theano_ng.gof.native import Kernel, reads_raw_float16
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.scalar import get_scalar_type
from theano_ng.scalar.divisors import divides
from theano_ng.scalar.op import is_complex, support_text
from theano_ng.scalar.types import c_type, discrete_dtypes
from theano_ng.tensor.elemwise.divisors import OPERATIONS
from theano_ng.tensor.elemwise.interpreter import interpreted

# The classes of operands, as in native/elemwise_params.h. A kernel reads a VARYING operand at each element, and a
# HOISTED one once. For a MAYBE_BROADCAST operand the stride decides at run time.
VARYING, HOISTED, MAYBE_BROADCAST = 0, 1, 2

# C code that matches this pattern uses Python's C API. Kernels include no Python headers, so they cannot contain it.
_PYTHON_API = r"\bPy(?:_\w+|[A-Z]\w*)\b"
_FAIL = "return; /* the driver sees the exception */"

_LOCAL = "tng_v%d"
_POINTER = "tng_p%d"
_HOISTED = "tng_h%d"
_ZEROS = "tng_zeros_%s"


def scalar_node(op, node):
    """Return the application of `op`, a ScalarOp, to scalar variables with the dtypes of `node`."""
    return Apply(
        op,
        [get_scalar_type(v.type.dtype).make_variable() for v in node.inputs],
        [get_scalar_type(v.type.dtype).make_variable() for v in node.outputs],
    )


def scalar_c_parts(op, node, names_in, names_out, name="n", wide=False, **sub):
    """Return the C code of one evaluation of a scalar op, with the support code, headers and flags that it needs.

    Parameters
    ----------
    op : ScalarOp
    node : Apply
        An application of `op`, see `scalar_node`.
    names_in, names_out : list of str
        C expressions of the inputs, C lvalues of the outputs.
    name : str
        A name that makes the identifiers in the code unique.
    wide : bool
        Whether float16 operands are npy_float32 variables in the code.
    **sub
        Further items for the dict that `c_code` gets.

    Returns
    -------
    body : str
    environment : dict
        Keyword arguments for `Kernel`: language, headers, support, compile_args, libraries.
    needs_python : bool
        Whether the code uses Python's C API.

    Raises
    ------
    MethodNotDefined or NotImplementedError
        If the op has no C code for these dtypes.
    """
    if not wide and reads_raw_float16(node):
        raise MethodNotDefined("c_code", type(op), "%s for float16: _f16_ok is not set" % (op,))
    body = (op.c_code_wide if wide else op.c_code)(node, name, names_in, names_out, dict(fail=_FAIL, **sub))
    support = [_text(_optional(op.c_support_code)), _text(_optional(op.c_support_code_apply, node, name))]
    support = "\n".join(text for text in support if text)
    headers = [h for h in _optional(op.c_headers) or () if h]
    compile_args = [*(_optional(op.c_compile_args) or ())]
    compile_args += ["-I" + d for d in _optional(op.c_header_dirs) or ()]
    compile_args += ["-L" + d for d in _optional(op.c_lib_dirs) or ()]
    libraries = [*(_optional(op.c_libraries) or ())]
    plain_c = not headers and (not support or getattr(op, "c_support_is_c", False))
    if plain_c and not getattr(op, "c_code_is_own", False):
        dtypes = [v.type.dtype for v in (*node.inputs, *node.outputs)]
        plain_c = "theano_complex" not in body and not any(map(is_complex, dtypes))
    environment = dict(
        language="c" if plain_c else "c++",
        headers=tuple(h if h[0] in '<"' else "<%s>" % h for h in headers),
        support=support,
        compile_args=tuple(compile_args),
        libraries=tuple(libraries),
    )
    needs_python = _FAIL in body or any("Py" in code and re.search(_PYTHON_API, code) for code in (body, support))
    # Kernels are compiled without the include paths of Python and NumPy.
    needs_python = needs_python or any("numpy/" in h or "Python.h" in h for h in headers)
    return body, environment, needs_python


def _optional(method, *args):
    try:
        return method(*args)
    except MethodNotDefined:
        return None


def _text(code):
    return "\n".join(code) if isinstance(code, (list, tuple)) else code or ""


def operand_classes(node):
    """Return the class of each input of an Elemwise node, see native/elemwise.c."""
    pattern = node.outputs[0].type.broadcastable
    loops = [d for d, b in enumerate(pattern) if not b]
    classes = []
    for variable in node.inputs:
        broadcast = variable.type.broadcastable
        if not loops:
            classes.append(VARYING)
        elif all(broadcast):
            classes.append(HOISTED)
        else:
            classes.append(MAYBE_BROADCAST if broadcast[loops[-1]] else VARYING)
    return classes


def elemwise_kernel(op, node, classes, divisors, summed=None, check_divisors_first=False):
    """Return ``(Kernel, needs_python)`` for the Elemwise node `node` over the scalar op `op`.

    Parameters
    ----------
    op : ScalarOp
    node : Apply
    classes : list of int
        From `operand_classes`.
    divisors : Divisors
        From `integer_divisors`.
    summed : str, optional
        A dtype. If given, the kernel does not store its output, but adds the sum of its elements to an accumulator of
        this dtype. The pointer of the output is the address of the accumulator; see native/reduce_elemwise.h.
    check_divisors_first : bool
        If True, the driver can ask the kernel to check the divisors before it writes an output, and to return if one is
        zero; see native/divisors.h.
    """
    nin = len(node.inputs)
    operands = [*node.inputs, *node.outputs]
    ctypes = [get_scalar_type(v.type.dtype).dtype_specs()[1] for v in operands]
    local = [_LOCAL % k for k in range(len(operands))]
    small = scalar_node(op, node)
    sub = {"zeros": _ZEROS if divisors else None} if divides(op) else {}
    # The float16 operands that are converted block by block.
    wide = (
        set()
        if getattr(op, "on_half_bits", False)
        else {k for k, v in enumerate(operands) if v.type.dtype == "float16"}
    )
    try:
        body, environment, needs_python = scalar_c_parts(op, small, local[:nin], local[nin:], wide=bool(wide), **sub)
    except (MethodNotDefined, AttributeError):  # an op of a user may lack c_code_wide
        if not wide:
            raise
        wide = set()
        body, environment, needs_python = scalar_c_parts(op, small, local[:nin], local[nin:], **sub)
    if wide:
        environment["support"] = support_text("half_blocks.h") + environment["support"]
    if check_divisors_first:
        looked_body = scalar_c_parts(op, small, local[:nin], local[nin:], wide=bool(wide), zeros=None)[0]
        environment["support"] = support_text("zero_in.h") + environment["support"]
    classes = [*classes, *[VARYING] * len(node.outputs)]
    accumulator = None
    if summed is not None:
        # In C, overflow of signed integers is undefined. The sum of unsigned integers is defined and has the same bits.
        accumulator = get_scalar_type(
            summed.replace("int", "uint") if summed.startswith("int") else summed
        ).dtype_specs()[1]
        environment["support"] = support_text("sum_blocks.h") + environment["support"]
        ctypes[nin] = accumulator

    def loop(hoisted, indent, body=body, sub=sub):
        fixed = {k: _HOISTED % k for k in hoisted}
        before, inner = op.c_code_fixed(small, "n", local[:nin], local[nin:], dict(fail=_FAIL, **sub), fixed) or (
            "",
            body,
        )
        return [*[indent + before] * bool(before), *_loop(inner, ctypes, nin, hoisted, wide, indent)]

    def loops(hoisted, indent):
        if not check_divisors_first:
            return loop(hoisted, indent)
        return [
            indent + "if (*(int *)tng_ptr[%d]) {" % len(ctypes),
            *[
                _divisor_check(k, node.inputs[k].type.dtype, k in hoisted, len(ctypes), indent + "    ")
                for k in divisors.inputs
            ],
            *loop(hoisted, indent + "    ", looked_body, {"zeros": None}),
            indent + "} else {",
            *loop(hoisted, indent + "    "),
            indent + "}",
        ]

    lines = [
        "void KERNEL(int64_t %s, char **tng_ptr, const int64_t *tng_stride)" % ("tng_total" if summed else "tng_n"),
        "{",
    ]
    for k, ctype in enumerate(ctypes):
        const = "const " if k < nin else ""
        name = "tng_acc" if summed and k == nin else _POINTER % k
        lines.append("    %s%s *%s = (%s%s *)tng_ptr[%d];" % (const, ctype, name, const, ctype, k))
    # The flags have the dtype of the divisors, so that SIMD vectors of both have the same number of elements.
    zeros = [dtype for dtype in discrete_dtypes if _ZEROS % dtype in body]
    for dtype in zeros:
        lines.append("    %s %s = 0;" % (c_type(dtype), _ZEROS % dtype))
    # Copy the value: an output may share the memory of the operand, and the compiler would read that memory again.
    for k, kind in enumerate(classes):
        if kind == HOISTED:
            lines.append("    " + _hoist(k, ctypes, wide))
    alternates = [k for k, kind in enumerate(classes) if kind == MAYBE_BROADCAST]
    hoisted = {k for k, kind in enumerate(classes) if kind == HOISTED}
    if summed:
        lines.append("    TNG_SUM_BEGIN(%s, %s)" % (accumulator, _POINTER % nin))
    if alternates:
        lines.append("    if (tng_stride[%d] == 0) {" % alternates[0])
        for k in alternates:
            lines.append("        " + _hoist(k, ctypes, wide))
        lines += loops(hoisted | set(alternates), " " * 8)
        lines.append("    } else {")
    lines += loops(hoisted, " " * 4)
    if alternates:
        lines.append("    }")
    else:
        lines.append("    (void)tng_stride;")
    if summed:
        for k in range(nin):
            if classes[k] == VARYING:
                lines.append("    %s += tng_n;" % (_POINTER % k))
            elif classes[k] == MAYBE_BROADCAST:
                lines.append("    %s += tng_stride[%d] ? tng_n : 0;" % (_POINTER % k, k))
        lines.append("    TNG_SUM_END(%s, %s, tng_acc)" % (accumulator, _POINTER % nin))
    for dtype in zeros:
        lines.append("    if (%s) *(int *)tng_ptr[%d] = 1;" % (_ZEROS % dtype, len(ctypes)))
    lines.append("}")
    dtypes = [tuple([v.type.dtype for v in variables]) for variables in (node.inputs, node.outputs)]
    looked_at = tuple(divisors.inputs) if check_divisors_first else ()
    without_compiler = functools.partial(interpreted, op, *dtypes, tuple(classes[:nin]), looked_at, summed)
    return Kernel(source="\n".join(lines) + "\n", interpreted=without_compiler, **environment), needs_python


def _divisor_check(k, dtype, hoisted, place, indent):
    """Return C code that checks the divisor `k`: if it has a zero, the kernel records that and returns."""
    bits = 8 * np.dtype(dtype).itemsize
    if hoisted:
        # The empty asm hides the test from the compiler: gcc 12 makes slower code if it knows that no divisor is 0.
        found = 'int tng_zero = %s == 0; __asm__("" : "+r"(tng_zero));' % (_HOISTED % k)
    else:
        found = "int tng_zero = tng_zero_in_uint%d_t((const uint%d_t *)%s, tng_n);" % (bits, bits, _POINTER % k)
    return "%s{ %s *(int *)tng_ptr[%d] = tng_zero; if (tng_zero) return; }" % (indent, found, place)


def _hoist(k, ctypes, wide):
    """Return the C declaration of the value of an operand that is read once."""
    if k in wide:
        return "const npy_float32 %s = tng_half_to_float(*%s);" % (_HOISTED % k, _POINTER % k)
    return "const %s %s = *%s;" % (ctypes[k], _HOISTED % k, _POINTER % k)


def _loop(body, ctypes, nin, hoisted, wide, indent):
    """Return the lines of one C loop.

    Operands in `hoisted` are single values, the others are contiguous arrays. Operands in `wide` are converted through
    blocks of float32.

    The iterations are independent (ivdep) even if an output overwrites an input: each iteration reads and writes the
    same element, or the driver has made a copy.
    """
    before, after, count, at = [], [], "tng_n", "tng_i"
    if wide:
        count, at = "tng_m", "tng_at + tng_i"
        before = [
            indent + "for (int64_t tng_at = 0; tng_at < tng_n; tng_at += TNG_HALF_BLOCK) {",
            indent + "const int64_t tng_m = tng_n - tng_at < TNG_HALF_BLOCK ? tng_n - tng_at : TNG_HALF_BLOCK;",
        ]
        after = [indent + "}"]
    for k in sorted(wide - hoisted):
        before.append(indent + "npy_float32 tng_w%d[TNG_HALF_BLOCK];" % k)
        if k < nin:
            before.append(indent + "tng_widen(tng_m, %s + tng_at, tng_w%d);" % (_POINTER % k, k))
        else:
            after.insert(0, indent + "tng_narrow(tng_m, tng_w%d, %s + tng_at);" % (k, _POINTER % k))
    lines = [*before, "#pragma GCC ivdep", indent + "for (int64_t tng_i = 0; tng_i < %s; ++tng_i) {" % count]
    inner = indent + "    "
    for k, ctype in enumerate(ctypes):
        ctype = "npy_float32" if k in wide else ctype
        if k >= nin:
            lines.append("%s%s %s;" % (inner, ctype, _LOCAL % k))
        elif k in hoisted:
            lines.append("%sconst %s %s = %s;" % (inner, ctype, _LOCAL % k, _HOISTED % k))
        elif k in wide:
            lines.append("%sconst %s %s = tng_w%d[tng_i];" % (inner, ctype, _LOCAL % k, k))
        else:
            lines.append("%sconst %s %s = %s[%s];" % (inner, ctype, _LOCAL % k, _POINTER % k, at))
    lines.append("%s{" % inner)
    lines.append(body)
    lines.append("%s}" % inner)
    for k in range(nin, len(ctypes)):
        lines.append(
            "%s%s = %s;" % (inner, "tng_w%d[tng_i]" % k if k in wide else "%s[%s]" % (_POINTER % k, at), _LOCAL % k)
        )
    return [*lines, indent + "}", *after]


def operand_rows(node, classes, inplace_pattern, divisors):
    """Return the rows of native/elemwise.c's table of operands: the inputs, of these classes, then the outputs."""
    rows = []
    for i, (variable, kind) in enumerate(zip(node.inputs, classes)):
        mask = sum(1 << d for d, b in enumerate(variable.type.broadcastable) if b)
        rows.append(
            dict(
                broadcastable=mask,
                type_number=variable.type.numpy_dtype.num,
                kind=kind,
                overwrites=-1,
                divides=OPERATIONS[divisors.inputs.get(i)],
            )
        )
    for j, variable in enumerate(node.outputs):
        rows.append(
            dict(
                broadcastable=0,
                type_number=variable.type.numpy_dtype.num,
                kind=VARYING,
                overwrites=inplace_pattern.get(j, -1),
                divides=0,
            )
        )
    return rows
