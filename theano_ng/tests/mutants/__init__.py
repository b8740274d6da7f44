"""Mutation testing: rewriting rules and kernels are changed mechanically, and the tests must detect the changes.

``python -m theano_ng.tests.mutants`` is the command. `python_changes` and `c_changes` propose changes of source files.
`sample` draws from these mutants. `reach` records which tests run a line. `server` and `trial` run these tests on a
changed package in child processes. `campaign` stores the results, and `table` prints them.
"""
