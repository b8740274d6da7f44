/* Native code of the Ops on typed lists. A typed list is a Python list, whose elements are arrays, lists or other
 * objects.
 *
 * A result is a new list with copies of the elements, unless the Op works in place (in_place) or returns a view
 * (getitem). */
#include "native.h"

/* ------------------------------------------------------------------ copies */

static PyObject *copy_value(PyObject *value);

/* Return a new list with copies of the elements. If `hole` is not -1, the new list has one more slot at that position,
 * which contains NULL. */
static PyObject *copy_list(PyObject *list, Py_ssize_t hole)
{
    Py_ssize_t n = PyList_GET_SIZE(list);
    int room = hole >= 0;
    PyObject *made = PyList_New(n + room);
    if (made == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < n; i++) {
        /* Check the length each time: copying an element that is not an array may run code that changes the list. */
        PyObject *element = i < PyList_GET_SIZE(list) ? Py_NewRef(PyList_GET_ITEM(list, i)) : NULL;
        PyObject *copy = element == NULL ? NULL : copy_value(element);
        Py_XDECREF(element);
        if (copy == NULL) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_RuntimeError, "a typed list changed its length while it was copied");
            Py_DECREF(made);
            return NULL;
        }
        PyList_SET_ITEM(made, room && i >= hole ? i + 1 : i, copy);
    }
    return made;
}

/* Return a C-contiguous copy. The copy is an ndarray, even if the array is an instance of a subclass. */
static PyObject *copy_array(PyArrayObject *value)
{
    PyArrayObject *made;
    int type_num = PyArray_TYPE(value);
    if (PyTypeNum_ISNUMBER(type_num) || PyTypeNum_ISBOOL(type_num))
        made = native_new(PyArray_NDIM(value), PyArray_DIMS(value), type_num, 0);
    else
        made = (PyArrayObject *)PyArray_NewLikeArray(value, NPY_CORDER, NULL, 0);
    if (made != NULL && PyArray_CopyInto(made, value) < 0)
        Py_CLEAR(made);
    return (PyObject *)made;
}

static PyObject *deep_copy(PyObject *value)
{
    static PyObject *function = NULL;
    if (function == NULL) {
        PyObject *module = PyImport_ImportModule("copy");
        function = module == NULL ? NULL : PyObject_GetAttrString(module, "deepcopy");
        Py_XDECREF(module);
        if (function == NULL)
            return NULL;
    }
    return PyObject_CallOneArg(function, value);
}

static PyObject *copy_value(PyObject *value)
{
    if (PyArray_Check(value))
        return copy_array((PyArrayObject *)value);
    if (!PyList_CheckExact(value))
        return deep_copy(value);
    if (Py_EnterRecursiveCall(" while copying a typed list"))
        return NULL;
    PyObject *made = copy_list(value, -1);
    Py_LeaveRecursiveCall();
    return made;
}

/* ------------------------------------------------------------------ equality of elements: NaN equals NaN */

#define EQUAL_FLOATS(name, ctype)                                    \
    static int name(const void *left, const void *right, npy_intp n) \
    {                                                                \
        const ctype *a = left, *b = right;                           \
        for (npy_intp i = 0; i < n; i++)                             \
            if (!(a[i] == b[i] || (a[i] != a[i] && b[i] != b[i])))   \
                return 0;                                            \
        return 1;                                                    \
    }
/* A complex number is NaN if one of its parts is NaN. */
#define EQUAL_COMPLEX(name, ctype)                                                                   \
    static int name(const void *left, const void *right, npy_intp n)                                 \
    {                                                                                                \
        const ctype *a = left, *b = right;                                                           \
        for (npy_intp i = 0; i < 2 * n; i += 2) {                                                    \
            if (a[i] == b[i] && a[i + 1] == b[i + 1])                                                \
                continue;                                                                            \
            if (!((a[i] != a[i] || a[i + 1] != a[i + 1]) && (b[i] != b[i] || b[i + 1] != b[i + 1]))) \
                return 0;                                                                            \
        }                                                                                            \
        return 1;                                                                                    \
    }
EQUAL_FLOATS(equal_float32, npy_float32)
EQUAL_FLOATS(equal_float64, npy_float64)
EQUAL_COMPLEX(equal_complex64, npy_float32)
EQUAL_COMPLEX(equal_complex128, npy_float64)

