"""C source for increments of indexed arrays, for Ops that generate C code."""

import os

__all__ = ["inc_code"]


def inc_code():
    """Return C code that defines ``inc_row_for(kind, itemsize)`` and the functions that it returns.

    Returns
    -------
    str
        Support code without Python or NumPy headers. ``inc_row_for('f', 4)`` returns a function ``(n, dst, dst_stride,
        src, src_stride)`` that adds n numbers, with strides in bytes. The kinds are 'b', 'i', 'u', 'f' (of 2, 4 or 8
        bytes) and 'c'. For other arguments, ``inc_row_for`` returns NULL.
    """
    with open(
        os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "native", "common", "inc_code.h")
    ) as source:
        return source.read()
