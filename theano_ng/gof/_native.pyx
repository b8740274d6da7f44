"""C thunks: native functions bound to cells, compiled modules' capsules, and kernels opened with dlopen."""
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.pycapsule cimport PyCapsule_GetContext, PyCapsule_GetName, PyCapsule_GetPointer
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.stdint cimport intptr_t
from posix.dlfcn cimport RTLD_LOCAL, RTLD_NOW, dlclose, dlerror, dlopen, dlsym

cimport numpy as cnp

cnp.import_array()

cdef extern from "Python.h":
    PyObject *Py_None
    PyObject *PyList_GET_ITEM(PyObject *cell, Py_ssize_t i) nogil
    void PyList_SET_ITEM(PyObject *cell, Py_ssize_t i, PyObject *value) nogil
    void incref "Py_INCREF"(PyObject *) nogil
    void decref "Py_DECREF"(PyObject *) nogil
    Py_ssize_t PyList_GET_SIZE(PyObject *cell) nogil


cdef class CThunk:
    def __call__(self):
        """Run once; raises what the C code raised."""
        if self.run(self.data) != 0:
            raise_current()


cdef int raise_current() except -1:
    """Propagate the exception that C code has set."""
    return -1


cdef extern from "numpy/arrayobject.h":
    ctypedef struct Array "PyArrayObject":
        pass
    bint is_array "PyArray_Check"(PyObject *value) noexcept
    int array_type "PyArray_TYPE"(Array *array) noexcept
    int array_ndim "PyArray_NDIM"(Array *array) noexcept
    bint behaved "PyArray_ISBEHAVED_RO"(Array *array) noexcept
    object PyArray_FromArray(cnp.ndarray array, cnp.dtype dtype, int requirements)


cdef inline bint fits(PyObject *value, int layout) noexcept:
    """Whether a value is an array of a layout's type number and rank; -1 says that any value will do."""
    return layout < 0 or (is_array(value) and (array_type(<Array *>value) << 8 | array_ndim(<Array *>value)) == layout)


cdef int prepare(NativeCall *call, int i) noexcept:
    """An input that cannot go to C as it is: replaced by a copy in its native form when it is an array of the right kind, else refused.

    Without the check, C code that relies on the rank, type, alignment and byte order would crash or give wrong numbers. Such
    values come from trust_input or from an Op's perform; arguments are checked by their Type.
    """
    try:
        value = <object>call.values[i]
        number = call.layout[i] >> 8
        if fits(call.values[i], call.layout[i]):
            dtype = cnp.PyArray_DescrFromType(number)
            Py_INCREF(dtype)        # PyArray_FromArray takes a reference away
            copy = PyArray_FromArray(value, dtype, cnp.NPY_ARRAY_DEFAULT | cnp.NPY_ARRAY_ENSURECOPY)
            call.values[i] = <PyObject *>copy
            incref(call.values[i])
            call.copied[i] = 1
            return 0
        if not cnp.PyArray_Check(value):
            raise TypeError("expected an ndarray as input %d, not %r of type %s" % (i, value, type(value).__name__))
        raise TypeError("expected an array of dtype %s with %d dimensions as input %d, got dtype %s with %d dimensions" % (
            cnp.PyArray_DescrFromType(number), call.layout[i] & 255, i, value.dtype, value.ndim))
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
    """Values out of the cells, the call, values back into the cells.

    While the function runs, the output cells hold None: it may drop the previous value and meet the garbage collector.
    """
    cdef NativeCall *call = <NativeCall *>data
    cdef PyObject **cells = call.cells
    cdef PyObject **values = call.values
    cdef PyObject *value
    cdef int i, layout, n = call.nin + call.nout
    cdef bint copied = False
    for i in range(call.nin):
        values[i] = PyList_GET_ITEM(cells[i], 0)
        layout = call.layout[i]
        if layout >= 0 and not (fits(values[i], layout) and behaved(<Array *>values[i])):
            if prepare(call, i) != 0:
                drop_copies(call)
                return -1
            copied = True
    for i in range(call.nin, n):
        value = PyList_GET_ITEM(cells[i], 0)
        if value == Py_None:
            values[i] = NULL
            continue
        incref(Py_None)
        PyList_SET_ITEM(cells[i], 0, Py_None)
        if fits(value, call.layout[i]):
            values[i] = value
        else:
            values[i] = NULL
            decref(value)
    cdef int status = call.function(call.nin, call.nout, values, values + call.nin, call.params)
    for i in range(call.nin, n):
        if values[i] != NULL:
            value = PyList_GET_ITEM(cells[i], 0)
            PyList_SET_ITEM(cells[i], 0, values[i])
            decref(value)
    if copied:
        drop_copies(call)
    return status


