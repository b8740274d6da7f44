"""Mutants that are the same program, or one as right as the other: each has been read, and the reason is beside it.

A key stays as long as the text of its function does (`Mutant.key`).
"""

EQUIVALENT = {
    "c62089e6025c": "tensor/native/radix.h, all passes at once where the upper digits would have been tried first: the same order",
    "9ed7a766016b": "tensor/native/sort_line.h, digits are sorted where values would have been counted: the same order",
    "abb69e5d7dda": "tensor/native/blocks/module.c, a failure is -2 instead of -1: whoever asks compares with zero",
    "0b992aeb8385": "tensor/native/elemwise.c, arrays of just the least size for threads are computed by one: the same numbers",
    "cbeb51bc022e": "tensor/native/blas.c, BLAS is called for a matrix without rows: it returns at once",
    "e8b1cd9f1d6c": "tensor/opt/fusion.py, one more operation in the longest loop body: the same numbers",
    "1b75ad882e9c": "tensor/native/sort.c, room for one more of the few that are kept before they are sorted",
    "7f12b4227615": "tensor/native/sort.c, kept in order instead of sorted now and then",
    "0c922297c737": "scan/opt/__init__.py, without ignore_newtrees: new nodes are visited in the same walk instead of the next",
    "1afc86173ed0": "tensor/opt/constant_folding.py, an assertion about thunks that have all their inputs",
    "1eeef753bfc6": "tensor/opt/incsubtensor.py, rows as a general index: only the shape of what they take is read",
    "4347e1d9142f": "tensor/opt/canonicalize.py, without the test that spares loops over an empty list",
    "8b5e431973fc": "tensor/opt/take.py, a variable that gets its own trace has it once",
    "a54ede23e150": "tensor/nnet/opt_ctc.py, the trace of the other output: a node's outputs have the same",
    "dd0f9ee16d42": "sparse/opt/conversion.py, traces of the parts that a matrix was made of: they have theirs",
    "120c0bf132ad": "scan/opt/merge.py, scan_merge_inouts with `if True`: nothing is substituted where there is no replacement",
    "c488d6e50be7": "tensor/opt/dimshuffle.py, copy_stack_trace to an operand that stays: it has one more trace",
    "afe80d5bc65e": "gof/rewriting/equilibrium.py, default (-1, 1): only its first element is read",
    "af26d08c4702": 'gof/rewriting/equilibrium.py, clients that are texts: "output" is no node that is alive',
    "de3eda0008df": "gof/rewriting/stacktrace.py, a second feature of the same kind: it checks the same again",
    "f0a58e922f5e": "gof/rewriting/local.py, without `node is original`: the number of rounds is bounded, with the same result",
    "fde69db76c9c": "gof/rewriting/local.py, the destroy handler for every rule: it changes no graph without nodes in place",
}
