"""Thunks in C: native functions bound to cells, capsules of compiled modules, and the lazy choice between two branches.

The module also opens kernel libraries by dlopen. It contains the parts that all compiled components of a function
share: memory in arenas, and counters of live objects.
"""
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.pycapsule cimport PyCapsule_GetContext, PyCapsule_GetName, PyCapsule_GetPointer
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.stdint cimport intptr_t
from libc.string cimport memcpy
from posix.dlfcn cimport RTLD_GLOBAL, RTLD_LOCAL, RTLD_NOW, dlclose, dlerror, dlopen, dlsym

cimport numpy as cnp

from theano_ng.gof.cells cimport Py_None, cell_of, decref, empty, incref, peek, put, put_owned, refcount, take

cnp.import_array()

cdef extern from *:
    """
    #ifdef TNG_HAS_MVEC
    #define HAS_VECTOR_MATH 1
    #else
    #define HAS_VECTOR_MATH 0
    #endif
    """
    const bint has_vector_math "HAS_VECTOR_MATH"

cdef extern from "<dlfcn.h>":
    const int RTLD_NOLOAD
    ctypedef struct Dl_info:
        const char *dli_sname
        void *dli_saddr
    int dladdr(const void *address, Dl_info *found)

cdef extern from "Python.h":
    void set_exception "PyErr_SetObject"(object kind, object value)


cdef long live[N_LIVE]


cdef void count_live(int kind, int change) noexcept:
    live[kind] += change


def live_objects():
    """Return the numbers of live objects of compiled functions.

    When a compiled function is freed, the objects that belong to it have to be freed, too.

    Returns
    -------
    dict
        The counts by class name: thunks in C, compiled machines, functions, and memory blocks of arenas.
    """
    return {"CThunk": live[LIVE_THUNKS], "CLazyLinker": live[LIVE_MACHINES], "FunctionBase": live[LIVE_FUNCTIONS],
            "Block": live[LIVE_BLOCKS]}


# True if this module contains the functions of vector_math.c.
HAS_VECTOR_MATH = bool(has_vector_math)


def lend_vector_math():
    """Make the functions of vector_math.c visible by name to libraries of kernels that are opened later.

    Raises
    ------
    OSError
        If the dynamic linker cannot make them visible.
    """
    if HAS_VECTOR_MATH and dlopen(__file__.encode("utf-8", "surrogateescape"), RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL) == NULL:
        raise OSError(dlerror().decode("utf-8", "replace"))


cdef void *allocate(Arena *arena, size_t count, size_t size) except NULL:
    """Return zeroed memory for `count` elements of `size` bytes each, aligned for types of at most 8 bytes."""
    cdef size_t wanted = (count * size + 7) & ~<size_t>7
    cdef size_t length
    cdef Block *block
    if arena.blocks == NULL or wanted > arena.left:
        # Each block is twice as large as the previous block. So an arena has few blocks and little unused memory.
        length = max(wanted, 2 * arena.size if arena.size else 240)
        block = <Block *>PyMem_Calloc(1, sizeof(Block) + length)
        if block == NULL:
            raise MemoryError()
        count_live(LIVE_BLOCKS, 1)
        block.older, arena.blocks = arena.blocks, block
        arena.next, arena.left, arena.size = <char *>&block.first, length, length
    cdef void *memory = arena.next
    arena.next += wanted
    arena.left -= wanted
    return memory


cdef void free_arena(Arena *arena) noexcept:
    cdef Block *block
    while arena.blocks != NULL:
        block = arena.blocks
        arena.blocks = block.older
        PyMem_Free(block)
        count_live(LIVE_BLOCKS, -1)
    arena.left = 0


cdef class CThunk:
    def __cinit__(self):
        count_live(LIVE_THUNKS, 1)

    def __dealloc__(self):
        count_live(LIVE_THUNKS, -1)

    def set_queue(self, size_t address, bint keeps_queue=False):
        """Set the queue of a device that collects the work of the thunk.

        Parameters
        ----------
        address : int
            The address of a `WorkQueue` (work_queue.h) that is never freed; 0 if there is none.
        keeps_queue : bool
            Whether the thunk can run while a queue is open. Such a thunk neither runs Python code nor uses a device.
        """
        self.queue, self.keeps_queue = <WorkQueue *>address, keeps_queue

    def __call__(self):
        """Run once. Raise the exception that the C code set, if any."""
        cdef list flag
        if self.run(self.data) != 0:
            raise_current()
        if self.computed is not None:
            for flag in self.computed:
                flag[0] = True


cdef int raise_current() except -1:
    """Propagate the exception that C code has set."""
    return -1


