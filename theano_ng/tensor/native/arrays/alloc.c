/* A recycling allocator for the data of large arrays.
 *
 * The page faults of a new block of several MiB often take longer than the loop that fills the block. glibc returns a
 * block of this size to the system when the block is freed, so each new block causes page faults again. Arrays of at
 * least NATIVE_BIG bytes that native code creates therefore get their data from a NumPy data-memory handler (NEP 49).
 * The handler keeps freed blocks for the next array of nearly the same size: at most KEEP_BLOCKS blocks, with at most
 * KEEP_BYTES bytes together. Beyond these limits, the handler frees the oldest blocks. `trim()` frees all kept blocks.
 * The arrays own their data as usual. */
#include "native.h"
#include <stdatomic.h>
#include <stdlib.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

#define KEEP_BYTES ((size_t)256 << 20)
#define KEEP_BLOCKS 64
/* The number of bytes before the data in a block. With this number, the data is aligned to cache lines, and starts in
 * the middle of a page. The data of other large arrays, from glibc, starts 16 bytes after the start of a page. A loop
 * that reads one array and writes another is up to a third slower if, modulo the page size, the address of a store is
 * slightly below the address of a load. */
#define HEADER 2112
/* The domain of NumPy's data in tracemalloc: numpy.lib.tracemalloc_domain. */
#define TRACE_DOMAIN 389047
#define HUGE_PAGE ((size_t)2 << 20)

typedef struct {
    size_t capacity; /* bytes of data that fit after the header */
} Block;

static struct {
    atomic_flag lock;
    size_t bytes;
    int count;
    Block *blocks[KEEP_BLOCKS]; /* oldest first */
    uint64_t hits, misses;
} kept = {.lock = ATOMIC_FLAG_INIT};

static void lock_kept(void)
{
    while (atomic_flag_test_and_set_explicit(&kept.lock, memory_order_acquire)) {}
}

static void unlock_kept(void)
{
    atomic_flag_clear_explicit(&kept.lock, memory_order_release);
}

/* Round a size up to a multiple of p / 8 (at least 4096), where p is the largest power of two that is not greater than
 * the size. Arrays of nearly the same size can then share blocks. */
static size_t size_class(size_t size)
{
    size_t step = 4096;
    while (step * 16 <= size)
        step *= 2;
    return (size + step - 1) / step * step;
}

static Block *new_block(size_t capacity)
{
    size_t total = capacity + HEADER;
    void *memory = NULL;
    if (posix_memalign(&memory, total >= 2 * HUGE_PAGE ? HUGE_PAGE : 4096, total) != 0)
        return NULL;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (total >= 2 * HUGE_PAGE)
        madvise(memory, total, MADV_HUGEPAGE);
#endif
    ((Block *)memory)->capacity = capacity;
    return memory;
}

/* The byte with which a thread fills new memory between its calls of `fill` and `restore`; -1: memory is not filled.
 * Each thread has its own byte, as each thread has its own NumPy handler. If threads shared the byte, the `restore` of
 * one thread could change the byte while another thread is still between its `fill` and its `restore`. */
static _Thread_local int fill_byte = -1;

static void *filled(void *data, size_t size)
{
    if (data != NULL && fill_byte >= 0)
        memset(data, fill_byte, size);
    return data;
}

/* Return all kept blocks to the system. */
static void drop_kept(void)
{
    Block *dropped[KEEP_BLOCKS];
    lock_kept();
    int count = kept.count;
    memcpy(dropped, kept.blocks, sizeof dropped);
    kept.count = 0;
    kept.bytes = 0;
    unlock_kept();
    for (int i = 0; i < count; ++i)
        free(dropped[i]);
}

static void *big_malloc(void *context, size_t size)
{
    (void)context;
    if (size > SIZE_MAX / 2)
        return NULL;
    size_t capacity = size_class(size > 0 ? size : 1);
    Block *block = NULL;
    lock_kept();
    for (int i = kept.count - 1; i >= 0; --i) {
        if (kept.blocks[i]->capacity == capacity) {
            block = kept.blocks[i];
            kept.bytes -= capacity;
            --kept.count;
            memmove(&kept.blocks[i], &kept.blocks[i + 1], (size_t)(kept.count - i) * sizeof kept.blocks[0]);
            break;
        }
    }
    block != NULL ? ++kept.hits : ++kept.misses;
    unlock_kept();
    if (block == NULL)
        block = new_block(capacity);
    if (block == NULL) {
        drop_kept();
        block = new_block(capacity);
    }
    return block == NULL ? NULL : filled((char *)block + HEADER, size);
}