static int equal_float16(const void *left, const void *right, npy_intp n)
{
    const npy_uint16 *a = left, *b = right;
    for (npy_intp i = 0; i < n; i++) {
        int both_zero = ((a[i] | b[i]) & 0x7fff) == 0;
        int both_nan = (a[i] & 0x7fff) > 0x7c00 && (b[i] & 0x7fff) > 0x7c00;
        if (!(both_nan || both_zero || (a[i] == b[i] && (a[i] & 0x7fff) <= 0x7c00)))
            return 0;
    }
    return 1;
}

/* Return 1 if two arrays of one type are equal, 0 if not, -1 with an exception set. */
static int equal_arrays(PyArrayObject *left, PyArrayObject *right)
{
    int type_num = PyArray_TYPE(left), result;
    if (left == right)
        return 1;
    if (!PyArray_EquivTypenums(type_num, PyArray_TYPE(right)) || PyArray_NDIM(left) != PyArray_NDIM(right)
        || !PyArray_CompareLists(PyArray_DIMS(left), PyArray_DIMS(right), PyArray_NDIM(left)))
        return 0;
    if (!PyTypeNum_ISNUMBER(type_num) && !PyTypeNum_ISBOOL(type_num)) {
        PyErr_Format(PyExc_TypeError, "no native code compares arrays of NumPy type number %d", type_num);
        return -1;
    }
    const int layout = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | NPY_ARRAY_NOTSWAPPED;
    PyObject *a = PyArray_FROM_OF((PyObject *)left, layout),
             *b = a == NULL ? NULL : PyArray_FROM_OF((PyObject *)right, layout);
    if (b == NULL) {
        Py_XDECREF(a);
        return -1;
    }
    const void *x = PyArray_DATA((PyArrayObject *)a), *y = PyArray_DATA((PyArrayObject *)b);
    npy_intp n = PyArray_SIZE((PyArrayObject *)a);
    switch (type_num) {
    case NPY_FLOAT16: result = equal_float16(x, y, n); break;
    case NPY_FLOAT32: result = equal_float32(x, y, n); break;
    case NPY_FLOAT64: result = equal_float64(x, y, n); break;
    case NPY_COMPLEX64: result = equal_complex64(x, y, n); break;
    case NPY_COMPLEX128: result = equal_complex128(x, y, n); break;
    default: result = n == 0 || memcmp(x, y, PyArray_NBYTES((PyArrayObject *)a)) == 0;
    }
    Py_DECREF(a);
    Py_DECREF(b);
    return result;
}

/* Return 1 if two arrays, or two (nested) lists of arrays, are equal, 0 if not, -1 with an exception set. */
static int equal_values(PyObject *left, PyObject *right)
{
    if (PyArray_Check(left) && PyArray_Check(right))
        return equal_arrays((PyArrayObject *)left, (PyArrayObject *)right);
    if (!PyList_Check(left) || !PyList_Check(right)) {
        PyErr_Format(PyExc_TypeError, "expected arrays or lists of arrays to compare, got %s and %s",
                     Py_TYPE(left)->tp_name, Py_TYPE(right)->tp_name);
        return -1;
    }
    if (PyList_GET_SIZE(left) != PyList_GET_SIZE(right))
        return 0;
    if (Py_EnterRecursiveCall(" while comparing typed lists"))
        return -1;
    int result = 1;
    for (Py_ssize_t i = 0; result == 1 && i < PyList_GET_SIZE(left); i++)
        result = equal_values(PyList_GET_ITEM(left, i), PyList_GET_ITEM(right, i));
    Py_LeaveRecursiveCall();
    return result;
}

/* Return the position of the first element from `start` on that equals a value. Return -1 if no element is equal, -2
 * with an exception set. */
static Py_ssize_t find(PyObject *list, PyObject *value, Py_ssize_t start)
{
    for (Py_ssize_t i = start; i < PyList_GET_SIZE(list); i++) {
        int same = equal_values(PyList_GET_ITEM(list, i), value);
        if (same != 0)
            return same < 0 ? -2 : i;
    }
    return -1;
}

/* ------------------------------------------------------------------ arguments and results */

