"""A generator of programs, and its judge: ``python -m theano_ng.tests.programs --seconds 60 --seed 1`` (``make fuzz``).

`generator` draws typed graphs from the tables of `chapters`, together with NumPy twins; `judge` compiles them in the ways of `configurations` and compares with the
twins, within the error that `precision` estimates; `session` does that for many programs in one process; `reduction` and `reproduce` make what differs small;
`text` prints it. doc/internal/programs.rst says how to use it.
"""
