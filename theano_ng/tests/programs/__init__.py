"""A generator of programs, and its judge: ``python -m theano_ng.tests.programs --seconds 60 --seed 1`` (``make fuzz``).

`generator` draws typed graphs from the tables of `chapters`, together with equivalent NumPy code, their twins. `judge`
compiles the graphs in the `configurations`, and compares the results with those of the twins, within the error that
`precision` estimates. `session` does that for many programs in one process. `reduction` and `reproduce` reduce programs
that differ, and `reproducer` prints them. doc/internal/programs.rst is the manual.
"""
