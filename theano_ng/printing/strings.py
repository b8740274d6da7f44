"""Texts that describe variables. Messages contain such texts, and programs compare the texts of several runs."""

import numpy as np

from theano_ng.gof import ports
from theano_ng.gof.graph import Apply, Variable
from theano_ng.printing.debug import char_from_number


class _TagGenerator:
    """A generator of the tags A, B, C ... for variables."""

    def __init__(self):
        self.cur_tag_number = 0

    def get_tag(self):
        """Return the next tag."""
        tag = char_from_number(self.cur_tag_number)
        self.cur_tag_number += 1
        return tag


def _label(obj):
    """Return the label of a variable in `min_informative_str`: its name, or else the Op that computes it."""
    name = getattr(obj, "name", None)
    if name is not None:
        return name
    if getattr(obj, "owner", None) is not None:
        return str(obj.owner.op)
    return obj.__repr__(firstPass=False) if isinstance(obj, Variable) else str(obj)


def min_informative_str(obj, indent_level=0, _prev_obs=None, _tag_generator=None):
    """Return a short text that shows how a variable is computed.

    Parameters
    ----------
    obj : Variable
    indent_level : int
        The number of levels by which the text is indented.
    _prev_obs, _tag_generator
        The tags of the variables described so far, and the generator of tags. Recursive calls share them.

    Returns
    -------
    str
        A line ``tag. name-or-op`` for each variable, with the lines of its inputs indented below it. A variable that
        occurred before is written as ``<tag>``. The inputs of a variable that has a name are left out.

    Examples
    --------
    >>> from theano_ng.printing import min_informative_str
    >>> from theano_ng.scalar import float64
    >>> x, y = float64('x'), float64('y')
    >>> print(min_informative_str((x + y) * x))
    A. mul
     B. add
      C. x
      D. y
     <C>
    """
    prev_obs = {} if _prev_obs is None else _prev_obs
    tags = _TagGenerator() if _tag_generator is None else _tag_generator
    lines = []
    stack = [(obj, indent_level)]
    while stack:
        item, level = stack.pop()
        indent = " " * level
        if item in prev_obs:
            lines.append("%s<%s>" % (indent, prev_obs[item]))
            continue
        tag = tags.get_tag()
        prev_obs[item] = tag
        lines.append("%s%s. %s" % (indent, tag, _label(item)))
        if getattr(item, "name", None) is None and getattr(item, "owner", None) is not None:
            stack.extend((i, level + 1) for i in reversed(item.owner.inputs))
    return "\n".join(lines)


def var_descriptor(obj, _prev_obs=None, _tag_generator=None):
    """Return one line that describes the whole computation of a variable. The line is the same in every run.

    Parameters
    ----------
    obj : object
        The variable. Other objects are accepted, too.
    _prev_obs, _tag_generator
        See `min_informative_str`.

    Returns
    -------
    str
        A computed variable is written as ``op(input,input)``, and an array as its `hex_digest`. An object that occurred
        before is written as ``<tag>``. Tags are assigned in the order of first occurrence.
    """
    prev_obs = {} if _prev_obs is None else _prev_obs
    tags = _TagGenerator() if _tag_generator is None else _tag_generator
    text = []
    stack = [obj]
    while stack:
        item = stack.pop()
        if isinstance(item, _LiteralText):
            text.append(item)
            continue
        key = item if isinstance(item, (Variable, Apply)) else id(item)
        if key in prev_obs:
            text.append("<%s>" % prev_obs[key])
            continue
        prev_obs[key] = tags.get_tag()
        node = getattr(item, "owner", None)
        if node is not None:
            text.append("%s(" % node.op)
            children = [
                _LiteralText(")") if len(node.outputs) == 1 else _LiteralText(").%d" % node.outputs.index(item))
            ]
            for k in range(len(node.inputs) - 1, -1, -1):
                children.append(node.inputs[k])
                if k:
                    children.append(_LiteralText(","))
            stack.extend(children)
        elif hasattr(item, "data"):
            value = np.asarray(item.data)
            text.append("%s(%s)" % (item.type, hex_digest(value) if value.dtype != object else repr(item.data)))
        elif isinstance(item, np.ndarray):
            text.append(hex_digest(item))
        else:
            text.append("%s{%s}" % (item, item.type) if isinstance(item, Variable) else str(item))
    return "".join(text)


class _LiteralText(str):
    """Finished text on the stack of `var_descriptor`. The other items of the stack are objects to be described."""


def position_independent_str(obj):
    """Return a text that describes the type of a variable. The text does not depend on the address of the variable.

    Raises
    ------
    TypeError
        If `obj` is not a Variable.
    """
    if isinstance(obj, Variable):
        return "theano_var{type=%s}" % (obj.type,)
    raise TypeError("position_independent_str expected a Variable, got %s" % type(obj))


def hex_digest(x):
    """Return a text that identifies an array: its strides, its shape, and the MD5 digest of its bytes.

    Parameters
    ----------
    x : numpy.ndarray
    """
    import hashlib

    digest = hashlib.md5(x.tobytes(), usedforsecurity=False).hexdigest()
    strides = ",".join(map(str, x.strides))
    shape = ",".join(map(str, x.shape))
    return "%s|strides=[%s]|shape=[%s]" % (digest, strides, shape)


ports.label_graph.fill(min_informative_str)
