"""Samples of mutants.

A sample depends only on the seed and the source files. The share of each file is proportional to the number of its
mutants.
"""

import heapq

from theano_ng.tests.mutants import c_changes, python_changes
from theano_ng.tests.mutants.records import digest, read

FEWEST = 4  # minimum number of mutants of a file


class Drawn:
    """The mutants of a file, in the order in which they are drawn.

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
        """Yield the first `count` mutants for which `valid` is true."""
        for mutant in self.mutants:
            if not count:
                return
            if valid(mutant):
                count -= 1
                yield mutant

    def is_another_program(self, mutant):
        """Return True if the mutant is a different valid Python program.

        For a C mutant, return True. The compiler checks such mutants later.
        """
        return not self.path.endswith(".py") or python_changes.is_another_program(mutant, self.source)


def quotas(sizes, count):
    """Return the number of mutants to draw from each file.

    Parameters
    ----------
    sizes : dict
        Path -> the number of all mutants of the file.
    count : int
        The total number of mutants. The result may exceed it, because each file gets at least `FEWEST` mutants.

    Returns
    -------
    dict
    """
    shares = {path: min(size, FEWEST) for path, size in sizes.items()}
    # Add mutants one by one, each to the file of which the smallest fraction of mutants has been drawn.
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
    """Return the order in which the mutants of files are tried, as a list of paths.

    After any number of trials, the trials of each file are approximately proportional to its share.

    Parameters
    ----------
    shares : dict
        Path -> the number of its mutants in the sample.
    seed : int

    Returns
    -------
    list of str
        Each path occurs as often as its share in `shares`.
    """

    def place(path, i):
        first = int(digest("%d:%s" % (seed, path)), 16) / 2**128
        return (i + first) / shares[path]

    found = [(place(path, i), path) for path, share in shares.items() for i in range(share)]
    return [path for _, path in sorted(found)]
