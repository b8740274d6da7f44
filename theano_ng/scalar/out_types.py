"""Rules that give the output types of scalar ops from their input types.

A rule is a callable that takes `Scalar` types and returns a tuple or list of `Scalar` types. Rules are part of the
identity of an op, so equal rules must compare equal and have the same hash. This is the case for functions. Rules with
parameters are objects with ``__props__``.
"""

from theano_ng.configdefaults import config
from theano_ng.gof.utils import object2
from theano_ng.scalar.types import (
    bool_,
    complex64,
    complex128,
    complex_types,
    float32,
    float64,
    get_scalar_type,
    int8,
    upcast,
)


def upcast_out(*types):
    """Return one output type: the promoted dtype of all inputs."""
    return (get_scalar_type(upcast(*[t.dtype for t in types])),)


def upcast_out_nobool(*types):
    """Return the type of `upcast_out`. Raise TypeError if it is bool."""
    result = upcast_out(*types)
    if result[0] == bool_:
        raise TypeError("bool output not supported: expected at least one input that is not bool")
    return result


def upcast_out_min8(*types):
    """Return the type of `upcast_out`. Replace bool by int8."""
    result = upcast_out(*types)
    return (int8,) if result[0] == bool_ else result


def upcast_out_no_complex(*types):
    """Return the type of `upcast_out`. Raise TypeError for complex inputs."""
    if any(t in complex_types for t in types):
        raise TypeError("complex type are not supported: got inputs of types %s" % (types,))
    return upcast_out(*types)


def same_out(type):
    """Return one output type: the type of the input."""
    return (type,)


def same_out_nobool(type):
    """Return the type of the input. Raise TypeError for bool."""
    if type == bool_:
        raise TypeError("bool input is not supported")
    return (type,)


def same_out_min8(type):
    """Return the type of the input. Replace bool by int8."""
    return (int8 if type == bool_ else type,)


def same_out_float_only(type):
    """Return the type of the input. Raise TypeError unless it is a real float."""
    if not type.dtype.startswith("float"):
        raise TypeError("only float type is supported, got %s" % type)
    return (type,)


def same_out_nocomplex(type):
    """Return the type of the input. Raise TypeError for complex."""
    if type in complex_types:
        raise TypeError("complex argument not supported, got %s" % type)
    return (type,)


def int_out_nocomplex(*types):
    """Return int64. Raise TypeError for complex inputs."""
    if any(t in complex_types for t in types):
        raise TypeError("complex argument not supported: got inputs of types %s" % (types,))
    return (get_scalar_type("int64"),)


def float_out_nocomplex(*types):
    """Return float64. Raise TypeError for complex inputs."""
    if any(t in complex_types for t in types):
        raise TypeError("complex argument not supported: got inputs of types %s" % (types,))
    return (float64,)


def int_out(*types):
    """Return int64."""
    return (get_scalar_type("int64"),)


def float_out(*types):
    """Return float64."""
    return (float64,)


def real_out(type):
    """Return the type of the real part of the input."""
    if type == complex64:
        return (float32,)
    if type == complex128:
        return (float64,)
    return (type,)


# A dict from a discrete dtype to the float dtype to which an op converts such an input: float32 for up to 16 bits, else
# float64.
_FLOAT_FOR = {
    "bool": "float32",
    "int8": "float32",
    "int16": "float32",
    "uint8": "float32",
    "uint16": "float32",
    "int32": "float64",
    "int64": "float64",
    "uint32": "float64",
    "uint64": "float64",
}


def upgrade_to_float(*types):
    """Return the promoted type of the inputs, after each discrete dtype is replaced by a float dtype (`_FLOAT_FOR`)."""
    return (get_scalar_type(upcast(*[_FLOAT_FOR.get(t.dtype, t.dtype) for t in types])),)


def upgrade_to_float_no_complex(*types):
    """Return the type of `upgrade_to_float`. Raise TypeError for complex inputs."""
    if any(t in complex_types for t in types):
        raise TypeError("complex argument not supported: got inputs of types %s" % (types,))
    return upgrade_to_float(*types)


def complex_out(*types):
    """Return the smallest complex type that can represent the inputs."""
    return (get_scalar_type(upcast("complex64", upcast(*[t.dtype for t in types]))),)


def upgrade_to_float64(*types):
    """Return the promoted type of the inputs, after each discrete or real dtype is replaced by float64, as in SciPy."""
    return (get_scalar_type(upcast(*[t.dtype if t in complex_types else "float64" for t in types])),)


class transfer_type(object2):
    """A rule that gives each output the type of a specified input.

    Parameters
    ----------
    *transfer : int, None or callable
        One item per output: the position of the input, None for the type of `upcast_out`, or a function of the tuple of
        input types.
    """

    __props__ = ("transfer",)

    def __init__(self, *transfer):
        assert all(t is None or isinstance(t, int) or callable(t) for t in transfer)
        self.transfer = transfer

    def __str__(self):
        return "transfer_type{%s}" % ", ".join(str(t) for t in self.transfer)

    def __call__(self, *types):
        upcasted = upcast_out(*types)
        result = []
        for t in self.transfer:
            if t is None:
                result.append(upcasted[0])
            elif callable(t):
                result.append(t(types)[0] if isinstance(t(types), (tuple, list)) else t(types))
            else:
                result.append(types[t])
        return result


class specific_out(object2):
    """A rule that gives the outputs fixed types, which do not depend on the inputs.

    Parameters
    ----------
    *spec : Scalar
    """

    __props__ = ("spec",)

    def __init__(self, *spec):
        self.spec = spec

    def __call__(self, *types):
        return self.spec


class unary_out_lookup(object2):
    """A rule that looks up the output type of a one-input op in a table.

    Parameters
    ----------
    type_table : dict
        A dict from an input type to an output type or a tuple of types.
    """

    __props__ = ("type_table",)

    def __init__(self, type_table):
        self.tbl = dict(type_table)

    @property
    def type_table(self):
        """The table as a tuple, which is ordered and hashable."""
        return tuple(sorted(self.tbl.items(), key=lambda item: item[0].dtype))

    def __call__(self, *types):
        if len(types) != 1:
            raise TypeError("unary_out_lookup expected one input type, got %d" % len(types))
        if types[0] not in self.tbl:
            raise TypeError("no output type is known for the input type %s" % types[0])
        result = self.tbl[types[0]]
        return result if isinstance(result, (list, tuple)) else [result]


def floatX_out(*types):
    """Return one output type, of dtype ``config.floatX``."""
    return (get_scalar_type(config.floatX),)
