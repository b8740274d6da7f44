"""Type aliases for the annotations of tensor functions.

Other modules import these aliases under ``if TYPE_CHECKING``: only type checkers and editors read the aliases. Most
functions convert their arguments, so several aliases are `Any`, and type checkers accept any argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

# A tensor variable, or a value that `as_tensor_variable` converts: a number, an array, or a nested list of variables
# and values.
TensorLike: TypeAlias = Any

# An integer, or an integer variable without dimensions.
IntLike: TypeAlias = Any

# The lengths of dimensions: a tuple or list of integers and integer variables, or an integer vector.
ShapeLike: TypeAlias = Any

# The axis or the axes that a function reduces or works along. None means all axes.
Axis: TypeAlias = int | Sequence[int] | None

# The dtype of an array, such as "float32", numpy.float32 or numpy.dtype("float32").
DTypeLike: TypeAlias = str | type | np.dtype[Any]
