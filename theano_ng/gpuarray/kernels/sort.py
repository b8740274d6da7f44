"""Kernels that sort, and that select the k best elements, along the last axis of contiguous arrays.

A line is a 1-d slice along the last axis. Elements are read as unsigned integers of their size. A key is an unsigned
integer of this size. Keys compare in the order in which NumPy sorts the elements: NaNs have the largest key, and 0 and
-0 have equal keys. For the reverse order, all bits of the keys are inverted.

Lines are sorted by one digit of the keys after the other, from the lowest digit (radix sort). Every pass is stable. The
k best elements are found from the highest digit: the counts of the digits show the digit of the k-th best key.

On processors, one thread processes a line. On GPUs, a group of threads processes a line. If there are few long lines,
several groups share a line; then counting, adding the counts, and moving are separate kernels. The result does not
depend on the timing of the threads.
"""

import numpy as np

from theano_ng.gpuarray.kernels import snippets
from theano_ng.gpuarray.kernels.device_kernel import DeviceKernel, flags_of, sample
from theano_ng.gpuarray.kernels.snippets import SIZE

# The dtypes that can be sorted
DTYPES = tuple(dtype for dtype in snippets.TYPES if not dtype.startswith("complex"))

# The maximum number of threads in a group on GPUs, and the size in bits of a digit on GPUs (native/sort.c has it, too)
GROUP, DIGIT = 256, 4
_DIGITS = 1 << DIGIT

# The number of elements of a line up to which a processor compares each element with all elements. It fits in 8 bits.
_FEW = 80

# The maximum number of elements that a group keeps in local memory, in bytes
_STAGED = 12288

_INTEGER_KEY = """
WITHIN_KERNEL %(T)s tng_key_%(dtype)s(%(T)s b)
{
    return b ^ (%(T)s)%(flipped)s;
}
"""

_FLOAT_KEY = """
WITHIN_KERNEL %(T)s tng_key_%(dtype)s(%(T)s b)
{
    const %(T)s sign = (%(T)s)((%(T)s)1 << %(last)d), magnitude = b & (%(T)s)~sign;
    if (magnitude > (%(T)s)%(infinity)s)
        return (%(T)s)~(%(T)s)0;
    return magnitude == 0 ? sign : (%(T)s)(b & sign ? ~b : b | sign);
}
"""


_FAST_KEY = """
WITHIN_KERNEL %(T)s tng_fast_key_%(dtype)s(%(T)s b)
{
    return (%(T)s)(%(order)s);
}
"""


