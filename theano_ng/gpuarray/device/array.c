/* Device arrays: creation, views and copies. A view is made by computing lengths, strides and an offset. A copy runs a
 * kernel that is generated for the two element types and the number of axes. The context keeps these kernels. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"

/* ---- array records ---- */

int GpuArray_is_c_contiguous(const GpuArray *a)
{
    ssize_t step = (ssize_t)GpuArray_ITEMSIZE(a);
    for (unsigned i = 0; i < a->nd; ++i)
        if (a->dimensions[i] == 0)
            return 1;
    for (unsigned i = a->nd; i-- > 0;) {
        if (a->dimensions[i] != 1 && a->strides[i] != step)
            return 0;
        step *= (ssize_t)a->dimensions[i];
    }
    return 1;
}

int GpuArray_is_f_contiguous(const GpuArray *a)
{
    ssize_t step = (ssize_t)GpuArray_ITEMSIZE(a);
    for (unsigned i = 0; i < a->nd; ++i)
        if (a->dimensions[i] == 0)
            return 1;
    for (unsigned i = 0; i < a->nd; ++i) {
        if (a->dimensions[i] != 1 && a->strides[i] != step)
            return 0;
        step *= (ssize_t)a->dimensions[i];
    }
    return 1;
}

void GpuArray_fix_flags(GpuArray *a)
{
    size_t size = GpuArray_ITEMSIZE(a), aligned = a->offset % (size ? size : 1) == 0;
    for (unsigned i = 0; i < a->nd; ++i)
        aligned &= a->dimensions[i] < 2 || a->strides[i] % (ssize_t)(size ? size : 1) == 0;
    a->flags &= GA_WRITEABLE;
    a->flags |= (aligned ? GA_ALIGNED : 0) | (GpuArray_is_c_contiguous(a) ? GA_C_CONTIGUOUS : 0)
                | (GpuArray_is_f_contiguous(a) ? GA_F_CONTIGUOUS : 0);
}

/* Allocate the lengths and strides in one block of memory; the lengths come first. */
static int array_axes(GpuArray *a, unsigned nd)
{
    a->nd = nd;
    a->dimensions = malloc((nd ? nd : 1) * (sizeof *a->dimensions + sizeof *a->strides));
    a->strides = (ssize_t *)(a->dimensions + nd);
    return a->dimensions == NULL ? GA_MEMORY_ERROR : GA_NO_ERROR;
}

void GpuArray_clear(GpuArray *a)
{
    gpudata_release(a->data);
    free(a->dimensions);
    memset(a, 0, sizeof *a);
}

gpucontext *GpuArray_context(const GpuArray *a)
{
    return a->data->context;
}

const char *GpuArray_error(const GpuArray *a, int code)
{
    return gpucontext_error(a->data == NULL ? NULL : a->data->context, code);
}

static size_t elements(const GpuArray *a)
{
    size_t n = 1;
    for (unsigned i = 0; i < a->nd; ++i)
        n *= a->dimensions[i];
    return n;
}

/* ---- new arrays ---- */

int GpuArray_empty(GpuArray *a, gpucontext *ctx, int typecode, unsigned nd, const size_t *dims, ga_order order)
{
    size_t item = gpuarray_get_elsize(typecode), size = item;
    int code, empty = 0;
    memset(a, 0, sizeof *a);
    if (item == 0 || typecode == GA_BUFFER)
        return context_failed(ctx, GA_VALUE_ERROR, "there are no arrays of type %d", typecode);
    if (nd > GA_MAX_DIMS)
        return context_failed(ctx, GA_VALUE_ERROR, "an array has at most %d axes, not %u", GA_MAX_DIMS, nd);
    for (unsigned i = 0; i < nd; ++i)
        empty |= dims[i] == 0;
    for (unsigned i = 0; i < nd && !empty; ++i)
        if (__builtin_mul_overflow(size, dims[i], &size) || size > PTRDIFF_MAX)
            return context_failed(ctx, GA_XLARGE_ERROR, "the size of the array in bytes overflows");
    if (empty)
        size = 0;
    if (array_axes(a, nd) != GA_NO_ERROR)
        return context_failed(ctx, GA_MEMORY_ERROR, "out of memory");
    ssize_t step = (ssize_t)item;
    for (unsigned i = 0; i < nd; ++i) {
        unsigned axis = order == GA_F_ORDER ? i : nd - 1 - i;
        a->dimensions[axis] = dims[axis];
        a->strides[axis] = step;
        step *= dims[axis] > 0 ? (ssize_t)dims[axis] : 1;
    }
    a->typecode = typecode;
    a->data = gpudata_alloc(ctx, size, NULL, 0, &code);
    if (a->data == NULL) {
        GpuArray_clear(a);
        return code;
    }
    a->flags = GA_WRITEABLE;
    GpuArray_fix_flags(a);
    return GA_NO_ERROR;
}