static void big_free(void *context, void *data, size_t size)
{
    (void)context;
    (void)size;
    if (data == NULL)
        return;
    Block *block = (Block *)((char *)data - HEADER);
    Block *dropped[KEEP_BLOCKS + 1];
    int n_dropped = 0;
    if (block->capacity > KEEP_BYTES || block->capacity < NATIVE_BIG) {
        free(block);
        return;
    }
    lock_kept();
    while (kept.count == KEEP_BLOCKS || kept.bytes + block->capacity > KEEP_BYTES) {
        Block *oldest = kept.blocks[0];
        kept.bytes -= oldest->capacity;
        --kept.count;
        memmove(&kept.blocks[0], &kept.blocks[1], (size_t)kept.count * sizeof kept.blocks[0]);
        dropped[n_dropped++] = oldest;
    }
    kept.blocks[kept.count++] = block;
    kept.bytes += block->capacity;
    unlock_kept();
    while (n_dropped > 0)
        free(dropped[--n_dropped]);
}

static void *big_calloc(void *context, size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / size)
        return NULL;
    void *data = big_malloc(context, count * size);
    if (data != NULL)
        memset(data, 0, count * size);
    return data;
}

static void *big_realloc(void *context, void *data, size_t size)
{
    if (data == NULL)
        return big_malloc(context, size);
    size_t capacity = ((Block *)((char *)data - HEADER))->capacity;
    if (size <= capacity && size >= capacity / 2)
        return data;
    void *fresh = big_malloc(context, size);
    if (fresh != NULL) {
        memcpy(fresh, data, size < capacity ? size : capacity);
        big_free(context, data, capacity);
    }
    return fresh;
}

static PyDataMem_Handler handler = {
    "theano_ng_recycling",
    1,
    {NULL, big_malloc, big_calloc, big_realloc, big_free},
};
static PyObject *handler_capsule;

/* NumPy's arrays get memory from this handler between calls of `fill` and `restore`. The handler fills new memory with
 * `fill_byte`. It places a margin with a pattern on each side of a block, so that writes outside of an array are found and
 * damage nothing else. A freed block is kept for a while, so that a second release of it is found, too. */

#define MARGIN 64
/* The number of freed blocks that are kept, and their largest size. */
#define KEEP_FREED 64
#define KEEP_FREED_SIZE ((size_t)1 << 20)
#define MOST_DAMAGES 16

enum { LIVE = 0x6c697665, FREED = 0x66726565 };

typedef struct Guarded {
    struct Guarded *next, *previous;
    size_t size;
    uint64_t state;
    unsigned char margin[MARGIN]; /* the second margin follows the data */
} Guarded;

typedef struct {
    const char *kind;
    size_t size;
    int bytes, farthest;
} Damage;

static struct {
    atomic_flag lock;
    Guarded first; /* the head of the list of the blocks in use */
    Guarded *freed[KEEP_FREED];
    unsigned oldest;
    Damage damages[MOST_DAMAGES];
    int count;
} guarded = {.lock = ATOMIC_FLAG_INIT, .first = {.next = &guarded.first, .previous = &guarded.first}};

static void lock_guarded(void)
{
    while (atomic_flag_test_and_set_explicit(&guarded.lock, memory_order_acquire)) {}
}

static void unlock_guarded(void)
{
    atomic_flag_clear_explicit(&guarded.lock, memory_order_release);
}

/* The pattern of both margins. All bytes are greater than 1, so that a write of a bool changes them. */
static unsigned char pattern[MARGIN];

static void report(const char *kind, size_t size, int bytes, int farthest)
{
    if (guarded.count < MOST_DAMAGES)
        guarded.damages[guarded.count++] = (Damage){kind, size, bytes, farthest};
}

/* Check the margins of a block, and write the pattern again. The lock is held. */
static void check_margins(Guarded *block)
{
    unsigned char *after = (unsigned char *)(block + 1) + block->size;
    if (memcmp(block->margin, pattern, MARGIN) == 0 && memcmp(after, pattern, MARGIN) == 0)
        return;
    int before_bytes = 0, after_bytes = 0, before_far = 0, after_far = 0;
    for (int i = 0; i < MARGIN; ++i) {
        if (block->margin[i] != pattern[i]) {
            ++before_bytes;
            before_far = before_far ? before_far : MARGIN - i;
        }
        if (after[i] != pattern[i]) {
            ++after_bytes;
            after_far = i + 1;
        }
    }
    memcpy(block->margin, pattern, MARGIN);
    memcpy(after, pattern, MARGIN);
    if (before_bytes)
        report("before its first byte", block->size, before_bytes, before_far);
    if (after_bytes)
        report("after its last byte", block->size, after_bytes, after_far);
}

static void *guarded_block(size_t size)
{
    Guarded *block = size > SIZE_MAX / 2 ? NULL : malloc(sizeof(Guarded) + size + MARGIN);
    if (block == NULL)
        return NULL;
    unsigned char *data = (unsigned char *)(block + 1);
    memcpy(block->margin, pattern, MARGIN);
    memcpy(data + size, pattern, MARGIN);
    block->size = size;
    block->state = LIVE;
    lock_guarded();
    block->next = guarded.first.next;
    block->previous = &guarded.first;
    block->next->previous = block->previous->next = block;
    unlock_guarded();
    return data;
}

