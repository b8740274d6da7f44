/* Graphs of operations by cuDNN: a convolution, the addition of a bias, and an activation, in one kernel.
 *
 * A graph is described by descriptors, which the library checks when they are finalized: tensors, operations, and the graph
 * of the operations. The library's heuristics propose engines with their settings, the fastest first. An engine becomes a
 * plan, which may have to be compiled. The engines whose numerical notes are allowed are kept for each form (struct graph),
 * and so are their plans. The first plan that the library can make, and for whose workspace there is memory, computes.
 *
 * The heuristics have two modes. The second proposes engines that compute nearly everything, but are often slower than a
 * convolution by a fixed algorithm and another kernel. */
#include "cudnn_core.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_AXES = 3, RANK = 2 + MOST_AXES, MOST_DESCRIPTORS = 16, MOST_FOUND = 64, MOST_NOTES = 32, ALIGNMENT = 16 };
/* The number of engines that are kept from a mode of the heuristics */
enum { MOST_ENGINES = 12, MODES = 2 };
/* The tensors of a graph. The first four have memory. */
enum { IMAGES, KERNELS, BIAS, OUT, SUM, BIASED, IN_MEMORY = SUM };

struct graph_key {
    cudnnHandle_t handle;
    double alpha;
    dnn_convolution convolution;
    int type, activation, any, deterministic, zero; /* the size is a multiple of 8 */
    int dims[3][RANK];
};
_Static_assert(sizeof(struct graph_key)
                   == sizeof(cudnnHandle_t) + sizeof(double) + sizeof(dnn_convolution) + (5 + 3 * RANK) * sizeof(int),
               "the keys of cudnn_find() have no padding");

struct plan {
    cudnnBackendDescriptor_t engine, plan;
    int64_t size; /* of the workspace */
    int is_refused;
};

struct graph {
    cudnnBackendDescriptor_t descriptors[MOST_DESCRIPTORS];
    int used, count;
    struct plan plans[MODES * MOST_ENGINES];
    char reason[512]; /* the reason why there is no plan, if it is known */
};

struct attribute {
    int name, type;
    int64_t count;
    const void *values; /* NULL ends a list */
};

/* ---- descriptors ---- */

/* Finalize a descriptor. Return GA_UNSUPPORTED_ERROR if the library refuses the form, for any reason. The status is also
 * stored in *status. */
static int finalize(cudnnBackendDescriptor_t descriptor, cudnnStatus_t *status)
{
    *status = cudnn.cudnnBackendFinalize(descriptor);
    if (*status == CUDNN_STATUS_SUCCESS)
        return GA_NO_ERROR;
    int code = cudnn_failed(*status, "cudnnBackendFinalize");
    return *status / 1000 == CUDNN_STATUS_BAD_PARAM / 1000 || code == GA_LOAD_ERROR ? GA_UNSUPPORTED_ERROR : code;
}

static int set_all(cudnnBackendDescriptor_t descriptor, const struct attribute *attributes)
{
    for (const struct attribute *a = attributes; a->values; ++a)
        CUDNN_CALL(cudnnBackendSetAttribute, descriptor, a->name, a->type, a->count, a->values);
    return GA_NO_ERROR;
}

/* Make a descriptor with these attributes. */
static int make(int kind, cudnnBackendDescriptor_t *made, const struct attribute *attributes)
{
    CUDNN_CALL(cudnnBackendCreateDescriptor, kind, made);
    cudnnStatus_t status;
    int code = set_all(*made, attributes);
    if (code == GA_NO_ERROR)
        code = finalize(*made, &status);
    if (code != GA_NO_ERROR) {
        cudnn.cudnnBackendDestroyDescriptor(*made);
        *made = NULL;
    }
    return code;
}

