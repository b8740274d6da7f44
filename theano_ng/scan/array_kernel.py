"""Kernels of loops whose steps contain reductions, matrix products, broadcasting or indexing. One C function contains
the loop over the steps.

Scalars are C variables. All steps use the same memory for arrays. Through pointers, the function calls the same
compiled code as the virtual machine: the kernels of `Elemwise` for elementwise operations on arrays, and native
functions of the package for reductions and products. Therefore its results have the same bits as the results of the
virtual machine, and the function itself is short and quickly compiled. If it cannot continue (an index out of bounds,
an integer division by zero, an error in a native function), it returns to the virtual machine of the step, which
repeats the step and raises the error.
"""

import numpy as np

from theano_ng.gof.utils import MethodNotDefined
from theano_ng.scan.array_nodes import NodeSource
from theano_ng.scan.array_source import Array, ArrayMemory, Layout, Unsupported, ctype
from theano_ng.scan.kernel import LoopKernel, advance_rows, declare_rows

__all__ = ["array_kernel"]

# _loop.pyx declares the same struct.
_SUPPORT = """\
typedef struct {
    int (*function)(int, int, void **, void **, const int64_t *);
    int64_t n_ins, n_outs;
    void **ins, **outs, **own;
    const int64_t *params;
} tng_helper;
typedef void (*tng_inner)(int64_t n, char **ptr, const int64_t *stride);
typedef int (*tng_box)(const int64_t *params, const int64_t *dims, const char *x, char *out);
typedef void (*tng_fold)(int64_t n, char *acc, int64_t acc_stride, const char *x, int64_t x_stride);
/* Return 1 if a native function succeeded and wrote into the given output arrays. */
TNG_INLINE int tng_use(const tng_helper *helper)
{
    if (helper->function((int)helper->n_ins, (int)helper->n_outs, helper->ins, helper->outs, helper->params))
        return 0;
    for (int64_t i = 0; i < helper->n_outs; ++i)
        if (helper->outs[i] != helper->own[i])
            return 0;
    return 1;
}
"""


def array_kernel(op, fgraph):
    """Return the kernel of a loop, or None if a step contains an operation that this module does not support.

    Parameters
    ----------
    op : Scan
    fgraph : FunctionGraph
        The rewritten graph of a step.

    Returns
    -------
    LoopKernel or None
    """
    n_sinks = op.n_outputs_before_results + op.n_nit_sot
    if op.n_shared_outs or not n_sinks:
        return None
    try:
        return _LoopSource(op, fgraph, n_sinks).kernel_of_loop()
    except (Unsupported, MethodNotDefined, NotImplementedError):
        return None


