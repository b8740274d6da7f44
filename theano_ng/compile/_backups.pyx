"""Backups of state that a call overwrites in place, and the restoration of that state when the call fails.

`_function.pyx` decides which state is backed up before a call.
"""
import copy

from libc.string cimport memcmp, memcpy
cimport numpy as cnp

cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    int PyArray_CheckExact(object value)
    int PyDataType_REFCHK(cnp.dtype dtype)
    object PyArray_NewCopy(cnp.ndarray array, cnp.NPY_ORDER order)

# The size in bytes that is assumed for a value of unknown size, so that the value does not count as small.
cdef enum:
    UNKNOWN_SIZE = 1 << 30

# The class of device arrays; None until `set_device_array` is called.
cdef object DeviceArray = None


def set_device_array(cls):
    """Set the class of device arrays, so that state of functions that is stored in device arrays can be backed up."""
    global DeviceArray
    DeviceArray = cls


cdef bint is_on_device(value):
    """Return True if a value is a device array."""
    return type(value) is DeviceArray


cdef bint is_generator(value):
    """Return True if a value is a random number generator whose state can be read and restored."""
    return hasattr(value, "get_state") and hasattr(value, "set_state")


cdef Py_ssize_t size_of(value) except -1:
    """Return the approximate size in bytes of a copy of a value. A generator counts as size 0: it is always copied."""
    if PyArray_CheckExact(value):
        return cnp.PyArray_NBYTES(<cnp.ndarray>value)
    if type(value) is list:
        return bytes_in_list(value)
    if is_on_device(value):
        return value.nbytes
    return 0 if is_generator(value) else UNKNOWN_SIZE


cdef Py_ssize_t bytes_in_list(list value) except -1:
    """Return the approximate size in bytes of a deep copy of a list, inner lists and arrays included."""
    cdef Py_ssize_t size = 8 * len(value)
    for element in value:
        if type(element) is list:
            size += bytes_in_list(element)
        else:
            size += getattr(element, "nbytes", 8)
    return size


# -- The state of NumPy generators. Copy it directly, because `get_state` takes 40 us, many times longer than drawing a
# small sample.


cdef struct TwisterState:
    # The memory layout of the state of numpy.random.MT19937.
    unsigned int key[624]
    int position


cdef struct SecondNormal:
    # RandomState generates normal samples in pairs, and stores the second sample of a pair in this memory layout.
    int is_there
    double value


cdef enum:
    NOT_LOOKED_FOR = -2
    NOT_FOUND = -1

# Offset in bytes of the SecondNormal inside a RandomState object. NumPy does not publish the offset:
# `find_second_normal` searches the object's memory, and verifies the result before the offset is used.
cdef Py_ssize_t second_normal_at = NOT_LOOKED_FOR
cdef object RandomState = None, MT19937 = None


cdef class GeneratorBackup:
    """The saved state of a RandomState that uses an MT19937 generator. Restoring it allocates no memory.

    Attributes
    ----------
    bit_generator : numpy.random.MT19937
    """

    cdef object bit_generator
    cdef TwisterState *twister
    cdef TwisterState twister_state
    cdef SecondNormal second_normal

    def __cinit__(self, generator):
        self.bit_generator = generator._bit_generator
        self.twister = <TwisterState *><size_t>self.bit_generator.ctypes.state_address
        self.twister_state = self.twister[0]
        self.second_normal = second_normal_of(generator)[0]

    cdef void bring_back(self, generator) noexcept:
        self.twister[0] = self.twister_state
        second_normal_of(generator)[0] = self.second_normal


cdef inline SecondNormal *second_normal_of(generator) noexcept:
    return <SecondNormal *>(<char *><void *>generator + second_normal_at)


cpdef bint has_known_layout(value) except -1:
    """Return True if a `GeneratorBackup` can hold the state of a value."""
    global second_normal_at, RandomState, MT19937
    if second_normal_at == NOT_LOOKED_FOR:
        from numpy.random import MT19937, RandomState
        second_normal_at = find_second_normal()
    return second_normal_at != NOT_FOUND and type(value) is RandomState and type(value._bit_generator) is MT19937


