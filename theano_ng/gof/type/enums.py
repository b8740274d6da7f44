"""Types of op params that are named constants, in Python and in C."""

from __future__ import annotations

import numbers
import re
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np

from theano_ng.configdefaults import config
from theano_ng.gof.type.base import Type


class EnumType(Type, dict):
    """A type of named constants, for op params only. The constants are attributes in Python and macros in C.

    Parameters
    ----------
    **kwargs
        ``NAME=value`` or ``NAME=(alias, value)``. ``(value, alias)`` is also accepted. A name begins with a capital
        letter and consists of capital letters, digits and underscores. A value is an int, a float or a bool (which
        becomes an int). An alias is a string, for Python code only.
    ctype : str, optional
        The C type of the param. By default, 'double'.
    cname : str, optional
        The C name of the enumeration. By default, it is `ctype` with blanks replaced by underscores.

    Raises
    ------
    AttributeError
        For an invalid name, alias or cname.
    TypeError
        For an invalid value, or an alias that appears twice or is the name of a constant.

    Examples
    --------
    >>> enum = EnumType(A=('alpha', 1), B=2.5, C=True)
    >>> enum.A, enum.fromalias('alpha'), enum.C
    (1, 1, 1)
    >>> enum.filter('alpha')
    1
    """

    _default_ctype = "double"

    def __init__(self, **kwargs: Any) -> None:
        self.ctype = kwargs.pop("ctype", self._default_ctype)
        self.cname = kwargs.pop("cname", "_".join(self.ctype.split()))
        if not (self.cname.isascii() and self.cname.isidentifier()):
            raise AttributeError(
                '%s: cname "%s" is not a valid C identifier; give the enumeration a name by cname=...'
                % (type(self).__name__, self.cname)
            )
        self.aliases: dict[str, str] = {}
        constants = {}
        for name, value in kwargs.items():
            if not (name.isascii() and name.isidentifier() and name.isupper() and name[0] != "_"):
                raise AttributeError(
                    '%s: invalid constant name "%s": it has to begin with a capital letter and to hold only capital letters, digits'
                    " and underscores" % (type(self).__name__, name)
                )
            if isinstance(value, (list, tuple)):
                if len(value) != 2:
                    raise TypeError(
                        "%s: when using a tuple to define a constant, your tuple should contain 2 values: alias and value,"
                        " not %r" % (type(self).__name__, value)
                    )
                # Accept (alias, value) and (value, alias), because the documentation uses both orders. The alias is the
                # string, because values are never strings.
                alias, value = value if isinstance(value[0], str) else reversed(value)
                if not isinstance(alias, str):
                    raise TypeError("%s: constant alias should be a string, got %r." % (type(self).__name__, alias))
                if alias == name:
                    raise TypeError(
                        "%s: it is useless to create an alias with the same name as its associated constant (%s)."
                        % (type(self).__name__, name)
                    )
                if alias in self.aliases:
                    raise TypeError('%s: constant alias "%s" already used.' % (type(self).__name__, alias))
                self.aliases[alias] = name
            if isinstance(value, np.generic):
                value = value.item()
            if isinstance(value, bool):
                value = int(value)
            if not isinstance(value, (int, float)):
                raise TypeError(
                    "%s: constant %s: expected integer or floating value, got %r." % (type(self).__name__, name, value)
                )
            if isinstance(value, int) and not -(2**63) <= value < 2**64:
                raise TypeError("%s: constant %s: no C integer holds %d." % (type(self).__name__, name, value))
            constants[name] = value
        for alias in self.aliases:
            if alias in constants:
                raise TypeError('%s: constant alias "%s" is the name of a constant.' % (type(self).__name__, alias))
        dict.__init__(self, constants)

    def __getattr__(self, key: str) -> Any:
        if key in self:
            return self[key]
        raise AttributeError(
            "%s: no constant or attribute %s; constants: %s" % (type(self).__name__, key, ", ".join(sorted(self)))
        )

    def __setattr__(self, key: str, value: Any) -> None:
        if dict.__contains__(self, key):
            raise AttributeError("constant values are immutable.")
        Type.__setattr__(self, key, value)

    def _immutable(self, *args: Any, **kwargs: Any) -> Any:
        raise AttributeError("constant values are immutable.")

    __setitem__ = __delitem__ = update = clear = pop = popitem = setdefault = _immutable

    def __reduce__(self) -> Any:
        return _rebuild_enum, (type(self), dict(self), dict(self.aliases), dict(self.__dict__))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def _key(self) -> tuple[Any, ...]:
        return (self.ctype, self.cname, self._value_key(), tuple(sorted(self.aliases.items())))

    def _value_key(self) -> tuple[Any, ...]:
        # Use the repr of each value, because the keys of 1 and 1.0 must differ, as in C, and NaN must equal itself.
        return tuple((name, repr(self[name])) for name in sorted(self))

    def __hash__(self) -> int:  # type: ignore[override]
        return hash((type(self).__name__, *self._key()))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._key() == other._key()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __repr__(self) -> str:
        names_to_aliases = {name: alias for alias, name in self.aliases.items()}
        return "%s<%s>(%s)" % (
            type(self).__name__,
            self.ctype,
            ", ".join(
                "%s%s:%s" % (name, "(%s)" % names_to_aliases[name] if name in names_to_aliases else "", self[name])
                for name in sorted(self)
            ),
        )

    __str__ = __repr__

    # An enum without constants is an empty dict, but it must be true like any other type.
    def __bool__(self) -> bool:
        return True

    def has_alias(self, alias: str) -> bool:
        """Return True if this enum has this alias."""
        return alias in self.aliases

    def get_aliases(self) -> tuple[str, ...]:
        """Return the sorted tuple of all aliases."""
        return tuple(sorted(self.aliases))

    def fromalias(self, alias: str) -> int | float:
        """Return the value for an alias. If no constant has this alias, return the value of the constant with this
        name.

        Raises
        ------
        KeyError
        """
        name = self.aliases.get(alias, alias)
        if name not in self:
            raise KeyError(
                "%s: no constant has the alias or name %r; aliases: %s; constants: %s"
                % (type(self).__name__, alias, ", ".join(self.get_aliases()) or "none", ", ".join(sorted(self)))
            )
        return self[name]

    def filter(self, data: Any, strict: bool = False, allow_downcast: bool | None = None) -> int | float:
        """Return the value of the constant that `data` stands for.

        Parameters
        ----------
        data : int, float or str
            A value. If `strict` is False, also an alias, the name of a constant, or a number of another class (bool or
            a NumPy scalar) that equals a constant.
        strict : bool
        allow_downcast : bool, optional
            It has no effect, because no conversion loses information.

        Raises
        ------
        TypeError
            If no constant has this value, name or alias.
        """
        if not strict:
            if isinstance(data, str) and (data in self.aliases or data in self):
                return self.fromalias(data)
            if isinstance(data, (numbers.Number, np.generic)):
                for value in self.values():
                    if self.values_eq(value, data):
                        return value
        elif isinstance(data, (int, float)) and any(self.values_eq(data, value) for value in self.values()):
            return data
        raise TypeError(
            "%s: expected one of the values %s%s, got %r"
            % (
                type(self).__name__,
                sorted(set(self.values())),
                " or aliases %s" % (self.get_aliases(),) if self.aliases else "",
                data,
            )
        )

    def values_eq(self, a: Any, b: Any) -> bool:
        return bool(a == b or (a != a and b != b))

    def values_eq_approx(self, a: Any, b: Any) -> bool:
        # Compare integers exactly, and floats with a small tolerance, so that constants with close values differ.
        if isinstance(a, int) and isinstance(b, int):
            return a == b
        return self.values_eq(a, b) or abs(a - b) <= 1e-8 * max(abs(a), abs(b)) < float("inf")

    def _names(self) -> list[str]:
        """Return the names of the constants in the order in which they are written to C code."""
        return sorted(self)

    def c_to_string(self) -> str:
        """Return C code that defines ``int theano_enum_to_string_<cname>(<ctype> value, char* output_string)``.

        The function writes the name of the constant. For an unknown value, it sets a ValueError and returns a nonzero
        value.
        """
        cases = "\n".join(
            '    if (%s) { strcpy(output_string, "%s"); return 0; }'
            % ("value != value" if self[name] != self[name] else "value == %s" % name, name)
            for name in self._names()
        )
        return """
static int theano_enum_to_string_%(cname)s(%(ctype)s value, char* output_string) {
%(cases)s
    PyErr_SetString(PyExc_ValueError, "%(classname)s: unknown enumeration value.");
    return 1;
}
""" % dict(cname=self.cname, ctype=self.ctype, cases=cases, classname=re.sub(r"\W", "_", type(self).__name__))

    def c_support_code(self) -> str:
        text = "".join("\n#define %s %s\n" % (name, _c_number(self[name])) for name in self._names())
        return text + self._c_to_string_if_debug()

    def _c_to_string_if_debug(self) -> str:
        return self.c_to_string() if config.cmodule.debug else ""

    def c_declare(self, name: str, sub: dict[str, str], check_input: bool = True) -> str:
        return "%s %s;" % (self.ctype, name)

    def c_init(self, name: str, sub: dict[str, str]) -> str:
        return "%s = (%s)0;" % (name, self.ctype)

    def c_cleanup(self, name: str, sub: dict[str, str]) -> str:
        return ""

    def c_extract(self, name: str, sub: dict[str, str], check_input: bool = True) -> str:
        return """
        if (PyLong_Check(py_%(name)s)) {
            int overflow_%(name)s = 0;
            %(name)s = (%(ctype)s)PyLong_AsLongLongAndOverflow(py_%(name)s, &overflow_%(name)s);
            if (overflow_%(name)s > 0)
                %(name)s = (%(ctype)s)PyLong_AsUnsignedLongLong(py_%(name)s);
        } else {
            %(name)s = (%(ctype)s)PyFloat_AsDouble(py_%(name)s);
        }
        if (PyErr_Occurred()) {
            %(fail)s
        }
        """ % dict(ctype=self.ctype, name=name, fail=sub["fail"])

    def c_code_cache_version(self) -> tuple[Any, ...]:
        return (4, self.ctype, self.cname, self._value_key())


