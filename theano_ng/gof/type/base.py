"""Types, which define the valid values of variables, in Python and in C."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from theano_ng.gof import ports, utils
from theano_ng.gof.c_interface import CLinkerObject
from theano_ng.gof.graph import Constant, Variable
from theano_ng.gof.type.equality import equal_objects
from theano_ng.gof.utils import MethodNotDefined, object2

if TYPE_CHECKING:
    from theano_ng.gof import graph


class CLinkerType(CLinkerObject):
    """The interface of types whose values C code can handle.

    In the C code that the methods return, ``py_<name>`` is the `PyObject *` of the value. To fail, the code sets a
    Python exception and executes the statement ``sub['fail']``. Every declared identifier has to contain `name`.
    """

    def c_element_type(self) -> str:
        """Return the C type of the elements, such as ``npy_int32``. Only types of containers define this method."""
        raise MethodNotDefined("c_element_type", type(self), self.__class__.__name__)

    def c_is_simple(self) -> bool:
        """Return True if the type is a small C type such as int or float, which fits in a register."""
        return False

    def c_literal(self, data: Any) -> str:
        """Return the C literal for a value.

        Raises
        ------
        MethodNotDefined
            If the type has no C literals.
        """
        raise MethodNotDefined("c_literal", type(self), self.__class__.__name__)

    def c_declare(self, name: str, sub: dict[str, str], check_input: bool = True) -> str:
        """Return declarations of the C variables that hold the value.

        Parameters
        ----------
        name : str
            A part of every declared identifier.
        sub : dict
            ``sub['fail']`` is the C statement to execute after an error.
        check_input : bool
            Whether to declare variables for input checks.
        """
        raise MethodNotDefined("c_declare", type(self), self.__class__.__name__)

    def c_init(self, name: str, sub: dict[str, str]) -> str:
        """Return C code that initializes the variables of `c_declare` without a Python value."""
        raise MethodNotDefined("c_init", type(self), self.__class__.__name__)

    def c_extract(self, name: str, sub: dict[str, str], check_input: bool = True) -> str:
        """Return C code that takes the value out of ``py_<name>`` (a borrowed reference)."""
        raise MethodNotDefined("c_extract", type(self), self.__class__.__name__)

    def c_extract_out(self, name: str, sub: dict[str, str], check_input: bool = True) -> str:
        """Return C code that is like `c_extract`, but handles the previous value of an output.

        If the previous value is None, the variables are initialized without a value.
        """
        return """
        if (py_%(name)s == Py_None)
        {
            %(c_init_code)s
        }
        else
        {
            %(c_extract_code)s
        }
        """ % dict(name=name, c_init_code=self.c_init(name, sub), c_extract_code=self.c_extract(name, sub, check_input))

    def c_cleanup(self, name: str, sub: dict[str, str]) -> str:
        """Return C code that frees the allocations of `c_extract`, `c_init` or an Op.

        The code must not decref ``py_<name>``.
        """
        raise MethodNotDefined("c_cleanup", type(self), self.__class__.__name__)

    def c_sync(self, name: str, sub: dict[str, str]) -> str:
        """Return C code that stores the value in ``py_<name>`` and releases the reference to the previous object."""
        raise MethodNotDefined("c_sync", type(self), self.__class__.__name__)

    def c_code_cache_version(self) -> tuple[Any, ...]:
        """Return the version of this type's C code.

        If the version is the empty tuple, C modules that use the type are not cached across processes.
        """
        return ()


class PureType:
    """The interface of a type: `filter`, and methods that are based on it."""

    # The classes that make_variable and make_constant instantiate.
    Variable: Any = Variable
    Constant: Any = Constant

    def filter(self, data: Any, strict: bool = False, allow_downcast: bool | None = None) -> Any:
        """Return `data`, or an equivalent value that is valid for this type.

        Parameters
        ----------
        data : object
        strict : bool
            If True, return `data` itself or raise an error.
        allow_downcast : bool, optional
            Whether a conversion may lose precision. None allows this only for the conversion of Python floats to
            floatX.

        Raises
        ------
        TypeError
            If the data is not valid.
        MethodNotDefined
            If the type does not define `filter`.
        """
        raise MethodNotDefined("filter", type(self), self.__class__.__name__)

    # A type may define `filter_inplace(value, storage, strict=False, allow_downcast=None)`. It is used instead of
    # `filter` if the memory of an old value may be reused (for shared variables).

    def filter_variable(self, other: Any, allow_convert: bool = True) -> graph.Variable:
        """Return a variable of this type, made from a variable or a value.

        Parameters
        ----------
        other : Variable or object
            A variable or a value. A value becomes a constant.
        allow_convert : bool
            Whether `convert_variable` may be used.

        Raises
        ------
        TypeError
            If `other` has another type and cannot be converted.
        """
        if not isinstance(other, Variable):
            other = self.make_constant(other)
        if other.type != self and allow_convert:
            converted = self.convert_variable(other)
            if converted is not None:
                return converted
        if other.type != self:
            raise TypeError(
                "Cannot convert Type %(othertype)s (of Variable %(other)s) into Type %(self)s. You can try to manually convert"
                " %(other)s into a %(self)s." % dict(othertype=other.type, other=other, self=self)
            )
        return other

    def convert_variable(self, var: graph.Variable) -> graph.Variable | None:
        """Return a variable of this type that equals `var`.

        Return None if some values of the type of `var` are not valid for this type.
        """
        return None

    def is_valid_value(self, a: Any) -> bool:
        """Return True if `a` is a value of this type, which means that strict filtering succeeds."""
        try:
            self.filter(a, strict=True)
            return True
        except MethodNotDefined:
            raise
        except Exception:
            return False

    def value_validity_msg(self, a: Any) -> str:
        """Return the reason why `is_valid_value` returns False. If it returns True, return ``'value is valid'``."""
        try:
            self.filter(a, strict=True)
        except MethodNotDefined:
            raise
        except Exception as why:
            return str(why)
        return "value is valid"

    def make_variable(self, name: str | None = None) -> graph.Variable:
        """Return a new variable of this type.

        Parameters
        ----------
        name : str, optional
        """
        return self.Variable(self, name=name)

    def make_constant(self, value: Any, name: str | None = None) -> graph.Constant:
        """Return a constant of this type."""
        return self.Constant(type=self, data=value, name=name)

    def __call__(self, name: str | None = None) -> graph.Variable:
        """Return a new variable of this type. Its ``tag.trace`` is the stack trace of its creation."""
        return utils.add_tag_trace(self.make_variable(name))

    def values_eq(self, a: Any, b: Any) -> bool:
        """Return True if two valid values are exactly equal."""
        return a == b

    def values_eq_approx(self, a: Any, b: Any) -> bool:
        """Return True if two valid values are approximately equal. By default, they have to be exactly equal."""
        return self.values_eq(a, b)


class Type(object2, PureType, CLinkerType):
    """A base class of types. It has defaults for all methods except `filter`.

    A type validates and converts values (`filter`), makes variables (`make_variable`, call), and describes its values
    to C code. Instead of defining a subclass, a program may make an instance of `Type` and set methods as attributes of
    this instance.
    """

    if TYPE_CHECKING:
        # Allow any attribute in type checks, because subclasses add attributes, such as dtype and ndim of tensor types.
        def __getattr__(self, name: str) -> Any: ...


class SingletonType(Type):
    """A type class that has one instance in a process. Instances from pickles and copies equal this instance."""

    __instance: Any = None

    def __new__(cls) -> Self:
        if cls.__dict__.get("_SingletonType__instance") is None:
            cls.__instance = Type.__new__(cls)
        return cls.__instance

    def __str__(self) -> str:
        return self.__class__.__name__

    # A process can have several instances, because unpickling and copying create new ones.
    def __eq__(self, other: object) -> bool:
        return self is other or type(self) is type(other)

    def __hash__(self) -> int:
        return hash((self.__class__.__module__, self.__class__.__qualname__))


class Generic(SingletonType):
    """A type for any Python object. C code gets a `PyObject *`."""

    def filter(self, data: Any, strict: bool = False, allow_downcast: bool | None = None) -> Any:
        return data

    def is_valid_value(self, a: Any) -> bool:
        # Subclasses may accept fewer values.
        return type(self).filter is Generic.filter or super().is_valid_value(a)

    def values_eq(self, a: Any, b: Any) -> bool:
        """Return True if two objects are equal. They may contain arrays."""
        return equal_objects(a, b)

    def values_eq_approx(self, a: Any, b: Any) -> bool:
        """Return True if two objects are equal, apart from rounding differences of the arrays that they contain."""
        if type(self).values_eq is not Generic.values_eq:
            return self.values_eq(a, b)
        return equal_objects(a, b, ports.arrays_nearly_equal)

    def c_declare(self, name: str, sub: dict[str, str], check_input: bool = True) -> str:
        return "PyObject *%s;" % name

    def c_init(self, name: str, sub: dict[str, str]) -> str:
        return "%s = NULL;" % name

    def c_cleanup(self, name: str, sub: dict[str, str]) -> str:
        return "Py_XDECREF(%s);" % name

    def c_extract(self, name: str, sub: dict[str, str], check_input: bool = True) -> str:
        # The C variable needs a separate reference, because ``py_<name>`` is borrowed.
        return """
        %(c)s = py_%(c)s;
        Py_INCREF(%(c)s);
        """ % {"c": name}

    def c_sync(self, name: str, sub: dict[str, str]) -> str:
        # Take the reference to the new value before the old value is released, because the old value may hold the only
        # other reference to the new value.
        return """
        {
            PyObject *previous = py_%(c)s;
            py_%(c)s = %(c)s == NULL ? Py_None : %(c)s;
            Py_INCREF(py_%(c)s);
            Py_DECREF(previous);
        }
        """ % {"c": name}

    def c_code_cache_version(self) -> tuple[Any, ...]:
        return (1,)


generic = Generic()
