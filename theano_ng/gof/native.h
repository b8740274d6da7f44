/* The common parts of the code of native Ops: the type of a native function, macros that define a module, allocation of
 * outputs, functions that read scalars, and errors.
 *
 * A native function implements one Op for all graphs. doc/internal/contracts.rst describes the calling convention.
 */
#ifndef THEANO_NG_NATIVE_H
#define THEANO_NG_NATIVE_H

#ifndef NPY_NO_DEPRECATED_API
#define NPY_NO_DEPRECATED_API NPY_1_22_API_VERSION
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>

typedef int (*native_fn)(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params);

/* Returns the size, in 64-bit words, of the scratch memory for a call with these parameters. Returns -1 with an
 * exception set if the parameters do not match the call. */
typedef int64_t (*native_scratch_fn)(int nin, int nout, const int64_t *params);

/* An entry of a native module: a native function, or the declaration of a table's rows (a record).
 *
 * name      the name of the entry in its module
 * function  the function; NULL for a record
 * params    the text of the parameters that NATIVE_PARAMS declares; NULL if there are none
 * scratch   the function that returns the size of the scratch memory; NULL if there is no such memory
 */
typedef struct {
    const char *name;
    native_fn function;
    const char *params;
    native_scratch_fn scratch;
} NativeEntry;

#define NATIVE_CAPSULE "theano_ng.native_entry"

/* Packed parameters. NATIVE_PARAMS(solve, structure, lower, shape[2]) declares
 *
 *     struct solve_params { int64_t structure, lower, shape[2]; };
 *
 * and stores the list of parameters as a string. gof/native_params.py reads the string, so that an Op can pass the
 * parameters by these names. The last parameter may be an array of any length, e.g. `n_axes, axes[]`.
 * NATIVE_TABLE(name, row, rows, params ...) declares a struct that ends in a table `rows` of `n_rows` structs.
 * NATIVE_PARAMS(row, ...) declares the type of these structs.
 *
 * An Op does not pass the lengths `n_...` of arrays and tables; they follow from the arrays and tables. An Op does not
 * pass a parameter `scratch` either. It is the address of memory that belongs to one thunk, is zeroed once, and keeps
 * its content between calls. The function `scratch` of the NativeEntry returns the size of this memory.
 */
#define NATIVE_TEXT(...) #__VA_ARGS__
#define NATIVE_PARAMS(name, ...) \
    struct name##_params {       \
        int64_t __VA_ARGS__;     \
    };                           \
    static const char name##_text[] __attribute__((unused)) = NATIVE_TEXT(__VA_ARGS__)
#define NATIVE_TABLE(name, row, rows, ...)          \
    struct name##_params {                          \
        int64_t __VA_OPT__(__VA_ARGS__, ) n_##rows; \
        struct row##_params rows[];                 \
    };                                              \
    static const char name##_text[] __attribute__((unused)) = NATIVE_TEXT(__VA_OPT__(__VA_ARGS__, ) n_##rows, rows[row])

/* Declares tng_<name>, which reads struct <name>_params, and defines the wrapper that NATIVE_ENTRY(name) refers to. */
#define NATIVE_READER(name)                                                                                      \
    static int tng_##name(int nin, int nout, PyObject **in, PyObject **out, const struct name##_params *params); \
    static int name##_reader(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)            \
    {                                                                                                            \
        return tng_##name(nin, nout, in, out, (const struct name##_params *)params);                             \
    }

/* Declares the parameters of a native function, and its reader. Most native functions need both declarations. */
#define NATIVE_FUNCTION(name, ...)    \
    NATIVE_PARAMS(name, __VA_ARGS__); \
    NATIVE_READER(name)

#define NATIVE_ENTRY(name) {#name, name##_reader, name##_text, NULL}
#define NATIVE_ENTRY_WITH_SCRATCH(name) {#name, name##_reader, name##_text, name##_scratch}
#define NATIVE_ROW(name) {#name, NULL, name##_text, NULL}

