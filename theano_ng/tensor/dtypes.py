"""Families of dtype names. `DISCRETE` ones have no derivatives; `INTEGERS` leave bool out, as lengths and positions do."""

INTEGERS = frozenset(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"))
DISCRETE = INTEGERS | {"bool"}
FLOATS = frozenset(("float16", "float32", "float64"))
COMPLEXES = frozenset(("complex64", "complex128"))
CONTINUOUS = FLOATS | COMPLEXES
BLAS_DTYPES = ("float32", "float64", "complex64", "complex128")
