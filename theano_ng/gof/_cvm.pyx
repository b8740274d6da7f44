"""The compiled virtual machine, which runs a flat array of nodes.

Between two C nodes, no Python object is created and no Python function is called. A step consists of a C function
pointer with its data, and the cells to empty after the node. Lazy graphs, and calls for a subset of the outputs, are
evaluated on demand with an explicit stack.

The machine runs a `gof.program.Program`. `gof.vm.Loop`, `LoopGC` and `Stack` are the equivalent Python machines.
"""
import operator

from libc.string cimport memcpy, memset
cimport numpy as cnp

from theano_ng.gof._native cimport (
    LIVE_MACHINES, Array, CThunk, LazyBranch, NativeThunk, WorkQueue, allocate, array_dim, array_itemsize, array_ndim, array_type,
    count_live, free_arena, has_flags, is_exact_array, open_queue, plain_numbers)
from theano_ng.gof.cells cimport cell_of, decref, empty, incref, peek, put_owned, refcount, take

cnp.import_array()

cdef extern from "Python.h":
    PyObject *PyObject_CallNoArgs(PyObject *callable)
    PyObject *PyErr_Occurred()
    void PyErr_Clear()

cdef extern from "numpy/arrayobject.h":
    PyObject *array_base "PyArray_BASE"(Array *array) noexcept

cdef extern from "time.h" nogil:
    ctypedef long time_t
    struct timespec:
        time_t tv_sec
        long tv_nsec
    int clock_gettime(int clock, timespec *now)
    int CLOCK_MONOTONIC


cdef inline double seconds() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return now.tv_sec + 1e-9 * now.tv_nsec


cdef inline int execute(Step *step) noexcept:
    """Run a step's thunk. Return 0, or -1 with an exception set."""
    cdef PyObject *result
    if step.run != NULL:
        return step.run(step.data)
    result = PyObject_CallNoArgs(step.thunk)
    if result == NULL:
        return -1
    decref(result)
    return 0


# The maximum size in bytes of an array that is kept for the next run. The data structures of a node take about as much
# memory as such an array. For a larger array, the allocation takes little time in comparison with the computation.
cdef enum:
    SPARE_LIMIT = 1024


cdef inline bint is_spare(PyObject *value) noexcept:
    """Return True if a value is a small array of plain numbers that owns its memory and has only one reference."""
    cdef Array *array = <Array *>value
    cdef size_t size
    cdef int d
    if not (refcount(value) == 1 and is_exact_array(value) and has_flags(array, cnp.NPY_ARRAY_OWNDATA)
            and plain_numbers(array_type(array))):
        return False
    size = array_itemsize(array)
    for d in range(array_ndim(array)):
        size *= array_dim(array, d)
        if size > SPARE_LIMIT:
            return False
    return True


cdef inline void discard(CLazyLinker self, int r) noexcept:
    """Free a variable's value, or keep it for the next run if it is a small array.

    The step that computed the array can then write into it again, which is cheaper than allocating a new array.
    """
    cdef PyObject *value = take(self.cells[r])
    cdef PyObject *base
    cdef int home = self.home[r]
    if home >= 0 and refcount(value) == 1 and is_exact_array(value) and self.spare[home] == NULL:
        base = array_base(<Array *>value)
        if base != NULL:
            # the value may be the last view of `base`: keep `base` instead of the view
            incref(base)
            decref(value)
            value = base
        if is_spare(value):
            self.spare[home] = value
            return
    decref(value)


cdef inline void lend(CLazyLinker self, Step *step) noexcept:
    """Put the kept arrays of a step's outputs into the cells of the outputs, where the thunk finds its output buffers.
    """
    cdef PyObject *value
    cdef int j
    for j in range(step.n_out):
        value = self.spare[step.outs[j]]
        if value != NULL:
            self.spare[step.outs[j]] = NULL
            put_owned(self.cells[step.outs[j]], value)


def checked_request(node, needed, int n_inputs):
    """Return the indices of the inputs that a lazy thunk requests, without duplicates.

    Parameters
    ----------
    node : Apply
    needed : iterable of int
        The value that the thunk returned.
    n_inputs : int

    Returns
    -------
    list of int

    Raises
    ------
    TypeError, IndexError
        If `needed` is not an iterable of indices of inputs.
    """
    try:
        needed = list(dict.fromkeys([operator.index(j) for j in needed]))
    except TypeError:
        raise TypeError("the lazy thunk of %s returned %r; it has to return the numbers of the inputs that it needs next, or an empty "
                        "list when it is done" % (node, needed)) from None
    for j in needed:
        if not 0 <= j < n_inputs:
            raise IndexError("the lazy thunk of %s asks for input %d; it has the inputs 0 to %d" % (node, j, n_inputs - 1))
    return needed


