"""Types, which define the valid values of variables, in Python and in C.

`base` contains the interface and `Generic`, `cdata` C pointers, `enums` enumerations for op params.
"""

from theano_ng.gof import graph, ports
from theano_ng.gof.type.base import CLinkerType, Generic, PureType, SingletonType, Type, generic
from theano_ng.gof.type.cdata import CDataType, CDataTypeConstant, _cdata_type
from theano_ng.gof.type.enums import CEnumType, EnumList, EnumType
from theano_ng.gof.utils import string_types

__docformat__ = "restructuredtext en"

_make_cdata = ports.cdata_op

for _cls in (
    CDataType,
    CDataTypeConstant,
    CEnumType,
    CLinkerType,
    EnumList,
    EnumType,
    Generic,
    PureType,
    SingletonType,
    Type,
):
    # Set `__module__` of each class to the documented path, which the pickles and the repr of the class then contain.
    _cls.__module__ = __name__
del _cls

__all__ = [
    "CDataType",
    "CDataTypeConstant",
    "CEnumType",
    "CLinkerType",
    "EnumList",
    "EnumType",
    "Generic",
    "PureType",
    "SingletonType",
    "Type",
    "_cdata_type",
    "_make_cdata",
    "generic",
    "graph",
    "string_types",
]