def check_enum_constants(types: Iterable[Any]) -> None:
    """Raise an error if one macro would have two values in a module, because C would use the last value for all nodes.

    Parameters
    ----------
    types : iterable
        Types. Enums are searched among them, and among the fields of types that bundle other types.

    Raises
    ------
    ValueError
    """
    owners: dict[str, EnumType] = {}
    for kind in types:
        for enum in (kind, *(getattr(kind, "types", ()) if isinstance(kind, Type) else ())):
            if not isinstance(enum, EnumType) or isinstance(enum, CEnumType):
                continue
            for name in enum:
                other = owners.setdefault(name, enum)
                if repr(other[name]) != repr(enum[name]):
                    raise ValueError(
                        "The constant %s of two enums has different values in one C module: %s and %s. Rename one of them, or "
                        "use a linker that makes a module for every node (cvm, vm, c|py)." % (name, other, enum)
                    )


def _c_number(value: int | float) -> str:
    """Return a constant's value as a C expression. A negative value is in parentheses."""
    if isinstance(value, float):
        return {"inf": "INFINITY", "-inf": "(-INFINITY)", "nan": "NAN"}.get(
            repr(value), "(%r)" % value if value < 0 else repr(value)
        )
    if value == -(2**63):  # C has no negative literals, and the positive literal does not fit
        return "(-9223372036854775807LL - 1)"
    suffix = "" if abs(value) < 2**31 else "LL" if value < 2**63 else "ULL"
    return ("(%d%s)" if value < 0 else "%d%s") % (value, suffix)


