/* The data memory of NumPy's arrays, straight from malloc and filled with a known byte.
 *
 * NumPy keeps small blocks for later arrays, which hides from the address sanitizer that they were freed; and fresh memory holds by
 * chance what an Op forgets to write. Compiled as a module of the compile cache, which puts its name in place of the placeholder.
 */
#include "module_prologue.h"

static unsigned char fill = 0;

static void *filled_malloc(void *context, size_t size) {
    void *block = malloc(size);
    if (block != NULL)
        memset(block, fill, size);
    return block;
}

static void *filled_calloc(void *context, size_t count, size_t size) {
    return calloc(count, size);
}

static void *filled_realloc(void *context, void *block, size_t size) {
    return realloc(block, size);
}

static void filled_free(void *context, void *block, size_t size) {
    free(block);
}

static PyDataMem_Handler handler = {
    "theano_ng_audit", 1, {NULL, filled_malloc, filled_calloc, filled_realloc, filled_free}
};

/* install(): from now on, this thread's arrays. */
static PyObject *install(PyObject *self, PyObject *arguments) {
    PyObject *capsule = PyCapsule_New(&handler, "mem_handler", NULL);
    if (capsule == NULL)
        return NULL;
    PyObject *previous = PyDataMem_SetHandler(capsule);
    Py_DECREF(capsule);
    return previous;
}

/* set_fill(byte) */
static PyObject *set_fill(PyObject *self, PyObject *arguments) {
    int byte;
    if (!PyArg_ParseTuple(arguments, "i", &byte))
        return NULL;
    fill = (unsigned char)byte;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"install", install, METH_NOARGS, "Take the data of arrays from this module."},
    {"set_fill", set_fill, METH_VARARGS, "The byte that fills fresh memory."},
    {NULL, NULL, 0, NULL}
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "<<<<HASH_PLACEHOLDER>>>>", NULL, -1, methods};

PyMODINIT_FUNC PyInit_<<<<HASH_PLACEHOLDER>>>>(void) {
    import_array();
    return PyModule_Create(&definition);
}
