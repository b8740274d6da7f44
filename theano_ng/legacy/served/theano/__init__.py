"""What ``import theano`` finds first in such a process: it puts this package in its own place."""

from theano_ng import legacy

legacy.install(force=True)
