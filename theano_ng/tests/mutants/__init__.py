"""Mutation testing: the rules and the kernels are changed mechanically, and the tests have to notice.

``python -m theano_ng.tests.mutants`` is the command. `python_changes` and `c_changes` propose changes of a text, `sample` draws from them,
`reach` knows the tests that run a line, `server` and `trial` run them on a changed package in child processes, `campaign` keeps the
results and `table` shows them.
"""
