"""Decide whether code may be loaded from a file or directory.

A compile directory contains pickles and shared objects: a user who can write there can run code as this user. The rules
are the rules of sshd for its files (`StrictModes`). They apply from the root of the file system down to each file:

- The owner is this user, or root.
- No other user can write. Write permission of the group fails this rule, unless the group has the number and the name
  of the owner and no other members, as on systems with umask 002. An access control list (`acl`) that permits other
  users to write also fails this rule.
- A directory on the path may be writable by all if its sticky bit is set, as in /tmp: other users cannot replace this
  user's files in it.
- Symbolic links on the path are followed if they belong to this user or root. The rules apply to the directories above
  a link, and to its target. A file in the cache must not be a symbolic link.

A file is checked after it was opened. A file that the system loads by its name is checked before the system loads it.
No other user can exchange it in between, because the directories above passed the check. If a directory fails, a
directory for this user alone replaces it (`directory`), and a warning names the owner. A file that fails is handled as
a missing file. Nothing is checked on Windows, which stores permissions in another way.
"""

import errno
import os
import stat

from theano_ng.configdefaults import config, user_cache_directory
from theano_ng.gof.compiler import acl
from theano_ng.gof.compiler.toolchain import _digest, warn_once
from theano_ng.gof.deferred import run_later

CHECKED = hasattr(os, "geteuid")
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH

_MAX_LINKS = 40  # the number of links that Linux follows in one path
_READ = (
    os.O_RDONLY
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)

_known = {}  # path -> status (see `directory`) of each directory that, like all directories above it, is trusted


class Untrusted(PermissionError):
    """Error: another user owns or can write a file or directory.

    Parameters
    ----------
    path : str
        The file or directory that was requested.
    place : str
        The file or directory that failed: `path`, or a directory above it.
    reason : str
        The result of `problem`.
    """

    def __init__(self, path, place, reason):
        super().__init__(errno.EPERM, "%s %s" % (place, reason), path)
        self.place, self.reason = place, reason


def problem(status, where, crossed=False):
    """Return the reason why a file or directory is not trusted.

    Parameters
    ----------
    status : os.stat_result
    where : str or int
        The path or a descriptor, from which the access control list is read.
    crossed : bool
        Whether `where` is a directory on the path to the requested file or directory.

    Returns
    -------
    str or None
        A clause that follows the path in a message, such as "belongs to alice (uid 1001, mode 0755)". None if the file
        or directory is trusted.
    """
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid not in (0, os.geteuid()):
        return "belongs to %s (mode %04o)" % (user_name(status.st_uid), mode)
    if not mode & OTHERS_WRITE or stat.S_ISLNK(status.st_mode):  # the permissions of links have no effect
        return None
    if crossed and mode & stat.S_ISVTX:
        return None
    others = ""
    if mode & OTHERS_WRITE == stat.S_IWGRP:
        # The group bits may be the mask of an access control list, so the list decides who can write.
        group_writes, others = _permitted(where)
        if not others and not (group_writes and not _is_own_group(status)):
            return None
    return "can be written by others (it belongs to %s, group %s, mode %04o%s)" % (
        user_name(status.st_uid),
        status.st_gid,
        mode,
        others,
    )


def _permitted(where):
    """Return a pair that describes who can write a file besides its owner.

    The first element is True if the group of the file can write it. The second element is a clause that lists the users
    and groups to which the access control list grants write access, or an empty string.
    """
    try:
        found = acl.access_list(where)
        if found is None:
            return True, ""
        users, groups, group_writes = acl.writers(found)
    except (OSError, ValueError) as failure:
        return True, ", access control list: %s" % failure
    names = [user_name(uid) for uid in users if uid not in (0, os.geteuid())] + ["group %d" % gid for gid in groups]
    return group_writes, ", access control list: %s" % ", ".join(names) if names else ""


def user_name(uid):
    """Return a user as text: "alice (uid 1001)"."""
    import pwd  # missing on Windows; needed only for messages

    try:
        return "%s (uid %d)" % (pwd.getpwuid(uid).pw_name, uid)
    except KeyError:
        return "uid %d" % uid


