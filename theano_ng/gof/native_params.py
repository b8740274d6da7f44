"""The packed parameters of native functions. C code declares the parameters, and Python passes them by name.

A native function reads a C struct of int64 words. ``NATIVE_PARAMS(gemm, in_place)`` in its source declares the struct.
The extension module provides the same text, ``"in_place"``, as ``module.params["gemm"]``. `Record` parses this text and
packs the values that an Op gives. Thus the offset and the length of each parameter are defined only once.
"""

import operator
from array import array

# The name of the parameter that the thunk sets: the address of zeroed memory that only this thunk uses. The C code
# determines the size of the memory.
SCRATCH = "scratch"


class Record:
    """The layout of the parameters of one native function, or of one row of a table.

    Parameters
    ----------
    name : str
        The name for error messages.
    text : str
        The names in the order of the C struct, separated by commas. ``name`` is one word, ``name[2]`` is an array of
        two words. The last name may be ``name[]``, an array of any length, or ``name[row]``, a table of rows with the
        layout ``texts["row"]``. The number of words or rows, ``n_name``, precedes the array or table.
    texts : dict
        The texts of all records of the module, by name.

    Attributes
    ----------
    offsets : dict
        Name -> number of words in front of it.
    given : dict
        Its keys are the names of the parameters that `pack` requires. Its values are None.
    size : int
        The number of words in front of the array or table at the end.
    row : Record or None
        The layout of the rows of the table.

    Raises
    ------
    ValueError
        If the text is not such a declaration.
    """

    def __init__(self, name, text, texts):
        self.name = name
        self.offsets = {}
        self.tail = self.row = None
        self._lengths = {}  # name of each fixed parameter (`n_...` omitted) -> length of the array, or None for a word
        offset = 0
        for field in text.split(", ") if text else ():
            param, bracket, length = field.partition("[")
            length, closed, rest = length.partition("]")
            readable = (param + length).isidentifier() and closed == ("]" if bracket else "") and not rest
            if not readable or self.tail is not None:
                raise ValueError("%s: cannot parse %r in the declaration of its parameters, %r" % (name, field, text))
            self.offsets[param] = offset
            if length.isdigit() or not bracket:
                self._lengths[param] = int(length) if bracket else None
                offset += int(length or 1)
            else:
                self.tail = param
                self.row = Record("%s, %s" % (name, param), texts[length], texts) if length else None
                if [*self._lengths.items()][-1:] != [("n_" + param, None)]:
                    raise ValueError(
                        "%s: %s in the declaration of its parameters, %r, must come after n_%s"
                        % (name, field, text, param)
                    )
                del self._lengths["n_" + param]
        self.size = offset
        names = [*self._lengths, *[self.tail] * (self.tail is not None)]
        self.given = dict.fromkeys(param for param in names if param != SCRATCH)

    def pack(self, params):
        """Pack the parameters for C.

        Parameters
        ----------
        params : dict
            Name -> integer. For an array, a sequence of integers or bytes. Missing bytes are filled with zeros. For a
            table, a sequence of dicts.

        Returns
        -------
        list of int
            The words of the C struct. The word of the parameter `scratch` is 0: the thunk sets it to an address later.

        Raises
        ------
        TypeError
            If a name is missing or unknown, or if a value is not an integer.
        ValueError
            If an array has the wrong length, or if an integer does not fit 64 bits.
        """
        if params.keys() != self.given.keys():
            raise TypeError(self._wrong_names(params))
        packed = []
        for name, length in self._lengths.items():
            if length is None:
                packed.append(0 if name == SCRATCH else params[name])
            else:
                packed.extend(self._array(name, params[name], length))
        if self.tail is not None:
            rows = params[self.tail]
            if self.row is None:
                entries = self._array(self.tail, rows)
                packed += [len(entries), *entries]
            else:
                packed.append(len(rows))
                for row in rows:
                    packed += self.row.pack(row)
        try:
            return array("q", packed).tolist()  # `array` refuses words that are not 64-bit integers
        except (TypeError, OverflowError):
            raise self._wrong_value(params) from None

    def _array(self, name, values, length=None):
        if isinstance(values, bytes):
            padded = values + bytes(-len(values) % 8 if length is None else max(0, 8 * length - len(values)))
            values = memoryview(padded).cast("q") if len(padded) % 8 == 0 else padded
        if length is not None and len(values) != length:
            raise ValueError(
                "%s: %s has room for %d words, not for %d: %r" % (self.name, name, length, len(values), values)
            )
        return values

    def _wrong_value(self, params):
        """Return the error for the first parameter that is not an integer of 64 bits."""
        for name, given in params.items():
            if name == self.tail and self.row is not None:
                continue  # `self.row.pack` has checked the rows
            for value in [given] if self._lengths.get(name, 0) is None else given:
                try:
                    number = operator.index(value)
                except TypeError:
                    return TypeError("%s: the parameter %s must be an integer, not %r" % (self.name, name, value))
                if not -(2**63) <= number < 2**63:
                    return ValueError(
                        "%s: the value of the parameter %s does not fit into 64 bits: %d" % (self.name, name, number)
                    )

    def _wrong_names(self, params):
        missing = [name for name in self.given if name not in params]
        unknown = [name for name in params if name not in self.given]
        parts = ["has no parameter %s" % ", ".join(unknown)] * bool(unknown) + [
            "misses %s" % ", ".join(missing)
        ] * bool(missing)
        return "%s %s: the parameters that it declares are %s" % (
            self.name,
            " and ".join(parts),
            ", ".join(self.given) or "none",
        )
