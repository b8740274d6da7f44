"""The translation of loop programs to programs of the interpreter in tensor/native/elementwise/blocks."""
