"""Copies of state that a call overwrites in place, and the restoration of that state when the call fails.

`_function.pyx` decides which state a call copies.
"""
import copy

from libc.string cimport memcmp, memcpy
cimport numpy as cnp

cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    int PyArray_CheckExact(object value)
    int PyDataType_REFCHK(cnp.dtype dtype)
    object PyArray_NewCopy(cnp.ndarray array, cnp.NPY_ORDER order)

# assumed size in bytes of a value of unknown size: it is not small
cdef enum:
    UNKNOWN_SIZE = 1 << 30

# The class of arrays on devices, when one is used.
cdef object DeviceArray = None


def set_device_array(cls):
    """Say of which class arrays on devices are: state of functions that is overwritten in place."""
    global DeviceArray
    DeviceArray = cls


cdef bint is_on_device(value):
    """Whether a value is an array on a device."""
    return type(value) is DeviceArray


cdef bint is_generator(value):
    """Whether a value is a generator of random numbers, whose state can be taken and put back."""
    return hasattr(value, "get_state") and hasattr(value, "set_state")


cdef Py_ssize_t size_of(value) except -1:
    """How many bytes a copy of a value copies, about. A generator counts nothing: it is always copied."""
    if PyArray_CheckExact(value):
        return cnp.PyArray_NBYTES(<cnp.ndarray>value)
    if type(value) is list:
        return bytes_in_list(value)
    if is_on_device(value):
        return value.nbytes
    return 0 if is_generator(value) else UNKNOWN_SIZE


cdef Py_ssize_t bytes_in_list(list value) except -1:
    """How much a copy of a list copies, inner lists and arrays included."""
    cdef Py_ssize_t size = 8 * len(value)
    for element in value:
        if type(element) is list:
            size += bytes_in_list(element)
        else:
            size += getattr(element, "nbytes", 8)
    return size


# -- generators of NumPy: `get_state` takes 40 us, many times what a small sample takes


cdef struct TwisterState:
    # As numpy.random.MT19937 keeps it.
    unsigned int key[624]
    int position


cdef struct SecondNormal:
    # As numpy.random.RandomState keeps it: normal numbers are made in pairs.
    int is_there
    double value


cdef enum:
    NOT_LOOKED_FOR = -2
    NOT_FOUND = -1

# Where in a RandomState its SecondNormal is. NumPy does not say; `find_second_normal` looks, and does not believe without a proof.
cdef Py_ssize_t second_normal_at = NOT_LOOKED_FOR
cdef object RandomState = None, MT19937 = None


cdef class GeneratorBackup:
    """The state of a RandomState over an MT19937. Bringing it back takes no memory.

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
    """Whether a `GeneratorBackup` can be made of a value."""
    global second_normal_at, RandomState, MT19937
    if second_normal_at == NOT_LOOKED_FOR:
        from numpy.random import MT19937, RandomState
        second_normal_at = find_second_normal()
    return second_normal_at != NOT_FOUND and type(value) is RandomState and type(value._bit_generator) is MT19937


cdef Py_ssize_t find_second_normal() except NOT_LOOKED_FOR:
    """Where in a RandomState its SecondNormal is; NOT_FOUND unless all of its state is seen to be where we take it to be."""
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
    """Whether a state that is set is read, and a state that is read comes back."""
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
    """What brings a value back after it was changed in place: its state, or a copy."""
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
    """Give an array the elements of its copy; False where Python objects are among them. Takes no memory."""
    if PyDataType_REFCHK(value.descr):
        return False
    if cnp.PyArray_IS_C_CONTIGUOUS(value) and cnp.PyArray_IS_C_CONTIGUOUS(backup):
        memcpy(cnp.PyArray_DATA(value), cnp.PyArray_DATA(backup), cnp.PyArray_NBYTES(value))
    else:
        copy_elements(cnp.PyArray_NDIM(value), cnp.PyArray_DIMS(value), cnp.PyArray_BYTES(value), cnp.PyArray_STRIDES(value),
                      cnp.PyArray_BYTES(backup), cnp.PyArray_STRIDES(backup), cnp.PyArray_ITEMSIZE(value))
    return True


cdef void bring_back(list cell, value, backup) noexcept:
    """Let a cell hold what it held before its value was changed.

    Others may hold the value (borrow=True), so it stays the same object. Where that fails, as changing other objects than arrays may take memory,
    the cell gets the copy.
    """
    try:
        if cnp.PyArray_Check(value):
            # A read-only one has not been changed.
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
    """A copy of a list and the lists in it; of what they hold too, if it is to be deep."""
    cdef list made = []
    for element in value:
        if type(element) is list:
            made.append(copy_list(element, deep))
        else:
            made.append(copy.deepcopy(element) if deep else element)
    return made
