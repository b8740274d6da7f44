"""Loop programs, and the interpreter of loops.

`program` describes the computation of an inner loop. `source` writes the C code of its steps. `kernel` and
`fold` write the C code of the loops. `blocks` translates the program to instructions of the interpreter in
tensor/native/elementwise/blocks.
"""