int GpuArray_zeros(GpuArray *a, gpucontext *ctx, int typecode, unsigned nd, const size_t *dims, ga_order order)
{
    int code = GpuArray_empty(a, ctx, typecode, nd, dims, order);
    if (code == GA_NO_ERROR && (code = gpudata_memset(a->data, 0, 0)) != GA_NO_ERROR)
        GpuArray_clear(a);
    return code;
}

int GpuArray_fromdata(GpuArray *a, gpudata *data, size_t offset, int typecode, unsigned nd, const size_t *dims,
                      const ssize_t *strides, int writeable)
{
    size_t item = gpuarray_get_elsize(typecode);
    ssize_t low = 0, high = 0;
    int empty = 0;
    memset(a, 0, sizeof *a);
    if (item == 0 || typecode == GA_BUFFER)
        return context_failed(data->context, GA_VALUE_ERROR, "there are no arrays of type %d", typecode);
    if (nd > GA_MAX_DIMS)
        return context_failed(data->context, GA_VALUE_ERROR, "an array has at most %d axes, not %u", GA_MAX_DIMS, nd);
    for (unsigned i = 0; i < nd; ++i) {
        ssize_t reach;
        if (dims[i] == 0)
            empty = 1;
        else if (dims[i] > PTRDIFF_MAX || __builtin_mul_overflow((ssize_t)dims[i] - 1, strides[i], &reach)
                 || __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high))
            return context_failed(data->context, GA_XLARGE_ERROR, "the size of the array in bytes overflows");
    }
    if (empty ? offset > data->size : (ssize_t)offset + low < 0 || offset + (size_t)high + item > data->size)
        return context_failed(data->context, GA_VALUE_ERROR,
                              "the array needs bytes %zd to %zu, but the memory has %zu bytes", (ssize_t)offset + low,
                              offset + (size_t)high + item, data->size);
    if (array_axes(a, nd) != GA_NO_ERROR)
        return context_failed(data->context, GA_MEMORY_ERROR, "out of memory");
    if (nd > 0) {
        memcpy(a->dimensions, dims, nd * sizeof *dims);
        memcpy(a->strides, strides, nd * sizeof *strides);
    }
    a->typecode = typecode;
    a->offset = offset;
    a->data = data;
    gpudata_retain(data);
    a->flags = writeable ? GA_WRITEABLE : 0;
    GpuArray_fix_flags(a);
    return GA_NO_ERROR;
}

/* ---- views ---- */

int GpuArray_view(GpuArray *v, const GpuArray *a)
{
    return GpuArray_fromdata(v, a->data, a->offset, a->typecode, a->nd, a->dimensions, a->strides,
                             a->flags & GA_WRITEABLE);
}

int GpuArray_index(GpuArray *r, const GpuArray *a, const ssize_t *starts, const ssize_t *stops, const ssize_t *steps)
{
    size_t dims[GA_MAX_DIMS];
    ssize_t strides[GA_MAX_DIMS], offset = (ssize_t)a->offset;
    unsigned nd = 0;
    memset(r, 0, sizeof *r);
    for (unsigned i = 0; i < a->nd; ++i) {
        ssize_t length = (ssize_t)a->dimensions[i], count = 0;
        if (steps[i] == 0) {
            if (starts[i] < 0 || starts[i] >= length)
                return context_failed(a->data->context, GA_VALUE_ERROR,
                                      "index %zd is out of bounds for axis %u, which has %zd elements", starts[i], i,
                                      length);
            offset += starts[i] * a->strides[i];
            continue;
        }
        if (steps[i] > 0 && stops[i] > starts[i])
            count = (stops[i] - starts[i] - 1) / steps[i] + 1;
        else if (steps[i] < 0 && stops[i] < starts[i])
            count = (starts[i] - stops[i] - 1) / -steps[i] + 1;
        if (count > 0
            && (starts[i] < 0 || starts[i] >= length || starts[i] + (count - 1) * steps[i] < 0
                || starts[i] + (count - 1) * steps[i] >= length))
            return context_failed(a->data->context, GA_VALUE_ERROR,
                                  "slice %zd:%zd:%zd is out of bounds for axis %u, which has %zd elements", starts[i],
                                  stops[i], steps[i], i, length);
        if (count > 0)
            offset += starts[i] * a->strides[i];
        dims[nd] = (size_t)count;
        strides[nd++] = steps[i] * a->strides[i];
    }
    for (unsigned i = 0; i < nd; ++i)
        if (dims[i] == 0)
            offset = (ssize_t)a->offset;
    return GpuArray_fromdata(r, a->data, (size_t)offset, a->typecode, nd, dims, strides, a->flags & GA_WRITEABLE);
}

