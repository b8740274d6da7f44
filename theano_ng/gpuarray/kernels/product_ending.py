"""The elementwise end of a product's kernel: an operation on each element of the product before it is stored."""

from typing import NamedTuple

from theano_ng.gpuarray.kernels.elemwise import elemwise_code
from theano_ng.gpuarray.kernels.scalar_code import PROLOGUE, element_type, load, store, work_type
from theano_ng.gpuarray.pygpu import gpuarray as pygpu
from theano_ng.scalar.op import ScalarOp


class Ending(NamedTuple):
    """An elementwise operation on a product and further operands.

    In the kernel, operand k has the pointer ``ek`` and the strides ``ek_batch``, ``ek_m`` and ``ek_n``. A number is the
    argument ``tng_ak``.

    Attributes
    ----------
    op : ScalarOp
        An op with one output.
    in_dtypes : tuple of str
        The dtypes of its inputs. One of them is the product.
    out_dtype : str
    position : int
        The input of `op` that is the product.
    numbers : tuple of int
        The inputs that are passed to the kernel by value.
    """

    op: ScalarOp
    in_dtypes: tuple
    out_dtype: str
    position: int
    numbers: tuple = ()

    @property
    def code(self):
        """The `ScalarCode` of the operation."""
        return elemwise_code(self.op, self.in_dtypes, (self.out_dtype,))

    @property
    def arrays(self):
        """The inputs that are arrays, apart from the product."""
        return [k for k in range(len(self.in_dtypes)) if k != self.position and k not in self.numbers]

    @property
    def names(self):
        """The names of the operands that are arrays."""
        return ["e%d" % k for k in self.arrays]

    @property
    def support(self):
        """Source code that the kernel needs in front of it."""
        return (PROLOGUE, *self.code.support)

    @property
    def flags(self):
        """The ``GA_USE_...`` flags of the operation itself. The dtypes of the operands may need further flags."""
        return pygpu.USE_DOUBLE if self.code.doubles else 0

    def parameters(self):
        """Yield the declaration and the type of each argument of the kernel for the operands."""
        for k, dtype in enumerate(self.in_dtypes):
            if k in self.numbers:
                yield "const %s tng_a%d" % (element_type(dtype), k), dtype
            elif k != self.position:
                yield "GLOBAL_MEM char *e%d_data" % k, "*"
                yield "ga_size e%d_at" % k, "size"
                yield from (("ga_ssize e%d_%s" % (k, axis), "ssize") for axis in ("batch", "m", "n"))

    def pointers(self):
        """Return declarations of the pointers to the first element of a tile of each operand."""
        return "\n".join(
            "GLOBAL_MEM const {1} *e{0} = (GLOBAL_MEM const {1} *)(e{0}_data + e{0}_at) + (ga_ssize)which * e{0}_batch "
            "+ (ga_ssize)i0 * e{0}_m + (ga_ssize)j0 * e{0}_n;".format(k, element_type(self.in_dtypes[k]))
            for k in self.arrays
        )

    def private(self, tile, number):
        """Return the declarations of the private memory of `store_tile`. Elements beyond the result have any value."""
        bits, size = self.code.bits, tile.rows * tile.columns
        kinds = {"tng_w%d" % k: work_type(self.in_dtypes[k], bits) for k in self.arrays}
        kinds.update(tng_p=number, tng_r=work_type(self.out_dtype, bits))
        return " ".join("%s %s[%d] = {0};" % (kind, name, size) for name, kind in kinds.items())

    def store_tile(self, tile, value):
        """Return statements that compute a tile of the result and store it, for processors.

        The tile is in private memory: by rows, or by columns if the columns of the result are contiguous. The operands are
        copied to private memory, too. So the loop that computes needs no strides, and the compiler can use vectors without
        comparing the addresses of the operands.

        Parameters
        ----------
        tile : Tile
        value : callable
            ``value(sum, c)`` is the expression of an element of the product, for the expressions of its sum and of the
            element of c. ``value(sum, None)`` is the expression if c is not read.
        """
        bits, out, size = self.code.bits, len(self.in_dtypes), tile.rows * tile.columns
        lines = [
            "const ga_bool by_rows = out_n == 1 || out_m != 1;",
            "const ga_uint lines = by_rows ? rows : columns, used = by_rows ? columns : rows;",
            "const ga_uint length = by_rows ? %d : %d;" % (tile.columns, tile.rows),
            "const ga_uint along = by_rows ? 1 : %d, across = by_rows ? %d : 1;" % (tile.columns, tile.columns),
            "if (beta != 0) {",
            *_each_element("c", lambda at: "tng_p[l * length + q] = %s;" % value(_SUM, at)),
            "} else if (by_rows)",
            _LOOP % ("t", "t", size, "t") + "tng_p[t] = %s;" % value("sums[t]", None),
            "else for (ga_uint l = 0; l < lines; ++l)",
            _LOOP % ("q", "q", "used", "q") + "tng_p[l * length + q] = %s;" % value(_SUM, None),
        ]
        for k in self.arrays:
            element = lambda at: load(self.in_dtypes[k], at, bits)
            lines += _each_element("e%d" % k, lambda at: "tng_w%d[l * length + q] = %s;" % (k, element(at)))
        # whole vectors, up to the last line of the tile
        count = "(lines * length + %d) / %d * %d" % (tile.width - 1, tile.width, tile.width)
        lines.append("const ga_uint count = %s;" % (size if size % tile.width else count))
        lines.append(_LOOP % ("t", "t", "count", "t") + "{")
        lines += self._compute("tng_p[t]", lambda k: "tng_w%d[t]" % k)
        lines += ["tng_r[t] = tng_v%d;" % out, "}"]
        lines += _each_element("out", lambda at: store(self.out_dtype, at, "tng_r[l * length + q]", bits))
        return "\n".join(lines)

    def store(self, product, at):
        """Return statements that compute an element of the result and store it.

        Parameters
        ----------
        product : str
            An expression of the element of the product.
        at : callable
            ``at(name)`` is an expression of the pointer to the element of an operand or of ``out``.
        """
        bits, out = self.code.bits, len(self.in_dtypes)
        element = lambda k: load(self.in_dtypes[k], "(*(%s))" % at("e%d" % k), bits)
        lines = self._compute(product, element)
        lines.append(store(self.out_dtype, "(*(%s))" % at("out"), "tng_v%d" % out, bits))
        return "\n".join(["{", *lines, "}"])

    def _compute(self, product, element):
        """Return statements that define the result, ``tng_v`` and the number of inputs. ``element(k)`` is the expression
        of the element of operand k.
        """
        bits, lines = self.code.bits, []
        for k, dtype in enumerate(self.in_dtypes):
            if k == self.position:
                value = "ga_float2half(%s).data" % product if bits and dtype == "float16" else product
            else:
                value = load(dtype, "tng_a%d" % k, bits) if k in self.numbers else element(k)
            lines.append("const %s tng_v%d = %s;" % (work_type(dtype, bits), k, value))
        lines.append("%s tng_v%d;" % (work_type(self.out_dtype, bits), len(self.in_dtypes)))
        return [*lines, "{\n%s\n}" % self.code.body]


# A loop over vectors. Without the pragma, the compiler would unroll the loop, which takes time and does not help.
_LOOP = "\n#pragma clang loop unroll(disable)\nfor (ga_uint %s = 0; %s < %s; ++%s) "

# The sum of element ``q`` of line ``l``
_SUM = "sums[l * across + q * along]"


def _each_element(name, statement):
    """Return loops over the elements of a tile of an operand: over ``lines`` lines of ``used`` elements. There are separate
    loops for unit strides. ``statement(element)`` is the statement for an element.
    """
    return [
        "for (ga_uint l = 0; l < lines; ++l) {",
        "const ga_ssize from = (ga_ssize)l * (by_rows ? {0}_m : {0}_n), step = by_rows ? {0}_n : {0}_m;".format(name),
        "if (step == 1) {" + _LOOP % ("q", "q", "used", "q") + statement("%s[from + q]" % name),
        "} else {" + _LOOP % ("q", "q", "used", "q") + statement("%s[from + (ga_ssize)q * step]" % name),
        "} }",
    ]
