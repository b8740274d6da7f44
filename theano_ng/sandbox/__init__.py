"""Namespace of modules that began as experiments. Each module has to be imported separately."""

from theano_ng.moved import former_modules

__getattr__ = former_modules(__name__)
