/* Graphs of the fake cuDNN: a convolution, the addition of a bias, and possibly an activation.
 *
 * Descriptors have attributes of the types in the table `known`. A finalized graph is a struct problem, which engines and
 * plans copy. As in the library, the heuristics announce more engines than they then return, and there is no engine for a
 * convolution with a factor. */
#include <math.h>

#include "fake_cudnn_conv.h"

enum { MOST_ATTRIBUTES = 8, ENGINES = 9 };
enum { X, W, BIAS, Y, ARRAYS };

struct problem {
    struct cudnnContext *handle;
    struct cudnnTensorStruct t[ARRAYS];
    int64_t number[ARRAYS];
    struct cudnnConvolutionStruct c;
    double factor; /* of the sum to which the bias is added */
    int has_factor, activation, propagates_nan, math;
};

struct attribute {
    int name, count;
    char *bytes;
};

struct backend {
    int kind, type, is_final, used, engine;
    struct attribute attributes[MOST_ATTRIBUTES];
    struct problem problem;
};

#define DESCRIPTOR(kind) CUDNN_BACKEND_##kind##_DESCRIPTOR

/* ---- attributes ---- */

/* Each row: descriptor, name, type, smallest and largest count, and for descriptors their kind. An optional attribute has a
 * negative smallest count. */
static const struct row {
    int of, name, type, least, most, kind;
} known[] = {
    {DESCRIPTOR(TENSOR), CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, 1},
    {DESCRIPTOR(TENSOR), CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1},
    {DESCRIPTOR(TENSOR), CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, 1},
    {DESCRIPTOR(TENSOR), CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 1, CUDNN_DIM_MAX},
    {DESCRIPTOR(TENSOR), CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 1, CUDNN_DIM_MAX},
    {DESCRIPTOR(TENSOR), CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, -1, 1},
    {DESCRIPTOR(CONVOLUTION), CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1},
    {DESCRIPTOR(CONVOLUTION), CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, 1},
    {DESCRIPTOR(CONVOLUTION), CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, 1},
    {DESCRIPTOR(CONVOLUTION), CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 1, MOST_AXES},
    {DESCRIPTOR(CONVOLUTION), CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 1, MOST_AXES},
    {DESCRIPTOR(CONVOLUTION), CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 1, MOST_AXES},
    {DESCRIPTOR(CONVOLUTION), CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 1, MOST_AXES},
    {DESCRIPTOR(POINTWISE), CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, 1},
    {DESCRIPTOR(POINTWISE), CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, 1},
    {DESCRIPTOR(POINTWISE), CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, -1, 1},
    {DESCRIPTOR(OPERATION_CONVOLUTION_FORWARD), CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, 1, 1},
    {DESCRIPTOR(OPERATION_CONVOLUTION_FORWARD), CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, 1, 1},
    {DESCRIPTOR(OPERATION_CONVOLUTION_FORWARD), CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, DESCRIPTOR(CONVOLUTION)},
    {DESCRIPTOR(OPERATION_CONVOLUTION_FORWARD), CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, DESCRIPTOR(TENSOR)},
    {DESCRIPTOR(OPERATION_CONVOLUTION_FORWARD), CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, DESCRIPTOR(TENSOR)},
    {DESCRIPTOR(OPERATION_CONVOLUTION_FORWARD), CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, DESCRIPTOR(TENSOR)},
    {DESCRIPTOR(OPERATION_POINTWISE), CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1,
     DESCRIPTOR(POINTWISE)},
    {DESCRIPTOR(OPERATION_POINTWISE), CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1,
     DESCRIPTOR(TENSOR)},
    {DESCRIPTOR(OPERATION_POINTWISE), CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, -1, 1,
     DESCRIPTOR(TENSOR)},
    {DESCRIPTOR(OPERATION_POINTWISE), CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1,
     DESCRIPTOR(TENSOR)},
    {DESCRIPTOR(OPERATION_POINTWISE), CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, CUDNN_TYPE_FLOAT, -1, 1},
    {DESCRIPTOR(OPERATIONGRAPH), CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, 1},
    {DESCRIPTOR(OPERATIONGRAPH), CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 8, -1},
    {DESCRIPTOR(ENGINEHEUR), CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1,
     DESCRIPTOR(OPERATIONGRAPH)},
    {DESCRIPTOR(ENGINEHEUR), CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, 1},
    {DESCRIPTOR(EXECUTION_PLAN), CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, 1},
    {DESCRIPTOR(EXECUTION_PLAN), CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1,
     DESCRIPTOR(ENGINECFG)},
    {DESCRIPTOR(VARIANT_PACK), CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 1, 8},
    {DESCRIPTOR(VARIANT_PACK), CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 1, 8},
    {DESCRIPTOR(VARIANT_PACK), CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, 1},
};
enum { ROWS = sizeof known / sizeof *known };

