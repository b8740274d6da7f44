"""Kernels of elementwise nodes: one for contiguous operands, and one for strided or broadcast operands."""

import functools

import numpy as np

from theano_ng import scalar
from theano_ng.gpuarray.kernels.device_kernel import DeviceKernel, flags_of, sample
from theano_ng.gpuarray.kernels.scalar_code import (
    PROLOGUE,
    SupportCodeError,
    element_type,
    load,
    scalar_code,
    store,
    work_type,
)
from theano_ng.gpuarray.kernels.snippets import VECTOR_BYTES, Pack
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.loops.program import Access, elementwise_program
from theano_ng.loops.source import scalar_apply
from theano_ng.scalar.types import get_scalar_type

# Limits of what a thread of a GPU computes at a time: the bytes of one operand, the bytes of all operands, and the
# number of elementary ops.
_PACK_BYTES, _ALL_PACKS_BYTES, _PACK_OPS = 64, 256, 256


@functools.lru_cache(maxsize=4096)
def elemwise_code(op, in_dtypes, out_dtypes):
    """Return the ScalarCode of `op` with operands called ``tng_v0``, ``tng_v1``, ... Raise SupportCodeError if devices
    cannot compute `op`.
    """
    names = ["tng_v%d" % k for k in range(len(in_dtypes) + len(out_dtypes))]
    node = scalar_apply(op, in_dtypes, out_dtypes)
    return scalar_code(op, node, names[: len(in_dtypes)], names[len(in_dtypes) :])


def elemwise_kernels(program, rank, context, numbers=()):
    """Return the two kernels of an elementwise node.

    Parameters
    ----------
    program : LoopProgram
        A program of one step. The outputs of the program are the results of the step, in the same order.
    rank : int
        Number of axes of the strided kernel.
    context : GpuContext
    numbers : sequence of int
        The inputs that are passed to the kernel by value. Their `Access` is HOISTED.

    Returns
    -------
    list of DeviceKernel
        The kernel for contiguous operands and, unless the rank is 0, the kernel for strided operands.
    """
    text = _KernelSource(program, frozenset(numbers))
    kernels = [(text.contiguous(), text.contiguous_types())]
    if rank:
        kernels.append((text.strided(rank), text.strided_types(rank)))
    flags = flags_of(*text.dtypes) | (pygpu.USE_DOUBLE if text.code.doubles else 0)
    support = (PROLOGUE, *text.code.support)
    return [DeviceKernel(source, types, context, flags, support, program=program) for source, types in kernels]


def vector_width(dtypes, ops=1):
    """Return the number of adjacent elements that a thread of a GPU computes at a time.

    The elements of the narrowest operand fill a vector of 16 bytes, unless the elements of all operands then need too
    many registers, or the code becomes too long. 1 means that no operand is loaded or stored as vectors.

    Parameters
    ----------
    dtypes : sequence of str
        Dtypes of the operands that are loaded and stored for each element.
    ops : int
        The length of the code for one element, in elementary ops.
    """
    sizes = [np.dtype(dtype).itemsize for dtype in dtypes]
    if not sizes or max(sizes) > VECTOR_BYTES // 2:
        return 1
    width = VECTOR_BYTES // min(sizes)
    while width > 1 and (
        width * max(sizes) > _PACK_BYTES or width * sum(sizes) > _ALL_PACKS_BYTES or width * ops > _PACK_OPS
    ):
        width //= 2
    return width


def count_ops(op):
    """Return the length of the code of a scalar op, in elementary ops. The code of a special function counts as long as
    the longest code that is repeated.
    """
    if getattr(op, "_program", None) is not None:
        return sum(count_ops(inner.op) for inner in op._ensure_graph()[2])
    return 1 if getattr(op, "scipy_name", None) in (None, "erf", "erfc") else _PACK_OPS


def elements_per_thread(program):
    """Return the number of adjacent elements that a thread of a GPU computes at a time if the operands are contiguous."""
    return _KernelSource(program).width


