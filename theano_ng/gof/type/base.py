"""Types: what values a variable may hold, in Python and in C."""

from theano_ng.gof import graph, utils
from theano_ng.gof.c_interface import CLinkerObject
from theano_ng.gof.graph import Constant, Variable
from theano_ng.gof.utils import MethodNotDefined, object2, string_types


class CLinkerType(CLinkerObject):
    """Interface of the types whose values C code can handle.

    In the text that the methods return, ``py_<name>`` is the `PyObject *` of the value, ``sub['fail']`` is the statement that leaves
    after a Python exception has been set, and every declared identifier has to contain `name`.
    """

    def c_element_type(self):
        """The C type of an element of a container (such as ``npy_int32``); undefined for other types."""
        raise MethodNotDefined("c_element_type", type(self), self.__class__.__name__)

    def c_is_simple(self):
        """Whether the type is a small C type such as int or float, which fits in a register."""
        return False

    def c_literal(self, data):
        """C literal for a value.

        Raises
        ------
        MethodNotDefined
            When there is none.
        """
        raise MethodNotDefined("c_literal", type(self), self.__class__.__name__)

    def c_declare(self, name, sub, check_input=True):
        """Declarations of the C variables that hold the value.

        Parameters
        ----------
        name : str
            Part of every declared identifier.
        sub : dict
        check_input : bool
            Whether to declare what input checks need.
        """
        raise MethodNotDefined("c_declare", type(self), self.__class__.__name__)

    def c_init(self, name, sub):
        """C code that initializes the variables of `c_declare` without a Python value."""
        raise MethodNotDefined("c_init", type(self), self.__class__.__name__)

    def c_extract(self, name, sub, check_input=True):
        """C code that takes the value out of ``py_<name>`` (a borrowed reference)."""
        raise MethodNotDefined("c_extract", type(self), self.__class__.__name__)

    def c_extract_out(self, name, sub, check_input=True):
        """Like `c_extract` for an output's previous value: None leaves the variables initialized, but without value."""
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

    def c_cleanup(self, name, sub):
        """C code that frees what `c_extract`, `c_init` or an Op allocated; it must not decref ``py_<name>``."""
        raise MethodNotDefined("c_cleanup", type(self), self.__class__.__name__)

    def c_sync(self, name, sub):
        """C code that puts the value into ``py_<name>``; it drops the reference to what was there."""
        raise MethodNotDefined("c_sync", type(self), self.__class__.__name__)

    def c_code_cache_version(self):
        """Version of the C code of this type; the empty tuple keeps modules from being cached across processes."""
        return ()


class PureType:
    """Interface of a type: `filter`, and what follows from it."""

    # The classes that make_variable and make_constant instantiate.
    Variable = Variable
    Constant = Constant

    def filter(self, data, strict=False, allow_downcast=None):
        """`data`, or an equivalent value that is valid for this type.

        Parameters
        ----------
        data : object
        strict : bool
            True: return `data` itself or raise.
        allow_downcast : bool, optional
            Whether a conversion may lose precision; None allows it for Python floats to floatX only.

        Raises
        ------
        TypeError
            When the data is not valid.
        MethodNotDefined
            When the type does not define it.
        """
        raise MethodNotDefined("filter", type(self), self.__class__.__name__)

    # `filter_inplace(value, storage, strict=False, allow_downcast=None)`, where a type defines it, is used instead of filter when an
    # old value's memory may be reused (shared variables).

    def filter_variable(self, other, allow_convert=True):
        """A variable of this type, made from a variable or a value.

        Parameters
        ----------
        other : Variable or object
            An object becomes a constant.
        allow_convert : bool
            Whether `convert_variable` may be used.

        Raises
        ------
        TypeError
            When `other` has another type and cannot be converted.
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

    def convert_variable(self, var):
        """`var` as a variable of this type when every value of its type is valid here; None when that is impossible."""
        return None

    def is_valid_value(self, a):
        """Whether `a` could be a value of this type (strict filtering succeeds)."""
        try:
            self.filter(a, strict=True)
            return True
        except MethodNotDefined:
            raise
        except Exception:
            return False

    def value_validity_msg(self, a):
        """Why `is_valid_value` is False, or ``'value is valid'``."""
        try:
            self.filter(a, strict=True)
        except MethodNotDefined:
            raise
        except Exception as why:
            return str(why)
        return "value is valid"

    def make_variable(self, name=None):
        """A new variable of this type.

        Parameters
        ----------
        name : str, optional
        """
        return self.Variable(self, name=name)

    def make_constant(self, value, name=None):
        """A constant of this type."""
        return self.Constant(type=self, data=value, name=name)

    def __call__(self, name=None):
        """A new variable of this type; its ``tag.trace`` tells where it was created."""
        return utils.add_tag_trace(self.make_variable(name))

    def values_eq(self, a, b):
        """Whether two valid values are exactly equal."""
        return a == b

    def values_eq_approx(self, a, b):
        """Whether two valid values are approximately equal; exact equality by default."""
        return self.values_eq(a, b)


class Type(object2, PureType, CLinkerType):
    """Base class of types, with defaults for everything except `filter`.

    A type validates and converts values (`filter`), makes variables (`make_variable`, call), and describes its values to C code.
    An instance may be made directly and its methods set as attributes.
    """


class SingletonType(Type):
    """A type class with one instance, which equals any other instance of the class."""

    __instance = None

    def __new__(cls):
        if cls.__dict__.get("_SingletonType__instance") is None:
            cls.__instance = Type.__new__(cls)
        return cls.__instance

    def __str__(self):
        return self.__class__.__name__

    # For pickles of several processes, and for copies.
    def __eq__(self, other):
        return self is other or type(self) is type(other)

    def __hash__(self):
        return hash((self.__class__.__module__, self.__class__.__qualname__))


class Generic(SingletonType):
    """A type for any Python object; C code sees a `PyObject *`."""

    def filter(self, data, strict=False, allow_downcast=None):
        return data

    def is_valid_value(self, a):
        # Subclasses may be choosier.
        return type(self).filter is Generic.filter or super().is_valid_value(a)

    def c_declare(self, name, sub, check_input=True):
        return "PyObject *%s;" % name

    def c_init(self, name, sub):
        return "%s = NULL;" % name

    def c_cleanup(self, name, sub):
        return "Py_XDECREF(%s);" % name

    def c_extract(self, name, sub, check_input=True):
        # The C variable holds a reference of its own.
        return """
        %(c)s = py_%(c)s;
        Py_INCREF(%(c)s);
        """ % {"c": name}

    def c_sync(self, name, sub):
        # The new value first: it may be what the old one keeps alive.
        return """
        {
            PyObject *previous = py_%(c)s;
            py_%(c)s = %(c)s == NULL ? Py_None : %(c)s;
            Py_INCREF(py_%(c)s);
            Py_DECREF(previous);
        }
        """ % {"c": name}

    def c_code_cache_version(self):
        return (1,)


generic = Generic()
