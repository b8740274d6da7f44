"""Kernels of reductions."""

import functools

import numpy as np

from theano_ng import scalar
from theano_ng.gpuarray.fp16_help import work_dtype
from theano_ng.gpuarray.kernels.device_kernel import DeviceKernel, flags_of, sample
from theano_ng.gpuarray.kernels.scalar_code import PROLOGUE, element_type, load, scalar_code, store, work_type
from theano_ng.gpuarray.kernels.snippets import Pack
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.loops.program import Fold, fold_program
from theano_ng.loops.source import scalar_apply
from theano_ng.scalar.op import c_cast
from theano_ng.scalar.types import c_literal

# The maximum number of threads in a group. native/reduce.c defines the same value.
GROUP = 256
# For CPUs. _LANES: the number of lanes in which a thread accumulates adjacent elements separately. _BLOCK: the number
# of adjacent outputs that a thread computes at a time.
_LANES, _BLOCK = 32, 128

# Idempotent ops: ``op(a, a)`` is ``a``.
_IDEMPOTENT = ("Maximum", "MaximumFromNothing", "Minimum", "AND", "OR")


def reduce_kernels(program, kept_rank, reduced_rank, context):
    """Return the two kernels of a reduction.

    Parameters
    ----------
    program : LoopProgram
        See `reduce_text`.
    kept_rank, reduced_rank : int
        Numbers of axes that are kept and that are reduced, both at least 1.
    context : GpuContext

    Returns
    -------
    list of DeviceKernel
        The first kernel reduces the elements to the outputs, or to several partial results for each output. The second
        kernel reduces the partial results.
    """
    fold, (output,) = program.fold, program.outputs
    parts = fold_program(fold, work_dtype(fold.dtype), out=output.dtype)
    texts = [(program, reduce_text(program, kept_rank, reduced_rank)), (parts, reduce_text(parts, 1, 1))]
    return [
        DeviceKernel(text.source, text.types, context, text.flags, text.support, program=given) for given, text in texts
    ]


class _KernelSource:
    def __init__(self, source, types, flags, support):
        self.source, self.types, self.flags, self.support = source, types, flags, support


