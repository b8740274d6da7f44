"""A reader of the examples in the docstrings of rules: lines of the form ``before  ->  after``."""

import re

# Examples of rules that have no docstring of their own, only the docstring of their class.
OF_INSTANCES = {
    "local_mul_canonizer": [
        "(x * y) / x  ->  y",
        "x / y / x  ->  1 / y",
        "(x / y) * (y / z)  ->  x / z",
        "2 * x / 2  ->  x",
    ],
    "local_add_canonizer": ["(x + y) - x  ->  y", "(x - y) + (y - z)  ->  x - z"],
    "remove_tensor_copy": ["tensor_copy(x)  ->  x"],
    "local_add_mul_fusion": ["(x + y) + z  ->  add(x, y, z)", "(x * y) * z  ->  mul(x, y, z)"],
    "composite_elemwise_fusion": [
        "exp(x) * y  ->  Elemwise(Composite([number, other], [scalar.exp(number) * other]))(x, y)"
    ],
}

_ARROW = re.compile(r"\S  ->(  \S|$)")
_TAGS = re.compile(r"\s+\[([\w, ]+)\]$")


def examples(doc):
    """Return the examples in a docstring as triples (before, after, tags). Without tags in the text, tags is None."""
    found, indent = [], None
    for line in (doc or "").split("\n"):
        depth = len(line) - len(line.lstrip())
        if indent is not None and line.strip() and depth > indent:
            found[-1] += " " + line.strip()
        elif _ARROW.search(line):
            found.append(line.strip())
            indent = depth
        else:
            indent = None
    result = []
    for text in found:
        tags = _TAGS.search(text)
        text = _TAGS.sub("", text)
        before, after = re.split("  -> +", text)
        result.append((before, after, None if tags is None else tags.group(1).split(", ")))
    return result


def examples_of(name, rule):
    """Return the examples of one rule. They are in `OF_INSTANCES` or in the docstring of the rule."""
    return examples("\n".join(OF_INSTANCES[name]) if name in OF_INSTANCES else rule.__doc__)


def left_sides(doc):
    """Return the texts on the left of an arrow with any spaces around it, one for each line of a docstring."""
    return [line.split("->")[0].strip() for line in (doc or "").split("\n") if "->" in line]
