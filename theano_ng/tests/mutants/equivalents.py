"""Mutants that are the same program, or one as right as the other: each has been read, and the reason is beside it.

A key stays as long as the text of its function does (`Mutant.key`); the command lists keys that no mutant of a sample has any more.
"""

EQUIVALENT = {}
