"""Rough readings of C code: text without comments and strings, and code that only handles a failed allocation."""

import re

_COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def blanked(text):
    """Return C code in which comments and strings are replaced by blanks. Newlines are kept."""
    return _COMMENT_OR_TEXT.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


# A comparison of a pointer with NULL, and the negation of a variable, which may be a pointer.
_IS_NULL = re.compile(r"==\s*(NULL|nullptr)\b|\b(NULL|nullptr)\s*==")
_NEGATED = re.compile(r"!\s*\(?\s*\*?([A-Za-z_]\w*)\s*(?=\)|\|\||&&)")
_ALLOCATES = re.compile(r"\bnew\b|(alloc|new|empty|zeros|copy|from|contiguous)\w*\s*\(", re.IGNORECASE)

# The reaction to a failed allocation: the code sets a MemoryError, releases other memory, and returns.
_NO_MEMORY = re.compile(r"\bPyErr_NoMemory\b|\bPyExc_MemoryError\b|\bbad_alloc\b")
_REACTION = re.compile(
    r"""(else\b\s*)?
    (if\s*\(.*?\b(NULL|nullptr)\s*\)\s*)?
    (
      | PyErr_NoMemory\s*\(\s*\)
      | PyErr_\w+\s*\(\s*PyExc_MemoryError\b.*
      | catch\s*\(.*\)
      | [\w.>-]*(free|release|destroy|clear|close|decref)\w*\s*\(.*\)
      | delete\b.*
      | [\w.>*()\s-]+=\s*(NULL|nullptr)
      | __failure\s*=\s*\d+
      | return(\s+\(?(NULL|nullptr|false|-?\d+)\)?)?
      | goto\s+\w+
      | FAIL
    )\s*""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)


def handles_failed_allocation(lines, guard, first, last):
    """Return True if lines of C code only release memory, set an exception and leave after a failed allocation.

    Parameters
    ----------
    lines : list of str
        The whole C code.
    guard : int
        The number (from 1) of the last line before the condition on which the lines depend, or of its line.
    first, last : int
        The numbers of the first and of the last of these lines. `guard` may be equal to `first`.

    Returns
    -------
    bool
    """
    code = blanked("\n".join(lines[:last])).split("\n")
    condition = "\n".join(code[max(guard - 1, 0) : max(first - 1, guard)])
    block = "\n".join(line for line in code[first - 1 :] if not line.lstrip().startswith("#"))
    if not all(_REACTION.fullmatch(part.strip()) for part in re.split("[;{}]", block)):
        return False
    return bool(
        _NO_MEMORY.search(block)
        or _IS_NULL.search(condition)
        or any(_is_allocated(code[: guard - 1], name) for name in _NEGATED.findall(condition))
    )


def _is_allocated(code, name):
    """Return True if the last assignment to a variable calls a function that allocates memory."""
    values = re.findall(r"\b%s\s*=(?!=)([^;]*)" % re.escape(name), "\n".join(code))
    return bool(values) and _ALLOCATES.search(values[-1]) is not None
