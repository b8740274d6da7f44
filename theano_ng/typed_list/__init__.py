"""Lists as values: all elements have one Type. ``import theano_ng.typed_list`` is needed to use them.

It is not well integrated with the rest: there are no gradients of lists, and where speed is important, padding to a dense tensor is better.
"""

from theano_ng.typed_list import opt  # noqa: F401  (registers a rewrite)
from theano_ng.typed_list.basic import *  # noqa: F401,F403
from theano_ng.typed_list.type import TypedListType  # noqa: F401
