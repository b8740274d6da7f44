"""Declarations of the compiled graph traversals for other modules."""


cpdef list depth_first_order(inputs, outputs)
cpdef list constrained_order(inputs, outputs, dict orderings, dict clients)
