"""The C text behind increments of indexed arrays, for Ops that generate C code of their own."""

import os

__all__ = ["inc_code"]


def inc_code():
    """C code with ``inc_row_for(kind, itemsize)`` and the functions it returns.

    Returns
    -------
    str
        Support code without any Python or NumPy header; ``inc_row_for('f', 4)`` is a function
        ``(n, dst, dst_stride, src, src_stride)`` that adds n numbers, with strides in bytes. For kinds 'b', 'i', 'u', 'f' (of
        2, 4 or 8 bytes) and 'c'; NULL for others.
    """
    with open(
        os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "native", "inc_code.h")
    ) as source:
        return source.read()
