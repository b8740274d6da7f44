"""Support for nodes that overwrite their inputs: validation of graphs, and the order of execution.

=================  ======================================================================
`handler`          `DestroyHandler`, the feature of a graph; documented as `gof.destroyhandler`
`alias_classes`    classes of variables that may share memory (Python version of `gof._destroyhandler`)
`dynamic_order`    a topological order that is updated with its constraints (Python version, likewise)
`inplace_order`    the order of nodes that overwrite their inputs, above all those that overwrite state
`failures`         the nodes that can fail because of values, or for lack of memory
=================  ======================================================================
"""
