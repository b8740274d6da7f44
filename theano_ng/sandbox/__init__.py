"""Name space of modules that began as experiments; import the one you need."""

from theano_ng.moved import former_modules

__getattr__ = former_modules(__name__)
