"""One change of one text, and where it is."""

import dataclasses
import difflib
import hashlib
import os

PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A text with one change.

    Attributes
    ----------
    path : str
        Of the file, relative to the package's folder.
    kind : str
        The sort of change, such as "drop condition".
    function : str
        Qualified name of the function; "" at the level of the module.
    start, end : int
        The bytes of the file that are replaced.
    line : int
        Of `start`, from 1.
    old, new : str
        What stands there, and what replaces it.
    within : str
        Digest of the function's text, which is part of `key`: results are kept until the function changes.
    offset : int
        Of `start` in the function's text.
    """

    path: str
    kind: str
    function: str
    start: int
    end: int
    line: int
    old: str
    new: str
    within: str
    offset: int

    @property
    def key(self):
        """A short digest that stays while the function's text does, wherever in the file the function stands."""
        parts = (self.path, self.kind, self.function, self.within, self.offset, self.old, self.new)
        return digest(repr(parts))[:12]

    def apply(self, text):
        """The changed text, as bytes."""
        return text[: self.start] + self.new.encode() + text[self.end :]

    def diff(self, text):
        """The change as a unified diff without context beyond one line."""
        before, after = (t.decode().splitlines(True) for t in (text, self.apply(text)))
        return "".join(difflib.unified_diff(before, after, "a/" + self.path, "b/" + self.path, n=1))


def digest(text):
    """A hexadecimal digest of a text."""
    return hashlib.blake2b(text.encode() if isinstance(text, str) else text, digest_size=16).hexdigest()


def read(path):
    """The bytes of a file of the package."""
    with open(os.path.join(PACKAGE, path), "rb") as file:
        return file.read()
