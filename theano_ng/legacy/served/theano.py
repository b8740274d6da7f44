"""The module that ``import theano`` finds first in a process started by a program under ``theano_ng-run``.

It installs this package in its place.
"""

from theano_ng import legacy

legacy.install(force=True)
