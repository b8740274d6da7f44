"""Row programs: the records from which `kernels.rows` writes kernels."""

from typing import NamedTuple

# The levels of values, as in tensor.reductions.row_program: a single value, a value for each row, one for each element.
ONE, ROW, ELEMENT = 0, 1, 2


class RowInput(NamedTuple):
    """An array that a row program reads.

    Attributes
    ----------
    dtype : str
    level : int
    is_number : bool
        Whether a value of the level ONE is passed to the kernel by value.
    """

    dtype: str
    level: int
    is_number: bool = False


class Map(NamedTuple):
    """The application of a scalar op to values of a row program.

    Attributes
    ----------
    op : ScalarOp
    arguments : tuple of int
        Numbers of values.
    dtype : str
    level : int
        ROW or ELEMENT.
    """

    op: object
    arguments: tuple
    dtype: str
    level: int


class RowFold(NamedTuple):
    """A reduction of the elements of a row to one value.

    Attributes
    ----------
    op : ScalarOp
        A binary op that is associative and commutative, and that has an identity or is idempotent.
    argument : int
        The number of the value that is reduced.
    accumulator, dtype : str
        The dtypes of the accumulator and of the result.
    """

    op: object
    argument: int
    accumulator: str
    dtype: str

    @property
    def level(self):
        return ROW

    @property
    def arguments(self):
        return (self.argument,)


class Place(NamedTuple):
    """The position of an element in its row, an int64."""

    @property
    def level(self):
        return ELEMENT

    @property
    def dtype(self):
        return "int64"

    @property
    def arguments(self):
        return ()


class Number(NamedTuple):
    """A constant.

    Attributes
    ----------
    dtype : str
    value : number
    """

    dtype: str
    value: object

    @property
    def level(self):
        return ONE

    @property
    def arguments(self):
        return ()


class RowLoop(NamedTuple):
    """A row program. Values are numbered: first the inputs, then the results of all steps.

    Attributes
    ----------
    inputs : tuple of RowInput
    steps : tuple of Map, RowFold, Place and Number
        In the order of computation.
    stores : tuple of int
        The values that are outputs. Their level is ROW or ELEMENT.
    """

    inputs: tuple
    steps: tuple
    stores: tuple

    @property
    def values(self):
        return [*self.inputs, *self.steps]

    def has_several_operations(self):
        """Return True; see `LoopProgram.has_several_operations`."""
        return True

    def __str__(self):
        """Return the text of the program, one line for each step."""
        levels = ("once", "for each row", "for each element")
        lines = ["v%d = load %s, %s" % (k, x.dtype, levels[x.level]) for k, x in enumerate(self.inputs)]
        for k, step in enumerate(self.steps, len(self.inputs)):
            arguments = ", ".join(["v%d" % a for a in step.arguments])
            text = "%s(%s)" % (getattr(step, "op", ""), arguments)
            if isinstance(step, RowFold):
                text = "fold of each row by " + text
            elif isinstance(step, Place):
                text = "position in the row"
            elif isinstance(step, Number):
                text = repr(step.value)
            lines.append("v%d = %s %s" % (k, text, step.dtype))
        return "\n".join([*lines, *["store v%d" % k for k in self.stores]])
