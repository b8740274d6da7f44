"""A writer of the source code of the nodes of a step, for kernels of `array_kernel`."""

import numpy as np

from theano_ng.compile.ops import Rebroadcast, Shape_i, ViewOp
from theano_ng.gof.graph import Constant
from theano_ng.gof.native import native_code_of, native_function
from theano_ng.gof.provenance import is_from_package
from theano_ng.loops.kernel import elemwise_kernel
from theano_ng.scalar.types import c_type
from theano_ng.scan.array_source import BAIL_OUT, Array, ArraySource, BoxHelper, FoldHelper, Unsupported, ctype
from theano_ng.scan.backward import CHEAP
from theano_ng.scan.kernel import is_number, separated
from theano_ng.tensor.blas.ops import Gemv, Ger
from theano_ng.tensor.constant import constant
from theano_ng.tensor.dtypes import BLAS_DTYPES
from theano_ng.tensor.elemwise.divisors import integer_divisors
from theano_ng.tensor.elemwise.kernel import elemwise_program
from theano_ng.tensor.elemwise.op import DimShuffle, Elemwise
from theano_ng.tensor.indexing.index_lists import get_idx_list
from theano_ng.tensor.indexing.subtensor import IncSubtensor, Subtensor
from theano_ng.tensor.linalg.products import Dot
from theano_ng.tensor.reductions.careduce import CAReduce
from theano_ng.tensor.reductions.extremes import Argmax, MaxAndArgmax
from theano_ng.tensor.reductions.fused import ONE_SUM, ReducedElemwise
from theano_ng.tensor.reductions.row_program import RowProgram
from theano_ng.tensor.shaping.allocation import Alloc, AllocEmpty
from theano_ng.tensor.shaping.reshaping import ScalarFromTensor, TensorFromScalar

__all__ = ["NodeSource"]

# Size limits of the reductions for which this module writes C code. Up to these limits, native/reductions/reduce.c adds
# elements without pairwise splitting, or in one block. So the written code computes the same bits as reduce.c.
_UNHALVED, _LEAF, _BLOCK_BYTES, _COLUMNS = 2048, 4096, 32768, 1024


