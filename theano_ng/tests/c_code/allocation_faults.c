/* Calls of Python functions during which allocations fail: the module that steers failing_malloc.c, which has been preloaded. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

extern void failing_malloc_arm(long n, int onward);
extern long failing_malloc_disarm(void);
extern long failing_malloc_alive(void);
extern size_t failing_malloc_refused(void);

/* call(function, n, onward): call a function without arguments while its allocation number n fails, and those behind it if `onward` is true.
 *
 * Returns how many allocations there were, what it returned or None, and what it raised or None.
 */
static PyObject *call(PyObject *self, PyObject *args)
{
    PyObject *function, *kind, *failure, *trace;
    long n;
    int onward;
    if (!PyArg_ParseTuple(args, "Olp", &function, &n, &onward))
        return NULL;
    failing_malloc_arm(n, onward);
    PyObject *result = PyObject_CallNoArgs(function);
    long asked = failing_malloc_disarm();
    PyErr_Fetch(&kind, &failure, &trace);
    if (kind != NULL) {
        PyErr_NormalizeException(&kind, &failure, &trace);
        Py_XDECREF(trace);
        Py_DECREF(kind);
    }
    return Py_BuildValue("lNN", asked, result != NULL ? result : Py_NewRef(Py_None), failure != NULL ? failure : Py_NewRef(Py_None));
}

static PyObject *alive(PyObject *self, PyObject *unused)
{
    return PyLong_FromLong(failing_malloc_alive());
}

static PyObject *refused(PyObject *self, PyObject *unused)
{
    return PyLong_FromSize_t(failing_malloc_refused());
}

static PyMethodDef methods[] = {
    {"call", call, METH_VARARGS, "call(function, n, onward) -> (allocations, result, failure)"},
    {"alive", alive, METH_NOARGS, "alive() -> blocks of memory of the process"},
    {"refused", refused, METH_NOARGS, "refused() -> bytes of the allocation that failed in the last call"},
    {NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "allocation_faults", NULL, -1, methods};

PyMODINIT_FUNC PyInit_allocation_faults(void)
{
    return PyModule_Create(&module);
}
