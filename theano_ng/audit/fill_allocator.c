/* An allocator for the data of NumPy arrays: it calls malloc for each array, and fills the memory with a known byte.
 *
 * NumPy's default allocator keeps small freed blocks for later arrays, so the address sanitizer does not detect
 * accesses to freed blocks. Also, memory from that allocator may by chance contain the values that an Op forgets to
 * write. The compile cache compiles this module and replaces the placeholder, <<<<HASH_PLACEHOLDER>>>>, by the name of
 * the module.
 */
#include "module_prologue.h"

static unsigned char fill = 0;

static void *filled_malloc(void *context, size_t size)
{
    void *block = malloc(size);
    if (block != NULL)
        memset(block, fill, size);
    return block;
}

static void *filled_calloc(void *context, size_t count, size_t size)
{
    return calloc(count, size);
}

static void *filled_realloc(void *context, void *block, size_t size)
{
    return realloc(block, size);
}

static void filled_free(void *context, void *block, size_t size)
{
    free(block);
}

static PyDataMem_Handler handler = {
    "theano_ng_audit", 1, {NULL, filled_malloc, filled_calloc, filled_realloc, filled_free}};

/* install(): use this allocator for arrays that the calling thread creates from now on; return the previous handler. */
static PyObject *install(PyObject *self, PyObject *arguments)
{
    PyObject *capsule = PyCapsule_New(&handler, "mem_handler", NULL);
    if (capsule == NULL)
        return NULL;
    PyObject *previous = PyDataMem_SetHandler(capsule);
    Py_DECREF(capsule);
    return previous;
}

/* set_fill(byte): set the byte that fills fresh memory. */
static PyObject *set_fill(PyObject *self, PyObject *arguments)
{
    int byte;
    if (!PyArg_ParseTuple(arguments, "i", &byte))
        return NULL;
    fill = (unsigned char)byte;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"install", install, METH_NOARGS, "Take the data of arrays from this module."},
                                {"set_fill", set_fill, METH_VARARGS, "The byte that fills fresh memory."},
                                {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "<<<<HASH_PLACEHOLDER>>>>", NULL, -1, methods};

PyMODINIT_FUNC PyInit_<<<<HASH_PLACEHOLDER>>>>(void)
{
    import_array();
    return PyModule_Create(&definition);
}
