"""Programs that run in place of kernels, and the moment at which a kernel takes a program's place.

An interpreter's program can be the same for kernels whose C differs: a loop over numbers and one over vectors. So nothing replaces a program. It is
copied for each kernel that it does the work of, and the copy, a `StandIn`, carries the digest of that kernel: the hash of the text and of the command
that the compiler is given (`KernelCache.key`). Only the function that the compiler has called by that digest gets into its place.
"""

from typing import NamedTuple

from theano_ng.gof import _native
from theano_ng.gof.compiler.kernelcache import LoadedKernel, symbol_of


class Interpretation(NamedTuple):
    """A program as it was written. It is only run as a copy, in a `StandIn`.

    Attributes
    ----------
    address : int
        Of the interpreter, a C function.
    words : ndarray of int64
        The first one is 0.
    keeps : object
        Owns the memory that the words lead to.
    exact : bool
        Whether the program gives the bits of the compiled kernel (any NaN is as good as another). Otherwise nothing takes its place while functions run:
        where there is a compiler, it is waited for.
    """

    address: int
    words: object
    keeps: object
    exact: bool


_OURS = "This is a bug in theano_ng: please report it"


class WrongKernel(Exception):
    """A kernel is another one than a program stands in for."""


class StandIn:
    """A program that runs in place of one kernel, until that is compiled. It lives as long as the process, as kernels do.

    Parameters
    ----------
    interpretation : Interpretation
    digest : str or None
        The key of the kernel; None: nothing takes the program's place.
    """

    __slots__ = ("interpretation", "digest", "words")

    def __init__(self, interpretation, digest):
        self.interpretation, self.digest = interpretation, digest
        self.words = interpretation.words.copy()

    @property
    def program(self):
        """The address of the program."""
        return self.words.ctypes.data

    def loaded_for(self, digest):
        """What a node runs until its kernel is there.

        Parameters
        ----------
        digest : str or None
            The key of the node's kernel.

        Returns
        -------
        LoadedKernel

        Raises
        ------
        WrongKernel
            When this stands in for another one, which would take its place.
        """
        if digest != self.digest:
            raise WrongKernel(
                "A program that stands in for %s was to be run in place of %s. %s" % (self.digest, digest, _OURS)
            )
        return LoadedKernel(self.interpretation.address, self.program)

    def install(self, address):
        """Let a kernel take the place of the program.

        Parameters
        ----------
        address : int

        Raises
        ------
        WrongKernel
            When the symbol at that address does not have the name of the digest. The program goes on then.
        """
        found = _native.symbol_at(address)
        if self.digest is None or found != symbol_of(self.digest):
            raise WrongKernel(
                "The function %s was to take the place of a program that stands in for %s. The program goes on. %s"
                % (found, self.digest and symbol_of(self.digest), _OURS)
            )
        _native.store_word(self.program, address)


_stand_ins = {}  # (digest, id of the interpretation, which the StandIn keeps alive) -> StandIn


def stand_in(interpretation, digest=None):
    """The StandIn for a kernel: one for all nodes that need this kernel.

    Parameters
    ----------
    interpretation : Interpretation
    digest : str, optional
        The key of the kernel. Without it nothing takes the place of the program.

    Returns
    -------
    StandIn
    """
    key = digest, id(interpretation)
    found = _stand_ins.get(key)
    if found is None:
        found = _stand_ins.setdefault(key, StandIn(interpretation, digest))
    return found
