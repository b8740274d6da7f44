"""A generator of programs and a checker: ``python -m theano_ng.tests.programs --seconds 60 --seed 1`` (``make fuzz``).

`generator` draws typed graphs from the tables of `chapters`. It also makes the twin of each graph: equivalent NumPy
code. `judge` compiles the graphs in the `configurations`, and compares their results with the results of the twins.
`precision` estimates the permitted error. `lengths` calls functions with arguments whose lengths do not fit together.
`session` makes all these checks for many programs in one process. `reduction` and `reproduce` reduce programs whose
results are wrong, and `reproducer` prints the reduced programs. doc/internal/programs.rst is the manual.
"""
