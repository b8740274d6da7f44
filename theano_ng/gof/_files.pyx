"""The names, sizes and times of the files of a package, read in C, because every process reads them."""

import os

from libc cimport errno

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

cdef extern from *:
    """
    #include <fcntl.h>
    #include <sys/stat.h>

    typedef struct {
        long long numbers[3]; /* size, seconds and nanoseconds of the last modification */
    } Stamp;

    /* Read the status of a file in an open folder. Return 0, or -1 if this is not possible: the system has no `statx`, a
     * container forbids it, or the file cannot be read. `fstatat` is not used, because it is a symbol of glibc only since
     * version 2.33, but `statx` since version 2.28. */
    static int read_stamp(int folder, const char *name, Stamp *stamp)
    {
    #ifdef STATX_MTIME
        struct statx status;
        if (statx(folder, name, 0, STATX_SIZE | STATX_MTIME, &status) < 0)
            return -1;
        stamp->numbers[0] = (long long)status.stx_size;
        stamp->numbers[1] = status.stx_mtime.tv_sec;
        stamp->numbers[2] = status.stx_mtime.tv_nsec;
        return 0;
    #else
        (void)folder, (void)name, (void)stamp;
        return -1;
    #endif
    }
    """
    ctypedef struct Stamp:
        long long numbers[3]
    int read_stamp(int folder, const char *name, Stamp *stamp) nogil


cdef _error(bytes path):
    return OSError(errno.errno, os.strerror(errno.errno), os.fsdecode(path))


def stamps(folder, tuple suffixes, excluded):
    """Return a byte string for each file of a folder and of its subfolders, in the order of the file system.

    The byte string contains the path of the file, and the size and the time of the last modification in binary form.

    Parameters
    ----------
    folder : str
    suffixes : tuple of bytes
        Files whose names end with one of these suffixes are returned. Other files are ignored.
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
    cdef Stamp stamp
    cdef bytes path, name
    cdef list found = [], todo = [os.fsencode(folder)]
    while todo:
        path = todo.pop()
        entries = opendir(path)
        if entries == NULL:
            raise _error(path)
        try:
            while True:
                errno.errno = 0
                entry = readdir(entries)
                if entry == NULL:
                    if errno.errno:
                        raise _error(path)
                    break
                name = entry.d_name
                if name.endswith(suffixes):
                    if read_stamp(dirfd(entries), entry.d_name, &stamp) < 0:
                        try:
                            status = os.stat(path + b"/" + name)
                        except FileNotFoundError:
                            continue  # a dangling symbolic link; some editors mark open files with such links
                        stamp.numbers[0] = status.st_size
                        stamp.numbers[1], stamp.numbers[2] = divmod(status.st_mtime_ns, 10**9)
                    found.append(path + b"/" + name + (<const char *>stamp.numbers)[:sizeof(stamp.numbers)])
                elif b"." not in name and name not in excluded and entry.d_type != DT_REG:
                    if entry.d_type == DT_DIR or os.path.isdir(path + b"/" + name):
                        todo.append(path + b"/" + name)
        finally:
            closedir(entries)
    return found
