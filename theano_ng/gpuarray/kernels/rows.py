"""Kernels of row programs: reductions of rows, combined with elementwise operations before, between and after them.

A kernel processes a row in passes over its elements. An operation that needs the result of a reduction runs in a later
pass than the reduction. Each pass computes the values that it needs from the inputs again, or reads them from an output
whose final value is not stored yet. On processors one thread processes a row, and on GPUs a group of threads processes
one or several rows.

On GPUs, a thread loads and stores packs of adjacent elements (`snippets.Pack`). The place of an element in its row
decides which thread processes it, and in which order. If an array is not aligned or not contiguous, the same thread
accesses the same elements one by one. Results therefore do not depend on the memory of arrays.
"""

import functools
from typing import NamedTuple

import numpy as np

from theano_ng.gpuarray.fp16_help import work_dtype
from theano_ng.gpuarray.kernels.device_kernel import DeviceKernel, flags_of
from theano_ng.gpuarray.kernels.elemwise import count_ops, vector_width
from theano_ng.gpuarray.kernels.row_loop import ELEMENT, ONE, ROW, Map, Number, Place, RowFold
from theano_ng.gpuarray.kernels.scalar_code import (
    PROLOGUE,
    SupportCodeError,
    element_type,
    load,
    scalar_code,
    store,
    work_type,
)
from theano_ng.gpuarray.kernels.snippets import Pack
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.loops.source import scalar_apply
from theano_ng.scalar.op import c_cast
from theano_ng.scalar.types import c_literal

# The maximum number of threads in a group; native/rows.c has the same value.
GROUP = 256
# Number of adjacent elements that a thread of a processor accumulates separately
LANES = 32
# Limits of the elements that a thread of a GPU loads before it uses the first of them: the bytes of their registers, and
# the number of elementary ops that the thread applies to them.
_LOADED_BYTES, _LOADED_OPS = 64, 256

# Ops for which ``op(a, a)`` is ``a``. Their accumulators may start with the first element.
_IDEMPOTENT = ("Maximum", "MaximumFromNothing", "Minimum", "AND", "OR")


def row_kernel(loop, context):
    """Return the kernel of a row program.

    Parameters
    ----------
    loop : RowLoop
    context : GpuContext or None

    Returns
    -------
    DeviceKernel

    Raises
    ------
    SupportCodeError
        If devices cannot compute an op of the program.
    """
    source = _row_source(loop)
    return DeviceKernel(source.text, source.types, context, source.flags, source.support, program=loop)


def elements_per_pack(loop):
    """Return the number of adjacent elements that a thread of a GPU processes at a time, if the length of rows is a
    multiple of it. Rows of other lengths have no packs.
    """
    return _row_source(loop).width


class _Source(NamedTuple):
    text: str
    types: tuple
    flags: int
    support: tuple
    width: int


@functools.lru_cache(maxsize=512)
def _row_source(loop):
    return _Writer(loop).source()


class _Pass(NamedTuple):
    """A pass over the elements of a row.

    Attributes
    ----------
    rows : list of int
        The values per row that are computed before the pass.
    elements : list of int
        The values per element that the pass reads or computes, in this order.
    folds : list of int
        The reductions that the pass computes.
    stored : list of (int, int)
        The values that the pass stores, with the numbers of the outputs.
    held : dict
        Value -> the output that contains it before the pass.
    """

    rows: list
    elements: list
    folds: list
    stored: list
    held: dict


