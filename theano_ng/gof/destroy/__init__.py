"""Support for nodes that overwrite their inputs: validation of graphs, and the order of execution.

=================  ======================================================================
`handler`          `DestroyHandler`, the feature of a graph; documented as `gof.destroyhandler`
`inplace_order`    the order of nodes that overwrite their inputs, in particular inputs that hold state
`failures`         functions that decide whether a node can fail because of values, or for lack of memory
=================  ======================================================================

The compiled module `gof._destroyhandler` contains the handler's algorithms: equivalence classes of variables that share
memory, and a topological order that is updated when the constraints on the order change.
"""