#define MAKE(kind, made, ...) \
    make(CUDNN_BACKEND_##kind##_DESCRIPTOR, made, (const struct attribute[]){__VA_ARGS__, {0}})

/* Make a descriptor of a graph, which lives as long as the graph. */
#define ADD(g, kind, made, ...)                   \
    do {                                          \
        CUDNN_TRY(MAKE(kind, made, __VA_ARGS__)); \
        (g)->descriptors[(g)->used++] = *(made);  \
    } while (0)

/* ---- a graph ---- */

static int add_tensor(struct graph *g, int64_t number, int type, int rank, const int *dims,
                      cudnnBackendDescriptor_t *made)
{
    int64_t lengths[RANK], strides[RANK], stride = 1, alignment = ALIGNMENT;
    _Bool is_virtual = number >= IN_MEMORY;
    for (int i = rank - 1; i >= 0; --i) {
        lengths[i] = dims[i];
        strides[i] = stride;
        stride *= dims[i];
    }
    ADD(g, TENSOR, made, {CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &number},
        {CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type},
        {CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, rank, lengths},
        {CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, rank, strides},
        {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment},
        {CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual});
    return GA_NO_ERROR;
}

static int add_convolution(struct graph *g, const struct graph_key *key, const cudnnBackendDescriptor_t *tensors,
                           cudnnBackendDescriptor_t *operation)
{
    const dnn_convolution *c = &key->convolution;
    int64_t axes = c->axes, pad[MOST_AXES], stride[MOST_AXES], dilation[MOST_AXES];
    int mode = c->flip ? CUDNN_CONVOLUTION : CUDNN_CROSS_CORRELATION, compute = cudnn_type(c->compute);
    int factor_type = compute == CUDNN_DATA_DOUBLE ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
    union dnn_factor one = cudnn_factor(1, c->compute), zero = cudnn_factor(0, c->compute);
    cudnnBackendDescriptor_t convolution;
    for (int i = 0; i < c->axes; ++i) {
        pad[i] = c->pad[i];
        stride[i] = c->stride[i];
        dilation[i] = c->dilation[i];
    }
    ADD(g, CONVOLUTION, &convolution, {CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute},
        {CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode},
        {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &axes},
        {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, axes, dilation},
        {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, axes, stride},
        {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, axes, pad},
        {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, axes, pad});
    ADD(g, OPERATION_CONVOLUTION_FORWARD, operation,
        {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, factor_type, 1, &one},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, factor_type, 1, &zero},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &convolution},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &tensors[IMAGES]},
        {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &tensors[KERNELS]},
        { CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &tensors[SUM] });
    return GA_NO_ERROR;
}

/* Add y = mode(alpha * x, b), or y = mode(x) if b is NULL. The library has no engine for a factor that is a part of the
 * convolution. */
static int add_pointwise(struct graph *g, int mode, int type, double alpha, const cudnnBackendDescriptor_t *x,
                         const cudnnBackendDescriptor_t *b, const cudnnBackendDescriptor_t *y,
                         cudnnBackendDescriptor_t *operation)
{
    int factor_type = type == CUDNN_DATA_DOUBLE ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
    union dnn_factor factor = cudnn_factor(alpha, type == CUDNN_DATA_DOUBLE ? GA_DOUBLE : GA_FLOAT);
    cudnnBackendDescriptor_t pointwise;
    int nan = CUDNN_PROPAGATE_NAN;
    ADD(g, POINTWISE, &pointwise, {CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode},
        {CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type},
        {CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, 1,
         mode == CUDNN_POINTWISE_RELU_FWD ? &nan : NULL});
    ADD(g, OPERATION_POINTWISE, operation,
        {CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &pointwise},
        {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, x},
        {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, y},
        {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, b},
        {CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, factor_type, 1, alpha == 1 ? NULL : &factor});
    return GA_NO_ERROR;
}

/* Add the tensors and the operations. The values between the operations have at least the precision float32. */
static int add_operations(struct graph *g, const struct graph_key *key, cudnnBackendDescriptor_t *graph)
{
    static const int modes[] = {[DNN_RELU] = CUDNN_POINTWISE_RELU_FWD,
                                [DNN_TANH] = CUDNN_POINTWISE_TANH_FWD,
                                [DNN_SIGMOID] = CUDNN_POINTWISE_SIGMOID_FWD};
    const int *images = key->dims[0], *kernels = key->dims[1], *out = key->dims[2];
    int rank = 2 + key->convolution.axes, bias[RANK] = {1, out[1], 1, 1, 1}, last = BIASED;
    int math = key->type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t tensors[BIASED + 1], operations[3];
    const int *dims[] = {images, kernels, bias, out, out, out};
    if (key->activation == DNN_IDENTITY)
        last = SUM;
    for (int i = 0; i <= last; ++i)
        CUDNN_TRY(add_tensor(g, i, i < IN_MEMORY ? key->type : math, rank, dims[i], &tensors[i]));
    CUDNN_TRY(add_convolution(g, key, tensors, &operations[0]));
    CUDNN_TRY(add_pointwise(g, CUDNN_POINTWISE_ADD, math, key->alpha, &tensors[SUM], &tensors[BIAS],
                            &tensors[last == BIASED ? BIASED : OUT], &operations[1]));
    if (last == BIASED)
        CUDNN_TRY(
            add_pointwise(g, modes[key->activation], math, 1, &tensors[BIASED], NULL, &tensors[OUT], &operations[2]));
    ADD(g, OPERATIONGRAPH, graph, {CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &key->handle},
        {CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, last == BIASED ? 3 : 2, operations});
    return GA_NO_ERROR;
}

