"""Interactive pictures of graphs: `d3viz` writes a page for a browser, `formatting.PyDotFormatter` makes a graph for Graphviz.

``theano_ng.d3viz.d3viz`` is the function, and the module when it is imported by that name.
"""

from theano_ng import moved
from theano_ng.d3viz import formatting
from theano_ng.d3viz.d3viz import PyDotFormatter, d3viz, d3write, replace_patterns, safe_json

moved.keep_functions(__name__, "d3viz")
# `import theano_ng.d3viz.d3viz as m` gives the function: what the module of that name has is found there, too.
for _function in (d3viz, d3write, replace_patterns, safe_json, PyDotFormatter):
    setattr(d3viz, _function.__name__, _function)
del _function

__all__ = ["d3viz", "d3write", "formatting"]
