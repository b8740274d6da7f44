"""The compiled function: how it is made, and what it is.

============  ======================================================================
`maker`       `FunctionMaker`: rewriting, linking, checking; documented as `compile.function_module`
`inputs`      what a function's inputs are, and how defaults and names find them
`aliasing`    which outputs share memory with what, and where copies keep them apart
`object`      `Function`, which is called
`copying`     copies of functions, with other shared variables or updates
============  ======================================================================
"""