_TEXT = """
KERNEL void GA_ROOM_FOR(%(groups)d, %(group)d) KERNEL_NAME(ga_size tng_outputs, ga_size tng_length, ga_size tng_piece, ga_uint tng_by_column%(lengths)s,
                        GLOBAL_MEM const %(X)s *tng_x, ga_size tng_xo%(strides)s, GLOBAL_MEM %(Z)s *tng_z, ga_size tng_zo, GLOBAL_MEM %(P)s *tng_parts)
{
    const ga_size tng_from = (ga_size)GID_1 * tng_piece;
    const ga_size tng_to = tng_from + tng_piece < tng_length ? tng_from + tng_piece : tng_length;
    tng_x = (GLOBAL_MEM const %(X)s *)((GLOBAL_MEM const char *)tng_x + tng_xo);
    tng_z = (GLOBAL_MEM %(Z)s *)((GLOBAL_MEM char *)tng_z + tng_zo);
#ifdef GA_PROCESSOR
    if (tng_by_column) {
        /* Compute a block of neighbouring outputs together. */
        const ga_size tng_inner = %(kept_inner)s, tng_blocks = (tng_inner + %(block)d - 1) / %(block)d;
        const ga_size tng_all = tng_outputs / tng_inner * tng_blocks;
        for (ga_size tng_b = GID_0; tng_b < tng_all; tng_b += GDIM_0) {
            %(A)s tng_lanes[%(block)d];
            const ga_size tng_at = tng_b %% tng_blocks * %(block)d, tng_k = tng_b / tng_blocks * tng_inner + tng_at;
            const ga_uint tng_count = tng_inner - tng_at < %(block)d ? (ga_uint)(tng_inner - tng_at) : %(block)d;
            GLOBAL_MEM const %(X)s *tng_row = tng_x;
            %(find_output)s
            %(empty_lanes)s
            for (ga_size tng_r = tng_from; tng_r < tng_to; ++tng_r) {
                GLOBAL_MEM const %(X)s *tng_q = tng_row;
                %(find_element)s
                if (tng_r == tng_from) {
                    for (ga_uint tng_l = 0; tng_l < tng_count; ++tng_l) {
                        %(load_column)s
                        tng_lanes[tng_l] = tng_value;
                    }
                    continue;
                }
                for (ga_uint tng_l = 0; tng_l < tng_count; ++tng_l) {
                    %(load_column)s
                    %(combine_lane)s
                }
            }
            for (ga_uint tng_l = 0; tng_l < tng_count; ++tng_l) {
                const ga_size tng_output = tng_k + tng_l;
                const %(A)s tng_acc = tng_lanes[tng_l];
                %(store)s
            }
        }
        return;
    }
    for (ga_size tng_k = GID_0; tng_k < tng_outputs; tng_k += GDIM_0) {
        const ga_size tng_output = tng_k;
        GLOBAL_MEM const %(X)s *tng_row = tng_x;
        %(find_output)s
        %(A)s tng_acc%(start)s;
%(along_row)s
        %(store)s
    }
#else
    LOCAL_MEM %(A)s tng_local[%(group)d];
    const ga_uint tng_across = tng_by_column ? LID_0 : LID_1, tng_along = tng_by_column ? LID_1 : LID_0;
    const ga_uint tng_wide = tng_by_column ? LDIM_0 : LDIM_1, tng_many = tng_by_column ? LDIM_1 : LDIM_0;
    const ga_uint tng_slot = LID_1 * LDIM_0 + LID_0, tng_next = tng_by_column ? LDIM_0 : 1;
    const ga_size tng_here = tng_to - tng_from;
    const ga_uint tng_active = %(active)s;
    for (ga_size tng_base = (ga_size)GID_0 * tng_wide; tng_base < tng_outputs; tng_base += (ga_size)GDIM_0 * tng_wide) {
        const ga_size tng_k = tng_base + tng_across, tng_output = tng_k;
        %(A)s tng_acc%(start)s;
        if (tng_k < tng_outputs && tng_along < tng_active) {
            GLOBAL_MEM const %(X)s *tng_row = tng_x;
            %(find_output)s
            ga_size tng_r = tng_from + tng_along;
%(begin)s
            /* Load several elements before the first of them is used. */
            for (; tng_r + (ga_size)%(more)d * tng_many < tng_to; tng_r += (ga_size)%(loads)d * tng_many) {
                %(X)s tng_some[%(loads)d];
                GA_UNROLL
                for (ga_uint tng_l = 0; tng_l < %(loads)d; ++tng_l) {
                    GLOBAL_MEM const %(X)s *tng_q = tng_row;
                    %(find_some)s
                    tng_some[tng_l] = *tng_q;
                }
                GA_UNROLL
                for (ga_uint tng_l = 0; tng_l < %(loads)d; ++tng_l) {
                    %(load_some)s
                    %(combine)s
                }
            }
            for (; tng_r < tng_to; tng_r += tng_many) {
                GLOBAL_MEM const %(X)s *tng_q = tng_row;
                %(find_element)s
                %(load)s
                %(combine)s
            }
        }
        tng_local[tng_slot] = tng_acc;
        /* Tree reduction: combine the upper half of the accumulators with the lower half, until one remains. If they are
         * in one warp, use shuffles, otherwise local memory. */
        ga_uint tng_step = tng_many / 2;
        for (; tng_step * tng_next >= GA_SHUFFLED; tng_step /= 2) {
            local_barrier();
            if (tng_k < tng_outputs && tng_along < tng_step && tng_along + tng_step < tng_active) {
                const %(A)s tng_value = tng_local[tng_slot + tng_step * tng_next];
                %(combine)s
                tng_local[tng_slot] = tng_acc;
            }
        }
        for (; tng_step > 0; tng_step /= 2) {
            const %(A)s tng_value = ga_shuffle_down(tng_acc, tng_step * tng_next);
            if (tng_k < tng_outputs && tng_along < tng_step && tng_along + tng_step < tng_active) {
                %(combine)s
            }
        }
        if (tng_along == 0 && tng_k < tng_outputs) {
            %(store)s
        }
        local_barrier();
    }
#endif
}
"""

