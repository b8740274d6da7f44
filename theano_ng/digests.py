"""Digests for names and keys, without OpenSSL: loading OpenSSL would take longer than loading any other module."""

try:
    from _blake2 import blake2b as _blake2b
except ImportError:
    from hashlib import blake2b as _blake2b


def blake2b(data=b"", size=20):
    """Return a BLAKE2b hash object.

    Parameters
    ----------
    data : bytes
        The first data to hash. The method ``update`` of the object adds more data.
    size : int
        The length of the digest in bytes.
    """
    return _blake2b(data, digest_size=size)
