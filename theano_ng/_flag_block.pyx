"""A context manager, compiled to C, that changes flags during a ``with`` block.

A signal handler may raise an exception wherever Python code starts to run. If ``__exit__`` were Python code, this could
happen after the end of the block and before the first line of ``__exit__``: the flags would not be restored.
`FlagBlock.__exit__` runs no Python code and allocates no memory.
"""

cdef class FlagBlock:
    """A context manager that sets flags on entry and restores them on exit. It may be entered again before its exit.

    A subclass has a method ``changes()``, which returns one tuple for each flag: (the dict that contains the flag's
    value, the flag's key in this dict, the flag's parameter, the value during the block).
    """

    # A linked list with a pair for each block that has not ended, the innermost block first: (the values of the flags
    # before the block, the pair of the enclosing block). The end of a block allocates no memory.
    cdef tuple saved

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