cdef int set_thunk(Step *step, thunk) except -1:
    """Make a step run a thunk. If the thunk has a C function, the step calls this function.

    LazyBranch is the only class of lazy thunks with a C function. The step calls any other lazy thunk through Python.
    """
    forget_site(step)
    step.thunk = <PyObject *>thunk
    step.branch = NULL
    step.run = NULL
    step.queue = NULL
    step.keeps_queue = False
    if step.lazy and isinstance(thunk, LazyBranch):
        # `ask_branch` relies on the order of the node's inputs: the condition, the values of both branches
        if 1 + 2 * (<LazyBranch>thunk).branch_size != step.n_inputs or (<LazyBranch>thunk).branch_size != step.n_out:
            raise ValueError("the branches have %d values each, but the node has %d inputs and %d outputs" % (
                (<LazyBranch>thunk).branch_size, step.n_inputs, step.n_out))
        step.branch = step.thunk
    if isinstance(thunk, CThunk) and (step.branch != NULL or not step.lazy):
        step.data, step.run = (<CThunk>thunk).data, (<CThunk>thunk).run
        step.queue, step.keeps_queue = (<CThunk>thunk).queue, (<CThunk>thunk).keeps_queue
    return 0


cdef void forget_site(Step *step) noexcept:
    if step.site != NULL:
        step.queue.forget(step.queue, step.site)
        step.site = NULL