static void *fill_malloc(void *context, size_t size)
{
    (void)context;
    return filled(guarded_block(size), size);
}

static void *fill_calloc(void *context, size_t count, size_t size)
{
    (void)context;
    if (size != 0 && count > SIZE_MAX / size)
        return NULL;
    void *data = guarded_block(count * size);
    return data == NULL ? NULL : memset(data, 0, count * size);
}

static void fill_free(void *context, void *data, size_t size)
{
    (void)context;
    (void)size;
    if (data == NULL)
        return;
    Guarded *block = (Guarded *)data - 1, *dropped = NULL;
    lock_guarded();
    if (block->state != LIVE || block->next->previous != block || block->previous->next != block) {
        /* Leave a block alone that was released before, or whose description was overwritten. */
        report(block->state == FREED ? "released twice" : "long before its first byte", block->size, 0, 0);
        unlock_guarded();
        return;
    }
    check_margins(block);
    block->next->previous = block->previous;
    block->previous->next = block->next;
    block->state = FREED;
    if (block->size <= KEEP_FREED_SIZE) {
        dropped = guarded.freed[guarded.oldest];
        guarded.freed[guarded.oldest] = block;
        guarded.oldest = (guarded.oldest + 1) % KEEP_FREED;
    }
    else
        dropped = block;
    unlock_guarded();
    free(dropped);
}

static void *fill_realloc(void *context, void *data, size_t size)
{
    void *fresh = guarded_block(size);
    if (fresh != NULL && data != NULL) {
        size_t old = ((Guarded *)data - 1)->size;
        memcpy(fresh, data, old < size ? old : size);
        fill_free(context, data, old);
    }
    return fresh;
}

/* Return and forget what was damaged since the last call. */
static PyObject *damages(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    Damage found[MOST_DAMAGES];
    lock_guarded();
    for (Guarded *block = guarded.first.next; block != &guarded.first; block = block->next)
        check_margins(block);
    int count = guarded.count;
    memcpy(found, guarded.damages, sizeof found);
    guarded.count = 0;
    unlock_guarded();
    PyObject *list = PyList_New(count);
    for (int i = 0; list != NULL && i < count; ++i) {
        PyObject *item =
            Py_BuildValue("(snii)", found[i].kind, (Py_ssize_t)found[i].size, found[i].bytes, found[i].farthest);
        if (item == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, item);
    }
    return list;
}

static PyDataMem_Handler fill_handler = {
    "theano_ng_filling",
    1,
    {NULL, fill_malloc, fill_calloc, fill_realloc, fill_free},
};
static PyObject *fill_capsule;

/* Return the size in bytes of an array of numbers. Return 0 if the array is empty or too large. */
static size_t bytes_of(int nd, const npy_intp *dims, int type_num)
{
    PyArray_Descr *dtype = PyArray_DescrFromType(type_num);
    size_t item = dtype == NULL ? 0 : (size_t)PyDataType_ELSIZE(dtype);
    npy_intp count = PyArray_OverflowMultiplyList((npy_intp *)dims, nd);
    Py_XDECREF(dtype);
    return count <= 0 || item == 0 || (size_t)count > SIZE_MAX / 2 / item ? 0 : (size_t)count * item;
}

/* Return a new array with data from the recycling handler. Parameters, result and errors are the same as for
 * native_new.
 *
 * The function stores the handler in the array directly, instead of calling PyDataMem_SetHandler. That function sets a
 * context variable, and PyContextVar_Set of CPython 3.11 crashes if no memory is left. If new_big gets no memory, NumPy
 * raises its usual error. */
static PyObject *new_big(int nd, const npy_intp *dims, int type_num, int fortran)
{
    size_t size = bytes_of(nd, dims, type_num);
    void *data = size ? big_malloc(NULL, size) : NULL;
    int flags = data == NULL ? (fortran ? NPY_ARRAY_F_CONTIGUOUS : 0) : fortran ? NPY_ARRAY_FARRAY : NPY_ARRAY_CARRAY;
    PyObject *array = PyArray_New(&PyArray_Type, nd, (npy_intp *)dims, type_num, NULL, data, 0, flags, NULL);
    if (array == NULL && data != NULL)
        big_free(NULL, data, size);
    else if (data != NULL) {
        Py_INCREF(handler_capsule);
        ((PyArrayObject_fields *)array)->mem_handler = handler_capsule;
        PyArray_ENABLEFLAGS((PyArrayObject *)array, NPY_ARRAY_OWNDATA);
        /* Track the memory in tracemalloc, because NumPy untracks it when it deallocates the array. */
        PyTraceMalloc_Track(TRACE_DOMAIN, (uintptr_t)data, size);
    }
    return array;
}

