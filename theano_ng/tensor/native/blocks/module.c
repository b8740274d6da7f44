/* The extension modules blocks_v1, blocks_v2 ...: the instructions and kernels of rows.c by name, and which of the modules suits this processor. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "blocks.h"

/* The level of the x86-64 instruction set that the processor and the system have, of those that there are modules for. */
static int processor_level(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    int avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")
                 && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd");
    return !avx2 ? 1 : !avx512 ? 3 : 4;
#else
    return 1;
#endif
}

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
    if (status == 0)
        status = PyModule_AddIntConstant(module, "level", processor_level());
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
