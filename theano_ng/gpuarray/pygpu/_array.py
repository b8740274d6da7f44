"""The class `ndgpuarray`, which programs written for pygpu use for arrays with operators.

In this package `GpuArray` itself has the operators.
"""

from theano_ng.gpuarray.pygpu import reduction
from theano_ng.gpuarray.pygpu.gpuarray import GpuArray

__all__ = ["ndgpuarray"]


class ndgpuarray(GpuArray):
    """A device array with operators, comparisons and reductions."""

    def all(self, axis=None, out=None):
        """Return True where all elements along the axes are true."""
        return reduction.reduce1(self, op="&&", neutral="true", out_type="bool", axis=axis, out=out)

    def any(self, axis=None, out=None):
        """Return True where any element along the axes is true."""
        return reduction.reduce1(self, op="||", neutral="false", out_type="bool", axis=axis, out=out)

    def sum(self, axis=None, dtype=None, out=None):
        """Return the sum of the elements. Integers are summed in 64 bits."""
        return reduction.reduce1(self, op="+", neutral="0", out_type=self._accumulator(dtype), axis=axis, out=out)

    def prod(self, axis=None, dtype=None, out=None):
        """Return the product of the elements. Integers are multiplied in 64 bits."""
        return reduction.reduce1(self, op="*", neutral="1", out_type=self._accumulator(dtype), axis=axis, out=out)

    def max(self, axis=None, out=None):
        """Return the largest element. Return NaN if an element is NaN."""
        return reduction.extreme(self, ">", axis, out)

    def min(self, axis=None, out=None):
        """Return the smallest element. Return NaN if an element is NaN."""
        return reduction.extreme(self, "<", axis, out)

    def _accumulator(self, dtype):
        if dtype is not None:
            return dtype
        return {"b": "int64", "i": "int64", "u": "uint64"}.get(self.dtype.kind, self.dtype)
