"""Programs as devices built them, kept between processes: files beside those of the C cache, under the same rules of trust."""

import hashlib
import os

from theano_ng.gof.compiler import trust

_FORMAT = b"theano_ng program 1\n"


class ProgramCache:
    """Binaries of programs in a folder, by the digest of all that they depend on.

    Parameters
    ----------
    path : str
        It is made when something is kept for the first time.
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
        """The binary of a program.

        Parameters
        ----------
        parts : sequence of bytes
            Text, options, device, compiler.

        Returns
        -------
        bytes or None
            None when there is none, or it is not trusted, or damaged.
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
        """Keep a binary; other processes see all of it or nothing.

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
