"""Calling a compiled function: arguments into cells, run, results out of cells, updates.

`compile.function_module.Function` is the class that users see; this base holds what happens at each call.
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

# what becomes of an input's cell after a call
cdef enum:
    EMPTIED = 0         # the argument is forgotten
    REFED = 1           # the default value comes back
    STATE = 2           # what was given, or the update, stays
    IMPLICIT = 3        # callers give no value

# bytes of state that may be copied in every call
cdef enum:
    EXPOSED_LIMIT = 1048576


_waiting = {}       # thread -> the gate that it waits at

# A child of `fork` has one thread, that which forked: `survivor`. Gates remember how many forks there had been.
cdef unsigned long forks = 0
cdef unsigned long survivor = 0


def after_fork():
    """In a child: other threads, which may be inside functions or wait for them, are not there."""
    global forks, survivor
    forks += 1
    survivor = PyThread_get_thread_ident()
    _waiting.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=after_fork)


cdef inline void take(CallGate self, FunctionBase function, unsigned long me) noexcept:
    """Note that a thread is in."""
    self.busy = True
    self.owner = me
    self.inside = <PyObject *>function
    self.forks = forks


cdef class CallGate:
    """See _function.pxd. C code may release the GIL while it runs: a second thread then waits here until the first one has its results.

    Uncontended, entering and leaving are a few machine instructions. No Python code runs in here, so that no signal handler can raise between
    two of them, and leaving takes no memory.
    """

    cdef int enter(self, FunctionBase function) except -1:
        cdef unsigned long me = PyThread_get_thread_ident()
        if self.busy:
            return self.wait(function, me)
        take(self, function, me)
        return 0

    cdef int wait(self, FunctionBase function, unsigned long me) except -1:
        """Come in when the thread inside has left."""
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
                        "would wait for ever. Ops in these functions call each other's functions; let them call copies "
                        "(function.copy())." % (function,))
                with nogil:
                    status = PyThread_acquire_lock_timed(mine.lock, -1, 1)
                if status == PY_LOCK_INTR:
                    PyErr_CheckSignals()
                    if self.forks != forks:     # by a handler of signals
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
            if not self.busy and self.first != NULL:    # who was offered the turn, and fails, passes it on
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
            self.first = NULL       # all others were threads of the parent
        elif not self.first.offered:
            self.first.offered = True
            PyThread_release_lock(self.first.lock)

    cdef void forget_other_threads(self) noexcept:
        """In a child of `fork`: end the call of a thread that is not there. State of which there is a copy is as it was before that call."""
        self.first = NULL
        self.forks = forks
        if self.owner != survivor:
            (<FunctionBase>self.inside).finish(True)

    cdef bint waits_for(self, unsigned long me) except -1:
        """Whether the thread inside waits, if through others, for one that `me` is in. The last of a circle to arrive sees it."""
        cdef CallGate gate = self
        cdef Py_ssize_t left = len(_waiting)    # others may be in a circle of their own, just now being broken
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


# 0, or -1 with an exception set. Seen from its caller it raises nothing: a `try` around it would save and restore the current exception in
# every call.
cdef quiet_fn run_machine = <quiet_fn><void *>run_raising


cdef int raise_current() except -1:
    """Raise the exception that is set."""
    return -1


cdef bint overlap(PyObject *a, PyObject *b) noexcept:
    """Whether two arrays' memory ranges meet (the ranges, not the elements: good enough to decide on a copy)."""
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
    """State and call of a compiled function.

    `setup` is called once by the subclass.
    """

    def __cinit__(self, *args, **kwargs):
        self.gate = CallGate()
        count_live(LIVE_FUNCTIONS, 1)

    def __dealloc__(self):
        free_arena(&self.arena)
        count_live(LIVE_FUNCTIONS, -1)

    @property
    def fn(self):
        """What runs the graph: a virtual machine or another callable without arguments."""
        return self._fn

    @fn.setter
    def fn(self, value):
        self._fn = value
        self.vm = value if isinstance(value, CLazyLinker) else None
        self.updates_are_ours = self.vm is None and bool(getattr(value, "need_update_inputs", True))

    def setup(self, list roles, list quick, list defaults, list pairs, list clear_output, list updates, guarded=(), at_stake=((), (), ()),
              bint always=False):
        """Prepare the tables of the hot path.

        Parameters
        ----------
        roles : list of str
            For each input "emptied", "refed", "state" or "implicit".
        quick : list of (typenum, ndim, broadcast bits, scalar, held) or None
            How an argument is recognised without its Type.
        defaults : list
            For each input ``(value, copy)``: what comes back after a call, and whether a copy of it does.
        pairs : list of (int, int, int)
            Inputs (one changed in place, another one, which of them is to be copied when they share memory).
        clear_output : list of bool
            For each returned output, whether its cell is emptied after a call. The other outputs are updates.
        updates : list of (int, int, bool)
            (input, output, whether that output's cell is emptied), for runners that leave the updates to us.
        guarded : list of int
            Inputs that hold state which the graph changes in place.
        at_stake : Exposure
            Those of them that are lost when a node fails, by what it can fail for.
        always : bool
            Whether all guarded inputs are copied in every call, whatever their size: something else than nodes can fail.
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
        # explicit inputs behind an implicit one can be given by name only
        for i in range(self.n_positional, self.n_in):
            if roles[i] != "implicit":
                self.n_positional = -1
                break
        self.owned = [self.in_cells, self.out_cells]

    def share_gate(self, FunctionBase other):
        """Let this function and another one, with which it shares memory, run one at a time."""
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
            # From here on nothing takes memory, and nothing fails.
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
        """Put an argument into its cell: as it is when it is recognised, otherwise through the Type."""
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
        """Whether a number may be rounded: only from float to float32, where the Type allows it, and not into infinity."""
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
        """For `_bind`: give input `i` a value."""
        self.set_input(i, value)

    cdef int break_aliases(self) except -1:
        """Copy an argument that shares memory with an input that the graph changes in place."""
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
            # copy.copy would leave the parts of lists and sparse matrices shared.
            cell[0] = copy.deepcopy(cell[0])
        return 0

    cdef int guard(self, list subset) except -1:
        """Copy the state that the graph changes in place, as far as something can fail after that.

        A node can fail when others have made their updates in place already. The shapes of arguments are a reason that is gone when arguments
        of these shapes went well before. The other reasons are known for each node (see `functions.exposure`); there it is taken for granted
        that arguments are contiguous, and that all outputs are computed.
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
        """Whether a call with arguments of these shapes went well before, and all are contiguous."""
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
        """Copy the values of cells; only if they are small together, or else of lists the lists without the arrays in them."""
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
        """After a call: bring state back, or remember that these shapes go well."""
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
            pass        # the next call copies once more

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
        """Let the exception of `run_machine` leave with its explanation."""
        try:
            raise_current()
        except BaseException:
            self._explain_failure()
            raise

    cdef object room_for_results(self, list subset):
        """What callers get, before anything is computed: filling it takes no memory."""
        if self.return_none:
            return None
        if self.output_keys is not None:
            return dict.fromkeys(self.output_keys if subset is None else [self.output_keys[i] for i in subset])
        return [None] * (self.n_returned if subset is None else len(subset))

    cdef object commit(self, result, list subset):
        """The results; and the updates become the state. Nothing in here can fail."""
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
        """Give the inputs their new values: all are read before one is written, as an update may be another input's value."""
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
        """Copies of the defaults that the graph may overwrite, for the next call."""
        cdef list copies = []
        for i in self.copied_defaults:
            copies.append(copy.copy((<tuple>self.defaults_[i])[0]))
        self.next_defaults = copies
        return 0

    cdef void finish(self, bint failed) noexcept:
        """After a call, however it ended: state, inputs, and the gate. Takes no memory."""
        if self.backups is not None:
            self.end_guard(failed)
        self.restore_inputs(failed)
        self.gate.leave()

    cdef void restore_inputs(self, bint failed) noexcept:
        """Forget arguments, and bring defaults back; after a call that failed, state that the caller gave another value, too."""
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
                elif copies is not None:    # None: the call failed before the default was in use
                    put(self.cells[i], <PyObject *>copies[k])
                    k += 1
        self.next_defaults = None
        if saved is not None:
            self.saved = None
            if failed:
                for k in range(len(saved) - 1, -1, -1):
                    (<list>(<tuple>saved[k])[0])[0] = (<tuple>saved[k])[1]
