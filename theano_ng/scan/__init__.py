"""Loops: `scan` and what is built on it.

=============  ======================================================================
`front`        `scan`: from a Python function of a step to a node of the graph
`views`        `map`, `reduce`, `foldl`, `foldr`
`checkpoints`  `scan_checkpoints`: loops whose gradient needs little memory
`groups`       how the inputs and outputs of a loop are grouped
`op`           `Scan`, the Op
`gradient`     its derivatives
`loop`         how it runs, in Python; `_loop` does the same in C
`opt`          rules that put loops into a better form
`utils`        `until`, `clone` and other helpers
=============  ======================================================================

The classic name of the package is `theano.scan_module`.
"""