class _LoopSource(NodeSource):
    """A writer of the C source code of a loop."""

    def kernel_of_loop(self):
        op, fgraph = self.op, self.fgraph
        n_in = len(fgraph.inputs)
        outputs = fgraph.outputs[: self.n_sinks]
        operands = [*fgraph.inputs, *outputs]
        numbers = [self.check(v) for v in [*fgraph.inputs, *fgraph.outputs]]
        if op.as_while and not numbers[-1]:
            return None
        rows = {}
        for state in op.states():
            dims = self.new_lengths(fgraph.inputs[state.inner_inputs[0]])
            rows.update(dict.fromkeys(state.inner_inputs, dims))
            rows.update((n_in + o, dims) for o in state.inner_outputs)
        first_other = n_in - op.n_others
        loads = []
        for k, v in enumerate(fgraph.inputs):
            if k not in rows:
                rows[k] = self.new_lengths(v)
            name, t = "tng_p%d" % k, ctype(v)
            if k < first_other:
                place = "tng_b%d + tng_r%d * tng_s%d" % (k, k, k)
                loads.append("const %s *const %s = (const %s *)(%s);" % (t, name, t, place))
            else:
                self.setup.append("const %s *const %s = (const %s *)tng_base[%d];" % (t, name, t, k))
            if numbers[k]:
                (self.setup if k >= first_other else loads).append("const %s %s = *%s;" % (t, self.names[v], name))
            else:
                memory = tuple(i for i in rows[k] if i is not None)
                at = iter(range(len(memory)))
                shown = tuple(None if i is None else next(at) for i in rows[k])
                self.arrays[v] = Array(name, memory, shown, op.n_seqs <= k < first_other)
        for k, v in enumerate(outputs, n_in):
            loads.append("%s *const tng_p%d = (%s *)(tng_b%d + tng_r%d * tng_s%d);" % (ctype(v), k, ctype(v), k, k, k))
            if not numbers[k]:
                self.sinks.setdefault(v, k)
        for node in fgraph.toposort():
            self.add_node(node)
        stores = []
        for k, v in enumerate(outputs, n_in):
            if numbers[k]:
                stores.append("*tng_p%d = %s;" % (k, self.number(v)))
                continue
            found = self.array(v)
            if found.of_state or not found.is_plain:
                return None
            self.equate_all(rows.setdefault(k, found.dims), found.dims)
            size = "(size_t)(%s) * sizeof(%s)" % (self.product(found.memory), ctype(v))
            stores.append(
                "if ((const void *)%s != (const void *)tng_p%d) memcpy(tng_p%d, %s, %s);"
                % (found.pointer, k, k, found.pointer, size)
            )
        rows.update((k, (None,) * v.type.ndim) for k, v in enumerate(outputs, n_in) if numbers[k])
        until = self.number(fgraph.outputs[-1]) if op.as_while else None
        moving = [k for k in range(len(operands)) if k < first_other or k >= n_in]
        source = self.source(moving, loads, stores, until)
        classes = {root: i for i, root in enumerate(dict.fromkeys(map(self.find, range(len(self.parents)))))}

        def numbered(dims):
            return tuple(-1 if i is None else classes[self.find(i)] for i in dims)

        dims = tuple(numbered(rows[k]) for k in range(len(operands)))
        arrays = tuple(
            ArrayMemory(dtype, numbered(memory), order, value) for dtype, memory, order, value in self.memory
        )
        several = any(len([i for i in d if i >= 0]) > 1 for d in [*dims, *(a.dims for a in arrays)])
        layout = Layout(dims, tuple(self.fixed.get(root, -1) for root in classes), several, arrays, tuple(self.helpers))
        type_numbers = tuple(np.dtype(v.type.dtype).num for v in operands)
        return LoopKernel(
            self.kernel(source), tuple(numbers[: len(operands)]), type_numbers, layout, tuple(self.kernels)
        )

    def source(self, moving, loads, stores, until):
        """Return the source code of the function. It begins with the definitions of the lengths."""
        roots = dict.fromkeys(map(self.find, range(len(self.parents))))
        number = {root: i for i, root in enumerate(roots)}
        lines = []
        lines += [
            "int64_t KERNEL(int64_t tng_steps, const int64_t *tng_size, char **tng_base, const int64_t *tng_place,",
            "               char **const *tng_data, const tng_helper *tng_helpers, int64_t *tng_left)",
            "{",
            "    (void)tng_size, (void)tng_data, (void)tng_helpers, (void)tng_left;",
        ]
        lengths = [
            "const int64_t tng_d%d = tng_size[%d];" % (i, number[self.find(i)]) for i in range(len(self.parents))
        ]
        lines += [
            "    " + line
            for line in [*lengths, "int64_t tng_t = 0;", *declare_rows(moving), *self.constants, *self.setup]
        ]
        lines += ["    while (tng_t < tng_steps) {"]
        lines += ["        " + line for line in [*loads, *self.body, *stores, *advance_rows(moving), "++tng_t;"]]
        if until is not None:
            lines.append("        if (%s) break;" % until)
        return "\n".join([*lines, "    }", "    return tng_t;", "}"]) + "\n"

    def kernel(self, source):
        self.join(dict(language="c", headers=(), support=_SUPPORT, compile_args=(), libraries=()))
        return super().kernel('#pragma GCC diagnostic ignored "-Wunused"\n' + source)
