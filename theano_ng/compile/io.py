"""What a compiled function takes and returns: In and Out."""

from theano_ng.gof.graph import Variable
from theano_ng.gof.link import Container


class InputError(TypeError, ValueError, AssertionError):
    """An input's specification contradicts itself. Programs have caught this as one or the other of its bases."""


class SymbolicInput:
    """An input of a function before compilation.

    Parameters
    ----------
    variable : Variable
        What the graph uses.
    name : object, optional
        Key of the input, hashable; a string that is an identifier works as keyword argument.
    update : Variable or value, optional
        Expression whose value replaces the input's after each call.
    mutable : bool, optional
        Whether the function may change the argument in place; by default, whether there is an update.
    strict : bool
        True refuses arguments of another type instead of converting them.
    allow_downcast : bool, optional
        True permits lossy conversion; None only of Python floats to floatX.
    autoname : bool
        Whether a missing name is taken from the variable.
    implicit : bool
        Whether callers may not give a value.

    Raises
    ------
    TypeError
        When `variable` is no variable, `name` not hashable, or `update` not of the variable's type.
    """

    def __init__(
        self,
        variable,
        name=None,
        update=None,
        mutable=None,
        strict=False,
        allow_downcast=None,
        autoname=True,
        implicit=False,
    ):
        if implicit is None:
            raise InputError("implicit is True or False")
        if not isinstance(variable, Variable):
            raise TypeError("the variable of an input is a symbolic variable, not %r" % (variable,))
        self.variable = variable
        self.name = variable.name if autoname and name is None else name
        try:
            hash(self.name)
        except TypeError:
            raise TypeError(
                "the name of an input is a key, so it has to be hashable; %r is not" % (self.name,)
            ) from None
        self.update = update
        if update is not None and getattr(update, "type", None) != variable.type:
            self.update = variable.type.filter_variable(update, allow_convert=True)
        self.mutable = (update is not None) if mutable is None else mutable
        self.strict = strict
        self.allow_downcast = allow_downcast
        self.implicit = implicit

    def __str__(self):
        if self.update is not None:
            return "In(%s -> %s)" % (self.variable, self.update)
        return "In(%s)" % self.variable

    __repr__ = __str__


class In(SymbolicInput):
    """An input of a function, with its default value and its rights.

    Parameters
    ----------
    variable, name, update, mutable, strict, allow_downcast, autoname
        As for `SymbolicInput`.
    value : object or Container, optional
        Default value; with `update` it is state that lives as long as the function.
    implicit : bool, optional
        Whether callers may not give a value; by default, whether `value` is a Container.
    borrow : bool, optional
        Whether the function may keep and overwrite the argument's memory instead of a copy; by default as `mutable`.
    shared : bool
        Whether the value is that of a shared variable.

    Raises
    ------
    InputError
        (a TypeError, ValueError and AssertionError) When an input is mutable but not borrowed, or implicit without a value.
    """

    def __init__(
        self,
        variable,
        name=None,
        value=None,
        update=None,
        mutable=None,
        strict=False,
        allow_downcast=None,
        autoname=True,
        implicit=None,
        borrow=None,
        shared=False,
    ):
        if mutable is None:
            mutable = update is not None
        if borrow is None:
            borrow = mutable
        if mutable and not borrow:
            raise InputError(
                "In(%s): an input that the function may change (mutable=True, or with an update) is necessarily borrowed; "
                "leave borrow out or set it to True" % variable
            )
        if implicit is None:
            implicit = isinstance(value, Container)
        if implicit and value is None:
            raise InputError("In(%s): an implicit input needs a value, as callers may not give one" % variable)
        super().__init__(variable, name, update, mutable, strict, allow_downcast, autoname, implicit)
        self.borrow = borrow
        self.value = value
        self.shared = shared


class SymbolicOutput:
    """An output of a function before compilation.

    Parameters
    ----------
    variable : Variable
    borrow : bool
        Whether a call may return memory that a later call overwrites.
    return_internal_type : bool
        Whether a call may return the value as functions hold it. On a CPU that is the array that is returned anyway.
    """

    return_internal_type = False  # of pickles from before it was kept

    def __init__(self, variable, borrow=False, return_internal_type=False):
        self.variable = variable
        self.borrow = borrow
        self.return_internal_type = return_internal_type

    def __str__(self):
        return "Out(%s,%s)" % (self.variable, self.borrow)

    __repr__ = __str__


Out = SymbolicOutput