int GpuArray_transpose(GpuArray *r, const GpuArray *a, const unsigned *axes)
{
    size_t dims[GA_MAX_DIMS];
    ssize_t strides[GA_MAX_DIMS];
    uint32_t seen = 0;
    memset(r, 0, sizeof *r);
    for (unsigned i = 0; i < a->nd; ++i) {
        unsigned axis = axes == NULL ? a->nd - 1 - i : axes[i];
        if (axis >= a->nd || seen >> axis & 1)
            return context_failed(a->data->context, GA_VALUE_ERROR,
                                  "the axes of a transposition must be a permutation of 0 to %d", (int)a->nd - 1);
        seen |= (uint32_t)1 << axis;
        dims[i] = a->dimensions[axis];
        strides[i] = a->strides[axis];
    }
    return GpuArray_fromdata(r, a->data, a->offset, a->typecode, a->nd, dims, strides, a->flags & GA_WRITEABLE);
}

/* Compute the strides of a view of `a` with the lengths `dims` in C order. Return 1, or 0 if there is no such view. A
 * group of old axes that are contiguous with each other becomes a group of new axes with equally many elements. */
static int reshaped_strides(const GpuArray *a, unsigned nd, const size_t *dims, ssize_t *strides)
{
    size_t old_dims[GA_MAX_DIMS];
    ssize_t old_strides[GA_MAX_DIMS];
    unsigned n = 0, i = 0, j = 0;
    for (unsigned k = 0; k < a->nd; ++k)
        if (a->dimensions[k] != 1) {
            old_dims[n] = a->dimensions[k];
            old_strides[n++] = a->strides[k];
        }
    while (i < n && j < nd) {
        unsigned from = i, to = j;
        size_t before = old_dims[i++], after = dims[j++];
        while (before != after) {
            if (before < after) {
                if (i == n)
                    return 0;
                before *= old_dims[i++];
            }
            else {
                if (j == nd)
                    return 0;
                after *= dims[j++];
            }
        }
        for (unsigned k = from; k + 1 < i; ++k)
            if (old_strides[k] != (ssize_t)old_dims[k + 1] * old_strides[k + 1])
                return 0;
        strides[j - 1] = old_strides[i - 1];
        for (unsigned k = j - 1; k > to; --k)
            strides[k - 1] = strides[k] * (ssize_t)dims[k];
    }
    for (; j < nd; ++j)
        strides[j] = j > 0 ? strides[j - 1] : (ssize_t)GpuArray_ITEMSIZE(a);
    return 1;
}

/* Replace "any order" by the order of the array: Fortran order if only this one fits, otherwise C order. */
static ga_order own_order(const GpuArray *a, ga_order order)
{
    if (order != GA_ANY_ORDER)
        return order;
    return GpuArray_IS_F_CONTIGUOUS(a) && !GpuArray_IS_C_CONTIGUOUS(a) ? GA_F_ORDER : GA_C_ORDER;
}