cdef class NativeThunk(CThunk):
    """A native function bound to its cells.

    Parameters
    ----------
    function : PyCapsule
        A `native_fn` (see native.h).
    params : sequence of int
        The function's parameter words.
    scratch : int
        Number of zeroed words that follow them.
    inputs, outputs : list of cells
        One-element lists.
    layouts : list of int, optional
        For each input, then each output, ``type number << 8 | ndim`` of its arrays, or -1 where any value will do.
    """

    def __cinit__(self, function, params, Py_ssize_t scratch, list inputs, list outputs, list layouts=None):
        cdef Py_ssize_t i, n_params = len(params), nin = len(inputs), nout = len(outputs)
        self.keep = function
        self.inputs, self.outputs, self.lazy = inputs, outputs, False
        self.call.function = <native_fn>PyCapsule_GetPointer(function, "theano_ng.native_fn")
        self.call.nin, self.call.nout = nin, nout
        self.call.cells = <PyObject **>PyMem_Calloc(nin + nout + 1, sizeof(PyObject *))
        self.call.values = <PyObject **>PyMem_Calloc(nin + nout + 1, sizeof(PyObject *))
        self.call.params = <int64_t *>PyMem_Calloc(n_params + scratch + 1, sizeof(int64_t))
        self.call.layout = <int *>PyMem_Calloc(nin + nout + 1, sizeof(int))
        self.call.copied = <char *>PyMem_Calloc(nin + 1, 1)
        if not (self.call.cells and self.call.values and self.call.params and self.call.layout and self.call.copied):
            raise MemoryError()
        for i in range(nin + nout):
            self.call.layout[i] = -1 if layouts is None else layouts[i]
        for i in range(nin):
            check_cell(inputs[i])
            self.call.cells[i] = <PyObject *>inputs[i]
        for i in range(nout):
            check_cell(outputs[i])
            self.call.cells[nin + i] = <PyObject *>outputs[i]
        for i in range(n_params):
            self.call.params[i] = params[i]
        self.run, self.data = run_native, &self.call

    def __dealloc__(self):
        PyMem_Free(self.call.cells)
        PyMem_Free(self.call.values)
        PyMem_Free(self.call.params)
        PyMem_Free(self.call.layout)
        PyMem_Free(self.call.copied)


cdef int check_cell(cell) except -1:
    if type(cell) is not list or len(<list>cell) != 1:
        raise TypeError("a cell is a list of one element, not %r" % (cell,))
    return 0


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


cdef extern from "Python.h":
    void set_exception "PyErr_SetObject"(object kind, object value)


cdef class CapsuleThunk(CThunk):
    """A thunk of a compiled module.

    Parameters
    ----------
    capsule : PyCapsule
        Pointer: the struct; context: `int run(void *struct)`.
    error_storage : list
        Three elements: where the C code leaves exception type, value and traceback.
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


def dlopen_symbols(str path, names):
    """Open a shared library for good and return the addresses of its symbols.

    Raises
    ------
    OSError
        When the file cannot be loaded or a symbol is missing; the message is the dynamic linker's.
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
        if address == NULL:
            dlclose(handle)
            raise OSError("%s: no symbol %s" % (path, name))
        addresses.append(<intptr_t>address)
    return addresses


def capsule_address(capsule):
    """The pointer inside a capsule, whatever its name."""
    return <intptr_t>PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule))


def read_address(intptr_t address):
    """The pointer stored at an address."""
    return <intptr_t>(<void **>address)[0]
