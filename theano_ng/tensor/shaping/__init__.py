"""Making tensors and giving them other shapes.

==============  ======================================================================
`creation`      `zeros`, `arange`, `eye`, diagonals, vectors of scalars ...
`allocation`    arrays of a given shape, filled with a value or not at all
`reshaping`     reshape and flatten, new and swapped dimensions, broadcast patterns
`joining`       join, split, stack, tile, roll
==============  ======================================================================
"""

from theano_ng.lazy import lazy_names

# Pickles of Ops name the module `shaping` that was one file.
__getattr__, __dir__, __all__ = lazy_names(
    __name__, {"theano_ng.tensor.shaping.reshaping": "Flatten Reshape ScalarFromTensor TensorFromScalar"}
)
