"""Interactive pictures of graphs.

`d3viz` writes an HTML page, and `formatting.PyDotFormatter` makes a graph for Graphviz. ``theano_ng.d3viz.d3viz`` is
the function, but the statement ``from theano_ng.d3viz.d3viz import ...`` imports from the module of the same name.
"""

from theano_ng import moved
from theano_ng.d3viz import formatting
from theano_ng.d3viz.d3viz import PyDotFormatter, d3viz, d3write, replace_patterns, safe_json

moved.keep_functions(__name__, "d3viz")
# `import theano_ng.d3viz.d3viz as m` binds the function, not the module of the same name. Therefore the function gets
# the public names of the module as attributes.
for _function in (d3viz, d3write, replace_patterns, safe_json, PyDotFormatter):
    setattr(d3viz, _function.__name__, _function)
del _function

__all__ = ["d3viz", "d3write", "formatting"]
