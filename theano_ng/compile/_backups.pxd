"""Backups of state that a call overwrites in place."""


cdef bint is_generator(value)
cdef bint is_on_device(value)
cdef Py_ssize_t size_of(value) except -1
cdef object backup_of(value)
cdef list copy_list(list value, bint deep)
cdef void bring_back(list cell, value, backup) noexcept