cdef extern from "numpy/arrayobject.h":
    object PyArray_FromArray(cnp.ndarray array, cnp.dtype dtype, int requirements)


cdef inline bint fits(PyObject *value, int layout) noexcept:
    """Return True if a value is an array with the type number and the rank of a layout.

    A layout is ``type number << 8 | rank``. The layout -1 allows any value.
    """
    return layout < 0 or (is_array(value) and (array_type(<Array *>value) << 8 | array_ndim(<Array *>value)) == layout)


cdef inline bint fits_plainly(PyObject *value, const Operand *operand) noexcept:
    """Return True in the usual cases: any value is allowed, or the value is an aligned ndarray of the required type and
    rank.

    The dtype of the array must be NumPy's built-in object for the type, which implies native byte order.
    """
    return operand.descr == NULL or (
        is_exact_array(value) and array_descr(<Array *>value) == operand.descr and array_ndim(<Array *>value) == operand.ndim
        and has_flags(<Array *>value, cnp.NPY_ARRAY_ALIGNED))


cdef int prepare(NativeCall *call, int i) noexcept:
    """Replace input `i`, which C code cannot use directly, by a copy. Return 0, or -1 with an exception set.

    An array of the required type and rank is replaced by an aligned, contiguous copy in native byte order. For any
    other value, an exception is set. Without this check, C code that relies on rank, type, alignment and byte order
    would crash or compute wrong results. Only calls with `trust_input` and the `perform` of an Op can supply such
    values, because Types check all other arguments.
    """
    try:
        value = <object>call.values[i]
        number = call.operands[i].layout >> 8
        if fits(call.values[i], call.operands[i].layout):
            dtype = cnp.PyArray_DescrFromType(number)
            Py_INCREF(dtype)        # PyArray_FromArray steals a reference
            copy = PyArray_FromArray(value, dtype, cnp.NPY_ARRAY_DEFAULT | cnp.NPY_ARRAY_ENSURECOPY)
            call.values[i] = <PyObject *>copy
            incref(call.values[i])
            call.copied[i] = 1
            return 0
        if not cnp.PyArray_Check(value):
            raise ValueError("expected an ndarray as input %d, not %r of type %s" % (i, value, type(value).__name__))
        raise TypeError("expected an array of dtype %s with %d dimensions as input %d, got dtype %s with %d dimensions" % (
            cnp.PyArray_DescrFromType(number), call.operands[i].ndim, i, value.dtype, value.ndim))
    except BaseException as failure:
        set_exception(type(failure), failure)
    return -1


cdef inline void drop_copies(NativeCall *call) noexcept:
    cdef int i
    for i in range(call.nin):
        if call.copied[i]:
            call.copied[i] = 0
            decref(call.values[i])


cdef int run_native(void *data) noexcept:
    """Call the function with the values from the cells, and put its results into the output cells.

    During the call the output cells hold None: the function may free their previous values, and the garbage collector
    must not find freed values in the cells.
    """
    cdef NativeCall *call = <NativeCall *>data
    cdef Operand *operand = call.operands
    cdef PyObject **values = call.values
    cdef PyObject *value
    cdef int i, n = call.nin + call.nout
    cdef bint copied = False
    for i in range(call.nin):
        values[i] = value = peek(operand.cell)
        if not fits_plainly(value, operand) and not (fits(value, operand.layout) and behaved(<Array *>value)):
            if prepare(call, i) != 0:
                drop_copies(call)
                return -1
            copied = True
        operand += 1
    for i in range(call.nin, n):
        values[i] = NULL
        value = peek(operand.cell)
        if value != Py_None:
            if fits_plainly(value, operand) or fits(value, operand.layout):
                values[i] = take(operand.cell)
            else:
                empty(operand.cell)
        operand += 1
    cdef int status = call.function(call.nin, call.nout, values, values + call.nin, call.params)
    for i in range(call.nin, n):
        if values[i] != NULL:
            put_owned(call.operands[i].cell, values[i])
    if copied:
        drop_copies(call)
    return status


cdef extern from "native.h":
    ctypedef int64_t (*native_scratch_fn)(int nin, int nout, const int64_t *params) except? -1

    ctypedef struct NativeEntry:
        native_fn function
        native_scratch_fn scratch


cdef const NativeEntry *entry_of(capsule) except NULL:
    return <const NativeEntry *>PyCapsule_GetPointer(capsule, "theano_ng.native_entry")


