"""Families of dtype names.

Variables of `DISCRETE` dtypes have no derivatives. `INTEGERS` are the dtypes of lengths and indices, without bool.
"""

INTEGERS = frozenset(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"))
DISCRETE = INTEGERS | {"bool"}
FLOATS = frozenset(("float16", "float32", "float64"))
COMPLEXES = frozenset(("complex64", "complex128"))
CONTINUOUS = FLOATS | COMPLEXES
BLAS_DTYPES = ("float32", "float64", "complex64", "complex128")
