"""Typed lists: variables whose values are lists with elements of one Type.

To use them, ``import theano_ng.typed_list``. They are not well integrated with the rest of the package. Lists have no
gradients. If speed is important, padding the elements to one dense tensor is better.
"""

from theano_ng.typed_list import opt  # registers a rewrite
from theano_ng.typed_list.basic import *
from theano_ng.typed_list.type import TypedListType