def _is_own_group(status):
    """Return True if the group of a file has the number and the name of the file's owner, and no other members."""
    if status.st_gid != status.st_uid:
        return False
    import grp  # missing on Windows; rarely needed
    import pwd

    try:
        group, user = grp.getgrgid(status.st_gid), pwd.getpwuid(status.st_uid)
    except KeyError:
        return False
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def first_problem(path):
    """Return the first untrusted directory on a path: a directory above `path`, or `path` itself.

    Parameters
    ----------
    path : str

    Returns
    -------
    (str, str) or None
        The path of the directory, without symbolic links, and the reason. None if all directories are trusted. A
        missing directory is trusted: `make_directory` checks it again.
    """
    if not CHECKED:
        return None
    todo = [part for part in reversed(os.path.abspath(path).split(os.sep)) if part]
    place, links = os.sep, 0
    try:
        reason = problem(os.lstat(place), place, crossed=bool(todo))
        while todo and not reason:
            part = todo.pop()
            if part == "..":  # in the target of a link; `dirname` is correct, because `place` contains no links
                place = os.path.dirname(place)
                continue
            above, place = place, os.path.join(place, part)
            status = os.lstat(place)
            reason = problem(status, place, crossed=bool(todo))
            if not reason and stat.S_ISLNK(status.st_mode):
                target = os.readlink(place)
                links += 1
                if links > _MAX_LINKS:
                    return None
                todo.extend(part for part in reversed(target.split(os.sep)) if part not in ("", "."))
                place = os.sep if os.path.isabs(target) else above
    except OSError:  # missing or inaccessible
        return None
    return (place, reason) if reason else None


def directory(path):
    """Return a trusted directory: the requested directory, or a directory for this user alone that replaces it.

    Parameters
    ----------
    path : str
        The requested directory. It need not exist, and is not created.

    Returns
    -------
    str
        `path`, or the directory that replaces it. The name of the replacement depends only on `path`, so that later
        processes find the files of this process. The replacement is in the user's cache directory. If the cache
        directory cannot be used, the replacement is in the directory for temporary files, in a folder with the user's
        number. If neither can be used, a directory of this process alone is the replacement. A warning describes the
        problem and a remedy.
    """
    if not CHECKED:
        return path
    now = None
    try:
        status = os.stat(path)
        # Read the access control list, which can change without a change of the mode.
        permitted = acl.access_list(path) if status.st_mode & stat.S_IWGRP else None
        now = os.geteuid(), status.st_dev, status.st_ino, status.st_uid, status.st_gid, status.st_mode, permitted
        if _known.get(path) == now:
            return path
    except OSError:
        pass
    found = first_problem(path)
    if found is None:
        if now is not None:
            _known[path] = now
        return path
    place, reason = found
    replacement = _replacement(path)
    warn_once(
        ("untrusted",) + found,
        (
            "The compile directory %s is not used: %s %s. Users who can write to it could make this process run any "
            "code; it has to belong to %s or to root, and no other user may write to it. Compiled code is kept in %s "
            "instead. %s, or choose another directory with THEANO_FLAGS=base_compiledir=..."
        )
        % (path, place, reason, user_name(os.geteuid()), replacement, _remedy(place, reason)),
    )
    return replacement


def _remedy(place, reason):
    """Return a remedy for an untrusted file or directory: a sentence without its full stop, for warnings."""
    if reason.startswith("is "):  # a link, or not a regular file
        return "Delete it"
    if "can be written" in reason:
        return "If no other user has put files there: %s %s; otherwise delete it" % (
            "setfacl -b" if "access control list" in reason else "chmod go-w",
            place,
        )
    return "If you trust its contents: chown -R %s %s; otherwise delete it" % (os.geteuid(), place)


def _replacement(path):
    """Create and return the directory that replaces an untrusted directory."""
    import tempfile

    name = "%s-%s" % (os.path.basename(path), _digest(os.path.abspath(path)))
    for folder in (
        os.path.join(user_cache_directory(), "theano_ng"),
        os.path.join(tempfile.gettempdir(), "theano_ng-%d" % os.geteuid()),
    ):
        try:
            return make_directory(os.path.join(folder, name))
        except OSError:  # the folder is not writable, or not trusted either
            pass
    return make_directory(os.path.join(private_directory(), name))


def make_directory(path):
    """Create a directory, and missing directories above it, for this user alone (mode 0700).

    Parameters
    ----------
    path : str

    Returns
    -------
    str
        `path`.

    Raises
    ------
    Untrusted
        If the directory, or a directory above it, exists and is not trusted.
    OSError
    """

    def check():
        found = first_problem(path)
        if found is not None:
            raise Untrusted(path, *found)

    check()
    missing, folder = [], os.path.abspath(path)
    while not os.path.lexists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for folder in reversed(missing):
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            pass  # another process made it; `check` tests the owner of the directory
    if not os.path.isdir(path):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    check()
    return path


_private = None