static int check_list(PyObject *value, const char *what)
{
    if (PyList_Check(value))
        return 0;
    PyErr_Format(PyExc_TypeError, "%s: expected a list, got %s", what, Py_TYPE(value)->tp_name);
    return -1;
}

/* Read a position. If it does not fit into int64, use the largest or smallest int64. */
static int read_position(PyObject *value, int64_t *position)
{
    if (native_as_int64(value, position) == 0)
        return 0;
    if (!PyErr_ExceptionMatches(PyExc_OverflowError))
        return -1;
    PyErr_Clear();
    PyObject *zero = PyLong_FromLong(0), *number = zero == NULL ? NULL : PyNumber_Index(value);
    int negative = number == NULL ? -1 : PyObject_RichCompareBool(number, zero, Py_LT);
    Py_XDECREF(zero);
    Py_XDECREF(number);
    *position = negative ? INT64_MIN : INT64_MAX;
    return negative < 0 ? -1 : 0;
}

static int put_int64(PyObject **out, int64_t value)
{
    PyArrayObject *array = native_alloc(out, 0, NULL, NPY_INT64);
    if (array == NULL)
        return -1;
    *(npy_int64 *)PyArray_DATA(array) = value;
    return 0;
}

/* Store `value` in *out, and steal the reference. Return 0, or -1 if `value` is NULL. */
static int put(PyObject **out, PyObject *value)
{
    if (value == NULL)
        return -1;
    native_set(out, value);
    return 0;
}

#define UNUSED (void)nin, (void)nout, (void)params

/* ------------------------------------------------------------------ the Ops */

/* length: (list) */
static int tng_length(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    UNUSED;
    return check_list(in[0], "length") < 0 ? -1 : put_int64(&out[0], PyList_GET_SIZE(in[0]));
}

/* getitem: (list, integer or slice); returns the element itself, or a list of the elements themselves */
static int tng_getitem(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    UNUSED;
    int64_t index;
    if (check_list(in[0], "getitem") < 0)
        return -1;
    if (PySlice_Check(in[1]))
        return put(&out[0], PyObject_GetItem(in[0], in[1]));
    if (read_position(in[1], &index) < 0)
        return -1;
    int64_t n = PyList_GET_SIZE(in[0]), at = index < 0 ? index + n : index;
    if (at < 0 || at >= n) {
        PyErr_Format(PyExc_IndexError, "typed list index out of range: index %lld of a list of %lld elements",
                     (long long)index, (long long)n);
        return -1;
    }
    return put(&out[0], Py_NewRef(PyList_GET_ITEM(in[0], at)));
}

/* Insert a copy of `value` before position `at` (0 to the length): into `list` if `inplace`, otherwise into a copy of
 * `list`. */
static int insert_at(PyObject *list, int64_t at, PyObject *value, PyObject **out, int inplace)
{
    PyObject *copy = copy_value(value), *made;
    if (copy == NULL)
        return -1;
    if (inplace) {
        int status = PyList_Insert(list, at, copy);
        Py_DECREF(copy);
        return status < 0 ? -1 : put(out, Py_NewRef(list));
    }
    made = copy_list(list, at);
    if (made == NULL) {
        Py_DECREF(copy);
        return -1;
    }
    PyList_SET_ITEM(made, at, copy);
    return put(out, made);
}

/* append: (list, element) */
NATIVE_FUNCTION(append, in_place)
static int tng_append(int nin, int nout, PyObject **in, PyObject **out, const struct append_params *params)
{
    UNUSED;
    return check_list(in[0], "append") < 0
               ? -1
               : insert_at(in[0], PyList_GET_SIZE(in[0]), in[1], &out[0], params->in_place != 0);
}

/* insert: (list, position, element); positions beyond the ends count as the ends, as in list.insert */
NATIVE_FUNCTION(insert, in_place)
static int tng_insert(int nin, int nout, PyObject **in, PyObject **out, const struct insert_params *params)
{
    UNUSED;
    int64_t at;
    if (check_list(in[0], "insert") < 0 || read_position(in[1], &at) < 0)
        return -1;
    int64_t n = PyList_GET_SIZE(in[0]);
    at = at < -n ? 0 : at < 0 ? at + n : at > n ? n : at;
    return insert_at(in[0], at, in[2], &out[0], params->in_place != 0);
}