/* ---- engines ---- */

/* Return whether an engine with this note would give other numbers than the fixed algorithms. Notes of later versions of
 * the library are ignored. */
static int is_refused(const struct graph_key *key, int note)
{
    switch (note) {
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE: return key->type == CUDNN_DATA_FLOAT && !key->convolution.tf32;
    case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION: return key->convolution.compute != GA_HALF;
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC: return key->deterministic;
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
    case CUDNN_NUMERICAL_NOTE_FFT:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD: return 1;
    default: return 0;
    }
}

static int read_notes(cudnnBackendDescriptor_t settings, cudnnBackendDescriptor_t engine, int64_t *count, int *notes)
{
    CUDNN_CALL(cudnnBackendGetAttribute, settings, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, count,
               &engine);
    CUDNN_CALL(cudnnBackendGetAttribute, engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
               MOST_NOTES, count, notes);
    return GA_NO_ERROR;
}

/* Find out whether the notes of an engine are allowed. */
static int check_engine(const struct graph_key *key, cudnnBackendDescriptor_t settings, int *allowed)
{
    cudnnBackendDescriptor_t engine;
    int notes[MOST_NOTES];
    int64_t count = 0;
    CUDNN_CALL(cudnnBackendCreateDescriptor, CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine);
    int code = read_notes(settings, engine, &count, notes);
    cudnn.cudnnBackendDestroyDescriptor(engine);
    *allowed = code == GA_NO_ERROR;
    for (int i = 0; i < count && i < MOST_NOTES && *allowed; ++i)
        *allowed = !is_refused(key, notes[i]);
    return code;
}

/* Keep the engines that a mode of the heuristics proposes and that are allowed. */
static int add_engines(struct graph *g, const struct graph_key *key, cudnnBackendDescriptor_t graph, int mode)
{
    cudnnBackendDescriptor_t heuristics, found[MOST_FOUND];
    int64_t count = 0, made = 0;
    int last = g->count + MOST_ENGINES, code;
    ADD(g, ENGINEHEUR, &heuristics, {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph},
        {CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode});
    CUDNN_CALL(cudnnBackendGetAttribute, heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0,
               &count, NULL);
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    while (status == CUDNN_STATUS_SUCCESS && made < count && made < MOST_FOUND) {
        status = cudnn.cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &found[made]);
        made += status == CUDNN_STATUS_SUCCESS;
    }
    code = status == CUDNN_STATUS_SUCCESS ? GA_NO_ERROR : cudnn_failed(status, "cudnnBackendCreateDescriptor");
    count = 0;
    if (code == GA_NO_ERROR && made > 0) {
        status = cudnn.cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                CUDNN_TYPE_BACKEND_DESCRIPTOR, made, &count, found);
        if (status != CUDNN_STATUS_SUCCESS)
            code = cudnn_failed(status, "cudnnBackendGetAttribute");
    }
    for (int i = 0; i < made; ++i) {
        int allowed = 0;
        if (code == GA_NO_ERROR && i < count && g->count < last)
            code = check_engine(key, found[i], &allowed);
        if (allowed)
            g->plans[g->count++].engine = found[i];
        else
            cudnn.cudnnBackendDestroyDescriptor(found[i]);
    }
    return code;
}

static int describe(struct graph *g, const struct graph_key *key)
{
    static const int modes[MODES] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
    cudnnBackendDescriptor_t graph;
    int code = add_operations(g, key, &graph);
    for (int i = 0; i < (key->any ? MODES : 1) && code == GA_NO_ERROR; ++i) {
        code = add_engines(g, key, graph, modes[i]);
        if (code == GA_UNSUPPORTED_ERROR) {
            snprintf(g->reason, sizeof g->reason, ": %s", device_message());
            code = GA_NO_ERROR;
        }
    }
    return code;
}

