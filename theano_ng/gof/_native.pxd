from libc.stdint cimport int64_t
from cpython.object cimport PyObject

cimport numpy as cnp


cdef extern from "numpy/arrayobject.h":
    ctypedef struct Array "PyArrayObject":
        pass
    bint is_array "PyArray_Check"(PyObject *value) noexcept
    bint is_exact_array "PyArray_CheckExact"(PyObject *value) noexcept
    int array_type "PyArray_TYPE"(Array *array) noexcept
    int array_ndim "PyArray_NDIM"(Array *array) noexcept
    bint behaved "PyArray_ISBEHAVED_RO"(Array *array) noexcept
    bint has_flags "PyArray_CHKFLAGS"(Array *array, int flags) noexcept
    void *array_descr "PyArray_DESCR"(Array *array) noexcept
    cnp.npy_intp array_dim "PyArray_DIM"(Array *array, int d) noexcept
    size_t array_itemsize "PyArray_ITEMSIZE"(Array *array) noexcept


cdef inline bint plain_numbers(int number) noexcept:
    """Whether a type number is one of the fixed-size numeric ones."""
    return number <= cnp.NPY_CLONGDOUBLE or number == cnp.NPY_FLOAT16


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
    cdef public list computed        # flags of the outputs in a compute_map, for callers in Python; None: nobody reads them


cdef struct Operand:
    PyObject *cell          # borrowed, the thunk's lists own them
    void *descr             # NumPy's own descriptor of the layout's type; NULL where any value will do
    int ndim
    int layout              # what the array has to be, see NativeThunk; -1 where nothing is known


cdef struct NativeCall:
    native_fn function
    int nin
    int nout
    Operand *operands       # nin inputs, then nout outputs
    PyObject **values       # room for nin + nout values
    int64_t *words
    char *copied            # for each input, whether the current call works on a copy


cdef class NativeThunk(CThunk):
    cdef Arena arena
    cdef NativeCall call
    cdef int64_t *scratch   # what one of the words leads to; NULL: none does
    cdef object keep        # whatever owns the function's code
    cdef int64_t program    # of an interpreter, 0: none


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
