"""A cache of program binaries, which processes share. Its files lie next to the files of the cache of C modules.

The files are trusted under the same conditions as C modules (see `gof.compiler.trust`).
"""

import hashlib
import os

from theano_ng.gof.compiler import trust

_FORMAT = b"theano_ng program 1\n"


class ProgramCache:
    """Binaries of programs in a folder. A file's name is the digest of all data on which the binary depends.

    Parameters
    ----------
    path : str
        The folder. It is created when the first binary is stored.
    """

    def __init__(self, path):
        self.path = path

    def _file(self, parts):
        digest = hashlib.sha256(_FORMAT)
        for part in parts:
            digest.update(b"%d:" % len(part))
            digest.update(part)
        return os.path.join(trust.directory(self.path), digest.hexdigest())

    def find(self, parts):
        """Return the binary of a program.

        Parameters
        ----------
        parts : sequence of bytes
            Source text, options, device, compiler: all data on which the binary depends.

        Returns
        -------
        bytes or None
            None if there is no binary, or if it is untrusted or damaged.
        """
        try:
            with trust.open_file(self._file(parts)) as file:
                content = file.read()
        except OSError:
            return None
        head, digest, binary = (
            content[: len(_FORMAT)],
            content[len(_FORMAT) : len(_FORMAT) + 32],
            content[len(_FORMAT) + 32 :],
        )
        return binary if head == _FORMAT and hashlib.sha256(binary).digest() == digest else None

    def keep(self, parts, binary):
        """Store a binary. Other processes see either the complete file or none.

        Raises
        ------
        OSError
        """
        path = self._file(parts)
        trust.make_directory(os.path.dirname(path))
        temporary = "%s.%d.tmp" % (path, os.getpid())
        try:
            with open(temporary, "wb") as file:
                file.write(_FORMAT + hashlib.sha256(binary).digest() + binary)
            trust.publish(temporary, path)
        finally:
            if os.path.exists(temporary):
                os.unlink(temporary)
