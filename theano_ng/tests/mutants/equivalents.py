"""Mutants that are the same program, or one as right as the other: each has been read, and the reason is beside it.

A key stays as long as the text of its function does (`Mutant.key`).
"""

EQUIVALENT = {
    "0346477560b5": "scan/opt/push_out.py, frontier without `client is None`: None is not among the nodes that are moved",
    "120c0bf132ad": "scan/opt/merge.py, scan_merge_inouts with `if True`: nothing is substituted where there is no replacement",
    "602bcd77e8f2": "scan/opt/stacking.py, reshape without ndim: the tuple of lengths has as many",
    "c488d6e50be7": "tensor/opt/dimshuffle.py, copy_stack_trace to an operand that stays: it has one more trace",
    "afe80d5bc65e": "gof/rewriting/equilibrium.py, default (-1, 1): only its first element is read",
    "af26d08c4702": 'gof/rewriting/equilibrium.py, clients that are texts: "output" is no node that is alive',
    "de3eda0008df": "gof/rewriting/stacktrace.py, a second feature of the same kind: it checks the same again",
    "f0a58e922f5e": "gof/rewriting/local.py, without `node is original`: the number of rounds is bounded, with the same result",
    "fde69db76c9c": "gof/rewriting/local.py, the destroy handler for every rule: it changes no graph without nodes in place",
}
