/* A module that calls Python functions while allocations fail. It controls the preloaded failing_malloc.c. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

extern void failing_malloc_arm(long n, int onward, int about_place);
extern long failing_malloc_disarm(void);
extern long failing_malloc_alive(void);

/* call(function, n, onward, about_place=0): call a function without arguments while its allocation number n fails. If
 * `onward` is true, all later allocations fail, too. If `about_place` is 1, allocations at known call sites succeed. If
 * `about_place` is 2, the call site of the failing allocation becomes known.
 *
 * Return the number of allocations, the result or None, and the exception or None.
 */
static PyObject *call(PyObject *self, PyObject *args)
{
    PyObject *function, *kind, *failure, *trace;
    long n;
    int onward, about_place = 0;
    if (!PyArg_ParseTuple(args, "Olp|i", &function, &n, &onward, &about_place))
        return NULL;
    failing_malloc_arm(n, onward, about_place);
    PyObject *result = PyObject_CallNoArgs(function);
    long asked = failing_malloc_disarm();
    PyErr_Fetch(&kind, &failure, &trace);
    if (kind != NULL) {
        PyErr_NormalizeException(&kind, &failure, &trace);
        Py_XDECREF(trace);
        Py_DECREF(kind);
    }
    return Py_BuildValue("lNN", asked, result != NULL ? result : Py_NewRef(Py_None),
                         failure != NULL ? failure : Py_NewRef(Py_None));
}

static PyObject *alive(PyObject *self, PyObject *unused)
{
    return PyLong_FromLong(failing_malloc_alive());
}

/* clear_caches(): clear the attribute cache of CPython.
 *
 * The cache has up to 4,096 names. Each call of PyObject_GetAttrString creates a new string, and its position in the
 * cache depends on its address. Therefore the cache grows a little with each call, even without a leak.
 */
static PyObject *clear_caches(PyObject *self, PyObject *unused)
{
    PyType_ClearCache();
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"call", call, METH_VARARGS, "call(function, n, onward, about_place=0) -> (allocations, result, failure)"},
    {"alive", alive, METH_NOARGS, "alive() -> blocks of memory of the process"},
    {"clear_caches", clear_caches, METH_NOARGS, "clear_caches(): clear what CPython keeps for later use"},
    {NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "allocation_faults", NULL, -1, methods};

PyMODINIT_FUNC PyInit_allocation_faults(void)
{
    return PyModule_Create(&module);
}