int GpuArray_reshape(GpuArray *r, const GpuArray *a, unsigned nd, const size_t *dims, ga_order order, int nocopy)
{
    ssize_t strides[GA_MAX_DIMS];
    size_t size = 1;
    memset(r, 0, sizeof *r);
    order = own_order(a, order);
    if (nd > GA_MAX_DIMS)
        return context_failed(a->data->context, GA_VALUE_ERROR, "an array has at most %d axes, not %u", GA_MAX_DIMS,
                              nd);
    for (unsigned i = 0; i < nd; ++i)
        size *= dims[i];
    if (size != elements(a))
        return context_failed(a->data->context, GA_VALUE_ERROR,
                              "an array of %zu elements cannot be reshaped to %zu elements", elements(a), size);
    if (order == GA_F_ORDER) {
        /* Reverse the axes, reshape in C order, and reverse the axes of the result. */
        GpuArray flipped, result;
        size_t reversed[GA_MAX_DIMS];
        for (unsigned i = 0; i < nd; ++i)
            reversed[i] = dims[nd - 1 - i];
        int code = GpuArray_transpose(&flipped, a, NULL);
        if (code != GA_NO_ERROR)
            return code;
        code = GpuArray_reshape(&result, &flipped, nd, reversed, GA_C_ORDER, nocopy);
        GpuArray_clear(&flipped);
        if (code == GA_NO_ERROR) {
            code = GpuArray_transpose(r, &result, NULL);
            GpuArray_clear(&result);
        }
        return code;
    }
    if (size == 0) {
        ssize_t step = (ssize_t)GpuArray_ITEMSIZE(a);
        for (unsigned i = nd; i-- > 0; step *= dims[i] ? (ssize_t)dims[i] : 1)
            strides[i] = step;
    }
    else if (!reshaped_strides(a, nd, dims, strides)) {
        GpuArray copy;
        if (nocopy)
            return context_failed(a->data->context, GA_COPY_ERROR,
                                  "the array is not contiguous: reshaping needs a copy");
        int code = GpuArray_copy(&copy, a, GA_C_ORDER);
        if (code != GA_NO_ERROR)
            return code;
        code = GpuArray_reshape(r, &copy, nd, dims, GA_C_ORDER, 1);
        GpuArray_clear(&copy);
        return code;
    }
    return GpuArray_fromdata(r, a->data, a->offset, a->typecode, nd, dims, strides, a->flags & GA_WRITEABLE);
}

int GpuArray_share(const GpuArray *a, const GpuArray *b)
{
    return a->data != NULL && a->data == b->data;
}

/* ---- kernels that copy ---- */

struct copier {
    struct copier *next;
    int to, from, nd, tiled;
    gpukernel *kernel;
};

void copiers_free(gpucontext *ctx)
{
    while (ctx->copiers != NULL) {
        struct copier *c = ctx->copiers;
        ctx->copiers = c->next;
        free(c->kernel); /* copier_for has already dropped the kernel's reference to the context */
        free(c);
    }
}

static const char *type_name(int typecode)
{
    switch (typecode) {
    case GA_BOOL: return "ga_bool";
    case GA_BYTE: return "ga_byte";
    case GA_UBYTE: return "ga_ubyte";
    case GA_SHORT: return "ga_short";
    case GA_USHORT: return "ga_ushort";
    case GA_INT: return "ga_int";
    case GA_UINT: return "ga_uint";
    case GA_LONG:
    case GA_LONGLONG: return "ga_long";
    case GA_ULONG:
    case GA_ULONGLONG: return "ga_ulong";
    case GA_FLOAT: return "ga_float";
    case GA_DOUBLE: return "ga_double";
    case GA_HALF: return "ga_half";
    default: return NULL;
    }
}

/* Return the integer type that has the size of a type. Elements that are not converted are copied as integers. */
static int as_bits(int typecode)
{
    switch (gpuarray_get_elsize(typecode)) {
    case 1: return GA_UBYTE;
    case 2: return GA_USHORT;
    case 4: return GA_UINT;
    case 8: return GA_ULONG;
    default: return typecode;
    }
}

static int is_complex(int typecode)
{
    return typecode == GA_CFLOAT || typecode == GA_CDOUBLE;
}

/* Write the kernel's statements that copy one element from the pointer `f` to the pointer `t` into `text`. Complex
 * elements are copied as pairs of reals. memory: the address space of `f`. */
static void write_element(char *text, size_t size, int to, int from, const char *memory)
{
    char value[160];
    const char *part = type_name(from == GA_CFLOAT ? GA_FLOAT : from == GA_CDOUBLE ? GA_DOUBLE : from);
    if (from == GA_HALF)
        snprintf(value, sizeof value, "load_half((%s const ga_half *)f)", memory);
    else
        snprintf(value, sizeof value, "*(%s const %s *)f", memory, part);
    if (is_complex(to)) {
        const char *real = type_name(to == GA_CFLOAT ? GA_FLOAT : GA_DOUBLE);
        if (is_complex(from))
            snprintf(text, size,
                     "((GLOBAL_MEM %s *)t)[0] = ((%s const %s *)f)[0]; ((GLOBAL_MEM %s *)t)[1] = ((%s const %s "
                     "*)f)[1];",
                     real, memory, part, real, memory, part);
        else
            snprintf(text, size, "((GLOBAL_MEM %s *)t)[0] = %s; ((GLOBAL_MEM %s *)t)[1] = 0;", real, value, real);
    }
    else if (to == GA_HALF && from == GA_DOUBLE) /* as a float, the value would be rounded twice */
        snprintf(text, size, "*(GLOBAL_MEM ga_half *)t = ga_double2half(%s);", value);
    else if (to == GA_HALF)
        snprintf(text, size, "store_half((GLOBAL_MEM ga_half *)t, (ga_float)%s);", value);
    else if (to == GA_BOOL && from != GA_BOOL)
        snprintf(text, size, "*(GLOBAL_MEM ga_bool *)t = (%s) != 0;", value);
    else
        snprintf(text, size, "*(GLOBAL_MEM %s *)t = (%s)%s;", type_name(to), type_name(to), value);
}

