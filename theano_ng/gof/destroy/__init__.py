"""Nodes that overwrite their inputs: which graphs they are allowed in, and when they run.

=================  ======================================================================
`handler`          `DestroyHandler`, the feature of a graph; documented as `gof.destroyhandler`
`alias_classes`    which variables may share memory (the Python twin of `gof._destroyhandler`)
`dynamic_order`    an order of the nodes that is kept while constraints come and go (likewise)
`inplace_order`    when nodes run that overwrite their inputs, and state above all
`failures`         which nodes can fail because of values, or for lack of memory
=================  ======================================================================
"""
