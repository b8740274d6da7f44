"""Programs that an interpreter runs in place of kernels, and the replacement of a program by its kernel.

Kernels with different C source can have the same program: for example, a loop over scalars and a loop over vectors. So
a program is copied for each kernel, and only the copy is replaced. The copy, a `StandIn`, contains the key of its
kernel: the digest of the source and the command that are passed to the compiler (`KernelCache.key`). Only a compiled
function whose name contains this key can replace the copy.
"""

from typing import Any, NamedTuple

from theano_ng.gof import _native
from theano_ng.gof.compiler.kernelcache import LoadedKernel, symbol_of


class Interpretation(NamedTuple):
    """A program that an interpreter can run instead of a compiled kernel.

    Its results have the same bits as the results of the kernel, except for NaN. The program itself is never run: each
    `StandIn` runs a copy.

    Attributes
    ----------
    address : int
        The address of the interpreter, a C function.
    words : ndarray of int64
        The words of the program. The first word is 0: in a copy, the address of a compiled kernel replaces it.
    keeps : object
        The owner of the memory to which the words point.
    """

    address: int
    words: Any
    keeps: object


_OURS = "This is a bug in theano_ng: please report it"


class WrongKernel(Exception):
    """Error: a kernel does not belong to the program that it would replace."""


class StandIn:
    """A program that runs in place of one kernel until that kernel is compiled.

    Like kernels, it lives as long as the process.

    Parameters
    ----------
    interpretation : Interpretation
    digest : str or None
        The key of the kernel. If it is None, nothing replaces the program.
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
        """Return the code that a node runs until its kernel is compiled.

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
            If this program belongs to another kernel, which would later replace it.
        """
        if digest != self.digest:
            raise WrongKernel(
                "A program for the kernel %s was about to run instead of the kernel %s. %s"
                % (self.digest, digest, _OURS)
            )
        return LoadedKernel(self.interpretation.address, self.program)

    def install(self, address):
        """Replace the program by its kernel.

        Parameters
        ----------
        address : int

        Raises
        ------
        WrongKernel
            If the function at that address does not have the name of the kernel. The program then stays in use.
        """
        found = _native.symbol_at(address)
        if self.digest is None or found != symbol_of(self.digest):
            raise WrongKernel(
                "The function %s was about to replace a program for the kernel %s. The program stays in use. %s"
                % (found, self.digest and symbol_of(self.digest), _OURS)
            )
        _native.store_word(self.program, address)


# (digest, id(interpretation)) -> StandIn. The StandIn keeps the interpretation alive, so the id stays unique.
_stand_ins = {}


def stand_in(interpretation, digest=None):
    """Return the StandIn for a kernel. All nodes with this kernel share it.

    Parameters
    ----------
    interpretation : Interpretation
    digest : str, optional
        The key of the kernel. Without this key, nothing replaces the program.

    Returns
    -------
    StandIn
    """
    key = digest, id(interpretation)
    found = _stand_ins.get(key)
    if found is None:
        found = _stand_ins.setdefault(key, StandIn(interpretation, digest))
    return found