/* The side of the tiles in which a kernel transposes, and the number of rows of threads of a group */
enum { TILE = 32, TILE_THREADS = 8 };

/* Write the statements that split `rest` into indices along the axes 0 to nd - 1, and advance `t` and `f`. */
static char *write_walk(char *end, unsigned nd)
{
    for (unsigned i = nd; i-- > 0;)
        end += i > 0
                   ? sprintf(end, "        k = ga_split(&rest, d%u); t += (ga_ssize)k * t%u; f += (ga_ssize)k * f%u;\n",
                             i, i, i)
                   : sprintf(end, "        k = rest; t += (ga_ssize)k * t0; f += (ga_ssize)k * f0;\n");
    return end;
}

static void write_plain(char *end, int to, int from, unsigned nd)
{
    char element[512];
    end += sprintf(
        end,
        "    for (ga_size i = GID_0 * LDIM_0 + LID_0; i < n; i += LDIM_0 * GDIM_0) {\n        ga_size rest = i, k;\n"
        "        GLOBAL_MEM char *t = to + to_offset;\n        GLOBAL_MEM const char *f = from + from_offset;\n");
    end = write_walk(end, nd);
    write_element(element, sizeof element, to, from, "GLOBAL_MEM");
    sprintf(end, "        %s\n    }\n}\n", element);
}

/* Write the loop of a kernel that transposes: `from` is contiguous along the axis nd - 2, and `to` along the axis nd - 1.
 * A group copies tiles of these axes through local memory, so that adjacent threads load and store adjacent elements.
 * The rows of the tile in local memory have one more element, so that a column is in different banks. */
static void write_tiled(char *end, int to, int from, unsigned nd)
{
    char element[512];
    const char *kind = from == GA_CFLOAT ? "ga_cfloat" : from == GA_CDOUBLE ? "ga_cdouble" : type_name(from);
    unsigned r = nd - 2, c = nd - 1;
    end += sprintf(end,
                   "    LOCAL_MEM %s tile[%d][%d];\n"
                   "    for (ga_size i = GID_0; i < n; i += GDIM_0) {\n        ga_size rest = i, k;\n"
                   "        GLOBAL_MEM char *t = to + to_offset;\n"
                   "        GLOBAL_MEM const char *f = from + from_offset;\n"
                   "        const ga_size column = ga_split(&rest, (d%u + %d) / %d) * %d;\n"
                   "        const ga_size row = ga_split(&rest, (d%u + %d) / %d) * %d;\n",
                   kind, TILE, TILE + 1, c, TILE - 1, TILE, TILE, r, TILE - 1, TILE, TILE);
    end = nd > 2 ? write_walk(end, nd - 2) : end + sprintf(end, "        k = rest;\n");
    end += sprintf(end,
                   "        f += (ga_ssize)(row + LID_0) * f%u + (ga_ssize)(column + LID_1) * f%u;\n"
                   "        t += (ga_ssize)(row + LID_1) * t%u + (ga_ssize)(column + LID_0) * t%u;\n"
                   "        GA_UNROLL\n"
                   "        for (ga_uint y = 0; y < %d; y += %d)\n"
                   "            if (row + LID_0 < d%u && column + LID_1 + y < d%u)\n"
                   "                tile[LID_1 + y][LID_0] = *(GLOBAL_MEM const %s *)(f + (ga_ssize)y * f%u);\n"
                   "        local_barrier();\n",
                   r, c, r, c, TILE, TILE_THREADS, r, c, kind, c);
    write_element(element, sizeof element, to, from, "LOCAL_MEM_ARG");
    sprintf(end,
            "        for (ga_uint y = 0; y < %d; y += %d, t += %d * t%u) {\n"
            "            if (row + LID_1 + y < d%u && column + LID_0 < d%u) {\n"
            "                LOCAL_MEM_ARG const %s *f = &tile[LID_0][LID_1 + y];\n"
            "                %s\n            }\n        }\n        local_barrier();\n    }\n}\n",
            TILE, TILE_THREADS, TILE_THREADS, r, r, c, kind, element);
}

