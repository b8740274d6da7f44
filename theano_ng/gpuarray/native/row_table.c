/* Access to the rows of device arrays, for scan loops (see row_table.h). */
#include "gpu.h"
#include "row_table.h"

static void find(PyObject *value, row_places *found)
{
    const GpuArray *a = &((PyGpuArrayObject *)value)->ga;
    found->data = (char *)a->offset;
    /* rows without elements all have the same offset, because the memory may be empty */
    found->stride = gpu_size(a) ? a->strides[0] : 0;
    found->length = (Py_ssize_t)a->dimensions[0];
}

static int readable(PyObject *value)
{
    const GpuArray *a = &((PyGpuArrayObject *)value)->ga;
    return PyGpuArray_CheckExact(value) && GpuArray_ISALIGNED(a) && a->strides[0] % (ssize_t)GpuArray_ITEMSIZE(a) == 0;
}

static int writable(PyObject *value)
{
    const GpuArray *a = &((PyGpuArrayObject *)value)->ga;
    return PyGpuArray_CheckExact(value) && GpuArray_IS_C_CONTIGUOUS(a) && GpuArray_ISBEHAVED(a);
}

/* Return true if `value` is an array of rank `nd` with the type and the context of `other`, and if its shape equals the
 * lengths of the last `nd` axes of `other`. */
static int is_like(PyObject *value, PyGpuArrayObject *other, unsigned nd)
{
    PyGpuArrayObject *a = (PyGpuArrayObject *)value;
    return PyGpuArray_CheckExact(value) && a->context == other->context && a->ga.typecode == other->ga.typecode
           && a->ga.nd == nd
           && memcmp(a->ga.dimensions, other->ga.dimensions + (other->ga.nd - nd), nd * sizeof *a->ga.dimensions) == 0;
}

static int copied(PyGpuArrayObject *any, GpuArray *to, const GpuArray *from)
{
    int code = GpuArray_move(to, from);
    return code == GA_NO_ERROR ? 1 : gpu_failed(any->context->ctx, code, "copying a row of a loop");
}

static int refill(PyObject *value, PyObject *source)
{
    PyGpuArrayObject *a = (PyGpuArrayObject *)value, *from = (PyGpuArrayObject *)source;
    if (!PyGpuArray_CheckExact(value) || a->base != Py_None || !writable(value) || !is_like(source, a, a->ga.nd)
        || GpuArray_share(&a->ga, &from->ga))
        return 0;
    return copied(a, &a->ga, &from->ga);
}

static PyObject *view(PyObject *value, char *data)
{
    PyGpuArrayObject *a = (PyGpuArrayObject *)value;
    return (PyObject *)pygpu_fromgpudata(a->ga.data, (size_t)data, a->ga.typecode, a->ga.nd - 1, a->ga.dimensions + 1,
                                         a->ga.strides + 1, a->context, GpuArray_ISWRITEABLE(&a->ga), value, Py_None);
}

/* Return the GpuArray record of a row, without creating a Python object. The record holds no reference. */
static GpuArray row_at(PyGpuArrayObject *a, char *data)
{
    GpuArray row = a->ga;
    row.nd -= 1;
    row.dimensions += 1;
    row.strides += 1;
    row.offset = (size_t)data;
    GpuArray_fix_flags(&row);
    return row;
}

static int copy(PyObject *value, char *data, PyObject **to)
{
    PyGpuArrayObject *a = (PyGpuArrayObject *)value;
    GpuArray row = row_at(a, data);
    if (*to == NULL)
        *to = (PyObject *)pygpu_empty(row.nd, row.dimensions, row.typecode, GA_C_ORDER, a->context, Py_None);
    return *to == NULL || copied(a, &((PyGpuArrayObject *)*to)->ga, &row) < 0 ? -1 : 0;
}

static int store(PyObject *value, char *data, PyObject *source)
{
    PyGpuArrayObject *a = (PyGpuArrayObject *)value;
    if (!is_like(source, a, a->ga.nd - 1))
        return 0;
    GpuArray row = row_at(a, data);
    return copied(a, &row, &((PyGpuArrayObject *)source)->ga);
}

static const row_table rows = {find, readable, writable, refill, view, offsetof(PyGpuArrayObject, ga.offset),
                               copy, store};
static struct PyModuleDef rows_def = {PyModuleDef_HEAD_INIT, "row_table", NULL, -1, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_row_table(void)
{
    PyObject *module = PyModule_Create(&rows_def);
    PyObject *table = PyCapsule_New((void *)&rows, "theano_ng.gpuarray.native.row_table.table", NULL);
    if (module != NULL && PyModule_AddObjectRef(module, "table", table) < 0)
        Py_CLEAR(module);
    Py_XDECREF(table);
    return module;
}