static const NativeAllocApi api = {new_big};

static PyObject *empty(PyObject *self, PyObject *args)
{
    (void)self;
    PyArray_Dims shape = {NULL, 0};
    PyArray_Descr *dtype = NULL;
    if (!PyArg_ParseTuple(args, "O&O&", PyArray_IntpConverter, &shape, PyArray_DescrConverter, &dtype)) {
        PyDimMem_FREE(shape.ptr);
        return NULL;
    }
    npy_intp size = PyArray_OverflowMultiplyList(shape.ptr, shape.len);
    npy_intp item = PyDataType_ELSIZE(dtype);
    PyObject *array;
    if (size >= 0 && item > 0 && size >= NATIVE_BIG / item && PyArray_ISNBO(dtype->byteorder)
        && PyTypeNum_ISNUMBER(dtype->type_num)) {
        array = new_big(shape.len, shape.ptr, dtype->type_num, 0);
        Py_DECREF(dtype);
    }
    else /* PyArray_Empty steals the reference to dtype, and raises the error for too many elements. */
        array = PyArray_Empty(shape.len, shape.ptr, dtype, 0);
    PyDimMem_FREE(shape.ptr);
    return array;
}

static PyObject *trim(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    drop_kept();
    Py_RETURN_NONE;
}

static PyObject *stats(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    lock_kept();
    size_t bytes = kept.bytes;
    int count = kept.count;
    uint64_t hits = kept.hits, misses = kept.misses;
    unlock_kept();
    return Py_BuildValue("{s:n,s:i,s:K,s:K}", "kept_bytes", (Py_ssize_t)bytes, "kept_blocks", count, "hits",
                         (unsigned long long)hits, "misses", (unsigned long long)misses);
}

static PyObject *fill(PyObject *self, PyObject *arg)
{
    (void)self;
    long byte = PyLong_AsLong(arg);
    if (byte == -1 && PyErr_Occurred())
        return NULL;
    if (byte < 0 || byte > 255) {
        PyErr_Format(PyExc_ValueError, "expected a byte from 0 to 255, got %ld", byte);
        return NULL;
    }
    PyObject *previous = PyDataMem_SetHandler(fill_capsule);
    if (previous == NULL)
        return NULL;
    PyObject *result = Py_BuildValue("(iN)", fill_byte, previous);
    fill_byte = (int)byte;
    return result;
}

static PyObject *restore(PyObject *self, PyObject *args)
{
    (void)self;
    int byte;
    PyObject *previous;
    if (!PyArg_ParseTuple(args, "(iO)", &byte, &previous))
        return NULL;
    PyObject *ours = PyDataMem_SetHandler(previous);
    if (ours == NULL)
        return NULL;
    Py_DECREF(ours);
    fill_byte = byte;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"empty", empty, METH_VARARGS,
     "empty(shape, dtype): as `numpy.empty`; memory of large arrays of numbers is recycled."},
    {"damages", damages, METH_NOARGS,
     "Return a list of tuples (kind, size of the array, number of changed bytes, largest distance of a changed byte) "
     "of "
     "the writes outside of arrays that were made between `fill` and `restore`, and of the arrays whose memory was "
     "released twice. Each of them is returned once."},
    {"fill", fill, METH_O,
     "fill(byte): fill the memory of new arrays of this thread with a byte, and surround it by margins; return the "
     "argument for `restore`."},
    {"restore", restore, METH_VARARGS,
     "restore(previous): end the filling of memory that `fill` began in the same thread."},
    {"trim", trim, METH_NOARGS, "Return the kept blocks to the system."},
    {"stats", stats, METH_NOARGS, "Return a dict: kept_bytes, kept_blocks, hits, misses."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,
    "alloc",
    "Recycling allocator for the data of large arrays.",
    -1,
    methods,
    NULL,
    NULL,
    NULL,
    NULL,
};

PyMODINIT_FUNC PyInit_alloc(void)
{
    import_array();
    for (int i = 0; i < MARGIN; ++i)
        pattern[i] = (unsigned char)(2 + 151 * i % 254);
    PyObject *module = PyModule_Create(&module_def);
    if (module == NULL)
        return NULL;
    handler_capsule = PyCapsule_New(&handler, "mem_handler", NULL);
    fill_capsule = PyCapsule_New(&fill_handler, "mem_handler", NULL);
    PyObject *api_capsule = PyCapsule_New((void *)&api, NATIVE_ALLOC_CAPSULE, NULL);
    if (handler_capsule == NULL || fill_capsule == NULL || api_capsule == NULL
        || PyModule_AddObject(module, "_api", api_capsule) < 0) {
        Py_XDECREF(api_capsule);
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