static int copier_for(gpucontext *ctx, int to, int from, unsigned nd, int tiled, gpukernel **kernel)
{
    if (to == from && !is_complex(to))
        to = from = as_bits(to);
    for (struct copier *c = ctx->copiers; c != NULL; c = c->next)
        if (c->to == to && c->from == from && c->nd == (int)nd && c->tiled == tiled) {
            *kernel = c->kernel;
            return GA_NO_ERROR;
        }
    struct copier *made = calloc(1, sizeof *made);
    char *text = malloc(4096 + nd * 256), *end = text, *log;
    int types[5 + 3 * GA_MAX_DIMS] = {GA_BUFFER, GA_SIZE, GA_BUFFER, GA_SIZE, GA_SIZE};
    const int *all = types;
    const char *name = "copy_elements";
    unsigned count = 5 + 3 * nd;
    if (made == NULL || text == NULL) {
        free(made);
        free(text);
        return context_failed(ctx, GA_MEMORY_ERROR, "out of memory");
    }
    end += sprintf(end, "KERNEL void copy_elements(GLOBAL_MEM char *to, ga_size to_offset, GLOBAL_MEM char *from, "
                        "ga_size from_offset, ga_size n");
    for (unsigned i = 0; i < nd; ++i) {
        end += sprintf(end, ",\n    ga_size d%u, ga_ssize t%u, ga_ssize f%u", i, i, i);
        types[5 + 3 * i] = GA_SIZE;
        types[6 + 3 * i] = types[7 + 3 * i] = GA_SSIZE;
    }
    end += sprintf(end, ")\n{\n");
    if (tiled)
        write_tiled(end, to, from, nd);
    else
        write_plain(end, to, from, nd);
    int doubles = to == GA_DOUBLE || from == GA_DOUBLE || to == GA_CDOUBLE || from == GA_CDOUBLE;
    int code = gpukernel_build(ctx, text, doubles ? GA_USE_DOUBLE : 0, "", 1, &name, &count, &all, &made->kernel, &log);
    if (code != GA_NO_ERROR && log != NULL)
        context_failed(ctx, code, "the kernel that copies arrays cannot be built: %s", log);
    free(log);
    free(text);
    if (code != GA_NO_ERROR) {
        free(made);
        return code;
    }
    /* The context keeps the kernel: drop the kernel's reference to the context, to avoid a reference cycle. */
    ctx->references--;
    made->to = to;
    made->from = from;
    made->nd = (int)nd;
    made->tiled = tiled;
    made->next = ctx->copiers;
    ctx->copiers = made;
    *kernel = made->kernel;
    return GA_NO_ERROR;
}

/* Drop the axes of length 1, and merge axes that are contiguous with each other in both arrays. Return the new
 * number of axes. */
static unsigned merge_axes(unsigned nd, size_t *dims, ssize_t *a, ssize_t *b)
{
    unsigned n = 0;
    for (unsigned i = 0; i < nd; ++i) {
        if (dims[i] == 1)
            continue;
        if (n > 0 && a[n - 1] == a[i] * (ssize_t)dims[i] && b[n - 1] == b[i] * (ssize_t)dims[i]) {
            dims[n - 1] *= dims[i];
            a[n - 1] = a[i];
            b[n - 1] = b[i];
            continue;
        }
        dims[n] = dims[i];
        a[n] = a[i];
        b[n++] = b[i];
    }
    return n;
}

static void move_axis(unsigned nd, unsigned axis, size_t *dims, ssize_t *a, ssize_t *b)
{
    size_t dim = dims[axis];
    ssize_t first = a[axis], second = b[axis];
    for (unsigned i = axis; i + 1 < nd; ++i) {
        dims[i] = dims[i + 1];
        a[i] = a[i + 1];
        b[i] = b[i + 1];
    }
    dims[nd - 1] = dim;
    a[nd - 1] = first;
    b[nd - 1] = second;
}

/* Return whether a GPU should copy through tiles of local memory: whether the arrays are contiguous along different
 * axes, which are not short. In this case, make these axes the last axes: first the axis of `f`, then the axis of `t`. */
