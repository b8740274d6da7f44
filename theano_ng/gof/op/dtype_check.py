"""A check that a value has the dtype of its variable.

If the `perform` of an Op was written for NumPy 1, it may compute values whose dtype is not the dtype of the output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from theano_ng.gof.graph import Variable


def dtype_mismatch(variable: Variable, value: Any) -> str | None:
    """Describe how the dtype of a computed value differs from the dtype of its variable.

    Parameters
    ----------
    variable : Variable
        An output of a node.
    value : object
        The value that the node's Op computed for it.

    Returns
    -------
    str or None
        A message with the node, both dtypes, the reason and a remedy. None if the dtypes agree, or if the variable's
        Type or the value has no dtype.
    """
    index: Any = variable.index
    expected, given = getattr(variable.type, "dtype", None), getattr(value, "dtype", None)
    if variable.owner is None or expected is None or given is None or given == expected:
        return None
    text = "%s gave a value of dtype %s for its output %d, whose type is %s." % (
        variable.owner,
        given,
        index,
        variable.type,
    )
    if np.dtype(expected).kind == given.kind and np.can_cast(expected, given):
        text += (
            " Since NumPy 2 zero-dimensional arrays and NumPy's numbers widen the result like any array: "
            "float32_array * numpy.float64(2) is float64."
        )
    return text + (
        " In `perform` use Python numbers, or operands of the output's dtype; or store "
        "numpy.asarray(result, dtype=node.outputs[%d].type.dtype)." % index
    )