cdef int64_t scratch_needed(const NativeEntry *native, int nin, int nout, const int64_t *params) except -1:
    if native.scratch == NULL:
        raise SystemError("a native function with a parameter called scratch must be listed by NATIVE_ENTRY_WITH_SCRATCH")
    return native.scratch(nin, nout, params)


def scratch_size(entry, list params, int nin, int nout):
    """Return the size, in words, of the scratch memory that a native function needs for calls with these parameters.

    Parameters
    ----------
    entry : PyCapsule
        A `NativeEntry` (see native.h) with a parameter called scratch.
    params : list of int
        The packed parameters of the function.
    nin, nout : int
        The numbers of inputs and outputs.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If the parameters do not match `nin` and `nout`.
    """
    cdef const NativeEntry *native = entry_of(entry)
    cdef int64_t *copy = <int64_t *>PyMem_Calloc(len(params) + 1, sizeof(int64_t))
    cdef Py_ssize_t i
    if copy == NULL:
        raise MemoryError()
    try:
        for i in range(len(params)):
            copy[i] = params[i]
        return scratch_needed(native, nin, nout, copy)
    finally:
        PyMem_Free(copy)


def store_word(int64_t address, int64_t value):
    """Store a 64-bit integer in memory that interpreter programs read.

    The store is atomic: a reader gets the old or the new value.
    """
    (<int64_t *><intptr_t>address)[0] = value


cdef class NativeThunk(CThunk):
    """A native function bound to its cells.

    Parameters
    ----------
    entry : PyCapsule
        A `NativeEntry` (see native.h).
    params : list of int
        The packed parameters of the function.
    scratch_at : int
        The index of the parameter for the address of scratch memory; -1 if there is none.
    inputs, outputs : list of cells
        One-element lists.
    layouts : list of int, optional
        For each input, then for each output, ``type number << 8 | ndim`` of its arrays, or -1 if any value is allowed.
    programs : tuple of int
        The addresses of interpreter programs that run until kernels are compiled.
    """

    def __cinit__(self, entry, list params, Py_ssize_t scratch_at, list inputs, list outputs, list layouts=None, tuple programs=()):
        cdef Py_ssize_t i, n_words = len(params), nin = len(inputs), nout = len(outputs)
        cdef const NativeEntry *native = entry_of(entry)
        cdef Operand *operand
        self.keep = entry
        self.inputs, self.outputs, self.lazy = inputs, outputs, False
        self.call.function = native.function
        self.call.nin, self.call.nout = nin, nout
        self.call.operands = <Operand *>allocate(&self.arena, nin + nout, sizeof(Operand))
        self.call.values = <PyObject **>allocate(&self.arena, nin + nout, sizeof(PyObject *))
        self.call.copied = <char *>allocate(&self.arena, nin, 1)
        self.call.params = <int64_t *>allocate(&self.arena, n_words, sizeof(int64_t))
        for i in range(nin + nout):
            operand = &self.call.operands[i]
            operand.cell = cell_of(inputs[i] if i < nin else outputs[i - nin])
            operand.layout = -1 if layouts is None else layouts[i]
            if operand.layout >= 0:
                operand.ndim = operand.layout & 255
                descr = cnp.PyArray_DescrFromType(operand.layout >> 8)      # NumPy never frees built-in dtypes
                operand.descr = <void *>descr
        for i in range(n_words):
            self.call.params[i] = params[i]
        if scratch_at >= 0:
            # Allocate a separate block, so that a memory checker detects an access beyond its end.
            self.scratch = <int64_t *>PyMem_Calloc(scratch_needed(native, nin, nout, self.call.params), sizeof(int64_t))
            if self.scratch == NULL:
                raise MemoryError()
            self.call.params[scratch_at] = <intptr_t>self.scratch
        self.run, self.data = run_native, &self.call
        self.programs = programs

    def interprets(self):
        """Return True if the next call interprets a program that no compiled kernel has replaced yet."""
        cdef int64_t program
        for program in self.programs:
            if (<int64_t *><intptr_t>program)[0] == 0:
                return True
        return False

    def __dealloc__(self):
        free_arena(&self.arena)
        PyMem_Free(self.scratch)


cdef int run_capsule(void *data) noexcept:
    """Run a compiled module's thunk and turn its error storage into the current exception."""
    cdef CapsuleThunk self = <CapsuleThunk>data
    cdef int status = self.compiled(self.compiled_data)
    if status != 0:
        try:
            kind, value, trace = self.error_storage
            self.error_storage[:] = [None, None, None]
            if kind is None:
                raise RuntimeError("C code failed with status %d and set no exception" % status)
            if not isinstance(value, BaseException):
                value = kind() if value is None else kind(*value) if isinstance(value, tuple) else kind(value)
            value = value.with_traceback(trace)
        except BaseException as failure:
            value = failure
        set_exception(type(value), value)
        return -1
    return 0


