"""Digests for names and keys, without OpenSSL, which would take longer to load than any other module that is needed."""

try:
    from _blake2 import blake2b as _blake2b
except ImportError:
    from hashlib import blake2b as _blake2b


def blake2b(data=b"", size=20):
    """Return a BLAKE2b hash object.

    Parameters
    ----------
    data : bytes
        Data that is hashed at once.
    size : int
        Length of the digest in bytes.
    """
    return _blake2b(data, digest_size=size)
