"""A block in which flags have other values, in C.

A signal handler may raise wherever code in Python begins: also when a block has ended, before the first line of an ``__exit__`` in Python. From
the beginning of `FlagBlock.__exit__` to its end no Python code runs, and nothing takes memory.
"""

cdef class FlagBlock:
    """Sets flags on entry, and puts them back on exit; may be entered several times.

    A subclass has a method ``changes()``. It returns tuples: the dict that holds the value of a flag, the name there, the parameter of the flag, and
    the value in the block.
    """

    cdef list saved

    def __cinit__(self, *args, **kwargs):
        self.saved = []

    def __enter__(self):
        cdef list changes = self.changes(), before
        cdef dict values
        before = [(values, name, param, values[name], param.is_default) for values, name, param, _ in changes]
        self.saved.append(before)
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
        for values, name, param, value, is_default in reversed(<list>self.saved.pop()):
            values[name] = value
            param.is_default = is_default
        return 0
