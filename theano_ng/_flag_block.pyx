"""A context manager in C that changes flags for the time of a block.

A signal handler may raise wherever Python code begins: also after the end of a block, before the first line of an ``__exit__`` in Python. From
the beginning of `FlagBlock.__exit__` to its end no Python code runs, and nothing allocates memory.
"""

cdef class FlagBlock:
    """A context manager that sets flags on entry and restores them on exit. It may be entered several times.

    A subclass has a method ``changes()``, which returns one tuple for each flag: the dict that holds its value, its key there, its parameter, and
    its value in the block.
    """

    cdef tuple saved  # (values before the innermost entry, `saved` of the entry around it): to go back to that takes no memory

    def __cinit__(self, *args, **kwargs):
        self.saved = ()

    def __enter__(self):
        cdef list changes = self.changes(), before
        cdef dict values
        before = [(values, name, param, values[name], param.is_default) for values, name, param, _ in changes]
        self.saved = (before, self.saved)
        try:
            for values, name, param, value in changes:
                values[name] = value
                param.is_default = False
        except BaseException:
            self.put_back()
            raise
        return self

    def __exit__(self, kind=None, failure=None, trace=None):
        self.put_back()

    cdef int put_back(self) except -1:
        cdef dict values
        cdef list before
        before, self.saved = self.saved
        for values, name, param, value, is_default in reversed(before):
            values[name] = value
            param.is_default = is_default
        return 0
