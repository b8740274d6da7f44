"""The C code of scalar ops in kernels, with the support code, headers and flags that it needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from theano_ng.gof.graph import Apply
from theano_ng.gof.native import reads_raw_float16
from theano_ng.gof.utils import MethodNotDefined
from theano_ng.scalar.op import is_complex
from theano_ng.scalar.types import get_scalar_type

# C code that matches this pattern uses Python's C API. Kernels include no Python headers, so they cannot use such code.
_PYTHON_API = r"\bPy(?:_\w+|[A-Z]\w*)\b"
FAIL = "return; /* the driver sees the exception */"


class ScalarSource(NamedTuple):
    """The C code of one evaluation of a scalar op.

    Attributes
    ----------
    body : str
    environment : dict
        Keyword arguments for `Kernel`: language, headers, support, compile_args, libraries.
    needs_python : bool
        Whether the code uses Python's C API.
    """

    body: str
    environment: dict[str, Any]
    needs_python: bool


def scalar_apply(op: Any, in_dtypes: Iterable[str], out_dtypes: Iterable[str]) -> Apply:
    """Return an Apply of a scalar op to new variables of these dtypes."""
    return Apply(
        op,
        [get_scalar_type(dtype).make_variable() for dtype in in_dtypes],
        [get_scalar_type(dtype).make_variable() for dtype in out_dtypes],
    )


def scalar_source(
    op: Any, node: Apply, names_in: list[str], names_out: list[str], name: str = "n", wide: bool = False, **sub: Any
) -> ScalarSource:
    """Return the `ScalarSource` of a scalar op.

    Parameters
    ----------
    op : ScalarOp
    node : Apply
        An application of `op`, see `scalar_apply`.
    names_in, names_out : list of str
        C expressions for the inputs, and C lvalues for the outputs.
    name : str
        A name that makes the identifiers in the code unique.
    wide : bool
        Whether float16 operands are npy_float32 variables in the code.
    **sub
        Further items for the dict `sub` of `c_code`.

    Raises
    ------
    MethodNotDefined or NotImplementedError
        If the op has no C code for these dtypes.
    """
    if not wide and reads_raw_float16(node):
        raise MethodNotDefined("c_code", type(op), "%s for float16: _f16_ok is not set" % (op,))
    body = (op.c_code_wide if wide else op.c_code)(node, name, names_in, names_out, dict(fail=FAIL, **sub))
    texts = [_text(_optional(op.c_support_code)), _text(_optional(op.c_support_code_apply, node, name))]
    support = "\n".join(text for text in texts if text)
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
    needs_python = FAIL in body or any("Py" in code and re.search(_PYTHON_API, code) for code in (body, support))
    # Kernels are compiled without the include paths of Python and NumPy, so they cannot use code with these headers.
    needs_python = needs_python or any("numpy/" in h or "Python.h" in h for h in headers)
    return ScalarSource(body, environment, needs_python)


def joined_environment(environment: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return the `ScalarSource.environment` of code that consists of two pieces with the given environments."""
    joined: dict[str, Any] = {"language": "c" if environment["language"] == other["language"] == "c" else "c++"}
    joined["support"] = environment["support"]
    if other["support"] not in joined["support"]:
        joined["support"] += other["support"] + "\n"
    for key in ("headers", "compile_args", "libraries"):
        joined[key] = tuple(dict.fromkeys((*environment[key], *other[key])))
    return joined


def _optional(method: Callable[..., Any], *args: Any) -> Any:
    try:
        return method(*args)
    except MethodNotDefined:
        return None


def _text(code: str | list[str] | tuple[str, ...] | None) -> str:
    return "\n".join(code) if isinstance(code, (list, tuple)) else code or ""