static int make_graph(const void *key, void **object)
{
    struct graph *g = *object = calloc(1, sizeof *g);
    if (!g)
        return device_failed(GA_MEMORY_ERROR, "out of host memory for cuDNN");
    int code = describe(g, key);
    if (code != GA_UNSUPPORTED_ERROR)
        return code;
    /* The graph is kept, without plans. */
    snprintf(g->reason, sizeof g->reason, ": %s", device_message());
    return GA_NO_ERROR;
}

static void destroy_graph(void *object)
{
    struct graph *g = object;
    if (!g)
        return;
    for (int i = 0; i < g->count; ++i) {
        if (g->plans[i].plan)
            cudnn.cudnnBackendDestroyDescriptor(g->plans[i].plan);
        cudnn.cudnnBackendDestroyDescriptor(g->plans[i].engine);
    }
    while (g->used > 0)
        cudnn.cudnnBackendDestroyDescriptor(g->descriptors[--g->used]);
    free(g);
}

static const struct dnn_kind graphs = {make_graph, destroy_graph};

/* ---- plans ---- */

/* Make the plan of an engine. GA_UNSUPPORTED_ERROR: the engine cannot compute the graph. */
static int make_plan(cudnnHandle_t handle, struct plan *p)
{
    cudnnBackendDescriptor_t made;
    cudnnStatus_t status;
    int64_t count, size = 0;
    CUDNN_CALL(cudnnBackendCreateDescriptor, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &made);
    int code =
        set_all(made, (const struct attribute[]){
                          {CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle},
                          {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &p->engine},
                          {0}});
    if (code == GA_NO_ERROR) {
        code = finalize(made, &status);
        /* An engine may also fail because its kernel cannot be compiled. */
        if (code == GA_RUN_ERROR && status / 1000 == CUDNN_STATUS_INTERNAL_ERROR / 1000)
            code = GA_UNSUPPORTED_ERROR;
    }
    if (code == GA_NO_ERROR) {
        status = cudnn.cudnnBackendGetAttribute(made, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                                &count, &size);
        if (status != CUDNN_STATUS_SUCCESS)
            code = cudnn_failed(status, "cudnnBackendGetAttribute");
    }
    if (code != GA_NO_ERROR) {
        cudnn.cudnnBackendDestroyDescriptor(made);
        return code;
    }
    p->plan = made;
    p->size = size;
    return GA_NO_ERROR;
}

static int execute(cudnnHandle_t handle, const struct plan *p, const dnn_tensor *const *tensors, void *workspace)
{
    int64_t numbers[IN_MEMORY];
    void *at[IN_MEMORY];
    cudnnBackendDescriptor_t pack;
    for (int i = 0; i < IN_MEMORY; ++i) {
        numbers[i] = i;
        at[i] = cudnn_at(tensors[i]);
    }
    CUDNN_TRY(MAKE(VARIANT_PACK, &pack, {CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, IN_MEMORY, numbers},
                   {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, IN_MEMORY, at},
                   {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace}));
    cudnnStatus_t status = cudnn.cudnnBackendExecute(handle, p->plan, pack);
    cudnn.cudnnBackendDestroyDescriptor(pack);
    return status == CUDNN_STATUS_SUCCESS ? GA_NO_ERROR : cudnn_failed(status, "cudnnBackendExecute");
}

/* Compute by a plan whose workspace is smaller than `limit`; without a result, `limit` becomes the size of its workspace. */
static int attempt(const struct dnn_call *call, struct plan *p, const dnn_tensor *const *tensors, size_t *limit)
{
    gpudata *workspace;
    if (!p->plan)
        CUDNN_TRY(make_plan(call->handle, p));
    if ((size_t)p->size >= *limit)
        return GA_MEMORY_ERROR;
    int code = cudnn_workspace(call, (size_t)p->size, &workspace);
    if (code == GA_MEMORY_ERROR)
        *limit = (size_t)p->size;
    CUDNN_TRY(code);
    code = execute(call->handle, p, tensors, cudnn_memory(workspace));
    gpudata_release(workspace);
    return code;
}

