"""Generation of C++ modules from graphs, with the classic C code of Ops and types.

==============  ======================================================================
`clinker`       `CLinker`: a module for a graph, or for one node; documented as `gof.cc`
`blocks`        the blocks of C code for variables and nodes
`linkers`       linkers that use C node by node: `OpWiseCLinker`, `DualLinker`, `HideC`
`modulecode`    the source of an extension module, and the origin of its lines
==============  ======================================================================

`gof.compiler` compiles the source and caches the modules.
"""