# Each lane starts with the identity. For idempotent ops without an identity, it starts with the first element. Neither
# start value changes the result.
_LANES_TEXT = """
        if (tng_to > tng_from) {
            %(A)s tng_lanes[%(lanes)d];
            %(first)s
            for (ga_uint tng_l = 0; tng_l < %(lanes)d; ++tng_l)
                tng_lanes[tng_l] = tng_acc;
            for (ga_size tng_r = tng_from; tng_r < tng_to;) {
                GLOBAL_MEM const %(X)s *tng_run = tng_row;
                %(find_run)s
                ga_size tng_i = 0;
                for (; tng_i + %(lanes)d <= tng_count; tng_i += %(lanes)d) {
                    for (ga_uint tng_l = 0; tng_l < %(lanes)d; ++tng_l) {
                        GLOBAL_MEM const %(X)s *tng_q = tng_run + (ga_ssize)(tng_i + tng_l) * %(stride)s;
                        %(load)s
                        %(combine_lane)s
                    }
                }
                for (; tng_i < tng_count; ++tng_i) {
                    GLOBAL_MEM const %(X)s *tng_q = tng_run + (ga_ssize)tng_i * %(stride)s;
                    %(load)s
                    %(combine)s
                }
                tng_r += tng_count;
            }
            for (ga_uint tng_half = %(lanes)d / 2; tng_half > 0; tng_half /= 2) {
                for (ga_uint tng_l = 0; tng_l < tng_half; ++tng_l) {
                    const %(A)s tng_value = tng_lanes[tng_l + tng_half];
                    %(combine_lane)s
                }
            }
            const %(A)s tng_value = tng_lanes[0];
            %(combine)s
        }"""

# On GPUs, the accumulators of a thread start in the same way. Contiguous elements are loaded as packs (`snippets.Pack`),
# four packs before the first of them is used. The elements before the first and behind the last pack are loaded
# separately.
_PACKS_TEXT = """
            %(first)s
            %(count_packs)s
            ga_size tng_v = tng_along;
            %(A)s tng_lanes[4] = {tng_acc, tng_acc, tng_acc, tng_acc};
            for (; tng_v + (ga_size)3 * tng_many < tng_packs; tng_v += (ga_size)4 * tng_many) {
                union { %(vector)s w[4]; %(X)s e[4 * %(width)d]; } tng_some;
                GA_UNROLL
                for (ga_uint tng_l = 0; tng_l < 4; ++tng_l) {
                    GLOBAL_MEM const %(X)s *tng_q = tng_row;
                    %(find_pack)s
                    tng_some.w[tng_l] = *(GLOBAL_MEM const %(vector)s *)tng_q;
                }
                GA_UNROLL
                for (ga_uint tng_m = 0; tng_m < %(width)d; ++tng_m) {
                    GA_UNROLL
                    for (ga_uint tng_l = 0; tng_l < 4; ++tng_l) {
                        %(load_of_pack)s
                        %(combine_lane)s
                    }
                }
            }
            GA_UNROLL
            for (ga_uint tng_l = 0; tng_l < 4; ++tng_l) {
                const %(A)s tng_value = tng_lanes[tng_l];
                %(combine)s
            }
            for (; tng_v < tng_packs; tng_v += tng_many) {
                union { %(vector)s w[1]; %(X)s e[%(width)d]; } tng_some;
                const ga_uint tng_l = 0;
                GLOBAL_MEM const %(X)s *tng_q = tng_row;
                %(find_pack)s
                tng_some.w[0] = *(GLOBAL_MEM const %(vector)s *)tng_q;
                GA_UNROLL
                for (ga_uint tng_m = 0; tng_m < %(width)d; ++tng_m) {
                    %(load_of_pack)s
                    %(combine)s
                }
            }
            if (tng_packs > 0) {
                for (ga_size tng_s = tng_along; tng_s < tng_here - tng_packs * %(width)d; tng_s += tng_many) {
                    GLOBAL_MEM const %(X)s *tng_q = tng_row + tng_from + (tng_s < tng_head ? tng_s : tng_s + tng_packs * %(width)d);
                    %(load)s
                    %(combine)s
                }
                tng_r = tng_to;
            }"""

