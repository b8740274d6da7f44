"""What ``import theano`` finds first in a process that a program under ``theano_ng-run`` starts: this package takes its place."""

from theano_ng import legacy

legacy.install(force=True)
