"""The call of a compiled function.

A call puts the arguments into cells, runs the graph, takes the results out of cells, and applies the updates. Users see
the class `compile.functions.object.Function`. Its base class `FunctionBase`, which does the work of each call, is in
this module.
"""
import copy
import os
import time

from cpython.exc cimport PyErr_CheckSignals
cimport numpy as cnp

from theano_ng.compile._backups cimport backup_of, bring_back, copy_list, is_generator, is_on_device, size_of
from theano_ng.compile._scalars cimport REAL, Number, as_array, fits_exactly, isfinite, read
from theano_ng.gof._native cimport LIVE_FUNCTIONS, allocate, count_live, free_arena
from theano_ng.gof.cells cimport empty, peek, put

cnp.import_array()

cdef extern from "Python.h":
    PyObject *PyTuple_GET_ITEM(PyObject *args, Py_ssize_t i) nogil
    unsigned long PyThread_get_thread_ident() nogil

cdef extern from "pythread.h":
    enum:
        WAIT_LOCK
        NOWAIT_LOCK
        PY_LOCK_INTR

    PyThread_type_lock PyThread_allocate_lock()
    void PyThread_free_lock(PyThread_type_lock lock)
    int PyThread_acquire_lock(PyThread_type_lock lock, int wait)
    int PyThread_acquire_lock_timed(PyThread_type_lock lock, long long microseconds, int interruptible) nogil
    void PyThread_release_lock(PyThread_type_lock lock)

cdef extern from "numpy/arrayobject.h":
    int PyArray_CheckExact(object value)
    int PyArray_ISBEHAVED_RO(cnp.ndarray array)
    int PyArray_ISONESEGMENT(cnp.ndarray array)

# The treatment of an input's cell after a call.
cdef enum:
    EMPTIED = 0         # the cell is emptied
    REFED = 1           # the cell gets the default value back
    STATE = 2           # the cell keeps its value, or gets the value of the update
    IMPLICIT = 3        # callers give no value; the cell is treated as for STATE

# If the values in the cells `exposed_if_small` have more bytes in total than this, their arrays are not backed up.
cdef enum:
    EXPOSED_LIMIT = 1048576


_waiting = {}       # thread identifier -> the gate that this thread waits for

# `forks` counts the forks that led to this process. Each gate records this count when a thread enters the gate, and so
# detects a later fork. A child process of `fork` has a single thread: the thread that called `fork`. The identifier of
# this thread is `survivor`.
cdef unsigned long forks = 0
cdef unsigned long survivor = 0


def after_fork():
    """Record a fork in the child process. Threads that ran or waited for functions do not exist in the child process.
    """
    global forks, survivor
    forks += 1
    survivor = PyThread_get_thread_ident()
    _waiting.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=after_fork)


cdef inline void take(CallGate self, FunctionBase function, unsigned long me) noexcept:
    """Record that a thread has entered the gate."""
    self.busy = True
    self.owner = me
    self.inside = <PyObject *>function
    self.forks = forks


