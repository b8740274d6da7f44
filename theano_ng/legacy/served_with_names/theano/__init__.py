"""What ``import theano`` finds first in such a process: it gives lost names back, and puts this package in its own place."""

from theano_ng import legacy
from theano_ng.legacy import removed

removed.give_back()
legacy.install(force=True)
