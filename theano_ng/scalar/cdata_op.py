"""The Op that converts an integer to a C pointer, for `CDataType.make_value`."""

from theano_ng.gof import ports
from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.gof.type import CDataType
from theano_ng.scalar.ops_complex import Cast
from theano_ng.scalar.types import as_scalar, int64


class MakeCData(Op):
    """An Op that converts an integer address to a value of a CDataType.

    Parameters
    ----------
    rtype : CDataType
    """

    __props__ = ("rtype",)

    def __init__(self, rtype):
        if not isinstance(rtype, CDataType):
            raise TypeError("rtype must be a CDataType, not %r" % (rtype,))
        self.rtype = rtype

    def compiled(self):
        """Return a compiled function that applies the Op to an integer."""
        address = int64()
        return ports.compile_function([address], self(address), mode=None, profile=False)

    def do_constant_folding(self, node):
        return False

    def make_node(self, val):
        val = as_scalar(val)
        if val.type.dtype not in ("int64", "uint64"):
            val = Cast(int64)(val)
        return Apply(self, [val], [self.rtype()])

    def c_code(self, node, name, inputs, outputs, sub):
        return "%s = (%s)(npy_intp)%s;" % (outputs[0], self.rtype.ctype, inputs[0])

    def c_code_cache_version(self):
        version = self.rtype.c_code_cache_version()
        return (1, version) if version else ()