cdef class CapsuleThunk(CThunk):
    """A thunk of a compiled module.

    Parameters
    ----------
    capsule : PyCapsule
        Its pointer is the struct; its context is the function `int run(void *struct)`.
    error_storage : list
        A list of three elements. The C code stores exception type, value and traceback there.
    inputs, outputs : list of cells
    """

    def __cinit__(self, capsule, list error_storage, list inputs, list outputs):
        cdef const char *name = PyCapsule_GetName(capsule)
        self.capsule, self.error_storage = capsule, error_storage
        self.inputs, self.outputs, self.lazy = inputs, outputs, False
        self.compiled_data = PyCapsule_GetPointer(capsule, name)
        self.compiled = <thunk_fn>PyCapsule_GetContext(capsule)
        if self.compiled == NULL:
            raise ValueError("the capsule has no function in its context")
        self.run, self.data = run_capsule, <void *>self


ctypedef cnp.npy_bool (*nonzero_fn)(void *item, void *array) noexcept

cdef extern from "numpy/arrayobject.h":
    ctypedef struct Descr "PyArray_Descr":
        pass
    ctypedef struct ArrFuncs "PyArray_ArrFuncs":
        nonzero_fn nonzero
    ArrFuncs *array_functions "PyDataType_GetArrFuncs"(Descr *descr) noexcept
    bint native_order "PyArray_ISNOTSWAPPED"(Array *array) noexcept
    void *array_data "PyArray_DATA"(Array *array) noexcept
    size_t array_nbytes "PyArray_NBYTES"(Array *array) noexcept
    bint same_shape "PyArray_SAMESHAPE"(Array *a, Array *b) noexcept


cdef inline bint ours_alone(PyObject *value) noexcept:
    """Return True if a cell's array can be overwritten safely: it is not a view, and has no view or other reference."""
    return (is_exact_array(value) and refcount(value) == 1
            and has_flags(<Array *>value, cnp.NPY_ARRAY_OWNDATA | cnp.NPY_ARRAY_WRITEABLE))


cdef int run_branch(void *data) noexcept:
    """Choose a branch and fill the outputs. All inputs have been computed."""
    cdef LazyBranch self = <LazyBranch>data
    try:
        self.fill(self.choose(), False)
    except BaseException as failure:
        set_exception(type(failure), failure)
        return -1
    return 0


