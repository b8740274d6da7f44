"""Calling a compiled function: arguments into cells, run, results out of cells, updates.

`compile.function_module.Function` is the class that users see; this base holds what happens at each call.
"""
import copy
import time

cimport numpy as cnp

from theano_ng.compile._scalars cimport REAL, Number, as_array, fits_exactly, isfinite, read
from theano_ng.gof._native cimport LIVE_FUNCTIONS, allocate, count_live, free_arena
from theano_ng.gof.cells cimport empty, peek, put

cnp.import_array()

cdef extern from "Python.h":
    PyObject *PyTuple_GET_ITEM(PyObject *args, Py_ssize_t i) nogil
    unsigned long PyThread_get_thread_ident() nogil

cdef extern from "numpy/arrayobject.h":
    int PyArray_CheckExact(object value)
    int PyArray_ISBEHAVED_RO(cnp.ndarray array)

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


cdef class CallGate:
    """See _function.pxd. C code may release the GIL while it runs: a second thread then waits here until the first one has its results.

    Uncontended, entering and leaving are a few machine instructions; the lock is made when two threads first meet.
    """

    cdef int enter(self, function) except -1:
        cdef unsigned long me = PyThread_get_thread_ident()
        if self.busy:
            return self.wait(function, me)
        self.busy = True
        self.owner = me
        return 0

    cdef int wait(self, function, unsigned long me) except -1:
        """Come in when the thread inside has left."""
        if self.owner == me:
            raise RuntimeError(
                "%s was called while it is running: an Op in its graph calls it. Its memory holds one call at a time; let the Op "
                "call a copy (function.copy())." % (function,))
        if self.condition is None:
            from threading import Condition

            self.condition = Condition()
        with self.condition:
            self.waiting += 1
            _waiting[me] = self
            try:
                while self.busy:
                    if self.waits_for(me):
                        raise RuntimeError(
                            "%s cannot be called here: the thread that runs it waits for a function that this thread runs, so both "
                            "would wait for ever. Ops in these functions call each other's functions; let them call copies "
                            "(function.copy())." % (function,))
                    self.condition.wait()
                # no Python code runs between the test and this: nobody else can come in
                self.busy = True
                self.owner = me
            finally:
                self.waiting -= 1
                del _waiting[me]
        return 0

    cdef bint waits_for(self, unsigned long me) except -1:
        """Whether the thread inside waits, if through others, for one that `me` is in. The last of a circle to arrive sees it."""
        cdef CallGate gate = self
        cdef Py_ssize_t left = len(_waiting)    # others may be in a circle of their own, just now being broken
        while gate is not None and gate.busy and gate.owner != me and left >= 0:
            gate = _waiting.get(gate.owner)
            left -= 1
        return gate is not None and gate.busy and gate.owner == me

    cdef int leave(self) except -1:
        self.busy = False
        if self.waiting:
            with self.condition:
                self.condition.notify()
        return 0


ctypedef int (*quiet_fn)(CLazyLinker vm, list subset) noexcept


cdef int run_raising(CLazyLinker vm, list subset) except -1:
    return vm.run(subset)


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


cdef Py_ssize_t bytes_in_list(list value) except -1:
    """How much a copy of a list copies, inner lists and arrays included."""
    cdef Py_ssize_t size = 8 * len(value)
    for element in value:
        if type(element) is list:
            size += bytes_in_list(element)
        else:
            size += getattr(element, "nbytes", 8)
    return size


cdef bint is_generator(value):
    """Whether a value is a generator of random numbers, whose state can be taken and put back."""
    return hasattr(value, "get_state") and hasattr(value, "set_state")


# The class of arrays on devices, when one is used.
cdef object DeviceArray = None


def set_device_array(cls):
    """Say of which class arrays on devices are: state of functions that is overwritten in place."""
    global DeviceArray
    DeviceArray = cls


cdef object backup_of(value):
    """What brings a value back after it was changed in place: its state, or a copy."""
    return value.get_state() if is_generator(value) else copy.deepcopy(value)


