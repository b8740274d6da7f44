"""The specifications of a function's inputs and outputs: In and Out."""

from __future__ import annotations

from typing import Any

from theano_ng.gof.graph import Variable
from theano_ng.gof.link import Container


class InputError(TypeError, ValueError, AssertionError):
    """Error: the specification of an input is contradictory.

    InputError has three base classes, because existing programs may catch any of these classes.
    """


class SymbolicInput:
    """The specification of an input of a function.

    Parameters
    ----------
    variable : Variable
        The variable of the graph.
    name : object, optional
        The key of the input, which must be hashable. A string that is an identifier can be a keyword argument in calls.
    update : Variable or value, optional
        An expression. Its value replaces the value of the input after each call.
    mutable : bool, optional
        Whether the function may change the argument in place. By default, True if an update is given.
    strict : bool
        If True, refuse arguments of another type instead of converting them.
    allow_downcast : bool, optional
        If True, permit lossy conversions. If None, permit them only from Python floats to floatX.
    autoname : bool
        If True and `name` is None, use the variable's name.
    implicit : bool
        If True, callers cannot give a value.

    Raises
    ------
    TypeError
        If `variable` is not a variable, `name` is not hashable, or `update` does not have the variable's type.
    """

    def __init__(
        self,
        variable: Variable,
        name: str | None = None,
        update: Any = None,
        mutable: bool | None = None,
        strict: bool = False,
        allow_downcast: bool | None = None,
        autoname: bool = True,
        implicit: bool = False,
    ) -> None:
        if implicit is None:
            raise InputError("implicit must be True or False")
        if not isinstance(variable, Variable):
            raise TypeError("the variable of an input must be a symbolic variable, not %r" % (variable,))
        self.variable = variable
        self.name = variable.name if autoname and name is None else name
        try:
            hash(self.name)
        except TypeError:
            raise TypeError(
                "the name of an input is used as a key and must be hashable; %r is not" % (self.name,)
            ) from None
        self.update = update
        if update is not None and getattr(update, "type", None) != variable.type:
            self.update = variable.type.filter_variable(update, allow_convert=True)
        self.mutable = (update is not None) if mutable is None else mutable
        self.strict = strict
        self.allow_downcast = allow_downcast
        self.implicit = implicit

    def __str__(self) -> str:
        if self.update is not None:
            return "In(%s -> %s)" % (self.variable, self.update)
        return "In(%s)" % self.variable

    __repr__ = __str__


class In(SymbolicInput):
    """The specification of an input of a function, with a default value and permissions.

    Parameters
    ----------
    variable, name, update, mutable, strict, allow_downcast, autoname
        See `SymbolicInput`.
    value : object or Container, optional
        The default value. If `update` is given, `value` is the initial state, and the state persists between calls.
    implicit : bool, optional
        If True, callers cannot give a value. By default, True if `value` is a Container.
    borrow : bool, optional
        Whether the function may use the memory of the argument instead of a copy: keep it between calls, and overwrite
        it. By default, the value of `mutable`.
    shared : bool
        Whether the value belongs to a shared variable.

    Raises
    ------
    InputError
        If an input is mutable but not borrowed, or is implicit but has no value. InputError is a TypeError, a
        ValueError and an AssertionError.
    """

    def __init__(
        self,
        variable: Variable,
        name: str | None = None,
        value: Any = None,
        update: Any = None,
        mutable: bool | None = None,
        strict: bool = False,
        allow_downcast: bool | None = None,
        autoname: bool = True,
        implicit: bool | None = None,
        borrow: bool | None = None,
        shared: bool = False,
    ) -> None:
        if mutable is None:
            mutable = update is not None
        if borrow is None:
            borrow = mutable
        if mutable and not borrow:
            raise InputError(
                "In(%s): the function may change this input (mutable=True, or it has an update), so it is always "
                "borrowed; omit borrow or set it to True" % variable
            )
        if implicit is None:
            implicit = isinstance(value, Container)
        if implicit and value is None:
            raise InputError("In(%s): an implicit input needs a value, because callers cannot give one" % variable)
        super().__init__(variable, name, update, mutable, strict, allow_downcast, autoname, implicit)
        self.borrow = borrow
        self.value = value
        self.shared = shared


class SymbolicOutput:
    """The specification of an output of a function.

    Parameters
    ----------
    variable : Variable
    borrow : bool
        Whether a call may return memory that a later call overwrites.
    return_internal_type : bool
        Whether a call may return an object of the type that functions use internally. On a CPU, this makes no
        difference.
    """

    return_internal_type = False  # the value for old pickles, which do not have this attribute

    def __init__(self, variable: Variable, borrow: bool = False, return_internal_type: bool = False) -> None:
        self.variable = variable
        self.borrow = borrow
        self.return_internal_type = return_internal_type

    def __str__(self) -> str:
        return "Out(%s,%s)" % (self.variable, self.borrow)

    __repr__ = __str__


Out = SymbolicOutput
