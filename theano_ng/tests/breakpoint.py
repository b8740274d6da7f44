"""Documented home of `PdbBreakpoint`; see `theano_ng.breakpoint`."""

from theano_ng.breakpoint import PdbBreakpoint

__all__ = ["PdbBreakpoint"]