static int transposes(const device_info *info, unsigned nd, size_t *dims, ssize_t *t, ssize_t *f, size_t t_item,
                      size_t f_item)
{
    unsigned along_t = nd, along_f = nd;
    for (unsigned i = 0; i < nd; ++i) {
        if ((size_t)labs(t[i]) == t_item)
            along_t = i;
        if ((size_t)labs(f[i]) == f_item)
            along_f = i;
    }
    if (info->warp == 1 || info->max_group < TILE * TILE_THREADS || along_t == nd || along_f == nd || along_t == along_f
        || dims[along_t] < TILE / 2 || dims[along_f] < TILE / 2 || f[along_t] == 0)
        return 0;
    move_axis(nd, along_f, dims, t, f);
    move_axis(nd, along_f < along_t ? along_t - 1 : along_t, dims, t, f);
    return 1;
}

/* Copy `from` to `to`. For each axis of `to`, `from_strides` has the stride in `from`: 0 if `from` is broadcast. */
static int copy_strided(const GpuArray *to, const GpuArray *from, const ssize_t *from_strides)
{
    gpucontext *ctx = to->data->context;
    size_t dims[GA_MAX_DIMS], n = elements(to), groups = 0, group = 0, item = GpuArray_ITEMSIZE(to);
    ssize_t t[GA_MAX_DIMS], f[GA_MAX_DIMS];
    gpukernel *kernel = NULL;
    if (n == 0)
        return GA_NO_ERROR;
    if (to->nd > 0) {
        memcpy(dims, to->dimensions, to->nd * sizeof *dims);
        memcpy(t, to->strides, to->nd * sizeof *t);
        memcpy(f, from_strides, to->nd * sizeof *f);
    }
    unsigned nd = merge_axes(to->nd, dims, t, f);
    if (to->typecode == from->typecode && (nd == 0 || (nd == 1 && t[0] == (ssize_t)item && f[0] == (ssize_t)item)))
        return gpudata_move(to->data, to->offset, from->data, from->offset, n * item);
    int tiled = transposes(&ctx->info, nd, dims, t, f, item, GpuArray_ITEMSIZE(from));
    int code = copier_for(ctx, to->typecode, from->typecode, nd, tiled, &kernel);
    if (code != GA_NO_ERROR)
        return code;
    if (tiled) {
        n = (dims[nd - 2] + TILE - 1) / TILE * ((dims[nd - 1] + TILE - 1) / TILE);
        for (unsigned i = 0; i + 2 < nd; ++i)
            n *= dims[i];
    }
    void *args[5 + 3 * GA_MAX_DIMS] = {to->data, (void *)&to->offset, from->data, (void *)&from->offset, &n};
    for (unsigned i = 0; i < nd; ++i) {
        args[5 + 3 * i] = &dims[i];
        args[6 + 3 * i] = &t[i];
        args[7 + 3 * i] = &f[i];
    }
    if (!tiled) {
        gpukernel_sched(kernel, n, &groups, &group);
        return gpukernel_call(kernel, 1, &groups, &group, 0, args);
    }
    size_t threads[2] = {TILE, TILE_THREADS}, most = (size_t)ctx->info.processors * 32,
           many[2] = {n < most ? n : most, 1};
    return gpukernel_call(kernel, 2, many, threads, 0, args);
}

/* Compute the range of bytes in the gpudata that the elements of an array cover. */
static void extent(const GpuArray *a, ssize_t *low, ssize_t *high)
{
    *low = (ssize_t)a->offset;
    *high = (ssize_t)(a->offset + GpuArray_ITEMSIZE(a));
    for (unsigned i = 0; i < a->nd; ++i) {
        ssize_t reach = ((ssize_t)a->dimensions[i] - 1) * a->strides[i];
        *(reach < 0 ? low : high) += reach;
    }
}

int GpuArray_overlap(const GpuArray *a, const GpuArray *b)
{
    ssize_t low, high, other_low, other_high;
    if (a->data == NULL || a->data != b->data || elements(a) == 0 || elements(b) == 0)
        return 0;
    extent(a, &low, &high);
    extent(b, &other_low, &other_high);
    return low < other_high && other_low < high;
}