static size_t size_of_value(int type)
{
    switch (type) {
    case CUDNN_TYPE_BOOLEAN: return sizeof(_Bool);
    case CUDNN_TYPE_INT64: return sizeof(int64_t);
    case CUDNN_TYPE_DOUBLE: return sizeof(double);
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return sizeof(void *);
    default: return sizeof(int);
    }
}

static int is_backend(const struct backend *d)
{
    return d && d->kind == BACKEND;
}

static const struct attribute *find(const struct backend *d, int name)
{
    for (int i = 0; i < d->used; ++i)
        if (d->attributes[i].name == name)
            return &d->attributes[i];
    return NULL;
}

/* Return the value of an attribute that has one element, or `otherwise`. */
#define VALUE(d, name, type, otherwise) (find(d, name) ? *(type *)find(d, name)->bytes : (type)(otherwise))
#define PART(d, name) VALUE(d, name, struct backend *, NULL)

cudnnStatus_t cudnnBackendCreateDescriptor(int type, cudnnBackendDescriptor_t *made)
{
    CALL("cudnnBackendCreateDescriptor");
    struct backend *d = fake_made(BACKEND, sizeof *d);
    d->type = type;
    *made = d;
    return 0;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor)
{
    struct backend *d = descriptor;
    if (!is_backend(d))
        return CUDNN_STATUS_BAD_PARAM;
    for (int i = 0; i < d->used; ++i)
        free(d->attributes[i].bytes);
    return fake_destroyed(d, BACKEND);
}

/* Whether a type may be given for a row: factors may also be doubles. */
static int has_type(const struct row *row, int type)
{
    return row->type == type || (row->type == CUDNN_TYPE_FLOAT && type == CUDNN_TYPE_DOUBLE);
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, int name, int type, int64_t count,
                                       const void *values)
{
    CALL("cudnnBackendSetAttribute");
    struct backend *d = descriptor;
    const struct row *row = known;
    while (row < known + ROWS && (row->of != (is_backend(d) ? d->type : -1) || row->name != name))
        ++row;
    if (row == known + ROWS || d->is_final || !has_type(row, type) || count < abs(row->least) || count > row->most
        || !values || find(d, name))
        return CUDNN_STATUS_BAD_PARAM;
    for (int i = 0; i < count && type == CUDNN_TYPE_BACKEND_DESCRIPTOR; ++i) {
        const struct backend *part = ((struct backend *const *)values)[i];
        if (!is_backend(part) || !part->is_final || (row->kind >= 0 && part->type != row->kind))
            return CUDNN_STATUS_BAD_PARAM;
    }
    struct attribute *a = &d->attributes[d->used++];
    a->name = name;
    a->count = (int)count;
    a->bytes = malloc((size_t)count * size_of_value(type));
    memcpy(a->bytes, values, (size_t)count * size_of_value(type));
    if (row->type == CUDNN_TYPE_FLOAT) { /* all factors are kept as doubles */
        double value = type == CUDNN_TYPE_DOUBLE ? *(const double *)values : *(const float *)values;
        a->bytes = realloc(a->bytes, sizeof value);
        memcpy(a->bytes, &value, sizeof value);
    }
    return 0;
}

/* ---- graphs ---- */

