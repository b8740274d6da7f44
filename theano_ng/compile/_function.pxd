"""The hot path of compiled functions."""
from cpython.object cimport PyObject

from theano_ng.compile._scalars cimport Number
from theano_ng.gof._cvm cimport CLazyLinker
from theano_ng.gof._native cimport Arena


cdef class CallGate:
    """Lets one thread at a time into a function (or into functions that share memory)."""
    cdef bint busy
    cdef unsigned long owner
    cdef object condition
    cdef int waiting

    cdef int enter(self, function) except -1
    cdef int wait(self, function, unsigned long me) except -1
    cdef bint waits_for(self, unsigned long me) except -1
    cdef int leave(self) except -1


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
    cdef list saved                     # (cell, old value) of state that a call overwrites
    cdef list guarded                   # cells of state that the graph changes in place; None when no failure can come after that
    cdef list exposed                   # those of them that are overwritten when a node can fail on values; None when there are none
    cdef list backups                   # (cell, value, copy of the value) of these, during a call that may fail
    cdef bint always_guard              # whether the guarded cells are copied in every call
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
    cdef int guard(self) except -1
    cdef int guard_exposed(self) except -1
    cdef int end_guard(self, bint failed) except -1
    cdef int restore_inputs(self, bint failed) except -1
    cdef object results(self, list subset)
    cdef int explain_failure(self) except -1
    cdef int run(self, list subset) except -1
    cdef object profiled_call(self, tuple args, dict kwargs)
    cdef object plain_call(self, tuple args, dict kwargs)