cdef class CLazyLinker:
    """The compiled machine that runs a program.

    Parameters
    ----------
    program : Program
        See `gof.program`. Thunks of class `CThunk` run without Python. A thunk whose attribute `lazy` is true looks up
        in `compute_map` which values have been computed. Such a thunk returns the indices of the inputs that it still
        needs, or nothing when it has finished. If values are not freed, thunks get the values of the previous run as
        output buffers.

    Attributes
    ----------
    position_of_error : int
        The index of the node that failed in the latest run, or -1.
    time_thunks : bool
        Whether to measure the time of each node; see `call_times` and `call_counts`.
    need_update_inputs : bool
        Always False: the machine itself applies the updates.
    """

    def __cinit__(self, *args, **kwargs):
        count_live(LIVE_MACHINES, 1)

    def __init__(self, program):
        if self.steps != NULL:
            raise RuntimeError("a CLazyLinker can be built only once")
        self.nodes, self.thunks = list(program.nodes), list(program.thunks)
        self.function_name = str(getattr(program.fgraph, "name", None) or "").encode("utf-8", "replace")
        self.pre_call_clear = program.cells(program.clear_before)
        self.storage_map, self.compute_map = program.storage_map, program.compute_map
        self.allow_gc, self.lazy = program.allow_gc, program.lazy
        self.running = list(self.thunks)
        self.position_of_error = -1
        self.need_update_inputs = False
        self.allow_partial_eval = True
        self.owned = []
        # for each node, the variables that must be computed first: its inputs, then the outputs of its prerequisites
        required = []
        for node in self.nodes:
            before = list(node.inputs)
            for other in program.prerequisites.get(node, ()):
                before += other.outputs
            required.append(before)
        numbers = self.number_variables(program, required)
        self.reserve(numbers, required)
        self.bind_steps(numbers, required, program.clear_after or [()] * self.n_nodes)
        self.bind_outputs(numbers, program)
        self.find_homes(numbers, program)

    cdef dict number_variables(self, program, list required):
        """Return a dict from variables to numbers, and set the sizes of all tables."""
        cdef dict numbers = {}
        for node, variables in zip(self.nodes, required):
            for r in variables:
                numbers.setdefault(r, len(numbers))
            for r in node.outputs:
                numbers.setdefault(r, len(numbers))
        for r in program.fgraph.outputs:
            numbers.setdefault(r, len(numbers))
        self.n_nodes, self.n_vars, self.n_outputs = len(self.nodes), len(numbers), len(program.fgraph.outputs)
        self.n_clear, self.n_updates, self.n_first = len(self.pre_call_clear), len(program.updates), len(program.first)
        return numbers

    cdef int reserve(self, dict numbers, list required) except -1:
        """Allocate the tables, beginning with those that every step reads, and set the cells of the variables."""
        cdef size_t pointer = sizeof(void *), integer = sizeof(int)
        cdef int i, edges = 0, n = self.n_vars
        for i in range(self.n_nodes):
            edges += len(required[i])
        self.steps = <Step *>allocate(&self.arena, self.n_nodes, sizeof(Step))
        self.clear = <PyObject **>allocate(&self.arena, self.n_clear, pointer)
        self.update = <Update *>allocate(&self.arena, self.n_updates, sizeof(Update))
        self.fresh = <PyObject **>allocate(&self.arena, self.n_updates, pointer)
        self.cells = <PyObject **>allocate(&self.arena, n, pointer)
        self.flags = <PyObject **>allocate(&self.arena, n, pointer)
        self.owner = <int *>allocate(&self.arena, n, integer)
        self.clients = <int *>allocate(&self.arena, n, integer)
        self.waiting = <int *>allocate(&self.arena, n, integer)
        self.spare = <PyObject **>allocate(&self.arena, n, pointer)
        self.home = <int *>allocate(&self.arena, n, integer)
        self.keep = <char *>allocate(&self.arena, n, 1)
        self.computed = <char *>allocate(&self.arena, n, 1)
        # The stack is large enough: it begins with one variable, and each edge (a node and a variable in the `required`
        # list of the node) pushes its variable at most once.
        self.stack = <int *>allocate(&self.arena, n + edges + 1, integer)
        self.outputs = <int *>allocate(&self.arena, self.n_outputs, integer)
        self.output_order = <int *>allocate(&self.arena, self.n_outputs, integer)
        self.is_update = <char *>allocate(&self.arena, self.n_outputs, 1)
        self.first = <int *>allocate(&self.arena, self.n_first, integer)
        self.times = <double *>allocate(&self.arena, self.n_nodes, sizeof(double))
        self.counts = <long long *>allocate(&self.arena, self.n_nodes, sizeof(long long))
        for i in range(self.n_clear):
            self.clear[i] = self.own(self.pre_call_clear[i])
        for r, i in numbers.items():
            self.owner[i] = -1
            self.cells[i] = self.own(self.storage_map[r])
            self.flags[i] = self.own(self.compute_map.setdefault(r, [False]))
        return 0

    cdef int bind_steps(self, dict numbers, list required, freed) except -1:
        """Set up the steps: thunks, the variables that they read and compute, and the variables to free after them."""
        cdef int i, j
        cdef Step *step
        for i, node in enumerate(self.nodes):
            step = &self.steps[i]
            step.lazy = getattr(self.running[i], "lazy", False)
            step.n_in, step.n_inputs, step.n_out = len(required[i]), len(node.inputs), len(node.outputs)
            step.n_free = len(freed[i])
            set_thunk(step, self.running[i])
            self.uses_queues = self.uses_queues or step.queue != NULL
            step.ins = <int *>allocate(&self.arena, step.n_in, sizeof(int))
            step.outs = <int *>allocate(&self.arena, step.n_out, sizeof(int))
            step.free = <int *>allocate(&self.arena, step.n_free, sizeof(int))
            for j, r in enumerate(required[i]):
                step.ins[j] = numbers[r]
                if j < step.n_inputs:
                    self.clients[step.ins[j]] += 1
            for j, r in enumerate(node.outputs):
                step.outs[j] = numbers[r]
                self.owner[step.outs[j]] = i
            for j, r in enumerate(freed[i]):
                step.free[j] = numbers[r]
        for i in range(self.n_vars):
            self.keep[i] = self.owner[i] < 0
        return 0

    cdef int bind_outputs(self, dict numbers, program) except -1:
        """Set up the outputs, the order in which they are requested, and the updates."""
        cdef int i
        outputs = program.fgraph.outputs
        sources = {update.source for update in program.updates}
        for i, r in enumerate(outputs):
            self.outputs[i] = numbers[r]
            self.keep[numbers[r]] = 1
            self.is_update[i] = r in sources
        for i, r in enumerate(program.first):
            self.first[i] = numbers[r]
        # request the outputs in the order of their nodes: the linker may have placed some nodes last, see
        # `inplace_order.overwrite_last`
        owners = [self.owner[self.outputs[i]] for i in range(self.n_outputs)]
        for i, which in enumerate(sorted(range(self.n_outputs), key=owners.__getitem__)):
            self.output_order[i] = which
        for i, update in enumerate(program.updates):
            self.update[i].destination = self.own(self.storage_map[update.destination])
            self.update[i].source = self.own(self.storage_map[update.source])
            self.update[i].release = update.release
        return 0

    cdef int find_homes(self, dict numbers, program) except -1:
        """Find, for each variable that is freed, the first variable that was computed in the same memory.

        A freed array is kept for the first variable (see `discard`) if a native thunk computes the first variable, and
        runs do not clear its cell when they begin. The entries of all other variables in `home` are -1.
        """
        cdef int i, o
        cdef Step *step
        for i in range(self.n_vars):
            self.home[i] = i if self.owner[i] >= 0 else -1
        for node in self.nodes:
            for table in (getattr(node.op, "view_map", None) or {}, getattr(node.op, "destroy_map", None) or {}):
                for o, places in table.items():
                    if places:
                        self.home[<int>numbers[node.outputs[o]]] = self.home[<int>numbers[node.inputs[places[0]]]]
        held = {numbers[r] for r in program.clear_before}
        freed = {numbers[r] for variables in program.clear_after or () for r in variables}
        for i in range(self.n_vars):
            if self.home[i] >= 0:
                step = &self.steps[self.owner[self.home[i]]]
                if i in freed and self.home[i] not in held and isinstance(<object>step.thunk, NativeThunk):
                    step.borrows = True
                else:
                    self.home[i] = -1
        return 0

    cdef void drop_spares(self) noexcept:
        cdef PyObject *value
        cdef int i
        if self.spare == NULL:
            return
        for i in range(self.n_vars):
            value = self.spare[i]
            if value != NULL:
                self.spare[i] = NULL
                decref(value)

    def __dealloc__(self):
        cdef int i
        self.drop_spares()
        for i in range(self.n_nodes if self.steps != NULL else 0):
            forget_site(&self.steps[i])
        free_arena(&self.arena)
        count_live(LIVE_MACHINES, -1)

    cdef PyObject *own(self, cell) except NULL:
        self.owned.append(cell)
        return cell_of(cell)

    @property
    def call_times(self):
        """The time in seconds that each node has taken."""
        return [self.times[i] for i in range(self.n_nodes)]

    @property
    def call_counts(self):
        """The number of runs of each node."""
        return [self.counts[i] for i in range(self.n_nodes)]

    def reset_timing(self):
        """Set the nodes' times and counts to zero."""
        memset(self.times, 0, self.n_nodes * sizeof(double))
        memset(self.counts, 0, self.n_nodes * sizeof(long long))

    def replace_thunk(self, int i, thunk):
        """Make node `i` run another thunk, beginning with the next run.

        Parameters
        ----------
        i : int
        thunk : callable
            A thunk with the same cells as the replaced thunk.
        """
        if not 0 <= i < self.n_nodes:
            raise IndexError("node %d of %d" % (i, self.n_nodes))
        cdef Step *step = &self.steps[i]
        if bool(getattr(thunk, "lazy", False)) != bool(step.lazy):
            raise ValueError("a lazy thunk cannot replace one that is not lazy, nor the reverse")
        old = self.running[i]       # keep the old thunk alive until the step no longer points to it
        self.thunks[i] = self.running[i] = thunk
        step.borrows = step.borrows and isinstance(thunk, NativeThunk)
        set_thunk(step, thunk)
        self.uses_queues = self.uses_queues or step.queue != NULL

    cdef int run(self, list subset) except -1:
        self.compute(subset)
        self.apply_updates()
        return 0

    cdef int compute(self, list subset) except -1:
        """Run the nodes, but apply no updates. The caller calls `apply_updates` when no error can occur any longer."""
        cdef int i
        self.position_of_error = -1
        for i in range(self.n_clear):
            empty(self.clear[i])
        if self.uses_queues:
            self.run_with_queues(subset)
        elif self.lazy or subset is not None:
            self.run_needed(subset)
        else:
            self.run_all()
        return 0

    cdef int run_with_queues(self, list subset) except -1:
        """Run the nodes, and give the work that they leave in a queue to the device."""
        self.opened_queue = NULL
        try:
            if self.lazy or subset is not None:
                self.run_needed(subset)
            else:
                self.run_all()
        except BaseException:
            if self.opened_queue != NULL and self.opened_queue.close(self.opened_queue) != 0:
                PyErr_Clear()       # the first error is raised
            raise
        if self.opened_queue != NULL:
            self.close_queue(self.opened_queue, self.n_nodes - 1)
        return 0

    cdef WorkQueue *common_queue(self) noexcept:
        """Return the queue that all steps use that need one. Return NULL if a step must run without a queue."""
        cdef WorkQueue *found = NULL
        cdef Step *step
        cdef int i
        for i in range(self.n_nodes):
            step = &self.steps[i]
            if step.keeps_queue:
                continue
            if step.lazy or step.queue == NULL or (found != NULL and step.queue != found):
                return NULL
            found = step.queue
        return found

    cdef int change_queue(self, Step *step, int i) except -1:
        """Close the open queue. Open the queue of step `i`, unless the times of the nodes are measured."""
        if open_queue != NULL:
            self.close_queue(open_queue, i)
        elif self.opened_queue != NULL:
            self.close_queue(self.opened_queue, i)      # report an error of work that was given to the device meanwhile
        if step.queue != NULL and not self.time_thunks:
            step.queue.step = i
            step.queue.function = self.function_name
            step.queue.open(step.queue, &step.site)
            self.opened_queue = open_queue
        return 0

    cdef int close_queue(self, WorkQueue *queue, int i) except -1:
        """Give the collected work to the device. If this fails, record the step of the work that failed, or step `i` if
        another machine has opened the queue.
        """
        if queue.close(queue) != 0:
            self.position_of_error = queue.failed if queue == self.opened_queue else i
            return -1
        if queue == self.opened_queue:
            self.opened_queue = NULL
        return 0

    cdef int run_all(self) except -1:
        cdef Step *step = self.steps
        cdef int i, j
        for i in range(self.n_nodes):
            if self.uses_queues:
                self.use_queue(step, i)
            if step.borrows:
                lend(self, step)
            if self.time_thunks:
                self.run_timed(i)
            elif execute(step) != 0:
                return self.failed(i)
            for j in range(step.n_free):
                discard(self, step.free[j])
            step += 1
        return 0

    cdef int failed(self, int i) except -1:
        """Record the node that failed, and propagate the exception that is set."""
        self.position_of_error = i
        if PyErr_Occurred() == NULL:
            raise RuntimeError("the C code of %s failed and set no exception" % (self.nodes[i],))
        return -1

    cdef int run_timed(self, int i) except -1:
        """Run a node and measure its time."""
        cdef double start = seconds()
        if execute(&self.steps[i]) != 0:
            return self.failed(i)
        self.times[i] += seconds() - start
        self.counts[i] += 1
        return 0

    cdef list ask_lazy(self, int i):
        """Run a lazy thunk. Return the indices of the inputs that the thunk still needs, or None if it is done."""
        cdef Step *step = &self.steps[i]
        cdef int j
        cdef double start = 0
        # store the flags in the cells of compute_map, which the thunk reads and writes
        for j in range(step.n_inputs):
            (<list>self.flags[step.ins[j]])[0] = self.computed[step.ins[j]]
        for j in range(step.n_out):
            (<list>self.flags[step.outs[j]])[0] = 0
        if self.time_thunks:
            start = seconds()
        try:
            needed = (<object>step.thunk)()
        except BaseException:
            self.position_of_error = i
            raise
        if self.time_thunks:
            self.times[i] += seconds() - start
        if not needed:
            if self.time_thunks:
                self.counts[i] += 1
            return None
        try:
            needed = checked_request(self.nodes[i], needed, step.n_inputs)
            needed = [j for j in needed if not self.computed[step.ins[<int>j]]]
            if not needed:
                raise RuntimeError("the lazy thunk of %s asks for inputs that are already computed" % (self.nodes[i],))
        except BaseException:
            self.position_of_error = i
            raise
        return needed

    cdef int ask_branch(self, int i, int top) except -2:
        """Push the inputs that a LazyBranch still needs, and return the new top of the stack.

        If the LazyBranch needs no more inputs, put the values of the chosen branch into the outputs, and return -1.
        """
        cdef Step *step = &self.steps[i]
        cdef LazyBranch branch = <LazyBranch>step.branch
        cdef int *ins = step.ins
        cdef int j, side, ready = 1
        cdef double start = 0
        if not self.computed[ins[0]]:
            self.stack[top + 1] = ins[0]
            return top + 1
        if self.time_thunks:
            start = seconds()
        try:
            side = branch.choose()
            ins += 1 + side * branch.branch_size
            for j in range(branch.branch_size - 1, -1, -1):
                if not self.computed[ins[j]]:
                    ready = 0
                    top += 1
                    self.stack[top] = ins[j]
            if ready:
                for j in range(branch.branch_size):
                    # the value may be moved if this node is its only remaining reader
                    branch.movable[j] = self.allow_gc and self.waiting[ins[j]] == 1 and not self.keep[ins[j]]
                branch.fill(side, self.allow_gc)
        except BaseException:
            self.position_of_error = i
            raise
        if self.time_thunks:
            self.times[i] += seconds() - start
            self.counts[i] += ready
        return -1 if ready else top

    cdef int run_needed(self, list subset) except -1:
        """Compute the variables that the requested outputs and the updates need.

        The order is depth first, with an explicit stack of variables.
        """
        cdef int *stack = self.stack
        cdef int top, pushed, i, j, r, k, place, ready
        cdef Step *step
        cdef list needed
        cdef set wanted = None if subset is None else set(subset)
        for i in range(self.n_vars):
            self.computed[i] = self.owner[i] < 0
        memcpy(self.waiting, self.clients, self.n_vars * sizeof(int))
        for place in range(-self.n_first, self.n_outputs):
            if place < 0:
                stack[0] = self.first[self.n_first + place]
            else:
                k = self.output_order[place]
                if wanted is not None and not self.is_update[k] and k not in wanted:
                    continue
                stack[0] = self.outputs[k]
            top = 0
            while top >= 0:
                r = stack[top]
                if self.computed[r]:
                    top -= 1
                    continue
                i = self.owner[r]
                step = &self.steps[i]
                # Push the variables that must be computed before this node and are not computed yet: the prerequisites
                # of a node that overwrites an input, and the inputs of a node that is not lazy. A lazy node requests
                # its inputs itself.
                ready = 1
                for j in range(step.n_in - 1, (step.n_inputs if step.lazy else 0) - 1, -1):
                    if not self.computed[step.ins[j]]:
                        ready = 0
                        top += 1
                        stack[top] = step.ins[j]
                if not ready:
                    continue
                if self.uses_queues:
                    self.use_queue(step, i)
                if step.branch != NULL:
                    pushed = self.ask_branch(i, top)
                    if pushed >= 0:
                        top = pushed
                        continue
                elif step.lazy:
                    needed = self.ask_lazy(i)
                    if needed is not None:
                        for which in reversed(needed):
                            top += 1
                            stack[top] = step.ins[<int>which]
                        continue
                elif self.time_thunks:
                    self.run_timed(i)
                elif execute(step) != 0:
                    return self.failed(i)
                for j in range(step.n_out):
                    self.computed[step.outs[j]] = 1
                if self.allow_gc:
                    for j in range(step.n_inputs):
                        r = step.ins[j]
                        self.waiting[r] -= 1
                        if self.waiting[r] == 0 and not self.keep[r]:
                            empty(self.cells[r])
                    for j in range(step.n_out):
                        r = step.outs[j]
                        if self.clients[r] == 0 and not self.keep[r]:
                            empty(self.cells[r])
                top -= 1
        if self.allow_gc:
            # free the values whose remaining readers did not run, because this run did not need them
            for r in range(self.n_vars):
                if not self.keep[r]:
                    empty(self.cells[r])
        if not self.lazy:
            # mark all variables as computed: a later call of `run_all` also calls lazy thunks, which read these flags
            for r in range(self.n_vars):
                (<list>self.flags[r])[0] = True
        if wanted is not None:
            # clear outputs that this call did not compute, because they hold results of an earlier call
            for k in range(self.n_outputs):
                r = self.outputs[k]
                if not self.computed[r]:
                    empty(self.cells[r])
        return 0

    cdef void apply_updates(self) noexcept:
        """Move the new values into the inputs' cells.

        All new values are read before the first cell is written, because the new value of one input may be the old
        value of another input.
        """
        cdef int i
        cdef Update *update
        for i in range(self.n_updates):
            self.fresh[i] = peek(self.update[i].source)
            incref(self.fresh[i])
        for i in range(self.n_updates):
            update = &self.update[i]
            if update.release:
                empty(update.source)
        for i in range(self.n_updates):
            put_owned(self.update[i].destination, self.fresh[i])

    def __call__(self, output_subset=None, Py_ssize_t n_calls=1):
        """Run the program. It reads its inputs from cells and leaves its results in cells.

        Parameters
        ----------
        output_subset : list of int, optional
            The indices of outputs. Only these outputs (and the updates) are computed.
        n_calls : int
            The number of runs, each with updates. If it is below 1, nothing runs.
        """
        cdef list subset = None if output_subset is None else list(output_subset)
        cdef Py_ssize_t i
        for i in range(n_calls):
            self.run(subset)
