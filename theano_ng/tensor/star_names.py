"""What ``from theano_ng.tensor import *`` gives besides the names of the chapter: programs that import everything have come to use it."""

import builtins
import logging
import numbers
import sys
import warnings
from collections.abc import Iterable
from functools import partial
from textwrap import dedent

import numpy as np

from theano_ng import compile, gof, printing
from theano_ng.compat import izip, xrange

__all__ = [
    "Iterable",
    "builtins",
    "compile",
    "dedent",
    "gof",
    "izip",
    "logging",
    "np",
    "numbers",
    "partial",
    "printing",
    "python_all",
    "python_any",
    "python_complex",
    "sys",
    "theano",
    "warnings",
    "xrange",
]

theano = sys.modules[__name__.partition(".")[0]]
# Functions of tensors have taken these names.
python_all, python_any, python_complex = all, any, complex