cdef list copy_list(list value, bint deep):
    """A copy of a list and the lists in it; of what they hold too, if it is to be deep."""
    cdef list made = []
    for element in value:
        if type(element) is list:
            made.append(copy_list(element, deep))
        else:
            made.append(copy.deepcopy(element) if deep else element)
    return made


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

    def setup(self, list roles, list quick, list defaults, list pairs, list clear_output, int n_returned, guarded=(), exposed=(),
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
            For each returned output, whether its cell is emptied after a call.
        n_returned : int
            How many outputs callers get; the others are updates.
        guarded : list of int
            Inputs that hold state which the graph changes in place before a node that could fail.
        exposed : list of int
            Those of them after whose change a node can fail because of values, also for shapes that went well before.
        always : bool
            Whether all guarded inputs are copied in every call, whatever their size: something else than nodes can fail.
        """
        cdef int i
        self.n_in = len(self.input_storage)
        self.n_returned = n_returned
        self.in_cells = [container.storage for container in self.input_storage]
        self.out_cells = [container.storage for container in self.output_storage]
        self.types = [container.type for container in self.input_storage]
        self.defaults_ = defaults
        self.guarded = [self.in_cells[i] for i in guarded] or None
        self.exposed = [self.in_cells[i] for i in exposed] or None
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
        cdef bint failed = True
        self.gate.enter(self)
        try:
            if len(args) == self.n_positional and not kwargs:
                for i in range(self.n_positional):
                    self.set_input(i, <object>PyTuple_GET_ITEM(<PyObject *>args, i))
            else:
                subset = self._bind(args, kwargs)
            if self.n_pairs:
                self.break_aliases()
            if self.guarded is not None:
                self.guard()
            self.run(subset)
            result = self.results(subset)
            failed = False
            return result
        finally:
            if self.backups is not None:
                self.end_guard(failed)
            self.restore_inputs(failed)
            self.gate.leave()

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

    cdef int guard(self) except -1:
        """Copy the state that the graph changes in place, unless arguments of these shapes went well before.

        A node can fail when others have made their updates in place already. What can go wrong there is the shapes (out-of-range
        indices and the like are found earlier, as the updates come last), so the copies are needed once for each set of shapes. Where an
        update can fail on values after another one has been made, small states are copied in every call; large ones would make it slow.
        """
        cdef unsigned long key = 0
        cdef cnp.ndarray array
        cdef PyObject *value
        cdef int i, d
        for i in range(self.n_in):
            value = peek(self.cells[i])
            if cnp.PyArray_Check(<object>value):
                array = <cnp.ndarray>value
                key = key * 31 + cnp.PyArray_NDIM(array)
                for d in range(cnp.PyArray_NDIM(array)):
                    key = (key ^ <unsigned long>cnp.PyArray_DIM(array, d)) * 1000003
            elif type(<object>value) is DeviceArray:
                key = key * 31 + <unsigned long>hash((<object>value).shape)
            else:
                key = key * 31 + 17
        self.shapes = <long>(key >> 1)
        if not self.always_guard and self.shapes == self.last_shapes:
            return self.guard_exposed()
        if not self.always_guard and self.shapes in self.proven_shapes:
            self.last_shapes = self.shapes
            return self.guard_exposed()
        self.backups = [(cell, cell[0], backup_of(cell[0])) for cell in self.guarded]
        return 0

    cdef int guard_exposed(self) except -1:
        """Copy the exposed states, when they are small; of large lists, the lists without the arrays in them."""
        cdef cnp.npy_intp size = 0
        cdef object value
        cdef bint lists = False
        if self.exposed is None:
            return 0
        for cell in self.exposed:
            value = (<list>cell)[0]
            if type(value) is list:
                lists = True
                size += bytes_in_list(value)
            elif PyArray_CheckExact(value):
                size += cnp.PyArray_NBYTES(<cnp.ndarray>value)
            elif type(value) is DeviceArray:
                size += value.nbytes
            elif not is_generator(value):
                return 0
        if size <= EXPOSED_LIMIT:
            self.backups = [
                (cell, cell[0], copy_list(cell[0], True) if type(cell[0]) is list
                 else cell[0].copy() if PyArray_CheckExact(cell[0]) else backup_of(cell[0]))
                for cell in self.exposed
            ]
        elif lists:
            self.backups = [(cell, cell[0], copy_list(cell[0], False)) for cell in self.exposed if type(cell[0]) is list]
        return 0

    cdef int end_guard(self, bint failed) except -1:
        backups, self.backups = self.backups, None
        if not failed:
            if len(self.proven_shapes) >= 1000:
                self.proven_shapes.clear()
            self.proven_shapes.add(self.shapes)
            self.last_shapes = self.shapes
            return 0
        for cell, value, backup in backups:
            if cnp.PyArray_Check(value):
                # Others may hold this array (borrow=True), so it stays the value. A read-only one has not been changed.
                if value.flags.writeable:
                    value[...] = backup
                cell[0] = value
            elif type(value) is DeviceArray:
                value[...] = backup
                cell[0] = value
            elif type(value) is list:
                value[:] = backup
                cell[0] = value
            elif is_generator(value):
                value.set_state(backup)
                cell[0] = value
            else:
                cell[0] = backup
        return 0

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
                vm.run(subset if subset is None or vm.allow_partial_eval else None)
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

    cdef object results(self, list subset):
        cdef int i
        cdef PyObject *cell
        cdef object value
        cdef list values
        if self.vm is None and getattr(self._fn, "need_update_inputs", True):
            # Before the updates: an output may be the old value of what is updated.
            values = [(<list>cell_)[0] for cell_ in self.out_cells]
            self._apply_updates(values)
            values = values[:self.n_returned]
        elif self.n_returned == 1 and self.unpack_single and subset is None and self.output_keys is None:
            cell = self.cells[self.n_in]
            value = <object>peek(cell)
            if self.clear_output[0]:
                empty(cell)
            return value
        else:
            values = [<object>peek(self.cells[self.n_in + i]) for i in range(self.n_returned)]
        for i in range(self.n_returned):
            if self.clear_output[i]:
                empty(self.cells[self.n_in + i])
        if self.return_none:
            return None
        if subset is not None:
            if self.output_keys is not None:
                return {self.output_keys[i]: values[i] for i in subset}
            return [values[i] for i in subset]
        if self.output_keys is not None:
            return dict(zip(self.output_keys, values))
        if self.unpack_single and self.n_returned == 1:
            return values[0]
        return values

    cdef int restore_inputs(self, bint failed) except -1:
        """After a call: forget arguments, bring defaults back; after a failed one, bring state back."""
        cdef int i
        cdef char role
        for i in range(self.n_in):
            role = self.quick[i].role
            if role == EMPTIED:
                empty(self.cells[i])
            elif role == REFED:
                value, copied = self.defaults_[i]
                if copied:
                    value = copy.copy(value)
                put(self.cells[i], <PyObject *>value)
        if self.saved is not None:
            saved, self.saved = self.saved, None
            if failed:
                for cell, old in reversed(saved):
                    cell[0] = old
        return 0
