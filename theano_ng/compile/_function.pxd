"""The hot path of compiled functions."""
from cpython.object cimport PyObject

from theano_ng.compile._scalars cimport Number
from theano_ng.gof._cvm cimport CLazyLinker
from theano_ng.gof._native cimport Arena


ctypedef void *PyThread_type_lock


cdef struct Waiter:
    # A thread that waits, on its stack.
    PyThread_type_lock lock     # held until the turn is offered
    bint offered
    Waiter *next


cdef class CallGate:
    """Lets one thread at a time into a function (or into functions that share memory)."""
    cdef bint busy
    cdef unsigned long owner
    cdef unsigned long forks    # how many there had been when the owner came in
    cdef PyObject *inside       # the function that the owner calls; borrowed
    cdef Waiter *first          # the thread that has waited longest, and behind it the others

    cdef int enter(self, FunctionBase function) except -1
    cdef int wait(self, FunctionBase function, unsigned long me) except -1
    cdef bint waits_for(self, unsigned long me) except -1
    cdef void queue(self, Waiter *waiter) noexcept
    cdef void unqueue(self, Waiter *waiter) noexcept
    cdef void offer(self) noexcept
    cdef void forget_other_threads(self) noexcept
    cdef void leave(self) noexcept


cdef struct Quick:
    # How an argument is recognised as ready for use. `typenum` is -1 when only the Type itself can tell.
    int typenum
    int ndim
    int broadcast           # bit d: the length of axis d must be 1
    unsigned int held       # 0-d arrays: bit n is set when an array of type number n is taken too, whatever its value
    bint scalar             # a number may become a 0-d array without asking
    char role               # what to do with the cell after a call


cdef struct Pair:
    # An input that is changed in place, and one that must not show it.
    int changed
    int other
    int copy


cdef class FunctionBase:
    cdef object _fn
    cdef CLazyLinker vm                 # `fn`, when it is the compiled machine
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
    cdef list copied_defaults           # numbers of the inputs that get a copy of their default after a call; None when there are none
    cdef list next_defaults             # these copies, during a call
    cdef list updates                   # (cell of an input, cell of an output, whether that is emptied)
    cdef list fresh                     # room for the updates' values
    cdef list saved                     # (cell, old value) of state that a call overwrites
    # cells of state that the graph changes in place, None for an empty list: all of it; what is lost when a node fails on shapes that are new;
    # when one fails for whatever reason; when one of the package's native nodes fails on values, or for want of memory
    cdef list guarded, new_shapes, exposed, exposed_if_small
    cdef list backups                   # (cell, value, copy of the value) of these, during a call that may fail
    cdef bint always_guard              # whether the guarded cells are copied in every call
    cdef bint updates_are_ours          # whether `fn` leaves them to us
    cdef set proven_shapes              # of calls that went well
    cdef long shapes, last_shapes
    cdef int n_in, n_positional, n_returned, n_pairs
    cdef Arena arena                    # where the following are
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