# The accumulator of a thread starts with its first element.
_FIRST_OF_THREAD = """
            {
                GLOBAL_MEM const %(X)s *tng_q = tng_row;
                %(find_element)s
                %(load)s
                tng_acc = tng_value;
                tng_r += tng_many;
            }"""

_ONE_BY_ONE = """
        for (ga_size tng_r = tng_from; tng_r < tng_to; ++tng_r) {
            GLOBAL_MEM const %(X)s *tng_q = tng_row;
            %(find_element)s
            %(load)s
            if (tng_r == tng_from)
                tng_acc = tng_value;
            else {
                %(combine)s
            }
        }"""


@functools.lru_cache(maxsize=1024)
def reduce_text(program, kept_rank, reduced_rank):
    """Return the source code, argument types, flags and support code of a kernel.

    Parameters
    ----------
    program : LoopProgram
        A program with one input and a fold; see `fold_program`. The op of the fold is binary, commutative and
        associative.
    kept_rank, reduced_rank : int
        Numbers of axes that are kept and that are reduced, both at least 1.

    Raises
    ------
    SupportCodeError
        If devices cannot compute an op of the program.
    """
    (operand,), (output,), (scalar_op, acc_dtype, _) = program.inputs, program.outputs, program.fold
    in_dtype, out_dtype, pre = operand.dtype, output.dtype, None
    acc = work_dtype(acc_dtype)
    combined = scalar_code(scalar_op, scalar_apply(scalar_op, (acc, acc), (acc,)), ["tng_a", "tng_b"], ["tng_c"])
    support, doubles = [PROLOGUE, *combined.support], combined.doubles
    identity = getattr(scalar_op, "identity", None)
    A = work_type(acc)

    def combine(place):
        return "{ const %s tng_a = %s, tng_b = tng_value; %s tng_c;\n%s\n%s = tng_c; }" % (
            A,
            place,
            A,
            combined.body,
            place,
        )

    def value(element):
        if pre is None:
            number = load(in_dtype, element)
            return "const %s tng_value = %s;" % (A, c_cast(number, work_dtype(in_dtype), acc))
        before = "const %s tng_e = %s; %s tng_f;" % (
            work_type(in_dtype, pre.bits),
            load(in_dtype, element, pre.bits),
            work_type(dtype, pre.bits),
        )
        number = "tng_half_to_float(tng_f)" if pre.bits and dtype == "float16" else "tng_f"
        return "%s\n{\n%s\n}\nconst %s tng_value = %s;" % (before, pre.body, A, c_cast(number, work_dtype(dtype), acc))

    if program.steps:
        ((pre_op, _, (dtype,)),) = program.steps
        pre = scalar_code(pre_op, scalar_apply(pre_op, (in_dtype,), (dtype,)), ["tng_e"], ["tng_f"])
        support += [text for text in pre.support if text not in support]
        doubles = doubles or pre.doubles

    def find(index, pointer, rank, length, stride, to=0):
        lines = ["ga_size tng_rest = %s;" % index]
        for d in range(rank - 1, to, -1):
            lines.append("%s += (ga_ssize)ga_split(&tng_rest, %s%d) * %s%d;" % (pointer, length, d, stride, d))
        lines.append("%s += (ga_ssize)tng_rest * %s0;" % (pointer, stride))
        return "{ %s }" % " ".join(lines)

    last = "tng_sr%d" % (reduced_rank - 1)
    # The number of elements that a thread of a GPU loads before it uses the first of them, unless it loads packs
    loads = 4 if reduced_rank > 1 or np.dtype(in_dtype).itemsize > 2 else 8
    start = " = %s" % (c_literal(acc, np.asarray(identity).astype(acc)) if identity is not None else "0")
    words = dict(
        X=element_type(in_dtype),
        Z=element_type(out_dtype),
        P=element_type(acc),
        A=A,
        block=_BLOCK,
        lanes=_LANES,
        group=GROUP,
        # The number of groups for whose registers a processor has room. An op that is applied first, and the indices
        # along many axes, may need many registers.
        groups=4 if pre is None and kept_rank == reduced_rank == 1 else 2,
        start=start,
        lengths="".join(
            [", ga_size tng_k%d" % d for d in range(1, kept_rank)]
            + [", ga_size tng_r%d" % d for d in range(1, reduced_rank)]
        ),
        strides="".join(
            [", ga_ssize tng_sk%d" % d for d in range(kept_rank)]
            + [", ga_ssize tng_sr%d" % d for d in range(reduced_rank)]
        ),
        kept_inner="tng_k%d" % (kept_rank - 1) if kept_rank > 1 else "tng_outputs",
        find_output=find("tng_k", "tng_row", kept_rank, "tng_k", "tng_sk"),
        find_element=find("tng_r", "tng_q", reduced_rank, "tng_r", "tng_sr"),
        empty_lanes="for (ga_uint tng_l = 0; tng_l < tng_count; ++tng_l) tng_lanes[tng_l]%s;" % start,
        load=value("(*tng_q)"),
        load_some=value("tng_some[tng_l]"),
        load_of_pack=value("tng_some.e[tng_l * %d + tng_m]" % Pack.of(in_dtype).width),
        find_some=find("tng_r + (ga_size)tng_l * tng_many", "tng_q", reduced_rank, "tng_r", "tng_sr"),
        loads=loads,
        more=loads - 1,
        load_column=value("tng_q[(ga_ssize)tng_l * tng_sk%d]" % (kept_rank - 1)),
        combine=combine("tng_acc"),
        combine_lane=combine("tng_lanes[tng_l]"),
        stride=last,
        store="if (GDIM_1 == 1) { %s } else { tng_parts[tng_output * GDIM_1 + GID_1] = tng_acc; }"
        % store(out_dtype, "tng_z[tng_output]", c_cast("tng_acc", acc, work_dtype(out_dtype))),
    )
    if reduced_rank == 1:
        words["find_run"] = "tng_run += (ga_ssize)tng_r * %s; const ga_size tng_count = tng_to - tng_r;" % last
    else:
        inner = "tng_r%d" % (reduced_rank - 1)
        words["find_run"] = (
            "%s ga_size tng_count = %s - tng_r %% %s; if (tng_count > tng_to - tng_r) tng_count = tng_to - tng_r;"
            % (find("tng_r", "tng_run", reduced_rank, "tng_r", "tng_sr"), inner, inner)
        )
    words["first"] = ""
    if identity is None:
        words["first"] = (
            "{ const ga_size tng_r = tng_from; GLOBAL_MEM const %(X)s *tng_q = tng_row; %(find_element)s %(load)s tng_acc = tng_value; }"
            % words
        )
    with_lanes = identity is not None or type(scalar_op).__name__ in _IDEMPOTENT
    words["along_row"] = (_LANES_TEXT if with_lanes else _ONE_BY_ONE) % words
    words.update(_packs(in_dtype, reduced_rank, find))
    words["begin"] = (_PACKS_TEXT if with_lanes else _FIRST_OF_THREAD) % words
    words["active"] = "tng_many" if with_lanes else "tng_here < tng_many ? (ga_uint)tng_here : tng_many"
    types = [pygpu.SIZE] * 3 + ["uint32"] + [pygpu.SIZE] * (kept_rank + reduced_rank - 2)
    types += ["*", pygpu.SIZE, *[pygpu.SSIZE] * (kept_rank + reduced_rank), "*", pygpu.SIZE, "*"]
    flags = flags_of(in_dtype, acc, out_dtype) | (pygpu.USE_DOUBLE if doubles else 0)
    return _KernelSource(_TEXT % words, tuple(types), flags, tuple(support))


