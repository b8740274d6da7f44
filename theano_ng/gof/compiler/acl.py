"""POSIX access control lists (acl(5)) as Linux stores them.

Such a list grants permissions on a file to further users and groups. If a file has such a list, the group bits of its
mode contain the mask of the list instead of the permissions of the group. So the mode does not show who may write.
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
    """Return the access control list of a file.

    Parameters
    ----------
    where : str or int
        A path, or the descriptor of an open file.

    Returns
    -------
    bytes or None
        None for a file without such a list, and on a system without such lists.

    Raises
    ------
    OSError
        If the list cannot be read.
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
    """Return the users and groups to which an access control list grants write permission.

    The result contains neither the owner nor the class of all other users: the mode of the file shows whether they may
    write.

    Parameters
    ----------
    data : bytes
        The result of `access_list`.

    Returns
    -------
    users, groups : list of int
        The ids in the entries that name one user or one group.
    own_group : bool
        Whether the group of the file may write.

    Raises
    ------
    ValueError
        If `data` is malformed or has an unknown version.
    """
    if len(data) < _HEADER.size or _HEADER.unpack_from(data)[0] != _VERSION or (len(data) - _HEADER.size) % _ENTRY.size:
        raise ValueError("access control lists of version %d are not supported" % _VERSION)
    entries = list(_ENTRY.iter_unpack(data[_HEADER.size :]))
    mask = next((permissions for tag, permissions, _ in entries if tag == _MASK), _WRITE)
    found = {_USER: [], _GROUP: [], _GROUP_OBJECT: []}
    for tag, permissions, number in entries:
        if tag in found and permissions & mask & _WRITE:
            found[tag].append(number)
    return found[_USER], found[_GROUP], bool(found[_GROUP_OBJECT])
