"""Errors of indices and labels that kernels find; device/index_errors.h explains how kernels report them."""

import itertools
import weakref
from typing import NamedTuple

# The numbers of the nodes whose kernels report errors. Kernels pass 24 bits.
_numbers = itertools.count(1)
_LAST = (1 << 24) - 1
_sites: weakref.WeakValueDictionary = weakref.WeakValueDictionary()  # number -> Apply

# The largest values that a report of device/index_errors.h can contain
_LAST_PLACE, _LIMIT = 0x7FFFFFFF, 1 << 32


def site_of(node):
    """Return a number for a node, which its kernels pass on when they report an error."""
    number = next(_numbers) & _LAST
    _sites[number] = node
    return number


class Report(NamedTuple):
    """The report of a kernel on an invalid index.

    Attributes
    ----------
    site : int
        The result of `site_of`.
    place : int
        The place of the index among the indices that the node reads: array by array for each element of the result.
    index : int
    lengths : tuple of int
        The lengths of the indexed axes, one for each index array of the node.
    of_other_thread : bool
        Whether another thread called the function.
    """

    site: int
    place: int
    index: int
    lengths: tuple
    of_other_thread: bool


def error_of(report):
    """Return the exception for a report.

    The exception has the attribute `__failed_node__`, so that the description of the node is added to the message; see
    `raise_with_op`.
    """
    node = _sites.get(report.site)
    describe = getattr(getattr(node, "op", None), "index_error", None)
    error = IndexError("an index is out of bounds") if describe is None else describe(node, report)
    finder = "A node of a function that no longer exists" if node is None else "The node %s" % node
    caller = " in a call by another thread" if report.of_other_thread else ""
    told = "%s. %s found this on the device%s. The host learned of it now, when it waited for the device."
    made = type(error)(told % (error, finder, caller))
    made.__failed_node__ = node
    return made


def out_of_bounds(report, axes):
    """Return the IndexError for a report of a node that indexes an array.

    Parameters
    ----------
    report : Report
    axes : sequence of int
        The axis that each index array of the node indexes.
    """
    sign = "at least " if report.index == _LIMIT - 1 else "at most " if report.index == -_LIMIT else ""
    text = "index out of bounds: index %s%d is out of bounds" % (sign, report.index)
    if report.place == _LAST_PLACE and len(axes) > 1:
        return IndexError(text)
    which = report.place % len(axes)
    return IndexError(text + " for axis %d with size %d" % (axes[which], report.lengths[which]))
