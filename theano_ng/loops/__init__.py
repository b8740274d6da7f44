"""Loop programs, and the interpreter of loops.

The module `program` defines loop programs, which describe the computation of an inner loop. `source` writes the C code
of their steps. `kernel` and `fold` write the C code of the loops. `blocks` translates loop programs to instructions of
the interpreter in tensor/native/elementwise/blocks.
"""