/* Defines the extension module `name`. Its attributes are the entries, as capsules, and `params`: a dict from the names
 * of the entries to the texts of their parameters. */
#define NATIVE_MODULE(name, entries)                                           \
    static struct PyModuleDef native_module_def = {                            \
        PyModuleDef_HEAD_INIT, #name, NULL, -1, NULL, NULL, NULL, NULL, NULL}; \
    PyMODINIT_FUNC PyInit_##name(void)                                         \
    {                                                                          \
        import_array();                                                        \
        PyObject *module = PyModule_Create(&native_module_def);                \
        if (module == NULL || native_add_entries(module, entries) < 0) {       \
            Py_XDECREF(module);                                                \
            return NULL;                                                       \
        }                                                                      \
        return module;                                                         \
    }

static inline int native_add_entries(PyObject *module, const NativeEntry *entry)
{
    PyObject *texts = PyDict_New();
    int status = PyModule_AddObjectRef(module, "params", texts);
    for (; entry->name != NULL && status == 0; ++entry) {
        PyObject *text = PyUnicode_FromString(entry->params == NULL ? "" : entry->params);
        status = text == NULL ? -1 : PyDict_SetItemString(texts, entry->name, text);
        Py_XDECREF(text);
        if (status == 0 && entry->function != NULL) {
            PyObject *capsule = PyCapsule_New((void *)entry, NATIVE_CAPSULE, NULL);
            status = PyModule_AddObjectRef(module, entry->name, capsule);
            Py_XDECREF(capsule);
        }
    }
    Py_XDECREF(texts);
    return status;
}

/* Returns an entry of another native module, given by the module's full name. Returns NULL with an exception set on
 * failure. */
static inline const NativeEntry *native_entry(const char *module_name, const char *name)
{
    PyObject *module = PyImport_ImportModule(module_name);
    PyObject *capsule = module == NULL ? NULL : PyObject_GetAttrString(module, name);
    const NativeEntry *entry =
        capsule == NULL ? NULL : (const NativeEntry *)PyCapsule_GetPointer(capsule, NATIVE_CAPSULE);
    Py_XDECREF(capsule);
    Py_XDECREF(module);
    return entry;
}

/* Arrays of at least this many bytes use recycled memory (theano_ng/tensor/native/arrays/alloc.c). */
#define NATIVE_BIG ((npy_intp)1 << 18)
#define NATIVE_ALLOC_CAPSULE "theano_ng.tensor.native.alloc._api"

typedef struct {
    PyObject *(*new_big)(int nd, const npy_intp *dims, int type_num, int fortran);
} NativeAllocApi;

static inline const NativeAllocApi *native_alloc_api(void)
{
    static const NativeAllocApi *api = NULL;
    if (api == NULL) {
        /* Import by the full name: PyCapsule_Import does not import submodules. */
        PyObject *module = PyImport_ImportModule("theano_ng.tensor.native.alloc");
        PyObject *capsule = module == NULL ? NULL : PyObject_GetAttrString(module, "_api");
        api = capsule == NULL ? NULL : (const NativeAllocApi *)PyCapsule_GetPointer(capsule, NATIVE_ALLOC_CAPSULE);
        Py_XDECREF(capsule);
        Py_XDECREF(module);
    }
    return api;
}

/* Returns a new array with undefined content. It is F-contiguous if `fortran`, otherwise C-contiguous. Returns NULL
 * with an exception set on failure. */
static inline PyArrayObject *native_new(int nd, const npy_intp *dims, int type_num, int fortran)
{
    npy_intp size = 1;
    for (int i = 0; i < nd; ++i)
        size = dims[i] == 0 || size > NPY_MAX_INTP / dims[i] ? 0 : size * dims[i];
    /* An element has at most 16 bytes, so an array with fewer than NATIVE_BIG / 16 elements is never big. */
    if (size >= NATIVE_BIG / 16) {
        PyArray_Descr *dtype = PyArray_DescrFromType(type_num);
        if (dtype == NULL)
            return NULL;
        npy_intp item = PyDataType_ELSIZE(dtype);
        Py_DECREF(dtype);
        if (size >= NATIVE_BIG / (item > 0 ? item : 1)) {
            const NativeAllocApi *api = native_alloc_api();
            return api == NULL ? NULL : (PyArrayObject *)api->new_big(nd, dims, type_num, fortran);
        }
    }
    return (PyArrayObject *)PyArray_New(&PyArray_Type, nd, (npy_intp *)dims, type_num, NULL, NULL, 0,
                                        fortran ? NPY_ARRAY_F_CONTIGUOUS : 0, NULL);
}

/* Returns whether an array has the strides of a new C-contiguous array. NumPy's flag does not suffice: it ignores the
 * strides of dimensions of length one. Code that steps by such a stride could leave the array's memory. */
static inline int native_has_c_strides(PyArrayObject *a)
{
    npy_intp expected = PyArray_ITEMSIZE(a);
    for (int k = PyArray_NDIM(a) - 1; k >= 0; --k) {
        if (PyArray_STRIDE(a, k) != expected)
            return 0;
        if (PyArray_DIM(a, k) > 1)
            expected *= PyArray_DIM(a, k);
    }
    return 1;
}

/* Makes *out a writable, aligned, native-endian, C-contiguous array of this type and shape. Keeps the existing array if
 * it fits, otherwise allocates a new array with undefined content. Returns the array (borrowed from *out). On failure,
 * sets an exception and *out = NULL, and returns NULL. */
static inline PyArrayObject *native_alloc(PyObject **out, int nd, const npy_intp *dims, int type_num)
{
    PyArrayObject *old = (PyArrayObject *)*out;
    if (old != NULL && PyArray_CheckExact(*out) && PyArray_NDIM(old) == nd && PyArray_TYPE(old) == type_num
        && native_has_c_strides(old) && PyArray_ISBEHAVED(old) && PyArray_CompareLists(PyArray_DIMS(old), dims, nd))
        return old;
    /* Release the old array first: a large block can then be reused for the new array. */
    Py_CLEAR(*out);
    PyArrayObject *fresh = native_new(nd, dims, type_num, 0);
    if (fresh == NULL)
        return NULL;
    *out = (PyObject *)fresh;
    return fresh;
}

/* Stores `value` in *out, steals the reference, and releases the previous object. */
static inline void native_set(PyObject **out, PyObject *value)
{
    Py_XSETREF(*out, value);
}

/* Reads a 0-d integer array, a NumPy integer scalar or a Python integer. Returns 0, or -1 with an exception set. */
static inline int native_as_int64(PyObject *value, int64_t *result)
{
    if (PyArray_Check(value) && PyArray_NDIM((PyArrayObject *)value) == 0
        && PyArray_ISBEHAVED_RO((PyArrayObject *)value)) {
        const void *data = PyArray_DATA((PyArrayObject *)value);
        switch (PyArray_TYPE((PyArrayObject *)value)) {
        case NPY_INT64: *result = *(const npy_int64 *)data; return 0;
        case NPY_INT32: *result = *(const npy_int32 *)data; return 0;
        case NPY_INT16: *result = *(const npy_int16 *)data; return 0;
        case NPY_INT8: *result = *(const npy_int8 *)data; return 0;
        case NPY_BOOL:
        case NPY_UINT8: *result = *(const npy_uint8 *)data; return 0;
        case NPY_UINT16: *result = *(const npy_uint16 *)data; return 0;
        case NPY_UINT32: *result = *(const npy_uint32 *)data; return 0;
        default: break;
        }
    }
    else if (PyArray_IsScalar(value, Int64)) {
        *result = PyArrayScalar_VAL(value, Int64);
        return 0;
    }
    PyObject *index = PyNumber_Index(value);
    if (index == NULL)
        return -1;
    *result = PyLong_AsLongLong(index);
    Py_DECREF(index);
    return *result == -1 && PyErr_Occurred() ? -1 : 0;
}

#endif