class _Writer:
    """A writer of the source code of a kernel. Value k is the variable ``tng_v<k>``."""

    def __init__(self, loop):
        self.loop, self.values = loop, loop.values
        self.n_inputs = len(loop.inputs)
        self.support, self.doubles = [PROLOGUE], False
        self.codes = {k: self._code(v) for k, v in self._steps()}
        self.ready = self._ready()
        self.last_use = self._last_use()
        self.passes = list(self._passes())
        self.width = self._width()

    def _steps(self):
        return enumerate(self.loop.steps, self.n_inputs)

    def _code(self, step):
        """Return the code of a step: of its scalar op, or of the op that combines two accumulators."""
        if isinstance(step, (Place, Number)):
            return None
        if isinstance(step, RowFold):
            acc = work_dtype(step.accumulator)
            if getattr(step.op, "identity", None) is None and type(step.op).__name__ not in _IDEMPOTENT:
                raise SupportCodeError("%s has no identity, so that lanes cannot be combined" % (step.op,))
            code = scalar_code(step.op, scalar_apply(step.op, (acc, acc), (acc,)), ["tng_a", "tng_b"], ["tng_c"])
        else:
            dtypes = tuple([self.values[a].dtype for a in step.arguments])
            names = ["tng_v%d" % a for a in step.arguments]
            code = scalar_code(step.op, scalar_apply(step.op, dtypes, (step.dtype,)), names, ["tng_out"])
        if code.bits:
            raise SupportCodeError("%s computes with the bits of float16 numbers" % (step.op,))
        self.support += [text for text in code.support if text not in self.support]
        self.doubles = self.doubles or code.doubles
        return code

    # -- passes --------------------------------------------------------------------------------------------------------

    def _ready(self):
        """Return, for each value, the first pass that can use it."""
        ready = [0] * self.n_inputs
        for step in self.loop.steps:
            ready.append(max([ready[a] for a in step.arguments], default=0) + isinstance(step, RowFold))
        return ready

    def _pass_of(self, k):
        """Return the pass in which a step runs."""
        return self.ready[k] - isinstance(self.values[k], RowFold)

    def _last_use(self):
        """Return, for each value, the last pass in which a value per element is computed from it, also indirectly."""
        last = list(self.ready)
        for k, step in reversed(list(self._steps())):
            if step.level == ELEMENT:
                for a in step.arguments:
                    last[a] = max(last[a], last[k])
        return last

    def _passes(self):
        """Yield the passes. Decide which outputs contain which values between the passes."""
        outputs = [(o, k) for o, k in enumerate(self.loop.stores) if self.values[k].level == ELEMENT]
        held, free = {}, dict(outputs)  # free: outputs that contain no value yet
        last = max([self.ready[k] for k in self.loop.stores] + [self._pass_of(k) for k, _ in self._steps()])
        for p in range(last + 1):
            before, stored = dict(held), []
            for o, k in outputs:
                if self.ready[k] == p:  # the final value of the output; it may replace another value
                    stored.append((k, o))
                    held = {v: place for v, place in held.items() if place != o}
                    held[k] = o
                    free.pop(o, None)
            for k in self._needed_later(p):
                o = next((o for o in free if self._can_hold(o, k)), None)
                if o is not None and k not in held:
                    stored.append((k, o))
                    held[k] = o
                    del free[o]
            yield self._pass(p, before, stored)

    def _needed_later(self, p):
        """Yield the values per element that are computed in pass `p`, and from which later passes compute others."""
        for k, step in self._steps():
            if isinstance(step, Map) and step.level == ELEMENT and self.ready[k] == p:
                consumers = [c for c, other in self._steps() if k in other.arguments and other.level == ELEMENT]
                if any(self.ready[c] > p for c in consumers):
                    yield k

    def _can_hold(self, o, k):
        """Return True if output o can contain the value k until it is no longer needed."""
        final, dtype = self.loop.stores[o], self.values[k].dtype
        return self.values[final].dtype == dtype == work_dtype(dtype) and self.ready[final] >= self.last_use[k]

    def _pass(self, p, held, stored):
        rows = [k for k, step in self._steps() if isinstance(step, Map) and step.level == ROW and self.ready[k] == p]
        folds = [k for k, step in self._steps() if isinstance(step, RowFold) and self._pass_of(k) == p]
        todo, elements = [k for k, _ in stored] + [self.values[k].argument for k in folds], set()
        while todo:
            k = todo.pop()
            if self.values[k].level == ELEMENT and k not in elements:
                elements.add(k)
                if k not in held and k >= self.n_inputs:
                    todo += self.values[k].arguments
        return _Pass(rows, sorted(elements), folds, stored, held)

    # -- text ----------------------------------------------------------------------------------------------------------

    def source(self):
        parameters, types = self._parameters()
        lines = ["KERNEL void KERNEL_NAME(%s)" % ",\n    ".join(parameters), "{", *self._begin()]
        lines += ["#ifdef GA_PROCESSOR", *self._for_processors(), "#else", *self._for_gpus(), "#endif", "}\n"]
        dtypes = [v.dtype for v in self.values] + [s.accumulator for s in self.loop.steps if isinstance(s, RowFold)]
        flags = flags_of(*dtypes) | (pygpu.USE_DOUBLE if self.doubles else 0)
        return _Source("\n".join(lines), tuple(types), flags, tuple(self.support), self.width)

    def _parameters(self):
        declared, types = ["ga_size tng_rows", "ga_size tng_length"], [pygpu.SIZE, pygpu.SIZE]
        for k, x in enumerate(self.loop.inputs):
            if x.is_number:
                declared.append("const %s tng_a%d" % (element_type(x.dtype), k))
                types.append(x.dtype)
                continue
            declared.append("GLOBAL_MEM const %s *tng_p%d, ga_size tng_o%d" % (element_type(x.dtype), k, k))
            declared += ["ga_ssize tng_%s%d" % (letter, k) for letter in "rs"[: x.level]]
            types += ["*", pygpu.SIZE, *[pygpu.SSIZE] * x.level]
        for o, k in enumerate(self.loop.stores):
            declared.append("GLOBAL_MEM %s *tng_z%d, ga_size tng_zo%d" % (element_type(self.values[k].dtype), o, o))
            types += ["*", pygpu.SIZE]
        return declared, types

    def _begin(self):
        lines = []
        for k, x in enumerate(self.loop.inputs):
            if x.is_number:
                lines.append(self._constant(k, load(x.dtype, "tng_a%d" % k)))
                continue
            kind = "GLOBAL_MEM const %s *" % element_type(x.dtype)
            lines.append("tng_p%d = (%s)((GLOBAL_MEM const char *)tng_p%d + tng_o%d);" % (k, kind, k, k))
            if x.level == ONE:
                lines.append(self._constant(k, load(x.dtype, "(*tng_p%d)" % k)))
        for k, step in self._steps():
            if isinstance(step, Number):
                lines.append(self._constant(k, c_literal(step.dtype, np.asarray(step.value, step.dtype))))
        for o, k in enumerate(self.loop.stores):
            kind = "GLOBAL_MEM %s *" % element_type(self.values[k].dtype)
            lines.append("tng_z%d = (%s)((GLOBAL_MEM char *)tng_z%d + tng_zo%d);" % (o, kind, o, o))
        return lines

    def _constant(self, k, value):
        return "const %s tng_v%d = %s;" % (work_type(self.values[k].dtype), k, value)

    def _begin_row(self):
        """Return the statements that find a row, and read the inputs that have one value per row."""
        lines = []
        for k, x in enumerate(self.loop.inputs):
            if x.level == ROW:
                lines.append(self._constant(k, load(x.dtype, "tng_p%d[(ga_ssize)tng_row * tng_r%d]" % (k, k))))
            elif x.level == ELEMENT:
                kind = "GLOBAL_MEM const %s *" % element_type(x.dtype)
                lines.append("%stng_q%d = tng_p%d + (ga_ssize)tng_row * tng_r%d;" % (kind, k, k, k))
        for o, k in enumerate(self.loop.stores):
            if self.values[k].level == ELEMENT:
                kind = "GLOBAL_MEM %s *" % element_type(self.values[k].dtype)
                lines.append("%stng_y%d = tng_z%d + tng_row * tng_length;" % (kind, o, o))
        lines += [
            "%s tng_v%d%s;" % (work_type(s.dtype), k, " = 0" if isinstance(s, RowFold) else "")
            for k, s in self._steps()
            if s.level == ROW
        ]
        return lines

    def _end_row(self):
        """Return the statements that store the outputs with one value per row."""
        return [
            store(self.values[k].dtype, "tng_z%d[tng_row]" % o, "tng_v%d" % k)
            for o, k in enumerate(self.loop.stores)
            if self.values[k].level == ROW
        ]

    def _map(self, k):
        """Return the statement that computes the value of a step from its arguments. The variable exists already."""
        kind = work_type(self.values[k].dtype)
        return "{ %s tng_out;\n%s\ntng_v%d = tng_out; }" % (kind, self.codes[k].body, k)

    def _loaded(self, plan):
        """Return the values that a pass reads for each element: inputs, and values that outputs contain."""
        return [k for k in plan.elements if k in plan.held or k < self.n_inputs]

    def _element(self, plan, loaded, stored):
        """Return the statements of a pass that compute values for element ``tng_i``.

        `loaded` and `stored` return the code of an element: of a value that the pass reads, and of an output.
        """
        lines = []
        for k in plan.elements:
            dtype = self.values[k].dtype
            if k in plan.held or k < self.n_inputs:
                lines.append(self._constant(k, load(dtype, loaded(k))))
            elif isinstance(self.values[k], Place):
                lines.append(self._constant(k, "(npy_int64)tng_i"))
            else:
                lines += ["%s tng_v%d;" % (work_type(dtype), k), self._map(k)]
        return lines + [store(self.values[k].dtype, stored(o), "tng_v%d" % k) for k, o in plan.stored]

    def _value(self, k):
        """Return the expression of the value that fold k accumulates, in the dtype of the accumulator."""
        fold = self.values[k]
        return c_cast("tng_v%d" % fold.argument, work_dtype(self.values[fold.argument].dtype), self._acc(k))

    def _acc(self, k):
        return work_dtype(self.values[k].accumulator)

    def _combine(self, k, place, value):
        kind = work_type(self._acc(k))
        return "{ const %s tng_a = %s, tng_b = %s; %s tng_c;\n%s\n%s = tng_c; }" % (
            kind,
            place,
            value,
            kind,
            self.codes[k].body,
            place,
        )

    def _start(self, k):
        """Return the start value of an accumulator, or None if it starts with the first element."""
        identity = getattr(self.values[k].op, "identity", None)
        return None if identity is None else c_literal(self._acc(k), np.asarray(identity).astype(self._acc(k)))

    def _finish(self, k, accumulator):
        """Return the statement that stores the result of a fold in its variable."""
        dtype = self.values[k].dtype
        rounded = c_cast(accumulator, self._acc(k), work_dtype(dtype))
        return "tng_v%d = %s;" % (k, "tng_round_to_half(%s)" % rounded if dtype == "float16" else rounded)

    # -- processors: one thread for a row ------------------------------------------------------------------------------

    def _for_processors(self):
        lines = ["for (ga_size tng_row = GID_0; tng_row < tng_rows; tng_row += GDIM_0) {", *self._begin_row()]
        for plan in self.passes:
            lines += [self._map(k) for k in plan.rows]
            inputs = [k for k in plan.elements if k < self.n_inputs and k not in plan.held]
            if inputs:
                lines.append("if (%s) {" % " && ".join("tng_s%d == 1" % k for k in inputs))
                lines += [*self._pass_of_a_thread(plan, True), "} else {", *self._pass_of_a_thread(plan, False), "}"]
            elif plan.elements:
                lines += ["{", *self._pass_of_a_thread(plan, True), "}"]
        return [*lines, *self._end_row(), "}"]

    def _element_of_a_thread(self, plan, unit):
        """Return the statements for an element. `unit`: whether all inputs have unit strides along the row."""

        def loaded(k):
            if k in plan.held:
                return "tng_y%d[tng_i]" % plan.held[k]
            return "tng_q%d[tng_i]" % k if unit else "tng_q%d[(ga_ssize)tng_i * tng_s%d]" % (k, k)

        return self._element(plan, loaded, "tng_y%d[tng_i]".__mod__)

    def _pass_of_a_thread(self, plan, unit):
        folds, element = plan.folds, self._element_of_a_thread(plan, unit)
        if not folds:
            return ["for (ga_size tng_i = 0; tng_i < tng_length; ++tng_i) {", *element, "}"]
        lines = [self._declare_accumulator(k) for k in folds]
        first = [k for k in folds if self._start(k) is None]
        if first:
            # Evaluate the first element without stores, to start the accumulators.
            lines += ["if (tng_length > 0) {", "const ga_size tng_i = 0;"]
            lines += self._element_of_a_thread(plan._replace(stored=[]), unit)
            lines += ["tng_acc%d = %s;" % (k, self._value(k)) for k in first]
            lines.append("}")
        lines += ["ga_size tng_from = 0;", "if (tng_length >= %d) {" % LANES]
        lines += ["%s tng_lanes%d[%d];" % (work_type(self._acc(k)), k, LANES) for k in folds]
        lines.append("for (int tng_l = 0; tng_l < %d; ++tng_l) {" % LANES)
        lines += ["tng_lanes%d[tng_l] = tng_acc%d;" % (k, k) for k in folds]
        lines += ["}", "for (; tng_from + %d <= tng_length; tng_from += %d)" % (LANES, LANES)]
        lines += ["for (int tng_l = 0; tng_l < %d; ++tng_l) {" % LANES, "const ga_size tng_i = tng_from + tng_l;"]
        lines += element
        lines += [self._combine(k, "tng_lanes%d[tng_l]" % k, self._value(k)) for k in folds]
        lines += ["}", "for (int tng_half = %d; tng_half > 0; tng_half /= 2)" % (LANES // 2)]
        lines.append("for (int tng_l = 0; tng_l < tng_half; ++tng_l) {")
        lines += [self._combine(k, "tng_lanes%d[tng_l]" % k, "tng_lanes%d[tng_l + tng_half]" % k) for k in folds]
        lines.append("}")
        lines += [self._combine(k, "tng_acc%d" % k, "tng_lanes%d[0]" % k) for k in folds]
        lines += ["}", "for (ga_size tng_i = tng_from; tng_i < tng_length; ++tng_i) {", *element]
        lines += [self._combine(k, "tng_acc%d" % k, self._value(k)) for k in folds]
        return [*lines, "}", *[self._finish(k, "tng_acc%d" % k) for k in folds]]

    # -- GPUs: the first axis of a group is along a row, the second axis counts rows -----------------------------------

    def _width(self):
        """Return the number of elements of a pack, or 1 if there are no packs."""
        moved = [*self.loop.inputs, *[self.values[k] for k in self.loop.stores]]
        dtypes = [v.dtype for v in moved if v.level == ELEMENT]
        return vector_width(dtypes, max([self._count_ops(plan) for plan in self.passes]))

    def _count_ops(self, plan):
        """Return the length of the code of a pass for one element, in elementary ops."""
        steps = [self.values[k] for k in plan.elements if k >= self.n_inputs and k not in plan.held]
        return len(plan.folds) + sum([count_ops(step.op) for step in steps if isinstance(step, Map)])

    def _at_once(self, plan, most, width):
        """Return the number of packs of each operand that a thread loads before it uses the first of them.

        `most` is the largest number, a power of two. `width` is the number of elements of a pack.
        """
        size = sum([max(4, width * np.dtype(self.values[k].dtype).itemsize) for k in self._loaded(plan)])
        while most > 1 and (most * size > _LOADED_BYTES or most * width * self._count_ops(plan) > _LOADED_OPS):
            most //= 2
        return most

    def _for_gpus(self):
        kinds = dict.fromkeys([self._acc(k) for k, s in self._steps() if isinstance(s, RowFold)])
        packs = "tng_length %% %d || tng_length >= 0x80000000u ? 0 : (ga_uint)tng_length / %d"
        lines = ["LOCAL_MEM %s tng_local_%s[%d];" % (work_type(acc), acc, GROUP) for acc in kinds]
        lines += [
            "const ga_uint tng_slot = LID_1 * LDIM_0 + LID_0;",
            "const ga_uint tng_packs = %s;" % (packs % (self.width, self.width) if self.width > 1 else "0"),
            "const ga_size tng_units = tng_packs ? tng_packs : tng_length;",
            "const ga_uint tng_active = tng_units < LDIM_0 ? (ga_uint)tng_units : LDIM_0;",
        ]
        if self.width == 1:
            return lines + self._rows_of_a_group("tng_rows", self._loop_of_elements)
        # A loop that contains barriers must not be inside a condition. Therefore one of the two loops has no rows.
        lines.append("const ga_size tng_whole = tng_packs && %s ? tng_rows : 0;" % self._is_aligned())
        lines += self._rows_of_a_group("tng_whole", self._loop_of_packs)
        return lines + self._rows_of_a_group("tng_rows - tng_whole", self._loop_of_elements)

    def _is_aligned(self):
        """Return the condition that all rows of all operands are contiguous, and begin at the beginning of a vector."""
        terms = []
        for k, x in enumerate(self.loop.inputs):
            if x.level == ELEMENT:
                pack = Pack(x.dtype, self.width)
                start = "(ga_size)tng_p%d | (ga_size)tng_r%d * %d" % (k, k, pack.size)
                terms.append("tng_s%d == 1 && ((%s) & %d) == 0" % (k, start, pack.bytes - 1))
        for o, k in enumerate(self.loop.stores):
            if self.values[k].level == ELEMENT:
                terms.append("((ga_size)tng_z%d & %d) == 0" % (o, Pack(self.values[k].dtype, self.width).bytes - 1))
        return " && ".join(terms)

    def _rows_of_a_group(self, rows, loop):
        """Return the loop over the rows of a group. `loop` returns the loop of a pass over the elements of a row."""
        lines = [
            "for (ga_size tng_base = (ga_size)GID_0 * LDIM_1; tng_base < %s; tng_base += (ga_size)GDIM_0 * LDIM_1) {"
            % rows,
            # Threads without a row compute the last row again, and store nothing.
            "const int tng_has_row = tng_base + LID_1 < tng_rows;",
            "const ga_size tng_row = tng_has_row ? tng_base + LID_1 : tng_rows - 1;",
            *self._begin_row(),
        ]
        for plan in self.passes:
            lines += [self._map(k) for k in plan.rows]
            if plan.elements:
                lines += ["{", *[self._declare_accumulator(k) for k in plan.folds]]
                lines += ["if (tng_has_row) {", *loop(plan), "}", *self._end_folds(plan), "}"]
        return [*lines, "if (tng_has_row && LID_0 == 0) {", *self._end_row(), "}", "}"]

    def _loop_of_packs(self, plan):
        """Return the loop of a pass over packs, which are loaded and stored as vectors."""
        loaded, count = self._loaded(plan), self._at_once(plan, 2, self.width)
        packs = {k: Pack(self.values[k].dtype, self.width) for k in (*loaded, *[k for k, _ in plan.stored])}
        each = ["GA_UNROLL", "for (ga_uint tng_u = 0; tng_u < %d; ++tng_u) {" % count]
        each += ["const ga_uint tng_at = tng_p + LDIM_0 * tng_u;", "if (tng_at < tng_packs) {"]
        lines = ["for (ga_uint tng_p = LID_0; tng_p < tng_packs; tng_p += LDIM_0 * %d) {" % count]
        lines += [packs[k].declare("tng_w%d[%d]" % (k, count)) for k in loaded]
        lines += [*each, *[packs[k].move("tng_w%d[tng_u]" % k, self._array(plan, k), "tng_at") for k in loaded]]
        lines += ["}", "}", *each, *[packs[k].declare("tng_x%d" % o) for k, o in plan.stored]]
        lines += ["GA_UNROLL", "for (ga_uint tng_l = 0; tng_l < %d; ++tng_l) {" % self.width]
        lines.append("const ga_size tng_i = (ga_size)tng_at * %d + tng_l;" % self.width)
        lines += self._element(plan, "tng_w%d[tng_u].e[tng_l]".__mod__, "tng_x%d.e[tng_l]".__mod__)
        lines += [*self._accumulate(plan, "tng_u == 0 && tng_l == 0 && tng_p == LID_0"), "}"]
        lines += [packs[k].move("tng_x%d" % o, "tng_y%d" % o, "tng_at", True) for k, o in plan.stored]
        return [*lines, "}", "}", "}"]

    def _loop_of_elements(self, plan):
        """Return the loop of a pass over elements, which are loaded and stored one by one.

        A thread processes the same elements as in `_loop_of_packs`, in the same order. If the row has no packs, adjacent
        threads process adjacent elements.
        """
        loaded, count = self._loaded(plan), self._at_once(plan, min(self.width, 4) if self.width > 1 else 4, 1)
        each = ["GA_UNROLL", "for (ga_uint tng_l = 0; tng_l < %d; ++tng_l) {" % count]
        each += ["const ga_size tng_i = tng_from + (ga_size)tng_next * tng_l;", "if (tng_i < tng_length) {"]
        lines = ["const ga_uint tng_next = tng_packs ? 1 : LDIM_0;"]
        lines.append("const ga_size tng_begin = tng_packs ? (ga_size)LID_0 * %d : LID_0;" % self.width)
        lines.append("for (ga_size tng_from = tng_begin; tng_from < tng_length;) {")
        lines += ["%s tng_w%d[%d];" % (element_type(self.values[k].dtype), k, count) for k in loaded]
        lines += each
        for k in loaded:
            at = "tng_i" if k in plan.held else "(ga_ssize)tng_i * tng_s%d" % k
            lines.append("tng_w%d[tng_l] = %s[%s];" % (k, self._array(plan, k), at))
        lines += ["}", "}", *each, *self._element(plan, "tng_w%d[tng_l]".__mod__, "tng_y%d[tng_i]".__mod__)]
        lines += [*self._accumulate(plan, "tng_l == 0 && tng_from == tng_begin"), "}", "}"]
        lines.append("tng_from += (ga_size)tng_next * %d;" % count)
        # Behind the end of a pack, skip the packs of the other threads.
        skipped = "(ga_size)(LDIM_0 - 1) * %d" % self.width
        lines.append("if (tng_packs && tng_from %% %d == 0) tng_from += %s;" % (self.width, skipped))
        return [*lines, "}"]

    def _array(self, plan, k):
        """Return the name of the pointer to a row of a value that a pass reads."""
        return "tng_y%d" % plan.held[k] if k in plan.held else "tng_q%d" % k

    def _accumulate(self, plan, is_first):
        """Return the statements that add an element to the accumulators of a thread.

        `is_first`: the condition that it is the first element of the thread.
        """
        lines = []
        for k in plan.folds:
            combined = self._combine(k, "tng_acc%d" % k, self._value(k))
            if self._start(k) is None:
                combined = "if (%s) tng_acc%d = %s; else %s" % (is_first, k, self._value(k), combined)
            lines.append(combined)
        return lines

    def _declare_accumulator(self, k):
        return "%s tng_acc%d = %s;" % (work_type(self._acc(k)), k, self._start(k) or "0")

    def _end_folds(self, plan):
        """Return the statements that combine the accumulators of all threads of a row."""
        lines = []
        for k in plan.folds:
            acc, local = "tng_acc%d" % k, "tng_local_%s" % self._acc(k)
            upper = "if (LID_0 < tng_step && LID_0 + tng_step < tng_active)"
            lines += [
                "{",
                "%s[tng_slot] = %s;" % (local, acc),
                "ga_uint tng_step = LDIM_0 / 2;",
                # Threads of different warps exchange values through local memory, and threads of a warp by shuffles.
                "for (; tng_step >= GA_SHUFFLED; tng_step /= 2) {",
                "local_barrier();",
                "%s {" % upper,
                self._combine(k, acc, "%s[tng_slot + tng_step]" % local),
                "%s[tng_slot] = %s;" % (local, acc),
                "}",
                "}",
                "for (; tng_step > 0; tng_step /= 2) {",
                "const %s tng_other = ga_shuffle_down(%s, tng_step);" % (work_type(self._acc(k)), acc),
                upper,
                self._combine(k, acc, "tng_other"),
                "}",
                "if (LID_0 == 0) %s[tng_slot] = %s;" % (local, acc),
                "local_barrier();",
                self._finish(k, "%s[tng_slot - LID_0]" % local),
                "local_barrier();",
                "}",
            ]
        return lines
