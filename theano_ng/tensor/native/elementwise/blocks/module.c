/* The extension modules blocks_v1, blocks_v3 and blocks_v4: one module for each level of x86-64 processors (setup.py).
 * Each module has two dicts, `instructions` and `kernels`, from names to addresses of functions in interpreter.c. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "blocks.h"

static int add(PyObject *dict, const char *name, const void *function)
{
    PyObject *address = PyLong_FromVoidPtr((void *)function);
    int status = address == NULL ? -1 : PyDict_SetItemString(dict, name, address);
    Py_XDECREF(address);
    return status;
}

static int fill_module(PyObject *module)
{
    PyObject *instructions = PyDict_New(), *kernels = PyDict_New();
    int status = instructions == NULL || kernels == NULL ? -1 : 0;
    for (const Instruction *i = block_instructions; i->name != NULL && status == 0; ++i)
        status = add(instructions, i->name, (const void *)i->run);
    for (const BlockSum *s = block_sums; s->dtype != NULL && status == 0; ++s)
        status = add(kernels, s->dtype, (const void *)s->run);
    if (status == 0)
        status = add(kernels, "", (const void *)blocks_run);
    if (status == 0)
        status = add(kernels, "loop", (const void *)blocks_loop);
    if (status == 0)
        status = PyModule_AddObjectRef(module, "instructions", instructions);
    if (status == 0)
        status = PyModule_AddObjectRef(module, "kernels", kernels);
    Py_XDECREF(instructions);
    Py_XDECREF(kernels);
    return status;
}

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "blocks", NULL, -1, NULL, NULL, NULL, NULL, NULL};

#define NAMED(level) PyInit_blocks_v##level
#define INIT(level) NAMED(level)
PyMODINIT_FUNC INIT(BLOCKS_LEVEL)(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL && fill_module(module) < 0)
        Py_CLEAR(module);
    return module;
}
