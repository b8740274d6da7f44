"""Declarations of `_function.pyx`, the call of a compiled function."""
from cpython.object cimport PyObject

from theano_ng.compile._scalars cimport Number
from theano_ng.gof._cvm cimport CLazyLinker
from theano_ng.gof._native cimport Arena


ctypedef void *PyThread_type_lock


cdef struct Waiter:
    # A waiting thread: an element of a linked list, allocated on the stack of the waiting thread.
    PyThread_type_lock lock     # held until the thread is woken
    bint offered                # whether the thread has been woken
    Waiter *next                # the thread that began to wait after this thread, or NULL


cdef class CallGate:
    """A lock that lets one thread at a time run a function (or functions that share memory)."""
    cdef bint busy
    cdef unsigned long owner    # identifier of the thread that holds the gate
    cdef unsigned long forks    # number of forks when the owner entered
    cdef PyObject *inside       # the function that the owner runs (borrowed reference)
    cdef Waiter *first          # queue of waiting threads, the longest wait first

    cdef int enter(self, FunctionBase function) except -1
    cdef int wait(self, FunctionBase function, unsigned long me) except -1
    cdef bint waits_for(self, unsigned long me) except -1
    cdef void queue(self, Waiter *waiter) noexcept
    cdef void unqueue(self, Waiter *waiter) noexcept
    cdef void offer(self) noexcept
    cdef void forget_other_threads(self) noexcept
    cdef void leave(self) noexcept


cdef struct Quick:
    # The fast test of an argument: an argument that passes is used without a call of the Type's `filter`.
    int typenum             # NumPy's type number, or -1 when the Type has no fast test
    int ndim
    int broadcast           # bit d is set when the length of axis d must be 1
    unsigned int held       # for 0-d inputs: bit n is set when 0-d arrays of type number n convert without loss
    bint scalar             # whether `set_input` may convert a scalar to a 0-d array
    char role               # the treatment of the cell after a call: EMPTIED, REFED, STATE or IMPLICIT


cdef struct Pair:
    # Positions of two inputs that must not share memory, because the graph changes one of them in place.
    int changed             # the input that is changed
    int other               # the other input
    int copy                # the input that is copied if both share memory: `changed` or `other`


cdef class FunctionBase:
    cdef object _fn
    cdef CLazyLinker vm                 # `fn` if it is a CLazyLinker, else None
    cdef public bint trust_input
    cdef public bint unpack_single
    cdef public bint return_none
    cdef public object profile
    cdef public object output_keys
    cdef public object name
    cdef public list input_storage
    cdef public list output_storage
    cdef CallGate gate
    cdef list in_cells, out_cells, types, defaults_, owned
    cdef list copied_defaults           # positions of inputs that get a copy of their default after a call, or None
    cdef list next_defaults             # during a call: the copies of the defaults of `copied_defaults`
    cdef list updates                   # tuples (input cell, output cell, whether the output cell is emptied)
    cdef list fresh                     # preallocated space for the new values of the updated inputs
    cdef list saved                     # (cell, old value) of each state input for which the caller gave a value
    # Cells of state that the graph changes in place. An empty list is stored as None.
    #   guarded: all such cells
    #   new_shapes: cells whose state would be lost if a node failed because its arguments have new shapes
    #   exposed: cells whose state would be lost if a node failed that runs Python code or a user's code
    #   exposed_if_small: cells whose state would be lost if a native node of the package failed because of certain
    #   values or lack of memory
    cdef list guarded, new_shapes, exposed, exposed_if_small
    cdef list backups                   # (cell, value, backup of the value), during a call that may fail
    cdef bint always_guard              # whether the guarded cells are copied in every call
    cdef bint updates_are_ours          # whether this class has to apply the updates, because `fn` does not
    cdef set proven_shapes              # hashes of the argument shapes of calls that succeeded
    cdef long shapes, last_shapes       # hash of the shapes of this call, or -1; last hash found in `proven_shapes`
    cdef int n_in, n_positional, n_returned, n_pairs
    cdef Arena arena                    # owns the memory of the following arrays
    cdef Quick *quick
    cdef Pair *pairs
    cdef PyObject **cells
    cdef char *clear_output

    cdef int set_input(self, int i, value) except -1
    cdef bint may_round(self, int i, value, const Number *number) except -1
    cdef int filter_input(self, int i, value) except -1
    cdef int break_aliases(self) except -1
    cdef int guard(self, list subset) except -1
    cdef bint knows_shapes(self) except -1
    cdef int keep(self, list cells, bint whatever_size) except -1
    cdef void end_guard(self, bint failed) noexcept
    cdef void note_shapes(self) noexcept
    cdef int copy_defaults(self) except -1
    cdef object room_for_results(self, list subset)
    cdef object commit(self, result, list subset)
    cdef void apply_updates(self) noexcept
    cdef void finish(self, bint failed) noexcept
    cdef void restore_inputs(self, bint failed) noexcept
    cdef int explain_failure(self) except -1
    cdef int run(self, list subset) except -1
    cdef object profiled_call(self, tuple args, dict kwargs)
    cdef object plain_call(self, tuple args, dict kwargs)