cdef class CallGate:
    """A lock that lets one thread at a time run a function, or functions that share memory.

    C code may release the GIL while it runs. A second thread then waits at the gate until the first thread has its
    results.

    Without contention, entering and leaving take a few machine instructions. They run no Python code, so no signal
    handler can raise an exception between two instructions. Leaving allocates no memory.
    """

    cdef int enter(self, FunctionBase function) except -1:
        cdef unsigned long me = PyThread_get_thread_ident()
        if self.busy:
            return self.wait(function, me)
        take(self, function, me)
        return 0

    cdef int wait(self, FunctionBase function, unsigned long me) except -1:
        """Enter the gate as soon as the thread inside has left."""
        cdef Waiter mine
        cdef int status
        if self.forks != forks:
            self.forget_other_threads()
            if not self.busy:
                take(self, function, me)
                return 0
        if self.owner == me:
            raise RuntimeError(
                "%s was called while it is running: an Op in its graph calls it. Its memory holds one call at a time; let the Op "
                "call a copy (function.copy())." % (function,))
        mine.offered, mine.next = False, NULL
        mine.lock = PyThread_allocate_lock()
        if mine.lock == NULL:
            raise MemoryError()
        PyThread_acquire_lock(mine.lock, WAIT_LOCK)
        self.queue(&mine)
        try:
            _waiting[me] = self
            while self.busy:
                if self.waits_for(me):
                    raise RuntimeError(
                        "%s cannot be called here: the thread that runs it waits for a function that this thread runs, so both "
                        "threads would wait forever. Ops in these functions call each other's functions; let them call copies "
                        "(function.copy())." % (function,))
                with nogil:
                    status = PyThread_acquire_lock_timed(mine.lock, -1, 1)
                if status == PY_LOCK_INTR:
                    PyErr_CheckSignals()
                    if self.forks != forks:     # a signal handler has forked the process
                        self.forget_other_threads()
                else:
                    mine.offered = False
            take(self, function, me)
        finally:
            self.unqueue(&mine)
            _waiting.pop(me, None)
            PyThread_acquire_lock(mine.lock, NOWAIT_LOCK)
            PyThread_release_lock(mine.lock)
            PyThread_free_lock(mine.lock)
            if not self.busy and self.first != NULL:    # this thread was woken but failed: wake the next thread
                self.offer()
        return 0

    cdef void queue(self, Waiter *waiter) noexcept:
        cdef Waiter **place = &self.first
        while place[0] != NULL:
            place = &place[0].next
        place[0] = waiter

    cdef void unqueue(self, Waiter *waiter) noexcept:
        cdef Waiter **place = &self.first
        while place[0] != NULL and place[0] != waiter:
            place = &place[0].next
        if place[0] != NULL:
            place[0] = waiter.next

    cdef void offer(self) noexcept:
        """Wake the thread that has waited longest."""
        if self.forks != forks:
            self.first = NULL       # after a fork, the waiting threads exist only in the parent process
        elif not self.first.offered:
            self.first.offered = True
            PyThread_release_lock(self.first.lock)

    cdef void forget_other_threads(self) noexcept:
        """Remove the threads of the parent process from the gate, in a child process of `fork`.

        If one of these threads was inside the gate, its call is ended as a failed call: state that was backed up is
        restored.
        """
        self.first = NULL
        self.forks = forks
        if self.owner != survivor:
            (<FunctionBase>self.inside).finish(True)

    cdef bint waits_for(self, unsigned long me) except -1:
        """Return True if the thread inside waits, directly or through other threads, for a gate that thread `me` holds.

        If so, thread `me` must not wait for this gate: the threads would wait for each other in a cycle.
        """
        cdef CallGate gate = self
        # Limit the number of iterations: other threads may for some time wait in a cycle that does not contain `me`.
        cdef Py_ssize_t left = len(_waiting)
        while gate is not None and gate.busy and gate.owner != me and left >= 0:
            gate = _waiting.get(gate.owner)
            left -= 1
        return gate is not None and gate.busy and gate.owner == me

    cdef void leave(self) noexcept:
        self.busy = False
        if self.first != NULL:
            self.offer()


ctypedef int (*quiet_fn)(CLazyLinker vm, list subset) noexcept


cdef int run_raising(CLazyLinker vm, list subset) except -1:
    return vm.compute(subset)


# Run a virtual machine. Return 0, or -1 with an exception set. The type is declared `noexcept`, so that the caller
# needs no `try` statement, which would save and restore the current exception in every call.
cdef quiet_fn run_machine = <quiet_fn><void *>run_raising


cdef int raise_current() except -1:
    """Raise the exception that has been set."""
    return -1


cdef bint overlap(PyObject *a, PyObject *b) noexcept:
    """Return True if the memory ranges of two arrays overlap.

    The ranges can overlap although no element is shared. Then the caller makes an unnecessary copy, which does no harm.
    """
    cdef char *low[2]
    cdef char *high[2]
    cdef cnp.ndarray array
    cdef int i, d
    cdef cnp.npy_intp extent
    for i in range(2):
        array = <cnp.ndarray>(a if i == 0 else b)
        low[i] = high[i] = <char *>cnp.PyArray_DATA(array)
        high[i] += cnp.PyArray_ITEMSIZE(array)
        for d in range(cnp.PyArray_NDIM(array)):
            if cnp.PyArray_DIM(array, d) == 0:
                return False
            extent = (cnp.PyArray_DIM(array, d) - 1) * cnp.PyArray_STRIDE(array, d)
            if extent > 0:
                high[i] += extent
            else:
                low[i] += extent
    return low[0] < high[1] and low[1] < high[0]


