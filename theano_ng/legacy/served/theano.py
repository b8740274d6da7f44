"""The module that ``import theano`` finds first in processes that a program under ``theano_ng-run`` starts.

It makes ``import theano`` return this package, and is itself replaced by it.
"""

from theano_ng import legacy

legacy.install(force=True)
