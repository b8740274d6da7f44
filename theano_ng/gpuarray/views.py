"""Views of device arrays that rules and functions for images use."""

from theano_ng.gpuarray.elemwise import GpuDimShuffle
from theano_ng.gpuarray.subtensor import GpuSubtensor


def part_of(x, *index):
    """Return a part of an array on a device, as a view. `index`: slices and ints."""
    template = x.type.host_type()()[index].owner
    return GpuSubtensor(template.op.idx_list)(x, *template.inputs[1:])


def flipped(x, axes):
    """Return kernels in reverse order along the last axes.

    Parameters
    ----------
    x : variable on a device
    axes : int
        The number of these axes.
    """
    return part_of(x, *[slice(None)] * (x.ndim - axes), *[slice(None, None, -1)] * axes)


def exchanged(x):
    """Exchange the first two axes of an array on a device."""
    return GpuDimShuffle(x.broadcastable, (1, 0, *range(2, x.ndim)))(x)