static int read_tensor(const struct backend *d, struct cudnnTensorStruct *t)
{
    const struct attribute *dims = find(d, CUDNN_ATTR_TENSOR_DIMENSIONS), *strides = find(d, CUDNN_ATTR_TENSOR_STRIDES);
    *t = (struct cudnnTensorStruct){TENSOR, VALUE(d, CUDNN_ATTR_TENSOR_DATA_TYPE, int, 0), dims->count};
    if (strides->count != dims->count || t->type > CUDNN_DATA_HALF
        || VALUE(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t, 0) % (int64_t)size_of_type(t->type))
        return CUDNN_STATUS_BAD_PARAM;
    for (int i = 0; i < t->nd; ++i) {
        t->dims[i] = (int)((int64_t *)dims->bytes)[i];
        t->strides[i] = (int)((int64_t *)strides->bytes)[i];
        if (t->dims[i] <= 0 || t->strides[i] <= 0)
            return CUDNN_STATUS_BAD_PARAM;
    }
    return 0;
}

static int read_axes(const struct backend *d, int name, int axes, int least, int *numbers)
{
    const struct attribute *a = find(d, name);
    if (a->count != axes)
        return CUDNN_STATUS_BAD_PARAM;
    for (int i = 0; i < axes; ++i)
        if ((numbers[i] = (int)((int64_t *)a->bytes)[i]) < least)
            return CUDNN_STATUS_BAD_PARAM;
    return 0;
}

static int read_convolution(const struct backend *d, struct cudnnConvolutionStruct *c)
{
    int after[MOST_AXES], axes = (int)VALUE(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t, 0);
    *c = (struct cudnnConvolutionStruct){.kind = CONVOLUTION,
                                         .axes = axes,
                                         .mode = VALUE(d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, int, 0),
                                         .compute = VALUE(d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, int, 0)};
    CHECKED(read_axes(d, CUDNN_ATTR_CONVOLUTION_DILATIONS, axes, 1, c->dilation));
    CHECKED(read_axes(d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, axes, 1, c->stride));
    CHECKED(read_axes(d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, axes, 0, c->pad));
    CHECKED(read_axes(d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, axes, 0, after));
    return memcmp(after, c->pad, (size_t)axes * sizeof *after) ? CUDNN_STATUS_NOT_SUPPORTED : 0;
}

/* Read the operation, and check the shapes. */
static int read_products(const struct backend *d, struct problem *p)
{
    struct cudnnTensorStruct *x = &p->t[X], *w = &p->t[W], *y = &p->t[Y];
    struct cudnnConvolutionStruct *c = &p->c;
    CHECKED(read_convolution(PART(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC), c));
    CHECKED(read_tensor(PART(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X), x));
    CHECKED(read_tensor(PART(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W), w));
    CHECKED(read_tensor(PART(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y), y));
    if (x->nd != c->axes + 2 || w->nd != x->nd || y->nd != x->nd || x->type != w->type || x->dims[0] != y->dims[0]
        || x->dims[1] % w->dims[1] || y->dims[1] != w->dims[0] || w->dims[0] % (x->dims[1] / w->dims[1]))
        return CUDNN_STATUS_BAD_PARAM;
    c->groups = x->dims[1] / w->dims[1];
    for (int i = 0; i < c->axes; ++i) {
        int room = x->dims[2 + i] + 2 * c->pad[i] - ((w->dims[2 + i] - 1) * c->dilation[i] + 1);
        if (room < 0 || y->dims[2 + i] != room / c->stride[i] + 1)
            return CUDNN_STATUS_BAD_PARAM;
    }
    p->has_factor = VALUE(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, double, 0) != 1;
    return VALUE(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, double, 1) == 0 ? 0 : CUDNN_STATUS_NOT_SUPPORTED;
}

