"""A variant of ``served/theano.py`` for programs that run with ``--numpy-names``. It also restores removed names."""

from theano_ng import legacy
from theano_ng.legacy import removed

removed.give_back()
legacy.install(force=True)