def _rebuild_enum(
    cls: type[EnumType], constants: dict[str, Any], aliases: dict[str, str], attributes: dict[str, Any]
) -> EnumType:
    enum = cls.__new__(cls)
    dict.__init__(enum, constants)
    for name, value in attributes.items():
        object.__setattr__(enum, name, value)
    object.__setattr__(enum, "aliases", aliases)
    return enum


class EnumList(EnumType):
    """A type of named constants whose values are their positions, beginning with 0.

    Parameters
    ----------
    *args : str or (str, str)
        ``'NAME'`` or ``('NAME', 'alias')``.
    ctype : str, optional
        By default, 'int'.
    cname : str, optional

    Examples
    --------
    >>> enum = EnumList('A', ('B', 'beta'), 'C')
    >>> enum.B, enum.fromalias('beta')
    (1, 1)
    """

    _default_ctype = "int"

    def __init__(self, *args: str | Sequence[str], **kwargs: Any) -> None:
        unexpected = sorted(set(kwargs) - {"ctype", "cname"})
        if unexpected:
            raise TypeError(
                "%s: expected only keyword arguments ctype and cname, got %s" % (type(self).__name__, unexpected)
            )
        constants: dict[str, Any] = {}
        value: Any
        for position, arg in enumerate(args):
            if isinstance(arg, (tuple, list)):
                if len(arg) != 2:
                    raise TypeError(
                        "%s: when using a tuple to define a constant, your tuple should contain 2 values: constant name and"
                        " alias, not %r" % (type(self).__name__, arg)
                    )
                name, alias = arg
                value = (alias, position)
            else:
                name, value = arg, position
            if not isinstance(name, str):
                raise TypeError("%s: expected constant names (strings), got %r" % (type(self).__name__, name))
            if name in constants:
                raise AttributeError("%s: constant %s is given twice" % (type(self).__name__, name))
            constants[name] = value
        EnumType.__init__(self, **constants, **kwargs)


class CEnumType(EnumList):
    """A type of named constants that C headers define (see `c_headers`, `c_header_dirs`).

    C code uses the values of the headers. Python uses arbitrary values.

    Parameters
    ----------
    *args : str or (str, str)
        ``'NAME'`` or ``('NAME', 'alias')``.
    ctype : str, optional
        By default, 'int'.
    cname : str, optional
    """

    def c_support_code(self) -> str:
        return self._c_to_string_if_debug()

    def c_extract(self, name: str, sub: dict[str, str], check_input: bool = True) -> str:
        cases = "\n".join(
            "                case %d: %s = %s; break;" % (self[constant], name, constant) for constant in self._names()
        )
        return """
        switch (PyLong_AsLong(py_%(name)s)) {
%(cases)s
            default:
                PyErr_SetString(PyExc_ValueError, "%(classname)s: invalid value to map to C constants.");
                %(fail)s
        }
        """ % dict(name=name, cases=cases, classname=re.sub(r"\W", "_", type(self).__name__), fail=sub["fail"])

    def c_code_cache_version(self) -> tuple[Any, ...]:
        # The version depends on the names and positions in the C code, not on the C values, which are in the headers.
        return (2, super().c_code_cache_version())
