"""Names that are in different modules of Python 2 and Python 3."""

import builtins
import configparser
import copyreg
import io
import pickle as cPickle
import queue
import sys
from functools import reduce
from io import StringIO
from itertools import filterfalse, zip_longest

input = builtins.input
filter = builtins.filter
map = builtins.map
range = xrange = builtins.range
zip = builtins.zip
intern = sys.intern
cStringIO = io.StringIO

__all__ = [
    "StringIO",
    "builtins",
    "cPickle",
    "cStringIO",
    "configparser",
    "copyreg",
    "filter",
    "filterfalse",
    "input",
    "intern",
    "map",
    "queue",
    "range",
    "reduce",
    "xrange",
    "zip",
    "zip_longest",
]
