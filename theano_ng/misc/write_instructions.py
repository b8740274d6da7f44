"""The program that writes tensor/native/elementwise/blocks/instructions.h.

Run it by ``python -m theano_ng.misc.write_instructions`` after a change of the C code of a scalar Op.
"""

import theano_ng.tensor.nnet.nnet  # noqa: F401, the import registers the activations of `nnet`
from theano_ng.loops.blocks import instructions

if __name__ == "__main__":
    with open(instructions.INSTRUCTIONS_HEADER, "w", encoding="utf-8") as file:
        file.write(instructions.c_source())
