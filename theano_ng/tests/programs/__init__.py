"""A generator of programs and a checker: ``python -m theano_ng.tests.programs --seconds 60 --seed 1`` (``make fuzz``).

`generator` draws typed graphs from the tables of `chapters`, together with equivalent NumPy code, their twins. `judge`
compiles the graphs in the `configurations`, and compares the results with the results of the twins. `precision`
estimates the permitted error. `lengths` calls functions with lengths that do not fit. `session` makes all these
checks for many programs in one process. `reduction` and `reproduce` reduce programs whose results differ, and
`reproducer` prints them. doc/internal/programs.rst is the manual.
"""
