"""The documented place of `PdbBreakpoint`. The class is defined in `theano_ng.breakpoint`."""

from theano_ng.breakpoint import PdbBreakpoint

__all__ = ["PdbBreakpoint"]
