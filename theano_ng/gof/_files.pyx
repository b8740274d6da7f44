"""The names, sizes and times of the files of a package, read in C, because every process reads them."""

import os

from libc.errno cimport ENOENT, errno
from posix.stat cimport S_ISDIR, struct_stat

cdef extern from "<dirent.h>" nogil:
    ctypedef struct DIR:
        pass
    cdef struct dirent:
        char d_name[256]
        unsigned char d_type
    DIR *opendir(const char *path)
    dirent *readdir(DIR *folder)
    int closedir(DIR *folder)
    int dirfd(DIR *folder)
    enum: DT_REG
    enum: DT_DIR

cdef extern from "<sys/stat.h>" nogil:
    int fstatat(int folder, const char *name, struct_stat *result, int flags)

cdef extern from *:
    """
    #define STAMP(status, stamp) \\
        ((stamp)[0] = (status).st_size, (stamp)[1] = (status).st_mtim.tv_sec, (stamp)[2] = (status).st_mtim.tv_nsec)
    """
    void STAMP(struct_stat status, long long *stamp) nogil


def stamps(folder, tuple suffixes, excluded):
    """Return a text for each file of a folder and of its subfolders, in the order of the file system.

    The text contains the path, the size, and the time of the last modification.

    Parameters
    ----------
    folder : str
    suffixes : tuple of bytes
        Only files are returned whose names end with one of these suffixes.
    excluded : frozenset of bytes
        Names of subfolders that are not searched. Subfolders whose names contain a dot are not searched, either.

    Returns
    -------
    list of bytes

    Raises
    ------
    OSError
        If a folder or a file cannot be read.
    """
    cdef DIR *entries
    cdef dirent *entry
    cdef struct_stat status
    cdef long long stamp[3]
    cdef bytes path, name
    cdef list found = [], todo = [os.fsencode(folder)]
    while todo:
        path = todo.pop()
        entries = opendir(path)
        if entries == NULL:
            raise OSError(errno, os.strerror(errno), os.fsdecode(path))
        try:
            while True:
                entry = readdir(entries)
                if entry == NULL:
                    break
                name = entry.d_name
                if name.endswith(suffixes):
                    if fstatat(dirfd(entries), entry.d_name, &status, 0) < 0:
                        if errno == ENOENT:
                            continue  # a symbolic link to nothing, with which some editors mark open files
                        raise OSError(errno, os.strerror(errno), os.fsdecode(path + b"/" + name))
                    STAMP(status, stamp)
                    found.append(path + b"/" + name + (<const char *>stamp)[:sizeof(stamp)])
                elif b"." not in name and name not in excluded and entry.d_type != DT_REG:
                    if entry.d_type == DT_DIR or _is_folder(dirfd(entries), entry.d_name):
                        todo.append(path + b"/" + name)
        finally:
            closedir(entries)
    return found


cdef bint _is_folder(int folder, const char *name):
    """Return True if an entry is a folder or a symbolic link to a folder."""
    cdef struct_stat status
    return fstatat(folder, name, &status, 0) == 0 and S_ISDIR(status.st_mode)
