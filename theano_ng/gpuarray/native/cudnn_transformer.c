/* Spatial transformers by cuDNN (device/cudnn_transformer.c). */
#include "gpu_dnn.h"

NATIVE_FUNCTION(grid, typecode)
NATIVE_FUNCTION(grid_gradient, typecode)
NATIVE_FUNCTION(sample, typecode)
NATIVE_FUNCTION(sample_gradient, typecode)

/* Raise ValueError if an array does not have this shape. */
static int check_shape(const GpuArray *a, const char *name, const size_t *expected)
{
    char found[32 * GA_MAX_DIMS], needed[32 * GA_MAX_DIMS];
    if (memcmp(a->dimensions, expected, a->nd * sizeof *expected) == 0)
        return 0;
    PyErr_Format(PyExc_ValueError, "a spatial transformer: %s has shape %s, expected %s", name,
                 gpu_shape_text(found, sizeof found, a->nd, a->dimensions),
                 gpu_shape_text(needed, sizeof needed, a->nd, expected));
    return -1;
}

/* Read the shape (images, channels, rows, columns) of the new images. */
static int read_dims(PyObject *value, size_t *dims)
{
    PyArrayObject *v =
        (PyArrayObject *)PyArray_FROMANY(value, NPY_INT64, 1, 1, NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST);
    if (v == NULL)
        return -1;
    int right = PyArray_DIM(v, 0) == 4;
    for (int i = 0; i < 4 && right; ++i) {
        int64_t n = ((const int64_t *)PyArray_DATA(v))[i];
        right = n >= 0;
        dims[i] = (size_t)n;
    }
    Py_DECREF(v);
    if (!right)
        PyErr_SetString(PyExc_ValueError,
                        "a spatial transformer: out_dims must be four numbers: images, channels, rows, columns");
    return right ? 0 : -1;
}

/* Inputs: theta (n, 2, 3), and the shape of the new images, on the host. Output: the grid (n, rows, columns, 2). */
static int tng_grid(int nin, int nout, PyObject **in, PyObject **out, const struct grid_params *params)
{
    (void)nin, (void)nout;
    PyGpuArrayObject *given = gpu_input(in[0], (int)params->typecode, 3), *theta, *grid;
    size_t dims[4];
    if (given == NULL || read_dims(in[1], dims) < 0 || check_shape(&given->ga, "theta", (size_t[]){dims[0], 2, 3}) < 0)
        return -1;
    gpu_not_shared(out, &given->ga);
    size_t shape[] = {dims[0], dims[2], dims[3], 2};
    if ((grid = gpu_alloc(out, given->context, 4, shape, given->ga.typecode)) == NULL)
        return -1;
    if (gpu_size(&grid->ga) == 0)
        return 0;
    if ((theta = dnn_packed(given)) == NULL)
        return -1;
    dnn_tensor from = dnn_tensor_of(theta), to = dnn_tensor_of(grid);
    int code = cudnn_grid(theta->context->ctx, dims[1] > 0 ? dims[1] : 1, &from, &to);
    Py_DECREF(theta);
    return dnn_result(grid, code);
}

/* Input: the gradient with respect to the grid. Output: the gradient with respect to theta. */
static int tng_grid_gradient(int nin, int nout, PyObject **in, PyObject **out,
                             const struct grid_gradient_params *params)
{
    (void)nin, (void)nout;
    PyGpuArrayObject *given = gpu_input(in[0], (int)params->typecode, 4), *dgrid, *dtheta;
    if (given == NULL)
        return -1;
    const size_t *dims = given->ga.dimensions;
    size_t shape[] = {dims[0], 2, 3};
    if (check_shape(&given->ga, "dgrid", (size_t[]){dims[0], dims[1], dims[2], 2}) < 0)
        return -1;
    gpu_not_shared(out, &given->ga);
    if ((dtheta = gpu_alloc(out, given->context, 3, shape, given->ga.typecode)) == NULL)
        return -1;
    if (gpu_size(&given->ga) == 0)
        return dnn_result(dtheta, GpuArray_memset(&dtheta->ga, 0));
    if ((dgrid = dnn_packed(given)) == NULL)
        return -1;
    dnn_tensor from = dnn_tensor_of(dgrid), to = dnn_tensor_of(dtheta);
    int code = cudnn_grid_gradient(dgrid->context->ctx, 1, &from, &to);
    Py_DECREF(dgrid);
    return dnn_result(dtheta, code);
}

