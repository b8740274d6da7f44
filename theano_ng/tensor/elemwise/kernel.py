"""Loop programs of Elemwise nodes, and the tables of operands for native/elementwise/elemwise.c."""

from theano_ng.loops.program import Access, Guards, elementwise_program, operand_accesses
from theano_ng.tensor.elemwise.divisors import OPERATIONS


def elemwise_program(node, divisors, fold=None, check_divisors_first=False):
    """Return the loop program of an Elemwise node.

    >>> from theano_ng import tensor as T
    >>> from theano_ng.tensor.elemwise.divisors import integer_divisors
    >>> node = (T.dmatrix("x") * T.dcol("y")).owner
    >>> print(elemwise_program(node, integer_divisors(node)))
    v0 = load float64
    v1 = load float64, once if its stride is 0
    v2 = mul(v0, v1) float64
    store v2 as float64

    Parameters
    ----------
    node : Apply
    divisors : Divisors
        The result of `integer_divisors`.
    fold : Fold, optional
        A reduction that the loop applies to the node's only output.
    check_divisors_first : bool
        Whether the C code that calls the loop may request that the loop first checks the divisors among the inputs, and
        writes outputs only if no divisor is zero.

    Returns
    -------
    LoopProgram
    """
    in_dtypes, out_dtypes = [[v.type.dtype for v in variables] for variables in (node.inputs, node.outputs)]
    patterns = [v.type.broadcastable for v in node.inputs]
    return elementwise_program(
        node.op.scalar_op,
        in_dtypes,
        out_dtypes,
        operand_accesses(patterns, node.outputs[0].type.broadcastable),
        fold,
        Guards(tuple(divisors.inputs), bool(divisors.computed), check_divisors_first),
    )


def operand_rows(node, program, inplace_pattern, divisors):
    """Return the table of operands for native/elementwise/elemwise.c: one dict for each input, then for each output."""
    rows = []
    for i, (variable, access) in enumerate(zip(node.inputs, program.accesses)):
        mask = sum(1 << d for d, b in enumerate(variable.type.broadcastable) if b)
        rows.append(
            dict(
                broadcastable=mask,
                type_number=variable.type.numpy_dtype.num,
                kind=access,
                overwrites=-1,
                divides=OPERATIONS[divisors.inputs.get(i)],
            )
        )
    for j, variable in enumerate(node.outputs):
        rows.append(
            dict(
                broadcastable=0,
                type_number=variable.type.numpy_dtype.num,
                kind=Access.VARYING,
                overwrites=inplace_pattern.get(j, -1),
                divides=0,
            )
        )
    return rows