/* Check that an operation reads a virtual tensor, the result of the operation before it. */
static int follows(const struct backend *before, int name, const struct backend *d)
{
    const struct backend *made = PART(before, name), *x = PART(d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    return made == x && VALUE(x, CUDNN_ATTR_TENSOR_IS_VIRTUAL, _Bool, 0) ? 0 : CUDNN_STATUS_BAD_PARAM;
}

static int mode_of(const struct backend *d)
{
    return VALUE(PART(d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR), CUDNN_ATTR_POINTWISE_MODE, int, -1);
}

static int check_pointwise(const struct backend *d)
{
    struct cudnnTensorStruct x, y, b;
    const struct backend *second = PART(d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    CHECKED(read_tensor(PART(d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC), &x));
    CHECKED(read_tensor(PART(d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC), &y));
    if ((mode_of(d) == CUDNN_POINTWISE_ADD) != (second != NULL) || x.nd != y.nd
        || memcmp(x.dims, y.dims, (size_t)x.nd * sizeof *x.dims))
        return CUDNN_STATUS_BAD_PARAM;
    if (second)
        CHECKED(read_tensor(second, &b));
    for (int i = 0; i < x.nd && second; ++i)
        if (b.nd != x.nd || (b.dims[i] != 1 && b.dims[i] != x.dims[i]))
            return CUDNN_STATUS_BAD_PARAM;
    return 0;
}

static int64_t number_of(const struct backend *d)
{
    return VALUE(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, int64_t, 0);
}

static int read_graph(const struct backend *d, struct problem *p)
{
    const struct attribute *a = find(d, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    struct backend **operations = (struct backend **)a->bytes, *first = operations[0];
    struct backend *add = operations[1], *last = operations[a->count - 1];
    p->handle = VALUE(d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, struct cudnnContext *, NULL);
    CHECKED(is_handle(p->handle));
    if (a->count < 2 || a->count > 3 || first->type != DESCRIPTOR(OPERATION_CONVOLUTION_FORWARD)
        || add->type != DESCRIPTOR(OPERATION_POINTWISE) || last->type != add->type
        || mode_of(add) != CUDNN_POINTWISE_ADD)
        return CUDNN_STATUS_NOT_SUPPORTED;
    CHECKED(read_products(first, p));
    CHECKED(follows(first, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, add));
    if (last != add)
        CHECKED(follows(add, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, last));
    struct backend *parts[] = {PART(first, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X),
                               PART(first, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W),
                               PART(add, CUDNN_ATTR_OPERATION_POINTWISE_BDESC),
                               PART(last, CUDNN_ATTR_OPERATION_POINTWISE_YDESC)};
    for (int i = 0; i < ARRAYS; ++i) {
        CHECKED(read_tensor(parts[i], &p->t[i]));
        p->number[i] = number_of(parts[i]);
        if (VALUE(parts[i], CUDNN_ATTR_TENSOR_IS_VIRTUAL, _Bool, 0) || p->t[i].type != p->t[X].type
            || VALUE(parts[i], CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t, 0) != 16)
            return CUDNN_STATUS_NOT_SUPPORTED;
        for (int j = 0; j < i; ++j)
            if (p->number[j] == p->number[i])
                return CUDNN_STATUS_BAD_PARAM;
    }
    const struct backend *pointwise = PART(last, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    p->factor = VALUE(add, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, double, 1);
    p->activation = mode_of(last);
    p->propagates_nan = VALUE(pointwise, CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, int, CUDNN_NOT_PROPAGATE_NAN);
    p->math = VALUE(pointwise, CUDNN_ATTR_POINTWISE_MATH_PREC, int, -1);
    /* Kernels with 7 rows are the forms that the library does not know. */
    return p->t[W].dims[2] == 7 ? CUDNN_STATUS_NOT_SUPPORTED : 0;
}

/* ---- engines ---- */

#define NOTE(name) (1 << CUDNN_NUMERICAL_NOTE_##name)

/* The engines, in the order of the heuristics: notes, and workspace in units that tests choose. The last is the only one in
 * the mode CUDNN_HEUR_MODE_FALLBACK. */
static const struct {
    int notes, memory;
} engines[ENGINES] = {
    {NOTE(TENSOR_CORE), 4},
    {NOTE(TENSOR_CORE) | NOTE(DOWN_CONVERT_INPUTS), 4},
    {NOTE(WINOGRAD), 3},
    {NOTE(FFT), 4},
    {NOTE(REDUCED_PRECISION_REDUCTION), 1},
    {NOTE(NONDETERMINISTIC), 2},
    {0, 2},
    {0, 1},
    {0, 0},
};

static void propose(const struct problem *p, int mode, int *first, int *last)
{
    int is_known = !p->has_factor && !(p->c.compute == CUDNN_DATA_HALF);
    *first = mode == CUDNN_HEUR_MODE_A ? 0 : ENGINES - 1;
    *last = mode == CUDNN_HEUR_MODE_A ? ENGINES - 1 : ENGINES;
    /* Only the last engine computes in float64. No engine sums in float16. */
    if (!is_known || (mode == CUDNN_HEUR_MODE_A && p->t[X].type == CUDNN_DATA_DOUBLE))
        *last = *first;
}

/* Return a status: whether an engine can compute. Kernels of 7 columns cannot be compiled. */
static int has_plan(const struct problem *p, int engine)
{
    if (p->t[W].dims[3] == 7)
        return CUDNN_STATUS_INTERNAL_ERROR;
    for (int i = 0; i < p->c.axes; ++i)
        if (engine == 6 && p->c.dilation[i] != 1)
            return CUDNN_STATUS_NOT_SUPPORTED;
    return 0;
}

static size_t memory_of(int engine)
{
    return fake_dnn.workspace * (size_t)engines[engine].memory;
}

static int finish(struct backend *d)
{
    struct cudnnTensorStruct t;
    struct cudnnConvolutionStruct c;
    const struct backend *engine;
    switch (d->type) {
    case DESCRIPTOR(TENSOR): return read_tensor(d, &t);
    case DESCRIPTOR(CONVOLUTION): return read_convolution(d, &c);
    case DESCRIPTOR(OPERATION_CONVOLUTION_FORWARD): return read_products(d, &d->problem);
    case DESCRIPTOR(OPERATION_POINTWISE): return check_pointwise(d);
    case DESCRIPTOR(OPERATIONGRAPH): return read_graph(d, &d->problem);
    case DESCRIPTOR(ENGINEHEUR):
        d->problem = PART(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)->problem;
        return is_handle(d->problem.handle);
    case DESCRIPTOR(EXECUTION_PLAN):
        engine = PART(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
        d->problem = engine->problem;
        d->engine = engine->engine;
        CHECKED(is_handle(VALUE(d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, struct cudnnContext *, NULL)));
        return has_plan(&d->problem, d->engine);
    case DESCRIPTOR(POINTWISE):
    case DESCRIPTOR(VARIANT_PACK): return 0;
    default: return CUDNN_STATUS_NOT_SUPPORTED;
    }
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor)
{
    CALL("cudnnBackendFinalize");
    struct backend *d = descriptor;
    if (!is_backend(d) || d->is_final)
        return CUDNN_STATUS_BAD_PARAM;
    for (int i = 0; i < ROWS; ++i)
        if (known[i].of == d->type && known[i].least > 0 && !find(d, known[i].name))
            return CUDNN_STATUS_BAD_PARAM;
    CHECKED(finish(d));
    d->is_final = 1;
    if (d->type == DESCRIPTOR(EXECUTION_PLAN))
        fake_log("cudnnBackendFinalize plan %d", d->engine);
    return 0;
}

/* Fill a descriptor of an engine or of its settings. */
static int fill(struct backend *d, int type, const struct problem *p, int engine)
{
    if (!is_backend(d) || d->type != type || d->is_final)
        return CUDNN_STATUS_BAD_PARAM;
    d->problem = *p;
    d->engine = engine;
    d->is_final = 1;
    return 0;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, int name, int type, int64_t most,
                                       int64_t *count, void *values)
{
    CALL("cudnnBackendGetAttribute");
    enum { TOO_MANY = 2 }; /* engines that are announced, but not returned */
    struct backend *d = descriptor;
    int first, last, *notes = values;
    if (!is_backend(d) || !d->is_final)
        return CUDNN_STATUS_BAD_PARAM;
    if (d->type == DESCRIPTOR(ENGINEHEUR) && name == CUDNN_ATTR_ENGINEHEUR_RESULTS
        && type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
        propose(&d->problem, VALUE(d, CUDNN_ATTR_ENGINEHEUR_MODE, int, -1), &first, &last);
        *count = last - first + (values ? 0 : TOO_MANY);
        for (int i = first; i < last && values && i - first < most; ++i)
            CHECKED(fill(((struct backend **)values)[i - first], DESCRIPTOR(ENGINECFG), &d->problem, i));
        return 0;
    }
    if (d->type == DESCRIPTOR(ENGINECFG) && name == CUDNN_ATTR_ENGINECFG_ENGINE && type == CUDNN_TYPE_BACKEND_DESCRIPTOR
        && most == 1) {
        *count = 1;
        return fill(*(struct backend **)values, DESCRIPTOR(ENGINE), &d->problem, d->engine);
    }
    if (d->type == DESCRIPTOR(ENGINE) && name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE
        && type == CUDNN_TYPE_NUMERICAL_NOTE) {
        *count = 0;
        for (int note = 0; note <= CUDNN_NUMERICAL_NOTE_WINOGRAD && *count < most; ++note)
            if (engines[d->engine].notes >> note & 1)
                notes[(*count)++] = note;
        return 0;
    }
    if (d->type == DESCRIPTOR(EXECUTION_PLAN) && name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE
        && type == CUDNN_TYPE_INT64 && most == 1) {
        *count = 1;
        *(int64_t *)values = (int64_t)memory_of(d->engine);
        return 0;
    }
    return CUDNN_STATUS_BAD_PARAM;
}

/* ---- computing ---- */

struct execution {
    struct problem problem;
    struct convolution convolution;
    char *at[ARRAYS];
};

static double rounded(const struct problem *p, double value)
{
    return p->math == CUDNN_DATA_DOUBLE ? value : (double)(float)value;
}

static double activated(const struct problem *p, double x)
{
    switch (p->activation) {
    case CUDNN_POINTWISE_RELU_FWD: return isnan(x) ? p->propagates_nan ? x : 0 : x > 0 ? x : 0;
    case CUDNN_POINTWISE_TANH_FWD: return tanh(x);
    case CUDNN_POINTWISE_SIGMOID_FWD: return 1 / (1 + exp(-x));
    default: return x;
    }
}

static void run(void *arguments)
{
    struct execution *it = arguments;
    const struct problem *p = &it->problem;
    const struct cudnnTensorStruct *y = &it->convolution.y, *b = &p->t[BIAS];
    double *sums = fake_sums(&it->convolution);
    int index[CUDNN_DIM_MAX] = {0};
    for (double *sum = sums;; ++sum) {
        int of_bias[CUDNN_DIM_MAX] = {0, b->dims[1] == 1 ? 0 : index[1]};
        double bias = number_at(element_of(b, it->at[BIAS], of_bias), b->type);
        double value = rounded(p, p->factor * rounded(p, *sum) + bias);
        set_number(element_of(y, it->at[Y], index), y->type, activated(p, value));
        if (!next_index(y, index))
            break;
    }
    free(sums);
}

/* Return the address of a tensor in a variant pack. */
static char *address(const struct backend *pack, int64_t number)
{
    const struct attribute *numbers = find(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const struct attribute *at = find(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    for (int i = 0; i < numbers->count && i < at->count; ++i)
        if (((int64_t *)numbers->bytes)[i] == number)
            return ((char **)at->bytes)[i];
    return NULL;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack)
{
    CALL("cudnnBackendExecute");
    const struct backend *d = plan, *given = pack;
    CHECKED(is_handle(handle));
    if (!is_backend(d) || d->type != DESCRIPTOR(EXECUTION_PLAN) || !d->is_final || !is_backend(given)
        || given->type != DESCRIPTOR(VARIANT_PACK) || !given->is_final || d->problem.handle != handle)
        return CUDNN_STATUS_BAD_PARAM;
    const struct problem *p = &d->problem;
    struct execution it = {.problem = *p, .convolution = {.direction = FORWARD, .c = p->c}};
    for (int i = 0; i < ARRAYS; ++i) {
        it.at[i] = address(given, p->number[i]);
        CHECKED(is_tensor((cudnnTensorDescriptor_t)&p->t[i], it.at[i]));
        if ((uintptr_t)it.at[i] % 16)
            return CUDNN_STATUS_BAD_PARAM;
    }
    size_t size = memory_of(d->engine);
    CHECKED(is_workspace(VALUE(given, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, void *, NULL), size, size));
    it.convolution.x = p->t[X];
    it.convolution.w = p->t[W];
    it.convolution.y = p->t[Y];
    it.convolution.x_at = it.at[X];
    it.convolution.w_at = it.at[W];
    fake_extend(&it.convolution.x, p->c.axes);
    fake_extend(&it.convolution.w, p->c.axes);
    fake_extend(&it.convolution.y, p->c.axes);
    fake_log("cudnnBackendExecute engine %d activation %d compute %d", d->engine, p->activation, p->c.compute);
    return run_later(handle, run, &it, sizeof it);
}