def _words(dtype, indexed=False, **more):
    """Return the words in the source code of kernels for a dtype."""
    bits = np.dtype(dtype).itemsize * 8
    words = dict(
        dtype=dtype,
        T=snippets.element(snippets.bits(dtype)),
        bits=bits,
        last=bits - 1,
        group=GROUP,
        digits=_DIGITS,
        digit=DIGIT,
        each=_each(bits // 8 + 8 * indexed),
        indices="_with_indices" if indexed else "",
    )
    return {**words, **more}


def _each(size):
    """Return the number of elements of `size` bytes that a thread moves at a time: 2, 4 or 8."""
    return next((n for n in (8, 4) if GROUP * n * size <= _STAGED), 2)


def _key(dtype):
    """Return the function that returns the key of an element."""
    words = _words(dtype)
    if dtype.startswith("float"):
        infinity = hex(int(np.asarray(np.inf, dtype).view("uint%d" % words["bits"])))
        return _FLOAT_KEY % {**words, "infinity": infinity}
    return _INTEGER_KEY % {**words, "flipped": hex(1 << words["last"]) if dtype.startswith("int") else "0"}


def _fast_key(dtype):
    """Return the function that returns the key of an element faster, but not of NaN and -0."""
    words, order = _words(dtype), "tng_key_%s(b)" % dtype
    if dtype.startswith("float"):
        order = "b >> %(last)d ? ~b : b | (%(T)s)1 << %(last)d" % words
    return _FAST_KEY % {**words, "order": order}


# ---------------------------------------------------------------------------------------------------------- processors

# The parameters of kernels that sort lines: the elements, and with indices the indices that move with them. If `made`,
# the indices of the input are the positions in the line. `w` is work space of the size of the output.
_SORT_PARAMETERS = """(ga_size n, ga_size lines, ga_ulong order, GLOBAL_MEM const %(T)s *x, ga_size x_at, GLOBAL_MEM %(T)s *z, ga_size z_at,
    GLOBAL_MEM %(T)s *w, ga_size w_at"""
_SORT_INDICES = """, ga_uint made, GLOBAL_MEM const ga_long *xi, ga_size xi_at, GLOBAL_MEM ga_long *zi, ga_size zi_at,
    GLOBAL_MEM ga_long *wi, ga_size wi_at"""
_SORT_TYPES = (SIZE, SIZE, "uint64", "*", SIZE, "*", SIZE, "*", SIZE)
_SORT_INDEX_TYPES = ("uint32", "*", SIZE, "*", SIZE, "*", SIZE)

_BEGIN_SORT = """
{
    const %(T)s flip = (%(T)s)order;
    x = (GLOBAL_MEM const %(T)s *)((GLOBAL_MEM const char *)x + x_at);
    z = (GLOBAL_MEM %(T)s *)((GLOBAL_MEM char *)z + z_at);
    w = (GLOBAL_MEM %(T)s *)((GLOBAL_MEM char *)w + w_at);
"""
_BEGIN_INDICES = """
    xi = (GLOBAL_MEM const ga_long *)((GLOBAL_MEM const char *)xi + xi_at);
    zi = (GLOBAL_MEM ga_long *)((GLOBAL_MEM char *)zi + zi_at);
    wi = (GLOBAL_MEM ga_long *)((GLOBAL_MEM char *)wi + wi_at);
"""

# A thread sorts a line. In a short line, each element is compared with all elements, which the compiler vectorizes. For
# other lines, all digits are counted first, so that passes in which all elements have the same digit are left out. Even
# and odd elements are counted separately, because increments of one counter wait for each other. If there is no NaN and
# no -0, keys are moved instead of the elements, and the elements are computed from the keys in the end.
_SORT_BY_THREADS = """
KERNEL void KERNEL_NAME%(parameters)s)
%(begin)s
    for (ga_size line = GID_0; line < lines; line += GDIM_0) {
        const ga_size first = line * n;
        GLOBAL_MEM const %(T)s *from = x + first;
        GLOBAL_MEM %(T)s *to = z + first;
        if (n <= %(few)d) {
            %(T)s keys[%(few)d];
            for (ga_uint i = 0; i < n; ++i)
                keys[i] = tng_key_%(dtype)s(from[i]) ^ flip;
            for (ga_uint i = 0; i < n; ++i) {
                %(T)s k = 0;
                for (ga_uint j = 0; j < i; ++j)
                    k += keys[j] <= keys[i];
                for (ga_uint j = i + 1; j < n; ++j)
                    k += keys[j] < keys[i];
                to[k] = from[i];
                %(rank_index)s
            }
            continue;
        }
        ga_size place[%(passes)d][256], odd[%(passes)d][256];
        %(T)s special = 0;
        for (ga_uint p = 0; p < %(passes)d; ++p)
            for (ga_uint d = 0; d < 256; ++d)
                place[p][d] = odd[p][d] = 0;
        for (ga_size i = 0; i < n; ++i)
            special |= tng_key_%(dtype)s(from[i]) ^ tng_fast_key_%(dtype)s(from[i]);
        if (special) {
            %(count_exact)s
        } else {
            %(count_fast)s
        }
        ga_uint todo[%(passes)d], left = 0;
        for (ga_uint p = 0; p < %(passes)d; ++p) {
            ga_size sum = 0;
            ga_uint differ = 1;
            for (ga_uint d = 0; d < 256; ++d) {
                const ga_size here = place[p][d] + odd[p][d];
                differ = here == n ? 0 : differ;
                place[p][d] = sum;
                sum += here;
            }
            if (differ)
                todo[left++] = p;
        }
        if (left == 0)
            for (ga_size i = 0; i < n; ++i) {
                to[i] = from[i];
                %(copy_index)s
            }
        for (ga_uint t = 0; t < left; ++t) {
            const ga_uint shift = todo[t] * 8;
            ga_size *at = place[todo[t]];
            const int last = (left - t) & 1;
            to = (last ? z : w) + first;
            %(begin_pass)s
            if (special) {
                %(move_exact)s
            } else if (t == 0) {
                %(move_fast)s
            } else {
                %(move_keys)s
            }
            from = to;
        }
        if (!special && left > 0)
            for (ga_size i = 0; i < n; ++i) {
                const %(T)s key = to[i] ^ flip;
                to[i] = %(element)s;
            }
    }
}
"""

# Count all digits of the keys, which the function `key` returns.
_COUNT_BY_THREADS = """
            for (ga_size i = 0; i + 1 < n; i += 2) {
                const %(T)s b = %(key)s(from[i]) ^ flip, c = %(key)s(from[i + 1]) ^ flip;
                for (ga_uint p = 0; p < %(passes)d; ++p) {
                    ++place[p][(ga_uint)(b >> 8 * p) & 255];
                    ++odd[p][(ga_uint)(c >> 8 * p) & 255];
                }
            }
            if (n & 1) {
                const %(T)s b = %(key)s(from[n - 1]) ^ flip;
                for (ga_uint p = 0; p < %(passes)d; ++p)
                    ++place[p][(ga_uint)(b >> 8 * p) & 255];
            }"""

# Move the elements of a line, or their keys, by a digit of the keys.
_MOVE_BY_THREADS = """
                for (ga_size i = 0; i < n; ++i) {
                    const %(T)s b = from[i], key = %(key)s;
                    const ga_size k = at[(ga_uint)(key >> shift) & 255]++;
                    to[k] = %(moved)s;
                    %(move_index)s
                }"""

_THREADS_WITH_INDICES = dict(
    rank_index="zi[first + k] = made ? (ga_long)i : xi[first + i];",
    copy_index="zi[first + i] = made ? (ga_long)i : xi[first + i];",
    begin_pass="GLOBAL_MEM ga_long *to_index = (last ? zi : wi) + first;"
    " GLOBAL_MEM const ga_long *from_index = t == 0 ? xi + first : (last ? wi : zi) + first;"
    " const ga_uint fresh = made && t == 0;",
    move_index="to_index[k] = fresh ? (ga_long)i : from_index[i];",
)
_THREADS_WITHOUT_INDICES = dict.fromkeys(_THREADS_WITH_INDICES, "")

# The parameters of kernels that select: k elements of each line, and their indices, in the order of the input.
_SELECT_PARAMETERS = """(ga_size n, ga_size lines, ga_size k, ga_ulong order, GLOBAL_MEM const %(T)s *x, ga_size x_at,
    GLOBAL_MEM %(T)s *z, ga_size z_at, GLOBAL_MEM ga_long *zi, ga_size zi_at)"""
_SELECT_TYPES = (SIZE, SIZE, SIZE, "uint64", "*", SIZE, "*", SIZE, "*", SIZE)
_BEGIN_SELECT = """
{
    const %(T)s flip = (%(T)s)order;
    x = (GLOBAL_MEM const %(T)s *)((GLOBAL_MEM const char *)x + x_at);
    z = (GLOBAL_MEM %(T)s *)((GLOBAL_MEM char *)z + z_at);
    zi = (GLOBAL_MEM ga_long *)((GLOBAL_MEM char *)zi + zi_at);
"""

# A thread selects the k best elements of a line. If k is small, it keeps the best keys so far in sorted order, and skips
# blocks of elements that are not better. If not, it looks for the k-th best key; `mask` are the digits that are known.
# Once all elements with these digits are selected, the other digits do not matter.
_SELECT_BY_THREADS = (
    "KERNEL void KERNEL_NAME"
    + _SELECT_PARAMETERS
    + _BEGIN_SELECT
    + """
    for (ga_size line = GID_0; line < lines; line += GDIM_0) {
        GLOBAL_MEM const %(T)s *from = x + line * n;
        GLOBAL_MEM %(T)s *to = z + line * k;
        GLOBAL_MEM ga_long *places = zi + line * k;
        %(T)s limit = 0, mask = 0;
        ga_size equal = k, found = 0;
        if (k <= 16) {
            %(T)s best[16];
            ga_size place[16];
            ga_uint kept = 0;
            for (ga_size start = 0; start < n; start += 64) {
                const ga_uint block = n - start < 64 ? (ga_uint)(n - start) : 64;
                if (kept == k && block == 64) {
                    %(T)s any = 0;
                    for (ga_uint i = 0; i < 64; ++i)
                        any |= (%(T)s)(tng_key_%(dtype)s(from[start + i]) ^ flip) < limit;
                    if (!any)
                        continue;
                }
                for (ga_uint i = 0; i < block; ++i) {
                    const %(T)s key = tng_key_%(dtype)s(from[start + i]) ^ flip;
                    if (kept == k && key >= limit)
                        continue;
                    ga_uint j = kept < k ? kept++ : kept - 1;
                    for (; j > 0 && best[j - 1] > key; --j) {
                        best[j] = best[j - 1];
                        place[j] = place[j - 1];
                    }
                    best[j] = key;
                    place[j] = start + i;
                    limit = best[kept - 1];
                }
            }
            for (ga_uint i = 0; i < kept; ++i) {
                ga_uint j = 0;
                for (ga_uint l = 0; l < kept; ++l)
                    j += place[l] < place[i];
                to[j] = from[place[i]];
                places[j] = (ga_long)place[i];
            }
            continue;
        }
        for (int shift = %(bits)d - 8; shift >= 0; shift -= 8) {
            ga_size counts[256];
            ga_uint d = 0;
            for (ga_uint c = 0; c < 256; ++c)
                counts[c] = 0;
            for (ga_size i = 0; i < n; ++i) {
                const %(T)s key = tng_key_%(dtype)s(from[i]) ^ flip;
                if ((key & mask) == limit)
                    ++counts[(ga_uint)(key >> shift) & 255];
            }
            while (equal > counts[d])
                equal -= counts[d++];
            limit |= (%(T)s)((%(T)s)d << shift);
            mask |= (%(T)s)((%(T)s)255 << shift);
            if (counts[d] == equal)
                break;
        }
        for (ga_size i = 0; found < k; ++i) {
            const %(T)s b = from[i], key = (tng_key_%(dtype)s(b) ^ flip) & mask;
            const ga_uint tie = key == limit && equal > 0;
            to[found] = b;
            places[found] = (ga_long)i;
            found += key < limit || tie;
            equal -= tie;
        }
    }
}
"""
)

# ---------------------------------------------------------------------------------------------------------------- GPUs

# The place of a counter in local memory. The counters of a thread and those of a digit are in different banks.
_PADDED = "#define TNG_PADDED(i) ((i) + ((i) >> 5))\n"

# Return the sum of `value` over this thread and the threads before it. `sums` has an element for each thread.
_RUNNING_SUM = """
WITHIN_KERNEL ga_uint tng_running_sum(LOCAL_MEM_ARG ga_uint *sums, ga_uint value)
{
    sums[LID_0] = value;
    local_barrier();
    for (ga_uint step = 1; step < LDIM_0; step *= 2) {
        const ga_uint before = LID_0 >= step ? sums[LID_0 - step] : 0;
        local_barrier();
        sums[LID_0] += before;
        local_barrier();
    }
    return sums[LID_0];
}
"""

# Count each digit in the elements from `begin` to `end` whose keys have the bits `wanted` in `mask`. counters[d][thread]
# is the count of a thread, totals[d] the count of the group.
_COUNT_DIGITS = """
WITHIN_KERNEL void tng_count_%(dtype)s(GLOBAL_MEM const %(T)s *x, ga_size begin, ga_size end, %(T)s flip, %(T)s mask, %(T)s wanted, ga_uint shift,
    LOCAL_MEM_ARG ga_uint *counters, LOCAL_MEM_ARG ga_size *totals)
{
    for (ga_uint d = 0; d < %(digits)d; ++d)
        counters[TNG_PADDED(d * LDIM_0 + LID_0)] = 0;
    for (ga_size i = begin + LID_0; i < end; i += LDIM_0) {
        const %(T)s key = tng_key_%(dtype)s(x[i]) ^ flip;
        if ((key & mask) == wanted)
            ++counters[TNG_PADDED(((ga_uint)(key >> shift) & (%(digits)d - 1)) * LDIM_0 + LID_0)];
    }
    local_barrier();
    for (ga_uint d = LID_0; d < %(digits)d; d += LDIM_0) {
        ga_size sum = 0;
        for (ga_uint t = 0; t < LDIM_0; ++t)
            sum += counters[TNG_PADDED(d * LDIM_0 + t)];
        totals[d] = sum;
    }
    local_barrier();
}
"""

# Move the elements from `begin` to `end`, at most `each` for each thread, in the stable order of a digit. place[d] is
# the position of the next element with digit d. If `whole`, the elements are the line from position 0 on.
_MOVE = """
WITHIN_KERNEL void tng_move_%(dtype)s%(indices)s(GLOBAL_MEM const %(T)s *x, GLOBAL_MEM %(T)s *z%(index_parameters)s, ga_size begin, ga_size end, %(T)s flip, ga_uint shift,
    LOCAL_MEM_ARG ga_uint *counters, LOCAL_MEM_ARG ga_uint *sums, LOCAL_MEM_ARG %(T)s *staged%(staged_parameter)s, LOCAL_MEM_ARG ga_uint *starts,
    LOCAL_MEM_ARG ga_size *place, ga_uint whole)
{
    const ga_uint count = (ga_uint)(end - begin), first = LID_0 * %(each)d;
    const ga_uint mine = first >= count ? 0 : count - first < %(each)d ? count - first : %(each)d;
    %(T)s own[%(each)d];
    for (ga_uint d = 0; d < %(digits)d; ++d)
        counters[TNG_PADDED(d * LDIM_0 + LID_0)] = 0;
    for (ga_uint e = 0; e < %(each)d; ++e) {
        if (e >= mine)
            break;
        own[e] = x[begin + first + e];
        ++counters[TNG_PADDED(((ga_uint)((%(T)s)(tng_key_%(dtype)s(own[e]) ^ flip) >> shift) & (%(digits)d - 1)) * LDIM_0 + LID_0)];
    }
    local_barrier();
    ga_uint sum = 0;
    for (ga_uint c = 0; c < %(digits)d; ++c)
        sum += counters[TNG_PADDED(LID_0 * %(digits)d + c)];
    ga_uint before = tng_running_sum(sums, sum) - sum;
    for (ga_uint c = 0; c < %(digits)d; ++c) {
        const ga_uint here = counters[TNG_PADDED(LID_0 * %(digits)d + c)];
        counters[TNG_PADDED(LID_0 * %(digits)d + c)] = before;
        before += here;
    }
    local_barrier();
    for (ga_uint d = LID_0; d <= %(digits)d; d += LDIM_0)
        starts[d] = d < %(digits)d ? counters[TNG_PADDED(d * LDIM_0)] : count;
    local_barrier();
    for (ga_uint e = 0; e < %(each)d; ++e) {
        if (e >= mine)
            break;
        const ga_uint d = (ga_uint)((%(T)s)(tng_key_%(dtype)s(own[e]) ^ flip) >> shift) & (%(digits)d - 1);
        const ga_uint at = counters[TNG_PADDED(d * LDIM_0 + LID_0)]++;
        staged[at] = own[e];
        %(stage_index)s
    }
    local_barrier();
    for (ga_uint e = LID_0; e < count; e += LDIM_0) {
        const ga_uint d = (ga_uint)((%(T)s)(tng_key_%(dtype)s(staged[e]) ^ flip) >> shift) & (%(digits)d - 1);
        const ga_size at = whole ? e : place[d] + (e - starts[d]);
        z[at] = staged[e];
        %(store_index)s
    }
    local_barrier();
    for (ga_uint d = LID_0; d < %(digits)d; d += LDIM_0)
        place[d] += starts[d + 1] - starts[d];
    local_barrier();
}
"""

_MOVE_WITH_INDICES = dict(
    index_parameters=", GLOBAL_MEM const ga_long *xi, GLOBAL_MEM ga_long *zi",
    staged_parameter=", LOCAL_MEM_ARG ga_long *staged_index",
    stage_index="staged_index[at] = xi[begin + first + e];",
    store_index="zi[at] = staged_index[e];",
)
_MOVE_WITHOUT_INDICES = dict.fromkeys(_MOVE_WITH_INDICES, "")

# The local memory of kernels that move elements
_MOVE_MEMORY = """
    LOCAL_MEM ga_uint counters[TNG_PADDED(%(digits)d * %(group)d)];
    LOCAL_MEM ga_uint sums[%(group)d];
    LOCAL_MEM %(T)s staged[%(each)d * %(group)d];
    LOCAL_MEM ga_uint starts[%(digits)d + 1];
    LOCAL_MEM ga_size place[%(digits)d];
    %(staged_index)s
"""

_SORT_BY_GROUPS = """
KERNEL void KERNEL_NAME%(parameters)s)
%(begin)s
    %(memory)s
    const ga_size tile = LDIM_0 * %(each)d;
    const ga_uint whole = n <= tile;
    for (ga_size line = GID_0; line < lines; line += GDIM_0) {
        const ga_size first = line * n;
        %(make_indices)s
        for (ga_uint p = 0; p < %(bits)d / %(digit)d; ++p) {
            GLOBAL_MEM const %(T)s *from = p == 0 ? x + first : (p & 1 ? w : z) + first;
            GLOBAL_MEM %(T)s *to = (p & 1 ? z : w) + first;
            %(pass_indices)s
            if (!whole) {
                tng_count_%(dtype)s(from, 0, n, flip, 0, 0, p * %(digit)d, counters, place);
                if (LID_0 == 0) {
                    ga_size sum = 0;
                    for (ga_uint d = 0; d < %(digits)d; ++d) {
                        const ga_size here = place[d];
                        place[d] = sum;
                        sum += here;
                    }
                }
                local_barrier();
            }
            for (ga_size begin = 0; begin < n; begin += tile)
                tng_move_%(dtype)s%(indices)s(from, to%(index_arguments)s, begin, begin + tile < n ? begin + tile : n, flip,
                    p * %(digit)d, counters, sums, staged%(staged_argument)s, starts, place, whole);
        }
    }
}
"""

_GROUPS_WITH_INDICES = dict(
    staged_index="LOCAL_MEM ga_long staged_index[%d * %d];",
    make_indices="for (ga_size i = LID_0; i < n && made; i += LDIM_0) zi[first + i] = (ga_long)i; local_barrier();",
    pass_indices="GLOBAL_MEM const ga_long *from_index = (p == 0 && !made ? xi : (p & 1 ? wi : zi)) + first;"
    " GLOBAL_MEM ga_long *to_index = (p & 1 ? zi : wi) + first;",
    index_arguments=", from_index, to_index",
    staged_argument=", staged_index",
)
_GROUPS_WITHOUT_INDICES = dict.fromkeys(_GROUPS_WITH_INDICES, "")

# A line is divided into `shares` pieces. A group processes a piece. counts[line][digit][piece] is the count of a digit
# in a piece; after the counts were added, it is the position of the first element with this digit.
_PIECES = """
    for (ga_size g = GID_0; g < lines * shares; g += GDIM_0) {
        ga_size line = g;
        const ga_size share = ga_split(&line, shares), begin = share * piece < n ? share * piece : n;
        const ga_size end = begin + piece < n ? begin + piece : n;
"""

_SHARE_PARAMETERS = ", ga_size piece, ga_size shares, GLOBAL_MEM ga_size *counts"
_SHARE_TYPES = (SIZE, SIZE, "*")

# Count a digit. If `known` is not 0, count only the keys whose bits in `known` are those of states[line][0].
_COUNT_PIECES = (
    """
KERNEL void KERNEL_NAME(ga_size n, ga_size lines, ga_ulong order, GLOBAL_MEM const %(T)s *x, ga_size x_at, ga_uint shift, ga_ulong known, GLOBAL_MEM const ga_ulong *states"""
    + _SHARE_PARAMETERS
    + """)
{
    LOCAL_MEM ga_uint counters[TNG_PADDED(%(digits)d * %(group)d)];
    LOCAL_MEM ga_size totals[%(digits)d];
    x = (GLOBAL_MEM const %(T)s *)((GLOBAL_MEM const char *)x + x_at);"""
    + _PIECES
    + """
        const %(T)s wanted = known == 0 ? 0 : (%(T)s)states[2 * line];
        tng_count_%(dtype)s(x + line * n, begin, end, (%(T)s)order, (%(T)s)known, wanted, shift, counters, totals);
        for (ga_uint d = LID_0; d < %(digits)d; d += LDIM_0)
            counts[(line * %(digits)d + d) * shares + share] = totals[d];
        local_barrier();
    }
}
"""
)

# Store the positions in the line.
_POSITIONS = """
KERNEL void KERNEL_NAME(ga_size n, ga_size lines, GLOBAL_MEM ga_long *zi, ga_size zi_at)
{
    zi = (GLOBAL_MEM ga_long *)((GLOBAL_MEM char *)zi + zi_at);
    for (ga_size i = (ga_size)GID_0 * LDIM_0 + LID_0; i < n * lines; i += (ga_size)LDIM_0 * GDIM_0) {
        ga_size line = i;
        zi[i] = (ga_long)ga_split(&line, n);
    }
}
"""

# Replace each element of `rows` rows of `length` counts by the sum of the elements before it.
_ADD_COUNTS = """
KERNEL void KERNEL_NAME(ga_size rows, ga_size length, GLOBAL_MEM ga_size *counts)
{
    LOCAL_MEM ga_size sums[%(group)d];
    const ga_size piece = (length + LDIM_0 - 1) / LDIM_0, first = LID_0 * piece < length ? LID_0 * piece : length;
    const ga_size end = first + piece < length ? first + piece : length;
    for (ga_size row = GID_0; row < rows; row += GDIM_0) {
        GLOBAL_MEM ga_size *c = counts + row * length;
        ga_size sum = 0;
        for (ga_size i = first; i < end; ++i)
            sum += c[i];
        sums[LID_0] = sum;
        local_barrier();
        for (ga_uint step = 1; step < LDIM_0; step *= 2) {
            const ga_size before = LID_0 >= step ? sums[LID_0 - step] : 0;
            local_barrier();
            sums[LID_0] += before;
            local_barrier();
        }
        sum = sums[LID_0] - sum;
        for (ga_size i = first; i < end; ++i) {
            const ga_size here = c[i];
            c[i] = sum;
            sum += here;
        }
        local_barrier();
    }
}
"""

_MOVE_PIECES = (
    """
KERNEL void KERNEL_NAME%(parameters)s, ga_uint shift"""
    + _SHARE_PARAMETERS
    + """)
%(begin)s
    %(memory)s
    const ga_size tile = LDIM_0 * %(each)d;"""
    + _PIECES
    + """
        const ga_size first = line * n;
        for (ga_uint d = LID_0; d < %(digits)d; d += LDIM_0)
            place[d] = counts[(line * %(digits)d + d) * shares + share];
        local_barrier();
        for (ga_size at = begin; at < end; at += tile)
            tng_move_%(dtype)s%(indices)s(x + first, z + first%(index_arguments)s, at, at + tile < end ? at + tile : end, flip, shift,
                counters, sums, staged%(staged_argument)s, starts, place, 0);
    }
}
"""
)

# states[line]: the known digits of the k-th best key, and the number of elements to select with these digits. Choose the
# next digit from the counts.
_CHOOSE_DIGIT = """
KERNEL void KERNEL_NAME(ga_size lines, ga_size k, ga_uint shift, ga_uint is_first, ga_size shares, GLOBAL_MEM const ga_size *counts, GLOBAL_MEM ga_ulong *states)
{
    LOCAL_MEM ga_size totals[%(digits)d];
    for (ga_size line = GID_0; line < lines; line += GDIM_0) {
        for (ga_uint d = LID_0; d < %(digits)d; d += LDIM_0) {
            ga_size sum = 0;
            for (ga_size share = 0; share < shares; ++share)
                sum += counts[(line * %(digits)d + d) * shares + share];
            totals[d] = sum;
        }
        local_barrier();
        if (LID_0 == 0) {
            ga_ulong limit = is_first ? 0 : states[2 * line];
            ga_size left = is_first ? k : states[2 * line + 1];
            ga_uint d = 0;
            while (left > totals[d])
                left -= totals[d++];
            states[2 * line] = limit | (ga_ulong)d << shift;
            states[2 * line + 1] = left;
        }
        local_barrier();
    }
}
"""

# Count the elements from `begin` to `end` whose keys are below a limit, and those whose keys equal the limit.
_COUNT_BEST = """
WITHIN_KERNEL void tng_count_best_%(dtype)s(GLOBAL_MEM const %(T)s *x, ga_size begin, ga_size end, %(T)s flip, %(T)s limit, LOCAL_MEM_ARG ga_uint *counters,
    GLOBAL_MEM ga_size *below, GLOBAL_MEM ga_size *same)
{
    ga_uint lower = 0, equal = 0;
    for (ga_size i = begin + LID_0; i < end; i += LDIM_0) {
        const %(T)s key = tng_key_%(dtype)s(x[i]) ^ flip;
        lower += key < limit;
        equal += key == limit;
    }
    counters[LID_0] = lower;
    counters[LDIM_0 + LID_0] = equal;
    local_barrier();
    if (LID_0 == 0) {
        ga_size sum = 0, equal_sum = 0;
        for (ga_uint t = 0; t < LDIM_0; ++t) {
            sum += counters[t];
            equal_sum += counters[LDIM_0 + t];
        }
        *below = sum;
        *same = equal_sum;
    }
    local_barrier();
}
"""

# Copy the selected elements from `begin` to `end`: those with keys below the limit, and the first `equal` elements of
# the line with this key. before[0] and before[1]: the numbers of such elements of the line in front of `begin`.
_COPY_BEST = """
WITHIN_KERNEL void tng_copy_best_%(dtype)s(GLOBAL_MEM const %(T)s *x, ga_size begin, ga_size end, %(T)s flip, %(T)s limit, ga_size equal,
    GLOBAL_MEM %(T)s *z, GLOBAL_MEM ga_long *zi, LOCAL_MEM_ARG ga_uint *sums, LOCAL_MEM_ARG ga_size *before)
{
    for (ga_size tile = begin; tile < end; tile += LDIM_0 * 4) {
        const ga_size first = tile + LID_0 * 4;
        const ga_uint mine = first >= end ? 0 : end - first < 4 ? (ga_uint)(end - first) : 4;
        %(T)s own[4];
        ga_uint counts = 0; /* the lower half counts keys below the limit, the upper half keys equal to it */
        for (ga_uint e = 0; e < 4; ++e) {
            if (e >= mine)
                break;
            own[e] = x[first + e];
            const %(T)s key = tng_key_%(dtype)s(own[e]) ^ flip;
            counts += key < limit ? 1u : key == limit ? 65536u : 0u;
        }
        const ga_uint until = tng_running_sum(sums, counts);
        ga_size lower = before[0] + ((until - counts) & 65535u), same = before[1] + ((until - counts) >> 16);
        for (ga_uint e = 0; e < 4; ++e) {
            if (e >= mine)
                break;
            const %(T)s key = tng_key_%(dtype)s(own[e]) ^ flip;
            if (key < limit || (key == limit && same < equal)) {
                const ga_size at = lower + (same < equal ? same : equal);
                z[at] = own[e];
                zi[at] = (ga_long)(first + e);
            }
            lower += key < limit;
            same += key == limit;
        }
        local_barrier();
        if (LID_0 == LDIM_0 - 1) {
            before[0] += until & 65535u;
            before[1] += until >> 16;
        }
        local_barrier();
    }
}
"""

_SELECT_BY_GROUPS = (
    "KERNEL void KERNEL_NAME"
    + _SELECT_PARAMETERS
    + _BEGIN_SELECT
    + """
    LOCAL_MEM ga_uint counters[TNG_PADDED(%(digits)d * %(group)d)];
    LOCAL_MEM ga_size totals[%(digits)d];
    LOCAL_MEM ga_size state[2];
    for (ga_size line = GID_0; line < lines; line += GDIM_0) {
        %(T)s limit = 0, mask = 0;
        ga_size equal = k;
        for (int shift = %(bits)d - %(digit)d; shift >= 0; shift -= %(digit)d) {
            tng_count_%(dtype)s(x + line * n, 0, n, flip, mask, limit, (ga_uint)shift, counters, totals);
            ga_uint d = 0;
            while (equal > totals[d])
                equal -= totals[d++];
            limit |= (%(T)s)((%(T)s)d << shift);
            mask |= (%(T)s)((%(T)s)(%(digits)d - 1) << shift);
            local_barrier();
        }
        if (LID_0 < 2)
            state[LID_0] = 0;
        if (LDIM_0 == 1)
            state[1] = 0;
        local_barrier();
        tng_copy_best_%(dtype)s(x + line * n, 0, n, flip, limit, equal, z + line * k, zi + line * k, counters, state);
    }
}
"""
)

# counts[line][0][piece] and counts[line][1][piece]: numbers of elements below and equal to the limit.
_COUNT_BEST_PIECES = (
    """
KERNEL void KERNEL_NAME(ga_size n, ga_size lines, ga_ulong order, GLOBAL_MEM const %(T)s *x, ga_size x_at, GLOBAL_MEM const ga_ulong *states"""
    + _SHARE_PARAMETERS
    + """)
{
    LOCAL_MEM ga_uint counters[2 * %(group)d];
    x = (GLOBAL_MEM const %(T)s *)((GLOBAL_MEM const char *)x + x_at);"""
    + _PIECES
    + """
        GLOBAL_MEM ga_size *c = counts + 2 * line * shares + share;
        tng_count_best_%(dtype)s(x + line * n, begin, end, (%(T)s)order, (%(T)s)states[2 * line], counters, c, c + shares);
    }
}
"""
)

_COPY_BEST_PIECES = (
    "KERNEL void KERNEL_NAME"
    + _SELECT_PARAMETERS[:-1]
    + ", GLOBAL_MEM const ga_ulong *states"
    + _SHARE_PARAMETERS
    + ")"
    + _BEGIN_SELECT
    + """
    LOCAL_MEM ga_uint sums[%(group)d];
    LOCAL_MEM ga_size before[2];"""
    + _PIECES
    + """
        if (LID_0 == 0) {
            before[0] = counts[2 * line * shares + share];
            before[1] = counts[(2 * line + 1) * shares + share];
        }
        local_barrier();
        tng_copy_best_%(dtype)s(x + line * n, begin, end, flip, (%(T)s)states[2 * line], states[2 * line + 1], z + line * k, zi + line * k, sums, before);
    }
}
"""
)


def _sort_words(dtype, indexed, **more):
    """Return the words of a kernel that sorts."""
    words = _words(dtype, indexed, **more)
    words["parameters"] = _SORT_PARAMETERS % words + (_SORT_INDICES if indexed else "")
    words["begin"] = _BEGIN_SORT % words + (_BEGIN_INDICES if indexed else "")
    return words


def sort_by_threads(dtype, indexed, context):
    """Return the kernel for processors that sorts lines. A thread sorts a line.

    Parameters
    ----------
    dtype : str
        One of `DTYPES`.
    indexed : bool
        Whether an index moves with each element.
    context : GpuContext or None
    """
    words = _sort_words(dtype, indexed, passes=np.dtype(dtype).itemsize, few=_FEW)
    words.update(_THREADS_WITH_INDICES if indexed else _THREADS_WITHOUT_INDICES)
    exact, fast = ["tng_%skey_%s" % (prefix, dtype) for prefix in ("", "fast_")]
    for name, key in (("exact", exact), ("fast", fast)):
        words["count_" + name] = _COUNT_BY_THREADS % {**words, "key": key}
    for name, key, moved in (
        ("exact", exact + "(b) ^ flip", "b"),
        ("fast", fast + "(b) ^ flip", "key"),
        ("keys", "b", "b"),
    ):
        words["move_" + name] = _MOVE_BY_THREADS % {**words, "key": key, "moved": moved}
    words["element"] = "tng_key_%s(key)" % dtype
    if dtype.startswith("float"):
        words["element"] = "key >> %(last)d ? key ^ (%(T)s)1 << %(last)d : ~key" % words
    types = _SORT_TYPES + (_SORT_INDEX_TYPES if indexed else ())
    support = (_key(dtype), _fast_key(dtype))
    return DeviceKernel(_SORT_BY_THREADS % words, types, context, flags_of(dtype), support)


def select_by_threads(dtype, context):
    """Return the kernel for processors that selects the k best elements of lines. A thread processes a line."""
    return DeviceKernel(_SELECT_BY_THREADS % _words(dtype), _SELECT_TYPES, context, flags_of(dtype), (_key(dtype),))


def sort_by_groups(dtype, indexed, context):
    """Return the kernels for GPUs that sort lines.

    Parameters
    ----------
    dtype, indexed, context
        See `sort_by_threads`.

    Returns
    -------
    list of DeviceKernel
        The kernel by which a group sorts a line; and for lines that several groups share, the kernels that count a
        digit, add counts, move elements by a digit, and make indices.
    """
    words = _sort_words(dtype, indexed)
    words.update(_GROUPS_WITH_INDICES if indexed else _GROUPS_WITHOUT_INDICES)
    words["staged_index"] = words["staged_index"] and words["staged_index"] % (words["each"], GROUP)
    words["memory"] = _MOVE_MEMORY % words
    move = _MOVE % {**words, **(_MOVE_WITH_INDICES if indexed else _MOVE_WITHOUT_INDICES)}
    count = _COUNT_DIGITS % words
    support, flags = (_key(dtype), _PADDED, _RUNNING_SUM, count, move), flags_of(dtype)
    types = _SORT_TYPES + (_SORT_INDEX_TYPES if indexed else ())
    return [
        DeviceKernel(_SORT_BY_GROUPS % words, types, context, flags, support),
        _count_pieces(dtype, context),
        DeviceKernel(_ADD_COUNTS % words, (SIZE, SIZE, "*"), context),
        DeviceKernel(
            _MOVE_PIECES % {**words, "index_arguments": ", xi + first, zi + first" if indexed else ""},
            (*types, "uint32", *_SHARE_TYPES),
            context,
            flags,
            tuple([text for text in support if text != count]),
        ),
        DeviceKernel(_POSITIONS, (SIZE, SIZE, "*", SIZE), context),
    ]


def _count_pieces(dtype, context):
    words = _words(dtype)
    types = (SIZE, SIZE, "uint64", "*", SIZE, "uint32", "uint64", "*", *_SHARE_TYPES)
    support = (_key(dtype), _PADDED, _COUNT_DIGITS % words)
    return DeviceKernel(_COUNT_PIECES % words, types, context, flags_of(dtype), support)


def select_by_groups(dtype, context):
    """Return the kernels for GPUs that select the k best elements of lines, in the order of the input.

    Returns
    -------
    list of DeviceKernel
        The kernel by which a group processes a line; and for lines that several groups share, the kernels that count a
        digit, choose a digit of the k-th best key, count elements, add counts, and copy elements.
    """
    words, flags = _words(dtype), flags_of(dtype)
    key, copy = _key(dtype), _COPY_BEST % words
    count = (SIZE, SIZE, "uint64", "*", SIZE, "*", *_SHARE_TYPES)
    return [
        DeviceKernel(
            _SELECT_BY_GROUPS % words,
            _SELECT_TYPES,
            context,
            flags,
            (key, _PADDED, _RUNNING_SUM, _COUNT_DIGITS % words, copy),
        ),
        _count_pieces(dtype, context),
        DeviceKernel(_CHOOSE_DIGIT % words, (SIZE, SIZE, "uint32", "uint32", SIZE, "*", "*"), context),
        DeviceKernel(_COUNT_BEST_PIECES % words, count, context, flags, (key, _COUNT_BEST % words)),
        DeviceKernel(_ADD_COUNTS % words, (SIZE, SIZE, "*"), context),
        DeviceKernel(
            _COPY_BEST_PIECES % words, (*_SELECT_TYPES, "*", *_SHARE_TYPES), context, flags, (key, _RUNNING_SUM, copy)
        ),
    ]


def kernel_samples():
    """Return samples of the kernel source code, which tests compile; see `kernels.samples`."""
    samples = []
    for dtype in ("float16", "float32", "float64", "bool", "int16", "uint32", "int64"):
        made = [*sort_by_groups(dtype, False, None), *sort_by_groups(dtype, True, None), *select_by_groups(dtype, None)]
        samples.append(sample("sort, %s" % dtype, made))
    return samples