cdef class FunctionBase:
    """The state of a compiled function and the code of its calls. The subclass calls `setup` once."""

    def __cinit__(self, *args, **kwargs):
        self.gate = CallGate()
        count_live(LIVE_FUNCTIONS, 1)

    def __dealloc__(self):
        free_arena(&self.arena)
        count_live(LIVE_FUNCTIONS, -1)

    @property
    def fn(self):
        """The callable without arguments that runs the graph: usually a virtual machine."""
        return self._fn

    @fn.setter
    def fn(self, value):
        self._fn = value
        self.vm = value if isinstance(value, CLazyLinker) else None
        self.updates_are_ours = self.vm is None and bool(getattr(value, "need_update_inputs", True))

    def setup(self, list roles, list quick, list defaults, list pairs, list clear_output, list updates, guarded=(), at_stake=((), (), ()),
              bint always=False):
        """Prepare the tables that each call uses.

        Parameters
        ----------
        roles : list of str
            The treatment of each input's cell after a call: "emptied", "refed", "state" or "implicit".
        quick : list of (typenum, ndim, broadcast bits, scalar, held) or None
            For each input, the data of the fast test (see `Quick`), or None if only the Type can check its arguments.
        defaults : list
            For each input ``(value, copy)``: the value that the cell gets after a call, and whether it gets a copy.
        pairs : list of (int, int, int)
            Positions of two inputs that must not share memory, and of the input that is copied if they do:
            (the input that is changed in place, the other input, the input to copy).
        clear_output : list of bool
            For each returned output, whether its cell is emptied after a call. Outputs that are not returned are
            updates.
        updates : list of (int, int, bool)
            The updates, if `fn` does not apply them itself: (input, output, whether the cell of the output is emptied).
        guarded : list of int
            Inputs that hold state which the graph changes in place.
        at_stake : Exposure
            The guarded inputs whose state would be lost if a node failed, grouped by the cause of the failure.
        always : bool
            Whether all guarded inputs are copied in every call, whatever their size, because code other than the nodes
            can fail.
        """
        cdef int i, n_returned = len(clear_output)
        self.n_in = len(self.input_storage)
        self.n_returned = n_returned
        self.in_cells = [container.storage for container in self.input_storage]
        self.out_cells = [container.storage for container in self.output_storage]
        self.types = [container.type for container in self.input_storage]
        self.defaults_ = defaults
        self.copied_defaults = [i for i in range(self.n_in) if defaults[i][1]] or None
        self.updates = [(self.in_cells[i], self.out_cells[k], release) for i, k, release in updates]
        self.fresh = [None] * len(updates)
        self.guarded = [self.in_cells[i] for i in guarded] or None
        self.new_shapes, self.exposed, self.exposed_if_small = [[self.in_cells[i] for i in which] or None for which in at_stake]
        self.always_guard = always
        self.proven_shapes = set()
        self.last_shapes = -1
        self.n_pairs = len(pairs)
        self.quick = <Quick *>allocate(&self.arena, self.n_in, sizeof(Quick))
        self.pairs = <Pair *>allocate(&self.arena, self.n_pairs, sizeof(Pair))
        self.cells = <PyObject **>allocate(&self.arena, self.n_in + n_returned, sizeof(PyObject *))
        self.clear_output = <char *>allocate(&self.arena, n_returned, 1)
        names = {"emptied": EMPTIED, "refed": REFED, "state": STATE, "implicit": IMPLICIT}
        self.n_positional = 0
        for i in range(self.n_in):
            self.cells[i] = <PyObject *>self.in_cells[i]
            self.quick[i].typenum = -1
            if quick[i] is not None:
                (self.quick[i].typenum, self.quick[i].ndim, self.quick[i].broadcast, self.quick[i].scalar,
                 self.quick[i].held) = quick[i]
            self.quick[i].role = names[roles[i]]
            if roles[i] != "implicit" and self.n_positional == i:
                self.n_positional = i + 1
        for i in range(self.n_pairs):
            self.pairs[i].changed, self.pairs[i].other, self.pairs[i].copy = pairs[i]
        for i in range(n_returned):
            self.cells[self.n_in + i] = <PyObject *>self.out_cells[i]
            self.clear_output[i] = clear_output[i]
        # An explicit input that follows an implicit input can be given by name only.
        for i in range(self.n_positional, self.n_in):
            if roles[i] != "implicit":
                self.n_positional = -1
                break
        self.owned = [self.in_cells, self.out_cells]

    def share_gate(self, FunctionBase other):
        """Use the gate of another function that shares memory with this function.

        Only one of the two functions can then run at a time.
        """
        self.gate = other.gate

    def __call__(self, *args, **kwargs):
        if self.profile is not None:
            return self.profiled_call(args, kwargs)
        return self.plain_call(args, kwargs)

    cdef object plain_call(self, tuple args, dict kwargs):
        cdef int i
        cdef list subset = None
        cdef object result = None
        cdef bint failed = True
        self.gate.enter(self)
        try:
            if self.copied_defaults is not None:
                self.copy_defaults()
            if len(args) == self.n_positional and not kwargs:
                for i in range(self.n_positional):
                    self.set_input(i, <object>PyTuple_GET_ITEM(<PyObject *>args, i))
            else:
                subset = self._bind(args, kwargs)
            if self.n_pairs:
                self.break_aliases()
            if self.guarded is not None and (
                    self.new_shapes is not None or self.always_guard or self.vm is None or self.profile is not None):
                self.guard(subset)
            if not self.unpack_single or self.n_returned != 1 or subset is not None or self.output_keys is not None:
                result = self.room_for_results(subset)
            self.run(subset)
            # From here on, no code allocates memory and no code fails.
            failed = False
            return self.commit(result, subset)
        finally:
            self.finish(failed)

    cdef object profiled_call(self, tuple args, dict kwargs):
        from theano_ng.compile import profiling

        profile = self.profile
        before = profiling.begin_call(profile, self)
        start = time.perf_counter()
        result = self.plain_call(args, kwargs)
        profiling.count_call(profile, time.perf_counter() - start, before)
        return result

    cdef int set_input(self, int i, value) except -1:
        """Put an argument into its cell.

        An array that passes the fast test is stored unchanged, and a number that passes it becomes a 0-d array. The
        Type's `filter` converts all other arguments.
        """
        cdef Quick *quick = &self.quick[i]
        cdef cnp.ndarray array
        cdef Number number
        cdef int d
        if quick.role >= STATE:
            return self.filter_input(i, value)
        if self.trust_input:
            put(self.cells[i], <PyObject *>value)
            return 0
        if quick.typenum >= 0:
            if PyArray_CheckExact(value):
                array = <cnp.ndarray>value
                if (cnp.PyArray_TYPE(array) == quick.typenum and cnp.PyArray_NDIM(array) == quick.ndim
                        and PyArray_ISBEHAVED_RO(array)):
                    if quick.broadcast:
                        for d in range(quick.ndim):
                            if (quick.broadcast >> d) & 1 and cnp.PyArray_DIM(array, d) != 1:
                                return self.filter_input(i, value)
                    put(self.cells[i], <PyObject *>value)
                    return 0
            if quick.scalar and read(<PyObject *>value, quick.held, &number) and (
                    fits_exactly(&number, quick.typenum) or self.may_round(i, value, &number)):
                array = as_array(&number, quick.typenum)
                put(self.cells[i], <PyObject *>array)
                return 0
        return self.filter_input(i, value)

    cdef bint may_round(self, int i, value, const Number *number) except -1:
        """Return True if the Type permits rounding a float to float32, and if the rounded value is finite."""
        return (self.quick[i].typenum == cnp.NPY_FLOAT and number.kind == REAL and isfinite(<float>number.real)
                and self._may_round(i, value))

    cdef int filter_input(self, int i, value) except -1:
        if not self.trust_input:
            value = self._filter(i, value)
        cell = self.in_cells[i]
        if self.quick[i].role >= STATE:
            if self.saved is None:
                self.saved = []
            self.saved.append((cell, cell[0]))
        cell[0] = value
        return 0

    def _set_input(self, int i, value):
        """Put an argument into the cell of input `i`. `_bind`, which is Python code, calls this method."""
        self.set_input(i, value)

    cdef int break_aliases(self) except -1:
        """Copy one of two inputs if they share memory and the graph changes one of them in place."""
        cdef int i
        cdef PyObject *a
        cdef PyObject *b
        for i in range(self.n_pairs):
            a = peek(self.cells[self.pairs[i].changed])
            b = peek(self.cells[self.pairs[i].other])
            if cnp.PyArray_Check(<object>a) and cnp.PyArray_Check(<object>b):
                if not overlap(a, b):
                    continue
            else:
                may_share = getattr(self.types[self.pairs[i].changed], "may_share_memory", None)
                if may_share is None or not may_share(<object>a, <object>b):
                    continue
            cell = self.in_cells[self.pairs[i].copy]
            # copy.copy is not enough: the parts of lists and sparse matrices would stay shared.
            cell[0] = copy.deepcopy(cell[0])
        return 0

    cdef int guard(self, list subset) except -1:
        """Back up the state that the graph changes in place and that a later failure of the call would leave changed.

        A node can fail after other nodes have changed state in place. It can fail because of the argument shapes,
        unless an earlier call with the same shapes succeeded. The other possible causes are known for each node from
        the analysis in `functions.exposure`. The analysis assumes that all arguments are contiguous and that all
        outputs are computed. If one of these conditions does not hold, the state is backed up as for new shapes.
        """
        self.shapes = -1
        if self.always_guard or self.profile is not None or self.vm is None:
            return self.keep(self.guarded, True)
        if subset is not None or not self.knows_shapes():
            return self.keep(self.new_shapes, True)
        if self.exposed is not None:
            self.keep(self.exposed, True)
        if self.exposed_if_small is not None:
            self.keep(self.exposed_if_small, False)
        return 0

    cdef bint knows_shapes(self) except -1:
        """Return True if an earlier call with the same argument shapes succeeded, and all arguments are contiguous.

        Also store the hash of the shapes in `self.shapes`.
        """
        cdef unsigned long key = 0
        cdef cnp.ndarray array
        cdef PyObject *value
        cdef bint contiguous = True
        cdef int i, d
        for i in range(self.n_in):
            value = peek(self.cells[i])
            if cnp.PyArray_Check(<object>value):
                array = <cnp.ndarray>value
                key = key * 31 + cnp.PyArray_NDIM(array)
                for d in range(cnp.PyArray_NDIM(array)):
                    key = (key ^ <unsigned long>cnp.PyArray_DIM(array, d)) * 1000003
                contiguous = contiguous and PyArray_ISONESEGMENT(array) and PyArray_ISBEHAVED_RO(array)
            elif is_on_device(<object>value):
                key = key * 31 + <unsigned long>hash((<object>value).shape)
            else:
                key = key * 31 + 17
        self.shapes = <long>(key >> 1)
        if not contiguous:
            return False
        if self.shapes != self.last_shapes:
            if self.shapes not in self.proven_shapes:
                return False
            self.last_shapes = self.shapes
        return True

    cdef int keep(self, list cells, bint whatever_size) except -1:
        """Back up the values of cells, in `self.backups`.

        If `whatever_size` is False and the total size of the values exceeds EXPOSED_LIMIT, only generators and lists
        are backed up, and the elements of the lists are not copied.
        """
        cdef Py_ssize_t size = 0
        cdef object value
        cdef bint shallow = False
        if not whatever_size:
            for cell in cells:
                size += size_of((<list>cell)[0])
            shallow = size > EXPOSED_LIMIT
        cdef list kept = []
        for cell in cells:
            value = (<list>cell)[0]
            if not shallow:
                kept.append((cell, value, backup_of(value)))
            elif type(value) is list:
                kept.append((cell, value, copy_list(value, False)))
            elif is_generator(value):
                kept.append((cell, value, backup_of(value)))
        if self.backups is not None:
            kept += self.backups
        self.backups = kept
        return 0

    cdef void end_guard(self, bint failed) noexcept:
        """End the guard of a call: restore the state if the call failed, otherwise record the argument shapes."""
        cdef list backups = self.backups
        cdef tuple kept
        self.backups = None
        if failed:
            for kept in backups:
                bring_back(<list>kept[0], kept[1], kept[2])
        elif self.shapes >= 0:
            self.note_shapes()

    cdef void note_shapes(self) noexcept:
        try:
            if len(self.proven_shapes) >= 1000:
                self.proven_shapes.clear()
            self.proven_shapes.add(self.shapes)
            self.last_shapes = self.shapes
        except MemoryError:
            pass        # without this record, the next call with these shapes only makes unneeded backups

    cdef int run(self, list subset) except -1:
        cdef CLazyLinker vm = self.vm
        if vm is not None and self.profile is None:
            if run_machine(vm, subset if subset is None or vm.allow_partial_eval else None) != 0:
                self.explain_failure()
            return 0
        if self.profile is not None:
            start = time.perf_counter()
        try:
            if vm is not None:
                vm.compute(subset if subset is None or vm.allow_partial_eval else None)
            elif subset is not None and getattr(self._fn, "allow_partial_eval", False):
                self._fn(output_subset=subset)
            else:
                self._fn()
        except BaseException:
            self._explain_failure()
            raise
        if self.profile is not None:
            self.profile.vm_call_time += time.perf_counter() - start
            update = getattr(self._fn, "update_profile", None)
            if update is not None:
                update(self.profile)
        return 0

    cdef int explain_failure(self) except -1:
        """Raise the exception that `run_machine` has set, and add an explanation of the failed node to it."""
        try:
            raise_current()
        except BaseException:
            self._explain_failure()
            raise

    cdef object room_for_results(self, list subset):
        """Allocate the list or dict of results before the graph runs, so that filling it needs no memory."""
        if self.return_none:
            return None
        if self.output_keys is not None:
            return dict.fromkeys(self.output_keys if subset is None else [self.output_keys[i] for i in subset])
        return [None] * (self.n_returned if subset is None else len(subset))

    cdef object commit(self, result, list subset):
        """Return the results, and apply the updates to the state. No statement of this method can fail."""
        cdef int i
        cdef Py_ssize_t k = 0
        if result is None:
            if not self.return_none:
                result = <object>peek(self.cells[self.n_in])
        elif self.output_keys is not None:
            for i in range(self.n_returned):
                if self.output_keys[i] in <dict>result:
                    (<dict>result)[self.output_keys[i]] = <object>peek(self.cells[self.n_in + i])
        elif subset is not None:
            for k in range(len(subset)):
                (<list>result)[k] = <object>peek(self.cells[self.n_in + <int>subset[k]])
        else:
            for i in range(self.n_returned):
                (<list>result)[i] = <object>peek(self.cells[self.n_in + i])
        if self.vm is not None:
            if self.vm.n_updates:
                self.vm.apply_updates()
        elif self.updates_are_ours:
            self.apply_updates()
        for i in range(self.n_returned):
            if self.clear_output[i]:
                empty(self.cells[self.n_in + i])
        return result

    cdef void apply_updates(self) noexcept:
        """Store the new values of updated inputs.

        All new values are read before the first input is overwritten, because the new value of one input may be the old
        value of another input.
        """
        cdef Py_ssize_t k
        cdef tuple update
        for k in range(len(self.updates)):
            self.fresh[k] = (<list>(<tuple>self.updates[k])[1])[0]
        for k in range(len(self.updates)):
            update = <tuple>self.updates[k]
            if update[2] is True:
                (<list>update[1])[0] = None
            (<list>update[0])[0] = self.fresh[k]
            self.fresh[k] = None

    cdef int copy_defaults(self) except -1:
        """Copy the defaults that the graph may overwrite, for use in the next call."""
        cdef list copies = []
        for i in self.copied_defaults:
            copies.append(copy.copy((<tuple>self.defaults_[i])[0]))
        self.next_defaults = copies
        return 0

    cdef void finish(self, bint failed) noexcept:
        """End a call, successful or failed: end the guard, restore the inputs, and leave the gate.

        The method allocates no memory.
        """
        if self.backups is not None:
            self.end_guard(failed)
        self.restore_inputs(failed)
        self.gate.leave()

    cdef void restore_inputs(self, bint failed) noexcept:
        """Remove the arguments from their cells, and restore the defaults.

        After a failed call, also restore the previous values of state inputs to which the caller gave a value.
        """
        cdef int i
        cdef Py_ssize_t k = 0
        cdef char role
        cdef tuple default
        cdef list saved = self.saved, copies = self.next_defaults
        for i in range(self.n_in):
            role = self.quick[i].role
            if role == EMPTIED:
                empty(self.cells[i])
            elif role == REFED:
                default = <tuple>self.defaults_[i]
                if default[1] is not True:
                    put(self.cells[i], PyTuple_GET_ITEM(<PyObject *>default, 0))
                elif copies is not None:    # None: `copy_defaults` failed, so the default is unused
                    put(self.cells[i], <PyObject *>copies[k])
                    k += 1
        self.next_defaults = None
        if saved is not None:
            self.saved = None
            if failed:
                for k in range(len(saved) - 1, -1, -1):
                    (<list>(<tuple>saved[k])[0])[0] = (<tuple>saved[k])[1]