/* extend: (list, list) */
NATIVE_FUNCTION(extend, in_place)
static int tng_extend(int nin, int nout, PyObject **in, PyObject **out, const struct extend_params *params)
{
    UNUSED;
    if (check_list(in[0], "extend") < 0 || check_list(in[1], "extend") < 0)
        return -1;
    PyObject *tail = copy_list(in[1], -1);
    if (tail == NULL)
        return -1;
    PyObject *made = params->in_place ? Py_NewRef(in[0]) : copy_list(in[0], -1);
    if (made != NULL && PyList_SetSlice(made, PyList_GET_SIZE(made), PyList_GET_SIZE(made), tail) < 0)
        Py_CLEAR(made);
    Py_DECREF(tail);
    return put(&out[0], made);
}

static int not_found(const char *what, PyObject *list)
{
    PyErr_Format(PyExc_ValueError, "%s: no element of the typed list (of %zd elements) equals the value", what,
                 PyList_GET_SIZE(list));
    return -1;
}

/* remove: (list, element); removes the first equal element */
NATIVE_FUNCTION(remove, in_place)
static int tng_remove(int nin, int nout, PyObject **in, PyObject **out, const struct remove_params *params)
{
    UNUSED;
    if (check_list(in[0], "remove") < 0)
        return -1;
    Py_ssize_t at = find(in[0], in[1], 0);
    if (at < 0)
        return at == -1 ? not_found("remove", in[0]) : -1;
    PyObject *made = params->in_place ? Py_NewRef(in[0]) : copy_list(in[0], -1);
    if (made != NULL && PySequence_DelItem(made, at) < 0)
        Py_CLEAR(made);
    return put(&out[0], made);
}

/* reverse: (list) */
NATIVE_FUNCTION(reverse, in_place)
static int tng_reverse(int nin, int nout, PyObject **in, PyObject **out, const struct reverse_params *params)
{
    UNUSED;
    if (check_list(in[0], "reverse") < 0)
        return -1;
    PyObject *made = params->in_place ? Py_NewRef(in[0]) : copy_list(in[0], -1);
    if (made != NULL && PyList_Reverse(made) < 0)
        Py_CLEAR(made);
    return put(&out[0], made);
}

/* index: (list, element); returns the position of the first equal element */
static int tng_index(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    UNUSED;
    if (check_list(in[0], "index") < 0)
        return -1;
    Py_ssize_t at = find(in[0], in[1], 0);
    if (at < 0)
        return at == -1 ? not_found("index", in[0]) : -1;
    return put_int64(&out[0], at);
}

/* count: (list, element) */
static int tng_count(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    UNUSED;
    int64_t count = 0;
    if (check_list(in[0], "count") < 0)
        return -1;
    Py_ssize_t at = -1;
    while ((at = find(in[0], in[1], at + 1)) >= 0)
        count++;
    return at == -2 ? -1 : put_int64(&out[0], count);
}

/* make_list: (elements) */
static int tng_make_list(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    UNUSED;
    PyObject *made = PyList_New(nin);
    for (int i = 0; made != NULL && i < nin; i++) {
        PyObject *copy = copy_value(in[i]);
        if (copy == NULL)
            Py_CLEAR(made);
        else
            PyList_SET_ITEM(made, i, copy);
    }
    return put(&out[0], made);
}

/* deep_copy, view: (list) */
static int tng_deep_copy(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    UNUSED;
    return check_list(in[0], "deep_copy") < 0 ? -1 : put(&out[0], copy_list(in[0], -1));
}

static int tng_view(int nin, int nout, PyObject **in, PyObject **out, const int64_t *params)
{
    UNUSED;
    return put(&out[0], Py_NewRef(in[0]));
}

static const NativeEntry entries[] = {
    {"length", tng_length},
    {"getitem", tng_getitem},
    NATIVE_ENTRY(append),
    NATIVE_ENTRY(insert),
    NATIVE_ENTRY(extend),
    NATIVE_ENTRY(remove),
    NATIVE_ENTRY(reverse),
    {"index", tng_index},
    {"count", tng_count},
    {"make_list", tng_make_list},
    {"deep_copy", tng_deep_copy},
    {"view", tng_view},
    {NULL},
};
NATIVE_MODULE(typed_lists, entries)
