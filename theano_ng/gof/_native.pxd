from libc.stdint cimport int64_t
from cpython.object cimport PyObject

ctypedef int (*thunk_fn)(void *data) noexcept
ctypedef int (*native_fn)(int nin, int nout, PyObject **ins, PyObject **outs, const int64_t *words) noexcept


# What `live_objects` counts.
cdef enum:
    LIVE_BLOCKS
    LIVE_THUNKS
    LIVE_MACHINES
    LIVE_FUNCTIONS
    N_LIVE

cdef void count_live(int kind, int change) noexcept


cdef struct Block:
    Block *older
    long long first         # where its memory begins


cdef struct Arena:
    # Zeroed memory that is freed as a whole. What was allocated stays where it is.
    Block *blocks           # the newest first
    char *next
    size_t left
    size_t size             # of the newest block

cdef void *allocate(Arena *arena, size_t count, size_t size) except NULL
cdef void free_arena(Arena *arena) noexcept


cdef class CThunk:
    """What a VM calls without Python: `run(data)` is 0, or a Python exception is set."""
    cdef thunk_fn run
    cdef void *data
    cdef public list inputs
    cdef public list outputs
    cdef public bint lazy
    cdef public object node          # for error messages; not used when running


cdef struct NativeCall:
    native_fn function
    int nin
    int nout
    PyObject **cells        # nin input cells, then nout output cells; borrowed, the thunk's lists own them
    PyObject **values       # room for nin + nout values
    int64_t *words
    int *layout             # for each cell, what its array has to be, see NativeThunk; -1 where nothing is known
    char *copied            # for each input, whether the current call works on a copy


cdef class NativeThunk(CThunk):
    cdef Arena arena
    cdef NativeCall call
    cdef int64_t *scratch   # what one of the words leads to; NULL: none does
    cdef object keep        # whatever owns the function's code


cdef class CapsuleThunk(CThunk):
    cdef object capsule
    cdef public list error_storage
    cdef thunk_fn compiled
    cdef void *compiled_data


cdef class LazyBranch(CThunk):
    cdef readonly int branch_size   # values of a branch
    cdef readonly bint view
    cdef object copy
    cdef object owned               # the cells and flags that the pointers lead to
    cdef Arena arena
    cdef PyObject *condition
    cdef PyObject **sides           # cells of the first branch, then of the second
    cdef PyObject **results
    cdef char *movable              # for `fill`: which values of the chosen branch nobody reads afterwards

    cdef int choose(self) except -1
    cdef int fill(self, int side, bint move) except -1