static int compute(const struct dnn_call *call, struct graph *g, const dnn_tensor *const *tensors)
{
    char message[512] = "";
    size_t limit = SIZE_MAX;
    for (int i = 0; i < g->count; ++i) {
        struct plan *p = &g->plans[i];
        if (p->is_refused)
            continue;
        int code = attempt(call, p, tensors, &limit);
        if (code == GA_UNSUPPORTED_ERROR) {
            p->is_refused = 1;
            snprintf(g->reason, sizeof g->reason, ": %s", device_message());
        }
        else if (code != GA_MEMORY_ERROR)
            return code;
        else if (!*message)
            snprintf(message, sizeof message, "%s", device_message());
    }
    return *message ? device_failed(GA_MEMORY_ERROR, "%s", message)
                    : device_failed(GA_UNSUPPORTED_ERROR, "cuDNN has no plan for this form%s", g->reason);
}

/* ---- the library ---- */

/* Return whether cuBLASLt can be loaded, in the version that cuDNN loads. Without it, cuDNN ends the process. */
static int load_cublas(void)
{
    char name[40];
    snprintf(name, sizeof name, "libcublasLt.so.%zu", cudnn.cudnnGetCudartVersion() / 1000);
    const char *path = device_library("cublasLt");
    const char *const names[] = {name, NULL};
    return (path && strstr(path, name) ? device_load_library("cublasLt", names) : dlopen(name, RTLD_LAZY | RTLD_LOCAL))
           != NULL;
}

/* Load the libraries that graphs need, once. */
static int load_engines(void)
{
    static const char *const parts[] = {"libcudnn_heuristic.so.9", "libcudnn_engines_precompiled.so.9",
                                        "libcudnn_engines_runtime_compiled.so.9"};
    static int is_known;
    static char reason[512];
    for (size_t i = 0; !is_known && !*reason && i < sizeof parts / sizeof *parts; ++i)
        if (!cudnn_load_part(parts[i]))
            snprintf(reason, sizeof reason, "%s", dlerror());
    if (!is_known && !*reason && !load_cublas())
        snprintf(reason, sizeof reason, "%s", dlerror());
    is_known = 1;
    return *reason ? device_failed(GA_UNSUPPORTED_ERROR, "cuDNN cannot compute graphs: %s", reason) : GA_NO_ERROR;
}

static int find_graph(const struct dnn_call *call, const dnn_convolution *convolution, const dnn_choice *choice,
                      const dnn_ending *ending, const dnn_tensor *const *tensors, struct graph **graph)
{
    static const int places[] = {IMAGES, KERNELS, OUT};
    size_t most = choice->most ? choice->most : INT_MAX;
    struct graph_key key = {.handle = call->handle,
                            .alpha = ending->alpha,
                            .convolution = *convolution,
                            .type = cudnn_type(tensors[OUT]->typecode),
                            .activation = ending->activation,
                            .any = ending->any != 0,
                            .deterministic = choice->deterministic != 0};
    for (int k = 0; k < 3; ++k) {
        const dnn_tensor *t = tensors[places[k]];
        if (cudnn_elements(t) > most)
            return device_failed(GA_UNSUPPORTED_ERROR, "an array is too large for one call of cuDNN");
        for (unsigned i = 0; i < t->nd; ++i)
            key.dims[k][i] = (int)t->dims[i];
    }
    return cudnn_find(call, &graphs, &key, sizeof key, (void **)graph);
}

int cudnn_convolve_elemwise(gpucontext *ctx, const dnn_convolution *convolution, const dnn_choice *choice,
                            const dnn_ending *ending, const dnn_tensor *images, const dnn_tensor *kernels,
                            const dnn_tensor *out)
{
    const dnn_tensor *const tensors[] = {[IMAGES] = images, [KERNELS] = kernels, [BIAS] = ending->bias, [OUT] = out};
    struct graph *graph;
    struct dnn_call call;
    int code = cudnn_begin(&call, ctx);
    if (code == GA_NO_ERROR)
        code = load_engines();
    if (code == GA_NO_ERROR)
        code = find_graph(&call, convolution, choice, ending, tensors, &graph);
    if (code == GA_NO_ERROR)
        code = compute(&call, graph, tensors);
    return cudnn_end(&call, code, "a convolution with a bias and an activation", IN_MEMORY, tensors);
}
