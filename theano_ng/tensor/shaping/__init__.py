"""Creation of tensors, and changes of their shapes.

==============  ======================================================================
`creation`      `zeros`, `arange`, `eye`, `tri`, vectors of scalars ...
`diagonals`     Ops that extract diagonals, and that make tensors from diagonals
`allocation`    arrays of a given shape, filled with a value or uninitialized
`reshaping`     reshape and flatten, new and swapped dimensions
`broadcasting`  functions that change broadcast patterns
`joining`       join, split, stack, tile, roll
`lengths`       a table of equal lengths
==============  ======================================================================
"""

from theano_ng.lazy import lazy_names

# Old pickles refer to these Ops in `shaping`, which was a single module in earlier versions.
__getattr__, __dir__, __all__ = lazy_names(
    __name__, {"theano_ng.tensor.shaping.reshaping": "Flatten Reshape ScalarFromTensor TensorFromScalar"}
)