class _KernelSource:
    """A writer of the source code of both kernels of an elementwise node.

    Operand k has the pointer ``tng_pk``. In the loop, its value is the variable ``tng_vk``. If all elements of an
    operand are equal (`Access.HOISTED`), each thread loads the value before the loop, into ``tng_hk``. An operand of
    `numbers` is the argument ``tng_ak`` instead of an array.
    """

    def __init__(self, program, numbers=frozenset()):
        self.numbers = numbers
        (step,) = program.steps
        operands = [*program.inputs, *program.outputs]
        self.nin = len(program.inputs)
        self.dtypes = tuple([x.dtype for x in operands])
        self.code = elemwise_code(step.op, self.dtypes[: self.nin], step.dtypes)
        self.accesses = [x.access for x in operands]
        self.operands = range(len(operands))
        # The operands that are loaded or stored for each element, and the number of elements in their packs
        self.moving = [k for k in self.operands if self.accesses[k] != Access.HOISTED]
        self.width = vector_width([self.dtypes[k] for k in self.moving], count_ops(step.op))

    def contiguous_types(self):
        return (pygpu.SIZE, *[kind for k in self.operands for kind in self._types(k)])

    def _types(self, k):
        return (self.dtypes[k],) if k in self.numbers else ("*", pygpu.SIZE)

    def contiguous(self):
        hoisted = set(self.operands).difference(self.moving)
        return "\n".join(
            [
                "KERNEL void KERNEL_NAME(ga_size tng_n, %s)" % ", ".join(self._pointer(k) for k in self.operands),
                "{",
                *[self._begin(k) for k in self.operands],
                *[self._hoist(k) for k in sorted(hoisted)],
                *self._loop(hoisted),
                "}\n",
            ]
        )

    def _loop(self, hoisted):
        """Return the loop over the elements of contiguous operands."""
        element = self._element(hoisted, lambda k: "tng_p%d[tng_i]" % k)
        plain = ["    TNG_EACH(tng_i, tng_n, 0) {", *element, "    }"]
        if self.width == 1:
            return plain
        return [
            "#ifdef GA_PROCESSOR",
            *plain,
            "#else",
            *self._packs(hoisted),
            "    TNG_EACH(tng_rest, tng_n - tng_packs * %d, 0) {" % self.width,
            "        const ga_size tng_i = tng_rest < tng_head ? tng_rest : tng_rest + tng_packs * %d;" % self.width,
            *element,
            "    }",
            "#endif",
        ]

    def _packs(self, hoisted):
        """Return the loop in which a thread computes `width` adjacent elements, which it loads and stores as vectors.

        The elements before the first pack (``tng_head``) are not aligned. If the operands are not aligned alike, there
        are no packs (``tng_packs`` is 0).
        """
        width = self.width
        packs = {k: Pack(self.dtypes[k], width) for k in self.moving}
        first = min(packs, key=lambda k: packs[k].size)
        aligned = [
            "(((ga_size)tng_p%d + tng_head * %d) & %d) == 0" % (k, p.size, p.bytes - 1) for k, p in packs.items()
        ]
        lines = [
            "    ga_size tng_head = -((ga_size)tng_p%d / %d) & %d;" % (first, packs[first].size, width - 1),
            "    if (tng_head > tng_n) tng_head = tng_n;",
            "    const ga_size tng_packs = %s ? (tng_n - tng_head) / %d : 0;" % (" && ".join(aligned), width),
            "    TNG_EACH(tng_pack, tng_packs, 0) {",
        ]
        for k, pack in packs.items():
            lines.append("        " + pack.declare("tng_w%d" % k))
            if k < self.nin:
                lines.append("        " + pack.move("tng_w%d" % k, "(tng_p%d + tng_head)" % k, "tng_pack"))
        lines += ["        GA_UNROLL", "        for (ga_uint tng_l = 0; tng_l < %d; ++tng_l) {" % width]
        lines += self._element(hoisted, lambda k: "tng_w%d.e[tng_l]" % k)
        lines.append("        }")
        for k, pack in packs.items():
            if k >= self.nin:
                lines.append("        " + pack.move("tng_w%d" % k, "(tng_p%d + tng_head)" % k, "tng_pack", True))
        return [*lines, "    }"]

    def strided_types(self, rank):
        types = [pygpu.SIZE] * rank
        for k in self.operands:
            types += [*self._types(k)] + [pygpu.SSIZE] * (rank if self.accesses[k] != Access.HOISTED else 0)
        return tuple(types)

    def strided(self, rank):
        moving = self.moving
        hoisted = set(self.operands).difference(moving)
        last = rank - 1
        arguments = ["ga_size tng_d%d" % d for d in range(rank)]
        for k in self.operands:
            arguments.append(self._pointer(k))
            arguments += ["ga_ssize tng_s%d_%d" % (k, d) for d in range(rank) if k in moving]
        lines = ["KERNEL void KERNEL_NAME(%s)" % ", ".join(arguments), "{"]
        lines += [self._begin(k) for k in self.operands]
        lines += [self._hoist(k) for k in sorted(hoisted)]
        if rank > 1:
            lines.append("    const ga_size tng_rows = %s;" % " * ".join("tng_d%d" % d for d in range(last)))
            # Do not use TNG_EACH_OF_ROW for this loop over rows: the macro lets the compiler vectorize the loop itself,
            # but the compiler has to vectorize the inner loop.
            lines.append(
                "    for (ga_size tng_r = (ga_size)GID_1 * LDIM_1 + LID_1; tng_r < tng_rows; tng_r += (ga_size)GDIM_1 * LDIM_1) {"
            )
            lines.append("    ga_size tng_rest = tng_r, tng_at;")
            lines += ["    %s *tng_q%d = tng_p%d;" % (self._memory(k), k, k) for k in moving]
            for d in range(last - 1, 0, -1):
                lines.append("    tng_at = ga_split(&tng_rest, tng_d%d);" % d)
                lines += ["    tng_q%d += (ga_ssize)tng_at * tng_s%d_%d;" % (k, k, d) for k in moving]
            lines += ["    tng_q%d += (ga_ssize)tng_rest * tng_s%d_0;" % (k, k) for k in moving]
        else:
            lines.append("    {")
            lines += ["    %s *tng_q%d = tng_p%d;" % (self._memory(k), k, k) for k in moving]
        maybe_broadcast = [k for k in moving if self.accesses[k] == Access.MAYBE_BROADCAST]
        if maybe_broadcast:
            lines.append("#ifdef GA_PROCESSOR")
            lines.append("    if (%s) {" % " && ".join("tng_s%d_%d == 0" % (k, last) for k in maybe_broadcast))
            lines += [self._hoist(k, "tng_q%d") for k in maybe_broadcast]
            lines += self._row(hoisted.union(maybe_broadcast), last)
            lines += ["    } else", "#endif"]
        lines += ["    {", *self._row(hoisted, last), "    }", "    }", "}\n"]
        return "\n".join(lines)

    def _row(self, hoisted, last):
        element = lambda k: "tng_q%d[(ga_ssize)tng_i * tng_s%d_%d]" % (k, k, last)
        return ["    TNG_EACH_OF_ROW(tng_i, tng_d%d, 0) {" % last, *self._element(hoisted, element), "    }"]

    def _memory(self, k):
        return "GLOBAL_MEM %s%s" % ("const " if k < self.nin else "", element_type(self.dtypes[k]))

    def _pointer(self, k):
        if k in self.numbers:
            return "const %s tng_a%d" % (element_type(self.dtypes[k]), k)
        return "%s *tng_p%d, ga_size tng_o%d" % (self._memory(k), k, k)

    def _begin(self, k):
        if k in self.numbers:
            return ""
        const = "const " if k < self.nin else ""
        return "    tng_p%d = (%s *)((GLOBAL_MEM %schar *)tng_p%d + tng_o%d);" % (k, self._memory(k), const, k, k)

    def _hoist(self, k, pointer="tng_p%d"):
        kind = work_type(self.dtypes[k], self.code.bits)
        element = "tng_a%d" % k if k in self.numbers else "(*%s)" % (pointer % k)
        return "    const %s tng_h%d = %s;" % (kind, k, load(self.dtypes[k], element, self.code.bits))

    def _element(self, hoisted, element):
        bits, lines = self.code.bits, []
        for k in self.operands:
            kind = work_type(self.dtypes[k], bits)
            if k >= self.nin:
                lines.append("        %s tng_v%d;" % (kind, k))
            else:
                value = "tng_h%d" % k if k in hoisted else load(self.dtypes[k], element(k), bits)
                lines.append("        const %s tng_v%d = %s;" % (kind, k, value))
        lines.append("        {\n%s\n        }" % self.code.body)
        lines += [
            "        " + store(self.dtypes[k], element(k), "tng_v%d" % k, bits) for k in self.operands if k >= self.nin
        ]
        return lines


