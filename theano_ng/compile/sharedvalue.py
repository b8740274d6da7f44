"""Shared variables: variables whose value persists between calls and is shared by all functions that use them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from theano_ng.gof import ports, utils
from theano_ng.gof.graph import Variable
from theano_ng.gof.link import Container
from theano_ng.gof.type import generic

if TYPE_CHECKING:
    import numpy as np

    from theano_ng.gof.type.base import Type
    from theano_ng.tensor.sharedvar import ScalarSharedVariable, TensorSharedVariable

    C = TypeVar("C", bound=Callable[..., Any])


def without_inner_overlap(array: Any) -> Any:
    """Return the array, or a copy of it if several of its elements may share memory.

    An operation in place would write all elements that share memory to one place.

    Parameters
    ----------
    array : numpy.ndarray or GpuArray
        An array with a stride of 0, or windows made by `as_strided`, have elements that share memory.
    """
    steps = sorted([(abs(step), length) for step, length in zip(array.strides, array.shape) if length != 1])
    reach = array.itemsize  # the bytes from the first to the last element along the axes with smaller strides
    for step, length in steps:
        if step < reach and array.size > 0:
            return array.copy()
        reach += (length - 1) * step
    return array


class SharedVariable(Variable):
    """A variable with a value that functions read and update.

    Parameters
    ----------
    name : str or None
    type : Type
    value : object
        The initial value. The type's `filter` checks or converts it.
    strict : bool
        If True, refuse values of another type instead of converting them.
    allow_downcast : bool, optional
        If True, permit lossy conversions. If None, permit them only from Python floats to floatX.
    container : Container, optional
        An existing container to use. `value` must be None in this case.

    Raises
    ------
    TypeError
        If both value and container are given, or if the value does not fit the type.

    Attributes
    ----------
    default_update : Variable
        An optional attribute: the update in every function that uses the variable and has no other update for it.
    """

    # The constructor sets this attribute. Functions that use the variable as an implicit input read and write the value
    # in this container.
    container: Container = None  # type: ignore[assignment]

    def __init__(
        self,
        name: str | None,
        type: Type,
        value: Any,
        strict: Any,
        allow_downcast: bool | None = None,
        container: Container | None = None,
    ) -> None:
        super().__init__(type=type, name=name, owner=None, index=None)
        if container is not None:
            if value is not None:
                raise TypeError("a shared variable needs either a value or a container; both were given")
            self.container = container
        else:
            self.container = Container(
                self,
                storage=[type.filter(value, strict=strict, allow_downcast=allow_downcast)],
                readonly=False,
                strict=strict,
                allow_downcast=allow_downcast,
            )

    def read_test_value(self) -> Any:
        """Return the current value of the container, without a copy."""
        return self.get_value(borrow=True, return_internal_type=True)

    def get_value(self, borrow: bool = False, return_internal_type: bool = False) -> Any:
        """Return the value.

        Parameters
        ----------
        borrow : bool
            If True, the result may be the internal value itself. If False, it is always a copy.
        return_internal_type : bool
            If True, return an object of the type that functions use, even if it is not a NumPy array.
        """
        if borrow:
            return self.container.value
        return copy.deepcopy(self.container.value)

    def set_value(self, new_value: Any, borrow: bool = False) -> None:
        """Replace the value, for all functions that use the variable.

        Parameters
        ----------
        new_value : object
        borrow : bool
            If True, the variable may keep `new_value` itself instead of a copy.
        """
        self.container.value = new_value if borrow else copy.deepcopy(new_value)

    def zero(self, borrow: bool = False) -> None:
        """Set all elements of the value to zero."""
        value = self.get_value(borrow=borrow, return_internal_type=True)
        value[...] = 0
        self.set_value(value, borrow=True)

    def clone(self) -> Self:
        """Return another variable with the same container and a copy of the tags."""
        twin = self.__class__(name=self.name, type=self.type, value=None, strict=None, container=self.container)
        twin.tag = copy.copy(self.tag)
        return twin

    def __getitem__(self, *args):
        """Raise a TypeError with an explanation: a shared variable that is not a tensor cannot be indexed."""
        value = self.get_value(borrow=True)
        raise TypeError(
            "A shared variable that holds a %s cannot be indexed symbolically. Did you mean to share numpy.asarray(value)?"
            % type(value).__name__
        )


def shared_constructor(ctor: C, remove: bool = False) -> C:
    """Register a constructor of shared variables, or remove it if `remove` is true. Return the constructor.

    This function can be used as a decorator.

    The function `shared` tries the constructors in reverse order of registration. A constructor that cannot handle a
    value must raise TypeError.
    """
    if remove:
        constructors.remove(ctor)
    else:
        constructors.append(ctor)
    return ctor


@overload
def shared(
    value: np.ndarray, name: str | None = None, strict: bool = False, allow_downcast: bool | None = None, **kwargs: Any
) -> TensorSharedVariable: ...


@overload
def shared(
    value: complex | np.number,
    name: str | None = None,
    strict: bool = False,
    allow_downcast: bool | None = None,
    **kwargs: Any,
) -> ScalarSharedVariable: ...


@overload
def shared(
    value: Any, name: str | None = None, strict: bool = False, allow_downcast: bool | None = None, **kwargs: Any
) -> Any: ...


def shared(
    value: Any, name: str | None = None, strict: bool = False, allow_downcast: bool | None = None, **kwargs: Any
) -> Any:
    """Return a new shared variable. Its value is a copy of `value` or, with ``borrow=True``, `value` itself.

    Parameters
    ----------
    value : object
        The initial value. For an array, the type of the variable has the dtype and the number of dimensions of the
        array. No axis is broadcastable unless ``broadcastable=`` is given.
    name : str, optional
    strict : bool
    allow_downcast : bool, optional
        See `SharedVariable`.
    **kwargs
        Arguments for the constructor, such as ``borrow``, ``broadcastable`` or ``target``.

    Returns
    -------
    SharedVariable

    Raises
    ------
    TypeError
        If the value is symbolic, or if no constructor accepts the value and the keywords.
    """
    if isinstance(value, Variable):
        raise TypeError("Shared variable constructor needs numeric values and not symbolic variables; got %s" % value)
    for ctor in reversed(constructors):
        try:
            variable = ctor(value, name=name, strict=strict, allow_downcast=allow_downcast, **kwargs)
        except TypeError:
            continue
        except MemoryError as failure:
            failure.args = failure.args + ("you might consider using 'theano.shared(..., borrow=True)'",)
            raise
        utils.add_tag_trace(variable)
        return variable
    hint = ""
    if kwargs.get("target", "cpu") != "cpu":
        hint = (
            " Targets other than 'cpu' are contexts, which the flags device and contexts define; they hold arrays only."
        )
    raise TypeError(
        "No suitable SharedVariable constructor could be found. Are you sure all kwargs are supported? "
        "We do not support the parameter dtype or type. value=%r. parameters=%r%s"
        % (value, kwargs, hint and "." + hint)
    )


constructors: list[Callable[..., Any]] = []
shared.constructors = constructors  # type: ignore[attr-defined]


@shared_constructor
def generic_constructor(
    value: Any, name: str | None = None, strict: bool = False, allow_downcast: bool | None = None
) -> SharedVariable:
    """Return a shared variable of type `generic`, which can hold any Python object."""
    return SharedVariable(type=generic, value=value, name=name, strict=strict, allow_downcast=allow_downcast)


ports.shared.fill(shared)
