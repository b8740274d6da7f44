"""From graphs to the text of C++ modules: the classic C code of Ops and types.

==============  ======================================================================
`clinker`       `CLinker`: a module of a graph, or of one node; documented as `gof.cc`
`blocks`        the blocks of C that a variable and a node become
`linkers`       linkers that use C node by node: `OpWiseCLinker`, `DualLinker`, `HideC`
`modulecode`    the text of an extension module, and the way back from its lines
==============  ======================================================================

`gof.compiler` compiles the text and keeps what comes out.
"""
