"""Records of changes in source files, and digests that identify them."""

import bisect
import dataclasses
import difflib
import hashlib
import os

PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A source file with one change.

    Attributes
    ----------
    path : str
        The path of the file, relative to the package's folder.
    kind : str
        The kind of change, such as "drop condition".
    function : str
        The qualified name of the function. Empty at module level.
    start, end : int
        The positions of the bytes that are replaced.
    line : int
        The line number of `start`, from 1.
    old, new : str
        The replaced code, and the new code.
    key : str
        A short digest; see `Words.key`.
    """

    path: str
    kind: str
    function: str
    start: int
    end: int
    line: int
    old: str
    new: str
    key: str

    def apply(self, text):
        """Return the changed source code as bytes."""
        return text[: self.start] + self.new.encode() + text[self.end :]

    def diff(self, text):
        """Return the change as a unified diff with one line of context."""
        before, after = (t.decode().splitlines(True) for t in (text, self.apply(text)))
        return "".join(difflib.unified_diff(before, after, "a/" + self.path, "b/" + self.path, n=1))


class Words:
    """The tokens of source code, without comments, docstrings and white space.

    Parameters
    ----------
    path : str
        The path of the file.
    text : str or bytes
    split : callable
        A function of source code that returns pairs (start, token).
    """

    def __init__(self, path, text, split):
        self.path, self._split = path, split
        found = split(text)
        self._starts, self._tokens = [start for start, _ in found], [token for _, token in found]
        self._digests = {}

    def key(self, kind, function, span, start, old, new):
        """Return a digest of a mutant. The digest is stable until the code of the mutated function changes.

        Comments, docstrings and the position in the file have no effect.

        Parameters
        ----------
        kind, function : str
        span : tuple of int
            The start and end of the function.
        start : int
        old, new : str
        """
        first, last, at = (bisect.bisect_left(self._starts, place) for place in (*span, start))
        if span not in self._digests:
            self._digests[span] = digest("\n".join(self._tokens[first:last]))
        words = [[token for _, token in self._split(text)] for text in (old, new)]
        return digest(repr((self.path, kind, function, self._digests[span], at - first, *words)))[:12]


def digest(text):
    """Return a hexadecimal digest of a string."""
    return hashlib.blake2b(text.encode() if isinstance(text, str) else text, digest_size=16).hexdigest()


def read(path):
    """Return the bytes of a file of the package."""
    with open(os.path.join(PACKAGE, path), "rb") as file:
        return file.read()
