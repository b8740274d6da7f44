"""Draws mutants: the same for the same seed and texts, every file in proportion to what can be changed in it."""

import heapq

from theano_ng.tests.mutants import c_changes, python_changes
from theano_ng.tests.mutants.records import digest, read

FEWEST = 4  # of a file, however short


class Drawn:
    """A file's mutants in the order in which they are drawn.

    Attributes
    ----------
    path : str
    source : bytes
    mutants : list of Mutant
    """

    def __init__(self, path, seed):
        self.path, self.source = path, read(path)
        propose = python_changes.changes if path.endswith(".py") else c_changes.changes
        self.mutants = sorted(propose(path, self.source), key=lambda m: digest("%d:%s" % (seed, m.key)))

    def first(self, count, valid):
        """The first mutants of which `valid` is true."""
        for mutant in self.mutants:
            if not count:
                return
            if valid(mutant):
                count -= 1
                yield mutant

    def is_another_program(self, mutant):
        """Whether the text can be tried; what does not compile as C is found out by the compiler."""
        return not self.path.endswith(".py") or python_changes.is_another_program(mutant, self.source)


def quotas(sizes, count):
    """How many mutants each file gets.

    Parameters
    ----------
    sizes : dict
        Path -> number of all its mutants.
    count : int
        Of all together; more where there are more files than that.

    Returns
    -------
    dict
    """
    shares = {path: min(size, FEWEST) for path, size in sizes.items()}
    # One at a time to the file that has the smallest part of what it could have.
    waiting = [(shares[path] / size, path) for path, size in sizes.items() if size > shares[path]]
    heapq.heapify(waiting)
    for _ in range(count - sum(shares.values())):
        if not waiting:
            break
        _, path = heapq.heappop(waiting)
        shares[path] += 1
        if shares[path] < sizes[path]:
            heapq.heappush(waiting, (shares[path] / sizes[path], path))
    return shares


def turns(shares, seed):
    """The order in which the files of a sample come: whenever a campaign is stopped, each file has had its part.

    Parameters
    ----------
    shares : dict
        Path -> number of its mutants.
    seed : int

    Returns
    -------
    list of str
        Every path as often as its share says.
    """

    def place(path, i):
        first = int(digest("%d:%s" % (seed, path)), 16) / 2**128
        return (i + first) / shares[path]

    found = [(place(path, i), path) for path, share in shares.items() for i in range(share)]
    return [path for _, path in sorted(found)]