def private_directory():
    """Return a temporary directory of this process. It is removed when the process ends.

    Raises
    ------
    Untrusted
        If other users can replace files both in the directory for temporary files and in the user's cache directory.
    """
    global _private
    if _private is None or _private[0] != os.getpid():
        import atexit
        import shutil
        import tempfile

        path = tempfile.mkdtemp(prefix="theano_ng-")
        found = first_problem(path)
        if found is not None:
            os.rmdir(path)
            try:
                path = tempfile.mkdtemp(prefix="theano_ng-", dir=make_directory(user_cache_directory()))
            except OSError:
                raise Untrusted(path, *found) from None
        _private = (os.getpid(), path)
        owner = os.getpid()

        def remove():
            if os.getpid() == owner and not config.nocleanup:  # a forked child must not remove it
                run_later.forget()  # the scheduled calls would write to the deleted directory
                shutil.rmtree(path, ignore_errors=True)

        atexit.register(remove)
    return _private[1]


# ------------------------------------------------- files in a trusted directory


def open_file(path):
    """Open a trusted file to read bytes.

    Parameters
    ----------
    path : str
        The path of a file in a trusted directory.

    Returns
    -------
    binary file

    Raises
    ------
    Untrusted
        If the file is not trusted. A warning is shown first.
    OSError
    """
    return open(path, "rb", opener=_open_checked)


def open_named(path):
    """Open a trusted file in any directory. All directories above it are checked. Symbolic links are followed.

    Parameters
    ----------
    path : str
    """
    path = os.path.realpath(path)
    found = first_problem(os.path.dirname(path))
    if found is not None:
        _refuse(path, found[1], found[0])
    return open_file(path)


def _open_checked(path, flags):
    try:
        descriptor = os.open(path, _READ)
    except OSError as error:
        if error.errno == errno.ELOOP:
            _refuse(path, "is a symbolic link")
        raise
    try:
        status = os.fstat(descriptor)
        if CHECKED:
            reason = problem(status, descriptor)
            if reason is None and not stat.S_ISREG(status.st_mode):
                reason = "is not a regular file"
            if reason is not None:
                _refuse(path, reason)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _refuse(path, reason, place=None):
    """Warn, once for each directory and reason, and raise Untrusted.

    `place` is the untrusted file or directory. By default, it is `path`.
    """
    place = place or path
    warn_once(
        ("untrusted", os.path.dirname(path), reason),
        (
            "%s is not loaded, because another user may have written it: %s %s. %s. `theano_ng-cache list` names all "
            "files of the compile directory that are not trusted."
        )
        % (path, place, reason, _remedy(place, reason)),
    )
    raise Untrusted(path, place, reason)


def is_trusted(path):
    """Return True if a file or directory in a trusted directory exists and is trusted. Warn if it is not trusted.

    Other code can then open it by its name, because no other user can exchange it.

    Parameters
    ----------
    path : str
    """
    try:
        status = os.lstat(path)
        if CHECKED:
            reason = "is a symbolic link" if stat.S_ISLNK(status.st_mode) else problem(status, path)
            if reason is not None:
                _refuse(path, reason)
    except OSError:
        return False
    return True


def deny_others_write(path):
    """Remove the permission of other users to write a file. Under a umask of 0, new files have this permission."""
    if CHECKED:
        mode = os.stat(path).st_mode
        if mode & OTHERS_WRITE:
            os.chmod(path, stat.S_IMODE(mode) & ~OTHERS_WRITE)


def publish(temporary, path):
    """Rename a finished file to its final name atomically, writable only by this user.

    If a file of this name existed before, processes that have mapped it keep its content.

    Parameters
    ----------
    temporary, path : str
        Paths on the same file system.
    """
    deny_others_write(temporary)
    os.replace(temporary, path)


def open_stamp(path):
    """Return a descriptor of a lock file, or of a file whose modification time is used. Create the file if necessary.

    A link, or a file that is not trusted, is replaced by a new file.

    Parameters
    ----------
    path : str
        The path of a file in a trusted directory.

    Raises
    ------
    OSError
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    if CHECKED:
        try:
            reason = problem(os.stat(path, follow_symlinks=False), path)
        except FileNotFoundError:
            reason = None
        if reason is not None or os.path.islink(path):
            os.unlink(path)
    return os.open(path, flags, 0o600)


def untrusted_content(folder):
    """Return all untrusted files and directories below a directory, and the first untrusted directory on its path.

    Parameters
    ----------
    folder : str

    Returns
    -------
    list of (str, str)
        Paths and reasons.
    """
    found = []
    if not CHECKED:
        return found
    above = first_problem(folder)
    if above is not None:
        found.append(above)
    for place, folders, files in os.walk(folder):
        for path in sorted(os.path.join(place, name) for name in folders + files):
            try:
                reason = problem(os.lstat(path), path)
            except OSError:  # it was removed meanwhile
                continue
            if reason is not None:
                found.append((path, reason))
    return found
