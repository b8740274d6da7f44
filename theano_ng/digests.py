"""Digests that name things, without OpenSSL: loading it takes longer than any other module that an import of the package needs."""

try:
    from _blake2 import blake2b as _blake2b
except ImportError:
    from hashlib import blake2b as _blake2b


def blake2b(data=b"", size=20):
    """A BLAKE2b hash object.

    Parameters
    ----------
    data : bytes
        What is hashed first.
    size : int
        Length of the digest in bytes.
    """
    return _blake2b(data, digest_size=size)
