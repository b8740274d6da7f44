"""`clone`: a copy of a graph with some of its variables replaced."""

from theano_ng.compile.pfunc import clone_with_replacements

_not_given = object()


def clone(output, replace=None, strict=True, share_inputs=True, copy_inputs=_not_given):
    """Copy the graph of some outputs, with replacements made.

    Parameters
    ----------
    output : Variable, Out, or list, tuple or dict of them
    replace : dict or list of pairs, optional
        Variable to the variable (or value) that replaces it in the copy. All replacements are made at once: ``[(x, y), (y, x)]``
        swaps, and ``{x: x - step}`` is the variable `x` less a step.
    strict : bool
        True: a replacement must have the type of the variable that it replaces, or a subtype, as a row is a matrix.
        False permits other types, which the copied nodes must accept. A warning is given where the new number of dimensions makes a node
        another function: for example, a product of vectors becomes one of matrices.
    share_inputs : bool
        True: the copy has the same inputs; False: it has copies of them. The copy of a shared variable has its
        container, so the two always have the same value.
    copy_inputs : bool, optional
        The former name of `share_inputs`.

    Returns
    -------
    Like `output`
        Tuples become lists.

    Raises
    ------
    TypeError
        When a replacement has the wrong type.
    AssertionError
        When a variable is replaced twice.

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
