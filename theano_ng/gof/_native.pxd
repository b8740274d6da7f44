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
    """Return True if a type number denotes a numeric type of fixed size."""
    return number <= cnp.NPY_CLONGDOUBLE or number == cnp.NPY_FLOAT16


ctypedef int (*thunk_fn)(void *data) noexcept
ctypedef int (*native_fn)(int nin, int nout, PyObject **ins, PyObject **outs, const int64_t *params) noexcept


# Indices of the counters that `live_objects` returns.
cdef enum:
    LIVE_BLOCKS
    LIVE_THUNKS
    LIVE_MACHINES
    LIVE_FUNCTIONS
    N_LIVE

cdef void count_live(int kind, int change) noexcept


cdef extern from "work_queue.h":
    ctypedef struct WorkQueue:
        void (*open)(WorkQueue *, void **site) noexcept
        int (*close)(WorkQueue *) noexcept
        void (*forget)(WorkQueue *, void *site) noexcept
        const char *function
        int step
        int failed

# The queue of a device that collects work now, or NULL. Only the functions of the queue change this pointer.
cdef WorkQueue *open_queue


cdef struct Block:
    Block *older
    long long first         # the beginning of the block's memory


cdef struct Arena:
    # Zeroed memory that is freed as a whole. Allocated memory never moves.
    Block *blocks           # the newest block is first
    char *next
    size_t left             # free bytes in the newest block
    size_t size             # bytes of the newest block

cdef void *allocate(Arena *arena, size_t count, size_t size) except NULL
cdef void free_arena(Arena *arena) noexcept


cdef class CThunk:
    """A thunk that a virtual machine calls without Python. `run(data)` returns 0, or another number with an exception
    set.
    """
    cdef thunk_fn run
    cdef void *data
    cdef public list inputs
    cdef public list outputs
    cdef public bint lazy
    cdef public object node          # for error messages; not used at run time
    cdef public list computed        # compute_map cells of the outputs, set by calls from Python, or None
    cdef WorkQueue *queue            # the queue that collects the work of the thunk; NULL if there is none
    cdef bint keeps_queue            # whether the thunk can run while any queue is open


cdef struct Operand:
    PyObject *cell          # borrowed; the thunk's lists own it
    void *descr             # NumPy's built-in dtype for the layout; NULL if any value is allowed
    int ndim
    int layout              # required type and rank of the array, see NativeThunk; -1 if unknown


cdef struct NativeCall:
    native_fn function
    int nin
    int nout
    Operand *operands       # nin inputs, then nout outputs
    PyObject **values       # space for nin + nout values
    int64_t *params
    char *copied            # for each input, whether the current call uses a copy


cdef class NativeThunk(CThunk):
    cdef Arena arena
    cdef NativeCall call
    cdef int64_t *scratch   # the memory that one of the parameters points to, or NULL
    cdef object keep        # the object that owns the function's code
    cdef tuple programs     # the addresses of interpreter programs that run until kernels are compiled


cdef class CapsuleThunk(CThunk):
    cdef object capsule
    cdef public list error_storage
    cdef thunk_fn compiled
    cdef void *compiled_data


cdef class LazyBranch(CThunk):
    cdef readonly int branch_size   # number of values in a branch
    cdef readonly bint view
    cdef object copy
    cdef object owned               # the cells and flags that the pointers refer to
    cdef Arena arena
    cdef PyObject *condition
    cdef PyObject **sides           # cells of the first branch, then of the second branch
    cdef PyObject **results
    cdef char *movable              # for each value of the chosen branch, whether `fill` may move it

    cdef int choose(self) except -1
    cdef int fill(self, int side, bint move) except -1
