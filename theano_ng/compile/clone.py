"""The function `clone`, which copies a graph and replaces some of its variables."""

from theano_ng.compile.pfunc import clone_with_replacements

_not_given = object()


def clone(output, replace=None, strict=True, share_inputs=True, copy_inputs=_not_given):
    """Copy the graph on which `output` depends, and replace variables in the copy.

    Parameters
    ----------
    output : Variable, Out, or list, tuple or dict of them
    replace : dict or list of pairs, optional
        Variable -> the variable (or value) that replaces it in the copy. All replacements are made at once:
        ``[(x, y), (y, x)]`` swaps, and ``{x: x - step}`` replaces `x` by the difference of the original `x` and `step`.
    strict : bool
        If True, a replacement must have the type of the variable that it replaces, or a subtype: a row may replace a
        matrix. If False, other types are permitted if the copied nodes accept them. A warning is shown if the new
        number of dimensions makes a node compute another function: for example, a product of vectors becomes a product
        of matrices.
    share_inputs : bool
        Whether the copy uses the input variables of the original graph. If False, they are copied. The copy of a shared
        variable uses the same container, so both variables always have the same value.
    copy_inputs : bool, optional
        The former name of `share_inputs`.

    Returns
    -------
    like `output`
        The copies, in the structure of `output`. A tuple becomes a list.

    Raises
    ------
    TypeError
        If a replacement has the wrong type.
    AssertionError
        If a variable is replaced twice.

    Examples
    --------
    >>> from theano_ng import clone, pp, tensor
    >>> x, y = tensor.dscalars("x", "y")
    >>> pp(clone(x * 2, replace={x: y}))
    '(y * TensorConstant{2})'
    """
    if copy_inputs is not _not_given:
        import warnings

        warnings.warn(
            "In `clone()` function, the argument `copy_inputs` has been deprecated and renamed into `share_inputs`",
            DeprecationWarning,
            stacklevel=2,
        )
        share_inputs = copy_inputs
    return clone_with_replacements(output, replace, strict, share_inputs)
