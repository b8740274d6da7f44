#section kernels

#kernel frame : *, size, size, size:
#include "cluda.h"
/* Set the first and the last element of each row, and all elements of the first and the last row. */
KERNEL void frame(GLOBAL_MEM DTYPE_OUTPUT_0 *picture, ga_size start, ga_size rows, ga_size columns)
{
    picture = (GLOBAL_MEM DTYPE_OUTPUT_0 *)((GLOBAL_MEM char *)picture + start);
    for (ga_size k = GID_0 * LDIM_0 + LID_0; k < rows * columns; k += GDIM_0 * LDIM_0) {
        const ga_size row = k / columns, column = k % columns;
        if (row == 0 || column == 0 || row + 1 == rows || column + 1 == columns)
            picture[k] = 2;
    }
}

#section support_code_struct

int APPLY_SPECIFIC(frame)(PyArrayObject *rows, PyArrayObject *columns, PyGpuArrayObject **picture, PARAMS_TYPE *params)
{
    const size_t lengths[] = {(size_t)*(DTYPE_INPUT_0 *)PyArray_DATA(rows),
                              (size_t)*(DTYPE_INPUT_1 *)PyArray_DATA(columns)};
    size_t threads = 64, groups = 2;
    Py_CLEAR(*picture);
    *picture = pygpu_zeros(2, lengths, params->typecode, GA_C_ORDER, params->context, Py_None);
    if (*picture == NULL)
        return -1;
    int status =
        frame_call(1, &groups, &threads, 0, (*picture)->ga.data, (*picture)->ga.offset, lengths[0], lengths[1]);
    if (status == GA_NO_ERROR)
        return 0;
    PyErr_Format(PyExc_RuntimeError, "no frame: %s", GpuKernel_error(&k_frame, status));
    return -1;
}