def argument_bytes(rank, operands):
    """Return the size of the arguments of a strided kernel, in bytes."""
    return 8 * rank + operands * (16 + 8 * rank)


def kernel_samples():
    """Return samples for `kernels.samples`. The samples for a float dtype contain all scalar ops that devices compute.
    The samples for an integer dtype and bool contain the ops for integers.

    The structure of a strided kernel does not depend on the op, so one op per dtype also has a strided kernel.
    """
    names = sorted(name for name in dir(scalar) if isinstance(getattr(scalar, name), scalar.ScalarOp))
    integers = "add and_ clip convert_to_float16 floor_div int_div invert lt maximum mod mul neg or_ pow sgn sub switch tanh true_div xor".split()
    x, y, z = [get_scalar_type("float32").make_variable() for _ in range(3)]
    fused = scalar.Composite(
        [x, y, z], [scalar.exp(x * y) + scalar.log1p(abs(z)), scalar.switch(scalar.gt(x, y), z, x)]
    )
    found = []
    for dtype in ("float32", "float64", "float16", "int8", "uint64", "bool"):
        ops = [getattr(scalar, name) for name in (names if dtype.startswith("float") else integers)]
        kernels = [kernel for op in ops for kernel in _sample(op, dtype)[:1]]
        found.append(sample("elementwise, " + dtype, kernels + _sample(fused, dtype)))
    return found


def _sample(op, dtype):
    """Return the kernels of an op whose inputs have this dtype, or an empty list if devices cannot compute the op.

    The second input may be broadcast, and the third input has a single element.
    """
    nin = op.nin if op.nin > 0 else 2
    in_dtypes = (dtype,) * nin
    try:
        outputs = op.make_node(*scalar_apply(op, in_dtypes, ()).inputs).outputs
        accesses = (Access.VARYING, Access.MAYBE_BROADCAST, Access.HOISTED)[:nin] + (Access.VARYING,) * max(nin - 3, 0)
        return elemwise_kernels(elementwise_program(op, in_dtypes, [v.type.dtype for v in outputs], accesses), 2, None)
    except (SupportCodeError, TypeError, NotImplementedError):
        return []
