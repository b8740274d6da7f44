"""Types other than tensors that tensor graphs need: slices and None."""

import operator

import numpy as np

from theano_ng.gof.derivative import DisconnectedType
from theano_ng.gof.graph import Apply, Constant
from theano_ng.gof.native import NativeCode, NativeOp
from theano_ng.gof.op import Op
from theano_ng.gof.type import Generic, Type
from theano_ng.tensor.constant import as_tensor_variable
from theano_ng.tensor.dtypes import INTEGERS

__all__ = ["MakeSlice", "NoneConst", "NoneTypeT", "SliceConstant", "SliceType", "as_int_none_variable", "make_slice",
           "none_type_t", "slicetype"]  # fmt: skip


def as_int_none_variable(x):
    """Return `x` as a variable for the start, stop or step of a slice: `NoneConst`, or a 0-d integer tensor.

    Raises
    ------
    TypeError
        If `x` is neither None nor an integer.
    """
    if x is None:
        return NoneConst
    if NoneConst.equals(x):
        return x
    x = as_tensor_variable(x, ndim=0)
    if x.type.dtype not in INTEGERS:
        raise TypeError("index must be integers, got %s of type %s" % (x, x.type))
    return x


class MakeSlice(NativeOp, Op):
    """An Op that makes a `slice` from symbolic start, stop and step, each a 0-d integer tensor or None."""

    __props__ = ()

    def make_node(self, slc, stop=None, step=None):
        if isinstance(slc, slice):
            if stop is not None or step is not None:
                raise TypeError("MakeSlice takes either a slice, or start, stop and step.")
            fields = [slc.start, slc.stop, slc.step]
        else:
            fields = [slc, stop, step]
        return Apply(self, [as_int_none_variable(field) for field in fields], [slicetype()])

    def perform(self, node, inp, out_):
        (out,) = out_
        out[0] = slice(*[None if field is None else operator.index(field) for field in inp])

    def infer_shape(self, node, shapes):
        return [None]

    def connection_pattern(self, node):
        return [[False] for _ in node.inputs]

    def grad(self, inputs, grads):
        return [DisconnectedType()() for _ in inputs]

    def R_op(self, inputs, eval_points):
        return [None]

    def native_code(self, node):
        return NativeCode("theano_ng.tensor.native.subtensor:make_slice")


make_slice = MakeSlice()


class SliceType(Type):
    """The type of a Python `slice`."""

    def filter(self, x, strict=False, allow_downcast=None):
        """Return `x` if it is a slice. Otherwise, raise `TypeError`."""
        if isinstance(x, slice):
            return x
        raise TypeError("Expected a slice! Got %r of type %s." % (x, type(x).__name__))

    def __str__(self):
        return "slice"

    __repr__ = __str__

    def __eq__(self, other):
        return type(self) is type(other)

    def __hash__(self):
        return hash((type(self).__module__, type(self).__qualname__))

    @staticmethod
    def may_share_memory(a, b):
        """Return True if both values are the same slice object."""
        return isinstance(a, slice) and a is b

    # Theano 1.0 had no C code for slices, so the C code of users' Ops does not support slices. Therefore, if an input
    # of an Op without native code is a slice, the linker runs the method `perform` of the Op instead of its C code.
    only_in_native_code = True

    # In C code, a slice is a `PyObject *`, as for Generic.
    c_declare, c_init, c_sync, c_cleanup = Generic.c_declare, Generic.c_init, Generic.c_sync, Generic.c_cleanup

    def c_extract(self, name, sub, check_input=True):
        check = """
        if (!PySlice_Check(py_%(name)s)) {
            PyErr_Format(PyExc_TypeError, "expected a slice, not a value of type %%s", Py_TYPE(py_%(name)s)->tp_name);
            %(fail)s
        }
        """ % dict(name=name, fail=sub["fail"])
        return "%s = NULL;\n%s%s" % (
            name,
            check if check_input else "",
            Generic.c_extract(self, name, sub, check_input),
        )

    def c_code_cache_version(self):
        return (1, Generic.c_code_cache_version(self))


slicetype = SliceType()


class SliceConstant(Constant):
    """A constant slice.

    Fields that are 0-d integer arrays are converted to Python integers, so that the slice can be hashed.
    """

    def __init__(self, type, data, name=None):
        if not isinstance(data, slice):
            raise TypeError("SliceConstant expected a slice, got %r." % (data,))
        data = slice(*[_as_python_int(field) for field in (data.start, data.stop, data.step)])
        Constant.__init__(self, type, data, name)

    def signature(self):
        """Return the class and the fields as a tuple. Equal constants have equal signatures."""
        return (SliceConstant, self.data.start, self.data.stop, self.data.step)

    def __str__(self):
        name = getattr(self, "name", None)
        fields = "slice{%s, %s, %s}" % (self.data.start, self.data.stop, self.data.step)
        return name if name is not None else "Constant{%s}" % fields


def _as_python_int(field):
    if isinstance(field, (np.ndarray, np.integer)):
        if field.ndim or field.dtype.kind not in "iu":
            raise TypeError("The field of a slice must be an integer or None, got %r." % (field,))
        return int(field)
    return field


SliceType.Constant = SliceConstant


class NoneTypeT(Generic):
    """The type whose only value is None. It inherits its C code from `Generic`."""

    def filter(self, x, strict=False, allow_downcast=None):
        """Return None if `x` is None. Otherwise, raise `TypeError`."""
        if x is None:
            return x
        raise TypeError("Expected None! Got %r of type %s." % (x, type(x).__name__))

    @staticmethod
    def may_share_memory(a, b):
        """Return False, because None has no memory."""
        return False


none_type_t = NoneTypeT()

# The constant that represents None among the inputs of a node. Compare a variable x by `NoneConst.equals(x)`, not by
# `is`, because unpickled graphs contain a copy of the constant.
NoneConst = Constant(none_type_t, None, name="NoneConst")
