"""Access control lists of POSIX (acl(5)), as Linux keeps them: who may write a file in addition to its owner.

A file with such a list shows its mask where other files show the permissions of their group, so the mode alone does not say who the others are.
"""

import errno
import os
import struct

_NAME = "system.posix_acl_access"
_VERSION = 2
_USER, _GROUP_OBJECT, _GROUP, _MASK = 0x02, 0x04, 0x08, 0x10
_WRITE = 2
_HEADER, _ENTRY = struct.Struct("<I"), struct.Struct("<HHI")


def access_list(where):
    """The list of a file.

    Parameters
    ----------
    where : str or int
        A path, or the descriptor of an open file.

    Returns
    -------
    bytes or None
        None where there is none, or this system has no such lists.

    Raises
    ------
    OSError
        When it cannot be read.
    """
    if not hasattr(os, "getxattr"):
        return None
    try:
        return os.getxattr(where, _NAME)
    except OSError as failure:
        if failure.errno in (errno.ENODATA, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
            return None
        raise


def writers(data):
    """Users and groups that a list permits to write. The mode of the file says that of its owner and of all others.

    Parameters
    ----------
    data : bytes
        What `access_list` returns.

    Returns
    -------
    users, groups : list of int
        The numbers in the entries that name one user or one group.
    own_group : bool
        Whether the file's group is one.

    Raises
    ------
    ValueError
        When it is no list of the one version that there is.
    """
    if len(data) < _HEADER.size or _HEADER.unpack_from(data)[0] != _VERSION or (len(data) - _HEADER.size) % _ENTRY.size:
        raise ValueError("no access control list of version %d" % _VERSION)
    entries = list(_ENTRY.iter_unpack(data[_HEADER.size :]))
    mask = next((permissions for tag, permissions, _ in entries if tag == _MASK), _WRITE)
    found = {_USER: [], _GROUP: [], _GROUP_OBJECT: []}
    for tag, permissions, number in entries:
        if tag in found and permissions & mask & _WRITE:
            found[tag].append(number)
    return found[_USER], found[_GROUP], bool(found[_GROUP_OBJECT])
