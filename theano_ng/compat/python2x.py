"""Names of the standard library that old versions of Python did not have."""

from collections import Counter, OrderedDict, defaultdict
from functools import partial
from itertools import combinations, product

from theano_ng.compat import DefaultOrderedDict
from theano_ng.moved import warn_of_former

__all__ = ["Counter", "DefaultOrderedDict", "OrderedDict", "combinations", "defaultdict", "partial", "product"]

warn_of_former(__name__)