int GpuArray_setarray(GpuArray *a, const GpuArray *v)
{
    gpucontext *ctx = a->data->context;
    ssize_t strides[GA_MAX_DIMS];
    if (!GpuArray_ISWRITEABLE(a))
        return context_failed(ctx, GA_READONLY_ERROR, "the array is read-only");
    if (v->data->context != ctx)
        return context_failed(ctx, GA_INVALID_ERROR, "the arrays belong to different contexts, %s and %s", ctx->name,
                              v->data->context->name);
    if (!GpuArray_ISALIGNED(a) || !GpuArray_ISALIGNED(v))
        return context_failed(ctx, GA_UNALIGNED_ERROR,
                              "kernels cannot convert or copy an array whose elements are not aligned");
    if (is_complex(v->typecode) && !is_complex(a->typecode))
        return context_failed(ctx, GA_VALUE_ERROR, "complex numbers cannot be put into an array of reals");
    for (unsigned i = 0; i < v->nd; ++i) {
        unsigned axis = a->nd - v->nd + i;
        if (v->dimensions[i] != 1 && (v->nd > a->nd + i || v->dimensions[i] != a->dimensions[axis]))
            return context_failed(ctx, GA_VALUE_ERROR, "the shapes do not match: axis %u of the value has %zu elements",
                                  i, v->dimensions[i]);
    }
    for (unsigned axis = 0; axis < a->nd; ++axis) {
        int i = (int)axis - (int)a->nd + (int)v->nd;
        strides[axis] = i < 0 || v->dimensions[i] == 1 ? 0 : v->strides[i];
    }
    if (GpuArray_overlap(a, v)) {
        GpuArray copy;
        int code = GpuArray_copy(&copy, v, GA_C_ORDER);
        if (code != GA_NO_ERROR)
            return code;
        code = GpuArray_setarray(a, &copy);
        GpuArray_clear(&copy);
        return code;
    }
    return copy_strided(a, v, strides);
}

int GpuArray_move(GpuArray *to, const GpuArray *from)
{
    int same = to->nd == from->nd;
    for (unsigned i = 0; same && i < to->nd; ++i)
        same = to->dimensions[i] == from->dimensions[i];
    if (!same)
        return context_failed(to->data->context, GA_VALUE_ERROR, "the arrays have different lengths");
    return GpuArray_setarray(to, from);
}

int GpuArray_copy(GpuArray *r, const GpuArray *a, ga_order order)
{
    int code = GpuArray_empty(r, a->data->context, a->typecode, a->nd, a->dimensions, own_order(a, order));
    if (code == GA_NO_ERROR && (code = copy_strided(r, a, a->strides)) != GA_NO_ERROR)
        GpuArray_clear(r);
    return code;
}

/* ---- transfers to and from the host and other devices ---- */

static int whole(const GpuArray *a, size_t size)
{
    gpucontext *ctx = a->data->context;
    if (!GpuArray_ISONESEGMENT(a))
        return context_failed(ctx, GA_UNSUPPORTED_ERROR, "the array is not contiguous");
    if (size != elements(a) * GpuArray_ITEMSIZE(a))
        return context_failed(ctx, GA_VALUE_ERROR, "got %zu bytes for an array of %zu bytes", size,
                              elements(a) * GpuArray_ITEMSIZE(a));
    return GA_NO_ERROR;
}

int GpuArray_write(GpuArray *to, const void *from, size_t size)
{
    int code = whole(to, size);
    if (code == GA_NO_ERROR && !GpuArray_ISWRITEABLE(to))
        code = context_failed(to->data->context, GA_READONLY_ERROR, "the array is read-only");
    return code != GA_NO_ERROR ? code : gpudata_write(to->data, to->offset, from, size);
}

int GpuArray_read(void *to, size_t size, const GpuArray *from)
{
    int code = whole(from, size);
    return code != GA_NO_ERROR ? code : gpudata_read(to, from->data, from->offset, size);
}

int GpuArray_memset(GpuArray *a, int byte)
{
    gpucontext *ctx = a->data->context;
    size_t size = elements(a) * GpuArray_ITEMSIZE(a);
    int code = whole(a, size);
    if (code == GA_NO_ERROR && !GpuArray_ISWRITEABLE(a))
        code = context_failed(ctx, GA_READONLY_ERROR, "the array is read-only");
    return code == GA_NO_ERROR ? memory_fill(a->data, a->offset, size, byte) : code;
}

int GpuArray_transfer(GpuArray *to, const GpuArray *from)
{
    size_t size = elements(from) * GpuArray_ITEMSIZE(from);
    int code = whole(to, size);
    if (code == GA_NO_ERROR)
        code = whole(from, size);
    if (code == GA_NO_ERROR && to->typecode != from->typecode)
        code = context_failed(to->data->context, GA_VALUE_ERROR, "the arrays have different dtypes");
    return code != GA_NO_ERROR ? code : gpudata_transfer(to->data, to->offset, from->data, from->offset, size);
}

int GpuArray_sync(GpuArray *a)
{
    return gpudata_sync(a->data);
}
