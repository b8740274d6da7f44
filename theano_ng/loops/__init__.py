"""Loop programs, and the interpreter of loops.

`program` describes the computation of an inner loop, `source` writes the C code of its steps, and `blocks` translates
it to instructions of the interpreter in tensor/native/blocks.
"""
