"""The decorators of `registration` for the rules of this package itself.

The package's fingerprint covers these rules, so rewritten graphs can still be cached on disk.
"""

from functools import partial

from theano_ng.tensor.opt import registration
from theano_ng.tensor.opt.registration import ignores_nonfinite

__all__ = [
    "ignores_nonfinite",
    "register_canonicalize",
    "register_specialize",
    "register_specialize_device",
    "register_stabilize",
    "register_uncanonicalize",
    "register_useless",
]

register_useless = partial(registration.register_useless, own=True)
register_canonicalize = partial(registration.register_canonicalize, own=True)
register_stabilize = partial(registration.register_stabilize, own=True)
register_specialize = partial(registration.register_specialize, own=True)
register_uncanonicalize = partial(registration.register_uncanonicalize, own=True)
register_specialize_device = partial(registration.register_specialize_device, own=True)