cdef Py_ssize_t find_second_normal() except NOT_LOOKED_FOR:
    """Return the offset of the SecondNormal inside a RandomState object.

    Return NOT_FOUND unless tests confirm that the whole state has the assumed memory layout.
    """
    global second_normal_at
    cdef double number = 0.5772156649015329
    generator = RandomState(0)
    generator.set_state(("MT19937", range(624), 5, 1, number))
    cdef char *memory = <char *><void *>generator
    cdef Py_ssize_t k, size = RandomState.__basicsize__
    cdef list places = []
    for k in range(0, size - <Py_ssize_t>sizeof(double) + 1, sizeof(double)):
        if memcmp(memory + k, &number, sizeof(double)) == 0:
            places.append(k)
    if len(places) != 1:
        return NOT_FOUND
    second_normal_at = places[0] - <Py_ssize_t>(sizeof(SecondNormal) - sizeof(double))
    try:
        return second_normal_at if all([is_where_expected(k) for k in range(4)]) else NOT_FOUND
    finally:
        second_normal_at = NOT_LOOKED_FOR


cdef bint is_where_expected(int k) except -1:
    """Return True if a GeneratorBackup reads the state that `set_state` has set, and can restore this state.

    `k` selects one of several test states.
    """
    generator = RandomState(0)
    key = [(k + 1) * 1000003 * i % 2**32 for i in range(624)]
    wanted = "MT19937", key, 600 + k, k % 2, 0.25 + k
    generator.set_state(wanted)
    backup = GeneratorBackup(generator)
    cdef list words = [backup.twister_state.key[i] for i in range(624)]
    read = "MT19937", words, backup.twister_state.position, backup.second_normal.is_there, backup.second_normal.value
    generator.seed(k)
    backup.bring_back(generator)
    name, array, *numbers = generator.get_state()
    return read == wanted == (name, array.tolist(), *numbers)


# -- all kinds of values


cdef object backup_of(value):
    """Return a backup of a value, from which `bring_back` can restore the value: a generator's state, or a copy."""
    if PyArray_CheckExact(value):
        return PyArray_NewCopy(<cnp.ndarray>value, cnp.NPY_KEEPORDER)
    if type(value) is list:
        return copy_list(value, True)
    if has_known_layout(value):
        return GeneratorBackup(value)
    return value.get_state() if is_generator(value) else copy.deepcopy(value)


cdef void copy_elements(int ndim, const cnp.npy_intp *dims, char *to, const cnp.npy_intp *to_strides, const char *source,
                        const cnp.npy_intp *strides, size_t size) noexcept nogil:
    cdef cnp.npy_intp i
    if ndim == 0:
        memcpy(to, source, size)
        return
    for i in range(dims[0]):
        copy_elements(ndim - 1, dims + 1, to + i * to_strides[0], to_strides + 1, source + i * strides[0], strides + 1, size)


cdef bint write_back(cnp.ndarray value, cnp.ndarray backup) noexcept:
    """Copy the elements of a backup back into an array, without allocating memory.

    Return False, and copy nothing, if the dtype contains Python objects.
    """
    if PyDataType_REFCHK(value.descr):
        return False
    if cnp.PyArray_IS_C_CONTIGUOUS(value) and cnp.PyArray_IS_C_CONTIGUOUS(backup):
        memcpy(cnp.PyArray_DATA(value), cnp.PyArray_DATA(backup), cnp.PyArray_NBYTES(value))
    else:
        copy_elements(cnp.PyArray_NDIM(value), cnp.PyArray_DIMS(value), cnp.PyArray_BYTES(value), cnp.PyArray_STRIDES(value),
                      cnp.PyArray_BYTES(backup), cnp.PyArray_STRIDES(backup), cnp.PyArray_ITEMSIZE(value))
    return True


cdef void bring_back(list cell, value, backup) noexcept:
    """Restore the value that a cell held before the value was changed in place.

    The contents of the object itself are restored, because with borrow=True the user may hold a reference to the
    object. Restoring an object other than an array can allocate memory and may fail. If it fails, the cell gets the
    backup, unless the object is a generator.
    """
    try:
        if cnp.PyArray_Check(value):
            # A read-only array has not been changed, so it is not restored.
            if cnp.PyArray_ISWRITEABLE(<cnp.ndarray>value) and not write_back(value, backup):
                value[...] = backup
        elif type(backup) is GeneratorBackup:
            (<GeneratorBackup>backup).bring_back(value)
        elif is_on_device(value):
            value[...] = backup
        elif type(value) is list:
            (<list>value)[:] = backup
        elif is_generator(value):
            value.set_state(backup)
        else:
            value = backup
    except BaseException:
        if not is_generator(value):
            value = backup
    cell[0] = value


cdef list copy_list(list value, bint deep):
    """Return a copy of a list, with copies of its inner lists. If `deep`, other elements are deep copies."""
    cdef list made = []
    for element in value:
        if type(element) is list:
            made.append(copy_list(element, deep))
        else:
            made.append(copy.deepcopy(element) if deep else element)
    return made
