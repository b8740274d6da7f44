"""Modules that are not part of the compiler: containers, serialization, and scripts that measure times."""

from theano_ng.lazy import lazy_names

__getattr__, __dir__, _ = lazy_names(__name__, {}, modules="pkl_utils")
