"""Declarations of the compiled virtual machine for `compile._function`."""
from cpython.object cimport PyObject

from theano_ng.gof._native cimport Arena, WorkQueue, open_queue, thunk_fn


cdef struct Step:
    # One node. `run` is NULL for a thunk that is a Python callable.
    thunk_fn run
    void *data
    PyObject *thunk         # borrowed from the list `running`
    PyObject *branch        # the same as `thunk` if it is a LazyBranch, otherwise NULL
    bint lazy
    int n_in                # number of variables to compute before the node: its inputs, then its prerequisites
    int n_inputs            # number of the node's inputs, which are the first of the `n_in` variables
    int n_out
    int n_free
    int *ins                # variable numbers
    int *outs
    int *free               # variables to free after the node
    WorkQueue *queue        # the queue of the thunk; NULL if there is none
    bint keeps_queue        # whether the thunk can run while any queue is open
    void *site              # what the queue has learned about the steps that begin here; NULL if it has not been open
    bint borrows            # whether `discard` may have kept output buffers for the thunk


cdef struct Update:
    PyObject *destination   # the updated input's cell (borrowed)
    PyObject *source
    bint release            # whether to empty the source, because its value then belongs to the destination only


cdef class CLazyLinker:
    cdef public list nodes
    cdef public list thunks
    cdef public list pre_call_clear
    cdef public dict storage_map
    cdef public dict compute_map
    cdef public bint allow_gc
    cdef public bint lazy
    cdef public bint time_thunks
    cdef public bint need_update_inputs
    cdef public int position_of_error
    cdef public bint allow_partial_eval
    cdef bint uses_queues           # whether a step has a queue
    cdef bytes function_name        # for messages
    cdef WorkQueue *opened_queue    # the queue that this machine has opened last in the current run, or NULL
    cdef list owned                 # keeps the cells alive that C structures point to
    cdef list running               # keeps the thunks alive; `thunks` is public and may be changed
    cdef int n_nodes, n_vars, n_clear, n_updates, n_outputs, n_first
    cdef Step *steps
    cdef PyObject **clear
    cdef Update *update
    cdef PyObject **fresh           # space for the updates' values
    cdef int *outputs               # variable numbers of the graph's outputs
    cdef int *output_order          # the indices of the outputs in the order in which they are requested
    cdef char *is_update            # for each output, whether it is the new value of an updated input
    cdef int *first                 # variable numbers of the variables that are computed on demand before the outputs
    # The following tables are indexed by variable number.
    cdef PyObject **cells
    cdef PyObject **flags           # the cells of compute_map
    cdef int *owner                 # the step that computes the variable, or -1
    cdef int *clients               # the number of steps that read the variable
    cdef char *keep                 # whether the variable is never freed: outputs, and variables that no step computes
    cdef char *computed
    cdef PyObject **spare           # the output buffer for the next run, or NULL; owned
    cdef int *home                  # the index in `spare` where `discard` keeps the variable's array, or -1
    cdef int *waiting
    cdef int *stack
    cdef double *times
    cdef long long *counts
    cdef Arena arena                # owns the memory of all these tables

    cdef dict number_variables(self, program, list required)
    cdef int reserve(self, dict numbers, list required) except -1
    cdef int bind_steps(self, dict numbers, list required, freed) except -1
    cdef int find_homes(self, dict numbers, program) except -1
    cdef int bind_outputs(self, dict numbers, program) except -1
    cdef void drop_spares(self) noexcept
    cdef PyObject *own(self, cell) except NULL
    cdef int failed(self, int i) except -1
    cdef list ask_lazy(self, int i)

    cdef WorkQueue *common_queue(self) noexcept
    cdef inline int use_queue(self, Step *step, int i) except -1:
        """Open the queue of step `i`, or close the open queue, if the step needs this."""
        if step.queue != open_queue and not step.keeps_queue:
            self.change_queue(step, i)
        elif open_queue != NULL and open_queue == self.opened_queue:
            open_queue.step = i
        return 0
    cdef int change_queue(self, Step *step, int i) except -1
    cdef int close_queue(self, WorkQueue *queue, int i) except -1
    cdef int run(self, list subset) except -1
    cdef int compute(self, list subset) except -1
    cdef int run_with_queues(self, list subset) except -1
    cdef int run_all(self) except -1
    cdef int run_needed(self, list subset) except -1
    cdef int run_timed(self, int i) except -1
    cdef void apply_updates(self) noexcept
    cdef int ask_branch(self, int i, int top) except -2