/* Read an image and a grid for it. */
static int read_pair(PyObject **in, int typecode, PyGpuArrayObject **img, PyGpuArrayObject **grid)
{
    if ((*img = gpu_input(in[0], typecode, 4)) == NULL || (*grid = gpu_input(in[1], typecode, 4)) == NULL
        || !gpu_same_context(*img, *grid))
        return -1;
    const size_t *dims = (*grid)->ga.dimensions;
    return check_shape(&(*grid)->ga, "grid", (size_t[]){(*img)->ga.dimensions[0], dims[1], dims[2], 2});
}

/* Inputs: images (n, channels, rows, columns) and a grid. Output: the new images. */
static int tng_sample(int nin, int nout, PyObject **in, PyObject **out, const struct sample_params *params)
{
    (void)nin, (void)nout;
    PyGpuArrayObject *img, *points, *x = NULL, *grid = NULL, *y;
    int status = -1;
    if (read_pair(in, (int)params->typecode, &img, &points) < 0)
        return -1;
    size_t shape[] = {img->ga.dimensions[0], img->ga.dimensions[1], points->ga.dimensions[1], points->ga.dimensions[2]};
    gpu_not_shared(out, &img->ga);
    gpu_not_shared(out, &points->ga);
    if ((y = gpu_alloc(out, img->context, 4, shape, img->ga.typecode)) == NULL)
        return -1;
    if (gpu_size(&y->ga) == 0)
        return 0;
    if (gpu_size(&img->ga) == 0)
        return dnn_result(y, GpuArray_memset(&y->ga, 0));
    if ((x = dnn_packed(img)) != NULL && (grid = dnn_packed(points)) != NULL) {
        dnn_tensor tensors[] = {dnn_tensor_of(x), dnn_tensor_of(grid), dnn_tensor_of(y)};
        status = dnn_result(y, cudnn_sample(y->context->ctx, &tensors[0], &tensors[1], &tensors[2]));
    }
    Py_XDECREF(x);
    Py_XDECREF(grid);
    return status;
}

/* Inputs: images, a grid, and the gradient with respect to the new images. Outputs: the gradients with respect to the
 * images and the grid. */
static int tng_sample_gradient(int nin, int nout, PyObject **in, PyObject **out,
                               const struct sample_gradient_params *params)
{
    (void)nin;
    PyGpuArrayObject *given[3], *held[3] = {NULL}, *made[2];
    int status = -1;
    if (read_pair(in, (int)params->typecode, &given[0], &given[1]) < 0
        || (given[2] = gpu_input(in[2], (int)params->typecode, 4)) == NULL || !gpu_same_context(given[0], given[2]))
        return -1;
    const size_t *image = given[0]->ga.dimensions, *size = given[1]->ga.dimensions;
    if (check_shape(&given[2]->ga, "dy", (size_t[]){image[0], image[1], size[1], size[2]}) < 0)
        return -1;
    for (int j = 0; j < nout; ++j) {
        for (int k = 0; k < 3; ++k)
            gpu_not_shared(&out[j], &given[k]->ga);
        if ((made[j] = gpu_alloc(&out[j], given[0]->context, 4, given[j]->ga.dimensions, given[0]->ga.typecode))
            == NULL)
            return -1;
    }
    if (gpu_size(&given[0]->ga) == 0 || gpu_size(&given[2]->ga) == 0) {
        for (int j = 0; j < nout; ++j)
            if (gpu_size(&made[j]->ga) > 0 && dnn_result(made[j], GpuArray_memset(&made[j]->ga, 0)) < 0)
                return -1;
        return 0;
    }
    for (int k = 0; k < 3; ++k)
        if ((held[k] = dnn_packed(given[k])) == NULL)
            goto done;
    dnn_tensor tensors[] = {dnn_tensor_of(held[0]), dnn_tensor_of(held[1]), dnn_tensor_of(held[2]),
                            dnn_tensor_of(made[0]), dnn_tensor_of(made[1])};
    status = dnn_result(made[0], cudnn_sample_gradient(made[0]->context->ctx, &tensors[0], &tensors[1], &tensors[2],
                                                       &tensors[3], &tensors[4]));
done:
    for (int k = 0; k < 3; ++k)
        Py_XDECREF(held[k]);
    return status;
}

static const NativeEntry entries[] = {
    NATIVE_ENTRY(grid), NATIVE_ENTRY(grid_gradient), NATIVE_ENTRY(sample), NATIVE_ENTRY(sample_gradient), {0}};
NATIVE_MODULE(cudnn_transformer, entries)
