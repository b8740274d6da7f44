"""Samples of mutants.

They depend only on the seed and the source files; each file's share is proportional to its mutants.
"""

import heapq

from theano_ng.tests.mutants import c_changes, python_changes
from theano_ng.tests.mutants.records import digest, read

FEWEST = 4  # minimum number of mutants of a file


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
        """Yield the first `count` mutants for which `valid` is true."""
        for mutant in self.mutants:
            if not count:
                return
            if valid(mutant):
                count -= 1
                yield mutant

    def is_another_program(self, mutant):
        """Return True if the mutant is a different valid Python program.

        C mutants are checked by the compiler instead.
        """
        return not self.path.endswith(".py") or python_changes.is_another_program(mutant, self.source)


def quotas(sizes, count):
    """Return the number of mutants of each file.

    Parameters
    ----------
    sizes : dict
        Path -> number of all its mutants.
    count : int
        The total number of mutants. The result may exceed it, because each file has at least `FEWEST`.

    Returns
    -------
    dict
    """
    shares = {path: min(size, FEWEST) for path, size in sizes.items()}
    # Add one mutant at a time to the file whose share of its mutants is smallest.
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
    """Return the order of the files of a sample. Whenever a campaign is stopped, each file has had its share of trials.

    Parameters
    ----------
    shares : dict
        Path -> number of its mutants.
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
