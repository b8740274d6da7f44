"""The module that ``import theano`` finds first in processes that a program under ``theano_ng-run`` starts.

It calls `legacy.install`, which puts the package theano_ng in the place of this module in ``sys.modules``.
"""

from theano_ng import legacy

legacy.install(force=True)