class NodeSource(ArraySource):
    """A writer of the source code of nodes. It has one method for each kind of node."""

    def add_node(self, node):
        """Write the code of a node. Reject Op classes of other packages, because a subclass may compute something else
        than the class of this package from which it is derived.
        """
        if not is_from_package(type(node.op)):
            raise Unsupported
        for v in (*node.inputs, *node.outputs):
            self.check(v)
        if getattr(node.op, "keeps_shape", False):
            return self.like_input(node)
        for kind, write in _WRITERS.items():
            if isinstance(node.op, kind):
                return write(self, node)
        raise Unsupported

    def on_numbers(self, node):
        """Write the code of an elementwise operation on scalars. Return False if it may fail or needs Python."""
        dtypes = [[v.type.dtype for v in variables] for variables in (node.inputs, node.outputs)]
        part = self.write(node.op.scalar_op, *dtypes, [self.number(v) for v in node.inputs])
        if part is None:
            return False
        self.names.update(zip(node.outputs, part.results))
        self.body += ["%s %s;" % (ctype, name) for name, ctype in part.results.items()]
        self.body += ["{", part.text, "}", *separated(part)]
        return True

    def elemwise(self, node):
        numbers, scalar_op = all(map(is_number, node.outputs)), node.op.scalar_op
        if numbers and self.on_numbers(node):
            return
        divisors = integer_divisors(node)
        kernel, needs_python = elemwise_kernel(elemwise_program(node, divisors))
        if needs_python:
            raise Unsupported
        sources = [None if is_number(v) else self.array(v) for v in node.inputs]
        dims = self.broadcast(node.outputs[0], sources)
        if not isinstance(scalar_op, CHEAP) and len(self.loops(dims, [s for s in sources if s is not None])) > 1:
            # The operation needs nested loops. Call native/elementwise/elemwise.c, which chooses the loops, because
            # other loops may round differently.
            plain = Elemwise(scalar_op).make_node(*node.inputs)
            self.call_native(node, native_code_of(plain), [dims for _ in node.outputs])
            return
        results = (
            [(self.declare(v), ctype(v)) for v in node.outputs]
            if numbers
            else [self.result(v, dims) for v in node.outputs]
        )
        self.call(node, kernel, sources, dims, results, divisors)

    # -- views and lengths

    def dimshuffle(self, node):
        (v,), (out,) = node.inputs, node.outputs
        if is_number(v):
            if not is_number(out):
                raise Unsupported
            self.names[out] = self.number(v)
            return
        source = self.array(v)
        shown = tuple(None if i == "x" else source.shown[i] for i in node.op.new_order)
        self.arrays[out] = source._replace(shown=shown)

    def same(self, node):
        (v,), (out,) = node.inputs, node.outputs
        if is_number(v) != is_number(out):
            raise Unsupported
        if is_number(v):
            self.names[out] = self.number(v)
        else:
            self.arrays[out] = self.array(v)

    def same_number(self, node):
        self.names[node.outputs[0]] = self.number(node.inputs[0])

    def length_of(self, node):
        (v,) = node.inputs
        length = None if is_number(v) else self.array(v).dims[node.op.i]
        name = self.names[node.outputs[0]] = "tng_z%d" % len(self.names)
        self.body.append("const npy_int64 %s = %s;" % (name, 1 if length is None else "tng_d%d" % length))
        self.lengths_of_numbers[node.outputs[0]] = length

    def alloc_empty(self, node):
        (out,) = node.outputs
        if is_number(out):
            raise Unsupported
        self.arrays[out] = self.new_array(out, self.allocated(out, node.inputs))

    def allocated(self, out, lengths):
        dims = []
        for v, b in zip(lengths, out.type.broadcastable):
            if b:
                dims.append(None)
            elif isinstance(v, Constant):
                dims.append(self.new_length(int(v.data)))
            elif self.lengths_of_numbers.get(v) is not None:
                dims.append(self.lengths_of_numbers[v])
            else:
                raise Unsupported
        return dims

    def alloc(self, node):
        (out,), value = node.outputs, node.inputs[0]
        if is_number(out) or not is_number(value):
            raise Unsupported
        made = self.result(out, self.allocated(out, node.inputs[1:]))
        self.body.append(
            "for (int64_t tng_i = 0; tng_i < %s; ++tng_i) %s[tng_i] = %s;"
            % (self.product(made.memory), made.pointer, self.number(value))
        )

    # -- indices

    def indices(self, node, n_before, source):
        """Return, for each dimension, the C name of a checked index, or None for a full slice."""
        found = []
        for index in get_idx_list(node.inputs[:1] + node.inputs[n_before:], node.op.idx_list):
            d = len(found)
            if isinstance(index, slice):
                if index != slice(None):
                    raise Unsupported
                found.append(None)
                continue
            if source.dims[d] is None:
                raise Unsupported
            if isinstance(index, (int, np.integer)):
                value = str(int(index))
            else:
                if index.type.dtype not in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"):
                    raise Unsupported
                value = self.number(index)
            name = "tng_x%d" % len(self.body)
            self.body += [
                "int64_t %s = (int64_t)%s;" % (name, value),
                "if (%s < 0) %s += tng_d%d;" % (name, name, source.dims[d]),
                "if (%s < 0 || %s >= tng_d%d) %s" % (name, name, source.dims[d], BAIL_OUT),
            ]
            found.append(name)
        return found + [None] * (len(source.dims) - len(found))

    @staticmethod
    def leading(indices, source):
        """Return the number of indexed dimensions if these are the leading dimensions. Otherwise return None."""
        n = sum(i is not None for i in indices)
        if not source.is_plain or None in indices[:n]:
            return None
        return n

    def offset(self, indices, source):
        """Return the offset of the selected element, or of the first selected element, as a number of elements."""
        terms = []
        for d, index in enumerate(indices):
            if index is not None:
                terms.append("%s * (%s)" % (index, self.product(source.memory[source.shown[d] + 1 :])))
        return " + ".join(terms) or "0"

    def subtensor(self, node):
        (out,), v = node.outputs, node.inputs[0]
        source = self.array(v)
        indices = self.indices(node, 1, source)
        start = "%s + %s" % (source.pointer, self.offset(indices, source))
        kept = [d for d, index in enumerate(indices) if index is None]
        if is_number(out) and all(source.dims[d] is None for d in kept):
            name = self.names[out] = "tng_z%d" % len(self.names)
            self.body.append("const %s %s = *(%s);" % (ctype(out), name, start))
            return
        n = self.leading(indices, source)
        if n is not None:
            name = "tng_y%d" % len(self.body)
            self.body.append("const %s *const %s = %s;" % (ctype(out), name, start))
            memory = source.memory[n:]
            shown = tuple(None if source.shown[d] is None else source.shown[d] - n for d in kept)
            self.arrays[out] = Array(name, memory, shown, source.of_state)
            return
        dims = [source.dims[d] for d in kept]
        made = self.result(out, dims)
        strides = [self.product(source.memory[source.shown[d] + 1 :]) for d in kept if source.shown[d] is not None]
        loops = [i for i in dims if i is not None]
        for k, length in enumerate(loops):
            self.body.append("for (int64_t tng_i%d = 0; tng_i%d < tng_d%d; ++tng_i%d)" % (k, k, length, k))
        to = " + ".join("tng_i%d * (%s)" % (k, self.product(loops[k + 1 :])) for k in range(len(loops)))
        come = " + ".join("tng_i%d * (%s)" % (k, stride) for k, stride in enumerate(strides))
        self.body.append("    %s[%s] = (%s)[%s];" % (made.pointer, to, start, come))

    def inc_subtensor(self, node):
        op, (out,), (v, y) = node.op, node.outputs, node.inputs[:2]
        source = self.array(v)
        indices = self.indices(node, 2, source)
        n = self.leading(indices, source)
        same = (
            v.type.dtype == y.type.dtype != "bool"
            or v.type.dtype.startswith("float")
            and y.type.dtype.startswith("float")
        )
        if n is None or not same:
            raise Unsupported
        rest = source.memory[n:]
        if is_number(y):
            value = self.number(y)
        else:
            row = self.array(y)
            if not row.is_plain or len(row.memory) != len(rest):
                raise Unsupported
            self.equate_all(row.memory, rest)
            value = row.pointer + "[tng_i]"
        made = self.result(out, source.dims)
        size = self.product(source.memory)
        self.body += [
            "for (int64_t tng_i = 0; tng_i < %s; ++tng_i) %s[tng_i] = %s[tng_i];"
            % (size, made.pointer, source.pointer),
            "for (int64_t tng_i = 0; tng_i < %s; ++tng_i) %s[%s + tng_i] %s %s;"
            % (
                self.product(rest),
                made.pointer,
                self.offset(indices, source),
                "=" if op.set_instead_of_inc else "+=",
                "(%s)%s" % (ctype(out), value),
            ),
        ]

    # -- reductions and products

    def reduced(self, node):
        (v,), (out,), op = node.inputs, node.outputs, node.op
        source, axes = self.array(v), op._axes(v.type.ndim)
        code = native_code_of(node)
        params = op._builtin_params(v.type.dtype, out.type.dtype, v.type.ndim)
        everything = len(axes) == v.type.ndim and params is not None
        accumulator, result = (params["accumulator_type"], params["result_type"]) if everything else (None, None)
        double = np.dtype("float64").num, np.dtype("float32").num
        if params is not None and not (everything or is_number(out) or None in source.dims or not source.is_plain):
            if params["accumulator_type"] == params["result_type"]:
                self.reduced_along(out, source, axes, params)
                return
        if not everything or (accumulator, result) != double and accumulator != result:
            self.call_native(node, code, self.without(axes, source.dims, node))
            return
        name, count, t = (
            self.declare(out),
            self.product(source.memory),
            "double" if accumulator == double[0] else ctype(out),
        )
        k = len(self.helpers)
        self.helpers.append(
            FoldHelper(
                params["operation"],
                params["element_type"],
                accumulator,
                params["identity"] if params["has_identity"] else b"",
            )
        )
        self.body += [
            "if (%s <= %d) {" % (count, _UNHALVED),
            "%s tng_acc;" % t,
            "memcpy(&tng_acc, tng_helpers[%d].params, sizeof tng_acc);" % k,
            "((tng_fold)tng_helpers[%d].function)(%s, (char *)&tng_acc, 0, (const char *)%s, (int64_t)sizeof(%s));"
            % (k, count, source.pointer, ctype(v)),
            "%s = (%s)tng_acc;" % (name, ctype(out)),
            "} else {",
        ]
        self.call_native(node, code, [()], declare=False)
        self.body.append("}")

    def reduced_along(self, out, source, axes, params):
        """Write a reduction along some axes."""
        packed = native_function("theano_ng.tensor.native.reduce:reduce").record.pack(
            {**params, "kernel": 0, "openmp_minsize": 0}
        )
        made = self.result(out, [i for d, i in enumerate(source.dims) if d not in axes])
        self.body.append(
            "{ const int64_t tng_n[] = {%s}; if (((tng_box)tng_helpers[%d].function)(tng_helpers[%d].params, tng_n, (const char *)%s, (char *)%s)) %s }"
            % (
                ", ".join("tng_d%d" % i for i in source.dims),
                len(self.helpers),
                len(self.helpers),
                source.pointer,
                made.pointer,
                BAIL_OUT,
            )
        )
        self.helpers.append(BoxHelper(tuple(packed)))

    def row_program(self, node):
        """Write the code of the nodes in a `RowProgram`, one after the other."""
        op, values = node.op, list(node.inputs)
        for inner in op.nodes(node.inputs):
            values += inner.outputs
        made = [values[k] for k in op.outputs]
        for v, out in zip(made, node.outputs):
            if out in self.sinks:
                self.sinks[v] = self.sinks.pop(out)
        for v in values[len(node.inputs) :]:
            self.add_node(v.owner)
        for v, out in zip(made, node.outputs):
            for where in (self.names, self.arrays):
                if v in where:
                    where[out] = where[v]

    def reduced_elemwise(self, node):
        op, (out,) = node.op, node.outputs
        inner = op.elemwise.make_node(*node.inputs)
        (between,) = inner.outputs
        sources = [None if is_number(v) else self.array(v) for v in node.inputs]
        dims = self.broadcast(between, sources)
        code = native_code_of(node)
        if code is None:
            raise Unsupported
        lengths = [i for i in dims if i is not None]
        whole = any(s is not None and self.is_full(s, dims) for s in sources)
        if whole and code.params.get("folds") != ONE_SUM:
            if "folds" in code.params:  # bail out for larger arrays, because reduce_elemwise.h reduces them blockwise
                limits = ["%s > %d / (int64_t)sizeof(%s)" % (self.product(lengths), _BLOCK_BYTES, ctype(between))]
                limits += ["tng_d%d > %d" % (i, _COLUMNS) for i in lengths]
                self.setup.append("if (%s) %s" % (" || ".join(limits), BAIL_OUT))
            outer = op.reduction.make_node(between)
            self.elemwise(inner)
            self.reduced(outer)
            (made,) = outer.outputs
            for where in (self.names, self.arrays):
                if made in where:
                    where[out] = where[made]
        elif whole and len(self.loops(dims, [s for s in sources if s is not None])) == 1:
            self.setup.append("if (%s > %d) %s" % (self.product(lengths), _LEAF, BAIL_OUT))
            t = c_type(op.reduction._acc_dtype(between.type.dtype))
            name = "tng_acc%d" % len(self.body)
            self.body.append("%s %s = 0;" % (t, name))
            divisors = integer_divisors(inner)
            self.call(inner, code.params["kernel"], sources, dims, [(name, t)], divisors)
            self.body.append("%s = (%s)%s;" % (self.declare(out), ctype(out), name))
        else:
            self.call_native(node, code, self.without(op.reduction._axes(between.type.ndim), dims, node))

    @staticmethod
    def is_full(source, dims):
        return [i is None for i in source.dims] == [i is None for i in dims]

    def argmax(self, node):
        (v,) = node.inputs
        axes = range(v.type.ndim) if node.op.axis is None else node.op.axis
        self.call_native(node, native_code_of(node), self.without(axes, self.array(v).dims, node))

    @staticmethod
    def without(axes, dims, node):
        axes = set(axes)
        return [[i for d, i in enumerate(dims) if d not in axes] for _ in node.outputs]

    def like_input(self, node):
        self.call_native(node, native_code_of(node), [self.array(node.inputs[0]).dims])

    def matrix_by_vector(self, node):
        y, _, a, x, _ = node.inputs
        op = type(node.op)(inplace=False)
        y, a, x = [self.array(v).dims for v in (y, a, x)]
        self.equate_all(a, (y[0], x[0]))
        self.call_native(node, native_code_of(op.make_node(*node.inputs)), [y])

    def outer_product(self, node):
        a, _, x, y = node.inputs
        op = type(node.op)(destructive=False)
        a, x, y = [self.array(v).dims for v in (a, x, y)]
        self.equate_all(a, (x[0], y[0]))
        self.call_native(node, native_code_of(op.make_node(*node.inputs)), [a])

    def dot(self, node):
        x, y = [self.array(v).dims for v in node.inputs]
        if len(x) + len(y) not in (2, 3):
            raise Unsupported
        self.equate_all(x[-1:], y[:1])
        if len(x) + len(y) == 2:
            # For two vectors, native/linalg/blas.c allocates arrays in each call. `row_by_vector` writes code for the
            # same operations without these allocations. Integers and mixed dtypes are rejected, because
            # native/linalg/numpy_functions.c computes their product.
            dtypes = {v.type.dtype for v in node.inputs}
            if len(dtypes) > 1 or not dtypes.issubset(BLAS_DTYPES):
                raise Unsupported
            self.row_by_vector(*node.inputs, *node.outputs)
            return
        self.call_native(node, native_code_of(node), [[*x[:-1], *y[1:]]])

    def row_by_vector(self, x, y, out):
        row = DimShuffle((False,), ("x", 0))(x)
        self.dimshuffle(row.owner)
        start = AllocEmpty(out.type.dtype)(1)
        self.names[start] = "0"
        one, zero = (constant(np.asarray(n, out.type.dtype)) for n in (1, 0))
        product = Gemv(inplace=False)(start, one, row, y, zero)
        self.call_native(product.owner, native_code_of(product.owner), [[None]])
        self.names[out] = self.names[product]


# Class of an Op -> the method that writes the C code of its nodes.
_WRITERS = {
    Elemwise: NodeSource.elemwise,
    DimShuffle: NodeSource.dimshuffle,
    ScalarFromTensor: NodeSource.same_number,
    TensorFromScalar: NodeSource.same_number,
    Rebroadcast: NodeSource.same,
    ViewOp: NodeSource.same,
    Shape_i: NodeSource.length_of,
    AllocEmpty: NodeSource.alloc_empty,
    Alloc: NodeSource.alloc,
    Subtensor: NodeSource.subtensor,
    IncSubtensor: NodeSource.inc_subtensor,
    CAReduce: NodeSource.reduced,
    ReducedElemwise: NodeSource.reduced_elemwise,
    RowProgram: NodeSource.row_program,
    MaxAndArgmax: NodeSource.argmax,
    Argmax: NodeSource.argmax,
    Gemv: NodeSource.matrix_by_vector,
    Ger: NodeSource.outer_product,
    Dot: NodeSource.dot,
}
