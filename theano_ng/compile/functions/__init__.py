"""Compiled functions and the code that makes them.

============  ======================================================================
`maker`       `FunctionMaker`: rewriting, linking, checking; documented as `compile.function_module`
`inputs`      conversion and checks of input specifications, access to inputs by name
`aliasing`    variables that share memory, and the copies that prevent outputs from sharing memory
`exposure`    state that would be lost if a node failed
`object`      `Function`, the callable
`copying`     copies of functions, with other shared variables or updates
============  ======================================================================
"""
