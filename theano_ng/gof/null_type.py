"""The type of a gradient that does not exist."""

from theano_ng.gof.type import Type


class NullType(Type):
    """A type without values, for an undefined or unimplemented derivative.

    Parameters
    ----------
    why_null : str
        The reason, shown in error messages.
    """

    def __init__(self, why_null="(no explanation given)"):
        self.why_null = why_null

    def filter(self, data, strict=False, allow_downcast=None):
        raise ValueError("No values may be assigned to a NullType: %s" % self.why_null)

    def filter_variable(self, other, allow_convert=True):
        raise ValueError("No values may be assigned to a NullType: %s" % self.why_null)

    @staticmethod
    def may_share_memory(a, b):
        return False

    @staticmethod
    def values_eq(a, b, force_same_dtype=True):
        raise ValueError("NullType has no values that could be compared")

    # All NullTypes are equal, even if their reasons (`why_null`) differ.
    def __eq__(self, other):
        return type(self) is type(other)

    def __hash__(self):
        return hash(NullType.__name__)

    def __str__(self):
        return "NullType"


null_type = NullType()