def _packs(dtype, rank, find):
    """Return the parts of the text of a kernel that find the packs of a row: their number, and the element at which a
    pack begins.

    A row of one axis may begin and end anywhere. If a row has several axes, no pack may extend over the end of the
    inner axis.
    """
    pack, last = Pack.of(dtype), "tng_sr%d" % (rank - 1)
    width = pack.width
    index = "tng_from + tng_head + (tng_v + (ga_size)tng_l * tng_many) * %d" % width
    if rank == 1:
        lines = [
            "ga_size tng_head = -((ga_size)(tng_row + tng_from) / %d) & %d;" % (pack.size, width - 1),
            "if (tng_head > tng_here) tng_head = tng_here;",
            "const ga_size tng_packs = !tng_by_column && %s == 1 ? (tng_here - tng_head) / %d : 0;" % (last, width),
        ]
        return dict(vector=pack.vector, width=width, count_packs=" ".join(lines), find_pack="tng_q += %s;" % index)
    whole = ["(ga_size)tng_row", "tng_from * %d" % pack.size, "tng_here * %d" % pack.size]
    whole += ["tng_r%d * %d" % (rank - 1, pack.size)] + [
        "(ga_size)tng_sr%d * %d" % (d, pack.size) for d in range(rank - 1)
    ]
    lines = [
        "const ga_size tng_head = 0;",
        "const ga_size tng_packs = !tng_by_column && %s == 1 && ((%s) & %d) == 0 ? tng_here / %d : 0;"
        % (last, " | ".join(whole), pack.bytes - 1, width),
    ]
    return dict(
        vector=pack.vector,
        width=width,
        count_packs=" ".join(lines),
        find_pack=find(index, "tng_q", rank, "tng_r", "tng_sr"),
    )