cdef class LazyBranch(CThunk):
    """A lazy thunk that passes on the values of one of two branches. The compiled machine evaluates it without Python.

    A call from Python works as for other lazy thunks: it returns the indices of the inputs that the thunk needs next,
    or an empty list when it has finished. A nonzero condition selects the first branch.

    Parameters
    ----------
    inputs : list of cells
        The condition, the values of the first branch, then the values of the second branch.
    outputs : list of cells
        One for each value of a branch.
    input_flags, output_flags : list of cells
        The `compute_map` cells of the inputs and outputs.
    view : bool
        Whether to pass on the values of the first branch themselves instead of copies.
    copy : callable
        A function that copies values that are not plain arrays.

    Notes
    -----
    The array of an input is copied into the previous array of the output if nothing else uses the previous array,
    otherwise into a new array. If nothing else will read the input's array, and nothing shares its memory, the machine
    moves this array to the output without a copy.
    """

    def __cinit__(self, list inputs, list outputs, list input_flags, list output_flags, bint view, copy):
        cdef Py_ssize_t i, n = len(outputs)
        if len(inputs) != 1 + 2 * n or len(input_flags) != len(inputs) or len(output_flags) != n:
            raise ValueError("expected a condition and two branches of %d values, got %d inputs" % (n, len(inputs)))
        for cell in (*inputs, *outputs, *input_flags, *output_flags):
            cell_of(cell)
        self.inputs, self.outputs, self.lazy, self.branch_size, self.view, self.copy = inputs, outputs, True, n, view, copy
        # keep the cells in tuples, because callers may change the lists
        self.owned = tuple(inputs), tuple(outputs), tuple(input_flags), tuple(output_flags)
        self.sides = <PyObject **>allocate(&self.arena, 3 * n, sizeof(PyObject *))
        self.movable = <char *>allocate(&self.arena, n, 1)
        self.condition = <PyObject *>inputs[0]
        self.results = self.sides + 2 * n
        for i in range(2 * n):
            self.sides[i] = <PyObject *>inputs[1 + i]
        for i in range(n):
            self.results[i] = <PyObject *>outputs[i]
        self.run, self.data = run_branch, <void *>self

    def __dealloc__(self):
        free_arena(&self.arena)

    def __call__(self):
        _, _, input_flags, output_flags = self.owned
        if not input_flags[0][0]:
            return [0]
        first = 1 + self.branch_size * self.choose()
        missing = [i for i in range(first, first + self.branch_size) if not input_flags[i][0]]
        if not missing:
            self.fill(first > 1, False)
            for flag in output_flags:
                flag[0] = 1
        return missing

    cdef int choose(self) except -1:
        """Return 0 for the first branch, 1 for the second."""
        cdef PyObject *value = peek(self.condition)
        if is_exact_array(value) and array_ndim(<Array *>value) == 0 and plain_numbers(array_type(<Array *>value)):
            return 0 if array_functions(<Descr *>array_descr(<Array *>value)).nonzero(array_data(<Array *>value), value) else 1
        return 0 if <object>value != 0 else 1

    cdef int fill(self, int side, bint move) except -1:
        """Put the values of a branch into the output cells.

        Parameters
        ----------
        side : int
            0 for the first branch, 1 for the second.
        move : bool
            Whether values that `movable` marks may be moved to the output cells instead of copied.
        """
        cdef PyObject *value
        cdef PyObject *old
        cdef int j
        for j in range(self.branch_size):
            value = peek(self.sides[side * self.branch_size + j])
            if self.view and side == 0:
                put(self.results[j], value)
            elif not is_exact_array(value):
                copied = self.copy(<object>value)
                put(self.results[j], <PyObject *>copied)
            elif move and self.movable[j] and ours_alone(value):
                put_owned(self.results[j], take(self.sides[side * self.branch_size + j]))
            else:
                old = peek(self.results[j])
                if (ours_alone(old) and array_type(<Array *>old) == array_type(<Array *>value) and same_shape(<Array *>old, <Array *>value)
                        and plain_numbers(array_type(<Array *>old)) and native_order(<Array *>old) and native_order(<Array *>value)
                        and has_flags(<Array *>old, cnp.NPY_ARRAY_C_CONTIGUOUS) and has_flags(<Array *>value, cnp.NPY_ARRAY_C_CONTIGUOUS)):
                    memcpy(array_data(<Array *>old), array_data(<Array *>value), array_nbytes(<Array *>old))
                else:
                    copied = cnp.PyArray_NewCopy(<cnp.ndarray>value, cnp.NPY_CORDER)
                    put(self.results[j], <PyObject *>copied)
        return 0


cdef extern from "x86_64_level.h":
    int tng_x86_64_level()


def processor_level():
    """Return the level of the x86-64 instruction set that the processor and the system support.

    The level is 4 with AVX-512, 3 with AVX2, and otherwise 1, also on processors of other architectures.
    """
    return tng_x86_64_level()


def dlopen_symbols(str path, names, bint partly=False):
    """Open a shared library permanently and return the addresses of its symbols.

    Parameters
    ----------
    path : str
    names : iterable of str
    partly : bool
        Whether symbols may be missing. The address of a missing symbol is 0.

    Raises
    ------
    OSError
        If the file cannot be loaded (the message is then the message of the dynamic linker), or if a symbol is missing
        and `partly` is false.
    """
    cdef bytes encoded = path.encode("utf-8", "surrogateescape")
    cdef void *handle = dlopen(encoded, RTLD_NOW | RTLD_LOCAL)
    cdef void *address
    if handle == NULL:
        raise OSError(dlerror().decode("utf-8", "replace"))
    addresses = []
    for name in names:
        encoded = name.encode("ascii")
        address = dlsym(handle, encoded)
        if address == NULL and not partly:
            dlclose(handle)
            raise OSError("%s has no symbol %s" % (path, name))
        addresses.append(<intptr_t>address)
    return addresses


def symbol_at(intptr_t address):
    """Return the name of the symbol at an address in a loaded library. Return None if no symbol has this address."""
    cdef Dl_info found
    if not dladdr(<const void *>address, &found) or found.dli_sname == NULL or <intptr_t>found.dli_saddr != address:
        return None
    return found.dli_sname.decode("utf-8", "replace")


def capsule_address(capsule):
    """Return the pointer inside a capsule of any name."""
    return <intptr_t>PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule))


def address_of_open_queue():
    """Return the address of the pointer to the open queue of the process. Queues set this pointer."""
    return <intptr_t>&open_queue


def read_address(intptr_t address):
    """Return the pointer stored at an address."""
    return <intptr_t>(<void **>address)[0]
