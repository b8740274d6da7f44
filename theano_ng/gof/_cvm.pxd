"""What the compiled virtual machine lends to `compile._function`."""
from cpython.object cimport PyObject

from theano_ng.gof._native cimport Arena, thunk_fn


cdef struct Step:
    # One node. `run` is NULL for a thunk that is a Python callable.
    thunk_fn run
    void *data
    PyObject *thunk         # borrowed from the list `running`
    PyObject *branch        # the thunk again when it is a LazyBranch, or NULL
    bint lazy
    int n_in                # variables to compute before: the node's inputs, then those that must precede a destructive node
    int n_inputs            # how many of them are the node's inputs
    int n_out
    int n_free
    int *ins                # variable numbers
    int *outs
    int *free               # variables to free after the node
    bint borrows            # whether there may be arrays for the thunk to write into: see `discard`


cdef struct Update:
    PyObject *destination   # cell; borrowed
    PyObject *source
    bint release            # empty the source: its value belongs to the destination now


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
    cdef list owned                 # keeps the cells alive that C structures point to
    cdef list running               # keeps the thunks; `thunks` is for everybody to look at
    cdef int n_nodes, n_vars, n_clear, n_updates, n_outputs, n_first
    cdef Step *steps
    cdef PyObject **clear
    cdef Update *update
    cdef PyObject **fresh           # room for the updates' values
    cdef int *outputs               # variable numbers of the graph's outputs
    cdef int *output_order          # the outputs' positions as they are asked for
    cdef char *is_update            # for each output
    cdef int *first                 # variable numbers of what is computed on demand before the outputs
    # by variable number
    cdef PyObject **cells
    cdef PyObject **flags           # compute_map's cells
    cdef int *owner                 # step that computes it, or -1
    cdef int *clients               # how many steps read it
    cdef char *keep                 # never freed: outputs and what no step computes
    cdef char *computed
    cdef PyObject **spare           # an array for the next run to write into, or NULL; owned
    cdef int *home                  # where an array that is freed can be a spare one: what was computed into its memory first
    cdef int *waiting
    cdef int *stack
    cdef double *times
    cdef long long *counts
    cdef Arena arena                # where all of these are

    cdef dict number_variables(self, program, list required)
    cdef int reserve(self, dict numbers, list required) except -1
    cdef int bind_steps(self, dict numbers, list required, freed) except -1
    cdef int find_homes(self, dict numbers, program) except -1
    cdef int bind_outputs(self, dict numbers, program) except -1
    cdef void drop_spares(self) noexcept
    cdef PyObject *own(self, cell) except NULL
    cdef int failed(self, int i) except -1
    cdef list ask_lazy(self, int i)

    cdef int run(self, list subset) except -1
    cdef int compute(self, list subset) except -1
    cdef int run_all(self) except -1
    cdef int run_needed(self, list subset) except -1
    cdef int run_timed(self, int i) except -1
    cdef void apply_updates(self) noexcept
    cdef int ask_branch(self, int i, int top) except -2