def reduction_program(scalar_op, pre_scalar_op, in_dtype, acc_dtype, out_dtype):
    """Return the program of a reduction.

    Parameters
    ----------
    scalar_op : ScalarOp
        A binary, commutative and associative op.
    pre_scalar_op : ScalarOp or None
        An op that is applied to each element before the reduction.
    in_dtype, acc_dtype, out_dtype : str

    Returns
    -------
    LoopProgram
    """
    result = None if pre_scalar_op is None else dtype_after(pre_scalar_op, in_dtype)
    return fold_program(Fold(scalar_op, acc_dtype), in_dtype, pre_scalar_op, result, out_dtype)


def dtype_after(op, dtype):
    """Return the dtype of the output of the scalar op `op` for one input of dtype `dtype`."""
    return op.make_node(scalar_apply(op, (dtype,), ()).inputs[0]).outputs[0].type.dtype


def kernel_samples():
    """Return samples of the kernel source code, which tests compile; see `kernels.samples`."""
    sums = [
        (scalar.add, None, *dtypes)
        for dtypes in (("float16", "float32", "float16"), ("int8", "int64", "int64"), ("float64",) * 3)
    ]
    maxima = [
        (op, None, dtype, dtype, dtype) for op in (scalar.maximum, scalar.minimum) for dtype in ("float32", "uint8")
    ]
    others = [
        (scalar.mul, None, "float32", "float64", "float32"),
        (scalar.and_, None, "bool", "bool", "bool"),
        (scalar.or_, None, "uint16", "uint16", "uint16"),
        (scalar.xor, None, "int64", "int64", "int64"),
        (scalar.add, scalar.sqr, "float32", "float32", "float32"),
        (scalar.maximum, scalar.abs_, "float16", "float16", "float16"),
    ]
    kernels = []
    for k, case in enumerate(sums + maxima + others):
        # Only every third case has kernels of higher ranks, because the code of the ops does not depend on the ranks.
        kernels += reduce_kernels(reduction_program(*case), *((2, 2) if k % 3 == 0 else (1, 1)), None)
    return [sample("reductions", kernels)]
