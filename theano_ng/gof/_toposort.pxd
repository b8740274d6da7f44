"""What the compiled graph walks lend to others."""


cpdef list depth_first_order(inputs, outputs)
cpdef list constrained_order(inputs, outputs, dict orderings, dict clients)
