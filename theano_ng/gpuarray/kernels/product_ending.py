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

    def store_row(self, columns, product):
        """Return statements that compute a row of a tile and store it, for processors.

        The operands are copied to private memory first. So the loop that computes needs no strides, and the compiler can
        use vectors without comparing the addresses of the operands. The row has ``columns`` elements; the loop that
        computes has the constant length `columns`.

        Parameters
        ----------
        columns : int
        product : str
            An expression of element ``j`` of the product. The elements that do not exist are 0.
        """
        bits, out = self.code.bits, len(self.in_dtypes)
        lines = ["{"]
        for k in self.arrays:
            dtype = self.in_dtypes[k]
            lines.append("%s tng_w%d[%d] = {0};" % (work_type(dtype, bits), k, columns))
            lines += _either_stride("e%d" % k, columns, lambda at: "tng_w%d[j] = %s;" % (k, load(dtype, at, bits)))
        lines.append("%s tng_r[%d];" % (work_type(self.out_dtype, bits), columns))
        lines.append("for (ga_uint j = 0; j < %d; ++j) {" % columns)
        lines += self._compute(product, lambda k: "tng_w%d[j]" % k)
        lines += ["tng_r[j] = tng_v%d;" % out, "}"]
        lines += _either_stride("out", columns, lambda at: store(self.out_dtype, at, "tng_r[j]", bits))
        return "\n".join([*lines, "}"])

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


def _either_stride(name, columns, statement):
    """Return loops over the elements of a row of an operand, one for whole rows with a unit stride and one for others.
    ``statement(element)`` is the statement for an element.
    """
    return [
        "if (%s_n == 1 && columns == %d)" % (name, columns),
        "    for (ga_uint j = 0; j < %d; ++j) %s" % (columns, statement("%s[j]" % name)),
        "else",
        "    for (ga_uint j = 0; j < columns; ++j) %s" % statement("%s[(ga_ssize)j * %s_n]" % (name, name)),
    ]
