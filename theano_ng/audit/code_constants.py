"""The numbers and texts that occur in the code of an Op.

An Op often behaves differently on both sides of a number in its code: the length of a block, a threshold, the end of a
series. The audit therefore generates lengths and values near these numbers.
"""

import re
import types
from dataclasses import dataclass

import numpy as np

from theano_ng.audit.c_source import blanked
from theano_ng.gof.op import PureOp
from theano_ng.gof.provenance import is_from_package
from theano_ng.gof.utils import MethodNotDefined

# The methods whose constants count: they compute values, or graphs whose values are compared with other values.
_METHODS = ("perform", "impl", "infer_shape", "grad", "L_op", "R_op", "gradient", "make_node", "__init__")

_C_TEXTS = (
    "c_support_code",
    "c_support_code_apply",
    "c_support_code_struct",
    "c_init_code_struct",
    "c_code_cleanup",
    "c_headers",
    "c_libraries",
    "c_compile_args",
    "c_no_compile_args",
    "c_header_dirs",
    "c_lib_dirs",
    "c_init_code",
)

#: A module with more numbers is a table of coefficients. Only the first of its numbers count.
MOST_NUMBERS = 60


@dataclass(frozen=True)
class CodeConstants:
    """The constants in the code of an Op.

    Attributes
    ----------
    numbers : tuple of float or int
        The numbers in the Python code and in the C code, without duplicates, in the order of their occurrence.
    texts : tuple of str
        The strings in the Python code that are single words.
    """

    numbers: tuple = ()
    texts: tuple = ()

    def lengths(self, least=4, most=1 << 13):
        """Return the integers from `least` to `most`, in ascending order. They may be lengths of blocks."""
        return sorted({int(n) for n in self.numbers if n == int(n) and least <= n <= most})


def constants_of(node):
    """Return the `CodeConstants` of the Op of a node.

    Parameters
    ----------
    node : Apply

    Returns
    -------
    CodeConstants
    """
    numbers, texts = {}, {}
    for op in _with_scalar_ops(node.op):
        for value in _python_constants(op):
            if isinstance(value, str):
                if re.fullmatch(r"[A-Za-z_]\w{0,30}", value):
                    texts[value] = None
            else:
                numbers.setdefault(abs(value))
    text = c_text_or_none(node)
    if text is not None:
        for value in _c_numbers(text):
            numbers.setdefault(value)
    return CodeConstants(tuple(numbers)[:MOST_NUMBERS], tuple(texts))


def _with_scalar_ops(op):
    """Return an Op and the scalar Ops that it applies."""
    found = [op]
    for name in ("scalar_op", "fct", "fn"):
        inner = getattr(op, name, None)
        if isinstance(inner, PureOp):
            found.append(inner)
    return found


# ---------------------------------------------------------------- Python


def _python_constants(op):
    """Yield the finite numbers and the strings in the methods of an Op, and in the functions that the methods use."""
    for function in functions_used_by(_methods(op)):
        for code in nested_codes(function.__code__):
            yield from plain_values(code.co_consts)
            for name in code.co_names:
                value = function.__globals__.get(name)
                if not isinstance(value, types.FunctionType):
                    yield from plain_values((value,))
        yield from plain_values(function.__defaults__ or ())


def _methods(op):
    """Return the methods in `_METHODS` of an Op."""
    found = []
    for cls in type(op).__mro__:
        if cls is object or cls.__module__ in ("theano_ng.gof.op", "theano_ng.scalar.op"):
            continue
        for name in _METHODS:
            function = vars(cls).get(name)
            function = getattr(function, "__func__", function)
            if isinstance(function, types.FunctionType):
                found.append(function)
    return found


def functions_used_by(functions):
    """Yield functions, and the functions of the same author that they use, without repetition."""
    todo, seen = list(functions), set()
    while todo:
        function = todo.pop(0)
        if function.__code__ in seen:
            continue
        seen.add(function.__code__)
        yield function
        for code in nested_codes(function.__code__):
            for name in code.co_names:
                value = function.__globals__.get(name)
                if isinstance(value, types.FunctionType) and _same_author(function, value):
                    todo.append(value)


def _same_author(function, other):
    """Return True if two functions are in one module, or in one package other than this package."""
    one, two = function.__module__ or "", other.__module__ or ""
    return one == two or (not is_from_package(function) and one.split(".")[0] == two.split(".")[0])


def nested_codes(code):
    """Return a code object and the code objects that it contains."""
    found = [code]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found += nested_codes(constant)
    return found


def plain_values(values):
    """Yield the finite real numbers and the strings among values, also in tuples. Bools are left out."""
    for value in values:
        if isinstance(value, (tuple, frozenset)):
            yield from plain_values(sorted(value, key=repr) if isinstance(value, frozenset) else value)
        elif isinstance(value, str) or (
            isinstance(value, (int, float, np.integer, np.floating))
            and not isinstance(value, bool)
            and abs(value) < 1e300
        ):
            yield value


# ---------------------------------------------------------------- C

_NUMBER = re.compile(r"(?<![\w.])(0[xX][0-9a-fA-F]+|\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)[fFlLuU]*(?!\w)")


def _c_numbers(text):
    """Yield the numbers in C code outside of comments and strings."""
    for match in _NUMBER.finditer(blanked(text)):
        digits = match.group(1)
        try:
            value = int(digits, 16) if digits[:2] in ("0x", "0X") else float(digits)
        except ValueError:  # for example the suffix of another kind of number
            continue
        if value < 1e300:
            yield int(value) if value == int(value) else value


def c_text_or_none(node):
    """Return the C code as `c_text` does, or None if a method raises, which `check_cache_version` reports."""
    try:
        return c_text(node)
    except Exception:
        return None


def c_text(node):
    """Return all C code of an Op for a node as one text, or None if it has no C code."""
    op = node.op
    inputs = ["in_%d" % i for i in range(len(node.inputs))]
    outputs = ["out_%d" % i for i in range(len(node.outputs))]
    sub = {"fail": "{goto fail;}", "params": "params", "context": "context", "struct_id": "0", "id": "0"}
    try:
        parts = [str(op.c_code(node, "NODE", inputs, outputs, sub))]
    except (MethodNotDefined, NotImplementedError, AttributeError):
        return None
    for name in _C_TEXTS:
        method = getattr(op, name, None)
        if method is None:
            continue
        arguments = {
            "c_support_code_apply": (node, "NODE"),
            "c_support_code_struct": (node, "NODE"),
            "c_init_code_struct": (node, "NODE", sub),
            "c_code_cleanup": (node, "NODE", inputs, outputs, sub),
        }.get(name, ())
        try:
            parts.append("%s: %s" % (name, method(*arguments)))
        except (MethodNotDefined, NotImplementedError, TypeError):
            continue  # the method is not defined, or takes the compiler as an argument
    return "\n".join(parts)
